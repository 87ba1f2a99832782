// SPDX-License-Identifier: Apache-2.0
// Opens the files of a checkpoint (safetensors, torch.save or GGUF) and finds tensors by name; see
// tensors.h. A set owns its mappings, descriptors and an arena with names and tensor records.
// Loading thread only.
#include "runtime/model/tensors.h"

#include "base/file.h"
#include "base/folder.h"
#include "base/json.h"
#include "runtime/model/gguf_tensors.h"
#include "runtime/model/packed_find.h"
#include "runtime/model/quantised.h"
#include "runtime/model/safetensors.h"
#include "runtime/model/torch.h"
#include "runtime/source/gguf_file.h"
#include "runtime/source/mapping.h"
#include "runtime/source/source.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct shard {
    const char *name;
    struct mapping file;
};

// The formats of a folder, the best one first.
static const struct format {
    const char *single, *index; // one file with all tensors; the list of several files
    enum status (*parse)(struct tensor **out, uint32_t *count, struct arena *arena,
                         struct text file, const char *name, struct error *err);
} formats[] = {
    {"model.safetensors", "model.safetensors.index.json", safetensors_parse},
    {"pytorch_model.bin", "pytorch_model.bin.index.json", torch_parse},
};

struct tensors {
    struct arena *arena;
    const struct format *format; // format of a folder's files
    struct shard *shards;
    uint32_t shard_count;
    struct tensor *tensors; // [count], sorted by name
    uint32_t count;
    uint32_t part_count;         // tensors after them that are parts of packed ones
    const struct tensor *packed; // a packed tensor, or NULL
    struct model_source *gguf;   // the GGUF file; NULL: a folder
};

int tensor_name_order(const void *a, const void *b)
{
    return text_order(((const struct tensor *)a)->name, ((const struct tensor *)b)->name);
}

static enum status tensors_append(struct tensors *set, const char *folder,
                                  const struct tensor *list, uint32_t count, struct error *err)
{
    if (count > TENSORS_MAX - set->count)
        return error_set(err, STATUS_TOO_LARGE, "%s has more than %d tensors", folder, TENSORS_MAX);
    size_t held = set->count * sizeof *list;
    set->tensors = heap_grow(set->tensors, held + count * sizeof *list);
    if (count > 0)
        memcpy(set->tensors + set->count, list, count * sizeof *list);
    set->count += count;
    return STATUS_OK;
}

// Opens one more file, FOLDER/NAME, and appends its tensors.
static enum status shard_add(struct tensors *set, const char *folder, const char *name,
                             struct error *err)
{
    struct shard *shard = &set->shards[set->shard_count];
    const char *path = arena_format(set->arena, "%s/%s", folder, name).at;
    shard->name = arena_copy(set->arena, text_of(name)).at;
    enum status status = mapping_open(&shard->file, path, sizeof(uint64_t), err);
    set->shard_count++; // also after a failure, so that tensors_close closes the file
    if (status != STATUS_OK)
        return status;
    struct tensor *list = NULL;
    uint32_t count = 0;
    struct text bytes = text_span(shard->file.at, shard->file.bytes);
    if (file_is_lfs_pointer(bytes))
        return error_set(err, STATUS_INVALID,
                         "%s is a Git LFS pointer, not the weights: run 'git lfs pull' in its "
                         "folder",
                         shard->name);
    status = set->format->parse(&list, &count, set->arena, bytes, shard->name, err);
    if (status != STATUS_OK)
        return status;
    for (uint32_t i = 0; i < count; i++) {
        list[i].fd = shard->file.fd;
        list[i].mapping = &shard->file;
    }
    return tensors_append(set, folder, list, count, err);
}

// Opens a GGUF file, with further parts of the model, and appends the tensors.
static enum status gguf_add(struct tensors *set, const char *path, struct error *err)
{
    struct tensor *list = NULL;
    uint32_t count = 0;
    enum status status = gguf_file_open(&set->gguf, path, err);
    if (status != STATUS_OK) {
        set->gguf = NULL;
        return status;
    }
    status = gguf_tensors_list(&list, &count, set->arena, &set->gguf->gguf, err);
    if (status != STATUS_OK)
        return status;
    for (uint32_t i = 0; i < count; i++) {
        list[i].mapping = gguf_file_mapping(set->gguf, list[i].part);
        list[i].fd = list[i].mapping->fd;
    }
    return tensors_append(set, path, list, count, err);
}

// Returns true for a plain file name: the index must not lead out of the folder.
static bool shard_name_valid(const char *name)
{
    return name[0] != '\0' && name[0] != '.' && strlen(name) <= 255 && !strchr(name, '/');
}

