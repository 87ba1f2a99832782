// SPDX-License-Identifier: Apache-2.0
// Words of generated prompts. If the model's tokenizer is at hand, only words that are one token
// each are used, so that a prompt has an exact length without encoding it. Main thread.
#include "loadgen/content.h"

#include "runtime/text/tokenizer.h"

#include <math.h>
#include <string.h>

// With fewer than WORDS_MIN words prompts would begin alike; with fewer than WORDS_ENOUGH, words of
// the vocabulary are added.
enum { WORDS_MIN = 4, WORDS_ENOUGH = 16 };

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

// Keeps a word that is one token at the start of a text and after a space, unless it is known.
static void word_keep(struct bench_words *words, struct text word,
                      const struct tokenizer *tokenizer, struct arena *arena)
{
    for (uint32_t i = 0; i < words->count; i++)
        if (text_is(word, words->at[i]))
            return;
    struct text twice =
        arena_format(arena, "%.*s %.*s", (int)word.bytes, word.at, (int)word.bytes, word.at);
    if (tokens_of(tokenizer, word, arena) != 1 || tokens_of(tokenizer, twice, arena) != 2)
        return;
    char *own = words->own[words->count];
    memcpy(own, word.at, word.bytes);
    own[word.bytes] = '\0';
    words->at[words->count++] = own;
}

// Keeps tokens of the vocabulary that are lower-case letters, with or without a space before them.
static void vocabulary_keep(struct bench_words *words, const struct tokenizer *tokenizer,
                            struct arena *arena)
{
    uint32_t vocabulary = tokenizer_vocab(tokenizer);
    for (uint32_t id = 0; id < vocabulary && words->count < BENCH_WORDS; id++) {
        struct text token = tokenizer_token_bytes(tokenizer, (int32_t)id);
        if (token.bytes > 0 && token.at[0] == ' ')
            token = text_span(token.at + 1, token.bytes - 1);
        size_t letters = 0;
        while (letters < token.bytes && token.at[letters] >= 'a' && token.at[letters] <= 'z')
            letters++;
        if (letters > 0 && letters == token.bytes && letters < BENCH_WORD_BYTES &&
            !tokenizer_is_special(tokenizer, (int32_t)id))
            word_keep(words, token, tokenizer, arena);
    }
}

enum status bench_words_fit(struct bench_words *words, const char *folder, struct error *err)
{
    struct tokenizer *tokenizer = NULL;
    enum status status = tokenizer_open(&tokenizer, folder, err);
    if (status != STATUS_OK)
        return status;
    struct arena *arena = arena_create(0, 0);
    words->count = 0;
    for (uint32_t i = 0; i < BENCH_WORDS; i++)
        word_keep(words, text_of(words_all[i]), tokenizer, arena);
    if (words->count < WORDS_ENOUGH)
        vocabulary_keep(words, tokenizer, arena);
    words->exact = words->count >= WORDS_MIN && words_join(words, tokenizer, arena);
    if (!words->exact)
        status = error_set(err, STATUS_UNSUPPORTED,
                           "the tokenizer in %s has too few words of the letters a to z that are "
                           "one token each: leave --tokenizer out, then lengths follow the "
                           "server's usage",
                           folder);
    arena_destroy(arena);
    tokenizer_close(tokenizer);
    return status;
}
