// What chat completions (chat.c) and Messages (messages.c) share: they read their fields into it,
// call it step by step and write each step in their shape. Lives in the exchange's arena.
//
//   on_prepare  generation_open, the fields, generation_tokenize     loop or text worker
//   on_request  generation_submit                                    from here on the loop
//   on_ready, on_room, on_second   generation_next, generation_send, until STEP_WAIT
//   on_gone     generation_gone
#pragma once

#include "http/api/call.h"
#include "http/api/conversation.h"
#include "http/api/stop.h"

enum generation_end {
    END_TURN,        // an end-of-sequence token
    END_STOP_STRING, // see scan.which
    END_LENGTH,      // the token limit
    END_WINDOW,      // the context window was full before the limit
};

// What the client is told next.
enum generation_step {
    STEP_WAIT,    // nothing until the next callback
    STEP_BEGIN,   // a stream: before all text
    STEP_TEXT,    // a stream: generation_text is new
    STEP_IDLE,    // a stream: keep-alive
    STEP_END,     // a stream: after all text
    STEP_WHOLE,   // the whole answer: generation_text is all of it
    STEP_FAILURE, // the last event of a stream that has begun: `failure` says why
};

struct generation {
    struct call call;

    // What was asked.
    bool stream, include_usage, continuous_usage;
    bool thinking_off;         // the template is told so
    bool generation_prompt;    // the template opens the assistant's turn
    bool count_only;           // nothing is generated: the prompt is counted
    struct submit_args submit; // what the engine must know; max_tokens 0: what the context leaves
    struct stop_strings stops;
    struct conversation conversation; // until generation_tokenize

    // What generation_tokenize made.
    int32_t *tokens; // [prompt_tokens] i32, in the scratch arena
    uint32_t prompt_tokens;
    bool prompt_stopped;  // the prompt is longer: encoding stopped at the context window
    bool detok_continues; // the answer goes on with a text: its first space is kept
    bool window_bound;    // max_tokens is what the context leaves
    struct text id;
    int64_t created;

    // The answer so far.
    struct port *port;
    struct request *request;
    struct detok detok;
    struct stop_scan scan;
    char *piece; // [piece_max] of one token
    uint32_t piece_max;
    char *text; // visible and not yet written; the whole text where not streamed
    size_t text_bytes, text_max;
    bool text_lost;         // the arena's limit was met
    uint32_t output_tokens; // sampled; at the end: what is counted
    uint32_t cached_tokens;
    bool begun;  // STEP_BEGIN was returned
    bool over;   // the last event was read
    bool failed; // with `failure`
    bool cut;    // by the server, with `failure`; the exchange ends it
    bool told;   // the last step was returned, or the exchange has the failure
    bool begin_due, idle_due;
    uint8_t finish;     // enum finish of the last event
    uint64_t second_ns; // of the last generation_clock
    uint64_t quiet_ns;  // the second in which something was last written
    enum generation_end end;
    struct http_failure failure;
    struct text chunk; // chat: what every chunk of the stream begins with
    bool block_open;   // Messages: the text block has begun
};

// on_prepare. An invalid body fails the fields; then nothing happens up to generation_submit.
// generation_tokenize frees the body.
struct generation *generation_open(struct exchange *x);
void generation_tokenize(struct generation *g);

// Temperature up to the maximum, top_p, top_k from its minimum.
void generation_read_sampling(struct generation *g, double temperature_max, int64_t top_k_min);
// Strings of a stop field, at most `max`; empty ones are dropped.
void generation_read_stops(struct generation *g, const char *name, bool string_allowed,
                           uint32_t max);

// on_request: answers a failure, or gives the request to the engine.
// begin: what the shape makes once there is an id, or NULL; false: the arena is full.
void generation_submit(struct generation *g, const char *id_prefix,
                       bool (*begin)(struct generation *g));

// Reads events. Each step but STEP_WAIT is written by the caller and given to generation_send,
// which empties `out`. g may be NULL: nothing was prepared.
enum generation_step generation_next(struct generation *g);
struct text generation_text(const struct generation *g);
void generation_send(struct generation *g, enum generation_step step, struct json_buffer *out);

// About once a second: may bring STEP_BEGIN or STEP_IDLE.
void generation_clock(struct generation *g, uint64_t now_ns);
// The server ends the stream: STEP_FAILURE comes next.
void generation_cut(struct generation *g, const struct http_failure *failure);
void generation_gone(struct exchange *x);
