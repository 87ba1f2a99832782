// SPDX-License-Identifier: Apache-2.0
// Private to `weft bench`: its settings as the command line gives them, their conversion, and its
// parts. Main thread.
#pragma once

#include "cli/settings.h"
#include "loadgen/series.h"

struct bench_settings {
    const char *backend, *model, *endpoint;
    struct texts sends; // ENDPOINT:MODEL[:WEIGHT]
    const char *api_key, *api_key_file, *ca_file, *extra_body;
    struct texts headers;
    bool insecure;
    uint32_t concurrency; // 0: not given
    uint32_t requests;    // 0: not given
    double seconds, timeout, ramp, rate, burstiness, rate_scale;
    int process; // enum bench_arrival_process, or -1: not given
    uint32_t warmup;
    const char *trace, *dataset, *tokenizer, *input_len, *output_len, *prompt;
    uint32_t input_max, output_max, prefix, prompts, inputs, leave_every, leave_after;
    double temperature;
    uint32_t seed;
    bool stream, check, multi_turn;
    int ignore_eos; // 1: on; 0: off; -1: on if prompts are generated
    struct texts goodput;
    const char *sweep; // rate:N,N... or concurrency:N,N...
    uint32_t runs;
    bool find_rate;
    double good_share;
    const char *against, *against_model, *primary;
    int interval; // 0: Student's t; 1: bootstrap
    const char *output, *request_log, *report;
    bool json, progress, metrics;
};

// Settings of a measurement without a server.
struct bench_offline_settings {
    const char *batch; // batch sizes, separated by commas; NULL: the default
};
extern const struct option_table bench_offline_table;
// Measures the model folder of --model, prints the result and returns the exit code.
int bench_offline_run(const struct bench_settings *s, const struct bench_offline_settings *own,
                      const struct model_settings *model, const struct device_settings *device);

enum { BENCH_SWEEP_MAX = 64 };
// Parses --sweep. Returns the number of values; 0 if it is malformed.
uint32_t bench_sweep_parse(enum bench_swept *swept, double values[BENCH_SWEEP_MAX],
                           const char *text);

extern const struct option_table bench_options_table;
void bench_settings_init(struct bench_settings *s);

// Fills the options for a server. Texts point into the settings and the arena. *extra receives the
// parsed --extra-body or NULL; the caller releases it with json_decref, also after an error.
// INVALID if an option is malformed or excluded by another one.
enum status bench_settings_convert(struct bench_options *out, json_t **extra,
                                   const struct bench_settings *s, const char *url,
                                   struct arena *arena, struct error *err) MUST_USE;

// Returns IO if a file of --output, --report or --request-log cannot be written, before a run whose
// result would be lost. Creates no file.
enum status bench_outputs_check(const struct bench_settings *s, struct error *err) MUST_USE;
// Replaces the content of a file by the text. IO if it cannot be written.
enum status bench_file_write(const char *path, const struct json_buffer *text,
                             struct error *err) MUST_USE;
// Compares the members "a" and "b" of the result and adds the member "comparison"; prints it,
// unless the result is printed as JSON.
enum status bench_result_compare(json_t *result, const struct bench_settings *s,
                                 struct error *err) MUST_USE;
// Writes the files of --output and --report, and with --json the result on stdout.
enum status bench_outputs_write(const json_t *result, const struct bench_settings *s,
                                struct error *err) MUST_USE;
// Compares two files of --output and writes the outputs: weft bench compare A B.
enum status bench_files_compare(const char *a, const char *b, const struct bench_settings *s,
                                struct error *err) MUST_USE;
