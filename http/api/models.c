// GET /v1/models and /v1/models/{id}: one body that both client families can read.
#include "http/api/endpoints.h"

#include <time.h>

// What a client may ask of it.
static const char *kind_of(const struct served_model *model)
{
    static const char *const kinds[] = {
        [MODEL_GENERATOR] = "generator",
        [MODEL_EMBEDDER] = "embedder",
        [MODEL_RERANKER] = "reranker",
    };
    return kinds[model->facts->kind];
}

static void model_put(struct json_buffer *out, const struct served_model *model)
{
    struct tm parts;
    char created_at[32];
    time_t created = (time_t)model->created;
    gmtime_r(&created, &parts);
    strftime(created_at, sizeof created_at, "%Y-%m-%dT%H:%M:%SZ", &parts);
    uint32_t length = model->facts->max_model_len;
    json_put_literal(out, "{\"id\":");
    json_put_string(out, text_of(model->id));
    json_put_format(out,
                    ",\"object\":\"model\",\"type\":\"model\",\"created\":%lld,\"created_at\":"
                    "\"%s\",\"owned_by\":\"local\",\"display_name\":",
                    (long long)model->created, created_at);
    json_put_string(out, text_of(model->id));
    json_put_format(out,
                    ",\"kind\":\"%s\",\"max_model_len\":%u,\"max_input_tokens\":%u,"
                    "\"max_tokens\":%u,"
                    "\"lifecycle\":\"active\",\"line\":null,\"capabilities\":null,"
                    "\"deprecated_at\":null,\"retires_at\":null}",
                    kind_of(model), length, length, length);
}

static void reply(struct exchange *x, struct json_buffer *body)
{
    exchange_reply(x, 200, text_span(body->at, body->bytes));
    json_buffer_free(body);
}

static void id_put(struct json_buffer *out, const struct served *served, uint32_t index)
{
    if (served->count == 0)
        json_put_literal(out, "null");
    else
        json_put_string(out, text_of(served->models[index].id));
}

static void list_request(struct exchange *x)
{
    const struct served *served = exchange_info(x)->served;
    struct json_buffer body = {0};
    json_put_literal(&body, "{\"object\":\"list\",\"data\":[");
    for (uint32_t i = 0; i < served->count; i++) {
        json_put_literal(&body, i > 0 ? "," : "");
        model_put(&body, &served->models[i]);
    }
    json_put_literal(&body, "],\"has_more\":false,\"first_id\":");
    id_put(&body, served, 0);
    json_put_literal(&body, ",\"last_id\":");
    id_put(&body, served, served->count - 1);
    json_put_literal(&body, "}");
    reply(x, &body);
}

static void one_request(struct exchange *x)
{
    const struct exchange_info *info = exchange_info(x);
    const struct served_model *model = served_find(info->served, info->path_rest);
    if (model) {
        struct json_buffer body = {0};
        model_put(&body, model);
        reply(x, &body);
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
     .flags = ROUTE_EITHER_KEY | ROUTE_SHAPE_OF_CALLER,
     .on_request = list_request},
    {.method = "GET",
     .path = "/v1/models/",
     .flags = ROUTE_EITHER_KEY | ROUTE_SHAPE_OF_CALLER,
     .on_request = one_request},
    {.path = NULL},
};
