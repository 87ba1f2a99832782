// SPDX-License-Identifier: Apache-2.0
// Queries on a matcher that only tests need. The engine does not use them.
#pragma once

#include "runtime/grammar/mask.h"
#include "runtime/grammar/matcher.h"

// Returns false if every token that has bytes may be next and the answer may end here. Computes the
// mask.
static inline bool matcher_needs_mask(struct matcher *m)
{
    struct mask_cache *c = m->cache;
    return matcher_mask(m, c->accept_row) != MATCHER_OK ||
           !vocabulary_allows_all(c->v, c->accept_row);
}

// Returns true if the string is complete and no byte can follow. Tries all 256 bytes on copies.
static inline bool matcher_must_end(struct matcher *m)
{
    bool follows = !matcher_may_end(m);
    for (int byte = 0; byte < 256 && !follows; byte++) {
        char one = (char)byte;
        struct matcher ahead;
        matcher_copy(&ahead, m);
        follows = matcher_accept_bytes(&ahead, text_span(&one, 1));
        matcher_end(&ahead);
    }
    return !follows;
}
