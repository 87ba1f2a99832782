// SPDX-License-Identifier: Apache-2.0
// Writes byte-level vocabularies with ranks as the text of a tokenizer.json: rank files
// (tiktoken.model, qwen.tiktoken) and tekken.json. The rank of a token is its id less that of the
// first token, and the priority of the merges that produce it. Loading thread only.
#include "runtime/source/merges.h"
#include "runtime/text/tokenizer/files.h"

enum {
    TOKENS_MAX = 1 << 22,
    TOKEN_BYTES_MAX = 512, // decoded; real ones have at most 256
    SPECIALS_MAX = 1 << 16,
};

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define HEAD "[^\\r\\n\\p{L}\\p{N}]?"
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]"
#define REST "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

// The classes whose rank files are read. The patterns are those of their published Python files.
static const struct rank_class {
    const char *name, *pattern;
    bool nfc;
    const char *first[4];   // special tokens after the last rank; NULL: the end
    const char *reserved;   // format of further special tokens, with the id or their number
    uint32_t special_count; // number of special tokens
    bool numbered;          // true if `reserved` gets the number among its kind, not the id
    const char *bos, *eos;  // NULL: not known
} rank_classes[] = {
    {.name = "TikTokenTokenizer", // Moonlight, Kimi K2
     .pattern = "[\\p{Han}]+|" HEAD UPPER "*" LOWER "+" CONTRACTIONS "?|" HEAD UPPER "+" LOWER
                "*" CONTRACTIONS "?|\\p{N}{1,3}" REST,
     .reserved = "<|reserved_token_%u|>",
     .special_count = 256,
     .bos = "[BOS]",
     .eos = "[EOS]"},
    {.name = "QWenTokenizer", // Qwen 1
     .pattern = CONTRACTIONS "|" HEAD "\\p{L}+|\\p{N}" REST,
     .nfc = true,
     .first = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"},
     .reserved = "<|extra_%u|>",
     .special_count = 208,
     .numbered = true,
     .eos = "<|endoftext|>"},
};

// The vocabulary of a file of either kind.
struct ranks {
    struct json_buffer *out;
    struct tokenizer *t;
    const char *path;
    struct text *names; // [count] byte-level names
    uint32_t count;
    size_t allocated;
    uint32_t first_id; // id of the first token
    struct error *err;
};

// Appends a token from its base64. where: the number of the line or item, for errors.
static enum status token_add(struct ranks *r, struct text base64, uint32_t where)
{
    char raw[TOKEN_BYTES_MAX / 4 * 4 + 8];
    size_t used = 0, bytes = 0, end = base64.bytes;
    while (end > 0 && base64.at[end - 1] == '=')
        end--;
    base64.bytes = end;
    if (base64.bytes / 4 * 3 <= TOKEN_BYTES_MAX)
        bytes = base64_read(raw, base64, &used);
    if (bytes == 0 || used != base64.bytes)
        return error_set(r->err, STATUS_INVALID,
                         "%s: the token of rank %u is not base64 of 1 to %d bytes; download the "
                         "file again",
                         r->path, where, TOKEN_BYTES_MAX);
    if (r->count == TOKENS_MAX)
        return error_set(r->err, STATUS_TOO_LARGE,
                         "%s has over %d tokens, the most that are read; take another file of the "
                         "model",
                         r->path, TOKENS_MAX);
    char *name = arena_alloc(r->t->arena, 2 * bytes);
    check(name, "the arena of a tokenizer has no limit");
    size_t length = 0;
    for (size_t i = 0; i < bytes; i++)
        length += utf8_write(byte_char((unsigned char)raw[i]), name + length);
    r->names = arena_extend(r->t->arena, r->names, r->count, &r->allocated, sizeof *r->names);
    r->names[r->count++] = text_span(name, length);
    return STATUS_OK;
}

static enum status size_check(const struct ranks *r)
{
    if (r->out->bytes > TOKENIZER_FILE_BYTES_MAX)
        return error_set(
            r->err, STATUS_TOO_LARGE,
            "%s: the tokens need more than %d bytes as a tokenizer.json, the most that "
            "are read; take another file of the model",
            r->path, TOKENIZER_FILE_BYTES_MAX);
    return STATUS_OK;
}

