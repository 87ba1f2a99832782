// The routes of the four endpoints, for the list in http/route.c.
#pragma once

#include "http/exchange.h"

enum {
    CHAT_ROUTE_COUNT = 1,
    MESSAGES_ROUTE_COUNT = 4, // with count_tokens and the aliases under /v1/v1
    EMBEDDINGS_ROUTE_COUNT = 1,
    RERANK_ROUTE_COUNT = 3, // with the aliases /v2/rerank and /rerank
};

extern const struct route chat_routes[CHAT_ROUTE_COUNT];
extern const struct route messages_routes[MESSAGES_ROUTE_COUNT];
extern const struct route embeddings_routes[EMBEDDINGS_ROUTE_COUNT];
extern const struct route rerank_routes[RERANK_ROUTE_COUNT];
