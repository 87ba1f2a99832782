// SPDX-License-Identifier: Apache-2.0
// Folders of each quantised format (tests/golden/packed, written by tools/golden_packed.py). The
// weights equal (code - zero) * scale in float32 bit for bit, also in parts that begin inside a
// block. The logits are those of transformers on these weights: in float32 within 1e-5 of the
// largest; held as codes, int8 or bfloat16 with a relative error below 0.06; with many rows of FP8
// codes in the default mode (WEFT_TEST_FAST) below 0.12. WEFT_TEST_RANKS and
// WEFT_TEST_DEVICE as in model_rig.h, WEFT_TEST_ONLY as in test_golden.c; arguments name the files.
#include "base/arena.h"
#include "runtime/model/dequantise.h"
#include "runtime/model/held.h"
#include "runtime/model/packed.h"
#include "runtime/source/mapping.h"
#include "tests/runtime/golden_errors.h"
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

enum { VOCAB = 64 };

static const char *const all[] = {
    "fp8-tensor", "fp8-row",   "fp8-block",  "modelopt-fp8", "awq",
    "gptq-4",     "gptq-even", "gptq-order", "gptq-2",       "gptq-3",
    "gptq-8",     "pack-4",    "pack-4z",    "pack-8",       "pack-order",
    "int-8",      "int-8z",    "pack-nvfp4", "pack-mxfp4",   "modelopt-mixed",
    "bnb-nf4",    "bnb-fp4",   "bnb-int8",   "gpt-oss",      "fp8-experts"};
static const char *const *models = all;
static uint32_t model_count = sizeof all / sizeof all[0];

static json_t *packed_golden(const char *model)
{
    char name[64];
    snprintf(name, sizeof name, "packed/%s", model);
    return golden_read(name);
}

// Opens a golden file as a folder.
static json_t *folder_open(char folder[64], const char *model)
{
    json_t *golden = packed_golden(model);
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
    if (tensor->dims == 3) // experts
        assert_true(tensor->shape[0] * tensor->shape[1] == n && tensor->shape[2] == k);
    else
        assert_true(tensor->dims == 2 && tensor->shape[0] == n && tensor->shape[1] == k);
    if (!strstr(words, tensor->type))
        fail_msg("%s: is '%s', not of '%s'", name, tensor->type, words);
    float *whole = heap_alloc((size_t)n * k * sizeof *whole);
    float *part = heap_alloc((size_t)n * k * sizeof *part);
    tensor_rows_read(whole, tensor, &(struct tensor_place){0, n, 0, k, k, 0, 0});
    char hash[20];
    snprintf(hash, sizeof hash, "%016" PRIx64, floats_hash(whole, (uint64_t)n * k));
    if (strcmp(hash, json_string_value(json_array_get(entry, 2))) != 0)
        fail_msg("%s: hash %s", name, hash);
    static const struct tensor_place places[] = {
        {5, 27, 3, 59, 0, 0, 0}, {31, 33, 16, 80, 0, 0, 0}, {1, 1, 7, 1, 0, 0, 0}};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        struct tensor_place place = places[i];
        place.stride = k;
        place.cols = place.cols < k - place.first_col ? place.cols : k - place.first_col;
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

// Returns the formats in which a device that holds FP8 codes holds a model of them. An inner
// size of 320 columns cannot be cut at blocks of 128.
static const char *formats_fp8(const char *model)
{
    static const char *const formats[][2] = {
        {"fp8-tensor", "FP8"},           {"fp8-row", "FP8"},      {"fp8-block", "FP8_128, FP8"},
        {"fp8-experts", "FP8_128, FP8"}, {"modelopt-fp8", "FP8"}, {"modelopt-mixed", "FP8"}};
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++)
        if (strcmp(model, formats[i][0]) == 0)
            return formats[i][1];
    return "";
}

