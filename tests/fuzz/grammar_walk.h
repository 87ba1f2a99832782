// SPDX-License-Identifier: Apache-2.0
// A walk through a grammar, steered by the fuzzer's bytes: a token that a mask allows is accepted,
// and each state allows a token or the end, because dead ends are removed.
#pragma once

#include "runtime/grammar/matcher.h"

enum { WALK_STEPS = 16, WALK_END = 256, WALK_WORDS = 9 };

static struct vocabulary *walk_vocabulary(void)
{
    static char bytes[256];
    struct text tokens[256];
    int32_t end = WALK_END;
    for (int i = 0; i < 256; i++) {
        bytes[i] = (char)i;
        tokens[i] = text_span(&bytes[i], 1);
    }
    return vocabulary_create(&(struct vocabulary_args){257, tokens, 256, NULL, &end, 1});
}

// Walks the grammar and releases the caller's reference.
static void grammar_walk(struct grammar *g, const uint8_t *data, size_t bytes)
{
    static struct vocabulary *v;
    if (!v)
        v = walk_vocabulary();
    struct mask_cache *c = mask_cache_create(g, v, NULL);
    struct matcher m;
    matcher_init(&m, c);
    for (size_t step = 0; step < WALK_STEPS && !matcher_is_done(&m); step++) {
        uint32_t words[WALK_WORDS], token = data[step % bytes], tries = 0;
        enum matcher_result result = matcher_mask(&m, words);
        check(result != MATCHER_STUCK, "a dead end after %zu steps", step);
        if (result == MATCHER_OVER)
            break;
        for (; tries < 257 && !(words[token / 32] >> (token % 32) & 1); tries++)
            token = (token + 1) % 257;
        check(tries < 257, "a mask allows nothing");
        check(token != WALK_END || matcher_may_end(&m), "an end that is none, after %zu steps",
              step);
        check(matcher_accept(&m, (int32_t)token), "token %u of the mask is refused", token);
    }
    matcher_end(&m);
    mask_cache_destroy(c);
    grammar_unref(g);
}

// Ends a fuzz case: walks the compiled grammar, or checks that there is an error sentence. Frees
// the builder.
static void grammar_end(struct grammar_builder *b, enum status status, uint32_t root,
                        const struct error *compiled, const uint8_t *data, size_t bytes)
{
    struct error err = *compiled;
    struct grammar *g;
    if (status != STATUS_OK)
        grammar_builder_destroy(b);
    else
        status = grammar_finish(b, root, &g, &err);
    if (status == STATUS_OK)
        grammar_walk(g, data, bytes);
    else
        check(err.text[0] != '\0', "an error without a sentence");
}
