// SPDX-License-Identifier: Apache-2.0
// The metrics of engines (one for each copy of a model): engine statistics and request histograms
// with the prefix weft_, and the same values under the names of vLLM (generators) and of
// text-embeddings-inference (embedders, rerankers).
#include "http/api/metrics.h"

#include <inttypes.h>
#include <stdio.h>

struct stat_metric {
    const char *name;
    size_t offset; // in struct engine_stats
};

#define STAT(field) offsetof(struct engine_stats, field)

// Everything that an engine counts.
static const struct stat_metric weft_stats[] = {
    {"steps_total", STAT(steps)},
    {"steps_decode_only_total", STAT(steps_decode_only)},
    {"rows_total", STAT(rows)},
    {"tokens_computed_total", STAT(tokens_computed)},
    {"prompt_tokens_total", STAT(prompt_tokens)},
    {"prompt_tokens_computed_total", STAT(prompt_tokens_computed)},
    {"generation_tokens_total", STAT(generation_tokens)},
    {"prefix_cache_queries_total", STAT(prefix_queries)},
    {"prefix_cache_hits_total", STAT(prefix_hits)},
    {"preemptions_total", STAT(preemptions)},
    {"pauses_total", STAT(pauses)},
    {"parked_total", STAT(parked)},
    {"rows_after_cancel_total", STAT(rows_after_cancel)},
    {"steps_masked_total", STAT(steps_masked)},
    {"masks_alone_total", STAT(masks_alone)},
    {"mask_waits_total", STAT(mask_waits)},
    {"mask_rows_total", STAT(mask_rows)},
    {"masks_postponed_total", STAT(masks_postponed)},
    {"masks_computed_total", STAT(masks_computed)},
    {"masks_reused_total", STAT(masks_reused)},
    {"masks_forgotten_total", STAT(masks_forgotten)},
    {"mask_caches", STAT(mask_caches)},
    {"mask_cache_bytes", STAT(mask_cache_bytes)},
    {"grammars_stuck_total", STAT(grammars_stuck)},
    {"grammars_over_total", STAT(grammars_over)},
    {"grammars_crowded_total", STAT(grammars_crowded)},
    {"grammars_given_up_total", STAT(grammars_given_up)},
    {"requests_submitted_total", STAT(requests_submitted)},
    {"sequences_running", STAT(sequences_running)},
    {"sequences_waiting", STAT(sequences_waiting)},
    {"sequences_parked", STAT(sequences_parked)},
    {"kv_blocks", STAT(blocks_total)},
    {"kv_blocks_used", STAT(blocks_used)},
    {"kv_blocks_cached", STAT(blocks_cached)},
    {"kv_events_lost_total", STAT(kv_events_lost)},
    {"engine_failed", STAT(failed)},
};

// Statistics under vLLM's names, old and new.
static const struct stat_metric vllm_stats[] = {
    {"num_requests_running", STAT(sequences_running)},
    {"num_requests_waiting", STAT(sequences_waiting)},
    {"prompt_tokens_total", STAT(prompt_tokens)},
    {"generation_tokens_total", STAT(generation_tokens)},
    {"num_preemptions_total", STAT(preemptions)},
    {"prefix_cache_queries_total", STAT(prefix_queries)},
    {"prefix_cache_hits_total", STAT(prefix_hits)},
    {"gpu_prefix_cache_queries_total", STAT(prefix_queries)},
    {"gpu_prefix_cache_hits_total", STAT(prefix_hits)},
};

static const char *const finish_labels[COUNTED_FINISH_COUNT] = {
    ",finished_reason=\"stop\"",  ",finished_reason=\"length\"", ",finished_reason=\"abort\"",
    ",finished_reason=\"error\"", ",finished_reason=\"pooled\"",
};

static uint64_t stat_of(const struct metrics *m, uint32_t copy, size_t offset)
{
    const struct engine *engine = m->view.served->copies[copy].engine;
    const char *stats = (const char *)engine_stats(engine);
    return atomic_load_explicit((const _Atomic uint64_t *)(stats + offset), memory_order_relaxed);
}

static bool is_generator(const struct metrics *m, uint32_t copy)
{
    return m->view.served->copies[copy].model->facts->kind == MODEL_GENERATOR;
}

// True if a metric includes this model.
typedef bool model_filter(const struct metrics *m, uint32_t copy);

static bool any_model(const struct metrics *m, uint32_t copy)
{
    (void)m;
    (void)copy;
    return true;
}

