// SPDX-License-Identifier: Apache-2.0
// Refuses a checkpoint with a tensor that no weight of the model uses: the checkpoint may be of a
// variant of the architecture that would be served wrongly. Loading thread only.
#pragma once

#include "runtime/model/weights.h"

// Returns OK, or UNSUPPORTED with a sentence that names the first unused tensor. Harmless ones are
// accepted: buffers, heads that this kind of model does not use, layers that predict further
// tokens. prefix: the prefix of the checkpoint's names.
enum status unused_check(const struct weight_list *list, const struct weight_list_args *args,
                         const char *prefix, struct error *err) MUST_USE;
