// SPDX-License-Identifier: Apache-2.0
// Ports with real threads, for ThreadSanitizer: two h2o threads submit, read (immediately, slowly,
// or so late that rings fill), cancel, free and refill while the engine runs. All results are
// compared with those of the same request on its own. A third of the requests have a grammar to
// which only the request holds a reference. The number of requests per thread is an argument.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/scheduler/rig.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 2, OPEN_MAX = 12, CHOICES = 4, PROMPT_MAX = 60, LOST_MS = 300000, END = 7 };

static uint32_t requests_each = 1500;

struct ticket { // state of one open request of a thread
    struct request *request;
    uint32_t manner; // 0, 1: reads all; 2: one event per iteration; 3: every 64th time
    uint32_t choices, length, finishes, skipped;
    uint32_t cycle; // number of letters of its grammar; 0: none
    bool cancelled, more, cut[CHOICES];
    struct sample_params params;
    struct fake_alone alone[CHOICES];
    uint32_t outputs[CHOICES];
};

struct side { // an h2o thread
    struct port *port;
    struct waker *waker;
    uint32_t vocab, submitted, freed, open;
    uint64_t dice, tokens;
    struct ticket tickets[OPEN_MAX];
};

static uint32_t draw(struct side *side, uint32_t sides)
{
    side->dice = side->dice * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((side->dice >> 33) % sides);
}

static void ticket_submit(struct side *side, struct ticket *t)
{
    int32_t tokens[PROMPT_MAX];
    memset(t, 0, sizeof *t);
    t->length = 1 + draw(side, PROMPT_MAX);
    t->choices = draw(side, 3) == 0 ? 1 + draw(side, CHOICES) : 1;
    t->manner = draw(side, 4);
    t->params = (struct sample_params){.seed = draw(side, 5), .repetition = 1.0f};
    uint32_t family = draw(side, 3);
    for (uint32_t i = 0; i < t->length; i++)
        tokens[i] = (int32_t)((family * 100 + i) % side->vocab);
    uint32_t start[2] = {0, t->length};
    struct submit_args args = {
        .kind = REQUEST_GENERATE,
        .tokens = tokens,
        .token_count = t->length,
        .sequence_count = 1,
        .sequence_start = start,
        .choice_count = t->choices,
        .max_tokens = 1 + draw(side, 120),
        .ignore_end = true,
        .sampling = {.seed = t->params.seed, .repetition = t->params.repetition},
        .owner = t};
    t->cycle = draw(side, 3) == 0 ? 1 + draw(side, 40) : 0;
    args.grammar = t->cycle > 0 ? rig_cycle(t->cycle) : NULL;
    for (uint32_t c = 0; c < t->choices; c++) {
        t->alone[c].type_from = STEP_NO_TYPE;
        for (uint32_t i = 0; i < t->length; i++)
            fake_feed(&t->alone[c], tokens[i]);
    }
    enum admission got = port_submit(side->port, &args, &t->request);
    grammar_unref(args.grammar);
    if (got != ADMITTED) {
        t->request = NULL;
        return;
    }
    side->submitted++;
    side->open++;
}

// Cancels, in one of 100 cases, the choice of the event, as for a stop string.
static void choice_cut(struct side *side, struct ticket *t, const struct token_event *event)
{
    if (event->finish != FINISH_NONE || t->cut[event->choice] || draw(side, 100) != 0)
        return;
    t->cut[event->choice] = true;
    port_cancel_choice(side->port, t->request, event->choice);
}

static int32_t token_expected(const struct side *side, const struct ticket *t,
                              const struct token_event *event)
{
    if (t->cycle > 0)
        return event->index < t->cycle ? (int32_t)(event->index % 7) : END;
    struct sample_params params = t->params;
    params.choice = event->choice;
    params.output_count = event->index;
    return fake_next(&t->alone[event->choice], &params, NULL, NULL, side->vocab);
}

static bool event_take(struct side *side, struct ticket *t)
{
    struct token_event event;
    if (!port_next(side->port, t->request, &event, NULL))
        return false;
    if (event.flags & EVENT_TOKEN) {
        check(event.index == t->outputs[event.choice]++, "token %u", event.index);
        check(event.token == token_expected(side, t, &event), "token %d", event.token);
        fake_feed(&t->alone[event.choice], event.token);
        side->tokens++;
    }
    struct request_facts facts; // may be read at any time while the engine runs
    request_facts_get(t->request, &facts);
    check(!(event.flags & EVENT_TOKEN) || facts.first_token_ns >= facts.started_ns,
          "first token before the start");
    check(event.finish == FINISH_NONE || event.finish == FINISH_LENGTH || t->cancelled ||
              (event.finish == FINISH_STOP && t->cycle > 0 && event.token == END) ||
              t->cut[event.choice],
          "finish %u", event.finish);
    choice_cut(side, t, &event);
    t->finishes += event.finish != FINISH_NONE;
    if (!(event.flags & EVENT_LAST))
        return true;
    check(t->finishes == t->choices, "%u of %u choices", t->finishes, t->choices);
    check(facts.prompt_tokens == t->length, "%u tokens", facts.prompt_tokens);
    port_free(side->port, t->request);
    t->request = NULL;
    side->freed++;
    side->open--;
    return false;
}

