// SPDX-License-Identifier: Apache-2.0
// The functions that commands share; see command.h. All run on the main thread, which steps the
// engine between reads of its port.
#include "cli/command.h"
#include "cli/signals.h"

#include "base/clock.h"
#include "base/utf8.h"
#include "base/log.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

static void help_print(FILE *out, const struct command_parse *args)
{
    fprintf(out, "usage: weft %s %s\n\n%s\n%s%s", args->self->name, args->self->usage,
            args->self->summary, args->self->details, *args->self->details != '\0' ? "\n" : "");
    for (uint32_t i = 0; i < args->table_count; i++)
        options_help(out, &args->tables[i], args->titles[i]);
}

// Returns -1 if the number of arguments is right, else the exit code after printing an error.
static int positional_check(const struct command_parse *args, const struct texts *positional)
{
    const struct command *self = args->self;
    if (positional->count < args->positional_min)
        fprintf(stderr, "weft %s: %s is missing, usage: weft %s %s\n", self->name,
                positional->count == 0 ? "MODEL" : "an argument", self->name, self->usage);
    else if (positional->count > args->positional_max)
        safe_line(stderr, "weft %s: '%s' is an argument too many: %s, usage: weft %s %s",
                  self->name, positional->at[args->positional_max], self->extra, self->name,
                  self->usage);
    else
        return -1;
    return EXIT_CODE_USAGE;
}

int command_parse(const struct command_parse *args, struct arena *arena, struct texts *positional)
{
    bool help = false;
    struct options_parse_args parse = {.argc = args->argc,
                                       .argv = args->argv,
                                       .tables = args->tables,
                                       .fields = args->fields,
                                       .table_count = args->table_count,
                                       .arena = arena,
                                       .positional = positional,
                                       .help = &help,
                                       .given = args->given};
    struct error err;
    enum status status = options_parse(&parse, &err);
    if (help) {
        help_print(stdout, args);
        return EXIT_CODE_OK;
    }
    if (status != STATUS_OK) {
        safe_line(stderr, "weft %s: %s", args->self->name, err.text);
        return EXIT_CODE_USAGE;
    }
    return positional_check(args, positional);
}

int command_failed(const struct error *err)
{
    safe_line(stderr, "weft: %s", err->text);
    return EXIT_CODE_FAILURE;
}

// Prints a note if stdin is a terminal: otherwise a command that waits for input seems to hang.
static void stdin_announce(const char *what)
{
    if (isatty(STDIN_FILENO))
        fprintf(stderr, "weft: reading %s from stdin, Ctrl-D ends it\n", what);
}

enum status stdin_read(struct text *out, struct arena *arena, struct error *err)
{
    size_t allocated = 1 << 16;
    char *at = arena_alloc(arena, allocated);
    size_t bytes = 0;
    stdin_announce("text");
    for (;;) {
        if (bytes == allocated) {
            at = arena_grow(arena, at, bytes, allocated * 2);
            allocated *= 2;
        }
        ssize_t got = read(STDIN_FILENO, at + bytes, allocated - bytes);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return error_set(err, STATUS_IO, "reading stdin failed: %s", strerror(errno));
        if (got == 0)
            break;
        bytes += (size_t)got;
    }
    *out = text_span(at, bytes);
    return STATUS_OK;
}

static void safe_show(FILE *to, struct text piece)
{
    enum { PART = 256, LONGEST = 4 * PART + 32 }; // an escape needs four bytes for one byte of text
    while (piece.bytes > 0) {
        char part[LONGEST];
        size_t bytes = piece.bytes < PART ? piece.bytes : PART, plain = 0;
        while (plain < bytes && piece.at[plain] != '\n' && piece.at[plain] != '\t')
            plain++;
        size_t whole = utf8_complete(piece.at, plain);
        plain = whole > 0 ? whole : plain;
        fwrite(part, 1, safe_put(part, sizeof part, text_span(piece.at, plain)), to);
        if (plain == 0)
            putc(piece.at[plain++], to);
        piece = text_span(piece.at + plain, piece.bytes - plain);
    }
}

void output_text(FILE *to, struct text out)
{
    if (isatty(fileno(to)))
        safe_show(to, out);
    else
        fwrite(out.at, 1, out.bytes, to);
}

enum status output_flush(struct error *err)
{
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return STATUS_OK;
    return error_set(err, STATUS_IO, "writing to stdout failed: %s",
                     errno != 0 ? strerror(errno) : "an earlier write failed");
}

