// SPDX-License-Identifier: Apache-2.0
// Writes the keys of a GGUF file about the tokenizer as tokenizer.json and tokenizer_config.json:
// byte-level BPE ("gpt2"), sentencepiece's BPE with scores ("llama"), its unigrams ("t5") and
// WordPiece ("bert"). Loading thread only.
#include "runtime/source/gguf_documents.h"
#include "runtime/source/merges.h"

#include "base/log.h"
#include "base/safe.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum {
    TOKEN_BYTES_MAX = 1 << 16,
    WORD_CHARS_MAX = 100,
};

enum token_kind { TOKEN_NORMAL = 1, TOKEN_UNKNOWN, TOKEN_CONTROL, TOKEN_USER };

#define KEY(rest) "tokenizer.ggml." rest

struct vocabulary_read {
    const struct gguf *file;
    struct text *tokens; // [count]
    uint32_t count;
    const struct gguf_value *kinds;  // [count] enum token_kind, or NULL: all normal
    const struct gguf_value *scores; // [count] scores of sentencepiece, or NULL
    const struct gguf_output *output;
    struct arena *scratch;   // output->scratch
    struct json_buffer *out; // output->out
    struct error *err;
};

static struct vocabulary_read read_of(const struct gguf_output *output, const struct gguf *file,
                                      struct error *err)
{
    return (struct vocabulary_read){
        .file = file, .output = output, .scratch = output->scratch, .out = output->out, .err = err};
}

static int kind_of(const struct vocabulary_read *v, uint32_t id)
{
    double kind = v->kinds ? gguf_item(v->kinds, id) : TOKEN_NORMAL;
    return kind >= TOKEN_NORMAL && kind <= INT16_MAX ? (int)kind : TOKEN_NORMAL;
}

static enum status id_get(int32_t *out, const struct vocabulary_read *v, const char *key)
{
    return gguf_token_id(out, v->file, key, v->count, v->err);
}

// Reads an optional array of numbers with one item for each token.
static enum status token_array_get(const struct gguf_value **out, const struct vocabulary_read *v,
                                   const char *key)
{
    uint32_t numbers = 1u << GGUF_I32 | 1u << GGUF_U32 | 1u << GGUF_F32 | 1u << GGUF_I8 |
                       1u << GGUF_U8 | 1u << GGUF_I16 | 1u << GGUF_U16;
    enum status status = gguf_array(out, v->file, key, numbers, v->err);
    if (status == STATUS_OK && *out && (*out)->count != v->count)
        return error_set(v->err, STATUS_INVALID,
                         "%s: the key %s has %" PRIu64 " items and tokenizer.ggml.tokens %u; take "
                         "another file of the model",
                         v->file->name, key, (*out)->count, v->count);
    return status;
}

static enum status vocabulary_get(struct vocabulary_read *v)
{
    const struct gguf_value *tokens;
    enum status status = gguf_array(&tokens, v->file, KEY("tokens"), 1u << GGUF_STRING, v->err);
    if (status == STATUS_OK && (!tokens || tokens->count == 0))
        status = error_set(v->err, STATUS_INVALID,
                           "%s: the key tokenizer.ggml.tokens is missing or empty; take a file "
                           "with a tokenizer",
                           v->file->name);
    if (status == STATUS_OK)
        status = gguf_strings(&v->tokens, v->file, tokens, GGUF_TOKENS_MAX, v->scratch, v->err);
    if (status != STATUS_OK)
        return status;
    v->count = (uint32_t)tokens->count;
    for (uint32_t i = 0; i < v->count; i++)
        if (v->tokens[i].bytes > TOKEN_BYTES_MAX)
            return error_set(v->err, STATUS_TOO_LARGE,
                             "%s: the key tokenizer.ggml.tokens: item %u has %zu bytes, at most %d "
                             "are read; take another file of the model",
                             v->file->name, i, v->tokens[i].bytes, TOKEN_BYTES_MAX);
    status = token_array_get(&v->kinds, v, KEY("token_type"));
    if (status == STATUS_OK)
        status = token_array_get(&v->scores, v, KEY("scores"));
    return status;
}