// Writes the formats of a list that a GPU holds: those of 4 bits.
static void formats_on_gpu(char out[FORMATS_TEXT], const char *formats)
{
    char copy[FORMATS_TEXT], *rest = NULL;
    size_t used = 0;
    snprintf(copy, sizeof copy, "%s", formats);
    out[0] = '\0';
    for (char *name = strtok_r(copy, ", ", &rest); name; name = strtok_r(NULL, ", ", &rest))
        if (strchr(name, '4'))
            used +=
                (size_t)snprintf(out + used, FORMATS_TEXT - used, used > 0 ? ", %s" : "%s", name);
}

static void test_logits(void **state)
{
    (void)state;
    bool cpu = strcmp(rig_device()->name, "cpu") == 0;
    for (uint32_t i = 0; i < model_count; i++) {
        char folder[64];
        struct rig rig;
        struct golden_errors exact, held;
        json_t *golden = folder_open(folder, models[i]);
        char formats[FORMATS_TEXT];
        const char *on_cpu = json_string_value(json_object_get(golden, "held"));
        snprintf(formats, sizeof formats, "%s", on_cpu);
        bool fp8 = !cpu && formats_fp8(models[i])[0] != '\0';
        if (fp8)
            snprintf(formats, sizeof formats, "%s", formats_fp8(models[i]));
        else if (!cpu)
            formats_on_gpu(formats, on_cpu);
        struct model_options options = rig_options();
        options.kv_dtype = DTYPE_F32;
        options.dtype = DTYPE_F32;
        exact = (struct golden_errors){0, 0};
        if (cpu || fp8 ||
            formats[0] == '\0') { // other codes on a GPU are compared with bfloat16 instead
            rig_open(&rig, folder, &options);
            assert_int_equal(rig.facts->vocab, VOCAB);
            exact = golden_logits_errors(&rig, golden);
            rig_close(&rig);
        }
        options.dtype = -1;
        options.kv_dtype = -1;
        rig_open(&rig, folder, &options);
        assert_string_equal(rig.facts->formats, formats);
        assert_int_equal(rig.facts->dtype, DTYPE_BF16); // that of the floats
        held = golden_logits_errors(&rig, golden);
        rig_close(&rig);
        if (!cpu && !fp8)
            golden_same_as_bfloat16(folder, &options, golden, &held);
        bool good = exact.largest < 1e-5 && held.frobenius < 0.06;
        printf("%-16s float32: error %.1e of the largest; %s: %.1e%s\n", models[i], exact.largest,
               formats[0] != '\0' ? formats : "bfloat16", held.frobenius, good ? "" : "  TOO FAR");
        assert_true(good);
        folder_remove(folder);
        json_decref(golden);
    }
}

// In the default mode products of FP8 weights with many rows round activations to FP8: the last
// input five times in one step, whose copies get equal logits. Rounding to e4m3 has 16 times the
// error of rounding to bfloat16 (2.6 %), which gives these models logits with an error of 0.9 %.
static void test_many_rows(void **state)
{
    (void)state;
    enum { COPIES = 5, TOKENS_MAX = 64 };
    if (rig_exact())
        skip();
    for (uint32_t i = 0; i < model_count; i++) {
        char folder[64];
        struct rig rig;
        int32_t tokens[TOKENS_MAX];
        static float got[COPIES][VOCAB];
        struct model_options options = rig_options();
        json_t *golden = folder_open(folder, models[i]);
        const json_t *inputs = json_object_get(golden, "inputs");
        size_t last = json_array_size(inputs) - 1;
        const json_t *ids = json_array_get(inputs, last);
        const json_t *expected = json_array_get(json_object_get(golden, "expected"), last);
        uint32_t count = (uint32_t)json_array_size(ids);
        assert_true(COPIES * count > 32 && count <= TOKENS_MAX);
        for (uint32_t t = 0; t < count; t++)
            tokens[t] = (int32_t)json_integer_value(json_array_get(ids, t));
        rig_open(&rig, folder, &options);
        rig_begin(&rig);
        struct rig_sequence sequence[COPIES];
        for (uint32_t c = 0; c < COPIES; c++) {
            sequence[c] = (struct rig_sequence){c, tokens, count, 0, STEP_NO_TYPE};
            rig_prefill(&rig, &sequence[c], count, WANT_TOKEN);
        }
        rig_step(&rig, got[0]);
        rig_close(&rig);
        double error = 0, size = 0;
        for (uint32_t k = 0; k < VOCAB; k++) {
            double want = json_number_value(json_array_get(expected, k));
            error += ((double)got[0][k] - want) * ((double)got[0][k] - want);
            size += want * want;
        }
        for (uint32_t c = 1; c < COPIES; c++)
            assert_memory_equal(got[c], got[0], sizeof got[0]);
        printf("%-16s %u rows: %.1e\n", models[i], COPIES * count, sqrt(error / size));
        assert_true(error < 0.12 * 0.12 * size);
        folder_remove(folder);
        json_decref(golden);
    }
}

