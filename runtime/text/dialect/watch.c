// SPDX-License-Identifier: Apache-2.0
// See watch.h. The markers are those that grammar.c takes for the free part of an answer
// (openings_find there).
#include "runtime/text/dialect/watch.h"

#include "runtime/text/dialect/row.h"

enum { MARKERS_MAX = ROW_MARKERS + 1 };

struct watched {
    struct grammar_marker at[MARKERS_MAX];
    char store[MARKERS_MAX][GRAMMAR_MARKER_BYTES_MAX];
    uint32_t count;
};

static struct text literal_put(const struct dialect *d, const char *literal, char *out)
{
    size_t bytes = literal ? dialect_literal_bytes(d, literal, out, GRAMMAR_MARKER_BYTES_MAX) : 0;
    check(bytes <= GRAMMAR_MARKER_BYTES_MAX, "the marker %s is too long", literal);
    return text_span(out, bytes);
}

static void watched_add(struct watched *w, const struct dialect *d, const char *literal,
                        enum token_watch_then then, bool first)
{
    check(w->count < MARKERS_MAX, "%u markers", w->count);
    struct text text = literal_put(d, literal, w->store[w->count]);
    w->at[w->count++] = (struct grammar_marker){text, then, first};
}

static void row_add(struct watched *w, const struct dialect *d, const struct row_marker *marker)
{
    enum marker_role role = marker->role;
    if (role == ROLE_SECTION_OPEN || role == ROLE_CALL_OPEN || role == ROLE_CALL_FIRST)
        watched_add(w, d, marker->text, TOKEN_THEN_GRAMMAR, role == ROLE_CALL_FIRST);
    else if (role == ROLE_MESSAGE || role == ROLE_DROP)
        watched_add(w, d, marker->text, TOKEN_THEN_PART, role == ROLE_DROP);
}

bool dialect_marks_calls(const struct dialect *d)
{
    const struct dialect_syntax *s = d->row ? dialect_syntax(d) : NULL;
    return s && *s->trigger != 0;
}

struct token_watch *dialect_watch(const struct dialect *d, const struct vocabulary *v)
{
    struct dialect_reasoning_syntax marks = dialect_reasoning_syntax(d);
    struct watched w = {.count = 0};
    const char *call_open = row_marker_text(d->row, ROLE_CALL_OPEN);
    char open[GRAMMAR_MARKER_BYTES_MAX], close[sizeof open], call[sizeof open];
    for (uint32_t i = 0; i < ROW_MARKERS && d->row->markers[i].text; i++)
        row_add(&w, d, &d->row->markers[i]);
    if (marks.open)
        watched_add(&w, d, marks.open, TOKEN_THEN_REASONING, true);
    struct token_watch_args args = {.vocabulary = v,
                                    .markers = w.at,
                                    .count = w.count,
                                    .reasoning_open = literal_put(d, marks.open, open),
                                    .reasoning_close = literal_put(d, marks.close, close),
                                    .call = literal_put(d, call_open, call)};
    return token_watch_create(&args);
}

enum token_phase dialect_watch_start(const struct dialect *d, enum dialect_start start)
{
    switch (start) {
    case DIALECT_START_REASONING:
        return dialect_reasoning_syntax(d).open ? TOKEN_REASONING : TOKEN_HEAD;
    case DIALECT_START_MIDST:
        return TOKEN_TEXT;
    case DIALECT_START_CALL:
        return row_marker_text(d->row, ROLE_CALL_OPEN) ? TOKEN_CALL : TOKEN_HEAD;
    default:
        return TOKEN_HEAD;
    }
}
