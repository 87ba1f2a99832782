// SPDX-License-Identifier: Apache-2.0
// The grammar of the answer around calls; see grammar.h. The marks that the reader (reply.c)
// recognizes as the beginning of a call, of reasoning or of a part end free text here as well, so
// that the grammar is inside of a call exactly when the reader is.
#include "runtime/text/dialect/grammar.h"

#include "base/arena.h"
#include "base/status.h"
#include "runtime/grammar/vocabulary.h"
#include "runtime/text/dialect/read.h"
#include "runtime/text/dialect/write.h"

#include <stdio.h>

enum { OPENINGS_MAX = ROW_MARKERS + 4, BLANKS = 4, ID_DIGITS_MAX = 4 };

struct calling {
    struct write w;
    struct text *names;  // names of the functions that may be called
    uint32_t *arguments; // expressions of their arguments
    uint32_t count;
    // names of all functions, by which the reader distinguishes calls from text
    struct text *known;
    uint32_t known_count;
    uint32_t head, reasoning; // rules: beginning of a part of the answer; inside of reasoning
    uint32_t gap;             // line ends between parts
    bool reasoned;            // true for a part before which the only reasoning has ended
    // error if the content cannot be distinguished from calls, with a sentence in w.err
    enum status status;
};

uint32_t write_literal(struct write *w, const char *text, uint32_t id)
{
    uint32_t all = GRAMMAR_EMPTY;
    size_t at = 0;
    for (;;) {
        int32_t token;
        struct text piece = dialect_literal_next(w->d, text, &at, &token);
        char special = (char)VOCABULARY_SPECIAL_BYTE;
        if (piece.bytes == 0)
            return all;
        if (token >= 0)
            all = grammar_join(w->b, all, grammar_literal(w->b, text_span(&special, 1)));
        const char *place = memchr(piece.at, DIALECT_ID_PLACE, piece.bytes);
        size_t before = place ? (size_t)(place - piece.at) : piece.bytes;
        all = grammar_join(w->b, all, grammar_literal(w->b, text_span(piece.at, before)));
        if (place) {
            struct text rest = text_span(place + 1, piece.bytes - before - 1);
            all = grammar_join(w->b, grammar_join(w->b, all, id), grammar_literal(w->b, rest));
        }
    }
}

static bool ends_in_special(const struct dialect *d, const char *text)
{
    size_t at = 0;
    int32_t token = -1, last = -1;
    while (dialect_literal_next(d, text, &at, &token).bytes > 0)
        last = token;
    return last >= 0;
}

// Returns the literal that ends a call or all calls, and what may follow it; also the literal
// without the special token at its end: some models use that token as an end id, so the answer can
// end before it.
static uint32_t literal_at_end(struct calling *a, const char *text)
{
    struct write *w = &a->w;
    size_t at = 0, before = 0;
    int32_t token;
    uint32_t whole = write_literal(w, text, GRAMMAR_EMPTY);
    bool special = ends_in_special(w->d, text);
    // Without an end that is read as such, what follows the only call could belong to it.
    if (w->args->resumes && (special || !w->syntax->one_call))
        whole = grammar_join(w->b, whole, a->head);
    if (!special)
        return whole;
    while (text[at] != 0) {
        before = at;
        dialect_literal_next(w->d, text, &at, &token);
    }
    char *cut = heap_alloc(before + 1);
    memcpy(cut, text, before);
    cut[before] = 0;
    whole = grammar_either(w->b, whole, write_literal(w, cut, GRAMMAR_EMPTY));
    heap_free(cut);
    return whole;
}

