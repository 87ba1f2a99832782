// Searches stop strings in text that arrives in pieces. The leftmost match wins; of several matches
// there, the longest, so a shorter match waits while a longer one is possible. The scanner holds
// back the longest tail of the text that could still become a match. The result does not depend on
// how the text was split. Owner: one choice of one request, on its h2o thread.
#pragma once

#include "base/arena.h"

#include <stdbool.h>
#include <stdint.h>

enum { STOP_STRINGS_MAX = 64, STOP_BYTES_MAX = 256 };

struct stop_strings {
    uint32_t count;
    bool included;                         // true if the matched string stays in the text
    struct text strings[STOP_STRINGS_MAX]; // none is empty, each at most STOP_BYTES_MAX bytes
};

struct stop_scan {
    const struct stop_strings *strings;
    char *window;      // text held back, then the newest piece
    uint32_t *ordinal; // [window_max] number of the token that produced each byte
    uint32_t window_max;
    uint32_t bytes;    // number of bytes in the window
    uint32_t returned; // number of these bytes that the last call returned
    bool found;
    uint32_t which;  // index of the string that matched
    uint32_t tokens; // ordinal of the token that completed the match
};

// Initializes a scanner. piece_max: maximum bytes of a piece. Returns false if the arena is full.
bool stop_scan_init(struct stop_scan *s, const struct stop_strings *strings, struct arena *arena,
                    uint32_t piece_max);

// Adds a piece and returns the text that can no longer be part of a match, valid until the next
// call. ordinal: number of the token that produced the piece. Must not be called after a match.
struct text stop_scan_push(struct stop_scan *s, struct text piece, uint32_t ordinal);

// The text is complete: returns the text held back, cut off at a match if there is one.
struct text stop_scan_finish(struct stop_scan *s);
