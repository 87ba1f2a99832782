// SPDX-License-Identifier: Apache-2.0
// How much rows with a grammar slow down rows without: 64 free rows together with 64 more free
// rows, and together with 64 rows that write JSON, through the engine, its mask worker and a dummy
// model, alternating in one run. Prints the median step of both, the ratio of each pair, and
// whether the 64 rows got the same tokens. Only this is checked: the exit code is 1 if a token
// differs.
//
//   bench_masks [shape] [rows] [rounds]      defaults: qwen2.5-0.5b, 64, 3
#include "bench/step_bench.h"

#include "base/arena.h"
#include "base/clock.h"
#include "runtime/grammar/vocabulary.h"
#include "runtime/text/grammar/gbnf.h"
#include "runtime/text/tokenizer.h"
#include "scheduler/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROMPT = 16, TOKENS = 24, WINDOW = 256, ROWS_MAX = 256, STEPS_MAX = 4096, ROUNDS_MAX = 16 };

// Endless lines of JSON; strings allow most of the vocabulary.
static const char grammar_source[] =
    "root ::= (value \"\\n\")*\n"
    "value ::= object | list | string | number | \"true\" | \"false\" | \"null\"\n"
    "object ::= \"{\" (member (\",\" member)*)? \"}\"\n"
    "member ::= string \":\" value\n"
    "list ::= \"[\" (value (\",\" value)*)? \"]\"\n"
    "string ::= \"\\\"\" ([^\"\\\\\\x00-\\x1F] | \"\\\\\" [\"\\\\/bfnrt])* \"\\\"\"\n"
    "number ::= \"-\"? (\"0\" | [1-9] [0-9]*) (\".\" [0-9]+)?\n";

struct submitted {
    struct request *request;
    int32_t tokens[TOKENS];
    uint32_t count;
    bool over;
};

struct masks {
    struct bench b;
    struct tokenizer *tokenizer;
    struct vocabulary *vocabulary;
    struct grammar *grammar;
    struct waker *waker;
    struct engine *engine;
    struct port *port;
    uint32_t rows;
    struct submitted submitted[2 * ROWS_MAX];
};

static void vocabulary_open(struct masks *m, uint32_t vocab)
{
    struct error err;
    struct text *tokens = heap_alloc_zeroed(vocab, sizeof *tokens);
    int32_t end = (int32_t)vocab - 1;
    must(tokenizer_open_words(&m->tokenizer, vocab, &err), &err);
    for (uint32_t id = 0; id + 1 < vocab; id++)
        tokens[id] = tokenizer_token_bytes(m->tokenizer, (int32_t)id);
    struct vocabulary_args args = {vocab, tokens, vocab, NULL, &end, 1};
    m->vocabulary = vocabulary_create(&args);
    heap_free(tokens);
}

static void grammar_open(struct masks *m)
{
    struct grammar_builder *b = grammar_builder_create(NULL);
    struct error err;
    uint32_t root;
    must(gbnf_compile(b, text_of(grammar_source), &root, &err), &err);
    must(grammar_finish(b, root, &m->grammar, &err), &err);
}

static bool masks_open(struct masks *m, const struct step_shape *shape)
{
    struct step_args args = {.device = "cpu", .dtype = -1, .exact = true};
    struct error err;
    if (!bench_device_open(&m->b, &args))
        return false;
    struct model_options options = bench_options(-1, WINDOW, 2 * m->rows, 2048);
    bench_model_open(&m->b, shape, NULL, &options, (uint64_t)2 * m->rows * WINDOW);
    vocabulary_open(m, shape->vocab);
    grammar_open(m);
    struct engine_options engine = {.port_count = 1,
                                    .max_queued_requests = 2 * m->rows,
                                    .max_queued_tokens = 1 << 20,
                                    .choices_max = 1,
                                    .vocabulary = m->vocabulary};
    must(waker_open(&m->waker, &err), &err);
    must(engine_open(&m->engine, m->b.model, &engine, &err), &err);
    m->port = engine_port(m->engine, 0, m->waker);
    return true;
}

static void masks_close(struct masks *m)
{
    engine_close(m->engine);
    waker_close(m->waker);
    bench_close(&m->b);
    grammar_unref(m->grammar);
    vocabulary_unref(m->vocabulary);
    tokenizer_close(m->tokenizer);
}

