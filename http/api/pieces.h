// A complete JSON answer that may be large. It is sent in pieces, so that other requests do not
// wait until all of it is sent. Part of an endpoint's state: the h2o thread or a text worker fills
// `out`, the h2o thread sends it.
#pragma once

#include "http/exchange.h"
#include "base/json.h"

enum { ONE_PIECE_BYTES_MAX = 32 * 1024 }; // bytes of an answer that is sent in one piece

struct pieces {
    struct json_buffer out; // the answer
    size_t sent;            // number of bytes sent
};

// Frees the buffer; p is empty afterwards.
void pieces_free(struct pieces *p);

// pieces_send answers with 200 and p->out: a small answer in one piece; of a larger one,
// on_send_space sends the rest with pieces_continue. p is empty once everything is handed to the
// exchange. pieces_continue does nothing if the answer has not begun or is complete.
void pieces_send(struct exchange *x, struct pieces *p);
void pieces_continue(struct exchange *x, struct pieces *p);
