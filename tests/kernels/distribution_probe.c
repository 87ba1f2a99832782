// SPDX-License-Identifier: Apache-2.0
// Draws tokens for tools/sampler_diff.py: reads a case per line from stdin and writes its counts as
// a line to stdout. A case is
//   draws seed temperature top_p min_p top_k repetition frequency presence
//   vocab logit... seen... biases {token value}... output_min stops stop... allowed
// allowed: bit i allows token i; 0: no mask
#include "tests/kernels/distribution.h"

#include <inttypes.h>
#include <stdio.h>

static bool case_read(struct distribution *d, uint32_t *draws)
{
    *d = (struct distribution){0};
    if (scanf("%" SCNu32 " %" SCNu64 " %f %f %f %" SCNu32 " %f %f %f %" SCNu32, draws, &d->seed,
              &d->temperature, &d->top_p, &d->min_p, &d->top_k, &d->repetition, &d->frequency,
              &d->presence, &d->vocab) != 10)
        return false;
    check(d->vocab <= DISTRIBUTION_VOCAB_MAX, "a vocabulary of %u", d->vocab);
    int got = 0;
    for (uint32_t i = 0; i < d->vocab; i++)
        got += scanf("%f", &d->logits[i]);
    for (uint32_t i = 0; i < d->vocab; i++)
        got += scanf("%" SCNu16, &d->seen[i]);
    got += scanf("%" SCNu32, &d->bias_count);
    check(d->bias_count <= DISTRIBUTION_BIAS_MAX, "%u biases", d->bias_count);
    for (uint32_t i = 0; i < d->bias_count; i++)
        got += scanf("%d %f", &d->bias[i].token, &d->bias[i].value);
    got += scanf("%" SCNu32 " %" SCNu32, &d->output_min, &d->stop_count);
    check(d->stop_count <= SAMPLE_STOP_IDS_MAX, "%u stop ids", d->stop_count);
    for (uint32_t i = 0; i < d->stop_count; i++)
        got += scanf("%d", &d->stop_ids[i]);
    got += scanf("%" SCNu64, &d->allowed);
    check(got == (int)(2 * d->vocab + 4 + 2 * d->bias_count + d->stop_count),
          "a case is cut short");
    return true;
}

int main(void)
{
    struct trial t;
    struct distribution d;
    uint32_t draws, counts[DISTRIBUTION_VOCAB_MAX];
    check(trial_open_cpu(&t, CPU_PLAIN, 2), "the plain level is not there");
    while (case_read(&d, &draws)) {
        trial_begin(&t, 1);
        distribution_draw(&t, &d, DISTRIBUTION_OUTPUTS, draws, counts);
        for (uint32_t i = 0; i < d.vocab; i++)
            printf("%u ", counts[i]);
        printf("\n");
        fflush(stdout);
    }
    trial_close(&t);
    return 0;
}
