// SPDX-License-Identifier: Apache-2.0
// Sizes of the contents that weft fetched or checked, in .weft/sizes.json of a repository's folder
// in the cache: {"ETAG": bytes}. They show at each use, without a request and without reading the
// file, whether its size has changed. One thread.
#pragma once

#include "cli/hub/select.h"

#include <jansson.h>

// Adds the sizes of the files, which all have an etag. Failures are ignored: the loader then
// detects a file that is too short.
void hub_sizes_note(const char *folder, const struct hub_listing *files, struct arena *arena);
// Returns the sizes as a new reference; an empty object if there are none.
json_t *hub_sizes_read(const char *folder, struct arena *arena);
