// The parts that a tokenizer file describes, as they are after reading. Data only; constant after
// open. Only the tokenizer's own files include this.
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
    const uint32_t *units; // [unit_count] the double array
    uint32_t unit_count;
    struct text replacements; // texts with NUL between them
};

struct normalizer {
    enum normalizer_kind kind;
    struct text from, to;            // replace; prepend (to)
    struct regex *regex;             // replace with a pattern
    bool left, right;                // strip
    bool clean, cjk, accents, lower; // bert
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

enum split_behavior { SPLIT_REMOVED, SPLIT_ISOLATED, SPLIT_PREVIOUS, SPLIT_NEXT, SPLIT_CONTIGUOUS };
enum prepend_scheme { PREPEND_ALWAYS, PREPEND_FIRST, PREPEND_NEVER };

struct pre_tokenizer;
// The end of the word that begins at `from`, which is in the text: patterns that leave no gaps.
typedef size_t scan_function(const struct pre_tokenizer *p, struct text text, size_t from);

struct pre_tokenizer {
    enum pre_kind kind;
    bool add_prefix_space, use_regex, map_bytes; // byte level
    bool split, invert;
    enum prepend_scheme scheme;
    enum split_behavior behavior;
    struct text text;    // the delimiter, replacement or literal pattern
    struct regex *regex; // pattern of PRE_SPLIT, unless a scanner stands for it
    scan_function *scan; // hand-written scanner of a known pattern
    unsigned digits_max; // of the scanner
    uint32_t length;     // fixed length
};

// ---- models

enum tokenizer_kind { TOKENIZER_BPE, TOKENIZER_WORDPIECE, TOKENIZER_UNIGRAM, TOKENIZER_WORD_LEVEL };

struct merge_entry {
    uint32_t left, right; // left == UINT32_MAX: empty
    uint32_t rank, id;
};

enum { PAIR_BITS = 1 << 17, WORD_WHOLE = 1u << 31 };

struct bpe {
    bool bytes;     // pieces are raw bytes (byte-level vocabulary)
    bool all_bytes; // and each byte has an id
    bool byte_fallback, fuse_unk, ignore_merges;
    bool splits; // pairs[] says where no merge can cross
    struct text prefix, suffix;
    int32_t unk;
    int32_t byte_ids[256];      // id of a byte (bytes) or of its fallback token; -1: none
    int32_t *char_ids;          // [65536] id of a character of the basic plane, -1: none
    struct merge_entry *merges; // [merge_mask + 1]
    uint32_t merge_mask;
    uint64_t *pairs; // [PAIR_BITS / 64] hashed pairs of symbols that some merge joins
};

struct wordpiece {
    struct text prefix;
    uint32_t chars_max;
    int32_t unk;
    struct trie first, rest; // pieces at a word's start, and after it (without the prefix)
};

struct unigram {
    struct trie trie;
    double *scores; // [vocab] f64
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
};

struct added_matcher {
    struct trie trie; // values are indices into added[]
    bool any;
    int only_byte;    // the one first byte, -1: several
    bool begins[256]; // first bytes
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
    struct text from, to; // replace; prefix, suffix, pad (from); content, delimiter (to)
    struct regex *regex;
    bool cleanup;
    bool drop_first; // metaspace: the first token loses its replacements
    uint32_t start, stop;
};
