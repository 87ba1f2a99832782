// SPDX-License-Identifier: Apache-2.0
// The weights of a model: a list of them, each with its source in the checkpoint (or random
// numbers) and its bytes on the device, and their loading. Loading thread only, weights_load also
// a thread for each rank (rank_load.h); afterwards they are read-only. The caller of weights_load
// owns the device memory.
#pragma once

#include "kernels/device.h"
#include "runtime/model/config.h"
#include "runtime/model/tensors.h"
#include "runtime/model/share.h"

#include <stdbool.h>
#include <stdint.h>

enum model_weight {
    MODEL_EMBED,
    MODEL_HEAD, // absent if the embedding table is also the head
    MODEL_FINAL_NORM,
    MODEL_FINAL_NORM_BIAS,
    MODEL_POSITION,
    MODEL_TYPE,
    MODEL_EMBED_NORM,
    MODEL_EMBED_NORM_BIAS,
    MODEL_DISTANCE, // bias of the scores by distance, [heads][2 * reach + 1]
    MODEL_SCORE_DENSE,
    MODEL_SCORE_DENSE_BIAS,
    MODEL_SCORE_NORM,
    MODEL_SCORE_NORM_BIAS,
    MODEL_SCORE,
    MODEL_SCORE_BIAS,
    MODEL_MODULE, // weight and bias of the first module after pooling; the others follow
    MODEL_MODULE_END = MODEL_MODULE + 2 * CONFIG_MODULES_MAX,
    MODEL_WEIGHT_COUNT = MODEL_MODULE_END
};

// A bias directly follows its weight, here and below: the code uses the weight's index + 1.
enum layer_weight {
    LAYER_QKV, // q, k and v stacked in one product
    LAYER_QKV_BIAS,
    LAYER_O,
    LAYER_O_BIAS,
    LAYER_SINKS,
    LAYER_Q_NORM,
    LAYER_K_NORM,
    LAYER_NORM_ATTN,
    LAYER_NORM_ATTN_BIAS,
    LAYER_NORM_FFN,
    LAYER_NORM_FFN_BIAS,
    LAYER_POST_ATTN, // norm of the output of attention
    LAYER_POST_FFN,  // norm of the output of the feed-forward part
    LAYER_UP,        // gated: gate and up stacked in one product
    LAYER_UP_BIAS,
    LAYER_DOWN,
    LAYER_DOWN_BIAS,
    LAYER_ROUTER, // one row for each expert of the model, on every rank
    LAYER_ROUTER_BIAS,
    LAYER_ROUTER_CORRECTION, // see struct route_args
    LAYER_EXPERT_UP,         // a stack: gate and up of each expert that the rank holds
    LAYER_EXPERT_UP_BIAS,
    LAYER_EXPERT_DOWN,
    LAYER_EXPERT_DOWN_BIAS,
    LAYER_SHARED_UP, // gate and up of the shared expert
    LAYER_SHARED_UP_BIAS,
    LAYER_SHARED_DOWN,
    LAYER_SHARED_DOWN_BIAS,
    LAYER_SHARED_FACTOR, // one row: gate of the shared expert's output
    LAYER_WEIGHT_COUNT
};

_Static_assert(LAYER_QKV_BIAS == LAYER_QKV + 1 && LAYER_O_BIAS == LAYER_O + 1 &&
                   LAYER_NORM_ATTN_BIAS == LAYER_NORM_ATTN + 1 &&
                   LAYER_NORM_FFN_BIAS == LAYER_NORM_FFN + 1 && LAYER_UP_BIAS == LAYER_UP + 1 &&
                   LAYER_DOWN_BIAS == LAYER_DOWN + 1 &&
                   LAYER_SHARED_UP_BIAS == LAYER_SHARED_UP + 1 &&
                   LAYER_SHARED_DOWN_BIAS == LAYER_SHARED_DOWN + 1,
               "a bias directly follows its weight");
_Static_assert(MODEL_EMBED_NORM_BIAS == MODEL_EMBED_NORM + 1 &&
                   MODEL_FINAL_NORM_BIAS == MODEL_FINAL_NORM + 1 &&
                   MODEL_SCORE_NORM_BIAS == MODEL_SCORE_NORM + 1 &&
                   MODEL_SCORE_DENSE_BIAS == MODEL_SCORE_DENSE + 1 &&
                   MODEL_SCORE_BIAS == MODEL_SCORE + 1,
               "a bias directly follows its weight");

enum weight_fill { FILL_RANDOM, FILL_ONES, FILL_ZEROS }; // values without a checkpoint

