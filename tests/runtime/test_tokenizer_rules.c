// SPDX-License-Identifier: Apache-2.0
// The rules of single parts on small vocabularies: post-processors for pairs, long and hostile
// texts, malformed files, and the tokenizer of folders without files. The expected ids were worked
// out by hand from the rules.
#include "runtime/text/tokenizer/pattern.h"
#include "runtime/text/tokenizer.h"
#include "tests/runtime/tokenizer_memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { TOKENS_MAX = 4096 };

static struct tokenizer *open_text(const char *json, const char *config)
{
    struct tokenizer *t = NULL;
    struct error err;
    struct text extra = config ? text_of(config) : text_span(NULL, 0);
    if (tokenizer_open_memory(&t, text_of(json), extra, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    return t;
}

static void expect(const struct tokenizer *t, struct encode_args args, const int32_t *want,
                   uint32_t want_count)
{
    int32_t tokens[TOKENS_MAX];
    uint32_t count = 0;
    struct error err;
    args.arena = arena_create(0, 0);
    enum status status = args.segments
                             ? tokenizer_encode_segments(t, &args, tokens, TOKENS_MAX, &count, &err)
                             : tokenizer_encode(t, &args, tokens, TOKENS_MAX, &count, &err);
    assert_int_equal(status, STATUS_OK);
    for (uint32_t i = 0; i < count && i < want_count; i++)
        if (tokens[i] != want[i])
            fail_msg("token %u is %d, not %d", i, tokens[i], want[i]);
    assert_int_equal(count, want_count);
    arena_destroy(args.arena);
}

#define EXPECT(t, string, encode_flags, ...)                                                       \
    do {                                                                                           \
        const int32_t want_ids[] = {__VA_ARGS__};                                                  \
        expect(t, (struct encode_args){.text = text_of(string), .flags = encode_flags}, want_ids,  \
               sizeof want_ids / sizeof *want_ids);                                                \
    } while (0)

// Letters a, b, c, space; "ab" merges; four added tokens with one flag each.
static const char letters[] =
    "{\"added_tokens\":["
    "{\"id\":10,\"content\":\"<s>\",\"special\":true,\"normalized\":false},"
    "{\"id\":11,\"content\":\"<l>\",\"lstrip\":true,\"normalized\":false},"
    "{\"id\":12,\"content\":\"<r>\",\"rstrip\":true,\"normalized\":false},"
    "{\"id\":13,\"content\":\"bb\",\"single_word\":true,\"normalized\":false},"
    "{\"id\":14,\"content\":\"CC\",\"normalized\":true}],"
    "\"normalizer\":{\"type\":\"Lowercase\"},"
    "\"model\":{\"vocab\":{\"a\":0,\"b\":1,\"c\":2,\" "
    "\":3,\"ab\":4,\"<\":5,\">\":6,\"s\":7,\"?\":8},"
    "\"unk_token\":\"?\",\"merges\":[\"a b\"]}}";

static const char pairs[] =
    "{\"pre_tokenizer\":{\"type\":\"WhitespaceSplit\"},"
    "\"post_processor\":{\"type\":\"BertProcessing\",\"sep\":[\"[S]\",3],\"cls\":[\"[C]\",2]},"
    "\"decoder\":{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true},"
    "\"model\":{\"vocab\":{\"x\":0,\"##y\":1,\"[C]\":2,\"[S]\":3,\"[UNK]\":4},"
    "\"unk_token\":\"[UNK]\",\"continuing_subword_prefix\":\"##\","
    "\"max_input_chars_per_word\":4}}";

// Checks "xy" and "x" as a pair; the second text has this type.
static void expect_pair(struct tokenizer *t, uint8_t second_type)
{
    static const int32_t want[] = {2, 0, 1, 3, 0, 3};
    const uint8_t want_types[] = {0, 0, 0, 0, second_type, second_type};
    uint8_t types[16];
    uint32_t start = 0;
    struct text second = text_of("x");
    expect(t,
           (struct encode_args){.text = text_of("xy"),
                                .pair = &second,
                                .flags = ENCODE_SPECIAL,
                                .type_ids = types,
                                .pair_start = &start},
           want, 6);
    assert_memory_equal(types, want_types, sizeof want_types);
    assert_int_equal(start, 4);
}

static void test_pair_of_texts(void **state)
{
    (void)state;
    struct tokenizer *t = open_text(pairs, NULL);
    EXPECT(t, "xy xq xyyyy", ENCODE_SPECIAL, 2, 0, 1, 4, 4, 3);
    expect_pair(t, 1);
    tokenizer_close(t);
}

static void test_too_small_buffers(void **state)
{
    (void)state;
    struct tokenizer *t = open_text(letters, NULL);
    int32_t tokens[3];
    uint32_t count = 0;
    struct error err;
    struct encode_args args = {.text = text_of("acaca"), .arena = arena_create(0, 0)};
    assert_int_equal(tokenizer_encode(t, &args, tokens, 3, &count, &err), STATUS_TOO_LARGE);
    args.text = text_of("aca");
    assert_int_equal(tokenizer_encode(t, &args, tokens, 3, &count, &err), STATUS_OK);
    arena_destroy(args.arena);
    args.arena = arena_create(64, 256);
    static char long_text[5000];
    memset(long_text, 'A', sizeof long_text);
    args.text = text_span(long_text, sizeof long_text);
    assert_int_equal(tokenizer_encode(t, &args, tokens, 3, &count, &err), STATUS_NO_SPACE);
    arena_destroy(args.arena);
    tokenizer_close(t);
}

// One word of a megabyte, in which all neighbours can merge, takes near-linear time: quadratic time
// would exceed the time limit of the test.
static void test_one_long_word(void **state)
{
    (void)state;
    static const char json[] =
        "{\"model\":{\"vocab\":{\"a\":0,\"aa\":1,\"aaaa\":2,\"\xF0\x9F\x98\x80"
        "\":3},\"merges\":[\"a a\",\"aa aa\"]}}";
    struct tokenizer *t = open_text(json, NULL);
    size_t bytes = 1 << 20;
    char *text = malloc(bytes);
    int32_t *tokens = malloc((bytes + 64) * sizeof *tokens);
    uint32_t count = 0;
    struct error err;
    assert_true(text && tokens);
    memset(text, 'a', bytes);
    struct encode_args args = {.text = text_span(text, bytes), .arena = arena_create(0, 0)};
    assert_int_equal(tokenizer_encode(t, &args, tokens, (uint32_t)bytes, &count, &err), STATUS_OK);
    assert_int_equal(count, bytes / 4);
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(tokens[i], 2);
    for (size_t i = 0; i < bytes; i += 4)
        memcpy(text + i, "\xF0\x9F\x98\x80", 4);
    assert_int_equal(tokenizer_encode(t, &args, tokens, (uint32_t)bytes, &count, &err), STATUS_OK);
    assert_int_equal(count, bytes / 4);
    arena_destroy(args.arena);
    free(text);
    free(tokens);
    tokenizer_close(t);
}

// For one word of a million letters, with every byte in the vocabulary, the longest token shows
// that it has more tokens than the limit. Nothing is merged, and little memory is enough.
static void test_a_word_too_long_is_not_merged(void **state)
{
    (void)state;
    char json[16384];
    size_t at = (size_t)snprintf(json, sizeof json,
                                 "{\"model\":{\"byte_fallback\":true,\"unk_token\":null,\"vocab\":{"
                                 "\"a\":256,\"aa\":257,\"aaaa\":258");
    for (int i = 0; i < 256; i++)
        at += (size_t)snprintf(json + at, sizeof json - at, ",\"<0x%02X>\":%d", i, i);
    snprintf(json + at, sizeof json - at, "},\"merges\":[\"a a\",\"aa aa\"]}}");
    struct tokenizer *t = open_text(json, NULL);
    enum { BYTES = 1 << 20, MOST = 1000 };
    char *text = malloc(BYTES);
    int32_t tokens[MOST];
    uint32_t count = 0;
    struct error err;
    assert_non_null(text);
    memset(text, 'a', BYTES);
    struct encode_args args = {.arena = arena_create(0, 3 * BYTES)}; // merging takes 32 * BYTES
    args.text = text_span(text, BYTES);
    assert_int_equal(tokenizer_encode(t, &args, tokens, MOST, &count, &err), STATUS_TOO_LARGE);
    assert_int_equal(count, MOST);
    args.text = text_span(text, 4 * MOST); // exactly the limit
    assert_int_equal(tokenizer_encode(t, &args, tokens, MOST, &count, &err), STATUS_OK);
    assert_int_equal(count, MOST);
    args.text = text_span(text, 4 * MOST + 1);
    assert_int_equal(tokenizer_encode(t, &args, tokens, MOST, &count, &err), STATUS_TOO_LARGE);
    assert_int_equal(count, MOST);
    arena_destroy(args.arena);
    free(text);
    tokenizer_close(t);
}

static void test_wrong_files(void **state)
{
    (void)state;
    static const char *const files[] = {
        "",
        "{",
        "[]",
        "{\"model\":{}}",
        "{\"model\":{\"vocab\":{\"a\":-1},\"merges\":[]}}",
        "{\"model\":{\"vocab\":{\"a\":99999999999},\"merges\":[]}}",
        "{\"model\":{\"vocab\":{\"a\":0},\"merges\":[\"a b\"]}}",
        "{\"model\":{\"vocab\":{\"a\":0},\"merges\":[7]}}",
        "{\"model\":{\"vocab\":[[\"a\"]]}}",
        "{\"model\":{\"type\":\"Unigram\",\"vocab\":{\"a\":0}}}",
        "{\"model\":{\"type\":\"Other\",\"vocab\":{\"a\":0}}}",
        "{\"normalizer\":{\"type\":\"Other\"},\"model\":{\"vocab\":{},\"merges\":[]}}",
        "{\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"AAAA\"},"
        "\"model\":{\"vocab\":{},\"merges\":[]}}",
        "{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(\"},"
        "\"behavior\":\"Isolated\"},\"model\":{\"vocab\":{},\"merges\":[]}}",
        "{\"added_tokens\":[{\"content\":\"x\"}],\"model\":{\"vocab\":{},\"merges\":[]}}",
        "{\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":"
        "{\"id\":\"x\",\"type_id\":0}}]},\"model\":{\"vocab\":{},\"merges\":[]}}",
        "{\"decoder\":{\"type\":\"Other\"},\"model\":{\"vocab\":{},\"merges\":[]}}",
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct tokenizer *t = NULL;
        struct error err = {0};
        enum status status = tokenizer_open_memory(&t, text_of(files[i]), text_span(NULL, 0), &err);
        if (status == STATUS_OK)
            fail_msg("file %zu was taken: %s", i, files[i]);
        assert_non_null(strstr(err.text, "tokenizer.json"));
    }
    struct tokenizer *t = NULL;
    struct error err;
    assert_int_not_equal(tokenizer_open(&t, "/nowhere", &err), STATUS_OK);
    assert_non_null(strstr(err.text, "/nowhere"));
}

// A few bytes of a pattern become thousands in its translation, whose size is limited.
static void test_long_patterns(void **state)
{
    (void)state;
    static const struct {
        const char *open, *piece, *close;
        uint32_t repeats;
    } cases[] = {
        {"", "\\b", "", 1 << 19},
        {"(?:", "\\w", ")?", 1 << 19},
        {"[", "\\w", "]", 1 << 19},
        {"[", "[^\\w]", "]", 1 << 15}, // short to read, long to write
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct arena *arena = arena_create(0, 0);
        size_t each = strlen(cases[i].piece);
        char *pattern = calloc(cases[i].repeats * each + 8, 1);
        size_t bytes = (size_t)sprintf(pattern, "%s", cases[i].open);
        for (uint32_t k = 0; k < cases[i].repeats; k++, bytes += each)
            memcpy(pattern + bytes, cases[i].piece, each);
        bytes += (size_t)sprintf(pattern + bytes, "%s", cases[i].close);
        struct text out;
        struct error err = {0};
        assert_int_equal(pattern_translate(&out, text_span(pattern, bytes), arena, &err),
                         STATUS_UNSUPPORTED);
        if (!strstr(err.text, "too large: 16 MiB written for PCRE2"))
            fail_msg("case %zu: %s", i, err.text);
        assert_true(arena_bytes(arena) < (size_t)512 << 20);
        free(pattern);
        arena_destroy(arena);
    }
}

static void test_made_up_words(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {1, 100, 256, 257, 5000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct tokenizer *t = NULL;
        struct error err;
        assert_int_equal(tokenizer_open_words(&t, sizes[i], &err), STATUS_OK);
        assert_int_equal(tokenizer_vocab(t), sizes[i]);
        struct arena *arena = arena_create(0, 0);
        for (uint32_t id = 0; id < sizes[i]; id += 1 + id / 7) {
            int32_t in[] = {(int32_t)id, (int32_t)(sizes[i] - 1)};
            struct text text = tokenizer_token_bytes(t, in[0]);
            assert_true(text.bytes > 0);
            if (id >= 0x80 && id < 256)
                continue; // part of a character
            int32_t out[8];
            uint32_t count = 0;
            struct encode_args args = {.text = text, .arena = arena};
            assert_int_equal(tokenizer_encode(t, &args, out, 8, &count, &err), STATUS_OK);
            assert_int_equal(count, 1);
            assert_int_equal(out[0], in[0]);
        }
        arena_destroy(arena);
        tokenizer_close(t);
    }
    struct tokenizer *t = NULL;
    struct error err;
    assert_int_equal(tokenizer_open_words(&t, 0, &err), STATUS_INVALID);
}

static void file_put(const char *folder, const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

// Files next to tokenizer.json choose the folder of the tokenizer and lower case before
// normalization. An unreadable file is reported.
static void test_folders_are_read(void **state)
{
    (void)state;
    char folder[] = "/tmp/weft-rules-XXXXXX", inside[64], path[128];
    struct error err;
    struct tokenizer *t = NULL;
    assert_non_null(mkdtemp(folder));
    snprintf(inside, sizeof inside, "%s/0_Transformer", folder);
    assert_int_equal(mkdir(inside, 0700), 0);
    file_put(folder, "modules.json",
             "[{\"type\":\"sentence_transformers.models.Transformer\","
             "\"path\":\"0_Transformer\"}]");
    file_put(inside, "tokenizer.json", "{\"model\":{\"vocab\":{\"a\":0,\"A\":1},\"merges\":[]}}");
    assert_int_equal(tokenizer_open(&t, folder, &err), STATUS_OK);
    EXPECT(t, "aA", 0, 0, 1);
    tokenizer_close(t);
    file_put(inside, "sentence_bert_config.json", "{\"do_lower_case\":true}");
    assert_int_equal(tokenizer_open(&t, folder, &err), STATUS_OK);
    EXPECT(t, "aA", 0, 0, 0);
    tokenizer_close(t);
    snprintf(path, sizeof path, "%s/chat_template.jinja", inside);
    assert_int_equal(mkfifo(path, 0600), 0);
    alarm(20);
    assert_int_equal(tokenizer_open(&t, folder, &err), STATUS_IO);
    assert_non_null(strstr(err.text, "chat_template.jinja is not a regular file"));
    snprintf(path, sizeof path, "%s/tokenizer.json", folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(tokenizer_open(&t, folder, &err), STATUS_IO);
    alarm(0);
    assert_int_equal(tokenizer_open(&t, path, &err), STATUS_NOT_FOUND);
    assert_non_null(strstr(err.text, "is a file, not a model folder"));
    snprintf(path, sizeof path, "rm -r %s", folder);
    assert_int_equal(system(path), 0);
    assert_int_equal(tokenizer_open(&t, folder, &err), STATUS_NOT_FOUND);
    assert_non_null(strstr(err.text, "No such file or directory"));
}

static void test_token_types_of_classes(void **state)
{
    (void)state;
    static const struct {
        const char *config;
        bool gives;
    } cases[] = {
        {NULL, true},
        {"{}", true},
        {"{\"tokenizer_class\":\"BertTokenizer\"}", true},
        {"{\"tokenizer_class\":\"PreTrainedTokenizerFast\"}", true},
        {"{\"tokenizer_class\":\"TokenizersBackend\"}", false},
        {"{\"tokenizer_class\":\"XLMRobertaTokenizerFast\"}", false},
        {"{\"tokenizer_class\":\"TokenizersBackend\",\"model_input_names\":"
         "[\"input_ids\",\"token_type_ids\"]}",
         true},
        {"{\"tokenizer_class\":\"BertTokenizer\",\"model_input_names\":[\"input_ids\"]}", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tokenizer *t = open_text(pairs, cases[i].config);
        expect_pair(t, cases[i].gives);
        tokenizer_close(t);
    }
}

static void test_config_is_read(void **state)
{
    (void)state;
    static const char config[] =
        "{\"bos_token\":{\"content\":\"<s>\"},\"eos_token\":\"ab\",\"pad_token\":null,"
        "\"add_bos_token\":true,\"add_eos_token\":true,\"tokenizer_class\":\"LlamaTokenizer\","
        "\"chat_template\":[{\"name\":\"default\",\"template\":\"D\"},"
        "{\"name\":\"tool_use\",\"template\":\"T\"}]}";
    struct tokenizer *t = open_text(letters, config);
    assert_int_equal(tokenizer_special(t, SPECIAL_BOS), 10);
    assert_int_equal(tokenizer_special(t, SPECIAL_EOS), 4);
    assert_int_equal(tokenizer_special(t, SPECIAL_PAD), -1);
    assert_true(text_is(tokenizer_special_text(t, SPECIAL_BOS), "<s>"));
    assert_true(text_is(tokenizer_chat_template(t, NULL), "D"));
    assert_true(text_is(tokenizer_chat_template(t, "tool_use"), "T"));
    assert_null(tokenizer_chat_template(t, "other").at);
    EXPECT(t, "c", ENCODE_SPECIAL, 10, 2, 4);
    EXPECT(t, "c", ENCODE_PLAIN, 2);
    tokenizer_close(t);
}

// Results of the reference library (tokenizers) for small models of each kind: pieces without a
// token, bytes instead of them, words that are too long, post-processors.
static void test_small_models_match_the_reference(void **state)
{
    (void)state;
    static const struct {
        const char *name, *file;
        struct {
            const char *text, *ids;
        } cases[8];
    } models[] = {
        {"Unigram",
         "{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"<unk>\",0],[\"a\",-1],"
         "[\"b\",-2],[\"ab\",-2.5],[\"<0xC3>\",-9],[\"<0xA9>\",-9]]}}",
         {{"ab", "3"}, {"aab", "1 3"}, {"zab", "0 3"}, {"zzza", "0 1"}, {"é", "0"}, {"aé", "1 0"}}},
        {"Unigram bytes",
         "{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"byte_fallback\":true,"
         "\"vocab\":[[\"<unk>\",0],[\"a\",-1],[\"b\",-2],[\"ab\",-2.5],[\"<0xC3>\",-9],"
         "[\"<0xA9>\",-9]]}}",
         {{"é", "4 5"}, {"aéb", "1 4 5 2"}, {"zé", "0"}, {"z", "0"}, {"ez", "0"}}},
        {"WordPiece",
         "{\"pre_tokenizer\":{\"type\":\"WhitespaceSplit\"},\"model\":{\"type\":\"WordPiece\","
         "\"unk_token\":\"?\",\"continuing_subword_prefix\":\"##\","
         "\"max_input_chars_per_word\":4,\"vocab\":{\"?\":0,\"a\":1,\"##b\":2,\"b\":3,"
         "\"##é\":4}}}",
         {{"ab a", "1 2 1"},
          {"bab ab", "0 1 2"},
          {"abbbb abbb", "0 1 2 2 2"},
          {"éa aéé", "0 1 4 4"},
          {"aéééé aééé c", "0 1 4 4 4 0"}}},
        {"BPE unk",
         "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"?\":3,"
         "\"<0xC3>\":4,\"<0xA9>\":5},\"merges\":[\"a b\"],\"unk_token\":\"?\"}}",
         {{"zab", "3 2"}, {"zzab", "3 3 2"}, {"é", "3"}}},
        {"BPE fused",
         "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"?\":3,"
         "\"<0xC3>\":4,\"<0xA9>\":5},\"merges\":[\"a b\"],\"unk_token\":\"?\","
         "\"fuse_unk\":true}}",
         {{"zzab", "3 2"}, {"zaz", "3 0 3"}, {"zéz", "3"}}},
        {"BPE bytes",
         "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"?\":3,"
         "\"<0xC3>\":4,\"<0xA9>\":5},\"merges\":[\"a b\"],\"unk_token\":\"?\","
         "\"byte_fallback\":true}}",
         {{"é", "4 5"}, {"zéa", "4 5 3 0"}, {"zz", "3 3"}}},
        {"BPE without unk",
         "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"?\":3,"
         "\"<0xC3>\":4,\"<0xA9>\":5},\"merges\":[\"a b\"]}}",
         {{"zab", "2"}, {"z", ""}}},
        {"BPE ignore_merges",
         "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"c\":2,\"bc\":3,\"abc\":4},"
         "\"merges\":[\"b c\"],\"ignore_merges\":true}}",
         {{"abc", "4"}, {"bc", "3"}, {"aabc", "0 0 3"}}},
        {"BPE prefix and suffix",
         "{\"pre_tokenizer\":{\"type\":\"WhitespaceSplit\"},\"model\":{\"type\":\"BPE\","
         "\"vocab\":{\"a\":0,\"#b\":1,\"#b/\":2,\"a/\":3,\"ab/\":4,\"b/\":5},"
         "\"merges\":[\"a b/\"],\"continuing_subword_prefix\":\"#\","
         "\"end_of_word_suffix\":\"/\"}}",
         {{"a b", "3 5"}}},
        {"Metaspace first",
         "{\"added_tokens\":[{\"id\":3,\"content\":\"<s>\",\"special\":true,"
         "\"normalized\":false}],\"pre_tokenizer\":{\"type\":\"Metaspace\","
         "\"replacement\":\"▁\",\"prepend_scheme\":\"first\"},\"model\":{\"type\":\"BPE\","
         "\"vocab\":{\"a\":0,\"b\":1,\"▁\":2},\"merges\":[]}}",
         {{"a<s>b", "2 0 3 1"}, {"<s>b", "3 1"}, {"a b", "2 0 2 1"}}},
        {"WordLevel",
         "{\"pre_tokenizer\":{\"type\":\"WhitespaceSplit\"},\"model\":{\"type\":\"WordLevel\","
         "\"unk_token\":\"?\",\"vocab\":{\"?\":0,\"a\":1,\"ab\":2}}}",
         {{"a ab b", "1 2 0"}, {"ab", "2"}}},
        {"post bert",
         "{\"post_processor\":{\"type\":\"BertProcessing\",\"sep\":[\"s\",7],\"cls\":[\"c\","
         "6]},\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"?\":3,"
         "\"<0xC3>\":4,\"<0xA9>\":5},\"merges\":[\"a b\"],\"unk_token\":\"?\"}}",
         {{"ab", "6 2 7"}, {"", "6 7"}}},
        {"post roberta",
         "{\"post_processor\":{\"type\":\"RobertaProcessing\",\"sep\":[\"s\",7],"
         "\"cls\":[\"c\",6],\"trim_offsets\":true,\"add_prefix_space\":true},"
         "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"?\":3,"
         "\"<0xC3>\":4,\"<0xA9>\":5},\"merges\":[\"a b\"],\"unk_token\":\"?\"}}",
         {{"ab", "6 2 7"}, {"", "6 7"}}},
        {"post template",
         "{\"post_processor\":{\"type\":\"TemplateProcessing\","
         "\"single\":[{\"SpecialToken\":{\"id\":\"x\",\"type_id\":0}},"
         "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}],\"pair\":[{\"Sequence\":{\"id\":\"A\","
         "\"type_id\":0}},{\"Sequence\":{\"id\":\"B\",\"type_id\":1}}],"
         "\"special_tokens\":{\"y\":{\"id\":\"y\",\"ids\":[8],\"tokens\":[\"y\"]},"
         "\"x\":{\"id\":\"x\",\"ids\":[6,7],\"tokens\":[\"x\",\"x\"]}}},"
         "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"?\":3,"
         "\"<0xC3>\":4,\"<0xA9>\":5},\"merges\":[\"a b\"],\"unk_token\":\"?\"}}",
         {{"ab", "6 7 2"}, {"", "6 7"}}},
        {"post Sequence",
         "{\"post_processor\":{\"type\":\"Sequence\",\"processors\":[{\"type\":\"ByteLevel\","
         "\"add_prefix_space\":true,\"trim_offsets\":false,\"use_regex\":true},"
         "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"x\","
         "\"type_id\":0}},{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}],"
         "\"pair\":[{\"Sequence\":{\"id\":\"A\",\"type_id\":0}},{\"Sequence\":{\"id\":\"B\","
         "\"type_id\":1}}],\"special_tokens\":{\"y\":{\"id\":\"y\",\"ids\":[8],"
         "\"tokens\":[\"y\"]},\"x\":{\"id\":\"x\",\"ids\":[6,7],\"tokens\":[\"x\",\"x\"]}}}]},"
         "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"?\":3,"
         "\"<0xC3>\":4,\"<0xA9>\":5},\"merges\":[\"a b\"],\"unk_token\":\"?\"}}",
         {{"ab", "6 7 2"}, {"", "6 7"}}},
    };
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        struct tokenizer *t = open_text(models[i].file, NULL);
        for (size_t k = 0; k < 8 && models[i].cases[k].text; k++) {
            int32_t tokens[64];
            uint32_t count = 0;
            char got[256] = "";
            struct error err;
            struct encode_args args = {.text = text_of(models[i].cases[k].text),
                                       .flags = ENCODE_ADDED_TOKENS | ENCODE_SPECIAL,
                                       .arena = arena_create(0, 0)};
            assert_int_equal(tokenizer_encode(t, &args, tokens, 64, &count, &err), STATUS_OK);
            arena_destroy(args.arena);
            for (uint32_t n = 0, at = 0; n < count; n++)
                at += (uint32_t)snprintf(got + at, sizeof got - at, "%s%d", n > 0 ? " " : "",
                                         tokens[n]);
            if (strcmp(got, models[i].cases[k].ids) != 0)
                fail_msg("%s, %s: %s, not %s", models[i].name, models[i].cases[k].text, got,
                         models[i].cases[k].ids);
        }
        tokenizer_close(t);
    }
}

// Tokenizer files that are refused, and the messages.
static void test_refused_parts(void **state)
{
    (void)state;
    static const struct {
        const char *part, *why;
    } cases[] = {
        {"\"pre_tokenizer\":{\"type\":\"Split\",\"behavior\":\"Isolated\"}",
         "a Split without a pattern"},
        {"\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\"a\"},\"behavior\":"
         "\"Up\"}",
         "a split behavior Up is not known"},
        {"\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"\"}",
         "a Metaspace without a replacement"},
        {"\"pre_tokenizer\":{\"type\":\"Other\"}", "a pre-tokenizer of type Other is not known"},
        {"\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\"},{"
         "\"type\":\"No\"}]}",
         "a pre-tokenizer of type No is not known"},
        {"\"post_processor\":{\"type\":\"Other\"}", "post_processor Other is not known"},
        {"\"post_processor\":{\"type\":\"Sequence\",\"processors\":[{\"type\":\"ByteLevel\"},{"
         "\"type\":\"No\"}]}",
         "post_processor No is not known"},
        {"\"post_processor\":{\"type\":\"BertProcessing\",\"sep\":[\"s\",-1],\"cls\":[\"c\",2]}",
         "`sep` and `cls` are not usable"},
        {"\"post_processor\":{\"type\":\"BertProcessing\",\"sep\":[\"s\",1],\"cls\":[\"c\"]}",
         "`sep` and `cls` are not usable"},
        {"\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"Sequence\":{\"id\":"
         "\"B\"}}]}",
         "a second text in `single`"},
        {"\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{}]}",
         "an item that is unknown"},
        {"\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{"
         "\"id\":\"x\"}}],"
         "\"special_tokens\":{\"x\":{\"ids\":[-4]}}}",
         "a bad id in special_tokens"},
        {"\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{"
         "\"id\":\"x\"}}],"
         "\"special_tokens\":{\"y\":{\"ids\":[4]}}}",
         "special token x is not described"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char json[512];
        struct tokenizer *t = NULL;
        struct error err = {0};
        snprintf(json, sizeof json, "{%s,\"model\":{\"vocab\":{\"a\":0},\"merges\":[]}}",
                 cases[i].part);
        if (tokenizer_open_memory(&t, text_of(json), text_span(NULL, 0), &err) == STATUS_OK)
            fail_msg("taken: %s", cases[i].part);
        if (!strstr(err.text, cases[i].why))
            fail_msg("%s: \"%s\" does not say \"%s\"", cases[i].part, err.text, cases[i].why);
    }
}

// If matching a pattern takes more attempts than the limit, the text is refused, and not treated as
// if the pattern did not match.
static void test_slow_patterns_are_reported(void **state)
{
    (void)state;
    static const char *const parts[] = {
        "\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"([ab]{1,2}){1,}c\"},"
        "\"behavior\":\"Isolated\"}",
        "\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"([ab]{1,2}){1,}c\"},"
        "\"content\":\"b\"}",
    };
    char text[60];
    memset(text, 'a', sizeof text);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char json[512];
        int32_t tokens[64];
        uint32_t count;
        struct error err = {0};
        snprintf(json, sizeof json,
                 "{%s,\"model\":{\"vocab\":{\"a\":0,\"b\":1,\"c\":2},\"merges\":[]}}", parts[i]);
        struct tokenizer *t = open_text(json, NULL);
        struct encode_args args = {.arena = arena_create(0, 0)};
        args.text = text_span(text, 20);
        assert_int_equal(tokenizer_encode(t, &args, tokens, 64, &count, &err), STATUS_OK);
        assert_int_equal(count, 20);
        args.text = text_span(text, sizeof text);
        assert_int_equal(tokenizer_encode(t, &args, tokens, 64, &count, &err), STATUS_NO_SPACE);
        assert_non_null(strstr(err.text, "a pattern of the tokenizer takes too long"));
        arena_destroy(args.arena);
        tokenizer_close(t);
    }
}

// A decoder's pattern that takes too long on one token is reported at startup, also if only at the
// beginning of a text. If it takes too long on a complete text, the call fails.
static void test_slow_decoders_are_reported(void **state)
{
    (void)state;
    static const struct {
        const char *before, *token;
        bool opens;
    } cases[] = {
        {"{\"type\":\"ByteFallback\"}",
         "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false},
        // Only at the end of a text is there no space after the letters.
        {"{\"type\":\"BPEDecoder\"}",
         "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa</w>", true},
        // Only at the beginning of a text is there no mark before the letters.
        {"{\"type\":\"Metaspace\",\"replacement\":\"_\"}",
         "_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char json[1024];
        struct error err = {0};
        struct tokenizer *t = NULL;
        snprintf(json, sizeof json,
                 "{\"decoder\":{\"type\":\"Sequence\",\"decoders\":[%s,{\"type\":\"Replace\","
                 "\"pattern\":{\"Regex\":\"^(?!.* )([ab]{1,2}){1,}c\"},\"content\":\"b\"}]},"
                 "\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"%s\",\"vocab\":{\"%s\":0}}}",
                 cases[i].before, cases[i].token, cases[i].token);
        enum status status = tokenizer_open_memory(&t, text_of(json), text_span(NULL, 0), &err);
        assert_int_equal(status, cases[i].opens ? STATUS_OK : STATUS_UNSUPPORTED);
        if (!cases[i].opens) {
            assert_non_null(strstr(err.text, "a pattern of the decoder takes too long on token 0"));
            continue;
        }
        static const int32_t zero;
        struct text text;
        struct decode_args args = {&zero, 1, false, arena_create(0, 0)};
        assert_int_equal(tokenizer_decode(t, &args, &text, &err), STATUS_NO_SPACE);
        assert_string_equal(err.text, "a pattern of the tokenizer takes too long on this text");
        arena_destroy(args.arena);
        tokenizer_close(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_token_types_of_classes),
        cmocka_unit_test(test_folders_are_read),
        cmocka_unit_test(test_pair_of_texts),
        cmocka_unit_test(test_too_small_buffers),
        cmocka_unit_test(test_one_long_word),
        cmocka_unit_test(test_a_word_too_long_is_not_merged),
        cmocka_unit_test(test_wrong_files),
        cmocka_unit_test(test_long_patterns),
        cmocka_unit_test(test_slow_patterns_are_reported),
        cmocka_unit_test(test_slow_decoders_are_reported),
        cmocka_unit_test(test_made_up_words),
        cmocka_unit_test(test_config_is_read),
        cmocka_unit_test(test_small_models_match_the_reference),
        cmocka_unit_test(test_refused_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