bool line_next(struct line_reader *reader, struct text *out)
{
    if (!reader->at)
        stdin_announce("lines");
    ssize_t got = getline(&reader->at, &reader->bytes_allocated, stdin);
    if (got < 0)
        return false;
    size_t bytes = (size_t)got;
    if (bytes > 0 && reader->at[bytes - 1] == '\n')
        bytes--;
    if (bytes > 0 && reader->at[bytes - 1] == '\r')
        bytes--;
    *out = text_span(reader->at, bytes);
    return true;
}

enum status text_check(const char *what, struct text text, struct error *err)
{
    size_t at = utf8_valid_prefix(text);
    return at == text.bytes
               ? STATUS_OK
               : error_set(err, STATUS_INVALID, "%s is not valid UTF-8: byte %zu is 0x%02X", what,
                           at, (unsigned char)text.at[at]);
}

enum status line_reader_end(struct line_reader *reader, enum status so_far, struct error *err)
{
    heap_free(reader->at);
    if (so_far != STATUS_OK || !ferror(stdin))
        return so_far;
    return error_set(err, STATUS_IO, "reading stdin failed");
}

enum status session_plan(struct session *session, const char *folder,
                         const struct model_settings *model, const struct device_settings *device,
                         struct error *err)
{
    *session = (struct session){.loaded.arena = arena_create(0, 0)};
    struct loaded *loaded = &session->loaded;
    struct model_spec spec;
    enum status status = model_spec_find(&spec, folder, model, loaded->arena, err);
    session->misnamed = status != STATUS_OK;
    if (status == STATUS_OK) {
        devices_begin(&spec, 1);
        status = devices_load(loaded, device, &spec, 1, err);
    }
    if (status == STATUS_OK)
        status = models_fetch(loaded, err);
    if (status == STATUS_OK)
        status = models_plan(loaded, 1, NULL, err);
    return status;
}

enum status session_open(struct session *session, const char *folder,
                         const struct model_settings *model, const struct device_settings *device,
                         struct error *err)
{
    struct loaded *loaded = &session->loaded;
    enum status status = session_plan(session, folder, model, device, err);
    if (status == STATUS_OK)
        status = models_load(loaded, err);
    sources_close(loaded);
    if (status == STATUS_OK)
        status = waker_open(&session->waker, err);
    if (status != STATUS_OK)
        return status;
    session->model = &loaded->models[0];
    session->port = engine_port(session->model->engine, 0, session->waker);
    return STATUS_OK;
}

void session_close(struct session *session)
{
    loaded_close(&session->loaded);
    if (session->waker)
        waker_close(session->waker);
}

int session_failed(const struct session *session, const struct error *err)
{
    int code = command_failed(err);
    return session->misnamed ? EXIT_CODE_USAGE : code;
}

enum status session_kind(const struct session *session, enum model_kind kind, struct error *err)
{
    static const char *const kinds[] = {"a generator", "an embedder", "a reranker"};
    static const char *const commands[] = {"generate", "embed", "rerank"};
    enum model_kind have = engine_facts(session->model->engine)->kind;
    if (have == kind)
        return STATUS_OK;
    return error_set(err, STATUS_UNSUPPORTED, "%s is %s: use 'weft %s'",
                     session->model->spec.folder, kinds[have], commands[have]);
}

int session_run(const struct session_command *c, const char *folder,
                const struct model_settings *model, const struct device_settings *device)
{
    struct session session;
    struct error err;
    enum status status = session_open(&session, folder, model, device, &err);
    if (status == STATUS_OK)
        status = session_kind(&session, c->kind, &err);
    if (status == STATUS_OK)
        status = c->body(&session, c->settings, &err);
    int code = status == STATUS_OK ? EXIT_CODE_OK : session_failed(&session, &err);
    bool device_failed = status == STATUS_DEVICE_FAULT || status == STATUS_TIMEOUT;
    // a failed write of the answer hides a failed device in `status`, so the engine is checked too
    if (device_failed || (session.model && engine_error(session.model->engine)->text[0] != '\0')) {
        fflush(NULL);
        process_end(code); // without cleanup: a thread may hang in the device
    }
    session_close(&session);
    return code;
}

static int required_check(const struct session_command *c)
{
    const char *given = *c->required;
    if (given && (*given != '\0' || !c->required_filled))
        return -1;
    fprintf(stderr, "weft %s: --%s TEXT %s\n", c->self->name, c->required_name,
            !given ? "is required" : "must not be empty");
    return EXIT_CODE_USAGE;
}

