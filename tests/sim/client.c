// SPDX-License-Identifier: Apache-2.0
// Clients of the simulation. They submit, read fast, slowly or not at all, cancel, and compare each
// token, score and count with those of the same request computed alone.
#include "tests/sim/sim.h"

#include "base/number.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// Prompts belong to a few families. Those of one family are equal up to a random point, so that
// blocks are shared.
static void prompt_fill(struct sim *sim, struct client *c, uint32_t at, uint32_t length)
{
    uint32_t vocab = sim->fake.facts.vocab, family = roll(&sim->dice, 4);
    uint32_t same = chance(&sim->dice, 50) ? length : roll(&sim->dice, length + 1);
    for (uint32_t i = 0; i < length; i++)
        c->tokens[at + i] =
            (int32_t)(i < same ? (family * 31 + i * 7) % vocab : roll(&sim->dice, vocab));
}

static void prompts_fill(struct sim *sim, struct client *c)
{
    struct dice *dice = &sim->dice;
    struct submit_args *a = &c->args;
    uint32_t most = sim->fake.facts.max_model_len - 1;
    uint32_t prompts = chance(dice, 80) ? 1 : 1 + roll(dice, 4);
    for (uint32_t i = 0; i < prompts; i++) {
        uint32_t length = 1 + roll(dice, chance(dice, 20) ? most : most / 2);
        if (a->token_count + length > SIM_PROMPT_MAX)
            break;
        prompt_fill(sim, c, a->token_count, length);
        a->token_count += length;
        a->sequence_count++;
        c->starts[a->sequence_count] = a->token_count;
    }
    uint32_t choices = SIM_CHOICES / a->sequence_count;
    a->choice_count = chance(dice, 70) ? 1 : 1 + roll(dice, choices);
}

static void generation_fill(struct sim *sim, struct client *c)
{
    struct dice *dice = &sim->dice;
    struct submit_args *a = &c->args;
    uint32_t most = sim->fake.facts.max_model_len - 1;
    prompts_fill(sim, c);
    a->kind = REQUEST_GENERATE;
    a->max_tokens = 1 + roll(dice, chance(dice, 80) ? 30 : 2 * most);
    a->ignore_end = chance(dice, 20);
    a->stop_id_count = chance(dice, 30) ? roll(dice, 12) : 0;
    for (uint32_t i = 0; i < a->stop_id_count; i++)
        c->stop_ids[i] = (int32_t)roll(dice, sim->fake.facts.vocab);
    a->bias_count = chance(dice, 20) ? roll(dice, sim->fake.facts.limits.bias_max + 1) : 0;
    for (uint32_t i = 0; i < a->bias_count; i++)
        c->bias[i] = (struct token_bias){(int32_t)roll(dice, 50), (float)roll(dice, 9)};
    uint32_t which = roll(dice, 2 * SIM_GRAMMARS);
    if (which == SIM_OPTIONAL && !sim->watch)
        which = 3;
    if (sim->options.vocabulary && which < SIM_GRAMMARS)
        a->grammar = sim->grammars[which];
    for (uint32_t i = 0; a->grammar && i < submit_choices(a); i++)
        matcher_init(&c->matchers[i], sim->caches[which]);
    if (sim->options.vocabulary && chance(dice, 25))
        rules_roll(sim, c);
    if (a->grammar && which == SIM_OPTIONAL) {
        a->watch = sim->watch;
        a->watch_phase = (uint8_t)roll(dice, TOKEN_OPEN);
    }
    for (uint32_t i = 0; a->watch && i < submit_choices(a); i++)
        grammar_watch(c, i);
    bool penalty = chance(dice, 25) && sim->fake.facts.limits.penalty_rows > 0;
    a->sampling = (struct sampling){.seed = roll(dice, 3),
                                    .repetition = penalty ? 1.5f : 1.0f,
                                    .logprob = chance(dice, 50),
                                    .top_logprobs = chance(dice, 20) ? roll(dice, 21) : 0,
                                    .output_min = chance(dice, 20) ? roll(dice, 8) : 0};
}

static void pooling_fill(struct sim *sim, struct client *c)
{
    struct dice *dice = &sim->dice;
    struct submit_args *a = &c->args;
    uint32_t most = sim->fake.facts.max_model_len;
    uint32_t inputs = chance(dice, 50) ? 1 : 1 + roll(dice, 30);
    if (chance(dice, 3)) { // more inputs than a generation may have choices
        inputs = REQUEST_CHOICES_MAX + 1 + roll(dice, SIM_PROMPT_MAX - REQUEST_CHOICES_MAX);
        most = 1;
    }
    a->kind = sim->fake.facts.kind == MODEL_EMBEDDER ? REQUEST_EMBED : REQUEST_SCORE;
    for (uint32_t i = 0; i < inputs && a->token_count < SIM_PROMPT_MAX; i++) {
        uint32_t length = 1 + roll(dice, smaller(most, SIM_PROMPT_MAX - a->token_count));
        prompt_fill(sim, c, a->token_count, length);
        c->types[i] = chance(dice, 50) ? roll(dice, length) : STEP_NO_TYPE;
        a->token_count += length;
        a->sequence_count++;
        c->starts[a->sequence_count] = a->token_count;
    }
    a->choice_count = 1;
    a->type_from = sim->fake.facts.token_types ? c->types : NULL;
}

