// SPDX-License-Identifier: Apache-2.0
// weft serve: the HTTP server, the engines and their threads, from startup to drain. The main
// thread loads, then waits for signals (signals.c) and for engines whose device failed.
#include "cli/command.h"
#include "cli/fingerprint.h"
#include "cli/keys.h"
#include "cli/ready.h"
#include "cli/serve_config.h"
#include "cli/signals.h"
#include "http/api/grammars.h"
#include "http/cors.h"
#include "http/server.h"
#include "http/work.h"
#include "kernels/cpu/cgroups.h"
#include "kernels/cpu/memory.h"
#include "base/clock.h"
#include "base/dumps.h"
#include "base/json.h"
#include "base/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { CONFIG_BYTES_MAX = 4 << 20 };
enum { MODELS_MAX = 64, ENGINES_MAX = MODELS_MAX * COPIES_MAX };

struct engine_thread {
    pthread_t thread;
    struct engine *engine;
    struct serving *serving;
    const struct loaded_model *model;
    _Atomic bool ended; // true when the thread has finished
};

struct serving {
    struct loaded loaded;
    struct serve_settings settings;
    struct serve_keys keys;
    struct server *server;
    struct served served;
    struct served_model *models;
    struct served_copy *copies;       // copies of all models, in the order of loaded.models
    struct port **ports;              // [copy * http_threads + thread]
    struct engine_thread *threads;    // one per engine
    uint64_t body_memory, http_bytes; // upper limits: of request bodies; of all HTTP memory
    uint32_t thread_count;            // number of threads started
    struct signals *signals;
    _Atomic bool failed[ENGINES_MAX]; // per engine: true if its device failed
    // per first copy: true if no copy works any more and that was logged
    _Atomic bool loss_logged[ENGINES_MAX];
};

// Returns true if `other` fails together with `failed`, a rank of which has a failed device. rank:
// that rank; if it equals the number of ranks, it is unknown and every rank counts. On a CPU, ranks
// have threads and memory of their own, which models with the same number of ranks share.
static bool fails_with(const struct loaded_model *failed, uint32_t rank,
                       const struct loaded_model *other)
{
    uint32_t count = gpu_count(failed);
    if (failed->device->kind == DEVICE_CPU)
        return other->device == failed->device && other->spec.settings.tensor_parallel_size ==
                                                      failed->spec.settings.tensor_parallel_size;
    if (count == 1)
        return is_on(other, failed->device);
    bool shares = other == failed;
    for (uint32_t r = 0; r < count; r++)
        shares |= (rank == r || rank >= count) && is_on(other, failed->choices[r]);
    return shares;
}

static bool has_failed(struct serving *s, const struct loaded_model *m)
{
    return atomic_load(&s->failed[m - s->loaded.models]);
}

static uint32_t engines_working(struct serving *s)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < s->loaded.model_count; i++)
        count += !has_failed(s, &s->loaded.models[i]);
    return count;
}

// Returns true if a copy of the model on another device still works.
static bool has_working_copy(struct serving *s, const struct loaded_model *m)
{
    const struct loaded_model *first = m - m->copy;
    for (uint32_t i = 0; i < m->spec.settings.data_parallel_size; i++)
        if (!has_failed(s, &first[i]))
            return true;
    return false;
}

static void model_failure_log(struct serving *s, const struct loaded_model *m)
{
    engine_device_failed(m->engine);
    if (has_working_copy(s, m))
        log_line(LOG_ERROR, "copy %u of the model '%s' has failed, other copies continue to serve",
                 m->copy, m->spec.id);
    // two copies may fail together
    else if (!atomic_exchange(&s->loss_logged[m - m->copy - s->loaded.models], true))
        log_line(LOG_ERROR,
                 "the model '%s' has failed and is not served any more: restart the server",
                 m->spec.id);
}

