// SPDX-License-Identifier: Apache-2.0
// Text to token ids and back, as the tokenizer.json of a model folder specifies.
//
// A tokenizer is immutable after opening and shared by all threads. Calls allocate scratch memory
// only from the caller's arena. Text that is not UTF-8 is read as if each invalid byte sequence
// were U+FFFD. Not here: chat templates (chat.h) and stop strings.
#pragma once

#include "base/status.h"
#include "base/arena.h"
#include "base/slice.h"
#include "base/text.h"
#include "runtime/text/segment.h"

#include <stdbool.h>
#include <stdint.h>

struct tokenizer;

enum { TOKENIZER_FILE_BYTES_MAX = 512 << 20 }; // limit of each file of a tokenizer

// Opens the tokenizer of a model folder: reads tokenizer.json (or the first other file that
// tokenizer_file_name lists) and, if they exist, tokenizer_config.json, special_tokens_map.json,
// added_tokens.json and chat_template.{jinja,json}.
enum status tokenizer_open(struct tokenizer **out, const char *folder, struct error *err) MUST_USE;

// Returns the name of file `i` of those that can contain a tokenizer, by precedence; NULL after the
// last. vocab.json and merges.txt together are one tokenizer.
const char *tokenizer_file_name(size_t i);

// Opens a tokenizer without files, with `vocab` ids: ids 0 to 255 are bytes, each further id is a
// distinct word. Decoding an encoded text restores it. A vocabulary below 256 contains the byte
// values below `vocab`; other bytes are dropped. INVALID if `vocab` is 0 or above 2^24.
enum status tokenizer_open_words(struct tokenizer **out, uint32_t vocab,
                                 struct error *err) MUST_USE;
void tokenizer_close(struct tokenizer *t); // NULL is allowed

// Adds the markers of a chat template that is not in the folder to those that plain text never
// contains. Called before the tokenizer is shared.
void tokenizer_guard_template(struct tokenizer *t, struct text source);

enum encode_flags {
    // user text: special tokens and markers of the chat template and the dialect stay text; other
    // added tokens are words
    ENCODE_PLAIN = 0,
    ENCODE_ADDED_TOKENS = 1, // all added tokens in the text become tokens
    ENCODE_SPECIAL = 2,      // the post-processor adds BOS, CLS, SEP, ...
};

struct encode_args {
    struct text text;
    const struct text *pair; // second text (rerankers), or NULL
    unsigned flags;          // enum encode_flags
    struct arena *arena;     // for scratch; the caller resets it after the call
    struct slice *slice;     // the work is charged to it (base/slice.h); NULL: not counted
    // [token_max] output: 0 or 1 per token, or NULL. All 0 if the model has no token types: for
    // tokenizers of the RoBERTa family, and if model_input_names omits them.
    uint8_t *type_ids;
    uint32_t *pair_start;                // output: index of the first token of `pair`, or NULL
    const struct text_segment *segments; // used by tokenizer_encode_segments instead of `text`
    uint32_t segment_count;
};

// Returns an upper bound of the number of tokens of text_bytes bytes of text (for a pair: of both
// together), special tokens included.
uint32_t tokenizer_bound(const struct tokenizer *t, size_t text_bytes);

// Encodes a text or a pair. tokens: [token_max]; *token_count is set also on failure.
// STATUS_TOO_LARGE: more than token_max tokens, or the text itself is too long (encoding_stopped
// distinguishes them). STATUS_NO_SPACE: the arena's limit was reached, or a pattern of the
// tokenizer takes too long on this text. STATUS_UNWANTED: the result is no longer wanted
// (base/slice.h).
enum status tokenizer_encode(const struct tokenizer *t, const struct encode_args *args,
                             int32_t *tokens, uint32_t token_max, uint32_t *token_count,
                             struct error *err) MUST_USE;

// Encodes the joined text of the segments; args->pair is ignored. Special tokens and markers are
// recognized only if all of their text is in segments that are not plain; ENCODE_ADDED_TOKENS is
// implied. Results as for tokenizer_encode.
enum status tokenizer_encode_segments(const struct tokenizer *t, const struct encode_args *args,
                                      int32_t *tokens, uint32_t token_max, uint32_t *token_count,
                                      struct error *err) MUST_USE;

// True if encoding stopped because the text has more than token_max tokens. With any other cause of
// STATUS_TOO_LARGE token_count is smaller.
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

// Decodes a complete sequence, as the reference library does. STATUS_NO_SPACE: as for encoding.
enum status tokenizer_decode(const struct tokenizer *t, const struct decode_args *args,
                             struct text *out, struct error *err) MUST_USE;

// Returns the id of a token by its text in the file; -1: none.
int32_t tokenizer_token(const struct tokenizer *t, struct text content);
// Returns the text of a token as in the file; at == NULL: no such id.
struct text tokenizer_token_text(const struct tokenizer *t, int32_t id);
// Returns the bytes that a token adds in the middle of a text; empty: none or no such id.
struct text tokenizer_token_bytes(const struct tokenizer *t, int32_t id);
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
// Returns the id of a special token; -1: none.
int32_t tokenizer_special(const struct tokenizer *t, enum special_token which);
// Returns the text of a special token as configured; at == NULL: none.
struct text tokenizer_special_text(const struct tokenizer *t, enum special_token which);
const char *tokenizer_special_name(enum special_token which); // "bos_token", ...
// Returns the name of special token i that the folder names itself, such as "image_token", and sets
// its text; NULL: there are no more.
const char *tokenizer_own_special(const struct tokenizer *t, uint32_t i, struct text *token);

// Returns the source of a chat template of the folder. name: e.g. "tool_use"; NULL: the default
// template. at == NULL: there is none.
struct text tokenizer_chat_template(const struct tokenizer *t, const char *name);

uint32_t tokenizer_length(const struct tokenizer *t); // model_max_length; 0: not given

// Incremental detokenization: takes tokens, returns complete characters. May be copied.
struct detok {
    const struct tokenizer *tokenizer;
    bool skip_special;
    bool begun;             // true after the first token: the next is not the start of the text
    bool keep_edges;        // true after detok_keep_edges
    uint8_t held_bytes;     // bytes in `held`, of an incomplete character
    uint8_t replaced_chars; // number of U+FFFD that the last push wrote for held bytes of earlier
                            // tokens
    uint8_t strip_left;     // leading characters that the decoder has yet to strip
    uint8_t held_spaces; // trailing spaces held back, because the end of the text would strip them
    int32_t previous;    // last token, for decoders that drop repeated tokens
    char held[4];
};

void detok_init(struct detok *d, const struct tokenizer *t, bool skip_special);
// Marks the tokens as the continuation of a text (a raw prompt), so a leading space is kept.
void detok_continue(struct detok *d);
// Makes the text exactly the bytes of the tokens, as a grammar defines it: spaces at both ends and
// repeated tokens are kept.
void detok_keep_edges(struct detok *d);
// Writes the text that one token completes. Returns the number of bytes, at most out_max, which
// must be at least detok_bound(t). Ids outside the vocabulary produce nothing.
uint32_t detok_push(struct detok *d, int32_t token, char *out, uint32_t out_max);
// Ends the text: writes one U+FFFD for an incomplete character, after the spaces held before it,
// and drops spaces that are stripped at the end. Returns the number of bytes, at most out_max,
// which must be at least detok_bound(t).
uint32_t detok_finish(struct detok *d, char *out, uint32_t out_max);
// Returns the maximum number of bytes that one push, or the finish, writes.
uint32_t detok_bound(const struct tokenizer *t);
