// SPDX-License-Identifier: Apache-2.0
// Lists the weights before and after the layers: embeddings, heads, scores. Loading thread only.
#include "runtime/model/weights_list.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

// Adds a complete matrix of one tensor, on every rank, in the dtype of tables and score heads.
static void weight_add_matrix(struct lister *p, uint32_t index, enum weight_use use,
                              const char *name, uint32_t rows, uint32_t cols)
{
    struct weight_spec spec = {
        index, use, p->list->side, FILL_RANDOM, span_whole(cols), 1, {{name, span_whole(rows)}}};
    weight_add(p, &spec);
}

static void weight_add_table(struct lister *p, uint32_t index, const char *format, uint32_t rows)
{
    char name[NAME_MAX_BYTES];
    weight_name(name, p, format, 0, "");
    weight_add_matrix(p, index, WEIGHT_ROWS, name, rows, p->config->hidden);
}

// Returns true if the checkpoint has both tables, of one shape, with different bytes.
static bool head_differs(const struct tensors *tensors, const char *embed, const char *head)
{
    const struct tensor *a = tensors_find(tensors, embed), *b = tensors_find(tensors, head);
    return a && b && !a->packed && !b->packed && a->dims == b->dims && a->dtype == b->dtype &&
           a->bytes == b->bytes && memcmp(a->shape, b->shape, a->dims * sizeof *a->shape) == 0 &&
           memcmp(a->map, b->map, a->bytes) != 0;
}

// Adds the embedding table and, for a generator, the head. A checkpoint with a tied head may
// contain either name. If config.json does not specify it and there is no head, the head is tied.
// A head that differs from the table is used even if config.json declares it as tied.
void weight_add_embedding(struct lister *p)
{
    const struct model_config *c = p->config;
    const struct arch_names *names = c->arch->names;
    const struct tensors *tensors = p->args->tensors;
    char embed[NAME_MAX_BYTES];
    weight_name(embed, p, names->embed.name, 0, "");
    const char *head = p->head;
    bool no_head = tensors && !(head && tensors_find(tensors, head));
    bool answers = c->kind == MODEL_GENERATOR;
    bool own = answers && tensors && head && head_differs(tensors, embed, head);
    bool usual = !tensors && c->tied_usually;
    bool tied = !own && (c->tied || ((no_head || usual) && !c->tied_given));
    bool no_table = tensors && !tensors_find(tensors, embed);
    const char *table = tied && no_table && !no_head ? head : embed;
    bool one = tied && answers;
    struct model_span vocab = p->args->sizes->vocab;
    struct weight_spec rows = {MODEL_EMBED,
                               one ? WEIGHT_TIED : WEIGHT_ROWS,
                               one ? p->list->dtype : p->list->side,
                               FILL_RANDOM,
                               span_whole(c->hidden),
                               1,
                               {{table, weight_axis_cut(vocab, names->embed.axis, SHARD_ROWS)}}};
    weight_add(p, &rows);
    if (!answers || one)
        return;
    struct weight_spec product = rows;
    product.index = MODEL_HEAD;
    product.use = WEIGHT_PRODUCT;
    product.dtype = p->list->dtype;
    product.parts[0].name = head;
    product.parts[0].rows = weight_axis_cut(vocab, names->head.axis, SHARD_ROWS);
    weight_add(p, &product);
}

