// SPDX-License-Identifier: Apache-2.0
// Free parts: any text up to the first of several markers. Each node of the automaton that finds
// them (finder.h) becomes a rule.
#include "runtime/grammar/finder.h"

// The body of a node's rule. Bytes that lead to the same node share a set.
static uint32_t body_of(const struct finder *f, const struct finder_node *node, bool must)
{
    uint32_t body = must ? GRAMMAR_NOTHING : GRAMMAR_EMPTY;
    uint32_t seen[SET_WORDS] = {0};
    for (uint32_t first = 0; first < 256; first++) {
        uint32_t set[SET_WORDS] = {0}, to = node->to[first];
        if (set_has(seen, first))
            continue;
        for (uint32_t byte = first; byte < 256; byte++)
            if (node->to[byte] == to) {
                set[byte / 32] |= 1u << (byte % 32);
                seen[byte / 32] |= 1u << (byte % 32);
            }
        uint32_t next = f->nodes[to].complete ? f->nodes[to].then : f->nodes[to].ref;
        body = grammar_either(f->b, grammar_join(f->b, grammar_byte_set(f->b, set), next), body);
    }
    return body;
}

static uint32_t rules_make(struct finder *f, uint32_t root, bool must)
{
    struct grammar_builder *b = f->b;
    for (uint32_t i = 0; i < f->queued; i++) {
        struct finder_node *node = &f->nodes[f->queue[i]];
        node->ref = grammar_rule(b, text_of("free"), &node->rule);
    }
    for (uint32_t i = 0; i < f->queued && !grammar_failed(b); i++) {
        const struct finder_node *node = &f->nodes[f->queue[i]];
        grammar_rule_set(b, node->rule, body_of(f, node, must));
    }
    return grammar_failed(b) ? GRAMMAR_NOTHING : f->nodes[root].ref;
}

uint32_t grammar_free_part(struct grammar_builder *b, const struct grammar_free_part *part)
{
    struct finder f = {.b = b, .unite = grammar_either};
    finder_fill(&f, part->markers, part->count);
    uint32_t result = GRAMMAR_NOTHING;
    if (!grammar_failed(b))
        result = rules_make(&f, f.head, part->must);
    finder_free(&f);
    return result;
}
