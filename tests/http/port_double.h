// SPDX-License-Identifier: Apache-2.0
// A double of the scheduler's side of the port. The test drives its requests from any thread. The
// scheduler's own tests cover real rings and wakers.
#pragma once

#include "scheduler/engine.h"

#include <stdbool.h>
#include <stdint.h>

struct port *port_double_open(struct waker *waker, struct engine *engine);
void port_double_close(struct port *port);
struct engine *engine_double_open(const struct model_facts *facts);
void engine_double_close(struct engine *engine);
struct engine_stats *engine_double_stats(struct engine *engine);
void engine_double_admission_set(struct engine *engine, enum admission answer);

// Gives the newest request of the port (or the n-th oldest live one) `count` token events and then,
// if finish != FINISH_NONE, the finish event; wakes the h2o thread. Returns false if there is no
// such request.
bool port_double_push(struct port *port, uint32_t nth, uint32_t count, enum finish finish);
void port_double_push_all(struct port *port, uint32_t count, enum finish finish);
uint32_t port_double_live(struct port *port);      // submitted and not yet freed
uint32_t port_double_cancelled(struct port *port); // live and cancelled
uint64_t port_double_read(struct port *port);      // events read since the port was opened
// Gives cancelled requests their finish event, as an engine does.
void port_double_settle(struct port *port);