static void ticket_read(struct side *side, struct ticket *t)
{
    t->more = false;
    if (t->manner == 2) {
        t->more = event_take(side, t) && t->request;
        return;
    }
    if (t->manner == 3 && !t->cancelled && t->skipped++ % 64 != 63) {
        t->more = true; // the ring fills, and its choices are paused
        return;
    }
    while (event_take(side, t))
        ;
}

static void on_ready(void *context, void *owner, struct request *request)
{
    struct ticket *t = owner;
    check(t->request == request, "news of another request");
    ticket_read(context, t);
}

static void side_turn(struct side *side)
{
    for (uint32_t i = 0; i < OPEN_MAX; i++) {
        struct ticket *t = &side->tickets[i];
        if (t->request && t->more)
            ticket_read(side, t);
        if (!t->request && side->submitted < requests_each)
            ticket_submit(side, t);
        if (t->request && !t->cancelled && draw(side, 400) == 0) {
            t->cancelled = true;
            port_cancel(side->port, t->request);
        }
    }
}

static bool side_has_more(const struct side *side)
{
    bool more =
        side->freed == requests_each || (side->submitted < requests_each && side->open < OPEN_MAX);
    for (uint32_t i = 0; i < OPEN_MAX; i++)
        more = more || (side->tickets[i].request && side->tickets[i].more);
    return more;
}

static void *side_run(void *context)
{
    struct side *side = context;
    struct pollfd sleep = {.fd = waker_fd(side->waker), .events = POLLIN};
    while (side->freed < requests_each) {
        side_turn(side);
        // A thread with no other work relies on the waker.
        int ready = poll(&sleep, 1, side_has_more(side) ? 0 : LOST_MS);
        check(ready > 0 || side_has_more(side), "no news for five minutes with %u requests open",
              side->open);
        if (ready > 0)
            waker_clear(side->waker);
        port_drain(side->port, on_ready, side);
    }
    return NULL;
}

static void *engine_body(void *context)
{
    struct rig *rig = context;
    enum engine_news news = engine_run(rig->engine);
    check(news == ENGINE_IDLE, "the engine ended with %d", news);
    return NULL;
}

static void test_threads_agree(void **state)
{
    (void)state;
    for (uint32_t flight = 0; flight <= 1; flight++) {
        struct rig rig;
        rig_defaults(&rig);
        rig.fake.facts.steps_in_flight = flight;
        rig.fake.facts.block_count = 20; // little more than one sequence: preemptions
        rig.options.port_count = THREADS;
        rig.options.choices_max = CHOICES;
        rig.options.max_queued_requests = 16; // fewer than both threads submit: some are refused
        rig.options.vocabulary = rig_letters(&rig);
        rig_open(&rig);
        vocabulary_unref(rig.options.vocabulary);
        static struct side sides[THREADS];
        pthread_t engine, threads[THREADS];
        memset(sides, 0, sizeof sides);
        for (uint32_t i = 0; i < THREADS; i++) {
            struct error err;
            sides[i].dice = 17 + i;
            sides[i].vocab = rig.fake.facts.vocab;
            check(waker_open(&sides[i].waker, &err) == STATUS_OK, "%s", err.text);
            sides[i].port = engine_port(rig.engine, i, sides[i].waker);
        }
        pthread_create(&engine, NULL, engine_body, &rig);
        for (uint32_t i = 0; i < THREADS; i++)
            pthread_create(&threads[i], NULL, side_run, &sides[i]);
        for (uint32_t i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
        engine_stop(rig.engine);
        pthread_join(engine, NULL);
        const struct engine_stats *stats = engine_stats(rig.engine);
        print_message("%u in flight: %llu tokens, %llu pauses, %llu preemptions, "
                      "%llu masks\n",
                      flight, (unsigned long long)(sides[0].tokens + sides[1].tokens),
                      (unsigned long long)stats->pauses, (unsigned long long)stats->preemptions,
                      (unsigned long long)stats->mask_rows);
        assert_int_equal(stats->requests_submitted, THREADS * requests_each);
        assert_int_equal(stats->blocks_used, 0);
        assert_int_equal(stats->mask_waits, stats->steps_masked + stats->masks_alone);
        assert_int_equal(stats->mask_tokens_refused, 0);
        for (uint32_t i = 0; i < THREADS; i++)
            waker_close(sides[i].waker);
        rig_close(&rig);
    }
}

int main(int argc, char **argv)
{
    if (argc > 1)
        requests_each = (uint32_t)strtoul(argv[1], NULL, 10);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
