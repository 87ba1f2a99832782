// SPDX-License-Identifier: Apache-2.0
// strftime_now: the time that the caller gave, in UTC, with English names in any locale.
#include "runtime/text/jinja/internal.h"

#include <locale.h>
#include <time.h>

enum { PIECE_MAX = 64 };

// Writes the text of a conversion. Returns false if it is not supported. Microseconds are 0, and as
// in Python a time without a zone has no zone name and no offset.
static bool time_convert(const struct tm *tm, char what, char out[PIECE_MAX], size_t *bytes)
{
    const char own[] = {'%', what, '\0'};
    const char *format = what == 'f' ? "000000" : what == 'z' || what == 'Z' ? "" : own;
    if (what == '\0' || !strchr("aAbBcdDefFhHIjmMnpRStTuUwWxXyYzZ%", what))
        return false;
    locale_t english = newlocale(LC_ALL_MASK, "C", NULL);
    *bytes = strftime_l(out, PIECE_MAX, format, tm, english);
    freelocale(english);
    return true;
}

static bool format_into(struct jinja_run *run, struct jinja_builder *b, const struct tm *tm,
                        struct text format)
{
    for (size_t at = 0; at < format.bytes; at++) {
        char piece[PIECE_MAX] = {format.at[at]};
        size_t bytes = 1, skip = 0;
        bool conversion = format.at[at] == '%' && at + 1 < format.bytes;
        bool bare = conversion && format.at[at + 1] == '-' && at + 2 < format.bytes;
        at += bare ? 2 : conversion;
        if (conversion && !time_convert(tm, format.at[at], piece, &bytes))
            return jinja_fail(run, STATUS_INVALID, "strftime_now: %%%c is not supported",
                              format.at[at]);
        bare = bare && !strchr("cDFRTxX", format.at[at]); // these consist of several conversions
        while (bare && skip + 1 < bytes && (piece[skip] == '0' || piece[skip] == ' '))
            skip++;
        if (!jinja_builder_add(run, b, text_span(piece + skip, bytes - skip), false))
            return false;
    }
    return true;
}

bool jinja_strftime(struct jinja_run *run, struct text format, struct jinja_value *out)
{
    struct jinja_builder *b = jinja_builder_create(run);
    time_t now = (time_t)run->now;
    struct tm tm;
    if (!gmtime_r(&now, &tm))
        return jinja_fail(run, STATUS_INVALID, "strftime_now: the time is out of range");
    return b && format_into(run, b, &tm, format) && jinja_builder_done(run, b, out);
}
