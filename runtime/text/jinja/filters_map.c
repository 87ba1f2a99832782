// SPDX-License-Identifier: Apache-2.0
// Filters that call another filter or test for each item: map, select, reject, selectattr,
// rejectattr.
#include "runtime/text/jinja/internal.h"

static bool name_arg(struct jinja_run *run, struct jinja_value value, struct text *name)
{
    if (value.kind != JINJA_STRING)
        return jinja_fail(run, STATUS_INVALID, "the name of a filter or test must be a string");
    *name = jinja_string_text(value.as.string);
    return true;
}

// Returns the items of a value; a false value of any type has none.
static bool items_of(struct jinja_run *run, struct jinja_value value, struct jinja_list *out)
{
    *out = (struct jinja_list){0};
    return !jinja_truth(value) || jinja_iterate(run, value, out);
}

static bool map_attribute(struct jinja_run *run, const struct jinja_call *call,
                          struct jinja_value item, struct jinja_value *out)
{
    struct jinja_value attribute = {0};
    struct jinja_value otherwise = {0};
    for (uint32_t i = 0; i < call->keyword_count; i++)
        if (text_is(call->keywords[i].name, "attribute"))
            attribute = call->keywords[i].value;
        else if (text_is(call->keywords[i].name, "default"))
            otherwise = call->keywords[i].value;
        else
            return jinja_fail(run, STATUS_INVALID, "map has no such parameter");
    if (attribute.kind == JINJA_MISSING)
        return jinja_fail(run, STATUS_INVALID, "map needs a filter or an attribute");
    return jinja_attribute(run, item, attribute, otherwise, out);
}

static bool filter_map(struct jinja_run *run, const struct jinja_call *call,
                       struct jinja_value *out)
{
    struct jinja_list list;
    struct jinja_items items = {0};
    struct jinja_call inner = *call;
    struct text name = {NULL, 0};
    if (!items_of(run, call->self, &list) || !jinja_enter(run))
        return false;
    if (call->count > 0 && list.count > 0 && !name_arg(run, call->args[0], &name))
        return false;
    inner.args = call->args + (call->count > 0);
    inner.count = call->count - (call->count > 0);
    for (size_t i = 0; i < list.count; i++) {
        struct jinja_value mapped;
        inner.self = list.items[i];
        bool fine = call->count > 0 ? jinja_filter(run, name, &inner, &mapped)
                                    : map_attribute(run, call, list.items[i], &mapped);
        if (!fine || !jinja_items_add(run, &items, mapped))
            return false;
    }
    run->depth--;
    return jinja_items_list(run, &items, JINJA_IS_ITERATOR, out);
}

// Applies select, reject, selectattr or rejectattr.
static bool filter_select(struct jinja_run *run, const struct jinja_call *call,
                          struct jinja_value *out)
{
    struct jinja_list list;
    struct jinja_items items = {0};
    struct text name = {NULL, 0};
    const struct jinja_value none = jinja_none();
    bool wanted = call->name[0] == 's';
    uint32_t used = strlen(call->name) > 6; // selectattr and rejectattr: the attribute
    if (!items_of(run, call->self, &list) || !jinja_enter(run))
        return false;
    if (call->count < used)
        return jinja_fail(run, STATUS_INVALID, "%s needs an attribute", call->name);
    bool tested = call->count > used;
    if (tested && list.count > 0 && !name_arg(run, call->args[used], &name))
        return false;
    for (size_t i = 0; i < list.count; i++) {
        struct jinja_call inner = *call;
        bool passed;
        inner.self = list.items[i];
        inner.args = call->args + used + tested;
        inner.count = call->count - used - tested;
        if (used > 0 && !jinja_attribute(run, list.items[i], call->args[0], none, &inner.self))
            return false;
        passed = jinja_truth(inner.self);
        if (!jinja_spend(run, 1) || (tested && !jinja_test(run, name, &inner, &passed)))
            return false;
        if (passed == wanted && !jinja_items_add(run, &items, list.items[i]))
            return false;
    }
    run->depth--;
    return jinja_items_list(run, &items, JINJA_IS_ITERATOR, out);
}

const struct jinja_row *jinja_map_filter(struct text name)
{
    static const struct jinja_row rows[] = {
        {"map", NULL, 0, filter_map},           {"select", NULL, 0, filter_select},
        {"reject", NULL, 0, filter_select},     {"selectattr", NULL, 0, filter_select},
        {"rejectattr", NULL, 0, filter_select},
    };
    return jinja_row_find(rows, sizeof rows / sizeof *rows, name);
}
