// SPDX-License-Identifier: Apache-2.0
// The libzmq sockets of a node: a ROUTER on node 0, a DEALER on the others, a monitor of failed
// handshakes, and on node 0 with a secret the handler that accepts the key of the group (ZAP, RFC
// 27). The channel's thread owns them once they are open. Private to cluster/.
#pragma once

#include "cluster/channel.h"

#include <zmq.h>

struct node_socket {
    void *context, *socket, *monitor;
    void *keeper; // answers whether a key is accepted; NULL: no secret, or not node 0
    uint8_t key[32];
    char endpoint[NODE_ADDRESS_MAX + 32]; // "tcp://ADDRESS:PORT"
};

// Opens the sockets; listens on node 0, begins to connect on the others. Errors as of channel_open.
enum status socket_open(struct node_socket *out, const struct channel_options *options,
                        struct error *err) MUST_USE;
// Sends what is queued, for at most linger_ms milliseconds, and closes all.
void socket_close(struct node_socket *s, int linger_ms);
// Answers the requests that wait at the keeper.
void socket_keep(struct node_socket *s);
// Reads the events that wait at the monitor; returns the number of handshakes that failed. *final:
// set to true if one failed so that libzmq does not try again.
uint32_t socket_refusals(struct node_socket *s, bool *final);
