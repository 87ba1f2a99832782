// One internal request and one internal event stream for text generation. Chat completions
// (chat.c) and Messages (messages.c) read their fields into it and write its answer; between the
// two nothing knows a shape. Lives in the exchange's arena; prepared on the h2o thread or a text
// worker, everything after that on the h2o thread.
//
//   prepare -> submitted -> [begun: the 200 of a stream is out] -> over
//   generation_start  generation_ready, generation_second          generation_ready
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

struct generation;

// How one shape reads and writes. Writers append to `out`, which is sent when they return.
struct generation_shape {
    void (*read)(struct generation *g); // fields and conversation; may fail the fields
    void (*begin)(struct generation *g, struct json_buffer *out); // a stream: before all text
    void (*text)(struct generation *g, struct json_buffer *out, struct text delta);
    void (*idle)(struct generation *g, struct json_buffer *out); // keep-alive
    void (*end)(struct generation *g, struct json_buffer *out);  // a stream: after all text
    void (*whole)(struct generation *g, struct json_buffer *out, struct text text);
    void (*failure)(struct generation *g, struct json_buffer *out,
                    const struct http_failure *failure); // in a stream
    const char *id_prefix;
};

struct generation {
    struct call call;
    const struct generation_shape *shape;

    // What was asked.
    bool stream, include_usage, continuous_usage;
    bool thinking_off;      // the template is told so
    bool generation_prompt; // the template opens the assistant's turn
    bool count_only;        // nothing is generated: the prompt is counted
    bool ignore_end;
    struct sampling sampling;
    uint32_t max_tokens; // 0: what the context leaves; cut to it by prepare
    struct stop_strings stops;
    struct conversation conversation; // until prepare has made tokens of it

    // What prepare made.
    int32_t *tokens; // [prompt_tokens] i32, in the scratch arena
    uint32_t prompt_tokens;
    bool prompt_stopped;  // it has more than that: encoding stopped at the window
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
    bool begun, over, wrote;
    uint8_t finish;    // enum finish of the last event
    uint64_t quiet_ns; // when something was last known to be written
    enum generation_end end;
    void *writer; // the shape's own
};

void generation_start(struct exchange *x, const struct generation_shape *shape, bool count_only);

// Callbacks of the routes.
void generation_ready(struct exchange *x);
void generation_second(struct exchange *x, uint64_t now_ns);
void generation_cut(struct exchange *x, const struct http_failure *failure);
void generation_gone(struct exchange *x);

// Common to both readers: temperature up to the maximum, top_p, top_k from its minimum.
void generation_read_sampling(struct generation *g, double temperature_max, int64_t top_k_min);
// Strings of a stop field, at most `max`; empty ones are dropped.
void generation_read_stops(struct generation *g, const char *name, bool string_allowed,
                           uint32_t max);
