// SPDX-License-Identifier: Apache-2.0
// weft bench --model FOLDER: prefill and decode speed of a model without a server. Each
// measurement submits a batch of requests at once and steps the engine on the main thread.
#include "cli/bench.h"
#include "cli/command.h"
#include "cli/signals.h"

#include "base/clock.h"
#include "base/log.h"
#include "loadgen/options.h"
#include "loadgen/samples.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BATCHES_MAX = 32, RUNS_MAX = 1000 };

#define AT(field) offsetof(struct bench_offline_settings, field)
static const struct option_row rows[] = {
    OPTION_ROW("batch", OPTION_TEXT, AT(batch), "1,4,16",
               "without a server: sequences computed at a time, several separated by commas"),
};
const struct option_table bench_offline_table = {rows, sizeof rows / sizeof *rows};

// One measurement: tokens per second of the prompts up to the last first token, and of the answers
// after it.
struct bench_speed {
    double prefill, decode; // decode: NAN if the answers have one token
};

struct bench_batch {
    struct request **requests; // [count]
    uint32_t count, started, ended;
    uint32_t later;  // tokens that came after the first token of the last sequence
    uint64_t all_ns; // time at which the last sequence had its first token
    uint64_t begun_ns, ended_ns;
};

static enum status batch_submit(struct bench_batch *b, struct session *session, uint32_t input,
                                uint32_t output, uint64_t seed, struct error *err)
{
    uint32_t vocab = engine_facts(session->model->engine)->vocab;
    int32_t *tokens = heap_alloc(input * sizeof *tokens);
    enum status status = STATUS_OK;
    b->begun_ns = clock_ns();
    for (uint32_t i = 0; i < b->count && status == STATUS_OK; i++) {
        uint32_t start[2] = {0, input};
        for (uint32_t k = 0; k < input; k++) // distinct prompts: the prefix cache has none of them
            tokens[k] = (int32_t)(bench_random(seed + ((uint64_t)i << 32) + k) % vocab);
        struct submit_args args = {.kind = REQUEST_GENERATE,
                                   .tokens = tokens,
                                   .token_count = input,
                                   .sequence_count = 1,
                                   .sequence_start = start,
                                   .choice_count = 1,
                                   .max_tokens = output,
                                   .ignore_end = true,
                                   .sampling = {.top_p = 1, .repetition = 1}};
        status = session_submit(session, &args, &b->requests[i], err);
    }
    heap_free(tokens);
    return status;
}

// Reads the events that are there. Returns an error if the device failed.
static enum status batch_read(struct bench_batch *b, struct session *session, struct error *err)
{
    for (uint32_t i = 0; i < b->count; i++) {
        struct token_event event;
        while (b->requests[i] && port_next(session->port, b->requests[i], &event, NULL)) {
            bool token = (event.flags & EVENT_TOKEN) != 0;
            if (event.finish == FINISH_ERROR)
                return error_set(err, STATUS_DEVICE_FAULT, "the model failed: %s",
                                 engine_error(session->model->engine)->text);
            b->later += token && b->started == b->count;
            b->started += token && event.index == 0;
            if (token && event.index == 0 && b->started == b->count)
                b->all_ns = clock_ns();
            if (!(event.flags & EVENT_LAST))
                continue;
            b->ended++;
            port_free(session->port, b->requests[i]);
            b->requests[i] = NULL;
        }
    }
    return STATUS_OK;
}

static void on_ready(void *context, void *owner, struct request *request)
{
    (void)context, (void)owner, (void)request; // batch_read reads all requests
}

static enum status batch_measure(struct bench_speed *out, struct session *session, uint32_t count,
                                 const uint32_t lengths[2], uint64_t seed, struct error *err)
{
    struct bench_batch b = {.requests = heap_alloc_zeroed(count, sizeof *b.requests),
                            .count = count};
    enum status status = batch_submit(&b, session, lengths[0], lengths[1], seed, err);
    while (status == STATUS_OK && b.ended < count) {
        engine_step(session->model->engine, clock_ns());
        waker_clear(session->waker);
        port_drain(session->port, on_ready, NULL);
        status = batch_read(&b, session, err);
    }
    b.ended_ns = clock_ns();
    heap_free(b.requests);
    double prefill_s = (double)(b.all_ns - b.begun_ns) * 1e-9;
    double decode_s = (double)(b.ended_ns - b.all_ns) * 1e-9;
    *out = (struct bench_speed){(double)count * lengths[0] / prefill_s,
                                b.later > 0 ? b.later / decode_s : NAN};
    return status;
}

// Parses "1,4,16". Returns the number of batch sizes; 0: malformed.
static uint32_t batches_parse(uint32_t out[BATCHES_MAX], const char *text)
{
    for (uint32_t count = 0; count < BATCHES_MAX; text++) {
        char *end;
        unsigned long value = strtoul(text, &end, 10);
        if (*text < '1' || *text > '9' || value > 4096)
            return 0;
        out[count++] = (uint32_t)value;
        if (*end != ',')
            return *end == '\0' ? count : 0;
        text = end;
    }
    return 0;
}

static void speeds_print(uint32_t batch, const uint32_t lengths[2], double *prefill, double *decode,
                         uint32_t runs)
{
    bench_sort(prefill, runs);
    bench_sort(decode, runs);
    printf("%6u %8u %8u %14.1f %8.1f %14.1f %8.1f\n", batch, lengths[0], lengths[1],
           bench_quantile(prefill, runs, 0.5), (prefill[runs - 1] - prefill[0]) / 2,
           bench_quantile(decode, runs, 0.5), (decode[runs - 1] - decode[0]) / 2);
}

