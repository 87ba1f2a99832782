// SPDX-License-Identifier: Apache-2.0
// The h2o side of a port: admission, submit, cancel, drain, free. One h2o thread per port; nothing
// here blocks or allocates memory. The engine's side is in intake.c, ring_credit.c and settle.c.
#include "scheduler/prefix.h"
#include "scheduler/request.h"

#include "base/clock.h"
#include "runtime/grammar/grammar.h"
#include "runtime/grammar/token_rules.h"
#include "runtime/grammar/token_watch.h"

#include <string.h>

enum { RING_ENTRIES_MIN = 64 };

uint32_t request_ring_entries(uint32_t choices)
{
    uint32_t entries = RING_ENTRIES_MIN;
    while (entries < 4 * choices + 8)
        entries *= 2;
    return entries;
}

static uint64_t result_bytes(const struct port *port, const struct submit_args *args)
{
    if (args->kind == REQUEST_GENERATE)
        return 0;
    return (uint64_t)args->sequence_count * port->gate->output_width * sizeof(float);
}

// The caller has checked the limits of the request; a violation is a bug in the caller.
static void args_check(const struct admission_gate *gate, const struct submit_args *args)
{
    check(args->token_count > 0 && args->sequence_count > 0, "%u tokens in %u sequences",
          args->token_count, args->sequence_count);
    bool generate = args->kind == REQUEST_GENERATE;
    check(args->choice_count >= 1 && (!generate || submit_choices(args) <= gate->choices_max),
          "%u choices of %u prompts, the engine has %u", args->choice_count, args->sequence_count,
          gate->choices_max);
    check(args->stop_id_count <= REQUEST_STOP_IDS_MAX, "%u stop ids", args->stop_id_count);
    check(args->bias_count <= gate->bias_max, "%u biases, a slot has %u", args->bias_count,
          gate->bias_max);
    check(args->sequence_start[args->sequence_count] == args->token_count, "%u of %u tokens",
          args->sequence_start[args->sequence_count], args->token_count);
    check(generate == gate->generates, "kind %d for another kind of model", args->kind);
    check(!generate || args->max_tokens > 0, "no tokens for a generation");
    check(generate || args->choice_count == 1, "%u choices of a pooling request",
          args->choice_count);
    check((!args->grammar && !args->rules) || (generate && gate->vocabulary),
          "a grammar for an engine without a vocabulary");
    check(!args->watch || args->grammar, "a watch without a grammar");
    check(!args->rules || token_rules_vocab(args->rules) == gate->vocab, "rules of another model");
    check(!generate || args->sampling.top_logprobs <= TOP_LOGPROBS_MAX, "%u top logprobs",
          args->sampling.top_logprobs);
    for (uint32_t i = 0; i < args->sequence_count; i++) {
        uint32_t from = args->sequence_start[i], to = args->sequence_start[i + 1];
        check(to > from && to - from <= gate->max_model_len - generate,
              "sequence %u has tokens %u to %u, the model takes %u", i, from, to,
              gate->max_model_len);
        check(to - from > args->pool_from, "sequence %u pools none of %u tokens", i, to - from);
    }
    uint32_t known = tokens_known(args->tokens, args->token_count, gate->vocab);
    check(known == args->token_count, "token %d of %u", args->tokens[known], gate->vocab);
}

static bool counter_raise(_Atomic uint64_t *counter, uint64_t amount, uint64_t limit)
{
    // Relaxed: only the counter's value matters; the inbound ring publishes the request itself.
    uint64_t now = atomic_load_explicit(counter, memory_order_relaxed);
    do {
        if (now + amount > limit)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(counter, &now, now + amount,
                                                    memory_order_relaxed, memory_order_relaxed));
    return true;
}

static void counter_lower(_Atomic uint64_t *counter, uint64_t amount)
{
    atomic_fetch_sub_explicit(counter, amount, memory_order_relaxed);
}

static bool counter_fits(const _Atomic uint64_t *counter, uint64_t amount, uint64_t limit)
{
    return atomic_load_explicit(counter, memory_order_relaxed) + amount <= limit;
}

void counters_lower(struct admission_gate *gate, uint64_t tokens, uint64_t bytes)
{
    counter_lower(&gate->counters.requests, 1);
    counter_lower(&gate->counters.tokens, tokens);
    counter_lower(&gate->counters.bytes, bytes);
}

