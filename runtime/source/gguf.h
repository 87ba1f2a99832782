// The container of GGUF: keys with values, and tensors with names, shapes, types and places. Every
// number is checked against the file before anything can be found, so the bytes of a value and of a
// tensor lie inside. What the keys mean is not known here (gguf_config.c, gguf_tokenizer.c), nor
// how quantised elements are computed (runtime/model/dequantise.h). Loading thread only.
#pragma once

#include "base/arena.h"
#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    GGUF_DIMS_MAX = 4,
    GGUF_VALUES_MAX = 1 << 16,
    GGUF_TENSORS_MAX = 1 << 16,
    GGUF_KEY_MAX = 1024,      // bytes
    GGUF_NAME_MAX = 256,      // of a tensor
    GGUF_DEPTH_MAX = 4,       // arrays in arrays
    GGUF_ITEMS_MAX = 1 << 24, // of an array of strings or of arrays
};

enum gguf_kind { // of a value, as the file numbers them
    GGUF_U8,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64,
    GGUF_KINDS
};

// Bytes of a number or a flag; 0: a text or an array, which tell their own length.
uint32_t gguf_kind_bytes(enum gguf_kind kind);

struct gguf_value {
    struct text key;
    enum gguf_kind kind;
    enum gguf_kind item; // of an array
    uint64_t count;      // items of an array
    struct text bytes;   // of a string its text; of an array all items
};

enum gguf_type_id { // of a tensor's elements, as the file numbers them
    GGUF_TYPE_F32 = 0,
    GGUF_TYPE_F16 = 1,
    GGUF_TYPE_Q4_0 = 2,
    GGUF_TYPE_Q4_1 = 3,
    GGUF_TYPE_Q5_0 = 6,
    GGUF_TYPE_Q5_1 = 7,
    GGUF_TYPE_Q8_0 = 8,
    GGUF_TYPE_Q4_K = 12,
    GGUF_TYPE_Q5_K = 13,
    GGUF_TYPE_Q6_K = 14,
    GGUF_TYPE_BF16 = 30,
};

struct gguf_type {
    const char *name;
    uint32_t id;
    uint32_t elements, bytes; // of a block
};

struct gguf_tensor {
    struct text name;
    uint64_t shape[GGUF_DIMS_MAX]; // the first is the length of a row
    uint32_t dims;
    const struct gguf_type *type;
    uint64_t offset, bytes; // in the file
};

struct gguf {
    const char *name;          // of the file, for messages
    struct text file;          // all of it
    struct gguf_value *values; // [value_count], sorted by key
    uint32_t value_count;
    struct gguf_tensor *tensors; // [tensor_count], sorted by name
    uint32_t tensor_count;
};

// NULL: no such number is known.
const struct gguf_type *gguf_type_of(uint32_t id);

// file must stay as long as out; name is copied, the lists lie in the arena.
enum status gguf_parse(struct gguf *out, struct arena *arena, struct text file, const char *name,
                       struct error *err) MUST_USE;

const struct gguf_value *gguf_find(const struct gguf *file, const char *key); // or NULL
const struct gguf_tensor *gguf_tensor_find(const struct gguf *file, const char *name);

// ---- values of one key, checked (gguf_values.c); errors name the file and the key

struct gguf_number {
    const char *key;
    double low, high;
    double fallback; // NAN: the key must be there
};
enum status gguf_number(double *out, const struct gguf *file, const struct gguf_number *wanted,
                        struct error *err) MUST_USE;
enum status gguf_count(uint32_t *out, const struct gguf *file, const struct gguf_number *wanted,
                       struct error *err) MUST_USE;
// The id of a token below count; -1 where the key is absent or has the largest number, which some
// converters write where a model has no such token.
enum status gguf_token_id(int32_t *out, const struct gguf *file, const char *key, uint32_t count,
                          struct error *err) MUST_USE;
enum status gguf_flag(bool *out, const struct gguf *file, const char *key, bool fallback,
                      struct error *err) MUST_USE;
// UTF-8; at == NULL where the key is absent.
enum status gguf_text(struct text *out, const struct gguf *file, const char *key,
                      struct error *err) MUST_USE;

// An array whose items are of one of the kinds in the set (1 << kind). *out is NULL where the key
// is absent.
enum status gguf_array(const struct gguf_value **out, const struct gguf *file, const char *key,
                       uint32_t kinds, struct error *err) MUST_USE;
// Item i of an array of numbers, as a number.
double gguf_item(const struct gguf_value *array, uint64_t i);
// The strings of an array, [count] in the arena; each is UTF-8. The array has at most count_max.
enum status gguf_strings(struct text **out, const struct gguf *file, const struct gguf_value *array,
                         uint64_t count_max, struct arena *arena, struct error *err) MUST_USE;
