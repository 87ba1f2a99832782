// SPDX-License-Identifier: Apache-2.0
// weft bench: measures a server. Main thread.
#include "cli/bench.h"
#include "cli/command.h"

#include "base/log.h"
#include "loadgen/compare.h"
#include "loadgen/series.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

// One measurement and what it needs.
struct bench_session {
    const struct bench_settings *settings;
    struct bench_options options, other; // other: the server of --against
    json_t *extra;
    struct bench_plan plan;
    double values[BENCH_SWEEP_MAX];
    struct bench_trace trace;
    struct bench_dataset dataset;
    struct bench_words words;
    struct bench_series series;
    bool shown; // true if the progress line is on the terminal
};

static void progress_show(void *context, double seconds, uint64_t done, uint32_t in_flight,
                          uint64_t events)
{
    struct bench_session *b = context;
    bool terminal = isatty(STDERR_FILENO);
    if (!terminal && (uint64_t)seconds % 10 != 0)
        return;
    fprintf(stderr, "%s%.0f s: %llu requests done, %u in flight, %.0f events/s%s",
            terminal ? "\r\x1b[K" : "", seconds, (unsigned long long)done, in_flight,
            (double)events / seconds, terminal ? "" : "\n");
    fflush(stderr);
    b->shown = terminal;
}

static void progress_hide(struct bench_session *b)
{
    if (b->shown)
        fputs("\r\x1b[K", stderr);
    b->shown = false;
}

// Names the run of a series that begins.
static void run_begin(void *context, uint32_t number, const struct bench_point *point)
{
    struct bench_session *b = context;
    const struct bench_options *o = &point->options;
    if (b->plan.kind == BENCH_SWEEP || b->plan.kind == BENCH_SEARCH) {
        bool rate = b->plan.swept == BENCH_SWEEP_RATE;
        fprintf(stderr, "run %u: %s %g\n", number + 1, rate ? "rate" : "concurrency",
                rate ? o->rate : o->concurrency);
    } else if (b->plan.runs > 1) {
        fprintf(stderr, "run %u of %u%s\n", number + 1,
                b->plan.runs * (b->plan.kind == BENCH_PAIRS ? 2 : 1),
                b->plan.kind != BENCH_PAIRS ? ""
                : point->side == 0          ? ": A"
                                            : ": B");
    }
}

static void run_end(void *context, uint32_t number, const struct bench_point *point)
{
    struct bench_session *b = context;
    (void)number;
    progress_hide(b);
    if (!b->settings->json && (b->plan.kind == BENCH_SWEEP || b->plan.kind == BENCH_SEARCH))
        bench_table_print(stdout, &point->run, &point->options);
}

static enum status words_prepare(struct bench_session *b, struct error *err)
{
    const struct bench_settings *s = b->settings;
    const struct bench_options *o = &b->options;
    enum status status = STATUS_OK;
    bench_words_init(&b->words);
    if (s->tokenizer)
        status = bench_words_fit(&b->words, s->tokenizer, err);
    bool drawn = !o->prompt && !s->dataset && (s->input_len || o->trace_path || s->prefix > 0);
    if (status == STATUS_OK && drawn && !bench_words_calibrate(&b->words, o))
        fprintf(stderr,
                "weft bench: the replies have no usage, so the lengths of prompts are "
                "in %s\n",
                b->words.exact ? "tokens without those of the chat template" : "words");
    return status;
}

