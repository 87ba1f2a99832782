// SPDX-License-Identifier: Apache-2.0
// The channel's state and its thread; see channel.h. `lock` guards everything but the sockets,
// which only the thread uses. The thread never waits while it holds the lock.
#include "cluster/parcel.h"
#include "cluster/socket.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/waker.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum {
    TICK_MS = 1000,     // time between two pings
    MEET_TICK_MS = 100, // time between two pings until the nodes have met
    LINGER_MS = 1000,   // time limit of the receipts of END, and then of the last messages
    LANE_LETTERS = 64,  // most messages that wait in a lane; nodes work in lockstep
    REFUSALS_MAX = 3,   // handshakes that may fail before this node stops trying
    IDENTITY_MAX = 255,
};

struct peer { // another node; nodes other than node 0 have only the peer node 0
    bool joined;
    bool done; // true if it knows that the group has ended, with or without a fault
    bool gone; // true if its connection is closed; messages that it sent before may be unread
    uint8_t identity[IDENTITY_MAX]; // node 0: address of its connection
    size_t identity_bytes;
    uint64_t heard_ns;                  // time of its last message
    struct parcel *hello;               // node 0: its HELLO, until the nodes have met
    uint64_t steps[MESSAGE_MODELS_MAX]; // node 0: last step of each model that it has started
};

enum channel_stage { STAGE_MEETING, STAGE_MET, STAGE_ENDED, STAGE_FAILED };

struct channel {
    struct channel_options options;
    struct node_socket socket;
    struct waker *waker;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t moved; // signaled when a lane, a peer or the stage has changed
    // guarded by `lock`
    enum channel_stage stage;
    struct error err; // STAGE_FAILED
    bool end_sent;    // true if this node has sent END, REFUSE or FAULT, whose receipt the nodes
                      // confirm
    bool closing, reported, left;     // thread must end; `lost` was called; `leave` must be called
    bool stopped[MESSAGE_MODELS_MAX]; // data lanes
    struct facts facts;               // not node 0: for HELLO; NULL until channel_meet
    bool hello_sent;
    struct peer peers[NODES_MAX];
    uint64_t steps[MESSAGE_MODELS_MAX]; // last step of each model that this node has started
    struct parcels out;
    struct parcels lanes[NODES_MAX][MESSAGE_MODELS_MAX][LANES];
    uint32_t refusals;
};

// Returns a message to send, or NULL if there is no memory.
static struct parcel *parcel_make(const struct channel *c, enum message_kind kind, uint32_t model,
                                  uint64_t number, const struct channel_part *parts, uint32_t count)
{
    struct parcel *parcel = heap_alloc_zeroed(1, sizeof *parcel);
    size_t bytes = sizeof(struct message_head);
    for (uint32_t i = 0; i < count; i++)
        bytes += parts[i].bytes;
    if (zmq_msg_init_size(&parcel->frame, bytes) != 0) {
        heap_free(parcel);
        return NULL;
    }
    char *to = zmq_msg_data(&parcel->frame);
    message_head_write(to, kind, c->options.node, model, number);
    to += sizeof(struct message_head);
    for (uint32_t i = 0; i < count; i++) {
        if (parts[i].bytes > 0)
            memcpy(to, parts[i].at, parts[i].bytes);
        to += parts[i].bytes;
    }
    parcel->to = c->options.node == 0 ? ALL_NODES : 0;
    return parcel;
}

// Queues a message without a model. The caller holds the lock and wakes the thread.
static void group_message_push(struct channel *c, enum message_kind kind, int to,
                               struct text payload)
{
    const struct channel_part part = {payload.at, payload.bytes};
    struct parcel *parcel = parcel_make(c, kind, 0, 0, &part, 1);
    if (!parcel)
        return;
    parcel->to = to;
    parcels_push(&c->out, parcel);
}

