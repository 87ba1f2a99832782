// Opening devices and models for all commands; see load.h. Runs on the main thread.
#include "cli/load.h"

#include "base/number.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/random.h"
#include "base/safe.h"
#include "runtime/source/modules.h"
#include "runtime/text/vocabulary.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TEMPLATE_BYTES_MAX = 4 << 20, QUEUED_TOKENS_DEFAULT = 2097152 };

static void device_note(const char *line)
{
    log_line(LOG_INFO, "%s", line);
}

// Fills the next device of the list; choice_open counts it once it is open.
static enum status plugin_open(struct loaded *loaded, const char *name,
                               const struct device_settings *settings, struct error *err)
{
    struct loaded_device *d = &loaded->devices[loaded->device_count];
    enum status status = device_plugin_open(&d->api, name, settings->device_library, err);
    if (status != STATUS_OK)
        return status;
    struct device_options options = {.threads = settings->threads,
                                     .exact = settings->exact,
                                     .cache_folder = settings->device_cache,
                                     .note = device_note};
    return d->api->open(&d->device, &options, err);
}

static enum status cpu_open(struct loaded *loaded, const struct device_settings *settings,
                            struct error *err)
{
    struct loaded_device *d = &loaded->devices[loaded->device_count];
    d->api = device_cpu();
    struct device_options options = {.threads = settings->threads, .exact = settings->exact};
    return d->api->open(&d->device, &options, err);
}

// Any choice but auto.
static enum status choice_open(struct loaded *loaded, enum device_choice choice,
                               const struct device_settings *settings, struct error *err)
{
    static const char *const names[] = {[DEVICE_CUDA] = "cuda", [DEVICE_SIMT] = "simt"};
    if (loaded->of_choice[choice])
        return STATUS_OK;
    enum status status = choice == DEVICE_CPU ? cpu_open(loaded, settings, err)
                                              : plugin_open(loaded, names[choice], settings, err);
    if (status != STATUS_OK)
        return status;
    struct loaded_device *d = &loaded->devices[loaded->device_count++];
    d->api->facts(d->device, &d->facts);
    loaded->of_choice[choice] = d;
    return STATUS_OK;
}

static enum status auto_open(struct loaded *loaded, const struct device_settings *settings,
                             struct error *err)
{
    if (loaded->of_choice[DEVICE_AUTO])
        return STATUS_OK;
    enum device_choice taken = DEVICE_CUDA;
    enum status status = choice_open(loaded, taken, settings, err);
    if (status != STATUS_OK) {
        bool built = status != STATUS_NOT_FOUND;
        log_line(LOG_INFO, "no GPU is used: %s",
                 built ? err->text : "the CUDA plugin is not built (make cuda)");
        if (!built)
            log_line(LOG_DEBUG, "%s", err->text);
        taken = DEVICE_CPU;
        status = choice_open(loaded, taken, settings, err);
    }
    loaded->of_choice[DEVICE_AUTO] = loaded->of_choice[taken];
    return status;
}

// Where a GPU was asked for by name and there is none, the sentence says what to do.
static enum status gpu_missing(enum status status, struct error *err)
{
    size_t said = strlen(err->text);
    snprintf(err->text + said, sizeof err->text - said, ": %s--device cpu computes without a GPU",
             status == STATUS_NOT_FOUND ? "'make cuda' builds it where nvcc is, " : "");
    return status;
}

enum status devices_load(struct loaded *loaded, const struct device_settings *settings,
                         const struct model_spec *specs, uint32_t count, struct error *err)
{
    enum status status = STATUS_OK;
    for (uint32_t i = 0; i < count && status == STATUS_OK; i++) {
        enum device_choice choice = (enum device_choice)specs[i].settings.device;
        status = choice == DEVICE_AUTO ? auto_open(loaded, settings, err)
                                       : choice_open(loaded, choice, settings, err);
        if (status != STATUS_OK && choice == DEVICE_CUDA)
            status = gpu_missing(status, err);
    }
    return status;
}

static enum status template_load(struct loaded *loaded, struct loaded_model *m, struct error *err)
{
    const char *file = m->spec.settings.chat_template;
    if (file) {
        enum status status =
            file_read(&m->chat_source, loaded->arena, file, TEMPLATE_BYTES_MAX, err);
        if (status != STATUS_OK)
            return status;
    } else {
        m->chat_source = tokenizer_chat_template(m->tokenizer, NULL);
    }
    m->chat_is_plain = !m->chat_source.at;
    if (m->chat_is_plain) {
        m->chat_source = chat_template_plain();
        log_line(LOG_WARNING,
                 "model '%s' brings no chat template: message contents are joined by newlines "
                 "(--chat-template FILE sets one)",
                 m->spec.id);
    }
    enum status status = chat_template_open(&m->chat, m->chat_source, err);
    if (status != STATUS_OK)
        error_prefix(err, "chat template of model '%s'", m->spec.id);
    return status;
}

