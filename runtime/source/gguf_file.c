// SPDX-License-Identifier: Apache-2.0
// The list of open GGUF files; see gguf_file.h. A lock protects the list and the numbers of users;
// the contents of an entry do not change while it has users.
#include "runtime/source/gguf_file.h"

#include "base/folder.h"
#include "runtime/source/source.h"

#include <pthread.h>
#include <string.h>

static struct model_source *open_files;
static pthread_mutex_t files_lock = PTHREAD_MUTEX_INITIALIZER;

static void file_destroy(struct model_source *source)
{
    mapping_close(&source->mapping);
    for (uint32_t i = 0; i < source->other_count; i++)
        mapping_close(&source->others[i]);
    arena_destroy(source->arena);
    heap_free(source);
}

// Returns the error for a file that is given as a model and is not the first of its parts.
static enum status later_part_fail(const char *path, const struct gguf_split *split,
                                   struct error *err)
{
    char first[FOLDER_BYTES_MAX];
    bool named = gguf_part_path(first, sizeof first, path, 0, split->count);
    return error_set(err, STATUS_INVALID,
                     "%s is part %u of a model in %u files: give the first part%s%s", path,
                     split->number + 1, split->count, named ? ", " : "", named ? first : "");
}

// Maps and parses part `number`, from 1.
static enum status part_open(struct model_source *source, const char *path, uint32_t number,
                             uint32_t count, struct error *err)
{
    char name[FOLDER_BYTES_MAX];
    if (!gguf_part_path(name, sizeof name, path, number, count))
        return error_set(err, STATUS_INVALID,
                         "%s is the first of %u files of a model, and its name does not end with "
                         "-00001-of-%05u.gguf: give the files the names with which they were "
                         "published",
                         path, count, count);
    struct mapping *mapping = &source->others[number - 1];
    enum status status = mapping_open(mapping, name, sizeof(uint32_t), err);
    source->other_count = number; // also after a failure, so that file_destroy closes it
    if (status == STATUS_NOT_FOUND)
        // not NOT_FOUND, which readers take for a document that the model lacks
        return error_set(err, STATUS_INVALID,
                         "%s: part %u of %u is missing: download it next to the first, as %s", path,
                         number + 1, count, name);
    if (status != STATUS_OK)
        return status;
    return gguf_parse(&source->gguf.others[number - 1], source->arena,
                      text_span(mapping->at, mapping->bytes), name, err);
}

// Opens the other files of a model in several files.
static enum status parts_open(struct model_source *source, const char *path, struct error *err)
{
    struct gguf_split split;
    enum status status = gguf_split_read(&split, &source->gguf, err);
    if (status != STATUS_OK || split.count <= 1)
        return status;
    if (split.number != 0)
        return later_part_fail(path, &split, err);
    if (split.count > GGUF_PARTS_MAX)
        return error_set(err, STATUS_TOO_LARGE, "%s: the model has %u files, at most %d are read",
                         path, split.count, GGUF_PARTS_MAX);
    uint32_t others = split.count - 1;
    source->gguf.others = arena_alloc_zeroed(source->arena, others, sizeof(struct gguf));
    source->others = arena_alloc_zeroed(source->arena, others, sizeof *source->others);
    for (uint32_t i = 1; i <= others && status == STATUS_OK; i++)
        status = part_open(source, path, i, split.count, err);
    source->gguf.other_count = others;
    return status == STATUS_OK ? gguf_join(&source->gguf, source->arena, err) : status;
}

enum status gguf_file_check(const struct model_source *source, enum status status,
                            struct error *err)
{
    status = mapping_check(&source->mapping, status, err);
    for (uint32_t i = 0; i < source->other_count; i++)
        status = mapping_check(&source->others[i], status, err);
    return status;
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
    if (status == STATUS_OK)
        status = parts_open(source, path, err);
    status = gguf_file_check(source, status, err);
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

const struct mapping *gguf_file_mapping(const struct model_source *source, uint32_t part)
{
    return part == 0 ? &source->mapping : &source->others[part - 1];
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
