// SPDX-License-Identifier: Apache-2.0
// Protection against request smuggling (RFC 9112, 11.2): refuses requests whose end a reverse proxy
// may see at another byte than libh2o: two lengths, folded lines, a Host that is missing, invalid
// or repeated. libh2o uses one of the headers and drops the others from its list; the raw head is
// still in the connection's buffer when the handler is called. Chunks: chunked.c.
#include "http/framing.h"

#include <ctype.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

const char head_fault[] =
    "The headers of a request, trailers included, may have at most 100 lines and 417,792 bytes.";
const char host_fault[] = "The header 'Host' must be a host, with a port or without.";

struct head {
    struct text length; // the first Content-Length
    uint32_t lines, lengths, codings, hosts;
    bool lengths_differ, folded, host_is_wrong;
};

static bool is_of(struct text in, const char *letters)
{
    for (size_t i = 0; i < in.bytes; i++) {
        unsigned char c = (unsigned char)in.at[i];
        if (!isalnum(c) && (c == '\0' || !strchr(letters, c)))
            return false;
    }
    return true;
}

bool host_is_valid(struct text host)
{
    bool literal = host.bytes > 0 && host.at[0] == '[';
    const char *end = literal ? memchr(host.at, ']', host.bytes) : NULL;
    const char *from = literal ? end : host.at;
    if (host.bytes == 0 || !from)
        return host.bytes == 0;
    const char *colon = memchr(from, ':', (size_t)(host.at + host.bytes - from));
    size_t bytes = colon ? (size_t)(colon - host.at) : host.bytes;
    for (size_t i = bytes + 1; i < host.bytes; i++)
        if (!isdigit((unsigned char)host.at[i]))
            return false;
    if (!literal)
        return bytes > 0 && is_of(text_span(host.at, bytes), "-._~%!$&'()*+,;=");
    return bytes > 2 && end == host.at + bytes - 1 &&
           is_of(text_span(host.at + 1, bytes - 2), ":.-_~");
}

// Returns true if the line is a header of this name, and stores its value.
static bool is_header(struct text line, const char *name, struct text *value)
{
    size_t bytes = strlen(name);
    if (line.bytes <= bytes || strncasecmp(line.at, name, bytes) != 0 || line.at[bytes] != ':')
        return false;
    *value = text_trim(text_span(line.at + bytes + 1, line.bytes - bytes - 1));
    return true;
}

// Removes the next line from the head and returns it without its line end; empty after the last
// one.
static struct text line_pop(struct text *head)
{
    const char *end = memchr(head->at, '\n', head->bytes);
    size_t bytes = end ? (size_t)(end - head->at) : head->bytes;
    struct text line = text_span(head->at, bytes);
    bytes += end != NULL;
    *head = text_span(head->at + bytes, head->bytes - bytes);
    if (line.bytes > 0 && line.at[line.bytes - 1] == '\r')
        line.bytes--;
    return line;
}

static void line_read(struct head *out, struct text line)
{
    struct text value;
    out->lines++;
    out->folded = out->folded || line.at[0] == ' ' || line.at[0] == '\t';
    if (is_header(line, "host", &value)) {
        out->hosts++;
        out->host_is_wrong = out->host_is_wrong || !host_is_valid(value);
    }
    out->codings += is_header(line, "transfer-encoding", &value);
    if (!is_header(line, "content-length", &value))
        return;
    out->lengths_differ =
        out->lengths_differ || (out->lengths > 0 && !text_equal(out->length, value));
    out->length = value;
    out->lengths++;
}

const char *framing_fault(struct text text, int minor, bool body_read)
{
    struct head head = {0};
    struct trailers trailers = chunked_trailers_pop();
    size_t all = text.bytes;
    struct text line = line_pop(&text);
    while (text.bytes > 0 && line.bytes == 0) // blank lines before the request line are ignored
        line = line_pop(&text);
    while (text.bytes > 0 && (line = line_pop(&text)).bytes > 0)
        line_read(&head, line);
    size_t bytes = all - text.bytes;
    if (head.lengths_differ || head.codings > 1 || (head.codings > 0 && head.lengths > 0))
        return "The request states its length in two ways: send one Content-Length or one "
               "Transfer-Encoding.";
    if (head.folded)
        return "A header continues on a second line: send each header on one line.";
    if (head.codings > 0 && minor == 0)
        return "HTTP/1.0 has no Transfer-Encoding: send a Content-Length.";
    if (head.codings > 0 && body_read && !chunked_is_strict())
        return "Chunked bodies are not accepted here: send a Content-Length.";
    if (head.codings > 0 &&
        (head.lines + trailers.lines > HEAD_LINES_MAX || bytes + trailers.bytes > HEAD_BYTES_MAX))
        return head_fault;
    if (head.hosts > 1 || (head.hosts == 0 && minor > 0))
        return "The header 'Host' must be sent exactly once.";
    return head.host_is_wrong ? host_fault : NULL;
}
