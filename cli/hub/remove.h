// SPDX-License-Identifier: Apache-2.0
// Removes models from the hub's cache. One thread.
#pragma once

#include "cli/hub/cache.h"

// Removes the model from the cache: without a quant and with `only` false, all of the repository;
// otherwise files of the snapshot of name->revision, those of the quant or all. Contents that
// another snapshot uses stay. *bytes: bytes that became free. NOT_FOUND if it is not there, REFUSED
// while a process downloads it, IO if a file cannot be removed.
enum status hub_remove(uint64_t *bytes, const struct hub_name *name, bool only, struct arena *arena,
                       struct error *err) MUST_USE;