// A request that does not fit raises no counter, so it takes no capacity from requests of other
// threads. A counter is lowered again only if another thread took the capacity between check and
// raise.
bool counters_raise(struct admission_gate *gate, uint64_t tokens, uint64_t bytes)
{
    struct admission_counters *counters = &gate->counters;
    const struct admission_limits *limits = &gate->limits;
    if (!counter_fits(&counters->requests, 1, limits->requests) ||
        !counter_fits(&counters->tokens, tokens, limits->tokens) ||
        !counter_fits(&counters->bytes, bytes, limits->bytes))
        return false;
    if (!counter_raise(&counters->requests, 1, limits->requests))
        return false;
    if (!counter_raise(&counters->tokens, tokens, limits->tokens)) {
        counter_lower(&counters->requests, 1);
        return false;
    }
    if (counter_raise(&counters->bytes, bytes, limits->bytes))
        return true;
    counter_lower(&counters->requests, 1);
    counter_lower(&counters->tokens, tokens);
    return false;
}

// Copies the arrays of a request into the store.
static void words_fill(struct port *port, struct request *request, const struct submit_args *args)
{
    uint32_t at = args->token_count;
    request->starts_at = at;
    at += args->sequence_count + 1;
    request->types_at = at;
    at += args->type_from ? args->sequence_count : 0;
    request->bias_at = at;
    at += args->bias_count * BIAS_WORDS;
    request->word_count = at;
    uint32_t number = request->number;
    store_alloc(&port->words, number, at);
    store_write(&port->words, number, 0, args->token_count, args->tokens);
    store_write(&port->words, number, request->starts_at, args->sequence_count + 1,
                args->sequence_start);
    if (args->type_from)
        store_write(&port->words, number, request->types_at, args->sequence_count, args->type_from);
    if (args->bias_count > 0)
        store_write(&port->words, number, request->bias_at, (uint64_t)BIAS_WORDS * args->bias_count,
                    args->bias);
}

// Takes a free request number and fills its request. The counters guarantee that a number is free.
static struct request *request_fill(struct port *port, const struct submit_args *args)
{
    check(port->free_count > 0 || port->fresh < port->request_count, "all %u requests are used",
          port->request_count);
    uint32_t number = port->free_count > 0 ? port->free[--port->free_count] : port->fresh++;
    struct request *request = &port->requests[number];
    request->args = *args;
    request->args.tokens = NULL; // the arrays are copied to the store; their pointers are not kept
    request->args.sequence_start = request->args.type_from = NULL;
    request->args.bias = NULL;
    request->args.stop_ids = request->stop_ids;
    if (args->stop_id_count > 0)
        memcpy(request->stop_ids, args->stop_ids, args->stop_id_count * sizeof(int32_t));
    if (args->grammar)
        grammar_ref(args->grammar);
    if (args->watch)
        token_watch_ref(args->watch);
    if (args->rules)
        token_rules_ref(args->rules);
    request->typed = args->type_from != NULL;
    request->serial = ++port->serial;
    request->result_bytes = result_bytes(port, args);
    request->marks =
        (struct request_marks){.prompt_tokens = args->token_count, .submitted_ns = clock_ns()};
    // The ring is empty and the engine does not have the request yet, so the ring's mask may
    // change.
    uint32_t choices = args->kind == REQUEST_GENERATE ? submit_choices(args) : 1;
    request->events.ring.mask = request_ring_entries(choices) - 1;
    atomic_store_explicit(&request->cancel, 0, memory_order_relaxed);
    for (uint32_t i = 0; i < REQUEST_CHOICES_MAX / 64; i++)
        atomic_store_explicit(&request->cancelled[i], 0, memory_order_relaxed);
    words_fill(port, request, args);
    if (request->result_bytes > 0)
        store_alloc(&port->results, number, args->sequence_count);
    return request;
}

