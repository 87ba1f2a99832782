// SPDX-License-Identifier: Apache-2.0
// Reads the head of a GGUF file: magic, version, counts, keys with values, tensors. The tensors'
// bytes follow, each at a multiple of the alignment. Loading thread only; see gguf.h.
#include "runtime/source/gguf.h"

#include "base/safe.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT_DEFAULT = 32, ALIGNMENT_MAX = 1 << 16, VERSION_LEAST = 2, VERSION_MOST = 3 };

struct gguf_cursor {
    struct text file;
    uint64_t at;
    const char *name;
    struct error *err;
    enum status status; // the first failure; later calls do nothing
};

static const char download_again[] = "the file is cut or damaged, download it again";

// Returns true if `bytes` more bytes are left; otherwise sets the error. what: names them for the
// message.
static bool bytes_left_check(struct gguf_cursor *r, uint64_t bytes, const char *what)
{
    if (r->status == STATUS_OK && r->file.bytes - r->at < bytes)
        r->status = error_set(r->err, STATUS_INVALID,
                              "%s: byte %" PRIu64 ": %s needs %" PRIu64 " bytes, but only %" PRIu64
                              " are left; %s",
                              r->name, r->at, what, bytes, r->file.bytes - r->at, download_again);
    return r->status == STATUS_OK;
}

static uint64_t number_read(struct gguf_cursor *r, uint32_t bytes, const char *what)
{
    if (!bytes_left_check(r, bytes, what))
        return 0;
    r->at += bytes;
    return text_number(r->file.at + r->at - bytes, bytes);
}

static struct text string_read(struct gguf_cursor *r, const char *what)
{
    uint64_t bytes = number_read(r, 8, what);
    if (!bytes_left_check(r, bytes, what))
        return text_span("", 0);
    struct text out = text_span(r->file.at + r->at, bytes);
    r->at += bytes;
    return out;
}

static enum gguf_kind kind_read(struct gguf_cursor *r, struct text key)
{
    uint64_t start = r->at, kind = number_read(r, 4, "the type of a value");
    if (r->status == STATUS_OK && kind >= GGUF_KINDS)
        r->status = error_set(r->err, STATUS_INVALID,
                              "%s: byte %" PRIu64 ": the key %s has a value of the unknown type "
                              "%" PRIu64 "; %s",
                              r->name, start, safe_of(key).at, kind, download_again);
    return r->status == STATUS_OK ? (enum gguf_kind)kind : GGUF_U8;
}

// Skips `count` items; returns true if all lie inside the file.
static bool items_pass(struct gguf_cursor *r, struct text key, enum gguf_kind item, uint64_t count,
                       int depth)
{
    uint32_t each = gguf_kind_bytes(item);
    uint64_t bytes;
    if (each > 0) {
        if (__builtin_mul_overflow(count, each, &bytes))
            bytes = UINT64_MAX;
        if (bytes_left_check(r, bytes, "an array"))
            r->at += bytes;
        return r->status == STATUS_OK;
    }
    if (item == GGUF_ARRAY && depth == GGUF_DEPTH_MAX)
        r->status = error_set(r->err, STATUS_TOO_LARGE,
                              "%s: byte %" PRIu64 ": the key %s has arrays in arrays over %d "
                              "levels; %s",
                              r->name, r->at, safe_of(key).at, GGUF_DEPTH_MAX, download_again);
    if (count > GGUF_ITEMS_MAX && r->status == STATUS_OK)
        r->status =
            error_set(r->err, STATUS_TOO_LARGE,
                      "%s: byte %" PRIu64 ": the key %s has an array of %" PRIu64
                      " texts or arrays, allowed are %d; %s",
                      r->name, r->at, safe_of(key).at, count, GGUF_ITEMS_MAX, download_again);
    for (uint64_t i = 0; i < count && r->status == STATUS_OK; i++) {
        if (item == GGUF_STRING) {
            (void)string_read(r, "a string of an array");
            continue;
        }
        enum gguf_kind inner = kind_read(r, key);
        uint64_t inner_count = number_read(r, 8, "the length of an array");
        if (r->status == STATUS_OK)
            (void)items_pass(r, key, inner, inner_count, depth + 1);
    }
    return r->status == STATUS_OK;
}

