// SPDX-License-Identifier: Apache-2.0
// A model: weights on a device, loaded from a Hugging Face folder or a GGUF file, that turn a batch
// into tokens, vectors or scores. A plan allocates no device memory, so all models of a process are
// planned, printed and checked before anything is allocated. After model_open a model belongs to
// its engine's thread. Only integers and floats cross this header, no tensors.
#pragma once

#include "kernels/device.h"
#include "base/text.h"
#include "runtime/model/batch.h"
#include "runtime/model/share.h"
#include "runtime/source/rerank_forms.h"

#include <stdbool.h>
#include <stdint.h>

enum model_kind { MODEL_GENERATOR, MODEL_EMBEDDER, MODEL_RERANKER };

static inline const char *model_kind_name(enum model_kind kind)
{
    static const char *const names[] = {"generator", "embedder", "reranker"};
    return names[kind];
}

enum { MODEL_END_IDS_MAX = 32, MODEL_DIMENSIONS_MAX = 32, MODEL_INT4 = DTYPE_COUNT, MODEL_FP8 };

// Defaults of request fields, from generation_config.json; NAN: absent.
struct model_defaults {
    double temperature, top_p, top_k, min_p, repetition_penalty, max_tokens;
};

#define MODEL_START_NS 120000000000u // 120 s: default of model_options.start_ns

// The options of a model. 0, -1 or NULL selects the default that the comment names.
struct model_options {
    int dtype;    // enum dtype of the weights, MODEL_INT4, MODEL_FP8, or -1: the checkpoint's
    int kv_dtype; // enum dtype, or -1: the checkpoint's (float32 stays float32)
    uint32_t max_model_len; // 0: the checkpoint's
    uint32_t max_num_seqs;  // sequences that have a slot; 0: 256
    // Tokens per step; for generators at least model_tokens_min(max_num_seqs). 0: the device's
    // default, for encoders raised to one input.
    uint32_t max_num_batched_tokens;
    uint32_t block_size; // tokens per KV block: 16, 32 or 64; 0: 64
    // Random weights; no file is read. Without a dtype: in the declared formats (declared.h).
    bool load_dummy;
    // Rows of penalties, at most max_num_seqs; -1: 64, or all with a default repetition penalty.
    int penalty_rows;
    enum { DEFAULTS_NONE, DEFAULTS_FOLDER, DEFAULTS_GIVEN } defaults_from; // sampling defaults
    struct model_defaults defaults; // used with DEFAULTS_GIVEN
    // for each form: ids of its tokens `yes` and `no` (struct rerank_form_facts); -1: none
    int32_t answer_ids[RERANK_FORMS][2];
    int rerank; // rerankers: 1 + enum rerank_form; 0: the form that the folder indicates
    uint32_t tokenizer_length; // the tokenizer's limit, for embedders and rerankers; 0: none
    // share.tp_size: number of ranks that share the model. devices: one for each rank of this
    // process, the first is the device of the plan; NULL: the plan is only for rank share.tp_rank.
    struct model_share share;
    struct device *const *devices;
    // Name of each rank's device, for error messages; must outlive the model. May be NULL.
    const char *const *device_names;
    // NULL, or a link to other processes with ranks; share.tp_rank is then the first one here.
    const struct model_link *link;
    uint64_t start_ns; // several ranks: deadline of the steps in model_open; 0: MODEL_START_NS
    // NULL, or the plan of the same model with the same options on the same device. This model then
    // shares the weights of that plan's model, which must open first and close last.
    const struct model_plan *copy_of;
};

struct model_facts {
    enum model_kind kind;
    enum rerank_form rerank;
    char architecture[64]; // published name: "Qwen2ForCausalLM"
    // Multimodal checkpoints: architecture of the decoder; inputs that are not served. Else NULL.
    const char *text_part, *media;
    enum dtype dtype, kv_dtype; // dtypes of the weights; of keys and values
    char formats[FORMATS_TEXT]; // names of the formats of weights held as codes; empty: none
    uint64_t parameter_count;
    uint64_t checkpoint_hash[2]; // hash of tensor names, shapes and samples; 0, 0 before loading
    uint32_t vocab, hidden, layers;
    uint32_t max_model_len; // most tokens of a sequence, prompt and output together
    uint32_t output_width;  // floats of a pooled vector; 1 for scores
    bool paged;             // true: keys and values are kept in KV blocks; false: an encoder
    bool whole_input;     // true if pooling reads all hidden states: inputs are never cut or cached
    enum pooling pooling; // how an embedder makes one vector of the tokens
    bool normalize;       // true: vectors are L2-normalised by default
    bool prompt_unpooled; // true if a mean leaves out the prompt that precedes the text
    bool dimensions_free; // true if vectors may be cut to any length
    uint32_t dimension_count;                  // number of entries in `dimensions`
    uint32_t dimensions[MODEL_DIMENSIONS_MAX]; // lengths to which vectors may be cut
    bool token_types;                          // true if the second text of a pair has token type 1
    uint32_t end_count;                        // number of end-of-sequence ids, of all files
    int32_t end_ids[MODEL_END_IDS_MAX];
    struct model_defaults defaults, recommended; // used; those of generation_config.json
    uint32_t block_tokens, block_count, blocks_per_sequence_max; // 0 for encoders
    uint64_t block_bytes;      // KV block of all ranks of this process together
    uint32_t ranks;            // number of ranks that share the model
    uint32_t steps_in_flight;  // uncollected steps allowed at a launch: 0 or 1
    struct step_limits limits; // capacity of a batch
};

