// Patterns of tokenizer files are written for Oniguruma (Ruby syntax, Unicode 16.0); PCRE2 matches
// them here. pattern.c reads such a pattern and writes one for PCRE2 that matches the same, or
// refuses it; pattern_set.c does sets of characters, pattern_names.c what \p{...} means. Everything
// lives in the caller's arena.
#pragma once

#include "base/status.h"
#include "base/arena.h"
#include "base/text.h"

#include <stdint.h>

// The pattern for PCRE2 (UTF, MULTILINE, newline LF, BSR UNICODE).
enum status pattern_translate(struct text *out, struct text pattern, struct arena *arena,
                              struct error *err) MUST_USE;

// ---- shared by pattern*.c

enum {
    PATTERN_BYTES_MAX = 16 << 20,             // of the text for PCRE2
    PATTERN_ROOM_MAX = 8 * PATTERN_BYTES_MAX, // of the arena, when a further piece is read
};

struct pattern_text { // grows in its arena
    struct arena *arena;
    char *at;
    size_t bytes, room;
    bool full; // something did not fit: the pattern is refused
};
void pattern_put(struct pattern_text *t, const char *at, size_t bytes);
void pattern_put_string(struct pattern_text *t, const char *string);
void pattern_put_code(struct pattern_text *t, uint32_t code); // as a literal, in and out of classes

// A set of characters: a union of ranges, properties and further sets, or an intersection of sets.
struct set {
    struct arena *arena;
    bool negated, intersection;
    bool as_it_is;            // categories as PCRE2 knows them, plus newer characters
    bool cased;               // holds letters of ASCII
    bool folds;               // holds others whose case PCRE2 would not take as Oniguruma does
    uint32_t categories;      // bits by the numbers of utf8proc
    struct pattern_text body; // items of a class of PCRE2
    struct set *first, *last, *next; // members, and the next member of the set this one is in
};
struct set *set_create(struct arena *arena);
void set_add(struct set *set, struct set *member);
void set_add_range(struct set *set, uint32_t first, uint32_t last);
void set_add_table_range(struct set *set, uint32_t first, uint32_t last); // never folds
// What stands in \p{...}, without ^; false: no such property here. bracket: inside [...].
bool set_add_property(struct set *set, struct text name, bool bracket);
bool set_add_posix(struct set *set, struct text name);           // [:name:]
bool set_add_letter(struct set *set, char letter, bool bracket); // d s w h
void set_put(struct pattern_text *out, const struct set *set);
