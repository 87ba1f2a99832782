// SPDX-License-Identifier: Apache-2.0
// Files next to tokenizer.json: tokenizer classes that add BOS and EOS, the names of special
// tokens, the precedence of chat templates, lengths, the folder in which sentence-transformers
// stores a tokenizer, and folders with only a list of words. The expected ids were worked out by
// hand.
#include "tests/runtime/tokenizer_memory.h"

#include <float.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

// Without flags a text gets 6 before it and 7 after it.
static const char letters[] =
    "{\"added_tokens\":[{\"id\":2,\"content\":\"<s>\",\"special\":true},"
    "{\"id\":3,\"content\":\"</s>\",\"special\":true}],"
    "\"post_processor\":{\"type\":\"RobertaProcessing\",\"sep\":[\"x\",7],\"cls\":[\"y\",6]},"
    "\"model\":{\"vocab\":{\"a\":0,\"b\":1,\"A\":4},\"merges\":[]}}";

static struct tokenizer *open_text(const char *json, const char *config)
{
    struct tokenizer *t = NULL;
    struct error err;
    if (tokenizer_open_memory(&t, text_of(json), text_of(config), &err) != STATUS_OK)
        fail_msg("%s", err.text);
    return t;
}

// Writes the ids of a text or pair, "id id' ...", with ' after those of type 1.
static void ids_write(char out[256], const struct tokenizer *t, const char *text, const char *pair)
{
    int32_t tokens[64];
    uint8_t types[64];
    uint32_t count = 0;
    struct error err;
    struct text second = text_of(pair ? pair : "");
    struct encode_args args = {.text = text_of(text),
                               .pair = pair ? &second : NULL,
                               .flags = ENCODE_SPECIAL | ENCODE_ADDED_TOKENS,
                               .type_ids = types,
                               .arena = arena_create(0, 0)};
    assert_int_equal(tokenizer_encode(t, &args, tokens, 64, &count, &err), STATUS_OK);
    arena_destroy(args.arena);
    out[0] = '\0';
    for (uint32_t i = 0, at = 0; i < count; i++)
        at += (uint32_t)snprintf(out + at, 256 - at, "%s%d%s", i > 0 ? " " : "", tokens[i],
                                 types[i] ? "'" : "");
}

static void expect(const struct tokenizer *t, const char *text, const char *pair, const char *want)
{
    char got[256];
    ids_write(got, t, text, pair);
    if (strcmp(got, want) != 0)
        fail_msg("%s %s: %s, not %s", text, pair ? pair : "", got, want);
}

static void test_classes_that_add_tokens(void **state)
{
    (void)state;
    static const char *const classes[] = {"LlamaTokenizer",     "LlamaTokenizerFast",
                                          "CodeLlamaTokenizer", "CodeLlamaTokenizerFast",
                                          "GemmaTokenizer",     "GemmaTokenizerFast"};
    static const struct {
        const char *more, *single, *pair;
    } cases[] = {
        {"\"add_bos_token\":true", "2 0", "2 0 2' 1'"},
        {"\"add_bos_token\":false", "0", "0 1'"},
        {"\"add_bos_token\":false,\"add_eos_token\":true", "0 3", "0 3 1' 3'"},
        {"\"add_eos_token\":true", "2 0 3", "2 0 3 2' 1' 3'"}, // BOS is added by default
        {"\"add_eos_token\":false", "2 0", "2 0 2' 1'"},
        {"\"add_bos_token\":true,\"bos_token\":null", "0", "0 1'"},
        {"\"add_eos_token\":true,\"eos_token\":\"new\"", "2 0 5", "2 0 5 2' 1' 5'"},
        {"\"x\":1", "6 0 7", "6 0 7 7 1 7"}, // no flag: as in tokenizer.json
    };
    static const char *const others[] = {"PreTrainedTokenizerFast", "LlamaTokenizerFas", "Llama"};
    char config[256];
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
            snprintf(config, sizeof config,
                     "{\"tokenizer_class\":\"%s\",\"bos_token\":\"<s>\",\"eos_token\":\"</s>\",%s}",
                     classes[i], cases[k].more);
            struct tokenizer *t = open_text(letters, config);
            expect(t, "a", NULL, cases[k].single);
            expect(t, "a", "b", cases[k].pair);
            assert_true(tokenizer_bound(t, 2) >= 8);
            tokenizer_close(t);
        }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        snprintf(config, sizeof config,
                 "{\"tokenizer_class\":\"%s\",\"bos_token\":\"<s>\",\"add_bos_token\":true}",
                 others[i]);
        struct tokenizer *t = open_text(letters, config);
        expect(t, "a", NULL, "6 0 7");
        tokenizer_close(t);
    }
}

