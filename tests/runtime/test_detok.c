// SPDX-License-Identifier: Apache-2.0
// A stream of tokens gives the text of the complete sequence, in complete characters only, for each
// kind of decoder, also if it contains or ends with an incomplete character.
#include "tests/runtime/tokenizer_memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#define MARK "\xE2\x96\x81"
#define REPLACEMENT "\xEF\xBF\xBD"

static struct tokenizer *open_text(const char *json)
{
    struct tokenizer *t = NULL;
    struct error err;
    if (tokenizer_open_memory(&t, text_of(json), text_span(NULL, 0), &err) != STATUS_OK)
        fail_msg("%s", err.text);
    return t;
}

static void stream(const struct tokenizer *t, struct detok d, const int32_t *ids, uint32_t count,
                   const char *want)
{
    char all[4096], piece[1024];
    uint32_t bytes = 0;
    assert_true(detok_bound(t) <= sizeof piece);
    for (uint32_t i = 0; i <= count; i++) {
        struct detok copy = d; // a copy must behave like the original
        uint32_t n = i < count ? detok_push(&d, ids[i], piece, sizeof piece)
                               : detok_finish(&d, piece, sizeof piece);
        if (i < count && i % 2 == 0) {
            assert_int_equal(detok_push(&copy, ids[i], piece, sizeof piece), n);
            d = copy;
        }
        if (n > 0)
            assert_true(((unsigned char)piece[0] & 0xC0) != 0x80);
        memcpy(all + bytes, piece, n);
        bytes += n;
    }
    all[bytes] = '\0';
    assert_string_equal(all, want);
}

static void expect(const struct tokenizer *t, const int32_t *ids, uint32_t count, bool skip,
                   const char *want)
{
    struct detok d;
    struct text whole;
    struct error err;
    struct decode_args args = {ids, count, skip, arena_create(0, 0)};
    assert_int_equal(tokenizer_decode(t, &args, &whole, &err), STATUS_OK);
    if (!text_is(whole, want))
        fail_msg("whole: \"%.*s\", not \"%s\"", (int)whole.bytes, whole.at, want);
    arena_destroy(args.arena);
    detok_init(&d, t, skip);
    stream(t, d, ids, count, want);
}

#define EXPECT(t, skip, want, ...)                                                                 \
    do {                                                                                           \
        const int32_t ids[] = {__VA_ARGS__};                                                       \
        expect(t, ids, sizeof ids / sizeof *ids, skip, want);                                      \
    } while (0)

// Checks the exact bytes of the tokens, which grammars need.
#define EXPECT_EXACT(t, want, ...)                                                                 \
    do {                                                                                           \
        const int32_t ids[] = {__VA_ARGS__};                                                       \
        struct detok exact;                                                                        \
        detok_init(&exact, t, true);                                                               \
        detok_keep_edges(&exact);                                                                  \
        stream(t, exact, ids, sizeof ids / sizeof *ids, want);                                     \
    } while (0)

static const char fallback[] =
    "{\"added_tokens\":[{\"id\":0,\"content\":\"<s>\",\"special\":true}],"
    "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":"
    "{\"String\":\"" MARK "\"},\"content\":\" \"},{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},"
    "{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}]},"
    "\"model\":{\"vocab\":{\"<s>\":0,\"" MARK "hi\":1,\"" MARK "\":2,\"<0xC3>\":3,\"<0xA9>\":4,"
    "\"<0xF0>\":5,\"x\":6},\"merges\":[]}}";

static void test_byte_fallback(void **state)
{
    (void)state;
    struct tokenizer *t = open_text(fallback);
    EXPECT(t, true, "hi hi", 0, 1, 1);
    EXPECT(t, false, "<s> hi", 0, 1);
    EXPECT(t, true, " hi\xC3\xA9 x", 2, 1, 3, 4, 2, 6);
    EXPECT(t, true, "x" REPLACEMENT, 6, 3);
    EXPECT(t, true, "x", 6, -5, 100000);
    EXPECT(t, true, REPLACEMENT "x\xC3\xA9", 5, 6, 3, 4);
    EXPECT_EXACT(t, " hi hi ", 1, 1, 2);
    struct detok d;
    detok_init(&d, t, true);
    detok_continue(&d); // after a prompt the space is kept
    stream(t, d, (const int32_t[]){1, 1}, 2, " hi hi");
    assert_true(text_is(tokenizer_token_bytes(t, 1), " hi"));
    assert_true(text_is(tokenizer_token_text(t, 1), MARK "hi"));
    assert_true(text_is(tokenizer_token_bytes(t, 3), "\xC3"));
    tokenizer_close(t);
}

