// What the files of this room share and nobody else sees: the plan's private half, the layout of a
// model's memory, and the open model itself. Everything in `struct model` belongs to the engine
// thread once model_open has returned.
#pragma once

#include "kernels/device.h"
#include "runtime/model/config.h"
#include "runtime/model/model.h"
#include "runtime/model/pool.h"
#include "runtime/model/safetensors.h"
#include "runtime/model/weights.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    MODEL_RING = 3, // steps whose host memory is alive: two in flight, one being read
    MODEL_GRAPHS_MAX = 64,
    MODEL_ADMITS_MAX = 32, // new sequences a step
    MODEL_BIAS_MAX = 1024, // logit_bias entries a request may have
};

// Offsets in the three pieces of memory of a model; sizes last. Every piece starts 256-aligned.
struct model_layout {
    // device, activations: T = tokens_max, n = rows_max
    size_t residual, delta, normed; // [T][hidden] act
    size_t qkv;                     // [T][(heads + 2 kv_heads) * head_dim] act
    size_t attn;                    // [T][heads * head_dim] act
    size_t up;                      // [T][intermediate], decoders twice that; over qkv and attn
    size_t ffn;                     // [T][intermediate] act, decoders
    size_t last, last_delta;        // [n][hidden] act: rows that are sampled or scored
    size_t logits;                  // [n][vocab] f32, over qkv, attn, up, ffn
    size_t values;                  // [n][output_width] f32
    size_t activation_bytes;
    // device, state
    size_t last_token, block_table, params, done, penalty, bias;
    size_t token, position, row_of, type, kv_place, record, masks;
    size_t state_bytes;
    // host-visible
    size_t records, results, tops, host_values, host_masks; // [MODEL_RING] each
    size_t word;
    size_t record_bytes, results_bytes, tops_bytes, values_bytes, masks_bytes; // of one
    size_t host_bytes;
    size_t rope_bytes;
};

struct model_parts {
    struct model_config config;
    struct model_options options;
    const struct device_api *api;
    struct device *device;
    struct tensors *tensors; // NULL: dummy
    struct weight_list weights;
    struct stream_limits stream;
    struct step_layout step;
    size_t private_bytes;
    struct model_layout layout;
    enum dtype act;
    bool windows_differ; // between layers
};

// Fills layout from facts, config and stream limits (layout.c).
void model_layout_init(struct model_layout *out, const struct model_facts *facts,
                       const struct model_parts *parts);

struct model_graph {
    uint32_t rows; // decode rows it was recorded for
    struct graph *graph;
};

struct model_slot { // host memory of one step of the ring
    struct step *record;
    struct sample_result *results;
    struct sample_top *tops;
    float *values;
    uint32_t *masks;
    uint64_t step;
    uint32_t wanted; // rows that wanted something
    uint32_t word;   // value of the signal that ends the step
    uint32_t max_top;
};

struct model {
    struct model_facts facts;
    struct model_config config;
    const struct device_api *api;
    struct device *device;
    struct stream *stream;
    enum dtype act;
    struct stream_limits limits;
    struct model_layout layout;
    struct step_layout step;
    size_t private_bytes;
    void *weights_memory, *activations, *state, *host, *rope;
    uint64_t weights_bytes;
    struct weight *weights; // [slots]
    struct kv_pool pool;
    struct slot_state slots;
    struct model_slot ring[MODEL_RING];
    uint32_t *word;                        // host-visible: the last step that is done
    uint64_t launched, sampled, collected; // steps, counted from 0
    uint8_t *top_of_row;                   // [slots_max] top_logprobs of each resident sequence
    struct model_graph graphs[MODEL_GRAPHS_MAX];
    uint32_t graph_count;
    bool turn; // held
    bool more; // as last said to the device
};

static inline void *model_act(const struct model *model, size_t offset)
{
    return (char *)model->activations + offset;
}

static inline void *model_state(const struct model *model, size_t offset)
{
    return (char *)model->state + offset;
}

// The device's copy of the step record.
static inline struct step *model_record(const struct model *model)
{
    return model_state(model, model->layout.record);
}

// step.c: the batch as a record; counts what is wanted. padded: rows of the graph, or 0.
void step_build(struct step *out, const struct model *model, struct batch *batch, uint32_t padded);
size_t step_used_bytes(const struct step *step, size_t private_bytes);

// decoder.c and encoder.c: prep has run; leaves logits, values or hidden states as the kind wants.
enum status decoder_forward(struct model *model, const struct step *host) MUST_USE;
enum status encoder_forward(struct model *model, const struct step *host) MUST_USE;

// score.c: values of the rows that want one, from final hidden states.
enum status score_rows(struct model *model, const struct step *host, const void *hidden) MUST_USE;
enum status pool_rows(struct model *model, const struct step *host, const void *hidden) MUST_USE;

// forward.c: one product with its bias.
enum status model_gemm(struct model *model, uint32_t slot, uint32_t bias_slot, const void *x,
                       void *y, uint32_t rows) MUST_USE;
enum status model_prep(struct model *model, const struct step *host) MUST_USE;
