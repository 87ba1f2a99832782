// SPDX-License-Identifier: Apache-2.0
// Filters of lists and dicts that do not call other filters.
#include "runtime/text/jinja/internal.h"

static void replace_undefined(struct jinja_value *value, struct jinja_value otherwise)
{
    if (value->kind == JINJA_UNDEFINED && otherwise.kind > JINJA_NONE)
        *value = otherwise;
}

bool jinja_attribute(struct jinja_run *run, struct jinja_value value, struct jinja_value attribute,
                     struct jinja_value otherwise, struct jinja_value *out)
{
    *out = value;
    if (attribute.kind == JINJA_MISSING || attribute.kind == JINJA_NONE)
        return true;
    if (attribute.kind != JINJA_STRING) {
        if (!jinja_getitem(run, value, attribute, out))
            return false;
        replace_undefined(out, otherwise);
        return true;
    }
    struct text rest = jinja_string_text(attribute.as.string);
    for (bool more = true; more;) {
        const char *dot = rest.bytes > 0 ? memchr(rest.at, '.', rest.bytes) : NULL;
        struct text part = text_span(rest.at, dot ? (size_t)(dot - rest.at) : rest.bytes);
        struct jinja_value key;
        int64_t number;
        bool digits = part.bytes > 0 && part.at[0] >= '0' && part.at[0] <= '9' &&
                      jinja_parse_int(part, 10, &number);
        if (digits)
            key = jinja_int(number);
        else if (!jinja_string_make(run, part, false, &key))
            return false;
        if (!jinja_spend(run, 1) || !jinja_getitem(run, *out, key, out))
            return false;
        replace_undefined(out, otherwise);
        more = dot != NULL;
        if (more)
            rest = text_span(dot + 1, rest.bytes - part.bytes - 1);
    }
    return true;
}

static bool attribute_of(struct jinja_run *run, struct jinja_value value,
                         struct jinja_value attribute, struct jinja_value *out)
{
    return jinja_attribute(run, value, attribute, jinja_none(), out);
}

static bool fold_case(struct jinja_run *run, struct jinja_value *key)
{
    if (key->kind != JINJA_STRING)
        return true;
    return jinja_change_case(run, key->as.string, FORM_LOWER, key);
}

// Returns one sort key: a list of the attributes "a,b", or of the value itself. It is always a
// list: undefined values have no order, but lists of them do.
static bool sort_key(struct jinja_run *run, struct jinja_value value, struct jinja_value attribute,
                     bool exact, struct jinja_value *out)
{
    struct text rest = attribute.kind == JINJA_STRING ? jinja_string_text(attribute.as.string)
                                                      : (struct text){NULL, 0};
    struct jinja_items keys = {0};
    if (attribute.kind != JINJA_STRING) {
        struct jinja_value key;
        return attribute_of(run, value, attribute, &key) && (exact || fold_case(run, &key)) &&
               jinja_items_add(run, &keys, key) && jinja_items_list(run, &keys, JINJA_IS_LIST, out);
    }
    for (bool more = true; more;) {
        const char *comma = rest.bytes > 0 ? memchr(rest.at, ',', rest.bytes) : NULL;
        size_t bytes = comma ? (size_t)(comma - rest.at) : rest.bytes;
        struct jinja_value name;
        struct jinja_value key;
        if (!jinja_string_make(run, text_span(rest.at, bytes), false, &name) ||
            !attribute_of(run, value, name, &key) || (!exact && !fold_case(run, &key)) ||
            !jinja_items_add(run, &keys, key))
            return false;
        more = comma != NULL;
        if (more)
            rest = text_span(comma + 1, rest.bytes - bytes - 1);
    }
    return jinja_items_list(run, &keys, JINJA_IS_LIST, out);
}

static bool filter_length(struct jinja_run *run, const struct jinja_call *call,
                          struct jinja_value *out)
{
    struct jinja_value self = call->self;
    if (self.kind == JINJA_UNDEFINED) {
        *out = jinja_int(0);
        return true;
    }
    if (self.kind == JINJA_STRING) {
        struct text text = jinja_string_text(self.as.string);
        *out = jinja_int((int64_t)jinja_utf8_count(text));
        return jinja_spend(run, 1 + text.bytes / 64);
    }
    if (self.kind == JINJA_DICT)
        *out = jinja_int((int64_t)self.as.dict->count);
    else if (self.kind == JINJA_LIST && self.flavour != JINJA_IS_ITERATOR)
        *out = jinja_int((int64_t)self.as.list->count);
    else if (self.kind == JINJA_LOOP)
        *out = jinja_int((int64_t)self.as.loop->count);
    else
        return jinja_fail(run, STATUS_INVALID, "a value of type %s has no length",
                          jinja_kind_name(self));
    return true;
}

