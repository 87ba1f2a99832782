// The route tables of the auxiliary endpoints; those of the four endpoints are in endpoints.h.
#pragma once

#include "http/exchange.h"

enum { HEALTH_ROUTE_COUNT = 4, MODELS_ROUTE_COUNT = 2, METRICS_ROUTE_COUNT = 1 };

extern const struct route health_routes[HEALTH_ROUTE_COUNT];
extern const struct route models_routes[MODELS_ROUTE_COUNT];
extern const struct route metrics_routes[METRICS_ROUTE_COUNT];
