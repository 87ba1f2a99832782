// SPDX-License-Identifier: Apache-2.0
// Values of the template language and the state of one rendering.
//
// Lists, dicts and strings are immutable (the sandbox refuses methods that would change them); only
// namespaces, loops, cyclers and iterators change. All values live in the arena of the rendering,
// the constants of a program in the program's arena. One thread per rendering.
#pragma once

#include "base/status.h"
#include "base/arena.h"
#include "base/slice.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

// DEPTH: nested evaluations; NEST: nested constructs in the source; RANGE: numbers of a range().
enum { JINJA_DEPTH_MAX = 1500, JINJA_NEST_MAX = 200, JINJA_RANGE_MAX = 100000 };

enum jinja_kind {
    JINJA_MISSING, // no value: an argument that was not given
    JINJA_UNDEFINED,
    JINJA_NONE,
    JINJA_BOOL,
    JINJA_INT,
    JINJA_WIDE, // an integer of the request beyond int64
    JINJA_FLOAT,
    JINJA_STRING,
    JINJA_LIST, // also tuples, ranges, dict views and iterators: see flavour
    JINJA_DICT,
    JINJA_NAMESPACE,
    JINJA_MACRO,
    JINJA_LOOP,
    JINJA_FUNCTION, // a global function or a bound method
    JINJA_CYCLER,
};

enum jinja_flavour {
    JINJA_IS_LIST,
    JINJA_IS_TUPLE,
    JINJA_IS_RANGE,
    JINJA_IS_KEYS,
    JINJA_IS_VALUES,
    JINJA_IS_ITEMS,
    JINJA_IS_ITERATOR, // can be iterated once
};

// An integer beyond int64, which is never computed with: only printed, compared and negated.
struct jinja_wide {
    struct text digits; // with the minus, without leading zeros
    double nearest;
};

struct jinja_value {
    uint8_t kind;
    uint8_t flavour; // enum jinja_flavour of a list
    union {
        bool boolean;
        int64_t integer;
        double real;
        const struct jinja_wide *wide;
        const struct jinja_string *string;
        struct jinja_list *list;
        const struct jinja_dict *dict;
        struct jinja_namespace *space;
        const struct jinja_macro *macro;
        struct jinja_loop *loop;
        const struct jinja_function *function;
        struct jinja_cycler *cycler;
        const char *undefined_message; // undefined: error text for its use; NULL: unknown
    } as;
};

// Marks divide a string into spans of one origin. untrusted: true for text of the request, false
// for text of the template.
struct jinja_mark {
    size_t end; // offset of the span's end in bytes; the last may exceed the string
    bool untrusted;
};

struct jinja_string {
    const char *at;
    size_t bytes;
    const struct jinja_mark *marks; // [mark_count], or NULL
    uint32_t mark_count;            // 0: `untrusted` is the origin of the entire string
    bool untrusted;
    bool markup;                // true if produced by |safe or |escape: + escapes the other operand
    struct jinja_builder *home; // builder that owns these bytes, or NULL; + may append there
};

// The items of a list value. `next`: next position of an iterator.
struct jinja_list {
    const struct jinja_value *items; // [count]
    size_t count;
    size_t next;
    const int64_t *range; // [3] start, stop, step as given to range(); NULL: slice of a range
};

struct jinja_pair {
    struct jinja_value key;
    struct jinja_value value;
};

struct jinja_dict {
    const struct jinja_pair *pairs; // [count], in order of insertion
    size_t count;
    const uint32_t *index; // [index_count] hash table of pair number + 1 (0: free), or NULL
    size_t index_count;    // power of two
};

struct jinja_binding {
    uint32_t name; // index into the program's names
    struct jinja_value value;
};

// The variables of one scope. parent: the enclosing scope in the source.
struct jinja_frame {
    struct jinja_frame *parent;
    struct jinja_binding *items; // [count]
    uint32_t count;
    size_t allocated;
};

struct jinja_keyword {
    struct text name;
    struct jinja_value value;
};

struct jinja_namespace {
    struct jinja_keyword *items; // [count] attributes
    uint32_t count;
    size_t allocated;
};

struct jinja_macro {
    const struct jinja_node *node;
    struct jinja_frame *frame; // scope in which the macro was defined
};

struct jinja_loop {
    const struct jinja_value *items; // [count]
    size_t count;
    size_t index0;
    uint32_t depth0;
    const struct jinja_node *node; // node of a recursive loop, else NULL
    struct jinja_frame *frame;
    struct jinja_value changed; // last arguments of loop.changed, a tuple; MISSING at first
};

struct jinja_cycler {
    struct jinja_value items; // list of the items; for a joiner: the separator string
    size_t at;
    bool joiner;
};

// The arguments of a function, method, filter or test. If its row names the parameters, args has
// one value per parameter, JINJA_MISSING if not given.
struct jinja_call {
    const char *name;
    struct jinja_value self;
    const struct jinja_value *args;
    uint32_t count;
    const struct jinja_keyword *keywords;
    uint32_t keyword_count;
};

struct jinja_run;

// A row of the tables of filters, tests, methods and global functions.
struct jinja_row {
    const char *name;
    const char *params; // parameter names, "a b c"; NULL: arguments are passed as given
    uint32_t required;  // number of parameters that must be given
    bool (*apply)(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out);
};

struct jinja_function {
    const struct jinja_row *row;
    struct jinja_value self; // the object of a bound method; MISSING for a global function
};

// One rendering. `status` is set by the first jinja_fail.
struct jinja_run {
    const struct jinja_program *program;
    struct arena *arena;
    struct error *err;
    enum status status;
    uint32_t line; // template line being rendered
    uint32_t depth;
    uint64_t steps_left;
    struct slice *slice; // the steps are charged to it; NULL: not counted
    size_t output_bytes_max;
    uint8_t jump; // NODE_BREAK or NODE_CONTINUE until its loop handles it, else 0
    // number of closures created; a frame that a closure may reference is not recycled
    uint32_t closures;
    struct jinja_value *globals; // [names of the program] global values; MISSING: undefined
    struct jinja_builder *out;   // receives the output: the prompt, or the text of a macro
    int64_t now;                 // Unix time in seconds
};
