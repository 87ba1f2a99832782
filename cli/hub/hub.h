// SPDX-License-Identifier: Apache-2.0
// Models by name: finds them in the cache of the Hugging Face hub, or downloads them into it. One
// thread at a time.
#pragma once

#include "cli/hub/name.h"
#include "base/arena.h"
#include "base/status.h"

enum hub_wish {
    HUB_CACHED, // a model that is complete in the cache is used; the hub is queried if it is not
    HUB_NEWEST, // the hub is queried for the commit of the revision; the cache is used if offline
};

// Stores the path of the model, in the arena: a folder of the cache, or a GGUF file in one. If the
// hub cannot be reached, logs a warning and uses the model in the cache, if there is one. Messages
// about the download go to stderr. Errors: NOT_FOUND, REFUSED, UNSUPPORTED, NO_SPACE, IO; INVALID
// for a wrong variable of the environment.
enum status hub_fetch(const char **out, const struct hub_name *name, enum hub_wish wish,
                      struct arena *arena, struct error *err) MUST_USE;

// Stores the path of hub_fetch with HUB_CACHED if the text is a name of the hub (hub_name_is), else
// the text itself.
enum status hub_model_find(const char **out, const char *text, struct arena *arena,
                           struct error *err) MUST_USE;
