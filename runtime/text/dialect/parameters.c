// SPDX-License-Identifier: Apache-2.0
// Reply reader: arguments as one element per parameter, converted to JSON while they arrive; see
// read.h. A value is a string or JSON, according to the tool's schema; if the schema is no help, it
// is JSON if possible.
#include "runtime/text/dialect/read.h"

enum { END_HELD_MAX = 128 }; // maximum number of symbols held until the end of a value is known

void read_parameters_begin(struct reply *r)
{
    r->mode = READ_PARAMETERS;
    r->held_count = r->from = 0;
    r->key_bytes = 0;
    r->levels[0] = (struct read_level){.kind = '{', .schema = r->schema};
    read_arguments(r, "{");
}

static uint32_t key_hash(struct text key)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < key.bytes; i++)
        hash = (hash ^ (unsigned char)key.at[i]) * 16777619u;
    return hash;
}

static bool key_is_given(const struct reply *r, struct text key)
{
    for (uint32_t i = 0; i < r->given_count; i++)
        if (r->given[i] == key_hash(key))
            return true;
    return false;
}

// Returns true if a key that has tags around it contains a tag: one is missing or doubled.
static bool key_has_tag(const struct reply *r, struct text key)
{
    if (!read_has_role(r, ROLE_VALUE_OPEN))
        return false;
    const uint32_t roles = ROLE_BIT(ROLE_KEY_OPEN) | ROLE_BIT(ROLE_VALUE_OPEN) |
                           ROLE_BIT(ROLE_VALUE_CLOSE) | ROLE_BIT(ROLE_CALL_CLOSE);
    for (uint32_t i = 0; i < r->args.dialect->marker_count; i++) {
        const struct dialect_marker *marker = &r->args.dialect->markers[i];
        char text[DIALECT_MARKER_BYTES];
        for (uint32_t k = 0; k < marker->count; k++)
            text[k] = (char)marker->symbols[k];
        if ((roles & ROLE_BIT(marker->role)) != 0 &&
            memmem(key.at, key.bytes, text, marker->count) != NULL)
            return true;
    }
    return false;
}

static void key_put(struct reply *r)
{
    read_arguments(r, r->levels[0].filled ? ",\"" : "\"");
    for (size_t i = 0; i < r->key_bytes; i++)
        read_argument_escaped(r, r->key[i]);
    read_arguments(r, "\":");
    r->levels[0].filled = true;
}

static void key_remember(struct reply *r, struct text key)
{
    r->repeated |= key_is_given(r, key);
    if (r->given_count < READ_GIVEN_MAX)
        r->given[r->given_count++] = key_hash(key);
}

// Returns true if the value may contain all arguments: it is the first, and its key is "arguments",
// which is no parameter of the tool.
static bool key_wraps(const struct reply *r, struct text key)
{
    const json_t *more = json_object_get(r->schema, "additionalProperties");
    return text_is(key, "arguments") && !r->levels[0].filled && r->schema &&
           !json_is_object(more) && !json_is_true(more) && !tool_has_parameter(r->schema, key);
}

void read_key_over(struct reply *r, enum marker_role role)
{
    struct text key = text_span(r->key, r->key_bytes);
    r->unread |= key_has_tag(r, key);
    r->wrapped = key_wraps(r, key);
    unsigned work, types = SCHEMA_OBJECT | SCHEMA_STRING;
    if (!r->wrapped) {
        key_remember(r, key);
        key_put(r);
        types = role == ROLE_KEY_STRING ? SCHEMA_STRING : tool_parameter(r->schema, key, &work);
    }
    read_value_begin(r, types, role == ROLE_KEY_OTHER && !r->wrapped);
    r->mode = read_has_role(r, ROLE_VALUE_OPEN) ? READ_VALUE_OPEN : READ_VALUE;
}

// The end tag of a key follows text between parameters: the opening tag is missing.
static void key_unopened(struct reply *r)
{
    while (r->key_bytes > 0 && read_blank((unsigned char)r->key[r->key_bytes - 1]))
        r->key_bytes--;
    struct text key = text_span(r->key, r->key_bytes);
    if (tool_has_parameter(r->schema, key) && !key_is_given(r, key)) {
        r->repaired = true;
        read_key_over(r, ROLE_KEY_CLOSE);
        return;
    }
    r->unread = true;
    r->key_bytes = 0;
}

