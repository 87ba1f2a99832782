// SPDX-License-Identifier: Apache-2.0
// Field readers: see fields.h. This file knows JSON types and paths, but no endpoint.
#include "http/api/fields.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MESSAGE_MAX = 1024 };
enum { MEMBER_WORK = 64 }; // checking one member costs as much as parsing this many bytes of JSON

void fields_init(struct fields *f, struct arena *arena, enum shape shape, const json_t *root)
{
    *f = (struct fields){.root = root, .arena = arena, .shape = shape};
    if (!json_is_object(root))
        fields_fail_plain(f, HTTP_INVALID_TYPE, NULL, "the request body must be a JSON object");
}

// Messages writes paths with dots only: messages[1].content[0] -> messages.1.content.0
static void path_put(char *out, size_t out_bytes, const char *path, enum shape shape)
{
    size_t n = 0;
    for (const char *p = path; *p && n + 1 < out_bytes; p++)
        if (shape == SHAPE_OPENAI)
            out[n++] = *p;
        else if (*p == '[')
            out[n++] = '.';
        else if (*p != ']')
            out[n++] = *p;
    out[n] = 0;
}

static void failure_set(struct fields *f, enum http_error error, const char *path,
                        const char *message)
{
    struct text copy = arena_copy(f->arena, text_of(message));
    struct text param = path ? arena_copy(f->arena, text_of(path)) : (struct text){0};
    f->failed = true;
    f->failure = (struct http_failure){
        .error = error,
        .param = param.at,
        .message = copy.at ? copy : text_of("the request is not valid"),
    };
}

void message_format(char *out, size_t out_bytes, const char *format, va_list args)
{
    int wanted = vsnprintf(out, out_bytes, format, args);
    if (wanted >= 0 && (size_t)wanted >= out_bytes)
        out[utf8_complete(out, out_bytes - 1)] = 0;
}

void fields_fail_plain(struct fields *f, enum http_error error, const char *path,
                       const char *format, ...)
{
    char message[MESSAGE_MAX + 1];
    va_list args;
    if (f->failed)
        return;
    va_start(args, format);
    message_format(message, sizeof message, format, args);
    va_end(args);
    failure_set(f, error, path, message);
}

void fields_fail(struct fields *f, enum http_error error, const char *path, const char *format, ...)
{
    char message[MESSAGE_MAX + 1], shown[256];
    va_list args;
    if (f->failed)
        return;
    path_put(shown, sizeof shown, path, f->shape);
    const char *form = f->shape == SHAPE_OPENAI ? "'%s' " : "%s: ";
    int n = snprintf(message, sizeof message, form, shown); // NOLINT: one of two literals
    va_start(args, format);
    message_format(message + n, sizeof message - (size_t)n, format, args);
    va_end(args);
    failure_set(f, error, path, message);
}

void fields_fail_length(struct fields *f, const char *path, const char *noun,
                        const struct field_length *length)
{
    fields_fail_plain(f, HTTP_CONTEXT_LENGTH, path,
                      "This model's maximum context length is %u tokens. However, your %s "
                      "resulted in %s%u tokens. Please reduce the length of the %s.",
                      length->window, noun, length->more ? "more than " : "", length->tokens, noun);
    f->failure.prompt_tokens = length->tokens + length->more;
    f->failure.tokens_more = length->more;
    f->failure.context_tokens = length->window;
}

bool fields_spend(struct fields *f, uint64_t work)
{
    if (!slice_spend(f->slice, work))
        fields_fail_plain(f, HTTP_UNAVAILABLE, NULL, "the client no longer waits for the response");
    return !f->failed;
}

const char *fields_path(struct fields *f, const char *format, ...)
{
    char *path = f->paths[f->path_next++ % (sizeof f->paths / sizeof f->paths[0])];
    va_list args;
    va_start(args, format);
    message_format(path, FIELD_PATH_MAX, format, args);
    va_end(args);
    return path;
}

struct field_path fields_path_keep(const char *path)
{
    struct field_path kept;
    snprintf(kept.at, sizeof kept.at, "%s", path);
    return kept;
}

struct text json_text(const json_t *string)
{
    if (!json_is_string(string))
        return (struct text){0};
    return text_span(json_string_value(string), json_string_length(string));
}

const json_t *json_member(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    return json_is_null(value) ? NULL : value;
}

const json_t *fields_get(const struct fields *f, const char *name)
{
    return json_member(f->root, name);
}

const json_t *fields_get_required(struct fields *f, const char *name)
{
    const json_t *value = fields_get(f, name);
    if (!value)
        fields_fail(f, HTTP_MISSING_FIELD, name, "is required");
    return value;
}

