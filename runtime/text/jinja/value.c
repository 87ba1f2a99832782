// SPDX-License-Identifier: Apache-2.0
// Values: creating, comparing, looking up, iterating; see jinja/value.h.
#include "runtime/text/jinja/value.h"

#include "runtime/text/jinja/ast.h"
#include "runtime/text/jinja/string.h"

#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

bool jinja_fail(struct jinja_run *run, enum status status, const char *format, ...)
{
    if (run->status != STATUS_OK)
        return false;
    char text[ERROR_TEXT_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    run->status = status;
    if (status == STATUS_REFUSED)
        error_set(run->err, status, "%s", text);
    else
        error_set(run->err, status, "chat template, line %u: %s", run->line, text);
    return false;
}

bool jinja_spend(struct jinja_run *run, uint64_t steps)
{
    enum { STEP_WORK = 8 }; // cost of one step in bytes of JSON parsed
    if (steps <= run->steps_left) {
        run->steps_left -= steps;
        return slice_spend(run->slice, steps * STEP_WORK) ||
               jinja_fail(run, STATUS_UNWANTED,
                          "rendering was cancelled because its result is no longer needed");
    }
    run->steps_left = 0;
    return jinja_fail(run, STATUS_TOO_LARGE, "the rendering takes too many steps; send less");
}

bool jinja_fail_memory(struct jinja_run *run)
{
    return jinja_fail(run, STATUS_TOO_LARGE, "the rendering takes too much memory; send less");
}

void *jinja_alloc(struct jinja_run *run, size_t count, size_t bytes_each)
{
    void *piece = NULL;
    if (count < SIZE_MAX / 8 / bytes_each)
        piece = arena_alloc(run->arena, count * bytes_each);
    if (!piece)
        jinja_fail_memory(run);
    return piece;
}

void *jinja_extend(struct jinja_run *run, void *items, size_t count, size_t *allocated, size_t each)
{
    void *grown = arena_extend(run->arena, items, count, allocated, each);
    if (!grown)
        jinja_fail_memory(run);
    return grown;
}

struct jinja_value jinja_none(void)
{
    return (struct jinja_value){.kind = JINJA_NONE};
}

struct jinja_value jinja_bool(bool boolean)
{
    return (struct jinja_value){.kind = JINJA_BOOL, .as.boolean = boolean};
}

struct jinja_value jinja_int(int64_t integer)
{
    return (struct jinja_value){.kind = JINJA_INT, .as.integer = integer};
}

struct jinja_value jinja_float(double real)
{
    return (struct jinja_value){.kind = JINJA_FLOAT, .as.real = real};
}

bool jinja_wide_make(struct jinja_run *run, struct text digits, double nearest,
                     struct jinja_value *out)
{
    struct jinja_wide *wide = jinja_alloc(run, 1, sizeof *wide);
    if (!wide)
        return false;
    *wide = (struct jinja_wide){digits, nearest};
    *out = (struct jinja_value){.kind = JINJA_WIDE, .as.wide = wide};
    return true;
}

bool jinja_wide_signed(struct jinja_run *run, struct jinja_value wide, bool negate,
                       struct jinja_value *out)
{
    struct text digits = wide.as.wide->digits;
    *out = wide;
    if (!negate)
        return true;
    if (text_is(digits, "9223372036854775808")) {
        *out = jinja_int(INT64_MIN);
        return true;
    }
    char *other = jinja_alloc(run, digits.bytes + 1, 1);
    if (!other)
        return false;
    bool minus = digits.at[0] == '-';
    other[0] = '-';
    memcpy(other + !minus, digits.at + minus, digits.bytes - minus);
    return jinja_wide_make(run, text_span(other, minus ? digits.bytes - 1 : digits.bytes + 1),
                           -wide.as.wide->nearest, out);
}

struct jinja_value jinja_undefined(const char *why)
{
    return (struct jinja_value){.kind = JINJA_UNDEFINED, .as.undefined_message = why};
}

struct jinja_value jinja_of_string(const struct jinja_string *string)
{
    return (struct jinja_value){.kind = JINJA_STRING, .as.string = string};
}

struct jinja_value jinja_of_list(struct jinja_list *list, enum jinja_flavour flavour)
{
    return (struct jinja_value){.kind = JINJA_LIST, .flavour = (uint8_t)flavour, .as.list = list};
}

const char *jinja_kind_name(struct jinja_value value)
{
    static const char *const lists[] = {"list",        "tuple",      "range",    "dict_keys",
                                        "dict_values", "dict_items", "generator"};
    static const char *const names[] = {
        "missing", "Undefined", "NoneType",  "bool",  "int",         "int",      "float", "str",
        "list",    "dict",      "Namespace", "Macro", "LoopContext", "function", "Cycler"};
    return value.kind == JINJA_LIST ? lists[value.flavour] : names[value.kind];
}

bool jinja_is_number(struct jinja_value value)
{
    return value.kind >= JINJA_BOOL && value.kind <= JINJA_FLOAT;
}

int64_t jinja_as_int(struct jinja_value number)
{
    return number.kind == JINJA_BOOL ? number.as.boolean : number.as.integer;
}

double jinja_as_double(struct jinja_value number)
{
    return number.kind == JINJA_FLOAT  ? number.as.real
           : number.kind == JINJA_WIDE ? number.as.wide->nearest
                                       : (double)jinja_as_int(number);
}

bool jinja_truth(struct jinja_value value)
{
    switch (value.kind) {
    case JINJA_MISSING:
    case JINJA_UNDEFINED:
    case JINJA_NONE:
        return false;
    case JINJA_BOOL:
        return value.as.boolean;
    case JINJA_INT:
        return value.as.integer != 0;
    case JINJA_FLOAT:
        return value.as.real != 0;
    case JINJA_STRING:
        return value.as.string->bytes > 0;
    case JINJA_LIST:
        return value.flavour == JINJA_IS_ITERATOR || value.as.list->count > 0;
    case JINJA_DICT:
        return value.as.dict->count > 0;
    default:
        return true;
    }
}

bool jinja_fail_undefined(struct jinja_run *run, struct jinja_value value)
{
    return jinja_fail(run, STATUS_INVALID, "%s",
                      value.as.undefined_message ? value.as.undefined_message
                                                 : "a value is undefined");
}

// Returns the order of two integers by their digits.
static int digits_order(struct text a, struct text b)
{
    bool minus = a.at[0] == '-';
    if (minus != (b.at[0] == '-'))
        return minus ? -1 : 1;
    int order = a.bytes != b.bytes ? (a.bytes > b.bytes) - (a.bytes < b.bytes) : text_order(a, b);
    return minus ? -order : order;
}

// Returns the order of an integer beyond int64 and a number; 2: none (NaN).
static int wide_order(const struct jinja_wide *a, struct jinja_value b)
{
    char digits[DBL_MAX_10_EXP + 3];
    int sign = a->digits.at[0] == '-' ? -1 : 1;
    if (b.kind == JINJA_WIDE)
        return digits_order(a->digits, b.as.wide->digits);
    double real = jinja_as_double(b);
    if (b.kind != JINJA_FLOAT || fabs(real) < 0x1p63)
        return sign; // beyond every int64
    if (isnan(real) || isinf(real))
        return isnan(real) ? 2 : real > 0 ? -1 : 1;
    snprintf(digits, sizeof digits, "%.0f", real);
    return digits_order(a->digits, text_of(digits));
}

static bool numbers_order(struct jinja_value a, struct jinja_value b, int *order)
{
    if (a.kind == JINJA_WIDE || b.kind == JINJA_WIDE) {
        int forward = a.kind == JINJA_WIDE ? wide_order(a.as.wide, b) : wide_order(b.as.wide, a);
        *order = a.kind == JINJA_WIDE || forward == 2 ? forward : -forward;
        return true;
    }
    if (a.kind != JINJA_FLOAT && b.kind != JINJA_FLOAT) {
        int64_t x = jinja_as_int(a);
        int64_t y = jinja_as_int(b);
        *order = (x > y) - (x < y);
        return true;
    }
    long double x = a.kind == JINJA_FLOAT ? (long double)a.as.real : (long double)jinja_as_int(a);
    long double y = b.kind == JINJA_FLOAT ? (long double)b.as.real : (long double)jinja_as_int(b);
    *order = isnan(x) || isnan(y) ? 2 : (x > y) - (x < y);
    return true;
}

static bool level_enter(struct jinja_run *run)
{
    if (run->depth >= JINJA_DEPTH_MAX)
        return jinja_fail(run, STATUS_TOO_LARGE, "values or calls are nested too deeply");
    run->depth++;
    return jinja_spend(run, 1);
}

static bool lists_equal(struct jinja_run *run, struct jinja_value a, struct jinja_value b,
                        bool *equal)
{
    const struct jinja_list *x = a.as.list;
    const struct jinja_list *y = b.as.list;
    *equal = x == y;
    bool by_items = a.flavour == b.flavour && a.flavour <= JINJA_IS_RANGE;
    if (x == y || !by_items || x->count != y->count)
        return true;
    *equal = true;
    for (size_t i = 0; i < x->count && *equal; i++)
        if (!jinja_equal(run, x->items[i], y->items[i], equal))
            return false;
    return true;
}

static bool dicts_equal(struct jinja_run *run, const struct jinja_dict *a,
                        const struct jinja_dict *b, bool *equal)
{
    *equal = a == b || a->count == b->count;
    for (size_t i = 0; i < a->count && *equal && a != b; i++) {
        const struct jinja_value *other;
        if (!jinja_dict_find(run, b, a->pairs[i].key, &other))
            return false;
        *equal = other != NULL;
        if (other && !jinja_equal(run, a->pairs[i].value, *other, equal))
            return false;
    }
    return true;
}

bool jinja_equal(struct jinja_run *run, struct jinja_value a, struct jinja_value b, bool *equal)
{
    int order = 2;
    *equal = false;
    if (jinja_is_number(a) && jinja_is_number(b)) {
        numbers_order(a, b, &order);
        *equal = order == 0;
        return true;
    }
    if (a.kind != b.kind)
        return true;
    bool fine = level_enter(run);
    if (!fine)
        return false;
    switch (a.kind) {
    case JINJA_UNDEFINED:
    case JINJA_NONE:
    case JINJA_MISSING:
        *equal = true;
        break;
    case JINJA_STRING:
        *equal = text_equal(jinja_string_text(a.as.string), jinja_string_text(b.as.string));
        fine = !*equal || jinja_spend(run, a.as.string->bytes / 64);
        break;
    case JINJA_LIST:
        fine = lists_equal(run, a, b, equal);
        break;
    case JINJA_DICT:
        fine = dicts_equal(run, a.as.dict, b.as.dict, equal);
        break;
    default:
        *equal = a.as.space == b.as.space;
        break;
    }
    run->depth--;
    return fine;
}

static bool lists_order(struct jinja_run *run, const struct jinja_list *a,
                        const struct jinja_list *b, int *order)
{
    for (size_t i = 0; i < a->count && i < b->count; i++) {
        bool equal;
        if (!jinja_equal(run, a->items[i], b->items[i], &equal))
            return false;
        if (!equal)
            return jinja_order(run, a->items[i], b->items[i], order);
    }
    *order = (a->count > b->count) - (a->count < b->count);
    return true;
}

bool jinja_order(struct jinja_run *run, struct jinja_value a, struct jinja_value b, int *order)
{
    if (jinja_is_number(a) && jinja_is_number(b))
        return numbers_order(a, b, order);
    if (a.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, a);
    if (b.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, b);
    if (a.kind == JINJA_STRING && b.kind == JINJA_STRING) {
        const struct jinja_string *x = a.as.string;
        const struct jinja_string *y = b.as.string;
        size_t common = x->bytes < y->bytes ? x->bytes : y->bytes;
        *order = text_order(text_span(x->at, x->bytes), text_span(y->at, y->bytes));
        return jinja_spend(run, 1 + common / 64);
    }
    if (a.kind == JINJA_LIST && b.kind == JINJA_LIST && a.flavour == b.flavour &&
        a.flavour <= JINJA_IS_TUPLE) {
        bool fine = level_enter(run) && lists_order(run, a.as.list, b.as.list, order);
        if (fine)
            run->depth--;
        return fine;
    }
    return jinja_fail(run, STATUS_INVALID, "a value of type %s and one of type %s have no order",
                      jinja_kind_name(a), jinja_kind_name(b));
}

bool jinja_items_add(struct jinja_run *run, struct jinja_items *items, struct jinja_value value)
{
    if (!jinja_spend(run, 1))
        return false;
    struct jinja_value *grown =
        jinja_extend(run, items->items, items->count, &items->allocated, sizeof *grown);
    if (!grown)
        return false;
    items->items = grown;
    items->items[items->count++] = value;
    return true;
}

bool jinja_items_add_all(struct jinja_run *run, struct jinja_items *items,
                         const struct jinja_value *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!jinja_items_add(run, items, values[i]))
            return false;
    return true;
}

