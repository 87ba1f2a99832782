// The inside of vocabularies: tries in the order of a walk.
//
// Tokens are cut into kinds. Plain ones consist of characters that JSON strings hold as they are
// (a last one may be cut); where a grammar stands inside such text, whole kinds are allowed at once
// and only the others are walked. Kinds of plain tokens go by their count of characters, so that
// strings with a bound on their length gain by it too.
#pragma once

#include "runtime/grammar/vocabulary.h"

#include <stdatomic.h>

enum {
    PLAIN_KINDS = 4,
    KIND_OTHER = PLAIN_KINDS,
    TOKEN_KINDS,
    PLAIN_WHOLE = 255, // plain characters without end stay inside
};
// Tokens of kind i have at most so many characters; the last kind has all longer ones.
static const uint32_t PLAIN_CHARS[PLAIN_KINDS] = {4, 8, 16, PLAIN_WHOLE};

// Nodes in preorder: the children of one follow it at once.
struct trie_node {
    uint32_t end;   // first node after what begins with it
    int32_t token;  // that ends here; -1: none
    uint16_t depth; // 0: one byte
    uint8_t byte;
};
struct trie {
    struct trie_node *nodes;
    uint32_t count;
};

struct vocabulary {
    _Atomic uint32_t owners;
    uint32_t vocab, words;
    struct trie tries[TOKEN_KINDS];
    uint32_t *plain[PLAIN_KINDS]; // [words] tokens of this kind and those before it
    int32_t *same;                // [vocab] another token with the same bytes, or -1
    uint32_t *first;              // [vocab + 1] into text
    char *text;
    int32_t *ends;
    uint32_t end_count;
    size_t bytes;
};
