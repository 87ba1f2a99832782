// SPDX-License-Identifier: Apache-2.0
// Code points as UTF-8, and lists of strings: both become trees of bytes that share equal parts.
#include "runtime/grammar/internal.h"
#include "runtime/grammar/ranges.h"

#include "base/arena.h"

#include <stdlib.h>
#include <string.h>

enum { TAIL = 64 };

// An ordered list of ranges, see ranges.h.
struct ranges {
    struct grammar_range *at;
    uint32_t count;
};

// How many of the code points first..last are in the ranges: 0: none, 1: all, 2: some.
static int ranges_cover(const struct ranges *r, uint32_t first, uint32_t last)
{
    uint32_t low = 0, high = r->count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (r->at[middle].last < first)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == r->count || r->at[low].first > last)
        return 0;
    return r->at[low].first <= first && r->at[low].last >= last ? 1 : 2;
}

// Any `bytes` continuation bytes.
static uint32_t utf8_tail(struct grammar_builder *b, uint32_t bytes)
{
    if (b->utf8_tails[bytes] == GRAMMAR_NOTHING)
        b->utf8_tails[bytes] =
            grammar_join(b, grammar_byte(b, 0x80, 0xBF), utf8_tail(b, bytes - 1));
    return b->utf8_tails[bytes];
}

// Alternatives that each consist of one byte and an expression; bytes with the same expression
// share a set.
struct branches {
    uint32_t then[TAIL];
    uint32_t set[TAIL][SET_WORDS];
    uint32_t count;
};

static void branch_add(struct branches *br, uint32_t byte, uint32_t then)
{
    uint32_t i = 0;
    if (then == GRAMMAR_NOTHING)
        return;
    while (i < br->count && br->then[i] != then)
        i++;
    if (i == br->count) {
        br->then[br->count++] = then;
        memset(br->set[i], 0, sizeof br->set[i]);
    }
    br->set[i][byte / 32] |= 1u << (byte % 32);
}

static uint32_t branches_end(struct grammar_builder *b, const struct branches *br)
{
    uint32_t result = GRAMMAR_NOTHING;
    for (uint32_t i = 0; i < br->count; i++)
        result = grammar_either(b, result,
                                grammar_join(b, grammar_byte_set(b, br->set[i]), br->then[i]));
    return result;
}

// The code points base..base + 64^bytes - 1 that are in the ranges and not below `least`, as this
// number of continuation bytes.
static uint32_t tail_of(struct grammar_builder *b, const struct ranges *r, uint32_t base,
                        uint32_t bytes, uint32_t least)
{
    uint32_t last = base + (1u << (6 * bytes)) - 1;
    int cover = last < least ? 0 : ranges_cover(r, base > least ? base : least, last);
    if (cover == 0 || grammar_failed(b))
        return GRAMMAR_NOTHING;
    if (cover == 1 && base >= least)
        return utf8_tail(b, bytes);
    struct branches br = {.count = 0};
    for (uint32_t i = 0; i < TAIL; i++)
        branch_add(&br, 0x80 + i, tail_of(b, r, base + (i << (6 * (bytes - 1))), bytes - 1, least));
    return branches_end(b, &br);
}

static uint32_t chars_of(struct grammar_builder *b, const struct ranges *r)
{
    static const struct {
        // first and last lead byte, continuation bytes, smallest code point (no overlong forms)
        uint32_t lead, last, bytes, least;
    } forms[] = {{0xC0, 0xDF, 1, 0x80}, {0xE0, 0xEF, 2, 0x800}, {0xF0, 0xF4, 3, 0x10000}};
    uint32_t ascii[SET_WORDS] = {0};
    for (uint32_t c = 0; c < 0x80; c++)
        if (ranges_cover(r, c, c) == 1)
            ascii[c / 32] |= 1u << (c % 32);
    uint32_t result = grammar_byte_set(b, ascii);
    for (int f = 0; f < 3; f++) {
        struct branches br = {.count = 0};
        for (uint32_t lead = forms[f].lead; lead <= forms[f].last; lead++) {
            uint32_t base = (lead - forms[f].lead) << (6 * forms[f].bytes);
            branch_add(&br, lead, tail_of(b, r, base, forms[f].bytes, forms[f].least));
        }
        result = grammar_either(b, result, branches_end(b, &br));
    }
    return result;
}

static uint32_t chars_expr(struct grammar_builder *b, const struct grammar_range *ranges,
                           uint32_t count, bool invert)
{
    struct grammar_range *at = heap_alloc((2 * (size_t)count + 8) * sizeof *at);
    if (count > 0)
        memcpy(at, ranges, count * sizeof *ranges);
    grammar_spend(b, 200 + 8 * (uint64_t)count);
    struct ranges r = {at, ranges_order(at, count)};
    if (invert) {
        r.at = at + count + 2;
        r.count = ranges_invert(at, r.count, r.at);
    }
    uint32_t result = grammar_failed(b) ? GRAMMAR_NOTHING : chars_of(b, &r);
    heap_free(at);
    return result;
}

uint32_t grammar_chars(struct grammar_builder *b, const struct grammar_range *ranges,
                       uint32_t count)
{
    return chars_expr(b, ranges, count, false);
}

uint32_t grammar_chars_except(struct grammar_builder *b, const struct grammar_range *ranges,
                              uint32_t count)
{
    return chars_expr(b, ranges, count, true);
}

static int compare_texts(const void *x, const void *y)
{
    const struct text *a = x, *b = y;
    size_t bytes = a->bytes < b->bytes ? a->bytes : b->bytes;
    int order = bytes > 0 ? memcmp(a->at, b->at, bytes) : 0;
    return order != 0 ? order : (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

// Matches one of the strings, from byte `from` on. The strings are sorted and their first `from`
// bytes are equal.
static uint32_t choice_of(struct grammar_builder *b, const struct text *sorted, uint32_t count,
                          size_t from)
{
    struct text first = sorted[0], last = sorted[count - 1];
    size_t common = from;
    while (common < first.bytes && common < last.bytes && first.at[common] == last.at[common])
        common++;
    uint32_t branches = GRAMMAR_NOTHING, i = 0;
    while (i < count && sorted[i].bytes == common)
        i++;
    bool ends = i > 0;
    for (uint32_t end = i; i < count && !grammar_failed(b); i = end) {
        while (end < count && sorted[end].at[common] == sorted[i].at[common])
            end++;
        branches = grammar_either(b, branches, choice_of(b, sorted + i, end - i, common));
    }
    if (ends)
        branches = grammar_optional(b, branches);
    return grammar_join(b, grammar_literal(b, text_span(first.at + from, common - from)), branches);
}

uint32_t grammar_choice(struct grammar_builder *b, const struct text *strings, uint32_t count)
{
    if (count == 0 || !grammar_spend(b, 16 * (uint64_t)count))
        return GRAMMAR_NOTHING;
    struct text *sorted = heap_alloc(count * sizeof *sorted);
    memcpy(sorted, strings, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, compare_texts);
    uint32_t result = choice_of(b, sorted, count, 0);
    heap_free(sorted);
    return result;
}
