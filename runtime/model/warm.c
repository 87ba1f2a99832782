// SPDX-License-Identifier: Apache-2.0
// The first steps of a model on a device that loads code at its first use and has several
// algorithms for a product: all row counts that matter, and complete steps, run before a graph is
// recorded or a request arrives. Loading thread, or the thread of the rank.
#include "runtime/model/forward.h"
#include "runtime/model/group.h"

#include "base/arena.h"
#include "base/clock.h"

enum { PROMPT_TOKENS = 64 }; // more rows than the kernels for decodes handle
#define WARM_NS 60000000000u // 60 s: a step that takes longer fails

static enum status products_tune(struct model *m, struct error *err)
{
    enum status status = STATUS_OK;
    uint32_t rows = 0;
    while (status == STATUS_OK && (rows = m->api->tune(m->stream, rows)) != 0)
        status = forward_products(m, rows);
    if (status != STATUS_OK)
        return error_set(err, status, "the device refused products of %u rows", rows);
    return STATUS_OK;
}

static enum status step_run(struct model *m, struct batch *batch, struct error *err)
{
    struct model_output out;
    enum status status = rank_launch(m, batch, err);
    if (status == STATUS_OK)
        status = rank_sample(m, NULL, 0, err);
    return status == STATUS_OK ? rank_collect(m, &out, clock_ns() + WARM_NS, err) : status;
}

static void row_put(struct batch *batch, struct batch_row row)
{
    batch_rows(batch)[batch->row_count++] = row;
    batch->computed_count += row.q_len;
}

// Adds a prompt in slot 0 with the first KV blocks. The sequences that use them later write before
// they read.
static void prompt_put(struct batch *batch, const struct model_facts *facts, uint32_t tokens)
{
    static const enum batch_want wants[] = {[MODEL_GENERATOR] = WANT_TOKEN,
                                            [MODEL_EMBEDDER] = WANT_VECTOR,
                                            [MODEL_RERANKER] = WANT_SCORE};
    if (facts->kind == MODEL_GENERATOR)
        batch_new_sequences(batch)[batch->new_sequence_count++] = (struct batch_new_sequence){
            .params = {.top_p = 1, .repetition = 1, .penalty_row = STEP_NO_ROW}};
    uint32_t blocks = facts->block_tokens ? tokens / facts->block_tokens + 1 : 0;
    for (uint32_t i = 0; i < blocks && i < facts->block_count; i++)
        batch_changes(batch)[batch->change_count++] = (struct batch_change){0, i, i};
    for (uint32_t i = 0; i < tokens; i++)
        batch_tokens(batch)[batch->token_count++] = 0;
    row_put(batch, (struct batch_row){.q_len = tokens,
                                      .kv_len = tokens,
                                      .type_from = STEP_NO_TYPE,
                                      .want = wants[facts->kind],
                                      .mask = BATCH_NO_MASK});
}

static enum status steps_run(struct model *m, struct error *err)
{
    const struct model_facts *facts = &m->facts;
    uint32_t tokens = PROMPT_TOKENS;
    tokens = tokens < facts->limits.tokens_max ? tokens : facts->limits.tokens_max;
    if (tokens >= facts->max_model_len) // leave space for one more token
        tokens = facts->max_model_len > 1 ? facts->max_model_len - 1 : 1;
    struct batch *batch = heap_alloc(batch_bytes(&facts->limits));
    batch_init(batch, &facts->limits);
    prompt_put(batch, facts, tokens);
    enum status status = step_run(m, batch, err);
    batch_clear(batch, 1);
    if (status == STATUS_OK && facts->kind != MODEL_GENERATOR) {
        prompt_put(batch, facts, 1);
        status = step_run(m, batch, err);
    } else if (status == STATUS_OK && tokens < facts->max_model_len) {
        row_put(batch, (struct batch_row){.q_len = 1,
                                          .kv_len = tokens + 1,
                                          .token_at = BATCH_TOKEN_FED,
                                          .type_from = STEP_NO_TYPE,
                                          .want = WANT_TOKEN,
                                          .mask = BATCH_NO_MASK});
        batch->decode_count = 1;
        status = step_run(m, batch, err);
    }
    heap_free(batch);
    return status;
}

// Calls `run` with the device slot, if the device needs a warm-up.
static enum status warm(struct model *m, enum status (*run)(struct model *, struct error *),
                        struct error *err)
{
    if (!m->api->tune)
        return STATUS_OK;
    if (m->api->device_slot_acquire)
        m->api->device_slot_acquire(m->stream);
    enum status status = run(m, err);
    if (m->api->device_slot_release)
        m->api->device_slot_release(m->stream);
    return status == STATUS_OK ? status : error_prefix(err, "the warm-up steps");
}

enum status rank_tune(struct model *m, struct error *err)
{
    return warm(m, products_tune, err);
}

enum status rank_warm(struct model *m, struct error *err)
{
    return warm(m, steps_run, err);
}
