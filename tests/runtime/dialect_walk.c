// SPDX-License-Identifier: Apache-2.0
// See dialect_walk.h.
#include "tests/runtime/dialect_walk.h"

#include "tests/runtime/dialect_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { STEPS_MAX = 4000 };

uint32_t walk_random(uint64_t *seed, uint32_t below)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33) % below;
}

static const char *reasoning_of(const char *dialect)
{
    static const char *const own[][2] = {{"command-r7b", "command"}, {"mistral", "mistral"},
                                         {"gemma", "gemma"},         {"harmony", "harmony"},
                                         {"solar", "solar"},         {"apertus", "apertus"},
                                         {"apriel", "apriel"},       {"seed", "seed"},
                                         {"hunyuan", "hunyuan"},     {"minimax-m3", "minimax-m3"}};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (strcmp(own[i][0], dialect) == 0)
            return own[i][1];
    return "think";
}

// Appends all literals of the dialect, in which rig_tokenizer then finds the special tokens.
static void literals_put(const struct dialect *d, struct json_buffer *out)
{
    const struct dialect_syntax *s = dialect_syntax(d);
    struct dialect_reasoning_syntax r = dialect_reasoning_syntax(d);
    const char *const all[] = {s->begin,   s->call_open,   s->name_close, s->call_close,
                               s->end,     s->separator,   s->key_open,   s->string_open,
                               s->trigger, s->value_close, s->other_open, r.open,
                               r.close};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        json_put_literal(out, all[i] ? all[i] : "");
}

void subject_open(struct subject *s, const char *name, bool special)
{
    struct json_buffer text = {0};
    *s = (struct subject){.reasoning = reasoning_of(name), .count = BYTES};
    assert_true(dialect_named(&s->d, name, s->reasoning, NULL));
    literals_put(&s->d, &text);
    json_put_literal(&text, WALK_OTHER);
    if (special) {
        s->tokenizer = rig_tokenizer(text_span(text.at, text.bytes));
        assert_true(dialect_named(&s->d, name, s->reasoning, s->tokenizer));
    }
    json_buffer_free(&text);
    for (uint32_t i = 0; i < BYTES; i++) {
        s->bytes[i] = (char)i;
        s->tokens[i] = text_span(s->bytes + i, 1);
    }
    for (uint32_t id = 0; s->tokenizer && id < tokenizer_vocab(s->tokenizer); id++)
        if (tokenizer_is_special(s->tokenizer, (int32_t)id))
            s->specials[s->count++] = tokenizer_token_text(s->tokenizer, (int32_t)id);
    int32_t end = (int32_t)s->count;
    struct vocabulary_args args = {s->count + 1, s->tokens, s->count, s->specials, &end, 1};
    s->v = vocabulary_create(&args);
}

void subject_close(struct subject *s)
{
    vocabulary_unref(s->v);
    tokenizer_close(s->tokenizer);
}

static void written_add(struct written *out, struct text text, bool special)
{
    char mark = special ? 1 : 0;
    json_put_raw(&out->text, text);
    for (size_t i = 0; i < text.bytes; i++) {
        // The first byte of a special token is marked 2, so that the token is fed as one piece.
        char here = special && i == 0 ? 2 : mark;
        json_put_raw(&out->special, text_span(&here, 1));
    }
}

bool subject_write(const struct subject *s, struct matcher *m, const char *literal,
                   struct written *out)
{
    size_t at = 0;
    for (;;) {
        int32_t token;
        struct text piece = dialect_literal_next(&s->d, literal, &at, &token);
        char special = (char)VOCABULARY_SPECIAL_BYTE;
        if (piece.bytes == 0)
            return true;
        if ((token >= 0 && !matcher_accept_bytes(m, text_span(&special, 1))) ||
            !matcher_accept_bytes(m, piece))
            return false;
        written_add(out, piece, token >= 0);
    }
}

