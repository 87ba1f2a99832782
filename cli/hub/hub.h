// SPDX-License-Identifier: Apache-2.0
// Models by name: finds them in the cache of the Hugging Face hub, or downloads them into it. One
// thread at a time.
#pragma once

#include "cli/hub/name.h"
#include "base/arena.h"
#include "base/status.h"

enum hub_wish {
    HUB_CACHED, // what is complete in the cache is used without asking the hub
    HUB_NEWEST, // the hub is asked which commit the revision is
};

// Returns the path of the model, in the arena: a folder of the cache, or a GGUF file in one.
// Messages about the download go to stderr. Errors: NOT_FOUND, REFUSED, UNSUPPORTED, NO_SPACE, IO.
enum status hub_fetch(const char **out, const struct hub_name *name, enum hub_wish wish,
                      struct arena *arena, struct error *err) MUST_USE;

// Returns the path of the model if the text is a name of the hub (hub_name_is), else the text.
enum status hub_model_find(const char **out, const char *text, struct arena *arena,
                           struct error *err) MUST_USE;
