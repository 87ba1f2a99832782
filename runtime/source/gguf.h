// SPDX-License-Identifier: Apache-2.0
// The container format GGUF: keys with values, and tensors with names, shapes, types and offsets.
// Every number is checked against the file before anything can be found, so the bytes of a value
// and of a tensor lie inside the file. gguf_config.c and gguf_tokenizer.c know the meaning of keys;
// runtime/model/dequantise.h computes quantised elements. Loading thread only.
#pragma once

#include "base/arena.h"
#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    GGUF_DIMS_MAX = 4,
    GGUF_VALUES_MAX = 1 << 16,
    GGUF_TENSORS_MAX = 1 << 19,
    GGUF_KEY_MAX = 1024,      // bytes
    GGUF_NAME_MAX = 256,      // bytes of a tensor's name
    GGUF_DEPTH_MAX = 4,       // nesting depth of arrays
    GGUF_PARTS_MAX = 1000,    // files of a model
    GGUF_ITEMS_MAX = 1 << 24, // items of an array of strings or of arrays
};

enum gguf_kind { // type of a value, numbered as in the file
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

// Returns the size in bytes of a number or a flag; 0 for a string or an array, whose length is
// stored with the value.
uint32_t gguf_kind_bytes(enum gguf_kind kind);

struct gguf_value {
    struct text key;
    enum gguf_kind kind;
    enum gguf_kind item; // type of an array's items
    uint64_t count;      // number of an array's items
    struct text bytes;   // a string's text, an array's items, or the number
};

enum gguf_type_id { // type of a tensor's elements, numbered as in the file
    GGUF_TYPE_F32 = 0,
    GGUF_TYPE_F16 = 1,
    GGUF_TYPE_Q4_0 = 2,
    GGUF_TYPE_Q4_1 = 3,
    GGUF_TYPE_Q5_0 = 6,
    GGUF_TYPE_Q5_1 = 7,
    GGUF_TYPE_Q8_0 = 8,
    GGUF_TYPE_Q2_K = 10,
    GGUF_TYPE_Q3_K = 11,
    GGUF_TYPE_Q4_K = 12,
    GGUF_TYPE_Q5_K = 13,
    GGUF_TYPE_Q6_K = 14,
    GGUF_TYPE_IQ4_NL = 20,
    GGUF_TYPE_IQ4_XS = 23,
    GGUF_TYPE_BF16 = 30,
    GGUF_TYPE_MXFP4 = 39,
};

struct gguf_type {
    const char *name;
    uint32_t id;              // enum gguf_type_id, or the number of an unsupported type
    uint32_t elements, bytes; // per block
};

struct gguf_tensor {
    struct text name;
    uint64_t shape[GGUF_DIMS_MAX]; // the first dimension is the length of a row
    uint32_t dims;
    const struct gguf_type *type;
    uint64_t offset, bytes; // offset from the start of the file; size
    uint32_t part;          // file with its bytes: 0: the first, else others[part - 1]
};

struct gguf {
    const char *name;          // name of the file, for messages
    struct text file;          // the entire file
    struct gguf_value *values; // [value_count], sorted by key
    uint32_t value_count;
    struct gguf_tensor *tensors; // [tensor_count], sorted by name
    uint32_t tensor_count;
    struct gguf *others; // [other_count] parts 2, 3, ... of a model in several files
    uint32_t other_count;
};

// Returns the type with this number, or NULL if it is unknown.
const struct gguf_type *gguf_type_of(uint32_t id);

// Parses a file. `file` must outlive `out`; `name` is copied, and the lists are allocated from the
// arena. Errors name the file and the byte.
enum status gguf_parse(struct gguf *out, struct arena *arena, struct text file, const char *name,
                       struct error *err) MUST_USE;

// A model in several files: PREFIX-00001-of-00003.gguf and so on. The first has all keys of the
// model, each has some of the tensors (gguf_split.c).
struct gguf_split {
    uint32_t number;  // index of this file, from 0
    uint32_t count;   // number of files; 1: not split
    uint32_t tensors; // number of tensors in all files; 0: unknown
};
enum status gguf_split_read(struct gguf_split *out, const struct gguf *file,
                            struct error *err) MUST_USE;
// Reads the numbers in the path of a part, PREFIX-00001-of-00003.gguf; the caller compares ".gguf".
// Returns the length of PREFIX; 0: the path has no numbers.
size_t gguf_part_stem(const char *path, uint32_t *number, uint32_t *count);
// Writes the path of part `number`, from 0. path: that of any part. Returns false if it does not
// end like the path of one of `count` parts, or has `size` bytes or more.
bool gguf_part_path(char *out, size_t size, const char *path, uint32_t number, uint32_t count);
// Adds the tensors of first->others, which the caller has parsed in order, to those of `first`.
// INVALID if a file is not the part that its place requires, a tensor occurs twice, or one is
// missing.
enum status gguf_join(struct gguf *first, struct arena *arena, struct error *err) MUST_USE;
// Returns the file that has the tensor's bytes.
const struct gguf *gguf_home(const struct gguf *first, const struct gguf_tensor *tensor);

// Sorts the tensors by name. INVALID if one occurs twice.
enum status gguf_tensors_sort(struct gguf *file, struct error *err) MUST_USE;

// Return the value of a key, the tensor of a name, or NULL.
const struct gguf_value *gguf_find(const struct gguf *file, const char *key);
const struct gguf_tensor *gguf_tensor_find(const struct gguf *file, const char *name);

// The functions below read the value of one key and check it (gguf_values.c). Errors name the file
// and the key. If the key is absent, *out gets the fallback.

struct gguf_number {
    const char *key;
    double low, high;
    double fallback; // value of an absent key; NAN: the key is required
};
enum status gguf_number(double *out, const struct gguf *file, const struct gguf_number *wanted,
                        struct error *err) MUST_USE;
enum status gguf_count(uint32_t *out, const struct gguf *file, const struct gguf_number *wanted,
                       struct error *err) MUST_USE;
// Reads a token id; an id of `count` or more is an error. *out is -1 if the key is absent or has
// the value 2^32 - 1, which some converters write if a model has no such token.
enum status gguf_token_id(int32_t *out, const struct gguf *file, const char *key, uint32_t count,
                          struct error *err) MUST_USE;
enum status gguf_flag(bool *out, const struct gguf *file, const char *key, bool fallback,
                      struct error *err) MUST_USE;
// Reads a string, which must be UTF-8; at == NULL if the key is absent.
enum status gguf_text(struct text *out, const struct gguf *file, const char *key,
                      struct error *err) MUST_USE;

// Finds an array; kinds: bitmap of the allowed item types (1 << enum gguf_kind), any other type is
// an error. *out points into file->values; NULL if the key is absent.
enum status gguf_array(const struct gguf_value **out, const struct gguf *file, const char *key,
                       uint32_t kinds, struct error *err) MUST_USE;
// Returns item i of an array of numbers.
double gguf_item(const struct gguf_value *array, uint64_t i);
// Sets *out to a list in the arena, [array->count], of the strings of an array; their bytes are not
// copied and lie in the file. INVALID if one is not UTF-8, TOO_LARGE if there are more than
// count_max.
enum status gguf_strings(struct text **out, const struct gguf *file, const struct gguf_value *array,
                         uint64_t count_max, struct arena *arena, struct error *err) MUST_USE;
