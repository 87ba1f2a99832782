// The log probabilities of one choice: an entry for each token, held back until its text is
// visible, and the two shapes in which they are written. Memory comes from the exchange's arena.
// Owner: the choice, h2o thread.
#pragma once

#include "base/arena.h"
#include "base/json.h"
#include "runtime/text/tokenizer.h"
#include "scheduler/port.h"

struct logprob {
    int32_t token;
    float logprob; // of the raw distribution
    uint32_t top_count;
    uint64_t end;   // bytes of text that must be visible before the entry is
    uint64_t chars; // characters of text before the token
};

struct logprobs {
    struct arena *arena;
    struct logprob *entries; // [max]
    struct token_top *tops;  // [max][top_max]
    uint32_t top_max, max;
    uint32_t count;   // of entries
    uint32_t visible; // of them, from the first on
    bool lost;        // the arena's limit was met
};

// Entries come with rising ends.
void logprobs_add(struct logprobs *l, const struct logprob *entry, const struct token_top *tops);
void logprobs_show(struct logprobs *l, uint64_t given); // so many bytes of text are visible
void logprobs_sent(struct logprobs *l);                 // the visible ones were written

// {"content":[...],"refusal":null} of the visible entries: chat completions.
void logprobs_put_chat(const struct logprobs *l, const struct tokenizer *tokenizer,
                       struct json_buffer *out);
// {"tokens":[...],"token_logprobs":[...],...}: completions.
void logprobs_put_legacy(const struct logprobs *l, const struct tokenizer *tokenizer,
                         struct json_buffer *out);
