// SPDX-License-Identifier: Apache-2.0
// Budget for reasoning; see budget.h. The close of reasoning is forced with the tokens that the
// tokenizer produces. If the model has begun the close with other tokens, the rest is tokenized
// separately.
#include "runtime/text/dialect/budget.h"

#include "runtime/grammar/vocabulary.h"
#include "runtime/text/dialect/row.h"

#include <string.h>

struct marks {
    struct token_budget_mark at[TOKEN_BUDGET_MARKS_MAX];
    char store[TOKEN_BUDGET_MARKS_MAX][TOKEN_BUDGET_BYTES_MAX];
    uint32_t count;
};

static void mark_add(struct marks *m, const struct dialect *d, const char *literal,
                     enum token_budget_role role)
{
    check(m->count < TOKEN_BUDGET_MARKS_MAX, "%u marks", m->count);
    size_t bytes = dialect_literal_bytes(d, literal, m->store[m->count], TOKEN_BUDGET_BYTES_MAX);
    check(bytes <= TOKEN_BUDGET_BYTES_MAX, "the mark %s is too long", literal);
    m->at[m->count] = (struct token_budget_mark){text_span(m->store[m->count], bytes), role};
    m->count++;
}

struct writing {
    const struct tokenizer *tokenizer;
    uint32_t vocab;
    struct arena *arena;
    struct text mark; // the mark's bytes; special tokens as in vocabulary_args
    char store[TOKEN_BUDGET_BYTES_MAX];
};

static void writing_begin(struct writing *w, const struct dialect *d, const char *literal)
{
    size_t bytes = dialect_literal_bytes(d, literal, w->store, sizeof w->store);
    check(bytes <= sizeof w->store, "the mark %s is too long", literal);
    w->mark = text_span(w->store, bytes);
}

// Returns the number of bytes of the mark from `at` on that the token covers; 0: it does not match.
// At the beginning of the mark, leading blanks of the token are ignored.
static size_t token_covers(const struct writing *w, size_t at, int32_t token)
{
    const struct tokenizer *t = w->tokenizer;
    bool special = tokenizer_is_special(t, token);
    struct text bytes = special ? tokenizer_token_text(t, token) : tokenizer_token_bytes(t, token);
    size_t before = special;
    while (at == 0 && !special && bytes.bytes > 0 && bytes.at[0] == ' ')
        bytes = text_span(bytes.at + 1, bytes.bytes - 1);
    if (special && (uint8_t)w->mark.at[at] != VOCABULARY_SPECIAL_BYTE)
        return 0;
    if (bytes.bytes == 0 || before + bytes.bytes > w->mark.bytes - at ||
        memcmp(w->mark.at + at + before, bytes.at, bytes.bytes) != 0)
        return 0;
    return before + bytes.bytes;
}

// Tokenizes the rest of the literal, which begins at byte `at` of the mark, and stores each token
// at the byte where it begins unless there is one already. Stops where the model lacks a token.
static void rest_write(const struct writing *w, const char *rest, size_t at, int32_t *tokens)
{
    int32_t ids[TOKEN_BUDGET_BYTES_MAX + 8];
    uint32_t count = 0;
    struct error err;
    struct encode_args encode = {
        .text = text_of(rest), .flags = ENCODE_ADDED_TOKENS, .arena = w->arena};
    if (tokenizer_encode(w->tokenizer, &encode, ids, sizeof ids / sizeof *ids, &count, &err) !=
        STATUS_OK)
        return;
    for (uint32_t i = 0; i < count && at < w->mark.bytes; i++) {
        size_t bytes = token_covers(w, at, ids[i]);
        if (bytes == 0 || (w->vocab != 0 && (uint32_t)ids[i] >= w->vocab))
            return;
        if (tokens[at] < 0)
            tokens[at] = ids[i];
        at += bytes;
    }
}

static void tokens_clear(int32_t tokens[TOKEN_BUDGET_BYTES_MAX])
{
    for (size_t i = 0; i < TOKEN_BUDGET_BYTES_MAX; i++)
        tokens[i] = -1;
}