// Writes all but the added tokens, which follow, and the end of the object.
static enum status put_model(struct ranks *r, struct text pattern, bool nfc)
{
    enum status status = STATUS_OK;
    double *scores = arena_alloc_zeroed(r->t->arena, r->count + 1, sizeof *scores);
    check(scores, "the arena of a tokenizer has no limit");
    json_put_literal(r->out, nfc ? "{\"normalizer\":{\"type\":\"NFC\"}," : "{");
    json_put_literal(r->out, "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{"
                             "\"type\":\"Split\",\"behavior\":\"Isolated\",\"invert\":false,"
                             "\"pattern\":{\"Regex\":");
    json_put_string(r->out, pattern);
    json_put_literal(r->out,
                     "}},{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}]},"
                     "\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\","
                     "\"ignore_merges\":true,\"vocab\":{");
    for (uint32_t i = 0; i < r->count && status == STATUS_OK; i++) {
        scores[i] = -(double)i;
        json_put_literal(r->out, i > 0 ? "," : "");
        json_put_string(r->out, r->names[i]);
        json_put_format(r->out, ":%u", r->first_id + i);
        status = size_check(r);
    }
    json_put_literal(r->out, "},\"merges\":");
    const char *what = arena_format(r->t->arena, "%s: the tokens", r->path).at;
    const struct scored_tokens scored = {what,   what,     r->names,
                                         scores, r->count, TOKENIZER_FILE_BYTES_MAX};
    if (status == STATUS_OK)
        status = merges_put(r->out, r->t->arena, &scored, r->err);
    json_put_literal(r->out, "},\"added_tokens\":[");
    return status == STATUS_OK ? size_check(r) : status;
}

static void put_special(struct ranks *r, bool first, uint32_t id, struct text name)
{
    json_put_format(r->out, "%s{\"id\":%u,\"special\":true,\"normalized\":false,\"content\":",
                    first ? "" : ",", id);
    json_put_string(r->out, name);
    json_put_literal(r->out, "}");
}

// Reads "base64 rank" lines; the ranks count from 0.
static enum status lines_read(struct ranks *r, struct text bytes)
{
    enum status status = STATUS_OK;
    struct text line;
    for (size_t at = 0; status == STATUS_OK && line_read(&line, bytes, &at);) {
        if (line.bytes == 0)
            continue;
        const char *blank = memchr(line.at, ' ', line.bytes);
        size_t token = blank ? (size_t)(blank - line.at) : line.bytes;
        int64_t rank =
            blank ? token_id_of(text_span(blank + 1, line.bytes - token - 1)) : (int64_t)-1;
        if (rank != r->count)
            return error_set(r->err, STATUS_INVALID,
                             "%s is damaged at byte %zu: the line is not a token in base64 and "
                             "the rank %u; download the file again",
                             r->path, (size_t)(line.at - bytes.at), r->count);
        status = token_add(r, text_span(line.at, token), r->count);
    }
    return status;
}

// Writes the special tokens: by their ids in added_tokens_decoder, or as the class names them.
static enum status put_rank_specials(struct ranks *r, const struct rank_class *class)
{
    const struct jnode *decoder = jtree_get(r->t->config, "added_tokens_decoder");
    struct arena *arena = r->t->arena;
    uint32_t most = class->special_count, fixed = 0;
    struct text *names = arena_alloc_zeroed(arena, most + 1, sizeof *names);
    check(names, "the arena of a tokenizer has no limit");
    for (uint32_t i = 0; jtree_is(decoder, J_OBJECT) && i < decoder->count; i++) {
        int64_t id = token_id_of(jtree_text(&decoder->items[2 * (size_t)i]));
        struct text name = jtree_get_text(&decoder->items[2 * (size_t)i + 1], "content");
        if (id < r->count || id >= (int64_t)r->count + most || name.bytes == 0)
            return error_set(r->err, STATUS_INVALID,
                             "added_tokens_decoder of tokenizer_config.json: entry %u has no "
                             "content or not an id from %u to %u, which %s leaves to it",
                             i, r->count, r->count + most - 1, r->path);
        names[id - r->count] = name;
    }
    while (fixed < 4 && class->first[fixed])
        fixed++;
    for (uint32_t i = 0; i < most; i++) {
        uint32_t number = class->numbered ? i - fixed : r->count + i;
        char usual[64];
        snprintf(usual, sizeof usual, class->reserved, number);
        struct text name = names[i].at ? names[i]
                           : i < fixed ? text_of(class->first[i])
                                       : text_of(usual);
        put_special(r, i == 0, r->count + i, name);
    }
    return STATUS_OK;
}

enum status ranks_document(struct json_buffer *out, struct tokenizer *t, struct text bytes,
                           const char *path, struct error *err)
{
    const struct rank_class *class = NULL;
    for (size_t i = 0; t->class.at && i < sizeof rank_classes / sizeof rank_classes[0]; i++)
        if (text_is(t->class, rank_classes[i].name))
            class = &rank_classes[i];
    if (!class)
        return error_set(
            err, STATUS_UNSUPPORTED,
            "%s does not contain the pattern that cuts texts into words, and weft "
            "knows that of the classes TikTokenTokenizer and QWenTokenizer only, which "
            "tokenizer_config.json does not name: " TOKENIZER_CONVERT,
            path);
    struct ranks r = {.out = out, .t = t, .path = path, .err = err};
    enum status status = lines_read(&r, bytes);
    if (status == STATUS_OK)
        status = put_model(&r, text_of(class->pattern), class->nfc);
    if (status == STATUS_OK)
        status = put_rank_specials(&r, class);
    json_put_literal(out, "]}");
    if (class->bos)
        special_default(t, SPECIAL_BOS, text_of(class->bos));
    if (class->eos)
        special_default(t, SPECIAL_EOS, text_of(class->eos));
    return status;
}