// How the model writes calls and reasoning. The plan is there.
static enum status dialect_load(struct loaded *loaded, struct loaded_model *m, struct error *err)
{
    enum status status = dialect_detect(&m->dialect, m->chat_source, m->tokenizer, err);
    if (status != STATUS_OK)
        return error_prefix(err, "model '%s'", m->spec.id);
    dialect_thinking_find(&m->thinking, m->chat, m->chat_source);
    m->dialect.one_call = dialect_one_call(m->chat);
    bool closes = dialect_closing_make(&m->closing, &m->dialect, m->tokenizer, m->plan->facts.vocab,
                                       loaded->arena);
    if (!closes && dialect_reasoning_syntax(&m->dialect).open)
        log_line(
            LOG_WARNING,
            "model '%s': its tokenizer cannot write '%s', the end of thinking, in ids that the "
            "model has: requests with a budget of thinking are refused",
            m->spec.id, dialect_reasoning_syntax(&m->dialect).close);
    return STATUS_OK;
}

static enum status tokenizer_load(struct loaded_model *m, struct error *err)
{
    enum status status = tokenizer_open(&m->tokenizer, m->spec.folder, err);
    if (status != STATUS_NOT_FOUND || m->spec.settings.load_format != 1)
        return status;
    // A dummy model without a tokenizer gets a word list as long as its vocabulary.
    json_t *config;
    status = folder_json(&config, m->spec.folder, "config.json", true, err);
    if (status != STATUS_OK)
        return status;
    int64_t vocab = 0;
    bool known = json_integer_exact(json_object_get(config, "vocab_size"), &vocab) && vocab > 0 &&
                 vocab <= INT32_MAX;
    json_decref(config);
    if (!known)
        return error_set(err, STATUS_INVALID,
                         "%s/config.json: vocab_size is missing or out of range", m->spec.folder);
    return tokenizer_open_words(&m->tokenizer, (uint32_t)vocab, err);
}

static enum status prompts_load(struct loaded *loaded, struct loaded_model *m, struct error *err)
{
    enum status status = sentence_prompts_read(
        &m->prompts, m->spec.folder, m->spec.settings.default_prompt_name, loaded->arena, err);
    if (status == STATUS_OK && m->prompts.default_prompt &&
        m->prompts.default_prompt->text.bytes > 0)
        log_line(LOG_INFO,
                 "model '%s': texts get the prompt '%.*s' in front (--default-prompt-name)",
                 m->spec.id, (int)m->prompts.default_prompt->name.bytes,
                 m->prompts.default_prompt->name.at);
    return status;
}

// The devices of the ranks that share the model; none where it has one.
static enum status ranks_open(struct loaded *loaded, const struct loaded_model *m,
                              struct model_options *options, struct error *err)
{
    const struct loaded_device *whole = m->device;
    uint32_t size = m->spec.settings.tensor_parallel_size;
    struct loaded_ranks *ranks = &loaded->ranks[size];
    if (size == 1)
        return STATUS_OK;
    if (whole->facts.ranks_max < size)
        return error_set(err, STATUS_UNSUPPORTED,
                         "model '%s': --tensor-parallel-size %u is possible on a CPU only; add "
                         "--device cpu or leave it out",
                         m->spec.id, size);
    options->share.tp_size = size;
    options->devices = ranks->devices;
    enum status status = STATUS_OK;
    while (ranks->count < size && status == STATUS_OK) {
        struct device_options rank = {.index = ranks->count,
                                      .ranks = size,
                                      .whole = whole->device,
                                      .exact = whole->facts.exact};
        status = whole->api->open(&ranks->devices[ranks->count], &rank, err);
        ranks->count += status == STATUS_OK;
    }
    if (status != STATUS_OK)
        error_prefix(err, "model '%s'", m->spec.id);
    return status;
}

