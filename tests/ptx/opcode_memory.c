// SPDX-License-Identifier: Apache-2.0
// Rows of memory: loads and stores of each space, vector and type, atomics, asynchronous copies.
#include "tests/ptx/opcode_rows.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// --- loads and stores ---

// Lane l loads or stores 16 bytes at word FROM + 4 l; its results are written at word 8 l. Memory
// of another space is filled from FROM, or copied back to it.
enum { FROM = 512, BYTES = 16, BODY = 4096 };

static const char *const types[] = {"b8",  "u8",  "s8",  "b16", "u16", "s16", "b32",
                                    "u32", "s32", "f32", "b64", "u64", "s64", "f64"};
enum { TYPES = sizeof types / sizeof types[0] };

static const struct space {
    const char *name, *at, *fill, *back;
} spaces[] = {
    {"", "%d4", "", "ld.global.v4.b32 {%r20, %r21, %r22, %r23}, [%d4];\n"},
    {".global", "%d4", "", "ld.global.v4.b32 {%r20, %r21, %r22, %r23}, [%d4];\n"},
    {".shared", "%r52", "st.shared.v4.b32 [%r52], {%r20, %r21, %r22, %r23};\n",
     "ld.shared.v4.b32 {%r20, %r21, %r22, %r23}, [%r52];\n"},
    {".local", "own", "st.local.v4.b32 [own], {%r20, %r21, %r22, %r23};\n",
     "ld.local.v4.b32 {%r20, %r21, %r22, %r23}, [own];\n"},
    {".param", "given", "", NULL},
};
enum { SPACES = sizeof spaces / sizeof spaces[0] };

// Computes the addresses, and loads the lane's 16 bytes into %r20 to %r23 and into the space.
#define BEGIN                                                                                      \
    ".local .align 16 .b8 own[16];\nmov.u32 %%r0, %%tid.x;\nmul.wide.u32 %%d2, %%r0, 32;\n"        \
    "add.s64 %%d2, %%d0, %%d2;\nmul.wide.u32 %%d4, %%r0, 16;\nadd.s64 %%d4, %%d0, %%d4;\n"         \
    "add.s64 %%d4, %%d4, 2048;\nmov.u32 %%r50, room;\nshl.b32 %%r51, %%r0, 4;\n"                   \
    "add.s32 %%r52, %%r50, %%r51;\nld.global.v4.b32 {%%r20, %%r21, %%r22, %%r23}, [%%d4];\n%s"

static uint8_t byte_of(uint32_t lane, uint32_t k)
{
    return (uint8_t)(0x9D + 37 * lane + 59 * k); // some values of each type are negative
}

static void bytes_fill(void)
{
    memset(memory, 0, sizeof memory);
    for (uint32_t l = 0; l < 32; l++)
        for (uint32_t k = 0; k < BYTES; k++)
            ((uint8_t *)(memory + FROM))[l * BYTES + k] = byte_of(l, k);
    memcpy(given, memory + FROM, sizeof given);
}

static uint32_t type_bytes(const char *type)
{
    return (uint32_t)strtoul(type + 1, NULL, 10) / 8;
}

// Writes a list such as {%r8, %r9} of registers of that many bytes.
static void vector_write(char *out, size_t room, uint32_t count, uint32_t bytes)
{
    char letter = bytes == 2 ? 'h' : bytes == 4 ? 'r' : 'd';
    size_t n = (size_t)snprintf(out, room, count > 1 ? "{" : "");
    for (uint32_t k = 0; k < count; k++)
        n += (size_t)snprintf(out + n, room - n, "%s%%%c%u", k > 0 ? ", " : "", letter, 8 + k);
    snprintf(out + n, room - n, count > 1 ? "}" : "");
}

// Writes the row's name: b means u and f, and s if no sign extension is possible.
static void row_write(char *out, size_t room, const char *family, const char *space, uint32_t count,
                      const char *type)
{
    bool is_signed = type[0] == 's' && family[0] == 'l' && type_bytes(type) < 8;
    snprintf(out, room, "%s%s%s.%c%s", family, space,
             count == 1   ? ""
             : count == 2 ? ".v2"
                          : ".v4",
             is_signed ? 's' : 'b', type + 1);
}

