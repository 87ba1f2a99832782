// SPDX-License-Identifier: Apache-2.0
// A server as one of several nodes; see group.h. The callbacks of the channel run on its thread.
#include "cli/group.h"

#include "cli/command.h"
#include "cli/keys.h"
#include "base/file.h"
#include "base/log.h"
#include "runtime/model/digest.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { SECRET_BYTES_MAX = 4096 };

static bool is_split(const struct model_spec *spec)
{
    return spec->settings.tensor_parallel_size > 1;
}

static enum status secret_file_read(struct node_group *g, const char *path, struct arena *arena,
                                    struct error *err)
{
    struct text text;
    if (!path)
        return STATUS_OK;
    enum status status = file_read(&text, arena, path, SECRET_BYTES_MAX, err);
    if (status != STATUS_OK)
        return error_prefix(err, "--cluster-secret-file");
    secret_file_warn("--cluster-secret-file", path);
    size_t bytes = strcspn(text.at, " \t\r\n");
    if (bytes != SECRET_DIGITS || strspn(text.at + bytes, " \t\r\n") != text.bytes - bytes)
        return error_set(err, STATUS_INVALID,
                         "--cluster-secret-file %s must contain %d hexadecimal digits and nothing "
                         "else ('openssl rand -hex 32' writes them)",
                         path, SECRET_DIGITS);
    g->secret = arena_format(arena, "%.*s", SECRET_DIGITS, text.at).at;
    return STATUS_OK;
}

static enum status split_check(const struct node_group *g, const struct model_spec *spec,
                               struct error *err)
{
    uint32_t ranks = spec->settings.tensor_parallel_size;
    if (ranks % g->nodes.count != 0)
        return error_set(err, STATUS_INVALID,
                         "model '%s': --tensor-parallel-size %u cannot be divided among %u nodes "
                         "(%s): it must be a multiple",
                         spec->id, ranks, g->nodes.count, g->nodes.count_from);
    if (spec->settings.data_parallel_size > 1)
        return error_set(err, STATUS_UNSUPPORTED,
                         "model '%s': copies of a model that is split over nodes are not "
                         "supported: leave --data-parallel-size out",
                         spec->id);
    return STATUS_OK;
}

static void words_make(struct node_group *g, uint32_t ranks)
{
    uint32_t each = ranks / g->nodes.count;
    for (uint32_t i = 0; i < g->nodes.count; i++) {
        if (each == 1)
            snprintf(g->words[i], sizeof g->words[i], "node %u (rank %u of %u)", i, i, ranks);
        else
            snprintf(g->words[i], sizeof g->words[i], "node %u (ranks %u to %u of %u)", i, i * each,
                     (i + 1) * each - 1, ranks);
        g->word_list[i] = g->words[i];
    }
}

enum status node_group_find(struct node_group *g, const struct serve_settings *settings,
                            struct model_spec *specs, uint32_t *count, struct arena *arena,
                            struct error *err)
{
    const struct nodes_options options = {settings->nnodes, settings->node_rank,
                                          settings->master_addr, settings->master_port};
    enum status status = nodes_find(&g->nodes, &options, options_environment, err);
    uint32_t kept = 0, ranks = 0;
    g->heartbeat_s = settings->heartbeat_timeout;
    if (status != STATUS_OK || g->nodes.count == 1)
        return status;
    for (uint32_t i = 0; i < *count && status == STATUS_OK; i++) {
        if (is_split(&specs[i])) {
            specs[i].nodes = g->nodes.count;
            status = split_check(g, &specs[i], err);
            ranks = g->split_count++ == 0 ? specs[i].settings.tensor_parallel_size : ranks;
        }
        if (is_split(&specs[i]) || !node_group_follows(g))
            specs[kept++] = specs[i];
    }
    if (status == STATUS_OK && g->split_count == 0)
        return error_set(err, STATUS_INVALID,
                         "%s is %u and no model is split over the nodes: add "
                         "--tensor-parallel-size %u, or set --nnodes 1",
                         g->nodes.count_from, g->nodes.count, g->nodes.count);
    *count = kept;
    words_make(g, ranks);
    return status == STATUS_OK ? secret_file_read(g, settings->cluster_secret_file, arena, err)
                               : status;
}

static void on_lost(void *context, const struct error *err)
{
    struct node_group *g = context;
    if (!atomic_load(&g->running)) { // other threads load models
        log_line(LOG_ERROR, "%s", err->text);
        process_end(EXIT_CODE_FAILURE);
    }
    if (g->engines)
        engines_nodes_failed(g->engines, err->text);
    signals_post(g->signals, NEWS_FAULT);
}

static void on_leave(void *context)
{
    struct node_group *g = context;
    log_line(LOG_INFO, "another node got a signal to stop: the group ends");
    signals_post(g->signals, NEWS_STOP);
}

