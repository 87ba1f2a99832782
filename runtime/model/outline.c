// SPDX-License-Identifier: Apache-2.0
// Judges a model by its declarations; see outline.h. Loading thread only.
#include "runtime/model/outline.h"

#include "base/arena.h"
#include "base/safe.h"
#include "runtime/model/config.h"
#include "runtime/source/source.h"

#include <stdio.h>
#include <string.h>

static void outline_fill(struct model_outline *out, const struct config_files *files)
{
    const json_t *json = files->json, *text = json_object_get(json, "text_config");
    const json_t *const levels[] = {json, text};
    const char *name = json_string_value(json_array_get(json_object_get(json, "architectures"), 0));
    const char *type = json_string_value(json_object_get(text, "model_type"));
    const char *dtype = NULL;
    for (int i = 0; i < 2 && !dtype; i++) {
        dtype = json_string_value(json_object_get(levels[i], "torch_dtype"));
        if (!dtype)
            dtype = json_string_value(json_object_get(levels[i], "dtype"));
    }
    struct quantised quantised = quantised_by_config(json);
    const struct quantised *q = quantised.where ? &quantised : &files->quantised;
    size_t end;
    safe_put(out->architecture, sizeof out->architecture, text_of(name ? name : ""));
    safe_put(out->text_part, sizeof out->text_part, text_of(type ? type : ""));
    if (q->where)
        snprintf(out->format, sizeof out->format, "quantized, %s (%s)", q->method, q->where);
    else if (source_is_gguf(files->weights_folder, &end))
        snprintf(out->format, sizeof out->format, "GGUF");
    else
        snprintf(out->format, sizeof out->format, "%.32s",
                 dtype ? safe_of(text_of(dtype)).at : "not named in config.json");
}

enum status model_outline_read(struct model_outline *out, const char *folder, struct error *err)
{
    *out = (struct model_outline){.architecture = ""};
    struct model_config *config = heap_alloc(sizeof *config);
    struct config_files files;
    enum status status = config_files_read(&files, folder, err);
    if (json_is_object(files.json))
        outline_fill(out, &files);
    if (status == STATUS_OK)
        status = config_files_parse(config, &files, folder, err);
    if (status == STATUS_OK)
        out->vocab = config->vocab;
    json_decref(files.json);
    heap_free(config);
    if (status == STATUS_OK || strncmp(err->text, folder, strlen(folder)) == 0)
        return status;
    return error_prefix(err, "%s", folder);
}