void read_parameters_marker(struct reply *r, enum marker_role role)
{
    if (role == ROLE_KEY_CLOSE) {
        key_unopened(r);
        return;
    }
    r->unread |= r->key_bytes > 0;
    if (role == ROLE_KEY_OPEN) {
        r->held_count = r->from = 0;
        r->key_bytes = 0;
        r->mode = READ_KEY;
        return;
    }
    if (role == ROLE_CALL_OPEN && !r->levels[0].filled) // the opening tag is doubled
        r->unread = true;
    read_arguments(r, "}");
    read_call_end(r, true);
    read_marker_in_call(r, role);
}

// Reads a symbol between parameters. It may belong to a key without its opening tag; else the call
// is not complete.
static void parameters_other(struct reply *r, unsigned symbol, bool keys)
{
    if (read_blank(symbol) && r->key_bytes == 0)
        return;
    if (keys && symbol < READ_SPECIAL && r->key_bytes < sizeof r->key)
        r->key[r->key_bytes++] = (char)symbol;
    else
        r->unread |= !read_blank(symbol);
}

void read_parameters(struct reply *r, unsigned symbol)
{
    uint32_t roles = ROLE_BIT(ROLE_KEY_OPEN) | ROLE_BIT(ROLE_CALL_CLOSE) |
                     ROLE_BIT(ROLE_SECTION_CLOSE) | ROLE_BIT(ROLE_CALL_OPEN);
    bool keys = read_has_role(r, ROLE_VALUE_OPEN);
    if (keys)
        roles |= ROLE_BIT(ROLE_KEY_CLOSE);
    read_hold(r, symbol);
    while (r->held_count > 0) {
        int marker = read_try(r, roles);
        if (marker >= 0) {
            r->held_count = 0;
            read_parameters_marker(r, read_role(r, marker));
        }
        if (marker != TRY_NONE)
            return;
        unsigned first = r->held[0];
        read_drop(r, 1);
        parameters_other(r, first, keys);
    }
}

void read_key(struct reply *r, unsigned symbol)
{
    read_hold(r, symbol);
    while (r->held_count > 0) {
        int marker = read_try(r, ROLE_BIT(ROLE_KEY_CLOSE) | ROLE_BIT(ROLE_KEY_STRING) |
                                     ROLE_BIT(ROLE_KEY_OTHER));
        if (marker >= 0) {
            r->held_count = 0;
            read_key_over(r, read_role(r, marker));
        }
        if (marker != TRY_NONE)
            return;
        unsigned first = r->held[0];
        read_drop(r, 1);
        if (r->key_bytes == sizeof r->key) {
            read_key_too_long(r, first);
            return;
        }
        if ((first & READ_SPECIAL) == 0)
            r->key[r->key_bytes++] = (char)first;
        else
            r->unread = true;
    }
}

void read_key_too_long(struct reply *r, unsigned symbol)
{
    read_put(r, REPLY_ARGUMENTS, r->key, r->key_bytes);
    read_broken(r, symbol);
}

// Without its opening tag, the value begins with the first character that is not blank.
void read_value_open(struct reply *r, unsigned symbol)
{
    read_hold(r, symbol);
    read_skip_blanks(r);
    bool blank = r->from == r->held_count;
    int marker =
        blank ? TRY_PART : read_try(r, ROLE_BIT(ROLE_VALUE_OPEN) | ROLE_BIT(ROLE_KEY_CLOSE));
    if (marker == TRY_PART && r->from <= READ_BLANKS_MAX)
        return;
    r->mode = READ_VALUE;
    if (marker < 0) {
        r->repaired = true;
        read_again(r, r->from);
        return;
    }
    r->held_count = r->from = 0;
    if (read_role(r, marker) == ROLE_KEY_CLOSE) {
        r->unread = true;
        r->mode = READ_VALUE_OPEN;
    }
}

// --- values ---

