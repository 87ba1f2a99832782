// SPDX-License-Identifier: Apache-2.0
// Words of generated prompts. If the model's tokenizer is at hand, only words that are one token
// each are used, so that a prompt has an exact length without encoding it. Main thread.
#include "loadgen/content.h"

#include "runtime/text/tokenizer.h"

#include <math.h>

static const char *const words_all[BENCH_WORDS] = {
    "the",   "cat",    "sat",  "on",   "a",      "red",  "mat",   "and",    "saw",  "big",
    "dog",   "run",    "to",   "her",  "mom",    "with", "ball",  "she",    "was",  "very",
    "happy", "they",   "went", "park", "play",   "one",  "day",   "little", "girl", "named",
    "lily",  "found",  "toy",  "in",   "room",   "he",   "liked", "it",     "so",   "much",
    "that",  "wanted", "show", "his",  "friend", "tom",  "said",  "let",    "us",   "go",
    "see",   "bird",   "tree", "sun",  "sky",    "blue", "box",   "new",    "old",  "car",
    "fish",  "water",  "home", "end"};

void bench_words_init(struct bench_words *words)
{
    *words = (struct bench_words){.count = BENCH_WORDS, .tokens_per_word = 1};
    for (uint32_t i = 0; i < BENCH_WORDS; i++)
        words->at[i] = words_all[i];
}

uint32_t bench_words_for(const struct bench_words *words, uint32_t tokens)
{
    double count = round(((double)tokens - words->overhead) / words->tokens_per_word);
    return count < 1 ? 1 : (uint32_t)count;
}

// Returns the number of tokens of a text; 0 if it cannot be encoded.
static uint32_t tokens_of(const struct tokenizer *tokenizer, struct text text, struct arena *arena)
{
    struct error err;
    uint32_t count = 0, bound = tokenizer_bound(tokenizer, text.bytes);
    int32_t *tokens = arena_alloc(arena, bound * sizeof *tokens);
    struct encode_args args = {.text = text, .flags = ENCODE_PLAIN, .arena = arena};
    bool good = tokens && tokenizer_encode(tokenizer, &args, tokens, bound, &count, &err) == 0;
    return good ? count : 0;
}

// Returns true if all words, joined in an order that mixes them, are one token each.
static bool words_join(const struct bench_words *words, const struct tokenizer *tokenizer,
                       struct arena *arena)
{
    enum { JOINED = 512 };
    struct arena_text text = {0};
    for (uint32_t i = 0; i < JOINED; i++) {
        arena_text_add(arena, &text, text_of(i > 0 ? " " : ""));
        arena_text_add(arena, &text, text_of(words->at[bench_random(i) % words->count]));
    }
    return tokens_of(tokenizer, text_span(text.at, text.bytes), arena) == JOINED;
}

enum status bench_words_fit(struct bench_words *words, const char *folder, struct error *err)
{
    struct tokenizer *tokenizer = NULL;
    enum status status = tokenizer_open(&tokenizer, folder, err);
    if (status != STATUS_OK)
        return status;
    struct arena *arena = arena_create(0, 0);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < words->count; i++) {
        struct text twice = arena_format(arena, "%s %s", words->at[i], words->at[i]);
        if (tokens_of(tokenizer, text_of(words->at[i]), arena) == 1 &&
            tokens_of(tokenizer, twice, arena) == 2)
            words->at[kept++] = words->at[i];
    }
    words->count = kept > 0 ? kept : words->count;
    words->exact = kept > 0 && words_join(words, tokenizer, arena);
    if (!words->exact)
        status = error_set(err, STATUS_UNSUPPORTED,
                           "the tokenizer in %s has no English words that are one token each: "
                           "leave --tokenizer out, then lengths follow the server's usage",
                           folder);
    arena_destroy(arena);
    tokenizer_close(tokenizer);
    return status;
}
