// SPDX-License-Identifier: Apache-2.0
// Models from GGUF files: for each family the same bits as from a Hugging Face folder with the same
// weights; quantised blocks compared with the reference library (gguf_vectors.json, written by
// tools/gguf_vectors.py); ranges of rows and columns; the dtype that is chosen for quantised
// weights. Refusals are in test_hostile_gguf.c, tokenizers in test_gguf_text.c.
#include "base/arena.h"
#include "base/json.h"
#include "runtime/model/dequantise.h"
#include "runtime/model/held.h"
#include "runtime/source/source.h"
#include "tests/runtime/config_rig.h"
#include "tests/runtime/gguf_rig.h"
#include "tests/runtime/model_rig.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { TOKENS = 24, WIDTH_MAX = 4096 };

static struct gguf_bytes unhex(const json_t *value)
{
    struct text hex = text_span(json_string_value(value), json_string_length(value));
    struct gguf_bytes out = {NULL, 0};
    for (size_t i = 0; i + 1 < hex.bytes; i += 2)
        gguf_put_number(&out, (uint64_t)text_hex_read(text_span(hex.at + i, 2), 2), 1);
    return out;
}

static void test_blocks_match_the_reference(void **state)
{
    (void)state;
    struct error err;
    json_t *root;
    const char *path = WEFT_SOURCE_DIR "/tests/runtime/gguf_vectors.json", *name;
    assert_int_equal(json_file_parse(&root, path, 1 << 20, &err), STATUS_OK);
    json_t *entry;
    json_object_foreach(root, name, entry)
    {
        const struct gguf_type *type =
            gguf_type_of((uint32_t)json_integer_value(json_object_get(entry, "type")));
        struct gguf_bytes blocks = unhex(json_object_get(entry, "blocks"));
        struct gguf_bytes values = unhex(json_object_get(entry, "values"));
        assert_string_equal(type->name, name);
        assert_true(dequantise_knows(type));
        size_t count = blocks.bytes / type->bytes;
        assert_int_equal(values.bytes, count * type->elements * sizeof(float));
        for (size_t i = 0; i < count; i++) {
            float got[BLOCK_ELEMENTS_MAX];
            dequantise_block(got, type, blocks.at + i * type->bytes);
            assert_memory_equal(got, values.at + i * type->elements * sizeof *got,
                                type->elements * sizeof *got);
        }
        // Any range of rows and columns equals that part of the complete tensor.
        uint32_t stride = type->elements * (uint32_t)count;
        struct tensor tensor = {.dtype = -1, .blocks = type, .map = blocks.at};
        float part[64];
        for (uint32_t first = 0; first + 37 < stride; first += 29) {
            const struct tensor_place place = {0, 1, first, 37, stride, 0, 0};
            tensor_rows_read(part, &tensor, &place);
            assert_memory_equal(part, values.at + first * sizeof *part, 37 * sizeof *part);
        }
        heap_free(blocks.at);
        heap_free(values.at);
    }
    assert_int_equal(json_object_size(root), 13);
    json_decref(root);
}

static void test_rows_of_heads_are_reordered(void **state)
{
    (void)state;
    enum { HEADS = 3, HEAD = 8, ROWS = HEADS * HEAD, COLS = 5 };
    float file[ROWS][COLS], out[ROWS][COLS];
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLS; c++)
            file[r][c] = (float)(r * 100 + c);
    for (uint32_t rotary = 4; rotary <= HEAD; rotary += HEAD - 4)
        for (uint32_t first = 0; first < ROWS; first++) {
            struct tensor tensor = {.dtype = DTYPE_F32,
                                    .map = file,
                                    .rope_head = HEAD,
                                    .rope_rotary = rotary == HEAD ? 0 : rotary};
            const struct tensor_place place = {first, ROWS - first, 1, 3, COLS, 0, 0};
            tensor_rows_read(&out[0][0], &tensor, &place);
            for (uint32_t r = first; r < ROWS; r++) {
                uint32_t head = r / HEAD, inside = r % HEAD, half = inside / (rotary / 2);
                uint32_t pair = inside % (rotary / 2);
                uint32_t from = inside < rotary ? head * HEAD + 2 * pair + half : r;
                float want = (float)(from * 100 + 2);
                assert_true((&out[0][0])[(r - first) * 3 + 1] == want);
            }
        }
}

