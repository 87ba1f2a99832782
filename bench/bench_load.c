// SPDX-License-Identifier: Apache-2.0
// bench_load: a load generator for the four endpoints over libcurl's multi interface, with many
// connections on one thread. Closed loop (clients that send the next request immediately) or open
// loop (Poisson or recorded arrivals, so that a slow server does not slow the clients down).
// Bounded in count and time; connects to loopback addresses only. Prints requests and tokens per
// second, times to the first token, between pieces and of complete requests, and the count of each
// status.
#include "bench/load.h"

#include <curl/curl.h>
#include <stdio.h>
#include <sys/resource.h>

static void descriptors_raise(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static bool all_well(const struct load_options *o, const struct load_result *r)
{
    bool well = true;
    for (uint32_t i = 0; i < o->target_count; i++) {
        const struct load_stats *s = &r->targets[i];
        well =
            well && s->unconnected + s->lost + s->incomplete + s->event_errors + s->differing == 0;
    }
    return well;
}

int main(int argc, char **argv)
{
    struct load_options options;
    struct error err;
    int code = load_options_read(&options, argc, argv);
    if (code >= 0)
        return code;
    descriptors_raise();
    curl_global_init(CURL_GLOBAL_DEFAULT);
    struct trace trace = {0};
    enum status status = STATUS_OK;
    if (options.trace_path)
        status = trace_read(&trace, &options, &err);
    else if (options.rate > 0)
        trace_poisson(&trace, &options);
    struct load_result *result = heap_alloc_zeroed(1, sizeof *result);
    if (status == STATUS_OK)
        status = load_run(result, &options, trace.count > 0 ? &trace : NULL, &err);
    if (status == STATUS_OK)
        load_report(&options, result);
    else
        fprintf(stderr, "bench_load: %s\n", err.text);
    code = status == STATUS_OK && all_well(&options, result) ? 0 : 1;
    heap_free(result);
    trace_free(&trace);
    curl_global_cleanup();
    return code;
}