// Loads into registers of `wide` bytes, which are stored completely, 8 bytes apart.
static void load_test(const struct space *s, const char *type, uint32_t count, uint32_t wide)
{
    char body[BODY], registers[64], row[64];
    uint32_t bytes = type_bytes(type);
    vector_write(registers, sizeof registers, count, wide);
    size_t n = (size_t)snprintf(body, sizeof body, BEGIN "ld%s%s.%s %s, [%s];\n", s->fill, s->name,
                                count == 1   ? ""
                                : count == 2 ? ".v2"
                                             : ".v4",
                                type, registers, s->at);
    for (uint32_t k = 0; k < count; k++)
        n += (size_t)snprintf(body + n, sizeof body - n, "st.global.b%u [%%d2+%u], %%%c%u;\n",
                              8 * wide, 8 * k,
                              wide == 2   ? 'h'
                              : wide == 4 ? 'r'
                                          : 'd',
                              8 + k);
    row_write(row, sizeof row, "ld", s->name, count, type);
    bytes_fill();
    row_run(row, "", body);
    for (uint32_t l = 0; l < 32 && !instructions_listed; l++)
        for (uint32_t k = 0; k < count; k++) {
            uint32_t lane = strcmp(s->name, ".param") == 0 ? 0 : l;
            uint64_t want = 0, got = 0;
            for (uint32_t b = 0; b < bytes; b++)
                want |= (uint64_t)byte_of(lane, k * bytes + b) << (8 * b);
            if (type[0] == 's' && want >> (8 * bytes - 1) & 1 && bytes < 8)
                want |= UINT64_MAX << (8 * bytes);
            want &= wide < 8 ? (UINT64_C(1) << (8 * wide)) - 1 : UINT64_MAX;
            memcpy(&got, memory + 8 * l + 2 * k, wide);
            if (got != want)
                fail_msg("%s of %u bytes, lane %u, element %u: 0x%llx, not 0x%llx", row, wide, l, k,
                         (unsigned long long)got, (unsigned long long)want);
        }
}

// Stores registers of `wide` bytes, of which `bytes` are stored, over 16 bytes of 0xEE.
static void store_test(const struct space *s, const char *type, uint32_t count, uint32_t wide)
{
    char body[BODY], registers[64], row[64];
    uint32_t bytes = type_bytes(type);
    vector_write(registers, sizeof registers, count, wide);
    size_t n = (size_t)snprintf(body, sizeof body, BEGIN "mov.b32 %%r20, 0xEEEEEEEE;\n", "");
    for (uint32_t k = 0; k < count; k++)
        n += (size_t)snprintf(body + n, sizeof body - n, "ld.global.b%u %%%c%u, [%%d4+%u];\n",
                              8 * wide,
                              wide == 2   ? 'h'
                              : wide == 4 ? 'r'
                                          : 'd',
                              8 + k, k * wide % BYTES);
    n += (size_t)snprintf(body + n, sizeof body - n,
                          "mov.b32 %%r21, %%r20;\nmov.b32 %%r22, %%r20;\nmov.b32 %%r23, %%r20;\n"
                          "st.global.v4.b32 [%%d4], {%%r20, %%r21, %%r22, %%r23};\n%s"
                          "st%s%s.%s [%s], %s;\n%sst.global.v4.b32 [%%d2], {%%r20, %%r21, %%r22, "
                          "%%r23};\n",
                          s->fill, s->name,
                          count == 1   ? ""
                          : count == 2 ? ".v2"
                                       : ".v4",
                          type, s->at, registers, s->back);
    assert_in_range(n, 1, sizeof body - 1);
    row_write(row, sizeof row, "st", s->name, count, type);
    bytes_fill();
    row_run(row, "", body);
    for (uint32_t l = 0; l < 32 && !instructions_listed; l++)
        for (uint32_t k = 0; k < BYTES; k++) {
            uint32_t from = k / bytes * wide % BYTES + k % bytes;
            uint8_t want = k < count * bytes ? byte_of(l, from) : 0xEE;
            uint8_t got = ((const uint8_t *)(memory + 8 * l))[k];
            if (got != want)
                fail_msg("%s of %u bytes, lane %u, byte %u: 0x%x, not 0x%x", row, wide, l, k, got,
                         want);
        }
}

