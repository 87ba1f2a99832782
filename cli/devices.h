// SPDX-License-Identifier: Apache-2.0
// The devices of a process. Each is opened once and identified by kind and number. Main thread.
#pragma once

#include "cli/settings.h"

struct loaded_device {
    const struct device_api *api;
    struct device *device;
    struct device_facts facts;
    struct device_options options; // options it was opened with
    enum device_choice kind;       // not DEVICE_AUTO
    uint32_t index;
    char label[16]; // "cpu", "cuda:1"
};

// Returns true if both are records of one device: models that are loaded while a server runs have
// copies of the records.
static inline bool device_same(const struct loaded_device *a, const struct loaded_device *b)
{
    return a->kind == b->kind && a->index == b->index;
}

enum { DEVICES_MAX = 64 };

struct device_list {
    struct loaded_device at[DEVICES_MAX]; // in the order in which they were first requested
    uint32_t count;
    enum device_choice chosen; // the kind that auto means; DEVICE_AUTO: not decided yet
};

// Call before the first device is opened and before other threads run. If a model is split over
// GPUs, sets CUDA_MODULE_LOADING, unless the environment has it, so that GPUs load all code when
// they are opened.
void devices_begin(const struct model_spec *specs, uint32_t count);

// Stores the devices that a model may use: those that its --device option numbers, else the first
// ones, one per copy or rank; a CPU counts as one. *count: number of devices stored. Opens those
// that are not open yet. If the option is `auto` and there is no GPU, logs why and uses the CPU.
// The list owns the devices and keeps those that it opened before an error.
enum status devices_of(struct device_list *list, struct loaded_device *out[OPTION_DEVICES_MAX],
                       uint32_t *count, const struct model_spec *spec,
                       const struct device_settings *settings, struct error *err) MUST_USE;

void devices_close(struct device_list *list);
