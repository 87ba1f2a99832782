// SPDX-License-Identifier: Apache-2.0
// Splits template source into tokens: tags, comments, raw blocks; see jinja/ast.h. White space is
// handled as with trim_blocks and lstrip_blocks: one newline after a block tag is removed, and so
// are blanks before a block tag that begins its line.
#include "runtime/text/jinja/ast.h"
#include "runtime/text/jinja/string.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct lexer {
    struct arena *arena;
    struct error *err;
    struct text source;
    size_t at;
    size_t counted; // end of the part whose lines are counted
    uint32_t line;
    bool line_starting; // true if the previous tag consumed its newline
    uint32_t open_count;
    char open[JINJA_NEST_MAX]; // expected closing brackets, innermost last
    struct jinja_tokens *out;
};

static uint32_t line_here(struct lexer *lx)
{
    for (; lx->counted < lx->at; lx->counted++)
        lx->line += lx->source.at[lx->counted] == '\n';
    return lx->line;
}

static bool lex_fail(struct lexer *lx, const char *what)
{
    error_set(lx->err, STATUS_INVALID, "line %u: %s", line_here(lx), what);
    return false;
}

static struct jinja_token *token_add(struct lexer *lx, enum jinja_token_kind kind)
{
    struct jinja_tokens *out = lx->out;
    struct jinja_token *items =
        arena_extend(lx->arena, out->items, out->count, &out->allocated, sizeof *items);
    if (!items) {
        lex_fail(lx, "the template is too large");
        return NULL;
    }
    out->items = items;
    struct jinja_token *token = &out->items[out->count++];
    *token = (struct jinja_token){.kind = kind, .line = line_here(lx)};
    return token;
}

static char lexer_peek(const struct lexer *lx, size_t ahead)
{
    return lx->at + ahead < lx->source.bytes ? lx->source.at[lx->at + ahead] : '\0';
}

static bool lexer_is_at(const struct lexer *lx, size_t at, const char *what)
{
    size_t bytes = strlen(what);
    return lx->source.bytes - at >= bytes && memcmp(lx->source.at + at, what, bytes) == 0;
}

static size_t space_end(const struct lexer *lx, size_t at)
{
    while (at < lx->source.bytes) {
        uint32_t point;
        size_t bytes = jinja_utf8_next(lx->source, at, &point);
        if (!jinja_char_is_space(point))
            break;
        at += bytes;
    }
    return at;
}

// Returns the start of the trailing white space of [from, to).
static size_t space_start(const struct lexer *lx, size_t from, size_t to)
{
    size_t kept = from;
    for (size_t at = from; at < to;) {
        uint32_t point;
        at += jinja_utf8_next(lx->source, at, &point);
        if (!jinja_char_is_space(point))
            kept = at;
    }
    return kept;
}

// Returns the end of the data before a tag with this sign ('-', '+' or none).
static size_t data_end(const struct lexer *lx, size_t from, size_t to, char sign, bool variable)
{
    if (sign == '-')
        return space_start(lx, from, to);
    if (sign == '+' || variable)
        return to;
    size_t line = to;
    while (line > from && lx->source.at[line - 1] != '\n')
        line--;
    if (line == from && !lx->line_starting)
        return to;
    return space_start(lx, line, to) == line ? line : to;
}

static bool data_add(struct lexer *lx, size_t from, size_t to)
{
    if (to <= from)
        return true;
    struct jinja_token *token = token_add(lx, TOKEN_DATA);
    if (token)
        token->text = text_span(lx->source.at + from, to - from);
    return token != NULL;
}

// Returns true if a closing tag is at `at`. *end: the offset after it and after the white space
// that its sign trims.
static bool close_at(const struct lexer *lx, size_t at, const char *tag, bool trims, size_t *end)
{
    if (lexer_is_at(lx, at, "-") && lexer_is_at(lx, at + 1, tag)) {
        *end = space_end(lx, at + 1 + strlen(tag));
        return true;
    }
    if (trims && lexer_is_at(lx, at, "+") && lexer_is_at(lx, at + 1, tag)) {
        *end = at + 1 + strlen(tag);
        return true;
    }
    if (!lexer_is_at(lx, at, tag))
        return false;
    *end = at + strlen(tag);
    if (trims && lexer_is_at(lx, *end, "\n"))
        ++*end;
    return true;
}