// Fills the parameters that the device is expected to receive: stop ids are the end ids, then the
// request's. Feeds the prompts to `alone`.
static void params_complete(struct sim *sim, struct client *c)
{
    const struct sampling *asked = &c->args.sampling;
    struct sample_params *p = &c->expected;
    *p = (struct sample_params){.seed = asked->seed,
                                .repetition = asked->repetition,
                                .flags = asked->logprob ? SAMPLE_LOGPROB : 0,
                                .top_logprobs = asked->top_logprobs,
                                .output_min = asked->output_min};
    const struct model_facts *f = &sim->fake.facts;
    for (uint32_t i = 0; i < f->end_count; i++)
        p->stop_ids[p->stop_count++] = f->end_ids[i];
    for (uint32_t i = 0; i < c->args.stop_id_count; i++)
        p->stop_ids[p->stop_count++] = c->stop_ids[i];
    if (p->repetition != 1.0f)
        p->flags |= SAMPLE_PENALTY;
    p->bias_count = c->args.bias_count;
    for (uint32_t i = 0; i < p->bias_count; i++)
        c->bias_expected[i] = (struct step_bias){c->bias[i].token, c->bias[i].value};
    for (uint32_t choice = 0; choice < submit_choices(&c->args); choice++) {
        struct fake_alone *alone = &c->alone[choice];
        uint32_t prompt = choice / c->args.choice_count;
        *alone = (struct fake_alone){.type_from = STEP_NO_TYPE};
        for (uint32_t i = c->starts[prompt]; i < c->starts[prompt + 1]; i++) {
            fake_feed(alone, c->tokens[i]);
            fake_count(alone, c->tokens[i], false);
        }
    }
}

static void matchers_end(struct client *c)
{
    for (uint32_t i = 0; i < SIM_CHOICES; i++)
        matcher_end(&c->matchers[i]); // does nothing for a matcher that was not initialized
    token_rules_unref(c->args.rules);
    c->args.rules = NULL;
}

void client_submit(struct sim *sim, struct client *c)
{
    struct dice *dice = &sim->dice;
    memset(c, 0, offsetof(struct client, tokens));
    c->starts[0] = 0;
    c->finishes = c->drawn = c->redrawn = 0;
    memset(&c->turn, 0, sizeof c->turn);
    memset(&c->first, 0, sizeof c->first);
    memset(c->finished, 0, sizeof c->finished);
    memset(c->cut, 0, sizeof c->cut);
    memset(c->outputs, 0, sizeof c->outputs);
    bool generate = sim->fake.facts.kind == MODEL_GENERATOR;
    if (generate)
        generation_fill(sim, c);
    else
        pooling_fill(sim, c);
    c->args.tokens = c->tokens;
    c->args.sequence_start = c->starts;
    c->args.stop_ids = c->stop_ids;
    c->args.bias = c->bias;
    c->args.owner = c;
    c->args.cache_salt[0] = chance(dice, 80) ? 0 : roll(dice, 3);
    c->args.deadline_ns = chance(dice, 10) ? sim->now_ns + roll(dice, 400) * 1000000u : 0;
    c->args.key_id = roll(dice, SIM_KEYS);
    c->reader = chance(dice, 60) ? READER_FAST : (enum reader)roll(dice, 4);
    c->port = sim->ports[roll(dice, sim->options.port_count)];
    enum admission got = port_submit(c->port, &c->args, &c->request);
    sim_check(sim, got != ADMISSION_DRAINING || sim->closing, "refused as draining");
    sim_check(sim, got != ADMISSION_FAILED || sim->failed, "refused as failed");
    sim_check(sim, got != ADMITTED || !sim->failed, "admitted by a failed engine");
    bool never = c->args.token_count > sim->options.max_queued_tokens;
    sim_check(sim, sim->failed || sim->closing || (got == ADMISSION_TOO_MANY_TOKENS) == never,
              "admission %u of %u tokens", got, c->args.token_count);
    c->used = got == ADMITTED;
    if (!c->used)
        matchers_end(c);
    if (generate && c->used)
        params_complete(sim, c);
}

