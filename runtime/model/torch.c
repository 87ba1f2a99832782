// SPDX-License-Identifier: Apache-2.0
// Joins the pickle and the storages of a file of torch.save; see torch.h. Loading thread only.
#include "runtime/model/torch.h"

#include "base/safe.h"
#include "runtime/model/torch_pickle.h"
#include "runtime/model/torch_zip.h"

#include <inttypes.h>
#include <stdlib.h>

// An open archive. All its entries are in one folder, which can have any name.
struct torch_file {
    struct text file;
    struct zip zip;
    struct text folder; // with a slash at its end
    struct arena *arena;
    const char *name;
    struct error *err;
};

static const struct zip_entry *entry_find(const struct torch_file *t, struct text inner)
{
    struct text path = arena_format(t->arena, "%.*s%.*s", (int)t->folder.bytes, t->folder.at,
                                    (int)inner.bytes, inner.at);
    return zip_find(&t->zip, path);
}

// Refuses an entry that is compressed or encrypted.
static enum status stored_check(const struct torch_file *t, const struct zip_entry *entry)
{
    if (!entry->is_packed)
        return STATUS_OK;
    return error_set(t->err, STATUS_UNSUPPORTED,
                     "%s: the entry %s is compressed or encrypted, which torch.save does not "
                     "write; load it with torch and save it as safetensors",
                     t->name, safe_of(entry->name).at);
}

// Refuses a file that does not begin as a zip archive. The error names what it is instead.
static enum status head_check(struct text file, const char *name, struct error *err)
{
    if (text_begins(file, "PK\3\4"))
        return STATUS_OK;
    if (file.bytes > 0 && (unsigned char)file.at[0] == 0x80)
        return error_set(err, STATUS_UNSUPPORTED,
                         "%s is in the format of torch before 1.6, a pickle without an archive: "
                         "save it again with a newer torch, for example with transformers: "
                         "AutoModel...from_pretrained(IN).save_pretrained(OUT)",
                         name);
    return error_set(err, STATUS_INVALID,
                     "%s is no file of torch.save: it does not begin as a zip archive", name);
}

// Finds the pickle, and checks the byte order of the storages.
static enum status archive_open(struct torch_file *t, struct text *pickle)
{
    static const char tail[] = "/data.pkl";
    const struct zip_entry *found = NULL;
    for (uint32_t i = 0; i < t->zip.count && !found; i++)
        if (text_ends(t->zip.entries[i].name, tail))
            found = &t->zip.entries[i];
    if (!found)
        return error_set(t->err, STATUS_INVALID,
                         "%s is a zip archive, but no file of torch.save: it has no data.pkl",
                         t->name);
    t->folder = text_span(found->name.at, found->name.bytes - (sizeof tail - 2));
    *pickle = found->data;
    if (memchr(t->folder.at, '\0', t->folder.bytes))
        return error_set(t->err, STATUS_INVALID, "%s: the name of data.pkl holds a NUL", t->name);
    if (entry_find(t, text_of("constants.pkl")))
        return error_set(t->err, STATUS_UNSUPPORTED,
                         "%s is a TorchScript program, not a file of weights: save the "
                         "state_dict of the model",
                         t->name);
    enum status status = stored_check(t, found);
    if (status != STATUS_OK)
        return status;
    const struct zip_entry *order = entry_find(t, text_of("byteorder"));
    if (order && !text_is(order->data, "little"))
        return error_set(
            t->err, STATUS_UNSUPPORTED,
            "%s was written by a machine with other byte order (%s): save it on a "
            "little-endian one",
            t->name,
            safe_of(text_span(order->data.at, order->data.bytes < 16 ? order->data.bytes : 16)).at);
    return STATUS_OK;
}

