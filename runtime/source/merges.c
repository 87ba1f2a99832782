// SPDX-License-Identifier: Apache-2.0
// Computes the merges of a vocabulary that has scores or ranks but no merges, because a
// tokenizer.json of its kind lists merges. A hash table of the tokens finds the two parts of each.
// Loading thread only.
#include "runtime/source/merges.h"

#include "base/hash.h"

#include <stdlib.h>

// Limits. Real vocabularies have tokens of under 100 bytes and about two merges per token.
enum {
    SCORED_BYTES_MAX = 1 << 10,
    MERGES_PER_TOKEN = 16,
    MERGES_SPARE = 1 << 10,
    MERGES_MAX = 1 << 22,
};

struct merge {
    double score;
    uint32_t left, right, whole; // ids
    uint32_t left_chars, right_chars;
};

struct merge_list {
    struct merge *at;
    size_t count;
};

struct word_slots {
    const struct text *tokens;
    uint32_t *slots; // [mask + 1] hash table: id + 1; 0: empty
    uint64_t mask;
};

static uint64_t slot_of(const struct word_slots *words, struct text text)
{
    return hash_own(text.at, text.bytes).low & words->mask;
}

// Returns the id of a text, or UINT32_MAX. If tokens are equal the last one counts, as in a JSON
// object.
static uint32_t word_find(const struct word_slots *words, struct text text)
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
    *words = (struct word_slots){tokens, arena_alloc_zeroed(scratch, slots, sizeof(uint32_t)),
                                 slots - 1};
    for (uint32_t id = 0; id < count; id++) {
        if (!tokens[id].at)
            continue;
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

// Order: the highest score first, then longer parts, then lower ids.
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

static enum status merges_list(struct merge_list *list, struct arena *scratch,
                               const struct scored_tokens *v, struct error *err)
{
    struct word_slots words;
    size_t capacity = 0, most = MERGES_PER_TOKEN * (size_t)v->count + MERGES_SPARE;
    most = most < MERGES_MAX ? most : MERGES_MAX;
    words_make(&words, v->tokens, v->count, scratch);
    for (uint32_t id = 0; id < v->count; id++) {
        struct text whole = v->tokens[id];
        double score = v->scores[id];
        if (whole.bytes > SCORED_BYTES_MAX)
            return error_set(err, STATUS_TOO_LARGE,
                             "%s: item %u has %zu bytes, at most %d are read where tokens have "
                             "scores; take another file of the model",
                             v->tokens_name, id, whole.bytes, SCORED_BYTES_MAX);
        for (size_t cut = 1; cut < whole.bytes && score == score; cut++) {
            struct text left = text_span(whole.at, cut);
            struct text right = text_span(whole.at + cut, whole.bytes - cut);
            struct merge merge = {.score = score, .whole = id};
            if (!is_lead(right.at[0]) || (merge.left = word_find(&words, left)) == UINT32_MAX ||
                (merge.right = word_find(&words, right)) == UINT32_MAX)
                continue;
            if (list->count == most)
                return error_set(err, STATUS_TOO_LARGE,
                                 "%s: %u tokens have over %zu merges, more than the vocabulary of "
                                 "any known model; take another file of the model",
                                 v->scores_name, v->count, most);
            merge.left_chars = chars_of(left);
            merge.right_chars = chars_of(right);
            list->at = arena_extend(scratch, list->at, list->count, &capacity, sizeof *list->at);
            list->at[list->count++] = merge;
        }
    }
    return STATUS_OK;
}

enum status merges_put(struct json_buffer *out, struct arena *scratch,
                       const struct scored_tokens *v, struct error *err)
{
    struct merge_list list = {NULL, 0};
    enum status status = merges_list(&list, scratch, v, err);
    if (status != STATUS_OK)
        return status;
    if (list.count > 0)
        qsort(list.at, list.count, sizeof *list.at, merge_order);
    json_put_literal(out, "[");
    for (size_t i = 0; i < list.count && out->bytes <= v->bytes_max; i++) {
        json_put_literal(out, i > 0 ? ",[" : "[");
        json_put_string(out, v->tokens[list.at[i].left]);
        json_put_literal(out, ",");
        json_put_string(out, v->tokens[list.at[i].right]);
        json_put_literal(out, "]");
    }
    json_put_literal(out, "]");
    return STATUS_OK;
}
