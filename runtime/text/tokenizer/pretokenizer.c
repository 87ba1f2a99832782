// SPDX-License-Identifier: Apache-2.0
// Pre-tokenizers: each stage splits a piece (and may rewrite it) and passes each part to the next
// stage, the last one to the model. The recursion depth is the number of stages; no lists are
// built.
#include "runtime/text/tokenizer/internal.h"

// The splitting of one piece by one stage.
struct cutter {
    struct encode *e;
    unsigned next; // index of the stage that gets the parts
    struct text piece;
    bool first; // true if the piece begins the input
    enum split_behavior behavior;
    bool invert, match_before, waiting;
    size_t start, end; // the part that is still open, if `waiting`
};

static void cutter_emit(struct cutter *c, size_t start, size_t end)
{
    if (start < end && c->e->status == STATUS_OK && encode_spend(c->e, 1 + (end - start) / 2))
        pretokenize(c->e, c->next, text_span(c->piece.at + start, end - start),
                    c->first && start == 0);
}

static void cutter_flush(struct cutter *c)
{
    if (c->waiting)
        cutter_emit(c, c->start, c->end);
    c->waiting = false;
}

static void cutter_open_part(struct cutter *c, size_t start, size_t end)
{
    cutter_flush(c);
    c->start = start;
    c->end = end;
    c->waiting = true;
}

// Applies the split behavior to one match, or to the text between two matches.
static void cutter_cut(struct cutter *c, size_t start, size_t end, bool match)
{
    match = match != c->invert;
    bool before = c->match_before;
    c->match_before = match;
    switch (c->behavior) {
    case SPLIT_REMOVED:
        if (!match)
            cutter_emit(c, start, end);
        break;
    case SPLIT_ISOLATED:
        cutter_emit(c, start, end);
        break;
    case SPLIT_CONTIGUOUS:
        if (match == before && c->waiting)
            c->end = end;
        else
            cutter_open_part(c, start, end);
        break;
    case SPLIT_PREVIOUS:
        if (match && !before && c->waiting)
            c->end = end;
        else
            cutter_open_part(c, start, end);
        break;
    case SPLIT_NEXT:
        if (!match && c->waiting) {
            cutter_emit(c, c->start, end);
            c->waiting = false;
        } else if (match) {
            cutter_open_part(c, start, end);
        } else {
            cutter_emit(c, start, end);
        }
        break;
    }
}

static void cut_by_scan(struct cutter *c, const struct pre_tokenizer *p)
{
    scan_function *scan = p->scan;
    for (size_t at = 0; at < c->piece.bytes && c->e->status == STATUS_OK;) {
        size_t end = scan(p, c->piece, at);
        cutter_cut(c, at, end, true);
        at = end;
    }
}

static void cut_by_regex(struct cutter *c, const struct pre_tokenizer *p)
{
    size_t done = 0, from = 0, last = SIZE_MAX;
    struct regex_span m;
    while (c->e->status == STATUS_OK && encode_find(c->e, p->regex, c->piece, from, &m)) {
        // After an empty match the search begins again at the same place, which \G can observe.
        bool again = m.start == m.end && m.end == last;
        from = last = m.end;
        if (again) {
            from += m.end < c->piece.bytes ? utf8_length(c->piece.at + m.end) : 1;
            continue;
        }
        if (done < m.start)
            cutter_cut(c, done, m.start, false);
        cutter_cut(c, m.start, m.end, true);
        done = m.end;
    }
    if (done < c->piece.bytes)
        cutter_cut(c, done, c->piece.bytes, false);
}

static void cut_by_text(struct cutter *c, struct text what)
{
    size_t done = 0;
    while (what.bytes > 0 && c->e->status == STATUS_OK) {
        const char *found = memmem(c->piece.at + done, c->piece.bytes - done, what.at, what.bytes);
        if (!found)
            break;
        size_t start = (size_t)(found - c->piece.at);
        if (done < start)
            cutter_cut(c, done, start, false);
        cutter_cut(c, start, start + what.bytes, true);
        done = start + what.bytes;
    }
    if (done < c->piece.bytes)
        cutter_cut(c, done, c->piece.bytes, false);
}