static void test_rows_of_16_bit_floats(void **state)
{
    (void)state;
    static const uint16_t f16[] = {0x3C00, 0xC000, 0x3800, 0x3555},
                          bf16[] = {0x3F80, 0xC000, 0x3F00, 0x3EAB};
    static const float wanted[] = {1, -2, 0.5f};
    float out[2];
    for (int brain = 0; brain < 2; brain++) {
        struct tensor tensor = {.dtype = brain ? DTYPE_BF16 : DTYPE_F16, .map = brain ? bf16 : f16};
        for (uint32_t first = 0; first < 2; first++) {
            const struct tensor_place place = {0, 1, first, 2, 4, 0, 0};
            tensor_rows_read(out, &tensor, &place);
            assert_memory_equal(out, wanted + first, sizeof out);
        }
    }
}

struct outcome {
    uint32_t width;
    enum dtype dtype;
    enum model_kind kind;
    uint32_t positions, end_count;
    int32_t end;
    uint64_t parameters;
    float values[WIDTH_MAX];
    char formats[FORMATS_TEXT];
    char attention[FORMATS_TEXT]; // formats of the products of attention
};

// Returns the root mean square of got - want divided by that of want.
static double outcome_apart(const struct outcome *got, const struct outcome *want)
{
    double apart = 0, size = 0;
    assert_int_equal(got->width, want->width);
    for (uint32_t i = 0; i < want->width; i++) {
        double d = (double)got->values[i] - (double)want->values[i];
        apart += d * d;
        size += (double)want->values[i] * (double)want->values[i];
    }
    return sqrt(apart / size);
}

// Returns the largest |a - b|. All values must be finite.
static float outcome_distance(const struct outcome *a, const struct outcome *b)
{
    float largest = 0;
    for (uint32_t i = 0; i < a->width; i++) {
        assert_true(isfinite(a->values[i]) && isfinite(b->values[i]));
        largest = fmaxf(largest, fabsf(a->values[i] - b->values[i]));
    }
    return largest;
}

// Returns the largest magnitude of a value.
static float outcome_size(const struct outcome *of)
{
    static const struct outcome zeros;
    return outcome_distance(of, &zeros);
}

// Runs the model on one input. Stores its facts and the logits, vector or score.
static void outcome_of(struct outcome *out, const char *path, int dtype, uint32_t ranks)
{
    int32_t tokens[TOKENS];
    struct rig rig;
    struct model_options options = rig_options();
    options.dtype = dtype;
    options.answer_ids[RERANK_YES_NO][0] = 17;
    options.answer_ids[RERANK_YES_NO][1] = 5;
    options.max_num_seqs = 2;
    options.max_num_batched_tokens = 64;
    rig_open_ranks(&rig, device_cpu(), path, &options, ranks);
    for (int32_t i = 0; i < TOKENS; i++)
        tokens[i] = 3 + i * 7 % 36;
    struct rig_sequence s = {0, tokens, TOKENS, 0, STEP_NO_TYPE};
    out->kind = rig.facts->kind;
    out->dtype = rig.facts->dtype;
    memcpy(out->formats, rig.facts->formats, sizeof out->formats);
    struct model_held held[MODEL_HELD_MAX];
    uint32_t kinds = model_plan_held(rig.plan, held);
    for (uint32_t i = 0; i < kinds; i++)
        if (strcmp(held[i].kind, "attention") == 0)
            memcpy(out->attention, held[i].formats, sizeof out->attention);
    out->positions = rig.facts->max_model_len;
    out->end_count = rig.facts->end_count;
    out->end = rig.facts->end_ids[0];
    out->parameters = rig.facts->parameter_count;
    bool generates = out->kind == MODEL_GENERATOR;
    out->width = generates ? rig.facts->vocab : rig.facts->output_width;
    assert_true(out->width <= WIDTH_MAX);
    rig_begin(&rig);
    rig_prefill(&rig, &s, TOKENS,
                generates                     ? WANT_TOKEN
                : out->kind == MODEL_EMBEDDER ? WANT_VECTOR
                                              : WANT_SCORE);
    struct model_output result = rig_step(&rig, generates ? out->values : NULL);
    if (!generates)
        memcpy(out->values, result.values, out->width * sizeof(float));
    rig_close(&rig);
}

static void gguf_write(const char *folder, const char *name, struct gguf_build *b)
{
    struct gguf_bytes bytes = gguf_finish(b);
    file_write(folder, name, bytes.at, bytes.bytes);
    heap_free(bytes.at);
}

