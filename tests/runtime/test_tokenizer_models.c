// SPDX-License-Identifier: Apache-2.0
// Tokenizers in files other than tokenizer.json: SentencePiece models, rank files and tekken.json.
// The files and the ids are those of tokenizer_models.json, which tools/tokenizer_model_vectors.py
// writes with the libraries of these formats. Also damaged files and refusals.
#include "base/file.h"
#include "base/json.h"
#include "runtime/text/tokenizer/files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

enum { TOKENS_MAX = 4096 };

static char folder[] = "/tmp/weft-tokenizer-models-XXXXXX";
static const json_t *cases, *texts;
static json_t *root;

static void put(const char *name, struct text text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text.at, 1, text.bytes, file), text.bytes);
    assert_int_equal(fclose(file), 0);
}

static void put_away(const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(unlink(path), 0);
}

static struct text text_in(const json_t *value)
{
    return text_span(json_string_value(value), json_string_length(value));
}

static const json_t *case_named(const char *name)
{
    size_t i;
    json_t *one;
    json_array_foreach(cases, i, one)
    {
        if (strcmp(json_string_value(json_object_get(one, "name")), name) == 0)
            return one;
    }
    fail_msg("no case %s", name);
    return NULL;
}

// Returns the file of a case; the caller frees it with heap_free.
static struct text file_of(const json_t *one)
{
    struct text base64 = text_in(json_object_get(one, "base64"));
    struct text plain = text_in(json_object_get(one, "text"));
    char *bytes = heap_alloc(base64.bytes + plain.bytes + 8);
    size_t used, count;
    if (!base64.at) {
        memcpy(bytes, plain.at, plain.bytes);
        return text_span(bytes, plain.bytes);
    }
    count = base64_read(bytes, base64, &used);
    return text_span(bytes, count);
}

static void ids_check(const struct tokenizer *t, const char *name, struct text text, unsigned flags,
                      const json_t *want, bool begins)
{
    static int32_t got[TOKENS_MAX];
    struct error err;
    uint32_t count = 0;
    struct arena *arena = arena_create(0, 0);
    const struct encode_args args = {.text = text, .flags = flags, .arena = arena};
    assert_int_equal(tokenizer_encode(t, &args, got, TOKENS_MAX, &count, &err), STATUS_OK);
    uint32_t first = begins ? 1 : 0;
    bool equal = count == json_array_size(want) + first;
    for (uint32_t i = first; equal && i < count; i++)
        equal = got[i] == json_integer_value(json_array_get(want, i - first));
    if (!equal || (begins && got[0] != 1))
        fail_msg("%s, flags %u: %u ids for %.*s, first %d", name, flags, count, (int)text.bytes,
                 text.at, count > 0 ? got[0] : -1);
    arena_destroy(arena);
}

static void case_check(const json_t *one)
{
    const char *name = json_string_value(json_object_get(one, "name"));
    const char *file = json_string_value(json_object_get(one, "file"));
    const json_t *plain = json_object_get(one, "plain"), *special = json_object_get(one, "special");
    struct text bytes = file_of(one);
    struct tokenizer *t = NULL;
    struct error err;
    put(file, bytes);
    put("tokenizer_config.json", text_in(json_object_get(one, "config")));
    if (tokenizer_open(&t, folder, &err) != STATUS_OK)
        fail_msg("%s: %s", name, err.text);
    assert_true(json_array_size(plain) + json_array_size(special) >= json_array_size(texts));
    for (size_t i = 0; i < json_array_size(texts); i++) {
        struct text text = text_in(json_array_get(texts, i));
        if (plain)
            ids_check(t, name, text, ENCODE_PLAIN, json_array_get(plain, i), false);
        const json_t *added = json_array_get(special, i); // null: no reference for this text
        if (json_is_array(added))
            ids_check(t, name, text, ENCODE_ADDED_TOKENS | ENCODE_SPECIAL, added, false);
        if (!special) // the class adds BOS
            ids_check(t, name, text, ENCODE_SPECIAL, json_array_get(plain, i), true);
    }
    tokenizer_close(t);
    put_away(file);
    heap_free((char *)(uintptr_t)bytes.at);
}

