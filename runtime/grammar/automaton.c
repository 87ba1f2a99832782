// SPDX-License-Identifier: Apache-2.0
// Items, states and transitions. See automaton.h.
#include "runtime/grammar/automaton.h"

#include <stdlib.h>
#include <string.h>

enum { ITEM_WORDS = 4, SLOTS_FIRST = 1024, WORK_ITEM = 8, WORK_MEMBER = 16 };
#define TOO_DEEP ((uint32_t)ITEM_TOO_DEEP)
#define NO_ITEM (INTERN_NONE - 1) // the table of items is full; distinct from TOO_DEEP

static uint32_t slots_for(uint32_t count)
{
    uint32_t slots = 16;
    while (slots < count + (uint64_t)count / 2)
        slots *= 2;
    return slots;
}

// Adds ITEM_END and the dead state. The tables must be zero.
static void automaton_begin(struct automaton *a)
{
    uint32_t end[ITEM_WORDS] = {GRAMMAR_EMPTY, 0, 0, 0};
    intern_put(&a->items, end);
    a->state_count = STATE_FIRST;
    for (uint32_t c = 0; c < a->g->class_count; c++)
        a->next[STATE_DEAD * a->g->class_count + c] = STATE_DEAD;
}

void automaton_init(struct automaton *a, const struct grammar *g, size_t bytes)
{
    *a = (struct automaton){.g = g, .items = {.words = ITEM_WORDS}, .work_max = UINT64_MAX};
    size_t row = g->class_count * sizeof *a->next;
    uint32_t items = (uint32_t)(bytes / 5 / (sizeof(struct item) + sizeof *a->info + 16));
    a->state_capacity = (uint32_t)(bytes / 5 * 2 / (row + sizeof *a->states + 16));
    a->pair_capacity = (uint32_t)(bytes / 5 / sizeof *a->pairs);
    a->member_capacity = (uint32_t)(bytes / 10 / sizeof *a->members);
    a->items.capacity = items;
    a->items.slot_max = slots_for(items);
    a->items.slot_count = SLOTS_FIRST;
    a->slot_max = slots_for(a->state_capacity);
    a->slot_count = SLOTS_FIRST;
    pages_init(&a->pages, bytes);
    a->items.at = pages_alloc(&a->pages, items, sizeof(struct item));
    a->items.slots = pages_alloc(&a->pages, a->items.slot_max, sizeof *a->items.slots);
    a->info = pages_alloc(&a->pages, items, sizeof *a->info);
    a->list = pages_alloc(&a->pages, items, sizeof *a->list);
    a->pairs = pages_alloc(&a->pages, a->pair_capacity, sizeof *a->pairs);
    a->members = pages_alloc(&a->pages, a->member_capacity, sizeof *a->members);
    a->states = pages_alloc(&a->pages, a->state_capacity, sizeof *a->states);
    a->moved = pages_alloc(&a->pages, a->state_capacity, sizeof *a->moved);
    a->slots = pages_alloc(&a->pages, a->slot_max, sizeof *a->slots);
    a->next = pages_alloc(&a->pages, a->state_capacity, row);
    a->scratch = pages_alloc(&a->pages, STATE_MEMBERS_MAX, sizeof *a->scratch);
    a->tails = pages_alloc(&a->pages, STATE_MEMBERS_MAX, sizeof *a->tails);
    automaton_begin(a);
}

void automaton_deinit(struct automaton *a)
{
    pages_deinit(&a->pages);
}

size_t automaton_used(const struct automaton *a)
{
    return a->items.count * (sizeof(struct item) + sizeof *a->info + sizeof *a->list) +
           a->pair_count * sizeof *a->pairs + a->member_count * sizeof *a->members +
           a->state_count * (sizeof *a->states + a->g->class_count * sizeof *a->next) +
           (a->slot_count + a->items.slot_count) * sizeof *a->slots +
           a->state_count * sizeof *a->moved +
           (size_t)STATE_MEMBERS_MAX * (sizeof *a->scratch + sizeof *a->tails);
}

