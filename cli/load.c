// SPDX-License-Identifier: Apache-2.0
// Opening devices and models for all commands; see load.h. load_memory.c has the memory plans.
#include "cli/load.h"

#include "cli/kv_publish.h"
#include "cli/load_memory.h"
#include "cli/load_print.h"
#include "cli/load_watch.h"

#include "base/number.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/random.h"
#include "base/safe.h"
#include "runtime/model/link.h"
#include "runtime/model/outline.h"
#include "runtime/source/modules.h"
#include "runtime/text/dialect/watch.h"
#include "runtime/text/vocabulary.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TEMPLATE_BYTES_MAX = 4 << 20, QUEUED_TOKENS_DEFAULT = 2097152 };

enum status devices_load(struct loaded *loaded, const struct device_settings *settings,
                         const struct model_spec *specs, uint32_t count, struct error *err)
{
    enum status status = STATUS_OK;
    uint32_t copies = 0, at = 0;
    for (uint32_t i = 0; i < count; i++)
        copies += specs[i].settings.data_parallel_size;
    loaded->models = arena_alloc_zeroed(loaded->arena, copies, sizeof *loaded->models);
    for (uint32_t i = 0; i < count && status == STATUS_OK; i++) {
        struct loaded_model *first = &loaded->models[at];
        first->spec = specs[i];
        status = devices_of(&loaded->devices, first->choices, &first->choice_count, &specs[i],
                            settings, err);
        at += specs[i].settings.data_parallel_size;
        for (uint32_t c = 1; &first[c] < &loaded->models[at]; c++) {
            first[c] = *first;
            first[c].copy = c;
        }
    }
    loaded->model_count = at;
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
        tokenizer_guard_template(m->tokenizer, m->chat_source);
    } else {
        m->chat_source = tokenizer_chat_template(m->tokenizer, NULL);
        struct text with_tools = tokenizer_chat_template(m->tokenizer, "tool_use");
        if (m->chat_source.at && with_tools.at)
            m->chat_source = chat_template_choose(loaded->arena, with_tools, m->chat_source);
    }
    m->chat_is_plain = !m->chat_source.at;
    if (m->chat_is_plain) {
        m->chat_source = chat_template_plain();
        log_line(LOG_WARNING,
                 "model '%s' has no chat template: message contents are joined by newlines "
                 "(--chat-template FILE sets one)",
                 m->spec.id);
    }
    enum status status = chat_template_create(&m->chat, m->chat_source, err);
    if (status != STATUS_OK)
        error_prefix(err, "chat template of model '%s'", m->spec.id);
    return status;
}

// Finds out how the model writes tool calls and reasoning. m->plan must be open.
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
        log_line(LOG_WARNING,
                 "model '%s': its tokenizer cannot encode '%s', the end of thinking, in ids that "
                 "the model has: requests with a thinking budget are refused",
                 m->spec.id, dialect_reasoning_syntax(&m->dialect).close);
    return STATUS_OK;
}

// Judges the architecture first: nothing of the model is missing if weft cannot serve it anyway.
static enum status tokenizer_load(struct loaded_model *m, struct error *err)
{
    struct model_outline outline;
    enum status status = model_outline_read(&outline, m->spec.folder, err);
    if (status != STATUS_OK)
        return status;
    status = tokenizer_open(&m->tokenizer, m->spec.folder, err);
    if (status != STATUS_NOT_FOUND || m->spec.settings.load_format == 0)
        return status;
    // A dummy model without a tokenizer gets a list of words with the size of its vocabulary.
    return tokenizer_open_words(&m->tokenizer, outline.vocab, err);
}

static enum status prompts_load(struct loaded *loaded, struct loaded_model *m, struct error *err)
{
    enum status status = sentence_prompts_read(
        &m->prompts, m->spec.folder, m->spec.settings.default_prompt_name, loaded->arena, err);
    if (status == STATUS_OK && m->prompts.default_prompt &&
        m->prompts.default_prompt->text.bytes > 0)
        log_line(LOG_INFO,
                 "model '%s': the prompt '%.*s' is put before texts that name none "
                 "(--default-prompt-name)",
                 m->spec.id, (int)m->prompts.default_prompt->name.bytes,
                 m->prompts.default_prompt->name.at);
    return status;
}

