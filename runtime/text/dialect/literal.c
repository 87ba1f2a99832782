// SPDX-License-Identifier: Apache-2.0
// Reply reader: arguments as literals that are not JSON, converted to JSON while they arrive:
// Python's key=value list, and objects with bare keys; see read.h.
#include "runtime/text/dialect/read.h"

#include "base/utf8.h"

enum {
    LITERAL_KEY, // key, or the end
    LITERAL_BARE_KEY,
    LITERAL_COLON, // : or =
    LITERAL_STAR,  // the second * before a dict that holds the arguments
    LITERAL_STARS, // that dict
    LITERAL_VALUE,
    LITERAL_FIRST, // value, or the end of a list
    LITERAL_AFTER, // , or the end
    LITERAL_WORD,  // true, None and the like
    LITERAL_NUMBER,
    LITERAL_BARE_STRING, // a string without quote marks
    LITERAL_STRING,
    LITERAL_TRIPLE, // after the first quote marks of the three that end a string
    LITERAL_ESCAPE,
    LITERAL_HEX,
    LITERAL_QUOTE, // after a quote mark and blanks: it ends the string if the next symbol fits
};

enum { MARK = 0x200 }; // symbol of the dialect's quote mark
enum { TUPLE = 't' };  // kind of a level

static struct read_level *level_of(struct reply *r)
{
    return &r->levels[r->depth - 1];
}

static bool is_python(const struct reply *r)
{
    return r->form == FORM_PYTHON;
}

void read_literal_begin(struct reply *r, char open)
{
    r->mode = READ_LITERAL;
    r->held_count = r->from = 0;
    r->literal = LITERAL_KEY;
    r->depth = 1;
    r->levels[0] = (struct read_level){.kind = open};
    r->string_key = r->stars = r->bare = false;
    r->word_bytes = 0;
    read_arguments(r, "{");
}

static char level_closer(const struct read_level *level)
{
    return level->kind == '(' || level->kind == TUPLE ? ')' : level->kind == '[' ? ']' : '}';
}

static bool is_list(const struct read_level *level)
{
    return level->kind == '[' || level->kind == TUPLE;
}

static bool container_close(struct reply *r)
{
    struct read_level *level = level_of(r);
    r->literal = LITERAL_AFTER;
    if (r->depth == 1 && r->stars) {
        r->stars = false;
        level->kind = '(';
        return true;
    }
    if (level->kind == TUPLE && level->filled && !level->more)
        r->unread = true; // in Python, (1) is a number
    read_argument(r, is_list(level) ? ']' : '}');
    if (--r->depth == 0)
        read_call_end(r, true);
    return true;
}

static void member_begin(struct reply *r)
{
    if (level_of(r)->filled)
        read_argument(r, ',');
    level_of(r)->filled = true;
}

static bool string_begin(struct reply *r, unsigned symbol, bool key)
{
    if (key || is_list(level_of(r)))
        member_begin(r);
    r->quote = (uint16_t)symbol;
    r->string_key = key;
    r->literal = LITERAL_STRING;
    r->fresh = true;
    r->triple = false;
    read_argument(r, '"');
    return true;
}

static bool is_quote(unsigned symbol)
{
    return symbol == MARK || symbol == '"' || symbol == '\'';
}

static bool key_begin(struct reply *r, unsigned symbol)
{
    bool call = level_of(r)->kind == '(';
    if (symbol == (unsigned char)level_closer(level_of(r)))
        return container_close(r);
    if (!call && is_quote(symbol))
        return string_begin(r, symbol, true);
    if (call && symbol == '*' && !level_of(r)->filled && r->depth == 1) {
        r->literal = LITERAL_STAR;
        return true;
    }
    if ((is_python(r) && !call) || symbol >= READ_SPECIAL || strchr(",:=()[]{}\"'", (char)symbol))
        return false;
    member_begin(r);
    read_argument(r, '"');
    read_argument_escaped(r, (char)symbol);
    r->key[0] = (char)symbol;
    r->key_bytes = 1;
    r->literal = LITERAL_BARE_KEY;
    return true;
}

// A comma after a string without quote marks may belong to it: only a parameter of the tool
// certainly begins a key there.
static void bare_key_over(struct reply *r)
{
    struct text key = text_span(r->key, r->key_bytes);
    r->unread |= r->bare && (r->depth > 1 || !tool_has_parameter(r->schema, key));
    r->bare = false;
}

// Reads a bare key up to its : or =.
static bool bare_key(struct reply *r, unsigned symbol)
{
    if (symbol == '=' || (symbol == ':' && !is_python(r))) {
        bare_key_over(r);
        read_arguments(r, "\":");
        r->literal = LITERAL_VALUE;
        return true;
    }
    if (read_blank(symbol))
        return true;
    if (symbol >= READ_SPECIAL || strchr(",()[]{}\"'", (char)symbol))
        return false;
    if (r->key_bytes < sizeof r->key)
        r->key[r->key_bytes++] = (char)symbol;
    read_argument_escaped(r, (char)symbol);
    return true;
}

