// SPDX-License-Identifier: Apache-2.0
// Models in several GGUF files; see gguf.h. The names and keys are those of llama.cpp's
// gguf-split. Loading thread only.
#include "runtime/source/gguf.h"

#include <stdio.h>
#include <string.h>

enum { PART_TAIL_BYTES = sizeof "-00001-of-00003.gguf" - 1 };

enum status gguf_split_read(struct gguf_split *out, const struct gguf *file, struct error *err)
{
    const struct gguf_number count = {"split.count", 0, 65535, 1};
    const struct gguf_number number = {"split.no", 0, 65535, 0};
    const struct gguf_number tensors = {"split.tensors.count", 0, GGUF_TENSORS_MAX, 0};
    enum status status = gguf_count(&out->count, file, &count, err);
    if (status == STATUS_OK)
        status = gguf_count(&out->number, file, &number, err);
    return status == STATUS_OK ? gguf_count(&out->tensors, file, &tensors, err) : status;
}

bool gguf_part_path(char *out, size_t size, const char *path, uint32_t number, uint32_t count)
{
    char tail[40]; // two numbers of ten digits fit
    unsigned part, parts;
    int used = 0;
    size_t bytes = strlen(path);
    if (bytes < PART_TAIL_BYTES || bytes >= size)
        return false;
    const char *end = path + bytes - PART_TAIL_BYTES;
    if (sscanf(end, "-%5u-of-%5u.gguf%n", &part, &parts, &used) != 2 || used != PART_TAIL_BYTES ||
        parts != count)
        return false;
    snprintf(tail, sizeof tail, "-%05u-of-%05u.gguf", number + 1, count);
    snprintf(out, size, "%.*s%s", (int)(bytes - PART_TAIL_BYTES), path, tail);
    return true;
}

const struct gguf *gguf_home(const struct gguf *first, const struct gguf_tensor *tensor)
{
    return tensor->part == 0 ? first : &first->others[tensor->part - 1];
}

enum status gguf_join(struct gguf *first, struct arena *arena, struct error *err)
{
    struct gguf_split whole, split;
    uint64_t total = first->tensor_count;
    enum status status = gguf_split_read(&whole, first, err);
    for (uint32_t i = 0; i < first->other_count && status == STATUS_OK; i++) {
        const struct gguf *other = &first->others[i];
        status = gguf_split_read(&split, other, err);
        if (status == STATUS_OK && (split.number != i + 1 || split.count != whole.count))
            status = error_set(err, STATUS_INVALID,
                               "%s is not part %u of %u of the model: its keys split.no and "
                               "split.count are %u and %u; download it again",
                               other->name, i + 2, whole.count, split.number, split.count);
        total += other->tensor_count;
    }
    if (status == STATUS_OK && total > GGUF_TENSORS_MAX)
        status = error_set(err, STATUS_TOO_LARGE, "%s: the model has over %d tensors", first->name,
                           GGUF_TENSORS_MAX);
    if (status == STATUS_OK && whole.tensors > 0 && whole.tensors != total)
        status = error_set(err, STATUS_INVALID,
                           "%s: the %u parts have %u tensors, and the key split.tensors.count is "
                           "%u; download them again",
                           first->name, whole.count, (uint32_t)total, whole.tensors);
    if (status != STATUS_OK)
        return status;
    struct gguf_tensor *all = arena_alloc_zeroed(arena, (size_t)total + 1, sizeof *all);
    uint32_t count = first->tensor_count;
    if (count > 0)
        memcpy(all, first->tensors, count * sizeof *all);
    for (uint32_t i = 0; i < first->other_count; i++) {
        const struct gguf *other = &first->others[i];
        for (uint32_t k = 0; k < other->tensor_count; k++, count++) {
            all[count] = other->tensors[k];
            all[count].part = i + 1;
        }
    }
    first->tensors = all;
    first->tensor_count = count;
    return gguf_tensors_sort(first, err);
}
