// SPDX-License-Identifier: Apache-2.0
// Rows that compute a value per lane: inputs, and the result according to the PTX manual.
#include "tests/ptx/opcode_rows.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

enum { INPUTS = 4 };

// --- one value of each lane ---

// `shape` is the row's shape with a size for each operand: t is h, w or d, and n is 2, 4 or 8; i is
// a number that must be written as a literal. `row`: the row's shape, or NULL if it is `shape`.
struct value {
    const char *opcode, *shape, *row;
    uint64_t in[INPUTS], want;
};

static int operand_write(char *out, size_t room, char letter, size_t k, uint64_t in)
{
    switch (letter) {
    case 'h':
    case '2':
        return snprintf(out, room, "%%h%zu", k);
    case 'w':
    case '4':
        return snprintf(out, room, "%%r%zu", k);
    case 'd':
    case '8':
        return snprintf(out, room, "%%d%zu", k);
    case 'p':
        return snprintf(out, room, "%%p%zu", k);
    default:
        return snprintf(out, room, "0x%llx", (unsigned long long)in);
    }
}

// Writes instructions that move the inputs into registers.
static int inputs_write(char *out, size_t room, const struct value *v, size_t targets)
{
    size_t n = 0;
    for (size_t k = targets; v->shape[k] != 0; k++) {
        unsigned long long in = v->in[k - targets];
        switch (v->shape[k]) {
        case '2':
            n += (size_t)snprintf(out + n, room - n, "mov.b16 %%h%zu, 0x%llx;\n", k, in & 0xFFFF);
            break;
        case '4':
            n += (size_t)snprintf(out + n, room - n, "mov.b32 %%r%zu, 0x%llx;\n", k,
                                  in & 0xFFFFFFFF);
            break;
        case '8':
            n += (size_t)snprintf(out + n, room - n, "mov.b64 %%d%zu, 0x%llx;\n", k + 1, in);
            break;
        case 'p':
            n += (size_t)snprintf(out + n, room - n,
                                  "mov.b32 %%r40, %llu;\nsetp.ne.s32 %%p%zu, %%r40, 0;\n", in, k);
        }
    }
    return (int)n;
}

static bool brace(const char *shape, size_t k, bool close) // brace of a move with two operands
{
    static const char *const into[] = {"hh4", "ww8"}, *const of[] = {"w22", "d44"};
    for (size_t n = 0; n < 2; n++) {
        if (strcmp(shape, into[n]) == 0)
            return k == (close ? 1 : 0);
        if (strcmp(shape, of[n]) == 0)
            return k == (close ? 2 : 1);
    }
    return false;
}

// Writes the instruction, and the store of its target at `out` in the target's width.
static void value_write(char *body, size_t room, const struct value *v)
{
    bool two = strcmp(v->shape, "hh4") == 0 || strcmp(v->shape, "ww8") == 0;
    bool moves = strncmp(v->opcode, "mov.", 4) == 0;
    size_t n = (size_t)inputs_write(body, room, v, two ? 2 : 1);
    n += (size_t)snprintf(body + n, room - n, "%s ", v->opcode);
    for (size_t k = 0; v->shape[k] != 0; k++) {
        uint64_t in = k > 0 ? v->in[k - 1] : 0;
        size_t index = strchr("d8", v->shape[k]) ? k + 1 : k; // %d0 is the address of the memory
        n += (size_t)snprintf(body + n, room - n, "%s%s", k > 0 ? ", " : "",
                              moves && brace(v->shape, k, false) ? "{" : "");
        n += (size_t)operand_write(body + n, room - n, v->shape[k], index, in);
        n += (size_t)snprintf(body + n, room - n, "%s",
                              moves && brace(v->shape, k, true) ? "}" : "");
    }
    static const char *const stores[] = {
        ";\nst.global.u16 [%d0], %h0;\n", ";\nst.global.u32 [%d0], %r0;\n",
        ";\nst.global.u64 [%d0], %d1;\n",
        ";\nselp.b32 %r41, 1, 0, %p0;\nst.global.u32 [%d0], %r41;\n"};
    n += (size_t)snprintf(body + n, room - n, "%s", stores[strchr("hwdp", v->shape[0]) - "hwdp"]);
    if (two)
        snprintf(body + n, room - n, "%s",
                 v->shape[0] == 'h' ? "st.global.u16 [%d0+2], %h1;\n"
                                    : "st.global.u32 [%d0+4], %r1;\n");
}

