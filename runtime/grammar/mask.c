// SPDX-License-Identifier: Apache-2.0
// Computes one mask: allows entire kinds of tokens if plain characters stay inside the grammar, and
// walks the tries for the others. The cache stores a mask as the kinds and a list of the other ids,
// or as words.
#include "runtime/grammar/mask.h"

#include <string.h>

enum { WALK_NODES = 2, FORGET_BYTES = 256 }; // nodes walked, bytes cleared per step of work
// walks over tails for one mask; after that tokens are walked from their first byte
enum { TAILS_WALKS_MAX = 4 };
// maximum tokens below a node of shapes that are walked one by one
enum { TOKENS_APART_MAX = 256 };

// Positions within a UTF-8 character: 0 between characters, 1..3 number of continuation bytes to
// come, 4..7 after E0, ED, F0, F4, whose next byte has narrower bounds.
static const struct utf8_edge {
    uint8_t from, first, last, to;
} UTF8_EDGES[] = {
    {0, 0x20, 0x21, 0}, {0, 0x23, 0x5B, 0}, {0, 0x5D, 0x7F, 0}, {0, 0xC2, 0xDF, 1},
    {0, 0xE0, 0xE0, 4}, {0, 0xE1, 0xEC, 2}, {0, 0xED, 0xED, 5}, {0, 0xEE, 0xEF, 2},
    {0, 0xF0, 0xF0, 6}, {0, 0xF1, 0xF3, 3}, {0, 0xF4, 0xF4, 7}, {1, 0x80, 0xBF, 0},
    {2, 0x80, 0xBF, 1}, {3, 0x80, 0xBF, 2}, {4, 0xA0, 0xBF, 1}, {5, 0x80, 0x9F, 1},
    {6, 0x90, 0xBF, 2}, {7, 0x80, 0x8F, 2},
};

void mask_classes_find(struct mask_cache *c)
{
    uint32_t count = 0;
    for (uint32_t place = 0; place < UTF8_PLACES; place++) {
        c->edge_first[place] = count;
        for (size_t e = 0; e < sizeof UTF8_EDGES / sizeof *UTF8_EDGES; e++) {
            bool seen[256] = {false};
            for (uint32_t byte = UTF8_EDGES[e].first;
                 UTF8_EDGES[e].from == place && byte <= UTF8_EDGES[e].last; byte++) {
                uint8_t class = c->g->class_of[byte];
                if (!seen[class])
                    c->edges[count++] = (struct plain_edge){class, UTF8_EDGES[e].to};
                seen[class] = true;
            }
        }
    }
    c->edge_first[UTF8_PLACES] = count;
    for (uint32_t group = 0; group < BYTE_GROUPS; group++)
        c->group_class[group] = c->g->class_of[BYTE_GROUP_FIRST[group]];
}

// Returns the state after one more byte of a token. If the grammar has repeat bounds that the rest
// of a token cannot reach, returns the state without them (automaton_coarse): inside of a string
// with a maximum length, each character then leads back to the same state, as in an unbounded
// string.
static uint32_t mask_step(struct mask_cache *c, uint32_t state, uint32_t class)
{
    uint32_t to = automaton_step(&c->a, state, class);
    return to < STATE_FIRST || !c->has_far_bounds ? to : automaton_coarse(&c->a, to, c->reach);
}

// A state and the position within a character, for the search below.
struct spot {
    uint32_t state;
    uint8_t place;
};
enum { SPOTS_MAX = 256 };

struct spots {
    struct spot at[SPOTS_MAX];
    uint32_t count;
    bool full;
};

static void spot_add(struct spots *s, uint32_t state, uint8_t place)
{
    for (uint32_t i = 0; i < s->count; i++)
        if (s->at[i].state == state && s->at[i].place == place)
            return;
    if (s->count == SPOTS_MAX)
        s->full = true;
    else
        s->at[s->count++] = (struct spot){state, place};
}