void read_value_begin(struct reply *r, unsigned types, bool forced)
{
    struct read_value *v = &r->value;
    v->types = types;
    v->forced = forced;
    v->decided = types == SCHEMA_STRING && !forced;
    v->raw = v->begun = v->bad = v->over = v->streams = v->filled = v->doubt = false;
    v->tag_text = 0;
    v->held.bytes = v->first = v->end = 0;
    json_scan_begin(&v->scan);
    if (v->decided)
        read_argument(r, '"');
}

static bool may_be_string(const struct read_value *v)
{
    return v->types == 0 || (v->types & SCHEMA_STRING) != 0;
}

// The value does not contain all arguments.
static void value_unwrap(struct reply *r)
{
    if (!r->wrapped)
        return;
    r->wrapped = false;
    key_remember(r, text_span(r->key, r->key_bytes));
    key_put(r);
}

static void value_decide(struct reply *r)
{
    struct read_value *v = &r->value;
    value_unwrap(r);
    v->decided = true;
    read_argument(r, '"');
    for (size_t i = 0; i < v->held.bytes; i++)
        read_argument_escaped(r, v->held.at[i]);
}

// Returns the held bytes without surrounding blanks.
static struct text value_text(const struct read_value *v)
{
    return text_span(v->end > 0 ? v->held.at + v->first : "", v->end - v->first);
}

// Returns the JSON word for Python's word with which the held bytes begin, if the schema allows its
// type, else NULL; *whole: the word is complete.
static const char *python_word(const struct read_value *v, bool *whole)
{
    static const struct {
        const char *word, *json;
        unsigned type;
    } rows[] = {{"True", "true", SCHEMA_BOOLEAN},
                {"False", "false", SCHEMA_BOOLEAN},
                {"None", "null", SCHEMA_NULL}};
    struct text text = value_text(v);
    bool ended = v->held.bytes > v->end;
    *whole = false;
    for (size_t i = 0; i < sizeof rows / sizeof *rows && text.bytes > 0; i++) {
        size_t bytes = strlen(rows[i].word);
        if ((v->types & rows[i].type) == 0 || text.bytes > bytes || (ended && text.bytes < bytes) ||
            memcmp(text.at, rows[i].word, text.bytes) != 0)
            continue;
        *whole = text.bytes == bytes;
        return rows[i].json;
    }
    return NULL;
}

// Returns true if the value may be written as a Python literal: some templates write objects and
// arrays so.
static bool may_be_python(const struct read_value *v)
{
    struct text text = value_text(v);
    return (v->types & SCHEMA_STRING) == 0 && (v->types & (SCHEMA_OBJECT | SCHEMA_ARRAY)) != 0 &&
           text.bytes > 0 && (text.at[0] == '{' || text.at[0] == '[');
}

// Reads a byte of a value that is certainly JSON; drops blanks after it.
static void value_stream(struct reply *r, unsigned symbol)
{
    struct read_value *v = &r->value;
    char byte = (char)symbol;
    bool blank = read_blank((unsigned char)byte), open = !v->over;
    if (v->over) {
        v->bad = !blank;
    } else {
        enum json_scan_step step = json_scan_byte(&v->scan, byte);
        v->over = step == JSON_SCAN_DONE || step == JSON_SCAN_BEFORE;
        v->bad = step == JSON_SCAN_BAD || (step == JSON_SCAN_BEFORE && !blank);
        open = step != JSON_SCAN_BEFORE;
    }
    if (v->bad) // a marker may begin with it
        read_broken(r, symbol);
    else if (open)
        read_argument(r, byte);
}

static unsigned type_of(char first)
{
    switch (first) {
    case '"':
        return SCHEMA_STRING;
    case '{':
        return SCHEMA_OBJECT;
    case '[':
        return SCHEMA_ARRAY;
    case 't':
    case 'f':
        return SCHEMA_BOOLEAN;
    case 'n':
        return SCHEMA_NULL;
    default:
        return SCHEMA_NUMBER;
    }
}

// Returns true if JSON that begins like this is a value of its type, not the text of a string.
static bool type_is_json(const struct read_value *v, unsigned type)
{
    if (v->forced || v->types == 0 || (v->types & SCHEMA_STRING) == 0)
        return true;
    return type != SCHEMA_STRING && (v->types & type) != 0;
}