// Tokenizes the complete close first, then its rest from each character on.
static void close_write(const struct writing *w, const char *literal, int32_t *tokens)
{
    size_t at = 0;
    tokens_clear(tokens);
    for (const char *rest = literal; *rest != 0; rest++, at++) {
        bool special = (uint8_t)w->mark.at[at] == VOCABULARY_SPECIAL_BYTE;
        if (((uint8_t)*rest & 0xC0) != 0x80 && tokens[at] < 0)
            rest_write(w, rest, at, tokens);
        at += special;
    }
}

bool dialect_closing_make(struct dialect_closing *out, const struct dialect *d,
                          const struct tokenizer *tokenizer, uint32_t vocab, struct arena *arena)
{
    struct dialect_reasoning_syntax syntax = dialect_reasoning_syntax(d);
    struct writing w = {.tokenizer = tokenizer, .vocab = vocab, .arena = arena};
    tokens_clear(out->forced);
    if (!syntax.open)
        return false;
    writing_begin(&w, d, syntax.close);
    close_write(&w, syntax.close, out->forced);
    return out->forced[0] >= 0;
}

// Adds the marks that the reader searches outside of reasoning.
static void row_marks_add(struct marks *m, const struct dialect *d, bool calls)
{
    for (uint32_t i = 0; i < ROW_MARKERS && d->row->markers[i].text; i++) {
        const struct row_marker *marker = &d->row->markers[i];
        unsigned role = ROLE_BIT(marker->role);
        if (role & (ROLE_BIT(ROLE_MESSAGE) | ROLE_BIT(ROLE_DROP)))
            mark_add(m, d, marker->text, marker->role == ROLE_DROP ? BUDGET_DROP : BUDGET_PART);
        else if (calls && marker->role == ROLE_CALL_FIRST)
            mark_add(m, d, marker->text, BUDGET_FIRST);
        else if (calls && (role & (ROLE_BIT(ROLE_SECTION_OPEN) | ROLE_BIT(ROLE_CALL_OPEN))))
            mark_add(m, d, marker->text, BUDGET_CALL);
        else if (calls && (role & (ROLE_BIT(ROLE_SECTION_CLOSE) | ROLE_BIT(ROLE_CALL_CLOSE))))
            mark_add(m, d, marker->text, BUDGET_END);
    }
    if (calls && (d->row->flags & ROW_NAME_ALL))
        mark_add(m, d, ROW_ALL_LINE, BUDGET_PART);
}

// How the arguments of each form end without a mark.
static struct token_budget_calls calls_of(const struct dialect_row *row)
{
    static const struct token_budget_calls forms[] = {
        [FORM_OBJECT] = {.open = "{", .again = "{[", .quotes = "\""},
        [FORM_NAMED] = {.open = "{", .quotes = "\""},
        [FORM_PYTHON] = {.open = "([", .quotes = "'\""},
        [FORM_BARE_KEYS] = {.open = "{"},
    };
    struct token_budget_calls calls = {0};
    if (row->form < sizeof forms / sizeof *forms)
        calls = forms[row->form];
    if (row->flags & ROW_OBJECT_TOO)
        calls.again = "{";
    if (row->flags & ROW_BARE_OBJECT)
        calls.bare = "{[";
    else if (row->flags & ROW_BARE_LIST)
        calls.bare = "[";
    return calls;
}

bool dialect_budget(const struct dialect *d, const struct dialect_budget_args *args,
                    struct token_budget *out)
{
    struct dialect_reasoning_syntax syntax = dialect_reasoning_syntax(d);
    const struct dialect_closing *closing = args->closing;
    struct marks marks = {.count = 0};
    bool calls = args->calls && dialect_has_calls(d);
    char close[TOKEN_BUDGET_BYTES_MAX];
    if (!syntax.open)
        return false;
    mark_add(&marks, d, syntax.open, BUDGET_OPEN);
    row_marks_add(&marks, d, calls);
    size_t bytes = dialect_literal_bytes(d, syntax.close, close, sizeof close);
    check(bytes <= sizeof close, "the mark %s is too long", syntax.close);
    token_budget_make(out, &(struct token_budget_args){
                               .tokens_max = args->tokens_max,
                               .marks = marks.at,
                               .mark_count = marks.count,
                               .close = text_span(close, bytes),
                               .forced = closing->forced,
                               .before = args->before,
                               .inside = args->start == DIALECT_START_REASONING,
                               .called = calls && args->start == DIALECT_START_CALL,
                               .calls = calls ? calls_of(d->row) : (struct token_budget_calls){0}});
    return closing->forced[0] >= 0;
}
