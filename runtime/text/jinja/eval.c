// SPDX-License-Identifier: Apache-2.0
// Expressions; see jinja/internal.h.
#include "runtime/text/jinja/internal.h"

bool jinja_enter(struct jinja_run *run)
{
    if (run->depth >= JINJA_DEPTH_MAX)
        return jinja_fail(run, STATUS_TOO_LARGE, "the template calls itself too deeply");
    run->depth++;
    return jinja_spend(run, 1);
}

static bool eval_name(struct jinja_run *run, struct jinja_frame *frame,
                      const struct jinja_node *node, struct jinja_value *out)
{
    const struct jinja_value *found = jinja_frame_find(frame, node->name);
    for (const struct jinja_frame *scope = frame; scope; scope = scope->parent)
        if (!jinja_spend(run, scope->count / 16)) // cost of the search above
            return false;
    *out = found ? *found : run->globals[node->name];
    if (out->kind == JINJA_MISSING)
        *out = jinja_undefined_name(run, run->program->names[node->name]);
    return run->status == STATUS_OK;
}

static bool eval_items(struct jinja_run *run, struct jinja_frame *frame,
                       const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_items items = {0};
    for (uint32_t i = 0; i < node->count; i++) {
        struct jinja_value item;
        if (!jinja_eval(run, frame, node->items[i], &item) || !jinja_items_add(run, &items, item))
            return false;
    }
    return jinja_items_list(run, &items, node->kind == NODE_TUPLE ? JINJA_IS_TUPLE : JINJA_IS_LIST,
                            out);
}

static bool eval_dict(struct jinja_run *run, struct jinja_frame *frame,
                      const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_pair *pairs = jinja_alloc(run, node->count / 2, sizeof *pairs);
    if (!pairs)
        return false;
    for (uint32_t i = 0; i < node->count / 2; i++)
        if (!jinja_eval(run, frame, node->items[2 * i], &pairs[i].key) ||
            !jinja_eval(run, frame, node->items[2 * i + 1], &pairs[i].value))
            return false;
    return jinja_dict_make(run, pairs, node->count / 2, out);
}

static bool eval_getitem(struct jinja_run *run, struct jinja_frame *frame,
                         const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_value of;
    struct jinja_value part[3] = {{0}, {0}, {0}};
    const struct jinja_node *index = node->b;
    if (!jinja_eval(run, frame, node->a, &of))
        return false;
    if (index->kind != NODE_SLICE)
        return jinja_eval(run, frame, index, &part[0]) && jinja_getitem(run, of, part[0], out);
    const struct jinja_node *children[3] = {index->a, index->b, index->c};
    for (int i = 0; i < 3; i++)
        if (children[i] && !jinja_eval(run, frame, children[i], &part[i]))
            return false;
    return jinja_getslice(run, of, part, out);
}

static bool eval_call(struct jinja_run *run, struct jinja_frame *frame,
                      const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_value callee;
    struct jinja_call call = {.name = "call"};
    return jinja_eval(run, frame, node->a, &callee) &&
           jinja_eval_args(run, frame, node->b, &call) && jinja_call(run, callee, &call, out);
}

static bool eval_filter(struct jinja_run *run, struct jinja_frame *frame,
                        const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_call call = {.name = "filter"};
    if (!jinja_eval(run, frame, node->a, &call.self) ||
        !jinja_eval_args(run, frame, node->b, &call))
        return false;
    run->line = node->line;
    return jinja_filter(run, node->text, &call, out);
}

static bool eval_test(struct jinja_run *run, struct jinja_frame *frame,
                      const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_call call = {.name = "test"};
    bool passed = false;
    if (!jinja_eval(run, frame, node->a, &call.self) ||
        !jinja_eval_args(run, frame, node->b, &call) ||
        !jinja_test(run, node->text, &call, &passed))
        return false;
    *out = jinja_bool(passed);
    return true;
}

static bool eval_unary(struct jinja_run *run, struct jinja_frame *frame,
                       const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_value of;
    if (!jinja_eval(run, frame, node->a, &of))
        return false;
    if (node->kind == NODE_NOT) {
        *out = jinja_bool(!jinja_truth(of));
        return true;
    }
    if (of.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, of);
    if (!jinja_is_number(of))
        return jinja_fail(run, STATUS_INVALID, "a value of type %s has no sign",
                          jinja_kind_name(of));
    int64_t sign = node->kind == NODE_NEGATE ? -1 : 1;
    if (of.kind == JINJA_WIDE)
        return jinja_wide_signed(run, of, sign < 0, out);
    if (of.kind == JINJA_FLOAT) {
        *out = jinja_float(sign < 0 ? -of.as.real : of.as.real);
        return true;
    }
    return jinja_binary(run, '*', jinja_int(jinja_as_int(of)), jinja_int(sign), out);
}

