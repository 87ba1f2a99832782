// SPDX-License-Identifier: Apache-2.0
// A batch as bytes for another process of the same program on the same kind of machine. The reader
// checks every count and index and the tokens of rows against the model's limits; the ops ignore
// ids of histories, biases and stop lists that are out of range. Pure functions.
#pragma once

#include "runtime/model/model.h"

// Returns the number of bytes of a batch.
size_t batch_wire_bytes(const struct batch *batch);
// Returns an upper bound of batch_wire_bytes for batches within these limits.
size_t batch_wire_bytes_max(const struct step_limits *limits);
// Writes batch_wire_bytes(batch) bytes to `to`, which may have any alignment.
void batch_write(void *to, struct batch *batch);
// Reads a batch into `out`, which batch_init has set up for facts->limits. INVALID if the bytes are
// no batch of a model with these facts; only the section offsets of `out` are then defined.
enum status batch_read(struct batch *out, const struct model_facts *facts, const void *from,
                       size_t bytes, struct error *err) MUST_USE;
