// SPDX-License-Identifier: Apache-2.0
// A batch as bytes for another process of the same program on the same kind of machine. The reader
// trusts nothing: every count, index and token id is checked against the model's limits, so that a
// batch that was read can be launched. Pure functions.
#pragma once

#include "runtime/model/model.h"

// Returns the number of bytes of a batch.
size_t batch_wire_bytes(const struct batch *batch);
// Returns an upper limit of batch_wire_bytes of all batches within these limits.
size_t batch_wire_bytes_max(const struct step_limits *limits);
// Writes batch_wire_bytes bytes.
void batch_write(void *to, struct batch *batch);
// Reads a batch into `out`, which batch_init has set up for facts->limits. INVALID if the bytes are
// no batch of a model with these facts; `out` is then undefined but for its section offsets.
enum status batch_read(struct batch *out, const struct model_facts *facts, const void *from,
                       size_t bytes, struct error *err) MUST_USE;
