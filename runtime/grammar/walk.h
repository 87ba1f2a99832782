// The inside of vocabularies: tries in the order of a walk.
//
// Tokens are cut into kinds. Plain ones consist of characters that JSON strings hold as they are
// (a last one may be cut); where a grammar stands inside such text, whole kinds are allowed at once
// and only the others are walked. Kinds of plain tokens go by their count of characters, so that
// strings with a bound on their length gain by it too. The few tokens that are longer than
// TOKEN_NEAR bytes are a kind of their own: the masks of all others do not depend on counts that
// are further away.
//
// A kind has two tries: of the bytes of its tokens, and of their shapes, which are the sorts of
// those bytes (sorts.h). Words of equal length have one shape, so the second one is far smaller,
// and serves wherever a grammar does not tell the bytes of a sort apart.
#pragma once

#include "runtime/grammar/sorts.h"
#include "runtime/grammar/vocabulary.h"

#include <stdatomic.h>

enum {
    PLAIN_KINDS = 4,
    KIND_OTHER = PLAIN_KINDS,
    NEAR_KINDS,
    KIND_LONG = NEAR_KINDS,
    TOKEN_KINDS,
    TOKEN_NEAR = 32,
    PLAIN_WHOLE = 255, // plain characters without end stay inside
};
// Tokens of kind i have at most so many characters; the last kind has all longer ones.
static const uint32_t PLAIN_CHARS[PLAIN_KINDS] = {4, 8, 16, PLAIN_WHOLE};

// A node is a stretch of bytes inside of which no token ends and none branches off. Nodes stand in
// preorder: the children of one follow it at once. Where a state leads to itself by all sorts of
// bytes that a node and what follows it have, all tokens there are allowed without a walk.
struct trie_node {
    uint64_t sorts; // of its bytes and of all that follow it (sorts.h)
    uint32_t end;   // first node after what begins with it
    uint32_t first; // into ids: its tokens, up to `first` of the next node, then what follows it
    uint32_t text;  // into bytes
    uint16_t plain : 1;  // nothing but whole plain characters stands before it
    uint16_t whole : 1;  // its tokens, and those that follow it, are plain altogether
    uint16_t level : 14; // nodes on the way to it
    uint8_t count, byte; // its bytes: how many, and the first one
};
struct token_trie {
    struct trie_node *nodes; // [count + 1]
    uint8_t *bytes;          // of shapes: sorts
    int32_t *ids;
    uint32_t count, byte_count, id_count;
    uint32_t root[256]; // first byte, or sort -> node, TRIE_NONE where there is none
};
#define TRIE_NONE UINT32_MAX

struct vocabulary {
    _Atomic uint32_t owners;
    uint32_t vocab, words;
    struct token_trie tries[TOKEN_KINDS], shapes[TOKEN_KINDS];
    struct token_trie tails; // tokens of KIND_OTHER without the plain characters they begin with
    uint8_t sort_of[256];
    uint32_t *plain[PLAIN_KINDS]; // [words] tokens of the kind and those before it
    uint32_t *any;                // [words] all tokens with bytes, and the ends
    uint32_t *first;              // [vocab + 1] into text
    char *text;
    int32_t *ends;
    uint32_t end_count;
    uint32_t longest;         // bytes of a token
    uint32_t alphabets[2][8]; // [1]: of special tokens, too
    bool writes_all[2];       // the alphabet has all bytes of UTF-8
    size_t bytes;
};
