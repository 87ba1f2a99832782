// Private to the reader of PTX text: characters and words.
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WORD_MAX = 512 };

struct scan {
    const char *at, *end;
    uint32_t line;
    char *why; // of the first fault
    size_t why_bytes;
    bool failed;
};

// Says what is wrong and where, once; reading goes on to nothing.
bool scan_fail(struct scan *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
void scan_blank(struct scan *s);                 // over blanks and comments
char scan_peek(struct scan *s);                  // the next character that is no blank; 0: the end
bool scan_take(struct scan *s, char c);          // if it comes next
bool scan_want(struct scan *s, char c);          // false: it does not, said
bool scan_name(struct scan *s, char *out);       // letters, digits, _ $ % ; false: none comes, said
bool scan_word(struct scan *s, char *out);       // the same with . and :
bool scan_is(struct scan *s, const char *word);  // the word is what comes next; it stays
void scan_line(struct scan *s);                  // to the end of the line
void scan_over(struct scan *s, char last);       // to after the next such character
bool scan_number(struct scan *s, uint64_t *out); // as PTX writes them; a float gives its bits
