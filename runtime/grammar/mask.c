// One mask: whole kinds of tokens where plain characters stay inside the grammar, a walk over the
// tries for the rest. What was found is kept as a list of ids beside those kinds, or as words.
#include "runtime/grammar/mask.h"

#include <string.h>

enum { WALK_NODES = 2, FORGET_BYTES = 256 }; // that are walked or forgotten in one step of work
enum { TAILS_WALKS_MAX = 4 };                // of one mask; then whole tokens are walked

// Places inside a character of UTF-8: 0 between characters, 1..3 continuation bytes to come, then
// those where the next byte has narrower bounds (E0, ED, F0, F4).
static const struct utf8_edge {
    uint8_t from, first, last, to;
} UTF8_EDGES[] = {
    {0, 0x20, 0x21, 0}, {0, 0x23, 0x5B, 0}, {0, 0x5D, 0x7F, 0}, {0, 0xC2, 0xDF, 1},
    {0, 0xE0, 0xE0, 4}, {0, 0xE1, 0xEC, 2}, {0, 0xED, 0xED, 5}, {0, 0xEE, 0xEF, 2},
    {0, 0xF0, 0xF0, 6}, {0, 0xF1, 0xF3, 3}, {0, 0xF4, 0xF4, 7}, {1, 0x80, 0xBF, 0},
    {2, 0x80, 0xBF, 1}, {3, 0x80, 0xBF, 2}, {4, 0xA0, 0xBF, 1}, {5, 0x80, 0x9F, 1},
    {6, 0x90, 0xBF, 2}, {7, 0x80, 0x8F, 2},
};

void mask_edges_find(struct mask_cache *c)
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
}

// States at a place, on the way of the search below.
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

// One more character from each state of `level` on. False: it can leave the grammar.
// *room false: a table is full.
static bool level_next(struct mask_cache *c, struct spots *level, struct spots *next, bool *room)
{
    for (uint32_t i = 0; i < level->count; i++) {
        struct spot spot = level->at[i];
        for (uint32_t e = c->edge_first[spot.place]; e < c->edge_first[spot.place + 1]; e++) {
            uint32_t to = automaton_step(&c->a, spot.state, c->edges[e].class);
            *room = *room && to != STATE_NO_ROOM;
            if (to < STATE_FIRST)
                return false;
            spot_add(c->edges[e].to == 0 ? next : level, to, c->edges[e].to);
        }
    }
    return !level->full && !next->full;
}

// No plain character can follow any of the first so many places. *room false: a table is full.
static bool level_is_last(struct mask_cache *c, const struct spots *level, uint32_t count,
                          bool *room)
{
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t e = c->edge_first[0]; e < c->edge_first[1]; e++) {
            uint32_t to = automaton_step(&c->a, level->at[i].state, c->edges[e].class);
            *room = *room && to != STATE_NO_ROOM;
            if (to != STATE_DEAD)
                return false;
        }
    return true;
}

