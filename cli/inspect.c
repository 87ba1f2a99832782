// SPDX-License-Identifier: Apache-2.0
// weft inspect: shows the content of a model and the memory that serving it takes; with -v also its
// tensors. Main thread.
#include "cli/command.h"
#include "cli/load_print.h"
#include "base/log.h"
#include "runtime/model/declared.h"
#include "runtime/model/held.h"
#include "runtime/model/outline.h"
#include "runtime/model/tensors.h"

#include <dirent.h>
#include <string.h>

// Prints the number of tensors. each: true if also a line for each tensor.
static enum status tensors_print(const char *folder, bool each, struct error *err)
{
    struct tensors *tensors;
    enum status status = tensors_open(&tensors, folder, err);
    if (status != STATUS_OK)
        return status;
    uint32_t count = tensors_count(tensors);
    printf("%u tensors%s\n", count, each ? ":" : " (-v lists them)");
    for (uint32_t i = 0; each && i < count; i++) {
        const struct tensor *t = tensors_at(tensors, i);
        printf("  %-60s %-5s", safe_of(t->name).at, safe_of(text_of(t->type)).at);
        for (uint32_t d = 0; d < t->dims; d++)
            printf("%s%llu", d > 0 ? " x " : " ", (unsigned long long)t->shape[d]);
        putchar('\n');
    }
    tensors_close(tensors);
    return STATUS_OK;
}

// Prints how the weights are held, by format of a quantised folder and by kind of tensor.
static void held_print(const struct model_plan *plan)
{
    struct model_held held[MODEL_HELD_MAX];
    uint32_t count = model_plan_held(plan, held);
    struct model_packed packed[MODEL_PACKED_MAX];
    uint32_t formats = model_plan_packed(plan, packed);
    for (uint32_t i = 0; i < formats; i++)
        printf("quantized: %s: held as %s\n", packed[i].words, packed[i].formats);
    puts(plan->facts.ranks > 1 ? "weights of rank 0:" : "weights:");
    for (uint32_t i = 0; i < count; i++)
        printf("  %-28s %12.2f MiB %s\n", held[i].kind, (double)held[i].bytes / 0x1p20,
               held[i].formats);
}

// Returns true if the folder has config.json but no file that could have weights.
static bool is_config_alone(const char *folder)
{
    static const char *const tails[] = {".safetensors", ".index.json", ".bin",  ".gguf",   ".pt",
                                        ".pth",         ".h5",         ".onnx", ".msgpack"};
    DIR *entries = opendir(folder);
    struct dirent *entry;
    bool config = false, weights = false;
    while (entries && (entry = readdir(entries)) != NULL) {
        size_t bytes = strlen(entry->d_name);
        config = config || strcmp(entry->d_name, "config.json") == 0;
        for (size_t i = 0; i < sizeof tails / sizeof tails[0]; i++) {
            size_t tail = strlen(tails[i]);
            weights =
                weights || (bytes >= tail && strcmp(entry->d_name + bytes - tail, tails[i]) == 0);
        }
    }
    if (entries)
        closedir(entries);
    return config && !weights;
}

// Returns the folder of the model, or NULL if it is not known yet, for example because its name is
// not in the cache of the hub.
static const char *session_folder(const struct session *session)
{
    return session->loaded.model_count > 0 ? session->loaded.models[0].spec.folder : NULL;
}

// Logs the patterns of a folder's quantization declaration that its plan ignores.
static void ignored_log(const char *folder, const struct model_settings *settings)
{
    struct declaration *declaration = NULL;
    struct error ignored; // the plan returns the same error
    if (settings->dtype == 0 && declaration_open(&declaration, folder, true, &ignored) == STATUS_OK)
        declaration_close(declaration);
}

// Plans the model. A folder with config.json alone is planned with weights of the format that the
// file declares; *alone is then true.
static enum status inspect_plan(struct session *session, const char *folder,
                                struct model_settings *settings,
                                const struct device_settings *device, bool *alone,
                                struct error *err)
{
    *alone = false;
    enum status status = session_plan(session, folder, settings, device, err);
    const char *found = session_folder(session);
    if (status != STATUS_NOT_FOUND || !found || !is_config_alone(found))
        return status;
    *alone = true;
    settings->load_format = LOAD_FORMAT_DUMMY;
    ignored_log(found, settings);
    session_close(session);
    log_level_set(LOG_ERROR); // no warnings about files that the folder cannot have
    return session_plan(session, folder, settings, device, err);
}

