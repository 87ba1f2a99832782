// SPDX-License-Identifier: Apache-2.0
// Private header of the reply reader: a state machine that reads symbols (a byte, plus READ_SPECIAL
// if it belongs to a special token). reply.c handles the text around calls, head.c the names,
// object.c, parameters.c, elements.c and literal.c the forms of arguments, scan.c JSON, schema.h
// types.
// Until a call is certain ("committed"), all symbols since its marker are held, so that they can be
// emitted as text; `from` is the first of them that is not parsed yet. Afterwards only the possible
// beginning of a marker is held.
#pragma once

#include "base/json.h"
#include "runtime/text/dialect/parts.h"
#include "runtime/text/dialect/reply.h"
#include "runtime/text/dialect/row.h"
#include "runtime/text/dialect/schema.h"

enum {
    READ_SPECIAL = 0x100,
    READ_GAP = 2,         // maximum line ends dropped between reasoning and `has_text_grammar` text
    READ_BLANKS_MAX = 64, // maximum number of blanks held before a possible marker
    READ_DEPTH_MAX = 120, // of nested elements and literals; equals JSON_SCAN_DEPTH_MAX
    ESCAPE_BYTES = 6,     // length of \uXXXX
    READ_KEY_MAX = 1024,  // maximum bytes of a key outside of JSON
    READ_GIVEN_MAX = 64,  // maximum number of keys remembered per call
};

enum read_mode {
    READ_TEXT,
    READ_REASONING,
    READ_HEADER,     // header of a part that no marker matches; header.c
    READ_SECTION,    // inside a section of calls, before the first one
    READ_BETWEEN,    // after a call: another one may follow
    READ_NAME,       // head.c
    READ_BODY,       // after the name, before the JSON of the arguments
    READ_JSON,       // the arguments as JSON
    READ_OBJECT,     // object.c
    READ_PARAMETERS, // parameters.c: before a parameter or the end
    READ_KEY,
    READ_VALUE_OPEN,
    READ_VALUE,
    READ_VALUE_END, // after a tag that may end the value
    READ_ELEMENTS,  // elements.c
    READ_LITERAL,   // literal.c
    READ_BROKEN,    // the arguments are malformed: copied unchanged up to a marker
    READ_PASSED,    // passed.c: in a list of calls, inside or after one whose name no tool has
};

struct reply {
    struct reply_args args;
    const struct dialect_row *row;
    enum dialect_form form; // form of the current call
    enum read_mode mode;
    uint16_t *held;    // [held_count] symbols that are not emitted yet
    uint32_t *held_at; // [held_count] their offsets in the answer
    size_t held_count, held_max, from;
    size_t header;      // number of held symbols that are the mark of the header
    uint32_t fed, at;   // number of symbols so far; offset of the current one
    bool first_of[256]; // true if a marker begins with the byte
    bool committed;     // true after read_commit: the current call is certain
    // A complete call accounts for every byte between its marks (read_call_end).
    bool unread;             // true if a byte of the current call was dropped
    bool repaired, repeated; // true if a tag was missing; true if a key was given twice
    bool ending;             // true after reply_feed_end
    bool wrapped; // true if the value may contain all arguments; its key is not emitted yet
    uint32_t given[READ_GIVEN_MAX], given_count; // hashes of the keys of the call
    bool head;               // true at the beginning of a part: reasoning and bare calls may follow
    bool trim;               // true if blanks before the next text are dropped
    uint8_t gap;             // number of line ends dropped after reasoning
    bool any_text;           // true if text was emitted
    bool listed;             // FORM_PYTHON: true inside of [ ]
    uint32_t call, complete; // number of the next or current call; number of complete calls

    char name[REPLY_NAME_MAX + 1], id[REPLY_NAME_MAX + 1];
    uint8_t name_bytes, id_bytes, words;
    bool in_id, name_over;
    const json_t *schema; // schema of the arguments, or NULL

    struct read_object object;
    bool encoded;   // true if the arguments are a JSON string that contains JSON
    bool json_over; // true after the end of that JSON
    struct json_scan scan;
    struct json_unescape unescape;
    struct read_value value;
    char key[READ_KEY_MAX];
    uint16_t key_bytes;
    struct read_level levels[READ_DEPTH_MAX];
    uint8_t depth;
    uint8_t literal;    // state of literal.c
    uint16_t quote;     // quote mark of the open string
    bool string_key;    // true if the string is a key
    bool fresh, triple; // the string is empty so far; it is between three quote marks
    bool stars;         // the arguments are a dict after **
    bool bare;          // a comma follows a string without quote marks
    char word[32];
    uint8_t word_bytes;
    char escape[2 * ESCAPE_BYTES]; // beginning of an escape, not emitted yet
    uint8_t escape_bytes;

    struct read_passed passed;

    struct reply *inner; // pending.c: reads the held call inside of reasoning; NULL: there is none
    bool inner_calls;    // true if it has found a call

