// SPDX-License-Identifier: Apache-2.0
// Digit automata: whole numbers are compared by length, then digit by digit; fractions digit by
// digit; multiples track the remainder of the digits read. See schema_digits.h.
#include "runtime/text/grammar/schema_digits.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum {
    EXPONENT_MAX = 400,
    NUMBER_BYTES_MAX = 400, // more digits than anyone needs, few enough for an automaton
    MULTIPLE_STATES_MAX = 4000,
    STEP_MAX = 1000 * 1000 * 1000,
};

struct digits {
    struct grammar_builder *b;
    struct arena *arena;
    uint32_t fraction_max; // maximum number of digits after the point
};

static struct text copy_of(struct arena *arena, const char *at, size_t bytes)
{
    return arena_copy(arena, text_span(at, bytes));
}

bool bound_read(struct arena *arena, struct text number, struct bound *out)
{
    char digits[NUMBER_BYTES_MAX + 2 * EXPONENT_MAX + 2];
    size_t count = EXPONENT_MAX, at = 0, whole;
    int64_t exponent = 0, point = -1;
    bool minus = number.bytes > 0 && number.at[0] == '-', down;
    if (number.bytes > NUMBER_BYTES_MAX)
        return false;
    memset(digits, '0', sizeof digits);
    for (at = minus; at < number.bytes && (number.at[at] | 0x20) != 'e'; at++)
        if (number.at[at] == '.')
            point = (int64_t)count;
        else
            digits[count++] = number.at[at];
    whole = point >= 0 ? (size_t)point : count;
    if (at < number.bytes) {
        at++;
        down = number.at[at] == '-';
        at += number.at[at] == '-' || number.at[at] == '+';
        for (; at < number.bytes && exponent < 10 * EXPONENT_MAX; at++)
            exponent = exponent * 10 + (number.at[at] - '0');
        if (exponent > EXPONENT_MAX - 1)
            return false;
        whole = down ? whole - (size_t)exponent : whole + (size_t)exponent;
    }
    size_t first = 0, end = count > whole ? count : whole;
    while (first + 1 < whole && digits[first] == '0')
        first++;
    while (end > whole && digits[end - 1] == '0')
        end--;
    *out = (struct bound){.set = true};
    out->size.whole = copy_of(arena, digits + first, whole - first);
    out->size.fraction = copy_of(arena, digits + whole, end - whole);
    out->negative = minus && (out->size.fraction.bytes > 0 || !text_is(out->size.whole, "0"));
    return true;
}

static int digits_compare(struct text one, struct text other, bool whole)
{
    if (whole && one.bytes != other.bytes)
        return one.bytes < other.bytes ? -1 : 1;
    size_t both = one.bytes < other.bytes ? one.bytes : other.bytes;
    int order = both > 0 ? memcmp(one.at, other.at, both) : 0;
    return order != 0 ? order : (one.bytes > other.bytes) - (one.bytes < other.bytes);
}

int bound_compare(const struct bound *one, const struct bound *other)
{
    if (one->negative != other->negative)
        return one->negative ? -1 : 1;
    int order = digits_compare(one->size.whole, other->size.whole, true);
    if (order == 0)
        order = digits_compare(one->size.fraction, other->size.fraction, false);
    return one->negative ? -order : order;
}

struct text digits_add_one(struct arena *arena, struct text digits)
{
    char *at = arena_alloc(arena, digits.bytes + 2);
    size_t i = digits.bytes;
    at[0] = '0';
    memcpy(at + 1, digits.at, digits.bytes);
    while (at[i] == '9')
        at[i--] = '0';
    at[i]++;
    return at[0] == '0' ? text_span(at + 1, digits.bytes) : text_span(at, digits.bytes + 1);
}

// Returns a number above 0, minus one.
static struct text minus_one(struct arena *arena, struct text digits)
{
    char *at = arena_alloc(arena, digits.bytes + 1);
    size_t i = digits.bytes - 1;
    memcpy(at, digits.at, digits.bytes);
    while (at[i] == '0')
        at[i--] = '9';
    at[i]--;
    return at[0] == '0' && digits.bytes > 1 ? text_span(at + 1, digits.bytes - 1)
                                            : text_span(at, digits.bytes);
}

static uint32_t digit_range(struct digits *d, int first, int last)
{
    if (first > last)
        return GRAMMAR_NOTHING;
    return grammar_byte(d->b, (uint8_t)('0' + first), (uint8_t)('0' + last));
}

static uint32_t any_digits(struct digits *d, uint32_t min, uint32_t max)
{
    return grammar_repeat(d->b, digit_range(d, 0, 9), min, max);
}

