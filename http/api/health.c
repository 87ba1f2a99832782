// SPDX-License-Identifier: Apache-2.0
// GET /health and /v1/health: 200 while event loops and engines make progress. GET /ready: 200 if
// the models are loaded and the server is not draining. GET /version and /openapi.json.
// A failed model is reported by /ready, but /health ignores it while another model serves:
// restarting the process would end that one as well.
#include "http/api/endpoints.h"
#include "http/counters.h"
#include "base/clock.h"
#include "base/json.h"

#include <stdio.h>

enum { BEAT_LATE_S = 10, STEP_LATE_S = 30 }; // the message of engine_fault states the latter

static const uint64_t second_ns = 1000000000;

static void health_fail(struct exchange *x, struct text message)
{
    struct http_failure failure = {.error = HTTP_UNAVAILABLE, .message = message};
    exchange_fail(x, &failure);
}

static bool is_past(uint64_t since_ns, uint64_t now, uint64_t seconds)
{
    return since_ns != 0 && now > since_ns && now - since_ns > seconds * second_ns;
}

// Returns the problem of an engine, or NULL. The loop of an idle engine runs once a second, that of
// a busy one at the end of each step.
static const char *engine_fault(const struct engine *engine, uint64_t now)
{
    const struct engine_stats *stats = engine_stats(engine);
    uint64_t begun = atomic_load_explicit(&stats->step_started_ns, memory_order_relaxed);
    uint64_t beat = atomic_load_explicit(&stats->beat_ns, memory_order_relaxed);
    if (begun != 0)
        return is_past(begun, now, STEP_LATE_S) ? "has not finished a step for 30 s" : NULL;
    return is_past(beat, now, BEAT_LATE_S) ? "makes no progress" : NULL;
}

static uint32_t failed_count(const struct served *served)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < served->count; i++)
        count += served_has_failed(&served->models[i]);
    return count;
}

static bool health_is_fine(struct exchange *x, const struct server_view *view)
{
    uint64_t now = clock_ns();
    if (is_past(view->beat_oldest_ns, now, BEAT_LATE_S)) {
        health_fail(x, text_of("Degraded: an HTTP thread makes no progress."));
        return false;
    }
    if (view->served->count > 0 && failed_count(view->served) == view->served->count) {
        health_fail(x, text_of("Degraded: every model has failed."));
        return false;
    }
    for (uint32_t i = 0; i < view->served->copy_count; i++) {
        const struct served_copy *copy = &view->served->copies[i];
        const struct served_model *model = copy->model;
        const char *fault = engine_fault(copy->engine, now);
        if (!fault || served_copy_failed(copy))
            continue;
        char which[32] = "";
        if (model->copy_count > 1)
            snprintf(which, sizeof which, "copy %u of ", (uint32_t)(copy - model->copies));
        health_fail(x, arena_format(exchange_arena(x), "Degraded: the engine of %s'%s' %s.", which,
                                    model->id, fault));
        return false;
    }
    return true;
}

static void health_request(struct exchange *x)
{
    struct server_view view;
    server_view_get(x, &view);
    if (!view.served)
        health_fail(x, text_of("The models are still being loaded."));
    else if (health_is_fine(x, &view))
        exchange_reply(x, 200, text_of("{\"status\":\"ok\"}"));
}

static const char *state_of(bool failed)
{
    return failed ? "\"failed\"" : "\"ready\"";
}

// Writes the state of each copy, for models with several copies.
static void copies_put(struct json_buffer *out, const struct served *served)
{
    bool some = false;
    for (uint32_t i = 0; i < served->count; i++) {
        const struct served_model *model = &served->models[i];
        if (model->copy_count < 2)
            continue;
        json_put_member(out, some ? "," : ",\"copies\":{", text_of(model->id));
        for (uint32_t c = 0; c < model->copy_count; c++)
            json_put_format(out, "%s%s", c > 0 ? "," : ":[",
                            state_of(served_copy_failed(&model->copies[c])));
        json_put_literal(out, "]");
        some = true;
    }
    json_put_literal(out, some ? "}" : "");
}

// Lists all models with their state if one has failed.
static void ready_reply(struct exchange *x, const struct served *served)
{
    struct json_buffer out = {0};
    json_put_literal(&out, "{\"status\":\"ready\"");
    if (failed_count(served) > 0) {
        json_put_literal(&out, ",\"models\":{");
        for (uint32_t i = 0; i < served->count; i++) {
            const struct served_model *model = &served->models[i];
            json_put_member(&out, i > 0 ? "," : "", text_of(model->id));
            json_put_format(&out, ":%s", state_of(served_has_failed(model)));
        }
        json_put_literal(&out, "}");
    }
    copies_put(&out, served);
    json_put_literal(&out, "}");
    exchange_reply(x, 200, json_buffer_text(&out));
    json_buffer_free(&out);
}

static void ready_request(struct exchange *x)
{
    struct server_view view;
    server_view_get(x, &view);
    if (view.draining)
        health_fail(x, text_of("The server is shutting down."));
    else if (!view.served)
        health_fail(x, text_of("The models are still being loaded."));
    else if (health_is_fine(x, &view))
        ready_reply(x, view.served);
}

static void version_request(struct exchange *x)
{
    exchange_reply(x, 200, text_of("{\"version\":\"" WEFT_VERSION "\"}"));
}

static void openapi_request(struct exchange *x)
{
    exchange_reply(x, 200, text_span(openapi_json, openapi_json_bytes));
}

const struct route health_routes[] = {
    {.method = "GET", .path = "/health", .flags = ROUTE_OPEN, .on_request = health_request},
    {.method = "GET", .path = "/v1/health", .flags = ROUTE_BEARER, .on_request = health_request},
    {.method = "GET", .path = "/ready", .flags = ROUTE_OPEN, .on_request = ready_request},
    {.method = "GET", .path = "/version", .flags = ROUTE_OPEN, .on_request = version_request},
    {.method = "GET", .path = "/openapi.json", .flags = ROUTE_OPEN, .on_request = openapi_request},
    {.path = NULL},
};