enum status node_group_begin(struct node_group *g, struct loaded *loaded, struct signals *signals,
                             struct error *err)
{
    const struct channel_options options = {.node = g->nodes.rank,
                                            .nodes = g->nodes.count,
                                            .models = g->split_count,
                                            .address = g->nodes.address,
                                            .port = g->nodes.port,
                                            .secret = g->secret,
                                            .heartbeat_s = g->heartbeat_s,
                                            .words = g->word_list,
                                            .lost = on_lost,
                                            .leave = on_leave,
                                            .context = g};
    uint32_t index = 0;
    g->signals = signals;
    if (g->nodes.count == 1)
        return STATUS_OK;
    for (uint32_t i = 0; i < loaded->model_count; i++) {
        struct loaded_model *m = &loaded->models[i];
        if (!is_split(&m->spec))
            continue;
        const struct cluster_link_options link = {g->nodes.rank, g->nodes.count, index,
                                                  m->spec.settings.tensor_parallel_size};
        g->links[index] = cluster_link_create(&link);
        m->link = cluster_link_model(g->links[index++]);
    }
    loaded->follows = node_group_follows(g);
    enum status status = channel_open(&g->channel, &options, err);
    if (status == STATUS_OK)
        log_line(LOG_INFO, "this is %s; node 0 is at %s port %u", g->words[g->nodes.rank],
                 g->nodes.address, g->nodes.port);
    return status;
}

static void fact_number(struct facts *facts, const char *model, const char *name, uint64_t value)
{
    char label[MESSAGE_FACT_TEXT_MAX], text[32];
    snprintf(label, sizeof label, "model '%.200s': %s", model, name);
    snprintf(text, sizeof text, "%" PRIu64, value);
    facts_add(facts, label, text);
}

static void fact_text(struct facts *facts, const char *model, const char *name, const char *value)
{
    char label[MESSAGE_FACT_TEXT_MAX];
    snprintf(label, sizeof label, "model '%.200s': %s", model, name);
    facts_add(facts, label, value);
}

static void fact_hash(struct facts *facts, const char *model, const char *name, struct hash hash)
{
    char text[40];
    snprintf(text, sizeof text, "%016" PRIx64 "%016" PRIx64, hash.high, hash.low);
    fact_text(facts, model, name, text);
}

// Adds what must be equal on all nodes: settings as they take effect, and the files.
static enum status model_facts_add(struct facts *facts, const struct loaded_model *m,
                                   struct error *err)
{
    const struct model_facts *f = &m->plan->facts;
    const char *id = m->spec.id;
    struct model_digest digest;
    enum status status = model_plan_digest(&digest, m->plan, m->spec.folder, err);
    if (status != STATUS_OK)
        return status;
    fact_number(facts, id, "--tensor-parallel-size", f->ranks);
    fact_text(facts, id, "--dtype", dtype_name(f->dtype));
    fact_text(facts, id, "the format of its weights", f->formats);
    fact_text(facts, id, "--kv-cache-dtype", dtype_name(f->kv_dtype));
    fact_number(facts, id, "--max-model-len", f->max_model_len);
    fact_number(facts, id, "--max-num-seqs", f->limits.rows_max);
    fact_number(facts, id, "--max-num-batched-tokens", f->limits.tokens_max);
    fact_number(facts, id, "--block-size", f->block_tokens);
    fact_number(facts, id, "--penalty-rows", f->limits.penalty_rows);
    fact_hash(facts, id, "the digest of config.json", digest.config);
    fact_hash(facts, id, "the digest of the headers of all tensors", digest.headers);
    fact_hash(facts, id, "the digest of the first 64 KiB of each tensor", digest.starts);
    fact_number(facts, id, "--kv-cache-memory", m->spec.settings.kv_cache_memory);
    fact_text(facts, id, "--exact", m->device->facts.exact ? "on" : "off");
    if (m->device->kind != DEVICE_CPU) {
        fact_text(facts, id, "the kind of device", m->device->facts.name);
        return STATUS_OK;
    }
    const char *isa = strrchr(m->device->facts.name, ',');
    fact_text(facts, id, "the kind of device", "a CPU");
    fact_text(facts, id, "the instruction set of the CPU", isa ? isa + 2 : "");
    return STATUS_OK;
}

// Lowers the KV memory of a model to that of the node with the fewest KV blocks: the engine of node
// 0 numbers the blocks of all.
static enum status kv_blocks_agree(struct node_group *g, struct loaded_model *m, struct error *err)
{
    const struct comm_link *link = &m->link->comm;
    uint64_t block_bytes = m->plan->facts.block_bytes;
    uint64_t own = m->kv_bytes / block_bytes, least = own, blocks[RANKS_MAX] = {0};
    size_t ends[RANKS_MAX] = {0};
    for (uint32_t r = 0; r < link->ranks; r++) {
        ends[r] = (r + 1) * sizeof *blocks;
        blocks[r] = own;
    }
    if (link->exchange(link->context, blocks, ends) != STATUS_OK) {
        error_set(err, STATUS_DEVICE_FAULT, "the nodes do not exchange messages");
        (void)channel_failed(g->channel, err);
        return STATUS_DEVICE_FAULT;
    }
    for (uint32_t r = 0; r < link->ranks; r++)
        least = blocks[r] < least ? blocks[r] : least;
    if (least < own)
        log_line(LOG_INFO,
                 "model '%s': %" PRIu64 " KV blocks as on the node with the least memory, not "
                 "%" PRIu64,
                 m->spec.id, least, own);
    m->kv_bytes = least * block_bytes;
    return STATUS_OK;
}

