// SPDX-License-Identifier: Apache-2.0
// Which copy of a model receives a request: the rule, the table of fingerprints (also while another
// thread reads it), and both through the ports of several engines.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/scheduler/rig.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { COPIES = 3, PROMPT = 200 };

static uint32_t chosen(const struct route_copy *copies, uint32_t count, uint64_t tokens)
{
    uint32_t first = route_choose(copies, count, tokens, 0);
    for (uint32_t after = 1; after < 2 * count; after++) // no ties: `after` has no effect
        assert_int_equal(route_choose(copies, count, tokens, after), first);
    return first;
}

static void test_the_least_work_is_chosen(void **state)
{
    (void)state;
    enum { EACH = ROUTE_UNCACHED }; // in the unit of an uncached token
    struct route_copy copies[COPIES] = {
        {.cached = 100, .queued = 300 * EACH}, {0}, {.queued = 50 * EACH}};
    assert_int_equal(chosen(copies, COPIES, 150), 1); // 350, 150, 200
    copies[0].queued = 40 * EACH;
    assert_int_equal(chosen(copies, COPIES, 150), 0); // 90
    copies[1].cached = 70;
    assert_int_equal(chosen(copies, COPIES, 150), 1); // 80
    copies[1].cached = 50;
    assert_int_equal(chosen(copies, COPIES, 150), 0);             // 100
    copies[2] = (struct route_copy){.cached = 1000, .queued = 0}; // limited to the prompt's length
    assert_int_equal(chosen(copies, COPIES, 150), 2);
    copies[2].queued = 90 * EACH + 1;
    assert_int_equal(chosen(copies, COPIES, 150), 0);
}

static void test_ties_are_broken_round_robin(void **state)
{
    (void)state;
    struct route_copy copies[COPIES] = {{0}};
    for (uint32_t after = 0; after < 7; after++)
        assert_int_equal(route_choose(copies, COPIES, 10, after), after % COPIES);
    copies[1].queued = 1;
    for (uint32_t after = 0; after < 7; after++)
        assert_int_equal(route_choose(copies, COPIES, 10, after), after % COPIES == 0 ? 0 : 2);
    assert_int_equal(route_choose(copies, 1, 10, UINT32_MAX), 0);
}

static void test_a_closed_copy_is_chosen_last(void **state)
{
    (void)state;
    struct route_copy copies[COPIES] = {
        {.cached = 10, .closed = true}, {.queued = 1000000}, {.queued = 1000001}};
    assert_int_equal(chosen(copies, COPIES, 10), 1);
    copies[1].closed = true;
    assert_int_equal(chosen(copies, COPIES, 10), 2);
    copies[2].closed = true; // all are closed: the first reports why
    assert_int_equal(chosen(copies, COPIES, 10), 0);
}

static struct hash key_of(uint64_t number)
{
    static const uint64_t secret[2] = {3, 4};
    return hash_bytes(secret, &number, sizeof number);
}

static void test_the_table_finds_keys_that_were_put(void **state)
{
    (void)state;
    enum { BLOCKS = 1000 };
    uint32_t lines = route_lines(BLOCKS), lost = 0, strange = 0;
    struct route_table table = {calloc(lines, sizeof *table.line), lines - 1};
    assert_int_equal(lines, 128); // 128 lines of 16 entries, about half full
    for (uint64_t i = 0; i < BLOCKS; i++) {
        struct hash key = key_of(i);
        route_put(&table, &key);
        assert_true(route_has(&table, &key));
    }
    for (uint64_t i = 0; i < 2 * BLOCKS; i++) {
        struct hash key = key_of(i);
        bool has = route_has(&table, &key);
        lost += i < BLOCKS && !has;
        strange += i >= BLOCKS && has;
    }
    assert_true(lost <= BLOCKS / 50); // lost because a line was full
    assert_int_equal(strange, 0);
    for (uint64_t i = 0; i < BLOCKS; i++) {
        struct hash key = key_of(i);
        route_drop(&table, &key);
        assert_false(route_has(&table, &key));
        route_drop(&table, &key); // dropping an absent key does nothing
    }
    for (uint32_t i = 0; i < lines; i++)
        for (uint32_t way = 0; way < ROUTE_WAYS; way++)
            assert_int_equal(table.line[i].way[way], 0);
    free(table.line);
}

