// SPDX-License-Identifier: Apache-2.0
// Conformance of sample in cases that random rows seldom reach: ties, the first and last token of a
// vocabulary and of a chunk, logits that are not finite, ids outside the vocabulary, the ends of
// the list of end ids, and the minimum number of outputs. Each case is one row whose outcome is
// known.
#include "tests/conformance/trial.h"

#include <math.h>
#include <string.h>

enum { SLOT = 2, SLOTS = 3, GAP = 5, BIAS_MAX = 4 };

struct edge {
    const char *what;
    uint32_t vocab;
    float *logits; // [vocab + GAP]; NaN after the vocabulary, which must not be read
    struct sample_params params;
    struct step_bias bias[BIAS_MAX];
    const uint32_t *mask;
    uint32_t max_top;
    struct sample_result result;
    struct sample_top top[SAMPLE_TOP_MAX];
    struct sample_params after;
    uint32_t done;
    int32_t last;
};

// Makes a case whose logits are all -3; a logit that an implementation treats as 0 would win.
static struct edge edge_make(struct trial *t, const char *what, uint32_t vocab)
{
    static uint64_t seed = 51000;
    trial_begin(t, seed++);
    struct edge e = {.what = what, .vocab = vocab, .max_top = SAMPLE_TOP_MAX};
    e.logits = trial_heap(t, (vocab + GAP) * sizeof *e.logits);
    for (uint32_t i = 0; i < vocab + GAP; i++)
        e.logits[i] = i < vocab ? -3 : NAN;
    e.params = (struct sample_params){
        .top_p = 1, .repetition = 1, .penalty_row = STEP_NO_ROW, .output_count = 7};
    return e;
}

static void edge_run(struct trial *t, struct edge *e)
{
    struct step_limits l = t->limits.step;
    l.vocab = e->vocab;
    l.bias_max = BIAS_MAX;
    l.penalty_rows = 0;
    struct step_sampled sampled = {0, SLOT, 0, e->mask ? 0 : (uint32_t)STEP_NO_ROW};
    struct sample_params params[SLOTS] = {[SLOT] = e->params};
    struct step_bias bias[SLOTS][BIAS_MAX] = {{{0, 0}}};
    memcpy(bias[SLOT], e->bias, sizeof e->bias);
    size_t words = (e->vocab + 31) / 32;
    struct sample_args args = {
        .logits = trial_put(t, e->logits, (e->vocab + GAP) * sizeof *e->logits),
        .sampled = trial_put(t, &sampled, sizeof sampled),
        .state = {.last_token = trial_device(t, SLOTS * sizeof(int32_t)),
                  .params = trial_put(t, params, sizeof params),
                  .done = trial_device(t, SLOTS * sizeof(uint32_t)),
                  .bias = trial_put(t, bias, sizeof bias)},
        .masks = e->mask ? trial_put(t, e->mask, words * sizeof *e->mask) : NULL,
        .result = trial_host(t, sizeof *args.result),
        .top = e->max_top > 0 ? trial_host(t, sizeof e->top) : NULL,
        .limits = l,
        .count = 1,
        .stride = e->vocab + GAP,
        .max_top = e->max_top,
    };
    trial_true(t, "sample runs", t->api->ops->sample(t->stream, &args) == STATUS_OK);
    trial_fetch(t, &e->last, args.state.last_token + SLOT, sizeof e->last); // waits for the stream
    trial_fetch(t, &e->done, args.state.done + SLOT, sizeof e->done);
    trial_fetch(t, &e->after, args.state.params + SLOT, sizeof e->after);
    e->result = *args.result;
    if (args.top)
        memcpy(e->top, args.top, sizeof e->top);
}

static void edge_expect(struct trial *t, struct edge *e, int32_t token, uint32_t flags)
{
    edge_run(t, e);
    trial_true(t, e->what, e->result.token == token && e->result.flags == flags);
    trial_true(t, "done", e->done == (flags != 0 && flags != SAMPLED_DROPPED));
    trial_true(t, "last token", e->last == (token < 0 ? 0 : token));
    trial_true(t, "count of outputs", e->after.output_count == (token < 0 ? 7u : 8u));
}

