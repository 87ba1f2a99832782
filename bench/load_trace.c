// SPDX-License-Identifier: Apache-2.0
// Arrivals of the open loop: read from an Azure table (time stamp, context and generated tokens) or
// from Mooncake lines (milliseconds, lengths, ids of prefix blocks), or drawn at random at a
// constant rate.
#include "bench/load.h"

#include <math.h>
#include <stdio.h>
#include <time.h>

enum { TRACE_LINE_MAX = 1 << 16 };

static void trace_add(struct trace *t, struct arrival a)
{
    if (t->count == t->allocated) {
        t->allocated = t->allocated ? t->allocated * 2 : 1024;
        t->at = heap_grow(t->at, t->allocated * sizeof *t->at);
    }
    t->at[t->count++] = a;
}

static void hash_add(struct trace *t, uint32_t hash)
{
    if (t->hash_count == t->hash_allocated) {
        t->hash_allocated = t->hash_allocated ? t->hash_allocated * 2 : 4096;
        t->hashes = heap_grow(t->hashes, t->hash_allocated * sizeof *t->hashes);
    }
    t->hashes[t->hash_count++] = hash;
}

static bool azure_line(struct arrival *out, const char *line)
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

static bool mooncake_line(struct trace *t, struct arrival *out, const char *line)
{
    json_t *row = NULL;
    if (json_parse(&row, text_of(line), NULL) != STATUS_OK)
        return false;
    json_t *ids = json_object_get(row, "hash_ids");
    bool good = json_is_number(json_object_get(row, "timestamp")) &&
                json_is_integer(json_object_get(row, "input_length")) &&
                json_is_integer(json_object_get(row, "output_length"));
    out->at_s = json_number_value(json_object_get(row, "timestamp")) / 1e3;
    out->input_tokens = (uint32_t)json_integer_value(json_object_get(row, "input_length"));
    out->output_tokens = (uint32_t)json_integer_value(json_object_get(row, "output_length"));
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

static enum status trace_lines(struct trace *t, FILE *file, char *line,
                               const struct load_options *o, struct error *err)
{
    double first = 0, last = 0;
    for (uint32_t number = 1; t->count < o->requests_max; number++) {
        if (!fgets(line, TRACE_LINE_MAX, file))
            break;
        if (number == 1 && strncmp(line, "TIMESTAMP,", 10) == 0)
            continue;
        struct arrival a = {0};
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
        return error_set(err, STATUS_INVALID, "%s holds no arrivals", o->trace_path);
    return STATUS_OK;
}

enum status trace_read(struct trace *out, const struct load_options *o, struct error *err)
{
    *out = (struct trace){0};
    FILE *file = fopen(o->trace_path, "r");
    if (!file)
        return error_set(err, STATUS_NOT_FOUND, "cannot open %s", o->trace_path);
    char *line = heap_alloc(TRACE_LINE_MAX);
    enum status status = trace_lines(out, file, line, o, err);
    heap_free(line);
    fclose(file);
    return status;
}

void trace_poisson(struct trace *out, const struct load_options *o)
{
    double at = 0;
    *out = (struct trace){0};
    for (uint64_t i = 0; i < o->requests_max && at <= o->seconds_max; i++) {
        trace_add(out, (struct arrival){.at_s = at,
                                        .input_tokens = o->prompt_words,
                                        .output_tokens = o->max_tokens});
        double share = ((double)(load_random(o->seed ^ i << 8) >> 11) + 0.5) * 0x1p-53;
        at -= log(share) / o->rate;
    }
}

void trace_free(struct trace *trace)
{
    heap_free(trace->at);
    heap_free(trace->hashes);
}
