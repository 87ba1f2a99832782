// SPDX-License-Identifier: Apache-2.0
// Reads an Oniguruma pattern and writes one for PCRE2; see pattern.h.
#include "runtime/text/tokenizer/pattern_read.h"

#include <stdarg.h>
#include <stdio.h>

#include <utf8proc.h>

// Kind of the item just written; only an atom can be repeated.
enum piece { PIECE_NONE, PIECE_ATOM, PIECE_ANCHOR };

static enum status alternatives_read(struct pattern *p);

enum status pattern_refuse(struct pattern *p, const char *format, ...)
{
    char why[256];
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    return error_set(p->err, STATUS_UNSUPPORTED,
                     "the pattern %.*s cannot be read: %s (before byte %zu)",
                     (int)(p->in.bytes < 300 ? p->in.bytes : 300), p->in.at, why, p->at);
}

bool pattern_is_too_large(const struct pattern *p)
{
    return p->out.full || arena_bytes(p->arena) > PATTERN_ARENA_MAX;
}

enum status pattern_refuse_size(struct pattern *p)
{
    return pattern_refuse(
        p, "it is too large: %d MiB written for PCRE2 and %d MiB to get there are allowed",
        PATTERN_BYTES_MAX >> 20, PATTERN_ARENA_MAX >> 20);
}

bool pattern_next_is(const struct pattern *p, const char *what)
{
    return text_begins(text_span(p->in.at + p->at, p->in.bytes - p->at), what);
}

static void pattern_write(struct pattern *p, const char *string)
{
    pattern_put_string(&p->out, string);
}

// ---- single characters

// True if, ignoring case, Oniguruma also matches the two letters with one character: a ligature or
// a sharp s.
static bool pair_is_one(uint32_t a, uint32_t b)
{
    return (a == 'f' && (b == 'f' || b == 'i' || b == 'l')) || (a == 's' && (b == 's' || b == 't'));
}

static enum status pattern_write_literal(struct pattern *p, uint32_t code)
{
    uint32_t before = p->letter_before;
    p->letter_before = 0;
    pattern_put_code(&p->out, code);
    if (!p->caseless)
        return STATUS_OK;
    if (code < 0x80) {
        p->letter_before = (code | 0x20) >= 'a' && (code | 0x20) <= 'z' ? code | 0x20 : 0;
        return pair_is_one(before, p->letter_before)
                   ? pattern_refuse(p, "(?i) over %c%c, which is also one character", (int)before,
                                    (int)p->letter_before)
                   : STATUS_OK;
    }
    unsigned category = (unsigned)utf8proc_category((utf8proc_int32_t)code);
    bool cased = category < UTF8PROC_CATEGORY_LO || category == UTF8PROC_CATEGORY_NL ||
                 category == UTF8PROC_CATEGORY_SO ||
                 (category >= UTF8PROC_CATEGORY_MN && category <= UTF8PROC_CATEGORY_ME);
    return cased ? pattern_refuse(p, "(?i) over a character outside of ASCII") : STATUS_OK;
}

static enum status pattern_write_set(struct pattern *p, const struct set *set)
{
    p->letter_before = 0;
    bool several = set->intersection || set->first;
    if (p->caseless && (set->folds || (several && set->cased)))
        return pattern_refuse(p, "(?i) over a set of characters that are not all of ASCII");
    set_put(&p->out, set);
    return STATUS_OK;
}

static void pattern_write_boundary(struct pattern *p, bool negated)
{
    struct set *word = set_create(p->arena);
    (void)set_add_letter(word, 'w', false);
    static const char *const parts[2][5] = {{"(?:(?<=", ")(?!", ")|(?<!", ")(?=", "))"},
                                            {"(?:(?<=", ")(?=", ")|(?<!", ")(?!", "))"}};
    for (int i = 0; i < 5; i++) {
        pattern_write(p, parts[negated][i]);
        if (i < 4)
            set_put(&p->out, word);
    }
}

// ---- escapes outside of brackets

static enum status back_reference(struct pattern *p)
{
    char text[80];
    const char *from = p->in.at + p->at;
    if (p->caseless)
        return pattern_refuse(p, "a back reference without case");
    if (from[1] != 'k') {
        if (p->named)
            return pattern_refuse(p, "a back reference by number together with named groups");
        if (p->at + 2 < p->in.bytes && from[2] >= '0' && from[2] <= '9')
            return pattern_refuse(p, "a back reference over 9");
        snprintf(text, sizeof text, "\\g{%c}", from[1]);
        p->at += 2;
        pattern_write(p, text);
        return STATUS_OK;
    }
    const char *close = memchr(from, '>', p->in.bytes - p->at);
    int bytes = close ? (int)(close + 1 - from) : 0;
    if (bytes < 5 || bytes > 40 || from[2] != '<' || (from[3] | 0x20) < 'a' ||
        (from[3] | 0x20) > 'z')
        return pattern_refuse(p, "a reference \\k that is not \\k<name>");
    p->at += (size_t)bytes;
    pattern_put(&p->out, from, (size_t)bytes);
    return STATUS_OK;
}

