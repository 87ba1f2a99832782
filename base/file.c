// SPDX-License-Identifier: Apache-2.0
// Reads a regular file; see file.h.
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static enum status read_descriptor(struct text *out, struct arena *arena, int fd, size_t bytes_max,
                                   const char *path, struct error *err)
{
    struct stat facts;
    if (fstat(fd, &facts) != 0 || !S_ISREG(facts.st_mode))
        return error_set(err, STATUS_IO, "%s is not a regular file", path);
    if ((uint64_t)facts.st_size > bytes_max)
        return error_set(err, STATUS_TOO_LARGE, "%s has %lld bytes, at most %zu are read", path,
                         (long long)facts.st_size, bytes_max);
    size_t bytes = (size_t)facts.st_size;
    char *at = arena_alloc(arena, bytes + 1);
    if (!at)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the %zu bytes of %s", bytes, path);
    size_t done = 0;
    while (done < bytes) {
        ssize_t got = read(fd, at + done, bytes - done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return error_set(err, STATUS_IO, "%s: read stopped at byte %zu of %zu: %s", path, done,
                             bytes, got < 0 ? strerror(errno) : "the file became shorter");
        done += (size_t)got;
    }
    at[bytes] = '\0';
    *out = text_span(at, bytes);
    if (file_is_lfs_pointer(*out))
        return error_set(err, STATUS_INVALID,
                         "%s is a Git LFS pointer, not the file: run 'git lfs pull' in its folder",
                         path);
    return STATUS_OK;
}

enum status file_read(struct text *out, struct arena *arena, const char *path, size_t bytes_max,
                      struct error *err)
{
    // O_NONBLOCK: opening a FIFO would wait for a writer
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return error_set(err, errno == ENOENT || errno == ENOTDIR ? STATUS_NOT_FOUND : STATUS_IO,
                         "cannot open %s: %s", path, strerror(errno));
    enum status status = read_descriptor(out, arena, fd, bytes_max, path, err);
    close(fd);
    return status;
}

bool file_is_lfs_pointer(struct text file)
{
    return text_begins(file, "version https://git-lfs");
}

bool file_of_program(char *path, size_t size, const char *relative)
{
    char self[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length <= 0)
        return false;
    self[length] = '\0';
    char *slash = strrchr(self, '/');
    if (!slash)
        return false;
    *slash = '\0';
    int written = snprintf(path, size, "%s/%s", self, relative);
    return written > 0 && (size_t)written < size;
}
