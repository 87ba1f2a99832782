// SPDX-License-Identifier: Apache-2.0
// Private to the reader of PTX text: reads characters and words.
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WORD_MAX = 512 };

struct scan {
    const char *at, *end;
    uint32_t line;
    char *why; // reason of the first fault
    size_t why_bytes;
    bool failed;
};

// Records the reason and the line of the first fault and moves to the end of the text. Returns
// false.
bool scan_fail(struct scan *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
void scan_blank(struct scan *s);          // skips blanks and comments
char scan_peek(struct scan *s);           // returns the next character that is no blank; 0: the end
bool scan_accept(struct scan *s, char c); // consumes c if it is next; false: it is not
bool scan_expect(struct scan *s, char c); // consumes c; false after a fault if it is not next
// Reads letters, digits, _ $ %; false after a fault if there are none
bool scan_name(struct scan *s, char *out);
bool scan_word(struct scan *s, char *out); // reads a name that may also contain . and :
// Returns true if the word is next; does not consume it
bool scan_is(struct scan *s, const char *word);
void scan_line(struct scan *s);                  // skips to the end of the line
void scan_over(struct scan *s, char last);       // skips to after the next such character
bool scan_number(struct scan *s, uint64_t *out); // reads a number of PTX; for a float its bits
