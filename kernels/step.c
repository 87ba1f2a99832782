// Offsets of the sections of a step record; see step.h. Pure functions.
#include "kernels/step.h"

#include <stdalign.h>

_Static_assert(sizeof(struct step_row) == 32, "step_row is part of the record format");
_Static_assert(sizeof(struct step) <= 256, "the header has 256 bytes");

static size_t place(size_t *at, size_t bytes)
{
    size_t here = *at;
    *at = (here + bytes + 255) & ~(size_t)255;
    return here;
}

void step_layout_init(struct step_layout *layout, const struct step_limits *limits,
                      size_t private_bytes)
{
    size_t rows = limits->rows_max;
    size_t admits = limits->admits_max;
    size_t at = 256;
    layout->rows = place(&at, rows * sizeof(struct step_row));
    layout->sampled = place(&at, rows * sizeof(struct step_sampled));
    layout->changes = place(&at, (size_t)limits->changes_max * sizeof(struct step_change));
    layout->admits = place(&at, admits * sizeof(struct step_admit));
    layout->bias = place(&at, admits * limits->bias_max * sizeof(struct step_bias));
    layout->private_part = place(&at, private_bytes);
    layout->history = place(&at, (size_t)limits->history_max * sizeof(int32_t));
    layout->tokens = place(&at, (size_t)limits->tokens_max * sizeof(int32_t));
    layout->bytes = at;
}