static void lexer_jump(struct lexer *lx, size_t end)
{
    lx->line_starting = end > lx->at && lx->source.at[end - 1] == '\n';
    lx->at = end;
}

static bool lex_comment(struct lexer *lx)
{
    for (size_t at = lx->at; at < lx->source.bytes; at++) {
        size_t end;
        if (!close_at(lx, at, "#}", true, &end))
            continue;
        lexer_jump(lx, end);
        return true;
    }
    return lex_fail(lx, "a comment that begins here is never closed; add #}");
}

// Returns true if "{%", a sign and the word are at `at`. *end: the offset after the white space.
static bool raw_tag(const struct lexer *lx, size_t at, const char *word, size_t *end)
{
    if (!lexer_is_at(lx, at, "{%"))
        return false;
    at += 2;
    if (lexer_is_at(lx, at, "-") || lexer_is_at(lx, at, "+"))
        at++;
    at = space_end(lx, at);
    if (!lexer_is_at(lx, at, word))
        return false;
    *end = space_end(lx, at + strlen(word));
    return true;
}

static bool lex_raw(struct lexer *lx)
{
    size_t from = lx->at;
    for (size_t at = from; at < lx->source.bytes; at++) {
        size_t end;
        if (!raw_tag(lx, at, "endraw", &end) || !close_at(lx, end, "%}", true, &end))
            continue;
        if (!data_add(lx, from, data_end(lx, from, at, lx->source.at[at + 2], false)))
            return false;
        lexer_jump(lx, end);
        return true;
    }
    return lex_fail(lx, "a raw block that begins here is never closed; add {% endraw %}");
}

// Reads one escape after the backslash. Returns the number of bytes read; 0: not an escape (the
// backslash stays); -1: malformed.
static int escape_read(const char *at, size_t bytes, char *out, size_t *out_bytes)
{
    static const char from[] = "\\'\"abfnrtv";
    static const char to[] = "\\'\"\a\b\f\n\r\t\v";
    *out_bytes = 1;
    const char *simple = memchr(from, at[0], sizeof from - 1);
    if (simple) {
        *out = to[simple - from];
        return 1;
    }
    if (at[0] == '\n') {
        *out_bytes = 0;
        return 1;
    }
    uint32_t value = 0;
    int read = 0;
    if (at[0] >= '0' && at[0] <= '7') {
        while (read < 3 && (size_t)read < bytes && at[read] >= '0' && at[read] <= '7')
            value = value * 8 + (uint32_t)(at[read++] - '0');
    } else if (at[0] == 'x' || at[0] == 'u' || at[0] == 'U') {
        size_t digits = at[0] == 'x' ? 2 : at[0] == 'u' ? 4 : 8;
        int64_t code = text_hex_read(text_span(at + 1, bytes - 1), digits);
        if (code < 0 || code > 0x10ffff)
            return -1;
        value = (uint32_t)code;
        read = (int)digits + 1;
    } else {
        return at[0] == 'N' ? -1 : 0;
    }
    if (value >= 0xd800 && value < 0xe000)
        value = 0xfffd; // a lone surrogate cannot be encoded in UTF-8
    *out_bytes = utf8_write(value, out);
    return read;
}