// Emits the held bytes: as JSON, if they are JSON so far and would be a value at their end, else as
// the beginning of a string.
static void value_so_far(struct reply *r)
{
    struct read_value *v = &r->value;
    struct text text = value_text(v);
    value_unwrap(r);
    if (text.bytes == 0 || !type_is_json(v, type_of(text.at[0]))) {
        value_decide(r);
        return;
    }
    read_put(r, REPLY_ARGUMENTS, text.at, text.bytes + (v->over ? 0 : v->held.bytes - v->end));
    v->held.bytes = 0;
    v->streams = true;
}

// Called if too much is held. A Python literal is copied unchanged.
static void value_too_long(struct reply *r)
{
    value_so_far(r);
    if (!r->value.streams || !r->value.bad)
        return;
    r->mode = READ_BROKEN;
    read_again(r, 0);
}

void read_value_put(struct reply *r, unsigned symbol)
{
    struct read_value *v = &r->value;
    bool whole;
    v->begun = v->filled = true;
    if ((symbol & READ_SPECIAL) != 0 && !r->args.keep_special)
        return;
    if (v->decided) {
        read_argument_escaped(r, (char)symbol);
        return;
    }
    if (v->streams) {
        value_stream(r, symbol);
        return;
    }
    char byte = (char)symbol;
    json_put_raw(&v->held, text_span(&byte, 1));
    if (!read_blank(symbol & 0xFF)) {
        v->first = v->end > 0 ? v->first : v->held.bytes - 1;
        v->end = v->held.bytes;
    }
    if (v->over) {
        v->bad |= !read_blank(symbol & 0xFF);
    } else {
        enum json_scan_step step = json_scan_byte(&v->scan, byte);
        v->over = step == JSON_SCAN_DONE || step == JSON_SCAN_BEFORE;
        v->bad |= step == JSON_SCAN_BAD || (step == JSON_SCAN_BEFORE && !read_blank(symbol & 0xFF));
    }
    if (v->bad && !python_word(v, &whole) && !may_be_python(v))
        value_decide(r);
    else if (v->held.bytes > REPLY_HELD_MAX)
        value_too_long(r);
}

static bool value_is_json(const struct read_value *v)
{
    if (v->bad || (!v->over && !json_scan_number_ends(&v->scan)))
        return false;
    return type_is_json(v, type_of(value_text(v).at[0]));
}

// Returns true if all keys of the object are parameters of the tool.
static bool keys_are_parameters(const struct reply *r, json_t *object)
{
    json_t *names = tool_names(r->schema);
    bool all = true;
    for (void *at = json_object_iter(object); at && all; at = json_object_iter_next(object, at))
        all = json_object_getn(names, json_object_iter_key(at), json_object_iter_key_len(at));
    json_decref(names);
    return all;
}

// Emits the members of the value as the arguments if it is an object of parameters of the tool.
// Returns false if it is not.
static bool value_spread(struct reply *r)
{
    struct text text = value_text(&r->value);
    struct error err;
    json_t *object = NULL;
    if (!r->wrapped || !value_is_json(&r->value) || text.at[0] != '{')
        return false;
    bool fits = json_parse(&object, text, &err) == STATUS_OK && keys_are_parameters(r, object);
    if (fits) {
        for (void *at = json_object_iter(object); at; at = json_object_iter_next(object, at))
            key_remember(r, text_span(json_object_iter_key(at), json_object_iter_key_len(at)));
        read_put(r, REPLY_ARGUMENTS, text.at + 1, text.bytes - 2);
        r->levels[0].filled = json_object_size(object) > 0;
        r->repaired = true;
    }
    json_decref(object);
    return fits;
}

void read_value_close(struct reply *r)
{
    struct read_value *v = &r->value;
    bool whole = false;
    if (value_spread(r)) {
        r->wrapped = false;
        v->decided = true;
        return;
    }
    value_unwrap(r);
    const char *word = v->decided || v->streams ? NULL : python_word(v, &whole);
    bool json = v->streams || whole;
    if (v->decided) {
        read_argument(r, '"');
    } else if (v->streams) {
        if (!v->over && !json_scan_number_ends(&v->scan))
            r->mode = READ_BROKEN;
    } else if (whole) {
        read_arguments(r, word);
    } else if (value_is_json(v)) {
        struct text text = value_text(v);
        read_put(r, REPLY_ARGUMENTS, text.at, text.bytes);
        json = true;
    } else if (may_be_python(v) &&
               read_literal_value(r, text_span(v->held.at, v->held.bytes), true)) {
        json = true;
    } else {
        value_decide(r);
        read_argument(r, '"');
    }
    r->unread |= v->doubt && !json;
    v->decided = true;
}

