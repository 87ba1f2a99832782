// SPDX-License-Identifier: Apache-2.0
// A large text is prepared in slices: each stage counts its work, stops if the result is no longer
// wanted, and gives the same tokens and text as without slices.
#include "runtime/text/prompt.h"
#include "runtime/text/rerank.h"
#include "tests/base/counted.h"
#include "tests/runtime/tokenizer_memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { BYTES = 100000, EACH = 1000, TOKENS_MAX = 2 * BYTES + 100 };

static char words[BYTES], word[BYTES], angles[BYTES], capitals[BYTES];
static int32_t tokens[TOKENS_MAX], again[TOKENS_MAX];

struct way {
    const char *what, *json;
    char *text;      // [BYTES]
    uint32_t slices; // minimum number of slices
};

#define LETTERS "\"a\":0,\"b\":1,\" \":2,\"aa\":3,\"aaaa\":4,\"?\":5,\"<\":6,\"c\":7"
#define BPE "\"model\":{\"vocab\":{" LETTERS "},\"unk_token\":\"?\",\"merges\":[\"a a\",\"aa aa\"]}"
#define BPE_WITH(parts) "{" parts "," BPE "}"

static const struct way ways[] = {
    {"a long word", "{" BPE "}", word, 1000},
    {"a long text as one word", "{" BPE "}", words, 100},
    {"words", BPE_WITH("\"pre_tokenizer\":{\"type\":\"Whitespace\"}"), words, 100},
    {"words by a pattern",
     BPE_WITH("\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\" ?b+\"},"
              "\"behavior\":\"Isolated\"}"),
     words, 100},
    {"a run beyond the stack of a pattern",
     BPE_WITH("\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(?:a|[^\\\\S])+\"},"
              "\"behavior\":\"Isolated\"}"),
     word, 1200},
    {"lower case", BPE_WITH("\"normalizer\":{\"type\":\"Lowercase\"}"), capitals, 200},
    {"replacement",
     BPE_WITH("\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\"b\"},\"content\":"
              "\"aa\"}"),
     words, 150},
    {"what could be added tokens",
     BPE_WITH("\"added_tokens\":[{\"id\":9,\"content\":\"<s>\",\"special\":true}]"), angles, 200},
    {"unigram",
     "{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"?\",0],[\"a\",-1],[\"b\",-2],"
     "[\" \",-2],[\"aa\",-1.5],[\"<\",-3]]}}",
     words, 400},
    {"wordpiece",
     "{\"pre_tokenizer\":{\"type\":\"Whitespace\"},\"model\":{\"type\":\"WordPiece\",\"unk_token\":"
     "\"?\",\"vocab\":{\"?\":0,\"a\":1,\"b\":2,\"##a\":3,\"##b\":4}}}",
     words, 100},
};

static void texts_fill(void)
{
    for (size_t i = 0; i < BYTES; i++) {
        words[i] = "aab aaaab ba "[i % 13];
        word[i] = 'a';
        angles[i] = '<';
        capitals[i] = "AAB"[i % 3];
    }
}

static enum status encode(const struct tokenizer *t, const char *text, struct slice *slice,
                          int32_t *out, uint32_t *count)
{
    struct error err;
    struct encode_args args = {.text = text_span(text, BYTES),
                               .flags = ENCODE_ADDED_TOKENS,
                               .arena = arena_create(0, 0),
                               .slice = slice};
    enum status status = tokenizer_encode(t, &args, out, TOKENS_MAX, count, &err);
    arena_destroy(args.arena);
    return status;
}

static void test_tokenizers(void **state)
{
    (void)state;
    texts_fill();
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        const struct way *way = &ways[i];
        struct tokenizer *t;
        struct error err;
        uint32_t want = 0, count = 0;
        if (tokenizer_open_memory(&t, text_of(way->json), text_span(NULL, 0), &err) != STATUS_OK)
            fail_msg("%s: %s", way->what, err.text);
        assert_int_equal(encode(t, way->text, NULL, tokens, &want), STATUS_OK);
        struct slice slice = counted_begin(EACH, 0);
        assert_int_equal(encode(t, way->text, &slice, again, &count), STATUS_OK);
        assert_int_equal(count, want);
        assert_memory_equal(tokens, again, count * sizeof *tokens);
        if (counted.passes < way->slices)
            fail_msg("%s: %u slices", way->what, counted.passes);
        uint32_t all = counted.passes, stops[] = {1, all / 2, all};
        for (int k = 0; k < 3; k++) {
            slice = counted_begin(EACH, stops[k]);
            if (encode(t, way->text, &slice, again, &count) != STATUS_UNWANTED)
                fail_msg("%s goes on behind slice %u", way->what, stops[k]);
            assert_int_equal(counted.passes, stops[k]);
        }
        tokenizer_close(t);
    }
}

