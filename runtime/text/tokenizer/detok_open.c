// SPDX-License-Identifier: Apache-2.0
// Prepares streaming: the bytes that each token adds inside a text, and the work that remains at
// the start and the end of a text.
#include "runtime/text/tokenizer/internal.h"

static struct text one_byte(struct arena *arena, int32_t byte)
{
    char *at = arena_alloc(arena, 1);
    if (at)
        *at = (char)byte;
    return text_span(at, at != NULL);
}

struct text detok_text(const struct tokenizer *t, struct arena *scratch, uint32_t id, bool first,
                       bool *limit_hit)
{
    struct text text = t->names[id];
    bool fused = false;
    if (!t->has_decoder)
        return arena_format(scratch, " %.*s", (int)text.bytes, text.at);
    for (uint32_t i = 0; i < t->decoder_count && text.at; i++) {
        const struct decoder *d = &t->decoders[i];
        fused = fused || decoder_joins(d);
        if (d->kind == DECODE_BYTE_LEVEL) {
            text = bytes_unmapped(scratch, text);
        } else if (d->kind == DECODE_BYTE_FALLBACK) {
            if (byte_token_value(text) >= 0)
                text = one_byte(scratch, byte_token_value(text));
        } else if (d->kind != DECODE_STRIP || !fused) {
            text = decode_token(d, scratch, text, first, false, limit_hit);
        }
    }
    return text;
}

static void ends_open(struct tokenizer *t)
{
    bool fused = false;
    t->stream_first_name = !t->has_decoder;
    for (uint32_t i = 0; i < t->decoder_count; i++) {
        const struct decoder *d = &t->decoders[i];
        fused = fused || decoder_joins(d);
        if (d->kind == DECODE_STRIP && fused && d->from.bytes == 1) {
            t->stream_strip = *d->from.at;
            t->stream_strip_left = (uint8_t)d->start;
            t->stream_strip_right = (uint8_t)d->stop;
        }
        t->stream_first_drops =
            t->stream_first_drops || (d->kind == DECODE_METASPACE && d->drop_first);
        if (d->kind == DECODE_BPE) {
            t->stream_strip = ' ';
            t->stream_strip_right = 1;
        }
        t->stream_first_name = t->stream_first_name || d->kind == DECODE_WORDPIECE;
        t->stream_dedupe = t->stream_dedupe || d->kind == DECODE_CTC;
    }
}

static enum status texts_find(struct tokenizer *t, struct arena *scratch, size_t *total,
                              struct error *err)
{
    bool limit_hit = false;
    for (uint32_t id = 0; id < t->vocab; id++) {
        if (!t->names[id].at)
            continue;
        t->bytes[id] = detok_text(t, scratch, id, false, &limit_hit);
        *total += t->bytes[id].bytes;
        if (t->stream_first_drops)
            (void)detok_text(t, scratch, id, true, &limit_hit);
        if (limit_hit)
            return error_set(err, STATUS_UNSUPPORTED,
                             "a pattern of the decoder takes too long on token %u", id);
    }
    return STATUS_OK;
}

enum status detok_open(struct tokenizer *t, struct error *err)
{
    t->bytes = arena_alloc_zeroed(t->arena, t->vocab + 1, sizeof *t->bytes);
    struct arena *scratch = arena_create(1 << 20, 0);
    size_t total = 0;
    ends_open(t);
    enum status status = t->bytes ? texts_find(t, scratch, &total, err) : STATUS_OK;
    if (status != STATUS_OK) {
        arena_destroy(scratch);
        return status;
    }
    char *to = arena_alloc(t->arena, total + 1);
    for (uint32_t id = 0; to && t->bytes && id < t->vocab; id++) {
        struct text text = t->bytes[id];
        if (text.bytes > 0)
            memcpy(to, text.at, text.bytes);
        t->bytes[id].at = to;
        to += text.bytes;
        uint32_t name = (uint32_t)t->names[id].bytes;
        t->bytes_longest = text.bytes > t->bytes_longest ? (uint32_t)text.bytes : t->bytes_longest;
        t->bytes_longest = name > t->bytes_longest ? name : t->bytes_longest;
    }
    arena_destroy(scratch);
    if (!t->bytes || !to)
        return error_set(err, STATUS_NO_SPACE, "not enough memory for the texts of %u tokens",
                         t->vocab);
    return STATUS_OK;
}
