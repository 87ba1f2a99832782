// Requests whose end can be read in two ways: two different Content-Lengths, or a Content-Length
// beside a Transfer-Encoding (RFC 9112, 6.1 and 6.3). libh2o takes one of them and drops the others
// from its list of headers, so that a proxy in front may have seen another end; the head itself
// still lies in the connection's buffer when the handler is called. Loop thread.
#include "http/inside.h"

#include <string.h>
#include <strings.h>

static bool is_header(struct text line, const char *name)
{
    size_t bytes = strlen(name);
    return line.bytes > bytes && strncasecmp(line.at, name, bytes) == 0 && line.at[bytes] == ':';
}

// The next line without its end; empty behind the head.
static struct text line_take(struct text *head)
{
    const char *end = memchr(head->at, '\n', head->bytes);
    size_t bytes = end != NULL ? (size_t)(end - head->at) : head->bytes;
    struct text line = text_span(head->at, bytes);
    bytes += end != NULL;
    *head = text_span(head->at + bytes, head->bytes - bytes);
    if (line.bytes > 0 && line.at[line.bytes - 1] == '\r')
        line.bytes--;
    return line;
}

static bool head_is_doubtful(struct text head)
{
    static const char length_name[] = "content-length";
    struct text line, length = {0};
    bool coded = false;
    while (head.bytes > 0 && (line = line_take(&head)).bytes > 0) {
        coded = coded || is_header(line, "transfer-encoding");
        if (!is_header(line, length_name))
            continue;
        size_t name = sizeof length_name; // with its colon
        struct text value = text_trim(text_span(line.at + name, line.bytes - name));
        if (length.at != NULL && !text_equal(length, value))
            return true;
        length = value;
    }
    return coded && length.at != NULL;
}

bool framing_is_doubtful(const h2o_req_t *req)
{
    enum { HTTP_2 = 0x200 }; // has frames instead
    if (req->version >= HTTP_2)
        return false;
    const h2o_socket_t *socket = req->conn->callbacks->get_socket(req->conn);
    return head_is_doubtful(text_span(socket->input->bytes, socket->input->size));
}