// In a table of one line the newest key is always found, and a key whose fingerprint would be 0
// differs from an empty entry.
static void test_a_full_line_replaces_keys(void **state)
{
    (void)state;
    struct route_line line = {0};
    struct route_table table = {&line, 0};
    for (uint64_t i = 0; i < 100; i++) {
        struct hash key = {0, i << 32 | i};
        assert_true(i > 0 || !route_has(&table, &key)); // an empty entry matches no key
        route_put(&table, &key);
        assert_true(route_has(&table, &key));
    }
}

struct reader {
    struct route_table *table;
    _Atomic bool stop;
    uint64_t found;
};

static void *reader_main(void *argument)
{
    struct reader *r = argument;
    for (uint64_t i = 0; !atomic_load(&r->stop); i++) {
        struct hash key = key_of(i % 400);
        r->found += route_has(r->table, &key);
    }
    return NULL;
}

// For ThreadSanitizer: a reader runs while the engine puts and drops keys. A key that is never
// dropped is always found.
static void test_a_thread_reads_while_the_engine_writes(void **state)
{
    (void)state;
    uint32_t lines = route_lines(400);
    struct route_table table = {calloc(lines, sizeof *table.line), lines - 1};
    struct reader reader = {.table = &table};
    pthread_t thread;
    struct hash stays = key_of(1000);
    route_put(&table, &stays);
    assert_int_equal(pthread_create(&thread, NULL, reader_main, &reader), 0);
    for (uint64_t i = 0; i < 20000; i++) {
        struct hash key = key_of(i % 400), old = key_of((i + 200) % 400);
        route_put(&table, &key);
        route_drop(&table, &old);
        assert_true(route_has(&table, &stays));
    }
    atomic_store(&reader.stop, true);
    pthread_join(thread, NULL);
    free(table.line);
}

// Ports of several engines

struct copies {
    struct rig rig[COPIES];
    struct port *ports[COPIES];
};

static void copies_open(struct copies *c, bool cache)
{
    for (uint32_t i = 0; i < COPIES; i++) {
        rig_defaults(&c->rig[i]);
        c->rig[i].options.prefix_cache = cache;
        rig_open(&c->rig[i]);
        c->ports[i] = c->rig[i].port;
    }
}

static void copies_close(struct copies *c)
{
    for (uint32_t i = 0; i < COPIES; i++)
        rig_close(&c->rig[i]);
}

struct prompt {
    int32_t tokens[PROMPT];
    uint32_t start[2];
    struct submit_args args;
};

static const struct submit_args *prompt_make(struct prompt *p, int32_t first, uint32_t length)
{
    for (uint32_t i = 0; i < length; i++)
        p->tokens[i] = (int32_t)((uint32_t)first + i) % 1000;
    p->start[0] = 0;
    p->start[1] = length;
    p->args = (struct submit_args){.kind = REQUEST_GENERATE,
                                   .tokens = p->tokens,
                                   .token_count = length,
                                   .sequence_count = 1,
                                   .sequence_start = p->start,
                                   .choice_count = 1,
                                   .max_tokens = 1,
                                   .sampling = {.repetition = 1.0f}};
    return &p->args;
}

static void run(struct rig *rig, const struct submit_args *args)
{
    struct request *r = rig_submit(rig, args, ADMITTED);
    struct token_event event = {0};
    for (uint32_t steps = 0; steps < 1000 && !(event.flags & EVENT_LAST); steps++)
        if (!port_next(rig->port, r, &event, NULL))
            rig_step(rig);
    assert_true(event.flags & EVENT_LAST);
    port_free(rig->port, r);
}

static void all_choose(struct copies *c, const struct submit_args *args, uint32_t wanted)
{
    for (uint32_t after = 0; after < COPIES; after++)
        assert_int_equal(port_choose(c->ports, COPIES, args, after), wanted);
}

