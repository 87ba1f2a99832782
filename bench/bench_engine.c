// The engine's own time for a step, without a model: intake, room, plan, batch, settle, events and
// wakes over a fake model that writes one random token a row. Beside it the reader's time for an
// event. Medians and 99th percentiles. Nothing is asserted: a person reads it.
//
//   bench_engine [steps a figure]
#include "runtime/base/arena.h"
#include "scheduler/engine.h"
#include "tests/sim/fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROWS_MAX = 256, PROMPT = 512, CONTEXT = 32768, BLOCK = 64, BUDGET = 2048 };

struct bench {
    struct model *model;
    struct engine *engine;
    struct waker *waker;
    struct port *port;
    uint32_t steps;
    uint64_t *step_ns, *read_ns; // [steps]
    uint64_t events;
};

static uint64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static double microseconds(uint64_t *values, uint32_t count, double quantile)
{
    qsort(values, count, sizeof *values, compare);
    return (double)values[(uint32_t)((count - 1) * quantile)] * 1e-3;
}

static void bench_open(struct bench *b, uint32_t steps_in_flight)
{
    struct error err;
    struct fake_options fake = {.cheap = true, .text = true};
    struct model_facts *f = &fake.facts;
    f->kind = MODEL_GENERATOR;
    f->causal = true;
    f->vocab = 150000;
    f->max_model_len = CONTEXT;
    f->output_width = 1024;
    f->steps_in_flight = steps_in_flight;
    f->block_tokens = BLOCK;
    f->blocks_per_sequence_max = CONTEXT / BLOCK;
    f->block_count = ROWS_MAX * 64;
    f->limits = (struct step_limits){.rows_max = ROWS_MAX,
                                     .tokens_max = BUDGET,
                                     .slots_max = ROWS_MAX,
                                     .blocks_max = CONTEXT / BLOCK,
                                     .changes_max = 4 * CONTEXT / BLOCK + 2 * ROWS_MAX,
                                     .admits_max = 32,
                                     .history_max = 2 * CONTEXT,
                                     .bias_max = 1024,
                                     .penalty_rows = 64,
                                     .vocab = f->vocab};
    struct engine_options options = {.port_count = 1,
                                     .max_queued_requests = 1024,
                                     .max_queued_tokens = 1 << 20,
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

static void submit(struct bench *b, uint32_t index, uint32_t max_tokens)
{
    int32_t tokens[PROMPT];
    for (uint32_t i = 0; i < PROMPT; i++)
        tokens[i] = (int32_t)(index * 131 + i);
    uint32_t start[2] = {0, PROMPT};
    struct submit_args args = {.kind = REQUEST_GENERATE,
                               .tokens = tokens,
                               .token_count = PROMPT,
                               .sequence_count = 1,
                               .sequence_start = start,
                               .choice_count = 1,
                               .max_tokens = max_tokens,
                               .ignore_end = true,
                               .params = {.seed = index, .repetition = 1.0f}};
    struct request *request;
    check(port_submit(b->port, &args, &request) == ADMITTED, "request %u", index);
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

static void measure(struct bench *b)
{
    b->events = 0;
    for (uint32_t i = 0; i < b->steps; i++) {
        uint64_t start = clock_ns();
        engine_step(b->engine, start);
        uint64_t middle = clock_ns();
        waker_clear(b->waker);
        port_drain(b->port, on_ready, b);
        b->step_ns[i] = middle - start;
        b->read_ns[i] = clock_ns() - middle;
    }
}

static void decode(struct bench *b, uint32_t rows, uint32_t flight)
{
    bench_open(b, flight);
    for (uint32_t i = 0; i < rows; i++)
        submit(b, i, CONTEXT);
    uint32_t steps = b->steps;
    b->steps = rows * PROMPT / BUDGET + 64;
    measure(b);                             // prefill, and some tokens
    b->steps = steps < 2000 ? steps : 2000; // keeps within the blocks of the pool
    measure(b);
    double each = microseconds(b->read_ns, b->steps, 0.5) * b->steps / (double)b->events;
    printf("decode  %3u rows, %u in flight: step %7.2f us median %7.2f us p99; reader %.3f us an "
           "event\n",
           rows, flight, microseconds(b->step_ns, b->steps, 0.5),
           microseconds(b->step_ns, b->steps, 0.99), each);
    b->steps = steps;
    bench_close(b);
}

// Requests come, are prefilled (4 whole prompts a step), give a few tokens and go.
static void churn(struct bench *b, uint32_t flight)
{
    bench_open(b, flight);
    uint32_t steps = b->steps, sent = 0;
    double worst = 0;
    b->steps = 4;
    for (uint32_t i = 0; i < 64; i++) {
        for (uint32_t k = 0; k < 16; k++)
            submit(b, sent++, 4);
        measure(b);
        double us = microseconds(b->step_ns, b->steps, 0.5);
        worst = us > worst && i > 8 ? us : worst;
    }
    printf("prefill %u tokens a step, %u in flight: step %7.2f us (worst median of 4 steps)\n",
           (unsigned)BUDGET, flight, worst);
    b->steps = steps;
    bench_close(b);
}

int main(int argc, char **argv)
{
    struct bench bench = {.steps = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 2000};
    uint32_t most = bench.steps > 4096 ? bench.steps : 4096;
    bench.step_ns = heap_take_zeroed(most, sizeof *bench.step_ns);
    bench.read_ns = heap_take_zeroed(most, sizeof *bench.read_ns);
    static const uint32_t rows[] = {1, 8, 32, 128, 256};
    for (uint32_t flight = 0; flight <= 1; flight++) {
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
            decode(&bench, rows[i], flight);
        churn(&bench, flight);
    }
    heap_give(bench.step_ns);
    heap_give(bench.read_ns);
    return 0;
}
