// The router: exact paths and aliases, no h2o type. Built once from route_tables, then read-only.
#pragma once

#include "http/exchange.h"

enum { ROUTES_COUNT_MAX = 64, ALLOW_BYTES_MAX = 64 };

struct route_list {
    const struct route *rows[ROUTES_COUNT_MAX];
    uint32_t count;
};

// tables ends with NULL.
void route_list_fill(struct route_list *out, const struct route *const *tables,
                     const uint32_t *counts);

struct route_match {
    const struct route *route; // NULL: 404, 405 or OPTIONS
    uint32_t index;            // of the row; route_list.count when there is none
    struct text path_rest;
    bool path_known;
    bool head; // HEAD on a GET route
    bool options;
    char allow[ALLOW_BYTES_MAX]; // "POST" or "GET, HEAD"
    enum shape shape;
};

// path: decoded, without query.
void route_find(const struct route_list *list, struct text method, struct text path,
                struct route_match *out);

enum shape path_shape(struct text path); // of errors on unknown paths
