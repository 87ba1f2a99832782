// SPDX-License-Identifier: Apache-2.0
// Parser of server-sent events (WHATWG HTML, 9.2.6): bytes in pieces of any size become events.
// Fields other than data are read and dropped. Lines end with LF, CR or CRLF.
#pragma once

#include "base/json.h"

#include <stdbool.h>

enum { SSE_EVENT_BYTES_MAX = 4 << 20 };

struct sse {
    struct json_buffer line; // incomplete last line
    struct json_buffer data; // data of the current event
    bool has_data;           // true if the event has a data line
    bool after_cr;           // true if the last byte was CR: an LF that follows belongs to it
};

// Handles the data of one event. Returns false if no more bytes are needed.
typedef bool sse_handler(void *context, struct text data);

void sse_reset(struct sse *s); // forgets an incomplete event; keeps the memory
void sse_free(struct sse *s);
// Feeds bytes. Returns false if the handler did, or if an event exceeds SSE_EVENT_BYTES_MAX.
bool sse_feed(struct sse *s, struct text bytes, sse_handler *handle, void *context);
// Handles an event that no empty line ended, as some servers end their last one.
void sse_end(struct sse *s, sse_handler *handle, void *context);
