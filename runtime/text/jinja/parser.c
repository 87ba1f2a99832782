// SPDX-License-Identifier: Apache-2.0
// Parses statements into nodes; expressions are in jinja/parse_expr.c. Tags that load other
// templates (extends, include, import) are refused by name.
#include "runtime/text/jinja/parser.h"

static struct jinja_node *parse_body(struct parser *p, const char *const *ends);

static bool at_one_of(const struct parser *p, const char *const *names)
{
    for (; *names; names++)
        if (next_is_name(p, *names))
            return true;
    return false;
}

static bool expect_tag_end(struct parser *p)
{
    if (p->token->kind != TOKEN_BLOCK_END)
        return parser_fail(p, "expected the end of the tag, '%}'") != NULL;
    p->token++;
    return true;
}

// Parses a body up to {% end %} and consumes that name.
static struct jinja_node *parse_body_to(struct parser *p, const char *end)
{
    const char *const ends[] = {end, NULL};
    struct jinja_node *body = expect_tag_end(p) ? parse_body(p, ends) : NULL;
    if (body)
        p->token++;
    return body;
}

static struct jinja_node *parse_if(struct parser *p)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    struct jinja_node *node = node_make(p, NODE_IF);
    while (node) {
        struct jinja_node *condition = parse_tuple(p, false, false);
        if (condition && next_is_name(p, "if")) // `a if b` is not allowed as a condition
            return parser_fail(p, "expected the end of the tag, '%}'");
        if (!node_add(p, node, condition) || !expect_tag_end(p) ||
            !node_add(p, node, parse_body(p, ends)))
            return NULL;
        if (!accept_name(p, "elif"))
            break;
    }
    if (!node)
        return NULL;
    if (accept_name(p, "else"))
        return (node->c = parse_body_to(p, "endif")) != NULL ? node : NULL;
    p->token++;
    return node;
}

static bool target_has_loop(const struct jinja_node *target)
{
    for (uint32_t i = 0; i < target->count; i++)
        if (target_has_loop(target->items[i]))
            return true;
    return target->kind == NODE_NAME && target->name == NAME_LOOP;
}

static struct jinja_node *parse_for(struct parser *p)
{
    static const char *const ends[] = {"else", "endfor", NULL};
    struct jinja_node *node = node_make(p, NODE_FOR);
    if (!node || !(node->a = parse_target(p, false)))
        return NULL;
    if (target_has_loop(node->a))
        return parser_fail(p, "a variable of a for loop cannot be named loop");
    if (!accept_name(p, "in"))
        return parser_fail(p, "expected 'in' after the variables of the loop");
    node->b = parse_tuple(p, false, false);
    node->more = arena_alloc_zeroed(p->program->arena, 2, sizeof *node->more);
    if (!node->b || !node->more)
        return NULL;
    node->more_count = 2;
    if (accept_name(p, "if") && !(node->more[0] = parse_expression(p)))
        return NULL;
    node->flag = accept_name(p, "recursive");
    p->loops++;
    node->c = expect_tag_end(p) ? parse_body(p, ends) : NULL;
    p->loops--;
    if (!node->c)
        return NULL;
    if (accept_name(p, "else"))
        return (node->more[1] = parse_body_to(p, "endfor")) != NULL ? node : NULL;
    p->token++;
    return node;
}

static struct jinja_node *parse_set(struct parser *p)
{
    struct jinja_node *node = node_make(p, NODE_SET);
    if (!node || !(node->a = parse_target(p, true)))
        return NULL;
    if (accept_op(p, '='))
        return (node->b = parse_tuple(p, true, false)) != NULL ? node : NULL;
    node->kind = NODE_SET_BLOCK;
    if (accept_op(p, '|') && !(node->b = parse_filters(p)))
        return NULL;
    return (node->c = parse_body_to(p, "endset")) != NULL ? node : NULL;
}

