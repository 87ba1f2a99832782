// SPDX-License-Identifier: Apache-2.0
// A file with the logits of one `weft perplexity`, with which another compares its own. The file
// has a head, then per predicted token its id and its logits, in the byte order of the machine.
// Main thread.
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct logits_head {
    char magic[8];
    uint32_t vocab, window, stride; // sizes with which the logits were computed
    uint32_t zero;
};

struct logits_file {
    const char *path; // NULL: no file, and all functions do nothing
    bool compares;    // true: the file is read, else it is written
    FILE *file;
    uint32_t vocab;
    float *row;     // [vocab] logits of the file
    uint64_t count; // number of tokens so far
    // Sums over the tokens, if the file is read.
    double divergence; // Kullback-Leibler divergence from the file's distribution, in nats
    double difference; // mean absolute difference of the logits
    uint64_t equal;    // number of tokens with the same best token
};

// Opens the file that is to be written (compares false) or read; path must stay valid. Errors name
// the file: NOT_FOUND; IO; INVALID if its logits were not computed with the vocabulary, the window
// and the stride of head. Call logits_file_close also after an error.
enum status logits_file_open(struct logits_file *file, const char *path, bool compares,
                             const struct logits_head *head, struct error *err) MUST_USE;

// Writes the logits that predict a token, [vocab] f32, or compares them with those of the file.
// INVALID if the file ends or has another token here.
enum status logits_file_add(struct logits_file *file, int32_t token, const float *logits,
                            struct error *err) MUST_USE;

// Closes the file and frees the memory. Returns so_far, or an error: IO if writing failed, INVALID
// if the file that is read has more tokens.
enum status logits_file_close(struct logits_file *file, enum status so_far,
                              struct error *err) MUST_USE;
