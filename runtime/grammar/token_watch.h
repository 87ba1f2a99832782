// SPDX-License-Identifier: Apache-2.0
// Follows the free text of an answer token by token, so that a grammar that holds only from certain
// markers on (grammar_free_part) needs no matcher and no mask until one of them begins.
//
// Between markers a matcher of such a grammar is in one of few phases, which no earlier text
// influences. For each token and phase a table has the phase after it, or TOKEN_OPEN if a marker
// has begun or is complete. Then a matcher is started in the phase before that token.
//
// Created once per model, immutable, reference-counted and readable by any thread.
#pragma once

#include "runtime/grammar/grammar.h"
#include "runtime/grammar/vocabulary.h"

enum token_phase {
    TOKEN_HEAD,      // only blanks since the beginning of a part of the answer
    TOKEN_TEXT,      // other text
    TOKEN_REASONING, // inside of reasoning
    TOKEN_PHASES,
    TOKEN_CALL = TOKEN_PHASES, // after the marker of a call; only as the beginning of an answer
    TOKEN_OPEN,                // only a matcher knows: a marker may have begun, or is complete
    TOKEN_UNWATCHED,           // no phase: no watch, or the answer continues without its grammar
};

// The text after a marker.
enum token_watch_then {
    TOKEN_THEN_GRAMMAR,   // the marker's part of the grammar
    TOKEN_THEN_PART,      // another part of the answer
    TOKEN_THEN_REASONING, // reasoning
};

struct token_watch;

struct token_watch_args {
    const struct vocabulary *vocabulary; // only read by token_watch_create
    // The markers of the free part with which the grammar begins; `then` is an enum
    // token_watch_then. After TOKEN_THEN_PART the free part begins again.
    const struct grammar_marker *markers;
    uint32_t count;
    struct text reasoning_open;  // the marker that leads to reasoning; 0 bytes: none
    struct text reasoning_close; // its end, after which the free part begins again
    struct text call;            // the marker after which an answer in TOKEN_CALL begins; 0: none
};
// Takes about 20 ms for 150,000 tokens, which need one byte each.
struct token_watch *token_watch_create(const struct token_watch_args *args);
struct token_watch *token_watch_ref(struct token_watch *w); // adds a reference; any thread
// Drops a reference, the last frees it; NULL is allowed.
void token_watch_unref(struct token_watch *w);
uint32_t token_watch_owners(const struct token_watch *w); // current number; for tests

// Returns the phase after a token in one of the TOKEN_PHASES phases: another one or TOKEN_OPEN. An
// end id that ends no answer is text; other ids without bytes do not count.
enum token_phase token_watch_next(const struct token_watch *w, enum token_phase phase,
                                  int32_t token);
// Sets *bytes to a text that leads a matcher of the grammar from its beginning into this phase
// (below TOKEN_OPEN); `more`: to a longer one, because the state of a matcher may differ at the
// beginning of a phase. Returns false if there is none.
bool token_watch_entry(const struct token_watch *w, enum token_phase phase, bool more,
                       struct text *bytes);
