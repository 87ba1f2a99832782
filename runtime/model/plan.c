// SPDX-License-Identifier: Apache-2.0
// model_plan: the facts of a model and the memory that it will need, computed before anything large
// is allocated. Loading thread.
#include "base/log.h"
#include "base/number.h"
#include "runtime/model/declared.h"
#include "runtime/model/internal.h"
#include "runtime/model/link.h"

#include "kernels/attn_tiles.h"
#include "base/arena.h"

#include <math.h>
#include <string.h>

enum {
    SEQUENCES_DEFAULT = 256,
    SEQUENCES_LIMIT = 65536,
    TOKENS_DEFAULT = 2048,
    TOKENS_LIMIT = 1 << 20,
    POOLING_ROWS_MAX = 4096,
    PENALTY_ROWS_DEFAULT = 64,
};

static enum status options_check(const struct model_options *o, struct error *err)
{
    if (o->dtype < -1 || o->dtype > MODEL_FP8)
        return error_set(err, STATUS_INVALID, "dtype %d is not known", o->dtype);
    if (o->kv_dtype < -1 || o->kv_dtype >= DTYPE_KV_COUNT)
        return error_set(err, STATUS_UNSUPPORTED,
                         "the KV cache can be float32, bfloat16, float16, int8 or fp8");
    if (o->block_size != 0 && o->block_size != 16 && o->block_size != 32 && o->block_size != 64)
        return error_set(err, STATUS_INVALID, "block-size is %u; 16, 32 and 64 are possible",
                         o->block_size);
    if (o->max_num_seqs > SEQUENCES_LIMIT)
        return error_set(err, STATUS_INVALID, "max-num-seqs is %u; at most %d are possible",
                         o->max_num_seqs, SEQUENCES_LIMIT);
    if (o->max_num_batched_tokens > TOKENS_LIMIT)
        return error_set(err, STATUS_INVALID,
                         "max-num-batched-tokens is %u; at most %d are possible",
                         o->max_num_batched_tokens, TOKENS_LIMIT);
    return STATUS_OK;
}

// Chooses the prompt of a reranker without a score head.
static enum status prompt_choose(struct model_config *c, int wanted, bool first, struct error *err)
{
    if (wanted == RERANK_PAIR)
        return error_set(err, STATUS_INVALID,
                         "--rerank-prompt pair: a %s without a score head reads a prompt: give "
                         "yes-no, mxbai or bge-gemma",
                         c->name);
    if (wanted >= 0)
        c->rerank = (enum rerank_form)wanted;
    if (c->rerank == RERANK_UNKNOWN)
        return error_set(err, STATUS_UNSUPPORTED,
                         "the files do not determine which prompt this reranker reads: give "
                         "--rerank-prompt yes-no (Qwen3-Reranker), mxbai (mxbai-rerank-v2) or "
                         "bge-gemma (bge-reranker-v2-gemma)");
    if (first)
        log_line(LOG_INFO, "%s: queries and documents are read in the prompt of %s", c->name,
                 rerank_form_facts(c->rerank)->owner);
    return STATUS_OK;
}

// Chooses the form of a reranker that is a decoder, and logs it, because scores do not reveal a
// wrong choice.
static enum status form_choose(struct model_parts *parts, struct error *err)
{
    struct model_config *c = &parts->config;
    int wanted = parts->options.rerank - 1;
    bool prompts = c->arch->flags & ARCH_YES_NO_PROMPT, first = parts->sizes.rank == 0;
    if (c->kind != MODEL_RERANKER)
        return STATUS_OK;
    if (c->arch->head == HEAD_VOCABULARY)
        return prompt_choose(c, wanted, first, err);
    if (wanted > (prompts ? RERANK_YES_NO : RERANK_PAIR))
        return error_set(err, STATUS_INVALID,
                         "--rerank-prompt %s: a %s reads a pair%s; leave it out",
                         rerank_form_facts((enum rerank_form)wanted)->option, c->name,
                         prompts ? " or Qwen3-Reranker's prompt" : "");
    if (wanted >= 0)
        c->rerank = (enum rerank_form)wanted;
    bool pair = c->rerank == RERANK_PAIR;
    if (prompts && first)
        log_line(
            LOG_INFO,
            "%s: queries and documents are read %s; --rerank-prompt %s reads them the other way",
            c->name, pair ? "as a pair" : "in Qwen3-Reranker's prompt", pair ? "yes-no" : "pair");
    return STATUS_OK;
}