static bool eval_logic(struct jinja_run *run, struct jinja_frame *frame,
                       const struct jinja_node *node, struct jinja_value *out)
{
    if (!jinja_eval(run, frame, node->a, out))
        return false;
    if (jinja_truth(*out) == (node->kind == NODE_OR))
        return true;
    return jinja_eval(run, frame, node->b, out);
}

static bool eval_binary(struct jinja_run *run, struct jinja_frame *frame,
                        const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_value a;
    struct jinja_value b;
    return jinja_eval(run, frame, node->a, &a) && jinja_eval(run, frame, node->b, &b) &&
           jinja_binary(run, node->op, a, b, out);
}

static bool eval_concat(struct jinja_run *run, struct jinja_frame *frame,
                        const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_value first;
    struct jinja_value next;
    if (!jinja_eval(run, frame, node->items[0], &first) || !jinja_to_string(run, first, &first))
        return false;
    struct jinja_string bare = *first.as.string; // ~ does not escape
    bare.markup = false;
    first = jinja_of_string(&bare);
    for (uint32_t i = 1; i < node->count; i++) {
        struct jinja_string bare_next;
        if (!jinja_eval(run, frame, node->items[i], &next) || !jinja_to_string(run, next, &next))
            return false;
        bare_next = *next.as.string;
        bare_next.markup = false;
        if (!jinja_string_join(run, first, jinja_of_string(&bare_next), &first))
            return false;
    }
    *out = first;
    return true;
}

static bool eval_compare(struct jinja_run *run, struct jinja_frame *frame,
                         const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_value left;
    struct jinja_value right;
    bool holds = true;
    if (!jinja_eval(run, frame, node->a, &left))
        return false;
    for (uint32_t i = 0; i < node->count && holds; i++) {
        if (!jinja_eval(run, frame, node->items[i]->a, &right) ||
            !jinja_compare(run, node->items[i]->op, left, right, &holds))
            return false;
        left = right;
    }
    *out = jinja_bool(holds);
    return true;
}

static bool eval_cond(struct jinja_run *run, struct jinja_frame *frame,
                      const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_value condition;
    if (!jinja_eval(run, frame, node->a, &condition))
        return false;
    const struct jinja_node *chosen = jinja_truth(condition) ? node->b : node->c;
    *out = jinja_undefined("an inline if without else gave nothing");
    return !chosen || jinja_eval(run, frame, chosen, out);
}

static bool eval_getattr(struct jinja_run *run, struct jinja_frame *frame,
                         const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_value of;
    return jinja_eval(run, frame, node->a, &of) && jinja_getattr(run, of, node->text, out);
}

static bool eval_const(struct jinja_run *run, struct jinja_frame *frame,
                       const struct jinja_node *node, struct jinja_value *out)
{
    (void)run;
    (void)frame;
    *out = node->value;
    return true;
}

bool jinja_eval(struct jinja_run *run, struct jinja_frame *frame, const struct jinja_node *node,
                struct jinja_value *out)
{
    static bool (*const by_kind[])(struct jinja_run *, struct jinja_frame *,
                                   const struct jinja_node *, struct jinja_value *) = {
        [NODE_CONST] = eval_const,     [NODE_NAME] = eval_name,     [NODE_GETATTR] = eval_getattr,
        [NODE_GETITEM] = eval_getitem, [NODE_CALL] = eval_call,     [NODE_FILTER] = eval_filter,
        [NODE_TEST] = eval_test,       [NODE_NEGATE] = eval_unary,  [NODE_POSITIVE] = eval_unary,
        [NODE_NOT] = eval_unary,       [NODE_AND] = eval_logic,     [NODE_OR] = eval_logic,
        [NODE_BINARY] = eval_binary,   [NODE_CONCAT] = eval_concat, [NODE_COMPARE] = eval_compare,
        [NODE_COND] = eval_cond,       [NODE_LIST] = eval_items,    [NODE_TUPLE] = eval_items,
        [NODE_DICT] = eval_dict,
    };
    if (node->kind >= sizeof by_kind / sizeof *by_kind || !by_kind[node->kind])
        return jinja_fail(run, STATUS_INVALID, "a slice is allowed only inside [...]");
    if (!jinja_enter(run))
        return false;
    run->line = node->line;
    bool fine = by_kind[node->kind](run, frame, node, out);
    run->depth--;
    return fine;
}
