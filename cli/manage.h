// SPDX-License-Identifier: Apache-2.0
// Loads and unloads models while a server runs, on a thread that handles one job at a time. Other
// models are served meanwhile.
#pragma once

#include "cli/served_models.h"

struct manager;

struct manager_args {
    struct served_models *models;
    struct loaded *loaded;              // devices and models of the startup; owns the devices
    const struct model_settings *model; // settings for all models
    const struct device_settings *device;
    uint32_t http_threads;
};

// Starts the thread. All arguments are borrowed until manager_close.
enum status manager_open(struct manager **out, const struct manager_args *args,
                         struct error *err) MUST_USE;
// Stops downloads and refuses the jobs that wait; the loading of a model continues. Call it before
// the server drains, which waits for the answers of jobs.
void manager_stop(struct manager *manager);
// Ends the thread once its job has ended, at the latest at the deadline (CLOCK_MONOTONIC). Returns
// false if the thread still runs: then nothing that it uses may be freed. Call it after
// manager_stop.
bool manager_close(struct manager *manager, uint64_t deadline);

// For server_options: queues a job, or answers it as refused if too many jobs wait or the server
// ends. context: address of the pointer to the manager, which must be open before models are
// served. h2o threads; does not block.
void manager_job(void *context, struct manage_job *job);
