// What chat completions (chat.c), completions (completions.c), Responses (responses.c) and Messages
// (messages.c) share: they read their fields into it, call it step by step and write each step in
// their shape. Lives in the exchange's arena.
//
//   on_prepare  generation_open, the fields, generation_tokenize     loop or text worker
//   on_request  generation_begin, generation_submit                  from here on the loop
//               and where a grammar is not known: compiled meanwhile  grammar thread, which writes
//                                                                     g->structured alone
//   on_second, on_cut   generation_clock, generation_cut; on_ready follows
//   on_ready, on_room   generation_answer: generation_next, generation_send, until TELL_WAIT;
//               a whole answer of many log probabilities is measured by text worker
//   on_gone     generation_gone
#pragma once

#include "http/api/blocks.h"
#include "http/api/call.h"
#include "http/api/choice.h"
#include "http/api/conversation.h"
#include "http/api/grammars.h"

// What the client is told next.
enum generation_tell {
    TELL_WAIT,    // nothing until the next callback
    TELL_BEGIN,   // a stream: before all text
    TELL_PIECE,   // a stream: the next piece of generation_choice (choice_piece)
    TELL_PART,    // a part of a whole answer; Responses: of an event before the next step
    TELL_CHOICE,  // a stream: generation_choice is over
    TELL_IDLE,    // a stream: keep-alive
    TELL_END,     // a stream: after all choices
    TELL_WHOLE,   // the whole answer: every choice has all of its text
    TELL_FAILURE, // the last event of a stream that has begun: `failure` says why
};

// What the answer must be, by which field (structured.h); kind GRAMMAR_KIND_NONE: anything.
struct structured {
    struct grammar_source source; // in the exchange's arena
    struct hash hash;             // of the source
    const char *path;
    // What is known of it; written by the grammar thread, too, which writes nothing else.
    enum grammars_found found;
    struct grammar *grammar;
    struct error refusal;
};

// Which calls a request asks for.
struct tool_choice {
    bool hidden;     // none: the tools are not shown
    bool must;       // an answer is calls
    json_t *allowed; // names of the tools that may be called; NULL: all
};

// How many tokens of reasoning a choice may have.
struct thinking_budget {
    bool limited;
    uint32_t tokens;
    const char *path; // of the field that says so; static
};

// Writes a step. Returns it, or TELL_PART where the rest of it comes with the next call.
struct generation;
typedef enum generation_tell generation_put(struct generation *g, enum generation_tell step,
                                            struct json_buffer *out);
typedef enum generation_tell generation_steps(struct generation *g);

// A whole answer, written part by part. One of many log probabilities is written twice: first on a
// text worker for its length, then as there is room, so that it is never in memory as a whole.
struct generation_whole {
    struct {
        uint32_t choice;
        bool begun; // of the choice; of Responses of all
        struct logprobs_cursor entries;
    } at;
    generation_put *put; // of one that is written twice, else NULL
    uint64_t length;
    bool ended;
};

struct generation {
    struct call call;

    // What was asked.
    bool stream, include_usage, continuous_usage;
    json_t *variables;         // of the template, beside its own; until generation_prepared
    json_t *tools;             // that the template and the readers of replies see, or NULL
    json_t *eager;             // Messages: names of tools whose input is told as it comes, or NULL
    struct tool_choice choice; // among them
    bool generation_prompt;    // the template opens the assistant's turn
    bool count_only;           // nothing is generated: the prompt is counted
    uint32_t prompt_last;      // of a longer prompt so many tokens at its end are kept; 0: all
    struct submit_args submit; // what the engine must know; max_tokens 0: what the context leaves
    struct choice_options options;
    struct structured structured;
    struct thinking_budget thinking;
    const char *thinking_said[2];     // fields that ask for no thinking, and for some; NULL: none
    struct conversation conversation; // until generation_prepared
    const char *turns;                // the field that it was read from

    // What generation_tokenize made.
    int32_t *tokens;        // [prompt_tokens] i32, in the scratch arena
    const uint32_t *starts; // [submit.sequence_count + 1] of the prompts, there, too; NULL: one
    uint32_t prompt_tokens; // of all prompts
    struct text
        *echoes; // completions: [submit.sequence_count] the prompts, to be repeated; or NULL
    bool prompt_stopped; // it has more than that: encoding stopped at the window
    struct text id;
    int64_t created;

    // The answer so far.
    struct port *port;
    struct request *request;
    struct choice *choices; // [choice_count] by prompt
    uint32_t choice_count;
    uint32_t turn;  // the choice that is told of next
    size_t pending; // choice_pending of all
    uint32_t cached_tokens;
    bool compiling; // the grammar thread has it, or it waits for that
    bool begun;     // TELL_BEGIN was returned
    bool over;      // the last event was read
    bool failed;    // with `failure`
    bool cut;       // by the server, with `failure`; the exchange ends it
    bool told;      // the last step was returned, or the exchange has the failure
    bool begin_due, idle_due;
    uint64_t second_ns; // of the last generation_clock
    uint64_t quiet_ns;  // the second in which something was last written
    struct http_failure failure;
    struct generation_whole whole;
    struct text chunk;          // OpenAI's shapes: what every chunk of the stream begins with
    struct block_writer blocks; // Messages
};

// on_prepare. An invalid body fails the fields; then nothing happens up to generation_submit.
// generation_tokenize renders the conversation, makes its tokens and frees the body.
struct generation *generation_open(struct exchange *x);
// The same as the first member of a state of so many bytes.
struct generation *generation_open_in(struct exchange *x, size_t state_bytes);
void generation_tokenize(struct generation *g);
void generation_prepared(struct generation *g); // frees the body where there is no conversation

// on_request. generation_begin makes the id and what the answer needs; false: the fields are
// invalid or the arena is full. generation_submit answers a failure, or gives the request to the
// engine, after its grammar was compiled where that is not known yet.
bool generation_begin(struct generation *g, const char *id_prefix);
void generation_echo(struct generation *g, uint32_t choice, struct text echo); // of a stream
void generation_submit(struct generation *g, bool begun);

// Reads events. Each step but TELL_WAIT is written by the caller and given to generation_send,
// which empties `out`. g may be NULL: nothing was prepared.
generation_steps generation_next;
struct choice *generation_choice(const struct generation *g);
uint32_t generation_output(const struct generation *g);    // tokens of all choices so far
uint32_t generation_reasoning(const struct generation *g); // of them, spent on reasoning
void generation_send(struct generation *g, enum generation_tell step, struct json_buffer *out);

// All of that: writes what there is to tell, as `next` says, which is generation_next or calls it.
void generation_answer(struct generation *g, generation_steps *next, generation_put *put);

// The answer cannot be told: the request fails.
void generation_lost(struct generation *g);

// About once a second: may bring TELL_BEGIN or TELL_IDLE.
void generation_clock(struct exchange *x, uint64_t now_ns);
// The server ends the stream: TELL_FAILURE comes next.
void generation_cut(struct exchange *x, const struct http_failure *failure);
void generation_gone(struct exchange *x);
// The callbacks of a route from there on.
#define GENERATION_CALLS(answer)                                                                   \
    .on_ready = answer, .on_room = answer, .on_second = generation_clock,                          \
    .on_cut = generation_cut, .on_gone = generation_gone