static void edges_greatest(struct trial *t, uint32_t vocab)
{
    const uint32_t last = vocab - 1;
    const uint32_t pairs[][2] = {
        {0, last}, {last - 1, last}, {last / 2, last}, {0, 1}, {last, last}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        struct edge e = edge_make(t, "of equal logits the first is taken", vocab);
        e.logits[pairs[i][0]] = e.logits[pairs[i][1]] = -1;
        e.params.flags = SAMPLE_LOGPROB;
        edge_expect(t, &e, (int32_t)pairs[i][0], 0);
        double tops = pairs[i][0] == pairs[i][1] ? 1 : 2;
        double want = -log(tops + (vocab - tops) * exp(-2));
        trial_true(t, "its logprob", fabs((double)e.result.logprob - want) < 2e-4);
    }
    struct edge e = edge_make(t, "one candidate is no draw", vocab);
    e.logits[last] = e.logits[1] = -2;
    e.params.temperature = 1;
    e.params.top_k = 1;
    edge_expect(t, &e, 1, 0);
    e = edge_make(t, "a temperature of next to nothing is no draw", vocab);
    e.logits[last] = -2.99f;
    e.params.temperature = 0.99e-5f;
    edge_expect(t, &e, (int32_t)last, 0);
}

// The upper eleven bits of 1.8 are the last of a group of 64 bins, so the sum over a group must
// include its last bin.
static void last_of_64(struct trial *t, uint32_t vocab)
{
    struct edge e = edge_make(t, "those that top-k leaves have a digit at the end of 64", vocab);
    for (uint32_t i = 0; i < vocab; i++)
        e.logits[i] = i < 10 ? 1.8f : 0;
    e.params.temperature = 1;
    e.params.top_k = 10;
    edge_run(t, &e);
    trial_true(t, e.what, e.result.token >= 0 && e.result.token < 10 && e.result.flags == 0);
}

static void edges_not_finite(struct trial *t, uint32_t vocab)
{
    const uint32_t last = vocab - 1, places[] = {0, last / 2, last};
    for (size_t i = 0; i < 3; i++)
        for (int kind = 0; kind < 2; kind++) {
            struct edge e = edge_make(t, "what is not finite ends the sequence", vocab);
            e.logits[places[i]] = kind == 0 ? NAN : INFINITY;
            edge_expect(t, &e, -1, SAMPLED_NOT_FINITE);
        }
    struct edge e = edge_make(t, "no logit at all ends the sequence", vocab);
    for (uint32_t i = 0; i < vocab; i++)
        e.logits[i] = -INFINITY;
    edge_expect(t, &e, -1, SAMPLED_NOT_FINITE);
    for (size_t i = 0; i < 3; i++) {
        e = edge_make(t, "the only logit is taken", vocab);
        for (uint32_t k = 0; k < vocab; k++)
            e.logits[k] = k == places[i] ? -40 : -INFINITY;
        e.params.temperature = 1;
        e.params.top_p = i == 1 ? 0.5f : 1;
        edge_expect(t, &e, (int32_t)places[i], 0);
    }
}

static void edges_changed(struct trial *t, uint32_t vocab)
{
    const uint32_t last = vocab - 1;
    struct edge e = edge_make(t, "biases of other ids change nothing", vocab);
    e.logits[1] = -2;
    e.params.bias_count = 2;
    e.bias[0] = (struct step_bias){-1, 50};
    e.bias[1] = (struct step_bias){(int32_t)vocab, 50};
    e.bias[2] = (struct step_bias){0, 50}; // after the end of the list
    edge_expect(t, &e, 1, 0);
    e = edge_make(t, "a token listed twice gets both biases", vocab);
    e.logits[1] = -2;
    e.params.bias_count = 4;
    e.bias[0] = e.bias[3] = (struct step_bias){(int32_t)last, 0.75f};
    e.bias[1] = (struct step_bias){0, -5};
    e.bias[2] = (struct step_bias){2, 0.9f};
    edge_expect(t, &e, (int32_t)last, 0);
    for (int kind = 0; kind < 3; kind++) {
        e = edge_make(t, "a mask leaves one token, or all where no logit is left", vocab);
        uint32_t *mask = trial_heap(t, (vocab + 31) / 32 * sizeof *mask);
        uint32_t only = kind == 0 ? 0 : last;
        e.logits[1] = -2;
        if (kind == 2)
            e.logits[only] = -INFINITY;
        mask[only / 32] = 1u << (only % 32);
        e.mask = mask;
        e.params.temperature = kind == 0 ? 0 : 1;
        edge_expect(t, &e, kind < 2 ? (int32_t)only : 1, 0);
    }
}

