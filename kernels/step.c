// SPDX-License-Identifier: Apache-2.0
// Offsets of the sections of a step record; see step.h. Pure functions.
#include "kernels/step.h"

#include <stdalign.h>

_Static_assert(sizeof(struct step_row) == 32, "step_row is part of the record format");
_Static_assert(sizeof(struct step) <= 256, "the header has 256 bytes");

static size_t section_add(size_t *at, size_t bytes)
{
    size_t here = *at;
    *at = (here + bytes + 255) & ~(size_t)255;
    return here;
}

// Sets the offsets of the sections after private_part, and the size of the record.
static void sections_layout(struct step_layout *layout, size_t private_bytes,
                            const struct step *counts)
{
    size_t at = layout->private_part;
    section_add(&at, private_bytes);
    layout->tokens = section_add(&at, counts->token_listed * sizeof(int32_t));
    layout->changes = section_add(&at, counts->change_count * sizeof(struct step_change));
    layout->new_sequences =
        section_add(&at, counts->new_sequence_count * sizeof(struct step_new_sequence));
    layout->bias = section_add(&at, counts->bias_count * sizeof(struct step_bias));
    layout->history = section_add(&at, counts->history_count * sizeof(int32_t));
    layout->bytes = at;
}

void step_layout_init(struct step_layout *layout, const struct step_limits *limits,
                      size_t private_bytes)
{
    struct step most = {
        .token_listed = limits->tokens_max,
        .change_count = limits->changes_max,
        .new_sequence_count = limits->new_sequences_max,
        .bias_count = limits->new_sequences_max * limits->bias_max,
        .history_count = limits->history_max,
    };
    size_t at = 256;
    layout->rows = section_add(&at, limits->rows_max * sizeof(struct step_row));
    layout->sampled = section_add(&at, limits->rows_max * sizeof(struct step_sampled));
    layout->private_part = at;
    sections_layout(layout, private_bytes, &most);
}

void step_layout_pack(struct step *step, size_t private_bytes)
{
    sections_layout(&step->layout, private_bytes, step);
}
