// SPDX-License-Identifier: Apache-2.0
// Exact-match table of (method, path) with aliases. A trailing slash is dropped before matching.
// Pure.
#include "http/route.h"

#include "base/status.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct alias {
    const char *from, *to;
};

// For clients that are pointed at {base_url}/v1 and append /v1 themselves. Endpoints list their own
// aliases as rows.
static const struct alias aliases[] = {
    {"/v1/v1/models", "/v1/models"},
    {"/ping", "/health"},
};

void route_list_add(struct route_list *out, const struct route *rows)
{
    for (; rows->path; rows++) {
        check(out->count < ROUTES_COUNT_MAX, "over %d routes", ROUTES_COUNT_MAX);
        out->rows[out->count++] = rows;
    }
}

void route_list_fill(struct route_list *out, const struct route *const *tables)
{
    out->count = 0;
    for (; *tables; tables++)
        route_list_add(out, *tables);
}

// Returns the next character of raw and advances *at. Decodes %xx; every other byte is returned
// unchanged.
static char char_read(struct text raw, size_t *at)
{
    const char *from = raw.at + *at;
    int high = -1, low = -1;
    if (*from == '%' && raw.bytes - *at > 2) {
        high = text_hex(from[1]);
        low = text_hex(from[2]);
    }
    bool coded = high >= 0 && low >= 0;
    *at += coded ? 3 : 1;
    return (char)(coded ? high << 4 | low : *from);
}

static bool name_is(struct text raw, const char *name)
{
    size_t at = 0;
    while (at < raw.bytes && *name != '\0')
        if (char_read(raw, &at) != *name++)
            return false;
    return at == raw.bytes && *name == '\0';
}

struct text query_next(struct text *query, const char *name, struct arena *arena)
{
    while (query->bytes > 0) {
        const char *end = memchr(query->at, '&', query->bytes);
        struct text pair = text_span(query->at, end ? (size_t)(end - query->at) : query->bytes);
        size_t passed = pair.bytes + (end != NULL);
        *query = text_span(query->at + passed, query->bytes - passed);
        const char *equals = memchr(pair.at, '=', pair.bytes);
        size_t bytes = equals ? (size_t)(equals - pair.at) : pair.bytes;
        if (!name_is(text_span(pair.at, bytes), name))
            continue;
        char *value = arena_alloc(arena, pair.bytes + 1);
        size_t at = bytes + (equals != NULL), count = 0;
        while (value && at < pair.bytes) {
            bool space = pair.at[at] == '+';
            char c = char_read(pair, &at);
            value[count++] = space ? ' ' : c;
        }
        return text_span(value, count);
    }
    return (struct text){0};
}

struct text query_find(struct text query, const char *name, struct arena *arena)
{
    return query_next(&query, name, arena);
}

static bool is_dots(const char *at, size_t bytes)
{
    struct text segment = text_span(at, bytes);
    return text_is(segment, ".") || text_is(segment, "..");
}

struct path path_decode(struct text raw, char *buffer)
{
    struct path path = {.plain = SIZE_MAX};
    size_t at = 0, bytes = 0, segment = 0;
    while (at < raw.bytes) {
        bool slash = raw.at[at] == '/';
        buffer[bytes] = char_read(raw, &at);
        if (buffer[bytes] == '/') {
            if (!slash && path.plain == SIZE_MAX)
                path.plain = bytes;
            path.dotted = path.dotted || is_dots(buffer + segment, bytes - segment);
            segment = bytes + 1;
        }
        bytes++;
    }
    path.dotted = path.dotted || is_dots(buffer + segment, bytes - segment);
    bool slash = raw.bytes > 0 && raw.at[raw.bytes - 1] == '/';
    path.text = text_span(buffer, slash && bytes > 1 ? bytes - 1 : bytes);
    return path;
}

static bool path_is(struct path path, const char *string)
{
    return path.plain == SIZE_MAX && text_is(path.text, string);
}

