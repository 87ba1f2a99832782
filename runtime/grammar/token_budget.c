// SPDX-License-Identifier: Apache-2.0
// Matches marks byte by byte: those at the beginning of a part in parallel, the others by the
// algorithm of Knuth, Morris and Pratt. See token_budget.h.
#include "runtime/grammar/token_budget.h"

#include "base/status.h"
#include "runtime/grammar/vocabulary.h"

#include <string.h>

// Returns the length of the longest prefix of the mark that its first `matched` bytes and `byte`
// end with.
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

// The state that remains when another part of the answer begins. Partial matches remain, because a
// longer mark may have begun with this one.
static struct token_budget_place place_after(const struct token_budget_place *at)
{
    struct token_budget_place after = {.tokens = at->tokens, .closed = at->closed};
    memcpy(after.parts, at->parts, sizeof after.parts);
    return after;
}

static void head_begin(struct token_budget_place *at)
{
    *at = place_after(at);
    at->head = true;
}

static void inside_begin(struct token_budget_place *at)
{
    *at = (struct token_budget_place){.tokens = at->tokens, .closed = at->closed, .inside = true};
}

static bool is_blank(uint8_t byte)
{
    return byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r';
}

// Returns the number of bytes that follow the first byte of a character.
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
    if (at->matched < b->close.count)
        return;
    head_begin(at);
    at->closed = true;
}

static bool is_of(const char *chars, uint8_t byte)
{
    return chars && byte != 0 && strchr(chars, byte);
}

static void call_begin(struct token_budget_place *at)
{
    *at = place_after(at);
    at->called = true;
}

static void call_end(struct token_budget_place *at)
{
    head_begin(at);
    at->between = true;
}

// Handles a byte of a call. An early bracket that no string follows is text.
static void byte_called(const struct token_budget *b, struct token_budget_place *at, uint8_t byte)
{
    if (at->quote != 0) {
        bool over = !at->escaped && byte == (uint8_t)at->quote;
        at->escaped = !at->escaped && byte == '\\';
        if (over || byte < 0x20) // strings contain no line ends
            at->quote = 0;
    } else if (at->early && !is_blank(byte) && !is_of("{[\"", byte)) {
        *at = place_after(at);
    } else if (at->depth > 0 && is_of(b->calls.quotes, byte)) {
        at->quote = (char)byte;
        at->early = false;
    } else if (is_of(at->depth > 0 ? "{[(" : b->calls.open, byte)) {
        at->depth = (uint16_t)(at->depth + (at->depth < UINT16_MAX));
    } else if (at->depth > 0 && is_of("}])", byte) && --at->depth == 0) {
        call_end(at);
    }
}

// Handles a complete mark at a head.
static void head_marked(struct token_budget_place *at, enum token_budget_role role)
{
    if (role == BUDGET_OPEN)
        inside_begin(at);
    else if (role == BUDGET_FIRST)
        call_begin(at);
    else if (role == BUDGET_END)
        call_end(at);
    else
        head_begin(at);
}

// Returns true if a call begins with this bracket. Between calls, a mark that begins with it has
// priority.
static bool bracket_begins(const struct token_budget *b, const struct token_budget_place *at,
                           uint8_t byte)
{
    bool begins = at->between && is_of(b->calls.again, byte);
    for (uint32_t i = 0; i < b->mark_count && begins; i++)
        begins &= b->marks[i].role <= BUDGET_DROP || b->marks[i].bytes[0] != byte;
    return begins || is_of(b->calls.bare, byte);
}

// Handles a byte at the beginning of a part, where it may belong to a mark.
static void byte_head(const struct token_budget *b, struct token_budget_place *at, uint8_t byte)
{
    uint16_t alive = 0;
    bool first = at->matched == 0;
    if (first && (is_blank(byte) || (at->between && b->calls.again && is_of(",;]}", byte))))
        return;
    if (first && bracket_begins(b, at, byte)) {
        call_begin(at);
        at->early = b->calls.again != NULL;
        byte_called(b, at, byte);
        return;
    }
    for (uint32_t i = 0; i < b->mark_count; i++) {
        const struct token_budget_bytes *m = &b->marks[i];
        bool was = first || (at->alive >> i & 1);
        bool here = m->role <= BUDGET_FIRST || (m->role == BUDGET_END && (at->between || !first));
        if (!here || !was || m->bytes[at->matched] != byte)
            continue;
        alive |= (uint16_t)(1u << i);
        if (at->matched + 1 < m->count)
            continue;
        head_marked(at, (enum token_budget_role)m->role);
        return;
    }
    at->alive = alive;
    at->head = alive != 0;
    at->between = false;
    at->matched++;
}

