// Writes the answers of Responses. Output items follow one another in the order in which the model
// wrote them, and each is closed before the next opens. The events that close an item repeat the
// item, and the last event of a stream repeats all items; therefore their text and log
// probabilities are kept in the exchange's arena. These events are written in parts, as send space
// allows. So are the events that open a stream, because every event with the response also repeats
// the request's fields.
#pragma once

#include "http/api/generation.h"

enum item_kind { ITEM_MESSAGE, ITEM_REASONING, ITEM_CALL };

struct output_item {
    enum item_kind kind;
    bool complete; // true if the item was not cut off by a limit
    uint32_t call; // number of the tool call, from 1; 0: no call
    struct text id;
    size_t from, bytes;             // position of its text or arguments in item_writer.text
    uint32_t entries_from, entries; // position of its log probabilities in item_writer.logprobs
};

// Events that repeat items. TEXT, PART and ITEM close one item; RESPONSE repeats all closed items.
enum closing_event { CLOSING_NOTHING, CLOSING_TEXT, CLOSING_PART, CLOSING_ITEM, CLOSING_RESPONSE };
// Positions within an item.
enum item_place { AT_HEAD, AT_TEXT, AT_MIDDLE, AT_ENTRIES, AT_TAIL };

// Position in such an event.
struct closing_cursor {
    enum closing_event event;
    enum item_place at; // position within the item
    bool bare;          // true if log probabilities are left out
    uint32_t item;      // index of the item
    size_t bytes;       // bytes of its text written
    uint32_t entries;   // log probabilities of it written
};

enum response_state { STATE_IN_PROGRESS, STATE_COMPLETED, STATE_INCOMPLETE, STATE_FAILED };

struct item_writer {
    uint64_t sequence;         // number of the next event
    struct output_item *items; // [item_count]
    uint32_t item_count;
    size_t item_max;
    bool open;                     // true if the last item is not closed
    struct arena_text text;        // text and arguments of all items
    struct logprobs_kept logprobs; // log probabilities of all items
    uint64_t text_written;         // bytes of message text written
    uint32_t logprobs_written;     // first visible entries that were already written (message_end)
    struct closing_cursor cursor;
    enum stream_step end_step; // step whose final event is being written, or STEP_CALLBACK
    bool end_begun;            // true once that event has begun
    uint32_t openings;         // number of opening events not yet begun
    uint32_t response_items;   // number of items that the present CLOSING_RESPONSE event repeats
    enum response_state state; // state of the response that this event reports
};

struct responses {
    struct generation g;  // first member, so that either pointer can be cast to the other
    struct text repeated; // JSON members of the answer that repeat the request's fields
    struct item_writer items;
};

// Arguments for generation_answer. g is the first member of a struct responses.
generation_next_fn responses_next;
generation_write_fn responses_put;
