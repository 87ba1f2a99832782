// SPDX-License-Identifier: Apache-2.0
// See model_rig.h. Block ids run backwards and interleave the rows, so that no code can rely on
// adjacent blocks of a sequence.
#include "tests/runtime/model_rig.h"

#include "base/arena.h"
#include "runtime/model/config.h"
#include "runtime/model/share.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(enum status status, const struct error *err)
{
    check(status == STATUS_OK, "%s", err->text);
}

struct model_options rig_options(void)
{
    return (struct model_options){.dtype = -1,
                                  .kv_dtype = -1,
                                  .max_num_seqs = 32,
                                  .max_num_batched_tokens = 512,
                                  .block_size = 16,
                                  .penalty_rows = -1};
}

// Returns true if WEFT_TEST_SERIAL is set: kernels then do not overlap.
static bool rig_serial(void)
{
    const char *serial = getenv("WEFT_TEST_SERIAL");
    return serial && serial[0] != '\0';
}

bool rig_exact(void)
{
    return !getenv("WEFT_TEST_FAST");
}

static enum status device_find(const struct device_api **out, struct error *err)
{
    const char *name = getenv("WEFT_TEST_DEVICE");
    *out = device_cpu();
    if (!name || strcmp(name, "cpu") == 0)
        return STATUS_OK;
    return device_plugin_open(out, name, getenv("WEFT_TEST_DEVICE_LIBRARY"), err);
}

const struct device_api *rig_device(void)
{
    const struct device_api *api;
    struct error err;
    return device_find(&api, &err) == STATUS_OK ? api : NULL;
}

static enum status device_facts_read(struct device_facts *out, struct error *err)
{
    const struct device_api *api;
    struct device *device;
    struct device_options options = {.threads = 1, .exact = rig_exact(), .serial = rig_serial()};
    enum status status = device_find(&api, err);
    if (status == STATUS_OK)
        status = api->open(&device, &options, err);
    if (status != STATUS_OK)
        return status;
    api->facts(device, out);
    api->close(device);
    return STATUS_OK;
}

bool rig_device_usable(void)
{
    struct device_facts facts;
    struct error err;
    bool usable = device_facts_read(&facts, &err) == STATUS_OK;
    if (!usable)
        printf("skipped: %s\n", err.text);
    return usable;
}

static bool splits(const char *folder)
{
    struct error err;
    struct model_config config;
    must(model_config_read(&config, folder, &err), &err);
    return !model_unsplit(&config);
}

static void ranks_open(struct rig *rig, struct model_options *options, uint32_t count)
{
    struct error err;
    options->share.tp_size = count;
    options->devices = rig->ranks;
    for (uint32_t i = 0; i < count; i++) {
        struct device_options rank = {.index = i,
                                      .ranks = count,
                                      .parent = rig->device,
                                      .exact = rig_exact(),
                                      .serial = rig_serial()};
        must(rig->api->open(&rig->ranks[i], &rank, &err), &err);
    }
}

static void open_sized(struct rig *rig, const struct device_api *api, const char *folder,
                       const struct model_options *options, uint32_t kv_sequences, uint32_t ranks)
{
    struct error err;
    *rig = (struct rig){.api = api};
    struct device_options device = {
        .threads = ranks > 2 ? ranks : 2, .exact = rig_exact(), .serial = rig_serial()};
    struct model_options own = *options;
    must(rig->api->open(&rig->device, &device, &err), &err);
    if (ranks > 1 && splits(folder))
        ranks_open(rig, &own, ranks);
    struct device *first = own.devices ? rig->ranks[0] : rig->device;
    must(model_plan_open(&rig->plan, folder, rig->api, first, &own, &err), &err);
    if (kv_sequences == 0)
        kv_sequences = rig->plan->facts.limits.slots_max;
    uint64_t kv = rig->plan->kv_bytes_min * kv_sequences;
    must(model_open(&rig->model, rig->plan, kv, NULL, NULL, &err), &err);
    rig->facts = model_facts(rig->model);
    rig->batch = heap_alloc(batch_bytes(&rig->facts->limits));
    batch_init(rig->batch, &rig->facts->limits);
}

void rig_open_sized(struct rig *rig, const char *folder, const struct model_options *options,
                    uint32_t kv_sequences)
{
    const struct device_api *api;
    struct error err;
    const char *ranks = getenv("WEFT_TEST_RANKS");
    must(device_find(&api, &err), &err);
    open_sized(rig, api, folder, options, kv_sequences,
               ranks ? (uint32_t)strtoul(ranks, NULL, 10) : 1);
}

