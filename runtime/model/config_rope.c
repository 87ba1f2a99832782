// SPDX-License-Identifier: Apache-2.0
// The rotary part of config.json, in both forms that exist: "rope_scaling" next to "rope_theta",
// and "rope_parameters" that contains both. Loading thread only; rope.c computes the tables.
#include "runtime/model/config.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

static enum status kind_read(struct rope_config *rope, const json_t *scaling, struct error *err)
{
    static const struct {
        const char *name;
        enum rope_kind kind;
    } known[] = {
        {"default", ROPE_DEFAULT}, {"linear", ROPE_LINEAR}, {"dynamic", ROPE_DYNAMIC},
        {"llama3", ROPE_LLAMA3},   {"yarn", ROPE_YARN},     {"longrope", ROPE_LONG},
        {"su", ROPE_LONG},
    };
    const json_t *value = json_object_get(scaling, "rope_type");
    if (!value)
        value = json_object_get(scaling, "type");
    rope->kind = ROPE_DEFAULT;
    if (!value)
        return STATUS_OK;
    const char *name = json_string_value(value);
    for (size_t i = 0; name && i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(name, known[i].name) == 0) {
            rope->kind = known[i].kind;
            return STATUS_OK;
        }
    }
    return error_set(err, STATUS_UNSUPPORTED,
                     "config.json: the rope type %.32s is not known; known are default, linear, "
                     "dynamic, llama3, yarn and longrope",
                     name ? name : "(not a string)");
}

static enum status factors_read(double *out, const char *name, uint32_t count,
                                const json_t *scaling, struct error *err)
{
    const json_t *list = json_object_get(scaling, name);
    if (!json_is_array(list) || json_array_size(list) != count)
        return error_set(err, STATUS_INVALID,
                         "config.json: %s of longrope is not a list of %u numbers", name, count);
    for (uint32_t i = 0; i < count; i++) {
        const json_t *value = json_array_get(list, i);
        if (!json_is_number(value) || !(json_number_value(value) > 0))
            return error_set(err, STATUS_INVALID,
                             "config.json: %s of longrope holds something that is not a positive "
                             "number",
                             name);
        out[i] = json_number_value(value);
    }
    return STATUS_OK;
}

// Reads the numbers of all kinds; those that a kind does not use keep their defaults.
static enum status numbers_read(struct rope_config *rope, const json_t *scaling, double positions,
                                struct error *err)
{
    bool ratio = rope->kind == ROPE_YARN || rope->kind == ROPE_LONG;
    bool wanted = rope->kind != ROPE_DEFAULT && !ratio;
    double original = rope->original;
    const struct {
        double *out;
        struct config_number wanted;
    } fields[] = {
        {&original, {"original_max_position_embeddings", 1, 1 << 24, original}},
        {&rope->factor, {"factor", 1e-3, 1e6, wanted ? NAN : 0}},
        {&rope->attention_factor, {"attention_factor", 1e-3, 1e3, -1}},
        {&rope->beta_fast, {"beta_fast", 1e-3, 1e6, 32}},
        {&rope->beta_slow, {"beta_slow", 1e-3, 1e6, 1}},
        {&rope->mscale, {"mscale", 0, 1e3, 0}},
        {&rope->mscale_all_dim, {"mscale_all_dim", 0, 1e3, 0}},
        {&rope->low_freq_factor, {"low_freq_factor", 1e-3, 1e6, 1}},
        {&rope->high_freq_factor, {"high_freq_factor", 1e-3, 1e6, 4}},
    };
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        enum status status = config_number(fields[i].out, scaling, &fields[i].wanted, err);
        if (status != STATUS_OK)
            return status;
    }
    rope->original = (uint32_t)original;
    if (ratio && rope->factor == 0)
        rope->factor = positions / original;
    if (rope->attention_factor < 0)
        rope->attention_factor = NAN;
    if (rope->kind == ROPE_LLAMA3 && rope->high_freq_factor == rope->low_freq_factor)
        return error_set(err, STATUS_INVALID,
                         "config.json: low_freq_factor and high_freq_factor of llama3 are equal");
    return config_bool(&rope->truncate, scaling, "truncate", true, err);
}