static enum status put_vocab(struct vocabulary_read *v)
{
    enum status status = STATUS_OK;
    json_put_literal(v->out, "\"vocab\":{");
    for (uint32_t id = 0; id < v->count && status == STATUS_OK; id++) {
        json_put_literal(v->out, id > 0 ? "," : "");
        json_put_string(v->out, v->tokens[id]);
        json_put_format(v->out, ":%u", id);
        status = gguf_size_check(v->output, v->file, v->err);
    }
    json_put_literal(v->out, "}");
    return status;
}

// Returns true if blanks after this added token are dropped. Files do not store this; it is known
// for the sentencepiece vocabulary of Phi-3.
static bool strips_after(struct text token)
{
    static const char *const plain[] = {"<unk>", "<s>", "<|endoftext|>"};
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++)
        if (text_is(token, plain[i]))
            return false;
    return true;
}

// Writes the added tokens. model: the value of the key tokenizer.ggml.model.
static enum status put_added(struct vocabulary_read *v, struct text model)
{
    bool any = false;
    struct text family;
    enum status status = gguf_text(&family, v->file, "general.architecture", v->err);
    bool phi =
        status == STATUS_OK && family.at && text_is(family, "phi3") && text_is(model, "llama");
    json_put_literal(v->out, "\"added_tokens\":[");
    for (uint32_t id = 0; id < v->count && status == STATUS_OK; id++) {
        int kind = kind_of(v, id);
        if (v->tokens[id].bytes == 0 ||
            (kind != TOKEN_CONTROL && kind != TOKEN_USER && kind != TOKEN_UNKNOWN))
            continue;
        json_put_format(v->out, "%s{\"id\":%u,\"content\":", any ? "," : "", id);
        any = true;
        json_put_string(v->out, v->tokens[id]);
        json_put_format(v->out,
                        ",\"special\":%s,\"normalized\":false,\"single_word\":false,"
                        "\"lstrip\":false,\"rstrip\":%s}",
                        kind == TOKEN_USER ? "false" : "true",
                        phi && strips_after(v->tokens[id]) ? "true" : "false");
        status = gguf_size_check(v->output, v->file, v->err);
    }
    json_put_literal(v->out, "]");
    return status;
}

static void put_special(struct vocabulary_read *v, const char *name, uint8_t type)
{
    json_put_format(v->out, "{\"SpecialToken\":{\"id\":\"%s\",\"type_id\":%u}},", name, type);
}

// Writes the post-processor that adds the tokens before and after each text, according to the two
// flags of the file; nothing if neither is set. The second text of a pair begins with the same
// token as the first; with the end token in RoBERTa, and with none in ModernBERT.
static enum status put_post(struct vocabulary_read *v, bool bos_default, bool eos_default)
{
    int32_t bos, eos;
    bool add_bos, add_eos;
    struct text family;
    enum status status = gguf_text(&family, v->file, "general.architecture", v->err);
    bool roberta = status == STATUS_OK && family.at && text_is(family, "bert");
    bool modern = status == STATUS_OK && family.at && text_is(family, "modern-bert");
    if (status == STATUS_OK)
        status = id_get(&bos, v, KEY("bos_token_id"));
    if (status == STATUS_OK)
        status = id_get(&eos, v, KEY("eos_token_id"));
    if (status == STATUS_OK)
        status = gguf_flag(&add_bos, v->file, KEY("add_bos_token"), bos_default, v->err);
    if (status == STATUS_OK)
        status = gguf_flag(&add_eos, v->file, KEY("add_eos_token"), eos_default, v->err);
    if (status != STATUS_OK)
        return status;
    add_bos = add_bos && bos >= 0;
    add_eos = add_eos && eos >= 0;
    if (!add_bos && !add_eos)
        return STATUS_OK;
    json_put_literal(v->out, "\"post_processor\":{\"type\":\"TemplateProcessing\"");
    for (int pair = 0; pair < 2; pair++) {
        json_put_format(v->out, ",\"%s\":[", pair ? "pair" : "single");
        for (uint8_t half = 0; half <= pair; half++) {
            json_put_literal(v->out, half > 0 ? "," : "");
            if (half > 0 && roberta && add_eos)
                put_special(v, "eos", half);
            else if (add_bos && !(half > 0 && (roberta || modern)))
                put_special(v, "bos", half);
            json_put_format(v->out, "{\"Sequence\":{\"id\":\"%s\",\"type_id\":%u}}",
                            half ? "B" : "A", half);
            if (add_eos)
                json_put_format(v->out, ",{\"SpecialToken\":{\"id\":\"eos\",\"type_id\":%u}}",
                                half);
        }
        json_put_literal(v->out, "]");
    }
    json_put_format(v->out,
                    ",\"special_tokens\":{\"bos\":{\"id\":\"bos\",\"ids\":[%d],\"tokens\":[]},"
                    "\"eos\":{\"id\":\"eos\",\"ids\":[%d],\"tokens\":[]}}},",
                    add_bos ? bos : 0, add_eos ? eos : 0);
    return STATUS_OK;
}

