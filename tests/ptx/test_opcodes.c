// SPDX-License-Identifier: Apache-2.0
// Each row of the table: an opcode, its inputs, and the value according to the PTX manual. Loads,
// stores and atomics have a row for each space, vector and type. The last test asserts that every
// row was tested.
//
// `test_opcodes --write FILE` writes the instructions as PTX, so that ptxas can check them.
#include "tests/ptx/opcode_rows.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

enum { ROWS_MAX = 1024, TEXT = 8192 };

uint32_t memory[WORDS];
uint32_t given[4];
bool instructions_listed;
static struct ptx_row rows[ROWS_MAX];
static uint32_t row_count;
static bool tested[ROWS_MAX];
static FILE *list;

static bool holds(const void *at, size_t bytes, const char **first, const char **end)
{
    *first = (const char *)memory;
    *end = (const char *)memory + sizeof memory;
    return (const char *)at >= *first && (const char *)at + bytes <= *end;
}

static void hear(const char *text)
{
    fail_msg("%s", text);
}

static void row_mark(const char *row, const char *shape)
{
    for (; row_count < ROWS_MAX && ptx_opcode(row_count, &rows[row_count]); row_count++) {
    }
    assert_in_range(row_count, 1, ROWS_MAX - 1);
    for (uint32_t r = 0; r < row_count; r++)
        if (strcmp(rows[r].opcode, row) == 0 && strcmp(rows[r].shape, shape) == 0) {
            tested[r] = true;
            return;
        }
    fail_msg("the table has no row %s %s", row, shape);
}

void row_run(const char *row, const char *shape, const char *body)
{
    static uint32_t number;
    char text[TEXT], why[256];
    int n = snprintf(text, sizeof text,
                     ".visible .entry k%u(.param .u64 out, .param .align 16 .b8 given[16])\n{\n"
                     ".reg .pred %%p<8>;\n.reg .b16 %%h<16>;\n.reg .b32 %%r<64>;\n"
                     ".reg .b64 %%d<16>;\n.shared .align 16 .b8 room[4096];\n"
                     "ld.param.u64 %%d0, [out];\n%s\nret;\n}\n",
                     number++, body);
    assert_in_range(n, 1, sizeof text - 1);
    if (instructions_listed) {
        fputs(text, list);
        return;
    }
    struct ptx_module *m = ptx_module_read(text, (size_t)n, why, sizeof why);
    if (!m)
        fail_msg("%s %s: %s", row, shape, why);
    struct ptx_kernel *k = ptx_kernel_at(m, 0);
    struct ptx_shape grid = {.grid = {1, 1, 1}, .block = {32, 1, 1}};
    struct ptx_watch watch = {holds, hear};
    struct {
        void *out;
        uint64_t apart;
        uint32_t given[4];
    } parameters = {.out = memory};
    memcpy(parameters.given, given, sizeof given);
    assert_int_equal(ptx_kernel_parameter_bytes(k), sizeof parameters);
    assert_true(ptx_kernel_run(k, &grid, &parameters, &watch));
    struct ptx_issued i;
    bool issued = false;
    for (uint32_t o = 0; !issued && ptx_kernel_opcode(k, o, &i); o++)
        issued = strcmp(i.row.opcode, row) == 0 && strcmp(i.row.shape, shape) == 0 && i.issued != 0;
    if (!issued)
        fail_msg("the row %s %s was not issued", row, shape);
    ptx_module_free(m);
    row_mark(row, shape);
}

// --- the table itself ---

static void test_each_row_was_tested(void **state)
{
    (void)state;
    uint32_t missing = 0;
    for (uint32_t r = 0; !instructions_listed && r < row_count; r++) {
        if (!tested[r])
            print_error("no test runs the row %s %s\n", rows[r].opcode, rows[r].shape);
        missing += !tested[r];
    }
    assert_int_equal(missing, 0);
}

int main(int count, char **words)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_of_integers),
        cmocka_unit_test(test_values_of_bits),
        cmocka_unit_test(test_values_of_floats),
        cmocka_unit_test(test_values_of_conversions),
        cmocka_unit_test(test_values_of_moves),
        cmocka_unit_test(test_comparisons_of_integers),
        cmocka_unit_test(test_comparisons_of_floats),
        cmocka_unit_test(test_matrices_of_fragments),
        cmocka_unit_test(test_exchanges_between_lanes),
        cmocka_unit_test(test_flow_and_barriers),
        cmocka_unit_test(test_loads),
        cmocka_unit_test(test_stores),
        cmocka_unit_test(test_atomics),
        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_local_addresses),
        cmocka_unit_test(test_half_of_a_word_may_be_left_out),
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_each_row_was_tested),
    };
    if (count == 3 && strcmp(words[1], "--write") == 0) {
        list = fopen(words[2], "w");
        assert_non_null(list);
        fputs(".version 8.0\n.target sm_90a\n.address_size 64\n", list);
        instructions_listed = true;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
