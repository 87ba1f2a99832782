// The route tables, one per endpoint file; each ends with a row whose path is NULL.
#pragma once

#include "http/exchange.h"

extern const struct route health_routes[];
extern const struct route models_routes[];
extern const struct route metrics_routes[];
extern const struct route chat_routes[];
extern const struct route messages_routes[];
extern const struct route embeddings_routes[];
extern const struct route rerank_routes[];