// Chooses max_model_len: the option, or the model's or tokenizer's default.
static enum status length_choose(struct model_facts *facts, const struct model_parts *parts,
                                 struct error *err)
{
    const struct model_config *c = &parts->config;
    uint32_t wanted = parts->options.max_model_len;
    uint32_t usual = c->length_default;
    uint32_t tokenizer = parts->options.tokenizer_length;
    if (facts->kind != MODEL_GENERATOR && !c->length_given && tokenizer > 0 && tokenizer < usual)
        usual = tokenizer;
    facts->max_model_len = wanted > 0 ? wanted : usual;
    const struct rope_config *rope = &c->ropes[0];
    bool dynamic = rope->kind == ROPE_DYNAMIC;
    uint32_t trained = dynamic ? c->positions : rope->original;
    if (parts->sizes.rank == 0 && (dynamic || rope->kind == ROPE_LONG) &&
        facts->max_model_len > trained)
        log_line(LOG_WARNING,
                 "%s: all prompts get the rotary frequencies of %u tokens (--max-model-len); "
                 "transformers gives those up to %u tokens %s, as --max-model-len %u does",
                 dynamic ? "dynamic NTK" : "longrope", facts->max_model_len, trained,
                 dynamic ? "the trained ones" : "the factors of short ones", trained);
    if (facts->max_model_len <= c->length_max)
        return STATUS_OK;
    return error_set(err, STATUS_TOO_LARGE,
                     "--max-model-len %u is more than the %u tokens that the model allows", wanted,
                     c->length_max);
}

static enum status kv_facts(struct model_facts *facts, struct model_parts *parts, struct error *err)
{
    const struct model_config *c = &parts->config;
    const struct model_sizes *sizes = &parts->sizes;
    // The default is the checkpoint's precision: with 16-bit weights, keys and values have 16 bits
    // even if the device computes in float32. A device that computes in 16 bits supports only that
    // type.
    bool wide = c->kinds[0].paged && parts->act == DTYPE_F32;
    enum dtype own = wide ? parts->weights.side : parts->act;
    facts->kv_dtype = parts->options.kv_dtype < 0 ? own : (enum dtype)parts->options.kv_dtype;
    if (!c->kinds[0].paged)
        return STATUS_OK;
    struct device_facts device;
    parts->api->facts(parts->device, &device);
    if (facts->kv_dtype == DTYPE_I8 && !device.kv_int8)
        return error_set(err, STATUS_UNSUPPORTED,
                         "--kv-cache-dtype int8: this device keeps keys and values of 8 bits as "
                         "fp8 only; give fp8");
    if (facts->kv_dtype == DTYPE_E4M3 && !device.kv_fp8)
        return error_set(err, STATUS_UNSUPPORTED,
                         "--kv-cache-dtype fp8: this device keeps keys and values of 8 bits as "
                         "int8 only; give int8");
    if (facts->kv_dtype == DTYPE_E4M3 && sizes->head_dim % 16 != 0)
        return error_set(
            err, STATUS_UNSUPPORTED,
            "--kv-cache-dtype fp8: the heads have %u columns, and fp8 needs a multiple "
            "of 16; leave it out",
            sizes->head_dim);
    if (parts->act != DTYPE_F32 && facts->kv_dtype != parts->act && facts->kv_dtype != DTYPE_E4M3)
        return error_set(err, STATUS_UNSUPPORTED,
                         "--kv-cache-dtype %s: this device computes in %s and keeps keys and "
                         "values in that type or in fp8; leave it out",
                         dtype_name(facts->kv_dtype), dtype_name(parts->act));
    uint32_t tokens = parts->options.block_size > 0 ? parts->options.block_size : KV_BLOCK_TOKENS;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < sizes->layers; i++) {
        struct kv_strides *at = &parts->kv_strides[i];
        at->token = kv_token_bytes(facts->kv_dtype, sizes->head_dim);
        at->head = at->token * tokens;
        at->value = at->head * sizes->kv_heads.count;
        at->layer = bytes;
        bytes += 2 * at->value;
    }
    facts->block_tokens = tokens;
    facts->block_bytes = (bytes + TABLE_UNIT_BYTES - 1) / TABLE_UNIT_BYTES * TABLE_UNIT_BYTES;
    parts->block_bytes = facts->block_bytes;
    facts->blocks_per_sequence_max = (facts->max_model_len + tokens - 1) / tokens;
    return STATUS_OK;
}