static void cut_by_class(struct cutter *c, bool (*is)(uint32_t))
{
    size_t done = 0, bytes;
    for (size_t i = 0; i < c->piece.bytes && c->e->status == STATUS_OK; i += bytes) {
        if (!is(utf8_read(c->piece.at + i, &bytes)))
            continue;
        if (done < i)
            cutter_cut(c, done, i, false);
        cutter_cut(c, i, i + bytes, true);
        done = i + bytes;
    }
    if (done < c->piece.bytes)
        cutter_cut(c, done, c->piece.bytes, false);
}

// Drops white space; each punctuation mark becomes its own part.
static void cut_bert(struct cutter *c)
{
    size_t done = 0, bytes;
    for (size_t i = 0; i < c->piece.bytes && c->e->status == STATUS_OK; i += bytes) {
        uint32_t code = utf8_read(c->piece.at + i, &bytes);
        bool space = char_is_space(code);
        if (!space && !char_is_punctuation(code))
            continue;
        cutter_emit(c, done, i);
        if (!space)
            cutter_emit(c, i, i + bytes);
        done = i + bytes;
    }
    cutter_emit(c, done, c->piece.bytes);
}

// Splits by \w+|[^\w\s]+ : runs of word characters and runs of others; white space is dropped.
static void cut_words(struct cutter *c)
{
    size_t start = 0, bytes;
    int before = -1;
    for (size_t i = 0; i < c->piece.bytes && c->e->status == STATUS_OK; i += bytes) {
        uint32_t code = utf8_read(c->piece.at + i, &bytes);
        int kind = char_is_space(code) ? 0 : char_is_word(code) ? 1 : 2;
        if (kind == before)
            continue;
        if (before > 0)
            cutter_emit(c, start, i);
        start = i;
        before = kind;
    }
    if (before > 0)
        cutter_emit(c, start, c->piece.bytes);
}

// Splits into parts of one script each. Characters without a script continue a part but begin none.
static void cut_scripts(struct cutter *c)
{
    size_t start = c->piece.bytes, bytes;
    int32_t before = -1;
    for (size_t i = 0; i < c->piece.bytes && c->e->status == STATUS_OK; i += bytes) {
        int32_t script = char_script(utf8_read(c->piece.at + i, &bytes));
        if (script < 0 || script == before)
            continue;
        cutter_emit(c, start, i);
        start = i;
        before = script;
    }
    cutter_emit(c, start, c->piece.bytes);
}

static void cut_lengths(struct cutter *c, uint32_t length)
{
    size_t start = 0;
    uint32_t chars = 0;
    for (size_t i = 0; i < c->piece.bytes;) {
        i += utf8_length(c->piece.at + i);
        if (++chars < length && i < c->piece.bytes)
            continue;
        cutter_emit(c, start, i);
        start = i;
        chars = 0;
    }
}

// Returns a stage's buffer for a rewritten piece; it is reused for the stage's next piece.
static char *stage_buffer(struct encode *e, unsigned stage, size_t bytes)
{
    if (bytes > e->stage_bytes[stage]) {
        size_t wanted = bytes + bytes / 2 + 256;
        e->stage_text[stage] = encode_alloc(e, wanted);
        e->stage_bytes[stage] = e->stage_text[stage] ? wanted : 0;
    }
    return e->stage_text[stage];
}

static bool begins_with(struct text piece, struct text what)
{
    return piece.bytes >= what.bytes && memcmp(piece.at, what.at, what.bytes) == 0;
}

