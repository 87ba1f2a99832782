// Requests whose end can be read in two ways, and the value of Host. Pure, no h2o type.
#pragma once

#include "base/text.h"

// head: of an HTTP/1 request, from its first line to the blank one, more may follow; minor: of the
// version. NULL, or the sentence that says what is wrong with it.
const char *framing_fault(struct text head, int minor);

// A host with an optional port (RFC 9110, 7.2), or empty: the value of Host or of :authority.
bool host_is_valid(struct text host);
extern const char host_fault[]; // the sentence where it is not

// Whether libh2o called the decoder of chunked.c for a chunked body of this thread.
bool chunked_is_strict(void);
