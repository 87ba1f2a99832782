// SPDX-License-Identifier: Apache-2.0
// Shared by the two halves of the parser: expressions (jinja/parse_expr.c) and statements
// (jinja/parser.c). Private to them.
#pragma once

#include "runtime/text/jinja/ast.h"

struct parser {
    struct jinja_program *program;
    const struct jinja_token *token; // next token
    struct error *err;
    uint32_t depth;
    uint32_t loops; // loops around the current statement, within one macro
    size_t names_allocated;
    uint8_t macro_uses; // MACRO_* bits of the macro being parsed
};

// Functions that return a node or bool return NULL or false after filling err.
struct jinja_node *parse_expression(struct parser *p);
struct jinja_node *parse_or(struct parser *p); // an expression without `x if y else z`
struct jinja_node *parse_primary(struct parser *p);
struct jinja_node *parse_postfix(struct parser *p, struct jinja_node *node);
struct jinja_node *parse_filters(struct parser *p);
// Parses `a, b, c` as a tuple, or a single expression as itself. conditional: elements may be
// `x if y`; brackets: it may be empty.
struct jinja_node *parse_tuple(struct parser *p, bool conditional, bool brackets);
// The left side of an assignment. attributes: name.attribute is allowed.
struct jinja_node *parse_target(struct parser *p, bool attributes);
struct jinja_node *parse_target_one(struct parser *p, bool attributes); // a target that is no tuple

// Creates a node at the current line. node_add appends an item to node->items.
struct jinja_node *node_make(struct parser *p, enum jinja_node_kind kind);
bool node_add(struct parser *p, struct jinja_node *node, struct jinja_node *item);
// Returns the index of a name in the program, adding it if new.
bool name_intern(struct parser *p, struct text text, uint32_t *name);
void *parser_fail(struct parser *p, const char *what); // sets the first error; returns NULL
// Enters one more level, which the caller leaves with p->depth--. Fails at JINJA_NEST_MAX.
bool parser_enter(struct parser *p);

// next_ functions test the next token. accept_ functions also consume it if it matches. expect_op
// also fails if it does not match.
bool next_is(const struct parser *p, int op);
bool next_is_name(const struct parser *p, const char *name);
bool accept_op(struct parser *p, int op);
bool accept_name(struct parser *p, const char *name);
bool expect_op(struct parser *p, int op);
