// SPDX-License-Identifier: Apache-2.0
// The report of a result as one HTML page; see report.h. Pure functions.
#include "loadgen/report.h"

#include "loadgen/chart.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { POINTS_MAX = 256 };

static const char style[] =
    ":root{--bg:#fff;--panel:#f6f7f9;--ink:#1b1f24;--dim:#5b6470;--rule:#d9dee5;"
    "--c0:#1f6feb;--c1:#d9480f;--c2:#2b8a3e;--c3:#862e9c;--c4:#0b7285;--c5:#a61e4d;"
    "--good:#2b8a3e;--bad:#c92a2a;--warn:#fff3bf;--warnink:#5c3d00}"
    "@media(prefers-color-scheme:dark){:root{--bg:#12161c;--panel:#1a2029;--ink:#e6e9ee;"
    "--dim:#9aa4b2;--rule:#303846;--c0:#6ea8fe;--c1:#ff922b;--c2:#69db7c;--c3:#da77f2;"
    "--c4:#66d9e8;--c5:#f783ac;--good:#69db7c;--bad:#ff8787;--warn:#4a3a00;--warnink:#ffe8a3}}"
    "*{box-sizing:border-box}body{margin:0;background:var(--bg);color:var(--ink);"
    "font:16px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,sans-serif}"
    "main{max-width:1360px;margin:0 auto;padding:28px 32px 56px}"
    "h1{font-size:28px;line-height:1.2;margin:0 0 4px}h2{font-size:20px;margin:36px 0 12px}"
    "h3{font-size:16px;margin:0}p{margin:4px 0}.dim{color:var(--dim)}"
    ".url{overflow-wrap:anywhere}"
    ".tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:12px;"
    "margin:20px 0}.tile{background:var(--panel);border:1px solid var(--rule);"
    "border-radius:10px;padding:12px 14px}.tile b{display:block;font-size:24px;white-space:nowrap;"
    "font-variant-numeric:tabular-nums;line-height:1.3}.tile small{font-size:14px;font-weight:400}"
    ".tile span{color:var(--dim);"
    "font-size:13px}"
    ".charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,560px),1fr));"
    "gap:16px}figure{margin:0;background:var(--panel);border:1px solid var(--rule);"
    "border-radius:10px;padding:14px 16px 8px;min-width:0}figcaption{display:flex;"
    "flex-wrap:wrap;gap:4px 16px;justify-content:space-between}"
    ".legend{display:flex;flex-wrap:wrap;gap:2px 14px;margin:0;padding:0;list-style:none;"
    "font-size:13px;color:var(--dim)}.legend i{display:inline-block;width:14px;height:3px;"
    "border-radius:2px;margin-right:6px;vertical-align:middle;background:currentColor}"
    "svg{display:block;width:100%;height:auto}svg text{font-size:12px;fill:var(--dim)}"
    ".grid{stroke:var(--rule);stroke-width:1}.line{fill:none;stroke:currentColor;"
    "stroke-width:2;stroke-linejoin:round}.dot{fill:currentColor}"
    ".c0{color:var(--c0)}.c1{color:var(--c1)}.c2{color:var(--c2)}.c3{color:var(--c3)}"
    ".c4{color:var(--c4)}.c5{color:var(--c5)}svg.narrow,svg.widest{display:none}"
    "@media(min-width:1200px){.full{grid-column:1/-1}.full .widest{display:block}"
    ".full .wide{display:none}}"
    ".scroll{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:14px;"
    "font-variant-numeric:tabular-nums}th,td{padding:6px 10px;text-align:right;"
    "border-bottom:1px solid var(--rule);white-space:nowrap}th:first-child,td:first-child{"
    "text-align:left}th{color:var(--dim);font-weight:600}.good{color:var(--good)}"
    ".bad{color:var(--bad)}.warn{background:var(--warn);color:var(--warnink);padding:12px 16px;"
    "border-radius:10px;margin:16px 0}.bar{width:160px;height:14px}"
    "@media(max-width:700px){main{padding:18px 16px 40px}h1{font-size:23px}"
    "svg.wide{display:none}svg.narrow{display:block}.tile b{font-size:20px}"
    ".tiles{grid-template-columns:repeat(2,1fr)}}";