static bool contains(const int32_t *ids, uint32_t count, int32_t token)
{
    for (uint32_t i = 0; i < count; i++)
        if (ids[i] == token)
            return true;
    return false;
}

static enum finish finish_expected(struct sim *sim, struct client *c, uint32_t choice,
                                   int32_t token)
{
    const struct model_facts *f = &sim->fake.facts;
    uint32_t index = c->outputs[choice];
    if (c->args.grammar && !c->args.watch && contains(f->end_ids, f->end_count, token))
        return FINISH_STOP;
    bool end = !c->args.ignore_end && contains(f->end_ids, f->end_count, token);
    bool stop = contains(c->stop_ids, c->args.stop_id_count, token);
    if ((end || stop) && index >= c->args.sampling.output_min)
        return FINISH_STOP;
    if (index + 1 == c->args.max_tokens)
        return FINISH_LENGTH;
    uint32_t prompt = choice / c->args.choice_count;
    if (c->starts[prompt + 1] - c->starts[prompt] + index + 1 == f->max_model_len)
        return FINISH_CONTEXT;
    return FINISH_NONE;
}

static void token_compare(struct sim *sim, struct client *c, const struct token_event *event,
                          const struct token_top *tops)
{
    uint32_t choice = event->choice;
    struct fake_alone *alone = &c->alone[choice];
    struct sample_params params = c->expected;
    params.choice = choice % c->args.choice_count;
    params.output_count = c->outputs[choice];
    uint32_t mask[SIM_MASK_WORDS];
    enum next next = c->args.grammar ? grammar_next(c, choice, mask) : NEXT_FREE;
    sim_check(sim, next == NEXT_FREE || next == NEXT_MASKED, "choice %u: a token after the end",
              choice);
    if (c->args.rules && next == NEXT_FREE)
        memset(mask, 0xff, sizeof mask);
    bool masked = next == NEXT_MASKED || c->args.rules;
    int32_t only = budget_only(sim, c, choice);
    if (only >= 0 && (mask[only / 32] >> only % 32 & 1)) {
        memset(mask, 0, sizeof mask);
        mask[only / 32] = 1u << only % 32;
        sim->forced++;
    } else if (c->args.rules && !rules_leave(sim, c, choice, mask)) {
        masked = next == NEXT_MASKED || !c->args.grammar;
    }
    int32_t expected =
        fake_next(alone, &params, c->bias_expected, masked ? mask : NULL, sim->fake.facts.vocab);
    sim->masked += masked;
    if (c->args.rules) {
        budget_take_token(sim, c, choice);
        c->history[choice][c->outputs[choice]] = expected;
    }
    sim_check(sim, !fake_sick(alone, sim->fake.sick), "choice %u: a token of sick logits", choice);
    sim_check(sim, event->index == c->outputs[choice], "choice %u: index %u, expected %u", choice,
              event->index, c->outputs[choice]);
    sim_check(sim, event->token == expected, "choice %u, output %u: token %d, alone %d", choice,
              event->index, event->token, expected);
    enum finish finish = finish_expected(sim, c, choice, expected);
    sim_check(sim, event->finish == finish, "choice %u: finish %u, expected %u", choice,
              event->finish, finish);
    float logprob = params.flags & SAMPLE_LOGPROB ? -(float)(expected % 7) : 0.0f;
    sim_check(sim, event->logprob == logprob, "logprob %g", (double)event->logprob);
    sim_check(sim, event->top_count == params.top_logprobs, "%u tops", event->top_count);
    for (uint32_t i = 0; i < event->top_count; i++)
        sim_check(sim, tops[i].token == expected + (int32_t)i, "top %u", i);
    if (c->args.grammar && finish == FINISH_NONE)
        grammar_take_token(sim, c, choice, expected);
    fake_feed(alone, expected);
    fake_count(alone, expected, true);
    c->outputs[choice]++;
    sim->tokens++;
}

static void values_compare(struct sim *sim, struct client *c)
{
    for (uint32_t i = 0; i < c->args.sequence_count; i++) {
        struct fake_alone alone = {.type_from = c->args.type_from ? c->types[i] : STEP_NO_TYPE};
        for (uint32_t t = c->starts[i]; t < c->starts[i + 1]; t++)
            fake_feed(&alone, c->tokens[t]);
        const float *values = request_values(c->request, i);
        for (uint32_t w = 0; w < sim->fake.facts.output_width; w++)
            sim_check(sim,
                      values[w] == fake_value(&alone, w) ||
                          (sim->spoilt_step > 0 && isnan(values[w])),
                      "input %u: value %u is %g", i, w, (double)values[w]);
    }
}