static enum status escape_read(struct pattern *p, enum piece *piece)
{
    struct escape e;
    char letter = p->at + 1 < p->in.bytes ? p->in.at[p->at + 1] : '\0';
    *piece = PIECE_ATOM;
    if ((letter >= '1' && letter <= '9') || letter == 'k') {
        p->letter_before = 0;
        p->empty = true;
        return back_reference(p);
    }
    static const struct {
        char letter;
        const char *text;
        enum piece piece;
    } same[] = {{'A', "\\A", PIECE_ANCHOR},  {'Z', "\\Z", PIECE_ANCHOR}, {'z', "\\z", PIECE_ANCHOR},
                {'G', "\\G", PIECE_ANCHOR},  {'K', "\\K", PIECE_ANCHOR}, {'R', "\\R", PIECE_ATOM},
                {'N', "[^\\n]", PIECE_ATOM}, {'O', "(?s:.)", PIECE_ATOM}};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        if (letter == same[i].letter) {
            p->letter_before = 0;
            p->at += 2;
            *piece = same[i].piece;
            pattern_write(p, same[i].text);
            return STATUS_OK;
        }
    if (letter == 'b' || letter == 'B') {
        p->letter_before = 0;
        p->at += 2;
        *piece = PIECE_ANCHOR;
        pattern_write_boundary(p, letter == 'B');
        return STATUS_OK;
    }
    if (letter == 'X' || letter == 'y' || letter == 'Y' || letter == 'g')
        return pattern_refuse(p, "\\%c has no exact translation", letter);
    enum status status = pattern_escape(p, false, &e);
    if (status != STATUS_OK)
        return status;
    return e.set ? pattern_write_set(p, e.set) : pattern_write_literal(p, e.code);
}

// ---- groups

static enum status group_body(struct pattern *p, const char *open)
{
    pattern_write(p, open);
    enum status status = alternatives_read(p);
    if (status != STATUS_OK)
        return status;
    if (!pattern_next_is(p, ")"))
        return pattern_refuse(p, "a group is not closed");
    p->at++;
    pattern_write(p, ")");
    return STATUS_OK;
}

// Reads (?imx-imx), which lasts to the end of the enclosing group, or (?imx-imx:...).
static enum status options_read(struct pattern *p)
{
    bool on = true;
    struct pattern before = *p;
    for (;; p->at++) {
        char c = p->at < p->in.bytes ? p->in.at[p->at] : '\0';
        if (c == '-')
            on = false;
        else if (c == 'i')
            p->caseless = on;
        else if (c == 'x')
            p->extended = on;
        else if (c == 'm')
            p->dot_all = on;
        else
            break;
    }
    bool rest = pattern_next_is(p, ")");
    if (!rest && !pattern_next_is(p, ":"))
        return pattern_refuse(p, "a group (?%.1s is not known here",
                              p->at < p->in.bytes ? p->in.at + p->at : "");
    p->at++;
    pattern_write(p, p->caseless ? "(?i:" : "(?-i:");
    enum status status = alternatives_read(p);
    p->caseless = before.caseless;
    p->extended = before.extended;
    p->dot_all = before.dot_all;
    if (status != STATUS_OK)
        return status;
    if (!rest && !pattern_next_is(p, ")"))
        return pattern_refuse(p, "a group is not closed");
    p->at += !rest; // the enclosing group itself reads its )
    pattern_write(p, ")");
    return STATUS_OK;
}

static enum status named_group(struct pattern *p)
{
    const char *from = p->in.at + p->at; // at the < of (?<name>
    const char *close = memchr(from, '>', p->in.bytes - p->at);
    size_t bytes = close ? (size_t)(close + 1 - from) : 0;
    char open[48];
    if (bytes < 3 || bytes > 34)
        return pattern_refuse(p, "a group's name is not closed or too long");
    snprintf(open, sizeof open, "(?%.*s", (int)bytes, from);
    p->at += bytes;
    return group_body(p, open);
}

