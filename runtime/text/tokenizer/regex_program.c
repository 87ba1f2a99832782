// SPDX-License-Identifier: Apache-2.0
// Compiles a pattern to a program; see regex_linear.h. It reads only the constructs that pattern*.c
// write. First a tree, then its instructions.
#include "runtime/text/tokenizer/regex_linear.h"

#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 200, COUNT_MAX = 1000, NODES_MAX = 8192 };
static const uint32_t unbounded = UINT32_MAX;

enum node_kind { NODE_EMPTY, NODE_ATOM, NODE_CAT, NODE_ALT, NODE_REPEAT, NODE_LOOK, NODE_AT };

struct linear_node {
    enum node_kind kind;
    struct linear_node *a, *b; // CAT: both; ALT: a is preferred; REPEAT, LOOK: a
    uint32_t index;            // ATOM, LOOK: index; AT: enum linear_place
    uint32_t low, high;        // REPEAT
    bool lazy, not;            // lazy: REPEAT prefers fewer; not: LOOK must not match
};

struct linear_reader {
    struct linear *linear;
    struct arena *arena; // owns the nodes
    struct text in;
    size_t at;
    uint32_t depth;
    bool caseless, failed;
    uint32_t nodes; // number of nodes, which bounds the depth of the tree
};

static struct linear_node *alternatives_parse(struct linear_reader *r);

static bool next_is(const struct linear_reader *r, const char *what)
{
    return text_begins(text_span(r->in.at + r->at, r->in.bytes - r->at), what);
}

static bool skip(struct linear_reader *r, const char *what)
{
    bool found = next_is(r, what);
    r->at += found ? strlen(what) : 0;
    return found;
}

static struct linear_node *unsupported(struct linear_reader *r)
{
    r->failed = true;
    return arena_alloc_zeroed(r->arena, 1, sizeof(struct linear_node));
}

static struct linear_node *node_make(struct linear_reader *r, struct linear_node of)
{
    struct linear_node *node = arena_alloc_zeroed(r->arena, 1, sizeof *node);
    r->failed = r->failed || ++r->nodes > NODES_MAX;
    *node = of;
    return node;
}

static struct linear_node *cat(struct linear_reader *r, struct linear_node *a,
                               struct linear_node *b)
{
    return node_make(r, (struct linear_node){.kind = NODE_CAT, .a = a, .b = b});
}

// ---- sets of characters

static pcre2_code *atom_compile(struct text source, bool caseless)
{
    int code;
    PCRE2_SIZE offset;
    uint32_t options = PCRE2_UTF | PCRE2_ANCHORED | PCRE2_ENDANCHORED | PCRE2_NO_START_OPTIMIZE |
                       (caseless ? PCRE2_CASELESS : 0);
    return pcre2_compile((PCRE2_SPTR)source.at, source.bytes, options, &code, &offset, NULL);
}

// Returns the node of the set that was read from `from` on. literal: its only character, or
// UINT32_MAX.
static struct linear_node *atom_node(struct linear_reader *r, size_t from, uint32_t literal)
{
    struct linear *l = r->linear;
    struct text source = text_span(r->in.at + from, r->at - from);
    bool one = literal != UINT32_MAX && !r->caseless;
    // Without case the source names another set, so the flag is part of the key.
    struct text key =
        arena_format(l->arena, "%s%.*s", r->caseless ? "i" : "-", (int)source.bytes, source.at);
    uint32_t i = 0;
    while (i < l->atom_count && !text_equal(l->atoms[i].source, key))
        i++;
    if (i == LINEAR_ATOMS_MAX)
        return unsupported(r);
    if (i == l->atom_count) {
        l->atoms[l->atom_count++] =
            (struct linear_atom){.source = key,
                                 .code = one ? NULL : atom_compile(source, r->caseless),
                                 .literal = literal};
        if (!one && !l->atoms[i].code)
            return unsupported(r);
    }
    return node_make(r, (struct linear_node){.kind = NODE_ATOM, .index = i});
}

