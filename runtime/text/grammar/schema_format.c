// SPDX-License-Identifier: Apache-2.0
// String formats of JSON schema as expressions, each for the complete string, according to its RFC.
#include "runtime/text/grammar/schema_parts.h"

#include "runtime/text/grammar/regex.h"

#include <stdio.h>
#include <string.h>

#define LEAP_YEAR "(\\d\\d(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)"
#define DATE                                                                                       \
    "(\\d{4}-((0[13578]|1[02])-(0[1-9]|[12]\\d|3[01])|(0[469]|11)-(0[1-9]|[12]\\d|30)|"            \
    "02-(0[1-9]|1\\d|2[0-8]))|" LEAP_YEAR "-02-29)"
#define TIME_MAIN "([01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(\\.\\d+)?([Zz]|[+-]([01]\\d|2[0-3]):[0-5]\\d)"
#define HEX "[0-9A-Fa-f]"
#define OCTET "(25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"
#define IPV4 OCTET "(\\." OCTET "){3}"
#define H16 HEX "{1,4}"
#define LS32 "(" H16 ":" H16 "|" IPV4 ")"
#define IPV6                                                                                       \
    "((" H16 ":){6}" LS32 "|::(" H16 ":){5}" LS32 "|(" H16 ")?::(" H16 ":){4}" LS32 "|((" H16      \
    ":){0,1}" H16 ")?::(" H16 ":){3}" LS32 "|((" H16 ":){0,2}" H16 ")?::(" H16 ":){2}" LS32        \
    "|((" H16 ":){0,3}" H16 ")?::" H16 ":" LS32 "|((" H16 ":){0,4}" H16 ")?::" LS32 "|((" H16      \
    ":){0,5}" H16 ")?::" H16 "|((" H16 ":){0,6}" H16 ")?::)"

// The macros below describe URIs if their parameter w is "", and IRIs if it is WIDE, the characters
// that only IRIs may contain.
#define WIDE                                                                                       \
    "\\u00A0-\\uD7FF\\uF900-\\uFDCF\\uFDF0-\\uFFEF\\u{10000}-\\u{1FFFD}\\u{20000}-\\u{2FFFD}"      \
    "\\u{30000}-\\u{3FFFD}\\u{40000}-\\u{4FFFD}\\u{50000}-\\u{5FFFD}\\u{60000}-\\u{6FFFD}"         \
    "\\u{70000}-\\u{7FFFD}\\u{80000}-\\u{8FFFD}\\u{90000}-\\u{9FFFD}\\u{A0000}-\\u{AFFFD}"         \
    "\\u{B0000}-\\u{BFFFD}\\u{C0000}-\\u{CFFFD}\\u{D0000}-\\u{DFFFD}\\u{E1000}-\\u{EFFFD}"
#define PRIVATE "\\uE000-\\uF8FF\\u{F0000}-\\u{FFFFD}\\u{100000}-\\u{10FFFD}"
#define PLAIN "A-Za-z0-9\\-._~!$&'()*+,;="
#define PERCENT "%" HEX HEX
#define SOME(w, more) "([" PLAIN w more "]|" PERCENT ")"
#define SEGMENTS(w) "(\\/" SOME(w, ":@") "*)*"
#define AUTHORITY(w)                                                                               \
    "(" SOME(w, ":") "*@)?(\\[(" IPV6 "|[vV]" HEX "+\\.[" PLAIN ":]+)\\]|" SOME(w, "") "*)(:\\d*)" \
                                                                                       "?"
#define TAIL(w, private) "(\\?" SOME(w private, ":@/?") "*)?(#" SOME(w, ":@/?") "*)?"
#define HIERARCHY(w, first)                                                                        \
    "(\\/\\/" AUTHORITY(w) SEGMENTS(w) "|\\/(" SOME(w, ":@") "+" SEGMENTS(w) ")?|" first SEGMENTS( \
        w) "|)"
#define ABSOLUTE(w, private)                                                                       \
    "[A-Za-z][A-Za-z0-9+.\\-]*:" HIERARCHY(w, SOME(w, ":@") "+") TAIL(w, private)
#define RELATIVE(w, private) HIERARCHY(w, SOME(w, "@") "+") TAIL(w, private)

// A label of at most `most` + 5 characters. Hyphens in both the third and fourth position are
// refused: they mark encoded labels (xn--), whose rules are not regular.
#define LETTER "[A-Za-z0-9]"
#define INNER "[A-Za-z0-9\\-]"
#define LABEL_OF(most)                                                                             \
    LETTER "(" INNER "{0,2}" LETTER "|" INNER "(" LETTER INNER "|-" LETTER ")" INNER "{0," most    \
           "}" LETTER ")?"
#define LABEL LABEL_OF("58")
#define LABELS(first, rest, count) LABEL_OF(first) "(\\." LABEL_OF(rest) "){0," count "}"
// At most 253 characters. A list of shapes that cannot exceed it avoids intersecting with that
// length.
#define HOSTNAME                                                                                   \
    "(" LABEL "(\\." LABEL "){0,2}(\\." LABEL_OF("56") ")?|" LABELS("58", "11", "11") "|" LABELS(  \
        "11", "25", "7") "|" LABELS("9", "9", "15") "|" LETTER "{1,3}(\\." LETTER "{1,3}){0,62})"
