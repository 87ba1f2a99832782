// SPDX-License-Identifier: Apache-2.0
// Answers sent in pieces: see pieces.h.
#include "http/api/pieces.h"

#include "base/number.h"

void pieces_free(struct pieces *p)
{
    json_buffer_free(&p->out);
    *p = (struct pieces){0};
}

void pieces_continue(struct exchange *x, struct pieces *p)
{
    size_t space, left = p->out.bytes - p->sent;
    if (left == 0 || !exchange_answered(x))
        return;
    while (left > 0 && (space = exchange_send_space(x)) > 0) {
        size_t bytes = smaller(left, space);
        exchange_write(x, text_span(p->out.at + p->sent, bytes));
        p->sent += bytes;
        left -= bytes;
    }
    if (left == 0) {
        pieces_free(p);
        exchange_end(x);
    }
}

void pieces_send(struct exchange *x, struct pieces *p)
{
    if (p->out.bytes <= ONE_PIECE_BYTES_MAX) {
        exchange_reply(x, 200, json_buffer_text(&p->out));
        pieces_free(p);
    } else {
        exchange_reply_begin(x, 200, p->out.bytes);
        pieces_continue(x, p);
    }
}
