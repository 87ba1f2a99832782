// SPDX-License-Identifier: Apache-2.0
// See pace.h: an estimate of step times and an adaptive number of prompt tokens. Engine thread
// only.
#include "scheduler/pace.h"

#include "base/number.h"

#include <string.h>

// The number of prompt tokens grows by 1/16 with each step that used all of them and is halved by
// each that did not, so that eleven of twelve steps have prompt tokens.
static const double growth = 1 + 1.0 / 16, decay = 0.5;
static const double weight = 1.0 / 8; // weight of a new measurement in a mean

// Adds a measurement to an exponential mean. About one measurement in a hundred is far too large,
// because another process had the CPU, so values are clipped to four times the mean.
static void mean_add(double *mean, double value)
{
    if (*mean > 0)
        value = smaller(value, 4 * *mean);
    *mean = *mean > 0 ? *mean + weight * (value - *mean) : value;
}

// Adds a duration to the ring and to its sorted copy.
static void recent_add(struct pace *p, double ns)
{
    uint32_t count = p->count;
    if (count == PACE_WINDOW) { // remove the oldest
        uint32_t at = 0;
        while (p->in_order[at] != p->recent[p->next])
            at++;
        count--;
        memmove(&p->in_order[at], &p->in_order[at + 1], (count - at) * sizeof *p->in_order);
    }
    uint32_t at = count;
    for (; at > 0 && p->in_order[at - 1] > ns; at--)
        p->in_order[at] = p->in_order[at - 1];
    p->in_order[at] = ns;
    p->count = count + 1;
    p->recent[p->next] = ns;
    p->next = (p->next + 1) % PACE_WINDOW;
}

// Returns true once both means are measured.
static bool means_known(const struct pace *p)
{
    return p->stretch > 1 && p->base_ns > 0 && p->token_ns > 0;
}

// Returns the number of prompt tokens that makes a step take `planned` times `ns`.
static double tokens_within(const struct pace *p, double ns)
{
    return larger((p->planned * ns - p->base_ns) / p->token_ns, (double)PACE_TOKENS_MIN);
}

// Returns the prompt tokens of the next step: at least the number that makes a step `planned` times
// as long as a step without prompt tokens, at most the number that makes it `planned` times the
// median.
static double tokens_now(const struct pace *p)
{
    double least = tokens_within(p, p->base_ns);
    double most = larger(least, tokens_within(p, p->in_order[p->count / 2]));
    return smaller(larger(p->tokens, least), most);
}

// Adapts `planned`: if other processes make steps overrun, chunks are sized for less than
// `stretch`. The factors balance when one step with prompt tokens in 72 overruns.
static void planned_adapt(struct pace *p, double ns)
{
    bool overrun = ns > p->stretch * p->in_order[p->count / 2];
    p->planned = smaller(larger(p->planned * (overrun ? 0.75 : 1.004), 1.0), p->stretch);
}

void pace_init(struct pace *p, double stretch)
{
    *p = (struct pace){.stretch = stretch, .planned = stretch};
}

void pace_note(struct pace *p, const struct pace_step *step)
{
    if (p->stretch <= 1 || step->decodes == 0)
        return;
    double ns = (double)step->ns;
    if (means_known(p) && step->tokens > 0)
        planned_adapt(p, ns);
    recent_add(p, ns);
    if (step->tokens == 0)
        mean_add(&p->base_ns, ns);
    else if (p->base_ns > 0)
        mean_add(&p->token_ns, larger(ns - p->base_ns, 0.0) / step->tokens);
    if (means_known(p))
        p->tokens = tokens_now(p) * (step->tokens == step->allowed ? growth : decay);
}

uint32_t pace_tokens(const struct pace *p, uint32_t most)
{
    if (p->stretch <= 1)
        return most;
    if (p->base_ns <= 0)
        return 0;
    double tokens = means_known(p) ? tokens_now(p) : (double)PACE_TOKENS_MIN;
    return tokens < (double)most ? (uint32_t)tokens : most;
}

uint32_t pace_begin(struct pace *p, uint32_t decodes, uint32_t most, bool bounded)
{
    uint32_t allowed = bounded ? pace_tokens(p, most) : most;
    p->step = (struct pace_step){.decodes = decodes, .allowed = allowed};
    return allowed;
}

void pace_planned(struct pace *p, uint32_t tokens, uint64_t now_ns)
{
    p->step.tokens = tokens;
    p->began_ns = now_ns;
}

// A step is measured from its start to the start of the next one, including settling and intake,
// because streams wait for that long.
void pace_end(struct pace *p, uint64_t now_ns)
{
    if (p->began_ns == 0)
        return;
    p->step.ns = now_ns - p->began_ns;
    p->began_ns = 0;
    pace_note(p, &p->step);
}
