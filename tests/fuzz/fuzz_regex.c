// SPDX-License-Identifier: Apache-2.0
// Patterns from clients: for any bytes, regex_compile returns an expression or an error sentence,
// and its grammar accepts every byte that its masks allow.
#include "runtime/grammar/matcher.h"
#include "runtime/text/grammar/json.h"
#include "runtime/text/grammar/regex.h"
#include "tests/fuzz/grammar_walk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct error err = {0};
    if (bytes < 1)
        return 0;
    struct grammar_builder *b =
        grammar_builder_create(&(struct grammar_limits){.work_max = 3000000});
    struct regex_args args = {.pattern = text_span((const char *)data + 1, bytes - 1),
                              .search = data[0] & 1,
                              .chars = data[0] & 2 ? json_grammar_chars : NULL};
    uint32_t root, other;
    enum status status = regex_compile(b, &args, &root, &err);
    if (status == STATUS_OK && data[0] & 4 && bytes < 40 &&
        grammar_except(b, root, grammar_literal(b, text_of("a")), &other, &err) == STATUS_OK)
        root = other;
    grammar_end(b, status, root, &err, data, bytes);
    return 0;
}