static struct linear_node *class_parse(struct linear_reader *r)
{
    size_t from = r->at++;
    while (r->at < r->in.bytes && r->in.at[r->at] != ']')
        r->at += r->in.at[r->at] == '\\' ? 2 : 1;
    if (r->at >= r->in.bytes)
        return unsupported(r);
    r->at++;
    return atom_node(r, from, UINT32_MAX);
}

static struct linear_node *place_node(struct linear_reader *r, enum linear_place place)
{
    return node_make(r, (struct linear_node){.kind = NODE_AT, .index = place});
}

static struct linear_node *escape_parse(struct linear_reader *r)
{
    size_t from = r->at;
    if (skip(r, "\\x{")) {
        uint32_t code = 0;
        for (; r->at < r->in.bytes && r->in.at[r->at] != '}'; r->at++)
            code = code << 4 | (uint32_t)text_hex(r->in.at[r->at]);
        r->at++;
        return atom_node(r, from, code);
    }
    if (skip(r, "\\A"))
        return place_node(r, PLACE_START);
    if (skip(r, "\\z"))
        return place_node(r, PLACE_END);
    if (skip(r, "\\Z"))
        return place_node(r, PLACE_LAST);
    return unsupported(r);
}

// ---- groups

// Returns the sets of a tree that matches one character of them; 0: it is something else.
static uint64_t atoms_of(const struct linear_node *node)
{
    if (node->kind == NODE_ATOM)
        return UINT64_C(1) << node->index;
    if (node->kind != NODE_ALT)
        return 0;
    uint64_t a = atoms_of(node->a), b = atoms_of(node->b);
    return a != 0 && b != 0 ? a | b : 0;
}

static bool may_be_empty(const struct linear_node *node)
{
    switch (node->kind) {
    case NODE_ATOM:
        return false;
    case NODE_CAT:
        return may_be_empty(node->a) && may_be_empty(node->b);
    case NODE_ALT:
        return may_be_empty(node->a) || may_be_empty(node->b);
    case NODE_REPEAT:
        return node->low == 0 || may_be_empty(node->a);
    default:
        return true;
    }
}

// True if each match is empty.
static bool is_condition(const struct linear_node *node)
{
    return node->kind == NODE_LOOK || node->kind == NODE_AT ||
           (node->kind == NODE_CAT && is_condition(node->a) && is_condition(node->b));
}

// True if each match is one character long.
static bool is_one_character(const struct linear_node *node)
{
    switch (node->kind) {
    case NODE_ATOM:
        return true;
    case NODE_ALT:
        return is_one_character(node->a) && is_one_character(node->b);
    case NODE_CAT:
        return (is_condition(node->a) && is_one_character(node->b)) ||
               (is_condition(node->b) && is_one_character(node->a));
    default:
        return false;
    }
}

static bool program_make(struct linear *l, const struct linear_node *tree, uint32_t most,
                         struct linear_op **ops, uint32_t *count);

// Makes the lookaround of a tree.
static struct linear_node *look_node(struct linear_reader *r, const struct linear_node *body,
                                     bool behind, bool not)
{
    struct linear *l = r->linear;
    if (r->failed || l->look_count == LINEAR_LOOKS_MAX)
        return unsupported(r);
    struct linear_look look = {.behind = behind, .atoms = atoms_of(body)};
    struct linear_op *ops = NULL;
    if (look.atoms == 0 && !program_make(l, body, LINEAR_LOOK_OPS, &ops, &look.count))
        return unsupported(r);
    look.ops = ops;
    l->looks[l->look_count] = look;
    return node_make(r,
                     (struct linear_node){.kind = NODE_LOOK, .index = l->look_count++, .not= not});
}

static struct linear_node *group_end(struct linear_reader *r)
{
    struct linear_node *body = alternatives_parse(r);
    if (!skip(r, ")"))
        return unsupported(r);
    return body;
}

