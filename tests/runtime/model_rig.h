// SPDX-License-Identifier: Apache-2.0
// Drives model.h like the scheduler: sequences get rows and KV blocks, batches are filled by hand,
// results are collected immediately. One thread; every failure ends the test.
#pragma once

#include "kernels/device.h"
#include "runtime/model/model.h"

#include <stdbool.h>
#include <stdint.h>

struct rig {
    const struct device_api *api;
    struct device *device;
    struct device *ranks[RANKS_MAX]; // devices of the ranks if the model is split, otherwise NULL
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
    uint32_t type_from; // first token of type 1 (second part); STEP_NO_TYPE: none
};

// Returns options with defaults for small models.
struct model_options rig_options(void);

// Returns cpu, or the plugin named by WEFT_TEST_DEVICE (simt, cuda), whose library is
// WEFT_TEST_DEVICE_LIBRARY. Returns NULL if it cannot be loaded.
const struct device_api *rig_device(void);

// Opens that device and the model, with KV memory for max_num_seqs sequences of full length. If
// WEFT_TEST_RANKS is set and the model can be split, this number of ranks share it.
void rig_open(struct rig *rig, const char *folder, const struct model_options *options);
// Does what rig_open does, with KV memory for kv_sequences sequences of full length; 0:
// max_num_seqs.
void rig_open_sized(struct rig *rig, const char *folder, const struct model_options *options,
                    uint32_t kv_sequences);
// Opens the model, unsplit, on another device, whose table outlives the rig.
void rig_open_on(struct rig *rig, const struct device_api *api, const char *folder,
                 const struct model_options *options);
// Opens the model on another device, split among `ranks` ranks if it is a decoder.
void rig_open_ranks(struct rig *rig, const struct device_api *api, const char *folder,
                    const struct model_options *options, uint32_t ranks);
// Closes the model, its plan and the devices.
void rig_close(struct rig *rig);

// Returns false, and prints the reason in one line, if the device of WEFT_TEST_DEVICE is not
// available.
bool rig_device_usable(void);
// Returns false if WEFT_TEST_FAST is set: devices are then opened in the default mode, in which
// results may depend on the other rows of a step.
bool rig_exact(void);

// Starts an empty batch for the next step.
void rig_begin(struct rig *rig);
// Adds the next `tokens` tokens of the sequence as a row. The chunk that ends the sequence requests
// `want`, the others nothing.
void rig_prefill(struct rig *rig, struct rig_sequence *s, uint32_t tokens, enum batch_want want);
// Adds a decode row, whose token is the last one sampled.
void rig_decode(struct rig *rig, struct rig_sequence *s);
// Launches the step, copies the logits to `logits` unless NULL, samples, and returns the collected
// results.
struct model_output rig_step(struct rig *rig, float *logits);

// The two halves of rig_step, for tests with steps in flight.
void rig_launch(struct rig *rig, float *logits);
struct model_output rig_collect(struct rig *rig);

// Computes the prompt in chunks of `chunk` tokens. Writes the logits of its last position.
void rig_prompt_logits(struct rig *rig, struct rig_sequence *s, uint32_t chunk, float *logits);