static double number_of(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static const char *text_at(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text ? text : "";
}

static void tile_put(struct json_buffer *out, const char *name, double value, const char *unit)
{
    if (!isfinite(value))
        return;
    json_put_literal(out, "<div class=\"tile\"><b>");
    if (value >= 1000)
        json_put_format(out, "%.0f", value);
    else
        json_put_format(out, value >= 100 ? "%.4g" : "%.3g", value);
    json_put_format(out, "<small>%s</small></b><span>%s</span></div>", unit, name);
}

static void tiles_put(struct json_buffer *out, const json_t *run)
{
    double hits = number_of(run, "prefix_cache_hit_rate");
    json_put_literal(out, "<div class=\"tiles\">");
    if (number_of(run, "output_throughput") > 0)
        tile_put(out, "output tokens per second", number_of(run, "output_throughput"), "");
    tile_put(out, "requests per second", number_of(run, "request_throughput"), "");
    if (number_of(run, "inputs_per_s") > 1.01 * number_of(run, "request_throughput"))
        tile_put(out, "inputs per second", number_of(run, "inputs_per_s"), "");
    tile_put(out, "time to first token, median", number_of(run, "median_ttft_ms"), " ms");
    tile_put(out, "time to first token, p99", number_of(run, "p99_ttft_ms"), " ms");
    tile_put(out, "time per output token, median", number_of(run, "median_tpot_ms"), " ms");
    tile_put(out, "end to end, median", number_of(run, "median_e2el_ms"), " ms");
    tile_put(out, "end to end, p99", number_of(run, "p99_e2el_ms"), " ms");
    tile_put(out, "failed requests", number_of(run, "failed"), "");
    if (hits > 0)
        tile_put(out, "prompt tokens from the prefix cache", hits * 100, " %");
    if (json_object_get(run, "goodput"))
        tile_put(out, "good requests per second", number_of(run, "request_goodput"), "");
    json_put_literal(out, "</div>\n");
}

static void client_put(struct json_buffer *out, const json_t *run)
{
    const json_t *client = json_object_get(run, "client");
    if (json_is_true(json_object_get(client, "limited"))) {
        json_put_literal(out, "<p class=\"warn\"><b>The client was the limit</b>, these are not "
                              "the server's figures: ");
        html_put(out, text_at(client, "why"));
        json_put_literal(out, "</p>\n");
    } else if (client) {
        json_put_format(out,
                        "<p class=\"dim\">The load generator used %.0f %% of a core and read 99 %% "
                        "of the events at most %.2f ms late.</p>\n",
                        number_of(client, "cpu_share") * 100, number_of(client, "lag_p99_ms"));
    }
}

static void server_put(struct json_buffer *out, const json_t *run)
{
    double ttft = number_of(run, "server_mean_ttft_ms"),
           e2el = number_of(run, "server_mean_e2el_ms");
    if (isfinite(ttft) && isfinite(e2el))
        json_put_format(out,
                        "<p class=\"dim\">By the server's own metrics the mean time to the first "
                        "token is %.2f ms (client: %.2f), end to end %.2f ms (client: %.2f).</p>\n",
                        ttft, number_of(run, "mean_ttft_ms"), e2el, number_of(run, "mean_e2el_ms"));
}

static uint32_t numbers_read(double out[POINTS_MAX], const json_t *list)
{
    uint32_t count = 0;
    size_t i;
    json_t *value;
    json_array_foreach(list, i, value)
    {
        if (count < POINTS_MAX)
            out[count++] = json_number_value(value);
    }
    return count;
}

// Latencies with percentiles.
static const char *const latencies[][2] = {{"ttft", "time to first token"},
                                           {"tpot", "time per output token"},
                                           {"itl", "between events"},
                                           {"e2el", "end to end"}};

// A chart of distributions, and the points of its lines.
struct distributions {
    struct chart chart;
    double x[4][POINTS_MAX], share[POINTS_MAX];
};

static void distributions_init(struct distributions *d, const char *title)
{
    d->chart = (struct chart){.title = title,
                              .x_label = "milliseconds (logarithmic)",
                              .y_label = "% of samples below",
                              .log_x = true,
                              .y_from_zero = true};
    for (int i = 0; i < POINTS_MAX; i++)
        d->share[i] = i;
}

// Adds the percentiles of a latency as a line, if there are any.
static void distribution_add(struct distributions *d, const char *name, const json_t *percentiles,
                             const char *latency)
{
    double *x = d->x[d->chart.line_count];
    uint32_t count = numbers_read(x, json_object_get(percentiles, latency));
    for (uint32_t i = 0; i < count; i++) // events of one read have no time between them
        x[i] = fmax(x[i], 0.01);
    if (count > 0)
        d->chart.lines[d->chart.line_count++] =
            (struct chart_line){.name = name, .x = x, .y = d->share, .count = count};
}

static void distributions_put(struct json_buffer *out, const json_t *run)
{
    struct distributions d;
    distributions_init(&d, "Latency distributions");
    d.chart.full = true;
    for (size_t i = 0; i < sizeof latencies / sizeof *latencies; i++)
        distribution_add(&d, latencies[i][1], json_object_get(run, "percentiles"), latencies[i][0]);
    chart_put(out, &d.chart);
}

static void timeline_put(struct json_buffer *out, const json_t *run)
{
    static const char *const names[][3] = {
        {"events_per_s", "Events over time", "events per second"},
        {"in_flight", "Requests in flight", "requests"}};
    const json_t *timeline = json_object_get(run, "timeline");
    double x[POINTS_MAX], y[POINTS_MAX], step = number_of(timeline, "step_s");
    for (size_t i = 0; i < 2; i++) {
        uint32_t count = numbers_read(y, json_object_get(timeline, names[i][0]));
        double sum = 0;
        for (uint32_t k = 0; k < count; k++) {
            x[k] = k * step;
            sum += y[k];
        }
        struct chart chart = {.title = names[i][1],
                              .x_label = "seconds",
                              .y_label = names[i][2],
                              .y_from_zero = true,
                              .lines = {{.name = names[i][2], .x = x, .y = y, .count = count}},
                              .line_count = 1};
        if (sum > 0)
            chart_put(out, &chart);
    }
}

// Charts of a sweep: the swept value against latencies, and tokens per second and user against all.
static void sweep_put(struct json_buffer *out, const json_t *result)
{
    static const char *const names[][2] = {{"median_ttft_ms", "first token, median"},
                                           {"p99_ttft_ms", "first token, p99"},
                                           {"median_e2el_ms", "end to end, median"},
                                           {"p99_e2el_ms", "end to end, p99"}};
    const json_t *points = json_object_get(result, "points");
    bool rate = strcmp(text_at(result, "sweep"), "rate") == 0;
    uint32_t count = (uint32_t)json_array_size(points);
    double x[POINTS_MAX], y[4][POINTS_MAX], user[POINTS_MAX], all[POINTS_MAX];
    count = count < POINTS_MAX ? count : POINTS_MAX;
    for (uint32_t i = 0; i < count; i++) {
        const json_t *point = json_array_get(points, i);
        x[i] = number_of(point, rate ? "request_rate" : "max_concurrency");
        for (int k = 0; k < 4; k++)
            y[k][i] = number_of(point, names[k][0]);
        user[i] = 1000 / number_of(point, "mean_tpot_ms");
        all[i] = number_of(point, "output_throughput");
    }
    struct chart latency = {.title = rate ? "Latency by rate" : "Latency by concurrency",
                            .x_label = rate ? "requests per second" : "clients",
                            .y_label = "milliseconds",
                            .y_from_zero = true,
                            .full = true,
                            .line_count = 4};
    for (int k = 0; k < 4; k++)
        latency.lines[k] = (struct chart_line){
            .name = names[k][1], .x = x, .y = y[k], .count = count, .dots = true};
    struct chart throughput = {
        .title = "Throughput",
        .x_label = latency.x_label,
        .y_label = "output tokens per second",
        .y_from_zero = true,
        .line_count = 1,
        .lines = {{.name = "all users", .x = x, .y = all, .count = count, .dots = true}}};
    struct chart pareto = {.title = "Speed of one user against all",
                           .x_label = "tokens per second and user",
                           .y_label = "tokens per second, all users",
                           .y_from_zero = true,
                           .line_count = 1,
                           .lines = {{.name = rate ? "rates" : "concurrencies",
                                      .x = user,
                                      .y = all,
                                      .count = count,
                                      .dots = true}}};
    json_put_literal(out, "<h2>Sweep</h2><div class=\"charts\">");
    chart_put(out, &latency);
    chart_put(out, &throughput);
    chart_put(out, &pareto);
    json_put_literal(out, "</div>\n");
}

static void cell_put(struct json_buffer *out, double value)
{
    json_put_literal(out, "<td>");
    if (isfinite(value))
        json_put_format(out, value >= 1000 ? "%.0f" : fabs(value) < 1e-4 ? "0" : "%.4g", value);
    json_put_literal(out, "</td>");
}

static void points_table(struct json_buffer *out, const json_t *result)
{
    static const char *const columns[][2] = {{"output_throughput", "tokens/s"},
                                             {"request_throughput", "requests/s"},
                                             {"request_goodput", "good/s"},
                                             {"median_ttft_ms", "first token p50, ms"},
                                             {"p99_ttft_ms", "first token p99"},
                                             {"median_tpot_ms", "per token p50"},
                                             {"median_e2el_ms", "end to end p50"},
                                             {"p99_e2el_ms", "end to end p99"},
                                             {"failed", "failed"}};
    const json_t *points = json_object_get(result, "points");
    bool rate = strcmp(text_at(result, "sweep"), "rate") == 0;
    size_t i;
    json_t *point;
    json_put_format(out, "<div class=\"scroll\"><table><tr><th>%s</th>",
                    rate ? "rate" : "concurrency");
    for (size_t k = 0; k < sizeof columns / sizeof *columns; k++)
        json_put_format(out, "<th>%s</th>", columns[k][1]);
    json_put_literal(out, "<th>client</th></tr>");
    json_array_foreach(points, i, point)
    {
        const json_t *client = json_object_get(point, "client");
        bool limited = json_is_true(json_object_get(client, "limited"));
        json_put_literal(out, "<tr>");
        cell_put(out, number_of(point, rate ? "request_rate" : "max_concurrency"));
        for (size_t k = 0; k < sizeof columns / sizeof *columns; k++)
            cell_put(out, number_of(point, columns[k][0]));
        json_put_format(out, "<td>%s</td></tr>",
                        limited ? "<span class=\"bad\">limited</span>" : "ok");
    }
    json_put_literal(out, "</table></div>\n");
}

static void metrics_table(struct json_buffer *out, const json_t *run)
{
    static const char *const rows[][2] = {{"ttft", "time to first token"},
                                          {"tpot", "time per output token"},
                                          {"itl", "between events"},
                                          {"e2el", "end to end"},
                                          {"late", "sent after arrival"}};
    static const char *const parts[] = {"mean", "std", "median", "p90", "p95", "p99", "max"};
    char name[64];
    json_put_literal(out, "<div class=\"scroll\"><table><tr><th>milliseconds</th>");
    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++)
        json_put_format(out, "<th>%s</th>", parts[k]);
    json_put_literal(out, "</tr>");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        snprintf(name, sizeof name, "mean_%s_ms", rows[i][0]);
        if (!json_object_get(run, name))
            continue;
        json_put_format(out, "<tr><td>%s</td>", rows[i][1]);
        for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) {
            snprintf(name, sizeof name, "%s_%s_ms", parts[k], rows[i][0]);
            cell_put(out, number_of(run, name));
        }
        json_put_literal(out, "</tr>");
    }
    json_put_literal(out, "</table></div>\n");
}

