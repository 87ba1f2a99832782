// SPDX-License-Identifier: Apache-2.0
// Conversations of all three APIs: the first byte chooses the API, the rest is the body. A body is
// refused with a path and a sentence, or every message has a role and a content.
#include "http/api/conversation.h"

#include "base/json.h"
#include "base/status.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void messages_check(const struct conversation *c)
{
    size_t i;
    json_t *message;
    json_array_foreach(c->messages, i, message)
    {
        check(json_is_string(json_object_get(message, "role")), "message %zu has no role", i);
        check(json_is_string(json_object_get(message, "content")), "message %zu has no content", i);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static void (*const readers[])(struct conversation *c, struct fields *f) = {
        chat_turns_read, messages_turns_read, responses_turns_read};
    json_t *body;
    struct error err;
    if (bytes == 0 ||
        json_parse(&body, text_span((const char *)data + 1, bytes - 1), &err) != STATUS_OK)
        return 0;
    struct arena *arena = arena_create(0, 0);
    struct fields fields;
    struct conversation conversation;
    unsigned kind = data[0] % 3;
    fields_init(&fields, arena, kind == 1 ? SHAPE_MESSAGES : SHAPE_OPENAI, body);
    conversation_begin(&conversation, NULL);
    if (!fields.failed)
        readers[kind](&conversation, &fields);
    check(!fields.failed || fields.failure.message.bytes > 0, "a failure without a sentence");
    if (!fields.failed) {
        messages_check(&conversation);
        conversation_wrap_arguments(&conversation);
        messages_check(&conversation);
    }
    conversation_end(&conversation);
    json_decref(body);
    arena_destroy(arena);
    return 0;
}