static uint32_t id_of(struct write *w, uint32_t number)
{
    static const struct grammar_range lower[] = {{'0', '9'}, {'a', 'z'}}, upper = {'A', 'Z'};
    struct grammar_builder *b = w->b;
    char digits[16];
    uint32_t one = grammar_chars(b, lower, 2);
    switch (w->syntax->id) {
    case DIALECT_ID_INDEX:
        if (w->args->resumes) // the number depends on the calls before, also of earlier messages
            return grammar_repeat(b, grammar_chars(b, lower, 1), 1, ID_DIGITS_MAX);
        snprintf(digits, sizeof digits, "%u", number);
        return grammar_literal(b, text_of(digits));
    case DIALECT_ID_ALNUM_9:
        return grammar_repeat(b, grammar_either(b, one, grammar_chars(b, &upper, 1)), 9, 9);
    case DIALECT_ID_LOWER_10:
        return grammar_repeat(b, one, 10, 10);
    default:
        return GRAMMAR_EMPTY;
    }
}

// Returns true if the end of a call is that of all calls.
static bool call_ends_all(const struct dialect_syntax *s)
{
    return s->one_call && *s->end == 0 && s->arguments == ARGUMENTS_JSON;
}

// Returns one call. open: the literal that opens it, or the part of that literal which the answer
// does not have yet. number: index of the call, for its id.
static uint32_t call_from(struct calling *a, const char *open, uint32_t number)
{
    struct write *w = &a->w;
    const struct dialect_syntax *s = w->syntax;
    uint32_t id = id_of(w, number), all = GRAMMAR_NOTHING;
    uint32_t name_close = write_literal(w, s->name_close, id);
    uint32_t close =
        call_ends_all(s) ? literal_at_end(a, s->call_close) : write_literal(w, s->call_close, id);
    for (uint32_t i = 0; i < a->count; i++) {
        uint32_t parts[] = {grammar_literal(w->b, a->names[i]), name_close, a->arguments[i], close};
        all = grammar_either(w->b, grammar_join_all(w->b, parts, 4), all);
    }
    return grammar_join(w->b, write_literal(w, open, id), all);
}

static const char *after_prefix(const char *text, const char *prefix)
{
    size_t bytes = strlen(prefix);
    return strncmp(text, prefix, bytes) == 0 ? text + bytes : NULL;
}

// Returns all calls after the first one.
static uint32_t calls_after(struct calling *a)
{
    struct write *w = &a->w;
    const struct dialect_syntax *s = w->syntax;
    uint32_t separator = write_literal(w, s->separator, GRAMMAR_EMPTY), all = GRAMMAR_EMPTY;
    // If nothing is left to be ended after a call, the next one is found by its marker.
    bool found = w->args->resumes && (*s->end == 0 || after_prefix(s->separator, s->end));
    if (!w->args->parallel || s->one_call || found)
        return GRAMMAR_EMPTY;
    if (s->id != DIALECT_ID_INDEX || w->args->resumes)
        return grammar_repeat(w->b, grammar_join(w->b, separator, call_from(a, s->call_open, 1)), 0,
                              DIALECT_CALLS_MAX - 1);
    for (uint32_t number = DIALECT_CALLS_MAX - 1; number > 0; number--) {
        uint32_t parts[] = {separator, call_from(a, s->call_open, number), all};
        all = grammar_optional(w->b, grammar_join_all(w->b, parts, 3));
    }
    return all;
}

// Returns all calls. begin, open: the literals before the calls and before the first one, or the
// parts of them that the answer does not have yet.
static uint32_t calls_from(struct calling *a, const char *begin, const char *open)
{
    struct write *w = &a->w;
    uint32_t end =
        call_ends_all(w->syntax) ? (uint32_t)GRAMMAR_EMPTY : literal_at_end(a, w->syntax->end);
    uint32_t parts[] = {write_literal(w, begin, GRAMMAR_EMPTY), call_from(a, open, 0),
                        calls_after(a), end};
    return grammar_join_all(w->b, parts, 4);
}