// Changes a field of the tensors o_proj with this tail to the JSON text `to`: 1 is the type, 2 the
// shape, 3 the list of values; 0 removes the tensors.
static void tensors_change(json_t *golden, const char *tail, uint32_t field, const char *to)
{
    json_t *tensors = json_object_get(golden, "tensors");
    uint32_t found = 0;
    for (size_t i = 0; i < json_array_size(tensors); i++) {
        json_t *entry = json_array_get(tensors, i);
        const char *at = strstr(json_string_value(json_array_get(entry, 0)), "o_proj");
        if (!at || strcmp(at + strlen("o_proj"), tail) != 0)
            continue;
        found++;
        if (field > 0)
            json_array_set_new(entry, field, json_loads(to, JSON_DECODE_ANY, NULL));
        else
            json_array_remove(tensors, i--);
    }
    assert_int_equal(found, 1);
}

// The matrix of o_proj is [128, 128].
static void test_damaged_folders_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *model, *tail;
        uint32_t field;
        const char *to, *words;
    } cases[] = {
        {"fp8-tensor", ".weight_scale", 0, NULL,
         "o_proj.weight has codes, but model.layers.0."
         "self_attn.o_proj.weight_scale (or weight_scale_inv) is not in the"},
        {"fp8-block", ".weight_scale_inv", 2, "[3, 3]", "is F32 [3, 3], but a weight of 128 x 128"},
        {"fp8-row", ".weight_scale", 1, "\"I32\"", "but scales are F32, F16, BF16, F8_E4M3 or"},
        {"awq", ".scales", 0, NULL, "o_proj.scales is not in the checkpoint: download it again"},
        {"awq", ".qweight", 2, "[128, 15]",
         "I32 [128, 15], but 128 rows in the layout gemm of AWQ"},
        {"awq", ".qzeros", 2, "[4, 15]", "the zero points of 4 groups of 128 rows are I32 [4, 16]"},
        {"awq", ".qzeros", 1, "\"F32\"", "the zero points of 4 groups of 128 rows are I32 [4, 16]"},
        {"awq", ".scales", 2, "[128]",
         "but the scales of AWQ and GPTQ are F16, BF16 or F32 [groups"},
        {"gptq-4", ".g_idx", 3, "[1000000000]", "is in group 1000000000 of 2"},
        {"gptq-4", ".g_idx", 2, "[127]",
         "is I32 [127], but the groups of 128 columns are I32 [128]"},
        {"gptq-order", ".g_idx", 0, NULL, "no list of its columns' groups (g_idx)"},
        {"pack-order", ".weight_g_idx", 0, NULL, "no list of its columns' groups (g_idx)"},
        {"gptq-4", ".qweight", 2, "[0, 128]", "is I32 [0, 128], but a weight has between 1 and"},
        {"pack-4", ".weight_shape", 3, "[128, 96]", "but 128 x 96 codes of 2, 4 or 8 bits are"},
        {"pack-4", ".weight_shape", 3, "[-1, 128]", "but a weight has between 1 and 2^31 - 1 rows"},
        {"pack-4", ".weight_scale", 2, "[128, 3]", "or groups of equal size"},
        {"pack-4z", ".weight_zero_point", 2, "[16, 1]", "are I32 [16, 2]"},
        {"int-8z", ".weight_zero_point", 2, "[127, 1]", "weights are I8 [128, 1]"},
        {"pack-nvfp4", ".weight_scale", 2, "[128, 4]", "have F8_E4M3 scales [128, 8]"},
        {"pack-nvfp4", ".weight_global_scale", 2, "[2]", "but the factor of all scales is one F32"},
        {"pack-mxfp4", ".weight_scale", 1, "\"I8\"", "have F8_E8M0 (U8) scales [128, 4]"},
        {"bnb-nf4", ".weight.nested_absmax", 0, NULL, "o_proj.weight.nested_absmax is not in the"},
        {"bnb-nf4", ".weight.quant_map", 2, "[15]", "the values of codes of 4 bits are F32 [16]"},
        {"bnb-nf4", ".weight.absmax", 2, "[255]", "but 128 x 128 elements have 256 scales"},
        {"bnb-fp4", ".weight", 2, "[8191, 1]", "blocks of 64 elements of a row are 8192 bytes"},
        {"bnb-int8", ".SCB", 2, "[127]", "the scales of 128 rows are F32 [128]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char folder[64];
        struct error err = {.text = ""};
        struct tensors *tensors = NULL;
        json_t *golden = packed_golden(cases[i].model);
        tensors_change(golden, cases[i].tail, cases[i].field, cases[i].to);
        folder_make(folder);
        packed_folder_write(folder, golden);
        enum status status = tensors_open(&tensors, folder, &err);
        if (status != STATUS_INVALID || !strstr(err.text, cases[i].words) || strchr(err.text, '\n'))
            fail_msg("%s, %s: %s, %s", cases[i].model, cases[i].tail, status_name(status),
                     err.text);
        folder_remove(folder);
        json_decref(golden);
    }
}

