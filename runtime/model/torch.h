// SPDX-License-Identifier: Apache-2.0
// Files of torch.save (since torch 1.6): a zip archive with a pickle, NAME/data.pkl, that describes
// the tensors, and one entry NAME/data/KEY for each storage. tensors.h opens the files of a
// checkpoint. Loading thread only.
#pragma once

#include "runtime/model/tensors.h"

// Parses one file of torch.save whose bytes are `file`; *out lies in the arena and is sorted by
// name; the names differ. `name` is the file's name for messages. Tensors may share bytes, as tied
// weights do. A tensor whose elements are not in the order of its shape is refused. The fuzzer
// calls this function.
enum status torch_parse(struct tensor **out, uint32_t *count, struct arena *arena, struct text file,
                        const char *name, struct error *err) MUST_USE;