// The slices of a document are those of its text and the query.
static void test_rerank(void **state)
{
    (void)state;
    struct tokenizer *t;
    struct error err;
    texts_fill();
    assert_int_equal(tokenizer_open_memory(&t, text_of(ways[2].json), text_span(NULL, 0), &err),
                     STATUS_OK);
    for (enum rerank_form form = RERANK_PAIR; form < RERANK_FORMS; form++) {
        struct slice slice = counted_begin(EACH, 0);
        struct arena *arena = arena_create(0, 0);
        struct rerank_prompt *prompt;
        struct rerank_input input;
        struct rerank_args args = {.tokenizer = t,
                                   .form = form,
                                   .query = text_of("a"),
                                   .tokens_max = 5000,
                                   .arena = arena,
                                   .slice = &slice};
        struct text document = text_span(words, BYTES);
        assert_int_equal(rerank_prompt_make(&prompt, &args, &err), STATUS_OK);
        uint32_t before = counted.passes;
        assert_int_equal(rerank_prompt_encode(prompt, document, arena, &input, &err), STATUS_OK);
        assert_in_range(counted.passes - before, 100, 10000);
        counted.stop_at = counted.passes + 1;
        assert_int_equal(rerank_prompt_encode(prompt, document, arena, &input, &err),
                         STATUS_UNWANTED);
        arena_destroy(arena);
    }
    tokenizer_close(t);
}

static enum status prompt(const struct tokenizer *t, const struct chat_template *chat,
                          struct slice *slice, uint32_t tokens_most, uint32_t *count)
{
    struct error err;
    int32_t *out;
    json_t *variables =
        json_pack("{s:[{s:s,s:s%}]}", "messages", "role", "user", "content", words, (size_t)BYTES);
    struct prompt_args args = {.tokenizer = t,
                               .chat = chat,
                               .variables = variables,
                               .tokens_max = tokens_most,
                               .arena = arena_create(0, 0),
                               .slice = slice};
    enum status status = prompt_tokens(&args, &out, count, &err);
    arena_destroy(args.arena);
    json_decref(variables);
    return status;
}

// Template and tokenizer both count their work: with a window of ten tokens nearly all work is that
// of the template.
static void test_prompt(void **state)
{
    (void)state;
    static const char source[] = "{% for m in messages %}{% for w in m.content.split(' ') %}{{ w "
                                 "}} {% endfor %}{% endfor %}";
    struct tokenizer *t;
    struct chat_template *chat;
    struct error err;
    uint32_t whole, cut, count;
    texts_fill();
    assert_int_equal(tokenizer_open_memory(&t, text_of(ways[2].json), text_span(NULL, 0), &err),
                     STATUS_OK);
    assert_int_equal(chat_template_create(&chat, text_of(source), &err), STATUS_OK);
    struct slice slice = counted_begin(EACH, 0);
    assert_int_equal(prompt(t, chat, &slice, 0, &count), STATUS_OK);
    whole = counted.passes;
    slice = counted_begin(EACH, 0);
    assert_int_equal(prompt(t, chat, &slice, 10, &count), STATUS_TOO_LARGE);
    cut = counted.passes;
    assert_in_range(cut, 300, 10000);
    assert_in_range(whole - cut, 100, 10000);
    uint32_t stops[] = {1, cut / 2, cut + (whole - cut) / 2};
    for (int k = 0; k < 3; k++) {
        slice = counted_begin(EACH, stops[k]);
        assert_int_equal(prompt(t, chat, &slice, 0, &count), STATUS_UNWANTED);
        assert_int_equal(counted.passes, stops[k]);
    }
    chat_template_destroy(chat);
    tokenizer_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tokenizers),
        cmocka_unit_test(test_rerank),
        cmocka_unit_test(test_prompt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
