// The routes of each file of http/api. An array ends with a row without a path.
#pragma once

#include "http/exchange.h"

extern const struct route chat_routes[];
extern const struct route completions_routes[];
extern const struct route responses_routes[];
extern const struct route messages_routes[]; // with count_tokens and the aliases under /v1/v1
extern const struct route embeddings_routes[];
extern const struct route rerank_routes[]; // with the aliases /v2/rerank and /rerank
extern const struct route tokens_routes[]; // /tokenize, /detokenize
extern const struct route health_routes[];
extern const struct route models_routes[];
extern const struct route metrics_routes[];
