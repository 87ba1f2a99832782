// The inside of the schema compiler: sites (subschemas), literals (a site or its negation), sets of
// literals (conjunctions) and alternatives (what is left of a set when all choices are made).
#pragma once

#include "base/arena.h"
#include "runtime/text/grammar/schema.h"
#include "runtime/text/grammar/schema_memo.h"

enum {
    LITERAL_NOT = 1,   // what the site forbids
    LITERAL_PLAIN = 2, // without its $ref, allOf, anyOf and so on
    LITERAL_SITE = 4,  // times the number of the site
};

enum {
    TYPE_NULL = 1,
    TYPE_FALSE = 2,
    TYPE_TRUE = 4,
    TYPE_INTEGER = 8,
    TYPE_FRACTION = 16, // numbers that are no integers
    TYPE_STRING = 32,
    TYPE_ARRAY = 64,
    TYPE_OBJECT = 128,
    TYPE_NUMBER = TYPE_INTEGER | TYPE_FRACTION,
    TYPE_ANY = 255,
};

struct schema_site {
    const json_t *value;
    uint32_t resource;   // in schema.resources
    bool synthetic;      // made by the compiler: keywords that begin with ! count
    uint32_t parent;     // its JSON pointer is that of this site, /keyword and /key; of the root: 0
    const char *keyword; // NULL: the pointer goes on with the key as it is
    struct text key;     // at NULL: none
};
enum { POINTER_BYTES_MAX = 300 }; // in sentences and names of rules

// Part of a document with a URI of its own.
struct schema_resource {
    struct text uri;
    uint32_t site;
};
struct schema_anchor {
    struct text name;
    uint32_t resource, site;
    bool dynamic;
};

// A subschema that holds in an alternative.
struct entry {
    const struct entry *next;   // the one before
    const struct entry *parent; // whose $ref, allOf, ... it is; NULL: a literal of the set
    uint32_t site;
    bool silent; // under a negation: what it evaluates does not count for unevaluated*
};

struct fork;
struct alternative {
    uint32_t types;
    const struct entry *entries; // the newest first
    const struct entry *negated; // literals that were expanded, for loops
    const struct fork *forks;
    uint32_t fork_count;
};

struct literals {
    uint32_t *at;
    size_t count, capacity;
};

// Of a string in one way of writing.
struct schema_chars {
    uint32_t any, inside; // one character; all of it. GRAMMAR_NOTHING: not made yet
    uint32_t escapes;     // the characters that must be escaped
};

struct schema_set;
struct schema {
    struct grammar_builder *b;
    struct arena *arena;
    struct error *err;
    enum status status; // the first error
    bool draft7, unevaluated;
    const struct writer *w;
    const struct schema_parameters *parameters; // NULL: none
    struct json_rules any;
    struct schema_chars chars[WRITE_KINDS];
    struct schema_site *sites;
    uint32_t site_count, *site_index, site_index_size;
    size_t site_capacity;
    struct schema_resource *resources;
    uint32_t resource_count;
    size_t resource_capacity;
    struct schema_anchor *anchors;
    uint32_t anchor_count;
    size_t anchor_capacity;
    struct schema_set **sets, **set_index;
    uint32_t set_count, set_index_size;
    size_t set_capacity;
    struct memo *memos;
    uint32_t memo_count, memo_size;
    uint32_t depth, entered;
    uint32_t nesting;  // alternatives and entries that are being worked on, one in the other
    json_t *made;      // array that owns synthesised schemas
    size_t made_bytes; // about what they and other values of jansson hold
};

// --- schema.c ---
static inline bool schema_failed(const struct schema *c)
{
    return c->status != STATUS_OK || grammar_failed(c->b);
}
// The first error stands; GRAMMAR_NOTHING. keyword NULL: the site itself.
uint32_t schema_refuse(struct schema *c, enum status status, uint32_t site, const char *keyword,
                       const char *what);
// Work that is done next, in the steps of grammar_spend. False: there was an error, too much work,
// or the compiler's own memory is over its limit.
bool schema_spend(struct schema *c, uint64_t work);
// The same for values of jansson: so many are made. To be asked before.
enum { SCHEMA_VALUE_BYTES = 400 }; // an object with a member or two
bool schema_spend_values(struct schema *c, uint64_t count);
// The same for a piece of the arena that is as large as the input likes.
bool schema_has_room(struct schema *c, size_t bytes);
// One level deeper; false, and refused: there are too many.
bool schema_enter(struct schema *c, uint32_t site);
// The error of another compiler, with the keyword's place in front.
uint32_t schema_pass_error(struct schema *c, uint32_t site, const char *keyword);
uint32_t schema_site(struct schema *c, const json_t *value, uint32_t parent, const char *keyword,
                     struct text key);
