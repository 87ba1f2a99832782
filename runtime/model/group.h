// SPDX-License-Identifier: Apache-2.0
// The ranks of this process that share a model, each with a thread. All of them execute each step:
// with one batch and the same masks, and their results must be equal. The thread that steps the
// model (the engine's, or on nodes other than node 0 the follow thread) posts a job and waits for
// all ranks until a deadline. After the deadline has passed or a rank or another node has failed,
// the group accepts no more jobs.
// Ranks are numbered from 0 in this process. Private to runtime/model.
#pragma once

#include "kernels/device.h"
#include "runtime/model/model.h"

struct model_group;

// The models, names, communicator and link must outlive the group; the array of models need not.
struct group_args {
    struct model *const *models; // [size] the open models of the ranks of this process
    const char *const *names;    // [size] names of their devices, or NULL
    uint32_t size;
    const struct device_api *api;
    struct comm *comm;             // joins the streams of the models
    const struct model_link *link; // link to the ranks of other processes, or NULL
};

// Starts the threads.
enum status group_open(struct model_group **out, const struct group_args *args,
                       struct error *err) MUST_USE;
// Joins the threads, and so waits for ranks that are late. NULL is allowed.
void group_close(struct model_group *group);

// Returns true if a rank has not finished its job, so that group_close would wait.
bool group_hangs(const struct model_group *group);
// Returns the rank that failed, or the number of ranks if it is not known.
uint32_t group_failed_rank(const struct model_group *group);
// Refuses all further jobs, reports the failure to the other nodes and aborts the communicator, so
// that no rank waits for another. Does nothing after a failure.
void group_abort(struct model_group *group);
// Sets how long each further job may take, in nanoseconds; initially MODEL_START_NS.
void group_deadline(struct model_group *group, uint64_t ns);

// Tunes the products of all ranks, then runs the warm-up steps, then records the graphs. Each part
// begins when all ranks have finished the one before it: a rank that tunes or records allocates
// memory and loads code, for which the driver may wait for the kernels of all GPUs, and a
// collective that another rank has already started does not end before this rank takes part in it.
enum status group_start(struct model_group *group, struct error *err) MUST_USE;
// Launches, samples and collects a step on all ranks, as model.h describes. The batch is copied;
// the masks are not, and a rank that is late may read them until group_close. group_collect returns
// the results of the first rank of this process, or DEVICE_FAULT if those of another rank (on node
// 0: or of another node) differ; deadline_ns: CLOCK_MONOTONIC.
enum status group_launch(struct model_group *group, struct batch *batch,
                         struct error *err) MUST_USE;
enum status group_sample(struct model_group *group, const uint32_t *masks, uint32_t count,
                         struct error *err) MUST_USE;
enum status group_collect(struct model_group *group, struct model_output *out, uint64_t deadline_ns,
                          struct error *err) MUST_USE;

// Returns when all ranks of this process have called it as often, or the group has failed.
void group_meet(struct model_group *group);

// The calls of one rank's model. rank_begin must be the first, on the thread that makes the others.
// If the device has a slot, the caller holds it (model.c, open.c).
void rank_begin(const struct model *m);
// The parts of a start, in this order (warm.c, open.c): rank_tune tunes the products, without
// collectives; rank_warm runs two small steps, so that the device loads all code that steps use;
// rank_record records the graphs. The first two do nothing if the device needs no warm-up.
enum status rank_tune(struct model *m, struct error *err) MUST_USE;
enum status rank_warm(struct model *m, struct error *err) MUST_USE;
enum status rank_record(struct model *m, struct error *err) MUST_USE;
enum status rank_launch(struct model *m, struct batch *batch, struct error *err) MUST_USE;
enum status rank_sample(struct model *m, const uint32_t *masks, uint32_t count,
                        struct error *err) MUST_USE;
enum status rank_collect(struct model *m, struct model_output *out, uint64_t deadline_ns,
                         struct error *err) MUST_USE;
// Returns the number of collectives that the rank has started. Any thread.
uint64_t rank_collectives_started(const struct model *m);
