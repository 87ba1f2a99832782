// Every route of the server. Apart from http/route.c, so that a test can link its own list.
#include "http/api/list.h"

#include "http/api/endpoints.h"

const struct route *const route_tables[] = {
    chat_routes,   messages_routes, embeddings_routes, rerank_routes,
    models_routes, health_routes,   metrics_routes,    NULL,
};

const uint32_t route_table_counts[] = {
    CHAT_ROUTE_COUNT,   MESSAGES_ROUTE_COUNT, EMBEDDINGS_ROUTE_COUNT, RERANK_ROUTE_COUNT,
    MODELS_ROUTE_COUNT, HEALTH_ROUTE_COUNT,   METRICS_ROUTE_COUNT,
};
