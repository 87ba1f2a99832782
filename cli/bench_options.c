// SPDX-License-Identifier: Apache-2.0
// The options of `weft bench`; see bench.h. Names are those of `vllm bench serve` where it has
// them. Main thread.
#include "cli/bench.h"

#include "base/file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_FILE_BYTES_MAX = 1 << 16, CHECK_PROMPTS = 16, REQUESTS_DEFAULT = 1000 };

#define AT(field) offsetof(struct bench_settings, field)

// clang-format off: a row is easier to read in few lines
static const struct option_row rows[] = {
    OPTION_ROW("model", OPTION_TEXT, AT(model), "the first that the server lists",
               "name of the model"),
    OPTION_ROW("backend", OPTION_TEXT, AT(backend), "chat",
               "API: chat, completions, responses, messages, embeddings, cohere, jina or tei"),
    OPTION_ROW("endpoint", OPTION_TEXT, AT(endpoint), "the API's", "path of the API"),
    OPTION_ROW("send", OPTION_TEXTS, AT(sends), "--backend and --model",
               "API:MODEL[:WEIGHT]; may be repeated to mix APIs and models in one run"),
    OPTION_ROW("api-key", OPTION_TEXT, AT(api_key), "OPENAI_API_KEY or WEFT_API_KEY", "API key"),
    OPTION_ROW("api-key-file", OPTION_TEXT, AT(api_key_file), "none",
               "file whose first line is the API key"),
    OPTION_ROW("header", OPTION_TEXTS, AT(headers), "none",
               "further header of requests, 'Name: value'; may be repeated"),
    OPTION_ROW("extra-body", OPTION_TEXT, AT(extra_body), "none",
               "JSON object whose members every request body gets, in place of those of the same "
               "name"),
    OPTION_ROW("insecure", OPTION_FLAG, AT(insecure), "off",
               "accept any certificate of an https server"),
    OPTION_ROW("cacert", OPTION_TEXT, AT(ca_file), "the system's",
               "file with the certificates to trust (PEM)"),
    OPTION_NUMBER("concurrency", OPTION_COUNT, AT(concurrency), 1, 65536,
                  "8; with --rate and --trace no limit",
                  "clients that each send the next request when the reply has ended; with --rate "
                  "and --trace the most requests in flight"),
    OPTION_NUMBER("max-concurrency", OPTION_COUNT, AT(concurrency), 1, 65536, "none",
                  "synonym of --concurrency"),
    OPTION_NUMBER("num-warmups", OPTION_COUNT, AT(warmup), 0, 65536, "none", "synonym of --warmup"),
    OPTION_NUMBER("num-prompts", OPTION_COUNT, AT(requests), 1, 1e9,
                  "1000, or the prompts of --dataset if they are fewer; with --duration and "
                  "--trace no limit",
                  "number of requests"),
    OPTION_NUMBER("duration", OPTION_REAL, AT(seconds), 0.01, 86400, "no limit",
                  "seconds during which requests are sent"),
    OPTION_NUMBER("warmup", OPTION_COUNT, AT(warmup), 0, 65536, "0",
                  "requests sent before the run that are not measured"),
    OPTION_NUMBER("rate", OPTION_REAL, AT(rate), 0.001, 1e6, "clients of --concurrency",
                  "requests per second, sent whether or not earlier ones have ended"),
    OPTION_NUMBER("request-rate", OPTION_REAL, AT(rate), 0.001, 1e6, "none", "synonym of --rate"),
    OPTION_CHOICES("arrival", AT(process), "poisson; gamma with --burstiness",
                   "times between the arrivals of --rate", "poisson", "gamma", "constant"),
    OPTION_NUMBER("burstiness", OPTION_REAL, AT(burstiness), 0.01, 1000, "1: poisson",
                  "shape of the gamma distribution of the times between arrivals: below 1 bursts, "
                  "above 1 more even than poisson"),
    OPTION_NUMBER("ramp-up", OPTION_REAL, AT(ramp), 0, 86400, "0",
                  "seconds in which the load rises to its value; they are not measured"),
    OPTION_ROW("sweep", OPTION_TEXT, AT(sweep), "none",
               "a run for each value: rate:1,2,4 or concurrency:1,2,4"),
    OPTION_ROW("find-rate", OPTION_FLAG, AT(find_rate), "off",
               "search for the highest rate that keeps --goodput, from --rate on"),
    OPTION_NUMBER("goodput-share", OPTION_REAL, AT(good_share), 0.01, 1, "0.99",
                  "share of the requests that must keep --goodput in --find-rate"),
    OPTION_NUMBER("runs", OPTION_COUNT, AT(runs), 1, 1000, "1; with --against 10",
                  "number of runs, or of pairs of runs with --against"),
    OPTION_ROW("against", OPTION_TEXT, AT(against), "none",
               "URL of a second server: the runs alternate between both, and the differences are "
               "compared"),
    OPTION_ROW("against-model", OPTION_TEXT, AT(against_model), "that of --model",
               "name of the model of the second server"),
    OPTION_ROW("primary", OPTION_TEXT, AT(primary),
               "output_throughput, inputs_per_s, or mean_e2el_ms with --rate",
               "figure of the result that decides a comparison"),
    OPTION_CHOICES("interval", AT(interval), "t",
                   "95 % interval of a comparison: Student's t, or the bootstrap with at least 10 "
                   "pairs of runs",
                   "t", "bootstrap"),
    OPTION_NUMBER("timeout", OPTION_REAL, AT(timeout), 0.1, 86400, "600",
                  "most seconds per request"),
    OPTION_ROW("trace", OPTION_TEXT, AT(trace), "none",
               "send at the times and with the lengths of an Azure csv or Mooncake jsonl file"),
    OPTION_NUMBER("rate-scale", OPTION_REAL, AT(rate_scale), 0.001, 1e6, "1",
                  "factor by which the trace runs faster"),
    OPTION_NUMBER("input-max", OPTION_COUNT, AT(input_max), 1, 16777216, "no limit",
                  "most tokens of a prompt of the trace"),
    OPTION_NUMBER("output-max", OPTION_COUNT, AT(output_max), 1, 16777216, "no limit",
                  "most tokens of an answer of the trace"),
    OPTION_ROW("dataset", OPTION_TEXT, AT(dataset), "generated prompts",
               "file of prompts: ShareGPT's JSON, or JSON lines with messages or a prompt"),
    OPTION_ROW("multi-turn", OPTION_FLAG, AT(multi_turn), "off",
               "send the conversations of --dataset turn by turn: the next turn follows the answer "
               "and contains it; --num-prompts counts conversations"),
    OPTION_ROW("dataset-path", OPTION_TEXT, AT(dataset), "none", "synonym of --dataset"),
    OPTION_ROW("tokenizer", OPTION_TEXT, AT(tokenizer), "lengths follow the server's usage",
               "folder with the model's tokenizer.json: prompts are made of words that are one "
               "token each"),
    OPTION_ROW("random-input-len", OPTION_TEXT, AT(input_len), "none", "synonym of --input-len"),
    OPTION_ROW("random-output-len", OPTION_TEXT, AT(output_len), "none", "synonym of --output-len"),
    OPTION_ROW("input-len", OPTION_TEXT, AT(input_len), "about 32",
               "tokens of a prompt, input or document as the server counts them: N, uniform:A:B, "
               "normal:MEAN:SD or lognormal:MEDIAN:SIGMA"),
    OPTION_ROW("output-len", OPTION_TEXT, AT(output_len), "64",
               "tokens of an answer, in the same forms"),
    OPTION_NUMBER("prefix-len", OPTION_COUNT, AT(prefix), 0, 16777216, "0",
                  "tokens at the start of all generated prompts that are equal: exact with "
                  "--tokenizer, else by the usage; without usage words"),
    OPTION_NUMBER("prompts", OPTION_COUNT, AT(prompts), 0, 1048576, "0: each differs",
                  "number of different generated prompts"),
    OPTION_ROW("prompt", OPTION_TEXT, AT(prompt), "generated", "prompt text of all requests"),
    OPTION_NUMBER("inputs", OPTION_COUNT, AT(inputs), 1, 1048576, "8",
                  "texts per embeddings request, documents per rerank request"),
    OPTION_NUMBER("temperature", OPTION_REAL, AT(temperature), 0, 2, "0", "sampling temperature"),
    OPTION_NUMBER("seed", OPTION_COUNT, AT(seed), 0, 4294967295, "1",
                  "seed of generated text, lengths and arrivals"),
    OPTION_ROW("stream", OPTION_FLAG, AT(stream), "on",
               "request streams instead of complete answers"),
    OPTION_ROW("ignore-eos", OPTION_SWITCH, AT(ignore_eos), "on for generated prompts",
               "answers of chat and completions run to their --output-len"),
    OPTION_ROW("goodput", OPTION_TEXTS, AT(goodput), "none",
               "limits in milliseconds that a good request keeps: ttft:200,tpot:50,e2el:5000"),
    OPTION_ROW("check", OPTION_FLAG, AT(check), "off",
               "send each prompt alone first and compare later answers with that one"),
    OPTION_NUMBER("leave-every", OPTION_COUNT, AT(leave_every), 0, 1e9, "0",
                  "the client closes every N-th stream early (0: none)"),
    OPTION_NUMBER("leave-after", OPTION_COUNT, AT(leave_after), 1, 1e9, "4",
                  "events after which --leave-every closes a stream"),
    OPTION_ROW("output", OPTION_TEXT, AT(output), "none", "file for the result as JSON"),
    OPTION_ROW("result-filename", OPTION_TEXT, AT(output), "none", "synonym of --output"),
    OPTION_ROW("report", OPTION_TEXT, AT(report), "none",
               "file for a report as one HTML page that needs no network"),
    OPTION_ROW("request-log", OPTION_TEXT, AT(request_log), "none",
               "file for a line of JSON per request"),
    OPTION_ROW("json", OPTION_FLAG, AT(json), "off", "print the result as JSON, not as a table"),
    OPTION_ROW("metrics", OPTION_FLAG, AT(metrics), "on",
               "read the server's /metrics before and after each run"),
    OPTION_ROW("progress", OPTION_FLAG, AT(progress), "on", "show the progress on stderr"),
};
// clang-format on
const struct option_table bench_options_table = {rows, sizeof rows / sizeof *rows};

