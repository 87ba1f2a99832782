// SPDX-License-Identifier: Apache-2.0
// One step: launch, sample, collect. Engine thread, or a rank's thread for rank_*. Only
// model_collect and model_logits wait; the caller respects steps_in_flight.
#include "runtime/model/forward.h"
#include "runtime/model/group.h"

#include <string.h>

static struct host_step *host_step_at(struct model *m, uint64_t n)
{
    return &m->host_steps[n % MODEL_HOST_STEPS];
}

// Sets the error of an op that failed. Ops return only a status; the text of a device fault comes
// from the next wait of the stream.
static enum status device_refused(enum status status, const char *what, struct error *err)
{
    return error_set(err, status, "the device refused %s", what);
}

static void device_slot_end(struct model *m)
{
    if (m->slot_held && m->api->device_slot_release)
        m->api->device_slot_release(m->stream);
    m->slot_held = false;
}

void model_more(struct model *m, bool more)
{
    if (m->more != more && m->api->device_slot_announce)
        m->api->device_slot_announce(m->stream, more);
    m->more = more;
}

void model_drop(struct model *m)
{
    if (m->group)
        group_abort(m->group);
    device_slot_end(m);
}

void model_step_deadline(struct model *m, uint64_t ns)
{
    if (m->group)
        group_deadline(m->group, ns);
}

void rank_begin(const struct model *m)
{
    if (m->api->thread_begin)
        m->api->thread_begin(m->stream);
}

uint64_t rank_collectives_started(const struct model *m)
{
    return atomic_load(&m->collectives_started);
}

uint32_t *model_masks(struct model *m)
{
    return host_step_at(m, m->sampled)->masks;
}

// Returns the smallest graph that can run the batch, or NULL.
static const struct model_graph *graph_for(const struct model *m, const struct batch *batch)
{
    bool decode = batch->row_count > 0 && batch->decode_count == batch->row_count;
    for (uint32_t i = 0; decode && i < m->graph_count; i++)
        if (m->graphs[i].rows >= batch->row_count)
            return &m->graphs[i];
    return NULL;
}

static enum status forward(struct model *m, const struct step *host,
                           const struct model_graph *graph)
{
    enum status status = forward_prep(m, host);
    if (status != STATUS_OK)
        return status;
    return graph ? m->api->graph_launch(m->stream, graph->graph) : forward_run(m, host);
}

// Returns the largest top_logprobs of the rows that want a token.
static uint32_t top_most(const struct model *m, struct batch *batch)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < batch->row_count; i++) {
        const struct batch_row *row = &batch_rows(batch)[i];
        if (row->want == WANT_TOKEN && m->top_of_slot[row->slot] > most)
            most = m->top_of_slot[row->slot];
    }
    return most;
}

enum status rank_launch(struct model *m, struct batch *batch, struct error *err)
{
    struct host_step *h = host_step_at(m, m->launched);
    const struct model_graph *graph = graph_for(m, batch);
    step_build(h->record, m, batch, graph ? graph->rows : 0);
    h->step = batch->step;
    h->wanted = h->record->sampled_count;
    h->word = (uint32_t)(m->launched + 1);
    h->max_top = m->facts.kind == MODEL_GENERATOR ? top_most(m, batch) : 0;
    h->mask_count = batch_mask_count(batch);
    check(h->mask_count <= m->facts.limits.rows_max, "%u masks", h->mask_count);
    enum status status =
        m->api->copy_in(m->stream, model_record(m), h->record, h->record->layout.bytes);
    if (status == STATUS_OK)
        status = forward(m, h->record, graph);
    if (status != STATUS_OK)
        return device_refused(status, "a forward pass", err);
    m->launched++;
    return STATUS_OK;
}

enum status model_launch(struct model *m, struct batch *batch, struct error *err)
{
    check(m->launched == m->sampled, "launch of step %llu before the last one was sampled",
          (unsigned long long)batch->step);
    check(m->launched - m->collected <= m->facts.steps_in_flight,
          "%llu steps in flight, the device takes %u",
          (unsigned long long)(m->launched - m->collected), m->facts.steps_in_flight);
    check(batch->row_count >= 1, "a step without rows");
    if (m->api->device_slot_acquire)
        m->api->device_slot_acquire(m->stream);
    m->slot_held = true;
    enum status status = m->group ? group_launch(m->group, batch, err) : rank_launch(m, batch, err);
    if (status != STATUS_OK)
        device_slot_end(m);
    return status;
}

