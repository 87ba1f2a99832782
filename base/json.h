// JSON reading over jansson with the rules of the wire specification, and JSON writing into a
// growing buffer. Large tokenizer files are read by runtime/text itself (tokenizer/json.h).
#pragma once

#include "base/status.h"
#include "base/arena.h"
#include "base/slice.h"
#include "base/text.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum { JSON_DEPTH_MAX = 128 };

// Parses one JSON text. UTF-8 only; one leading BOM is skipped; duplicate keys: the last wins; over
// JSON_DEPTH_MAX levels, NaN, 1e400 and trailing bytes are errors; lone surrogate escapes become
// U+FFFD; keys may hold NUL (json_object_iter_key_len); an integer beyond int64 becomes the nearest
// real (see json_integer_exact). The error names the byte offset. *out is a new reference.
enum status json_parse(json_t **out, struct text in, struct error *err) MUST_USE;

// The same, counted byte by byte. STATUS_UNWANTED: the slice ended it.
enum status json_parse_in_slices(json_t **out, struct text in, struct slice *slice,
                                 struct error *err) MUST_USE;

// The same for a file of at most bytes_max bytes; errors name the file.
enum status json_file_parse(json_t **out, const char *path, size_t bytes_max,
                            struct error *err) MUST_USE;
// The same where something else than file_read (base/file.h) reads it.
enum status json_read_parse(json_t **out,
                            enum status (*read)(struct text *out, struct arena *arena,
                                                const char *path, size_t bytes_max,
                                                struct error *err),
                            const char *path, size_t bytes_max, struct error *err) MUST_USE;

// An integer value, also when written as 16.0 or 1e2; false if it is not a number, not integral,
// outside int64, or a real too large to be exact (2^53).
bool json_integer_exact(const json_t *value, int64_t *out);

// Writing. The buffer grows on the heap; it is reused by setting bytes = 0.
struct json_buffer {
    char *at;
    size_t bytes;
    size_t bytes_allocated;
};

void json_buffer_free(struct json_buffer *b);
static inline struct text json_buffer_text(const struct json_buffer *b) // until it grows
{
    return text_span(b->at, b->bytes);
}
void json_put_raw(struct json_buffer *b, struct text text);     // as is
void json_put_literal(struct json_buffer *b, const char *text); // as is, NUL-terminated
void json_put_format(struct json_buffer *b, const char *format, ...)
    __attribute__((format(printf, 2, 3), nonnull(2)));
void json_put_unsigned(struct json_buffer *b, uint64_t value); // quickly
void json_put_string(struct json_buffer *b, struct text utf8); // quoted and escaped
void json_put_member(struct json_buffer *b, const char *before, struct text utf8); // `,"a":` and it
void json_put_escaped(struct json_buffer *b, struct text utf8); // escaped, without quotes
void json_put_lossy(struct json_buffer *b, struct text bytes);  // the same; no text: U+FFFD
void json_put_base64(struct json_buffer *b, struct text bytes); // without quotes
void json_put_float(struct json_buffer *b, float value);        // shortest that reads back; -0 -> 0
void json_put_double(struct json_buffer *b, double value);      // likewise; must be finite
void json_put_value(struct json_buffer *b, const json_t *value); // compact, keys as inserted
// The same until the buffer has more than bytes_max. False: it ended early; no string that is
// longer than that was written.
bool json_put_value_within(struct json_buffer *b, const json_t *value, size_t bytes_max);