// Counts work. Returns false if the bound is exceeded.
static bool automaton_spend(struct automaton *a, uint64_t work)
{
    a->work += work;
    a->limit_hit = a->limit_hit || a->work > a->work_max;
    return !a->limit_hit;
}

// Returns true if an item with this `low` can match the empty string.
static bool is_skippable(const struct automaton *a, uint32_t expr, uint32_t low)
{
    const struct expr *x = &a->g->exprs[expr];
    return (x->kind == EXPR_REPEAT && low == 0) ||
           (x->kind == EXPR_ONCE && (x->c & ONCE_FILLED) == 0);
}

// Number of items by which the list must grow to read the expression to its end.
static uint32_t height_of(const struct automaton *a, uint32_t expr, uint32_t low)
{
    return is_skippable(a, expr, low) ? 1 : a->g->heights[expr];
}

// Number of nesting levels by which the list must grow.
static uint32_t levels_of(const struct automaton *a, uint32_t expr, uint32_t low)
{
    return is_skippable(a, expr, low) ? 0 : a->g->levels[expr];
}

// Creates an item, but only if it can be completed within AUTOMATON_DEPTH_MAX and
// GRAMMAR_LEVELS_MAX; so no list is a dead end. Returns TOO_DEEP or NO_ITEM on failure.
static uint32_t item_put(struct automaton *a, uint32_t expr, uint32_t low, uint32_t high,
                         uint32_t next)
{
    if (next == TOO_DEEP || next == NO_ITEM)
        return next;
    struct item_info info = {.depth = a->info[next].depth, .levels = a->info[next].levels};
    if (expr == ITEM_UNION) { // as deep as the deeper one; a union adds no depth
        const struct item_info *other = &a->info[low];
        info.depth = other->depth > info.depth ? other->depth : info.depth;
        info.levels = other->levels > info.levels ? other->levels : info.levels;
    } else if (info.depth + height_of(a, expr, low) > AUTOMATON_DEPTH_MAX ||
               info.levels + levels_of(a, expr, low) > GRAMMAR_LEVELS_MAX) {
        a->too_deep = true;
        return TOO_DEEP;
    } else {
        info.depth++;
        info.levels = (uint16_t)(info.levels + (a->g->exprs[expr].kind == EXPR_LEVEL));
    }
    uint32_t value[ITEM_WORDS] = {expr, low, high, next};
    uint32_t item = intern_put(&a->items, value);
    if (item == INTERN_NONE)
        return NO_ITEM;
    a->info[item].depth = info.depth;
    a->info[item].levels = info.levels;
    return item;
}

// The remaining repeat followed by next.
static uint32_t repeat_then(struct automaton *a, uint32_t expr, uint32_t low, uint32_t high,
                            uint32_t next)
{
    return high == 0 ? next : item_put(a, expr, low, high, next);
}

static uint32_t expr_then(struct automaton *a, uint32_t e, uint32_t next)
{
    const struct expr *x = &a->g->exprs[e];
    if (x->kind == EXPR_EMPTY)
        return next;
    if (x->kind == EXPR_REPEAT)
        return repeat_then(a, e, x->b, x->c, next);
    return item_put(a, e, 0, 0, next);
}

// Adds the item to the work list unless it was added before. Returns false if a table is full.
static bool work_add(struct automaton *a, uint32_t *count, uint32_t item)
{
    if (item == NO_ITEM)
        return false;
    if (item == TOO_DEEP || a->info[item].stamp == a->stamp)
        return true;
    a->info[item].stamp = a->stamp;
    a->list[(*count)++] = item;
    return true;
}

