// The step record: what the host tells the device about one step, in one piece of host-visible
// memory, copied to the device in one copy. Written by runtime/model/step.c from a batch; the op
// `prep` expands it to per-token arrays. The first sections lie at places fixed by the limits (a
// replayed graph needs fixed addresses); the others follow without gaps, as long as the step needs.
#pragma once

#include <stddef.h>
#include <stdint.h>

enum {
    STEP_TOKEN_FED = 0xFFFFFFFF, // the row's token is the one the device sampled last
    STEP_NO_TYPE = 0xFFFFFFFF,
    STEP_NO_ROW = 0xFFFFFFFF,
    STEP_POOL_RAW = 0x80000000, // flag of step_row.pool: the vector is not normalised
    STEP_POOL_FROM = 0x7FFFFFFF,
    SAMPLE_TOP_MAX = 20,      // top_logprobs
    SAMPLE_STOP_IDS_MAX = 96, // ids that end a sequence: the model's and the request's
};

struct step_limits {
    uint32_t rows_max;      // rows a step
    uint32_t tokens_max;    // tokens a step
    uint32_t slots_max;     // sequences that the device keeps
    uint32_t blocks_max;    // block-table entries a slot; 0 for encoders
    uint32_t changes_max;   // block-table changes a step
    uint32_t newcomers_max; // new sequences a step; 0 for pooling models
    uint32_t history_max;   // tokens of penalty histories a step
    uint32_t bias_max;      // logit-bias entries a slot
    uint32_t penalty_rows;  // slots that can have penalties at once
    uint32_t vocab;         // 0 for pooling models
};

// Shape of attention, the same for every layer of a model.
struct attn_shape {
    uint32_t heads;    // query heads
    uint32_t kv_heads; // divides heads
    uint32_t dim;      // of a head: 16 to 256, a multiple of 8
    uint32_t window;   // keys a query sees, itself counted; 0: all
    float scale;
    uint8_t causal; // 0: every key of the row (encoders)
    uint8_t paged;  // 1: keys and values in KV blocks; 0: in the packed qkv activations
};

struct step_row {       // 32 bytes
    uint32_t slot;      // index of block table and sampling state
    uint32_t q_start;   // first token of this row within the step
    uint32_t q_len;     // tokens computed in this step, >= 1
    uint32_t kv_len;    // tokens the sequence has after this step (0: padding row of a graph)
    uint32_t token_at;  // first of its tokens in the token section, or STEP_TOKEN_FED
    uint32_t type_from; // position in the row from which the token type is 1, or STEP_NO_TYPE
    uint32_t sample;    // index among the sampled or pooled rows of the step, or STEP_NO_ROW
    uint32_t pool;      // of a pooled row: first position that a mean takes; STEP_POOL_RAW
};

struct step_change { // one block-table entry
    uint32_t slot;
    uint32_t index; // which block of the sequence
    uint32_t units; // offset of the block from the KV base, in TABLE_UNIT_BYTES
};

enum sample_flag {
    SAMPLE_LOGPROB = 1,    // report the chosen token's raw logprob
    SAMPLE_PENALTY = 2,    // a repetition, frequency or presence penalty is set
    SAMPLE_IGNORE_END = 4, // end ids do not end the sequence
};

// How one resident sequence is sampled. Philox4x32-10: key = seed, counter =
// (token id >> 2, output index, choice, 0); word (token id & 3) -> u; Gumbel noise.
struct sample_params {
    uint64_t seed;
    uint32_t choice;       // n: which of the request's choices
    uint32_t output_count; // tokens it has produced so far: index of the next one
    float temperature;     // below 1e-5: greedy
    float top_p;           // 1: off; 0: the top token only
    float min_p;           // 0: off
    uint32_t top_k;        // 0: off
    float repetition;      // 1: off
    float frequency;       // 0: off
    float presence;        // 0: off
    uint32_t flags;        // enum sample_flag
    uint32_t top_logprobs; // 0..SAMPLE_TOP_MAX
    uint32_t output_min;   // before this many outputs stop_ids are banned and end nothing
    uint32_t stop_count;
    int32_t stop_ids[SAMPLE_STOP_IDS_MAX];
    uint32_t penalty_row; // row of the penalty table, or STEP_NO_ROW
    uint32_t bias_count;
};

// A sequence becomes resident: prep copies this to its slot's state.
struct step_newcomer {
    uint32_t slot;
    uint32_t history_at;     // in the history section (penalties only)
    uint32_t history_prompt; // prompt tokens there, output tokens follow
    uint32_t history_output;
    uint32_t bias_at; // in the bias section
    uint32_t reserved;
    struct sample_params params;
};

struct step_bias {
    int32_t token;
    float value;
};

struct step_sampled { // per sampled or pooled row, in order of `sample`
    uint32_t row;     // of this step
    uint32_t slot;
    uint32_t last_token; // index within the step of the row's last token
    uint32_t mask;       // row of the mask table, or STEP_NO_ROW
};

// Section offsets in bytes from the start of the record; all 256-byte aligned. Kernels read those
// after private_part from the record's header, which tells them each step anew.
struct step_layout {
    size_t rows, sampled, private_part; // the same in all steps of a model
    size_t tokens, changes, newcomers, bias, history, bytes;
};

struct step { // header of the record, 256 bytes with its padding
    uint32_t id;
    uint32_t row_count;
    uint32_t token_count;
    uint32_t decode_count; // rows come decodes first; their token index equals their row index
    uint32_t sampled_count;
    uint32_t change_count;
    uint32_t newcomer_count;
    uint32_t history_count;
    uint32_t bias_count;
    uint32_t token_listed; // tokens in the token section
    uint32_t q_len_max;
    uint32_t kv_len_max;
    uint32_t reserved[4];
    struct step_layout layout;
};

// Places of all sections for these limits; private_bytes as the device says. bytes: of the largest
// record.
void step_layout_init(struct step_layout *layout, const struct step_limits *limits,
                      size_t private_bytes);
// Moves the sections after private_part to where a record of these counts and private_bytes has
// them, before they are filled. layout.bytes: what is copied to the device.
void step_layout_pack(struct step *step, size_t private_bytes);

static inline void *step_section(struct step *step, size_t offset)
{
    return (char *)step + offset;
}