static void stats_put(struct metrics *m, const struct stat_metric *table, size_t count,
                      model_filter *filter)
{
    for (size_t i = 0; i < count; i++) {
        metric_head(m, table[i].name);
        for (uint32_t copy = 0; copy < m->view.served->copy_count; copy++) {
            if (!filter(m, copy))
                continue;
            metric_model_labels(m, table[i].name, copy, "");
            json_put_format(m->out, "%llu\n",
                            (unsigned long long)stat_of(m, copy, table[i].offset));
        }
    }
}

struct histogram_sums {
    uint64_t bucket[HISTOGRAM_BUCKETS_MAX + 1];
    uint64_t sum;
};

// Writes the lines of one copy. bounds: [count]; sums has one bucket more, for +Inf.
static void histogram_lines(struct metrics *m, const char *name, uint32_t copy,
                            const double *bounds, uint32_t count, const struct histogram_sums *sums,
                            double sum)
{
    uint64_t total = 0;
    char series[96];
    snprintf(series, sizeof series, "%s_bucket", name);
    for (uint32_t b = 0; b <= count; b++) {
        struct json_buffer le = {0};
        total += sums->bucket[b];
        json_put_literal(&le, ",le=\"");
        if (b < count)
            json_put_double(&le, bounds[b]);
        else
            json_put_literal(&le, "+Inf");
        json_put_raw(&le, text_span("\"\0", 2)); // with a NUL, because `more` is a C string
        metric_model_labels(m, series, copy, le.at);
        json_put_format(m->out, "%llu\n", (unsigned long long)total);
        json_buffer_free(&le);
    }
    snprintf(series, sizeof series, "%s_sum", name);
    metric_model_labels(m, series, copy, "");
    metric_number(m, sum);
    snprintf(series, sizeof series, "%s_count", name);
    metric_model_labels(m, series, copy, "");
    json_put_format(m->out, "%llu\n", (unsigned long long)total);
}

// Returns the counters of a copy on an h2o thread.
static struct model_counters *counters_at(const struct metrics *m, uint32_t copy, uint32_t thread)
{
    return &m->threads[thread]->copies[m->view.served->copies[copy].slot];
}

static struct histogram_sums histogram_sum(const struct metrics *m, uint32_t copy,
                                           enum histogram_id id)
{
    struct histogram_sums sums = {0};
    for (uint32_t t = 0; t < m->view.thread_count; t++) {
        const struct histogram *h = &counters_at(m, copy, t)->histograms[id];
        for (uint32_t b = 0; b <= HISTOGRAM_BUCKETS_MAX; b++)
            sums.bucket[b] += atomic_load_explicit(&h->bucket[b], memory_order_relaxed);
        sums.sum += atomic_load_explicit(&h->sum, memory_order_relaxed);
    }
    return sums;
}

static void histogram_model(struct metrics *m, const char *name, uint32_t copy,
                            enum histogram_id id)
{
    struct histogram_sums sums = histogram_sum(m, copy, id);
    double bounds[HISTOGRAM_BUCKETS_MAX];
    uint32_t window = m->view.served->copies[copy].model->facts->max_model_len;
    uint32_t count = histogram_bounds(id, window, bounds);
    histogram_lines(m, name, copy, bounds, count, &sums,
                    histogram_in_seconds(id) ? (double)sums.sum / 1e9 : (double)sums.sum);
}

static void histogram_put(struct metrics *m, const char *name, enum histogram_id id,
                          model_filter *filter)
{
    metric_head(m, name);
    for (uint32_t copy = 0; copy < m->view.served->copy_count; copy++)
        if (filter(m, copy))
            histogram_model(m, name, copy, id);
}

// Sizes of the steps that an engine launched. buckets, sum: offsets in struct engine_stats.
static void steps_put(struct metrics *m, const char *name, size_t buckets, size_t sum,
                      model_filter *filter)
{
    double bounds[STEP_BUCKETS - 1];
    for (uint32_t b = 0; b + 1 < STEP_BUCKETS; b++)
        bounds[b] = (double)step_bound(b);
    metric_head(m, name);
    for (uint32_t copy = 0; copy < m->view.served->copy_count; copy++) {
        if (!filter(m, copy))
            continue;
        struct histogram_sums sums = {0};
        for (uint32_t b = 0; b < STEP_BUCKETS; b++)
            sums.bucket[b] = stat_of(m, copy, buckets + b * sizeof(uint64_t));
        histogram_lines(m, name, copy, bounds, STEP_BUCKETS - 1, &sums,
                        (double)stat_of(m, copy, sum));
    }
}

