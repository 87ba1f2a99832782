// SPDX-License-Identifier: Apache-2.0
// POST /v1/models/load and /v1/models/unload: passes the body to the owner of the server, which
// loads or unloads the model, and answers when that is done.
#include "http/api/endpoints.h"
#include "http/manage.h"

#include "base/json.h"

static void manage_begin(struct exchange *x, bool unload)
{
    struct error err;
    json_t *body;
    struct http_failure failure = {.error = HTTP_INVALID_JSON};
    if (json_parse(&body, exchange_info(x)->body, &err) != STATUS_OK) {
        failure.message = text_of(err.text);
        exchange_fail(x, &failure);
        return;
    }
    const json_t *model = json_object_get(body, "model");
    if (!json_is_string(model)) {
        failure.error = model ? HTTP_INVALID_TYPE : HTTP_MISSING_FIELD;
        failure.param = "model";
        failure.message = text_of("'model' must be the name or the path of a model");
        json_decref(body);
        exchange_fail(x, &failure);
        return;
    }
    struct manage_job *job = heap_alloc_zeroed(1, sizeof *job);
    job->unload = unload;
    job->body = body;
    exchange_state_set(x, job);
    if (exchange_manage(x, job))
        return;
    exchange_state_set(x, NULL);
    atomic_store(&job->users, 1);
    manage_unref(job);
    failure.error = HTTP_UNAVAILABLE;
    failure.message = text_of("This server does not load models at run time.");
    exchange_fail(x, &failure);
}

static void load_request(struct exchange *x)
{
    manage_begin(x, false);
}

static void unload_request(struct exchange *x)
{
    manage_begin(x, true);
}

static void on_managed(struct exchange *x)
{
    struct manage_job *job = exchange_state(x);
    if (!job || !manage_is_done(job))
        return;
    exchange_state_set(x, NULL);
    struct http_failure failure = {.error = job->error, .message = job->message};
    if (job->message.at)
        exchange_fail(x, &failure);
    else
        exchange_reply(x, 200, json_buffer_text(&job->reply));
    manage_unref(job);
}

static void on_gone(struct exchange *x)
{
    struct manage_job *job = exchange_state(x);
    if (job)
        manage_unref(job);
}

enum { BODY_INLINE_MAX = 1 << 20 };

const struct route manage_routes[] = {
    JSON_ROUTE("/v1/models/load", SHAPE_OPENAI, ROUTE_BEARER | ROUTE_ADMIN, BODY_INLINE_MAX,
               .on_request = load_request, .on_managed = on_managed, .on_gone = on_gone),
    JSON_ROUTE("/v1/models/unload", SHAPE_OPENAI, ROUTE_BEARER | ROUTE_ADMIN, BODY_INLINE_MAX,
               .on_request = unload_request, .on_managed = on_managed, .on_gone = on_gone),
    {.path = NULL},
};
