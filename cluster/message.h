// SPDX-License-Identifier: Apache-2.0
// The messages between the nodes of a group. A message is a header and a payload; both ends run the
// same version on the same kind of machine, which the first message, HELLO, makes sure. The parser
// trusts nothing. Pure functions.
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
    // Until the group is complete. Payload of HELLO: struct hello_head, then facts; of REFUSE: a
    // sentence.
    MESSAGE_HELLO,   // to node 0
    MESSAGE_WELCOME, // from node 0: all nodes are there and agree
    MESSAGE_REFUSE,  // from node 0: the group does not start
    // For one model.
    MESSAGE_READY,  // to node 0: the weights are loaded
    MESSAGE_LAUNCH, // from node 0: a batch (runtime/model/batch_wire.h)
    MESSAGE_SAMPLE, // from node 0; number: masks, which are the payload
    MESSAGE_RESULT, // to node 0; number: step; payload: the hash of its results
    MESSAGE_DATA,   // to all others; number: of the exchange; payload: pieces of a collective
    // For the group.
    MESSAGE_PING,  // each second in both directions
    MESSAGE_FAULT, // in both directions: a sentence; the group ends
    MESSAGE_LEAVE, // to node 0: the node was asked to stop
    // from node 0: the group ends without a fault; to node 0: it is known that the group ends
    MESSAGE_END,
    MESSAGE_KINDS
};

struct message_head {
    uint8_t magic[4];
    uint8_t kind, origin; // origin: node that made the message
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
// INVALID if the header is none, or the payload has a size that its kind cannot have.
enum status message_parse(struct node_message *out, const void *at, size_t bytes, uint32_t nodes,
                          uint32_t models, struct error *err) MUST_USE;
// Returns the sentence of a REFUSE or FAULT as text of one line; borrowed.
struct text message_sentence(const struct node_message *message);

struct hello_head {
    uint32_t version, nodes;
};

// The facts that a node states about itself: pairs of name and value, in a fixed order.
struct facts {
    char *at; // "name\0value\0...", or NULL
    size_t bytes;
};

// Adds a fact. Both texts have no NUL and are cut at MESSAGE_FACT_TEXT_MAX - 1 bytes.
void facts_add(struct facts *facts, const char *name, const char *value);
void facts_free(struct facts *facts);
// Reads and removes the first pair of *rest. False: nothing is left, or the text is malformed (then
// rest->bytes is not 0).
bool facts_next(struct text *rest, struct text *name, struct text *value);
// Compares the payload of a HELLO with what this node states. INVALID with one sentence about the
// first difference; node: words for the other node.
enum status hello_compare(const struct facts *own, uint32_t nodes, const struct node_message *hello,
                          const char *node, struct error *err) MUST_USE;
