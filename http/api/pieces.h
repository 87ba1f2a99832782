// A JSON answer that was written whole and may be large: it is sent piece by piece, so that no
// other request waits for all of it. Part of an endpoint's state; h2o thread, written also on a
// text worker.
#pragma once

#include "http/exchange.h"
#include "base/json.h"

enum { WHOLE_BYTES_MAX = 32 * 1024 }; // of an answer that is sent in one go

struct pieces {
    struct json_buffer out; // what is to be sent
    size_t sent;
};

void pieces_free(struct pieces *p);

// Answers with 200 and what was written. In one go where it is small; else pieces_continue is to be
// called from on_room. p is empty once all is handed over.
void pieces_send(struct exchange *x, struct pieces *p);
void pieces_continue(struct exchange *x, struct pieces *p); // for on_room, also before the answer
