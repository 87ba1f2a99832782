// The reader of replies inside of the room: one state machine that is fed symbols (a byte, plus
// READ_SPECIAL where it is of a special token). reply.c has the text around calls, head.c the
// names, object.c, parameters.c and literal.c the forms of arguments, scan.c JSON, schema.h types.
// Before a call has begun ("committed") all symbols since its marker are held, so that they can
// come out as text; `from` is the first of them that has not been understood yet. Afterwards only
// the beginning of a marker is held.
#pragma once

#include "base/json.h"
#include "runtime/text/dialect/reply.h"
#include "runtime/text/dialect/row.h"
#include "runtime/text/dialect/scan.h"
#include "runtime/text/dialect/schema.h"

enum {
    READ_SPECIAL = 0x100,
    READ_GAP = 2,         // line ends between reasoning and a text that has a form
    READ_BLANKS_MAX = 64, // blanks held before what may be a marker
    READ_DEPTH_MAX = 120, // of elements and literals, as JSON_SCAN_DEPTH_MAX
    ESCAPE_BYTES = 6,     // of \uXXXX
    READ_KEY_MAX = 1024,  // bytes of a key that stands by itself
};

enum read_mode {
    READ_TEXT,
    READ_REASONING,
    READ_HEADER,     // of a part of the answer, which no marker is
    READ_SECTION,    // the section is open: a call comes next
    READ_BETWEEN,    // a call is over: another may follow
    READ_NAME,       // head.c
    READ_BODY,       // the name is over, the JSON of the arguments comes next
    READ_JSON,       // the arguments as JSON
    READ_OBJECT,     // object.c
    READ_PARAMETERS, // parameters.c: a parameter or the end comes next
    READ_KEY,
    READ_VALUE_OPEN,
    READ_VALUE,
    READ_ELEMENTS, // elements.c
    READ_LITERAL,  // literal.c
    READ_BROKEN,   // the arguments are no such: up to a marker all is taken as it is
};

enum object_key { KEY_OTHER, KEY_NAME, KEY_ID, KEY_ARGUMENTS, KEY_FUNCTION };

// A call written as an object.
struct read_object {
    uint8_t state, depth, kind; // kind: enum object_key
    bool active;                // the call is such
    bool list;                  // [ came before it
    bool bare;                  // no marker before it: its first key decides
    bool tail;                  // its arguments are out: the rest is skipped
    bool has_name, has_arguments;
    char key[24];
    uint8_t key_bytes;
    size_t arguments_from, arguments_to; // in held
    struct json_scan scan;
    struct json_unescape unescape;
};

// A value whose type is being found out.
struct read_value {
    unsigned types;  // enum schema_type; 0: not known
    bool decided;    // it is a string and comes out as it arrives
    bool forced;     // the dialect says that it is none
    bool raw, begun; // ROLE_RAW_CLOSE ends it; a symbol of it was read
    bool over, bad;  // it has been one JSON value; it is none
    bool streams;    // too long to be held: it is JSON and comes out as it arrives
    struct json_scan scan;
    struct json_buffer held; // undecided
    size_t first, end;       // of held, without blanks around it
};

// An element of FORM_ELEMENTS or a container of a literal.
struct read_level {
    char kind;            // '{', '[', '(' or 0: not known yet
    bool filled;          // it has a member
    const json_t *schema; // of its value, or NULL
};

struct reply {
    struct reply_args args;
    const struct dialect_row *row;
    enum dialect_form form; // of this call
    enum read_mode mode;
    uint16_t *held;
    uint32_t *held_at; // [held_count] where in the answer they stand
    size_t held_count, held_max, from;
    size_t header;      // of those held: symbols of the mark that began one
    uint32_t fed, at;   // symbols so far; the place of the one being read
    bool first_of[256]; // some marker begins with it
    bool committed;
    bool head;               // a part of the answer begins: reasoning and bare calls may
    bool trim;               // blanks before the next text are left out
    uint8_t gap;             // line ends that were left out after reasoning
    bool any_text;           // text has come out
    bool listed;             // FORM_PYTHON: inside of [ ]
    uint32_t call, complete; // number of the next call, or of this one; how many are

