// Loads the planned weights onto a device: mapped tensors, random or constant values for a dummy
// load, and the computed row of a yes/no reranker's head. Loading thread only.
#include "runtime/model/weights.h"

#include "base/arena.h"

#include <string.h>

struct loader {
    const struct weight_load_args *args;
    const struct weight_list *list;
    float *constant[2]; // ones and zeros, as long as the longest vector; made on first use
    uint64_t done;
    struct error *err;
};

static float element(const struct tensor *tensor, uint64_t index)
{
    const char *at = (const char *)tensor->map + index * dtype_bytes((enum dtype)tensor->dtype);
    uint16_t half;
    float value;
    switch (tensor->dtype) {
    case DTYPE_F32:
        memcpy(&value, at, sizeof value);
        return value;
    case DTYPE_BF16:
        memcpy(&half, at, sizeof half);
        return bf16_to_f32(half);
    default:
        memcpy(&half, at, sizeof half);
        return f16_to_f32(half);
    }
}

static enum status put(struct loader *l, struct weight *weight, uint32_t row,
                       const struct weight_source *source)
{
    return l->args->api->weight_put(l->args->device, weight, row, source, l->err);
}

static enum status put_difference(struct loader *l, struct weight *weight,
                                  const struct weight_entry *entry)
{
    uint32_t width = entry->parts[0].cols;
    float *row = heap_take(width * sizeof *row);
    for (uint32_t i = 0; i < width; i++) {
        uint64_t yes = (uint64_t)entry->parts[0].from_row * width + i;
        uint64_t no = (uint64_t)entry->parts[1].from_row * width + i;
        row[i] = element(entry->parts[0].tensor, yes) - element(entry->parts[1].tensor, no);
    }
    struct weight_source source = {.map = row, .fd = -1, .rows = 1, .cols = width};
    source.dtype = DTYPE_F32;
    enum status status = put(l, weight, 0, &source);
    heap_give(row);
    return status;
}

static uint64_t part_first(const struct weight_part *part)
{
    return (uint64_t)part->from_row * part->stride + part->from_col;
}

static enum status put_tensor(struct loader *l, struct weight *weight,
                              const struct weight_part *part)
{
    const struct tensor *tensor = part->tensor;
    struct weight_source source = {
        .map = tensor->map,
        .fd = tensor->fd,
        .offset = tensor->offset,
        .dtype = (enum dtype)tensor->dtype,
        .rows = part->rows,
        .cols = part->cols,
        .stride = part->stride,
        .first = part_first(part),
    };
    return put(l, weight, part->to_row, &source);
}

static const float *constants(struct loader *l, enum weight_fill fill)
{
    uint32_t longest = 0;
    for (uint32_t i = 0; i < l->list->count; i++)
        if (l->list->entries[i].shape.use == WEIGHT_VECTOR && l->list->entries[i].shape.n > longest)
            longest = l->list->entries[i].shape.n;
    int which = fill == FILL_ONES ? 0 : 1;
    if (!l->constant[which]) {
        l->constant[which] = heap_take_zeroed(longest, sizeof(float));
        for (uint32_t i = 0; fill == FILL_ONES && i < longest; i++)
            l->constant[which][i] = 1.0f;
    }
    return l->constant[which];
}

static enum status put_dummy(struct loader *l, struct weight *weight,
                             const struct weight_entry *entry, const struct weight_part *part)
{
    struct weight_source source = {
        .fd = -1,
        .dtype = DTYPE_F32,
        .rows = part->rows,
        .cols = part->cols,
        .seed = (uint64_t)entry->index << 32 | part->seed,
        .deviation = 0.02f,
        .stride = part->stride,
        .first = part_first(part),
    };
    if (entry->fill != FILL_RANDOM) {
        source.map = constants(l, entry->fill);
        source.first = 0;
    }
    return put(l, weight, part->to_row, &source);
}

static enum status entry_load(struct loader *l, struct weight *weight,
                              const struct weight_entry *entry)
{
    *weight = (struct weight){entry->shape, (char *)l->args->memory + entry->offset, entry->bytes};
    enum status status = STATUS_OK;
    if (entry->difference)
        status = put_difference(l, weight, entry);
    else
        for (uint32_t i = 0; status == STATUS_OK && i < entry->part_count; i++)
            status = entry->parts[i].tensor ? put_tensor(l, weight, &entry->parts[i])
                                            : put_dummy(l, weight, entry, &entry->parts[i]);
    if (status == STATUS_OK)
        status = l->args->api->weight_finish(l->args->device, weight, l->err);
    l->done += entry->bytes;
    if (l->args->progress)
        l->args->progress(l->args->context, l->done, l->args->total);
    return status;
}

enum status weights_load(struct weight *table, const struct weight_list *list,
                         const struct weight_load_args *args, struct error *err)
{
    struct loader l = {.args = args, .list = list, .done = args->before, .err = err};
    memset(table, 0, list->table_count * sizeof *table);
    enum status status = STATUS_OK;
    for (uint32_t i = 0; status == STATUS_OK && i < list->count; i++)
        status = entry_load(&l, &table[list->entries[i].index], &list->entries[i]);
    heap_give(l.constant[0]);
    heap_give(l.constant[1]);
    return status;
}
