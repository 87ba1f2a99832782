// SPDX-License-Identifier: Apache-2.0
// The routes of the web page: "/" and "/ui/". They are not in route_tables, which holds the API, so
// that --no-ui can leave them out.
#pragma once

#include "http/exchange.h"

extern const struct route ui_routes[]; // terminated by a row without a path