static void value_test(const struct value *v)
{
    char body[2048];
    uint64_t got;
    value_write(body, sizeof body, v);
    memset(memory, 0, sizeof memory);
    row_run(v->opcode, v->row ? v->row : v->shape, body);
    memcpy(&got, memory, sizeof got);
    if (!instructions_listed && got != v->want)
        fail_msg("%s of 0x%llx, 0x%llx, 0x%llx gives 0x%llx, not 0x%llx", v->opcode,
                 (unsigned long long)v->in[0], (unsigned long long)v->in[1],
                 (unsigned long long)v->in[2], (unsigned long long)got,
                 (unsigned long long)v->want);
}

static void values_test(const struct value *values, size_t count)
{
    for (size_t k = 0; k < count; k++)
        value_test(&values[k]);
}
#define VALUES(list) values_test(list, sizeof(list) / sizeof(list)[0])

#define ONES UINT64_MAX
#define TOP ((uint64_t)1 << 63)
#define NEG(x) (0 - (uint64_t)(x))
#define NEG32(x) (0xFFFFFFFFu & NEG(x))

void test_values_of_integers(void **state)
{
    (void)state;
    static const struct value values[] = {
        {"add.s16", "h22", NULL, {0x7FFF, 1}, 0x8000},
        {"add.u16", "h22", NULL, {0xFFFF, 2}, 1},
        {"add.s32", "w44", NULL, {0x7FFFFFFF, 1}, 0x80000000},
        {"add.u32", "w44", NULL, {ONES, 2}, 1},
        {"add.s64", "d88", NULL, {0xFFFFFFFF, 1}, 0x100000000},
        {"add.u64", "d88", NULL, {ONES, 2}, 1},
        {"sub.s16", "h22", NULL, {0, 1}, 0xFFFF},
        {"sub.s32", "w44", NULL, {3, 5}, NEG32(2)},
        {"sub.u32", "w44", NULL, {5, 3}, 2},
        {"sub.s64", "d88", NULL, {0x100000000, 1}, 0xFFFFFFFF},
        {"sub.u64", "d88", NULL, {0, 1}, ONES},
        {"mul.lo.s16", "h22", NULL, {0xFFFD, 5}, 0xFFF1},
        {"mul.lo.u16", "h22", NULL, {0x1234, 16}, 0x2340},
        {"mul.lo.s32", "w44", NULL, {NEG(3), 5}, NEG32(15)},
        {"mul.lo.u32", "w44", NULL, {0x10001, 0x10001}, 0x20001},
        {"mul.lo.s64", "d88", NULL, {NEG(3), 5}, NEG(15)},
        {"mul.lo.u64", "d88", NULL, {0x100000001, 0x100000001}, 0x200000001},
        {"mul.hi.u32", "w44", NULL, {0x80000001, 4}, 2},
        {"mul.hi.s32", "w44", NULL, {NEG(8), 0x40000000}, NEG32(2)},
        {"mul.hi.u64", "d88", NULL, {TOP | 1, 4}, 2},
        {"mul.wide.u16", "w22", NULL, {0xFFFF, 0xFFFF}, 0xFFFE0001},
        {"mul.wide.s16", "w22", NULL, {0xFFFE, 3}, NEG32(6)},
        {"mul.wide.u32", "d44", NULL, {ONES, 2}, 0x1FFFFFFFE},
        {"mul.wide.s32", "d44", NULL, {NEG(2), 3}, NEG(6)},
        {"mad.lo.s16", "h222", NULL, {0xFFFD, 5, 20}, 5},
        {"mad.lo.u16", "h222", NULL, {0xFFFF, 2, 3}, 1},
        {"mad.lo.s32", "w444", NULL, {NEG(3), 5, 20}, 5},
        {"mad.lo.u32", "w444", NULL, {0x10001, 0x10001, 7}, 0x20008},
        {"mad.lo.s64", "d888", NULL, {NEG(3), 5, 20}, 5},
        {"mad.lo.u64", "d888", NULL, {0x100000001, 2, 1}, 0x200000003},
        {"mad.wide.u32", "d448", NULL, {ONES, 2, 1}, 0x1FFFFFFFF},
        {"mad.wide.s32", "d448", NULL, {NEG(2), 3, 7}, 1},
        {"min.u16", "h22", NULL, {1, 0xFFFF}, 1},
        {"max.u16", "h22", NULL, {1, 0xFFFF}, 0xFFFF},
        {"min.s16", "h22", NULL, {1, 0xFFFF}, 0xFFFF},
        {"max.s16", "h22", NULL, {1, 0xFFFF}, 1},
        {"min.u32", "w44", NULL, {1, ONES}, 1},
        {"max.u32", "w44", NULL, {1, ONES}, 0xFFFFFFFF},
        {"min.s32", "w44", NULL, {1, ONES}, 0xFFFFFFFF},
        {"max.s32", "w44", NULL, {1, ONES}, 1},
        {"min.u64", "d88", NULL, {1, ONES}, 1},
        {"max.u64", "d88", NULL, {1, ONES}, ONES},
        {"min.s64", "d88", NULL, {1, ONES}, ONES},
        {"max.s64", "d88", NULL, {1, ONES}, 1},
        {"div.u16", "h22", NULL, {0xFFFE, 3}, 21844},
        {"div.u32", "w44", NULL, {NEG(2), 3}, 0x55555554},
        {"div.s32", "w44", NULL, {NEG(7), 2}, NEG32(3)},
        {"div.u64", "d88", NULL, {NEG(2), 3}, 0x5555555555555554},
        {"div.s64", "d88", NULL, {NEG(7), 2}, NEG(3)},
        {"rem.s64", "d88", NULL, {NEG(7), 2}, NEG(1)},
        {"rem.u16", "h22", NULL, {0xFFFE, 3}, 2},
        {"rem.u32", "w44", NULL, {NEG(2), 3}, 2},
        {"rem.s32", "w44", NULL, {NEG(7), 2}, NEG32(1)},
        {"rem.u64", "d88", NULL, {NEG(2), 3}, 2},
        {"neg.s32", "w4", NULL, {5}, NEG32(5)},
        {"neg.s64", "d8", NULL, {5}, NEG(5)},
        {"abs.s32", "w4", NULL, {NEG(5)}, 5},
    };
    VALUES(values);
}

