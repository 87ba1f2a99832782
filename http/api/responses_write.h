// The writer of Responses: output items come one after the other, in the order in which the model
// wrote them; each is closed before the next. The events that close an item, and the last one of a
// stream, repeat all of it, so text and log probabilities of all items are kept, in the exchange's
// arena; these events are written in parts, as there is room, and so are those that open a stream,
// because all that have the response repeat what was asked, too.
#pragma once

#include "http/api/generation.h"

enum item_kind { ITEM_MESSAGE, ITEM_REASONING, ITEM_CALL };

struct output_item {
    enum item_kind kind;
    bool complete; // no limit cut it
    uint32_t call; // its number, from 1
    struct text id;
    size_t from, bytes;             // its text or arguments in item_writer.text
    uint32_t entries_from, entries; // its log probabilities in item_writer.logprobs
};

// Events that repeat items: three close one, those of the response have all that are closed.
enum closing_event { CLOSING_NOTHING, CLOSING_TEXT, CLOSING_PART, CLOSING_ITEM, CLOSING_RESPONSE };
enum item_place { AT_HEAD, AT_TEXT, AT_MIDDLE, AT_ENTRIES, AT_TAIL };

// How far such an event is written.
struct closing_cursor {
    enum closing_event event;
    enum item_place at; // in the item
    bool bare;          // without log probabilities
    uint32_t item;
    size_t bytes;     // of its text, that are written
    uint32_t entries; // likewise
};

enum response_state { STATE_IN_PROGRESS, STATE_COMPLETED, STATE_INCOMPLETE, STATE_FAILED };

struct item_writer {
    uint64_t sequence;         // number of the next event
    struct output_item *items; // [item_count]
    uint32_t item_count;
    size_t item_max;
    bool open;                     // the last item is not closed
    struct arena_text text;        // of all items
    struct logprobs_kept logprobs; // likewise
    uint64_t told;                 // bytes of text of all messages
    uint32_t logprobs_told; // visible ones that were told before their turn, from the first on
    struct closing_cursor cursor;
    enum generation_tell end_step; // that the last event is of, or TELL_WAIT
    bool end_begun;
    uint32_t openings;         // events that open the stream and are not begun
    uint32_t response_items;   // that the present event of the response repeats
    enum response_state state; // that it tells
};

struct responses {
    struct generation g;  // the first member
    struct text repeated; // the JSON members of the answer that say what was asked
    struct item_writer items;
};

// For generation_answer, of a struct responses.
generation_steps responses_next;
generation_put responses_put;