static enum status put_gpt2(struct vocabulary_read *v)
{
    struct text pre, *merges = NULL;
    const struct gguf_value *list;
    struct gguf_pattern_facts facts = {false, false};
    enum status status = gguf_text(&pre, v->file, KEY("pre"), v->err);
    if (status == STATUS_OK)
        status = gguf_array(&list, v->file, KEY("merges"), 1u << GGUF_STRING, v->err);
    if (status == STATUS_OK && !list)
        status = error_set(v->err, STATUS_INVALID,
                           "%s: the key tokenizer.ggml.merges is missing; take a file that a "
                           "current converter wrote",
                           v->file->name);
    if (status == STATUS_OK)
        status =
            gguf_strings(&merges, v->file, list, 2 * (uint64_t)GGUF_TOKENS_MAX, v->scratch, v->err);
    if (status == STATUS_OK && !pre.at)
        log_line(LOG_WARNING,
                 "%s: the key tokenizer.ggml.pre is missing: texts are cut into words by the rule "
                 "'default', which may not be the model's",
                 v->file->name);
    if (status == STATUS_OK)
        status =
            gguf_patterns_put(v->out, pre.at ? pre : text_of("default"), &facts, v->file, v->err);
    if (status == STATUS_OK)
        status = put_post(v, facts.begins, false);
    if (status != STATUS_OK)
        return status;
    json_put_format(v->out,
                    "\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\","
                    "\"ignore_merges\":%s,",
                    facts.whole_words ? "true" : "false");
    status = put_vocab(v);
    json_put_literal(v->out, ",\"merges\":[");
    for (uint64_t i = 0; i < list->count && status == STATUS_OK; i++) {
        json_put_literal(v->out, i > 0 ? "," : "");
        json_put_string(v->out, merges[i]);
        status = gguf_size_check(v->output, v->file, v->err);
    }
    json_put_literal(v->out, "]},");
    return status;
}

static enum status put_merges(struct vocabulary_read *v)
{
    double *scores = arena_alloc(v->scratch, v->count * sizeof *scores);
    check(scores, "the arena of a document has no limit");
    for (uint32_t id = 0; id < v->count; id++)
        scores[id] = gguf_item(v->scores, id);
    const struct scored_tokens scored = {
        .tokens_name =
            arena_format(v->scratch, "%s: the key tokenizer.ggml.tokens", v->file->name).at,
        .scores_name =
            arena_format(v->scratch, "%s: the key tokenizer.ggml.scores", v->file->name).at,
        .tokens = v->tokens,
        .scores = scores,
        .count = v->count,
        .bytes_max = v->output->bytes_max};
    enum status status = merges_put(v->out, v->scratch, &scored, v->err);
    return status == STATUS_OK ? gguf_size_check(v->output, v->file, v->err) : status;
}

