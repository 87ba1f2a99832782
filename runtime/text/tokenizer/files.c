// SPDX-License-Identifier: Apache-2.0
// Finds the tokenizer of a folder without a tokenizer.json, and refuses a folder without any
// tokenizer file. Loading thread only.
#include "runtime/text/tokenizer/files.h"

#include "base/file.h"

#include <stdio.h>
#include <unistd.h>

// The files by precedence. `put` converts a file to the text of a tokenizer.json; other functions
// read the files without it.
static const struct tokenizer_form {
    const char *name;
    enum status (*put)(struct json_buffer *, struct tokenizer *, struct text, const char *,
                       struct error *);
} forms[] = {
    {"tokenizer.json", NULL},
    {"vocab.txt", NULL},
    {"vocab.json", NULL},
    {"merges.txt", NULL},
    {"tekken.json", tekken_document},
    {"tokenizer.model", spm_document},
    {"sentencepiece.bpe.model", spm_document},
    {"spiece.model", spm_document},
    {"tiktoken.model", ranks_document},
    {"qwen.tiktoken", ranks_document},
};

const char *tokenizer_file_name(size_t i)
{
    return i < sizeof forms / sizeof forms[0] ? forms[i].name : NULL;
}

// Opens the first file that becomes a document. NOT_FOUND: the folder has none.
static enum status document_open(struct tokenizer *t, const char *folder, struct error *err)
{
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        char path[FOLDER_BYTES_MAX + 64];
        struct text bytes;
        struct json_buffer out = {0};
        if (!forms[i].put)
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, forms[i].name);
        enum status status = file_read(&bytes, t->arena, path, TOKENIZER_FILE_BYTES_MAX, err);
        if (status == STATUS_NOT_FOUND)
            continue;
        if (status != STATUS_OK)
            return status;
        // A rank file can have the name of a SentencePiece model, but not its first byte: the key
        // of field 1.
        bool ranks = forms[i].put == spm_document && bytes.bytes > 0 && bytes.at[0] != '\n';
        status = (ranks ? ranks_document : forms[i].put)(&out, t, bytes, path, err);
        struct text document = json_buffer_text(&out);
        if (status == STATUS_OK)
            status = tokenizer_open_parts(t, arena_copy(t->arena, document), path, err);
        json_buffer_free(&out);
        return status;
    }
    return STATUS_NOT_FOUND;
}

static enum status tokenizer_missing(const char *folder, struct error *err)
{
    char path[FOLDER_BYTES_MAX + 64];
    snprintf(path, sizeof path, "%s/vocab.json", folder);
    if (access(path, F_OK) == 0)
        return error_set(
            err, STATUS_UNSUPPORTED,
            "%s has its tokenizer in vocab.json, which weft reads with merges.txt for "
            "the classes GPT2Tokenizer, RobertaTokenizer and Qwen2Tokenizer: " TOKENIZER_CONVERT,
            folder);
    return folder_lacks(folder, "has neither a readable tokenizer.json nor another tokenizer file",
                        err);
}

enum status other_files_open(struct tokenizer *t, const char *folder, struct error *err)
{
    static enum status (*const open[])(struct tokenizer *, const char *, struct error *) = {
        word_list_open,
        merge_files_open,
        document_open,
    };
    enum status status = STATUS_NOT_FOUND;
    for (size_t i = 0; i < sizeof open / sizeof open[0] && status == STATUS_NOT_FOUND; i++)
        status = open[i](t, folder, err);
    return status == STATUS_NOT_FOUND ? tokenizer_missing(folder, err) : status;
}
