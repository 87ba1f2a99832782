// SPDX-License-Identifier: Apache-2.0
// The engine: opening, the loop of one model, and closing. One thread owns everything except the
// ports' h2o sides; nothing is allocated after engine_open.
#include "scheduler/internal.h"
#include "scheduler/kv_events.h"

#include "base/clock.h"
#include "runtime/grammar/vocabulary.h"

#include <sys/mman.h>

enum { IDLE_MS = 1000, LIVE_MS = 50 }; // longest sleeps in ms: without and with live requests

uint64_t engine_now(const struct engine *engine)
{
    return engine->own_clock ? clock_ns() : engine->now_ns;
}

uint64_t engine_bytes(const struct model_facts *facts, const struct engine_options *options)
{
    struct engine sizes = {.facts = *facts, .options = *options};
    return engine_layout(&sizes, NULL);
}

static void facts_check(const struct engine *engine)
{
    const struct model_facts *f = &engine->facts;
    const struct step_limits *limits = &f->limits;
    const struct engine_options *o = &engine->options;
    check(f->steps_in_flight < ENGINE_LAUNCHES, "%u steps in flight", f->steps_in_flight);
    check(o->choices_max >= 1 && o->choices_max <= REQUEST_CHOICES_MAX, "%u choices",
          o->choices_max);
    check(o->port_count >= 1 && o->max_queued_requests >= 1, "%u ports of %u requests",
          o->port_count, o->max_queued_requests);
    check(f->kind != MODEL_GENERATOR || limits->tokens_max >= model_tokens_min(limits->rows_max),
          "a step of %u tokens for %u rows", limits->tokens_max, limits->rows_max);
    check(!f->whole_input || limits->tokens_max >= f->max_model_len,
          "a step of %u tokens, inputs of %u", limits->tokens_max, f->max_model_len);
    check(!o->vocabulary || vocabulary_size(o->vocabulary) == f->vocab,
          "a vocabulary of another model");
    if (f->blocks_per_sequence_max == 0)
        return;
    check(f->block_tokens >= 1 && f->block_tokens <= BLOCK_TOKENS_MAX, "%u tokens a block",
          f->block_tokens);
    check(f->block_count >= f->blocks_per_sequence_max, "%u blocks, a sequence has %u",
          f->block_count, f->blocks_per_sequence_max);
    check(limits->changes_max >= f->blocks_per_sequence_max + limits->rows_max,
          "%u block-table changes a step", limits->changes_max);
    check(limits->penalty_rows == 0 || limits->history_max >= f->max_model_len,
          "%u history tokens a step", limits->history_max);
}

static void gate_init(struct engine *engine)
{
    struct admission_gate *gate = &engine->gate;
    const struct engine_options *o = &engine->options;
    gate->limits = (struct admission_limits){o->max_queued_requests, o->max_queued_tokens,
                                             o->max_result_bytes};
    gate->choices_max = o->choices_max;
    gate->bias_max = engine->facts.limits.bias_max;
    gate->output_width = engine->facts.output_width;
    gate->vocab = engine->facts.vocab;
    gate->max_model_len = engine->facts.max_model_len;
    gate->generates = engine->facts.kind == MODEL_GENERATOR;
    gate->vocabulary = o->vocabulary != NULL;
    gate->route = engine->sharing && o->prefix_cache ? &engine->blocks.route : NULL;
    gate->secret = engine->options.hash_key;
    gate->block_tokens = engine->facts.block_tokens;
}

static void state_init(struct engine *engine)
{
    const struct model_facts *f = &engine->facts;
    const struct step_limits *limits = &f->limits;
    for (uint32_t i = 0; i < limits->slots_max; i++)
        engine->slots_free[engine->slots_free_count++] = limits->slots_max - 1 - i;
    for (uint32_t i = 0; i < limits->penalty_rows; i++)
        engine->penalties_free[engine->penalties_free_count++] = limits->penalty_rows - 1 - i;
    uint32_t most = limits->rows_max < limits->tokens_max ? limits->rows_max : limits->tokens_max;
    engine->order_max = limits->slots_max < most ? limits->slots_max : most;
    engine->paged = f->blocks_per_sequence_max > 0;
    engine->cuttable = !f->whole_input;
    engine->sharing = engine->paged && engine->cuttable;
    pace_init(&engine->pace, engine->options.step_stretch);
    queue_reset(&engine->queue);
    blocks_reset(&engine->blocks);
    engine->blocks.events = engine->options.kv_events;
    batch_init(engine->batch, limits);
    stat_set(&engine->stats.blocks_total, engine->blocks.count);
}

static enum status masks_open(struct engine *engine, struct error *err)
{
    struct vocabulary *v = engine->options.vocabulary;
    engine->masks.vocabulary = v;
    engine->masks.words = vocabulary_words(v);
    engine->masks.limits = mask_limits;
    engine->masks.idle_bytes_max = engine->options.mask_idle_bytes > 0
                                       ? engine->options.mask_idle_bytes
                                       : MASK_IDLE_GRAMMAR_BYTES;
    engine->masks.stats = &engine->stats;
    enum status status = mask_thread_open(&engine->masks, err);
    if (status == STATUS_OK)
        vocabulary_ref(v);
    return status;
}