// Sets the longest sequence. Linear and dynamic scaling multiply max_position_embeddings, yarn the
// original length; the other kinds publish the scaled length.
static void lengths_set(struct model_config *config)
{
    const struct rope_config *rope = &config->ropes[0];
    double length = config->positions;
    if (rope->kind == ROPE_LINEAR || rope->kind == ROPE_DYNAMIC)
        length = fmax(length, config->positions * rope->factor);
    if (rope->kind == ROPE_YARN)
        length = fmax(length, rope->original * rope->factor);
    config->length_max = (uint32_t)fmin(length, 1 << 24);
    // Dynamic scaling changes the base according to the length that is served. The default is the
    // trained length, at which it has no effect.
    config->length_default = rope->kind == ROPE_DYNAMIC ? config->positions : config->length_max;
}

// Replaces an object that has members by kind of layer ("full_attention", "sliding_attention") by
// the member of the kinds that the model has.
static enum status kinds_merge(const json_t **object, const struct model_config *config,
                               const json_t *json, struct error *err)
{
    static const char *const kinds[] = {"full_attention", "sliding_attention"};
    const json_t *types = json_object_get(json, "layer_types"), *found = NULL;
    bool nested = false;
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)*object, key, value) nested |= json_is_object(value);
    for (int k = 0; k < 2 && nested; k++) {
        bool used = !json_is_array(types) && json_object_get(*object, kinds[k]);
        for (size_t i = 0; i < json_array_size(types); i++) {
            const char *type = json_string_value(json_array_get(types, i));
            used = used || (type && strcmp(type, kinds[k]) == 0);
        }
        if (!used)
            continue;
        value = json_object_get(*object, kinds[k]);
        if (found && !json_equal(found, value))
            return error_set(err, STATUS_UNSUPPORTED,
                             "config.json: rope_parameters of %s and %s differ: %s is served with "
                             "equal ones only; take another model",
                             kinds[0], kinds[1], config->arch->name);
        found = value;
    }
    if (nested && !json_is_object(found))
        return error_set(err, STATUS_INVALID,
                         "config.json: rope_parameters has members by kind of layer, but none for "
                         "the kinds of this model");
    *object = nested ? found : *object;
    return STATUS_OK;
}

// Finds the object of the rope; *out is NULL if there is none.
static enum status object_find(const json_t **out, const struct model_config *config,
                               const json_t *json, struct error *err)
{
    const char *name = "rope_parameters";
    *out = json_object_get(json, name);
    if (!json_is_object(*out))
        *out = json_object_get(json, name = "rope_scaling");
    if (*out && !json_is_object(*out) && !json_is_null(*out))
        return error_set(err, STATUS_INVALID, "config.json: rope_scaling is not an object");
    enum status status = kinds_merge(out, config, json, err);
    struct config_facts facts = config_facts_of(config);
    return status == STATUS_OK ? config_rope_check(*out, name, &facts, err) : status;
}

enum status rope_config_parse(struct model_config *config, const json_t *json, struct error *err)
{
    struct rope_config *rope = &config->ropes[0];
    const json_t *scaling;
    enum status status = object_find(&scaling, config, json, err);
    if (status == STATUS_OK)
        status = kind_read(rope, scaling, err);
    struct config_number theta = {"rope_theta", 1.0001, 1e12, 10000};
    if (status == STATUS_OK)
        status = config_number(&theta.fallback, json, &theta, err);
    if (status == STATUS_OK)
        status = config_number(&rope->theta, scaling, &theta, err);
    struct config_number original = {"original_max_position_embeddings", 1, 1 << 24,
                                     config->positions};
    if (status == STATUS_OK)
        status = config_count(&rope->original, json, &original, err);
    struct config_number part = {"partial_rotary_factor", 0.01, 1, 1};
    if (status == STATUS_OK)
        status = config_number(&part.fallback, json, &part, err);
    double factor = 1;
    if (status == STATUS_OK)
        status = config_number(&factor, scaling, &part, err);
    if (status == STATUS_OK)
        status = numbers_read(rope, scaling, config->positions, err);
    if (status != STATUS_OK)
        return status;
    rope->dim = (uint32_t)(config->head_dim * factor);
    if (rope->dim < 4 || rope->dim % 2 != 0)
        return error_set(err, STATUS_UNSUPPORTED,
                         "config.json: %u rotary columns of a head are not supported: an even "
                         "number of at least 4 is",
                         rope->dim);
    if (rope->kind == ROPE_LONG) {
        status = factors_read(rope->short_factor, "short_factor", rope->dim / 2, scaling, err);
        if (status == STATUS_OK)
            status = factors_read(rope->long_factor, "long_factor", rope->dim / 2, scaling, err);
    }
    config->rope_count = 1;
    lengths_set(config);
    return status;
}