// Opens all files that the index names.
static enum status index_shards(struct tensors *set, const char *folder, const json_t *map,
                                struct error *err)
{
    const char *key;
    json_t *value;
    uint32_t last = 0;
    json_object_foreach((json_t *)map, key, value)
    {
        const char *name = json_string_value(value);
        if (!name || !shard_name_valid(name))
            return error_set(err, STATUS_INVALID,
                             "%s/%s: tensor %.200s names no file of the folder", folder,
                             set->format->index, key);
        if (last < set->shard_count && strcmp(set->shards[last].name, name) == 0)
            continue; // most tensors are in the same file as the one before
        last = 0;
        while (last < set->shard_count && strcmp(set->shards[last].name, name) != 0)
            last++;
        if (last < set->shard_count)
            continue;
        if (set->shard_count == TENSOR_FILES_MAX)
            return error_set(err, STATUS_TOO_LARGE, "%s: over %d weight files", folder,
                             TENSOR_FILES_MAX);
        enum status status = shard_add(set, folder, name, err);
        if (status == STATUS_NOT_FOUND)
            return error_set(err, STATUS_INVALID,
                             "%s/%s names %s, which the folder lacks: download it again", folder,
                             set->format->index, name);
        if (status != STATUS_OK)
            return status;
    }
    return STATUS_OK;
}

// Checks that each tensor of the index is in the file that the index names.
static enum status index_check(const struct tensors *set, const json_t *map, struct error *err)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)map, key, value)
    {
        const struct tensor *tensor = tensors_find(set, key);
        if (!tensor || strcmp(tensor->file, json_string_value(value)) != 0)
            return error_set(err, STATUS_INVALID, "%s: tensor %.200s is not in %s",
                             set->format->index, key, json_string_value(value));
    }
    return STATUS_OK;
}

// Sorts the tensors by name and refuses equal names.
static enum status names_check(struct tensors *set, struct error *err)
{
    if (set->count > 0)
        qsort(set->tensors, set->count, sizeof *set->tensors, tensor_name_order);
    for (uint32_t i = 1; i < set->count; i++)
        if (text_equal(set->tensors[i - 1].name, set->tensors[i].name))
            return error_set(err, STATUS_INVALID, "tensor %s is in both %s and %s",
                             set->tensors[i].name.at, set->tensors[i - 1].file,
                             set->tensors[i].file);
    return STATUS_OK;
}

static enum status index_open(struct tensors *set, const char *folder, const char *path,
                              struct error *err)
{
    json_t *index = NULL;
    enum status status = json_file_parse(&index, path, TENSOR_INDEX_MAX, err);
    if (status != STATUS_OK)
        return status;
    const json_t *map = json_object_get(index, "weight_map");
    if (!json_is_object(map) || json_object_size(map) == 0)
        status = error_set(err, STATUS_INVALID, "%s has no weight_map", path);
    if (status == STATUS_OK)
        status = index_shards(set, folder, map, err);
    if (status == STATUS_OK)
        status = names_check(set, err);
    if (status == STATUS_OK)
        status = index_check(set, map, err);
    json_decref(index);
    return status;
}

// Joins the tensors of quantised modules.
static enum status packed_join(struct tensors *set, const char *folder, struct error *err)
{
    struct packed_rules rules;
    uint32_t all = set->count;
    enum status status = quantised_rules_read(&rules, folder, err);
    if (status == STATUS_OK)
        status = packed_find(set->tensors, &set->count, &rules, set->arena, err);
    set->part_count = all - set->count;
    if (status != STATUS_OK || set->part_count == 0)
        return status;
    status = names_check(set, err);
    for (uint32_t i = 0; i < set->count && !set->packed; i++)
        set->packed = set->tensors[i].packed ? &set->tensors[i] : NULL;
    return status;
}

// Returns true also for a dangling link: an interrupted download leaves such a link, and opening it
// reports the error.
static bool entry_exists(const char *path)
{
    struct stat about;
    return lstat(path, &about) == 0;
}

// Opens the weights of a folder in the best format that is there.
static enum status folder_open(struct tensors *set, const char *folder, struct error *err)
{
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        set->format = &formats[i];
        if (entry_exists(arena_format(set->arena, "%s/%s", folder, set->format->single).at)) {
            enum status status = shard_add(set, folder, set->format->single, err);
            return status == STATUS_OK ? names_check(set, err) : status;
        }
        struct text index = arena_format(set->arena, "%s/%s", folder, set->format->index);
        if (entry_exists(index.at))
            return index_open(set, folder, index.at, err);
    }
    return folder_lacks(folder,
                        "has no model.safetensors, no pytorch_model.bin and no index of one", err);
}

