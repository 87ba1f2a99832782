// SPDX-License-Identifier: Apache-2.0
// Conversations turn by turn; see conversation.h. Pure but for the memory of the messages.
#include "loadgen/conversation.h"

#include <string.h>

static bool is_role(const json_t *message, const char *role)
{
    const char *own = json_string_value(json_object_get(message, "role"));
    return own && strcmp(own, role) == 0;
}

// Appends messages up to the next one of a user. Returns false if there is none.
static bool user_append(struct bench_conversation *c)
{
    const json_t *all = c->item->messages;
    while (c->next < json_array_size(all)) {
        json_t *message = json_array_get(all, c->next++);
        if (!is_role(message, "assistant"))
            json_array_append(c->messages, message);
        if (is_role(message, "user"))
            return true;
    }
    return false;
}

void bench_conversation_begin(struct bench_conversation *c, const struct bench_item *item)
{
    bench_conversation_end(c);
    *c = (struct bench_conversation){.item = item, .messages = json_array()};
    if (item->text)
        json_array_append_new(c->messages,
                              json_pack("{s:s, s:s}", "role", "user", "content", item->text));
    else
        (void)user_append(c);
}

bool bench_conversation_next(struct bench_conversation *c, struct text answer)
{
    if (!c->item || c->item->text)
        return false;
    json_t *content = json_stringn(answer.bytes > 0 ? answer.at : "", answer.bytes);
    json_array_append_new(c->messages,
                          json_pack("{s:s, s:o}", "role", "assistant", "content", content));
    c->turn++;
    return user_append(c);
}

void bench_conversation_end(struct bench_conversation *c)
{
    json_decref(c->messages);
    *c = (struct bench_conversation){0};
}
