// SPDX-License-Identifier: Apache-2.0
// KV events over ZeroMQ, read as vLLM documents it for subscribers: batches in the order of their
// sequence numbers; after a gap the missing ones are requested again; BlockStored adds a block,
// BlockRemoved removes it, AllBlocksCleared removes all. The result equals the engine's prefix
// table. The reader of msgpack here follows the specification and shares nothing with the writer.
#include "cli/kv_publish.h"
#include "scheduler/kv_events.h"
#include "tests/scheduler/rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

#include <cmocka.h>

enum { BLOCKS = 40, STEPS = 10000, KNOWN_MAX = 4096, TOKENS = 16, WAIT_MS = 120000 };

struct known { // a cached block according to the events
    uint64_t hash, parent;
    bool first;
    int32_t tokens[TOKENS];
};

struct reader {
    void *context, *sub, *replay;
    uint32_t port;
    int64_t last; // number of the last batch read; -1: none
    struct known known[KNOWN_MAX];
    uint32_t count;
    uint64_t stored, removed, cleared, gaps, replayed;
};

struct cursor {
    const unsigned char *at, *end;
};

static uint64_t number(struct cursor *c, int bytes)
{
    uint64_t value = 0;
    assert_true(c->end - c->at >= bytes);
    while (bytes-- > 0)
        value = value << 8 | *c->at++;
    return value;
}

static uint64_t read_unsigned(struct cursor *c)
{
    uint64_t type = number(c, 1);
    if (type < 0x80)
        return type;
    assert_in_range(type, 0xCC, 0xCF);
    return number(c, 1 << (type - 0xCC));
}

static uint64_t read_head(struct cursor *c, unsigned fix, unsigned sixteen)
{
    uint64_t type = number(c, 1);
    if (type >> 4 == fix)
        return type & 15;
    assert_true(type == sixteen || type == sixteen + 1);
    return number(c, type == sixteen ? 2 : 4);
}

static void read_text(struct cursor *c, char *out, size_t most)
{
    uint64_t type = number(c, 1);
    uint64_t bytes = type >> 5 == 5 ? type & 31 : (assert_int_equal(type, 0xD9), number(c, 1));
    assert_true(bytes < most && (uint64_t)(c->end - c->at) >= bytes);
    memcpy(out, c->at, bytes);
    out[bytes] = '\0';
    c->at += bytes;
}

static bool read_nil(struct cursor *c)
{
    bool nil = *c->at == 0xC0;
    c->at += nil;
    return nil;
}

static struct known *find(struct reader *r, uint64_t hash)
{
    for (uint32_t i = 0; i < r->count; i++)
        if (r->known[i].hash == hash)
            return &r->known[i];
    return NULL;
}

static void stored(struct reader *r, const struct known *block)
{
    assert_null(find(r, block->hash)); // no block is stored twice
    assert_true(r->count < KNOWN_MAX);
    if (!block->first)
        assert_int_not_equal(block->parent, block->hash);
    r->known[r->count++] = *block;
    r->stored++;
}

static void event_read(struct reader *r, struct cursor *c)
{
    char name[32], type[32] = "";
    struct known block = {0};
    uint64_t members = read_head(c, 8, 0xDE);
    for (uint64_t i = 0; i < members; i++) {
        read_text(c, name, sizeof name);
        if (strcmp(name, "type") == 0) {
            read_text(c, type, sizeof type);
        } else if (strcmp(name, "block_hashes") == 0) {
            assert_int_equal(read_head(c, 9, 0xDC), 1);
            block.hash = read_unsigned(c);
        } else if (strcmp(name, "parent_block_hash") == 0) {
            block.first = read_nil(c);
            block.parent = block.first ? 0 : read_unsigned(c);
        } else if (strcmp(name, "token_ids") == 0) {
            assert_int_equal(read_head(c, 9, 0xDC), TOKENS);
            for (int t = 0; t < TOKENS; t++)
                block.tokens[t] = (int32_t)read_unsigned(c);
        } else if (strcmp(name, "block_size") == 0) {
            assert_int_equal(read_unsigned(c), TOKENS);
        } else if (strcmp(name, "medium") == 0) {
            read_text(c, name, sizeof name);
            assert_string_equal(name, "GPU");
        } else {
            assert_true(strcmp(name, "lora_id") == 0 || strcmp(name, "lora_name") == 0);
            assert_true(read_nil(c));
        }
    }
    if (strcmp(type, "BlockStored") == 0) {
        stored(r, &block);
    } else if (strcmp(type, "BlockRemoved") == 0) {
        struct known *gone = find(r, block.hash);
        assert_non_null(gone);
        *gone = r->known[--r->count];
        r->removed++;
    } else {
        assert_string_equal(type, "AllBlocksCleared");
        assert_int_equal(members, 1);
        r->count = 0;
        r->cleared++;
    }
}