static enum status put_llama(struct vocabulary_read *v)
{
    bool prefix;
    int32_t unknown;
    if (!v->scores)
        return error_set(v->err, STATUS_INVALID,
                         "%s: the key tokenizer.ggml.scores is missing; take a file that a current "
                         "converter wrote",
                         v->file->name);
    enum status status = gguf_flag(&prefix, v->file, KEY("add_space_prefix"), true, v->err);
    if (status == STATUS_OK)
        status = id_get(&unknown, v, KEY("unknown_token_id"));
    if (status == STATUS_OK)
        status = put_post(v, true, false);
    if (status != STATUS_OK)
        return status;
    json_put_format(v->out,
                    "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[%s{\"type\":"
                    "\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"\u2581\"}]},",
                    prefix ? "{\"type\":\"Prepend\",\"prepend\":\"\u2581\"}," : "");
    json_put_format(v->out,
                    "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\","
                    "\"pattern\":{\"String\":\"\u2581\"},\"content\":\" \"},{\"type\":"
                    "\"ByteFallback\"},{\"type\":\"Fuse\"}%s]},",
                    prefix ? ",{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}" : "");
    json_put_literal(v->out, "\"model\":{\"type\":\"BPE\",\"fuse_unk\":true,\"byte_fallback\":true,"
                             "\"unk_token\":");
    json_put_string(v->out, unknown >= 0 ? v->tokens[unknown] : text_of("<unk>"));
    json_put_literal(v->out, ",");
    status = put_vocab(v);
    json_put_literal(v->out, ",\"merges\":");
    if (status == STATUS_OK)
        status = put_merges(v);
    json_put_literal(v->out, "},");
    return status;
}