static void test_byte_level(void **state)
{
    (void)state;
    // Ġ is a space, Ã © are the two bytes of é.
    struct tokenizer *t = open_text(
        "{\"pre_tokenizer\":{\"type\":\"ByteLevel\"},\"decoder\":{\"type\":\"ByteLevel\"},"
        "\"model\":{\"vocab\":{\"\\u0120a\":0,\"\\u00c3\":1,\"\\u00a9\":2,\"\\u00f0\":3,"
        "\"\\u0141\":4,\"\\u00a9\\u0141\":5},\"merges\":[]}}");
    EXPECT(t, true, " a\xC3\xA9 a", 0, 1, 2, 0);
    EXPECT(t, true, REPLACEMENT " a", 1, 0);
    EXPECT(t, true, REPLACEMENT REPLACEMENT, 2, 2);
    EXPECT(t, true, " a" REPLACEMENT, 0, 3, 4);
    EXPECT(t, true, REPLACEMENT "\xC3\xA9", 3, 1, 2);
    static const int32_t ids[] = {0, 1, 0, 1, 2, 3, 1, 2, 3, 3, 0, 2, 1, 5};
    static const uint8_t replaced_chars[] = {0, 0, 1, 0, 0, 0, 1, 0, 0, 1, 1, 0, 0, 0};
    char piece[1024];
    struct detok d;
    detok_init(&d, t, true);
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        detok_push(&d, ids[i], piece, sizeof piece);
        assert_int_equal(d.replaced_chars, replaced_chars[i]);
    }
    tokenizer_close(t);
}

// An incomplete character at the end writes all spaces held before it, so detok_finish needs as
// much space as detok_push.
static void test_finish_writes_all_held_spaces(void **state)
{
    (void)state;
    struct tokenizer *t =
        open_text("{\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"ByteFallback\"},"
                  "{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":\" \",\"start\":0,"
                  "\"stop\":255}]},\"model\":{\"vocab\":{\"x\":0,\" \":1,\"<0xC3>\":2},"
                  "\"merges\":[]}}");
    uint32_t bound = detok_bound(t);
    char *piece = test_malloc(bound);
    struct detok d;
    detok_init(&d, t, true);
    assert_int_equal(detok_push(&d, 0, piece, bound), 1);
    for (int i = 0; i < 255; i++)
        assert_int_equal(detok_push(&d, 1, piece, bound), 0);
    assert_int_equal(detok_push(&d, 2, piece, bound), 0);
    assert_int_equal(detok_finish(&d, piece, bound), 255 + 3);
    assert_memory_equal(piece + 254, " " REPLACEMENT, 4);
    test_free(piece);
    tokenizer_close(t);
}

static void test_metaspace(void **state)
{
    (void)state;
    struct tokenizer *t =
        open_text("{\"decoder\":{\"type\":\"Metaspace\",\"replacement\":\"" MARK
                  "\",\"add_prefix_space\":true},"
                  "\"model\":{\"vocab\":[[\"" MARK "a\",-1],[\"b\",-1],[\"" MARK "\",-2]]}}");
    EXPECT(t, true, "ab a", 0, 1, 0);
    EXPECT(t, true, " a", 2, 0);
    EXPECT_EXACT(t, " ab ", 0, 1, 2);
    tokenizer_close(t);
    // after another decoder only the marks of the first token are dropped, not a space of a byte
    // token
    t = open_text("{\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"ByteFallback\"},"
                  "{\"type\":\"Metaspace\",\"replacement\":\"" MARK "\",\"prepend_scheme\":"
                  "\"always\"}]},\"model\":{\"vocab\":[[\"" MARK "a" MARK "b\",-1],[\"<0x20>\",-1],"
                  "[\"" MARK "\",-2],[\" c\",-3]]}}");
    EXPECT(t, true, "ab a b", 0, 0);
    EXPECT(t, true, " ", 1);
    EXPECT(t, true, "  a b", 1, 0);
    EXPECT(t, true, " a b", 2, 0);
    EXPECT(t, true, " c ", 3, 2);
    tokenizer_close(t);
}