// Writes a golden model as a folder and as FOLDER/m.gguf. edit: members that replace those of its
// config.json first, or NULL.
static void golden_pair_write(const char *folder, const char *name, const char *edit)
{
    json_t *golden = golden_read(name);
    json_t *config = json_object_get(golden, "config");
    struct gguf_build b = {.gate_apart = strcmp(name, "jina-model") == 0};
    if (edit)
        config_patch(config, edit);
    golden_layers_limit(golden);
    golden_folder_write(folder, golden, DTYPE_F32, 1);
    gguf_of_golden(&b, golden);
    const json_t *scaling = json_object_get(config, "rope_scaling");
    const char *type = json_string_value(json_object_get(scaling, "rope_type"));
    if (type && strcmp(type, "llama3") == 0)
        gguf_add_freqs(&b, config, scaling);
    // In GGUF the pooling of a decoder is a key; a file without it is a generator.
    if (strcmp(name, "qwen3-model") == 0)
        gguf_key_count(&b, "qwen3.pooling_type", 3);
    gguf_write(folder, "m.gguf", &b);
    json_decref(golden);
}

static void test_file_equals_the_folder(void **state)
{
    (void)state;
    // apart: bound of the largest difference of a value, relative to the largest value. It is not 0
    // (equal numbers) where a file has float32 in place of a number that is computed.
    static const struct {
        const char *name, *edit;
        float apart;
    } models[] = {
        {"llama", NULL, 0},
        {"llama-tied", NULL, 0},
        {"llama-bias", NULL, 0},
        {"llama-linear", NULL, 0},
        {"llama-yarn", NULL, 0},
        {"llama-mean", NULL, 0},
        {"qwen2", NULL, 0},
        {"qwen3", NULL, 0},
        {"qwen3-model", NULL, 0},
        {"qwen3-embedding", NULL, 0},
        {"qwen3-reranker", NULL, 0},
        {"bert-mean", NULL, 0},
        {"bert-cls", NULL, 0},
        {"xlm-roberta-cls", NULL, 0},
        {"xlm-roberta-rerank", NULL, 0},
        {"nomic", NULL, 0},
        {"jina-mean", NULL, 0},
        {"jina-model", NULL, 0},
        {"modernbert-cls", NULL, 0},
        // A file does not contain how the head pools.
        {"modernbert-rerank", "{\"classifier_pooling\":\"mean\"}", 0},
        {"mistral", NULL, 0},
        {"mistral-no-window", NULL, 0},
        {"gemma", NULL, 0},
        // A file has no scale of attention and no interval of rotary layers.
        {"gemma3", "{\"query_pre_attn_scalar\":24}", 0},
        {"gemma3-nested", "{\"query_pre_attn_scalar\":24}", 0},
        {"smollm3-interval", "{\"no_rope_layer_interval\":4}", 0},
        {"phi3", NULL, 0},
        {"phi3-longrope-short", NULL, 1e-5f},
        {"granite", NULL, 0},
        {"granite-bias", NULL, 0},
        {"olmo2", NULL, 0},
        {"olmo3", NULL, 1e-5f},
        {"exaone4", NULL, 0},
        {"exaone4-no-window", NULL, 1e-5f},
        {"seed-oss", NULL, 0},
        {"glm4", NULL, 0},
        {"ernie4-5", NULL, 0},
        {"ministral3", NULL, 1e-5f},
        {"hunyuan", NULL, 1e-5f},
        {"hunyuan-bias", NULL, 0},
        {"cohere", NULL, 0},
        {"cohere-bias", "{\"rope_theta\":5e5,\"logit_scale\":0.0625,\"layer_norm_eps\":1e-5}", 0},
        {"cohere2", "{\"layer_norm_eps\":1e-5}", 0},
        // A file cannot have a dense layer between others.
        {"qwen3-moe", "{\"num_hidden_layers\":1,\"mlp_only_layers\":[]}", 0},
        {"qwen2-moe", NULL, 0},
        {"mixtral", NULL, 0},
        {"olmoe", NULL, 0},
        {"granite-moe", NULL, 0},
        {"glm4-moe", NULL, 0},
        {"ernie4-5-moe", NULL, 0},
        {"minimax-m2", NULL, 0},
        // A file has the limit of the gate that all published models have.
        {"gpt-oss", "{\"swiglu_limit\":7}", 0},
    };
    static struct outcome want, got;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        char folder[64], path[128];
        folder_make(folder);
        golden_pair_write(folder, models[i].name, models[i].edit);
        snprintf(path, sizeof path, "%s/m.gguf", folder);
        outcome_of(&want, folder, -1, 1);
        outcome_of(&got, path, -1, 1);
        assert_int_equal(want.kind, got.kind);
        assert_int_equal(want.width, got.width);
        assert_int_equal(want.dtype, got.dtype);
        assert_int_equal(want.positions, got.positions);
        assert_int_equal(want.end_count, got.end_count);
        assert_int_equal(want.end, got.end);
        // A file lacks two rows of RoBERTa's table of positions.
        uint32_t lacks = strstr(models[i].name, "roberta") ? 2 * 64 : 0;
        assert_int_equal(want.parameters, got.parameters + lacks);
        float apart = outcome_distance(&want, &got), most = outcome_size(&want);
        if (!(most > 0 && apart <= models[i].apart * most))
            fail_msg("%s: values from the file differ by %g of %g", models[i].name, (double)apart,
                     (double)most);
        folder_remove(folder);
    }
}

