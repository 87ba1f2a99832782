// SPDX-License-Identifier: Apache-2.0
// The input of a reranker for one (query, document): a text pair of the tokenizer, or the prompt of
// a published model (runtime/source/rerank_forms.h). Used by the server and the command line; a
// prompt is immutable once created, any thread. Special tokens are not recognized in query and
// document. If the input is too long, the document is truncated at its end or at its beginning.
#pragma once

#include "runtime/source/rerank_forms.h"
#include "runtime/text/tokenizer.h"

struct rerank_args {
    const struct tokenizer *tokenizer;
    enum rerank_form form;
    struct text query;
    struct text instruction; // instruction of a form with a prompt; empty: the published one
    uint32_t tokens_max;     // limit of one input, special tokens and prompt included
    // true: if an input exceeds tokens_max, encoding stops instead of truncating the document
    bool stop_at_limit;
    bool truncate_left;           // true: documents are truncated at their beginning
    uint32_t document_tokens_max; // limit of a document; 0: as many as fit
    struct arena *arena;          // memory of the prompt
    struct slice *slice;          // the work is charged to it; NULL: not counted
};

struct rerank_prompt; // the parts that all documents of a query share

// Creates a prompt in args->arena; the tokenizer, the slice and the text of args->query must
// outlive it. STATUS_TOO_LARGE: the query has more than half of tokens_max, or leaves no space for
// a document.
enum status rerank_prompt_make(struct rerank_prompt **out, const struct rerank_args *args,
                               struct error *err) MUST_USE;

struct rerank_input {
    int32_t *tokens; // [token_count] i32, in the arena of the call
    uint32_t token_count;
    uint32_t type_from; // index of the first token of type 1 (pairs); token_count: none
    uint32_t count_before_truncation; // tokens of the complete input
    bool truncated; // true if the document, limited to document_tokens_max, did not fit
    bool stopped;   // true if there are more than count_before_truncation tokens; `tokens` is then
                    // invalid
};

// Encodes one document. arena: for scratch and tokens; the caller resets it after copying the
// tokens.
enum status rerank_prompt_encode(const struct rerank_prompt *prompt, struct text document,
                                 struct arena *arena, struct rerank_input *out,
                                 struct error *err) MUST_USE;

struct rerank_score {
    uint32_t index; // of the document in the request
    float score;
};
// Returns the score to report: the logit if raw, else its sigmoid (0 to 1).
struct rerank_score rerank_score_of(uint32_t index, float logit, bool raw);
void rerank_scores_sort(struct rerank_score *scores, uint32_t count); // best first
