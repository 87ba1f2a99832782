// SPDX-License-Identifier: Apache-2.0
// Refuses requests whose end can be interpreted in two ways (request smuggling), and checks the
// value of Host. Pure, no h2o type.
#pragma once

#include "base/text.h"

// Checks the head of an HTTP/1 request. head: from the first line to the blank line; more bytes may
// follow. minor: minor version of HTTP/1. Returns NULL if it is valid, else an error sentence.
const char *framing_fault(struct text head, int minor);

// Returns true if the value of Host or :authority is a host with an optional port (RFC 9110, 7.2),
// or empty.
bool host_is_valid(struct text host);
extern const char host_fault[]; // the error sentence for an invalid host

// Returns true if libh2o has called the decoder of chunked.c on this thread, so chunked bodies are
// parsed strictly.
bool chunked_is_strict(void);
