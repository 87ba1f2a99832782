// SPDX-License-Identifier: Apache-2.0
// The model of a tokenizer: reads its vocabulary and kind. Also small functions that several models
// share.
#include "runtime/text/tokenizer/internal.h"

void model_encode(struct encode *e, struct text piece)
{
    if (e->status != STATUS_OK || piece.bytes == 0)
        return;
    const struct word_entry *entry;
    switch (e->t->model) {
    case TOKENIZER_BPE:
        bpe_encode(e, piece);
        break;
    case TOKENIZER_WORDPIECE:
        wordpiece_encode(e, piece);
        break;
    case TOKENIZER_UNIGRAM:
        unigram_encode(e, piece);
        break;
    case TOKENIZER_WORD_LEVEL:
        entry = word_table_find(&e->t->by_name, piece.at, piece.bytes);
        if (entry && entry->id < e->t->model_vocab)
            encode_push(e, entry->id);
        else if (e->t->word_unk >= 0)
            encode_push(e, (uint32_t)e->t->word_unk);
        break;
    }
}

enum status unknown_open(const struct tokenizer *t, struct text name, int32_t *id,
                         struct error *err)
{
    *id = name.at ? tokenizer_token(t, name) : -1;
    if (name.at && *id < 0)
        return error_set(err, STATUS_INVALID,
                         "the `vocab` lacks the `unk_token` %.*s, which unknown text becomes: add "
                         "it, or name a token that is there",
                         (int)(name.bytes < 60 ? name.bytes : 60), name.at);
    return STATUS_OK;
}

int32_t byte_token_value(struct text name)
{
    if (name.bytes != 6 || memcmp(name.at, "<0x", 3) != 0 || name.at[5] != '>')
        return -1;
    int high = text_hex(name.at[3]), low = text_hex(name.at[4]);
    return high >= 0 && low >= 0 ? high * 16 + low : -1;
}

bool bytes_unmap(struct text name, char *out, size_t *bytes)
{
    *bytes = 0;
    for (size_t i = 0; i < name.bytes;) {
        size_t length;
        int byte = char_byte(utf8_read(name.at + i, &length));
        if (byte < 0)
            return false;
        out[(*bytes)++] = (char)byte;
        i += length;
    }
    return true;
}

struct text bytes_unmapped(struct arena *arena, struct text name)
{
    size_t bytes;
    char *raw = arena_alloc(arena, name.bytes + 1);
    if (!raw)
        return text_span(NULL, 0);
    return bytes_unmap(name, raw, &bytes) ? text_span(raw, bytes) : name;
}

static enum status vocab_alloc(struct tokenizer *t, uint32_t vocab, uint32_t count,
                               struct error *err)
{
    t->vocab = t->model_vocab = vocab;
    t->names = arena_alloc_zeroed(t->arena, vocab + 1, sizeof *t->names);
    if (!t->names || !word_table_init(&t->by_name, t->arena, count))
        return error_set(err, STATUS_NO_SPACE, "not enough memory for %u tokens", vocab);
    return STATUS_OK;
}

// Reads {"token": id, ...}.
static enum status vocab_object(struct tokenizer *t, const struct jnode *vocab, struct error *err)
{
    int64_t largest = -1;
    for (uint32_t i = 0; i < vocab->count; i++) {
        int64_t id = jtree_integer(&vocab->items[2 * i + 1], IDS_MAX - 1);
        if (id < 0)
            return error_set(
                err, STATUS_INVALID, "the id of token %.*s is not a number below %d",
                (int)(vocab->items[2 * i].count < 100 ? vocab->items[2 * i].count : 100),
                vocab->items[2 * i].at, IDS_MAX);
        largest = id > largest ? id : largest;
    }
    enum status status = vocab_alloc(t, (uint32_t)(largest + 1), vocab->count, err);
    for (uint32_t i = 0; i < vocab->count && status == STATUS_OK; i++) {
        uint32_t id = (uint32_t)vocab->items[2 * i + 1].number;
        t->names[id] = jtree_text(&vocab->items[2 * i]);
        word_table_put(&t->by_name, t->names[id], id);
    }
    return status;
}

// Reads [["token", score], ...]; the index is the id.
static enum status vocab_list(struct tokenizer *t, const struct jnode *vocab, struct error *err)
{
    if (vocab->count > IDS_MAX)
        return error_set(err, STATUS_TOO_LARGE, "the vocabulary has over %d tokens", IDS_MAX);
    enum status status = vocab_alloc(t, vocab->count, vocab->count, err);
    for (uint32_t id = 0; id < vocab->count && status == STATUS_OK; id++) {
        const struct jnode *pair = &vocab->items[id];
        t->names[id] = jtree_is(pair, J_ARRAY) && pair->count > 0 ? jtree_text(&pair->items[0])
                                                                  : text_span(NULL, 0);
        if (!t->names[id].at)
            return error_set(err, STATUS_INVALID, "vocab item %u is not a [token, score]", id);
        word_table_put(&t->by_name, t->names[id], id);
    }
    return status;
}

// Returns the kind of the model; old files do not name it.
static struct text kind_of(const struct jnode *node, const struct jnode *vocab)
{
    struct text type = jtree_get_text(node, "type");
    if (type.at)
        return type;
    if (jtree_get(node, "merges"))
        return text_of("BPE");
    if (jtree_is(vocab, J_ARRAY))
        return text_of("Unigram");
    return text_of(jtree_get(node, "max_input_chars_per_word") ? "WordPiece" : "WordLevel");
}

enum status model_open_json(struct tokenizer *t, const struct jnode *node, struct error *err)
{
    const struct jnode *vocab = jtree_get(node, "vocab");
    if (!jtree_is(vocab, J_OBJECT) && !jtree_is(vocab, J_ARRAY))
        return error_set(err, STATUS_INVALID, "it has no model with a `vocab`");
    struct text kind = kind_of(node, vocab);
    bool unigram = text_is(kind, "Unigram");
    if (unigram != (vocab->type == J_ARRAY))
        return error_set(err, STATUS_INVALID, "the `vocab` does not fit the kind of its model");
    enum status status = unigram ? vocab_list(t, vocab, err) : vocab_object(t, vocab, err);
    if (status != STATUS_OK)
        return status;
    if (unigram) {
        t->model = TOKENIZER_UNIGRAM;
        return unigram_open(t, node, err);
    }
    if (text_is(kind, "BPE")) {
        t->model = TOKENIZER_BPE;
        return bpe_open(t, node, err);
    }
    if (text_is(kind, "WordPiece")) {
        t->model = TOKENIZER_WORDPIECE;
        return wordpiece_open(t, node, err);
    }
    if (!text_is(kind, "WordLevel"))
        return error_set(err, STATUS_UNSUPPORTED, "a model of type %.*s is not known",
                         (int)(kind.bytes < 60 ? kind.bytes : 60), kind.at);
    t->model = TOKENIZER_WORD_LEVEL;
    t->pieces = t->names;
    return unknown_open(t, jtree_get_text(node, "unk_token"), &t->word_unk, err);
}
