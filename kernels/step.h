// SPDX-License-Identifier: Apache-2.0
// The step record: the description of one step that the host sends to the device, in one piece of
// host-visible memory that is copied in one copy. runtime/model/step.c writes it from a batch; the
// op `prep` expands it to per-token arrays. The first sections are at offsets that the limits fix
// (a replayed graph needs fixed addresses); the others follow without gaps, each as long as the
// step needs.
#pragma once

#include <stddef.h>
#include <stdint.h>

enum {
    STEP_TOKEN_FED = 0xFFFFFFFF, // token_at: the row's token is the slot's last_token
    STEP_NO_TYPE = 0xFFFFFFFF,   // type_from: all tokens have type 0
    STEP_NO_ROW = 0xFFFFFFFF,    // no row: not sampled, no mask or no penalties
    STEP_POOL_RAW = 0x80000000,  // flag of step_row.pool: the vector is not normalised
    STEP_POOL_FROM = 0x7FFFFFFF, // mask of step_row.pool: first position that a mean counts
    SAMPLE_TOP_MAX = 20,         // most top_logprobs of a token
    SAMPLE_STOP_IDS_MAX = 96,    // ids that end a sequence: the model's and the request's
};

struct step_limits {
    uint32_t rows_max;          // rows per step
    uint32_t tokens_max;        // tokens per step
    uint32_t slots_max;         // slots: sequences with state on the device
    uint32_t blocks_max;        // block-table entries per slot; 0 for encoders
    uint32_t changes_max;       // block-table changes per step
    uint32_t new_sequences_max; // new sequences per step; 0 for pooling models
    uint32_t history_max;       // tokens of penalty histories per step
    uint32_t bias_max;          // logit-bias entries per slot
    uint32_t penalty_rows;      // slots that can have penalties at the same time
    uint32_t vocab;             // 0 for pooling models
};

// Shape of attention. Equal in all layers of a model, but the window and `ahead` may differ.
struct attn_shape {
    uint32_t heads;    // query heads
    uint32_t kv_heads; // divides heads
    uint32_t dim;      // columns of a head: 16 to 256, a multiple of 8
    uint32_t window;   // keys that a query sees, including its own; 0: all
    float scale;
    uint8_t causal; // 0: every key of the row (encoders)
    uint8_t paged;  // 1: keys and values in KV blocks; 0: in the packed qkv activations
    uint32_t ahead; // if not causal: keys after its own that a query sees; 0: all
};

struct step_row {       // 32 bytes
    uint32_t slot;      // index of block table and sampling state
    uint32_t q_start;   // first token of this row within the step
    uint32_t q_len;     // tokens computed in this step, >= 1
    uint32_t kv_len;    // tokens the sequence has after this step (0: padding row of a graph)
    uint32_t token_at;  // index of its first token in the token section, or STEP_TOKEN_FED
    uint32_t type_from; // first position with token type 1, or STEP_NO_TYPE
    uint32_t sample;    // index among the sampled or pooled rows of the step, or STEP_NO_ROW
    uint32_t pool;      // pooled rows: first position that a mean counts, and STEP_POOL_RAW
};

struct step_change { // one block-table entry
    uint32_t slot;
    uint32_t index; // index of the block in the sequence
    uint32_t units; // offset of the block from the KV base, in TABLE_UNIT_BYTES
};

enum sample_flag {
    SAMPLE_LOGPROB = 1,    // report the chosen token's raw logprob
    SAMPLE_PENALTY = 2,    // a repetition, frequency or presence penalty is set
    SAMPLE_IGNORE_END = 4, // end ids do not end the sequence
};

// Sampling parameters of a sequence that has a slot. Random numbers: Philox4x32-10 with key = seed
// and counter = (token id >> 2, output index, choice, 0); word (token id & 3) becomes the uniform u
// of the token's Gumbel noise.
struct sample_params {
    uint64_t seed;
    uint32_t choice;       // index of the choice within the request (its `n`)
    uint32_t output_count; // tokens sampled so far, which is the index of the next one
    float temperature;     // below 1e-5: greedy
    float top_p;           // 1: off; 0: the top token only
    float min_p;           // 0: off
    uint32_t top_k;        // 0: off
    float repetition;      // 1: off
    float frequency;       // 0: off
    float presence;        // 0: off
    uint32_t flags;        // enum sample_flag
    uint32_t top_logprobs; // 0..SAMPLE_TOP_MAX
    uint32_t output_min; // below this many outputs, stop_ids are banned and do not end the sequence
    uint32_t stop_count;
    int32_t stop_ids[SAMPLE_STOP_IDS_MAX];
    uint32_t penalty_row; // row of the penalty table, or STEP_NO_ROW
    uint32_t bias_count;
};

struct sample_result { // 16 bytes, host-visible
    int32_t token; // -1: none, because of SAMPLED_NOT_FINITE, _DONE or _DROPPED (state unchanged)
    float logprob; // in the raw distribution if SAMPLE_LOGPROB is set, else 0
    uint32_t flags, top_count; // flags: SAMPLED_*; top_count: entries in `top`
};
enum sampled { SAMPLED_END = 1, SAMPLED_DONE = 2, SAMPLED_NOT_FINITE = 4, SAMPLED_DROPPED = 8 };
struct sample_top {
    int32_t token;
    float logprob;
};

// A new sequence: prep copies this to the state of its slot.
struct step_new_sequence {
    uint32_t slot;
    uint32_t history_at;     // index of its first token in the history section (penalties only)
    uint32_t history_prompt; // prompt tokens of the history; its output tokens follow
    uint32_t history_output;
    uint32_t bias_at; // index of its first entry in the bias section
    uint32_t reserved;
    struct sample_params params;
};

struct step_bias {
    int32_t token;
    float value;
};

struct step_sampled { // one per sampled or pooled row, in order of step_row.sample
    uint32_t row;     // index of the row in the step
    uint32_t slot;
    uint32_t last_token; // index in the step of the row's last token
    uint32_t mask;       // row of the mask table, or STEP_NO_ROW
};

// Section offsets in bytes from the start of the record; all are 256-byte aligned. The offsets
// after private_part differ from step to step, so kernels read them from the record's header.
struct step_layout {
    size_t rows, sampled, private_part; // equal in all steps of a model
    size_t tokens, changes, new_sequences, bias, history, bytes;
};

struct step { // header of the record, 256 bytes with its padding
    uint32_t id;
    uint32_t row_count;
    uint32_t token_count;
    uint32_t decode_count; // decode rows; they come first, and row i of them has token i
    uint32_t sampled_count;
    uint32_t change_count;
    uint32_t new_sequence_count;
    uint32_t history_count;
    uint32_t bias_count;
    uint32_t token_listed; // tokens in the token section
    uint32_t q_len_max;    // largest q_len of a row
    uint32_t kv_len_max;   // largest kv_len of a row
    uint32_t reserved[4];
    struct step_layout layout;
};

// Computes the offsets of all sections of the largest record within the limits; layout->bytes
// becomes its size. private_bytes: from the device's step_private_bytes.
void step_layout_init(struct step_layout *layout, const struct step_limits *limits,
                      size_t private_bytes);
// Sets the offsets of the sections after private_part from the record's counts and private_bytes.
// Must be called before these sections are filled. layout.bytes becomes the number of bytes to copy
// to the device.
void step_layout_pack(struct step *step, size_t private_bytes);

// Returns the section at an offset of step_layout.
static inline void *step_section(struct step *step, size_t offset)
{
    return (char *)step + offset;
}
