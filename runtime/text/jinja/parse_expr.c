// SPDX-License-Identifier: Apache-2.0
// Parses expressions into nodes, with Jinja's operator precedence. Recursive descent with limited
// depth; see jinja/parser.h.
#include "runtime/text/jinja/parser.h"

#include "runtime/text/jinja/string.h"

void *parser_fail(struct parser *p, const char *what)
{
    if (!p->err || p->err->status == STATUS_OK)
        error_set(p->err, STATUS_INVALID, "line %u: %s", p->token->line, what);
    return NULL;
}

bool parser_enter(struct parser *p)
{
    if (p->depth >= JINJA_NEST_MAX)
        return parser_fail(p, "the template is nested too deeply") != NULL;
    p->depth++;
    return true;
}

struct jinja_node *node_make(struct parser *p, enum jinja_node_kind kind)
{
    struct jinja_node *node = arena_alloc_zeroed(p->program->arena, 1, sizeof *node);
    if (!node)
        return parser_fail(p, "the template is too large");
    node->kind = (uint8_t)kind;
    node->line = p->token->line;
    return node;
}

bool node_add(struct parser *p, struct jinja_node *node, struct jinja_node *item)
{
    if (!item)
        return false;
    struct jinja_node **items =
        arena_extend(p->program->arena, node->items, node->count, &node->allocated, sizeof *items);
    if (!items)
        return parser_fail(p, "the template is too large") != NULL;
    node->items = items;
    node->items[node->count++] = item;
    return true;
}

bool name_intern(struct parser *p, struct text text, uint32_t *name)
{
    struct jinja_program *program = p->program;
    for (uint32_t i = 0; i < program->name_count; i++)
        if (text_equal(program->names[i], text)) {
            *name = i;
            return true;
        }
    if (program->name_count == JINJA_NAMES_MAX)
        return parser_fail(p, "the template has too many names") != NULL;
    struct text *names = arena_extend(program->arena, program->names, program->name_count,
                                      &p->names_allocated, sizeof *names);
    if (!names)
        return parser_fail(p, "the template is too large") != NULL;
    program->names = names;
    *name = program->name_count;
    program->names[program->name_count++] = text;
    return true;
}

bool next_is(const struct parser *p, int op)
{
    return p->token->kind == TOKEN_OPERATOR && p->token->op == op;
}

bool next_is_name(const struct parser *p, const char *name)
{
    return p->token->kind == TOKEN_NAME && text_is(p->token->text, name);
}

bool accept_op(struct parser *p, int op)
{
    bool found = next_is(p, op);
    p->token += found;
    return found;
}

bool accept_name(struct parser *p, const char *name)
{
    bool found = next_is_name(p, name);
    p->token += found;
    return found;
}

bool expect_op(struct parser *p, int op)
{
    if (accept_op(p, op))
        return true;
    char what[] = "expected '  '";
    what[10] = (char)(op & 0xff);
    what[11] = op > 255 ? (char)(op >> 8) : '\'';
    what[12] = op > 255 ? '\'' : '\0';
    return parser_fail(p, what) != NULL;
}

static struct jinja_node *node_pair(struct parser *p, enum jinja_node_kind kind,
                                    struct jinja_node *a, struct jinja_node *b)
{
    struct jinja_node *node = a && b ? node_make(p, kind) : NULL;
    if (!node)
        return NULL;
    node->a = a;
    node->b = b;
    node->line = a->line;
    return node;
}

static struct jinja_node *parse_constant(struct parser *p, struct jinja_value value)
{
    struct jinja_node *node = node_make(p, NODE_CONST);
    if (node)
        node->value = value;
    return node;
}

static struct jinja_node *constant_string(struct parser *p, struct text text)
{
    struct jinja_string *string = arena_alloc_zeroed(p->program->arena, 1, sizeof *string);
    if (!string)
        return parser_fail(p, "the template is too large");
    string->at = text.at;
    string->bytes = text.bytes;
    return parse_constant(p, jinja_of_string(string));
}

