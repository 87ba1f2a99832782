// SPDX-License-Identifier: Apache-2.0
// Reply reader: the head of a call (id and name) up to its arguments, and arguments that are JSON;
// see read.h.
#include "runtime/text/dialect/read.h"

enum { WORDS_MAX = 64 }; // maximum number of symbols between a name and the end of its head

static bool name_character(unsigned symbol)
{
    return (symbol >= '0' && symbol <= '9') || ((symbol | 0x20) >= 'a' && (symbol | 0x20) <= 'z') ||
           (symbol != 0 && symbol < 0x80 && strchr("_-.:/", (char)symbol));
}

void read_name_begin(struct reply *r)
{
    r->mode = READ_NAME;
    r->name_bytes = r->id_bytes = r->words = 0;
    r->in_id = read_has_role(r, ROLE_NAME_OPEN);
    r->name_over = false;
}

static void name_drop_end(struct reply *r, const char *end)
{
    size_t bytes = strlen(end);
    if (r->name_bytes > bytes && memcmp(r->name + r->name_bytes - bytes, end, bytes) == 0)
        r->name_bytes = (uint8_t)(r->name_bytes - bytes);
}

// The name that was read, "functions.NAME:INDEX", is the id of the call: copies it to r->id and
// leaves only NAME in r->name. Without the prefix or the index, nothing is cut there.
static void name_from_id(struct reply *r)
{
    static const char prefix[] = "functions.";
    memcpy(r->id, r->name, r->name_bytes);
    r->id_bytes = r->name_bytes;
    size_t skip = sizeof prefix - 1, end = r->name_bytes;
    if (end <= skip || memcmp(r->name, prefix, skip) != 0)
        skip = 0;
    while (end > skip && r->name[end - 1] >= '0' && r->name[end - 1] <= '9')
        end--;
    bool indexed = end > skip && end < r->name_bytes && r->name[end - 1] == ':';
    end = indexed ? end - 1 : r->name_bytes;
    r->name_bytes = (uint8_t)(end - skip);
    memmove(r->name, r->name + skip, r->name_bytes);
}

static bool name_append(struct reply *r, unsigned symbol)
{
    uint8_t *bytes = r->in_id ? &r->id_bytes : &r->name_bytes;
    if (*bytes == REPLY_NAME_MAX)
        return false;
    (r->in_id ? r->id : r->name)[(*bytes)++] = (char)symbol;
    return true;
}

// Called when the name is complete and the arguments begin.
static void name_closed(struct reply *r)
{
    if ((r->row->flags & ROW_NAME_ALL) != 0 && text_is(text_span(r->name, r->name_bytes), "all")) {
        read_text_mode(r);
    } else if (r->form == FORM_NAMED) {
        r->from = r->held_count;
        r->mode = READ_BODY;
    } else if (read_commit(r)) {
        if (r->form == FORM_ELEMENTS)
            read_elements_begin(r);
        else
            read_parameters_begin(r);
    }
}

static void name_marker(struct reply *r, enum marker_role role, unsigned first)
{
    r->from = r->held_count;
    if (role == ROLE_ID_OPEN || role == ROLE_NAME_OPEN) {
        r->in_id = role == ROLE_ID_OPEN;
    } else if (r->name_bytes == 0) {
        if (!read_blank(first))
            read_head_failed(r);
    } else if (role == ROLE_NAME_CLOSE) {
        name_closed(r);
    } else if (role == ROLE_KEY_CLOSE || role == ROLE_VALUE_CLOSE) {
        read_name_joined(r, role);
    } else if (read_commit(r)) { // the line end after the name is missing
        read_parameters_begin(r);
        read_parameters_marker(r, role);
    }
}

// Handles a character that may begin the arguments. Returns false if it does not.
static bool name_ended_by(struct reply *r, unsigned symbol)
{
    bool open = symbol == '{' || symbol == '[';
    if (r->name_bytes == 0) {
        bool listed = r->form == FORM_PYTHON && symbol == '{' && !r->args.has_text_grammar;
        bool bare = r->object.bare;
        if (!listed && (!open || (r->row->flags & ROW_OBJECT_TOO) == 0))
            return false;
        read_object_begin(r);
        r->object.bare = bare;
        read_object_held(r);
        return true;
    }
    bool python = r->form == FORM_PYTHON && symbol == '(';
    bool keys = r->form == FORM_BARE_KEYS && symbol == '{';
    bool json = (r->row->flags & ROW_BRACE_ENDS) != 0 && symbol == '{';
    if (!python && !keys && !json)
        return false;
    if (python && !r->listed)
        name_drop_end(r, ".call");
    if (!read_commit(r))
        return true;
    if (json)
        read_json_begin(r, '{');
    else
        read_literal_begin(r, (char)symbol);
    return true;
}

// Adds a symbol to the name or id. Returns false if it is not allowed in the head of a call.
static bool name_symbol_read(struct reply *r, unsigned symbol)
{
    if (r->form == FORM_PYTHON && symbol == '[' && r->name_bytes == 0 && !r->listed)
        return r->listed = true;
    if (read_blank(symbol)) {
        r->name_over = r->name_bytes > 0;
        return true;
    }
    if (r->in_id)
        return symbol > ' ' && symbol < READ_SPECIAL && name_append(r, symbol);
    if (name_character(symbol) && !r->name_over)
        return name_append(r, symbol);
    r->name_over = true;
    return (r->row->flags & ROW_WORDS_AFTER) != 0 && r->name_bytes > 0 && ++r->words < WORDS_MAX;
}

