// SPDX-License-Identifier: Apache-2.0
// Replays a trace of requests over two copies of a model in simulated time, with the production
// engines, ports and router over the fake model. The reference is one copy with both caches and
// twice the speed: two copies cannot find more in their caches. One trace is generated here. The
// Mooncake trace (one hour of conversations, Apache-2.0) is used if the file is present.
// ||     test_copies_replay            runs the tests
//     test_copies_replay FILE       prints a table: weights of the rule by cache size
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/scheduler/rig.h"

#include "base/file.h"
#include "base/json.h"
#include "tests/assets.h"

#include <inttypes.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SCALE = 32,                  // tokens of the trace per token here
    TRACE_BLOCK = 512,           // tokens per block id of the trace
    BLOCK = TRACE_BLOCK / SCALE, // tokens per KV block of the engine
    SEQUENCE_BLOCKS = 320,
    PROMPT_MAX = SEQUENCE_BLOCKS * BLOCK - 64,
    COPIES = 2,
    STEP_TOKENS = 256,
    STEP_US = 2000, // time of a step without tokens
    VOCAB = 1 << 20,
};

struct arrival {
    uint64_t at_us;
    uint32_t input, output; // lengths in tokens, scaled
    uint32_t first, count;  // range of its block ids in trace.ids
};

struct trace {
    struct arrival *at;
    uint32_t *ids;
    size_t count, id_count, room, id_room;
};

static void id_add(struct trace *t, uint32_t id)
{
    if (t->id_count == t->id_room) {
        t->id_room = 2 * t->id_room + 4096;
        t->ids = realloc(t->ids, t->id_room * sizeof *t->ids);
    }
    t->ids[t->id_count++] = id;
    t->at[t->count - 1].count++;
}

static struct arrival *arrival_add(struct trace *t, uint64_t at_us)
{
    if (t->count == t->room) {
        t->room = 2 * t->room + 1024;
        t->at = realloc(t->at, t->room * sizeof *t->at);
    }
    t->at[t->count] = (struct arrival){.at_us = at_us, .first = (uint32_t)t->id_count};
    return &t->at[t->count++];
}

static void trace_free(struct trace *t)
{
    free(t->at);
    free(t->ids);
}

static void lengths_set(struct arrival *a, uint64_t input, uint64_t output)
{
    a->input = (uint32_t)(input / SCALE > 0 ? input / SCALE : 1);
    a->input = a->input < PROMPT_MAX ? a->input : PROMPT_MAX;
    a->output = (uint32_t)(output / SCALE > 0 ? output / SCALE : 1);
    a->output = a->output < 60 ? a->output : 60;
}

static bool line_add(struct trace *t, struct text line)
{
    json_t *row = NULL, *ids;
    size_t i;
    if (json_parse(&row, line, NULL) != STATUS_OK)
        return false;
    ids = json_object_get(row, "hash_ids");
    struct arrival *a =
        arrival_add(t, (uint64_t)json_integer_value(json_object_get(row, "timestamp")) * 1000);
    lengths_set(a, (uint64_t)json_integer_value(json_object_get(row, "input_length")),
                (uint64_t)json_integer_value(json_object_get(row, "output_length")));
    for (i = 0; i < json_array_size(ids); i++)
        id_add(t, (uint32_t)json_integer_value(json_array_get(ids, i)));
    json_decref(row);
    return true;
}

// Reads the Mooncake trace. Returns false if the file cannot be read.
static bool trace_read(struct trace *t, const char *path)
{
    struct arena *arena = arena_create(0, 0);
    struct text text;
    struct error err;
    enum status status = file_read(&text, arena, path, 64 << 20, &err);
    *t = (struct trace){0};
    for (size_t from = 0; status == STATUS_OK && from < text.bytes;) {
        const char *end = memchr(text.at + from, '\n', text.bytes - from);
        size_t bytes = end ? (size_t)(end - text.at) - from : text.bytes - from;
        check(line_add(t, text_span(text.at + from, bytes)), "line %zu of %s", t->count + 1, path);
        from += bytes + 1;
    }
    arena_destroy(arena);
    return status == STATUS_OK;
}

