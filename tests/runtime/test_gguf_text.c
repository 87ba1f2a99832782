// SPDX-License-Identifier: Apache-2.0
// Tokenizers of GGUF files: small vocabularies of each kind, with ids worked out by hand; chat
// templates and special tokens. Complete vocabularies are in test_tokenizer, if the shared data are
// present.
#include "runtime/source/gguf_documents.h"
#include "runtime/text/tokenizer.h"
#include "tests/runtime/gguf_rig.h"

#include "base/arena.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { I32 = 5, F32 = 6, TOKENS_MAX = 64 };

static struct tokenizer *open_build(struct gguf_build *b)
{
    char folder[64], path[128];
    struct gguf_bytes bytes = gguf_finish(b);
    struct tokenizer *t = NULL;
    struct error err;
    folder_make(folder);
    file_write(folder, "t.gguf", bytes.at, bytes.bytes);
    snprintf(path, sizeof path, "%s/t.gguf", folder);
    if (tokenizer_open(&t, path, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    heap_free(bytes.at);
    folder_remove(folder);
    return t;
}

// want: ids separated by blanks.
static void encodes(const struct tokenizer *t, const char *text, const char *want)
{
    int32_t tokens[TOKENS_MAX];
    uint32_t count = 0;
    char got[512] = "";
    struct error err;
    struct encode_args args = {.text = text_of(text),
                               .flags = ENCODE_ADDED_TOKENS | ENCODE_SPECIAL,
                               .arena = arena_create(0, 0)};
    assert_int_equal(tokenizer_encode(t, &args, tokens, TOKENS_MAX, &count, &err), STATUS_OK);
    for (uint32_t i = 0; i < count; i++)
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s%d", i ? " " : "", tokens[i]);
    assert_string_equal(got, want);
    arena_destroy(args.arena);
}

static void test_byte_pairs_with_a_pre_tokenizer_by_name(void **state)
{
    (void)state;
    static const char *const tokens[] = {"<|end|>", "1",  "2",        "a",      "b",  "\u0120",
                                         "ab",      "12", "\u0120ab", "<user>", "aab"};
    static const char *const merges[] = {"a b", "1 2", "\u0120 ab"};
    static const int32_t kinds[] = {3, 1, 1, 1, 1, 1, 1, 1, 1, 4, 1};
    static const struct {
        const char *pre, *text, *ids;
    } cases[] = {
        {"smollm", "12 ab", "1 2 8"}, // each digit is a word
        {"gpt-2", "12 ab", "7 8"},       {"qwen2", "12 ab", "1 2 8"},
        {"llama-bpe", "12 ab", "0 7 8"}, // and a beginning-of-text token is added
        {"llama-bpe", "aab", "0 10"},    // a word that is a token needs no merges
        {"gpt-2", "aab", "3 6"},         {"gpt-2", "a<user><|end|>", "3 9 0"},
        {"glm4", "aab", "10"},           {"chatglm-bpe", "aab", "3 6"}, // without a beginning
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct gguf_build b = {.key_count = 0};
        gguf_key_text(&b, "general.architecture", "llama");
        gguf_key_text(&b, "tokenizer.ggml.model", "gpt2");
        gguf_key_text(&b, "tokenizer.ggml.pre", cases[i].pre);
        gguf_key_texts(&b, "tokenizer.ggml.tokens", tokens, 11);
        gguf_key_array(&b, "tokenizer.ggml.token_type", I32, kinds, 11, 4);
        gguf_key_texts(&b, "tokenizer.ggml.merges", merges, 3);
        gguf_key_count(&b, "tokenizer.ggml.bos_token_id", 0);
        gguf_key_count(&b, "tokenizer.ggml.eos_token_id", 0xFFFFFFFFu); // there is none
        gguf_key_text(&b, "tokenizer.chat_template", "{{ messages }}");
        gguf_key_text(&b, "tokenizer.chat_template.tool_use", "tools \"x\"");
        struct tokenizer *t = open_build(&b);
        encodes(t, cases[i].text, cases[i].ids);
        assert_int_equal(tokenizer_special(t, SPECIAL_BOS), 0);
        assert_int_equal(tokenizer_special(t, SPECIAL_EOS), -1);
        assert_true(tokenizer_is_special(t, 0) && !tokenizer_is_special(t, 9));
        assert_true(text_is(tokenizer_chat_template(t, NULL), "{{ messages }}"));
        assert_true(text_is(tokenizer_chat_template(t, "tool_use"), "tools \"x\""));
        assert_null(tokenizer_chat_template(t, "rag").at);
        tokenizer_close(t);
    }
}

static void test_scores_are_merges(void **state)
{
    (void)state;
    static const char *const tokens[] = {"<unk>", "<s>", "</s>", "\u2581", "a",       "b",
                                         "c",     "ab",  "bc",   "abc",    "\u2581a", "<0x21>"};
    static const int32_t kinds[] = {2, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 6};
    static const float scores[] = {0, 0, 0, -9, -10, -11, -12, -3, -1, -2, -4, 0};
    for (int prefix = 0; prefix < 2; prefix++) {
        struct gguf_build b = {.key_count = 0};
        gguf_key_text(&b, "general.architecture", "llama");
        gguf_key_text(&b, "tokenizer.ggml.model", "llama");
        gguf_key_texts(&b, "tokenizer.ggml.tokens", tokens, 12);
        gguf_key_array(&b, "tokenizer.ggml.token_type", I32, kinds, 12, 4);
        gguf_key_array(&b, "tokenizer.ggml.scores", F32, scores, 12, 4);
        gguf_key_count(&b, "tokenizer.ggml.bos_token_id", 1);
        gguf_key_count(&b, "tokenizer.ggml.eos_token_id", 2);
        gguf_key_count(&b, "tokenizer.ggml.unknown_token_id", 0);
        gguf_key_flag(&b, "tokenizer.ggml.add_eos_token", true);
        if (prefix == 0)
            gguf_key_flag(&b, "tokenizer.ggml.add_space_prefix", false);
        struct tokenizer *t = open_build(&b);
        // "bc" has the best score, then "abc" of "a" and "bc"; "ab" is not reached.
        encodes(t, "abc", prefix ? "1 3 9 2" : "1 9 2");
        encodes(t, "ab", prefix ? "1 3 7 2" : "1 7 2");
        encodes(t, "a!", prefix ? "1 10 11 2" : "1 4 11 2");
        tokenizer_close(t);
    }
}

// Unigrams of XLM-RoBERTa: the cut with the largest sum of scores. In a pair two end tokens
// separate the texts.
static void test_unigrams(void **state)
{
    (void)state;
    static const char *const tokens[] = {"<s>",    "<pad>", "</s>", "<unk>", "\u2581ab",
                                         "\u2581", "a",     "b",    "ab"};
    static const int32_t kinds[] = {3, 3, 3, 2, 1, 1, 1, 1, 1};
    static const float scores[] = {0, 0, 0, 0, -1, -2, -3, -4, -6.5f};
    for (int words = 0; words < 2; words++) {
        struct gguf_build b = {.key_count = 0};
        gguf_key_text(&b, "general.architecture", "bert");
        gguf_key_text(&b, "tokenizer.ggml.model", "t5");
        gguf_key_texts(&b, "tokenizer.ggml.tokens", tokens, 9);
        gguf_key_array(&b, "tokenizer.ggml.token_type", I32, kinds, 9, 4);
        gguf_key_array(&b, "tokenizer.ggml.scores", F32, scores, 9, 4);
        gguf_key_count(&b, "tokenizer.ggml.bos_token_id", 0);
        gguf_key_count(&b, "tokenizer.ggml.eos_token_id", 2);
        gguf_key_count(&b, "tokenizer.ggml.unknown_token_id", 3);
        gguf_key_flag(&b, "tokenizer.ggml.add_bos_token", true);
        gguf_key_flag(&b, "tokenizer.ggml.remove_extra_whitespaces", words);
        struct tokenizer *t = open_build(&b);
        encodes(t, "abab", "0 4 8 2");
        encodes(t, "ab a", "0 4 5 6 2");
        encodes(t, "b z", "0 5 7 5 3 2");
        encodes(t, "ab  a ", words ? "0 4 5 6 2" : "0 4 5 5 6 5 2");
        int32_t ids[TOKENS_MAX];
        uint32_t count = 0;
        struct error err;
        struct text second = text_of("a");
        struct encode_args args = {.text = text_of("ab"),
                                   .pair = &second,
                                   .flags = ENCODE_SPECIAL,
                                   .arena = arena_create(0, 0)};
        static const int32_t pair[] = {0, 4, 2, 2, 5, 6, 2};
        assert_int_equal(tokenizer_encode(t, &args, ids, TOKENS_MAX, &count, &err), STATUS_OK);
        assert_int_equal(count, 7);
        assert_memory_equal(ids, pair, sizeof pair);
        arena_destroy(args.arena);
        tokenizer_close(t);
    }
}

// Phi-3's tokenizer drops blanks after most of its added tokens.
static void test_blanks_after_added_tokens(void **state)
{
    (void)state;
    static const char *const tokens[] = {"<unk>", "<s>",    "</s>",     "\u2581",       "a",
                                         "b",     "<0x0A>", "<|user|>", "<|endoftext|>"};
    static const int32_t kinds[] = {2, 3, 3, 1, 1, 1, 6, 4, 3};
    static const float scores[] = {0, 0, 0, -1, -2, -3, 0, 0, 0};
    static const struct {
        const char *family, *text, *ids;
    } cases[] = {
        {"phi3", "<|user|>\n a", "7 4"},
        {"phi3", "<|user|> \n<|user|>a", "7 7 4"},
        {"phi3", "<|endoftext|>\na", "8 6 4"},
        {"llama", "<|user|>\na", "7 6 4"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct gguf_build b = {.key_count = 0};
        gguf_key_text(&b, "general.architecture", cases[i].family);
        gguf_key_text(&b, "tokenizer.ggml.model", "llama");
        gguf_key_texts(&b, "tokenizer.ggml.tokens", tokens, 9);
        gguf_key_array(&b, "tokenizer.ggml.token_type", I32, kinds, 9, 4);
        gguf_key_array(&b, "tokenizer.ggml.scores", F32, scores, 9, 4);
        gguf_key_count(&b, "tokenizer.ggml.unknown_token_id", 0);
        gguf_key_flag(&b, "tokenizer.ggml.add_space_prefix", false);
        struct tokenizer *t = open_build(&b);
        encodes(t, cases[i].text, cases[i].ids);
        tokenizer_close(t);
    }
}

static void test_word_pieces_by_their_beginnings(void **state)
{
    (void)state;
    static const char *const tokens[] = {"[PAD]",      "[UNK]", "[CLS]",     "[SEP]",
                                         "\u2581play", "ing",   "\u2581ing", "s"};
    static const int32_t kinds[] = {3, 3, 3, 3, 1, 1, 1, 1};
    struct gguf_build b = {.key_count = 0};
    gguf_key_text(&b, "general.architecture", "bert");
    gguf_key_text(&b, "tokenizer.ggml.model", "bert");
    gguf_key_texts(&b, "tokenizer.ggml.tokens", tokens, 8);
    gguf_key_array(&b, "tokenizer.ggml.token_type", I32, kinds, 8, 4);
    gguf_key_count(&b, "tokenizer.ggml.unknown_token_id", 1);
    gguf_key_count(&b, "tokenizer.ggml.cls_token_id", 2);
    gguf_key_count(&b, "tokenizer.ggml.seperator_token_id", 3);
    struct tokenizer *t = open_build(&b);
    encodes(t, "Playing ing plays x", "2 4 5 6 4 7 1 3");
    assert_int_equal(tokenizer_special(t, SPECIAL_CLS), 2);
    assert_int_equal(tokenizer_special(t, SPECIAL_SEP), 3);
    tokenizer_close(t);
}

// For a model with little more than a vocabulary: its end ids and sampling defaults.
static void test_ends_are_found_by_their_texts(void **state)
{
    (void)state;
    static const char *const tokens[] = {"a", "<|eot_id|>", "</s>", "<|end", "<|endoftext|>", "b"};
    static const char *const counts[] = {
        "embedding_length", "block_count",         "attention.head_count",
        "context_length",   "feed_forward_length",
    };
    static const uint32_t values[] = {64, 2, 4, 128, 64};
    struct gguf_build b = {.key_count = 0};
    gguf_key_text(&b, "general.architecture", "llama");
    for (int i = 0; i < 5; i++) {
        char key[64];
        snprintf(key, sizeof key, "llama.%s", counts[i]);
        gguf_key_count(&b, key, values[i]);
    }
    gguf_key_number(&b, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    gguf_key_texts(&b, "tokenizer.ggml.tokens", tokens, 6);
    gguf_key_count(&b, "tokenizer.ggml.eos_token_id", 4);
    gguf_key_count(&b, "tokenizer.ggml.eot_token_id", 2);
    gguf_key_count(&b, "tokenizer.ggml.eom_token_id", 5);
    gguf_key_number(&b, "general.sampling.temp", 0.5f);
    gguf_key_count(&b, "general.sampling.top_k", 20);
    struct gguf_bytes bytes = gguf_finish(&b);
    struct arena *arena = arena_create(0, 0);
    struct json_buffer out = {0};
    const struct gguf_output paper = {&out, 1 << 20, arena};
    struct gguf file;
    struct error err;
    assert_int_equal(gguf_parse(&file, arena, text_span(bytes.at, bytes.bytes), "m", &err),
                     STATUS_OK);
    if (gguf_document(&paper, &file, "config.json", &err) != STATUS_OK)
        fail_msg("%s", err.text);
    json_put_raw(&out, text_span("", 1));
    assert_non_null(strstr(out.at, "\"eos_token_id\":[4,2,5,1]"));
    out.bytes = 0;
    assert_int_equal(gguf_document(&paper, &file, "generation_config.json", &err), STATUS_OK);
    assert_true(
        text_is(json_buffer_text(&out), "{\"from\":\"gguf\",\"temperature\":0.5,\"top_k\":20.0}"));
    json_buffer_free(&out);
    arena_destroy(arena);
    heap_free(bytes.at);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_byte_pairs_with_a_pre_tokenizer_by_name),
        cmocka_unit_test(test_scores_are_merges),
        cmocka_unit_test(test_unigrams),
        cmocka_unit_test(test_blanks_after_added_tokens),
        cmocka_unit_test(test_ends_are_found_by_their_texts),
        cmocka_unit_test(test_word_pieces_by_their_beginnings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