static json_t *scaling_take(json_t *golden)
{
    json_t *config = json_object_get(golden, "config");
    json_t *scaling = json_incref(json_object_get(config, "rope_scaling"));
    json_object_del(config, "rope_scaling");
    return scaling;
}

// A file has the biases for which it has tensors, whatever its family: q, k and v of a llama, none
// of a qwen2. Layers that only predict further tokens are left out.
static void test_parts_that_files_have_or_lack(void **state)
{
    (void)state;
    static const struct {
        const char *golden, *family;
        bool further;
    } cases[] = {{"qwen2", "llama", false}, {"llama", "qwen2", false}, {"glm4", "glm4", true}};
    static struct outcome want, got;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char folder[64], path[128];
        const char *family = cases[i].family;
        json_t *golden = golden_read(cases[i].golden);
        json_t *config = json_object_get(golden, "config");
        struct gguf_build b = {.key_count = 0};
        folder_make(folder);
        golden_folder_write(folder, golden, DTYPE_F32, 1);
        json_object_set_new(config, "model_type", json_string(family));
        if (cases[i].further)
            json_object_set_new(config, "num_hidden_layers", json_integer(3));
        gguf_of_golden(&b, golden);
        if (cases[i].further) {
            float ones[64] = {1};
            gguf_key_count(&b, "glm4.nextn_predict_layers", 1);
            gguf_tensor_add(&b, "blk.2.attn_norm.weight", &(uint64_t){64}, 1, 0, ones, sizeof ones);
            gguf_tensor_add(&b, "blk.2.nextn.enorm.weight", &(uint64_t){64}, 1, 0, ones,
                            sizeof ones);
        }
        gguf_write(folder, "m.gguf", &b);
        snprintf(path, sizeof path, "%s/m.gguf", folder);
        outcome_of(&want, folder, -1, 1);
        outcome_of(&got, path, -1, 1);
        assert_int_equal(want.parameters, got.parameters);
        assert_int_equal(want.width, got.width);
        assert_memory_equal(want.values, got.values, want.width * sizeof(float));
        json_decref(golden);
        folder_remove(folder);
    }
}

// Every way to write a scaling of positions gives the folder's result. Errors are compared with the
// change that the scaling makes.
static void test_scalings_of_positions(void **state)
{
    (void)state;
    enum way { NO_TYPE, OLDER_NAME, FREQS, ATTENTION };
    static const struct {
        const char *golden;
        enum way way;
    } cases[] = {{"llama-linear", NO_TYPE},
                 {"llama-linear", OLDER_NAME},
                 {"llama-linear", FREQS},
                 {"llama-llama3", FREQS},
                 {"llama-yarn", ATTENTION}};
    static struct outcome want, got, plain;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char folder[64], path[128];
        json_t *golden = golden_read(cases[i].golden), *scaling = NULL;
        json_t *config = json_object_get(golden, "config");
        struct gguf_build b = {.key_count = 0}, bare = {.key_count = 0};
        folder_make(folder);
        golden_folder_write(folder, golden, DTYPE_F32, 1);
        if (cases[i].way != ATTENTION)
            scaling = scaling_take(golden);
        gguf_of_golden(&b, golden);
        float factor = (float)json_number_value(json_object_get(scaling, "factor"));
        if (cases[i].way == NO_TYPE)
            gguf_key_number(&b, "llama.rope.scaling.factor", factor);
        else if (cases[i].way == OLDER_NAME)
            gguf_key_number(&b, "llama.rope.scale_linear", factor);
        else if (cases[i].way == FREQS)
            gguf_add_freqs(&b, config, scaling);
        else
            gguf_key_number(&b, "llama.rope.scaling.attn_factor", 1 + 0x1p-20f);
        outcome_of(&want, folder, -1, 1);
        gguf_write(folder, "m.gguf", &b);
        snprintf(path, sizeof path, "%s/m.gguf", folder);
        outcome_of(&got, path, -1, 1);
        if (cases[i].way == ATTENTION)
            json_decref(scaling_take(golden));
        gguf_of_golden(&bare, golden);
        gguf_write(folder, "m.gguf", &bare);
        outcome_of(&plain, path, -1, 1);
        float apart = outcome_distance(&want, &got), scales = outcome_distance(&want, &plain);
        if (!(scales > 1e-4f && apart < scales * 0.01f))
            fail_msg("%s: apart by %g, scaling changes %g", cases[i].golden, (double)apart,
                     (double)scales);
        json_decref(scaling);
        json_decref(golden);
        folder_remove(folder);
    }
}

