// SPDX-License-Identifier: Apache-2.0
// Attributes, items and slices. As in Jinja, a.b prefers a method over a key, and a['b'] a key over
// a method. Methods that would change a list or dict do not exist.
#include "runtime/text/jinja/internal.h"

struct jinja_value jinja_undefined_name(struct jinja_run *run, struct text name)
{
    struct text why =
        arena_format(run->arena, "'%.*s' is undefined", jinja_name_precision(name), name.at);
    if (!why.at)
        jinja_fail_memory(run);
    return jinja_undefined(why.at);
}

static bool undefined_attribute(struct jinja_run *run, struct jinja_value of, struct text name,
                                struct jinja_value *out)
{
    struct text why = arena_format(run->arena, "a value of type %s has no attribute '%.*s'",
                                   jinja_kind_name(of), jinja_name_precision(name), name.at);
    *out = jinja_undefined(why.at);
    return why.at || jinja_fail_memory(run);
}

// Sets *out to an attribute of a running loop. Returns false if it does not exist.
static bool loop_attribute(const struct jinja_loop *loop, struct text name, struct jinja_value *out)
{
    bool first = loop->index0 == 0;
    bool last = loop->index0 + 1 >= loop->count;
    int64_t index = (int64_t)loop->index0;
    int64_t rest = (int64_t)loop->count - index;
    if (text_is(name, "index"))
        *out = jinja_int(index + 1);
    else if (text_is(name, "index0"))
        *out = jinja_int(index);
    else if (text_is(name, "revindex"))
        *out = jinja_int(rest);
    else if (text_is(name, "revindex0"))
        *out = jinja_int(rest - 1);
    else if (text_is(name, "first"))
        *out = jinja_bool(first);
    else if (text_is(name, "last"))
        *out = jinja_bool(last);
    else if (text_is(name, "length"))
        *out = jinja_int((int64_t)loop->count);
    else if (text_is(name, "depth"))
        *out = jinja_int((int64_t)loop->depth0 + 1);
    else if (text_is(name, "depth0"))
        *out = jinja_int(loop->depth0);
    else if (text_is(name, "previtem"))
        *out = first ? jinja_undefined("there is no previous item") : loop->items[index - 1];
    else if (text_is(name, "nextitem"))
        *out = last ? jinja_undefined("there is no next item") : loop->items[index + 1];
    else
        return false;
    return true;
}

static bool method_bind(struct jinja_run *run, struct jinja_value of, struct text name,
                        struct jinja_value *out)
{
    const struct jinja_row *row = jinja_method_find(of, name);
    if (!row)
        return false;
    struct jinja_function *function = jinja_alloc(run, 1, sizeof *function);
    if (!function)
        return false;
    *function = (struct jinja_function){.row = row, .self = of};
    *out = (struct jinja_value){.kind = JINJA_FUNCTION, .as.function = function};
    return true;
}

static bool macro_attribute(struct jinja_run *run, const struct jinja_node *macro, struct text name,
                            struct jinja_value *out)
{
    static const struct {
        const char *name;
        uint8_t flag;
    } uses[] = {
        {"catch_kwargs", MACRO_KWARGS}, {"catch_varargs", MACRO_VARARGS}, {"caller", MACRO_CALLER}};
    if (text_is(name, "name"))
        return jinja_string_make(run, macro->text, false, out);
    for (size_t i = 0; i < sizeof uses / sizeof *uses; i++)
        if (text_is(name, uses[i].name)) {
            *out = jinja_bool((macro->flag & uses[i].flag) != 0);
            return true;
        }
    struct jinja_items items = {0};
    for (uint32_t i = 0; i < macro->count && text_is(name, "arguments"); i++) {
        struct jinja_value one;
        if (!jinja_string_make(run, run->program->names[macro->items[i]->name], false, &one) ||
            !jinja_items_add(run, &items, one))
            return false;
    }
    return text_is(name, "arguments") && jinja_items_list(run, &items, JINJA_IS_TUPLE, out);
}

// Sets *out to an attribute that is neither a key nor a method.
static bool plain_attribute(struct jinja_run *run, struct jinja_value of, struct text name,
                            struct jinja_value *out)
{
    const struct jinja_value *found = NULL;
    if (of.kind == JINJA_LOOP)
        return loop_attribute(of.as.loop, name, out);
    if (of.kind == JINJA_NAMESPACE && jinja_spend(run, of.as.space->count / 4))
        found = jinja_namespace_find(of.as.space, name);
    else if (of.kind == JINJA_CYCLER && !of.as.cycler->joiner && text_is(name, "current"))
        found = &of.as.cycler->items.as.list->items[of.as.cycler->at];
    else if (of.kind == JINJA_LIST && of.flavour == JINJA_IS_TUPLE && of.as.list->count == 2)
        found = text_is(name, "grouper") ? &of.as.list->items[0] // as returned by groupby
                : text_is(name, "list")  ? &of.as.list->items[1]
                                         : NULL;
    else if (of.kind == JINJA_MACRO)
        return macro_attribute(run, of.as.macro->node, name, out);
    if (found)
        *out = *found;
    return found != NULL;
}