const json_t *fields_member(struct fields *f, const json_t *object, const char *path,
                            const char *name, json_type type)
{
    const json_t *value = json_member(object, name);
    if (!json_is_object(object))
        fields_fail(f, HTTP_INVALID_TYPE, path, "must be an object");
    else if (!value)
        fields_fail(f, HTTP_MISSING_FIELD, fields_path(f, "%s.%s", path, name), "is required");
    else if (json_typeof(value) != type)
        fields_fail(f, HTTP_INVALID_TYPE, fields_path(f, "%s.%s", path, name), "must be %s",
                    type == JSON_STRING   ? "a string"
                    : type == JSON_OBJECT ? "an object"
                                          : "an array");
    else
        return value;
    return NULL;
}

struct text fields_member_string(struct fields *f, const json_t *object, const char *path,
                                 const char *name)
{
    return json_text(fields_member(f, object, path, name, JSON_STRING));
}

void fields_require_type(struct fields *f, const char *name)
{
    const json_t *value = fields_get(f, name);
    if (value && !json_member(value, "type"))
        fields_fail(f, HTTP_MISSING_FIELD, fields_path(f, "%s.type", name), "is required");
}

bool fields_bool(struct fields *f, const char *name, bool fallback)
{
    const json_t *value = fields_get(f, name);
    if (!value)
        return fallback;
    if (!json_is_boolean(value)) {
        fields_fail(f, HTTP_INVALID_TYPE, name, "must be true or false");
        return fallback;
    }
    return json_is_true(value);
}

double fields_number(struct fields *f, const char *name, struct number_range range)
{
    const json_t *value = fields_get(f, name);
    if (!value)
        return range.fallback;
    if (!json_is_number(value)) {
        fields_fail(f, HTTP_INVALID_TYPE, name, "must be a number");
        return range.fallback;
    }
    double number = json_number_value(value);
    if (!(number >= range.min && number <= range.max)) {
        fields_fail(f, HTTP_INVALID_VALUE, name, "must be between %g and %g, got %.15g", range.min,
                    range.max, number);
        return range.fallback;
    }
    return number;
}

int64_t fields_integer(struct fields *f, const char *name, struct integer_range range)
{
    const json_t *value = fields_get(f, name);
    int64_t number;
    if (!value)
        return range.fallback;
    if (!json_is_number(value) || !json_integer_exact(value, &number)) {
        double size = json_is_number(value) ? fabs(json_number_value(value)) : 0.0;
        const char *what =
            size < 0x1p53   ? "must be an integer"
            : size < 0x1p63 ? "is too large to be read exactly: write it without an exponent or a "
                              "fraction"
                            : "must be an integer of at most 63 bits";
        fields_fail(f, HTTP_INVALID_TYPE, name, "%s", what);
        return range.fallback;
    }
    if (number < range.min) {
        fields_fail(f, HTTP_INVALID_VALUE, name, "must be at least %lld, got %lld",
                    (long long)range.min, (long long)number);
        return range.fallback;
    }
    if (number > range.max) {
        fields_fail(f, HTTP_INVALID_VALUE, name, "must be at most %lld, got %lld",
                    (long long)range.max, (long long)number);
        return range.fallback;
    }
    return number;
}

uint32_t fields_count(struct fields *f, const char *name, uint32_t fallback)
{
    int64_t count = fields_integer(f, name, (struct integer_range){1, INT64_MAX, fallback});
    return count > UINT32_MAX ? UINT32_MAX : (uint32_t)count;
}

bool fields_token_ids(struct fields *f, const json_t *ids, const char *path, uint32_t vocab,
                      struct id_hints hints, int32_t *out)
{
    enum {
        ID_WORK = 4,          // reading an id costs as much as parsing this many bytes of JSON
        SPENT_TOGETHER = 1024 // ids whose work is counted in one call
    };
    size_t count = json_array_size(ids);
    for (size_t i = 0; i < count && !f->failed; i++) {
        const json_t *value = json_array_get(ids, i);
        int64_t id = -1;
        if (i % SPENT_TOGETHER == 0)
            (void)fields_spend(f,
                               ID_WORK * (count - i < SPENT_TOGETHER ? count - i : SPENT_TOGETHER));
        if (!json_is_number(value) || !json_integer_exact(value, &id))
            fields_fail(f, HTTP_INVALID_TYPE, fields_path(f, "%s[%zu]", path, i),
                        "must be a token id%s", hints.other);
        else if (id < 0 || id >= vocab)
            fields_fail(f, HTTP_INVALID_VALUE, fields_path(f, "%s[%zu]", path, i),
                        "must be a token id below %u, got %lld%s", vocab, (long long)id,
                        hints.beyond);
        out[i] = (int32_t)id;
    }
    return !f->failed;
}

struct text fields_string(struct fields *f, const char *name)
{
    const json_t *value = fields_get(f, name);
    if (value && !json_is_string(value)) {
        fields_fail(f, HTTP_INVALID_TYPE, name, "must be a string");
        return (struct text){0};
    }
    return json_text(value);
}