// A request is sent to the copy that has cached the beginning of its prompt, until that copy's
// queue outweighs the saved work.
static void test_a_prompt_is_sent_to_the_copy_that_cached_it(void **state)
{
    (void)state;
    struct copies c;
    struct prompt p;
    copies_open(&c, true);
    for (uint32_t after = 0; after < COPIES; after++) // no copy has cached anything
        assert_int_equal(port_choose(c.ports, COPIES, prompt_make(&p, 0, 150), after), after);
    run(&c.rig[2], &p.args);
    all_choose(&c, prompt_make(&p, 0, 150), 2);
    all_choose(&c, prompt_make(&p, 0, PROMPT), 2);
    p.tokens[0]++; // a different first block
    assert_int_equal(port_choose(c.ports, COPIES, &p.args, 1), 1);
    prompt_make(&p, 0, 150);
    p.args.cache_salt[1] = 1; // a different cache salt
    assert_int_equal(port_choose(c.ports, COPIES, &p.args, 1), 1);
    prompt_make(&p, 0, 150);
    p.args.cache_owner = 1; // a different owner
    assert_int_equal(port_choose(c.ports, COPIES, &p.args, 1), 1);
    run(&c.rig[0], prompt_make(&p, 0, 40)); // two blocks of the nine
    all_choose(&c, prompt_make(&p, 0, 150), 2);
    struct prompt other;
    static const uint32_t lengths[] = {200, 200, 47, 2};
    enum { QUEUED = sizeof lengths / sizeof *lengths };
    struct request *queued[QUEUED];
    for (int i = 0; i < QUEUED; i++) {
        all_choose(&c, &p.args, 2); // up to 4 * 6 + 447 against 4 * 118
        queued[i] = rig_submit(&c.rig[2], prompt_make(&other, 500, lengths[i]), ADMITTED);
    }
    all_choose(&c, &p.args, 0);
    for (int i = 0; i < QUEUED; i++) {
        struct token_event event = {0};
        while (!(event.flags & EVENT_LAST))
            if (!port_next(c.ports[2], queued[i], &event, NULL))
                rig_step(&c.rig[2]);
        port_free(c.ports[2], queued[i]);
    }
    all_choose(&c, &p.args, 2);
    copies_close(&c);
}

// The route number counts calls for all ports of one engine, and only for that engine.
static void test_ports_share_the_route_number(void **state)
{
    (void)state;
    struct rig rig[2];
    struct port *ports[2][2];
    for (uint32_t i = 0; i < 2; i++) {
        rig_defaults(&rig[i]);
        rig[i].options.port_count = 2;
        rig_open(&rig[i]);
        ports[i][0] = rig[i].port;
        ports[i][1] = engine_port(rig[i].engine, 1, rig[i].waker);
    }
    for (uint32_t turn = 0; turn < 6; turn++)
        assert_int_equal(port_route_number(ports[0][turn % 2]), turn);
    assert_int_equal(port_route_number(ports[1][1]), 0);
    for (uint32_t i = 0; i < 2; i++)
        rig_close(&rig[i]);
}

// The cached tokens of all prompts of a request are added. Evicted blocks no longer count.
static void test_all_prompts_of_a_request_count(void **state)
{
    (void)state;
    struct copies c;
    struct prompt p;
    copies_open(&c, true);
    run(&c.rig[1], prompt_make(&p, 300, 100));
    run(&c.rig[2], prompt_make(&p, 0, 100));
    run(&c.rig[2], prompt_make(&p, 600, 34));
    prompt_make(&p, 0, 50);
    for (uint32_t i = 0; i < 100; i++)
        p.tokens[50 + i] = 300 + (int32_t)i;
    uint32_t start[3] = {0, 50, 150};
    p.args.sequence_start = start;
    p.args.sequence_count = 2;
    p.args.token_count = 150;
    all_choose(&c, &p.args, 1); // 96 tokens against 48
    for (int32_t i = 0; i < 20; i++)
        run(&c.rig[1], prompt_make(&p, 17 * i + 301, PROMPT));
    prompt_make(&p, 300, 100);
    assert_int_equal(port_choose(c.ports, COPIES, &p.args, 0), 0);
    copies_close(&c);
}

// A block implies those before it, so a missing one counts. Blocks after two missing ones do not.
static void test_blocks_count_up_to_a_gap(void **state)
{
    (void)state;
    struct copies c;
    struct prompt p;
    copies_open(&c, true);
    run(&c.rig[2], prompt_make(&p, 0, 150));
    const struct admission_gate *gate = c.ports[2]->gate;
    struct prefix_apart apart = {0};
    struct hash key = prefix_root(gate->secret, &apart);
    struct route_table table = *gate->route;
    uint32_t each = gate->block_tokens;
    for (uint32_t i = 0; i < 2; i++) {
        all_choose(&c, &p.args, 2);
        key = prefix_hash(gate->secret, &key, p.tokens + i * each, each);
        assert_true(route_has(gate->route, &key));
        route_drop(&table, &key);
    }
    for (uint32_t after = 0; after < COPIES; after++)
        assert_int_equal(port_choose(c.ports, COPIES, &p.args, after), after);
    copies_close(&c);
}