// Parses (a, b=1): the parameters and their defaults.
static bool parse_parameters(struct parser *p, struct jinja_node *macro)
{
    struct jinja_node defaults = {0}; // only its list of items is used
    bool had_default = false;
    if (!expect_op(p, '('))
        return false;
    while (!next_is(p, ')')) {
        if (macro->count > 0 && !expect_op(p, ','))
            return false;
        struct jinja_node *name = parse_target_one(p, false);
        if (!name || name->kind != NODE_NAME)
            return parser_fail(p, "expected the name of a parameter") != NULL;
        if (!node_add(p, macro, name) || !node_add(p, &defaults, name))
            return false;
        bool given = accept_op(p, '=');
        struct jinja_node *value = given ? parse_expression(p) : NULL;
        had_default = had_default || given;
        if (!value && had_default)
            return parser_fail(p, "a parameter without default follows one with") != NULL;
        defaults.items[defaults.count - 1] = value;
    }
    p->token++;
    macro->more = defaults.items;
    macro->more_count = defaults.count;
    return true;
}

// Parses the body of a macro; sets the flag bits for its uses of caller, varargs and kwargs.
static bool parse_macro_rest(struct parser *p, struct jinja_node *macro, const char *end)
{
    uint8_t outer_uses = p->macro_uses;
    uint32_t outer_loops = p->loops;
    p->macro_uses = 0;
    p->loops = 0;
    macro->c = parse_body_to(p, end);
    macro->flag = p->macro_uses;
    p->macro_uses |= outer_uses;
    p->loops = outer_loops;
    return macro->c != NULL;
}

static struct jinja_node *parse_macro(struct parser *p)
{
    struct jinja_node *node = node_make(p, NODE_MACRO);
    struct jinja_node *name = parse_target_one(p, false);
    if (!node || !name)
        return NULL;
    if (name->kind != NODE_NAME)
        return parser_fail(p, "expected the name of the macro");
    node->name = name->name;
    node->text = p->program->names[name->name];
    return parse_parameters(p, node) && parse_macro_rest(p, node, "endmacro") ? node : NULL;
}

static struct jinja_node *parse_call_block(struct parser *p)
{
    struct jinja_node *node = node_make(p, NODE_CALL_BLOCK);
    struct jinja_node *caller = node_make(p, NODE_MACRO);
    if (!node || !caller)
        return NULL;
    caller->name = NAME_CALLER;
    caller->text = text_of("caller");
    if (next_is(p, '(') && !parse_parameters(p, caller))
        return NULL;
    node->a = parse_expression(p);
    node->b = caller;
    if (!node->a)
        return NULL;
    if (node->a->kind != NODE_CALL)
        return parser_fail(p, "expected a call");
    return parse_macro_rest(p, caller, "endcall") ? node : NULL;
}

static struct jinja_node *parse_filter_block(struct parser *p)
{
    struct jinja_node *node = node_make(p, NODE_FILTER_BLOCK);
    if (!node || !(node->b = parse_filters(p)))
        return NULL;
    return (node->c = parse_body_to(p, "endfilter")) != NULL ? node : NULL;
}

static struct jinja_node *parse_with(struct parser *p)
{
    struct jinja_node *node = node_make(p, NODE_WITH);
    while (node && p->token->kind != TOKEN_BLOCK_END) {
        if (node->count > 0 && !expect_op(p, ','))
            return NULL;
        if (!node_add(p, node, parse_target(p, false)) || !expect_op(p, '=') ||
            !node_add(p, node, parse_expression(p)))
            return NULL;
    }
    return node && (node->c = parse_body_to(p, "endwith")) ? node : NULL;
}

static struct jinja_node *parse_generation(struct parser *p)
{
    struct jinja_node *node = node_make(p, NODE_SCOPE);
    return node && (node->c = parse_body_to(p, "endgeneration")) != NULL ? node : NULL;
}

static struct jinja_node *parse_block(struct parser *p)
{
    struct jinja_node *node = node_make(p, NODE_SCOPE);
    if (!node || !parse_target(p, false) || !(node->c = parse_body_to(p, "endblock")))
        return NULL;
    if (p->token->kind == TOKEN_NAME)
        p->token++; // {% endblock name %}
    return node;
}