static bool work_either(struct automaton *a, uint32_t *count, uint32_t e, uint32_t next)
{
    const struct expr *exprs = a->g->exprs;
    while (exprs[e].kind == EXPR_EITHER) {
        bool left = exprs[exprs[e].a].kind == EXPR_EITHER;
        if (!work_add(a, count, expr_then(a, left ? exprs[e].b : exprs[e].a, next)))
            return false;
        e = left ? exprs[e].a : exprs[e].b;
    }
    return work_add(a, count, expr_then(a, e, next));
}

// Adds one of the members of `once` and then the rest of the members, without those in low and
// high.
static bool once_add(struct automaton *a, uint32_t *count, const struct item *once, uint32_t member,
                     uint32_t low, uint32_t high)
{
    bool first = once->low == 0 && once->high == 0;
    if (first && (a->g->exprs[once->expr].c & ONCE_SEPARATED) != 0)
        member = a->g->exprs[member].b;
    return work_add(a, count, expr_then(a, member, item_put(a, once->expr, low, high, once->next)));
}

// Adds the members that did not occur yet, another one if there may be more, and the end.
static bool work_once(struct automaton *a, uint32_t *count, const struct item *once)
{
    const struct expr *exprs = a->g->exprs, *x = &exprs[once->expr];
    uint32_t others = once->high >> ONCE_COUNT_SHIFT, most = x->c & ONCE_OTHERS, e = x->a, bit = 0;
    bool first = once->low == 0 && once->high == 0, last = e == GRAMMAR_NOTHING;
    if (!(first && (x->c & ONCE_FILLED) != 0) && !work_add(a, count, once->next))
        return false;
    for (; !last; bit++) {
        last = exprs[e].kind != EXPR_EITHER;
        bool left = !last && exprs[exprs[e].a].kind == EXPR_EITHER;
        uint32_t member = last ? e : left ? exprs[e].b : exprs[e].a;
        uint32_t low = bit < 32 ? once->low | 1u << bit : once->low;
        uint32_t high = bit < 32 ? once->high : once->high | 1u << (bit - 32);
        bool seen = low == once->low && high == once->high;
        if (!seen && !once_add(a, count, once, member, low, high))
            return false;
        e = last ? e : left ? exprs[e].a : exprs[e].b;
    }
    // without a limit only whether there was one counts
    uint32_t now = most == GRAMMAR_ONCE_UNLIMITED ? 1 : others + 1;
    uint32_t high = (once->high & ((1u << ONCE_COUNT_SHIFT) - 1)) | now << ONCE_COUNT_SHIFT;
    return automaton_spend(a, bit) && (x->b == GRAMMAR_NOTHING || now > most ||
                                       once_add(a, count, once, x->b, once->low, high));
}

// Processes one item: emits a pair, or adds the items it expands to. Returns false if a table
// is full.
static bool work_one(struct automaton *a, uint32_t *count, uint32_t item, bool *ends)
{
    struct item it = *item_of(a, item);
    if (it.expr == ITEM_UNION)
        return work_add(a, count, it.low) && work_add(a, count, it.next);
    const struct expr *x = &a->g->exprs[it.expr];
    uint32_t rest;
    switch (x->kind) {
    case EXPR_EMPTY: // only ITEM_END
        *ends = true;
        return true;
    case EXPR_SET:
        if (a->pair_count == a->pair_capacity)
            return false;
        a->pairs[a->pair_count++] = (struct pair){x->a, it.next};
        return true;
    case EXPR_JOIN:
        return work_add(a, count, expr_then(a, x->a, expr_then(a, x->b, it.next)));
    case EXPR_EITHER:
        return work_either(a, count, it.expr, it.next);
    case EXPR_REPEAT:
        rest = repeat_then(a, it.expr, it.low > 0 ? it.low - 1 : 0,
                           it.high == GRAMMAR_UNBOUNDED ? it.high : it.high - 1, it.next);
        if (!work_add(a, count, expr_then(a, x->a, rest)))
            return false;
        return it.low > 0 || work_add(a, count, it.next);
    case EXPR_RULE:
        return work_add(a, count, expr_then(a, a->g->bodies[x->a], it.next));
    case EXPR_LEVEL:
        return work_add(a, count, expr_then(a, x->a, it.next));
    case EXPR_ONCE:
        return work_once(a, count, &it);
    default:
        return true;
    }
}