static struct gguf_value value_read(struct gguf_cursor *r)
{
    struct gguf_value value = {.item = GGUF_U8};
    uint64_t start = r->at;
    value.key = string_read(r, "a key");
    if (r->status == STATUS_OK && (value.key.bytes == 0 || value.key.bytes > GGUF_KEY_MAX ||
                                   memchr(value.key.at, '\0', value.key.bytes)))
        r->status = error_set(r->err, STATUS_INVALID,
                              "%s: byte %" PRIu64 ": a key has %zu bytes or a NUL among them, "
                              "allowed are 1 to %d; %s",
                              r->name, start, value.key.bytes, GGUF_KEY_MAX, download_again);
    value.kind = kind_read(r, value.key);
    if (value.kind == GGUF_ARRAY) {
        value.item = kind_read(r, value.key);
        value.count = number_read(r, 8, "the length of an array");
    }
    uint64_t first = r->at;
    if (r->status != STATUS_OK)
        return value;
    if (value.kind == GGUF_STRING) {
        value.bytes = string_read(r, "a string");
    } else {
        bool array = value.kind == GGUF_ARRAY;
        (void)items_pass(r, value.key, array ? value.item : value.kind, array ? value.count : 1, 1);
        value.bytes = text_span(r->file.at + first, r->at - first);
    }
    return value;
}

static int value_order(const void *a, const void *b)
{
    return text_order(((const struct gguf_value *)a)->key, ((const struct gguf_value *)b)->key);
}

static int tensor_order(const void *a, const void *b)
{
    return text_order(((const struct gguf_tensor *)a)->name, ((const struct gguf_tensor *)b)->name);
}

enum status gguf_tensors_sort(struct gguf *file, struct error *err)
{
    if (file->tensor_count > 0)
        qsort(file->tensors, file->tensor_count, sizeof *file->tensors, tensor_order);
    for (uint32_t i = 1; i < file->tensor_count; i++)
        if (text_equal(file->tensors[i - 1].name, file->tensors[i].name))
            return error_set(err, STATUS_INVALID, "%s: the tensor %s occurs twice; %s", file->name,
                             safe_of(file->tensors[i].name).at, download_again);
    return STATUS_OK;
}

