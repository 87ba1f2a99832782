// See pace.h.
#include "scheduler/pace.h"

#include "base/number.h"

#include <string.h>

// Tokens grow by a sixteenth with each step that used them all and are halved by each that did not,
// so that eleven of twelve steps have prompt tokens.
static const double growth = 1 + 1.0 / 16, decay = 0.5;
static const double weight = 1.0 / 8; // of a new measurement in a mean

// One measurement in a hundred is far too large, because another process had the CPU: it is
// clipped.
static void mean_add(double *mean, double value)
{
    if (*mean > 0)
        value = smaller(value, 4 * *mean);
    *mean = *mean > 0 ? *mean + weight * (value - *mean) : value;
}

static void recent_add(struct pace *p, double ns)
{
    uint32_t count = p->count;
    if (count == PACE_WINDOW) { // the oldest leaves
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

static bool knows(const struct pace *p)
{
    return p->stretch > 1 && p->base_ns > 0 && p->token_ns > 0;
}

// Tokens that make a step take `planned` times `ns`.
static double tokens_within(const struct pace *p, double ns)
{
    return larger((p->planned * ns - p->base_ns) / p->token_ns, (double)PACE_TOKENS_MIN);
}

// At least what makes a step `planned` times as long as one without prompts, at most what makes it
// `planned` times as long as the median.
static double tokens_now(const struct pace *p)
{
    double least = tokens_within(p, p->base_ns);
    double most = larger(least, tokens_within(p, p->in_order[p->count / 2]));
    return smaller(larger(p->tokens, least), most);
}

// Where other processes disturb, chunks are sized for less than `stretch`. These factors balance
// when one step with prompts in 72 takes longer than it may.
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
    if (knows(p) && step->tokens > 0)
        planned_adapt(p, ns);
    recent_add(p, ns);
    if (step->tokens == 0)
        mean_add(&p->base_ns, ns);
    else if (p->base_ns > 0)
        mean_add(&p->token_ns, larger(ns - p->base_ns, 0.0) / step->tokens);
    if (knows(p))
        p->tokens = tokens_now(p) * (step->tokens == step->allowed ? growth : decay);
}

uint32_t pace_tokens(const struct pace *p, uint32_t most)
{
    if (p->stretch <= 1)
        return most;
    if (p->base_ns <= 0)
        return 0;
    double tokens = knows(p) ? tokens_now(p) : (double)PACE_TOKENS_MIN;
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

// A step is measured from its start to the start of the next one, settling and intake included,
// because that is what streams wait for.
void pace_end(struct pace *p, uint64_t now_ns)
{
    if (p->began_ns == 0)
        return;
    p->step.ns = now_ns - p->began_ns;
    p->began_ns = 0;
    pace_note(p, &p->step);
}