bool jinja_items_list(struct jinja_run *run, const struct jinja_items *items,
                      enum jinja_flavour flavour, struct jinja_value *out)
{
    struct jinja_list *list = jinja_alloc(run, 1, sizeof *list);
    if (!list)
        return false;
    *list = (struct jinja_list){.items = items->items, .count = items->count};
    *out = jinja_of_list(list, flavour);
    return true;
}

bool jinja_list_of(struct jinja_run *run, struct jinja_value value, enum jinja_flavour flavour,
                   struct jinja_value *out)
{
    struct jinja_list list;
    if (!jinja_iterate(run, value, &list))
        return false;
    const struct jinja_items items = {.items = (struct jinja_value *)list.items,
                                      .count = list.count};
    return jinja_items_list(run, &items, flavour, out);
}

bool jinja_pair_list(struct jinja_run *run, struct jinja_pair pair, struct jinja_value *out)
{
    struct jinja_items items = {0};
    return jinja_items_add(run, &items, pair.key) && jinja_items_add(run, &items, pair.value) &&
           jinja_items_list(run, &items, JINJA_IS_TUPLE, out);
}

const struct jinja_value *jinja_frame_find(const struct jinja_frame *frame, uint32_t name)
{
    for (; frame; frame = frame->parent)
        for (uint32_t i = 0; i < frame->count; i++)
            if (frame->items[i].name == name)
                return &frame->items[i].value;
    return NULL;
}

