// SPDX-License-Identifier: Apache-2.0
// libFuzzer: bytes as a file of torch.save, or, if they do not begin as a zip archive, as the
// pickle in one. Every byte of an accepted tensor is read, so that the sanitizer reports an offset
// outside the file.
#include "runtime/model/torch.h"
#include "runtime/model/torch_pickle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct arena *arena = arena_create(0, 0);
    struct tensor *list = NULL;
    struct pickled_tensor *pickled = NULL;
    uint32_t count = 0;
    struct error err;
    struct text file = text_span((const char *)data, bytes);
    volatile unsigned char last = 0;
    if (!text_begins(file, "PK")) {
        if (pickle_read(&pickled, &count, arena, file, "fuzz", &err) == STATUS_OK)
            for (uint32_t i = 0; i < count; i++)
                last = (unsigned char)pickled[i].name.at[pickled[i].name.bytes];
    } else if (torch_parse(&list, &count, arena, file, "fuzz", &err) == STATUS_OK) {
        for (uint32_t i = 0; i < count; i++)
            for (uint64_t k = 0; k < list[i].bytes; k++)
                last = ((const unsigned char *)list[i].map)[k];
    }
    (void)last;
    arena_destroy(arena);
    return 0;
}
