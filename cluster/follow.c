// SPDX-License-Identifier: Apache-2.0
// The loop of a node that follows node 0: executes each step that node 0 sends with the ranks of
// this process, and returns the hash of its results. One thread per model.
#include "cluster/link.h"

#include "base/arena.h"
#include "base/clock.h"
#include "runtime/model/batch_wire.h"

#include <string.h>

// Time limit of a step: longer than that of node 0's engine, which names the late node.
#define FOLLOW_STEP_NS (MODEL_START_NS + 10000000000u)

struct follower {
    struct channel *channel;
    uint32_t index; // index of the model
    struct model *model;
    struct batch *batch;
};

static enum status letter_next(struct follower *f, enum message_kind kind,
                               struct channel_letter *out, struct error *err)
{
    enum status status =
        channel_receive(f->channel, 0, f->index, LANE_CONTROL, UINT64_MAX, out, err);
    if (status != STATUS_OK || out->message.head.kind == kind)
        return status;
    error_set(err, STATUS_DEVICE_FAULT, "node 0 sent a message of kind %u in place of %u",
              out->message.head.kind, kind);
    channel_letter_free(out);
    return err->status;
}

static enum status step_launch(struct follower *f, struct error *err)
{
    struct channel_letter letter;
    enum status status = letter_next(f, MESSAGE_LAUNCH, &letter, err);
    if (status != STATUS_OK)
        return status;
    status =
        batch_read(f->batch, model_facts(f->model), letter.message.at, letter.message.bytes, err);
    channel_letter_free(&letter);
    return status == STATUS_OK ? model_launch(f->model, f->batch, err) : status;
}

static enum status step_sample(struct follower *f, struct error *err)
{
    struct channel_letter letter;
    enum status status = letter_next(f, MESSAGE_SAMPLE, &letter, err);
    if (status != STATUS_OK)
        return status;
    const struct node_message *m = &letter.message;
    uint32_t count = batch_mask_count(f->batch);
    size_t bytes = count * ((model_facts(f->model)->vocab + 31) / 32) * sizeof(uint32_t);
    bool masked = m->head.number > 0;
    if ((masked && m->head.number != count) || m->bytes != (masked ? bytes : 0)) {
        status = error_set(err, STATUS_INVALID, "node 0 sent %zu bytes of %llu masks, for %u",
                           m->bytes, (unsigned long long)m->head.number, count);
    } else if (masked) {
        uint32_t *masks = model_masks(f->model);
        memcpy(masks, m->at, bytes);
        status = model_sample(f->model, masks, count, err);
    } else {
        status = model_sample(f->model, NULL, 0, err);
    }
    channel_letter_free(&letter);
    return status;
}

static enum status step_execute(struct follower *f, struct error *err)
{
    struct model_output out;
    enum status status = step_launch(f, err);
    if (status == STATUS_OK)
        status = step_sample(f, err);
    if (status != STATUS_OK)
        return status;
    channel_step_started(f->channel, f->index, f->batch->step);
    status = model_collect(f->model, &out, clock_ns() + FOLLOW_STEP_NS, err);
    if (status != STATUS_OK)
        return status;
    struct hash hash = model_output_hash(model_facts(f->model), &out);
    const struct channel_part part = {&hash, sizeof hash};
    return channel_send(f->channel, MESSAGE_RESULT, f->index, out.step, &part, 1, err);
}

enum status cluster_follow(struct cluster_link *link, struct model *model, struct error *err)
{
    struct follower f = {
        .channel = cluster_link_channel(link), .index = cluster_link_index(link), .model = model};
    const struct step_limits *limits = &model_facts(model)->limits;
    f.batch = heap_alloc(batch_bytes(limits));
    batch_init(f.batch, limits);
    model_step_deadline(model, FOLLOW_STEP_NS);
    enum status status = channel_send(f.channel, MESSAGE_READY, f.index, 0, NULL, 0, err);
    while (status == STATUS_OK)
        status = step_execute(&f, err);
    heap_free(f.batch);
    if (status == STATUS_UNWANTED) // the group has ended between two steps
        return STATUS_OK;
    model_drop(model);
    channel_fail(f.channel, err);
    return status;
}
