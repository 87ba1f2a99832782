// SPDX-License-Identifier: Apache-2.0
// The Precompiled normalizer: a double-array trie from character sequences to replacement texts. A
// grapheme under 6 bytes is looked up as a unit. If it is longer or has no replacement, each of its
// characters is looked up. The shortest match at the start of a unit replaces the entire unit, as
// in the training of the models.
#include "runtime/text/tokenizer/internal.h"

#include <utf8proc.h>

enum { GRAPHEME_BYTES_MAX = 6 };

static uint32_t unit_offset(uint32_t unit)
{
    return (unit >> 10) << ((unit & (1u << 9)) >> 6);
}

// Finds the replacement of a unit. Returns false if there is none: the unit stays.
static bool charsmap_find(const struct charsmap *map, const char *at, size_t bytes,
                          struct text *out)
{
    uint32_t place = unit_offset(map->units[0]);
    for (size_t i = 0; i < bytes; i++) {
        unsigned char byte = (unsigned char)at[i];
        if (byte == 0)
            return false;
        place ^= byte;
        if (place >= map->unit_count)
            return false;
        uint32_t unit = map->units[place];
        if ((unit & (1u << 31 | 0xFF)) != byte)
            return false;
        place ^= unit_offset(unit);
        if ((unit >> 8 & 1) == 0)
            continue;
        if (place >= map->unit_count)
            return false;
        uint32_t start = map->units[place] & ~(1u << 31);
        if (start >= map->replacements.bytes)
            return false;
        const char *text = map->replacements.at + start;
        *out = text_span(text, strnlen(text, map->replacements.bytes - start));
        return utf8_valid_prefix(*out) == out->bytes;
    }
    return false;
}

static bool put_grapheme(struct marked_builder *b, const struct charsmap *map,
                         const struct marked_text *s, size_t start, size_t end)
{
    struct text to;
    if (end - start < GRAPHEME_BYTES_MAX && charsmap_find(map, s->at + start, end - start, &to))
        return marked_builder_put(b, to.at, to.bytes, plain_at(s, start));
    for (size_t i = start; i < end;) {
        size_t bytes = utf8_length(s->at + i);
        struct text piece = text_span(s->at + i, bytes);
        if (charsmap_find(map, s->at + i, bytes, &to))
            piece = to;
        if (!marked_builder_put(b, piece.at, piece.bytes, plain_at(s, i)))
            return false;
        i += bytes;
    }
    return true;
}

bool normalize_charsmap(struct encode *e, const struct charsmap *map, struct marked_text *s)
{
    struct marked_builder b;
    if (!marked_builder_init(&b, e, s->bytes, s->plain != NULL))
        return false;
    utf8proc_int32_t state = 0;
    size_t start = 0, bytes;
    uint32_t before = s->bytes > 0 ? utf8_read(s->at, &bytes) : 0;
    for (size_t i = s->bytes > 0 ? bytes : 0; i < s->bytes; i += bytes) {
        uint32_t c = utf8_read(s->at + i, &bytes);
        // Between two printable ASCII characters there is always a grapheme boundary.
        bool cut = before - 0x20 < 0x5F && c - 0x20 < 0x5F;
        if (cut)
            state = 0;
        else
            cut = utf8proc_grapheme_break_stateful((utf8proc_int32_t)before, (utf8proc_int32_t)c,
                                                   &state);
        if (cut) {
            if (!put_grapheme(&b, map, s, start, i))
                return false;
            start = i;
        }
        before = c;
    }
    if (start < s->bytes && !put_grapheme(&b, map, s, start, s->bytes))
        return false;
    *s = marked_builder_done(&b);
    return true;
}
