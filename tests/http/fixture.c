// SPDX-License-Identifier: Apache-2.0
// See fixture.h.
#include "tests/http/fixture.h"

#include "base/log.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Memory that libh2o 2.2.5 never frees (tests/http/suppressions.md): thread-local free lists and
// one queue per context. The leak sanitizer calls this function by its name.
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:h2o_mem_alloc_recycle\nleak:h2o_multithread_create_queue\n";
}

enum { WAIT_STEPS = 24000, WAIT_STEP_US = 5000 };

static const struct model_facts facts[2] = {
    {.kind = MODEL_GENERATOR,
     .architecture = "LlamaForCausalLM",
     .parameter_count = 5000000000,
     .dtype = DTYPE_I8,
     .kv_dtype = DTYPE_F16,
     .max_model_len = 4096,
     .block_tokens = 64,
     .block_count = 10},
    {.kind = MODEL_EMBEDDER,
     .architecture = "BertModel",
     .parameter_count = 7,
     .dtype = DTYPE_F32,
     .kv_dtype = DTYPE_F32,
     .max_model_len = 512},
};

static const struct served_copy copies[2] = {
    {.device = "cpu", .memory = {2, {{"weights", 5000000000}, {"keys and values", 640}}}},
    {.device = "cuda:1", .memory = {1, {{"weights", 28}}}},
};

static const struct served_model models[2] = {
    {.id = "org/qwen-x", .facts = &facts[0], .created = 1790000000},
    {.id = "embed", .facts = &facts[1], .created = 1790000000},
};

void fixture_open(struct fixture *f, const struct server_options *options, bool serve)
{
    struct server_options o =
        options ? *options : (struct server_options){.http2 = -1, .shutdown_timeout_ms = DRAIN_MS};
    o.vllm_metrics = true;
    fixture_open_as(f, &o, serve);
}

void fixture_open_as(struct fixture *f, const struct server_options *options, bool serve)
{
    static const char *const keys[] = {"sk-other", KEY};
    struct server_options o = *options;
    struct error err;
    *f = (struct fixture){.threads = o.http_threads > 0 ? o.http_threads : 1};
    o.host = "127.0.0.1";
    o.http_threads = f->threads;
    o.api_keys = keys;
    o.api_key_count = 2;
    if (log_level_get() != LOG_WARNING) // set once: another fixture may be serving
        log_level_set(LOG_WARNING);     // no log line per request
    enum status status = server_open(&f->server, &o, &err);
    check(status == STATUS_OK, "server_open: %s", err.text);
    f->port = server_port(f->server);
    f->engine = engine_double_open(&facts[0]);
    if (serve)
        fixture_serve(f);
}

void fixture_serve(struct fixture *f)
{
    for (int m = 0; m < 2; m++) {
        f->models[m] = models[m];
        f->copies[m] = copies[m];
        f->copies[m].model = &f->models[m];
        f->copies[m].slot = m;
        f->copies[m].engine = f->engine;
        f->models[m].copies = &f->copies[m];
        f->models[m].copy_count = 1;
        for (uint32_t t = 0; t < f->threads; t++)
            f->ports[(uint32_t)m * f->threads + t] =
                port_double_open(server_waker(f->server, t), f->engine);
    }
    f->served =
        (struct served){.models = f->models, .count = 2, .copies = f->copies, .copy_count = 2};
    server_serve(f->server, &f->served, f->ports);
}

void fixture_close(struct fixture *f)
{
    server_close(f->server);
    for (uint32_t i = 0; i < 2 * f->threads; i++)
        if (f->ports[i])
            port_double_close(f->ports[i]);
    engine_double_close(f->engine);
}

bool wait_until(bool (*done)(void *context), void *context)
{
    for (int i = 0; i < WAIT_STEPS; i++) {
        if (done(context))
            return true;
        usleep(WAIT_STEP_US);
    }
    return false;
}

static uint32_t sum_of(struct fixture *f, uint32_t (*count)(struct port *port))
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i < f->threads; i++)
        sum += count(f->ports[i]);
    return sum;
}

bool fixture_wait_live(struct fixture *f, uint32_t count)
{
    for (int i = 0; i < WAIT_STEPS; i++) {
        if (sum_of(f, port_double_live) == count)
            return true;
        usleep(WAIT_STEP_US);
    }
    return false;
}

bool fixture_wait_cancelled(struct fixture *f, uint32_t count)
{
    for (int i = 0; i < WAIT_STEPS; i++) {
        if (sum_of(f, port_double_cancelled) == count)
            return true;
        usleep(WAIT_STEP_US);
    }
    return false;
}

struct metric_wanted {
    const struct fixture *f;
    const char *series;
    uint64_t from, to;
};

static bool metric_is(void *context)
{
    const struct metric_wanted *wanted = context;
    uint64_t value = metric_value(wanted->f, wanted->series);
    return value >= wanted->from && value <= wanted->to;
}

void metric_wait(const struct fixture *f, const char *series, uint64_t from, uint64_t to)
{
    struct metric_wanted wanted = {f, series, from, to};
    if (!wait_until(metric_is, &wanted))
        check(false, "%s is %ju", series, (uintmax_t)metric_value(f, series));
}

uint64_t metric_value(const struct fixture *f, const char *series)
{
    struct http_answer answer;
    uint64_t value = UINT64_MAX;
    if (!http_once(f->port, "GET", "/metrics", NULL, NULL, &answer))
        return value;
    size_t bytes = strlen(series);
    for (const char *line = answer.body; line; line = strchr(line, '\n')) {
        line += line != answer.body;
        if (strncmp(line, series, bytes) == 0 && line[bytes] == ' ')
            value = strtoull(line + bytes, NULL, 10);
    }
    http_answer_free(&answer);
    return value;
}
