// SPDX-License-Identifier: Apache-2.0
// Limits how many text workers run at a time, with a lower limit for those with large bodies.
// Waiting workers enter in order of arrival; a worker that has used up its slice queues again at
// the end.
#pragma once

#include "http/wait_queue.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct work_gate {
    pthread_mutex_t lock;
    uint32_t most, most_large; // limits of running workers, and of those with large bodies
    uint32_t running, running_large;
    struct wait_queue waiting; // waiting workers, in order of arrival
};

void gate_open(struct work_gate *gate, uint32_t most, uint32_t most_large);
void gate_close(struct work_gate *gate);
void gate_enter(struct work_gate *gate, bool large); // blocks until the worker may run
// Leaves, and enters again after the workers that wait.
void gate_pass(struct work_gate *gate, bool large);
void gate_leave(struct work_gate *gate, bool large);
uint32_t gate_waiting(struct work_gate *gate);
