// SPDX-License-Identifier: Apache-2.0
// The engine's time per step, without a model: intake, admission, plan, batch, settle, events and
// wakes over a fake model that writes one random token per row. Also the reader's time per event.
// Medians and 99th percentiles. Nothing is asserted; the output is for people.
//
//   bench_engine [steps per figure]
#include "base/arena.h"
#include "scheduler/engine.h"
#include "tests/sim/fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    ROWS_MAX = 256,
    PROMPT = 512,
    CONTEXT = 32768,
    BLOCK = 64,
    BUDGET = 2048,
    VOCAB = 150000,
    LIVE = 65000,     // live requests, most of them queued
    SHARERS = 1024,   // sequences with the same beginning
    SHARED = 1 << 16, // tokens of the shared beginning
    OWN = 64,         // tokens after the shared beginning
};

struct bench {
    struct model *model;
    struct engine *engine;
    struct waker *waker;
    struct port *port;
    uint32_t context, rows_max, blocks, live_max, tokens_max; // settings of the next bench_open
    clockid_t clock; // for long steps the thread's CPU time, as other threads may run
    uint32_t steps;
    uint64_t *step_ns, *read_ns; // [steps]
    int32_t *tokens;             // [SHARED + OWN] tokens of a prompt
    uint64_t events;
};

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int values_compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static double quantile_us(uint64_t *values, uint32_t count, double quantile)
{
    qsort(values, count, sizeof *values, values_compare);
    return (double)values[(uint32_t)((count - 1) * quantile)] * 1e-3;
}

static void bench_open(struct bench *b, uint32_t steps_in_flight)
{
    struct error err;
    struct fake_options fake = {.cheap = true, .text = true};
    struct model_facts *f = &fake.facts;
    f->kind = MODEL_GENERATOR;
    f->paged = true;
    f->vocab = VOCAB;
    f->max_model_len = b->context;
    f->output_width = 1024;
    f->steps_in_flight = steps_in_flight;
    f->block_tokens = BLOCK;
    f->blocks_per_sequence_max = b->context / BLOCK;
    f->block_count = b->blocks;
    f->limits = (struct step_limits){.rows_max = b->rows_max,
                                     .tokens_max = BUDGET,
                                     .slots_max = b->rows_max,
                                     .blocks_max = b->context / BLOCK,
                                     .changes_max = 4 * b->context / BLOCK + 2 * b->rows_max,
                                     .new_sequences_max = 32,
                                     .history_max = 2 * b->context,
                                     .bias_max = 1024,
                                     .penalty_rows = 64,
                                     .vocab = f->vocab};
    struct engine_options options = {.port_count = 1,
                                     .max_queued_requests = b->live_max,
                                     .max_queued_tokens = b->tokens_max,
                                     .choices_max = 8,
                                     .prefix_cache = true,
                                     .hash_key = {1, 2}};
    b->model = fake_open(&fake);
    check(waker_open(&b->waker, &err) == STATUS_OK, "%s", err.text);
    check(engine_open(&b->engine, b->model, &options, &err) == STATUS_OK, "%s", err.text);
    b->port = engine_port(b->engine, 0, b->waker);
}

static void bench_close(struct bench *b)
{
    engine_close(b->engine);
    model_close(b->model);
    waker_close(b->waker);
}

// Submits a prompt of `length` tokens, of which the first `shared` are common to all prompts.
static struct request *submit_prompt(struct bench *b, uint32_t index, uint32_t shared,
                                     uint32_t length, uint32_t max_tokens)
{
    for (uint32_t i = 0; i < length; i++)
        b->tokens[i] = (int32_t)((i < shared ? i : index * 131 + i) % VOCAB);
    uint32_t start[2] = {0, length};
    struct submit_args args = {.kind = REQUEST_GENERATE,
                               .tokens = b->tokens,
                               .token_count = length,
                               .sequence_count = 1,
                               .sequence_start = start,
                               .choice_count = 1,
                               .max_tokens = max_tokens,
                               .ignore_end = true,
                               .sampling = {.seed = index, .repetition = 1.0f}};
    struct request *request;
    check(port_submit(b->port, &args, &request) == ADMITTED, "request %u", index);
    return request;
}

static void request_submit(struct bench *b, uint32_t index, uint32_t max_tokens)
{
    submit_prompt(b, index, 0, PROMPT, max_tokens);
}

static void on_ready(void *context, void *owner, struct request *request)
{
    struct bench *b = context;
    struct token_event event;
    (void)owner;
    while (port_next(b->port, request, &event, NULL)) {
        b->events++;
        if (event.flags & EVENT_LAST) {
            port_free(b->port, request);
            return;
        }
    }
}

static void measure_one(struct bench *b, uint32_t i)
{
    uint64_t start = clock_ns(b->clock);
    engine_step(b->engine, start);
    uint64_t middle = clock_ns(b->clock);
    waker_clear(b->waker);
    port_drain(b->port, on_ready, b);
    b->step_ns[i] = middle - start;
    b->read_ns[i] = clock_ns(b->clock) - middle;
}

static void steps_measure(struct bench *b, uint32_t steps)
{
    b->events = 0;
    for (uint32_t i = 0; i < steps; i++)
        measure_one(b, i);
}