static bool filter_join(struct jinja_run *run, const struct jinja_call *call,
                        struct jinja_value *out)
{
    struct jinja_list list;
    struct jinja_value between;
    struct jinja_builder *b = jinja_builder_create(run);
    if (!b || !jinja_iterate(run, call->self, &list) ||
        !jinja_string_make(run, text_of(""), false, &between) ||
        (call->args[0].kind != JINJA_MISSING && !jinja_to_string(run, call->args[0], &between)))
        return false;
    for (size_t i = 0; i < list.count; i++) {
        struct jinja_value item;
        if (!jinja_spend(run, 1) || !attribute_of(run, list.items[i], call->args[1], &item) ||
            (i > 0 && !jinja_builder_string(run, b, between.as.string)) ||
            !jinja_print(run, b, item))
            return false;
    }
    return jinja_builder_done(run, b, out);
}

static bool filter_first(struct jinja_run *run, const struct jinja_call *call,
                         struct jinja_value *out)
{
    struct jinja_list list;
    if (call->self.kind == JINJA_LIST && call->self.flavour == JINJA_IS_ITERATOR) {
        struct jinja_list *iterator = call->self.as.list; // consumes only one item
        *out = iterator->next < iterator->count ? iterator->items[iterator->next++]
                                                : jinja_undefined("there is no first item");
        return true;
    }
    if (!jinja_iterate(run, call->self, &list))
        return false;
    *out = list.count > 0 ? list.items[0] : jinja_undefined("there is no first item");
    return true;
}

static bool filter_last(struct jinja_run *run, const struct jinja_call *call,
                        struct jinja_value *out)
{
    struct jinja_list list;
    if (call->self.kind == JINJA_LIST && call->self.flavour == JINJA_IS_ITERATOR)
        return jinja_fail(run, STATUS_INVALID, "a generator has no last item");
    if (!jinja_iterate(run, call->self, &list))
        return false;
    *out = list.count > 0 ? list.items[list.count - 1] : jinja_undefined("there is no last item");
    return true;
}

static bool filter_list(struct jinja_run *run, const struct jinja_call *call,
                        struct jinja_value *out)
{
    return jinja_list_of(run, call->self, JINJA_IS_LIST, out);
}

static bool filter_items(struct jinja_run *run, const struct jinja_call *call,
                         struct jinja_value *out)
{
    struct jinja_items items = {0};
    if (call->self.kind != JINJA_UNDEFINED && call->self.kind != JINJA_DICT)
        return jinja_fail(run, STATUS_INVALID, "items needs a dict, not type %s",
                          jinja_kind_name(call->self));
    for (size_t i = 0; call->self.kind == JINJA_DICT && i < call->self.as.dict->count; i++) {
        struct jinja_value pair;
        if (!jinja_pair_list(run, call->self.as.dict->pairs[i], &pair) ||
            !jinja_items_add(run, &items, pair))
            return false;
    }
    return jinja_items_list(run, &items, JINJA_IS_ITERATOR, out);
}

bool jinja_sort(struct jinja_run *run, struct jinja_value *keys, struct jinja_value *values,
                size_t count, bool reverse)
{
    if (count < 2)
        return true;
    uint32_t *order = jinja_alloc(run, 2 * count, sizeof *order);
    struct jinja_value *copy = jinja_alloc(run, 2 * count, sizeof *copy);
    if (!order || !copy || !jinja_spend(run, count))
        return false;
    uint32_t *other = order + count;
    for (size_t i = 0; i < count; i++)
        order[i] = (uint32_t)i;
    for (size_t width = 1; width < count; width *= 2) {
        for (size_t from = 0; from < count; from += 2 * width) {
            size_t middle = from + width < count ? from + width : count;
            size_t end = middle + width < count ? middle + width : count;
            size_t a = from;
            size_t b = middle;
            for (size_t i = from; i < end; i++) {
                int less = 0;
                if (a < middle && b < end &&
                    !(reverse ? jinja_order(run, keys[order[a]], keys[order[b]], &less)
                              : jinja_order(run, keys[order[b]], keys[order[a]], &less)))
                    return false;
                bool second = a == middle || (b < end && less == -1);
                other[i] = second ? order[b++] : order[a++];
            }
            if (!jinja_spend(run, end - from))
                return false;
        }
        uint32_t *swap = order;
        order = other;
        other = swap;
    }
    memcpy(copy, keys, count * sizeof *copy);
    memcpy(copy + count, values, count * sizeof *copy);
    for (size_t i = 0; i < count; i++) {
        keys[i] = copy[order[i]];
        values[i] = copy[count + order[i]];
    }
    return true;
}