void test_values_of_bits(void **state)
{
    (void)state;
    static const struct value values[] = {
        {"not.b16", "h2", NULL, {0x00FF}, 0xFF00},
        {"not.b32", "w4", NULL, {0xFF}, 0xFFFFFF00},
        {"not.b64", "d8", NULL, {0xFF}, ~(uint64_t)0xFF},
        {"and.b16", "h22", NULL, {0xF0F0, 0xFF00}, 0xF000},
        {"or.b16", "h22", NULL, {0xF0F0, 0xFF00}, 0xFFF0},
        {"xor.b16", "h22", NULL, {0xF0F0, 0xFF00}, 0x0FF0},
        {"and.b32", "w44", NULL, {0xF0F0F0F0, 0xFF00FF00}, 0xF000F000},
        {"or.b32", "w44", NULL, {0xF0F0F0F0, 0xFF00FF00}, 0xFFF0FFF0},
        {"xor.b32", "w44", NULL, {0xF0F0F0F0, 0xFF00FF00}, 0x0FF00FF0},
        {"and.b64", "d88", NULL, {0xF0F0F0F000000000, 0xFF00FF00FF00FF00}, 0xF000F00000000000},
        {"or.b64", "d88", NULL, {0xF0F0F0F000000000, 0xFF00FF00FF00FF00}, 0xFFF0FFF0FF00FF00},
        {"xor.b64", "d88", NULL, {0xF0F0F0F000000000, 0xFF00FF00FF00FF00}, 0x0FF00FF0FF00FF00},
        {"shl.b16", "h24", NULL, {0x8001, 1}, 2},
        {"shl.b16", "h24", NULL, {1, 16}, 0},
        {"shl.b32", "w44", NULL, {0x80000001, 1}, 2},
        {"shl.b32", "w44", NULL, {5, 32}, 0},
        {"shl.b64", "d84", NULL, {1, 40}, 0x10000000000},
        {"shl.b64", "d84", NULL, {1, 64}, 0},
        {"shr.u16", "h24", NULL, {0x8000, 15}, 1},
        {"shr.u32", "w44", NULL, {0x80000000, 31}, 1},
        {"shr.u32", "w44", NULL, {0x80000000, 32}, 0},
        {"shr.u64", "d84", NULL, {TOP, 63}, 1},
        {"shr.s16", "h24", NULL, {0x8000, 15}, 0xFFFF},
        {"shr.s32", "w44", NULL, {NEG(8), 40}, 0xFFFFFFFF},
        {"shr.s32", "w44", NULL, {NEG(8), 2}, NEG32(2)},
        {"shr.s64", "d84", NULL, {TOP, 63}, ONES},
        {"shr.b32", "w44", NULL, {0x80000000, 31}, 1},
        {"shr.b64", "d84", NULL, {TOP, 63}, 1},
        {"popc.b32", "w4", NULL, {0xF00F}, 8},
        {"clz.b32", "w4", NULL, {1}, 31},
        {"clz.b32", "w4", NULL, {0}, 32},
        {"brev.b32", "w4", NULL, {0x12}, 0x48000000},
        {"bfind.u32", "w4", NULL, {0x10001}, 16},
        {"bfind.u32", "w4", NULL, {0}, 0xFFFFFFFF},
        {"bfi.b32", "w4444", NULL, {0, ONES, 4, 3}, 0xFFFFFF8F},
        {"bfi.b32", "w4444", NULL, {5, 0, 30, 3}, 0x40000000},
        {"bfi.b64", "d8844", NULL, {5, 0, 40, 3}, (uint64_t)5 << 40},
        {"bfe.u32", "w444", NULL, {0xF0, 4, 3}, 7},
        {"bfe.u32", "w444", NULL, {0x80000000, 31, 4}, 1},
        {"bfe.u32", "w444", NULL, {0xF0, 0x104, 0x103}, 7}, // only the low bytes are used
        {"bfe.u32", "w444", NULL, {ONES, 4, 0}, 0},
        {"bfe.s32", "w444", NULL, {0x70, 4, 3}, 0xFFFFFFFF},
        {"bfe.s32", "w444", NULL, {0x30, 4, 3}, 3},
        {"bfe.s32", "w444", NULL, {0x80000000, 31, 4}, 0xFFFFFFFF},
        {"bfe.s32", "w444", NULL, {0x80000000, 40, 4}, 0xFFFFFFFF},
        {"bfe.s32", "w444", NULL, {ONES, 4, 0}, 0},
        {"bfe.u64", "d844", NULL, {TOP | 0xF0, 4, 3}, 7},
        {"bfe.u64", "d844", NULL, {TOP, 60, 10}, 8},
        {"bfe.s64", "d844", NULL, {TOP, 60, 10}, NEG(8)},
        {"bfe.s64", "d844", NULL, {0x70, 4, 3}, ONES},
        {"shf.l.wrap.b32", "w444", NULL, {0x80000001, 0x40, 33}, 0x81},
        {"shf.r.wrap.b32", "w444", NULL, {0x80000001, 3, 33}, 0xC0000000},
        {"shf.l.clamp.b32", "w444", NULL, {0x80000001, 0x40, 33}, 0x80000001},
        {"shf.r.clamp.b32", "w444", NULL, {0x80000001, 3, 33}, 3},
        {"prmt.b32", "w444", NULL, {0x33221100, 0x776655C4, 0x4C70}, 0xC4FF7700},
        {"lop3.b32", "w444i", "w4444", {0xF0F0, 0xFF00, 0x00AA, 0xEA}, 0xF0AA},
        {"lop3.b32", "w444i", "w4444", {0xF0F0, 0xFF00, 0x00AA, 0x10}, 0x50},
    };
    VALUES(values);
}

