// SPDX-License-Identifier: Apache-2.0
// Folders of each quantised format (tests/golden/packed, written by tools/golden_packed.py). The
// weights equal (code - zero) * scale in float32 bit for bit, also in parts that begin inside a
// block. The logits are those of transformers on these weights: in float32 within 1e-5 of the
// largest; held as codes, int8 or bfloat16 with a relative error below 0.06. WEFT_TEST_RANKS and
// WEFT_TEST_DEVICE as in model_rig.h; arguments name the files to read.
#include "base/arena.h"
#include "runtime/model/dequantise.h"
#include "tests/runtime/model_rig.h"
#include "tests/runtime/packed_rig.h"

#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { LENGTH_MAX = 16, VOCAB = 64 };

static const char *const all[] = {
    "fp8-tensor", "fp8-row",        "fp8-block",  "modelopt-fp8", "awq",     "gptq-4",
    "gptq-even",  "gptq-order",     "gptq-2",     "gptq-3",       "gptq-8",  "pack-4",
    "pack-4z",    "pack-8",         "pack-order", "int-8",        "int-8z",  "pack-nvfp4",
    "pack-mxfp4", "modelopt-mixed", "bnb-nf4",    "bnb-fp4",      "bnb-int8"};
static const char *const *models = all;
static uint32_t model_count = sizeof all / sizeof all[0];

// Opens a golden file as a folder.
static json_t *folder_open(char folder[64], const char *model)
{
    char name[64];
    snprintf(name, sizeof name, "packed/%s", model);
    json_t *golden = golden_read(name);
    folder_make(folder);
    packed_folder_write(folder, golden);
    return golden;
}

// Returns the hash of tools/golden_packed.py.
static uint64_t floats_hash(const float *at, uint64_t count)
{
    uint64_t hash = 0xCBF29CE484222325u;
    for (uint64_t i = 0; i < count; i++) {
        uint32_t word;
        memcpy(&word, &at[i], sizeof word);
        hash = (hash ^ word) * 0x100000001B3u;
    }
    return hash;
}

static void weight_check(const struct tensors *tensors, const json_t *entry, const char *words)
{
    const char *name = json_string_value(json_array_get(entry, 0));
    const json_t *shape = json_array_get(entry, 1);
    uint32_t n = (uint32_t)json_integer_value(json_array_get(shape, 0));
    uint32_t k = (uint32_t)json_integer_value(json_array_get(shape, 1));
    const struct tensor *tensor = tensors_find(tensors, name);
    assert_non_null(tensor);
    assert_non_null(tensor->packed);
    assert_true(tensor->dims == 2 && tensor->shape[0] == n && tensor->shape[1] == k);
    if (!strstr(words, tensor->type))
        fail_msg("%s: is '%s', not of '%s'", name, tensor->type, words);
    float *whole = heap_alloc((size_t)n * k * sizeof *whole);
    float *part = heap_alloc((size_t)n * k * sizeof *part);
    tensor_rows_read(whole, tensor, &(struct tensor_place){0, n, 0, k, k});
    char hash[20];
    snprintf(hash, sizeof hash, "%016" PRIx64, floats_hash(whole, (uint64_t)n * k));
    if (strcmp(hash, json_string_value(json_array_get(entry, 2))) != 0)
        fail_msg("%s: hash %s", name, hash);
    static const struct tensor_place places[] = {
        {5, 27, 3, 59, 0}, {31, 33, 16, 80, 0}, {1, 1, 7, 1, 0}};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        struct tensor_place place = places[i];
        place.stride = k;
        tensor_rows_read(part, tensor, &place);
        for (uint32_t r = 0; r < place.rows; r++)
            assert_memory_equal(part + (size_t)r * place.cols,
                                whole + (size_t)(place.first_row + r) * k + place.first_col,
                                place.cols * sizeof *part);
    }
    heap_free(whole);
    heap_free(part);
}

static void test_weights(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < model_count; i++) {
        char folder[64];
        struct error err;
        struct tensors *tensors;
        json_t *golden = folder_open(folder, models[i]), *entry;
        size_t index;
        if (tensors_open(&tensors, folder, &err) != STATUS_OK)
            fail_msg("%s: %s", models[i], err.text);
        json_array_foreach(json_object_get(golden, "weights"), index, entry)
            weight_check(tensors, entry, json_string_value(json_object_get(golden, "words")));
        tensors_close(tensors);
        folder_remove(folder);
        json_decref(golden);
    }
}

struct errors {
    double largest;  // largest |got - want| / largest |want|
    double relative; // in the Frobenius norm
};

static struct errors errors_of(struct rig *rig, const json_t *golden)
{
    const json_t *inputs = json_object_get(golden, "inputs");
    double worst = 0, most = 0, difference = 0, total = 0;
    assert_int_equal(rig->facts->vocab, VOCAB);
    for (uint32_t i = 0; i < json_array_size(inputs); i++) {
        const json_t *ids = json_array_get(inputs, i);
        const json_t *row = json_array_get(json_object_get(golden, "expected"), i);
        int32_t tokens[LENGTH_MAX];
        float got[VOCAB];
        uint32_t count = (uint32_t)json_array_size(ids);
        for (uint32_t t = 0; t < count; t++)
            tokens[t] = (int32_t)json_integer_value(json_array_get(ids, t));
        struct rig_sequence sequence = {i, tokens, count, 0, STEP_NO_TYPE};
        rig_begin(rig);
        rig_prefill(rig, &sequence, LENGTH_MAX, WANT_TOKEN);
        rig_step(rig, got);
        for (uint32_t j = 0; j < VOCAB; j++) {
            double want = json_number_value(json_array_get(row, j)), apart = got[j] - want;
            assert_true(isfinite(got[j]));
            worst = fmax(worst, fabs(apart));
            most = fmax(most, fabs(want));
            difference += apart * apart;
            total += want * want;
        }
    }
    return (struct errors){worst / most, sqrt(difference / total)};
}

static void test_logits(void **state)
{
    (void)state;
    bool cpu = strcmp(rig_device()->name, "cpu") == 0;
    for (uint32_t i = 0; i < model_count; i++) {
        char folder[64];
        struct rig rig;
        struct errors exact, held;
        json_t *golden = folder_open(folder, models[i]);
        const char *formats = json_string_value(json_object_get(golden, "held"));
        struct model_options options = rig_options();
        options.kv_dtype = DTYPE_F32;
        options.dtype = DTYPE_F32;
        rig_open(&rig, folder, &options);
        exact = errors_of(&rig, golden);
        rig_close(&rig);
        options.dtype = -1;
        options.kv_dtype = -1;
        rig_open(&rig, folder, &options);
        assert_string_equal(rig.facts->formats, cpu ? formats : "");
        assert_int_equal(rig.facts->dtype, DTYPE_BF16); // that of the floats
        held = errors_of(&rig, golden);
        rig_close(&rig);
        bool good = exact.largest < 1e-5 && held.relative < 0.06;
        printf("%-16s float32: error %.1e of the largest; %s: %.1e%s\n", models[i], exact.largest,
               cpu ? formats : "bfloat16", held.relative, good ? "" : "  TOO FAR");
        assert_true(good);
        folder_remove(folder);
        json_decref(golden);
    }
}

int main(int count, char **args)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_weights),
                                       cmocka_unit_test(test_logits)};
    if (!rig_device_usable())
        return 0;
    if (count > 1) {
        models = (const char *const *)args + 1;
        model_count = (uint32_t)count - 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