    struct json_buffer out;
    struct reply_event *events;
    size_t *starts; // [event_count] offset in out of each event's text
    uint32_t event_count, event_max;
};

static inline bool read_blank(unsigned symbol)
{
    return symbol == ' ' || symbol == '\n' || symbol == '\t' || symbol == '\r';
}

// reply.c
void read_symbol(struct reply *r, unsigned symbol);
// Holds a symbol. Returns false if too many are held; they were then emitted as text.
bool read_hold(struct reply *r, unsigned symbol);
enum { TRY_PART = -1, TRY_NONE = -2 };
// Compares the held symbols from `from` on with the markers of these roles. Returns the number of
// the equal marker; TRY_PART: they are the beginning of one; TRY_NONE: neither.
int read_try(const struct reply *r, uint32_t roles);
enum marker_role read_role(const struct reply *r, int marker);
bool read_has_role(const struct reply *r, enum marker_role role); // of any marker of the dialect
void read_head_failed(struct reply *r); // emits held[0..from) as text, parses the rest again
void read_between(struct reply *r);     // READ_BETWEEN, nothing held
void read_put_held(struct reply *r, size_t count); // emits `count` held symbols, does not drop them
void read_again(struct reply *r, size_t from);     // parses held[from..] again, drops the rest
void read_put(struct reply *r, enum reply_event_kind kind, const char *at, size_t bytes);
void read_argument(struct reply *r, char byte);
void read_argument_escaped(struct reply *r, char byte); // for a byte of a JSON string
void read_arguments(struct reply *r, const char *literal);
// Begins the call if its name is that of a tool. False: it is not, and read_head_failed was called.
bool read_commit(struct reply *r);
void read_call_end(struct reply *r, bool complete); // then READ_BETWEEN
// The arguments are malformed: this symbol, the held ones and the following are copied unchanged.
void read_broken(struct reply *r, unsigned symbol);
void read_broken_symbol(struct reply *r, unsigned symbol);
void read_marker_in_call(struct reply *r, enum marker_role role);
void read_call_open(struct reply *r); // called after the marker
void read_skip_blanks(struct reply *r);
void read_drop(struct reply *r, size_t count); // drops the first `count` held symbols
void read_text_mode(struct reply *r);          // READ_TEXT at the beginning of a part, nothing held

void read_reasoning_closed(struct reply *r); // text follows, nothing held

// pending.c
bool read_pending_allowed(const struct reply *r);
void read_pending_begin(struct reply *r); // called after the marker of a call
void read_pending(struct reply *r, unsigned symbol);
void read_pending_finish(struct reply *r);

// passed.c
// Called if no tool has the name of the call. Returns true, in READ_PASSED, if other calls of a
// list may follow; the held symbols were then emitted as text.
bool read_passed_begin(struct reply *r);
void read_passed(struct reply *r, unsigned symbol);

// header.c
void read_header(struct reply *r, unsigned symbol);
bool read_header_begin(struct reply *r); // true, in READ_HEADER, if a header is held

// head.c
void read_name_begin(struct reply *r);
void read_name(struct reply *r, unsigned symbol);
void read_name_symbols(struct reply *r);
void read_body(struct reply *r, unsigned symbol);
void read_json_begin(struct reply *r, char first);
void read_json(struct reply *r, unsigned symbol);

// object.c
void read_object_begin(struct reply *r);
void read_object(struct reply *r, unsigned symbol);
void read_object_held(struct reply *r); // parses the newest held symbol

// joined.c, parameters.c, elements.c
void read_name_joined(struct reply *r, enum marker_role role); // called after the end tag `role`
void read_parameters_begin(struct reply *r);
void read_parameters(struct reply *r, unsigned symbol);
void read_parameters_marker(struct reply *r, enum marker_role role);
void read_key(struct reply *r, unsigned symbol);
void read_key_over(struct reply *r, enum marker_role role); // the value of r->key follows
void read_key_too_long(struct reply *r, unsigned symbol);   // breaks the arguments
void read_value_open(struct reply *r, unsigned symbol);
void read_value(struct reply *r, unsigned symbol);
void read_value_begin(struct reply *r, unsigned types, bool forced);
void read_value_put(struct reply *r, unsigned symbol);
void read_value_close(struct reply *r);
void read_value_end(struct reply *r, unsigned symbol);
void read_value_end_cut(struct reply *r); // ends the call if its end tag was the last
void read_value_cut(struct reply *r);     // called if the answer ends inside the value
void read_elements_begin(struct reply *r);
void read_elements(struct reply *r, unsigned symbol);
void read_elements_cut(struct reply *r);

// literal.c
void read_literal_begin(struct reply *r, char open);
void read_literal(struct reply *r, unsigned symbol);
void read_literal_cut(struct reply *r);
bool read_literal_value(struct reply *r, struct text text, bool whole);
