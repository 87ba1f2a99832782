// SPDX-License-Identifier: Apache-2.0
// See golden.h.
#include "tests/runtime/golden.h"

#include "base/status.h"
#include "base/arena.h"
#include "base/json.h"

#include <ftw.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void folder_make(char *path)
{
    strcpy(path, "/tmp/weft-model-XXXXXX");
    check(mkdtemp(path), "no folder %s", path);
}

static int entry_remove(const char *path, const struct stat *about, int kind, struct FTW *place)
{
    (void)about;
    (void)kind;
    (void)place;
    return remove(path);
}

void folder_remove(const char *path)
{
    check(strncmp(path, "/tmp/weft-model-", 16) == 0, "not a test folder: %s", path);
    nftw(path, entry_remove, 8, FTW_DEPTH | FTW_PHYS);
}

void file_write(const char *folder, const char *name, const void *bytes, size_t count)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(path, 0700); // a sub-folder such as 1_Pooling
        *slash = '/';
    }
    FILE *file = fopen(path, "wb");
    check(file, "cannot write %s", path);
    check(fwrite(bytes, 1, count, file) == count, "cannot write %s", path);
    check(fclose(file) == 0, "cannot write %s", path);
}

void file_write_json(const char *folder, const char *name, const json_t *json)
{
    char *text = json_dumps(json, JSON_COMPACT);
    check(text, "no JSON for %s", name);
    file_write(folder, name, text, strlen(text));
    free(text);
}

static uint64_t mix(uint64_t z)
{
    z = (z + 1) * 0x9E3779B97F4A7C15ull;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ z >> 27) * 0x94D049BB133111EBull;
    return z ^ z >> 31;
}

uint64_t golden_noise(const struct golden_tensor *tensor, uint64_t position)
{
    return mix(tensor->seed + ((uint64_t)tensor->index << 32) + position);
}

static void element_put(char *at, enum dtype dtype, float value)
{
    uint16_t half = dtype == DTYPE_BF16 ? f32_to_bf16(value) : f32_to_f16(value);
    if (dtype == DTYPE_F32)
        memcpy(at, &value, sizeof value);
    else
        memcpy(at, &half, sizeof half);
}

void tensor_file_begin(struct tensor_file *file)
{
    *file = (struct tensor_file){.header = json_object()};
}

char *tensor_file_extend(struct tensor_file *file, const char *name, const char *type,
                         const json_t *shape, size_t each, uint64_t *count)
{
    *count = 1;
    for (size_t i = 0; i < json_array_size(shape); i++)
        *count *= (uint64_t)json_integer_value(json_array_get(shape, i));
    size_t begin = file->bytes;
    file->bytes += *count * each;
    file->data = heap_grow(file->data, file->bytes);
    json_t *entry = json_pack("{s:s, s:O, s:[I,I]}", "dtype", type, "shape", shape, "data_offsets",
                              (json_int_t)begin, (json_int_t)file->bytes);
    json_object_set_new(file->header, name, entry);
    return file->data + begin;
}

void tensor_file_add(struct tensor_file *file, const struct golden_tensor *tensor, enum dtype dtype)
{
    static const char *const names[] = {"F32", "BF16", "F16"};
    size_t each = dtype_bytes(dtype);
    uint64_t count;
    char *at = tensor_file_extend(file, tensor->name, names[dtype], tensor->shape, each, &count);
    for (uint64_t i = 0; i < count; i++) {
        double v = (double)(golden_noise(tensor, i) >> 57) - 64;
        double value = tensor->kind < 0 ? 1 + v / 128 : ldexp(v, -tensor->kind);
        element_put(at + i * each, dtype, (float)value);
    }
}