// Ends the channel with a fault; the caller holds the lock.
static void group_fail(struct channel *c, const struct error *err)
{
    if (c->stage >= STAGE_ENDED)
        return;
    c->stage = STAGE_FAILED;
    c->err = *err;
    c->err.status = STATUS_DEVICE_FAULT;
    c->end_sent = true;
    size_t bytes = strlen(err->text);
    bytes = bytes < MESSAGE_SENTENCE_MAX ? bytes : MESSAGE_SENTENCE_MAX;
    group_message_push(c, MESSAGE_FAULT, c->options.node == 0 ? ALL_NODES : 0,
                       text_span(err->text, bytes));
    pthread_cond_broadcast(&c->moved);
    waker_raise(c->waker);
}

static const char *node_words(const struct channel *c, uint32_t node)
{
    return c->options.words[node];
}

// Handles the end of the connection to a node; the caller holds the lock.
static void peer_lost(struct channel *c, uint32_t node)
{
    struct peer *peer = &c->peers[node];
    struct error err;
    double silent = (double)(clock_ns() - peer->heard_ns) * 1e-9;
    if (!peer->joined)
        return;
    peer->joined = false;
    pthread_cond_broadcast(&c->moved);
    if (c->stage == STAGE_MEETING) { // it may come again
        parcel_free(peer->hello);
        peer->hello = NULL;
        c->hello_sent = false;
        return;
    }
    if (silent > 0.8 * c->options.heartbeat_s)
        error_set(&err, STATUS_DEVICE_FAULT,
                  "%s has not responded for %.1f s (--heartbeat-timeout %g): it is stopped, or the "
                  "network between the nodes is down",
                  node_words(c, node), silent, c->options.heartbeat_s);
    else
        error_set(&err, STATUS_DEVICE_FAULT, "%s closed its connection: its process has ended",
                  node_words(c, node));
    group_fail(c, &err);
}

// Sends a frame to a node without waiting. Returns false if there is no connection to it.
static bool frame_send(struct channel *c, uint32_t node, zmq_msg_t *frame)
{
    const struct peer *peer = &c->peers[node];
    zmq_msg_t copy;
    zmq_msg_init(&copy);
    bool sent = zmq_msg_copy(&copy, frame) == 0;
    if (sent && c->options.node == 0)
        sent = zmq_send(c->socket.socket, peer->identity, peer->identity_bytes,
                        ZMQ_SNDMORE | ZMQ_DONTWAIT) >= 0;
    sent = sent && zmq_msg_send(&copy, c->socket.socket, ZMQ_DONTWAIT) >= 0;
    zmq_msg_close(&copy);
    return sent;
}

// Sends a queued message; the caller holds the lock.
static void parcel_send(struct channel *c, struct parcel *parcel)
{
    for (uint32_t node = 0; node < c->options.nodes; node++) {
        bool wanted =
            parcel->to == ALL_NODES ? (int)node != parcel->except : (int)node == parcel->to;
        if (wanted && node != c->options.node && c->peers[node].joined &&
            !frame_send(c, node, &parcel->frame))
            c->peers[node].gone = true;
    }
    parcel_free(parcel);
}

// Node 0 only: finds the node of a connection. Returns `nodes` if it has none.
static uint32_t peer_find(const struct channel *c, const uint8_t *identity, size_t bytes)
{
    uint32_t node = 1;
    while (node < c->options.nodes &&
           !(c->peers[node].joined && c->peers[node].identity_bytes == bytes &&
             memcmp(c->peers[node].identity, identity, bytes) == 0))
        node++;
    return node;
}

// Sends a REFUSE to a connection that is no node's.
static void connection_refuse(struct channel *c, const uint8_t *identity, size_t bytes,
                              const char *sentence)
{
    const struct channel_part part = {sentence, strlen(sentence)};
    struct parcel *parcel = parcel_make(c, MESSAGE_REFUSE, 0, 0, &part, 1);
    if (parcel && zmq_send(c->socket.socket, identity, bytes, ZMQ_SNDMORE | ZMQ_DONTWAIT) >= 0)
        zmq_msg_send(&parcel->frame, c->socket.socket, ZMQ_DONTWAIT);
    parcel_free(parcel);
}