static void test_wordpiece(void **state)
{
    (void)state;
    struct tokenizer *t =
        open_text("{\"decoder\":{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true},"
                  "\"model\":{\"vocab\":{\"x\":0,\"##y\":1,\".\":2,\"'\":3,\"s\":4,\"[UNK]\":5},"
                  "\"unk_token\":\"[UNK]\",\"continuing_subword_prefix\":\"##\","
                  "\"max_input_chars_per_word\":100}}");
    EXPECT(t, true, "xy x.", 0, 1, 0, 2);
    EXPECT(t, true, "##y x", 1, 0);
    tokenizer_close(t);
}

static void test_word_ends(void **state)
{
    (void)state;
    struct tokenizer *t = open_text(
        "{\"decoder\":{\"type\":\"BPEDecoder\",\"suffix\":\"</w>\"},\"model\":{"
        "\"end_of_word_suffix\":\"</w>\",\"vocab\":{\"a\":0,\"b</w>\":1},\"merges\":[]}}");
    EXPECT(t, true, "ab b", 0, 1, 1);
    EXPECT(t, true, "ab a", 0, 1, 0);
    EXPECT_EXACT(t, "ab b ", 0, 1, 1);
    tokenizer_close(t);
}

static void test_repetitions(void **state)
{
    (void)state;
    struct tokenizer *t = open_text(
        "{\"decoder\":{\"type\":\"CTC\",\"pad_token\":\"<pad>\",\"word_delimiter_token\":\"|\","
        "\"cleanup\":true},\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"<pad>\",\"vocab\":"
        "{\"<pad>\":0,\"|\":1,\"a\":2,\"b\":3}}}");
    EXPECT(t, true, "ab ba", 2, 2, 3, 0, 1, 1, 3, 3, 2);
    EXPECT(t, true, "aa", 2, 0, 2);
    EXPECT_EXACT(t, "aa", 2, 2);
    tokenizer_close(t);
}

static void test_no_decoder(void **state)
{
    (void)state;
    struct tokenizer *t = open_text("{\"model\":{\"vocab\":{\"a\":0,\"b\":1},\"merges\":[]}}");
    EXPECT(t, true, "a b a", 0, 1, 0);
    EXPECT_EXACT(t, " a b", 0, 1);
    tokenizer_close(t);
}

