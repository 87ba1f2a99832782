// SPDX-License-Identifier: Apache-2.0
// Threads that read weights together with the loading thread.
#pragma once

#include <stdint.h>

// Most threads that fill a staging buffer, the loading thread included; most of all ranks together.
enum { READERS = 4, READERS_ALL = 16 };

struct readers; // NULL: none were started yet

// Runs run(context, part, parts) for each part, and returns when all have ended; parts is READERS,
// or fewer with several ranks. Starts the threads at the first call; the loading thread runs the
// parts of those that could not be started. ranks: number of ranks that load at the same time.
void readers_run(struct readers **readers, uint32_t ranks,
                 void (*run)(void *context, uint32_t part, uint32_t parts), void *context);
void readers_close(struct readers *readers);
