// SPDX-License-Identifier: Apache-2.0
// Continues a prompt or a conversation with the model of a session, on the calling thread. Used by
// `weft generate` and `weft chat`.
#pragma once

#include "cli/command.h"

// Option rows for the fields temperature, top_p, top_k, max_tokens and seed of `type`; the defaults
// are the texts that the help prints.
#define GENERATION_ROWS(type, default_temperature, default_top_p)                                  \
    OPTION_NUMBER("temperature", OPTION_REAL, offsetof(type, temperature), 0, 2,                   \
                  default_temperature, "randomness of the answer; 0: always the likeliest token"), \
        OPTION_NUMBER("top-p", OPTION_REAL, offsetof(type, top_p), 0, 1, default_top_p,            \
                      "draw from the likeliest tokens that together have this probability"),       \
        OPTION_NUMBER("top-k", OPTION_COUNT, offsetof(type, top_k), 0, 1e9, "0: off",              \
                      "draw from the K likeliest tokens"),                                         \
        OPTION_NUMBER("max-tokens", OPTION_COUNT, offsetof(type, max_tokens), 0, 1e9,              \
                      "0: the rest of the context", "most tokens of an answer"),                   \
        OPTION_NUMBER("seed", OPTION_INTEGER, offsetof(type, seed), 0, 0, "-1: random",            \
                      "seed of the random numbers")

// Appends {"role": role, "content": content} to an array of messages.
void message_add(json_t *messages, const char *role, struct text content);

// Renders the messages (borrowed) with the model's template and encodes them. Sets submit->tokens,
// allocated in the arena, and submit->token_count.
enum status conversation_encode(const struct session *session, json_t *messages,
                                struct arena *arena, struct submit_args *submit,
                                struct error *err) MUST_USE;

// Returns INVALID if the prompt has no tokens, TOO_LARGE if it leaves no space for an answer. Sets
// submit->max_tokens to max_tokens; if that is 0, to the rest of the context.
enum status prompt_bounds(const struct session *session, struct submit_args *submit,
                          uint32_t max_tokens, struct error *err) MUST_USE;

struct continuation {
    int32_t *tokens; // [token_count] on the heap
    uint32_t token_count;
    enum finish finish;
    struct json_buffer text; // without reasoning if that was separated
    uint64_t first_ns;       // clock_ns of the first token; 0: there was no token
};

struct continue_args {
    const struct submit_args *submit;
    // Called with each piece of text, which consists of complete characters; an error ends the
    // answer. May be NULL.
    enum status (*show)(void *context, bool reasoning, struct text piece, struct error *err);
    bool (*stop)(void *context); // called after each step; returns true to stop; may be NULL
    void *context;
    struct arena *arena; // for temporary data
    // true: separate reasoning from text by the model's markers; false: print the markers
    bool separate_reasoning;
};

// Generates until the model ends the answer, a limit of tokens is reached or stop returns true. The
// caller zeroes `out` before and frees it with continuation_end, also after an error.
enum status prompt_continue(struct session *session, const struct continue_args *args,
                            struct continuation *out, struct error *err) MUST_USE;
void continuation_end(struct continuation *made);
