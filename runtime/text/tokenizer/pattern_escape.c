// SPDX-License-Identifier: Apache-2.0
// Reads escapes: characters by number or name, and sets.
#include "runtime/text/tokenizer/pattern_read.h"

// Reads up to `most` digits; returns the number of digits read.
static unsigned number_read(struct pattern *p, unsigned base, unsigned most, uint32_t *out)
{
    unsigned count = 0;
    *out = 0;
    for (; count < most && p->at < p->in.bytes; count++, p->at++) {
        int value = text_hex(p->in.at[p->at]);
        if (value < 0 || value >= (int)base)
            break;
        *out = *out * base + (uint32_t)value;
    }
    return count;
}

static enum status braced_read(struct pattern *p, unsigned base, uint32_t *out)
{
    p->at++; // the {
    unsigned count = number_read(p, base, 8, out);
    if (count == 0 || !pattern_next_is(p, "}") || *out > 0x10FFFF)
        return pattern_refuse(p, "a number in braces is not a single character");
    p->at++;
    return STATUS_OK;
}

// Reads the bytes after a \xHH above 7F: together they are one character in UTF-8.
static enum status bytes_read(struct pattern *p, uint32_t lead, uint32_t *out)
{
    char text[4] = {(char)lead};
    size_t have = 1, length = 0, used;
    while ((length = utf8_valid(text, have)) == 0 && have < 4 && pattern_next_is(p, "\\x")) {
        uint32_t next;
        p->at += 2;
        if (number_read(p, 16, 2, &next) != 2)
            break;
        text[have++] = (char)next;
    }
    if (length == 0)
        return pattern_refuse(p, "a byte \\x%X begins no character", lead);
    *out = utf8_read(text, &used);
    return STATUS_OK;
}

static enum status hexadecimal_read(struct pattern *p, uint32_t *out)
{
    if (pattern_next_is(p, "{"))
        return braced_read(p, 16, out);
    if (number_read(p, 16, 2, out) == 0)
        return pattern_refuse(p, "\\x has no digits");
    return *out < 0x80 ? STATUS_OK : bytes_read(p, *out, out);
}

static enum status property_read(struct pattern *p, bool negated, bool bracket, struct set **out)
{
    const char *from = p->in.at + p->at + 1, *end = p->in.at + p->in.bytes;
    const char *close = memchr(from, '}', (size_t)(end - from));
    if (!close)
        return pattern_refuse(p, "a property \\p{...} is not closed");
    struct text name = text_span(from, (size_t)(close - from));
    p->at += name.bytes + 2;
    if (name.bytes > 0 && *name.at == '^') {
        negated = !negated;
        name = text_span(name.at + 1, name.bytes - 1);
    }
    *out = set_create(p->arena);
    (*out)->negated = negated;
    if (!set_add_property(*out, name, bracket))
        return pattern_refuse(p, "the property \\p{%.*s} is not known here",
                              (int)(name.bytes < 60 ? name.bytes : 60), name.at);
    return STATUS_OK;
}

static enum status control_read(struct pattern *p, uint32_t *out)
{
    char c = p->at < p->in.bytes ? p->in.at[p->at] : '\0';
    if ((c | 0x20) < 'a' || (c | 0x20) > 'z')
        return pattern_refuse(p, "\\c is not followed by a letter");
    p->at++;
    *out = c & 0x1F;
    return STATUS_OK;
}

// Returns the control character of an escaped letter; 0: none.
static uint32_t letter_code(char letter, bool bracket)
{
    switch (letter) {
    case 'a':
        return 7;
    case 'b':
        return bracket ? 8 : 0;
    case 't':
        return '\t';
    case 'n':
        return '\n';
    case 'v':
        return '\v';
    case 'f':
        return '\f';
    case 'r':
        return '\r';
    case 'e':
        return 0x1B;
    default:
        return 0;
    }
}

static enum status numbered_read(struct pattern *p, char letter, uint32_t *out, bool *handled)
{
    *handled = true;
    switch (letter) {
    case 'x':
        return hexadecimal_read(p, out);
    case 'u':
        return number_read(p, 16, 4, out) == 4
                   ? STATUS_OK
                   : pattern_refuse(p, "\\u is not followed by four hexadecimal digits");
    case 'o':
        if (pattern_next_is(p, "{"))
            return braced_read(p, 8, out);
        break;
    case '0' ... '7':
        p->at--;
        (void)number_read(p, 8, 3, out);
        return *out < 0x80 ? STATUS_OK : pattern_refuse(p, "an octal number is over 177");
    case 'c':
        return control_read(p, out);
    case 'C':
    case 'M':
        if (pattern_next_is(p, "-"))
            return pattern_refuse(p, "\\%c- is not known here", letter);
        break;
    default:
        break;
    }
    *handled = false;
    return STATUS_OK;
}

enum status pattern_escape(struct pattern *p, bool bracket, struct escape *out)
{
    size_t bytes;
    bool handled;
    *out = (struct escape){0};
    if (p->at + 1 >= p->in.bytes)
        return pattern_refuse(p, "it ends with a backslash");
    char letter = p->in.at[p->at + 1];
    uint32_t code = utf8_read(p->in.at + p->at + 1, &bytes);
    p->at += 1 + bytes;
    if ((letter == 'p' || letter == 'P') && pattern_next_is(p, "{"))
        return property_read(p, letter == 'P', bracket, &out->set);
    enum status status = numbered_read(p, letter, &out->code, &handled);
    if (status != STATUS_OK || handled)
        return status;
    bool small = letter >= 'a';
    struct set *set = set_create(p->arena);
    if (set_add_letter(set, (char)(letter | 0x20), bracket)) {
        set->negated = !small;
        out->set = set;
        return STATUS_OK;
    }
    out->code = letter_code(letter, bracket);
    if (out->code == 0)
        out->code = code; // any other character is itself
    return STATUS_OK;
}