// Marks as failed, and logs, all engines that fail with this model. Runs on the thread of the
// engine that found the failure; other engines of the device may hang in it. Does nothing if
// another model's failure has already marked this one.
static void device_failed(struct serving *s, const struct loaded_model *model, const char *text)
{
    bool news[ENGINES_MAX] = {false};
    uint32_t own = (uint32_t)(model - s->loaded.models), rank = model_failed_rank(model->model);
    if (atomic_exchange(&s->failed[own], true))
        return;
    news[own] = true;
    if (s->loaded.devices.count > 1)
        log_line(LOG_ERROR, "the device failed: %s (%s)", text, model->label);
    else
        log_line(LOG_ERROR, "the device failed: %s", text);
    for (uint32_t i = 0; i < s->loaded.model_count; i++)
        if (fails_with(model, rank, &s->loaded.models[i]))
            news[i] |= !atomic_exchange(&s->failed[i], true);
    for (uint32_t i = 0; i < s->loaded.model_count; i++)
        if (news[i])
            model_failure_log(s, &s->loaded.models[i]);
    signals_post(s->signals, NEWS_FAULT);
}

static void *engine_main(void *argument)
{
    struct engine_thread *self = argument;
    pthread_setname_np(pthread_self(), "engine");
    if (engine_run(self->engine) == ENGINE_FAULT)
        device_failed(self->serving, self->model, engine_error(self->engine)->text);
    atomic_store(&self->ended, true);
    return NULL;
}

static uint32_t inputs_max(const struct loaded_model *m)
{
    enum { EMBEDDER_INPUTS = 2048, RERANKER_DOCUMENTS = 1000 };
    uint32_t given = m->spec.settings.max_client_batch_size;
    bool ranks = m->plan->facts.kind == MODEL_RERANKER;
    return given > 0 ? given : ranks ? RERANKER_DOCUMENTS : EMBEDDER_INPUTS;
}

// Returns true if special tokens in a raw prompt or an input of the model are tokens.
static bool special_in_text(const struct loaded_model *m)
{
    int option = m->spec.settings.special_tokens_in_text;
    return option < 0 ? engine_facts(m->engine)->kind == MODEL_GENERATOR : option == 1;
}

// If the template of a generator takes no tools, sets the form in which calls are written instead.
static void generic_calls_set(struct served_model *model)
{
    if (!model->chat || dialect_has_calls(&model->dialect) ||
        !dialect_named(&model->generic_calls, "json", dialect_reasoning_name(&model->dialect),
                       model->tokenizer))
        return;
    log_line(LOG_INFO,
             "model '%s': its chat template takes no tools: requests with tools describe them in "
             "the system message, and calls are JSON",
             model->id);
}

static void served_fill(struct serving *s)
{
    struct loaded *loaded = &s->loaded;
    uint32_t http_threads = s->settings.http_threads;
    uint32_t count = 0;
    s->models = arena_alloc_zeroed(loaded->arena, loaded->model_count, sizeof *s->models);
    s->copies = arena_alloc_zeroed(loaded->arena, loaded->model_count, sizeof *s->copies);
    s->ports = arena_alloc_zeroed(loaded->arena, loaded->model_count * http_threads,
                                  sizeof(struct port *));
    for (uint32_t i = 0; i < loaded->model_count; i++) {
        struct loaded_model *m = &loaded->models[i];
        for (uint32_t t = 0; t < http_threads; t++)
            s->ports[i * http_threads + t] = engine_port(m->engine, t, server_waker(s->server, t));
        s->copies[i] = (struct served_copy){.model = &s->models[m->copy == 0 ? count : count - 1],
                                            .engine = m->engine,
                                            .device = m->label,
                                            .memory = memory_planned(m)};
        if (m->copy > 0)
            continue;
        s->models[count] =
            (struct served_model){.id = m->spec.id,
                                  .other_names = m->spec.names.at + 1,
                                  .other_name_count = m->spec.names.count - 1,
                                  .copies = &s->copies[i],
                                  .copy_count = m->spec.settings.data_parallel_size,
                                  .facts = engine_facts(m->engine),
                                  .tokenizer = m->tokenizer,
                                  .vocabulary = m->vocabulary,
                                  .chat = m->chat,
                                  .dialect = m->dialect,
                                  .thinking = m->thinking,
                                  .closing = m->closing,
                                  .watch = m->watch,
                                  .chat_is_plain = m->chat_is_plain,
                                  .special_in_text = special_in_text(m),
                                  .cache_by_key = m->spec.settings.prefix_cache_scope == 1,
                                  .dimensions_free = m->spec.settings.matryoshka,
                                  .prompts = m->prompts,
                                  .inputs_max = inputs_max(m),
                                  .created = (int64_t)time(NULL),
                                  .max_queued_tokens = m->engine_options.max_queued_tokens,
                                  .choices_max = m->engine_options.choices_max,
                                  .n_max = m->spec.settings.max_n};
        fingerprint_make(s->models[count++].fingerprint, m);
    }
    for (uint32_t i = 0; i < count; i++)
        generic_calls_set(&s->models[i]);
    s->served = (struct served){.models = s->models,
                                .count = count,
                                .grammars = grammars_create(0),
                                .copies = s->copies,
                                .copy_count = loaded->model_count};
}

