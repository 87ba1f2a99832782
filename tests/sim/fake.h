// A model for tests of the scheduler, linked in place of runtime/model. Its outputs are a pure
// function of the whole token history, which it reads back through the KV blocks that its rows
// wrote: a wrong block table, a stale or an early freed block gives wrong tokens. It also refuses
// batches that break the contract of runtime/model/batch.h.
#pragma once

#include "runtime/model/model.h"

struct fake_options {
    struct model_facts facts; // as the engine will see them
    bool cheap;               // for benchmarks: no KV is written or read
    bool text;                // for demonstrations: outputs end by length only
    uint32_t sick;            // logits are not finite for one history in so many; 0: for none
    uint32_t ranks; // that compute the same (runtime/model/group.c), late at random; 0: one
};

struct model *fake_open(const struct fake_options *options);

// The launch of this step (from 1) or its collect fails, of some rank; 0: never.
void fake_fault(struct model *model, uint64_t step, bool at_collect);

// At the launch of this step a rank, of two or more, is later than the deadline: it comes back when
// the model is given up.
void fake_late(struct model *model, uint64_t step);

// What this step writes is not finite, and so is every result that reads it. Prompts are not
// changed: computed again, they give good results.
void fake_spoil(struct model *model, uint64_t step);

// The same function without any blocks: what a sequence gives when it runs alone.
struct fake_alone {
    uint64_t sum;     // over the tokens fed so far
    uint64_t penalty; // over prompt and outputs, where penalties are on
    uint32_t length;  // tokens fed so far
    uint32_t type_from;
};

void fake_feed(struct fake_alone *alone, int32_t token);
void fake_count(struct fake_alone *alone, int32_t token, bool output);
// params as in the batch: stop ids, choice and output_count filled. mask: of the row, or NULL.
int32_t fake_next(const struct fake_alone *alone, const struct sample_params *params,
                  const struct step_bias *bias, const uint32_t *mask, uint32_t vocab);
bool fake_sick(const struct fake_alone *alone, uint32_t sick); // its next logits are not finite
float fake_value(const struct fake_alone *alone, uint32_t column);

uint64_t fake_steps(const struct model *model);    // launched
bool fake_more(const struct model *model);         // as last said by model_more
uint64_t fake_overlaps(const struct model *model); // launched with another in flight
uint64_t fake_ahead(const struct model *model);    // sampled under masks with another in flight
bool fake_turn(const struct model *model);         // launched and not sampled or given up
uint64_t fake_computed(const struct model *model); // token rows
const struct batch *fake_batch(const struct model *model); // the last one, as it was launched
