// SPDX-License-Identifier: Apache-2.0
// A tool for tools/template_diff.py, not a test: renders many templates in one process. Each line
// of stdin is an object {"source", "variables", "now"}. Each line of stdout has either "text" and
// "plain" (pairs of start and end, in bytes, of the request's text), or "status" and "error".
#include "base/arena.h"
#include "base/json.h"
#include "runtime/text/chat.h"

#include <stdio.h>
#include <stdlib.h>

static const char *const trusted[] = {"bos_token", "eos_token"};

static json_t *failure(enum status status, const struct error *err)
{
    return json_pack("{s:s, s:s}", "status", status_name(status), "error", err->text);
}

static json_t *render(const json_t *request, struct arena *arena)
{
    const json_t *source = json_object_get(request, "source");
    struct chat_template *chat = NULL;
    struct chat_output out;
    struct error err = {0};
    enum status status = chat_template_create(
        &chat, text_span(json_string_value(source), json_string_length(source)), &err);
    if (status != STATUS_OK)
        return failure(status, &err);
    const struct chat_input in = {.variables = json_object_get(request, "variables"),
                                  .trusted = trusted,
                                  .trusted_count = 2,
                                  .now = json_integer_value(json_object_get(request, "now"))};
    status = chat_render(chat, &in, arena, &out, &err);
    chat_template_destroy(chat);
    if (status != STATUS_OK)
        return failure(status, &err);
    json_t *plain = json_array();
    for (uint32_t i = 0; i < out.segment_count; i++) {
        json_int_t from = out.segments[i].text.at - out.text.at;
        json_int_t to = from + (json_int_t)out.segments[i].text.bytes;
        if (out.segments[i].plain)
            json_array_append_new(plain, json_pack("[II]", from, to));
    }
    return json_pack("{s:s%, s:o}", "text", out.text.at, out.text.bytes, "plain", plain);
}

int main(void)
{
    char *line = NULL;
    size_t room = 0;
    struct arena *arena = arena_create(0, 256u * 1024 * 1024);
    for (ssize_t bytes; (bytes = getline(&line, &room, stdin)) > 0;) {
        json_t *request = NULL;
        struct error err;
        bool read = json_parse(&request, text_span(line, (size_t)bytes), &err) == STATUS_OK;
        json_t *answer = read ? render(request, arena) : failure(err.status, &err);
        json_dumpf(answer, stdout, JSON_COMPACT);
        putchar('\n');
        fflush(stdout);
        json_decref(answer);
        json_decref(request);
        arena_reset(arena);
    }
    arena_destroy(arena);
    free(line);
    return 0;
}