// If a penalty is the default, every sequence needs a row, so there is one for each.
static uint32_t penalty_rows(const struct model_options *options,
                             const struct model_defaults *defaults, uint32_t sequences)
{
    double penalty = defaults->repetition_penalty;
    uint32_t usual = isnan(penalty) || penalty == 1 ? PENALTY_ROWS_DEFAULT : sequences;
    return smaller(options->penalty_rows >= 0 ? (uint32_t)options->penalty_rows : usual, sequences);
}

// Chooses the capacity of a step. A generator has a row for each sequence. A model without KV
// blocks keeps nothing between steps and has as many rows as short texts fit.
static enum status limits_choose(struct model_facts *facts, const struct device_facts *device,
                                 const struct model_parts *parts, struct error *err)
{
    const struct model_options *o = &parts->options;
    struct step_limits *limits = &facts->limits;
    bool unpaged = !facts->paged;
    bool sampled = facts->kind == MODEL_GENERATOR;
    uint32_t sequences = o->max_num_seqs > 0 ? o->max_num_seqs : SEQUENCES_DEFAULT;
    uint32_t tokens = o->max_num_batched_tokens;
    uint32_t least = sampled ? model_tokens_min(sequences) : unpaged ? 0 : sequences;
    if (sampled && tokens > 0 && tokens < least)
        return error_set(err, STATUS_INVALID,
                         "max-num-batched-tokens is %u and max-num-seqs %u: a step holds at least "
                         "4/3 as many tokens as sequences, so that prompts go on while all of them "
                         "decode: raise the first to %u or lower the second",
                         tokens, sequences, least);
    if (tokens == 0)
        tokens = device->step_tokens > 0 ? device->step_tokens : TOKENS_DEFAULT;
    if (unpaged && tokens < facts->max_model_len)
        tokens = facts->max_model_len;
    if (tokens < least)
        tokens = least;
    if (facts->whole_input && tokens < facts->max_model_len)
        tokens = facts->max_model_len;
    if (tokens > TOKENS_LIMIT)
        return error_set(err, STATUS_TOO_LARGE,
                         "max-model-len is %u: this model's inputs are not cut, and a step holds "
                         "at most %d tokens: lower it",
                         facts->max_model_len, TOKENS_LIMIT);
    *limits = (struct step_limits){.tokens_max = tokens};
    limits->rows_max = unpaged ? smaller((uint32_t)POOLING_ROWS_MAX, tokens) : sequences;
    limits->slots_max = limits->rows_max;
    if (unpaged)
        return STATUS_OK;
    limits->blocks_max = facts->blocks_per_sequence_max;
    limits->changes_max =
        4 * limits->blocks_max + 2 * limits->rows_max + tokens / facts->block_tokens;
    if (!sampled)
        return STATUS_OK;
    limits->new_sequences_max = smaller((uint32_t)MODEL_NEW_SEQUENCES_MAX, sequences);
    limits->history_max = 2 * facts->max_model_len;
    limits->bias_max = MODEL_BIAS_MAX;
    limits->penalty_rows = penalty_rows(o, &facts->defaults, sequences);
    limits->vocab = facts->vocab;
    return STATUS_OK;
}