// The rest of numbers with as many digits as low and high, from the digit at low and high on; NULL:
// not bounded on that side. left: remaining digits.
static uint32_t same_length(struct digits *d, const char *low, const char *high, uint32_t left)
{
    if (left == 0)
        return GRAMMAR_EMPTY;
    if (!low && !high)
        return any_digits(d, left, left);
    int from = low ? *low - '0' : 0, to = high ? *high - '0' : 9;
    const char *low_rest = low ? low + 1 : NULL, *high_rest = high ? high + 1 : NULL;
    if (low && high && from == to)
        return grammar_join(d->b, digit_range(d, from, from),
                            same_length(d, low_rest, high_rest, left - 1));
    uint32_t parts[3] = {GRAMMAR_NOTHING, GRAMMAR_NOTHING, GRAMMAR_NOTHING};
    if (low)
        parts[0] = grammar_join(d->b, digit_range(d, from, from),
                                same_length(d, low_rest, NULL, left - 1));
    if (high)
        parts[1] =
            grammar_join(d->b, digit_range(d, to, to), same_length(d, NULL, high_rest, left - 1));
    parts[2] = grammar_join(d->b, digit_range(d, from + (low ? 1 : 0), to - (high ? 1 : 0)),
                            any_digits(d, left - 1, left - 1));
    return grammar_either_of(d->b, parts, 3);
}

// Whole numbers from low to high; high.at NULL: no upper bound.
static uint32_t whole_between(struct digits *d, struct text low, struct text high)
{
    uint32_t low_bytes = (uint32_t)low.bytes, high_bytes = (uint32_t)high.bytes;
    if (high.at && digits_compare(low, high, true) > 0)
        return GRAMMAR_NOTHING;
    if (high.at && low_bytes == high_bytes)
        return same_length(d, low.at, high.at, low_bytes);
    uint32_t parts[3] = {same_length(d, low.at, NULL, low_bytes), GRAMMAR_NOTHING, GRAMMAR_NOTHING};
    uint32_t most = high.at ? high_bytes - 2 : GRAMMAR_UNBOUNDED;
    parts[1] = grammar_join(d->b, digit_range(d, 1, 9), any_digits(d, low_bytes, most));
    if (high.at) {
        char *least = arena_alloc(d->arena, high_bytes);
        memset(least, '0', high_bytes);
        least[0] = '1';
        parts[2] = same_length(d, least, high.at, high_bytes);
    }
    return grammar_either_of(d->b, parts, 3);
}

// Digits of a fraction from position i on, the last one not 0.
static uint32_t fraction_tail(struct digits *d, uint32_t i)
{
    if (i >= d->fraction_max)
        return GRAMMAR_NOTHING;
    uint32_t more =
        d->fraction_max == GRAMMAR_UNBOUNDED ? GRAMMAR_UNBOUNDED : d->fraction_max - i - 1;
    return grammar_join(d->b, any_digits(d, 0, more), digit_range(d, 1, 9));
}

// Fractions above the limit, or equal to it unless exclusive.
static uint32_t fraction_from(struct digits *d, struct text limit, bool exclusive)
{
    uint32_t n = (uint32_t)limit.bytes;
    uint32_t rest = fraction_tail(d, n);
    if (n > 0 && !exclusive)
        rest = grammar_optional(d->b, rest);
    for (uint32_t i = n; i > 0; i--) {
        int at = limit.at[i - 1] - '0';
        uint32_t more = grammar_optional(d->b, fraction_tail(d, i));
        rest = grammar_either(d->b, grammar_join(d->b, digit_range(d, at, at), rest),
                              grammar_join(d->b, digit_range(d, at + 1, 9), more));
    }
    return rest;
}

// Fractions below the limit, or equal to it unless exclusive.
static uint32_t fraction_to(struct digits *d, struct text limit, bool exclusive)
{
    uint32_t n = (uint32_t)limit.bytes;
    uint32_t rest = n > 0 && !exclusive ? GRAMMAR_EMPTY : GRAMMAR_NOTHING;
    for (uint32_t i = n; i > 0; i--) {
        int at = limit.at[i - 1] - '0';
        uint32_t tail = fraction_tail(d, i);
        if (at > 0 && i < n)
            rest = grammar_optional(d->b, rest);
        uint32_t parts[3] = {
            grammar_join(d->b, digit_range(d, at, at), rest),
            grammar_join(d->b, digit_range(d, 1, at - 1), grammar_optional(d->b, tail)),
            at > 0 ? grammar_join(d->b, digit_range(d, 0, 0), tail) : GRAMMAR_NOTHING,
        };
        rest = grammar_either_of(d->b, parts, 3);
    }
    return rest;
}

