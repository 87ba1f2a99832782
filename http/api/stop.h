// Stop strings over a stream of text pieces. The leftmost match wins, then the longer, for which a
// shorter one waits; the longest end of the text that could still become a match is held back. What
// is found and which text comes out does not depend on where the stream was cut. Owner: one choice
// of one request, h2o thread.
#pragma once

#include "base/arena.h"

#include <stdbool.h>
#include <stdint.h>

enum { STOP_STRINGS_MAX = 64, STOP_BYTES_MAX = 256 };

struct stop_strings {
    uint32_t count;
    bool included;                         // what matched is part of the text
    struct text strings[STOP_STRINGS_MAX]; // none is empty, each at most STOP_BYTES_MAX bytes
};

struct stop_scan {
    const struct stop_strings *strings;
    char *window;      // held text, then the newest piece
    uint32_t *ordinal; // [window_max] which token gave each byte
    uint32_t window_max;
    uint32_t bytes; // in the window
    uint32_t given; // of them, returned by the last call
    bool found;
    uint32_t which;  // the string that matched
    uint32_t tokens; // ordinal of the token that completed the match
};

// piece_max: the most bytes one push brings. False: the arena's limit was met.
bool stop_scan_init(struct stop_scan *s, const struct stop_strings *strings, struct arena *arena,
                    uint32_t piece_max);

// Returns the text that is certain now, valid until the next call; ordinal: number of the token
// that brought the piece. Nothing may be pushed after a match was found.
struct text stop_scan_push(struct stop_scan *s, struct text piece, uint32_t ordinal);

// The text is over: what was held back comes out, cut at a match if there is one.
struct text stop_scan_finish(struct stop_scan *s);
