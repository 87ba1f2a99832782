// SPDX-License-Identifier: Apache-2.0
// The state of a pattern that is being read, shared by pattern.c, pattern_class.c and
// pattern_escape.c.
#pragma once

#include "runtime/text/tokenizer/pattern.h"
#include "runtime/text/tokenizer/unicode.h"

enum { PATTERN_DEPTH_MAX = 60 };

struct pattern {
    struct text in;
    size_t at;
    struct arena *arena;
    struct pattern_text out;
    struct error *err;
    unsigned depth;
    bool caseless, extended, dot_all; // options (?i), (?x), (?m) in force
    bool captures, named;   // groups must capture (for back references); some group is named
    bool empty;             // true if the last piece or group read can match the empty string
    uint32_t letter_before; // previous ASCII letter under (?i), in lower case; 0: none
};

// The meaning of an escape: a set, or if that is NULL a character.
struct escape {
    struct set *set;
    uint32_t code;
};

// Fills p->err with the pattern, the reason and the offset; returns STATUS_UNSUPPORTED.
enum status pattern_refuse(struct pattern *p, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
bool pattern_is_too_large(const struct pattern *p); // true if a size limit is exceeded
enum status pattern_refuse_size(struct pattern *p);
// True if the rest of the pattern begins with `what`.
bool pattern_next_is(const struct pattern *p, const char *what);
// Reads an escape. p->at moves from the backslash to after the escape. bracket: inside [...].
enum status pattern_escape(struct pattern *p, bool bracket, struct escape *out);
// Reads a class. p->at moves from after its [ to after its ].
enum status pattern_class(struct pattern *p, struct set **out);