static void outcomes_put(struct json_buffer *out, const json_t *run)
{
    const char *name;
    json_t *value;
    json_put_literal(out, "<p class=\"dim\">Requests: ");
    json_put_format(out, "%.0f sent", number_of(run, "sent"));
    json_object_foreach(json_object_get(run, "outcomes"), name, value)
    {
        if (json_integer_value(value) > 0)
            json_put_format(out, ", %lld %s", (long long)json_integer_value(value), name);
    }
    json_put_format(out, "; %.0f prompt tokens, %.0f output tokens, %.1f s.</p>\n",
                    number_of(run, "total_input_tokens"), number_of(run, "total_output_tokens"),
                    number_of(run, "duration"));
}

// Writes a distribution of lengths.
static void length_put(struct json_buffer *out, const json_t *length)
{
    const char *kind = text_at(length, "kind");
    double a = number_of(length, "a"), b = number_of(length, "b");
    if (strcmp(kind, "uniform") == 0)
        json_put_format(out, "%g to %g", a, b);
    else if (strcmp(kind, "fixed") == 0)
        json_put_format(out, "%g", a);
    else
        json_put_format(out, "%s %g and deviation %g",
                        strcmp(kind, "normal") == 0 ? "mean" : "lognormal with median", a, b);
}

// Writes a number of the load, of several points the least and the most. Returns the most.
static double load_number_put(struct json_buffer *out, const json_t *run, const char *name)
{
    double least = INFINITY, most = -INFINITY;
    size_t i;
    json_t *point;
    json_array_foreach(json_object_get(run, "points"), i, point)
    {
        least = fmin(least, number_of(point, name));
        most = fmax(most, number_of(point, name));
    }
    if (!isfinite(least))
        least = most = number_of(run, name);
    json_put_format(out, "%g", least);
    if (most > least)
        json_put_format(out, " to %g", most);
    return most;
}

