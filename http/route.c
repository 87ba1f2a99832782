// Exact-match table of (method, path) with aliases; a trailing slash is the same route. Pure.
#include "http/route.h"

#include "kernels/status.h"

#include <stdio.h>

struct alias {
    const char *from, *to;
};

// Clients pointed at {base_url}/v1 append /v1 themselves. Endpoints list their own aliases as rows.
static const struct alias aliases[] = {
    {"/v1/v1/models", "/v1/models"},
    {"/ping", "/health"},
};

void route_list_fill(struct route_list *out, const struct route *const *tables,
                     const uint32_t *counts)
{
    out->count = 0;
    for (uint32_t t = 0; tables[t] != NULL; t++) {
        for (uint32_t i = 0; i < counts[t]; i++) {
            check(out->count < ROUTES_COUNT_MAX, "over %d routes", ROUTES_COUNT_MAX);
            out->rows[out->count++] = &tables[t][i];
        }
    }
}

static bool has_prefix(struct text path, const char *prefix, struct text *rest)
{
    size_t bytes = strlen(prefix);
    if (path.bytes <= bytes || memcmp(path.at, prefix, bytes) != 0)
        return false;
    *rest = text_span(path.at + bytes, path.bytes - bytes);
    return true;
}

static bool path_matches(const struct route *row, struct text path, struct text *rest)
{
    *rest = (struct text){NULL, 0};
    if (text_is(path, row->path))
        return true;
    size_t bytes = strlen(row->path);
    return bytes > 1 && row->path[bytes - 1] == '/' && has_prefix(path, row->path, rest);
}

static void allow_add(struct route_match *out, const char *method)
{
    size_t at = strlen(out->allow);
    snprintf(out->allow + at, sizeof out->allow - at, "%s%s%s", at > 0 ? ", " : "", method,
             strcmp(method, "GET") == 0 ? ", HEAD" : "");
}

static struct text path_canonical(struct text path)
{
    if (path.bytes > 1 && path.at[path.bytes - 1] == '/')
        path.bytes--;
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        if (text_is(path, aliases[i].from))
            return text_of(aliases[i].to);
    struct text rest;
    if (has_prefix(path, "/v1/v1/models/", &rest)) // one of them
        return text_span(path.at + strlen("/v1"), path.bytes - strlen("/v1"));
    return path;
}

enum shape path_shape(struct text path)
{
    static const char *const prefixes[] = {"/v1/messages", "/v1/v1/messages"};
    for (size_t i = 0; i < 2; i++) {
        size_t bytes = strlen(prefixes[i]);
        if (path.bytes >= bytes && memcmp(path.at, prefixes[i], bytes) == 0 &&
            (path.bytes == bytes || strchr("/?", path.at[bytes]) != NULL))
            return SHAPE_MESSAGES;
    }
    return SHAPE_OPENAI;
}

void route_find(const struct route_list *list, struct text method, struct text path,
                struct route_match *out)
{
    *out = (struct route_match){.index = list->count, .shape = path_shape(path)};
    if (text_is(method, "OPTIONS") && (text_is(path, "*") || text_is(path, "/*"))) {
        // the server as a whole; h2o puts a slash in front
        snprintf(out->allow, sizeof out->allow, "GET, HEAD, POST, OPTIONS");
        out->path_known = out->options = true;
        return;
    }
    path = path_canonical(path);
    bool head = text_is(method, "HEAD");
    for (uint32_t i = 0; i < list->count; i++) {
        const struct route *row = list->rows[i];
        struct text rest;
        if (!path_matches(row, path, &rest))
            continue;
        out->path_known = true;
        out->shape = row->shape;
        allow_add(out, row->method);
        if (out->route == NULL &&
            (text_is(method, row->method) || (head && strcmp(row->method, "GET") == 0))) {
            out->route = row;
            out->index = i;
            out->path_rest = rest;
            out->head = head;
        }
    }
    out->options = out->path_known && text_is(method, "OPTIONS");
}
