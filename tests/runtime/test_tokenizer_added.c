// SPDX-License-Identifier: Apache-2.0
// The rules of added tokens on small vocabularies: flags, words and markers in plain text,
// segments, normalizers. The expected ids were worked out by hand from the rules.
#include "runtime/text/tokenizer.h"
#include "tests/runtime/tokenizer_memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

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

static void test_added_token_flags(void **state)
{
    (void)state;
    struct tokenizer *t = open_text(letters, NULL);
    EXPECT(t, "ab<s>ba", ENCODE_ADDED_TOKENS, 4, 10, 1, 0);
    EXPECT(t, "ab<s>", ENCODE_PLAIN, 4, 5, 7, 6);
    EXPECT(t, "a  <l> a", ENCODE_ADDED_TOKENS, 0, 11, 3, 0);
    EXPECT(t, "a <r>  a", ENCODE_ADDED_TOKENS, 0, 3, 12, 0);
    EXPECT(t, "bb abb bb", ENCODE_ADDED_TOKENS, 13, 3, 4, 1, 3, 13);
    EXPECT(t, "Cc cC", ENCODE_ADDED_TOKENS, 14, 3, 14); // matched in normalized text
    EXPECT(t, "cC", ENCODE_PLAIN, 14);                  // not special: a word
    EXPECT(t, "A\xFFz", ENCODE_PLAIN, 0, 8, 8);         // an invalid byte counts as one character
    assert_int_equal(tokenizer_token(t, text_of("<s>")), 10);
    assert_int_equal(tokenizer_token(t, text_of("<t>")), -1);
    assert_true(tokenizer_is_special(t, 10) && !tokenizer_is_special(t, 11));
    assert_false(tokenizer_is_special(t, -1) || tokenizer_is_special(t, 1000));
    assert_int_equal(tokenizer_vocab(t), 15);
    tokenizer_close(t);
}

// In plain text an added token is a word unless it is special or a marker of the template or of a
// dialect. A special token in plain text hides the words in it, as in the reference library.
static void test_added_words(void **state)
{
    (void)state;
    static const char json[] =
        "{\"added_tokens\":[{\"id\":20,\"content\":\"\u00fc\"},{\"id\":21,\"content\":\"   \"},"
        "{\"id\":22,\"content\":\"<b>\"},{\"id\":23,\"content\":\"<think>\"},"
        "{\"id\":24,\"content\":\"<tool_call>\"},{\"id\":25,\"content\":\"[X]\"},"
        "{\"id\":26,\"content\":\"<|a|>\"},{\"id\":27,\"content\":\"<ab>\",\"special\":true},"
        "{\"id\":28,\"content\":\"ab\",\"normalized\":false},{\"id\":29,\"content\":\"{%y\"}],"
        "\"model\":{\"vocab\":{\"a\":0,\"b\":1,\" \":2,\"<\":3,\">\":4,\"?\":5},"
        "\"unk_token\":\"?\",\"merges\":[]}}";
    struct tokenizer *t =
        open_text(json, "{\"chat_template\":\"   [X] \u00fc ab {{ '<|' + r }}\"}");
    added_guard_markers(t);
    EXPECT(t, "a\u00fcb", ENCODE_PLAIN, 0, 20, 1);
    EXPECT(t, "a    b", ENCODE_PLAIN, 0, 21, 2, 1);
    EXPECT(t, "<b>ab", ENCODE_PLAIN, 22, 28);
    EXPECT(t, "<ab>ab", ENCODE_PLAIN, 3, 0, 1, 4, 28);
    EXPECT(t, "<think>", ENCODE_PLAIN, 3, 5, 5, 5, 5, 5, 4);
    EXPECT(t, "<tool_call>", ENCODE_PLAIN, 3, 5, 5, 5, 5, 5, 5, 0, 5, 5, 4);
    EXPECT(t, "[X]", ENCODE_PLAIN, 5, 5, 5);
    EXPECT(t, "<|a|>", ENCODE_PLAIN, 3, 5, 0, 5, 4);
    EXPECT(t, "{%y", ENCODE_PLAIN, 29);
    EXPECT(t, "<think>[X]<|a|><ab>", ENCODE_ADDED_TOKENS, 23, 25, 26, 27);
    // A word may consist of text of the template and of the client; a marker may not.
    static const int32_t want[] = {23, 28, 3, 5, 5, 5, 5, 5, 4, 21};
    struct text_segment segments[] = {{text_of("<think>a"), false},
                                      {text_of("b<thi"), true},
                                      {text_of("nk> "), false},
                                      {text_of("  "), true}};
    expect(t, (struct encode_args){.segments = segments, .segment_count = 4}, want, 10);
    tokenizer_guard_template(t, text_of("<b>"));
    EXPECT(t, "<b>", ENCODE_PLAIN, 3, 1, 4);
    tokenizer_close(t);
}

