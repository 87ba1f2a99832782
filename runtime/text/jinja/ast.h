// The program of a template: tokens, nodes, names. Made by the lexer and the parser in one arena,
// never changed afterwards, hence shared by all threads.
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
    TOKEN_OPERATOR, // its characters: first | second << 8
    TOKEN_END,
};

enum jinja_operator {
    OP_EQ = '=' | '=' << 8,
    OP_NE = '!' | '=' << 8,
    OP_LE = '<' | '=' << 8,
    OP_GE = '>' | '=' << 8,
    OP_FLOOR = '/' | '/' << 8,
    OP_POWER = '*' | '*' << 8,
    OP_IN = 'i' | 'n' << 8,     // not from the lexer: the parser makes it from the names
    OP_NOT_IN = 'n' | 'i' << 8, // likewise
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
    struct jinja_token *items; // [count], the last is TOKEN_END
    size_t count;
    size_t allocated;
};

// What each node keeps where; a list not named is empty, a child not named is NULL.
enum jinja_node_kind {
    // expressions
    NODE_CONST,   // value
    NODE_NAME,    // name
    NODE_GETATTR, // a.text
    NODE_GETITEM, // a[b]
    NODE_SLICE,   // a : b : c, each may be NULL; only as b of GETITEM
    NODE_CALL,    // a(args)
    NODE_FILTER,  // a | text(args); a NULL: filters the body of a block
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
    NODE_DICT,        // items: key, value, key, value
    NODE_ARGS,        // items, more: keywords; a: *a; b: **b
    NODE_KEYWORD,     // text = a
    NODE_ATTR_TARGET, // name.text, on the left of set
    // statements
    NODE_TEXT,  // value
    NODE_PRINT, // a
    NODE_BODY,  // items
    NODE_IF,    // items: condition, body, condition, body, ...; c: else body
    NODE_FOR,   // for a in b: body c; more[0] filter or NULL; more[1] else body; flag: recursive
    NODE_SET,   // a = b
    NODE_SET_BLOCK,    // a = text of c, through filter b
    NODE_MACRO,        // name, items: parameters (NAME), more: default or NULL each, c: body
    NODE_CALL_BLOCK,   // a: the call, b: the caller as MACRO
    NODE_FILTER_BLOCK, // b: filter, c: body
    NODE_WITH,         // items: target, value, ...; c: body
    NODE_SCOPE,        // c: body in a scope of its own
    NODE_BREAK,
    NODE_CONTINUE,
};

enum { MACRO_CALLER = 1, MACRO_VARARGS = 2, MACRO_KWARGS = 4 };

struct jinja_node {
    uint8_t kind;
    uint8_t flag;
    uint32_t line;
    int op;
    uint32_t name; // index of the program's names
    struct text text;
    struct jinja_node *a;
    struct jinja_node *b;
    struct jinja_node *c;
    struct jinja_node **items; // [count]
    uint32_t count;
    size_t allocated;         // of items
    struct jinja_node **more; // [more_count]
    uint32_t more_count;
    struct jinja_value value;
};

// Names that the evaluator itself asks for; interned first, in this order.
enum jinja_known_name { NAME_LOOP, NAME_CALLER, NAME_VARARGS, NAME_KWARGS, NAMES_KNOWN };

struct jinja_program {
    struct arena *arena;
    const struct jinja_node *body;
    struct text *names; // [name_count]
    uint32_t name_count;
};

// Cuts the source into tokens, newlines normalised, white space trimmed as the tags say.
bool jinja_lex(struct arena *arena, struct text source, struct jinja_tokens *out,
               struct error *err);
bool jinja_parse(struct jinja_program *program, const struct jinja_tokens *tokens,
                 struct error *err);