// Writes when requests are sent.
static void arrivals_put(struct json_buffer *out, const json_t *run)
{
    bool open = strcmp(text_at(run, "loop"), "open") == 0;
    double clients = number_of(run, "max_concurrency");
    if (!open) {
        json_put_literal(out, "closed loop of ");
        bool many = load_number_put(out, run, "max_concurrency") > 1;
        json_put_literal(out, many ? " clients" : " client");
    } else if (json_object_get(run, "trace")) {
        json_put_literal(out, "open loop, arrivals of ");
        html_put(out, text_at(run, "trace"));
    } else {
        json_put_literal(out, "open loop, ");
        load_number_put(out, run, "request_rate");
        json_put_literal(out, " requests per second (");
        html_put(out, text_at(run, "arrival"));
        json_put_literal(out, ")");
    }
    if (open && isfinite(clients))
        json_put_format(out, ", at most %.0f in flight", clients);
    if (isfinite(number_of(run, "num_prompts")))
        json_put_format(out, "; %.0f %s", number_of(run, "num_prompts"),
                        json_object_get(run, "multi_turn") ? "conversations" : "requests");
    if (isfinite(number_of(run, "duration_limit")))
        json_put_format(out, "; %g seconds", number_of(run, "duration_limit"));
    if (json_array_size(json_object_get(run, "runs")) > 0)
        json_put_format(out, " in each of %zu runs", json_array_size(json_object_get(run, "runs")));
    if (number_of(run, "ramp_up") > 0)
        json_put_format(out, ", the first %g seconds not counted", number_of(run, "ramp_up"));
}