// Tokens that only tokenizer_config.json names. The results are those of transformers 5: the flags
// of added_tokens_decoder win, a token that is new gets the next free id whatever its key.
static void test_tokens_of_the_config(void **state)
{
    (void)state;
    static const char json[] =
        "{\"added_tokens\":[{\"id\":4,\"content\":\"<i>\",\"normalized\":false}],"
        "\"model\":{\"vocab\":{\"a\":0,\" \":1,\"?\":2,\"<v>\":3},"
        "\"unk_token\":\"?\",\"merges\":[]}}";
    struct tokenizer *t =
        open_text(json, "{\"added_tokens_decoder\":{\"77\":{\"content\":\"<y>\",\"lstrip\":true},"
                        "\"4\":{\"content\":\"<i>\",\"special\":true,\"normalized\":false},"
                        "\"60\":{\"content\":\"<x>\",\"rstrip\":true}}}");
    EXPECT(t, "a<i>a <y>a<x> a", ENCODE_ADDED_TOKENS, 0, 4, 0, 6, 0, 5, 0);
    EXPECT(t, "<i><y>", ENCODE_PLAIN, 2, 2, 2, 6);
    assert_true(tokenizer_is_special(t, 4) && !tokenizer_is_special(t, 5));
    tokenizer_close(t);
    t = open_text(json,
                  "{\"eos_token\":\"<i>\",\"pad_token\":{\"content\":\"<p>\",\"lstrip\":true},"
                  "\"image_token\":\"<y>\",\"extra_special_tokens\":{\"sound_token\":"
                  "\"<v>\"}}");
    EXPECT(t, "<i> <p><y><v>", ENCODE_ADDED_TOKENS, 4, 5, 6, 3);
    for (int32_t id = 3; id < 7; id++)
        assert_true(tokenizer_is_special(t, id));
    struct text token;
    assert_string_equal(tokenizer_own_special(t, 0, &token), "image_token");
    assert_true(text_is(token, "<y>"));
    assert_string_equal(tokenizer_own_special(t, 1, &token), "sound_token");
    assert_null(tokenizer_own_special(t, 2, &token));
    tokenizer_close(t);
    t = open_text(json, "{\"additional_special_tokens\":[\"<y>\",{\"content\":\"<x>\"}]}");
    EXPECT(t, "<y><x>", ENCODE_ADDED_TOKENS, 5, 6);
    assert_true(tokenizer_is_special(t, 5) && tokenizer_is_special(t, 6));
    tokenizer_close(t);
    struct error err;
    assert_int_equal(tokenizer_open_memory(&t, text_of(json),
                                           text_of("{\"added_tokens_decoder\":{\"x\":{}}}"), &err),
                     STATUS_INVALID);
}

// A token of spaces that includes neighbouring spaces: the text of a match is not matched again.
static void test_tokens_of_spaces(void **state)
{
    (void)state;
    struct tokenizer *t =
        open_text("{\"added_tokens\":[{\"id\":3,\"content\":\"  \",\"lstrip\":true,\"rstrip\":true,"
                  "\"normalized\":false}],\"model\":{\"vocab\":{\"a\":0,\"b\":1,\" \":2},"
                  "\"merges\":[]}}",
                  NULL);
    EXPECT(t, "a         b", ENCODE_ADDED_TOKENS, 0, 3, 1);
    EXPECT(t, "a b  ", ENCODE_ADDED_TOKENS, 0, 2, 1, 3);
    tokenizer_close(t);
}

// Among added tokens with equal normalized forms, special ones are found first, then the first one.
static void test_added_tokens_of_one_form(void **state)
{
    (void)state;
    struct tokenizer *t = open_text(
        "{\"normalizer\":{\"type\":\"Lowercase\"},\"added_tokens\":[{\"id\":5,\"content\":\"XX\"},"
        "{\"id\":6,\"content\":\"xX\"},{\"id\":3,\"content\":\"AB\"},"
        "{\"id\":4,\"content\":\"Ab\",\"special\":true,\"normalized\":true}],"
        "\"model\":{\"vocab\":{\"a\":0,\"b\":1,\"x\":2},\"merges\":[]}}",
        NULL);
    EXPECT(t, "abxABxxab", ENCODE_ADDED_TOKENS, 4, 2, 4, 5, 4);
    tokenizer_close(t);
}

