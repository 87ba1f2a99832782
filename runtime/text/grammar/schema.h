// JSON schemas as grammars: draft 2020-12 and draft 7 become the text of every valid instance, with
// its known keys in schema order and in JSON's shortest form. docs/STRUCTURED_OUTPUT.md lists the
// keywords, what is refused and how numbers and keys are written.
//
// A schema is a conjunction of subschemas; anyOf, oneOf, if and not split it into alternatives in
// which every keyword stands for itself. Each alternative becomes text type by type: strings and
// numbers are regular expressions, arrays and objects are made of the conjunctions of their parts.
// The same conjunction is compiled once, so references may recurse.
//
// One call, one thread with SCHEMA_STACK_BYTES of stack; work counts against the builder's limits,
// memory of the compiler itself is at most 16 MiB.
#pragma once

#include "base/json.h"
#include "runtime/text/grammar/json.h"

enum { SCHEMA_STACK_BYTES = 2 << 20 };

enum schema_draft {
    SCHEMA_DRAFT_AUTO, // what $schema says; 2020-12 without one
    SCHEMA_DRAFT_7,    // keywords beside $ref are ignored
    SCHEMA_DRAFT_2020,
};

// How the text of a parameter is read back.
enum schema_reading {
    SCHEMA_READS_STRING, // as a string, whatever it is
    SCHEMA_READS_VALUE,  // as the writer's text, strings, too
    SCHEMA_READS_EITHER, // as a string where it is no text of the writer
};
struct schema_strings_clear {
    uint32_t unclear; // strings that would not be read as they are; GRAMMAR_NOTHING: none
    uint32_t clear;   // some of the others, easily told: for lengths that are too large to compare
};

// The members of the object at the top as parameters of a call, each
//   key_open  KEY  (string_open STRING or other_open VALUE)  value_close  [ KEY  value_end ]
// where STRING stands as it is and VALUE is the writer's. With a value_end, which says the key
// again, only keys that the schema or `names` names are written.
struct schema_parameters {
    uint32_t separator, key_open, string_open, other_open, value_close;
    uint32_t value_end;    // GRAMMAR_NOTHING: there is none
    struct writer_key key; // those that can be written, as they are
    json_t *names;         // object; its keys are asked for by name, also where the schema does not
                           // name them; borrowed, NULL: none
    // NULL: all are SCHEMA_READS_VALUE. key.at NULL: one that the schema does not name.
    enum schema_reading (*reading)(void *context, struct grammar_builder *b, struct text key,
                                   struct schema_strings_clear *out);
    void *context;
};

struct schema_args {
    const json_t *schema; // an object or a boolean, from json_parse; borrowed for the call
    enum schema_draft draft;
    struct json_style style;     // all zero: GRAMMAR_NOTHING stands for no blanks
    const struct writer *writer; // NULL: JSON in that style
    bool object;                 // the value is an object, whatever else the schema allows
    const struct schema_parameters *parameters; // NULL: the object as the writer has it
};

// *root: for grammar_finish, or for a larger grammar; GRAMMAR_NOTHING where no instance is valid.
// STATUS_UNSUPPORTED: err names the constraining keyword and its JSON pointer. STATUS_INVALID: a
// keyword has a malformed value, or a reference leads nowhere. STATUS_TOO_LARGE: the builder's
// limits, or too many alternatives. *root is GRAMMAR_NOTHING then.
enum status schema_compile(struct grammar_builder *b, const struct schema_args *args,
                           uint32_t *root, struct error *err) MUST_USE;
