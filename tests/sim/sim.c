// SPDX-License-Identifier: Apache-2.0
// Seeded simulation of the production scheduler with a fake model and a fake clock: arrivals,
// cancels, shortage of blocks, slow and stopped readers, device faults, logits and blocks that are
// not finite, n up to 14 (whose ring has no spare entry), zero and one step in flight, prefix cache
// on and off, generators, embedders and rerankers. After every step the invariants of invariants.c
// hold. Every token equals that of the request computed alone.
// || With a number of ranks, the same environments run with 2 to that many ranks per step, delayed
// at random. In some of them one rank misses the deadline. With a number of nodes, they run with 2
// to that many nodes of one rank each (nodes.h), and in three of four a node is late, silent, dead
// or wrong.
// ||   sim [seeds] [steps] [first seed] [ranks] [nodes]
// || Default: 100 seeds of 2,000 steps from seed 1.
#include "tests/sim/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LATE_EACH = 8 }; // one of 8 environments with ranks has a rank that misses the deadline

static void limits_choose(struct sim *sim)
{
    struct dice *dice = &sim->dice;
    struct model_facts *f = &sim->fake.facts;
    struct step_limits *l = &f->limits;
    bool generate = f->kind == MODEL_GENERATOR;
    l->slots_max = l->rows_max = 1 + roll(dice, 10);
    l->tokens_max = model_tokens_min(l->rows_max) + roll(dice, 64);
    if (f->whole_input && l->tokens_max < f->max_model_len)
        l->tokens_max = f->max_model_len;
    if (f->paged) {
        static const uint32_t tokens[] = {2, 4, 8, 16};
        f->block_tokens = tokens[roll(dice, 4)];
        f->blocks_per_sequence_max = (f->max_model_len + f->block_tokens - 1) / f->block_tokens;
        l->blocks_max = f->blocks_per_sequence_max;
        f->block_count = l->blocks_max + roll(dice, 3 * l->blocks_max); // shortage is common
        l->changes_max = l->blocks_max + l->rows_max + roll(dice, 32);
    }
    if (!generate)
        return;
    l->new_sequences_max = 1 + roll(dice, l->rows_max);
    l->history_max = f->max_model_len + roll(dice, 64);
    l->bias_max = SIM_BIAS_MAX;
    l->penalty_rows = roll(dice, 4);
    l->vocab = f->vocab;
}

static void world_choose(struct sim *sim)
{
    struct dice *dice = &sim->dice;
    struct model_facts *f = &sim->fake.facts;
    uint32_t kind = roll(dice, 100);
    f->kind = kind < 75 ? MODEL_GENERATOR : kind < 88 ? MODEL_EMBEDDER : MODEL_RERANKER;
    f->vocab = 40 + roll(dice, 400);
    f->max_model_len = 8 + roll(dice, 90);
    f->output_width = f->kind == MODEL_EMBEDDER ? 1 + roll(dice, 6) : 1;
    f->paged = f->kind == MODEL_GENERATOR || chance(dice, 50);
    f->whole_input = !f->paged || (f->kind != MODEL_GENERATOR && chance(dice, 30));
    f->token_types = !f->paged;
    f->end_count = roll(dice, 12);
    for (uint32_t i = 0; i < f->end_count; i++)
        f->end_ids[i] = (int32_t)roll(dice, f->vocab);
    f->steps_in_flight = roll(dice, 2);
    limits_choose(sim);
    sim->options = (struct engine_options){.port_count = 1 + roll(dice, 3),
                                           .max_queued_requests = 1 + roll(dice, 40),
                                           .max_queued_tokens = 100 + roll(dice, 2000),
                                           .max_result_bytes = 16384,
                                           .choices_max = SIM_CHOICES,
                                           .prefix_cache = chance(dice, 70),
                                           .step_stretch = chance(dice, 40) ? 1.5 : 0,
                                           .hash_key = {sim->seed, 1}};
    sim->fake.sick = chance(dice, 10) ? 20 + roll(dice, 200) : 0;
    sim->spoilt_step = chance(dice, 8) ? 1 + roll(dice, 500) : 0;
    sim->faulty = chance(dice, 5);
    sim->fault_step = 1 + roll(dice, 500);
}

static void model_begin(struct sim *sim)
{
    struct dice plan_dice = {sim->seed + 1000000}; // leaves the environment of the seed unchanged
    struct node_plan plan = {.node = 1, .seed = sim->seed};
    if (sim->node_count < 2) {
        sim->model = fake_open(&sim->fake);
        fake_spoil(sim->model, sim->spoilt_step);
        return;
    }
    if (chance(&plan_dice, 75))
        plan.fault = (enum node_fault)(1 + roll(&plan_dice, NODE_FAULTS - 1));
    plan.node = 1 + roll(&plan_dice, sim->node_count - 1);
    plan.step = 1 + roll(&plan_dice, 60);
    sim->nodes = nodes_open(&sim->fake, sim->node_count, &plan);
    sim->model = nodes_model(sim->nodes);
    nodes_start(sim->nodes, sim->spoilt_step);
}