// Node 0: handles a message of a connection that is no node's yet, and owns the parcel.
static void hello_handle(struct channel *c, const uint8_t *identity, size_t bytes,
                         struct parcel *parcel)
{
    uint32_t node = parcel->message.head.origin;
    struct peer *peer = &c->peers[node];
    char sentence[200] = "";
    if (parcel->message.head.kind != MESSAGE_HELLO || node == 0)
        snprintf(sentence, sizeof sentence, "the group of node 0 does not know this process");
    else if (c->stage != STAGE_MEETING)
        snprintf(sentence, sizeof sentence, "the group of node 0 is complete or has ended");
    else if (peer->joined)
        snprintf(sentence, sizeof sentence,
                 "another process with --node-rank %u is connected to node 0", node);
    if (sentence[0]) {
        connection_refuse(c, identity, bytes, sentence);
        parcel_free(parcel);
        return;
    }
    peer->joined = true;
    memcpy(peer->identity, identity, bytes);
    peer->identity_bytes = bytes;
    peer->heard_ns = clock_ns();
    peer->hello = parcel;
    log_line(LOG_INFO, "%s is connected", node_words(c, node));
    pthread_cond_broadcast(&c->moved);
}

// Returns the fault of a message that its sender may not send now, or NULL.
static const char *message_fault(const struct channel *c, uint32_t from,
                                 const struct node_message *m)
{
    bool leads = c->options.node == 0;
    switch (m->head.kind) {
    case MESSAGE_HELLO:
        return "a second HELLO";
    case MESSAGE_READY:
    case MESSAGE_RESULT:
    case MESSAGE_LEAVE:
        if (!leads)
            return "a message that only node 0 gets";
        return c->stage == STAGE_MEETING ? "a message before the nodes have met" : NULL;
    case MESSAGE_WELCOME:
    case MESSAGE_REFUSE:
        return !leads && c->stage == STAGE_MEETING ? NULL : "a late WELCOME or REFUSE";
    case MESSAGE_LAUNCH:
    case MESSAGE_SAMPLE:
        if (leads)
            return "a message that only node 0 sends";
        return c->stage == STAGE_MEETING ? "a message before the nodes have met" : NULL;
    case MESSAGE_DATA:
        if (c->stage == STAGE_MEETING)
            return "DATA before the nodes have met";
        if (m->head.origin == c->options.node)
            return "DATA of this node";
        return leads && m->head.origin != from ? "DATA of another node" : NULL;
    default:
        return NULL;
    }
}

// Puts a message into the lane of its reader; node 0 also forwards DATA to the other nodes. Owns
// the parcel.
static void letter_file(struct channel *c, uint32_t from, struct parcel *parcel)
{
    const struct message_head *head = &parcel->message.head;
    bool data = head->kind == MESSAGE_DATA;
    struct parcels *lane =
        &c->lanes[data ? head->origin : from][head->model][data ? LANE_DATA : LANE_CONTROL];
    if (lane->count == LANE_LETTERS) {
        struct error err;
        error_set(&err, STATUS_DEVICE_FAULT, "%s sent more than %d messages before they were read",
                  node_words(c, from), LANE_LETTERS);
        group_fail(c, &err);
        parcel_free(parcel);
        return;
    }
    if (data && c->options.node == 0 && c->options.nodes > 2) {
        struct parcel *copy = heap_alloc_zeroed(1, sizeof *copy);
        zmq_msg_init(&copy->frame);
        zmq_msg_copy(&copy->frame, &parcel->frame);
        copy->to = ALL_NODES;
        copy->except = (int)from;
        parcels_push(&c->out, copy);
    }
    parcels_push(lane, parcel);
    pthread_cond_broadcast(&c->moved);
}

