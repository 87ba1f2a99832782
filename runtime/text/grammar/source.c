// SPDX-License-Identifier: Apache-2.0
// One entry for all kinds of constraints, and the text of tool call constraints. See source.h.
#include "runtime/text/grammar/source.h"

#include "base/arena.h"
#include "base/json.h"
#include "runtime/text/dialect/grammar.h"
#include "runtime/text/grammar/gbnf.h"
#include "runtime/text/grammar/regex.h"
#include "runtime/text/grammar/schema.h"

// Estimated memory of the parsed text. Two such trees (calls and the content) and the builder,
// which uses up to 17 MiB, stay below 64 MiB.
enum { TREE_BYTES_MAX = 20 << 20, OBJECT_BYTES = 256, LIST_BYTES = 128, VALUE_BYTES = 96 };

static size_t tree_bytes(struct text text)
{
    size_t bytes = VALUE_BYTES + text.bytes;
    for (size_t i = 0; i < text.bytes; i++) {
        char c = text.at[i];
        bytes += c == '{' ? OBJECT_BYTES : c == '[' ? LIST_BYTES : c == ',' ? VALUE_BYTES : 0;
        if (c != '"')
            continue;
        for (i++; i < text.bytes && text.at[i] != '"'; i++)
            i += text.at[i] == '\\';
    }
    return bytes;
}

static enum status source_parse(const struct grammar_source *source, json_t **out,
                                struct error *err)
{
    struct error own;
    *out = NULL;
    if (tree_bytes(source->text) > TREE_BYTES_MAX)
        return error_set(err, STATUS_TOO_LARGE,
                         "it has too many values: make it smaller (a schema may have some 70,000 "
                         "objects)");
    if (json_parse(out, source->text, &own) == STATUS_OK)
        return STATUS_OK;
    return error_set(err, STATUS_INVALID, "it is not valid JSON: %s", own.text);
}

static enum status schema_build(struct grammar_builder *b, const struct grammar_source *source,
                                uint32_t *root, struct error *err)
{
    json_t *schema;
    enum status status = source_parse(source, &schema, err);
    if (status != STATUS_OK)
        return status;
    struct schema_args args = {.schema = schema,
                               .others = source->strict ? SCHEMA_OTHERS_NONE : SCHEMA_OTHERS_FEW};
    status = schema_compile(b, &args, root, err);
    json_decref(schema);
    if (status == STATUS_OK && *root == GRAMMAR_NOTHING && !grammar_failed(b))
        return error_set(err, STATUS_INVALID, "no instance of the schema is valid");
    return status;
}

static enum status choice_build(struct grammar_builder *b, const struct grammar_source *source,
                                uint32_t *root, struct error *err)
{
    json_t *list;
    enum status status = source_parse(source, &list, err);
    if (status != STATUS_OK)
        return status;
    size_t count = json_array_size(list);
    struct text *strings = heap_alloc((count + 1) * sizeof *strings);
    for (size_t i = 0; i < count; i++) {
        const json_t *each = json_array_get(list, i);
        check(json_is_string(each), "choice %zu is no string", i);
        strings[i] = text_span(json_string_value(each), json_string_length(each));
    }
    *root = grammar_choice(b, strings, (uint32_t)count);
    heap_free(strings);
    json_decref(list);
    return STATUS_OK;
}

static bool function_put(struct json_buffer *out, const json_t *tool, size_t bytes_max)
{
    static const char *const members[] = {"name", "parameters", "strict"};
    const json_t *inner = json_object_get(tool, "function"), *function = inner ? inner : tool;
    const char *before = "";
    json_put_literal(out, "{");
    for (size_t i = 0; i < 3; i++) {
        const json_t *value = json_object_get(function, members[i]);
        if (!value || json_is_null(value))
            continue;
        json_put_format(out, "%s\"%s\":", before, members[i]);
        if (!json_put_value_within(out, value, bytes_max))
            return false;
        before = ",";
    }
    json_put_literal(out, "}");
    return true;
}

static void flag_put(struct json_buffer *out, const char *name, bool value)
{
    json_put_format(out, ",\"%s\":%s", name, value ? "true" : "false");
}

