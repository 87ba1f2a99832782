// SPDX-License-Identifier: Apache-2.0
// Runs the programs of regex_program.c; see regex_linear.h. Threads are kept in the order of their
// priority, which is the order in which backtracking would try them, so the first one that matches
// gives the match of PCRE2.
#include "runtime/text/tokenizer/regex_linear.h"

#include "base/utf8.h"

#include <string.h>

enum { PAGE_CHARS = 256, PAGES = 0x110000 / PAGE_CHARS };
static const uint64_t known_bit = UINT64_C(1) << 63; // the sets of a character were determined

struct thread {
    uint32_t op;
    size_t start; // offset at which its match begins
};

struct thread_list {
    struct thread *items; // [count], highest priority first
    uint32_t count;
};

struct linear_state {
    struct linear_state *next;
    const struct linear *linear;
    struct regex_scratch *scratch;
    uint64_t *pages[PAGES]; // [PAGE_CHARS] sets of each character, a bit each; NULL: none seen
    struct thread_list now, then;
    uint64_t *marks;   // [count] round in which an instruction was last added to a list
    uint32_t *pending; // [count + 1] instructions to add
    uint64_t round;
    struct text text;                  // text of the current search
    uint8_t *tables[LINEAR_LOOKS_MAX]; // bit per offset of the text: the lookaround matches there
    size_t table_bytes[LINEAR_LOOKS_MAX];
    bool table_made[LINEAR_LOOKS_MAX];
    bool full; // true if the arena was full
};

static void *state_alloc(struct linear_state *s, size_t bytes)
{
    void *piece = arena_alloc(s->scratch->arena, bytes);
    s->full = s->full || !piece;
    return piece;
}

// Returns this program's state from the list, or adds it. NULL: the arena is full.
static struct linear_state *state_find(struct regex_scratch *scratch, const struct linear *linear)
{
    for (struct linear_state *s = scratch->states; s; s = s->next)
        if (s->linear == linear)
            return s;
    struct linear_state *s = arena_alloc_zeroed(scratch->arena, 1, sizeof *s);
    if (!s)
        return NULL;
    s->linear = linear;
    s->scratch = scratch;
    s->now.items = state_alloc(s, linear->count * sizeof *s->now.items);
    s->then.items = state_alloc(s, linear->count * sizeof *s->then.items);
    s->marks = arena_alloc_zeroed(scratch->arena, linear->count, sizeof *s->marks);
    s->pending = state_alloc(s, (linear->count + 1) * sizeof *s->pending);
    if (!s->marks || s->full)
        return NULL;
    s->next = scratch->states;
    scratch->states = s;
    return s;
}

// ---- characters

static uint64_t sets_determine(struct linear_state *s, uint32_t code)
{
    char text[4];
    size_t bytes = utf8_write(code, text);
    uint64_t sets = known_bit;
    for (uint32_t i = 0; i < s->linear->atom_count; i++) {
        const struct linear_atom *atom = &s->linear->atoms[i];
        bool in = atom->code ? pcre2_match(atom->code, (PCRE2_SPTR)text, bytes, 0,
                                           PCRE2_NO_UTF_CHECK, s->scratch->data, NULL) >= 0
                             : atom->literal == code;
        sets |= (uint64_t)in << i;
    }
    return sets;
}

// Returns the sets that contain the character at `at`, which is before the end, and its length.
static uint64_t sets_at(struct linear_state *s, size_t at, size_t *bytes)
{
    uint32_t code = utf8_read(s->text.at + at, bytes);
    uint64_t **page = &s->pages[code / PAGE_CHARS];
    if (!*page)
        *page = arena_alloc_zeroed(s->scratch->arena, PAGE_CHARS, sizeof **page);
    if (!*page) {
        s->full = true;
        return 0;
    }
    uint64_t *sets = &(*page)[code % PAGE_CHARS];
    if (*sets == 0)
        *sets = sets_determine(s, code);
    return *sets;
}

// ---- conditions at an offset

static bool is_line_end(const struct linear_state *s, size_t at)
{
    return at < s->text.bytes && s->text.at[at] == '\n';
}

