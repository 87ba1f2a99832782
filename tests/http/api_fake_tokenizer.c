// SPDX-License-Identifier: Apache-2.0
// Implements the fake tokenizer of api_fake.h. A separate file, so that a test can link the real
// one.
#include "api_fake.h"

#include "runtime/text/tokenizer.h"

#include <string.h>

uint32_t tokenizer_bound(const struct tokenizer *t, size_t text_bytes)
{
    (void)t;
    return (uint32_t)text_bytes + 4;
}

struct encoding {
    int32_t *tokens;
    uint32_t count, max;
    bool more; // than max
};

static void token_put(struct encoding *e, int32_t token)
{
    if (e->count < e->max)
        e->tokens[e->count++] = token;
    else
        e->more = true;
}

enum status tokenizer_encode(const struct tokenizer *t, const struct encode_args *args,
                             int32_t *tokens, uint32_t token_max, uint32_t *token_count,
                             struct error *err)
{
    struct encoding e = {.tokens = tokens, .max = token_max};
    (void)t;
    if (args->flags & ENCODE_SPECIAL)
        token_put(&e, FAKE_BOS);
    for (size_t i = 0; i < args->text.bytes; i++) {
        token_put(&e,
                  (unsigned char)args->text.at[i] + (args->flags & ENCODE_ADDED_TOKENS ? 1000 : 0));
    }
    if (args->flags & ENCODE_SPECIAL)
        token_put(&e, FAKE_SEP);
    if (args->pair) {
        *args->pair_start = e.count;
        for (size_t i = 0; i < args->pair->bytes; i++)
            token_put(&e, (unsigned char)args->pair->at[i]);
        token_put(&e, FAKE_SEP);
        for (uint32_t i = 0; args->type_ids && i < e.count; i++)
            args->type_ids[i] = i >= *args->pair_start;
    }
    *token_count = e.count;
    return e.more ? error_set(err, STATUS_TOO_LARGE, "too many") : STATUS_OK;
}

enum status tokenizer_encode_segments(const struct tokenizer *t, const struct encode_args *args,
                                      int32_t *tokens, uint32_t token_max, uint32_t *token_count,
                                      struct error *err)
{
    struct encoding e = {.tokens = tokens, .max = token_max};
    (void)t;
    if (args->flags & ENCODE_SPECIAL)
        token_put(&e, FAKE_BOS);
    for (uint32_t s = 0; s < args->segment_count; s++) {
        const struct text_segment *segment = &args->segments[s];
        for (size_t i = 0; i < segment->text.bytes; i++)
            token_put(&e, (unsigned char)segment->text.at[i] + (segment->plain ? 0 : 1000));
    }
    *token_count = e.count;
    return e.more ? error_set(err, STATUS_TOO_LARGE, "too many") : STATUS_OK;
}

// Returns one byte per token; id 300 + n is n letters "x". The end token and higher ids are empty.
struct text tokenizer_token_bytes(const struct tokenizer *t, int32_t id)
{
    static char bytes[256];
    if (id == FAKE_MARK && t->mark)
        return text_of(t->mark);
    if (id >= 1000 && id < 1256) // byte of the template
        id -= 1000;
    if (id >= 300 && id < 316)
        return text_span("xxxxxxxxxxxxxxxx", (size_t)id - 300);
    if (id == FAKE_SPAN)
        return text_of("b<tool");
    if (id == FAKE_SPACE)
        return text_of(" ");
    if (id < 0 || id > 255)
        return id == FAKE_END ? text_of("<end>") : text_span("", 0);
    bytes[id] = (char)id;
    return text_span(&bytes[id], 1);
}

struct text tokenizer_token_text(const struct tokenizer *t, int32_t id)
{
    return tokenizer_token_bytes(t, id);
}

bool tokenizer_is_special(const struct tokenizer *t, int32_t id)
{
    return (id >= FAKE_END && id <= FAKE_SEP) || (id == FAKE_MARK && t->mark);
}

const char *tokenizer_own_special(const struct tokenizer *t, uint32_t i, struct text *token)
{
    (void)t, (void)i, (void)token;
    return NULL;
}