static void facts_init(struct model_facts *facts, const struct model_parts *parts)
{
    const struct model_config *c = &parts->config;
    strncpy(facts->architecture, c->name, sizeof facts->architecture - 1);
    facts->text_part = c->wrapper ? c->arch->name : NULL;
    facts->media = c->wrapper ? c->wrapper->media : NULL;
    facts->kind = c->kind;
    facts->rerank = c->rerank;
    facts->dtype = parts->weights.dtype;
    weight_list_formats(facts->formats, &parts->weights);
    facts->parameter_count = parts->weights.parameter_count;
    facts->vocab = c->vocab;
    facts->hidden = c->hidden;
    facts->layers = c->layers;
    facts->ranks = parts->sizes.ranks;
    facts->output_width = c->kind == MODEL_EMBEDDER ? c->vector_width : 1;
    facts->paged = c->kinds[0].paged;
    facts->whole_input = !facts->paged || (c->kind == MODEL_EMBEDDER && c->pooling != POOL_LAST);
    facts->pooling = c->pooling;
    facts->normalize = c->normalize;
    facts->prompt_unpooled = c->prompt_unpooled;
    facts->dimensions_free = c->dimensions_free;
    facts->dimension_count = c->dimension_count;
    memcpy(facts->dimensions, c->dimensions, sizeof facts->dimensions);
    facts->token_types = c->arch->family == ARCH_ENCODER && c->types > 1;
    facts->end_count = c->end_count;
    memcpy(facts->end_ids, c->end_ids, sizeof facts->end_ids);
    facts->defaults = parts->options.defaults_from == DEFAULTS_FOLDER  ? c->defaults
                      : parts->options.defaults_from == DEFAULTS_GIVEN ? parts->options.defaults
                                                                       : model_defaults_none;
    facts->recommended =
        parts->options.defaults_from == DEFAULTS_GIVEN ? parts->options.defaults : c->defaults;
}

bool model_facts_add_end(struct model_facts *facts, int32_t id)
{
    for (uint32_t i = 0; i < facts->end_count; i++)
        if (facts->end_ids[i] == id)
            return true;
    if (id < 0 || (uint32_t)id >= facts->vocab || facts->end_count == MODEL_END_IDS_MAX)
        return false;
    facts->end_ids[facts->end_count++] = id;
    return true;
}

// Returns the largest n or k of all products.
static uint32_t width_max(const struct model_parts *parts)
{
    uint32_t width = 0;
    for (uint32_t i = 0; i < parts->weights.count; i++) {
        const struct weight_shape *shape = &parts->weights.entries[i].shape;
        if (shape->use == WEIGHT_VECTOR || shape->use == WEIGHT_ROWS)
            continue;
        uint32_t rows = weight_matrix_rows(shape);
        width = rows > width ? rows : width;
        width = shape->k > width ? shape->k : width;
    }
    return width;
}

static bool fp8_codes(const struct weight_shape *shape)
{
    return shape->part_count > 0 && shape->parts[0].format >= WEIGHT_FP8;
}

// Returns the largest k of all products whose weight is held as FP8 codes; 0: there are none.
static uint32_t e4m3_width(const struct model_parts *parts)
{
    uint32_t width = 0;
    for (uint32_t i = 0; i < parts->weights.count; i++) {
        const struct weight_shape *shape = &parts->weights.entries[i].shape;
        if (fp8_codes(shape) && weight_stack(shape) == 1)
            width = larger(width, shape->k);
    }
    return width;
}

// Finds the elements of weights whose codes or int8 may be converted in strips; see stream_limits.
static void coded_count(struct stream_limits *out, const struct model_parts *parts,
                        const struct device_facts *device)
{
    uint64_t layer = 0;
    uint32_t last = UINT32_MAX;
    for (uint32_t i = 0; i < parts->weights.count; i++) {
        const struct weight_entry *entry = &parts->weights.entries[i];
        const struct weight_shape *shape = &entry->shape;
        bool coded = fp8_codes(shape) ? device->e4m3_strips
                                      : shape->part_count > 0 || shape->dtype == DTYPE_I8;
        if (!coded || shape->use != WEIGHT_PRODUCT || weight_stack(shape) > 1)
            continue;
        uint64_t elements = (uint64_t)shape->n * shape->k;
        uint32_t now = entry->index < MODEL_WEIGHT_COUNT
                           ? UINT32_MAX - 1
                           : (entry->index - MODEL_WEIGHT_COUNT) / LAYER_WEIGHT_COUNT;
        layer = now == last ? layer + elements : elements;
        last = now;
        out->coded_most = elements > out->coded_most ? elements : out->coded_most;
        out->coded_layer = layer > out->coded_layer ? layer : out->coded_layer;
    }
}