// Computes the transitions of the item. Returns false if a table is full.
static bool item_expand(struct automaton *a, uint32_t item)
{
    struct item_info *info = &a->info[item];
    if (info->flags & ITEM_EXPANDED)
        return true;
    uint32_t first = a->pair_count, count = 0;
    bool ends = false;
    a->stamp++;
    work_add(a, &count, item);
    while (count > 0)
        if (!automaton_spend(a, WORK_ITEM) || !work_one(a, &count, a->list[--count], &ends)) {
            a->pair_count = first;
            return false;
        }
    info->pairs_at = first;
    info->pair_count = a->pair_count - first;
    info->flags |= ITEM_EXPANDED | (ends ? ITEM_ENDS : 0);
    return true;
}

static int compare_items(const void *x, const void *y, void *automaton)
{
    const struct automaton *a = automaton;
    const struct item *p = item_of(a, *(const uint32_t *)x), *q = item_of(a, *(const uint32_t *)y);
    if (p->expr != q->expr)
        return p->expr < q->expr ? -1 : 1;
    if (p->next != q->next)
        return p->next < q->next ? -1 : 1;
    if (p->low != q->low)
        return p->low < q->low ? -1 : 1;
    return (p->high > q->high) - (p->high < q->high);
}

// Merges repeats of one expression whose bounds overlap or touch, which limits the number of
// ambiguous counts. Returns the new number of members; UINT32_MAX: a table is full.
static uint32_t members_merge(struct automaton *a, uint32_t *items, uint32_t count)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct item *one = item_of(a, items[i]);
        const struct item *before = kept > 0 ? item_of(a, items[kept - 1]) : NULL;
        bool touch = before && one->expr != ITEM_UNION && one->high > 0 &&
                     a->g->exprs[one->expr].kind == EXPR_REPEAT && before->expr == one->expr &&
                     before->next == one->next &&
                     (before->high == GRAMMAR_UNBOUNDED || one->low <= before->high + 1);
        if (!touch) {
            items[kept++] = items[i];
            continue;
        }
        if (one->high <= before->high)
            continue;
        uint32_t merged = item_put(a, one->expr, before->low, one->high, one->next);
        if (merged == NO_ITEM)
            return UINT32_MAX;
        items[kept - 1] = merged;
    }
    return kept;
}

static int compare_heads(const void *x, const void *y, void *automaton)
{
    const struct automaton *a = automaton;
    const struct item *p = item_of(a, *(const uint32_t *)x), *q = item_of(a, *(const uint32_t *)y);
    if (p->expr != q->expr)
        return p->expr < q->expr ? -1 : 1;
    if (p->low != q->low)
        return p->low < q->low ? -1 : 1;
    if (p->high != q->high)
        return p->high < q->high ? -1 : 1;
    return (p->next > q->next) - (p->next < q->next);
}

static int compare_numbers(const void *x, const void *y)
{
    uint32_t p = *(const uint32_t *)x, q = *(const uint32_t *)y;
    return (p > q) - (p < q);
}

// Fails because a state has too many members.
static uint32_t members_too_many(struct automaton *a)
{
    a->limit_hit = true;
    return NO_ITEM;
}

