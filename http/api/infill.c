// SPDX-License-Identifier: Apache-2.0
// Finds the tokens with which a model fills in the middle of a text; see infill.h.
#include "http/api/infill.h"

bool infill_find(struct infill_marks *out, const struct tokenizer *tokenizer)
{
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
        };
        if (out->prefix >= 0 && out->suffix >= 0 && (!middle || out->middle >= 0))
            return true;
    }
    return false;
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
