// SPDX-License-Identifier: Apache-2.0
// The rotary part of config.json, in both forms that exist: "rope_scaling" next to "rope_theta",
// and "rope_parameters" that contains both. Loading thread only; rope.c computes the tables.
#include "runtime/model/config.h"

#include "base/safe.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

static enum status kind_read(struct rope_config *rope, const json_t *scaling, bool encoder,
                             struct error *err)
{
    static const struct {
        const char *name;
        enum rope_kind kind;
    } known[] = {
        {"default", ROPE_DEFAULT}, {"linear", ROPE_LINEAR}, {"dynamic", ROPE_DYNAMIC},
        {"llama3", ROPE_LLAMA3},   {"yarn", ROPE_YARN},     {"longrope", ROPE_LONG},
        {"su", ROPE_LONG},         {"ntk", ROPE_NTK},
    };
    const json_t *value = json_object_get(scaling, "rope_type");
    if (!value)
        value = json_object_get(scaling, "type");
    rope->kind = ROPE_DEFAULT;
    if (!value)
        return STATUS_OK;
    const char *name = json_string_value(value);
    for (size_t i = 0; name && i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(name, known[i].name) == 0 && (encoder || known[i].kind != ROPE_NTK)) {
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

// Refuses factors of longrope with another type: early files of Phi-3 call longrope "yarn".
static enum status factors_check(const struct rope_config *rope, const json_t *scaling,
                                 struct error *err)
{
    static const char *const names[] = {"short_factor", "long_factor"};
    for (int i = 0; i < 2 && rope->kind != ROPE_LONG; i++)
        if (json_is_array(json_object_get(scaling, names[i])))
            return error_set(err, STATUS_UNSUPPORTED,
                             "config.json: %s belongs to the rope type longrope, and the type is "
                             "another; set it to longrope if the model was trained with these "
                             "factors",
                             names[i]);
    return STATUS_OK;
}

// Reads the numbers of all kinds; those that a kind does not use keep their defaults.
static enum status numbers_read(struct rope_config *rope, const struct model_config *config,
                                const json_t *scaling, struct error *err)
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
        {&rope->alpha, {"alpha", 0, 1e6, 0}},
        {&rope->query_beta, {"llama_4_scaling_beta", 0, 1e3, 0}},
    };
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        enum status status = config_number(fields[i].out, scaling, &fields[i].wanted, err);
        if (status != STATUS_OK)
            return status;
    }
    rope->original = (uint32_t)original;
    if (rope->kind == ROPE_DYNAMIC && rope->alpha > 0 && (config->arch->flags & ARCH_ROPE_ALPHA))
        rope->kind = ROPE_ALPHA;
    if (ratio && rope->factor == 0)
        rope->factor = config->positions / original;
    if (rope->attention_factor < 0)
        rope->attention_factor = NAN;
    if (rope->kind == ROPE_LLAMA3 && rope->high_freq_factor == rope->low_freq_factor)
        return error_set(err, STATUS_INVALID,
                         "config.json: low_freq_factor and high_freq_factor of llama3 are equal");
    return config_bool(&rope->truncate, scaling, "truncate", true, err);
}

// Sets the longest sequence. Linear and dynamic scaling multiply max_position_embeddings, yarn the
// original length; the other kinds publish the scaled length, and so do families that scale only
// some of their layers (Gemma 3).
static void lengths_set(struct model_config *config)
{
    const struct rope_config *rope = &config->ropes[0];
    double length = config->positions;
    bool some = config->arch->flags & ARCH_WINDOW_ROPE;
    if ((rope->kind == ROPE_LINEAR && !some) || rope->kind == ROPE_DYNAMIC ||
        rope->kind == ROPE_NTK)
        length = fmax(length, config->positions * rope->factor);
    if (rope->kind == ROPE_YARN)
        length = fmax(length, rope->original * rope->factor);
    config->length_max = (uint32_t)fmin(length, 1 << 24);
    // Dynamic scaling changes the base according to the length that is served. The default is the
    // trained length, at which it has no effect.
    bool trained = rope->kind == ROPE_DYNAMIC || rope->kind == ROPE_NTK;
    config->length_default = trained ? config->positions : config->length_max;
}

// Members of a nested rope_parameters, by index of the rotary settings.
static const char *const rope_names[CONFIG_ROPES_MAX] = {"full_attention", "sliding_attention"};

bool rope_config_nested(const json_t *json)
{
    const json_t *all = json_object_get(json, "rope_parameters");
    for (int i = 0; i < CONFIG_ROPES_MAX; i++)
        if (json_is_object(json_object_get(all, rope_names[i])))
            return true;
    return false;
}

// Returns the type of positions that an object with their scaling names.
static const char *kind_name(const json_t *scaling)
{
    const json_t *value = json_object_get(scaling, "rope_type");
    const char *name = json_string_value(value ? value : json_object_get(scaling, "type"));
    return name ? name : "default";
}