// Returns an error if another model's ranks use the same GPUs: NCCL requires that all GPUs run the
// collectives of two communicators in the same order.
static enum status gpus_check(const struct loaded *loaded, const struct loaded_model *m,
                              struct error *err)
{
    for (const struct loaded_model *other = loaded->models; other < m; other++)
        for (uint32_t i = 0; is_split_over_gpus(other) && i < gpu_count(other); i++)
            for (uint32_t r = 0; r < gpu_count(m); r++)
                if (m->choices[r] == other->choices[i])
                    return error_set(err, STATUS_INVALID,
                                     "models '%s' and '%s' are both split over %s: assign separate "
                                     "GPUs to each with ,device=",
                                     other->spec.id, m->spec.id, m->choices[r]->label);
    return STATUS_OK;
}

// Opens the device handles of the ranks that share the model, if it has several.
static enum status ranks_open(struct loaded *loaded, struct loaded_model *m,
                              struct model_options *options, struct error *err)
{
    const struct loaded_device *device = m->device;
    uint32_t all = m->spec.settings.tensor_parallel_size;
    uint32_t size = m->link ? m->link->count : all; // ranks of this process
    bool gpus = is_split_over_gpus(m);
    struct loaded_ranks *ranks = gpus ? &m->ranks : &loaded->ranks[size];
    if (all == 1)
        return STATUS_OK;
    if (device->facts.ranks_max < size)
        return error_set(
            err, STATUS_UNSUPPORTED,
            "model '%s': --tensor-parallel-size %u needs as many GPUs, and there are %u",
            m->spec.id, size, device->facts.ranks_max);
    options->share.tp_size = all;
    options->share.tp_rank = m->link ? m->link->comm.first : 0;
    options->link = m->link;
    options->devices = ranks->devices;
    options->device_names = m->rank_names;
    options->start_ns = loaded->start_ns;
    enum status status = gpus ? gpus_check(loaded, m, err) : STATUS_OK;
    while (ranks->count < size && status == STATUS_OK) {
        struct device_options rank = device->options;
        rank.index = gpus ? m->choices[ranks->count]->index : ranks->count;
        rank.ranks = gpus ? all : size;
        rank.parent = gpus ? NULL : device->device;
        rank.exact = device->facts.exact;
        m->rank_names[ranks->count] = gpus ? m->choices[ranks->count]->label : NULL;
        status = device->api->open(&ranks->devices[ranks->count], &rank, err);
        ranks->count += status == STATUS_OK;
    }
    if (status != STATUS_OK)
        error_prefix(err, "model '%s'", m->spec.id);
    return status;
}

// Copies to m everything that copies share, from the first copy.
static void copy_fill(struct loaded_model *m, const struct loaded_model *first)
{
    struct loaded_device *device = m->device;
    uint32_t copy = m->copy;
    *m = *first;
    m->copy = copy;
    m->device = device;
    m->source = NULL;
    m->plan = NULL;
}

static enum status sampling_defaults_load(const struct loaded_model *m,
                                          struct model_options *options, struct error *err)
{
    const char *file = m->spec.settings.generation_config;
    if (!has_sampling_defaults(&m->spec.settings))
        return STATUS_OK;
    options->defaults_from = strcmp(file, "auto") == 0 ? DEFAULTS_FOLDER : DEFAULTS_GIVEN;
    if (options->defaults_from == DEFAULTS_FOLDER)
        return STATUS_OK;
    enum status status = model_defaults_read(&options->defaults, file, err);
    if (status != STATUS_OK)
        error_prefix(err, "generation-config of model '%s'", m->spec.id);
    return status;
}