static uint32_t with_point(struct digits *d, uint32_t whole, uint32_t fraction)
{
    return grammar_join(d->b, whole,
                        grammar_join(d->b, grammar_literal(d->b, text_of(".")), fraction));
}

static enum status fractions_between(struct digits *d, const struct bound *low,
                                     const struct bound *high, uint32_t *out, struct error *err)
{
    uint32_t over = fraction_from(d, low->size.fraction, low->exclusive);
    uint32_t first = grammar_literal(d->b, low->size.whole);
    struct text next = digits_add_one(d->arena, low->size.whole), none = {NULL, 0};
    int order = high->set ? digits_compare(low->size.whole, high->size.whole, true) : -1;
    *out = GRAMMAR_NOTHING;
    if (order > 0)
        return STATUS_OK;
    if (!high->set) {
        *out = grammar_either(d->b, with_point(d, first, over),
                              with_point(d, whole_between(d, next, none), fraction_tail(d, 0)));
        return STATUS_OK;
    }
    uint32_t under = fraction_to(d, high->size.fraction, high->exclusive);
    if (order == 0) {
        enum status status = grammar_both(d->b, over, under, &under, err);
        *out = with_point(d, first, under);
        return status;
    }
    uint32_t between = whole_between(d, next, minus_one(d->arena, high->size.whole));
    uint32_t parts[3] = {with_point(d, first, over), with_point(d, between, fraction_tail(d, 0)),
                         with_point(d, grammar_literal(d->b, high->size.whole), under)};
    *out = grammar_either_of(d->b, parts, 3);
    return STATUS_OK;
}

// Magnitudes between low, which is set, and high. from_one: not 0.
static enum status magnitudes_between(struct digits *d, const struct bound *low,
                                      const struct bound *high, bool from_one,
                                      struct number_parts *out, struct error *err)
{
    struct text first = low->size.whole, last = {NULL, 0};
    out->integers = GRAMMAR_NOTHING;
    if (low->size.fraction.bytes > 0 || low->exclusive || (from_one && text_is(first, "0")))
        first = digits_add_one(d->arena, first);
    bool below = high->set && high->exclusive && high->size.fraction.bytes == 0;
    if (high->set)
        last = below && !text_is(high->size.whole, "0") ? minus_one(d->arena, high->size.whole)
                                                        : high->size.whole;
    if (!below || !text_is(high->size.whole, "0"))
        out->integers = whole_between(d, first, last);
    return fractions_between(d, low, high, &out->fractions, err);
}

// Returns the number of digits after the point up to which doubles distinguish a number from an
// exclusive bound: the last digit's unit is not smaller than the distance between doubles at the
// bound.
static uint32_t fraction_limit(const struct bound *bound)
{
    int exponent;
    uint32_t own = (uint32_t)bound->size.fraction.bytes + 1;
    bool zero = text_is(bound->size.whole, "0") && own == 1;
    if (!bound->set || !bound->exclusive || zero)
        return GRAMMAR_UNBOUNDED;
    (void)frexp(bound->value, &exponent);
    int most = (int)((DBL_MANT_DIG - exponent) * log10(2));
    return most > (int)own ? (uint32_t)most : own;
}

enum status digits_between(struct grammar_builder *b, struct arena *arena, const struct bound *low,
                           const struct bound *high, struct number_parts *out, struct error *err)
{
    static const struct bound zero = {.size = {{"0", 1}, {"", 0}}, .set = true};
    struct digits d = {b, arena, fraction_limit(low)};
    struct number_parts minus = {GRAMMAR_NOTHING, GRAMMAR_NOTHING}, plus = minus;
    enum status status = STATUS_OK;
    if (fraction_limit(high) < d.fraction_max)
        d.fraction_max = fraction_limit(high);
    if (!low->set || low->negative)
        status = magnitudes_between(&d, high->set && high->negative ? high : &zero, low, true,
                                    &minus, err);
    if (status == STATUS_OK && !(high->set && high->negative))
        status = magnitudes_between(&d, low->set && !low->negative ? low : &zero, high, false,
                                    &plus, err);
    uint32_t sign = grammar_literal(b, text_of("-"));
    out->integers = grammar_either(b, grammar_join(b, sign, minus.integers), plus.integers);
    out->fractions = grammar_either(b, grammar_join(b, sign, minus.fractions), plus.fractions);
    return status;
}

// --- multiples ---

struct multiples {
    struct grammar_builder *b;
    uint32_t step, places;         // the divisor is step / 10^places
    uint32_t *rules, *refs, *tail; // [step] each; tail: digits that may follow the point
};

static uint32_t power_of_ten(uint32_t exponent, uint32_t modulus)
{
    uint64_t power = 1 % modulus;
    for (uint32_t i = 0; i < exponent; i++)
        power = power * 10 % modulus;
    return (uint32_t)power;
}