static int offset_order(const void *a, const void *b)
{
    const struct gguf_tensor *x = a, *y = b;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

static void values_read(struct gguf_cursor *r, struct gguf *out)
{
    for (uint32_t i = 0; i < out->value_count && r->status == STATUS_OK; i++)
        out->values[i] = value_read(r);
    if (r->status != STATUS_OK || out->value_count == 0)
        return;
    qsort(out->values, out->value_count, sizeof *out->values, value_order);
    for (uint32_t i = 1; i < out->value_count && r->status == STATUS_OK; i++)
        if (text_equal(out->values[i - 1].key, out->values[i].key))
            r->status = error_set(r->err, STATUS_INVALID, "%s: the key %s occurs twice; %s",
                                  r->name, safe_of(out->values[i].key).at, download_again);
}

// Reads shape and type, and computes the tensor's size.
static void shape_read(struct gguf_cursor *r, struct gguf_tensor *tensor)
{
    uint64_t start = r->at, dims = number_read(r, 4, "the number of dimensions"), total = 1;
    if (r->status == STATUS_OK && (dims == 0 || dims > GGUF_DIMS_MAX))
        r->status = error_set(r->err, STATUS_INVALID,
                              "%s: byte %" PRIu64 ": the tensor %s has %" PRIu64 " dimensions, "
                              "allowed are 1 to %d; %s",
                              r->name, start, safe_of(tensor->name).at, dims, GGUF_DIMS_MAX,
                              download_again);
    tensor->dims = r->status == STATUS_OK ? (uint32_t)dims : 0;
    for (uint32_t i = 0; i < tensor->dims && r->status == STATUS_OK; i++) {
        tensor->shape[i] = number_read(r, 8, "a dimension");
        bool fits = tensor->shape[i] > 0 &&
                    !__builtin_mul_overflow(total, tensor->shape[i], &total) &&
                    total <= INT64_MAX / 1024;
        if (r->status == STATUS_OK && !fits)
            r->status = error_set(r->err, STATUS_INVALID,
                                  "%s: byte %" PRIu64 ": the shape of the tensor %s is empty or "
                                  "overflows; %s",
                                  r->name, start, safe_of(tensor->name).at, download_again);
    }
    start = r->at;
    uint64_t id = number_read(r, 4, "the type of a tensor");
    if (r->status != STATUS_OK)
        return;
    tensor->type = gguf_type_of((uint32_t)id);
    if (!tensor->type)
        r->status = error_set(r->err, STATUS_UNSUPPORTED,
                              "%s: byte %" PRIu64 ": the tensor %s has the unknown type %" PRIu64
                              "; take a file in Q8_0, Q4_K_M or BF16",
                              r->name, start, safe_of(tensor->name).at, id);
    else if (tensor->shape[0] % tensor->type->elements != 0)
        r->status = error_set(r->err, STATUS_INVALID,
                              "%s: byte %" PRIu64 ": rows of %" PRIu64 " elements of the tensor "
                              "%s are not whole blocks of %s, which have %u; %s",
                              r->name, start, tensor->shape[0], safe_of(tensor->name).at,
                              tensor->type->name, tensor->type->elements, download_again);
    else
        tensor->bytes = total / tensor->type->elements * tensor->type->bytes;
}

static void tensor_read(struct gguf_cursor *r, struct gguf_tensor *tensor)
{
    uint64_t start = r->at;
    tensor->name = string_read(r, "a tensor's name");
    if (r->status == STATUS_OK && (tensor->name.bytes == 0 || tensor->name.bytes > GGUF_NAME_MAX ||
                                   memchr(tensor->name.at, '\0', tensor->name.bytes)))
        r->status = error_set(r->err, STATUS_INVALID,
                              "%s: byte %" PRIu64 ": a tensor's name has %zu bytes or a NUL among "
                              "them, allowed are 1 to %d; %s",
                              r->name, start, tensor->name.bytes, GGUF_NAME_MAX, download_again);
    shape_read(r, tensor);
    tensor->offset = number_read(r, 8, "the place of a tensor");
}

// Turns offsets relative to the data section into offsets in the file. Refuses tensors that share
// bytes.
static void offsets_check(struct gguf_cursor *r, struct gguf *out, uint64_t alignment)
{
    uint64_t data = (r->at + alignment - 1) / alignment * alignment;
    for (uint32_t i = 0; i < out->tensor_count && r->status == STATUS_OK; i++) {
        struct gguf_tensor *tensor = &out->tensors[i];
        uint64_t offset = tensor->offset, end;
        if (offset % alignment != 0) {
            r->status =
                error_set(r->err, STATUS_INVALID,
                          "%s: the tensor %s lies at %" PRIu64
                          ", not a multiple of the alignment %" PRIu64 "; %s",
                          r->name, safe_of(tensor->name).at, offset, alignment, download_again);
        } else if (__builtin_add_overflow(offset, data, &tensor->offset) ||
                   __builtin_add_overflow(tensor->offset, tensor->bytes, &end) ||
                   end > r->file.bytes) {
            r->status = error_set(r->err, STATUS_INVALID,
                                  "%s: the tensor %s has %" PRIu64 " bytes at %" PRIu64 " after "
                                  "byte %" PRIu64 ", and the file has %zu; %s",
                                  r->name, safe_of(tensor->name).at, tensor->bytes, offset, data,
                                  r->file.bytes, download_again);
        }
    }
    if (r->status != STATUS_OK || out->tensor_count == 0)
        return;
    qsort(out->tensors, out->tensor_count, sizeof *out->tensors, offset_order);
    for (uint32_t i = 1; i < out->tensor_count && r->status == STATUS_OK; i++) {
        const struct gguf_tensor *last = &out->tensors[i - 1], *next = &out->tensors[i];
        if (last->offset + last->bytes > next->offset)
            r->status = error_set(r->err, STATUS_INVALID,
                                  "%s: byte %" PRIu64 ": the tensors %s and %s overlap; %s",
                                  r->name, next->offset, safe_of(last->name).at,
                                  safe_of(next->name).at, download_again);
    }
}

static void tensors_read(struct gguf_cursor *r, struct gguf *out)
{
    for (uint32_t i = 0; i < out->tensor_count && r->status == STATUS_OK; i++)
        tensor_read(r, &out->tensors[i]);
    uint32_t alignment = ALIGNMENT_DEFAULT;
    struct gguf_number wanted = {"general.alignment", 8, ALIGNMENT_MAX, ALIGNMENT_DEFAULT};
    if (r->status == STATUS_OK)
        r->status = gguf_count(&alignment, out, &wanted, r->err);
    if (r->status == STATUS_OK && (alignment & (alignment - 1)) != 0)
        r->status = error_set(r->err, STATUS_INVALID,
                              "%s: the key general.alignment is %u, not a power of two; %s",
                              r->name, alignment, download_again);
    if (r->status == STATUS_OK)
        offsets_check(r, out, alignment);
    if (r->status == STATUS_OK)
        r->status = gguf_tensors_sort(out, r->err);
}

static void version_check(struct gguf_cursor *r, uint64_t version)
{
    if (r->status != STATUS_OK || (version >= VERSION_LEAST && version <= VERSION_MOST))
        return;
    bool swapped = version != 0 && (version & 0xFFFF) == 0 && version >> 24 <= VERSION_MOST;
    if (swapped)
        r->status =
            error_set(r->err, STATUS_UNSUPPORTED,
                      "%s: byte 4: the file is big-endian; take the little-endian one", r->name);
    else
        r->status = error_set(r->err, STATUS_UNSUPPORTED,
                              "%s: byte 4: version %" PRIu64 " of GGUF is not read, %d and %d are; "
                              "take a newer file of the model",
                              r->name, version, VERSION_LEAST, VERSION_MOST);
}

// Reads a count and refuses it if it exceeds `most`, before memory is allocated for it.
static uint32_t count_read(struct gguf_cursor *r, uint64_t most, const char *what)
{
    uint64_t start = r->at, count = number_read(r, 8, what);
    if (r->status == STATUS_OK && count > most)
        r->status =
            error_set(r->err, STATUS_TOO_LARGE,
                      "%s: byte %" PRIu64 ": %s is %" PRIu64 ", at most %" PRIu64 " are read; %s",
                      r->name, start, what, count, most, download_again);
    return r->status == STATUS_OK ? (uint32_t)count : 0;
}

enum status gguf_parse(struct gguf *out, struct arena *arena, struct text file, const char *name,
                       struct error *err)
{
    struct gguf_cursor r = {.file = file, .name = name, .err = err, .status = STATUS_OK};
    *out = (struct gguf){.file = file};
    out->name = arena_copy(arena, text_of(name)).at;
    if (file.bytes < 4 || memcmp(file.at, "GGUF", 4) != 0)
        return error_set(err, STATUS_INVALID,
                         "%s: byte 0: the file does not begin with GGUF; is it another format, or "
                         "a page of an error that was downloaded?",
                         name);
    r.at = 4;
    version_check(&r, number_read(&r, 4, "the version"));
    out->tensor_count = count_read(&r, GGUF_TENSORS_MAX, "the number of tensors");
    out->value_count = count_read(&r, GGUF_VALUES_MAX, "the number of keys");
    if (r.status != STATUS_OK)
        return r.status;
    out->values = arena_alloc_zeroed(arena, out->value_count + 1, sizeof *out->values);
    out->tensors = arena_alloc_zeroed(arena, out->tensor_count + 1, sizeof *out->tensors);
    values_read(&r, out);
    if (r.status == STATUS_OK)
        tensors_read(&r, out);
    return r.status;
}

const struct gguf_value *gguf_find(const struct gguf *file, const char *key)
{
    struct gguf_value wanted = {.key = text_of(key)};
    if (file->value_count == 0)
        return NULL;
    return bsearch(&wanted, file->values, file->value_count, sizeof wanted, value_order);
}

const struct gguf_tensor *gguf_tensor_find(const struct gguf *file, const char *name)
{
    struct gguf_tensor wanted = {.name = text_of(name)};
    if (file->tensor_count == 0)
        return NULL;
    return bsearch(&wanted, file->tensors, file->tensor_count, sizeof wanted, tensor_order);
}
