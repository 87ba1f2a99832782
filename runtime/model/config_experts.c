// SPDX-License-Identifier: Apache-2.0
// Reads the mixture of experts of config.json: sizes, routing, and which layers have it. Loading
// thread only.
#include "runtime/model/config.h"

#include <math.h>
#include <string.h>

// Sets the columns of the shared expert.
static enum status shared_read(struct experts_config *e, const struct arch_experts *names,
                               const json_t *json, struct error *err)
{
    struct config_number width = {names->shared_width, 0, 1 << 20, NAN};
    if (names->shared_width)
        return config_count(&e->shared_width, json, &width, err);
    uint32_t number = 0;
    struct config_number count = {names->shared_count, 0, 64, NAN};
    enum status status = STATUS_OK;
    if (names->shared_count)
        status = config_count(&number, json, &count, err);
    e->shared_width = number * e->width;
    return status;
}

// The matrices of experts have complete groups of rows; a router has limits (kernels/experts.h).
static enum status sizes_check(const struct model_config *config, struct error *err)
{
    const struct experts_config *e = &config->experts;
    const struct arch_experts *names = config->arch->experts;
    if (e->chosen > e->count)
        return error_set(err, STATUS_INVALID, "config.json: %s is %u, but there are %u experts",
                         names->chosen, e->chosen, e->count);
    if (e->width % 16 != 0 || config->hidden % EXPERT_ROWS_UNIT != 0)
        return error_set(err, STATUS_UNSUPPORTED,
                         "config.json: experts of %u columns and hidden states of %u are not "
                         "served: multiples of 16 and of %d are",
                         e->width, config->hidden, EXPERT_ROWS_UNIT);
    if (e->groups == 0)
        return STATUS_OK;
    if (e->count % e->groups != 0 || e->groups_kept > e->groups || e->count / e->groups < 2 ||
        e->count / e->groups * e->groups_kept < e->chosen)
        return error_set(err, STATUS_INVALID,
                         "config.json: %u groups of experts, of which %u are chosen from, do not "
                         "fit %u experts",
                         e->groups, e->groups_kept, e->count);
    return STATUS_OK;
}

// Refuses keys that name another routing or another number of experts than those that are read.
static enum status routing_check(const struct model_config *config, const json_t *json,
                                 struct error *err)
{
    const struct arch_experts *names = config->arch->experts;
    uint32_t count = config->experts.count, local = count;
    bool corrected = true;
    struct config_number other = {"num_local_experts", 0, 1 << 20, count};
    enum status status = config_count(&local, json, &other, err);
    if (status == STATUS_OK && local != count)
        return error_set(err, STATUS_INVALID,
                         "config.json: num_local_experts is %u, but %s is %u; correct the one that "
                         "does not fit the checkpoint",
                         local, names->count, count);
    const json_t *score = json_object_get(json, "scoring_func");
    const char *word = json_string_value(score);
    if (status == STATUS_OK && names->score == ROUTE_SIGMOID && score && !json_is_null(score) &&
        (!word || strcmp(word, "sigmoid") != 0))
        return error_set(err, STATUS_UNSUPPORTED,
                         "config.json: scoring_func is %.32s; sigmoid is served with %s only",
                         word ? word : "not a string", config->arch->name);
    if (status == STATUS_OK)
        status = config_bool(&corrected, json, "use_routing_bias", true, err);
    if (status == STATUS_OK && names->correction && !corrected)
        return error_set(err, STATUS_UNSUPPORTED,
                         "config.json: use_routing_bias is false: %s is served with a correction "
                         "of the experts' scores only, take another model",
                         config->arch->name);
    return status;
}

enum status experts_config_parse(struct model_config *config, const json_t *json, struct error *err)
{
    const struct arch_experts *names = config->arch->experts;
    struct experts_config *e = &config->experts;
    if (!names)
        return STATUS_OK;
    const struct config_field fields[] = {
        {&e->count, {names->count, 1, EXPERTS_MAX, NAN}},
        {&e->chosen, {names->chosen, 1, EXPERTS_CHOSEN_MAX, NAN}},
        {&e->width, {names->width, 1, 1 << 20, NAN}},
        {&e->groups, {"n_group", 1, EXPERTS_MAX, 1}},
        {&e->groups_kept, {"topk_group", 1, EXPERTS_MAX, 1}},
    };
    struct config_number factor = {"routed_scaling_factor", 1e-6, 1e6, 1};
    e->score = names->score;
    enum status status = config_counts(fields, sizeof fields / sizeof fields[0], json, err);
    if (status == STATUS_OK)
        status = shared_read(e, names, json, err);
    if (status == STATUS_OK)
        status = config_bool(&e->renormalise, json, "norm_topk_prob", false, err);
    e->renormalise = e->renormalise || names->renormalises;
    if (status == STATUS_OK)
        status = config_number(&e->factor, json, &factor, err);
    if (e->groups == e->groups_kept)
        e->groups = e->groups_kept = 0; // all experts can be chosen
    if (status == STATUS_OK)
        status = routing_check(config, json, err);
    return status == STATUS_OK ? sizes_check(config, err) : status;
}

// Sets `out` to whether mlp_only_layers has the layer.
static enum status layer_listed(bool *out, const json_t *json, uint32_t layer, struct error *err)
{
    const json_t *listed = json_object_get(json, "mlp_only_layers");
    bool list = !listed || json_is_null(listed) || json_is_array(listed);
    *out = false;
    for (size_t i = 0; list && i < json_array_size(listed); i++) {
        const json_t *value = json_array_get(listed, i);
        list = json_is_integer(value);
        *out = *out || (list && json_integer_value(value) == (json_int_t)layer);
    }
    if (list)
        return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "config.json: mlp_only_layers is not a list of numbers of layers");
}

enum status experts_config_layer(bool *out, const struct model_config *config, const json_t *json,
                                 uint32_t layer, struct error *err)
{
    uint32_t dense, first, step, interval, last;
    const struct config_field fields[] = {
        {&dense, {"first_k_dense_replace", 0, CONFIG_LAYERS_MAX, 0}},
        {&step, {"decoder_sparse_step", 1, CONFIG_LAYERS_MAX, 1}},
        {&first, {"moe_layer_start_index", 0, CONFIG_LAYERS_MAX, 0}},
        {&interval, {"moe_layer_interval", 1, CONFIG_LAYERS_MAX, 1}},
    };
    // -1 means the last layer
    struct config_number end = {"moe_layer_end_index", -1, CONFIG_LAYERS_MAX, -1};
    double end_given = -1;
    *out = false;
    if (config->experts.count == 0)
        return STATUS_OK;
    enum status status = config_counts(fields, sizeof fields / sizeof fields[0], json, err);
    if (status != STATUS_OK)
        return status;
    status = config_number(&end_given, json, &end, err);
    last = end_given < 0 ? config->layers - 1 : (uint32_t)end_given;
    *out = layer >= dense && layer >= first && layer <= last && (layer + 1) % step == 0 &&
           (layer + 1) % interval == 0;
    bool listed = false;
    if (status == STATUS_OK)
        status = layer_listed(&listed, json, layer, err);
    *out = *out && !listed;
    return status;
}
