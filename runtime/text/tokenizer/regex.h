// Regular expressions of tokenizer files, over PCRE2 with JIT. The reference library reads them
// with another engine, so classes whose meaning differs are rewritten first. Matching has a limit
// and never fails: where the limit is met, nothing matches.
#pragma once

#include "base/status.h"
#include "base/arena.h"
#include "base/text.h"

#include <stdbool.h>
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
bool regex_find(const struct regex *regex, struct regex_room *room, struct text text, size_t from,
                struct regex_span *out);
