// SPDX-License-Identifier: Apache-2.0
// From tensor names to packed weights: weight_list_make builds a list of entries from the
// architecture's names; weights_load.c loads them. Loading thread only.
#include "runtime/model/weights_list.h"

#include "base/arena.h"
#include "base/log.h"
#include "runtime/model/dequantise.h"
#include "runtime/model/packed.h"
#include "runtime/model/quantised.h"
#include "runtime/model/unused.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { WEIGHT_ALIGNMENT = 256 };

// Returns the rank's part of a dimension if a tensor with this axis is split along it, else all of
// it.
struct model_span weight_axis_cut(struct model_span span, enum shard_axis axis,
                                  enum shard_axis along)
{
    return axis == along ? span : span_whole(span.whole);
}

static void shape_text(char *out, size_t bytes, const struct tensor *tensor)
{
    size_t used = (size_t)snprintf(out, bytes, "[");
    for (uint32_t i = 0; i < tensor->dims && used < bytes; i++)
        used += (size_t)snprintf(out + used, bytes - used, "%s%" PRIu64, i ? ", " : "",
                                 tensor->shape[i]);
    if (used < bytes)
        snprintf(out + used, bytes - used, "]");
}

// Finds a tensor. Older checkpoints call the weight and bias of a LayerNorm gamma and beta.
const struct tensor *weight_find(const struct tensors *tensors, const char *name)
{
    const struct tensor *found = tensors_find(tensors, name);
    size_t bytes = strlen(name);
    char other[NAME_MAX_BYTES];
    if (found || bytes + 1 >= sizeof other)
        return found;
    static const char *const tails[][2] = {{"LayerNorm.weight", "LayerNorm.gamma"},
                                           {"LayerNorm.bias", "LayerNorm.beta"}};
    for (size_t i = 0; i < 2; i++) {
        size_t tail = strlen(tails[i][0]);
        if (bytes < tail || strcmp(name + bytes - tail, tails[i][0]) != 0)
            continue;
        snprintf(other, sizeof other, "%.*s%s", (int)(bytes - tail), name, tails[i][1]);
        return tensors_find(tensors, other);
    }
    return NULL;
}

// Replaces an error about a tensor by the reason if the checkpoint is quantised, which the tensors
// next to it show.
static void quantised_explain(struct lister *p, const char *name)
{
    static const char *const tails[] = {
        ".qweight",        ".weight_packed", ".weight_scale",     ".weight_scale_inv",
        ".weight_scale_2", ".weight.absmax", ".weight.quant_map", ".SCB",
    };
    size_t bytes = strlen(name);
    static const char end[] = ".weight";
    bool weight = bytes >= sizeof end && strcmp(name + bytes - (sizeof end - 1), end) == 0;
    for (size_t i = 0; weight && i < sizeof tails / sizeof tails[0]; i++) {
        char other[NAME_MAX_BYTES + 32];
        snprintf(other, sizeof other, "%.*s%s", (int)(bytes - (sizeof end - 1)), name, tails[i]);
        const struct tensor *found = tensors_find(p->args->tensors, other);
        if (!found)
            continue;
        struct quantised quantised = {.where = other};
        snprintf(quantised.method, sizeof quantised.method, "%s", found->type);
        p->status = quantised_check(&quantised, p->err);
        return;
    }
}

// Returns true if the tensor has the shape that a part needs. A vector may have a first dimension
// of one.
static bool shape_fits(const struct tensor *tensor, uint32_t stack, uint32_t rows, uint32_t cols)
{
    const uint64_t *shape = tensor->shape;
    if (stack > 0)
        return tensor->dims == 3 && shape[0] == stack && shape[1] == rows && shape[2] == cols;
    if (cols == 1 && tensor->dims == 2 && shape[0] == 1)
        return shape[1] == rows;
    if (cols == 1)
        return tensor->dims == 1 && shape[0] == rows;
    return tensor->dims == 2 && shape[0] == rows && shape[1] == cols;
}

