// SPDX-License-Identifier: Apache-2.0
// Structured output of a request: see decoding.h.
#include "http/api/decoding.h"

#include "runtime/grammar/vocabulary.h"

#include <string.h>

// response_format

static const struct field_rule schema_rows[] = {
    FIELD_TYPED("name", "s"),
    FIELD_HARMLESS("description", "s"),
    FIELD_TYPED("schema", "o"),
    FIELD_TYPED("strict", "b"),
};
static const struct field_rules schema_members = FIELD_RULES(schema_rows, NULL);

static const struct field_rule format_rows[] = {
    FIELD_TYPED("type", "s"),
    FIELD_OBJECT("json_schema", schema_members),
    FIELD_TYPED("schema", "o"),
};
const struct field_rules structured_format_members = FIELD_RULES(format_rows, NULL);

// text, of Responses: like response_format, but the schema's members are next to the type

static const struct field_rule flat_rows[] = {
    FIELD_TYPED("type", "s"),   FIELD_TYPED("name", "s"),   FIELD_HARMLESS("description", "s"),
    FIELD_TYPED("schema", "o"), FIELD_TYPED("strict", "b"),
};
static const struct field_rules flat_members = FIELD_RULES(flat_rows, NULL);

static const struct field_rule text_rows[] = {
    FIELD_OBJECT("format", flat_members),
    FIELD_HARMLESS("verbosity", "s"),
};
const struct field_rules structured_text_members = FIELD_RULES(text_rows, NULL);

// structured_outputs

static const struct field_rule outputs_rows[] = {
    FIELD_TYPED("json", "so"),
    FIELD_TYPED("json_object", "b"),
    FIELD_TYPED("regex", "s"),
    FIELD_TYPED("choice", "a"),
    FIELD_TYPED("grammar", "s"),
    FIELD_HARMLESS("disable_any_whitespace", "b"), // grammars allow no optional whitespace
    FIELD_HARMLESS("disable_fallback", "b"),
    FIELD_NOT_SERVED("disable_additional_properties", "b", "[false]"),
    FIELD_NOT_SERVED("whitespace_pattern", "s", NULL),
    FIELD_NOT_SERVED("structural_tag", "s", NULL),
};
const struct field_rules structured_members = FIELD_RULES(outputs_rows, NULL);

// output_config and output_format

static const struct field_rule output_rows[] = {
    FIELD_TYPED("type", "s"),
    FIELD_TYPED("schema", "o"),
    FIELD_HARMLESS("name", "s"),
};
const struct field_rules structured_output_members = FIELD_RULES(output_rows, NULL);

static const struct field_rule config_rows[] = {
    FIELD_TYPED("effort", "s"),
    FIELD_OBJECT("format", structured_output_members),
};
const struct field_rules structured_config_members = FIELD_RULES(config_rows, NULL);

// Reading

void structured_set(struct generation *g, const struct grammar_source *source, const char *path)
{
    const struct served_model *model = g->call.model;
    struct grammar_source own = *source;
    if (model->vocabulary) // markers of calls and reasoning can be special tokens
        own.alphabet = vocabulary_alphabet(model->vocabulary, own.kind == GRAMMAR_KIND_CALLS);
    g->structured = (struct structured){
        .source = own, .hash = grammars_hash(&own), .path = path, .found = GRAMMARS_UNKNOWN};
}

// Copies the source's text, because the body is freed before the grammar is compiled.
static void source_set(struct generation *g, struct grammar_source source, const char *path)
{
    struct fields *f = &g->call.fields;
    struct structured *s = &g->structured;
    if (f->failed)
        return;
    if (s->source.kind != GRAMMAR_KIND_NONE) {
        fields_fail(f, HTTP_INVALID_VALUE, path, "cannot be combined with '%s'", s->path);
        return;
    }
    if (source.text.bytes > STRUCTURED_BYTES_MAX) {
        fields_fail(f, HTTP_INVALID_VALUE, path, "must have at most %d bytes, got %zu",
                    STRUCTURED_BYTES_MAX, source.text.bytes);
        return;
    }
    if (!fields_spend(f, source.text.bytes))
        return;
    source.text = arena_copy(f->arena, source.text);
    const char *kept = arena_copy(f->arena, text_of(path)).at;
    if (!source.text.at || !kept)
        fields_fail(f, HTTP_TOO_LARGE, path, "is too large");
    else
        structured_set(g, &source, kept);
}

