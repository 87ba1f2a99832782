// SPDX-License-Identifier: Apache-2.0
// Private to weights.c, weights_ends.c and weights_experts.c: the state of weight_list_make, and
// how entries are added to the list. Loading thread only.
#pragma once

#include "runtime/model/declared.h"
#include "runtime/model/weights.h"

enum { NAME_MAX_BYTES = 256 };

struct lister {
    const struct weight_list_args *args;
    const struct model_config *config;
    struct device_facts facts; // facts of the device that will hold the weights
    struct weight_list *list;
    const char *prefix, *head;       // prefix of the tensors' names; name of the head, or NULL
    struct declared_format declared; // format of the next product, without a checkpoint
    struct error *err;
    enum status status; // the first failure; later calls do nothing
};

// The sources of one entry: the rank's part of each tensor. Names include ".weight" or ".bias".
struct weight_spec {
    uint32_t index;
    enum weight_use use;
    enum dtype dtype;
    enum weight_fill fill;
    struct model_span cols;
    uint32_t part_count;
    struct {
        const char *name; // full name of the tensor
        struct model_span rows;
    } parts[3];
};

// A product of up to three stacked tensors, and its bias if there is one.
struct stacked {
    enum layer_weight kind; // kind of the weight; its bias is kind + 1
    struct model_span cols;
    uint32_t count;
    bool bias;
    struct {
        const struct arch_tensor *tensor;
        struct model_span rows;
    } parts[3];
};

// Adds an entry with its parts to the list, unless an earlier call failed. plain: true if it is
// held as elements of its dtype, whatever other weights are held as.
void weight_add_as(struct lister *, const struct weight_spec *, bool plain);
void weight_add_stacked(struct lister *, uint32_t layer, const struct stacked *);
void weight_add_vector(struct lister *, uint32_t index, const char *name, uint32_t n,
                       enum weight_fill fill);
// Adds an entry without parts, with memory for part_count of them.
struct weight_entry *weight_entry_add(struct lister *, uint32_t index,
                                      const struct weight_shape *shape, enum weight_fill fill,
                                      uint32_t part_count);
// Finds the tensor of a part and checks its shape and dtype. stack, rows, cols: of the entire
// tensor; stack 0: it has no such dimension.
void weight_part_find(struct lister *, struct weight_part *part, const char *name, uint32_t stack,
                      uint32_t rows, uint32_t cols);
// Chooses how an entry is held, and its place in device memory. All its parts must be set.
void weight_entry_finish(struct lister *, struct weight_entry *, bool plain);
// out = prefix + name with the numbers of layer and expert + tail; out: NAME_MAX_BYTES bytes.
void weight_name_make(char *out, const struct lister *, const char *format, uint32_t layer,
                      uint32_t expert, const char *tail);

// Returns the rank's part of a dimension if a tensor with this axis is split along it, else all of
// it.
struct model_span weight_axis_cut(struct model_span span, enum shard_axis axis,
                                  enum shard_axis along);
// Finds a tensor. Older checkpoints call the weight and bias of a LayerNorm gamma and beta.
const struct tensor *weight_find(const struct tensors *, const char *name);
// Sets the size of an entry and its offset in device memory.
void weight_entry_size(struct lister *, struct weight_entry *);
void weight_add(struct lister *, const struct weight_spec *); // weight_add_as, not plain
// Adds a norm of hidden states and, if the model's norms have a bias, that at the next index.
void weight_add_hidden_norm(struct lister *, uint32_t index, const char *format, uint32_t layer);
// out = prefix + name with the layer's number + tail.
void weight_name(char *out, const struct lister *, const char *format, uint32_t layer,
                 const char *tail);

// weights_ends.c. Adds the embedding table and, for a generator, the head.
void weight_add_embedding(struct lister *);
// Adds the other weights that an encoder has before the layers.
void weight_add_encoder_ends(struct lister *);
// Adds the head of a reranker.
void weight_add_score(struct lister *);
// Adds the modules after pooling. Each module has a folder with its tensors.
void weight_add_modules(struct lister *);

// weights_codes.c. Returns the format in which a tensor's elements can be held as they are, or
// WEIGHT_FLOATS, also for NULL.
enum weight_format weight_tensor_format(const struct tensor *);
// Returns the tensor's format if the device holds it, else WEIGHT_FLOATS.
enum weight_format weight_held_format(const struct device_facts *, const struct tensor *);
// Returns true if an entry is a product whose tensors are quantised, but is held as floats.
bool weight_codes_lost(const struct weight_entry *);
// Chooses the formats of an entry.
void weight_codes_choose(const struct lister *, struct weight_entry *);

// Returns prefix i of the tensor names, or NULL after the last one. Sets *head to the name of the
// head in a checkpoint with this prefix.
const char *weight_prefix_at(const struct model_config *, int i, const char **head);

// weights_declared.c: weights without a checkpoint that have the format of a declaration. Sets the
// format of the next product from its part i, which has one of two names of modules. Parts of
// different formats make the product's format unknown; one unquantized part makes it unquantized.
// Either name may be NULL.
void weight_declare(struct lister *, uint32_t i, const char *const names[2], uint32_t layer,
                    bool expert);
void weight_declare_stacked(struct lister *, uint32_t layer, const struct stacked *);
// Holds a product in the format that was set.
void weight_declared_choose(const struct lister *, struct weight_entry *);
// Returns the format in which the device holds the last product of layer 0.
enum weight_format weight_declared_down(struct lister *);

// weights_experts.c: adds the weights of a mixture of experts.
void weight_add_experts(struct lister *, uint32_t layer);
// Writes the name of the last product of layer 0's shared expert. Returns false if there is none.
bool weight_shared_name(char *out, const struct lister *);
