// SPDX-License-Identifier: Apache-2.0
// Hand-written scanners for the patterns of most published byte-level vocabularies. Each gives
// exactly the words of the regular expression above it, several times faster.
#include "runtime/text/tokenizer/internal.h"

enum char_kind { OTHER, LETTER, NUMBER, SPACE };

static const uint8_t ascii_kinds[128] = {
    ['\t'] = SPACE,         ['\n'] = SPACE,         ['\v'] = SPACE,
    ['\f'] = SPACE,         ['\r'] = SPACE,         [' '] = SPACE,
    ['0' ... '9'] = NUMBER, ['A' ... 'Z'] = LETTER, ['a' ... 'z'] = LETTER,
};

static enum char_kind kind_of(struct text text, size_t at, size_t *bytes)
{
    unsigned char lead = (unsigned char)text.at[at];
    if (lead < 0x80) {
        *bytes = 1;
        return ascii_kinds[lead];
    }
    uint32_t c = utf8_read(text.at + at, bytes);
    if (char_is_letter(c))
        return LETTER;
    if (char_is_number(c))
        return NUMBER;
    return char_is_space(c) ? SPACE : OTHER;
}

// Returns the end of the run of one kind that begins at `at`.
static size_t run_end(struct text text, size_t at, enum char_kind kind)
{
    size_t bytes;
    while (at < text.bytes && kind_of(text, at, &bytes) == kind)
        at += bytes;
    return at;
}

// \s+(?!\S)|\s+ : white space before a word leaves its last character to the word.
static size_t space_end(struct text text, size_t from)
{
    size_t end = run_end(text, from, SPACE);
    if (end == text.bytes)
        return end;
    size_t last = utf8_before(text.at, end);
    return last > from ? last : end;
}

// 's|'t|'re|'ve|'m|'ll|'d with the apostrophe at `from`; 0: no match.
static size_t contraction_end(struct text text, size_t from, bool any_case)
{
    size_t left = text.bytes - from;
    if (left < 2)
        return 0;
    unsigned char fold = any_case ? 0x20 : 0;
    unsigned char a = (unsigned char)text.at[from + 1];
    if (any_case && a == 0xC5 && left >= 3 && (unsigned char)text.at[from + 2] == 0xBF)
        // U+017F, the long s, is an s in another case.
        return from + 3;
    a = a >= 'A' && a <= 'Z' ? a | fold : a;
    if (a == 's' || a == 't' || a == 'm' || a == 'd')
        return from + 2;
    if (left < 3)
        return 0;
    unsigned char b = (unsigned char)text.at[from + 2];
    b = b >= 'A' && b <= 'Z' ? b | fold : b;
    bool two = ((a == 'r' || a == 'v') && b == 'e') || (a == 'l' && b == 'l');
    return two ? from + 3 : 0;
}

// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
size_t scan_gpt2(const struct pre_tokenizer *p, struct text text, size_t from)
{
    (void)p;
    if (text.at[from] == '\'') {
        size_t end = contraction_end(text, from, false);
        if (end > 0)
            return end;
    }
    size_t bytes;
    size_t at = from + (text.at[from] == ' ' && from + 1 < text.bytes);
    enum char_kind kind = kind_of(text, at, &bytes);
    if (kind == SPACE)
        return space_end(text, from);
    return run_end(text, at + bytes, kind);
}

// \s*[\r\n]+ : returns the position after the last line end of the run; 0: the run has none.
static size_t line_end(struct text text, size_t from, size_t run)
{
    while (run > from && text.at[run - 1] != '\n' && text.at[run - 1] != '\r')
        run--;
    return run > from ? run : 0;
}

static size_t numbers_end(struct text text, size_t from, unsigned most)
{
    size_t bytes;
    while (most > 0 && from < text.bytes && kind_of(text, from, &bytes) == NUMBER) {
        from += bytes;
        most--;
    }
    return from;
}

// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,N}| ?[^\s\p{L}\p{N}]+[\r\n]*
// |\s*[\r\n]+|\s+(?!\S)|\s+
static size_t scan_cl100k(const struct pre_tokenizer *p, struct text text, size_t from)
{
    if (text.at[from] == '\'') {
        size_t end = contraction_end(text, from, true);
        if (end > 0)
            return end;
    }
    size_t bytes, next_bytes;
    enum char_kind kind = kind_of(text, from, &bytes);
    if (kind == LETTER)
        return run_end(text, from + bytes, LETTER);
    if (kind == NUMBER)
        return numbers_end(text, from, p->digits_max);
    size_t next = from + bytes;
    bool end_of_text = next >= text.bytes;
    enum char_kind second = end_of_text ? SPACE : kind_of(text, next, &next_bytes);
    bool line = text.at[from] == '\n' || text.at[from] == '\r';
    if (second == LETTER && !line)
        return run_end(text, next + next_bytes, LETTER);
    if (kind == OTHER || (text.at[from] == ' ' && second == OTHER)) {
        size_t end = run_end(text, next, OTHER);
        while (end < text.bytes && (text.at[end] == '\n' || text.at[end] == '\r'))
            end++;
        return end;
    }
    size_t run = run_end(text, from, SPACE);
    size_t end = line_end(text, from, run);
    return end > 0 ? end : space_end(text, from);
}

scan_function *scan_for(struct text pattern, unsigned *digits_max)
{
    static const char head[] = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}";
    static const char tail[] = "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
    size_t ends = sizeof head - 1 + sizeof tail - 1;
    if (text_is(pattern, "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+"
                         "|\\s+(?!\\S)|\\s+"))
        return scan_gpt2;
    if (pattern.bytes < ends || memcmp(pattern.at, head, sizeof head - 1) != 0 ||
        memcmp(pattern.at + pattern.bytes - (sizeof tail - 1), tail, sizeof tail - 1) != 0)
        return NULL;
    struct text middle = text_span(pattern.at + sizeof head - 1, pattern.bytes - ends);
    *digits_max = text_is(middle, "{1,3}") ? 3
                  : text_is(middle, "")    ? 1
                  : text_is(middle, "+")   ? UINT32_MAX
                                           : 0;
    return *digits_max > 0 ? scan_cl100k : NULL;
}
