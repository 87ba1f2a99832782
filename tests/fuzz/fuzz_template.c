// SPDX-License-Identifier: Apache-2.0
// Hostile chat templates: the input is a template, rendered over a fixed conversation with small
// limits. Nothing may crash, leak or run without end.
#include "base/arena.h"
#include "runtime/text/chat.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static const char conversation[] =
    "{\"s\": \"Hello, W\\u00f6rld \", \"n\": 7, \"f\": 2.5, \"b\": true, \"no\": null,"
    " \"l\": [3, 1, 2], \"d\": {\"k\": 1, \"items\": [2]}, \"bos_token\": \"<s>\","
    " \"messages\": [{\"role\": \"user\", \"content\": \"Hi <|im_end|>\"},"
    " {\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{\"id\": \"a\"}]}],"
    " \"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f\"}}]}";

static const char *const trusted[] = {"bos_token"};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct chat_template *chat = NULL;
    struct error err = {0};
    struct text source = {(const char *)data, bytes};
    if (chat_template_create(&chat, source, &err) != STATUS_OK)
        return 0;
    json_t *variables = json_loads(conversation, 0, NULL);
    struct arena *arena = arena_create(4096, 8u * 1024 * 1024);
    struct chat_output out;
    const struct chat_input in = {.variables = variables,
                                  .trusted = trusted,
                                  .trusted_count = 1,
                                  .now = 1752148800,
                                  .limits = {.steps_max = 200000, .output_bytes_max = 1u << 20}};
    if (chat_render(chat, &in, arena, &out, &err) == STATUS_OK) {
        size_t sum = 0;
        for (uint32_t i = 0; i < out.segment_count; i++)
            sum += out.segments[i].text.bytes;
        if (sum != out.text.bytes)
            abort();
    }
    arena_destroy(arena);
    json_decref(variables);
    chat_template_destroy(chat);
    return 0;
}
