// SPDX-License-Identifier: Apache-2.0
// Models in several GGUF files; see gguf.h. The names and keys are those of llama.cpp's
// gguf-split. Loading thread only.
#include "runtime/source/gguf.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

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

size_t gguf_part_stem(const char *path, uint32_t *number, uint32_t *count)
{
    static const size_t tail = sizeof "-00001-of-00003" - 1;
    size_t bytes = strlen(path), ending = strlen(".gguf");
    int used = 0;
    if (bytes < tail + ending)
        return 0;
    size_t stem = bytes - tail - ending;
    bool read = sscanf(path + stem, "-%5" SCNu32 "-of-%5" SCNu32 "%n", number, count, &used) == 2;
    return read && (size_t)used == tail ? stem : 0;
}

bool gguf_part_path(char *out, size_t size, const char *path, uint32_t number, uint32_t count)
{
    uint32_t part, parts;
    size_t stem = gguf_part_stem(path, &part, &parts);
    if (stem == 0 || parts != count || !text_ends(text_of(path), ".gguf") || strlen(path) >= size)
        return false;
    snprintf(out, size, "%.*s-%05u-of-%05u.gguf", (int)stem, path, number + 1, count);
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
