// Reads safetensors files: 8 bytes of header length, a JSON header, then the bytes of all tensors
// without gaps. Loading thread only. A set owns its mappings, descriptors and an arena with names
// and tensor records.
#include "runtime/model/safetensors.h"

#include "base/folder.h"
#include "base/json.h"
#include "runtime/model/gguf_tensors.h"
#include "runtime/source/mapping.h"
#include "runtime/source/source.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct shard {
    const char *name;
    struct mapping file;
};

struct tensors {
    struct arena *arena;
    struct shard *shards;
    uint32_t shard_count;
    struct tensor *tensors; // [count], sorted by name
    uint32_t count;
    bool gguf;
};

static const struct {
    const char *name;
    uint32_t bytes;
    int dtype;
} element_types[] = {
    {"F32", 4, DTYPE_F32}, {"BF16", 2, DTYPE_BF16}, {"F16", 2, DTYPE_F16}, {"F64", 8, -1},
    {"I64", 8, -1},        {"I32", 4, -1},          {"I16", 2, -1},        {"I8", 1, -1},
    {"U64", 8, -1},        {"U32", 4, -1},          {"U16", 2, -1},        {"U8", 1, -1},
    {"BOOL", 1, -1},       {"F8_E4M3", 1, -1},      {"F8_E5M2", 1, -1},
};

static int tensor_name_order(const void *a, const void *b)
{
    return text_order(((const struct tensor *)a)->name, ((const struct tensor *)b)->name);
}

