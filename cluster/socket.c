// SPDX-License-Identifier: Apache-2.0
// Opening and closing the sockets of a node; see socket.h.
#include "cluster/socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

enum {
    HEARTBEAT_MS = 1000,
    RECONNECT_MS = 100,
    Z85_BYTES = 41, // 32 bytes as text, with the NUL
};

static enum status zmq_error(struct error *err, const char *what, const char *endpoint)
{
    return error_set(err, STATUS_IO, "%s %s failed: %s", what, endpoint, zmq_strerror(errno));
}

static bool address_is_loopback(const struct sockaddr *a)
{
    if (a->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr) >> 24 == 127;
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)(const void *)a;
    return IN6_IS_ADDR_LOOPBACK(&six->sin6_addr);
}

// Finds the numeric address of node 0 and writes the endpoint.
static enum status address_find(struct node_socket *s, const struct channel_options *options,
                                struct error *err)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    char host[NODE_ADDRESS_MAX];
    int failed = getaddrinfo(options->address, NULL, &hints, &found);
    if (failed != 0)
        return error_set(err, STATUS_IO, "--master-addr %s: %s", options->address,
                         gai_strerror(failed));
    bool six = found->ai_family == AF_INET6, loopback = address_is_loopback(found->ai_addr);
    failed =
        getnameinfo(found->ai_addr, found->ai_addrlen, host, sizeof host, NULL, 0, NI_NUMERICHOST);
    freeaddrinfo(found);
    if (failed != 0)
        return error_set(err, STATUS_IO, "--master-addr %s: %s", options->address,
                         gai_strerror(failed));
    if (!loopback && !options->secret)
        return error_set(
            err, STATUS_REFUSED,
            "--master-addr %s (%s) is not on the loopback interface, so nodes need "
            "--cluster-secret-file, a file with 64 hexadecimal digits that is equal on "
            "all nodes ('openssl rand -hex 32' writes one)",
            options->address, host);
    snprintf(s->endpoint, sizeof s->endpoint, six ? "tcp://[%s]:%u" : "tcp://%s:%u", host,
             options->port);
    return STATUS_OK;
}

static enum status secret_read(uint8_t out[32], const char *digits, struct error *err)
{
    for (int i = 0; i < 32; i++) {
        unsigned byte = 0;
        for (int k = 0; k < 2; k++) {
            int value = text_hex(digits[2 * i + k]);
            if (value < 0)
                return error_set(err, STATUS_INVALID,
                                 "the secret of the cluster must be %d hexadecimal digits, and "
                                 "character %d is none",
                                 SECRET_DIGITS, 2 * i + k + 1);
            byte = byte * 16 + (unsigned)value;
        }
        out[i] = (uint8_t)byte;
    }
    return STATUS_OK;
}

// Sets the keys of the socket: all nodes have the same pair.
static enum status keys_set(struct node_socket *s, const struct channel_options *options,
                            struct error *err)
{
    uint8_t secret[32];
    char own[Z85_BYTES], public[Z85_BYTES];
    int server = options->node == 0;
    enum status status = secret_read(secret, options->secret, err);
    if (status != STATUS_OK)
        return status;
    bool set = zmq_has("curve") && zmq_z85_encode(own, secret, sizeof secret) &&
               zmq_curve_public(public, own) == 0 && zmq_z85_decode(s->key, public) &&
               zmq_setsockopt(s->socket, ZMQ_CURVE_SECRETKEY, own, Z85_BYTES - 1) == 0 &&
               zmq_setsockopt(s->socket, ZMQ_CURVE_PUBLICKEY, public, Z85_BYTES - 1) == 0;
    if (set && server)
        set = zmq_setsockopt(s->socket, ZMQ_CURVE_SERVER, &server, sizeof server) == 0 &&
              zmq_setsockopt(s->socket, ZMQ_ZAP_DOMAIN, "weft", 4) == 0;
    else if (set)
        set = zmq_setsockopt(s->socket, ZMQ_CURVE_SERVERKEY, public, Z85_BYTES - 1) == 0;
    explicit_bzero(secret, sizeof secret);
    explicit_bzero(own, sizeof own);
    if (!set)
        return error_set(err, STATUS_UNSUPPORTED, "this libzmq cannot encrypt connections: %s",
                         zmq_has("curve") ? zmq_strerror(errno) : "it was built without CURVE");
    if (!server)
        return STATUS_OK;
    s->zap = zmq_socket(s->context, ZMQ_REP);
    if (!s->zap || zmq_bind(s->zap, "inproc://zeromq.zap.01") != 0)
        return zmq_error(err, "opening", "the handler of keys");
    return STATUS_OK;
}