static enum admission gate_submit(struct port *port, const struct submit_args *args,
                                  struct request **out)
{
    struct admission_gate *gate = port->gate;
    uint32_t gate_state = atomic_load_explicit(&gate->state, memory_order_seq_cst);
    if (gate_state != GATE_OPEN)
        return gate_state == GATE_FAILED ? ADMISSION_FAILED : ADMISSION_DRAINING;
    if (args->token_count > gate->limits.tokens)
        return ADMISSION_TOO_MANY_TOKENS;
    uint64_t bytes = result_bytes(port, args);
    if (bytes > gate->limits.bytes)
        return ADMISSION_TOO_MANY_BYTES;
    if (!counters_raise(gate, args->token_count, bytes))
        return ADMISSION_BUSY;
    *out = request_fill(port, args);
    number_push(&port->inbound, (*out)->number);
    return ADMITTED;
}

enum admission port_submit(struct port *port, const struct submit_args *args, struct request **out)
{
    args_check(port->gate, args);
    // seq_cst on this store and on the load of the state: an engine that has closed the gate and
    // then reads `submitting` as 0 finds every admitted request in the inbound ring. With a weaker
    // order both sides could miss each other, and the request would never end.
    atomic_store_explicit(&port->submitting, 1, memory_order_seq_cst);
    enum admission admission = gate_submit(port, args, out);
    atomic_store_explicit(&port->submitting, 0, memory_order_release);
    if (admission == ADMITTED)
        waker_raise(port->gate->waker);
    return admission;
}

// Counts, for each copy, the leading tokens of one prompt that its cache contains. A table of
// fingerprints loses some of them where a line is full, perhaps that of a block with which many
// prompts begin. A block in the cache implies all before it, so one missing block ends no search.
static void cached_count(struct route_copy *copies, struct port *const *ports, uint32_t count,
                         const struct submit_args *args, uint32_t from, uint32_t to,
                         uint32_t *looks)
{
    const struct admission_gate *gate = ports[0]->gate;
    struct prefix_apart apart = {.salt = {args->cache_salt[0], args->cache_salt[1]},
                                 .owner = args->cache_owner};
    struct hash key = prefix_root(gate->secret, &apart);
    // Bit set: the copy had one of the last two blocks.
    uint32_t each = gate->block_tokens, left = (1u << count) - 1, missed[COPIES_MAX] = {0};
    for (; left != 0 && from + each < to && *looks > 0; from += each, (*looks)--) {
        key = prefix_hash(gate->secret, &key, args->tokens + from, each);
        for (uint32_t i = 0; i < count; i++) {
            if (!(left >> i & 1))
                continue;
            if (route_has(ports[i]->gate->route, &key)) {
                copies[i].cached += (1 + missed[i]) * each;
                missed[i] = 0;
            } else if (++missed[i] == 2) {
                left &= ~(1u << i);
            }
        }
    }
}

void ports_look_up(struct route_copy *copies, struct port *const *ports, uint32_t count,
                   const struct submit_args *args)
{
    uint32_t looks = ROUTE_BLOCKS_MAX;
    for (uint32_t i = 0; i < count; i++) {
        const struct admission_gate *gate = ports[i]->gate;
        // Relaxed: a stale state costs at most a refusal, after which the caller tries another
        // copy.
        copies[i] = (struct route_copy){
            .queued = atomic_load_explicit(&gate->counters.tokens, memory_order_relaxed),
            .closed = atomic_load_explicit(&gate->state, memory_order_relaxed) != GATE_OPEN};
    }
    for (uint32_t i = 0; ports[0]->gate->route && i < args->sequence_count; i++)
        cached_count(copies, ports, count, args, args->sequence_start[i],
                     args->sequence_start[i + 1], &looks);
}

uint32_t port_choose(struct port *const *ports, uint32_t count, const struct submit_args *args,
                     uint32_t after)
{
    struct port *given[COPIES_MAX];
    struct route_copy copies[COPIES_MAX];
    uint32_t place[COPIES_MAX], found = 0;
    check(count <= COPIES_MAX, "%u copies", count);
    for (uint32_t i = 0; i < count; i++) {
        if (!ports[i])
            continue;
        given[found] = ports[i];
        place[found++] = i;
    }
    if (found < 2)
        return found == 0 ? count : place[0];
    ports_look_up(copies, given, found, args);
    return place[route_choose(copies, found, args->token_count, after)];
}

uint32_t port_route_number(struct port *port)
{
    // Relaxed: callers only need different numbers; nothing else depends on the counter.
    return atomic_fetch_add_explicit(&port->gate->counters.route_numbers, 1, memory_order_relaxed);
}

