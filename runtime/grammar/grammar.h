// SPDX-License-Identifier: Apache-2.0
// Compiled grammars: the set of byte strings that a constrained answer may be.
//
// A builder creates expressions, which are numbered and hash-consed: equal expressions have equal
// numbers. grammar_finish turns one expression into a grammar, which is immutable,
// reference-counted and readable by any thread. Expressions are bytes (text is UTF-8), sequences,
// alternatives, counted repeats, and rules that may refer to each other and to themselves; left
// recursion is refused. Repeats with large bounds cost no more than small ones. This module knows
// no JSON, regular expressions or tokens: the compilers are in runtime/text/grammar, the tokens of
// a model in vocabulary.h, the state of a running answer in matcher.h.
//
// Errors: after a limit of a builder is exceeded, its functions still may be called but return
// GRAMMAR_NOTHING, and grammar_finish returns the error; the caller need not check every call.
// A builder is used by one thread at a time. This module takes no locks and opens no files.
#pragma once

#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct grammar;
struct grammar_builder;

// Expressions that every builder contains.
enum {
    GRAMMAR_NOTHING = 0, // matches no string, not even the empty one
    GRAMMAR_EMPTY = 1,   // matches only the empty string
};
#define GRAMMAR_UNBOUNDED UINT32_MAX // maximum of a repeat without an upper bound

enum { GRAMMAR_WORK_MAX = 100 * 1000 * 1000 }; // steps, about 0.5 s
struct grammar_limits {
    size_t bytes_max;  // bound of the memory of the builder and the grammar; 0: 64 MiB
    uint64_t work_max; // bound of the work, in steps of about 5 ns; 0: GRAMMAR_WORK_MAX
    uint64_t *worked;  // raised to the number of steps used when the builder is destroyed; or NULL
    // [8] bitmap of the bytes that texts can contain (see vocabulary_alphabet). An expression that
    // needs another byte becomes GRAMMAR_NOTHING, so that no path through the grammar is a dead end
    // for lack of a byte. NULL: all bytes. Must stay valid until the builder is destroyed.
    const uint32_t *alphabet;
};
// Creates a builder. `limits` NULL: the defaults above. Ends the process if no memory is left.
struct grammar_builder *grammar_builder_create(const struct grammar_limits *limits);
// Destroys the builder without creating a grammar. b may be NULL.
void grammar_builder_destroy(struct grammar_builder *b);
// Returns true once a limit was exceeded, so that compilers of large inputs can stop early. The
// builder keeps the first failure.
bool grammar_failed(const struct grammar_builder *b);
// Returns the failure that grammar_finish would return for a limit exceeded so far, with its
// sentence in err; STATUS_OK: none was.
enum status grammar_failure(const struct grammar_builder *b, struct error *err) MUST_USE;
// Counts `work` steps of the caller against the builder's work_max. Returns false if the builder
// has failed.
bool grammar_spend(struct grammar_builder *b, uint64_t work);

// --- text ---
uint32_t grammar_literal(struct grammar_builder *b, struct text bytes); // these bytes in order
// One byte of first..last.
uint32_t grammar_byte(struct grammar_builder *b, uint8_t first, uint8_t last);
// One byte of a set: bit i % 32 of set[i / 32] is byte i.
uint32_t grammar_byte_set(struct grammar_builder *b, const uint32_t set[8]);

struct grammar_range {
    uint32_t first, last; // code points, both inclusive
};
// One code point of the ranges as UTF-8. The ranges may be unordered and overlap. Surrogates and
// code points above U+10FFFF are left out; count 0: GRAMMAR_NOTHING.
uint32_t grammar_chars(struct grammar_builder *b, const struct grammar_range *ranges,
                       uint32_t count);
// One code point that is in none of the ranges, as UTF-8.
uint32_t grammar_chars_except(struct grammar_builder *b, const struct grammar_range *ranges,
                              uint32_t count);
// One of the strings. Common prefixes are shared, so thousands of strings are fine. Duplicates are
// allowed; the array is not changed.
uint32_t grammar_choice(struct grammar_builder *b, const struct text *strings, uint32_t count);

// --- combinations ---
// join: the parts in sequence; either: one of the parts; optional: `one` or the empty string.
uint32_t grammar_join(struct grammar_builder *b, uint32_t first, uint32_t then);
uint32_t grammar_join_all(struct grammar_builder *b, const uint32_t *parts, uint32_t count);
uint32_t grammar_either(struct grammar_builder *b, uint32_t one, uint32_t other);
uint32_t grammar_either_of(struct grammar_builder *b, const uint32_t *parts, uint32_t count);
uint32_t grammar_optional(struct grammar_builder *b, uint32_t one);
// `one` repeated min to max times; max GRAMMAR_UNBOUNDED: no upper bound. Returns GRAMMAR_NOTHING
// if min > max.
uint32_t grammar_repeat(struct grammar_builder *b, uint32_t one, uint32_t min, uint32_t max);
// A list of any number of elements, with the separator between two elements. An element is one of
// the members, each at most once and in any order, or `other`, at most others_max times. The
// automaton keeps the set of members that occurred, so the grammar does not grow with the number of
// orders. Neither the separator (unless it is GRAMMAR_EMPTY), nor a member, nor `other` may match
// the empty string.
enum { GRAMMAR_ONCE_MAX = 56, GRAMMAR_ONCE_UNLIMITED = 255 };
struct grammar_once {
    uint32_t separator;
    const uint32_t *members; // [count] different expressions; GRAMMAR_NOTHING is ignored
    uint32_t count;          // at most GRAMMAR_ONCE_MAX
    uint32_t other;          // GRAMMAR_NOTHING: none
    uint32_t others_max;     // 0 to 254; GRAMMAR_ONCE_UNLIMITED: any number
};
uint32_t grammar_once(struct grammar_builder *b, const struct grammar_once *once);
// Matches the same strings as `close`, but counts as the end of a nesting level: use it in a
// sequence (opening, contents, this). At most GRAMMAR_LEVELS_MAX levels may be open at a time; an
// opening that leaves too few levels to complete the string is not allowed.
enum { GRAMMAR_LEVELS_MAX = 116 };
uint32_t grammar_level(struct grammar_builder *b, uint32_t close);

