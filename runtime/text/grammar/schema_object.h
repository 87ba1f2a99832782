// SPDX-License-Identifier: Apache-2.0
// The requirements of an alternative for objects, collected from its subschemas.
#pragma once

#include "runtime/text/grammar/schema_parts.h"

// KEY_BYTES_MAX: functions recurse once per character of a key
enum { OBJECT_PATTERNS_MAX = 6, KEY_BYTES_MAX = 1024 };

struct schema_key {
    struct text name;  // unescaped
    uint32_t value;    // expression of its value; GRAMMAR_NOTHING: the key must not be present
    uint32_t patterns; // bitmap of the object's patterns that match it
    bool required, unwritable; // unwritable: excluded by object.writable
    // true for a key of schema_parameters.names: may be anywhere among the unknown keys
    bool loose;
};
// A key of patternProperties and its expression.
struct object_pattern {
    struct text text;
    uint32_t expr;
};
// A schema that applies to keys that match a pattern.
struct object_pattern_use {
    uint32_t pattern, literal;
};
// additionalProperties or unevaluatedProperties: a schema for the keys that other keywords do not
// cover.
struct object_owner {
    const json_t **known;       // [known_count] `properties` objects whose keys are covered
    uint32_t patterns, literal; // patterns: bitmap of the covering patterns; literal: the schema
    size_t known_count, known_capacity;
};

struct object {
    struct schema *c;
    bool parameters;        // true: the top-level object, written as parameters of a call
    enum writer_chars kind; // escaping of keys
    const struct writer_key *writable; // keys that can be written
    const struct entry **entries;      // [entry_count] subschemas that apply, oldest first
    uint32_t entry_count;
    json_t *index;           // name -> index in keys
    struct schema_key *keys; // [key_count] keys known by name
    uint32_t key_count;
    size_t key_capacity;
    struct object_pattern patterns[OBJECT_PATTERNS_MAX]; // keys of patternProperties
    uint32_t pattern_count, pattern_site;
    struct object_pattern_use *uses; // [use_count] schemas of patternProperties
    uint32_t use_count;
    size_t use_capacity;
    struct object_owner *owners; // [owner_count]
    uint32_t owner_count;
    size_t owner_capacity;
    struct literals name_literals; // schemas of propertyNames
    // expression of the keys that propertyNames allows; UINT32_MAX: all
    uint32_t names, names_site;
    uint32_t unknown; // expression of the keys that are not in `keys`; valid if has_unknown
    bool has_unknown;
    uint32_t min, max, comma; // min, max: number of members; comma: expression between two
    bool closed;              // true if no other members are allowed (schema_others.c)
    uint32_t others_max;      // maximum number of other members, or GRAMMAR_UNBOUNDED
    uint32_t member, extra;   // members with unknown keys; the part of them that satisfies !extra
    uint32_t matched, other;  // parts of `member`: keys that match a pattern; all others
    bool need_extra;          // true while object_members must include an extra member
    const struct entry *extra_entry; // entry with the keyword !extra (schema_negate.c), or NULL
};

// --- schema_keys.c ---
// Returns the expression of all keys that are not in o->keys.
uint32_t keys_unknown(struct object *o);
// Sets matches[i] if key i matches the expression; undefined after an error.
void keys_match(struct object *o, uint32_t site, const char *keyword, uint32_t expr, bool *matches);
// Returns true if the name matches the expression; undefined after an error.
bool key_matches(struct object *o, uint32_t site, const char *keyword, uint32_t expr,
                 struct text name);
// Returns the index of the pattern in o->patterns and adds it if it is new; 0 after an error.
uint32_t object_pattern(struct object *o, uint32_t site, const char *keyword, struct text pattern);
// Like schema_both, but fast if one of the expressions is any string.
uint32_t keys_both(struct object *o, uint32_t one, uint32_t other, uint32_t site,
                   const char *keyword);
// Returns the expression of the unknown keys that match the patterns in the bitmap `region` and no
// others.
uint32_t keys_region(struct object *o, uint32_t region);

// --- schema_others.c ---
// Returns true if no subschema has a keyword about members.
bool object_says_nothing(const struct object *o);
// Returns true if a subschema of the client, not only of the compiler, has a type or a keyword
// about members. Values of other schemas, such as {}, are any JSON.
bool object_is_described(const struct object *o);
// Returns true if the object has only the members that its schema names or that match a pattern,
// unless minProperties requires more (schema.h, enum schema_others).
bool object_is_closed(const struct object *o);
// Returns o->others_max; all keys must have their values.
uint32_t object_others_max(const struct object *o);

// --- schema_members.c ---
// Returns the text of a member. keys: expression of its key.
uint32_t member_text(struct object *o, uint32_t keys, uint32_t value);
// Text of the member with this key.
uint32_t key_text(struct object *o, const struct schema_key *key);
// Returns the text of the object, from its keys, members and limits.
uint32_t object_members(struct object *o);
