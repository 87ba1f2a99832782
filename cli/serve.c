// SPDX-License-Identifier: Apache-2.0
// weft serve: the HTTP server, the engines and their threads, from startup to drain. The main
// thread loads, then waits for signals (signals.c) and for engines whose device failed.
#include "cli/command.h"
#include "cli/group.h"
#include "cli/keys.h"
#include "cli/manage.h"
#include "cli/notify.h"
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

// The models to serve: those of --config, then those of the command line.
struct spec_list {
    struct model_spec at[MODELS_MAX];
    uint32_t count;
};

// The settings of the command line and of the file of --config.
struct serve_arguments {
    struct model_settings model;
    struct device_settings device;
    struct spec_list specs;
};

struct serving {
    struct loaded loaded;
    struct serve_settings settings;
    struct serve_keys keys;
    struct server *server;
    struct served_models models;
    struct manager *manager;          // NULL: models are only loaded at startup
    uint64_t body_memory, http_bytes; // upper limits: of request bodies; of all HTTP memory
    struct signals *signals;
    struct node_group group;
};

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

static struct server_options server_options_of(struct serving *s)
{
    static const int http2[] = {1, 0, -1};
    return (struct server_options){
        .host = s->settings.host,
        .port = s->settings.port,
        .http_threads = s->settings.http_threads,
        .text_workers = work_count(cgroups_cores_usable(&cgroups_system)),
        .api_keys = (const char *const *)s->keys.list.at,
        .api_key_count = s->keys.list.count,
        .admin_keys = s->settings.admin_keys.count,
        .api_keys_fixed = s->settings.admin_keys.count + s->settings.api_keys.count,
        .manage = s->settings.admin_keys.count > 0 ? manager_job : NULL,
        .manage_context = &s->manager,
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
    s->models.server = s->server;
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
    s->models.http_threads = s->settings.http_threads;
    s->models.changes = s->settings.admin_keys.count > 0;
    s->models.grammars = grammars_create(0);
    engines_init(&s->models.engines, s->signals, s->loaded.devices.count > 1);
    enum status status = models_plan(&s->loaded, s->settings.http_threads, http_line, err);
    if (status == STATUS_OK)
        status = node_group_meet(&s->group, &s->loaded, err);
    if (status == STATUS_OK)
        status = models_load(&s->loaded, err);
    if (status != STATUS_OK)
        return status;
    for (uint32_t i = 0; i < s->loaded.model_count && status == STATUS_OK; i++)
        if (s->loaded.models[i].copy == 0)
            status = served_models_add(&s->models, &s->loaded, &s->loaded.models[i], false, err);
    sources_close(&s->loaded);
    if (status == STATUS_OK)
        status = served_models_begin(&s->models, err);
    return status == STATUS_OK ? node_group_ready(&s->group, &s->models.engines, err) : status;
}

// If there is an admin key, starts the thread that loads and unloads models.
static enum status manager_up(struct serving *s, const struct serve_arguments *a, struct error *err)
{
    const struct manager_args args = {.models = &s->models,
                                      .loaded = &s->loaded,
                                      .model = &a->model,
                                      .device = &a->device,
                                      .http_threads = s->settings.http_threads};
    return s->models.changes ? manager_open(&s->manager, &args, err) : STATUS_OK;
}

// Notifies the service manager, if there is one (Type=notify of systemd).
static void manager_notify(const char *message)
{
    struct error err;
    if (notify_send(options_environment("NOTIFY_SOCKET"), message, &err) != STATUS_OK)
        log_line(LOG_WARNING, "%s", err.text);
}

static enum status serve_start(struct serving *s, const struct serve_arguments *a,
                               struct error *err)
{
    uint32_t count = a->specs.count;
    enum status status = keys_collect(&s->keys, &s->settings, s->loaded.arena, err);
    if (status == STATUS_OK)
        status = devices_load(&s->loaded, &a->device, a->specs.at, count, err);
    if (status == STATUS_OK)
        status = node_group_begin(&s->group, &s->loaded, s->signals, err);
    if (status == STATUS_OK)
        status = server_up(s, err);
    if (status == STATUS_OK)
        status = models_fetch(&s->loaded, err);
    if (status == STATUS_OK)
        status = models_up(s, err);
    if (status == STATUS_OK)
        status = manager_up(s, a, err);
    if (status != STATUS_OK)
        return status;
    signals_serving(s->signals);
    served_models_serve(&s->models);
    log_line(LOG_INFO, "ready: %u model%s", count, count == 1 ? "" : "s");
    manager_notify("READY=1\nSTATUS=serving");
    keys_end(s); // last, because the reader of stdout may stall
    return STATUS_OK;
}

// Loads this node's ranks and computes for node 0 until the group ends. Returns the exit code.
static int serve_follow(struct serving *s, const struct serve_arguments *a)
{
    struct error err;
    enum status status = devices_load(&s->loaded, &a->device, a->specs.at, a->specs.count, &err);
    if (status == STATUS_OK)
        status = node_group_begin(&s->group, &s->loaded, s->signals, &err);
    if (status == STATUS_OK)
        status = models_fetch(&s->loaded, &err);
    if (status == STATUS_OK)
        status = models_plan(&s->loaded, 1, NULL, &err);
    if (status == STATUS_OK)
        status = node_group_meet(&s->group, &s->loaded, &err);
    if (status == STATUS_OK)
        status = models_load(&s->loaded, &err);
    if (status != STATUS_OK) {
        node_group_abandon(&s->group, &err);
        start_failed(&err);
    }
    sources_close(&s->loaded);
    signals_serving(s->signals);
    manager_notify("READY=1\nSTATUS=computing for node 0");
    int code = node_group_follow(&s->group, &s->loaded);
    if (code == EXIT_CODE_OK) {
        signals_closing(s->signals);
        loaded_close(&s->loaded);
        node_group_close(&s->group);
    }
    return code;
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
    if (s->server)
        log_line(LOG_ERROR, "%u requests were not answered completely", server_requests(s->server));
}

// Handles events until the failure of all engines, the time until_ns, or, if `stoppable`, a stop
// signal at any node.
static void serve_until(struct serving *s, bool stoppable, uint64_t until_ns)
{
    enum { MEMORY_EVERY_MS = 1000 };
    uint32_t news = 0;
    for (uint64_t now = clock_ns();
         now < until_ns && !(stoppable && (news & NEWS_STOP)) && !engines_lost(&s->models.engines);
         now = clock_ns()) {
        uint64_t left_ms = (until_ns - now) / 1000000 + 1;
        news = signals_wait(s->signals,
                            left_ms < MEMORY_EVERY_MS ? (uint32_t)left_ms : MEMORY_EVERY_MS);
        if (news & NEWS_RELOAD)
            serve_reload(s);
        server_memory_return(s->server);
    }
}

// Waits for a stop signal or the failure of all engines, then drains. Returns the exit code.
static int wait_and_drain(struct serving *s)
{
    serve_until(s, true, UINT64_MAX);
    manager_notify("STOPPING=1\nSTATUS=finishing the accepted requests");
    server_leave(s->server);
    // Not stoppable: if all nodes get SIGTERM at once, that of another node must not end the delay.
    serve_until(s, false, clock_ns() + (uint64_t)(s->settings.shutdown_delay * 1e9));
    if (engines_lost(&s->models.engines))
        log_line(LOG_ERROR, "all models have failed: the server ends");
    if (s->manager)
        manager_stop(s->manager);
    uint64_t deadline = clock_ns() + (uint64_t)(s->settings.shutdown_timeout * 1e9);
    int aborted = server_drain(s->server);
    if (aborted != 0)
        log_line(LOG_ERROR, "%d requests were not answered within --shutdown-timeout", aborted);
    bool managed = !s->manager || manager_close(s->manager, deadline);
    bool ended = engines_end(&s->models.engines, deadline);
    if (engines_failed(&s->models.engines) > 0 || aborted != 0 || !ended)
        return EXIT_CODE_FAILURE; // a thread may hang: the caller ends the process without cleanup
    if (!managed) {               // a model is being loaded, which cannot be interrupted
        log_line(LOG_INFO, "stopped while a model was being loaded");
        process_end(EXIT_CODE_OK);
    }
    node_group_end(&s->group);
    signals_closing(s->signals);
    server_close(s->server);
    served_models_end(&s->models);
    loaded_close(&s->loaded);
    node_group_close(&s->group);
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

// Returns the error of two models that have the same name.
static enum status shared_fail(const char *name, const struct model_settings *all,
                               struct error *err)
{
    for (uint32_t i = 0; i < all->served_model_names.count; i++)
        if (strcmp(all->served_model_names.at[i], name) == 0)
            return error_set(err, STATUS_INVALID,
                             "--served-model-name names all models '%s': write "
                             "MODEL,served-model-name=%s for one of them",
                             name, name);
    return error_set(err, STATUS_INVALID,
                     "two models are named '%s': write NAME=MODEL for one of them", name);
}

// Checks the names of the model that was added last.
static enum status spec_check(const struct spec_list *specs, const struct model_settings *all,
                              struct error *err)
{
    const struct model_spec *last = &specs->at[specs->count - 1];
    enum status status = STATUS_OK;
    for (uint32_t k = 0; status == STATUS_OK && k < last->names.count; k++)
        // it is written into JSON and metrics
        status = text_check("the name of a model", text_of(last->names.at[k]), err);
    for (uint32_t i = 0; status == STATUS_OK && i + 1 < specs->count; i++)
        if (name_shared(last, &specs->at[i]))
            return shared_fail(name_shared(last, &specs->at[i]), all, err);
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
            status = spec_check(specs, all, err);
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

static void settings_init(struct serving *s, struct serve_arguments *a)
{
    serve_settings_init(&s->settings);
    device_settings_init(&a->device);
    model_settings_init(&a->model);
}

// Reads the command line. If it has --config, reads that file and then the command line again,
// which has precedence; else the command line must name a model. Returns -1, else the exit code
// after printing an error.
static int arguments_read(struct serving *s, struct serve_arguments *a, struct command_parse *parse)
{
    struct texts positional;
    struct error err;
    json_t *config = NULL;
    const json_t *models = NULL;
    settings_init(s, a);
    int code = command_parse(parse, s->loaded.arena, &positional);
    const char *file = s->settings.config;
    enum status status = STATUS_OK;
    settings_init(s, a);
    parse->positional_min = file ? 0 : 1;
    if (code < 0 && file)
        status = json_file_parse(&config, file, CONFIG_BYTES_MAX, &err);
    else if (code < 0)
        code = command_parse(parse, s->loaded.arena, &positional);
    if (code < 0 && status == STATUS_OK && config) {
        const struct config_tables tables = {parse->tables, parse->fields, parse->table_count};
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
    if (code < 0 && status == STATUS_OK && a->specs.count > 0)
        status = node_group_find(&s->group, &s->settings, a->specs.at, &a->specs.count,
                                 s->loaded.arena, &err);
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
    struct command_parse parse = {self, argc, argv, tables, fields, titles, 3, 0, MODELS_MAX, NULL};
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
    bool follows = status == STATUS_OK && node_group_follows(&s.group);
    if (status == STATUS_OK && !follows)
        status = serve_start(&s, a, &err);
    if (status != STATUS_OK) {
        node_group_abandon(&s.group, &err);
        start_failed(&err);
    }
    code = follows ? serve_follow(&s, a) : wait_and_drain(&s);
    if (code != EXIT_CODE_OK) {
        node_group_abandon(&s.group, NULL);
        process_end(code); // without cleanup: a thread may hang
    }
    log_end(LAST_LINES_MS);
    return code;
}