void bench_settings_init(struct bench_settings *s)
{
    *s = (struct bench_settings){.backend = "chat",
                                 .seconds = INFINITY,
                                 .timeout = 600,
                                 .process = -1,
                                 .good_share = 0.99,
                                 .burstiness = 1,
                                 .rate_scale = 1,
                                 .inputs = 8,
                                 .leave_after = 4,
                                 .seed = 1,
                                 .stream = true,
                                 .ignore_eos = -1,
                                 .progress = true,
                                 .metrics = true};
}

// Parses API:MODEL[:WEIGHT].
static enum status send_parse(struct bench_options *o, const char *value, struct error *err)
{
    struct bench_target *t = &o->targets[o->target_count];
    const char *colon = strchr(value, ':');
    if (o->target_count == BENCH_TARGETS_MAX)
        return error_set(err, STATUS_INVALID, "--send may be repeated at most %d times",
                         BENCH_TARGETS_MAX);
    const char *model = colon ? colon + 1 : "", *last = strrchr(model, ':');
    char *end = "";
    long weight = last ? strtol(last + 1, &end, 10) : 1;
    bool weighted = last && end != last + 1 && *end == '\0';
    size_t bytes = weighted ? (size_t)(last - model) : strlen(model);
    bool good = colon && bench_api_find(&t->api, text_span(value, (size_t)(colon - value))) &&
                bytes > 0 && bytes < sizeof t->model;
    t->weight = weighted ? (uint32_t)weight : 1;
    if (!good || (weighted && (weight < 1 || weight > 1000)))
        return error_set(err, STATUS_INVALID,
                         "--send must be API:MODEL or API:MODEL:WEIGHT with a weight from 1 to "
                         "1000, got '%s'",
                         value);
    memcpy(t->model, model, bytes);
    o->target_count++;
    return STATUS_OK;
}

