// See token_budget.h. Marks are followed byte by byte: those at the beginning of a part together,
// the others as in the search of Knuth, Morris and Pratt.
#include "runtime/grammar/token_budget.h"

#include "base/status.h"

#include <string.h>

// The length of the longest beginning that `matched` bytes of it and this one end with.
static uint8_t matched_next(const struct token_budget_bytes *m, uint8_t matched, uint8_t byte)
{
    while (matched > 0 && m->bytes[matched] != byte)
        matched = m->back[matched - 1];
    return m->bytes[matched] == byte ? matched + 1 : 0;
}

static void bytes_make(struct token_budget_bytes *m, struct text text, enum token_budget_role role)
{
    check(text.bytes > 0 && text.bytes <= TOKEN_BUDGET_BYTES_MAX, "a mark of %zu bytes",
          text.bytes);
    *m = (struct token_budget_bytes){.count = (uint8_t)text.bytes, .role = (uint8_t)role};
    memcpy(m->bytes, text.at, text.bytes);
    for (uint8_t i = 1; i < m->count; i++)
        m->back[i] = matched_next(m, m->back[i - 1], m->bytes[i]);
}

static void head_begin(struct token_budget_place *at)
{
    *at = (struct token_budget_place){.tokens = at->tokens, .head = true};
}

static void inside_begin(struct token_budget_place *at)
{
    *at = (struct token_budget_place){.tokens = at->tokens, .inside = true};
}

static bool is_blank(uint8_t byte)
{
    return byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r';
}

// Bytes that follow the first one of a character.
static uint8_t bytes_after(uint8_t lead)
{
    if (lead < 0xC2 || lead > 0xF4)
        return 0;
    return lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3;
}

static void byte_inside(const struct token_budget *b, struct token_budget_place *at, uint8_t byte)
{
    at->left = at->left > 0 && (byte & 0xC0) == 0x80 ? at->left - 1 : bytes_after(byte);
    at->matched = matched_next(&b->close, at->matched, byte);
    if (at->matched == b->close.count)
        head_begin(at);
}

// A byte after those of this part that may be a mark.
static void byte_head(const struct token_budget *b, struct token_budget_place *at, uint8_t byte)
{
    uint16_t alive = 0;
    if (at->matched == 0 && is_blank(byte))
        return;
    for (uint32_t i = 0; i < b->mark_count; i++) {
        const struct token_budget_bytes *m = &b->marks[i];
        bool was = at->matched == 0 || (at->alive >> i & 1);
        if (m->role == BUDGET_PART || !was || m->bytes[at->matched] != byte)
            continue;
        alive |= (uint16_t)(1u << i);
        if (at->matched + 1 < m->count)
            continue;
        if (m->role == BUDGET_OPEN)
            inside_begin(at);
        else
            head_begin(at);
        return;
    }
    at->alive = alive;
    at->head = alive != 0;
    at->matched++;
}

static void byte_outside(const struct token_budget *b, struct token_budget_place *at, uint8_t byte)
{
    for (uint32_t i = 0, part = 0; i < b->mark_count; i++) {
        const struct token_budget_bytes *m = &b->marks[i];
        if (m->role != BUDGET_PART)
            continue;
        at->parts[part] = matched_next(m, at->parts[part], byte);
        if (at->parts[part++] < m->count)
            continue;
        head_begin(at);
        return;
    }
    if (at->head)
        byte_head(b, at, byte);
}

static void bytes_take(const struct token_budget *b, struct token_budget_place *at,
                       struct text bytes)
{
    for (size_t i = 0; i < bytes.bytes; i++)
        if (at->inside)
            byte_inside(b, at, (uint8_t)bytes.at[i]);
        else
            byte_outside(b, at, (uint8_t)bytes.at[i]);
}

void token_budget_make(struct token_budget *b, const struct token_budget_args *args)
{
    uint32_t parts = 0;
    *b = (struct token_budget){.tokens_max = args->tokens_max, .mark_count = args->mark_count};
    check(args->mark_count <= TOKEN_BUDGET_MARKS_MAX, "%u marks", args->mark_count);
    for (uint32_t i = 0; i < args->mark_count; i++) {
        bytes_make(&b->marks[i], args->marks[i].text, args->marks[i].role);
        parts += args->marks[i].role == BUDGET_PART;
    }
    check(parts <= TOKEN_BUDGET_PARTS_MAX, "%u marks of parts", parts);
    bytes_make(&b->close, args->close, BUDGET_PART);
    memcpy(b->forced, args->forced, args->close.bytes * sizeof *b->forced);
    if (args->inside)
        inside_begin(&b->start);
    else
        head_begin(&b->start);
    bytes_take(b, &b->start, args->before);
}

void token_budget_next(const struct token_budget *b, struct token_budget_place *at,
                       struct text bytes)
{
    at->tokens += at->inside;
    bytes_take(b, at, bytes);
}

int32_t token_budget_forced(const struct token_budget *b, const struct token_budget_place *at)
{
    bool late = at->tokens >= b->tokens_max && at->tokens - b->tokens_max >= TOKEN_BUDGET_LATE;
    if (!at->inside || at->tokens < b->tokens_max || (at->left > 0 && !late))
        return -1;
    return b->forced[at->matched];
}