// Fills tail[r] with the digits after the point if the digits before it are r modulo the step.
static void fill_tails(struct multiples *m, uint32_t *next)
{
    for (uint32_t r = 0; r < m->step; r++)
        m->tail[r] = GRAMMAR_NOTHING;
    for (uint32_t place = m->places; place > 0; place--) {
        uint32_t scale = power_of_ten(m->places - place, m->step);
        memcpy(next, m->tail, m->step * sizeof *next);
        for (uint32_t r = 0; r < m->step && !grammar_failed(m->b); r++) {
            m->tail[r] = GRAMMAR_NOTHING;
            for (uint32_t i = 0; i < 10; i++) {
                uint32_t now = (uint32_t)(((uint64_t)r * 10 + i) % m->step), rest = next[now];
                if (i > 0 && (uint64_t)now * scale % m->step == 0)
                    rest = grammar_optional(m->b, rest);
                uint32_t one = grammar_byte(m->b, (uint8_t)('0' + i), (uint8_t)('0' + i));
                m->tail[r] = grammar_either(m->b, grammar_join(m->b, one, rest), m->tail[r]);
            }
        }
    }
}

// Creates rules for the digits so far modulo the step; ends[r]: what may follow instead of a digit.
static uint32_t whole_rules(struct multiples *m, const uint32_t *ends)
{
    uint32_t start = GRAMMAR_NOTHING;
    for (uint32_t r = 0; r < m->step; r++)
        m->refs[r] = grammar_rule(m->b, (struct text){NULL, 0}, &m->rules[r]);
    for (uint32_t r = 0; r < m->step && !grammar_failed(m->b); r++) {
        uint32_t body = ends[r];
        for (uint32_t i = 0; i < 10; i++) {
            uint32_t one = grammar_byte(m->b, (uint8_t)('0' + i), (uint8_t)('0' + i));
            uint32_t to = m->refs[((uint64_t)r * 10 + i) % m->step];
            body = grammar_either(m->b, grammar_join(m->b, one, to), body);
            if (r == 0 && i > 0)
                start = grammar_either(m->b, grammar_join(m->b, one, to), start);
        }
        grammar_rule_set(m->b, m->rules[r], body);
    }
    return start;
}

static uint32_t greatest_common(uint32_t a, uint32_t b)
{
    while (b != 0) {
        uint32_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

enum status digits_multiples(struct grammar_builder *b, struct arena *arena,
                             const struct magnitude *step, struct number_parts *out,
                             struct error *err)
{
    uint64_t value = 0;
    for (size_t i = 0; i < step->whole.bytes + step->fraction.bytes && value < STEP_MAX; i++)
        value = value * 10 +
                (uint64_t)((i < step->whole.bytes ? step->whole.at[i]
                                                  : step->fraction.at[i - step->whole.bytes]) -
                           '0');
    struct multiples m = {
        .b = b, .step = (uint32_t)value, .places = (uint32_t)step->fraction.bytes};
    if (value >= STEP_MAX || value * (m.places + 1) > MULTIPLE_STATES_MAX)
        return error_set(err, STATUS_UNSUPPORTED, "its multiples need more than %d states",
                         MULTIPLE_STATES_MAX);
    uint32_t whole = m.step; // for integers: the step without its common factors with 10^places
    for (uint32_t i = 0; i < m.places; i++)
        whole /= greatest_common(whole, 10);
    uint32_t *memory = arena_alloc(arena, 5 * (size_t)m.step * sizeof *memory);
    uint32_t *ends = memory + 4 * (size_t)m.step, *next = memory + 3 * (size_t)m.step;
    m.rules = memory;
    m.refs = memory + m.step;
    m.tail = memory + 2 * (size_t)m.step;
    uint32_t minus = grammar_optional(b, grammar_literal(b, text_of("-")));
    uint32_t zero = grammar_literal(b, text_of("0")), point = grammar_literal(b, text_of("."));
    fill_tails(&m, next);
    for (uint32_t r = 0; r < m.step; r++)
        ends[r] = grammar_join(b, point, m.tail[r]);
    out->fractions = grammar_either(b, grammar_join(b, zero, ends[0]), whole_rules(&m, ends));
    out->fractions = m.places == 0 ? GRAMMAR_NOTHING : grammar_join(b, minus, out->fractions);
    m.step = whole;
    for (uint32_t r = 0; r < m.step; r++)
        ends[r] = r == 0 ? GRAMMAR_EMPTY : GRAMMAR_NOTHING;
    out->integers = grammar_either(b, zero, grammar_join(b, minus, whole_rules(&m, ends)));
    return STATUS_OK;
}