enum status tensors_open(struct tensors **out, const char *folder, struct error *err)
{
    struct arena *arena = arena_create(0, 0);
    struct tensors *set = heap_alloc_zeroed(1, sizeof *set);
    set->arena = arena;
    set->shards = heap_alloc_zeroed(TENSOR_FILES_MAX, sizeof *set->shards);
    enum status status;
    size_t end;
    if (source_is_gguf(folder, &end) && folder[end] == '\0') {
        status = gguf_add(set, folder, err);
        if (status == STATUS_OK)
            status = names_check(set, err);
    } else {
        status = folder_open(set, folder, err);
    }
    if (status == STATUS_OK && !set->gguf)
        status = packed_join(set, folder, err);
    status = tensors_check(set, status, err);
    if (status != STATUS_OK) {
        tensors_close(set);
        return status;
    }
    *out = set;
    return STATUS_OK;
}

enum status tensors_check(const struct tensors *set, enum status status, struct error *err)
{
    if (set->gguf)
        status = gguf_file_check(set->gguf, status, err);
    for (uint32_t i = 0; i < set->shard_count; i++)
        status = mapping_check(&set->shards[i].file, status, err);
    return status;
}

// Adds bytes to a hash.
static void hash_add(struct hash *hash, const void *at, size_t bytes)
{
    const uint64_t key[2] = {hash->low, hash->high};
    *hash = hash_bytes(key, at, bytes);
}

struct hash tensors_hash(const struct tensors *set)
{
    enum { PIECES = 2048, PIECE_BYTES = 64 };
    struct hash hash = {1, 2};
    uint32_t count = set->count + set->part_count;
    uint32_t each = count > 0 && count < PIECES ? PIECES / count : 1;
    uint32_t skip = count / PIECES + 1; // every skip-th tensor is sampled
    for (uint32_t i = 0; i < count; i++) {
        const struct tensor *tensor = &set->tensors[i];
        hash_add(&hash, tensor->name.at, tensor->name.bytes);
        hash_add(&hash, tensor->type, strlen(tensor->type));
        hash_add(&hash, tensor->shape, tensor->dims * sizeof tensor->shape[0]);
        for (uint32_t p = 0; p < each && i % skip == 0; p++) {
            uint64_t at = tensor->bytes / each * p, left = tensor->bytes - at;
            hash_add(&hash, (const char *)tensor->map + at,
                     left < PIECE_BYTES ? left : PIECE_BYTES);
        }
    }
    return hash;
}

void tensors_close(struct tensors *set)
{
    if (!set)
        return;
    for (uint32_t i = 0; i < set->shard_count; i++)
        mapping_close(&set->shards[i].file);
    model_source_close(set->gguf);
    heap_free(set->shards);
    heap_free(set->tensors);
    arena_destroy(set->arena);
    heap_free(set);
}

const struct tensor *tensors_find(const struct tensors *set, const char *name)
{
    struct tensor key = {.name = text_of(name)};
    if (set->count == 0)
        return NULL;
    return bsearch(&key, set->tensors, set->count, sizeof key, tensor_name_order);
}

const char *tensors_name_in_file(const struct tensors *set, const char *name,
                                 char out[TENSOR_NAME_MAX])
{
    return set->gguf && gguf_tensor_name_back(out, name, &set->gguf->gguf) ? out : name;
}

const struct tensors_words *tensors_words(const struct tensors *set)
{
    static const struct tensors_words folder = {
        "config.json", "F32, BF16 and F16",
        "; download the folder again or take another checkpoint of the model",
        ": download the model again, or take a folder of the architecture that config.json names"};
    static const struct tensors_words gguf = {"the metadata",
                                              "F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q2_K, "
                                              "Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL, IQ4_XS and MXFP4",
                                              "; take another file of the model",
                                              "; take another file of the model"};
    return set->gguf ? &gguf : &folder;
}

bool tensors_are_gguf(const struct tensors *set)
{
    return set->gguf != NULL;
}

const struct tensor *tensors_packed(const struct tensors *set)
{
    return set->packed;
}

uint32_t tensors_count(const struct tensors *set)
{
    return set->count;
}

const struct tensor *tensors_at(const struct tensors *set, uint32_t index)
{
    check(index < set->count, "tensor %u of %u", index, set->count);
    return &set->tensors[index];
}