static void test_ids_are_those_of_the_libraries(void **state)
{
    (void)state;
    size_t i;
    json_t *one;
    assert_int_equal(json_array_size(cases), 9);
    json_array_foreach(cases, i, one)
    {
        case_check(one);
    }
}

static void test_texts_come_back(void **state)
{
    (void)state;
    static const char *const names[] = {"bpe", "unigram", "kimi", "tekken"};
    for (size_t n = 0; n < sizeof names / sizeof names[0]; n++) {
        const json_t *one = case_named(names[n]);
        const char *file = json_string_value(json_object_get(one, "file"));
        struct text bytes = file_of(one), text = text_of("a naïve \U0001F600\ntext, then 北京"),
                    out;
        struct tokenizer *t = NULL;
        struct error err;
        int32_t ids[256];
        uint32_t count;
        put(file, bytes);
        put("tokenizer_config.json", text_in(json_object_get(one, "config")));
        assert_int_equal(tokenizer_open(&t, folder, &err), STATUS_OK);
        struct arena *arena = arena_create(0, 0);
        const struct encode_args args = {.text = text, .arena = arena};
        assert_int_equal(tokenizer_encode(t, &args, ids, 256, &count, &err), STATUS_OK);
        const struct decode_args back = {.tokens = ids, .count = count, .arena = arena};
        assert_int_equal(tokenizer_decode(t, &back, &out, &err), STATUS_OK);
        assert_true(text_equal(out, text));
        arena_destroy(arena);
        tokenizer_close(t);
        put_away(file);
        heap_free((char *)(uintptr_t)bytes.at);
    }
}

// A marker of the chat template that is a user-defined piece is no token of a client's text.
static void test_markers_of_templates_are_guarded(void **state)
{
    (void)state;
    const json_t *one = case_named("bpe");
    struct text bytes = file_of(one);
    struct error err;
    put("tokenizer.model", bytes);
    for (int guarded = 0; guarded < 2; guarded++) {
        struct tokenizer *t = NULL;
        int32_t ids[64];
        uint32_t count;
        bool found = false;
        put("tokenizer_config.json",
            text_of(guarded ? "{\"chat_template\":\"<x>{{ messages[0].content }}\"}" : "{}"));
        assert_int_equal(tokenizer_open(&t, folder, &err), STATUS_OK);
        int32_t mark = tokenizer_token(t, text_of("<x>"));
        struct arena *arena = arena_create(0, 0);
        const struct encode_args args = {.text = text_of("a<x>b"), .arena = arena};
        assert_int_equal(tokenizer_encode(t, &args, ids, 64, &count, &err), STATUS_OK);
        for (uint32_t i = 0; i < count; i++)
            found = found || ids[i] == mark;
        assert_int_equal(found, !guarded);
        arena_destroy(arena);
        tokenizer_close(t);
    }
    put_away("tokenizer.model");
    heap_free((char *)(uintptr_t)bytes.at);
}

// Shorter files are read or refused with the remedy, most of them refused; a file with a changed
// bit is read with at least one piece or refused.
static void test_damaged_models_are_refused(void **state)
{
    (void)state;
    struct text whole = file_of(case_named("bpe-backend"));
    char *bytes = (char *)(uintptr_t)whole.at;
    struct spm_file file;
    struct error err;
    uint32_t refused = 0;
    for (size_t length = 0; length < whole.bytes; length++) {
        struct arena *arena = arena_create(0, 0);
        char *copy = heap_alloc(length > 0 ? length : 1); // a sanitizer sees a read after its end
        memcpy(copy, bytes, length);
        if (spm_file_parse(&file, arena, text_span(copy, length), "m", &err) != STATUS_OK) {
            assert_non_null(strstr(err.text, "download the file again"));
            refused++;
        }
        heap_free(copy);
        arena_destroy(arena);
    }
    assert_true(refused > whole.bytes / 2);
    for (size_t at = 0; at < whole.bytes; at += 7) {
        struct arena *arena = arena_create(0, 0);
        bytes[at] ^= (char)(1u << at % 8);
        if (spm_file_parse(&file, arena, whole, "m", &err) == STATUS_OK)
            assert_true(file.count > 0);
        bytes[at] ^= (char)(1u << at % 8);
        arena_destroy(arena);
    }
    heap_free(bytes);
}