static bool lex_string(struct lexer *lx)
{
    char quote = lexer_peek(lx, 0);
    size_t end = lx->at + 1;
    while (end < lx->source.bytes && lx->source.at[end] != quote)
        end += lx->source.at[end] == '\\' ? 2 : 1;
    if (end >= lx->source.bytes)
        return lex_fail(lx, "a string that begins here is never closed");
    struct text raw = text_span(lx->source.at + lx->at + 1, end - lx->at - 1);
    struct jinja_token *token = token_add(lx, TOKEN_STRING);
    char *out = token ? arena_alloc(lx->arena, raw.bytes + 4) : NULL;
    if (!out)
        return token && lex_fail(lx, "the template is too large");
    size_t bytes = 0;
    for (size_t i = 0; i < raw.bytes;) {
        size_t added;
        int read = 0;
        if (raw.at[i] == '\\' && i + 1 < raw.bytes)
            read = escape_read(raw.at + i + 1, raw.bytes - i - 1, out + bytes, &added);
        if (read < 0)
            return lex_fail(lx, "an escape in this string is malformed");
        if (read == 0)
            out[bytes++] = raw.at[i++];
        else {
            bytes += added;
            i += 1 + (size_t)read;
        }
    }
    token->text = text_span(out, bytes);
    lx->at = end + 1;
    return true;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

// Counts the digits from lx->at + ahead on, with single underscores between them.
static size_t lexer_digits(const struct lexer *lx, size_t ahead)
{
    size_t start = ahead;
    while (is_digit(lexer_peek(lx, ahead)) ||
           (ahead > start && lexer_peek(lx, ahead) == '_' && is_digit(lexer_peek(lx, ahead + 1))))
        ahead++;
    return ahead - start;
}

// Returns the length of the float at lx->at; 0: none.
static size_t float_length(const struct lexer *lx)
{
    if (lx->at > 0 && lx->source.at[lx->at - 1] == '.')
        return 0;
    size_t whole = lexer_digits(lx, 0);
    size_t length = whole;
    size_t fraction = lexer_peek(lx, length) == '.' ? lexer_digits(lx, length + 1) : 0;
    if (fraction > 0)
        length += 1 + fraction;
    if (lexer_peek(lx, length) == 'e' || lexer_peek(lx, length) == 'E') {
        size_t sign =
            lexer_peek(lx, length + 1) == '+' || lexer_peek(lx, length + 1) == '-' ? 1 : 0;
        size_t exponent = lexer_digits(lx, length + 1 + sign);
        if (exponent > 0)
            return length + 1 + sign + exponent;
    }
    return fraction > 0 ? length : 0;
}

static size_t integer_length(const struct lexer *lx, int *base)
{
    char mark = lexer_peek(lx, 0) == '0' ? (char)(lexer_peek(lx, 1) | 0x20) : '\0';
    *base = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 10;
    size_t length = *base == 10 ? 0 : 2;
    size_t start = length;
    for (;; length++) {
        char c = lexer_peek(lx, length) == '_' && length > 0 ? lexer_peek(lx, length + 1)
                                                             : lexer_peek(lx, length);
        int digit = text_hex(c);
        if (digit < 0 || digit >= *base)
            break;
    }
    // "0x" without a digit is a zero, then a name.
    if (length == start) {
        *base = 10;
        return 1;
    }
    return length;
}

static bool lex_number(struct lexer *lx)
{
    int base = 10;
    size_t length = float_length(lx);
    bool real = length > 0;
    if (!real)
        length = integer_length(lx, &base);
    char copy[64];
    size_t bytes = 0;
    for (size_t i = base == 10 ? 0 : 2; i < length; i++)
        if (lexer_peek(lx, i) != '_' && bytes < sizeof copy)
            copy[bytes++] = lexer_peek(lx, i);
    if (bytes == sizeof copy)
        return lex_fail(lx, "this number has too many digits");
    copy[bytes] = '\0';
    struct jinja_token *token = token_add(lx, real ? TOKEN_FLOAT : TOKEN_INT);
    if (!token)
        return false;
    errno = 0;
    if (real)
        token->real = strtod(copy, NULL);
    else
        token->integer = strtoll(copy, NULL, base);
    if (!real && errno == ERANGE)
        return lex_fail(lx, "this number does not fit 64 bits");
    lx->at += length;
    return true;
}

static bool is_name(char c, bool first)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c & 0x80) != 0 ||
           (!first && is_digit(c));
}

static bool lex_operator(struct lexer *lx)
{
    static const char pairs[][3] = {"==", "!=", "<=", ">=", "//", "**"};
    static const char singles[] = "+-/*%~[](){}><=.:|,;";
    char c = lexer_peek(lx, 0);
    int op = 0;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (lexer_is_at(lx, lx->at, pairs[i]))
            op = pairs[i][0] | pairs[i][1] << 8;
    if (op == 0 && (c == '\0' || !strchr(singles, c)))
        return lex_fail(lx, "a character that has no meaning here");
    if (op == 0)
        op = c;
    if (op == '(' || op == '[' || op == '{') {
        if (lx->open_count == JINJA_NEST_MAX)
            return lex_fail(lx, "brackets are nested too deeply");
        lx->open[lx->open_count++] = op == '(' ? ')' : op == '[' ? ']' : '}';
    }
    if (op == ')' || op == ']' || op == '}') {
        if (lx->open_count == 0 || lx->open[lx->open_count - 1] != op)
            return lex_fail(lx, "a closing bracket without its opening one");
        lx->open_count--;
    }
    struct jinja_token *token = token_add(lx, TOKEN_OPERATOR);
    if (!token)
        return false;
    token->op = op;
    lx->at += op > 255 ? 2 : 1;
    return true;
}

