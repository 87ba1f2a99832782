// SPDX-License-Identifier: Apache-2.0
// Every family at a tiny shape compared with the results of transformers (tests/golden, written by
// tools/golden.py). float32: within 1e-4 of the largest magnitude. bfloat16: the relative error
// against the float32 reference is at most 1.5 times that of transformers' own bfloat16 run.
// float16 weights: like float32 if the device computes in float32. Greedy tokens: equal up to the
// first position at which the reference's two best logits are closer than the tolerance.
// Each model runs batched (as many inputs per step as fit), then greedy from those rows. Arguments
// are the names of the models to run, without .json. WEFT_TEST_ONLY is a pattern (*, ?) for the
// names of the tests. WEFT_GOLDEN_TOKENS limits the greedy tokens of each sequence.
#include "base/arena.h"
#include "base/json.h"
#include "runtime/model/config.h"
#include "tests/runtime/golden.h"
#include "tests/runtime/golden_errors.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { INPUTS_MAX = 32, LENGTH_MAX = 64, WIDTH_MAX = 96 };

struct run {
    json_t *golden;
    char folder[64];
    struct rig rig;
    bool experts; // true if it is a mixture of experts
    uint32_t inputs, width;
    int32_t tokens[INPUTS_MAX][LENGTH_MAX];
    struct rig_sequence sequences[INPUTS_MAX];
    float got[INPUTS_MAX * WIDTH_MAX];
    int32_t first[INPUTS_MAX]; // the token sampled after each prompt
};

static void inputs_read(struct run *run)
{
    const json_t *inputs = json_object_get(run->golden, "inputs");
    const json_t *types = json_object_get(run->golden, "types_from");
    run->inputs = (uint32_t)json_array_size(inputs);
    assert_true(run->inputs > 0 && run->inputs <= INPUTS_MAX);
    for (uint32_t i = 0; i < run->inputs; i++) {
        const json_t *ids = json_array_get(inputs, i);
        uint32_t count = (uint32_t)json_array_size(ids);
        assert_true(count <= LENGTH_MAX);
        for (uint32_t t = 0; t < count; t++)
            run->tokens[i][t] = (int32_t)json_integer_value(json_array_get(ids, t));
        const json_t *from = json_array_get(types, i);
        uint32_t type = json_is_integer(from) ? (uint32_t)json_integer_value(from) : STEP_NO_TYPE;
        run->sequences[i] = (struct rig_sequence){i, run->tokens[i], count, 0, type};
    }
}

static struct run *run_open(const char *name, enum dtype stored, int dtype, uint32_t shards)
{
    struct run *run = heap_alloc_zeroed(1, sizeof *run);
    run->golden = golden_read(name);
    folder_make(run->folder);
    golden_folder_write(run->folder, run->golden, stored, shards);
    struct error err;
    struct model_config config;
    const json_t *json = json_object_get(run->golden, "config");
    assert_int_equal(model_config_parse(&config, json, &err), STATUS_OK);
    run->experts = config.experts.count > 0;
    struct model_options options = rig_options();
    options.dtype = dtype;
    options.max_model_len =
        (uint32_t)json_integer_value(json_object_get(run->golden, "max_model_len"));
    const json_t *answers = json_object_get(run->golden, "answers");
    for (int form = 0; form < RERANK_FORMS; form++)
        for (size_t i = 0; i < 2; i++)
            options.answer_ids[form][i] = (int32_t)json_integer_value(json_array_get(answers, i));
    rig_open(&run->rig, run->folder, &options);
    inputs_read(run);
    return run;
}

static void run_close(struct run *run)
{
    rig_close(&run->rig);
    folder_remove(run->folder);
    json_decref(run->golden);
    heap_free(run);
}

static enum batch_want want_of(const struct run *run)
{
    enum model_kind kind = run->rig.facts->kind;
    return kind == MODEL_GENERATOR ? WANT_TOKEN : kind == MODEL_EMBEDDER ? WANT_VECTOR : WANT_SCORE;
}

// Runs all inputs, as many per step as the limits allow, and copies every result.
static void run_all(struct run *run)
{
    const struct model_facts *facts = run->rig.facts;
    bool sampled = facts->kind == MODEL_GENERATOR;
    run->width = sampled ? facts->vocab : facts->output_width;
    assert_true(run->width <= WIDTH_MAX);
    for (uint32_t i = 0; i < run->inputs;) {
        uint32_t first = i;
        rig_begin(&run->rig);
        for (uint32_t room = facts->limits.tokens_max;
             i < run->inputs && run->sequences[i].count <= room; i++) {
            room -= run->sequences[i].count;
            rig_prefill(&run->rig, &run->sequences[i], LENGTH_MAX, want_of(run));
        }
        float *to = run->got + (size_t)first * run->width;
        struct model_output out = rig_step(&run->rig, sampled ? to : NULL);
        assert_int_equal(out.count, i - first);
        for (uint32_t r = 0; r < out.count; r++)
            if (sampled)
                run->first[first + r] = out.results[r].token;
            else
                memcpy(to + r * run->width, out.values + (size_t)r * run->width,
                       run->width * sizeof(float));
    }
}

// True if greedy token t of sequence i must be compared: the reference's two best logits are
// further apart than the tolerance at this position and at all earlier ones.
static bool greedy_is_clear(const struct run *run, uint32_t i, size_t t, double tolerance)
{
    const json_t *ids = json_array_get(json_object_get(run->golden, "greedy"), i);
    const json_t *gaps = json_array_get(json_object_get(run->golden, "gaps"), i);
    if (t >= json_array_size(ids))
        return false;
    for (size_t k = 0; k <= t; k++)
        if (json_number_value(json_array_get(gaps, k)) < tolerance)
            return false;
    return true;
}

