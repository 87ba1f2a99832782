// A model: weights on a device, loaded from a Hugging Face folder, that turn a batch into tokens,
// vectors or scores. A plan takes no device memory, so all models of a process are planned, printed
// and checked before anything is allocated. After model_open a model belongs to its engine's
// thread. Tensors stay below this header; integers and floats cross it.
#pragma once

#include "kernels/device.h"
#include "base/text.h"
#include "runtime/model/batch.h"
#include "runtime/model/share.h"

#include <stdbool.h>
#include <stdint.h>

enum model_kind { MODEL_GENERATOR, MODEL_EMBEDDER, MODEL_RERANKER };

static inline const char *model_kind_name(enum model_kind kind)
{
    static const char *const names[] = {"generator", "embedder", "reranker"};
    return names[kind];
}

enum rerank_form { // what a reranker reads
    RERANK_PAIR,   // query and document as a text pair of the tokenizer
    RERANK_YES_NO, // one prompt (runtime/text/rerank.h); score = logit(yes) - logit(no)
};

enum { MODEL_END_IDS_MAX = 32, MODEL_DIMENSIONS_MAX = 32 };

// generation_config.json's defaults of requests; NAN where absent.
struct model_defaults {
    double temperature, top_p, top_k, min_p, repetition_penalty, max_tokens;
};

#define MODEL_START_NS 120000000000u // for the steps before the first

// Options as given; 0, -1 or NULL where the comment says so means "the model's or our default".
struct model_options {
    int dtype;                       // enum dtype, or -1: the checkpoint's
    int kv_dtype;                    // F32, BF16, F16, or -1: as the checkpoint (float32 stays so)
    uint32_t max_model_len;          // 0: the checkpoint's
    uint32_t max_num_seqs;           // resident sequences; 0: 256
    uint32_t max_num_batched_tokens; // a step; 0: the device's (encoders: at least one input);
                                     // generators: not less than model_tokens_min
    uint32_t block_size;             // 16, 32 or 64 tokens; 0: 64
    bool load_dummy;                 // random weights, only config.json is needed
    int penalty_rows; // -1: 64, with a default repetition penalty max_num_seqs; never more than it
    enum { DEFAULTS_NONE, DEFAULTS_FOLDER, DEFAULTS_GIVEN } defaults_from; // sampling defaults
    struct model_defaults defaults;                                        // the given ones
    int32_t yes_id, no_id; // RERANK_YES_NO: token ids of "yes" and "no"; -1 if none were found
    int rerank; // a reranker that can have either form: 1 + enum rerank_form; 0: by its folder
    uint32_t tokenizer_length; // usual length of embedders and rerankers; 0: the checkpoint's
    // share.tp_size: how many devices share the model. devices: one for each, the first that of the
    // plan; NULL: the plan is of rank share.tp_rank alone.
    struct model_share share;
    struct device *const *devices;
    const char *const *device_names; // of each rank, for errors; they outlive the model. Or NULL
    uint64_t start_ns; // several ranks: for the steps before the first; 0: MODEL_START_NS
    // NULL, or the plan of the same model with the same options on the same device: the weights of
    // that one's model, which opens first and closes last, are this one's, too.
    const struct model_plan *copy_of;
};

struct model_facts {
    enum model_kind kind;
    enum rerank_form rerank;
    char architecture[64];      // published name: "Qwen2ForCausalLM"
    enum dtype dtype, kv_dtype; // of weights; of keys and values
    uint64_t parameter_count;
    uint64_t checkpoint_hash[2]; // of a loaded model: names, shapes and samples of its tensors
    uint32_t vocab, hidden, layers;
    uint32_t max_model_len;   // tokens of a sequence, prompt and output
    uint32_t output_width;    // floats of a pooled vector; 1 for scores
    bool causal;              // prompts may be cut into chunks; false: encoders
    bool whole_input;         // pooling reads every hidden state: never cut, no prefix cache
    bool normalize;           // embeddings are L2-normalised as served
    bool prompt_unpooled;     // a mean leaves out the tokens of a prompt in front of the text
    bool dimensions_free;     // the first values of a vector are one, of any length
    uint32_t dimension_count; // likewise, of these lengths
    uint32_t dimensions[MODEL_DIMENSIONS_MAX];
    bool token_types;   // the text pair's second half has type 1
    uint32_t end_count; // end-of-sequence ids (generation_config.json, else config.json)
    int32_t end_ids[MODEL_END_IDS_MAX];
    struct model_defaults defaults;                              // those that requests get
    uint32_t block_tokens, block_count, blocks_per_sequence_max; // 0 for encoders
    uint64_t block_bytes;                                        // of all ranks
    uint32_t ranks;                                              // that share the model
    uint32_t steps_in_flight;                                    // of the device
    struct step_limits limits;                                   // capacity of a batch
};

