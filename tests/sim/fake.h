// SPDX-License-Identifier: Apache-2.0
// A model for tests of the scheduler, linked in place of runtime/model. Its outputs are a pure
// function of the entire token history, which it reads back through the KV blocks that its rows
// wrote: a wrong block table, a stale block or a block freed early gives wrong tokens. It also
// checks that batches follow the contract of runtime/model/batch.h.
#pragma once

#include "runtime/model/model.h"

struct fake_options {
    struct model_facts facts; // facts that the engine reads
    bool cheap;               // for benchmarks: no KV is written or read
    bool text;                // for demonstrations: only the length ends outputs
    uint32_t sick;            // one history in `sick` has logits that are not finite; 0: none
    uint32_t ranks; // number of ranks (runtime/model/group.c), with random delays; 0: one, without
                    // a group
    const struct model_link *link; // connection to other nodes, each with one rank; NULL: none
};

struct model *fake_open(const struct fake_options *options);

// Makes the launch or the collect of this step (from 1) fail in one of the ranks; 0: never.
void fake_fault(struct model *model, uint64_t step, bool at_collect);

// Makes one of two or more ranks miss the deadline at the launch of this step. It continues when
// the model is dropped. On node 0: shortens the deadline of this step, for a node that fake_stall
// makes late.
void fake_late(struct model *model, uint64_t step);

// Makes the launch or the collect of this step wait until fake_release, which any thread may call.
void fake_stall(struct model *model, uint64_t step, bool at_collect);
void fake_release(struct model *model);

// Makes the KV that this step writes not finite, and therefore every result that reads it. Prompts
// are not changed: if they are computed again, their results are correct.
void fake_spoil(struct model *model, uint64_t step);

// State of the same function without blocks: the reference for a sequence that runs alone.
struct fake_alone {
    uint64_t sum;     // sum over the tokens fed so far
    uint64_t penalty; // sum over prompt and outputs, with penalties
    uint32_t length;  // number of tokens fed so far
    uint32_t type_from;
};

void fake_feed(struct fake_alone *alone, int32_t token);
void fake_count(struct fake_alone *alone, int32_t token, bool output);
// Returns the next token. params as in the batch: stop ids, choice and output_count are filled.
// mask: of the row, or NULL.
int32_t fake_next(const struct fake_alone *alone, const struct sample_params *params,
                  const struct step_bias *bias, const uint32_t *mask, uint32_t vocab);
bool fake_sick(const struct fake_alone *alone, uint32_t sick); // its next logits are not finite
float fake_value(const struct fake_alone *alone, uint32_t column);

uint64_t fake_steps(const struct model *model);    // launched steps
bool fake_more(const struct model *model);         // argument of the last model_more
uint64_t fake_overlaps(const struct model *model); // steps launched with another one in flight
uint64_t fake_ahead(const struct model *model); // masked steps sampled with another one in flight
bool fake_turn(const struct model *model);      // true between launch and sample or drop
uint64_t fake_computed(const struct model *model);         // computed tokens
const struct batch *fake_batch(const struct model *model); // the last launched batch
