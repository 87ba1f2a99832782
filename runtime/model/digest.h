// SPDX-License-Identifier: Apache-2.0
// Digests of a model's files, by which processes check that they have the same ones. They do not
// detect differences after the first 64 KiB of a tensor, nor files that were forged.
#pragma once

#include "base/hash.h"
#include "runtime/model/model.h"

struct model_digest {
    struct hash config;  // bytes of config.json; of a GGUF file, of the config.json made from it
    struct hash headers; // names, types, shapes and sizes of all tensors
    struct hash starts;  // first 64 KiB of each tensor
};

// Computes the digests of a plan whose model is not open yet; those of the tensors are 0 if it has
// random weights. folder: that of the plan. Errors: those of reading config.json, which they name.
enum status model_plan_digest(struct model_digest *out, const struct model_plan *plan,
                              const char *folder, struct error *err) MUST_USE;
