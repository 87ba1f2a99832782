// SPDX-License-Identifier: Apache-2.0
// All normalizers except the Unicode forms (normalizer_forms.c) and the charsmap (charsmap.c). Each
// writes a new text to the arena of the call, or keeps a text that would not change.
#include "runtime/text/tokenizer/internal.h"

// Maps one character to 0 to 3 characters in out; returns their number.
struct mapper {
    int (*map)(const struct normalizer *n, uint32_t c, uint32_t out[3]);
    // True if this ASCII character stays unchanged.
    bool (*ascii_stays)(const struct normalizer *n, unsigned char c);
};

static bool map_chars(struct encode *e, const struct normalizer *n, const struct mapper *mapper,
                      struct marked_text *s)
{
    size_t i = 0;
    while (i < s->bytes && (unsigned char)s->at[i] < 0x80 &&
           mapper->ascii_stays(n, (unsigned char)s->at[i]))
        i++;
    if (i == s->bytes)
        return true;
    struct marked_builder b;
    if (!marked_builder_init(&b, e, s->bytes, s->plain != NULL))
        return false;
    for (i = 0; i < s->bytes;) {
        size_t bytes;
        uint32_t out[3];
        int count = mapper->map(n, utf8_read(s->at + i, &bytes), out);
        for (int k = 0; k < count; k++)
            if (!marked_builder_put_char(&b, out[k], plain_at(s, i)))
                return false;
        i += bytes;
    }
    *s = marked_builder_done(&b);
    return true;
}

static int map_lower(const struct normalizer *n, uint32_t c, uint32_t out[3])
{
    (void)n;
    return char_lower(c, out);
}

static bool not_upper(const struct normalizer *n, unsigned char c)
{
    (void)n;
    return c < 'A' || c > 'Z';
}

static int map_accents(const struct normalizer *n, uint32_t c, uint32_t out[3])
{
    out[0] = c;
    return n->kind == NORMALIZE_BERT ? !char_is_mark_nonspacing(c) : !char_is_mark(c);
}

static bool byte_stays(const struct normalizer *n, unsigned char c)
{
    (void)n;
    (void)c;
    return true;
}

