// The writer of Responses: output items come one after the other, in the order in which the model
// wrote them; each is closed before the next. A stream tells each item as it grows and at its end
// the whole answer, so the writer keeps what it wrote, in the exchange's arena.
#pragma once

#include "http/api/generation.h"

struct item_writer {
    uint64_t sequence; // number of the next event
    uint32_t begun;    // items
    enum { ITEM_NONE, ITEM_MESSAGE, ITEM_REASONING, ITEM_CALL } open;
    uint32_t call;              // the newest one, from 1
    struct text id;             // of the open item
    struct arena_text text;     // its text or arguments so far
    struct arena_text logprobs; // the JSON of its log probabilities
    struct arena_text done;     // the JSON of the items before it
    uint64_t told;              // bytes of text of all items
    uint32_t early; // visible log probabilities that were told before their turn, from the first on
};

struct responses {
    struct generation g; // the first member
    struct text echo;    // the JSON members of the answer that say what was asked
    struct item_writer items;
};

void responses_put(struct responses *r, enum generation_tell step, struct json_buffer *out);