bool grammar_calls_put(struct json_buffer *out, const struct grammar_calls *calls,
                       size_t tools_bytes_max)
{
    json_put_literal(out, "{\"tools\":[");
    for (size_t i = 0; i < json_array_size(calls->tools); i++) {
        json_put_literal(out, i > 0 ? "," : "");
        if (!function_put(out, json_array_get(calls->tools, i), tools_bytes_max))
            return false;
    }
    json_put_literal(out, "]");
    if (out->bytes > tools_bytes_max)
        return false;
    flag_put(out, "must", calls->must);
    flag_put(out, "parallel", calls->parallel);
    flag_put(out, "resumes", calls->resumes);
    flag_put(out, "reasoning", calls->reasoning);
    flag_put(out, "no_reasoning", calls->no_reasoning);
    flag_put(out, "reasoning_once", calls->reasoning_once);
    json_put_format(out, ",\"start\":%d", (int)calls->start);
    if (calls->allowed) {
        json_put_literal(out, ",\"allowed\":");
        json_put_value(out, calls->allowed);
    }
    if (calls->content.kind != GRAMMAR_KIND_NONE) {
        json_put_format(out, ",\"content\":{\"kind\":%d,\"text\":", (int)calls->content.kind);
        json_put_string(out, calls->content.text);
        flag_put(out, "strict", calls->content.strict);
        json_put_literal(out, "}");
    }
    json_put_literal(out, "}");
    return true;
}

static enum status calls_build(struct grammar_builder *b, const struct grammar_source *source,
                               uint32_t *root, struct error *err)
{
    json_t *all;
    enum status status = source_parse(source, &all, err);
    if (status != STATUS_OK)
        return status;
    const json_t *content = json_object_get(all, "content");
    const json_t *text = json_object_get(content, "text");
    struct grammar_source inner = {
        .kind = (enum grammar_kind)json_integer_value(json_object_get(content, "kind")),
        .text = text_span(json_string_value(text), json_string_length(text)),
        .strict = json_is_true(json_object_get(content, "strict"))};
    struct dialect_grammar_args args = {
        .dialect = source->dialect,
        .tools = json_object_get(all, "tools"),
        .allowed = json_object_get(all, "allowed"),
        .must = json_is_true(json_object_get(all, "must")),
        .parallel = json_is_true(json_object_get(all, "parallel")),
        .resumes = json_is_true(json_object_get(all, "resumes")),
        .reasoning = json_is_true(json_object_get(all, "reasoning")),
        .no_reasoning = json_is_true(json_object_get(all, "no_reasoning")),
        .reasoning_once = json_is_true(json_object_get(all, "reasoning_once")),
        .start = (enum dialect_start)json_integer_value(json_object_get(all, "start")),
    };
    if (content)
        status = grammar_source_build(b, &inner, &args.content, err);
    args.has_text_grammar = content != NULL;
    if (status == STATUS_OK)
        status = dialect_grammar(b, &args, root, err);
    json_decref(all);
    return status;
}

enum status grammar_source_build(struct grammar_builder *b, const struct grammar_source *source,
                                 uint32_t *root, struct error *err)
{
    struct regex_args regex = {.pattern = source->text};
    *root = GRAMMAR_NOTHING;
    switch (source->kind) {
    case GRAMMAR_KIND_NONE:
        break;
    case GRAMMAR_KIND_JSON:
        *root = json_grammar_rules(b, (struct json_style){.blank = GRAMMAR_EMPTY}).object;
        return STATUS_OK;
    case GRAMMAR_KIND_SCHEMA:
        return schema_build(b, source, root, err);
    case GRAMMAR_KIND_REGEX:
        return regex_compile(b, &regex, root, err);
    case GRAMMAR_KIND_CHOICE:
        return choice_build(b, source, root, err);
    case GRAMMAR_KIND_GBNF:
        return gbnf_compile(b, source->text, root, err);
    case GRAMMAR_KIND_CALLS:
        return calls_build(b, source, root, err);
    }
    check(false, "a source of kind %d", (int)source->kind);
    return STATUS_INVALID;
}

static enum status source_compile(const struct grammar_source *source,
                                  const struct grammar_limits *limits, struct grammar **out,
                                  struct error *err)
{
    uint32_t root;
    *out = NULL;
    struct grammar_builder *b = grammar_builder_create(limits);
    enum status status = grammar_source_build(b, source, &root, err);
    if (status == STATUS_OK)
        return grammar_finish(b, root, out, err);
    grammar_builder_destroy(b);
    return status;
}

// If only the vocabulary's alphabet makes the source impossible, the error states that, as far as
// the remaining work limit allows to find out.
enum status grammar_source_compile(const struct grammar_source *source, struct grammar **out,
                                   struct error *err)
{
    struct error own;
    uint64_t worked = 0;
    struct grammar_limits limits = {.alphabet = source->alphabet, .worked = &worked};
    enum status status = source_compile(source, &limits, out, err);
    if (status != STATUS_INVALID || !source->alphabet || worked >= GRAMMAR_WORK_MAX)
        return status;
    limits = (struct grammar_limits){.work_max = GRAMMAR_WORK_MAX - worked};
    bool other = source_compile(source, &limits, out, &own) == STATUS_OK;
    grammar_unref(*out);
    *out = NULL;
    return other ? error_set(err, STATUS_INVALID,
                             "the model's tokens lack bytes that every text of it needs: use "
                             "characters that the model can write")
                 : status;
}
