// SPDX-License-Identifier: Apache-2.0
// The router: matches exact paths and aliases. No h2o type. Built once from route_tables, then
// read-only.
#pragma once

#include "http/exchange.h"

enum { ROUTES_COUNT_MAX = 64, ALLOW_BYTES_MAX = 64 };

struct route_list {
    const struct route *rows[ROUTES_COUNT_MAX];
    uint32_t count;
};

// Fills `out` from the tables, a list that ends with NULL.
void route_list_fill(struct route_list *out, const struct route *const *tables);
// Appends rows; the last one has no path and is not appended.
void route_list_add(struct route_list *out, const struct route *rows);

struct route_match {
    const struct route *route; // NULL: 404, 405 or OPTIONS
    uint32_t index;            // index of the row; route_list.count if none matched
    struct text path_rest;
    bool path_known;
    bool head; // true for HEAD on a GET route
    bool options;
    char allow[ALLOW_BYTES_MAX]; // "POST" or "GET, HEAD"
    enum shape shape;            // shape of error bodies
    bool shape_of_caller;        // true if the caller's headers may change that shape
};

// A request's path with %xx decoded once. An encoded slash does not match a slash of a route:
// '/v1/models/org%2Fname' names a model whose id contains a slash. A path with a segment "." or
// ".." matches no route, because a reverse proxy that checks the undecoded path may have allowed
// another one.
struct path {
    struct text text;
    size_t plain; // bytes before the first encoded slash; SIZE_MAX: no encoded slash
    bool dotted;  // true if a segment is "." or ".."; encoded slashes separate segments too
};

// Decodes `raw`, a path without its query, into `buffer`, which has at least raw.bytes bytes that
// the result points into. Drops a trailing slash.
struct path path_decode(struct text raw, char *buffer);

// Returns the first value of this name in a query, copied to the arena with %xx and '+' (a space)
// decoded once; at == NULL: not found, or the arena is full.
struct text query_find(struct text query, const char *name, struct arena *arena);
// Returns the first value like query_find, and moves *query past it, so that the next call finds
// the next value.
struct text query_next(struct text *query, const char *name, struct arena *arena);

// Fills *out for a request: the route, or why there is none.
void route_find(const struct route_list *list, struct text method, struct path path,
                struct route_match *out);

enum shape path_shape(struct text path); // shape of errors on unknown paths