// Runs a test for each space, vector, type and register width.
static void accesses_test(uint32_t space_count,
                          void (*test)(const struct space *, const char *, uint32_t, uint32_t))
{
    for (uint32_t s = 0; s < space_count; s++)
        for (uint32_t t = 0; t < TYPES; t++)
            for (uint32_t count = 1; count <= 4; count *= 2) {
                uint32_t bytes = type_bytes(types[t]);
                for (uint32_t wide = bytes < 2 ? 2 : bytes; wide <= 8; wide *= 2)
                    if (count * bytes <= BYTES && (types[t][0] != 'f' || wide == bytes))
                        test(&spaces[s], types[t], count, wide);
            }
}

void test_loads(void **state)
{
    (void)state;
    accesses_test(SPACES, load_test);
}

void test_stores(void **state)
{
    (void)state;
    accesses_test(SPACES - 1, store_test); // parameters cannot be written
}

// --- atomics ---

static uint32_t lanes_below(uint32_t l)
{
    return l * (l - 1) / 2;
}
static uint32_t over_a_word(uint32_t l) // the low word plus 7 times the high word
{
    uint64_t sum = 0xFFFFFFF0u + (uint64_t)lanes_below(l);
    return (uint32_t)sum + 7 * (uint32_t)(sum >> 32);
}
static uint32_t bits_below(uint32_t l)
{
    return l == 0 ? 0 : ((uint32_t)1 << l) - 1;
}
static uint32_t bits_left(uint32_t l)
{
    return l == 0 ? UINT32_MAX : UINT32_MAX << l;
}
// half of the lanes have values that would be negative if signed
static uint32_t over_the_sign(uint32_t l)
{
    return l == 0 ? 5 : 0x7FFFFFF0 + l - 1;
}
static uint32_t lane_one_before(uint32_t l)
{
    return l == 0 ? 77 : l - 1;
}

// Tests the value that each atomic returns, in each space.
void test_atomics(void **state)
{
    (void)state;
    static const struct {
        const char *name, *shape, *operand; // operand: %r2 or %d5
        const char *first;                  // first: initial value of the word
        uint32_t (*want)(uint32_t lane);
    } all[] = {
        {"add.u32", "wa4", "mov.u32 %r2, %r0;\n", "0", lanes_below},
        {"add.u64", "da8", "cvt.u64.u32 %d5, %r0;\n", "0xFFFFFFF0", over_a_word},
        {"or.b32", "wa4", "mov.u32 %r2, 1;\nshl.b32 %r2, %r2, %r0;\n", "0", bits_below},
        {"and.b32", "wa4", "mov.u32 %r3, -1;\nshl.b32 %r2, %r3, %r0;\nshl.b32 %r2, %r2, 1;\n",
         "0xFFFFFFFF", bits_left},
        {"max.u32", "wa4", "add.u32 %r2, %r0, 0x7FFFFFF0;\n", "5", over_the_sign},
        {"exch.b32", "wa4", "mov.u32 %r2, %r0;\n", "77", lane_one_before},
    };
    static const char *const places[][2] = {
        {"", "%d0+512"}, {".global", "%d0+512"}, {".shared", "room"}};
    for (size_t k = 0; k < sizeof all / sizeof all[0]; k++)
        for (size_t p = 0; p < sizeof places / sizeof places[0]; p++) {
            char body[BODY], row[64];
            bool wide = all[k].shape[0] == 'd';
            snprintf(row, sizeof row, "atom%s.%s", places[p][0], all[k].name);
            snprintf(body, sizeof body,
                     "mov.u64 %%d7, %s;\nsetp.eq.s32 %%p1, %%r0, 0;\n@%%p1 st%s.u64 [%s], %%d7;\n"
                     "bar.warp.sync -1;\n%s%s %s, [%s], %s;\n%s",
                     all[k].first, places[p][0], places[p][1], all[k].operand, row,
                     wide ? "%d6" : "%r1", places[p][1], wide ? "%d5" : "%r2",
                     wide ? "mov.b64 {%r1, %r4}, %d6;\nmad.lo.u32 %r1, %r4, 7, %r1;\n" : "");
            together_test(&(struct together){row, all[k].shape, body, all[k].want});
        }
}

// --- copies ---

