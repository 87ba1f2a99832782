// SPDX-License-Identifier: Apache-2.0
// A real encoder, if present: $WEFT_TEST_MODELS/all-MiniLM-L6-v2 must give the mean-pooled vectors
// that another server recorded (assets/encoder-expected) to a cosine of 0.9999. The token ids are
// those of the uncased BERT vocabulary, so that only the model is tested here.
#include "base/arena.h"
#include "base/json.h"
#include "tests/runtime/model_rig.h"
#include "tests/assets.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { WIDTH = 384, TEXTS = 2, RECORDED = 3 };

static const int32_t texts[TEXTS][8] = {
    {101, 2054, 2003, 2784, 4083, 1029, 102},       // "What is Deep Learning?"
    {101, 2784, 4083, 2003, 1012, 1012, 1012, 102}, // "Deep Learning is..."
};
static const uint32_t lengths[TEXTS] = {7, 8};
static const int which[RECORDED] = {0, 1, 0}; // the recorded batch has three texts

static char folder[4096];

// Reads the numbers of a YAML list of lists, in order: "- - -0.5" and "  - 0.25", after a header
// between two lines of "---".
static uint32_t recorded_read(float *out, uint32_t room)
{
    FILE *file = fopen(assets_path("encoder-expected/test_bert__bert_batch.snap"), "r");
    assert_non_null(file);
    char line[256];
    uint32_t count = 0;
    int fences = 0;
    while (fgets(line, sizeof line, file) && count < room) {
        bool fence = strncmp(line, "---", 3) == 0;
        fences += fence;
        const char *last = strrchr(line, ' ');
        if (fences == 2 && !fence && last)
            out[count++] = strtof(last + 1, NULL);
    }
    fclose(file);
    return count;
}

// Both texts and a short one, with int8 weights compared with float32.
static void test_bytes_are_near(void **state)
{
    (void)state;
    static const int32_t hello[3] = {101, 7592, 102};
    static float want[TEXTS + 1][WIDTH];
    static const int dtypes[2] = {DTYPE_F32, DTYPE_I8};
    for (int d = 0; d < 2; d++) {
        struct model_options options = rig_options();
        options.dtype = dtypes[d];
        struct rig rig;
        rig_open(&rig, folder, &options);
        rig_begin(&rig);
        for (uint32_t i = 0; i <= TEXTS; i++) {
            struct rig_sequence s = {i, i < TEXTS ? texts[i] : hello, i < TEXTS ? lengths[i] : 3, 0,
                                     STEP_NO_TYPE};
            rig_prefill(&rig, &s, 8, WANT_VECTOR);
        }
        struct model_output out = rig_step(&rig, NULL);
        if (d == 0)
            memcpy(want, out.values, sizeof want);
        for (uint32_t i = 0; d == 1 && i <= TEXTS; i++) {
            double dot = 0, one = 0, two = 0;
            for (uint32_t k = 0; k < WIDTH; k++) {
                double a = want[i][k], b = out.values[i * WIDTH + k];
                dot += a * b;
                one += a * a;
                two += b * b;
            }
            printf("int8, text %u: cosine %.5f\n", i, dot / sqrt(one * two));
            assert_true(dot >= 0.999 * sqrt(one * two));
        }
        rig_close(&rig);
    }
}

static void test_vectors_match(void **state)
{
    (void)state;
    static float want[RECORDED * WIDTH];
    assert_int_equal(recorded_read(want, RECORDED * WIDTH), RECORDED * WIDTH);
    struct model_options options = rig_options();
    struct rig rig;
    rig_open(&rig, folder, &options);
    assert_int_equal(rig.facts->kind, MODEL_EMBEDDER);
    rig_begin(&rig);
    for (uint32_t i = 0; i < TEXTS; i++) {
        struct rig_sequence s = {i, texts[i], lengths[i], 0, STEP_NO_TYPE};
        rig_prefill(&rig, &s, 8, WANT_VECTOR);
    }
    struct model_output out = rig_step(&rig, NULL);
    for (uint32_t i = 0; i < RECORDED; i++) {
        double dot = 0, norm = 0;
        for (uint32_t k = 0; k < WIDTH; k++) {
            double w = want[i * WIDTH + k];
            dot += w * out.values[which[i] * WIDTH + k];
            norm += w * w;
        }
        printf("text %u: cosine %.7f\n", i, dot / sqrt(norm));
        assert_true(dot / sqrt(norm) >= 0.9999);
    }
    rig_close(&rig);
}

int main(void)
{
    const char *models = getenv("WEFT_TEST_MODELS");
    if (!models) {
        puts("skipped: WEFT_TEST_MODELS names no folder with all-MiniLM-L6-v2");
        return 77;
    }
    snprintf(folder, sizeof folder, "%s/all-MiniLM-L6-v2", models);
    if (access(folder, R_OK) != 0 || access(assets_path("encoder-expected"), R_OK) != 0) {
        printf("skipped: no %s or no WEFT_ASSETS\n", folder);
        return 77;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_vectors_match),
                                       cmocka_unit_test(test_bytes_are_near)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
