// SPDX-License-Identifier: Apache-2.0
// Token rules: see decoding.h. A bad word is banned as two token sequences: the word as given,
// and with a space before it.
#include "http/api/decoding.h"

#include "runtime/grammar/token_rules.h"

#include <string.h>

enum { WORDS_MAX = 1000, WORD_TOKENS_MAX = 8192, WAYS = 2 };

struct words { // state of tokenizing the words
    struct generation *g;
    int32_t *tokens; // [WORD_TOKENS_MAX]
    uint32_t *start; // [WAYS * WORDS_MAX + 1] prefix sums
    uint32_t count;  // number of sequences
};

static void too_long(struct fields *f, const char *path)
{
    fields_fail(f, HTTP_INVALID_VALUE, path, "must have at most %d tokens in all words",
                WORD_TOKENS_MAX);
}

// Adds the tokens of a text as a sequence, unless the previous sequence is equal.
static void way_add(struct words *w, struct text text, const char *path)
{
    struct fields *f = &w->g->call.fields;
    const struct served_model *model = w->g->call.model;
    struct error err;
    uint32_t from = w->start[w->count], count = 0;
    struct encode_args encode = {.text = text,
                                 .flags = ENCODE_ADDED_TOKENS,
                                 .arena = exchange_scratch(w->g->call.exchange),
                                 .slice = w->g->call.slice};
    enum status status = tokenizer_encode(model->tokenizer, &encode, w->tokens + from,
                                          WORD_TOKENS_MAX - from, &count, &err);
    if (encoding_stopped(status, count, WORD_TOKENS_MAX - from))
        too_long(f, path);
    else if (status != STATUS_OK)
        fields_fail(f, HTTP_TOO_LARGE, path, "is too large");
    if (f->failed)
        return;
    uint32_t before = w->count > 0 ? w->start[w->count - 1] : 0;
    bool same = w->count > 0 && from - before == count &&
                memcmp(w->tokens + before, w->tokens + from, count * sizeof *w->tokens) == 0;
    // A sequence with an id that the model does not have can never be generated.
    if (count == 0 || same || tokens_known(w->tokens + from, count, model->facts->vocab) < count)
        return;
    w->start[++w->count] = from + count;
}

static void word_add(struct words *w, const json_t *value, const char *path)
{
    struct fields *f = &w->g->call.fields;
    struct text word = json_text(value);
    struct arena *arena = exchange_scratch(w->g->call.exchange);
    if (!word.at) {
        fields_fail(f, HTTP_INVALID_TYPE, path, "must be a string");
    } else if (word.bytes == 0) {
        fields_fail(f, HTTP_INVALID_VALUE, path, "must not be empty");
    } else {
        way_add(w, word, path);
        if (f->failed || word.at[0] == ' ')
            return;
        char *spaced = arena_alloc(arena, word.bytes + 1);
        if (!spaced) {
            fields_fail(f, HTTP_TOO_LARGE, path, "is too large");
            return;
        }
        spaced[0] = ' ';
        memcpy(spaced + 1, word.at, word.bytes);
        way_add(w, text_span(spaced, word.bytes + 1), path);
    }
}

static bool words_read(struct words *w, const json_t *value)
{
    struct fields *f = &w->g->call.fields;
    size_t count = json_array_size(value);
    if (value && !json_is_array(value))
        fields_fail(f, HTTP_INVALID_TYPE, "bad_words", "must be an array of strings");
    else if (count > WORDS_MAX)
        fields_fail(f, HTTP_INVALID_VALUE, "bad_words", "must hold at most %d words, got %zu",
                    WORDS_MAX, count);
    if (f->failed || count == 0)
        return !f->failed;
    struct arena *arena = exchange_scratch(w->g->call.exchange);
    w->tokens = arena_alloc(arena, WORD_TOKENS_MAX * sizeof *w->tokens);
    w->start = arena_alloc_zeroed(arena, WAYS * count + 1, sizeof *w->start);
    if (!w->tokens || !w->start)
        fields_fail(f, HTTP_TOO_LARGE, "bad_words", "is too large");
    for (size_t i = 0; i < count && !f->failed; i++)
        word_add(w, json_array_get(value, i), fields_path(f, "bad_words[%zu]", i));
    return !f->failed;
}

static int32_t *allowed_read(struct generation *g, const json_t *value)
{
    struct fields *f = &g->call.fields;
    size_t count = json_array_size(value);
    if (!value)
        return NULL;
    if (!json_is_array(value))
        fields_fail(f, HTTP_INVALID_TYPE, "allowed_token_ids", "must be an array of token ids");
    else if (count == 0)
        fields_fail(f, HTTP_INVALID_VALUE, "allowed_token_ids", "must not be empty");
    if (f->failed)
        return NULL;
    int32_t *ids = arena_alloc(exchange_scratch(g->call.exchange), count * sizeof *ids);
    if (!ids)
        fields_fail(f, HTTP_TOO_LARGE, "allowed_token_ids", "is too large");
    else
        fields_token_ids(f, value, "allowed_token_ids", g->call.model->facts->vocab,
                         (struct id_hints){"", ""}, ids);
    return ids;
}

void token_fields_read(struct generation *g)
{
    struct fields *f = &g->call.fields;
    const json_t *ids = fields_get(f, "allowed_token_ids");
    struct words w = {.g = g};
    int32_t *allowed = f->failed ? NULL : allowed_read(g, ids);
    if (f->failed || !words_read(&w, fields_get(f, "bad_words")) || (!allowed && w.count == 0))
        return;
    struct token_rules_args args = {.vocab = g->call.model->facts->vocab,
                                    .allowed = allowed,
                                    .allowed_count = (uint32_t)json_array_size(ids),
                                    .bad = w.tokens,
                                    .bad_start = w.start,
                                    .bad_count = w.count};
    g->submit.rules = token_rules_create(&args);
    if (!g->submit.rules)
        fields_fail(f, HTTP_INVALID_VALUE, "bad_words",
                    "must leave at least one token that can be sampled");
}
