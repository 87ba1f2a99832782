// A tiny blocking HTTP/1.1 client for tests: raw sockets, no library in between, so that a test
// sees every byte. Waits at most 20 s for anything, then fails the read.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct http_client {
    int fd;
    char *at; // bytes received and not consumed
    size_t bytes, room;
    bool head_known; // of the answer being read
    int status;
    bool chunked, closes; // "Connection: close", or a body that only a close ends
    uint64_t left;        // of a body with a length
    char *head;           // status line and headers, NUL-terminated; until the next answer
};

struct http_answer {
    int status;
    bool complete; // the body ended as announced
    char *head;    // NUL-terminated
    char *body;    // NUL-terminated
    size_t body_bytes;
};

bool http_client_open(struct http_client *client, uint32_t port); // to 127.0.0.1
// As http_client_open, with a receive buffer of so many bytes.
bool http_client_open_small(struct http_client *client, uint32_t port, int receive_bytes);
void http_client_close(struct http_client *client);

bool http_client_send(struct http_client *client, const void *bytes, size_t count);
// headers: "name: value\r\n" lines or NULL. Host and, where body is not NULL, Content-Length are
// added.
bool http_client_request(struct http_client *client, const char *method, const char *path,
                         const char *headers, const char *body);

// One whole answer; free with http_answer_free. false: nothing, or no head, came.
bool http_client_answer(struct http_client *client, struct http_answer *out);
bool http_client_answer_head(struct http_client *client, struct http_answer *out); // to HEAD
void http_answer_free(struct http_answer *answer);

// Streams: the head alone, then pieces of the decoded body. 0: the body ended; -1: it broke.
bool http_client_head(struct http_client *client);
int http_client_piece(struct http_client *client, char *out, size_t room);
// Reads the decoded body until it holds the text; false: it ended without. Keeps nothing.
bool http_client_until(struct http_client *client, const char *text);

// True: the peer closes within so many milliseconds, with nothing more to read.
bool http_client_closed(struct http_client *client, int ms);

// Value of a header in a head, copied; false: not there.
bool http_header(const char *head, const char *name, char *out, size_t room);

// Connects, asks, reads, closes.
bool http_once(uint32_t port, const char *method, const char *path, const char *headers,
               const char *body, struct http_answer *out);