uint32_t schema_site_find(const struct schema *c, const json_t *value); // UINT32_MAX: none
uint32_t schema_site_put(struct schema *c, const struct schema_site *site);
// A schema that the compiler wrote; takes the reference.
uint32_t schema_make(struct schema *c, json_t *value, uint32_t owner);
const json_t *schema_keyword(const struct schema *c, uint32_t site, const char *name);
// A subschema under a keyword as a literal; checks that it is one.
uint32_t schema_literal(struct schema *c, uint32_t site, const char *keyword, const json_t *value,
                        struct text key);
struct text schema_key(void *iterator);
const json_t *schema_member(const json_t *object, struct text key);
// A count that may be written as 3.0; false: refused. At most UINT32_MAX - 1.
bool schema_count(struct schema *c, uint32_t site, const char *keyword, const json_t *value,
                  uint32_t *out);

void literals_add(struct schema *c, struct literals *list, uint32_t literal);
// The text of all values that all literals allow. The list is sorted and made unique.
uint32_t schema_value(struct schema *c, struct literals *list);
// The inside of the strings among them.
uint32_t schema_strings(struct schema *c, struct literals *list, enum writer_chars kind);
const struct schema_chars *schema_chars(struct schema *c, enum writer_chars kind);
// No value at all for certain. Errors in finding out mean no.
bool schema_is_empty(struct schema *c, struct literals *list);

// --- schema_ref.c ---
void schema_index(struct schema *c);
uint32_t schema_resolve(struct schema *c, uint32_t site, const char *keyword);

// --- schema_branch.c ---
typedef void (*alternative_use)(struct schema *c, struct alternative *a, void *context);
// Calls use for each alternative of the literals.
void schema_alternatives(struct schema *c, const struct literals *list, alternative_use use,
                         void *context);
void alternative_add(struct schema *c, struct alternative *a, uint32_t literal,
                     const struct entry *parent, bool silent);
// One of the options, each a list of literals.
void alternative_fork(struct schema *c, struct alternative *a, const struct literals *options,
                      uint32_t count, const struct entry *parent, bool silent);

// --- schema_choice.c: keywords that choose ---
void choice_any_of(struct schema *c, struct alternative *a, const struct entry *e);
void choice_one_of(struct schema *c, struct alternative *a, const struct entry *e);
void choice_if(struct schema *c, struct alternative *a, const struct entry *e);
void choice_dependencies(struct schema *c, struct alternative *a, const struct entry *e);
void choice_constants(struct schema *c, struct alternative *a, const struct entry *e);
uint32_t schema_constant(struct schema *c, const json_t *value, uint32_t owner);

// --- schema_negate.c ---
// What each keyword of the site forbids, as options of a fork.
void schema_negate(struct schema *c, struct alternative *a, uint32_t site);

// --- one type each: the text of that type's values; NOTHING: there is none ---
uint32_t string_inside(struct schema *c, const struct alternative *a, enum writer_chars kind);
uint32_t number_text(struct schema *c, const struct alternative *a);
uint32_t array_text(struct schema *c, const struct alternative *a);
uint32_t object_text(struct schema *c, const struct alternative *a, bool parameters);
// The entries, oldest first; their count.
uint32_t alternative_entries(struct schema *c, const struct alternative *a,
                             const struct entry ***out);
bool entry_is_under(const struct entry *e, const struct entry *ancestor);
uint32_t schema_types(struct schema *c, uint32_t site);
uint32_t value_types(const json_t *value);

// schema_format.c: the inside of a string of this format; GRAMMAR_NOTHING with *known false: a
// format that says nothing here.
uint32_t schema_format(struct schema *c, uint32_t site, const json_t *format, bool *known,
                       enum writer_chars kind);

// --- schema_parameters.c ---
// The text of a parameter from string_open or other_open on. key NULL: one that is not named.
uint32_t parameter_value(struct schema *c, const struct text *key, struct literals *list,
                         uint32_t site);