int session_command_run(const struct session_command *c)
{
    struct model_settings model;
    struct device_settings device;
    model_settings_init(&model);
    device_settings_init(&device);
    device.log_level = LOG_WARNING; // log lines about the plan would clutter the result
    const struct option_table tables[] = {c->own, device_options_table, session_options_table};
    void *const fields[] = {c->settings, &device, &model};
    const char *const titles[] = {c->own_title, "Device:", "Model:"};
    uint32_t first = c->own.count > 0 ? 0 : 1;
    struct arena *arena = arena_create(0, 0);
    struct texts positional;
    struct command_parse parse = {
        c->self, c->argc, c->argv, tables + first, fields + first, titles + first, 3 - first,
        1,       1,       NULL};
    if (c->second)
        parse.positional_min = parse.positional_max = 2;
    int code = command_parse(&parse, arena, &positional);
    if (code < 0 && c->required)
        code = required_check(c);
    if (code < 0 && c->second)
        *c->second = positional.at[1];
    struct error err;
    if (code < 0 && c->settings_check && c->settings_check(c->settings, &err) != STATUS_OK) {
        safe_line(stderr, "weft %s: %s", c->self->name, err.text);
        code = EXIT_CODE_USAGE;
    }
    log_level_set((enum log_level)device.log_level);
    log_format_set((enum log_format)device.log_format);
    if (code < 0)
        code = session_run(c, positional.at[0], &model, &device);
    arena_destroy(arena);
    return code;
}

// Returns the engine's error; if it has none, only the request failed: its result was not finite.
static enum status request_failed(const struct session *session, struct error *err)
{
    const char *reason = engine_error(session->model->engine)->text;
    return reason[0] != '\0'
               ? error_set(err, STATUS_DEVICE_FAULT, "%s", reason)
               : error_set(err, STATUS_REFUSED, "the result of the model is not finite");
}

enum status session_tokens_check(const struct session *session, const int32_t *tokens,
                                 uint32_t count, struct error *err)
{
    uint32_t vocab = engine_facts(session->model->engine)->vocab;
    uint32_t known = tokens_known(tokens, count, vocab);
    return known == count ? STATUS_OK
                          : error_set(err, STATUS_INVALID,
                                      "token %d of the text is not one of the %u ids of the model: "
                                      "the tokenizer belongs to another model",
                                      tokens[known], vocab);
}

enum status session_submit(struct session *session, const struct submit_args *args,
                           struct request **out, struct error *err)
{
    enum status status = session_tokens_check(session, args->tokens, args->token_count, err);
    if (status != STATUS_OK)
        return status;
    switch (port_submit(session->port, args, out)) {
    case ADMITTED:
        return STATUS_OK;
    case ADMISSION_TOO_MANY_TOKENS:
        return error_set(err, STATUS_TOO_LARGE,
                         "%u tokens are more than --max-queued-tokens allows", args->token_count);
    case ADMISSION_TOO_MANY_BYTES:
        return error_set(err, STATUS_TOO_LARGE, "the results are over --max-result-bytes");
    case ADMISSION_BUSY:
        return error_set(err, STATUS_NO_SPACE, "the engine accepts no further request now");
    case ADMISSION_FAILED:
    case ADMISSION_DRAINING:
        break;
    }
    return request_failed(session, err);
}

static void on_ready(void *context, void *owner, struct request *request)
{
    (void)context, (void)owner, (void)request; // session_poll reads the events
}

enum status session_poll(struct session *session, struct request *request, struct token_event *out,
                         bool *came, struct error *err)
{
    *came = port_next(session->port, request, out, NULL);
    if (!*came) {
        engine_step(session->model->engine, clock_ns());
        waker_clear(session->waker);
        port_drain(session->port, on_ready, NULL);
    }
    return *came && out->finish == FINISH_ERROR ? request_failed(session, err) : STATUS_OK;
}

enum status session_next(struct session *session, struct request *request, struct token_event *out,
                         struct error *err)
{
    enum status status = STATUS_OK;
    for (bool came = false; !came && status == STATUS_OK;)
        status = session_poll(session, request, out, &came, err);
    return status;
}

enum status session_pool(struct session *session, const struct submit_args *args, uint32_t width,
                         struct request **out, struct error *err)
{
    struct token_event event = {0};
    enum status status = session_submit(session, args, out, err);
    while (status == STATUS_OK && !(event.flags & EVENT_LAST))
        status = session_next(session, *out, &event, err);
    for (uint32_t i = 0; status == STATUS_OK && i < width; i++)
        if (!isfinite(request_values(*out, 0)[i]))
            status = request_failed(session, err);
    return status;
}
