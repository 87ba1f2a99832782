// How JSON's values are written: as JSON itself, or as the literals of a dialect of tool calls that
// are read back as JSON (runtime/text/dialect). A writer is a plain value whose members are
// expressions of one builder; the schema compiler (schema.h) writes values by it.
#pragma once

#include "base/json.h"
#include "runtime/text/grammar/regex.h"

// How the characters of a string stand in the text.
enum writer_chars {
    WRITE_JSON,   // " \ and controls escaped, in JSON's way
    WRITE_MARKUP, // likewise, and < as \u003c: no tag can stand in the text
    WRITE_PYTHON, // ' \ and controls escaped, in Python's way
    WRITE_RAW,    // as they are
    WRITE_KINDS,
};

// One character of the ranges; the first is for regex_args.chars.
regex_chars writer_chars_of(enum writer_chars kind);
uint32_t writer_chars(struct grammar_builder *b, enum writer_chars kind,
                      const struct grammar_range *ranges, uint32_t count);
enum { WRITER_ESCAPED = 16, WRITER_KEY_WITHOUT = 39 };
// The ranges of characters that are escaped: their count, at most WRITER_ESCAPED.
uint32_t writer_escaped(enum writer_chars kind, struct grammar_range *out);
bool writer_escapes_char(enum writer_chars kind, uint32_t c);
// This text (UTF-8) inside of a string: as bytes, appended, and as an expression.
void writer_put(enum writer_chars kind, struct json_buffer *out, struct text value);
uint32_t writer_text(struct grammar_builder *b, enum writer_chars kind, struct text value);
// No character of it is escaped.
bool writer_is_plain(enum writer_chars kind, struct text value);

// Keys that can be written, as they are: 1 to `most` characters, none of `without` and no NUL.
struct writer_key {
    uint32_t most; // 0: every key can be written
    char without[WRITER_KEY_WITHOUT + 1];
};
bool writer_key_fits(const struct writer_key *k, struct text key);
// The ranges of characters that no such key has, in order: their count, at most WRITER_KEY_WITHOUT
// + 1.
uint32_t writer_key_without(const struct writer_key *k, struct grammar_range *out);

struct writer {
    enum writer_chars strings, keys;
    uint32_t string_open, string_close, key_open, key_close;
    uint32_t colon, comma, object_open, object_close, array_open, array_close;
    const char *null_word, *true_word, *false_word;
    uint32_t never;        // strings that cannot be written; GRAMMAR_NOTHING: none
    struct writer_key key; // with keys WRITE_RAW, where some cannot be written
};

// JSON with this expression where blanks are allowed.
struct writer writer_json(struct grammar_builder *b, uint32_t blank);

// What any text is made of. Rules of the builder, made once: the members may be used anywhere.
struct json_rules {
    uint32_t value, object, array, string, number;
};
struct json_rules writer_rules(struct grammar_builder *b, const struct writer *w);