struct weight_part {
    const struct tensor *tensor; // NULL: filled without a checkpoint
    uint32_t to_row;             // first row in the packed weight
    uint32_t from_row, from_col; // first row and column in the tensor
    uint32_t rows, cols;         // size of the part
    uint32_t stride;             // columns of the entire tensor
    uint32_t step;               // elements from one column to the next; 0: 1
    uint64_t skip;               // with a step: elements of the tensor before the part's matrix
    uint32_t head, rotary;       // rows of a head whose first `rotary` rows are interleaved; or 0
    float addend, factor;        // the values are (stored + addend) * factor; factor 0: as stored
    uint32_t seed;               // without a checkpoint: the part's first row in the unsplit weight
};

struct weight_entry {
    uint32_t index; // index into the table that weights_load fills
    struct weight_shape shape;
    enum weight_fill fill;
    uint32_t part_count;
    struct weight_part *parts;    // [part_count], owned by the entry
    const struct tensor **others; // [other_count] tensors of experts that other ranks hold, or NULL
    uint32_t other_count;
    bool difference; // true: a single row, parts[0] minus parts[1]
    // Number of heads of the bias by distance; 0: another weight. The table is computed: from the
    // values of the buckets in parts[0], or, without parts, by ALiBi.
    uint32_t distance_heads;
    uint64_t bytes;  // packed size on the device
    uint64_t offset; // offset in the device memory of all weights
};

struct weight_list {
    struct weight_entry *entries; // [count], owned by the list
    uint32_t count;
    uint32_t table_count;     // number of elements of the table
    uint64_t bytes;           // device memory of all weights, alignment included
    uint64_t load_bytes;      // packed bytes of all entries, for progress
    uint64_t parameter_count; // parameters of the entire checkpoint; a tied head counts once
    enum dtype dtype;         // dtype of the products
    bool declared;     // true if weights without a checkpoint have the format of a declaration
    bool codes;        // true if quantised tensors are held in their own format
    bool e4m3;         // true if FP8 tensors are held as their codes
    bool fp8;          // true if other products of layers are quantised to FP8
    uint32_t fp8_cut;  // number of FP8 weights that cannot be held as codes
    uint32_t int4_cut; // number of products that cannot be quantised to 4 bits
    bool int4;         // true if products are quantised to 4 bits
    enum dtype side;   // dtype of tables and score heads: like `dtype`, but never int8
};

struct weight_list_args {
    const struct model_config *config;     // `tied` may be overridden by the checkpoint
    const struct model_sizes *sizes;       // sizes of the rank whose part is listed
    const struct tensors *tensors;         // NULL: no checkpoint, fill with values
    struct tensors *const *module_tensors; // [config->module_count]; read if `tensors` is set
    const struct device_api *api;
    struct device *device;
    // Formats of weights without a checkpoint; NULL: floats. Not NULL only if `dtype` is -1.
    const struct declaration *declared;
    int dtype;             // enum dtype, MODEL_INT4, MODEL_FP8, or -1: the checkpoint's
    int32_t yes_id, no_id; // tokens whose logits make the score of a reranker without a head
    bool lone_answer;      // true if the score is the logit of yes_id alone
};

// Returns the number of columns of which each rank's part of a feed-forward layer must be a
// multiple, because a block of quantised weights cannot be split. This is the number of elements of
// a block of the file, of a group of a folder's 4-bit codes, of a block of its FP8 codes or of a
// group of MODEL_INT4; 1: the layer can be cut anywhere.
uint32_t weight_list_unit(const struct weight_list_args *args);

// Lists the weights of a rank and finds their tensors. An error names the missing or unsuitable
// tensor. Refuses a checkpoint with a tensor that no weight uses (unused.h).
enum status weight_list_make(struct weight_list *out, const struct weight_list_args *args,
                             struct error *err) MUST_USE;
// Frees the entries; a second call does nothing.
void weight_list_close(struct weight_list *list);

// Writes the formats of the weights that are held as codes, and "int8" if quantised ones are held
// so next to floats, those with most elements first; empty if there are none.
void weight_list_formats(char out[FORMATS_TEXT], const struct weight_list *list);

struct weight_load_args {
    const struct device_api *api;
    struct device *device;
    void *memory;     // list->bytes bytes of device memory
    uint32_t threads; // threads that compute rows, if the device has none; 0: one per usable core
    void (*progress)(void *context, uint64_t done); // called with the bytes loaded so far, or NULL
    void *context;
    const _Atomic bool *stopped; // loading ends with UNWANTED once it is true; NULL: never
};

// Loads and packs all weights and fills table[list->table_count]; an element without an entry gets
// shape.n == 0.
enum status weights_load(struct weight *table, const struct weight_list *list,
                         const struct weight_load_args *args, struct error *err) MUST_USE;

// Returns the table index of a weight of a layer.
static inline uint32_t layer_weight_index(uint32_t layer, enum layer_weight kind)
{
    return MODEL_WEIGHT_COUNT + layer * LAYER_WEIGHT_COUNT + kind;
}

// Returns the weight at a table index, or NULL if the model has none.
static inline const struct weight *weight_at(const struct weight *table, uint32_t index)
{
    return table[index].shape.n > 0 ? &table[index] : NULL;
}
