// SPDX-License-Identifier: Apache-2.0
// Implements port_double.h. One mutex per port; events are counted, not stored.
#include "tests/http/port_double.h"

#include "base/arena.h"
#include "base/clock.h"
#include "runtime/grammar/grammar.h"
#include "runtime/grammar/token_rules.h"

#include <pthread.h>
#include <string.h>

struct request {
    struct request *next;
    void *owner;
    uint32_t tokens_waiting, index, choices;
    enum finish finish; // waiting finish event
    bool finish_read, announced, cancelled;
    uint32_t prompt_tokens;
    struct grammar *grammar;
    struct token_rules *rules;
    uint64_t submitted_ns, first_ns;
};

struct port {
    pthread_mutex_t lock;
    struct waker *waker;
    struct engine *engine;
    struct request *requests; // oldest first
    uint64_t read;
};

struct engine {
    const struct model_facts *facts;
    struct engine_stats stats;
    _Atomic int admission;
    _Atomic uint32_t turns;
};

struct engine *engine_double_open(const struct model_facts *facts)
{
    struct engine *engine = heap_alloc_zeroed(1, sizeof *engine);
    engine->facts = facts;
    return engine;
}

void engine_double_close(struct engine *engine)
{
    heap_free(engine);
}

struct engine_stats *engine_double_stats(struct engine *engine)
{
    return &engine->stats;
}

void engine_double_admission_set(struct engine *engine, enum admission answer)
{
    engine->admission = (int)answer;
}

const struct engine_stats *engine_stats(const struct engine *engine)
{
    return &engine->stats;
}

const struct model_facts *engine_facts(const struct engine *engine)
{
    return engine->facts;
}

struct port *port_double_open(struct waker *waker, struct engine *engine)
{
    struct port *port = heap_alloc_zeroed(1, sizeof *port);
    pthread_mutex_init(&port->lock, NULL);
    port->waker = waker;
    port->engine = engine;
    return port;
}

void port_double_close(struct port *port)
{
    while (port->requests) {
        struct request *next = port->requests->next;
        grammar_unref(port->requests->grammar);
        token_rules_unref(port->requests->rules);
        heap_free(port->requests);
        port->requests = next;
    }
    pthread_mutex_destroy(&port->lock);
    heap_free(port);
}

enum admission port_submit(struct port *port, const struct submit_args *args, struct request **out)
{
    enum admission admission = (enum admission)port->engine->admission;
    if (admission != ADMITTED)
        return admission;
    struct request *request = heap_alloc_zeroed(1, sizeof *request);
    request->owner = args->owner;
    request->choices = args->choice_count;
    request->prompt_tokens = args->token_count;
    request->submitted_ns = clock_ns();
    if (args->grammar)
        request->grammar = grammar_ref(args->grammar);
    if (args->rules)
        request->rules = token_rules_ref(args->rules);
    pthread_mutex_lock(&port->lock);
    struct request **link = &port->requests;
    while (*link)
        link = &(*link)->next;
    *link = request;
    pthread_mutex_unlock(&port->lock);
    *out = request;
    return ADMITTED;
}

uint32_t port_choose(struct port *const *ports, uint32_t count, const struct submit_args *args,
                     uint32_t after)
{
    (void)args;
    uint32_t best = count;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = (after + i) % count;
        if (ports[at] && (best == count || (ports[at]->engine->admission == (int)ADMITTED &&
                                            ports[best]->engine->admission != (int)ADMITTED)))
            best = at;
    }
    return best;
}

void port_pages_return(struct port *port)
{
    (void)port;
}

uint32_t port_route_number(struct port *port)
{
    return atomic_fetch_add(&port->engine->turns, 1);
}

void port_cancel(struct port *port, struct request *request)
{
    pthread_mutex_lock(&port->lock);
    request->cancelled = true;
    pthread_mutex_unlock(&port->lock);
}

void port_free(struct port *port, struct request *request)
{
    pthread_mutex_lock(&port->lock);
    check(request->finish_read, "freed before its finish event");
    struct request **link = &port->requests;
    while (*link != request)
        link = &(*link)->next;
    *link = request->next;
    pthread_mutex_unlock(&port->lock);
    grammar_unref(request->grammar);
    token_rules_unref(request->rules);
    heap_free(request);
}