static enum status engines_start(struct serving *s, struct error *err)
{
    s->threads = arena_alloc_zeroed(s->loaded.arena, s->loaded.model_count, sizeof *s->threads);
    for (uint32_t i = 0; i < s->loaded.model_count; i++) {
        struct engine_thread *t = &s->threads[i];
        t->engine = s->loaded.models[i].engine;
        t->serving = s;
        t->model = &s->loaded.models[i];
        int failed = pthread_create(&t->thread, NULL, engine_main, t);
        if (failed != 0)
            return error_thread(err, failed, "an engine's thread");
        s->thread_count++;
    }
    return STATUS_OK;
}

// Buffer of stdout. A key is printed through it, so it is wiped afterwards.
static char printed[4096];

static void keys_end(struct serving *s)
{
    // before the first output; no log line can split the screen
    setvbuf(stdout, printed, _IOFBF, sizeof printed);
    struct ready_args ready = {&s->settings, &s->keys, &s->loaded, server_port(s->server)};
    ready_print(&ready);
    explicit_bzero(printed, sizeof printed);
    keys_wipe(&s->keys);
}

// Returns the memory for request bodies: by default 2 % of the free memory, but at least that of a
// few bodies of the largest size.
static uint64_t body_memory(const struct serving *s)
{
    enum { FEW = 8 };
    uint64_t least = FEW * s->settings.payload_limit, part = cpu_memory_available() / 50;
    if (s->settings.max_body_memory > 0)
        return s->settings.max_body_memory;
    return part > least ? part : least;
}

static struct server_options server_options_of(const struct serving *s)
{
    static const int http2[] = {1, 0, -1};
    return (struct server_options){
        .host = s->settings.host,
        .port = s->settings.port,
        .http_threads = s->settings.http_threads,
        .text_workers = work_count(cgroups_cores_usable(&cgroups_system)),
        .api_keys = (const char *const *)s->keys.list.at,
        .api_key_count = s->keys.list.count,
        .api_keys_fixed = s->settings.api_keys.count,
        .allowed_origins = (const char *const *)s->settings.allowed_origins.at,
        .allowed_origin_count = s->settings.allowed_origins.count,
        .ssl_certfile = s->settings.ssl_certfile,
        .ssl_keyfile = s->settings.ssl_keyfile,
        .ssl_ciphers = s->settings.ssl_ciphers,
        .http2 = http2[s->settings.http2],
        .connections_max = s->settings.connections_max,
        .body_bytes_max = s->settings.payload_limit,
        .body_memory_max = s->body_memory,
        .shutdown_timeout_ms = (uint64_t)(s->settings.shutdown_timeout * 1000),
        .vllm_metrics = true,
        .ui = s->settings.ui};
}

// Opens the port. Health checks are answered while the models are being loaded.
static enum status server_up(struct serving *s, struct error *err)
{
    s->body_memory = body_memory(s);
    struct server_options options = server_options_of(s);
    s->http_bytes = server_bytes_max(&options);
    enum status status = server_open(&s->server, &options, err);
    if (!s->keys.made) // a generated key must still be printed
        keys_wipe(&s->keys);
    if (status != STATUS_OK)
        return status;
    log_line(LOG_INFO, "listening on %s port %u", s->settings.host, server_port(s->server));
    return STATUS_OK;
}

