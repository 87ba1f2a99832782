// SPDX-License-Identifier: Apache-2.0
// Single requests before and after runs: the list of models, the server's metrics, and prompts that
// show how many tokens the server counts.
#pragma once

#include "loadgen/content.h"

// Prepares libcurl; bench_net_close ends its use. UNSUPPORTED in a build without libcurl, in which
// the functions below and bench_run fail.
enum status bench_net_open(struct error *err) MUST_USE;
void bench_net_close(void);

// Sends GET to a path of the server (`path` follows o->url without its "/v1"), waits at most
// seconds_max, and replaces the content of *out by the body. REFUSED if there is no reply of status
// 200.
enum status bench_get(struct json_buffer *out, const struct bench_options *o, const char *path,
                      double seconds_max, struct error *err) MUST_USE;
// Writes the first model that /v1/models lists into name[size], cut if it is too long.
enum status bench_model_find(char *name, size_t size, const struct bench_options *o,
                             struct error *err) MUST_USE;
// Sends one short request (exact words) or two, and sets tokens_per_word and overhead from the
// usage of the replies. If a request fails, tries once more with shorter prompts. Returns false,
// and leaves the words unchanged, if there is no usable usage.
bool bench_words_calibrate(struct bench_words *words, const struct bench_options *o);
