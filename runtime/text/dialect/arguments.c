// SPDX-License-Identifier: Apache-2.0
// The arguments of a call as a grammar: JSON, one element per parameter, Python literals, objects
// with bare keys. Excludes texts that the reader would interpret differently. See write.h.
#include "runtime/text/dialect/write.h"

#include "runtime/text/dialect/read.h"

enum { KEY_CHARS_MAX = 128 };

static uint32_t text_literal(struct write *w, const char *text)
{
    return grammar_literal(w->b, text_of(text));
}

// Any string of min to max characters that are not in `bytes`.
static uint32_t chars_except(struct write *w, const char *bytes, uint32_t min, uint32_t max)
{
    struct grammar_range ranges[40] = {{0, 0}};
    uint32_t count = min > 0; // no NUL if it must not be empty
    for (; *bytes && count < 40; bytes++, count++)
        ranges[count] = (struct grammar_range){(uint8_t)*bytes, (uint8_t)*bytes};
    return grammar_repeat(w->b, grammar_chars_except(w->b, ranges, count), min, max);
}

// Strings that contain the part.
static uint32_t chars_around(struct write *w, uint32_t part)
{
    uint32_t any = chars_except(w, "", 0, GRAMMAR_UNBOUNDED);
    uint32_t parts[] = {any, part, any};
    return grammar_join_all(w->b, parts, 3);
}

// Markers of these roles that do not contain special tokens.
static uint32_t markers_of(struct write *w, uint32_t roles)
{
    uint32_t all = GRAMMAR_NOTHING;
    for (uint32_t i = 0; i < w->d->marker_count; i++) {
        const struct dialect_marker *marker = &w->d->markers[i];
        char text[DIALECT_MARKER_BYTES];
        bool special = false;
        for (uint32_t k = 0; k < marker->count; k++) {
            text[k] = (char)marker->symbols[k];
            special |= (marker->symbols[k] & READ_SPECIAL) != 0;
        }
        if ((ROLE_BIT(marker->role) & roles) != 0 && !special)
            all = grammar_either(w->b, grammar_literal(w->b, text_span(text, marker->count)), all);
    }
    return all;
}

// Tags that the reader takes for the end of a value although its own end tag is missing: the end of
// a call with another call or the end of all calls after it, or another parameter.
static uint32_t other_ends(struct write *w)
{
    static const struct grammar_range blanks[] = {{' ', ' '}, {'\t', '\n'}, {'\r', '\r'}};
    struct grammar_builder *b = w->b;
    uint32_t blank = grammar_repeat(b, grammar_chars(b, blanks, 3), 0, GRAMMAR_UNBOUNDED);
    uint32_t call[] = {markers_of(w, ROLE_BIT(ROLE_CALL_CLOSE)), blank,
                       markers_of(w, ROLE_BIT(ROLE_SECTION_CLOSE) | ROLE_BIT(ROLE_SECTION_OPEN) |
                                         ROLE_BIT(ROLE_CALL_OPEN))};
    uint32_t key[] = {markers_of(w, ROLE_BIT(ROLE_KEY_OPEN)),
                      chars_except(w, " \t\r\n", 0, GRAMMAR_UNBOUNDED),
                      markers_of(w, ROLE_BIT(ROLE_KEY_CLOSE) | ROLE_BIT(ROLE_KEY_STRING) |
                                        ROLE_BIT(ROLE_KEY_OTHER))};
    return grammar_either(b, grammar_join_all(b, call, 3), grammar_join_all(b, key, 3));
}

// Keys that end at the first character of a marker of these roles, or of `others`.
static struct writer_key keys_up_to(const struct write *w, uint32_t roles, const char *others)
{
    struct writer_key key = {.most = KEY_CHARS_MAX};
    size_t count = strlen(others);
    check(count < sizeof key.without, "%zu characters", count);
    memcpy(key.without, others, count);
    for (uint32_t i = 0; i < w->d->marker_count && count < sizeof key.without - 1; i++)
        if (ROLE_BIT(w->d->markers[i].role) & roles)
            key.without[count++] = (char)w->d->markers[i].symbols[0];
    return key;
}

// Texts that the reader interprets as a value of these types and not as a string.
static uint32_t values_of(struct write *w, unsigned types)
{
    static const struct {
        unsigned type;
        const char *words[4];
    } words[] = {{SCHEMA_BOOLEAN, {"true", "false", "True", "False"}},
                 {SCHEMA_NULL, {"null", "None"}}};
    static const struct grammar_range blanks[] = {{' ', ' '}, {'\t', '\n'}, {'\r', '\r'}};
    struct grammar_builder *b = w->b;
    uint32_t blank = grammar_repeat(b, grammar_chars(b, blanks, 3), 0, GRAMMAR_UNBOUNDED);
    uint32_t whole = types & SCHEMA_NUMBER ? json_grammar_number(b) : GRAMMAR_NOTHING;
    uint32_t open = GRAMMAR_NOTHING;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        for (size_t k = 0; k < 4 && words[i].words[k] && (types & words[i].type); k++)
            whole = grammar_either(b, text_literal(w, words[i].words[k]), whole);
    if (types & SCHEMA_OBJECT)
        open = text_literal(w, "{");
    if (types & SCHEMA_ARRAY)
        open = grammar_either(b, text_literal(w, "["), open);
    uint32_t wholes[] = {blank, whole, blank};
    uint32_t opens[] = {blank, open, chars_except(w, "", 0, GRAMMAR_UNBOUNDED)};
    return grammar_either(b, grammar_join_all(b, wholes, 3), grammar_join_all(b, opens, 3));
}

