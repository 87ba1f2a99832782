// The parts of a tokenizer and what its files share. Only runtime/text/tokenizer*, bpe*, unigram*,
// wordpiece*, normalizer*, pretokenizer*, charsmap* and detok* include this.
#pragma once

#include "runtime/text/tokenizer.h"
#include "runtime/text/tokenizer_json.h"
#include "runtime/text/tokenizer_regex.h"
#include "runtime/text/tokenizer_unicode.h"
#include "runtime/text/tokenizer_vocab.h"

enum { STAGES_MAX = 32, IDS_MAX = 1 << 24, AFFIX_MAX = 32, TEXT_BYTES_MAX = 1 << 30 };

// ---- where ids go

// One call of tokenizer_encode: the output, the scratch memory and the first thing that failed.
struct encode {
    const struct tokenizer *t;
    struct arena *arena;
    int32_t *tokens;   // [token_max]
    uint8_t *type_ids; // [token_max] or NULL
    uint32_t token_max, token_count;
    uint8_t type_id;
    bool added_tokens;      // recognise them
    const uint8_t *plain;   // [text bytes] 1: no added token here; NULL: everywhere
    uint32_t *scratch[2]; // grow, reused from word to word: symbols, work of long words
    size_t scratch_words[2];
    char *stage_text[STAGES_MAX]; // texts that pre-tokenizers made, one per stage
    size_t stage_bytes[STAGES_MAX];
    struct regex_room *room; // made when the first regex is used
    enum status status;      // STATUS_OK as long as nothing failed
};

static inline void encode_push(struct encode *e, uint32_t id)
{
    if (e->token_count == e->token_max) {
        e->status = STATUS_TOO_LARGE;
        return;
    }
    if (e->type_ids != NULL)
        e->type_ids[e->token_count] = e->type_id;
    e->tokens[e->token_count++] = (int32_t)id;
}

// Memory of one call; NULL after setting e->status.
void *encode_take(struct encode *e, size_t bytes);
// At least `words` uint32 of scratch, contents undefined; NULL after setting e->status.
uint32_t *encode_scratch(struct encode *e, int which, size_t words);

// Makes e->room if there is none; false after setting e->status.
bool encode_room(struct encode *e);

// ---- normalizers

// A text on its way: plain marks bytes in which no added token may be found (NULL: none).
struct nstr {
    const char *at;
    size_t bytes;
    const uint8_t *plain; // [bytes] or NULL
};

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
    struct text from, to; // replace; prepend (to)
    struct regex *regex;  // replace with a pattern
    bool left, right;     // strip
    bool clean, cjk, accents, lower; // bert
    struct charsmap map;
};

// Applies all normalizers; false after setting e->status.
bool normalize(struct encode *e, struct nstr *s);
bool normalize_form(struct encode *e, enum normalizer_kind form, struct nstr *s);
bool normalize_charsmap(struct encode *e, const struct charsmap *map, struct nstr *s);

// A text being made: room is reserved with nbuf_room, then written.
struct nbuf {
    struct encode *e;
    char *at;
    uint8_t *plain; // NULL: not tracked
    size_t bytes, bytes_max;
};
bool nbuf_init(struct nbuf *b, struct encode *e, size_t bytes, bool track);
bool nbuf_put(struct nbuf *b, const char *at, size_t bytes, uint8_t plain);
bool nbuf_put_char(struct nbuf *b, uint32_t c, uint8_t plain);
struct nstr nbuf_done(const struct nbuf *b);
static inline uint8_t plain_at(const struct nstr *s, size_t i)
{
    return s->plain != NULL ? s->plain[i] : 0;
}

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
};

enum split_behavior { SPLIT_REMOVED, SPLIT_ISOLATED, SPLIT_PREVIOUS, SPLIT_NEXT, SPLIT_CONTIGUOUS };
enum prepend_scheme { PREPEND_ALWAYS, PREPEND_FIRST, PREPEND_NEVER };

struct pre_tokenizer;
// The end of the word that begins at `from`, which is in the text: patterns that leave no gaps.
typedef size_t scan_function(const struct pre_tokenizer *p, struct text text, size_t from);

struct pre_tokenizer {
    enum pre_kind kind;
    bool add_prefix_space, use_regex, map_bytes; // byte level
    bool split, invert, individual;
    enum prepend_scheme scheme;
    enum split_behavior behavior;
    struct text text;    // the delimiter, replacement or literal pattern
    struct regex *regex; // pattern of PRE_SPLIT, unless a scanner stands for it
    scan_function *scan; // hand-written scanner of a known pattern
    unsigned digits_max; // of the scanner
    uint32_t length;     // fixed length
};

// Runs the pre-tokenizers from `stage` on and the model on each piece.
void pretokenize(struct encode *e, unsigned stage, struct text piece, bool first);
// The scanner of a known pattern, NULL: none. Fills digits_max.
scan_function *scan_for(struct text pattern, unsigned *digits_max);
scan_function scan_gpt2;

// ---- models

enum model_kind { MODEL_BPE, MODEL_WORDPIECE, MODEL_UNIGRAM, MODEL_WORD_LEVEL };

struct merge_slot {
    uint32_t left, right; // left == UINT32_MAX: empty
    uint32_t rank, id;
};

enum { PAIR_BITS = 1 << 17, WORD_WHOLE = 1u << 31 };

