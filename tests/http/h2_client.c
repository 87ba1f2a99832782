// SPDX-License-Identifier: Apache-2.0
// Implements h2_client.h.
#include "tests/http/h2_client.h"

#include "tests/http/http_client.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { WAIT_MS = 120000 };

static bool bytes_read(int fd, void *out, size_t bytes)
{
    char *at = out;
    while (bytes > 0) {
        struct pollfd wanted = {.fd = fd, .events = POLLIN};
        if (poll(&wanted, 1, WAIT_MS) != 1)
            return false;
        ssize_t got = recv(fd, at, bytes, 0);
        if (got <= 0)
            return false;
        at += got;
        bytes -= (size_t)got;
    }
    return true;
}

bool frame_read(int fd, struct frame *out)
{
    unsigned char head[9];
    if (!bytes_read(fd, head, sizeof head))
        return false;
    out->bytes = (uint32_t)head[0] << 16 | (uint32_t)head[1] << 8 | head[2];
    out->type = head[3];
    out->flags = head[4];
    out->stream =
        (uint32_t)head[5] << 24 | (uint32_t)head[6] << 16 | (uint32_t)head[7] << 8 | head[8];
    return out->bytes <= sizeof out->payload && bytes_read(fd, out->payload, out->bytes);
}

bool frame_wait(int fd, uint8_t type, uint32_t stream, struct frame *out)
{
    while (frame_read(fd, out))
        if (out->type == type && (stream == 0 || out->stream == stream))
            return true;
    return false;
}

bool frame_send(int fd, uint8_t type, uint8_t flags, uint32_t stream, struct text payload)
{
    unsigned char head[9] = {(unsigned char)(payload.bytes >> 16),
                             (unsigned char)(payload.bytes >> 8),
                             (unsigned char)payload.bytes,
                             type,
                             flags,
                             0,
                             0,
                             (unsigned char)(stream >> 8),
                             (unsigned char)stream};
    return send(fd, head, sizeof head, MSG_NOSIGNAL) == sizeof head &&
           send(fd, payload.at, payload.bytes, MSG_NOSIGNAL) == (ssize_t)payload.bytes;
}

size_t literal_put(unsigned char *at, const char *name, const char *value)
{
    size_t name_bytes = strlen(name), value_bytes = strlen(value);
    at[0] = 0; // never indexed by name, no Huffman
    at[1] = (unsigned char)name_bytes;
    memcpy(at + 2, name, name_bytes);
    at[2 + name_bytes] = (unsigned char)value_bytes;
    memcpy(at + 3 + name_bytes, value, value_bytes);
    return 3 + name_bytes + value_bytes;
}

int h2_open(uint32_t port)
{
    struct http_client client;
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    if (!http_client_open(&client, port))
        return -1;
    http_client_send(&client, preface, sizeof preface - 1);
    frame_send(client.fd, FRAME_SETTINGS, 0, 0, text_of(""));
    return client.fd;
}

// h2o sends the status as an index of the static table or as a literal.
int status_of(const struct frame *headers)
{
    static const int table[] = {200, 204, 206, 304, 400, 404, 500};
    const unsigned char *p = headers->payload;
    if (p[0] >= 0x88 && p[0] <= 0x8e)
        return table[p[0] - 0x88];
    if ((p[0] & 0x3f) == 8 && p[1] == 3)
        return atoi((char[4]){(char)p[2], (char)p[3], (char)p[4], 0});
    return -1;
}

bool peer_closes(int fd)
{
    static struct frame frame;
    while (frame_read(fd, &frame))
        continue;
    char byte;
    struct pollfd wanted = {.fd = fd, .events = POLLIN};
    return poll(&wanted, 1, 0) == 1 && recv(fd, &byte, 1, 0) <= 0;
}
