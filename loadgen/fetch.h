// SPDX-License-Identifier: Apache-2.0
// Single requests before and after runs: the list of models, the server's metrics, and prompts that
// show how many tokens the server counts.
#pragma once

#include "loadgen/content.h"

// Sends GET to a path of the server, waits at most seconds_max, and stores the body.
enum status bench_get(struct json_buffer *out, const struct bench_options *o, const char *path,
                      double seconds_max, struct error *err) MUST_USE;
// Writes the first model of /v1/models into name[size].
enum status bench_model_find(char *name, size_t size, const struct bench_options *o,
                             struct error *err) MUST_USE;
// Sends one or two short requests and sets the tokens of the words from the usage of the replies.
// Returns false, and leaves the words unchanged, if the replies have no usage.
bool bench_words_calibrate(struct bench_words *words, const struct bench_options *o);
