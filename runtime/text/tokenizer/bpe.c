// SPDX-License-Identifier: Apache-2.0
// Byte pair encoding of one piece. The piece is split where no merge can cross. A part that is a
// token encoded as itself is found by one hash lookup. The others are merged: short ones by
// scanning for the lowest rank, long ones with a heap, so that a megabyte of one letter takes
// near-linear time.
#include "runtime/text/tokenizer/internal.h"

enum { SCAN_MAX = 32, SYMBOLS_SHORT = 256 };
// Work per symbol and per merge, in bytes of JSON parsed (see encode_spend).
enum { RATE_WORK = 2, MERGE_WORK = 16 };

static uint32_t pair_hash(uint32_t left, uint32_t right)
{
    uint64_t hash = ((uint64_t)left << 32 | right) * 0x9E3779B97F4A7C15u;
    return (uint32_t)(hash >> 32);
}

static const struct merge_entry *find_merge(const struct bpe *b, uint32_t left, uint32_t right)
{
    uint32_t i = pair_hash(left, right) & b->merge_mask;
    for (;; i = (i + 1) & b->merge_mask) {
        const struct merge_entry *entry = &b->merges[i];
        if (entry->left == left && entry->right == right)
            return entry;
        if (entry->left == UINT32_MAX)
            return NULL;
    }
}

static bool may_join(const struct bpe *b, uint32_t left, uint32_t right)
{
    uint32_t bit = pair_hash(left, right) & (PAIR_BITS - 1);
    return b->pairs[bit / 64] >> (bit % 64) & 1;
}

static size_t merge_scan(const struct bpe *b, uint32_t *symbols, size_t count)
{
    uint32_t ranks[SCAN_MAX], ids[SCAN_MAX];
    for (size_t i = 0; i + 1 < count; i++) {
        const struct merge_entry *entry = find_merge(b, symbols[i], symbols[i + 1]);
        ranks[i] = entry ? entry->rank : UINT32_MAX;
        ids[i] = entry ? entry->id : 0;
    }
    while (count > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < count; i++)
            if (ranks[i] < ranks[best])
                best = i;
        if (ranks[best] == UINT32_MAX)
            break;
        symbols[best] = ids[best];
        count--;
        size_t tail = count - best - 1; // symbols after the merged pair
        memmove(symbols + best + 1, symbols + best + 2, tail * sizeof *symbols);
        if (tail > 1) {
            memmove(ranks + best + 1, ranks + best + 2, (tail - 1) * sizeof *ranks);
            memmove(ids + best + 1, ids + best + 2, (tail - 1) * sizeof *ids);
        }
        for (size_t i = best > 0 ? best - 1 : 0; i <= best && i + 1 < count; i++) {
            const struct merge_entry *entry = find_merge(b, symbols[i], symbols[i + 1]);
            ranks[i] = entry ? entry->rank : UINT32_MAX;
            ids[i] = entry ? entry->id : 0;
        }
    }
    return count;
}

// A long word: symbols in a linked list, possible merges in a heap ordered by rank, then position.
// A heap entry is stale if the symbol at its position has another rank by now.
struct merge_chain {
    const struct bpe *bpe;
    // [count] u32 each; ranks and ids: the merge with the next symbol
    uint32_t *symbols, *next, *before, *ranks, *ids;
    // [2 * count] rank << 32 | position: at most one entry per pair at the start and one more per
    // merge
    uint64_t *heap;
    size_t heap_count;
};

enum { NONE = -1 };

static void heap_down(struct merge_chain *c, size_t i)
{
    uint64_t entry = c->heap[i];
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= c->heap_count)
            break;
        if (child + 1 < c->heap_count && c->heap[child + 1] < c->heap[child])
            child++;
        if (c->heap[child] >= entry)
            break;
        c->heap[i] = c->heap[child];
        i = child;
    }
    c->heap[i] = entry;
}

