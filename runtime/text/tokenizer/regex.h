// SPDX-License-Identifier: Apache-2.0
// Regular expressions of tokenizer files, matched by PCRE2 with JIT, and where that runs out of
// stack by a matcher of weft. The reference library uses Oniguruma, so pattern.h first translates
// the pattern to one with the same meaning.
#pragma once

#include "base/status.h"
#include "base/arena.h"
#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct regex;

// Compiles a pattern. STATUS_UNSUPPORTED: it cannot be translated or compiled.
enum status regex_create(struct regex **out, struct text pattern, struct error *err) MUST_USE;
void regex_destroy(struct regex *regex); // NULL is allowed
// Match memory of one thread, for use with any regex; lives as long as the arena.
struct regex_scratch;
struct regex_scratch *regex_scratch_create(struct arena *arena); // NULL: the arena is full

// A match: the bytes [start, end) of the text.
struct regex_span {
    size_t start, end;
};
enum regex_found {
    REGEX_NONE,
    REGEX_FOUND,
    REGEX_LIMIT, // the search was abandoned at the match or heap limit (10 million tries, as in
                 // Oniguruma)
};
// Finds the first match at or after byte `from` of a text in valid UTF-8. The first search in a
// text begins with from == 0. If backtracking needs more stack than PCRE2's JIT has, as for a run
// of thousands of characters, another matcher finds the same match in linear time
// (regex_linear.h).
enum regex_found regex_find(const struct regex *regex, struct regex_scratch *scratch,
                            struct text text, size_t from, struct regex_span *out);
// Returns the number of instructions that the linear matcher has run.
uint64_t regex_steps(const struct regex_scratch *scratch);

// For tests: whether the pattern has a linear program, and a search with it in place of PCRE2.
bool regex_is_linear(const struct regex *regex);
enum regex_found regex_find_linear(const struct regex *regex, struct regex_scratch *scratch,
                                   struct text text, size_t from, struct regex_span *out);
