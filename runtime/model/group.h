// The ranks that share a model, each with a thread. What model.h offers goes to all of them: the
// same batch, the same masks, and results that must be equal. Private to runtime/model; a group is
// given out jobs by the engine's thread, which waits for all ranks, but no longer than a deadline:
// after that, and after any failure, the group takes no more jobs.
#pragma once

#include "kernels/device.h"
#include "runtime/model/model.h"

struct model_group;

// Starts the threads. models: of all ranks, open; they, the names of their devices (or NULL) and
// the communicator, which joins their streams, outlive the group.
enum status group_open(struct model_group **out, struct model *const *models,
                       const char *const *names, uint32_t size, const struct device_api *api,
                       struct comm *comm, struct error *err) MUST_USE;
void group_close(struct model_group *group); // waits for ranks that are late; NULL is allowed

bool group_hangs(const struct model_group *group);      // a rank is late, so group_close would wait
uint32_t group_guilty(const struct model_group *group); // the rank that failed; size: not known
void group_end(struct model_group *group); // no more jobs, and no rank waits for another
void group_deadline(struct model_group *group, uint64_t ns); // of a job, from now on

enum status group_record(struct model_group *group, struct error *err) MUST_USE; // graphs
enum status group_launch(struct model_group *group, struct batch *batch,
                         struct error *err) MUST_USE; // the batch is copied
enum status group_sample(struct model_group *group, const uint32_t *masks, uint32_t count,
                         struct error *err) MUST_USE;
enum status group_collect(struct model_group *group, struct model_output *out, uint64_t deadline_ns,
                          struct error *err) MUST_USE;

// What a job is for one rank, on its thread, which begins with rank_begin; the turn is taken
// (model.c, open.c).
void rank_begin(const struct model *m);
enum status rank_record(struct model *m, struct error *err) MUST_USE;
enum status rank_launch(struct model *m, struct batch *batch, struct error *err) MUST_USE;
enum status rank_sample(struct model *m, const uint32_t *masks, uint32_t count,
                        struct error *err) MUST_USE;
enum status rank_collect(struct model *m, struct model_output *out, uint64_t deadline_ns,
                         struct error *err) MUST_USE;
uint64_t rank_meetings(const struct model *m); // collectives that it has begun; any thread
// warm.c: before graphs are recorded products are tuned and two small steps run, so that the device
// loads all code that steps use. Nothing where the device does not ask for it.
enum status rank_warm(struct model *m, struct error *err) MUST_USE;