#define NONE 0x7FC00000 // a NaN other than the canonical one
#define CANONICAL 0x7FFFFFFF
#define INF 0x7F800000
#define ONE 0x3F800000
#define TWO 0x40000000
#define THREE 0x40400000
#define MINUS_ONE 0xBF800000

void test_values_of_floats(void **state)
{
    (void)state;
    static const struct value values[] = {
        {"add.rn.f32", "w44", NULL, {ONE, 0x33C00000}, 0x3F800001}, // 1 + 1.5 * 2^-24
        {"add.rn.f32", "w44", NULL, {INF, 0xFF800000}, CANONICAL},
        {"add.f32", "w44", NULL, {0x3FC00000, TWO}, 0x40600000},
        {"add.f32", "w44", NULL, {NONE, TWO}, CANONICAL},
        {"add.rz.f32", "w44", NULL, {ONE, 0x33C00000}, ONE},
        {"sub.rn.f32", "w44", NULL, {INF, INF}, CANONICAL},
        {"sub.f32", "w44", NULL, {ONE, 0x3FC00000}, 0xBF000000},
        {"mul.rn.f32", "w44", NULL, {0, INF}, CANONICAL},
        {"mul.f32", "w44", NULL, {0x3FC00000, 0x3FC00000}, 0x40100000},
        {"mul.ftz.f32", "w44", NULL, {1, 0x4B800000}, 0},
        {"add.rn.f64", "d88", NULL, {0x3FF0000000000000, 0x4000000000000000}, 0x4008000000000000},
        {"mul.rn.f64", "d88", NULL, {0x3FF8000000000000, 0x3FF8000000000000}, 0x4002000000000000},
        {"fma.rn.f32", "w444", NULL, {0x3F800001, 0x3F800001, 0xBF800002}, 0x28800000},
        {"fma.rn.f32", "w444", NULL, {INF, 0, ONE}, CANONICAL},
        {"fma.rn.ftz.f32", "w444", NULL, {0x3F800001, 0x3F800001, 0xBF800002}, 0x28800000},
        {"fma.rn.ftz.f32", "w444", NULL, {ONE, 1, 1}, 0},
        {"fma.rn.f64",
         "d888",
         NULL,
         {0x3FF0000000000001, 0x3FF0000000000001, 0xBFF0000000000002},
         0x3970000000000000}, // 2^-104
        {"fma.rm.f32", "w444", NULL, {ONE, 0x33C00000, ONE}, ONE},
        // Pairs of bfloat16; the values were computed with fractions of integers.
        {"fma.rn.bf16x2", "w444", NULL, {0x3FC03FC1, 0x3FC03F81, 0xBF800000}, 0x3FA03FC3},
        {"fma.rn.bf16x2", "w444", NULL, {0x00408040, 0x7E807E80, 0x80008000}, 0x3F00BF00},
        {"fma.rn.bf16x2", "w444", NULL, {0x00008000, 0x7E803F80, 0x80008000}, 0x00008000},
        {"fma.rn.bf16x2", "w444", NULL, {0x00010003, 0x3F003F00, 0x80008000}, 0x00000002},
        {"fma.rn.bf16x2", "w444", NULL, {0x40003FC0, 0x7F007F00, 0x80008000}, 0x7F807F40},
        // a tie, which the addend decides
        {"fma.rn.bf16x2", "w444", NULL, {0x3F883F88, 0x3F883F88, 0x00018001}, 0x3F913F90},
        {"fma.rn.bf16x2", "w444", NULL, {0x7F7F7F00, 0x40003FC0, 0xFF7FFF40}, 0x7F7F0000},
        {"fma.rn.bf16x2", "w444", NULL, {0x7F803F80, 0x0000BF80, 0x00003F80}, 0x7FFF0000},
        {"div.rn.f32", "w44", NULL, {ONE, THREE}, 0x3EAAAAAB},
        {"div.rn.f32", "w44", NULL, {0, 0}, CANONICAL},
        {"div.rn.ftz.f32", "w44", NULL, {ONE, THREE}, 0x3EAAAAAB},
        {"div.rn.ftz.f32", "w44", NULL, {1, 1}, CANONICAL},
        {"div.full.f32", "w44", NULL, {THREE, TWO}, 0x3FC00000},
        {"min.f32", "w44", NULL, {0, 0x80000000}, 0x80000000},
        {"min.f32", "w44", NULL, {ONE, NONE}, ONE},
        {"max.f32", "w44", NULL, {NONE, MINUS_ONE}, MINUS_ONE},
        {"max.f32", "w44", NULL, {NONE, 0xFFC00000}, CANONICAL},
        {"max.f32", "w44", NULL, {0x80000000, 0}, 0},
        {"min.NaN.f32", "w44", NULL, {ONE, NONE}, CANONICAL},
        {"min.NaN.f32", "w44", NULL, {ONE, TWO}, ONE},
        {"max.NaN.f32", "w44", NULL, {NONE, ONE}, CANONICAL},
        {"max.NaN.f32", "w44", NULL, {ONE, TWO}, TWO},
        {"neg.f32", "w4", NULL, {ONE}, MINUS_ONE},
        {"abs.f32", "w4", NULL, {MINUS_ONE}, ONE},
        {"copysign.f32", "w44", NULL, {MINUS_ONE, TWO}, 0xC0000000},
        {"rcp.rn.f32", "w4", NULL, {THREE}, 0x3EAAAAAB},
        {"sqrt.rn.f32", "w4", NULL, {TWO}, 0x3FB504F3},
        {"sqrt.rn.f32", "w4", NULL, {MINUS_ONE}, CANONICAL},
        {"sqrt.rn.ftz.f32", "w4", NULL, {TWO}, 0x3FB504F3},
        {"sqrt.rn.ftz.f32", "w4", NULL, {1}, 0},
        {"sqrt.approx.f32", "w4", NULL, {0x40800000}, TWO},
        {"sqrt.approx.ftz.f32", "w4", NULL, {0x40800000}, TWO},
        {"sqrt.approx.ftz.f32", "w4", NULL, {1}, 0},
        {"rcp.approx.f32", "w4", NULL, {TWO}, 0x3F000000},
        {"rsqrt.approx.f32", "w4", NULL, {0x40800000}, 0x3F000000},
        {"ex2.approx.f32", "w4", NULL, {0xC3000000}, 0x00200000}, // 2^-128
        {"lg2.approx.f32", "w4", NULL, {0x00200000}, 0xC3000000},
        {"rcp.approx.ftz.f32", "w4", NULL, {TWO}, 0x3F000000},
        {"rcp.approx.ftz.f32", "w4", NULL, {1}, INF},
        {"rsqrt.approx.ftz.f32", "w4", NULL, {0x40800000}, 0x3F000000},
        {"ex2.approx.ftz.f32", "w4", NULL, {THREE}, 0x41000000},
        {"ex2.approx.ftz.f32", "w4", NULL, {0xC3000000}, 0}, // 2^-128
        {"lg2.approx.ftz.f32", "w4", NULL, {0x41000000}, THREE},
    };
    VALUES(values);
}