// Chooses the rows for which decode steps are recorded: 1, 2, 4 and 8, then in steps of 8, 16 and
// 32 up to 512.
static uint32_t graphs_choose(uint32_t *out, uint32_t rows_max)
{
    uint32_t last = smaller(rows_max, 512u);
    uint32_t count = 0;
    for (uint32_t rows = 1; rows < last; count++) {
        check(count < MODEL_GRAPHS_MAX - 1, "more than %d graphs", MODEL_GRAPHS_MAX);
        out[count] = rows;
        rows += rows < 8 ? rows : rows < 64 ? 8 : rows < 256 ? 16 : 32;
    }
    out[count++] = last;
    return count;
}

static void stream_limits_init(struct model_parts *parts, const struct model_facts *facts,
                               const struct device_facts *device)
{
    const struct model_config *c = &parts->config;
    const struct model_sizes *sizes = &parts->sizes;
    for (uint32_t i = 0; i < c->kind_count; i++) {
        const struct layer_kind *kind = &c->kinds[i];
        parts->shapes[i] = (struct attn_shape){
            .heads = sizes->heads.count,
            .kv_heads = sizes->kv_heads.count,
            .dim = sizes->head_dim,
            .window = kind->window < facts->max_model_len ? kind->window : 0,
            .scale = kind->scale,
            .causal = kind->causal,
            .paged = kind->paged,
            .ahead = kind->ahead < facts->max_model_len ? kind->ahead : 0,
        };
    }
    // Attention is planned once per step, for the widest window.
    struct attn_shape widest = parts->shapes[0];
    for (uint32_t i = 1; i < c->kind_count; i++) {
        uint32_t window = parts->shapes[i].window;
        widest.window = widest.window == 0 || window == 0 ? 0 : larger(widest.window, window);
    }
    parts->stream = (struct stream_limits){
        .step = facts->limits,
        .attn = widest,
        .kv = facts->kv_dtype,
        .width_max = width_max(parts),
        .e4m3_width = e4m3_width(parts),
        .products_padded = true, // layout.c
        .layers = sizes->layers,
    };
    if (sizes->ranks > 1 && device->sums_in_place)
        parts->stream.sums_bytes = layout_delta_bytes(facts, parts);
    coded_count(&parts->stream, parts, device);
    if (device->graphs && facts->kind == MODEL_GENERATOR)
        parts->stream.graphs = graphs_choose(parts->graph_rows, facts->limits.rows_max);
    for (uint32_t i = 0; i < parts->stream.graphs; i++)
        parts->stream.graphs_many += parts->graph_rows[i] > GRAPH_FEW_ROWS;
    if (parts->api->step_private_bytes)
        parts->private_bytes = parts->api->step_private_bytes(parts->device, &parts->stream);
    step_layout_init(&parts->step, &facts->limits, parts->private_bytes);
}

static void need_add(struct model_plan *plan, const char *label, uint64_t bytes)
{
    check(plan->need.count < DEVICE_NEED_MAX, "over %d memory labels", DEVICE_NEED_MAX);
    if (bytes == 0)
        return;
    plan->need.entry[plan->need.count].label = label;
    plan->need.entry[plan->need.count++].bytes = bytes;
}

static enum status need_sum(struct model_plan *plan, struct error *err)
{
    const struct model_parts *parts = plan->parts;
    struct device_need device = {.count = 0};
    enum status status = parts->api->need(parts->device, &parts->stream, &device, err);
    if (status != STATUS_OK)
        return status;
    if (!parts->options.copy_of)
        need_add(plan, "weights", parts->weights.bytes);
    need_add(plan, "activations", parts->layout.activation_bytes);
    need_add(plan, "sequence state", parts->layout.state_bytes - parts->layout.penalty_bytes);
    need_add(plan, "penalty rows", parts->layout.penalty_bytes);
    need_add(plan, "rotary table", parts->layout.rope_bytes);
    need_add(plan, "staging", parts->layout.host_bytes);
    for (uint32_t i = 0; i < device.count; i++)
        need_add(plan, device.entry[i].label, device.entry[i].bytes);
    for (uint32_t i = 0; i < plan->need.count; i++)
        plan->bytes += plan->need.entry[i].bytes;
    plan->kv_bytes_min = plan->facts.block_bytes * plan->facts.blocks_per_sequence_max;
    return STATUS_OK;
}

