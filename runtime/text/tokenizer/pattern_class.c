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

static void value_flush(struct class_state *c)
{
    if (c->before == BEFORE_CHARACTER)
        set_add_range(c->set, c->value, c->value);
    c->before = BEFORE_NOTHING;
}

static enum status value_take(struct pattern *p, struct class_state *c, uint32_t code)
{
    if (!c->range) {
        value_flush(c);
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
static enum status set_take(struct pattern *p, struct class_state *c)
{
    if (c->range)
        return pattern_refuse(p, "a range in [...] ends with a set of characters");
    value_flush(c);
    c->before = BEFORE_SET;
    return STATUS_OK;
}

static bool dash_is_plain(const struct pattern *p)
{
    return pattern_next_is(p, "]") || pattern_next_is(p, "&&") || pattern_next_is(p, "[");
}

static enum status dash_take(struct pattern *p, struct class_state *c)
{
    if (c->range || c->before == BEFORE_NOTHING || c->before == BEFORE_RANGE)
        return value_take(p, c, '-');
    if (dash_is_plain(p))
        return value_take(p, c, '-');
    if (c->before == BEFORE_SET)
        return pattern_refuse(p, "a range in [...] begins with a set of characters");
    c->range = true;
    return STATUS_OK;
}

static enum status posix_take(struct pattern *p, struct class_state *c, bool *taken)
{
    struct text rest = text_span(p->in.at + p->at, p->in.bytes - p->at); // after the "["
    *taken = false;
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
    *taken = true;
    p->at += (size_t)(close + 2 - rest.at);
    return set_take(p, c);
}

static enum status open_take(struct pattern *p, struct class_state *c)
{
    bool taken;
    struct set *nested;
    enum status status = posix_take(p, c, &taken);
    if (status != STATUS_OK || taken)
        return status;
    status = pattern_class(p, &nested);
    if (status != STATUS_OK)
        return status;
    set_add(c->set, nested);
    return set_take(p, c);
}

static enum status escape_take(struct pattern *p, struct class_state *c)
{
    struct escape e;
    enum status status = pattern_escape(p, true, &e);
    if (status != STATUS_OK)
        return status;
    if (!e.set)
        return value_take(p, c, e.code);
    set_add(c->set, e.set);
    return set_take(p, c);
}

static enum status member_take(struct pattern *p, struct class_state *c)
{
    char first = p->in.at[p->at];
    size_t bytes;
    if (first == '\\')
        return escape_take(p, c);
    uint32_t code = utf8_read(p->in.at + p->at, &bytes);
    p->at += bytes;
    if (first == '[')
        return open_take(p, c);
    return first == '-' ? dash_take(p, c) : value_take(p, c, code);
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
        status = value_take(p, &c, ']');
    }
    while (status == STATUS_OK && p->at < p->in.bytes && !pattern_next_is(p, "]") &&
           !pattern_next_is(p, "&&"))
        status = pattern_is_over(p) ? pattern_refuse_size(p) : member_take(p, &c);
    value_flush(&c);
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