// Calls after this marker if the syntax begins with it, else GRAMMAR_NOTHING.
static uint32_t calls_after_own(struct calling *a, const char *marker)
{
    const struct dialect_syntax *s = a->w.syntax;
    const char *begin = s->begin, *rest;
    while (*begin == '\n')
        begin++;
    if ((rest = after_prefix(begin, marker)))
        return calls_from(a, rest, s->call_open);
    rest = after_prefix(s->call_open, marker);
    return rest ? calls_from(a, "", rest) : (uint32_t)GRAMMAR_NOTHING;
}

// Calls after a marker that begins calls. A marker that is not in the syntax replaces one of the
// same role that is. If there is none, complete calls follow it, and optionally a ROLE_CALL_CLOSE.
static uint32_t calls_after_marker(struct calling *a, enum marker_role role, const char *marker)
{
    const struct dialect *d = a->w.d;
    uint32_t own = calls_after_own(a, marker);
    enum marker_role as = role == ROLE_CALL_FIRST ? ROLE_CALL_OPEN : role;
    for (uint32_t i = 0; i < ROW_MARKERS && d->row->markers[i].text; i++)
        if (own == GRAMMAR_NOTHING && d->row->markers[i].role == as)
            own = calls_after_own(a, d->row->markers[i].text);
    if (own != GRAMMAR_NOTHING)
        return own;
    const char *close = row_marker_text(d->row, ROLE_CALL_CLOSE);
    uint32_t calls = calls_from(a, a->w.syntax->begin, a->w.syntax->call_open);
    return close && !a->w.args->resumes
               ? grammar_join(a->w.b, calls,
                              grammar_optional(a->w.b, write_literal(&a->w, close, 0)))
               : calls;
}

// The text after a marker in free text.
static uint32_t calls_opened(struct calling *a, enum marker_role role, const char *marker)
{
    uint32_t calls = calls_after_marker(a, role, marker);
    if ((a->w.d->row->flags & ROW_NAME_ALL) == 0)
        return calls;
    uint32_t all = grammar_literal(a->w.b, text_of("all\n"));
    return grammar_either(a->w.b, calls, grammar_join(a->w.b, all, a->head));
}

struct openings {
    struct grammar_marker at[OPENINGS_MAX];
    // Text that must follow the marker if the text has a grammar; NULL: the name of a function and
    // a bracket.
    const char *rest[OPENINGS_MAX];
    char store[OPENINGS_MAX][GRAMMAR_MARKER_BYTES_MAX];
    uint32_t count;
};

static void opening_add(struct calling *a, struct openings *o, const char *marker, uint32_t then,
                        bool first)
{
    check(o->count < OPENINGS_MAX, "%u markers", o->count);
    char *text = o->store[o->count];
    size_t bytes = dialect_literal_bytes(a->w.d, marker, text, GRAMMAR_MARKER_BYTES_MAX);
    check(bytes <= GRAMMAR_MARKER_BYTES_MAX, "the marker %s is too long", marker);
    o->rest[o->count] = "";
    o->at[o->count++] = (struct grammar_marker){text_span(text, bytes), then, first};
}

static bool begins_special(const struct dialect *d, const char *text)
{
    size_t at = 0;
    int32_t token;
    dialect_literal_next(d, text, &at, &token);
    return token >= 0;
}

// Adds calls that begin without a mark, at the beginning of a part.
static void bare_openings(struct calling *a, struct openings *o)
{
    unsigned flags = a->w.d->row->flags;
    const struct dialect_syntax *s = a->w.syntax;
    struct grammar_builder *b = a->w.b;
    if (flags & ROW_BARE_LIST) {
        opening_add(a, o, "[", calls_after_own(a, "["), true);
        o->rest[o->count - 1] = NULL;
    }
    if (!(flags & ROW_BARE_OBJECT))
        return;
    uint32_t more = GRAMMAR_EMPTY;
    if (a->w.args->parallel)
        more = grammar_repeat(
            b, grammar_join(b, grammar_literal(b, text_of(", ")), call_from(a, s->call_open, 1)), 0,
            DIALECT_CALLS_MAX - 1);
    uint32_t list[] = {call_from(a, s->call_open, 0), more, grammar_literal(b, text_of("]"))};
    opening_add(a, o, "{", calls_after_own(a, "{"), true);
    opening_add(a, o, "[", grammar_join_all(b, list, 3), true);
    // if the text has a grammar, only this spelling is a call
    o->rest[o->count - 2] = after_prefix(s->call_open, "{");
    o->rest[o->count - 1] = s->call_open;
}

