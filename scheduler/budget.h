// SPDX-License-Identifier: Apache-2.0
// The KV blocks that one plan may allocate. Sequences are planned oldest first, and blocks that an
// older sequence could not get are kept for it: no younger sequence takes them. Started prompts are
// owed the blocks of all their remaining tokens, so no other prompt may start on those. Blocks
// whose holders all leave with the step in flight cannot be allocated yet, but they count as
// available when the plan decides whether to preempt another sequence. Engine thread only.
#pragma once

#include "scheduler/blocks.h"

struct budget {
    const struct blocks *blocks;
    uint32_t kept; // blocks reserved for older sequences that could not get them
    uint32_t owed; // blocks that started prompts still need
    bool blocked;  // true if a scheduled sequence waits for blocks: schedule no new sequence
};

// Returns the number of blocks that may be allocated now.
static inline uint32_t budget_left(const struct budget *budget)
{
    uint32_t available = blocks_available(budget->blocks);
    return available > budget->kept ? available - budget->kept : 0;
}

// Returns true if there are fewer than `count` blocks even after the step in flight releases its
// blocks. A sequence must then be preempted.
static inline bool budget_lacks(const struct budget *budget, uint32_t count)
{
    const struct blocks *blocks = budget->blocks;
    return blocks_available(blocks) + blocks->releasing_count < budget->kept + count;
}

// Reserves `count` blocks for a sequence that could not get them, and sets `blocked`.
static inline void budget_keep(struct budget *budget, uint32_t count)
{
    budget->kept += count;
    budget->blocked = true;
}

// Sets the number of blocks owed to a sequence to `count`. *debt: its previous number, updated.
static inline void budget_owe(struct budget *budget, uint32_t *debt, uint32_t count)
{
    budget->owed += count - *debt;
    *debt = count;
}
