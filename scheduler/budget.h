// KV blocks as one plan may spend them. Sequences are planned oldest first, and what an older one
// could not get is kept for it: no younger one takes it. Started prompts are owed the blocks of all
// their tokens, so no other prompt starts on those. Blocks whose holders all
// leave with the step in flight cannot be taken yet, but no further sequence is preempted for them.
// Engine thread only.
#pragma once

#include "scheduler/blocks.h"

struct budget {
    const struct blocks *blocks;
    uint32_t kept; // for older sequences that could not get them
    uint32_t owed; // to prompts that have started
    bool blocked;  // a drawn sequence waits for blocks: nothing new is drawn
};

// Blocks that may be taken now.
static inline uint32_t budget_left(const struct budget *budget)
{
    uint32_t available = blocks_available(budget->blocks);
    return available > budget->kept ? available - budget->kept : 0;
}

// True if even with what the step in flight releases there are fewer than `count`: a sequence must
// be preempted.
static inline bool budget_lacks(const struct budget *budget, uint32_t count)
{
    const struct blocks *blocks = budget->blocks;
    return blocks_available(blocks) + blocks->releasing_count < budget->kept + count;
}

// A sequence waits for `count` blocks.
static inline void budget_keep(struct budget *budget, uint32_t count)
{
    budget->kept += count;
    budget->blocked = true;
}

// Sets what is owed to a sequence, *debt so far, to `count`.
static inline void budget_owe(struct budget *budget, uint32_t *debt, uint32_t count)
{
    budget->owed += count - *debt;
    *debt = count;
}
