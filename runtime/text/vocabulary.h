// SPDX-License-Identifier: Apache-2.0
// Creates the vocabulary that grammars use (runtime/grammar/vocabulary.h) from a tokenizer.
#pragma once

#include "runtime/grammar/vocabulary.h"
#include "runtime/text/tokenizer.h"

// Creates the vocabulary of a model whose head has `vocab` ids; end_ids: the ids that end a reply.
// Special tokens are not text: a grammar allows them only as markers in its free parts. Added
// tokens that are not special are text. The caller releases it with vocabulary_unref.
struct vocabulary *tokenizer_vocabulary(const struct tokenizer *t, uint32_t vocab,
                                        const int32_t *end_ids, uint32_t end_count);
