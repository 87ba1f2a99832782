// SPDX-License-Identifier: Apache-2.0
// Tokenizers of folders without a tokenizer.json: old BERT word lists, vocab.json with merges.txt,
// and invented words for dummy weights. All are written as JSON and opened like any other.
#include "base/file.h"
#include "runtime/text/tokenizer/files.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

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

bool line_read(struct text *line, struct text file, size_t *at)
{
    if (*at >= file.bytes)
        return false;
    const char *end = memchr(file.at + *at, '\n', file.bytes - *at);
    *line = text_span(file.at + *at, end ? (size_t)(end - file.at) - *at : file.bytes - *at);
    *at += line->bytes + 1;
    line->bytes -= line->bytes > 0 && line->at[line->bytes - 1] == '\r';
    return true;
}

// The stages of the classes that read vocab.json and merges.txt, and their usual special tokens.
static const struct merge_class {
    const char *name;
    const char *stages;
    const char *specials[SPECIAL_COUNT]; // by enum special_token; NULL: none
    bool encloses;                       // true if texts get CLS and SEP, as for RoBERTa
} merge_classes[] = {
    {"GPT2Tokenizer",
     "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":%s},",
     {[SPECIAL_BOS] = "<|endoftext|>",
      [SPECIAL_EOS] = "<|endoftext|>",
      [SPECIAL_UNK] = "<|endoftext|>"},
     false},
    {"RobertaTokenizer",
     "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":%s},",
     {"<s>", "</s>", "<unk>", "</s>", "<pad>", "<s>", "<mask>"},
     true},
    {"Qwen2Tokenizer",
     "\"normalizer\":{\"type\":\"NFC\"},\"pre_tokenizer\":{\"type\":\"Sequence\","
     "\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(?i:'s|'t|'re|'ve|'m|'ll|'d)|"
     "[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|"
     "\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+\"},\"behavior\":\"Isolated\",\"invert\":false},"
     "{\"type\":\"ByteLevel\",\"add_prefix_space\":%s,\"use_regex\":false}]},",
     {[SPECIAL_EOS] = "<|endoftext|>",
      [SPECIAL_UNK] = "<|endoftext|>",
      [SPECIAL_PAD] = "<|endoftext|>"},
     false},
};

// Returns the row of the folder's tokenizer class, also if its name ends with "Fast", or NULL.
static const struct merge_class *merge_class_find(const struct tokenizer *t)
{
    struct text name = t->class;
    if (text_ends(name, "Fast"))
        name.bytes -= strlen("Fast");
    for (size_t i = 0; i < sizeof merge_classes / sizeof merge_classes[0]; i++)
        if (text_is(name, merge_classes[i].name))
            return &merge_classes[i];
    return NULL;
}

// Appends the lines of merges.txt as strings. Its first line may be a version.
static void put_merges(struct marked_builder *b, struct text merges)
{
    bool any = false;
    struct text line;
    for (size_t at = 0; line_read(&line, merges, &at);) {
        if (line.bytes == 0 || text_begins(line, "#version"))
            continue;
        put_format(b, any ? ",\"" : "\"");
        put_escaped(b, line);
        put_format(b, "\"");
        any = true;
    }
}

// Appends the special tokens of the class that no file of the folder names, and stores all special
// tokens in t.
static enum status put_specials(struct marked_builder *b, struct tokenizer *t,
                                const struct merge_class *class, const struct jnode *vocab,
                                struct error *err)
{
    int64_t ids[SPECIAL_COUNT];
    bool any = false;
    put_format(b, "\"added_tokens\":[");
    for (int i = 0; i < SPECIAL_COUNT; i++) {
        struct text *text = &t->special_texts[i];
        bool named = text->at != NULL;
        *text = named || !class->specials[i] ? *text : text_of(class->specials[i]);
        const char *key = text->at ? arena_copy(t->arena, *text).at : "";
        ids[i] = jtree_integer(jtree_get(vocab, key), IDS_MAX - 1);
        if (named || ids[i] < 0)
            continue;
        put_format(b, "%s{\"id\":%lld,\"content\":\"%s\",\"special\":true}", any ? "," : "",
                   (long long)ids[i], key);
        any = true;
    }
    put_format(b, "],");
    if (!class->encloses)
        return STATUS_OK;
    if (ids[SPECIAL_SEP] < 0 || ids[SPECIAL_CLS] < 0)
        return error_set(err, STATUS_INVALID, "vocab.json lacks the tokens of CLS or SEP");
    put_format(b, "\"post_processor\":{\"type\":\"RobertaProcessing\",\"sep\":[\"");
    put_escaped(b, t->special_texts[SPECIAL_SEP]);
    put_format(b, "\",%lld],\"cls\":[\"", (long long)ids[SPECIAL_SEP]);
    put_escaped(b, t->special_texts[SPECIAL_CLS]);
    put_format(b, "\",%lld]},", (long long)ids[SPECIAL_CLS]);
    return STATUS_OK;
}

// Writes vocab.json and merges.txt as the tokenizer.json that the folder's class makes of them, and
// opens that.
enum status merge_files_open(struct tokenizer *t, const char *folder, struct error *err)
{
    char path[PATH_MAX_BYTES], merges_path[PATH_MAX_BYTES];
    struct text vocab, merges;
    const struct jnode *words;
    snprintf(path, sizeof path, "%s/vocab.json", folder);
    snprintf(merges_path, sizeof merges_path, "%s/merges.txt", folder);
    const struct merge_class *class = merge_class_find(t);
    if (!class || access(path, F_OK) != 0 || access(merges_path, F_OK) != 0)
        return STATUS_NOT_FOUND;
    enum status status = file_read(&vocab, t->arena, path, TOKENIZER_FILE_BYTES_MAX, err);
    if (status == STATUS_OK)
        status = jtree_parse(&words, t->arena, vocab, path, err);
    if (status == STATUS_OK)
        status = file_read(&merges, t->arena, merges_path, TOKENIZER_FILE_BYTES_MAX, err);
    if (status != STATUS_OK)
        return status;
    struct encode e = {.t = t, .arena = t->arena};
    struct marked_builder b;
    (void)marked_builder_init(&b, &e, vocab.bytes + 2 * merges.bytes + 4096, false);
    bool space = jtree_get_bool(t->config, "add_prefix_space", false);
    put_format(&b, "{");
    status = put_specials(&b, t, class, words, err);
    if (status != STATUS_OK)
        return error_prefix(err, "%s", folder);
    put_format(&b, class->stages, space ? "true" : "false");
    put_format(&b, "\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\",\"merges\":[");
    put_merges(&b, merges);
    put_format(&b, "],\"vocab\":");
    (void)marked_builder_put(&b, vocab.at, vocab.bytes, 0);
    (void)marked_builder_put(&b, "}}", 3, 0);
    return tokenizer_open_parts(t, text_span(b.at, b.bytes - 1), path, err);
}

// Writes the words of vocab.txt as a tokenizer.json and opens that.
enum status word_list_open(struct tokenizer *t, const char *folder, struct error *err)
{
    static const char *const specials[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
    char path[PATH_MAX_BYTES];
    struct text words, line;
    snprintf(path, sizeof path, "%s/vocab.txt", folder);
    enum status status = file_read(&words, t->arena, path, TOKENIZER_FILE_BYTES_MAX, err);
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
    for (size_t at = 0; line_read(&line, words, &at); id++) {
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
