// What a reranker reads for one (query, document): a text pair of the tokenizer for encoders, or
// the published yes/no prompt of Qwen3-Reranker. Used by the server and by the command line.
// Text of query and document stays text; what does not fit is cut off the document's
// end, or off its beginning.
#pragma once

#include "runtime/text/tokenizer.h"

struct rerank_args {
    const struct tokenizer *tokenizer;
    bool yes_no; // the prompt of Qwen3-Reranker; else a text pair
    struct text query;
    struct text instruction; // yes_no only; empty: the published one
    uint32_t tokens_max;     // of one input, all included
    bool stop;               // documents that are too long are not cut: stop beyond tokens_max
    bool left;               // documents are cut at their beginning
    uint32_t document_max;   // tokens of a document; 0: what fits
    struct arena *arena;     // holds the prompt until it is no longer used
    struct slice *slice;     // the work is counted in it; NULL: it is not shared
};

struct rerank_prompt; // the parts that all documents share

// STATUS_TOO_LARGE: the query takes more than half of tokens_max.
enum status rerank_prompt_make(struct rerank_prompt **out, const struct rerank_args *args,
                               struct error *err) MUST_USE;

struct rerank_input {
    int32_t *tokens; // [token_count] i32, in the arena given to the call
    uint32_t token_count;
    uint32_t type_from;   // token type 1 from here (pairs); token_count: nowhere
    uint32_t whole_count; // tokens before the cut
    bool cut;             // more of the document was asked for than fits
    bool stopped;         // it has more than whole_count tokens; there are no tokens
};

// arena: scratch and tokens; the caller resets it when the tokens are copied.
enum status rerank_prompt_encode(const struct rerank_prompt *prompt, struct text document,
                                 struct arena *arena, struct rerank_input *out,
                                 struct error *err) MUST_USE;

struct rerank_score {
    uint32_t index; // of the document
    float score;
};
// As shown: raw is the logit itself, else it is from 0 to 1.
struct rerank_score rerank_score_of(uint32_t index, float logit, bool raw);
void rerank_scores_sort(struct rerank_score *scores, uint32_t count); // the best first