// Results of the reference library (tokenizers) for the decoders of each kind with their settings,
// over a vocabulary of unusual tokens.
static const struct {
    const char *decoder;
    int32_t ids[6];
    uint32_t count;
    const char *want;
} decoder_cases[] = {
    {"{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"_+\"},\"content\":\"-\"}",
     {0, 1, 2, 3},
     4,
     "a-b-c--"},
    {"{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"_+\"},\"content\":\"-\"}", {2}, 1, "b-c-"},
    {"{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"_+\"},\"content\":\"-\"}",
     {6, 6},
     2,
     "\xC3\xA9"
     "-x\xC3\xA9"
     "-x"},
    {"{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"x*\"},\"content\":\"-\"}", {0}, 1, "-a-"},
    {"{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"x*\"},\"content\":\"-\"}", {4}, 1, "-"},
    {"{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"x*\"},\"content\":\"-\"}",
     {6},
     1,
     "-\xC3\xA9"
     "-_-"},
    {"{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"x*\"},\"content\":\"-\"}", {5, 0}, 2, "-a-"},
    {"{\"type\":\"Replace\",\"pattern\":{\"String\":\"_\"},\"content\":\"\"}",
     {0, 1, 2, 3},
     4,
     "abc"},
    {"{\"type\":\"Replace\",\"pattern\":{\"String\":\"_\"},\"content\":\"\"}", {2}, 1, "bc"},
    {"{\"type\":\"Replace\",\"pattern\":{\"String\":\"__\"},\"content\":\"long text\"}",
     {1, 1},
     2,
     "long textlong text"},
    {"{\"type\":\"Replace\",\"pattern\":{\"String\":\"__\"},\"content\":\"long text\"}",
     {2},
     1,
     "b_c_"},
    {"{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}", {7, 8, 9}, 3, "aa  b  "},
    {"{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}", {9, 9}, 2, " b   b  "},
    {"{\"type\":\"Strip\",\"content\":\" \",\"start\":0,\"stop\":1}", {7, 8, 9}, 3, " a a  b "},
    {"{\"type\":\"Strip\",\"content\":\" \",\"start\":0,\"stop\":1}", {9, 9}, 2, "  b   b "},
    {"{\"type\":\"Strip\",\"content\":\" \",\"start\":2,\"stop\":2}", {7, 8, 9}, 3, "aab"},
    {"{\"type\":\"Strip\",\"content\":\" \",\"start\":2,\"stop\":2}", {9, 9}, 2, "bb"},
    {"{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":"
     "\" \",\"start\":1,\"stop\":1}]}",
     {7, 8, 9},
     3,
     "a a   b "},
    {"{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":"
     "\" \",\"start\":1,\"stop\":1}]}",
     {9, 9},
     2,
     " b    b "},
    {"{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":"
     "\" \",\"start\":1,\"stop\":1}]}",
     {0, 0},
     2,
     "aa"},
    {"{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":"
     "\" \",\"start\":0,\"stop\":2}]}",
     {7, 8, 9},
     3,
     " a a   b"},
    {"{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":"
     "\" \",\"start\":0,\"stop\":2}]}",
     {9, 9},
     2,
     "  b    b"},
    {"{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":"
     "\" \",\"start\":0,\"stop\":2}]}",
     {0, 8},
     2,
     "a a"},
    {"{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"ByteLevel\"},{\"type\":\"Strip\","
     "\"content\":"
     "\" \",\"start\":1,\"stop\":1}]}",
     {7, 8, 9},
     3,
     "a a   b "},
    {"{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Fuse\"},{\"type\":\"Replace\",\"pattern\":"
     "{\"String\":\"_\"},\"content\":\" \"}]}",
     {3, 3, 1, 2},
     4,
     "    b c "},
    {"{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true}", {0, 10, 0}, 3, "ac a"},
    {"{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true}", {10, 0}, 2, "##c a"},
    {"{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true}", {11, 0, 11}, 3, "## a"},
    {"{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true}", {0, 12}, 2, "an't"},
    {"{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true}",
     {0, 30, 14, 31, 32},
     5,
     "a?!,."},
    {"{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true}", {0, 21, 22}, 3, "a  do  not"},
    {"{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true}", {0, 23, 26}, 3, "a ''s"},
    {"{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true}", {0, 24}, 2, "a 's"},
    {"{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true}", {0, 25, 0}, 3, "a ' a"},
    {"{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true}",
     {0, 27, 28, 29},
     4,
     "a've're'm"},
    {"{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":false}", {0, 10, 0}, 3, "ac a"},
    {"{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":false}",
     {0, 30, 14, 31, 32},
     5,
     "a ? ! , ."},
    {"{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":false}", {0, 24}, 2, "a  's"},
    {"{\"type\":\"WordPiece\",\"prefix\":\"_\",\"cleanup\":false}", {0, 3, 1, 2}, 4, "a_ b_c_"},
    {"{\"type\":\"WordPiece\",\"prefix\":\"_\",\"cleanup\":false}", {1, 1}, 2, "___"},
    {"{\"type\":\"BPEDecoder\",\"suffix\":\"</w>\"}", {19, 19, 0}, 3, "a a a"},
    {"{\"type\":\"BPEDecoder\",\"suffix\":\"</w>\"}", {0, 20, 19}, 3, "a a"},
    {"{\"type\":\"BPEDecoder\",\"suffix\":\"</w>\"}", {19}, 1, "a"},
    {"{\"type\":\"CTC\",\"pad_token\":\"<pad>\",\"word_delimiter_token\":\"|\",\"cleanup\":"
     "true}",
     {0, 0, 18, 0, 17, 4},
     6,
     "aa xx"},
    {"{\"type\":\"CTC\",\"pad_token\":\"<pad>\",\"word_delimiter_token\":\"|\",\"cleanup\":"
     "true}",
     {17, 17, 0},
     3,
     " a"},
    {"{\"type\":\"CTC\",\"pad_token\":\"<pad>\",\"word_delimiter_token\":\"|\",\"cleanup\":"
     "true}",
     {18, 18},
     2,
     ""},
    {"{\"type\":\"CTC\",\"pad_token\":\"<pad>\",\"word_delimiter_token\":\"|\",\"cleanup\":"
     "true}",
     {0, 32, 12},
     3,
     "a.n't"},
    {"{\"type\":\"CTC\",\"pad_token\":\"<pad>\",\"word_delimiter_token\":\"|\",\"cleanup\":"
     "false}",
     {0, 0, 18, 0, 17, 4},
     6,
     "aa|xx"},
    {"{\"type\":\"CTC\",\"pad_token\":\"<pad>\",\"word_delimiter_token\":\"|\",\"cleanup\":"
     "false}",
     {0, 32},
     2,
     "a."},
    {"{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"always\",\"split\":"
     "true}",
     {3, 0},
     2,
     "a"},
    {"{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"always\",\"split\":"
     "true}",
     {1, 1},
     2,
     "  "},
    {"{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"always\",\"split\":"
     "true}",
     {0, 3, 2},
     3,
     "a b c "},
    {"{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"never\",\"split\":"
     "true}",
     {3, 0},
     2,
     " a"},
    {"{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"never\",\"split\":"
     "true}",
     {1, 1},
     2,
     "    "},
    {"{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"never\",\"split\":"
     "true}",
     {0, 3, 2},
     3,
     "a b c "},
    {"{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"first\",\"split\":"
     "true}",
     {3, 0},
     2,
     "a"},
    {"{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"first\",\"split\":"
     "true}",
     {1, 1},
     2,
     "  "},
    {"{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"first\",\"split\":"
     "true}",
     {0, 3, 2},
     3,
     "a b c "},
    {"{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true}", {0, 15}, 2, "a don't"},
};