static struct jinja_node *parse_print(struct parser *p)
{
    struct jinja_node *node = node_make(p, NODE_PRINT);
    return node && (node->a = parse_tuple(p, true, false)) != NULL ? node : NULL;
}

static struct jinja_node *parse_jump(struct parser *p, enum jinja_node_kind kind)
{
    if (p->loops == 0)
        return parser_fail(p, "break or continue outside of a loop");
    return node_make(p, kind);
}

static struct jinja_node *parse_break(struct parser *p)
{
    return parse_jump(p, NODE_BREAK);
}

static struct jinja_node *parse_continue(struct parser *p)
{
    return parse_jump(p, NODE_CONTINUE);
}

static struct jinja_node *parse_statement(struct parser *p)
{
    static const struct {
        const char *name;
        struct jinja_node *(*parse)(struct parser *);
    } rows[] = {
        {"if", parse_if},           {"for", parse_for},
        {"set", parse_set},         {"macro", parse_macro},
        {"call", parse_call_block}, {"filter", parse_filter_block},
        {"with", parse_with},       {"generation", parse_generation},
        {"block", parse_block},     {"print", parse_print},
        {"break", parse_break},     {"continue", parse_continue},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (accept_name(p, rows[i].name)) {
            struct jinja_node *node = rows[i].parse(p);
            return node && expect_tag_end(p) ? node : NULL;
        }
    if (p->token->kind != TOKEN_NAME)
        return parser_fail(p, "expected the name of a tag");
    error_set(p->err, STATUS_UNSUPPORTED, "line %u: the tag '%.*s' is not supported here",
              p->token->line, (int)(p->token->text.bytes < 64 ? p->token->text.bytes : 64),
              p->token->text.at);
    return NULL;
}

static struct jinja_node *parse_piece(struct parser *p)
{
    struct jinja_node *node;
    if (p->token->kind == TOKEN_DATA) {
        node = node_make(p, NODE_TEXT);
        if (node)
            node->text = p->token->text;
        p->token++;
        return node;
    }
    if (p->token->kind == TOKEN_BLOCK_BEGIN) {
        p->token++;
        return parse_statement(p);
    }
    p->token++; // the {{ of an output
    node = parse_print(p);
    if (!node)
        return NULL;
    if (p->token->kind != TOKEN_VARIABLE_END)
        return parser_fail(p, "expected the end of the expression, '}}'");
    p->token++;
    return node;
}

// Parses up to a tag named in `ends` (NULL: to the end of the source); the next token is that name.
static struct jinja_node *parse_body(struct parser *p, const char *const *ends)
{
    if (!parser_enter(p))
        return NULL;
    struct jinja_node *body = node_make(p, NODE_BODY);
    while (body) {
        if (p->token->kind == TOKEN_END) {
            if (ends)
                return parser_fail(p, "the source ends inside of a block");
            break;
        }
        if (ends && p->token->kind == TOKEN_BLOCK_BEGIN) {
            p->token++;
            if (at_one_of(p, ends))
                break;
            p->token--;
        }
        if (!node_add(p, body, parse_piece(p)))
            return NULL;
    }
    p->depth--;
    return body;
}

bool jinja_parse(struct jinja_program *program, const struct jinja_tokens *tokens,
                 struct error *err)
{
    static const char *const known[NAMES_KNOWN] = {"loop", "caller", "varargs", "kwargs"};
    struct error scratch = {0};
    struct parser p = {.program = program, .token = tokens->items, .err = &scratch};
    for (int i = 0; i < NAMES_KNOWN; i++) {
        uint32_t name;
        if (!name_intern(&p, text_of(known[i]), &name))
            break;
    }
    program->body = parse_body(&p, NULL);
    if (!program->body && scratch.status == STATUS_OK)
        parser_fail(&p, "the template cannot be read");
    if (scratch.status != STATUS_OK)
        program->body = NULL;
    if (!program->body && err)
        *err = scratch;
    return program->body != NULL;
}
