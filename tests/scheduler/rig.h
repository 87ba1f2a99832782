// An engine over the fake model, and requests whose results are compared with the same request run
// alone. One thread plays both sides.
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
    uint32_t key_id;      // of what rig_generate submits
    uint64_t deadline_ns; // of what rig_generate submits, or 0
};

void rig_defaults(struct rig *rig); // a small generator
void rig_pooling(struct rig *rig, bool encoder);
void rig_open(struct rig *rig);
void rig_close(struct rig *rig);
enum engine_news rig_step(struct rig *rig);

// A generation of `length` prompt tokens that start at `first`.
struct request *rig_generate(struct rig *rig, int32_t first, uint32_t length, uint32_t max_tokens,
                             uint32_t choices);
struct request *rig_submit(struct rig *rig, const struct submit_args *args,
                           enum admission expected);

// A vocabulary for grammars: token i < RIG_LETTERS is the i-th letter, the model's end ids end. The
// engine takes a count of its own.
enum { RIG_LETTERS = 26 };
struct vocabulary *rig_letters(const struct rig *rig);
// The only answer is the letters a to g, over and over, so many.
struct grammar *rig_cycle(uint32_t letters);