bool jinja_frame_set(struct jinja_run *run, struct jinja_frame *frame, uint32_t name,
                     struct jinja_value value)
{
    for (uint32_t i = 0; i < frame->count; i++)
        if (frame->items[i].name == name) {
            frame->items[i].value = value;
            return true;
        }
    struct jinja_binding *items =
        jinja_extend(run, frame->items, frame->count, &frame->allocated, sizeof *items);
    if (!items)
        return false;
    frame->items = items;
    frame->items[frame->count++] = (struct jinja_binding){.name = name, .value = value};
    return true;
}

const struct jinja_value *jinja_namespace_find(const struct jinja_namespace *space,
                                               struct text name)
{
    for (uint32_t i = 0; i < space->count; i++)
        if (text_equal(space->items[i].name, name))
            return &space->items[i].value;
    return NULL;
}

bool jinja_namespace_set(struct jinja_run *run, struct jinja_namespace *space, struct text name,
                         struct jinja_value value)
{
    if (!jinja_spend(run, 1 + space->count / 4))
        return false;
    for (uint32_t i = 0; i < space->count; i++)
        if (text_equal(space->items[i].name, name)) {
            space->items[i].value = value;
            return true;
        }
    struct jinja_keyword *items =
        jinja_extend(run, space->items, space->count, &space->allocated, sizeof *items);
    if (!items)
        return false;
    space->items = items;
    space->items[space->count++] = (struct jinja_keyword){.name = name, .value = value};
    return true;
}

