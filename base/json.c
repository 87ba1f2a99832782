// SPDX-License-Identifier: Apache-2.0
// JSON reading: one pass over the bytes checks the depth and finds lone surrogates, NUL in keys and
// integers beyond int64, which are replaced in a copy; then jansson parses, and NUL and the
// integers are put back; see json.h for the rules. Writing is in json_write.c.
#include "base/json.h"

#include "base/file.h"
#include "base/json_keys.h"
#include "base/json_wide.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// The results of the first pass.
struct scan {
    size_t depth_error_at; // offset of the first bracket beyond JSON_DEPTH_MAX, or SIZE_MAX
    size_t lone_count;     // number of lone surrogates, which are replaced
    size_t nul_count;      // number of NULs in keys, which are replaced
    size_t wide_count;     // number of integers beyond int64
    size_t long_at; // offset of the first integer of over JSON_DIGITS_MAX digits, or SIZE_MAX
};

enum {
    SCANNED_BYTES = 8,   // scanning this many bytes costs as much as parsing one
    WIDENED_BYTES = 128, // an integer beyond int64 costs as much as parsing this many
};
// noncharacters that may replace NUL in keys and begin the strings for integers while parsing
enum { STAND_INS = 32, STAND_IN_FIRST = 0xFDD0 };

// Returns the value of the escape \uXXXX at `at`, or -1 if there is none before `end`.
static int unicode_escape(const char *at, const char *end)
{
    if (end - at < 6 || at[0] != '\\' || at[1] != 'u')
        return -1;
    return (int)text_hex_read(text_span(at + 2, 4), 4);
}

// Returns the length of the escape sequence at `at`; *lone: true if it is only half of a surrogate
// pair.
static size_t escape_bytes(const char *at, const char *end, bool *lone)
{
    *lone = false;
    int value = unicode_escape(at, end);
    if (value < 0)
        return end - at < 2 ? 1 : 2;
    if (value < 0xD800 || value > 0xDFFF)
        return 6;
    int low = value <= 0xDBFF ? unicode_escape(at + 6, end) : -1;
    if (low >= 0xDC00 && low <= 0xDFFF)
        return 12;
    *lone = true;
    return 6;
}

// A second pass that repairs the text: a writable copy of the bytes, a character that the text does
// not contain (0: it contains all), and the escape that replaces NUL in keys.
struct repair {
    char *copy;
    struct slice *slice;
    uint32_t stand_in;
    char escape[7];
};

// Scans a string; `at` is after its opening quote. Returns the position after the closing quote.
// With a copy to repair, lone surrogates become \uFFFD in the copy.
static const char *scan_string(const char *at, const char *end, const char *start,
                               struct repair *repair, struct scan *scan)
{
    while (at < end && *at != '"') {
        if (*at != '\\') {
            at++;
            continue;
        }
        bool lone;
        size_t bytes = escape_bytes(at, end, &lone);
        if (lone) {
            scan->lone_count++;
            if (repair)
                memcpy(repair->copy + (at - start), "\\uFFFD", 6);
        }
        at += bytes;
    }
    return at < end ? at + 1 : end;
}

