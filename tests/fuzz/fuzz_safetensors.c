// SPDX-License-Identifier: Apache-2.0
// libFuzzer: bytes as a safetensors file. Every byte of an accepted tensor is read, so that the
// sanitizer reports an offset outside the file.
#include "runtime/model/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

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
    }
    arena_destroy(arena);
    return 0;
}
