// SPDX-License-Identifier: Apache-2.0
// Reads files of a model from a folder or from a GGUF file; see source.h.
#include "runtime/source/source.h"

#include "base/file.h"
#include "base/folder.h"
#include "runtime/source/gguf_documents.h"
#include "runtime/source/gguf_file.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

bool source_is_gguf(const char *path, size_t *end)
{
    char part[FOLDER_BYTES_MAX];
    struct stat about;
    size_t bytes = strlen(path);
    if (bytes >= sizeof part)
        return false;
    *end = gguf_file_prefix(path);
    if (*end > 0)
        return true;
    memcpy(part, path, bytes + 1);
    while (bytes > 0) {
        if (stat(part, &about) == 0) {
            *end = bytes;
            return S_ISREG(about.st_mode) && folder_check(part, &(struct error){0}) == STATUS_OK;
        }
        while (bytes > 0 && part[bytes - 1] != '/')
            bytes--;
        while (bytes > 1 && part[bytes - 1] == '/')
            bytes--;
        part[bytes] = '\0';
        if (bytes == 1 && part[0] == '/')
            return false;
    }
    return false;
}

struct model_source *model_source_open(const char *model)
{
    size_t end;
    struct model_source *source;
    if (!source_is_gguf(model, &end) || model[end] != '\0')
        return NULL;
    return gguf_file_open(&source, model, &(struct error){0}) == STATUS_OK ? source : NULL;
}

// Writes the document that the GGUF file `path` has in place of the file `name`.
static enum status document_read(struct text *out, struct arena *arena, const char *path,
                                 const char *name, size_t bytes_max, struct error *err)
{
    struct model_source *source;
    enum status status = gguf_file_open(&source, path, err);
    if (status != STATUS_OK)
        return status;
    struct arena *scratch = arena_create(0, 0);
    struct json_buffer made = {0};
    const struct gguf_output output = {&made, bytes_max, scratch};
    status = gguf_document(&output, &source->gguf, name, err);
    status = gguf_file_check(source, status, err);
    if (status == STATUS_OK)
        *out = arena_copy(arena, json_buffer_text(&made));
    json_buffer_free(&made);
    arena_destroy(scratch);
    model_source_close(source);
    return status;
}

enum status model_file_read(struct text *out, struct arena *arena, const char *path,
                            size_t bytes_max, struct error *err)
{
    size_t end;
    if (!source_is_gguf(path, &end) || path[end] == '\0')
        return file_read(out, arena, path, bytes_max, err);
    char file[FOLDER_BYTES_MAX];
    snprintf(file, sizeof file, "%.*s", (int)end, path);
    const char *name = path + end + strspn(path + end, "/");
    return document_read(out, arena, file, name, bytes_max, err);
}
