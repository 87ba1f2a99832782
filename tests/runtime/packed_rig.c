// SPDX-License-Identifier: Apache-2.0
// See packed_rig.h.
#include "tests/runtime/packed_rig.h"

#include "base/arena.h"
#include "base/status.h"

#include <string.h>

static size_t type_bytes(const char *type)
{
    static const struct {
        const char *type;
        size_t bytes;
    } types[] = {{"F32", 4}, {"F16", 2}, {"BF16", 2}, {"F8_E4M3", 1}, {"F8_E8M0", 1},
                 {"U8", 1},  {"I8", 1},  {"I32", 4},  {"I64", 8}};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (strcmp(type, types[i].type) == 0)
            return types[i].bytes;
    check(false, "type %s", type);
    return 0;
}

// Writes element i: a value of a list, which several tensors may share, or the top bits of the hash
// with the masks keep and add.
static void element_write(char *to, const json_t *entry, const json_t *shared, size_t bytes,
                          uint64_t seed, uint32_t index, uint64_t i)
{
    const json_t *content = json_array_get(entry, 3);
    if (json_is_string(content))
        content = json_object_get(shared, json_string_value(content));
    if (json_is_array(content)) {
        const json_t *value = json_array_get(content, i % json_array_size(content));
        int64_t whole = (int64_t)json_integer_value(value);
        float real = (float)json_number_value(value);
        bool floats = json_string_value(json_array_get(entry, 1))[0] == 'F';
        memcpy(to, floats && bytes == 4 ? (const void *)&real : &whole, bytes);
        return;
    }
    struct golden_tensor tensor = {.seed = seed, .index = index};
    uint64_t bits = golden_noise(&tensor, i) >> (64 - 8 * bytes);
    bits = (bits & (uint64_t)json_integer_value(content)) |
           (uint64_t)json_integer_value(json_array_get(entry, 4));
    memcpy(to, &bits, bytes);
}

void packed_folder_write(const char *folder, const json_t *golden)
{
    uint64_t seed = (uint64_t)json_integer_value(json_object_get(golden, "seed"));
    const json_t *shared = json_object_get(golden, "shared");
    struct tensor_file file;
    const char *name;
    const json_t *entry;
    json_t *json;
    size_t index;
    file_write_json(folder, "config.json", json_object_get(golden, "config"));
    json_object_foreach(json_object_get(golden, "files"), name, json)
        file_write_json(folder, name, json);
    tensor_file_begin(&file);
    json_array_foreach(json_object_get(golden, "tensors"), index, entry)
    {
        const char *type = json_string_value(json_array_get(entry, 1));
        size_t each = type_bytes(type);
        uint64_t count;
        char *at = tensor_file_extend(&file, json_string_value(json_array_get(entry, 0)), type,
                                      json_array_get(entry, 2), each, &count);
        for (uint64_t i = 0; i < count; i++)
            element_write(at + i * each, entry, shared, each, seed, (uint32_t)index, i);
    }
    tensor_file_write(&file, folder, "model.safetensors");
}
