// SPDX-License-Identifier: Apache-2.0
// The memory that the plans of models need on their devices, the choice of a device for a copy, and
// the split of the memory that is left for KV blocks. No state; the thread that loads models.
#pragma once

#include "cli/load.h"

// Returns the number of GPUs that the model is split over; 1 on a CPU, where all ranks use one
// device.
uint32_t gpu_count(const struct loaded_model *model);
// Returns true if GPUs share the model, also if all but one of them are in other processes.
bool is_split_over_gpus(const struct loaded_model *model);
// Returns true if the model, or a rank of it, is on the device. Call after models_plan.
bool is_on(const struct loaded_model *model, const struct loaded_device *device);

// Returns the bytes that the plan of the model and its KV blocks need on the device; 0 if it is
// not on the device or has no plan.
uint64_t memory_on(const struct loaded_model *model, const struct loaded_device *device);
// Returns the memory that the plan of the model needs on its device; the last entry is the KV
// blocks, if it has any.
struct device_need memory_planned(const struct loaded_model *model);

// Returns the device with the most memory left among those that the copy may use; for a model that
// is split over GPUs, that of rank 0. Copies of one model are on different devices, unless it has
// only one choice.
struct loaded_device *device_choose(const struct loaded *loaded, const struct loaded_model *model);

// Sets kv_bytes and kv_rule of the models on a device: their kv-cache-memory if it is given, else
// their part, in proportion to kv-share, of the memory that the plans leave, but no more than they
// can use. NO_MEMORY if the plans do not fit, or a model gets too little for one sequence.
enum status kv_split(struct loaded *loaded, const struct loaded_device *device,
                     struct error *err) MUST_USE;