static void test_decoders_match_the_reference(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof decoder_cases / sizeof *decoder_cases; i++) {
        char json[2048];
        snprintf(json, sizeof json,
                 "{\"decoder\":%s,\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"a\","
                 "\"vocab\":{\"a\":0,\"__\":1,\"b_c_\":2,\"_\":3,\"xx\":4,\"\":5,\"\xC3\xA9"
                 "_x\":6,\" a\":7,\" a \":8,\"  b  \":9,\"##c\":10,\"##\":11,\"n't\":12,\" "
                 ".\":13,\"!\":14,\"do not\":15,\"' "
                 "\":16,\"|\":17,\"<pad>\":18,\"a</w>\":19,\"</w>\":20,\" do\":21,\" "
                 "not\":22,\"'\":23,\" 's\":24,\" ' "
                 "\":25,\"'s\":26,\"'ve\":27,\"'re\":28,\"'m\":29,\"?\":30,\",\":31,\".\":32}}}",
                 decoder_cases[i].decoder);
        struct tokenizer *t = open_text(json);
        expect(t, decoder_cases[i].ids, decoder_cases[i].count, false, decoder_cases[i].want);
        tokenizer_close(t);
    }
}

// A decoder that matches several bytes of the joined text cannot work token by token.
static void test_decoders_of_joined_text_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *joins, *after, *name;
    } cases[] = {
        {"Fuse", "Replace\",\"pattern\":{\"String\":\"__\"},\"content\":\"-", "Replace"},
        {"Fuse", "Replace\",\"pattern\":{\"Regex\":\"_\"},\"content\":\"-", "Replace"},
        {"ByteLevel", "Replace\",\"pattern\":{\"String\":\"__\"},\"content\":\"-", "Replace"},
        {"Fuse", "Strip\",\"start\":1,\"stop\":0,\"content\":\"--", "Strip"},
        {"Fuse", "Metaspace\",\"replacement\":\"_", "Metaspace"},
        {"ByteLevel", "WordPiece\",\"prefix\":\"##", "WordPiece"},
        {"Fuse", "BPEDecoder\",\"suffix\":\"</w>", "BPEDecoder"},
        {"Fuse", "CTC", "CTC"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char json[512], why[256];
        struct tokenizer *t;
        struct error err = {0};
        snprintf(json, sizeof json,
                 "{\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"%s\"},{\"type\":\"%"
                 "s\"}]},"
                 "\"model\":{\"vocab\":{\"a\":0},\"merges\":[]}}",
                 cases[i].joins, cases[i].after);
        snprintf(why, sizeof why,
                 "tokenizer.json: decoder: %s reads more than a byte at a time, which a stream "
                 "cannot do after Fuse or ByteLevel: put it before them",
                 cases[i].name);
        assert_int_equal(tokenizer_open_memory(&t, text_of(json), text_span(NULL, 0), &err),
                         STATUS_UNSUPPORTED);
        assert_string_equal(err.text, why);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_byte_fallback),
        cmocka_unit_test(test_byte_level),
        cmocka_unit_test(test_finish_writes_all_held_spaces),
        cmocka_unit_test(test_metaspace),
        cmocka_unit_test(test_wordpiece),
        cmocka_unit_test(test_word_ends),
        cmocka_unit_test(test_repetitions),
        cmocka_unit_test(test_no_decoder),
        cmocka_unit_test(test_decoders_match_the_reference),
        cmocka_unit_test(test_decoders_of_joined_text_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