// Handles a message of a node and owns the parcel. The caller holds the lock.
static void message_handle(struct channel *c, uint32_t from, struct parcel *parcel)
{
    const struct node_message *m = &parcel->message;
    const char *wrong = message_fault(c, from, m);
    struct text sentence = message_sentence(m);
    struct error err;
    bool over = m->head.kind == MESSAGE_END || m->head.kind == MESSAGE_FAULT ||
                m->head.kind == MESSAGE_REFUSE;
    c->peers[from].heard_ns = clock_ns();
    c->peers[from].done |= over;
    if (over && c->options.node > 0)
        group_message_push(c, MESSAGE_END, 0, text_of("")); // confirms it
    if (wrong) {
        error_set(&err, STATUS_DEVICE_FAULT, "%s sends %s", node_words(c, from), wrong);
        group_fail(c, &err);
    } else if (m->head.kind == MESSAGE_WELCOME) {
        c->stage = STAGE_MET;
    } else if (m->head.kind == MESSAGE_REFUSE) {
        error_set(&err, STATUS_INVALID, "node 0 refuses: %.*s", (int)sentence.bytes, sentence.at);
        group_fail(c, &err);
    } else if (m->head.kind == MESSAGE_FAULT) {
        error_set(&err, STATUS_DEVICE_FAULT, "%s reports: %.*s", node_words(c, from),
                  (int)sentence.bytes, sentence.at);
        group_fail(c, &err);
    } else if (m->head.kind == MESSAGE_LEAVE) {
        c->left = true;
    } else if (m->head.kind == MESSAGE_END && c->stage == STAGE_MET && c->options.node > 0) {
        c->stage = STAGE_ENDED;
    } else if (m->head.kind == MESSAGE_PING) {
        c->peers[from].steps[m->head.model] = m->head.number;
    } else if (m->head.kind != MESSAGE_END) {
        letter_file(c, from, parcel);
        return;
    }
    parcel_free(parcel);
    pthread_cond_broadcast(&c->moved);
}

// Receives one message. Returns false if none waits.
static bool message_receive(struct channel *c)
{
    uint8_t identity[IDENTITY_MAX];
    int bytes = 0;
    struct error err;
    struct parcel *parcel = heap_alloc_zeroed(1, sizeof *parcel);
    zmq_msg_init(&parcel->frame);
    if (c->options.node == 0)
        bytes = zmq_recv(c->socket.socket, identity, sizeof identity, ZMQ_DONTWAIT);
    if (bytes < 0 || zmq_msg_recv(&parcel->frame, c->socket.socket, ZMQ_DONTWAIT) < 0) {
        parcel_free(parcel);
        return false;
    }
    bool several = zmq_msg_more(&parcel->frame);
    for (bool more = several; more;) { // no message of weft has further frames
        zmq_msg_t frame;
        zmq_msg_init(&frame);
        more = zmq_msg_recv(&frame, c->socket.socket, ZMQ_DONTWAIT) >= 0 && zmq_msg_more(&frame);
        zmq_msg_close(&frame);
    }
    enum status status = several ? error_set(&err, STATUS_INVALID, "a message has several frames")
                                 : message_parse(&parcel->message, zmq_msg_data(&parcel->frame),
                                                 zmq_msg_size(&parcel->frame), c->options.nodes,
                                                 c->options.models, &err);
    pthread_mutex_lock(&c->lock);
    uint32_t from = c->options.node == 0 ? peer_find(c, identity, (size_t)bytes) : 0;
    if (status == STATUS_OK && from < c->options.nodes) {
        message_handle(c, from, parcel);
    } else if (status == STATUS_OK) {
        hello_handle(c, identity, (size_t)bytes, parcel);
    } else if (from < c->options.nodes && c->peers[from].joined) {
        error_prefix(&err, "%s", node_words(c, from));
        group_fail(c, &err);
        parcel_free(parcel);
    } else { // a connection that is no node's
        if (c->options.node == 0)
            connection_refuse(c, identity, (size_t)bytes, "node 0 cannot read the first message");
        parcel_free(parcel);
    }
    pthread_mutex_unlock(&c->lock);
    return true;
}

