// SPDX-License-Identifier: Apache-2.0
// libFuzzer: bytes as a safetensors file. Every byte of an accepted tensor is read, and every
// element of a quantised module, so that the sanitizer reports an offset outside the file.
#include "runtime/model/dequantise.h"
#include "runtime/model/packed.h"
#include "runtime/model/packed_find.h"
#include "runtime/model/safetensors.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void packed_fuzz(struct tensor *list, uint32_t count, struct arena *arena)
{
    struct error err;
    const struct packed_rules rules = {.declared = true, .zeros_full = count % 2 == 0};
    qsort(list, count, sizeof *list, tensor_name_order);
    if (packed_find(list, &count, &rules, arena, &err) != STATUS_OK)
        return;
    for (uint32_t i = 0; i < count; i++) {
        const struct packed *packed = list[i].packed;
        uint64_t rows = packed ? packed->n : 0, cols = packed ? packed->k : 0;
        if (!packed || rows > 4096 || cols > 4096)
            continue;
        float *row = heap_alloc(cols * sizeof *row);
        for (uint32_t r = 0; r < rows; r++)
            tensor_rows_read(row, &list[i],
                             &(struct tensor_place){r, 1, 0, (uint32_t)cols, (uint32_t)cols, 0, 0});
        heap_free(row);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct arena *arena = arena_create(0, 0);
    struct tensor *list = NULL;
    uint32_t count = 0;
    struct error err;
    struct text file = text_span((const char *)data, bytes);
    if (safetensors_parse(&list, &count, arena, file, "fuzz", &err) == STATUS_OK) {
        volatile unsigned char last = 0;
        for (uint32_t i = 0; i < count; i++)
            for (uint64_t k = 0; k < list[i].bytes; k++)
                last = ((const unsigned char *)list[i].map)[k];
        (void)last;
        packed_fuzz(list, count, arena);
    }
    arena_destroy(arena);
    return 0;
}
