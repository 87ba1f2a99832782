// SPDX-License-Identifier: Apache-2.0
// Splits an answer into text, reasoning and tool calls while it is generated. Runs between the
// detokenizer and the search for stop strings, for streamed and complete answers alike.
//
// The events (if neighbours of one kind are joined) do not depend on how the answer was cut into
// pieces. Held back are only: the possible beginning of a marker and blanks before it, the head of
// a call up to its name and the first byte of its arguments, and a value whose type is not known
// yet; at most REPLY_HELD_MAX bytes. Beyond that, a head becomes text, and a value becomes JSON if
// it is JSON so far, else a string.
//
//    TEXT, REASONING   bytes; blanks next to reasoning and calls are left out
//    CALL              the name, and the id if the dialect writes one before the arguments
//    ARGUMENTS         bytes of the JSON text of the arguments of the last CALL
//    CALL_END          complete: one JSON object that accounts for every byte between the marks of
//                      the call; else malformed, or cut by the end of the answer
//    END               once, after reply_finish
//
// A missing tag is repaired if the rest says where it belongs. An end tag counts if a tag that may
// be next follows, or if it is the call's and the answer ends; else it is text of the value, and
// the call is not complete, unless the value is JSON. Until then the tags are held.
//
// A call inside of reasoning that never closes is a call, see docs/TOOLS.md; it is held until the
// end.
//
// A head that does not become a call (no name, a name that no tool has, no arguments) is text. A
// call that has begun remains a call. If the answer ends inside of a mark, the beginning of the
// mark is left out in arguments and in reasoning, and kept in text. Unless keep_special is set, the
// text of special tokens is left out if they are not markers, or if they belong to a head that is
// text.
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
    uint32_t call;    // number of the call, from 0, for CALL, ARGUMENTS, CALL_END
    uint32_t from;    // TEXT, REASONING: offset of its bytes in the fed answer
    bool complete;    // for CALL_END, see above
    struct text text; // TEXT, REASONING, ARGUMENTS: at least one byte; CALL: the name
    struct text id;   // CALL: id written by the dialect, or empty
};

struct reply_args {
    const struct dialect *dialect; // must outlive the reply
    enum dialect_start start;
    bool calls;     // false: marks of calls are text
    bool reasoning; // false: marks of reasoning are text
    // true: text has a grammar (dialect/grammar.h): no mark counts inside of it, and a call without
    // a mark must begin exactly as the dialect writes it
    bool has_text_grammar;
    bool must; // true: the grammar only allows calls and reasoning
    // true: no grammar holds in calls, so the reader also accepts forms of calls that the dialect
    // does not write
    bool free_calls;
    bool keep_special; // true: emit the texts of special tokens that are not marks
    // array of {"function": {"name", "parameters"}}; must outlive the reply. NULL: any name is a
    // tool's, and nothing is known about types
    const json_t *tools;
};

struct reply;

// Creates a reply on the heap; the caller calls reply_destroy. Never returns NULL. A reply belongs
// to one choice and is used by one thread at a time.
struct reply *reply_create(const struct reply_args *args);
// Returns a copy of r on the heap, for which the caller calls reply_destroy. Events that r has
// returned are not copied.
struct reply *reply_copy(const struct reply *r);
// r may be NULL.
void reply_destroy(struct reply *r);

// Reads the next piece of the answer: text, or the complete text of one special token. Returns
// events[*count]; the array and its texts belong to the reply and are valid until its next call.
const struct reply_event *reply_feed(struct reply *r, struct text piece, bool is_special,
                                     uint32_t *count);

// Like reply_feed, for the special token that ends the answer: it may be a mark, but its text is
// not emitted.
const struct reply_event *reply_feed_end(struct reply *r, struct text token, uint32_t *count);

// Ends the answer: emits the held text. Nothing may be fed afterwards.
const struct reply_event *reply_finish(struct reply *r, uint32_t *count);

// Sets *place to the value of `start` with which a grammar for the rest of the answer is made.
// Returns false inside of a call or of a possible marker, where no grammar can begin.
bool reply_place(const struct reply *r, enum dialect_start *place);

uint32_t reply_calls(const struct reply *r); // number of complete calls so far
// True if the next text is reasoning, as far as known; to count its tokens.
bool reply_in_reasoning(const struct reply *r);
// Number of bytes fed that are neither emitted nor dropped.
size_t reply_held(const struct reply *r);
// Offset in the fed bytes before which no more text is emitted.
uint32_t reply_settled(const struct reply *r);