// Writes the folder of "gptq-even" with the numbers c / 192 as the groups of down_proj's 256
// columns if `list`, else none (numbers of -1 if `unset`), and with this declared size of groups.
// Opens it.
static struct tensors *short_group_open(char folder[64], int declared, bool list, bool unset)
{
    struct error err;
    struct tensors *set;
    json_t *golden = packed_golden("gptq-even"), *entry, *numbers = json_array();
    size_t i;
    for (int c = 0; c < 256; c++)
        json_array_append_new(numbers, json_integer(unset ? -1 : c / 192));
    json_t *tensors = json_object_get(golden, "tensors");
    json_array_foreach(tensors, i, entry)
    {
        if (!strstr(json_string_value(json_array_get(entry, 0)), "down_proj.g_idx"))
            continue;
        if (list || unset)
            json_array_set(entry, 3, numbers);
        else
            json_array_remove(tensors, i--);
    }
    json_t *file = json_object_get(json_object_get(golden, "files"), "quantize_config.json");
    assert_int_equal(json_object_set_new(file, "group_size", json_integer(declared)), 0);
    folder_make(folder);
    packed_folder_write(folder, golden);
    assert_int_equal(tensors_open(&set, folder, &err), STATUS_OK);
    json_decref(numbers);
    json_decref(golden);
    return set;
}

// Groups of 192 columns in 256: the last group has 64, whether the columns' groups are listed or
// not. The first case reads the list, because it is not what groups of 128 would be.
static void test_a_short_last_group(void **state)
{
    (void)state;
    static const struct {
        int declared;
        bool list, unset;
    } cases[] = {{128, true, false}, {192, true, false}, {192, false, true}, {192, false, false}};
    enum { N = 128, K = 256 };
    static float first[N * K], values[N * K];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char folder[64];
        struct tensors *set =
            short_group_open(folder, cases[i].declared, cases[i].list, cases[i].unset);
        const struct tensor *t = tensors_find(set, "model.layers.0.mlp.down_proj.weight");
        assert_int_equal(t->shape[0] * t->shape[1], N * K);
        tensor_rows_read(i == 0 ? first : values, t, &(struct tensor_place){0, N, 0, K, K, 0, 0});
        assert_true(i == 0 || memcmp(first, values, sizeof first) == 0);
        assert_int_equal(packed_format(t->packed), i == 0 ? WEIGHT_FLOATS : WEIGHT_INT4_64);
        assert_int_equal(i == 0 ? 192 : packed_int4(t->packed).group, 192);
        tensors_close(set);
        folder_remove(folder);
    }
}