static void request_submit(struct masks *m, uint32_t number, bool masked)
{
    int32_t tokens[PROMPT];
    uint32_t start[2] = {0, PROMPT};
    struct submitted *a = &m->submitted[number];
    *a = (struct submitted){0};
    for (uint32_t i = 0; i < PROMPT; i++)
        tokens[i] = (int32_t)((number * 31 + i * 7) % 256);
    struct submit_args args = {
        .kind = REQUEST_GENERATE,
        .tokens = tokens,
        .token_count = PROMPT,
        .sequence_count = 1,
        .sequence_start = start,
        .choice_count = 1,
        .max_tokens = TOKENS,
        .ignore_end = true,
        .grammar = masked ? m->grammar : NULL,
        .sampling = {.seed = 1000 + number, .temperature = 1, .top_p = 1, .repetition = 1}};
    check(port_submit(m->port, &args, &a->request) == ADMITTED, "request %u", number);
}

static void tokens_read(struct masks *m, struct submitted *a)
{
    struct token_event event;
    while (!a->over && port_next(m->port, a->request, &event, NULL)) {
        if (event.flags & EVENT_TOKEN && a->count < TOKENS)
            a->tokens[a->count++] = event.token;
        a->over = event.flags & EVENT_LAST;
    }
    if (a->over)
        port_free(m->port, a->request);
}

// Runs twice `rows` requests; returns the median time of the steps in which all of them decode.
static double rows_run(struct masks *m, bool masked)
{
    static double steps[STEPS_MAX];
    uint32_t all = 2 * m->rows, begun = 0, over = 0, count = 0;
    for (uint32_t i = 0; i < all; i++)
        request_submit(m, i, masked && i >= m->rows);
    while (over < all) {
        bool decodes = begun == all && over == 0;
        double start = now_ms();
        check(engine_step(m->engine, clock_ns()) != ENGINE_FAULT, "the engine failed");
        if (decodes && count < STEPS_MAX)
            steps[count++] = now_ms() - start;
        begun = over = 0;
        for (uint32_t i = 0; i < all; i++) {
            if (!m->submitted[i].over)
                tokens_read(m, &m->submitted[i]);
            begun += m->submitted[i].count > 0;
            over += m->submitted[i].over;
        }
    }
    return median(steps, count);
}

static bool tokens_equal(const struct masks *m, int32_t (*first)[TOKENS], bool keep)
{
    bool equal = true;
    for (uint32_t i = 0; i < m->rows; i++) {
        if (keep)
            memcpy(first[i], m->submitted[i].tokens, sizeof first[i]);
        equal &= m->submitted[i].count == TOKENS &&
                 memcmp(first[i], m->submitted[i].tokens, sizeof first[i]) == 0;
    }
    return equal;
}

int main(int argc, char **argv)
{
    static struct masks m;
    static int32_t first[ROWS_MAX][TOKENS];
    double free_ms[ROUNDS_MAX], masked_ms[ROUNDS_MAX], ratio[ROUNDS_MAX];
    const struct step_shape *shape = shape_find(argc > 1 ? argv[1] : "qwen2.5-0.5b");
    m.rows = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 64;
    uint32_t rounds = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 3;
    if (!shape || m.rows == 0 || m.rows > ROWS_MAX || rounds == 0 || rounds > ROUNDS_MAX) {
        fputs("usage: bench_masks [shape] [rows, at most 256] [rounds, at most 16]\n", stderr);
        return 2;
    }
    if (!masks_open(&m, shape))
        return 77;
    bool equal = true;
    for (uint32_t i = 0; i < rounds; i++) {
        free_ms[i] = rows_run(&m, false);
        equal &= tokens_equal(&m, first, i == 0);
        masked_ms[i] = rows_run(&m, true);
        equal &= tokens_equal(&m, first, false);
        ratio[i] = masked_ms[i] / free_ms[i];
        printf("pair %u: step %.2f and %.2f ms, ratio %.3f\n", i + 1, free_ms[i], masked_ms[i],
               ratio[i]);
        fflush(stdout);
    }
    const struct engine_stats *stats = engine_stats(m.engine);
    double without = median(free_ms, rounds), with = median(masked_ms, rounds);
    printf("%s, vocabulary of %u: %u free rows with %u free rows: step %.2f ms; with %u rows with "
           "a grammar: %.2f ms, ratio of a pair %.3f\n",
           shape->name, shape->vocab, m.rows, m.rows, without, m.rows, with, median(ratio, rounds));
    printf("%llu of %llu steps waited for masks; the tokens of the free rows are %s\n",
           (unsigned long long)stats->mask_waits, (unsigned long long)stats->steps_masked,
           equal ? "the same" : "DIFFERENT");
    masks_close(&m);
    return equal ? 0 : 1;
}