static enum status options_set(struct node_socket *s, const struct channel_options *options,
                               struct error *err)
{
    const int limit_ms = (int)(options->heartbeat_s * 1000);
    const struct {
        int name, value;
    } rows[] = {
        {ZMQ_LINGER, 0},
        {ZMQ_SNDHWM, 0}, // the nodes never have more than a few messages in flight
        {ZMQ_RCVHWM, 0},
        {ZMQ_IPV6, s->endpoint[6] == '['},
        {ZMQ_HEARTBEAT_IVL, limit_ms < 2 * HEARTBEAT_MS ? limit_ms / 2 : HEARTBEAT_MS},
        {ZMQ_HEARTBEAT_TIMEOUT, limit_ms},
        {ZMQ_HEARTBEAT_TTL, limit_ms},
        {ZMQ_HANDSHAKE_IVL, limit_ms},
        {ZMQ_RECONNECT_IVL, RECONNECT_MS},
    };
    const int64_t most = MESSAGE_BYTES_MAX + (int64_t)sizeof(struct message_head);
    bool set = zmq_setsockopt(s->socket, ZMQ_MAXMSGSIZE, &most, sizeof most) == 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows && set; i++)
        set = zmq_setsockopt(s->socket, rows[i].name, &rows[i].value, sizeof(int)) == 0;
    // With these a send fails if there is no connection.
    int one = 1, name = options->node == 0 ? ZMQ_ROUTER_MANDATORY : ZMQ_IMMEDIATE;
    set = set && zmq_setsockopt(s->socket, name, &one, sizeof one) == 0;
    return set ? STATUS_OK : zmq_error(err, "setting options of", s->endpoint);
}

static enum status sockets_create(struct node_socket *s, const struct channel_options *options,
                                  struct error *err)
{
    const int events = ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
                       ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;
    s->context = zmq_ctx_new();
    s->socket =
        s->context ? zmq_socket(s->context, options->node == 0 ? ZMQ_ROUTER : ZMQ_DEALER) : NULL;
    if (!s->socket || zmq_socket_monitor(s->socket, "inproc://monitor", events) != 0)
        return zmq_error(err, "opening", "a socket");
    s->monitor = zmq_socket(s->context, ZMQ_PAIR);
    if (!s->monitor || zmq_connect(s->monitor, "inproc://monitor") != 0)
        return zmq_error(err, "opening", "the monitor of a socket");
    enum status status = options_set(s, options, err);
    return status == STATUS_OK && options->secret ? keys_set(s, options, err) : status;
}

enum status socket_open(struct node_socket *s, const struct channel_options *options,
                        struct error *err)
{
    *s = (struct node_socket){0};
    enum status status = address_find(s, options, err);
    if (status == STATUS_OK)
        status = sockets_create(s, options, err);
    if (status == STATUS_OK && options->node == 0 && zmq_bind(s->socket, s->endpoint) != 0)
        status = error_set(err, STATUS_IO,
                           "node 0 cannot listen on %s: %s: --master-addr must be an address of "
                           "node 0, and --master-port a free port",
                           s->endpoint, zmq_strerror(errno));
    if (status == STATUS_OK && options->node > 0 && zmq_connect(s->socket, s->endpoint) != 0)
        status = zmq_error(err, "connecting to", s->endpoint);
    if (status != STATUS_OK)
        socket_close(s, 0);
    return status;
}

void socket_close(struct node_socket *s, int linger_ms)
{
    void *const sockets[] = {s->socket, s->monitor, s->zap};
    for (int i = 0; i < 3; i++) {
        int linger = i == 0 ? linger_ms : 0;
        if (!sockets[i])
            continue;
        zmq_setsockopt(sockets[i], ZMQ_LINGER, &linger, sizeof linger);
        zmq_close(sockets[i]);
    }
    if (s->context)
        zmq_ctx_term(s->context);
}

// Reads the frames of a message; returns their number. bytes: [max] sizes of the frames; the first
// 64 bytes of each are stored.
static int frames_read(void *socket, char frames[][64], size_t bytes[], int max)
{
    int count = 0, more = 1;
    size_t size = sizeof more;
    while (more) {
        char rest[64];
        char *to = count < max ? frames[count] : rest;
        int got = zmq_recv(socket, to, 64, ZMQ_DONTWAIT);
        if (got < 0)
            return -1;
        if (count < max)
            bytes[count] = (size_t)got;
        count++;
        zmq_getsockopt(socket, ZMQ_RCVMORE, &more, &size);
    }
    return count;
}

// A request has the frames version, number, domain, address, identity, mechanism and key.
void socket_zap_answer(struct node_socket *s)
{
    enum { FRAMES = 7, NUMBER = 1, MECHANISM = 5, KEY = 6 };
    char frames[FRAMES][64];
    size_t bytes[FRAMES];
    for (int count; s->zap && (count = frames_read(s->zap, frames, bytes, FRAMES)) > 0;) {
        bool known = count == FRAMES && bytes[MECHANISM] == 5 &&
                     memcmp(frames[MECHANISM], "CURVE", 5) == 0 && bytes[KEY] == sizeof s->key &&
                     memcmp(frames[KEY], s->key, sizeof s->key) == 0;
        size_t number = count > NUMBER && bytes[NUMBER] <= 64 ? bytes[NUMBER] : 0;
        zmq_send(s->zap, "1.0", 3, ZMQ_SNDMORE);
        zmq_send(s->zap, frames[NUMBER], number, ZMQ_SNDMORE);
        zmq_send(s->zap, known ? "200" : "400", 3, ZMQ_SNDMORE);
        zmq_send(s->zap, "", 0, ZMQ_SNDMORE);
        zmq_send(s->zap, "", 0, ZMQ_SNDMORE);
        zmq_send(s->zap, "", 0, 0);
    }
}

uint32_t socket_refusals(struct node_socket *s, bool *final)
{
    char frames[2][64];
    size_t bytes[2];
    uint32_t count = 0;
    for (; frames_read(s->monitor, frames, bytes, 2) > 0; count++) {
        uint16_t event; // the first frame is the event and a value of 32 bits
        memcpy(&event, frames[0], sizeof event);
        *final |= event != ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL;
    }
    return count;
}
