// SPDX-License-Identifier: Apache-2.0
// POST /v1/models/load and /v1/models/unload: passes the body to the owner of the server, which
// loads or unloads the model, and answers when that is done.
#include "http/api/call.h"
#include "http/api/endpoints.h"
#include "http/manage.h"

struct manage_call {
    struct body_call call;
    struct manage_job *job; // this exchange's reference; NULL: none any more
};

static void job_drop(struct manage_call *m)
{
    if (m->job)
        manage_unref(m->job);
    m->job = NULL;
}

// Returns true if a text has a control character: the rest of the program would read the text to a
// NUL, and a name is written into the log, metrics and folders.
static bool has_controls(const json_t *value)
{
    const char *at = json_string_value(value);
    for (size_t i = 0; i < json_string_length(value); i++)
        if ((unsigned char)at[i] < 0x20 || at[i] == 0x7f)
            return true;
    return false;
}

// Fails the call if a member is a text with a control character, or a list with one.
static void controls_check(struct body_call *call)
{
    const char *key;
    json_t *value;
    json_object_foreach(call->body, key, value)
    {
        bool found = has_controls(value);
        for (size_t i = 0; i < json_array_size(value); i++)
            found = found || has_controls(json_array_get(value, i));
        if (found)
            fields_fail(&call->fields, HTTP_INVALID_VALUE, key,
                        "must not contain control characters");
    }
}

static void job_prepare(struct exchange *x, bool unload)
{
    struct manage_call *m = call_begin(x, sizeof *m);
    const json_t *model = fields_get(&m->call.fields, "model");
    if (!json_is_string(model))
        fields_fail(&m->call.fields, model ? HTTP_INVALID_TYPE : HTTP_MISSING_FIELD, "model",
                    "must be the name or the path of a model");
    controls_check(&m->call);
    m->job = heap_alloc_zeroed(1, sizeof *m->job);
    m->job->unload = unload;
    m->job->body = json_incref(m->call.body);
    atomic_store(&m->job->users, 1);
    call_body_end(&m->call);
}

static void load_prepare(struct exchange *x)
{
    job_prepare(x, false);
}

static void unload_prepare(struct exchange *x)
{
    job_prepare(x, true);
}

static void manage_request(struct exchange *x)
{
    struct manage_call *m = exchange_state(x);
    if (call_failed(&m->call) || exchange_manage(x, m->job))
        return;
    const struct http_failure failure = {
        .error = HTTP_UNAVAILABLE,
        .message = text_of("This server does not load models at run time.")};
    exchange_fail(x, &failure);
}

static void on_managed(struct exchange *x)
{
    struct manage_call *m = exchange_state(x);
    if (!m || !m->job || !manage_is_done(m->job))
        return;
    struct http_failure failure = {.error = m->job->error, .message = m->job->message};
    if (m->job->message.at)
        exchange_fail(x, &failure);
    else
        exchange_reply(x, 200, json_buffer_text(&m->job->reply));
    job_drop(m);
}

static void on_gone(struct exchange *x)
{
    struct manage_call *m = exchange_state(x);
    if (m)
        job_drop(m);
}

const struct route manage_routes[] = {
    JSON_ROUTE("/v1/models/load", SHAPE_OPENAI, ROUTE_BEARER | ROUTE_ADMIN, BODY_INLINE_BYTES_MAX,
               .on_prepare = load_prepare, .on_request = manage_request, .on_managed = on_managed,
               .on_gone = on_gone),
    JSON_ROUTE("/v1/models/unload", SHAPE_OPENAI, ROUTE_BEARER | ROUTE_ADMIN, BODY_INLINE_BYTES_MAX,
               .on_prepare = unload_prepare, .on_request = manage_request, .on_managed = on_managed,
               .on_gone = on_gone),
    {.path = NULL},
};
