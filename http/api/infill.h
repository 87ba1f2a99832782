// SPDX-License-Identifier: Apache-2.0
// Fill in the middle: a completion between a prompt and a suffix. Pure functions for any thread.
#pragma once

#include "runtime/text/tokenizer.h"

enum { INFILL_MARKS_MAX = 3, INFILL_ENDS_MAX = 16 };

struct infill_marks {
    int32_t prefix, suffix;
    int32_t middle;     // -1: none, the suffix comes before the prefix (Codestral)
    int32_t repo, file; // marks before the name of a repository and of a file; -1: none
};

// Finds the marks of the vocabulary. Returns false if the model has none.
bool infill_find(struct infill_marks *out, const struct tokenizer *tokenizer);

// The tokens of both texts; borrowed.
struct infill_text {
    const int32_t *prefix; // [before + own] i32: special tokens such as BOS, then the text's own
    const int32_t *suffix; // [suffix_count] i32
    uint32_t before, own;  // number of special tokens, and of the text's own
    uint32_t suffix_count; // number of tokens of the suffix
};

// Writes the ids that end the text in the middle: all marks, and the tokens for the end of a text
// that the model's end ids may lack. Returns their number, at most INFILL_ENDS_MAX.
uint32_t infill_ends(const struct infill_marks *marks, const struct tokenizer *tokenizer,
                     int32_t out[INFILL_ENDS_MAX]);

// Writes the prompt, at most before + own + suffix_count + INFILL_MARKS_MAX tokens. Returns their
// number.
uint32_t infill_join(const struct infill_marks *marks, const struct infill_text *text,
                     int32_t *out);
