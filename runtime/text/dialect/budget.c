// See budget.h. The close of reasoning is forced as the tokenizer writes it. Where the model has
// begun it with other tokens, what is left of it is written so.
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

struct closing {
    const struct tokenizer *tokenizer;
    uint32_t vocab;
    struct arena *arena;
    struct text close; // as bytes of the vocabulary
    int32_t forced[TOKEN_BUDGET_BYTES_MAX];
};

// How many bytes of the close from `at` on a token is; 0: it is none of them. Before its beginning
// there may be blanks.
static size_t token_covers(const struct closing *c, size_t at, int32_t token)
{
    const struct tokenizer *t = c->tokenizer;
    bool special = tokenizer_is_special(t, token);
    struct text bytes = special ? tokenizer_token_text(t, token) : tokenizer_token_bytes(t, token);
    size_t before = special;
    while (at == 0 && !special && bytes.bytes > 0 && bytes.at[0] == ' ')
        bytes = text_span(bytes.at + 1, bytes.bytes - 1);
    if (special && (uint8_t)c->close.at[at] != VOCABULARY_SPECIAL_BYTE)
        return 0;
    if (bytes.bytes == 0 || before + bytes.bytes > c->close.bytes - at ||
        memcmp(c->close.at + at + before, bytes.at, bytes.bytes) != 0)
        return 0;
    return before + bytes.bytes;
}

// Forces the tokens of the rest of the literal, which begins at this byte of the close.
static void rest_force(struct closing *c, const char *rest, size_t at)
{
    int32_t tokens[TOKEN_BUDGET_BYTES_MAX + 8];
    uint32_t count = 0;
    struct error err;
    struct encode_args encode = {
        .text = text_of(rest), .flags = ENCODE_ADDED_TOKENS, .arena = c->arena};
    if (tokenizer_encode(c->tokenizer, &encode, tokens, sizeof tokens / sizeof *tokens, &count,
                         &err) != STATUS_OK)
        return;
    for (uint32_t i = 0; i < count && at < c->close.bytes; i++) {
        size_t bytes = token_covers(c, at, tokens[i]);
        if (bytes == 0 || (c->vocab != 0 && (uint32_t)tokens[i] >= c->vocab))
            return;
        if (c->forced[at] < 0)
            c->forced[at] = tokens[i];
        at += bytes;
    }
}

// Of the whole close first, then of what is left of it at each character.
static void close_force(struct closing *c, const char *literal)
{
    size_t at = 0;
    for (size_t i = 0; i < TOKEN_BUDGET_BYTES_MAX; i++)
        c->forced[i] = -1;
    for (const char *rest = literal; *rest != 0; rest++, at++) {
        bool special = (uint8_t)c->close.at[at] == VOCABULARY_SPECIAL_BYTE;
        if (((uint8_t)*rest & 0xC0) != 0x80 && c->forced[at] < 0)
            rest_force(c, rest, at);
        at += special;
    }
}

static enum token_budget_role budget_role(enum marker_role role)
{
    return role == ROLE_MESSAGE ? BUDGET_PART : BUDGET_DROP;
}

bool dialect_budget(const struct dialect *d, const struct dialect_budget_args *args,
                    struct token_budget *out)
{
    struct dialect_reasoning_syntax syntax = dialect_reasoning_syntax(d);
    struct marks marks = {.count = 0};
    char close[TOKEN_BUDGET_BYTES_MAX];
    if (!syntax.open)
        return false;
    mark_add(&marks, d, syntax.open, BUDGET_OPEN);
    for (uint32_t i = 0; i < ROW_MARKERS && d->row->markers[i].text; i++) {
        const struct row_marker *marker = &d->row->markers[i];
        if (marker->role == ROLE_MESSAGE || marker->role == ROLE_DROP)
            mark_add(&marks, d, marker->text, budget_role(marker->role));
    }
    struct closing closing = {
        .tokenizer = args->tokenizer, .vocab = args->vocab, .arena = args->arena};
    size_t bytes = dialect_literal_bytes(d, syntax.close, close, sizeof close);
    check(bytes <= sizeof close, "the mark %s is too long", syntax.close);
    closing.close = text_span(close, bytes);
    close_force(&closing, syntax.close);
    token_budget_make(
        out, &(struct token_budget_args){.tokens_max = args->tokens_max,
                                         .marks = marks.at,
                                         .mark_count = marks.count,
                                         .close = closing.close,
                                         .forced = closing.forced,
                                         .before = args->before,
                                         .inside = args->start == DIALECT_START_REASONING});
    return closing.forced[0] >= 0;
}
