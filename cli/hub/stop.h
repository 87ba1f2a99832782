// SPDX-License-Identifier: Apache-2.0
// Stops downloads when the process is about to end. Any thread.
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

// Stops all downloads of the process, also later ones: they return UNWANTED soon. Bytes that have
// arrived stay on the disk, and the next download of the model continues after them.
void hub_stop(void);
// Returns true after hub_stop.
bool hub_is_stopped(void);
// Sleeps this number of milliseconds and returns true. After hub_stop returns false within 100 ms.
bool hub_sleep(uint32_t ms) MUST_USE;
// Fills err for a download that ends because of hub_stop; returns UNWANTED.
enum status hub_stopped(const char *repo, struct error *err);
