// SPDX-License-Identifier: Apache-2.0
// Parser of server-sent events (WHATWG HTML, 9.2.6): it assembles events from pieces of any size.
// Fields other than data are ignored. Lines end with LF, CR or CRLF. One thread per parser.
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

// Handles the data of one event, valid during the call. Returns false to stop.
typedef bool sse_handler(void *context, struct text data);

void sse_reset(struct sse *s); // forgets an incomplete event; keeps the memory
void sse_free(struct sse *s);
// Parses bytes and calls the handler for each complete event. Returns false if the handler did, or
// if an event exceeds SSE_EVENT_BYTES_MAX; only sse_reset or sse_free may follow.
bool sse_feed(struct sse *s, struct text bytes, sse_handler *handle, void *context);
// Handles a last event that is not followed by an empty line, which some servers omit.
void sse_end(struct sse *s, sse_handler *handle, void *context);
