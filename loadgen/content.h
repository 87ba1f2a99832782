// SPDX-License-Identifier: Apache-2.0
// The content of requests: generated words, items of a data set, and the JSON bodies that contain
// them. One thread.
#pragma once

#include "loadgen/options.h"

enum { BENCH_WORDS = 64, BENCH_WORD_BYTES = 16 };

// Words of generated prompts, and the number of tokens that they become.
struct bench_words {
    const char *at[BENCH_WORDS]; // texts of the program, or in `own`
    char own[BENCH_WORDS][BENCH_WORD_BYTES];
    uint32_t count;
    double tokens_per_word;
    double overhead; // number of tokens that a prompt has in addition to its words (chat template)
    bool exact;      // true if each word is one token of the model's tokenizer
};

// Sets all BENCH_WORDS words, one token per word and no overhead.
void bench_words_init(struct bench_words *words);
// Keeps only the words that the tokenizer in this folder encodes as one token each, and adds words
// of its vocabulary if they are few. The words must not be copied afterwards. UNSUPPORTED if there
// are too few for prompts that differ, or if the words joined by spaces are not one token each;
// errors of tokenizer_open.
enum status bench_words_fit(struct bench_words *words, const char *folder,
                            struct error *err) MUST_USE;
// Returns the number of words, at least 1, for a prompt that has this number of tokens.
uint32_t bench_words_for(const struct bench_words *words, uint32_t tokens);

// One prompt of a data set: either messages or a text.
struct bench_item {
    json_t *messages;       // array of messages, a reference that the item owns; NULL: text
    const char *text;       // text in the arena of the data set; NULL: messages
    uint32_t output_tokens; // length of the answer; 0: not given
};

struct bench_dataset {
    struct bench_item *items; // [count]
    uint32_t count;
    struct arena *arena;
};

// Reads a file of ShareGPT's format (a JSON array of conversations, of which those without a
// question are skipped) or of JSON lines ("messages", "prompt", "text" or "conversations"; a line
// without them is an error), and shuffles the items by o->seed. With o->multi_turn "conversations"
// are complete, else they end before their first answer. The caller closes the set also after an
// error.
enum status bench_dataset_open(struct bench_dataset *out, const struct bench_options *o,
                               struct error *err) MUST_USE;
void bench_dataset_close(struct bench_dataset *set);

// One request to send. It owns nothing.
struct bench_request {
    const struct bench_target *target;
    uint64_t seed;          // seed of the generated text
    uint32_t words;         // number of words of the generated text
    uint32_t max_tokens;    // longest answer
    const uint32_t *hashes; // [hash_count] ids of shared prefix blocks of 512 tokens (Mooncake)
    uint32_t hash_count;
    const json_t *messages;        // messages of a conversation; NULL: those of the item
    const struct bench_item *item; // item of the data set; NULL: --prompt or generated text
};

// Replaces the content of the buffer by the JSON body of the request.
void bench_body_write(struct json_buffer *out, const struct bench_options *o,
                      const struct bench_words *words, const struct bench_request *request);
// Returns true if the reply is requested as a stream.
bool bench_body_streams(const struct bench_options *o, enum bench_api api);
