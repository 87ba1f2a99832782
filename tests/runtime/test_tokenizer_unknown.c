// SPDX-License-Identifier: Apache-2.0
// No text is lost because of a missing unknown token: a BPE or a list of words whose unknown token
// is not in the vocabulary is refused if a text could need it. The reference library (tokenizers)
// refuses such texts.
#include "tests/runtime/tokenizer_memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static enum status open_model(struct tokenizer **t, const char *model, struct error *err)
{
    char json[16384];
    snprintf(json, sizeof json, "{\"model\":{%s}}", model);
    return tokenizer_open_memory(t, text_of(json), text_span(NULL, 0), err);
}

static void test_missing_unknown_token_is_refused(void **state)
{
    (void)state;
    static const char *const models[] = {
        "\"type\":\"WordLevel\",\"unk_token\":\"[UNK]\",\"vocab\":{\"a\":0}",
        "\"type\":\"BPE\",\"unk_token\":\"[UNK]\",\"vocab\":{\"a\":0},\"merges\":[]",
        "\"type\":\"BPE\",\"unk_token\":\"[UNK]\",\"byte_fallback\":true,"
        "\"vocab\":{\"a\":0,\"<0x0A>\":1},\"merges\":[]",
    };
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        struct tokenizer *t;
        struct error err = {0};
        if (open_model(&t, models[i], &err) == STATUS_OK)
            fail_msg("taken: %s", models[i]);
        assert_string_equal(err.text, "tokenizer.json: model: the `vocab` lacks the `unk_token` "
                                      "[UNK], which unknown text becomes: add it, or name a token "
                                      "that is there");
    }
}

// Writes the tokens of all bytes, with the names of byte-level vocabularies or of byte fallback.
static void put_bytes(char *out, size_t bytes_max, bool fallback)
{
    for (uint32_t i = 0, at = 0; i < 256; i++) {
        char name[16];
        snprintf(name, sizeof name, fallback ? "<0x%02X>" : "\\u%04x",
                 fallback ? i : byte_char((unsigned char)i));
        at +=
            (uint32_t)snprintf(out + at, bytes_max - at, "%s\"%s\":%u", i > 0 ? "," : "", name, i);
    }
}

static void test_unknown_token_that_is_never_needed(void **state)
{
    (void)state;
    for (int fallback = 0; fallback <= 1; fallback++) {
        char bytes[6000], model[8192];
        struct tokenizer *t;
        struct error err = {0};
        put_bytes(bytes, sizeof bytes, fallback);
        snprintf(model, sizeof model,
                 "\"type\":\"BPE\",\"unk_token\":\"?!\",\"byte_fallback\":%s,\"vocab\":{%s},"
                 "\"merges\":[]",
                 fallback ? "true" : "false", bytes);
        if (open_model(&t, model, &err) != STATUS_OK)
            fail_msg("%s", err.text);
        tokenizer_close(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_missing_unknown_token_is_refused),
        cmocka_unit_test(test_unknown_token_that_is_never_needed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