static bool literal_symbol(struct reply *r, unsigned symbol);
static bool literal_number(struct reply *r, unsigned symbol);

static bool value_begin(struct reply *r, unsigned symbol, bool first)
{
    if (first && symbol == (unsigned char)level_closer(level_of(r)))
        return container_close(r);
    bool list = is_list(level_of(r)), tuple = symbol == '(' && is_python(r);
    if (is_quote(symbol))
        return string_begin(r, symbol, false);
    if (symbol == '{' || symbol == '[' || tuple) {
        if (r->depth == READ_DEPTH_MAX)
            return false;
        if (list)
            member_begin(r);
        read_argument(r, tuple ? '[' : (char)symbol);
        r->levels[r->depth++] = (struct read_level){.kind = tuple ? TUPLE : (char)symbol};
        r->literal = symbol == '{' ? LITERAL_KEY : LITERAL_FIRST;
        return true;
    }
    if (list)
        member_begin(r);
    if (symbol == '-' || (symbol >= '0' && symbol <= '9')) {
        r->literal = LITERAL_NUMBER;
        json_scan_begin(&r->scan);
        return literal_number(r, symbol);
    }
    r->literal = LITERAL_WORD;
    r->word_bytes = symbol < 0x80 && symbol > ' ';
    r->word[0] = (char)symbol;
    return r->word_bytes > 0;
}

static bool literal_after(struct reply *r, unsigned symbol)
{
    if (symbol == (unsigned char)level_closer(level_of(r)))
        return container_close(r);
    r->literal = is_list(level_of(r)) ? LITERAL_FIRST : LITERAL_KEY;
    level_of(r)->more = true;
    return symbol == ',';
}

// Returns the JSON word for a word that begins like the one read; *whole: it is complete. NULL:
// none.
static const char *word_json(const struct reply *r, bool *whole)
{
    static const char *const words[][2] = {{"True", "true"}, {"False", "false"}, {"None", "null"},
                                           {"true", "true"}, {"false", "false"}, {"null", "null"}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t bytes = strlen(words[i][0]);
        *whole = r->word_bytes == bytes;
        if (r->word_bytes <= bytes && memcmp(words[i][0], r->word, r->word_bytes) == 0)
            return words[i][1];
    }
    return NULL;
}

static bool word_over(struct reply *r)
{
    bool whole;
    const char *json = word_json(r, &whole);
    if (!json || !whole)
        return false;
    read_arguments(r, json);
    r->word_bytes = 0;
    r->literal = LITERAL_AFTER;
    return true;
}

static bool of_a_word(unsigned symbol)
{
    return (symbol >= '0' && symbol <= '9') || ((symbol | 0x20) >= 'a' && (symbol | 0x20) <= 'z') ||
           symbol == '+' || symbol == '-' || symbol == '.' || symbol == '_';
}

// Numbers of any length are emitted while they are read.
static bool literal_number(struct reply *r, unsigned symbol)
{
    if (!of_a_word(symbol)) {
        r->literal = LITERAL_AFTER;
        return json_scan_number_ends(&r->scan) && literal_symbol(r, symbol);
    }
    if (json_scan_byte(&r->scan, (char)symbol) != JSON_SCAN_MORE)
        return false;
    read_argument(r, (char)symbol);
    return true;
}

static void string_over(struct reply *r)
{
    read_argument(r, '"');
    r->literal = r->string_key ? LITERAL_COLON : LITERAL_AFTER;
    r->word_bytes = 0;
}

// Reads a string without quote marks, which ends at a comma or at the end of its container. A
// bracket or a quote mark in it makes its end doubtful. Blanks are held, as they may precede its
// end.
static bool bare_string(struct reply *r, unsigned symbol)
{
    bool closes = symbol == (unsigned char)level_closer(level_of(r));
    if (symbol == ',' || closes) {
        r->bare = symbol == ',' && !is_list(level_of(r));
        string_over(r);
        return literal_symbol(r, symbol);
    }
    if (symbol >= READ_SPECIAL)
        return false;
    if (read_blank(symbol) && r->word_bytes < sizeof r->word) {
        r->word[r->word_bytes++] = (char)symbol;
        return true;
    }
    r->unread |= strchr("{}[]()\"'", (char)symbol) != NULL;
    for (size_t i = 0; i < r->word_bytes; i++)
        read_argument_escaped(r, r->word[i]);
    r->word_bytes = 0;
    read_argument_escaped(r, (char)symbol);
    return true;
}

