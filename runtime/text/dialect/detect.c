// SPDX-License-Identifier: Apache-2.0
// Finds the row of a template in the table, and converts the row's markers to symbols; see
// dialect.h. Runs once per model, at load.
#include "base/status.h"
#include "runtime/grammar/vocabulary.h"
#include "runtime/text/dialect/row.h"

enum { SPECIAL = 0x100 };

static bool source_has(struct text source, const char *sign)
{
    return *sign == 0 || (source.bytes > 0 && memmem(source.at, source.bytes, sign, strlen(sign)));
}

static bool row_fits(const struct dialect_row *row, struct text source)
{
    if (row->also && source_has(source, row->also))
        return true;
    for (uint32_t i = 0; i < ROW_SIGNS; i++)
        if (row->signs[i] && !source_has(source, row->signs[i]))
            return false;
    return true;
}

// Returns the longest special token with which the text begins, or -1.
static int32_t special_at(const struct dialect *d, struct text text, size_t *bytes)
{
    int32_t best = -1;
    *bytes = 0;
    for (uint32_t i = 0; i < d->special_count; i++) {
        struct text name = tokenizer_token_text(d->tokenizer, d->specials[i]);
        if (name.bytes > *bytes && name.bytes <= text.bytes &&
            memcmp(name.at, text.at, name.bytes) == 0) {
            best = d->specials[i];
            *bytes = name.bytes;
        }
    }
    return best;
}

static bool stands_in(const char *literal, struct text name)
{
    return literal && memmem(literal, strlen(literal), name.at, name.bytes);
}

static bool row_has(const struct dialect_row *row, struct text name)
{
    const struct dialect_syntax *s = &row->syntax;
    const char *const all[] = {
        s->trigger,     s->begin,     s->call_open,          s->name_close,  s->call_close,
        s->separator,   s->end,       s->key_open,           s->string_open, s->other_open,
        s->value_close, s->value_end, s->parameter_separator};
    bool found = false;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        found |= stands_in(all[i], name);
    for (uint32_t i = 0; i < ROW_MARKERS && row->markers[i].text; i++)
        found |= stands_in(row->markers[i].text, name);
    return found;
}

static bool reasoning_has(const struct dialect_reasoning *reasoning, struct text name)
{
    return stands_in(reasoning->syntax.open, name) || stands_in(reasoning->syntax.close, name);
}

bool dialect_table_has(struct text piece)
{
    bool found = false;
    for (uint32_t i = 0; i < dialect_row_count && !found; i++)
        found = row_has(&dialect_rows[i], piece);
    for (uint32_t i = 0; i < dialect_reasoning_count && !found; i++)
        found = reasoning_has(&dialect_reasonings[i], piece);
    return found;
}

// Finds the special tokens that occur in the literals, once per model, because a vocabulary is
// large.
static enum status specials_find(struct dialect *d, struct error *err)
{
    for (uint32_t id = 0; d->tokenizer && id < tokenizer_vocab(d->tokenizer); id++) {
        if (!tokenizer_is_special(d->tokenizer, (int32_t)id))
            continue;
        struct text name = tokenizer_token_text(d->tokenizer, (int32_t)id);
        if (name.bytes == 0 || !(row_has(d->row, name) || reasoning_has(d->reasoning, name)))
            continue;
        if (d->special_count == DIALECT_SPECIALS_MAX)
            return error_set(
                err, STATUS_UNSUPPORTED,
                "more than %d special tokens of tokenizer.json occur in the marks of the "
                "dialect %s (only control tokens should be \"special\")",
                DIALECT_SPECIALS_MAX, d->row->name);
        d->specials[d->special_count++] = (int32_t)id;
    }
    return STATUS_OK;
}

static void marker_add(struct dialect *d, enum marker_role role, const char *literal)
{
    struct text text = text_of(literal);
    check(d->marker_count < DIALECT_MARKERS_MAX && text.bytes <= DIALECT_MARKER_BYTES,
          "marker %u has %zu bytes", d->marker_count, text.bytes);
    struct dialect_marker *marker = &d->markers[d->marker_count++];
    *marker = (struct dialect_marker){.count = (uint8_t)text.bytes, .role = (uint8_t)role};
    for (size_t i = 0; i < text.bytes; i++)
        marker->symbols[i] = (unsigned char)text.at[i];
}

// Marks the bytes of a special token wherever it occurs in a marker.
static void marker_mark(struct dialect_marker *marker, struct text name)
{
    for (size_t at = 0; name.bytes > 0 && at + name.bytes <= marker->count; at++) {
        size_t same = 0;
        while (same < name.bytes &&
               (marker->symbols[at + same] & 0xFF) == (unsigned char)name.at[same])
            same++;
        for (size_t i = at; same == name.bytes && i < at + same; i++)
            marker->symbols[i] |= SPECIAL;
    }
}

static enum status markers_make(struct dialect *d, struct error *err)
{
    for (uint32_t i = 0; i < ROW_MARKERS && d->row->markers[i].text; i++)
        marker_add(d, d->row->markers[i].role, d->row->markers[i].text);
    if (d->reasoning->syntax.open) {
        marker_add(d, ROLE_REASONING_OPEN, d->reasoning->syntax.open);
        marker_add(d, ROLE_REASONING_CLOSE, d->reasoning->syntax.close);
    }
    enum status status = specials_find(d, err);
    for (uint32_t s = 0; s < d->special_count; s++)
        for (uint32_t i = 0; i < d->marker_count; i++)
            marker_mark(&d->markers[i], tokenizer_token_text(d->tokenizer, d->specials[s]));
    return status;
}

