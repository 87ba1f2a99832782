// SPDX-License-Identifier: Apache-2.0
// A tiny blocking HTTP/1.1 client for tests: raw sockets without a library, so that a test sees
// every byte. A read fails after 20 s.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct http_client {
    int fd;
    char *at; // received bytes not yet consumed
    size_t bytes, room;
    bool head_known; // true if the head of the current response was read
    int status;
    bool chunked, closes; // closes: "Connection: close", or a body that ends with the connection
    uint64_t left;        // remaining bytes of a body with a length
    char *head;           // status line and headers, NUL-terminated; valid until the next response
};

struct http_answer {
    int status;
    bool complete; // true if the body ended as announced
    char *head;    // NUL-terminated
    char *body;    // NUL-terminated
    size_t body_bytes;
};

bool http_client_open(struct http_client *client, uint32_t port); // to 127.0.0.1
// Opens a connection with a receive buffer of receive_bytes.
bool http_client_open_small(struct http_client *client, uint32_t port, int receive_bytes);
void http_client_close(struct http_client *client);

bool http_client_send(struct http_client *client, const void *bytes, size_t count);
// headers: "name: value\r\n" lines or NULL. Adds Host and, if body is not NULL, Content-Length.
bool http_client_request(struct http_client *client, const char *method, const char *path,
                         const char *headers, const char *body);

// Reads a complete response; the caller frees it with http_answer_free. Returns false if no head
// arrives.
bool http_client_answer(struct http_client *client, struct http_answer *out);
bool http_client_answer_head(struct http_client *client, struct http_answer *out); // to HEAD
void http_answer_free(struct http_answer *answer);

// For streams: read the head, then pieces of the decoded body. http_client_piece returns 0 at the
// end of the body, -1 if it broke off.
bool http_client_head(struct http_client *client);
int http_client_piece(struct http_client *client, char *out, size_t room);
// Reads and discards the decoded body until the text appears; returns false if the body ends first.
bool http_client_until(struct http_client *client, const char *text);

// Returns true if the peer closes within this many milliseconds and sends nothing more.
bool http_client_closed(struct http_client *client, int ms);

// Copies the value of a header to out; returns false if the head has no such header.
bool http_header(const char *head, const char *name, char *out, size_t room);

// Connects, sends the request, reads the response, closes.
bool http_once(uint32_t port, const char *method, const char *path, const char *headers,
               const char *body, struct http_answer *out);
