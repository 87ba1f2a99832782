// SPDX-License-Identifier: Apache-2.0
// Opening devices and models for all commands; see load.h. Runs on the main thread.
#include "cli/load.h"

#include "cli/load_watch.h"

#include "base/number.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/random.h"
#include "base/safe.h"
#include "runtime/source/modules.h"
#include "runtime/text/dialect/watch.h"
#include "runtime/text/vocabulary.h"

#include <inttypes.h>
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

static enum status tokenizer_load(struct loaded_model *m, struct error *err)
{
    enum status status = tokenizer_open(&m->tokenizer, m->spec.folder, err);
    if (status != STATUS_NOT_FOUND || m->spec.settings.load_format != 1)
        return status;
    // A dummy model without a tokenizer gets a list of words with the size of its vocabulary.
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
                 "model '%s': the prompt '%.*s' is put before texts that name none "
                 "(--default-prompt-name)",
                 m->spec.id, (int)m->prompts.default_prompt->name.bytes,
                 m->prompts.default_prompt->name.at);
    return status;
}

uint32_t gpu_count(const struct loaded_model *m)
{
    return m->choices[0]->kind == DEVICE_CPU ? 1 : m->spec.settings.tensor_parallel_size;
}

// Returns the rank of the model that is on the device, 0 if the model is not split; -1: none.
static int rank_on(const struct loaded_model *m, const struct loaded_device *device)
{
    uint32_t ranks = gpu_count(m);
    if (ranks == 1)
        return m->device == device ? 0 : -1;
    for (uint32_t r = 0; r < ranks; r++)
        if (m->choices[r] == device)
            return (int)r;
    return -1;
}

bool is_on(const struct loaded_model *m, const struct loaded_device *device)
{
    return rank_on(m, device) >= 0;
}

// Returns the bytes that the model needs on a device, without KV blocks; 0: it is not on the
// device.
static uint64_t bytes_on(const struct loaded_model *m, const struct loaded_device *device)
{
    int rank = m->plan ? rank_on(m, device) : -1;
    if (rank < 0)
        return 0;
    return gpu_count(m) == 1 ? m->plan->bytes : model_plan_bytes(m->plan, (uint32_t)rank);
}

// Returns an error if another model's ranks use the same GPUs: NCCL requires that all GPUs run the
// collectives of two communicators in the same order.
static enum status gpus_check(const struct loaded *loaded, const struct loaded_model *m,
                              struct error *err)
{
    for (const struct loaded_model *other = loaded->models; other < m; other++)
        for (uint32_t i = 0; gpu_count(other) > 1 && i < gpu_count(other); i++)
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
    uint32_t size = m->spec.settings.tensor_parallel_size;
    bool gpus = gpu_count(m) > 1;
    struct loaded_ranks *ranks = gpus ? &m->ranks : &loaded->ranks[size];
    if (size == 1)
        return STATUS_OK;
    if (device->facts.ranks_max < size)
        return error_set(
            err, STATUS_UNSUPPORTED,
            "model '%s': --tensor-parallel-size %u needs as many GPUs, and there are %u",
            m->spec.id, size, device->facts.ranks_max);
    options->share.tp_size = size;
    options->devices = ranks->devices;
    options->device_names = m->rank_names;
    options->start_ns = loaded->start_ns;
    enum status status = gpus ? gpus_check(loaded, m, err) : STATUS_OK;
    while (ranks->count < size && status == STATUS_OK) {
        struct device_options rank = device->options;
        rank.index = gpus ? m->choices[ranks->count]->index : ranks->count;
        rank.ranks = size;
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
    options.yes_id = tokenizer_token(m->tokenizer, text_of("yes"));
    options.no_id = tokenizer_token(m->tokenizer, text_of("no"));
    options.tokenizer_length = tokenizer_length(m->tokenizer);
    struct device *device = options.devices ? options.devices[0] : m->device->device;
    status = model_plan_open(&m->plan, m->spec.folder, m->device->api, device, &options, err);
    if (status == STATUS_OK && m->plan->facts.kind == MODEL_GENERATOR)
        ends_load(m);
    if (m != first)
        return status;
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

static uint64_t device_planned(const struct loaded *loaded, const struct loaded_device *device)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < loaded->model_count; i++)
        bytes += bytes_on(&loaded->models[i], device);
    return bytes;
}