static enum status model_prepare(struct loaded *loaded, struct loaded_model *m, struct error *err)
{
    enum status status = tokenizer_load(m, err);
    if (status != STATUS_OK)
        return status;
    struct model_options options;
    model_settings_to_options(&m->spec.settings, &options);
    status = ranks_open(loaded, m, &options, err);
    if (status != STATUS_OK)
        return status;
    options.yes_id = tokenizer_token(m->tokenizer, text_of("yes"));
    options.no_id = tokenizer_token(m->tokenizer, text_of("no"));
    options.tokenizer_length = tokenizer_length(m->tokenizer);
    struct device *device = options.devices ? options.devices[0] : m->device->device;
    status = model_plan_open(&m->plan, m->spec.folder, m->device->api, device, &options, err);
    if (status == STATUS_OK && tokenizer_vocab(m->tokenizer) > m->plan->facts.vocab)
        log_line(LOG_WARNING,
                 "model '%s': the tokenizer has %u ids, the model %u: texts with the ids beyond "
                 "are refused",
                 m->spec.id, tokenizer_vocab(m->tokenizer), m->plan->facts.vocab);
    if (status == STATUS_OK && m->plan->facts.kind == MODEL_GENERATOR)
        status = template_load(loaded, m, err);
    if (status == STATUS_OK && m->chat)
        status = dialect_load(loaded, m, err);
    if (status == STATUS_OK && m->plan->facts.kind == MODEL_EMBEDDER)
        status = prompts_load(loaded, m, err);
    return status;
}

static double step_stretch(const struct loaded_model *m)
{
    double asked = m->spec.settings.step_stretch;
    return asked >= 0 ? asked : m->device->facts.step_stretch;
}

static void engine_options_fill(struct loaded_model *m, uint32_t port_count)
{
    const struct model_settings *s = &m->spec.settings;
    uint32_t tokens = s->max_queued_tokens;
    if (tokens == 0) {
        uint64_t two = 2 * (uint64_t)m->plan->facts.max_model_len;
        tokens = (uint32_t)(two > QUEUED_TOKENS_DEFAULT ? two : QUEUED_TOKENS_DEFAULT);
    }
    m->engine_options = (struct engine_options){.port_count = port_count,
                                                .max_queued_requests = s->max_queued_requests,
                                                .max_queued_tokens = tokens,
                                                .max_result_bytes = s->max_result_bytes,
                                                .choices_max = larger(s->max_n, s->max_prompts),
                                                .prefix_cache = s->enable_prefix_caching,
                                                .step_stretch = step_stretch(m)};
    random_fill(m->engine_options.hash_key, sizeof m->engine_options.hash_key);
}

static uint64_t device_planned(const struct loaded *loaded, const struct loaded_device *device)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < loaded->model_count; i++)
        if (loaded->models[i].device == device)
            bytes += loaded->models[i].plan->bytes;
    return bytes;
}

// Keys and values of a model that names no size: its share of the room, at most what all its
// sequences can fill and, where the device has a default, what that says (docs/adr/0046).
static void kv_default(struct loaded_model *m, uint64_t share)
{
    uint64_t useful = m->plan->kv_bytes_min * m->plan->facts.limits.slots_max;
    uint64_t modest = m->device->facts.kv_default;
    m->kv_rule = "a share of the free memory";
    m->kv_bytes = share;
    if (m->kv_bytes > useful) {
        m->kv_rule = "all that --max-num-seqs can fill";
        m->kv_bytes = useful;
    }
    bool longest = m->plan->kv_bytes_min > modest;
    modest = longest ? m->plan->kv_bytes_min : modest;
    if (m->device->facts.kv_default > 0 && m->kv_bytes > modest) {
        m->kv_rule = longest ? "one sequence of the longest" : "the default, 1 GiB a model";
        m->kv_bytes = modest;
    }
}

static enum status kv_too_small(const struct loaded_model *m, struct error *err)
{
    const struct model_facts *facts = &m->plan->facts;
    uint64_t tokens = m->kv_bytes / facts->block_bytes * facts->block_tokens;
    error_set(err, STATUS_NO_MEMORY,
              "model '%s': a sequence of %u tokens takes %.2f MiB for keys and values and "
              "there are %.2f MiB: raise --kv-cache-memory",
              m->spec.id, facts->max_model_len, (double)m->plan->kv_bytes_min / 0x1p20,
              (double)m->kv_bytes / 0x1p20);
    size_t said = strlen(err->text);
    if (tokens > 0)
        snprintf(err->text + said, sizeof err->text - said,
                 ", or --max-model-len %" PRIu64 " would fit", tokens);
    return STATUS_NO_MEMORY;
}

