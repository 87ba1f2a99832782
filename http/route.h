// The router: exact paths and aliases, no h2o type. Built once from route_tables, then read-only.
#pragma once

#include "http/exchange.h"

enum { ROUTES_COUNT_MAX = 64, ALLOW_BYTES_MAX = 64 };

struct route_list {
    const struct route *rows[ROUTES_COUNT_MAX];
    uint32_t count;
};

// tables ends with NULL.
void route_list_fill(struct route_list *out, const struct route *const *tables);
void route_list_add(struct route_list *out, const struct route *rows); // rows ends without a path

struct route_match {
    const struct route *route; // NULL: 404, 405 or OPTIONS
    uint32_t index;            // of the row; route_list.count when there is none
    struct text path_rest;
    bool path_known;
    bool head; // HEAD on a GET route
    bool options;
    char allow[ALLOW_BYTES_MAX]; // "POST" or "GET, HEAD"
    enum shape shape;            // of errors
    bool shape_of_caller;        // but for callers that say theirs
};

// A request's path with %xx decoded, once. An encoded slash matches no slash of a route:
// '/v1/models/org%2Fname' names a model with a slash. A path with a segment "." or ".." has no
// route: a proxy in front that decides by the path as sent would let through another one.
struct path {
    struct text text;
    size_t plain; // bytes before the first encoded slash, SIZE_MAX: there is none
    bool dotted;  // a segment between slashes of either kind is "." or ".."
};

// raw: without query; room: as many bytes, for the result. A trailing slash is dropped.
struct path path_decode(struct text raw, char *room);

// The first value of this name in a query, decoded once, in the arena; at == NULL: it is not there.
struct text query_find(struct text query, const char *name, struct arena *arena);
// Likewise, and *query is then what stands after it.
struct text query_next(struct text *query, const char *name, struct arena *arena);

void route_find(const struct route_list *list, struct text method, struct path path,
                struct route_match *out);

enum shape path_shape(struct text path); // of errors on unknown paths
