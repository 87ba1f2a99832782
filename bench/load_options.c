// SPDX-License-Identifier: Apache-2.0
// The command line of the load generator: one table, checked completely, so that a typing error
// does not become a wrong measurement.
#include "bench/load.h"

#include "cli/options.h"

#include <stdio.h>
#include <stdlib.h>

static const char *const endpoint_names[ENDPOINT_COUNT] = {"chat", "messages", "embeddings",
                                                           "rerank"};

const char *endpoint_name(enum endpoint endpoint)
{
    return endpoint_names[endpoint];
}

struct parsed {
    struct load_options options;
    struct texts targets;
};

#define AT(field) offsetof(struct parsed, options.field)

static const struct option_row rows[] = {
    OPTION_ROW("send", OPTION_TEXTS, offsetof(struct parsed, targets), "required",
               "ENDPOINT:MODEL[:WEIGHT]; may be repeated; chat, messages, embeddings, rerank"),
    OPTION_ROW("url", OPTION_TEXT, AT(url), "http://127.0.0.1:8000",
               "server on a loopback address"),
    OPTION_ROW("key", OPTION_TEXT, AT(key), "none", "API key"),
    OPTION_ROW("insecure", OPTION_FLAG, AT(insecure), "off",
               "accept any certificate of an https server"),
    OPTION_NUMBER("concurrency", OPTION_COUNT, AT(concurrency), 1, 65536, "8",
                  "closed loop: clients; open loop: most requests in flight"),
    OPTION_NUMBER("requests", OPTION_BYTES, AT(requests_max), 1, 1e9, "1000",
                  "most requests to send"),
    OPTION_NUMBER("seconds", OPTION_REAL, AT(seconds_max), 0.01, 86400, "60",
                  "seconds during which requests are sent"),
    OPTION_NUMBER("timeout", OPTION_REAL, AT(request_timeout_s), 0.1, 86400, "120",
                  "most seconds per request"),
    OPTION_NUMBER("rate", OPTION_REAL, AT(rate), 1e-3, 1e6, "closed loop",
                  "open loop: requests a second, Poisson arrivals"),
    OPTION_ROW("trace", OPTION_TEXT, AT(trace_path), "none",
               "open loop: arrivals of an Azure csv or Mooncake jsonl file"),
    OPTION_NUMBER("rate-scale", OPTION_REAL, AT(rate_scale), 1e-3, 1e6, "1",
                  "factor by which the trace runs faster"),
    OPTION_NUMBER("input-max", OPTION_COUNT, AT(input_max), 1, 1 << 20, "2048",
                  "most words of a trace prompt"),
    OPTION_NUMBER("output-max", OPTION_COUNT, AT(output_max), 1, 1 << 20, "256",
                  "most tokens of a trace answer"),
    OPTION_NUMBER("prompt-words", OPTION_COUNT, AT(prompt_words), 1, 1 << 20, "32",
                  "words of a generated prompt, input or document"),
    OPTION_ROW("prompt", OPTION_TEXT, AT(prompt), "generated", "prompt text of all requests"),
    OPTION_NUMBER("prompts", OPTION_COUNT, AT(prompts), 1, PROMPTS_MAX, "16",
                  "number of different prompts"),
    OPTION_NUMBER("inputs", OPTION_COUNT, AT(inputs), 1, 1 << 20, "8",
                  "texts per embeddings request, documents per rerank request"),
    OPTION_NUMBER("max-tokens", OPTION_COUNT, AT(max_tokens), 1, 1 << 20, "64",
                  "most tokens of an answer"),
    OPTION_NUMBER("temperature", OPTION_REAL, AT(temperature), 0, 2, "0", "sampling temperature"),
    OPTION_NUMBER("seed", OPTION_BYTES, AT(seed), 0, 1e18, "1",
                  "seed of generated text and arrivals"),
    OPTION_ROW("stream", OPTION_FLAG, AT(stream), "on",
               "request streams instead of complete answers"),
    OPTION_ROW("ignore-eos", OPTION_FLAG, AT(ignore_eos), "off",
               "chat answers run to --max-tokens"),
    OPTION_ROW("check", OPTION_FLAG, AT(check), "off",
               "send each prompt alone first and compare later answers with that one"),
    OPTION_NUMBER("leave-every", OPTION_COUNT, AT(leave_every), 0, 1e9, "0",
                  "the client closes every N-th stream early (0: none)"),
    OPTION_NUMBER("leave-after", OPTION_COUNT, AT(leave_after), 1, 1e9, "4",
                  "pieces after which --leave-every drops a stream"),
    OPTION_ROW("json", OPTION_FLAG, AT(json), "off", "one JSON object instead of a table"),
};

static const struct option_table table = {rows, sizeof rows / sizeof *rows};

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

// Returns true for http or https URLs of 127.x.x.x, [::1] or localhost; load_run.c refuses any
// other address that a name resolves to.
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
        wrong = "no target: add --send chat:MODEL";
    else if (!url_allowed(o->url))
        wrong = "--url must be a loopback address (127.x.x.x, [::1] or localhost)";
    else if (o->trace_path && o->rate > 0)
        wrong = "--trace and --rate exclude each other";
    else if (o->check && (o->trace_path || o->temperature > 0))
        wrong = "--check needs a temperature of 0 and no trace";
    else if (!o->trace_path && !(o->rate > 0) && o->concurrency < weights)
        wrong = "--concurrency must be at least the sum of the weights";
    else if (o->leave_every > 0 && !o->stream)
        wrong = "--leave-every needs streams";
    if (wrong)
        fprintf(stderr, "bench_load: %s\n", wrong);
    return wrong ? 2 : -1;
}

int load_options_read(struct load_options *out, int argc, char **argv)
{
    struct parsed parsed = {.options = {.url = "http://127.0.0.1:8000",
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
                                        .stream = true}};
    bool help = false;
    struct texts rest;
    struct error err = {0};
    struct arena *arena = arena_create(1 << 16, 1 << 24);
    struct options_parse_args args = {
        argc - 1, argv + 1, &table, (void *const[]){&parsed}, 1, arena, &rest, &help, NULL};
    enum status status = options_parse(&args, &err);
    if (status == STATUS_OK && rest.count > 0)
        status = error_set(&err, STATUS_INVALID, "'%s' is not understood (see --help)", rest.at[0]);
    for (uint32_t i = 0; status == STATUS_OK && i < parsed.targets.count; i++)
        if (!target_read(&parsed.options, parsed.targets.at[i]))
            status = error_set(&err, STATUS_INVALID, "--send %s is not understood (see --help)",
                               parsed.targets.at[i]);
    arena_destroy(arena);
    if (help) {
        puts("bench_load --send ENDPOINT:MODEL... [options]: load on a weft server, in a closed "
             "loop\n(each client sends its next request immediately) or an open one (--rate, "
             "--trace).\n"
             "Exit code 1: a request was lost, incomplete, failed in its stream or differed.");
        options_help(stdout, &table, "options:");
        return 0;
    }
    if (status != STATUS_OK) {
        fprintf(stderr, "bench_load: %s\n", err.text);
        return 2;
    }
    *out = parsed.options;
    return options_check(out);
}