// Sets the grammar of any JSON object.
static void json_set(struct generation *g, const char *path)
{
    source_set(g, (struct grammar_source){.kind = GRAMMAR_KIND_JSON, .text = text_of("")}, path);
}

static void choices_check(struct fields *f, const json_t *choices, const char *path)
{
    size_t count = json_array_size(choices);
    if (count == 0)
        fields_fail(f, HTTP_INVALID_VALUE, path, "must not be empty");
    for (size_t i = 0; i < count && !f->failed; i++)
        if (!json_is_string(json_array_get(choices, i)))
            fields_fail(f, HTTP_INVALID_TYPE, fields_path(f, "%s[%zu]", path, i),
                        "must be a string");
}

// Sets the source, whose text is the value: a string unchanged, another value as JSON text with its
// keys in their order.
static void value_set(struct generation *g, struct grammar_source source, const json_t *value,
                      const char *path)
{
    struct fields *f = &g->call.fields;
    struct field_path kept = fields_path_keep(path);
    struct json_buffer text = {0};
    if (f->failed)
        return;
    if (source.kind == GRAMMAR_KIND_CHOICE)
        choices_check(f, value, kept.at);
    if (json_is_string(value)) {
        source.text = json_text(value);
        source_set(g, source, kept.at);
        return;
    }
    bool whole = json_put_value_within(&text, value, STRUCTURED_BYTES_MAX);
    source.text = json_buffer_text(&text);
    if (whole)
        source_set(g, source, kept.at);
    else if (fields_spend(f, text.bytes))
        fields_fail(f, HTTP_INVALID_VALUE, kept.at, "must have at most %d bytes",
                    STRUCTURED_BYTES_MAX);
    json_buffer_free(&text);
}

// Sets a schema. strict: the value next to it that closes its objects (SCHEMA_OTHERS_NONE), or
// NULL.
static void schema_set(struct generation *g, const json_t *schema, const json_t *strict,
                       const char *path)
{
    const struct grammar_source source = {.kind = GRAMMAR_KIND_SCHEMA,
                                          .strict = json_is_true(strict)};
    value_set(g, source, schema, path);
}

static void type_fail(struct fields *f, struct text type, const char *path, const char *types)
{
    struct text shown = text_head(type, 32);
    fields_fail(f, HTTP_INVALID_VALUE, path, "must be %s, got '%.*s'", types, (int)shown.bytes,
                shown.at);
}

static void format_read(struct generation *g)
{
    struct fields *f = &g->call.fields;
    const json_t *format = fields_get(f, "response_format");
    const json_t *outer = json_member(format, "json_schema"), *own = json_member(format, "schema");
    const json_t *schema = json_member(outer, "schema");
    struct text type = json_text(json_member(format, "type"));
    fields_require_type(f, "response_format");
    if (f->failed || !format)
        return;
    bool object = text_is(type, "json_object"), by_schema = text_is(type, "json_schema");
    if (!object && !by_schema && !text_is(type, "text"))
        type_fail(f, type, "response_format.type", "'text', 'json_object' or 'json_schema'");
    else if (outer && !by_schema)
        fields_fail(f, HTTP_INVALID_VALUE, "response_format.json_schema",
                    "needs the type 'json_schema'");
    else if (own && !object)
        fields_fail(f, HTTP_INVALID_VALUE, "response_format.schema",
                    "needs the type 'json_object'");
    else if (by_schema && !schema)
        fields_fail(f, HTTP_MISSING_FIELD,
                    outer ? "response_format.json_schema.schema" : "response_format.json_schema",
                    "is required");
    else if (by_schema)
        schema_set(g, schema, json_member(outer, "strict"), "response_format.json_schema.schema");
    else if (own)
        schema_set(g, own, NULL, "response_format.schema");
    else if (object)
        json_set(g, "response_format");
}

static void named_read(struct generation *g, const json_t *object, const char *const names[4],
                       const char *before)
{
    static const enum grammar_kind kinds[] = {GRAMMAR_KIND_SCHEMA, GRAMMAR_KIND_REGEX,
                                              GRAMMAR_KIND_CHOICE, GRAMMAR_KIND_GBNF};
    for (int i = 0; i < 4; i++) {
        const json_t *value = json_member(object, names[i]);
        if (value)
            value_set(g, (struct grammar_source){.kind = kinds[i]}, value,
                      fields_path(&g->call.fields, "%s%s", before, names[i]));
    }
}

