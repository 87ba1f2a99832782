// SPDX-License-Identifier: Apache-2.0
// The routes of all endpoints. Separate from http/route.c, so that a test can link its own list.
#include "http/api/endpoints.h"

const struct route *const route_tables[] = {
    chat_routes,       completions_routes, infill_routes, responses_routes, messages_routes,
    embeddings_routes, rerank_routes,      tokens_routes, models_routes,    health_routes,
    metrics_routes,    manage_routes,      NULL,
};