enum status node_group_meet(struct node_group *g, struct loaded *loaded, struct error *err)
{
    struct facts facts = {0};
    char number[16];
    uint32_t index = 0;
    enum status status = STATUS_OK;
    if (g->nodes.count == 1)
        return STATUS_OK;
    snprintf(number, sizeof number, "%u", g->split_count);
    facts_add(&facts, "the version of weft", WEFT_VERSION);
    facts_add(&facts, "the number of split models", number);
    for (uint32_t i = 0; i < loaded->model_count && status == STATUS_OK; i++) {
        struct loaded_model *m = &loaded->models[i];
        if (!m->link)
            continue;
        status = model_facts_add(&facts, m, err);
        cluster_link_begin(g->links[index++], g->channel, &m->plan->facts);
    }
    if (status == STATUS_OK && !node_group_follows(g))
        log_line(LOG_INFO, "waiting for %u other node%s, at most %d s", g->nodes.count - 1,
                 g->nodes.count == 2 ? "" : "s", GROUP_MEET_S);
    else if (status == STATUS_OK)
        log_line(LOG_INFO, "waiting for node 0 at %s port %u, at most %d s", g->nodes.address,
                 g->nodes.port, GROUP_MEET_S);
    if (status == STATUS_OK)
        status = channel_meet(g->channel, &facts, GROUP_MEET_S, err);
    facts_free(&facts);
    for (uint32_t i = 0; i < loaded->model_count && status == STATUS_OK; i++)
        if (loaded->models[i].link)
            status = kv_blocks_agree(g, &loaded->models[i], err);
    return status;
}

enum status node_group_ready(struct node_group *g, struct engines *engines, struct error *err)
{
    enum status status = STATUS_OK;
    if (g->nodes.count == 1)
        return STATUS_OK;
    for (uint32_t i = 0; i < g->split_count && status == STATUS_OK; i++)
        status = cluster_link_ready(g->links[i], err);
    g->engines = engines;
    atomic_store(&g->running, true);
    // a fault before this line may have found no engines
    if (status == STATUS_OK && channel_failed(g->channel, err))
        status = err->status;
    return status;
}

struct follow {
    pthread_t thread;
    struct node_group *group;
    struct cluster_link *link;
    struct model *model;
    struct error err;
    enum status status;
};

static void *follow_main(void *argument)
{
    struct follow *f = argument;
    pthread_setname_np(pthread_self(), "weft-follow");
    f->status = cluster_follow(f->link, f->model, &f->err);
    signals_post(f->group->signals, NEWS_FAULT); // main looks at the channel
    return NULL;
}

// Waits until the group ends; returns false after a fault.
static bool end_await(struct node_group *g, struct error *err)
{
    enum { EVERY_MS = 1000 };
    bool left = false;
    while (!channel_ended(g->channel)) {
        if (channel_failed(g->channel, err))
            return false;
        uint32_t news = signals_wait(g->signals, EVERY_MS);
        if ((news & NEWS_STOP) && !left) {
            log_line(LOG_INFO, "this node got a signal to stop: node 0 is notified");
            channel_leave(g->channel);
            left = true;
        }
    }
    return true;
}

int node_group_follow(struct node_group *g, struct loaded *loaded)
{
    struct follow *follows =
        arena_alloc_zeroed(loaded->arena, loaded->model_count, sizeof *follows);
    struct error err;
    uint32_t started = 0;
    bool ended = true;
    atomic_store(&g->running, true);
    for (; started < loaded->model_count && ended; started++) {
        struct follow *f = &follows[started];
        *f = (struct follow){
            .group = g, .link = g->links[started], .model = loaded->models[started].model};
        int failed = pthread_create(&f->thread, NULL, follow_main, f);
        if (failed != 0) {
            error_thread(&err, failed, "the thread of a model");
            channel_fail(g->channel, &err);
            ended = false;
        }
    }
    if (ended)
        log_line(LOG_INFO, "ready: computes for node 0");
    ended = ended && end_await(g, &err);
    if (!ended) {
        log_line(LOG_ERROR, "%s ends: %s", g->words[g->nodes.rank], err.text);
        node_group_abandon(g, NULL);
        return EXIT_CODE_FAILURE;
    }
    for (uint32_t i = 0; i < started; i++)
        pthread_join(follows[i].thread, NULL);
    log_line(LOG_INFO, "stopped");
    return EXIT_CODE_OK;
}

void node_group_end(struct node_group *g)
{
    if (g->channel)
        channel_end(g->channel, true);
}

void node_group_abandon(struct node_group *g, const struct error *err)
{
    if (!g->channel)
        return;
    if (err)
        channel_fail(g->channel, err);
    channel_end(g->channel, false);
}

void node_group_close(struct node_group *g)
{
    for (uint32_t i = 0; i < g->split_count; i++)
        cluster_link_destroy(g->links[i]);
    channel_close(g->channel);
    g->channel = NULL;
}
