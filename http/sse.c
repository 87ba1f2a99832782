// See sse.h. JSON strings are escaped by json_put_escaped, which leaves no line end inside data.
#include "http/sse.h"

void sse_begin(struct json_buffer *out, const char *event)
{
    if (event) {
        json_put_literal(out, "event: ");
        json_put_literal(out, event);
        json_put_literal(out, "\n");
    }
    json_put_literal(out, "data: ");
}

void sse_end(struct json_buffer *out)
{
    json_put_literal(out, "\n\n");
}

void sse_comment(struct json_buffer *out, const char *comment)
{
    json_put_literal(out, ": ");
    json_put_literal(out, comment);
    json_put_literal(out, "\n\n");
}

void sse_done(struct json_buffer *out)
{
    json_put_literal(out, "data: [DONE]\n\n");
}