    char name[REPLY_NAME_MAX + 1], id[REPLY_NAME_MAX + 1];
    uint8_t name_bytes, id_bytes, words;
    bool in_id, name_over;
    const json_t *schema; // of the arguments

    struct read_object object;
    bool encoded;   // the arguments are a JSON string that holds JSON
    bool json_over; // and that JSON is over
    struct json_scan scan;
    struct json_unescape unescape;
    struct read_value value;
    char key[READ_KEY_MAX];
    uint16_t key_bytes;
    struct read_level levels[READ_DEPTH_MAX];
    uint8_t depth;
    uint8_t literal; // literal.c: state
    uint16_t quote;  // of the string that is open
    bool string_key; // and it is a key
    char word[32];
    uint8_t word_bytes;
    char escape[2 * ESCAPE_BYTES]; // of the arguments, not yet out
    uint8_t escape_bytes;

    struct json_buffer out;
    struct reply_event *events;
    size_t *starts; // [event_count] of an event's text in out
    uint32_t event_count, event_max;
};

static inline bool read_blank(unsigned symbol)
{
    return symbol == ' ' || symbol == '\n' || symbol == '\t' || symbol == '\r';
}

// reply.c
void read_symbol(struct reply *r, unsigned symbol);
// Holds a symbol. False: too many are held, and they were given back as text.
bool read_hold(struct reply *r, unsigned symbol);
enum { TRY_PART = -1, TRY_NONE = -2 };
// What the held symbols from `from` on are: the number of a marker of those roles, a beginning of
// one, or neither.
int read_try(const struct reply *r, uint32_t roles);
enum marker_role read_role(const struct reply *r, int marker);
void read_head_failed(struct reply *r); // what is held is text, from `from` on read again
void read_between(struct reply *r);     // nothing is held: after a call
void read_put_held(struct reply *r, size_t count); // the first so many, as text or reasoning
void read_again(struct reply *r, size_t from); // the held symbols from there on, the rest is gone
void read_put(struct reply *r, enum reply_event_kind kind, const char *at, size_t bytes);
void read_argument(struct reply *r, char byte);
void read_argument_escaped(struct reply *r, char byte); // inside of a JSON string
void read_arguments(struct reply *r, const char *literal);
// The call is one: the name is a tool's. False: the head has failed already.
bool read_commit(struct reply *r);
void read_call_end(struct reply *r, bool complete); // then READ_BETWEEN
// The arguments do not go on so: this symbol, what is held and what follows is taken as it is.
void read_broken(struct reply *r, unsigned symbol);
void read_broken_symbol(struct reply *r, unsigned symbol);
void read_marker_in_call(struct reply *r, enum marker_role role);
void read_call_open(struct reply *r); // after the marker
void read_skip_blanks(struct reply *r);
void read_drop(struct reply *r, size_t count); // the first held symbols are gone
void read_text_mode(struct reply *r);          // nothing is held: a part of the answer begins

// header.c
void read_header(struct reply *r, unsigned symbol);
bool read_header_begin(struct reply *r); // what is held is a header, and more may come

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
void read_object_held(struct reply *r); // the newest held symbol

// parameters.c, elements.c
void read_parameters_begin(struct reply *r);
void read_parameters(struct reply *r, unsigned symbol);
void read_parameters_marker(struct reply *r, enum marker_role role);
void read_key(struct reply *r, unsigned symbol);
void read_key_too_long(struct reply *r, unsigned symbol); // no argument has such a name
void read_value_open(struct reply *r, unsigned symbol);
void read_value(struct reply *r, unsigned symbol);
void read_value_begin(struct reply *r, unsigned types, bool forced);
void read_value_put(struct reply *r, unsigned symbol);
void read_value_close(struct reply *r);
void read_value_cut(struct reply *r); // the answer ends inside
void read_elements_begin(struct reply *r);
void read_elements(struct reply *r, unsigned symbol);
void read_elements_cut(struct reply *r);

// literal.c
void read_literal_begin(struct reply *r, char open);
void read_literal(struct reply *r, unsigned symbol);
void read_literal_cut(struct reply *r);
bool read_literal_value(struct reply *r, struct text text, bool whole);