// Groups of columns that are overwritten after they were checked: the weight stays what it was, and
// the file is refused.
static void test_groups_are_read_once(void **state)
{
    (void)state;
    enum { K = 128 };
    char folder[64], path[128];
    struct error err;
    struct tensors *tensors;
    float values[2][K];
    int32_t wrong[K];
    json_t *golden = folder_open(folder, "gptq-order");
    assert_int_equal(tensors_open(&tensors, folder, &err), STATUS_OK);
    const struct tensor *t = tensors_find(tensors, "model.layers.0.self_attn.q_proj.weight");
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    FILE *file = fopen(path, "r+");
    assert_non_null(file);
    for (int i = 0; i < 2; i++) {
        tensor_rows_read(values[i], t, &(struct tensor_place){9, 1, 0, K, K, 0, 0});
        // the order is the list among the folder's tensors that has all of the groups
        const char *begin = (const char *)t->map - t->offset, *end = begin + t->mapping->bytes;
        const char *at = memmem(begin, (size_t)(end - begin), t->packed->group_of, sizeof wrong);
        assert_true((at != NULL) == (i == 0));
        memset(wrong, 0x7F, sizeof wrong);
        for (; at; at = memmem(begin, (size_t)(end - begin), t->packed->group_of, sizeof wrong)) {
            assert_int_equal(fseek(file, at - begin, SEEK_SET), 0);
            assert_int_equal(fwrite(wrong, sizeof wrong, 1, file), 1);
            assert_int_equal(fflush(file), 0);
        }
    }
    fclose(file);
    assert_memory_equal(values[0], values[1], sizeof values[0]);
    assert_int_equal(tensors_check(tensors, STATUS_OK, &err), STATUS_IO);
    tensors_close(tensors);
    folder_remove(folder);
    json_decref(golden);
}

// Codes of AWQ and GPTQ without a declaration: what their zero points mean is not known.
static void test_undeclared_codes_are_refused(void **state)
{
    (void)state;
    static const char *const kinds[] = {"awq", "gptq-4"};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        char folder[64];
        struct error err = {.text = ""};
        struct tensors *tensors = NULL;
        json_t *golden = packed_golden(kinds[i]);
        json_object_del(json_object_get(golden, "config"), "quantization_config");
        folder_make(folder);
        packed_folder_write(folder, golden);
        assert_int_equal(tensors_open(&tensors, folder, &err), STATUS_UNSUPPORTED);
        assert_non_null(strstr(err.text, "declares which: download the folder again"));
        folder_remove(folder);
        json_decref(golden);
    }
}

// The values of the format's definition, also of codes that the golden files do not have.
static void test_values_of_e4m3(void **state)
{
    (void)state;
    float values[256];
    packed_e4m3(values);
    for (int i = 0; i < 127; i++) {
        float want = i < 8 ? ldexpf((float)i, -9) : ldexpf(1 + (float)(i % 8) / 8, i / 8 - 7);
        assert_true(values[i] == want && values[i + 128] == -want);
        assert_true(signbit(values[i + 128]) != 0);
    }
    assert_true(values[126] == 448 && isnan(values[127]) && isnan(values[255]));
}

// A bias of zeros next to codes is accepted, another one is not; the plan names formats.
static void test_biases_and_formats(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        char folder[64];
        struct error err;
        struct device *device;
        struct device_options with = {.threads = 1};
        struct model_plan *plan = NULL;
        struct model_options options = rig_options();
        json_t *golden = packed_golden("awq");
        json_array_append_new(
            json_object_get(golden, "tensors"),
            json_pack("[s, s, [i], [i]]", "model.layers.0.mlp.down_proj.bias", "F16", 128, i));
        folder_make(folder);
        packed_folder_write(folder, golden);
        assert_int_equal(device_cpu()->open(&device, &with, &err), STATUS_OK);
        enum status status = model_plan_open(&plan, folder, device_cpu(), device, &options, &err);
        assert_int_equal(status, i == 0 ? STATUS_OK : STATUS_UNSUPPORTED);
        if (plan) {
            struct model_packed packed[MODEL_PACKED_MAX];
            assert_int_equal(model_plan_packed(plan, packed), 1);
            assert_string_equal(packed[0].words, "AWQ, 4 bits, groups of 32");
            assert_string_equal(packed[0].formats, "int4z_32");
        } else {
            assert_non_null(strstr(err.text, "down_proj.bias is not used by LlamaForCausalLM"));
        }
        model_plan_close(plan);
        device_cpu()->close(device);
        folder_remove(folder);
        json_decref(golden);
    }
}

