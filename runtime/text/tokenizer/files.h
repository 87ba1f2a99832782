// SPDX-License-Identifier: Apache-2.0
// Tokenizers of folders without a tokenizer.json. Each file of another form is converted to the
// text of a tokenizer.json, which is then opened. Only the tokenizer's own files, their tests and
// fuzzers include this. Loading thread only.
#pragma once

#include "base/json.h"
#include "runtime/text/tokenizer/internal.h"

// The functions that write a document also set three members of struct tokenizer. added_raw: true
// if added tokens of other files are found in the raw text, even if their flag `normalized` is set.
// flags_post: true if add_bos_token and add_eos_token determine the tokens that are added to a
// text. flags_begin: default of add_bos_token.

// The end of an error about files that weft does not read.
#define TOKENIZER_CONVERT                                                                          \
    "make a tokenizer.json once with python3 -c \"from transformers import AutoTokenizer; "        \
    "AutoTokenizer.from_pretrained('FOLDER').save_pretrained('FOLDER')\""

enum spm_kind {
    PIECE_NORMAL = 1,
    PIECE_UNKNOWN,
    PIECE_CONTROL, // never in the tokens of a text
    PIECE_USER,    // user-defined: never split, never part of a merge
    PIECE_UNUSED,
    PIECE_BYTE,
};
enum { SPM_UNIGRAM = 1, SPM_BPE };

struct spm_piece {
    struct text name; // UTF-8
    float score;
    enum spm_kind kind;
};

// A SentencePiece model. Texts point into the bytes of the file.
struct spm_file {
    struct arena *arena;
    struct spm_piece *pieces; // [count]; the index is the id
    uint32_t count;
    size_t allocated;
    uint64_t model;         // SPM_UNIGRAM or SPM_BPE
    int32_t bos, eos, pad;  // ids; -1: none
    struct text charsmap;   // table of the Precompiled normalizer; at == NULL: none
    bool byte_fallback;     // true if unknown characters become byte pieces
    bool dummy_prefix;      // true if a text gets a blank at its start
    bool collapses;         // true if blanks at the ends are removed and runs become one
    bool escapes, suffixes; // true if blanks become U+2581; true if words end with them
    bool denormalizes;      // true if a second charsmap changes decoded text
};

// Reads a model; errors begin with `name`. Pieces are stored in the arena. INVALID if the file is
// damaged, with the offset; UNSUPPORTED if it has a setting that changes ids or texts and that weft
// does not read; TOO_LARGE for too many pieces.
enum status spm_file_parse(struct spm_file *out, struct arena *arena, struct text bytes,
                           const char *name, struct error *err) MUST_USE;
// Writes a model as the text of a tokenizer.json, with the settings of t->config and t->class; also
// sets the special tokens of t that no file names. path: beginning of errors. UNSUPPORTED: an
// unknown class; else as spm_file_parse.
enum status spm_document(struct json_buffer *out, struct tokenizer *t, struct text bytes,
                         const char *path, struct error *err) MUST_USE;

// Writes a rank file (base64 token, blank, rank in each line) as the text of a tokenizer.json. The
// pattern of words is not in the file: t->class determines it. UNSUPPORTED: an unknown class;
// INVALID: damaged, with the offset; TOO_LARGE.
enum status ranks_document(struct json_buffer *out, struct tokenizer *t, struct text bytes,
                           const char *path, struct error *err) MUST_USE;
// Writes a tekken.json as the text of a tokenizer.json. UNSUPPORTED: a file after version 7 without
// a list of special tokens; INVALID: damaged; TOO_LARGE.
enum status tekken_document(struct json_buffer *out, struct tokenizer *t, struct text bytes,
                            const char *path, struct error *err) MUST_USE;

int64_t token_id_of(struct text digits); // returns a number below IDS_MAX, or -1
// Sets a special token of t if no file names one. text must live as long as t.
void special_default(struct tokenizer *t, enum special_token which, struct text text);

// Fills t from the first tokenizer file of a folder without a tokenizer.json. NOT_FOUND or
// UNSUPPORTED: the folder has no file that weft reads; else as the functions above.
enum status other_files_open(struct tokenizer *t, const char *folder, struct error *err) MUST_USE;
// Fill t: from vocab.txt of an old BERT folder; from vocab.json and merges.txt. NOT_FOUND: the
// folder has no such file, or its class does not read vocab.json and merges.txt.
enum status word_list_open(struct tokenizer *t, const char *folder, struct error *err) MUST_USE;
enum status merge_files_open(struct tokenizer *t, const char *folder, struct error *err) MUST_USE;

// Reads the line at *at, without its end, and moves *at to the next one. Returns false at the end.
bool line_read(struct text *line, struct text file, size_t *at);

// Decodes base64 up to the first byte that is not base64; out has space for in.bytes / 4 * 3 + 3
// bytes. Returns the number of decoded bytes; *used: the number of characters that were read.
size_t base64_read(char *out, struct text in, size_t *used);