// Decodes all sequences together and compares their tokens with the reference's greedy ids, each
// sequence up to its first position that is not clear.
static uint32_t greedy_check(struct run *run, double tolerance)
{
    const json_t *greedy = json_object_get(run->golden, "greedy");
    const char *limit = getenv("WEFT_GOLDEN_TOKENS");
    size_t tokens = limit ? (size_t)atoi(limit) : LENGTH_MAX;
    uint32_t compared = 0, rows = (uint32_t)json_array_size(greedy), row_of[INPUTS_MAX];
    assert_true(rows <= run->inputs);
    struct model_output out = {0};
    for (size_t t = 0; rows > 0 && t < tokens; t++) {
        rows = 0;
        for (uint32_t i = 0; i < json_array_size(greedy); i++) {
            if (!greedy_is_clear(run, i, t, tolerance))
                continue;
            int32_t token = t == 0 ? run->first[i] : out.results[row_of[i]].token;
            assert_int_equal(token,
                             json_integer_value(json_array_get(json_array_get(greedy, i), t)));
            compared++;
            if (t + 1 == tokens || !greedy_is_clear(run, i, t + 1, tolerance))
                continue;
            if (rows == 0)
                rig_begin(&run->rig);
            rig_decode(&run->rig, &run->sequences[i]);
            row_of[i] = rows++;
        }
        if (rows > 0)
            out = rig_step(&run->rig, NULL);
    }
    return compared;
}

static char **asked; // models to run, up to a NULL; none: all

static bool is_asked(const char *name)
{
    for (char **one = asked; *one; one++)
        if (strcmp(*one, name) == 0)
            return true;
    return !*asked;
}

static uint32_t golden_names(char names[][64], uint32_t room)
{
    DIR *folder = opendir(WEFT_SOURCE_DIR "/tests/golden");
    assert_non_null(folder);
    uint32_t count = 0;
    for (struct dirent *entry = readdir(folder); entry; entry = readdir(folder)) {
        size_t bytes = strlen(entry->d_name);
        if (bytes < 6 || bytes >= 64 || strcmp(entry->d_name + bytes - 5, ".json") != 0)
            continue;
        assert_true(count < room);
        snprintf(names[count], 64, "%.*s", (int)bytes - 5, entry->d_name);
        count += is_asked(names[count]);
    }
    closedir(folder);
    return count;
}

struct mode {
    const char *label;
    enum dtype stored;
    int dtype;
    double bound;   // limit of the largest error; 0: not tested
    double of_bf16; // limit as a multiple of the golden bf16 error; 0: not tested
    double greedy;  // tolerance of the gap between the two best logits
};

// Returns the tolerance of the gap. Activations of 16 bits can choose another expert than the
// reference where two are nearly equal, which changes logits as much as int8 does (in minimax-m2 by
// 0.8 where the values of two experts differ by 0.012).
static double greedy_tolerance(const struct run *run, const struct mode *mode)
{
    struct device_facts facts;
    run->rig.api->facts(run->rig.device, &facts);
    enum dtype held = mode->dtype < 0 ? mode->stored : (enum dtype)mode->dtype;
    return run->experts && facts.activation[held] != DTYPE_F32 ? 0.8 : mode->greedy;
}

static void all_models(const struct mode *mode)
{
    static char names[128][64];
    uint32_t count = golden_names(names, 128);
    uint32_t wanted = 0;
    while (asked[wanted])
        wanted++;
    assert_true(wanted > 0 ? count == wanted : count >= 25);
    uint32_t failed = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct run *run = run_open(names[i], mode->stored, mode->dtype, 1 + i % 3);
        run_all(run);
        struct golden_errors e = golden_errors_of(run->golden, run->got, run->width);
        double half = json_number_value(json_object_get(run->golden, "bf16_error"));
        uint32_t compared = greedy_check(run, greedy_tolerance(run, mode));
        bool good = (mode->bound == 0 || e.largest <= mode->bound) &&
                    (mode->of_bf16 == 0 || e.frobenius <= mode->of_bf16 * half);
        printf("%-8s %-28s error %.1e of the largest, %.2f of transformers' bfloat16, %u greedy"
               "%s\n",
               mode->label, names[i], e.largest, e.frobenius / half, compared,
               good ? "" : "  TOO FAR");
        failed += !good;
        run_close(run);
    }
    assert_int_equal(failed, 0);
}

static void test_float32_is_exact(void **state)
{
    (void)state;
    // a card would run it as bfloat16 by default
    all_models(&(struct mode){"float32", DTYPE_F32, DTYPE_F32, 1e-4, 0, 1e-3});
}

static void test_bfloat16_is_as_good(void **state)
{
    (void)state;
    all_models(&(struct mode){"bfloat16", DTYPE_BF16, -1, 0, 1.5, 0.15});
}

static void test_float16_is_as_good(void **state)
{
    (void)state;
    all_models(&(struct mode){"float16", DTYPE_F16, -1, 0, 1.5, 0.15});
}

// Quantisation costs accuracy, most at hidden size 64. The limit only catches broken code;
// perplexity is measured on a trained model in test_tinystories.
static void test_int8_is_usable(void **state)
{
    (void)state;
    all_models(&(struct mode){"int8", DTYPE_F32, DTYPE_I8, 0.12, 0, 0.8});
}

int main(int argc, char **argv)
{
    asked = argv + (argc > 0);
    if (!rig_device_usable())
        return 77;
    if (getenv("WEFT_TEST_ONLY"))
        cmocka_set_test_filter(getenv("WEFT_TEST_ONLY"));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_float32_is_exact),
        cmocka_unit_test(test_bfloat16_is_as_good),
        cmocka_unit_test(test_float16_is_as_good),
        cmocka_unit_test(test_int8_is_usable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
