// SPDX-License-Identifier: Apache-2.0
// Reads characters and words of PTX text; see scan.h. A fault sets the position to the end of the
// text, so that callers may continue.
#include "tests/ptx/scan.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool scan_fail(struct scan *s, const char *format, ...)
{
    if (!s->failed) {
        int n = snprintf(s->why, s->why_bytes, "line %u: ", s->line);
        va_list list;
        va_start(list, format);
        vsnprintf(s->why + n, s->why_bytes - (size_t)n, format, list);
        va_end(list);
    }
    s->failed = true;
    s->at = s->end;
    return false;
}

static char here(const struct scan *s, size_t ahead)
{
    return (size_t)(s->end - s->at) > ahead ? s->at[ahead] : 0;
}

static void step(struct scan *s)
{
    s->line += *s->at == '\n';
    s->at++;
}

void scan_line(struct scan *s)
{
    while (s->at < s->end && *s->at != '\n')
        s->at++;
}

void scan_over(struct scan *s, char last)
{
    while (s->at < s->end && *s->at != last)
        step(s);
    if (s->at < s->end)
        step(s);
}

void scan_blank(struct scan *s)
{
    while (s->at < s->end) {
        if (isspace((unsigned char)*s->at) || *s->at == 0) {
            step(s);
        } else if (here(s, 0) == '/' && here(s, 1) == '/') {
            scan_line(s);
        } else if (here(s, 0) == '/' && here(s, 1) == '*') {
            do
                scan_over(s, '*');
            while (s->at < s->end && *s->at != '/');
            scan_over(s, '/');
        } else {
            return;
        }
    }
}

char scan_peek(struct scan *s)
{
    scan_blank(s);
    return here(s, 0);
}

bool scan_accept(struct scan *s, char c)
{
    if (scan_peek(s) != c || c == 0)
        return false;
    step(s);
    return true;
}

bool scan_expect(struct scan *s, char c)
{
    return scan_accept(s, c) ||
           scan_fail(s, "'%c' is missing before '%.20s'", c, s->at < s->end ? s->at : "");
}

static bool letters(struct scan *s, char *out, const char *more)
{
    scan_blank(s);
    size_t n = 0;
    while (n + 1 < WORD_MAX && here(s, n) != 0 &&
           (isalnum((unsigned char)here(s, n)) || strchr(more, here(s, n))))
        n++;
    memcpy(out, s->at, n);
    out[n] = 0;
    s->at += n;
    return n != 0 || scan_fail(s, "a name is missing before '%c'", here(s, 0));
}

bool scan_name(struct scan *s, char *out)
{
    return letters(s, out, "_$%");
}

bool scan_word(struct scan *s, char *out)
{
    return letters(s, out, "_$%.:");
}

bool scan_is(struct scan *s, const char *word)
{
    scan_blank(s);
    size_t n = strlen(word);
    return (size_t)(s->end - s->at) >= n && memcmp(s->at, word, n) == 0;
}

// Reads numbers; 0fXXXXXXXX and 0dXXXXXXXXXXXXXXXX are the bits of a float and a double.
bool scan_number(struct scan *s, uint64_t *out)
{
    bool negative = scan_accept(s, '-');
    char word[WORD_MAX];
    if (!scan_name(s, word))
        return false;
    char *rest;
    size_t n = strlen(word);
    bool bits = n > 2 && word[0] == '0' && strchr("fFdD", word[1]);
    bool shape = !bits || n == (tolower((unsigned char)word[1]) == 'f' ? 10u : 18u);
    *out = strtoull(bits ? word + 2 : word, &rest, bits ? 16 : 0);
    if (*rest == 'U' || *rest == 'u')
        rest++;
    if (*rest != 0 || !shape || (bits && negative))
        return scan_fail(s, "'%s' is no number", word);
    *out = negative ? 0 - *out : *out;
    return true;
}
