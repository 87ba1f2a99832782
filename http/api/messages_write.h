// The writer of Messages: an answer as content blocks, whole and as events.
#pragma once

#include "http/api/generation.h"

void messages_put(struct generation *g, enum generation_tell step, struct json_buffer *out);