// For an untied head converters write only its rows of yes and no, as cls.output.
static void test_reranker_with_two_head_rows(void **state)
{
    (void)state;
    static struct outcome want, got;
    json_t *golden = golden_read("qwen3-reranker");
    char folder[64], path[128];
    folder_make(folder); // the folder of a tied model
    golden_folder_write(folder, golden, DTYPE_F32, 1);
    outcome_of(&want, folder, -1, 1);
    snprintf(path, sizeof path, "%s/m.gguf", folder);
    for (int swapped = 0; swapped < 2; swapped++) {
        struct gguf_build b = {.key_count = 0}, plain = {.key_count = 0};
        gguf_of_golden(&b, golden);
        gguf_of_golden(&plain, golden);
        struct gguf_bytes bytes = gguf_finish(&plain), rows = {NULL, 0};
        struct arena *arena = arena_create(0, 0);
        struct gguf file;
        struct error err;
        assert_int_equal(gguf_parse(&file, arena, text_span(bytes.at, bytes.bytes), "m", &err),
                         STATUS_OK);
        const struct gguf_tensor *table = gguf_tensor_find(&file, "token_embd.weight");
        static const uint32_t ids[] = {17, 5, 17}; // yes_id and no_id of outcome_of
        for (int i = swapped; i < swapped + 2; i++)
            gguf_put(&rows, bytes.at + table->offset + 4 * table->shape[0] * ids[i],
                     4 * table->shape[0]);
        uint64_t shape[] = {table->shape[0], 2};
        gguf_tensor_add(&b, "cls.output.weight", shape, 2, 0, rows.at, rows.bytes);
        gguf_write(folder, "m.gguf", &b);
        outcome_of(&got, path, -1, 1);
        float expected = swapped ? -want.values[0] : want.values[0];
        assert_true(fabsf(got.values[0] - expected) < 1e-4f);
        assert_true(fabsf(want.values[0]) > 1);
        arena_destroy(arena);
        heap_free(rows.at);
        heap_free(bytes.at);
    }
    json_decref(golden);
    folder_remove(folder);
}

// Small files from the reference library's writer: every type with blocks of 32 elements, three
// tokenizers.
static void test_files_of_the_reference_writer(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        enum model_kind kind;
    } files[] = {{"llama", MODEL_GENERATOR}, {"scores", MODEL_GENERATOR}, {"bert", MODEL_EMBEDDER}};
    static struct outcome got, want;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[512];
        snprintf(path, sizeof path, "%s/tests/fuzz/corpus/gguf/%s", WEFT_SOURCE_DIR, files[i].name);
        outcome_of(&got, path, -1, 1);
        assert_int_equal(got.kind, files[i].kind);
        assert_true(got.formats[0] == 'Q'); // held as in the file
        outcome_of(&want, path, DTYPE_F32, 1);
        assert_true(want.formats[0] == '\0');
        assert_true(outcome_apart(&got, &want) < 0.05);
        assert_int_equal(got.positions, 64);
        float largest = 0;
        for (uint32_t k = 0; k < got.width; k++)
            largest = got.values[k] > largest ? got.values[k] : largest;
        assert_true(largest > 0 && largest < 100);
    }
}

