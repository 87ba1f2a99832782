// SPDX-License-Identifier: Apache-2.0
// Operators of expressions with Python's rules for each pair of types. Integers have 64 bits; a
// result that does not fit fails.
#include "runtime/text/jinja/internal.h"

#include <math.h>

static bool type_fail(struct jinja_run *run, int op, struct jinja_value a, struct jinja_value b)
{
    if (a.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, a);
    if (b.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, b);
    char name[3] = {(char)(op & 0xff), (char)(op >> 8), '\0'};
    return jinja_fail(run, STATUS_INVALID, "'%s' is not possible between types %s and %s", name,
                      jinja_kind_name(a), jinja_kind_name(b));
}

static bool int_power(int64_t base, int64_t exponent, int64_t *out)
{
    *out = 1;
    while (exponent > 0) {
        if ((exponent & 1) != 0 && __builtin_mul_overflow(*out, base, out))
            return false;
        exponent >>= 1;
        if (exponent > 0 && __builtin_mul_overflow(base, base, &base))
            return false;
    }
    return true;
}

// Divides, rounding towards minus infinity as Python does.
static int64_t int_floor(int64_t a, int64_t b)
{
    int64_t quotient = a / b;
    return quotient - (a % b != 0 && (a < 0) != (b < 0));
}

static bool int_binary(struct jinja_run *run, int op, int64_t a, int64_t b, struct jinja_value *out)
{
    int64_t result = 0;
    bool fits = true;
    if ((op == OP_FLOOR || op == '%' || op == '/') && b == 0)
        return jinja_fail(run, STATUS_INVALID, "division by zero");
    if (op == '/') {
        *out = jinja_float((double)a / (double)b);
        return true;
    }
    if (op == '+')
        fits = !__builtin_add_overflow(a, b, &result);
    else if (op == '-')
        fits = !__builtin_sub_overflow(a, b, &result);
    else if (op == '*')
        fits = !__builtin_mul_overflow(a, b, &result);
    else if (op == OP_POWER)
        fits = int_power(a, b, &result);
    else if (b == -1) // INT64_MIN // -1 does not fit
        fits = op == '%' || !__builtin_sub_overflow(0, a, &result);
    else
        result = op == '%' ? a - int_floor(a, b) * b : int_floor(a, b);
    *out = jinja_int(result);
    return fits || jinja_fail(run, STATUS_INVALID, "an integer does not fit 64 bits");
}

static bool float_binary(struct jinja_run *run, int op, double a, double b, struct jinja_value *out)
{
    double result = 0;
    if ((op == OP_FLOOR || op == '%' || op == '/') && b == 0)
        return jinja_fail(run, STATUS_INVALID, "division by zero");
    if (op == '+') {
        result = a + b;
    } else if (op == '-') {
        result = a - b;
    } else if (op == '*') {
        result = a * b;
    } else if (op == '/') {
        result = a / b;
    } else if (op == OP_POWER) {
        if ((a == 0 && b < 0) || (a < 0 && b != floor(b)))
            return jinja_fail(run, STATUS_INVALID, "this power is not a real number");
        result = pow(a, b);
        if (isinf(result) && !isinf(a) && !isinf(b))
            return jinja_fail(run, STATUS_INVALID, "this power is too large");
    } else {
        double rest = fmod(a, b);
        if (rest != 0 && (rest < 0) != (b < 0))
            rest += b;
        else if (rest == 0)
            rest = copysign(0.0, b);
        double whole = floor((a - rest) / b);
        if ((a - rest) / b - whole > 0.5)
            whole += 1;
        result = op == '%' ? rest : whole;
    }
    *out = jinja_float(result);
    return true;
}

static bool list_repeat(struct jinja_run *run, struct jinja_value list, int64_t times,
                        struct jinja_value *out)
{
    struct jinja_items items = {0};
    for (int64_t i = 0; i < times && list.as.list->count > 0; i++)
        if (!jinja_items_add_all(run, &items, list.as.list->items, list.as.list->count))
            return false;
    return jinja_items_list(run, &items, list.flavour, out);
}

static bool list_join(struct jinja_run *run, struct jinja_value a, struct jinja_value b,
                      struct jinja_value *out)
{
    const struct jinja_list *x = a.as.list, *y = b.as.list;
    struct jinja_items items = {0};
    return jinja_items_add_all(run, &items, x->items, x->count) &&
           jinja_items_add_all(run, &items, y->items, y->count) &&
           jinja_items_list(run, &items, a.flavour, out);
}