// Parses adjacent strings as one string.
static struct jinja_node *parse_string(struct parser *p)
{
    size_t bytes = 0;
    const struct jinja_token *first = p->token;
    while (p->token->kind == TOKEN_STRING)
        bytes += p->token++->text.bytes;
    if (p->token == first + 1)
        return constant_string(p, first->text);
    char *joined = arena_alloc(p->program->arena, bytes + 1);
    if (!joined)
        return parser_fail(p, "the template is too large");
    size_t at = 0;
    for (const struct jinja_token *token = first; token < p->token; token++) {
        memcpy(joined + at, token->text.at, token->text.bytes);
        at += token->text.bytes;
    }
    return constant_string(p, text_span(joined, bytes));
}

static struct jinja_node *parse_name(struct parser *p)
{
    struct text text = p->token->text;
    struct jinja_value value = {0};
    if (text_is(text, "true") || text_is(text, "True"))
        value = jinja_bool(true);
    else if (text_is(text, "false") || text_is(text, "False"))
        value = jinja_bool(false);
    else if (text_is(text, "none") || text_is(text, "None"))
        value = jinja_none();
    struct jinja_node *node = node_make(p, value.kind != JINJA_MISSING ? NODE_CONST : NODE_NAME);
    if (!node || !name_intern(p, text, &node->name))
        return NULL;
    node->value = value;
    p->token++;
    if (node->name == NAME_CALLER)
        p->macro_uses |= MACRO_CALLER;
    if (node->name == NAME_VARARGS)
        p->macro_uses |= MACRO_VARARGS;
    if (node->name == NAME_KWARGS)
        p->macro_uses |= MACRO_KWARGS;
    return node;
}

// Parses the content of brackets, from the opening one on: expressions, or key and value for a
// dict.
static struct jinja_node *parse_items(struct parser *p, enum jinja_node_kind kind, char end)
{
    struct jinja_node *node = node_make(p, kind);
    p->token++;
    while (node && !next_is(p, end)) {
        if (node->count > 0 && !expect_op(p, ','))
            return NULL;
        if (next_is(p, end))
            break;
        if (!node_add(p, node, parse_expression(p)))
            return NULL;
        if (kind == NODE_DICT && (!expect_op(p, ':') || !node_add(p, node, parse_expression(p))))
            return NULL;
    }
    return node && expect_op(p, end) ? node : NULL;
}

struct jinja_node *parse_primary(struct parser *p)
{
    const struct jinja_token *token = p->token;
    struct jinja_node *node;
    switch (token->kind) {
    case TOKEN_NAME:
        return parse_name(p);
    case TOKEN_STRING:
        return parse_string(p);
    case TOKEN_INT:
    case TOKEN_FLOAT:
        p->token++;
        return parse_constant(p, token->kind == TOKEN_INT ? jinja_int(token->integer)
                                                          : jinja_float(token->real));
    default:
        break;
    }
    if (accept_op(p, '(')) {
        node = parse_tuple(p, true, true);
        return node && expect_op(p, ')') ? node : NULL;
    }
    if (next_is(p, '['))
        return parse_items(p, NODE_LIST, ']');
    if (next_is(p, '{'))
        return parse_items(p, NODE_DICT, '}');
    return parser_fail(p, "expected an expression");
}

static bool tuple_ends(const struct parser *p)
{
    return p->token->kind == TOKEN_VARIABLE_END || p->token->kind == TOKEN_BLOCK_END ||
           next_is(p, ')') || next_is_name(p, "in") || next_is_name(p, "recursive");
}

struct jinja_node *parse_tuple(struct parser *p, bool conditional, bool brackets)
{
    struct jinja_node *tuple = node_make(p, NODE_TUPLE);
    bool comma = false;
    while (tuple) {
        if (tuple->count > 0 && !accept_op(p, ','))
            break;
        comma = comma || tuple->count > 0;
        if (tuple_ends(p))
            break;
        if (!node_add(p, tuple, conditional ? parse_expression(p) : parse_or(p)))
            return NULL;
    }
    if (tuple && tuple->count == 0 && !brackets)
        return parser_fail(p, "expected an expression");
    return tuple && tuple->count == 1 && !comma ? tuple->items[0] : tuple;
}

