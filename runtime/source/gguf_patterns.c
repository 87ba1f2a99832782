// SPDX-License-Identifier: Apache-2.0
// Pre-tokenizers by the names that GGUF files use: a file contains only the name; the patterns are
// those of the tokenizers with these names. Constant data and the functions that write it.
#include "runtime/source/gguf_documents.h"

#include "base/safe.h"

enum { STAGES_MOST = 8 };

// The published patterns, one for each family of vocabularies.
#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define ENDING "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define LETTERS "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
#define OTHERS "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED(tail)                                                                                \
    "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" tail "|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER    \
    "*" tail

static const char gpt2[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|"
                           "\\s+(?!\\S)|\\s+";
static const char three_digits[] = CONTRACTIONS "|" LETTERS "|\\p{N}{1,3}" OTHERS ENDING;
static const char one_digit[] = CONTRACTIONS "|" LETTERS "|\\p{N}" OTHERS ENDING;
static const char seed[] = CONTRACTIONS "|" LETTERS "|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\\r\\n]+" ENDING;
static const char marked[] =
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{"
    "M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*" ENDING;
static const char tekken[] = CASED("") "|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" ENDING;
static const char cased[] =
    CASED(CONTRACTIONS "?") "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" ENDING;

enum stage_kind { STAGE_END, STAGE_SPLIT, STAGE_DIGITS, STAGE_DIGIT_RUNS, STAGE_PUNCTUATION };

struct stage {
    enum stage_kind kind;
    const char *pattern; // pattern of a split
};

struct pattern_set {
    const char *names[10];
    bool whole_words; // true if a word that is a token is not merged
    bool begins;      // default of tokenizer.ggml.add_bos_token
    bool nfc;
    struct stage stages[STAGES_MOST]; // stages before the byte-level stage
};

static const struct pattern_set sets[] = {
    {.names = {"gpt-2", "phi-2", "olmo", "jais", "mpt", "exaone4", "roberta-bpe"},
     .stages = {{STAGE_SPLIT, gpt2}}},
    {.names = {"modern-bert"}, .nfc = true, .stages = {{STAGE_SPLIT, gpt2}}},
    {.names = {"smollm", "starcoder", "refact", "codeshell", "minerva-7b"},
     .stages = {{STAGE_DIGITS, NULL}, {STAGE_SPLIT, gpt2}}},
    {.names = {"command-r"}, .nfc = true, .stages = {{STAGE_DIGITS, NULL}, {STAGE_SPLIT, gpt2}}},
    {.names = {"llama-bpe", "llama3", "llama-v3", "falcon3", "pixtral", "midm-2.0", "lfm2"},
     .whole_words = true,
     .begins = true,
     .stages = {{STAGE_SPLIT, three_digits}}},
    {.names = {"glm4"}, .whole_words = true, .stages = {{STAGE_SPLIT, three_digits}}},
    {.names = {"dbrx", "smaug-bpe", "chatglm-bpe"}, .stages = {{STAGE_SPLIT, three_digits}}},
    {.names = {"qwen2", "deepseek-r1-qwen", "megrez"},
     .nfc = true,
     .stages = {{STAGE_SPLIT, one_digit}}},
    {.names = {"stablelm2", "hunyuan"}, .stages = {{STAGE_SPLIT, one_digit}}},
    {.names = {"seed-coder"}, .stages = {{STAGE_SPLIT, seed}}},
    {.names = {"deepseek-v3", "hunyuan-dense"},
     .stages = {{STAGE_SPLIT, "\\p{N}{1,3}"},
                {STAGE_SPLIT, "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"},
                {STAGE_SPLIT, marked}}},
    {.names = {"tekken"}, .whole_words = true, .begins = true, .stages = {{STAGE_SPLIT, tekken}}},
    {.names = {"gpt-4o", "llama4"}, .stages = {{STAGE_SPLIT, cased}}},
    {.names = {"deepseek-coder"},
     .stages = {{STAGE_SPLIT, "[\\r\\n]"},
                {STAGE_SPLIT, "\\s?\\p{L}+"},
                {STAGE_SPLIT, "\\s?\\p{P}+"},
                {STAGE_SPLIT, "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"},
                {STAGE_DIGITS, NULL}}},
    {.names = {"deepseek-llm"},
     .stages = {{STAGE_SPLIT, "[\\r\\n]"},
                {STAGE_SPLIT, "\\s?[\\p{Lu}\\p{Ll}\\p{Lt}]+"},
                {STAGE_SPLIT, "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+"},
                {STAGE_SPLIT, "\\s+$"},
                {STAGE_SPLIT, "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"},
                {STAGE_DIGIT_RUNS, NULL}}},
    {.names = {"falcon"},
     .stages = {{STAGE_PUNCTUATION, NULL},
                {STAGE_SPLIT, gpt2},
                {STAGE_SPLIT, "[0-9]+"},
                {STAGE_SPLIT, "[0-9][0-9][0-9]"}}},
    {.names = {"default"},
     .stages = {{STAGE_SPLIT, "[\\p{P}\\$\\+<=>\\^~\\|]+"},
                {STAGE_SPLIT, gpt2},
                {STAGE_SPLIT, "\\p{N}+"},
                {STAGE_SPLIT, "[0-9][0-9][0-9]"}}},
};

static void put_stage(struct json_buffer *out, const struct stage *stage)
{
    switch (stage->kind) {
    case STAGE_SPLIT:
        json_put_literal(out, "{\"type\":\"Split\",\"pattern\":{\"Regex\":");
        json_put_string(out, text_of(stage->pattern));
        json_put_literal(out, "},\"behavior\":\"Isolated\",\"invert\":false},");
        break;
    case STAGE_DIGITS:
    case STAGE_DIGIT_RUNS:
        json_put_format(out, "{\"type\":\"Digits\",\"individual_digits\":%s},",
                        stage->kind == STAGE_DIGITS ? "true" : "false");
        break;
    case STAGE_PUNCTUATION:
        json_put_literal(out, "{\"type\":\"Punctuation\",\"behavior\":\"Contiguous\"},");
        break;
    case STAGE_END:
        break;
    }
}

static const struct pattern_set *set_find(struct text name)
{
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++)
        for (const char *const *known = sets[i].names; *known; known++)
            if (text_is(name, *known))
                return &sets[i];
    return NULL;
}

enum status gguf_patterns_put(struct json_buffer *out, struct text name,
                              struct gguf_pattern_facts *facts, const struct gguf *file,
                              struct error *err)
{
    const struct pattern_set *set = set_find(name);
    if (!set)
        return error_set(err, STATUS_UNSUPPORTED,
                         "%s: the key tokenizer.ggml.pre is %.64s, a pre-tokenizer that is not "
                         "known; take the model's Hugging Face folder",
                         file->name, safe_of(name).at);
    *facts = (struct gguf_pattern_facts){set->whole_words, set->begins};
    if (set->nfc)
        json_put_literal(out, "\"normalizer\":{\"type\":\"NFC\"},");
    json_put_literal(out, "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[");
    for (const struct stage *stage = set->stages; stage->kind != STAGE_END; stage++)
        put_stage(out, stage);
    json_put_literal(out, "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":"
                          "true,\"use_regex\":false}]},");
    return STATUS_OK;
}