static bool reasoning_allowed(const struct dialect_grammar_args *args)
{
    return args->reasoning && !(args->no_reasoning && (args->must || args->has_text_grammar));
}

// Adds the markers that the reader searches outside of calls.
static void openings_find(struct calling *a, struct openings *o)
{
    const struct dialect_row *row = a->w.d->row;
    struct dialect_reasoning_syntax marks = dialect_reasoning_syntax(a->w.d);
    if (a->known_count > 0)
        bare_openings(a, o);
    for (uint32_t i = 0; i < ROW_MARKERS && row->markers[i].text; i++) {
        enum marker_role role = row->markers[i].role;
        const char *text = row->markers[i].text;
        if (role == ROLE_SECTION_OPEN || role == ROLE_CALL_OPEN || role == ROLE_CALL_FIRST)
            opening_add(a, o, text, calls_opened(a, role, text), role == ROLE_CALL_FIRST);
        else if ((role == ROLE_MESSAGE || role == ROLE_DROP) &&
                 (!a->w.args->has_text_grammar || begins_special(a->w.d, text)))
            opening_add(a, o, text, a->head, role == ROLE_DROP);
    }
    bool allowed = reasoning_allowed(a->w.args) && !a->reasoned;
    if (a->w.args->reasoning && marks.open)
        opening_add(a, o, marks.open, allowed ? a->reasoning : GRAMMAR_NOTHING, true);
}

// The bytes that may follow a name: the first BLANKS are blanks, the last makes it a call.
static const char after_name[] = " \t\n\r(";

static uint32_t blanks_before_call(struct grammar_builder *b)
{
    static const struct grammar_range ranges[] = {{' ', ' '}, {'\t', '\n'}, {'\r', '\r'}};
    return grammar_repeat(b, grammar_chars(b, ranges, 3), 0, GRAMMAR_UNBOUNDED);
}

// Prefixes with which a text of the content could be read as a call or as reasoning.
struct probes {
    struct text *at;
    char *store;
    uint32_t count;
    size_t bytes;
};

static void probe_add(struct probes *p, struct text mark, struct text name, struct text after)
{
    struct text parts[] = {mark, name, after};
    size_t from = p->bytes;
    for (int i = 0; i < 3; i++) {
        memcpy(p->store + p->bytes, parts[i].at, parts[i].bytes);
        p->bytes += parts[i].bytes;
    }
    p->at[p->count++] = text_span(p->store + from, p->bytes - from);
}

static void probes_add(struct calling *a, const struct openings *o, uint32_t i, struct probes *p)
{
    if (o->rest[i]) {
        probe_add(p, o->at[i].text, text_of(o->rest[i]), text_of(""));
        return;
    }
    for (uint32_t k = 0; k < BLANKS; k++)
        probe_add(p, o->at[i].text, text_of(""), text_span(after_name + k, 1));
    for (uint32_t n = 0; n < a->known_count; n++)
        for (uint32_t k = 0; k <= BLANKS; k++)
            probe_add(p, o->at[i].text, a->known[n], text_span(after_name + k, 1));
}