// Writes a golden model with its matrices in Q8_0: blocks of 32 columns, scale 2^-8.
static void quantised_write(const char *folder, const json_t *golden)
{
    struct gguf_build b = {.key_count = 0}, plain = {.key_count = 0};
    gguf_of_golden(&plain, golden);
    struct gguf_bytes bytes = gguf_finish(&plain);
    struct arena *arena = arena_create(0, 0);
    struct gguf file;
    struct error err;
    assert_int_equal(gguf_parse(&file, arena, text_span(bytes.at, bytes.bytes), "m", &err),
                     STATUS_OK);
    struct gguf_build keys = {.key_count = 0};
    gguf_of_golden(&keys, golden);
    b.keys = keys.keys;
    b.key_count = keys.key_count;
    heap_free(keys.infos.at);
    heap_free(keys.data.at);
    for (uint32_t i = 0; i < file.tensor_count; i++) {
        const struct gguf_tensor *t = &file.tensors[i];
        char name[GGUF_NAME_MAX + 1];
        snprintf(name, sizeof name, "%.*s", (int)t->name.bytes, t->name.at);
        struct gguf_bytes blocks = {NULL, 0};
        bool matrix = t->dims >= 2 && !strstr(name, "gate_inp"); // routers stay floats
        for (uint64_t k = 0; matrix && k < t->bytes / 4; k++) {
            float value;
            memcpy(&value, file.file.at + t->offset + 4 * k, 4);
            if (k % 32 == 0)
                gguf_put_number(&blocks, f32_to_f16(0x1p-8f), 2);
            gguf_put_number(&blocks, (uint8_t)(int8_t)(value * 0x1p8f), 1);
        }
        if (matrix)
            gguf_tensor_add(&b, name, t->shape, t->dims, GGUF_TYPE_Q8_0, blocks.at, blocks.bytes);
        else
            gguf_tensor_add(&b, name, t->shape, t->dims, 0, file.file.at + t->offset, t->bytes);
        heap_free(blocks.at);
    }
    gguf_write(folder, "q.gguf", &b);
    arena_destroy(arena);
    heap_free(bytes.at);
}

// Quantised weights are held as in the file on a CPU unless --dtype selects a type; every rank
// reads its rows and columns. The rows of q and k are in pairs: in llama's file, and in the next
// two families, where glm4 has only a part of a head in pairs. phi3 has q, k and v in one tensor.
// The last two are mixtures of experts.
static void test_quantised_weights_and_ranks(void **state)
{
    (void)state;
    static struct outcome one, two, exact;
    static const char *const models[] = {"llama", "glm4",        "ernie4-5",
                                         "phi3",  "granite-moe", "glm4-moe"};
    static const int given[] = {-1, DTYPE_I8, DTYPE_BF16};
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        char folder[64], path[128];
        json_t *golden = golden_read(models[m]);
        folder_make(folder);
        quantised_write(folder, golden);
        snprintf(path, sizeof path, "%s/q.gguf", folder);
        outcome_of(&exact, path, DTYPE_F32, 1);
        assert_int_equal(exact.dtype, DTYPE_F32);
        for (int i = 0; i < (m == 0 ? 3 : 1); i++)
            for (uint32_t ranks = 1; ranks <= 2; ranks++) {
                outcome_of(&one, path, given[i], ranks);
                assert_string_equal(one.formats, i == 0 ? "Q8_0" : "");
                assert_int_equal(one.dtype, i == 1 ? DTYPE_I8 : DTYPE_BF16);
                // phi3 on a CPU with bfloat16 instructions: 0.031
                assert_true(outcome_apart(&one, &exact) < 0.05);
            }
        outcome_of(&two, path, DTYPE_F32, 2);
        float largest = outcome_size(&exact);
        assert_true(largest > 0.01f && outcome_distance(&exact, &two) < 1e-5f * largest);
        json_decref(golden);
        folder_remove(folder);
    }
}

// Blocks of a type in gguf_vectors.json and the values that the reference computes from them.
struct reference {
    const struct gguf_type *type;
    struct gguf_bytes blocks, values;
    uint32_t halves[2]; // offsets of the scales in a block; each is a half float
    uint32_t half_count;
};

static void reference_read(struct reference *out, const json_t *root, const char *name)
{
    const json_t *entry = json_object_get(root, name);
    out->type = gguf_type_of((uint32_t)json_integer_value(json_object_get(entry, "type")));
    out->blocks = unhex(json_object_get(entry, "blocks"));
    out->values = unhex(json_object_get(entry, "values"));
    const json_t *halves = json_object_get(entry, "halves");
    out->half_count = (uint32_t)json_array_size(halves);
    assert_true(out->half_count >= 1 && out->half_count <= 2);
    for (uint32_t i = 0; i < out->half_count; i++)
        out->halves[i] = (uint32_t)json_integer_value(json_array_get(halves, i));
}

