// The conversation of the request shapes, read into a conversation, whose strings are copies. In
// on_prepare.
#pragma once

#include "http/api/conversation.h"

// Chat completions. Sets c->continued where the last message says "prefix": true.
void chat_turns_read(struct conversation *c, struct fields *f);

// Responses: `instructions` and `input`.
void responses_turns_read(struct conversation *c, struct fields *f);

// Messages, with the top-level `system`. An assistant message at the end is to be continued.
void messages_turns_read(struct conversation *c, struct fields *f);
