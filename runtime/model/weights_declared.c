// SPDX-License-Identifier: Apache-2.0
// Weights without a checkpoint in the formats of a declaration: how a device would hold the
// tensors. See weights_list.h. Loading thread only.
#include "runtime/model/weights_list.h"

#include <string.h>

// Returns the format in which the device holds a product with the declared format, or
// WEIGHT_FLOATS. columns: those of the entire tensor.
static enum weight_format held_format(const struct lister *p, const struct declared_format *now,
                                      uint32_t columns)
{
    enum weight_format format = quantised_product_format(now, columns);
    bool held = format >= WEIGHT_FP8 ? p->facts.e4m3 : p->facts.codes >> format & 1;
    return held ? format : WEIGHT_FLOATS;
}

// Returns the declared format of a module, which has the names `formats` after each of the
// architecture's prefixes.
static struct declared_format module_format(struct lister *p, const char *const formats[2],
                                            uint32_t layer, bool expert)
{
    enum { NAMES_MAX = 12 };
    char names[NAMES_MAX][NAME_MAX_BYTES];
    const char *list[NAMES_MAX], *head, *usual = p->prefix, *prefix;
    uint32_t count = 0;
    for (int i = 0; (prefix = weight_prefix_at(p->config, i, &head)) != NULL; i++)
        for (int f = 0; f < 2 && count < NAMES_MAX; f++) {
            if (!formats[f])
                continue;
            p->prefix = prefix;
            weight_name_make(names[count], p, formats[f], layer, 0, "");
            list[count] = names[count];
            count++;
        }
    p->prefix = usual;
    struct declared_format format = declaration_format(p->args->declared, list, count);
    format.quantized = format.quantized && (expert || !format.experts);
    return format;
}

void weight_declare(struct lister *p, uint32_t i, const char *const names[2], uint32_t layer,
                    bool expert)
{
    if (!p->args->declared || !(names[0] || names[1]))
        return;
    struct declared_format now = module_format(p, names, layer, expert);
    if (i == 0)
        p->declared = now;
    else if (!p->declared.quantized || !now.quantized) // as tensors of which some are floats
        p->declared.quantized = false;
    else if (!declared_formats_equal(&p->declared, &now))
        p->declared = (struct declared_format){.quantized = true};
}

void weight_declare_stacked(struct lister *p, uint32_t layer, const struct stacked *s)
{
    for (uint32_t i = 0; i < s->count; i++)
        weight_declare(p, i, (const char *const[]){s->parts[i].tensor->name, NULL}, layer, false);
}

enum weight_format weight_declared_down(struct lister *p)
{
    const struct model_config *c = p->config;
    bool experts = c->kinds[c->layer_kind[0]].experts;
    const char *name = experts ? c->arch->experts->shared_down.name : c->arch->names->down.name;
    uint32_t columns = experts ? c->experts.shared_width : c->intermediate;
    if (!name)
        return WEIGHT_FLOATS;
    struct declared_format now = module_format(p, (const char *const[]){name, NULL}, 0, false);
    return now.quantized ? held_format(p, &now, columns) : WEIGHT_FLOATS;
}

// Returns true if an entry's parts begin and end where codes of the format may be cut.
static bool declared_fits(const struct weight_entry *entry, enum weight_format format)
{
    uint32_t elements = weight_format_facts(format)->elements;
    uint32_t unit = format == WEIGHT_FP8_128 ? FP8_SCALE_ROWS : 1;
    for (uint32_t i = 0; i < entry->part_count; i++) {
        const struct weight_part *part = &entry->parts[i];
        bool last = i + 1 == entry->part_count;
        if (part->from_col % elements != 0 || part->cols % elements != 0 ||
            part->from_row % unit != 0 || part->to_row % unit != 0 ||
            (!last && part->rows % unit != 0))
            return false;
    }
    return true;
}

void weight_declared_choose(const struct lister *p, struct weight_entry *entry)
{
    struct weight_shape *shape = &entry->shape;
    if (shape->use != WEIGHT_PRODUCT || !p->declared.quantized)
        return;
    enum weight_format format = held_format(p, &p->declared, entry->parts[0].stride);
    if (format == WEIGHT_FLOATS || (format >= WEIGHT_FP8 && !declared_fits(entry, format))) {
        shape->dtype = p->facts.unheld_runs_as;
        return;
    }
    if (!declared_fits(entry, format)) // as weights of a checkpoint: floats
        return;
    shape->part_count = 1;
    shape->parts[0] = (struct weight_codes){format, weight_matrix_rows(shape)};
}
