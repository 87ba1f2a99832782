// SPDX-License-Identifier: Apache-2.0
// libFuzzer: bytes as a GGUF file. An accepted file is read completely: the blocks of its tensors,
// and the documents of a model folder that it replaces, such as the tokenizer.
#include "runtime/model/dequantise.h"
#include "runtime/model/gguf_tensors.h"
#include "runtime/source/gguf_documents.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void tensors_read(const struct tensor *list, uint32_t count)
{
    enum { COLS = 37 };
    volatile float last = 0;
    float row[COLS];
    for (uint32_t i = 0; i < count; i++) {
        const struct tensor *t = &list[i];
        uint64_t elements = 1;
        for (uint32_t d = 0; d < t->dims; d++)
            elements *= t->shape[d];
        if ((t->dtype < 0 && !t->blocks) || t->dims != 2 || t->shape[1] > 1 << 20)
            continue;
        uint32_t stride = (uint32_t)t->shape[1], cols = stride < COLS ? stride : COLS;
        for (uint64_t r = 0; r < elements / stride && r < 4096; r++) {
            const struct tensor_place place = {(uint32_t)r, 1, stride - cols, cols, stride, 0, 0};
            tensor_rows_read(row, t, &place);
            last = row[cols - 1];
        }
    }
    (void)last;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const char *const names[] = {"config.json",           "generation_config.json",
                                        "modules.json",          "1_Pooling/config.json",
                                        "tokenizer_config.json", "tokenizer.json"};
    struct arena *arena = arena_create(0, 0);
    struct tensor *list = NULL;
    struct gguf file;
    uint32_t count = 0;
    struct error err;
    struct text text = text_span((const char *)data, bytes);
    enum status status = gguf_parse(&file, arena, text, "fuzz", &err);
    if (status == STATUS_OK && gguf_tensors_list(&list, &count, arena, &file, &err) == STATUS_OK)
        tensors_read(list, count);
    if (status == STATUS_OK)
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
            struct json_buffer out = {0};
            const struct gguf_output paper = {&out, 1 << 26, arena};
            json_t *json = NULL;
            if (gguf_document(&paper, &file, names[i], &err) == STATUS_OK) {
                check(json_parse(&json, json_buffer_text(&out), &err) == STATUS_OK, "%s: %s",
                      names[i], err.text);
                json_decref(json);
            }
            json_buffer_free(&out);
        }
    arena_destroy(arena);
    return 0;
}