static int map_nmt(const struct normalizer *n, uint32_t c, uint32_t out[3])
{
    (void)n;
    bool drop = (c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F ||
                c == 0x8F || c == 0x9F;
    bool space = c == 9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 ||
                 (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
                 c == 0xFEFF || c == 0xFFFD;
    out[0] = space ? ' ' : c;
    return !drop;
}

static bool nmt_stays(const struct normalizer *n, unsigned char c)
{
    (void)n;
    return (c >= ' ' && c != 0x7F) || c == 0;
}

static int map_bert(const struct normalizer *n, uint32_t c, uint32_t out[3])
{
    if (n->clean) {
        if (c == 0 || c == 0xFFFD || char_is_control(c))
            return 0;
        if (char_is_space(c))
            c = ' ';
    }
    if (n->cjk && char_is_cjk(c)) {
        out[0] = out[2] = ' ';
        out[1] = c;
        return 3;
    }
    out[0] = c;
    return 1;
}

static bool bert_stays(const struct normalizer *n, unsigned char c)
{
    return !n->clean || (c >= ' ' && c != 0x7F);
}

static bool normalize_bert(struct encode *e, const struct normalizer *n, struct marked_text *s)
{
    static const struct mapper clean = {map_bert, bert_stays}, accents = {map_accents, byte_stays},
                               lower = {map_lower, not_upper};
    if (!map_chars(e, n, &clean, s))
        return false;
    if (n->accents && (!normalize_form(e, NORMALIZE_NFD, s) || !map_chars(e, n, &accents, s)))
        return false;
    return !n->lower || map_chars(e, n, &lower, s);
}

static bool normalize_prepend(struct encode *e, struct text what, struct marked_text *s)
{
    struct marked_builder b;
    if (s->bytes == 0 || what.bytes == 0)
        return true;
    if (!marked_builder_init(&b, e, s->bytes + what.bytes, s->plain != NULL))
        return false;
    memcpy(b.at, what.at, what.bytes);
    memcpy(b.at + what.bytes, s->at, s->bytes);
    if (b.plain) {
        memset(b.plain, s->plain[0], what.bytes);
        memcpy(b.plain + what.bytes, s->plain, s->bytes);
    }
    b.bytes = what.bytes + s->bytes;
    *s = marked_builder_done(&b);
    return true;
}

static void normalize_strip(const struct normalizer *n, struct marked_text *s)
{
    size_t start = 0, end = s->bytes, bytes = 0;
    while (n->left && start < end && char_is_space(utf8_read(s->at + start, &bytes)))
        start += bytes;
    while (n->right && end > start) {
        size_t before = utf8_before(s->at, end);
        if (!char_is_space(utf8_read(s->at + before, &bytes)))
            break;
        end = before;
    }
    *s = (struct marked_text){s->at + start, end - start, s->plain ? s->plain + start : NULL};
}

static bool put_stretch(struct marked_builder *b, const struct marked_text *s, size_t start,
                        size_t end)
{
    if (!s->plain)
        return marked_builder_put(b, s->at + start, end - start, 0);
    size_t at = b->bytes;
    if (!marked_builder_put(b, s->at + start, end - start, 0))
        return false;
    memcpy(b->plain + at, s->plain + start, end - start);
    return true;
}

static bool find_replace(struct encode *e, const struct normalizer *n, const struct marked_text *s,
                         size_t from, struct regex_span *out)
{
    if (n->regex)
        return encode_find(e, n->regex, text_span(s->at, s->bytes), from, out);
    if (n->from.bytes == 0 || from >= s->bytes)
        return false;
    const char *found = n->from.bytes == 1
                            ? memchr(s->at + from, *n->from.at, s->bytes - from)
                            : memmem(s->at + from, s->bytes - from, n->from.at, n->from.bytes);
    if (!found)
        return false;
    out->start = (size_t)(found - s->at);
    out->end = out->start + n->from.bytes;
    return true;
}

static uint8_t plain_between(const struct marked_text *s, size_t start, size_t end)
{
    for (size_t i = start; s->plain && i < end; i++)
        if (s->plain[i] != 0)
            return 1;
    return 0;
}

static bool normalize_replace(struct encode *e, const struct normalizer *n, struct marked_text *s)
{
    struct regex_span m;
    size_t done = 0, from = 0;
    if (s->bytes == 0 || !find_replace(e, n, s, 0, &m))
        return e->status == STATUS_OK;
    struct marked_builder b;
    if (!marked_builder_init(&b, e, s->bytes * (n->to.bytes > n->from.bytes ? 2 : 1),
                             s->plain != NULL))
        return false;
    while (from <= s->bytes && find_replace(e, n, s, from, &m)) {
        // After an empty match the search continues one character later.
        from = m.end > m.start    ? m.end
               : m.end < s->bytes ? m.end + utf8_length(s->at + m.end)
                                  : m.end + 1;
        if (m.end == m.start && m.start == done && done > 0)
            continue; // an empty match directly after a match does not count
        if (!put_stretch(&b, s, done, m.start) ||
            !marked_builder_put(&b, n->to.at, n->to.bytes, plain_between(s, m.start, m.end)))
            return false;
        done = m.end;
    }
    if (!put_stretch(&b, s, done, s->bytes))
        return false;
    *s = marked_builder_done(&b);
    return true;
}

static bool normalize_bytes(struct encode *e, struct marked_text *s)
{
    struct marked_builder b;
    if (!marked_builder_init(&b, e, s->bytes * 2, s->plain != NULL))
        return false;
    for (size_t i = 0; i < s->bytes; i++)
        if (!marked_builder_put_char(&b, byte_char((unsigned char)s->at[i]), plain_at(s, i)))
            return false;
    *s = marked_builder_done(&b);
    return true;
}

static bool normalize_one(struct encode *e, const struct normalizer *n, struct marked_text *s)
{
    static const struct mapper accents = {map_accents, byte_stays}, lower = {map_lower, not_upper},
                               nmt = {map_nmt, nmt_stays};
    switch (n->kind) {
    case NORMALIZE_LOWERCASE:
        return map_chars(e, n, &lower, s);
    case NORMALIZE_STRIP_ACCENTS:
        return map_chars(e, n, &accents, s);
    case NORMALIZE_NMT:
        return map_chars(e, n, &nmt, s);
    case NORMALIZE_STRIP:
        normalize_strip(n, s);
        return true;
    case NORMALIZE_PREPEND:
        return normalize_prepend(e, n->to, s);
    case NORMALIZE_REPLACE:
        return normalize_replace(e, n, s);
    case NORMALIZE_BERT:
        return normalize_bert(e, n, s);
    case NORMALIZE_PRECOMPILED:
        return normalize_charsmap(e, &n->map, s);
    case NORMALIZE_BYTE_LEVEL:
        return normalize_bytes(e, s);
    default:
        return normalize_form(e, n->kind, s);
    }
}

bool normalize(struct encode *e, struct marked_text *s)
{
    for (uint32_t i = 0; i < e->t->normalizer_count; i++)
        if (s->bytes > 0 && !normalize_one(e, &e->t->normalizers[i], s))
            return false;
    return true;
}