// Numbers compare by value (1 equals 1.0), other values by their JSON text.
static bool values_equal(const json_t *a, const json_t *b)
{
    if (json_is_number(a) && json_is_number(b))
        return json_number_value(a) == json_number_value(b);
    struct json_buffer one = {0}, other = {0};
    json_put_value(&other, b);
    bool equal = json_put_value_within(&one, a, other.bytes) &&
                 text_equal(json_buffer_text(&one), json_buffer_text(&other));
    json_buffer_free(&one);
    json_buffer_free(&other);
    return equal;
}

static bool value_passes(const json_t *value, const char *passes)
{
    json_t *list;
    struct error err;
    bool found = false;
    if (!passes)
        return false;
    enum status status = json_parse(&list, text_of(passes), &err);
    check(status == STATUS_OK, "the rule %s is not JSON", passes);
    for (size_t i = 0; i < json_array_size(list) && !found; i++)
        found = values_equal(value, json_array_get(list, i));
    json_decref(list);
    return found;
}

static bool type_is(const json_t *value, char letter)
{
    int64_t integer;
    switch (letter) {
    case 'b':
        return json_is_boolean(value);
    case 'i':
        return json_is_number(value) && json_integer_exact(value, &integer);
    case 'n':
        return json_is_number(value);
    case 's':
        return json_is_string(value);
    case 'a':
        return json_is_array(value);
    default:
        check(letter == 'o', "the type '%c' of a field", letter);
        return json_is_object(value);
    }
}

static const char *type_name(char letter)
{
    static const char letters[] = "binsao";
    static const char *const names[] = {"true or false", "an integer", "a number",
                                        "a string",      "an array",   "an object"};
    const char *at = strchr(letters, letter);
    check(at, "the type '%c' of a field", letter);
    return names[at - letters];
}

static bool type_passes(const json_t *value, const char *types)
{
    for (const char *t = types; *t; t++)
        if (type_is(value, *t))
            return true;
    return false;
}

// Returns "name", or "path.name" for a member of an object.
static const char *member_path(struct fields *f, const char *path, const char *name)
{
    return path ? fields_path(f, "%s.%s", path, name) : fields_path(f, "%s", name);
}

static void type_fail(struct fields *f, const char *types, const char *path)
{
    if (types[1]) {
        fields_fail(f, HTTP_INVALID_TYPE, path, "must be %s or %s", type_name(types[0]),
                    type_name(types[1]));
    } else {
        fields_fail(f, HTTP_INVALID_TYPE, path, "must be %s", type_name(types[0]));
    }
}

static void rule_apply(struct fields *f, const struct field_rule *rule, const json_t *value,
                       const char *path, const char *name)
{
    if (json_is_null(value))
        return;
    if (rule->types && !type_passes(value, rule->types)) {
        type_fail(f, rule->types, member_path(f, path, name));
    } else if (rule->use == FIELD_REFUSED && !value_passes(value, rule->passes)) {
        fields_fail(f, HTTP_UNSUPPORTED_PARAMETER, member_path(f, path, name),
                    "is not supported%s%s", rule->hint ? "; " : "", rule->hint ? rule->hint : "");
    } else if (rule->members) {
        struct field_path inside = fields_path_keep(member_path(f, path, name));
        fields_check_object(f, rule->members, value, inside.at);
    }
}

static const struct field_rule *rule_find(const struct field_rules *rules, const char *name)
{
    for (; rules; rules = rules->more) {
        for (uint32_t i = 0; i < rules->count; i++) {
            const char *known = rules->rows[i].name;
            if (strcmp(known, name) == 0 || strcmp(known, "*") == 0)
                return &rules->rows[i];
        }
    }
    return NULL;
}

static void ignored_add(struct fields *f, const char *path, const char *name)
{
    size_t space = sizeof f->ignored - f->ignored_bytes;
    int n = snprintf(f->ignored + f->ignored_bytes, space, "%s%s%s%s", f->ignored_bytes ? ", " : "",
                     path ? path : "", path ? "." : "", name);
    f->ignored_count++;
    if (n > 0 && (size_t)n < space)
        f->ignored_bytes += (uint32_t)n;
}

void fields_check_object(struct fields *f, const struct field_rules *rules, const json_t *object,
                         const char *path)
{
    const char *name;
    size_t bytes;
    json_t *value;
    // The iterator macro needs a non-const object; nothing is modified.
    json_object_keylen_foreach((json_t *)object, name, bytes, value)
    {
        bool no_nul = strlen(name) == bytes; // names with a NUL byte match no field
        const struct field_rule *rule = rule_find(rules, no_nul ? name : "*");
        if (f->failed || !fields_spend(f, MEMBER_WORK))
            return;
        if (rule)
            rule_apply(f, rule, value, path, name);
        else
            ignored_add(f, path, name);
    }
}

void fields_check_known(struct fields *f, const struct field_rules *rules)
{
    if (!f->failed)
        fields_check_object(f, rules, f->root, NULL);
}