// Sends a notice to the engine; called after the change that it announces. Either the engine gets
// this notice, or it has not yet lowered the flag of an earlier notice and will see the change
// then. If the request is finished by then, the engine may look at the next request with that
// number.
static void notice_send(struct port *port, struct request *request)
{
    if (flag_raise(&request->in_notices))
        number_push(&port->notices, request->number);
    waker_raise(port->gate->waker);
}

void port_cancel(struct port *port, struct request *request)
{
    atomic_store_explicit(&request->cancel, 1, memory_order_relaxed);
    notice_send(port, request);
}

void port_cancel_choice(struct port *port, struct request *request, uint32_t choice)
{
    check(request->args.kind == REQUEST_GENERATE &&
              choice < request->args.sequence_count * request->args.choice_count,
          "choice %u is cancelled", choice);
    // Relaxed: the notice orders it, as for the flag of port_cancel.
    atomic_fetch_or_explicit(&request->cancelled[choice / 64], (uint64_t)1 << choice % 64,
                             memory_order_relaxed);
    notice_send(port, request);
}

void port_free(struct port *port, struct request *request)
{
    uint32_t place;
    check(!ring_peek(&request->events.ring, &place), "request %u is freed with events unread",
          request->number);
    counters_lower(port->gate, request->args.token_count, request->result_bytes);
    store_free(&port->words, request->number, request->word_count);
    if (request->result_bytes > 0)
        store_free(&port->results, request->number, request->args.sequence_count);
    request->args.owner = NULL;
    grammar_unref(request->args.grammar);
    token_watch_unref(request->args.watch);
    token_rules_unref(request->args.rules);
    request->args.grammar = NULL;
    request->args.watch = NULL;
    request->args.rules = NULL;
    port->free[port->free_count++] = request->number;
    check(port->free_count <= port->fresh, "request %u was freed twice", request->number);
}

void port_pages_return(struct port *port)
{
    enum { KEPT_BYTES = 1 << 20, PIECE_BYTES = 64 << 20 }; // 64 MiB take some milliseconds
    store_pages_return(&port->words, KEPT_BYTES, PIECE_BYTES);
    store_pages_return(&port->results, KEPT_BYTES, PIECE_BYTES);
}

void port_owner_set(struct port *port, struct request *request, void *owner)
{
    (void)port;
    request->args.owner = owner;
}

void port_drain(struct port *port, void (*on_ready)(void *context, void *owner, struct request *),
                void *context)
{
    uint32_t number, place;
    while (number_pop(&port->ready, &number)) {
        struct request *request = &port->requests[number];
        // After the pop, so that the ring of numbers has a free entry when the flag is raised
        // again.
        flag_lower(&request->events.in_ready);
        if (ring_peek(&request->events.ring, &place)) // otherwise its events were read already
            on_ready(context, request->args.owner, request);
    }
}

bool port_next(struct port *port, struct request *request, struct token_event *out,
               struct token_top *tops)
{
    struct event_ring *ring = &request->events;
    uint32_t place;
    if (!ring_peek(&ring->ring, &place))
        return false;
    *out = ring->event[place];
    if (tops && out->top_count > 0)
        memcpy(tops, &ring->top[(size_t)place * TOP_LOGPROBS_MAX],
               out->top_count * sizeof(struct token_top));
    ring_pop(&ring->ring);
    if (flag_lower(&ring->paused)) // after ring_pop: see credit_request
        notice_send(port, request);
    return true;
}

const float *request_values(const struct request *request, uint32_t sequence)
{
    return store_item(&request->port->results, request->number, sequence);
}

void request_facts_get(const struct request *request, struct request_facts *out)
{
    const struct request_marks *marks = &request->marks;
    *out = (struct request_facts){
        .prompt_tokens = marks->prompt_tokens,
        .cached_tokens = (uint32_t)stat_read(&marks->cached_tokens),
        .preemptions = (uint32_t)stat_read(&marks->preemptions),
        .submitted_ns = marks->submitted_ns,
        .started_ns = stat_read(&marks->started_ns),
        .first_token_ns = stat_read(&marks->first_token_ns),
        .finished_ns = stat_read(&marks->finished_ns),
    };
}
