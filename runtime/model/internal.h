// Private to runtime/model: the parts of a plan, the layout of a model's memory, the lists of the
// forward pass and the open model, which belongs to the engine thread once it is open.
#pragma once

#include "kernels/device.h"
#include "runtime/model/config.h"
#include "runtime/model/model.h"
#include "runtime/model/kv_memory.h"
#include "runtime/model/safetensors.h"
#include "runtime/model/weights.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    MODEL_HOST_STEPS = 3, // steps whose host memory is alive: two in flight, one being read
    MODEL_GRAPHS_MAX = 64,
    MODEL_NEWCOMERS_MAX = 32, // new sequences a step
    MODEL_BIAS_MAX = 1024,    // logit_bias entries a request may have
};

// Activations; T = tokens_max, n = rows_max; heads, kv_heads and intermediate: of the rank.
enum model_buffer {
    BUFFER_NONE,
    BUFFER_RESIDUAL,   // [T][hidden] act
    BUFFER_DELTA,      // [T][hidden] act: what the next norm adds to the residual
    BUFFER_NORMED,     // [T][hidden] act, decoders
    BUFFER_QKV,        // [T][(heads + 2 kv_heads) * head_dim] act
    BUFFER_ATTN,       // [T][heads * head_dim] act
    BUFFER_UP,         // [T][intermediate], decoders twice that; over qkv and attn
    BUFFER_FFN,        // [T][intermediate] act, decoders
    BUFFER_LAST,       // [n][hidden] act: rows that are sampled or scored
    BUFFER_LAST_DELTA, // [n][hidden] act
    BUFFER_LOGITS,     // [n][vocab] f32, over qkv, attn, up, ffn
    BUFFER_VALUES,     // [n][output_width] f32
    BUFFER_PARTIAL,    // several ranks: this one's part of [T][hidden] or [n][vocab], f32
    BUFFER_COUNT
};

// Offsets in the three allocations of a model; sizes last. Everything is 256-byte aligned.
struct model_layout {
    size_t buffer[BUFFER_COUNT]; // device, activations
    size_t activation_bytes;
    // device, state
    size_t last_token, block_table, params, done, penalty, bias;
    size_t token, position, row_of, type, kv_place, record, masks;
    size_t state_bytes, penalty_bytes; // in all; of it penalty rows
    // host-visible
    size_t records, results, tops, host_values, host_masks; // [MODEL_HOST_STEPS] each
    size_t word;
    size_t record_bytes, results_bytes, tops_bytes, values_bytes, masks_bytes; // of one step
    size_t host_bytes, rope_bytes;
};

struct model_parts {
    struct model_config config;
    struct model_sizes sizes;
    struct model_options options;
    const struct device_api *api;
    struct device *device;
    struct tensors *tensors; // NULL: dummy
    struct weight_list weights;
    struct stream_limits stream;
    uint32_t graph_rows[MODEL_GRAPHS_MAX]; // [stream.graphs] decode rows of each graph, rising
    struct step_layout step;
    size_t private_bytes;
    struct model_layout layout;
    enum dtype act;
    uint64_t block_bytes, load_before, load_bytes; // of this rank; packed, before it; of all
    _Atomic uint32_t loading;                      // the rank whose part is loaded; all: none is
    struct model *model;                           // of this rank, once it is opened
    struct model_plan *others[RANKS_MAX]; // [1, ranks): of the other ranks, in the plan of rank 0
};

// Fills layout from facts, config and stream limits (layout.c).
void model_layout_init(struct model_layout *out, const struct model_facts *facts,
                       const struct model_parts *parts);

struct model_graph {
    uint32_t rows; // decode rows it was recorded for
    struct graph *graph;
};

struct host_step { // host memory of one step
    struct step *record;
    struct sample_result *results;
    struct sample_top *tops;
    float *values;
    uint32_t *masks;
    uint64_t step;
    uint32_t wanted;              // rows that wanted something
    uint32_t word;                // value of the signal that ends the step
    uint32_t max_top, mask_count; // masks that its rows name
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
    struct step_layout step; // the largest record
    void *weights_memory, *activations, *state, *host, *rope;
    uint64_t weights_bytes;
    struct weight *weights; // [weight_list.table_count]
    struct kv_memory kv;
    struct slot_state slots;
    struct host_step host_steps[MODEL_HOST_STEPS];
    uint32_t *word;                        // host-visible: the last step that is done
    uint64_t launched, sampled, collected; // steps, counted from 0
    uint8_t *top_of_slot;                  // [slots_max] top_logprobs of each resident sequence
    struct model_graph graphs[MODEL_GRAPHS_MAX];
    uint32_t graph_count;
    bool turn, more;                 // the device's turn is held; what the device was last told
    uint64_t block_bytes;            // of this rank
    _Atomic uint64_t meetings;       // collectives begun
    struct model *others[RANKS_MAX]; // [1, ranks): all three of rank 0 of several
    struct comm *comm;
    struct model_group *group;
};

static inline void *model_act(const struct model *model, enum model_buffer buffer)
{
    return (char *)model->activations + model->layout.buffer[buffer];
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

// step.c: the batch as a record with the device's part. padded: rows of the graph, or 0.
void step_build(struct step *out, const struct model *model, struct batch *batch, uint32_t padded);

// One op of the forward pass; see forward.c. Each op reads only some of the fields.
struct forward;
struct forward_op {
    enum status (*run)(struct forward *, const struct forward_op *); // NULL ends a list
    enum model_buffer in, out;
    // enum layer_weight in lists of a layer, else enum model_weight; bias 0: none
    uint32_t weight, bias;
    enum model_buffer add; // norms: added to `in` first
};

struct forward { // a pass under way
    struct model *model;
    const struct step *host;      // NULL: products alone are run
    const struct weight *weights; // of the layer, or of the model
    uint32_t layer;
    uint32_t rows; // T, and the count of wanted rows after a gather
};

struct forward_lists {
    const struct forward_op *first, *layer;
    const struct forward_op *last[MODEL_RERANKER + 1]; // by enum model_kind
    const struct forward_op *last_in_place;            // generators whose rows need no gather
};
extern const struct forward_lists decoder_lists, encoder_lists;

// Runs an op on the model's stream. Arguments that no device takes are a mistake of the forward
// pass: the process ends with the op's own words.
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

enum status forward_prep(struct model *model, const struct step *host) MUST_USE;
// After forward_prep: leaves logits or values of the wanted rows.
enum status forward_run(struct model *model, const struct step *host) MUST_USE;
enum status forward_products(struct model *model, uint32_t tokens) MUST_USE; // nothing else

// Ops that decoders and encoders share.
enum status forward_gemm(struct forward *f, const struct forward_op *op) MUST_USE;
enum status forward_head(struct forward *f, const struct forward_op *op) MUST_USE; // f32 out
// A product of which each rank has some columns of the weight; and the head, f32 out.
enum status forward_sum(struct forward *f, const struct forward_op *op) MUST_USE;
enum status forward_logits(struct forward *f, const struct forward_op *op) MUST_USE;
// out = what all ranks have in BUFFER_PARTIAL, [T][hidden].
enum status forward_ranks_sum(const struct forward *f, enum model_buffer out) MUST_USE;
enum status forward_gather(struct forward *f, const struct forward_op *op) MUST_USE;
enum status forward_pool(struct forward *f, const struct forward_op *op) MUST_USE;