// Computes the states after one more character from each state of `level`. Returns false if some
// character leaves the grammar. Sets *ok to false if a table is full.
static bool level_next(struct mask_cache *c, struct spots *level, struct spots *next, bool *ok)
{
    for (uint32_t i = 0; i < level->count; i++) {
        struct spot spot = level->at[i];
        for (uint32_t e = c->edge_first[spot.place]; e < c->edge_first[spot.place + 1]; e++) {
            uint32_t to = mask_step(c, spot.state, c->edges[e].class);
            *ok = *ok && to != STATE_FAILED;
            if (to < STATE_FIRST)
                return false;
            spot_add(c->edges[e].to == 0 ? next : level, to, c->edges[e].to);
        }
    }
    return !level->full && !next->full;
}

// Returns true if no plain character can follow the first `count` spots of level. Sets *ok to
// false if a table is full.
static bool level_is_last(struct mask_cache *c, const struct spots *level, uint32_t count, bool *ok)
{
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t e = c->edge_first[0]; e < c->edge_first[1]; e++) {
            uint32_t to = mask_step(c, level->at[i].state, c->edges[e].class);
            *ok = *ok && to != STATE_FAILED;
            if (to != STATE_DEAD)
                return false;
        }
    return true;
}

// Sets *chars to the number of plain characters that can follow whichever they are: PLAIN_WHOLE for
// any number, else at most the bound of the last kind but one. *most: the largest number of plain
// characters that can follow at all, or PLAIN_WHOLE. Returns false if a table is full.
static bool measure_plain(struct mask_cache *c, uint32_t state, uint32_t *chars, uint32_t *most)
{
    struct spots seen = {.count = 0}, level, next = {.count = 0};
    bool ok = true;
    *most = PLAIN_WHOLE;
    spot_add(&next, state, 0);
    spot_add(&seen, state, 0);
    for (*chars = 0; *chars < PLAIN_CHARS[PLAIN_KINDS - 2]; ++*chars) {
        level = next;
        next.count = 0;
        uint32_t count = level.count;
        if (!level_next(c, &level, &next, &ok)) {
            if (ok && level_is_last(c, &level, count, &ok))
                *most = *chars;
            return ok;
        }
        uint32_t before = seen.count;
        for (uint32_t i = 0; i < next.count; i++)
            spot_add(&seen, next.at[i].state, 0);
        if (seen.count == before && !seen.full) {
            *chars = PLAIN_WHOLE;
            return true;
        }
    }
    return true;
}

// Finds out if each plain character leads back to the state. Returns false if a table is full.
static bool plain_find(struct mask_cache *c, uint32_t state)
{
    struct spots level = {.count = 0}, next = {.count = 0};
    bool ok = true;
    spot_add(&level, state, 0);
    bool all = level_next(c, &level, &next, &ok);
    if (!ok)
        return false;
    all = all && next.count == 1 && next.at[0].state == state;
    c->a.states[state].flags |= STATE_PLAIN_KNOWN | (all ? STATE_PLAIN : 0);
    return true;
}

static bool plain_stays(struct mask_cache *c, uint32_t state, bool *stays)
{
    bool known = (c->a.states[state].flags & STATE_PLAIN_KNOWN) || plain_find(c, state);
    *stays = c->a.states[state].flags & STATE_PLAIN;
    return known;
}

// Finds the groups of which each byte leads back to the state. Returns false if a table is full.
static bool loops_find(struct mask_cache *c, uint32_t state)
{
    uint64_t loops = GROUPS_KNOWN, cut;
    if (c->a.states[state].loops != 0)
        return true;
    if (!automaton_cut(&c->a, state, &cut))
        return false;
    for (uint32_t group = 0; group < BYTE_GROUPS; group++) {
        uint32_t to = cut >> group & 1 ? STATE_DEAD : mask_step(c, state, c->group_class[group]);
        if (to == STATE_FAILED)
            return false;
        loops |= (uint64_t)(to == state) << group;
    }
    c->a.states[state].loops = loops;
    return true;
}

