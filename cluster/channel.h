// SPDX-License-Identifier: Apache-2.0
// The connections between the nodes of a group: node 0 listens, the others connect to it (libzmq).
// One thread per process owns the sockets; it sends a ping each second, notices connections that
// close or fall silent, passes DATA on to the other nodes, and sorts messages for their readers.
//
// The first fault ends the channel for all: a node that is lost, a message that is none, or a call
// of channel_fail. The other nodes get its sentence, every reader returns it, and the thread calls
// options.lost once. Any thread may send, read and fail; one thread at a time reads from one lane.
//
// If a secret is given, connections are encrypted and both ends prove that they know it
// (CurveZMQ): the secret is the private key that all nodes share, and node 0 accepts no other.
#pragma once

#include "cluster/message.h"

enum { SECRET_DIGITS = 64 }; // hexadecimal digits of a secret of 32 bytes

struct channel;

struct channel_options {
    uint32_t node, nodes; // this node; number of nodes
    uint32_t models;      // number of split models
    const char *address;  // of node 0: a name or a number
    uint32_t port;
    const char *secret;       // SECRET_DIGITS hexadecimal digits, or NULL: no encryption
    double heartbeat_s;       // a node that does not respond for this long is lost
    const char *const *words; // [nodes] names of the nodes in messages; outlives the channel
    // Called on the channel's thread, at most once each: after the first fault; on node 0 after
    // another node was asked to stop. May be NULL.
    void (*lost)(void *context, const struct error *err);
    void (*leave)(void *context);
    void *context;
};

// Listens on node 0, begins to connect on the others. UNSUPPORTED if weft was built without libzmq;
// REFUSED if the address is not on this machine's loopback interface and there is no secret;
// INVALID, IO with one sentence otherwise.
enum status channel_open(struct channel **out, const struct channel_options *options,
                         struct error *err) MUST_USE;
// Closes the connections, after the last messages were sent or a second has passed, and ends the
// thread; a second call does nothing. ended: node 0 reports to the others that the group ends
// without a fault. Other threads may still read, and get DEVICE_FAULT or UNWANTED.
void channel_end(struct channel *channel, bool ended);
// Ends the channel, unless channel_end did, and frees it. No other thread may use it. NULL is
// allowed.
void channel_close(struct channel *channel);

// Waits until all nodes are connected and node 0 has found that all state the same facts. After
// seconds without success returns TIMEOUT with a sentence that names a missing node; INVALID if
// facts differ.
enum status channel_meet(struct channel *channel, const struct facts *facts, double seconds,
                         struct error *err) MUST_USE;

struct channel_part {
    const void *at;
    size_t bytes;
};

// Queues a message whose payload is a copy of the parts: node 0 sends to all other nodes, these to
// node 0; DATA goes to all other nodes. DEVICE_FAULT after a fault.
enum status channel_send(struct channel *channel, enum message_kind kind, uint32_t model,
                         uint64_t number, const struct channel_part *parts, uint32_t count,
                         struct error *err) MUST_USE;

enum channel_lane { LANE_CONTROL, LANE_DATA, LANES }; // DATA has a lane of its own

// A received message; channel_letter_free frees it.
struct channel_letter {
    struct node_message message;
    void *frame;
};

// Waits for the next message of a lane from a node. DEVICE_FAULT after a fault or channel_stop,
// UNWANTED after the end of the group, TIMEOUT at deadline_ns (CLOCK_MONOTONIC).
enum status channel_receive(struct channel *channel, uint32_t from, uint32_t model,
                            enum channel_lane lane, uint64_t deadline_ns,
                            struct channel_letter *out, struct error *err) MUST_USE;
void channel_letter_free(struct channel_letter *letter);
// Ends the reads of a model's data lane, now and later.
void channel_stop(struct channel *channel, uint32_t model);

// Ends the channel with this fault, unless it has ended already.
void channel_fail(struct channel *channel, const struct error *err);
// Returns true after a fault and sets its error.
bool channel_failed(struct channel *channel, struct error *err);
// Reports to node 0 that this node was asked to stop.
void channel_leave(struct channel *channel);
// Returns true once the group has ended without a fault.
bool channel_ended(struct channel *channel);
