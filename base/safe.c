// SPDX-License-Identifier: Apache-2.0
// Escapes text for logs and terminals; see safe.h. No state, no allocation: any thread.
#include "base/safe.h"

#include "base/status.h"
#include "base/utf8.h"

#include <stdint.h>

enum { ESCAPE_BYTES_MAX = 16 };

// Code points beyond ASCII that are escaped, in ascending order.
static const struct {
    uint32_t first, last;
} hidden[] = {
    {0x80, 0x9F},       // C1 controls: terminals read U+009B as ESC [
    {0x61C, 0x61C},     // bidi
    {0x180E, 0x180E},   // no width
    {0x200B, 0x200B},   // no width
    {0x200E, 0x200F},   // bidi
    {0x2028, 0x202E},   // line ends, bidi
    {0x2060, 0x206F},   // no width, bidi
    {0xFEFF, 0xFEFF},   // no width
    {0xFFF9, 0xFFFB},   // annotations
    {0xE0000, 0xE007F}, // tags
};

static bool point_is_hidden(uint32_t point)
{
    for (size_t i = 0; i < sizeof hidden / sizeof hidden[0]; i++)
        if (point >= hidden[i].first && point <= hidden[i].last)
            return true;
    return point < 0x20 || point == 0x7F;
}

static int escape_write(char *to, uint32_t point)
{
    switch (point) {
    case '\n':
        return snprintf(to, ESCAPE_BYTES_MAX, "\\n");
    case '\r':
        return snprintf(to, ESCAPE_BYTES_MAX, "\\r");
    case '\t':
        return snprintf(to, ESCAPE_BYTES_MAX, "\\t");
    default:
        return snprintf(to, ESCAPE_BYTES_MAX, point < 0x80 ? "\\x%02x" : "\\u{%x}",
                        (unsigned)point);
    }
}

size_t safe_put(char *to, size_t size, struct text in)
{
    size_t at = 0;
    while (in.bytes > 0) {
        char escape[ESCAPE_BYTES_MAX];
        uint32_t point = 0;
        size_t used = utf8_first(in, &point);
        struct text piece = text_span(in.at, used);
        if (used == 0) {
            used = 1;
            piece = text_span(escape, (size_t)snprintf(escape, sizeof escape, "\\x%02x",
                                                       (unsigned char)in.at[0]));
        } else if (point_is_hidden(point)) {
            piece = text_span(escape, (size_t)escape_write(escape, point));
        }
        if (piece.bytes >= size - at)
            break;
        memcpy(to + at, piece.at, piece.bytes);
        at += piece.bytes;
        in = text_span(in.at + used, in.bytes - used);
    }
    to[at] = '\0';
    return at;
}

size_t safe_format(char *to, size_t size, const char *format, va_list args)
{
    char raw[LINE_BYTES_MAX];
    int wrote = vsnprintf(raw, sizeof raw, format, args);
    size_t bytes = wrote < 0 ? 0 : (size_t)wrote < sizeof raw ? (size_t)wrote : sizeof raw - 1;
    return safe_put(to, size, text_span(raw, bytes));
}

struct safe safe_of(struct text in)
{
    static const char more[] = "...";
    struct safe out;
    // more than fits out, so that a text cut here is recognised as too long
    char whole[sizeof out.at + ESCAPE_BYTES_MAX];
    size_t bytes = safe_put(whole, sizeof whole, in);
    if (bytes < sizeof out.at) {
        memcpy(out.at, whole, bytes + 1);
        return out;
    }
    bytes = safe_put(out.at, sizeof out.at - sizeof more + 1, in);
    memcpy(out.at + bytes, more, sizeof more);
    return out;
}

void safe_line(FILE *out, const char *format, ...)
{
    char line[LINE_BYTES_MAX];
    va_list args;
    va_start(args, format);
    size_t bytes = safe_format(line, sizeof line - 1, format, args);
    va_end(args);
    line[bytes++] = '\n';
    fwrite(line, 1, bytes, out); // one call, because stderr has no buffer
}