void port_owner_set(struct port *port, struct request *request, void *owner)
{
    pthread_mutex_lock(&port->lock);
    request->owner = owner;
    pthread_mutex_unlock(&port->lock);
}

void port_drain(struct port *port, void (*on_ready)(void *context, void *owner, struct request *),
                void *context)
{
    for (;;) {
        pthread_mutex_lock(&port->lock);
        struct request *r = port->requests;
        while (r && !r->announced)
            r = r->next;
        void *owner = r ? r->owner : NULL;
        if (r)
            r->announced = false;
        pthread_mutex_unlock(&port->lock);
        if (!r)
            return;
        on_ready(context, owner, r);
    }
}

bool port_next(struct port *port, struct request *r, struct token_event *out,
               struct token_top *tops)
{
    (void)tops;
    bool found = true;
    pthread_mutex_lock(&port->lock);
    *out = (struct token_event){0};
    if (r->tokens_waiting > 0) {
        r->tokens_waiting--;
        out->token = (int32_t)r->index;
        out->index = r->index++;
        out->flags = EVENT_TOKEN;
        port->read++;
    } else if (r->finish != FINISH_NONE && !r->finish_read) {
        r->finish_read = true;
        out->finish = (uint8_t)r->finish;
        out->flags = EVENT_LAST;
    } else {
        found = false;
    }
    pthread_mutex_unlock(&port->lock);
    return found;
}

void request_facts_get(const struct request *request, struct request_facts *out)
{
    uint64_t now = clock_ns();
    *out = (struct request_facts){.prompt_tokens = request->prompt_tokens,
                                  .submitted_ns = request->submitted_ns,
                                  .started_ns = request->submitted_ns,
                                  .first_token_ns = request->first_ns,
                                  .finished_ns = now};
}

const float *request_values(const struct request *request, uint32_t sequence)
{
    static const float values[4] = {0.5f, 0.25f, 0.125f, 1.0f};
    (void)request;
    (void)sequence;
    return values;
}

static void give(struct request *r, uint32_t count, enum finish finish)
{
    r->tokens_waiting += count;
    if (r->first_ns == 0 && count > 0)
        r->first_ns = clock_ns();
    if (r->finish == FINISH_NONE)
        r->finish = finish;
    r->announced = true;
}

bool port_double_push(struct port *port, uint32_t nth, uint32_t count, enum finish finish)
{
    pthread_mutex_lock(&port->lock);
    struct request *r = port->requests;
    while (r && nth-- > 0)
        r = r->next;
    if (r)
        give(r, count, finish);
    pthread_mutex_unlock(&port->lock);
    if (r)
        waker_raise(port->waker);
    return r != NULL;
}

void port_double_push_all(struct port *port, uint32_t count, enum finish finish)
{
    pthread_mutex_lock(&port->lock);
    for (struct request *r = port->requests; r; r = r->next)
        give(r, count, finish);
    pthread_mutex_unlock(&port->lock);
    waker_raise(port->waker);
}

void port_double_settle(struct port *port)
{
    pthread_mutex_lock(&port->lock);
    for (struct request *r = port->requests; r; r = r->next)
        if (r->cancelled)
            give(r, 0, FINISH_CANCEL);
    pthread_mutex_unlock(&port->lock);
    waker_raise(port->waker);
}

static uint32_t count_of(struct port *port, bool cancelled)
{
    uint32_t count = 0;
    pthread_mutex_lock(&port->lock);
    for (struct request *r = port->requests; r; r = r->next)
        count += !cancelled || r->cancelled;
    pthread_mutex_unlock(&port->lock);
    return count;
}

uint32_t port_double_live(struct port *port)
{
    return count_of(port, false);
}

uint32_t port_double_cancelled(struct port *port)
{
    return count_of(port, true);
}

uint64_t port_double_read(struct port *port)
{
    pthread_mutex_lock(&port->lock);
    uint64_t read = port->read;
    pthread_mutex_unlock(&port->lock);
    return read;
}
