// SPDX-License-Identifier: Apache-2.0
// JSON reading with jansson under the rules of the wire specification, and JSON writing into a
// growing buffer. Large tokenizer files are read by runtime/text itself (tokenizer/json.h).
#pragma once

#include "base/status.h"
#include "base/arena.h"
#include "base/slice.h"
#include "base/text.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    JSON_DEPTH_MAX = 128,
    JSON_DIGITS_MAX = 4300, // digits of an integer; Python's json has the same limit
};

// Parses one JSON text in UTF-8. One leading BOM is skipped; of duplicate keys the last is used;
// more than JSON_DEPTH_MAX levels, NaN, 1e400, integers of more than JSON_DIGITS_MAX digits and
// trailing bytes are errors; lone surrogate escapes become U+FFFD; keys may contain NUL
// (json_object_iter_key_len); an integer beyond int64 becomes the nearest real, which keeps its
// digits (json_integer_digits). Returns OK, with a new reference in *out that the caller releases
// with json_decref, or INVALID with the byte offset; *out is then NULL.
enum status json_parse(json_t **out, struct text in, struct error *err) MUST_USE;

// Parses like json_parse and counts the work in the slice. STATUS_UNWANTED: the slice reported that
// the result is not needed.
enum status json_parse_in_slices(json_t **out, struct text in, struct slice *slice,
                                 struct error *err) MUST_USE;

// Parses a file of at most bytes_max bytes like json_parse; errors name the file.
enum status json_file_parse(json_t **out, const char *path, size_t bytes_max,
                            struct error *err) MUST_USE;
// Parses a file like json_file_parse, but reads it with `read` instead of file_read (base/file.h).
enum status json_read_parse(json_t **out,
                            enum status (*read)(struct text *out, struct arena *arena,
                                                const char *path, size_t bytes_max,
                                                struct error *err),
                            const char *path, size_t bytes_max, struct error *err) MUST_USE;

// Returns true and stores the value if it is an integer, also if written as 16.0 or 1e2. False: not
// a number, not integral, outside int64, or a real of 2^53 or more in size, which may not be exact.
bool json_integer_exact(const json_t *value, int64_t *out);

// Returns the digits of an integer beyond int64 as they were written, with the minus if there is
// one; they live as long as the value. at == NULL: the value is anything else. json_deep_copy, and
// json_copy of the number itself, lose them.
struct text json_integer_digits(const json_t *value);

// A buffer for writing JSON, zeroed by the caller first. It grows on the heap; set bytes = 0 to
// reuse it. The text has no NUL after it. One thread at a time.
struct json_buffer {
    char *at;
    size_t bytes;           // bytes written
    size_t bytes_allocated; // size of the memory at `at`
};

void json_buffer_free(struct json_buffer *b); // frees the memory and zeroes the struct
static inline struct text json_buffer_text(const struct json_buffer *b) // valid until it grows
{
    return text_span(b->at, b->bytes);
}
void json_put_raw(struct json_buffer *b, struct text text);     // appends the bytes unchanged
void json_put_literal(struct json_buffer *b, const char *text); // appends a C string unchanged
// Appends formatted text unchanged: arguments are not escaped.
void json_put_format(struct json_buffer *b, const char *format, ...)
    __attribute__((format(printf, 2, 3), nonnull(2)));
void json_put_unsigned(struct json_buffer *b, uint64_t value); // faster than json_put_format
void json_put_string(struct json_buffer *b, struct text utf8); // quoted and escaped
// Writes `before` unchanged, such as `,"a":`, then the string in quotes and escaped.
void json_put_member(struct json_buffer *b, const char *before, struct text utf8);
void json_put_escaped(struct json_buffer *b, struct text utf8); // escaped, without quotes
// Writes the text escaped, without quotes; bytes that are not UTF-8 become U+FFFD.
void json_put_lossy(struct json_buffer *b, struct text bytes);
void json_put_base64(struct json_buffer *b, struct text bytes); // without quotes
// Write the fewest digits that read back as the same float or double. The value must be finite,
// else the process ends; -0 becomes 0.0.
void json_put_float(struct json_buffer *b, float value);
void json_put_double(struct json_buffer *b, double value);
void json_put_value(struct json_buffer *b, const json_t *value); // compact, keys in insertion order
// Writes like json_put_value, but stops once the buffer, with what was in it before, exceeds
// bytes_max; a string that does not fit is not written. Returns false if it stopped: the buffer
// then ends with incomplete JSON.
bool json_put_value_within(struct json_buffer *b, const json_t *value, size_t bytes_max);