// A word that means nothing is the beginning of a string, except in Python.
static bool word_is_string(struct reply *r, unsigned symbol)
{
    if (is_python(r) || r->word[0] == '<') // as in the dialect's own marks
        return false;
    read_argument(r, '"');
    for (size_t i = 0; i < r->word_bytes; i++)
        read_argument_escaped(r, r->word[i]);
    r->word_bytes = 0;
    r->string_key = false;
    r->literal = LITERAL_BARE_STRING;
    return bare_string(r, symbol);
}

static bool literal_word(struct reply *r, unsigned symbol)
{
    bool ends =
        read_blank(symbol) || symbol == ',' || symbol == (unsigned char)level_closer(level_of(r));
    if (ends && word_over(r))
        return literal_symbol(r, symbol);
    if (!of_a_word(symbol) || r->word_bytes == sizeof r->word)
        return word_is_string(r, symbol);
    r->word[r->word_bytes++] = (char)symbol;
    return true;
}

static bool literal_string(struct reply *r, unsigned symbol)
{
    bool escapes = symbol == '\\' && r->quote != MARK;
    r->fresh = r->fresh && symbol == r->quote;
    if (symbol == MARK && r->quote == MARK) {
        string_over(r);
    } else if (symbol == r->quote && r->triple) {
        r->literal = LITERAL_TRIPLE;
        r->word_bytes = 1;
    } else if (symbol == r->quote) {
        r->literal = LITERAL_QUOTE;
        r->word_bytes = 0;
    } else if (escapes) {
        r->literal = LITERAL_ESCAPE;
    } else if (symbol < READ_SPECIAL || (symbol != MARK && r->args.keep_special)) {
        read_argument_escaped(r, (char)symbol);
    }
    return true;
}

// In a string between three quote marks, after word_bytes of the last ones.
static bool triple_quote(struct reply *r, unsigned symbol)
{
    if (symbol == r->quote && ++r->word_bytes < 3)
        return true;
    if (symbol == r->quote) {
        string_over(r);
        return true;
    }
    for (size_t i = 0; i < r->word_bytes; i++)
        read_argument_escaped(r, (char)r->quote);
    r->word_bytes = 0;
    r->literal = LITERAL_STRING;
    return literal_string(r, symbol);
}

// Models write unescaped quote marks into strings; a quote mark without a fitting successor is
// text.
static bool after_quote(struct reply *r, unsigned symbol)
{
    bool fits = symbol == ',' || symbol == (unsigned char)level_closer(level_of(r));
    if (r->string_key ? symbol == ':' : fits) {
        string_over(r);
        return literal_symbol(r, symbol);
    }
    if (read_blank(symbol) && r->word_bytes < sizeof r->word) {
        r->word[r->word_bytes++] = (char)symbol;
        return true;
    }
    bool third = r->fresh && symbol == r->quote && r->word_bytes == 0;
    r->literal = LITERAL_STRING;
    if (third)
        return r->triple = true;
    r->fresh = false;
    read_argument_escaped(r, (char)r->quote);
    for (size_t i = 0; i < r->word_bytes; i++)
        read_argument_escaped(r, r->word[i]);
    r->word_bytes = 0;
    return literal_string(r, symbol);
}

static bool literal_escape(struct reply *r, unsigned symbol)
{
    static const char names[] = "nrtbfav0\\'\"", values[] = "\n\r\t\b\f\a\v\0\\'\"";
    r->literal = LITERAL_STRING;
    if (symbol == '\n')
        return true;
    if (symbol == 'x' || symbol == 'u' || symbol == 'U') {
        r->literal = LITERAL_HEX;
        r->word[0] = (char)symbol;
        r->word_bytes = 1;
        return true;
    }
    const char *name = symbol < 0x80 && symbol != 0 ? strchr(names, (char)symbol) : NULL;
    if (name) {
        read_argument_escaped(r, values[name - names]);
        return true;
    }
    read_argument_escaped(r, '\\');
    return literal_string(r, symbol);
}

static bool literal_hex(struct reply *r, unsigned symbol)
{
    char utf8[4], kind = r->word[0];
    size_t digits = kind == 'x' ? 2 : kind == 'u' ? 4 : 8;
    if (symbol >= 0x80 || text_hex((char)symbol) < 0)
        return false;
    r->word[r->word_bytes++] = (char)symbol;
    if (r->word_bytes <= digits)
        return true;
    r->literal = LITERAL_STRING;
    r->word_bytes = 0;
    if (kind == 'u') { // JSON has the same escape
        read_put(r, REPLY_ARGUMENTS, "\\", 1);
        read_put(r, REPLY_ARGUMENTS, r->word, 1 + digits);
        return true;
    }
    int64_t point = text_hex_read(text_span(r->word + 1, digits), digits);
    if (point > 0x10FFFF || (point >= 0xD800 && point <= 0xDFFF))
        point = 0xFFFD;
    size_t bytes = utf8_write((uint32_t)point, utf8);
    for (size_t i = 0; i < bytes; i++)
        read_argument_escaped(r, utf8[i]);
    return true;
}

