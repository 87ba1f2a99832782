// SPDX-License-Identifier: Apache-2.0
// The schema compiler: sites (subschemas), literals (a site or its negation), sets of literals
// (conjunctions) and alternatives (a set after all choices are made). Private to it.
#pragma once

#include "base/arena.h"
#include "runtime/text/grammar/schema.h"
#include "runtime/text/grammar/schema_memo.h"

enum {
    LITERAL_NOT = 1,   // the negation of the site
    LITERAL_PLAIN = 2, // without its $ref, allOf, anyOf and so on
    LITERAL_SITE = 4,  // factor of the site's number
};

enum {
    TYPE_NULL = 1,
    TYPE_FALSE = 2,
    TYPE_TRUE = 4,
    TYPE_INTEGER = 8,
    TYPE_FRACTION = 16, // numbers that are not integers
    TYPE_STRING = 32,
    TYPE_ARRAY = 64,
    TYPE_OBJECT = 128,
    TYPE_NUMBER = TYPE_INTEGER | TYPE_FRACTION,
    TYPE_ANY = 255,
};

struct schema_site {
    const json_t *value;
    uint32_t resource; // index in schema.resources
    bool synthetic;  // true if the compiler created it; only then keywords that begin with ! count
    uint32_t parent; // its JSON pointer, /keyword and /key are the pointer of this site
    const char *keyword; // NULL: `key` is appended to the pointer unchanged
    struct text key;     // at NULL: none
};
enum { POINTER_BYTES_MAX = 300 }; // limit in sentences and names of rules

// Part of a document that has a URI ($id).
struct schema_resource {
    struct text uri;
    uint32_t site;
};
struct schema_anchor {
    struct text name;
    uint32_t resource, site;
    bool dynamic;
};

// A subschema that applies in an alternative.
struct entry {
    const struct entry *next;   // entry added before this one
    const struct entry *parent; // entry that added it by $ref, allOf, ...; NULL: a literal
    uint32_t site;
    bool silent; // true under a negation: does not count as evaluating for unevaluated*
};
struct fork;
struct alternative {
    uint32_t types;
    const struct entry *entries; // newest first
    const struct entry *negated; // literals whose negation was expanded, to detect loops
    const struct fork *forks;    // choices, newest first
    uint32_t fork_count;         // number of choices already made
};

struct literals {
    uint32_t *at;
    size_t count, capacity;
};

// Expressions for strings in one way of escaping.
struct schema_chars {
    uint32_t any, inside; // one character; any string without quotes; GRAMMAR_NOTHING: unset
    uint32_t escapes;     // one character of those that are escaped
};
struct schema_set;
struct schema {
    struct grammar_builder *b;
    struct arena *arena;
    struct error *err;
    enum status status;       // first error
    bool draft7, unevaluated; // unevaluated: the document has an unevaluated* keyword
    const struct schema_args *args;
    const struct writer *w;
    struct json_rules any; // rules for values without restrictions
    uint32_t bare;         // object of a schema with a type alone; GRAMMAR_NOTHING: unset
    struct schema_chars chars[WRITE_KINDS]; // created by schema_chars
    struct schema_site *sites;
    uint32_t site_count, *site_index, site_index_size; // site_index: hash table by JSON value
    size_t site_capacity;
    struct schema_resource *resources;
    struct schema_anchor *anchors;
    uint32_t resource_count, anchor_count;
    size_t resource_capacity, anchor_capacity;
    struct schema_set **sets, **set_index; // sets in order; hash table of them
    uint32_t set_count, set_index_size;
    size_t set_capacity;
    struct memo *memos;
    uint32_t memo_count, memo_size;
    uint32_t depth, entered; // depth: nested set_compile; entered: number of set_compile calls
    uint32_t nesting;        // number of nested alternatives and entries, limited by schema_enter
    json_t *made;            // array that owns the schemas that the compiler created
    size_t made_bytes;       // estimated memory of these and other jansson values
};

// --- schema.c ---
static inline bool schema_failed(const struct schema *c)
{
    return c->status != STATUS_OK || grammar_failed(c->b);
}
// Records the first error, at the keyword or (NULL) the site. Returns GRAMMAR_NOTHING.
uint32_t schema_refuse(struct schema *c, enum status status, uint32_t site, const char *keyword,
                       const char *what);
// Counts work in steps of grammar_spend. Returns false after an error or if a limit is exceeded.
bool schema_spend(struct schema *c, uint64_t work);
// Like schema_spend, for `count` jansson values; called before they are created.
enum { SCHEMA_VALUE_BYTES = 400 }; // estimate for an object with one or two members
bool schema_spend_values(struct schema *c, uint64_t count);
// Like schema_spend, before an allocation in the arena whose size depends on the input.
bool schema_has_memory(struct schema *c, size_t bytes);
// Enters a nesting level; the caller decrements c->nesting. Returns false at the limit (an error).
bool schema_enter(struct schema *c, uint32_t site);
// Records an error of another compiler from c->err, preceded by the position of the keyword.
uint32_t schema_pass_error(struct schema *c, uint32_t site, const char *keyword);
// Returns the site of the value under keyword and key of `parent`; adds it if the value has none.
uint32_t schema_site(struct schema *c, const json_t *value, uint32_t parent, const char *keyword,
                     struct text key);
