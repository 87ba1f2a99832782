// The log probabilities of one choice: an entry for each token, held back until its text is
// visible, and the shapes in which they are written. A token stands for bytes of what was
// generated (places there: from, end); which of them are visible text, and where, is told
// afterwards. Memory comes from the exchange's arena. Owner: the choice, h2o thread.
#pragma once

#include "base/arena.h"
#include "base/json.h"
#include "runtime/text/tokenizer.h"
#include "scheduler/port.h"

struct logprob {
    int32_t token;
    float logprob; // of the raw distribution
    uint32_t top_count;
    uint64_t from, end; // its bytes; of a part of a character: up to the first of the next bytes
    uint64_t chars;     // characters before the token
    uint64_t text_end;  // where its text ends; 0: none is known
};

struct logprobs {
    struct arena *arena;
    struct logprob *entries; // [max]
    struct token_top *tops;  // [max][top_max]
    uint32_t top_max, max;
    uint32_t dropped; // entries before the first one whose memory is still there
    uint32_t count;   // of entries
    uint32_t visible; // of them, from the first on
    bool lost;        // the arena's limit was met
};

// Entries that are kept to be written again, in blocks, of which none is copied. All zero at first.
struct logprobs_kept {
    struct logprobs *blocks; // [block_count], of 16 entries each
    size_t block_count, block_max;
    uint32_t count; // of entries
};

// Entries come in order.
void logprobs_add(struct logprobs *l, const struct logprob *entry, const struct token_top *tops);
// The bytes generated from there on are text, after so many bytes of it. They come in order.
void logprobs_text(struct logprobs *l, uint64_t from, size_t bytes, uint64_t text_before);
// So many bytes of text are visible; no further text comes of what was generated before `settled`.
// Entries whose text is visible are shown, those that brought none are dropped.
void logprobs_show(struct logprobs *l, uint64_t given, uint64_t settled);
void logprobs_sent(struct logprobs *l,
                   uint32_t count); // the first so many visible ones were written

// Keeps the entries [from, to). False: the arena's limit was met.
bool logprobs_keep(struct logprobs_kept *k, const struct logprobs *l, uint32_t from, uint32_t to);

// The visible entries [from, to), joined by commas: chat completions and Responses.
void logprobs_put_entries(const struct logprobs *l, const struct tokenizer *tokenizer,
                          uint32_t from, uint32_t to, struct json_buffer *out);
void logprobs_put_kept(const struct logprobs_kept *k, const struct tokenizer *tokenizer,
                       uint32_t from, uint32_t to, struct json_buffer *out);

// How far an object of log probabilities is written. All zero at first.
struct logprobs_cursor {
    uint32_t member, entry;
};
// Writes the next part, of at most eight entries, of the first `count` visible ones. False: that
// was the last.
typedef bool logprobs_part(const struct logprobs *l, uint32_t count,
                           const struct tokenizer *tokenizer, struct logprobs_cursor *at,
                           struct json_buffer *out);
logprobs_part logprobs_part_chat;   // {"content":[...],"refusal":null}: chat completions
logprobs_part logprobs_part_legacy; // {"tokens":[...],"token_logprobs":[...],...}: completions
