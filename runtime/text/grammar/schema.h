// SPDX-License-Identifier: Apache-2.0
// Compiles JSON schemas, draft 2020-12 and draft 7, to the text of every valid instance, with its
// known keys in schema order and in JSON's shortest form. docs/STRUCTURED_OUTPUT.md lists the
// supported and refused keywords and how numbers and keys are written.
//
// A schema is a conjunction of subschemas; anyOf, oneOf, if and not split it into alternatives in
// which the keywords are independent of each other. Each alternative is compiled type by type:
// strings and numbers are regular expressions, arrays and objects are built from the conjunctions
// of their parts. Equal conjunctions are compiled once, so references may recurse.
//
// One call runs on one thread with a stack of SCHEMA_STACK_BYTES. Its work counts against the
// builder's limits; the compiler's own memory is at most 16 MiB.
#pragma once

#include "base/json.h"
#include "runtime/text/grammar/json.h"

enum { SCHEMA_STACK_BYTES = 2 << 20 };

enum schema_draft {
    SCHEMA_DRAFT_AUTO, // the draft that $schema specifies; 2020-12 without $schema
    SCHEMA_DRAFT_7,    // keywords next to $ref are ignored
    SCHEMA_DRAFT_2020,
};

// The number of other members that an object may have if its schema has neither
// additionalProperties nor unevaluatedProperties. Another member is one whose key is not in
// `properties` or `required` and matches no pattern.
enum schema_others {
    // at most SCHEMA_OTHERS_MAX, or as many as minProperties or maxProperties require or allow;
    // none if `properties` is {}
    SCHEMA_OTHERS_FEW,
    // as SCHEMA_OTHERS_FEW for objects whose schema names no member (maps); none for objects with
    // `properties`, `required` or patternProperties
    SCHEMA_OTHERS_OF_MAPS,
    SCHEMA_OTHERS_NONE,
};
// Where none are allowed, there are still as many as minProperties requires.
enum { SCHEMA_OTHERS_MAX = 16 };

// How the reader of a call interprets the text of a parameter.
enum schema_reading {
    SCHEMA_READS_STRING, // always as a string
    SCHEMA_READS_VALUE,  // as a value written by the writer, including quoted strings
    SCHEMA_READS_EITHER, // as a value if it can be parsed as one, else as a string
};
// Restrictions on the strings of a parameter that are written without quotes.
struct schema_unquoted_strings {
    uint32_t ambiguous; // strings that would not be read back unchanged; GRAMMAR_NOTHING: none
    // a simple subset of the others, used if lengths make excluding `ambiguous` too large
    uint32_t unambiguous;
};

// Writes the members of the top-level object as parameters of a call, each as
//    key_open  KEY  (string_open STRING or other_open VALUE)  value_close  [ KEY  value_end ]
// where STRING is written without quotes and VALUE by the writer. A value_end repeats the key,
// which a grammar can only express for keys that the schema or `names` contains; then no other keys
// are allowed.
struct schema_parameters {
    uint32_t separator, key_open, string_open, other_open, value_close; // expressions, see above
    uint32_t value_end;    // GRAMMAR_NOTHING: the key is not repeated
    struct writer_key key; // keys that can be written; they are not escaped
    // object whose keys are passed to `reading` by name even if the schema does not contain them;
    // borrowed; NULL: none
    json_t *names;
    // Returns how the parameter `key` is read, and sets *out; key.at NULL: a parameter that the
    // schema does not name. `reading` NULL: all parameters are SCHEMA_READS_VALUE.
    enum schema_reading (*reading)(void *context, struct grammar_builder *b, struct text key,
                                   struct schema_unquoted_strings *out);
    void *context;
};

struct schema_args {
    const json_t *schema; // an object or a boolean, from json_parse; borrowed for the call
    enum schema_draft draft;
    enum schema_others others;
    struct json_style style;     // blank GRAMMAR_NOTHING (all zero): no blanks
    const struct writer *writer; // NULL: JSON in `style`
    bool object;                 // true: only objects, whatever else the schema allows
    // true: the members of objects are in any order. Then the schema has no keywords about objects
    // but `type`, `properties` and `additionalProperties`.
    bool any_order;
    const struct schema_parameters *parameters; // NULL: the object is written by the writer
};

// Sets *root to the expression for grammar_finish, or for use in a larger grammar; GRAMMAR_NOTHING
// if no instance is valid. STATUS_UNSUPPORTED: err names the keyword and its JSON pointer.
// STATUS_INVALID: a keyword has a malformed value, or a reference leads nowhere. STATUS_TOO_LARGE:
// a limit was exceeded. On errors *root is GRAMMAR_NOTHING. If a limit of b was exceeded,
// grammar_failed is true.
enum status schema_compile(struct grammar_builder *b, const struct schema_args *args,
                           uint32_t *root, struct error *err) MUST_USE;
