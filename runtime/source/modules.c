// SPDX-License-Identifier: Apache-2.0
// Reads modules.json and other JSON files of a model folder; see modules.h.
#include "runtime/source/modules.h"

#include "base/json.h"
#include "runtime/source/source.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum status folder_path(char out[MODULE_FOLDER_MAX], const char *folder, const char *name,
                        struct error *err)
{
    const char *between = name[0] != '\0' ? "/" : "";
    int wrote = snprintf(out, MODULE_FOLDER_MAX, "%s%s%s", folder, between, name);
    if (wrote < 0 || wrote >= MODULE_FOLDER_MAX)
        return error_set(err, STATUS_TOO_LARGE, "the path %.100s... has over %d bytes", folder,
                         MODULE_FOLDER_MAX - 1);
    return STATUS_OK;
}

// Returns the length of a number that Python writes and JSON does not have, or 0: NaN, Infinity.
static size_t nonfinite_bytes(const char *at, const char *end)
{
    static const char *const names[] = {"NaN", "Infinity"};
    for (int i = 0; i < 2; i++) {
        size_t bytes = strlen(names[i]);
        if ((size_t)(end - at) >= bytes && memcmp(at, names[i], bytes) == 0)
            return bytes;
    }
    return 0;
}

// Replaces NaN by null and Infinity by the largest double, which no range of a field includes.
static struct text nonfinite_replace(struct text in, struct arena *arena)
{
    static const char largest[] = "1.7976931348623157e308";
    char *out = NULL;
    size_t used = 0;
    const char *end = in.at + in.bytes, *copied = in.at;
    for (const char *at = in.at; at < end; at++) {
        size_t bytes = nonfinite_bytes(at, end);
        if (*at == '"')
            for (at++; at < end && *at != '"'; at++)
                at += *at == '\\';
        if (bytes == 0)
            continue;
        if (!out) // a name of 3 bytes becomes 4, one of 8 becomes 22
            out = arena_alloc(arena, 3 * in.bytes);
        memcpy(out + used, copied, (size_t)(at - copied));
        used += (size_t)(at - copied);
        const char *to = bytes == 3 ? "null" : largest;
        memcpy(out + used, to, strlen(to));
        used += strlen(to);
        copied = at + bytes;
        at = copied - 1;
    }
    if (!out)
        return in;
    memcpy(out + used, copied, (size_t)(end - copied));
    return text_span(out, used + (size_t)(end - copied));
}

// Reads a file like model_file_read, for a JSON file that Python may have written.
static enum status python_json_read(struct text *out, struct arena *arena, const char *path,
                                    size_t bytes_max, struct error *err)
{
    enum status status = model_file_read(out, arena, path, bytes_max, err);
    if (status == STATUS_OK)
        *out = nonfinite_replace(*out, arena);
    return status;
}

enum status folder_json(json_t **out, const char *folder, const char *name, bool needed,
                        struct error *err)
{
    char path[MODULE_FOLDER_MAX];
    *out = NULL;
    enum status status = folder_path(path, folder, name, err);
    if (status != STATUS_OK)
        return status;
    size_t end;
    bool in_gguf = source_is_gguf(folder, &end);
    struct stat about;
    if (!in_gguf && lstat(path, &about) != 0 && (errno == ENOENT || errno == ENOTDIR)) {
        if (!needed)
            return STATUS_OK;
        return error_set(err, STATUS_NOT_FOUND, "%s is missing: download the model again", path);
    }
    status = json_read_parse(out, python_json_read, path, FOLDER_JSON_BYTES_MAX, err);
    if (in_gguf && status == STATUS_NOT_FOUND && !needed)
        return STATUS_OK;
    if (status == STATUS_OK && !json_is_object(*out) && !json_is_array(*out)) {
        json_decref(*out);
        *out = NULL;
        return error_set(err, STATUS_INVALID, "%s holds neither an object nor a list", path);
    }
    return status;
}

static enum status module_read(struct module *out, const char *folder, const json_t *entry,
                               struct error *err)
{
    const char *type = json_string_value(json_object_get(entry, "type"));
    const char *path = json_string_value(json_object_get(entry, "path"));
    if (!type || !path)
        return error_set(err, STATUS_INVALID,
                         "%s/modules.json: an entry lacks its type or its path", folder);
    if (path[0] == '/' || strstr(path, ".."))
        return error_set(err, STATUS_INVALID,
                         "%s/modules.json: the path %.100s leads out of the folder", folder, path);
    const char *dot = strrchr(type, '.');
    snprintf(out->kind, sizeof out->kind, "%s", dot ? dot + 1 : type);
    return folder_path(out->folder, folder, path, err);
}

enum status modules_read(struct modules *out, const char *folder, struct error *err)
{
    json_t *list;
    out->listed = false;
    out->count = 0;
    enum status status = folder_json(&list, folder, "modules.json", false, err);
    if (status != STATUS_OK || !list)
        return status;
    out->listed = true;
    size_t index;
    json_t *entry;
    json_array_foreach(list, index, entry)
    {
        if (out->count == MODULES_MAX)
            status = error_set(err, STATUS_TOO_LARGE, "%s/modules.json: over %d modules", folder,
                               MODULES_MAX);
        else
            status = module_read(&out->at[out->count], folder, entry, err);
        if (status != STATUS_OK)
            break;
        out->count++;
    }
    json_decref(list);
    return status;
}

const struct module *modules_find(const struct modules *modules, const char *kind)
{
    for (uint32_t i = 0; i < modules->count; i++)
        if (strcmp(modules->at[i].kind, kind) == 0)
            return &modules->at[i];
    return NULL;
}
