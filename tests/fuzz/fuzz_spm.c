// SPDX-License-Identifier: Apache-2.0
// libFuzzer: a tokenizer in another form than tokenizer.json. Input: kind and class (one byte), the
// file. An accepted file must become valid JSON; then the tokenizer is opened like any other and
// encodes the last bytes of the input.
#include "runtime/text/tokenizer/files.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void encode(const struct tokenizer *t, struct text text)
{
    enum { TOKENS_MAX = 1 << 12 };
    static int32_t tokens[TOKENS_MAX];
    struct error err;
    uint32_t count;
    struct arena *arena = arena_create(0, 64 << 20);
    const struct encode_args args = {.text = text, .flags = ENCODE_SPECIAL, .arena = arena};
    if (tokenizer_encode(t, &args, tokens, TOKENS_MAX, &count, &err) == STATUS_OK)
        check(count <= tokenizer_bound(t, 3 * text.bytes), "%u tokens", count);
    arena_destroy(arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const struct {
        enum status (*put)(struct json_buffer *, struct tokenizer *, struct text, const char *,
                           struct error *);
        const char *class, *config;
    } kinds[] = {
        {spm_document, NULL, "{\"added_tokens_decoder\":{\"0\":{\"content\":\"<new>\"}}}"},
        {spm_document, "LlamaTokenizer", "{\"legacy\":false}"},
        {spm_document, "XLMRobertaTokenizer", "{}"},
        {spm_document, "CamembertTokenizer", "{}"},
        {ranks_document, "TikTokenTokenizer", "{}"},
        {ranks_document, "QWenTokenizer", "{}"},
        {tekken_document, NULL, "{}"},
    };
    if (bytes < 1)
        return 0;
    size_t kind = data[0] % (sizeof kinds / sizeof kinds[0]);
    struct tokenizer *t = tokenizer_create();
    struct text file = arena_copy(t->arena, text_span((const char *)data + 1, bytes - 1));
    struct json_buffer out = {0};
    struct error err;
    json_t *json = NULL;
    t->class = kinds[kind].class ? text_of(kinds[kind].class) : text_span(NULL, 0);
    enum status status =
        jtree_parse(&t->config, t->arena, text_of(kinds[kind].config), "config", &err);
    check(status == STATUS_OK, "%s", err.text);
    status = kinds[kind].put(&out, t, file, "fuzz", &err);
    if (status == STATUS_OK) {
        check(json_parse(&json, json_buffer_text(&out), &err) == STATUS_OK, "%s", err.text);
        json_decref(json);
        struct text document = arena_copy(t->arena, json_buffer_text(&out));
        status = tokenizer_open_parts(t, document, "fuzz", &err);
    }
    json_buffer_free(&out);
    if (status == STATUS_OK) {
        config_open(t);
        size_t tail = file.bytes < 200 ? file.bytes : 200;
        encode(t, text_span(file.at + file.bytes - tail, tail));
    }
    tokenizer_close(t);
    return 0;
}