static void mask_wait_put(struct metrics *m)
{
    metric_head(m, "mask_wait_seconds_total");
    for (uint32_t copy = 0; copy < m->view.served->copy_count; copy++) {
        metric_model_labels(m, "mask_wait_seconds_total", copy, "");
        metric_number(m, (double)stat_of(m, copy, STAT(mask_wait_ns)) / 1e9);
    }
}

static uint64_t finished_sum(const struct metrics *m, uint32_t copy, enum counted_finish finish)
{
    uint64_t sum = 0;
    for (uint32_t t = 0; t < m->view.thread_count; t++)
        sum +=
            atomic_load_explicit(&counters_at(m, copy, t)->finished[finish], memory_order_relaxed);
    return sum;
}

// Writes the number of finished choices by reason. finishes: number of reasons, from the first of
// enum counted_finish on.
static void finished_put(struct metrics *m, const char *name, int finishes, model_filter *filter)
{
    metric_head(m, name);
    for (uint32_t copy = 0; copy < m->view.served->copy_count; copy++) {
        if (!filter(m, copy))
            continue;
        for (int f = 0; f < finishes; f++) {
            metric_model_labels(m, name, copy, finish_labels[f]);
            json_put_format(m->out, "%llu\n",
                            (unsigned long long)finished_sum(m, copy, (enum counted_finish)f));
        }
    }
}

static void requests_finished_row(struct metrics *m, uint32_t copy, uint32_t row, int finish)
{
    char labels[160];
    uint64_t sum = 0;
    for (uint32_t t = 0; t < m->view.thread_count; t++)
        sum += atomic_load_explicit(&counters_at(m, copy, t)->requests_finished[row][finish],
                                    memory_order_relaxed);
    if (sum == 0)
        return;
    snprintf(labels, sizeof labels, ",handler=\"%s\"%s", m->view.routes[row]->path,
             finish_labels[finish]);
    metric_model_labels(m, "requests_finished_total", copy, labels);
    json_put_format(m->out, "%llu\n", (unsigned long long)sum);
}

// Writes the number of finished requests by route and reason, without those that are 0.
static void requests_finished_put(struct metrics *m)
{
    metric_head(m, "requests_finished_total");
    for (uint32_t copy = 0; copy < m->view.served->copy_count; copy++)
        for (uint32_t row = 0; row < m->view.route_count; row++)
            for (int f = 0; f < COUNTED_FINISH_COUNT; f++)
                requests_finished_row(m, copy, row, f);
}

static void refused_put(struct metrics *m)
{
    metric_head(m, "requests_refused_total");
    for (uint32_t copy = 0; copy < m->view.served->copy_count; copy++) {
        uint64_t sum = 0;
        for (uint32_t t = 0; t < m->view.thread_count; t++)
            sum +=
                atomic_load_explicit(&counters_at(m, copy, t)->refused_busy, memory_order_relaxed);
        metric_model_labels(m, "requests_refused_total", copy, "");
        json_put_format(m->out, "%llu\n", (unsigned long long)sum);
    }
}

static void usage_put(struct metrics *m, const char *name)
{
    metric_head(m, name);
    for (uint32_t copy = 0; copy < m->view.served->copy_count; copy++) {
        if (!is_generator(m, copy))
            continue;
        uint64_t total = stat_of(m, copy, STAT(blocks_total));
        uint64_t used = stat_of(m, copy, STAT(blocks_used));
        metric_model_labels(m, name, copy, "");
        metric_number(m, total > 0 ? (double)used / (double)total : 0);
    }
}

static void vllm_put(struct metrics *m)
{
    m->prefix = "vllm:";
    stats_put(m, vllm_stats, sizeof vllm_stats / sizeof *vllm_stats, is_generator);
    usage_put(m, "kv_cache_usage_perc");
    usage_put(m, "gpu_cache_usage_perc");
    finished_put(m, "request_success_total", COUNTED_ABORT + 1, is_generator);
    metric_head(m, "cache_config_info");
    for (uint32_t copy = 0; copy < m->view.served->copy_count; copy++) {
        const struct model_facts *facts = m->view.served->copies[copy].model->facts;
        char labels[96];
        if (!is_generator(m, copy))
            continue;
        snprintf(labels, sizeof labels, ",block_size=\"%u\",num_gpu_blocks=\"%u\"",
                 facts->block_tokens, facts->block_count);
        metric_model_labels(m, "cache_config_info", copy, labels);
        json_put_literal(m->out, "1\n");
    }
    for (int id = 0; id < HISTOGRAM_COUNT; id++)
        if (id != HISTOGRAM_TOKENIZE)
            histogram_put(m, histogram_name((enum histogram_id)id), (enum histogram_id)id,
                          is_generator);
    steps_put(m, "iteration_tokens_total", STAT(steps_by_tokens), STAT(tokens_computed),
              is_generator);
    histogram_put(m, "time_per_output_token_seconds", HISTOGRAM_INTER_TOKEN, is_generator);
}