static bool values_equal(const json_t *a, const json_t *b)
{
    if (json_is_number(a) && json_is_number(b))
        return json_number_value(a) == json_number_value(b);
    return json_equal(a, b);
}

// Refuses rope_scaling whose members differ from those of rope_parameters, which alone is read.
static enum status forms_check(const json_t *json, struct error *err)
{
    const json_t *all = json_object_get(json, "rope_parameters");
    const json_t *scaling = json_object_get(json, "rope_scaling");
    const char *name, *apart = NULL;
    json_t *value;
    if (rope_config_nested(json))
        all = json_object_get(all, rope_names[0]);
    if (!json_is_object(all) || json_object_size(scaling) == 0)
        return STATUS_OK;
    json_object_foreach((json_t *)scaling, name, value)
    {
        bool type = strcmp(name, "rope_type") == 0 || strcmp(name, "type") == 0;
        bool same = type ? strcmp(kind_name(scaling), kind_name(all)) == 0
                         : values_equal(value, json_object_get(all, name));
        if (!same && !json_is_null(value))
            apart = name;
    }
    if (!apart)
        return STATUS_OK;
    return error_set(err, STATUS_UNSUPPORTED,
                     "config.json: rope_scaling and rope_parameters differ in %s, and only one of "
                     "them can apply: put the values that you want into rope_parameters and remove "
                     "rope_scaling",
                     safe_of(text_of(apart)).at);
}

// Finds the object with the scaling of rotary settings; NULL: none. windowed: true for those of the
// layers with a window, for which files without a nested rope_parameters specify no scaling.
static enum status scaling_find(const json_t **out, const struct model_config *config,
                                const json_t *json, bool windowed, struct error *err)
{
    const char *name = "rope_parameters";
    const json_t *scaling = json_object_get(json, name);
    if (!json_is_object(scaling))
        scaling = json_object_get(json, name = "rope_scaling");
    if (scaling && !json_is_object(scaling) && !json_is_null(scaling))
        return error_set(err, STATUS_INVALID, "config.json: rope_scaling is not an object");
    *out = windowed ? NULL : scaling;
    if (rope_config_nested(json)) {
        *out = json_object_get(scaling, rope_names[windowed]);
        if (!json_is_object(*out))
            return error_set(err, STATUS_INVALID, "config.json: rope_parameters has no member %s",
                             rope_names[windowed]);
    }
    struct config_facts facts = config_facts_of(config);
    return config_rope_check(*out, name, &facts, err);
}

// Reads rotary settings. windowed: see scaling_find.
static enum status rope_read(struct rope_config *rope, const struct model_config *config,
                             const json_t *json, bool windowed, struct error *err)
{
    const json_t *scaling = NULL;
    enum status status = scaling_find(&scaling, config, json, windowed, err);
    if (status == STATUS_OK)
        status = kind_read(rope, scaling, config->arch->family == ARCH_ENCODER, err);
    if (status == STATUS_OK)
        status = factors_check(rope, scaling, err);
    struct config_number theta = {"rope_theta", 1.0001, 1e12, 10000};
    if (status == STATUS_OK)
        status = config_number(&theta.fallback, json, &theta, err);
    struct config_number local = {"rope_local_base_freq", 1.0001, 1e12, theta.fallback};
    if (status == STATUS_OK && windowed)
        status = config_number(&theta.fallback, json, &local, err);
    if (status == STATUS_OK)
        status = config_number(&rope->theta, scaling, &theta, err);
    struct config_number original = {"original_max_position_embeddings", 1, 1 << 24,
                                     config->positions};
    if (status == STATUS_OK)
        status = config_count(&rope->original, json, &original, err);
    double turned = config->head_dim; // MiniMax has rotary_dim instead of the factor
    struct config_number columns = {"rotary_dim", 0, config->head_dim, config->head_dim};
    if (status == STATUS_OK)
        status = config_number(&turned, json, &columns, err);
    struct config_number part = {"partial_rotary_factor", 0.01, 1, turned / config->head_dim};
    if (status == STATUS_OK)
        status = config_number(&part.fallback, json, &part, err);
    double factor = 1;
    if (status == STATUS_OK)
        status = config_number(&factor, scaling, &part, err);
    if (status == STATUS_OK)
        status = numbers_read(rope, config, scaling, err);
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
    return status;
}

enum status rope_config_parse(struct model_config *config, const json_t *json, struct error *err)
{
    bool used[CONFIG_ROPES_MAX] = {false};
    for (uint32_t i = 0; i < config->kind_count; i++)
        used[config->kinds[i].rope] = true;
    enum status status = forms_check(json, err);
    if (status == STATUS_OK)
        status = rope_read(&config->ropes[0], config, json, !used[0], err);
    if (status == STATUS_OK && used[1])
        status = rope_read(&config->ropes[1], config, json, true, err);
    config->rope_count = used[1] ? 2 : 1;
    lengths_set(config);
    return status;
}