// Not node 0: sends HELLO once there is a connection. The caller holds the lock.
static void hello_try(struct channel *c)
{
    const struct hello_head head = {MESSAGE_VERSION, c->options.nodes};
    const struct channel_part parts[] = {{&head, sizeof head}, {c->facts.at, c->facts.bytes}};
    if (c->options.node == 0 || !c->facts.at || c->hello_sent || c->stage != STAGE_MEETING)
        return;
    struct parcel *parcel = parcel_make(c, MESSAGE_HELLO, 0, 0, parts, 2);
    if (!parcel)
        return;
    c->peers[0].joined = c->hello_sent = frame_send(c, 0, &parcel->frame);
    c->peers[0].heard_ns = clock_ns();
    parcel_free(parcel);
}

// Queues pings: node 0 one, the others one per model with its last step. The caller holds the lock.
static void pings_post(struct channel *c)
{
    for (uint32_t m = 0; m < c->options.models; m++) {
        struct parcel *parcel = parcel_make(c, MESSAGE_PING, m, c->steps[m], NULL, 0);
        if (parcel)
            parcels_push(&c->out, parcel);
        if (c->options.node == 0)
            return;
    }
}

// Sends HELLO and queues pings: sending one detects a connection that was closed. Also handles
// failed handshakes. The caller holds the lock.
static void peers_ping(struct channel *c)
{
    struct error err;
    hello_try(c);
    pings_post(c);
    bool final = false;
    uint32_t refused = socket_refusals(&c->socket, &final);
    if (refused > 0 && c->options.node == 0)
        log_line(
            LOG_WARNING,
            "a connection to the port of the nodes was refused: it has another secret or none, "
            "or its program is not weft");
    c->refusals += refused;
    if (c->options.node > 0 && c->stage == STAGE_MEETING &&
        (final || c->refusals >= REFUSALS_MAX)) {
        error_set(&err, STATUS_REFUSED,
                  "node 0 at %s does not accept the connection: give all nodes the same "
                  "--cluster-secret-file, or find out which program listens there",
                  c->socket.endpoint);
        group_fail(c, &err);
    }
}

// Handles connections that are closed, after the last messages of their nodes: one of them may be
// the end of the group.
static void peers_check(struct channel *c)
{
    bool gone = false;
    for (uint32_t node = 0; node < c->options.nodes; node++) // only this thread changes `gone`
        gone |= c->peers[node].gone;
    if (!gone)
        return;
    while (message_receive(c))
        ;
    pthread_mutex_lock(&c->lock);
    for (uint32_t node = 0; node < c->options.nodes; node++) {
        if (c->peers[node].gone)
            peer_lost(c, node);
        c->peers[node].gone = false;
    }
    pthread_mutex_unlock(&c->lock);
}

// Calls `lost` after the first fault and `leave` after a LEAVE, without the lock.
static void callbacks_call(struct channel *c)
{
    pthread_mutex_lock(&c->lock);
    bool lost = c->stage == STAGE_FAILED && !c->reported, left = c->left;
    struct error err = c->err;
    c->reported |= lost;
    c->left = false;
    pthread_mutex_unlock(&c->lock);
    if (lost && c->options.lost)
        c->options.lost(c->options.context, &err);
    if (left && c->options.leave)
        c->options.leave(c->options.context);
}