// Splits a device's KV memory by kv-share among the models without a kv-cache-memory of their own.
static enum status kv_split(struct loaded *loaded, const struct loaded_device *device,
                            struct error *err)
{
    uint64_t planned = device_planned(loaded, device);
    uint64_t fixed = 0;
    double shares = 0;
    for (uint32_t i = 0; i < loaded->model_count; i++) {
        struct loaded_model *m = &loaded->models[i];
        if (m->device != device || m->plan->kv_bytes_min == 0)
            continue;
        m->kv_bytes = m->spec.settings.kv_cache_memory;
        m->kv_rule = "--kv-cache-memory";
        fixed += m->kv_bytes;
        shares += m->kv_bytes == 0 ? m->spec.settings.kv_share : 0;
    }
    uint64_t memory = device->facts.memory_free;
    if (planned + fixed > memory)
        return error_set(
            err, STATUS_NO_MEMORY,
            "the plan needs %.2f GiB and %.2f GiB are free: serve fewer models, smaller ones "
            "or with --dtype int8, or lower --kv-cache-memory, "
            "--max-num-batched-tokens, --max-num-seqs or --max-model-len",
            (double)(planned + fixed) / 0x1p30, (double)memory / 0x1p30);
    uint64_t left = memory - planned - fixed;
    uint64_t most = (uint64_t)((double)memory * device->facts.kv_share);
    uint64_t room = left > most ? most : left;
    for (uint32_t i = 0; i < loaded->model_count; i++) {
        struct loaded_model *m = &loaded->models[i];
        if (m->device != device || m->plan->kv_bytes_min == 0)
            continue;
        if (m->kv_bytes == 0)
            kv_default(m, (uint64_t)((double)room * (m->spec.settings.kv_share / shares)));
        if (m->kv_bytes < m->plan->kv_bytes_min)
            return kv_too_small(m, err);
    }
    return STATUS_OK;
}

void plan_print(FILE *out, const struct loaded_model *m)
{
    const struct model_facts *f = &m->plan->facts;
    char ranks[32] = "";
    if (f->ranks > 1)
        snprintf(ranks, sizeof ranks, ", shared by %u ranks", f->ranks);
    fprintf(out, "%s: %s, %s, %.1f M parameters in %s, %u tokens at most%s\n",
            safe_of(text_of(m->spec.id)).at, f->architecture, model_kind_name(f->kind),
            (double)f->parameter_count / 1e6, dtype_name(f->dtype), f->max_model_len, ranks);
    for (uint32_t i = 0; i < m->plan->need.count; i++)
        fprintf(out, "  %-28s %12.2f MiB\n", m->plan->need.entry[i].label,
                (double)m->plan->need.entry[i].bytes / 0x1p20);
    if (m->kv_bytes > 0)
        fprintf(out, "  %-28s %12.2f MiB (%" PRIu64 " blocks of %u tokens, %s; %s)\n",
                "keys and values", (double)m->kv_bytes / 0x1p20,
                (uint64_t)(m->kv_bytes / f->block_bytes), f->block_tokens, dtype_name(f->kv_dtype),
                m->kv_rule);
    if (m->engine_options.port_count > 0)
        fprintf(out, "  %-28s %12.2f MiB (touched as used)\n", "scheduler",
                (double)engine_bytes(f, &m->engine_options) / 0x1p20);
}

static void plan_log(const struct loaded_model *m)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    check(out, "no memory for the plan of '%s'", m->spec.id);
    plan_print(out, m);
    fclose(out);
    log_text("%s", text);
    free(text);
}

// whole: every entry of the plan; otherwise the device and the sum alone.
static void plans_print(const struct loaded *loaded, const char *more, bool whole)
{
    if (log_level_get() < LOG_INFO)
        return;
    for (uint32_t d = 0; d < loaded->device_count; d++) {
        const struct loaded_device *device = &loaded->devices[d];
        uint64_t planned = device_planned(loaded, device), kv = 0;
        log_text("device: %s%s\n", device->facts.name, device->facts.exact ? ", exact" : "");
        for (uint32_t i = 0; i < loaded->model_count; i++) {
            if (loaded->models[i].device != device)
                continue;
            if (whole)
                plan_log(&loaded->models[i]);
            kv += loaded->models[i].kv_bytes;
        }
        planned += kv;
        if (more && whole && d == 0)
            log_text("%s\n", more);
        log_text("planned: %.2f GiB of %.2f GiB, %.2f GiB of it for keys and values "
                 "(--kv-cache-memory%s)\n",
                 (double)planned / 0x1p30, (double)device->facts.memory_free / 0x1p30,
                 (double)kv / 0x1p30, whole ? "" : "; -v: the whole plan");
    }
}