static uint32_t drawn(uint64_t *state, uint32_t below)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33) % below;
}

// Generates conversations that begin with one of a few texts and grow by some blocks per turn.
static void trace_make(struct trace *t, uint32_t requests)
{
    enum { TALKS = 60, TEXTS = 4, TEXT_BLOCKS = 3, TURNS_BLOCKS = 5, FULL = 60 };
    uint32_t blocks[TALKS] = {0}, ids[TALKS][FULL + TURNS_BLOCKS], next = TEXTS * TEXT_BLOCKS;
    uint64_t state = 11, now = 0;
    *t = (struct trace){0};
    for (uint32_t i = 0; i < requests; i++) {
        uint32_t talk = drawn(&state, TALKS);
        if (blocks[talk] == 0 || blocks[talk] >= FULL) {
            uint32_t text = drawn(&state, TEXTS);
            for (blocks[talk] = 0; blocks[talk] < TEXT_BLOCKS; blocks[talk]++)
                ids[talk][blocks[talk]] = text * TEXT_BLOCKS + blocks[talk];
        }
        for (uint32_t more = 1 + drawn(&state, TURNS_BLOCKS); more > 0; more--)
            ids[talk][blocks[talk]++] = next++;
        now += drawn(&state, 600000);
        struct arrival *a = arrival_add(t, now);
        lengths_set(a, blocks[talk] * TRACE_BLOCK - drawn(&state, TRACE_BLOCK),
                    64 + drawn(&state, 600));
        for (uint32_t b = 0; b < blocks[talk]; b++)
            id_add(t, ids[talk][b]);
    }
}

struct machine { // engines in simulated time
    struct rig rig[COPIES];
    uint64_t ready_us[COPIES], computed[COPIES];
    uint32_t count;
    uint32_t live;
    double tokens_us; // tokens that a copy computes per microsecond
};

static void copy_open(struct rig *rig, uint32_t blocks, uint32_t slots)
{
    rig_defaults(rig);
    rig->fake.cheap = true;
    struct model_facts *f = &rig->fake.facts;
    f->vocab = f->limits.vocab = VOCAB;
    f->max_model_len = SEQUENCE_BLOCKS * BLOCK;
    f->block_tokens = BLOCK;
    f->block_count = blocks;
    f->blocks_per_sequence_max = f->limits.blocks_max = SEQUENCE_BLOCKS;
    f->limits.rows_max = f->limits.slots_max = slots;
    f->limits.tokens_max = STEP_TOKENS;
    f->limits.changes_max = SEQUENCE_BLOCKS + slots + STEP_TOKENS;
    f->limits.new_sequences_max = 32;
    f->limits.penalty_rows = f->limits.history_max = 0;
    rig->options.max_queued_requests = 16384;
    rig->options.max_queued_tokens = 1u << 27;
    rig->options.choices_max = 1;
    rig_open(rig);
}

static void on_ready(void *context, void *owner, struct request *request)
{
    struct machine *m = context;
    struct port *port = owner;
    struct token_event event;
    while (port_next(port, request, &event, NULL))
        if (event.flags & EVENT_LAST) {
            port_free(port, request);
            m->live--;
            return;
        }
}

static uint64_t stat_of(const struct rig *rig, size_t offset)
{
    const char *stats = (const char *)engine_stats(rig->engine);
    return *(const _Atomic uint64_t *)(const void *)(stats + offset);
}