void test_values_of_conversions(void **state)
{
    (void)state;
    static const struct value values[] = {
        {"cvt.u8.u16", "h2", "tn", {0x1FF}, 0xFF},
        {"cvt.u16.u8", "h2", "tn", {0x1FF}, 0xFF},
        {"cvt.s16.s8", "h2", "tn", {0x80}, 0xFF80},
        {"cvt.u32.u8", "w2", "tn", {0x1FF}, 0xFF},
        {"cvt.s32.s8", "w2", "tn", {0x80}, 0xFFFFFF80},
        {"cvt.u16.u32", "h4", "tn", {0x12345}, 0x2345},
        {"cvt.u16.u64", "h8", "tn", {0x12345}, 0x2345},
        {"cvt.u32.u16", "w2", "tn", {0xFFFF}, 0xFFFF},
        {"cvt.s32.s16", "w2", "tn", {0x8000}, 0xFFFF8000},
        {"cvt.u64.u16", "d2", "tn", {0xFFFF}, 0xFFFF},
        {"cvt.s64.s16", "d2", "tn", {0x8000}, 0xFFFFFFFFFFFF8000},
        {"cvt.u32.u64", "w8", NULL, {0x100000002}, 2},
        {"cvt.u64.u32", "d4", NULL, {ONES}, 0xFFFFFFFF},
        {"cvt.s64.s32", "d4", NULL, {0x80000000}, 0xFFFFFFFF80000000},
        {"cvt.f32.f16", "w2", NULL, {0x3C00}, ONE},
        {"cvt.f32.f16", "w2", NULL, {1}, 0x33800000},
        {"cvt.f32.bf16", "w2", NULL, {0x3F80}, ONE},
        {"cvt.rn.f16.f32", "h4", NULL, {0x477FF000}, 0x7C00}, // 65,520
        {"cvt.rn.f16.f32", "h4", NULL, {0xFFC00000}, 0x7FFF},
        {"cvt.rn.bf16.f32", "h4", NULL, {0x3F808000}, 0x3F80}, // halfway, to even
        {"cvt.rn.bf16.f32", "h4", NULL, {0x3F818000}, 0x3F82},
        {"cvt.rn.bf16.f32", "h4", NULL, {0xFFC00000}, 0x7FFF},
        // the first operand is the upper half
        {"cvt.rn.f16x2.f32", "w44", NULL, {ONE, TWO}, 0x3C004000},
        {"cvt.rn.bf16x2.f32", "w44", NULL, {ONE, TWO}, 0x3F804000},
        {"cvt.rn.f16x2.e4m3x2", "w2", NULL, {0xFE01}, 0xDF001800}, // -448, 2^-9
        {"cvt.rn.f16x2.e4m3x2", "w2", NULL, {0x7F38}, 0x7FFF3C00}, // NaN, 1
        {"cvt.rn.f32.u16", "w2", NULL, {0xFFFF}, 0x477FFF00},
        {"cvt.rn.f32.s16", "w2", NULL, {0xFFFF}, MINUS_ONE},
        {"cvt.rn.f32.u32", "w4", NULL, {ONES}, 0x4F800000},
        {"cvt.rn.f32.s32", "w4", NULL, {ONES}, MINUS_ONE},
        {"cvt.rn.f32.u64", "w8", NULL, {ONES}, 0x5F800000},
        {"cvt.rn.f64.u64", "d8", NULL, {ONES}, 0x43F0000000000000},
        {"cvt.f64.f32", "d4", NULL, {0x3FC00000}, 0x3FF8000000000000},
        {"cvt.rn.f32.f64", "w8", NULL, {0x3FF8000010000000}, 0x3FC00000}, // halfway, to even
        {"cvt.rn.f32.f64", "w8", NULL, {0x3FF8000030000000}, 0x3FC00002},
        {"cvt.sat.f32.f32", "w4", NULL, {TWO}, ONE},
        {"cvt.sat.f32.f32", "w4", NULL, {NONE}, 0},
        {"cvt.rzi.f32.f32", "w4", NULL, {0xC0200000}, 0xC0000000}, // -2.5
        {"cvt.rni.f32.f32", "w4", NULL, {0x40200000}, TWO},        // 2.5
        {"cvt.rni.f32.f32", "w4", NULL, {0x40600000}, 0x40800000},
        {"cvt.rmi.f32.f32", "w4", NULL, {0xC0200000}, 0xC0400000},
        {"cvt.rmi.ftz.f32.f32", "w4", NULL, {0xC0200000}, 0xC0400000},
        {"cvt.rmi.ftz.f32.f32", "w4", NULL, {0x80000001}, 0x80000000},
        {"cvt.rzi.u64.f64", "d8", NULL, {0x7FF8000000000000}, TOP},
        {"cvt.rzi.u64.f64", "d8", NULL, {0x43F0000000000000}, ONES},
        {"cvt.rzi.u64.f32", "d4", NULL, {NONE}, TOP},
        {"cvt.rzi.u64.f32", "d4", NULL, {MINUS_ONE}, 0},
        {"cvt.rzi.u32.f32", "w4", NULL, {MINUS_ONE}, 0},
        {"cvt.rzi.u32.f32", "w4", NULL, {NONE}, 0},
        {"cvt.rzi.s32.f32", "w4", NULL, {0xC0200000}, NEG32(2)},
        {"cvt.rzi.s32.f32", "w4", NULL, {INF}, 0x7FFFFFFF},
        {"cvt.rzi.s32.f32", "w4", NULL, {NONE}, 0},
    };
    VALUES(values);
}

