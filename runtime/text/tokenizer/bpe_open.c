// SPDX-License-Identifier: Apache-2.0
// Reads a BPE model: a hash of merges by pair, symbols of bytes and characters, the symbol pairs
// that merges can join, and the tokens whose own text is encoded as that token.
#include "runtime/text/tokenizer/internal.h"

// Splits a merge, "a b" or ["a", "b"], into its two tokens. Tokens may contain spaces: then the
// first space with a known token on both sides separates them.
static bool merge_parts(const struct tokenizer *t, const struct jnode *node, struct text *left,
                        struct text *right)
{
    if (jtree_is(node, J_ARRAY) && node->count == 2) {
        *left = jtree_text(&node->items[0]);
        *right = jtree_text(&node->items[1]);
        return left->at && right->at;
    }
    if (!jtree_is(node, J_STRING))
        return false;
    const char *end = node->at + node->count;
    for (const char *from = node->at; from < end;) {
        const char *space = memchr(from, ' ', (size_t)(end - from));
        if (!space)
            return false;
        *left = text_span(node->at, (size_t)(space - node->at));
        *right = text_span(space + 1, (size_t)(end - space - 1));
        bool only = from == node->at && !memchr(right->at, ' ', right->bytes);
        if (only || (word_table_find(&t->by_name, left->at, left->bytes) &&
                     word_table_find(&t->by_name, right->at, right->bytes)))
            return true;
        from = space + 1;
    }
    return false;
}

static void merge_put(struct bpe *b, struct merge_entry merge)
{
    uint64_t hash = ((uint64_t)merge.left << 32 | merge.right) * 0x9E3779B97F4A7C15u;
    uint32_t i = (uint32_t)(hash >> 32) & b->merge_mask;
    while (b->merges[i].left != UINT32_MAX &&
           (b->merges[i].left != merge.left || b->merges[i].right != merge.right))
        i = (i + 1) & b->merge_mask;
    b->merges[i] = merge;
}

struct joiner {
    char *at;
    size_t bytes_max;
};

// Returns the token that a merge produces: left + right without the continuing-subword prefix.
static const struct word_entry *merge_token(const struct tokenizer *t, struct joiner *j,
                                            struct text left, struct text right)
{
    size_t skip = t->bpe.prefix.bytes;
    if (right.bytes < skip)
        return NULL;
    size_t bytes = left.bytes + right.bytes - skip;
    if (bytes > j->bytes_max) {
        j->bytes_max = bytes * 2;
        j->at = heap_grow(j->at, j->bytes_max);
    }
    memcpy(j->at, left.at, left.bytes);
    memcpy(j->at + left.bytes, right.at + skip, right.bytes - skip);
    return word_table_find(&t->by_name, j->at, bytes);
}

static enum status merges_read(struct tokenizer *t, const struct jnode *list, struct error *err)
{
    struct bpe *b = &t->bpe;
    uint32_t count = jtree_is(list, J_ARRAY) ? list->count : 0;
    uint32_t entries = 16;
    while (entries < count * 2 && entries < 1u << 30)
        entries *= 2;
    b->merge_mask = entries - 1;
    b->merges = arena_alloc(t->arena, entries * sizeof *b->merges);
    if (!b->merges)
        return error_set(err, STATUS_NO_SPACE, "not enough memory for %u merges", count);
    memset(b->merges, 0xFF, entries * sizeof *b->merges);
    struct joiner j = {heap_alloc(256), 256};
    enum status status = STATUS_OK;
    for (uint32_t i = 0; i < count && status == STATUS_OK; i++) {
        struct text left, right;
        if (i == 0 && jtree_is(&list->items[0], J_STRING) && list->items[0].count >= 8 &&
            memcmp(list->items[0].at, "#version", 8) == 0)
            continue;
        if (!merge_parts(t, &list->items[i], &left, &right)) {
            status = error_set(err, STATUS_INVALID, "merge %u is not a pair of tokens", i);
            break;
        }
        const struct word_entry *a = word_table_find(&t->by_name, left.at, left.bytes);
        const struct word_entry *z = word_table_find(&t->by_name, right.at, right.bytes);
        const struct word_entry *made = merge_token(t, &j, left, right);
        if (!a || !z || !made)
            status = error_set(err, STATUS_INVALID,
                               "merge %u (%.*s %.*s) names a token that the vocabulary lacks", i,
                               (int)(left.bytes < 60 ? left.bytes : 60), left.at,
                               (int)(right.bytes < 60 ? right.bytes : 60), right.at);
        else
            merge_put(b, (struct merge_entry){a->id, z->id, i, made->id});
    }
    heap_free(j.at);
    return status;
}

