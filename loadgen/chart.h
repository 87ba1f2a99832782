// SPDX-License-Identifier: Apache-2.0
// Charts as SVG without scripts. Colours and fonts come from the style sheet of the page.
#pragma once

#include "base/json.h"

#include <stdbool.h>

enum { CHART_LINES_MAX = 8 };

struct chart_line {
    const char *name;
    const double *x, *y; // [count] values of the points, joined in this order; NAN: left out
    uint32_t count;
    bool dots; // true if the points are marked
};

struct chart {
    const char *title, *x_label, *y_label;
    bool log_x;       // true if the x axis is logarithmic; points with x <= 0 are left out
    bool y_from_zero; // true if the y axis starts at 0, not at the smallest value
    bool full;        // true if the chart is as wide as the page in wide windows
    struct chart_line lines[CHART_LINES_MAX];
    uint32_t line_count;
};

// Writes a figure element with the chart in several sizes, of which the style sheet shows the one
// that fits the window. Writes nothing if all lines together have fewer than two points.
void chart_put(struct json_buffer *out, const struct chart *c);
// Writes text and escapes &, <, > and ".
void html_put(struct json_buffer *out, const char *text);