static enum status session_prepare(struct bench_session *b, struct error *err)
{
    const struct bench_settings *s = b->settings;
    struct bench_options *o = &b->options;
    struct bench_target *first = &o->targets[0];
    enum status status = STATUS_OK;
    if (o->trace_path)
        status = bench_trace_open(&b->trace, o, err);
    if (status == STATUS_OK && s->dataset)
        status = bench_dataset_open(&b->dataset, o, err);
    if (status == STATUS_OK && s->dataset && s->requests == 0 && o->requests_max < UINT64_MAX &&
        o->requests_max > b->dataset.count)
        o->requests_max = b->dataset.count; // each prompt once
    if (status == STATUS_OK && first->model[0] == '\0')
        status = bench_model_find(first->model, sizeof first->model, o, err);
    if (status == STATUS_OK)
        status = words_prepare(b, err);
    if (status != STATUS_OK)
        return status;
    b->other = *o;
    b->other.url = s->against;
    if (s->against_model)
        snprintf(b->other.targets[0].model, sizeof first->model, "%s", s->against_model);
    if (s->against && strcmp(s->against, o->url) == 0 &&
        strcmp(b->other.targets[0].model, first->model) == 0)
        fputs("weft bench: both sides are the same server: the second run of each pair may find "
              "its prompts in the prefix cache\n",
              stderr);
    b->plan.other = &b->other;
    b->plan.begin = s->progress ? run_begin : NULL;
    b->plan.end = run_end;
    b->plan.args = (struct bench_run_args){.options = o,
                                           .trace = o->trace_path ? &b->trace : NULL,
                                           .dataset = s->dataset ? &b->dataset : NULL,
                                           .words = &b->words,
                                           .progress = s->progress ? progress_show : NULL,
                                           .context = b};
    return STATUS_OK;
}

// Returns what is wrong with the options that define a series; NULL: nothing.
static const char *plan_make(struct bench_session *b)
{
    const struct bench_settings *s = b->settings;
    struct bench_plan *plan = &b->plan;
    *plan = (struct bench_plan){.kind = BENCH_REPEATED,
                                .runs = s->runs > 0  ? s->runs
                                        : s->against ? 10
                                                     : 1,
                                .values = b->values,
                                .warmup = s->warmup,
                                .good_share = s->good_share};
    if ((s->sweep != NULL) + s->find_rate + (s->against != NULL) > 1)
        return "--sweep, --find-rate and --against exclude each other";
    if ((s->sweep || s->find_rate) && (s->runs > 1 || s->trace))
        return "--sweep and --find-rate exclude --runs and --trace";
    if (s->sweep) {
        plan->kind = BENCH_SWEEP;
        plan->value_count = bench_sweep_parse(&plan->swept, b->values, s->sweep);
        if (plan->value_count == 0)
            return "--sweep must be a list such as rate:1,2,4 or concurrency:1,8,32";
    }
    const struct bench_goodput *limits = &b->options.goodput;
    if (s->find_rate) {
        plan->kind = BENCH_SEARCH;
        if (!(limits->ttft + limits->tpot + limits->e2el > 0) || !(b->options.rate > 0))
            return "--find-rate needs --goodput, and --rate for the first rate";
    }
    if (s->against)
        plan->kind = BENCH_PAIRS;
    if (s->against && s->interval == 1 && plan->runs < BENCH_BOOTSTRAP_PAIRS)
        return "--interval bootstrap needs at least 10 pairs of runs (--runs)";
    return NULL;
}

// Prints the table of the runs of one side, joined.
static void side_print(const struct bench_session *b, uint32_t side)
{
    const struct bench_series *series = &b->series;
    struct bench_run joined;
    bench_series_join(&joined, series, side);
    bench_table_print(stdout, &joined, side == 0 ? &b->options : &b->other);
    bench_run_free(&joined);
}

static void series_print(const struct bench_session *b)
{
    const struct bench_series *series = &b->series;
    if (series->kind == BENCH_REPEATED)
        side_print(b, 0);
    if (series->kind == BENCH_PAIRS) {
        safe_line(stdout, "A: %s", b->options.url);
        side_print(b, 0);
        safe_line(stdout, "B: %s", b->other.url);
        side_print(b, 1);
    }
    if (series->kind == BENCH_SEARCH && series->limited)
        puts("no verdict: the client was the limit");
    else if (series->kind == BENCH_SEARCH)
        printf("highest rate at which %.4g %% of the requests keep the limits: %.4g per second\n",
               b->plan.good_share * 100, series->best_rate);
}

