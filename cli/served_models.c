// SPDX-License-Identifier: Apache-2.0
// The models that a server serves; see served_models.h. A request uses the list that was served
// when it began. A model is freed once no request of an older list can choose it any more, those
// that chose it have ended, and its engines have no requests.
#include "cli/served_models.h"

#include "cli/fingerprint.h"
#include "cli/load_memory.h"
#include "http/api/grammars.h"
#include "base/clock.h"
#include "base/log.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

enum { POLL_US = 1000, SLOTS_MORE = 64 };

struct served_list {
    struct served served;
    struct served_use use;
    struct served_list *older;
    struct served_copy *copies; // [served.copy_count]
    struct served_model models[];
};

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

static void entry_fill(struct served_entry *entry)
{
    struct loaded_model *m = entry->first;
    entry->model = (struct served_model){.id = m->spec.id,
                                         .other_names = m->spec.names.at + 1,
                                         .other_name_count = m->spec.names.count - 1,
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
                                         .n_max = m->spec.settings.max_n,
                                         .use = &entry->use};
    fingerprint_make(entry->model.fingerprint, m);
    generic_calls_set(&entry->model);
}

enum status served_models_add(struct served_models *all, struct loaded *loaded,
                              struct loaded_model *first, bool own, struct error *err)
{
    if (all->count == MODELS_MAX || !engines_add(&all->engines, first))
        return error_set(err, STATUS_TOO_LARGE, "at most %d models are served: unload one first",
                         MODELS_MAX);
    struct served_entry *entry = heap_alloc_zeroed(1, sizeof *entry);
    entry->loaded = loaded;
    entry->first = first;
    entry->own = own;
    entry_fill(entry);
    all->entries[all->count++] = entry;
    return STATUS_OK;
}

// Makes a list of all entries and puts it before the older ones.
static struct served_list *list_make(struct served_models *all)
{
    uint32_t copies = 0, at = 0;
    for (uint32_t i = 0; i < all->count; i++)
        copies += all->entries[i]->model.copy_count;
    struct served_list *list =
        heap_alloc_zeroed(1, sizeof *list + all->count * sizeof *list->models);
    list->copies = heap_alloc_zeroed(copies + 1, sizeof *list->copies);
    for (uint32_t i = 0; i < all->count; i++) {
        struct loaded_model *first = all->entries[i]->first;
        list->models[i] = all->entries[i]->model;
        list->models[i].copies = &list->copies[at];
        for (uint32_t c = 0; c < list->models[i].copy_count; c++)
            list->copies[at++] = (struct served_copy){.slot = first[c].slot,
                                                      .model = &list->models[i],
                                                      .engine = first[c].engine,
                                                      .device = first[c].label,
                                                      .memory = memory_planned(&first[c])};
    }
    list->served = (struct served){.models = list->models,
                                   .count = all->count,
                                   .grammars = all->grammars,
                                   .copies = list->copies,
                                   .copy_count = copies,
                                   .slot_count = copies + (all->changes ? SLOTS_MORE : 0),
                                   .use = &list->use};
    list->older = all->lists;
    all->lists = list;
    return list;
}

static void list_destroy(struct served_list *list)
{
    heap_free(list->copies);
    heap_free(list);
}

// Frees older lists that no exchange uses.
static void lists_clean(struct served_models *all)
{
    for (struct served_list **link = &all->lists->older; *link && !all->stuck;) {
        struct served_list *list = *link;
        if (atomic_load(&list->use.exchanges) > 0) {
            link = &list->older;
            continue;
        }
        *link = list->older;
        list_destroy(list);
    }
}

static void ports_make(struct served_models *all, const struct loaded_model *copy,
                       struct port **out)
{
    for (uint32_t t = 0; t < all->http_threads; t++)
        out[t] = engine_port(copy->engine, t, server_waker(all->server, t));
}