// How many plain characters can follow whatever they are: PLAIN_WHOLE, or at most the bound of the
// last kind but one. *most: how many can follow at all, or PLAIN_WHOLE. False: a table is full.
static bool measure_plain(struct mask_cache *c, uint32_t state, uint32_t *chars, uint32_t *most)
{
    struct spots seen = {.count = 0}, level, next = {.count = 0};
    bool room = true;
    *most = PLAIN_WHOLE;
    spot_add(&next, state, 0);
    spot_add(&seen, state, 0);
    for (*chars = 0; *chars < PLAIN_CHARS[PLAIN_KINDS - 2]; ++*chars) {
        level = next;
        next.count = 0;
        uint32_t count = level.count;
        if (!level_next(c, &level, &next, &room)) {
            if (room && level_is_last(c, &level, count, &room))
                *most = *chars;
            return room;
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

// Finds whether each plain character leads back to the state. False: a table is full.
static bool plain_find(struct mask_cache *c, uint32_t state)
{
    struct spots level = {.count = 0}, next = {.count = 0};
    bool room = true;
    spot_add(&level, state, 0);
    bool all = level_next(c, &level, &next, &room);
    if (!room)
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

// Sorts of bytes of which each leads back to the state. False: a table is full.
static bool loops_find(struct mask_cache *c, uint32_t state)
{
    uint64_t loops = LOOPS_KNOWN | ((1ull << BYTE_SORTS) - 1);
    uint8_t back[256]; // by class: 0: not known yet, 1: elsewhere, 2: back
    if (c->a.states[state].loops & LOOPS_KNOWN)
        return true;
    memset(back, 0, c->g->class_count);
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint8_t class = c->g->class_of[byte];
        if (back[class] == 0) {
            uint32_t to = automaton_step(&c->a, state, class);
            if (to == STATE_NO_ROOM)
                return false;
            back[class] = to == state ? 2 : 1;
        }
        if (back[class] == 1)
            loops &= ~(1ull << byte_sort((uint8_t)byte));
    }
    c->a.states[state].loops = loops;
    return true;
}

static void ids_allow(const int32_t *ids, uint32_t count, uint32_t *words)
{
    for (uint32_t i = 0; i < count; i++)
        words[ids[i] / 32] |= 1u << (ids[i] % 32);
}

// What is known of all tokens of a trie where plain characters lead back to a state.
enum walk_kind {
    WALK_ANY,   // nothing
    WALK_PLAIN, // they are plain, so they are allowed
    WALK_OTHER, // they are of KIND_OTHER: allowed as their tails are
};
struct trie_walk {
    struct mask_cache *c;
    const struct token_trie *trie;
    enum walk_kind kind;
    uint32_t *path, *words, *walked;
};
enum walk_result { WALK_ON, WALK_ALL, WALK_TAILS, WALK_NO_ROOM };

// What a state says of all tokens of a node whose first byte leads back to it.
static enum walk_result node_judge(const struct trie_walk *w, const struct trie_node *node,
                                   uint32_t state)
{
    struct mask_cache *c = w->c;
    bool stays;
    if (!loops_find(c, state))
        return WALK_NO_ROOM;
    if ((node->sorts & ~c->a.states[state].loops) == 0)
        return WALK_ALL;
    if (w->kind == WALK_ANY || !node->plain)
        return WALK_ON;
    if (!plain_stays(c, state, &stays))
        return WALK_NO_ROOM;
    if (!stays)
        return WALK_ON;
    if (w->kind == WALK_PLAIN)
        return WALK_ALL;
    return c->tails_of == state || c->tails_walks < TAILS_WALKS_MAX ? WALK_TAILS : WALK_ON;
}

static bool tails_find(struct mask_cache *c, uint32_t state, uint32_t *walked);

static void tails_allow(const struct mask_cache *c, const int32_t *ids, uint32_t count,
                        uint32_t *words)
{
    for (uint32_t i = 0; i < count; i++)
        words[ids[i] / 32] |= c->tails[ids[i] / 32] & (1u << (ids[i] % 32));
}

// Sets the bits of all tokens of a node as they were judged. False: a table is full.
static bool node_allow(const struct trie_walk *w, const struct trie_node *node,
                       enum walk_result judged, uint32_t state)
{
    const struct token_trie *trie = w->trie;
    const int32_t *ids = trie->ids + node->first;
    uint32_t count = trie->nodes[node->end].first - node->first;
    if (judged == WALK_NO_ROOM || (judged == WALK_TAILS && !tails_find(w->c, state, w->walked)))
        return false;
    if (judged == WALK_TAILS)
        tails_allow(w->c, ids, count, w->words);
    else
        ids_allow(ids, count, w->words);
    return true;
}

// Sets the bits of the tokens of a trie that lead somewhere, and counts bytes. False: a table is
// full.
static bool trie_walk(const struct trie_walk *w, uint32_t state)
{
    struct automaton *a = &w->c->a;
    const uint8_t *class_of = w->c->g->class_of, *bytes = w->trie->bytes;
    const struct trie_node *nodes = w->trie->nodes;
    const int32_t *ids = w->trie->ids;
    uint32_t *path = w->path, count = w->trie->count, walked = 0, to = state;
    path[0] = state;
    for (uint32_t i = 0; i < count && to != STATE_NO_ROOM;) {
        const struct trie_node *node = &nodes[i];
        uint32_t from = path[node->level];
        to = automaton_step(a, from, class_of[node->byte]);
        walked++;
        if (to == from) { // a byte that does not lead back tells that not all do
            enum walk_result judged = node_judge(w, node, from);
            if (judged != WALK_ON) {
                to = node_allow(w, node, judged, from) ? to : STATE_NO_ROOM;
                i = node->end;
                continue;
            }
        }
        for (uint32_t k = 1; k < node->count && to >= STATE_FIRST; k++, walked++)
            to = automaton_step(a, to, class_of[bytes[node->text + k]]);
        path[node->level + 1] = to;
        i = to < STATE_FIRST ? node->end : i + 1;
        if (to >= STATE_FIRST)
            ids_allow(ids + node->first, nodes[i].first - node->first, w->words);
    }
    *w->walked += walked;
    return to != STATE_NO_ROOM;
}

// The tokens of KIND_OTHER in a state to which each plain character leads back.
static bool tails_walk(struct mask_cache *c, uint32_t state, uint32_t *words, uint32_t *walked)
{
    uint32_t *path = c->path + VOCABULARY_TOKEN_BYTES_MAX + 1;
    return trie_walk(&(struct trie_walk){c, &c->v->tails, WALK_ANY, path, words, walked}, state);
}

// The same, kept for all nodes of a walk.
static bool tails_find(struct mask_cache *c, uint32_t state, uint32_t *walked)
{
    if (c->tails_of == state)
        return true;
    memset(c->tails, 0, c->v->words * sizeof *c->tails);
    c->tails_of = 0;
    c->tails_walks++;
    if (!tails_walk(c, state, c->tails, walked))
        return false;
    c->tails_of = state;
    return true;
}

static bool kind_walk(struct mask_cache *c, uint32_t kind, uint32_t state, uint32_t *words,
                      uint32_t *walked)
{
    enum walk_kind known = kind < PLAIN_KINDS   ? WALK_PLAIN
                           : kind == KIND_OTHER ? WALK_OTHER
                                                : WALK_ANY;
    return trie_walk(&(struct trie_walk){c, &c->v->tries[kind], known, c->path, words, walked},
                     state);
}

static bool may_walk(struct mask_cache *c)
{
    c->limited = c->limited || !c->walks;
    c->a.over = c->a.over || !c->walks || c->a.work >= c->a.work_max;
    return !c->a.over;
}

// Kept masks: a head (kinds << 28 | ids, or KEPT_WORDS), then ids in order, or words.
enum { KEPT_WORDS = 0x0FFFFFFF };

static void mask_begin(const struct vocabulary *v, uint32_t kinds, uint32_t *words)
{
    if (kinds == 0)
        memset(words, 0, v->words * sizeof *words);
    else
        memcpy(words, v->plain[kinds - 1], v->words * sizeof *words);
}

static uint64_t more(uint64_t bound, uint64_t work)
{
    return bound > UINT64_MAX - work ? UINT64_MAX : bound + work;
}

void mask_charge_forgotten(struct mask_cache *c, size_t bytes)
{
    uint64_t work = bytes / FORGET_BYTES;
    c->a.work += work;
    c->a.work_max = more(c->a.work_max, work);
    c->work_limit = more(c->work_limit, work);
}

void mask_forget(struct mask_cache *c)
{
    pages_drop(c->kept, sizeof *c->kept, 1, c->kept_count);
    c->kept_count = 1; // 0 is no place
}

// Room for so many words; 0: that many never fit.
static uint32_t kept_take(struct mask_cache *c, size_t need)
{
    if (need >= c->kept_capacity)
        return 0;
    if (c->kept_count + need > c->kept_capacity) {
        for (uint32_t s = STATE_FIRST; s < c->a.state_count; s++)
            c->a.states[s].kept = c->a.states[s].kept_far = 0;
        mask_charge_forgotten(c, c->kept_count * sizeof *c->kept +
                                     c->a.state_count * sizeof *c->a.states);
        mask_forget(c);
        c->forgotten++;
    }
    c->kept_count += need;
    return (uint32_t)(c->kept_count - need);
}

// Writes the ids that are set beside the base; stops where they are as many as the words.
static uint32_t ids_write(const struct vocabulary *v, uint32_t kinds, const uint32_t *words,
                          uint32_t *to)
{
    const uint32_t *base = kinds ? v->plain[kinds - 1] : NULL;
    uint32_t ids = 0;
    for (uint32_t w = 0; w < v->words; w++)
        for (uint32_t rest = words[w] & ~(base ? base[w] : 0); rest != 0; rest &= rest - 1) {
            if (ids == v->words)
                return ids;
            to[ids++] = w * 32 + (uint32_t)__builtin_ctz(rest);
        }
    return ids;
}

// Returns where it lies; 0: nowhere.
static uint32_t mask_keep(struct mask_cache *c, uint32_t kinds, const uint32_t *words)
{
    const struct vocabulary *v = c->v;
    uint32_t place = kept_take(c, 1 + (size_t)v->words);
    if (place == 0)
        return 0;
    uint32_t ids = ids_write(v, kinds, words, c->kept + place + 1);
    if (ids == v->words)
        memcpy(c->kept + place + 1, words, v->words * sizeof *words);
    c->kept[place] = kinds << 28 | (ids == v->words ? KEPT_WORDS : ids);
    c->kept_count -= v->words - ids; // what was not needed
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

// The tokens of at most TOKEN_NEAR bytes.
static bool near_find(struct mask_cache *c, uint32_t state, uint32_t *words, uint32_t *walked)
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
    for (uint32_t k = kinds; k < PLAIN_KINDS && (k == 0 || PLAIN_CHARS[k - 1] < most); k++)
        if (!kind_walk(c, k, state, words, walked))
            return false;
    if (stays ? !tails_walk(c, state, words, walked)
              : !kind_walk(c, KIND_OTHER, state, words, walked))
        return false;
    uint32_t place = mask_keep(c, kinds, words);
    c->a.states[state].kept = place;
    c->computed++;
    return true;
}

// The others, beside what is there. They are few, so ids are kept.
static bool far_find(struct mask_cache *c, uint32_t state, uint32_t *words, uint32_t *walked)
{
    uint32_t place = c->a.states[state].kept_far;
    if (place == 0) {
        memset(c->row, 0, c->v->words * sizeof *c->row);
        if (!may_walk(c) || !kind_walk(c, KIND_LONG, state, c->row, walked))
            return false;
        place = mask_keep(c, 0, c->row);
        c->a.states[state].kept_far = place;
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

static bool both_find(struct mask_cache *c, uint32_t state, uint32_t *words, uint32_t *walked)
{
    uint32_t near = automaton_near(&c->a, state, 0);
    if (near == STATE_NO_ROOM || !near_find(c, near, words, walked))
        return false;
    if (c->v->tries[KIND_LONG].count == 0)
        return true;
    uint32_t far = automaton_near(&c->a, state, 1);
    return far != STATE_NO_ROOM && far_find(c, far, words, walked);
}

// What is walked counts afterwards: nothing stays of a walk that is broken off.
bool mask_find(struct mask_cache *c, uint32_t state, uint32_t *words)
{
    uint32_t walked = 0;
    bool found = both_find(c, state, words, &walked);
    c->a.work += walked / WALK_NODES;
    return found;
}