// Plans and loads the models and starts their engines. They are not served yet.
static enum status models_up(struct serving *s, struct error *err)
{
    char http_line[200];
    snprintf(http_line, sizeof http_line,
             "http: connections, request bodies and their preparation may use up to %.2f GiB in "
             "addition to the models, including %.2f GiB for request bodies (--max-body-memory)",
             (double)s->http_bytes / 0x1p30, (double)s->body_memory / 0x1p30);
    enum status status = models_plan(&s->loaded, s->settings.http_threads, http_line, err);
    if (status == STATUS_OK)
        status = models_load(&s->loaded, err);
    if (status != STATUS_OK)
        return status;
    served_fill(s);
    sources_close(&s->loaded);
    return engines_start(s, err);
}

static enum status serve_start(struct serving *s, const struct model_spec *specs, uint32_t count,
                               const struct device_settings *device, struct error *err)
{
    enum status status = keys_collect(&s->keys, &s->settings, s->loaded.arena, err);
    if (status == STATUS_OK)
        status = devices_load(&s->loaded, device, specs, count, err);
    if (status == STATUS_OK)
        status = server_up(s, err);
    if (status == STATUS_OK)
        status = models_fetch(&s->loaded, err);
    if (status == STATUS_OK)
        status = models_up(s, err);
    if (status != STATUS_OK)
        return status;
    signals_serving(s->signals);
    server_serve(s->server, &s->served, s->ports);
    log_line(LOG_INFO, "ready: %u model%s", count, count == 1 ? "" : "s");
    keys_end(s); // last, because the reader of stdout may stall
    return STATUS_OK;
}

static void reload_report(enum status status, const struct error *err, const char *what,
                          const char *path)
{
    if (status == STATUS_OK)
        log_line(LOG_INFO, "reload: the %s of %s is in use now", what, path);
    else
        log_line(LOG_ERROR, "reload: the old %s stays in use: %s", what, err->text);
}

static void keys_reload(struct serving *s, const char *path)
{
    struct arena *arena = arena_create(0, 0);
    struct serve_keys keys;
    struct error err;
    enum status status = keys_of_file(&keys, path, arena, &err);
    if (status == STATUS_OK)
        status = server_keys_renew(s->server, keys.list.at, keys.list.count, &err);
    keys_wipe(&keys);
    reload_report(status, &err, "key list", path);
    arena_destroy(arena);
}

static void serve_reload(struct serving *s)
{
    const struct serve_settings *settings = &s->settings;
    if (settings->api_key_file)
        keys_reload(s, settings->api_key_file);
    if (settings->ssl_certfile) {
        struct error err;
        enum status status = server_tls_renew(s->server, &err);
        reload_report(status, &err, "certificate", settings->ssl_certfile);
    }
    if (!settings->api_key_file && !settings->ssl_certfile)
        log_line(LOG_WARNING,
                 "reload: there is nothing to reload without --api-key-file or --ssl-certfile");
}

// Logs how many requests are lost. Runs on the signals' thread, immediately before the process
// ends.
static void unanswered_log(void *context)
{
    const struct serving *s = context;
    log_line(LOG_ERROR, "%u requests were not answered completely", server_requests(s->server));
}

// Stops the engines and waits for their threads until the deadline, at least for a second. Returns
// false if one still runs.
static bool engines_end(struct serving *s, uint64_t deadline)
{
    enum { LEAST_MS = 1000, POLL_US = 2000 };
    uint64_t least = clock_ns() + LEAST_MS * 1000000ull;
    deadline = deadline > least ? deadline : least;
    for (uint32_t i = 0; i < s->thread_count; i++)
        engine_stop(s->threads[i].engine);
    bool all = true;
    for (uint32_t i = 0; i < s->thread_count; i++) {
        struct engine_thread *t = &s->threads[i];
        if (has_failed(s, t->model)) // its thread may hang
            continue;
        while (!atomic_load(&t->ended) && clock_ns() < deadline)
            usleep(POLL_US);
        if (atomic_load(&t->ended)) {
            pthread_join(t->thread, NULL);
            continue;
        }
        all = false;
        log_line(LOG_ERROR,
                 "the engine of '%s' did not end within --shutdown-timeout and is abandoned",
                 t->model->spec.id);
    }
    return all;
}

