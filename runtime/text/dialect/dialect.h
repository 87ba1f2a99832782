// SPDX-License-Identifier: Apache-2.0
// Tool call and reasoning dialects: how a model writes calls and reasoning into its answer.
//
// A dialect is a row of a table, selected once per model by its chat template. The row specifies
// how to read an answer (reply.h) and how to write a call, for the grammar of forced calls
// (grammar.h). Not in this module: rendering calls into prompts (done by the chat template).
#pragma once

#include "base/status.h"
#include "base/text.h"
#include "runtime/text/tokenizer.h"

#include <stdbool.h>
#include <stdint.h>

// How the arguments of a call are written.
enum dialect_arguments {
    ARGUMENTS_JSON,       // one JSON object
    ARGUMENTS_PARAMETERS, // one element per parameter: strings unquoted, other values as JSON
    ARGUMENTS_ELEMENTS,   // as PARAMETERS, but objects and arrays are nested elements
    ARGUMENTS_PYTHON,     // key=value, with Python's literals
    ARGUMENTS_BARE_KEYS,  // {key:value}, strings between quote marks of the dialect
};

// Text that replaces DIALECT_ID_PLACE in a literal of struct dialect_syntax.
enum dialect_id {
    DIALECT_ID_NONE,
    DIALECT_ID_INDEX,   // number of the call in the answer, from 0
    DIALECT_ID_ALNUM_9, // nine letters or digits, different in each call
    DIALECT_ID_LOWER_10 // ten lower-case letters or digits, different in each call
};
#define DIALECT_ID_PLACE '\1'

// The text of an answer that only consists of calls:
//
//    begin  call  { separator  call }  end
//    call = call_open  NAME  name_close  ARGUMENTS  call_close
//
// With ARGUMENTS_PARAMETERS, ARGUMENTS is empty or
//    parameter  { parameter_separator  parameter }
//    parameter = key_open  KEY  (string_open or other_open)  VALUE  value_close
// where string_open precedes a string, which is raw text that does not contain value_close, and
// other_open precedes any other value, which is JSON in its shortest form. With ARGUMENTS_ELEMENTS
// a parameter is key_open KEY string_open VALUE value_close KEY value_end; the VALUE of an object
// consists of such elements, that of an array of such elements with the key "item"; numbers and
// booleans are as in JSON; an element whose value is null is omitted. With ARGUMENTS_PYTHON,
// ARGUMENTS is KEY=VALUE joined by ", ", and VALUE a Python literal (True, False, None, '...',
// [..], {'k': ..}). With ARGUMENTS_BARE_KEYS it is {KEY:VALUE,...} with string_open before and
// value_close after each string.
//
// Only members that the form of the arguments does not use may be NULL. Special tokens whose text
// occurs in a literal are written as these tokens: see dialect_literal_next.
struct dialect_syntax {
    enum dialect_arguments arguments;
    enum dialect_id id;
    bool one_call; // true if the dialect has no way to write a second call
    // text with which a call begins in free text; "": calls have no mark, so the first character
    // decides
    const char *trigger;
    const char *begin, *call_open, *name_close, *call_close, *separator, *end;
    const char *key_open, *string_open, *other_open, *value_close, *value_end;
    const char *parameter_separator;
};

struct dialect_reasoning_syntax {
    const char *open, *close; // NULL: no reasoning
};

enum {
    DIALECT_MARKERS_MAX = 24,
    DIALECT_MARKER_BYTES = 64,
    DIALECT_SPECIALS_MAX = 64,
};

// A marker as the reader compares it: bytes, those of special tokens plus 0x100.
struct dialect_marker {
    uint16_t symbols[DIALECT_MARKER_BYTES];
    uint8_t count, role; // role: enum marker_role (row.h)
};

struct dialect_row;       // see row.h
struct dialect_reasoning; // see row.h

// The dialect of one model. A plain value that is immutable after detection and may be copied and
// shared by threads. It points to static tables and borrows the tokenizer, which must outlive it.
struct dialect {
    const struct dialect_row *row;             // never NULL
    const struct dialect_reasoning *reasoning; // never NULL
    const struct tokenizer *tokenizer;         // NULL: no marker is a special token
    // set by the owner from dialect_one_call (switch.h): the template refuses a message with more
    // calls
    bool one_call;
    uint32_t special_count, marker_count;
    int32_t specials[DIALECT_SPECIALS_MAX]; // special tokens that occur in its literals
    struct dialect_marker markers[DIALECT_MARKERS_MAX];
};

// Finds the dialect of a chat template: the first row of the table whose signs the source contains.
// A template that accepts tools but has no known sign gets "json", any other "none". Markers that
// are special tokens of the tokenizer (NULL: none) are only recognized as these tokens, not as text
// with the same spelling. Called at model load, by any thread. STATUS_UNSUPPORTED: the marks
// contain more than DIALECT_SPECIALS_MAX special tokens.
enum status dialect_detect(struct dialect *out, struct text template_source,
                           const struct tokenizer *tokenizer, struct error *err) MUST_USE;

// Selects the dialect by the names of its rows, for tests and options. Returns false if there is no
// such row, or if it cannot be used with the tokenizer.
bool dialect_named(struct dialect *out, const char *name, const char *reasoning,
                   const struct tokenizer *tokenizer);

const char *dialect_name(const struct dialect *d);           // "hermes", ...; static
const char *dialect_reasoning_name(const struct dialect *d); // "think", ..., "none"; static
bool dialect_has_calls(const struct dialect *d);             // false: the dialect is "none"
// True if answers without calls also contain marks.
bool dialect_marks_text(const struct dialect *d);

// Returns NULL if the dialect has no calls. Static memory.
const struct dialect_syntax *dialect_syntax(const struct dialect *d);
struct dialect_reasoning_syntax dialect_reasoning_syntax(const struct dialect *d);

// Returns true if a marker or a literal of any row contains this piece.
bool dialect_table_has(struct text piece);

// Names of all rows, for lists; NULL after the last.
const char *dialect_row_name(uint32_t index);
const char *dialect_reasoning_row_name(uint32_t index);

// Returns the next piece of a literal of the syntax or of reasoning: a special token (its id in
// *token) or text (*token is -1; any tokens may spell it). *at is the byte offset, initially 0, and
// is advanced. An empty piece is the end.
struct text dialect_literal_next(const struct dialect *d, const char *literal, size_t *at,
                                 int32_t *token);

// Writes the bytes of a literal as grammars see them (runtime/grammar/vocabulary.h), in which
// VOCABULARY_SPECIAL_BYTE precedes the text of special tokens. Returns their number; if it is
// greater than out_max, out contains the first out_max bytes.
size_t dialect_literal_bytes(const struct dialect *d, const char *literal, char *out,
                             size_t out_max);

// The part of an answer in which it begins.
enum dialect_start {
    DIALECT_START_TEXT,
    DIALECT_START_REASONING, // the prompt ended with the mark that opens reasoning
    DIALECT_START_CALL,      // the prompt ended with the mark that begins a call
    DIALECT_START_MIDST,     // text precedes it: a message is continued
};

// Determines the start from the end of the rendered prompt; its last 200 bytes are enough. For a
// continued message, feed its text to the reply first and ignore the events.
enum dialect_start dialect_start_of(const struct dialect *d, struct text prompt_end);
// Like dialect_start_of, for the tokens of a prompt; special tokens must be decoded as well.
enum status dialect_start_find(const struct dialect *d, const struct tokenizer *tokenizer,
                               const struct decode_args *prompt, enum dialect_start *out,
                               struct error *err) MUST_USE;