static void *channel_main(void *argument)
{
    struct channel *c = argument;
    uint64_t next = 0;
    bool closing = false;
    pthread_setname_np(pthread_self(), "weft-nodes");
    while (!closing) {
        zmq_pollitem_t items[] = {{c->socket.socket, 0, ZMQ_POLLIN, 0},
                                  {NULL, waker_fd(c->waker), ZMQ_POLLIN, 0},
                                  {c->socket.zap, 0, ZMQ_POLLIN, 0}};
        uint64_t now = clock_ns();
        long wait_ms = now >= next ? 0 : (long)((next - now) / 1000000 + 1);
        zmq_poll(items, c->socket.zap ? 3 : 2, wait_ms);
        waker_clear(c->waker);
        socket_zap_answer(&c->socket);
        while (message_receive(c))
            ;
        pthread_mutex_lock(&c->lock);
        closing = c->closing;
        if (clock_ns() >= next) {
            peers_ping(c);
            bool slow = c->stage != STAGE_MEETING;
            next = clock_ns() + (slow ? TICK_MS : MEET_TICK_MS) * 1000000ull;
        }
        for (struct parcel *parcel; (parcel = parcels_pop(&c->out));)
            parcel_send(c, parcel);
        pthread_mutex_unlock(&c->lock);
        peers_check(c);
        callbacks_call(c);
    }
    return NULL;
}

static void channel_free(struct channel *c)
{
    parcels_clear(&c->out);
    for (uint32_t n = 0; n < NODES_MAX; n++) {
        parcel_free(c->peers[n].hello);
        for (uint32_t m = 0; m < MESSAGE_MODELS_MAX; m++)
            for (int lane = 0; lane < LANES; lane++)
                parcels_clear(&c->lanes[n][m][lane]);
    }
    facts_free(&c->facts);
    waker_close(c->waker);
    pthread_cond_destroy(&c->moved);
    pthread_mutex_destroy(&c->lock);
    heap_free(c);
}

enum status channel_open(struct channel **out, const struct channel_options *options,
                         struct error *err)
{
    struct channel *c = heap_alloc_zeroed(1, sizeof *c);
    pthread_condattr_t monotonic;
    check(options->models <= MESSAGE_MODELS_MAX && options->nodes <= NODES_MAX, "%u models",
          options->models);
    c->options = *options;
    pthread_mutex_init(&c->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&c->moved, &monotonic);
    pthread_condattr_destroy(&monotonic);
    enum status status = waker_open(&c->waker, err);
    if (status == STATUS_OK)
        status = socket_open(&c->socket, options, err);
    if (status == STATUS_OK) {
        int failed = pthread_create(&c->thread, NULL, channel_main, c);
        if (failed != 0) {
            status = error_thread(err, failed, "the thread of the nodes");
            socket_close(&c->socket, 0);
        }
    }
    if (status != STATUS_OK) {
        channel_free(c);
        return status;
    }
    *out = c;
    return STATUS_OK;
}

// Waits for a change of a lane, a peer or the stage. Returns false at until_ns (CLOCK_MONOTONIC;
// UINT64_MAX: no limit). The caller holds the lock.
static bool change_await(struct channel *c, uint64_t until_ns)
{
    struct timespec until = {(time_t)(until_ns / 1000000000u), (long)(until_ns % 1000000000u)};
    if (until_ns == UINT64_MAX)
        return pthread_cond_wait(&c->moved, &c->lock) == 0;
    return pthread_cond_timedwait(&c->moved, &c->lock, &until) != ETIMEDOUT;
}

// Returns true if a node that is connected has not confirmed the end of the group.
static bool peers_unaware(const struct channel *c)
{
    bool unaware = false;
    for (uint32_t node = 0; node < c->options.nodes; node++)
        unaware |= c->peers[node].joined && !c->peers[node].done;
    return c->end_sent && unaware;
}

