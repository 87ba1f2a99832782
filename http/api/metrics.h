// Private to /metrics: the pieces its files write with.
#pragma once

#include "http/counters.h"

struct metrics {
    struct json_buffer *out;
    const char *prefix; // in front of model metrics: "weft_", "vllm:"
    struct server_view view;
    const struct thread_counters **threads; // [view.thread_count]
    uint8_t first_rows[ROUTES_MAX + 1];     // for each row of the routes, the first with its path
    const struct text *names;               // [name_count], of the families asked for; none: all
    uint32_t name_count;
    size_t family_at; // in out, where the family begins that is being written
    bool unasked;     // it is none of them
};

// Begins a family: # HELP and # TYPE, from the table in metrics_families.c.
void metric_head(struct metrics *m, const char *name);
// After the last family.
void metrics_end(struct metrics *m);
void metric_number(struct metrics *m, double value);
// name{model_name="...",engine="0"more}, followed by a blank; copy: its place in served->copies
void metric_model_labels(struct metrics *m, const char *name, uint32_t copy, const char *more);

void metrics_models(struct metrics *m); // metrics_models.c