// Adds the tokenizer's eos_token to the ids that end an answer.
static void ends_load(struct loaded_model *m)
{
    struct model_facts *facts = &m->plan->facts;
    int32_t eos = tokenizer_special(m->tokenizer, SPECIAL_EOS);
    if (eos >= 0 && !model_facts_add_end(facts, eos))
        log_line(
            LOG_WARNING,
            "model '%s': eos_token of the tokenizer is id %d, which the model does not have or "
            "which exceeds %d end ids: it ends no answer",
            m->spec.id, eos, MODEL_END_IDS_MAX);
    if (facts->end_count == 0)
        log_line(LOG_WARNING,
                 "model '%s' has no end-of-sequence id: answers end only at max_tokens or a stop "
                 "string (generation_config.json, config.json or tokenizer_config.json names one)",
                 m->spec.id);
}

// Logs how the random weights of a folder that declares quantised ones are held, without --dtype.
static void dummy_log(const struct loaded_model *m)
{
    struct model_outline outline;
    struct error ignored;
    const struct model_facts *facts = &m->plan->facts;
    if (m->spec.settings.dtype == 0 &&
        model_outline_read(&outline, m->spec.folder, &ignored) == STATUS_OK &&
        strncmp(outline.format, "quantized", strlen("quantized")) == 0)
        log_line(LOG_INFO, "model '%s': random weights in the format of the folder, %s: held as %s",
                 m->spec.id, outline.format,
                 facts->formats[0] != '\0' ? facts->formats : dtype_name(facts->dtype));
}

static enum status model_prepare(struct loaded *loaded, struct loaded_model *m, struct error *err)
{
    struct loaded_model *first = model_first(m);
    if (m == first)
        m->source = model_source_open(m->spec.folder);
    enum status status = m == first ? tokenizer_load(m, err) : STATUS_OK;
    if (status != STATUS_OK)
        return status;
    struct model_options options;
    model_settings_to_options(&m->spec.settings, &options);
    status = sampling_defaults_load(m, &options, err);
    if (status == STATUS_OK)
        status = ranks_open(loaded, m, &options, err);
    if (status != STATUS_OK)
        return status;
    if (m != first) {
        copy_fill(m, first);
        options.copy_of = m->device == first->device ? first->plan : NULL;
    }
    for (enum rerank_form form = RERANK_PAIR + 1; form < RERANK_FORMS; form++) {
        const struct rerank_form_facts *facts = rerank_form_facts(form);
        options.answer_ids[form][0] = tokenizer_token(m->tokenizer, text_of(facts->yes));
        options.answer_ids[form][1] =
            facts->no ? tokenizer_token(m->tokenizer, text_of(facts->no)) : -1;
    }
    options.tokenizer_length = tokenizer_length(m->tokenizer);
    struct device *device = options.devices ? options.devices[0] : m->device->device;
    status = model_plan_open(&m->plan, m->spec.folder, m->device->api, device, &options, err);
    if (status == STATUS_OK && m->plan->facts.kind == MODEL_GENERATOR)
        ends_load(m);
    if (m != first)
        return status;
    if (status == STATUS_OK && m->plan->facts.text_part)
        log_line(LOG_INFO, "model '%s': of %s the text part is served; %s are not served",
                 m->spec.id, m->plan->facts.architecture, m->plan->facts.media);
    if (status == STATUS_OK && m->spec.settings.load_format == LOAD_FORMAT_DUMMY)
        dummy_log(m);
    if (status == STATUS_OK && tokenizer_vocab(m->tokenizer) > m->plan->facts.vocab)
        log_line(LOG_WARNING,
                 "model '%s': the tokenizer has %u ids, the model %u: texts with other ids than "
                 "the model's are refused",
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
    double requested = m->spec.settings.step_stretch;
    return requested >= 0 ? requested : m->device->facts.step_stretch;
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
    // Copies use the same secret, so that a prompt's blocks have equal keys in all of them.
    struct loaded_model *first = model_first(m);
    if (m == first)
        random_fill(m->engine_options.hash_key, sizeof m->engine_options.hash_key);
    else
        memcpy(m->engine_options.hash_key, first->engine_options.hash_key,
               sizeof m->engine_options.hash_key);
}

static void label_make(struct loaded_model *m)
{
    int at = snprintf(m->label, sizeof m->label, "%s", m->device->label);
    for (uint32_t r = 1; r < gpu_count(m); r++)
        at += snprintf(m->label + at, sizeof m->label - (size_t)at, ",%u", m->choices[r]->index);
}

enum status models_plan(struct loaded *loaded, uint32_t port_count, const char *more,
                        struct error *err)
{
    enum status status = STATUS_OK;
    for (int spread = 0; spread <= 1; spread++) { // first the models whose devices are fixed
        for (uint32_t i = 0; i < loaded->model_count && status == STATUS_OK; i++) {
            struct loaded_model *m = &loaded->models[i];
            uint32_t needed = m->spec.settings.data_parallel_size * gpu_count(m);
            if ((m->choice_count > needed) != spread)
                continue;
            m->device = device_choose(loaded, m);
            status = model_prepare(loaded, m, err);
            label_make(m);
            if (status == STATUS_OK)
                engine_options_fill(m, port_count);
        }
    }
    if (status != STATUS_OK)
        return status;
    for (uint32_t i = 0; i < loaded->devices.count && status == STATUS_OK; i++)
        status = kv_split(loaded, &loaded->devices.at[i], err);
    // If the plan does not fit, all entries are printed, to show what uses the memory.
    plans_print(loaded, more, status != STATUS_OK || log_level_get() >= LOG_DEBUG);
    return status;
}

enum { PROGRESS_ID_BYTES = 41, PROGRESS_COLUMNS = 79 };

struct progress {
    char id[PROGRESS_ID_BYTES]; // escaped and shortened, so that the line fits 80 columns
    uint64_t shown_ns;
    bool terminal, open; // open: true if the terminal shows the progress line
    struct load_watch watch;
};

static void progress_show(void *context, uint64_t done, uint64_t total)
{
    struct progress *p = context;
    uint64_t now = clock_ns();
    load_watch_sign(&p->watch);
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

static uint32_t generator_count(const struct loaded *loaded)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < loaded->model_count; i++)
        count += loaded->models[i].plan->facts.kind == MODEL_GENERATOR;
    return count;
}

