// SPDX-License-Identifier: Apache-2.0
// Sizes of the contents that weft fetched or checked, in .weft/sizes.json of a repository's folder
// in the cache: {"ETAG": bytes}. With them a file that was cut later is noticed at each use,
// without a request and without reading it. One thread.
#pragma once

#include "cli/hub/select.h"

#include <jansson.h>

// Adds the sizes of the files. Failures are ignored: a cut file is then noticed by its loader.
void hub_sizes_note(const char *folder, const struct hub_listing *files, struct arena *arena);
// Returns the sizes, a new reference; an empty object if there are none.
json_t *hub_sizes_read(const char *folder, struct arena *arena);