// Runs one engine step of a copy at its simulated time. The step's duration depends on the tokens
// it computed.
static void copy_step(struct machine *m, uint32_t i, uint64_t idle_until_us)
{
    struct rig *rig = &m->rig[i];
    enum engine_news news = engine_step(rig->engine, 1000 + m->ready_us[i] * 1000);
    check(news != ENGINE_FAULT, "%s", engine_error(rig->engine)->text);
    uint64_t computed = fake_computed(rig->model), tokens = computed - m->computed[i];
    m->computed[i] = computed;
    m->ready_us[i] += STEP_US + (uint64_t)((double)tokens / m->tokens_us);
    if (news == ENGINE_IDLE && m->ready_us[i] < idle_until_us)
        m->ready_us[i] = idle_until_us;
    port_drain(rig->port, on_ready, m);
}

// Steps all copies up to this time.
static void machine_run(struct machine *m, uint64_t until_us)
{
    for (;;) {
        uint32_t next = 0;
        for (uint32_t i = 1; i < m->count; i++)
            next = m->ready_us[i] < m->ready_us[next] ? i : next;
        if (m->ready_us[next] >= until_us)
            return;
        copy_step(m, next, until_us);
    }
}

struct rule {
    uint32_t uncached, queued; // weights
    bool turns;                // round-robin, without regard to caches and queues
    bool plain;                // true if port_choose chooses
};

static uint32_t copy_choose(struct machine *m, const struct submit_args *args,
                            const struct rule *rule, uint32_t turn)
{
    struct port *ports[COPIES];
    struct route_copy copies[COPIES];
    for (uint32_t i = 0; i < m->count; i++)
        ports[i] = m->rig[i].port;
    if (m->count == 1 || rule->turns)
        return turn % m->count;
    if (rule->plain)
        return port_choose(ports, m->count, args, turn);
    ports_look_up(copies, ports, m->count, args);
    for (uint32_t i = 0; i < m->count; i++) {
        copies[i].cached *= rule->uncached;
        copies[i].queued *= (uint64_t)rule->queued * ROUTE_UNCACHED; // route_choose weighs as well
    }
    return route_choose(copies, m->count, (uint64_t)args->token_count * rule->uncached, turn);
}

struct outcome {
    uint64_t cached, prompt;
    double ratio; // computed tokens of the busiest copy per computed token of the least busy
    double end_s;
};

static struct outcome replay(const struct trace *t, uint32_t copies, uint32_t blocks,
                             double tokens_s, const struct rule *rule)
{
    static struct machine m;
    static int32_t tokens[PROMPT_MAX + BLOCK];
    m = (struct machine){.count = copies, .tokens_us = tokens_s / 1e6};
    for (uint32_t i = 0; i < copies; i++)
        copy_open(&m.rig[i], blocks, 64 * COPIES / copies);
    for (size_t n = 0; n < t->count; n++) {
        const struct arrival *a = &t->at[n];
        uint32_t start[2] = {0, a->input};
        for (uint32_t i = 0; i < a->input; i++) {
            uint32_t at = i / BLOCK < a->count ? i / BLOCK : a->count - 1;
            tokens[i] = (int32_t)(t->ids[a->first + at] + 8);
        }
        machine_run(&m, a->at_us);
        struct submit_args args = {.kind = REQUEST_GENERATE,
                                   .tokens = tokens,
                                   .token_count = a->input,
                                   .sequence_count = 1,
                                   .sequence_start = start,
                                   .choice_count = 1,
                                   .max_tokens = a->output,
                                   .ignore_end = true,
                                   .sampling = {.seed = n, .repetition = 1.0f}};
        struct rig *rig = &m.rig[copy_choose(&m, &args, rule, (uint32_t)n)];
        args.owner = rig->port;
        (void)rig_submit(rig, &args, ADMITTED);
        m.live++;
    }
    uint64_t end = t->at[t->count - 1].at_us;
    while (m.live > 0)
        machine_run(&m, end += 100000);
    struct outcome out = {.end_s = (double)end / 1e6};
    uint64_t most = 0, least = UINT64_MAX;
    for (uint32_t i = 0; i < copies; i++) {
        out.cached += stat_of(&m.rig[i], offsetof(struct engine_stats, prefix_hits));
        out.prompt += stat_of(&m.rig[i], offsetof(struct engine_stats, prompt_tokens));
        most = m.computed[i] > most ? m.computed[i] : most;
        least = m.computed[i] < least ? m.computed[i] : least;
        rig_close(&m.rig[i]);
    }
    out.ratio = (double)most / (double)least;
    return out;
}

