// SPDX-License-Identifier: Apache-2.0
// One choice of a generation: sampled tokens in, visible text and its log probabilities out. Text
// passes through the detokenizer, the reply parser and the stop strings; text that one of them
// still holds back is not visible. Logprob entries are those of the visible text's tokens.
// Owner: a generation, on its h2o thread.
#pragma once

#include "http/api/answer.h"
#include "base/arena.h"

#include <stdbool.h>
#include <stdint.h>

// Searches stop strings in text that arrives in pieces. The leftmost match wins; of several matches
// there, the longest, so a shorter match waits while a longer one is possible. The scanner holds
// back the longest tail of the text that could still become a match. The result does not depend on
// how the text was split. Owner: one choice of one request, on its h2o thread.

enum { STOP_STRINGS_MAX = 64, STOP_BYTES_MAX = 256 };

struct stop_strings {
    uint32_t count;
    bool included;                         // true if the matched string stays in the text
    struct text strings[STOP_STRINGS_MAX]; // none is empty, each at most STOP_BYTES_MAX bytes
};

struct stop_scan {
    const struct stop_strings *strings;
    char *window;      // text held back, then the newest piece
    uint32_t *ordinal; // [window_max] number of the token that produced each byte
    uint32_t window_max;
    uint32_t bytes;    // number of bytes in the window
    uint32_t returned; // number of these bytes that the last call returned
    bool found;
    uint32_t which;  // index of the string that matched
    uint32_t tokens; // ordinal of the token that completed the match
};

// Initializes a scanner. piece_max: maximum bytes of a piece. Returns false if the arena is full.
bool stop_scan_init(struct stop_scan *s, const struct stop_strings *strings, struct arena *arena,
                    uint32_t piece_max);

// Adds a piece and returns the text that can no longer be part of a match, valid until the next
// call. ordinal: number of the token that produced the piece. Must not be called after a match.
struct text stop_scan_push(struct stop_scan *s, struct text piece, uint32_t ordinal);

// The text is complete: returns the text held back, cut off at a match if there is one.
struct text stop_scan_finish(struct stop_scan *s);

enum generation_end {
    END_TURN,        // an end-of-sequence token or a stop id
    END_STOP_STRING, // a stop string; scan.which is its index
    END_LENGTH,      // the token limit
    END_WINDOW,      // the context window was full before the limit
};

// Options that all choices of a generation share.
struct choice_options {
    struct arena *arena;
    const struct tokenizer *tokenizer;
    struct stop_strings stops; // if `included` is set, the text of a stop id is also shown
    uint32_t stops_from;       // number of first tokens that stop strings ignore (min_tokens)
    bool special_shown;        // true if special tokens are written as text
    bool continues;            // true if the text continues other text: its leading space is kept
    bool window_bound;         // true if the token limit is the rest of the context window
    bool logprobs;
    uint32_t top_logprobs;
    bool reads_reply; // true if the reply parser takes reasoning and calls out of the text
    bool defer_calls; // see struct answer_parts
    const json_t *streamed_tools; // see struct answer_parts
    const json_t *custom_tools;   // see struct answer_parts
    const json_t *spaces;         // see struct answer_parts
    bool one_call;                // true if the answer ends after its first call
    bool hides_reasoning;    // true if reasoning is not sent to the client; its tokens still count
    struct reply_args reply; // of every choice's parser; `formed` is used even without a parser
    const char *call_ids;    // prefix of generated call ids
    struct answer_parts *continued; // the continued message, parsed (answer.h); or NULL
    char *piece;                    // [piece_max] bytes of one token, scratch
    uint32_t piece_max;
};

struct choice {
    struct detok detok;
    struct stop_scan scan;
    struct logprobs logprobs;
    struct answer_parts answer;
    // Visible text; when streaming, the unwritten text and a written part before it.
    struct arena_text text;
    bool text_full;           // true if the arena was full
    bool ended_by_call;       // true if the first call ended the answer (one_call)
    uint64_t generated_bytes; // includes those of the continued message
    uint64_t generated_chars; // characters generated
    uint64_t parsed_bytes;    // bytes of text that the parser has found, stop strings included
    uint64_t visible_bytes;   // bytes of text that became visible
    uint32_t output_tokens;   // tokens sampled; after a stop string, those up to its match
    uint8_t finish;           // enum finish of the last event
    enum generation_end end;
    bool over;     // true if text and log probabilities are complete
    bool end_sent; // true if the end of the choice was written (STEP_CHOICE)
};

// Sets arena and tokenizer and allocates the scratch buffer; the caller sets the other members.
// Returns false if the arena is full.
bool choice_options_open(struct choice_options *o, struct arena *arena,
                         const struct tokenizer *tokenizer);
// Initializes a choice. Returns false if the arena is full.
bool choice_open(struct choice *c, const struct choice_options *o);

// Handles an event of the choice. tops: [event->top_count]. Events after `over` change nothing; a
// stop string can set `over` before the finish event arrives.
void choice_handle(struct choice *c, const struct choice_options *o,
                   const struct token_event *event, const struct token_top *tops);

// Returns true if the choice has no answer: the model failed, the request was cancelled, or the
// arena was full.
bool choice_failed(const struct choice *c);

// Returns true if a limit ended the choice: the request's or the context window's.
static inline bool choice_limited(const struct choice *c)
{
    return c->end == END_LENGTH || c->end == END_WINDOW;
}

// Stream: returns the bytes of text that wait to be written; a logprob entry counts as 64.
size_t choice_pending(const struct choice *c);
// Stream: returns the next piece of that text, together with the entries of its tokens.
struct answer_piece choice_piece(const struct choice *c);
void choice_advance(struct choice *c); // records that this piece was written
void choice_close(struct choice *c);   // frees the reply parser