#define BYTES(text) text_span(text, sizeof text - 1)

static void test_errors_name_the_place(void **state)
{
    (void)state;
    static const char again[] = "; download the file again";
    const struct {
        struct text bytes;
        const char *sentence;
    } files[] = {
        {BYTES("\n\005\n\003abc"), "m has 0 pieces of the kind `unknown`"},
        {BYTES("\n\007\n\003a\xFF"
               "c\030\002"),
         "m is damaged at byte 0: a piece has no text in UTF-8"},
        {BYTES("\n\002\030\002"), "m is damaged at byte 0: a piece has no text in UTF-8"},
        {BYTES("\n\005\n\003a"), "m is damaged at byte 2: a field ends after its message"},
        {BYTES("\n\007\n\003abc\030\011"), "m is damaged at byte 7: a piece has an unknown kind"},
        {BYTES("\n\012\n\003abc\025\0\0\300\177"),
         "m is damaged at byte 0: the score of a piece is not"},
        {BYTES("\013\001"), "m is damaged at byte 1: a field has an unknown type"},
        {BYTES("\002\001"), "m is damaged at byte 1: a field has no valid number"},
        {BYTES("\377\377"), "m is damaged at byte 0: the key of a field does not end"},
        {BYTES("\n\377"), "m is damaged at byte 1: a length does not end"},
        {BYTES("\010\377\377"), "m is damaged at byte 1: a number does not end"},
    };
    struct spm_file file;
    struct error err;
    struct arena *arena = arena_create(0, 0);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        assert_int_not_equal(spm_file_parse(&file, arena, files[i].bytes, "m", &err), STATUS_OK);
        if (!text_begins(text_of(err.text), files[i].sentence) || !strstr(err.text, again))
            fail_msg("%zu: %s", i, err.text);
    }
    static const struct {
        struct text bytes;
        const char *what;
    } settings[] = {
        {{"\022\002\030\003", 4}, "m has a model that is neither unigram nor BPE, which weft does"},
        {{"\022\003\300\001\001", 5}, "m has treat_whitespace_as_suffix, which weft does not read"},
        {{"\032\002\050\000", 4}, "m has escape_whitespaces false, which weft does not read"},
        {{"\052\003\022\001x", 5}, "m has a denormalizer, which weft does not read"},
        {{"\n\005\n\001a\030\005", 7}, "m has unused pieces, which weft does not read"},
    };
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        assert_int_equal(spm_file_parse(&file, arena, settings[i].bytes, "m", &err),
                         STATUS_UNSUPPORTED);
        if (!text_begins(text_of(err.text), settings[i].what) || !strstr(err.text, "python3 -c"))
            fail_msg("%zu: %s", i, err.text);
    }
    arena_destroy(arena);
}