// --- a free part ---
// Any bytes up to and including the first occurrence of a marker, then the marker's `then`: used
// for optional tool calls and for reasoning before an answer. Until a marker occurs, masks allow
// all tokens (see vocabulary_allows_all), except that `must` forbids the end ids. Special tokens
// are allowed in the free part and in markers, each written as VOCABULARY_SPECIAL_BYTE and its text
// (vocabulary.h).
enum { GRAMMAR_MARKER_BYTES_MAX = 128 };
struct grammar_marker {
    struct text text; // 1 to GRAMMAR_MARKER_BYTES_MAX bytes
    uint32_t then;    // what follows the marker
    bool first;       // true if the marker counts only after nothing but blanks in the free part
};
struct grammar_free_part {
    const struct grammar_marker *markers; // if several end at the same byte, the longest counts
    uint32_t count; // number of markers; equal markers allow the `then` of each
    // true if a marker must occur; false: the answer may also end anywhere in the free part
    bool must;
};
uint32_t grammar_free_part(struct grammar_builder *b, const struct grammar_free_part *part);

// --- rules ---
// Creates a rule without a body. Stores its number in *rule and returns the expression that refers
// to it. The name (copied, may be empty) is only used in error sentences.
uint32_t grammar_rule(struct grammar_builder *b, struct text name, uint32_t *rule);
// Sets the body of the rule, once. A used rule without a body is an error in grammar_finish.
void grammar_rule_set(struct grammar_builder *b, uint32_t rule, uint32_t body);

// --- regular expressions only ---
// Strings that both expressions match, and strings that `one` matches and `other` does not. All
// rules that they refer to must have bodies. *out is GRAMMAR_NOTHING exactly if there is no such
// string, so grammar_both also shows if two expressions overlap.
// STATUS_UNSUPPORTED: an expression contains a nested structure (recursion other than at the end).
// STATUS_TOO_LARGE: more than 50,000 states. In both cases *out is GRAMMAR_NOTHING, err has a
// sentence and the builder can still be used, unless grammar_failed shows that its own limits were
// exceeded. Takes about 1 us per state; the result is cached for the next call with the same
// expressions.
enum status grammar_both(struct grammar_builder *b, uint32_t one, uint32_t other, uint32_t *out,
                         struct error *err) MUST_USE;
enum status grammar_except(struct grammar_builder *b, uint32_t one, uint32_t other, uint32_t *out,
                           struct error *err) MUST_USE;
// Sets *out to true if the expression matches the complete string; the expression may be recursive.
// STATUS_TOO_LARGE: a limit was exceeded. STATUS_INVALID: as grammar_finish.
enum status grammar_matches(struct grammar_builder *b, uint32_t one, struct text bytes, bool *out,
                            struct error *err) MUST_USE;
// grammar_matches for `count` strings: out[i] is the result for texts[i].
enum status grammar_matches_all(struct grammar_builder *b, uint32_t one, const struct text *texts,
                                uint32_t count, bool *out, struct error *err) MUST_USE;
// Sets out[i] to true if texts[i] is a prefix of a string of the expression, which may be
// recursive. Errors are those of grammar_matches.
enum status grammar_begins_all(struct grammar_builder *b, uint32_t one, const struct text *texts,
                               uint32_t count, bool *out, struct error *err) MUST_USE;

// --- the grammar ---
// Creates a grammar of the expression `root`; destroys the builder in every case. Parts that can
// never match are removed, so no path through the grammar is a dead end. STATUS_TOO_LARGE: a limit
// was exceeded, or every string is nested too deep. STATUS_INVALID: no string matches, a rule has
// no body, or left recursion; the sentence names the rule.
enum status grammar_finish(struct grammar_builder *b, uint32_t root, struct grammar **out,
                           struct error *err) MUST_USE;

struct grammar *grammar_ref(struct grammar *g); // adds a reference; any thread
void grammar_unref(struct grammar *g); // drops a reference, the last frees it; NULL is allowed
uint32_t grammar_owners(const struct grammar *g); // current number of references; for tests

struct grammar_hash {
    uint64_t at[2];
};
// Hash of the content: grammars built by the same calls have the same hash in every process.
struct grammar_hash grammar_hash(const struct grammar *g);
size_t grammar_bytes(const struct grammar *g); // memory of the grammar
