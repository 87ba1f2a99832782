// SPDX-License-Identifier: Apache-2.0
// Escapes foreign bytes for a log line or a terminal: text from clients, from model files, or typed
// by the user. The result is one line of printable UTF-8: control characters, line ends, bytes that
// are not UTF-8, marks that reorder text (bidi) and invisible characters become escapes such as \n,
// \x1b, \xff, \u{202e}. Backslashes are not escaped, so escaping twice changes nothing more.
#pragma once

#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>

// Writes at most size - 1 bytes of escaped text and a NUL; cuts between characters and between
// escapes. size: at least 1. Returns the number of bytes without the NUL.
size_t safe_put(char *to, size_t size, struct text in);

// Formats the text, of which at most LINE_BYTES_MAX - 1 bytes are used, and writes it escaped like
// safe_put. Returns the number of bytes without the NUL.
size_t safe_format(char *to, size_t size, const char *format, va_list args)
    __attribute__((format(printf, 3, 0)));

// Returns the escaped text in a struct, for an argument of printf: safe_of(text).at. Text that does
// not fit is cut and ends with "...".
struct safe {
    char at[2048]; // enough for an error sentence with escapes
};
struct safe safe_of(struct text in);

// Formats the text, escapes it, and prints it with a line end in one call; cut at LINE_BYTES_MAX.
void safe_line(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
