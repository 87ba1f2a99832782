// SPDX-License-Identifier: Apache-2.0
// Charts as SVG; see chart.h. Pure functions.
#include "loadgen/chart.h"

#include <math.h>
#include <stdio.h>

enum { MARGIN_LEFT = 58, MARGIN_RIGHT = 14, MARGIN_TOP = 12, MARGIN_BOTTOM = 46 };

struct axis {
    double low, high; // values at both ends of the axis
    double from, to;  // pixels
    bool log;
};

void html_put(struct json_buffer *out, const char *text)
{
    for (; *text != '\0'; text++) {
        const char *escaped = *text == '&'   ? "&amp;"
                              : *text == '<' ? "&lt;"
                              : *text == '>' ? "&gt;"
                              : *text == '"' ? "&quot;"
                                             : NULL;
        if (escaped)
            json_put_literal(out, escaped);
        else
            json_put_raw(out, text_span(text, 1));
    }
}

static double place_of(const struct axis *a, double value)
{
    double low = a->log ? log(a->low) : a->low, high = a->log ? log(a->high) : a->high;
    value = a->log ? log(value) : value;
    return a->from + (a->to - a->from) * (value - low) / (high - low);
}

static bool is_usable(const struct chart *c, const struct chart_line *line, uint32_t i)
{
    return isfinite(line->x[i]) && isfinite(line->y[i]) && (!c->log_x || line->x[i] > 0);
}

// Sets the ranges of the axes. Returns false if there are not two points.
static bool axes_fit(const struct chart *c, struct axis *x, struct axis *y)
{
    uint32_t points = 0;
    x->low = y->low = INFINITY;
    x->high = y->high = -INFINITY;
    for (uint32_t l = 0; l < c->line_count; l++)
        for (uint32_t i = 0; i < c->lines[l].count; i++) {
            if (!is_usable(c, &c->lines[l], i))
                continue;
            points++;
            x->low = fmin(x->low, c->lines[l].x[i]);
            x->high = fmax(x->high, c->lines[l].x[i]);
            y->low = fmin(y->low, c->lines[l].y[i]);
            y->high = fmax(y->high, c->lines[l].y[i]);
        }
    if (points < 2)
        return false;
    x->log = c->log_x;
    if (c->y_from_zero)
        y->low = 0;
    y->high = y->high > y->low ? y->high + (y->high - y->low) * 0.04 : y->low + 1;
    if (!(x->high > x->low))
        x->high = x->log ? x->low * 2 : x->low + 1;
    return true;
}

// Returns a step of 1, 2 or 5 times a power of ten that divides the range into about `parts`.
static double step_of(double range, int parts)
{
    double power = pow(10, floor(log10(range / parts)));
    double share = range / parts / power;
    return power * (share < 1.5 ? 1 : share < 3.5 ? 2 : share < 7.5 ? 5 : 10);
}

static void label_put(struct json_buffer *out, double value)
{
    bool thousands = fabs(value) >= 10000;
    json_put_format(out, "%.4g%s", thousands ? value / 1000 : value, thousands ? "k" : "");
}

static void x_tick(struct json_buffer *out, const struct axis *x, const struct axis *y,
                   double value)
{
    double at = place_of(x, value);
    json_put_format(out,
                    "<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>"
                    "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">",
                    at, at, y->from, y->to, at, y->from + 16);
    label_put(out, value);
    json_put_literal(out, "</text>");
}

static void ticks_put(struct json_buffer *out, const struct axis *x, const struct axis *y,
                      int parts)
{
    double step = step_of(y->high - y->low, 4);
    for (double v = ceil(y->low / step) * step; v <= y->high; v += step) {
        double at = place_of(y, v);
        json_put_format(out,
                        "<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>"
                        "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">",
                        x->from, x->to, at, at, x->from - 6, at + 4);
        label_put(out, fabs(v) < step / 1e6 ? 0 : v);
        json_put_literal(out, "</text>");
    }
    if (!x->log || x->high < 10 * x->low) { // a narrow range has few powers of ten
        step = step_of(x->high - x->low, parts);
        for (double v = ceil(x->low / step) * step; v <= x->high; v += step)
            x_tick(out, x, y, fabs(v) < step / 1e6 ? 0 : v);
        return;
    }
    bool wide = log10(x->high / x->low) > 1.5;
    for (double power = pow(10, floor(log10(x->low))); power <= x->high; power *= 10)
        for (int k = 1; k < 10; k++) {
            bool shown = k == 1 || (!wide && (k == 2 || k == 5));
            if (shown && power * k >= x->low && power * k <= x->high)
                x_tick(out, x, y, power * k);
        }
}

static void line_put(struct json_buffer *out, const struct chart *c, uint32_t index,
                     const struct axis *x, const struct axis *y)
{
    const struct chart_line *line = &c->lines[index];
    json_put_format(out, "<polyline class=\"line c%u\" points=\"", index);
    for (uint32_t i = 0; i < line->count; i++)
        if (is_usable(c, line, i))
            json_put_format(out, "%.1f,%.1f ", place_of(x, line->x[i]), place_of(y, line->y[i]));
    json_put_literal(out, "\"/>");
    for (uint32_t i = 0; line->dots && i < line->count; i++)
        if (is_usable(c, line, i))
            json_put_format(out,
                            "<circle class=\"dot c%u\" cx=\"%.1f\" cy=\"%.1f\" r=\"4\"><title>"
                            "%.4g, %.4g</title></circle>",
                            index, place_of(x, line->x[i]), place_of(y, line->y[i]), line->x[i],
                            line->y[i]);
}

static void svg_put(struct json_buffer *out, const struct chart *c, const char *class, int width,
                    int height)
{
    struct axis x = {.from = MARGIN_LEFT, .to = width - MARGIN_RIGHT};
    struct axis y = {.from = height - MARGIN_BOTTOM, .to = MARGIN_TOP};
    if (!axes_fit(c, &x, &y))
        return;
    json_put_format(out, "<svg class=\"%s\" viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"",
                    class, width, height);
    html_put(out, c->title);
    json_put_literal(out, "\">");
    ticks_put(out, &x, &y, width > 500 ? 8 : 4);
    json_put_format(out, "<text class=\"label\" x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">",
                    (x.from + x.to) / 2, height - 8);
    html_put(out, c->x_label);
    json_put_format(out,
                    "</text><text class=\"label\" transform=\"translate(14 %.1f) rotate(-90)\" "
                    "text-anchor=\"middle\">",
                    (y.from + y.to) / 2);
    html_put(out, c->y_label);
    json_put_literal(out, "</text>");
    for (uint32_t i = 0; i < c->line_count; i++)
        line_put(out, c, i, &x, &y);
    json_put_literal(out, "</svg>");
}

void chart_put(struct json_buffer *out, const struct chart *c)
{
    struct axis x, y;
    if (!axes_fit(c, &x, &y))
        return;
    json_put_literal(out, c->full ? "<figure class=\"full\">" : "<figure>");
    json_put_literal(out, "<figcaption><h3>");
    html_put(out, c->title);
    json_put_literal(out, "</h3><ul class=\"legend\">");
    for (uint32_t i = 0; i < c->line_count; i++) {
        json_put_format(out, "<li><i class=\"c%u\"></i>", i);
        html_put(out, c->lines[i].name);
        json_put_literal(out, "</li>");
    }
    json_put_literal(out, "</ul></figcaption>");
    if (c->full)
        svg_put(out, c, "widest", 1280, 340);
    svg_put(out, c, "wide", 640, 320);
    svg_put(out, c, "narrow", 350, 280);
    json_put_literal(out, "</figure>\n");
}