enum status tokenizer_decode(const struct tokenizer *t, const struct decode_args *args,
                             struct text *out, struct error *err)
{
    if (t->decodes_none)
        return error_set(err, STATUS_NO_SPACE, "a pattern takes too long");
    char *text = arena_alloc(args->arena, args->count + 1);
    for (uint32_t i = 0; i < args->count; i++)
        text[i] = (char)(args->tokens[i] % 1000);
    *out = text_span(text, args->count);
    return STATUS_OK;
}

int32_t tokenizer_token(const struct tokenizer *t, struct text content)
{
    static const struct {
        const char *text;
        int32_t id;
    } marks[] = {{"<|fim_prefix|>", FAKE_PREFIX}, {"<|fim_suffix|>", FAKE_SUFFIX},
                 {"<|fim_middle|>", FAKE_MIDDLE}, {"[PREFIX]", FAKE_PREFIX},
                 {"[SUFFIX]", FAKE_SUFFIX},       {"<|repo_name|>", FAKE_REPO},
                 {"<|file_sep|>", FAKE_FILE}};
    for (size_t i = 0; t->infill && i < sizeof marks / sizeof *marks; i++)
        if (text_is(content, marks[i].text) &&
            (i < 5 ? (i < 3) == ((t->infill & 2) != 0) : (t->infill & 4) != 0))
            return marks[i].id;
    return -1;
}

uint32_t tokenizer_vocab(const struct tokenizer *t)
{
    (void)t;
    return FAKE_VOCAB;
}

struct text tokenizer_special_text(const struct tokenizer *t, enum special_token which)
{
    (void)t;
    return which == SPECIAL_BOS ? text_of("<s>") : (struct text){0};
}

const char *tokenizer_special_name(enum special_token which)
{
    static const char *const names[SPECIAL_COUNT] = {
        "bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};
    return names[which];
}

void detok_init(struct detok *d, const struct tokenizer *t, bool skip_special)
{
    *d = (struct detok){.tokenizer = t, .skip_special = skip_special};
}

void detok_continue(struct detok *d)
{
    d->begun = true;
}

void detok_keep_edges(struct detok *d)
{
    d->begun = d->keep_edges = true;
}

uint32_t detok_bound(const struct tokenizer *t)
{
    (void)t;
    return 17; // more than 16: a buffer of a fixed size fails the check of detok_finish
}

// Holds the bytes of a character until it is complete; id 300 + n is n letters "x".
static uint32_t push(struct detok *d, int32_t token, char *out)
{
    if (tokenizer_is_special(d->tokenizer, token)) {
        struct text name = tokenizer_token_bytes(d->tokenizer, token);
        memcpy(out, name.at, d->skip_special ? 0 : name.bytes);
        return d->skip_special ? 0 : (uint32_t)name.bytes;
    }
    if (token >= 300 && token < 316) {
        memset(out, 'x', (size_t)token - 300);
        return (uint32_t)token - 300;
    }
    if (token == FAKE_SPAN) {
        struct text span = tokenizer_token_bytes(d->tokenizer, token);
        memcpy(out, span.at, span.bytes);
        return (uint32_t)span.bytes;
    }
    d->held[d->held_bytes++] = (char)token;
    unsigned char first = (unsigned char)d->held[0];
    uint8_t wanted = first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
    if (d->held_bytes < wanted)
        return 0;
    memcpy(out, d->held, wanted);
    d->held_bytes = 0;
    return wanted;
}

uint32_t detok_push(struct detok *d, int32_t token, char *out, uint32_t out_max)
{
    uint8_t space = token == FAKE_SPACE && d->begun, before = d->held_spaces;
    (void)out_max;
    d->begun = true;
    d->held_spaces = d->keep_edges ? 0 : space;
    memset(out, ' ', before);
    if (token != FAKE_SPACE)
        return before + push(d, token, out + before);
    out[before] = ' ';
    return before + (space && d->keep_edges);
}

uint32_t detok_finish(struct detok *d, char *out, uint32_t out_max)
{
    check(out_max >= detok_bound(d->tokenizer), "detok_finish: %u bytes are too few", out_max);
    if (d->held_bytes == 0)
        return 0;
    d->held_bytes = 0;
    memcpy(out, "\xEF\xBF\xBD", 3);
    return 3;
}
