// SPDX-License-Identifier: Apache-2.0
// Grammars from clients: for any bytes, gbnf_compile and grammar_finish return a grammar or an
// error sentence, and the grammar accepts every byte that its masks allow.
#include "runtime/text/grammar/gbnf.h"
#include "tests/fuzz/grammar_walk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct error err = {0};
    uint32_t root;
    struct grammar_builder *b =
        grammar_builder_create(&(struct grammar_limits){.work_max = 3000000});
    enum status status = gbnf_compile(b, text_span((const char *)data, bytes), &root, &err);
    grammar_end(b, status, root, &err, data, bytes);
    return 0;
}