struct trie_walk {
    struct mask_cache *c;
    const struct token_trie *trie;
    bool shapes; // true if the trie's bytes are groups
    bool tails;  // true if the tokens are those of vocabulary.tails
    struct walk_place *stack;
    uint32_t *words, *walked;
    struct found_ids *found; // list to append the ids to, or NULL
};
enum walk_result { WALK_ON, WALK_ALL, WALK_TAILS, WALK_CUT, WALK_FAILED };

static void ids_allow(const struct trie_walk *w, const int32_t *ids, uint32_t count)
{
    struct found_ids *found = w->found;
    for (uint32_t i = 0; i < count; i++)
        w->words[ids[i] / 32] |= 1u << (ids[i] % 32);
    if (!found)
        return;
    if (count <= found->max && found->count <= found->max - count)
        memcpy(found->at + found->count, ids, count * sizeof *ids);
    found->count += count;
}

// Decides about all tokens of a node whose first byte leads back to the state: WALK_ALL: all are
// allowed, WALK_TAILS: those in mask_cache.tails, WALK_ON: unknown, walk on.
static enum walk_result node_judge(const struct trie_walk *w, const struct trie_node *node,
                                   uint32_t state)
{
    struct mask_cache *c = w->c;
    bool stays;
    if (!loops_find(c, state))
        return WALK_FAILED;
    if ((node->groups & ~c->a.states[state].loops) == 0)
        return WALK_ALL;
    if (!node->plain || (!node->whole && !w->tails))
        return WALK_ON;
    if (!plain_stays(c, state, &stays))
        return WALK_FAILED;
    if (!stays)
        return WALK_ON;
    if (node->whole)
        return WALK_ALL;
    return c->tails_of == state || c->tails_walks < TAILS_WALKS_MAX ? WALK_TAILS : WALK_ON;
}

static bool tails_find(struct mask_cache *c, uint32_t state, uint32_t *walked);

static void tails_allow(const struct trie_walk *w, const int32_t *ids, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (w->c->tails[ids[i] / 32] & (1u << (ids[i] % 32)))
            ids_allow(w, ids + i, 1);
}

// Sets the bits of the tokens of a node and its subtree according to node_judge. Returns false if a
// table is full.
static bool node_allow(const struct trie_walk *w, const struct trie_node *node,
                       enum walk_result judged, uint32_t state)
{
    const struct token_trie *trie = w->trie;
    const int32_t *ids = trie->ids + node->first;
    uint32_t count = trie->nodes[node->end].first - node->first;
    if (judged == WALK_FAILED || (judged == WALK_TAILS && !tails_find(w->c, state, w->walked)))
        return false;
    if (judged == WALK_TAILS)
        tails_allow(w, ids, count);
    else
        ids_allow(w, ids, count);
    return true;
}

// Returns the state after a byte of the trie; STATE_CUT: a group whose bytes may lead to different
// states.
#define STATE_CUT UINT32_MAX
static uint32_t walk_step(const struct trie_walk *w, uint32_t state, uint8_t byte)
{
    struct mask_cache *c = w->c;
    uint64_t cut;
    if (!w->shapes)
        return mask_step(c, state, c->g->class_of[byte]);
    if (c->g->cut >> byte & 1) {
        if (!automaton_cut(&c->a, state, &cut))
            return STATE_FAILED;
        if (cut >> byte & 1)
            return STATE_CUT;
    }
    return mask_step(c, state, c->group_class[byte]);
}

// Walks the tokens of a node of shapes one by one, from the first byte on whose group the state
// splits. WALK_CUT: the node has too many tokens.
static enum walk_result tokens_walk(const struct trie_walk *w, const struct trie_node *node,
                                    struct walk_place at)
{
    uint32_t end = w->trie->nodes[node->end].first;
    if (end - node->first > TOKENS_APART_MAX)
        return WALK_CUT;
    for (uint32_t i = node->first; i < end; i++) {
        struct text token = vocabulary_text(w->c->v, w->trie->ids[i]);
        uint32_t to = at.state;
        for (size_t k = at.bytes; k < token.bytes && to >= STATE_FIRST; k++, ++*w->walked)
            to = mask_step(w->c, to, w->c->g->class_of[(uint8_t)token.at[k]]);
        if (to == STATE_FAILED)
            return WALK_FAILED;
        if (to != STATE_DEAD)
            ids_allow(w, w->trie->ids + i, 1);
    }
    return WALK_ON;
}

