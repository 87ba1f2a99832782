// Values of the template language and the state of one rendering.
//
// Lists, dicts and strings never change once made (the sandbox refuses what would change them);
// only namespaces and loops do. Everything lives in the arena of the rendering, constants of the
// program in the program's arena. One thread per rendering.
#pragma once

#include "base/status.h"
#include "base/arena.h"
#include "base/slice.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

enum { JINJA_DEPTH_MAX = 1500, JINJA_NEST_MAX = 200, JINJA_RANGE_MAX = 100000 };

enum jinja_kind {
    JINJA_MISSING, // no value at all: an argument that was not given
    JINJA_UNDEFINED,
    JINJA_NONE,
    JINJA_BOOL,
    JINJA_INT,
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
    JINJA_IS_ITERATOR, // can be walked once
};

struct jinja_value {
    uint8_t kind;
    uint8_t flavour; // of a list
    union {
        bool boolean;
        int64_t integer;
        double real;
        const struct jinja_string *string;
        struct jinja_list *list;
        const struct jinja_dict *dict;
        struct jinja_namespace *space;
        const struct jinja_macro *macro;
        struct jinja_loop *loop;
        const struct jinja_function *function;
        struct jinja_cycler *cycler;
        const char *why; // of an undefined: the sentence that its use raises; NULL: unknown
    } as;
};

// Marks cut a string into spans of one origin: plain is text of the request.
struct jinja_mark {
    size_t end; // bytes from the start of the string; the last may be larger than the string
    bool plain;
};

struct jinja_string {
    const char *at;
    size_t bytes;
    const struct jinja_mark *marks; // [mark_count]
    uint32_t mark_count;            // 0: all of it is as plain says
    bool plain;
    bool markup;                // came out of |safe or |escape: + escapes the other side
    struct jinja_builder *home; // the builder that holds these bytes, or NULL; + may append there
};

// `rest`: the position of an iterator.
struct jinja_list {
    const struct jinja_value *items; // [count]
    size_t count;
    size_t rest;
    const int64_t *range; // start, stop and step of range() as given, or NULL: those of the items
};

struct jinja_pair {
    struct jinja_value key;
    struct jinja_value value;
};

struct jinja_dict {
    const struct jinja_pair *pairs; // [count], in order of insertion
    size_t count;
    const uint32_t *index; // [index_count] pair number + 1 by hash, 0 free; NULL for few pairs
    size_t index_count;    // power of two
};

struct jinja_binding {
    uint32_t name; // of the program
    struct jinja_value value;
};

// The variables of one scope. parent is the scope around it in the source.
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
    struct jinja_keyword *items; // [count] its attributes
    uint32_t count;
    size_t allocated;
};

struct jinja_macro {
    const struct jinja_node *node;
    struct jinja_frame *frame; // where it was defined
};

struct jinja_loop {
    const struct jinja_value *items; // [count]
    size_t count;
    size_t index0;
    uint32_t depth0;
    const struct jinja_node *node; // of a recursive loop, else NULL
    struct jinja_frame *frame;
    struct jinja_value changed; // the last arguments of loop.changed, a tuple; MISSING at first
};

struct jinja_cycler {
    struct jinja_value items; // a list; of a joiner: one string
    size_t at;
    bool joiner;
};

// What a function, method, filter or test is called with. For rows that name their parameters,
// args holds one value per parameter, JINJA_MISSING where none was given.
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
    const char *params; // "a b c"; NULL: takes what comes
    uint32_t required;
    bool (*apply)(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out);
};

struct jinja_function {
    const struct jinja_row *row;
    struct jinja_value self; // MISSING for a global function
};

// One rendering. Functions that can fail return false after jinja_fail or a limit.
struct jinja_run {
    const struct jinja_program *program;
    struct arena *arena;
    struct error *err;
    enum status status;
    uint32_t line; // being rendered
    uint32_t depth;
    uint64_t steps_left;
    struct slice *slice; // that the steps are counted in, or NULL
    size_t output_bytes_max;
    uint8_t jump;                // NODE_BREAK or NODE_CONTINUE until its loop is reached, else 0
    uint32_t closures;           // made so far: a scope that one may hold is not used again
    struct jinja_value *globals; // [names of the program]; MISSING where nothing has that name
    struct jinja_builder *out;   // receives output: the prompt, or a macro's text
    int64_t now;
};
