// Framing of server-sent events: one line of JSON behind "data: ". Pure.
#pragma once

#include "base/json.h"

// "data: ", or "event: NAME" and "data: ", so that a writer can append one line of JSON.
void sse_begin(struct json_buffer *out, const char *event); // NULL: no event line
void sse_end(struct json_buffer *out);
void sse_comment(struct json_buffer *out, const char *comment); // ": keep-alive"
void sse_done(struct json_buffer *out);                         // data: [DONE]