void weight_part_find(struct lister *p, struct weight_part *part, const char *name, uint32_t stack,
                      uint32_t rows, uint32_t cols)
{
    const struct tensors *tensors = p->args->tensors;
    const struct tensor *tensor = weight_find(tensors, name);
    char in_file[TENSOR_NAME_MAX];
    const char *name_shown = tensors_name_in_file(tensors, name, in_file);
    const struct tensors_words *words = tensors_words(tensors);
    if (!tensor) {
        p->status = error_set(p->err, STATUS_INVALID,
                              "the tensor %s, which %s needs, is not in the checkpoint%s",
                              name_shown, p->config->name, words->absent);
        quantised_explain(p, name);
        return;
    }
    if (!shape_fits(tensor, stack, rows, cols)) {
        char shape[160];
        struct tensor wanted = {.shape = {rows, cols}, .dims = cols == 1 ? 1 : 2};
        if (stack > 0)
            wanted = (struct tensor){.shape = {stack, rows, cols}, .dims = 3};
        char wants[160];
        shape_text(shape, sizeof shape, tensor);
        shape_text(wants, sizeof wants, &wanted);
        p->status = error_set(p->err, STATUS_INVALID, "the tensor %s has shape %s, %s wants %s%s",
                              name_shown, shape, words->config, wants, words->remedy);
    } else if (tensor->dtype < 0 && !tensor->blocks && !tensor->packed) {
        p->status = error_set(p->err, STATUS_UNSUPPORTED,
                              "the tensor %s has the dtype %s; %s are supported%s", name_shown,
                              tensor->type, words->types, words->remedy);
    }
    if (p->status != STATUS_OK)
        quantised_explain(p, name);
    part->tensor = tensor;
}

struct weight_entry *weight_entry_add(struct lister *p, uint32_t index,
                                      const struct weight_shape *shape, enum weight_fill fill,
                                      uint32_t part_count)
{
    struct weight_entry *entry = &p->list->entries[p->list->count++];
    *entry = (struct weight_entry){
        .index = index, .shape = *shape, .fill = fill, .part_count = part_count};
    entry->parts = heap_alloc_zeroed(part_count, sizeof *entry->parts);
    return entry;
}

// Appends an entry for the rank's part of each tensor.
static struct weight_entry *weight_entry_begin(struct lister *p, const struct weight_spec *spec)
{
    uint32_t rows = 0;
    for (uint32_t i = 0; i < spec->part_count; i++)
        rows += spec->parts[i].rows.count;
    struct weight_shape shape = {
        .use = spec->use, .dtype = spec->dtype, .n = rows, .k = spec->cols.count};
    return weight_entry_add(p, spec->index, &shape, spec->fill, spec->part_count);
}

// Sets the size of an entry and its offset in device memory.
void weight_entry_size(struct lister *p, struct weight_entry *entry)
{
    entry->bytes = p->args->api->weight_bytes(p->args->device, &entry->shape);
    entry->offset = p->list->bytes;
    uint64_t aligned = (entry->bytes + WEIGHT_ALIGNMENT - 1) / WEIGHT_ALIGNMENT * WEIGHT_ALIGNMENT;
    p->list->bytes += aligned;
    p->list->load_bytes += entry->bytes;
}

// Returns the number of rows of a part's tensor, to which all parts of one name belong; sets `from`
// to the first row of the part.
static uint32_t part_tensor_rows(const struct weight_spec *spec, uint32_t index, uint32_t *from)
{
    uint32_t rows = 0;
    *from = 0;
    for (uint32_t i = 0; i < spec->part_count; i++) {
        bool same = i == index || (spec->parts[i].name && spec->parts[index].name &&
                                   strcmp(spec->parts[i].name, spec->parts[index].name) == 0);
        if (same && i < index)
            *from += spec->parts[i].rows.whole;
        rows += same ? spec->parts[i].rows.whole : 0;
    }
    return rows;
}

// Returns true if parts 0 and 1 of an entry are q and k, and the two rows of a rotary pair are
// neighbours in their tensors.
static bool paired_rows(const struct lister *p, uint32_t index)
{
    uint32_t kind = (index - MODEL_WEIGHT_COUNT) % LAYER_WEIGHT_COUNT;
    return (p->config->arch->flags & ARCH_PAIRED) && index >= MODEL_WEIGHT_COUNT &&
           (kind == LAYER_QKV || kind == LAYER_QKV_BIAS);
}

void weight_entry_finish(struct lister *p, struct weight_entry *entry, bool plain)
{
    if (p->status == STATUS_OK && !plain)
        weight_codes_choose(p, entry);
    weight_entry_size(p, entry);
}

