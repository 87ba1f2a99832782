// SPDX-License-Identifier: Apache-2.0
// Stop strings: see choice.h. generation.c counts the tokens and cancels the choice.
#include "http/api/choice.h"

#include "base/status.h"

#include <string.h>

bool stop_scan_init(struct stop_scan *s, const struct stop_strings *strings, struct arena *arena,
                    uint32_t piece_max)
{
    uint32_t max = STOP_BYTES_MAX + piece_max;
    *s = (struct stop_scan){.strings = strings, .window_max = max};
    if (strings->count == 0)
        return true;
    s->window = arena_alloc(arena, max);
    s->ordinal = arena_alloc(arena, max * sizeof s->ordinal[0]);
    return s->window && s->ordinal;
}

enum here { HERE_NOTHING, HERE_POSSIBLE, HERE_MATCH };

// Classifies position `at` of the window: HERE_MATCH if a string matches here (*which is the
// longest) and no longer one is possible; HERE_POSSIBLE if a string could still match when more
// text arrives; else HERE_NOTHING. last: no more text arrives.
static enum here stop_scan_at(const struct stop_scan *s, uint32_t at, bool last, uint32_t *which)
{
    size_t longest = 0;
    bool possible = false;
    for (uint32_t i = 0; i < s->strings->count; i++) {
        struct text string = s->strings->strings[i];
        size_t left = s->bytes - at;
        size_t common = string.bytes < left ? string.bytes : left;
        if (memcmp(s->window + at, string.at, common) != 0)
            continue;
        if (common < string.bytes) {
            possible = true;
        } else if (string.bytes > longest) {
            longest = string.bytes;
            *which = i;
        }
    }
    if (possible && !last)
        return HERE_POSSIBLE;
    return longest > 0 ? HERE_MATCH : HERE_NOTHING;
}

static struct text stop_scan_release(struct stop_scan *s, bool last)
{
    uint32_t at = 0, which = 0;
    enum here here = HERE_NOTHING;
    for (; at < s->bytes; at++) {
        here = stop_scan_at(s, at, last, &which);
        if (here != HERE_NOTHING)
            break;
    }
    if (at < s->bytes && here == HERE_MATCH) {
        s->found = true;
        s->which = which;
        size_t end = at + s->strings->strings[which].bytes;
        s->tokens = s->ordinal[end - 1];
        at = s->strings->included ? (uint32_t)end : at;
    }
    s->returned = at;
    return text_span(s->window, at);
}

// Removes the bytes that the last call returned.
static void stop_scan_advance(struct stop_scan *s)
{
    s->bytes -= s->returned;
    memmove(s->window, s->window + s->returned, s->bytes);
    memmove(s->ordinal, s->ordinal + s->returned, s->bytes * sizeof s->ordinal[0]);
    s->returned = 0;
}

struct text stop_scan_push(struct stop_scan *s, struct text piece, uint32_t ordinal)
{
    check(!s->found, "text after the stop string %u", s->which);
    if (s->strings->count == 0)
        return piece;
    stop_scan_advance(s);
    check(piece.bytes <= s->window_max - s->bytes, "a piece of %zu bytes, space for %u",
          piece.bytes, s->window_max - s->bytes);
    if (piece.bytes > 0)
        memcpy(s->window + s->bytes, piece.at, piece.bytes);
    for (size_t i = 0; i < piece.bytes; i++)
        s->ordinal[s->bytes + i] = ordinal;
    s->bytes += (uint32_t)piece.bytes;
    return stop_scan_release(s, false);
}

struct text stop_scan_finish(struct stop_scan *s)
{
    if (s->strings->count == 0 || s->found)
        return (struct text){0};
    stop_scan_advance(s);
    return stop_scan_release(s, true);
}
