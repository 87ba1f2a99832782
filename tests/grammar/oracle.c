// SPDX-License-Identifier: Apache-2.0
// Matches trees by computing, for each node and start, the set of positions at which a match may
// end.
#include "tests/grammar/oracle.h"

#include "base/utf8.h"

#include <string.h>

uint32_t oracle_random(uint64_t *seed, uint32_t below)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((*seed >> 33) % below);
}

static struct oracle_node *node(struct oracle *o, enum oracle_kind kind)
{
    check(o->count < ORACLE_NODES, "%u nodes", o->count);
    struct oracle_node *n = &o->nodes[o->count++];
    *n = (struct oracle_node){.kind = kind};
    return n;
}

static const struct oracle_node *bytes_node(struct oracle *o)
{
    struct oracle_node *n = node(o, ORACLE_BYTES);
    uint32_t first = 'a' + oracle_random(&o->seed, 3);
    n->set[first / 32] |= 1u << (first % 32);
    if (oracle_random(&o->seed, 3) == 0)
        n->set['b' / 32] |= 1u << ('b' % 32);
    return n;
}

static const struct oracle_node *chars_node(struct oracle *o)
{
    static const struct grammar_range some[][2] = {
        {{'a', 'b'}, {0xE0, 0x7FF}},      {{0x7F, 0x80}, {0xD700, 0xE001}},
        {{0x20, 0x21}, {0x23, 0x10FFFF}}, {{0xFFFF, 0x10000}, {'c', 'c'}},
        {{0x1F600, 0x1F64F}, {'a', 'a'}}, {{0, 0x10FFFF}, {5, 6}},
    };
    struct oracle_node *n = node(o, ORACLE_CHARS);
    memcpy(n->ranges, some[oracle_random(&o->seed, 6)], sizeof n->ranges);
    return n;
}

static const struct oracle_node *grow(struct oracle *o, uint32_t depth, bool rules);

// Returns a random tree after the byte, so that it is not empty and differs from other such trees.
static const struct oracle_node *grow_after(struct oracle *o, char byte, uint32_t depth)
{
    struct oracle_node *first = node(o, ORACLE_BYTES), *both = node(o, ORACLE_JOIN);
    first->set[(uint8_t)byte / 32] |= 1u << ((uint8_t)byte % 32);
    both->a = first;
    both->b = grow(o, depth, false);
    return both;
}

static const struct oracle_node *once_node(struct oracle *o)
{
    struct oracle_node *n = node(o, ORACLE_ONCE);
    for (int i = 0; i < ORACLE_MEMBERS; i++)
        n->members[i] = grow_after(o, (char)('a' + i), 1);
    if (oracle_random(&o->seed, 2) == 0)
        n->a = grow_after(o, 'a', 0);
    n->b = grow_after(o, 'b', 0);
    n->max = oracle_random(&o->seed, 4);
    n->max = n->max == 3 ? GRAMMAR_ONCE_UNLIMITED : n->max;
    return n;
}

static const struct oracle_node *grow(struct oracle *o, uint32_t depth, bool rules)
{
    uint32_t pick = oracle_random(&o->seed, depth == 0 || o->count > 60 ? 3 : 10);
    struct oracle_node *n;
    if (pick == 0 && rules) {
        n = node(o, ORACLE_RULE);
        n->rule = oracle_random(&o->seed, ORACLE_RULES);
        return n;
    }
    if (pick == 1 && oracle_random(&o->seed, 3) == 0)
        return chars_node(o);
    if (pick < 3)
        return bytes_node(o);
    if (pick < 8) {
        n = node(o, pick < 6 ? ORACLE_JOIN : ORACLE_EITHER);
        n->a = grow(o, depth - 1, rules);
        n->b = grow(o, depth - 1, rules);
        return n;
    }
    if (pick == 9 && oracle_random(&o->seed, 3) == 0)
        return once_node(o);
    static const uint32_t bounds[][2] = {{0, 1}, {0, UINT32_MAX}, {1, UINT32_MAX}, {2, 3},
                                         {0, 4}, {3, 100},        {0, 1000},       {2, 2}};
    uint32_t which = oracle_random(&o->seed, 8);
    n = node(o, ORACLE_REPEAT);
    n->min = bounds[which][0];
    n->max = bounds[which][1];
    n->a = grow(o, depth - 1, rules);
    return n;
}

