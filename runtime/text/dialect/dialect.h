// Tool-call and reasoning dialects: how a model writes calls and thoughts into its answer.
//
// A dialect is a row of one table, found once for a model from its chat template. The row says how
// to read an answer (reply.h) and, for whoever builds the grammar of a forced call, how one is
// written. What is not here: rendering calls into prompts (the chat template does), schemas.
#pragma once

#include "base/status.h"
#include "base/text.h"
#include "runtime/text/tokenizer.h"

#include <stdbool.h>
#include <stdint.h>

// How a call's arguments stand in the text.
enum dialect_arguments {
    ARGUMENTS_JSON,       // one JSON object
    ARGUMENTS_PARAMETERS, // one element a parameter: strings as they are, all else as JSON
    ARGUMENTS_ELEMENTS,   // likewise, objects and arrays as elements inside of elements
    ARGUMENTS_PYTHON,     // key=value, with Python's literals
    ARGUMENTS_BARE_KEYS,  // {key:value}, strings between quote marks of the dialect's own
};

// What DIALECT_ID_PLACE stands for in a literal of struct dialect_syntax.
enum dialect_id {
    DIALECT_ID_NONE,
    DIALECT_ID_INDEX,   // number of the call in the answer, from 0
    DIALECT_ID_ALNUM_9, // nine letters or digits, different in each call
    DIALECT_ID_LOWER_10 // ten lower-case letters or digits, different in each call
};
#define DIALECT_ID_PLACE '\1'

// The text of an answer that is calls and nothing else:
//
//   begin  call  { separator  call }  end
//   call = call_open  NAME  name_close  ARGUMENTS  call_close
//
// With ARGUMENTS_PARAMETERS, ARGUMENTS is nothing or
//   parameter  { parameter_separator  parameter }
//   parameter = key_open  KEY  (string_open or other_open)  VALUE  value_close
// where string_open stands before a string, which is raw text without value_close in it, and
// other_open before any other value, which is JSON in its shortest form. With ARGUMENTS_ELEMENTS
// a parameter is key_open KEY string_open VALUE value_close KEY value_end; VALUE of an object is
// such elements, of an array such elements with the key "item"; numbers and booleans as in JSON;
// null leaves its element out. With ARGUMENTS_PYTHON, ARGUMENTS is KEY=VALUE joined by ", ",
// VALUE a Python literal (True, False, None, '...', [..], {'k': ..}). With ARGUMENTS_BARE_KEYS it
// is {KEY:VALUE,...} with string_open before and value_close after each string.
//
// No member is NULL but those that the form of arguments does not name. Where a literal holds
// text of special tokens it is written with those tokens: see dialect_literal_next.
struct dialect_syntax {
    enum dialect_arguments arguments;
    enum dialect_id id;
    bool one_call;       // the dialect has no way to write a second call
    const char *trigger; // in free text: from here on a call is meant; "": calls are bare, so the
                         // first character of the answer decides
    const char *begin, *call_open, *name_close, *call_close, *separator, *end;
    const char *key_open, *string_open, *other_open, *value_close, *value_end;
    const char *parameter_separator;
};

struct dialect_reasoning_syntax {
    const char *open, *close; // NULL: the dialect has no reasoning
};

enum {
    DIALECT_MARKERS_MAX = 24,
    DIALECT_MARKER_BYTES = 64,
    DIALECT_SPECIALS_MAX = 64,
};

// A marker as a reply is compared with it: bytes, those of special tokens plus 0x100.
struct dialect_marker {
    uint16_t symbols[DIALECT_MARKER_BYTES];
    uint8_t count, role; // role: the reader's own
};

struct dialect_row;       // of the table
struct dialect_reasoning; // of the table

// The dialect of one model. A plain value, immutable once detected, may be copied and shared by
// threads; it points into static tables and borrows the tokenizer, which must outlive it.
struct dialect {
    const struct dialect_row *row;             // never NULL
    const struct dialect_reasoning *reasoning; // never NULL
    const struct tokenizer *tokenizer;         // NULL: no marker is a special token
    bool one_call; // its template refuses a message with more calls; switch.h: dialect_one_call
    uint32_t special_count, marker_count;
    int32_t specials[DIALECT_SPECIALS_MAX]; // special tokens that stand in its literals
    struct dialect_marker markers[DIALECT_MARKERS_MAX];
};

// Finds the dialect of a chat template: the first row of the table whose signs the source has. A
// template that takes tools and has no sign that is known gets "json", one that takes none "none".
// Markers that the tokenizer (NULL: none) has as special tokens are recognised as these tokens
// only, never as text that spells the same. At model load, any thread. STATUS_UNSUPPORTED: more
// than DIALECT_SPECIALS_MAX special tokens stand in its marks.
enum status dialect_detect(struct dialect *out, struct text template_source,
                           const struct tokenizer *tokenizer, struct error *err) MUST_USE;

// The row of that name, for tests and options. False: there is none, or it cannot be had with the
// tokenizer.
bool dialect_named(struct dialect *out, const char *name, const char *reasoning,
                   const struct tokenizer *tokenizer);

const char *dialect_name(const struct dialect *d);           // "hermes", ...; static
const char *dialect_reasoning_name(const struct dialect *d); // "think", ..., "none"; static
bool dialect_has_calls(const struct dialect *d);             // false: "none"
bool dialect_marks_text(const struct dialect *d);            // plain answers have marks, too

// NULL where the dialect has no calls. Static.
const struct dialect_syntax *dialect_syntax(const struct dialect *d);
struct dialect_reasoning_syntax dialect_reasoning_syntax(const struct dialect *d);

// All rows, for lists: NULL after the last.
const char *dialect_row_name(uint32_t index);
const char *dialect_reasoning_row_name(uint32_t index);

// One piece of a literal of its syntax or of its reasoning: a special token (its id is in *token)
// or text (-1; spelled by any tokens). *at counts bytes, from 0; an empty piece is the end.
struct text dialect_literal_next(const struct dialect *d, const char *literal, size_t *at,
                                 int32_t *token);

// The bytes of a literal as grammars know them (runtime/grammar/vocabulary.h): special tokens have
// VOCABULARY_SPECIAL_BYTE before their text. The result is their count; more than out_max: `out`
// holds the first.
size_t dialect_literal_bytes(const struct dialect *d, const char *literal, char *out,
                             size_t out_max);

// What the answer begins inside of.
enum dialect_start {
    DIALECT_START_TEXT,
    DIALECT_START_REASONING, // the prompt ended with the mark that opens reasoning
    DIALECT_START_CALL,      // the prompt ended with the mark that begins a recipient or a call
    DIALECT_START_MIDST,     // text has come before it: a message is continued
};

// Read from the end of the rendered prompt (its last 200 bytes do). Of a continued message give
// the text to the reply first and drop its events.
enum dialect_start dialect_start_of(const struct dialect *d, struct text prompt_end);
// The same of a prompt's tokens; special ones are to be decoded, too.
enum status dialect_start_find(const struct dialect *d, const struct tokenizer *tokenizer,
                               const struct decode_args *prompt, enum dialect_start *out,
                               struct error *err) MUST_USE;