void weight_add_as(struct lister *p, const struct weight_spec *spec, bool plain)
{
    if (p->status != STATUS_OK)
        return;
    struct weight_entry *entry = weight_entry_begin(p, spec);
    const struct model_span *cols = &spec->cols;
    uint32_t row = 0, seed = 0;
    for (uint32_t i = 0; i < spec->part_count && p->status == STATUS_OK; i++) {
        const struct model_span *rows = &spec->parts[i].rows;
        uint32_t from, tensor_rows = part_tensor_rows(spec, i, &from);
        entry->parts[i] = (struct weight_part){.to_row = row,
                                               .from_row = from + rows->first,
                                               .from_col = cols->first,
                                               .rows = rows->count,
                                               .cols = cols->count,
                                               .stride = cols->whole,
                                               .seed = seed};
        if (i < 2 && paired_rows(p, spec->index)) {
            entry->parts[i].head = p->config->head_dim;
            entry->parts[i].rotary = p->config->ropes[0].dim;
        }
        row += rows->count;
        seed += rows->whole;
        p->list->parameter_count += (uint64_t)rows->whole * cols->whole;
        if (p->args->tensors)
            weight_part_find(p, &entry->parts[i], spec->parts[i].name, 0, tensor_rows, cols->whole);
    }
    weight_entry_finish(p, entry, plain);
}

void weight_add(struct lister *p, const struct weight_spec *spec)
{
    weight_add_as(p, spec, false);
}

void weight_add_vector(struct lister *p, uint32_t index, const char *name, uint32_t n,
                       enum weight_fill fill)
{
    struct weight_spec spec = {index, WEIGHT_VECTOR,          DTYPE_F32, fill, span_whole(1),
                               1,     {{name, span_whole(n)}}};
    weight_add(p, &spec);
}

// Adds a norm of a decoder, whose weights may be stored less one. GGUF files store them in full.
static void weight_add_norm(struct lister *p, uint32_t index, const char *name, uint32_t n)
{
    weight_add_vector(p, index, name, n, FILL_ONES);
    bool gguf = p->args->tensors && tensors_are_gguf(p->args->tensors);
    if (p->status == STATUS_OK && (p->config->arch->flags & ARCH_NORM_LESS_ONE) && !gguf)
        p->list->entries[p->list->count - 1].parts[0].addend = 1;
}

// Appends text to a name in NAME_MAX_BYTES bytes, which truncates it.
static void name_add(char *out, const char *text, size_t bytes)
{
    size_t used = strlen(out);
    snprintf(out + used, NAME_MAX_BYTES - used, "%.*s", (int)bytes, text);
}

void weight_name_make(char *out, const struct lister *p, const char *format, uint32_t layer,
                      uint32_t expert, const char *tail)
{
    out[0] = '\0';
    name_add(out, p->prefix, strlen(p->prefix));
    for (const char *hole; (hole = strstr(format, "%u")) != NULL; format = hole + 2) {
        char number[16];
        int bytes = snprintf(number, sizeof number, "%u", layer);
        name_add(out, format, (size_t)(hole - format));
        name_add(out, number, (size_t)bytes);
        layer = expert; // the second number
    }
    name_add(out, format, strlen(format));
    name_add(out, tail, strlen(tail));
}

// out = prefix + name with the layer's number + tail.
void weight_name(char *out, const struct lister *p, const char *format, uint32_t layer,
                 const char *tail)
{
    weight_name_make(out, p, format, layer, 0, tail);
}