// Computes the bytes of the tensor and checks that its elements follow each other in the storage.
static enum status layout_check(struct tensor *tensor, const struct pickled_tensor *from,
                                const struct torch_file *t)
{
    uint64_t count = 1;
    bool dense = true;
    for (uint32_t i = from->dims; i-- > 0;) {
        dense = dense && (from->shape[i] == 1 || from->strides[i] == count);
        if (__builtin_mul_overflow(count, from->shape[i], &count))
            return error_set(t->err, STATUS_INVALID, "%s: the shape of tensor %s overflows",
                             t->name, from->name.at);
        tensor->shape[i] = from->shape[i];
    }
    if (!dense && count > 0)
        return error_set(t->err, STATUS_UNSUPPORTED,
                         "%s: tensor %s is a view whose elements do not follow each other; save "
                         "its .contiguous()",
                         t->name, from->name.at);
    if (count > 0 && (from->first > from->elements || count > from->elements - from->first))
        return error_set(t->err, STATUS_INVALID,
                         "%s: tensor %s has elements %" PRIu64 " to %" PRIu64
                         " of a storage of %" PRIu64 "; the file is damaged",
                         t->name, from->name.at, from->first, from->first + count, from->elements);
    tensor->dims = from->dims;
    tensor->bytes = count * from->type->bytes;
    return STATUS_OK;
}

// Finds the storage of the tensor. Its size is checked first, so that no later product overflows.
static enum status tensor_find(struct tensor *tensor, const struct pickled_tensor *from,
                               const struct torch_file *t)
{
    char path[64];
    snprintf(path, sizeof path, "data/%.*s", (int)(from->key.bytes < 32 ? from->key.bytes : 32),
             from->key.at);
    const struct zip_entry *storage = entry_find(t, text_of(path));
    if (!storage || from->key.bytes > 32 || memchr(from->key.at, '\0', from->key.bytes))
        return error_set(t->err, STATUS_INVALID,
                         "%s: the storage %s of tensor %s is not in the archive", t->name,
                         safe_of(text_of(path)).at, from->name.at);
    enum status status = stored_check(t, storage);
    if (status != STATUS_OK)
        return status;
    if (storage->data.bytes / from->type->bytes != from->elements ||
        storage->data.bytes % from->type->bytes != 0)
        return error_set(t->err, STATUS_INVALID,
                         "%s: the storage of tensor %s has %zu bytes, not %" PRIu64
                         " elements of %s; the file is damaged",
                         t->name, from->name.at, storage->data.bytes, from->elements,
                         from->type->type);
    *tensor = (struct tensor){.name = from->name,
                              .type = from->type->type,
                              .dtype = from->type->dtype,
                              .fd = -1,
                              .file = t->name};
    status = layout_check(tensor, from, t);
    if (status != STATUS_OK)
        return status;
    tensor->map = storage->data.at + (tensor->bytes > 0 ? from->first * from->type->bytes : 0);
    tensor->offset = (uint64_t)((const char *)tensor->map - t->file.at);
    return STATUS_OK;
}

// Sorts the tensors by name and refuses equal names.
static enum status tensors_sort(struct tensor *list, uint32_t count, const struct torch_file *t)
{
    if (count > 0)
        qsort(list, count, sizeof *list, tensor_name_order);
    for (uint32_t i = 1; i < count; i++)
        if (text_equal(list[i - 1].name, list[i].name))
            return error_set(t->err, STATUS_INVALID, "%s: tensor %s is there twice", t->name,
                             list[i].name.at);
    return STATUS_OK;
}

enum status torch_parse(struct tensor **out, uint32_t *count, struct arena *arena, struct text file,
                        const char *name, struct error *err)
{
    struct torch_file t = {.file = file, .arena = arena, .name = name, .err = err};
    struct pickled_tensor *pickled = NULL;
    struct text pickle;
    *count = 0;
    enum status status = head_check(file, name, err);
    if (status == STATUS_OK)
        status = zip_open(&t.zip, arena, file, name, err);
    if (status == STATUS_OK)
        status = archive_open(&t, &pickle);
    if (status == STATUS_OK)
        status = pickle_read(&pickled, count, arena, pickle, name, err);
    if (status != STATUS_OK)
        return status;
    *out = arena_alloc_zeroed(arena, *count + 1u, sizeof **out);
    for (uint32_t i = 0; i < *count && status == STATUS_OK; i++)
        status = tensor_find(&(*out)[i], &pickled[i], &t);
    return status == STATUS_OK ? tensors_sort(*out, *count, &t) : status;
}
