// SPDX-License-Identifier: Apache-2.0
// Finds the tokens with which a model fills in the middle of a text; see infill.h.
#include "http/api/infill.h"

// Returns the id of the first of these texts (up to NULL) that is a token, or -1.
static int32_t first_token(const struct tokenizer *tokenizer, const char *const *texts)
{
    int32_t id = -1;
    for (; *texts && id < 0; texts++)
        id = tokenizer_token(tokenizer, text_of(*texts));
    return id;
}

bool infill_find(struct infill_marks *out, const struct tokenizer *tokenizer)
{
    static const char *const repos[] = {"<|repo_name|>", "<repo_name>", "<reponame>", NULL};
    static const char *const files[] = {"<|file_sep|>", "<file_sep>", "<|file_separator|>", NULL};
    static const struct {
        const char *prefix, *suffix, *middle; // middle is NULL: the suffix comes first
    } families[] = {
        {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"},    // Qwen, CodeGemma
        {"<fim_prefix>", "<fim_suffix>", "<fim_middle>"},          // StarCoder, Granite
        {"<fim-prefix>", "<fim-suffix>", "<fim-middle>"},          // SantaCoder
        {"<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>"}, // GLM
        // DeepSeek
        {"<\xEF\xBD\x9C"
         "fim\xE2\x96\x81"
         "begin\xEF\xBD\x9C>",
         "<\xEF\xBD\x9C"
         "fim\xE2\x96\x81hole\xEF\xBD\x9C>",
         "<\xEF\xBD\x9C"
         "fim\xE2\x96\x81"
         "end\xEF\xBD\x9C>"},
        {"\xE2\x96\x81<PRE>", "\xE2\x96\x81<SUF>", "\xE2\x96\x81<MID>"}, // Code Llama
        {"[PREFIX]", "[SUFFIX]", NULL},                                  // Codestral
    };
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        const char *middle = families[i].middle;
        *out = (struct infill_marks){
            .prefix = tokenizer_token(tokenizer, text_of(families[i].prefix)),
            .suffix = tokenizer_token(tokenizer, text_of(families[i].suffix)),
            .middle = middle ? tokenizer_token(tokenizer, text_of(middle)) : -1,
            .repo = first_token(tokenizer, repos),
            .file = first_token(tokenizer, files),
        };
        if (out->prefix >= 0 && out->suffix >= 0 && (!middle || out->middle >= 0))
            return true;
    }
    return false;
}

uint32_t infill_ends(const struct infill_marks *marks, const struct tokenizer *tokenizer,
                     int32_t out[INFILL_ENDS_MAX])
{
    static const char *const texts[] = {"<|endoftext|>", "<|fim_pad|>", "<fim_pad>", "<fim-pad>",
                                        "\xE2\x96\x81<EOT>"};
    const int32_t own[] = {marks->prefix, marks->suffix, marks->middle, marks->repo, marks->file};
    uint32_t count = 0;
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (own[i] >= 0)
            out[count++] = own[i];
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        int32_t id = tokenizer_token(tokenizer, text_of(texts[i]));
        if (id >= 0)
            out[count++] = id;
    }
    return count;
}

uint32_t infill_join(const struct infill_marks *marks, const struct infill_text *text, int32_t *out)
{
    uint32_t count = 0;
    const int32_t *own = text->prefix + text->before;
    for (uint32_t i = 0; i < text->before; i++)
        out[count++] = text->prefix[i];
    if (marks->middle < 0) {
        out[count++] = marks->suffix;
        for (uint32_t i = 0; i < text->suffix_count; i++)
            out[count++] = text->suffix[i];
    }
    out[count++] = marks->prefix;
    for (uint32_t i = 0; i < text->own; i++)
        out[count++] = own[i];
    if (marks->middle >= 0) {
        out[count++] = marks->suffix;
        for (uint32_t i = 0; i < text->suffix_count; i++)
            out[count++] = text->suffix[i];
        out[count++] = marks->middle;
    }
    return count;
}
