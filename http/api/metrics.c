// SPDX-License-Identifier: Apache-2.0
// GET /metrics in the Prometheus text format: weft's metrics (weft_*), HTTP and process metrics,
// and, if options.vllm_metrics is set, the names that dashboards for vLLM and
// text-embeddings-inference (TEI) use.
// All values are read from the engines' statistics and the h2o threads' counters.
#include "http/api/metrics.h"

#include "http/api/endpoints.h"
#include "http/api/grammars.h"
#include "http/route.h"
#include "base/log.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { NAMES_MAX = 256 }; // maximum number of families that a query can name

static uint64_t load(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

// Uses '.' as decimal separator in every locale.
void metric_number(struct metrics *m, double value)
{
    json_put_double(m->out, value);
    json_put_literal(m->out, "\n");
}

// Escapes backslash, double quote and newline, as the format requires.
static void label_put(struct json_buffer *out, const char *value)
{
    for (const char *p = value; *p != '\0'; p++) {
        if (*p == '\\' || *p == '"')
            json_put_raw(out, text_span("\\", 1));
        if (*p == '\n')
            json_put_literal(out, "\\n");
        else
            json_put_raw(out, text_span(p, 1));
    }
}

void metric_model_labels(struct metrics *m, const char *name, uint32_t copy, const char *more)
{
    json_put_format(m->out, "%s%s{model_name=\"", m->prefix, name);
    label_put(m->out, m->view.served->copies[copy].model->id);
    json_put_format(m->out, "\",engine=\"%u\"%s} ", m->view.served->copies[copy].slot, more);
}

// Returns the path of row i, from 0 to view.route_count; the last row counts unknown paths.
static const char *path_at(const struct metrics *m, uint32_t i)
{
    return i < m->view.route_count ? m->view.routes[i]->path : "unknown";
}

static uint64_t row_sum(const struct metrics *m, uint32_t i, size_t offset)
{
    uint32_t row = i < m->view.route_count ? i : ROUTES_MAX;
    uint64_t sum = 0;
    for (uint32_t t = 0; t < m->view.thread_count; t++)
        sum += load((const _Atomic uint64_t *)((const char *)&m->threads[t]->routes[row] + offset));
    return sum;
}

// A path has one row per method. Finds, for each row, the first row with its path.
static void paths_find(struct metrics *m)
{
    for (uint32_t i = 0; i <= m->view.route_count; i++) {
        uint32_t first = 0;
        while (strcmp(path_at(m, first), path_at(m, i)) != 0)
            first++;
        m->first_rows[i] = (uint8_t)first;
    }
}

// Sums a counter over all rows with the same path as row i, which must be the first of them.
static uint64_t path_sum(const struct metrics *m, uint32_t i, size_t offset)
{
    uint64_t sum = 0;
    for (uint32_t j = i; j <= m->view.route_count; j++)
        if (m->first_rows[j] == i)
            sum += row_sum(m, j, offset);
    return sum;
}

static uint64_t path_requests(const struct metrics *m, uint32_t i)
{
    uint64_t sum = 0;
    for (int s = 0; s < STATUS_CLASSES; s++)
        sum += path_sum(m, i, offsetof(struct route_counters, requests[s]));
    return sum;
}

// Returns true if row i is the first of its path and the path has had requests. These series have
// only the path as label, so each path is written once.
static bool path_begins(const struct metrics *m, uint32_t i)
{
    return m->first_rows[i] == i && path_requests(m, i) > 0;
}

static void http_histogram(struct metrics *m, uint32_t i)
{
    double bounds[HISTOGRAM_BUCKETS_MAX];
    uint32_t count = histogram_bounds(HISTOGRAM_E2E, 0, bounds);
    uint64_t total = 0, sum = path_sum(m, i, offsetof(struct route_counters, seconds.sum));
    for (uint32_t b = 0; b <= count; b++) {
        total += path_sum(m, i, offsetof(struct route_counters, seconds.bucket[b]));
        json_put_format(m->out, "http_request_duration_seconds_bucket{handler=\"%s\",le=\"",
                        path_at(m, i));
        if (b < count)
            json_put_double(m->out, bounds[b]);
        else
            json_put_literal(m->out, "+Inf");
        json_put_format(m->out, "\"} %llu\n", (unsigned long long)total);
    }
    json_put_format(m->out, "http_request_duration_seconds_sum{handler=\"%s\"} ", path_at(m, i));
    metric_number(m, (double)sum / 1e9);
    json_put_format(m->out, "http_request_duration_seconds_count{handler=\"%s\"} %llu\n",
                    path_at(m, i), (unsigned long long)total);
}

static void http_requests(struct metrics *m)
{
    static const char *const classes[STATUS_CLASSES] = {
        "0xx", "1xx", "2xx", "3xx", "4xx", "5xx", [STATUS_GONE] = "499"};
    metric_head(m, "http_requests_total");
    for (uint32_t i = 0; i <= m->view.route_count; i++)
        for (int s = 2; s < STATUS_CLASSES; s++) {
            uint64_t sum = row_sum(m, i, offsetof(struct route_counters, requests[s]));
            if (sum > 0)
                json_put_format(
                    m->out,
                    "http_requests_total{handler=\"%s\",method=\"%s\",status=\"%s\"} %llu\n",
                    path_at(m, i), i < m->view.route_count ? m->view.routes[i]->method : "ANY",
                    classes[s], (unsigned long long)sum);
        }
    metric_head(m, "http_request_duration_seconds");
    for (uint32_t i = 0; i <= m->view.route_count; i++)
        if (path_begins(m, i))
            http_histogram(m, i);
}

// Writes sum and count of the sizes of requests or responses for each route. offset: of the byte
// counter in struct route_counters.
static void http_sizes(struct metrics *m, const char *name, size_t offset)
{
    metric_head(m, name);
    for (uint32_t i = 0; i <= m->view.route_count; i++)
        if (path_begins(m, i))
            json_put_format(m->out, "%s_sum{handler=\"%s\"} %llu\n%s_count{handler=\"%s\"} %llu\n",
                            name, path_at(m, i), (unsigned long long)path_sum(m, i, offset), name,
                            path_at(m, i), (unsigned long long)path_requests(m, i));
}

struct thread_metric {
    const char *name;
    size_t offset; // in struct thread_counters
};

static void http_threads(struct metrics *m)
{
    static const struct thread_metric table[] = {
        {"weft_connections", offsetof(struct thread_counters, connections)},
        {"weft_connections_accepted_total", offsetof(struct thread_counters, connections_total)},
        {"weft_clients_gone_total", offsetof(struct thread_counters, clients_gone)},
        {"weft_requests_orphaned", offsetof(struct thread_counters, orphans)},
        {"weft_quiet_connections_closed_total", offsetof(struct thread_counters, quiet_closed)},
        {"weft_readers_stalled_total", offsetof(struct thread_counters, stalled)},
        {"weft_reset_floods_total", offsetof(struct thread_counters, resets_over)},
        {"weft_body_bytes", offsetof(struct thread_counters, body_bytes)},
        {"weft_body_floods_total", offsetof(struct thread_counters, body_floods)},
        {"weft_client_retries_total", offsetof(struct thread_counters, retries)},
        {"weft_fields_ignored_total", offsetof(struct thread_counters, fields_ignored)},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        uint64_t sum = 0;
        for (uint32_t t = 0; t < m->view.thread_count; t++)
            sum += load((const _Atomic uint64_t *)((const char *)m->threads[t] + table[i].offset));
        metric_head(m, table[i].name);
        json_put_format(m->out, "%s %llu\n", table[i].name, (unsigned long long)sum);
    }
}

static uint64_t resident_bytes(void)
{
    unsigned long long pages = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file)
        return 0;
    if (fscanf(file, "%llu %llu", &pages, &resident) != 2)
        resident = 0;
    fclose(file);
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

static uint64_t open_descriptors(void)
{
    uint64_t count = 0;
    DIR *folder = opendir("/proc/self/fd");
    if (!folder)
        return 0;
    while (readdir(folder))
        count++;
    closedir(folder);
    return count > 3 ? count - 3 : 0; // ".", ".." and opendir's own descriptor
}

static double seconds_of(struct timeval at)
{
    return (double)at.tv_sec + (double)at.tv_usec / 1e6;
}

static void process_metrics(struct metrics *m)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    metric_head(m, "process_resident_memory_bytes");
    json_put_format(m->out, "process_resident_memory_bytes %llu\n",
                    (unsigned long long)resident_bytes());
    metric_head(m, "process_cpu_seconds_total");
    json_put_literal(m->out, "process_cpu_seconds_total ");
    metric_number(m, seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime));
    metric_head(m, "process_open_fds");
    json_put_format(m->out, "process_open_fds %llu\n", (unsigned long long)open_descriptors());
    metric_head(m, "weft_log_lines_dropped_total");
    json_put_format(m->out, "weft_log_lines_dropped_total %llu\n",
                    (unsigned long long)log_dropped());
    metric_head(m, "process_start_time_seconds");
    json_put_format(m->out, "process_start_time_seconds %lld\n", (long long)m->view.started_unix);
}