// Determines how the reader interprets a parameter, as read_value_begin does.
static enum schema_reading parameter_reading(void *context, struct grammar_builder *b,
                                             struct text key, struct schema_unquoted_strings *out)
{
    struct write *w = context;
    bool marks_strings = w->parameters.string_open != w->parameters.other_open;
    const json_t *known = json_object_getn(w->types, key.at, key.bytes);
    unsigned types = known ? (unsigned)json_integer_value(known) : w->types_of_any;
    *out = (struct schema_unquoted_strings){w->ends, w->unambiguous};
    // If the schema need not match, the reader parses any text as JSON if possible, else as a
    // string.
    if ((types == SCHEMA_STRING || !w->fitting) && !marks_strings)
        return SCHEMA_READS_STRING;
    if (!marks_strings && (types & SCHEMA_STRING) == 0)
        return SCHEMA_READS_VALUE;
    if (!marks_strings)
        out->ambiguous = grammar_either(b, values_of(w, types), w->ends);
    return SCHEMA_READS_EITHER;
}

static void parameters_begin(struct write *w)
{
    struct schema_parameters *p = &w->parameters;
    bool elements = w->syntax->arguments == ARGUMENTS_ELEMENTS;
    w->writer.strings = w->writer.keys = WRITE_MARKUP;
    p->separator = write_literal(w, w->syntax->parameter_separator, 0);
    p->key_open = write_literal(w, w->syntax->key_open, 0);
    p->string_open = write_literal(w, w->syntax->string_open, 0);
    p->other_open = elements ? p->string_open : write_literal(w, w->syntax->other_open, 0);
    p->value_close = write_literal(w, w->syntax->value_close, 0);
    if (elements)
        p->value_end = write_literal(w, w->syntax->value_end, 0);
    p->key = elements ? keys_up_to(w, 0, "/>")
                      : keys_up_to(w,
                                   ROLE_BIT(ROLE_KEY_CLOSE) | ROLE_BIT(ROLE_KEY_STRING) |
                                       ROLE_BIT(ROLE_KEY_OTHER),
                                   "");
    p->reading = parameter_reading;
    p->context = w;
    uint32_t raw = markers_of(w, ROLE_BIT(ROLE_RAW_OPEN));
    uint32_t own = markers_of(w, ROLE_BIT(ROLE_VALUE_CLOSE) | ROLE_BIT(ROLE_TAG));
    w->ends = grammar_either(w->b, chars_around(w, grammar_either(w->b, own, other_ends(w))),
                             grammar_join(w->b, raw, chars_except(w, "", 0, GRAMMAR_UNBOUNDED)));
    w->unambiguous = grammar_optional(
        w->b, grammar_join(w->b, chars_except(w, " \t\r\n-0123456789{[tfnTFN\"<", 1, 1),
                           chars_except(w, "<", 0, GRAMMAR_UNBOUNDED)));
}

static void python_begin(struct write *w)
{
    struct writer *out = &w->writer;
    out->strings = out->keys = WRITE_PYTHON;
    out->string_open = out->string_close = out->key_open = out->key_close = text_literal(w, "'");
    out->null_word = "None";
    out->true_word = "True";
    out->false_word = "False";
    w->parameters = (struct schema_parameters){
        .separator = text_literal(w, ", "),
        .key_open = GRAMMAR_EMPTY,
        .other_open = text_literal(w, "="),
        .value_close = GRAMMAR_EMPTY,
        .key = keys_up_to(w, 0, " \t\r\n,:=()[]{}\"'\\"),
    };
}

static void bare_keys_begin(struct write *w)
{
    struct writer *out = &w->writer;
    out->strings = out->keys = WRITE_RAW;
    out->string_open = write_literal(w, w->syntax->string_open, 0);
    out->string_close = write_literal(w, w->syntax->value_close, 0);
    out->key_open = out->key_close = GRAMMAR_EMPTY;
    out->colon = text_literal(w, ":");
    out->comma = text_literal(w, ",");
    out->never = chars_around(w, markers_of(w, ROLE_BIT(ROLE_QUOTE)));
    out->key = keys_up_to(w, 0, " \t\r\n,:=()[]{}\"'");
}

