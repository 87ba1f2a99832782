// SPDX-License-Identifier: Apache-2.0
// The connections between the nodes of a group: node 0 listens, the others connect to it (libzmq).
// One thread per process owns the sockets; it sends a ping each second, detects connections that
// close or are silent, and puts received messages into the queues of their readers. On node 0 it
// also forwards DATA of one node to the others.
//
// The first fault ends the channel of all nodes: a lost node, a malformed message, or a call of
// channel_fail. The other nodes get its sentence, every reader returns it, and the thread calls
// options.lost once. Any thread may send, receive and fail; one thread at a time receives from one
// lane.
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
    const char *address;  // host name or number of node 0
    uint32_t port;
    const char *secret;       // SECRET_DIGITS hexadecimal digits, or NULL: no encryption
    double heartbeat_s;       // seconds without a response after which a node is lost
    const char *const *words; // [nodes] names of the nodes in messages; outlives the channel
    // Called on the channel's thread; may be NULL. lost: once, after the first fault. leave: on
    // node 0, each time another node reports channel_leave.
    void (*lost)(void *context, const struct error *err);
    void (*leave)(void *context);
    void *context;
};

// Listens on node 0, begins to connect on the others. UNSUPPORTED if weft was built without libzmq,
// or libzmq without CURVE; REFUSED if the address is not a loopback address and there is no secret;
// INVALID if the secret is malformed; IO if the address is not found or cannot be bound.
enum status channel_open(struct channel **out, const struct channel_options *options,
                         struct error *err) MUST_USE;
// Sends the last messages, which takes at most two seconds, closes the connections and ends the
// thread; a second call does nothing. ended: true on node 0 reports to the other nodes that the
// group ends without a fault. Other threads may still receive, and get DEVICE_FAULT or UNWANTED.
void channel_end(struct channel *channel, bool ended);
// Ends the channel, unless channel_end did, and frees it. No other thread may use it. NULL is
// allowed.
void channel_close(struct channel *channel);

// Waits until all nodes are connected and node 0 has found that all state the same facts, which the
// caller keeps. TIMEOUT after `seconds`, with a sentence that names a node that is not connected.
// If facts differ, INVALID on node 0 and DEVICE_FAULT on the others, with a sentence about the
// first difference. DEVICE_FAULT after a fault.
enum status channel_meet(struct channel *channel, const struct facts *facts, double seconds,
                         struct error *err) MUST_USE;

struct channel_part { // bytes of a payload
    const void *at;
    size_t bytes;
};

// Queues a message whose payload is a copy of the parts. Messages of node 0 and DATA go to all
// other nodes, other messages to node 0. DEVICE_FAULT after a fault, UNWANTED after the end of the
// group, TOO_LARGE if the parts have more than MESSAGE_BYTES_MAX bytes, NO_MEMORY.
enum status channel_send(struct channel *channel, enum message_kind kind, uint32_t model,
                         uint64_t number, const struct channel_part *parts, uint32_t count,
                         struct error *err) MUST_USE;

enum channel_lane { LANE_CONTROL, LANE_DATA, LANES }; // DATA has a lane of its own

// A received message; channel_letter_free frees it.
struct channel_letter {
    struct node_message message;
    void *frame; // memory of the payload
};

// Waits for the next message of a lane from a node. DEVICE_FAULT after a fault or channel_stop,
// UNWANTED after the end of the group, TIMEOUT at deadline_ns (CLOCK_MONOTONIC; UINT64_MAX: never).
enum status channel_receive(struct channel *channel, uint32_t from, uint32_t model,
                            enum channel_lane lane, uint64_t deadline_ns,
                            struct channel_letter *out, struct error *err) MUST_USE;
void channel_letter_free(struct channel_letter *letter);
// Makes channel_receive of a model's data lane fail, now and later.
void channel_stop(struct channel *channel, uint32_t model);

// Ends the channel of all nodes with this error, whose status becomes DEVICE_FAULT; does nothing if
// the channel has ended.
void channel_fail(struct channel *channel, const struct error *err);
// Returns true after a fault and sets its error.
bool channel_failed(struct channel *channel, struct error *err);
// Reports to node 0 that this node got a signal to stop.
void channel_leave(struct channel *channel);
// Returns true once the group has ended without a fault.
bool channel_ended(struct channel *channel);

// The nodes other than node 0: stores that the devices of this node have the work of a step, which
// node 0 learns with the next ping.
void channel_step_started(struct channel *channel, uint32_t model, uint64_t step);
// Node 0: returns the last step of a model that a node had started at its last ping; 0: none.
uint64_t channel_step_of(struct channel *channel, uint32_t node, uint32_t model);
