// SPDX-License-Identifier: Apache-2.0
// GGUF files of each quantised format, and a mixed one, compared with the results of transformers
// on the dequantised weights (tests/golden/codes, written by tools/golden_codes.py). float32:
// within 1e-4 of the largest magnitude. Held as in the file: the relative error is that of the same
// model in transformers with inputs of products rounded to int8 in groups of 32, times 0.8 to 1.25
// (a different rounding of one input changes all later ones). On a GPU it is that of bfloat16.
#include "base/arena.h"
#include "tests/runtime/gguf_rig.h"
#include "tests/runtime/golden_errors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { VOCAB = 256 };

static const char *const models[] = {"q4-0", "q4-1", "q5-0", "q5-1",   "q8-0",
                                     "q4-k", "q5-k", "q6-k", "q4-k-m", "mxfp4"};

static char **names; // models to run, up to a NULL; none: all

static bool chosen(const char *model)
{
    for (char **name = names; *name; name++)
        if (strcmp(*name, model) == 0)
            return true;
    return !*names;
}

static bool on_cpu(void)
{
    return strcmp(rig_device()->name, "cpu") == 0;
}

// Returns the type of keys and values: float32 where activations are.
static int kv_of(int dtype)
{
    return on_cpu() || dtype == DTYPE_F32 ? DTYPE_F32 : -1;
}

// dtype: -1 to hold the weights as in the file; held: true if some must be held as codes.
static struct golden_errors model_errors(const char *path, const json_t *golden, int dtype,
                                         bool held)
{
    struct rig rig;
    struct model_options options = rig_options();
    options.dtype = dtype;
    options.kv_dtype = kv_of(dtype);
    rig_open(&rig, path, &options);
    assert_true((rig.facts->formats[0] != '\0') == held);
    assert_int_equal(rig.facts->vocab, VOCAB);
    struct golden_errors e = golden_logits_errors(&rig, golden);
    rig_close(&rig);
    return e;
}

static void test_each_format(void **state)
{
    (void)state;
    char folder[64], path[128];
    uint32_t failed = 0;
    bool cpu = on_cpu();
    folder_make(folder);
    snprintf(path, sizeof path, "%s/model.gguf", folder);
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        char name[64];
        if (!chosen(models[i]))
            continue;
        snprintf(name, sizeof name, "codes/%s", models[i]);
        json_t *golden = golden_read(name);
        struct gguf_build b = {.key_count = 0};
        gguf_of_golden(&b, golden);
        struct gguf_bytes bytes = gguf_finish(&b);
        file_write(folder, "model.gguf", bytes.at, bytes.bytes);
        heap_free(bytes.at);
        struct golden_errors exact = model_errors(path, golden, DTYPE_F32, false);
        struct golden_errors held = model_errors(path, golden, -1, cpu || strchr(models[i], '4'));
        double ratio = held.frobenius / json_number_value(json_object_get(golden, "rounded_error"));
        bool good = exact.largest <= 1e-4 && (!cpu || (ratio > 0.8 && ratio < 1.25));
        if (!cpu) {
            struct model_options options = rig_options();
            golden_same_as_bfloat16(path, &options, golden, &held);
        }
        printf("%-8s float32: error %.1e of the largest; as in the file: %.2e in total, %.3f of "
               "transformers' with rounded inputs%s\n",
               models[i], exact.largest, held.frobenius, ratio, good ? "" : "  TOO FAR");
        failed += !good;
        json_decref(golden);
    }
    folder_remove(folder);
    assert_int_equal(failed, 0);
}

int main(int argc, char **argv)
{
    (void)argc;
    names = argv + 1;
    if (!rig_device_usable())
        return 77;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_format)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
