// SPDX-License-Identifier: Apache-2.0
// The content of requests: generated words, items of a data set, and the JSON bodies made of them.
#pragma once

#include "loadgen/options.h"

enum { BENCH_WORDS = 64 };

// Words of generated prompts, and how many tokens they become.
struct bench_words {
    const char *at[BENCH_WORDS];
    uint32_t count;
    double tokens_per_word;
    double overhead; // tokens of a prompt besides its words, such as those of the chat template
    bool exact;      // true if each word is one token of the model's tokenizer
};

void bench_words_init(struct bench_words *words);
// Keeps the words that are one token each of the tokenizer in this folder. An error if there are
// none, or if the tokens of joined words are not as many as the words.
enum status bench_words_fit(struct bench_words *words, const char *folder,
                            struct error *err) MUST_USE;
// Returns the number of words that make a prompt of this many tokens, at least 1.
uint32_t bench_words_for(const struct bench_words *words, uint32_t tokens);

// One prompt of a data set: messages (an array) or a text.
struct bench_item {
    json_t *messages;       // or NULL
    const char *text;       // or NULL
    uint32_t output_tokens; // length of the answer; 0: not given
};

struct bench_dataset {
    struct bench_item *items; // [count]
    uint32_t count;
    struct arena *arena;
};

// Reads a file of ShareGPT's format (a JSON array of conversations) or of JSON lines with messages
// or a prompt, and puts the items into an order that depends on the seed.
enum status bench_dataset_open(struct bench_dataset *out, const char *path, uint64_t seed,
                               struct error *err) MUST_USE;
void bench_dataset_close(struct bench_dataset *set);

// One request to send. hashes: ids of prefix blocks of 512 tokens (Mooncake), or none.
struct bench_request {
    const struct bench_target *target;
    uint64_t seed; // seed of the generated text
    uint32_t words, max_tokens;
    const uint32_t *hashes; // [hash_count]
    uint32_t hash_count;
    const struct bench_item *item; // item of the data set, or NULL
};

// Writes the JSON body; the buffer is emptied first.
void bench_body_write(struct json_buffer *out, const struct bench_options *o,
                      const struct bench_words *words, const struct bench_request *request);
// Returns true if the reply is requested as a stream.
bool bench_body_streams(const struct bench_options *o, enum bench_api api);
