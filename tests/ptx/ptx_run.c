// SPDX-License-Identifier: Apache-2.0
// Runs one kernel of a PTX text in the interpreter, for programs that compare its results
// (tools/triton):
//
//   ptx_run [--seed N] FILE KERNEL GRID BLOCK SHARED [ARGUMENT...]
//   ptx_run --rows
//
// GRID and BLOCK are x[,y[,z]], SHARED the bytes of dynamic shared memory. An argument is in:PATH
// (a buffer with the content of the file), io:PATH (also written back), i32:N, i64:N, f32:X or
// null; a struct parameter takes an argument for each member. Prints counts as a name and a number
// per line, "issued N ROW SHAPE WRITTEN" for each opcode, and "line N ISSUED" for each instruction;
// --rows prints "ROW SHAPE" for each row of the interpreter's table. --seed shuffles the order of
// blocks and warps. Exit status 1: a fault, or a text or arguments that do not fit; 2: wrong usage.
#include "tests/ptx/ptx.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ARGUMENTS_MAX = 64, ALIGN = 256 };

struct buffer {
    char *at;
    size_t bytes;
    const char *written_to; // file to write the buffer to; NULL: none
};
static struct buffer buffers[ARGUMENTS_MAX];
static size_t buffer_count;

static _Noreturn void end(int status, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    fputs("ptx_run: ", stderr);
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
    va_end(list);
    exit(status);
}

static bool holds(const void *at, size_t bytes, const char **first, const char **last)
{
    for (size_t n = 0; n < buffer_count; n++) {
        uintptr_t from = (uintptr_t)buffers[n].at, p = (uintptr_t)at;
        if (p < from || p - from > buffers[n].bytes || bytes > buffers[n].bytes - (p - from))
            continue;
        *first = buffers[n].at;
        *last = buffers[n].at + buffers[n].bytes;
        return true;
    }
    return false;
}

static void hear(const char *text)
{
    fprintf(stderr, "ptx_run: %s\n", text);
}

// Returns the bytes of a file, aligned like device memory.
static char *file_read(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END) != 0)
        end(1, "%s cannot be read", path);
    long size = ftell(file);
    rewind(file);
    char *at = aligned_alloc(ALIGN, ((size_t)size / ALIGN + 1) * ALIGN);
    if (!at || fread(at, 1, (size_t)size, file) != (size_t)size)
        end(1, "%s cannot be read", path);
    fclose(file);
    *bytes = (size_t)size;
    return at;
}

static void buffers_write(void)
{
    for (size_t n = 0; n < buffer_count; n++) {
        const struct buffer *b = &buffers[n];
        if (!b->written_to)
            continue;
        FILE *file = fopen(b->written_to, "wb");
        if (!file || fwrite(b->at, 1, b->bytes, file) != b->bytes || fclose(file) != 0)
            end(1, "%s cannot be written", b->written_to);
    }
}

// Returns the bits of an argument, and its size in bytes.
static uint64_t argument_read(const char *text, uint32_t *bytes)
{
    const char *rest = strchr(text, ':') ? strchr(text, ':') + 1 : "";
    char *after = (char *)rest;
    uint64_t value = 0;
    *bytes = 8;
    if (strncmp(text, "in:", 3) == 0 || strncmp(text, "io:", 3) == 0) {
        struct buffer *b = &buffers[buffer_count++];
        b->at = file_read(rest, &b->bytes);
        b->written_to = text[1] == 'o' ? rest : NULL;
        return (uintptr_t)b->at;
    }
    if (strcmp(text, "null") == 0)
        return 0;
    if (strncmp(text, "f32:", 4) == 0) {
        float number = strtof(rest, &after);
        memcpy(&value, &number, sizeof number);
        *bytes = 4;
    } else if (strncmp(text, "i32:", 4) == 0 || strncmp(text, "i64:", 4) == 0) {
        value = (uint64_t)strtoll(rest, &after, 0);
        *bytes = text[1] == '3' ? 4 : 8;
    }
    if (after == rest || *after != 0)
        end(1, "'%s' is no argument: in:PATH, io:PATH, i32:N, i64:N, f32:X or null", text);
    return value;
}