static bool place_holds(const struct linear_state *s, enum linear_place place, size_t at)
{
    size_t end = s->text.bytes;
    switch (place) {
    case PLACE_START:
        return at == 0;
    case PLACE_END:
        return at == end;
    case PLACE_LAST:
        return at == end || (at + 1 == end && is_line_end(s, at));
    case PLACE_LINE_START:
        return at == 0 || (at < end && s->text.at[at - 1] == '\n');
    case PLACE_LINE_END:
        return at == end || is_line_end(s, at);
    }
    return false;
}

static bool look_holds(struct linear_state *s, uint32_t index, size_t at);

// Returns true if an instruction that reads no character lets a thread pass at this offset.
static bool passes(struct linear_state *s, const struct linear_op *op, size_t at)
{
    if (op->kind == LINEAR_LOOK)
        return look_holds(s, op->x, at) != (op->y != 0);
    return op->kind != LINEAR_AT || place_holds(s, (enum linear_place)op->x, at);
}

static uint64_t op_bit(uint32_t op)
{
    return UINT64_C(1) << op;
}

// Adds to `ends` the instructions from which the program ends without reading a character at this
// offset or, of those in it, goes on.
static uint64_t ends_close(struct linear_state *s, const struct linear_look *look, uint64_t ends,
                           size_t at)
{
    uint64_t before;
    do {
        before = ends;
        for (uint32_t i = look->count; i-- > 0;) {
            const struct linear_op *op = &look->ops[i];
            bool in = op->kind == LINEAR_MATCH ||
                      (op->kind == LINEAR_JUMP && (ends & op_bit(op->x))) ||
                      (op->kind == LINEAR_SPLIT && (ends & (op_bit(op->x) | op_bit(op->y)))) ||
                      ((op->kind == LINEAR_LOOK || op->kind == LINEAR_AT) &&
                       (ends & op_bit(i + 1)) && passes(s, op, at));
            ends |= in ? op_bit(i) : 0;
        }
        s->scratch->steps += look->count;
    } while (ends != before);
    return ends;
}

// Fills the table of a lookahead, from the end of the text to its start: `ends` has the
// instructions from which the program can reach its end.
static void table_ahead(struct linear_state *s, const struct linear_look *look, uint8_t *table)
{
    uint64_t ends = ends_close(s, look, 0, s->text.bytes);
    for (size_t at = s->text.bytes;;) {
        if (ends & 1)
            table[at / 8] |= (uint8_t)(1u << at % 8);
        if (at == 0 || s->full)
            return;
        size_t bytes;
        at = utf8_before(s->text.at, at);
        uint64_t sets = sets_at(s, at, &bytes), next = 0;
        for (uint32_t i = 0; i < look->count; i++)
            if (look->ops[i].kind == LINEAR_ATOM && (sets >> look->ops[i].x & 1) &&
                (ends & op_bit(i + 1)))
                next |= op_bit(i);
        ends = ends_close(s, look, next, at);
    }
}

// Adds to `live` the instructions that a thread at one of them reaches without a character.
static uint64_t live_close(struct linear_state *s, const struct linear_look *look, uint64_t live,
                           size_t at)
{
    uint64_t before;
    do {
        before = live;
        for (uint32_t i = 0; i < look->count; i++) {
            const struct linear_op *op = &look->ops[i];
            if (!(live & op_bit(i)))
                continue;
            if (op->kind == LINEAR_JUMP)
                live |= op_bit(op->x);
            else if (op->kind == LINEAR_SPLIT)
                live |= op_bit(op->x) | op_bit(op->y);
            else if ((op->kind == LINEAR_LOOK || op->kind == LINEAR_AT) && passes(s, op, at))
                live |= op_bit(i + 1);
        }
        s->scratch->steps += look->count;
    } while (live != before);
    return live;
}

// Fills the table of a lookbehind, from the start of the text to its end. A match may begin
// anywhere.
static void table_behind(struct linear_state *s, const struct linear_look *look, uint8_t *table)
{
    uint64_t live = 0, end = op_bit(look->count - 1);
    for (size_t at = 0, bytes; !s->full; at += bytes) {
        live = live_close(s, look, live | 1, at);
        if (live & end)
            table[at / 8] |= (uint8_t)(1u << at % 8);
        if (at == s->text.bytes)
            return;
        uint64_t sets = sets_at(s, at, &bytes), next = 0;
        for (uint32_t i = 0; i < look->count; i++)
            if (look->ops[i].kind == LINEAR_ATOM && (live & op_bit(i)) &&
                (sets >> look->ops[i].x & 1))
                next |= op_bit(i + 1);
        live = next;
    }
}