// Adds a tensor of the reference's blocks in random order, each multiplied by a power of two up to
// 8 and a sign, as blocks or dequantised. Such a factor changes no mantissa bit of the values.
static void blocks_add(struct gguf_build *b, const char *name, const struct reference *from,
                       uint64_t cols, uint64_t rows, bool quantised)
{
    struct gguf_bytes data = {NULL, 0};
    const struct gguf_type *type = from->type;
    uint64_t known = from->blocks.bytes / type->bytes;
    uint32_t random = (uint32_t)strlen(name);
    for (uint64_t i = 0; i < rows * cols / type->elements; i++) {
        random = random * 1664525 + 1013904223;
        uint64_t at = (random >> 8) % known;
        float factor = (float)(1 << (random >> 16) % 4) * ((random >> 20) % 2 ? -1.0f : 1.0f);
        char block[256];
        memcpy(block, from->blocks.at + at * type->bytes, type->bytes);
        for (uint32_t h = 0; h < from->half_count; h++) {
            uint16_t half;
            memcpy(&half, block + from->halves[h], sizeof half);
            half = f32_to_f16(f16_to_f32(half) * factor);
            memcpy(block + from->halves[h], &half, sizeof half);
        }
        if (quantised)
            gguf_put(&data, block, type->bytes);
        for (uint32_t k = 0; !quantised && k < type->elements; k++) {
            float value;
            memcpy(&value, from->values.at + (at * type->elements + k) * sizeof value,
                   sizeof value);
            value *= factor;
            gguf_put(&data, &value, sizeof value);
        }
    }
    const uint64_t shape[] = {cols, rows};
    gguf_tensor_add(b, name, shape, 2, quantised ? type->id : GGUF_TYPE_F32, data.at, data.bytes);
    heap_free(data.at);
}

// Writes a model as converters do with Q4_K_M, or dequantised. Its token table is converted in two
// passes (put_rows).
static void k_model_write(const char *folder, const char *name, const struct reference refs[3],
                          bool quantised)
{
    static const struct {
        const char *name;
        int type; // index in `refs`
        uint32_t cols, rows;
    } tensors[] = {{"token_embd", 2, 256, 1100},       {"blk.0.attn_q", 0, 256, 256},
                   {"blk.0.attn_k", 1, 256, 128},      {"blk.0.attn_v", 2, 256, 128},
                   {"blk.0.attn_output", 0, 256, 256}, {"blk.0.ffn_gate", 0, 256, 512},
                   {"blk.0.ffn_up", 1, 256, 512},      {"blk.0.ffn_down", 2, 512, 256}};
    static const char *const norms[] = {"output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"};
    struct gguf_build b = {.key_count = 0};
    json_error_t ignored;
    json_t *made = json_loads(
        "{\"config\":{\"model_type\":\"llama\",\"hidden_size\":256,\"num_hidden_layers\":1,"
        "\"intermediate_size\":512,\"max_position_embeddings\":64,\"num_attention_heads\":4,"
        "\"num_key_value_heads\":2,\"rms_norm_eps\":1e-5,\"rope_theta\":10000,"
        "\"vocab_size\":1100},\"tensors\":[]}",
        0, &ignored);
    gguf_of_golden(&b, made);
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) {
        char full[64];
        snprintf(full, sizeof full, "%s.weight", tensors[i].name);
        blocks_add(&b, full, &refs[tensors[i].type], tensors[i].cols, tensors[i].rows, quantised);
    }
    for (size_t i = 0; i < sizeof norms / sizeof *norms; i++) {
        char full[64];
        float ones[256];
        const uint64_t shape[] = {256};
        for (int k = 0; k < 256; k++)
            ones[k] = 1 + 0.01f * (float)(k % 7);
        snprintf(full, sizeof full, "%s.weight", norms[i]);
        gguf_tensor_add(&b, full, shape, 1, GGUF_TYPE_F32, ones, sizeof ones);
    }
    gguf_write(folder, name, &b);
    json_decref(made);
}