void test_values_of_moves(void **state)
{
    (void)state;
    static const struct value values[] = {
        {"mov.u16", "h2", NULL, {0x1234}, 0x1234},
        {"mov.b16", "h2", NULL, {0x1234}, 0x1234},
        {"mov.u32", "w4", NULL, {0x12345678}, 0x12345678},
        {"mov.s32", "w4", NULL, {0x12345678}, 0x12345678},
        {"mov.b32", "w4", NULL, {0x12345678}, 0x12345678},
        {"mov.f32", "w4", NULL, {0x12345678}, 0x12345678},
        {"mov.u64", "d8", NULL, {0x123456789ABCDEF0}, 0x123456789ABCDEF0},
        {"mov.s64", "d8", NULL, {0x123456789ABCDEF0}, 0x123456789ABCDEF0},
        {"mov.b64", "d8", NULL, {0x123456789ABCDEF0}, 0x123456789ABCDEF0},
        {"mov.f64", "d8", NULL, {0x123456789ABCDEF0}, 0x123456789ABCDEF0},
        {"mov.pred", "pp", "pP", {1}, 1},
        {"mov.b32", "w22", NULL, {0x1111, 0x2222}, 0x22221111},
        {"mov.b64", "d44", NULL, {0x11111111, 0x22222222}, 0x2222222211111111},
        {"mov.b32", "hh4", NULL, {0x22221111}, 0x22221111},
        {"mov.b64", "ww8", NULL, {0x2222222211111111}, 0x2222222211111111},
        {"cvta.to.global.u64", "d8", NULL, {0x123456789ABCDEF0}, 0x123456789ABCDEF0},
        {"and.pred", "ppp", NULL, {1, 0}, 0},
        {"and.pred", "ppp", NULL, {1, 1}, 1},
        {"or.pred", "ppp", NULL, {1, 0}, 1},
        {"or.pred", "ppp", NULL, {0, 0}, 0},
        {"xor.pred", "ppp", NULL, {1, 0}, 1},
        {"xor.pred", "ppp", NULL, {1, 1}, 0},
        {"not.pred", "pp", NULL, {1}, 0},
        {"not.pred", "pp", NULL, {0}, 1},
    };
    VALUES(values);
    static const char *const types[] = {"b16", "u16", "b32", "u32", "s32",
                                        "f32", "b64", "u64", "s64", "f64"};
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++)
        for (uint64_t first = 0; first < 2; first++) {
            char opcode[32];
            snprintf(opcode, sizeof opcode, "selp.%s", types[t]);
            const char *shape = types[t][1] == '1' ? "h22p" : types[t][1] == '3' ? "w44p" : "d88p";
            value_test(&(struct value){opcode, shape, NULL, {7, 9, first}, first ? 7 : 9});
        }
}

