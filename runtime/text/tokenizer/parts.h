// SPDX-License-Identifier: Apache-2.0
// The parts of a tokenizer after reading its file. Data only, constant after open; it lives in the
// tokenizer's arena unless stated otherwise. Only the tokenizer's own files include this.
#pragma once

#include "runtime/text/tokenizer/encode.h"
#include "runtime/text/tokenizer/vocab.h"

// ---- normalizers

enum normalizer_kind {
    NORMALIZE_NFC,
    NORMALIZE_NFD,
    NORMALIZE_NFKC,
    NORMALIZE_NFKD,
    NORMALIZE_LOWERCASE,
    NORMALIZE_STRIP_ACCENTS,
    NORMALIZE_STRIP,
    NORMALIZE_PREPEND,
    NORMALIZE_REPLACE,
    NORMALIZE_BERT,
    NORMALIZE_PRECOMPILED,
    NORMALIZE_NMT,
    NORMALIZE_BYTE_LEVEL,
};

struct charsmap {
    const uint32_t *units; // [unit_count] double-array trie
    uint32_t unit_count;
    struct text replacements; // NUL-separated texts
};

struct normalizer {
    enum normalizer_kind kind;
    struct text from, to;            // Replace; Prepend uses `to`
    struct regex *regex;             // Replace with a pattern; else NULL
    bool left, right;                // Strip: at which ends
    bool clean, cjk, accents, lower; // BertNormalizer's options
    struct charsmap map;
};

// ---- pre-tokenizers

enum pre_kind {
    PRE_BYTE_LEVEL,
    PRE_METASPACE,
    PRE_SPLIT,
    PRE_BERT,
    PRE_WHITESPACE,
    PRE_WHITESPACE_SPLIT,
    PRE_PUNCTUATION,
    PRE_DIGITS,
    PRE_DELIMITER,
    PRE_FIXED_LENGTH,
    PRE_SCRIPTS,
};

// The effect of a match of the pattern: it is dropped, becomes its own piece, joins the piece
// before or after it, or joins adjacent matches.
enum split_behavior { SPLIT_REMOVED, SPLIT_ISOLATED, SPLIT_PREVIOUS, SPLIT_NEXT, SPLIT_CONTIGUOUS };
enum prepend_scheme { PREPEND_ALWAYS, PREPEND_FIRST, PREPEND_NEVER };

struct pre_tokenizer;
// Returns the end of the word that begins at `from` < text.bytes. For patterns whose matches leave
// no gaps.
typedef size_t scan_function(const struct pre_tokenizer *p, struct text text, size_t from);

struct pre_tokenizer {
    enum pre_kind kind;
    bool add_prefix_space, use_regex, map_bytes; // ByteLevel only
    bool split, invert;
    enum prepend_scheme scheme;
    enum split_behavior behavior;
    struct text text;    // delimiter, replacement or literal pattern
    struct regex *regex; // pattern of PRE_SPLIT; NULL if `scan` or `text` is used
    scan_function *scan; // hand-written scanner for a known pattern, or NULL
    unsigned digits_max; // longest run of digits that the scanner keeps together
    uint32_t length;     // characters per piece of PRE_FIXED_LENGTH
};

// ---- models

enum tokenizer_kind { TOKENIZER_BPE, TOKENIZER_WORDPIECE, TOKENIZER_UNIGRAM, TOKENIZER_WORD_LEVEL };

struct merge_entry {
    uint32_t left, right; // ids of the pair; left == UINT32_MAX: empty entry
    uint32_t rank, id;    // rank: index in the file, lower merges first; id: the merged token
};

// PAIR_BITS: size of bpe.pairs in bits. SINGLE_TOKEN: bit in an id of by_piece, set if the token's
// own text is encoded as just this token.
enum { PAIR_BITS = 1 << 17, SINGLE_TOKEN = 1u << 31 };

struct bpe {
    bool bytes;     // true if pieces are raw bytes (byte-level vocabulary)
    bool all_bytes; // true if each of the 256 bytes has an id in byte_ids
    bool byte_fallback, fuse_unk, ignore_merges;
    bool splits; // true if pairs[] shows where no merge can cross
    struct text prefix, suffix;
    int32_t unk;
    int32_t byte_ids[256];      // token of each byte, or its byte-fallback token; -1: none
    int32_t *char_ids;          // [65536] token of each character below U+10000; -1: none
    struct merge_entry *merges; // [merge_mask + 1] open-addressing hash of pairs
    uint32_t merge_mask;
    uint64_t *pairs; // [PAIR_BITS / 64] bit set of hashed symbol pairs that some merge joins; may
                     // contain others
};

struct wordpiece {
    struct text prefix;
    uint32_t chars_max;
    int32_t unk;
    struct trie first, rest; // pieces at the start of a word; pieces after it, without `prefix`
};

struct unigram {
    struct trie trie;
    double *scores; // [vocab] f64 score of each token, from the file
    double unk_score;
    int32_t unk; // -1: none
    bool byte_fallback;
    int32_t byte_ids[256];
};

// ---- added tokens

struct added_token {
    struct text content;
    uint32_t id;
    bool single_word, lstrip, rstrip, normalized, special;
    bool guarded;  // true if plain text never contains it: a special token or a marker
    bool verbatim; // true if its text is not normalized before it is searched in normalized text
};

struct added_matcher {
    struct trie trie;   // values are indices into added[]
    bool any, any_word; // true if there is a token; one that is not guarded
    int only_byte;      // the first byte of all tokens if there is only one; else -1
    bool begins[256];   // true for each first byte of a token
};

// ---- post-processors

enum template_kind { TEMPLATE_A, TEMPLATE_B, TEMPLATE_IDS };

struct template_item {
    enum template_kind kind;
    uint8_t type_id;
    uint32_t id_count;
    const uint32_t *ids;
};

struct post_processor {
    struct template_item *single, *pair;
    uint32_t single_count, pair_count;
};

// ---- decoders

enum decoder_kind {
    DECODE_BYTE_LEVEL,
    DECODE_REPLACE,
    DECODE_BYTE_FALLBACK,
    DECODE_FUSE,
    DECODE_STRIP,
    DECODE_METASPACE,
    DECODE_WORDPIECE,
    DECODE_BPE,
    DECODE_CTC,
};

struct decoder {
    enum decoder_kind kind;
    struct text from, to; // Replace: both; prefix, suffix or pad: from; word delimiter: to
    struct regex *regex;
    bool cleanup;
    bool drop_first; // Metaspace: the first token loses its replacement characters
    uint32_t start, stop;
};
