// SPDX-License-Identifier: Apache-2.0
// Arrivals of an open loop; see arrivals.h. One thread.
#include "loadgen/arrivals.h"

#include <math.h>
#include <stdio.h>
#include <time.h>

enum { TRACE_LINE_MAX = 1 << 16 };

static void trace_add(struct bench_trace *t, struct bench_arrival a)
{
    t->at = bench_extend(t->at, t->count, &t->allocated, sizeof *t->at);
    t->at[t->count++] = a;
}

static void hash_add(struct bench_trace *t, uint32_t hash)
{
    t->hashes = bench_extend(t->hashes, t->hash_count, &t->hash_allocated, sizeof *t->hashes);
    t->hashes[t->hash_count++] = hash;
}

static bool azure_line(struct bench_arrival *out, const char *line)
{
    struct tm day = {0};
    double second;
    int end = 0;
    if (sscanf(line, "%d-%d-%d %d:%d:%lf,%u,%u %n", &day.tm_year, &day.tm_mon, &day.tm_mday,
               &day.tm_hour, &day.tm_min, &second, &out->input_tokens, &out->output_tokens,
               &end) != 8 ||
        line[end] != '\0')
        return false;
    day.tm_year -= 1900;
    day.tm_mon -= 1;
    out->at_s = (double)timegm(&day) + second;
    return true;
}

// Reads a whole number from 0 to 2^32 - 1 of an object. Returns false if it is anything else.
static bool count_read(uint32_t *out, const json_t *value)
{
    json_int_t n = json_integer_value(value);
    *out = (uint32_t)n;
    return json_is_integer(value) && n >= 0 && n <= UINT32_MAX;
}

static bool mooncake_line(struct bench_trace *t, struct bench_arrival *out, const char *line)
{
    json_t *row = NULL;
    if (json_parse(&row, text_of(line), NULL) != STATUS_OK)
        return false;
    json_t *ids = json_object_get(row, "hash_ids");
    bool good = json_is_number(json_object_get(row, "timestamp")) &&
                count_read(&out->input_tokens, json_object_get(row, "input_length")) &&
                count_read(&out->output_tokens, json_object_get(row, "output_length"));
    out->at_s = json_number_value(json_object_get(row, "timestamp")) / 1e3;
    out->hash_first = (uint32_t)t->hash_count;
    out->hash_count = (uint32_t)json_array_size(ids);
    for (size_t i = 0; i < json_array_size(ids); i++)
        hash_add(t, (uint32_t)json_integer_value(json_array_get(ids, i)));
    json_decref(row);
    return good;
}

static uint32_t tokens_cut(uint32_t n, uint32_t max)
{
    return n < 1 ? 1 : max > 0 && n > max ? max : n;
}

static enum status trace_lines(struct bench_trace *t, FILE *file, char *line,
                               const struct bench_options *o, struct error *err)
{
    double first = 0, last = 0;
    for (uint32_t number = 1; t->count < o->requests_max; number++) {
        if (!fgets(line, TRACE_LINE_MAX, file))
            break;
        if (number == 1 && strncmp(line, "TIMESTAMP,", 10) == 0)
            continue;
        struct bench_arrival a = {0};
        bool good = line[0] == '{' ? mooncake_line(t, &a, line) : azure_line(&a, line);
        if (!good || a.at_s < last)
            return error_set(err, STATUS_INVALID,
                             "%s: line %u is not an arrival (in order of "
                             "time) of an Azure or Mooncake trace",
                             o->trace_path, number);
        last = a.at_s;
        first = t->count == 0 ? a.at_s : first;
        a.at_s = (a.at_s - first) / o->rate_scale;
        if (a.at_s > o->seconds_max)
            break;
        a.input_tokens = tokens_cut(a.input_tokens, o->input_max);
        a.output_tokens = tokens_cut(a.output_tokens, o->output_max);
        trace_add(t, a);
    }
    if (t->count == 0)
        return error_set(err, STATUS_INVALID, "%s contains no arrivals", o->trace_path);
    return STATUS_OK;
}

enum status bench_trace_open(struct bench_trace *out, const struct bench_options *o,
                             struct error *err)
{
    *out = (struct bench_trace){0};
    FILE *file = fopen(o->trace_path, "r");
    if (!file)
        return error_set(err, STATUS_NOT_FOUND, "%s cannot be opened: check the path of --trace",
                         o->trace_path);
    char *line = heap_alloc(TRACE_LINE_MAX);
    enum status status = trace_lines(out, file, line, o, err);
    heap_free(line);
    fclose(file);
    return status;
}

void bench_trace_close(struct bench_trace *trace)
{
    heap_free(trace->at);
    heap_free(trace->hashes);
    *trace = (struct bench_trace){0};
}

void bench_arrivals_init(struct bench_arrivals *a, const struct bench_options *o,
                         const struct bench_trace *trace)
{
    *a = (struct bench_arrivals){.o = o, .trace = trace};
}

// Draws from the gamma distribution with this shape and mean 1 (Marsaglia and Tsang, 2000).
static double gamma_draw(double shape, uint64_t seed)
{
    double boost = 1, k = shape;
    if (k < 1) {
        boost = pow(bench_random_real(seed ^ 0x9a44a), 1 / k);
        k += 1;
    }
    double d = k - 1.0 / 3, c = 1 / sqrt(9 * d);
    for (uint64_t i = 1;; i++) {
        double x = bench_random_normal(bench_random(seed + (i << 40)));
        double v = (1 + c * x) * (1 + c * x) * (1 + c * x);
        double u = bench_random_real(bench_random(seed - (i << 40)));
        if (v > 0 && log(u) < 0.5 * x * x + d - d * v + d * log(v))
            return d * v * boost / shape;
    }
}

// Returns the time between two arrivals as a multiple of its mean.
static double interval_draw(const struct bench_options *o, uint64_t index)
{
    uint64_t seed = bench_random(o->seed ^ index << 8);
    switch (o->process) {
    case BENCH_POISSON:
        return -log(bench_random_real(seed));
    case BENCH_GAMMA:
        return gamma_draw(o->burstiness, seed);
    case BENCH_CONSTANT:
        break;
    }
    return 1;
}

// Returns the time at which `work` arrivals are expected. In a ramp the rate rises linearly from 0.
static double time_of(const struct bench_options *o, double work)
{
    double in_ramp = o->rate * o->ramp_s / 2;
    if (work < in_ramp)
        return sqrt(2 * work * o->ramp_s / o->rate);
    return o->ramp_s + (work - in_ramp) / o->rate;
}

bool bench_arrivals_next(struct bench_arrivals *a, struct bench_arrival *out)
{
    const struct bench_options *o = a->o;
    if (a->trace) {
        if (a->index >= a->trace->count)
            return false;
        *out = a->trace->at[a->index++];
        return true;
    }
    if (a->index >= o->requests_max)
        return false;
    *out = (struct bench_arrival){.at_s = time_of(o, a->work)};
    a->work += interval_draw(o, a->index++);
    return out->at_s <= o->seconds_max;
}
