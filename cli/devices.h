// The devices of a process: opened once each, known by kind and number.
#pragma once

#include "cli/settings.h"

struct loaded_device {
    const struct device_api *api;
    struct device *device;
    struct device_facts facts;
    struct device_options options; // as it was opened
    enum device_choice kind;       // never auto
    uint32_t index;
    char label[16]; // "cpu", "cuda:1"
};

enum { DEVICES_MAX = 64 };

struct device_list {
    struct loaded_device at[DEVICES_MAX]; // in the order in which they were asked for
    uint32_t count;
    enum device_choice chosen; // what auto is; auto: nobody asked yet
};

// Before the first device is opened: with a split model GPUs load all their code when they are
// opened. Sets CUDA_MODULE_LOADING where the environment has none; no other thread runs yet.
void devices_begin(const struct model_spec *specs, uint32_t count);

// The devices that a model may use: those that its option numbers, else the first ones, as many as
// it has copies or ranks; a CPU is one. Opens those that are not open. On `auto` without a GPU one
// line says why and the CPU is taken.
enum status devices_of(struct device_list *list, struct loaded_device *out[OPTION_DEVICES_MAX],
                       uint32_t *count, const struct model_spec *spec,
                       const struct device_settings *settings, struct error *err) MUST_USE;

void devices_close(struct device_list *list);
