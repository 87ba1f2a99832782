// SPDX-License-Identifier: Apache-2.0
// Memory layout of an engine: one function that runs twice, first to count bytes, then to set
// pointers into the mapping. Stores and rings are sized for the worst case; the system provides
// pages when they are touched.
#include "scheduler/internal.h"

#include "base/number.h"

// Kinds of words per token: token, sequence start, type.
enum { RESULT_CHUNK_BYTES = 4096, WORD_KINDS = 3 };

struct layout_cursor {
    char *base; // NULL: only counts bytes
    size_t at;
};

// Returns the next array, aligned to a cache line, or NULL while only counting.
static void *layout_alloc(struct layout_cursor *c, size_t count, size_t bytes_each)
{
    c->at = (c->at + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
    void *out = c->base ? c->base + c->at : NULL;
    c->at += count * bytes_each;
    return out;
}

// Places a store for `items` items in total and at most `owner_items` items of one owner.
static void store_place(struct layout_cursor *c, struct store *store, uint64_t items,
                        uint64_t owner_items, uint32_t owners)
{
    // Each owner may leave most of its last chunk unused.
    store->chunk_count = store_chunks(store, items) + owners;
    store->table_stride = store_chunks(store, owner_items) + 1;
    size_t chunk_bytes = (size_t)store->items_each * store->item_bytes;
    store->memory = layout_alloc(c, store->chunk_count, chunk_bytes);
    store->free = layout_alloc(c, store->chunk_count, sizeof *store->free);
    store->table = layout_alloc(c, (size_t)owners * store->table_stride, sizeof *store->table);
}

static void stores_place(struct layout_cursor *c, struct port *port, const struct engine *engine)
{
    const struct engine_options *o = &engine->options;
    uint32_t owners = o->max_queued_requests;
    uint64_t tokens = o->max_queued_tokens;
    uint64_t extra = 2 + (uint64_t)BIAS_WORDS * engine->facts.limits.bias_max;
    port->words.items_each = STORE_WORDS;
    port->words.item_bytes = sizeof(int32_t);
    store_place(c, &port->words, WORD_KINDS * tokens + owners * extra, WORD_KINDS * tokens + extra,
                owners);
    uint32_t bytes = engine->facts.output_width * (uint32_t)sizeof(float);
    bool pooling = engine->facts.kind != MODEL_GENERATOR && bytes > 0;
    port->results.item_bytes = pooling ? bytes : (uint32_t)sizeof(float);
    port->results.items_each = RESULT_CHUNK_BYTES > port->results.item_bytes
                                   ? RESULT_CHUNK_BYTES / port->results.item_bytes
                                   : 1;
    uint64_t items = pooling ? o->max_result_bytes / bytes : 0;
    store_place(c, &port->results, items, items < tokens ? items : tokens, owners);
}

static void port_place(struct layout_cursor *c, struct port *port, const struct engine *engine)
{
    uint32_t requests = engine->options.max_queued_requests;
    bool generates = engine->facts.kind == MODEL_GENERATOR;
    size_t entries = request_ring_entries(generates ? engine->options.choices_max : 1);
    struct port sizes = {.request_count = requests};
    struct port *p = c->base ? port : &sizes;
    p->request_count = requests;
    p->requests = layout_alloc(c, requests, sizeof *p->requests);
    struct token_event *events = layout_alloc(c, requests * entries, sizeof *events);
    size_t tops_each = generates ? entries * TOP_LOGPROBS_MAX : 0;
    struct token_top *tops = layout_alloc(c, requests * tops_each, sizeof *tops);
    p->free = layout_alloc(c, requests, sizeof *p->free);
    uint32_t numbers = power_of_two(requests);
    p->inbound.ring.mask = p->ready.ring.mask = p->notices.ring.mask = numbers - 1;
    p->inbound.entry = layout_alloc(c, numbers, sizeof(uint32_t));
    p->ready.entry = layout_alloc(c, numbers, sizeof(uint32_t));
    p->notices.entry = layout_alloc(c, numbers, sizeof(uint32_t));
    stores_place(c, p, engine);
    for (uint32_t i = 0; c->base && i < requests; i++) {
        struct request *r = &p->requests[i];
        r->port = port;
        r->number = i;
        r->events.event = events + i * entries;
        r->events.top = tops + i * tops_each;
    }
}

// Every choice of every request may be parked. Parked sequences keep at most max_queued_tokens
// generated tokens, and each sequence with a slot may fill its context.
static void sequences_place(struct layout_cursor *c, struct engine *engine)
{
    const struct model_facts *f = &engine->facts;
    const struct engine_options *o = &engine->options;
    bool generates = f->kind == MODEL_GENERATOR;
    uint32_t slots = f->limits.slots_max;
    uint32_t count = slots + (generates ? o->max_queued_requests * o->choices_max : 0);
    uint64_t parked = o->max_queued_tokens;
    if (parked < f->max_model_len)
        parked = f->max_model_len;
    struct store *history = &engine->history;
    history->items_each = HISTORY_WORDS;
    history->item_bytes = sizeof(int32_t);
    engine->parked_chunks_max = store_chunks(history, parked);
    // A plan may park all sequences with slots before the bound is applied after the step. The
    // sequences scheduled instead hold at most one more chunk each by then, which store_place adds
    // for each owner.
    uint64_t places = (uint64_t)slots * (store_chunks(history, f->max_model_len) + 1);
    uint64_t items = (places + engine->parked_chunks_max) * HISTORY_WORDS;
    store_place(c, history, generates ? items : 0, generates ? f->max_model_len : 0, count);
    engine->sequence_count = count;
    engine->sequences = layout_alloc(c, count, sizeof *engine->sequences);
    engine->sequences_free = layout_alloc(c, count, sizeof(uint32_t));
}

static void slots_place(struct layout_cursor *c, struct engine *engine)
{
    const struct model_facts *f = &engine->facts;
    uint32_t slots = f->limits.slots_max;
    size_t blocks = f->blocks_per_sequence_max;
    engine->order = layout_alloc(c, slots, sizeof(struct sequence *));
    engine->slots_free = layout_alloc(c, slots, sizeof(uint32_t));
    engine->penalties_free = layout_alloc(c, f->limits.penalty_rows, sizeof(uint32_t));
    engine->slot_blocks = layout_alloc(c, slots * blocks, sizeof *engine->slot_blocks);
    engine->slot_hashes = layout_alloc(c, slots * blocks, sizeof *engine->slot_hashes);
}

// Worst case: all requests wait, each with a different key.
static void queue_place(struct layout_cursor *c, struct engine *engine)
{
    struct queue *q = &engine->queue;
    q->count = engine->options.max_queued_requests;
    q->mask = power_of_two(q->count) - 1;
    q->keys = layout_alloc(c, q->count, sizeof *q->keys);
    q->bucket = layout_alloc(c, q->mask + 1, sizeof(struct queue_key *));
}

static void blocks_place(struct layout_cursor *c, struct engine *engine)
{
    struct blocks *b = &engine->blocks;
    b->count = engine->facts.block_count;
    b->tokens = engine->facts.block_tokens;
    uint32_t buckets = power_of_two(b->count);
    b->bucket_mask = buckets - 1;
    b->block = layout_alloc(c, b->count, sizeof *b->block);
    b->token = layout_alloc(c, (size_t)b->count * b->tokens, sizeof *b->token);
    b->free = layout_alloc(c, b->count, sizeof *b->free);
    b->bucket = layout_alloc(c, buckets, sizeof *b->bucket);
    uint32_t lines = b->count > 0 ? route_lines(b->count) : 0;
    b->route.mask = lines - 1;
    b->route.line = layout_alloc(c, lines, sizeof *b->route.line);
}

// Each sequence may have a matcher. The worker never has more open jobs than one end for each
// sequence and one mask for each row of a step.
static void masks_place(struct layout_cursor *c, struct engine *engine)
{
    const struct step_limits *limits = &engine->facts.limits;
    struct mask_worker *w = &engine->masks;
    bool generates = engine->facts.kind == MODEL_GENERATOR;
    uint32_t jobs = generates ? power_of_two(engine->sequence_count + limits->rows_max) : 1;
    w->ring.mask = jobs - 1;
    w->job = layout_alloc(c, jobs, sizeof *w->job);
    w->verdict = layout_alloc(c, limits->rows_max, sizeof *w->verdict);
    w->phase = layout_alloc(c, limits->rows_max, sizeof *w->phase);
    w->spent = layout_alloc(c, limits->rows_max, sizeof *w->spent);
    w->spare = layout_alloc(c, (engine->facts.vocab + 31) / 32, sizeof *w->spare);
    w->matcher_count = generates ? engine->sequence_count : 0;
    w->matchers = layout_alloc(c, w->matcher_count, sizeof *w->matchers);
    w->cache_count = generates ? limits->slots_max + MASK_CACHES_MORE : 0;
    w->caches = layout_alloc(c, w->cache_count, sizeof *w->caches);
    struct mask_order *o = &engine->mask_order;
    o->keys = layout_alloc(c, limits->rows_max, sizeof *o->keys);
    o->round_keys = layout_alloc(c, limits->rows_max, sizeof(struct mask_key *));
    o->next = layout_alloc(c, limits->rows_max, sizeof *o->next);
    o->rows = layout_alloc(c, limits->rows_max, sizeof *o->rows);
    o->spare = layout_alloc(c, limits->rows_max, sizeof *o->spare);
}

size_t engine_layout(struct engine *engine, void *base)
{
    struct layout_cursor c = {.base = base};
    const struct step_limits *limits = &engine->facts.limits;
    layout_alloc(&c, 1, sizeof *engine);
    engine->ports = layout_alloc(&c, engine->options.port_count, sizeof *engine->ports);
    engine->due.entry =
        layout_alloc(&c, engine->options.max_queued_requests, sizeof *engine->due.entry);
    for (uint32_t i = 0; i < engine->options.port_count; i++)
        port_place(&c, base ? &engine->ports[i] : NULL, engine);
    queue_place(&c, engine);
    sequences_place(&c, engine);
    slots_place(&c, engine);
    blocks_place(&c, engine);
    engine->plan.decode = layout_alloc(&c, limits->rows_max, sizeof(struct plan_row));
    engine->plan.prefill = layout_alloc(&c, limits->rows_max, sizeof(struct plan_row));
    engine->plan.waiting = layout_alloc(&c, limits->rows_max, sizeof(struct plan_row));
    engine->plan.entries = layout_alloc(&c, limits->slots_max, sizeof(struct plan_entry));
    for (uint32_t i = 0; i < ENGINE_LAUNCHES; i++)
        engine->launches[i].rows = layout_alloc(&c, limits->rows_max, sizeof(struct plan_row));
    masks_place(&c, engine);
    engine->batch = layout_alloc(&c, 1, batch_bytes(limits));
    return c.at;
}