static bool literal_symbol(struct reply *r, unsigned symbol)
{
    uint8_t state = r->literal;
    if (state < LITERAL_WORD && state != LITERAL_BARE_KEY && read_blank(symbol))
        return true;
    switch (state) {
    case LITERAL_KEY:
        return key_begin(r, symbol);
    case LITERAL_BARE_KEY:
        return bare_key(r, symbol);
    case LITERAL_COLON:
        read_argument(r, ':');
        r->literal = LITERAL_VALUE;
        return symbol == ':';
    case LITERAL_STAR:
        r->literal = LITERAL_STARS;
        return symbol == '*';
    case LITERAL_STARS:
        r->stars = true;
        level_of(r)->kind = '{';
        r->literal = LITERAL_KEY;
        return symbol == '{';
    case LITERAL_VALUE:
    case LITERAL_FIRST:
        return value_begin(r, symbol, state == LITERAL_FIRST);
    case LITERAL_AFTER:
        return literal_after(r, symbol);
    case LITERAL_WORD:
        return literal_word(r, symbol);
    case LITERAL_NUMBER:
        return literal_number(r, symbol);
    case LITERAL_BARE_STRING:
        return bare_string(r, symbol);
    case LITERAL_STRING:
        return literal_string(r, symbol);
    case LITERAL_TRIPLE:
        return triple_quote(r, symbol);
    case LITERAL_QUOTE:
        return after_quote(r, symbol);
    case LITERAL_ESCAPE:
        return literal_escape(r, symbol);
    default:
        return literal_hex(r, symbol);
    }
}

static void literal_handle(struct reply *r, unsigned symbol)
{
    bool special = (symbol & READ_SPECIAL) != 0 && r->literal < LITERAL_STRING;
    if (!special && literal_symbol(r, symbol))
        return;
    for (size_t i = 0; i < r->word_bytes; i++)
        read_argument(r, r->word[i]);
    read_broken(r, symbol == MARK ? '"' : symbol);
}

void read_literal(struct reply *r, unsigned symbol)
{
    if (r->held_count == 0 && !r->first_of[symbol & 0xFF]) {
        literal_handle(r, symbol);
        return;
    }
    read_hold(r, symbol);
    while (r->mode == READ_LITERAL && r->held_count > 0) {
        int marker = read_try(r, ROLE_BIT(ROLE_QUOTE));
        if (marker == TRY_PART)
            return;
        unsigned first = marker >= 0 ? (unsigned)MARK : r->held[0];
        read_drop(r, marker >= 0 ? r->held_count : 1);
        literal_handle(r, first);
    }
}

void read_literal_cut(struct reply *r)
{
    bool whole;
    bool word = r->literal == LITERAL_WORD && is_python(r); // else it may begin a string
    const char *json = word ? word_json(r, &whole) : NULL;
    if (json)
        read_put(r, REPLY_ARGUMENTS, json, r->word_bytes);
}

// Converts a literal in place of JSON or, if not `whole`, the beginning of one, and emits the
// result. Returns false if it is malformed; nothing is emitted then.
bool read_literal_value(struct reply *r, struct text text, bool whole)
{
    size_t out = r->out.bytes;
    uint32_t events = r->event_count;
    size_t last = events > 0 ? r->events[events - 1].text.bytes : 0;
    uint8_t base = r->mode == READ_ELEMENTS ? r->depth : 0, state = r->literal;
    if (base == READ_DEPTH_MAX)
        return false;
    struct read_level level = r->levels[base];
    enum dialect_form form = r->form;
    bool fine = true;
    r->form = FORM_PYTHON;
    r->levels[base] = (struct read_level){.kind = '('};
    r->depth = (uint8_t)(base + 1);
    r->literal = LITERAL_VALUE;
    r->word_bytes = 0;
    for (size_t i = 0; fine && i < text.bytes; i++) {
        bool over = r->depth == base + 1 && r->literal == LITERAL_AFTER;
        fine = over ? read_blank((unsigned char)text.at[i])
                    : literal_symbol(r, (unsigned char)text.at[i]);
    }
    fine = fine && (!whole || (r->depth == base + 1 && r->literal == LITERAL_AFTER));
    r->levels[base] = level;
    r->depth = base;
    r->literal = state;
    r->form = form;
    r->word_bytes = 0;
    if (fine)
        return true;
    r->escape_bytes = 0;
    r->out.bytes = out;
    r->event_count = events;
    if (events > 0)
        r->events[events - 1].text.bytes = last;
    return false;
}
