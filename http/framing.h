// SPDX-License-Identifier: Apache-2.0
// Refuses requests whose end can be interpreted in two ways (request smuggling), and checks the
// value of Host. Pure, no h2o type.
#pragma once

#include "base/text.h"

// Checks the head of an HTTP/1 request. head: from the first line, or empty lines before it, to the
// blank line; more bytes may follow. minor: minor version of HTTP/1. body_read: false if the body
// was left out, so that chunks and trailers were not decoded. Returns NULL if it is valid, else an
// error sentence.
const char *framing_fault(struct text head, int minor, bool body_read);

// Returns true if the value of Host or :authority is a host with an optional port (RFC 9110, 7.2),
// or empty.
bool host_is_valid(struct text host);
extern const char host_fault[]; // the error sentence for an invalid host

// Limits of the headers of a request, trailers included: bytes and lines. Those of libh2o.
enum { HEAD_LINES_MAX = 100, HEAD_BYTES_MAX = 8192 + 4096 * HEAD_LINES_MAX };
extern const char head_fault[]; // the error sentence for headers over these limits

// The trailers of the chunked body that the decoder of chunked.c has completed last on this thread.
struct trailers {
    size_t bytes;
    uint32_t lines;
};
struct trailers chunked_trailers_pop(void); // returns them, and forgets them

// Returns true if libh2o has called the decoder of chunked.c on this thread, so chunked bodies are
// parsed strictly.
bool chunked_is_strict(void);