static void grammar_metric(struct metrics *m, const char *name, double value)
{
    metric_head(m, name);
    json_put_format(m->out, "%s ", name);
    metric_number(m, value);
}

static void grammar_metrics(struct metrics *m)
{
    struct grammars_stats stats = grammars_stats(m->view.served->grammars);
    grammar_metric(m, "weft_grammars_compiled_total", (double)stats.compiled);
    grammar_metric(m, "weft_grammars_compile_seconds_total", (double)stats.compile_ns / 1e9);
    grammar_metric(m, "weft_grammars_hits_total", (double)stats.hits);
    grammar_metric(m, "weft_grammars_refused_total", (double)stats.refused);
    grammar_metric(m, "weft_grammars_busy_total", (double)stats.busy);
    grammar_metric(m, "weft_grammars_cached", (double)stats.count);
    grammar_metric(m, "weft_grammars_cached_bytes", (double)stats.bytes);
    grammar_metric(m, "weft_grammars_used_bytes", (double)stats.used_bytes);
}

struct page {
    struct metrics metrics;
    struct json_buffer out;
};

// Runs on a text worker, because writing thousands of lines takes milliseconds. One page at a time
// per h2o thread: the route needs no key, and pages must not occupy all text workers.
static void metrics_write(struct exchange *x)
{
    struct page *page = exchange_state(x);
    struct metrics *m = &page->metrics;
    paths_find(m);
    http_requests(m);
    http_sizes(m, "http_request_size_bytes", offsetof(struct route_counters, bytes_in));
    http_sizes(m, "http_response_size_bytes", offsetof(struct route_counters, bytes_out));
    http_threads(m);
    process_metrics(m);
    if (m->view.served && m->view.served->grammars)
        grammar_metrics(m);
    if (m->view.served)
        metrics_models(m);
    metrics_end(m);
}

