// SPDX-License-Identifier: Apache-2.0
// Lists the weights of a mixture of experts: router and correction, the stacks of the experts that
// the rank holds, the shared expert. Checkpoints have tensors for each expert, or tensors of all
// experts. Loading thread only.
#include "runtime/model/weights_list.h"

#include "base/arena.h"
#include "runtime/model/gguf_tensors.h"

// The router and the gate of the shared expert are never quantised. They are float32 where the
// device multiplies activations with float32, because their rounding would change the choice.
static enum dtype router_dtype(const struct lister *p)
{
    bool same = p->facts.activation[DTYPE_F32] == p->facts.activation[p->list->dtype];
    return same ? DTYPE_F32 : p->list->side;
}

static void add_rows(struct lister *p, uint32_t layer, enum layer_weight kind, const char *format,
                     uint32_t rows)
{
    char name[NAME_MAX_BYTES];
    weight_name(name, p, format, layer, ".weight");
    struct weight_spec spec = {layer_weight_index(layer, kind),
                               WEIGHT_PRODUCT,
                               router_dtype(p),
                               FILL_RANDOM,
                               span_whole(p->config->hidden),
                               1,
                               {{name, span_whole(rows)}}};
    weight_add_as(p, &spec, true);
}

// Returns the tensor names of the checkpoint; NULL for parts that the family lacks.
static struct arch_experts names_of(const struct lister *p)
{
    struct arch_experts names = *p->config->arch->experts;
    if (!p->args->tensors || !tensors_are_gguf(p->args->tensors))
        return names;
    struct arch_experts file = gguf_experts;
    file.biases = names.biases;
    file.correction = names.correction ? file.correction : NULL;
    file.shared_factor = names.shared_factor ? file.shared_factor : NULL;
    return file;
}

// A stack of matrices; each has the rows of one or two tensors.
struct stack {
    enum layer_weight kind;
    uint32_t each;        // number of tensors
    const char *name[2];  // names of the tensors of one expert
    const char *stack[2]; // names of the tensors of all experts
    uint32_t rows, cols;  // size of one expert's tensor
    bool stored;          // true if the checkpoint has the tensors of all experts
    const struct arch_experts *names;
};

static const char *weight_tail(const struct stack *s)
{
    return s->names->complete ? "" : ".weight";
}

// Returns true if one tensor has the rows of gate and up.
static bool is_fused(const struct stack *s)
{
    return s->each == 2 && s->stack[0] == s->stack[1];
}

// Returns true if the checkpoint has the tensors of all experts.
static bool stack_stored(const struct lister *p, uint32_t layer, const struct stack *s)
{
    char name[NAME_MAX_BYTES];
    if (!s->stack[0] || !p->args->tensors)
        return false;
    weight_name(name, p, s->stack[0], layer, weight_tail(s));
    return !s->name[0] || tensors_find(p->args->tensors, name) != NULL;
}

// Returns true if the tensor of all experts, which may be NULL, is [experts][columns][rows].
static bool is_turned(const struct stack *s, const struct tensor *tensor, uint32_t rows)
{
    bool plain =
        tensor && (tensor->packed || (s->names->either && tensor->dims == 3 &&
                                      tensor->shape[1] == rows && tensor->shape[2] == s->cols));
    return s->names->turned && !plain;
}

// Finds tensor i of an expert, or its rows in the tensor of all experts.
static void stack_part_find(struct lister *p, uint32_t layer, const struct stack *s,
                            struct weight_part *part, uint32_t expert, uint32_t i)
{
    char name[NAME_MAX_BYTES];
    if (!s->stored) {
        weight_name_make(name, p, s->name[i], layer, expert, ".weight");
        weight_part_find(p, part, name, 0, s->rows, s->cols);
        return;
    }
    uint32_t count = p->config->experts.count, rows = s->rows * (is_fused(s) ? 2 : 1);
    bool paired = s->names->paired && is_fused(s);
    weight_name(name, p, s->stack[i], layer, weight_tail(s));
    if (is_turned(s, tensors_find(p->args->tensors, name), rows)) {
        part->skip = (uint64_t)expert * s->cols * rows;
        part->step = rows;
        part->stride = paired ? 2 : 1;
        part->from_row = paired || !is_fused(s) ? 0 : i * s->rows;
        part->from_col = paired ? i : 0;
        weight_part_find(p, part, name, count, s->cols, rows);
        return;
    }
    part->from_row = is_fused(s) && !paired ? (2 * expert + i) * s->rows : expert * s->rows;
    if (paired) { // two rows that are neighbours count as one row of twice the columns
        part->stride = 2 * s->cols;
        part->from_col = i * s->cols;
    }
    weight_part_find(p, part, name, count, rows, s->cols);
}

// Finds the tensors of the experts that other ranks hold, so that they do not count as unused.
static void others_find(struct lister *p, uint32_t layer, const struct stack *s,
                        struct weight_entry *entry)
{
    const struct model_span *experts = &p->args->sizes->experts;
    if (!p->args->tensors || experts->count == experts->whole)
        return;
    entry->others = heap_alloc((experts->whole - experts->count) * s->each * sizeof *entry->others);
    for (uint32_t j = 0; j < experts->whole * s->each && p->status == STATUS_OK; j++) {
        struct weight_part part = {.cols = s->cols};
        if (j / s->each - experts->first < experts->count)
            continue; // the rank holds it
        stack_part_find(p, layer, s, &part, j / s->each, j % s->each);
        entry->others[entry->other_count++] = part.tensor;
    }
}

