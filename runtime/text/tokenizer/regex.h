// Regular expressions of tokenizer files, over PCRE2 with JIT. The reference library reads them
// with another engine, so classes whose meaning differs are rewritten first.
#pragma once

#include "base/status.h"
#include "base/arena.h"
#include "base/text.h"

#include <stddef.h>

struct regex;

enum status regex_open(struct regex **out, struct text pattern, struct error *err) MUST_USE;
void regex_close(struct regex *regex); // NULL is allowed
// What one thread needs to match with any regex; lives as long as the arena.
struct regex_room;
struct regex_room *regex_room_create(struct arena *arena); // NULL: the arena is full

// The next match at or after from in valid UTF-8.
struct regex_span {
    size_t start, end;
};
enum regex_found {
    REGEX_NONE,
    REGEX_FOUND,
    REGEX_OVER, // the search was given up: so many ways were tried that the library gives up, too
};
enum regex_found regex_find(const struct regex *regex, struct regex_room *room, struct text text,
                            size_t from, struct regex_span *out);
