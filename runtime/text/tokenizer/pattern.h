// SPDX-License-Identifier: Apache-2.0
// Translates patterns of tokenizer files from Oniguruma (Ruby syntax, Unicode 16.0) to PCRE2.
// pattern.c reads a pattern and writes one for PCRE2 with the same matches, or refuses it;
// pattern_class.c reads [...], pattern_escape.c reads escapes, pattern_set.c writes sets of
// characters, and pattern_names.c knows what \p{...} means. All memory is in the caller's arena.
#pragma once

#include "base/status.h"
#include "base/arena.h"
#include "base/text.h"

#include <stdint.h>

// Writes the pattern for PCRE2 (options: UTF, MULTILINE, newline LF, BSR UNICODE).
// STATUS_UNSUPPORTED: it has no exact translation; err names the reason and the byte offset.
enum status pattern_translate(struct text *out, struct text pattern, struct arena *arena,
                              struct error *err) MUST_USE;

// ---- shared by pattern*.c

enum {
    PATTERN_BYTES_MAX = 16 << 20,              // of the pattern written for PCRE2
    PATTERN_ARENA_MAX = 8 * PATTERN_BYTES_MAX, // of the arena, checked before each piece is read
};

// Text that grows in its arena.
struct pattern_text {
    struct arena *arena;
    char *at;
    size_t bytes, capacity;
    bool full; // true if PATTERN_BYTES_MAX was exceeded: the pattern is refused
};
void pattern_put(struct pattern_text *t, const char *at, size_t bytes);
void pattern_put_string(struct pattern_text *t, const char *string);
// Writes a character as a literal, valid inside and outside of [...].
void pattern_put_code(struct pattern_text *t, uint32_t code);

// A set of characters: the union of its ranges, categories and member sets, or the intersection of
// its members.
struct set {
    struct arena *arena;
    bool negated, intersection;
    bool no_exclusions; // true: categories are written as PCRE2 defines them, plus newer characters
                        // (see without_lost)
    bool cased;         // true if it contains ASCII letters
    bool folds;         // true if PCRE2 might fold the case of a member differently from Oniguruma
    uint32_t categories;      // bit per general category, numbered as in utf8proc
    struct pattern_text body; // ranges and properties as items of a PCRE2 class
    // members, and the next member of the set that contains this one
    struct set *first, *last, *next;
};
struct set *set_create(struct arena *arena);
void set_add(struct set *set, struct set *member);
void set_add_range(struct set *set, uint32_t first, uint32_t last);
// Adds a range without setting cased or folds.
void set_add_table_range(struct set *set, uint32_t first, uint32_t last);
// Adds the property of \p{name} (name without ^). Returns false if it is unknown. bracket: the
// escape is inside [...].
bool set_add_property(struct set *set, struct text name, bool bracket);
// Adds the POSIX class [:name:]. Returns false if it is unknown.
bool set_add_posix(struct set *set, struct text name);
// Adds the set of \d, \s, \w or \h. Returns false for another letter.
bool set_add_letter(struct set *set, char letter, bool bracket);
// Writes the set as one PCRE2 item.
void set_put(struct pattern_text *out, const struct set *set);