void write_arguments_begin(struct write *w)
{
    struct grammar_builder *b = w->b;
    uint32_t space = grammar_optional(b, text_literal(w, " "));
    w->writer = writer_json(b, GRAMMAR_EMPTY);
    // models write a blank there
    w->writer.comma = grammar_join(b, text_literal(w, ","), space);
    w->writer.colon = grammar_join(b, text_literal(w, ":"), space);
    switch (w->syntax->arguments) {
    case ARGUMENTS_JSON:
        break;
    case ARGUMENTS_PARAMETERS:
    case ARGUMENTS_ELEMENTS:
        parameters_begin(w);
        break;
    case ARGUMENTS_PYTHON:
        python_begin(w);
        break;
    case ARGUMENTS_BARE_KEYS:
        bare_keys_begin(w);
        break;
    }
}

// Returns write.types: parameters that are read differently from unknown keys, or whose key is
// repeated, so that their names cannot be among the unknown keys.
static json_t *types_find(struct write *w, const json_t *parameters)
{
    enum { WORK_STEPS = 20 }; // steps of the builder per visited schema
    unsigned work;
    json_t *types = tool_names(parameters), *value;
    const char *name;
    void *next;
    size_t bytes;
    w->types_of_any = tool_parameter(parameters, (struct text){NULL, 0}, &work);
    json_object_keylen_foreach_safe(types, next, name, bytes, value)
    {
        unsigned own = tool_parameter(parameters, text_span(name, bytes), &work);
        if (!grammar_spend(w->b, WORK_STEPS * (uint64_t)work))
            break;
        if (own != w->types_of_any || w->syntax->arguments == ARGUMENTS_ELEMENTS)
            json_object_setn_new(types, name, bytes, json_integer(own));
        else
            json_object_deln(types, name, bytes);
    }
    return types;
}

static bool has_one(const json_t *schema, const char *const *words, size_t count)
{
    bool has = false;
    for (size_t i = 0; i < count && !has; i++)
        has = json_object_get(schema, words[i]) != NULL;
    return has;
}
#define HAS_ONE(schema, words) has_one(schema, words, sizeof(words) / sizeof *(words))

// Returns true if the schema of all arguments of a function names none and refers to no others.
static bool names_nothing(const json_t *parameters)
{
    static const char *const words[] = {"properties",
                                        "required",
                                        "patternProperties",
                                        "additionalProperties",
                                        "propertyNames",
                                        "minProperties",
                                        "unevaluatedProperties",
                                        "$ref",
                                        "$dynamicRef",
                                        "allOf",
                                        "anyOf",
                                        "oneOf",
                                        "not",
                                        "if",
                                        "const",
                                        "enum",
                                        "dependencies",
                                        "dependentRequired",
                                        "dependentSchemas"};
    const char *type = json_string_value(json_object_get(parameters, "type"));
    bool object = json_is_object(parameters) && (!type || strcmp(type, "object") == 0);
    return !parameters || (object && !HAS_ONE(parameters, words));
}

// Returns the schema of arguments that need not match that of their function: an object of any
// values, in any order. The function's schema only decides which there may be: none if its
// `properties` are {}, else those it names once each and SCHEMA_OTHERS_MAX others, or any number if
// it has a keyword about others.
static json_t *any_arguments(const json_t *parameters)
{
    static const char *const others[] = {"patternProperties", "unevaluatedProperties",
                                         "propertyNames", "minProperties", "maxProperties"};
    const json_t *more = json_object_get(parameters, "additionalProperties");
    json_t *names = tool_names(parameters), *any = json_pack("{s:s}", "type", "object");
    bool open = (more && !json_is_false(more)) || HAS_ONE(parameters, others);
    bool named = json_object_size(names) > 0;
    bool none = !open && !named && !json_object_get(parameters, "required") &&
                (!parameters || more || json_object_get(parameters, "properties"));
    if (open || none || (more && named))
        json_object_set_new(any, "additionalProperties", json_boolean(open));
    if (named)
        json_object_set(any, "properties", names);
    json_decref(names);
    return any;
}

enum status write_arguments(struct write *w, const json_t *parameters, enum arguments_fit fit,
                            uint32_t *out)
{
    enum dialect_arguments form = w->syntax->arguments;
    bool json = form == ARGUMENTS_JSON || form == ARGUMENTS_BARE_KEYS;
    static const enum schema_others others[] = {[FIT_ANY] = SCHEMA_OTHERS_FEW,
                                                [FIT_FORCED] = SCHEMA_OTHERS_OF_MAPS,
                                                [FIT_STRICT] = SCHEMA_OTHERS_NONE};
    bool none = fit != FIT_ANY && names_nothing(parameters);
    json_t *own = none ? json_pack("{s:b}", "additionalProperties", 0) : any_arguments(parameters);
    struct schema_args args = {.schema = none || fit == FIT_ANY ? own : parameters,
                               .others = others[fit],
                               .writer = &w->writer,
                               .object = true,
                               .any_order = fit == FIT_ANY,
                               .parameters = json ? NULL : &w->parameters};
    w->fitting = fit != FIT_ANY;
    w->parameters.names = w->types = w->parameters.reading ? types_find(w, parameters) : NULL;
    enum status status = schema_compile(w->b, &args, out, w->err);
    json_decref(w->types);
    json_decref(own);
    return status;
}