// Sets the KV memory of a model without --kv-cache-memory: its share of the available memory, but
// not more than all its sequences can fill. If the device has a default, also not more than that,
// or than the longest possible sequence needs, if this is larger (docs/adr/0046).
static void kv_default(const struct loaded *loaded, struct loaded_model *m, uint64_t share)
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
        m->kv_bytes = modest;
        struct text rule =
            arena_format(loaded->arena, "the default, %.4g GiB per model", (double)modest / 0x1p30);
        m->kv_rule = longest ? "one sequence of the maximum length" : rule.at;
    }
}

static enum status kv_too_small(const struct loaded *loaded, const struct loaded_device *device,
                                const struct loaded_model *m, struct error *err)
{
    bool several = loaded->devices.count > 1;
    const struct model_facts *facts = &m->plan->facts;
    uint64_t tokens = m->kv_bytes / facts->block_bytes * facts->block_tokens;
    error_set(err, STATUS_NO_MEMORY,
              "model '%s': a sequence of %u tokens needs %.2f MiB for keys and values, and there "
              "are %.2f MiB%s%s: raise --kv-cache-memory",
              m->spec.id, facts->max_model_len, (double)m->plan->kv_bytes_min / 0x1p20,
              (double)m->kv_bytes / 0x1p20, several ? " on " : "", several ? device->label : "");
    size_t used = strlen(err->text);
    if (tokens > 0)
        snprintf(err->text + used, sizeof err->text - used,
                 ", or --max-model-len %" PRIu64 " would fit", tokens);
    return STATUS_NO_MEMORY;
}

// Returns further advice for a plan that does not fit on a GPU: split a decoder over more GPUs, in
// place of copies if it has any.
static const char *split_advice(const struct loaded *loaded, const struct loaded_device *device)
{
    const char *advice = "";
    for (uint32_t i = 0; i < loaded->model_count; i++) {
        const struct loaded_model *m = &loaded->models[i];
        const struct model_settings *s = &m->spec.settings;
        if (device->kind == DEVICE_CPU || !is_on(m, device) || !m->plan->facts.paged ||
            s->tensor_parallel_size >= device->facts.ranks_max)
            continue;
        if (s->data_parallel_size > 1)
            return ", or split the model over the GPUs: --tensor-parallel-size in place of "
                   "--data-parallel-size";
        advice = ", or split a model over several GPUs: --tensor-parallel-size";
    }
    return advice;
}

static enum status plan_too_large(const struct loaded *loaded, const struct loaded_device *device,
                                  uint64_t needed, struct error *err)
{
    bool several = loaded->devices.count > 1;
    return error_set(err, STATUS_NO_MEMORY,
                     "the plan needs %.2f GiB%s%s and %.2f GiB are free: serve fewer models, "
                     "smaller ones or with --dtype int8, or lower --kv-cache-memory, "
                     "--max-num-batched-tokens, --max-num-seqs or --max-model-len%s",
                     (double)needed / 0x1p30, several ? " of " : "", several ? device->label : "",
                     (double)device->facts.memory_available / 0x1p30, split_advice(loaded, device));
}

// Splits a device's KV memory, in proportion to kv-share, among the models without their own
// kv-cache-memory.
static enum status kv_split(struct loaded *loaded, const struct loaded_device *device,
                            struct error *err)
{
    uint64_t planned = device_planned(loaded, device);
    uint64_t fixed = 0;
    double shares = 0;
    for (uint32_t i = 0; i < loaded->model_count; i++) {
        struct loaded_model *m = &loaded->models[i];
        uint64_t requested = m->spec.settings.kv_cache_memory;
        if (bytes_on(m, device) == 0 || m->plan->kv_bytes_min == 0)
            continue;
        if (requested > 0) {
            m->kv_bytes = requested;
            m->kv_rule = "--kv-cache-memory";
        }
        fixed += requested / gpu_count(m);
        shares += requested == 0 ? m->spec.settings.kv_share : 0;
    }
    uint64_t memory = device->facts.memory_available;
    if (planned + fixed > memory)
        return plan_too_large(loaded, device, planned + fixed, err);
    uint64_t left = memory - planned - fixed;
    uint64_t most = (uint64_t)((double)memory * device->facts.kv_share);
    uint64_t available = left > most ? most : left;
    for (uint32_t i = 0; i < loaded->model_count; i++) {
        struct loaded_model *m = &loaded->models[i];
        uint64_t others_allow = m->kv_bytes; // limit from the GPUs of other ranks; 0: no limit yet
        const char *rule = m->kv_rule;
        if (bytes_on(m, device) == 0 || m->plan->kv_bytes_min == 0)
            continue;
        if (m->spec.settings.kv_cache_memory == 0)
            kv_default(loaded, m,
                       (uint64_t)((double)available * (m->spec.settings.kv_share / shares)) *
                           gpu_count(m));
        if (others_allow > 0 && others_allow < m->kv_bytes) {
            m->kv_bytes = others_allow;
            m->kv_rule = rule;
        }
        if (m->kv_bytes < m->plan->kv_bytes_min)
            return kv_too_small(loaded, device, m, err);
    }
    return STATUS_OK;
}

