// SPDX-License-Identifier: Apache-2.0
// Sorting, joining and inverting lists of code points.
#include "runtime/grammar/ranges.h"

#include <stdlib.h>
#include <string.h>

enum { SURROGATE_FIRST = 0xD800, SURROGATE_LAST = 0xDFFF, POINT_MAX = 0x10FFFF };

static int compare_ranges(const void *x, const void *y)
{
    const struct grammar_range *a = x, *b = y;
    return (a->first > b->first) - (a->first < b->first);
}

// Appends a range to an ordered list; the range begins no earlier than the last one of the list.
static uint32_t range_add(struct grammar_range *ranges, uint32_t count, uint32_t first,
                          uint32_t last)
{
    if (first > last)
        return count;
    if (count > 0 && first <= ranges[count - 1].last + 1) {
        if (last > ranges[count - 1].last)
            ranges[count - 1].last = last;
        return count;
    }
    ranges[count] = (struct grammar_range){first, last};
    return count + 1;
}

// Removes surrogates from an ordered list. At most one range is split in two.
static uint32_t surrogates_cut(struct grammar_range *ranges, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct grammar_range one = ranges[i], parts[2];
        if (one.last < SURROGATE_FIRST || one.first > SURROGATE_LAST)
            continue;
        uint32_t kept = 0;
        if (one.first < SURROGATE_FIRST)
            parts[kept++] = (struct grammar_range){one.first, SURROGATE_FIRST - 1};
        if (one.last > SURROGATE_LAST)
            parts[kept++] = (struct grammar_range){SURROGATE_LAST + 1, one.last};
        memmove(ranges + i + kept, ranges + i + 1, (count - i - 1) * sizeof *ranges);
        memcpy(ranges + i, parts, kept * sizeof *ranges);
        return surrogates_cut(ranges + i + kept, count - i - 1) + i + kept;
    }
    return count;
}

uint32_t ranges_order(struct grammar_range *ranges, uint32_t count)
{
    uint32_t kept = 0;
    qsort(ranges, count, sizeof *ranges, compare_ranges);
    for (uint32_t i = 0; i < count; i++) {
        struct grammar_range one = ranges[i];
        kept = range_add(ranges, kept, one.first, one.last < POINT_MAX ? one.last : POINT_MAX);
    }
    return surrogates_cut(ranges, kept);
}

uint32_t ranges_invert(const struct grammar_range *ranges, uint32_t count,
                       struct grammar_range *out)
{
    uint32_t from = 0, kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (ranges[i].first > from)
            kept = range_add(out, kept, from, ranges[i].first - 1);
        from = ranges[i].last + 1;
    }
    kept = range_add(out, kept, from, POINT_MAX);
    return surrogates_cut(out, kept);
}