static void test_folders_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *file, *bytes, *config, *words;
        enum status status;
    } rows[] = {
        {"tokenizer.model", "\n", "{\"tokenizer_class\":\"AlbertTokenizer\"}",
         "tokenizer.model: weft does not know how the class AlbertTokenizer reads this file: make",
         STATUS_UNSUPPORTED},
        {"sentencepiece.bpe.model", "\n\011\n\005<unk>\030\002",
         "{\"tokenizer_class\":\"XLMRobertaTokenizer\"}",
         "sentencepiece.bpe.model is not a unigram model whose first pieces are the unknown one, "
         "BOS and EOS, which the class XLMRobertaTokenizer needs: correct tokenizer_class",
         STATUS_UNSUPPORTED},
        {"tokenizer.model", "\n", "{}", "tokenizer.model is damaged at byte 1: a length",
         STATUS_INVALID},
        {"tokenizer.model", "IQ== 0\n", "{\"tokenizer_class\":\"ChatGLM4Tokenizer\"}",
         "tokenizer.model does not contain the pattern that cuts texts into words, and weft knows "
         "that of the classes TikTokenTokenizer and QWenTokenizer only, which "
         "tokenizer_config.json does not name",
         STATUS_UNSUPPORTED},
        {"tokenizer.model", "version https://git-lfs\n", "{\"tokenizer_class\":\"LlamaTokenizer\"}",
         "tokenizer.model is a Git LFS pointer", STATUS_INVALID},
        {"tiktoken.model", "IQ== 0\n\nIg== 2\n", "{\"tokenizer_class\":\"TikTokenTokenizer\"}",
         "tiktoken.model is damaged at byte 8: the line is not a token in base64 and the rank 1; "
         "download the file again",
         STATUS_INVALID},
        {"tiktoken.model", "I! 0\n", "{\"tokenizer_class\":\"TikTokenTokenizer\"}",
         "tiktoken.model: the token of rank 0 is not base64 of 1 to 512 bytes", STATUS_INVALID},
        {"tiktoken.model", "IQ== 0\n",
         "{\"tokenizer_class\":\"TikTokenTokenizer\",\"added_tokens_decoder\":{\"0\":{\"content\":"
         "\"a\"}}}",
         "entry 0 has no content or not an id from 1 to 256, which", STATUS_INVALID},
        {"tekken.json", "{}", "{}", "tekken.json lacks a pattern, its default_num_special_tokens",
         STATUS_INVALID},
        {"tekken.json", "{", "{}", "tekken.json is not JSON", STATUS_INVALID},
        {"tekken.json",
         "{\"config\":{\"pattern\":\"a\",\"default_vocab_size\":2,\"default_num_special_tokens\":1,"
         "\"version\":\"v11\"},\"vocab\":[{\"rank\":0,\"token_bytes\":\"IQ==\"}]}",
         "{}", "tekken.json has no special_tokens, which files after version 7 need",
         STATUS_UNSUPPORTED},
        {"tekken.json",
         "{\"config\":{\"pattern\":\"a\",\"default_vocab_size\":2,\"default_num_special_tokens\":1}"
         ","
         "\"special_tokens\":[{\"rank\":0,\"token_str\":\"a\"},{\"rank\":0,\"token_str\":\"b\"}],"
         "\"vocab\":[{\"rank\":0,\"token_bytes\":\"IQ==\"}]}",
         "{}", "tekken.json: item 1 of special_tokens has no token_str", STATUS_INVALID},
        {"tekken.json",
         "{\"config\":{\"pattern\":\"a\",\"default_vocab_size\":2,\"default_num_special_tokens\":1}"
         ","
         "\"special_tokens\":[],\"vocab\":[{\"rank\":1,\"token_bytes\":\"IQ==\"}]}",
         "{}", "tekken.json: item 0 of vocab has not this number as its rank", STATUS_INVALID},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct tokenizer *t = NULL;
        struct error err;
        put(rows[i].file, text_of(rows[i].bytes));
        put("tokenizer_config.json", text_of(rows[i].config));
        enum status status = tokenizer_open(&t, folder, &err);
        if (status != rows[i].status || !strstr(err.text, rows[i].words))
            fail_msg("%zu: status %d: %s", i, (int)status, status == STATUS_OK ? "" : err.text);
        put_away(rows[i].file);
    }
}

static int group_begin(void **state)
{
    (void)state;
    struct error err;
    if (json_file_parse(&root, WEFT_SOURCE_DIR "/tests/runtime/tokenizer_models.json", 1 << 24,
                        &err) != STATUS_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    texts = json_object_get(root, "texts");
    cases = json_object_get(root, "cases");
    if (!mkdtemp(folder))
        return 1;
    put("config.json", text_of("{}"));
    return 0;
}

static int group_end(void **state)
{
    (void)state;
    put_away("tokenizer_config.json");
    put_away("config.json");
    json_decref(root);
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ids_are_those_of_the_libraries),
        cmocka_unit_test(test_texts_come_back),
        cmocka_unit_test(test_markers_of_templates_are_guarded),
        cmocka_unit_test(test_damaged_models_are_refused),
        cmocka_unit_test(test_errors_name_the_place),
        cmocka_unit_test(test_folders_are_refused),
    };
    return cmocka_run_group_tests(tests, group_begin, group_end);
}
