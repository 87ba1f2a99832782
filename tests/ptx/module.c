// SPDX-License-Identifier: Apache-2.0
// Queries of a decoded module: its kernels, their parameters and their counts.
#include "tests/ptx/internal.h"

#include <stdlib.h>
#include <string.h>

void ptx_module_free(struct ptx_module *module)
{
    for (uint32_t n = 0; n < module->kernel_count; n++) {
        struct ptx_kernel *k = &module->kernels[n];
        for (uint32_t o = 0; o < k->opcode_count; o++)
            free(k->opcodes[o].opcode);
        free(k->opcodes);
        free(k->name);
        free(k->code);
        free(k->issued);
        free(k->constants);
        free(k->arrays);
        free(k->parameters);
    }
    for (uint32_t n = 0; n < module->file_count; n++)
        free(module->files[n]);
    free(module->files);
    free(module->kernels);
    free(module);
}

struct ptx_kernel *ptx_kernel_at(struct ptx_module *module, uint32_t index)
{
    return index < module->kernel_count ? &module->kernels[index] : NULL;
}

struct ptx_kernel *ptx_kernel_find(struct ptx_module *module, const char *name)
{
    for (uint32_t n = 0; n < module->kernel_count; n++)
        if (strcmp(module->kernels[n].name, name) == 0)
            return &module->kernels[n];
    return NULL;
}

const char *ptx_kernel_name(const struct ptx_kernel *kernel)
{
    return kernel->name;
}

uint32_t ptx_kernel_parameter_bytes(const struct ptx_kernel *kernel)
{
    return kernel->parameter_bytes;
}

bool ptx_kernel_parameter(const struct ptx_kernel *kernel, uint32_t index, uint32_t *at,
                          uint32_t *bytes)
{
    if (index >= kernel->parameter_count)
        return false;
    *at = kernel->parameters[index].at;
    *bytes = kernel->parameters[index].bytes;
    return true;
}

void ptx_kernel_counts(const struct ptx_kernel *kernel, struct ptx_counts *out)
{
    *out = kernel->counts;
}

uint32_t ptx_kernel_shared_bytes(const struct ptx_kernel *kernel)
{
    return kernel->shared_bytes;
}

bool ptx_kernel_opcode(const struct ptx_kernel *kernel, uint32_t index, struct ptx_issued *out)
{
    if (index >= kernel->opcode_count)
        return false;
    const struct ptx_opcode_count *o = &kernel->opcodes[index];
    *out = (struct ptx_issued){.opcode = o->opcode};
    ptx_row_of(o->form, &o->access, &out->row);
    for (uint32_t n = 0; n < kernel->code_count; n++)
        out->issued += kernel->code[n].opcode == index ? kernel->issued[n] : 0;
    return true;
}

bool ptx_kernel_line(const struct ptx_kernel *kernel, uint32_t index, uint32_t *line,
                     uint64_t *issued)
{
    if (index >= kernel->code_count)
        return false;
    *line = kernel->code[index].line;
    *issued = kernel->issued[index];
    return true;
}

void ptx_kernel_counts_clear(struct ptx_kernel *kernel)
{
    kernel->counts = (struct ptx_counts){0};
    memset(kernel->issued, 0, kernel->code_count * sizeof *kernel->issued);
}
