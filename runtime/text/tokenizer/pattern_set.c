// SPDX-License-Identifier: Apache-2.0
// Writes sets of characters for PCRE2. PCRE2 has only unions: an intersection becomes lookaheads
// before a class. Categories are extended by the characters that PCRE2 does not know yet.
#include "runtime/text/tokenizer/pattern.h"

#include "runtime/text/tokenizer/unicode_tables.h"

#include <stdio.h>

enum { CATEGORY_CN = 0, CATEGORY_COUNT = 30 };

void pattern_put(struct pattern_text *t, const char *at, size_t bytes)
{
    t->full |= bytes > PATTERN_BYTES_MAX - t->bytes;
    if (bytes == 0 || t->full)
        return;
    if (t->bytes + bytes > t->capacity) {
        size_t capacity = (t->bytes + bytes) * 2 + 64;
        t->at = arena_grow(t->arena, t->at, t->capacity, capacity);
        check(t->at, "a pattern of over %zu bytes", t->bytes);
        t->capacity = capacity;
    }
    memcpy(t->at + t->bytes, at, bytes);
    t->bytes += bytes;
}

void pattern_put_string(struct pattern_text *t, const char *string)
{
    pattern_put(t, string, strlen(string));
}

void pattern_put_code(struct pattern_text *t, uint32_t code)
{
    char text[16];
    bool plain = (code >= '0' && code <= '9') || ((code | 0x20) >= 'a' && (code | 0x20) <= 'z');
    int bytes = snprintf(text, sizeof text, plain ? "%c" : "\\x{%x}", code);
    pattern_put(t, text, (size_t)bytes);
}

struct set *set_create(struct arena *arena)
{
    struct set *set = arena_alloc_zeroed(arena, 1, sizeof *set);
    check(set, "not enough memory for a set of characters");
    set->arena = arena;
    set->body.arena = arena;
    return set;
}

void set_add(struct set *set, struct set *member)
{
    if (set->last)
        set->last->next = member;
    else
        set->first = member;
    set->last = member;
    set->folds |= member->folds;
    set->cased |= member->cased;
}

void set_add_table_range(struct set *set, uint32_t first, uint32_t last)
{
    pattern_put_code(&set->body, first);
    if (last == first)
        return;
    pattern_put(&set->body, "-", 1);
    pattern_put_code(&set->body, last);
}

void set_add_range(struct set *set, uint32_t first, uint32_t last)
{
    set->folds |= last >= 0x80;
    set->cased |= first <= 'z' && last >= 'A';
    set_add_table_range(set, first, last);
}

// ---- categories

static void put_groups(struct pattern_text *out, uint32_t categories)
{
    static const char names[CATEGORY_COUNT][3] = {
        "Cn", "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps",
        "Pe", "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Co"};
    for (unsigned i = 0; i < CATEGORY_COUNT; i++) {
        if ((categories >> i & 1) == 0)
            continue;
        uint32_t group = 0;
        for (unsigned k = 0; k < CATEGORY_COUNT; k++)
            group |= (uint32_t)(names[k][0] == names[i][0]) << k;
        bool whole = (categories & group) == group;
        char text[8];
        int bytes = snprintf(text, sizeof text, whole ? "\\p{%.1s}" : "\\p{%s}", names[i]);
        pattern_put(out, text, (size_t)bytes);
        if (whole)
            categories &= ~group;
    }
}

// Writes the newer characters that are (in) or are not (!in) of these categories, as items of a
// class.
static void put_added(struct pattern_text *out, uint32_t categories, bool in)
{
    struct set ranges = {.arena = out->arena, .body = *out};
    for (uint32_t i = 0; i < unicode_added.count;) {
        const struct unicode_range *r = &unicode_added.ranges[i++];
        if ((categories >> r->value & 1) != in)
            continue;
        uint32_t last = r->last;
        while (i < unicode_added.count && unicode_added.ranges[i].first == last + 1 &&
               (categories >> unicode_added.ranges[i].value & 1) == in)
            last = unicode_added.ranges[i++].last;
        set_add_table_range(&ranges, r->first, last);
    }
    *out = ranges.body;
}

