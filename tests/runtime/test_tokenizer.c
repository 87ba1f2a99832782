// SPDX-License-Identifier: Apache-2.0
// The ids are exact on every vector of recorded/tokenizers.json (small tokenizers of our own,
// encoded by the reference library) and, if the shared data are present, on every vector of theirs
// whose vocabulary exists. Prints how many were checked, and which were skipped for lack of a
// vocabulary. The expected ids are from independent implementations (see the assets' MANIFEST).
// gguf_vocab.py converts GGUF vocabularies to folders.
#include "runtime/text/tokenizer.h"

#include "base/file.h"
#include "base/json.h"
#include "tests/assets.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { TOKENS_MAX = 1 << 16 };

static unsigned exact, wrong, skipped;
static char made_folder[256]; // output folder of gguf_vocab.py

static struct tokenizer *open_folder(const char *folder)
{
    struct tokenizer *t = NULL;
    struct error err;
    if (tokenizer_open(&t, folder, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    return t;
}

// Opens a GGUF vocabulary as a folder. Returns NULL without python3.
static struct tokenizer *open_gguf(const char *name)
{
    char command[2048], folder[512];
    snprintf(folder, sizeof folder, "%s/%s", made_folder, name);
    snprintf(command, sizeof command,
             "python3 %s/tests/runtime/gguf_vocab.py %sgguf-vocab/ggml-vocab-%s.gguf %s",
             WEFT_SOURCE_DIR, assets_path("tokenizer/"), name, folder);
    if (system(command) != 0) {
        printf("skipped: no python3 to read the vocabulary %s\n", name);
        return NULL;
    }
    struct tokenizer *t = open_folder(folder);
    snprintf(command, sizeof command, "%s/tokenizer.json", folder);
    unlink(command);
    rmdir(folder);
    return t;
}

static void report(const char *what, struct text text, const int32_t *got, uint32_t count)
{
    wrong++;
    print_error("%s: wrong ids for \"%.*s\":", what, (int)(text.bytes < 80 ? text.bytes : 80),
                text.at);
    for (uint32_t i = 0; i < count && i < 24; i++)
        print_error(" %d", got[i]);
    print_error("\n");
}

static void check_ids(const struct tokenizer *t, const char *what, struct text text, unsigned flags,
                      const json_t *want)
{
    static int32_t tokens[TOKENS_MAX];
    struct arena *arena = arena_create(0, 0);
    struct encode_args args = {.text = text, .flags = flags, .arena = arena};
    struct error err;
    uint32_t count = 0;
    assert_int_equal(tokenizer_encode(t, &args, tokens, TOKENS_MAX, &count, &err), STATUS_OK);
    assert_true(count <= tokenizer_bound(t, text.bytes));
    bool same = count == json_array_size(want);
    for (uint32_t i = 0; same && i < count; i++)
        same = tokens[i] == json_integer_value(json_array_get(want, i));
    if (same)
        exact++;
    else
        report(what, text, tokens, count);
    arena_destroy(arena);
}

static json_t *load(const char *path)
{
    json_t *root = NULL;
    struct error err;
    if (json_file_parse(&root, path, 64 << 20, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    return root;
}

static struct text text_field(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return text_span(json_string_value(value), json_string_length(value));
}

static void test_golden_prompts(void **state)
{
    (void)state;
    struct tokenizer *t = open_folder(assets_path("decoder/tinystories-656k"));
    json_t *root = load(assets_path("decoder/tinystories-656k/golden.json")), *item;
    size_t i;
    json_array_foreach(json_object_get(root, "cases"), i, item)
        check_ids(t, "tinystories", text_field(item, "prompt"),
                  ENCODE_ADDED_TOKENS | ENCODE_SPECIAL, json_object_get(item, "input_ids"));
    assert_int_equal(tokenizer_special(t, SPECIAL_BOS), 1);
    assert_int_equal(tokenizer_special(t, SPECIAL_EOS), 2);
    json_decref(root);
    tokenizer_close(t);
}

static struct text read_all(struct arena *arena, const char *path)
{
    struct text text = {0};
    struct error err;
    if (file_read(&text, arena, path, 64 << 20, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    return text;
}

static json_t *ids_of_line(const char *line, size_t bytes)
{
    json_t *ids = json_array();
    const char *end = line + bytes;
    while (line < end) {
        char *next;
        long id = strtol(line, &next, 10);
        if (next == line || next > end)
            break;
        json_array_append_new(ids, json_integer(id));
        line = next;
    }
    return ids;
}

// direct: the file itself is opened as the model.
static void gguf_vectors(const char *name, bool direct)
{
    static const char mark[] = "\n__ggml_vocab_test__\n";
    char path[512];
    snprintf(path, sizeof path, "%s/gguf-vocab/ggml-vocab-%s.gguf", assets_path("tokenizer"), name);
    struct tokenizer *t = direct ? open_folder(path) : open_gguf(name);
    struct arena *arena = arena_create(0, 0);
    snprintf(path, sizeof path, "%s/gguf-vocab/ggml-vocab-%s.gguf.inp", assets_path("tokenizer"),
             name);
    struct text in = read_all(arena, path);
    snprintf(path, sizeof path, "%s/gguf-vocab/ggml-vocab-%s.gguf.out", assets_path("tokenizer"),
             name);
    struct text out = read_all(arena, path);
    size_t line = 0;
    while (in.bytes > 0 && line < out.bytes) {
        const char *next = memmem(in.at, in.bytes, mark, sizeof mark - 1);
        size_t bytes = next ? (size_t)(next - in.at) : in.bytes;
        const char *end = memchr(out.at + line, '\n', out.bytes - line);
        size_t line_bytes = end ? (size_t)(end - out.at) - line : out.bytes - line;
        json_t *want = ids_of_line(out.at + line, line_bytes);
        if (t)
            check_ids(t, name, text_span(in.at, bytes), ENCODE_ADDED_TOKENS, want);
        else
            skipped++;
        json_decref(want);
        line += line_bytes + 1;
        size_t skip = next ? bytes + sizeof mark - 1 : in.bytes;
        in = text_span(in.at + skip, in.bytes - skip);
    }
    arena_destroy(arena);
    tokenizer_close(t);
}

static void test_gguf_vocabularies(void **state)
{
    (void)state;
    static const char *const names[] = {"bert-bge", "deepseek-coder", "falcon",
                                        "gpt-2",    "llama-spm",      "phi-3"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        gguf_vectors(names[i], false);
        gguf_vectors(names[i], true);
    }
}

// Opens the vocabulary of a model in tokenizer_tests.json. Returns NULL if it is not in the assets.
static struct tokenizer *open_model(const char *name)
{
    if (strstr(name, "bert-base-uncased"))
        return open_folder(assets_path("tokenizer/bert-uncased"));
    if (strcmp(name, "distilgpt2") == 0)
        return open_gguf("gpt-2");
    if (strstr(name, "Llama-2"))
        return open_gguf("llama-spm"); // hf/llama2 lacks the no-break space
    if (strstr(name, "falcon"))
        return open_gguf("falcon");
    if (strcmp(name, "t5-base") == 0)
        return open_folder(assets_path("tokenizer/hf/t5-small"));
    return NULL;
}

static void test_named_models(void **state)
{
    (void)state;
    json_t *root = load(assets_path("tokenizer/vectors/tokenizer_tests.json")), *cases, *item;
    const char *name;
    size_t i;
    json_object_foreach(root, name, cases)
    {
        struct tokenizer *t = open_model(name);
        if (!t) {
            printf("skipped: %zu vectors, no vocabulary of %s\n", json_array_size(cases), name);
            skipped += (unsigned)json_array_size(cases);
            continue;
        }
        json_array_foreach(cases, i, item)
            check_ids(t, name, text_field(item, "input"), ENCODE_ADDED_TOKENS | ENCODE_SPECIAL,
                      json_object_get(json_object_get(item, "encoded"), "input_ids"));
        tokenizer_close(t);
    }
    json_decref(root);
}

static void long_text(const char *file, struct tokenizer *t, unsigned flags)
{
    char path[512];
    snprintf(path, sizeof path, "%s/vectors/%s", assets_path("tokenizer"), file);
    json_t *root = load(path);
    if (t)
        check_ids(t, file, text_field(root, "text"), flags, json_object_get(root, "token_ids"));
    else
        skipped++;
    json_decref(root);
    tokenizer_close(t);
}

static void test_long_texts(void **state)
{
    (void)state;
    unsigned special = ENCODE_ADDED_TOKENS | ENCODE_SPECIAL;
    long_text("bert_uncased_encoded.json", open_folder(assets_path("tokenizer/bert-uncased")),
              special);
    long_text("gpt2_encoded_tokens.json", open_gguf("gpt-2"), ENCODE_ADDED_TOKENS);
    long_text("llama_encoded.json", open_folder(assets_path("tokenizer/hf/llama2")), special);
    long_text("t5_base_encoded.json", open_folder(assets_path("tokenizer/hf/t5-small")), special);
}

static void test_questions(void **state)
{
    (void)state;
    struct tokenizer *t = open_folder(assets_path("tokenizer/bert-uncased"));
    struct arena *arena = arena_create(0, 0);
    struct text lines =
        read_all(arena, assets_path("tokenizer/vectors/bert_uncased_questions.jsonl"));
    struct error err;
    while (lines.bytes > 0) {
        const char *end = memchr(lines.at, '\n', lines.bytes);
        size_t bytes = end ? (size_t)(end - lines.at) : lines.bytes;
        json_t *root = NULL;
        assert_int_equal(json_parse(&root, text_span(lines.at, bytes), &err), STATUS_OK);
        check_ids(t, "questions", text_field(root, "text"), ENCODE_ADDED_TOKENS,
                  json_object_get(root, "ids"));
        json_decref(root);
        bytes += end != NULL;
        lines = text_span(lines.at + bytes, lines.bytes - bytes);
    }
    arena_destroy(arena);
    tokenizer_close(t);
}

// The texts of these folders are restored from their ids.
static void test_folders_round_trip(void **state)
{
    (void)state;
    const char *const folders[] = {
        assets_path("tokenizer/hf/llama2"), assets_path("tokenizer/hf/phi-2"),
        assets_path("tokenizer/hf/roberta-base"), assets_path("decoder/tinystories-656k")};
    static const char sample[] = "Once upon a time,\n there was 1 little girl. It isn't far.";
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        struct tokenizer *t = open_folder(folders[i]);
        struct arena *arena = arena_create(0, 0);
        struct encode_args args = {
            .text = text_of(sample), .flags = ENCODE_SPECIAL, .arena = arena};
        int32_t tokens[256];
        uint32_t count = 0;
        struct error err;
        struct text text;
        assert_int_equal(tokenizer_encode(t, &args, tokens, 256, &count, &err), STATUS_OK);
        struct decode_args back = {tokens, count, true, arena};
        assert_int_equal(tokenizer_decode(t, &back, &text, &err), STATUS_OK);
        assert_int_equal(text.bytes, sizeof sample - 1);
        assert_memory_equal(text.at, sample, text.bytes);
        arena_destroy(arena);
        tokenizer_close(t);
    }
}

static void recorded_kind(const char *name, const json_t *kind, const json_t *texts)
{
    char path[512];
    snprintf(path, sizeof path, "%s/tokenizer.json", made_folder);
    assert_int_equal(json_dump_file(json_object_get(kind, "tokenizer"), path, 0), 0);
    struct tokenizer *t = open_folder(made_folder);
    unlink(path);
    const json_t *vectors = json_object_get(kind, "vectors"), *one;
    size_t i;
    assert_int_equal(json_array_size(vectors), json_array_size(texts));
    json_array_foreach(vectors, i, one)
    {
        const json_t *value = json_array_get(texts, i), *ids = json_object_get(one, "special");
        struct text text = text_span(json_string_value(value), json_string_length(value));
        check_ids(t, name, text, ENCODE_ADDED_TOKENS | ENCODE_SPECIAL, ids);
        check_ids(t, name, text, ENCODE_ADDED_TOKENS, json_object_get(one, "plain"));
        int32_t tokens[1024];
        uint32_t count = (uint32_t)json_array_size(ids);
        assert_true(count <= 1024);
        for (uint32_t k = 0; k < count; k++)
            tokens[k] = (int32_t)json_integer_value(json_array_get(ids, k));
        struct arena *arena = arena_create(0, 0);
        struct decode_args args = {tokens, count, true, arena};
        struct text back, want = text_field(one, "decoded");
        struct error err;
        assert_int_equal(tokenizer_decode(t, &args, &back, &err), STATUS_OK);
        if (back.bytes != want.bytes || memcmp(back.at, want.at, want.bytes) != 0)
            fail_msg("%s: text %zu comes back as \"%.*s\", not as \"%.*s\"", name, i,
                     (int)back.bytes, back.at, (int)want.bytes, want.at);
        arena_destroy(arena);
    }
    tokenizer_close(t);
}

static void test_recorded_here(void **state)
{
    (void)state;
    json_t *root = load(WEFT_SOURCE_DIR "/tests/runtime/recorded/tokenizers.json"), *kind;
    const char *name;
    json_object_foreach(json_object_get(root, "kinds"), name, kind)
        recorded_kind(name, kind, json_object_get(root, "texts"));
    json_decref(root);
    printf("recorded here: %u exact, %u wrong\n", exact, wrong);
    assert_int_equal(wrong, 0);
    assert_true(exact >= 300);
}

static void test_counts(void **state)
{
    (void)state;
    printf("tokenizer vectors: %u exact, %u wrong, %u skipped\n", exact, wrong, skipped);
    assert_int_equal(wrong, 0);
    assert_true(exact > 0);
}

int main(void)
{
    const struct CMUnitTest here[] = {cmocka_unit_test(test_recorded_here)};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_prompts), cmocka_unit_test(test_gguf_vocabularies),
        cmocka_unit_test(test_named_models),   cmocka_unit_test(test_long_texts),
        cmocka_unit_test(test_questions),      cmocka_unit_test(test_folders_round_trip),
        cmocka_unit_test(test_counts),
    };
    snprintf(made_folder, sizeof made_folder, "/tmp/weft-vocab-XXXXXX");
    if (!mkdtemp(made_folder))
        return 1;
    int failed = cmocka_run_group_tests(here, NULL, NULL);
    struct stat facts;
    if (stat(assets_path("tokenizer/vectors"), &facts) == 0)
        failed += cmocka_run_group_tests(tests, NULL, NULL);
    else
        printf("%s: not there, so published vocabularies are left out\n",
               assets_path("tokenizer/vectors"));
    rmdir(made_folder);
    return failed;
}
