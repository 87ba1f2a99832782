// The parts of a choice's answer that are no text: reasoning and tool calls. Filled by choice.c
// from the reader of replies, written by chat.c and messages.c. Memory comes from the exchange's
// arena, the reader's own from the heap until answer_close. Owner: the choice, h2o thread; that of
// a message that is continued (prompt.c): the generation.
#pragma once

#include "base/arena.h"
#include "runtime/text/dialect/reply.h"

struct answer_call {
    struct text id, name;        // id: made here, or the dialect's own where it needs that
    struct arena_text arguments; // of a stream: those not yet written
    bool begun;                  // of a stream: id and name were written
    bool complete;               // its arguments are one whole JSON object
};

// What came after what. Bytes of text are those of the choice, after its stop strings.
struct answer_run {
    enum { RUN_TEXT, RUN_REASONING, RUN_CALL } kind;
    size_t bytes;  // of text or reasoning
    uint32_t call; // its number, from 1: its head and arguments, as much as there is
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
    struct answer_run *runs; // [run_count]; of a stream: of what is not yet written
    uint32_t run_count;
    size_t run_max;
};

// `a` has the arena and the prefix of ids. continued: the message that the answer goes on with, or
// NULL.
void answer_open(struct answer_parts *a, const struct reply_args *args,
                 const struct answer_parts *continued);
// Reads the message that is continued: its text is dropped, a call that it leaves open kept.
void answer_continue(struct answer_parts *a, struct text piece);
void answer_close(struct answer_parts *a); // more than once is allowed; what was read stays

void answer_text(struct answer_parts *a, size_t bytes); // so much text came here
// Reasoning, or a part of a call.
void answer_take(struct answer_parts *a, const struct reply_event *event);

size_t answer_pending(const struct answer_parts *a); // bytes that wait to be written
void answer_sent(struct answer_parts *a);            // they were written