bool subject_write_other(const struct subject *s, struct matcher *m, struct written *out)
{
    static const char special = (char)VOCABULARY_SPECIAL_BYTE;
    bool good = s->tokenizer && matcher_accept_bytes(m, text_span(&special, 1)) &&
                matcher_accept_bytes(m, text_of(WALK_OTHER));
    if (good)
        written_add(out, text_of(WALK_OTHER), true);
    return good;
}

void subject_put(const struct subject *s, uint32_t token, struct written *out)
{
    written_add(out, token < BYTES ? s->tokens[token] : s->specials[token], token >= BYTES);
}

static bool is_structure(uint32_t token)
{
    return token >= BYTES || (token > 0 && strchr("\"'<>(){}[]:=,\n]", (int)token));
}

bool subject_walk(const struct subject *s, struct matcher *m, uint64_t *seed, struct written *out)
{
    for (uint32_t step = 0; step < STEPS_MAX; step++) {
        uint32_t words[(BYTES + SPECIALS) / 32 + 1], all[BYTES + SPECIALS + 1], count = 0;
        bool structure = walk_random(seed, 3) == 0;
        if (matcher_mask(m, words) != MATCHER_OK)
            fail_msg("%s: no way to go on after\n%.*s", dialect_name(&s->d), (int)out->text.bytes,
                     out->text.at);
        for (int pass = 0; pass < 2 && count == 0; pass++)
            for (uint32_t id = 0; id <= s->count; id++)
                if ((words[id / 32] >> (id % 32) & 1) && id != 0x7F && // DEL: escaped in JSON
                    (pass > 0 || !structure || id == s->count || is_structure(id)))
                    all[count++] = id;
        uint32_t token = all[walk_random(seed, count)];
        if ((words[s->count / 32] >> (s->count % 32) & 1) && walk_random(seed, 2) == 0)
            token = s->count;
        assert_true(matcher_accept(m, (int32_t)token));
        if (matcher_is_done(m))
            return true;
        subject_put(s, token, out);
    }
    return false;
}

void heard_free(struct heard *h)
{
    for (uint32_t i = 0; i < HEARD_CALLS_MAX; i++)
        json_buffer_free(&h->arguments[i]);
    json_buffer_free(&h->line);
    json_buffer_free(&h->text);
    json_buffer_free(&h->reasoning);
}

static void heard_events(struct heard *h, const struct reply_event *events, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct reply_event *e = &events[i];
        if (e->kind == REPLY_TEXT)
            json_put_raw(&h->text, e->text);
        if (e->kind == REPLY_REASONING)
            json_put_raw(&h->reasoning, e->text);
        if (e->kind < REPLY_CALL || e->kind > REPLY_CALL_END)
            continue;
        assert_true(e->call < HEARD_CALLS_MAX);
        if (e->kind == REPLY_CALL) {
            snprintf(h->names[e->call], sizeof h->names[0], "%.*s", (int)e->text.bytes, e->text.at);
            h->count = e->call + 1;
        } else if (e->kind == REPLY_ARGUMENTS) {
            json_put_raw(&h->arguments[e->call], e->text);
        } else {
            h->complete[e->call] = e->complete;
        }
    }
}

static struct reply *reader_of(const struct subject *s, const json_t *tools,
                               enum dialect_start start)
{
    return reply_create(&(struct reply_args){.dialect = &s->d,
                                             .start = start,
                                             .calls = true,
                                             .reasoning = true,
                                             .has_text_grammar = s->has_text_grammar,
                                             .tools = tools});
}

// Returns true if the arguments in the events continue those of the complete answer. out[call]:
// bytes of arguments seen before, which it advances.
static bool goes_on(const struct heard *whole, size_t out[static HEARD_CALLS_MAX],
                    const struct reply_event *events, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct reply_event *e = &events[i];
        if (e->kind != REPLY_ARGUMENTS)
            continue;
        const struct json_buffer *all = &whole->arguments[e->call];
        if (e->text.bytes > all->bytes - out[e->call] ||
            memcmp(all->at + out[e->call], e->text.at, e->text.bytes) != 0)
            return false;
        out[e->call] += e->text.bytes;
    }
    return true;
}

