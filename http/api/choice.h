// One choice of a generation: sampled tokens in, visible text and its log probabilities out. Text
// goes through the detokenizer, the reader of replies and the stop strings; what these hold back is
// not visible yet. Log probabilities are those of the visible text's tokens.
// Owner: a generation, h2o thread.
#pragma once

#include "http/api/answer.h"
#include "http/api/logprobs.h"
#include "http/api/stop.h"

enum generation_end {
    END_TURN,        // an end-of-sequence token or a stop id
    END_STOP_STRING, // see scan.which
    END_LENGTH,      // the token limit
    END_WINDOW,      // the context window was full before the limit
};

// The same for all choices of a generation.
struct choice_options {
    struct arena *arena;
    const struct tokenizer *tokenizer;
    struct stop_strings stops; // `included`: the text of a stop id, too
    uint32_t stops_from;       // stop strings do not count in the first so many tokens
    bool special_shown;        // special tokens are written as text
    bool continues;            // the text goes on with another: its first space is kept
    bool window_bound;         // the token limit is what the context leaves
    bool logprobs;
    uint32_t top_logprobs;
    bool reads_reply;               // reasoning and calls are taken out of the text
    bool whole_calls;               // answer.h
    const json_t *eager;            // as well
    bool one_call;                  // the answer ends with its first call
    bool hides_reasoning;           // which counts all the same
    struct reply_args reply;        // of every choice; `formed` also where no reply is read
    const char *call_ids;           // what ids of calls begin with
    struct answer_parts *continued; // the message that every choice goes on with, or NULL
    char *piece;                    // [piece_max] of one token
    uint32_t piece_max;
};

struct choice {
    struct detok detok;
    struct stop_scan scan;
    struct logprobs logprobs;
    struct answer_parts answer;
    struct arena_text text; // visible; of a stream, what is not yet written and some before it
    bool text_lost;         // the arena's limit was met
    bool enough;            // by its first call
    uint64_t made, chars;   // bytes and characters generated
    uint64_t text_made;     // bytes of text in them, as far as the reader knows
    uint64_t given;         // bytes of text that were visible so far
    uint32_t output_tokens; // sampled; at the end: what is counted
    uint8_t finish;         // enum finish of its last event
    enum generation_end end;
    bool over; // text and log probabilities are complete
    bool told; // its end was written
};

// Makes what all choices use. False: the arena's limit was met.
bool choice_options_open(struct choice_options *o, struct arena *arena,
                         const struct tokenizer *tokenizer);
bool choice_open(struct choice *c, const struct choice_options *o);

// Events after `over` change nothing. It may be over by a stop string, before its finish event.
void choice_take(struct choice *c, const struct choice_options *o, const struct token_event *event,
                 const struct token_top *tops);

// It has no answer: the model failed, it was cancelled, or its memory was not enough.
bool choice_failed(const struct choice *c);

// A limit ended it, of the request or of the window.
static inline bool choice_limited(const struct choice *c)
{
    return c->end == END_LENGTH || c->end == END_WINDOW;
}

// Of a stream: what waits to be written, in bytes of text; log probabilities count, too.
size_t choice_pending(const struct choice *c);
// Of it, what is written next: text has the log probabilities of its tokens with it.
struct answer_piece choice_piece(const struct choice *c);
void choice_sent(struct choice *c);  // that piece was written
void choice_close(struct choice *c); // gives the reader of its reply back
