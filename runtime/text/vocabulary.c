// SPDX-License-Identifier: Apache-2.0
// See vocabulary.h. Any thread; the tokenizer is only read.
#include "runtime/text/vocabulary.h"

#include "base/arena.h"

struct vocabulary *tokenizer_vocabulary(const struct tokenizer *t, uint32_t vocab,
                                        const int32_t *end_ids, uint32_t end_count)
{
    uint32_t count = tokenizer_vocab(t) < vocab ? tokenizer_vocab(t) : vocab;
    struct text *tokens = heap_alloc_zeroed(count + 1, sizeof *tokens);
    struct text *specials = heap_alloc_zeroed(count + 1, sizeof *specials);
    for (uint32_t id = 0; id < count; id++)
        if (tokenizer_is_special(t, (int32_t)id))
            specials[id] = tokenizer_token_text(t, (int32_t)id);
        else
            tokens[id] = tokenizer_token_bytes(t, (int32_t)id);
    struct vocabulary_args args = {.vocab = vocab,
                                   .tokens = tokens,
                                   .count = count,
                                   .specials = specials,
                                   .end_ids = end_ids,
                                   .end_count = end_count};
    struct vocabulary *v = vocabulary_create(&args);
    heap_free(tokens);
    heap_free(specials);
    return v;
}