static void speeds_json(struct json_buffer *out, uint32_t batch, const uint32_t lengths[2],
                        const double *prefill, const double *decode, uint32_t runs)
{
    const double *const sets[] = {prefill, decode};
    static const char *const names[] = {"prefill_tokens_per_s", "decode_tokens_per_s"};
    json_put_format(out, "%s{\"batch\":%u,\"input_len\":%u,\"output_len\":%u",
                    out->at[out->bytes - 1] == '[' ? "" : ",", batch, lengths[0], lengths[1]);
    for (int k = 0; k < 2; k++) {
        json_put_format(out, ",\"%s\":[", names[k]);
        for (uint32_t i = 0; i < runs && isfinite(sets[k][i]); i++)
            json_put_format(out, "%s%.6g", i > 0 ? "," : "", sets[k][i]);
        json_put_literal(out, "]");
    }
    json_put_literal(out, "}");
}

struct bench_offline {
    const struct bench_settings *settings;
    uint32_t batches[BATCHES_MAX], batch_count;
    uint32_t lengths[2], runs;
};

static enum status batches_measure(struct session *session, const struct bench_offline *o,
                                   struct json_buffer *json, struct error *err)
{
    double prefill[RUNS_MAX], decode[RUNS_MAX];
    enum status status = STATUS_OK;
    struct bench_speed speed;
    uint64_t seed = bench_random(o->settings->seed);
    for (uint32_t i = 0; status == STATUS_OK && i < o->batch_count; i++) {
        uint32_t batch = o->batches[i];
        // the first run is not measured: memory is touched, and products are tuned
        status = batch_measure(&speed, session, batch, o->lengths, seed++ << 16, err);
        for (uint32_t run = 0; status == STATUS_OK && run < o->runs; run++) {
            status = batch_measure(&speed, session, batch, o->lengths, seed++ << 16, err);
            prefill[run] = speed.prefill;
            decode[run] = speed.decode;
        }
        if (status != STATUS_OK)
            return status;
        speeds_json(json, batch, o->lengths, prefill, decode, o->runs);
        if (!o->settings->json)
            speeds_print(batch, o->lengths, prefill, decode, o->runs);
        fflush(stdout);
    }
    return status;
}

static enum status offline_measure(struct session *session, const struct bench_offline *o,
                                   struct error *err)
{
    const struct bench_settings *s = o->settings;
    const struct model_facts *facts = engine_facts(session->model->engine);
    struct json_buffer json = {0};
    if (facts->kind != MODEL_GENERATOR)
        return error_set(err, STATUS_UNSUPPORTED,
                         "%s is no generator: measure it with weft serve and weft bench URL",
                         session->model->spec.folder);
    if (o->lengths[0] + o->lengths[1] > facts->max_model_len)
        return error_set(err, STATUS_INVALID,
                         "--input-len and --output-len together are over the model's %u tokens",
                         facts->max_model_len);
    if (!s->json)
        printf("%6s %8s %8s %14s %8s %14s %8s\n", "batch", "input", "output", "prefill tok/s", "+-",
               "decode tok/s", "+-");
    json_put_member(&json, "{\"model_id\":", text_of(session->model->spec.id));
    json_put_format(&json, ",\"runs\":%u,\"batches\":[", o->runs);
    enum status status = batches_measure(session, o, &json, err);
    json_put_literal(&json, "]}\n");
    if (status == STATUS_OK && s->json)
        fwrite(json.at, 1, json.bytes, stdout);
    if (status == STATUS_OK && s->output)
        status = bench_file_write(s->output, &json, err);
    json_buffer_free(&json);
    return status;
}

// Converts the settings. Returns what is wrong; NULL: nothing.
static const char *offline_convert(struct bench_offline *o, const char *batch)
{
    struct bench_length input = {.a = 512}, output = {.a = 128};
    const struct bench_settings *s = o->settings;
    if ((s->input_len && !bench_length_parse(&input, s->input_len)) ||
        (s->output_len && !bench_length_parse(&output, s->output_len)) ||
        input.kind != BENCH_LENGTH_FIXED || output.kind != BENCH_LENGTH_FIXED)
        return "without a server, --input-len and --output-len are numbers of tokens";
    o->lengths[0] = (uint32_t)input.a;
    o->lengths[1] = (uint32_t)output.a;
    o->runs = s->runs > 0 ? s->runs : 5;
    o->batch_count = batches_parse(o->batches, batch ? batch : "1,4,16");
    return o->batch_count > 0 ? NULL : "--batch must be a list of numbers such as 1,4,16";
}

int bench_offline_run(const struct bench_settings *s, const struct bench_offline_settings *own,
                      const struct model_settings *model, const struct device_settings *device)
{
    struct bench_offline o = {.settings = s};
    struct model_settings settings = *model;
    struct session session;
    struct error err;
    const char *wrong = offline_convert(&o, own->batch);
    if (wrong) {
        fprintf(stderr, "weft bench: %s\n", wrong);
        return EXIT_CODE_USAGE;
    }
    for (uint32_t i = 0; i < o.batch_count; i++) // all of a batch run at the same time
        if (settings.max_num_seqs > 0 && settings.max_num_seqs < o.batches[i])
            settings.max_num_seqs = o.batches[i];
    log_level_set((enum log_level)device->log_level);
    if (bench_outputs_check(s, &err) != STATUS_OK)
        return command_failed(&err);
    enum status status = session_open(&session, s->model, &settings, device, &err);
    if (status == STATUS_OK)
        status = offline_measure(&session, &o, &err);
    int code = status == STATUS_OK ? EXIT_CODE_OK : session_failed(&session, &err);
    if (status == STATUS_DEVICE_FAULT || status == STATUS_TIMEOUT) {
        fflush(NULL);
        process_end(code); // without cleanup: a thread may hang in the device
    }
    session_close(&session);
    return code;
}