// Fills each parameter with consecutive arguments, laid out like the members of a C struct, until
// it is full.
static void parameters_fill(const struct ptx_kernel *k, char *out, char **arguments, int count)
{
    uint32_t at, bytes, given;
    int n = 0;
    if (count > ARGUMENTS_MAX)
        end(1, "more than %d arguments", ARGUMENTS_MAX);
    for (uint32_t p = 0; ptx_kernel_parameter(k, p, &at, &bytes); p++)
        for (uint32_t used = 0; used < bytes; n++) {
            if (n == count)
                end(1, "the kernel takes more than %d arguments", count);
            uint64_t value = argument_read(arguments[n], &given);
            used = (used + given - 1) / given * given;
            if (given > bytes || used > bytes - given)
                end(1, "'%s' does not fit parameter %u of %u bytes", arguments[n], p, bytes);
            memcpy(out + at + used, &value, given);
            used += given;
        }
    if (n != count)
        end(1, "the kernel takes %d arguments, not %d", n, count);
}

static void three_read(const char *text, uint32_t out[3])
{
    out[0] = out[1] = out[2] = 1;
    char *at = (char *)text;
    for (int n = 0; n < 3; n++) {
        out[n] = (uint32_t)strtoul(at, &at, 10);
        if (out[n] == 0 || (*at != ',' && *at != 0))
            break;
        if (*at == 0)
            return;
        at++;
    }
    end(2, "'%s' is no grid or block: x[,y[,z]]", text);
}

static void counts_print(const struct ptx_kernel *k)
{
    struct ptx_counts c;
    ptx_kernel_counts(k, &c);
    const struct {
        const char *name;
        uint64_t value;
    } rows[] = {{"warps", c.warps},
                {"instructions", c.instructions},
                {"mma", c.mma},
                {"ldmatrix", c.ldmatrix},
                {"copies", c.copies},
                {"shared_passes", c.shared_passes},
                {"shared_passes_least", c.shared_passes_least},
                {"global_sectors", c.global_sectors},
                {"barriers", c.barriers}};
    for (size_t n = 0; n < sizeof rows / sizeof rows[0]; n++)
        printf("%s %" PRIu64 "\n", rows[n].name, rows[n].value);
    struct ptx_issued i;
    for (uint32_t n = 0; ptx_kernel_opcode(k, n, &i); n++)
        printf("issued %" PRIu64 " %s %s %s\n", i.issued, i.row.opcode,
               *i.row.shape ? i.row.shape : "-", i.opcode);
    uint32_t line;
    uint64_t issued;
    for (uint32_t n = 0; ptx_kernel_line(k, n, &line, &issued); n++)
        printf("line %u %" PRIu64 "\n", line, issued);
}

int main(int count, char **words)
{
    if (count == 2 && strcmp(words[1], "--rows") == 0) {
        struct ptx_row row;
        for (uint32_t n = 0; ptx_opcode(n, &row); n++)
            printf("%s %s\n", row.opcode, *row.shape ? row.shape : "-");
        return 0;
    }
    struct ptx_shape shape = {.seed = 0};
    if (count > 2 && strcmp(words[1], "--seed") == 0) {
        shape.seed = (uint32_t)strtoul(words[2], NULL, 10);
        count -= 2;
        words += 2;
    }
    if (count < 6)
        end(2, "usage: ptx_run [--seed N] FILE KERNEL GRID BLOCK SHARED [ARGUMENT...]");
    char why[512];
    size_t bytes;
    char *text = file_read(words[1], &bytes);
    struct ptx_module *m = ptx_module_read(text, bytes, why, sizeof why);
    if (!m)
        end(1, "%s: %s", words[1], why);
    struct ptx_kernel *k = ptx_kernel_find(m, words[2]);
    if (!k)
        end(1, "%s has no kernel '%s'", words[1], words[2]);
    shape.shared_bytes = (uint32_t)strtoul(words[5], NULL, 10);
    three_read(words[3], shape.grid);
    three_read(words[4], shape.block);
    char *parameters = calloc(1, ptx_kernel_parameter_bytes(k) + 1);
    if (!parameters)
        end(1, "no memory");
    parameters_fill(k, parameters, words + 6, count - 6);
    const struct ptx_watch watch = {holds, hear};
    if (!ptx_kernel_run(k, &shape, parameters, &watch))
        return 1;
    buffers_write();
    counts_print(k);
    ptx_module_free(m);
    free(parameters);
    free(text);
    for (size_t n = 0; n < buffer_count; n++)
        free(buffers[n].at);
    return 0;
}