// Returns one item for items with equal heads: the head followed by the union of their tails, in
// which nested unions are flattened.
static uint32_t heads_union(struct automaton *a, const uint32_t *items, uint32_t count)
{
    struct item head = *item_of(a, items[0]);
    uint32_t tails = 0, kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t next = item_of(a, items[i])->next;
        for (; next != ITEM_END && item_of(a, next)->expr == ITEM_UNION;
             next = item_of(a, next)->next) {
            if (tails == STATE_MEMBERS_MAX)
                return members_too_many(a);
            a->tails[tails++] = item_of(a, next)->low;
        }
        if (tails == STATE_MEMBERS_MAX)
            return members_too_many(a);
        a->tails[tails++] = next;
    }
    qsort(a->tails, tails, sizeof *a->tails, compare_numbers);
    for (uint32_t i = 0; i < tails; i++)
        if (i == 0 || a->tails[i] != a->tails[kept - 1])
            a->tails[kept++] = a->tails[i];
    uint32_t rest = a->tails[--kept];
    while (kept > 0)
        rest = item_put(a, ITEM_UNION, a->tails[--kept], 0, rest);
    return item_put(a, head.expr, head.low, head.high, rest);
}

// Unites members with equal heads. Otherwise the members of an ambiguous grammar double repeatedly.
// Returns the new number of members; UINT32_MAX: a table is full.
static uint32_t members_unite(struct automaton *a, uint32_t *items, uint32_t count)
{
    uint32_t kept = 0;
    qsort_r(items, count, sizeof *items, compare_heads, a);
    for (uint32_t i = 0, end; i < count; i = end) {
        const struct item *one = item_of(a, items[i]);
        for (end = i + 1; end < count; end++) {
            const struct item *other = item_of(a, items[end]);
            if (other->expr != one->expr || other->low != one->low || other->high != one->high ||
                one->expr == ITEM_UNION)
                break;
        }
        uint32_t united = end == i + 1 ? items[i] : heads_union(a, items + i, end - i);
        if (united == NO_ITEM)
            return UINT32_MAX;
        items[kept++] = united;
    }
    return kept;
}

static uint32_t *state_slot(struct automaton *a, const uint32_t *items, uint32_t count)
{
    uint32_t mask = a->slot_count - 1, i = (uint32_t)intern_hash(items, count) & mask;
    for (; a->slots[i] != 0; i = (i + 1) & mask) {
        const struct automaton_state *s = &a->states[a->slots[i]];
        if (s->count == count && memcmp(a->members + s->first, items, count * sizeof *items) == 0)
            break;
    }
    return &a->slots[i];
}

static void state_slots_double(struct automaton *a)
{
    a->slot_count *= 2;
    memset(a->slots, 0, a->slot_count * sizeof *a->slots);
    for (uint32_t s = STATE_FIRST; s < a->state_count; s++)
        *state_slot(a, a->members + a->states[s].first, a->states[s].count) = s;
}

// Returns the state with these members, which must be merged and sorted.
static uint32_t state_intern(struct automaton *a, const uint32_t *items, uint32_t count)
{
    uint32_t *slot = state_slot(a, items, count);
    if (*slot != 0)
        return *slot;
    if (a->state_count == a->state_capacity || a->member_capacity - a->member_count < count)
        return STATE_FAILED;
    uint32_t number = a->state_count++;
    a->states[number] = (struct automaton_state){.first = a->member_count, .count = count};
    memcpy(a->members + a->member_count, items, count * sizeof *items);
    a->member_count += count;
    *slot = number;
    if (a->slot_count < a->slot_max && 2 * a->state_count > a->slot_count)
        state_slots_double(a);
    return number;
}

// Sorts and merges the members and returns the state that has them.
static uint32_t state_put(struct automaton *a, uint32_t *items, uint32_t count)
{
    if (count == 0)
        return STATE_DEAD;
    if (!automaton_spend(a, WORK_MEMBER * (uint64_t)count))
        return STATE_FAILED;
    if (count > 1)
        qsort_r(items, count, sizeof *items, compare_items, a);
    count = count > 1 ? members_merge(a, items, count) : count;
    if (count != UINT32_MAX && count > STATE_MEMBERS_MANY)
        count = members_unite(a, items, count);
    return count == UINT32_MAX ? STATE_FAILED : state_intern(a, items, count);
}

