// SPDX-License-Identifier: Apache-2.0
// Names of APIs, and distributions of lengths. Pure functions.
#include "loadgen/options.h"

#include <math.h>
#include <stdlib.h>

static const struct api_row {
    const char *name, *path;
} apis[BENCH_API_COUNT] = {
#define API(name, text, path) {text, path},
    BENCH_API_LIST(API)
#undef API
};

// Names of vllm bench serve, and short ones.
static const struct api_synonym {
    const char *name;
    enum bench_api api;
} synonyms[] = {
    {"openai-chat", BENCH_CHAT},   {"openai", BENCH_COMPLETIONS},
    {"vllm", BENCH_COMPLETIONS},   {"openai-responses", BENCH_RESPONSES},
    {"anthropic", BENCH_MESSAGES}, {"openai-embeddings", BENCH_EMBEDDINGS},
    {"rerank", BENCH_JINA},        {"vllm-rerank", BENCH_JINA},
};

void *bench_extend(void *items, size_t count, size_t *allocated, size_t each)
{
    if (count < *allocated)
        return items;
    *allocated = *allocated > 0 ? *allocated * 2 : 64;
    return heap_grow(items, *allocated * each);
}

bool bench_api_find(enum bench_api *out, struct text name)
{
    for (int i = 0; i < BENCH_API_COUNT; i++)
        if (text_is(name, apis[i].name)) {
            *out = (enum bench_api)i;
            return true;
        }
    for (size_t i = 0; i < sizeof synonyms / sizeof *synonyms; i++)
        if (text_is(name, synonyms[i].name)) {
            *out = synonyms[i].api;
            return true;
        }
    return false;
}

const char *bench_api_name(enum bench_api api)
{
    return apis[api].name;
}

const char *bench_api_path(enum bench_api api)
{
    return apis[api].path;
}

bool bench_api_generates(enum bench_api api)
{
    return api <= BENCH_MESSAGES;
}

// Reads a number of at least `low` that ends with `end`. Returns what follows, NULL if malformed.
static const char *number_read(double *out, const char *text, char end, double low)
{
    char *after;
    *out = strtod(text, &after);
    return after != text && *after == end && *out >= low && *out <= 1 << 24 ? after + (end != '\0')
                                                                            : NULL;
}

bool bench_length_parse(struct bench_length *out, const char *text)
{
    static const char *const kinds[] = {"", "uniform:", "normal:", "lognormal:"};
    *out = (struct bench_length){.kind = BENCH_LENGTH_FIXED};
    if (text[0] >= '0' && text[0] <= '9')
        return number_read(&out->a, text, '\0', 1) && out->a == floor(out->a);
    for (int i = BENCH_LENGTH_UNIFORM; i <= BENCH_LENGTH_LOGNORMAL; i++) {
        if (strncmp(text, kinds[i], strlen(kinds[i])) != 0)
            continue;
        out->kind = (enum bench_length_kind)i;
        const char *second = number_read(&out->a, text + strlen(kinds[i]), ':', 1);
        bool good = second && number_read(&out->b, second, '\0', 0);
        return good && (out->kind != BENCH_LENGTH_UNIFORM || out->b >= out->a);
    }
    return false;
}

// Parses one limit of a list, which ends at a comma or at the end. Returns its end; NULL:
// malformed.
static const char *limit_parse(struct bench_goodput *out, const char *at)
{
    const struct {
        const char *name;
        double *limit;
    } limits[] = {{"ttft:", &out->ttft}, {"tpot:", &out->tpot}, {"e2el:", &out->e2el}};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        size_t bytes = strlen(limits[i].name);
        char *end;
        if (strncmp(at, limits[i].name, bytes) != 0)
            continue;
        double value = strtod(at + bytes, &end);
        if (!(value > 0) || !isfinite(value) || (*end != ',' && *end != '\0'))
            return NULL;
        *limits[i].limit = value;
        return end;
    }
    return NULL;
}

enum status bench_goodput_parse(struct bench_goodput *out, const char *text, struct error *err)
{
    for (const char *at = text;; at++) {
        const char *end = limit_parse(out, at);
        if (!end)
            return error_set(err, STATUS_INVALID,
                             "--goodput: '%.*s' must be ttft:, tpot: or e2el: followed by a time "
                             "above 0 in milliseconds, such as ttft:200,tpot:50,e2el:5000",
                             (int)strcspn(at, ","), at);
        if (*end == '\0')
            return STATUS_OK;
        at = end;
    }
}

double bench_random_normal(uint64_t seed)
{
    double radius = sqrt(-2 * log(bench_random_real(seed)));
    return radius * cos(2 * M_PI * bench_random_real(~seed));
}

uint32_t bench_length_draw(const struct bench_length *length, uint64_t seed, uint64_t index)
{
    uint64_t place = bench_random(seed ^ index << 20);
    double value = length->a;
    switch (length->kind) {
    case BENCH_LENGTH_FIXED:
        break;
    case BENCH_LENGTH_UNIFORM:
        value += floor(bench_random_real(place) * (floor(length->b) - value + 1));
        break;
    case BENCH_LENGTH_NORMAL:
        value += length->b * bench_random_normal(place);
        break;
    case BENCH_LENGTH_LOGNORMAL:
        value *= exp(length->b * bench_random_normal(place));
        break;
    }
    return value < 1 ? 1 : value > 1 << 24 ? 1u << 24 : (uint32_t)lround(value);
}