// Collects the items of `from` in `values` and their sort keys in `keys`, and sorts both.
static bool sorted_items(struct jinja_run *run, struct jinja_list from, const struct jinja_call *by,
                         struct jinja_items *keys, struct jinja_items *values)
{
    bool exact = jinja_arg_bool(by, 1, false);
    for (size_t i = 0; i < from.count; i++) {
        struct jinja_value key;
        if (!sort_key(run, from.items[i], by->args[2], exact, &key) ||
            !jinja_items_add(run, keys, key) || !jinja_items_add(run, values, from.items[i]))
            return false;
    }
    return jinja_sort(run, keys->items, values->items, from.count, jinja_arg_bool(by, 0, false));
}

static bool filter_sort(struct jinja_run *run, const struct jinja_call *call,
                        struct jinja_value *out)
{
    struct jinja_list list;
    struct jinja_items keys = {0};
    struct jinja_items values = {0};
    return jinja_iterate(run, call->self, &list) && sorted_items(run, list, call, &keys, &values) &&
           jinja_items_list(run, &values, JINJA_IS_LIST, out);
}

static bool filter_dictsort(struct jinja_run *run, const struct jinja_call *call,
                            struct jinja_value *out)
{
    struct jinja_items keys = {0};
    struct jinja_items values = {0};
    const struct jinja_string *by = NULL;
    if (!jinja_self_check(run, call, call->self.kind == JINJA_DICT, "a dict") ||
        !jinja_arg_string(run, call, 1, &by))
        return false;
    bool by_value = by && text_is(jinja_string_text(by), "value");
    if (by && !by_value && !text_is(jinja_string_text(by), "key"))
        return jinja_fail(run, STATUS_INVALID, "dictsort sorts by \"key\" or \"value\"");
    for (size_t i = 0; i < call->self.as.dict->count; i++) {
        const struct jinja_pair *pair = &call->self.as.dict->pairs[i];
        struct jinja_value key = by_value ? pair->value : pair->key;
        struct jinja_value tuple;
        if ((!jinja_arg_bool(call, 0, false) && !fold_case(run, &key)) ||
            !jinja_items_add(run, &keys, key) || !jinja_pair_list(run, *pair, &tuple) ||
            !jinja_items_add(run, &values, tuple))
            return false;
    }
    return jinja_sort(run, keys.items, values.items, keys.count, jinja_arg_bool(call, 2, false)) &&
           jinja_items_list(run, &values, JINJA_IS_LIST, out);
}

static bool filter_reverse(struct jinja_run *run, const struct jinja_call *call,
                           struct jinja_value *out)
{
    struct jinja_list list;
    struct jinja_items items = {0};
    if (call->self.kind == JINJA_STRING) {
        const struct jinja_value back[3] = {{0}, {0}, jinja_int(-1)};
        return jinja_getslice(run, call->self, back, out);
    }
    bool iterator = call->self.kind == JINJA_LIST && call->self.flavour == JINJA_IS_ITERATOR;
    if (!jinja_iterate(run, call->self, &list))
        return false;
    for (size_t i = list.count; i-- > 0;)
        if (!jinja_items_add(run, &items, list.items[i]))
            return false;
    return jinja_items_list(run, &items, iterator ? JINJA_IS_LIST : JINJA_IS_ITERATOR, out);
}

