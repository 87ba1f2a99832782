// Compiled grammars: which byte strings a constrained answer may be.
//
// A builder makes expressions, numbered and hash-consed: the same expression always has the same
// number. grammar_finish turns one into a grammar: immutable, counted, read by any thread.
// Expressions are bytes (text is UTF-8), sequences, alternatives, counted repeats and rules that
// may refer to each other and to themselves; left recursion is refused. Repeats with large bounds
// cost no more than small ones. Nothing here knows JSON, regex or tokens: compilers stand in
// runtime/text/grammar, tokens in vocabulary.h, the running state in matcher.h.
//
// Errors: a builder whose limit was met goes on taking calls, gives GRAMMAR_NOTHING, and
// grammar_finish says what happened; a caller need not look after each call.
// A builder belongs to one thread at a time. Integers only, no locks, no files.
#pragma once

#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct grammar;
struct grammar_builder;

// Expressions that always are there.
enum {
    GRAMMAR_NOTHING = 0, // matches no string at all
    GRAMMAR_EMPTY = 1,   // matches the empty string
};
#define GRAMMAR_UNBOUNDED UINT32_MAX // as the most of a repeat

enum { GRAMMAR_WORK_MAX = 100 * 1000 * 1000 };
struct grammar_limits {
    size_t bytes_max;  // memory of the builder and of what it makes; 0: 64 MiB
    uint64_t work_max; // steps, about 5 ns each; 0: GRAMMAR_WORK_MAX
    uint64_t *worked;  // NULL, or what gets the steps that were taken, once the builder is gone
    // [8] bytes that texts are made of (vocabulary_alphabet): what needs another one is
    // GRAMMAR_NOTHING, so that no way through the grammar ends for lack of it. NULL: all bytes.
    // Read until the builder is gone.
    const uint32_t *alphabet;
};
// NULL: the limits above. Never fails; ends the process when the system has no memory.
struct grammar_builder *grammar_begin(const struct grammar_limits *limits);
// Gives the builder back without a grammar; NULL is allowed.
void grammar_abandon(struct grammar_builder *b);
// A limit was met: compilers of large inputs may stop early. The first one stands.
bool grammar_failed(const struct grammar_builder *b);
// What grammar_finish would say of it; STATUS_OK: none was met.
enum status grammar_failure(const struct grammar_builder *b, struct error *err) MUST_USE;
// The compiler's own work counts against the same limit. False: it was met.
bool grammar_spend(struct grammar_builder *b, uint64_t work);

// --- text ---
uint32_t grammar_literal(struct grammar_builder *b, struct text bytes); // these bytes in order
uint32_t grammar_byte(struct grammar_builder *b, uint8_t first, uint8_t last); // one byte of these
// One byte of a set: bit i of set[i / 32] is byte i.
uint32_t grammar_byte_set(struct grammar_builder *b, const uint32_t set[8]);

struct grammar_range {
    uint32_t first, last; // code points, both included
};
// One code point of the ranges (any order, overlapping or not) as UTF-8. Surrogates and what lies
// over U+10FFFF are left out; no ranges: GRAMMAR_NOTHING.
uint32_t grammar_chars(struct grammar_builder *b, const struct grammar_range *ranges,
                       uint32_t count);
// One code point that is in none of the ranges.
uint32_t grammar_chars_except(struct grammar_builder *b, const struct grammar_range *ranges,
                              uint32_t count);
// One of the strings; common beginnings are shared, so thousands are fine. The list is left as it
// is; equal strings may occur.
uint32_t grammar_choice(struct grammar_builder *b, const struct text *strings, uint32_t count);

// --- combinations ---
uint32_t grammar_join(struct grammar_builder *b, uint32_t first, uint32_t then);
uint32_t grammar_join_all(struct grammar_builder *b, const uint32_t *parts, uint32_t count);
uint32_t grammar_either(struct grammar_builder *b, uint32_t one, uint32_t other);
uint32_t grammar_either_of(struct grammar_builder *b, const uint32_t *parts, uint32_t count);
uint32_t grammar_optional(struct grammar_builder *b, uint32_t one);
// Between min and max times, max GRAMMAR_UNBOUNDED: no end. min > max: GRAMMAR_NOTHING.
uint32_t grammar_repeat(struct grammar_builder *b, uint32_t one, uint32_t min, uint32_t max);
// The same strings, as what closes a level that a part before it opened: in a sequence (opening,
// inside, this). At most GRAMMAR_LEVELS_MAX levels are open at once; an opening after which no
// string could be read to its end is not allowed.
enum { GRAMMAR_LEVELS_MAX = 116 };
uint32_t grammar_level(struct grammar_builder *b, uint32_t close);

