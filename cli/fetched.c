// SPDX-License-Identifier: Apache-2.0
// Turns the names of models into paths; see load.h. Main thread.
#include "cli/hub/hub.h"
#include "cli/load.h"

enum status models_fetch(struct loaded *loaded, struct error *err)
{
    for (uint32_t i = 0; i < loaded->model_count; i++) {
        struct loaded_model *m = &loaded->models[i];
        enum status status = STATUS_OK;
        if (m->copy > 0)
            m->spec.folder = model_first(m)->spec.folder;
        else
            status = hub_model_find(&m->spec.folder, m->spec.folder, loaded->arena, err);
        if (status != STATUS_OK)
            return status;
    }
    return STATUS_OK;
}