static bool is_sequence(struct jinja_value value)
{
    return value.kind == JINJA_LIST && value.flavour <= JINJA_IS_TUPLE;
}

static bool value_repeat(struct jinja_run *run, struct jinja_value what, struct jinja_value times,
                         struct jinja_value *out)
{
    if (what.kind == JINJA_STRING)
        return jinja_string_repeat(run, what.as.string, jinja_as_int(times), out);
    return list_repeat(run, what, jinja_as_int(times), out);
}

static bool is_int(struct jinja_value value)
{
    return value.kind == JINJA_INT || value.kind == JINJA_BOOL;
}

// Returns true if Python would compute an integer from one that is beyond int64.
static bool is_wide_result(int op, struct jinja_value a, struct jinja_value b)
{
    bool wide = a.kind == JINJA_WIDE || b.kind == JINJA_WIDE;
    return wide && op != '/' && (is_int(a) || a.kind == JINJA_WIDE) &&
           (is_int(b) || b.kind == JINJA_WIDE);
}

bool jinja_binary(struct jinja_run *run, int op, struct jinja_value a, struct jinja_value b,
                  struct jinja_value *out)
{
    if (is_int(a) && is_int(b) && !(op == OP_POWER && jinja_as_int(b) < 0))
        return int_binary(run, op, jinja_as_int(a), jinja_as_int(b), out);
    if (is_wide_result(op, a, b))
        return jinja_fail(run, STATUS_INVALID, "an integer does not fit 64 bits");
    if (jinja_is_number(a) && jinja_is_number(b))
        return float_binary(run, op, jinja_as_double(a), jinja_as_double(b), out);
    if (a.kind == JINJA_STRING && op == '%')
        return jinja_format_percent(run, a.as.string, b, out);
    if (op == '+' && a.kind == JINJA_STRING && b.kind == JINJA_STRING)
        return jinja_string_join(run, a, b, out);
    if (op == '+' && is_sequence(a) && is_sequence(b) && a.flavour == b.flavour)
        return list_join(run, a, b, out);
    if (op == '*' && is_int(b) && (a.kind == JINJA_STRING || is_sequence(a)))
        return value_repeat(run, a, b, out);
    if (op == '*' && is_int(a) && (b.kind == JINJA_STRING || is_sequence(b)))
        return value_repeat(run, b, a, out);
    return type_fail(run, op, a, b);
}

bool jinja_contains(struct jinja_run *run, struct jinja_value container, struct jinja_value item,
                    bool *out)
{
    *out = false;
    if (container.kind == JINJA_STRING) {
        if (item.kind != JINJA_STRING)
            return jinja_fail(run, STATUS_INVALID, "only a string can be in a string, not type %s",
                              jinja_kind_name(item));
        const struct jinja_string *in = container.as.string;
        *out = item.as.string->bytes == 0 ||
               memmem(in->at, in->bytes, item.as.string->at, item.as.string->bytes);
        return jinja_spend(run, 1 + in->bytes / 64);
    }
    if (container.kind == JINJA_DICT) {
        const struct jinja_value *found;
        bool fine = jinja_dict_find(run, container.as.dict, item, &found);
        *out = fine && found;
        return fine;
    }
    struct jinja_list list;
    if (!jinja_iterate(run, container, &list))
        return false;
    for (size_t i = 0; i < list.count && !*out; i++)
        if (!jinja_spend(run, 1) || !jinja_equal(run, list.items[i], item, out))
            return false;
    return true;
}

bool jinja_compare(struct jinja_run *run, int op, struct jinja_value a, struct jinja_value b,
                   bool *out)
{
    if (op == OP_IN || op == OP_NOT_IN) {
        bool fine = jinja_contains(run, b, a, out);
        *out = *out == (op == OP_IN);
        return fine;
    }
    if (op == OP_EQ || op == OP_NE) {
        bool fine = jinja_equal(run, a, b, out);
        *out = *out == (op == OP_EQ);
        return fine;
    }
    int order;
    if (!jinja_order(run, a, b, &order))
        return false;
    *out = op == '<'     ? order == -1
           : op == '>'   ? order == 1
           : op == OP_LE ? order == -1 || order == 0
                         : order == 1 || order == 0;
    return true;
}
