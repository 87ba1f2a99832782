// SPDX-License-Identifier: Apache-2.0
// A conversation of a data set that is sent turn by turn: each request contains the server's own
// earlier answers. One thread.
#pragma once

#include "loadgen/content.h"

struct bench_conversation {
    const struct bench_item *item; // NULL: none
    json_t *messages;              // messages of the current request; owned
    size_t next;                   // index of the item's first message not yet sent or skipped
    uint32_t turn;                 // number of earlier requests
};

// Starts a conversation with the item's text as a message of a user or, without a text, with its
// messages up to the first one of a user; skips recorded answers before it. Frees the messages of
// an earlier conversation.
void bench_conversation_begin(struct bench_conversation *c, const struct bench_item *item);
// Appends the server's answer, and the item's messages up to the next one of a user; skips the
// recorded answers. Returns false if there is no item, if the item is a text, or if it has no
// further message of a user; in the last case the messages are no request.
bool bench_conversation_next(struct bench_conversation *c, struct text answer);
// Frees the messages; a second call does nothing.
void bench_conversation_end(struct bench_conversation *c);
