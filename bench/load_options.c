// The command line of the load generator: one table, checked completely, so that a typing error
// never becomes a wrong measurement.
#include "bench/load.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const endpoint_names[ENDPOINT_COUNT] = {"chat", "messages", "embeddings",
                                                           "rerank"};

const char *endpoint_name(enum endpoint endpoint)
{
    return endpoint_names[endpoint];
}

enum kind { KIND_TEXT, KIND_U32, KIND_U64, KIND_DOUBLE, KIND_TRUE, KIND_FALSE, KIND_TARGET };

struct option_row {
    const char *name, *help;
    enum kind kind;
    size_t offset;
    double min, max;
};

#define AT(field) offsetof(struct load_options, field)

static const struct option_row rows[] = {
    {"--url", "server on a loopback address (http://127.0.0.1:8000)", KIND_TEXT, AT(url), 0, 0},
    {"--key", "API key", KIND_TEXT, AT(key), 0, 0},
    {"--insecure", "accept any certificate of an https server", KIND_TRUE, AT(insecure), 0, 0},
    {"--send", "ENDPOINT:MODEL[:WEIGHT], repeatable; chat, messages, embeddings, rerank",
     KIND_TARGET, 0, 0, 0},
    {"--concurrency", "closed loop: clients; open loop: most requests in flight (8)", KIND_U32,
     AT(concurrency), 1, 65536},
    {"--requests", "requests sent at most (1000)", KIND_U64, AT(requests_max), 1, 1e9},
    {"--seconds", "no request is sent later (60)", KIND_DOUBLE, AT(seconds_max), 0.01, 86400},
    {"--timeout", "seconds a request may take (120)", KIND_DOUBLE, AT(request_timeout_s), 0.1,
     86400},
    {"--rate", "open loop: requests a second, Poisson arrivals", KIND_DOUBLE, AT(rate), 1e-3, 1e6},
    {"--trace", "open loop: arrivals of an Azure csv or Mooncake jsonl file", KIND_TEXT,
     AT(trace_path), 0, 0},
    {"--rate-scale", "the trace runs this much faster (1)", KIND_DOUBLE, AT(rate_scale), 1e-3, 1e6},
    {"--input-max", "words of a trace prompt at most (2048)", KIND_U32, AT(input_max), 1, 1 << 20},
    {"--output-max", "tokens of a trace answer at most (256)", KIND_U32, AT(output_max), 1,
     1 << 20},
    {"--prompt-words", "words of a made prompt, input or document (32)", KIND_U32, AT(prompt_words),
     1, 1 << 20},
    {"--prompt", "this text instead of made ones", KIND_TEXT, AT(prompt), 0, 0},
    {"--prompts", "different prompts (16)", KIND_U32, AT(prompts), 1, PROMPTS_MAX},
    {"--inputs", "texts of an embeddings request, documents of a rerank one (8)", KIND_U32,
     AT(inputs), 1, 1 << 20},
    {"--max-tokens", "tokens of an answer at most (64)", KIND_U32, AT(max_tokens), 1, 1 << 20},
    {"--temperature", "sampling temperature (0)", KIND_DOUBLE, AT(temperature), 0, 2},
    {"--seed", "of made text and arrivals (1)", KIND_U64, AT(seed), 0, 1e18},
    {"--no-stream", "whole answers instead of streams", KIND_FALSE, AT(stream), 0, 0},
    {"--ignore-eos", "chat answers run to --max-tokens", KIND_TRUE, AT(ignore_eos), 0, 0},
    {"--check", "each prompt alone first; then answers are compared with it", KIND_TRUE, AT(check),
     0, 0},
    {"--leave-every", "each n-th stream is dropped by its client (0: none)", KIND_U32,
     AT(leave_every), 0, 1e9},
    {"--leave-after", "... after so many pieces (4)", KIND_U32, AT(leave_after), 1, 1e9},
    {"--json", "one JSON object instead of a table", KIND_TRUE, AT(json), 0, 0},
};

static void help(void)
{
    printf("bench_load --send ENDPOINT:MODEL... [options]: load on a weft server, in a closed "
           "loop\n(clients that ask again at once) or an open one (--rate, --trace).\n"
           "Exit code 1: a request was lost, incomplete, failed in its stream or differed.\n\n");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        printf("  %-15s %s\n", rows[i].name, rows[i].help);
}