static int tensor_place_order(const void *a, const void *b)
{
    const struct tensor *x = a;
    const struct tensor *y = b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static bool json_u64(const json_t *value, uint64_t *out)
{
    int64_t number;
    if (!json_is_integer(value) || !json_integer_exact(value, &number) || number < 0)
        return false;
    *out = (uint64_t)number;
    return true;
}

// Reads type and shape. *bytes is the tensor's size; a size over 63 bits is refused.
static enum status shape_read(struct tensor *tensor, uint64_t *bytes, const json_t *entry,
                              const char *file, struct error *err)
{
    const char *type = json_string_value(json_object_get(entry, "dtype"));
    size_t kind = 0;
    size_t kinds = sizeof element_types / sizeof element_types[0];
    while (type && kind < kinds && strcmp(type, element_types[kind].name) != 0)
        kind++;
    if (!type || kind == kinds)
        return error_set(err, STATUS_UNSUPPORTED, "%s: tensor %s has the unknown dtype %.32s", file,
                         tensor->name.at, type ? type : "(none)");
    tensor->type = element_types[kind].name;
    tensor->dtype = element_types[kind].dtype;
    const json_t *shape = json_object_get(entry, "shape");
    if (!json_is_array(shape) || json_array_size(shape) > TENSOR_DIMS_MAX)
        return error_set(err, STATUS_INVALID,
                         "%s: the shape of tensor %s is not a list of at most %d sizes", file,
                         tensor->name.at, TENSOR_DIMS_MAX);
    tensor->dims = (uint32_t)json_array_size(shape);
    uint64_t total = element_types[kind].bytes;
    for (uint32_t i = 0; i < tensor->dims; i++) {
        uint64_t size;
        if (!json_u64(json_array_get(shape, i), &size))
            return error_set(err, STATUS_INVALID,
                             "%s: the shape of tensor %s holds something that is not a size", file,
                             tensor->name.at);
        tensor->shape[i] = size;
        if (__builtin_mul_overflow(total, size, &total) || total > INT64_MAX)
            return error_set(err, STATUS_INVALID, "%s: the shape of tensor %s overflows", file,
                             tensor->name.at);
    }
    *bytes = total;
    return STATUS_OK;
}

static enum status tensor_read(struct tensor *tensor, const json_t *entry, uint64_t data_bytes,
                               const char *file, struct error *err)
{
    if (!json_is_object(entry))
        return error_set(err, STATUS_INVALID, "%s: the entry of tensor %s is not an object", file,
                         tensor->name.at);
    uint64_t wanted = 0;
    enum status status = shape_read(tensor, &wanted, entry, file, err);
    if (status != STATUS_OK)
        return status;
    const json_t *places = json_object_get(entry, "data_offsets");
    uint64_t first, end;
    if (!json_is_array(places) || json_array_size(places) != 2 ||
        !json_u64(json_array_get(places, 0), &first) || !json_u64(json_array_get(places, 1), &end))
        return error_set(err, STATUS_INVALID, "%s: data_offsets of tensor %s are not two offsets",
                         file, tensor->name.at);
    if (first > end || end > data_bytes)
        return error_set(err, STATUS_INVALID,
                         "%s: tensor %s lies at bytes %" PRIu64 " to %" PRIu64 " of %" PRIu64
                         "; the file is cut or damaged",
                         file, tensor->name.at, first, end, data_bytes);
    if (end - first != wanted)
        return error_set(err, STATUS_INVALID,
                         "%s: tensor %s has %" PRIu64 " bytes, its shape and dtype want %" PRIu64,
                         file, tensor->name.at, end - first, wanted);
    tensor->offset = first;
    tensor->bytes = wanted;
    return STATUS_OK;
}

// Refuses tensors that share bytes: a damaged header could otherwise load unnoticed.
static enum status overlap_check(struct tensor *tensors, uint32_t count, const char *file,
                                 struct error *err)
{
    qsort(tensors, count, sizeof *tensors, tensor_place_order);
    const struct tensor *last = NULL;
    for (uint32_t i = 0; i < count; i++) {
        if (tensors[i].bytes == 0)
            continue;
        if (last && tensors[i].offset < last->offset + last->bytes)
            return error_set(err, STATUS_INVALID, "%s: tensors %s and %s overlap", file,
                             last->name.at, tensors[i].name.at);
        last = &tensors[i];
    }
    return STATUS_OK;
}

// Returns true for the text that Git checks out in place of a large file that was not fetched.
static bool is_lfs_pointer(struct text file)
{
    static const char head[] = "version https://git-lfs";
    return file.bytes >= sizeof head - 1 && memcmp(file.at, head, sizeof head - 1) == 0;
}

// Reads and checks the length of the JSON header.
static enum status header_bytes(uint64_t *out, struct text file, const char *name,
                                struct error *err)
{
    if (is_lfs_pointer(file))
        return error_set(err, STATUS_INVALID,
                         "%s is a Git LFS pointer, not the weights: run 'git lfs pull' in its "
                         "folder",
                         name);
    if (file.bytes < 8)
        return error_set(err, STATUS_INVALID, "%s: %zu bytes are too few for a safetensors file",
                         name, file.bytes);
    uint64_t header = 0;
    for (int i = 7; i >= 0; i--)
        header = header << 8 | (unsigned char)file.at[i];
    if (header > TENSOR_HEADER_MAX || header > file.bytes - 8)
        return error_set(err, STATUS_INVALID,
                         "%s: the header is said to have %" PRIu64
                         " bytes, the file has %zu; it is cut or not a safetensors file",
                         name, header, file.bytes);
    *out = header;
    return STATUS_OK;
}

static enum status entries_read(struct tensor *list, uint32_t *count, struct arena *arena,
                                const json_t *header, struct text data, const char *name,
                                struct error *err)
{
    const char *key;
    json_t *entry;
    size_t key_bytes;
    json_object_keylen_foreach((json_t *)header, key, key_bytes, entry)
    {
        if (strcmp(key, "__metadata__") == 0)
            continue;
        if (key_bytes > TENSOR_NAME_MAX || strlen(key) != key_bytes)
            return error_set(err, STATUS_INVALID,
                             "%s: a tensor name has over %d bytes, or a NUL among them", name,
                             TENSOR_NAME_MAX);
        struct tensor *tensor = &list[*count];
        *tensor = (struct tensor){.fd = -1, .file = name};
        tensor->name = arena_copy(arena, text_of(key));
        enum status status = tensor_read(tensor, entry, data.bytes, name, err);
        if (status != STATUS_OK)
            return status;
        tensor->map = data.at + tensor->offset;
        (*count)++;
    }
    return STATUS_OK;
}

// Counts the keys of the outermost object and, in *values, the values at all levels, with a scan
// that knows only strings and nesting. The JSON reader would keep the last of two equal keys, but a
// repeated tensor name means that the file is damaged.
static uint32_t keys_count(struct text json, uint32_t *values)
{
    uint32_t commas = 0;
    *values = 1;
    int depth = 0;
    bool any = false;
    for (size_t i = 0; i < json.bytes; i++) {
        char c = json.at[i];
        if (c == '"') {
            any = true;
            for (i++; i < json.bytes && json.at[i] != '"'; i++)
                i += json.at[i] == '\\';
        } else if (c == '{' || c == '[') {
            depth++;
            ++*values;
        } else if (c == '}' || c == ']') {
            depth--;
        } else if (c == ',') {
            commas += depth == 1;
            ++*values;
        }
    }
    return any ? commas + 1 : 0;
}

enum status safetensors_parse(struct tensor **out, uint32_t *count, struct arena *arena,
                              struct text file, const char *name, struct error *err)
{
    uint64_t header_length = 0;
    enum status status = header_bytes(&header_length, file, name, err);
    if (status != STATUS_OK)
        return status;
    struct text json = text_span(file.at + 8, header_length);
    struct text data = text_span(json.at + json.bytes, file.bytes - 8 - header_length);
    json_t *header = NULL;
    uint32_t values, keys = keys_count(json, &values);
    if (keys > TENSORS_MAX + 1 || values > TENSOR_VALUES_MAX) // one more key for metadata
        return error_set(err, STATUS_TOO_LARGE,
                         "%s: the header has %u entries and %u values; at most %d tensors and %d "
                         "values are read",
                         name, keys, values, TENSORS_MAX, TENSOR_VALUES_MAX);
    status = json_parse(&header, json, err);
    if (status != STATUS_OK)
        return error_prefix(err, "%s: the header is not JSON", name);
    *count = 0;
    if (!json_is_object(header)) {
        status = error_set(err, STATUS_INVALID, "%s: the header is not a JSON object", name);
    } else if (keys != json_object_size(header)) {
        status =
            error_set(err, STATUS_INVALID, "%s: a tensor name stands twice in the header", name);
    } else {
        *out = arena_alloc_zeroed(arena, json_object_size(header) + 1, sizeof **out);
        status = entries_read(*out, count, arena, header, data, name, err);
    }
    json_decref(header);
    if (status == STATUS_OK)
        status = overlap_check(*out, *count, name, err);
    for (uint32_t i = 0; status == STATUS_OK && i < *count; i++)
        (*out)[i].offset += 8 + header_length;
    return status;
}

// Opens one more file, FOLDER/NAME or a GGUF file, and appends its tensors.
static enum status shard_add(struct tensors *set, const char *folder, const char *name,
                             struct error *err)
{
    struct shard *shard = &set->shards[set->shard_count];
    const char *path = set->gguf ? name : arena_format(set->arena, "%s/%s", folder, name).at;
    shard->name = arena_copy(set->arena, text_of(name)).at;
    enum status status = mapping_open(&shard->file, path, sizeof(uint64_t), err);
    set->shard_count++; // also after a failure, so that tensors_close closes the file
    if (status != STATUS_OK)
        return status;
    struct tensor *list = NULL;
    uint32_t count = 0;
    struct text bytes = text_span(shard->file.at, shard->file.bytes);
    status = set->gguf ? gguf_tensors_parse(&list, &count, set->arena, bytes, shard->name, err)
                       : safetensors_parse(&list, &count, set->arena, bytes, shard->name, err);
    if (status != STATUS_OK)
        return status;
    if (count > TENSORS_MAX - set->count)
        return error_set(err, STATUS_TOO_LARGE, "%s has more than %d tensors", folder, TENSORS_MAX);
    size_t held = set->count * sizeof *list;
    set->tensors = heap_grow(set->tensors, held + count * sizeof *list);
    if (count > 0)
        memcpy(set->tensors + set->count, list, count * sizeof *list);
    for (uint32_t i = 0; i < count; i++)
        set->tensors[set->count + i].fd = shard->file.fd;
    set->count += count;
    return STATUS_OK;
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
    json_object_foreach((json_t *)map, key, value)
    {
        const char *name = json_string_value(value);
        if (!name || !shard_name_valid(name))
            return error_set(err, STATUS_INVALID,
                             "%s/model.safetensors.index.json: tensor %.200s names no file of the "
                             "folder",
                             folder, key);
        uint32_t i = 0;
        while (i < set->shard_count && strcmp(set->shards[i].name, name) != 0)
            i++;
        if (i < set->shard_count)
            continue;
        if (set->shard_count == TENSOR_FILES_MAX)
            return error_set(err, STATUS_TOO_LARGE, "%s: over %d weight files", folder,
                             TENSOR_FILES_MAX);
        enum status status = shard_add(set, folder, name, err);
        if (status == STATUS_NOT_FOUND)
            return error_set(err, STATUS_NOT_FOUND,
                             "%s/model.safetensors.index.json names %s, which the folder lacks: "
                             "download it again",
                             folder, name);
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
            return error_set(err, STATUS_INVALID,
                             "model.safetensors.index.json: tensor %.200s is not in %s", key,
                             json_string_value(value));
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

// Returns true also for a dangling link: an interrupted download leaves such a link, and opening it
// reports the error.
static bool entry_exists(const char *path)
{
    struct stat about;
    return lstat(path, &about) == 0;
}

enum status tensors_open(struct tensors **out, const char *folder, struct error *err)
{
    struct arena *arena = arena_create(0, 0);
    struct tensors *set = heap_alloc_zeroed(1, sizeof *set);
    set->arena = arena;
    set->shards = heap_alloc_zeroed(TENSOR_FILES_MAX, sizeof *set->shards);
    struct text index = arena_format(arena, "%s/model.safetensors.index.json", folder);
    struct text single = arena_format(arena, "%s/model.safetensors", folder);
    enum status status;
    size_t end;
    set->gguf = source_is_gguf(folder, &end) && folder[end] == '\0';
    if (set->gguf) {
        status = shard_add(set, folder, folder, err);
        if (status == STATUS_OK)
            status = names_check(set, err);
    } else if (entry_exists(single.at)) {
        status = shard_add(set, folder, "model.safetensors", err);
        if (status == STATUS_OK)
            status = names_check(set, err);
    } else if (entry_exists(index.at)) {
        status = index_open(set, folder, index.at, err);
    } else {
        status = folder_lacks(folder,
                              "has no model.safetensors and no model.safetensors.index.json", err);
    }
    if (status != STATUS_OK) {
        tensors_close(set);
        return status;
    }
    *out = set;
    return STATUS_OK;
}

enum status tensors_check(const struct tensors *set, struct error *err)
{
    struct stat about;
    for (uint32_t i = 0; i < set->shard_count; i++) {
        const struct shard *shard = &set->shards[i];
        if (fstat(shard->file.fd, &about) != 0 || (uint64_t)about.st_size < shard->file.bytes)
            return error_set(err, STATUS_IO,
                             "%s was cut while it was loaded; load it again when it is whole",
                             shard->name);
    }
    return STATUS_OK;
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
    uint32_t each = set->count > 0 && set->count < PIECES ? PIECES / set->count : 1;
    uint32_t skip = set->count / PIECES + 1; // every skip-th tensor is sampled
    for (uint32_t i = 0; i < set->count; i++) {
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
    return set->gguf && gguf_tensor_name_back(out, name) ? out : name;
}

const struct tensors_words *tensors_words(const struct tensors *set)
{
    static const struct tensors_words folder = {"config.json", "F32, BF16 and F16", ""};
    static const struct tensors_words gguf = {
        "the metadata", "F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K and Q6_K",
        "; take another file of the model"};
    return set->gguf ? &gguf : &folder;
}

bool tensors_are_gguf(const struct tensors *set)
{
    return set->gguf;
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