// Returns the names of the formats of weights held as codes, else that of the dtype.
static inline const char *facts_held(const struct model_facts *facts)
{
    return facts->formats[0] != '\0' ? facts->formats : dtype_name(facts->dtype);
}

// Adds an end-of-sequence id before model_open. False: not in the vocabulary, or 32 exist.
bool model_facts_add_end(struct model_facts *facts, int32_t id);

// Returns a generator's minimum of tokens per step: a quarter is left when all sequences decode.
static inline uint32_t model_tokens_min(uint32_t sequences)
{
    return sequences + (sequences + 2) / 3;
}

// The facts of a model and the memory that it will need, by label.
struct model_plan {
    struct model_facts facts;   // block_count is 0 until the model is open
    struct device_need need;    // weights, activations, state, staging, the device's needs
    uint64_t bytes;             // sum of need
    uint64_t kv_bytes_min;      // bytes for one sequence of max_model_len; 0 for encoders
    const char *weights_folder; // the model's folder, or its subfolder that modules.json names
    struct model_parts *parts;  // private: parsed config and tensor list
};

// Reads sampling defaults from a file like generation_config.json. INVALID: a value does not fit.
enum status model_defaults_read(struct model_defaults *out, const char *file,
                                struct error *err) MUST_USE;

// Reads config.json and the headers of the weight files. `folder` is borrowed until
// model_plan_close. Errors name the folder or the file.
enum status model_plan_open(struct model_plan **out, const char *folder,
                            const struct device_api *api, struct device *device,
                            const struct model_options *options, struct error *err) MUST_USE;
// Returns the part of plan->bytes that a rank needs.
uint64_t model_plan_bytes(const struct model_plan *plan, uint32_t rank);
void model_plan_close(struct model_plan *plan); // frees the plan; NULL is allowed

struct model;

// Allocates memory, loads and packs the weights (files are closed afterwards), and records graphs;
// once per plan. kv_bytes: bytes for KV blocks, at least kv_bytes_min, rounded down to whole
// blocks. progress (may be NULL) is called with the bytes loaded so far, by several threads, one at
// a time, if ranks load at the same time. After TIMEOUT a thread may hang in a device: nothing was
// closed, and the caller must close neither the plan nor a device.
enum status model_open(struct model **out, const struct model_plan *plan, uint64_t kv_bytes,
                       void (*progress)(void *context, uint64_t done, uint64_t total),
                       void *context, struct error *err) MUST_USE;
void model_close(struct model *model); // NULL is allowed; waits for ranks that are late
// Any thread, during model_open: returns the first rank being opened; if none, the number of ranks.
uint32_t model_plan_loading(const struct model_plan *plan);
// After a failed step: returns the rank whose device failed, or the number of ranks: not known.
uint32_t model_failed_rank(const struct model *model);
const struct model_facts *model_facts(const struct model *model); // constant while it is open

// Several ranks: sets the time after which a launch or a sampling fails with TIMEOUT (default 120
// s). The model is then of no further use; model_close waits for the late rank.
void model_step_deadline(struct model *model, uint64_t ns);

// Launches a step. A step is launched, sampled and collected, in this order; with steps_in_flight =
// 1 the next launch may precede the collect. The batch may be reused after model_launch.
enum status model_launch(struct model *model, struct batch *batch, struct error *err) MUST_USE;

// more: true if the caller will launch another step. Engines that share the CPU then wait for that
// step, so the caller must not block until it has launched it or has passed false here.
void model_more(struct model *model, bool more);

// Generators: returns host memory for the masks of the step that is sampled next, whether it is
// launched yet or not: [rows_max][(vocab + 31) / 32]. Any thread may fill it until model_sample,
// which avoids a copy on the host if it gets this memory.
uint32_t *model_masks(struct model *model);

// Samples the launched step, or starts the copy of its vectors or scores. masks: [count][(vocab +
// 31) / 32], bit set: the token is allowed. count: the number of masks that the rows of the batch
// name, or 0 to sample all of them without masks; if 0, masks is NULL.
enum status model_sample(struct model *model, const uint32_t *masks, uint32_t count,
                         struct error *err) MUST_USE;

// Releases the device slot after a fault between launch and sample, if it is held. No step may
// follow.
void model_drop(struct model *model);

// Results of a step, in the order of the rows whose `want` is not WANT_NOTHING; valid until the
// second launch after model_collect.
struct model_output {
    uint64_t step;
    uint32_t count;
    const struct sample_result *results; // [count] generators
    const struct sample_top *tops;       // [count][SAMPLE_TOP_MAX] generators
    const float *values;                 // [count][output_width] f32, vectors or scores (logits)
};

// Waits for the oldest step not yet collected and returns its results. deadline_ns:
// CLOCK_MONOTONIC; if it passes, the step is lost (TIMEOUT).
enum status model_collect(struct model *model, struct model_output *out, uint64_t deadline_ns,
                          struct error *err) MUST_USE;

// For tests and weft perplexity: copies the logits of the rows that wanted a token in the step just
// launched, [count][vocab] f32. Call between model_launch and model_sample.
enum status model_logits(struct model *model, float *out, uint64_t deadline_ns,
                         struct error *err) MUST_USE;