// Their post-processors give the second text type 1, but these classes have no types.
static void test_classes_without_types(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        bool without;
    } classes[] = {{"RobertaTokenizer", true},        {"RobertaTokenizerFast", true},
                   {"XLMRobertaTokenizer", true},     {"XLMRobertaTokenizerFast", true},
                   {"CamembertTokenizer", true},      {"CamembertTokenizerFast", true},
                   {"TokenizersBackend", true},       {"BertTokenizerFast", false},
                   {"PreTrainedTokenizerFast", false}};
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        char config[128];
        snprintf(config, sizeof config, "{\"tokenizer_class\":\"%s\"}", classes[i].name);
        struct tokenizer *t = open_text(
            "{\"post_processor\":{\"type\":\"BertProcessing\",\"sep\":[\"x\",7],\"cls\":[\"y\",6]},"
            "\"model\":{\"vocab\":{\"a\":0,\"b\":1},\"merges\":[]}}",
            config);
        expect(t, "a", "b", classes[i].without ? "6 0 7 1 7" : "6 0 7 1' 7'");
        tokenizer_close(t);
    }
}

static void test_lengths_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *config;
        uint32_t length;
    } cases[] = {{"{\"model_max_length\":512}", 512},
                 {"{\"model_max_length\":1}", 1},
                 {"{\"model_max_length\":16777216}", 16777216},
                 {"{\"model_max_length\":16777217}", 0},
                 {"{\"model_max_length\":1000000000000000019884624838656}", 0},
                 {"{\"model_max_length\":1e30}", 0},
                 {"{\"model_max_length\":0}", 0},
                 {"{\"model_max_length\":-1}", 0},
                 {"{\"model_max_length\":1.5}", 0},
                 {"{\"model_max_length\":null}", 0},
                 {"{\"model_max_length\":\"512\"}", 0},
                 {"{}", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tokenizer *t = open_text(letters, cases[i].config);
        if (tokenizer_length(t) != cases[i].length)
            fail_msg("%s: %u", cases[i].config, tokenizer_length(t));
        tokenizer_close(t);
    }
}

