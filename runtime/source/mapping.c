// SPDX-License-Identifier: Apache-2.0
// Maps files of a model as read-only memory; see mapping.h. The SIGBUS handler reads the list of
// mappings on the thread that read a file which has become shorter.
#include "runtime/source/mapping.h"

#include "base/arena.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

// All open mappings. The signal handler reads the list without a lock.
static struct mapping *_Atomic mappings;
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

// Handles SIGBUS: ends the process if the address is in a mapping, else restores the previous
// handler. Calls only async-signal-safe functions.
static void on_bus_error(int number, siginfo_t *info, void *context)
{
    (void)context;
    uintptr_t fault = (uintptr_t)info->si_addr;
    const struct mapping *m = atomic_load(&mappings);
    while (m && fault - (uintptr_t)m->at >= m->bytes)
        m = m->next;
    if (!m) {
        // The faulting instruction runs again, now with the previous handler.
        sigaction(number, &previous_action, NULL);
        return;
    }
    char line[PATH_MAX + 256];
    char *end = stpcpy(stpcpy(stpcpy(line, "weft: "), m->path), ": byte ");
    end = stpcpy(put_number(end, fault - (uintptr_t)m->at),
                 " could not be read: the file was truncated or its disk failed while it was "
                 "loaded; load it again when the file is complete\n");
    ssize_t ignored = write(STDERR_FILENO, line, (size_t)(end - line));
    (void)ignored;
    _exit(1);
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
    mapping->next = atomic_load(&mappings);
    atomic_store(&mappings, mapping);
    pthread_mutex_unlock(&list_lock);
}

static void list_remove(struct mapping *mapping)
{
    pthread_mutex_lock(&list_lock);
    struct mapping *m = atomic_load(&mappings);
    if (m == mapping) {
        atomic_store(&mappings, mapping->next);
    } else {
        while (m->next != mapping)
            m = m->next;
        m->next = mapping->next;
    }
    pthread_mutex_unlock(&list_lock);
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