uint32_t automaton_start(struct automaton *a)
{
    uint32_t item = expr_then(a, a->g->root, ITEM_END);
    return item == NO_ITEM ? STATE_FAILED : state_put(a, &item, 1);
}

// Collects the items that a byte of the class leads to in a->scratch and returns their number;
// UINT32_MAX: a table is full. alike: set to the bytes that lead to the same items.
static uint32_t members_after(struct automaton *a, uint32_t state, uint32_t class,
                              uint32_t alike[SET_WORDS])
{
    const struct automaton_state *s = &a->states[state];
    uint32_t byte = a->g->class_first[class], count = 0;
    for (uint32_t i = 0; i < s->count; i++)
        if (!item_expand(a, a->members[s->first + i]))
            return UINT32_MAX;
    a->stamp++;
    memset(alike, 0xFF, SET_WORDS * sizeof *alike);
    for (uint32_t i = 0; i < s->count; i++) {
        const struct item_info *info = &a->info[a->members[s->first + i]];
        if (!automaton_spend(a, 1 + info->pair_count))
            return UINT32_MAX;
        for (uint32_t p = info->pairs_at; p < info->pairs_at + info->pair_count; p++) {
            const uint32_t *set = a->g->sets + (size_t)a->pairs[p].set * SET_WORDS;
            uint32_t next = a->pairs[p].next, out = set_has(set, byte) ? 0 : UINT32_MAX;
            for (uint32_t w = 0; w < SET_WORDS; w++)
                alike[w] &= set[w] ^ out;
            if (out != 0 || a->info[next].stamp == a->stamp)
                continue;
            if (count == STATE_MEMBERS_MAX) {
                members_too_many(a);
                return UINT32_MAX;
            }
            a->info[next].stamp = a->stamp;
            a->scratch[count++] = next;
        }
    }
    return count;
}

uint32_t automaton_step_new(struct automaton *a, uint32_t state, uint32_t class)
{
    uint32_t alike[SET_WORDS], classes = a->g->class_count;
    uint32_t count = members_after(a, state, class, alike);
    uint32_t to = count == UINT32_MAX ? STATE_FAILED : state_put(a, a->scratch, count);
    for (uint32_t c = 0; c < classes && to != STATE_FAILED; c++)
        if (set_has(alike, a->g->class_first[c]))
            a->next[(size_t)state * classes + c] = to;
    return to;
}

bool automaton_cut(struct automaton *a, uint32_t state, uint64_t *cut)
{
    struct automaton_state *s = &a->states[state];
    uint64_t groups = s->cut | GROUPS_KNOWN;
    for (uint32_t i = 0; i < s->count && s->cut == 0; i++) {
        uint32_t item = a->members[s->first + i];
        if (!item_expand(a, item) || !automaton_spend(a, 1 + a->info[item].pair_count))
            return false;
        const struct pair *pairs = a->pairs + a->info[item].pairs_at;
        for (uint32_t p = 0; p < a->info[item].pair_count; p++)
            groups |= a->g->cuts[pairs[p].set];
    }
    *cut = s->cut = groups;
    return true;
}

int automaton_ends(struct automaton *a, uint32_t state)
{
    struct automaton_state *s = &a->states[state];
    if (s->flags & STATE_ENDS_KNOWN)
        return (s->flags & STATE_ENDS) != 0;
    bool ends = false;
    for (uint32_t i = 0; i < s->count && !ends; i++) {
        uint32_t item = a->members[s->first + i];
        if (!item_expand(a, item))
            return -1;
        ends = a->info[item].flags & ITEM_ENDS;
    }
    s->flags |= STATE_ENDS_KNOWN | (ends ? STATE_ENDS : 0);
    return ends;
}