static void metrics_reply(struct exchange *x)
{
    struct page *page = exchange_state(x);
    if (!exchange_gone(x))
        exchange_reply_type(x, 200, "text/plain; version=0.0.4; charset=utf-8",
                            json_buffer_text(&page->out));
    json_buffer_free(&page->out);
}

// Reads name[]=FAMILY, which may be repeated; Prometheus client libraries use the same parameter.
static void names_read(struct metrics *m, struct exchange *x)
{
    struct text *names = arena_alloc_zeroed(exchange_arena(x), NAMES_MAX, sizeof *names);
    struct text query = exchange_info(x)->query;
    while (m->name_count < NAMES_MAX) {
        struct text name = query_next(&query, "name[]", exchange_arena(x));
        if (!name.at)
            break;
        names[m->name_count++] = name;
    }
    m->names = names;
}

static void metrics_request(struct exchange *x)
{
    struct page *page = arena_alloc_zeroed(exchange_arena(x), 1, sizeof *page);
    struct metrics *m = &page->metrics;
    *m = (struct metrics){.out = &page->out, .prefix = ""};
    names_read(m, x);
    server_view_get(x, &m->view);
    m->threads = arena_alloc_zeroed(exchange_arena(x), m->view.thread_count, sizeof *m->threads);
    for (uint32_t t = 0; t < m->view.thread_count; t++)
        m->threads[t] = server_counters(x, t);
    exchange_state_set(x, page);
    exchange_offload(
        x, (struct offload){.work = metrics_write, .done = metrics_reply, .serial = true});
}

const struct route metrics_routes[] = {
    {.method = "GET", .path = "/metrics", .flags = ROUTE_OPEN, .on_request = metrics_request},
    {.path = NULL},
};