void rig_open(struct rig *rig, const char *folder, const struct model_options *options)
{
    rig_open_sized(rig, folder, options, 0);
}

void rig_open_on(struct rig *rig, const struct device_api *api, const char *folder,
                 const struct model_options *options)
{
    open_sized(rig, api, folder, options, 0, 1);
}

void rig_open_ranks(struct rig *rig, const struct device_api *api, const char *folder,
                    const struct model_options *options, uint32_t ranks)
{
    open_sized(rig, api, folder, options, 0, ranks);
}

void rig_close(struct rig *rig)
{
    heap_free(rig->batch);
    model_close(rig->model);
    model_plan_close(rig->plan);
    for (uint32_t i = 0; i < RANKS_MAX && rig->ranks[i]; i++)
        rig->api->close(rig->ranks[i]);
    rig->api->close(rig->device);
}

void rig_begin(struct rig *rig)
{
    batch_clear(rig->batch, rig->step++);
}

static void blocks_add(struct rig *rig, const struct rig_sequence *s, uint32_t from, uint32_t to)
{
    const struct model_facts *f = rig->facts;
    if (f->block_tokens == 0)
        return;
    uint32_t first = (from + f->block_tokens - 1) / f->block_tokens;
    uint32_t end = (to + f->block_tokens - 1) / f->block_tokens;
    for (uint32_t i = first; i < end; i++) {
        uint32_t place = i * f->limits.slots_max + s->row;
        batch_changes(rig->batch)[rig->batch->change_count++] =
            (struct batch_change){s->row, i, f->block_count - 1 - place};
    }
}

static void admit(struct rig *rig, const struct rig_sequence *s)
{
    if (rig->facts->kind != MODEL_GENERATOR)
        return;
    struct batch_new_sequence *new =
        &batch_new_sequences(rig->batch)[rig->batch->new_sequence_count++];
    *new = (struct batch_new_sequence){.slot = s->row};
    new->params = (struct sample_params){.top_p = 1, .repetition = 1, .penalty_row = STEP_NO_ROW};
}

static void row_add(struct rig *rig, const struct batch_row *row)
{
    batch_rows(rig->batch)[rig->batch->row_count++] = *row;
    rig->batch->computed_count += row->q_len;
}

void rig_prefill(struct rig *rig, struct rig_sequence *s, uint32_t tokens, enum batch_want want)
{
    struct batch *batch = rig->batch;
    if (s->computed == 0)
        admit(rig, s);
    if (tokens > s->count - s->computed)
        tokens = s->count - s->computed;
    uint32_t end = s->computed + tokens;
    struct batch_row row = {s->row,        tokens,
                            end,           batch->token_count,
                            s->type_from,  end == s->count ? want : WANT_NOTHING,
                            BATCH_NO_MASK, 0};
    for (uint32_t i = s->computed; i < end; i++)
        batch_tokens(batch)[batch->token_count++] = s->tokens[i];
    blocks_add(rig, s, s->computed, end);
    row_add(rig, &row);
    s->computed = end;
}

void rig_decode(struct rig *rig, struct rig_sequence *s)
{
    struct batch_row row = {s->row,       1,          s->computed + 1, BATCH_TOKEN_FED,
                            STEP_NO_TYPE, WANT_TOKEN, BATCH_NO_MASK,   0};
    blocks_add(rig, s, s->computed, s->computed + 1);
    row_add(rig, &row);
    rig->batch->decode_count++;
    s->computed++;
}

void rig_launch(struct rig *rig, float *logits)
{
    struct error err;
    must(model_launch(rig->model, rig->batch, &err), &err);
    if (logits)
        must(model_logits(rig->model, logits, UINT64_MAX, &err), &err);
    must(model_sample(rig->model, NULL, 0, &err), &err);
}

struct model_output rig_collect(struct rig *rig)
{
    struct error err;
    struct model_output out;
    must(model_collect(rig->model, &out, UINT64_MAX, &err), &err);
    return out;
}

struct model_output rig_step(struct rig *rig, float *logits)
{
    rig_launch(rig, logits);
    struct model_output out = rig_collect(rig);
    check(out.step == rig->batch->step, "step %llu came back", (unsigned long long)out.step);
    return out;
}

void rig_prompt_logits(struct rig *rig, struct rig_sequence *s, uint32_t chunk, float *logits)
{
    while (s->computed < s->count) {
        rig_begin(rig);
        rig_prefill(rig, s, chunk, WANT_TOKEN);
        rig_step(rig, s->computed == s->count ? logits : NULL);
    }
}
