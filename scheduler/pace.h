// How many prompt tokens a step takes beside decodes, so that streams get their tokens evenly. It
// knows measured times of steps only. Engine thread only. Decision 0013 has the rule and its
// reasons.
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { PACE_WINDOW = 64, PACE_TOKENS_MIN = 16 };

struct pace_step {
    uint32_t decodes;
    uint32_t allowed; // prompt tokens it might take
    uint32_t tokens;  // prompt tokens it took
    uint64_t ns;      // from its start to the start of the next one
};

struct pace {
    double stretch;               // a step may take so many times the median one; 0: no bound
    double planned;               // stretch that chunks are sized for: less where steps overrun
    double base_ns;               // of a step with decodes alone; 0: not measured yet
    double token_ns;              // that a prompt token adds; 0: not measured yet
    double tokens;                // prompt tokens a step, so that prompts do not pile up
    double recent[PACE_WINDOW];   // ns of the last steps with decodes, as a ring
    double in_order[PACE_WINDOW]; // the same, sorted
    uint32_t count, next;         // of recent
    struct pace_step step;        // the one that is planned or runs
    uint64_t began_ns;            // when it began; 0: none runs, it is not measured
};

void pace_init(struct pace *pace, double stretch);

// A step, in this order. Before its plan: prompt tokens that it may take beside decodes, at most
// `most`; with bounded false that is all. After its plan, with the prompt tokens it has. At the
// start of the next plan; nothing happens unless a step runs.
uint32_t pace_begin(struct pace *pace, uint32_t decodes, uint32_t most, bool bounded);
void pace_planned(struct pace *pace, uint32_t tokens, uint64_t now_ns);
void pace_end(struct pace *pace, uint64_t now_ns);

// What these are made of: takes a measured step in.
void pace_note(struct pace *pace, const struct pace_step *step);

// Prompt tokens beside decodes; none in the first step with decodes, which tells what they take
// alone.
uint32_t pace_tokens(const struct pace *pace, uint32_t most);
