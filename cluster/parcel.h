// SPDX-License-Identifier: Apache-2.0
// Queues of messages that a channel has received or is to send. A queue owns its messages. The
// channel's lock guards the queues. Private to cluster/.
#pragma once

#include "cluster/message.h"

#include <zmq.h>

enum { ALL_NODES = -1 }; // parcel.to: all other nodes

struct parcel { // a message in a queue
    struct parcel *next;
    zmq_msg_t frame;
    struct node_message message; // header and payload in `frame`; only of a received message
    int to;                      // receiver of a message that is to be sent: a node, or ALL_NODES
    int except;                  // with ALL_NODES: node that does not get it; 0: each other node
};

struct parcels {
    struct parcel *first, **end;
    uint32_t count;
};

void parcels_push(struct parcels *q, struct parcel *parcel);
struct parcel *parcels_pop(struct parcels *q); // NULL: the queue is empty
void parcels_clear(struct parcels *q);         // frees all messages
void parcel_free(struct parcel *parcel);       // NULL is allowed