// Writes the lines of --request-log.
static enum status log_write(const struct bench_session *b, struct error *err)
{
    const char *path = b->settings->request_log;
    FILE *file = fopen(path, "w");
    for (uint32_t i = 0; file && i < b->series.count; i++)
        bench_records_write(file, &b->series.points[i].run, &b->series.points[i].options);
    bool failed = !file || ferror(file) != 0;
    failed |= file && fclose(file) != 0;
    return failed ? error_set(err, STATUS_IO, "%s cannot be written: %s", path, strerror(errno))
                  : STATUS_OK;
}

static enum status results_write(const struct bench_session *b, struct error *err)
{
    const struct bench_settings *s = b->settings;
    struct json_buffer text = {0};
    json_t *result = NULL;
    bench_series_json(&text, &b->series);
    enum status status = json_parse(&result, json_buffer_text(&text), err);
    json_buffer_free(&text);
    if (!s->json)
        series_print(b);
    if (status == STATUS_OK && b->series.kind == BENCH_PAIRS)
        status = bench_result_compare(result, s, err);
    if (status == STATUS_OK)
        status = bench_outputs_write(result, s, err);
    if (status == STATUS_OK && s->request_log)
        status = log_write(b, err);
    json_decref(result);
    return status;
}

// Returns true if every request that the client did not leave has ended well.
static bool all_well(const struct bench_series *series)
{
    for (uint32_t i = 0; i < series->count; i++) {
        const struct bench_run *run = &series->points[i].run;
        for (uint64_t k = 0; k < run->count; k++) {
            const struct bench_record *r = &run->records[k];
            bool well = r->outcome == BENCH_OUTCOME_OK || r->outcome == BENCH_OUTCOME_LEFT;
            if (!well || r->differs)
                return false;
        }
    }
    return true;
}

static int bench_server(struct bench_session *b)
{
    const struct bench_settings *s = b->settings;
    struct error err;
    signal(SIGPIPE, SIG_IGN); // a server may close a connection that is written to
    enum status status = bench_outputs_check(s, &err);
    if (status == STATUS_OK)
        status = bench_net_open(&err);
    if (status != STATUS_OK)
        return command_failed(&err);
    status = session_prepare(b, &err);
    if (status == STATUS_OK)
        status = bench_series_run(&b->series, &b->plan, &err);
    progress_hide(b);
    if (b->dataset.count > 0 && b->series.prompts_next > b->dataset.count)
        fprintf(stderr,
                "weft bench: %s has %u prompts for %llu requests: prompts repeat, and a prefix "
                "cache may have them\n",
                s->dataset, b->dataset.count, (unsigned long long)b->series.prompts_next);
    if (status == STATUS_OK)
        status = results_write(b, &err);
    int code = status != STATUS_OK    ? command_failed(&err)
               : all_well(&b->series) ? EXIT_CODE_OK
                                      : EXIT_CODE_FAILURE;
    bench_series_free(&b->series);
    bench_dataset_close(&b->dataset);
    bench_trace_close(&b->trace);
    bench_net_close();
    return code;
}

// Returns what is wrong with the number of arguments; NULL: nothing.
static const char *arguments_error(bool compares, uint32_t count)
{
    if (count == 0)
        return "the URL is missing: weft bench http://127.0.0.1:8000, or weft bench --model FOLDER "
               "without a server";
    if (compares && count != 3)
        return "two files are compared: weft bench compare A.json B.json";
    return !compares && count > 1
               ? "one server is measured; the URL of a second one follows --against"
               : NULL;
}

// Returns the first given option that has no effect on the measurement of a server; NULL: none.
static const char *local_option(const struct texts *given)
{
    const struct option_table *const local[] = {&bench_offline_table, &device_options_table,
                                                &session_options_table};
    for (uint32_t i = 0; i < given->count; i++)
        for (size_t k = 0; k < sizeof local / sizeof *local; k++)
            if (option_known(local[k], given->at[i]))
                return given->at[i];
    return NULL;
}

