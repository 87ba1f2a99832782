// SPDX-License-Identifier: Apache-2.0
// Turns parsed regular expressions into expressions of a grammar.
//
// ^ and $ depend on their position, so each part has four forms: its left edge is at the start of
// the text or not, its right edge is at the end or not. What a part matches with an edge inside of
// the text, it also matches with that edge at the start or end; therefore a sequence needs no forms
// of its parts that exclude the empty text.
#include "runtime/text/grammar/regex_read.h"

#include <string.h>

// bits of the index of a form
enum { FORMS = 4, FORM_START = 2, FORM_END = 1 };

struct forms {
    uint32_t expr[FORMS];
    bool empty[FORMS]; // true if this form matches the empty text
};

struct emit {
    struct grammar_builder *b;
    const struct regex_args *args;
    struct error *err;
    enum status status;
};

static struct forms all_forms(uint32_t expr, bool empty)
{
    return (struct forms){{expr, expr, expr, expr}, {empty, empty, empty, empty}};
}

static struct forms emit_node(struct emit *e, const struct regex_node *node);

static struct forms forms_join(struct emit *e, const struct forms *x, const struct forms *y)
{
    struct forms out;
    for (int f = 0; f < FORMS; f++) {
        int left = f & FORM_START, right = f & FORM_END;
        uint32_t parts[4] = {
            grammar_join(e->b, x->expr[left], y->expr[right]),
            left && x->empty[left] ? y->expr[f] : GRAMMAR_NOTHING,
            right && y->empty[right] ? x->expr[f] : GRAMMAR_NOTHING,
        };
        out.empty[f] = x->empty[f] && y->empty[f];
        parts[3] = f != 0 && out.empty[f] ? GRAMMAR_EMPTY : GRAMMAR_NOTHING;
        out.expr[f] = grammar_either_of(e->b, parts, 4);
    }
    return out;
}

// Reverses the list in place, so that its children can be visited from the last to the first.
static struct regex_node *list_reverse(struct regex_node *list)
{
    struct regex_node *out = NULL;
    while (list) {
        struct regex_node *next = list->next;
        list->next = out;
        out = list;
        list = next;
    }
    return out;
}

static struct forms emit_join(struct emit *e, const struct regex_node *node)
{
    struct forms out = all_forms(GRAMMAR_EMPTY, true);
    struct regex_node *last = list_reverse(node->child);
    bool anchors = false;
    for (const struct regex_node *child = last; child; child = child->next) {
        struct forms one = emit_node(e, child);
        anchors |= child->anchors;
        if (anchors)
            out = forms_join(e, &one, &out);
        else
            out = all_forms(grammar_join(e->b, one.expr[0], out.expr[0]),
                            one.empty[0] && out.empty[0]);
    }
    list_reverse(last);
    return out;
}

static struct forms emit_either(struct emit *e, const struct regex_node *node)
{
    struct forms out = all_forms(GRAMMAR_NOTHING, false);
    for (const struct regex_node *child = node->child; child; child = child->next) {
        struct forms one = emit_node(e, child);
        for (int f = 0; f < FORMS; f++) {
            bool same = !node->anchors && f > 0;
            out.expr[f] = same ? out.expr[0] : grammar_either(e->b, one.expr[f], out.expr[f]);
            out.empty[f] |= one.empty[f];
        }
    }
    return out;
}

// A repeat of a body with anchors: one repetition, or a first one, middle ones and a last one.
static struct forms emit_repetitions(struct emit *e, const struct regex_node *node,
                                     const struct forms *one)
{
    struct forms out;
    uint32_t middle = grammar_repeat(e->b, one->expr[0], 0,
                                     node->max == GRAMMAR_UNBOUNDED ? node->max : node->max - 2);
    for (int f = 0; f < FORMS; f++) {
        uint32_t repetitions[3] = {one->expr[f & FORM_START], middle, one->expr[f & FORM_END]};
        uint32_t parts[3] = {one->expr[f], grammar_join_all(e->b, repetitions, 3),
                             node->min == 0 ? GRAMMAR_EMPTY : GRAMMAR_NOTHING};
        out.expr[f] = grammar_either_of(e->b, parts, 3);
        out.empty[f] = node->min == 0 || one->empty[f];
    }
    return out;
}

static struct forms emit_repeat(struct emit *e, const struct regex_node *node)
{
    struct forms one = emit_node(e, node->child);
    if (node->max == 0)
        return all_forms(GRAMMAR_EMPTY, true);
    if (!node->anchors)
        return all_forms(grammar_repeat(e->b, one.expr[0], node->min, node->max),
                         node->min == 0 || one.empty[0]);
    if (node->min > 1 && e->status == STATUS_OK)
        e->status = error_set(e->err, STATUS_UNSUPPORTED,
                              "the pattern has ^ or $ inside of a count at byte %zu, which is not "
                              "supported",
                              node->at);
    if (node->max > 1)
        return emit_repetitions(e, node, &one);
    for (int f = 0; f < FORMS && node->min == 0; f++) {
        one.expr[f] = grammar_optional(e->b, one.expr[f]);
        one.empty[f] = true;
    }
    return one;
}

static struct forms emit_anchor(int where)
{
    struct forms out;
    for (int f = 0; f < FORMS; f++) {
        out.empty[f] = f & where;
        out.expr[f] = f & where ? GRAMMAR_EMPTY : GRAMMAR_NOTHING;
    }
    return out;
}

static uint32_t emit_chars(struct emit *e, const struct grammar_range *ranges, uint32_t count)
{
    return e->args->chars ? e->args->chars(e->b, ranges, count)
                          : grammar_chars(e->b, ranges, count);
}

static struct forms emit_node(struct emit *e, const struct regex_node *node)
{
    switch (node->kind) {
    case REGEX_CHARS:
        return all_forms(emit_chars(e, node->ranges, node->range_count), false);
    case REGEX_START:
        return emit_anchor(FORM_START);
    case REGEX_END:
        return emit_anchor(FORM_END);
    case REGEX_JOIN:
        return emit_join(e, node);
    case REGEX_EITHER:
        return emit_either(e, node);
    default:
        return emit_repeat(e, node);
    }
}

enum status regex_emit(struct grammar_builder *b, const struct regex_args *args,
                       const struct regex_node *root, uint32_t *out, struct error *err)
{
    struct emit e = {.b = b, .args = args, .err = err};
    static const struct grammar_range all[] = {{0, 0x10FFFF}};
    struct forms forms = emit_node(&e, root);
    *out = forms.expr[FORM_START | FORM_END];
    if (e.status != STATUS_OK || !args->search)
        return e.status;
    uint32_t any = grammar_repeat(b, emit_chars(&e, all, 1), 0, GRAMMAR_UNBOUNDED);
    uint32_t parts[4];
    for (int f = 0; f < FORMS; f++) {
        uint32_t repetitions[3] = {f & FORM_START ? GRAMMAR_EMPTY : any, forms.expr[f],
                                   f & FORM_END ? GRAMMAR_EMPTY : any};
        parts[f] = root->anchors || f == 0 ? grammar_join_all(b, repetitions, 3) : GRAMMAR_NOTHING;
    }
    *out = grammar_either_of(b, parts, 4);
    return STATUS_OK;
}
