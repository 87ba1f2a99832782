// What an alternative says of objects, gathered from its subschemas.
#pragma once

#include "runtime/text/grammar/schema_parts.h"

enum { OBJECT_PATTERNS_MAX = 6, KEY_BYTES_MAX = 1024 }; // functions recurse by characters of keys

struct schema_key {
    struct text name;
    uint32_t value;    // its text; GRAMMAR_NOTHING: it may not be there
    uint32_t patterns; // bits of those that it matches
    bool required, unwritable;
    bool loose; // an unknown key with a value of its own: it may come in any place among those
};
struct object_pattern {
    struct text text;
    uint32_t expr;
};
struct object_pattern_use {
    uint32_t pattern, literal;
};
// additionalProperties or unevaluatedProperties: what holds for keys that others do not know.
struct object_owner {
    const json_t **known; // [known_count] properties
    uint32_t patterns, literal;
    size_t known_count, known_capacity;
};

struct object {
    struct schema *c;
    bool parameters;        // the object at the top, as parameters of a call
    enum writer_chars kind; // of keys
    const struct writer_key *writable;
    const struct entry **entries;
    uint32_t entry_count;
    json_t *index; // name -> place in keys
    struct schema_key *keys;
    uint32_t key_count;
    size_t key_capacity;
    struct object_pattern patterns[OBJECT_PATTERNS_MAX];
    uint32_t pattern_count, pattern_site;
    struct object_pattern_use *uses;
    uint32_t use_count;
    size_t use_capacity;
    struct object_owner *owners;
    uint32_t owner_count;
    size_t owner_capacity;
    struct literals name_literals;
    uint32_t names, names_site; // what propertyNames allow; UINT32_MAX: all
    uint32_t unknown;           // keys that are not in keys, once has_unknown is set
    bool has_unknown;
    uint32_t min, max, comma;
    uint32_t member, extra; // members with unknown keys; those of which one must be there
    bool need_extra;
    const struct entry *extra_entry; // of !extra
};

// --- schema_keys.c ---
uint32_t keys_unknown(struct object *o);
// Which keys match the expression, in order; garbage after an error.
void keys_match(struct object *o, uint32_t site, const char *keyword, uint32_t expr, bool *matches);
bool key_matches(struct object *o, uint32_t site, const char *keyword, uint32_t expr,
                 struct text name);
uint32_t object_pattern(struct object *o, uint32_t site, const char *keyword, struct text pattern);
// schema_both, quick where one is any string.
uint32_t keys_both(struct object *o, uint32_t one, uint32_t other, uint32_t site,
                   const char *keyword);
// Unknown keys that match these patterns and no others.
uint32_t keys_region(struct object *o, uint32_t region);

// --- schema_members.c ---
// One member; keys: an expression of them.
uint32_t member_text(struct object *o, uint32_t keys, uint32_t value);
uint32_t key_text(struct object *o, const struct schema_key *key); // that member
// The text of the object, from keys, member and the limits.
uint32_t object_members(struct object *o);