// Prints what config.json declares and whether the model is served, for a model that cannot be
// loaded here. For others the plan has all of it.
static void outline_print(const struct session *session, enum status status)
{
    struct model_outline outline;
    struct error ignored;
    const char *folder = session_folder(session);
    if (status == STATUS_OK || !folder)
        return;
    const struct loaded_model *m = &session->loaded.models[0];
    enum status judged = model_outline_read(&outline, folder, &ignored);
    if (outline.architecture[0] == '\0')
        return;
    bool fits = status != STATUS_NO_MEMORY;
    bool yes = judged == STATUS_OK && m->plan;
    const char *media = yes ? m->plan->facts.media : NULL;
    printf("architecture: %s\n", outline.architecture);
    if (outline.text_part[0] != '\0')
        printf("text part: %s\n", outline.text_part);
    printf("format: %s\nserved: %s%s%s%s%s\n", outline.format, yes ? "yes, as " : "no",
           yes ? model_kind_name(m->plan->facts.kind) : "", media ? " without " : "",
           media ? media : "", fits ? "" : ", but not in the memory of this machine");
}

// Prints how the plan of a folder with config.json alone was made.
static void alone_print(const char *folder, const struct model_plan *plan)
{
    struct model_outline outline;
    struct error ignored;
    bool read = model_outline_read(&outline, folder, &ignored) == STATUS_OK;
    puts("the folder has no weights: the plan is that of weights as config.json declares them");
    if (!read || strncmp(outline.format, "quantized", strlen("quantized")) != 0)
        return;
    if (plan->facts.formats[0] != '\0')
        printf("%s: planned as %s\n", outline.format, plan->facts.formats);
    else
        printf("%s: planned as %s; --dtype int4 or int8 plans codes of 4 or 8 bits\n",
               outline.format, dtype_name(plan->facts.dtype));
}

static enum status model_inspect(struct session *session, const char *folder,
                                 struct model_settings *settings,
                                 const struct device_settings *device, struct error *err)
{
    bool alone;
    static const char *const poolings[] = {[POOL_CLS] = "cls",
                                           [POOL_LAST] = "last token",
                                           [POOL_MEAN] = "mean",
                                           [POOL_MEAN_SQRT] = "mean, times sqrt(tokens)",
                                           [POOL_WEIGHTED] = "mean, weighted by position",
                                           [POOL_MAX] = "max"};
    enum status planned = inspect_plan(session, folder, settings, device, &alone, err);
    outline_print(session, planned);
    const struct loaded_model *m = &session->loaded.models[0];
    // A plan that does not fit is printed too.
    if ((planned != STATUS_OK && planned != STATUS_NO_MEMORY) || session->loaded.model_count == 0 ||
        !m->plan)
        return planned;
    for (uint32_t i = 0; i < session->loaded.model_count; i++) // all copies of the model
        plan_print(stdout, &session->loaded.models[i]);
    if (m->kv_bytes == 0 && m->plan->kv_bytes_min > 0)
        printf("  %-28s %12.2f MiB\n", "keys and values, at least",
               (double)m->plan->kv_bytes_min / 0x1p20);
    held_print(m->plan);
    if (alone) {
        alone_print(session_folder(session), m->plan);
        return planned;
    }
    printf("vocabulary: %u ids in the tokenizer, %u in the model; %u end id%s\n",
           tokenizer_vocab(m->tokenizer), m->plan->facts.vocab, m->plan->facts.end_count,
           m->plan->facts.end_count == 1 ? "" : "s");
    if (m->plan->facts.kind == MODEL_EMBEDDER)
        printf("pooling: %s\n", poolings[m->plan->facts.pooling]);
    if (m->plan->facts.kind == MODEL_GENERATOR)
        safe_line(stdout, "chat template: %s",
                  m->chat_is_plain          ? "none (contents joined by newlines)"
                  : settings->chat_template ? settings->chat_template
                                            : "the model's");
    if (planned != STATUS_OK)
        return planned;
    enum status status = tensors_print(m->plan->weights_folder, log_level_get() >= LOG_DEBUG, err);
    if (status == STATUS_NOT_FOUND && settings->load_format == LOAD_FORMAT_DUMMY)
        return STATUS_OK; // a dummy model needs no tensors
    return status;
}

int command_inspect(const struct command *self, int argc, char **argv)
{
    struct model_settings model;
    struct device_settings device;
    model_settings_init(&model);
    device_settings_init(&device);
    device.log_level = LOG_WARNING;
    const struct option_table tables[] = {device_options_table, model_options_table};
    void *const fields[] = {&device, &model};
    static const char *const titles[] = {"Device:", "Model:"};
    struct arena *arena = arena_create(0, 0);
    struct texts positional;
    struct command_parse parse = {self, argc, argv, tables, fields, titles, 2, 1, 1, NULL};
    int code = command_parse(&parse, arena, &positional);
    log_level_set((enum log_level)device.log_level);
    log_format_set((enum log_format)device.log_format);
    if (code < 0) {
        struct session session;
        struct error err;
        enum status status = model_inspect(&session, positional.at[0], &model, &device, &err);
        code = status == STATUS_OK ? EXIT_CODE_OK : session_failed(&session, &err);
        session_close(&session);
    }
    arena_destroy(arena);
    return code;
}