void tensor_file_write(struct tensor_file *file, const char *folder, const char *name)
{
    char *header = json_dumps(file->header, JSON_COMPACT);
    uint64_t length = strlen(header);
    char *all = heap_alloc(8 + length + file->bytes);
    memcpy(all, &length, 8);
    memcpy(all + 8, header, length);
    if (file->bytes > 0)
        memcpy(all + 8 + length, file->data, file->bytes);
    file_write(folder, name, all, 8 + length + file->bytes);
    heap_free(all);
    free(header);
    json_decref(file->header);
    heap_free(file->data);
    *file = (struct tensor_file){.header = NULL};
}

static struct golden_tensor tensor_of(const json_t *golden, const json_t *entry, uint32_t index)
{
    return (struct golden_tensor){json_string_value(json_array_get(entry, 0)),
                                  json_array_get(entry, 1),
                                  (uint64_t)json_integer_value(json_object_get(golden, "seed")),
                                  index, (int)json_integer_value(json_array_get(entry, 2))};
}

static void weights_write(const char *folder, const json_t *golden, enum dtype dtype,
                          uint32_t shards)
{
    const json_t *tensors = json_object_get(golden, "tensors");
    json_t *map = json_object();
    for (uint32_t shard = 0; shard < shards; shard++) {
        char name[64];
        snprintf(name, sizeof name, "model-%05u-of-%05u.safetensors", shard + 1, shards);
        struct tensor_file file;
        tensor_file_begin(&file);
        for (uint32_t i = 0; i < json_array_size(tensors); i++) {
            const json_t *entry = json_array_get(tensors, i);
            struct golden_tensor tensor = tensor_of(golden, entry, i);
            if (i % shards != shard)
                continue;
            tensor_file_add(&file, &tensor, dtype);
            json_object_set_new(map, tensor.name, json_string(name));
        }
        tensor_file_write(&file, folder, shards > 1 ? name : "model.safetensors");
    }
    json_t *index = json_pack("{s:o}", "weight_map", map);
    if (shards > 1)
        file_write_json(folder, "model.safetensors.index.json", index);
    json_decref(index);
}

json_t *golden_read(const char *name)
{
    struct error err;
    json_t *golden = NULL;
    char path[512];
    snprintf(path, sizeof path, "%s/tests/golden/%s.json", WEFT_SOURCE_DIR, name);
    check(json_file_parse(&golden, path, 1 << 20, &err) == STATUS_OK, "%s", err.text);
    return golden;
}

void golden_layers_limit(json_t *golden)
{
    const json_t *count = json_object_get(json_object_get(golden, "config"), "num_hidden_layers");
    json_t *tensors = json_object_get(golden, "tensors");
    for (size_t i = json_array_size(tensors); count && i-- > 0;) {
        const char *name = json_string_value(json_array_get(json_array_get(tensors, i), 0));
        const char *at = strstr(name, "layers.");
        if (at && strtol(at + 7, NULL, 10) >= json_integer_value(count))
            json_array_remove(tensors, i);
    }
}

void golden_folder_write(const char *folder, const json_t *golden, enum dtype dtype,
                         uint32_t shards)
{
    file_write_json(folder, "config.json", json_object_get(golden, "config"));
    const char *name;
    json_t *json;
    json_object_foreach(json_object_get(golden, "files"), name, json)
        file_write_json(folder, name, json);
    weights_write(folder, golden, dtype, shards);
    // Files of modules; the numbers of their tensors follow those of the model.
    uint32_t index = (uint32_t)json_array_size(json_object_get(golden, "tensors"));
    json_object_foreach(json_object_get(golden, "module_tensors"), name, json)
    {
        char path[64];
        snprintf(path, sizeof path, "%s/model.safetensors", name);
        struct tensor_file file;
        tensor_file_begin(&file);
        for (size_t i = 0; i < json_array_size(json); i++) {
            struct golden_tensor tensor = tensor_of(golden, json_array_get(json, i), index++);
            tensor_file_add(&file, &tensor, dtype);
        }
        tensor_file_write(&file, folder, path);
    }
}

void golden_folder(char *path, const char *name, enum dtype dtype)
{
    json_t *golden = golden_read(name);
    folder_make(path);
    golden_folder_write(path, golden, dtype, 1);
    json_decref(golden);
}
