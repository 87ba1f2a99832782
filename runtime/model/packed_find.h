// SPDX-License-Identifier: Apache-2.0
// Finds the modules of a safetensors folder whose weights are codes with scales, by the names,
// types and shapes of their tensors alone: lists of quantised or ignored modules are not read. Each
// such module becomes one tensor `NAME.weight` (struct packed). Loading thread only.
#pragma once

#include "base/arena.h"
#include "runtime/model/tensors.h"

struct packed_rules {
    bool declared;   // true if a file of the folder declares the quantisation
    bool zeros_full; // GPTQ: true if zero points are stored as they are ("gptq_v2"), not less one
    bool ordered;    // true if groups of columns need a tensor that lists them (desc_act, actorder)
    uint32_t group;  // columns of a group; 0: not declared, or config_groups differ
};

// Replaces the tensors of quantised modules in list[*count]. The list must be sorted by name; the
// caller sorts it again. The other tensors of such modules (scales, zero points) follow after the
// list, and *count is less by their number. The new names lie in the arena. An error names the
// tensor that is missing or has an unexpected type, shape or value.
enum status packed_find(struct tensor *list, uint32_t *count, const struct packed_rules *rules,
                        struct arena *arena, struct error *err) MUST_USE;