static struct linear_node *group_parse(struct linear_reader *r)
{
    static const struct {
        const char *open;
        bool behind, not;
    } looks[] = {
        {"(?=", false, false}, {"(?!", false, true}, {"(?<=", true, false}, {"(?<!", true, true}};
    bool caseless = r->caseless;
    struct linear_node *body;
    size_t from = r->at;
    if (skip(r, "(?s:.)"))
        return atom_node(r, from, UINT32_MAX);
    for (size_t i = 0; i < sizeof looks / sizeof *looks; i++)
        if (skip(r, looks[i].open)) {
            body = group_end(r);
            return look_node(r, body, looks[i].behind, looks[i].not);
        }
    if (skip(r, "(?i:"))
        r->caseless = true;
    else if (skip(r, "(?-i:"))
        r->caseless = false;
    else if (!skip(r, "(?:"))
        return unsupported(r);
    body = group_end(r);
    r->caseless = caseless;
    return body;
}

// ---- repeats

static uint32_t count_parse(struct linear_reader *r)
{
    uint32_t count = 0;
    for (; r->at < r->in.bytes && r->in.at[r->at] >= '0' && r->in.at[r->at] <= '9'; r->at++)
        count = count < COUNT_MAX ? count * 10 + (uint32_t)(r->in.at[r->at] - '0') : COUNT_MAX;
    return count;
}

// Reads a repeat into *node. Returns false if there is none.
static bool repeat_parse(struct linear_reader *r, struct linear_node *node)
{
    *node = (struct linear_node){.kind = NODE_REPEAT, .high = unbounded};
    if (skip(r, "*"))
        return true;
    if (skip(r, "+")) {
        node->low = 1;
        return true;
    }
    if (skip(r, "?")) {
        node->high = 1;
        return true;
    }
    if (!skip(r, "{"))
        return false;
    node->low = node->high = count_parse(r);
    if (skip(r, ","))
        node->high = next_is(r, "}") ? unbounded : count_parse(r);
    r->failed = r->failed || !skip(r, "}") || node->low >= COUNT_MAX ||
                (node->high >= COUNT_MAX && node->high != unbounded);
    return true;
}

static struct linear_node *repeats_parse(struct linear_reader *r, struct linear_node *piece)
{
    struct linear_node repeat;
    while (!r->failed && repeat_parse(r, &repeat)) {
        bool possessive = !(repeat.lazy = skip(r, "?")) && skip(r, "+");
        repeat.a = piece;
        if ((repeat.high > 1 && may_be_empty(piece)) || (possessive && !is_one_character(piece)))
            return unsupported(r);
        struct linear_node *made = node_make(r, repeat);
        if (possessive) {
            // Nothing is given back: what follows is not one more of the same.
            struct linear_node *rest = look_node(r, piece, false, true);
            made =
                repeat.high == unbounded
                    ? cat(r, made, rest)
                    : node_make(r, (struct linear_node){.kind = NODE_ALT, .a = piece, .b = rest});
        }
        piece = made;
    }
    return piece;
}

// ---- sequences

static struct linear_node *piece_parse(struct linear_reader *r)
{
    size_t from = r->at, bytes;
    switch (r->in.at[r->at]) {
    case '\\':
        return escape_parse(r);
    case '(':
        return group_parse(r);
    case '[':
        return class_parse(r);
    case '^':
        r->at++;
        return place_node(r, PLACE_LINE_START);
    case '$':
        r->at++;
        return place_node(r, PLACE_LINE_END);
    default:
        break;
    }
    uint32_t code = utf8_read(r->in.at + r->at, &bytes);
    r->at += bytes;
    return atom_node(r, from, code);
}

static struct linear_node *sequence_parse(struct linear_reader *r)
{
    struct linear_node *all = node_make(r, (struct linear_node){.kind = NODE_EMPTY});
    while (!r->failed && r->at < r->in.bytes && !next_is(r, "|") && !next_is(r, ")")) {
        struct linear_node *piece = repeats_parse(r, piece_parse(r));
        all = all->kind == NODE_EMPTY ? piece : cat(r, all, piece);
    }
    return all;
}

static struct linear_node *alternatives_parse(struct linear_reader *r)
{
    if (++r->depth > DEPTH_MAX)
        return unsupported(r);
    struct linear_node *all = sequence_parse(r);
    if (!r->failed && skip(r, "|"))
        all = node_make(
            r, (struct linear_node){.kind = NODE_ALT, .a = all, .b = alternatives_parse(r)});
    r->depth--;
    return all;
}

// ---- instructions

struct program {
    struct linear_op *ops; // [most]
    uint32_t count, most;
    bool full;
};

