// SPDX-License-Identifier: Apache-2.0
// Single requests; see fetch.h. One thread, which waits for the reply.
#include "loadgen/fetch.h"
#include "loadgen/run.h"

#include <curl/curl.h>
#include <stdio.h>

enum { BODY_BYTES_MAX = 64 << 20, MODELS_SECONDS_MAX = 30 };

enum status bench_net_open(struct error *err)
{
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return error_set(err, STATUS_IO, "libcurl cannot be used");
    return STATUS_OK;
}

void bench_net_close(void)
{
    curl_global_cleanup();
}

static size_t body_store(char *at, size_t size, size_t count, void *user)
{
    struct json_buffer *out = user;
    if (out->bytes + size * count > BODY_BYTES_MAX)
        return 0;
    json_put_raw(out, text_span(at, size * count));
    return size * count;
}

static struct curl_slist *get_headers(const struct bench_options *o)
{
    struct curl_slist *list = NULL;
    if (o->key) {
        size_t bytes = strlen(o->key) + 32;
        char *line = heap_alloc(bytes);
        snprintf(line, bytes, "Authorization: Bearer %s", o->key);
        list = curl_slist_append(list, line);
        snprintf(line, bytes, "x-api-key: %s", o->key);
        list = o->targets[0].api == BENCH_MESSAGES ? curl_slist_append(list, line) : list;
        heap_free(line);
    }
    for (uint32_t i = 0; i < o->header_count; i++)
        list = curl_slist_append(list, o->headers[i]);
    return list;
}

enum status bench_get(struct json_buffer *out, const struct bench_options *o, const char *path,
                      double seconds_max, struct error *err)
{
    size_t base = strlen(o->url);
    while (base > 0 && o->url[base - 1] == '/')
        base--;
    if (base > 3 && strncmp(o->url + base - 3, "/v1", 3) == 0)
        base -= 3;
    char *url = heap_alloc(base + strlen(path) + 1), reason[CURL_ERROR_SIZE] = "";
    snprintf(url, base + strlen(path) + 1, "%.*s%s", (int)base, o->url, path);
    CURL *easy = curl_easy_init();
    check(easy, "libcurl has no memory");
    struct curl_slist *headers = get_headers(o);
    out->bytes = 0;
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, body_store);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, out);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, reason);
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)(seconds_max * 1e3));
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, o->insecure ? 0L : 1L);
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, o->insecure ? 0L : 2L);
    if (o->ca_file)
        curl_easy_setopt(easy, CURLOPT_CAINFO, o->ca_file);
    CURLcode code = curl_easy_perform(easy);
    long answer = 0;
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &answer);
    enum status status = STATUS_OK;
    if (code != CURLE_OK)
        status = error_set(err, STATUS_REFUSED, "%s does not answer (%s): check the address", url,
                           *reason != '\0' ? reason : curl_easy_strerror(code));
    else if (answer != 200)
        status = error_set(err, STATUS_REFUSED, "%s answers %ld%s", url, answer,
                           answer == 401   ? ": give the server's key with --api-key"
                           : answer == 404 ? ": the URL is the server's, such as "
                                             "http://127.0.0.1:8000, without the path of an API"
                                           : "");
    curl_easy_cleanup(easy);
    curl_slist_free_all(headers);
    heap_free(url);
    return status;
}

enum status bench_model_find(char *name, size_t size, const struct bench_options *o,
                             struct error *err)
{
    struct json_buffer body = {0};
    json_t *list = NULL;
    enum status status = bench_get(&body, o, "/v1/models", MODELS_SECONDS_MAX, err);
    if (status == STATUS_OK && json_parse(&list, json_buffer_text(&body), NULL) != STATUS_OK)
        status = error_set(err, STATUS_REFUSED,
                           "%s answers /v1/models with something else than JSON: check the address",
                           o->url);
    const json_t *first = json_array_get(json_object_get(list, "data"), 0);
    const char *id = json_string_value(json_object_get(first, "id"));
    if (status == STATUS_OK && !id)
        status = error_set(err, STATUS_NOT_FOUND, "/v1/models lists no model");
    if (status == STATUS_OK)
        snprintf(name, size, "%s", id);
    else
        error_prefix(err, "without --model the server must list a model");
    json_decref(list);
    json_buffer_free(&body);
    return status;
}

// Returns the tokens that the server counts for this prompt; 0: unknown.
static double tokens_counted(const struct bench_options *o, const struct bench_words *words,
                             const struct json_buffer *prompt)
{
    struct bench_options one = *o;
    struct error err;
    struct bench_run run;
    one.target_count = one.concurrency = one.inputs = one.prompts = 1;
    one.requests_max = 1;
    one.seconds_max = o->request_timeout_s;
    one.rate = one.ramp_s = 0;
    one.trace_path = NULL;
    one.prompt = prompt->at;
    one.leave_every = 0;
    one.check = one.multi_turn = false;
    one.output = (struct bench_length){.a = 1};
    struct bench_run_args args = {.options = &one, .words = words};
    enum status status = bench_run(&run, &args, &err);
    const struct bench_record *r = status == STATUS_OK && run.count == 1 ? run.records : NULL;
    double tokens = r && r->outcome == BENCH_OUTCOME_OK ? r->input_tokens : 0;
    bench_run_free(&run);
    return tokens;
}

// Returns the tokens of a prompt of the first `count` words, which repeat after the last.
static double words_counted(const struct bench_words *words, const struct bench_options *o,
                            uint32_t count)
{
    struct json_buffer text = {0};
    for (uint32_t i = 0; i < count; i++) {
        json_put_literal(&text, i > 0 ? " " : "");
        json_put_literal(&text, words->at[i % words->count]);
    }
    json_put_raw(&text, text_span("", 1));
    double tokens = tokens_counted(o, words, &text);
    json_buffer_free(&text);
    return tokens;
}

bool bench_words_calibrate(struct bench_words *words, const struct bench_options *o)
{
    // Each word once and twice: the difference is the mean of all words. A model of short contexts
    // gets a part of them.
    uint32_t few = words->count, many = 2 * words->count;
    double small = words_counted(words, o, few);
    double large = words->exact ? small + few : small > 0 ? words_counted(words, o, many) : 0;
    if (!(small > 0) || !(large > 0)) {
        few = 8;
        many = 24;
        small = words_counted(words, o, few);
        large = words->exact ? small + many - few : small > 0 ? words_counted(words, o, many) : 0;
    }
    if (!(small > 0) || large < small + (many - few) / 2.0)
        return false;
    words->tokens_per_word = (large - small) / (many - few);
    words->overhead = small - few * words->tokens_per_word;
    return true;
}