// Sets the bits of the allowed tokens of a top-level node and its subtree, and counts bytes in
// *walked. WALK_CUT: some may be missing, because the state splits a group near the root.
static enum walk_result node_walk(const struct trie_walk *w, uint32_t first, uint32_t state)
{
    const struct trie_node *nodes = w->trie->nodes;
    struct walk_place *stack = w->stack;
    stack[0] = (struct walk_place){state, 0};
    for (uint32_t i = first, end = nodes[first].end; i < end;) {
        const struct trie_node *node = &nodes[i];
        struct walk_place at = stack[node->level];
        uint32_t to = walk_step(w, at.state, node->byte), done = 0;
        // If one byte leaves the state, the node cannot be accepted as a whole.
        enum walk_result judged = to == at.state ? node_judge(w, node, to) : WALK_ON;
        if (judged != WALK_ON && !node_allow(w, node, judged, to))
            return WALK_FAILED;
        while (judged == WALK_ON && to >= STATE_FIRST && to != STATE_CUT) {
            at = (struct walk_place){to, at.bytes + 1};
            if (++done == node->count)
                break;
            to = walk_step(w, to, w->trie->bytes[node->text + done]);
        }
        *w->walked += done + 1;
        if (to == STATE_CUT)
            judged = tokens_walk(w, node, at);
        if (to == STATE_FAILED || judged == WALK_FAILED || judged == WALK_CUT)
            return to == STATE_FAILED ? WALK_FAILED : judged;
        if (done < node->count) {
            i = node->end;
            continue;
        }
        stack[node->level + 1] = at;
        i++;
        ids_allow(w, w->trie->ids + node->first, nodes[i].first - node->first);
    }
    return WALK_ON;
}

// Applies node_walk to all top-level nodes of bytes that begin with a byte of the group.
static enum walk_result bytes_walk(const struct trie_walk *w, uint32_t group, uint32_t state)
{
    enum walk_result result = WALK_ON;
    for (uint32_t byte = BYTE_GROUP_FIRST[group];
         byte < BYTE_GROUP_FIRST[group + 1] && result == WALK_ON; byte++) {
        uint32_t node = w->trie->root[byte];
        uint32_t to = node == TRIE_NONE ? STATE_DEAD : walk_step(w, state, (uint8_t)byte);
        if (to != STATE_DEAD)
            result = to == STATE_FAILED ? WALK_FAILED : node_walk(w, node, state);
    }
    return result;
}

// Finds the allowed tokens of KIND_OTHER in a state to which each plain character leads back.
// Returns false if a table is full.
static bool tails_walk(struct mask_cache *c, uint32_t state, uint32_t *words, uint32_t *walked,
                       struct found_ids *found)
{
    struct walk_place *stack = c->walk_stack + VOCABULARY_TOKEN_BYTES_MAX + 1;
    struct trie_walk w = {c, &c->v->tails, false, false, stack, words, walked, found};
    bool ok = true;
    for (uint32_t group = 0; group < BYTE_GROUPS && ok; group++)
        ok = bytes_walk(&w, group, state) == WALK_ON;
    return ok;
}

// tails_walk with the result cached in c->tails for all nodes of a walk.
static bool tails_find(struct mask_cache *c, uint32_t state, uint32_t *walked)
{
    if (c->tails_of == state)
        return true;
    memset(c->tails, 0, c->v->words * sizeof *c->tails);
    c->tails_of = 0;
    c->tails_walks++;
    if (!tails_walk(c, state, c->tails, walked, NULL))
        return false;
    c->tails_of = state;
    return true;
}