void weight_add_stacked(struct lister *p, uint32_t layer, const struct stacked *s)
{
    char names[3][NAME_MAX_BYTES];
    struct weight_spec product = {layer_weight_index(layer, s->kind),
                                  WEIGHT_PRODUCT,
                                  p->list->dtype,
                                  FILL_RANDOM,
                                  weight_axis_cut(s->cols, s->parts[0].tensor->axis, SHARD_COLUMNS),
                                  s->count,
                                  {{NULL, {0}}}};
    for (uint32_t i = 0; i < s->count; i++) {
        const struct arch_tensor *tensor = s->parts[i].tensor;
        weight_name(names[i], p, tensor->name, layer, ".weight");
        product.parts[i].name = names[i];
        product.parts[i].rows = weight_axis_cut(s->parts[i].rows, tensor->axis, SHARD_ROWS);
    }
    weight_declare_stacked(p, layer, s);
    weight_add(p, &product);
    p->declared = (struct declared_format){.quantized = false};
    if (!s->bias)
        return;
    if (s->parts[0].tensor->axis == SHARD_COLUMNS && p->args->sizes->rank > 0) {
        p->list->parameter_count += s->parts[0].rows.whole; // rank 0 adds the bias
        return;
    }
    struct weight_spec bias = product;
    bias.index = layer_weight_index(layer, s->kind) + 1;
    bias.use = WEIGHT_VECTOR;
    bias.dtype = DTYPE_F32;
    bias.fill = FILL_ZEROS;
    bias.cols = span_whole(1);
    for (uint32_t i = 0; i < s->count; i++)
        weight_name(names[i], p, s->parts[i].tensor->name, layer, ".bias");
    weight_add(p, &bias);
}

void weight_add_hidden_norm(struct lister *p, uint32_t index, const char *format, uint32_t layer)
{
    char name[NAME_MAX_BYTES];
    weight_name(name, p, format, layer, ".weight");
    weight_add_norm(p, index, name, p->config->hidden);
    if (!p->config->norm_bias)
        return;
    weight_name(name, p, format, layer, ".bias");
    weight_add_vector(p, index + 1, name, p->config->hidden, FILL_ZEROS);
}

static void weight_add_layer_norm(struct lister *p, uint32_t layer, enum layer_weight kind,
                                  const char *format)
{
    weight_add_hidden_norm(p, layer_weight_index(layer, kind), format, layer);
}

// Adds the norms that a layer of this kind has.
static void weight_add_norms(struct lister *p, uint32_t layer)
{
    const struct model_config *c = p->config;
    const struct arch_names *names = c->arch->names;
    const struct layer_kind *kind = &c->kinds[c->layer_kind[layer]];
    if (kind->norms & (NORM_BEFORE | NORM_SUM)) {
        if (!kind->bare)
            weight_add_layer_norm(p, layer, LAYER_NORM_ATTN, names->norm_attn);
        if (!kind->parallel)
            weight_add_layer_norm(p, layer, LAYER_NORM_FFN, names->norm_ffn);
    }
    if (kind->norms & NORM_AFTER) {
        weight_add_layer_norm(p, layer, LAYER_POST_ATTN, names->post_attn);
        weight_add_layer_norm(p, layer, LAYER_POST_FFN, names->post_ffn);
    }
    if (kind->qk_norm == QK_PLAIN)
        return;
    bool together = kind->qk_norm == QK_NORM_ALL;
    char name[NAME_MAX_BYTES];
    weight_name(name, p, names->q_norm, layer, ".weight");
    weight_add_norm(p, layer_weight_index(layer, LAYER_Q_NORM), name,
                    together ? c->heads * c->head_dim : c->head_dim);
    weight_name(name, p, names->k_norm, layer, ".weight");
    weight_add_norm(p, layer_weight_index(layer, LAYER_K_NORM), name,
                    together ? c->kv_heads * c->head_dim : c->head_dim);
}

// Exchanges the halves of the tensor from which the last entry's two parts are read.
static void halves_exchange(struct lister *p)
{
    if (p->status != STATUS_OK)
        return;
    struct weight_part *parts = p->list->entries[p->list->count - 1].parts;
    const struct weight_part first = parts[0];
    parts[0].from_row = parts[1].from_row;
    parts[1].from_row = first.from_row;
}

// Returns the name of the layer's gate; see arch_names.gate_apart.
static const struct arch_tensor *gate_choose(const struct lister *p, uint32_t layer)
{
    const struct arch_names *names = p->config->arch->names;
    char name[NAME_MAX_BYTES];
    if (!p->args->tensors || !names->gate_apart.name)
        return &names->gate;
    weight_name(name, p, names->gate_apart.name, layer, ".weight");
    return tensors_find(p->args->tensors, name) ? &names->gate_apart : &names->gate;
}