// Returns how many repetitions of the repeat's body the bytes can reach. The body is not empty.
static uint32_t repeats_within(const struct automaton *a, uint32_t repeat, uint32_t bytes)
{
    uint32_t each = a->g->shortest[a->g->exprs[repeat].a];
    return each > 1 ? (bytes + each - 1) / each : bytes;
}

// The item without bounds out of reach; the items after it have their `coarse` already.
static uint32_t item_coarse(struct automaton *a, uint32_t item, int reach)
{
    struct item it = *item_of(a, item);
    if (item == ITEM_END || it.expr == ITEM_UNION)
        return item;
    bool repeats = a->g->exprs[it.expr].kind == EXPR_REPEAT;
    uint32_t most = repeats ? repeats_within(a, it.expr, a->reach[reach]) : 0;
    if (repeats && it.high > most) {
        it.low = it.low < most + 1 ? it.low : most + 1;
        it.high = GRAMMAR_UNBOUNDED;
    }
    return item_put(a, it.expr, it.low, it.high,
                    it.next == ITEM_END ? ITEM_END : a->info[it.next].coarse[reach]);
}

// Applies item_coarse to the list from its end on. Unions are not changed.
static uint32_t list_coarse(struct automaton *a, uint32_t item, int reach)
{
    uint32_t depth = 0;
    for (; item != ITEM_END && a->info[item].coarse[reach] == 0; item = item_of(a, item)->next) {
        a->list[depth++] = item;
        if (item_of(a, item)->expr == ITEM_UNION)
            break;
    }
    uint32_t coarse = item == ITEM_END ? ITEM_END : a->info[item].coarse[reach];
    while (depth > 0) {
        item = a->list[--depth];
        coarse = item_coarse(a, item, reach);
        if (coarse == NO_ITEM)
            return NO_ITEM;
        a->info[item].coarse[reach] = coarse;
    }
    return coarse;
}

uint32_t automaton_coarse(struct automaton *a, uint32_t state, int reach)
{
    struct automaton_state *s = &a->states[state];
    if (s->coarse[reach] != 0)
        return s->coarse[reach];
    bool same = true;
    for (uint32_t i = 0; i < s->count; i++) {
        a->scratch[i] = list_coarse(a, a->members[s->first + i], reach);
        if (a->scratch[i] == NO_ITEM)
            return STATE_FAILED;
        same = same && a->scratch[i] == a->members[s->first + i];
    }
    uint32_t coarse = same ? state : state_put(a, a->scratch, s->count);
    if (coarse == STATE_FAILED)
        return STATE_FAILED;
    a->states[state].coarse[reach] = coarse;
    a->states[coarse].coarse[reach] = coarse;
    return coarse;
}

bool automaton_has_far_bounds(const struct automaton *a)
{
    bool has = false;
    for (uint32_t e = 0; e < a->g->expr_count && !has; e++) {
        const struct expr *x = &a->g->exprs[e];
        uint32_t most = x->c == GRAMMAR_UNBOUNDED ? x->b : x->c;
        has = x->kind == EXPR_REPEAT && most > 1 && most > repeats_within(a, e, a->reach[0]);
    }
    return has;
}

void automaton_keep(struct automaton *a, uint32_t state)
{
    struct automaton_state *s = &a->states[state];
    uint32_t count = 0;
    if (state < STATE_FIRST || s->flags & STATE_KEPT)
        return;
    s->flags |= STATE_KEPT;
    a->kept_members += s->count;
    for (uint32_t i = 0; i < s->count; i++) {
        a->list[count++] = a->members[s->first + i];
        while (count > 0) {
            uint32_t item = a->list[--count];
            const struct item *it = item_of(a, item);
            if (a->info[item].flags & ITEM_KEPT)
                continue;
            a->info[item].flags |= ITEM_KEPT;
            a->kept_items++;
            if (item != ITEM_END)
                a->list[count++] = it->next;
            if (it->expr == ITEM_UNION)
                a->list[count++] = it->low;
        }
    }
}