// Opens the files of the weights and those of the modules after pooling.
static enum status files_open(struct model_parts *parts, struct error *err)
{
    const struct model_config *c = &parts->config;
    enum status status = tensors_open(&parts->tensors, c->weights_folder, err);
    for (uint32_t i = 0; i < c->module_count && status == STATUS_OK; i++)
        status = tensors_open(&parts->module_tensors[i], c->modules[i].folder, err);
    return status;
}

static enum status checkpoint_open(struct model_parts *parts, struct error *err)
{
    struct model_sizes *sizes = &parts->sizes;
    struct device_facts facts;
    parts->api->facts(parts->device, &facts);
    if (parts->options.dtype == MODEL_INT4 && !facts.codes)
        return error_set(err, STATUS_UNSUPPORTED,
                         "--dtype int4: the device %s holds no weights in 4 bits; take int8",
                         parts->api->name);
    if (parts->options.dtype == MODEL_FP8 && !facts.e4m3)
        return error_set(err, STATUS_UNSUPPORTED,
                         "--dtype fp8: the device %s holds no weights in FP8; take int8, which has "
                         "the same size",
                         parts->api->name);
    if (parts->config.experts.count > 0 && !facts.experts)
        return error_set(err, STATUS_UNSUPPORTED,
                         "%s is a mixture of experts, which this device does not compute: run it "
                         "on the cpu device",
                         parts->config.arch->name);
    const struct model_options *o = &parts->options;
    enum status status = o->load_dummy ? STATUS_OK : files_open(parts, err);
    if (status != STATUS_OK)
        return status;
    const struct model_config *c = &parts->config;
    struct declaration *declaration = NULL;
    if (o->load_dummy && o->dtype < 0)
        status = declaration_open(&declaration, c->weights_folder, sizes->rank == 0, err);
    if (status != STATUS_OK)
        return status;
    bool given = c->yes_id >= 0;
    // The folder's ids take precedence, then its tokens, then those of its prompt.
    enum rerank_form form = c->answers == RERANK_PAIR ? c->rerank : c->answers;
    struct weight_list_args args = {
        .config = &parts->config,
        .sizes = &parts->sizes,
        .tensors = parts->tensors,
        .module_tensors = parts->module_tensors,
        .api = parts->api,
        .device = parts->device,
        .declared = declaration,
        .dtype = o->dtype,
        .yes_id = given ? c->yes_id : o->answer_ids[form][0],
        .no_id = given ? c->no_id : o->answer_ids[form][1],
        .lone_answer = given ? c->lone_answer : !rerank_form_facts(form)->no,
    };
    uint32_t unit = weight_list_unit(&args);
    sizes->intermediate = span_cut(sizes->intermediate.whole, sizes->rank, sizes->ranks, unit);
    sizes->shared = span_cut(sizes->shared.whole, sizes->rank, sizes->ranks, unit);
    status = weight_list_make(&parts->weights, &args, err);
    declaration_close(declaration);
    return status;
}

static enum status plan_fill(struct model_plan *plan, struct error *err)
{
    struct model_parts *parts = plan->parts;
    struct model_facts *facts = &plan->facts;
    enum status status =
        model_sizes_make(&parts->sizes, &parts->config, &parts->options.share, err);
    if (status == STATUS_OK)
        status = form_choose(parts, err);
    if (status == STATUS_OK)
        status = checkpoint_open(parts, err);
    if (status != STATUS_OK)
        return status;
    struct device_facts device;
    parts->api->facts(parts->device, &device);
    parts->act = device.activation[parts->weights.dtype];
    facts_init(facts, parts);
    facts->steps_in_flight = device.steps_in_flight;
    status = length_choose(facts, parts, err);
    if (status != STATUS_OK)
        return status;
    status = kv_facts(facts, parts, err);
    if (status == STATUS_OK)
        status = limits_choose(facts, &device, parts, err);
    if (status != STATUS_OK)
        return status;
    stream_limits_init(parts, facts, &device);
    model_layout_init(&parts->layout, facts, parts);
    return need_sum(plan, err);
}

// Adds the memory of another rank to the plan of rank 0, label by label.
static void need_merge(struct model_plan *plan, const struct model_plan *other)
{
    for (uint32_t i = 0; i < other->need.count; i++) {
        uint32_t at = 0;
        while (at < plan->need.count &&
               strcmp(plan->need.entry[at].label, other->need.entry[i].label) != 0)
            at++;
        if (at == plan->need.count)
            need_add(plan, other->need.entry[i].label, other->need.entry[i].bytes);
        else
            plan->need.entry[at].bytes += other->need.entry[i].bytes;
    }
    plan->bytes += other->bytes;
    plan->kv_bytes_min += other->kv_bytes_min;
    plan->facts.block_bytes += other->facts.block_bytes;
}