static enum status group_read(struct pattern *p, enum piece *piece)
{
    static const struct {
        const char *open;
        enum piece piece;
    } kinds[] = {{"(?:", PIECE_ATOM},   {"(?>", PIECE_ATOM},    {"(?=", PIECE_ANCHOR},
                 {"(?!", PIECE_ANCHOR}, {"(?<=", PIECE_ANCHOR}, {"(?<!", PIECE_ANCHOR}};
    *piece = PIECE_ATOM;
    p->letter_before = 0;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (pattern_next_is(p, kinds[i].open)) {
            p->at += strlen(kinds[i].open);
            *piece = kinds[i].piece;
            return group_body(p, kinds[i].open);
        }
    if (pattern_next_is(p, "(?#")) {
        const char *close = memchr(p->in.at + p->at, ')', p->in.bytes - p->at);
        if (!close)
            return pattern_refuse(p, "a comment is not closed");
        p->at = (size_t)(close + 1 - p->in.at);
        *piece = PIECE_NONE;
        return STATUS_OK;
    }
    if (pattern_next_is(p, "(?<")) {
        p->at += 2;
        return named_group(p);
    }
    if (pattern_next_is(p, "(?")) {
        p->at += 2;
        return options_read(p);
    }
    p->at++;
    return group_body(p, p->captures && !p->named ? "(" : "(?:");
}

// ---- repeats

struct repeat {
    uint32_t low, high; // high == UINT32_MAX: unbounded
    bool interval, fixed;
};

static bool digits_read(const struct pattern *p, size_t *at, uint32_t *out)
{
    size_t from = *at;
    for (*out = 0; *at < p->in.bytes && p->in.at[*at] >= '0' && p->in.at[*at] <= '9'; ++*at)
        if (*out < 1000000)
            *out = *out * 10 + (uint32_t)(p->in.at[*at] - '0');
    return *at > from;
}

// Reads {n}, {n,}, {,n} or {n,m}. Returns false for anything else, which is literal text.
static bool interval_read(struct pattern *p, struct repeat *out)
{
    size_t at = p->at + 1;
    bool low = digits_read(p, &at, &out->low);
    bool comma = at < p->in.bytes && p->in.at[at] == ',';
    bool high = false;
    at += comma;
    if (comma)
        high = digits_read(p, &at, &out->high);
    if ((!low && !high) || at >= p->in.bytes || p->in.at[at] != '}')
        return false;
    if (!high)
        out->high = comma ? UINT32_MAX : out->low;
    out->interval = true;
    out->fixed = !comma;
    p->at = at + 1;
    return true;
}

static bool repeat_read(struct pattern *p, struct repeat *out)
{
    char c = p->at < p->in.bytes ? p->in.at[p->at] : '\0';
    *out = (struct repeat){.low = c == '+', .high = c == '?' ? 1 : UINT32_MAX};
    if (c == '{')
        return interval_read(p, out);
    if (c != '*' && c != '+' && c != '?')
        return false;
    p->at++;
    return true;
}

static void repeat_write(struct pattern *p, const struct repeat *r)
{
    char text[40];
    if (!r->interval)
        snprintf(text, sizeof text, "%s", r->low == 1 ? "+" : r->high == 1 ? "?" : "*");
    else if (r->fixed)
        snprintf(text, sizeof text, "{%u}", r->low);
    else if (r->high == UINT32_MAX)
        snprintf(text, sizeof text, "{%u,}", r->low);
    else
        snprintf(text, sizeof text, "{%u,%u}", r->low, r->high);
    pattern_write(p, text);
}

// Encloses the output from `start` on in a group.
static void output_wrap(struct pattern *p, size_t start)
{
    pattern_write(p, "(?:)");
    if (p->out.full)
        return;
    memmove(p->out.at + start + 3, p->out.at + start, p->out.bytes - start - 4);
    memcpy(p->out.at + start, "(?:", 3);
    p->out.at[p->out.bytes - 1] = ')';
}

static bool comment_skip(struct pattern *p)
{
    char c = p->in.at[p->at];
    if (!p->extended)
        return false;
    if (c == '#') {
        while (p->at < p->in.bytes && p->in.at[p->at] != '\n')
            p->at++;
        return true;
    }
    bool space = c == ' ' || (c >= '\t' && c <= '\r');
    p->at += space;
    return space;
}

