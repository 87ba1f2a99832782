// SPDX-License-Identifier: Apache-2.0
// weft inspect: shows the content of a model and the memory that serving it takes; with -v also its
// tensors. Main thread.
#include "cli/command.h"
#include "cli/load_print.h"
#include "base/log.h"
#include "runtime/model/held.h"
#include "runtime/model/tensors.h"

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

// Prints how the weights are held, by kind of tensor.
static void held_print(const struct model_plan *plan)
{
    struct model_held held[MODEL_HELD_MAX];
    uint32_t count = model_plan_held(plan, held);
    puts("weights:");
    for (uint32_t i = 0; i < count; i++)
        printf("  %-28s %12.2f MiB %s\n", held[i].kind, (double)held[i].bytes / 0x1p20,
               held[i].formats);
}

static enum status model_inspect(struct session *session, const char *folder,
                                 const struct model_settings *settings,
                                 const struct device_settings *device, struct error *err)
{
    static const char *const poolings[] = {[POOL_CLS] = "cls",
                                           [POOL_LAST] = "last token",
                                           [POOL_MEAN] = "mean",
                                           [POOL_MEAN_SQRT] = "mean, times sqrt(tokens)"};
    enum status status = session_plan(session, folder, settings, device, err);
    if (status != STATUS_OK)
        return status;
    const struct loaded_model *m = &session->loaded.models[0];
    for (uint32_t i = 0; i < session->loaded.model_count; i++) // all copies of the model
        plan_print(stdout, &session->loaded.models[i]);
    held_print(m->plan);
    printf("vocabulary: %u ids in the tokenizer, %u in the model; %u end ids\n",
           tokenizer_vocab(m->tokenizer), m->plan->facts.vocab, m->plan->facts.end_count);
    if (m->plan->facts.kind == MODEL_EMBEDDER)
        printf("pooling: %s\n", poolings[m->plan->facts.pooling]);
    if (m->plan->facts.kind == MODEL_GENERATOR)
        safe_line(stdout, "chat template: %s",
                  m->chat_is_plain          ? "none (contents joined by newlines)"
                  : settings->chat_template ? settings->chat_template
                                            : "the model's");
    status = tensors_print(m->plan->weights_folder, log_level_get() >= LOG_DEBUG, err);
    if (status == STATUS_NOT_FOUND && settings->load_format == 1)
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
