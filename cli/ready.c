// SPDX-License-Identifier: Apache-2.0
// Prints the start screen; see ready.h. Main thread.
#include "cli/ready.h"

#include "cli/load_print.h"
#include "base/json.h"
#include "base/safe.h"

#include <string.h>
#include <unistd.h>

// Appends a text in single quotes, escaped for a shell.
static void quoted_put(struct json_buffer *out, struct text in)
{
    json_put_literal(out, "'");
    for (size_t i = 0; i < in.bytes; i++)
        if (in.at[i] == '\'')
            json_put_literal(out, "'\\''");
        else
            json_put_raw(out, text_span(in.at + i, 1));
    json_put_literal(out, "'");
}

// Appends "http://HOST:PORT" or https; if the server listens on all addresses, with loopback as the
// host.
static void address_put(struct json_buffer *out, const struct ready_args *args)
{
    const struct serve_settings *settings = args->settings;
    const char *host = settings->host;
    if (strcmp(host, "0.0.0.0") == 0)
        host = "127.0.0.1";
    else if (strcmp(host, "::") == 0)
        host = "::1";
    bool v6 = strchr(host, ':') != NULL;
    json_put_format(out, "%s://%s%s%s:%u", settings->ssl_certfile ? "https" : "http", v6 ? "[" : "",
                    host, v6 ? "]" : "", args->port);
}

static void page_print(const struct ready_args *args)
{
    struct json_buffer address = {0};
    address_put(&address, args);
    bool colour = options_colour(STDOUT_FILENO);
    printf("weft " WEFT_VERSION " serves at %s%s/%s\n", colour ? "\x1b[1;32m" : "",
           safe_of(json_buffer_text(&address)).at, colour ? "\x1b[0m" : "");
    json_buffer_free(&address);
}

static void models_print(const struct loaded *loaded)
{
    for (uint32_t i = 0; i < loaded->model_count; i++) {
        const struct loaded_model *m = &loaded->models[i];
        double mib = (double)(m->plan->bytes + m->kv_bytes) / 0x1p20;
        bool large = mib >= 1024;
        printf("  %-27s %-9s %-8s %-4s %8.*f %s\n", safe_of(text_of(m->spec.id)).at,
               model_kind_name(m->plan->facts.kind), facts_held(&m->plan->facts),
               loaded->devices.count > 1 ? m->label : m->device->api->name, large ? 2 : 0,
               large ? mib / 1024 : mib, large ? "GiB" : "MiB");
    }
}

// Prints where the key is; prints the key itself only if it was generated here.
static void key_source_print(const struct ready_args *args)
{
    if (args->keys->made)
        printf("API key: %s\n", args->keys->list.at[0]);
    else if (args->settings->api_keys.count > 0)
        puts("API key: set with --api-key; replace KEY below by it");
    else if (args->settings->admin_keys.count > 0)
        puts("API key: set with --admin-key; replace KEY below by it");
    else if (args->settings->api_key_file)
        safe_line(stdout, "API key: a line of %s", args->settings->api_key_file);
    else
        puts("API key: the value of WEFT_API_KEY");
}

// Appends shell text that expands to the key that the operator gave.
static void key_put(struct json_buffer *out, const struct ready_args *args)
{
    const struct serve_settings *settings = args->settings;
    if (settings->api_keys.count + settings->admin_keys.count > 0) {
        json_put_literal(out, "KEY");
    } else if (settings->api_key_file) {
        json_put_literal(out, "$(grep -m1 '^[!-\"$-~]' ");
        quoted_put(out, text_of(settings->api_key_file));
        json_put_literal(out, " | tr -d '\\r')");
    } else {
        json_put_literal(out, "$WEFT_API_KEY");
    }
}

// Prints the key. A generated key is printed directly from its memory, because a copy would have to
// be wiped too.
static void key_print(const struct ready_args *args, struct text given)
{
    if (args->keys->made)
        fputs(args->keys->list.at[0], stdout);
    else
        fputs(safe_of(given).at, stdout);
}

// The sample request to paste: for the first model that chats, else the first embedder, else the
// first reranker.
struct ready_line {
    enum model_kind kind;
    const char *path, *fields;
};
static const struct ready_line lines[] = {
    {MODEL_GENERATOR, "chat/completions",
     "\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"max_tokens\":64"},
    {MODEL_EMBEDDER, "embeddings", "\"input\":\"The loom is warm.\""},
    {MODEL_RERANKER, "rerank",
     "\"query\":\"warm wool\",\"documents\":[\"Wool is warm.\",\"Cold sea.\"]"},
};

static const struct loaded_model *model_of_kind(const struct loaded *loaded, enum model_kind kind)
{
    for (uint32_t i = 0; i < loaded->model_count; i++)
        if (loaded->models[i].plan->facts.kind == kind)
            return &loaded->models[i];
    return NULL;
}

static void line_print(const struct ready_args *args)
{
    const struct ready_line *sample = lines;
    const struct loaded_model *model = model_of_kind(args->loaded, sample->kind);
    while (!model)
        model = model_of_kind(args->loaded, (++sample)->kind);
    struct json_buffer key = {0}, body = {0}, line = {0};
    if (!args->keys->made)
        key_put(&key, args);
    json_put_member(&body, "{\"model\":", text_of(model->spec.id));
    json_put_format(&body, ",%s}", sample->fields);
    json_put_literal(&line, "curl ");
    address_put(&line, args);
    json_put_format(&line, "/v1/%s -H \"Authorization: Bearer ", sample->path);
    fputs(safe_of(json_buffer_text(&line)).at, stdout);
    key_print(args, json_buffer_text(&key));
    line.bytes = 0;
    json_put_literal(&line, "\" -H 'Content-Type: application/json' -d ");
    quoted_put(&line, json_buffer_text(&body));
    safe_line(stdout, "%.*s", (int)line.bytes, line.at);
    json_buffer_free(&key);
    json_buffer_free(&body);
    json_buffer_free(&line);
}

void ready_print(const struct ready_args *args)
{
    page_print(args);
    key_source_print(args);
    models_print(args->loaded);
    line_print(args);
    fflush(stdout);
}