// True if the model receives only byte-level pieces, so that it can work on raw bytes.
static bool feeds_bytes(const struct tokenizer *t)
{
    const struct pre_tokenizer *last = t->pre_count > 0 ? &t->pre[t->pre_count - 1] : NULL;
    return last && last->kind == PRE_BYTE_LEVEL;
}

// Fills pieces with raw bytes. A token with a character that maps to no byte matches no text.
static enum status pieces_of_bytes(struct tokenizer *t, struct error *err)
{
    struct bpe *b = &t->bpe;
    t->pieces = arena_alloc_zeroed(t->arena, t->vocab, sizeof *t->pieces);
    size_t total = 0;
    for (uint32_t id = 0; id < t->vocab; id++)
        total += t->names[id].bytes;
    char *to = arena_alloc(t->arena, total + 1);
    if (!t->pieces || !to || !word_table_init(&t->by_piece, t->arena, t->vocab))
        return error_set(err, STATUS_NO_SPACE, "not enough memory for %u tokens", t->vocab);
    for (uint32_t id = 0; id < t->vocab; id++) {
        size_t bytes = 0;
        if (t->names[id].bytes == 0 || !bytes_unmap(t->names[id], to, &bytes))
            continue;
        t->pieces[id] = text_span(to, bytes);
        word_table_put(&t->by_piece, t->pieces[id], id);
        if (bytes == 1)
            b->byte_ids[(unsigned char)*to] = (int32_t)id;
        to += bytes;
    }
    return STATUS_OK;
}

static enum status pieces_of_chars(struct tokenizer *t, struct error *err)
{
    struct bpe *b = &t->bpe;
    t->pieces = t->names;
    b->char_ids = arena_alloc(t->arena, 65536 * sizeof *b->char_ids);
    if (!b->char_ids || !word_table_init(&t->by_piece, t->arena, t->vocab))
        return error_set(err, STATUS_NO_SPACE, "not enough memory for %u tokens", t->vocab);
    memset(b->char_ids, 0xFF, 65536 * sizeof *b->char_ids);
    for (uint32_t id = 0; id < t->vocab; id++) {
        struct text name = t->names[id];
        if (!name.at || name.bytes == 0)
            continue;
        word_table_put(&t->by_piece, name, id);
        size_t bytes;
        uint32_t c = utf8_read(name.at, &bytes);
        if (bytes == name.bytes && c < 0x10000)
            b->char_ids[c] = (int32_t)id;
        int32_t byte = byte_token_value(name);
        if (byte >= 0)
            b->byte_ids[byte] = (int32_t)id;
    }
    return STATUS_OK;
}

struct edges {
    uint32_t *first, *last; // [vocab] first and last symbol of each token; UINT32_MAX: unknown
    bool good;
};

static bool edge_set(uint32_t *place, uint32_t value)
{
    bool same = *place == UINT32_MAX || *place == value;
    *place = value;
    return same;
}

// Makes one pass over the merges. Returns the number of merges whose tokens still have unknown
// ends.
static uint32_t edges_pass(const struct bpe *b, struct edges *edges)
{
    uint32_t open = 0;
    for (uint32_t i = 0; i <= b->merge_mask && edges->good; i++) {
        const struct merge_entry *m = &b->merges[i];
        if (m->left == UINT32_MAX)
            continue;
        uint32_t first = edges->first[m->left], last = edges->last[m->right];
        if (first == UINT32_MAX || last == UINT32_MAX || edges->last[m->left] == UINT32_MAX ||
            edges->first[m->right] == UINT32_MAX) {
            open++;
            continue;
        }
        edges->good = edge_set(&edges->first[m->id], first) && edge_set(&edges->last[m->id], last);
    }
    return open;
}

