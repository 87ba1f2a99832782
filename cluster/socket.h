// SPDX-License-Identifier: Apache-2.0
// The libzmq sockets of a node: a ROUTER on node 0 or a DEALER on another node, and a monitor that
// reports failed handshakes. If there is a secret, node 0 also has a handler that accepts only the
// public key of the group (ZAP, ZeroMQ's RFC 27). The channel's thread owns the sockets once they
// are open. Private to cluster/.
#pragma once

#include "cluster/channel.h"

#include <zmq.h>

struct node_socket {
    void *context, *socket, *monitor;
    void *zap;       // socket of the ZAP handler; NULL: no secret, or not node 0
    uint8_t key[32]; // public key of the group
    char endpoint[NODE_ADDRESS_MAX + 32]; // "tcp://ADDRESS:PORT"
};

// Opens the sockets: node 0 listens, the other nodes begin to connect. Errors: see channel_open.
enum status socket_open(struct node_socket *out, const struct channel_options *options,
                        struct error *err) MUST_USE;
// Closes all sockets; waits at most linger_ms milliseconds until sent messages have left.
void socket_close(struct node_socket *s, int linger_ms);
// Answers the pending requests of the ZAP handler.
void socket_zap_answer(struct node_socket *s);
// Reads the pending events of the monitor and returns their number: each is a failed handshake.
// Sets *final to true if libzmq does not try one of them again.
uint32_t socket_refusals(struct node_socket *s, bool *final);