struct jinja_node *parse_target_one(struct parser *p, bool attributes)
{
    if (p->token->kind != TOKEN_NAME && accept_op(p, '(')) {
        struct jinja_node *inner = parse_target(p, attributes);
        return inner && expect_op(p, ')') ? inner : NULL;
    }
    if (p->token->kind != TOKEN_NAME)
        return parser_fail(p, "expected the name of a variable");
    struct jinja_node *node = parse_name(p);
    if (!node)
        return NULL;
    if (node->kind != NODE_NAME)
        return parser_fail(p, "a constant cannot be assigned to");
    if (!attributes || !accept_op(p, '.'))
        return node;
    node->kind = NODE_ATTR_TARGET;
    if (p->token->kind != TOKEN_NAME)
        return parser_fail(p, "expected an attribute name");
    node->text = p->token++->text;
    return node;
}

struct jinja_node *parse_target(struct parser *p, bool attributes)
{
    if (!parser_enter(p))
        return NULL;
    struct jinja_node *tuple = node_make(p, NODE_TUPLE);
    bool comma = false;
    while (tuple) {
        if (tuple->count > 0 && !accept_op(p, ','))
            break;
        comma = comma || tuple->count > 0;
        if (tuple->count > 0 && (tuple_ends(p) || next_is(p, '=')))
            break;
        if (!node_add(p, tuple, parse_target_one(p, attributes)))
            return NULL;
    }
    p->depth--;
    return tuple && !comma ? tuple->items[0] : tuple;
}

static struct jinja_node *parse_slice_or_index(struct parser *p)
{
    struct jinja_node *slice = node_make(p, NODE_SLICE);
    struct jinja_node *part[3] = {NULL, NULL, NULL};
    int at = 0;
    while (slice && !next_is(p, ']') && !next_is(p, ',')) {
        if (accept_op(p, ':')) {
            if (++at == 3)
                return parser_fail(p, "a slice has at most three parts");
            continue;
        }
        if (part[at])
            return parser_fail(p, "expected ']'");
        part[at] = parse_expression(p);
        if (!part[at])
            return NULL;
    }
    if (!slice)
        return NULL;
    if (at == 0)
        return part[0] ? part[0] : parser_fail(p, "expected an index");
    slice->a = part[0];
    slice->b = part[1];
    slice->c = part[2];
    return slice;
}

static struct jinja_node *parse_subscript(struct parser *p, struct jinja_node *of)
{
    struct jinja_node *node = node_make(p, NODE_GETITEM);
    if (!node)
        return NULL;
    node->a = of;
    if (accept_op(p, '.')) {
        if (p->token->kind == TOKEN_NAME) {
            node->kind = NODE_GETATTR;
            node->text = p->token++->text;
            return node;
        }
        if (p->token->kind != TOKEN_INT)
            return parser_fail(p, "expected an attribute name");
        node->b = parse_primary(p);
        return node->b ? node : NULL;
    }
    p->token++;
    struct jinja_node *index = node_make(p, NODE_TUPLE);
    while (index && !next_is(p, ']')) {
        if (index->count > 0 && !expect_op(p, ','))
            return NULL;
        if (!node_add(p, index, parse_slice_or_index(p)))
            return NULL;
    }
    if (!index || !expect_op(p, ']'))
        return parser_fail(p, "expected an index");
    // The index of a[] is an empty tuple, which matches nothing.
    node->b = index->count == 1 ? index->items[0] : index;
    return node;
}

static bool parse_argument(struct parser *p, struct jinja_node *args, struct jinja_node *keywords)
{
    if (accept_op(p, '*'))
        return !args->a && !args->b && (args->a = parse_expression(p)) != NULL;
    if (accept_op(p, OP_POWER))
        return !args->b && (args->b = parse_expression(p)) != NULL;
    if (p->token->kind == TOKEN_NAME && p->token[1].kind == TOKEN_OPERATOR &&
        p->token[1].op == '=') {
        struct jinja_node *keyword = node_make(p, NODE_KEYWORD);
        if (!keyword || args->b)
            return false;
        keyword->text = p->token->text;
        p->token += 2;
        keyword->a = parse_expression(p);
        return keyword->a && node_add(p, keywords, keyword);
    }
    if (args->a || args->b || keywords->count > 0)
        return false;
    return node_add(p, args, parse_expression(p));
}

