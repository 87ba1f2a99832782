// SPDX-License-Identifier: Apache-2.0
// Unigram: splits a piece into the tokens with the highest sum of scores, by one pass over the
// offsets where tokens can end (Viterbi).
#include "runtime/text/tokenizer/internal.h"

// The best way to reach an offset in the piece.
struct place {
    double score;
    uint32_t start; // where the last token begins; UINT32_MAX: not reached yet
    uint32_t id;
};

enum { PLACE_WORDS = sizeof(struct place) / sizeof(uint32_t) };

static void offset_update(struct place *place, double score, size_t start, uint32_t id)
{
    if (place->start != UINT32_MAX && score <= place->score)
        return;
    *place = (struct place){score, (uint32_t)start, id};
}

static void offsets_fill(struct encode *e, struct text piece, struct place *places, uint32_t unk)
{
    // Work for the tokens that begin at one offset, in bytes of JSON parsed.
    enum { START_WORK = 8 };
    const struct unigram *u = &e->t->unigram;
    for (size_t start = 0; start < piece.bytes && encode_spend(e, START_WORK);) {
        size_t length = utf8_length(piece.at + start);
        double score = places[start].score;
        bool single = false;
        uint32_t node = 0;
        for (size_t i = start; i < piece.bytes; i++) {
            node = trie_step(&u->trie, node, (unsigned char)piece.at[i]);
            if (node == 0)
                break;
            int32_t id = u->trie.values[node];
            if (id < 0)
                continue;
            offset_update(&places[i + 1], score + u->scores[id], start, (uint32_t)id);
            single = single || i + 1 - start == length;
        }
        if (!single)
            offset_update(&places[start + length], score + u->unk_score, start, unk);
        start += length;
    }
}

// Appends a stretch without a token: its bytes, or the unknown token.
static void push_unknown(struct encode *e, struct text text)
{
    const struct unigram *u = &e->t->unigram;
    const struct word_entry *entry = word_table_find(&e->t->by_name, text.at, text.bytes);
    if (entry && entry->id < e->t->model_vocab && trie_get(&u->trie, text) >= 0) {
        encode_push(e, entry->id);
        return;
    }
    bool bytes = u->byte_fallback;
    for (size_t i = 0; i < text.bytes && bytes; i++)
        bytes = u->byte_ids[(unsigned char)text.at[i]] >= 0;
    for (size_t i = 0; i < text.bytes && bytes; i++)
        encode_push(e, (uint32_t)u->byte_ids[(unsigned char)text.at[i]]);
    if (!bytes && u->unk >= 0)
        encode_push(e, (uint32_t)u->unk);
}

// Reverses the chain of starts so that it can be walked from the left: afterwards the entry at a
// token's start contains its end.
static void starts_reverse(struct place *places, size_t bytes)
{
    uint32_t end = (uint32_t)bytes;
    uint32_t id = places[end].id, start = places[end].start;
    while (end > 0) {
        uint32_t next_start = places[start].start, next_id = places[start].id;
        places[start].start = end;
        places[start].id = id;
        end = start;
        start = next_start;
        id = next_id;
    }
}

void unigram_encode(struct encode *e, struct text piece)
{
    const struct unigram *u = &e->t->unigram;
    struct place *places =
        (struct place *)(void *)encode_scratch(e, 0, (piece.bytes + 1) * PLACE_WORDS);
    if (!places || piece.bytes == 0)
        return;
    for (size_t i = 0; i <= piece.bytes; i++)
        places[i] = (struct place){0, UINT32_MAX, 0};
    uint32_t unk = u->unk >= 0 ? (uint32_t)u->unk : UINT32_MAX;
    offsets_fill(e, piece, places, unk);
    if (e->status != STATUS_OK)
        return;
    starts_reverse(places, piece.bytes);
    for (size_t at = 0; at < piece.bytes && e->status == STATUS_OK;) {
        size_t end = places[at].start;
        if (places[at].id != unk) {
            encode_push(e, places[at].id);
            at = end;
            continue;
        }
        while (end < piece.bytes && places[end].id == unk)
            end = places[end].start;
        push_unknown(e, text_span(piece.at + at, end - at));
        at = end;
    }
}

enum status unigram_open(struct tokenizer *t, const struct jnode *node, struct error *err)
{
    struct unigram *u = &t->unigram;
    const struct jnode *vocab = jtree_get(node, "vocab");
    u->scores = arena_alloc_zeroed(t->arena, t->vocab + 1, sizeof *u->scores);
    if (!u->scores)
        return error_set(err, STATUS_NO_SPACE, "not enough memory for %u scores", t->vocab);
    memset(u->byte_ids, 0xFF, sizeof u->byte_ids);
    u->byte_fallback = jtree_get_bool(node, "byte_fallback", false);
    int64_t unk = jtree_integer(jtree_get(node, "unk_id"), (int64_t)t->vocab - 1);
    u->unk = (int32_t)unk;
    trie_init(&u->trie);
    t->pieces = t->names;
    double lowest = 0;
    for (uint32_t id = 0; id < t->vocab; id++) {
        const struct jnode *pair = &vocab->items[id];
        // weft's own documents have a third item, false: no text becomes this token
        bool three =
            jtree_is(pair, J_ARRAY) && pair->count == 3 && jtree_is(&pair->items[2], J_FALSE);
        if (!jtree_is(pair, J_ARRAY) || (pair->count != 2 && !three) ||
            !jtree_is(&pair->items[1], J_NUMBER))
            return error_set(err, STATUS_INVALID, "vocab item %u is not a [token, score]", id);
        u->scores[id] = pair->items[1].number;
        lowest = id == 0 || u->scores[id] < lowest ? u->scores[id] : lowest;
        int32_t byte = byte_token_value(t->names[id]);
        if (byte >= 0)
            u->byte_ids[byte] = (int32_t)id;
        if (!three && !trie_put(&u->trie, t->names[id], (int32_t)id))
            return error_set(err, STATUS_TOO_LARGE, "the vocabulary is too large");
    }
    u->unk_score = lowest - 10.0;
    return STATUS_OK;
}
