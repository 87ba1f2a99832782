// The ranks that share a model, each but the first with a thread. What model.h offers goes to all
// of them: the same batch, the same masks, and results that must be equal. Private to
// runtime/model; engine thread, but for open and close.
#pragma once

#include "runtime/model/internal.h"

enum status group_open(struct model *first, const struct model_plan *plan,
                       const struct weight_load_args *load, struct error *err) MUST_USE;
void group_close(struct model_group *group); // NULL is allowed; before the streams of the ranks
enum status group_launch(struct model_group *group, struct batch *batch,
                         struct error *err) MUST_USE;
enum status group_sample(struct model_group *group, const uint32_t *masks, uint32_t count,
                         struct error *err) MUST_USE;
enum status group_collect(struct model_group *group, struct model_output *out, uint64_t deadline_ns,
                          struct error *err) MUST_USE;

// model.c: a step of one rank; the turn is taken.
enum status rank_launch(struct model *m, struct batch *batch, struct error *err) MUST_USE;
enum status rank_sample(struct model *m, const uint32_t *masks, uint32_t count,
                        struct error *err) MUST_USE;
enum status rank_collect(struct model *m, struct model_output *out, uint64_t deadline_ns,
                         struct error *err) MUST_USE;