struct bpe {
    bool bytes;         // pieces are raw bytes (byte-level vocabulary)
    bool all_bytes;     // and each byte has an id
    bool byte_fallback, fuse_unk, ignore_merges;
    bool splits;        // pairs[] says where no merge can cross
    struct text prefix, suffix;
    int32_t unk;
    int32_t byte_ids[256];   // id of a byte (bytes) or of its fallback token; -1: none
    int32_t *char_ids;       // [65536] id of a character of the basic plane, -1: none
    struct merge_slot *merges; // [merge_mask + 1]
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

void model_encode(struct encode *e, struct text piece);
void bpe_encode(struct encode *e, struct text piece);
void wordpiece_encode(struct encode *e, struct text piece);
void unigram_encode(struct encode *e, struct text piece);
// The symbols a word begins with, merged, when that is one token: its id, else -1.
int32_t bpe_single(struct encode *e, struct text word);
// Merges the symbols of one word in place; returns how many are left.
size_t bpe_merge(struct encode *e, uint32_t *symbols, size_t count);

// ---- added tokens

struct added_token {
    struct text content;
    uint32_t id;
    bool single_word, lstrip, rstrip, normalized, special;
};

struct added_matcher {
    struct trie trie; // values are indices into added[]
    bool any;
    int only_byte;        // the one first byte, -1: several
    bool begins[256];     // first bytes
};

// Calls back for each stretch (token < 0) and each token of s.
struct added_sink {
    void (*stretch)(struct encode *e, struct nstr piece, bool first);
    bool first; // the text begins the whole input
};
void added_split(struct encode *e, const struct added_matcher *m, struct nstr s,
                 const struct added_sink *sink);

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

// What one decoder makes of one token; first and last say where it stands. NULL at: arena full.
struct text decode_token(const struct decoder *d, struct arena *arena, struct text token,
                         bool first, bool last);

struct tokenizer {
    struct arena *arena;
    struct text *names;  // [vocab] as in the file; at == NULL: no such id
    struct text *pieces; // [vocab] what the model compares: raw bytes, or names
    struct text *bytes;  // [vocab] what the token adds inside a text
    uint8_t *special;    // [vocab] 1: skipped by skip_special
    uint32_t vocab, model_vocab; // model_vocab: without added tokens
    uint32_t bytes_longest;      // of bytes[]
    struct word_table by_name, by_piece;

    struct normalizer normalizers[STAGES_MAX];
    struct pre_tokenizer pre[STAGES_MAX];
    struct decoder decoders[STAGES_MAX];
    uint32_t normalizer_count, pre_count, decoder_count;
    bool has_decoder;

    enum model_kind model;
    struct bpe bpe;
    struct wordpiece wordpiece;
    struct unigram unigram;
    int32_t word_unk; // word level

    struct added_token *added; // [added_count]
    uint32_t added_count;
    struct added_matcher raw, normalized;
    struct post_processor post;

    struct text special_texts[SPECIAL_COUNT];
    int32_t special_ids[SPECIAL_COUNT];
    bool clean_up_spaces;
    struct {
        struct text name, source;
    } templates[16];
    uint32_t template_count;

    // streaming: what is left of the decoder chain when each token has its bytes
    bool stream_first_drops; // metaspace: the first token loses stream_mark
    struct text stream_mark;
    bool stream_first_name;  // WordPiece, no decoder: the first token is written as it is
    bool stream_dedupe;      // CTC
    uint8_t stream_strip_left, stream_strip_right;
    char stream_strip; // the character that is stripped
    double tokens_per_byte;
};

struct tokenizer *tokenizer_create(void);
// source has a NUL behind it and lives in t->arena; name is used in errors.
enum status tokenizer_open_parts(struct tokenizer *t, struct text source, const char *name,
                                 struct error *err);
enum status word_list_open(struct tokenizer *t, const char *folder, const struct jnode *config,
                           struct error *err);
enum status normalizers_open(struct tokenizer *t, const struct jnode *node, struct error *err);
enum status pretokenizers_open(struct tokenizer *t, const struct jnode *node, struct error *err);
enum status model_open_json(struct tokenizer *t, const struct jnode *node, struct error *err);
enum status bpe_open(struct tokenizer *t, const struct jnode *node, struct error *err);
enum status wordpiece_open(struct tokenizer *t, const struct jnode *node, struct error *err);
enum status unigram_open(struct tokenizer *t, const struct jnode *node, struct error *err);
enum status added_open(struct tokenizer *t, const struct jnode *node, struct error *err);
enum status added_match_open(struct tokenizer *t, struct error *err);
enum status post_open(struct tokenizer *t, const struct jnode *node, struct error *err);
enum status decoders_open(struct tokenizer *t, const struct jnode *node, struct error *err);
enum status detok_open(struct tokenizer *t, struct error *err);
void encode_post(struct encode *e, const struct encode_args *args);
void encode_text(struct encode *e, struct text text, uint8_t type_id);
void config_open(struct tokenizer *t, const struct jnode *config, const struct jnode *map);
enum status folder_templates_open(struct tokenizer *t, const char *folder, struct error *err);
void template_add(struct tokenizer *t, struct text name, struct text source);
int32_t byte_token_value(struct text name); // "<0x0A>" -> 10, else -1
bool bytes_unmap(struct text name, char *out, size_t *bytes); // byte-level characters -> bytes