// Returns true if some text of the content begins with one of the prefixes.
static bool may_open(struct calling *a, const struct openings *o)
{
    size_t count = BLANKS, bytes = BLANKS, names = 0;
    for (uint32_t i = 0; i < a->known_count; i++)
        names += a->known[i].bytes;
    for (uint32_t i = 0; i < o->count; i++) {
        size_t each = o->rest[i] ? 1 : BLANKS + (BLANKS + 1) * (size_t)a->known_count;
        bytes += each * (o->at[i].text.bytes + 1);
        bytes += o->rest[i] ? strlen(o->rest[i]) : (BLANKS + 1) * names;
        count += each;
    }
    bool any = false, *begins = heap_alloc(count * sizeof *begins);
    struct probes p = {heap_alloc(count * sizeof *p.at), heap_alloc(bytes), 0, 0};
    for (uint32_t k = 0; k < BLANKS; k++)
        probe_add(&p, text_of(""), text_of(""), text_span(after_name + k, 1));
    for (uint32_t i = 0; i < o->count; i++)
        probes_add(a, o, i, &p);
    a->status = grammar_begins_all(a->w.b, a->w.args->content, p.at, p.count, begins, a->w.err);
    for (uint32_t i = 0; i < p.count && a->status == STATUS_OK; i++)
        any |= begins[i];
    heap_free(p.store);
    heap_free(p.at);
    heap_free(begins);
    return any;
}

// Text that the reader recognizes as the beginning of a call or of reasoning.
static uint32_t opening_text(struct calling *a, const struct openings *o, uint32_t i)
{
    struct grammar_builder *b = a->w.b;
    uint32_t mark = grammar_literal(b, o->at[i].text);
    if (o->rest[i])
        return grammar_join(b, mark, grammar_literal(b, text_of(o->rest[i])));
    uint32_t names = grammar_choice(b, a->known, a->known_count);
    uint32_t parts[] = {mark, blanks_before_call(b), names, blanks_before_call(b),
                        grammar_literal(b, text_of("("))};
    return grammar_join_all(b, parts, 5);
}

static void content_refuse(struct calling *a, bool later)
{
    if (a->status == STATUS_UNSUPPORTED)
        error_set(a->w.err, a->status,
                  "a text of this grammar may begin like a call or like reasoning%s, and a nested "
                  "grammar cannot be separated from these",
                  later ? " (or with a line end, which is dropped there)" : "");
    else if (a->status == STATUS_OK)
        a->status = error_set(a->w.err, STATUS_INVALID,
                              "every text of this grammar begins %slike a call or like reasoning",
                              later ? "with a line end (which is dropped after reasoning), " : "");
}

// The content without texts that begin like a call or reasoning. later: after reasoning, where the
// reader drops line ends; then also without texts that begin with a line end.
static uint32_t content_apart(struct calling *a, const struct openings *o, bool later)
{
    struct grammar_builder *b = a->w.b;
    uint32_t any = grammar_repeat(b, grammar_byte(b, 0, 0xFF), 0, GRAMMAR_UNBOUNDED);
    uint32_t openings = GRAMMAR_NOTHING, out = a->w.args->content;
    if (!may_open(a, o))
        return out;
    for (uint32_t i = 0; i < o->count; i++)
        openings = grammar_either(b, opening_text(a, o, i), openings);
    uint32_t parts[] = {blanks_before_call(b), openings, any};
    uint32_t without = grammar_join_all(b, parts, 3);
    if (later)
        without =
            grammar_either(b, grammar_join(b, grammar_literal(b, text_of("\n")), any), without);
    a->status = grammar_except(b, a->w.args->content, without, &out, a->w.err);
    if (a->status == STATUS_UNSUPPORTED ||
        (a->status == STATUS_OK && out == GRAMMAR_NOTHING && !grammar_failed(b)))
        content_refuse(a, later);
    return out;
}

// A part of an answer in which calls are optional; the beginning of another part leads to `again`.
static uint32_t head_of(struct calling *a, uint32_t again, bool later)
{
    struct openings o = {.count = 0};
    struct grammar_builder *b = a->w.b;
    a->head = again;
    openings_find(a, &o);
    if (!a->w.args->has_text_grammar)
        return grammar_free_part(b, &(struct grammar_free_part){o.at, o.count, false});
    if (a->status != STATUS_OK)
        return GRAMMAR_NOTHING;
    uint32_t all = content_apart(a, &o, later);
    for (uint32_t i = 0; i < o.count; i++)
        all =
            grammar_either(b, grammar_join(b, grammar_literal(b, o.at[i].text), o.at[i].then), all);
    return all;
}

