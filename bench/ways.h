// SPDX-License-Identifier: Apache-2.0
// Names of the ways of the cuda device that are not its defaults (enum device_way), for programs
// that measure both.
#pragma once

#include <stdbool.h>
#include <stdint.h>

// Reads names that are separated by commas. Returns false, after printing those that there are, if
// one is not known.
bool ways_read(const char *list, uint32_t *ways);