static void run_metaspace(struct cutter *c, const struct pre_tokenizer *p)
{
    struct text mark = p->text, piece = c->piece;
    size_t spaces = 0;
    for (size_t i = 0; i < piece.bytes; i++)
        spaces += piece.at[i] == ' ';
    bool has = begins_with(piece, mark) || (piece.bytes > 0 && *piece.at == ' ');
    bool prepend =
        !has && (p->scheme == PREPEND_ALWAYS || (p->scheme == PREPEND_FIRST && c->first));
    char *to = stage_buffer(c->e, c->next - 1, piece.bytes + (spaces + 1) * mark.bytes);
    if (!to)
        return;
    size_t n = 0;
    if (prepend) {
        memcpy(to, mark.at, mark.bytes);
        n = mark.bytes;
    }
    for (size_t i = 0; i < piece.bytes; i++) {
        if (piece.at[i] != ' ') {
            to[n++] = piece.at[i];
            continue;
        }
        memcpy(to + n, mark.at, mark.bytes);
        n += mark.bytes;
    }
    c->piece = text_span(to, n);
    c->behavior = SPLIT_NEXT;
    if (p->split)
        cut_by_text(c, mark);
    else
        cutter_emit(c, 0, n);
    cutter_flush(c);
}

// Converts bytes to byte-level characters and passes them to the next stage.
static void emit_mapped(struct cutter *c, unsigned stage, size_t start, size_t end)
{
    char *to = stage_buffer(c->e, stage, (end - start) * 2);
    if (!to)
        return;
    size_t n = 0;
    for (size_t i = start; i < end; i++)
        n += utf8_write(byte_char((unsigned char)c->piece.at[i]), to + n);
    pretokenize(c->e, c->next, text_span(to, n), c->first && start == 0);
}

static void run_byte_level(struct cutter *c, const struct pre_tokenizer *p)
{
    struct text piece = c->piece;
    if (p->add_prefix_space && piece.bytes > 0 && *piece.at != ' ') {
        char *to = encode_alloc(c->e, piece.bytes + 1);
        if (!to)
            return;
        to[0] = ' ';
        memcpy(to + 1, piece.at, piece.bytes);
        c->piece = text_span(to, piece.bytes + 1);
    }
    for (size_t at = 0; at < c->piece.bytes && c->e->status == STATUS_OK;) {
        size_t end = p->use_regex ? scan_gpt2(p, c->piece, at) : c->piece.bytes;
        if (p->map_bytes)
            emit_mapped(c, c->next - 1, at, end);
        else
            cutter_emit(c, at, end);
        at = end;
    }
}

static void run_split(struct cutter *c, const struct pre_tokenizer *p)
{
    if (p->scan)
        cut_by_scan(c, p);
    else if (p->regex)
        cut_by_regex(c, p);
    else
        cut_by_text(c, p->text);
    cutter_flush(c);
}

void pretokenize(struct encode *e, unsigned stage, struct text piece, bool first)
{
    if (stage == e->t->pre_count) {
        model_encode(e, piece);
        return;
    }
    const struct pre_tokenizer *p = &e->t->pre[stage];
    struct cutter c = {.e = e,
                       .next = stage + 1,
                       .piece = piece,
                       .first = first,
                       .behavior = p->behavior,
                       .invert = p->invert};
    switch (p->kind) {
    case PRE_BYTE_LEVEL:
        run_byte_level(&c, p);
        break;
    case PRE_METASPACE:
        run_metaspace(&c, p);
        break;
    case PRE_SPLIT:
        run_split(&c, p);
        break;
    case PRE_BERT:
        cut_bert(&c);
        break;
    case PRE_WHITESPACE:
        cut_words(&c);
        break;
    case PRE_WHITESPACE_SPLIT:
        cut_by_class(&c, char_is_space);
        break;
    case PRE_PUNCTUATION:
        cut_by_class(&c, char_is_punctuation);
        break;
    case PRE_DIGITS:
        cut_by_class(&c, char_is_number);
        break;
    case PRE_DELIMITER:
        cut_by_text(&c, p->text);
        break;
    case PRE_SCRIPTS:
        cut_scripts(&c);
        break;
    case PRE_FIXED_LENGTH:
        cut_lengths(&c, p->length);
        break;
    }
    cutter_flush(&c);
}