// The last token is always computed, so a block that ends with it does not count. At most
// ROUTE_BLOCKS_MAX blocks of a request are looked up.
static void test_lookups_per_request_are_limited(void **state)
{
    (void)state;
    enum { LENGTH = 160, BLOCK = 16, MANY = ROUTE_BLOCKS_MAX / (LENGTH / BLOCK - 1) + 2 };
    struct copies c;
    struct prompt p;
    static int32_t tokens[MANY * LENGTH];
    static uint32_t start[MANY + 1];
    struct route_copy copies[COPIES];
    copies_open(&c, true);
    assert_int_equal(c.ports[1]->gate->route->mask + 1, route_lines(64));
    run(&c.rig[1], prompt_make(&p, 0, LENGTH + 1));
    ports_look_up(copies, c.ports, COPIES, &p.args);
    assert_int_equal(copies[1].cached, LENGTH);
    ports_look_up(copies, c.ports, COPIES, prompt_make(&p, 0, LENGTH));
    assert_int_equal(copies[0].cached, 0);
    assert_int_equal(copies[1].cached, LENGTH - BLOCK);
    for (uint32_t i = 0; i < MANY; i++) {
        memcpy(tokens + (size_t)i * LENGTH, p.tokens, LENGTH * sizeof *tokens);
        start[i + 1] = (i + 1) * LENGTH;
    }
    p.args.tokens = tokens;
    p.args.token_count = MANY * LENGTH;
    p.args.sequence_start = start;
    p.args.sequence_count = MANY;
    ports_look_up(copies, c.ports, COPIES, &p.args);
    assert_int_equal(copies[1].cached, ROUTE_BLOCKS_MAX * BLOCK);
    copies_close(&c);
}

static void test_without_a_cache_only_the_queue_counts(void **state)
{
    (void)state;
    struct copies c;
    struct prompt p;
    copies_open(&c, false);
    run(&c.rig[2], prompt_make(&p, 0, 150));
    for (uint32_t after = 0; after < COPIES; after++)
        assert_int_equal(port_choose(c.ports, COPIES, &p.args, after), after);
    copies_close(&c);
}

// A failed copy is chosen only if no other is left. A copy that was tried before (NULL) is not
// chosen again.
static void test_a_failed_copy_is_not_chosen(void **state)
{
    (void)state;
    struct copies c;
    struct prompt p;
    struct request *none = NULL;
    copies_open(&c, true);
    run(&c.rig[1], prompt_make(&p, 0, 150));
    all_choose(&c, &p.args, 1);
    c.ports[0] = NULL; // was tried before
    all_choose(&c, &p.args, 1);
    c.ports[0] = c.rig[0].port;
    engine_device_failed(c.rig[1].engine);
    for (uint32_t after = 0; after < COPIES; after++)
        assert_int_not_equal(port_choose(c.ports, COPIES, &p.args, after), 1);
    c.ports[0] = c.ports[2] = NULL;
    all_choose(&c, &p.args, 1);
    assert_int_equal(port_submit(c.ports[1], &p.args, &none), ADMISSION_FAILED);
    c.ports[1] = NULL;
    all_choose(&c, &p.args, COPIES);
    copies_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_least_work_is_chosen),
        cmocka_unit_test(test_ties_are_broken_round_robin),
        cmocka_unit_test(test_a_closed_copy_is_chosen_last),
        cmocka_unit_test(test_the_table_finds_keys_that_were_put),
        cmocka_unit_test(test_a_full_line_replaces_keys),
        cmocka_unit_test(test_a_thread_reads_while_the_engine_writes),
        cmocka_unit_test(test_a_prompt_is_sent_to_the_copy_that_cached_it),
        cmocka_unit_test(test_ports_share_the_route_number),
        cmocka_unit_test(test_all_prompts_of_a_request_count),
        cmocka_unit_test(test_blocks_count_up_to_a_gap),
        cmocka_unit_test(test_lookups_per_request_are_limited),
        cmocka_unit_test(test_without_a_cache_only_the_queue_counts),
        cmocka_unit_test(test_a_failed_copy_is_not_chosen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