uint64_t engine_requests(const struct engine *engine)
{
    return atomic_load_explicit(&engine->gate.counters.requests, memory_order_relaxed);
}

uint64_t engine_step_timeout(const struct engine *engine)
{
    uint64_t timeout = engine->options.step_deadline_ns;
    return timeout > 0 ? timeout : STEP_DEADLINE_NS;
}

enum status engine_open(struct engine **out, struct model *model,
                        const struct engine_options *options, struct error *err)
{
    struct engine sizes = {.facts = *model_facts(model), .options = *options, .model = model};
    facts_check(&sizes);
    size_t bytes = engine_layout(&sizes, NULL);
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return error_set(err, STATUS_NO_MEMORY,
                         "%zu bytes for queues and stores could not be allocated: lower "
                         "max-queued-requests, max-queued-tokens or max-result-bytes",
                         bytes);
    struct engine *engine = base;
    engine->facts = sizes.facts;
    engine->options = sizes.options;
    engine->model = model;
    engine->bytes = bytes;
    engine_layout(engine, base);
    state_init(engine);
    gate_init(engine);
    model_step_deadline(model, engine_step_timeout(engine));
    enum status status = waker_open(&engine->gate.waker, err);
    if (status == STATUS_OK && options->vocabulary)
        status = masks_open(engine, err);
    if (status != STATUS_OK) {
        waker_close(engine->gate.waker);
        munmap(base, bytes);
        return status;
    }
    *out = engine;
    return STATUS_OK;
}

void engine_close(struct engine *engine)
{
    if (!engine)
        return;
    if (engine->options.vocabulary) {
        mask_thread_close(&engine->masks);
        mask_worker_empty(&engine->masks);
        vocabulary_unref(engine->options.vocabulary);
    }
    waker_close(engine->gate.waker);
    munmap(engine, engine->bytes);
}

struct port *engine_port(struct engine *engine, uint32_t index, struct waker *waker)
{
    check(index < engine->options.port_count, "port %u of %u", index, engine->options.port_count);
    struct port *port = &engine->ports[index];
    port->gate = &engine->gate;
    port->waker = waker;
    return port;
}

static void gate_fail(struct engine *engine)
{
    // seq_cst: see port_submit.
    atomic_store_explicit(&engine->gate.state, GATE_FAILED, memory_order_seq_cst);
    stat_set(&engine->stats.failed, 1);
}

// Handles a device fault: the results of steps in flight are lost. Ends all live requests with an
// error; requests accepted later end in the same way (intake.c).
static enum engine_news engine_fail(struct engine *engine)
{
    gate_fail(engine);
    model_drop(engine->model);
    model_more(engine->model, false);
    engine->failed = true;
    if (engine->blocks.events)
        kv_event_cleared(engine->blocks.events);
    stat_set(&engine->stats.step_started_ns, 0);
    while (engine->live_first)
        request_end(engine, engine->live_first, FINISH_ERROR);
    return ENGINE_FAULT;
}

// Waits for the oldest launched step and settles it.
static enum status step_collect(struct engine *engine)
{
    struct launch *launch = &engine->launches[engine->settled % ENGINE_LAUNCHES];
    uint64_t deadline = engine_now(engine) + engine_step_timeout(engine);
    struct model_output output;
    enum status status = model_collect(engine->model, &output, deadline, &engine->error);
    if (status != STATUS_OK)
        return status;
    engine->settled++;
    step_settle(engine, launch, &output);
    stat_set(&engine->stats.step_finished_ns, engine_now(engine));
    if (engine->launched == engine->settled)
        stat_set(&engine->stats.step_started_ns, 0);
    return STATUS_OK;
}

// Launches a step and samples it. If a row's mask needs a token that is still in flight, the
// previous step is settled after the launch, while this step runs, and the mask is requested then.
static enum status step_launch(struct engine *engine)
{
    struct launch *launch = &engine->launches[engine->launched % ENGINE_LAUNCHES];
    launch->step = ++engine->launched;
    batch_fill(engine, launch);
    // Before the launch: a CPU computes the step in that call.
    bool requested = masks_request(engine, launch);
    stat_set(&engine->stats.step_started_ns, engine_now(engine));
    enum status status = model_launch(engine->model, engine->batch, &engine->error);
    if (status == STATUS_OK && !requested) {
        status = step_collect(engine);
        requested = status != STATUS_OK || masks_request(engine, launch);
        check(requested, "a mask of step %llu needs a token of another step than the one before",
              (unsigned long long)launch->step);
    }
    if (status != STATUS_OK)
        return status;
    masks_wait(engine, launch);
    return model_sample(engine->model, launch->mask_count > 0 ? model_masks(engine->model) : NULL,
                        launch->mask_count, &engine->error);
}