static void world_open(struct sim *sim)
{
    struct error err;
    world_choose(sim);
    if (sim->fake.facts.kind == MODEL_GENERATOR && chance(&sim->dice, 70))
        grammars_open(sim);
    fake_worker_seed(sim->seed, chance(&sim->dice, 30) ? 1 + roll(&sim->dice, 80) : 0);
    model_begin(sim);
    if (sim->faulty)
        fake_fault(sim->model, sim->fault_step, chance(&sim->dice, 50));
    sim->late = sim->fake.ranks > 1 && sim->seed % LATE_EACH == 0;
    if (sim->late)
        fake_late(sim->model, 1 + sim->fault_step % 40);
    check(waker_open(&sim->waker, &err) == STATUS_OK, "%s", err.text);
    check(engine_open(&sim->engine, sim->model, &sim->options, &err) == STATUS_OK, "%s", err.text);
    uint64_t work = 1500 + roll(&sim->dice, 6000); // more than any single row needs
    if (chance(&sim->dice, 50))
        sim->engine->masks.limits =
            (struct mask_limits){1000000, roll(&sim->dice, 200), work, work};
    for (uint32_t i = 0; i < sim->options.port_count; i++)
        sim->ports[i] = engine_port(sim->engine, i, sim->waker);
}

static void world_close(struct sim *sim)
{
    engine_close(sim->engine);
    grammars_close(sim);
    if (sim->nodes)
        nodes_close(sim->nodes, sim->failed);
    else
        model_close(sim->model);
    waker_close(sim->waker);
}

static void on_ready(void *context, void *owner, struct request *request)
{
    struct sim *sim = context;
    struct client *c = owner;
    sim_check(sim, c->request == request && c->used, "news of a request that is not there");
}

// True if engine_run would sleep: after an idle step until its waker is raised.
static bool world_sleeps(struct sim *sim)
{
    struct waker *waker = sim->engine->gate.waker;
    if (!sim->idle)
        return false;
    if (waker->pending == 0)
        return true;
    waker_clear(waker);
    return false;
}

// Counts requests that only the clock ends: deadlines and stopped readers.
static uint64_t clock_ended(const struct sim *sim)
{
    const struct engine_stats *stats = engine_stats(sim->engine);
    return stats->finished_timeout + stats->finished_cancel;
}

static void world_step(struct sim *sim)
{
    sim->now_ns += (1 + roll(&sim->dice, 20)) * 1000000u;
    uint64_t launched_before = fake_steps(sim->model), ended_before = clock_ended(sim);
    bool sleeps = world_sleeps(sim);
    enum engine_news news = engine_step(sim->engine, sim->now_ns);
    sim->idle = news == ENGINE_IDLE;
    sim->steps++;
    if (news == ENGINE_FAULT) {
        bool late = sim->late && strstr(engine_error(sim->engine)->text, "did not end step");
        late |= sim->nodes && nodes_planned(sim->nodes, engine_error(sim->engine)->text);
        sim_check(sim, sim->faulty || late, "a fault that nobody planted: %s",
                  engine_error(sim->engine)->text);
        sim->lost += late;
        sim->failed = true;
    }
    // Other engines wait for an engine that announced another step with model_more. It must have
    // done so exactly if it launched one.
    bool launched = fake_steps(sim->model) > launched_before;
    sim_check(sim, !sleeps || !launched || clock_ended(sim) > ended_before,
              "there was work and nobody woke the engine");
    sim_check(sim, !fake_turn(sim->model), "a step keeps its turn");
    sim_check(sim, fake_more(sim->model) == (launched && news != ENGINE_FAULT),
              "launched %d, goes on %d", launched, fake_more(sim->model));
    sim_invariants(sim);
    if (sim->idle)
        sim_rests(sim);
    // Sometimes an idle engine lets 5 s pass, so that readers that stopped reach their time limit.
    if (news == ENGINE_IDLE && chance(&sim->dice, 10))
        sim->now_ns += 5000000000u;
    for (uint32_t i = 0; i < sim->options.port_count; i++)
        port_drain(sim->ports[i], on_ready, sim);
    for (uint32_t i = 0; i < SIM_CLIENTS; i++) {
        struct client *c = &sim->clients[i];
        // A cancelled request ends within one step, in any state.
        sim_check(sim, !c->used || !c->cancelled || c->request->run.unfinished == 0,
                  "client %u was cancelled and lives", i);
        for (uint32_t choice = 0; c->used && choice < SIM_CHOICES; choice++)
            sim_check(sim, !c->cut[choice] || choice_finished(c->request, choice),
                      "choice %u of client %u was cancelled and lives", choice, i);
        if (c->used)
            client_turn(sim, c);
    }
}