// Writes what the requests contain.
static void content_put(struct json_buffer *out, const json_t *run)
{
    double inputs = number_of(run, "inputs_per_request"), prefix = number_of(run, "prefix_length");
    if (json_object_get(run, "dataset")) {
        json_put_literal(out, "prompts of ");
        html_put(out, text_at(run, "dataset"));
    } else if (json_object_get(run, "prompt")) {
        json_put_literal(out, "the prompt of --prompt");
    } else {
        json_put_literal(out, "generated prompts of length ");
        if (json_object_get(run, "trace"))
            json_put_literal(out, "as in the trace");
        else
            length_put(out, json_object_get(run, "input_length"));
        if (prefix > 0)
            json_put_format(out, ", the first %g tokens equal", prefix);
    }
    if (isfinite(inputs)) {
        json_put_format(out, "; %.0f inputs per request", inputs);
        return;
    }
    json_put_literal(out, "; answers of at most ");
    if (json_object_get(run, "trace"))
        json_put_literal(out, "the trace's lengths");
    else
        length_put(out, json_object_get(run, "output_length"));
    json_put_literal(out, json_object_get(run, "dataset") ? " tokens, or their line's" : " tokens");
    if (json_is_false(json_object_get(run, "stream")))
        json_put_literal(out, ", not streamed");
}

