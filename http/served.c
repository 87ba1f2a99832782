// SPDX-License-Identifier: Apache-2.0
// Look-ups in the list of served models; see served.h. Any thread.
#include "http/served.h"

static bool model_is_named(const struct served_model *model, struct text name)
{
    bool found = text_is(name, model->id);
    for (uint32_t i = 0; i < model->other_name_count && !found; i++)
        found = text_is(name, model->other_names[i]);
    return found;
}

const struct served_model *served_find(const struct served *served, struct text id)
{
    for (uint32_t i = 0; i < served->count; i++)
        if (model_is_named(&served->models[i], id))
            return &served->models[i];
    return NULL;
}

bool served_copy_failed(const struct served_copy *copy)
{
    const struct engine_stats *stats = engine_stats(copy->engine);
    return atomic_load_explicit(&stats->failed, memory_order_relaxed) != 0;
}

bool served_has_failed(const struct served_model *model)
{
    uint32_t failed = 0;
    for (uint32_t i = 0; i < model->copy_count; i++)
        failed += served_copy_failed(&model->copies[i]);
    return failed > 0 && failed == model->copy_count;
}