static void decode_measure(struct bench *b, uint32_t rows, uint32_t flight)
{
    bench_open(b, flight);
    for (uint32_t i = 0; i < rows; i++)
        request_submit(b, i, CONTEXT);
    uint32_t steps = b->steps < 2000 ? b->steps : 2000; // stays within the blocks of the pool
    steps_measure(b, rows * PROMPT / BUDGET + 64);      // prefill, and some tokens
    steps_measure(b, steps);
    double each = quantile_us(b->read_ns, steps, 0.5) * steps / (double)b->events;
    printf("decode  %3u rows, %u in flight: step %7.2f us median %7.2f us p99; reader %.3f us an "
           "event\n",
           rows, flight, quantile_us(b->step_ns, steps, 0.5), quantile_us(b->step_ns, steps, 0.99),
           each);
    bench_close(b);
}

// Requests arrive, are prefilled (4 complete prompts per step), output a few tokens and end.
static void churn_measure(struct bench *b, uint32_t flight)
{
    bench_open(b, flight);
    uint32_t sent = 0;
    double worst = 0;
    for (uint32_t i = 0; i < 64; i++) {
        for (uint32_t k = 0; k < 16; k++)
            request_submit(b, sent++, 4);
        steps_measure(b, 4);
        double us = quantile_us(b->step_ns, 4, 0.5);
        worst = us > worst && i > 8 ? us : worst;
    }
    printf("prefill %u tokens a step, %u in flight: step %7.2f us (worst median of 4 steps)\n",
           (unsigned)BUDGET, flight, worst);
    bench_close(b);
}

// 65,000 live requests, nearly all queued; in every step one of them is cancelled and a new request
// arrives.
static void cancels_measure(struct bench *b)
{
    struct bench usual = *b;
    b->live_max = LIVE + 64;
    b->tokens_max = 64 * b->live_max;
    b->clock = CLOCK_THREAD_CPUTIME_ID;
    bench_open(b, 0);
    struct request **live = heap_alloc_zeroed(LIVE, sizeof *live);
    for (uint32_t i = 0; i < LIVE; i++)
        live[i] = submit_prompt(b, i, 0, 16, CONTEXT - 16);
    steps_measure(b, 64);
    for (uint32_t i = 0; i < b->steps; i++) {
        uint32_t at = ROWS_MAX + (uint32_t)((uint64_t)i * 7919 % (LIVE - ROWS_MAX));
        port_cancel(b->port, live[at]);
        measure_one(b, i);
        live[at] = submit_prompt(b, LIVE + i, 0, 16, CONTEXT - 16);
    }
    printf("a cancel in each step, %u live: step %7.2f us median %7.2f us p99 %7.2f us max\n",
           (unsigned)LIVE, quantile_us(b->step_ns, b->steps, 0.5),
           quantile_us(b->step_ns, b->steps, 0.99), quantile_us(b->step_ns, b->steps, 1.0));
    heap_free(live);
    bench_close(b);
    usual.events = b->events;
    *b = usual;
}

// 1,024 sequences arrive together and share 64K tokens, which the first computes for all. With few
// blocks they start, grow and lose their blocks again, so that most of them wait.
static void sharing_measure(struct bench *b, uint32_t blocks)
{
    struct bench usual = *b;
    b->context = SHARED + 1024;
    b->rows_max = b->live_max = SHARERS;
    b->blocks = blocks;
    b->tokens_max = SHARERS * (SHARED + OWN);
    b->clock = CLOCK_THREAD_CPUTIME_ID;
    bench_open(b, 0);
    for (uint32_t i = 0; i < SHARERS; i++)
        submit_prompt(b, i, SHARED, SHARED + OWN, 900);
    steps_measure(b, b->steps);
    const struct engine_stats *stats = engine_stats(b->engine);
    printf("%u sharers of %u tokens, %5u blocks: step %7.2f us median %7.2f us p99 %7.2f us "
           "max; %llu wait, %llu preemptions\n",
           (unsigned)SHARERS, (unsigned)SHARED, blocks, quantile_us(b->step_ns, b->steps, 0.5),
           quantile_us(b->step_ns, b->steps, 0.99), quantile_us(b->step_ns, b->steps, 1.0),
           (unsigned long long)stats->sequences_waiting, (unsigned long long)stats->preemptions);
    bench_close(b);
    usual.events = b->events;
    *b = usual;
}

int main(int argc, char **argv)
{
    struct bench bench = {.steps = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 2000,
                          .context = CONTEXT,
                          .rows_max = ROWS_MAX,
                          .blocks = ROWS_MAX * 64,
                          .live_max = 1024,
                          .tokens_max = 1 << 20,
                          .clock = CLOCK_MONOTONIC};
    uint32_t most = bench.steps > 4096 ? bench.steps : 4096;
    bench.step_ns = heap_alloc_zeroed(most, sizeof *bench.step_ns);
    bench.read_ns = heap_alloc_zeroed(most, sizeof *bench.read_ns);
    bench.tokens = heap_alloc_zeroed(SHARED + OWN, sizeof *bench.tokens);
    static const uint32_t rows[] = {1, 8, 32, 128, 256};
    for (uint32_t flight = 0; flight <= 1; flight++) {
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
            decode_measure(&bench, rows[i], flight);
        churn_measure(&bench, flight);
    }
    cancels_measure(&bench);
    sharing_measure(&bench, ROWS_MAX * 64);
    sharing_measure(&bench, SHARED / BLOCK + 3 * SHARERS);
    heap_free(bench.tokens);
    heap_free(bench.step_ns);
    heap_free(bench.read_ns);
    return 0;
}
