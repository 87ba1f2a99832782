// Takes an answer apart while it is generated: text, reasoning, tool calls. Stands between the
// detokenizer and the scan for stop strings, for streamed and whole answers alike.
//
// Which events come out (neighbours of one kind joined) does not depend on where the answer was
// cut into pieces. Held back is only what may be the beginning of a marker, blanks before one,
// the head of a call up to its name and its arguments' first byte, and a value whose type is not
// known yet: at most REPLY_HELD_MAX bytes, beyond which a head is text and a value JSON, if it has
// been such, or a string.
//
//   TEXT, REASONING   bytes; blanks next to reasoning and to calls are left out
//   CALL              a name, and the id where the dialect writes one before the arguments
//   ARGUMENTS         bytes of the JSON text of the arguments of the last CALL
//   CALL_END          complete: the arguments are one whole JSON object; else they are what there
//                     was: broken, or cut by the end of the answer
//   END               after finish, once
//
// A head that never becomes a call (no name, a name that no tool has, no arguments) is text. A
// call that has begun stays one. Where the answer ends inside of a mark, this beginning of it is
// left out in arguments and in reasoning; in text it is text. Bytes of special tokens, unless they
// are asked for, are left out where they are no marker and where a head is text.
#pragma once

#include "runtime/text/dialect/dialect.h"

#include <jansson.h>

enum { REPLY_HELD_MAX = 64 * 1024, REPLY_NAME_MAX = 128 };

enum reply_event_kind {
    REPLY_TEXT,
    REPLY_REASONING,
    REPLY_CALL,
    REPLY_ARGUMENTS,
    REPLY_CALL_END,
    REPLY_END,
};

struct reply_event {
    enum reply_event_kind kind;
    uint32_t call;    // number of the call, from 0; CALL, ARGUMENTS, CALL_END
    uint32_t from;    // TEXT, REASONING: its bytes are those fed from this one on
    bool complete;    // CALL_END
    struct text text; // TEXT, REASONING, ARGUMENTS: at least one byte; CALL: the name
    struct text id;   // CALL: the dialect's own id, or empty
};

struct reply_args {
    const struct dialect *dialect; // must outlive the reply
    enum dialect_start start;
    bool calls;          // false: marks of calls are text like any other
    bool reasoning;      // false: marks of reasoning are text like any other
    bool formed;         // text has a grammar of its own (dialect/grammar.h): in its midst no mark
                         // counts, and a call without a mark begins as the dialect writes it
    bool must;           // its grammar has calls and nothing else but reasoning
    bool keep_special;   // texts of special tokens that are no marks come out
    const json_t *tools; // array of {"function": {"name", "parameters"}}, or NULL: any name is a
                         // tool's and nothing is known of types; must outlive the reply
};

struct reply;

// Takes memory from the heap. One reply belongs to one choice and one thread at a time; to close
// NULL is allowed.
struct reply *reply_open(const struct reply_args *args);
struct reply *reply_copy(const struct reply *r); // another that has read the same
void reply_close(struct reply *r);

// The next piece of the answer: text, or the whole text of one special token. Returns
// events[*count], which and whose texts are the reply's and stay until its next call.
const struct reply_event *reply_feed(struct reply *r, struct text piece, bool is_special,
                                     uint32_t *count);

// The special token that ends the answer: it may be a mark, but its text never comes out.
const struct reply_event *reply_feed_end(struct reply *r, struct text token, uint32_t *count);

// The answer is over: what is held comes out. Nothing may be fed afterwards.
const struct reply_event *reply_finish(struct reply *r, uint32_t *count);

// What an answer that goes on from here begins inside of. False: a call, or what may be the
// beginning of a mark; no grammar begins there.
bool reply_place(const struct reply *r, enum dialect_start *place);

uint32_t reply_calls(const struct reply *r);    // complete calls so far
bool reply_in_reasoning(const struct reply *r); // what comes next is reasoning, as far as is
                                                // known: for counting its tokens
size_t reply_held(const struct reply *r);       // bytes fed that are neither out nor dropped
uint32_t reply_settled(const struct reply *r);  // of the bytes fed: no text comes of those before