// Opens and closes a plan; returns the bytes of the weights and their formats.
static uint64_t plan_weights(const char *folder, bool declared, char formats[FORMATS_TEXT])
{
    struct error err;
    struct device *device;
    struct device_options with = {.threads = 1};
    struct model_plan *plan = NULL;
    struct model_options options = rig_options();
    options.load_dummy = declared;
    uint64_t bytes = 0;
    assert_int_equal(rig_device()->open(&device, &with, &err), STATUS_OK);
    if (model_plan_open(&plan, folder, rig_device(), device, &options, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    snprintf(formats, FORMATS_TEXT, "%s", plan->facts.formats);
    for (uint32_t i = 0; i < plan->need.count; i++)
        if (strcmp(plan->need.entry[i].label, "weights") == 0)
            bytes = plan->need.entry[i].bytes;
    model_plan_close(plan);
    rig_device()->close(device);
    return bytes;
}

// A plan by a declaration, in config.json or next to it, has the weights of the plan by the
// tensors. The folders that are left out declare less than their tensors have: no zero points
// (gptq-4), mixed formats, or blocks where a tensor has a single one, which a GPU holds as a row's
// scale.
static void test_plans_by_declaration(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < model_count; i++) {
        char folder[64], held[FORMATS_TEXT], declared[FORMATS_TEXT];
        json_t *golden = folder_open(folder, models[i]);
        bool complete = strcmp(models[i], "gptq-4") != 0 &&
                        strcmp(models[i], "modelopt-mixed") != 0 &&
                        strcmp(formats_fp8(models[i]), "FP8_128, FP8") != 0;
        uint64_t by_tensors = plan_weights(folder, false, held);
        uint64_t by_config = plan_weights(folder, true, declared);
        if (complete && (by_config != by_tensors || strcmp(held, declared) != 0))
            fail_msg("%s: %" PRIu64 " bytes as %s, declared are %" PRIu64 " as %s", models[i],
                     by_tensors, held, by_config, declared);
        folder_remove(folder);
        json_decref(golden);
    }
}

// Computes the logits of a short prompt with random weights.
static void dummy_logits(float logits[VOCAB], char formats[FORMATS_TEXT], const char *folder,
                         bool split)
{
    static const int32_t tokens[] = {3, 14, 15, 9, 26};
    enum { COUNT = sizeof tokens / sizeof tokens[0] };
    struct rig rig;
    struct model_options options = rig_options();
    options.load_dummy = true;
    if (split)
        rig_open(&rig, folder, &options);
    else
        rig_open_on(&rig, rig_device(), folder, &options);
    struct rig_sequence sequence = {0, tokens, COUNT, 0, STEP_NO_TYPE};
    rig_prompt_logits(&rig, &sequence, COUNT, logits);
    snprintf(formats, FORMATS_TEXT, "%s", rig.facts->formats);
    rig_close(&rig);
}

// Random weights are held in the format that the folder declares, also if the model is split.
static void test_dummies_have_the_declared_format(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < model_count; i++) {
        char folder[64], declared[FORMATS_TEXT], held[FORMATS_TEXT];
        float whole[VOCAB], split[VOCAB];
        json_t *golden = folder_open(folder, models[i]);
        (void)plan_weights(folder, true, declared);
        dummy_logits(whole, held, folder, false);
        assert_string_equal(held, declared);
        dummy_logits(split, held, folder, true);
        double size = 0, error = 0;
        for (uint32_t k = 0; k < VOCAB; k++) {
            size += (double)whole[k] * (double)whole[k];
            error += ((double)split[k] - (double)whole[k]) * ((double)split[k] - (double)whole[k]);
        }
        printf("%-16s dummy as %s: logits of %.2e, split %.1e\n", models[i],
               held[0] != '\0' ? held : "floats", sqrt(size / VOCAB), sqrt(error / size));
        assert_true(size > 1e-6 && isfinite(size) && error < 0.06 * 0.06 * size);
        folder_remove(folder);
        json_decref(golden);
    }
}