enum status models_plan(struct loaded *loaded, const struct model_spec *specs, uint32_t count,
                        uint32_t port_count, const char *more, struct error *err)
{
    loaded->models = arena_take_zeroed(loaded->arena, count, sizeof *loaded->models);
    loaded->model_count = count;
    for (uint32_t i = 0; i < count; i++) {
        struct loaded_model *m = &loaded->models[i];
        m->spec = specs[i];
        m->device = loaded->of_choice[m->spec.settings.device];
        check(m->device, "no device %d was opened", m->spec.settings.device);
        enum status status = model_prepare(loaded, m, err);
        if (status != STATUS_OK)
            return status;
        engine_options_fill(m, port_count);
    }
    enum status status = STATUS_OK;
    for (uint32_t i = 0; i < loaded->device_count && status == STATUS_OK; i++)
        status = kv_split(loaded, &loaded->devices[i], err);
    // A plan that does not fit is shown whole, so that one sees what takes the memory.
    plans_print(loaded, more, status != STATUS_OK || log_level_get() >= LOG_DEBUG);
    return status;
}

enum { PROGRESS_ID_BYTES = 41, PROGRESS_COLUMNS = 79 };

struct progress {
    char id[PROGRESS_ID_BYTES]; // made safe and cut, so that the line fits 80 columns
    uint64_t shown_ns;
    bool terminal, open; // open: the terminal shows the progress line
};

static void progress_show(void *context, uint64_t done, uint64_t total)
{
    struct progress *p = context;
    uint64_t now = clock_ns();
    double since = (double)(now - p->shown_ns) * 1e-9;
    if (since < (p->terminal ? 0.1 : 2.0) || log_level_get() < LOG_WARNING)
        return;
    p->shown_ns = now;
    p->open = p->terminal;
    log_text("%sloading %s: %3.0f %% of %.2f GiB%s", p->terminal ? "\r" : "", p->id,
             total > 0 ? 100.0 * (double)done / (double)total : 100.0, (double)total / 0x1p30,
             p->terminal ? "" : "\n");
}

static void progress_end(const struct progress *p)
{
    if (p->open)
        log_text("\r%*s\r", PROGRESS_COLUMNS, "");
}

static uint32_t generators(const struct loaded *loaded)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < loaded->model_count; i++)
        count += loaded->models[i].plan->facts.kind == MODEL_GENERATOR;
    return count;
}

enum status models_load(struct loaded *loaded, struct error *err)
{
    for (uint32_t i = 0; i < loaded->model_count; i++) {
        struct loaded_model *m = &loaded->models[i];
        struct progress progress = {.shown_ns = clock_ns(), .terminal = isatty(STDERR_FILENO)};
        safe_put(progress.id, sizeof progress.id, text_of(m->spec.id));
        enum status status =
            model_open(&m->model, m->plan, m->kv_bytes, progress_show, &progress, err);
        progress_end(&progress);
        if (status == STATUS_OK && m->plan->facts.kind == MODEL_GENERATOR) {
            const struct model_facts *facts = &m->plan->facts;
            m->vocabulary =
                tokenizer_vocabulary(m->tokenizer, facts->vocab, facts->end_ids, facts->end_count);
            m->engine_options.vocabulary = m->vocabulary;
            m->engine_options.mask_idle_bytes = MASK_IDLE_GRAMMAR_BYTES / generators(loaded);
        }
        if (status == STATUS_OK)
            status = engine_open(&m->engine, m->model, &m->engine_options, err);
        if (status != STATUS_OK)
            return status;
        log_line(LOG_DEBUG, "model '%s' is loaded", m->spec.id);
    }
    return STATUS_OK;
}

void loaded_close(struct loaded *loaded)
{
    for (uint32_t i = 0; i < loaded->model_count; i++) {
        struct loaded_model *m = &loaded->models[i];
        if (m->engine)
            engine_close(m->engine);
        model_close(m->model);
        if (m->plan)
            model_plan_close(m->plan);
        chat_template_close(m->chat);
        vocabulary_give(m->vocabulary);
        tokenizer_close(m->tokenizer);
    }
    for (uint32_t size = 2; size <= RANKS_MAX; size++)
        for (uint32_t r = 0; r < loaded->ranks[size].count; r++)
            device_cpu()->close(loaded->ranks[size].devices[r]);
    for (uint32_t i = 0; i < loaded->device_count; i++)
        loaded->devices[i].api->close(loaded->devices[i].device);
    arena_destroy(loaded->arena);
}