// Grows the tree `byte | byte tree byte`: a rule starts with a byte, so it has no left recursion,
// and it can end.
static const struct oracle_node *grow_rule(struct oracle *o)
{
    struct oracle_node *either = node(o, ORACLE_EITHER), *one = node(o, ORACLE_JOIN),
                       *rest = node(o, ORACLE_JOIN);
    either->a = bytes_node(o);
    either->b = one;
    one->a = bytes_node(o);
    one->b = rest;
    rest->a = grow(o, 2, true);
    rest->b = bytes_node(o);
    return either;
}

void oracle_grow(struct oracle *o, uint64_t seed, bool with_rules)
{
    *o = (struct oracle){.seed = seed * 2 + 1, .number = seed};
    for (int i = 0; i < 4; i++)
        oracle_random(&o->seed, 2);
    for (int r = 0; r < ORACLE_RULES && with_rules; r++)
        o->rules[r] = grow_rule(o);
    o->root = grow(o, 4, with_rules);
}

void oracle_grow_once(struct oracle *o, uint64_t seed)
{
    *o = (struct oracle){.seed = seed * 2 + 1, .number = seed};
    for (int i = 0; i < 4; i++)
        oracle_random(&o->seed, 2);
    o->root = once_node(o);
}

static uint32_t build(const struct oracle_node *n, struct grammar_builder *b,
                      const uint32_t *rules);

static uint32_t build_once(const struct oracle_node *n, struct grammar_builder *b,
                           const uint32_t *rules)
{
    uint32_t members[ORACLE_MEMBERS];
    for (int i = 0; i < ORACLE_MEMBERS; i++)
        members[i] = build(n->members[i], b, rules);
    struct grammar_once once = {.separator = n->a ? build(n->a, b, rules) : GRAMMAR_EMPTY,
                                .members = members,
                                .count = ORACLE_MEMBERS,
                                .other = build(n->b, b, rules),
                                .others_max = n->max};
    return grammar_once(b, &once);
}

static uint32_t build(const struct oracle_node *n, struct grammar_builder *b, const uint32_t *rules)
{
    switch (n->kind) {
    case ORACLE_BYTES:
        return grammar_byte_set(b, n->set);
    case ORACLE_CHARS:
        return grammar_chars(b, n->ranges, 2);
    case ORACLE_JOIN:
        return grammar_join(b, build(n->a, b, rules), build(n->b, b, rules));
    case ORACLE_EITHER:
        return grammar_either(b, build(n->a, b, rules), build(n->b, b, rules));
    case ORACLE_REPEAT:
        return grammar_repeat(b, build(n->a, b, rules), n->min, n->max);
    case ORACLE_ONCE:
        return build_once(n, b, rules);
    default:
        return rules[n->rule];
    }
}

uint32_t oracle_build(const struct oracle *o, struct grammar_builder *b)
{
    uint32_t rules[ORACLE_RULES], numbers[ORACLE_RULES];
    for (int r = 0; r < ORACLE_RULES && o->rules[0]; r++)
        rules[r] = grammar_rule(b, text_of("r"), &numbers[r]);
    for (int r = 0; r < ORACLE_RULES && o->rules[0]; r++)
        grammar_rule_set(b, numbers[r], build(o->rules[r], b, rules));
    return build(o->root, b, rules);
}

struct match {
    const struct oracle *o;
    struct text text;
    bool begins;
};

// Results for the current text, indexed by [node][start]; valid if `stamp` is the current one.
static struct {
    uint64_t ends;
    uint32_t stamp;
} found[ORACLE_NODES][ORACLE_TEXT_MAX + 1];
static uint32_t stamp;

static uint64_t ends_find(struct match *m, const struct oracle_node *n, uint32_t from);

static uint64_t ends_of(struct match *m, const struct oracle_node *n, uint32_t from)
{
    size_t node_index = (size_t)(n - m->o->nodes);
    if (found[node_index][from].stamp != stamp) {
        found[node_index][from].ends = ends_find(m, n, from);
        found[node_index][from].stamp = stamp;
    }
    return found[node_index][from].ends;
}

static uint64_t ends_after(struct match *m, const struct oracle_node *n, uint64_t starts)
{
    uint64_t ends = 0;
    for (uint32_t i = 0; i <= m->text.bytes; i++)
        if (starts >> i & 1)
            ends |= ends_of(m, n, i);
    return ends;
}

