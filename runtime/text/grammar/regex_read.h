// The inside of regular expressions: what the parser makes and regex_emit.c turns into a grammar.
#pragma once

#include "base/arena.h"
#include "runtime/text/grammar/regex.h"

enum regex_kind {
    REGEX_CHARS,  // one of the ranges
    REGEX_START,  // ^
    REGEX_END,    // $
    REGEX_JOIN,   // the list of children in order; none: the empty text
    REGEX_EITHER, // one of the list
    REGEX_REPEAT, // the one child
};
struct regex_node {
    enum regex_kind kind;
    struct regex_node *child, *next; // first of a list; the next of the same list
    struct grammar_range *ranges;    // ordered
    uint32_t range_count, min, max;
    size_t at;    // in the pattern
    bool anchors; // ^ or $ is in it
};

// A \p{...} that was read before: finding its characters takes milliseconds.
struct regex_property {
    struct regex_property *next;
    uint32_t categories, count;
    bool invert;
    struct grammar_range *ranges;
};

struct regex_parser {
    struct grammar_builder *b; // for its work
    struct text in;
    size_t at;
    unsigned depth;
    uint32_t groups;
    struct regex_property *properties;
    struct arena *arena;
    struct error *err;
};

// A growing list of code points.
struct regex_set {
    struct grammar_range *at;
    uint32_t count;
    size_t capacity;
};
bool regex_set_add(struct regex_parser *p, struct regex_set *set, uint32_t first, uint32_t last);
// Ends the list: ordered and, where asked, inverted. False: the arena is full.
bool regex_set_end(struct regex_parser *p, struct regex_set *set, bool invert);

// regex_class.c. at: after the backslash; what it stands for joins the set. *single: the one code
// point that it is, or -1. bracket: inside [ ].
enum status regex_escape(struct regex_parser *p, bool bracket, struct regex_set *set,
                         int64_t *single);
// at: after the [, moves past the ].
enum status regex_class(struct regex_parser *p, struct regex_set *set);

// regex.c. "the pattern has WHAT at byte N", with the status.
enum status regex_refuse(struct regex_parser *p, enum status status, size_t at, const char *what);

// regex_emit.c
enum status regex_emit(struct grammar_builder *b, const struct regex_args *args,
                       const struct regex_node *root, uint32_t *out, struct error *err);
