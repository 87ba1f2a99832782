// A tokenizer as a whole, and what its files offer each other. Only files of this
// folder include this.
#pragma once

#include "base/folder.h"
#include "runtime/text/tokenizer/json.h"
#include "runtime/text/tokenizer/parts.h"
#include "runtime/text/tokenizer/unicode.h"

struct tokenizer {
    struct arena *arena;
    struct text *names;          // [vocab] as in the file; at == NULL: no such id
    struct text *pieces;         // [vocab] what the model compares: raw bytes, or names
    struct text *bytes;          // [vocab] what the token adds inside a text
    uint8_t *special;            // [vocab] 1: skipped by skip_special
    uint32_t vocab, model_vocab; // model_vocab: without added tokens
    uint32_t bytes_longest;      // of bytes[]
    struct word_table by_name, by_piece;

    struct normalizer normalizers[STAGES_MAX];
    struct pre_tokenizer pre[STAGES_MAX];
    struct decoder decoders[STAGES_MAX];
    uint32_t normalizer_count, pre_count, decoder_count;
    bool has_decoder;

    enum tokenizer_kind model;
    struct bpe bpe;
    struct wordpiece wordpiece;
    struct unigram unigram;
    int32_t word_unk; // word level

    struct added_token *added; // [added_count]
    uint32_t added_count;
    struct added_matcher raw, normalized;
    struct post_processor post;

    struct text special_texts[SPECIAL_COUNT];
    uint32_t length;  // model_max_length, 0: not said
    bool gives_types; // token types of a pair reach the model
    struct {
        struct text name, source;
    } templates[16];
    uint32_t template_count;

    // streaming: what is left of the decoder chain when each token has its bytes
    bool stream_first_drops; // metaspace: the first token loses its marks
    bool stream_first_name;  // WordPiece, no decoder: the first token is written as it is
    bool stream_dedupe;      // CTC
    uint8_t stream_strip_left, stream_strip_right;
    char stream_strip; // the character that is stripped
    double tokens_per_byte;
    size_t piece_bytes_max; // of any token
};

// ---- stages of an encode call

// Applies all normalizers; false after setting e->status.
bool normalize(struct encode *e, struct nstr *s);
bool normalize_form(struct encode *e, enum normalizer_kind form, struct nstr *s);
bool normalize_charsmap(struct encode *e, const struct charsmap *map, struct nstr *s);
// Runs the pre-tokenizers from `stage` on and the model on each piece.
void pretokenize(struct encode *e, unsigned stage, struct text piece, bool first);
// The scanner of a known pattern, NULL: none. Fills digits_max.
scan_function *scan_for(struct text pattern, unsigned *digits_max);
scan_function scan_gpt2;
void model_encode(struct encode *e, struct text piece);
void bpe_encode(struct encode *e, struct text piece);
void wordpiece_encode(struct encode *e, struct text piece);
void unigram_encode(struct encode *e, struct text piece);
// The id of a word that is encoded as one token, else -1.
int32_t bpe_single(struct encode *e, struct text word);
// Merges the symbols of one word in place; returns how many are left.
size_t bpe_merge(struct encode *e, uint32_t *symbols, size_t count);

// Calls back for each stretch (token < 0) and each token of s.
struct added_sink {
    void (*stretch)(struct encode *e, struct nstr piece, bool first);
    bool first; // the text begins the whole input
};
void added_split(struct encode *e, const struct added_matcher *m, struct nstr s,
                 const struct added_sink *sink);

// What one decoder makes of one token; first and last say where it stands. NULL at: a pattern took
// too long, which sets over, or the arena is full.
struct text decode_token(const struct decoder *d, struct arena *arena, struct text token,
                         bool first, bool last, bool *over);
bool decoder_joins(const struct decoder *d); // all tokens to one text
// What a caller is told where a pattern took too long.
#define PATTERN_OVER "a pattern of the tokenizer takes too long on this text"

// ---- reading a file, part by part

struct tokenizer *tokenizer_create(void);
// source has a NUL after it and lives in t->arena; name is used in errors.
enum status tokenizer_open_parts(struct tokenizer *t, struct text source, const char *name,
                                 struct error *err);
enum status word_list_open(struct tokenizer *t, const char *folder, const struct jnode *config,
                           struct error *err);
// The stages of one kind in the file: an object with a `type`, or with a list of such objects.
struct stage_list {
    const char *what, *nested; // the word for a stage, and the key of a list
    const char *const *kinds;  // [kind_count] of `type`, by the number that `open` gets
    size_t kind_count;
    uint32_t *count; // of stages so far; `open` adds one
    enum status (*open)(struct tokenizer *t, uint32_t kind, const struct jnode *node,
                        struct error *err);
};
enum status stages_open(struct tokenizer *t, const struct jnode *node,
                        const struct stage_list *list, struct error *err);
enum status replace_open(const struct jnode *node, struct text *from, struct text *to,
                         struct regex **regex, struct error *err); // the pattern of a Replace
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
// The bytes of one token at the start of a text or somewhere inside. NULL at: as decode_token.
struct text detok_text(const struct tokenizer *t, struct arena *arena, uint32_t id, bool first,
                       bool *over);
void encode_post(struct encode *e, const struct encode_args *args);
void encode_text(struct encode *e, struct text text, uint8_t type_id);
void config_open(struct tokenizer *t, const struct jnode *config, const struct jnode *map);

enum status folder_find(char out[FOLDER_BYTES_MAX], const char *folder, struct error *err);
enum status folder_json_read(struct tokenizer *t, const char *folder, const char *file,
                             const struct jnode **out, struct error *err);
enum status folder_lowercase_open(struct tokenizer *t, const char *folder, struct error *err);
enum status folder_templates_open(struct tokenizer *t, const char *folder, struct error *err);
void template_add(struct tokenizer *t, struct text name, struct text source);
// The id of the `unk_token`; -1: none is named. One that is named must be in the vocabulary.
enum status unknown_open(const struct tokenizer *t, struct text name, int32_t *id,
                         struct error *err);
int32_t byte_token_value(struct text name);                   // "<0x0A>" -> 10, else -1
bool bytes_unmap(struct text name, char *out, size_t *bytes); // byte-level characters -> bytes
// The same in new memory; other names stay. NULL at: arena full.
struct text bytes_unmapped(struct arena *arena, struct text name);
