// SPDX-License-Identifier: Apache-2.0
// Maps files of a model as read-only memory; see mapping.h. The SIGBUS handler runs on the thread
// that read a file which has become shorter: it finds the mapping in the list and replaces its
// pages from the lost one to the end. Other threads may read them at the same time, because the
// kernel replaces pages of a mapping in one piece.
#include "runtime/source/mapping.h"

#include "base/arena.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

// All open mappings. The signal handler reads the list without a lock.
static struct mapping *_Atomic mappings;
static _Atomic int walkers; // handlers that read the list; a removed mapping outlives them
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sigaction previous_action; // the previous handler of SIGBUS

static char *put_number(char *to, uint64_t n)
{
    char digits[24];
    char *at = digits + sizeof digits - 1;
    *at = '\0';
    do
        *--at = (char)('0' + n % 10);
    while ((n /= 10) > 0);
    return stpcpy(to, at);
}

// Ends the process, because mmap of the zero pages failed.
static void lost_page_end(const struct mapping *m, size_t byte)
{
    char line[PATH_MAX + 256];
    char *end = stpcpy(stpcpy(stpcpy(line, "weft: "), m->path), ": byte ");
    end = stpcpy(put_number(end, byte),
                 " could not be read: the file was truncated or its disk failed while it was "
                 "loaded; load it again when the file is complete\n");
    ssize_t ignored = write(STDERR_FILENO, line, (size_t)(end - line));
    (void)ignored;
    _exit(1);
}

// Replaces the pages of the mapping from `byte` to the end by zeros.
static void lost_pages_replace(struct mapping *m, size_t byte)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), first = byte / page * page, none = 0;
    atomic_compare_exchange_strong(&m->lost, &none, byte + 1);
    if (mmap(m->at + first, m->bytes - first, PROT_READ,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
        lost_page_end(m, byte);
}

// Handles SIGBUS in a mapping. For another address it restores the previous handler, with which the
// faulting instruction then runs again; a signal that was sent (kill) is raised again. Calls only
// async-signal-safe functions, and mmap and sysconf(_SC_PAGESIZE), which are safe in a handler on
// Linux.
static void on_bus_error(int number, siginfo_t *info, void *context)
{
    (void)context;
    if (info->si_code <= 0) { // sent: there is no address
        sigaction(number, &previous_action, NULL);
        raise(number);
        return;
    }
    int error = errno;
    uintptr_t fault = (uintptr_t)info->si_addr;
    atomic_fetch_add(&walkers, 1);
    struct mapping *m = atomic_load(&mappings);
    while (m && fault - (uintptr_t)m->at >= m->bytes)
        m = atomic_load(&m->next);
    if (m)
        lost_pages_replace(m, fault - (uintptr_t)m->at);
    else
        sigaction(number, &previous_action, NULL);
    atomic_fetch_sub(&walkers, 1);
    errno = error;
}

static void list_add(struct mapping *mapping)
{
    struct sigaction action = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO};
    struct sigaction now;
    sigemptyset(&action.sa_mask);
    pthread_mutex_lock(&list_lock);
    if (sigaction(SIGBUS, NULL, &now) == 0 && now.sa_sigaction != on_bus_error) {
        previous_action = now;
        sigaction(SIGBUS, &action, NULL);
    }
    atomic_store(&mapping->next, atomic_load(&mappings));
    atomic_store(&mappings, mapping);
    pthread_mutex_unlock(&list_lock);
}

static void list_remove(struct mapping *mapping)
{
    pthread_mutex_lock(&list_lock);
    struct mapping *m = atomic_load(&mappings);
    if (m == mapping) {
        atomic_store(&mappings, atomic_load(&mapping->next));
    } else {
        while (atomic_load(&m->next) != mapping)
            m = atomic_load(&m->next);
        atomic_store(&m->next, atomic_load(&mapping->next));
    }
    pthread_mutex_unlock(&list_lock);
    while (atomic_load(&walkers) > 0)
        sched_yield();
}

enum status mapping_open(struct mapping *mapping, const char *path, size_t bytes_least,
                         struct error *err)
{
    // O_NONBLOCK: opening a pipe must not wait for its writer.
    *mapping = (struct mapping){.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
    if (mapping->fd < 0)
        return error_set(err, errno == ENOENT ? STATUS_NOT_FOUND : STATUS_IO, "cannot open %s: %s",
                         path, strerror(errno));
    struct stat about;
    if (fstat(mapping->fd, &about) != 0 || !S_ISREG(about.st_mode))
        return error_set(err, STATUS_INVALID, "%s is not a regular file", path);
    if ((uint64_t)about.st_size < bytes_least)
        return error_set(err, STATUS_INVALID, "%s has %lld bytes, fewer than any file of its kind",
                         path, (long long)about.st_size);
    mapping->bytes = (size_t)about.st_size;
    mapping->changed = about.st_mtim;
    void *at = mmap(NULL, mapping->bytes, PROT_READ, MAP_PRIVATE, mapping->fd, 0);
    if (at == MAP_FAILED)
        return error_set(err, STATUS_IO, "cannot map %s: %s%s", path, strerror(errno),
                         errno == ENOMEM ? "; a limit of memory is too low (ulimit -v)" : "");
    mapping->at = at;
    mapping->path = heap_alloc_zeroed(strlen(path) + 1, 1);
    memcpy(mapping->path, path, strlen(path));
    list_add(mapping);
    return STATUS_OK;
}

enum status mapping_check(const struct mapping *mapping, enum status status, struct error *err)
{
    struct stat now;
    size_t lost = atomic_load(&mapping->lost);
    if (!mapping->at)
        return status;
    if (fstat(mapping->fd, &now) != 0)
        return error_set(err, STATUS_IO, "cannot read %s: %s", mapping->path, strerror(errno));
    if ((uint64_t)now.st_size < mapping->bytes)
        return error_set(err, STATUS_IO,
                         "%s was truncated while it was loaded, from %zu to %lld bytes; load it "
                         "again when the file is complete",
                         mapping->path, mapping->bytes, (long long)now.st_size);
    if (now.st_mtim.tv_sec != mapping->changed.tv_sec ||
        now.st_mtim.tv_nsec != mapping->changed.tv_nsec)
        return error_set(err, STATUS_IO,
                         "%s was written to while it was loaded; load it again when the file is "
                         "complete",
                         mapping->path);
    if (lost > 0)
        return error_set(err, STATUS_IO,
                         "%s: byte %zu could not be read, because its disk failed or the file was "
                         "truncated while it was loaded; load it again when the file is complete",
                         mapping->path, lost - 1);
    return status;
}

void mapping_drop(const void *at, size_t bytes)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t first = (uintptr_t)at / page * page, end = ((uintptr_t)at + bytes) / page * page;
    if (end > first) // it only saves memory: a failure does not matter
        madvise((void *)first, end - first, MADV_DONTNEED);
}

void mapping_close(struct mapping *mapping)
{
    if (mapping->at) {
        list_remove(mapping);
        munmap(mapping->at, mapping->bytes);
        heap_free(mapping->path);
    }
    if (mapping->fd >= 0)
        close(mapping->fd);
    *mapping = (struct mapping){.fd = -1};
}