static void weight_add_ffn(struct lister *p, uint32_t layer)
{
    const struct model_config *c = p->config;
    const struct arch_names *names = c->arch->names;
    struct model_span hidden = span_whole(c->hidden), ffn = p->args->sizes->intermediate;
    bool up_bias = c->ffn_bias && !c->up_plain;
    const struct arch_tensor *gate = gate_choose(p, layer);
    struct stacked gated = {LAYER_UP, hidden, 2, up_bias, {{gate, ffn}, {&names->up, ffn}}};
    struct stacked up = {LAYER_UP, hidden, 1, up_bias, {{&names->up, ffn}}};
    struct stacked down = {LAYER_DOWN, ffn, 1, c->ffn_bias, {{&names->down, hidden}}};
    weight_add_stacked(p, layer, gate->name ? &gated : &up);
    if (c->arch->form & FORM_UP_FIRST)
        halves_exchange(p);
    weight_add_stacked(p, layer, &down);
}

static void sinks_add(struct lister *p, uint32_t layer)
{
    char name[NAME_MAX_BYTES];
    bool gguf = p->args->tensors && tensors_are_gguf(p->args->tensors);
    weight_name(name, p, p->config->arch->names->sinks, layer, gguf ? ".weight" : "");
    struct weight_spec spec = {layer_weight_index(layer, LAYER_SINKS),
                               WEIGHT_VECTOR,
                               DTYPE_F32,
                               FILL_ZEROS,
                               span_whole(1),
                               1,
                               {{name, p->args->sizes->heads}}};
    weight_add(p, &spec);
}

static void weight_add_layer(struct lister *p, uint32_t layer)
{
    const struct model_config *c = p->config;
    const struct arch_names *names = c->arch->names;
    const struct model_sizes *sizes = p->args->sizes;
    struct model_span hidden = span_whole(c->hidden);
    struct model_span q = span_times(sizes->heads, c->head_dim);
    struct model_span kv = span_times(sizes->kv_heads, c->head_dim);
    struct stacked qkv = {
        LAYER_QKV, hidden, 3, c->qkv_bias, {{&names->q, q}, {&names->k, kv}, {&names->v, kv}}};
    struct stacked o = {LAYER_O, q, 1, c->o_bias, {{&names->o, hidden}}};
    weight_add_stacked(p, layer, &qkv);
    weight_add_stacked(p, layer, &o);
    if (names->sinks)
        sinks_add(p, layer);
    if (c->kinds[c->layer_kind[layer]].experts)
        weight_add_experts(p, layer);
    else
        weight_add_ffn(p, layer);
    weight_add_norms(p, layer);
}

const char *weight_prefix_at(const struct model_config *config, int i, const char **head)
{
    const struct wrapper *wrapper = config->wrapper;
    *head = wrapper ? wrapper->names[i].head : config->arch->names->head.name;
    return wrapper ? wrapper->names[i].prefix : config->arch->names->prefixes[i];
}

// Chooses the prefix of the checkpoint's tensor names by the anchor tensor, and the head's name.
static void prefix_choose(struct lister *p)
{
    const struct tensors *tensors = p->args->tensors;
    const char *prefix, *head;
    bool found = false;
    p->prefix = weight_prefix_at(p->config, 0, &p->head);
    for (int i = 0; tensors && !found && (prefix = weight_prefix_at(p->config, i, &head)); i++) {
        char name[NAME_MAX_BYTES];
        snprintf(name, sizeof name, "%s%s", prefix, p->config->arch->names->anchor);
        found = tensors_find(tensors, name) != NULL;
        if (found) {
            p->prefix = prefix;
            p->head = head;
        }
    }
    // The head may have the name that belongs to another prefix.
    for (int i = 0; tensors && weight_prefix_at(p->config, i, &head); i++)
        if (head && !tensors_find(tensors, p->head) && tensors_find(tensors, head))
            p->head = head;
}

// Returns the first layer's output projection, whose type counts as the checkpoint's; NULL: the
// model has no checkpoint, or the checkpoint lacks the tensor.
static const struct tensor *type_tensor(const struct lister *p)
{
    if (!p->args->tensors)
        return NULL;
    char name[NAME_MAX_BYTES];
    weight_name(name, p, p->config->arch->names->o.name, 0, ".weight");
    return tensors_find(p->args->tensors, name);
}

