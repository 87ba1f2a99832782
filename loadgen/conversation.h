// SPDX-License-Identifier: Apache-2.0
// A conversation of a data set that is sent turn by turn: each request contains the server's own
// earlier answers. One thread.
#pragma once

#include "loadgen/content.h"

struct bench_conversation {
    const struct bench_item *item; // NULL: none
    json_t *messages;              // messages of the current request; owned
    size_t next;                   // index of the first message of the item that was not sent
    uint32_t turn;                 // number of earlier requests
};

// Starts with the messages up to the first one of a user; ends an earlier conversation.
void bench_conversation_begin(struct bench_conversation *c, const struct bench_item *item);
// Appends the server's answer, and the item's messages up to the next one of a user; skips the
// recorded answers. Returns false if the item has no further message of a user, or without an item.
bool bench_conversation_next(struct bench_conversation *c, struct text answer);
void bench_conversation_end(struct bench_conversation *c);
