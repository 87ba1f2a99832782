// SPDX-License-Identifier: Apache-2.0
// Private to /metrics: state and helpers that its files share.
#pragma once

#include "http/counters.h"

struct metrics {
    struct json_buffer *out;
    const char *prefix; // prefix of the names of model metrics: "weft_", "vllm:", "te_"; else ""
    struct server_view view;
    const struct thread_counters **threads; // [view.thread_count]
    uint8_t first_rows[ROUTES_MAX + 1];     // per row of the routes: first row with the same path
    const struct text *names; // [name_count] families that the query names; none: all are written
    uint32_t name_count;
    size_t family_at; // offset in `out` of the present family
    bool filtered; // true if the query does not name the present family: it is removed at its end
};

// Ends the previous family and begins one: writes # HELP and # TYPE from metrics_families.c.
void metric_head(struct metrics *m, const char *name);
// Ends the last family.
void metrics_end(struct metrics *m);
// Writes a value and a newline.
void metric_number(struct metrics *m, double value);
// Writes name{model_name="...",engine="0"more} and a space. copy: index in served->copies. more:
// further labels, each with a leading comma.
void metric_model_labels(struct metrics *m, const char *name, uint32_t copy, const char *more);

// Writes all metrics of engines (metrics_models.c).
void metrics_models(struct metrics *m);
