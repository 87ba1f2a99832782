// SPDX-License-Identifier: Apache-2.0
// WordPiece: repeatedly takes the longest known piece from the left. A word that pieces do not
// cover becomes the unknown token.
#include "runtime/text/tokenizer/internal.h"

static size_t count_chars(struct text text)
{
    size_t count = 0;
    for (size_t i = 0; i < text.bytes; i++)
        count += ((unsigned char)text.at[i] & 0xC0) != 0x80;
    return count;
}

static int32_t longest_match(const struct trie *trie, struct text piece, size_t from, size_t *end)
{
    int32_t best = -1;
    uint32_t node = 0;
    for (size_t i = from; i < piece.bytes; i++) {
        node = trie_step(trie, node, (unsigned char)piece.at[i]);
        if (node == 0)
            break;
        if (trie->values[node] >= 0) {
            best = trie->values[node];
            *end = i + 1;
        }
    }
    return best;
}

void wordpiece_encode(struct encode *e, struct text piece)
{
    const struct wordpiece *w = &e->t->wordpiece;
    uint32_t before = e->token_count;
    bool bad = piece.bytes > w->chars_max && count_chars(piece) > w->chars_max;
    if (!encode_spend(e, piece.bytes))
        return;
    for (size_t start = 0; start < piece.bytes && !bad;) {
        size_t end = start;
        int32_t id = longest_match(start == 0 ? &w->first : &w->rest, piece, start, &end);
        bad = id < 0;
        if (!bad)
            encode_push(e, (uint32_t)id);
        start = end;
    }
    if (!bad)
        return;
    if (e->status == STATUS_OK)
        e->token_count = before;
    if (w->unk >= 0)
        encode_push(e, (uint32_t)w->unk);
}

enum status wordpiece_open(struct tokenizer *t, const struct jnode *node, struct error *err)
{
    struct wordpiece *w = &t->wordpiece;
    struct text prefix = jtree_get_text(node, "continuing_subword_prefix");
    w->prefix = prefix.at ? prefix : text_of("##");
    int64_t most = jtree_integer(jtree_get(node, "max_input_chars_per_word"), 1 << 20);
    w->chars_max = most < 0 ? 100 : (uint32_t)most;
    struct text unk = jtree_get_text(node, "unk_token");
    w->unk = tokenizer_token(t, unk.at ? unk : text_of("[UNK]"));
    trie_init(&w->first);
    trie_init(&w->rest);
    t->pieces = t->names;
    bool fits = true;
    for (uint32_t id = 0; id < t->vocab && fits; id++) {
        struct text name = t->names[id];
        fits = trie_put(&w->first, name, (int32_t)id);
        if (fits && name.bytes >= w->prefix.bytes &&
            memcmp(name.at, w->prefix.at, w->prefix.bytes) == 0)
            fits = trie_put(&w->rest,
                            text_span(name.at + w->prefix.bytes, name.bytes - w->prefix.bytes),
                            (int32_t)id);
    }
    if (!fits)
        return error_set(err, STATUS_TOO_LARGE, "the vocabulary is too large");
    return STATUS_OK;
}