bool jinja_iterable(struct jinja_value value)
{
    return value.kind == JINJA_UNDEFINED || value.kind == JINJA_STRING ||
           value.kind == JINJA_LIST || value.kind == JINJA_DICT;
}

static bool string_items(struct jinja_run *run, const struct jinja_string *string,
                         struct jinja_items *items)
{
    struct jinja_string bare = *string; // single characters of markup are not markup
    bare.markup = false;
    struct text text = jinja_string_text(string);
    for (size_t at = 0; at < text.bytes;) {
        uint32_t point;
        struct jinja_value one;
        size_t bytes = jinja_utf8_next(text, at, &point);
        if (!jinja_string_slice(run, &bare, at, at + bytes, &one) ||
            !jinja_items_add(run, items, one))
            return false;
        at += bytes;
    }
    return true;
}

bool jinja_iterate(struct jinja_run *run, struct jinja_value value, struct jinja_list *out)
{
    struct jinja_items items = {0};
    *out = (struct jinja_list){0};
    switch (value.kind) {
    case JINJA_UNDEFINED:
        return true;
    case JINJA_LIST:
        out->items = value.as.list->items;
        out->count = value.as.list->count;
        if (value.flavour == JINJA_IS_ITERATOR) {
            out->items = out->count > 0 ? out->items + value.as.list->next : NULL;
            out->count -= value.as.list->next;
            value.as.list->next = value.as.list->count;
        }
        return true;
    case JINJA_DICT:
        for (size_t i = 0; i < value.as.dict->count; i++)
            if (!jinja_items_add(run, &items, value.as.dict->pairs[i].key))
                return false;
        break;
    case JINJA_STRING:
        if (!string_items(run, value.as.string, &items))
            return false;
        break;
    default:
        return jinja_fail(run, STATUS_INVALID, "a value of type %s cannot be iterated",
                          jinja_kind_name(value));
    }
    out->items = items.items;
    out->count = items.count;
    return true;
}