// Writes the table by which sentencepiece normalises texts, if the file has one.
static enum status put_charsmap(struct vocabulary_read *v)
{
    const struct gguf_value *map;
    enum status status = gguf_array(&map, v->file, KEY("precompiled_charsmap"),
                                    1u << GGUF_I8 | 1u << GGUF_U8, v->err);
    if (status != STATUS_OK || !map || map->count == 0)
        return status;
    json_put_literal(v->out,
                     "\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"");
    json_put_base64(v->out, map->bytes);
    json_put_literal(v->out, "\"},");
    return gguf_size_check(v->output, v->file, v->err);
}

static enum status put_t5(struct vocabulary_read *v)
{
    bool prefix, words;
    int32_t unknown;
    enum status status = gguf_flag(&prefix, v->file, KEY("add_space_prefix"), true, v->err);
    if (status == STATUS_OK)
        status = gguf_flag(&words, v->file, KEY("remove_extra_whitespaces"), false, v->err);
    if (status == STATUS_OK)
        status = id_get(&unknown, v, KEY("unknown_token_id"));
    if (status == STATUS_OK && (!v->scores || unknown < 0 || !prefix))
        status = error_set(v->err, STATUS_UNSUPPORTED,
                           "%s: the keys of the tokenizer t5: tokenizer.ggml.scores and "
                           "unknown_token_id are needed, and add_space_prefix must be true; take "
                           "the model's Hugging Face folder",
                           v->file->name);
    if (status == STATUS_OK)
        status = put_charsmap(v);
    if (status == STATUS_OK)
        status = put_post(v, false, true);
    if (status != STATUS_OK)
        return status;
    json_put_format(v->out,
                    "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[%s{\"type\":"
                    "\"Metaspace\",\"replacement\":\"\u2581\",\"prepend_scheme\":\"always\"}]},"
                    "\"decoder\":{\"type\":\"Metaspace\",\"replacement\":\"\u2581\","
                    "\"prepend_scheme\":\"always\"},"
                    "\"model\":{\"type\":\"Unigram\",\"unk_id\":%d,\"byte_fallback\":false,"
                    "\"vocab\":[",
                    words ? "{\"type\":\"WhitespaceSplit\"}," : "", unknown);
    for (uint32_t id = 0; id < v->count && status == STATUS_OK; id++) {
        double score = gguf_item(v->scores, id);
        json_put_literal(v->out, id > 0 ? ",[" : "[");
        json_put_string(v->out, v->tokens[id]);
        json_put_literal(v->out, ",");
        json_put_double(v->out, isfinite(score) ? score : 0);
        json_put_literal(v->out, "]");
        status = gguf_size_check(v->output, v->file, v->err);
    }
    json_put_literal(v->out, "]},");
    return status;
}

// Renames the tokens: GGUF files mark the beginning of words, but a WordPiece vocabulary marks
// their continuation ("##").
static void pieces_rename(struct vocabulary_read *v)
{
    static const char mark[] = "\u2581";
    for (uint32_t id = 0; id < v->count; id++) {
        struct text *name = &v->tokens[id];
        int kind = kind_of(v, id);
        bool whole = kind == TOKEN_CONTROL || kind == TOKEN_UNKNOWN ||
                     (name->bytes > 1 && name->at[0] == '[' && name->at[name->bytes - 1] == ']');
        if (name->bytes >= sizeof mark - 1 && memcmp(name->at, mark, sizeof mark - 1) == 0)
            *name = text_span(name->at + sizeof mark - 1, name->bytes - (sizeof mark - 1));
        else if (!whole)
            *name = arena_format(v->scratch, "##%.*s", (int)name->bytes, name->at);
    }
}

static enum status put_bert(struct vocabulary_read *v)
{
    int32_t cls, sep, unknown;
    bool lower, accents;
    pieces_rename(v);
    enum status status = id_get(&cls, v, KEY("cls_token_id"));
    if (status == STATUS_OK && cls < 0) // newer files use the key of other models
        status = id_get(&cls, v, KEY("bos_token_id"));
    if (status == STATUS_OK)
        status = id_get(&sep, v, KEY("seperator_token_id")); // misspelled in the format
    if (status == STATUS_OK && sep < 0)
        status = id_get(&sep, v, KEY("eos_token_id"));
    if (status == STATUS_OK)
        status = id_get(&unknown, v, KEY("unknown_token_id"));
    if (status == STATUS_OK)
        status = gguf_flag(&lower, v->file, KEY("normalizer.lowercase"), true, v->err);
    if (status == STATUS_OK)
        status = gguf_flag(&accents, v->file, KEY("normalizer.strip_accents"), lower, v->err);
    if (status == STATUS_OK && (cls < 0 || sep < 0))
        status = error_set(v->err, STATUS_INVALID,
                           "%s: the keys tokenizer.ggml.cls_token_id and seperator_token_id are "
                           "missing; take a file that a current converter wrote",
                           v->file->name);
    if (status != STATUS_OK)
        return status;
    json_put_format(v->out,
                    "\"normalizer\":{\"type\":\"BertNormalizer\",\"clean_text\":true,"
                    "\"handle_chinese_chars\":true,\"strip_accents\":%s,\"lowercase\":%s},"
                    "\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},"
                    "\"decoder\":{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true},"
                    "\"post_processor\":{\"type\":\"BertProcessing\",\"sep\":[",
                    accents ? "true" : "false", lower ? "true" : "false");
    json_put_string(v->out, v->tokens[sep]);
    json_put_format(v->out, ",%d],\"cls\":[", sep);
    json_put_string(v->out, v->tokens[cls]);
    json_put_format(v->out,
                    ",%d]},\"model\":{\"type\":\"WordPiece\",\"continuing_subword_prefix\":\"##\","
                    "\"max_input_chars_per_word\":%d,\"unk_token\":",
                    cls, WORD_CHARS_MAX);
    json_put_string(v->out, unknown >= 0 ? v->tokens[unknown] : text_of("[UNK]"));
    json_put_literal(v->out, ",");
    status = put_vocab(v);
    json_put_literal(v->out, "},");
    return status;
}

static enum status tokenizer_open(struct vocabulary_read *v, struct text *model)
{
    enum status status = gguf_text(model, v->file, KEY("model"), v->err);
    if (status != STATUS_OK)
        return status;
    if (!model->at)
        return error_set(v->err, STATUS_INVALID,
                         "%s: the key tokenizer.ggml.model is missing; take a file with a "
                         "tokenizer",
                         v->file->name);
    return vocabulary_get(v);
}

enum status gguf_tokenizer_json(const struct gguf_output *output, const struct gguf *file,
                                struct error *err)
{
    static const struct {
        const char *name;
        enum status (*put)(struct vocabulary_read *);
    } kinds[] = {{"gpt2", put_gpt2}, {"llama", put_llama}, {"t5", put_t5}, {"bert", put_bert}};
    struct vocabulary_read v = read_of(output, file, err);
    struct text model;
    enum status status = tokenizer_open(&v, &model);
    json_put_literal(v.out, "{");
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0] && status == STATUS_OK; i++)
        if (text_is(model, kinds[i].name)) {
            status = kinds[i].put(&v);
            if (status == STATUS_OK)
                status = put_added(&v, model);
            json_put_literal(v.out, "}");
            return status;
        }
    if (status == STATUS_OK)
        status = error_set(err, STATUS_UNSUPPORTED,
                           "%s: the key tokenizer.ggml.model is %.64s; gpt2, llama, t5 and bert "
                           "are read, take the model's Hugging Face folder",
                           file->name, safe_of(model).at);
    return status;
}