// Opens the publisher of the changes of the copy's prefix cache, if --kv-events is given.
static enum status kv_events_begin(struct loaded_model *m, struct error *err)
{
    const struct model_settings *s = &m->spec.settings;
    if (!s->kv_events && (s->kv_events_replay || s->kv_events_topic))
        return error_set(err, STATUS_INVALID,
                         "--kv-events-replay and --kv-events-topic need --kv-events");
    if (!s->kv_events || m->plan->facts.block_tokens == 0)
        return STATUS_OK; // encoders have no prefix cache
    if (!s->enable_prefix_caching)
        return error_set(err, STATUS_INVALID,
                         "--kv-events publishes the prefix cache: leave out "
                         "--no-enable-prefix-caching or --kv-events");
    const struct kv_publish_options options = {.address = s->kv_events,
                                               .replay = s->kv_events_replay,
                                               .topic =
                                                   s->kv_events_topic ? s->kv_events_topic : "",
                                               .copy = m->copy,
                                               .block_tokens = m->plan->facts.block_tokens};
    enum status status = kv_publisher_open(&m->kv_publisher, &options, err);
    if (status != STATUS_OK)
        return error_prefix(err, "model '%s'", m->spec.id);
    m->engine_options.kv_events = kv_publisher_log(m->kv_publisher);
    log_line(LOG_INFO, "model '%s': KV events of copy %u are published at %s", m->spec.id, m->copy,
             s->kv_events);
    return STATUS_OK;
}

// Logs the memory that is left on the GPUs of a model after its warm-up steps, which load code and
// so take memory that is not in the plan.
static void memory_left_log(const struct loaded_model *m)
{
    uint32_t count = m->ranks.count > 0 ? m->ranks.count : 1;
    for (uint32_t i = 0; i < count && m->device->kind != DEVICE_CPU; i++) {
        const struct loaded_device *device = m->ranks.count > 0 ? m->choices[i] : m->device;
        struct device_facts now;
        device->api->facts(device->device, &now);
        log_line(LOG_INFO, "model '%s': %.2f GiB of memory are left on %s", m->spec.id,
                 (double)now.memory_available / 0x1p30, device->label);
    }
}

