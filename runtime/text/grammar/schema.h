// JSON schemas as grammars: draft 2020-12 and draft 7 become the text of every valid instance, with
// its known keys in schema order and in JSON's shortest form. docs/STRUCTURED_OUTPUT.md lists the
// keywords, what is refused and how numbers and keys are written.
//
// A schema is a conjunction of subschemas; anyOf, oneOf, if and not split it into alternatives in
// which every keyword stands for itself. Each alternative becomes text type by type: strings and
// numbers are regular expressions, arrays and objects are made of the conjunctions of their parts.
// The same conjunction is compiled once, so references may recurse.
//
// One call, one thread; memory and work count against the builder's limits.
#pragma once

#include "base/json.h"
#include "runtime/text/grammar/json.h"

enum schema_draft {
    SCHEMA_DRAFT_AUTO, // what $schema says; 2020-12 without one
    SCHEMA_DRAFT_7,    // keywords beside $ref are ignored
    SCHEMA_DRAFT_2020,
};

struct schema_args {
    const json_t *schema; // an object or a boolean, from json_parse; borrowed for the call
    enum schema_draft draft;
    struct json_style style; // all zero: GRAMMAR_NOTHING stands for no blanks
};

// *root: for grammar_finish, or for a larger grammar; GRAMMAR_NOTHING where no instance is valid.
// STATUS_UNSUPPORTED: err names the constraining keyword and its JSON pointer. STATUS_INVALID: a
// keyword has a malformed value, or a reference leads nowhere. STATUS_TOO_LARGE: the builder's
// limits, or too many alternatives. *root is GRAMMAR_NOTHING then.
enum status schema_compile(struct grammar_builder *b, const struct schema_args *args,
                           uint32_t *root, struct error *err) MUST_USE;