uint64_t automaton_weight(const struct automaton *a, uint32_t state)
{
    const struct automaton_state *s = &a->states[state];
    uint64_t weight = s->count;
    for (uint32_t i = 0; i < s->count; i++)
        weight += a->info[a->members[s->first + i]].depth;
    return weight;
}

void automaton_unkeep(struct automaton *a)
{
    for (uint32_t i = 0; i < a->items.count; i++)
        a->info[i].flags &= ~(uint32_t)ITEM_KEPT;
    for (uint32_t s = STATE_FIRST; s < a->state_count; s++)
        a->states[s].flags &= ~(uint32_t)STATE_KEPT;
    a->kept_items = a->kept_members = 0;
}

bool automaton_half_full(const struct automaton *a)
{
    return a->kept_items > a->items.capacity / 2 || a->kept_members > a->member_capacity / 2;
}

// Moves the marked items down in their order, so that an item moves after its next one. Leaves the
// new number of each item in a->list.
static void items_compact(struct automaton *a)
{
    uint32_t count = a->items.count;
    memset(a->items.slots, 0, a->items.slot_count * sizeof *a->items.slots);
    uint32_t end[ITEM_WORDS] = {GRAMMAR_EMPTY, 0, 0, 0};
    a->items.count = 0;
    a->list[ITEM_END] = intern_put(&a->items, end);
    for (uint32_t i = 1; i < count; i++) {
        if (!(a->info[i].flags & ITEM_KEPT))
            continue;
        struct item it = *item_of(a, i);
        uint32_t value[ITEM_WORDS] = {it.expr, it.expr == ITEM_UNION ? a->list[it.low] : it.low,
                                      it.high, a->list[it.next]};
        struct item_info info = {.depth = a->info[i].depth, .levels = a->info[i].levels};
        a->list[i] = intern_put(&a->items, value);
        a->info[a->list[i]] = info;
    }
    a->info[ITEM_END] = (struct item_info){.depth = 0};
    memset(a->info + a->items.count, 0, (count - a->items.count) * sizeof *a->info);
}

// Returns the memory that is unused after a compaction to the system.
static void tables_drop(struct automaton *a, const struct automaton *before)
{
    uint32_t items = a->items.count, items_before = before->items.count;
    pages_drop(a->items.at, sizeof(struct item), items, items_before);
    pages_drop(a->info, sizeof *a->info, items, items_before);
    pages_drop(a->list, sizeof *a->list, items, items_before);
    pages_drop(a->pairs, sizeof *a->pairs, a->pair_count, before->pair_count);
    pages_drop(a->members, sizeof *a->members, a->member_count, before->member_count);
    pages_drop(a->states, sizeof *a->states, a->state_count, before->state_count);
    pages_drop(a->next, a->g->class_count * sizeof *a->next, a->state_count, before->state_count);
}

void automaton_compact(struct automaton *a)
{
    uint32_t count = a->state_count;
    struct automaton before = *a;
    items_compact(a);
    memset(a->next + STATE_FIRST * (size_t)a->g->class_count, 0,
           (size_t)(count - STATE_FIRST) * a->g->class_count * sizeof *a->next);
    memset(a->slots, 0, a->slot_count * sizeof *a->slots);
    a->pair_count = a->member_count = a->stamp = 0;
    a->kept_items = a->kept_members = 0;
    a->state_count = STATE_FIRST;
    for (uint32_t s = STATE_FIRST; s < count; s++) {
        struct automaton_state old = a->states[s];
        a->moved[s] = STATE_DEAD;
        if (!(old.flags & STATE_KEPT))
            continue;
        for (uint32_t i = 0; i < old.count; i++)
            a->scratch[i] = a->list[a->members[old.first + i]];
        // Still sorted, because items keep their order.
        a->moved[s] = state_intern(a, a->scratch, old.count);
    }
    tables_drop(a, &before);
}