static struct jinja_node *parse_args(struct parser *p)
{
    struct jinja_node *args = node_make(p, NODE_ARGS);
    struct jinja_node keywords = {0}; // only its list of items is used
    if (!args || !expect_op(p, '('))
        return NULL;
    bool first = true;
    while (!next_is(p, ')')) {
        if (!first && !expect_op(p, ','))
            return NULL;
        if (!first && next_is(p, ')'))
            break;
        first = false;
        if (!parse_argument(p, args, &keywords))
            return parser_fail(p, "the arguments of this call are malformed");
    }
    p->token++;
    args->more = keywords.items;
    args->more_count = keywords.count;
    return args;
}

static struct jinja_node *parse_call(struct parser *p, struct jinja_node *of)
{
    struct jinja_node *args = parse_args(p);
    return node_pair(p, NODE_CALL, of, args);
}

struct jinja_node *parse_postfix(struct parser *p, struct jinja_node *node)
{
    while (node)
        if (next_is(p, '.') || next_is(p, '['))
            node = parse_subscript(p, node);
        else if (next_is(p, '('))
            node = parse_call(p, node);
        else
            break;
    return node;
}

// Reads a name, or name.name.name as one text.
static bool parse_dotted(struct parser *p, struct text *out)
{
    if (p->token->kind != TOKEN_NAME)
        return parser_fail(p, "expected the name of a filter or test") != NULL;
    struct text name = p->token++->text;
    while (accept_op(p, '.')) {
        if (p->token->kind != TOKEN_NAME)
            return parser_fail(p, "expected the name of a filter or test") != NULL;
        name.bytes = (size_t)(p->token->text.at + p->token->text.bytes - name.at);
        p->token++;
    }
    *out = name;
    return true;
}

static bool test_argument_follows(const struct parser *p)
{
    switch (p->token->kind) {
    case TOKEN_NAME:
        return !next_is_name(p, "else") && !next_is_name(p, "or") && !next_is_name(p, "and");
    case TOKEN_STRING:
    case TOKEN_INT:
    case TOKEN_FLOAT:
        return true;
    default:
        return next_is(p, '[') || next_is(p, '{');
    }
}

static struct jinja_node *parse_test(struct parser *p, struct jinja_node *of)
{
    p->token++;
    bool negated = accept_name(p, "not");
    struct jinja_node *node = node_make(p, NODE_TEST);
    if (!node || !parse_dotted(p, &node->text))
        return NULL;
    node->a = of;
    if (next_is(p, '(')) {
        node->b = parse_args(p);
        if (!node->b)
            return NULL;
    } else if (test_argument_follows(p)) {
        if (next_is_name(p, "is"))
            return parser_fail(p, "tests cannot be chained with is");
        node->b = node_make(p, NODE_ARGS);
        if (!node->b || !node_add(p, node->b, parse_postfix(p, parse_primary(p))))
            return NULL;
    }
    if (!negated)
        return node;
    struct jinja_node *not_node = node_make(p, NODE_NOT);
    if (not_node)
        not_node->a = node;
    return not_node;
}

static struct jinja_node *parse_filter(struct parser *p, struct jinja_node *of)
{
    struct jinja_node *filter = node_make(p, NODE_FILTER);
    if (!filter || !parse_dotted(p, &filter->text))
        return NULL;
    filter->a = of;
    if (next_is(p, '(') && !(filter->b = parse_args(p)))
        return NULL;
    return filter;
}

// Parses the filters of a block: `name | name`, the first one without a bar.
struct jinja_node *parse_filters(struct parser *p)
{
    struct jinja_node *node = parse_filter(p, NULL);
    while (node && accept_op(p, '|'))
        node = parse_filter(p, node);
    return node;
}

static struct jinja_node *parse_filter_expression(struct parser *p, struct jinja_node *node)
{
    while (node)
        if (accept_op(p, '|'))
            node = parse_filter(p, node);
        else if (next_is_name(p, "is"))
            node = parse_test(p, node);
        else if (next_is(p, '('))
            node = parse_call(p, node);
        else
            break;
    return node;
}

static struct jinja_node *parse_unary(struct parser *p, bool filters)
{
    if (!parser_enter(p))
        return NULL;
    struct jinja_node *node;
    if (next_is(p, '-') || next_is(p, '+')) {
        node = node_make(p, next_is(p, '-') ? NODE_NEGATE : NODE_POSITIVE);
        p->token++;
        if (node && !(node->a = parse_unary(p, false)))
            node = NULL;
    } else {
        node = parse_primary(p);
    }
    node = parse_postfix(p, node);
    if (filters)
        node = parse_filter_expression(p, node);
    p->depth--;
    return node;
}

