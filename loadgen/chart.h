// SPDX-License-Identifier: Apache-2.0
// Charts as SVG without scripts. Colours and fonts come from the style sheet of the page.
#pragma once

#include "base/json.h"

#include <stdbool.h>

enum { CHART_LINES_MAX = 8 };

struct chart_line {
    const char *name;
    const double *x, *y; // [count] x ascending unless the line is a path
    uint32_t count;
    bool dots; // true: mark the points
};

struct chart {
    const char *title, *x_label, *y_label;
    bool log_x;
    bool y_from_zero;
    bool full; // true: as wide as the page in wide windows
    struct chart_line lines[CHART_LINES_MAX];
    uint32_t line_count;
};

// Writes a figure element with the chart in several sizes for windows of different widths, of which
// the style sheet shows one. Nothing is written if no line has two points.
void chart_put(struct json_buffer *out, const struct chart *c);
// Writes text with the characters escaped that HTML gives a meaning.
void html_put(struct json_buffer *out, const char *text);