// Waits for a stop signal or the failure of all engines, then drains. Returns the exit code.
static int wait_and_drain(struct serving *s)
{
    for (uint32_t news = 0; (news & NEWS_STOP) == 0 && engines_working(s) > 0;) {
        news = signals_wait(s->signals);
        if (news & NEWS_RELOAD)
            serve_reload(s);
    }
    if (engines_working(s) == 0)
        log_line(LOG_ERROR, "all models have failed: the server ends");
    uint64_t deadline = clock_ns() + (uint64_t)(s->settings.shutdown_timeout * 1e9);
    int aborted = server_drain(s->server);
    if (aborted != 0)
        log_line(LOG_ERROR, "%d requests were not answered within --shutdown-timeout", aborted);
    bool ended = engines_end(s, deadline);
    if (engines_working(s) < s->loaded.model_count || aborted != 0 || !ended)
        return EXIT_CODE_FAILURE; // a thread may hang: the caller ends the process without cleanup
    signals_closing(s->signals);
    server_close(s->server);
    loaded_close(&s->loaded);
    grammars_destroy(s->served.grammars);
    log_line(LOG_INFO, "stopped");
    return EXIT_CODE_OK;
}

// Returns the first name that both models have, or NULL.
static const char *name_shared(const struct model_spec *a, const struct model_spec *b)
{
    for (uint32_t i = 0; i < a->names.count; i++)
        for (uint32_t k = 0; k < b->names.count; k++)
            if (strcmp(a->names.at[i], b->names.at[k]) == 0)
                return a->names.at[i];
    return NULL;
}

// The models to serve: those of --config, then those of the command line.
struct spec_list {
    struct model_spec at[MODELS_MAX];
    uint32_t count;
};

// Checks the names of the model that was added last.
static enum status spec_check(const struct spec_list *specs, struct error *err)
{
    const struct model_spec *last = &specs->at[specs->count - 1];
    enum status status = STATUS_OK;
    for (uint32_t k = 0; status == STATUS_OK && k < last->names.count; k++)
        // it is written into JSON and metrics
        status = text_check("the name of a model", text_of(last->names.at[k]), err);
    for (uint32_t i = 0; status == STATUS_OK && i + 1 < specs->count; i++)
        if (name_shared(last, &specs->at[i]))
            return error_set(err, STATUS_INVALID,
                             "two models are named '%s': write NAME=MODEL for one of them",
                             name_shared(last, &specs->at[i]));
    return status;
}

static enum status specs_parse(const struct texts *positional, const json_t *listed,
                               const struct model_settings *all, struct arena *arena,
                               struct spec_list *specs, struct error *err)
{
    size_t count = json_array_size(listed) + positional->count;
    if (count > MODELS_MAX)
        return error_set(err, STATUS_INVALID, "%zu models are too many: at most %d are served",
                         count, MODELS_MAX);
    enum status status = STATUS_OK;
    for (size_t i = 0; i < count && status == STATUS_OK; i++) {
        struct model_spec *spec = &specs->at[specs->count++];
        const json_t *entry = json_array_get(listed, i);
        const char *text = entry ? NULL : positional->at[i - json_array_size(listed)];
        status = entry ? config_model_read(spec, entry, all, arena, err)
                       : model_spec_parse(spec, text, all, arena, err);
        if (status == STATUS_OK)
            status = spec_check(specs, err);
    }
    return status;
}

// Checks the arguments before anything is opened.
static enum status arguments_check(const struct serve_settings *settings, struct error *err)
{
    if (!settings->ssl_certfile != !settings->ssl_keyfile)
        return error_set(err, STATUS_INVALID,
                         "--ssl-certfile and --ssl-keyfile must be set together");
    if (settings->ssl_ciphers && !settings->ssl_certfile)
        return error_set(err, STATUS_INVALID, "--ssl-ciphers needs --ssl-certfile");
    if (settings->ssl_ciphers && server_ciphers_check(settings->ssl_ciphers, err) != STATUS_OK)
        return err->status;
    if (settings->max_body_memory > 0 && settings->max_body_memory < settings->payload_limit)
        return error_set(err, STATUS_INVALID,
                         "--max-body-memory must be at least --payload-limit: raise "
                         "--max-body-memory or lower --payload-limit");
    struct cors cors;
    enum status status = cors_open(&cors, (const char *const *)settings->allowed_origins.at,
                                   settings->allowed_origins.count, err);
    cors_close(&cors);
    return status == STATUS_OK ? keys_options_check(settings, err) : status;
}