// Adds the entire head of a reranker that compares logits: one row, W[yes] - W[no] or W[yes].
static void weight_add_answer(struct lister *p)
{
    const struct model_config *c = p->config;
    const struct weight_list_args *args = p->args;
    if (p->status != STATUS_OK)
        return;
    bool lone = args->lone_answer;
    bool yes = args->yes_id >= 0 && (uint32_t)args->yes_id < c->vocab;
    bool no = args->no_id >= 0 && (uint32_t)args->no_id < c->vocab && args->yes_id != args->no_id;
    if (!yes && lone)
        p->status = error_set(p->err, STATUS_INVALID,
                              "the score of this reranker is the logit of a token that its "
                              "tokenizer does not have (found id %d): take the tokenizer and the "
                              "weights of the same model",
                              args->yes_id);
    else if (!lone && !(yes && no))
        p->status = error_set(p->err, STATUS_INVALID,
                              "this reranker compares the logits of two tokens, and its tokenizer "
                              "has no two such tokens (found ids %d and %d): take the tokenizer "
                              "and the weights of the same model",
                              args->yes_id, args->no_id);
    if (p->status != STATUS_OK)
        return;
    char embed[NAME_MAX_BYTES];
    weight_name(embed, p, c->arch->names->embed.name, 0, "");
    const char *head = p->head;
    bool stored = args->tensors && tensors_find(args->tensors, head);
    bool from_head = stored && (!c->tied || !tensors_find(args->tensors, embed));
    struct weight_entry *entry =
        weight_entry_add(p, MODEL_SCORE,
                         &(struct weight_shape){
                             .use = WEIGHT_PRODUCT, .dtype = p->list->side, .n = 1, .k = c->hidden},
                         FILL_RANDOM, args->tensors && !lone ? 2 : 1);
    entry->difference = args->tensors && !lone;
    entry->parts[0] = (struct weight_part){.rows = 1, .cols = c->hidden, .stride = c->hidden};
    // Converters to GGUF keep only the two rows of an untied head, "yes" first.
    const char *pair = "cls.output.weight";
    bool paired =
        args->tensors && tensors_are_gguf(args->tensors) && tensors_find(args->tensors, pair);
    if (args->tensors) {
        const char *from = paired ? pair : from_head ? head : embed;
        weight_part_find(p, &entry->parts[0], from, 0, paired ? 2 : c->vocab, c->hidden);
        entry->parts[0].from_row = paired ? 0 : (uint32_t)args->yes_id;
    }
    if (entry->difference) {
        entry->parts[1] = entry->parts[0];
        entry->parts[1].from_row = paired ? 1 : (uint32_t)args->no_id;
    }
    p->list->parameter_count += c->hidden;
    weight_entry_size(p, entry);
}

static void weight_add_linear(struct lister *p, uint32_t index, const char *name, uint32_t rows,
                              uint32_t cols, bool bias)
{
    char full[NAME_MAX_BYTES + 8];
    snprintf(full, sizeof full, "%s.weight", name);
    weight_add_matrix(p, index, WEIGHT_PRODUCT, full, rows, cols);
    snprintf(full, sizeof full, "%s.bias", name);
    if (bias)
        weight_add_vector(p, index + 1, full, rows, FILL_ZEROS);
}

// Refuses a head with several rows: a config.json without labels may belong to a classifier.
static void labels_check(struct lister *p, const char *name)
{
    char weight[NAME_MAX_BYTES + 8];
    snprintf(weight, sizeof weight, "%s.weight", name);
    const struct tensor *tensor = p->args->tensors ? weight_find(p->args->tensors, weight) : NULL;
    if (p->status == STATUS_OK && tensor && tensor->dims == 2 && tensor->shape[0] > 1)
        p->status = error_set(p->err, STATUS_UNSUPPORTED,
                              "%s has %" PRIu64 " labels (rows of %s); a reranker has one, "
                              "classifiers are not served",
                              p->config->name, tensor->shape[0], weight);
}

static void weight_add_head(struct lister *p, const char *name, bool bias)
{
    labels_check(p, name);
    weight_add_linear(p, MODEL_SCORE, name, 1, p->config->hidden, bias);
}

static void weight_add_dense(struct lister *p, const char *name, bool bias)
{
    uint32_t hidden = p->config->hidden;
    weight_add_linear(p, MODEL_SCORE_DENSE, name, hidden, hidden, bias);
}