// The least tokens that a generator's step must hold: with all sequences decoding, a quarter of it
// is left for prompts.
static inline uint32_t model_tokens_min(uint32_t sequences)
{
    return sequences + (sequences + 2) / 3;
}

// The memory that one model will need, by label.
struct model_plan {
    struct model_facts facts;   // block_count still 0
    struct device_need need;    // weights, activations, state, staging, the device's own
    uint64_t bytes;             // sum of need
    uint64_t kv_bytes_min;      // one sequence of max_model_len; 0 for encoders
    const char *weights_folder; // the folder, or the one below it that modules.json names
    struct model_parts *parts;  // private: parsed config and tensor list
};

// Of a file in the form of generation_config.json; a value out of its range is refused.
enum status model_defaults_read(struct model_defaults *out, const char *file,
                                struct error *err) MUST_USE;

// Reads config.json and the headers of the weights. folder is borrowed until model_plan_close.
enum status model_plan_open(struct model_plan **out, const char *folder,
                            const struct device_api *api, struct device *device,
                            const struct model_options *options, struct error *err) MUST_USE;
uint64_t model_plan_bytes(const struct model_plan *plan, uint32_t rank); // what a rank takes of it
void model_plan_close(struct model_plan *plan);

struct model;

// Takes memory, loads and packs the weights (files are closed afterwards), captures graphs.
// kv_bytes: for KV blocks, at least kv_bytes_min, rounded down to whole blocks. progress (may be
// NULL) is called with bytes loaded so far. After TIMEOUT a thread may hang in a device: nothing
// was closed, and neither the plan nor a device may be.
enum status model_open(struct model **out, const struct model_plan *plan, uint64_t kv_bytes,
                       void (*progress)(void *context, uint64_t done, uint64_t total),
                       void *context, struct error *err) MUST_USE;
void model_close(struct model *model); // NULL is allowed
// From any thread: the rank whose part is being loaded; how many there are: none.
uint32_t model_plan_loading(const struct model_plan *plan);
// After a failed step: the rank whose device failed; how many there are: it is not known.
uint32_t model_failed_rank(const struct model *model);

const struct model_facts *model_facts(const struct model *model);

// Several ranks: a launch or a sampling that takes longer is given up, with TIMEOUT; 120 s where
// this was not called. The model is of no use then, but for model_close, which waits for the rank.
void model_step_deadline(struct model *model, uint64_t ns);

// One step: launch, sample, collect, in this order; with steps_in_flight = 1 the next launch may
// come before the collect. The batch may be reused once model_launch has returned.
enum status model_launch(struct model *model, struct batch *batch, struct error *err) MUST_USE;

// more: the caller will launch another step. Engines that share a CPU then wait for it, so it must
// not block before that launch or before it passes false here.
void model_more(struct model *model, bool more);

// Generators: host memory for the masks of the step that is sampled next, launched or not:
// [rows_max][(vocab + 31) / 32]. Any thread may fill it until model_sample, which copies nothing
// where it is given this memory.
uint32_t *model_masks(struct model *model);

// masks: [count][(vocab + 31) / 32], bit set: the token is allowed; count: one for each mask that a
// row of the batch names, 0 and NULL where none does.
enum status model_sample(struct model *model, const uint32_t *masks, uint32_t count,
                         struct error *err) MUST_USE;

// For a fault between launch and sample: gives the device's turn back, if it is held. No step
// follows.
void model_drop(struct model *model);

// Results of the oldest step not yet collected, in the order of the rows that wanted something;
// valid until the second launch after this call.
struct model_output {
    uint64_t step;
    uint32_t count;
    const struct sample_result *results; // [count], generators
    const struct sample_top *tops;       // [count][SAMPLE_TOP_MAX]
    const float *values;                 // [count][output_width], vectors or scores (logits)
};

// deadline_ns: CLOCK_MONOTONIC, after which the step counts as lost (TIMEOUT).
enum status model_collect(struct model *model, struct model_output *out, uint64_t deadline_ns,
                          struct error *err) MUST_USE;

// For tests and weft perplexity: logits of the rows that wanted a token in the step just launched,
// on the host, [count][vocab] f32. Call between model_launch and model_sample.
enum status model_logits(struct model *model, float *out, uint64_t deadline_ns,
                         struct error *err) MUST_USE;