static enum status targets_parse(struct bench_options *o, const struct bench_settings *s,
                                 struct error *err)
{
    enum status status = STATUS_OK;
    for (uint32_t i = 0; status == STATUS_OK && i < s->sends.count; i++)
        status = send_parse(o, s->sends.at[i], err);
    if (s->sends.count > 0 || status != STATUS_OK)
        return status;
    struct bench_target *t = &o->targets[o->target_count++];
    t->weight = 1;
    if (!bench_api_find(&t->api, text_of(s->backend)))
        return error_set(err, STATUS_INVALID,
                         "--backend must be chat, completions, responses, messages, embeddings, "
                         "cohere, jina or tei, got '%s'",
                         s->backend);
    if (s->model && strlen(s->model) >= sizeof t->model)
        return error_set(err, STATUS_INVALID, "--model has over %zu bytes", sizeof t->model - 1);
    if (s->model)
        memcpy(t->model, s->model, strlen(s->model));
    return STATUS_OK;
}

static enum status key_find(struct bench_options *o, const struct bench_settings *s,
                            struct arena *arena, struct error *err)
{
    o->key = s->api_key ? s->api_key : options_environment_openai_key();
    o->key = o->key ? o->key : options_environment_key();
    if (!s->api_key_file)
        return STATUS_OK;
    struct text file;
    enum status status = file_read(&file, arena, s->api_key_file, KEY_FILE_BYTES_MAX, err);
    if (status != STATUS_OK)
        return status;
    size_t bytes = strcspn(file.at, "\r\n");
    if (bytes == 0)
        return error_set(err, STATUS_INVALID, "%s: the first line is empty and must be a key",
                         s->api_key_file);
    o->key = arena_copy(arena, text_span(file.at, bytes)).at;
    return STATUS_OK;
}

