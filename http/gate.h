// Which text workers run: at most so many at once, fewer of those with large bodies, in order of
// arrival. A worker that has run for a slice queues after all that wait.
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct gate_place;

struct work_gate {
    pthread_mutex_t lock;
    uint32_t most, most_large; // may run at once
    uint32_t running, running_large, waiting;
    struct gate_place *first, **end; // waiting workers, the oldest first
};

void gate_open(struct work_gate *gate, uint32_t most, uint32_t most_large);
void gate_close(struct work_gate *gate);
void gate_enter(struct work_gate *gate, bool large); // waits for its turn
void gate_pass(struct work_gate *gate, bool large);  // lets others go first
void gate_leave(struct work_gate *gate, bool large);
uint32_t gate_waiting(struct work_gate *gate);
