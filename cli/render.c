// SPDX-License-Identifier: Apache-2.0
// weft render: renders a chat template with a JSON object and prints the prompt. Main thread.
#include "cli/command.h"
#include "cli/hub/hub.h"
#include "cli/settings.h"
#include "base/file.h"
#include "runtime/text/prompt.h"

#include <string.h>
#include <time.h>

struct render_settings {
    const char *template_file;
    const char *now;
};

#define AT(field) offsetof(struct render_settings, field)
static const struct option_row rows[] = {
    OPTION_ROW("template", OPTION_TEXT, AT(template_file), "the model's", "file with the template"),
    OPTION_ROW("now", OPTION_TEXT, AT(now), "the clock",
               "time that strftime_now returns, such as 2025-07-10T12:00:00Z"),
};
static const struct option_table table = {rows, sizeof rows / sizeof *rows};

static enum status now_read(const char *text, int64_t *out, struct error *err)
{
    *out = (int64_t)time(NULL);
    if (!text)
        return STATUS_OK;
    struct tm parts = {0};
    const char *end = strptime(text, "%Y-%m-%dT%H:%M:%SZ", &parts);
    if (!end || *end != '\0')
        return error_set(err, STATUS_INVALID, "--now must look like 2025-07-10T12:00:00Z, got '%s'",
                         text);
    *out = (int64_t)timegm(&parts);
    return STATUS_OK;
}

static enum status source_read(const struct render_settings *s, const struct tokenizer *tokenizer,
                               const json_t *variables, struct arena *arena, struct text *out,
                               struct error *err)
{
    if (s->template_file)
        return file_read(out, arena, s->template_file, 16 << 20, err);
    *out = (struct text){0};
    if (json_array_size(json_object_get(variables, "tools")) > 0)
        *out = tokenizer_chat_template(tokenizer, "tool_use");
    if (!out->at)
        *out = tokenizer_chat_template(tokenizer, NULL);
    if (!out->at)
        *out = chat_template_plain();
    return STATUS_OK;
}

// Completes the template variables as the server does: tools, documents and add_generation_prompt
// get their defaults if they are missing, and the members of chat_template_kwargs become variables.
static enum status variables_complete(json_t *variables, struct error *err)
{
    json_t *more = json_object_get(variables, "chat_template_kwargs");
    if (more && !json_is_object(more) && !json_is_null(more))
        return error_set(err, STATUS_INVALID, "chat_template_kwargs must be an object");
    if (json_is_null(json_object_get(variables, "add_generation_prompt")))
        json_object_del(variables, "add_generation_prompt");
    json_t *defaults = json_pack("{s:n,s:n,s:b}", "tools", "documents", "add_generation_prompt", 1);
    json_object_update_missing(variables, defaults);
    json_decref(defaults);
    json_object_update_missing(variables, more);
    json_object_del(variables, "chat_template_kwargs");
    return STATUS_OK;
}

static enum status prompt_render(const struct render_settings *s, const struct tokenizer *tokenizer,
                                 json_t *variables, struct arena *arena, struct error *err)
{
    if (tokenizer)
        prompt_special_variables(variables, tokenizer);
    struct chat_input in = {.variables = variables};
    in.trusted = prompt_trusted(tokenizer, arena, &in.trusted_count);
    enum status status = now_read(s->now, &in.now, err);
    if (status == STATUS_OK)
        status = variables_complete(variables, err);
    struct text source;
    if (status == STATUS_OK)
        status = source_read(s, tokenizer, variables, arena, &source, err);
    struct chat_template *chat = NULL;
    if (status == STATUS_OK)
        status = chat_template_create(&chat, source, err);
    struct chat_output out;
    if (status == STATUS_OK)
        status = chat_render(chat, &in, arena, &out, err);
    if (status == STATUS_OK)
        output_text(stdout, out.text);
    chat_template_destroy(chat);
    return status;
}

static enum status variables_read(json_t **out, struct arena *arena, struct error *err)
{
    struct text in;
    enum status status = stdin_read(&in, arena, err);
    if (status == STATUS_OK)
        status = json_parse(out, in, err);
    if (status == STATUS_OK && !json_is_object(*out))
        return error_set(err, STATUS_INVALID, "stdin must hold a JSON object");
    return status;
}

int command_render(const struct command *self, int argc, char **argv)
{
    struct render_settings s = {0};
    void *const fields[] = {&s};
    static const char *const titles[] = {"Options:"};
    struct arena *arena = arena_create(1 << 20, 0);
    struct texts positional;
    struct command_parse parse = {self, argc, argv, &table, fields, titles, 1, 0, 1, NULL};
    int code = command_parse(&parse, arena, &positional);
    if (code < 0 && (positional.count == 1) == (s.template_file != NULL)) {
        fprintf(stderr, "weft render: give MODEL or --template FILE%s, usage: weft %s %s\n",
                s.template_file ? ", not both" : "", self->name, self->usage);
        code = EXIT_CODE_USAGE;
    }
    if (code < 0) {
        struct error err;
        struct tokenizer *tokenizer = NULL;
        json_t *variables = NULL;
        enum status status = STATUS_OK;
        const char *folder =
            positional.count == 1 ? model_folder_find(positional.at[0], arena) : "";
        if (positional.count == 1)
            status = hub_model_find(&folder, folder, arena, &err);
        if (status == STATUS_OK && positional.count == 1)
            status = tokenizer_open(&tokenizer, folder, &err);
        if (status == STATUS_OK)
            status = variables_read(&variables, arena, &err);
        if (status == STATUS_OK)
            status = prompt_render(&s, tokenizer, variables, arena, &err);
        code = status == STATUS_OK ? EXIT_CODE_OK : command_failed(&err);
        json_decref(variables);
        tokenizer_close(tokenizer);
    }
    arena_destroy(arena);
    return code;
}