// --- a free part ---
// Any bytes up to and with the first occurrence of one of the markers, then what follows that one:
// for calls that a model may make or not, and for thoughts before an answer. Until a marker came,
// masks allow all (vocabulary_allows_all, without `must`). Special tokens may come in the
// free part and may be in markers, with VOCABULARY_SPECIAL_BYTE before each (vocabulary.h).
enum { GRAMMAR_MARKER_BYTES_MAX = 128 };
struct grammar_marker {
    struct text text; // 1 to GRAMMAR_MARKER_BYTES_MAX bytes
    uint32_t then;
    bool first; // counts only where nothing but blanks came before it in the free part
};
struct grammar_free_part {
    const struct grammar_marker *markers; // of two that end at once the longer one counts, of equal
    uint32_t count;                       // ones either does
    bool must; // a marker must come; else the answer may also end in the free part, anywhere
};
uint32_t grammar_free_part(struct grammar_builder *b, const struct grammar_free_part *part);

// --- rules ---
// A new rule without a body; the name (copied, may be empty) is for error sentences only.
// *rule gets its number, the result is the expression that refers to it.
uint32_t grammar_rule(struct grammar_builder *b, struct text name, uint32_t *rule);
// Gives the rule its body, once. Rules without one at grammar_finish are an error.
void grammar_rule_set(struct grammar_builder *b, uint32_t rule, uint32_t body);

// --- regular expressions only ---
// Strings that both match; strings that the first matches and the second does not. The rules they
// refer to must have bodies. *out is GRAMMAR_NOTHING exactly where no string is left, so that
// grammar_both also tells whether two expressions overlap.
// STATUS_UNSUPPORTED: one of them recurses without end (a nested structure). STATUS_TOO_LARGE: more
// than 50,000 states. In both cases *out is GRAMMAR_NOTHING, err has a sentence and the builder is
// as before, unless grammar_failed says that its own limits were met. About 1 us a state; the same
// two again cost nothing.
enum status grammar_both(struct grammar_builder *b, uint32_t one, uint32_t other, uint32_t *out,
                         struct error *err) MUST_USE;
enum status grammar_except(struct grammar_builder *b, uint32_t one, uint32_t other, uint32_t *out,
                           struct error *err) MUST_USE;
// The expression matches this whole string. STATUS_UNSUPPORTED or _TOO_LARGE as above.
enum status grammar_matches(struct grammar_builder *b, uint32_t one, struct text bytes, bool *out,
                            struct error *err) MUST_USE;
// The same for many strings; out[i] is of texts[i].
enum status grammar_matches_all(struct grammar_builder *b, uint32_t one, const struct text *texts,
                                uint32_t count, bool *out, struct error *err) MUST_USE;
// Whether a string of the expression begins with texts[i]; it may recurse.
enum status grammar_begins_all(struct grammar_builder *b, uint32_t one, const struct text *texts,
                               uint32_t count, bool *out, struct error *err) MUST_USE;

// --- the grammar ---
// Takes the builder away in every case. What can never match is cut out, so no way through the
// grammar is a dead end. STATUS_TOO_LARGE: a limit was met. STATUS_INVALID: no string matches, a
// rule has no body, or left recursion; the sentence names the rule.
enum status grammar_finish(struct grammar_builder *b, uint32_t root, struct grammar **out,
                           struct error *err) MUST_USE;

struct grammar *grammar_take(struct grammar *g);  // one more owner; any thread
void grammar_give(struct grammar *g);             // the last one frees it; NULL is allowed
uint32_t grammar_owners(const struct grammar *g); // now; for tests

struct grammar_hash {
    uint64_t at[2];
};
// Of the content: grammars built by the same calls have the same hash in every process.
struct grammar_hash grammar_hash(const struct grammar *g);
size_t grammar_bytes(const struct grammar *g); // memory it holds
