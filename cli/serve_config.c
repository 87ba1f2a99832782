// SPDX-License-Identifier: Apache-2.0
// Options from JSON; see serve_config.h. A value becomes the text that the option would have on the
// command line, so that both are checked by the same code.
#include "cli/serve_config.h"

#include "base/json.h"
#include "cli/near.h"

#include <string.h>

// Returns the value as text; NULL if it is no text, number or bool.
static const char *value_text(const json_t *value, struct arena *arena)
{
    if (json_is_string(value))
        return arena_copy(arena, text_of(json_string_value(value))).at;
    if (json_is_integer(value))
        return arena_format(arena, "%lld", (long long)json_integer_value(value)).at;
    if (json_is_real(value))
        return arena_format(arena, "%.17g", json_real_value(value)).at;
    return json_is_boolean(value) ? (json_is_true(value) ? "true" : "false") : NULL;
}

// Sets one option; the values of a list are set one after the other.
static enum status option_set(const struct option_table *table, void *fields, const char *name,
                              const json_t *value, struct arena *arena, struct error *err)
{
    size_t count = json_is_array(value) ? json_array_size(value) : 1;
    enum status status = STATUS_OK;
    for (size_t i = 0; i < count && status == STATUS_OK; i++) {
        const json_t *item = json_is_array(value) ? json_array_get(value, i) : value;
        const char *text = value_text(item, arena);
        if (!text)
            return error_set(err, STATUS_INVALID,
                             "'%s' must be a text, a number, true, false or a list of these", name);
        status = option_assign(table, fields, name, text, arena, err);
    }
    return status;
}

enum status config_read(const struct config_tables *tables, const json_t *config,
                        const json_t **models, struct arena *arena, struct error *err)
{
    const char *name;
    json_t *value;
    *models = NULL;
    if (!json_is_object(config))
        return error_set(err, STATUS_INVALID, "it must hold a JSON object");
    json_object_foreach((json_t *)config, name, value)
    {
        uint32_t i = 0;
        if (strcmp(name, "models") == 0) {
            *models = value;
            continue;
        }
        while (i < tables->count && !option_known(&tables->tables[i], name))
            i++;
        if (i == tables->count || strcmp(name, "config") == 0) {
            struct near near = {.given = name};
            for (i = 0; i < tables->count; i++)
                option_near(&near, &tables->tables[i]);
            return error_set(err, STATUS_INVALID, "there is no option '%s'%s", name,
                             near_text(&near, "").at);
        }
        enum status status =
            option_set(&tables->tables[i], tables->fields[i], name, value, arena, err);
        if (status != STATUS_OK)
            return status;
    }
    if (*models && !json_is_array(*models))
        return error_set(err, STATUS_INVALID, "'models' must be a list");
    return STATUS_OK;
}

enum status config_model_read(struct model_spec *out, const json_t *entry,
                              const struct model_settings *all, struct arena *arena,
                              struct error *err)
{
    struct model_settings settings = *all;
    const char *key;
    json_t *value;
    if (json_is_string(entry))
        return model_spec_parse(out, json_string_value(entry), all, arena, err);
    const char *model = json_string_value(json_object_get(entry, "model"));
    const char *name = json_string_value(json_object_get(entry, "name"));
    if (!model)
        return error_set(err, STATUS_INVALID,
                         "a model must be a text, or an object with 'model': its name or path");
    json_object_foreach((json_t *)entry, key, value)
    {
        bool own = strcmp(key, "model") == 0 || strcmp(key, "name") == 0;
        if (own && !json_is_string(value))
            return error_set(err, STATUS_INVALID, "'%s' of a model must be a text", key);
        if (own)
            continue;
        enum status status = option_set(&model_options_table, &settings, key, value, arena, err);
        if (status != STATUS_OK)
            return error_prefix(err, "model '%s'", model);
    }
    model = arena_copy(arena, text_of(model)).at;
    name = name ? arena_copy(arena, text_of(name)).at : NULL;
    return model_spec_make(out, name, model, &settings, arena, err);
}
