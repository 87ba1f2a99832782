// SPDX-License-Identifier: Apache-2.0
// Threads that read weights together with the loading thread.
#pragma once

#include <stdint.h>

enum { READERS = 4 }; // threads that fill a staging buffer, the loading thread included

struct readers; // NULL: none were started yet

// Runs run(context, part, READERS) for each part, and returns when all have ended. Starts the
// threads at the first call; the loading thread runs the parts of those that could not be started.
void readers_run(struct readers **readers,
                 void (*run)(void *context, uint32_t part, uint32_t parts), void *context);
void readers_close(struct readers *readers);
