// The routes of the web page: "/" and "/ui/". Beside route_tables, which has the API: a server
// without the page (--no-ui) does not have them.
#pragma once

#include "http/exchange.h"

extern const struct route ui_routes[]; // ends with a row without a path