// Returns the first given option that has no effect on a measurement without a server; NULL: none.
static const char *remote_option(const struct texts *given)
{
    static const char *const both[] = {
        "model", "input-len", "random-input-len", "output-len", "output", "random-output-len",
        "runs",  "json",      "result-filename",  "seed"};
    for (uint32_t i = 0; i < given->count; i++) {
        bool used = !option_known(&bench_options_table, given->at[i]);
        for (size_t k = 0; !used && k < sizeof both / sizeof *both; k++)
            used = strcmp(given->at[i], both[k]) == 0;
        if (!used)
            return given->at[i];
    }
    return NULL;
}

// Returns the first given option that `weft bench compare` does not use, or NULL.
static const char *load_option(const struct texts *given)
{
    static const char *const used[] = {"primary", "interval",        "output",
                                       "report",  "result-filename", "json"};
    for (uint32_t i = 0; i < given->count; i++) {
        bool known = false;
        for (size_t k = 0; !known && k < sizeof used / sizeof *used; k++)
            known = strcmp(given->at[i], used[k]) == 0;
        if (!known)
            return given->at[i];
    }
    return NULL;
}

// Measures a server or compares two files. Returns the exit code.
static int bench_remote(struct bench_settings *s, const struct texts *positional,
                        const struct texts *given, struct arena *arena)
{
    bool compares = positional->count > 0 && strcmp(positional->at[0], "compare") == 0;
    struct bench_session b = {.settings = s};
    struct error err;
    enum status status = STATUS_OK;
    const char *wrong = arguments_error(compares, positional->count), *local = local_option(given);
    const char *load = compares ? load_option(given) : NULL;
    if (!wrong && load) {
        status = error_set(&err, STATUS_INVALID,
                           "--%s has no effect on weft bench compare, which sends no requests; "
                           "leave it out",
                           load);
        wrong = err.text;
    } else if (!wrong && local) {
        status = error_set(&err, STATUS_INVALID,
                           "--%s is for weft bench --model FOLDER, without a server", local);
        wrong = err.text;
    }
    if (!wrong && !compares) {
        status = bench_settings_convert(&b.options, &b.extra, s, positional->at[0], arena, &err);
        wrong = status == STATUS_OK ? plan_make(&b) : err.text;
    }
    int code = EXIT_CODE_USAGE;
    if (wrong) {
        safe_line(stderr, "weft bench: %s", wrong);
    } else if (compares) {
        status = bench_files_compare(positional->at[1], positional->at[2], s, &err);
        code = status == STATUS_OK ? EXIT_CODE_OK : command_failed(&err);
    } else {
        code = bench_server(&b);
    }
    json_decref(b.extra);
    return code;
}

int command_bench(const struct command *self, int argc, char **argv)
{
    struct bench_settings s;
    struct bench_offline_settings offline = {0};
    struct model_settings model;
    struct device_settings device;
    struct arena *arena = arena_create(0, 0);
    struct texts positional, given = {0};
    bench_settings_init(&s);
    model_settings_init(&model);
    device_settings_init(&device);
    device.log_level = LOG_WARNING; // log lines about the plan would clutter the result
    const struct option_table tables[] = {bench_options_table, bench_offline_table,
                                          device_options_table, session_options_table};
    struct command_parse parse = {
        .self = self,
        .argc = argc,
        .argv = argv,
        .tables = tables,
        .fields = (void *const[]){&s, &offline, &device, &model},
        .titles = (const char *const[]){"Measurement:", "Without a server:", "Device:", "Model:"},
        .table_count = 4,
        .positional_max = 3,
        .given = &given};
    int code = command_parse(&parse, arena, &positional);
    const char *remote = remote_option(&given);
    if (code < 0 && positional.count == 0 && s.model && remote) {
        fprintf(stderr, "weft bench: --%s is for weft bench URL, which measures a server\n",
                remote);
        code = EXIT_CODE_USAGE;
    } else if (code < 0 && positional.count == 0 && s.model)
        code = bench_offline_run(&s, &offline, &model, &device);
    else if (code < 0)
        code = bench_remote(&s, &positional, &given, arena);
    arena_destroy(arena);
    return code;
}