// Fills `pairs`. Every merge joins the last symbol of its left token to the first symbol of its
// right token. A text can be split between two symbols that no merge joins without changing its
// tokens.
static void pairs_open(struct tokenizer *t)
{
    struct bpe *b = &t->bpe;
    if (b->prefix.bytes > 0 || b->suffix.bytes > 0)
        return;
    struct edges edges = {heap_alloc(t->vocab * sizeof(uint32_t)),
                          heap_alloc(t->vocab * sizeof(uint32_t)), true};
    memset(edges.first, 0xFF, t->vocab * sizeof(uint32_t));
    for (uint32_t id = 0; id < t->vocab; id++)
        edges.first[id] = id;
    for (uint32_t i = 0; i <= b->merge_mask; i++)
        if (b->merges[i].left != UINT32_MAX)
            edges.first[b->merges[i].id] = UINT32_MAX;
    // No merge may produce a symbol that a text is initially split into; if one does, texts are not
    // split.
    for (int i = 0; i < 256; i++)
        edges.good =
            edges.good && (b->byte_ids[i] < 0 || edges.first[b->byte_ids[i]] != UINT32_MAX);
    edges.good = edges.good && (b->unk < 0 || edges.first[b->unk] != UINT32_MAX);
    memcpy(edges.last, edges.first, t->vocab * sizeof(uint32_t));
    uint32_t open = 1, before = UINT32_MAX;
    while (edges.good && open > 0 && open != before) {
        before = open;
        open = edges_pass(b, &edges);
    }
    b->pairs = arena_alloc_zeroed(t->arena, PAIR_BITS / 64, sizeof *b->pairs);
    b->splits = edges.good && open == 0 && b->pairs;
    for (uint32_t i = 0; b->splits && i <= b->merge_mask; i++) {
        const struct merge_entry *m = &b->merges[i];
        if (m->left == UINT32_MAX)
            continue;
        uint64_t pair = (uint64_t)edges.last[m->left] << 32 | edges.first[m->right];
        uint32_t bit = (uint32_t)(pair * 0x9E3779B97F4A7C15u >> 32) & (PAIR_BITS - 1);
        b->pairs[bit / 64] |= 1ull << (bit % 64);
    }
    heap_free(edges.first);
    heap_free(edges.last);
}

// Marks the tokens whose own text is encoded as just that token.
static void single_tokens_mark(struct tokenizer *t)
{
    if (t->bpe.prefix.bytes > 0 || t->bpe.suffix.bytes > 0)
        return;
    struct arena *scratch = arena_create(0, 0);
    struct encode e = {.t = t, .arena = scratch};
    for (uint32_t id = 0; id < t->vocab; id++) {
        struct text piece = t->pieces[id];
        if (piece.bytes == 0 || piece.bytes > 4096)
            continue;
        struct word_entry *entry = word_table_find(&t->by_piece, piece.at, piece.bytes);
        if (entry && entry->id == id && bpe_single(&e, piece) == (int32_t)id)
            entry->id |= SINGLE_TOKEN;
    }
    arena_destroy(scratch);
}

// True if every text has tokens, so that the unknown token is not needed. A byte-level vocabulary
// is assumed to contain all bytes that occur.
static bool is_complete(const struct bpe *b)
{
    bool mapped = !b->bytes;
    for (int i = 0; i < 256 && mapped; i++)
        mapped = b->char_ids[byte_char((unsigned char)i)] >= 0;
    return b->bytes || mapped || (b->byte_fallback && b->all_bytes);
}

enum status bpe_open(struct tokenizer *t, const struct jnode *node, struct error *err)
{
    struct bpe *b = &t->bpe;
    b->prefix = jtree_get_text(node, "continuing_subword_prefix");
    b->suffix = jtree_get_text(node, "end_of_word_suffix");
    if (b->prefix.bytes > AFFIX_MAX || b->suffix.bytes > AFFIX_MAX)
        return error_set(err, STATUS_UNSUPPORTED, "a subword prefix or suffix over %d bytes",
                         AFFIX_MAX);
    b->byte_fallback = jtree_get_bool(node, "byte_fallback", false);
    b->fuse_unk = jtree_get_bool(node, "fuse_unk", false);
    b->ignore_merges = jtree_get_bool(node, "ignore_merges", false);
    memset(b->byte_ids, 0xFF, sizeof b->byte_ids);
    b->bytes = feeds_bytes(t) && !b->byte_fallback && b->prefix.bytes + b->suffix.bytes == 0;
    if (b->bytes)
        t->pre[t->pre_count - 1].map_bytes = false;
    enum status status = merges_read(t, jtree_get(node, "merges"), err);
    if (status == STATUS_OK)
        status = b->bytes ? pieces_of_bytes(t, err) : pieces_of_chars(t, err);
    if (status != STATUS_OK)
        return status;
    b->all_bytes = true;
    for (int i = 0; i < 256; i++)
        b->all_bytes = b->all_bytes && b->byte_ids[i] >= 0;
    struct text unk = jtree_get_text(node, "unk_token");
    b->unk = unk.at ? tokenizer_token(t, unk) : -1;
    if (b->unk < 0 && !is_complete(b))
        status = unknown_open(t, unk, &b->unk, err);
    if (status != STATUS_OK)
        return status;
    pairs_open(t);
    single_tokens_mark(t);
    return STATUS_OK;
}
