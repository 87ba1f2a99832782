// SPDX-License-Identifier: Apache-2.0
// The list of open GGUF files; see gguf_file.h. A lock protects the list and the numbers of users;
// the contents of an entry do not change while it has users.
#include "runtime/source/gguf_file.h"

#include "runtime/source/source.h"

#include <pthread.h>
#include <string.h>

static struct model_source *open_files;
static pthread_mutex_t files_lock = PTHREAD_MUTEX_INITIALIZER;

static void file_destroy(struct model_source *source)
{
    mapping_close(&source->mapping);
    arena_destroy(source->arena);
    heap_free(source);
}

static enum status file_create(struct model_source **out, const char *path, struct error *err)
{
    struct model_source *source = heap_alloc_zeroed(1, sizeof *source);
    source->arena = arena_create(0, 0);
    source->path = arena_copy(source->arena, text_of(path));
    source->users = 1;
    struct mapping *mapping = &source->mapping;
    enum status status = mapping_open(mapping, path, sizeof(uint32_t), err);
    if (status == STATUS_OK)
        status = gguf_parse(&source->gguf, source->arena, text_span(mapping->at, mapping->bytes),
                            path, err);
    if (status != STATUS_OK) {
        file_destroy(source);
        return status;
    }
    *out = source;
    return STATUS_OK;
}

enum status gguf_file_open(struct model_source **out, const char *path, struct error *err)
{
    enum status status = STATUS_OK;
    pthread_mutex_lock(&files_lock);
    struct model_source *source = open_files;
    while (source && !text_is(source->path, path))
        source = source->next;
    if (source) {
        source->users++;
    } else {
        status = file_create(&source, path, err);
        if (status == STATUS_OK) {
            source->next = open_files;
            open_files = source;
        }
    }
    pthread_mutex_unlock(&files_lock);
    *out = source;
    return status;
}

size_t gguf_file_prefix(const char *path)
{
    size_t prefix = 0, bytes = strlen(path);
    pthread_mutex_lock(&files_lock);
    for (const struct model_source *source = open_files; source; source = source->next) {
        struct text file = source->path;
        if (file.bytes <= bytes && memcmp(file.at, path, file.bytes) == 0 &&
            (path[file.bytes] == '\0' || path[file.bytes] == '/'))
            prefix = file.bytes;
    }
    pthread_mutex_unlock(&files_lock);
    return prefix;
}

void model_source_close(struct model_source *source)
{
    if (!source)
        return;
    pthread_mutex_lock(&files_lock);
    bool last = --source->users == 0;
    struct model_source **link = &open_files;
    while (last && *link != source)
        link = &(*link)->next;
    if (last)
        *link = source->next;
    pthread_mutex_unlock(&files_lock);
    if (last)
        file_destroy(source);
}
