// SPDX-License-Identifier: Apache-2.0
// Statements; see jinja/internal.h. Scopes are as in Jinja: an if has none, the body of a loop has
// a new one in each iteration, a macro sees the scope in which it was defined.
#include "runtime/text/jinja/internal.h"

static struct jinja_frame *frame_create(struct jinja_run *run, struct jinja_frame *parent)
{
    struct jinja_frame *frame = jinja_alloc(run, 1, sizeof *frame);
    if (frame)
        *frame = (struct jinja_frame){.parent = parent};
    return frame;
}

static bool target_assign(struct jinja_run *run, struct jinja_frame *frame,
                          const struct jinja_node *target, struct jinja_value value)
{
    if (target->kind == NODE_NAME)
        return jinja_frame_set(run, frame, target->name, value);
    if (target->kind == NODE_ATTR_TARGET) {
        const struct jinja_value *space = jinja_frame_find(frame, target->name);
        if (!space)
            space = &run->globals[target->name];
        if (space->kind != JINJA_NAMESPACE)
            return jinja_fail(run, STATUS_INVALID, "only a namespace has attributes to set");
        return jinja_namespace_set(run, space->as.space, target->text, value);
    }
    struct jinja_list list;
    if (value.kind == JINJA_UNDEFINED && target->count > 0)
        return jinja_fail_undefined(run, value);
    if (!jinja_iterate(run, value, &list))
        return false;
    if (list.count != target->count)
        return jinja_fail(run, STATUS_INVALID, "%zu values for %u variables", list.count,
                          target->count);
    for (uint32_t i = 0; i < target->count; i++)
        if (!target_assign(run, frame, target->items[i], list.items[i]))
            return false;
    return true;
}

static bool exec_text(struct jinja_run *run, struct jinja_frame *frame,
                      const struct jinja_node *node)
{
    (void)frame;
    return jinja_builder_add(run, run->out, node->text, false);
}

static bool exec_print(struct jinja_run *run, struct jinja_frame *frame,
                       const struct jinja_node *node)
{
    struct jinja_value value;
    return jinja_eval(run, frame, node->a, &value) && jinja_print(run, run->out, value);
}

static bool exec_body(struct jinja_run *run, struct jinja_frame *frame,
                      const struct jinja_node *node)
{
    for (uint32_t i = 0; i < node->count && run->jump == 0; i++)
        if (!jinja_exec(run, frame, node->items[i]))
            return false;
    return true;
}

static bool exec_if(struct jinja_run *run, struct jinja_frame *frame, const struct jinja_node *node)
{
    for (uint32_t i = 0; i < node->count; i += 2) {
        struct jinja_value condition;
        if (!jinja_eval(run, frame, node->items[i], &condition))
            return false;
        if (jinja_truth(condition))
            return jinja_exec(run, frame, node->items[i + 1]);
    }
    return !node->c || jinja_exec(run, frame, node->c);
}

// Reduces `list` to the items that pass the loop's filter; if the loop has several variables, the
// items become tuples.
static bool loop_filter(struct jinja_run *run, struct jinja_frame *frame,
                        const struct jinja_node *node, struct jinja_list *list)
{
    struct jinja_items kept = {0};
    struct jinja_frame *scope = frame_create(run, frame);
    for (size_t i = 0; scope && i < list->count; i++) {
        struct jinja_value passed;
        scope->count = 0;
        if (!target_assign(run, scope, node->a, list->items[i]) ||
            !jinja_eval(run, scope, node->more[0], &passed))
            return false;
        struct jinja_value item = list->items[i];
        if (jinja_truth(passed) && node->a->kind == NODE_TUPLE &&
            !jinja_list_of(run, item, JINJA_IS_TUPLE, &item))
            return false;
        if (jinja_truth(passed) && !jinja_items_add(run, &kept, item))
            return false;
    }
    list->items = kept.items;
    list->count = kept.count;
    return scope != NULL;
}

bool jinja_for(struct jinja_run *run, struct jinja_frame *frame, const struct jinja_node *node,
               struct jinja_value over, uint32_t depth0)
{
    struct jinja_list list;
    if (!jinja_iterate(run, over, &list) ||
        (node->more[0] && !loop_filter(run, frame, node, &list)))
        return false;
    struct jinja_frame *scope = frame_create(run, frame);
    struct jinja_loop *loop = jinja_alloc(run, 1, sizeof *loop);
    if (!scope || !loop)
        return false;
    *loop = (struct jinja_loop){.items = list.items,
                                .count = list.count,
                                .depth0 = depth0,
                                .node = node->flag != 0 ? node : NULL,
                                .frame = frame};
    struct jinja_value loop_value = {.kind = JINJA_LOOP, .as.loop = loop};
    uint32_t closures = run->closures;
    bool completed = false; // true if an iteration completed; otherwise the loop counts as empty
    for (size_t i = 0; i < list.count; i++) {
        // A macro may reference the scope of the previous iteration.
        if (run->closures != closures)
            scope = frame_create(run, frame);
        if (!scope)
            return false;
        closures = run->closures;
        scope->count = 0;
        loop->index0 = i;
        if (!jinja_spend(run, 1) || !jinja_frame_set(run, scope, NAME_LOOP, loop_value) ||
            !target_assign(run, scope, node->a, list.items[i]) || !jinja_exec(run, scope, node->c))
            return false;
        uint8_t jump = run->jump;
        run->jump = 0;
        completed = completed || jump == 0;
        if (jump == NODE_BREAK)
            break;
    }
    if (completed || !node->more[1])
        return true;
    struct jinja_frame *otherwise = frame_create(run, frame);
    return otherwise && jinja_exec(run, otherwise, node->more[1]);
}