enum status models_load(struct loaded *loaded, struct error *err)
{
    for (uint32_t i = 0; i < loaded->model_count; i++) {
        struct loaded_model *m = &loaded->models[i];
        struct progress progress = {.shown_ns = clock_ns(), .terminal = isatty(STDERR_FILENO)};
        safe_put(progress.id, sizeof progress.id, text_of(m->spec.id));
        load_watch_begin(&progress.watch, m, loaded->start_ns);
        enum status status =
            model_open(&m->model, m->plan, m->kv_bytes, progress_show, &progress, err);
        load_watch_end(&progress.watch);
        progress_end(&progress);
        if (status == STATUS_DEVICE_FAULT || status == STATUS_TIMEOUT)
            error_prefix(err, "model '%s' on %s", m->spec.id, m->label);
        if (status == STATUS_OK && loaded->follows)
            continue;
        if (status == STATUS_OK && m->plan->facts.kind == MODEL_GENERATOR) {
            const struct model_facts *facts = &m->plan->facts;
            struct loaded_model *first = model_first(m);
            m->vocabulary = m != first ? first->vocabulary
                                       : tokenizer_vocabulary(m->tokenizer, facts->vocab,
                                                              facts->end_ids, facts->end_count);
            bool watched = m->spec.settings.tool_call_grammar && dialect_marks_calls(&m->dialect);
            m->watch = m == first && watched ? dialect_watch(&m->dialect, m->vocabulary) : NULL;
            m->engine_options.vocabulary = m->vocabulary;
            m->engine_options.mask_idle_bytes = MASK_IDLE_GRAMMAR_BYTES / generator_count(loaded);
        }
        if (status == STATUS_OK)
            status = kv_events_begin(m, err);
        if (status == STATUS_OK)
            status = engine_open(&m->engine, m->model, &m->engine_options, err);
        if (status != STATUS_OK)
            return status;
        memory_left_log(m);
        log_line(LOG_DEBUG, "model '%s' is loaded", m->spec.id);
    }
    return STATUS_OK;
}

void sources_close(struct loaded *loaded)
{
    for (uint32_t i = 0; i < loaded->model_count; i++) {
        model_source_close(loaded->models[i].source);
        loaded->models[i].source = NULL;
    }
}

// Closes what a copy owns, and forgets it.
static void copy_close(struct loaded_model *m)
{
    if (m->engine)
        engine_close(m->engine);
    kv_publisher_close(m->kv_publisher);
    m->kv_publisher = NULL;
    model_close(m->model);
    if (m->plan)
        model_plan_close(m->plan);
    for (uint32_t r = 0; r < m->ranks.count; r++)
        m->device->api->close(m->ranks.devices[r]);
    m->engine = NULL;
    m->model = NULL;
    m->plan = NULL;
    m->ranks.count = 0;
    m->kv_bytes = 0;
    if (m->copy > 0)
        return;
    chat_template_destroy(m->chat);
    token_watch_unref(m->watch);
    vocabulary_unref(m->vocabulary);
    tokenizer_close(m->tokenizer);
    m->chat = NULL;
    m->watch = NULL;
    m->vocabulary = NULL;
    m->tokenizer = NULL;
}

void loaded_model_close(struct loaded_model *first)
{
    // backwards: the first copy is closed last
    for (uint32_t i = first->spec.settings.data_parallel_size; i-- > 0;)
        copy_close(&first[i]);
}

static void models_close(struct loaded *loaded)
{
    sources_close(loaded);
    for (uint32_t i = loaded->model_count; i-- > 0;)
        copy_close(&loaded->models[i]);
}

void loaded_discard(struct loaded *loaded)
{
    models_close(loaded);
    arena_destroy(loaded->arena);
}

void loaded_close(struct loaded *loaded)
{
    models_close(loaded);
    for (uint32_t size = 1; size <= RANKS_MAX; size++)
        for (uint32_t r = 0; r < loaded->ranks[size].count; r++)
            device_cpu()->close(loaded->ranks[size].devices[r]);
    devices_close(&loaded->devices);
    arena_destroy(loaded->arena);
}