// Writes the chat templates: one without a name, and further ones under
// tokenizer.chat_template.NAME.
static enum status put_templates(struct vocabulary_read *v)
{
    static const char key[] = "tokenizer.chat_template";
    bool any = false;
    enum status status = STATUS_OK;
    json_put_literal(v->out, ",\"chat_template\":[");
    for (uint32_t i = 0; i < v->file->value_count && status == STATUS_OK; i++) {
        struct text name = v->file->values[i].key, source;
        size_t bytes = sizeof key - 1;
        if (name.bytes < bytes || memcmp(name.at, key, bytes) != 0 ||
            (name.bytes > bytes && name.at[bytes] != '.'))
            continue;
        status = gguf_size_check(v->output, v->file, v->err);
        if (status == STATUS_OK)
            status = gguf_text(&source, v->file, arena_copy(v->scratch, name).at, v->err);
        struct text label = name.bytes > bytes + 1
                                ? text_span(name.at + bytes + 1, name.bytes - bytes - 1)
                                : text_of("default");
        if (status != STATUS_OK)
            break;
        json_put_literal(v->out, any ? ",{\"name\":\"" : "{\"name\":\"");
        json_put_lossy(v->out, label);
        json_put_literal(v->out, "\",\"template\":");
        json_put_string(v->out, source);
        json_put_literal(v->out, "}");
        any = true;
    }
    json_put_literal(v->out, "]");
    return status;
}

enum status gguf_tokenizer_config_json(const struct gguf_output *output, const struct gguf *file,
                                       struct error *err)
{
    static const struct {
        const char *key, *field;
    } specials[] = {
        {KEY("bos_token_id"), "bos_token"},     {KEY("eos_token_id"), "eos_token"},
        {KEY("unknown_token_id"), "unk_token"}, {KEY("seperator_token_id"), "sep_token"},
        {KEY("padding_token_id"), "pad_token"}, {KEY("cls_token_id"), "cls_token"},
        {KEY("mask_token_id"), "mask_token"},
    };
    struct vocabulary_read v = read_of(output, file, err);
    struct text model;
    enum status status = tokenizer_open(&v, &model);
    if (status == STATUS_OK && text_is(model, "bert"))
        pieces_rename(&v);
    json_put_literal(v.out, "{\"from\":\"gguf\"");
    for (size_t i = 0; i < sizeof specials / sizeof specials[0] && status == STATUS_OK; i++) {
        int32_t id;
        status = id_get(&id, &v, specials[i].key);
        if (status != STATUS_OK || id < 0)
            continue;
        json_put_format(v.out, ",\"%s\":", specials[i].field);
        json_put_string(v.out, v.tokens[id]);
    }
    if (status == STATUS_OK)
        status = put_templates(&v);
    json_put_literal(v.out, "}");
    return status;
}
