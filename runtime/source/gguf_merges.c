// Merges of a sentencepiece vocabulary: it has scores and no merges, and a tokenizer.json of its
// kind lists them. A hash table of the tokens finds the two parts of each. Loading thread only.
#include "runtime/source/gguf_documents.h"

#include "base/hash.h"

#include <stdlib.h>

struct merge {
    double score;
    uint32_t left, right, whole; // ids
    uint32_t left_chars, right_chars;
};

struct word_slots {
    const struct text *tokens;
    uint32_t *slots; // id + 1; 0: empty
    uint64_t mask;
};

static uint64_t slot_of(const struct word_slots *words, struct text text)
{
    return hash_own(text.at, text.bytes).low & words->mask;
}

// The id of the text, or UINT32_MAX. Of equal tokens the last one counts, as in a JSON object.
static uint32_t find(const struct word_slots *words, struct text text)
{
    for (uint64_t at = slot_of(words, text); words->slots[at] != 0; at = (at + 1) & words->mask)
        if (text_equal(words->tokens[words->slots[at] - 1], text))
            return words->slots[at] - 1;
    return UINT32_MAX;
}

static void words_make(struct word_slots *words, const struct text *tokens, uint32_t count,
                       struct arena *scratch)
{
    uint64_t slots = 16;
    while (slots < 2 * (uint64_t)count)
        slots *= 2;
    *words =
        (struct word_slots){tokens, arena_take_zeroed(scratch, slots, sizeof(uint32_t)), slots - 1};
    for (uint32_t id = 0; id < count; id++) {
        uint64_t at = slot_of(words, tokens[id]);
        while (words->slots[at] != 0 && !text_equal(tokens[words->slots[at] - 1], tokens[id]))
            at = (at + 1) & words->mask;
        words->slots[at] = id + 1;
    }
}

static bool is_lead(char c)
{
    return ((unsigned char)c & 0xC0) != 0x80;
}

static uint32_t chars_of(struct text text)
{
    uint32_t chars = 0;
    for (size_t i = 0; i < text.bytes; i++)
        chars += is_lead(text.at[i]);
    return chars;
}

// The best score first, then the longer parts, then the lower ids.
static int merge_order(const void *a, const void *b)
{
    const struct merge *x = a, *y = b;
    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    const uint32_t mine[] = {y->left_chars, y->right_chars, x->whole, x->left, x->right};
    const uint32_t theirs[] = {x->left_chars, x->right_chars, y->whole, y->left, y->right};
    for (size_t i = 0; i < sizeof mine / sizeof mine[0]; i++)
        if (mine[i] != theirs[i])
            return mine[i] < theirs[i] ? -1 : 1;
    return 0;
}

void gguf_merges_put(struct json_buffer *out, const struct text *tokens,
                     const struct gguf_value *scores, uint32_t count, struct arena *scratch)
{
    struct word_slots words;
    struct merge *merges = NULL;
    size_t merge_count = 0, room = 0;
    words_make(&words, tokens, count, scratch);
    for (uint32_t id = 0; id < count; id++) {
        struct text whole = tokens[id];
        double score = gguf_item(scores, id);
        for (size_t cut = 1; cut < whole.bytes && score == score; cut++) {
            struct text left = text_span(whole.at, cut);
            struct text right = text_span(whole.at + cut, whole.bytes - cut);
            struct merge merge = {.score = score, .whole = id};
            if (!is_lead(right.at[0]) || (merge.left = find(&words, left)) == UINT32_MAX ||
                (merge.right = find(&words, right)) == UINT32_MAX)
                continue;
            merge.left_chars = chars_of(left);
            merge.right_chars = chars_of(right);
            merges = arena_extend(scratch, merges, merge_count, &room, sizeof *merges);
            merges[merge_count++] = merge;
        }
    }
    if (merge_count > 0)
        qsort(merges, merge_count, sizeof *merges, merge_order);
    json_put_literal(out, "[");
    for (size_t i = 0; i < merge_count; i++) {
        json_put_literal(out, i > 0 ? ",[" : "[");
        json_put_string(out, tokens[merges[i].left]);
        json_put_literal(out, ",");
        json_put_string(out, tokens[merges[i].right]);
        json_put_literal(out, "]");
    }
    json_put_literal(out, "]");
}
