// SPDX-License-Identifier: Apache-2.0
// A blocking HTTP/2 client for tests, frame by frame over a raw socket, so that a test sees and
// sends every byte. A read fails after two minutes.
#pragma once

#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    FRAME_DATA,
    FRAME_HEADERS,
    FRAME_RST_STREAM = 3,
    FRAME_SETTINGS,
    FRAME_PING = 6,
    FRAME_GOAWAY,
    END_STREAM = 1,
    END_HEADERS = 4,
};

struct frame {
    uint32_t bytes, stream;
    uint8_t type, flags;
    unsigned char payload[70000];
};

int h2_open(uint32_t port); // connects to 127.0.0.1 and sends preface and SETTINGS; -1: failed
bool frame_read(int fd, struct frame *out);
// Reads up to the next frame of a type (and of a stream, if stream is not 0).
bool frame_wait(int fd, uint8_t type, uint32_t stream, struct frame *out);
bool frame_send(int fd, uint8_t type, uint8_t flags, uint32_t stream, struct text payload);
// Writes a header without compression to `at`; returns its bytes. Names and values below 127 bytes.
size_t literal_put(unsigned char *at, const char *name, const char *value);
int status_of(const struct frame *headers); // returns the status of a response
bool peer_closes(int fd); // reads until the peer closes; returns false if it does not