static struct jinja_node *parse_binary(struct parser *p, const int *ops,
                                       struct jinja_node *(*inner)(struct parser *))
{
    struct jinja_node *left = inner(p);
    while (left && p->token->kind == TOKEN_OPERATOR) {
        int op = p->token->op;
        const int *known = ops;
        while (*known != 0 && *known != op)
            known++;
        if (*known == 0)
            break;
        p->token++;
        left = node_pair(p, NODE_BINARY, left, inner(p));
        if (left)
            left->op = op;
    }
    return left;
}

static struct jinja_node *parse_filtered_unary(struct parser *p)
{
    return parse_unary(p, true);
}

static struct jinja_node *parse_power(struct parser *p)
{
    static const int ops[] = {OP_POWER, 0};
    return parse_binary(p, ops, parse_filtered_unary);
}

static struct jinja_node *parse_product(struct parser *p)
{
    static const int ops[] = {'*', '/', OP_FLOOR, '%', 0};
    return parse_binary(p, ops, parse_power);
}

static struct jinja_node *parse_concat(struct parser *p)
{
    struct jinja_node *first = parse_product(p);
    if (!first || !next_is(p, '~'))
        return first;
    struct jinja_node *node = node_make(p, NODE_CONCAT);
    if (!node || !node_add(p, node, first))
        return NULL;
    while (accept_op(p, '~'))
        if (!node_add(p, node, parse_product(p)))
            return NULL;
    return node;
}

static struct jinja_node *parse_sum(struct parser *p)
{
    static const int ops[] = {'+', '-', 0};
    return parse_binary(p, ops, parse_concat);
}

// Consumes the next token(s) if they are a comparison operator and returns it; 0: none.
static int accept_comparison(struct parser *p)
{
    static const int ops[] = {OP_EQ, OP_NE, '<', OP_LE, '>', OP_GE};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (accept_op(p, ops[i]))
            return ops[i];
    if (accept_name(p, "in"))
        return OP_IN;
    bool not_in =
        next_is_name(p, "not") && p->token[1].kind == TOKEN_NAME && text_is(p->token[1].text, "in");
    p->token += not_in ? 2 : 0;
    return not_in ? OP_NOT_IN : 0;
}

static struct jinja_node *parse_compare(struct parser *p)
{
    struct jinja_node *first = parse_sum(p), *node = NULL;
    int op;
    while (first && (op = accept_comparison(p)) != 0) {
        struct jinja_node *operand = node_make(p, NODE_OPERAND);
        node = node ? node : node_make(p, NODE_COMPARE);
        if (!operand || !node)
            return NULL;
        node->a = first;
        operand->op = op;
        operand->a = parse_sum(p);
        if (!operand->a || !node_add(p, node, operand))
            return NULL;
    }
    return node ? node : first;
}

static struct jinja_node *parse_not(struct parser *p)
{
    if (!next_is_name(p, "not"))
        return parse_compare(p);
    struct jinja_node *node = parser_enter(p) ? node_make(p, NODE_NOT) : NULL;
    p->token++;
    if (!node || !(node->a = parse_not(p)))
        return NULL;
    p->depth--;
    return node;
}

static struct jinja_node *parse_and(struct parser *p)
{
    struct jinja_node *left = parse_not(p);
    while (left && accept_name(p, "and"))
        left = node_pair(p, NODE_AND, left, parse_not(p));
    return left;
}

struct jinja_node *parse_or(struct parser *p)
{
    struct jinja_node *left = parse_and(p);
    while (left && accept_name(p, "or"))
        left = node_pair(p, NODE_OR, left, parse_and(p));
    return left;
}

struct jinja_node *parse_expression(struct parser *p)
{
    if (!parser_enter(p))
        return NULL;
    struct jinja_node *node = parse_or(p);
    while (node && accept_name(p, "if")) {
        struct jinja_node *condition = parse_or(p);
        struct jinja_node *chosen = node_pair(p, NODE_COND, condition, node);
        if (chosen && accept_name(p, "else") && !(chosen->c = parse_expression(p)))
            return NULL;
        node = chosen;
    }
    p->depth--;
    return node;
}