static void batch_read(struct reader *r, const void *at, size_t bytes)
{
    struct cursor c = {at, (const unsigned char *)at + bytes};
    assert_int_equal(read_head(&c, 9, 0xDC), 3);
    assert_int_equal(number(&c, 1), 0xCB); // the time
    uint64_t bits = number(&c, 8);
    double seconds;
    memcpy(&seconds, &bits, sizeof seconds);
    assert_true(seconds > 1.7e9);
    for (uint64_t count = read_head(&c, 9, 0xDC); count > 0; count--)
        event_read(r, &c);
    assert_int_equal(read_unsigned(&c), 0); // the rank
    assert_ptr_equal(c.at, c.end);
}

// Receives the next frame; returns false if there is none within the socket's time.
static bool frame_next(void *socket, zmq_msg_t *out)
{
    zmq_msg_init(out);
    return zmq_msg_recv(out, socket, 0) >= 0;
}

static int64_t seq_of(zmq_msg_t *frame)
{
    assert_int_equal(zmq_msg_size(frame), 8);
    struct cursor c = {zmq_msg_data(frame), (unsigned char *)zmq_msg_data(frame) + 8};
    return (int64_t)number(&c, 8);
}

// Requests all batches from r->last + 1 on. The REQ socket adds and removes the empty frame, and
// reads one message per request, as vLLM's example does with a DEALER's frames.
static void replay(struct reader *r)
{
    unsigned char from[8];
    for (int i = 0; i < 8; i++)
        from[i] = (unsigned char)((uint64_t)(r->last + 1) >> 8 * (7 - i));
    zmq_send(r->replay, "", 0, ZMQ_SNDMORE);
    zmq_send(r->replay, from, sizeof from, 0);
    for (int64_t seq = 0; seq >= 0;) {
        zmq_msg_t frames[3];
        for (int i = 0; i < 3; i++) {
            assert_true(frame_next(r->replay, &frames[i]));
            assert_int_equal(zmq_msg_more(&frames[i]), i < 2);
        }
        assert_int_equal(zmq_msg_size(&frames[0]), 0);
        seq = seq_of(&frames[1]);
        if (seq >= 0) {
            assert_int_equal(seq, r->last + 1);
            batch_read(r, zmq_msg_data(&frames[2]), zmq_msg_size(&frames[2]));
            r->last = seq;
            r->replayed++;
        } else {
            assert_int_equal(zmq_msg_size(&frames[2]), 0);
        }
        for (int i = 0; i < 3; i++)
            zmq_msg_close(&frames[i]);
    }
}

// Reads what has been published. A batch after a gap is read after the missing ones.
static void published_read(struct reader *r)
{
    zmq_msg_t topic, seq, batch;
    while (frame_next(r->sub, &topic)) {
        assert_int_equal(zmq_msg_size(&topic), 2);
        assert_memory_equal(zmq_msg_data(&topic), "kv", 2);
        assert_true(frame_next(r->sub, &seq) && frame_next(r->sub, &batch));
        assert_false(zmq_msg_more(&batch));
        int64_t this = seq_of(&seq);
        if (this > r->last + 1) {
            r->gaps++;
            replay(r);
        }
        if (this > r->last) {
            assert_int_equal(this, r->last + 1);
            batch_read(r, zmq_msg_data(&batch), zmq_msg_size(&batch));
            r->last = this;
        }
        zmq_msg_close(&topic);
        zmq_msg_close(&seq);
        zmq_msg_close(&batch);
    }
}