// Emits the held bytes if the value cannot be a string. The beginning of a mark does not belong to
// it.
void read_value_cut(struct reply *r)
{
    struct read_value *v = &r->value;
    struct text text = value_text(v);
    bool whole, string = may_be_string(v);
    if (v->decided || v->streams || r->wrapped || text.bytes == 0 || (string && !v->forced))
        return;
    const char *word = python_word(v, &whole);
    if (word)
        read_put(r, REPLY_ARGUMENTS, word, text.bytes);
    else if (v->bad)
        read_literal_value(r, text_span(v->held.at, v->held.bytes), false);
    else
        value_so_far(r);
}

// --- the end of a value ---
// A tag ends the value if a tag that may be next follows it, or if it is the call's end and the
// answer ends. Until this is known, the tags are held.

// The held tag belongs to the value. A call with such a value is not complete if the tag would end
// a value here, because another tag may be missing or doubled.
static void value_tag_is_text(struct reply *r)
{
    struct read_value *v = &r->value;
    v->doubt |= !v->filled || (v->tag != ROLE_KEY_OPEN && v->tag != ROLE_CALL_CLOSE);
    v->tag_text = v->tag_end;
    r->mode = READ_VALUE;
    read_again(r, 0);
}

static void value_ended(struct reply *r)
{
    struct read_value *v = &r->value;
    bool own = v->tag == ROLE_VALUE_CLOSE || v->tag == ROLE_RAW_CLOSE;
    r->unread |= !own && !v->filled;
    r->repaired |= !own;
    v->doubt |= v->tag == ROLE_KEY_OPEN; // a string may contain the tag of another parameter
    r->mode = READ_PARAMETERS;
    read_value_close(r);
    r->key_bytes = 0;
    read_again(r, own ? v->tag_end : v->line);
}

static uint32_t next_roles(const struct read_value *v)
{
    switch (v->last_tag) {
    case ROLE_KEY_OPEN:
        return ROLE_BIT(ROLE_KEY_CLOSE) | ROLE_BIT(ROLE_KEY_STRING) | ROLE_BIT(ROLE_KEY_OTHER);
    case ROLE_CALL_CLOSE:
        return ROLE_BIT(ROLE_SECTION_CLOSE) | ROLE_BIT(ROLE_CALL_OPEN) |
               ROLE_BIT(ROLE_SECTION_OPEN);
    case ROLE_SECTION_CLOSE:
        return ROLE_BIT(ROLE_CALL_OPEN) | ROLE_BIT(ROLE_SECTION_OPEN);
    default:
        return ROLE_BIT(ROLE_KEY_OPEN) | ROLE_BIT(ROLE_CALL_CLOSE) | ROLE_BIT(ROLE_SECTION_CLOSE) |
               ROLE_BIT(ROLE_CALL_OPEN) | ROLE_BIT(ROLE_SECTION_OPEN);
    }
}

// Returns true if the held key is that of a parameter that the tool has and the call does not yet.
static bool next_key_fits(const struct reply *r)
{
    const struct read_value *v = &r->value;
    char key[END_HELD_MAX];
    size_t bytes = 0;
    for (size_t i = v->tag_end; i < r->from; i++)
        key[bytes++] = (char)r->held[i];
    struct text text = text_span(key, bytes);
    return tool_has_parameter(r->schema, text) && !key_is_given(r, text);
}

static int next_try(struct reply *r)
{
    const struct read_value *v = &r->value;
    int marker = TRY_NONE;
    if (v->last_tag != ROLE_KEY_OPEN)
        read_skip_blanks(r);
    while (r->from < r->held_count && r->held_count <= END_HELD_MAX) {
        marker = read_try(r, next_roles(v));
        if (marker != TRY_NONE || v->last_tag != ROLE_KEY_OPEN || read_blank(r->held[r->from]))
            return marker;
        r->from++;
    }
    return r->held_count <= END_HELD_MAX ? TRY_PART : TRY_NONE;
}

