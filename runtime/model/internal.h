// SPDX-License-Identifier: Apache-2.0
// Private to runtime/model: the parts of a plan, the layout of a model's memory, and the open
// model, which belongs to the engine thread once it is open. forward.h has the forward pass.
#pragma once

#include "kernels/device.h"
#include "runtime/model/config.h"
#include "runtime/model/lists.h"
#include "runtime/model/model.h"
#include "runtime/model/kv_memory.h"
#include "runtime/model/tensors.h"
#include "runtime/model/weights.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    MODEL_HOST_STEPS = 3, // steps whose host memory is in use: two in flight, one being read
    MODEL_GRAPHS_MAX = 64,
    MODEL_NEW_SEQUENCES_MAX = 32, // new sequences per step
    MODEL_BIAS_MAX = 1024,        // logit_bias entries per request
};

// Byte offsets in the three allocations of a model, 256-byte aligned, and their sizes.
struct model_layout {
    size_t buffer[BUFFER_COUNT]; // in the activations, device memory
    struct {
        size_t id, weight, order, place, offset, bytes;
    } routing; // offsets of the arrays of struct routing in BUFFER_ROUTING, and their size
    size_t activation_bytes;
    // Offsets in the state, device memory.
    size_t last_token, block_table, params, done, penalty, bias;
    size_t token, position, row_of, type, kv_write_offset, record, masks;
    size_t state_bytes, penalty_bytes; // total; part for penalty rows
    // Offsets in host-visible memory.
    size_t records, results, tops, host_values, host_masks; // [MODEL_HOST_STEPS] each
    size_t host_logits;                                     // generators: one row, for model_logits
    size_t word, logits_word;
    size_t record_bytes, results_bytes, tops_bytes, values_bytes, masks_bytes; // sizes for one step
    size_t host_bytes;
    // Offsets of each rotary table and of its factors of queries; bytes of all.
    size_t rope[CONFIG_ROPES_MAX], query_factors[CONFIG_ROPES_MAX], rope_bytes;
};

// Byte offsets of a layer's keys and values in a KV block: [K|V][kv_head][token][dim].
struct kv_strides {
    uint64_t layer, value, head, token; // from the block; K to V; from KV head to next; token
};

struct model_parts {
    struct model_config config;
    struct model_sizes sizes;
    struct model_options options;
    const struct device_api *api;
    struct device *device;
    struct tensors *tensors; // NULL: random weights, or the files were closed
    struct tensors
        *module_tensors[CONFIG_MODULES_MAX]; // one set for each module after pooling; or NULL
    struct weight_list weights;
    struct stream_limits stream;
    uint32_t graph_rows[MODEL_GRAPHS_MAX]; // [stream.graphs] decode rows of each graph, ascending
    struct step_layout step;
    size_t private_bytes;
    struct model_layout layout;
    enum dtype act;
    uint64_t block_bytes; // KV block of this rank
    struct kv_strides kv_strides[CONFIG_LAYERS_MAX];
    struct attn_shape shapes[CONFIG_KINDS_MAX]; // attention of each kind of layer
    _Atomic bool busy;                          // true while a thread opens this rank's model
    struct model *model;                        // this rank's model once it is open
    // in the plan of the first rank of this process: plans of its other ranks, from index 1 on
    struct model_plan *others[RANKS_MAX];
};

// Returns the number of ranks that this plan covers: those of this process, or 1.
uint32_t model_ranks_here(const struct model_parts *parts);

// Closes the files of a plan's weights (plan.c); a second call does nothing.
void model_files_close(struct model_parts *parts);

// Returns the bytes of BUFFER_DELTA, in which the ranks sum their parts.
uint64_t layout_delta_bytes(const struct model_facts *facts, const struct model_parts *parts);
// Computes the layout from facts, sizes and the size of the step record (layout.c).
void model_layout_init(struct model_layout *out, const struct model_facts *facts,
                       const struct model_parts *parts);

struct model_graph {
    uint32_t rows; // number of decode rows it was recorded for
    struct graph *graph;
};

struct host_step { // host memory of one step
    struct step *record;
    struct sample_result *results;
    struct sample_top *tops;
    float *values;
    uint32_t *masks;
    uint64_t step;
    uint32_t wanted;              // number of rows with a result
    uint32_t word;                // value of model.word when the step is done
    uint32_t max_top, mask_count; // largest top_logprobs of its rows; masks that they use
};

struct model {
    struct model_facts facts;
    struct model_config config;
    struct model_sizes sizes;
    const struct device_api *api;
    struct device *device;
    struct stream *stream;
    enum dtype act;
    struct stream_limits limits;
    struct model_layout layout;
    struct step_layout step; // layout of the largest record
    void *weights_memory, *activations, *state, *host, *rope;
    void *sums; // BUFFER_DELTA, if the stream has it (stream_limits.sums_bytes); else NULL
    uint64_t weights_bytes;
    struct weight *weights; // [weight_list.table_count]
    struct forward_lists lists;
    // true: several ranks write their parts in float32 to BUFFER_PARTIAL; false: in the activation
    // type to the output of an op, where they are summed (or there is one rank)
    bool parts_apart;
    float embed_scale;                               // factor of the embeddings; 0: none
    struct attn_shape shapes[CONFIG_KINDS_MAX];      // attention of each kind of layer
    struct kv_strides kv_strides[CONFIG_LAYERS_MAX]; // by layer
    struct kv_memory kv;
    struct slot_state slots;
    struct host_step host_steps[MODEL_HOST_STEPS];
    uint32_t *word;                        // host-visible: number of the last completed step
    uint32_t logits_copied;                // number of rows that model_logits has copied
    uint64_t launched, sampled, collected; // number of steps launched, sampled and collected
    uint8_t *top_of_slot;                  // [slots_max] top_logprobs of the sequence in each slot
    struct model_graph graphs[MODEL_GRAPHS_MAX];
    uint32_t graph_count;
    bool slot_held, more; // true while the device slot is held; last value announced to the device
    uint64_t block_bytes; // KV block of this rank
    _Atomic uint64_t collectives_started; // number of collectives started
    struct model
        *others[RANKS_MAX]; // in the first rank of this process: models of its others, from 1
    struct comm *comm;
    struct model_group *group;
    struct model_group *meets; // group whose ranks wait for each other between layers; NULL: none
    uint32_t meet_layers;      // number of layers after which they do
};

// Device addresses: of an activation buffer, of an offset in the state, of the step record.
static inline void *model_act(const struct model *model, enum model_buffer buffer)
{
    bool summed = buffer == BUFFER_DELTA && model->sums;
    return summed ? model->sums : (char *)model->activations + model->layout.buffer[buffer];
}

static inline void *model_state(const struct model *model, size_t offset)
{
    return (char *)model->state + offset;
}

// Returns a rotary table, or NULL if the model has none.
static inline const float *model_rope(const struct model *model, uint32_t index)
{
    char *tables = model->rope;
    return tables ? (const float *)(const void *)(tables + model->layout.rope[index]) : NULL;
}

// Returns the factors of queries of rotary settings, [max_model_len] f32, or NULL if they have
// none.
static inline const float *model_query_factors(const struct model *model, uint32_t index)
{
    char *tables = model->rope;
    return tables && model->config.ropes[index].query_beta != 0
               ? (const float *)(const void *)(tables + model->layout.query_factors[index])
               : NULL;
}

static inline struct step *model_record(const struct model *model)
{
    return model_state(model, model->layout.record);
}

// step.c: writes a batch's record with the device's part. padded: rows of the graph, or 0.
void step_build(struct step *out, const struct model *model, struct batch *batch, uint32_t padded);
