// SPDX-License-Identifier: Apache-2.0
// The tokenizer structure and the functions that the files of this folder share; no other file
// includes this header. The thread that opens a tokenizer fills it; afterwards it is constant.
#pragma once

#include "base/folder.h"
#include "runtime/text/tokenizer/json.h"
#include "runtime/text/tokenizer/parts.h"
#include "runtime/text/tokenizer/unicode.h"

struct tokenizer {
    struct arena *arena;
    struct text *names;          // [vocab] token texts as in the file; at == NULL: unused id
    struct text *pieces;         // [vocab] what the model matches against text: raw bytes or names
    struct text *bytes;          // [vocab] bytes that the token adds in the middle of a text
    uint8_t *special;            // [vocab] 1: the token is omitted with skip_special
    uint32_t vocab, model_vocab; // largest id + 1, with and without added tokens
    uint32_t bytes_longest;      // length of the longest entry of bytes[] and names[]
    struct word_table by_name, by_piece; // of names[]; of pieces[]

    struct normalizer normalizers[STAGES_MAX];
    struct pre_tokenizer pre[STAGES_MAX];
    struct decoder decoders[STAGES_MAX];
    uint32_t normalizer_count, pre_count, decoder_count;
    bool has_decoder;

    enum tokenizer_kind model;
    struct bpe bpe;
    struct wordpiece wordpiece;
    struct unigram unigram;
    int32_t word_unk; // id for unknown words of a word-level model; -1: none

    struct added_token *added; // [added_count]
    uint32_t added_count;
    struct added_matcher raw, normalized; // tokens matched in raw text, in normalized text
    struct post_processor post;

    struct word_table added_by_text; // indices in added[]
    uint32_t added_next;             // id of the next added token without an id

    // While the tokenizer is opened; NULL: the file is absent.
    const struct jnode *config;                       // tokenizer_config.json
    const struct jnode *map;                          // special_tokens_map.json
    const struct jnode *added_file;                   // added_tokens.json
    const struct jnode *special_nodes[SPECIAL_COUNT]; // in one of these files
    struct text class;                                // of the tokenizer; at == NULL: not known
    bool added_raw, flags_post, flags_begin;          // see files.h; false for a tokenizer.json

    struct text special_texts[SPECIAL_COUNT];
    struct {
        const char *name;
        struct text text;
    } variables[32]; // special tokens with names of the model's own
    uint32_t variable_count;
    uint32_t length;  // model_max_length; 0: not given
    bool gives_types; // true if the model receives the token types of a pair
    struct {
        struct text name, source;
    } templates[16]; // chat templates by name
    uint32_t template_count;

    // Streaming (detok.c): the work of the decoders that remains after each token has been replaced
    // by its bytes[].
    bool stream_first_drops; // true if the first token loses its metaspace marks
    bool stream_first_name;  // true if the first token is written as its name
    bool stream_dedupe;      // true if repeated tokens are dropped (CTC)
    uint8_t stream_strip_left, stream_strip_right;
    char stream_strip;      // character that stream_strip_left and _right count
    double tokens_per_byte; // upper bound, see tokenizer_bound
    size_t piece_bytes_max; // length of the longest name in names[]
};

// ---- stages of tokenizer_encode

// Applies all normalizers to s. Returns false after setting e->status.
bool normalize(struct encode *e, struct marked_text *s);
// The Unicode forms NFC to NFKD, and the Precompiled normalizer; results as for normalize.
bool normalize_form(struct encode *e, enum normalizer_kind form, struct marked_text *s);
bool normalize_charsmap(struct encode *e, const struct charsmap *map, struct marked_text *s);
// Runs the pre-tokenizers from index `stage` on, and the model on each resulting piece. first: the
// piece is at the beginning of the input.
void pretokenize(struct encode *e, unsigned stage, struct text piece, bool first);
// Returns the hand-written scanner for a known pattern, or NULL. Sets *digits_max if the pattern
// limits runs of digits.
scan_function *scan_for(struct text pattern, unsigned *digits_max);
scan_function scan_gpt2;
// Append the ids of one piece; model_encode selects the function of the tokenizer's kind. Errors
// are set in e->status.
void model_encode(struct encode *e, struct text piece);
void bpe_encode(struct encode *e, struct text piece);
void wordpiece_encode(struct encode *e, struct text piece);
void unigram_encode(struct encode *e, struct text piece);
// Returns the id if the word is encoded as exactly one token without unknown characters, else -1.
int32_t bpe_single(struct encode *e, struct text word);
// Merges the symbols of a word in place. Returns the number left. Errors are set in e->status.
size_t bpe_merge(struct encode *e, uint32_t *symbols, size_t count);

// Splits s at added tokens: pushes the id of each added token and calls `stretch` for the text
// before, between and after them.
struct added_sink {
    void (*stretch)(struct encode *e, struct marked_text piece, bool first);
    bool first; // true if s begins the input; passed on to `stretch`
};
void added_split(struct encode *e, const struct added_matcher *m, struct marked_text s,
                 const struct added_sink *sink);

// Returns what decoder d turns one token into. first and last: the token's position in the
// sequence. at == NULL: a pattern took too long (*limit_hit is set) or the arena is full.
struct text decode_token(const struct decoder *d, struct arena *arena, struct text token,
                         bool first, bool last, bool *limit_hit);
bool decoder_joins(const struct decoder *d); // true if it joins all tokens to one text
// Error text for an input on which a pattern took too long.
#define PATTERN_LIMIT "a pattern of the tokenizer takes too long on this text"

// ---- reading a file, part by part

