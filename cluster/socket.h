// SPDX-License-Identifier: Apache-2.0
// The libzmq sockets of a node: a ROUTER on node 0, a DEALER on the others, a monitor of failed
// handshakes, and on node 0 with a secret the handler that accepts the key of the group (ZAP,
// ZeroMQ's RFC 27). The channel's thread owns them once they are open. Private to cluster/.
#pragma once

#include "cluster/channel.h"

#include <zmq.h>

struct node_socket {
    void *context, *socket, *monitor;
    void *zap; // ZAP handler, answers whether a key is accepted; NULL: no secret, or not node 0
    uint8_t key[32];                      // public key of the group
    char endpoint[NODE_ADDRESS_MAX + 32]; // "tcp://ADDRESS:PORT"
};

// Opens the sockets; listens on node 0, begins to connect on the others. Errors: see channel_open.
enum status socket_open(struct node_socket *out, const struct channel_options *options,
                        struct error *err) MUST_USE;
// Sends the queued messages for at most linger_ms milliseconds, and closes all sockets.
void socket_close(struct node_socket *s, int linger_ms);
// Answers the pending requests of the ZAP handler.
void socket_zap_answer(struct node_socket *s);
// Reads the pending events of the monitor; returns the number of failed handshakes. Sets *final to
// true if libzmq does not repeat one of them.
uint32_t socket_refusals(struct node_socket *s, bool *final);
