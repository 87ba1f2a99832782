// SPDX-License-Identifier: Apache-2.0
// The messages between the nodes of a group. A message is a header and a payload in the byte order
// of the machine. HELLO, the first message of a node, has the version of the protocol, which node 0
// compares. message_parse checks every field of a header and
// the size of the payload. No function uses global state or I/O.
#pragma once

#include "base/status.h"
#include "base/text.h"
#include "cluster/nodes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    MESSAGE_VERSION = 1,
    MESSAGE_MODELS_MAX = 64,       // split models of a group
    MESSAGE_BYTES_MAX = 256 << 20, // most bytes of a payload; the largest are masks and batches
    MESSAGE_FACTS_MAX = 1 << 20,   // most bytes of the payload of a HELLO
    MESSAGE_FACT_TEXT_MAX = 512,   // most bytes of a name or a value, with the NUL
    MESSAGE_SENTENCE_MAX = 1000,   // most bytes of the sentence of a REFUSE or a FAULT
};

enum message_kind {
    // Messages until the nodes have met (channel_meet)
    MESSAGE_HELLO,   // sent to node 0; payload: struct hello_head, then facts
    MESSAGE_WELCOME, // sent by node 0: all nodes are connected and their facts are equal
    MESSAGE_REFUSE,  // sent by node 0: the receiver cannot join the group; payload: a sentence
    // Messages about one model
    MESSAGE_READY,  // sent to node 0: the model is open
    MESSAGE_LAUNCH, // sent by node 0; number: step; payload: a batch (batch_wire.h)
    // sent by node 0; number: count of masks, or 0; payload: u32 [masks][(vocabulary + 31) / 32]
    MESSAGE_SAMPLE,
    MESSAGE_RESULT, // sent to node 0; number: step; payload: struct hash of its results
    // sent by each node to all others, by way of node 0; number: count of the model's exchanges,
    // from 1; payload: the bytes of the sender's ranks (comm_link.exchange)
    MESSAGE_DATA,
    // Messages about the group
    // sent by node 0 to all others, and to node 0 by each other node for each model; number: the
    // last step of the model that the sender has started, 0 from node 0
    MESSAGE_PING,
    MESSAGE_FAULT, // sent by node 0 to all others, or to node 0: a fault; payload: a sentence
    MESSAGE_LEAVE, // sent to node 0: the node got a signal to stop
    // sent by node 0: the group ends without a fault; sent to node 0: receipt of END, FAULT, REFUSE
    MESSAGE_END,
    MESSAGE_KINDS
};

struct message_head {
    uint8_t magic[4];
    uint8_t kind, origin; // enum message_kind; node that created the message
    uint16_t model;       // index among the split models; 0 if the kind has none
    uint64_t number;      // see enum message_kind; 0 if the kind has none
};

struct node_message {
    struct message_head head;
    const void *at; // payload, not aligned
    size_t bytes;   // size of the payload
};

// Writes a header of sizeof(struct message_head) bytes; `to` need not be aligned.
void message_head_write(void *to, enum message_kind kind, uint32_t origin, uint32_t model,
                        uint64_t number);
// Reads a message of a group of `nodes` nodes with `models` split models. out->at points into the
// message.
// INVALID if the header is malformed, or the payload has a size that its kind cannot have.
enum status message_parse(struct node_message *out, const void *at, size_t bytes, uint32_t nodes,
                          uint32_t models, struct error *err) MUST_USE;
// Returns the sentence of a REFUSE or FAULT, which points into the message, or a constant if the
// payload is empty or not one line of UTF-8.
struct text message_sentence(const struct node_message *message);

struct hello_head {
    uint32_t version; // MESSAGE_VERSION of the sender
    uint32_t nodes;   // number of nodes that the sender was started with
};

// The facts that a node states about itself: pairs of name and value, in an order that is equal on
// all nodes. facts_free frees them.
struct facts {
    char *at; // "name\0value\0...", or NULL
    size_t bytes;
};

// Adds a fact. Name and value are cut at MESSAGE_FACT_TEXT_MAX - 1 bytes.
void facts_add(struct facts *facts, const char *name, const char *value);
void facts_free(struct facts *facts);
// Reads the first pair of *rest and removes it from *rest. Returns false if no pair is left, with
// rest->bytes == 0, or if the text is malformed, with rest->bytes > 0.
bool facts_next(struct text *rest, struct text *name, struct text *value);
// Compares a HELLO that message_parse has accepted with the version, the number of nodes and the
// facts of this node, which is node 0. INVALID with one sentence about the first difference. node:
// name of the sender in that sentence.
enum status hello_compare(const struct facts *own, uint32_t nodes, const struct node_message *hello,
                          const char *node, struct error *err) MUST_USE;
