// SPDX-License-Identifier: Apache-2.0
// The routes of each endpoint file. Each array ends with a row whose path is NULL.
#pragma once

#include "http/exchange.h"

#include <stddef.h>

extern const struct route chat_routes[];
extern const struct route completions_routes[];
extern const struct route infill_routes[];
extern const struct route responses_routes[];
extern const struct route messages_routes[]; // with count_tokens and the aliases under /v1/v1
extern const struct route embeddings_routes[];
extern const struct route rerank_routes[]; // with /rerank and the aliases under /v1 and /v2
extern const struct route tokens_routes[]; // /tokenize, /detokenize
extern const struct route health_routes[];
extern const struct route models_routes[];
extern const struct route metrics_routes[];
extern const struct route manage_routes[]; // /v1/models/load, /v1/models/unload

// docs/openapi.yaml as JSON, compiled into the program. The build generates its source with
// tools/openapi.py.

extern const char openapi_json[];
extern const size_t openapi_json_bytes; // without the terminating NUL