// Adds a byte to the match of a mark that is searched everywhere; *matched bytes matched before.
// Returns true if the mark is complete and counts. In a string of a call only special tokens count.
static bool mark_ends(const struct token_budget_place *at, const struct token_budget_bytes *m,
                      uint8_t *matched, uint8_t byte)
{
    *matched = matched_next(m, *matched, byte);
    if (*matched < m->count)
        return false;
    bool counts = (m->role != BUDGET_END || at->called) &&
                  (at->quote == 0 || m->bytes[0] == VOCABULARY_SPECIAL_BYTE);
    *matched = counts ? 0 : m->back[m->count - 1];
    return counts;
}

static void byte_outside(const struct token_budget *b, struct token_budget_place *at, uint8_t byte,
                         bool special)
{
    const struct token_budget_bytes *ended = NULL; // the first, if several end here
    bool begun = false;
    for (uint32_t i = 0, part = 0; i < b->mark_count; i++) {
        const struct token_budget_bytes *m = &b->marks[i];
        if (m->role <= BUDGET_FIRST || !mark_ends(at, m, &at->parts[part++], byte))
            continue;
        if (m->role == BUDGET_CALL)
            begun = true;
        else if (!ended)
            ended = m;
    }
    if (ended) {
        head_begin(at);
        at->between = ended->role == BUDGET_END;
        return;
    }
    if (begun)
        call_begin(at);
    else if (at->called && (!special || at->early))
        byte_called(b, at, byte);
    else if (at->head)
        byte_head(b, at, byte);
}

static void bytes_read(const struct token_budget *b, struct token_budget_place *at,
                       struct text bytes)
{
    bool special = bytes.bytes > 0 && (uint8_t)bytes.at[0] == VOCABULARY_SPECIAL_BYTE;
    for (size_t i = 0; i < bytes.bytes; i++)
        if (at->inside)
            byte_inside(b, at, (uint8_t)bytes.at[i]);
        else
            byte_outside(b, at, (uint8_t)bytes.at[i], special);
}

void token_budget_make(struct token_budget *b, const struct token_budget_args *args)
{
    uint32_t parts = 0;
    *b = (struct token_budget){
        .tokens_max = args->tokens_max, .mark_count = args->mark_count, .calls = args->calls};
    check(args->mark_count <= TOKEN_BUDGET_MARKS_MAX, "%u marks", args->mark_count);
    for (uint32_t i = args->mark_count; i-- > 0;) {
        bytes_make(&b->marks[i], args->marks[i].text, args->marks[i].role);
        if (args->marks[i].role == BUDGET_OPEN)
            b->open_mark = (uint8_t)i;
        parts += args->marks[i].role > BUDGET_FIRST;
    }
    check(parts <= TOKEN_BUDGET_PARTS_MAX, "%u marks of parts", parts);
    bytes_make(&b->close, args->close, BUDGET_PART);
    memcpy(b->forced, args->forced, args->close.bytes * sizeof *b->forced);
    if (args->inside)
        inside_begin(&b->start);
    else
        head_begin(&b->start);
    if (args->called)
        call_begin(&b->start);
    bytes_read(b, &b->start, args->before);
}

void token_budget_next(const struct token_budget *b, struct token_budget_place *at,
                       struct text bytes)
{
    at->tokens += at->inside;
    bytes_read(b, at, bytes);
}

int32_t token_budget_forced(const struct token_budget *b, const struct token_budget_place *at)
{
    bool late = at->tokens >= b->tokens_max && at->tokens - b->tokens_max >= TOKEN_BUDGET_LATE;
    if (!at->inside || at->tokens < b->tokens_max || (at->left > 0 && !late))
        return -1;
    return b->forced[at->matched];
}

struct token_budget_ban token_budget_banned(const struct token_budget *b,
                                            const struct token_budget_place *at)
{
    const struct token_budget_bytes *open = &b->marks[b->open_mark];
    bool spent = at->closed && at->tokens >= b->tokens_max;
    // The partial match is of that mark.
    bool begun = at->matched == 0 || (at->alive >> b->open_mark & 1);
    if (!spent || !at->head || !begun)
        return (struct token_budget_ban){text_of(""), ""};
    bool lists = at->between && b->calls.again; // true if byte_head skips ,;]} too
    return (struct token_budget_ban){
        .rest = text_span((const char *)open->bytes + at->matched, open->count - at->matched),
        .skip = at->matched > 0 ? ""
                : lists         ? " \n\t\r,;]}"
                                : " \n\t\r"};
}
