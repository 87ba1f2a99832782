// SPDX-License-Identifier: Apache-2.0
// Parses safetensors files; see safetensors.h. Every number of the header is checked against the
// file. Loading thread only.
#include "runtime/model/safetensors.h"

#include "base/json.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    uint32_t bytes;
    int dtype;
} element_types[] = {
    {"F32", 4, DTYPE_F32}, {"BF16", 2, DTYPE_BF16}, {"F16", 2, DTYPE_F16}, {"F64", 8, -1},
    {"I64", 8, -1},        {"I32", 4, -1},          {"I16", 2, -1},        {"I8", 1, -1},
    {"U64", 8, -1},        {"U32", 4, -1},          {"U16", 2, -1},        {"U8", 1, -1},
    {"BOOL", 1, -1},       {"F8_E4M3", 1, -1},      {"F8_E5M2", 1, -1},    {"F8_E8M0", 1, -1},
};

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
                         "%s: tensor %s has %" PRIu64 " bytes, its shape and dtype need %" PRIu64,
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

// Reads and checks the length of the JSON header.
static enum status header_bytes(uint64_t *out, struct text file, const char *name,
                                struct error *err)
{
    if (file.bytes < 8)
        return error_set(err, STATUS_INVALID, "%s: %zu bytes are too few for a safetensors file",
                         name, file.bytes);
    uint64_t header = text_number(file.at, 8);
    if (header > TENSOR_HEADER_MAX || header > file.bytes - 8)
        return error_set(err, STATUS_INVALID,
                         "%s: the header length is %" PRIu64
                         " bytes, but the file has %zu; it is cut or not a safetensors file",
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
            error_set(err, STATUS_INVALID, "%s: a tensor name occurs twice in the header", name);
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