static void sub_open(struct reader *r)
{
    char endpoint[64];
    int now = 0;
    snprintf(endpoint, sizeof endpoint, "tcp://127.0.0.1:%u", r->port);
    r->sub = zmq_socket(r->context, ZMQ_SUB);
    zmq_setsockopt(r->sub, ZMQ_SUBSCRIBE, "kv", 2);
    zmq_setsockopt(r->sub, ZMQ_RCVTIMEO, &now, sizeof now);
    assert_int_equal(zmq_connect(r->sub, endpoint), 0);
}

static void table_compare(struct reader *r, const struct blocks *blocks)
{
    uint32_t cached = 0;
    for (uint32_t i = 0; i < blocks->count; i++) {
        const struct block *b = &blocks->block[i];
        if (!b->in_table || !b->ready)
            continue;
        const struct known *k = find(r, b->hash.low);
        assert_non_null(k);
        assert_memory_equal(k->tokens, &blocks->token[(size_t)i * TOKENS], sizeof k->tokens);
        if (!k->first)
            assert_int_equal(k->parent, b->parent.low);
        cached++;
    }
    assert_int_equal(r->count, cached);
}

// Opens a publisher on two free ports; another process may take one between the look and the bind.
static struct kv_publisher *publisher(struct reader *r)
{
    struct kv_publisher *out = NULL;
    struct error err;
    for (uint32_t port = 20000 + (uint32_t)getpid() % 20000; !out && port < 60000; port += 2) {
        char at[16], again[32];
        snprintf(at, sizeof at, "%u", port);
        snprintf(again, sizeof again, "tcp://127.0.0.1:%u", port + 1);
        const struct kv_publish_options options = {at, again, "kv", 0, TOKENS};
        enum status status = kv_publisher_open(&out, &options, &err);
        assert_true(status == STATUS_OK || status == STATUS_IO);
        r->port = port;
    }
    assert_non_null(out);
    int wait = WAIT_MS;
    char endpoint[64];
    r->context = zmq_ctx_new();
    r->last = -1;
    r->replay = zmq_socket(r->context, ZMQ_DEALER);
    zmq_setsockopt(r->replay, ZMQ_RCVTIMEO, &wait, sizeof wait);
    snprintf(endpoint, sizeof endpoint, "tcp://127.0.0.1:%u", r->port + 1);
    assert_int_equal(zmq_connect(r->replay, endpoint), 0);
    sub_open(r);
    return out;
}

// Returns a number below `limit` from Knuth's generator MMIX.
static uint32_t below(uint64_t *state, uint32_t limit)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33) % limit;
}

// Waits until the publisher has published and kept all events.
static void log_wait(const struct kv_event_log *log)
{
    while (ring_free(&log->ring) <= log->ring.mask)
        usleep(1000);
}

// Prompts of a few families share beginnings; the cache is too small for all, so blocks are evicted
// and sequences preempted. In the middle the reader is away for a while.
static void test_events_rebuild_the_table(void **state)
{
    (void)state;
    static struct reader r;
    struct rig rig;
    struct request *live[4] = {0};
    uint64_t random = 7;
    uint64_t taken = 0;
    rig_defaults(&rig);
    rig.fake.facts.block_count = BLOCKS;
    struct kv_publisher *p = publisher(&r);
    rig.options.kv_events = kv_publisher_log(p);
    rig_open(&rig);
    for (uint32_t step = 0; step < STEPS; step++) {
        for (int i = 0; i < 4; i++) {
            struct token_event event;
            bool ended = !live[i];
            while (live[i] && port_next(rig.port, live[i], &event, NULL))
                ended |= (event.flags & EVENT_LAST) != 0;
            if (!ended)
                continue;
            if (live[i])
                port_free(rig.port, live[i]);
            live[i] = rig_generate(&rig, (int32_t)(below(&random, 6) * 130),
                                   20 + below(&random, 180), 1 + below(&random, 40), 1);
            taken++;
        }
        rig_step(&rig);
        if (step == STEPS / 2)
            zmq_close(r.sub);
        if (step == STEPS / 2 + 500) {
            log_wait(rig.options.kv_events); // published without a subscriber
            sub_open(&r);
            usleep(50000); // most probably connected: a gap; otherwise the last replay is longer
        }
        if ((step < STEPS / 2 || step > STEPS / 2 + 500) && step % 16 == 0)
            published_read(&r);
    }
    log_wait(rig.options.kv_events);
    published_read(&r);
    replay(&r); // sends what the subscriber has not received yet
    table_compare(&r, &rig.engine->blocks);
    assert_int_equal(atomic_load(&rig.options.kv_events->lost), 0);
    print_message("%llu requests: %llu stored, %llu removed, %llu gaps, %llu replayed\n",
                  (unsigned long long)taken, (unsigned long long)r.stored,
                  (unsigned long long)r.removed, (unsigned long long)r.gaps,
                  (unsigned long long)r.replayed);
    assert_true(r.stored > 1000 && r.removed > 1000 && r.replayed > 0 && r.count > 5);
    assert_int_equal(r.cleared, 1);
    for (int i = 0; i < 4; i++)
        port_cancel(rig.port, live[i]);
    for (int i = 0; i < 8; i++)
        rig_step(&rig);
    for (int i = 0; i < 4; i++) {
        struct token_event event;
        while (port_next(rig.port, live[i], &event, NULL))
            ;
        port_free(rig.port, live[i]);
    }
    rig_close(&rig);
    kv_publisher_close(p);
    zmq_close(r.sub);
    zmq_close(r.replay);
    zmq_ctx_term(r.context);
}

