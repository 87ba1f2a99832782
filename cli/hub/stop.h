// SPDX-License-Identifier: Apache-2.0
// Ends downloads when the process is about to end. Any thread.
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

// Lets all downloads of the process, also later ones, end soon with UNWANTED. What arrived stays
// on the disk, and the next download of the model continues there.
void hub_stop(void);
bool hub_is_stopped(void);
// Sleeps; returns false, at the latest 100 ms after hub_stop, if downloads have to end.
bool hub_sleep(uint32_t ms) MUST_USE;
// Fills err for a download that ends because of hub_stop; returns UNWANTED.
enum status hub_stopped(const char *repo, struct error *err);