void channel_end(struct channel *c, bool ended)
{
    struct error err;
    uint64_t until = clock_ns() + LINGER_MS * 1000000ull;
    pthread_mutex_lock(&c->lock);
    bool again = c->closing;
    if (ended && c->stage == STAGE_MET && c->options.node == 0) {
        c->stage = STAGE_ENDED;
        c->end_sent = true;
        group_message_push(c, MESSAGE_END, ALL_NODES, text_of(""));
    }
    waker_raise(c->waker);
    while (!again && peers_unaware(c) && change_await(c, until))
        ;
    c->closing = true;
    waker_raise(c->waker);
    pthread_mutex_unlock(&c->lock);
    if (again)
        return;
    pthread_join(c->thread, NULL);
    socket_close(&c->socket, LINGER_MS);
    error_set(&err, STATUS_DEVICE_FAULT, "the connections between the nodes are closed");
    channel_fail(c, &err); // wakes the readers if the group did not end
}

void channel_close(struct channel *c)
{
    if (!c)
        return;
    channel_end(c, false);
    channel_free(c);
}

// Node 0: compares the HELLOs of all nodes after all have arrived. The caller holds the lock.
static enum status nodes_compare(struct channel *c, const struct facts *facts, struct error *err)
{
    enum status status = STATUS_OK;
    for (uint32_t node = 1; node < c->options.nodes && status == STATUS_OK; node++)
        status = hello_compare(facts, c->options.nodes, &c->peers[node].hello->message,
                               node_words(c, node), err);
    for (uint32_t node = 1; node < c->options.nodes; node++) {
        parcel_free(c->peers[node].hello);
        c->peers[node].hello = NULL;
    }
    if (status == STATUS_OK) {
        c->stage = STAGE_MET;
        group_message_push(c, MESSAGE_WELCOME, ALL_NODES, text_of(""));
    } else {
        size_t bytes = strnlen(err->text, MESSAGE_SENTENCE_MAX);
        group_message_push(c, MESSAGE_REFUSE, ALL_NODES, text_span(err->text, bytes));
        c->end_sent = true;
    }
    waker_raise(c->waker);
    return status;
}

static uint32_t peer_missing(const struct channel *c)
{
    uint32_t node = c->options.node == 0 ? 1 : 0;
    while (c->options.node == 0 && node < c->options.nodes && c->peers[node].joined)
        node++;
    return node;
}

enum status channel_meet(struct channel *c, const struct facts *facts, double seconds,
                         struct error *err)
{
    uint64_t until = clock_ns() + (uint64_t)(seconds * 1e9);
    enum status status = STATUS_OK;
    bool leads = c->options.node == 0;
    pthread_mutex_lock(&c->lock);
    struct text rest = {facts->at, facts->bytes}, name, value;
    while (!leads && facts_next(&rest, &name, &value))
        facts_add(&c->facts, name.at, value.at);
    waker_raise(c->waker);
    bool in_time = true;
    while (c->stage == STAGE_MEETING && in_time && !(leads && peer_missing(c) == c->options.nodes))
        in_time = change_await(c, until);
    if (c->stage == STAGE_FAILED) {
        *err = c->err;
        status = err->status;
    } else if (!in_time && !leads && c->peers[0].joined) {
        status = error_set(err, STATUS_TIMEOUT,
                           "%s has connected to %s, but not all other nodes have within %g s: node "
                           "0 names the first that is missing",
                           node_words(c, c->options.node), c->socket.endpoint, seconds);
    } else if (!in_time) {
        status = error_set(err, STATUS_TIMEOUT, "%s has not connected to %s within %g s",
                           leads ? node_words(c, peer_missing(c)) : node_words(c, c->options.node),
                           c->socket.endpoint, seconds);
    } else if (leads) {
        status = nodes_compare(c, facts, err);
    }
    pthread_mutex_unlock(&c->lock);
    return status;
}

// Returns OK while the channel works, else sets the error. The caller holds the lock.
static enum status stage_check(const struct channel *c, struct error *err)
{
    if (c->stage == STAGE_FAILED) {
        *err = c->err;
        return err->status;
    }
    return c->stage == STAGE_ENDED ? error_set(err, STATUS_UNWANTED, "the group has ended")
                                   : STATUS_OK;
}