// Methods of Python's dict that Jinja's sandbox forbids. They hide a key of the same name.
static bool is_forbidden(struct text name)
{
    static const char *const names[] = {"clear", "pop", "popitem", "setdefault", "update"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (text_is(name, names[i]))
            return true;
    return false;
}

bool jinja_getattr(struct jinja_run *run, struct jinja_value of, struct text name,
                   struct jinja_value *out)
{
    if (of.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, of);
    if (plain_attribute(run, of, name, out) || method_bind(run, of, name, out))
        return true;
    if (run->status != STATUS_OK)
        return false;
    if (of.kind == JINJA_DICT && !is_forbidden(name)) {
        struct jinja_string key = {.at = name.at, .bytes = name.bytes};
        const struct jinja_value *found;
        if (!jinja_dict_find(run, of.as.dict, jinja_of_string(&key), &found))
            return false;
        if (found) {
            *out = *found;
            return true;
        }
    }
    return undefined_attribute(run, of, name, out);
}

static bool item_at(struct jinja_run *run, struct jinja_value of, int64_t index,
                    struct jinja_value *out)
{
    if (of.kind == JINJA_STRING) {
        struct text text = jinja_string_text(of.as.string);
        int64_t count = (int64_t)jinja_utf8_count(text);
        if (!jinja_spend(run, 1 + text.bytes / 64))
            return false;
        index += index < 0 ? count : 0;
        *out = jinja_undefined("an index is past the end of a string");
        if (index < 0 || index >= count)
            return true;
        size_t from = jinja_utf8_offset(text, (size_t)index);
        uint32_t point;
        return jinja_string_slice(run, of.as.string, from,
                                  from + jinja_utf8_next(text, from, &point), out);
    }
    int64_t count = (int64_t)of.as.list->count;
    index += index < 0 ? count : 0;
    *out = index >= 0 && index < count ? of.as.list->items[index]
                                       : jinja_undefined("an index is past the end of a list");
    return true;
}

// True if items can be accessed by index.
static bool is_indexable(struct jinja_value of)
{
    return of.kind == JINJA_STRING || (of.kind == JINJA_LIST && of.flavour <= JINJA_IS_RANGE);
}

bool jinja_getitem(struct jinja_run *run, struct jinja_value of, struct jinja_value key,
                   struct jinja_value *out)
{
    if (of.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, of);
    if (of.kind == JINJA_DICT && (key.kind != JINJA_LIST || key.flavour == JINJA_IS_TUPLE) &&
        key.kind != JINJA_DICT) {
        const struct jinja_value *found;
        if (!jinja_dict_find(run, of.as.dict, key, &found))
            return false;
        if (found) {
            *out = *found;
            return true;
        }
    }
    if (is_indexable(of) && (key.kind == JINJA_INT || key.kind == JINJA_BOOL))
        return item_at(run, of, jinja_as_int(key), out);
    if (key.kind != JINJA_STRING) {
        *out = jinja_undefined("an item is not there");
        return true;
    }
    struct text name = jinja_string_text(key.as.string);
    if (plain_attribute(run, of, name, out) || method_bind(run, of, name, out))
        return true;
    return run->status == STATUS_OK && undefined_attribute(run, of, name, out);
}

// Clamps a slice bound to [0, count] as Python does, or to [-1, count - 1] if backwards.
static int64_t slice_clamp(int64_t at, int64_t count, bool backwards)
{
    if (at < 0)
        at += count;
    int64_t least = backwards ? -1 : 0;
    int64_t most = backwards ? count - 1 : count;
    return at < least ? least : at > most ? most : at;
}

static bool slice_part(struct jinja_run *run, struct jinja_value part, int64_t *out)
{
    if (part.kind == JINJA_MISSING || part.kind == JINJA_NONE)
        return true;
    if (part.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, part);
    if (part.kind != JINJA_INT && part.kind != JINJA_BOOL)
        return jinja_fail(run, STATUS_INVALID, "a slice needs integers, not type %s",
                          jinja_kind_name(part));
    int64_t value = jinja_as_int(part);
    const int64_t most = INT64_MAX / 4; // adding a length must not overflow
    *out = value > most ? most : value < -most ? -most : value;
    return true;
}

bool jinja_getslice(struct jinja_run *run, struct jinja_value of, const struct jinja_value part[3],
                    struct jinja_value *out)
{
    if (of.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, of);
    if (!is_indexable(of))
        return jinja_fail(run, STATUS_INVALID, "a value of type %s cannot be sliced",
                          jinja_kind_name(of));
    struct text text =
        of.kind == JINJA_STRING ? jinja_string_text(of.as.string) : (struct text){NULL, 0};
    int64_t count = (int64_t)(of.kind == JINJA_STRING ? jinja_utf8_count(text) : of.as.list->count);
    int64_t step = 1;
    if (!jinja_spend(run, 1 + text.bytes / 64) || !slice_part(run, part[2], &step))
        return false;
    if (step == 0)
        return jinja_fail(run, STATUS_INVALID, "the step of a slice cannot be zero");
    int64_t from = step > 0 ? 0 : INT64_MAX / 4;
    int64_t to = step > 0 ? INT64_MAX / 4 : -INT64_MAX / 4;
    if (!slice_part(run, part[0], &from) || !slice_part(run, part[1], &to))
        return false;
    from = slice_clamp(from, count, step < 0);
    to = slice_clamp(to, count, step < 0);
    if (of.kind == JINJA_STRING && step == 1) {
        size_t first = jinja_utf8_offset(text, (size_t)from);
        size_t last = to > from ? jinja_utf8_offset(text, (size_t)to) : first;
        return jinja_string_slice(run, of.as.string, first, last, out);
    }
    struct jinja_list all;
    struct jinja_items items = {0};
    if (!jinja_iterate(run, of, &all))
        return false;
    for (int64_t i = from; step > 0 ? i < to : i > to; i += step)
        if (!jinja_items_add(run, &items, all.items[i]))
            return false;
    if (of.kind == JINJA_LIST)
        return jinja_items_list(run, &items, of.flavour, out);
    struct jinja_builder *b = jinja_builder_create(run);
    for (size_t i = 0; b && i < items.count; i++)
        if (!jinja_builder_string(run, b, items.items[i].as.string))
            return false;
    return b && jinja_builder_done(run, b, out);
}
