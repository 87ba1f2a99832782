// SPDX-License-Identifier: Apache-2.0
// Private header of the regular expression compiler: the tree that regex.c parses and regex_emit.c
// turns into expressions. All memory is in the parser's arena.
#pragma once

#include "base/arena.h"
#include "runtime/text/grammar/regex.h"

enum regex_kind {
    REGEX_CHARS,  // one character of the ranges
    REGEX_START,  // ^
    REGEX_END,    // $
    REGEX_JOIN,   // children in order; no child: the empty text
    REGEX_EITHER, // one of the children
    REGEX_REPEAT, // its only child, min to max times
};
struct regex_node {
    enum regex_kind kind;
    struct regex_node *child, *next; // first child; next sibling
    struct grammar_range *ranges;    // ordered, see runtime/grammar/ranges.h
    uint32_t range_count, min, max;
    size_t at;    // byte offset in the pattern
    bool anchors; // true if it contains ^ or $
};

// Cached characters of a \p{...}: finding them takes milliseconds.
struct regex_property {
    struct regex_property *next;
    uint32_t categories, count;
    bool invert;
    struct grammar_range *ranges;
};

struct regex_parser {
    struct grammar_builder *b; // its work limit is charged
    struct text in;
    size_t at; // read position in `in`
    unsigned depth;
    uint32_t groups;
    struct regex_property *properties;
    struct arena *arena;
    struct error *err;
};

// Growing list of code point ranges.
struct regex_set {
    struct grammar_range *at;
    uint32_t count;
    size_t capacity;
};
// Appends the range [first, last]. Returns false if the arena is full.
bool regex_set_add(struct regex_parser *p, struct regex_set *set, uint32_t first, uint32_t last);
// Completes the list: orders it and, if `invert`, replaces it by its complement. Returns false if
// the arena is full.
bool regex_set_end(struct regex_parser *p, struct regex_set *set, bool invert);

// regex_class.c. Parses the escape after a backslash at p->at and adds its characters to the set.
// *single: the code point if it is exactly one, else -1. bracket: true inside of [ ].
enum status regex_escape(struct regex_parser *p, bool bracket, struct regex_set *set,
                         int64_t *single);
// Parses a class; p->at is after the [ on entry and after the ] on return.
enum status regex_class(struct regex_parser *p, struct regex_set *set);

// regex.c. Sets the error "the pattern has WHAT at byte N" and returns the status.
enum status regex_refuse(struct regex_parser *p, enum status status, size_t at, const char *what);

// regex_emit.c. Sets *out to the expression of the parsed pattern. STATUS_UNSUPPORTED: ^ or $ in a
// counted repeat.
enum status regex_emit(struct grammar_builder *b, const struct regex_args *args,
                       const struct regex_node *root, uint32_t *out, struct error *err);