enum status channel_send(struct channel *c, enum message_kind kind, uint32_t model, uint64_t number,
                         const struct channel_part *parts, uint32_t count, struct error *err)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < count; i++)
        bytes += parts[i].bytes;
    if (bytes > MESSAGE_BYTES_MAX)
        return error_set(err, STATUS_TOO_LARGE,
                         "a message to the nodes has %zu bytes and may have %d: lower "
                         "--max-num-seqs",
                         bytes, MESSAGE_BYTES_MAX);
    struct parcel *parcel = parcel_make(c, kind, model, number, parts, count);
    if (!parcel)
        return error_set(err, STATUS_NO_MEMORY, "no memory for a message to the nodes");
    pthread_mutex_lock(&c->lock);
    enum status status = stage_check(c, err);
    if (status == STATUS_OK) {
        parcels_push(&c->out, parcel);
        waker_raise(c->waker);
    } else {
        parcel_free(parcel);
    }
    pthread_mutex_unlock(&c->lock);
    return status;
}

enum status channel_receive(struct channel *c, uint32_t from, uint32_t model,
                            enum channel_lane lane, uint64_t deadline_ns,
                            struct channel_letter *out, struct error *err)
{
    struct parcels *queue = &c->lanes[from][model][lane];
    struct parcel *parcel = NULL;
    bool in_time = true;
    enum status status;
    pthread_mutex_lock(&c->lock);
    while ((status = stage_check(c, err)) == STATUS_OK && in_time &&
           !(lane == LANE_DATA && c->stopped[model]) && !(parcel = parcels_pop(queue)))
        in_time = change_await(c, deadline_ns);
    if (status == STATUS_OK && !parcel)
        status = in_time ? error_set(err, STATUS_DEVICE_FAULT, "the step was cancelled")
                         : error_set(err, STATUS_TIMEOUT, "%s did not respond in time",
                                     node_words(c, from));
    pthread_mutex_unlock(&c->lock);
    if (parcel)
        *out = (struct channel_letter){parcel->message, parcel};
    return status;
}

void channel_letter_free(struct channel_letter *letter)
{
    parcel_free(letter->frame);
    letter->frame = NULL;
}

void channel_stop(struct channel *c, uint32_t model)
{
    pthread_mutex_lock(&c->lock);
    c->stopped[model] = true;
    pthread_cond_broadcast(&c->moved);
    pthread_mutex_unlock(&c->lock);
}

void channel_fail(struct channel *c, const struct error *err)
{
    pthread_mutex_lock(&c->lock);
    group_fail(c, err);
    pthread_mutex_unlock(&c->lock);
}

bool channel_failed(struct channel *c, struct error *err)
{
    pthread_mutex_lock(&c->lock);
    bool failed = c->stage == STAGE_FAILED;
    if (failed)
        *err = c->err;
    pthread_mutex_unlock(&c->lock);
    return failed;
}

void channel_leave(struct channel *c)
{
    pthread_mutex_lock(&c->lock);
    if (c->options.node > 0 && c->stage == STAGE_MET)
        group_message_push(c, MESSAGE_LEAVE, 0, text_of(""));
    waker_raise(c->waker);
    pthread_mutex_unlock(&c->lock);
}

bool channel_ended(struct channel *c)
{
    pthread_mutex_lock(&c->lock);
    bool ended = c->stage == STAGE_ENDED;
    pthread_mutex_unlock(&c->lock);
    return ended;
}

void channel_step_started(struct channel *c, uint32_t model, uint64_t step)
{
    pthread_mutex_lock(&c->lock);
    c->steps[model] = step;
    pthread_mutex_unlock(&c->lock);
}

uint64_t channel_step_of(struct channel *c, uint32_t node, uint32_t model)
{
    pthread_mutex_lock(&c->lock);
    uint64_t step = c->peers[node].steps[model];
    pthread_mutex_unlock(&c->lock);
    return step;
}