static void load_put(struct json_buffer *out, const json_t *run)
{
    json_put_literal(out, "<p class=\"url\">Load: ");
    arrivals_put(out, run);
    json_put_literal(out, "; ");
    content_put(out, run);
    json_put_literal(out, ".</p>\n");
}

static void run_put(struct json_buffer *out, const json_t *run)
{
    json_put_literal(out, "<p class=\"url\">");
    html_put(out, text_at(run, "model_id"));
    json_put_literal(out, " <span class=\"dim\">at ");
    html_put(out, text_at(run, "url"));
    json_put_literal(out, ", ");
    html_put(out, text_at(run, "backend"));
    json_put_literal(out, ", ");
    html_put(out, text_at(run, "date"));
    json_put_literal(out, "</span></p>\n");
    load_put(out, run);
    client_put(out, run);
    tiles_put(out, run);
    json_put_literal(out, "<div class=\"charts\">");
    distributions_put(out, run);
    timeline_put(out, run);
    json_put_literal(out, "</div>\n<h2>Latencies</h2>");
    metrics_table(out, run);
    server_put(out, run);
    outcomes_put(out, run);
}

// Draws the interval of a difference on a scale of -reach to reach.
static void bar_put(struct json_buffer *out, const json_t *figure, double reach)
{
    double low = number_of(figure, "low") / reach, high = number_of(figure, "high") / reach;
    json_put_format(out,
                    "<svg class=\"bar c0\" viewBox=\"-80 -7 160 14\"><line class=\"grid\" x1=\"0\" "
                    "x2=\"0\" y1=\"-7\" y2=\"7\"/><line class=\"line\" x1=\"%.1f\" x2=\"%.1f\" "
                    "y1=\"0\" y2=\"0\"/><circle class=\"dot\" cx=\"%.1f\" cy=\"0\" r=\"4\"/></svg>",
                    78 * low, 78 * high, 78 * number_of(figure, "difference") / reach);
}

// Draws the distributions of both sides, one chart for each latency.
static void overlays_put(struct json_buffer *out, const json_t *a, const json_t *b)
{
    json_put_literal(out, "<div class=\"charts\">");
    for (size_t i = 0; i < sizeof latencies / sizeof *latencies; i++) {
        struct distributions d;
        distributions_init(&d, latencies[i][1]);
        distribution_add(&d, "A", json_object_get(a, "percentiles"), latencies[i][0]);
        distribution_add(&d, "B", json_object_get(b, "percentiles"), latencies[i][0]);
        chart_put(out, &d.chart);
    }
    json_put_literal(out, "</div>\n");
}