// The JSON of tokenizer.json, and the messages for files that are not JSON.
static void test_files_are_json(void **state)
{
    (void)state;
    static const struct {
        const char *text, *why;
    } wrong[] = {
        {"", "an early end at byte 0"},
        {"{\"a\":", "an early end at byte 5"},
        {"{\"a\":tru}", "something that is not a value at byte 5"},
        {"{\"a\":nul", "something that is not a value at byte 5"},
        {"{\"a\":+1}", "something that is not a value at byte 5"},
        {"[-]", "something that is not a value at byte 1"},
        {"\"abc", "a string without its end at byte 4"},
        {"\"ab\\\"", "a string without its end at byte 5"},
        {"\"\\x\"", "an unknown escape in a string at byte 3"},
        {"\"\\u12g4\"", "a \\u escape without four hex digits at byte 3"},
        {"\"\\u123", "a \\u escape without four hex digits at byte 3"},
        {"{1:2}", "an object key that is not a string at byte 1"},
        {"{\"a\" 1}", "an object key without a colon at byte 5"},
        {"{\"a\":1,}", "an object key that is not a string at byte 7"},
        {"[1 2]", "a list without a comma or its end at byte 3"},
        {"[1}", "a list without a comma or its end at byte 2"},
        {"{\"a\":1", "a list without a comma or its end at byte 6"},
        {"{} x", "text after the value at byte 3"},
        {"{\"a\":\"\xFF\"}", "is not UTF-8 at byte 6"},
        {"[]", "it has no model with a `vocab`"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct tokenizer *t;
        struct error err;
        assert_int_not_equal(
            tokenizer_open_memory(&t, text_of(wrong[i].text), text_span(NULL, 0), &err), STATUS_OK);
        if (!strstr(err.text, wrong[i].why))
            fail_msg("%s: %s", wrong[i].text, err.text);
    }
    struct tokenizer *t = open_text(
        "\xEF\xBB\xBF \r\n\t{\"model\":{\"vocab\":{\"old\":0}},\"model\" : {\"vocab\":"
        "{\"\\ud83d\\ude00\":0, \"\\ud83d\":1,\"\\udE00x\":2,\"\\u00e9\\n\\t\\b\\f\\r\":3,"
        "\"\\\"\\\\\\/\":4,\"\\ud83d\\u0041\":5,\"z\":6e0},\"merges\":[]},\"x\":"
        "[true,false,null,-1.5e-3,[],{}]}\n",
        "{}");
    static const char *const names[] = {"\xF0\x9F\x98\x80",
                                        "\xEF\xBF\xBD",
                                        "\xEF\xBF\xBDx",
                                        "\xC3\xA9\n\t\b\f\r",
                                        "\"\\/",
                                        "\xEF\xBF\xBD"
                                        "A",
                                        "z"};
    for (int i = 0; i < 7; i++)
        assert_int_equal(tokenizer_token(t, text_of(names[i])), i);
    assert_int_equal(tokenizer_token(t, text_of("old")), -1); // of two equal keys the last counts
    tokenizer_close(t);
    char deep[512] = "{\"x\":";
    for (int levels = 99; levels <= 100; levels++) { // the object around them is one more level
        memset(deep + 5, '[', (size_t)levels);
        memset(deep + 5 + levels, ']', (size_t)levels);
        strcpy(deep + 5 + 2 * levels, ",\"model\":{\"vocab\":{},\"merges\":[]}}");
        struct error err;
        enum status status = tokenizer_open_memory(&t, text_of(deep), text_span(NULL, 0), &err);
        if (levels == 99) {
            assert_int_equal(status, STATUS_OK);
            tokenizer_close(t);
        } else {
            assert_non_null(strstr(err.text, "too many levels"));
        }
    }
}

// Merges in all forms: with a version line, as pairs, with spaces in tokens, and with tokens longer
// than the initial size of any buffer.
static void test_merges_have_forms(void **state)
{
    (void)state;
    static const struct {
        const char *vocab, *merges, *text, *want;
    } cases[] = {
        {"\"a\":0,\"b\":1,\"ab\":2", "\"#version: 0.2\",\"a b\"", "ab", "2"},
        {"\"a\":0,\"b\":1,\"ab\":2", "[\"a\",\"b\"]", "ab", "2"},
        {"\"a\":0,\" \":1,\"a \":2,\"a a\":3", "\"a  \",\"a  a\"", "a a", "3"},
        {"\"a\":0,\" \":1,\" a\":2,\"  a\":3", "\"  a\",\"   a\"", "  a", "3"},
        {"\"a\":0,\"b\":1,\"c\":2,\"ab\":3,\"bc\":4", "\"b c\",\"a b\"", "abc", "0 4"},
        {"\"a\":0,\"b\":1,\"c\":2,\"ab\":3,\"bc\":4", "\"a b\",\"b c\"", "abc", "3 2"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char json[512];
        snprintf(json, sizeof json, "{\"model\":{\"type\":\"BPE\",\"vocab\":{%s},\"merges\":[%s]}}",
                 cases[i].vocab, cases[i].merges);
        struct tokenizer *t = open_text(json, "{}");
        expect(t, cases[i].text, NULL, cases[i].want);
        tokenizer_close(t);
    }
    static const char *const wrong[][2] = {
        {"\"ab\"", "merge 0 is not a pair of tokens"},
        {"\"a b\",7", "merge 1 is not a pair of tokens"},
        {"[\"a\"]", "merge 0 is not a pair of tokens"},
        {"[\"a\",7]", "merge 0 is not a pair of tokens"},
        {"\"a b\",\"#version: 0.2\"", "merge 1 (#version: 0.2) names a token"},
        {"\"a z\"", "merge 0 (a z) names a token that the vocabulary lacks"},
        {"\"z a\"", "merge 0 (z a) names a token that the vocabulary lacks"},
        {"\"b a\"", "merge 0 (b a) names a token that the vocabulary lacks"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char json[256];
        struct tokenizer *t;
        struct error err;
        snprintf(json, sizeof json,
                 "{\"model\":{\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[%s]}}", wrong[i][0]);
        assert_int_equal(tokenizer_open_memory(&t, text_of(json), text_span(NULL, 0), &err),
                         STATUS_INVALID);
        if (!strstr(err.text, wrong[i][1]))
            fail_msg("%s: %s", wrong[i][0], err.text);
    }
    static char json[8192], text[1025]; // a, aa, aaaa, ... up to 1,024 letters
    size_t n = (size_t)snprintf(json, sizeof json, "{\"model\":{\"vocab\":{");
    for (int k = 0, bytes = 1; k <= 10; k++, bytes *= 2) {
        memset(text, 'a', (size_t)bytes);
        text[bytes] = '\0';
        n += (size_t)snprintf(json + n, sizeof json - n, "%s\"%s\":%d", k ? "," : "", text, k);
    }
    n += (size_t)snprintf(json + n, sizeof json - n, "},\"merges\":[");
    for (int k = 0, bytes = 1; k < 10; k++, bytes *= 2)
        n += (size_t)snprintf(json + n, sizeof json - n, "%s\"%.*s %.*s\"", k ? "," : "", bytes,
                              text, bytes, text);
    snprintf(json + n, sizeof json - n, "]}}");
    struct tokenizer *t = open_text(json, "{}");
    expect(t, text, NULL, "10");
    expect(t, text + 1, NULL, "9 8 7 6 5 4 3 2 1 0");
    tokenizer_close(t);
}

// A Replace whose pattern can match the empty string gives the results of the reference library.
static void test_empty_matches_are_replaced(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *text, *want;
    } cases[] = {
        {"x*", "a", "2 0 2"},        {"x*", "xx", "2"},
        {"x*", "axxb", "2 0 2 1 2"}, {"x*", "xaxx", "2 0 2"},
        {"x*?", "xx", "2 3 2 3 2"},  {"(?=a)", "xaxx", "3 2 0 3 3"},
        {"$", "xx", "3 3 2"},        {"a|", "axxb", "2 3 2 3 2 1 2"},
        {"a|", "aab", "2 2 1 2"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char json[512];
        snprintf(json, sizeof json,
                 "{\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"%s\"},"
                 "\"content\":\"-\"},\"model\":{\"vocab\":{\"a\":0,\"b\":1,\"-\":2,\"x\":3},"
                 "\"merges\":[]}}",
                 cases[i].pattern);
        struct tokenizer *t = open_text(json, "{}");
        expect(t, cases[i].text, NULL, cases[i].want);
        tokenizer_close(t);
    }
}

// Every setting of two normalizers, and the borders of the character blocks that BERT splits, give
// the results of the reference library.
static const char bert_text[] =
    "a\001b\011\302\240 \342\200\215\357\277\275\303\211c\303\200 x\302\255Z "
    "\343\217\277\343\220\200\344\266\277\344\267\200\344\267\277\344\270\200\351\277\277\352\200"
    "\200\360\237\277\277\360\240\200\200\360\252\233\237\360\252\233\240\360\252\233\277\360\252"
    "\234\200\360\253\234\277\360\253\235\200\360\253\240\237\360\253\240\240\360\253\244\237\360"
    "\253\244\240\360\254\272\257\360\254\272\260\357\243\277\357\244\200\357\253\277\357\254\200"
    "\360\257\237\277\360\257\240\200\360\257\250\237\360\257\250\240";
static const struct {
    const char *normalizer, *text, *want;
} normalizer_cases[] = {
    {"{\"type\":\"BertNormalizer\",\"clean_text\":true,\"handle_chinese_chars\":true,\"strip_"
     "accents\":null,\"lowercase\":true}",
     bert_text,
     "ab   eca xz \343\217\277 \343\220\200  \344\266\277 \344\267\200\344\267\277 \344\270\200  "
     "\351\277\277 \352\200\200\360\237\277\277 \360\240\200\200  \360\252\233\237 "
     "\360\252\233\240\360\252\233\277 \360\252\234\200  \360\253\234\277  \360\253\235\200  "
     "\360\253\240\237 \360\253\240\240\360\253\244\237 \360\253\244\240  \360\254\272\257 "
     "\360\254\272\260 \350\261\210  \357\253\277 \357\254\200\360\257\237\277 \344\270\275  "
     "\360\257\250\237 \360\257\250\240"},
    {"{\"type\":\"BertNormalizer\"}", bert_text,
     "ab   eca xz \343\217\277 \343\220\200  \344\266\277 \344\267\200\344\267\277 \344\270\200  "
     "\351\277\277 \352\200\200\360\237\277\277 \360\240\200\200  \360\252\233\237 "
     "\360\252\233\240\360\252\233\277 \360\252\234\200  \360\253\234\277  \360\253\235\200  "
     "\360\253\240\237 \360\253\240\240\360\253\244\237 \360\253\244\240  \360\254\272\257 "
     "\360\254\272\260 \350\261\210  \357\253\277 \357\254\200\360\257\237\277 \344\270\275  "
     "\360\257\250\237 \360\257\250\240"},
    {"{\"type\":\"BertNormalizer\",\"clean_text\":false,\"handle_chinese_chars\":true,\"strip_"
     "accents\":null,\"lowercase\":true}",
     bert_text,
     "a\001b\011\302\240 \342\200\215\357\277\275eca x\302\255z \343\217\277 \343\220\200  "
     "\344\266\277 \344\267\200\344\267\277 \344\270\200  \351\277\277 "
     "\352\200\200\360\237\277\277 \360\240\200\200  \360\252\233\237 "
     "\360\252\233\240\360\252\233\277 \360\252\234\200  \360\253\234\277  \360\253\235\200  "
     "\360\253\240\237 \360\253\240\240\360\253\244\237 \360\253\244\240  \360\254\272\257 "
     "\360\254\272\260\357\243\277 \350\261\210  \357\253\277 \357\254\200\360\257\237\277 "
     "\344\270\275  \360\257\250\237 \360\257\250\240"},
    {"{\"type\":\"BertNormalizer\",\"clean_text\":true,\"handle_chinese_chars\":false,\"strip_"
     "accents\":null,\"lowercase\":true}",
     bert_text,
     "ab   eca xz "
     "\343\217\277\343\220\200\344\266\277\344\267\200\344\267\277\344\270\200\351\277\277\352\200"
     "\200\360\237\277\277\360\240\200\200\360\252\233\237\360\252\233\240\360\252\233\277\360\252"
     "\234\200\360\253\234\277\360\253\235\200\360\253\240\237\360\253\240\240\360\253\244\237\360"
     "\253\244\240\360\254\272\257\360\254\272\260\350\261\210\357\253\277\357\254\200\360\257\237"
     "\277\344\270\275\360\257\250\237\360\257\250\240"},
    {"{\"type\":\"BertNormalizer\",\"clean_text\":true,\"handle_chinese_chars\":true,\"strip_"
     "accents\":false,\"lowercase\":true}",
     bert_text,
     "ab   \303\251c\303\240 xz \343\217\277 \343\220\200  \344\266\277 \344\267\200\344\267\277 "
     "\344\270\200  \351\277\277 \352\200\200\360\237\277\277 \360\240\200\200  \360\252\233\237 "
     "\360\252\233\240\360\252\233\277 \360\252\234\200  \360\253\234\277  \360\253\235\200  "
     "\360\253\240\237 \360\253\240\240\360\253\244\237 \360\253\244\240  \360\254\272\257 "
     "\360\254\272\260 \357\244\200  \357\253\277 \357\254\200\360\257\237\277 \360\257\240\200  "
     "\360\257\250\237 \360\257\250\240"},
    {"{\"type\":\"BertNormalizer\",\"clean_text\":true,\"handle_chinese_chars\":true,\"strip_"
     "accents\":true,\"lowercase\":false}",
     bert_text,
     "ab   EcA xZ \343\217\277 \343\220\200  \344\266\277 \344\267\200\344\267\277 \344\270\200  "
     "\351\277\277 \352\200\200\360\237\277\277 \360\240\200\200  \360\252\233\237 "
     "\360\252\233\240\360\252\233\277 \360\252\234\200  \360\253\234\277  \360\253\235\200  "
     "\360\253\240\237 \360\253\240\240\360\253\244\237 \360\253\244\240  \360\254\272\257 "
     "\360\254\272\260 \350\261\210  \357\253\277 \357\254\200\360\257\237\277 \344\270\275  "
     "\360\257\250\237 \360\257\250\240"},
    {"{\"type\":\"BertNormalizer\",\"clean_text\":true,\"handle_chinese_chars\":true,\"strip_"
     "accents\":null,\"lowercase\":false}",
     bert_text,
     "ab   \303\211c\303\200 xZ \343\217\277 \343\220\200  \344\266\277 \344\267\200\344\267\277 "
     "\344\270\200  \351\277\277 \352\200\200\360\237\277\277 \360\240\200\200  \360\252\233\237 "
     "\360\252\233\240\360\252\233\277 \360\252\234\200  \360\253\234\277  \360\253\235\200  "
     "\360\253\240\237 \360\253\240\240\360\253\244\237 \360\253\244\240  \360\254\272\257 "
     "\360\254\272\260 \357\244\200  \357\253\277 \357\254\200\360\257\237\277 \360\257\240\200  "
     "\360\257\250\237 \360\257\250\240"},
    {"{\"type\":\"BertNormalizer\",\"clean_text\":true,\"handle_chinese_chars\":true,\"strip_"
     "accents\":true,\"lowercase\":true}",
     bert_text,
     "ab   eca xz \343\217\277 \343\220\200  \344\266\277 \344\267\200\344\267\277 \344\270\200  "
     "\351\277\277 \352\200\200\360\237\277\277 \360\240\200\200  \360\252\233\237 "
     "\360\252\233\240\360\252\233\277 \360\252\234\200  \360\253\234\277  \360\253\235\200  "
     "\360\253\240\237 \360\253\240\240\360\253\244\237 \360\253\244\240  \360\254\272\257 "
     "\360\254\272\260 \350\261\210  \357\253\277 \357\254\200\360\257\237\277 \344\270\275  "
     "\360\257\250\237 \360\257\250\240"},
    {"{\"type\":\"Strip\",\"strip_left\":true,\"strip_right\":true}", "\011 a b \342\200\203",
     "a b"},
    {"{\"type\":\"Strip\",\"strip_left\":false,\"strip_right\":true}", "\011 a b \342\200\203",
     "\011 a b"},
    {"{\"type\":\"Strip\",\"strip_left\":true,\"strip_right\":false}", "\011 a b \342\200\203",
     "a b \342\200\203"},
    {"{\"type\":\"Strip\",\"strip_left\":false,\"strip_right\":false}", "\011 a b \342\200\203",
     "\011 a b \342\200\203"},
    {"{\"type\":\"Strip\"}", "\011 a b \342\200\203", "a b"},
    {"{\"type\":\"Strip\"}",
     "\040\011\012\013\014\015\302\205\302\240\341\232\200\342\200\200\342\200\212\342\200\250\342"
     "\200\251\342\200\257\342\201\237\343\200\200\141\040\011\012\013\014\015\302\205\302\240\341"
     "\232\200\342\200\200\342\200\212\342\200\250\342\200\251\342\200\257\342\201\237\343\200\200",
     "a"},
    {"{\"type\":\"Strip\"}", "\040\010\040", "\010"},
    {"{\"type\":\"Strip\"}", "\040\016\040", "\016"},
    {"{\"type\":\"Strip\"}", "\040\034\040", "\034"},
    {"{\"type\":\"Strip\"}", "\040\342\200\213\040", "\342\200\213"},
    {"{\"type\":\"Strip\"}", "\040\341\240\216\040", "\341\240\216"},
    {"{\"type\":\"Strip\"}", "\040\342\200\247\040", "\342\200\247"},
    {"{\"type\":\"Strip\"}", "\040\342\200\252\040", "\342\200\252"},
    {"{\"type\":\"Strip\"}", "\040\343\200\201\040", "\343\200\201"},
    {"{\"type\":\"Strip\"}", "\040\341\277\277\040", "\341\277\277"},
};

static void test_settings_of_normalizers(void **state)
{
    (void)state;
    static char json[8192], got[1024];
    for (size_t i = 0; i < sizeof normalizer_cases / sizeof *normalizer_cases; i++) {
        size_t n = (size_t)snprintf(json, sizeof json,
                                    "{\"normalizer\":%s,\"model\":{\"byte_fallback\":true,"
                                    "\"merges\":[],\"vocab\":{",
                                    normalizer_cases[i].normalizer);
        for (int byte = 0; byte < 256; byte++)
            n += (size_t)snprintf(json + n, sizeof json - n, "%s\"<0x%02X>\":%d", byte ? "," : "",
                                  byte, byte);
        snprintf(json + n, sizeof json - n, "}}}");
        struct tokenizer *t = open_text(json, "{}");
        int32_t tokens[1024];
        uint32_t count = 0;
        struct error err;
        struct encode_args args = {.text = text_of(normalizer_cases[i].text),
                                   .arena = arena_create(0, 0)};
        assert_int_equal(tokenizer_encode(t, &args, tokens, 1024, &count, &err), STATUS_OK);
        for (uint32_t k = 0; k < count; k++)
            got[k] = (char)tokens[k];
        arena_destroy(args.arena);
        tokenizer_close(t);
        if (!text_is(text_span(got, count), normalizer_cases[i].want))
            fail_msg("%s: %.*s, not %s", normalizer_cases[i].normalizer, (int)count, got,
                     normalizer_cases[i].want);
    }
}

static char folder[32];

static int folder_begin(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/weft-config-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int folder_end(void **state)
{
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

static void put(const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void take_away(const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(unlink(path), 0);
}

static void make_inside(const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(mkdir(path, 0700), 0);
}

static struct tokenizer *open_folder(void)
{
    struct tokenizer *t = NULL;
    struct error err;
    if (tokenizer_open(&t, folder, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    return t;
}

static void expect_template(const char *name, const char *want)
{
    struct tokenizer *t = open_folder();
    struct text got = tokenizer_chat_template(t, name);
    bool right = want ? text_is(got, want) : !got.at;
    if (!right)
        fail_msg("%.*s, not %s", (int)got.bytes, got.at ? got.at : "", want ? want : "none");
    tokenizer_close(t);
}

static void test_templates_have_an_order(void **state)
{
    (void)state;
    put("tokenizer.json", letters);
    expect_template(NULL, NULL);
    put("tokenizer_config.json",
        "{\"chat_template\":[{\"name\":\"rag\",\"template\":\"R\"},{\"name\":\"default\","
        "\"template\":\"C\"},{\"name\":\"rag\",\"template\":\"R2\"},{\"name\":\"half\"},"
        "{\"template\":\"nameless\"},7]}");
    expect_template(NULL, "C");
    expect_template("rag", "R2");
    expect_template("half", NULL);
    put("chat_template.json", "{\"chat_template\":\"J\"}");
    expect_template(NULL, "J");
    expect_template("rag", "R2");
    put("chat_template.jinja", "F");
    expect_template(NULL, "F");
    take_away("chat_template.json");
    expect_template(NULL, "F");
    take_away("tokenizer_config.json");
    expect_template("default", "F");
    put("chat_template.json", "{\"chat_template\":");
    struct tokenizer *t;
    struct error err;
    assert_int_equal(tokenizer_open(&t, folder, &err), STATUS_INVALID);
    assert_non_null(strstr(err.text, "chat_template.json is not JSON"));
}

static void test_special_tokens_have_names(void **state)
{
    (void)state;
    put("tokenizer.json", letters);
    put("special_tokens_map.json",
        "{\"bos_token\":\"a\",\"eos_token\":{\"content\":\"</s>\"},\"unk_token\":\"new\","
        "\"sep_token\":\"b\",\"pad_token\":\"b\",\"cls_token\":[\"a\"],\"mask_token\":\"A\"}");
    put("tokenizer_config.json", "{\"bos_token\":{\"content\":\"<s>\"},\"sep_token\":null}");
    // special_tokens_map.json has precedence; a token that is new gets an id
    static const int32_t ids[SPECIAL_COUNT] = {0, 3, 5, 1, 1, -1, 4};
    static const char *const texts[SPECIAL_COUNT] = {"a", "</s>", "new", "b", "b", NULL, "A"};
    static const char *const names[SPECIAL_COUNT] = {
        "bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};
    struct tokenizer *t = open_folder();
    for (int i = 0; i < SPECIAL_COUNT; i++) {
        struct text text = tokenizer_special_text(t, (enum special_token)i);
        assert_string_equal(tokenizer_special_name((enum special_token)i), names[i]);
        assert_int_equal(tokenizer_special(t, (enum special_token)i), ids[i]);
        assert_true(texts[i] ? text_is(text, texts[i]) : !text.at);
    }
    tokenizer_close(t);
    put("tokenizer_config.json", "{\"bos_token\":\"<s>\",\"added_tokens_decoder\":{}}");
    t = open_folder();
    assert_int_equal(tokenizer_special(t, SPECIAL_BOS), 2); // then tokenizer_config.json has it
    tokenizer_close(t);
}

// modules.json may only name a folder inside of the model's folder, and is used only if the folder
// has no tokenizer itself.
static void test_modules_lead_to_a_tokenizer(void **state)
{
    (void)state;
    make_inside("one");
    make_inside("two");
    put("one/tokenizer.json", letters);
    put("two/tokenizer.json", "{\"model\":{\"vocab\":{\"a\":9},\"merges\":[]}}");
    put("modules.json", "[{\"type\":\"m.Pooling\",\"path\":\"two\"},{\"type\":\"m.Transformer\","
                        "\"path\":\"one\"},{\"type\":\"m.Transformer\",\"path\":\"two\"}]");
    struct tokenizer *t = open_folder();
    expect(t, "a", NULL, "6 0 7");
    tokenizer_close(t);
    put("one/sentence_roberta_config.json", "{\"do_lower_case\":true}");
    t = open_folder();
    expect(t, "A", NULL, "6 0 7");
    tokenizer_close(t);
    put("one/sentence_bert_config.json", "{\"do_lower_case\":false}"); // the first file name counts
    t = open_folder();
    expect(t, "A", NULL, "6 4 7");
    tokenizer_close(t);
    put("modules.json",
        "[{\"type\":\"Transformer\",\"path\":\"one\"}]"); // like the search for weights
    t = open_folder();
    expect(t, "a", NULL, "6 0 7");
    tokenizer_close(t);
    static const char neither[] =
        "has neither a readable tokenizer.json nor another tokenizer file";
    static const struct {
        const char *modules, *words;
    } nowhere[] = {
        {"[{\"type\":\"m.Transformer\",\"path\":\"/tmp\"}]", "leads out of the folder"},
        {"[{\"type\":\"m.Transformer\",\"path\":\"one/../two\"}]", "leads out of the folder"},
        {"[{\"type\":\"m.Transformer\"}]", "an entry lacks its type or its path"},
        {"[{\"type\":\"m.Transformer\",\"path\":\"\"}]", neither},
        {"[{\"type\":\"m.TransformerX\",\"path\":\"one\"}]", neither},
        {"{\"path\":\"one\"}", neither}};
    for (size_t i = 0; i < sizeof nowhere / sizeof *nowhere; i++) {
        struct error err;
        put("modules.json", nowhere[i].modules);
        assert_int_not_equal(tokenizer_open(&t, folder, &err), STATUS_OK);
        if (!strstr(err.text, nowhere[i].words))
            fail_msg("%s: %s", nowhere[i].modules, err.text);
    }
    put("tokenizer.json", "{\"model\":{\"vocab\":{\"a\":5},\"merges\":[]}}");
    put("modules.json", "[{\"type\":\"m.Transformer\",\"path\":\"two\"}]");
    t = open_folder();
    expect(t, "a", NULL, "5");
    tokenizer_close(t);
}

// Old BERT folders: the ids are the lines of vocab.txt, with the settings of such models.
static void test_lists_of_words(void **state)
{
    (void)state;
    put("vocab.txt", "[PAD]\r\n[UNK]\n[CLS]\n[SEP]\n\"\n\\\na\n##b\n\xC3\xA9\nA\n\xE6\xBC\xA2");
    struct tokenizer *t = open_folder();
    assert_int_equal(tokenizer_vocab(t), 11);
    expect(t, "Ab \" \\ [SEP]", NULL, "2 6 7 4 5 3 3");
    expect(t, "\xC3\xA9", NULL, "2 1 3"); // lower case removes accents, and "e" is unknown
    expect(t, "a\xE6\xBC\xA2z", "a", "2 6 10 1 3 6' 3'");
    assert_true(tokenizer_is_special(t, 0) && tokenizer_is_special(t, 1));
    assert_false(tokenizer_is_special(t, 4));
    tokenizer_close(t);
    put("tokenizer_config.json", "{\"do_lower_case\":false}");
    t = open_folder();
    expect(t, "A \xC3\xA9", NULL, "2 9 8 3");
    tokenizer_close(t);
    put("vocab.txt", "[CLS]\n[UNK]\na\n");
    t = open_folder();
    assert_int_equal(tokenizer_vocab(t), 3);
    expect(t, "a", NULL, "2"); // without [SEP] nothing is added
    tokenizer_close(t);
}

// The values are those of tokenizers 0.21.4; some differ from the text in their last bit.
static void test_numbers_as_the_reference_reads_them(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double value;
    } cases[] = {
        {"-7.2951592174930395", -0x1.d2e3e37c8fb74p+2},
        {"-7.3142529506727705", -0x1.d41cb86873e85p+2},
        {"-8.5", -8.5},
        {"20", 20},
        {"-0.1", -0.1},
        {"-12345678901234567890", -0x1.56a95319d63e1p+63},
        {"-123456789012345678901234567890", -0x1.8ee90ff6c373ep+96},
        {"-18446744073709551615.5", -0x1p+64},
        {"-1844674407370955161.75", -0x1.999999999999ap+60},
        {"-0.30000000000000000000000004", -0x1.3333333333333p-2},
        {"-2.2250738585072011e-308", -0x1p-1022},
        {"-4.9e-324", -0x1p-1074},
        {"-1.7976931348623157e308", -DBL_MAX},
        {"-6.02214076e23", -0x1.fe185ca57c517p+78},
        {"-3.4028234663852886E+38", -0x1.fffffe0000001p+127},
        {"1.5e-330", 0},
        {"0e999", 0},
    };
    struct arena *arena = arena_create(4096, 1 << 20);
    const struct jnode *node = NULL;
    struct error err = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(jtree_parse(&node, arena, text_of(cases[i].text), "n", &err), STATUS_OK);
        if (node->number != cases[i].value)
            fail_msg("%s is read as %a", cases[i].text, node->number);
    }
    static const char *const wrong[] = {"-", "+1", ".5", "1.", "1.e5", "1e", "1e+", "1e400", "-x"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (jtree_parse(&node, arena, text_of(wrong[i]), "n", &err) == STATUS_OK)
            fail_msg("%s is taken as a number", wrong[i]);
    arena_destroy(arena);
}

// Folders of older models: ids of transformers 5.24 for this vocabulary. Without a class that is
// read the folder is refused, with the command that converts it.
static void test_vocabularies_with_merges(void **state)
{
    (void)state;
    static const struct {
        const char *class, *ids[3];
    } cases[] = {
        {"GPT2Tokenizer", {"8 9 7 10 6 9 6 14", "4 4 6 5 12", NULL}},
        {"RobertaTokenizerFast", {"0 8 9 7 10 6 9 6 14 2", "0 4 11 6 5 2", "0 8 2 2 7 2"}},
        {"Qwen2Tokenizer", {"8 9 7 10 6 9 6 13 13", "4 15 16 4 6 5 12", NULL}},
    };
    static const char missing[] =
        "has its tokenizer in vocab.json, which weft reads with merges.txt for the classes "
        "GPT2Tokenizer, RobertaTokenizer and Qwen2Tokenizer: make a tokenizer.json once with "
        "python3 -c";
    struct error err;
    struct tokenizer *t;
    put("vocab.json",
        "{\"<s>\":0,\"<pad>\":1,\"</s>\":2,\"<unk>\":3,\"a\":4,\"b\":5,\"\xC4\xA0\":6,"
        "\"c\":7,\"ab\":8,\"\xC4\xA0"
        "ab\":9,\"\xC4\x8A\":10,\"<mask>\":11,\"<|endoftext|>\":12,\"1\":13,"
        "\"11\":14,\"\xC3\x83\":15,\"\xC2\xA9\":16}");
    assert_int_equal(tokenizer_open(&t, folder, &err), STATUS_UNSUPPORTED);
    assert_non_null(strstr(err.text, missing)); // no merges
    put("merges.txt", "#version: 0.2\na b\r\n\xC4\xA0 ab\n1 1\n\n");
    put("tokenizer_config.json", "{\"tokenizer_class\": \"OtherTokenizer\"}");
    assert_int_equal(tokenizer_open(&t, folder, &err), STATUS_UNSUPPORTED);
    assert_non_null(strstr(err.text, missing));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char config[64];
        snprintf(config, sizeof config, "{\"tokenizer_class\": \"%s\"}", cases[i].class);
        put("tokenizer_config.json", config);
        t = open_folder();
        expect(t, "ab abc\n  ab 11", NULL, cases[i].ids[0]);
        expect(t, "ae\xCC\x81<mask> b<|endoftext|>", NULL, cases[i].ids[1]);
        if (cases[i].ids[2])
            expect(t, "ab", "c", cases[i].ids[2]);
        tokenizer_close(t);
    }
    put("merges.txt", "a b c\n");
    assert_int_not_equal(tokenizer_open(&t, folder, &err), STATUS_OK);
    put("merges.txt", "a \"\n");
    assert_int_not_equal(tokenizer_open(&t, folder, &err), STATUS_OK);
    put("vocab.json", "{");
    assert_int_not_equal(tokenizer_open(&t, folder, &err), STATUS_OK);
    assert_non_null(strstr(err.text, "vocab.json"));
    put("vocab.json", "[]");
    assert_int_not_equal(tokenizer_open(&t, folder, &err), STATUS_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_as_the_reference_reads_them),
        cmocka_unit_test(test_classes_that_add_tokens),
        cmocka_unit_test(test_classes_without_types),
        cmocka_unit_test(test_lengths_are_read),
        cmocka_unit_test(test_files_are_json),
        cmocka_unit_test(test_merges_have_forms),
        cmocka_unit_test(test_empty_matches_are_replaced),
        cmocka_unit_test(test_settings_of_normalizers),
        cmocka_unit_test_setup_teardown(test_templates_have_an_order, folder_begin, folder_end),
        cmocka_unit_test_setup_teardown(test_special_tokens_have_names, folder_begin, folder_end),
        cmocka_unit_test_setup_teardown(test_modules_lead_to_a_tokenizer, folder_begin, folder_end),
        cmocka_unit_test_setup_teardown(test_lists_of_words, folder_begin, folder_end),
        cmocka_unit_test_setup_teardown(test_vocabularies_with_merges, folder_begin, folder_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