// The special tokens of tekken files up to version 7, which do not list them.
static const char *const tekken_specials[] = {
    "<unk>",
    "<s>",
    "</s>",
    "[INST]",
    "[/INST]",
    "[AVAILABLE_TOOLS]",
    "[/AVAILABLE_TOOLS]",
    "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]",
    "[TOOL_CALLS]",
    "[IMG]",
    "<pad>",
    "[IMG_BREAK]",
    "[IMG_END]",
    "[PREFIX]",
    "[MIDDLE]",
    "[SUFFIX]",
    "[SYSTEM_PROMPT]",
    "[/SYSTEM_PROMPT]",
    "[TOOL_CONTENT]",
};

static enum status tekken_damaged(const struct ranks *r, const char *what, uint32_t item)
{
    return error_set(r->err, STATUS_INVALID, "%s: item %u of %s; download the file again", r->path,
                     item, what);
}

// Writes the special tokens, ids 0 to first_id - 1: those of the file's list or those of old files;
// other ids get a filler.
static enum status put_tekken_specials(struct ranks *r, const struct jnode *root)
{
    const struct jnode *list = jtree_get(root, "special_tokens");
    bool listed = jtree_is(list, J_ARRAY);
    uint32_t most = r->first_id;
    uint32_t usual = sizeof tekken_specials / sizeof tekken_specials[0];
    struct text *names = arena_alloc_zeroed(r->t->arena, most + 1, sizeof *names);
    check(names, "the arena of a tokenizer has no limit");
    for (uint32_t i = 0; i < (listed ? list->count : usual); i++) {
        int64_t rank = listed ? jtree_integer(jtree_get(&list->items[i], "rank"), most - 1) : i;
        struct text name =
            listed ? jtree_get_text(&list->items[i], "token_str") : text_of(tekken_specials[i]);
        if (rank < 0 || rank >= most || name.bytes == 0 || names[rank].at)
            return tekken_damaged(
                r, "special_tokens has no token_str or no rank of its own below the number of them",
                i);
        names[rank] = name;
    }
    for (uint32_t id = 0; id < most; id++) {
        char filler[64];
        snprintf(filler, sizeof filler, "<SPECIAL_%u>", id);
        put_special(r, id == 0, id, names[id].at ? names[id] : text_of(filler));
    }
    return STATUS_OK;
}

enum status tekken_document(struct json_buffer *out, struct tokenizer *t, struct text bytes,
                            const char *path, struct error *err)
{
    static const char *const old[] = {"v1", "v2", "v3", "v7"};
    static const char *const specials[SPECIAL_COUNT] = {[SPECIAL_BOS] = "<s>",
                                                        [SPECIAL_EOS] = "</s>",
                                                        [SPECIAL_UNK] = "<unk>",
                                                        [SPECIAL_PAD] = "<pad>"};
    struct ranks r = {.out = out, .t = t, .path = path, .err = err};
    const struct jnode *root;
    enum status status = jtree_parse(&root, t->arena, bytes, path, err);
    if (status != STATUS_OK)
        return status;
    const struct jnode *config = jtree_get(root, "config"), *vocab = jtree_get(root, "vocab");
    struct text pattern = jtree_get_text(config, "pattern");
    int64_t size = jtree_integer(jtree_get(config, "default_vocab_size"), TOKENS_MAX);
    int64_t first = jtree_integer(jtree_get(config, "default_num_special_tokens"), SPECIALS_MAX);
    bool named = jtree_is(jtree_get(root, "special_tokens"), J_ARRAY);
    for (size_t i = 0; i < sizeof old / sizeof old[0]; i++)
        named = named || text_is(jtree_get_text(config, "version"), old[i]);
    if (!pattern.at || first <= 0 || size < first || !jtree_is(vocab, J_ARRAY) ||
        vocab->count < size - first)
        return error_set(err, STATUS_INVALID,
                         "%s lacks a pattern, its default_num_special_tokens or as many tokens as "
                         "default_vocab_size; download the file again",
                         path);
    if (!named)
        return error_set(err, STATUS_UNSUPPORTED,
                         "%s has no special_tokens, which files after version 7 need; take a "
                         "newer file of the model",
                         path);
    r.first_id = (uint32_t)first;
    for (uint32_t i = 0; i < size - first && status == STATUS_OK; i++) {
        if (jtree_integer(jtree_get(&vocab->items[i], "rank"), TOKENS_MAX) != i)
            return tekken_damaged(&r, "vocab has not this number as its rank", i);
        status = token_add(&r, jtree_get_text(&vocab->items[i], "token_bytes"), i);
    }
    if (status == STATUS_OK)
        status = put_model(&r, pattern, false);
    if (status == STATUS_OK)
        status = put_tekken_specials(&r, root);
    json_put_literal(out, "]}");
    for (int i = 0; i < SPECIAL_COUNT; i++)
        if (specials[i])
            special_default(t, (enum special_token)i, text_of(specials[i]));
    t->flags_post = t->flags_begin = true;
    return status;
}