static enum status masks_copy(struct model *m, struct host_step *h, const uint32_t *masks,
                              uint32_t count)
{
    check((count == 0 || count == h->mask_count) && (count == 0) == !masks,
          "%u masks, the rows name %u", count, h->mask_count);
    if (count == 0)
        return STATUS_OK;
    size_t bytes = (size_t)count * ((m->facts.vocab + 31) / 32) * sizeof(uint32_t);
    if (masks != h->masks)
        memcpy(h->masks, masks, bytes);
    return m->api->copy_in(m->stream, model_state(m, m->layout.masks), h->masks, bytes);
}

static enum status tokens_sample(struct model *m, struct host_step *h, const uint32_t *masks,
                                 uint32_t count)
{
    enum status status = masks_copy(m, h, masks, count);
    struct sample_args args = {
        .logits = model_act(m, BUFFER_LOGITS),
        .sampled = step_section(model_record(m), m->step.sampled),
        .state = m->slots,
        .masks = masks ? model_state(m, m->layout.masks) : NULL,
        .result = h->results,
        .top = h->tops,
        .limits = m->facts.limits,
        .count = h->wanted,
        .stride = m->facts.vocab,
        .max_top = h->max_top,
    };
    return status == STATUS_OK ? op_sample(m, &args) : status;
}

enum status rank_sample(struct model *m, const uint32_t *masks, uint32_t count, struct error *err)
{
    struct host_step *h = host_step_at(m, m->sampled);
    enum status status = STATUS_OK;
    if (h->wanted > 0 && m->facts.kind == MODEL_GENERATOR)
        status = tokens_sample(m, h, masks, count);
    else if (h->wanted > 0)
        status = m->api->copy_out(m->stream, h->values, model_act(m, BUFFER_VALUES),
                                  (size_t)h->wanted * m->facts.output_width * sizeof(float));
    if (status == STATUS_OK)
        status = m->api->signal(m->stream, m->word, h->word);
    if (status != STATUS_OK)
        return device_refused(status, "sampling", err);
    m->sampled++;
    return STATUS_OK;
}

enum status model_sample(struct model *m, const uint32_t *masks, uint32_t count, struct error *err)
{
    check(m->launched == m->sampled + 1, "sample without a launch");
    enum status status =
        m->group ? group_sample(m->group, masks, count, err) : rank_sample(m, masks, count, err);
    device_slot_end(m);
    return status;
}

enum status rank_collect(struct model *m, struct model_output *out, uint64_t deadline_ns,
                         struct error *err)
{
    struct host_step *h = host_step_at(m, m->collected);
    enum status status = m->api->wait(m->stream, m->word, h->word, deadline_ns, err);
    if (status != STATUS_OK)
        return status;
    *out = (struct model_output){
        .step = h->step,
        .count = h->wanted,
        .results = h->results,
        .tops = h->tops,
        .values = h->values,
    };
    m->collected++;
    return STATUS_OK;
}

enum status model_collect(struct model *m, struct model_output *out, uint64_t deadline_ns,
                          struct error *err)
{
    check(m->collected < m->sampled, "collect without a step");
    return m->group ? group_collect(m->group, out, deadline_ns, err)
                    : rank_collect(m, out, deadline_ns, err);
}

// Copies the logits of one row through memory that was allocated when the model was opened: on a
// GPU an allocation could wait for a collective in which this rank still has to take part.
static enum status logits_row(struct model *m, float *out, uint32_t row, uint64_t deadline_ns,
                              struct error *err)
{
    size_t bytes = m->facts.vocab * sizeof(float);
    const char *from = (const char *)model_act(m, BUFFER_LOGITS) + row * bytes;
    void *host = (char *)m->host + m->layout.host_logits;
    uint32_t *word = (uint32_t *)(void *)((char *)m->host + m->layout.logits_word);
    enum status status = m->api->copy_out(m->stream, host, from, bytes);
    if (status == STATUS_OK)
        status = m->api->signal(m->stream, word, ++m->logits_copied);
    if (status != STATUS_OK)
        return device_refused(status, "a copy of logits", err);
    status = m->api->wait(m->stream, word, m->logits_copied, deadline_ns, err);
    if (status == STATUS_OK)
        memcpy(out, host, bytes);
    return status;
}

enum status model_logits(struct model *m, float *out, uint64_t deadline_ns, struct error *err)
{
    check(m->launched == m->sampled + 1, "logits without a launch");
    enum status status = STATUS_OK;
    for (uint32_t row = 0; row < host_step_at(m, m->sampled)->wanted && status == STATUS_OK; row++)
        status = logits_row(m, out + (size_t)row * m->facts.vocab, row, deadline_ns, err);
    return status;
}
