// SPDX-License-Identifier: Apache-2.0
// Chooses which weights are held as codes, and in which formats. Loading thread only.
#include "runtime/model/weights_list.h"

#include "runtime/model/dequantise.h"
#include "runtime/model/packed.h"

enum weight_format weight_tensor_format(const struct tensor *tensor)
{
    if (tensor && tensor->packed)
        return packed_format(tensor->packed);
    return dequantise_format(tensor ? tensor->blocks : NULL);
}

enum weight_format weight_held_format(const struct device_facts *facts, const struct tensor *tensor)
{
    enum weight_format format = weight_tensor_format(tensor);
    return format < WEIGHT_FP8 && (facts->codes >> format & 1) ? format : WEIGHT_FLOATS;
}

// Returns the format in which a part can be held if the device holds no FP8 codes, or
// WEIGHT_FLOATS: its columns must begin and end with a block.
static enum weight_format part_format(const struct device_facts *facts,
                                      const struct weight_part *part)
{
    enum weight_format format = weight_held_format(facts, part->tensor);
    uint32_t elements = weight_format_facts(format)->elements;
    bool cut = part->from_col % elements != 0 || part->cols % elements != 0;
    return cut || format >= WEIGHT_FP8 ? WEIGHT_FLOATS : format;
}

// Returns true if a part can be held in an FP8 format: its rows and columns begin and end where
// those of scales do. last: the part's rows are the weight's last ones.
static bool part_fits_fp8(const struct weight_part *part, enum weight_format format, bool last)
{
    bool stored = part->step == 0 && part->head == 0 && part->addend == 0 && part->factor == 0;
    const struct packed *packed = part->tensor ? part->tensor->packed : NULL;
    if (!packed || !stored || part->stride != packed->k || !packed_fits_fp8(packed, format))
        return false;
    bool rows = part->from_row % FP8_SCALE_ROWS == 0 && part->to_row % FP8_SCALE_ROWS == 0 &&
                (last || part->rows % FP8_SCALE_ROWS == 0);
    bool columns = part->from_col % FP8_SCALE_COLUMNS == 0 && part->cols % FP8_SCALE_COLUMNS == 0;
    return format == WEIGHT_FP8 || (rows && columns);
}

static bool entry_fits_fp8(const struct weight_entry *entry, enum weight_format format)
{
    for (uint32_t i = 0; i < entry->part_count; i++)
        if (!part_fits_fp8(&entry->parts[i], format, i + 1 == entry->part_count))
            return false;
    return entry->part_count > 0;
}

// Holds a product as the FP8 codes of its tensors if all fit one format, or, if asked for,
// quantises it to FP8. Returns false if it is not held so.
static bool fp8_choose(const struct lister *p, struct weight_entry *entry)
{
    struct weight_shape *shape = &entry->shape;
    if (shape->use != WEIGHT_PRODUCT)
        return false;
    bool codes = false;
    for (uint32_t i = 0; i < entry->part_count; i++) {
        const struct tensor *tensor = entry->parts[i].tensor;
        codes = codes || (tensor && tensor->packed && tensor->packed->e4m3);
    }
    bool rounded = p->list->fp8 && entry->index >= MODEL_WEIGHT_COUNT;
    enum weight_format held = entry_fits_fp8(entry, WEIGHT_FP8)       ? WEIGHT_FP8
                              : entry_fits_fp8(entry, WEIGHT_FP8_128) ? WEIGHT_FP8_128
                              : rounded                               ? WEIGHT_FP8
                                                                      : WEIGHT_FLOATS;
    p->list->fp8_cut += codes && held == WEIGHT_FLOATS;
    if (held == WEIGHT_FLOATS)
        return false;
    shape->part_count = 1;
    shape->parts[0] = (struct weight_codes){held, weight_matrix_rows(shape)};
    return true;
}