// Makes masks without a step: all rows of the plan wait for their masks.
static void masks_run(struct engine *engine)
{
    // The launch of the next step.
    struct launch *launch = &engine->launches[engine->launched % ENGINE_LAUNCHES];
    launch->row_count = launch->mask_count = launch->loose_count = 0;
    masks_begin(engine, launch);
    bool requested = masks_request(engine, launch);
    check(requested, "a row waits for its mask with a token in flight");
    masks_wait(engine, launch);
    stat_add(&engine->stats.masks_alone, 1);
}

static uint32_t plan_prompt_tokens(const struct plan *plan)
{
    uint32_t tokens = 0;
    for (uint32_t i = 0; i < plan->prefill_count; i++)
        tokens += plan->prefill[i].q_len;
    return tokens;
}

// Plans and launches one step, then settles the oldest one: this step, or the previous step if the
// device keeps one in flight and it is not settled yet. *worked: true if the loop must not sleep.
static enum status step_run(struct engine *engine, bool *worked)
{
    pace_end(&engine->pace, engine->now_ns);
    bool planned = plan_make(engine), waits = engine->plan.waiting_count > 0;
    if (planned)
        pace_planned(&engine->pace, plan_prompt_tokens(&engine->plan), engine->now_ns);
    model_more(engine->model, planned);
    if (planned) {
        enum status status = step_launch(engine);
        if (status != STATUS_OK)
            return status;
    } else if (waits) {
        masks_run(engine);
    }
    uint64_t inflight = engine->launched - engine->settled;
    *worked = planned || waits || inflight > 0 || (engine->plan.refused && engine->queue.first);
    if (inflight > (planned ? engine->facts.steps_in_flight : 0))
        return step_collect(engine);
    return STATUS_OK;
}

static void gauges_set(struct engine *engine)
{
    struct engine_stats *stats = &engine->stats;
    uint32_t running = 0;
    for (uint32_t i = 0; i < engine->order_count; i++)
        running += engine->order[i]->state != SEQUENCE_WAITING;
    stat_set(&stats->sequences_running, running);
    stat_set(&stats->sequences_waiting, engine->waiting_sequences + engine->order_count - running);
    stat_set(&stats->sequences_parked, engine->parked_count);
    stat_set(&stats->blocks_used, engine->blocks.count - blocks_available(&engine->blocks));
    stat_set(&stats->blocks_cached, engine->blocks.cached_count);
    if (engine->blocks.events)
        stat_set(&stats->kv_events_lost,
                 atomic_load_explicit(&engine->blocks.events->lost, memory_order_relaxed));
}

enum engine_news engine_step(struct engine *engine, uint64_t now_ns)
{
    engine->now_ns = now_ns;
    stat_set(&engine->stats.beat_ns, now_ns);
    bool news = intake_accept(engine);
    bool worked = false;
    enum engine_news out = ENGINE_FAULT;
    if (!engine->failed) {
        bool lost = atomic_load_explicit(&engine->gate.state, memory_order_seq_cst) == GATE_FAILED;
        enum status status = lost ? error_set(&engine->error, STATUS_DEVICE_FAULT,
                                              "the device failed in a step of another model")
                                  : step_run(engine, &worked);
        news = parked_trim(engine) || news;
        out = status != STATUS_OK ? engine_fail(engine)
              : worked || news    ? ENGINE_WORKED
                                  : ENGINE_IDLE;
    }
    masks_post(engine);
    gauges_set(engine);
    ports_wake(engine);
    return out;
}

static bool engine_over(struct engine *engine)
{
    if (atomic_load_explicit(&engine->gate.state, memory_order_seq_cst) == GATE_OPEN)
        return false;
    return intake_empty(engine) && engine->live_count == 0 &&
           (engine->failed || engine->launched == engine->settled);
}

enum engine_news engine_run(struct engine *engine)
{
    engine->own_clock = true;
    for (;;) {
        enum engine_news news = engine_step(engine, clock_ns());
        if (engine_over(engine)) {
            model_more(engine->model, false);
            return news == ENGINE_FAULT ? news : ENGINE_IDLE;
        }
        if (news != ENGINE_IDLE)
            continue;
        waker_wait(engine->gate.waker, engine->live_count > 0 ? LIVE_MS : IDLE_MS);
    }
}

void engine_stop(struct engine *engine)
{
    uint32_t open = GATE_OPEN; // does not replace GATE_FAILED
    atomic_compare_exchange_strong_explicit(&engine->gate.state, &open, GATE_STOPPED,
                                            memory_order_seq_cst, memory_order_seq_cst);
    waker_raise(engine->gate.waker);
}

void engine_device_failed(struct engine *engine)
{
    gate_fail(engine);
    waker_raise(engine->gate.waker);
}

const struct error *engine_error(const struct engine *engine)
{
    return &engine->error;
}

const struct engine_stats *engine_stats(const struct engine *engine)
{
    return &engine->stats;
}

const struct model_facts *engine_facts(const struct engine *engine)
{
    return &engine->facts;
}