void test_comparisons_of_integers(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint64_t less, more, equal;
    } all[] = {{"eq", 0, 0, 1}, {"ne", 1, 1, 0}, {"lt", 1, 0, 0},
               {"le", 1, 0, 1}, {"gt", 0, 1, 0}, {"ge", 0, 1, 1}};
    static const char *const types[] = {"u16", "s16", "b16", "u32", "s32",
                                        "b32", "u64", "s64", "b64"};
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++)
        for (size_t k = 0; k < (types[t][0] == 'b' ? 2 : 6); k++) {
            char opcode[32];
            snprintf(opcode, sizeof opcode, "setp.%s.%s", all[k].name, types[t]);
            const char *shape = types[t][1] == '1' ? "p22" : types[t][1] == '3' ? "p44" : "p88";
            uint64_t ones = types[t][0] == 's' ? all[k].less : all[k].more; // combined with 1
            value_test(&(struct value){opcode, shape, NULL, {ONES, 1}, ones});
            value_test(&(struct value){opcode, shape, NULL, {1, 2}, all[k].less});
            value_test(&(struct value){opcode, shape, NULL, {5, 5}, all[k].equal});
        }
}

void test_comparisons_of_floats(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint64_t none, less, more, equal;
    } all[] = {{"eq", 0, 0, 0, 1},  {"ne", 0, 1, 1, 0},  {"lt", 0, 1, 0, 0},  {"le", 0, 1, 0, 1},
               {"gt", 0, 0, 1, 0},  {"ge", 0, 0, 1, 1},  {"equ", 1, 0, 0, 1}, {"neu", 1, 1, 1, 0},
               {"ltu", 1, 1, 0, 0}, {"leu", 1, 1, 0, 1}, {"gtu", 1, 0, 1, 0}, {"geu", 1, 0, 1, 1},
               {"nan", 1, 0, 0, 0}};
    for (size_t k = 0; k < sizeof all / sizeof all[0]; k++) {
        char opcode[32];
        snprintf(opcode, sizeof opcode, "setp.%s.f32", all[k].name);
        value_test(&(struct value){opcode, "p44", NULL, {NONE, ONE}, all[k].none});
        value_test(&(struct value){opcode, "p44", NULL, {MINUS_ONE, ONE}, all[k].less});
        value_test(&(struct value){opcode, "p44", NULL, {TWO, ONE}, all[k].more});
        value_test(&(struct value){opcode, "p44", NULL, {0, 0x80000000}, all[k].equal});
    }
}