enum status dialect_detect(struct dialect *out, struct text source,
                           const struct tokenizer *tokenizer, struct error *err)
{
    const struct dialect_row *row = dialect_rows;
    const struct dialect_reasoning *reasoning = dialect_reasonings;
    while (!row_fits(row, source))
        row++;
    while (!source_has(source, reasoning->sign))
        reasoning++;
    *out = (struct dialect){.row = row, .reasoning = reasoning, .tokenizer = tokenizer};
    return markers_make(out, err);
}

bool dialect_named(struct dialect *out, const char *name, const char *reasoning,
                   const struct tokenizer *tokenizer)
{
    *out = (struct dialect){.tokenizer = tokenizer};
    for (uint32_t i = 0; i < dialect_row_count && !out->row; i++)
        if (strcmp(dialect_rows[i].name, name) == 0)
            out->row = &dialect_rows[i];
    for (uint32_t i = 0; i < dialect_reasoning_count && !out->reasoning; i++)
        if (strcmp(dialect_reasonings[i].name, reasoning) == 0)
            out->reasoning = &dialect_reasonings[i];
    struct error err;
    return out->row && out->reasoning && markers_make(out, &err) == STATUS_OK;
}

const char *dialect_name(const struct dialect *d)
{
    return d->row->name;
}

const char *dialect_reasoning_name(const struct dialect *d)
{
    return d->reasoning->name;
}

bool dialect_has_calls(const struct dialect *d)
{
    return d->row->form != FORM_NONE;
}

bool dialect_marks_text(const struct dialect *d)
{
    for (uint32_t i = 0; i < d->marker_count; i++)
        if (d->markers[i].role == ROLE_DROP || d->markers[i].role == ROLE_MESSAGE)
            return true;
    return false;
}

const struct dialect_syntax *dialect_syntax(const struct dialect *d)
{
    return dialect_has_calls(d) ? &d->row->syntax : NULL;
}

struct dialect_reasoning_syntax dialect_reasoning_syntax(const struct dialect *d)
{
    return d->reasoning->syntax;
}

const char *dialect_row_name(uint32_t index)
{
    return index < dialect_row_count ? dialect_rows[index].name : NULL;
}

const char *dialect_reasoning_row_name(uint32_t index)
{
    return index < dialect_reasoning_count ? dialect_reasonings[index].name : NULL;
}

struct text dialect_literal_next(const struct dialect *d, const char *literal, size_t *at,
                                 int32_t *token)
{
    struct text rest = text_of(literal + *at);
    size_t bytes;
    *token = special_at(d, rest, &bytes);
    if (*token < 0)
        for (size_t special = 0; bytes < rest.bytes && special == 0; bytes += special == 0)
            special_at(d, text_span(rest.at + bytes, rest.bytes - bytes), &special);
    *at += bytes;
    return text_span(rest.at, bytes);
}

size_t dialect_literal_bytes(const struct dialect *d, const char *literal, char *out,
                             size_t out_max)
{
    size_t bytes = 0, at = 0;
    int32_t token;
    struct text piece;
    while ((piece = dialect_literal_next(d, literal, &at, &token)).bytes > 0) {
        if (token >= 0 && bytes++ < out_max)
            out[bytes - 1] = (char)VOCABULARY_SPECIAL_BYTE;
        for (size_t i = 0; i < piece.bytes && bytes + i < out_max; i++)
            out[bytes + i] = piece.at[i];
        bytes += piece.bytes;
    }
    return bytes;
}

static struct text without_blanks(struct text text)
{
    while (text.bytes > 0 && strchr(" \t\r\n", text.at[text.bytes - 1]))
        text.bytes--;
    return text;
}

static bool ends_with(struct text text, struct text end)
{
    return end.bytes > 0 && end.bytes <= text.bytes &&
           memcmp(text.at + text.bytes - end.bytes, end.at, end.bytes) == 0;
}

enum dialect_start dialect_start_of(const struct dialect *d, struct text prompt_end)
{
    struct text end = without_blanks(prompt_end);
    if (d->reasoning->syntax.open &&
        ends_with(end, without_blanks(text_of(d->reasoning->syntax.open))))
        return DIALECT_START_REASONING;
    for (uint32_t i = 0; i < ROW_MARKERS && d->row->markers[i].text; i++)
        if (d->row->markers[i].role == ROLE_CALL_OPEN &&
            ends_with(end, text_of(d->row->markers[i].text)))
            return DIALECT_START_CALL;
    return DIALECT_START_TEXT;
}

enum status dialect_start_find(const struct dialect *d, const struct tokenizer *tokenizer,
                               const struct decode_args *prompt, enum dialect_start *out,
                               struct error *err)
{
    enum { TAIL = 48 }; // number of tokens decoded
    struct decode_args tail = *prompt;
    struct text text;
    tail.count = prompt->count < TAIL ? prompt->count : TAIL;
    tail.tokens += prompt->count - tail.count;
    enum status status = tokenizer_decode(tokenizer, &tail, &text, err);
    if (status == STATUS_OK)
        *out = dialect_start_of(d, text);
    return status;
}
