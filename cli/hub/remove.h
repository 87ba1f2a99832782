// SPDX-License-Identifier: Apache-2.0
// Removes models from the hub's cache. One thread.
#pragma once

#include "cli/hub/cache.h"

// Removes the model: all of the repository, or with a quant only the files of that, or, if `only`
// is true, what is of name->revision alone. Contents that another snapshot uses stay. *bytes
// receives what became free. NOT_FOUND if it is not there, REFUSED while a process downloads it.
enum status hub_remove(uint64_t *bytes, const struct hub_name *name, bool only, struct arena *arena,
                       struct error *err) MUST_USE;
