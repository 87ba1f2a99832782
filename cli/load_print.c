// SPDX-License-Identifier: Apache-2.0
// Text about the memory plans of models; see load_print.h.
#include "cli/load_print.h"

#include "cli/load_memory.h"
#include "base/log.h"
#include "base/safe.h"
#include "runtime/model/link.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void plan_print(FILE *out, const struct loaded_model *m)
{
    const struct model_facts *f = &m->plan->facts;
    char ranks[96] = "";
    uint32_t here = m->link ? m->link->count : f->ranks;
    if (f->ranks > 1 && here == 1)
        snprintf(ranks, sizeof ranks,
                 ", split over %u ranks; sizes are those of the one rank in this process",
                 f->ranks);
    else if (f->ranks > 1)
        snprintf(ranks, sizeof ranks,
                 ", split over %u ranks; sizes are the sum of the %u ranks in this process",
                 f->ranks, here);
    char copy[32] = "";
    if (m->spec.settings.data_parallel_size > 1)
        snprintf(copy, sizeof copy, ", copy %u", m->copy);
    char part[160] = "";
    if (f->text_part)
        snprintf(part, sizeof part, " (its text part, as %s; %s are not served)", f->text_part,
                 f->media);
    fprintf(out, "%s%s: %s%s, %s, %.1f M parameters in %s, %u tokens at most%s\n",
            safe_of(text_of(m->spec.id)).at, copy, f->architecture, part, model_kind_name(f->kind),
            (double)f->parameter_count / 1e6, facts_held(f), f->max_model_len, ranks);
    struct device_need need = memory_planned(m);
    for (uint32_t i = 0; i < need.count; i++) {
        fprintf(out, "  %-28s %12.2f MiB", need.entry[i].label,
                (double)need.entry[i].bytes / 0x1p20);
        if (m->kv_bytes > 0 && i + 1 == need.count)
            fprintf(out, " (%" PRIu64 " blocks of %u tokens, %s; %s)",
                    (uint64_t)(m->kv_bytes / f->block_bytes), f->block_tokens,
                    dtype_name(f->kv_dtype), m->kv_rule);
        putc('\n', out);
    }
    if (m->engine_options.port_count > 0)
        fprintf(out, "  %-28s %12.2f MiB (allocated when used)\n", "scheduler",
                (double)engine_bytes(f, &m->engine_options) / 0x1p20);
}

static void plan_log(const struct loaded_model *m)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    check(out, "no memory for the plan of '%s'", m->spec.id);
    plan_print(out, m);
    fclose(out);
    log_text("%s", text);
    free(text);
}

static void table_row(const struct loaded *loaded, const char *name, const uint64_t *bytes)
{
    char line[64 + 12 * DEVICES_MAX];
    int at = snprintf(line, sizeof line, "  %-28.28s", name);
    for (uint32_t d = 0; d < loaded->devices.count; d++)
        at += bytes[d] > 0 ? snprintf(line + at, sizeof line - (size_t)at, " %9.2f",
                                      (double)bytes[d] / 0x1p30)
                           : snprintf(line + at, sizeof line - (size_t)at, " %9s", "-");
    log_text("%s\n", line);
}

// Prints a table for several devices: a column for each device, a row for each copy of a model.
static void table_print(const struct loaded *loaded)
{
    char line[64 + 12 * DEVICES_MAX];
    uint64_t planned[DEVICES_MAX] = {0}, had[DEVICES_MAX] = {0};
    int at = snprintf(line, sizeof line, "  %-28s", "GiB");
    for (uint32_t d = 0; d < loaded->devices.count; d++) {
        at += snprintf(line + at, sizeof line - (size_t)at, " %9s", loaded->devices.at[d].label);
        had[d] = loaded->devices.at[d].facts.memory_available;
    }
    log_text("%s\n", line);
    for (uint32_t i = 0; i < loaded->model_count; i++) {
        const struct loaded_model *m = &loaded->models[i];
        uint64_t bytes[DEVICES_MAX] = {0};
        char name[64];
        safe_put(name, sizeof name, text_of(m->spec.id));
        size_t used = strlen(name);
        if (m->spec.settings.data_parallel_size > 1)
            snprintf(name + (used < 20 ? used : 20), sizeof name - 20, " copy %u", m->copy);
        for (uint32_t d = 0; d < loaded->devices.count; d++) {
            bytes[d] = memory_on(m, &loaded->devices.at[d]);
            planned[d] += bytes[d];
        }
        table_row(loaded, name, bytes);
    }
    table_row(loaded, "planned", planned);
    table_row(loaded, "free", had);
}

static void size_write(char *out, size_t out_bytes, uint64_t bytes)
{
    bool large = bytes >= 1u << 30;
    double size = (double)bytes / (large ? 0x1p30 : 0x1p20);
    snprintf(out, out_bytes, "%.*f %s", large ? 2 : size < 10 ? 1 : 0, size, large ? "GiB" : "MiB");
}

void plans_print(const struct loaded *loaded, const char *more, bool complete)
{
    if (log_level_get() < LOG_INFO)
        return;
    bool several = loaded->devices.count > 1;
    if (several)
        table_print(loaded);
    for (uint32_t d = 0; d < loaded->devices.count; d++) {
        const struct loaded_device *device = &loaded->devices.at[d];
        uint64_t planned = 0, kv = 0;
        log_text("device: %s%s%s%s\n", several ? device->label : "", several ? ", " : "",
                 device->facts.name, device->facts.exact ? ", exact" : "");
        for (uint32_t i = 0; i < loaded->model_count; i++) {
            const struct loaded_model *m = &loaded->models[i];
            if (m->device == device && complete)
                plan_log(m);
            planned += memory_on(m, device);
            kv += is_on(m, device) ? m->kv_bytes / gpu_count(m) : 0;
        }
        if (more && complete && d == 0)
            log_text("%s\n", more);
        char all[24], available[24], kept[24], part[96] = "";
        size_write(all, sizeof all, planned);
        size_write(available, sizeof available, device->facts.memory_available);
        size_write(kept, sizeof kept, kv);
        if (kv > 0)
            snprintf(part, sizeof part, ", %s of it for keys and values (--kv-cache-memory)", kept);
        log_text("planned: %s of %s%s%s\n", all, available, part,
                 complete ? "" : " (-v: the complete plan)");
    }
}