static void test_plain_segments(void **state)
{
    (void)state;
    struct tokenizer *t = open_text(letters, NULL);
    static const int32_t want[] = {10, 5, 7, 6, 10, 4};
    struct text_segment segments[] = {{text_of("<s>"), false},
                                      {text_of("<s>"), true},
                                      {text_of("<s>a"), false},
                                      {text_of("b"), true}};
    expect(t, (struct encode_args){.segments = segments, .segment_count = 4}, want, 6);
    // A marker that the user wrote in part is not a marker; the text around it is not affected.
    static const int32_t half[] = {5, 7, 6, 10};
    struct text_segment halves[] = {{text_of("<"), true}, {text_of("s><s>"), false}};
    expect(t, (struct encode_args){.segments = halves, .segment_count = 2}, half, 4);
    // Matched after normalization, also across segments: the token is a word.
    static const int32_t late[] = {14, 2};
    struct text_segment after[] = {{text_of("C"), true}, {text_of("CC"), false}};
    expect(t, (struct encode_args){.segments = after, .segment_count = 2}, late, 2);
    tokenizer_close(t);
}

// Text of the user never becomes a special token, whatever a normalizer makes of it or of the text
// before it. A token of the template after it is found.
static void test_plain_marks_pass_normalizers(void **state)
{
    (void)state;
    enum { C = 4, Y = 5, CC = 14, OTHER = 8, E = 6 };
    static const char strip[] = "{\"type\":\"Strip\"}";
    static const char gone[] =
        "{\"type\":\"Replace\",\"pattern\":{\"String\":\"b\"},\"content\":\"\"}";
    static const char made[] =
        "{\"type\":\"Replace\",\"pattern\":{\"String\":\"q\"},\"content\":\"CC\"}";
    static const char regex[] =
        "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"b+\"},\"content\":\"y\"}";
    static const char clean[] = "{\"type\":\"BertNormalizer\",\"lowercase\":false}";
    static const char bytes[] = "{\"type\":\"ByteLevel\"}";
    static const struct {
        const char *normalizer, *first;
        bool first_plain;
        const char *second;
        int32_t want[6];
        uint32_t count;
    } cases[] = {
        {strip, "  ", false, "CC", {C, C}, 2},
        {strip, "  C", true, "CC", {C, CC}, 2},
        {strip, "CC", false, "C  ", {CC, C}, 2},
        {gone, "b", false, "CC", {C, C}, 2},
        {gone, "bbC", true, "CC", {C, CC}, 2},
        {gone, "bCbC", true, "CC", {C, C, CC}, 3},
        {made, "q", true, "q", {C, C, CC}, 3},
        {made, "q", false, "q", {CC, C, C}, 3},
        {regex, "bb", false, "CC", {Y, C, C}, 3},
        {regex, "bbC", true, "CC", {Y, C, CC}, 3},
        {"{\"type\":\"NFC\"}", "e\u0301", false, "CC", {E, C, C}, 3},
        {"{\"type\":\"NFC\"}", "e\u0301C", true, "CC", {E, C, CC}, 3},
        {"{\"type\":\"NFKC\"}", "\uFF23", true, "CC", {C, CC}, 2},
        {"{\"type\":\"NFKC\"}", "y", false, "\uFF23\uFF23", {Y, C, C}, 3},
        {"{\"type\":\"StripAccents\"}", "\u0301C", true, "CC", {C, CC}, 2},
        {"{\"type\":\"StripAccents\"}", "\u0301\u0301", false, "CC", {C, C}, 2},
        {"{\"type\":\"Nmt\"}", "\x01", false, "CC", {C, C}, 2},
        {clean, "\x01", false, "CC", {C, C}, 2},
        {clean,
         "\x01\x01"
         "C",
         true,
         "CC",
         {C, CC},
         2},
        {bytes, "\u00e9", false, "CC", {OTHER, OTHER, C, C}, 4},
        {bytes, "\u00e9", true, "CC", {OTHER, OTHER, CC}, 3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char json[1024];
        snprintf(json, sizeof json,
                 "{\"added_tokens\":[{\"id\":14,\"content\":\"CC\",\"normalized\":true,\"special\":"
                 "true}],"
                 "\"normalizer\":%s,\"model\":{\"vocab\":{\"C\":4,\"y\":5,\"\u00e9\":6,\"?\":8},"
                 "\"unk_token\":\"?\",\"merges\":[]}}",
                 cases[i].normalizer);
        struct tokenizer *t = open_text(json, NULL);
        struct text_segment segments[] = {{text_of(cases[i].first), cases[i].first_plain},
                                          {text_of(cases[i].second), !cases[i].first_plain}};
        expect(t, (struct encode_args){.segments = segments, .segment_count = 2}, cases[i].want,
               cases[i].count);
        tokenizer_close(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_added_token_flags),
        cmocka_unit_test(test_added_words),
        cmocka_unit_test(test_tokens_of_the_config),
        cmocka_unit_test(test_tokens_of_spaces),
        cmocka_unit_test(test_added_tokens_of_one_form),
        cmocka_unit_test(test_plain_segments),
        cmocka_unit_test(test_plain_marks_pass_normalizers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
