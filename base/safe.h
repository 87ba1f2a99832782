// Foreign bytes made fit for a log line or a terminal: what clients send, what stands in model
// files, what was typed. One line comes out, printable UTF-8: control characters, line ends, bytes
// that are not UTF-8, marks that reorder text (bidi) and invisible characters become escapes such
// as \n, \x1b, \xff, \u{202e}. Making text safe twice changes nothing more, because backslashes
// pass.
#pragma once

#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>

// Writes at most size - 1 bytes and a NUL; cut between characters. Returns the bytes written.
size_t safe_put(char *to, size_t size, struct text in);

// The whole formatted text, made safe. Returns the bytes written.
size_t safe_format(char *to, size_t size, const char *format, va_list args)
    __attribute__((format(printf, 3, 0)));

// For an argument of printf: safe_of(text).at. Long text ends with "...".
struct safe {
    char at[2048]; // an error sentence with escapes
};
struct safe safe_of(struct text in);

// Prints one line, made safe, and its end.
void safe_line(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