// A full ring loses events, but misleads no reader: after AllBlocksCleared it knows fewer blocks.
static void test_a_full_ring(void **state)
{
    (void)state;
    static struct reader r;
    struct kv_event_log *log = kv_event_log_create(TOKENS, 8);
    struct json_buffer out = {0};
    int32_t tokens[TOKENS] = {0};
    for (uint32_t i = 1; i <= 20; i++)
        kv_event_stored(log, &(struct hash){.low = i}, NULL, tokens);
    assert_int_equal(atomic_load(&log->lost), 13); // the first event is AllBlocksCleared
    for (uint32_t count = 1; count > 0; kv_events_done(log, count)) {
        out.bytes = 0;
        count = kv_events_write(log, &out, 2e9, 0, 3);
        if (count > 0)
            batch_read(&r, out.at, out.bytes);
    }
    assert_int_equal(r.count, 7);
    kv_event_stored(log, &(struct hash){.low = UINT64_MAX}, &(struct hash){.low = 7}, tokens);
    kv_event_removed(log, &(struct hash){.low = UINT64_MAX});
    out.bytes = 0;
    assert_int_equal(kv_events_write(log, &out, 2e9, 0, 100), 3);
    batch_read(&r, out.at, out.bytes);
    assert_int_equal(r.count, 0);
    assert_int_equal(r.cleared, 2);
    assert_int_equal(r.removed, 1);
    json_buffer_free(&out);
    kv_event_log_destroy(log);
}

// The engine's statistics contain the events that it lost.
static void test_lost_events_are_counted(void **state)
{
    (void)state;
    struct rig rig;
    struct kv_event_log *log = kv_event_log_create(TOKENS, 2); // its first event is never read
    rig_defaults(&rig);
    rig.options.kv_events = log;
    rig_open(&rig);
    struct request *request = rig_generate(&rig, 0, 10 * TOKENS, 1, 1);
    struct token_event event;
    for (int i = 0; i < 20; i++)
        rig_step(&rig);
    while (port_next(rig.port, request, &event, NULL))
        ;
    port_free(rig.port, request);
    assert_int_equal(engine_stats(rig.engine)->kv_events_lost, 9);
    rig_close(&rig);
    kv_event_log_destroy(log);
}

static void test_addresses_that_are_none(void **state)
{
    (void)state;
    static const char *const wrong[] = {"",      "x",     "0",           "65536",
                                        ":5557", "host:", "tcp://5557x", "5557 "};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct kv_publisher *p;
        struct error err;
        const struct kv_publish_options options = {wrong[i], NULL, "", 0, TOKENS};
        assert_int_equal(kv_publisher_open(&p, &options, &err), STATUS_INVALID);
        assert_non_null(strstr(err.text, "--kv-events must be [HOST:]PORT, got '"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_events_rebuild_the_table),
        cmocka_unit_test(test_a_full_ring),
        cmocka_unit_test(test_lost_events_are_counted),
        cmocka_unit_test(test_addresses_that_are_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
