// SPDX-License-Identifier: Apache-2.0
// Decoding of a complete sequence: each decoder in order works on the list of all tokens, as in the
// reference library.
#include "runtime/text/tokenizer/internal.h"

struct list {
    struct text *items;
    uint32_t count;
};

static bool list_join(struct arena *arena, struct list *list, const char *between)
{
    size_t bytes = 0, gap = strlen(between);
    for (uint32_t i = 0; i < list->count; i++)
        bytes += list->items[i].bytes + gap;
    char *out = arena_alloc(arena, bytes + 1);
    if (!out)
        return false;
    size_t n = 0;
    for (uint32_t i = 0; i < list->count; i++) {
        if (i > 0 && gap > 0) {
            memcpy(out + n, between, gap);
            n += gap;
        }
        if (list->items[i].bytes > 0)
            memcpy(out + n, list->items[i].at, list->items[i].bytes);
        n += list->items[i].bytes;
    }
    list->items[0] = text_span(out, n);
    list->count = 1;
    return true;
}

static bool byte_level(struct arena *arena, struct list *list)
{
    for (uint32_t i = 0; i < list->count; i++) {
        list->items[i] = bytes_unmapped(arena, list->items[i]);
        if (!list->items[i].at)
            return false;
    }
    if (!list_join(arena, list, ""))
        return false;
    list->items[0] = utf8_lossy(arena, list->items[0]);
    return list->items[0].at != NULL;
}

// Joins a run of byte tokens: its text if that is valid UTF-8, else one U+FFFD per byte.
static bool byte_run(struct arena *arena, const struct text *from, uint32_t count, struct text *out)
{
    char *text = arena_alloc(arena, (size_t)count * 3 + 1);
    if (!text)
        return false;
    for (uint32_t i = 0; i < count; i++)
        text[i] = (char)byte_token_value(from[i]);
    *out = text_span(text, count);
    if (utf8_valid_prefix(*out) == count)
        return true;
    for (uint32_t i = 0; i < count; i++)
        utf8_write(0xFFFD, text + (size_t)i * 3);
    out->bytes = (size_t)count * 3;
    return true;
}

static bool byte_fallback(struct arena *arena, struct list *list)
{
    uint32_t to = 0;
    for (uint32_t i = 0; i < list->count;) {
        uint32_t end = i;
        while (end < list->count && byte_token_value(list->items[end]) >= 0)
            end++;
        if (end == i) {
            list->items[to++] = list->items[i++];
            continue;
        }
        struct text run;
        if (!byte_run(arena, list->items + i, end - i, &run))
            return false;
        list->items[to++] = run;
        i = end;
    }
    list->count = to;
    return true;
}

static void drop_repeated(struct list *list)
{
    uint32_t to = 0;
    for (uint32_t i = 0; i < list->count; i++)
        if (i == 0 || !text_equal(list->items[i], list->items[to - 1]))
            list->items[to++] = list->items[i];
    list->count = to;
}

static bool decoder_run(struct arena *arena, const struct decoder *d, struct list *list,
                        bool *limit_hit)
{
    if (d->kind == DECODE_BYTE_LEVEL)
        return byte_level(arena, list);
    if (d->kind == DECODE_FUSE)
        return list_join(arena, list, "");
    if (d->kind == DECODE_BYTE_FALLBACK)
        return byte_fallback(arena, list);
    if (d->kind == DECODE_CTC)
        drop_repeated(list);
    for (uint32_t i = 0; i < list->count; i++) {
        list->items[i] =
            decode_token(d, arena, list->items[i], i == 0, i + 1 == list->count, limit_hit);
        if (!list->items[i].at)
            return false;
    }
    return true;
}

enum status tokenizer_decode(const struct tokenizer *t, const struct decode_args *args,
                             struct text *out, struct error *err)
{
    struct list list = {arena_alloc(args->arena, ((size_t)args->count + 1) * sizeof(struct text)),
                        0};
    bool good = list.items != NULL, limit_hit = false;
    for (uint32_t i = 0; good && i < args->count; i++) {
        int32_t id = args->tokens[i];
        if (id < 0 || (uint32_t)id >= t->vocab || !t->names[id].at ||
            (args->skip_special && t->special[id]))
            continue;
        list.items[list.count++] = t->names[id];
    }
    *out = text_span("", 0);
    if (good && list.count == 0)
        return STATUS_OK;
    for (uint32_t i = 0; good && i < t->decoder_count; i++)
        good = decoder_run(args->arena, &t->decoders[i], &list, &limit_hit);
    if (good)
        good = list_join(args->arena, &list, t->has_decoder ? "" : " ");
    if (limit_hit)
        return error_set(err, STATUS_NO_SPACE, PATTERN_LIMIT);
    if (!good)
        return error_set(err, STATUS_NO_SPACE, "decoding the tokens exceeds its memory limit");
    *out = list.items[0];
    return STATUS_OK;
}
