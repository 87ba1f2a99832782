// SPDX-License-Identifier: Apache-2.0
// The server's metrics; see metrics.h. Pure functions.
#include "loadgen/metrics.h"

#include "base/utf8.h"

#include <math.h>
#include <stdlib.h>

enum { SAMPLES_MAX = 4096, NAME_BYTES_MAX = 512, SAMPLES_WRITTEN_MAX = 400 };

static size_t base_bytes(const char *name)
{
    return strcspn(name, "{");
}

static bool ends_with(struct text name, const char *end)
{
    size_t bytes = strlen(end);
    return name.bytes >= bytes && memcmp(name.at + name.bytes - bytes, end, bytes) == 0;
}

// Adds the sample of a line, if it is one of a counter.
static void line_read(struct bench_scrape *out, struct text line)
{
    char number[64];
    size_t space = line.bytes;
    bool quoted = false;
    for (size_t i = 0; i < line.bytes && space == line.bytes; i++) {
        quoted ^= line.at[i] == '"' && (i == 0 || line.at[i - 1] != '\\');
        if (line.at[i] == ' ' && !quoted)
            space = i;
    }
    size_t rest = line.bytes - space;
    if (line.bytes == 0 || line.at[0] == '#' || space > NAME_BYTES_MAX || rest < 2 ||
        rest > sizeof number || out->count == SAMPLES_MAX)
        return;
    memcpy(number, line.at + space + 1, rest - 1);
    number[rest - 1] = '\0';
    const char *brace = memchr(line.at, '{', space);
    struct text base = text_span(line.at, brace ? (size_t)(brace - line.at) : space);
    double value = strtod(number, NULL);
    bool counter =
        ends_with(base, "_total") || ends_with(base, "_sum") || ends_with(base, "_count");
    if (!counter || !isfinite(value))
        return;
    out->samples = bench_extend(out->samples, out->count, &out->allocated, sizeof *out->samples);
    char *name = heap_alloc(space + 1);
    memcpy(name, line.at, space);
    name[space] = '\0';
    out->samples[out->count++] = (struct bench_sample){name, value};
}

static int samples_order(const void *a, const void *b)
{
    return strcmp(((const struct bench_sample *)a)->name, ((const struct bench_sample *)b)->name);
}

void bench_scrape_read(struct bench_scrape *out, struct text page)
{
    *out = (struct bench_scrape){0};
    while (page.bytes > 0) {
        const char *end = memchr(page.at, '\n', page.bytes);
        size_t bytes = end ? (size_t)(end - page.at) : page.bytes;
        line_read(out, text_span(page.at, bytes));
        bytes += end != NULL;
        page = text_span(page.at + bytes, page.bytes - bytes);
    }
    if (out->count > 1)
        qsort(out->samples, out->count, sizeof *out->samples, samples_order);
}

void bench_scrape_free(struct bench_scrape *scrape)
{
    for (size_t i = 0; i < scrape->count; i++)
        heap_free(scrape->samples[i].name);
    heap_free(scrape->samples);
    *scrape = (struct bench_scrape){0};
}

// Returns how much a counter rose. A counter that was not there before began at 0.
static double rise_of(const struct bench_scrape *before, const struct bench_sample *sample)
{
    const struct bench_sample *old =
        before->count > 0
            ? bsearch(sample, before->samples, before->count, sizeof *sample, samples_order)
            : NULL;
    return sample->value - (old ? old->value : 0);
}

void bench_scrape_json(struct json_buffer *out, const struct bench_scrape *before,
                       const struct bench_scrape *after)
{
    uint32_t put = 0;
    json_put_literal(out, "{");
    for (size_t i = 0; i < after->count && put < SAMPLES_WRITTEN_MAX; i++) {
        double rise = rise_of(before, &after->samples[i]);
        if (!(rise > 0) ||
            utf8_valid_prefix(text_of(after->samples[i].name)) != strlen(after->samples[i].name))
            continue;
        json_put_literal(out, put++ > 0 ? "," : "");
        json_put_string(out, text_of(after->samples[i].name));
        json_put_format(out, ":%.9g", rise);
    }
    json_put_literal(out, "}");
}

void bench_rises_add(struct json_buffer *to, const struct json_buffer *more)
{
    json_t *sum = NULL, *rises = NULL, *value;
    const char *name;
    if (more->bytes == 0 || json_parse(&rises, json_buffer_text(more), NULL) != STATUS_OK)
        return;
    if (to->bytes == 0 || json_parse(&sum, json_buffer_text(to), NULL) != STATUS_OK)
        sum = json_object();
    json_object_foreach(rises, name, value)
    {
        double before = json_number_value(json_object_get(sum, name));
        json_object_set_new(sum, name, json_real(before + json_number_value(value)));
    }
    to->bytes = 0;
    json_put_value(to, sum);
    json_decref(sum);
    json_decref(rises);
}

double bench_scrape_mean(const struct bench_scrape *before, const struct bench_scrape *after,
                         const char *suffix)
{
    double sums[2] = {0};
    for (size_t i = 0; i < after->count; i++) {
        const char *name = after->samples[i].name;
        struct text base = text_span(name, base_bytes(name));
        for (int k = 0; k < 2; k++) {
            const char *end = k == 0 ? "_sum" : "_count";
            if (!ends_with(base, end))
                continue;
            if (ends_with(text_span(base.at, base.bytes - strlen(end)), suffix))
                sums[k] += rise_of(before, &after->samples[i]);
        }
    }
    return sums[1] > 0 ? sums[0] / sums[1] : NAN;
}
