// Lines to paste; see curl.h. Main thread, at the start.
#include "cli/curl.h"

#include "base/json.h"
#include "base/safe.h"

#include <string.h>

// Appends a text in single quotes, as a shell reads it.
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

// What stands in the lines for a key that the operator gave: where it is.
static void key_put(struct json_buffer *out, const struct curl_args *args)
{
    const struct serve_settings *settings = args->settings;
    if (settings->api_keys.count > 0) {
        json_put_literal(out, "KEY");
        printf("In these lines KEY stands for the key given with --api-key:\n");
    } else if (settings->api_key_file) {
        json_put_literal(out, "$(grep -m1 '^[!-\"$-~]' ");
        quoted_put(out, text_of(settings->api_key_file));
        json_put_literal(out, " | tr -d '\\r')");
    } else {
        json_put_literal(out, "$WEFT_API_KEY");
    }
}

// A key that was made here is printed, from the place that is wiped later and through no other.
static void key_print(const struct curl_args *args, struct text given)
{
    if (args->keys->made)
        fputs(args->keys->list.at[0], stdout);
    else
        fputs(safe_of(given).at, stdout);
}

static void line_print(const struct curl_args *args, struct text key, enum model_kind kind,
                       const char *path, const char *header, const char *fields)
{
    const struct serve_settings *settings = args->settings;
    const struct served_model *model = NULL;
    for (uint32_t i = 0; i < args->served->count && !model; i++)
        if (args->served->models[i].facts->kind == kind)
            model = &args->served->models[i];
    if (!model)
        return;
    struct json_buffer body = {0}, line = {0};
    json_put_literal(&body, "{\"model\":");
    json_put_string(&body, text_of(model->id));
    json_put_format(&body, ",%s}", fields);
    bool v6 = strchr(settings->host, ':') != NULL;
    json_put_format(&line, "curl %s://%s%s%s:%u/v1/%s -H \"%s",
                    settings->ssl_certfile ? "https" : "http", v6 ? "[" : "", settings->host,
                    v6 ? "]" : "", args->port, path, header);
    fputs(safe_of(text_span(line.at, line.bytes)).at, stdout);
    key_print(args, key);
    line.bytes = 0;
    json_put_literal(&line, "\" -H 'Content-Type: application/json' -d ");
    quoted_put(&line, text_span(body.at, body.bytes));
    safe_line(stdout, "%.*s", (int)line.bytes, line.at);
    json_buffer_free(&body);
    json_buffer_free(&line);
}

void curl_print(const struct curl_args *args)
{
    static const char hello[] = "\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}],"
                                "\"max_tokens\":32";
    static const char bearer[] = "Authorization: Bearer ";
    struct json_buffer key_text = {0};
    if (!args->keys->made)
        key_put(&key_text, args);
    struct text key = text_span(key_text.at, key_text.bytes);
    line_print(args, key, MODEL_GENERATOR, "chat/completions", bearer, hello);
    line_print(args, key, MODEL_GENERATOR, "messages", "x-api-key: ", hello);
    line_print(args, key, MODEL_EMBEDDER, "embeddings", bearer,
               "\"input\":[\"The loom is warm.\",\"A thread of wool.\"]");
    line_print(args, key, MODEL_RERANKER, "rerank", bearer,
               "\"query\":\"warm wool\",\"documents\":[\"A thread of wool is warm.\","
               "\"The sea is cold.\"]");
    json_buffer_free(&key_text);
    fflush(stdout);
}