// A mask without any bit drops the row: the sequence stays unchanged, whatever else the row
// requests.
static void edges_dropped(struct trial *t, uint32_t vocab)
{
    uint32_t words = (vocab + 31) / 32;
    for (int kind = 0; kind < 4; kind++) {
        struct edge e = edge_make(t, "an empty mask drops the row", vocab);
        uint32_t *mask = trial_heap(t, words * sizeof *mask);
        e.mask = mask;
        e.params.temperature = kind == 0 ? 0 : 1;
        e.params.flags = SAMPLE_LOGPROB;
        e.params.top_logprobs = 3;
        e.params.stop_ids[0] = 0; // the token that would be drawn without a mask
        e.params.stop_count = 1;
        e.params.output_min = kind == 1 ? 20 : 0;
        e.params.bias_count = kind == 2;
        e.bias[0] = (struct step_bias){1, 50};
        if (kind == 3)
            e.logits[vocab - 1] = NAN;
        edge_expect(t, &e, -1, kind == 3 ? SAMPLED_NOT_FINITE : SAMPLED_DROPPED);
        trial_true(t, "no list and no logprob", e.result.top_count == 0 && e.result.logprob == 0);
    }
    if (vocab % 32 == 0)
        return;
    struct edge e = edge_make(t, "bits past the vocabulary are bits", vocab);
    uint32_t *mask = trial_heap(t, words * sizeof *mask);
    mask[words - 1] = 1u << 31;
    e.mask = mask;
    e.logits[1] = -2;
    edge_expect(t, &e, 1, 0);
}

// Before the minimum number of outputs end ids are banned; if a mask allows nothing else, they are
// produced and do not end the sequence. From the minimum on they end it, at any position of the
// list. Ids after the list's count have no effect.
static void edges_end_ids(struct trial *t, uint32_t vocab)
{
    const uint32_t last = vocab - 1;
    static const uint32_t places[] = {0, 1, 7, 8, SAMPLE_STOP_IDS_MAX - 1};
    for (size_t k = 0; k < sizeof places / sizeof *places; k++)
        for (int kind = 0; kind < 6; kind++) {
            static const char *const what[] = {
                "an end id ends",      "an end id is banned", "an id past the list's end",
                "end ids are ignored", "a forced end id",     "a forced end id at the minimum"};
            uint32_t place = places[k];
            struct edge e = edge_make(t, what[kind], vocab);
            e.logits[last] = -1;
            e.logits[1] = -2;
            for (uint32_t i = 0; i < SAMPLE_STOP_IDS_MAX; i++)
                e.params.stop_ids[i] = i == place ? (int32_t)last : i % 2 ? -1 : (int32_t)vocab;
            e.params.stop_count = kind == 2 ? place : place + 1;
            e.params.output_min = kind == 1 || kind == 4 ? 8 : 7; // seven tokens were produced
            e.params.flags = kind == 3 ? SAMPLE_IGNORE_END : 0;
            uint32_t *mask = trial_heap(t, (vocab + 31) / 32 * sizeof *mask);
            mask[last / 32] = 1u << last % 32;
            e.mask = kind >= 4 ? mask : NULL;
            edge_expect(t, &e, kind == 1 ? 1 : (int32_t)last,
                        kind == 0 || kind == 5 ? SAMPLED_END : 0);
        }
}

static void edges_tops(struct trial *t, uint32_t vocab)
{
    uint32_t wanted = vocab < SAMPLE_TOP_MAX ? vocab : SAMPLE_TOP_MAX;
    struct edge e = edge_make(t, "the last token leads the list", vocab);
    e.logits[vocab - 1] = -1;
    e.params.top_logprobs = SAMPLE_TOP_MAX;
    edge_expect(t, &e, (int32_t)vocab - 1, 0);
    trial_true(t, "as many as there are", e.result.top_count == wanted);
    for (uint32_t i = 0; i < wanted; i++)
        trial_true(t, "listed", e.top[i].token == (i == 0 ? (int32_t)vocab - 1 : (int32_t)i - 1));
    e = edge_make(t, "without memory there is no list", vocab);
    e.params.top_logprobs = 3;
    e.max_top = 0;
    edge_expect(t, &e, 0, 0);
    trial_true(t, "no list", e.result.top_count == 0);
}

void sample_edges(struct trial *t)
{
    // smaller than a vector, smaller than the longest list, a multiple of 32 plus 1, a chunk of the
    // cuda device, one more
    static const uint32_t vocabs[] = {5, 18, 97, 8192, 8193};
    for (size_t i = 0; i < sizeof vocabs / sizeof *vocabs; i++) {
        edges_greatest(t, vocabs[i]);
        edges_not_finite(t, vocabs[i]);
        edges_changed(t, vocabs[i]);
        edges_dropped(t, vocabs[i]);
        edges_tops(t, vocabs[i]);
        if (i % 2 == 0)
            edges_end_ids(t, vocabs[i]);
    }
    last_of_64(t, 8193);
}
