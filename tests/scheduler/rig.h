// SPDX-License-Identifier: Apache-2.0
// An engine over the fake model for tests. The test's thread runs the engine thread's steps and the
// h2o thread's port calls.
#pragma once

#include "runtime/grammar/grammar.h"
#include "runtime/grammar/vocabulary.h"
#include "scheduler/internal.h"
#include "tests/sim/fake.h"

enum { RIG_TOKENS_MAX = 4096 };

struct rig {
    struct fake_options fake;
    struct engine_options options;
    struct model *model;
    struct engine *engine;
    struct waker *waker;
    struct port *port;
    uint64_t now_ns;
    uint32_t key_id;      // API key of the requests that rig_generate submits
    uint64_t deadline_ns; // deadline of those requests, CLOCK_MONOTONIC ns; 0: none
};

void rig_defaults(struct rig *rig); // fills options for a small generator
void rig_pooling(struct rig *rig, bool encoder);
void rig_open(struct rig *rig);
void rig_close(struct rig *rig);
enum engine_news rig_step(struct rig *rig);

// Submits a generation whose prompt is `length` consecutive token ids that start at `first`.
struct request *rig_generate(struct rig *rig, int32_t first, uint32_t length, uint32_t max_tokens,
                             uint32_t choices);
struct request *rig_submit(struct rig *rig, const struct submit_args *args,
                           enum admission expected);

// Returns a vocabulary for grammars, which the caller unrefs: token i < RIG_LETTERS is the i-th
// letter, and the model's end ids end an answer. An engine that uses it holds a reference.
enum { RIG_LETTERS = 26 };
struct vocabulary *rig_letters(const struct rig *rig);
// Returns a grammar whose only answer is `letters` letters: a to g, repeated.
struct grammar *rig_cycle(uint32_t letters);
