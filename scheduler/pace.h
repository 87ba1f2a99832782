// SPDX-License-Identifier: Apache-2.0
// The number of prompt tokens that a step computes in addition to decodes, chosen so that streams
// get their tokens at even intervals. Uses measured step times only. Engine thread only. Decision
// 0013 describes the rule and its reasons.
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum {
    PACE_WINDOW = 64,     // number of last steps whose median is used
    PACE_TOKENS_MIN = 16, // fewest prompt tokens allowed once base_ns is measured
};

struct pace_step {
    uint32_t decodes; // decode rows of the step
    uint32_t allowed; // prompt tokens it was allowed
    uint32_t tokens;  // prompt tokens it computed
    uint64_t ns;      // time from its start to the start of the next step
};

struct pace {
    double stretch;  // limit for a step, as a multiple of the median step; 1 or less: none
    double planned;  // current target, at most `stretch`; lowered when steps overrun
    double base_ns;  // mean duration of a step with decodes only; 0: not measured yet
    double token_ns; // mean duration added by one prompt token; 0: not measured yet
    double tokens;   // prompt tokens per step, grown while prompts use all of them
    double recent[PACE_WINDOW];   // ring: ns of the last steps with decodes
    double in_order[PACE_WINDOW]; // entries of `recent`, sorted
    uint32_t count, next;         // entries of `recent`; index to write next
    struct pace_step step;        // the step that is being planned or runs
    uint64_t began_ns;            // when that step began; 0: no step is being measured
};

// Resets the measurements. stretch: see the member.
void pace_init(struct pace *pace, double stretch);

// Called in this order for each step. pace_begin, before its plan: returns the prompt tokens that
// it may compute in addition to `decodes` rows, at most `most`; bounded false: exactly `most`.
// pace_planned, after its plan: the prompt tokens that it has. pace_end, at the start of the next
// plan: records its duration; does nothing if no step runs.
uint32_t pace_begin(struct pace *pace, uint32_t decodes, uint32_t most, bool bounded);
void pace_planned(struct pace *pace, uint32_t tokens, uint64_t now_ns);
void pace_end(struct pace *pace, uint64_t now_ns);

// Adds a measured step to the means and adapts the number of prompt tokens.
void pace_note(struct pace *pace, const struct pace_step *step);

// Returns the prompt tokens allowed in addition to decodes, at most `most`: 0 until a step with
// decodes only has been measured, `most` if there is no limit.
uint32_t pace_tokens(const struct pace *pace, uint32_t most);