// Facts that do not change while the engine runs.
static void info_put(struct metrics *m)
{
    metric_head(m, "model_info");
    for (uint32_t copy = 0; copy < m->view.served->copy_count; copy++) {
        const struct served_copy *c = &m->view.served->copies[copy];
        const struct model_facts *facts = c->model->facts;
        char labels[384], kept[96] = ",kv_dtype=\"\",block_size=\"\"";
        if (facts->block_tokens > 0)
            snprintf(kept, sizeof kept, ",kv_dtype=\"%s\",block_size=\"%u\"",
                     dtype_name(facts->kv_dtype), facts->block_tokens);
        snprintf(labels, sizeof labels,
                 ",architecture=\"%s\",parameters=\"%" PRIu64 "\",dtype=\"%s\"%s,device=\"%s\"",
                 facts->architecture, facts->parameter_count, facts_held(facts), kept, c->device);
        metric_model_labels(m, "model_info", copy, labels);
        json_put_literal(m->out, "1\n");
    }
}

static void memory_put(struct metrics *m)
{
    metric_head(m, "model_memory_bytes");
    for (uint32_t copy = 0; copy < m->view.served->copy_count; copy++) {
        const struct device_need *memory = &m->view.served->copies[copy].memory;
        for (uint32_t i = 0; i < memory->count; i++) {
            char label[96];
            snprintf(label, sizeof label, ",part=\"%s\"", memory->entry[i].label);
            metric_model_labels(m, "model_memory_bytes", copy, label);
            json_put_format(m->out, "%" PRIu64 "\n", memory->entry[i].bytes);
        }
    }
}

static bool is_pooling(const struct metrics *m, uint32_t copy)
{
    return !is_generator(m, copy);
}

static void te_counter(struct metrics *m, const char *name, const char *more, bool success)
{
    metric_head(m, name);
    for (uint32_t copy = 0; copy < m->view.served->copy_count; copy++) {
        if (!is_pooling(m, copy))
            continue;
        uint64_t good = finished_sum(m, copy, COUNTED_POOLED);
        uint64_t bad = finished_sum(m, copy, COUNTED_ERROR) + finished_sum(m, copy, COUNTED_ABORT);
        bool all = strcmp(name, "request_count") == 0;
        metric_model_labels(m, name, copy, more);
        json_put_format(m->out, "%llu\n",
                        (unsigned long long)(all       ? good + bad
                                             : success ? good
                                                       : bad));
    }
}

static void te_put(struct metrics *m)
{
    static const struct stat_metric queue[] = {{"queue_size", STAT(sequences_waiting)}};
    m->prefix = "te_";
    te_counter(m, "request_count", "", true);
    te_counter(m, "request_success", "", true);
    te_counter(m, "request_failure", ",err=\"inference\"", false);
    stats_put(m, queue, 1, is_pooling);
    steps_put(m, "batch_next_size", STAT(steps_by_rows), STAT(rows), is_pooling);
    steps_put(m, "batch_next_tokens", STAT(steps_by_tokens), STAT(tokens_computed), is_pooling);
    histogram_put(m, "request_duration", HISTOGRAM_E2E, is_pooling);
    histogram_put(m, "request_tokenization_duration", HISTOGRAM_TOKENIZE, is_pooling);
    histogram_put(m, "request_queue_duration", HISTOGRAM_QUEUE, is_pooling);
    histogram_put(m, "request_inference_duration", HISTOGRAM_INFERENCE, is_pooling);
}

void metrics_models(struct metrics *m)
{
    m->prefix = "weft_";
    info_put(m);
    memory_put(m);
    stats_put(m, weft_stats, sizeof weft_stats / sizeof *weft_stats, any_model);
    mask_wait_put(m);
    steps_put(m, "step_rows", STAT(steps_by_rows), STAT(rows), any_model);
    steps_put(m, "step_tokens", STAT(steps_by_tokens), STAT(tokens_computed), any_model);
    finished_put(m, "finished_total", COUNTED_FINISH_COUNT, any_model);
    requests_finished_put(m);
    refused_put(m);
    for (int id = 0; id < HISTOGRAM_COUNT; id++)
        histogram_put(m, histogram_name((enum histogram_id)id), (enum histogram_id)id, any_model);
    if (!m->view.vllm_metrics)
        return;
    vllm_put(m);
    te_put(m);
}
