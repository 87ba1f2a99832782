// SPDX-License-Identifier: Apache-2.0
// Compares every op of every device with the references in double: the cpu device at each ISA level
// of this processor, and the plugins simt, cuda and ptx.
//
//   conformance                     all devices that are found
//   conformance cpu|simt|cuda|ptx   one device; a plugin that is named must be found
//   conformance cpu LEVEL|OP|few    one ISA level by its name ("AVX2"); one op of OP_LIST; or few
//                                   cases of each op
//   conformance cpu LEVEL few       few cases of each op at that level
//   conformance NAME PATH [OP] [few|types]
//                                   a plugin at a path; one op; few cases of each op in bfloat16;
//                                   or few cases of each op in each type
//
// The option --fast, in any place, tests the default mode instead of exact mode, in which plugins
// may multiply with a library. Seeds are fixed and printed with each failure. Exit status 77:
// nothing to test.
#include "tests/conformance/trial.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

// Values of trial_few. Twelve cases of attention have each type of keys, paged and ragged; nine
// have each head dim and so each of its kernels.
enum { FEW_CPU = 12, FEW_TYPES = 9, FEW_PLUGIN = 4 };

static bool one_type; // true: activations of plugins are bfloat16 only

static void ops_walk(struct trial *t, const char *only)
{
    bool seen[DTYPE_COUNT] = {false};
    for (int d = 0; d < DTYPE_I8; d++) {
        enum dtype act = t->facts.activation[d];
        bool plugin = t->level == CPU_ISA_COUNT;
        if (seen[act] || (one_type && plugin && act != DTYPE_BF16))
            continue;
        seen[act] = true;
#define WALK(op)                                                                                   \
    if (!only || strcmp(only, #op) == 0) {                                                         \
        uint32_t before = t->failures;                                                             \
        t->bits = 0;                                                                               \
        try_##op(t, act);                                                                          \
        printf("%s %s, %s: %s, bits %016" PRIx64 "\n",                                             \
               t->failures == before ? "ok    " : "FAILED", t->name, dtype_name(act), #op,         \
               t->bits);                                                                           \
    }
        OP_LIST(WALK)
#undef WALK
    }
    printf("%s: %s, %u cases, %u failures\n", t->name, t->facts.name, t->cases, t->failures);
}

static uint32_t plugin_walk(const char *name, const char *path, const char *op, uint32_t *tested)
{
    struct trial t;
    if (!trial_open_plugin(&t, name, path))
        return 0;
    ops_walk(&t, op);
    trial_close(&t);
    ++*tested;
    return t.failures;
}

static bool is_op(const char *name)
{
#define IS_NAMED(op)                                                                               \
    if (strcmp(name, #op) == 0)                                                                    \
        return true;
    OP_LIST(IS_NAMED)
#undef IS_NAMED
    return false;
}

static uint32_t cpu_walk(const char *op, uint32_t *tested)
{
    uint32_t failures = 0;
    for (int level = 0; level < CPU_ISA_COUNT; level++) {
        struct trial t;
        if (!trial_open_cpu(&t, (enum cpu_isa)level, 3))
            continue;
        ops_walk(&t, op);
        trial_close(&t);
        failures += t.failures;
        ++*tested;
    }
    return failures;
}

// Removes the option from the arguments. Returns true if it was there.
static bool option_remove(int *argc, char **argv, const char *option)
{
    int kept = 1;
    for (int i = 1; i < *argc; i++)
        if (strcmp(argv[i], option) != 0)
            argv[kept++] = argv[i];
    bool found = kept < *argc;
    *argc = kept;
    return found;
}

int main(int argc, char **argv)
{
    trial_fast = option_remove(&argc, argv, "--fast");
    bool few = option_remove(&argc, argv, "few");
    bool types = option_remove(&argc, argv, "types");
    const char *only = argc > 1 ? argv[1] : NULL;
    const char *path = argc > 2 ? argv[2] : NULL;
    uint32_t failures = 0;
    uint32_t tested = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    bool cpu = only && strcmp(only, "cpu") == 0;
    const char *op = cpu ? path : argc > 3 ? argv[3] : NULL;
    if (op && !is_op(op)) {
        trial_only_level = cpu ? op : NULL;
        check(cpu, "no op '%s'", op);
        op = NULL;
    }
    trial_few = few ? FEW_CPU : 0;
    if (!only || cpu)
        failures += cpu_walk(op, &tested);
    static const char *const plugins[] = {"simt", "cuda", "ptx"};
    one_type = few;
    trial_few = few ? FEW_PLUGIN : types ? FEW_TYPES : 0;
    for (size_t i = 0; i < sizeof plugins / sizeof plugins[0]; i++)
        if (!only || strcmp(only, plugins[i]) == 0)
            failures += plugin_walk(plugins[i], path, op, &tested);
    if (failures > 0)
        return 1;
    return tested > 0 ? 0 : 77;
}
