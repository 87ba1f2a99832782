// SPDX-License-Identifier: Apache-2.0
// The memory plans of models as text, for the start of a server and `weft inspect`. No state.
#pragma once

#include "cli/load.h"

#include <stdio.h>

// Prints the plan of one model.
void plan_print(FILE *out, const struct loaded_model *model);
// Logs the memory plan of each device at level info. complete: true: with all entries of the plans;
// false: only the device and the sum. more: line after the entries of the first device, or NULL.
void plans_print(const struct loaded *loaded, const char *more, bool complete);
