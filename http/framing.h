// Where a request ends, and requests whose end can be read in two ways. Pure, no h2o type.
#pragma once

#include "base/text.h"

// head: of an HTTP/1 request, from its first line to the blank one, more may follow; minor: of the
// version. NULL, or the sentence that says what is wrong with it.
const char *framing_fault(struct text head, int minor);

// Did libh2o call the decoder of chunked.c for a chunked body of this thread?
bool chunked_is_strict(void);
