// SPDX-License-Identifier: Apache-2.0
// Reads an Oniguruma class [...]: nested sets, intersections (&&), POSIX brackets, ranges.
#include "runtime/text/tokenizer/pattern_read.h"

// The item before the current one, which decides the meaning of a `-`.
enum before { BEFORE_NOTHING, BEFORE_CHARACTER, BEFORE_SET, BEFORE_RANGE };

struct class_state {
    struct set *set;    // operand of && that is being read
    enum before before; // BEFORE_CHARACTER: `value` is not yet in the set
    uint32_t value;
    bool range; // true if `value-` was read
};

static void class_value_flush(struct class_state *c)
{
    if (c->before == BEFORE_CHARACTER)
        set_add_range(c->set, c->value, c->value);
    c->before = BEFORE_NOTHING;
}

static enum status class_value_handle(struct pattern *p, struct class_state *c, uint32_t code)
{
    if (!c->range) {
        class_value_flush(c);
        c->value = code;
        c->before = BEFORE_CHARACTER;
        return STATUS_OK;
    }
    c->range = false;
    if (code < c->value)
        return pattern_refuse(p, "a range in [...] ends before it begins");
    set_add_range(c->set, c->value, code);
    c->before = BEFORE_RANGE;
    return STATUS_OK;
}

// Notes that the item just read is a set (a property, a nested class).
static enum status class_set_handle(struct pattern *p, struct class_state *c)
{
    if (c->range)
        return pattern_refuse(p, "a range in [...] ends with a set of characters");
    class_value_flush(c);
    c->before = BEFORE_SET;
    return STATUS_OK;
}

static bool dash_is_plain(const struct pattern *p)
{
    return pattern_next_is(p, "]") || pattern_next_is(p, "&&") || pattern_next_is(p, "[");
}

static enum status class_dash_handle(struct pattern *p, struct class_state *c)
{
    if (c->range || c->before == BEFORE_NOTHING || c->before == BEFORE_RANGE)
        return class_value_handle(p, c, '-');
    if (dash_is_plain(p))
        return class_value_handle(p, c, '-');
    if (c->before == BEFORE_SET)
        return pattern_refuse(p, "a range in [...] begins with a set of characters");
    c->range = true;
    return STATUS_OK;
}

static enum status class_posix_handle(struct pattern *p, struct class_state *c, bool *handled)
{
    struct text rest = text_span(p->in.at + p->at, p->in.bytes - p->at); // after the "["
    *handled = false;
    const char *close = rest.bytes > 0 && *rest.at == ':'
                            ? memmem(rest.at, rest.bytes < 24 ? rest.bytes : 24, ":]", 2)
                            : NULL;
    if (!close || close == rest.at)
        return STATUS_OK;
    struct text name = text_span(rest.at + 1, (size_t)(close - rest.at) - 1);
    bool negated = name.bytes > 0 && *name.at == '^';
    if (negated)
        name = text_span(name.at + 1, name.bytes - 1);
    struct set *member = set_create(p->arena);
    member->negated = negated;
    if (!set_add_posix(negated ? member : c->set, name))
        return pattern_refuse(p, "[:%.*s:] is not a POSIX bracket", (int)name.bytes, name.at);
    if (negated)
        set_add(c->set, member);
    *handled = true;
    p->at += (size_t)(close + 2 - rest.at);
    return class_set_handle(p, c);
}

static enum status class_open_handle(struct pattern *p, struct class_state *c)
{
    bool handled;
    struct set *nested;
    enum status status = class_posix_handle(p, c, &handled);
    if (status != STATUS_OK || handled)
        return status;
    status = pattern_class(p, &nested);
    if (status != STATUS_OK)
        return status;
    set_add(c->set, nested);
    return class_set_handle(p, c);
}

static enum status class_escape_handle(struct pattern *p, struct class_state *c)
{
    struct escape e;
    enum status status = pattern_escape(p, true, &e);
    if (status != STATUS_OK)
        return status;
    if (!e.set)
        return class_value_handle(p, c, e.code);
    set_add(c->set, e.set);
    return class_set_handle(p, c);
}

static enum status class_member_handle(struct pattern *p, struct class_state *c)
{
    char first = p->in.at[p->at];
    size_t bytes;
    if (first == '\\')
        return class_escape_handle(p, c);
    uint32_t code = utf8_read(p->in.at + p->at, &bytes);
    p->at += bytes;
    if (first == '[')
        return class_open_handle(p, c);
    return first == '-' ? class_dash_handle(p, c) : class_value_handle(p, c, code);
}

// Reads one operand of &&, up to && or ].
static enum status operand_read(struct pattern *p, struct set **out, bool begins)
{
    struct class_state c = {.set = set_create(p->arena)};
    enum status status = STATUS_OK;
    // A ] directly at the start is a character if another ] follows.
    if (begins && pattern_next_is(p, "]")) {
        if (!memchr(p->in.at + p->at + 1, ']', p->in.bytes - p->at - 1))
            return pattern_refuse(p, "a class [] is empty");
        p->at++;
        status = class_value_handle(p, &c, ']');
    }
    while (status == STATUS_OK && p->at < p->in.bytes && !pattern_next_is(p, "]") &&
           !pattern_next_is(p, "&&"))
        status = pattern_is_too_large(p) ? pattern_refuse_size(p) : class_member_handle(p, &c);
    class_value_flush(&c);
    *out = c.set;
    return status;
}

enum status pattern_class(struct pattern *p, struct set **out)
{
    if (++p->depth > PATTERN_DEPTH_MAX)
        return pattern_refuse(p, "it is nested deeper than %d", PATTERN_DEPTH_MAX);
    bool negated = pattern_next_is(p, "^");
    p->at += negated;
    struct set *set, *both = NULL;
    enum status status = operand_read(p, &set, true);
    while (status == STATUS_OK && pattern_next_is(p, "&&")) {
        p->at += 2;
        if (!both) {
            both = set_create(p->arena);
            both->intersection = true;
            set_add(both, set);
        }
        status = operand_read(p, &set, false);
        if (status == STATUS_OK)
            set_add(both, set);
    }
    if (status != STATUS_OK)
        return status;
    if (p->at == p->in.bytes)
        return pattern_refuse(p, "a class [...] is not closed");
    p->at++;
    p->depth--;
    *out = both ? both : set;
    (*out)->negated = negated;
    return STATUS_OK;
}