// Declarations of weights that are stored with other keys or groups than the golden folders have:
// their plan is that of the golden folder's tensors. Groups of 4 bits are held in groups of 128, 64
// or 32 columns, the largest that divides them; a row is a group of all columns of its product.
static void test_plans_by_other_declarations(void **state)
{
    (void)state;
    static const struct {
        const char *model, *declaration;
        int inner;           // intermediate_size; 0: the model's
        const char *formats; // NULL: those of the model's tensors
    } cases[] = {
#define ARRAYS(weights)                                                                            \
    "{\"quant_method\":\"compressed-tensors\",\"format\":\"pack-quantized\",\"config_groups\":"    \
    "{\"group_0\":{\"weights\":{\"num_bits\":4,\"type\":\"int\"," weights "}}}}"
#define GPTQ(keys) "{\"quant_method\":\"gptq\",\"bits\":4," keys "}"
        {"gptq-even", GPTQ("\"group_size\":-1"), 0, NULL},
        {"gptq-even", GPTQ("\"group_size\":256"), 0, NULL},
        {"gptq-even", GPTQ("\"group_size\":-1,\"desc_act\":true"), 0, NULL},
        {"gptq-even", ARRAYS("\"strategy\":\"channel\",\"group_size\":null"), 0, NULL},
        {"gptq-even", ARRAYS("\"strategy\":\"group\",\"group_size\":256"), 0, NULL},
        {"pack-4z", ARRAYS("\"group_size\":64,\"symmetric\":false"), 0, NULL},
        {"awq", "{\"quant_method\":\"awq\",\"w_bit\":4,\"q_group_size\":32}", 0, NULL},
        {"modelopt-fp8", "{\"quant_algo\":\"FP8\"}", 0, NULL},
        {"gptq-even", GPTQ("\"group_size\":-1"), 320, "int4_128, int4_64"},
        {"gptq-even", GPTQ("\"group_size\":-1,\"sym\":false"), 320, "int4z_128, int4z_64"},
        {"gptq-even", GPTQ("\"group_size\":96"), 288, "Q4_0"},
        {"gptq-even", GPTQ("\"group_size\":64,\"desc_act\":true"), 0, "int8"},
        {"gptq-even", GPTQ("\"group_size\":0"), 0, "int8"},
        {"gptq-even", ARRAYS("\"strategy\":\"tensor\""), 0, "int8"},
        {"gptq-even", "{\"quant_method\":\"fp8\",\"weight_block_size\":[64,64]}", 0, "int8"},
        {"gptq-even", "{\"quant_method\":\"fp8\",\"fmt\":\"e5m2\"}", 0, "int8"},
        // groups of modules that differ: the declaration does not decide
        {"gptq-even",
         "{\"quant_method\":\"compressed-tensors\",\"config_groups\":{\"group_0\":{\"weights\":"
         "{\"num_bits\":8,\"type\":\"float\"}},\"group_1\":{\"weights\":{\"num_bits\":4,"
         "\"type\":\"int\",\"group_size\":128}}}}",
         0, "int8"},
#undef ARRAYS
#undef GPTQ
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char folder[64], held[FORMATS_TEXT], declared[FORMATS_TEXT];
        json_t *golden = folder_open(folder, cases[i].model);
        json_t *config = json_object_get(golden, "config");
        uint64_t by_tensors = plan_weights(folder, false, held);
        json_object_set_new(config, "quantization_config",
                            json_loads(cases[i].declaration, 0, NULL));
        if (cases[i].inner > 0)
            json_object_set_new(config, "intermediate_size", json_integer(cases[i].inner));
        folder_remove(folder);
        folder_make(folder);
        packed_folder_write(folder, golden);
        uint64_t by_config = plan_weights(folder, true, declared);
        char formats[FORMATS_TEXT];
        if (cases[i].formats && strcmp(rig_device()->name, "cpu") != 0)
            formats_on_gpu(formats, cases[i].formats);
        else
            snprintf(formats, sizeof formats, "%s", cases[i].formats ? cases[i].formats : held);
        if ((!cases[i].formats && by_config != by_tensors) || strcmp(formats, declared) != 0)
            fail_msg("%s: %" PRIu64 " bytes as %s, of tensors %" PRIu64 " as %s",
                     cases[i].declaration, by_config, declared, by_tensors, formats);
        folder_remove(folder);
        json_decref(golden);
    }
}

