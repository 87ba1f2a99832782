// What the two halves of the parser share: expressions (jinja/parse_expr.c) and statements
// (jinja/parser.c). Private to them.
#pragma once

#include "runtime/text/jinja/ast.h"

struct parser {
    struct jinja_program *program;
    const struct jinja_token *token; // the next one
    struct error *err;
    uint32_t depth;
    uint32_t loops; // around the statement, within one macro
    size_t names_allocated;
    uint8_t macro_uses; // MACRO_* of the macro being parsed
};

// All return NULL or false after filling err.
struct jinja_node *parse_expression(struct parser *p);
struct jinja_node *parse_or(struct parser *p); // an expression without `x if y else z`
struct jinja_node *parse_primary(struct parser *p);
struct jinja_node *parse_postfix(struct parser *p, struct jinja_node *node);
struct jinja_node *parse_filters(struct parser *p);
// a, b, c: a tuple, or the expression itself if there is one; conditional: may be `x if y`.
struct jinja_node *parse_tuple(struct parser *p, bool conditional, bool brackets);
struct jinja_node *parse_target(struct parser *p, bool attributes);
struct jinja_node *parse_target_one(struct parser *p, bool attributes); // no tuple

struct jinja_node *node_make(struct parser *p, enum jinja_node_kind kind);
bool node_add(struct parser *p, struct jinja_node *node, struct jinja_node *item);
bool name_intern(struct parser *p, struct text text, uint32_t *name);
void *parser_fail(struct parser *p, const char *what); // always NULL
bool parser_enter(struct parser *p);                   // one level deeper; p->depth-- ends it

bool next_is(const struct parser *p, int op);
bool next_is_name(const struct parser *p, const char *name);
bool take_op(struct parser *p, int op);
bool take_name(struct parser *p, const char *name);
bool expect_op(struct parser *p, int op);