// Chooses the dtype of the products if --dtype is not given. tensor: see type_tensor; held: its
// dtype, for quantised elements bfloat16.
static enum dtype dtype_default(const struct lister *p, const struct tensor *tensor,
                                enum dtype held)
{
    const struct device_facts *facts = &p->facts;
    bool first = p->args->sizes->rank == 0; // one rank logs
    const struct tensor *packed = p->args->tensors ? tensors_packed(p->args->tensors) : NULL;
    if (packed || (tensor && tensor->blocks) || p->args->declared)
        return facts->quantised_runs_as;
    if (held == DTYPE_F32 && facts->float32_runs_as != DTYPE_F32) {
        if (first)
            log_line(LOG_INFO, "%s: the float32 checkpoint runs as %s; --dtype float32 keeps it",
                     p->config->weights_folder, dtype_name(facts->float32_runs_as));
        return facts->float32_runs_as;
    }
    return held;
}

// Returns true if quantised tensors are held in their own format.
static bool codes_held(const struct lister *p)
{
    return p->args->dtype < 0 && p->args->tensors && p->facts.codes;
}

// Returns true if FP8 tensors are held as their codes, or products are quantised to FP8.
static bool e4m3_held(const struct lister *p)
{
    return (p->args->dtype < 0 || p->args->dtype == MODEL_FP8) && p->facts.e4m3;
}

// Returns the state before anything is listed.
static struct lister lister_begin(const struct weight_list_args *args)
{
    struct lister p = {.args = args, .config = args->config};
    args->api->facts(args->device, &p.facts);
    return p;
}

uint32_t weight_list_unit(const struct weight_list_args *args)
{
    struct lister p = lister_begin(args);
    char name[NAME_MAX_BYTES];
    if (args->declared)
        return weight_format_facts(weight_declared_down(&p))->elements;
    if (!args->tensors || (!codes_held(&p) && !e4m3_held(&p)))
        return args->dtype == MODEL_INT4 ? 32 : 1;
    prefix_choose(&p);
    weight_name(name, &p, args->config->arch->names->down.name, 0, ".weight");
    const struct tensor *tensor = tensors_find(args->tensors, name);
    if (!tensor && weight_shared_name(name, &p)) // all layers have experts
        tensor = tensors_find(args->tensors, name);
    enum weight_format format = weight_tensor_format(tensor);
    bool held = format >= WEIGHT_FP8 ? e4m3_held(&p)
                                     : weight_held_format(&p.facts, tensor) != WEIGHT_FLOATS;
    return held ? weight_format_facts(format)->elements : 1;
}

static void dtypes_choose(struct lister *p)
{
    const struct tensor *tensor = type_tensor(p);
    bool packed = p->args->tensors && tensors_packed(p->args->tensors);
    int stored = !p->args->tensors ? p->config->dtype
                 : packed          ? DTYPE_BF16
                 : !tensor         ? -1
                 : tensor->blocks  ? DTYPE_BF16
                                   : tensor->dtype;
    enum dtype held = stored < 0 ? DTYPE_F32 : (enum dtype)stored;
    struct weight_list *list = p->list;
    list->declared = p->args->declared != NULL;
    list->codes = codes_held(p);
    list->int4 = p->args->dtype == MODEL_INT4;
    list->fp8 = p->args->dtype == MODEL_FP8;
    list->e4m3 = e4m3_held(p);
    if (list->fp8 && held == DTYPE_F32)
        held = DTYPE_BF16; // the products of FP8 codes
    if (list->int4 && held == DTYPE_F32)
        held = p->facts.activation[DTYPE_I8]; // floats next to products of 4 bits
    list->dtype = list->int4 || list->fp8 ? held
                  : p->args->dtype >= 0   ? (enum dtype)p->args->dtype
                                          : dtype_default(p, tensor, held);
    list->side = list->dtype;
    if (list->dtype != DTYPE_I8)
        return;
    // Tables and score heads are not quantised. Their type must have the same activations as the
    // products.
    enum dtype act = p->facts.activation[DTYPE_I8];
    list->side = p->facts.activation[held] == act ? held : act;
}

