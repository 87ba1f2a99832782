// SPDX-License-Identifier: Apache-2.0
// How JSON values are written: as JSON, or as the literals of a tool call dialect, which are read
// back as JSON (runtime/text/dialect). A writer is a plain value whose members are expressions of
// one builder; the schema compiler (schema.h) writes values with it.
#pragma once

#include "base/json.h"
#include "runtime/text/grammar/regex.h"

// How the characters of a string are escaped in the text.
enum writer_chars {
    WRITE_JSON,   // " \ and controls, with JSON's escapes
    WRITE_MARKUP, // as WRITE_JSON, and < as \u003c, so that the text contains no tags
    WRITE_PYTHON, // ' \ and controls, with Python's escapes
    WRITE_RAW,    // not escaped
    WRITE_KINDS,
};

// One character of the ranges in this way of escaping; writer_chars_of returns the function for
// regex_args.chars.
regex_chars writer_chars_of(enum writer_chars kind);
uint32_t writer_chars(struct grammar_builder *b, enum writer_chars kind,
                      const struct grammar_range *ranges, uint32_t count);
enum { WRITER_ESCAPED = 16, WRITER_KEY_WITHOUT = 39 };
// Writes the ranges of characters that are escaped to out. Returns their number, at most
// WRITER_ESCAPED.
uint32_t writer_escaped(enum writer_chars kind, struct grammar_range *out);
// Returns true if the code point is escaped.
bool writer_escapes_char(enum writer_chars kind, uint32_t c);
// The text (UTF-8) inside of a string: appended as bytes, or as an expression.
void writer_put(enum writer_chars kind, struct json_buffer *out, struct text value);
uint32_t writer_text(struct grammar_builder *b, enum writer_chars kind, struct text value);
// Returns true if no character of the value is escaped.
bool writer_is_plain(enum writer_chars kind, struct text value);

// Keys that can be written without escapes: 1 to `most` characters, none of them in `without` or
// NUL.
struct writer_key {
    uint32_t most; // 0: every key can be written
    char without[WRITER_KEY_WITHOUT + 1];
};
// Returns true if the key can be written. k->most must not be 0.
bool writer_key_fits(const struct writer_key *k, struct text key);
// Writes the ranges of characters that such keys must not contain, in order. Returns their number,
// at most WRITER_KEY_WITHOUT + 1.
uint32_t writer_key_without(const struct writer_key *k, struct grammar_range *out);

// A way to write values; the uint32_t members are expressions.
struct writer {
    enum writer_chars strings, keys;
    uint32_t string_open, string_close, key_open, key_close;
    uint32_t colon, comma, object_open, object_close, array_open, array_close;
    const char *null_word, *true_word, *false_word;
    uint32_t never;        // strings that cannot be written; GRAMMAR_NOTHING: none
    struct writer_key key; // if `keys` is WRITE_RAW: the keys that can be written
};

// Returns a writer of JSON with `blank` where blanks are allowed.
struct writer writer_json(struct grammar_builder *b, uint32_t blank);

// Rules for values without restrictions. Created once per builder and writer; can be used anywhere
// in it.
struct json_rules {
    uint32_t value, object, array, string, number;
};
struct json_rules writer_rules(struct grammar_builder *b, const struct writer *w);