enum status served_models_begin(struct served_models *all, struct error *err)
{
    uint32_t copies = list_make(all)->served.copy_count;
    enum status status = STATUS_OK;
    all->ports = heap_alloc_zeroed(copies * all->http_threads, sizeof *all->ports);
    for (uint32_t i = 0; i < all->count; i++)
        for (uint32_t c = 0; c < all->entries[i]->model.copy_count; c++) {
            const struct loaded_model *copy = &all->entries[i]->first[c];
            ports_make(all, copy, all->ports + copy->slot * all->http_threads);
        }
    for (uint32_t i = 0; i < all->count && status == STATUS_OK; i++)
        status = engines_start(&all->engines, all->entries[i]->first, err);
    return status;
}

void served_models_serve(struct served_models *all)
{
    server_serve(all->server, &all->lists->served, all->ports);
    heap_free(all->ports);
    all->ports = NULL;
}

enum status served_models_open(struct served_models *all, struct error *err)
{
    struct port **ports = heap_alloc_zeroed(all->http_threads, sizeof *ports);
    struct served_entry *entry = all->entries[all->count - 1];
    for (uint32_t c = 0; c < entry->model.copy_count; c++) {
        ports_make(all, &entry->first[c], ports);
        server_slot_open(all->server, entry->first[c].slot, ports);
    }
    heap_free(ports);
    enum status status = engines_start(&all->engines, entry->first, err);
    if (status != STATUS_OK)
        return status;
    all->stuck = !server_replace(all->server, &list_make(all)->served) || all->stuck;
    lists_clean(all);
    return STATUS_OK;
}

// Waits until requests cannot choose the model any more, and those that did have ended.
static bool users_wait(struct served_models *all, const struct served_entry *entry)
{
    for (;;) {
        uint32_t users = 0;
        for (const struct served_list *list = all->lists->older; list; list = list->older)
            users += atomic_load(&list->use.undecided);
        users += atomic_load(&entry->use.exchanges); // after the others: see exchange_decide
        if (users == 0)
            return true;
        if (atomic_load(&all->stopping) || engine_has_failed(&all->engines, entry->first))
            return false;
        usleep(POLL_US);
    }
}

enum status served_models_close(struct served_models *all, struct served_entry *entry,
                                struct error *err)
{
    uint32_t at = 0, copies = entry->model.copy_count;
    while (all->entries[at] != entry)
        at++;
    memmove(&all->entries[at], &all->entries[at + 1],
            (--all->count - at) * sizeof(struct served_entry *));
    bool moved = server_replace(all->server, &list_make(all)->served);
    all->stuck = !moved || all->stuck;
    bool ended = moved && users_wait(all, entry) && engines_remove(&all->engines, entry->first);
    for (uint32_t c = 0; c < copies && ended; c++)
        ended = server_slot_close(all->server, entry->first[c].slot);
    if (!ended)
        return error_set(err, STATUS_REFUSED,
                         "the model '%s' is not served any more, but its memory cannot be freed: "
                         "its device failed, or the server ends",
                         entry->first->spec.id);
    if (entry->own)
        loaded_discard(entry->loaded);
    else
        loaded_model_close(entry->first);
    heap_free(entry);
    lists_clean(all);
    return STATUS_OK;
}

struct served_entry *served_models_find(const struct served_models *all, const char *name)
{
    for (uint32_t i = 0; i < all->count; i++) {
        const struct texts *names = &all->entries[i]->first->spec.names;
        for (uint32_t k = 0; k < names->count; k++)
            if (strcmp(names->at[k], name) == 0)
                return all->entries[i];
    }
    return NULL;
}

void served_models_end(struct served_models *all)
{
    for (uint32_t i = 0; i < all->count; i++) {
        if (all->entries[i]->own)
            loaded_discard(all->entries[i]->loaded);
        heap_free(all->entries[i]);
    }
    for (struct served_list *list = all->lists, *older; list; list = older) {
        older = list->older;
        list_destroy(list);
    }
    grammars_destroy(all->grammars);
}