// Text that is continued, without the marks that only count at the beginning of a part.
static uint32_t midst_of(struct calling *a)
{
    struct openings o = {.count = 0};
    uint32_t count = 0;
    if (a->w.args->has_text_grammar)
        return a->w.args->content;
    openings_find(a, &o);
    for (uint32_t i = 0; i < o.count; i++)
        if (!o.at[i].first)
            o.at[count++] = o.at[i];
    return grammar_free_part(a->w.b, &(struct grammar_free_part){o.at, count, false});
}

// Reasoning up to its end, then `then`.
static uint32_t reasoning_before(struct calling *a, uint32_t then)
{
    struct openings o = {.count = 0};
    opening_add(a, &o, dialect_reasoning_syntax(a->w.d).close, then, false);
    bool must = a->w.args->must || a->w.args->has_text_grammar;
    return grammar_free_part(a->w.b, &(struct grammar_free_part){o.at, o.count, must});
}

static uint32_t forced_root(struct calling *a)
{
    const struct dialect_grammar_args *args = a->w.args;
    const struct dialect_syntax *s = a->w.syntax;
    struct dialect_reasoning_syntax marks = dialect_reasoning_syntax(a->w.d);
    struct grammar_builder *b = a->w.b;
    const char *message = row_marker_text(a->w.d->row, ROLE_MESSAGE), *open;
    uint32_t calls = calls_from(a, s->begin, s->call_open);
    if (args->start == DIALECT_START_CALL && (open = row_marker_text(a->w.d->row, ROLE_CALL_OPEN)))
        return calls_after_marker(a, ROLE_CALL_OPEN, open);
    if (!args->reasoning || !marks.open)
        return calls;
    uint32_t part =
        message ? grammar_optional(b, write_literal(&a->w, message, 0)) : (uint32_t)GRAMMAR_EMPTY;
    uint32_t later[] = {a->gap, part, calls};
    uint32_t inside = reasoning_before(a, grammar_join_all(b, later, 3));
    if (args->start == DIALECT_START_REASONING)
        return inside;
    if (!reasoning_allowed(args))
        return calls;
    return grammar_either(b, calls, grammar_join(b, write_literal(&a->w, marks.open, 0), inside));
}

static uint32_t free_root(struct calling *a)
{
    const struct dialect_grammar_args *args = a->w.args;
    struct grammar_builder *b = a->w.b;
    const char *open = row_marker_text(a->w.d->row, ROLE_CALL_OPEN);
    bool begun = args->reasoning && args->start == DIALECT_START_REASONING;
    bool reasons = (begun || reasoning_allowed(args)) && dialect_reasoning_syntax(a->w.d).open;
    uint32_t head, reasoning, later, answer = grammar_rule(b, text_of("answer"), &head);
    uint32_t after = answer;
    a->reasoning = grammar_rule(b, text_of("reasoning"), &reasoning);
    grammar_rule_set(b, head, head_of(a, answer, false));
    if (args->has_text_grammar && reasons) {
        uint32_t last = grammar_rule(b, text_of("answer after reasoning"), &later);
        a->reasoned = args->reasoning_once;
        grammar_rule_set(b, later, head_of(a, last, true));
        a->reasoned = false;
        after = grammar_join(b, a->gap, last);
        a->head = answer;
    }
    grammar_rule_set(b, reasoning, reasons ? reasoning_before(a, after) : GRAMMAR_NOTHING);
    if (args->resumes)
        return answer;
    if (args->start == DIALECT_START_REASONING && reasons)
        return a->reasoning;
    if (args->start == DIALECT_START_MIDST)
        return midst_of(a);
    return args->start == DIALECT_START_CALL && open ? calls_opened(a, ROLE_CALL_OPEN, open)
                                                     : a->head;
}

