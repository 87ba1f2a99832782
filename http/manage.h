// SPDX-License-Identifier: Apache-2.0
// Jobs that an endpoint passes to the owner of the server: loading and unloading models.
#pragma once

#include "http/exchange.h"

#include <stdatomic.h>

// A job for the owner of the server, such as loading a model. It may take minutes.
struct manage_job {
    bool unload;  // true: unload a model; false: load one
    json_t *body; // the request, owned by the job
    // results, set by the owner before server_manage_done
    struct json_buffer reply; // body of the answer if the job succeeded
    enum http_error error;    // error code of a failure
    struct text message;      // text of a failure, in `reply`; at == NULL: the job succeeded
    // private
    _Atomic bool done;
    _Atomic int users; // exchange and owner; the last one frees the job
    uint32_t thread;   // index of the h2o thread of the exchange
};
// Passes the job to the owner, and adds a reference for it. The handler has allocated the job
// zeroed on the heap and set `users` to 1, its own reference. When the job is done, on_managed is
// called (also when a job of another exchange is done). Returns false, and adds no reference, if
// the server has no owner for such jobs.
bool exchange_manage(struct exchange *x, struct manage_job *job) MUST_USE;
// Returns true once the owner has called server_manage_done: its results can be read.
bool manage_is_done(const struct manage_job *job);
// Drops a reference; the last frees the job with its body and reply. Any thread.
void manage_unref(struct manage_job *job);