static bool filter_unique(struct jinja_run *run, const struct jinja_call *call,
                          struct jinja_value *out)
{
    struct jinja_list list;
    struct jinja_items items = {0};
    if (!jinja_iterate(run, call->self, &list))
        return false;
    struct jinja_pair *pairs = jinja_alloc(run, list.count, sizeof *pairs);
    struct jinja_value seen;
    if (!pairs)
        return false;
    for (size_t i = 0; i < list.count; i++) {
        pairs[i].value = jinja_int((int64_t)i);
        if (!attribute_of(run, list.items[i], call->args[1], &pairs[i].key) ||
            (!jinja_arg_bool(call, 0, false) && !fold_case(run, &pairs[i].key)))
            return false;
    }
    // In jinja_dict_make the last value of equal keys wins: reversed pairs give the index of the
    // first.
    for (size_t i = 0; i < list.count / 2; i++) {
        struct jinja_pair swap = pairs[i];
        pairs[i] = pairs[list.count - 1 - i];
        pairs[list.count - 1 - i] = swap;
    }
    bool *first = jinja_alloc(run, list.count, sizeof *first);
    if (!first || !jinja_dict_make(run, pairs, list.count, &seen))
        return false;
    memset(first, 0, list.count * sizeof *first);
    for (size_t i = 0; i < seen.as.dict->count; i++)
        first[seen.as.dict->pairs[i].value.as.integer] = true;
    for (size_t i = 0; i < list.count; i++)
        if (first[i] && !jinja_items_add(run, &items, list.items[i]))
            return false;
    return jinja_items_list(run, &items, JINJA_IS_ITERATOR, out);
}

static bool filter_extreme(struct jinja_run *run, const struct jinja_call *call,
                           struct jinja_value *out)
{
    struct jinja_list list;
    struct jinja_value best = {0};
    bool most = call->name[1] == 'a';
    if (!jinja_iterate(run, call->self, &list))
        return false;
    *out = jinja_undefined("there is no smallest or largest item: the list is empty");
    for (size_t i = 0; i < list.count; i++) {
        struct jinja_value key;
        int order = -1;
        if (!jinja_spend(run, 1) || !attribute_of(run, list.items[i], call->args[1], &key) ||
            (!jinja_arg_bool(call, 0, false) && !fold_case(run, &key)))
            return false;
        if (i > 0 &&
            !(most ? jinja_order(run, best, key, &order) : jinja_order(run, key, best, &order)))
            return false;
        if (order == -1) {
            best = key;
            *out = list.items[i];
        }
    }
    return true;
}

static bool filter_sum(struct jinja_run *run, const struct jinja_call *call,
                       struct jinja_value *out)
{
    struct jinja_list list;
    *out = call->args[1].kind == JINJA_MISSING ? jinja_int(0) : call->args[1];
    if (out->kind == JINJA_STRING)
        return jinja_fail(run, STATUS_INVALID, "sum does not join strings");
    if (!jinja_iterate(run, call->self, &list))
        return false;
    for (size_t i = 0; i < list.count; i++) {
        struct jinja_value item;
        if (!jinja_spend(run, 1) || !attribute_of(run, list.items[i], call->args[0], &item) ||
            !jinja_binary(run, '+', *out, item, out))
            return false;
    }
    return true;
}

static bool group_add(struct jinja_run *run, struct jinja_items *groups, struct jinja_items *row)
{
    struct jinja_value list;
    return jinja_items_list(run, row, JINJA_IS_LIST, &list) && jinja_items_add(run, groups, list);
}

static bool filter_batch(struct jinja_run *run, const struct jinja_call *call,
                         struct jinja_value *out)
{
    struct jinja_list list;
    struct jinja_items groups = {0};
    struct jinja_items row = {0};
    int64_t size = 0;
    if (!jinja_iterate(run, call->self, &list) || !jinja_arg_int(run, call, 0, &size))
        return false;
    for (size_t i = 0; i < list.count; i++) {
        if ((int64_t)row.count == size) {
            if (!group_add(run, &groups, &row))
                return false;
            row = (struct jinja_items){0};
        }
        if (!jinja_items_add(run, &row, list.items[i]))
            return false;
    }
    while (row.count > 0 && jinja_arg_given(call, 1) && (int64_t)row.count < size)
        if (!jinja_items_add(run, &row, call->args[1]))
            return false;
    return (row.count == 0 || group_add(run, &groups, &row)) &&
           jinja_items_list(run, &groups, JINJA_IS_ITERATOR, out);
}