// Returns true if the call ends with the held tags if nothing follows them.
static bool call_is_over(const struct read_value *v)
{
    return v->last_tag == ROLE_CALL_CLOSE || v->last_tag == ROLE_SECTION_CLOSE;
}

void read_value_end(struct reply *r, unsigned symbol)
{
    struct read_value *v = &r->value;
    read_hold(r, symbol);
    int marker = next_try(r);
    if (marker == TRY_PART)
        return;
    enum marker_role role = marker >= 0 ? read_role(r, marker) : ROLE_NONE;
    if (role == ROLE_SECTION_CLOSE && v->tag == ROLE_CALL_CLOSE) {
        v->last_tag = (uint8_t)role;
        r->from = r->held_count;
        return;
    }
    bool ends = marker >= 0 ? v->tag != ROLE_KEY_OPEN || next_key_fits(r)
                            : r->ending && (symbol & READ_SPECIAL) != 0 && call_is_over(v);
    if (ends)
        value_ended(r);
    else
        value_tag_is_text(r);
}

void read_value_end_cut(struct reply *r)
{
    const struct read_value *v = &r->value;
    read_skip_blanks(r);
    if (r->from == r->held_count && call_is_over(v))
        value_ended(r);
}

// Compares the held symbols with the tags that can end the value. Its own end tag may be missing;
// then the next parameter or the end of the call follows, after at most one line end, and r->from
// is the number of these.
static int value_try(struct reply *r)
{
    struct read_value *v = &r->value;
    uint32_t own = ROLE_BIT(v->raw ? ROLE_RAW_CLOSE : ROLE_VALUE_CLOSE);
    uint32_t others = ROLE_BIT(ROLE_KEY_OPEN) | ROLE_BIT(ROLE_CALL_CLOSE);
    r->from = 0;
    int marker = read_try(r, own | (v->begun ? 0 : ROLE_BIT(ROLE_RAW_OPEN)));
    if (marker >= 0 || v->raw)
        return marker;
    if (!v->filled)
        others |= ROLE_BIT(ROLE_VALUE_OPEN);
    r->from = r->held[0] == '\n';
    int other = r->from == r->held_count ? TRY_PART : read_try(r, others);
    if (other < 0)
        r->from = 0;
    return other >= 0 || marker == TRY_NONE ? other : marker;
}

// Returns true inside of a string of a value that is JSON, which says where it ends.
static bool in_json_string(const struct read_value *v)
{
    bool json = v->streams || v->forced || !may_be_string(v);
    return json && !v->decided && !v->bad && !v->over && json_scan_in_string(&v->scan);
}

static void value_marker(struct reply *r, enum marker_role role)
{
    struct read_value *v = &r->value;
    if (role == ROLE_RAW_OPEN) {
        r->held_count = 0;
        v->raw = v->begun = true;
        if (!v->decided && may_be_string(v))
            value_decide(r);
        return;
    }
    v->tag = v->last_tag = (uint8_t)role;
    v->line = (uint8_t)r->from;
    v->tag_end = (uint8_t)r->held_count;
    r->from = r->held_count;
    r->mode = READ_VALUE_END;
    if (role == ROLE_VALUE_OPEN)
        value_tag_is_text(r);
}

void read_value(struct reply *r, unsigned symbol)
{
    struct read_value *v = &r->value;
    if (v->tag_text > 0) {
        v->tag_text--;
        read_value_put(r, symbol);
        return;
    }
    if (!v->begun && (r->row->flags & ROW_LINE_VALUES) != 0 && symbol == '\n' &&
        r->held_count == 0) {
        v->begun = true;
        return;
    }
    if (r->held_count == 0 && !r->first_of[symbol & 0xFF] && symbol != '\n') {
        read_value_put(r, symbol);
        return;
    }
    read_hold(r, symbol);
    while (r->mode == READ_VALUE && r->held_count > 0) {
        int marker = value_try(r);
        if (marker == TRY_PART)
            return;
        if (marker == TRY_NONE || in_json_string(v)) {
            unsigned first = r->held[0];
            read_drop(r, 1);
            read_value_put(r, first);
        } else {
            value_marker(r, read_role(r, marker));
        }
    }
}