// The settings of the command line and of the file of --config.
struct serve_arguments {
    struct model_settings model;
    struct device_settings device;
    struct spec_list specs;
};

// Reads the command line into the settings. models_min: number of models that it must name.
static int line_read(struct serving *s, struct serve_arguments *a, struct command_parse *parse,
                     uint32_t models_min, struct texts *positional)
{
    serve_settings_init(&s->settings);
    device_settings_init(&a->device);
    model_settings_init(&a->model);
    parse->positional_min = models_min;
    return command_parse(parse, s->loaded.arena, positional);
}

// Reads the file of --config, then the command line again, which has precedence. The first pass
// found the file. Returns -1, else the exit code after printing an error.
static int arguments_read(struct serving *s, struct serve_arguments *a, struct command_parse *parse)
{
    struct texts positional;
    struct error err;
    json_t *config = NULL;
    const json_t *models = NULL;
    int code = line_read(s, a, parse, 0, &positional);
    const char *file = s->settings.config;
    enum status status = STATUS_OK;
    if (code < 0 && file)
        status = json_file_parse(&config, file, CONFIG_BYTES_MAX, &err);
    if (code < 0)
        code = line_read(s, a, parse, file ? 0 : 1, &positional);
    if (code < 0 && status == STATUS_OK && config) {
        const struct config_tables tables = {parse->tables, parse->fields, parse->table_count};
        serve_settings_init(&s->settings);
        device_settings_init(&a->device);
        model_settings_init(&a->model);
        status = config_read(&tables, config, &models, s->loaded.arena, &err);
        if (status != STATUS_OK)
            error_prefix(&err, "%s", file);
        else
            code = command_parse(parse, s->loaded.arena, &positional);
    }
    if (code < 0 && status == STATUS_OK)
        status = specs_parse(&positional, models, &a->model, s->loaded.arena, &a->specs, &err);
    if (code < 0 && status == STATUS_OK)
        status = arguments_check(&s->settings, &err);
    if (code < 0 && status == STATUS_OK && a->specs.count == 0)
        status = error_set(&err, STATUS_INVALID, "%s lists no model, and the command line neither",
                           file);
    json_decref(config);
    if (code >= 0 || status == STATUS_OK)
        return code;
    safe_line(stderr, "weft serve: %s", err.text);
    return EXIT_CODE_USAGE;
}

// Without a key given, the server is most likely one of a developer, who wants to see a crash.
static bool dumps_allowed(const struct serve_settings *settings)
{
    return settings->core_dumps < 0 ? !keys_are_given(settings) : settings->core_dumps == 1;
}

int command_serve(const struct command *self, int argc, char **argv)
{
    struct serving s = {.loaded.arena = arena_create(0, 0)};
    struct serve_arguments *a = arena_alloc_zeroed(s.loaded.arena, 1, sizeof *a);
    const struct option_table tables[] = {serve_options_table, device_options_table,
                                          model_options_table};
    void *const fields[] = {&s.settings, &a->device, &a->model};
    static const char *const titles[] = {
        "Server:", "Device:", "Model (for all, or for one after its name or path):"};
    struct command_parse parse = {self, argc, argv, tables, fields, titles, 3, 1, MODELS_MAX, NULL};
    int code = arguments_read(&s, a, &parse);
    if (code >= 0) {
        arena_destroy(s.loaded.arena);
        return code;
    }
    struct error err;
    if (!dumps_allowed(&s.settings))
        dumps_forbid();
    log_level_set((enum log_level)a->device.log_level);
    log_format_set((enum log_format)a->device.log_format);
    devices_begin(a->specs.at, a->specs.count);
    enum status status = log_start(&err);
    if (status == STATUS_OK)
        status = signals_open(&s.signals, unanswered_log, &s, &err);
    if (status == STATUS_OK)
        status = serve_start(&s, a->specs.at, a->specs.count, &a->device, &err);
    if (status != STATUS_OK)
        start_failed(&err);
    code = wait_and_drain(&s);
    if (code != EXIT_CODE_OK)
        process_end(code); // without cleanup: a thread may hang
    log_end(LAST_LINES_MS);
    return code;
}
