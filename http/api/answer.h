// The answer of one choice, apart from its text: reasoning, tool calls, and the order of all three.
// choice.c fills it from the reply parser (runtime/text/dialect/reply.h); chat.c, responses_write.c
// and messages_write.c write it to the client. Memory comes from the exchange's arena; the reply
// parser's state is on the heap until answer_close. Owner: the choice, on its h2o thread; the
// generation for the one that holds the continued message.
//
// The continued message is the last message of a request, if it is the assistant's and the answer
// is to complete it (prompt.c).
//
// A stream writes the runs of an answer piece by piece and in order, so that a large run, such as a
// tool call that is deferred until it is complete, does not fill the send buffer of a slow client.
#pragma once

#include "base/arena.h"
#include "base/json.h"
#include "runtime/text/dialect/reply.h"

enum {
    ANSWER_PIECE_MAX = 2048,     // bytes of one piece, plus the rest of its last character
    ANSWER_BEGUN_MAX = 64 * 1024 // bytes of an open call's arguments in the continued message
};

struct answer_call {
    struct text id, name; // id: generated here, or the model's if its dialect needs that form
    struct arena_text arguments; // JSON text; a stream empties it when all pending runs are written
    size_t written;              // bytes of `arguments` that a stream has written
    bool begun;                  // true if a stream has written id and name
    bool deferred; // true if output is deferred until the call is complete; false: streamed
    bool closed;
    bool complete; // true if the arguments are a complete JSON object
};

enum answer_kind { RUN_TEXT, RUN_REASONING, RUN_CALL };

// A run of text, reasoning or one call; the order of the runs is the order of the answer. Text is
// the choice's text after stop strings were cut off.
struct answer_run {
    enum answer_kind kind;
    size_t bytes;     // length; in a stream, the part not yet written
    uint32_t call;    // number of the call, from 1; RUN_TEXT: of the malformed call it shows, or 0
    const char *echo; // echoed prompt text, stored elsewhere and written first; or NULL
};

// The next piece of a stream.
struct answer_piece {
    enum answer_kind kind;
    struct text text;
    uint32_t call;    // as answer_run.call
    uint32_t entries; // number of logprob entries written with the piece (set by choice_piece)
};

struct answer_parts {
    struct arena *arena;
    const char *id_prefix; // prefix of generated call ids
    const struct dialect *dialect;
    struct reply *reply; // reply parser; NULL: everything is text
    struct arena_text reasoning;
    struct answer_call *calls; // [call_max]
    uint32_t call_count;
    size_t call_max;
    uint32_t closed;   // number of calls that have ended
    uint32_t complete; // number of ended calls whose arguments are a complete JSON object
    uint32_t reasoning_tokens;
    uint32_t continued_bytes; // of the continued message; parser output for them is not new text
    bool arena_full;          // true if the arena was full: the answer is not usable
    bool defer_calls; // true if calls are deferred until complete, except those of `streamed_tools`
    const json_t *streamed_tools; // object keyed by the names of tools with streamed input, or NULL
    struct answer_run *runs;      // [run_count]; a stream has written those before run_next
    uint32_t run_count, run_next;
    size_t run_max;
    size_t text_written, reasoning_written; // bytes that a stream has written
};

// Opens the reply parser. The caller has set a->arena and a->id_prefix. continued: the parsed
// continued message, whose parser state and open call are copied; or NULL.
void answer_open(struct answer_parts *a, const struct reply_args *args,
                 const struct answer_parts *continued);
// Feeds a piece of the continued message to the reply parser. Keeps the calls and drops text and
// reasoning, because the client has them.
void answer_continue(struct answer_parts *a, struct text piece);
// Returns the arguments so far of the call that is open; empty if none is.
struct text answer_begun(const struct answer_parts *a);
// Frees the reply parser; the answer stays readable. May be called more than once.
void answer_close(struct answer_parts *a);

// Records that the next `bytes` bytes of the choice's text are at this point of the answer.
void answer_text(struct answer_parts *a, size_t bytes);
// Stream only: prepends the echoed prompt as the first run. The text is not copied.
void answer_echo(struct answer_parts *a, struct text echo);
// Handles an event of the reply parser: reasoning, or a part of a call. Ignores text events.
void answer_handle(struct answer_parts *a, const struct reply_event *event);

// Returns the open call whose output is deferred, or NULL.
struct answer_call *answer_deferred_call(const struct answer_parts *a);
// Both end the deferred call although its arguments are incomplete. answer_cut closes the
// arguments to a valid JSON object (a token limit ended the call); false: they are not the
// beginning of one. answer_break turns the call into text, appends this to the choice's text and
// returns its bytes.
bool answer_cut(struct answer_parts *a);
size_t answer_break(struct answer_parts *a, struct arena_text *text);

// For streams. `text` is the choice's visible text since it was last emptied.
size_t answer_pending(const struct answer_parts *a); // bytes that can be written now
// Returns the next piece to write, at most about ANSWER_PIECE_MAX bytes.
struct answer_piece answer_piece(const struct answer_parts *a, const struct arena_text *text);
// Records that the piece was written. Returns true if nothing is left: the caller may empty `text`.
bool answer_advance(struct answer_parts *a, const struct answer_piece *piece);