uint32_t schema_site_find(const struct schema *c, const json_t *value);     // UINT32_MAX: none
uint32_t schema_site_put(struct schema *c, const struct schema_site *site); // adds it: its index
// Adds a schema that the compiler created, and takes over the reference to `value`.
uint32_t schema_make(struct schema *c, json_t *value, uint32_t owner);
// Returns the value of a keyword that counts in this site and draft, or NULL.
const json_t *schema_keyword(const struct schema *c, uint32_t site, const char *name);
// Returns a subschema under a keyword as a literal; 0 after recording an error: it is no schema.
uint32_t schema_literal(struct schema *c, uint32_t site, const char *keyword, const json_t *value,
                        struct text key);
struct text schema_key(void *iterator); // key at a jansson iterator; may contain NUL
const json_t *schema_member(const json_t *object, struct text key);
// Reads a count (3 or 3.0); any larger becomes UINT32_MAX - 1. False, with an error, if invalid.
bool schema_count(struct schema *c, uint32_t site, const char *keyword, const json_t *value,
                  uint32_t *out);

void literals_add(struct schema *c, struct literals *list, uint32_t literal); // unless always true
// Returns the text of all values that satisfy all literals. Sorts the list and removes duplicates.
uint32_t schema_value(struct schema *c, struct literals *list);
// Returns the strings that satisfy all literals, without quotes.
uint32_t schema_strings(struct schema *c, struct literals *list, enum writer_chars kind);
const struct schema_chars *schema_chars(struct schema *c, enum writer_chars kind);
// Returns true if the set is provably empty; false on an error, which is not recorded.
bool schema_is_empty(struct schema *c, struct literals *list);

// --- schema_ref.c ---
void schema_index(struct schema *c); // finds all resources and anchors of the document
// Returns the site to which a $ref or $dynamicRef of `site` leads.
uint32_t schema_resolve(struct schema *c, uint32_t site, const char *keyword);

// --- schema_branch.c ---
typedef void (*alternative_use)(struct schema *c, struct alternative *a, void *context);
// Calls use for each alternative of the conjunction of the literals.
void schema_alternatives(struct schema *c, const struct literals *list, alternative_use use,
                         void *context);
// Restricts the alternative by a literal: its types, a new entry, and the forks of its keywords.
void alternative_add(struct schema *c, struct alternative *a, uint32_t literal,
                     const struct entry *parent, bool silent);
// Adds a choice of one of the options, each a list of literals.
void alternative_fork(struct schema *c, struct alternative *a, const struct literals *options,
                      uint32_t count, const struct entry *parent, bool silent);

// --- schema_choice.c: each adds the forks of some keywords of an entry, if it has them ---
void choice_any_of(struct schema *c, struct alternative *a, const struct entry *e);
void choice_one_of(struct schema *c, struct alternative *a, const struct entry *e);
void choice_if(struct schema *c, struct alternative *a, const struct entry *e);
void choice_dependencies(struct schema *c, struct alternative *a, const struct entry *e);
void choice_constants(struct schema *c, struct alternative *a, const struct entry *e);
// Returns the site of a schema for the arrays or objects equal to value.
uint32_t schema_constant(struct schema *c, const json_t *value, uint32_t owner);

// schema_negate.c. Adds the negation of the site: a choice of the violations of each keyword.
void schema_negate(struct schema *c, struct alternative *a, uint32_t site);

// --- text of the values of one type; GRAMMAR_NOTHING: no value ---
uint32_t string_inside(struct schema *c, const struct alternative *a, enum writer_chars kind);
uint32_t number_text(struct schema *c, const struct alternative *a);
uint32_t array_text(struct schema *c, const struct alternative *a);
uint32_t object_text(struct schema *c, const struct alternative *a, bool parameters);
// Collects the entries, oldest first. Returns their number.
uint32_t alternative_entries(struct schema *c, const struct alternative *a,
                             const struct entry ***out);
bool entry_is_under(const struct entry *e, const struct entry *ancestor); // or is the ancestor
uint32_t schema_types(struct schema *c, uint32_t site); // TYPE_ bits that the site allows
uint32_t value_types(const json_t *value);

// schema_format.c. Returns the strings of the format without quotes. *known false: no restriction.
uint32_t schema_format(struct schema *c, uint32_t site, const json_t *format, bool *known,
                       enum writer_chars kind);

// --- schema_parameters.c ---
// Returns the text of a parameter from string_open or other_open on. key NULL: not in the schema.
uint32_t parameter_value(struct schema *c, const struct text *key, struct literals *list,
                         uint32_t site);
