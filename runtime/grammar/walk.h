// SPDX-License-Identifier: Apache-2.0
// Private header of vocabularies: tries in the order in which masks walk them.
//
// Tokens are divided into kinds. A plain token consists of characters that a JSON string contains
// unescaped (the last character may be incomplete). In a state inside such text, masks allow entire
// kinds of plain tokens and only walk the others. The kinds of plain tokens differ by their number
// of characters, so that strings with a maximum length benefit as well. The few tokens longer than
// TOKEN_SHORT_MAX bytes are a separate kind, so that the masks of all others do not depend on
// repeat counts farther away than that.
//
// Each kind has two tries: one of the bytes of its tokens, and one of their shapes, in which each
// byte is replaced by its group (byte_groups.h). Many words share a shape, so the second trie is
// far smaller. It is used if the grammar treats all bytes of a group alike.
#pragma once

#include "runtime/grammar/byte_groups.h"
#include "runtime/grammar/vocabulary.h"

#include <stdatomic.h>

enum {
    PLAIN_KINDS = 4,
    KIND_OTHER = PLAIN_KINDS,
    SHORT_KINDS,
    KIND_LONG = SHORT_KINDS,
    TOKEN_KINDS,
    TOKEN_SHORT_MAX = 32,
    PLAIN_WHOLE = 255, // as a number of characters: any number of plain characters is allowed
};
// Maximum number of characters of the tokens of kind i; the last kind contains all longer ones.
static const uint32_t PLAIN_CHARS[PLAIN_KINDS] = {4, 8, 16, PLAIN_WHOLE};

// A node is a run of bytes in which no token ends and no token branches off. Nodes are in preorder:
// the subtree of a node follows it. If a state leads to itself by all groups of a node and its
// subtree, all tokens in them are allowed without a walk.
struct trie_node {
    uint64_t groups; // groups of the bytes of the node and its subtree (byte_groups.h)
    uint32_t end;    // index of the first node after the subtree
    // index into ids of its tokens; those of the subtree begin at `first` of the next node
    uint32_t first;
    uint32_t text;       // index into bytes of the node's bytes
    uint16_t plain : 1;  // 1 if the path to it consists of complete plain characters
    uint16_t whole : 1;  // 1 if all tokens of the node and its subtree are plain
    uint16_t level : 14; // number of nodes on the path to it
    uint8_t count, byte; // number of bytes, and the first byte
};
struct token_trie {
    struct trie_node *nodes; // [count + 1]
    uint8_t *bytes;          // in a trie of shapes: groups
    int32_t *ids;
    uint32_t count, byte_count, id_count;
    uint32_t root[256]; // node of each first byte or group; TRIE_NONE: none
};
#define TRIE_NONE UINT32_MAX

struct vocabulary {
    _Atomic uint32_t owners;
    uint32_t vocab, words;
    struct token_trie tries[TOKEN_KINDS], shapes[TOKEN_KINDS];
    struct token_trie tails; // tokens of KIND_OTHER without their leading plain characters
    uint8_t group_of[256];
    uint32_t *plain[PLAIN_KINDS]; // [words] mask of the tokens of kinds 0..k
    uint32_t *any;                // [words] mask of all tokens with bytes and all end ids
    uint32_t *first;              // [vocab + 1] offset of each token in text
    char *text;
    int32_t *ends;
    uint32_t end_count;
    uint32_t longest;         // bytes of the longest token
    uint32_t alphabets[2][8]; // [0]: bytes of text tokens; [1]: including special tokens
    bool writes_all[2];       // true if the alphabet contains all bytes of UTF-8
    size_t bytes;
};
