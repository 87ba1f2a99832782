// The part of kernel_counts that counts whole steps.
#pragma once

#include "kernels/device.h"

// Steps of models of two and of four layers: a line of JSON each, with launches, graph nodes and
// bytes that are copied between host and device.
void step_counts(const struct device_api *api);
