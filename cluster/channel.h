// SPDX-License-Identifier: Apache-2.0
// The connections between the nodes of a group: node 0 listens, the others connect to it (libzmq).
// The channel's thread, one per process, owns the sockets. It sends pings each second (ten times
// per second until the nodes have met), detects connections that close or are silent, and puts
// received messages into lanes: queues of the messages about one model from one node, with DATA in
// a lane of its own. On node 0 the thread also forwards DATA of one node to the others.
//
// The first fault ends the channel of all nodes: a node that is lost after the nodes have met, a
// message that is malformed or not allowed, a lane that is full, or a call of channel_fail. The
// other nodes get its sentence, each waiting or later call returns it as DEVICE_FAULT, and the
// channel's thread calls options.lost once. Any thread may call the functions below, except
// channel_open and channel_close; one thread at a time receives from a lane.
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
    const char *address;  // host name or IP address of node 0
    uint32_t port;
    const char *secret;       // SECRET_DIGITS hexadecimal digits, or NULL: no encryption
    double heartbeat_s;       // seconds without a response of a node after which it is lost
    const char *const *words; // [nodes] names of the nodes in sentences; outlives the channel
    // Called on the channel's thread; may be NULL; must not call channel_end or channel_close.
    // lost: once, after the first fault. leave: on node 0, after other nodes called channel_leave.
    void (*lost)(void *context, const struct error *err);
    void (*leave)(void *context);
    void *context;
};

// Node 0 listens; the other nodes begin to connect and try again until they succeed. UNSUPPORTED if
// weft was built without libzmq, or libzmq without CURVE; REFUSED if the address is not a loopback
// address and there is no secret; INVALID if the secret is malformed; IO if the address is not
// found or cannot be bound.
enum status channel_open(struct channel **out, const struct channel_options *options,
                         struct error *err) MUST_USE;
// Sends the last messages, which takes at most two seconds, closes the connections and ends the
// channel's thread. A second call does nothing. ended: true if node 0 first reports to the other
// nodes that the group ends without a fault; the other nodes ignore it. Threads that receive get
// UNWANTED if the group has ended without a fault, otherwise DEVICE_FAULT.
void channel_end(struct channel *channel, bool ended);
// Calls channel_end, which does nothing if it was called before, and frees the channel. No other
// thread may use it. NULL is allowed.
void channel_close(struct channel *channel);

// Waits until all nodes have met: all are connected, and node 0 has found that they state equal
// facts. The facts are copied. TIMEOUT after `seconds`: node 0 names a node that is not connected,
// the others name themselves. If facts differ, INVALID on node 0 and DEVICE_FAULT on the others,
// with a sentence about the first difference. DEVICE_FAULT after a fault.
enum status channel_meet(struct channel *channel, const struct facts *facts, double seconds,
                         struct error *err) MUST_USE;

struct channel_part { // a piece of a payload
    const void *at;
    size_t bytes;
};

// Queues a message whose payload is a copy of the parts, and returns without waiting. Messages of
// node 0 and DATA go to all other nodes, other messages to node 0. DEVICE_FAULT after a fault;
// UNWANTED after the group has ended without a fault; TOO_LARGE if the parts have more than
// MESSAGE_BYTES_MAX bytes together; NO_MEMORY if libzmq has no memory for the message.
enum status channel_send(struct channel *channel, enum message_kind kind, uint32_t model,
                         uint64_t number, const struct channel_part *parts, uint32_t count,
                         struct error *err) MUST_USE;

// LANE_DATA has the DATA messages, LANE_CONTROL has READY, LAUNCH, SAMPLE and RESULT.
enum channel_lane { LANE_CONTROL, LANE_DATA, LANES };

// A received message; channel_letter_free frees it.
struct channel_letter {
    struct node_message message;
    void *frame; // memory of the payload
};

// Waits for the next message of the lane of node `from`. DEVICE_FAULT after a fault, or if
// channel_stop has stopped the lane; UNWANTED after the group has ended without a fault; TIMEOUT at
// deadline_ns (CLOCK_MONOTONIC; UINT64_MAX: no limit). After a fault or the end, messages that were
// not received are discarded.
enum status channel_receive(struct channel *channel, uint32_t from, uint32_t model,
                            enum channel_lane lane, uint64_t deadline_ns,
                            struct channel_letter *out, struct error *err) MUST_USE;
void channel_letter_free(struct channel_letter *letter);
// Stops the data lanes of a model on this node: channel_receive fails, now and later.
void channel_stop(struct channel *channel, uint32_t model);

// Ends the channel of all nodes with a fault: this error, whose status becomes DEVICE_FAULT. Does
// nothing after an earlier fault or the end of the group.
void channel_fail(struct channel *channel, const struct error *err);
// Returns true after a fault and sets its error.
bool channel_failed(struct channel *channel, struct error *err);
// Reports to node 0 that this node got a signal to stop. Does nothing on node 0 and before the
// nodes have met.
void channel_leave(struct channel *channel);
// Returns true once the group has ended without a fault.
bool channel_ended(struct channel *channel);

// The nodes other than node 0: stores the number of the last step that this node has put into the
// streams of its devices. The next ping sends it to node 0.
void channel_step_started(struct channel *channel, uint32_t model, uint64_t step);
// Node 0: returns the step of a model that the last ping of a node reported as started; 0: none.
uint64_t channel_step_of(struct channel *channel, uint32_t node, uint32_t model);
