// Draws tokens for tools/sampler_diff.py: reads a case per line from stdin and writes its counts as
// a line to stdout. A case is
//   draws seed temperature top_p min_p top_k repetition frequency presence
//   vocab logit... seen... biases {token value}... output_min stops stop... allowed
// allowed: bit i allows token i; 0: no mask
#include "tests/kernels/law.h"

#include <inttypes.h>
#include <stdio.h>

static bool case_read(struct law *law, uint32_t *draws)
{
    *law = (struct law){0};
    if (scanf("%" SCNu32 " %" SCNu64 " %f %f %f %" SCNu32 " %f %f %f %" SCNu32, draws, &law->seed,
              &law->temperature, &law->top_p, &law->min_p, &law->top_k, &law->repetition,
              &law->frequency, &law->presence, &law->vocab) != 10)
        return false;
    check(law->vocab <= LAW_VOCAB_MAX, "a vocabulary of %u", law->vocab);
    int got = 0;
    for (uint32_t i = 0; i < law->vocab; i++)
        got += scanf("%f", &law->logits[i]);
    for (uint32_t i = 0; i < law->vocab; i++)
        got += scanf("%" SCNu16, &law->seen[i]);
    got += scanf("%" SCNu32, &law->bias_count);
    check(law->bias_count <= LAW_BIAS_MAX, "%u biases", law->bias_count);
    for (uint32_t i = 0; i < law->bias_count; i++)
        got += scanf("%d %f", &law->bias[i].token, &law->bias[i].value);
    got += scanf("%" SCNu32 " %" SCNu32, &law->output_min, &law->stop_count);
    check(law->stop_count <= SAMPLE_STOP_IDS_MAX, "%u stop ids", law->stop_count);
    for (uint32_t i = 0; i < law->stop_count; i++)
        got += scanf("%d", &law->stop_ids[i]);
    got += scanf("%" SCNu64, &law->allowed);
    check(got == (int)(2 * law->vocab + 4 + 2 * law->bias_count + law->stop_count),
          "a case is cut short");
    return true;
}

int main(void)
{
    struct trial t;
    struct law law;
    uint32_t draws, counts[LAW_VOCAB_MAX];
    check(trial_open_cpu(&t, CPU_PLAIN, 2), "the plain level is not there");
    while (case_read(&law, &draws)) {
        trial_begin(&t, 1);
        law_draw(&t, &law, LAW_OUTPUTS, draws, counts);
        for (uint32_t i = 0; i < law.vocab; i++)
            printf("%u ", counts[i]);
        printf("\n");
        fflush(stdout);
    }
    trial_close(&t);
    return 0;
}
