// Reads files of a model from a folder or from a GGUF file; see source.h.
#include "runtime/source/source.h"

#include "base/file.h"
#include "base/folder.h"
#include "runtime/source/gguf.h"
#include "runtime/source/gguf_documents.h"
#include "runtime/source/mapping.h"

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

// Writes the document that the GGUF file `path` has in place of the file `name`.
static enum status document_read(struct text *out, struct arena *arena, const char *path,
                                 const char *name, size_t bytes_max, struct error *err)
{
    struct mapping mapping;
    struct gguf file;
    struct arena *scratch = arena_create(0, 0);
    struct json_buffer made = {0};
    const struct gguf_output output = {&made, bytes_max, scratch};
    enum status status = mapping_open(&mapping, path, sizeof(uint32_t), err);
    if (status == STATUS_OK)
        status = gguf_parse(&file, scratch, text_span(mapping.at, mapping.bytes), path, err);
    if (status == STATUS_OK)
        status = gguf_document(&output, &file, name, err);
    if (status == STATUS_OK)
        *out = arena_copy(arena, json_buffer_text(&made));
    json_buffer_free(&made);
    arena_destroy(scratch);
    mapping_close(&mapping);
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
