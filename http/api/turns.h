// Reads the messages of a request into a conversation, which copies their strings. One function for
// each request shape. Runs in on_prepare.
#pragma once

#include "http/api/conversation.h"

// Chat completions. Sets c->continued if the last message has "prefix": true.
void chat_turns_read(struct conversation *c, struct fields *f);

// Responses: `instructions` and `input`.
void responses_turns_read(struct conversation *c, struct fields *f);

// Messages, with the top-level `system`. Sets c->continued if the last message is an assistant's.
void messages_turns_read(struct conversation *c, struct fields *f);
