// SPDX-License-Identifier: Apache-2.0
// Summaries of how weights are held: the formats of all weights, and formats and memory by kind of
// tensor. Loading thread; pure functions of the list.
#include "runtime/model/held.h"

#include "runtime/model/internal.h"
#include "runtime/model/packed.h"

#include <stdio.h>
#include <string.h>

enum { KINDS = 4, NAMES = DTYPE_COUNT + WEIGHT_FORMAT_COUNT };

// Elements by the way they are held: those of a dtype first, then those of a format.
struct tally {
    uint64_t elements[NAMES];
};

static void tally_add(struct tally *tally, const struct weight_shape *shape)
{
    if (shape->part_count == 0) {
        tally->elements[shape->dtype] += (uint64_t)shape->n * shape->k;
        return;
    }
    for (uint32_t i = 0; i < shape->part_count; i++)
        tally->elements[DTYPE_COUNT + shape->parts[i].format] +=
            (uint64_t)shape->parts[i].rows * weight_stack(shape) * shape->k;
}

// Writes the names from `first` on that occur, those with most elements first: "Q4_K, Q6_K".
static void tally_text(char *out, size_t bytes, struct tally tally, uint32_t first)
{
    size_t used = 0;
    out[0] = '\0';
    for (;;) {
        uint32_t best = first;
        for (uint32_t i = first; i < NAMES; i++)
            if (tally.elements[i] > tally.elements[best])
                best = i;
        if (tally.elements[best] == 0 || used >= bytes)
            return;
        tally.elements[best] = 0;
        const char *name =
            best < DTYPE_COUNT
                ? dtype_name((enum dtype)best)
                : weight_format_facts((enum weight_format)(best - DTYPE_COUNT))->name;
        used += (size_t)snprintf(out + used, bytes - used, used > 0 ? ", %s" : "%s", name);
    }
}

void weight_list_formats(char out[FORMATS_TEXT], const struct weight_list *list)
{
    struct tally tally = {{0}};
    for (uint32_t i = 0; i < list->count; i++) {
        const struct weight_shape *shape = &list->entries[i].shape;
        bool int8 = shape->dtype == DTYPE_I8 && list->dtype != DTYPE_I8;
        if (shape->part_count > 0 || int8)
            tally_add(&tally, shape);
    }
    tally_text(out, FORMATS_TEXT, tally, DTYPE_I8);
}

// Returns the kind of an entry: an index into the names below; KINDS for vectors and score heads.
static uint32_t kind_of(const struct weight_entry *entry)
{
    if (entry->shape.use == WEIGHT_VECTOR)
        return KINDS;
    if (entry->index == MODEL_EMBED || entry->index == MODEL_POSITION || entry->index == MODEL_TYPE)
        return 0;
    if (entry->index < MODEL_WEIGHT_COUNT)
        return entry->index == MODEL_HEAD ? 3 : KINDS;
    uint32_t layer = (entry->index - MODEL_WEIGHT_COUNT) % LAYER_WEIGHT_COUNT;
    return layer == LAYER_QKV || layer == LAYER_O ? 1 : 2;
}

uint32_t model_plan_held(const struct model_plan *plan, struct model_held out[MODEL_HELD_MAX])
{
    const struct weight_list *list = &plan->parts->weights;
    static const char *const names[KINDS + 1] = {"embedding", "attention", "feed-forward", "head",
                                                 "norms, biases and scores"};
    uint32_t count = 0;
    for (uint32_t kind = 0; kind <= KINDS; kind++) {
        struct model_held held = {.kind = names[kind]};
        struct tally tally = {{0}};
        for (uint32_t i = 0; i < list->count; i++) {
            const struct weight_entry *entry = &list->entries[i];
            if (kind_of(entry) != kind)
                continue;
            held.bytes += entry->bytes;
            tally_add(&tally, &entry->shape);
            if (entry->shape.use == WEIGHT_TIED)
                held.kind = "embedding and head";
        }
        tally_text(held.formats, sizeof held.formats, tally, 0);
        if (held.bytes > 0)
            out[count++] = held;
    }
    return count;
}

// Returns the words of an entry's quantised part, or NULL.
static const char *words_of(const struct weight_entry *entry, uint32_t part)
{
    const struct tensor *tensor = entry->parts[part].tensor;
    return tensor && tensor->packed ? tensor->packed->words : NULL;
}

uint32_t model_plan_packed(const struct model_plan *plan, struct model_packed out[MODEL_PACKED_MAX])
{
    const struct weight_list *list = &plan->parts->weights;
    struct tally tallies[MODEL_PACKED_MAX] = {{{0}}};
    uint32_t count = 0;
    for (uint32_t i = 0; i < list->count; i++)
        for (uint32_t part = 0; part < list->entries[i].part_count; part++) {
            const char *words = words_of(&list->entries[i], part);
            uint32_t at = 0;
            while (words && at < count && strcmp(out[at].words, words) != 0)
                at++;
            if (!words || at == MODEL_PACKED_MAX)
                continue;
            count = at < count ? count : at + 1;
            out[at].words = words;
            tally_add(&tallies[at], &list->entries[i].shape);
        }
    for (uint32_t i = 0; i < count; i++)
        tally_text(out[i].formats, sizeof out[i].formats, tallies[i], 0);
    return count;
}
