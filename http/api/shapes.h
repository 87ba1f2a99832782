// SPDX-License-Identifier: Apache-2.0
// The writers of the answers: OpenAI's chat completions and completions (openai.c), Responses
// (responses_write.c) and Messages (messages_write.c).
#pragma once

#include "http/api/generation.h"
#include "base/hash.h"
#include "base/json.h"
#include "runtime/text/dialect/scan.h"

// Parts that the answers of chat completions and completions share: ids, usage, the frame of a
// stream's chunks and of a complete answer. A chunk consists of a constant beginning that is made
// once, the endpoint's members of the choice, and an end.

// Writes the beginning of an answer, up to and including `"choices":[`.
void openai_head_put(const struct generation *g, struct json_buffer *out, const char *object);
// Writes the usage object; during a stream, the usage so far.
void openai_usage_put(const struct generation *g, struct json_buffer *out);
// Returns the finish_reason of a choice that is over; static.
const char *openai_finish_reason(const struct choice *c);

// Writes the constant beginning of the stream's chunks to g->chunk, in the exchange's arena.
// Returns false if the arena is full. Does nothing and returns true if the answer is not a stream.
bool openai_chunk_make(struct generation *g, const char *object);
// Writes g->chunk and {"index": of the choice, with a comma at the end.
void openai_chunk_begin(const struct generation *g, uint32_t choice, struct json_buffer *out);
// Closes the choice and the chunk. The chunk contains the usage so far if the client requested
// continuous usage, or a null `usage` if it only requested the final one.
void openai_chunk_end(const struct generation *g, struct json_buffer *out);

// Writes ,"logprobs": with the first `count` visible entries of c; null if c is NULL or the request
// has no logprobs.
void openai_logprobs_put(const struct generation *g, const struct choice *c, uint32_t count,
                         logprobs_part *part, struct json_buffer *out);

// Writes the steps that are the same for every shape: keep-alive, end of the stream, failure.
void openai_step_put(const struct generation *g, enum stream_step step, struct json_buffer *out);

// Writers that differ between the two endpoints.
struct openai_shape {
    const char *object;     // "object" of a complete answer
    const char *empty;      // members of a choice's last chunk
    logprobs_part *entries; // log probabilities of a complete answer
    void (*begin)(const struct generation *g, struct json_buffer *out); // stream's beginning
    void (*piece)(const struct generation *g, struct json_buffer *out); // a piece of its choice
    // Complete answer: the members of a choice between its index and its log probabilities.
    void (*choice)(const struct generation *g, uint32_t choice, struct json_buffer *out);
};
// Writes a step (generation_write_fn), using the endpoint's writers.
enum stream_step openai_put(struct generation *g, const struct openai_shape *shape,
                            enum stream_step step, struct json_buffer *out);

// Writes the answers of Responses. Output items follow one another in the order in which the model
// wrote them, and each is closed before the next opens. The events that close an item repeat the
// item, and the last event of a stream repeats all items; therefore their text and log
// probabilities are kept in the exchange's arena. These events are written in parts, as send space
// allows. So are the events that open a stream, because every event with the response also repeats
// the request's fields.

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

// Signatures of thinking blocks: a keyed hash of the text. Clients send them back unchanged, and
// the server does not check them. While the process lives, equal texts have equal signatures,
// however they were split into pieces. Plain values; h2o threads.

enum { SIGNATURE_BLOCK = 256 };

struct signature { // all zero: the signature of no text
    struct {
        struct hash before; // hash of the previous blocks
        char bytes[SIGNATURE_BLOCK];
    } block;
    size_t count; // number of bytes in block.bytes
};

// Adds text to the signature.
void signature_add(struct signature *s, struct text text);
void signature_put(const struct signature *s, struct json_buffer *out); // as base64, without quotes

// Messages, as one body or as a stream of events: content blocks follow one another, and each is
// closed before the next opens.

// State of the writer. All zero: no block has begun.
struct block_writer {
    bool thinking;         // true if the client requested thinking: usage reports its tokens
    bool thinking_omitted; // true if only the signature of the thinking text is sent
    uint32_t count;        // number of blocks begun
    enum { BLOCK_NONE, BLOCK_TEXT, BLOCK_THINKING, BLOCK_TOOL } open;
    struct signature signature; // of the text of the open thinking block
    uint32_t call;              // number of the newest call, from 1
    struct json_scan scan;      // JSON scanner over the newest call's arguments
    bool broken; // true if those arguments are not a JSON object: the rest of them is sent as text
    uint32_t broken_call; // number of the malformed call shown as the open text block, or 0
};

struct messages {
    struct generation g; // first member, so that either pointer can be cast to the other
    struct block_writer blocks;
};

// Argument for generation_answer. g is the first member of a struct messages.
generation_write_fn messages_put;
