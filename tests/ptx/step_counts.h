// SPDX-License-Identifier: Apache-2.0
// The part of kernel_counts that counts complete steps.
#pragma once

#include "kernels/device.h"

// Runs steps of models of two and of four layers and prints a line of JSON for each, with launches,
// graph nodes and the bytes copied between host and device.
void step_counts(const struct device_api *api);
