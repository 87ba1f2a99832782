// See mask_turns.h. Keys are charged for what their masks took of what rows share, and a key none
// of whose rows waits is set to what those that took something have spent: so nobody saves up
// turns, who asks for little goes first, and the others have equal shares (start-time fair
// queueing). What a row has of its own counts for neither, because keys that are not served have
// that, too.
#include "scheduler/internal.h"

#include "base/number.h"

static struct mask_key *key_find(struct mask_turns *t, const struct request *r)
{
    struct mask_key *key = &t->keys[r->run.mask_key]; // where it was last
    if (key->step != 0 && key->key_id == r->asked.key_id)
        return key;
    for (uint32_t i = 0; i < t->key_count; i++)
        if (t->keys[i].key_id == r->asked.key_id)
            return &t->keys[i];
    return NULL;
}

// Room for one more: there are as many entries as a step has rows, so one has none in this step.
static struct mask_key *key_take(struct mask_turns *t, uint32_t most)
{
    if (t->key_count < most)
        return &t->keys[t->key_count++];
    struct mask_key *oldest = &t->keys[0];
    for (uint32_t i = 1; i < t->key_count; i++)
        if (t->keys[i].step < oldest->step)
            oldest = &t->keys[i];
    return oldest;
}

// The key of a request whose first row in the step this is: it gets its turn.
static void key_begin(struct mask_turns *t, struct mask_key *key)
{
    if (!key->waits || key->step != t->before) // who waited and left saved nothing
        key->spent = larger(key->spent, t->now);
    key->step = t->step;
    key->began = key->spent;
    key->waits = false;
    key->count = 0;
    uint32_t at = t->turn_count++;
    for (; at > 0 && t->turn[at - 1]->spent > key->spent; at--)
        t->turn[at] = t->turn[at - 1];
    t->turn[at] = key;
}

static void row_put(struct engine *engine, struct launch *launch, uint32_t row)
{
    struct mask_turns *t = &engine->mask_turns;
    struct request *r = engine->sequences[launch->rows[row].sequence].request;
    struct mask_key *key = key_find(t, r);
    if (!key) {
        key = key_take(t, engine->facts.limits.rows_max);
        *key = (struct mask_key){.key_id = r->asked.key_id};
    }
    r->run.mask_key = (uint32_t)(key - t->keys);
    launch->rows[row].key = r->run.mask_key;
    if (key->step != t->step)
        key_begin(t, key);
    if (key->count++ == 0)
        key->first = row;
    else
        t->next[key->last] = row;
    key->last = row;
}

// The row of a key that was postponed most often, or `otherwise`.
static uint32_t most_postponed(const struct engine *engine, const struct launch *launch,
                               const struct mask_key *key, uint32_t otherwise)
{
    uint32_t row = key->first, most = 0;
    for (uint32_t i = 0; i < key->count; i++, row = engine->mask_turns.next[row]) {
        uint32_t postponed = engine->sequences[launch->rows[row].sequence].postponed;
        if (postponed <= most)
            continue;
        most = postponed;
        otherwise = row;
    }
    return otherwise;
}

static void key_rows(struct engine *engine, const struct launch *launch, struct mask_key *key)
{
    struct mask_turns *t = &engine->mask_turns;
    uint32_t *next = t->next, row = key->first;
    next[key->last] = key->first; // a ring
    for (uint32_t i = (uint32_t)(launch->step % key->count); i > 0; i--)
        row = next[row];
    uint32_t first = most_postponed(engine, launch, key, row);
    t->rows[t->row_count++] = first;
    for (uint32_t i = 0; i < key->count; i++, row = next[row])
        if (row != first)
            t->rows[t->row_count++] = row;
}

void mask_turns_make(struct engine *engine, struct launch *launch)
{
    struct mask_turns *t = &engine->mask_turns;
    t->before = t->step;
    t->step = launch->step;
    t->turn_count = t->row_count = 0;
    for (uint32_t i = 0; i < launch->row_count; i++)
        if (launch->rows[i].mask != BATCH_NO_MASK)
            row_put(engine, launch, i);
    for (uint32_t i = 0; i < t->turn_count; i++)
        key_rows(engine, launch, t->turn[i]);
}

void mask_turns_spend(struct engine *engine, uint32_t key, uint64_t work, bool postponed)
{
    struct mask_turns *t = &engine->mask_turns;
    t->keys[key].spent += work;
    t->keys[key].waits = t->keys[key].waits || postponed;
    if (work > 0)
        t->now = larger(t->now, t->keys[key].began);
}