// Finds the allowed tokens of one kind: by shapes if the grammar treats the bytes of a group alike,
// else by bytes. Returns false if a table is full.
static bool kind_walk(struct mask_cache *c, uint32_t kind, uint32_t state, uint32_t *words,
                      uint32_t *walked)
{
    bool tails = kind == KIND_OTHER;
    struct trie_walk bytes = {c,      &c->v->tries[kind], false, tails, c->walk_stack, words,
                              walked, &c->found};
    struct trie_walk shapes = bytes;
    shapes.trie = &c->v->shapes[kind];
    shapes.shapes = true;
    for (uint32_t group = 0; group < BYTE_GROUPS; group++) {
        uint32_t node = shapes.trie->root[group];
        uint32_t to = node == TRIE_NONE ? STATE_DEAD : walk_step(&shapes, state, (uint8_t)group);
        enum walk_result result = to == STATE_FAILED ? WALK_FAILED : WALK_ON;
        if (to >= STATE_FIRST && to != STATE_CUT)
            result = node_walk(&shapes, node, state);
        if (to == STATE_CUT || result == WALK_CUT)
            result = bytes_walk(&bytes, group, state);
        if (result != WALK_ON)
            return false;
    }
    return true;
}

static bool may_walk(struct mask_cache *c)
{
    c->limited = c->limited || !c->walks;
    c->a.limit_hit = c->a.limit_hit || !c->walks || c->a.work >= c->a.work_max;
    return !c->a.limit_hit;
}

// Cached masks: a head (kinds << 28 | number of ids, or KEPT_WORDS), then the ids as found, or the
// words.
enum { KEPT_WORDS = 0x0FFFFFFF };

static void mask_begin(const struct vocabulary *v, uint32_t kinds, uint32_t *words)
{
    if (kinds == 0)
        memset(words, 0, v->words * sizeof *words);
    else
        memcpy(words, v->plain[kinds - 1], v->words * sizeof *words);
}

static uint64_t bound_raised(uint64_t bound, uint64_t work)
{
    return bound > UINT64_MAX - work ? UINT64_MAX : bound + work;
}

void mask_charge_forgotten(struct mask_cache *c, size_t bytes)
{
    uint64_t work = bytes / FORGET_BYTES;
    c->a.work += work;
    c->a.work_max = bound_raised(c->a.work_max, work);
    c->work_limit = bound_raised(c->work_limit, work);
}

void mask_forget(struct mask_cache *c)
{
    pages_drop(c->kept, sizeof *c->kept, 1, c->kept_count);
    c->kept_count = 1; // position 0 means none
}

// Reserves `need` words and returns their position; 0: this many never fit.
static uint32_t kept_alloc(struct mask_cache *c, size_t need)
{
    if (need >= c->kept_capacity)
        return 0;
    if (c->kept_count + need > c->kept_capacity) {
        for (uint32_t s = STATE_FIRST; s < c->a.state_count; s++)
            c->a.states[s].kept = c->a.states[s].kept_long = 0;
        mask_charge_forgotten(c, c->kept_count * sizeof *c->kept +
                                     c->a.state_count * sizeof *c->a.states);
        mask_forget(c);
        c->forgotten++;
    }
    c->kept_count += need;
    return (uint32_t)(c->kept_count - need);
}

// Begins a list of found ids, directly in the memory of the cached mask.
static void found_begin(struct mask_cache *c)
{
    uint32_t place = kept_alloc(c, 1 + (size_t)c->v->words);
    uint32_t max = place == 0 ? 0 : c->v->words;
    c->found = (struct found_ids){(int32_t *)c->kept + place + 1, place, max, 0};
}

// Releases the memory of found_begin.
static void found_drop(struct mask_cache *c)
{
    if (c->found.place != 0)
        c->kept_count = c->found.place;
}

// Completes the cached mask and returns its position; 0: it is not cached.
static uint32_t found_keep(struct mask_cache *c, uint32_t kinds, const uint32_t *words)
{
    uint32_t place = c->found.place, ids = c->found.count, all = c->v->words;
    if (place == 0)
        return 0;
    if (ids > c->found.max)
        memcpy(c->kept + place + 1, words, all * sizeof *words);
    c->kept[place] = kinds << 28 | (ids > c->found.max ? KEPT_WORDS : ids);
    c->kept_count -= ids > c->found.max ? 0 : all - ids; // releases the unused rest
    return place;
}

