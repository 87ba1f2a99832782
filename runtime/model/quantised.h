// SPDX-License-Identifier: Apache-2.0
// The declarations by which a model folder states that its checkpoint is quantised: keys of
// config.json and files next to it. They decide only whether the checkpoint is read, how GPTQ
// stores zero points and whether columns are in groups of any order; packed_find.h finds the
// quantised modules. Loading thread only.
#pragma once

#include "base/status.h"
#include "kernels/format.h"
#include "runtime/model/packed_find.h"

#include <jansson.h>
#include <stdbool.h>

struct quantised {
    char method[96];   // "fp8", "modelopt NVFP4", "gptq 4 bits"
    const char *where; // key or file that declares it; NULL: the checkpoint is not quantised
    bool read;         // true if checkpoints of this method and variant are read
    bool zeros_full;   // see struct packed_rules
    bool ordered;      // see struct packed_rules
    uint32_t group;    // see struct packed_rules
};

// Reads quantization_config of config.json, also in the text part of a multimodal model.
struct quantised quantised_by_config(const json_t *config);

// The format of products by a declaration.
struct declared_format {
    bool quantized;            // false: floats
    bool experts;              // true if only experts are quantized
    bool ordered;              // see struct packed_rules
    enum weight_format format; // WEIGHT_FLOATS: unknown, or no device holds it; without `group`
    uint32_t group;            // columns of a group of 4-bit integers; UINT32_MAX: a row; 0: others
    bool zeros;                // true if groups have zero points
};
static inline bool declared_formats_equal(const struct declared_format *a,
                                          const struct declared_format *b)
{
    return a->quantized == b->quantized && a->experts == b->experts && a->ordered == b->ordered &&
           a->format == b->format && a->group == b->group && a->zeros == b->zeros;
}
// Returns the format by a declaration; usual: its method if it names none, or NULL. Lists of
// modules are not read (declared.h), nor the groups of compressed-tensors: quantised_group_format
// returns the format by the member "weights" of one.
struct declared_format quantised_format_of(const json_t *object, const char *usual);
struct declared_format quantised_group_format(const json_t *weights);
// Returns the name of a declaration's method, or "".
const char *quantised_method(const json_t *object, const char *usual);
// Finds the declaration of a folder, in config.json or a file next to it. *object is part of *json,
// which the caller frees; NULL: there is none. *usual: see quantised_format_of.
enum status quantised_declaration(json_t **json, const json_t **object, const char **usual,
                                  const char *folder, struct error *err) MUST_USE;
// Returns the format in which a device can hold a declared product whose tensors have this number
// of columns, or WEIGHT_FLOATS.
enum weight_format quantised_product_format(const struct declared_format *, uint32_t columns);

// Reads the files in which some tools declare it without a key in config.json:
// hf_quant_config.json, quantize_config.json and quant_config.json.
enum status quantised_by_files(struct quantised *out, const char *folder,
                               struct error *err) MUST_USE;

// Returns OK if the checkpoint is not quantised or is read, else UNSUPPORTED with a sentence that
// names method, place and what is read.
enum status quantised_check(const struct quantised *quantised, struct error *err) MUST_USE;

// Reads what packed_find must know from the folder's declaration, if there is one.
enum status quantised_rules_read(struct packed_rules *out, const char *folder,
                                 struct error *err) MUST_USE;
