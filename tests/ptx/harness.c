// SPDX-License-Identifier: Apache-2.0
// Runs pieces of PTX for the interpreter's tests; see harness.h.
#include "tests/ptx/harness.h"

uint32_t memory[WORDS];
char reported[1024];
struct ptx_counts counts;
uint32_t seed;
uint32_t dynamic_bytes;
uint32_t blocks = 1;
bool launched_early;

static bool holds(const void *at, size_t bytes, const char **first, const char **end)
{
    *first = (const char *)memory;
    *end = (const char *)memory + sizeof memory;
    return (const char *)at >= *first && (const char *)at + bytes <= *end;
}

void fault_record(const char *text)
{
    snprintf(reported, sizeof reported, "%s", text);
}

const char *kernel_text(const char *body)
{
    static char text[8192];
    snprintf(text, sizeof text,
             ".version 9.0\n.target sm_90a\n.address_size 64\n"
             ".visible .entry k(.param .u64 out)\n.maxntid 128, 1, 1\n{\n"
             ".reg .pred %%p<8>;\n.reg .b16 %%h<16>;\n.reg .b32 %%r<64>;\n.reg .f32 %%f<32>;\n"
             ".reg .b64 %%d<16>;\n.shared .align 16 .b8 room[8192];\n"
             "ld.param.u64 %%d0, [out];\nmov.u32 %%r0, %%tid.x;\nmul.wide.u32 %%d1, %%r0, 4;\n"
             "add.s64 %%d2, %%d0, %%d1;\n%s\nst.global.u32 [%%d2], %%r1;\nret;\n}\n",
             body);
    return text;
}

static bool run(const char *body, uint32_t threads)
{
    char why[256];
    const char *text = kernel_text(body);
    struct ptx_module *m = ptx_module_read(text, strlen(text), why, sizeof why);
    if (!m)
        fail_msg("%s", why);
    struct ptx_kernel *k = ptx_kernel_find(m, "k");
    assert_non_null(k);
    struct ptx_shape shape = {.grid = {blocks, 1, 1},
                              .block = {threads, 1, 1},
                              .shared_bytes = dynamic_bytes,
                              .seed = seed,
                              .early = launched_early};
    struct ptx_watch watch = {holds, fault_record};
    void *parameter = memory;
    reported[0] = 0;
    bool fine = ptx_kernel_run(k, &shape, &parameter, &watch);
    ptx_kernel_counts(k, &counts);
    ptx_module_free(m);
    assert_int_equal(fine, reported[0] == 0);
    return fine;
}

void expect_run(const char *body, uint32_t threads)
{
    if (!run(body, threads))
        fail_msg("%s", reported);
}

void expect_fault(const char *body, uint32_t threads, const char *words)
{
    assert_false(run(body, threads));
    if (!strstr(reported, words))
        fail_msg("'%s' is not in '%s'", words, reported);
}

void expect_refusal(const char *body, const char *words)
{
    char why[256];
    const char *text = kernel_text(body);
    assert_null(ptx_module_read(text, strlen(text), why, sizeof why));
    if (!strstr(why, words))
        fail_msg("'%s' is not in '%s'", words, why);
}

uint32_t value(const char *body)
{
    expect_run(body, 32);
    for (int l = 1; l < 32; l++)
        assert_int_equal(memory[l], memory[0]);
    return memory[0];
}
