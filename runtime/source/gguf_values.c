// SPDX-License-Identifier: Apache-2.0
// Reads the values of a GGUF file's keys and checks their type and range; see gguf.h. Loading
// thread only.
#include "runtime/source/gguf.h"

#include "base/safe.h"
#include "base/utf8.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

uint32_t gguf_kind_bytes(enum gguf_kind kind)
{
    static const uint8_t bytes[GGUF_KINDS] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    return bytes[kind];
}

static double number_at(enum gguf_kind kind, const char *at)
{
    union {
        uint8_t u8;
        int8_t i8;
        uint16_t u16;
        int16_t i16;
        uint32_t u32;
        int32_t i32;
        float f32;
        uint64_t u64;
        int64_t i64;
        double f64;
    } v = {.u64 = 0};
    memcpy(&v, at, gguf_kind_bytes(kind));
    switch (kind) {
    case GGUF_I8:
        return v.i8;
    case GGUF_I16:
        return v.i16;
    case GGUF_I32:
        return v.i32;
    case GGUF_F32:
        return (double)v.f32;
    case GGUF_I64:
        return (double)v.i64;
    case GGUF_F64:
        return v.f64;
    default:
        return (double)v.u64;
    }
}

static bool is_number(enum gguf_kind kind)
{
    return kind != GGUF_STRING && kind != GGUF_ARRAY && kind != GGUF_BOOL;
}

static enum status key_missing(const struct gguf *file, const char *key, struct error *err)
{
    return error_set(err, STATUS_INVALID,
                     "%s: the key %s is missing; take a file that a current converter wrote",
                     file->name, key);
}

enum status gguf_number(double *out, const struct gguf *file, const struct gguf_number *wanted,
                        struct error *err)
{
    const struct gguf_value *value = gguf_find(file, wanted->key);
    *out = wanted->fallback;
    if (!value)
        return isnan(wanted->fallback) ? key_missing(file, wanted->key, err) : STATUS_OK;
    if (!is_number(value->kind))
        return error_set(err, STATUS_INVALID,
                         "%s: the key %s is not a number; take a file that a current converter "
                         "wrote",
                         file->name, wanted->key);
    double number = number_at(value->kind, value->bytes.at);
    if (!(number >= wanted->low && number <= wanted->high))
        return error_set(
            err, STATUS_INVALID,
            "%s: the key %s is %.8g, allowed is %.8g to %.8g; take another file of the "
            "model",
            file->name, wanted->key, number, wanted->low, wanted->high);
    *out = number;
    return STATUS_OK;
}

enum status gguf_count(uint32_t *out, const struct gguf *file, const struct gguf_number *wanted,
                       struct error *err)
{
    double number = 0;
    enum status status = gguf_number(&number, file, wanted, err);
    if (status == STATUS_OK && number != floor(number))
        return error_set(err, STATUS_INVALID,
                         "%s: the key %s is %g, not a whole number; take another file of the model",
                         file->name, wanted->key, number);
    *out = status == STATUS_OK ? (uint32_t)number : 0;
    return status;
}

enum status gguf_token_id(int32_t *out, const struct gguf *file, const char *key, uint32_t count,
                          struct error *err)
{
    double id;
    struct gguf_number wanted = {key, 0, count > 0 ? count - 1 : 0, -1};
    const struct gguf_value *value = gguf_find(file, key);
    *out = -1;
    if (value && value->kind == GGUF_U32 && memcmp(value->bytes.at, "\xff\xff\xff\xff", 4) == 0)
        return STATUS_OK;
    enum status status = gguf_number(&id, file, &wanted, err);
    if (status == STATUS_OK)
        *out = (int32_t)id;
    return status;
}

enum status gguf_flag(bool *out, const struct gguf *file, const char *key, bool fallback,
                      struct error *err)
{
    const struct gguf_value *value = gguf_find(file, key);
    *out = fallback;
    if (!value)
        return STATUS_OK;
    if (value->kind != GGUF_BOOL || (unsigned char)value->bytes.at[0] > 1)
        return error_set(err, STATUS_INVALID,
                         "%s: the key %s is neither true nor false; take a file that a current "
                         "converter wrote",
                         file->name, key);
    *out = value->bytes.at[0] != 0;
    return STATUS_OK;
}

enum status gguf_text(struct text *out, const struct gguf *file, const char *key, struct error *err)
{
    const struct gguf_value *value = gguf_find(file, key);
    *out = text_span(NULL, 0);
    if (!value)
        return STATUS_OK;
    if (value->kind != GGUF_STRING)
        return error_set(err, STATUS_INVALID,
                         "%s: the key %s is not a string; take a file that a current converter "
                         "wrote",
                         file->name, key);
    size_t valid = utf8_valid_prefix(value->bytes);
    if (valid != value->bytes.bytes)
        return error_set(err, STATUS_INVALID,
                         "%s: the key %s is not UTF-8 at its byte %zu; the file is cut or damaged, "
                         "download it again",
                         file->name, key, valid);
    *out = value->bytes;
    return STATUS_OK;
}

enum status gguf_array(const struct gguf_value **out, const struct gguf *file, const char *key,
                       uint32_t kinds, struct error *err)
{
    const struct gguf_value *value = gguf_find(file, key);
    *out = NULL;
    if (!value)
        return STATUS_OK;
    if (value->kind != GGUF_ARRAY || (kinds & 1u << value->item) == 0)
        return error_set(err, STATUS_INVALID,
                         "%s: the key %s is not an array of %s; take a file that a current "
                         "converter wrote",
                         file->name, key, kinds == 1u << GGUF_STRING ? "strings" : "numbers");
    *out = value;
    return STATUS_OK;
}

double gguf_item(const struct gguf_value *array, uint64_t i)
{
    uint64_t each = array->bytes.bytes / array->count;
    return number_at(array->item, array->bytes.at + i * each);
}

enum status gguf_strings(struct text **out, const struct gguf *file, const struct gguf_value *array,
                         uint64_t count_max, struct arena *arena, struct error *err)
{
    if (array->count > count_max)
        return error_set(err, STATUS_TOO_LARGE,
                         "%s: the key %s has %" PRIu64 " items, at most %" PRIu64 " are read",
                         file->name, safe_of(array->key).at, array->count, count_max);
    struct text *list = arena_alloc_zeroed(arena, array->count + 1, sizeof *list);
    const char *at = array->bytes.at;
    uint64_t left = array->bytes.bytes;
    for (uint64_t i = 0; i < array->count; i++) {
        uint64_t bytes = 0;
        // gguf_parse has checked the lengths, but a file that is written to may have others now
        if (left < sizeof bytes || (bytes = text_number(at, sizeof bytes)) > left - sizeof bytes)
            return error_set(err, STATUS_INVALID,
                             "%s: the key %s: item %" PRIu64 " is longer than the rest of the "
                             "array: load it again if the file was still being written, else "
                             "download it again",
                             file->name, safe_of(array->key).at, i);
        list[i] = text_span(at + sizeof bytes, bytes);
        at += sizeof bytes + bytes;
        left -= sizeof bytes + bytes;
        size_t valid = utf8_valid_prefix(list[i]);
        if (valid != bytes)
            return error_set(err, STATUS_INVALID,
                             "%s: the key %s: item %" PRIu64 " is not UTF-8 at its byte %zu; the "
                             "file is cut or damaged, download it again",
                             file->name, safe_of(array->key).at, i, valid);
    }
    *out = list;
    return STATUS_OK;
}
