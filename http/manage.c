// SPDX-License-Identifier: Apache-2.0
// Jobs that the owner of the server does for an exchange: loading and unloading models. The owner's
// thread marks a job as done and wakes the exchange's h2o thread, which answers.
#include "http/manage.h"

#include "http/internal.h"

bool exchange_manage(struct exchange *x, struct manage_job *job)
{
    const struct server_options *options = &x->thread->server->options;
    if (!options->manage)
        return false;
    exchange_decide(x, NULL); // unloading must not wait for the request to unload
    job->thread = x->thread->index;
    atomic_fetch_add(&job->users, 1);
    options->manage(options->manage_context, job);
    return true;
}

bool manage_is_done(const struct manage_job *job)
{
    // acquire: pairs with the release in server_manage_done, which publishes the reply
    return atomic_load_explicit(&job->done, memory_order_acquire);
}

void manage_unref(struct manage_job *job)
{
    // acq_rel: the last user frees what the other one wrote
    if (atomic_fetch_sub_explicit(&job->users, 1, memory_order_acq_rel) > 1)
        return;
    json_decref(job->body);
    json_buffer_free(&job->reply);
    heap_free(job);
}

void server_manage_done(struct server *server, struct manage_job *job)
{
    struct http_thread *thread = &server->threads[job->thread];
    atomic_store_explicit(&job->done, true, memory_order_release);
    manage_unref(job);
    atomic_store(&thread->managed, true);
    waker_raise(thread->control);
}

void manage_handle_done(struct http_thread *thread)
{
    if (!atomic_exchange(&thread->managed, false))
        return;
    for (struct exchange *x = thread->exchanges, *next; x; x = next) {
        next = x->next;
        if (x->route && x->route->on_managed && !exchange_is_lent(x) && !exchange_gone(x))
            exchange_run(x, x->route->on_managed);
    }
}
