// SPDX-License-Identifier: Apache-2.0
// GET /v1/models and /v1/models/{id}: the body has the members of both the OpenAI and the Anthropic
// API.
#include "http/api/endpoints.h"
#include "http/route.h"

#include <math.h>
#include <time.h>

// Writes the recommended sampling, without values that are not recommended; null if there is none.
static void sampling_put(struct json_buffer *out, const struct model_defaults *d)
{
    const struct {
        const char *name;
        double value;
    } rows[] = {{"temperature", d->temperature},
                {"top_p", d->top_p},
                {"top_k", d->top_k},
                {"min_p", d->min_p},
                {"repetition_penalty", d->repetition_penalty}};
    bool any = false;
    json_put_literal(out, ",\"sampling_defaults\":");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (isnan(rows[i].value))
            continue;
        json_put_format(out, "%s\"%s\":%.10g", any ? "," : "{", rows[i].name, rows[i].value);
        any = true;
    }
    json_put_literal(out, any ? "}" : "null");
}

static void model_put(struct json_buffer *out, const struct served_model *model)
{
    struct tm parts;
    char created_at[32];
    time_t created = (time_t)model->created;
    gmtime_r(&created, &parts);
    strftime(created_at, sizeof created_at, "%Y-%m-%dT%H:%M:%SZ", &parts);
    uint32_t length = model->facts->max_model_len;
    json_put_member(out, "{\"id\":", text_of(model->id));
    json_put_format(out,
                    ",\"object\":\"model\",\"type\":\"model\",\"created\":%lld,\"created_at\":"
                    "\"%s\",\"owned_by\":\"local\",\"display_name\":",
                    (long long)model->created, created_at);
    json_put_string(out, text_of(model->id));
    json_put_format(out,
                    ",\"kind\":\"%s\",\"max_model_len\":%u,\"max_input_tokens\":%u,"
                    "\"max_tokens\":%u",
                    model_kind_name(model->facts->kind), length, length, length);
    sampling_put(out, &model->facts->recommended);
    json_put_literal(out, ",\"lifecycle\":\"active\",\"line\":null,\"capabilities\":null,"
                          "\"deprecated_at\":null,\"retires_at\":null}");
}

static void models_reply(struct exchange *x, struct json_buffer *body)
{
    exchange_reply(x, 200, json_buffer_text(body));
    json_buffer_free(body);
}

static void models_fail(struct exchange *x, const char *param, const char *must)
{
    struct http_failure failure = {.error = HTTP_INVALID_VALUE, .param = param};
    bool messages = exchange_info(x)->shape == SHAPE_MESSAGES;
    failure.message = arena_format(exchange_arena(x), messages ? "%s: %s" : "'%s' %s", param, must);
    exchange_fail(x, &failure);
}

// A range [from, to) of indices in served->models.
struct model_page {
    uint32_t from, to;
    bool more; // true if there are more models in the direction of paging
};

// Reads a parameter that names a model; *out is its index, or `absent`. Returns false if it failed.
static bool place_read(struct exchange *x, const char *name, uint32_t *out, uint32_t absent)
{
    const struct exchange_info *info = exchange_info(x);
    struct text id = query_find(info->query, name, exchange_arena(x));
    const struct served_model *model = id.at ? served_find(info->served, id) : NULL;
    *out = model ? (uint32_t)(model - info->served->models) : absent;
    bool judged = info->shape == SHAPE_MESSAGES;
    if (id.at && !model && judged)
        models_fail(x, name, "must be the id of a model");
    return !id.at || model || !judged;
}

// Reads Anthropic's paging parameters; without them, the page has all models. Requests in the
// OpenAI shape are not checked: their values are used if they make sense. Returns false if it
// failed.
static bool page_read(struct exchange *x, struct model_page *out)
{
    enum { LIMIT_MAX = 1000 };
    const struct exchange_info *info = exchange_info(x);
    uint32_t count = info->served->count, after, limit = 0;
    struct text wanted = query_find(info->query, "limit", exchange_arena(x));
    for (size_t i = 0; i < wanted.bytes && limit <= LIMIT_MAX; i++) {
        bool digit = wanted.at[i] >= '0' && wanted.at[i] <= '9';
        limit = digit ? limit * 10 + (uint32_t)(wanted.at[i] - '0') : LIMIT_MAX + 1;
    }
    bool judged = info->shape == SHAPE_MESSAGES;
    if (judged && wanted.at && (limit == 0 || limit > LIMIT_MAX)) {
        models_fail(x, "limit", "must be a whole number from 1 to 1000");
        return false;
    }
    if (!place_read(x, "after_id", &after, UINT32_MAX) ||
        !place_read(x, "before_id", &out->to, UINT32_MAX))
        return false;
    if (!judged && after != UINT32_MAX)
        out->to = UINT32_MAX;
    if (after != UINT32_MAX && out->to != UINT32_MAX) {
        models_fail(x, "before_id", "cannot be given together with after_id");
        return false;
    }
    bool back = out->to != UINT32_MAX;
    out->to = back ? out->to : count;
    out->from = after == UINT32_MAX ? 0 : after + 1;
    out->more = limit > 0 && out->to - out->from > limit;
    if (out->more && back)
        out->from = out->to - limit;
    else if (out->more)
        out->to = out->from + limit;
    return true;
}

static void id_put(struct json_buffer *out, const struct served *served,
                   const struct model_page *page, uint32_t index)
{
    if (page->from == page->to)
        json_put_literal(out, "null");
    else
        json_put_string(out, text_of(served->models[index].id));
}

static void list_request(struct exchange *x)
{
    const struct served *served = exchange_info(x)->served;
    struct json_buffer body = {0};
    struct model_page page;
    if (!page_read(x, &page))
        return;
    json_put_literal(&body, "{\"object\":\"list\",\"data\":[");
    for (uint32_t i = page.from; i < page.to; i++) {
        json_put_literal(&body, i > page.from ? "," : "");
        model_put(&body, &served->models[i]);
    }
    json_put_format(&body, "],\"has_more\":%s,\"first_id\":", page.more ? "true" : "false");
    id_put(&body, served, &page, page.from);
    json_put_literal(&body, ",\"last_id\":");
    id_put(&body, served, &page, page.to - 1);
    json_put_literal(&body, "}");
    models_reply(x, &body);
}

static void one_request(struct exchange *x)
{
    const struct exchange_info *info = exchange_info(x);
    const struct served_model *model = served_find(info->served, info->path_rest);
    if (model) {
        struct json_buffer body = {0};
        model_put(&body, model);
        models_reply(x, &body);
        return;
    }
    enum { SHOWN_MAX = 256 };
    int shown = (int)(info->path_rest.bytes < SHOWN_MAX ? info->path_rest.bytes : SHOWN_MAX);
    bool messages = info->shape == SHAPE_MESSAGES;
    struct http_failure failure = {.error = HTTP_MODEL_NOT_FOUND, .param = "model"};
    failure.message = arena_format(exchange_arena(x),
                                   messages ? "model: %.*s" : "The model '%.*s' does not exist.",
                                   shown, info->path_rest.at);
    exchange_fail(x, &failure);
}

const struct route models_routes[] = {
    {.method = "GET",
     .path = "/v1/models",
     .flags = ROUTE_BEARER | ROUTE_SHAPE_OF_CALLER,
     .on_request = list_request},
    {.method = "GET",
     .path = "/v1/models/",
     .flags = ROUTE_BEARER | ROUTE_SHAPE_OF_CALLER,
     .on_request = one_request},
    {.path = NULL},
};