static bool in_ranges(const struct oracle_node *n, uint32_t c)
{
    return (c >= n->ranges[0].first && c <= n->ranges[0].last) ||
           (c >= n->ranges[1].first && c <= n->ranges[1].last);
}

// Returns true if these bytes are an incomplete prefix of some character of the ranges.
static bool char_begins(const struct oracle_node *n, const char *at, size_t bytes)
{
    char low[4], high[4];
    size_t whole = utf8_length(at), read;
    for (size_t i = 0; i < whole; i++) {
        unsigned char lead = (unsigned char)at[0];
        low[i] = i < bytes                ? at[i]
                 : i == 1 && lead == 0xE0 ? (char)0xA0
                 : i == 1 && lead == 0xF0 ? (char)0x90
                                          : (char)0x80;
        high[i] = i < bytes                ? at[i]
                  : i == 1 && lead == 0xED ? (char)0x9F
                  : i == 1 && lead == 0xF4 ? (char)0x8F
                                           : (char)0xBF;
    }
    for (int r = 0; r < 2; r++)
        if (n->ranges[r].first <= utf8_read(high, &read) &&
            n->ranges[r].last >= utf8_read(low, &read))
            return true;
    return false;
}

static uint64_t char_ends(struct match *m, const struct oracle_node *n, uint32_t from)
{
    const char *at = m->text.at + from;
    size_t left = m->text.bytes - from, bytes = utf8_valid(at, left);
    size_t read;
    if (bytes > 0)
        return in_ranges(n, utf8_read(at, &read)) ? 1ull << (from + bytes) : 0;
    if (left < 4 && utf8_is_beginning(at, left) && char_begins(n, at, left))
        m->begins = true;
    return 0;
}

// Returns the ends of the rest of a ONCE from any of the starts. used: members that occurred.
static uint64_t once_ends(struct match *m, const struct oracle_node *n, uint64_t starts,
                          uint32_t used, uint32_t others)
{
    uint64_t ends = starts, from = starts;
    if (starts == 0 || (used == (1u << ORACLE_MEMBERS) - 1 && others == n->max))
        return starts; // no member may follow, so no separator either
    if (n->a && used + others > 0)
        from = ends_after(m, n->a, starts);
    for (uint32_t i = 0; i < ORACLE_MEMBERS; i++)
        if (!(used >> i & 1))
            ends |= once_ends(m, n, ends_after(m, n->members[i], from), used | 1u << i, others);
    if (others < n->max)
        ends |= once_ends(m, n, ends_after(m, n->b, from), used, others + 1);
    return ends;
}

static uint64_t ends_find(struct match *m, const struct oracle_node *n, uint32_t from)
{
    uint64_t ends = 0, now = 1ull << from;
    if ((n->kind == ORACLE_BYTES || n->kind == ORACLE_CHARS) && from == m->text.bytes) {
        m->begins = true;
        return 0;
    }
    switch (n->kind) {
    case ORACLE_BYTES: {
        uint8_t byte = (uint8_t)m->text.at[from];
        return n->set[byte / 32] >> (byte % 32) & 1 ? now << 1 : 0;
    }
    case ORACLE_CHARS:
        return char_ends(m, n, from);
    case ORACLE_JOIN:
        return ends_after(m, n->b, ends_of(m, n->a, from));
    case ORACLE_EITHER:
        return ends_of(m, n->a, from) | ends_of(m, n->b, from);
    case ORACLE_REPEAT:
        for (uint32_t i = 0; now != 0; i++) {
            ends |= i >= n->min ? now : 0;
            uint64_t next = i < n->max ? ends_after(m, n->a, now) : 0;
            if (next == now && i >= n->min)
                break;
            now = next;
        }
        return ends;
    case ORACLE_ONCE:
        return once_ends(m, n, now, 0, 0);
    default:
        return ends_of(m, m->o->rules[n->rule], from);
    }
}

struct oracle_result oracle_match(const struct oracle *o, struct text text)
{
    struct match m = {.o = o, .text = text};
    check(text.bytes <= ORACLE_TEXT_MAX, "%zu bytes", text.bytes);
    stamp++;
    bool matches = ends_of(&m, o->root, 0) >> text.bytes & 1;
    return (struct oracle_result){matches, m.begins || matches};
}