// Logs how quantised weights are held: as codes, or as floats.
static void codes_note(const struct lister *p)
{
    char formats[FORMATS_TEXT];
    uint32_t lost = 0; // weights that are quantised in the checkpoint only
    weight_list_formats(formats, p->list);
    bool kept = p->list->codes || p->list->e4m3;
    for (uint32_t i = 0; i < p->list->count; i++)
        lost += weight_codes_lost(&p->list->entries[i]);
    if (p->status != STATUS_OK || !p->args->tensors || !kept || p->list->int4 ||
        p->args->sizes->rank > 0)
        return;
    const char *folder = p->config->weights_folder, *dtype = dtype_name(p->list->dtype);
    const struct tensor *packed = tensors_packed(p->args->tensors), *tensor = type_tensor(p);
    if (p->list->fp8) {
        if (packed)
            log_line(LOG_INFO,
                     "%s: the weights are held as %s; --dtype fp8 keeps the codes of weights that "
                     "are in FP8 and quantizes the others",
                     folder, formats);
        return;
    }
    if (formats[0] != '\0' && lost == 0)
        log_line(LOG_INFO, "%s: the quantized weights are held as %s; --dtype converts them",
                 folder, formats);
    else if (formats[0] != '\0')
        log_line(
            LOG_INFO,
            "%s: the quantized weights are held as %s, and as %s where the device has no kernel "
            "for their format or a rank's part cuts their groups; --dtype converts them",
            folder, formats, dtype);
    else if (lost > 0 && (packed || tensor))
        log_line(LOG_INFO,
                 "%s: the weights are quantized (%s) and are held as %s; --dtype int8 takes half "
                 "the memory",
                 folder, packed ? packed->type : tensor->type, dtype);
}

// Logs the number of weights that are not held in the format of their tensors or of --dtype.
static void cut_note(const struct lister *p)
{
    const struct weight_list *list = p->list;
    const char *folder = p->config->weights_folder, *dtype = dtype_name(list->dtype);
    if (p->status != STATUS_OK || p->args->sizes->rank > 0)
        return;
    if (list->fp8_cut > 0)
        log_line(LOG_WARNING,
                 "%s: weights in FP8 that are held as %s: %u; the rows and columns that this model "
                 "or rank takes from them do not begin and end with their blocks of 128, are in "
                 "another order, or have scales that the device does not read",
                 folder, dtype, list->fp8_cut);
    if (list->int4_cut > 0)
        log_line(
            LOG_WARNING,
            "%s: weights that are held as %s, not in 4 bits: %u; the number of their columns is "
            "not a multiple of 32",
            folder, dtype, list->int4_cut);
}

enum status weight_list_make(struct weight_list *out, const struct weight_list_args *args,
                             struct error *err)
{
    *out = (struct weight_list){.entries = NULL};
    struct lister p = lister_begin(args);
    p.list = out;
    p.err = err;
    const struct model_config *c = args->config;
    out->table_count = MODEL_WEIGHT_COUNT + c->layers * LAYER_WEIGHT_COUNT;
    out->entries = heap_alloc_zeroed(out->table_count, sizeof *out->entries);
    prefix_choose(&p);
    dtypes_choose(&p);
    weight_add_embedding(&p);
    if (c->arch->family == ARCH_ENCODER)
        weight_add_encoder_ends(&p);
    for (uint32_t i = 0; i < c->layers && p.status == STATUS_OK; i++)
        weight_add_layer(&p, i);
    if (c->arch->names->final_norm) {
        weight_add_hidden_norm(&p, MODEL_FINAL_NORM, c->arch->names->final_norm, 0);
        // The head is linear, so the factor of its outputs can be one of its inputs.
        if (p.status == STATUS_OK && c->kind != MODEL_EMBEDDER && c->logit_factor != 0)
            out->entries[out->count - 1].parts[0].factor = (float)c->logit_factor;
    }
    if (c->kind == MODEL_RERANKER)
        weight_add_score(&p);
    if (c->kind == MODEL_EMBEDDER)
        weight_add_modules(&p);
    if (p.status == STATUS_OK)
        p.status = unused_check(out, args, p.prefix, err);
    codes_note(&p);
    cut_note(&p);
    if (p.status != STATUS_OK)
        weight_list_close(out);
    return p.status;
}

static void entry_free(struct weight_entry *entry)
{
    heap_free(entry->parts);
    heap_free(entry->others);
}

void weight_list_close(struct weight_list *list)
{
    for (uint32_t i = 0; i < list->count; i++)
        entry_free(&list->entries[i]);
    heap_free(list->entries);
    list->entries = NULL;
    list->count = 0;
}
