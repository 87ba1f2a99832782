// SPDX-License-Identifier: Apache-2.0
// Helpers of the mask tests: requests with a grammar over the fake model, and a record of their
// answers. Include after cmocka.h.
#pragma once

#include "tests/scheduler/rig.h"

enum { TOKENS = 64, ROUNDS = 10000, END = 7, CHOICES = 8 };

struct got {
    uint32_t count[CHOICES], finish[CHOICES];
    int32_t token[CHOICES][TOKENS];
    bool last;
};

static inline void open_letters(struct rig *rig)
{
    rig->options.vocabulary = rig_letters(rig);
    rig_open(rig);
    vocabulary_unref(rig->options.vocabulary); // the engine holds a reference
}

static inline struct submit_args request_args(struct grammar *g)
{
    static const int32_t tokens[] = {30, 31, 32};
    static const uint32_t start[] = {0, 3};
    return (struct submit_args){.kind = REQUEST_GENERATE,
                                .tokens = tokens,
                                .token_count = 3,
                                .sequence_count = 1,
                                .sequence_start = start,
                                .choice_count = 1,
                                .max_tokens = 40,
                                .grammar = g,
                                .sampling = {.seed = 5, .repetition = 1.0f}};
}

static inline void take(struct rig *rig, struct request *r, struct got *got)
{
    struct token_event event;
    while (!got->last && port_next(rig->port, r, &event, NULL)) {
        assert_true(event.choice < CHOICES && got->count[event.choice] < TOKENS);
        if (event.flags & EVENT_TOKEN)
            got->token[event.choice][got->count[event.choice]++] = event.token;
        got->finish[event.choice] = event.finish;
        got->last = event.flags & EVENT_LAST;
    }
}

static inline void run(struct rig *rig, struct request *r, struct got *got)
{
    for (uint32_t i = 0; !got->last && i < ROUNDS; i++) {
        rig_step(rig);
        take(rig, r, got);
    }
    assert_true(got->last);
    port_free(rig->port, r);
}

static inline void assert_cycle(const struct got *got, uint32_t choice, uint32_t letters)
{
    assert_int_equal(got->count[choice], letters + 1);
    assert_int_equal(got->finish[choice], FINISH_STOP);
    for (uint32_t i = 0; i <= letters; i++)
        assert_int_equal(got->token[choice][i], i < letters ? (int32_t)(i % 7) : END);
}