static bool exec_for(struct jinja_run *run, struct jinja_frame *frame,
                     const struct jinja_node *node)
{
    struct jinja_value over;
    return jinja_eval(run, frame, node->b, &over) && jinja_for(run, frame, node, over, 0);
}

static bool exec_set(struct jinja_run *run, struct jinja_frame *frame,
                     const struct jinja_node *node)
{
    struct jinja_value value;
    return jinja_eval(run, frame, node->b, &value) && target_assign(run, frame, node->a, value);
}

// Executes a body in its own scope and returns its output as a string.
static bool body_capture(struct jinja_run *run, struct jinja_frame *frame,
                         const struct jinja_node *body, struct jinja_value *out)
{
    struct jinja_builder *outer = run->out;
    struct jinja_frame *scope = frame_create(run, frame);
    run->out = jinja_builder_create(run);
    bool fine =
        scope && run->out && jinja_exec(run, scope, body) && jinja_builder_done(run, run->out, out);
    run->out = outer;
    return fine;
}

// Applies the filters of a block to *value, innermost first; the innermost has no operand.
static bool filter_chain(struct jinja_run *run, struct jinja_frame *frame,
                         const struct jinja_node *filter, struct jinja_value *value)
{
    struct jinja_call call = {.name = "filter"};
    if (!filter)
        return true;
    if (!jinja_enter(run) || !filter_chain(run, frame, filter->a, value))
        return false;
    run->depth--;
    call.self = *value;
    return jinja_eval_args(run, frame, filter->b, &call) &&
           jinja_filter(run, filter->text, &call, value);
}

static bool exec_set_block(struct jinja_run *run, struct jinja_frame *frame,
                           const struct jinja_node *node)
{
    struct jinja_value text;
    return body_capture(run, frame, node->c, &text) && filter_chain(run, frame, node->b, &text) &&
           target_assign(run, frame, node->a, text);
}

static bool exec_filter_block(struct jinja_run *run, struct jinja_frame *frame,
                              const struct jinja_node *node)
{
    struct jinja_value text;
    return body_capture(run, frame, node->c, &text) && filter_chain(run, frame, node->b, &text) &&
           jinja_print(run, run->out, text);
}

static bool macro_make(struct jinja_run *run, struct jinja_frame *frame,
                       const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_macro *macro = jinja_alloc(run, 1, sizeof *macro);
    if (!macro)
        return false;
    *macro = (struct jinja_macro){.node = node, .frame = frame};
    *out = (struct jinja_value){.kind = JINJA_MACRO, .as.macro = macro};
    run->closures++;
    return true;
}

static bool exec_macro(struct jinja_run *run, struct jinja_frame *frame,
                       const struct jinja_node *node)
{
    struct jinja_value macro;
    return macro_make(run, frame, node, &macro) && jinja_frame_set(run, frame, node->name, macro);
}

static bool exec_call_block(struct jinja_run *run, struct jinja_frame *frame,
                            const struct jinja_node *node)
{
    struct jinja_value caller;
    struct jinja_value callee;
    struct jinja_value text;
    struct jinja_call call = {.name = "call"};
    if (!macro_make(run, frame, node->b, &caller) || !jinja_eval(run, frame, node->a->a, &callee) ||
        !jinja_eval_args(run, frame, node->a->b, &call))
        return false;
    // has space for one more
    struct jinja_keyword *keywords = (struct jinja_keyword *)call.keywords;
    keywords[call.keyword_count++] =
        (struct jinja_keyword){.name = text_of("caller"), .value = caller};
    return jinja_call(run, callee, &call, &text) && jinja_print(run, run->out, text);
}

static bool exec_with(struct jinja_run *run, struct jinja_frame *frame,
                      const struct jinja_node *node)
{
    struct jinja_frame *scope = frame_create(run, frame);
    if (!scope)
        return false;
    for (uint32_t i = 0; i < node->count; i += 2) {
        struct jinja_value value;
        if (!jinja_eval(run, frame, node->items[i + 1], &value) ||
            !target_assign(run, scope, node->items[i], value))
            return false;
    }
    return jinja_exec(run, scope, node->c);
}

static bool exec_scope(struct jinja_run *run, struct jinja_frame *frame,
                       const struct jinja_node *node)
{
    struct jinja_frame *scope = frame_create(run, frame);
    return scope && jinja_exec(run, scope, node->c);
}

static bool exec_jump(struct jinja_run *run, struct jinja_frame *frame,
                      const struct jinja_node *node)
{
    (void)frame;
    run->jump = node->kind;
    return true;
}

bool jinja_exec(struct jinja_run *run, struct jinja_frame *frame, const struct jinja_node *node)
{
    static bool (*const by_kind[])(struct jinja_run *, struct jinja_frame *,
                                   const struct jinja_node *) = {
        [NODE_TEXT] = exec_text,
        [NODE_PRINT] = exec_print,
        [NODE_BODY] = exec_body,
        [NODE_IF] = exec_if,
        [NODE_FOR] = exec_for,
        [NODE_SET] = exec_set,
        [NODE_SET_BLOCK] = exec_set_block,
        [NODE_MACRO] = exec_macro,
        [NODE_CALL_BLOCK] = exec_call_block,
        [NODE_FILTER_BLOCK] = exec_filter_block,
        [NODE_WITH] = exec_with,
        [NODE_SCOPE] = exec_scope,
        [NODE_BREAK] = exec_jump,
        [NODE_CONTINUE] = exec_jump,
    };
    check(node->kind < sizeof by_kind / sizeof *by_kind && by_kind[node->kind],
          "node kind %d is not a statement", node->kind);
    if (!jinja_enter(run))
        return false;
    run->line = node->line;
    bool fine = by_kind[node->kind](run, frame, node);
    run->depth--;
    return fine;
}
