// SPDX-License-Identifier: Apache-2.0
// The program of a template: tokens, nodes, names. The lexer and the parser create it in one arena;
// afterwards it is constant and all threads share it.
#pragma once

#include "runtime/text/jinja/value.h"

enum { JINJA_SOURCE_MAX = 1024 * 1024, JINJA_NAMES_MAX = 4096 };

enum jinja_token_kind {
    TOKEN_DATA,
    TOKEN_VARIABLE_BEGIN,
    TOKEN_VARIABLE_END,
    TOKEN_BLOCK_BEGIN,
    TOKEN_BLOCK_END,
    TOKEN_NAME,
    TOKEN_STRING, // text is the decoded value
    TOKEN_INT,
    TOKEN_FLOAT,
    TOKEN_OPERATOR, // op is first | second << 8 of its characters
    TOKEN_END,
};

enum jinja_operator {
    OP_EQ = '=' | '=' << 8,
    OP_NE = '!' | '=' << 8,
    OP_LE = '<' | '=' << 8,
    OP_GE = '>' | '=' << 8,
    OP_FLOOR = '/' | '/' << 8,
    OP_POWER = '*' | '*' << 8,
    OP_IN = 'i' | 'n' << 8,     // created by the parser from the name `in`; not a lexer token
    OP_NOT_IN = 'n' | 'i' << 8, // created by the parser from the names `not in`
};

struct jinja_token {
    enum jinja_token_kind kind;
    uint32_t line;
    int op;
    struct text text;
    int64_t integer;
    double real;
};

struct jinja_tokens {
    struct jinja_token *items; // [count]; the last is TOKEN_END
    size_t count;
    size_t allocated;
};

// The members that each kind of node uses. A list that is not named is empty, a child that is not
// named is NULL; `args` is b, a NODE_ARGS or NULL.
enum jinja_node_kind {
    // expressions
    NODE_CONST,   // value
    NODE_NAME,    // name
    NODE_GETATTR, // a.text
    NODE_GETITEM, // a[b]
    NODE_SLICE,   // a : b : c, each may be NULL; only as the index of a NODE_GETITEM
    NODE_CALL,    // a(args)
    NODE_FILTER,  // a | text(args); a is NULL for the first filter of a block
    NODE_TEST,    // a is text(args)
    NODE_NEGATE,  // -a
    NODE_POSITIVE,
    NODE_NOT,
    NODE_AND, // a, b
    NODE_OR,
    NODE_BINARY,  // a op b
    NODE_CONCAT,  // items joined by ~
    NODE_COMPARE, // a, then items, each NODE_OPERAND
    NODE_OPERAND, // op a
    NODE_COND,    // b if a else c; c may be NULL
    NODE_LIST,    // items
    NODE_TUPLE,
    NODE_DICT,        // items: key, value, key, value, ...
    NODE_ARGS,        // items; more: NODE_KEYWORD each; a: *a; b: **b
    NODE_KEYWORD,     // text = a
    NODE_ATTR_TARGET, // name.text as the target of a set
    // statements
    NODE_TEXT,  // text
    NODE_PRINT, // a
    NODE_BODY,  // items
    NODE_IF,    // items: condition, body, condition, body, ...; c: else body
    NODE_FOR,   // for a in b: body c; more[0]: filter or NULL; more[1]: else body; flag: recursive
    NODE_SET,   // a = b
    NODE_SET_BLOCK, // a = text of c, through filter b
    NODE_MACRO, // name and text: its name; items: parameters (NODE_NAME); more: default or NULL for
                // each; c: body; flag: MACRO_* bits
    NODE_CALL_BLOCK,   // a: the call; b: the block as a NODE_MACRO named caller
    NODE_FILTER_BLOCK, // b: filter, c: body
    NODE_WITH,         // items: target, value, target, value, ...; c: body
    NODE_SCOPE,        // c: body in its own scope
    NODE_BREAK,
    NODE_CONTINUE,
};

// Special variables that the body of a macro uses.
enum { MACRO_CALLER = 1, MACRO_VARARGS = 2, MACRO_KWARGS = 4 };

struct jinja_node {
    uint8_t kind;
    uint8_t flag;
    uint32_t line;
    int op;
    uint32_t name; // index into the program's names
    struct text text;
    struct jinja_node *a;
    struct jinja_node *b;
    struct jinja_node *c;
    struct jinja_node **items; // [count]
    uint32_t count;
    size_t allocated;         // capacity of items
    struct jinja_node **more; // [more_count]
    uint32_t more_count;
    struct jinja_value value;
};

// Names that the evaluator itself looks up; they are interned first, in this order.
enum jinja_known_name { NAME_LOOP, NAME_CALLER, NAME_VARARGS, NAME_KWARGS, NAMES_KNOWN };

struct jinja_program {
    struct arena *arena;
    const struct jinja_node *body;
    struct text *names; // [name_count]
    uint32_t name_count;
};

// Splits the source into tokens. Normalizes newlines and trims white space as the tags and
// trim_blocks and lstrip_blocks require. Returns false after filling err.
bool jinja_lex(struct arena *arena, struct text source, struct jinja_tokens *out,
               struct error *err);
// Builds the program's body and names in its arena. Returns false after filling err.
bool jinja_parse(struct jinja_program *program, const struct jinja_tokens *tokens,
                 struct error *err);
