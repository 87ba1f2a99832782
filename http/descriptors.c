// SPDX-License-Identifier: Apache-2.0
// The number of connections that the limit of open files allows. Each connection needs a
// descriptor, and so do event loops, engines, models and the log; the process counts the
// descriptors that it has instead of guessing. Called from the main thread.
#include "http/internal.h"

#include "base/number.h"

#include <dirent.h>
#include <sys/resource.h>

enum {
    // A sixteenth of the limit stays free for reloads, /metrics, duplicates of connections that are
    // about to close (linger.c) and a drain.
    FREE_PART = 16,
    FREE_MIN = 8,
    FREE_MAX = 256,
    // Per h2o thread, before it runs: listener, nested epoll, two eventfds. Then: epoll, duplicates
    // of the eventfds, a pipe of libh2o.
    PER_THREAD = 4,
    PER_LOOP = 5,
    OTHER = 64, // assumed for everything else if /proc cannot be read
};

// Returns the number of open descriptors of the process; 0 if /proc cannot be read.
static uint32_t descriptors_open(void)
{
    uint32_t count = 0;
    DIR *folder = opendir("/proc/self/fd");
    if (!folder)
        return 0;
    for (const struct dirent *entry; (entry = readdir(folder));)
        count += entry->d_name[0] != '.';
    closedir(folder);
    return count - 1; // without the folder's own
}

uint64_t descriptors_raise(uint64_t wanted)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 0;
    if (limit.rlim_cur < wanted) {
        limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
        if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
            getrlimit(RLIMIT_NOFILE, &limit);
    }
    return limit.rlim_cur;
}

static uint64_t free_of(uint64_t limit)
{
    return smaller(larger(limit / FREE_PART, (uint64_t)FREE_MIN), (uint64_t)FREE_MAX);
}

enum status descriptors_check(const struct server *server, struct error *err)
{
    uint64_t needed = descriptors_open() + PER_LOOP * server->thread_count + FREE_MIN + 1;
    uint64_t limit = descriptors_raise(needed);
    if (limit >= needed)
        return STATUS_OK;
    return error_set(
        err, STATUS_INVALID,
        "%u event loops need at least %ju open files, the limit is %ju: raise ulimit -n "
        "or lower --http-threads",
        server->thread_count, (uintmax_t)needed, (uintmax_t)limit);
}

void descriptors_share(struct server *server)
{
    uint64_t wanted = server->options.connections_max;
    uint64_t open = atomic_load(&server->connections), all = descriptors_open();
    uint64_t own = all > open ? all - open : OTHER + (PER_THREAD + PER_LOOP) * server->thread_count;
    uint64_t limit = descriptors_raise(wanted + own + FREE_MAX);
    uint64_t kept = own + free_of(limit);
    uint64_t most = smaller(limit > kept ? limit - kept : 1, wanted);
    uint64_t left = limit > own + most ? limit - own - most : 0;
    server->drain_connections = (uint32_t)(smaller(left, (uint64_t)FREE_MAX) / 2);
    server->descriptors_own = (uint32_t)own;
    atomic_store(&server->connections_most, (uint32_t)most);
}

void descriptors_report(const struct server *server)
{
    uint32_t most = atomic_load(&server->connections_most);
    if (most < server->options.connections_max)
        log_line(LOG_WARNING,
                 "the limit of %ju open files (ulimit -n), of which weft itself uses %u, allows at "
                 "most %u connections",
                 (uintmax_t)descriptors_raise(0), server->descriptors_own, most);
}

uint32_t descriptors_fit(uint32_t wanted)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return wanted;
    return limit.rlim_max < wanted ? (uint32_t)limit.rlim_max : wanted;
}
