// SPDX-License-Identifier: Apache-2.0
// Escapes of each way to write strings, and the rules for unrestricted values. See writer.h.
#include "runtime/text/grammar/writer.h"

#include "base/arena.h"
#include "base/utf8.h"
#include "runtime/text/grammar/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// bytes of one escape; no character from ESCAPED_MAX on is escaped
enum { ESCAPE_BYTES = 8, ESCAPED_MAX = 0x80 };

// Writes the escape of a character, of which there is exactly one. Returns its length; 0: not
// escaped.
static size_t escape_of(enum writer_chars kind, uint32_t c, char out[ESCAPE_BYTES])
{
    static const char letters[] = "btn\0fr"; // from code point 8 on; 11 has no letter
    bool python = kind == WRITE_PYTHON;
    char letter = c >= 8 && c <= 13 ? letters[c - 8] : '\0';
    if (kind == WRITE_RAW)
        return 0;
    if (c == (python ? '\'' : '"') || c == '\\' || letter != '\0')
        return (size_t)snprintf(out, ESCAPE_BYTES, "\\%c", letter != '\0' ? letter : (char)c);
    if (c < 0x20)
        return (size_t)snprintf(out, ESCAPE_BYTES, python ? "\\x%02x" : "\\u%04x", (unsigned)c);
    return kind == WRITE_MARKUP && c == '<' ? (size_t)snprintf(out, ESCAPE_BYTES, "\\u003c") : 0;
}

uint32_t writer_chars(struct grammar_builder *b, enum writer_chars kind,
                      const struct grammar_range *ranges, uint32_t count)
{
    struct grammar_range plain[ESCAPED_MAX + 1];
    struct text escapes[ESCAPED_MAX];
    char store[ESCAPED_MAX][ESCAPE_BYTES];
    uint32_t plains = 0, escaped = 0, first = 0;
    for (uint32_t c = 0; c < ESCAPED_MAX; c++) {
        size_t bytes = escape_of(kind, c, store[escaped]);
        if (bytes == 0)
            continue;
        if (c > first)
            plain[plains++] = (struct grammar_range){first, c - 1};
        first = c + 1;
        for (uint32_t i = 0; i < count; i++)
            if (c >= ranges[i].first && c <= ranges[i].last) {
                escapes[escaped] = text_span(store[escaped], bytes);
                escaped++;
                break;
            }
    }
    plain[plains++] = (struct grammar_range){first, 0x10FFFF};
    struct grammar_range *kept = heap_alloc((plains * (size_t)count + 1) * sizeof *kept);
    uint32_t kept_count = 0;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < plains; k++) {
            struct grammar_range r = ranges[i];
            r.first = r.first > plain[k].first ? r.first : plain[k].first;
            r.last = r.last < plain[k].last ? r.last : plain[k].last;
            if (r.first <= r.last)
                kept[kept_count++] = r;
        }
    uint32_t result =
        grammar_either(b, grammar_chars(b, kept, kept_count), grammar_choice(b, escapes, escaped));
    heap_free(kept);
    return result;
}

static uint32_t markup_chars(struct grammar_builder *b, const struct grammar_range *ranges,
                             uint32_t count)
{
    return writer_chars(b, WRITE_MARKUP, ranges, count);
}

static uint32_t python_chars(struct grammar_builder *b, const struct grammar_range *ranges,
                             uint32_t count)
{
    return writer_chars(b, WRITE_PYTHON, ranges, count);
}

regex_chars writer_chars_of(enum writer_chars kind)
{
    static const regex_chars of[WRITE_KINDS] = {[WRITE_JSON] = json_grammar_chars,
                                                [WRITE_MARKUP] = markup_chars,
                                                [WRITE_PYTHON] = python_chars,
                                                [WRITE_RAW] = grammar_chars};
    return of[kind];
}

bool writer_escapes_char(enum writer_chars kind, uint32_t c)
{
    char out[ESCAPE_BYTES];
    return c < ESCAPED_MAX && escape_of(kind, c, out) > 0;
}

uint32_t writer_escaped(enum writer_chars kind, struct grammar_range *out)
{
    uint32_t count = 0;
    for (uint32_t c = 0; c < ESCAPED_MAX; c++) {
        if (!writer_escapes_char(kind, c))
            continue;
        if (count > 0 && out[count - 1].last + 1 == c) {
            out[count - 1].last = c;
            continue;
        }
        check(count < WRITER_ESCAPED, "%u ranges of escapes", count);
        out[count++] = (struct grammar_range){c, c};
    }
    return count;
}

void writer_put(enum writer_chars kind, struct json_buffer *out, struct text value)
{
    for (size_t i = 0; i < value.bytes; i++) {
        char escape[ESCAPE_BYTES];
        size_t bytes = escape_of(kind, (uint8_t)value.at[i], escape);
        json_put_raw(out, bytes > 0 ? text_span(escape, bytes) : text_span(value.at + i, 1));
    }
}

uint32_t writer_text(struct grammar_builder *b, enum writer_chars kind, struct text value)
{
    struct json_buffer text = {0};
    writer_put(kind, &text, value);
    uint32_t result = grammar_literal(b, json_buffer_text(&text));
    json_buffer_free(&text);
    return result;
}