// True if PCRE2 puts characters into these categories that Unicode 16.0 puts elsewhere.
static bool loses_some(uint32_t categories)
{
    const uint32_t marks = 1u << 6 | 1u << 7; // U+1171E moved from Mn to Mc
    return (categories >> CATEGORY_CN & 1) != 0 || (categories & marks) == 1u << 6;
}

static void put_union_body(struct pattern_text *out, const struct set *set)
{
    put_groups(out, set->categories);
    pattern_put(out, set->body.at, set->body.bytes);
    out->full |= set->body.full;
    if (set->categories != 0)
        put_added(out, set->categories, true);
}

// ---- writing

static void put_class(struct pattern_text *out, const struct pattern_text *body, bool negated)
{
    if (body->bytes == 0) {
        pattern_put_string(out, negated ? "(?s:.)" : "(?!)");
        return;
    }
    pattern_put_string(out, negated ? "[^" : "[");
    pattern_put(out, body->at, body->bytes);
    pattern_put(out, "]", 1);
}

static void put_look(struct pattern_text *out, const char *open, const struct set *set)
{
    pattern_put_string(out, open);
    set_put(out, set);
    pattern_put(out, ")", 1);
}

// Writes an intersection: a lookahead for each member except one, which is matched last. With
// `negated` it matches a character that is not in all members.
static void put_intersection(struct pattern_text *out, const struct set *set)
{
    pattern_put_string(out, "(?:");
    if (set->negated)
        pattern_put_string(out, "(?!");
    const struct set *chosen = set->first;
    for (const struct set *m = set->first; m && chosen->negated; m = m->next)
        chosen = m; // a member that is not negated is best for the final match
    for (const struct set *m = set->first; m; m = m->next) {
        if (m == chosen)
            continue;
        struct set positive = *m;
        positive.negated = false;
        put_look(out, m->negated ? "(?!" : "(?=", &positive);
    }
    set_put(out, chosen);
    pattern_put_string(out, set->negated ? ")(?s:.))" : ")");
}

// Returns the union with a lookahead that excludes the characters that have left its categories.
static struct set *without_lost(const struct set *set)
{
    struct set *both = set_create(set->arena), *kept = set_create(set->arena);
    struct set *lost = set_create(set->arena), *rest = set_create(set->arena);
    both->intersection = true;
    kept->categories = set->categories;
    lost->negated = true;
    put_added(&lost->body, set->categories, false);
    set_add(both, lost);
    set_add(both, kept);
    kept->no_exclusions = true;
    *rest = *set;
    rest->categories = 0;
    rest->next = NULL;
    both->next = rest->first; // before the members of the set, which stay in their list
    rest->first = both;
    if (!rest->last)
        rest->last = both;
    return rest;
}

static void put_union(struct pattern_text *out, const struct set *set)
{
    struct pattern_text body = {.arena = out->arena};
    put_union_body(&body, set);
    out->full |= body.full;
    if (!set->first) {
        put_class(out, &body, set->negated);
        return;
    }
    if (body.bytes == 0 && set->first == set->last) {
        struct set only = *set->first;
        only.negated ^= set->negated;
        set_put(out, &only);
        return;
    }
    pattern_put_string(out, "(?:");
    if (body.bytes > 0 && !set->negated)
        put_class(out, &body, false);
    for (const struct set *m = set->first; m; m = m->next) {
        if (set->negated) {
            put_look(out, "(?!", m);
        } else {
            if (m != set->first || body.bytes > 0)
                pattern_put(out, "|", 1);
            set_put(out, m);
        }
    }
    if (set->negated)
        put_class(out, &body, true);
    pattern_put(out, ")", 1);
}

void set_put(struct pattern_text *out, const struct set *set)
{
    if (out->full)
        return;
    if (set->intersection)
        put_intersection(out, set);
    else if (loses_some(set->categories) && !set->no_exclusions)
        put_union(out, without_lost(set));
    else
        put_union(out, set);
}
