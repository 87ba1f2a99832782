// Reply reader: arguments as one element per parameter, converted to JSON while they arrive; see
// read.h. A value is a string or JSON, according to the tool's schema; if the schema is no help, it
// is JSON if possible.
#include "runtime/text/dialect/read.h"

void read_parameters_begin(struct reply *r)
{
    r->mode = READ_PARAMETERS;
    r->held_count = r->from = 0;
    r->levels[0] = (struct read_level){.kind = '{', .schema = r->schema};
    read_arguments(r, "{");
}

void read_parameters_marker(struct reply *r, enum marker_role role)
{
    if (role == ROLE_KEY_OPEN) {
        r->held_count = r->from = 0;
        r->key_bytes = 0;
        r->mode = READ_KEY;
        return;
    }
    read_arguments(r, "}");
    read_call_end(r, true);
    read_marker_in_call(r, role);
}

// Reads up to a marker of these roles and skips everything else. Returns the result of read_try.
static int next_marker(struct reply *r, unsigned symbol, uint32_t roles)
{
    read_hold(r, symbol);
    while (r->held_count > 0) {
        int marker = read_try(r, roles);
        if (marker >= 0)
            r->held_count = 0;
        if (marker != TRY_NONE)
            return marker;
        read_drop(r, 1);
    }
    return TRY_NONE;
}

void read_parameters(struct reply *r, unsigned symbol)
{
    int marker = next_marker(r, symbol,
                             ROLE_BIT(ROLE_KEY_OPEN) | ROLE_BIT(ROLE_CALL_CLOSE) |
                                 ROLE_BIT(ROLE_SECTION_CLOSE) | ROLE_BIT(ROLE_CALL_OPEN));
    if (marker >= 0)
        read_parameters_marker(r, read_role(r, marker));
}

static void key_over(struct reply *r, enum marker_role role)
{
    struct text key = text_span(r->key, r->key_bytes);
    read_arguments(r, r->levels[0].filled ? ",\"" : "\"");
    for (size_t i = 0; i < key.bytes; i++)
        read_argument_escaped(r, key.at[i]);
    read_arguments(r, "\":");
    r->levels[0].filled = true;
    unsigned work, types = tool_parameter(r->schema, key, &work);
    if (role == ROLE_KEY_STRING)
        types = SCHEMA_STRING;
    bool opens = false;
    for (uint32_t i = 0; i < r->args.dialect->marker_count; i++)
        opens |= r->args.dialect->markers[i].role == ROLE_VALUE_OPEN;
    read_value_begin(r, types, role == ROLE_KEY_OTHER);
    r->mode = opens ? READ_VALUE_OPEN : READ_VALUE;
}

void read_key(struct reply *r, unsigned symbol)
{
    read_hold(r, symbol);
    while (r->held_count > 0) {
        int marker = read_try(r, ROLE_BIT(ROLE_KEY_CLOSE) | ROLE_BIT(ROLE_KEY_STRING) |
                                     ROLE_BIT(ROLE_KEY_OTHER));
        if (marker >= 0) {
            r->held_count = 0;
            key_over(r, read_role(r, marker));
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
    }
}

void read_key_too_long(struct reply *r, unsigned symbol)
{
    read_put(r, REPLY_ARGUMENTS, r->key, r->key_bytes);
    read_broken(r, symbol);
}

void read_value_open(struct reply *r, unsigned symbol)
{
    if (next_marker(r, symbol, ROLE_BIT(ROLE_VALUE_OPEN)) >= 0)
        r->mode = READ_VALUE;
}

// --- values ---

void read_value_begin(struct reply *r, unsigned types, bool forced)
{
    struct read_value *v = &r->value;
    v->types = types;
    v->forced = forced;
    v->decided = types == SCHEMA_STRING && !forced;
    v->raw = v->begun = v->bad = v->over = v->streams = false;
    v->held.bytes = v->first = v->end = 0;
    json_scan_begin(&v->scan);
    if (v->decided)
        read_argument(r, '"');
}

static bool may_be_string(const struct read_value *v)
{
    return v->types == 0 || (v->types & SCHEMA_STRING) != 0;
}

static void value_decide(struct reply *r)
{
    struct read_value *v = &r->value;
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
    v->begun = true;
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

void read_value_close(struct reply *r)
{
    struct read_value *v = &r->value;
    bool whole = false;
    const char *word = v->decided || v->streams ? NULL : python_word(v, &whole);
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
    } else if (!may_be_python(v) ||
               !read_literal_value(r, text_span(v->held.at, v->held.bytes), true)) {
        value_decide(r);
        read_argument(r, '"');
    }
    v->decided = true;
}

// Emits the held bytes if the value cannot be a string. The beginning of a mark does not belong to
// it.
void read_value_cut(struct reply *r)
{
    struct read_value *v = &r->value;
    struct text text = value_text(v);
    bool whole, string = may_be_string(v);
    if (v->decided || v->streams || text.bytes == 0 || (string && !v->forced))
        return;
    const char *word = python_word(v, &whole);
    if (word)
        read_put(r, REPLY_ARGUMENTS, word, text.bytes);
    else if (v->bad)
        read_literal_value(r, text_span(v->held.at, v->held.bytes), false);
    else
        value_so_far(r);
}

void read_value(struct reply *r, unsigned symbol)
{
    struct read_value *v = &r->value;
    if (!v->begun && (r->row->flags & ROW_LINE_VALUES) != 0 && symbol == '\n' &&
        r->held_count == 0) {
        v->begun = true;
        return;
    }
    if (r->held_count == 0 && !r->first_of[symbol & 0xFF]) {
        read_value_put(r, symbol);
        return;
    }
    read_hold(r, symbol);
    while (r->mode == READ_VALUE && r->held_count > 0) {
        uint32_t roles = ROLE_BIT(v->raw ? ROLE_RAW_CLOSE : ROLE_VALUE_CLOSE);
        int marker = read_try(r, roles | (v->begun ? 0 : ROLE_BIT(ROLE_RAW_OPEN)));
        if (marker == TRY_PART)
            return;
        if (marker == TRY_NONE) {
            unsigned first = r->held[0];
            read_drop(r, 1);
            read_value_put(r, first);
            continue;
        }
        r->held_count = 0;
        if (read_role(r, marker) == ROLE_RAW_OPEN) {
            v->raw = v->begun = true;
            if (!v->decided && may_be_string(v))
                value_decide(r);
        } else {
            r->mode = READ_PARAMETERS;
            read_value_close(r);
        }
    }
}
