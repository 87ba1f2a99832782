// SPDX-License-Identifier: Apache-2.0
// Hostile tool definitions: the first bytes choose a dialect and the options of the request, the
// rest is a JSON array of tools, and after a zero byte a regular expression for the text. No input
// may crash, leak or run without bound. A grammar that compiles is walked.
#include "runtime/text/grammar/source.h"

#include "base/arena.h"
#include "runtime/text/dialect/grammar.h"
#include "tests/fuzz/grammar_walk.h"

#include <string.h>

enum { HEAD = 4, TOOLS_BYTES_MAX = 1 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static bool is_a_tool(const json_t *tool)
{
    const json_t *name = json_object_get(tool, "name");
    return json_is_string(name) && json_string_length(name) > 0 && json_string_length(name) <= 64;
}

static void dialect_choose(struct dialect *d, uint8_t row, uint8_t reasoning)
{
    uint32_t rows = 0, reasonings = 0;
    while (dialect_row_name(rows))
        rows++;
    while (dialect_reasoning_row_name(reasonings))
        reasonings++;
    bool known = dialect_named(d, dialect_row_name(row % rows),
                               dialect_reasoning_row_name(reasoning % reasonings), NULL);
    check(known, "row %u, reasoning %u", row, reasoning);
}

static void compile(const struct dialect *d, const struct grammar_calls *calls, const uint8_t *data,
                    size_t bytes)
{
    const struct grammar_limits limits = {.bytes_max = 16u << 20, .work_max = 4 * 1000 * 1000};
    struct json_buffer text = {0};
    struct error err = {0};
    uint32_t root;
    if (grammar_calls_put(&text, calls, TOOLS_BYTES_MAX)) {
        struct grammar_source source = {
            .kind = GRAMMAR_KIND_CALLS, .text = text_span(text.at, text.bytes), .dialect = d};
        struct grammar_builder *b = grammar_builder_create(&limits);
        enum status status = grammar_source_build(b, &source, &root, &err);
        check(status == STATUS_OK || root == GRAMMAR_NOTHING, "an error with a root");
        grammar_end(b, status, root, &err, data, bytes);
    }
    json_buffer_free(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    json_t *tools = NULL;
    struct dialect d;
    struct error err;
    if (bytes <= HEAD)
        return 0;
    const char *rest = (const char *)data + HEAD, *zero = memchr(rest, 0, bytes - HEAD);
    size_t json = zero ? (size_t)(zero - rest) : bytes - HEAD;
    if (json_parse(&tools, text_span(rest, json), &err) != STATUS_OK)
        return 0;
    bool fine = json_is_array(tools) && json_array_size(tools) <= 16;
    for (size_t i = 0; fine && i < json_array_size(tools); i++)
        fine = is_a_tool(json_array_get(tools, i));
    dialect_choose(&d, data[0], data[1]);
    struct grammar_calls calls = {.tools = tools,
                                  .must = (data[2] & 1) != 0 && json_array_size(tools) > 0,
                                  .parallel = (data[2] & 2) != 0,
                                  .reasoning = (data[2] & 4) != 0,
                                  .start = (enum dialect_start)(data[3] % 4)};
    if (calls.must && calls.start == DIALECT_START_MIDST)
        calls.start = DIALECT_START_TEXT;
    if (zero && !calls.must)
        calls.content = (struct grammar_source){
            .kind = GRAMMAR_KIND_REGEX, .text = text_span(zero + 1, bytes - HEAD - json - 1)};
    if (fine && (dialect_has_calls(&d) || json_array_size(tools) == 0))
        compile(&d, &calls, data, bytes);
    json_decref(tools);
    return 0;
}
