// SPDX-License-Identifier: Apache-2.0
// Small published-style tokenizer folders in tests/runtime/inputs. Each has a text (text.txt) and,
// in the first line of expected.txt, its ids as the reference library computes them.
#include "base/arena.h"
#include "base/file.h"
#include "runtime/text/tokenizer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { TOKENS_MAX = 256 };

#define INPUTS WEFT_SOURCE_DIR "/tests/runtime/inputs/"

static struct text read_input(struct arena *arena, const char *folder, const char *file)
{
    char path[512];
    struct text out;
    struct error err;
    snprintf(path, sizeof path, INPUTS "%s/%s", folder, file);
    if (file_read(&out, arena, path, 1 << 20, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    while (out.bytes > 0 && out.at[out.bytes - 1] == '\n')
        out.bytes--;
    return out;
}

// Reads the list in [] of the first line. Returns the number of ids.
static uint32_t ids_read(struct text expected, int32_t ids[TOKENS_MAX])
{
    char line[1024];
    snprintf(line, sizeof line, "%.*s", (int)expected.bytes, expected.at);
    line[strcspn(line, "\n")] = '\0';
    char *at = strchr(line, '[');
    uint32_t count = 0;
    assert_non_null(at);
    while (count < TOKENS_MAX && *at != '\0' && *at != ']')
        ids[count++] = (int32_t)strtol(at + 1, &at, 10);
    return count;
}

static void expect_ids(const char *folder)
{
    struct arena *arena = arena_create(0, 0);
    int32_t want[TOKENS_MAX], got[TOKENS_MAX];
    uint32_t want_count = ids_read(read_input(arena, folder, "expected.txt"), want);
    char path[512];
    struct tokenizer *t;
    struct error err;
    snprintf(path, sizeof path, INPUTS "%s", folder);
    if (tokenizer_open(&t, path, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    bool served = strstr(folder, "served") != NULL; // the others have ids with special tokens
    struct encode_args args = {.text = read_input(arena, folder, "text.txt"),
                               .flags =
                                   (served ? ENCODE_PLAIN : ENCODE_ADDED_TOKENS) | ENCODE_SPECIAL,
                               .arena = arena};
    uint32_t count = 0;
    assert_int_equal(tokenizer_encode(t, &args, got, TOKENS_MAX, &count, &err), STATUS_OK);
    for (uint32_t i = 0; i < count && i < want_count; i++)
        if (got[i] != want[i])
            fail_msg("%s: token %u is %d, not %d", folder, i, got[i], want[i]);
    assert_int_equal(count, want_count);
    tokenizer_close(t);
    arena_destroy(arena);
}

static void test_inputs(void **state)
{
    (void)state;
    static const char *const folders[] = {"served-text-added-words", "added-tokens-json",
                                          "bert-chinese-chars",      "bert-do-lower-case",
                                          "bert-strip-accents",      "bert-vocab-txt-strip-accents",
                                          "roberta-add-prefix-space"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        expect_ids(folders[i]);
}

static void test_gguf_keeps_accents(void **state)
{
    (void)state;
    static const int32_t want[] = {2, 100, 102, 3};
    int32_t got[16];
    uint32_t count = 0;
    struct tokenizer *t;
    struct error err;
    if (tokenizer_open(&t, INPUTS "bert-strip-accents-false.gguf", &err) != STATUS_OK)
        fail_msg("%s", err.text);
    struct encode_args args = {
        .text = text_of("hello caf\u00e9"), .flags = ENCODE_SPECIAL, .arena = arena_create(0, 0)};
    assert_int_equal(tokenizer_encode(t, &args, got, 16, &count, &err), STATUS_OK);
    assert_int_equal(count, 4);
    assert_memory_equal(got, want, sizeof want);
    arena_destroy(args.arena);
    tokenizer_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_inputs),
                                       cmocka_unit_test(test_gguf_keeps_accents)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