// Returns the tokens per second at which the trace would keep both copies busy for 70% of the time
// if nothing were cached.
static double speed_of(const struct trace *t)
{
    uint64_t tokens = 0;
    for (size_t i = 0; i < t->count; i++)
        tokens += t->at[i].input + t->at[i].output;
    return (double)tokens / COPIES / 0.7 / ((double)t->at[t->count - 1].at_us / 1e6);
}

static const struct rule as_served = {.plain = true}, in_turn = {.turns = true};

static void judge(const struct trace *t, uint32_t blocks)
{
    double speed = speed_of(t);
    struct outcome one = replay(t, 1, COPIES * blocks, COPIES * speed, &as_served);
    struct outcome two = replay(t, COPIES, blocks, speed, &as_served);
    struct outcome turns = replay(t, COPIES, blocks, speed, &in_turn);
    printf("%zu requests, %u blocks a copy: one copy finds %.3f of %" PRIu64 " prompt tokens, two "
           "%.3f of these (in turn %.3f), load ratio %.2f\n",
           t->count, blocks, (double)one.cached / (double)one.prompt, one.prompt,
           (double)two.cached / (double)one.cached, (double)turns.cached / (double)one.cached,
           two.ratio);
    assert_int_equal(one.prompt, two.prompt);
    assert_true((double)two.cached >= 0.85 * (double)one.cached);
    assert_true(two.ratio <= 1.5);
    assert_true(turns.cached < two.cached);
}

static void test_conversations_find_their_copy(void **state)
{
    (void)state;
    struct trace t;
    trace_make(&t, 1500);
    judge(&t, 1500);
    trace_free(&t);
}

static void test_the_trace_of_mooncake(void **state)
{
    (void)state;
    struct trace t;
    if (!trace_read(&t, assets_path("trace/mooncake_conversation_trace.jsonl"))) {
        trace_free(&t);
        skip();
    }
    judge(&t, 16000);
    trace_free(&t);
}

static void sweep(const struct trace *t)
{
    static const struct rule rules[] = {
        {.turns = true},      {0, 1, false, false}, {1, 8, false, false}, {1, 4, false, false},
        {1, 2, false, false}, {1, 1, false, false}, {2, 1, false, false}, {4, 1, false, false},
        {8, 1, false, false}, {1, 0, false, false}};
    static const uint32_t sizes[] = {2000, 8000, 16000, 64000};
    double speed = speed_of(t);
    printf("%.0f tokens a second a copy\n", speed * SCALE);
    printf("| uncached : queued |");
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        printf(" %u blocks |", sizes[s]);
    printf("\n|---|---|---|---|---|\n");
    struct outcome one[4];
    printf("| one copy, of all prompt tokens |");
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        one[s] = replay(t, 1, COPIES * sizes[s], COPIES * speed, &as_served);
        printf(" %.3f |", (double)one[s].cached / (double)one[s].prompt);
    }
    for (size_t r = 0; r < sizeof rules / sizeof *rules; r++) {
        if (rules[r].turns)
            printf("\n| in turn |");
        else
            printf("\n| %u : %u |", rules[r].uncached, rules[r].queued);
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            struct outcome two = replay(t, COPIES, sizes[s], speed, &rules[r]);
            printf(" %.3f, %.2f, %.0f s |", (double)two.cached / (double)one[s].cached, two.ratio,
                   two.end_s - one[s].end_s);
        }
    }
    printf("\n");
}

int main(int argc, char **argv)
{
    struct trace t;
    if (argc > 1) {
        check(trace_read(&t, argv[1]), "%s cannot be read", argv[1]);
        sweep(&t);
        trace_free(&t);
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conversations_find_their_copy),
        cmocka_unit_test(test_the_trace_of_mooncake),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