// Zero points of GPTQ are stored less one, except in files that declare another format.
static void test_zero_points_follow_the_declaration(void **state)
{
    (void)state;
    static const struct {
        const char *declaration;
        float apart; // distance of the weights from those with zero points less one, in scales
    } cases[] = {
        {"{\"quant_method\":\"gptq\"}", 0},
        {"{\"quant_method\":\"gptq\",\"checkpoint_format\":\"gptq\"}", 0},
        {"{\"quant_method\":\"gptq\",\"checkpoint_format\":\"gptq_v2\"}", 1},
        {"{\"quant_method\":\"auto-round\",\"packing_format\":\"auto_round:auto_gptq\"}", 0},
        {"{\"quant_method\":\"auto-round\",\"packing_format\":\"auto_round\"}", 1},
    };
    float base[3];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char folder[64];
        struct error err;
        struct tensors *tensors;
        json_t *golden = packed_golden("gptq-4");
        json_object_set_new(json_object_get(golden, "config"), "quantization_config",
                            json_loads(cases[i].declaration, 0, NULL));
        folder_make(folder);
        packed_folder_write(folder, golden);
        assert_int_equal(tensors_open(&tensors, folder, &err), STATUS_OK);
        const struct tensor *t = tensors_find(tensors, "model.layers.0.self_attn.q_proj.weight");
        float values[3];
        tensor_rows_read(values, t, &(struct tensor_place){9, 3, 4, 1, 128, 0, 0});
        for (int r = 0; r < 3; r++) {
            base[r] = i == 0 ? values[r] : base[r];
            uint16_t scale;
            memcpy(&scale, (const char *)t->packed->scales + 2 * (9 + r), sizeof scale);
            float steps = (values[r] - base[r]) / f16_to_f32(scale);
            assert_true(steps == cases[i].apart ||
                        (steps == -15 && cases[i].apart == 1)); // 15 + 1 is 0
        }
        tensors_close(tensors);
        folder_remove(folder);
        json_decref(golden);
    }
}

int main(int count, char **args)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_weights),
                                       cmocka_unit_test(test_logits),
                                       cmocka_unit_test(test_many_rows),
                                       cmocka_unit_test(test_damaged_folders_are_refused),
                                       cmocka_unit_test(test_groups_are_read_once),
                                       cmocka_unit_test(test_a_short_last_group),
                                       cmocka_unit_test(test_biases_and_formats),
                                       cmocka_unit_test(test_plans_by_declaration),
                                       cmocka_unit_test(test_dummies_have_the_declared_format),
                                       cmocka_unit_test(test_plans_by_other_declarations),
                                       cmocka_unit_test(test_undeclared_codes_are_refused),
                                       cmocka_unit_test(test_values_of_e4m3),
                                       cmocka_unit_test(test_zero_points_follow_the_declaration)};
    if (!rig_device_usable())
        return 0;
    if (getenv("WEFT_TEST_ONLY"))
        cmocka_set_test_filter(getenv("WEFT_TEST_ONLY"));
    if (count > 1) {
        models = (const char *const *)args + 1;
        model_count = (uint32_t)count - 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