static void heap_put(struct merge_chain *c, uint64_t entry)
{
    size_t i = c->heap_count++;
    while (i > 0 && c->heap[(i - 1) / 2] > entry) {
        c->heap[i] = c->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    c->heap[i] = entry;
}

// Looks up the merge of a symbol with its right neighbour. Returns true if there is one.
static bool merge_rate(struct merge_chain *c, uint32_t place)
{
    uint32_t right = c->next[place];
    const struct merge_entry *entry = NULL;
    if (right != (uint32_t)NONE)
        entry = find_merge(c->bpe, c->symbols[place], c->symbols[right]);
    c->ranks[place] = entry ? entry->rank : UINT32_MAX;
    c->ids[place] = entry ? entry->id : 0;
    return entry != NULL;
}

static void merge_rate_and_put(struct merge_chain *c, uint32_t place)
{
    if (place != (uint32_t)NONE && merge_rate(c, place))
        heap_put(c, (uint64_t)c->ranks[place] << 32 | place);
}

static void merge_best(struct merge_chain *c)
{
    uint64_t best = c->heap[0];
    c->heap[0] = c->heap[--c->heap_count];
    if (c->heap_count > 0)
        heap_down(c, 0);
    uint32_t place = (uint32_t)best;
    if (c->ranks[place] != best >> 32)
        return;
    uint32_t right = c->next[place];
    c->symbols[place] = c->ids[place];
    c->ranks[right] = UINT32_MAX;
    c->next[place] = c->next[right];
    if (c->next[place] != (uint32_t)NONE)
        c->before[c->next[place]] = place;
    merge_rate_and_put(c, place);
    merge_rate_and_put(c, c->before[place]);
}

static size_t merge_heap(struct encode *e, uint32_t *symbols, size_t count)
{
    struct merge_chain c = {.bpe = &e->t->bpe, .symbols = symbols};
    uint32_t *work = encode_scratch(e, 1, count * 8 + 2);
    if (!work)
        return 0;
    c.heap = (uint64_t *)(void *)work;
    c.next = work + count * 4;
    c.before = c.next + count;
    c.ranks = c.before + count;
    c.ids = c.ranks + count;
    for (uint32_t i = 0; i < count; i++) {
        c.next[i] = i + 1 < count ? i + 1 : (uint32_t)NONE;
        c.before[i] = i > 0 ? i - 1 : (uint32_t)NONE;
    }
    for (uint32_t i = 0; i < count && encode_spend(e, RATE_WORK); i++)
        if (merge_rate(&c, i))
            c.heap[c.heap_count++] = (uint64_t)c.ranks[i] << 32 | i;
    for (size_t i = c.heap_count / 2; i-- > 0;)
        heap_down(&c, i);
    while (c.heap_count > 0 && encode_spend(e, MERGE_WORK))
        merge_best(&c);
    size_t left = 0;
    for (uint32_t i = 0; i != (uint32_t)NONE; i = c.next[i])
        symbols[left++] = symbols[i];
    return left;
}

size_t bpe_merge(struct encode *e, uint32_t *symbols, size_t count)
{
    if (count > SCAN_MAX)
        return merge_heap(e, symbols, count);
    return encode_spend(e, count * RATE_WORK) ? merge_scan(&e->t->bpe, symbols, count) : 0;
}

static void push_merged(struct encode *e, uint32_t *symbols, size_t count)
{
    count = bpe_merge(e, symbols, count);
    for (size_t i = 0; i < count; i++)
        encode_push(e, symbols[i]);
}

// The initial symbols of a piece, and the offset in the piece where each ends.
struct symbols {
    uint32_t *ids, *ends;
    size_t count;
    // true if characters are unknown or missing: the symbols do not spell the piece
    bool incomplete;
    bool unk_pending; // true if an unknown token is still to be added
};

static void add_symbol(struct symbols *s, uint32_t id, size_t end)
{
    s->ids[s->count] = id;
    s->ends[s->count++] = (uint32_t)end;
}

// Returns the id of one character, with the prefix or suffix that its position in the word
// requires; -1: none.
static int32_t char_id(const struct tokenizer *t, struct text c, bool first, bool last)
{
    const struct bpe *b = &t->bpe;
    bool dressed = (!first && b->prefix.bytes > 0) || (last && b->suffix.bytes > 0);
    if (!dressed) {
        if (b->bytes)
            return b->byte_ids[(unsigned char)*c.at];
        size_t bytes;
        uint32_t code = utf8_read(c.at, &bytes);
        if (code < 0x10000)
            return b->char_ids[code];
    }
    char word[4 + 2 * AFFIX_MAX];
    size_t n = 0;
    if (!first && b->prefix.bytes > 0) {
        memcpy(word, b->prefix.at, b->prefix.bytes);
        n = b->prefix.bytes;
    }
    memcpy(word + n, c.at, c.bytes);
    n += c.bytes;
    if (last && b->suffix.bytes > 0) {
        memcpy(word + n, b->suffix.at, b->suffix.bytes);
        n += b->suffix.bytes;
    }
    const struct word_entry *entry = word_table_find(&t->by_piece, word, n);
    return entry ? (int32_t)(entry->id & ~SINGLE_TOKEN) : -1;
}

// Adds a character that is not in the vocabulary: its byte tokens, or the unknown token.
static void add_unknown(const struct bpe *b, struct symbols *s, struct text c, size_t end)
{
    bool bytes = b->byte_fallback && !b->bytes;
    for (size_t i = 0; bytes && i < c.bytes; i++)
        bytes = b->byte_ids[(unsigned char)c.at[i]] >= 0;
    if (bytes) {
        for (size_t i = 0; i < c.bytes; i++)
            add_symbol(s, (uint32_t)b->byte_ids[(unsigned char)c.at[i]], end - c.bytes + i + 1);
        return;
    }
    s->incomplete = true;
    if (b->unk < 0)
        return;
    if (s->unk_pending && !b->fuse_unk)
        add_symbol(s, (uint32_t)b->unk, end);
    s->unk_pending = true;
}

static void read_symbols(struct encode *e, struct text piece, struct symbols *s)
{
    const struct tokenizer *t = e->t;
    const struct bpe *b = &t->bpe;
    for (size_t i = 0; i < piece.bytes && encode_spend(e, 1);) {
        size_t bytes = b->bytes ? 1 : utf8_length(piece.at + i);
        struct text c = text_span(piece.at + i, bytes);
        int32_t id = char_id(t, c, i == 0, i + bytes == piece.bytes);
        i += bytes;
        if (id < 0) {
            add_unknown(b, s, c, i);
            continue;
        }
        if (s->unk_pending)
            add_symbol(s, (uint32_t)b->unk, i);
        s->unk_pending = false;
        add_symbol(s, (uint32_t)id, i);
    }
    if (s->unk_pending)
        add_symbol(s, (uint32_t)b->unk, piece.bytes);
}

// Encodes the symbols [from, to), which no merge connects to others. text: the bytes they cover.
static void encode_chunk(struct encode *e, struct symbols *s, size_t from, size_t to,
                         struct text text)
{
    if (to - from == 1) {
        encode_push(e, s->ids[from]);
        return;
    }
    if (!s->incomplete) {
        const struct word_entry *entry = word_table_find(&e->t->by_piece, text.at, text.bytes);
        if (entry && (entry->id & SINGLE_TOKEN) != 0) {
            encode_push(e, entry->id & ~SINGLE_TOKEN);
            return;
        }
    }
    push_merged(e, s->ids + from, to - from);
}

static void encode_symbols(struct encode *e, struct text piece, struct symbols *s)
{
    const struct bpe *b = &e->t->bpe;
    if (!b->splits) {
        push_merged(e, s->ids, s->count);
        return;
    }
    for (size_t from = 0; from < s->count && e->status == STATUS_OK;) {
        size_t to = from + 1;
        while (to < s->count && may_join(b, s->ids[to - 1], s->ids[to]))
            to++;
        size_t start = from > 0 ? s->ends[from - 1] : 0;
        encode_chunk(e, s, from, to, text_span(piece.at + start, s->ends[to - 1] - start));
        from = to;
    }
}

// Encodes a short word of a byte-level vocabulary that contains all 256 bytes.
static void encode_bytes(struct encode *e, struct text piece)
{
    uint32_t symbols[SYMBOLS_SHORT];
    for (size_t i = 0; i < piece.bytes; i++)
        symbols[i] = (uint32_t)e->t->bpe.byte_ids[(unsigned char)piece.at[i]];
    push_merged(e, symbols, piece.bytes);
}

// Returns true if the word has too many tokens even if all have the longest length. Then it need
// not be merged, which takes a second for some millions of letters. This is known only if every
// byte yields a token.
static bool too_long(struct encode *e, struct text piece)
{
    const struct bpe *b = &e->t->bpe;
    bool whole = b->all_bytes && (b->bytes || b->byte_fallback);
    if (!whole || piece.bytes / e->t->piece_bytes_max <= e->token_max - e->token_count)
        return false;
    e->status = STATUS_TOO_LARGE;
    e->token_count = e->token_max;
    return true;
}

void bpe_encode(struct encode *e, struct text piece)
{
    const struct bpe *b = &e->t->bpe;
    const struct word_entry *entry = word_table_find(&e->t->by_piece, piece.at, piece.bytes);
    if (entry && (b->ignore_merges || (entry->id & SINGLE_TOKEN) != 0)) {
        encode_push(e, entry->id & ~SINGLE_TOKEN);
        return;
    }
    if (too_long(e, piece))
        return;
    if (b->bytes && b->all_bytes && piece.bytes <= SYMBOLS_SHORT) {
        encode_bytes(e, piece);
        return;
    }
    size_t most = piece.bytes * (1 + b->prefix.bytes) + b->suffix.bytes + 2;
    struct symbols s = {.ids = encode_scratch(e, 0, most * 2)};
    if (!s.ids)
        return;
    s.ends = s.ids + most;
    read_symbols(e, piece, &s);
    encode_symbols(e, piece, &s);
}

int32_t bpe_single(struct encode *e, struct text word)
{
    size_t most = word.bytes * (1 + e->t->bpe.prefix.bytes) + e->t->bpe.suffix.bytes + 2;
    struct symbols s = {.ids = encode_scratch(e, 0, most * 2)};
    if (!s.ids)
        return -1;
    s.ends = s.ids + most;
    read_symbols(e, word, &s);
    if (s.incomplete || bpe_merge(e, s.ids, s.count) != 1)
        return -1;
    return (int32_t)s.ids[0];
}