// Copies `bytes` of each lane's 16 bytes, of which `read` are read (UINT32_MAX: not specified),
// over 0xEE, and stores the resulting 16 bytes.
static void copy_test(const char *opcode, char letter, uint32_t bytes, uint32_t read,
                      const char *wait)
{
    char body[BODY], shape[8];
    bool said = read != UINT32_MAX;
    size_t n = (size_t)snprintf(body, sizeof body, BEGIN, "");
    snprintf(body + n, sizeof body - n,
             "mov.b32 %%r20, 0xEEEEEEEE;\nst.shared.v4.b32 [%%r52], {%%r20, %%r20, %%r20, %%r20};\n"
             "mov.u32 %%r5, %u;\n%s [%%r52], [%%d4], %u%s;\n%s"
             "ld.shared.v4.b32 {%%r20, %%r21, %%r22, %%r23}, [%%r52];\n"
             "st.global.v4.b32 [%%d2], {%%r20, %%r21, %%r22, %%r23};\n",
             said ? read : 0, opcode, bytes, said ? ", %r5" : "", wait);
    snprintf(shape, sizeof shape, "aa%c%s", letter, said ? "4" : "");
    bytes_fill();
    row_run(opcode, shape, body);
    for (uint32_t l = 0; l < 32 && !instructions_listed; l++)
        for (uint32_t k = 0; k < BYTES; k++) {
            uint8_t copied = k < (said ? read : bytes) ? byte_of(l, k) : 0;
            uint8_t want = k < bytes ? copied : 0xEE;
            uint8_t got = ((const uint8_t *)(memory + 8 * l))[k];
            if (got != want)
                fail_msg("%s of %u bytes, %u read: byte %u is 0x%x, not 0x%x", opcode, bytes, read,
                         k, got, want);
        }
}

static uint32_t word_fourth(uint32_t l)
{
    return 1000 + 256 + 4 * l + 3;
}

void test_copies(void **state)
{
    (void)state;
    static const char all[] = "cp.async.ca.shared.global", cached[] = "cp.async.cg.shared.global";
    static const char *const waits[] = {"cp.async.commit_group;\ncp.async.wait_group 0;\n",
                                        "cp.async.wait_all;\n"};
    const uint32_t reads[] = {UINT32_MAX, 0, 1, 3, 4, 7, 8, 12, 16};
    for (size_t w = 0; w < 2; w++)
        for (size_t k = 0; k < sizeof reads / sizeof reads[0]; k++)
            for (uint32_t bytes = 4; bytes <= 16; bytes *= 2) {
                char letter = bytes == 4 ? 'A' : bytes == 8 ? 'B' : 'C';
                bool fits = reads[k] == UINT32_MAX || reads[k] <= bytes;
                if (fits)
                    copy_test(all, letter, bytes, reads[k], waits[w]);
                if (fits && bytes == 16)
                    copy_test(cached, letter, bytes, reads[k], waits[w]);
            }
#define BEGUN                                                                                      \
    "mul.wide.u32 %d3, %r0, 16;\nadd.s64 %d4, %d0, %d3;\n"                                         \
    "cp.async.ca.shared.global [%r52], [%d4+1024], 16;\n"
#define TAKEN "ld.shared.u32 %r1, [%r52+12];\n"
    static const struct together rows[] = {
        {"cp.async.commit_group", "",
         BEGUN "cp.async.commit_group;\ncp.async.wait_group 0;\n" TAKEN, word_fourth},
        {"cp.async.wait_group", "i", BEGUN "cp.async.commit_group;\ncp.async.wait_group 0;\n" TAKEN,
         word_fourth},
        {"cp.async.wait_all", "", BEGUN "cp.async.wait_all;\n" TAKEN, word_fourth},
        {"prefetch.global.L2", "a",
         BEGUN "prefetch.global.L2 [%d4+1024];\ncp.async.wait_all;\n" TAKEN, word_fourth},
        {"cp.async.bulk.prefetch.L2.global", "aw",
         BEGUN "mov.u32 %r1, 16;\ncp.async.bulk.prefetch.L2.global [%d4+1024], %r1;\n"
               "cp.async.wait_all;\n" TAKEN,
         word_fourth},
    };
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++)
        together_test(&rows[k]);
}

static uint32_t own_lane(uint32_t l)
{
    return l;
}

void test_local_addresses(void **state)
{
    (void)state;
    static const struct together local = {
        "cvta.local.u64", "d8",
        ".local .align 4 .b8 own[16];\nst.local.u32 [own+4], %r0;\nmov.u64 %d5, own;\n"
        "cvta.local.u64 %d6, %d5;\nld.u32 %r1, [%d6+4];\n",
        own_lane};
    together_test(&local);
}
