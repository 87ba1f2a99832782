// SPDX-License-Identifier: Apache-2.0
// The messages between the nodes of a group. A message is a header and a payload in the byte order
// of the machine: HELLO, the first message, verifies that both nodes run the same version on the
// same instruction set. The parser checks every field. Pure functions.
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
    MESSAGE_BYTES_MAX = 256 << 20, // limit of a message; the largest are masks and batches
    MESSAGE_FACTS_MAX = 1 << 20,   // limit of the facts in a HELLO
    MESSAGE_FACT_TEXT_MAX = 512,   // limit of a name or a value
    MESSAGE_SENTENCE_MAX = 1000,   // limit of the sentence of a REFUSE or a FAULT
};

enum message_kind {
    // Messages until the group is complete. Payload of HELLO: struct hello_head, then facts; of
    // REFUSE: a sentence.
    MESSAGE_HELLO,   // sent to node 0
    MESSAGE_WELCOME, // sent by node 0: all nodes are connected and their facts are equal
    MESSAGE_REFUSE,  // sent by node 0: the group does not start
    // Messages for one model.
    MESSAGE_READY,  // sent to node 0: the weights are loaded
    MESSAGE_LAUNCH, // sent by node 0; number: step; payload: a batch (batch_wire.h)
    MESSAGE_SAMPLE, // sent by node 0; number: masks; payload: u32 [masks][vocabulary words]
    MESSAGE_RESULT, // sent to node 0; number: step; payload: struct hash of its results
    MESSAGE_DATA,   // sent to all others; number: exchange; payload: pieces of a collective
    // Messages for the group.
    // sent by all each second, until the group is complete more often; number: the last step of the
    // model that the sender has started
    MESSAGE_PING,
    MESSAGE_FAULT, // sent by all; payload: a sentence; the group ends
    MESSAGE_LEAVE, // sent to node 0: the node got a signal to stop
    // sent by node 0: the group ends without a fault; sent to node 0: receipt of END, FAULT, REFUSE
    MESSAGE_END,
    MESSAGE_KINDS
};

struct message_head {
    uint8_t magic[4];
    uint8_t kind, origin; // enum message_kind; node that created the message
    uint16_t model;       // index among the split models
    uint64_t number;
};

struct node_message {
    struct message_head head;
    const void *at; // payload, not aligned
    size_t bytes;
};

// Writes the header of a message.
void message_head_write(void *to, enum message_kind kind, uint32_t origin, uint32_t model,
                        uint64_t number);
// Reads a message of a group of `nodes` nodes with `models` split models; `out` points into it.
// INVALID if the header is malformed, or the payload has a size that its kind cannot have.
enum status message_parse(struct node_message *out, const void *at, size_t bytes, uint32_t nodes,
                          uint32_t models, struct error *err) MUST_USE;
// Returns the sentence of a REFUSE or FAULT, or a constant if it is not UTF-8 of one line; points
// into the message.
struct text message_sentence(const struct node_message *message);

struct hello_head {
    uint32_t version, nodes;
};

// The facts that a node states about itself: pairs of name and value, in a fixed order. Freed by
// facts_free.
struct facts {
    char *at; // "name\0value\0...", or NULL
    size_t bytes;
};

// Adds a fact. Name and value are cut at MESSAGE_FACT_TEXT_MAX - 1 bytes.
void facts_add(struct facts *facts, const char *name, const char *value);
void facts_free(struct facts *facts);
// Reads the first pair of *rest and removes it from *rest. Returns false if nothing is left or the
// text is malformed; then rest->bytes is not 0.
bool facts_next(struct text *rest, struct text *name, struct text *value);
// Compares the payload of a HELLO that message_parse has accepted with the facts of this node.
// INVALID with one sentence about the first difference. node: name of the other node in messages.
enum status hello_compare(const struct facts *own, uint32_t nodes, const struct node_message *hello,
                          const char *node, struct error *err) MUST_USE;