static bool lex_inside(struct lexer *lx, bool variable)
{
    lx->open_count = 0;
    while (lx->at < lx->source.bytes) {
        size_t end;
        if (lx->open_count == 0 && close_at(lx, lx->at, variable ? "}}" : "%}", !variable, &end)) {
            if (!token_add(lx, variable ? TOKEN_VARIABLE_END : TOKEN_BLOCK_END))
                return false;
            lexer_jump(lx, end);
            return true;
        }
        end = space_end(lx, lx->at);
        char c = lexer_peek(lx, 0);
        bool fine = true;
        if (end > lx->at) {
            lx->at = end;
        } else if (is_digit(c)) {
            fine = lex_number(lx);
        } else if (is_name(c, true)) {
            struct jinja_token *token = token_add(lx, TOKEN_NAME);
            size_t length = 1;
            while (is_name(lexer_peek(lx, length), false))
                length++;
            if (token)
                token->text = text_span(lx->source.at + lx->at, length);
            fine = token != NULL;
            lx->at += length;
        } else {
            fine = c == '\'' || c == '"' ? lex_string(lx) : lex_operator(lx);
        }
        if (!fine)
            return false;
    }
    return true; // the parser detects the end of the source
}

// Reads data up to the next tag, then the tag.
static bool lex_root(struct lexer *lx)
{
    size_t from = lx->at;
    size_t tag = from;
    while (tag < lx->source.bytes && !(lexer_is_at(lx, tag, "{%") || lexer_is_at(lx, tag, "{{") ||
                                       lexer_is_at(lx, tag, "{#")))
        tag++;
    if (tag == lx->source.bytes) {
        bool fine = data_add(lx, from, tag);
        lx->at = tag;
        return fine;
    }
    char kind = lx->source.at[tag + 1];
    char sign = tag + 2 < lx->source.bytes ? lx->source.at[tag + 2] : '\0';
    if (!data_add(lx, from, data_end(lx, from, tag, sign, kind == '{')))
        return false;
    lx->at = tag;
    size_t end;
    if (kind == '%' && raw_tag(lx, tag, "raw", &end) && close_at(lx, end, "%}", false, &end)) {
        lexer_jump(lx, end);
        return lex_raw(lx);
    }
    lx->line_starting = false;
    lx->at += 2 + (sign == '-' || sign == '+');
    if (kind == '#')
        return lex_comment(lx);
    if (!token_add(lx, kind == '{' ? TOKEN_VARIABLE_BEGIN : TOKEN_BLOCK_BEGIN))
        return false;
    return lex_inside(lx, kind == '{');
}

// Copies the source with \r\n and \r as \n and without one newline at the end.
static bool source_copy(struct arena *arena, struct text source, struct text *out)
{
    char *at = arena_alloc(arena, source.bytes + 1);
    if (!at)
        return false;
    size_t bytes = 0;
    for (size_t i = 0; i < source.bytes; i++) {
        char c = source.at[i];
        if (c == '\r' && i + 1 < source.bytes && source.at[i + 1] == '\n')
            continue;
        at[bytes++] = c == '\r' ? '\n' : c;
    }
    if (bytes > 0 && at[bytes - 1] == '\n')
        bytes--;
    *out = text_span(at, bytes);
    return true;
}

bool jinja_lex(struct arena *arena, struct text source, struct jinja_tokens *out, struct error *err)
{
    struct lexer lx = {.arena = arena, .err = err, .line = 1, .line_starting = true, .out = out};
    *out = (struct jinja_tokens){0};
    if (source.bytes > JINJA_SOURCE_MAX || !source_copy(arena, source, &lx.source)) {
        error_set(err, STATUS_TOO_LARGE, "the template has %zu bytes, %d are allowed", source.bytes,
                  JINJA_SOURCE_MAX);
        return false;
    }
    if (utf8_valid_prefix(lx.source) < lx.source.bytes) {
        error_set(err, STATUS_INVALID, "the template is not UTF-8");
        return false;
    }
    while (lx.at < lx.source.bytes)
        if (!lex_root(&lx))
            return false;
    return token_add(&lx, TOKEN_END) != NULL;
}
