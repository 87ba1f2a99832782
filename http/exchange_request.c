// SPDX-License-Identifier: Apache-2.0
// The engine request of an exchange: ports, attach, detach, and orphans. An orphan is an engine
// request whose exchange is gone or has ended early: it has no owner, its events are dropped, and
// it is freed at its last finish event. All on the port's h2o thread.
#include "http/internal.h"

static struct port *port_of(const struct http_thread *thread, uint32_t slot)
{
    const struct server *server = thread->server;
    return atomic_load_explicit(&server->ports[slot * server->thread_count + thread->index],
                                memory_order_acquire);
}

void exchange_decide(struct exchange *x, const struct served_model *model)
{
    if (x->engine.decided)
        return;
    // in this order, seq_cst: a thread that reads 0 undecided exchanges then counts all that chose
    // the model
    if (model && model->use)
        atomic_fetch_add(&model->use->exchanges, 1);
    if (x->info.served && x->info.served->use)
        atomic_fetch_sub(&x->info.served->use->undecided, 1);
    x->engine.decided = true;
}

void exchange_served_ref(struct exchange *x, const struct served *served)
{
    x->info.served = served;
    if (!served || !served->use)
        return;
    atomic_fetch_add(&served->use->exchanges, 1);
    atomic_fetch_add(&served->use->undecided, 1);
}

void exchange_served_unref(struct exchange *x)
{
    const struct served *served = x->info.served;
    if (x->engine.model && x->engine.model->use)
        atomic_fetch_sub(&x->engine.model->use->exchanges, 1);
    if (!served || !served->use)
        return;
    exchange_decide(x, NULL);
    atomic_fetch_sub(&served->use->exchanges, 1); // the last access: the list may be freed now
}

struct port *exchange_port(struct exchange *x, const struct served_model *model,
                           const struct submit_args *args)
{
    const struct served *served = x->info.served;
    check(served && model >= served->models && model < served->models + served->count,
          "a model that is not served");
    struct port *ports[COPIES_MAX];
    uint32_t first = model->copies->slot, count = model->copy_count;
    for (uint32_t i = 0; i < count; i++)
        ports[i] = x->engine.copies_tried >> i & 1 ? NULL : port_of(x->thread, first + i);
    uint32_t number =
        port_route_number(port_of(x->thread, first)); // counts the requests of all threads
    uint32_t chosen = port_choose(ports, count, args, number);
    exchange_decide(x, model);
    x->engine.model = model;
    if (chosen == count)
        return NULL;
    x->engine.copies_tried |= 1u << chosen;
    x->engine.copy = &model->copies[chosen];
    return ports[chosen];
}

void exchange_attach(struct exchange *x, struct port *port, struct request *request)
{
    check(!x->engine.request, "a second engine request on one exchange");
    x->engine.port = port;
    x->engine.request = request;
}

void exchange_detach(struct exchange *x)
{
    check(x->engine.request, "detach without an engine request");
    request_facts_get(x->engine.request, &x->engine.facts);
    counters_request_done(x);
    port_free(x->engine.port, x->engine.request);
    x->engine.request = NULL;
}

// Returns true if that freed the request.
static bool events_drop(struct port *port, struct request *request)
{
    struct token_event event;
    while (port_next(port, request, &event, NULL)) {
        if ((event.flags & EVENT_LAST) == 0)
            continue;
        port_free(port, request);
        return true;
    }
    return false;
}

void exchange_request_orphan(struct exchange *x)
{
    struct port *port = x->engine.port;
    struct request *request = x->engine.request;
    x->engine.request = NULL;
    request_facts_get(request, &x->engine.facts);
    port_owner_set(port, request, NULL);
    port_cancel(port, request);
    // if the finish event is already in the ring, the engine does not announce it again
    if (!events_drop(port, request))
        atomic_fetch_add_explicit(&x->thread->counters.orphans, 1, memory_order_relaxed);
}

struct drain_context {
    struct http_thread *thread;
    struct port *port;
};

static void on_request_news(void *context, void *owner, struct request *request)
{
    struct drain_context *drain = context;
    struct exchange *x = owner;
    if (!x) {
        if (events_drop(drain->port, request))
            atomic_fetch_sub_explicit(&drain->thread->counters.orphans, 1, memory_order_relaxed);
        return;
    }
    if (x->job.state == JOB_NONE && x->engine.request == request)
        exchange_run(x, x->route->on_ready);
}

void exchange_requests_pages_return(struct http_thread *thread)
{
    const struct server *server = thread->server;
    bool served = atomic_load_explicit(&server->served, memory_order_acquire);
    for (uint32_t i = 0; served && i < server->slot_count; i++) {
        struct port *port = port_of(thread, i);
        if (port)
            port_pages_return(port);
    }
}

void exchange_requests_drain(struct http_thread *thread)
{
    const struct server *server = thread->server;
    bool served = atomic_load_explicit(&server->served, memory_order_acquire);
    // also slots of models that are not served any more, whose last requests end
    for (uint32_t i = 0; served && i < server->slot_count; i++) {
        struct port *port = port_of(thread, i);
        struct drain_context context = {thread, port};
        if (port)
            port_drain(port, on_request_news, &context);
    }
}