static void stack_add(struct lister *p, uint32_t layer, struct stack *s)
{
    const struct model_span *experts = &p->args->sizes->experts;
    uint32_t count = experts->count, rows = s->each * s->rows;
    if (p->status != STATUS_OK)
        return;
    struct weight_shape shape = {.use = WEIGHT_PRODUCT,
                                 .dtype = p->list->dtype,
                                 .n = count * rows,
                                 .k = s->cols,
                                 .stack = count};
    struct weight_entry *entry = weight_entry_add(p, layer_weight_index(layer, s->kind), &shape,
                                                  FILL_RANDOM, count * s->each);
    s->stored = stack_stored(p, layer, s);
    for (uint32_t j = 0; j < entry->part_count && p->status == STATUS_OK; j++) {
        uint32_t expert = experts->first + j / s->each, i = j % s->each;
        entry->parts[j] = (struct weight_part){.to_row = j * s->rows,
                                               .rows = s->rows,
                                               .cols = s->cols,
                                               .stride = s->cols,
                                               .seed = (expert * s->each + i) * s->rows};
        if (p->args->tensors)
            stack_part_find(p, layer, s, &entry->parts[j], expert, i);
    }
    others_find(p, layer, s, entry);
    p->list->parameter_count += (uint64_t)experts->whole * rows * s->cols;
    for (uint32_t i = 0; i < s->each; i++)
        weight_declare(p, i, (const char *const[]){s->name[i], s->stack[i]}, layer, true);
    weight_entry_finish(p, entry, false);
    p->declared = (struct declared_format){.quantized = false};
}

// Adds the biases of a stack, [experts][rows] in the checkpoint.
static void stack_bias_add(struct lister *p, uint32_t layer, const struct stack *s)
{
    const struct model_span *experts = &p->args->sizes->experts;
    uint32_t whole = s->rows * (is_fused(s) ? 2 : 1);
    bool paired = s->names->paired && is_fused(s);
    if (p->status != STATUS_OK)
        return;
    struct weight_shape shape = {
        .use = WEIGHT_VECTOR, .dtype = DTYPE_F32, .n = experts->count * s->each * s->rows, .k = 1};
    struct weight_entry *entry = weight_entry_add(p, layer_weight_index(layer, s->kind) + 1, &shape,
                                                  FILL_ZEROS, experts->count * s->each);
    for (uint32_t j = 0; j < entry->part_count && p->status == STATUS_OK; j++) {
        struct weight_part *part = &entry->parts[j];
        uint32_t expert = experts->first + j / s->each, i = j % s->each;
        char name[NAME_MAX_BYTES];
        *part =
            (struct weight_part){.to_row = j * s->rows, .rows = s->rows, .cols = 1, .stride = 1};
        if (!p->args->tensors)
            continue;
        part->stride = paired ? 2 : 1;
        part->from_row =
            paired ? expert * s->rows : expert * whole + (is_fused(s) ? i * s->rows : 0);
        part->from_col = paired ? i : 0;
        weight_name(name, p, s->stack[i], layer, s->names->complete ? "_bias" : ".bias");
        weight_part_find(p, part, name, 0, p->config->experts.count, whole);
    }
    p->list->parameter_count += (uint64_t)experts->whole * s->each * s->rows;
    weight_entry_finish(p, entry, true);
}

static void shared_add(struct lister *p, uint32_t layer, const struct arch_experts *names)
{
    struct model_span hidden = span_whole(p->config->hidden), inner = p->args->sizes->shared;
    struct stacked up = {LAYER_SHARED_UP,
                         hidden,
                         2,
                         false,
                         {{&names->shared_gate, inner}, {&names->shared_up, inner}}};
    struct stacked down = {LAYER_SHARED_DOWN, inner, 1, false, {{&names->shared_down, hidden}}};
    weight_add_stacked(p, layer, &up);
    weight_add_stacked(p, layer, &down);
    if (names->shared_factor)
        add_rows(p, layer, LAYER_SHARED_FACTOR, names->shared_factor, 1);
}

void weight_add_experts(struct lister *p, uint32_t layer)
{
    const struct experts_config *e = &p->config->experts;
    const struct arch_experts names = names_of(p);
    struct stack up = {LAYER_EXPERT_UP,
                       2,
                       {names.gate, names.up},
                       {names.gate_stack, names.up_stack},
                       e->width,
                       p->config->hidden,
                       false,
                       &names};
    struct stack down = {LAYER_EXPERT_DOWN, 1,        {names.down}, {names.down_stack},
                         p->config->hidden, e->width, false,        &names};
    char name[NAME_MAX_BYTES];
    add_rows(p, layer, LAYER_ROUTER, names.router, e->count);
    if (names.biases) {
        weight_name(name, p, names.router, layer, ".bias");
        weight_add_vector(p, layer_weight_index(layer, LAYER_ROUTER_BIAS), name, e->count,
                          FILL_ZEROS);
    }
    if (names.correction) {
        weight_name(name, p, names.correction, layer, "");
        weight_add_vector(p, layer_weight_index(layer, LAYER_ROUTER_CORRECTION), name, e->count,
                          FILL_ZEROS);
    }
    stack_add(p, layer, &up);
    stack_add(p, layer, &down);
    if (names.biases) {
        stack_bias_add(p, layer, &up);
        stack_bias_add(p, layer, &down);
    }
    if (e->shared_width > 0)
        shared_add(p, layer, &names);
}

bool weight_shared_name(char *out, const struct lister *p)
{
    if (p->config->experts.shared_width == 0)
        return false;
    weight_name(out, p, names_of(p).shared_down.name, 0, ".weight");
    return true;
}
