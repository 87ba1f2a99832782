// SPDX-License-Identifier: Apache-2.0
// Implements http_client.h. One thread per client.
#include "tests/http/http_client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

enum { WAIT_MS = 120000, READ_BYTES = 65536 };

bool http_client_open_small(struct http_client *client, uint32_t port, int receive_bytes)
{
    int on = 1;
    *client = (struct http_client){.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (receive_bytes > 0)
        setsockopt(client->fd, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof receive_bytes);
    setsockopt(client->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (connect(client->fd, (struct sockaddr *)&address, sizeof address) == 0)
        return true;
    close(client->fd);
    client->fd = -1;
    return false;
}

bool http_client_open(struct http_client *client, uint32_t port)
{
    return http_client_open_small(client, port, 0);
}

void http_client_close(struct http_client *client)
{
    if (client->fd >= 0)
        close(client->fd);
    free(client->at);
    free(client->head);
    *client = (struct http_client){.fd = -1};
}

bool http_client_send(struct http_client *client, const void *bytes, size_t count)
{
    const char *at = bytes;
    while (count > 0) {
        ssize_t sent = send(client->fd, at, count, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return false;
        at += sent;
        count -= (size_t)sent;
    }
    return true;
}

bool http_client_request(struct http_client *client, const char *method, const char *path,
                         const char *headers, const char *body)
{
    char length[64] = "";
    if (body)
        snprintf(length, sizeof length, "Content-Length: %zu\r\n", strlen(body));
    const char *format = "%s %s HTTP/1.1\r\nHost: test\r\n%s%s\r\n";
    const char *lines = headers ? headers : "";
    int bytes = snprintf(NULL, 0, format, method, path, lines, length);
    char *head = malloc((size_t)bytes + 1);
    snprintf(head, (size_t)bytes + 1, format, method, path, lines, length);
    bool sent = http_client_send(client, head, (size_t)bytes);
    free(head);
    return sent && (!body || http_client_send(client, body, strlen(body)));
}

// > 0: bytes came; 0: the peer closed; -1: an error, or nothing came in time.
static int receive(struct http_client *client)
{
    struct pollfd wanted = {.fd = client->fd, .events = POLLIN};
    if (poll(&wanted, 1, WAIT_MS) != 1)
        return -1;
    if (client->room - client->bytes < READ_BYTES) {
        client->room = client->bytes + 2 * READ_BYTES;
        client->at = realloc(client->at, client->room);
    }
    ssize_t got = recv(client->fd, client->at + client->bytes, READ_BYTES, 0);
    if (got > 0)
        client->bytes += (size_t)got;
    return got > 0 ? 1 : (int)got;
}

static void consume(struct http_client *client, size_t bytes)
{
    memmove(client->at, client->at + bytes, client->bytes - bytes);
    client->bytes -= bytes;
}

bool http_header(const char *head, const char *name, char *out, size_t room)
{
    size_t bytes = strlen(name);
    for (const char *line = strstr(head, "\r\n"); line; line = strstr(line, "\r\n")) {
        line += 2;
        if (strncasecmp(line, name, bytes) != 0 || line[bytes] != ':')
            continue;
        const char *value = line + bytes + 1;
        value += strspn(value, " \t");
        size_t value_bytes = strcspn(value, "\r");
        snprintf(out, room, "%.*s", (int)value_bytes, value);
        return true;
    }
    return false;
}

static char *head_end(const struct http_client *client)
{
    return client->bytes > 0 ? memmem(client->at, client->bytes, "\r\n\r\n", 4) : NULL;
}

bool http_client_head(struct http_client *client)
{
    char *end;
    while (!(end = head_end(client)))
        if (receive(client) <= 0)
            return false;
    size_t bytes = (size_t)(end - client->at) + 4;
    free(client->head);
    client->head = strndup(client->at, bytes);
    consume(client, bytes);
    if (sscanf(client->head, "HTTP/1.%*d %d", &client->status) != 1)
        return false;
    if (client->status == 100)
        return http_client_head(client);
    char value[64];
    client->head_known = true;
    client->chunked = http_header(client->head, "transfer-encoding", value, sizeof value);
    client->closes = http_header(client->head, "connection", value, sizeof value) &&
                     strcasecmp(value, "close") == 0;
    client->left = UINT64_MAX;
    if (http_header(client->head, "content-length", value, sizeof value))
        client->left = strtoull(value, NULL, 10);
    if (client->status == 204)
        client->left = 0;
    return true;
}

// Size of the next chunk, -1 if the framing is broken.
static int64_t chunk_begin(struct http_client *client)
{
    char *end;
    while (client->bytes == 0 || !(end = memmem(client->at, client->bytes, "\r\n", 2)))
        if (receive(client) <= 0)
            return -1;
    char *stop;
    long size = strtol(client->at, &stop, 16);
    if (stop == client->at || size < 0)
        return -1;
    consume(client, (size_t)(end - client->at) + 2);
    return size;
}

static bool crlf_take(struct http_client *client)
{
    while (client->bytes < 2)
        if (receive(client) <= 0)
            return false;
    bool fine = memcmp(client->at, "\r\n", 2) == 0;
    consume(client, 2);
    return fine;
}

static int bytes_take(struct http_client *client, char *out, size_t room)
{
    size_t bytes = client->bytes < room ? client->bytes : room;
    memcpy(out, client->at, bytes);
    consume(client, bytes);
    return (int)bytes;
}

static int piece_chunked(struct http_client *client, char *out, size_t room)
{
    if (client->left == UINT64_MAX) {
        int64_t size = chunk_begin(client);
        if (size <= 0)
            return size == 0 && crlf_take(client) ? 0 : -1;
        client->left = (uint64_t)size;
    }
    if (client->bytes == 0 && receive(client) <= 0)
        return -1;
    int bytes = bytes_take(client, out, client->left < room ? (size_t)client->left : room);
    client->left -= (uint64_t)bytes;
    if (client->left > 0)
        return bytes;
    client->left = UINT64_MAX;
    return crlf_take(client) ? bytes : -1;
}

int http_client_piece(struct http_client *client, char *out, size_t room)
{
    if (client->chunked)
        return piece_chunked(client, out, room);
    if (client->left == 0)
        return 0;
    if (client->bytes == 0) {
        int got = receive(client);
        if (got <= 0)
            return got == 0 && client->left == UINT64_MAX ? 0 : -1;
    }
    int bytes = bytes_take(client, out, client->left < room ? (size_t)client->left : room);
    if (client->left != UINT64_MAX)
        client->left -= (uint64_t)bytes;
    return bytes;
}

static bool answer_read(struct http_client *client, struct http_answer *out, bool body)
{
    *out = (struct http_answer){0};
    if (!http_client_head(client))
        return false;
    out->status = client->status;
    out->head = strdup(client->head);
    size_t room = READ_BYTES;
    out->body = malloc(room);
    int got = body ? 1 : 0;
    while (got > 0) {
        if (room - out->body_bytes < READ_BYTES / 2)
            out->body = realloc(out->body, room *= 2);
        got = http_client_piece(client, out->body + out->body_bytes, room - out->body_bytes - 1);
        out->body_bytes += got > 0 ? (size_t)got : 0;
    }
    out->body[out->body_bytes] = '\0';
    out->complete = got == 0;
    return true;
}

bool http_client_answer(struct http_client *client, struct http_answer *out)
{
    return answer_read(client, out, true);
}

bool http_client_answer_head(struct http_client *client, struct http_answer *out)
{
    return answer_read(client, out, false);
}

void http_answer_free(struct http_answer *answer)
{
    free(answer->head);
    free(answer->body);
    *answer = (struct http_answer){0};
}

bool http_client_until(struct http_client *client, const char *text)
{
    char seen[8192];
    size_t bytes = 0, wanted = strlen(text);
    for (;;) {
        int got = http_client_piece(client, seen + bytes, sizeof seen - bytes);
        if (got <= 0)
            return false;
        bytes += (size_t)got;
        if (memmem(seen, bytes, text, wanted))
            return true;
        if (bytes > sizeof seen / 2) { // keep what may be the beginning of the text
            memmove(seen, seen + bytes - wanted, wanted);
            bytes = wanted;
        }
    }
}

bool http_client_closed(struct http_client *client, int ms)
{
    struct pollfd wanted = {.fd = client->fd, .events = POLLIN};
    if (poll(&wanted, 1, ms) != 1)
        return false;
    char byte;
    return recv(client->fd, &byte, 1, 0) <= 0;
}

bool http_once(uint32_t port, const char *method, const char *path, const char *headers,
               const char *body, struct http_answer *out)
{
    struct http_client client;
    *out = (struct http_answer){0};
    if (!http_client_open(&client, port))
        return false;
    bool fine = http_client_request(&client, method, path, headers, body) &&
                (strcmp(method, "HEAD") == 0 ? http_client_answer_head(&client, out)
                                             : http_client_answer(&client, out));
    http_client_close(&client);
    return fine;
}