static enum status repeats_read(struct pattern *p, enum piece piece, size_t start)
{
    struct repeat r;
    while (p->at < p->in.bytes && comment_skip(p))
        ;
    size_t from = p->at;
    for (unsigned count = 0; repeat_read(p, &r); count++, from = p->at) {
        p->letter_before = 0;
        if (piece != PIECE_ATOM)
            return pattern_refuse(p, "a repeat follows something that cannot be repeated");
        if (r.high < r.low)
            return pattern_refuse(p, "an interval {n,m} with n over m");
        // After an empty iteration, whether Oniguruma keeps counting depends on the size of its
        // compiled code, so this cannot be translated.
        if (p->empty && r.interval && r.high > 1)
            return pattern_refuse(p, "an interval {n,m} of a group that can match nothing");
        p->empty = p->empty || r.low == 0;
        // A second repeat is accepted only after a closing brace and without braces itself, as in
        // `{n,m}+` and `{n}?`: Oniguruma repeats the interval.
        if (count > 0 && (count > 1 || r.interval || p->in.at[from - 1] != '}'))
            return pattern_refuse(p, "a repeat of a repeat");
        if (count > 0)
            output_wrap(p, start);
        repeat_write(p, &r);
        if (pattern_next_is(p, "?") && !r.fixed) {
            p->at++;
            pattern_write(p, "?");
        } else if (pattern_next_is(p, "+") && !r.interval) {
            p->at++;
            pattern_write(p, "+");
        }
    }
    return STATUS_OK;
}

// ---- sequences

static enum status piece_read(struct pattern *p, enum piece *piece)
{
    size_t bytes;
    struct set *set;
    enum status status;
    char c = p->in.at[p->at];
    *piece = PIECE_ATOM;
    p->empty = false;
    switch (c) {
    case '\\':
        return escape_read(p, piece);
    case '(':
        return group_read(p, piece);
    case '[':
        p->at++;
        status = pattern_class(p, &set);
        return status == STATUS_OK ? pattern_write_set(p, set) : status;
    case '.':
        p->at++;
        p->letter_before = 0;
        pattern_write(p, p->dot_all ? "(?s:.)" : "[^\\n]");
        return STATUS_OK;
    case '^':
    case '$':
        p->at++;
        p->letter_before = 0;
        *piece = PIECE_ANCHOR;
        pattern_write(p, c == '^' ? "^" : "$");
        return STATUS_OK;
    default:
        break;
    }
    uint32_t code = utf8_read(p->in.at + p->at, &bytes);
    p->at += bytes;
    return pattern_write_literal(p, code);
}

// Reads alternatives up to the ) that closes the group, or to the end.
static enum status alternatives_read(struct pattern *p)
{
    if (++p->depth > PATTERN_DEPTH_MAX)
        return pattern_refuse(p, "it is nested deeper than %d", PATTERN_DEPTH_MAX);
    enum status status = STATUS_OK;
    enum piece piece = PIECE_NONE;
    // filled: this branch has a piece that cannot be empty; empty: an earlier branch can be empty
    bool filled = false, empty = false;
    p->letter_before = 0;
    while (status == STATUS_OK && p->at < p->in.bytes && !pattern_next_is(p, ")")) {
        struct repeat r;
        size_t start = p->out.bytes;
        if (pattern_is_too_large(p))
            return pattern_refuse_size(p);
        if (comment_skip(p))
            continue;
        if (pattern_next_is(p, "|")) {
            p->at++;
            p->letter_before = 0;
            pattern_write(p, "|");
            empty = empty || !filled;
            filled = false;
            continue;
        }
        size_t from = p->at;
        if (repeat_read(p, &r))
            return pattern_refuse(p, "a repeat has nothing before it");
        p->at = from;
        status = piece_read(p, &piece);
        if (status == STATUS_OK && piece != PIECE_NONE)
            status = repeats_read(p, piece, start);
        filled = filled || (piece == PIECE_ATOM && !p->empty);
    }
    p->letter_before = 0;
    p->empty = empty || !filled;
    p->depth--;
    return status;
}

static bool refers_back(struct text in, bool *named)
{
    bool refers = false;
    *named = false;
    for (size_t i = 0; i + 1 < in.bytes; i++) {
        if (in.at[i] == '(' && i + 3 < in.bytes && in.at[i + 1] == '?' && in.at[i + 2] == '<' &&
            in.at[i + 3] != '=' && in.at[i + 3] != '!')
            *named = true;
        if (in.at[i] != '\\')
            continue;
        char c = in.at[++i];
        refers |= (c >= '1' && c <= '9') || c == 'k';
    }
    return refers;
}

enum status pattern_translate(struct text *out, struct text pattern, struct arena *arena,
                              struct error *err)
{
    struct pattern p = {.in = pattern, .arena = arena, .out = {.arena = arena}, .err = err};
    if (utf8_valid_prefix(pattern) != pattern.bytes)
        return pattern_refuse(&p, "it is not UTF-8");
    p.captures = refers_back(pattern, &p.named);
    enum status status = alternatives_read(&p);
    if (status == STATUS_OK && p.at < pattern.bytes)
        status = pattern_refuse(&p, "a ) closes no group");
    if (status == STATUS_OK && p.out.full)
        status = pattern_refuse_size(&p);
    *out = text_span(p.out.at ? p.out.at : "", p.out.bytes);
    return status;
}
