// SPDX-License-Identifier: Apache-2.0
// Private to runtime/model: the parts of a plan, the layout of a model's memory, the op lists of
// the forward pass, and the open model, which belongs to the engine thread once it is open.
#pragma once

#include "kernels/device.h"
#include "runtime/model/config.h"
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

// Activations; T = tokens_max, n = rows_max; heads, kv_heads and intermediate are the rank's parts.
enum model_buffer {
    BUFFER_NONE,
    BUFFER_RESIDUAL,   // [T][hidden] act
    BUFFER_DELTA,      // [T][hidden] act: added to the residual by the next norm
    BUFFER_NORMED,     // [T][hidden] act, decoders
    BUFFER_QKV,        // [T][(heads + 2 kv_heads) * head_dim] act
    BUFFER_ATTN,       // [T][heads * head_dim] act
    BUFFER_UP,         // [T][intermediate] act, decoders [T][2 intermediate]; overlaps QKV and ATTN
    BUFFER_FFN,        // [T][intermediate] act, decoders
    BUFFER_LAST,       // [n][hidden] act: rows to be sampled or scored
    BUFFER_LAST_DELTA, // [n][hidden] act
    BUFFER_LOGITS,     // [n][vocab] f32; overlaps QKV, ATTN, UP and FFN
    BUFFER_VALUES,     // [n][output_width] f32
    BUFFER_PARTIAL,    // several ranks: this rank's part of [T][hidden] or [n][vocab], f32
    BUFFER_COUNT
};

// Byte offsets in the three allocations of a model, 256-byte aligned, and their sizes.
struct model_layout {
    size_t buffer[BUFFER_COUNT]; // in the activations, device memory
    size_t activation_bytes;
    // Offsets in the state, device memory.
    size_t last_token, block_table, params, done, penalty, bias;
    size_t token, position, row_of, type, kv_write_offset, record, masks;
    size_t state_bytes, penalty_bytes; // total; part for penalty rows
    // Offsets in host-visible memory.
    size_t records, results, tops, host_values, host_masks; // [MODEL_HOST_STEPS] each
    size_t word;
    size_t record_bytes, results_bytes, tops_bytes, values_bytes, masks_bytes; // sizes for one step
    size_t host_bytes, rope_bytes;
};

struct model_parts {
    struct model_config config;
    struct model_sizes sizes;
    struct model_options options;
    const struct device_api *api;
    struct device *device;
    struct tensors *tensors; // NULL: random weights, or the files were closed
    struct weight_list weights;
    struct stream_limits stream;
    uint32_t graph_rows[MODEL_GRAPHS_MAX]; // [stream.graphs] decode rows of each graph, ascending
    struct step_layout step;
    size_t private_bytes;
    struct model_layout layout;
    enum dtype act;
    // KV block of this rank; packed weights of earlier ranks; packed weights of all ranks
    uint64_t block_bytes, load_before, load_bytes;
    _Atomic uint32_t loading;             // rank being loaded; number of ranks: none
    struct model *model;                  // this rank's model once it is open
    struct model_plan *others[RANKS_MAX]; // plan of rank 0: plans of ranks 1 .. ranks - 1
};

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
    uint64_t weights_bytes;
    struct weight *weights; // [weight_list.table_count]
    struct kv_memory kv;
    struct slot_state slots;
    struct host_step host_steps[MODEL_HOST_STEPS];
    uint32_t *word;                        // host-visible: number of the last completed step
    uint64_t launched, sampled, collected; // number of steps launched, sampled and collected
    uint8_t *top_of_slot;                  // [slots_max] top_logprobs of the sequence in each slot
    struct model_graph graphs[MODEL_GRAPHS_MAX];
    uint32_t graph_count;
    bool slot_held, more; // true while the device slot is held; last value announced to the device
    uint64_t block_bytes; // KV block of this rank
    _Atomic uint64_t collectives_started; // number of collectives started
    struct model *others[RANKS_MAX];      // rank 0 of several: models of ranks 1 .. ranks - 1
    struct comm *comm;
    struct model_group *group;
};

// Device addresses: of an activation buffer, of an offset in the state, of the step record.
static inline void *model_act(const struct model *model, enum model_buffer buffer)
{
    return (char *)model->activations + model->layout.buffer[buffer];
}

static inline void *model_state(const struct model *model, size_t offset)
{
    return (char *)model->state + offset;
}

static inline struct step *model_record(const struct model *model)
{
    return model_state(model, model->layout.record);
}

// step.c: writes a batch's record with the device's part. padded: rows of the graph, or 0.
void step_build(struct step *out, const struct model *model, struct batch *batch, uint32_t padded);

// One op of the forward pass; see forward.c. Each op reads only some of the fields.
struct forward;
struct forward_op {
    enum status (*run)(struct forward *, const struct forward_op *); // NULL ends a list
    enum model_buffer in, out;
    // enum layer_weight in the list of a layer, else enum model_weight; bias 0: none
    uint32_t weight, bias;
    enum model_buffer add; // norms: buffer added to `in` first
};

struct forward { // state of a forward pass
    struct model *model;
    const struct step *host;      // the step's record in host memory; NULL: only products are run
    const struct weight *weights; // weights of the layer, or of the model
    uint32_t layer;
    uint32_t rows; // rows of the current op: T, or the rows with results after a gather
};

struct forward_lists {
    const struct forward_op *first, *layer;
    const struct forward_op *last[MODEL_RERANKER + 1]; // by enum model_kind
    const struct forward_op *last_in_place;            // generators if the rows need no gather
};
extern const struct forward_lists decoder_lists, encoder_lists;

// Runs an op. Invalid arguments are a bug in the forward pass: the process ends with a message.
#define MODEL_OP(name)                                                                             \
    static inline enum status op_##name(const struct model *m, const struct name##_args *args)     \
    {                                                                                              \
        enum status status = m->api->ops->name(m->stream, args);                                   \
        const char *wrong = status == STATUS_INVALID ? name##_check(args) : "";                    \
        check(status != STATUS_INVALID, "%s",                                                      \
              wrong[0] != '\0' ? wrong : #name ": more than the stream was opened for");           \
        return status;                                                                             \
    }
OP_LIST(MODEL_OP)
#undef MODEL_OP

enum status forward_prep(struct model *model, const struct step *host) MUST_USE; // enqueues op prep
// After forward_prep: enqueues the pass, whose results go to BUFFER_LOGITS or BUFFER_VALUES.
enum status forward_run(struct model *model, const struct step *host) MUST_USE;
enum status forward_products(struct model *model, uint32_t tokens) MUST_USE; // to tune them

// Ops that decoders and encoders share. forward_gemm: a product with output in the activation type.
enum status forward_gemm(struct forward *f, const struct forward_op *op) MUST_USE;
enum status forward_head(struct forward *f, const struct forward_op *op) MUST_USE; // f32 out
// Products whose weight is split over the ranks: by columns (results summed); by rows (gathered).
enum status forward_sum(struct forward *f, const struct forward_op *op) MUST_USE;
enum status forward_logits(struct forward *f, const struct forward_op *op) MUST_USE;
// out = sum of BUFFER_PARTIAL of all ranks, [T][hidden].
enum status forward_ranks_sum(const struct forward *f, enum model_buffer out) MUST_USE;
enum status forward_gather(struct forward *f, const struct forward_op *op) MUST_USE; // wanted rows
enum status forward_pool(struct forward *f, const struct forward_op *op) MUST_USE;   // to vectors