static bool has_prefix(struct path path, const char *prefix, struct text *rest)
{
    size_t bytes = strlen(prefix);
    if (path.text.bytes <= bytes || path.plain < bytes || memcmp(path.text.at, prefix, bytes) != 0)
        return false;
    *rest = text_span(path.text.at + bytes, path.text.bytes - bytes);
    return true;
}

static bool path_matches(const char *row, struct path path, struct text *rest)
{
    *rest = (struct text){NULL, 0};
    if (path_is(path, row))
        return true;
    size_t bytes = strlen(row);
    return bytes > 1 && row[bytes - 1] == '/' && has_prefix(path, row, rest);
}

// Returns the path of a row without "/v1", for clients whose base URL lacks it; NULL if the row is
// not served under that path.
static const char *path_short(const char *row)
{
    static const char *const names[] = {"/v1/chat/",  "/v1/completions", "/v1/embeddings",
                                        "/v1/models", "/v1/responses",   "/v1/messages"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strncmp(row, names[i], strlen(names[i])) == 0)
            return row + strlen("/v1");
    return NULL;
}

static bool row_matches(const struct route *row, struct path path, struct text *rest)
{
    const char *name = path_short(row->path);
    return path_matches(row->path, path, rest) || (name && path_matches(name, path, rest));
}

static void allow_add(struct route_match *out, const char *method)
{
    size_t at = strlen(out->allow);
    snprintf(out->allow + at, sizeof out->allow - at, "%s%s%s", at > 0 ? ", " : "", method,
             strcmp(method, "GET") == 0 ? ", HEAD" : "");
}

static struct path path_canonical(struct path path)
{
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        if (path_is(path, aliases[i].from))
            return (struct path){.text = text_of(aliases[i].to), .plain = SIZE_MAX};
    struct text rest;
    if (has_prefix(path, "/v1/v1/models/", &rest)) {
        size_t more = strlen("/v1");
        path.text = text_span(path.text.at + more, path.text.bytes - more);
        path.plain -= path.plain == SIZE_MAX ? 0 : more;
    }
    return path;
}

enum shape path_shape(struct text path)
{
    static const char *const prefixes[] = {"/v1/messages", "/v1/v1/messages", "/messages"};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        size_t bytes = strlen(prefixes[i]);
        if (text_begins(path, prefixes[i]) &&
            (path.bytes == bytes || path.at[bytes] == '/' || path.at[bytes] == '?'))
            return SHAPE_MESSAGES;
    }
    return SHAPE_OPENAI;
}

void route_find(const struct route_list *list, struct text method, struct path path,
                struct route_match *out)
{
    *out = (struct route_match){.index = list->count, .shape = path_shape(path.text)};
    if (text_is(method, "OPTIONS") && (path_is(path, "*") || path_is(path, "/*"))) {
        // "OPTIONS *" is about the server as a whole; h2o puts a slash before the asterisk
        snprintf(out->allow, sizeof out->allow, "GET, HEAD, POST, OPTIONS");
        out->path_known = out->options = true;
        return;
    }
    if (path.dotted)
        return;
    path = path_canonical(path);
    bool head = text_is(method, "HEAD");
    for (uint32_t i = 0; i < list->count; i++) {
        const struct route *row = list->rows[i];
        struct text rest;
        if (!row_matches(row, path, &rest))
            continue;
        out->path_known = true;
        out->shape = row->shape;
        out->shape_of_caller = (row->flags & ROUTE_SHAPE_OF_CALLER) != 0;
        allow_add(out, row->method);
        if (!out->route &&
            (text_is(method, row->method) || (head && strcmp(row->method, "GET") == 0))) {
            out->route = row;
            out->index = i;
            out->path_rest = rest;
            out->head = head;
        }
    }
    out->options = out->path_known && text_is(method, "OPTIONS");
}
