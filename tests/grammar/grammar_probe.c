// SPDX-License-Identifier: Apache-2.0
// Answers test_compilers.py, which compares weft with other libraries. Reads one JSON object per
// line and writes one per line:
// {"kind": "regex", "source": "a+", "texts": ["aa", "b"], "draw": 3, "seed": 1} becomes
// {"full": [true, false], "bytes": [2, 0], "drawn": ["a", "aaa", null]} or {"error": "..."}.
// full: the text matches. bytes: number of bytes that are a prefix of a match. drawn: random texts
// of the grammar, null if a text did not end within 200 bytes.
#include "base/json.h"
#include "runtime/grammar/matcher.h"
#include "runtime/text/grammar/gbnf.h"
#include "runtime/text/grammar/json.h"
#include "runtime/text/grammar/regex.h"
#include "tests/grammar/oracle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DRAWN_MAX = 200, END_TOKEN = 256, WORDS = 9 };

static struct vocabulary *bytes_vocabulary(void)
{
    static char bytes[256];
    struct text tokens[256];
    int32_t end = END_TOKEN;
    for (int i = 0; i < 256; i++) {
        bytes[i] = (char)i;
        tokens[i] = text_span(&bytes[i], 1);
    }
    struct vocabulary_args args = {257, tokens, 256, NULL, &end, 1};
    return vocabulary_create(&args);
}

static struct text text_value(const json_t *value)
{
    return text_span(json_string_value(value), json_string_length(value));
}

static enum status compile(const json_t *in, struct grammar **g, struct error *err)
{
    struct grammar_builder *b = grammar_builder_create(NULL);
    struct text kind = text_value(json_object_get(in, "kind"));
    struct text source = text_value(json_object_get(in, "source"));
    uint32_t root = GRAMMAR_NOTHING;
    enum status status = STATUS_OK;
    if (text_is(kind, "gbnf"))
        status = gbnf_compile(b, source, &root, err);
    else if (text_is(kind, "json"))
        root = json_grammar_rules(b, (struct json_style){.blank = GRAMMAR_EMPTY}).object;
    else if (text_is(kind, "json_loose"))
        root =
            json_grammar_rules(b, (struct json_style){.blank = json_grammar_loose_blank(b)}).value;
    else {
        struct regex_args args = {.pattern = source,
                                  .search = !text_is(kind, "regex"),
                                  .chars =
                                      text_is(kind, "json_search") ? json_grammar_chars : NULL};
        status = regex_compile(b, &args, &root, err);
    }
    if (status == STATUS_OK)
        return grammar_finish(b, root, g, err);
    grammar_builder_destroy(b);
    return status;
}

// Returns a random text made of tokens that the masks allow, or JSON null if it does not end.
static json_t *draw(struct mask_cache *c, uint64_t *seed)
{
    struct matcher m;
    char text[DRAWN_MAX + 1];
    uint32_t bytes = 0, words[WORDS];
    matcher_init(&m, c);
    while (!matcher_is_done(&m) && bytes < DRAWN_MAX) {
        check(matcher_mask(&m, words) == MATCHER_OK, "no mask after %u bytes", bytes);
        uint32_t token = END_TOKEN;
        if (!(words[8] & 1) || oracle_random(seed, 6) > 0)
            for (uint32_t i = 0, from = oracle_random(seed, 256); i < 256; i++) {
                uint32_t byte = (from + i) % 256;
                if (words[byte / 32] >> (byte % 32) & 1)
                    token = byte;
                if (token == byte)
                    break;
            }
        check(matcher_accept(&m, (int32_t)token), "token %u of the mask is refused", token);
        if (token != END_TOKEN)
            text[bytes++] = (char)token;
    }
    json_t *out = matcher_is_done(&m) ? json_stringn(text, bytes) : json_null();
    matcher_end(&m);
    return out ? out : json_null();
}

static void try_text(struct mask_cache *c, struct text text, json_t *full, json_t *read)
{
    struct matcher m;
    size_t bytes = 0;
    matcher_init(&m, c);
    while (bytes < text.bytes && matcher_accept_bytes(&m, text_span(text.at + bytes, 1)))
        bytes++;
    json_array_append_new(full, json_boolean(bytes == text.bytes && matcher_may_end(&m)));
    json_array_append_new(read, json_integer((json_int_t)bytes));
    matcher_end(&m);
}

static json_t *answer(const json_t *in, struct vocabulary *v)
{
    struct grammar *g;
    struct error err;
    if (compile(in, &g, &err) != STATUS_OK)
        return json_pack("{s:s}", "error", err.text);
    struct mask_cache *c = mask_cache_create(g, v, NULL);
    json_t *full = json_array(), *read = json_array(), *drawn = json_array(), *text;
    uint64_t seed = (uint64_t)json_integer_value(json_object_get(in, "seed")) * 2 + 1;
    size_t i;
    json_array_foreach(json_object_get(in, "texts"), i, text)
        try_text(c, text_value(text), full, read);
    for (json_int_t d = json_integer_value(json_object_get(in, "draw")); d > 0; d--)
        json_array_append_new(drawn, draw(c, &seed));
    mask_cache_destroy(c);
    grammar_unref(g);
    return json_pack("{s:o,s:o,s:o}", "full", full, "bytes", read, "drawn", drawn);
}

int main(void)
{
    struct vocabulary *v = bytes_vocabulary();
    char *line = NULL;
    size_t room = 0;
    ssize_t bytes;
    while ((bytes = getline(&line, &room, stdin)) > 0) {
        json_t *in = json_loadb(line, (size_t)bytes, JSON_ALLOW_NUL, NULL);
        json_t *out = answer(in, v);
        json_dumpf(out, stdout, JSON_COMPACT | JSON_ENSURE_ASCII);
        putchar('\n');
        fflush(stdout);
        json_decref(out);
        json_decref(in);
    }
    free(line);
    vocabulary_unref(v);
    return 0;
}