static void table_make(struct linear_state *s, uint32_t index)
{
    const struct linear_look *look = &s->linear->looks[index];
    size_t bytes = s->text.bytes / 8 + 1;
    if (bytes > s->table_bytes[index]) {
        s->tables[index] = state_alloc(s, bytes);
        s->table_bytes[index] = s->tables[index] ? bytes : 0;
    }
    if (!s->tables[index])
        return;
    memset(s->tables[index], 0, bytes);
    s->table_made[index] = true;
    if (look->behind)
        table_behind(s, look, s->tables[index]);
    else
        table_ahead(s, look, s->tables[index]);
}

static bool look_holds(struct linear_state *s, uint32_t index, size_t at)
{
    const struct linear_look *look = &s->linear->looks[index];
    size_t bytes;
    if (look->atoms != 0 && look->behind)
        return at > 0 && (sets_at(s, utf8_before(s->text.at, at), &bytes) & look->atoms) != 0;
    if (look->atoms != 0)
        return at < s->text.bytes && (sets_at(s, at, &bytes) & look->atoms) != 0;
    if (!s->table_made[index])
        table_make(s, index);
    return s->tables[index] && (s->tables[index][at / 8] >> at % 8 & 1);
}

// ---- threads

// Adds a thread at an instruction, and in its place those that it becomes without reading a
// character, unless a thread of higher priority is there already.
static void thread_add(struct linear_state *s, struct thread_list *list, uint32_t first,
                       size_t start, size_t at)
{
    const struct linear_op *ops = s->linear->ops;
    uint32_t count = 0;
    s->pending[count++] = first;
    while (count > 0) {
        uint32_t i = s->pending[--count];
        if (s->marks[i] == s->round)
            continue;
        s->marks[i] = s->round;
        s->scratch->steps++;
        switch (ops[i].kind) {
        case LINEAR_JUMP:
            s->pending[count++] = ops[i].x;
            break;
        case LINEAR_SPLIT:
            s->pending[count++] = ops[i].y;
            s->pending[count++] = ops[i].x;
            break;
        case LINEAR_LOOK:
        case LINEAR_AT:
            if (passes(s, &ops[i], at))
                s->pending[count++] = i + 1;
            break;
        case LINEAR_ATOM:
        case LINEAR_MATCH:
            list->items[list->count++] = (struct thread){i, start};
            break;
        }
    }
}

// Runs the threads at one offset; those that read its character go to s->then. Returns true if one
// matched: then it and those before it are all that is left.
static bool threads_run(struct linear_state *s, size_t at, struct regex_span *out, size_t *bytes)
{
    bool inside = at < s->text.bytes;
    uint64_t sets = inside ? sets_at(s, at, bytes) : 0;
    s->round++;
    s->then.count = 0;
    for (uint32_t i = 0; i < s->now.count; i++) {
        const struct thread *t = &s->now.items[i];
        const struct linear_op *op = &s->linear->ops[t->op];
        s->scratch->steps++;
        if (op->kind == LINEAR_MATCH) {
            *out = (struct regex_span){t->start, at};
            return true;
        }
        if (sets >> op->x & 1)
            thread_add(s, &s->then, t->op + 1, t->start, at + *bytes);
    }
    return false;
}

enum regex_found linear_find(const struct linear *linear, struct regex_scratch *scratch,
                             struct text text, size_t from, struct regex_span *out)
{
    struct linear_state *s = state_find(scratch, linear);
    if (!s)
        return REGEX_LIMIT;
    bool found = false;
    if (from == 0 || s->text.at != text.at || s->text.bytes != text.bytes)
        memset(s->table_made, 0, sizeof s->table_made);
    s->text = text;
    s->round++;
    s->now.count = 0;
    for (size_t at = from, bytes = 0; !s->full; at += bytes) {
        if (!found)
            thread_add(s, &s->now, 0, at, at);
        if (threads_run(s, at, out, &bytes))
            found = true;
        if (at >= text.bytes || (found && s->then.count == 0))
            break;
        struct thread_list done = s->now;
        s->now = s->then;
        s->then = done;
    }
    return s->full ? REGEX_LIMIT : found ? REGEX_FOUND : REGEX_NONE;
}
