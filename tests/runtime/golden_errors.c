// SPDX-License-Identifier: Apache-2.0
// See golden_errors.h.
#include "tests/runtime/golden_errors.h"

#include "base/arena.h"
#include "base/status.h"

#include <math.h>

enum { LENGTH_MAX = 64 };

struct golden_errors golden_errors_of(const json_t *golden, const float *got, uint32_t width)
{
    const json_t *expected = json_object_get(golden, "expected");
    double worst = 0, most = 0, difference = 0, total = 0;
    uint32_t inputs = (uint32_t)json_array_size(json_object_get(golden, "inputs"));
    check(inputs > 0, "no inputs");
    for (uint32_t i = 0; i < inputs; i++) {
        const json_t *row = json_array_get(expected, i);
        check(json_array_size(row) == width, "row %u has %zu values", i, json_array_size(row));
        for (uint32_t k = 0; k < width; k++) {
            double want = json_number_value(json_array_get(row, k));
            double apart = (double)got[(size_t)i * width + k] - want;
            check(isfinite(apart), "row %u is not finite", i);
            worst = fmax(worst, fabs(apart));
            most = fmax(most, fabs(want));
            difference += apart * apart;
            total += want * want;
        }
    }
    return (struct golden_errors){worst / most, sqrt(difference / total)};
}

struct golden_errors golden_logits_errors(struct rig *rig, const json_t *golden)
{
    const json_t *inputs = json_object_get(golden, "inputs");
    uint32_t width = rig->facts->vocab;
    float *got = heap_alloc_zeroed(json_array_size(inputs) * width, sizeof *got);
    for (uint32_t i = 0; i < json_array_size(inputs); i++) {
        const json_t *ids = json_array_get(inputs, i);
        int32_t tokens[LENGTH_MAX];
        uint32_t count = (uint32_t)json_array_size(ids);
        check(count <= LENGTH_MAX, "input %u has %u tokens", i, count);
        for (uint32_t t = 0; t < count; t++)
            tokens[t] = (int32_t)json_integer_value(json_array_get(ids, t));
        struct rig_sequence sequence = {i, tokens, count, 0, STEP_NO_TYPE};
        rig_begin(rig);
        rig_prefill(rig, &sequence, LENGTH_MAX, WANT_TOKEN);
        rig_step(rig, got + (size_t)i * width);
    }
    struct golden_errors errors = golden_errors_of(golden, got, width);
    heap_free(got);
    return errors;
}

void golden_same_as_bfloat16(const char *path, const struct model_options *held,
                             const json_t *golden, const struct golden_errors *errors)
{
    struct model_options options = *held;
    struct rig rig;
    options.dtype = DTYPE_BF16;
    rig_open(&rig, path, &options);
    check(rig.facts->formats[0] == '\0', "held as %s", rig.facts->formats);
    struct golden_errors floats = golden_logits_errors(&rig, golden);
    rig_close(&rig);
    check(floats.frobenius == errors->frobenius && floats.largest == errors->largest,
          "the error is %.9e as codes, %.9e as bfloat16", errors->frobenius, floats.frobenius);
}