static bool is_allowed(const json_t *allowed, struct text name)
{
    bool found = !allowed;
    for (size_t i = 0; i < json_array_size(allowed); i++) {
        const json_t *one = json_array_get(allowed, i);
        found |= text_equal(text_span(json_string_value(one), json_string_length(one)), name);
    }
    return found;
}

static const json_t *function_of(const json_t *tool)
{
    const json_t *inner = json_object_get(tool, "function");
    return inner ? inner : tool;
}

static struct text name_of(const json_t *tool)
{
    const json_t *own = json_object_get(function_of(tool), "name");
    return text_span(json_string_value(own), json_string_length(own));
}

static enum status function_add(struct calling *a, const json_t *tool)
{
    const json_t *function = function_of(tool), *parameters = NULL;
    struct text name = name_of(tool);
    bool strict = json_is_true(json_object_get(function, "strict"));
    enum arguments_fit fit = strict ? FIT_STRICT : a->w.args->must ? FIT_FORCED : FIT_ANY;
    struct error inside = {0}, *err = a->w.err;
    if (!is_allowed(a->w.args->allowed, name) || !tool_schema(a->w.args->tools, name, &parameters))
        return STATUS_OK;
    uint32_t *arguments = &a->arguments[a->count];
    a->w.err = &inside;
    enum status status = write_arguments(&a->w, parameters, fit, arguments);
    if (status == STATUS_OK)
        status = grammar_failure(a->w.b, &inside);
    a->w.err = err;
    if (status == STATUS_OK && *arguments == GRAMMAR_NOTHING) {
        status = STATUS_INVALID;
        snprintf(inside.text, sizeof inside.text, "no arguments are valid");
    }
    if (status != STATUS_OK) {
        error_set(err, status, "tool '%.*s': %s", (int)name.bytes, name.at, inside.text);
        return status;
    }
    a->names[a->count++] = name;
    return STATUS_OK;
}

enum status dialect_grammar(struct grammar_builder *b, const struct dialect_grammar_args *args,
                            uint32_t *root, struct error *err)
{
    size_t count = json_array_size(args->tools);
    struct calling a = {.w = {.b = b,
                              .args = args,
                              .d = args->dialect,
                              .syntax = dialect_syntax(args->dialect),
                              .err = err}};
    enum status status = STATUS_OK;
    *root = GRAMMAR_NOTHING;
    check(a.w.syntax || count == 0, "the dialect has no calls");
    check(!args->resumes || !(args->must || args->has_text_grammar),
          "calls that are forced resume");
    if (args->has_text_grammar && args->content == GRAMMAR_NOTHING && !grammar_failed(b))
        return error_set(err, STATUS_INVALID, "no text at all matches the grammar");
    a.names = heap_alloc((count + 1) * sizeof *a.names);
    a.arguments = heap_alloc((count + 1) * sizeof *a.arguments);
    a.known = heap_alloc((count + 1) * sizeof *a.known);
    a.gap = grammar_repeat(b, grammar_literal(b, text_of("\n")), 0, READ_GAP);
    if (count > 0)
        write_arguments_begin(&a.w);
    for (; a.known_count < count; a.known_count++)
        a.known[a.known_count] = name_of(json_array_get(args->tools, a.known_count));
    for (size_t i = 0; i < count && status == STATUS_OK; i++)
        status = function_add(&a, json_array_get(args->tools, i));
    if (status == STATUS_OK)
        *root = args->must ? forced_root(&a) : free_root(&a);
    if (a.status != STATUS_OK)
        *root = GRAMMAR_NOTHING;
    heap_free(a.names);
    heap_free(a.known);
    heap_free(a.arguments);
    return status == STATUS_OK ? a.status : status;
}
