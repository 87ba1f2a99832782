// SPDX-License-Identifier: Apache-2.0
// The state and the steps that chat completions (chat.c), completions (completions.c), Responses
// (responses.c) and Messages (messages.c) share: an endpoint reads its fields into struct
// generation, calls it step by step and writes each step in its own shape. Memory: the exchange's
// arena.
//
//   on_prepare   generation_open, the endpoint's fields, generation_tokenize    h2o thread or
//                                                                               text worker
//   on_request   generation_begin, generation_submit                            h2o thread
//                if the grammar is unknown, it is compiled first                grammar thread
//                (it writes g->structured only)
//   on_second    generation_clock; on_ready follows                             h2o thread
//   on_cut       generation_cut; on_ready follows                               h2o thread
//   on_ready, on_send_space
//                generation_answer: generation_next and generation_send until STEP_CALLBACK
//                                                                               h2o thread
//                a non-streamed answer with many log probabilities is measured  text worker
//   on_gone      generation_gone                                                h2o thread
#pragma once

#include "http/api/call.h"
#include "http/api/choice.h"
#include "http/api/generation_fields.h"

// The next thing to send to the client.
enum stream_step {
    STEP_CALLBACK,  // nothing to send until the next callback
    STEP_BEGIN,     // stream: the opening events, before all text
    STEP_PIECE,     // stream: the next piece (choice_piece) of generation_choice
    STEP_PART,      // part of a non-streamed answer; Responses: also part of an event
    STEP_CHOICE,    // stream: the end of generation_choice
    STEP_KEEPALIVE, // stream: a keep-alive
    STEP_END,       // stream: the end, after all choices
    STEP_ANSWER,    // the complete non-streamed answer
    STEP_FAILURE,   // stream: the last event, which reports `failure`
};

// The state of a generation consists of three independent enums: the work of the engine, what of
// the answer was sent, and whether the generation failed.
//
//              grammar_request                    request_submit
//     NONE --------------------> COMPILING --------------------------> RUNNING
//      |                             |                                    |
//      | submission_fail             | submission_fail                    | token_event_handle,
//      |                             v                                    |   the last event
//      +--------------------------> OVER <--------------------------------+
//     NONE -- request_submit, the grammar is known or there is none --> RUNNING
//     RUNNING -- generation_gone --> NONE
//
//                  stream_begin                last_step, or FAILED_BY_SERVER
//     NOTHING ------------------> BEGINNING ---------------------------------> END
//      |                                                                        ^
//      +-- last_step (no stream, or failed before it began), submission_fail ---+
//
//     NOT -- generation_fail, or submission_fail after the beginning --> REQUEST
//     NOT, REQUEST -- generation_cut --> BY_SERVER
enum generation_work {
    WORK_NONE,      // not submitted, or the client has left: generation_next returns no step
    WORK_COMPILING, // the grammar is compiled or waits for the grammar thread
    WORK_RUNNING,   // `request` is at the engine
    WORK_OVER,      // the last event was read, or the submission failed
};
enum generation_sent {
    SENT_NOTHING,
    SENT_BEGINNING, // stream: STEP_BEGIN was returned
    SENT_END,       // the last step was returned, or exchange_fail was called
};
enum generation_failed {
    FAILED_NOT,
    FAILED_REQUEST,   // with `failure`
    FAILED_BY_SERVER, // the server ends the stream, with `failure`; the exchange ends the response
};

// Times of a stream, CLOCK_MONOTONIC. generation_clock decides what is due.
struct generation_timer {
    enum { DUE_NOTHING, DUE_BEGIN, DUE_KEEPALIVE } due; // STEP_BEGIN or STEP_KEEPALIVE
    uint64_t now_ns;                                    // of the last generation_clock
    uint64_t output_ns;                                 // value of now_ns at the last output
};

// Writes a step to `out`, in the endpoint's shape. Returns the step, or STEP_PART if the next call
// writes the rest of it.
struct generation;
typedef enum stream_step generation_write_fn(struct generation *g, enum stream_step step,
                                             struct json_buffer *out);
// Returns the next step: generation_next, or a function that calls it.
typedef enum stream_step generation_next_fn(struct generation *g);