// Scans a key for NUL, which jansson refuses in object keys: in the copy its escape is replaced by
// that of a noncharacter that the text does not contain. json_keys_repair restores it after
// parsing.
static void scan_key(const char *at, const char *end, const char *start, struct repair *repair,
                     struct scan *scan)
{
    while (at < end) {
        bool lone;
        size_t bytes = *at == '\\' ? escape_bytes(at, end, &lone) : 1;
        if (bytes == 6 && unicode_escape(at, end) == 0) {
            scan->nul_count++;
            if (repair)
                memcpy(repair->copy + (at - start), repair->escape, 6);
        }
        at += bytes;
    }
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_beyond_int64(struct text digits, bool minus)
{
    enum { INT64_DIGITS = 19 };
    if (digits.bytes != INT64_DIGITS)
        return digits.bytes > INT64_DIGITS;
    return memcmp(digits.at, minus ? "9223372036854775808" : "9223372036854775807", INT64_DIGITS) >
           0;
}

static bool is_key(const char *after, const char *end)
{
    while (after < end && memchr(" \t\r\n", *after, 4))
        after++;
    return after < end && *after == ':';
}

// Scans a number; `at` is its first digit or minus. Returns the position after it.
static const char *scan_number(const char *at, const char *end, const char *start,
                               struct repair *repair, struct scan *scan)
{
    const char *first = at + (*at == '-'), *after = first;
    while (after < end && is_digit(*after))
        after++;
    struct text digits = text_span(first, (size_t)(after - first));
    bool integer = after == end || !memchr(".eE", *after, 3);
    if (integer && digits.bytes > 0 && *first != '0' && is_beyond_int64(digits, first > at) &&
        !is_key(after, end)) {
        size_t offset = (size_t)(at - start);
        scan->wide_count++;
        if (digits.bytes > JSON_DIGITS_MAX && scan->long_at == SIZE_MAX)
            scan->long_at = offset;
        if (repair && repair->stand_in != 0 && slice_spend(repair->slice, WIDENED_BYTES))
            json_wide_put_mark(repair->copy + offset, (size_t)(after - at), repair->stand_in,
                               offset);
    }
    while (after < end && (is_digit(*after) || memchr(".eE+-", *after, 5)))
        after++;
    return after;
}

static struct scan scan_json(struct text in, struct repair *repair)
{
    struct scan scan = {.depth_error_at = SIZE_MAX, .long_at = SIZE_MAX};
    const char *end = in.at + in.bytes;
    int depth = 0;
    for (const char *at = in.at; at < end;) {
        char c = *at++;
        if (c == '"') {
            const char *string = at;
            at = scan_string(at, end, in.at, repair, &scan);
            if (is_key(at, end))
                scan_key(string, at, in.at, repair, &scan);
        } else if (c == '-' || is_digit(c)) {
            at = scan_number(at - 1, end, in.at, repair, &scan);
        } else if (c == '[' || c == '{') {
            if (++depth > JSON_DEPTH_MAX && scan.depth_error_at == SIZE_MAX)
                scan.depth_error_at = (size_t)(at - 1 - in.at);
        } else if ((c == ']' || c == '}') && depth > 0) {
            depth--;
        }
    }
    return scan;
}

// Returns the first noncharacter that the text does not contain, neither plain nor as an escape; 0:
// it contains all.
static uint32_t stand_in_find(struct text in)
{
    uint32_t used = 0;
    const char *end = in.at + in.bytes;
    for (const char *at = in.at; at < end; at++) {
        int value = *at == '\\' ? unicode_escape(at, end) : -1;
        if (end - at >= 3 && memcmp(at, "\xEF\xB7", 2) == 0)
            value = 0xFDC0 | (at[2] & 0x3F);
        if (value >= STAND_IN_FIRST && value < STAND_IN_FIRST + STAND_INS)
            used |= 1u << (value - STAND_IN_FIRST);
    }
    return used == UINT32_MAX ? 0 : STAND_IN_FIRST + (uint32_t)__builtin_ctz(~used);
}

static enum status json_unwanted(struct error *err)
{
    return error_set(err, STATUS_UNWANTED, "the JSON is not needed any more");
}

// Hands jansson one piece of the text at a time, so that slice_spend can let other work run in
// between.
struct source {
    struct text left;
    struct slice *slice;
};

static size_t source_read(void *to, size_t bytes_max, void *data)
{
    struct source *source = data;
    size_t bytes = source->left.bytes < bytes_max ? source->left.bytes : bytes_max;
    if (!slice_spend(source->slice, bytes))
        return (size_t)-1;
    memcpy(to, source->left.at, bytes);
    source->left = text_span(source->left.at + bytes, source->left.bytes - bytes);
    return bytes;
}

static json_t *source_load(struct text in, size_t flags, struct slice *slice, json_error_t *why)
{
    struct source source = {in, slice};
    return json_load_callback(source_read, &source, flags, why);
}

static enum status parse_clean(json_t **out, struct text in, size_t skipped, struct slice *slice,
                               struct error *err)
{
    // JSON_DISABLE_EOF_CHECK: trailing bytes are checked below, because jansson takes a NUL after
    // the value for the end.
    size_t flags = JSON_ALLOW_NUL | JSON_DECODE_ANY | JSON_DISABLE_EOF_CHECK;
    json_error_t why;
    *out = source_load(in, flags, slice, &why);
    if (!*out && !slice_spend(slice, 0))
        return json_unwanted(err);
    size_t at = why.position > 0 ? (size_t)why.position : 0;
    if (*out) {
        while (at < in.bytes && memchr(" \t\r\n", in.at[at], 4))
            at++;
        if (at == in.bytes)
            return STATUS_OK;
        json_decref(*out);
        *out = NULL;
        return error_set(err, STATUS_INVALID, "invalid JSON at byte %zu: text after the value",
                         at + skipped);
    }
    return error_set(err, STATUS_INVALID, "invalid JSON at byte %zu: %s", at + skipped, why.text);
}

enum status json_parse(json_t **out, struct text in, struct error *err)
{
    return json_parse_in_slices(out, in, NULL, err);
}

enum status json_parse_in_slices(json_t **out, struct text in, struct slice *slice,
                                 struct error *err)
{
    *out = NULL;
    size_t skipped = 0;
    if (in.bytes >= 3 && memcmp(in.at, "\xEF\xBB\xBF", 3) == 0)
        skipped = 3;
    struct text body = text_span(in.bytes > 0 ? in.at + skipped : "", in.bytes - skipped);
    struct scan scan = scan_json(body, NULL);
    if (!slice_spend(slice, body.bytes / SCANNED_BYTES))
        return json_unwanted(err);
    if (scan.depth_error_at != SIZE_MAX)
        return error_set(err, STATUS_INVALID, "invalid JSON at byte %zu: nested over %d levels",
                         scan.depth_error_at + skipped, JSON_DEPTH_MAX);
    if (scan.long_at != SIZE_MAX)
        return error_set(err, STATUS_INVALID,
                         "invalid JSON at byte %zu: an integer of over %d digits",
                         scan.long_at + skipped, JSON_DIGITS_MAX);
    if (scan.lone_count + scan.nul_count + scan.wide_count == 0)
        return parse_clean(out, body, skipped, slice, err);
    struct repair repair = {.copy = heap_alloc(body.bytes), .slice = slice};
    uint32_t stand_in = scan.nul_count + scan.wide_count > 0 ? stand_in_find(body) : 0;
    repair.stand_in = stand_in;
    snprintf(repair.escape, sizeof repair.escape, "\\u%04X", stand_in != 0 ? stand_in : 0xFFFD);
    memcpy(repair.copy, body.at, body.bytes);
    scan_json(body, &repair);
    enum status status = json_unwanted(err);
    if (slice_spend(slice, body.bytes / SCANNED_BYTES))
        status = parse_clean(out, text_span(repair.copy, body.bytes), skipped, slice, err);
    heap_free(repair.copy);
    if (status == STATUS_OK && stand_in != 0 && scan.wide_count > 0)
        json_wide_restore(out, stand_in, body);
    if (status == STATUS_OK && stand_in != 0 && scan.nul_count > 0)
        json_keys_repair(*out, stand_in);
    return status;
}

enum status json_read_parse(json_t **out,
                            enum status (*read)(struct text *out, struct arena *arena,
                                                const char *path, size_t bytes_max,
                                                struct error *err),
                            const char *path, size_t bytes_max, struct error *err)
{
    *out = NULL;
    struct arena *arena = arena_create(0, 0);
    struct text content;
    enum status status = read(&content, arena, path, bytes_max, err);
    if (status == STATUS_OK) {
        status = json_parse(out, content, err);
        if (status != STATUS_OK)
            error_prefix(err, "%s", path);
    }
    arena_destroy(arena);
    return status;
}

enum status json_file_parse(json_t **out, const char *path, size_t bytes_max, struct error *err)
{
    return json_read_parse(out, file_read, path, bytes_max, err);
}

bool json_integer_exact(const json_t *value, int64_t *out)
{
    if (json_is_integer(value)) {
        *out = json_integer_value(value);
        return true;
    }
    if (!json_is_real(value))
        return false;
    double real = json_real_value(value);
    if (!(fabs(real) < 0x1p53) || real != floor(real)) // 2^53 may have been written as 2^53 + 1
        return false;
    *out = (int64_t)real;
    return true;
}