void weight_add_score(struct lister *p)
{
    char pooler[NAME_MAX_BYTES];
    switch (p->config->arch->head) {
    case HEAD_VOCABULARY:
        weight_add_answer(p);
        break;
    case HEAD_SCORE:
        weight_add_head(p, "score", false);
        break;
    case HEAD_POOLER:
        weight_name(pooler, p, "pooler.dense", 0, "");
        weight_add_dense(p, pooler, true);
        weight_add_head(p, "classifier", true);
        break;
    case HEAD_PRE_CLASSIFIER:
        weight_add_dense(p, "pre_classifier", true);
        weight_add_head(p, "classifier", true);
        break;
    case HEAD_DENSE_NORM:
        weight_add_dense(p, "head.dense", p->config->score_bias);
        weight_add_vector(p, MODEL_SCORE_NORM, "head.norm.weight", p->config->hidden, FILL_ONES);
        if (p->config->norm_bias)
            weight_add_vector(p, MODEL_SCORE_NORM_BIAS, "head.norm.bias", p->config->hidden,
                              FILL_ZEROS);
        weight_add_head(p, "classifier", true);
        break;
    case HEAD_CLASSIFIER:
        weight_add_dense(p, "classifier.dense", true);
        weight_add_head(p, "classifier.out_proj", true);
        break;
    case HEAD_NONE:
        check(false, "%s has no score", p->config->name);
    }
}

// Adds the bias of the scores by distance. DISTANCE_BUCKETS has a tensor [buckets][heads].
static void weight_add_distance(struct lister *p)
{
    const struct model_config *c = p->config;
    if (p->status != STATUS_OK)
        return;
    bool stored = c->distance == DISTANCE_BUCKETS;
    uint32_t n = c->heads * (2 * c->reach + 1);
    struct weight_shape shape = {.use = WEIGHT_VECTOR, .dtype = DTYPE_F32, .n = n, .k = 1};
    struct weight_entry *entry = weight_entry_add(p, MODEL_DISTANCE, &shape, FILL_ZEROS, stored);
    entry->distance_heads = c->heads;
    if (stored) {
        char name[NAME_MAX_BYTES];
        weight_name(name, p, c->arch->names->distance, 0, "");
        entry->parts[0] =
            (struct weight_part){.rows = c->buckets, .cols = c->heads, .stride = c->heads};
        p->list->parameter_count += (uint64_t)c->buckets * c->heads;
        if (p->args->tensors)
            weight_part_find(p, &entry->parts[0], name, 0, c->buckets, c->heads);
    }
    weight_entry_size(p, entry);
}

void weight_add_modules(struct lister *p)
{
    const struct model_config *c = p->config;
    const struct weight_list_args *model = p->args;
    const char *prefix = p->prefix;
    for (uint32_t i = 0; i < c->module_count && p->status == STATUS_OK; i++) {
        const struct vector_module *m = &c->modules[i];
        struct weight_list_args args = *model;
        uint32_t index = MODEL_MODULE + 2 * i;
        if (args.tensors)
            args.tensors = args.module_tensors[i];
        p->args = &args;
        p->prefix = "";
        if (m->norm) {
            weight_add_vector(p, index, "norm.weight", m->in, FILL_ONES);
            weight_add_vector(p, index + 1, "norm.bias", m->in, FILL_ZEROS);
        } else {
            weight_add_linear(p, index, "linear", m->out, m->in, m->bias);
        }
        if (p->status != STATUS_OK)
            error_prefix(p->err, "%s", m->folder);
        p->args = model;
        p->prefix = prefix;
    }
}

void weight_add_encoder_ends(struct lister *p)
{
    const struct model_config *c = p->config;
    const struct arch_names *names = c->arch->names;
    if (names->position)
        weight_add_table(p, MODEL_POSITION, names->position, c->positions);
    if (names->type && c->types > 0)
        weight_add_table(p, MODEL_TYPE, names->type, c->types);
    weight_add_hidden_norm(p, MODEL_EMBED_NORM, names->embed_norm, 0);
    if (c->distance != DISTANCE_NONE)
        weight_add_distance(p);
}