void structured_read(struct generation *g)
{
    static const char *const names[] = {"json", "regex", "choice", "grammar"};
    static const char *const guided[] = {"guided_json", "guided_regex", "guided_choice",
                                         "guided_grammar"};
    struct fields *f = &g->call.fields;
    const json_t *outputs = fields_get(f, "structured_outputs");
    format_read(g);
    named_read(g, outputs, names, "structured_outputs.");
    if (json_is_true(json_member(outputs, "json_object")))
        json_set(g, "structured_outputs.json_object");
    named_read(g, f->root, guided, "");
}

void structured_read_responses(struct generation *g)
{
    struct fields *f = &g->call.fields;
    const json_t *format = json_member(fields_get(f, "text"), "format");
    const json_t *schema = json_member(format, "schema");
    struct text type = json_text(json_member(format, "type"));
    if (f->failed || !format)
        return;
    bool object = text_is(type, "json_object"), by_schema = text_is(type, "json_schema");
    if (!type.at)
        fields_fail(f, HTTP_MISSING_FIELD, "text.format.type", "is required");
    else if (!object && !by_schema && !text_is(type, "text"))
        type_fail(f, type, "text.format.type", "'text', 'json_object' or 'json_schema'");
    else if (schema && !by_schema)
        fields_fail(f, HTTP_INVALID_VALUE, "text.format.schema", "needs the type 'json_schema'");
    else if (by_schema && !schema)
        fields_fail(f, HTTP_MISSING_FIELD, "text.format.schema", "is required");
    else if (by_schema)
        schema_set(g, schema, json_member(format, "strict"), "text.format.schema");
    else if (object)
        json_set(g, "text.format");
}

static void output_read(struct generation *g, const json_t *format, const char *path)
{
    struct fields *f = &g->call.fields;
    const json_t *type = json_member(format, "type"), *schema = json_member(format, "schema");
    struct field_path kept = fields_path_keep(path);
    if (!format)
        return;
    if (!type)
        fields_fail(f, HTTP_MISSING_FIELD, fields_path(f, "%s.type", kept.at), "is required");
    else if (!text_is(json_text(type), "json_schema"))
        type_fail(f, json_text(type), fields_path(f, "%s.type", kept.at), "'json_schema'");
    else if (!schema)
        fields_fail(f, HTTP_MISSING_FIELD, fields_path(f, "%s.schema", kept.at), "is required");
    else
        schema_set(g, schema, NULL, fields_path(f, "%s.schema", kept.at));
}

void structured_read_messages(struct generation *g)
{
    struct fields *f = &g->call.fields;
    const json_t *config = fields_get(f, "output_config");
    if (f->failed)
        return;
    output_read(g, json_member(config, "format"), "output_config.format");
    output_read(g, fields_get(f, "output_format"), "output_format");
}

// Compiling

static void source_refused(struct generation *g, const struct error *err)
{
    enum http_error error =
        err->status == STATUS_UNSUPPORTED ? HTTP_UNSUPPORTED_VALUE : HTTP_INVALID_VALUE;
    bool tool = g->structured.source.kind == GRAMMAR_KIND_CALLS &&
                strncmp(err->text, "tool '", strlen("tool '")) == 0;
    fields_fail(&g->call.fields, error, tool ? "tools" : g->structured.path, "is refused: %s",
                err->text);
}

void structured_skip(struct generation *g)
{
    grammar_unref(g->structured.grammar);
    g->structured.grammar = NULL;
    g->submit.watch = NULL;
}

bool structured_find(struct generation *g)
{
    struct structured *s = &g->structured;
    if (s->found == GRAMMARS_UNKNOWN)
        s->found =
            grammars_find(g->call.info->served->grammars, &s->hash, &s->grammar, &s->refusal);
    bool lacks = s->found == GRAMMARS_REFUSED || s->found == GRAMMARS_BUSY;
    if (s->optional && lacks)
        structured_skip(g);
    else if (s->found == GRAMMARS_REFUSED)
        source_refused(g, &s->refusal);
    else if (s->found == GRAMMARS_BUSY)
        fields_fail_plain(&g->call.fields, HTTP_OVERLOADED, NULL,
                          "the grammars in use leave no memory for another one; try again later");
    g->submit.grammar = s->grammar;
    s->grammar = NULL;
    return s->found != GRAMMARS_UNKNOWN;
}

void structured_compile(struct generation *g)
{
    struct structured *s = &g->structured;
    s->found = grammars_compile(g->call.info->served->grammars, &s->source, &s->hash, &s->grammar,
                                &s->refusal);
}