static void comparison_put(struct json_buffer *out, const json_t *comparison)
{
    bool bootstrap = strcmp(text_at(comparison, "interval"), "bootstrap") == 0;
    const json_t *figures = json_object_get(comparison, "figures");
    const char *refusal = text_at(comparison, "refusal"), *primary = text_at(comparison, "primary");
    double reach = 0.01;
    size_t i;
    json_t *figure;
    json_array_foreach(figures, i, figure)
    {
        reach = fmax(reach, fabs(number_of(figure, "low")));
        reach = fmax(reach, fabs(number_of(figure, "high")));
    }
    json_put_literal(out, "<h2>Comparison</h2>");
    if (*refusal != '\0') {
        json_put_literal(out, "<p class=\"warn\"><b>No verdict</b>: ");
        html_put(out, refusal);
        json_put_literal(out, "</p>");
    }
    json_put_literal(out, "<div class=\"scroll\"><table><tr><th>figure</th><th>A</th><th>B</th>"
                          "<th>B to A</th><th>95 % interval</th><th></th><th>verdict</th></tr>");
    json_array_foreach(figures, i, figure)
    {
        const char *name = text_at(figure, "name"), *verdict = text_at(figure, "verdict");
        const char *class = strstr(verdict, "better")  ? "good"
                            : strstr(verdict, "worse") ? "bad"
                                                       : "dim";
        bool first = strcmp(name, primary) == 0;
        json_put_format(out, first ? "<tr><td><b>%s</b> (primary)</td>" : "<tr><td>%s</td>", name);
        cell_put(out, number_of(figure, "a"));
        cell_put(out, number_of(figure, "b"));
        json_put_format(out, "<td>%+.1f %%</td><td>%+.1f to %+.1f %%</td><td>",
                        number_of(figure, "difference") * 100, number_of(figure, "low") * 100,
                        number_of(figure, "high") * 100);
        bar_put(out, figure, reach);
        json_put_format(out, "</td><td class=\"%s\">%s</td></tr>", class, verdict);
    }
    json_put_format(
        out,
        "</table></div><p class=\"dim\">%.0f pairs of runs. The interval is %s over the "
        "differences within pairs; verdicts of figures that are not primary hold "
        "after Holm's correction.</p>\n",
        number_of(comparison, "pairs"), bootstrap ? "the bias-corrected bootstrap" : "Student's t");
    json_array_foreach(json_object_get(comparison, "notes"), i, figure)
    {
        json_put_literal(out, "<p class=\"dim\">Note: ");
        html_put(out, json_string_value(figure) ? json_string_value(figure) : "");
        json_put_literal(out, "</p>");
    }
}

void bench_report_write(struct json_buffer *out, const json_t *result)
{
    const json_t *a = json_object_get(result, "a"), *b = json_object_get(result, "b");
    json_put_literal(out, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
                          "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">"
                          "<meta name=\"color-scheme\" content=\"light dark\">"
                          "<title>weft bench</title><style>");
    json_put_literal(out, style);
    json_put_literal(out, "</style></head><body><main><h1>weft bench</h1>\n");
    if (a && b) {
        comparison_put(out, json_object_get(result, "comparison"));
        overlays_put(out, a, b);
        json_put_literal(out, "<h2>A</h2>");
        run_put(out, a);
        json_put_literal(out, "<h2>B</h2>");
        run_put(out, b);
    } else if (json_object_get(result, "points")) {
        const json_t *search = json_object_get(result, "search");
        json_put_literal(out, "<p class=\"url\">");
        html_put(out, text_at(result, "model_id"));
        json_put_literal(out, " <span class=\"dim\">at ");
        html_put(out, text_at(result, "url"));
        json_put_literal(out, "</span></p>");
        load_put(out, result);
        if (search && number_of(search, "best_rate") > 0)
            json_put_format(out,
                            "<p>Highest rate that keeps the limits: <b>%.4g per second</b>.</p>",
                            number_of(search, "best_rate"));
        sweep_put(out, result);
        json_put_literal(out, "<h2>Runs</h2>");
        points_table(out, result);
    } else {
        run_put(out, result);
    }
    json_put_literal(out, "</main></body></html>\n");
}