struct device_need memory_planned(const struct loaded_model *m)
{
    struct device_need need = m->plan->need;
    if (m->kv_bytes == 0)
        return need;
    check(need.count < DEVICE_NEED_MAX, "over %d memory labels", DEVICE_NEED_MAX);
    need.entry[need.count].label = "keys and values";
    need.entry[need.count++].bytes = m->kv_bytes;
    return need;
}

const char *facts_held(const struct model_facts *facts)
{
    return facts->formats[0] != '\0' ? facts->formats : dtype_name(facts->dtype);
}

void plan_print(FILE *out, const struct loaded_model *m)
{
    const struct model_facts *f = &m->plan->facts;
    char ranks[32] = "";
    if (f->ranks > 1)
        snprintf(ranks, sizeof ranks, ", shared by %u ranks", f->ranks);
    char copy[32] = "";
    if (m->spec.settings.data_parallel_size > 1)
        snprintf(copy, sizeof copy, ", copy %u", m->copy);
    fprintf(out, "%s%s: %s, %s, %.1f M parameters in %s, %u tokens at most%s\n",
            safe_of(text_of(m->spec.id)).at, copy, f->architecture, model_kind_name(f->kind),
            (double)f->parameter_count / 1e6, facts_held(f), f->max_model_len, ranks);
    struct device_need need = memory_planned(m);
    for (uint32_t i = 0; i < need.count; i++) {
        fprintf(out, "  %-28s %12.2f MiB", need.entry[i].label,
                (double)need.entry[i].bytes / 0x1p20);
        if (m->kv_bytes > 0 && i + 1 == need.count)
            fprintf(out, " (%" PRIu64 " blocks of %u tokens, %s; %s)",
                    (uint64_t)(m->kv_bytes / f->block_bytes), f->block_tokens,
                    dtype_name(f->kv_dtype), m->kv_rule);
        putc('\n', out);
    }
    if (m->engine_options.port_count > 0)
        fprintf(out, "  %-28s %12.2f MiB (allocated when used)\n", "scheduler",
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

static void table_row(const struct loaded *loaded, const char *name, const uint64_t *bytes)
{
    char line[64 + 12 * DEVICES_MAX];
    int at = snprintf(line, sizeof line, "  %-28.28s", name);
    for (uint32_t d = 0; d < loaded->devices.count; d++)
        at += bytes[d] > 0 ? snprintf(line + at, sizeof line - (size_t)at, " %9.2f",
                                      (double)bytes[d] / 0x1p30)
                           : snprintf(line + at, sizeof line - (size_t)at, " %9s", "-");
    log_text("%s\n", line);
}

// Prints a table for several devices: a column for each device, a row for each copy of a model.
static void table_print(const struct loaded *loaded)
{
    char line[64 + 12 * DEVICES_MAX];
    uint64_t planned[DEVICES_MAX] = {0}, had[DEVICES_MAX] = {0};
    int at = snprintf(line, sizeof line, "  %-28s", "GiB");
    for (uint32_t d = 0; d < loaded->devices.count; d++) {
        at += snprintf(line + at, sizeof line - (size_t)at, " %9s", loaded->devices.at[d].label);
        had[d] = loaded->devices.at[d].facts.memory_available;
    }
    log_text("%s\n", line);
    for (uint32_t i = 0; i < loaded->model_count; i++) {
        const struct loaded_model *m = &loaded->models[i];
        if (!m->plan)
            continue;
        uint64_t bytes[DEVICES_MAX] = {0};
        char name[64];
        safe_put(name, sizeof name, text_of(m->spec.id));
        size_t used = strlen(name);
        if (m->spec.settings.data_parallel_size > 1)
            snprintf(name + (used < 20 ? used : 20), sizeof name - 20, " copy %u", m->copy);
        for (uint32_t d = 0; d < loaded->devices.count; d++) {
            bytes[d] = bytes_on(m, &loaded->devices.at[d]);
            bytes[d] += bytes[d] > 0 ? m->kv_bytes / gpu_count(m) : 0;
            planned[d] += bytes[d];
        }
        table_row(loaded, name, bytes);
    }
    table_row(loaded, "planned", planned);
    table_row(loaded, "free", had);
}

static void size_write(char *out, size_t out_bytes, uint64_t bytes)
{
    bool large = bytes >= 1u << 30;
    double size = (double)bytes / (large ? 0x1p30 : 0x1p20);
    snprintf(out, out_bytes, "%.*f %s", large ? 2 : size < 10 ? 1 : 0, size, large ? "GiB" : "MiB");
}

// Prints the memory plan of each device. complete: true if with all entries of the plan, false if
// only the device and the sum. more: line printed after the entries of the first device, or NULL.
static void plans_print(const struct loaded *loaded, const char *more, bool complete)
{
    if (log_level_get() < LOG_INFO)
        return;
    bool several = loaded->devices.count > 1;
    if (several)
        table_print(loaded);
    for (uint32_t d = 0; d < loaded->devices.count; d++) {
        const struct loaded_device *device = &loaded->devices.at[d];
        uint64_t planned = device_planned(loaded, device), kv = 0;
        log_text("device: %s%s%s%s\n", several ? device->label : "", several ? ", " : "",
                 device->facts.name, device->facts.exact ? ", exact" : "");
        for (uint32_t i = 0; i < loaded->model_count; i++) {
            const struct loaded_model *m = &loaded->models[i];
            if (m->device == device && complete)
                plan_log(m);
            kv += bytes_on(m, device) > 0 ? m->kv_bytes / gpu_count(m) : 0;
        }
        planned += kv;
        if (more && complete && d == 0)
            log_text("%s\n", more);
        char all[24], available[24], kept[24], part[96] = "";
        size_write(all, sizeof all, planned);
        size_write(available, sizeof available, device->facts.memory_available);
        size_write(kept, sizeof kept, kv);
        if (kv > 0)
            snprintf(part, sizeof part, ", %s of it for keys and values (--kv-cache-memory)", kept);
        log_text("planned: %s of %s%s%s\n", all, available, part,
                 complete ? "" : " (-v: the complete plan)");
    }
}

static bool has_earlier_copy(const struct loaded_model *m, const struct loaded_device *device)
{
    for (uint32_t back = 1; back <= m->copy; back++)
        if (m[-(ptrdiff_t)back].device == device)
            return true;
    return false;
}

// Returns the device with most memory left among those that the copy may use. Copies of one model
// are on different devices, unless it has only one choice.
static struct loaded_device *device_choose(const struct loaded *loaded,
                                           const struct loaded_model *m)
{
    struct loaded_device *best = NULL;
    uint64_t most = 0;
    if (gpu_count(m) > 1)
        return m->choices[0];
    for (uint32_t i = 0; i < m->choice_count; i++) {
        struct loaded_device *device = m->choices[i];
        uint64_t planned = device_planned(loaded, device), free = device->facts.memory_available;
        uint64_t left = free > planned ? free - planned : 0;
        if (m->choice_count > 1 && has_earlier_copy(m, device))
            continue;
        if (!best || left > most) {
            best = device;
            most = left;
        }
    }
    check(best, "no device is left for copy %u", m->copy);
    return best;
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
            status = engine_open(&m->engine, m->model, &m->engine_options, err);
        if (status != STATUS_OK)
            return status;
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

uint64_t memory_on(const struct loaded_model *m, const struct loaded_device *device)
{
    uint64_t bytes = 0;
    for (uint32_t r = 0; m->plan && r < gpu_count(m); r++) {
        const struct loaded_device *own = gpu_count(m) == 1 ? m->device : m->choices[r];
        if (own->kind == device->kind && own->index == device->index)
            bytes += bytes_on(m, own) + m->kv_bytes / gpu_count(m);
    }
    return bytes;
}

void loaded_discard(struct loaded *loaded)
{
    sources_close(loaded);
    for (uint32_t i = loaded->model_count; i-- > 0;)
        copy_close(&loaded->models[i]);
    arena_destroy(loaded->arena);
}

void loaded_close(struct loaded *loaded)
{
    sources_close(loaded);
    for (uint32_t i = loaded->model_count; i-- > 0;)
        copy_close(&loaded->models[i]);
    for (uint32_t size = 2; size <= RANKS_MAX; size++)
        for (uint32_t r = 0; r < loaded->ranks[size].count; r++)
            device_cpu()->close(loaded->ranks[size].devices[r]);
    devices_close(&loaded->devices);
    arena_destroy(loaded->arena);
}
