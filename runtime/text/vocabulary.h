// The tokens of a tokenizer as grammars read them (runtime/grammar/vocabulary.h).
#pragma once

#include "runtime/grammar/vocabulary.h"
#include "runtime/text/tokenizer.h"

// For a model whose head has `vocab` ids, of which end_ids end an answer. Special tokens are no
// text: they may come and be markers in free parts alone. Added tokens that are not special are
// text, as readers of the answer see them. The caller gives it back (vocabulary_give).
struct vocabulary *tokenizer_vocabulary(const struct tokenizer *t, uint32_t vocab,
                                        const int32_t *end_ids, uint32_t end_count);