// Position in a non-streamed answer that is written part by part. If the answer has many log
// probabilities, it is written twice: a text worker writes it to measure its length, then the h2o
// thread writes it as send space allows, so that it is never in memory as a whole.
struct complete_answer {
    struct {
        uint32_t choice;
        bool begun; // true if the choice has begun; Responses: if the response has
        struct logprobs_cursor entries;
    } at;
    generation_write_fn *put; // writer of an answer that is written twice; else NULL
    uint64_t length;
    bool ended;
};

struct generation {
    struct body_call call;

    // Fields of the request.
    bool stream;
    bool count_only; // true if the prompt is only tokenized and counted, nothing is generated
    struct {
        bool included, continuous; // stream_options
    } usage;
    struct generation_prompt prompt;
    struct generation_tools tools;
    struct generation_thinking thinking;
    struct submit_args submit; // for the engine; max_tokens 0: the rest of the context window
    struct choice_options options;
    struct structured structured;

    // State of the answer.
    struct text id;
    int64_t created;
    enum generation_work work;
    enum generation_sent sent;
    enum generation_failed failed;
    struct http_failure failure;
    struct port *port;
    struct request *request; // while WORK_RUNNING; else NULL
    uint32_t cached_tokens;
    struct choice *choices; // [choice_count], grouped by prompt
    uint32_t choice_count;
    uint32_t next_choice; // index of the choice to write next
    size_t pending;       // sum of choice_pending over all choices
    struct generation_timer timer;
    struct complete_answer complete;
    struct text chunk; // OpenAI shapes: beginning that all chunks of the stream share
};

// For on_prepare. An invalid body fails the fields, and the functions up to generation_submit then
// do nothing. generation_tokenize renders the conversation, tokenizes it and frees the body.
struct generation *generation_open(struct exchange *x);
// Like generation_open, for an endpoint whose state (state_bytes) has the generation as its first
// member.
struct generation *generation_open_in(struct exchange *x, size_t state_bytes);
void generation_tokenize(struct generation *g);
// Frees the body; called directly by endpoints without a conversation.
void generation_prepared(struct generation *g);

// For on_request. generation_begin generates the id and allocates the choices; returns false if the
// fields have failed or the arena is full. generation_submit (begun: the result of
// generation_begin) sends the failure in that case. Otherwise it submits the request to the engine;
// if its grammar is unknown, after the grammar thread has compiled it.
bool generation_begin(struct generation *g, const char *id_prefix);
// Stream only, between the two: sets the prompt text that the choice repeats first.
void generation_echo(struct generation *g, uint32_t choice, struct text echo);
void generation_submit(struct generation *g, bool begun);

// Reads events and returns the next step. The caller writes each step except STEP_CALLBACK and
// passes it to generation_send, which sends and empties `out`. g may be NULL if nothing was
// prepared.
generation_next_fn generation_next;
// Returns the choice that the present step is about.
struct choice *generation_choice(const struct generation *g);
uint32_t generation_output(const struct generation *g);    // tokens generated so far, all choices
uint32_t generation_reasoning(const struct generation *g); // reasoning tokens among them
void generation_send(struct generation *g, enum stream_step step, struct json_buffer *out);

// For on_ready and on_send_space: writes and sends every step that `next` returns, until
// STEP_CALLBACK. A large non-streamed answer is measured on a text worker first. g may be NULL.
void generation_answer(struct generation *g, generation_next_fn *next, generation_write_fn *put);

// Fails the request because the arena is full, so that the answer cannot be written.
void generation_fail_memory(struct generation *g);

// About once a second: decides whether STEP_BEGIN or STEP_KEEPALIVE is due.
void generation_clock(struct exchange *x, uint64_t now_ns);
// The server ends the stream: generation_next returns STEP_FAILURE next.
void generation_cut(struct exchange *x, const struct http_failure *failure);
// The client left, or the server cut the request: counts each choice as finished or aborted and
// frees what is not in the arena.
void generation_gone(struct exchange *x);
// The callbacks of a route after on_request.
#define GENERATION_CALLS(answer)                                                                   \
    .on_ready = answer, .on_send_space = answer, .on_second = generation_clock,                    \
    .on_cut = generation_cut, .on_gone = generation_gone