// Allocates an empty tokenizer; tokenizer_close frees it.
struct tokenizer *tokenizer_create(void);
// Fills t from the text of a tokenizer.json. `source` is NUL-terminated and lives in t->arena;
// errors begin with `name`.
enum status tokenizer_open_parts(struct tokenizer *t, struct text source, const char *name,
                                 struct error *err);
// How stages_open reads the stages of one kind: the file has an object with a `type`, or an object
// with a list of such objects.
struct stage_list {
    const char *what, *nested; // the word for a stage in errors; the key of a list
    const char *const *kinds;  // [kind_count] values of `type`; `open` gets the index
    size_t kind_count;
    uint32_t *count; // number of stages so far; `open` increments it
    enum status (*open)(struct tokenizer *t, uint32_t kind, const struct jnode *node,
                        struct error *err);
};
// Appends the stages that `node` describes (NULL: none), nested lists in order.
enum status stages_open(struct tokenizer *t, const struct jnode *node,
                        const struct stage_list *list, struct error *err);
// Reads the pattern and replacement of a Replace normalizer or decoder: sets `from` or `regex`.
enum status replace_open(const struct jnode *node, struct text *from, struct text *to,
                         struct regex **regex, struct error *err);
// Each reads one part of the file into t; an absent part (NULL) means none, except for the model.
enum status normalizers_open(struct tokenizer *t, const struct jnode *node, struct error *err);
enum status pretokenizers_open(struct tokenizer *t, const struct jnode *node, struct error *err);
enum status model_open_json(struct tokenizer *t, const struct jnode *node, struct error *err);
enum status bpe_open(struct tokenizer *t, const struct jnode *node, struct error *err);
enum status wordpiece_open(struct tokenizer *t, const struct jnode *node, struct error *err);
enum status unigram_open(struct tokenizer *t, const struct jnode *node, struct error *err);
enum status added_open(struct tokenizer *t, const struct jnode *node, struct error *err);
// Returns the added token of a text, or NULL.
struct added_token *added_find(struct tokenizer *t, struct text content);
// Reads content and flags of an added token; the content is NULL if the node has none.
struct added_token added_token_of(const struct jnode *node);
// Adds a token, or replaces the flags of the token that has its text. The id of a new token is that
// of the vocabulary, or the next free one; token->id is ignored.
void added_put(struct tokenizer *t, const struct added_token *token);
// Adds the tokens of the other files (added_files.c); the number of them is at most the bound.
enum status added_files_open(struct tokenizer *t, struct error *err);
uint32_t added_files_bound(const struct tokenizer *t);
// Returns the tokenizer class of a folder, and changes the stages as it does (class.c).
struct text class_of(const struct jnode *config, const struct jnode *model);
void class_apply(struct tokenizer *t);
// Builds the matchers t->raw and t->normalized. Requires all normalizers.
enum status added_match_open(struct tokenizer *t, struct error *err);
// Guards the added tokens that are markers of a template of t, or of a dialect: plain text never
// contains them. Requires the templates.
void added_guard_markers(struct tokenizer *t);
enum status post_open(struct tokenizer *t, const struct jnode *node, struct error *err);
enum status decoders_open(struct tokenizer *t, const struct jnode *node, struct error *err);
// Fills t->bytes and the streaming members. Requires the decoders and all tokens.
enum status detok_open(struct tokenizer *t, struct error *err);
// Returns the bytes of a token, as the first of a text or inside it. at == NULL: see decode_token.
struct text detok_text(const struct tokenizer *t, struct arena *arena, uint32_t id, bool first,
                       bool *limit_hit);
// Encodes the text or pair of args with the tokens that the post-processor adds.
void encode_post(struct encode *e, const struct encode_args *args);
// Encodes one text without special tokens. Errors are set in e->status.
void encode_text(struct encode *e, struct text text, uint8_t type_id);
// Applies t->config and t->map: config_names_open before the parts are opened, config_open after.
void config_names_open(struct tokenizer *t);
void config_open(struct tokenizer *t);

// folder_find writes the folder that has the tokenizer's files: `folder`, or that of the weights in
// modules.json. folder_json_read sets *out to NULL if the file is absent. folder_lowercase_open
// adds a lower-case stage, folder_templates_open the chat templates, if the folder has them.
enum status folder_find(char out[FOLDER_BYTES_MAX], const char *folder, struct error *err);
enum status folder_json_read(struct tokenizer *t, const char *folder, const char *file,
                             const struct jnode **out, struct error *err);
enum status folder_lowercase_open(struct tokenizer *t, const char *folder, struct error *err);
enum status folder_templates_open(struct tokenizer *t, const char *folder, struct error *err);
// Adds a chat template, or replaces the one of this name. Ignored if source.at or name.at is NULL,
// or if 16 exist.
void template_add(struct tokenizer *t, struct text name, struct text source);
// Sets *id to the id of the `unk_token` called `name`, or to -1 if name.at is NULL. Returns
// STATUS_INVALID if the vocabulary lacks that token.
enum status unknown_open(const struct tokenizer *t, struct text name, int32_t *id,
                         struct error *err);
int32_t byte_token_value(struct text name); // "<0x0A>" -> 10; any other name -> -1
// Writes the bytes of byte-level characters to out, [name.bytes]. False: one maps to no byte.
bool bytes_unmap(struct text name, char *out, size_t *bytes);
// Returns the bytes of a byte-level name in new memory, or `name` itself if some character maps to
// no byte. at == NULL: the arena is full.
struct text bytes_unmapped(struct arena *arena, struct text name);
