// The parts of a choice's answer that are no text, reasoning and tool calls, and the order of all.
// Filled by choice.c from the reader of replies, written by chat.c,
// responses_write.c and messages_write.c. Memory comes from the exchange's arena, the reader's own
// from the heap until answer_close. Owner: the choice, h2o thread; that of a message that is
// continued (prompt.c): the generation.
//
// A stream writes its runs piece by piece, in their order: what is large, as a call that is told
// when it is whole, does not fill the memory of a client that reads slowly.
#pragma once

#include "base/arena.h"
#include "base/json.h"
#include "runtime/text/dialect/reply.h"

enum {
    ANSWER_PIECE_MAX = 2048,     // bytes, and those that end its last character
    ANSWER_BEGUN_MAX = 64 * 1024 // of a call's arguments in the message that is continued
};

struct answer_call {
    struct text id, name;        // id: made here, or the dialect's own where it needs that
    struct arena_text arguments; // of a stream: those not yet written
    size_t written;              // of them, by pieces
    bool begun;                  // of a stream: id and name were written
    bool whole;                  // it is told when it has ended; else as it comes
    bool closed;
    bool complete; // its arguments are one whole JSON object
};

enum answer_kind { RUN_TEXT, RUN_REASONING, RUN_CALL };

// What came after what. Bytes of text are those of the choice, after its stop strings.
struct answer_run {
    enum answer_kind kind;
    size_t bytes;   // of a stream: not yet written
    uint32_t call;  // RUN_CALL: its number, from 1; RUN_TEXT: that of a call that broke, or 0
    const char *at; // of text that stands elsewhere and comes first; or NULL
};

// What a stream writes next.
struct answer_piece {
    enum answer_kind kind;
    struct text text;
    uint32_t call;    // as of the run
    uint32_t entries; // log probabilities that come with it (choice.h)
};

struct answer_parts {
    struct arena *arena;
    const char *id_prefix; // of calls
    const struct dialect *dialect;
    struct reply *reply; // NULL: the answer is all text
    struct arena_text reasoning;
    struct answer_call *calls; // [call_max]
    uint32_t call_count;
    size_t call_max;
    uint32_t closed;   // calls that have ended
    uint32_t complete; // of them, with whole arguments
    uint32_t reasoning_tokens;
    uint32_t from;           // what the reader was fed before is of the message that is continued
    bool lost;               // the arena's limit was met
    bool whole_calls;        // calls are told when they have ended, but those of the tools `eager`
    const json_t *eager;     // object with their names, or NULL
    struct answer_run *runs; // [run_count]; a stream has written those before run_next
    uint32_t run_count, run_next;
    size_t run_max;
    size_t text_written, reasoning_written; // bytes, by pieces
};

// `a` has the arena and the prefix of ids. continued: the message that the answer goes on with, or
// NULL.
void answer_open(struct answer_parts *a, const struct reply_args *args,
                 const struct answer_parts *continued);
// Reads the message that is continued: its text is dropped, a call that it leaves open kept.
void answer_continue(struct answer_parts *a, struct text piece);
struct text answer_begun(const struct answer_parts *a); // arguments of a call that is open
void answer_close(struct answer_parts *a); // more than once is allowed; what was read stays

void answer_text(struct answer_parts *a, size_t bytes); // so much text came here
// Of a stream: text before all others, which is not copied.
void answer_echo(struct answer_parts *a, struct text echo);
// Reasoning, or a part of a call.
void answer_take(struct answer_parts *a, const struct reply_event *event);

// The call that is open and is told as a whole, or NULL.
struct answer_call *answer_whole_call(const struct answer_parts *a);
// That call ends before its arguments do. Cut, by a limit: what there is of them becomes an object;
// false: it cannot. Broken: it is text, which is added to the choice's; returns its bytes.
bool answer_cut(struct answer_parts *a);
size_t answer_break(struct answer_parts *a, struct arena_text *text);

// Of a stream; text: all that is visible of the choice and not dropped by answer_sent.
size_t answer_pending(const struct answer_parts *a); // bytes that wait to be written
struct answer_piece answer_piece(const struct answer_parts *a, const struct arena_text *text);
// The piece was written. True: with it all that there was, and `text` may be emptied.
bool answer_sent(struct answer_parts *a, const struct answer_piece *piece);