void read_name_symbols(struct reply *r)
{
    uint32_t roles = ROLE_BIT(ROLE_NAME_CLOSE) | ROLE_BIT(ROLE_ID_OPEN) | ROLE_BIT(ROLE_NAME_OPEN);
    if (r->form == FORM_PARAMETERS)
        roles |= ROLE_BIT(ROLE_KEY_OPEN) | ROLE_BIT(ROLE_CALL_CLOSE);
    if (r->form == FORM_PARAMETERS && read_has_role(r, ROLE_VALUE_OPEN))
        roles |= ROLE_BIT(ROLE_KEY_CLOSE) | ROLE_BIT(ROLE_VALUE_CLOSE);
    while (r->mode == READ_NAME && r->from < r->held_count) {
        int marker = read_try(r, roles);
        if (marker == TRY_PART)
            return;
        unsigned first = r->held[r->from];
        if (marker >= 0) {
            name_marker(r, read_role(r, marker), first);
        } else if (name_ended_by(r, first)) {
            return;
        } else if (!name_symbol_read(r, first)) {
            read_head_failed(r);
            return;
        } else {
            r->from++;
        }
    }
}

void read_name(struct reply *r, unsigned symbol)
{
    if (read_hold(r, symbol))
        read_name_symbols(r);
}

void read_body(struct reply *r, unsigned symbol)
{
    if (!read_hold(r, symbol))
        return;
    read_skip_blanks(r);
    if (r->from == r->held_count)
        return;
    if ((r->row->flags & ROW_NAME_IS_ID) != 0 && r->id_bytes == 0)
        name_from_id(r);
    if (r->held[r->from] == '{') {
        if (read_commit(r))
            read_json_begin(r, '{');
        return;
    }
    int marker = read_try(r, ROLE_BIT(ROLE_CALL_CLOSE));
    if (marker >= 0 && read_commit(r)) { // a call without arguments
        read_arguments(r, "{}");
        read_call_end(r, true);
    } else if (marker == TRY_NONE) {
        read_head_failed(r);
    }
}

// --- arguments as JSON ---

static void json_over(struct reply *r)
{
    read_call_end(r, true);
    if (r->object.active) {
        r->mode = READ_OBJECT;
        r->object.tail = true;
    }
}

// Returns true if a marker may begin with a byte that breaks the arguments. Arguments that precede
// the name are a complete string, which contains no markers.
static bool may_begin_mark(const struct reply *r)
{
    return !(r->object.active && r->object.has_arguments);
}

// Reads one byte of the arguments. own: true if the byte is the symbol itself, not a decoded
// escape.
static void json_byte(struct reply *r, unsigned symbol, bool own)
{
    enum json_scan_step step = JSON_SCAN_BAD;
    char byte = (char)symbol;
    // blanks around the object inside of its string
    if (r->scan.depth == 0 && read_blank((unsigned char)byte))
        return;
    if (r->scan.depth > 0 || byte == '{')
        step = json_scan_byte(&r->scan, byte);
    if (step == JSON_SCAN_BAD && own && may_begin_mark(r)) {
        read_broken(r, symbol);
        return;
    }
    read_argument(r, byte);
    r->json_over |= step == JSON_SCAN_DONE;
    if (step == JSON_SCAN_BAD)
        r->mode = READ_BROKEN;
    else if (r->json_over && !r->encoded)
        json_over(r);
}

static void json_encoded(struct reply *r, char byte)
{
    char out[8];
    uint32_t bytes;
    bool escaped = r->unescape.state != 0;
    enum json_unescape_step step = json_unescape_byte(&r->unescape, byte, out, &bytes);
    for (uint32_t i = 0; i < bytes; i++)
        if (r->mode == READ_JSON)
            json_byte(r, (unsigned char)out[i], !escaped && i + 1 == bytes);
        else // the rest of a decoded character
            read_argument(r, out[i]);
    if (step == JSON_UNESCAPE_END && r->mode == READ_JSON && r->json_over)
        json_over(r);
    else if (step != JSON_UNESCAPE_MORE)
        r->mode = READ_BROKEN;
    if (step == JSON_UNESCAPE_BAD) // not possible in a string that precedes the name
        read_broken(r, (unsigned char)byte);
    else if (r->mode == READ_BROKEN)
        read_again(r, 0);
}

static void json_symbol(struct reply *r, unsigned symbol)
{
    if ((symbol & READ_SPECIAL) != 0 && !r->args.keep_special)
        return;
    if (r->encoded)
        json_encoded(r, (char)symbol);
    else
        json_byte(r, symbol, true);
}

void read_json_begin(struct reply *r, char first)
{
    r->mode = READ_JSON;
    r->held_count = r->from = 0;
    r->json_over = false;
    r->encoded = first == '"';
    r->unescape = (struct json_unescape){0};
    json_scan_begin(&r->scan);
    if (!r->encoded)
        json_byte(r, (unsigned char)first, true);
}

// Only special tokens can begin a marker here: other text may belong to a string.
void read_json(struct reply *r, unsigned symbol)
{
    if (r->held_count == 0 && (symbol & READ_SPECIAL) == 0) {
        json_symbol(r, symbol);
        return;
    }
    read_hold(r, symbol);
    while (r->mode == READ_JSON && r->held_count > 0) {
        int marker = read_try(r, ROLE_BIT(ROLE_CALL_CLOSE) | ROLE_BIT(ROLE_SECTION_CLOSE) |
                                     ROLE_BIT(ROLE_CALL_OPEN) | ROLE_BIT(ROLE_SECTION_OPEN));
        if (marker >= 0) {
            read_call_end(r, false);
            read_marker_in_call(r, read_role(r, marker));
        }
        if (marker != TRY_NONE)
            return;
        unsigned first = r->held[0];
        read_drop(r, 1);
        json_symbol(r, first);
    }
}
