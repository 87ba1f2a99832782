// SPDX-License-Identifier: Apache-2.0
// Hostile JSON schemas: the input is a schema, compiled with small limits in both drafts. No input
// may crash, leak or run without bound.
#include "base/json.h"
#include "runtime/text/grammar/schema.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void compile(const json_t *schema, enum schema_draft draft)
{
    const struct grammar_limits limits = {.bytes_max = 16u << 20, .work_max = 4 * 1000 * 1000};
    const struct schema_args args = {.schema = schema, .draft = draft};
    struct grammar_builder *b = grammar_builder_create(&limits);
    struct grammar *g = NULL;
    struct error err = {0};
    uint32_t root;
    if (schema_compile(b, &args, &root, &err) != STATUS_OK) {
        if (root != GRAMMAR_NOTHING || err.text[0] == '\0')
            abort();
        grammar_builder_destroy(b);
    } else if (grammar_finish(b, root, &g, &err) == STATUS_OK) {
        grammar_unref(g);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    json_t *schema;
    struct error err;
    if (json_parse(&schema, text_span((const char *)data, bytes), &err) != STATUS_OK)
        return 0;
    compile(schema, SCHEMA_DRAFT_7);
    compile(schema, SCHEMA_DRAFT_2020);
    json_decref(schema);
    return 0;
}