static void mask_read(const struct mask_cache *c, uint32_t place, uint32_t *words)
{
    const uint32_t *from = c->kept + place + 1;
    uint32_t kinds = c->kept[place] >> 28, ids = c->kept[place] & KEPT_WORDS;
    if (ids == KEPT_WORDS) {
        memcpy(words, from, c->v->words * sizeof *words);
        return;
    }
    mask_begin(c->v, kinds, words);
    for (uint32_t i = 0; i < ids; i++)
        words[from[i] / 32] |= 1u << (from[i] % 32);
}

// Finds the tokens of at most TOKEN_SHORT_MAX bytes. Returns false if a bound is exceeded or a
// table is full.
static bool short_tokens_find(struct mask_cache *c, uint32_t state, uint32_t *words,
                              uint32_t *walked)
{
    uint32_t kinds = 0, chars, most;
    bool stays;
    if (c->a.states[state].kept != 0) {
        mask_read(c, c->a.states[state].kept, words);
        c->reused++;
        return true;
    }
    if (!may_walk(c) || !measure_plain(c, state, &chars, &most) || !plain_stays(c, state, &stays))
        return false;
    while (kinds < PLAIN_KINDS && chars >= PLAIN_CHARS[kinds])
        kinds++;
    mask_begin(c->v, kinds, words);
    c->tails_of = c->tails_walks = 0;
    found_begin(c);
    bool ok = true;
    for (uint32_t k = kinds; k < PLAIN_KINDS && (k == 0 || PLAIN_CHARS[k - 1] < most) && ok; k++)
        ok = kind_walk(c, k, state, words, walked);
    ok = ok && (stays ? tails_walk(c, state, words, walked, &c->found)
                      : kind_walk(c, KIND_OTHER, state, words, walked));
    if (!ok) {
        found_drop(c);
        return false;
    }
    c->a.states[state].kept = found_keep(c, kinds, words);
    c->computed++;
    return true;
}

// Adds the longer tokens to words. They are few, so their ids are cached.
static bool long_tokens_find(struct mask_cache *c, uint32_t state, uint32_t *words,
                             uint32_t *walked)
{
    uint32_t place = c->a.states[state].kept_long;
    if (place == 0) {
        if (!may_walk(c))
            return false;
        memset(c->row, 0, c->v->words * sizeof *c->row);
        found_begin(c);
        if (!kind_walk(c, KIND_LONG, state, c->row, walked)) {
            found_drop(c);
            return false;
        }
        place = found_keep(c, 0, c->row);
        c->a.states[state].kept_long = place;
        for (uint32_t w = 0; w < c->v->words; w++)
            words[w] |= c->row[w];
        return true;
    }
    uint32_t ids = c->kept[place] & KEPT_WORDS;
    for (uint32_t i = 0; i < (ids == KEPT_WORDS ? c->v->words : ids); i++) {
        uint32_t value = c->kept[place + 1 + i];
        if (ids == KEPT_WORDS)
            words[i] |= value;
        else
            words[value / 32] |= 1u << (value % 32);
    }
    return true;
}

static bool mask_tokens_find(struct mask_cache *c, uint32_t state, uint32_t *words,
                             uint32_t *walked)
{
    uint32_t for_short = automaton_coarse(&c->a, state, 0);
    c->reach = 0;
    if (for_short == STATE_FAILED || !short_tokens_find(c, for_short, words, walked))
        return false;
    if (c->v->tries[KIND_LONG].count == 0)
        return true;
    uint32_t for_long = automaton_coarse(&c->a, state, 1);
    c->reach = 1;
    return for_long != STATE_FAILED && long_tokens_find(c, for_long, words, walked);
}

// The work of a walk counts afterwards: a walk that is interrupted leaves no result.
bool mask_find(struct mask_cache *c, uint32_t state, uint32_t *words)
{
    uint32_t walked = 0;
    bool found = mask_tokens_find(c, state, words, &walked);
    c->a.work += walked / WALK_NODES;
    return found;
}
