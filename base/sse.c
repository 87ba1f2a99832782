// SPDX-License-Identifier: Apache-2.0
// Parser of server-sent events; see sse.h. Pure but for the buffers of the struct.
#include "base/sse.h"

void sse_reset(struct sse *s)
{
    s->line.bytes = s->data.bytes = 0;
    s->has_data = s->after_cr = false;
}

void sse_free(struct sse *s)
{
    json_buffer_free(&s->line);
    json_buffer_free(&s->data);
}

static bool event_dispatch(struct sse *s, sse_handler *handle, void *context)
{
    bool more = !s->has_data || handle(context, json_buffer_text(&s->data));
    s->data.bytes = 0;
    s->has_data = false;
    return more;
}

// Handles one line without its end.
static bool line_handle(struct sse *s, struct text line, sse_handler *handle, void *context)
{
    static const char name[] = "data";
    const size_t head = sizeof name - 1;
    if (line.bytes == 0)
        return event_dispatch(s, handle, context);
    if (line.bytes < head || memcmp(line.at, name, head) != 0 ||
        (line.bytes > head && line.at[head] != ':'))
        return true; // a comment, or another field
    size_t skip = line.bytes == head ? head : head + 1;
    skip += skip < line.bytes && line.at[skip] == ' ';
    if (s->has_data)
        json_put_literal(&s->data, "\n");
    s->has_data = true;
    json_put_raw(&s->data, text_span(line.at + skip, line.bytes - skip));
    return s->data.bytes <= SSE_EVENT_BYTES_MAX;
}

// Returns the offset of the first line end, or the number of bytes.
static size_t line_length(struct text in)
{
    const char *lf = in.bytes > 0 ? memchr(in.at, '\n', in.bytes) : NULL;
    size_t most = lf ? (size_t)(lf - in.at) : in.bytes;
    const char *cr = most > 0 ? memchr(in.at, '\r', most) : NULL;
    return cr ? (size_t)(cr - in.at) : most;
}

bool sse_feed(struct sse *s, struct text bytes, sse_handler *handle, void *context)
{
    while (bytes.bytes > 0) {
        if (s->after_cr && bytes.at[0] == '\n')
            bytes = text_span(bytes.at + 1, bytes.bytes - 1);
        s->after_cr = false;
        size_t length = line_length(bytes);
        struct text line = text_span(bytes.at, length);
        bool ends = length < bytes.bytes;
        if (s->line.bytes > 0 || !ends) {
            json_put_raw(&s->line, line);
            line = json_buffer_text(&s->line);
        }
        if (!ends)
            return s->line.bytes <= SSE_EVENT_BYTES_MAX;
        s->after_cr = bytes.at[length] == '\r';
        s->line.bytes = 0;
        if (!line_handle(s, line, handle, context))
            return false;
        bytes = text_span(bytes.at + length + 1, bytes.bytes - length - 1);
    }
    return true;
}

void sse_end(struct sse *s, sse_handler *handle, void *context)
{
    if (s->line.bytes > 0)
        (void)line_handle(s, json_buffer_text(&s->line), handle, context);
    s->line.bytes = 0;
    (void)event_dispatch(s, handle, context);
}