static enum status texts_parse(struct bench_options *o, json_t **extra,
                               const struct bench_settings *s, struct error *err)
{
    enum status status = STATUS_OK;
    for (uint32_t i = 0; status == STATUS_OK && i < s->goodput.count; i++)
        status = bench_goodput_parse(&o->goodput, s->goodput.at[i], err);
    for (uint32_t i = 0; status == STATUS_OK && i < s->headers.count; i++)
        if (!strchr(s->headers.at[i], ':'))
            status = error_set(err, STATUS_INVALID, "--header must be 'Name: value', got '%s'",
                               s->headers.at[i]);
    if (status == STATUS_OK && s->extra_body &&
        (json_parse(extra, text_of(s->extra_body), err) != STATUS_OK || !json_is_object(*extra)))
        status = error_set(err, STATUS_INVALID, "--extra-body must be a JSON object");
    o->extra_body = *extra;
    if (status == STATUS_OK && s->input_len && !bench_length_parse(&o->input, s->input_len))
        status = error_set(err, STATUS_INVALID,
                           "--input-len must be N, uniform:A:B, normal:MEAN:SD or "
                           "lognormal:MEDIAN:SIGMA, got '%s'",
                           s->input_len);
    if (status == STATUS_OK && s->output_len && !bench_length_parse(&o->output, s->output_len))
        status = error_set(err, STATUS_INVALID,
                           "--output-len must be N, uniform:A:B, normal:MEAN:SD or "
                           "lognormal:MEDIAN:SIGMA, got '%s'",
                           s->output_len);
    return status;
}

// Returns what is wrong with options that are right alone; NULL: nothing.
static const char *combination_error(const struct bench_options *o)
{
    uint32_t weights = 0;
    for (uint32_t i = 0; i < o->target_count; i++)
        weights += o->targets[i].weight;
    bool open = bench_is_open(o);
    if (strncmp(o->url, "http://", 7) != 0 && strncmp(o->url, "https://", 8) != 0)
        return "the URL must begin with http:// or https://";
    if (o->trace_path && o->rate > 0)
        return "--trace and --rate exclude each other";
    if (o->check && (o->trace_path || o->temperature > 0))
        return "--check needs a temperature of 0 and no trace";
    if (!open && o->concurrency < weights)
        return "--concurrency must be at least the sum of the weights";
    if (o->leave_every > 0 && !o->stream)
        return "--leave-every needs streams";
    if (o->prefix_tokens > 0 && !o->trace_path && o->input.kind == BENCH_LENGTH_FIXED &&
        o->prefix_tokens >= o->input.a)
        return "--prefix-len is a part of --input-len and must be shorter";
    if (o->multi_turn && (!o->dataset_path || o->check || o->prompts > 0))
        return "--multi-turn needs --dataset, and excludes --check and --prompts";
    for (uint32_t i = 0; o->multi_turn && i < o->target_count; i++)
        if (o->targets[i].api == BENCH_COMPLETIONS || !bench_api_generates(o->targets[i].api))
            return "--multi-turn needs an API with messages: chat, responses or messages";
    return NULL;
}