// Appends an instruction. Returns its index.
static uint32_t emit(struct program *p, enum linear_op_kind kind, uint32_t x, uint32_t y)
{
    p->full = p->full || p->count == p->most;
    if (p->full)
        return 0;
    p->ops[p->count] = (struct linear_op){kind, x, y};
    return p->count++;
}

static void tree_emit(struct program *p, const struct linear_node *node);

// Sets the targets of a split: the next instruction and `other`. preferred: the next one is.
static void split_set(struct program *p, uint32_t at, uint32_t other, bool preferred)
{
    if (!p->full)
        p->ops[at] = (struct linear_op){LINEAR_SPLIT, preferred ? at + 1 : other,
                                        preferred ? other : at + 1};
}

static void repeat_emit(struct program *p, const struct linear_node *node)
{
    for (uint32_t i = 0; i < node->low && !p->full; i++)
        tree_emit(p, node->a);
    if (node->high == unbounded) {
        uint32_t split = emit(p, LINEAR_SPLIT, 0, 0);
        tree_emit(p, node->a);
        emit(p, LINEAR_JUMP, split, 0);
        split_set(p, split, p->count, !node->lazy);
        return;
    }
    // x{0,2} is (x(x)?)?: every split leaves to the end.
    uint32_t splits[COUNT_MAX], count = 0;
    for (uint32_t i = node->low; i < node->high && !p->full; i++) {
        splits[count++] = emit(p, LINEAR_SPLIT, 0, 0);
        tree_emit(p, node->a);
    }
    for (uint32_t i = 0; i < count; i++)
        split_set(p, splits[i], p->count, !node->lazy);
}

static void tree_emit(struct program *p, const struct linear_node *node)
{
    uint32_t split, jump;
    switch (node->kind) {
    case NODE_EMPTY:
        break;
    case NODE_ATOM:
        emit(p, LINEAR_ATOM, node->index, 0);
        break;
    case NODE_CAT:
        tree_emit(p, node->a);
        tree_emit(p, node->b);
        break;
    case NODE_ALT:
        split = emit(p, LINEAR_SPLIT, 0, 0);
        tree_emit(p, node->a);
        jump = emit(p, LINEAR_JUMP, 0, 0);
        split_set(p, split, p->count, true);
        tree_emit(p, node->b);
        if (!p->full)
            p->ops[jump].x = p->count;
        break;
    case NODE_REPEAT:
        repeat_emit(p, node);
        break;
    case NODE_LOOK:
        emit(p, LINEAR_LOOK, node->index, node->not);
        break;
    case NODE_AT:
        emit(p, LINEAR_AT, node->index, 0);
        break;
    }
}

// Writes the instructions of a tree into the program's arena. Returns false if there are too many.
static bool program_make(struct linear *l, const struct linear_node *tree, uint32_t most,
                         struct linear_op **ops, uint32_t *count)
{
    struct program p = {.most = most};
    struct linear_op *all = heap_alloc(most * sizeof *all);
    p.ops = all;
    tree_emit(&p, tree);
    emit(&p, LINEAR_MATCH, 0, 0);
    *count = p.count;
    *ops = arena_alloc(l->arena, p.count * sizeof **ops);
    memcpy(*ops, all, p.count * sizeof **ops);
    heap_free(all);
    return !p.full;
}

struct linear *linear_create(struct text pattern)
{
    struct linear *l = heap_alloc_zeroed(1, sizeof *l);
    l->arena = arena_create(0, 0);
    struct linear_reader r = {.linear = l, .arena = arena_create(0, 0), .in = pattern};
    struct linear_node *tree = alternatives_parse(&r);
    bool made = !r.failed && r.at == pattern.bytes &&
                program_make(l, tree, LINEAR_OPS_MAX, &l->ops, &l->count);
    arena_destroy(r.arena);
    if (made)
        return l;
    linear_destroy(l);
    return NULL;
}

void linear_destroy(struct linear *linear)
{
    if (!linear)
        return;
    for (uint32_t i = 0; i < linear->atom_count; i++)
        pcre2_code_free(linear->atoms[i].code);
    arena_destroy(linear->arena);
    heap_free(linear);
}
