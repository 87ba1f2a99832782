// SPDX-License-Identifier: Apache-2.0
// Incremental detokenization; see tokenizer.h. Each token contributes its fixed bytes. Held back
// are at most three bytes of an incomplete character, and the characters that the end of the text
// would strip.
#include "runtime/text/tokenizer/internal.h"

struct sink {
    struct detok *d;
    char *out;
    uint32_t bytes, bytes_max;
    size_t earlier; // number of held bytes that are from earlier tokens
};

static void sink_put(struct sink *s, const char *at, size_t bytes)
{
    check(s->bytes + bytes <= s->bytes_max, "%zu bytes more than the %u of the buffer", bytes,
          s->bytes_max);
    memcpy(s->out + s->bytes, at, bytes);
    s->bytes += (uint32_t)bytes;
}

static void sink_put_spaces(struct sink *s)
{
    for (; s->d->held_spaces > 0; s->d->held_spaces--)
        sink_put(s, &s->d->tokenizer->stream_strip, 1);
}

// Writes one complete character, or strips or holds it.
static void sink_put_char(struct sink *s, const char *at, size_t bytes)
{
    const struct tokenizer *t = s->d->tokenizer;
    bool strip = bytes == 1 && *at == t->stream_strip;
    if (strip && s->d->strip_left > 0) {
        s->d->strip_left--;
        return;
    }
    s->d->strip_left = 0;
    if (strip && t->stream_strip_right > 0 && !s->d->keep_edges) {
        if (s->d->held_spaces < t->stream_strip_right)
            s->d->held_spaces++;
        else
            sink_put(s, at, 1);
        return;
    }
    sink_put_spaces(s);
    sink_put(s, at, bytes);
}

static void sink_put_bad(struct sink *s)
{
    sink_put_char(s, "\xEF\xBF\xBD", 3);
}

// Adds a byte to the held bytes and writes what they form: a character, U+FFFD, or nothing yet.
static void sink_put_byte(struct sink *s, char byte)
{
    struct detok *d = s->d;
    d->held[d->held_bytes++] = byte;
    while (d->held_bytes > 0) {
        size_t whole = utf8_valid(d->held, d->held_bytes);
        if (whole > 0) {
            sink_put_char(s, d->held, whole);
            d->held_bytes = 0;
            s->earlier = 0;
            return;
        }
        if (utf8_is_beginning(d->held, d->held_bytes))
            return;
        size_t bad = utf8_bad_length(d->held, d->held_bytes);
        sink_put_bad(s);
        if (s->earlier > 0)
            d->replaced_chars++;
        s->earlier -= bad < s->earlier ? bad : s->earlier;
        d->held_bytes = (uint8_t)(d->held_bytes - bad);
        memmove(d->held, d->held + bad, d->held_bytes);
    }
}

static void sink_put_text(struct sink *s, struct text text)
{
    const struct tokenizer *t = s->d->tokenizer;
    bool plain = s->d->held_bytes == 0 && s->d->strip_left == 0 && t->stream_strip_right == 0;
    size_t valid = plain ? utf8_valid_prefix(text) : 0;
    if (valid > 0)
        sink_put(s, text.at, valid);
    for (size_t i = valid; i < text.bytes; i++)
        sink_put_byte(s, text.at[i]);
}

// Writes the first token of a text: without its metaspace marks, or without the space before a
// word.
static void sink_put_first(struct sink *s, int32_t token)
{
    const struct tokenizer *t = s->d->tokenizer;
    if (t->stream_first_name) {
        sink_put_text(s, t->names[token]);
    } else if (!t->stream_first_drops) {
        sink_put_text(s, t->bytes[token]);
    } else {
        struct arena *scratch = arena_create(1024, 0);
        bool limit_hit = false; // stays false: detok_open has tried each token
        sink_put_text(s, detok_text(t, scratch, (uint32_t)token, true, &limit_hit));
        arena_destroy(scratch);
    }
}

void detok_init(struct detok *d, const struct tokenizer *t, bool skip_special)
{
    *d = (struct detok){.tokenizer = t,
                        .skip_special = skip_special,
                        .strip_left = t->stream_strip_left,
                        .previous = -1};
}

void detok_continue(struct detok *d)
{
    d->begun = true;
    d->strip_left = 0;
}

void detok_keep_edges(struct detok *d)
{
    detok_continue(d);
    d->keep_edges = true;
}

uint32_t detok_push(struct detok *d, int32_t token, char *out, uint32_t out_max)
{
    const struct tokenizer *t = d->tokenizer;
    d->replaced_chars = 0;
    if (token < 0 || (uint32_t)token >= t->vocab || !t->names[token].at ||
        (d->skip_special && t->special[token]))
        return 0;
    if (t->stream_dedupe && d->previous == token && !d->keep_edges)
        return 0;
    d->previous = token;
    struct sink s = {d, out, 0, out_max, d->held_bytes};
    bool first = !d->begun;
    d->begun = true;
    if (first)
        sink_put_first(&s, token);
    else
        sink_put_text(&s, t->bytes[token]);
    return s.bytes;
}

uint32_t detok_finish(struct detok *d, char *out, uint32_t out_max)
{
    struct sink s = {d, out, 0, out_max, 0};
    if (d->held_bytes > 0)
        sink_put_bad(&s);
    d->held_bytes = 0;
    d->held_spaces = 0;
    return s.bytes;
}

uint32_t detok_bound(const struct tokenizer *t)
{
    return (t->bytes_longest + 4) * 3 + 256;
}