static void finish_check(struct sim *sim, struct client *c, const struct token_event *event)
{
    sim_check(sim, !c->finished[event->choice], "choice %u finishes twice", event->choice);
    c->finished[event->choice] = true;
    c->finishes++;
    uint32_t finishes = c->args.kind == REQUEST_GENERATE ? submit_choices(&c->args) : 1;
    bool last = c->finishes == finishes;
    sim_check(sim, last == ((event->flags & EVENT_LAST) != 0), "last flag at %u of %u", c->finishes,
              finishes);
    uint32_t mask[SIM_MASK_WORDS];
    bool token = event->flags & EVENT_TOKEN;
    enum next next = c->args.grammar && !token ? grammar_next(c, event->choice, mask) : NEXT_FREE;
    bool allowed = true;
    if (event->finish == FINISH_STOP)
        allowed = token || next == NEXT_NOTHING;
    else if (event->finish == FINISH_CANCEL)
        allowed = c->cancelled || c->cut[event->choice];
    else if (event->finish == FINISH_STALLED)
        allowed = c->reader != READER_FAST;
    else if (event->finish == FINISH_TIMEOUT)
        allowed = c->args.deadline_ns != 0 && sim->now_ns >= c->args.deadline_ns &&
                  c->outputs[event->choice] == 0;
    else if (event->finish == FINISH_ERROR) // may end one choice; the others continue
        allowed = sim->failed || sim->spoilt_step > 0 ||
                  fake_sick(&c->alone[event->choice], sim->fake.sick);
    else if (event->finish == FINISH_STUCK)
        allowed = next == NEXT_STUCK;
    else if (event->finish == FINISH_OVER || event->finish == FINISH_CROWDED)
        allowed = false; // no grammar of the simulation reaches the limits
    else if (event->finish == FINISH_DONE)
        values_compare(sim, c);
    sim_check(sim, allowed, "finish %u was not asked for", event->finish);
}

static void client_end(struct sim *sim, struct client *c)
{
    struct request_facts facts;
    request_facts_get(c->request, &facts);
    uint32_t each = sim->fake.facts.block_tokens;
    sim_check(sim, facts.prompt_tokens == c->args.token_count, "%u prompt tokens",
              facts.prompt_tokens);
    sim_check(sim,
              facts.cached_tokens == 0 ||
                  (facts.cached_tokens < facts.prompt_tokens && facts.cached_tokens % each == 0),
              "%u of %u tokens cached", facts.cached_tokens, facts.prompt_tokens);
    bool never = sim->engine->sharing && sim->options.prefix_cache;
    sim_check(sim, never || c->args.sequence_count > 1 || facts.cached_tokens == 0,
              "%u tokens cached without a cache", facts.cached_tokens);
    sim->hits += facts.cached_tokens > 0;
    sim->preemptions += facts.preemptions;
    port_free(c->port, c->request);
    matchers_end(c);
    c->used = false;
    sim->ended++;
}

void client_read(struct sim *sim, struct client *c, uint32_t most)
{
    struct token_event event;
    struct token_top tops[TOP_LOGPROBS_MAX];
    for (uint32_t i = 0; i < most && port_next(c->port, c->request, &event, tops); i++) {
        sim_check(sim, event.choice < submit_choices(&c->args), "choice %u", event.choice);
        if (event.flags & EVENT_TOKEN)
            token_compare(sim, c, &event, tops);
        if (event.finish == FINISH_NONE)
            continue;
        finish_check(sim, c, &event);
        if (!(event.flags & EVENT_LAST))
            continue;
        client_end(sim, c);
        return;
    }
}

// Cancels one choice that has tokens, as for a stop string. The choice may have finished in the
// engine.
static void choice_cut(struct sim *sim, struct client *c)
{
    uint32_t choice = roll(&sim->dice, submit_choices(&c->args));
    if (c->args.kind != REQUEST_GENERATE || c->outputs[choice] == 0 || c->finished[choice])
        return;
    c->cut[choice] = true;
    sim->cuts++;
    port_cancel_choice(c->port, c->request, choice);
}

void client_turn(struct sim *sim, struct client *c)
{
    static const uint32_t most[] = {
        [READER_FAST] = UINT32_MAX, [READER_SLOW] = 1, [READER_BURSTS] = 200};
    struct dice *dice = &sim->dice;
    if (chance(dice, 1) && !c->cancelled && chance(dice, 30)) {
        c->cancelled = true;
        sim->cancels++;
        port_cancel(c->port, c->request);
    }
    if (chance(dice, 3))
        choice_cut(sim, c);
    if (c->reader == READER_STOPPED) {
        // A stopped reader reads only after its request has ended by a cancel, a stall or a fault;
        // that frees the request.
        if (c->request->run.unfinished == 0)
            client_read(sim, c, UINT32_MAX);
    } else if (c->reader == READER_FAST || chance(dice, c->reader == READER_SLOW ? 50 : 3)) {
        client_read(sim, c, most[c->reader]);
    }
}
