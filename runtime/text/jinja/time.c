// strftime_now: the time that the caller gave, in UTC, with English names whatever the locale.
#include "runtime/text/jinja/internal.h"

#include <stdio.h>
#include <time.h>

static const char *const days[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                   "Thursday", "Friday", "Saturday"};
static const char *const months[] = {"January",   "February", "March",    "April",
                                     "May",       "June",     "July",     "August",
                                     "September", "October",  "November", "December"};

// Weeks of the year, the first of which begins with the first `day` (0 Sunday, 1 Monday).
static int week_of_year(const struct tm *tm, int day)
{
    return (tm->tm_yday + 7 - (tm->tm_wday + 7 - day) % 7) / 7;
}

static int format_numbers(const struct tm *tm, char what, char *out, size_t room)
{
    int hour12 = tm->tm_hour % 12 == 0 ? 12 : tm->tm_hour % 12;
    switch (what) {
    case 'Y':
        return snprintf(out, room, "%d", tm->tm_year + 1900);
    case 'y':
        return snprintf(out, room, "%02d", tm->tm_year % 100);
    case 'm':
        return snprintf(out, room, "%02d", tm->tm_mon + 1);
    case 'd':
        return snprintf(out, room, "%02d", tm->tm_mday);
    case 'e':
        return snprintf(out, room, "%2d", tm->tm_mday);
    case 'H':
        return snprintf(out, room, "%02d", tm->tm_hour);
    case 'I':
        return snprintf(out, room, "%02d", hour12);
    case 'M':
        return snprintf(out, room, "%02d", tm->tm_min);
    case 'S':
        return snprintf(out, room, "%02d", tm->tm_sec);
    case 'f':
        return snprintf(out, room, "000000");
    case 'j':
        return snprintf(out, room, "%03d", tm->tm_yday + 1);
    case 'w':
        return snprintf(out, room, "%d", tm->tm_wday);
    case 'u':
        return snprintf(out, room, "%d", tm->tm_wday == 0 ? 7 : tm->tm_wday);
    case 'U':
        return snprintf(out, room, "%02d", week_of_year(tm, 0));
    case 'W':
        return snprintf(out, room, "%02d", week_of_year(tm, 1));
    default:
        return -1;
    }
}

static int format_words(const struct tm *tm, char what, char *out, size_t room)
{
    switch (what) {
    case 'a':
        return snprintf(out, room, "%.3s", days[tm->tm_wday]);
    case 'A':
        return snprintf(out, room, "%s", days[tm->tm_wday]);
    case 'b':
    case 'h':
        return snprintf(out, room, "%.3s", months[tm->tm_mon]);
    case 'B':
        return snprintf(out, room, "%s", months[tm->tm_mon]);
    case 'p':
        return snprintf(out, room, "%s", tm->tm_hour < 12 ? "AM" : "PM");
    case 'n':
        return snprintf(out, room, "\n");
    case 't':
        return snprintf(out, room, "\t");
    case '%':
        return snprintf(out, room, "%%");
    case 'Z':
    case 'z': // a time without a zone has neither
        return snprintf(out, room, "%s", "");
    default:
        return -1;
    }
}

// Conversions that stand for several others.
static const char *expansion(char what)
{
    switch (what) {
    case 'D':
    case 'x':
        return "%m/%d/%y";
    case 'F':
        return "%Y-%m-%d";
    case 'T':
    case 'X':
        return "%H:%M:%S";
    case 'R':
        return "%H:%M";
    case 'c':
        return "%a %b %e %H:%M:%S %Y";
    default:
        return NULL;
    }
}

static bool format_into(struct jinja_run *run, struct jinja_builder *b, const struct tm *tm,
                        struct text format)
{
    for (size_t at = 0; at < format.bytes; at++) {
        char piece[64] = {format.at[at]};
        int bytes = 1;
        bool conversion = format.at[at] == '%' && at + 1 < format.bytes;
        bool bare = conversion && format.at[at + 1] == '-' && at + 2 < format.bytes;
        if (conversion) {
            at += bare ? 2 : 1;
            const char *longer = expansion(format.at[at]);
            if (longer && !format_into(run, b, tm, text_of(longer)))
                return false;
            bytes = longer ? 0 : format_numbers(tm, format.at[at], piece, sizeof piece);
            if (bytes < 0)
                bytes = format_words(tm, format.at[at], piece, sizeof piece);
            if (bytes < 0)
                return jinja_fail(run, STATUS_INVALID, "strftime_now: %%%c is not supported",
                                  format.at[at]);
        }
        size_t skip = 0;
        while (bare && (int)skip + 1 < bytes && (piece[skip] == '0' || piece[skip] == ' '))
            skip++;
        if (!jinja_builder_add(run, b, text_span(piece + skip, (size_t)bytes - skip), false))
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
