// Drives model.h as the scheduler would: sequences get rows and KV blocks, batches are filled by
// hand, results are collected at once. For tests; one thread; every failure ends the test.
#pragma once

#include "kernels/device.h"
#include "runtime/model/model.h"

#include <stdbool.h>
#include <stdint.h>

struct rig {
    const struct device_api *api;
    struct device *device;
    struct device *ranks[RANKS_MAX]; // of a model that is shared, else NULL
    struct model_plan *plan;
    struct model *model;
    const struct model_facts *facts;
    struct batch *batch;
    uint64_t step;
};

struct rig_sequence {
    uint32_t row;
    const int32_t *tokens;
    uint32_t count, computed;
    uint32_t type_from; // STEP_NO_TYPE: no second part
};

// Options with everything at its default.
struct model_options rig_options(void);

// cpu, or the plugin named by WEFT_TEST_DEVICE: simt, cuda, whose library is
// WEFT_TEST_DEVICE_LIBRARY. NULL: it cannot be loaded.
const struct device_api *rig_device(void);

// Opens that device and the model with KV for max_num_seqs whole sequences.
void rig_open(struct rig *rig, const char *folder, const struct model_options *options);
// Where WEFT_TEST_RANKS says so, several ranks share the model, if it is a decoder.
// The same with KV for so many whole sequences; 0: max_num_seqs.
void rig_open_sized(struct rig *rig, const char *folder, const struct model_options *options,
                    uint32_t kv_sequences);
// The same on another device; api outlives the rig.
void rig_open_on(struct rig *rig, const struct device_api *api, const char *folder,
                 const struct model_options *options);
// The same with several ranks.
void rig_open_ranks(struct rig *rig, const struct device_api *api, const char *folder,
                    const struct model_options *options, uint32_t ranks);
void rig_close(struct rig *rig);

// False, with one line that says why, where the device of WEFT_TEST_DEVICE is not available.
bool rig_device_usable(void);

void rig_begin(struct rig *rig);
// The next `tokens` of the sequence; the chunk that ends it wants `want`.
void rig_prefill(struct rig *rig, struct rig_sequence *s, uint32_t tokens, enum batch_want want);
// One decode row: its token is the one last sampled.
void rig_decode(struct rig *rig, struct rig_sequence *s);
// Launch, logits into `logits` unless NULL, sample, collect.
struct model_output rig_step(struct rig *rig, float *logits);

// The two halves of rig_step, for steps in flight.
void rig_launch(struct rig *rig, float *logits);
struct model_output rig_collect(struct rig *rig);

// Whole prompt in chunks of `chunk` tokens; the logits of its last position.
void rig_prompt_logits(struct rig *rig, struct rig_sequence *s, uint32_t chunk, float *logits);
