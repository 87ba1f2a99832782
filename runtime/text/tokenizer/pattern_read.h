// What pattern.c and pattern_class.c share while they read a pattern.
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
    bool caseless, extended, dot_all; // (?i), (?x), (?m)
    bool captures, named;             // groups must be counted; some have names
    bool empty;                       // what was read last, a piece or a group, may be empty
    uint32_t letter_before;           // under (?i) the letter before this one
};

// What a backslash and the letters after it mean: a character, or a set.
struct escape {
    struct set *set;
    uint32_t code;
};

enum status pattern_refuse(struct pattern *p, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
bool pattern_is_over(const struct pattern *p); // the pattern takes more than it may
enum status pattern_refuse_size(struct pattern *p);
bool pattern_next_is(const struct pattern *p, const char *what);
// at: from the backslash to after the escape.
enum status pattern_escape(struct pattern *p, bool bracket, struct escape *out);
// at: from after the [ to after the ].
enum status pattern_class(struct pattern *p, struct set **out);
