// SPDX-License-Identifier: Apache-2.0
// Tokenizers of folders without a tokenizer.json: old BERT word lists, and invented words for dummy
// weights. Both are written as JSON and opened like any other.
#include "base/file.h"
#include "runtime/text/tokenizer/internal.h"

#include <stdarg.h>
#include <stdio.h>

enum { PATH_MAX_BYTES = 4096 };

// Settings of old BERT folders, which have a list of words and no tokenizer.json.
static const char bert_head[] =
    "{\"normalizer\":{\"type\":\"BertNormalizer\",\"clean_text\":true,"
    "\"handle_chinese_chars\":%s,\"strip_accents\":%s,\"lowercase\":%s},"
    "\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},"
    "\"decoder\":{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true},"
    "\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\","
    "\"continuing_subword_prefix\":\"##\",\"max_input_chars_per_word\":100,\"vocab\":{";

static void put_escaped(struct marked_builder *b, struct text line)
{
    for (size_t i = 0; i < line.bytes; i++) {
        unsigned char c = (unsigned char)line.at[i];
        char code[8];
        if (c >= ' ' && c != '"' && c != '\\')
            (void)marked_builder_put(b, line.at + i, 1, 0);
        else
            (void)marked_builder_put(b, code, (size_t)snprintf(code, sizeof code, "\\u%04x", c), 0);
    }
}

static void put_format(struct marked_builder *b, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void put_format(struct marked_builder *b, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    int bytes = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    (void)marked_builder_put(b, text, (size_t)bytes, 0);
}

// Writes the words of vocab.txt as a tokenizer.json and opens that.
enum status word_list_open(struct tokenizer *t, const char *folder, struct error *err)
{
    static const char *const specials[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
    char path[PATH_MAX_BYTES];
    struct text words;
    snprintf(path, sizeof path, "%s/vocab.txt", folder);
    enum status status = file_read(&words, t->arena, path, TOKENIZER_FILE_BYTES_MAX, err);
    if (status == STATUS_NOT_FOUND)
        return folder_lacks(folder, "has neither a readable tokenizer.json nor vocab.txt", err);
    if (status != STATUS_OK)
        return status;
    int64_t ids[5] = {-1, -1, -1, -1, -1}, id = 0;
    struct encode e = {.t = t, .arena = t->arena};
    struct marked_builder b;
    (void)marked_builder_init(&b, &e, words.bytes * 3, false);
    bool lower = jtree_get_bool(t->config, "do_lower_case", true);
    bool accents = jtree_get_bool(t->config, "strip_accents", lower);
    bool cjk = jtree_get_bool(t->config, "tokenize_chinese_chars", true);
    put_format(&b, bert_head, cjk ? "true" : "false", accents ? "true" : "false",
               lower ? "true" : "false");
    for (size_t at = 0; at < words.bytes; id++) {
        const char *end = memchr(words.at + at, '\n', words.bytes - at);
        size_t bytes = end ? (size_t)(end - words.at) - at : words.bytes - at;
        struct text line = text_span(words.at + at, bytes);
        at += bytes + 1;
        line.bytes -= line.bytes > 0 && line.at[line.bytes - 1] == '\r';
        for (int k = 0; k < 5; k++)
            ids[k] = text_is(line, specials[k]) ? id : ids[k];
        put_format(&b, id > 0 ? ",\"" : "\"");
        put_escaped(&b, line);
        put_format(&b, "\":%lld", (long long)id);
    }
    put_format(&b, "}},\"added_tokens\":[");
    for (int k = 0, any = 0; k < 5; k++)
        if (ids[k] >= 0)
            put_format(&b, "%s{\"id\":%lld,\"content\":\"%s\",\"special\":true}", any++ ? "," : "",
                       (long long)ids[k], specials[k]);
    put_format(&b, "]");
    if (ids[2] >= 0 && ids[3] >= 0)
        put_format(&b,
                   ",\"post_processor\":{\"type\":\"BertProcessing\",\"sep\":[\"[SEP]\",%lld],"
                   "\"cls\":[\"[CLS]\",%lld]}",
                   (long long)ids[3], (long long)ids[2]);
    (void)marked_builder_put(&b, "}", 2, 0);
    return tokenizer_open_parts(t, text_span(b.at, b.bytes - 1), path, err);
}

// Writes the word of an id: only letters, so that the pre-tokenizer does not split it.
static void put_word(struct marked_builder *b, uint32_t id)
{
    char word[16];
    size_t n = sizeof word;
    for (uint32_t left = id; n == sizeof word || left > 0; left /= 26)
        word[--n] = (char)('a' + left % 26);
    put_format(b, ",\"\\u0120%.*s\":%u", (int)(sizeof word - n), word + n, id);
}

// A byte-level BPE whose words exist as tokens and are never the result of merges.
enum status tokenizer_open_words(struct tokenizer **out, uint32_t vocab, struct error *err)
{
    if (vocab == 0 || vocab > IDS_MAX)
        return error_set(err, STATUS_INVALID, "a vocabulary of %u tokens", vocab);
    struct tokenizer *t = tokenizer_create();
    struct encode e = {.t = t, .arena = t->arena};
    struct marked_builder b;
    (void)marked_builder_init(&b, &e, (size_t)vocab * 20, false);
    put_format(&b, "{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
                   "\"decoder\":{\"type\":\"ByteLevel\"},"
                   "\"model\":{\"type\":\"BPE\",\"ignore_merges\":true,\"merges\":[],\"vocab\":{");
    for (uint32_t id = 0; id < vocab; id++)
        if (id < 256)
            put_format(&b, "%s\"\\u%04x\":%u", id > 0 ? "," : "", byte_char((unsigned char)id), id);
        else
            put_word(&b, id);
    put_format(&b, "}}}");
    (void)marked_builder_put(&b, "", 1, 0);
    enum status status =
        tokenizer_open_parts(t, text_span(b.at, b.bytes - 1), "the word list", err);
    if (status != STATUS_OK) {
        tokenizer_close(t);
        return status;
    }
    *out = t;
    return STATUS_OK;
}
