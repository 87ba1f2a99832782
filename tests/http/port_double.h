// A stand-in for the scheduler's side of the port: requests that a test drives by hand, from any
// thread. Real rings and wakers are the scheduler's own tests; here the HTTP room is under test.
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

// Gives count token events and then, if finish != FINISH_NONE, the finish event to the newest (or
// the n-th oldest live) request of the port; wakes the h2o thread. false: no such request.
bool port_double_push(struct port *port, uint32_t nth, uint32_t count, enum finish finish);
void port_double_push_all(struct port *port, uint32_t count, enum finish finish);
uint32_t port_double_live(struct port *port);      // submitted and not freed
uint32_t port_double_cancelled(struct port *port); // of those, cancelled
uint64_t port_double_read(struct port *port);      // events read over all time
// Cancelled requests get their finish event, as an engine would give it.
void port_double_settle(struct port *port);
