// SPDX-License-Identifier: Apache-2.0
// See rig.h.
#include "tests/scheduler/rig.h"

void rig_defaults(struct rig *rig)
{
    *rig = (struct rig){.now_ns = 1000000000};
    struct model_facts *f = &rig->fake.facts;
    *f = (struct model_facts){.kind = MODEL_GENERATOR,
                              .vocab = 1000,
                              .hidden = 8,
                              .layers = 1,
                              .max_model_len = 256,
                              .output_width = 8,
                              .paged = true,
                              .end_count = 1,
                              .end_ids = {7},
                              .block_tokens = 16,
                              .block_count = 64,
                              .blocks_per_sequence_max = 16,
                              .steps_in_flight = 0};
    f->limits = (struct step_limits){.rows_max = 8,
                                     .tokens_max = 128,
                                     .slots_max = 8,
                                     .blocks_max = 16,
                                     .changes_max = 64,
                                     .new_sequences_max = 4,
                                     .history_max = 512,
                                     .bias_max = 8,
                                     .penalty_rows = 2,
                                     .vocab = 1000};
    rig->options = (struct engine_options){.port_count = 1,
                                           .max_queued_requests = 32,
                                           .max_queued_tokens = 4096,
                                           .max_result_bytes = 1 << 20,
                                           .choices_max = 8,
                                           .prefix_cache = true,
                                           .hash_key = {1, 2}};
}

void rig_pooling(struct rig *rig, bool encoder)
{
    rig_defaults(rig);
    struct model_facts *f = &rig->fake.facts;
    f->kind = MODEL_EMBEDDER;
    f->limits.new_sequences_max = f->limits.history_max = f->limits.bias_max = 0;
    f->limits.penalty_rows = 0;
    if (!encoder)
        return;
    f->paged = false;
    f->whole_input = true;
    f->block_count = f->blocks_per_sequence_max = f->block_tokens = 0;
    f->limits.blocks_max = f->limits.changes_max = 0;
    f->max_model_len = f->limits.tokens_max;
}

void rig_open(struct rig *rig)
{
    struct error err;
    rig->model = fake_open(&rig->fake);
    check(waker_open(&rig->waker, &err) == STATUS_OK, "%s", err.text);
    check(engine_open(&rig->engine, rig->model, &rig->options, &err) == STATUS_OK, "%s", err.text);
    rig->port = engine_port(rig->engine, 0, rig->waker);
}

void rig_close(struct rig *rig)
{
    engine_close(rig->engine);
    model_close(rig->model);
    waker_close(rig->waker);
}

enum engine_news rig_step(struct rig *rig)
{
    rig->now_ns += 1000000;
    return engine_step(rig->engine, rig->now_ns);
}

struct request *rig_submit(struct rig *rig, const struct submit_args *args, enum admission expected)
{
    struct request *request = NULL;
    enum admission got = port_submit(rig->port, args, &request);
    check(got == expected, "admission %d, %d was expected", got, expected);
    return request;
}

struct request *rig_generate(struct rig *rig, int32_t first, uint32_t length, uint32_t max_tokens,
                             uint32_t choices)
{
    int32_t tokens[RIG_TOKENS_MAX];
    for (uint32_t i = 0; i < length; i++)
        tokens[i] = (int32_t)(((uint32_t)first + i) % rig->fake.facts.vocab);
    uint32_t start[2] = {0, length};
    struct submit_args args = {.kind = REQUEST_GENERATE,
                               .tokens = tokens,
                               .token_count = length,
                               .sequence_count = 1,
                               .sequence_start = start,
                               .choice_count = choices,
                               .max_tokens = max_tokens,
                               .ignore_end = true,
                               .key_id = rig->key_id,
                               .deadline_ns = rig->deadline_ns,
                               .sampling = {.seed = 5, .repetition = 1.0f}};
    return rig_submit(rig, &args, ADMITTED);
}

struct vocabulary *rig_letters(const struct rig *rig)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz";
    struct text tokens[RIG_LETTERS];
    for (uint32_t i = 0; i < RIG_LETTERS; i++)
        tokens[i] = text_span(letters + i, 1);
    const struct model_facts *f = &rig->fake.facts;
    struct vocabulary_args args = {f->vocab, tokens, RIG_LETTERS, NULL, f->end_ids, f->end_count};
    return vocabulary_create(&args);
}

struct grammar *rig_cycle(uint32_t letters)
{
    struct grammar *g = NULL;
    struct error err;
    char text[RIG_TOKENS_MAX];
    for (uint32_t i = 0; i < letters; i++)
        text[i] = (char)('a' + i % 7);
    struct grammar_builder *b = grammar_builder_create(NULL);
    uint32_t root = grammar_literal(b, text_span(text, letters));
    check(grammar_finish(b, root, &g, &err) == STATUS_OK, "%s", err.text);
    return g;
}
