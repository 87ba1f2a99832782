// SPDX-License-Identifier: Apache-2.0
// Functions that every template can call: range, dict, namespace, raise_exception and others.
#include "runtime/text/jinja/internal.h"

static bool int_arg(struct jinja_run *run, struct jinja_value value, int64_t *out)
{
    if (value.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, value);
    if (value.kind != JINJA_INT && value.kind != JINJA_BOOL)
        return jinja_fail(run, STATUS_INVALID, "range needs integers, not type %s",
                          jinja_kind_name(value));
    *out = jinja_as_int(value);
    return true;
}

static bool global_range(struct jinja_run *run, const struct jinja_call *call,
                         struct jinja_value *out)
{
    int64_t from = 0;
    int64_t to = 0;
    int64_t step = 1;
    bool one = call->args[1].kind == JINJA_MISSING;
    if (!int_arg(run, call->args[0], one ? &to : &from) ||
        (!one && !int_arg(run, call->args[1], &to)) ||
        (call->args[2].kind != JINJA_MISSING && !int_arg(run, call->args[2], &step)))
        return false;
    if (step == 0)
        return jinja_fail(run, STATUS_INVALID, "the step of range cannot be zero");
    struct jinja_items items = {0};
    for (int64_t at = from; step > 0 ? at < to : at > to;) {
        if (items.count == JINJA_RANGE_MAX)
            return jinja_fail(run, STATUS_TOO_LARGE, "a range has more than %d numbers",
                              JINJA_RANGE_MAX);
        if (!jinja_items_add(run, &items, jinja_int(at)))
            return false;
        if (__builtin_add_overflow(at, step, &at))
            break;
    }
    int64_t *given = jinja_alloc(run, 3, sizeof *given);
    if (!given || !jinja_items_list(run, &items, JINJA_IS_RANGE, out))
        return false;
    given[0] = from;
    given[1] = to;
    given[2] = step;
    out->as.list->range = given;
    return true;
}

// Appends the pairs of a dict or of a list of pairs, the argument of dict() and namespace().
static bool entries_of(struct jinja_run *run, struct jinja_value from, struct jinja_items *keys,
                       struct jinja_items *values)
{
    struct jinja_list list;
    if (from.kind == JINJA_DICT) {
        for (size_t i = 0; i < from.as.dict->count; i++)
            if (!jinja_items_add(run, keys, from.as.dict->pairs[i].key) ||
                !jinja_items_add(run, values, from.as.dict->pairs[i].value))
                return false;
        return true;
    }
    if (!jinja_iterate(run, from, &list))
        return false;
    for (size_t i = 0; i < list.count; i++) {
        struct jinja_list pair;
        if (!jinja_iterate(run, list.items[i], &pair))
            return false;
        if (pair.count != 2)
            return jinja_fail(run, STATUS_INVALID, "a dict is made from pairs");
        if (!jinja_items_add(run, keys, pair.items[0]) ||
            !jinja_items_add(run, values, pair.items[1]))
            return false;
    }
    return true;
}

static bool entries_collect(struct jinja_run *run, const struct jinja_call *call,
                            struct jinja_items *keys, struct jinja_items *values)
{
    if (call->count > 1)
        return jinja_fail(run, STATUS_INVALID, "%s takes one argument and names", call->name);
    if (call->count == 1 && !entries_of(run, call->args[0], keys, values))
        return false;
    for (uint32_t i = 0; i < call->keyword_count; i++) {
        struct jinja_value key;
        if (!jinja_string_make(run, call->keywords[i].name, false, &key) ||
            !jinja_items_add(run, keys, key) ||
            !jinja_items_add(run, values, call->keywords[i].value))
            return false;
    }
    return true;
}

static bool global_dict(struct jinja_run *run, const struct jinja_call *call,
                        struct jinja_value *out)
{
    struct jinja_items keys = {0};
    struct jinja_items values = {0};
    if (!entries_collect(run, call, &keys, &values))
        return false;
    struct jinja_pair *pairs = jinja_alloc(run, keys.count, sizeof *pairs);
    if (!pairs)
        return false;
    for (size_t i = 0; i < keys.count; i++)
        pairs[i] = (struct jinja_pair){.key = keys.items[i], .value = values.items[i]};
    return jinja_dict_make(run, pairs, keys.count, out);
}

static bool global_namespace(struct jinja_run *run, const struct jinja_call *call,
                             struct jinja_value *out)
{
    struct jinja_items keys = {0};
    struct jinja_items values = {0};
    struct jinja_namespace *space = jinja_alloc(run, 1, sizeof *space);
    if (!space || !entries_collect(run, call, &keys, &values))
        return false;
    *space = (struct jinja_namespace){0};
    for (size_t i = 0; i < keys.count; i++) {
        if (keys.items[i].kind != JINJA_STRING)
            return jinja_fail(run, STATUS_INVALID, "the names of a namespace must be strings");
        if (!jinja_namespace_set(run, space, jinja_string_text(keys.items[i].as.string),
                                 values.items[i]))
            return false;
    }
    *out = (struct jinja_value){.kind = JINJA_NAMESPACE, .as.space = space};
    return true;
}

static bool global_raise(struct jinja_run *run, const struct jinja_call *call,
                         struct jinja_value *out)
{
    if (!jinja_to_string(run, call->args[0], out))
        return false;
    return jinja_fail(
        run, STATUS_REFUSED, "%.*s",
        (int)(out->as.string->bytes < ERROR_TEXT_MAX ? out->as.string->bytes : ERROR_TEXT_MAX),
        out->as.string->at);
}

static bool global_strftime(struct jinja_run *run, const struct jinja_call *call,
                            struct jinja_value *out)
{
    if (call->args[0].kind != JINJA_STRING)
        return jinja_fail(run, STATUS_INVALID, "strftime_now needs a format");
    return jinja_strftime(run, jinja_string_text(call->args[0].as.string), out);
}

static bool cycler_make(struct jinja_run *run, struct jinja_value items, bool joiner,
                        struct jinja_value *out)
{
    struct jinja_cycler *cycler = jinja_alloc(run, 1, sizeof *cycler);
    if (!cycler)
        return false;
    *cycler = (struct jinja_cycler){.items = items, .joiner = joiner};
    *out = (struct jinja_value){.kind = JINJA_CYCLER, .as.cycler = cycler};
    return true;
}

static bool global_cycler(struct jinja_run *run, const struct jinja_call *call,
                          struct jinja_value *out)
{
    struct jinja_value list;
    if (call->count == 0)
        return jinja_fail(run, STATUS_INVALID, "a cycler needs at least one item");
    return jinja_args_list(run, call, 0, JINJA_IS_LIST, &list) &&
           cycler_make(run, list, false, out);
}

static bool global_joiner(struct jinja_run *run, const struct jinja_call *call,
                          struct jinja_value *out)
{
    struct jinja_value separator = call->args[0];
    if (separator.kind == JINJA_MISSING &&
        !jinja_string_make(run, text_of(", "), false, &separator))
        return false;
    return cycler_make(run, separator, true, out);
}

const struct jinja_row *jinja_global_find(struct text name)
{
    static const struct jinja_row rows[] = {
        {"range", "start stop step", 1, global_range},
        {"dict", NULL, 0, global_dict},
        {"namespace", NULL, 0, global_namespace},
        {"raise_exception", "message", 1, global_raise},
        {"strftime_now", "format", 1, global_strftime},
        {"cycler", NULL, 0, global_cycler},
        {"joiner", "sep", 0, global_joiner},
    };
    return jinja_row_find(rows, sizeof rows / sizeof *rows, name);
}