// Holds an entry in 4 bits, an output head in 8. Embedding tables without head stay floats.
static void int4_choose(const struct device_facts *facts, struct weight_list *list,
                        struct weight_entry *entry)
{
    struct weight_shape *shape = &entry->shape;
    bool head = entry->index == MODEL_HEAD || entry->index == MODEL_EMBED;
    if (shape->use == WEIGHT_VECTOR || shape->use == WEIGHT_ROWS ||
        (entry->index < MODEL_WEIGHT_COUNT && !head))
        return;
    list->int4_cut += shape->k % 32 != 0;
    if (shape->k % 32 != 0)
        return;
    if (head && !facts->code_tables) {
        shape->dtype = DTYPE_I8;
        return;
    }
    shape->part_count = 1;
    shape->parts[0] =
        (struct weight_codes){head ? WEIGHT_Q8_0 : WEIGHT_Q4_1, weight_matrix_rows(shape)};
}

// Returns true if all tensors of an entry are quantised.
static bool all_quantised(const struct weight_entry *entry)
{
    for (uint32_t i = 0; i < entry->part_count; i++) {
        const struct tensor *tensor = entry->parts[i].tensor;
        if (!tensor || (!tensor->blocks && !tensor->packed))
            return false;
    }
    return entry->part_count > 0;
}

// Returns true if the device holds at least one of an entry's tensors in no format.
static bool needs_other(const struct device_facts *facts, const struct weight_entry *entry)
{
    for (uint32_t i = 0; i < entry->part_count; i++)
        if (weight_held_format(facts, entry->parts[i].tensor) == WEIGHT_FLOATS)
            return true;
    return false;
}

bool weight_codes_lost(const struct weight_entry *entry)
{
    const struct weight_shape *shape = &entry->shape;
    bool product = shape->use == WEIGHT_PRODUCT || shape->use == WEIGHT_TIED;
    return product && shape->part_count == 0 && shape->dtype != DTYPE_I8 && all_quantised(entry);
}

// Returns true if the tensors of all matrices of a stack have the same formats.
static bool stack_alike(const struct device_facts *facts, const struct weight_entry *entry)
{
    uint32_t each = entry->part_count / weight_stack(&entry->shape);
    for (uint32_t i = each; i < entry->part_count; i++)
        if (part_format(facts, &entry->parts[i]) != part_format(facts, &entry->parts[i - each]))
            return false;
    return true;
}

// Holds an entry in the formats of its tensors if all of them are quantised, or else in the
// device's type for such if it is a product. Neighbouring tensors of one format become one part.
void weight_codes_choose(const struct lister *p, struct weight_entry *entry)
{
    struct weight_shape *shape = &entry->shape;
    bool table = entry->index == MODEL_POSITION || entry->index == MODEL_TYPE;
    const struct device_facts *facts = &p->facts;
    if (p->list->int4) {
        int4_choose(facts, p->list, entry);
        return;
    }
    if (p->list->declared) {
        weight_declared_choose(p, entry);
        return;
    }
    if (p->list->e4m3 && fp8_choose(p, entry))
        return;
    if (!p->list->codes || shape->use == WEIGHT_VECTOR || table ||
        (shape->use != WEIGHT_PRODUCT && !facts->code_tables))
        return;
    if ((all_quantised(entry) && needs_other(facts, entry)) || !stack_alike(facts, entry)) {
        shape->dtype = shape->use == WEIGHT_ROWS ? shape->dtype : facts->unheld_runs_as;
        return;
    }
    for (uint32_t i = 0; i < entry->part_count / weight_stack(shape); i++) {
        enum weight_format format = part_format(facts, &entry->parts[i]);
        if (format == WEIGHT_FLOATS) {
            shape->part_count = 0;
            return;
        }
        if (shape->part_count == 0 || shape->parts[shape->part_count - 1].format != format)
            shape->parts[shape->part_count++] = (struct weight_codes){format, 0};
        shape->parts[shape->part_count - 1].rows += entry->parts[i].rows;
    }
}