size_t subject_cut(const struct subject *s, const json_t *tools, const struct written *w,
                   enum dialect_start start, const struct heard *whole)
{
    struct reply *r = reader_of(s, tools, start);
    size_t out[HEARD_CALLS_MAX] = {0}, end = 0;
    bool fine = true;
    while (fine && end < w->text.bytes) {
        size_t at = end++;
        uint32_t count;
        while (w->special.at[at] != 0 && end < w->text.bytes && w->special.at[end] == 1)
            end++;
        const struct reply_event *events =
            reply_feed(r, text_span(w->text.at + at, end - at), w->special.at[at] != 0, &count);
        fine = goes_on(whole, out, events, count);
        struct reply *copy = reply_copy(r);
        size_t then[HEARD_CALLS_MAX];
        memcpy(then, out, sizeof then);
        events = reply_finish(copy, &count);
        fine = fine && goes_on(whole, then, events, count);
        reply_destroy(copy);
    }
    reply_destroy(r);
    return fine ? SIZE_MAX : end;
}

void subject_hear(const struct subject *s, const json_t *tools, const struct written *w,
                  enum dialect_start start, uint32_t cut, uint64_t *seed, struct heard *h)
{
    struct reply *r = reader_of(s, tools, start);
    uint32_t count;
    *h = (struct heard){0};
    for (size_t at = 0, end; at < w->text.bytes; at = end) {
        bool special = w->special.at[at] != 0;
        for (end = at + 1; end < w->text.bytes; end++) {
            if (w->special.at[end] != (special ? 1 : 0))
                break;
            if (!special && (cut == 1 || (cut > 1 && walk_random(seed, 5) == 0)))
                break;
        }
        const struct reply_event *events =
            reply_feed(r, text_span(w->text.at + at, end - at), special, &count);
        heard_events(h, events, count);
    }
    h->reasons = reply_in_reasoning(r);
    const struct reply_event *last = reply_finish(r, &count);
    heard_events(h, last, count);
    reply_destroy(r);
}

void heard_line(struct heard *h)
{
    for (uint32_t i = 0; i < h->count; i++)
        json_put_format(&h->line, "%s(%.*s)%d", h->names[i], (int)h->arguments[i].bytes,
                        h->arguments[i].at ? h->arguments[i].at : "", h->complete[i]);
    json_put_format(&h->line, "|%.*s|%.*s", (int)h->text.bytes, h->text.at ? h->text.at : "",
                    (int)h->reasoning.bytes, h->reasoning.at ? h->reasoning.at : "");
}

struct mask_cache *subject_cache(const struct subject *s, const struct dialect_grammar_args *args)
{
    struct grammar_builder *b = grammar_builder_create(NULL);
    struct error err = {0};
    struct grammar *g;
    uint32_t root;
    struct dialect_grammar_args own = *args;
    if (own.has_text_grammar && own.content == GRAMMAR_NOTHING)
        own.content = grammar_repeat(b, grammar_byte(b, '0', '9'), 1, GRAMMAR_UNBOUNDED);
    if (dialect_grammar(b, &own, &root, &err) != STATUS_OK ||
        grammar_finish(b, root, &g, &err) != STATUS_OK)
        fail_msg("%s: %s", dialect_name(&s->d), err.text);
    struct mask_cache *c = mask_cache_create(g, s->v, NULL);
    grammar_unref(g);
    return c;
}

const char *subject_opening(const struct subject *s)
{
    const struct dialect_syntax *syntax = dialect_syntax(&s->d);
    return *syntax->begin != 0 ? syntax->begin : syntax->call_open;
}

void subject_each(void (*use)(const struct subject *s, uint64_t *seed))
{
    uint64_t seed = 4;
    for (uint32_t i = 0; dialect_row_name(i); i++)
        for (int special = 0; special < 2; special++) {
            struct subject s;
            if (strcmp(dialect_row_name(i), "none") == 0)
                continue;
            subject_open(&s, dialect_row_name(i), special != 0);
            use(&s, &seed);
            subject_close(&s);
        }
}