uint32_t bench_sweep_parse(enum bench_swept *swept, double values[BENCH_SWEEP_MAX],
                           const char *text)
{
    const char *colon = strchr(text, ':');
    struct text name = text_span(text, colon ? (size_t)(colon - text) : 0);
    bool rate = text_is(name, "rate");
    *swept = rate ? BENCH_SWEEP_RATE : BENCH_SWEEP_CONCURRENCY;
    if (!rate && !text_is(name, "concurrency"))
        return 0;
    const char *at = colon + 1;
    for (uint32_t count = 0; count < BENCH_SWEEP_MAX; at++) {
        char *end;
        double value = strtod(at, &end);
        bool whole = value == floor(value) && value >= 1 && value <= 65536;
        if (end == at || !(rate ? value >= 0.001 && value <= 1e6 : whole))
            return 0;
        values[count++] = value;
        if (*end != ',')
            return *end == '\0' ? count : 0;
        at = end;
    }
    return 0;
}

enum status bench_settings_convert(struct bench_options *out, json_t **extra,
                                   const struct bench_settings *s, const char *url,
                                   struct arena *arena, struct error *err)
{
    *out = (struct bench_options){.url = url,
                                  .path = s->endpoint,
                                  .ca_file = s->ca_file,
                                  .headers = s->headers.at,
                                  .header_count = s->headers.count,
                                  .requests_max = s->requests,
                                  .seconds_max = s->seconds,
                                  .request_timeout_s = s->timeout,
                                  .ramp_s = s->ramp,
                                  .rate = s->rate,
                                  .burstiness = s->burstiness,
                                  .process = (enum bench_arrival_process)s->process,
                                  .trace_path = s->trace,
                                  .dataset_path = s->dataset,
                                  .rate_scale = s->rate_scale,
                                  .input_max = s->input_max,
                                  .output_max = s->output_max,
                                  .input = {.a = 32},
                                  .output = {.a = 64},
                                  .prefix_tokens = s->prefix,
                                  .inputs = s->inputs,
                                  .prompts = s->prompts,
                                  .prompt = s->prompt,
                                  .temperature = s->temperature,
                                  .seed = s->seed,
                                  .leave_every = s->leave_every,
                                  .leave_after = s->leave_after,
                                  .stream = s->stream,
                                  .multi_turn = s->multi_turn,
                                  .check = s->check,
                                  .metrics = s->metrics,
                                  .insecure = s->insecure};
    *extra = NULL;
    enum status status = targets_parse(out, s, err);
    if (status == STATUS_OK)
        status = key_find(out, s, arena, err);
    if (status == STATUS_OK)
        status = texts_parse(out, extra, s, err);
    if (status != STATUS_OK)
        return status;
    out->concurrency = s->concurrency > 0 || bench_is_open(out) ? s->concurrency : 8;
    if (out->requests_max == 0)
        out->requests_max = isfinite(s->seconds) || s->trace ? UINT64_MAX : REQUESTS_DEFAULT;
    if (out->check && out->prompts == 0)
        out->prompts = CHECK_PROMPTS;
    if (s->process < 0)
        out->process = s->burstiness < 1 || s->burstiness > 1 ? BENCH_GAMMA : BENCH_POISSON;
    bool synthetic = !s->dataset && !s->prompt;
    out->ignore_eos = s->ignore_eos < 0 ? synthetic : s->ignore_eos != 0;
    const char *wrong = combination_error(out);
    return wrong ? error_set(err, STATUS_INVALID, "%s", wrong) : STATUS_OK;
}
