// See served.h.
#include "http/served.h"

const struct served_model *served_find(const struct served *served, struct text id)
{
    for (uint32_t i = 0; i < served->count; i++)
        if (text_is(id, served->models[i].id))
            return &served->models[i];
    return NULL;
}

bool served_has_failed(const struct served_model *model)
{
    return model->engine &&
           atomic_load_explicit(&engine_stats(model->engine)->failed, memory_order_relaxed) != 0;
}
