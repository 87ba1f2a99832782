// Text to token ids and back, with the tokenizer.json of a model folder as the only authority.
//
// A tokenizer is immutable after open and shared by all threads. Calls take scratch memory from
// the caller's arena only. Text that is not UTF-8 is read as if each wrong byte were U+FFFD.
// What is not here: chat templates (chat.h) and stop strings.
#pragma once

#include "base/status.h"
#include "base/arena.h"
#include "base/slice.h"
#include "base/text.h"
#include "runtime/text/segment.h"

#include <stdbool.h>
#include <stdint.h>

struct tokenizer;

enum { TOKENIZER_FILE_BYTES_MAX = 512 << 20 }; // of any file of a tokenizer

// Reads folder/tokenizer.json (or vocab.txt of old BERT folders) and, where they exist,
// tokenizer_config.json, special_tokens_map.json and chat_template.{jinja,json}.
enum status tokenizer_open(struct tokenizer **out, const char *folder, struct error *err) MUST_USE;

// A tokenizer without files for `vocab` ids: ids 0..255 are bytes, each further id a distinct
// word; encode and decode round trip. Vocabularies below 256 have the byte values from 0 up
// and drop all others.
enum status tokenizer_open_words(struct tokenizer **out, uint32_t vocab,
                                 struct error *err) MUST_USE;
void tokenizer_close(struct tokenizer *t); // NULL is allowed

enum encode_flags {
    ENCODE_PLAIN = 0,        // user text: added tokens in it stay text
    ENCODE_ADDED_TOKENS = 1, // added tokens in the text become tokens
    ENCODE_SPECIAL = 2,      // the post-processor adds BOS, CLS, SEP, ...
};

struct encode_args {
    struct text text;
    const struct text *pair; // second text (rerankers), or NULL
    unsigned flags;          // enum encode_flags
    struct arena *arena;     // scratch; the caller resets it after the call
    struct slice *slice;     // the work is counted in it; NULL: it is not shared
    // [token_max] out: 0 or 1 per token, or NULL. All 0 where the model gets no types: with the
    // tokenizers of RoBERTa and its relatives, and where model_input_names leaves them out.
    uint8_t *type_ids;
    uint32_t *pair_start; // out: index of the first token of the pair's text, or NULL
    const struct text_segment *segments; // tokenizer_encode_segments reads these instead of text
    uint32_t segment_count;
};

// Upper bound of the tokens of text_bytes bytes of text (of a pair: the sum of both), special
// tokens included.
uint32_t tokenizer_bound(const struct tokenizer *t, size_t text_bytes);

// STATUS_TOO_LARGE: more than token_max tokens. STATUS_NO_ROOM: the arena's limit was met.
// STATUS_UNWANTED: the slice ended it.
enum status tokenizer_encode(const struct tokenizer *t, const struct encode_args *args,
                             int32_t *tokens, uint32_t token_max, uint32_t *token_count,
                             struct error *err) MUST_USE;

// Encodes the joined text of the segments; added tokens are recognised only where the whole match
// lies in text that is not plain. ENCODE_ADDED_TOKENS is implied.
enum status tokenizer_encode_segments(const struct tokenizer *t, const struct encode_args *args,
                                      int32_t *tokens, uint32_t token_max, uint32_t *token_count,
                                      struct error *err) MUST_USE;

// Encoding ended at token_max with more tokens to come; another STATUS_TOO_LARGE gives fewer.
static inline bool encoding_stopped(enum status status, uint32_t token_count, uint32_t token_max)
{
    return status == STATUS_TOO_LARGE && token_count == token_max;
}

struct decode_args {
    const int32_t *tokens; // [count] i32; ids outside the vocabulary are skipped
    uint32_t count;
    bool skip_special;
    struct arena *arena; // holds the text and scratch
};

// The whole sequence at once, as the reference library decodes it.
enum status tokenizer_decode(const struct tokenizer *t, const struct decode_args *args,
                             struct text *out, struct error *err) MUST_USE;

int32_t tokenizer_token(const struct tokenizer *t, struct text content); // -1: none
// As in the file; at == NULL: there is no such id.
struct text tokenizer_token_text(const struct tokenizer *t, int32_t id);
struct text tokenizer_token_bytes(const struct tokenizer *t, int32_t id); // as inside a text
bool tokenizer_is_special(const struct tokenizer *t, int32_t id);
uint32_t tokenizer_vocab(const struct tokenizer *t); // largest id + 1

enum special_token {
    SPECIAL_BOS,
    SPECIAL_EOS,
    SPECIAL_UNK,
    SPECIAL_SEP,
    SPECIAL_PAD,
    SPECIAL_CLS,
    SPECIAL_MASK,
    SPECIAL_COUNT
};
int32_t tokenizer_special(const struct tokenizer *t, enum special_token which); // -1: none
struct text tokenizer_special_text(const struct tokenizer *t, enum special_token which);
const char *tokenizer_special_name(enum special_token which); // "bos_token", ...

// The source of a chat template of the folder. name NULL: the default one; else e.g. "tool_use".
// at == NULL: there is none.
struct text tokenizer_chat_template(const struct tokenizer *t, const char *name);

uint32_t tokenizer_length(const struct tokenizer *t); // model_max_length; 0: not given

// Incremental detokenization: tokens in, whole characters out. May be copied.
struct detok {
    const struct tokenizer *tokenizer;
    bool skip_special;
    bool begun;          // a token has been seen: the next is not the first of the text
    bool exact;          // see detok_exact
    uint8_t held_bytes;  // bytes of a character that is not complete
    uint8_t given_up;    // such bytes of earlier tokens that the last push gave as U+FFFD: how many
    uint8_t strip_left;  // leading characters that the decoder still takes away
    uint8_t held_spaces; // spaces that the end of the text would take away
    int32_t previous;    // last token, for decoders that drop repetitions
    char held[4];
};

void detok_init(struct detok *d, const struct tokenizer *t, bool skip_special);
// The tokens continue a text (a raw prompt), so a leading space is kept.
void detok_continue(struct detok *d);
// The text is what a grammar says of the tokens' bytes: it keeps the spaces at both of its ends.
void detok_exact(struct detok *d);
// Returns the bytes written, at most out_max, which must be at least detok_bound(t). Ids outside
// the vocabulary give nothing.
uint32_t detok_push(struct detok *d, int32_t token, char *out, uint32_t out_max);
// An incomplete tail becomes one U+FFFD. out_max at least 16.
uint32_t detok_finish(struct detok *d, char *out, uint32_t out_max);
uint32_t detok_bound(const struct tokenizer *t); // the most bytes that one push can write