#define ATOM "[A-Za-z0-9!#$%&'*+\\-\\/=?^_`{|}~]+"
#define EMAIL                                                                                      \
    "(" ATOM "(\\." ATOM ")*|\"([ !#-\\[\\]-~]|\\\\[ -~])*\")@(" LABEL "(\\." LABEL ")*|\\[(" IPV4 \
    "|IPv6:" IPV6 ")\\])"
#define SECONDS "\\d+S"
#define MINUTES "\\d+M(" SECONDS ")?"
#define CLOCK "T(\\d+H(" MINUTES ")?|" MINUTES "|" SECONDS ")"
#define MONTHS "\\d+M(\\d+D)?"
#define DURATION "P((\\d+D|" MONTHS "|\\d+Y(" MONTHS ")?)(" CLOCK ")?|" CLOCK "|\\d+W)"
#define POINTER "(\\/([^~\\/]|~[01])*)*"
#define NAME "([A-Za-z0-9_]|" PERCENT ")(\\.?([A-Za-z0-9_]|" PERCENT "))*(:[1-9]\\d{0,3}|\\*)?"
#define TEMPLATE                                                                                   \
    "([!#$&(-;=?-\\[\\]_a-z~" WIDE PRIVATE "]|" PERCENT "|\\{[+#.\\/;?&=,!@|]?" NAME "(," NAME     \
    ")*\\})*"

static const struct {
    const char *name, *pattern; // pattern; for the first two: the part before the time
} KNOWN[] = {
    {"time", ""},
    {"date-time", DATE "[Tt]"},
    {"date", DATE},
    {"hostname", HOSTNAME},
    {"ipv4", IPV4},
    {"ipv6", IPV6},
    {"uuid", HEX "{8}-" HEX "{4}-" HEX "{4}-" HEX "{4}-" HEX "{12}"},
    {"email", EMAIL},
    {"duration", DURATION},
    {"uri", ABSOLUTE("", "")},
    {"uri-reference", ABSOLUTE("", "") "|" RELATIVE("", "")},
    {"iri", ABSOLUTE(WIDE, PRIVATE)},
    {"iri-reference", ABSOLUTE(WIDE, PRIVATE) "|" RELATIVE(WIDE, PRIVATE)},
    {"uri-template", TEMPLATE},
    {"json-pointer", POINTER},
    {"relative-json-pointer", "(0|[1-9]\\d*)(#|" POINTER ")"},
};

static uint32_t pattern_compile(struct schema *c, uint32_t site, struct text pattern,
                                enum writer_chars kind)
{
    struct regex_args args = {.pattern = pattern, .chars = writer_chars_of(kind)};
    uint32_t expr;
    if (regex_compile(c->b, &args, &expr, c->err) != STATUS_OK)
        return schema_pass_error(c, site, "format");
    return expr;
}

// A second of 60 is allowed one minute before midnight in UTC, with offsets of complete hours.
static uint32_t time_text(struct schema *c, uint32_t site, const char *before,
                          enum writer_chars kind)
{
    enum { BYTES_MAX = 4096 };
    char *pattern = arena_alloc(c->arena, BYTES_MAX);
    int bytes =
        snprintf(pattern, BYTES_MAX, "%s(" TIME_MAIN "|23:59:60(\\.\\d+)?([Zz]|[+-]00:00)", before);
    for (int offset = 1; offset < 24; offset++)
        bytes += snprintf(pattern + bytes, (size_t)(BYTES_MAX - bytes),
                          "|%02d:59:60(\\.\\d+)?\\+%02d:00|%02d:59:60(\\.\\d+)?-%02d:00",
                          (23 + offset) % 24, offset, 23 - offset, offset);
    bytes += snprintf(pattern + bytes, (size_t)(BYTES_MAX - bytes), ")");
    return pattern_compile(c, site, text_span(pattern, (size_t)bytes), kind);
}

uint32_t schema_format(struct schema *c, uint32_t site, const json_t *format, bool *known,
                       enum writer_chars kind)
{
    static const char *const refused[] = {"regex", "idn-email", "idn-hostname"};
    const char *name = json_string_value(format);
    *known = true;
    if (!name)
        return schema_refuse(c, STATUS_INVALID, site, "format", "must be a string");
    for (uint32_t i = 0; i < sizeof KNOWN / sizeof *KNOWN; i++) {
        uint32_t expr;
        if (strcmp(name, KNOWN[i].name) != 0)
            continue;
        if (memo_find(c, MEMO_FORMAT, i, kind, &expr))
            return expr;
        expr = i < 2 ? time_text(c, site, KNOWN[i].pattern, kind)
                     : pattern_compile(c, site, text_of(KNOWN[i].pattern), kind);
        memo_put(c, MEMO_FORMAT, i, kind, expr);
        return expr;
    }
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (strcmp(name, refused[i]) == 0)
            return schema_refuse(c, STATUS_UNSUPPORTED, site, "format", name);
    *known = false;
    return GRAMMAR_NOTHING;
}