static bool filter_slice(struct jinja_run *run, const struct jinja_call *call,
                         struct jinja_value *out)
{
    struct jinja_list list;
    struct jinja_items groups = {0};
    int64_t slices = 0;
    if (!jinja_iterate(run, call->self, &list) || !jinja_arg_int(run, call, 0, &slices))
        return false;
    if (slices == 0)
        return jinja_fail(run, STATUS_INVALID, "slice: the number of slices is zero");
    size_t at = 0;
    for (int64_t s = 0; s < slices; s++) {
        struct jinja_items row = {0};
        int64_t extra = (int64_t)list.count % slices;
        size_t wanted = (size_t)((int64_t)list.count / slices + (s < extra));
        for (size_t i = 0; i < wanted; i++)
            if (!jinja_items_add(run, &row, list.items[at++]))
                return false;
        if (s >= extra && jinja_arg_given(call, 1) && !jinja_items_add(run, &row, call->args[1]))
            return false;
        if (!group_add(run, &groups, &row))
            return false;
    }
    return jinja_items_list(run, &groups, JINJA_IS_ITERATOR, out);
}

static bool filter_groupby(struct jinja_run *run, const struct jinja_call *call,
                           struct jinja_value *out)
{
    struct jinja_list list;
    struct jinja_items keys = {0};
    struct jinja_items values = {0};
    struct jinja_items groups = {0};
    bool exact = jinja_arg_bool(call, 2, false);
    if (!jinja_iterate(run, call->self, &list))
        return false;
    for (size_t i = 0; i < list.count; i++) {
        struct jinja_value key;
        if (!attribute_of(run, list.items[i], call->args[0], &key))
            return false;
        if (key.kind == JINJA_UNDEFINED && jinja_arg_given(call, 1))
            key = call->args[1];
        if ((!exact && !fold_case(run, &key)) || !jinja_items_add(run, &keys, key) ||
            !jinja_items_add(run, &values, list.items[i]))
            return false;
    }
    if (!jinja_sort(run, keys.items, values.items, keys.count, false))
        return false;
    for (size_t from = 0; from < keys.count;) {
        struct jinja_items row = {0};
        struct jinja_pair pair;
        bool equal = true;
        size_t to = from;
        while (to < keys.count && equal) {
            if (!jinja_items_add(run, &row, values.items[to++]))
                return false;
            if (to < keys.count && !jinja_equal(run, keys.items[from], keys.items[to], &equal))
                return false;
        }
        struct jinja_value tuple;
        if (!attribute_of(run, values.items[from], call->args[0], &pair.key))
            return false;
        if (pair.key.kind == JINJA_UNDEFINED && jinja_arg_given(call, 1))
            pair.key = call->args[1];
        if (!jinja_items_list(run, &row, JINJA_IS_LIST, &pair.value) ||
            !jinja_pair_list(run, pair, &tuple) || !jinja_items_add(run, &groups, tuple))
            return false;
        from = to;
    }
    return jinja_items_list(run, &groups, JINJA_IS_LIST, out);
}

static bool filter_attr(struct jinja_run *run, const struct jinja_call *call,
                        struct jinja_value *out)
{
    const struct jinja_string *name = NULL;
    if (!jinja_arg_string(run, call, 0, &name))
        return false;
    if (call->self.kind == JINJA_DICT && !jinja_method_find(call->self, jinja_string_text(name))) {
        *out = jinja_undefined("the attr filter does not read dict keys");
        return true;
    }
    return jinja_getattr(run, call->self, jinja_string_text(name), out);
}

const struct jinja_row *jinja_sequence_filter(struct text name)
{
    static const struct jinja_row rows[] = {
        {"length", "", 0, filter_length},
        {"count", "", 0, filter_length},
        {"join", "d attribute", 0, filter_join},
        {"first", "", 0, filter_first},
        {"last", "", 0, filter_last},
        {"list", "", 0, filter_list},
        {"items", "", 0, filter_items},
        {"sort", "reverse case_sensitive attribute", 0, filter_sort},
        {"dictsort", "case_sensitive by reverse", 0, filter_dictsort},
        {"reverse", "", 0, filter_reverse},
        {"unique", "case_sensitive attribute", 0, filter_unique},
        {"min", "case_sensitive attribute", 0, filter_extreme},
        {"max", "case_sensitive attribute", 0, filter_extreme},
        {"sum", "attribute start", 0, filter_sum},
        {"batch", "linecount fill_with", 1, filter_batch},
        {"slice", "slices fill_with", 1, filter_slice},
        {"groupby", "attribute default case_sensitive", 1, filter_groupby},
        {"attr", "name", 1, filter_attr},
    };
    return jinja_row_find(rows, sizeof rows / sizeof *rows, name);
}