// Compares models of quantised blocks with the same models of dequantised blocks: equal in float32,
// alone and as two ranks, and close as the CPU holds them. formats: the types that it holds as in
// the file; attention: how it holds the products of attention.
static void k_models_compare(const json_t *root, const char *const types[3], const char *formats,
                             const char *attention)
{
    static struct outcome want, got;
    struct reference refs[3];
    char folder[64], path[2][128];
    for (int i = 0; i < 3; i++)
        reference_read(&refs[i], root, types[i]);
    folder_make(folder);
    for (int quantised = 0; quantised < 2; quantised++) {
        char name[32];
        snprintf(name, sizeof name, "%d.gguf", quantised);
        k_model_write(folder, name, refs, quantised);
        snprintf(path[quantised], sizeof path[0], "%s/%s", folder, name);
    }
    outcome_of(&want, path[0], -1, 1);
    assert_int_equal(want.dtype, DTYPE_F32);
    assert_int_equal(want.width, 1100);
    outcome_of(&got, path[1], DTYPE_F32, 1);
    assert_memory_equal(want.values, got.values, want.width * sizeof(float));
    float least = want.values[0], most = least;
    for (uint32_t i = 0; i < want.width; i++) {
        assert_true(isfinite(want.values[i]));
        least = fminf(least, want.values[i]);
        most = fmaxf(most, want.values[i]);
    }
    assert_true(most - least > 1);
    outcome_of(&got, path[1], DTYPE_F32, 2); // each rank reads its columns
    for (uint32_t i = 0; i < want.width; i++)
        assert_true(fabsf(want.values[i] - got.values[i]) < 1e-4f * (most - least));
    for (uint32_t ranks = 1; ranks <= 2; ranks++) {
        outcome_of(&got, path[1], -1, ranks);
        if (ranks == 1) { // two ranks cut blocks
            assert_string_equal(got.formats, formats);
            assert_string_equal(got.attention, attention);
        }
        assert_true(outcome_apart(&got, &want) < 0.03);
    }
    for (int i = 0; i < 3; i++) {
        heap_free(refs[i].blocks.at);
        heap_free(refs[i].values.at);
    }
    folder_remove(folder);
}

static void test_models_of_k_blocks(void **state)
{
    (void)state;
    struct error err;
    json_t *root;
    assert_int_equal(
        json_file_parse(&root, WEFT_SOURCE_DIR "/tests/runtime/gguf_vectors.json", 1 << 20, &err),
        STATUS_OK);
    k_models_compare(root, (const char *const[]){"Q4_K", "Q5_K", "Q6_K"}, "Q6_K, Q4_K, Q5_K",
                     "Q4_K, Q5_K, Q6_K");
    k_models_compare(root, (const char *const[]){"Q2_K", "Q3_K", "IQ4_XS"}, "int8", "int8");
    k_models_compare(root, (const char *const[]){"Q4_K", "IQ4_NL", "Q6_K"}, "Q6_K, int8, Q4_K",
                     "int8, Q4_K");
    json_decref(root);
}

static enum status config_read(const char *folder, const char *name)
{
    char path[512];
    struct text text;
    struct error err;
    struct arena *arena = arena_create(0, 0);
    snprintf(path, sizeof path, "%s/%s/config.json", folder, name);
    enum status status = model_file_read(&text, arena, path, 1 << 20, &err);
    arena_destroy(arena);
    return status;
}

// All readers of an open model use the file as it was when the model was opened.
static void test_an_open_file_is_parsed_once(void **state)
{
    (void)state;
    char folder[64], path[128], other[128];
    struct error err;
    struct tensors *tensors;
    json_t *golden = golden_read("llama");
    struct gguf_build b = {.key_count = 0};
    folder_make(folder);
    gguf_of_golden(&b, golden);
    gguf_write(folder, "m.gguf", &b);
    snprintf(path, sizeof path, "%s/m.gguf", folder);
    snprintf(other, sizeof other, "%s/none.gguf", folder);
    assert_null(model_source_open(folder));
    assert_null(model_source_open(other));
    struct model_source *first = model_source_open(path), *second = model_source_open(path);
    assert_non_null(first);
    assert_ptr_equal(first, second);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(config_read(folder, "m.gguf"), STATUS_OK);
    assert_int_not_equal(config_read(folder, "m.gguf2"), STATUS_OK);
    model_source_close(first);
    assert_int_equal(config_read(folder, "m.gguf"), STATUS_OK);
    assert_int_equal(tensors_open(&tensors, path, &err), STATUS_OK);
    model_source_close(second);
    assert_non_null(tensors_find(tensors, "model.norm.weight"));
    assert_int_equal(tensors_check(tensors, STATUS_OK, &err), STATUS_OK);
    tensors_close(tensors);
    assert_int_not_equal(config_read(folder, "m.gguf"), STATUS_OK);
    model_source_close(NULL);
    json_decref(golden);
    folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks_match_the_reference),
        cmocka_unit_test(test_rows_of_heads_are_reordered),
        cmocka_unit_test(test_rows_of_16_bit_floats),
        cmocka_unit_test(test_file_equals_the_folder),
        cmocka_unit_test(test_parts_that_files_have_or_lack),
        cmocka_unit_test(test_scalings_of_positions),
        cmocka_unit_test(test_reranker_with_two_head_rows),
        cmocka_unit_test(test_files_of_the_reference_writer),
        cmocka_unit_test(test_quantised_weights_and_ranks),
        cmocka_unit_test(test_models_of_k_blocks),
        cmocka_unit_test(test_an_open_file_is_parsed_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