static uint32_t clients_left(const struct sim *sim, bool stopped)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < SIM_CLIENTS; i++)
        count += sim->clients[i].used && (stopped || sim->clients[i].reader != READER_STOPPED);
    return count;
}

static void world_run(struct sim *sim, uint32_t steps)
{
    uint32_t rate = 1 + roll(&sim->dice, 98); // arrivals per 100 steps
    for (uint32_t i = 0; i < steps; i++) {
        while (chance(&sim->dice, rate)) {
            struct client *c = &sim->clients[roll(&sim->dice, SIM_CLIENTS)];
            if (c->used)
                break;
            client_submit(sim, c);
        }
        world_step(sim);
    }
    sim->closing = chance(&sim->dice, 50);
    if (sim->closing)
        engine_stop(sim->engine);
    // Requests without a stopped reader finish; those with one are cancelled after a minute.
    uint32_t patience = 100000;
    while (clients_left(sim, true) > 0) {
        sim_check(sim, patience-- > 0, "%u of %u clients never end", clients_left(sim, false),
                  clients_left(sim, true));
        world_step(sim);
    }
    for (uint32_t i = 0; i < 3; i++)
        world_step(sim);
    sim_empty(sim);
}

// Returns the index-th argument, a number above 0. Anything else ends the program, so that a wrong
// argument cannot pass as a run that tested nothing.
static uint64_t argument(int argc, char **argv, int index, uint64_t otherwise)
{
    if (argc <= index)
        return otherwise;
    char *end;
    uint64_t number = strtoull(argv[index], &end, 10);
    if (*end == '\0' && number > 0)
        return number;
    fprintf(stderr,
            "sim: '%s' is no number above 0; usage: sim [seeds [steps [first seed [ranks "
            "[nodes]]]]]\n",
            argv[index]);
    exit(2);
}

int main(int argc, char **argv)
{
    uint64_t seeds = argument(argc, argv, 1, 100);
    uint32_t steps = (uint32_t)argument(argc, argv, 2, 2000);
    uint64_t first = argument(argc, argv, 3, 1), ranks = argument(argc, argv, 4, 1);
    uint64_t nodes = argument(argc, argv, 5, 1);
    uint64_t total = 0, ended = 0, tokens = 0, preemptions = 0, pauses = 0, hits = 0, cancels = 0,
             masked = 0, forced = 0, postponed = 0, lost = 0;
    uint64_t cuts = 0;
    struct sim *sim = calloc(1, sizeof *sim);
    clock_t start = clock();
    for (uint64_t seed = first; sim && seed < first + seeds; seed++) {
        memset(sim, 0, sizeof *sim);
        sim->seed = sim->dice.state = seed;
        sim->now_ns = 1000000000;
        sim->fake.ranks = ranks > 1 ? (uint32_t)(2 + seed % (ranks - 1)) : 0;
        sim->node_count = nodes > 1 ? (uint32_t)(2 + seed % (nodes - 1)) : 0;
        world_open(sim);
        world_run(sim, steps);
        pauses += sim->engine->stats.pauses;
        postponed += sim->engine->stats.masks_postponed;
        world_close(sim);
        total += sim->steps;
        ended += sim->ended;
        tokens += sim->tokens;
        preemptions += sim->preemptions;
        hits += sim->hits;
        cancels += sim->cancels;
        cuts += sim->cuts;
        masked += sim->masked;
        forced += sim->forced;
        lost += sim->lost;
    }
    free(sim);
    double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    printf("%llu seeds from %llu, %llu steps, %llu requests, %llu tokens, %llu preemptions, "
           "%llu pauses, %llu cached prompts, %llu cancels and %llu of choices, "
           "%llu tokens under a mask, %llu postponed, %llu ends of reasoning; %.1f million steps "
           "a minute\n",
           (unsigned long long)seeds, (unsigned long long)first, (unsigned long long)total,
           (unsigned long long)ended, (unsigned long long)tokens, (unsigned long long)preemptions,
           (unsigned long long)pauses, (unsigned long long)hits, (unsigned long long)cancels,
           (unsigned long long)cuts, (unsigned long long)masked, (unsigned long long)postponed,
           (unsigned long long)forced, (double)total / seconds * 60e-6);
    check(seeds < 100 || forced > 0, "no budget was met");
    check(seeds < 100 || postponed > 0, "no mask was postponed");
    check(seeds < 100 || ranks < 2 || lost > 0, "no rank was later than its deadline");
    check(seeds < 100 || nodes < 2 || lost > seeds / 4, "only %llu nodes were lost",
          (unsigned long long)lost);
    return 0;
}