static bool target_read(struct load_options *o, const char *value)
{
    if (o->target_count == TARGETS_MAX)
        return false;
    struct load_target *t = &o->targets[o->target_count];
    const char *colon = strchr(value, ':');
    if (!colon)
        return false;
    t->endpoint = ENDPOINT_COUNT;
    for (int i = 0; i < ENDPOINT_COUNT; i++)
        if (text_is(text_span(value, (size_t)(colon - value)), endpoint_names[i]))
            t->endpoint = (enum endpoint)i;
    const char *model = colon + 1, *second = strchr(model, ':');
    size_t bytes = second ? (size_t)(second - model) : strlen(model);
    if (t->endpoint == ENDPOINT_COUNT || bytes == 0 || bytes >= sizeof t->model)
        return false;
    memcpy(t->model, model, bytes);
    char *end = "";
    long weight = second ? strtol(second + 1, &end, 10) : 1;
    t->weight = (uint32_t)weight;
    o->target_count++;
    return weight > 0 && weight <= 1000 && *end == '\0';
}

static bool number_read(struct load_options *o, const struct option_row *row, const char *value)
{
    char *end;
    errno = 0;
    double n = strtod(value, &end);
    if (errno != 0 || end == value || *end != '\0' || !(n >= row->min && n <= row->max))
        return false;
    char *to = (char *)o + row->offset;
    if (row->kind == KIND_DOUBLE)
        *(double *)to = n;
    else if (row->kind == KIND_U64)
        *(uint64_t *)to = (uint64_t)n;
    else
        *(uint32_t *)to = (uint32_t)n;
    return true;
}

static bool value_read(struct load_options *o, const struct option_row *row, const char *value)
{
    if (row->kind == KIND_TARGET)
        return target_read(o, value);
    if (row->kind == KIND_TEXT) {
        *(const char **)((char *)o + row->offset) = value;
        return true;
    }
    return number_read(o, row, value);
}

// Plain http or https to 127.x.x.x, [::1] or localhost; load_run.c refuses any other address that
// a name may lead to.
static bool url_allowed(const char *url)
{
    static const char *const heads[] = {"http://127.",  "http://[::1]",  "http://localhost",
                                        "https://127.", "https://[::1]", "https://localhost"};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        if (strncmp(url, heads[i], strlen(heads[i])) == 0)
            return true;
    return false;
}

static int options_check(const struct load_options *o)
{
    const char *wrong = NULL;
    uint32_t weights = 0;
    for (uint32_t i = 0; i < o->target_count; i++)
        weights += o->targets[i].weight;
    if (o->target_count == 0)
        wrong = "name what is sent: --send chat:MODEL";
    else if (!url_allowed(o->url))
        wrong = "--url must be a loopback address (127.x.x.x, [::1] or localhost)";
    else if (o->trace_path && o->rate > 0)
        wrong = "--trace and --rate exclude each other";
    else if (o->check && (o->trace_path || o->temperature > 0))
        wrong = "--check needs a temperature of 0 and no trace";
    else if (!o->trace_path && !(o->rate > 0) && o->concurrency < weights)
        wrong = "--concurrency must be at least the sum of the weights, a client for each";
    else if (o->leave_every > 0 && !o->stream)
        wrong = "--leave-every needs streams";
    if (wrong)
        fprintf(stderr, "bench_load: %s\n", wrong);
    return wrong ? 2 : -1;
}

static const struct option_row *row_find(const char *name)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].name, name) == 0)
            return &rows[i];
    return NULL;
}

int load_options_read(struct load_options *out, int argc, char **argv)
{
    *out = (struct load_options){.url = "http://127.0.0.1:8000",
                                 .concurrency = 8,
                                 .requests_max = 1000,
                                 .seconds_max = 60,
                                 .request_timeout_s = 120,
                                 .rate_scale = 1,
                                 .input_max = 2048,
                                 .output_max = 256,
                                 .prompt_words = 32,
                                 .max_tokens = 64,
                                 .inputs = 8,
                                 .prompts = 16,
                                 .seed = 1,
                                 .leave_after = 4,
                                 .stream = true};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0) {
            help();
            return 0;
        }
        const struct option_row *row = row_find(argv[i]);
        if (row && (row->kind == KIND_TRUE || row->kind == KIND_FALSE)) {
            *(bool *)((char *)out + row->offset) = row->kind == KIND_TRUE;
            continue;
        }
        if (!row || i + 1 == argc || !value_read(out, row, argv[i + 1])) {
            fprintf(stderr, "bench_load: %s %s is not understood; see --help\n", argv[i],
                    row && i + 1 < argc ? argv[i + 1] : "");
            return 2;
        }
        i++;
    }
    return options_check(out);
}