bool writer_is_plain(enum writer_chars kind, struct text value)
{
    for (size_t i = 0; i < value.bytes; i++)
        if (writer_escapes_char(kind, (uint8_t)value.at[i]))
            return false;
    return true;
}

static uint32_t level_close(struct grammar_builder *b, uint32_t blank, const char *close)
{
    return grammar_level(b, grammar_join(b, blank, grammar_literal(b, text_of(close))));
}

struct writer writer_json(struct grammar_builder *b, uint32_t blank)
{
    uint32_t quote = grammar_literal(b, text_of("\""));
    uint32_t comma[] = {blank, grammar_literal(b, text_of(",")), blank};
    uint32_t colon[] = {blank, grammar_literal(b, text_of(":")), blank};
    return (struct writer){
        .strings = WRITE_JSON,
        .keys = WRITE_JSON,
        .string_open = quote,
        .string_close = quote,
        .key_open = quote,
        .key_close = quote,
        .colon = grammar_join_all(b, colon, 3),
        .comma = grammar_join_all(b, comma, 3),
        .object_open = grammar_join(b, grammar_literal(b, text_of("{")), blank),
        .object_close = level_close(b, blank, "}"),
        .array_open = grammar_join(b, grammar_literal(b, text_of("[")), blank),
        .array_close = level_close(b, blank, "]"),
        .null_word = "null",
        .true_word = "true",
        .false_word = "false",
    };
}

// Any string without quotes, except those in `never`.
static uint32_t strings_of(struct grammar_builder *b, enum writer_chars kind, uint32_t never)
{
    static const struct grammar_range all[] = {{0, 0x10FFFF}};
    uint32_t any = grammar_repeat(b, writer_chars(b, kind, all, 1), 0, GRAMMAR_UNBOUNDED), out;
    struct error err = {0};
    if (never == GRAMMAR_NOTHING)
        return any;
    // On failure no string is allowed, which is stricter than requested.
    return grammar_except(b, any, never, &out, &err) == STATUS_OK ? out : GRAMMAR_NOTHING;
}

bool writer_key_fits(const struct writer_key *k, struct text key)
{
    uint32_t chars = 0;
    for (size_t at = 0, bytes; at < key.bytes; at += bytes, chars++) {
        uint32_t c = utf8_read(key.at + at, &bytes);
        for (const char *w = k->without; *w; w++)
            if (c == (uint8_t)*w)
                return false;
        if (c == 0)
            return false;
    }
    return chars > 0 && chars <= k->most;
}

static int bytes_compare(const void *one, const void *other)
{
    return *(const uint8_t *)one - *(const uint8_t *)other;
}

uint32_t writer_key_without(const struct writer_key *k, struct grammar_range *out)
{
    char sorted[WRITER_KEY_WITHOUT + 1];
    size_t count = strlen(k->without);
    memcpy(sorted, k->without, count + 1);
    qsort(sorted, count, 1, bytes_compare);
    out[0] = (struct grammar_range){0, 0};
    for (size_t i = 0; i < count; i++)
        out[i + 1] = (struct grammar_range){(uint8_t)sorted[i], (uint8_t)sorted[i]};
    return (uint32_t)count + 1;
}

static uint32_t keys_of(struct grammar_builder *b, const struct writer *w)
{
    struct grammar_range without[WRITER_KEY_WITHOUT + 1];
    if (w->key.most == 0)
        return strings_of(b, w->keys, GRAMMAR_NOTHING);
    uint32_t count = writer_key_without(&w->key, without);
    return grammar_repeat(b, grammar_chars_except(b, without, count), 1, w->key.most);
}

// open (one (comma one)*)? close
static uint32_t list_of(struct grammar_builder *b, uint32_t open, uint32_t one, uint32_t close,
                        uint32_t comma)
{
    uint32_t more = grammar_repeat(b, grammar_join(b, comma, one), 0, GRAMMAR_UNBOUNDED);
    uint32_t parts[] = {open, grammar_optional(b, grammar_join(b, one, more)), close};
    return grammar_join_all(b, parts, 3);
}

struct json_rules writer_rules(struct grammar_builder *b, const struct writer *w)
{
    uint32_t value, object, array, string, number;
    struct json_rules r = {
        .value = grammar_rule(b, text_of("value"), &value),
        .object = grammar_rule(b, text_of("object"), &object),
        .array = grammar_rule(b, text_of("array"), &array),
        .string = grammar_rule(b, text_of("string"), &string),
        .number = grammar_rule(b, text_of("number"), &number),
    };
    struct text words[] = {text_of(w->true_word), text_of(w->false_word), text_of(w->null_word)};
    uint32_t values[] = {r.object, r.array, r.string, r.number, grammar_choice(b, words, 3)};
    uint32_t quoted[] = {w->string_open, strings_of(b, w->strings, w->never), w->string_close};
    uint32_t member[] = {w->key_open, keys_of(b, w), w->key_close, w->colon, r.value};
    grammar_rule_set(b, string, grammar_join_all(b, quoted, 3));
    grammar_rule_set(b, number, json_grammar_number(b));
    grammar_rule_set(b, array, list_of(b, w->array_open, r.value, w->array_close, w->comma));
    grammar_rule_set(
        b, object,
        list_of(b, w->object_open, grammar_join_all(b, member, 5), w->object_close, w->comma));
    grammar_rule_set(b, value, grammar_either_of(b, values, 5));
    return r;
}
