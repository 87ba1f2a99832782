// How many tokens of prompts a step takes beside next tokens, so that those come evenly. Fed by the
// measured time of steps; no clock, no plan. Engine thread only. The rule and why: decision 0013.
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { PACE_WINDOW = 64, PACE_TOKENS_MIN = 16 };

struct pace {
    double stretch;               // a step takes at most so many times the median one; 0: no rule
    double base_ns;               // of a step with next tokens alone; 0: not seen yet
    double token_ns;              // what one token of a prompt adds; 0: not seen yet
    double tokens;                // that keep up with the prompts that come
    double recent[PACE_WINDOW];   // ns of the last steps with next tokens, a ring
    double in_order[PACE_WINDOW]; // the same, sorted
    uint32_t count, next;         // of recent
};

struct pace_step {
    uint32_t decodes; // rows with next tokens
    uint32_t allowed; // tokens of prompts that it might take,
    uint32_t tokens;  // and took
    uint64_t ns;      // from its begin to the begin of the next one
};

void pace_note(struct pace *pace, const struct pace_step *step);

// Tokens of prompts that the next step may take beside next tokens, at most `most`.
uint32_t pace_tokens(const struct pace *pace, uint32_t most);
