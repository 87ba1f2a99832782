// SPDX-License-Identifier: Apache-2.0
// NFC, NFD, NFKC and NFKD. The text is split into runs: a base character and the characters after
// it that could combine with it. Each run is decomposed, its marks are sorted, and it is composed
// again. Runs of any length take near-linear time.
#include "runtime/text/tokenizer/internal.h"

#include <utf8proc.h>

enum { RUN_SHORT = 64, DECOMPOSED_MAX = 32 };

static unsigned order_of(int32_t c)
{
    return c < 0x300 || char_is_inert((uint32_t)c) ? 0 : utf8proc_get_property(c)->combining_class;
}

// Sorts the marks between two characters of class 0 by combining class; stable.
static void sort_marks(int32_t *marks, size_t count, int32_t *copy)
{
    if (count < 24) {
        for (size_t i = 1; i < count; i++) {
            int32_t c = marks[i];
            size_t k = i;
            for (; k > 0 && order_of(marks[k - 1]) > order_of(c); k--)
                marks[k] = marks[k - 1];
            marks[k] = c;
        }
        return;
    }
    size_t starts[257] = {0};
    for (size_t i = 0; i < count; i++)
        starts[order_of(marks[i]) + 1]++;
    for (size_t i = 1; i < 257; i++)
        starts[i] += starts[i - 1];
    memcpy(copy, marks, count * sizeof *marks);
    for (size_t i = 0; i < count; i++)
        marks[starts[order_of(copy[i])]++] = copy[i];
}

static void order_marks(int32_t *chars, size_t count, int32_t *copy)
{
    for (size_t i = 0; i < count;) {
        if (order_of(chars[i]) == 0) {
            i++;
            continue;
        }
        size_t end = i;
        while (end < count && order_of(chars[end]) != 0)
            end++;
        sort_marks(chars + i, end - i, copy);
        i = end;
    }
}

struct form {
    utf8proc_option_t decompose;
    bool compose;
};

static struct form form_of(enum normalizer_kind kind)
{
    bool compat = kind == NORMALIZE_NFKC || kind == NORMALIZE_NFKD;
    return (struct form){UTF8PROC_DECOMPOSE | (compat ? UTF8PROC_COMPAT : 0),
                         kind == NORMALIZE_NFC || kind == NORMALIZE_NFKC};
}

// Writes the decomposition of c; returns the number of characters.
static size_t char_decompose(uint32_t c, struct form form, int32_t out[DECOMPOSED_MAX])
{
    int last_class = 0;
    utf8proc_ssize_t made = -1;
    if (!char_is_inert(c))
        made =
            utf8proc_decompose_char((int32_t)c, out, DECOMPOSED_MAX, form.decompose, &last_class);
    if (made >= 0 && made <= DECOMPOSED_MAX)
        return (size_t)made;
    out[0] = (int32_t)c;
    return 1;
}

// True if the decomposition of c can begin with a character that combines with the one before.
static bool combines_back(uint32_t c, struct form form)
{
    if (c < 0x300 || char_is_inert(c))
        return false;
    const utf8proc_property_t *p = utf8proc_get_property((utf8proc_int32_t)c);
    if (p->decomp_type != 0 && (form.decompose & UTF8PROC_COMPAT) != 0) {
        int32_t parts[DECOMPOSED_MAX];
        (void)char_decompose(c, form, parts);
        c = (uint32_t)parts[0];
        p = utf8proc_get_property(parts[0]);
    }
    // Vowels and finals of Hangul. U+11A7 is neither; utf8proc would drop it after a syllable.
    return (c >= 0x1160 && c <= 0x11FF && c != 0x11A7) || p->combining_class != 0 ||
           (p->category >= UTF8PROC_CATEGORY_MN && p->category <= UTF8PROC_CATEGORY_ME);
}

// Composes in place; returns the new count. An inert character (char_is_inert) can only be the
// first and is not composed.
static size_t chars_compose(int32_t *chars, size_t count)
{
    size_t kept = count > 0 && char_is_inert((uint32_t)chars[0]);
    utf8proc_ssize_t composed = utf8proc_normalize_utf32(
        chars + kept, (utf8proc_ssize_t)(count - kept), UTF8PROC_COMPOSE | UTF8PROC_STABLE);
    return composed >= 0 ? kept + (size_t)composed : count;
}

// Appends the run s[start..end) in `form`.
static bool put_run(struct marked_builder *b, const struct marked_text *s, size_t start, size_t end,
                    struct form form)
{
    int32_t short_run[RUN_SHORT * 2];
    // A character becomes at most six characters per byte of its UTF-8.
    size_t capacity = (end - start) * 6 + DECOMPOSED_MAX;
    int32_t *chars = short_run, *copy = short_run + RUN_SHORT;
    if (capacity > RUN_SHORT) {
        chars = (int32_t *)encode_scratch(b->e, 0, capacity * 2);
        if (!chars)
            return false;
        copy = chars + capacity;
    }
    size_t count = 0;
    uint8_t plain = 0;
    for (size_t i = start; i < end;) {
        size_t bytes;
        count += char_decompose(utf8_read(s->at + i, &bytes), form, chars + count);
        plain |= plain_at(s, i);
        i += bytes;
    }
    order_marks(chars, count, copy);
    if (form.compose)
        count = chars_compose(chars, count);
    for (size_t i = 0; i < count; i++)
        if (!marked_builder_put_char(b, (uint32_t)chars[i], plain))
            return false;
    return true;
}

bool normalize_form(struct encode *e, enum normalizer_kind kind, struct marked_text *s)
{
    struct form form = form_of(kind);
    size_t ascii = 0;
    while (ascii < s->bytes && (unsigned char)s->at[ascii] < 0x80)
        ascii++;
    if (ascii == s->bytes)
        return true;
    struct marked_builder b;
    if (!marked_builder_init(&b, e, s->bytes, s->plain != NULL))
        return false;
    for (size_t start = 0; start < s->bytes;) {
        size_t bytes;
        uint32_t c = utf8_read(s->at + start, &bytes);
        size_t end = start + bytes;
        bool alone = true;
        while (end < s->bytes && (unsigned char)s->at[end] >= 0xCC &&
               combines_back(utf8_read(s->at + end, &bytes), form)) {
            end += bytes;
            alone = false;
        }
        // Below U+00A0 nothing decomposes; below U+0300 NFC changes nothing.
        bool stays = alone && c < (kind == NORMALIZE_NFC ? 0x300 : 0xA0);
        if (stays ? !marked_builder_put(&b, s->at + start, end - start, plain_at(s, start))
                  : !put_run(&b, s, start, end, form))
            return false;
        start = end;
    }
    *s = marked_builder_done(&b);
    return true;
}