uint32_t model_ranks_here(const struct model_parts *parts)
{
    const struct model_options *o = &parts->options;
    return !o->devices ? 1 : o->link ? o->link->count : parts->sizes.ranks;
}

static enum status rank_plan(struct model_plan **out, const char *folder,
                             const struct model_config *config, const struct device_api *api,
                             struct device *device, const struct model_options *options,
                             struct error *err);

// Plans the other ranks of this process; the plan of the first then covers the memory of all.
// config: as it was read, so that its warnings are logged once.
static enum status others_plan(struct model_plan *plan, const char *folder,
                               const struct model_config *config, struct error *err)
{
    struct model_parts *parts = plan->parts;
    const struct model_options *options = &parts->options;
    struct model_options other = *options;
    other.devices = NULL;
    for (uint32_t r = 1; r < model_ranks_here(parts); r++) {
        other.share.tp_rank = options->share.tp_rank + r;
        if (options->copy_of)
            other.copy_of = options->copy_of->parts->others[r];
        enum status status = rank_plan(&parts->others[r], folder, config, parts->api,
                                       options->devices[r], &other, err);
        if (status != STATUS_OK)
            return status;
        need_merge(plan, parts->others[r]);
    }
    return STATUS_OK;
}

// Plans a rank, and, if the options name devices, the other ranks of this process.
static enum status rank_plan(struct model_plan **out, const char *folder,
                             const struct model_config *config, const struct device_api *api,
                             struct device *device, const struct model_options *options,
                             struct error *err)
{
    struct model_plan *plan = heap_alloc_zeroed(1, sizeof *plan);
    plan->parts = heap_alloc_zeroed(1, sizeof *plan->parts);
    plan->parts->options = *options;
    plan->parts->api = api;
    plan->parts->device = device;
    plan->parts->config = *config;
    plan->weights_folder = plan->parts->config.weights_folder;
    enum status status = plan_fill(plan, err);
    if (status == STATUS_OK)
        status = others_plan(plan, folder, config, err);
    if (status == STATUS_OK)
        *out = plan;
    else
        model_plan_close(plan);
    return status;
}

enum status model_plan_open(struct model_plan **out, const char *folder,
                            const struct device_api *api, struct device *device,
                            const struct model_options *options, struct error *err)
{
    enum status status = options_check(options, err);
    if (status != STATUS_OK)
        return status;
    struct model_config *config = heap_alloc(sizeof *config);
    status = model_config_read(config, folder, err);
    if (status == STATUS_OK)
        status = rank_plan(out, folder, config, api, device, options, err);
    heap_free(config);
    if (status == STATUS_OK || strncmp(err->text, folder, strlen(folder)) == 0)
        return status;
    return error_prefix(err, "%s", folder);
}

uint64_t model_plan_bytes(const struct model_plan *plan, uint32_t rank)
{
    const struct model_parts *parts = plan->parts;
    check(rank < model_ranks_here(parts), "rank %u of %u", rank, model_ranks_here(parts));
    if (rank > 0)
        return parts->others[rank]->bytes;
    uint64_t bytes = plan->bytes;
    for (uint32_t r = 1; r < model_ranks_here(parts); r++)
        bytes -= parts->others[r]->bytes;
    return bytes;
}

void model_files_close(struct model_parts *parts)
{
    tensors_close(parts->tensors);
    parts->tensors = NULL;
    for (uint32_t i = 0; i < CONFIG_MODULES_MAX; i++) {
        tensors_close(parts->module_tensors[i]);
        parts->module_tensors[i] = NULL;
    }
}

void model_plan_close(struct model_plan *plan)
{
    if (!plan)
        return;
    for (uint32_t r = 1; r < RANKS_MAX; r++)
        model_plan_close(plan->parts->others[r]);
    weight_list_close(&plan->parts->weights);
    model_files_close(plan->parts);
    heap_free(plan->parts);
    heap_free(plan);
}
