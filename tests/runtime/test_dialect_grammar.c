// Grammars of calls: random walks through the grammar of each dialect, with and without its special
// tokens, are read back by its own reader as whole calls whose arguments fit the schemas, however
// the text is cut; and the grammar is inside of a call exactly when the reader is.
#include "base/arena.h"
#include "runtime/text/dialect/grammar.h"
#include "tests/grammar/schema_rig.h"
#include "tests/runtime/dialect_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

// Ends of values of several dialects, as parts of values.
#define ENDS                                                                                       \
    "\"</parameter>\", \"a\\n</parameter>\\n\", \"</arg_value>\", \"</param>\", "                  \
    "\"</arg_value:opensource>\", \"<![CDATA[x\", \"]<]minimax[>[</t>\", \"<|\\\"|>,\", "          \
    "\"</\xEF\xBD\x9C"                                                                             \
    "DSML\xEF\xBD\x9C"                                                                             \
    "parameter>\""

enum { BYTES = 256, SPECIALS = 64, STEPS_MAX = 4000, WALKS = 6 };

static const char tools_source[] =
    "[{\"function\": {\"name\": \"f\", \"strict\": true, \"parameters\": {\"type\": \"object\","
    "\"properties\": {"
    "\"s\": {\"type\": \"string\", \"maxLength\": 12},"
    "\"e\": {\"enum\": [\"north\", \"true\", \"12\", \"a<b\", \"it's \\\"so\\\"\\n\"]},"
    "\"n\": {\"type\": \"integer\", \"minimum\": -20, \"maximum\": 3000},"
    "\"u\": {\"anyOf\": [{\"type\": \"string\", \"maxLength\": 5}, {\"type\": \"null\"},"
    "        {\"type\": \"integer\", \"minimum\": 100, \"maximum\": 120}]},"
    "\"w\": {\"anyOf\": [{\"pattern\": \"^[tTrue1 {]{4}$\", \"type\": \"string\"},"
    "        {\"type\": \"boolean\"}, {\"type\": \"object\", \"additionalProperties\": false}]},"
    "\"b\": {\"type\": \"boolean\"},"
    "\"l\": {\"type\": \"array\", \"items\": {\"type\": \"string\", \"maxLength\": 4},"
    "        \"maxItems\": 3},"
    "\"o\": {\"type\": \"object\", \"properties\": {\"k\": {\"type\": \"string\","
    "        \"maxLength\": 3}, \"z\": {\"type\": [\"boolean\", \"null\"]}}, \"required\": [\"k\"],"
    "        \"additionalProperties\": false},"
    "\"p-q\": {\"type\": \"string\", \"pattern\": \"^[<>/|param]{0,24}$\"},"
    "\"c\": {\"const\": {\"a\": [1, null, \"</x>\"]}},"
    "\"t\": {\"enum\": [\"x\", " ENDS "]},"
    "\"v\": {\"anyOf\": [{\"enum\": [\"12\", \"null\", \"None\", \" 7\", \"x\", \"-1.5e3 \"]},"
    "        {\"type\": \"null\"}, {\"type\": \"integer\", \"minimum\": 100, \"maximum\": 120}]},"
    "\"j\": {\"type\": \"array\", \"items\": {\"enum\": [" ENDS "]}, \"minItems\": 1,"
    "        \"maxItems\": 2},"
    "\"d\": {\"not\": {\"type\": [\"number\", \"object\", \"array\"]}, \"maxLength\": 3}},"
    "\"required\": [\"s\", \"e\", \"u\", \"t\", \"v\", \"j\"], \"maxProperties\": 12,"
    "\"additionalProperties\": {\"type\": \"string\", \"maxLength\": 3}}}},"
    "{\"function\": {\"name\": \"g\", \"strict\": true}},"
    "{\"function\": {\"name\": \"tree-1\", \"strict\": true, \"parameters\": {\"$defs\": {\"t\":"
    " {\"type\": \"object\", \"properties\": {\"v\": {\"type\": \"boolean\"}, \"c\": {\"type\":"
    " \"array\", \"items\": {\"$ref\": \"#/$defs/t\"}, \"maxItems\": 2}}, \"required\": [\"v\"],"
    " \"additionalProperties\": false}}, \"$ref\": \"#/$defs/t\"}}}]";
enum { TOOLS = 3 };

static uint32_t random_below(uint64_t *seed, uint32_t below)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33) % below;
}

// A dialect with its reasoning's row, its tokenizer and the vocabulary of bytes and special tokens.
struct subject {
    struct dialect d;
    const char *reasoning;
    struct tokenizer *tokenizer; // NULL: all markers are text
    struct vocabulary *v;
    struct text tokens[BYTES + SPECIALS], specials[BYTES + SPECIALS];
    char bytes[BYTES];
    uint32_t count; // the end has this id
};

static json_t *tools;
static struct schema_rig schemas[TOOLS];

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

// All literals of a row, so that their special tokens are found.
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

static void subject_open(struct subject *s, const char *name, bool special)
{
    struct json_buffer text = {0};
    *s = (struct subject){.reasoning = reasoning_of(name), .count = BYTES};
    assert_true(dialect_named(&s->d, name, s->reasoning, NULL));
    literals_put(&s->d, &text);
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

static void subject_close(struct subject *s)
{
    vocabulary_give(s->v);
    tokenizer_close(s->tokenizer);
}

// What was written: bytes, and those of special tokens marked.
struct written {
    struct json_buffer text, special;
};

static void written_add(struct written *out, struct text text, bool special)
{
    char mark = special ? 1 : 0;
    json_put_raw(&out->text, text);
    for (size_t i = 0; i < text.bytes; i++) {
        // A special token is fed whole: its first byte is marked 2.
        char here = special && i == 0 ? 2 : mark;
        json_put_raw(&out->special, text_span(&here, 1));
    }
}

// The literal as tokens, into the matcher and the text. False: the grammar does not have it.
static bool write_it(const struct subject *s, struct matcher *m, const char *literal,
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

static bool is_structure(uint32_t token)
{
    return token >= BYTES || (token > 0 && strchr("\"'<>(){}[]:=,\n]", (int)token));
}

// Draws until the answer ends. False: it did not within the limit.
static bool walk(const struct subject *s, struct matcher *m, uint64_t *seed, struct written *out)
{
    for (uint32_t step = 0; step < STEPS_MAX; step++) {
        uint32_t words[(BYTES + SPECIALS) / 32 + 1], all[BYTES + SPECIALS + 1], count = 0;
        bool structure = random_below(seed, 3) == 0;
        if (matcher_mask(m, words) != MATCHER_OK)
            fail_msg("%s: no way to go on after\n%.*s", dialect_name(&s->d), (int)out->text.bytes,
                     out->text.at);
        for (int pass = 0; pass < 2 && count == 0; pass++)
            for (uint32_t id = 0; id <= s->count; id++)
                if ((words[id / 32] >> (id % 32) & 1) && id != 0x7F && // json_put_value escapes it
                    (pass > 0 || !structure || id == s->count || is_structure(id)))
                    all[count++] = id;
        uint32_t token = all[random_below(seed, count)];
        if ((words[s->count / 32] >> (s->count % 32) & 1) && random_below(seed, 2) == 0)
            token = s->count;
        assert_true(matcher_accept(m, (int32_t)token));
        if (matcher_is_done(m))
            return true;
        written_add(out, token < BYTES ? s->tokens[token] : s->specials[token], token >= BYTES);
    }
    return false;
}

// What the reader makes of it, as one line; pieces end at random or nowhere.
struct heard {
    struct json_buffer line, arguments[DIALECT_CALLS_MAX];
    char names[DIALECT_CALLS_MAX][REPLY_NAME_MAX + 1];
    bool complete[DIALECT_CALLS_MAX];
    uint32_t count;
    struct json_buffer text, reasoning;
};

static void heard_free(struct heard *h)
{
    for (uint32_t i = 0; i < DIALECT_CALLS_MAX; i++)
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
        assert_true(e->call < DIALECT_CALLS_MAX);
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

// cut: 0: as few pieces as there are special tokens, 1: single bytes, else at random.
static void hear(const struct subject *s, const struct written *w, enum dialect_start start,
                 uint32_t cut, uint64_t *seed, struct heard *h)
{
    struct reply_args args = {
        .dialect = &s->d, .start = start, .calls = true, .reasoning = true, .tools = tools};
    struct reply *r = reply_open(&args);
    uint32_t count;
    *h = (struct heard){0};
    for (size_t at = 0, end; at < w->text.bytes; at = end) {
        bool special = w->special.at[at] != 0;
        for (end = at + 1; end < w->text.bytes; end++) {
            if (w->special.at[end] != (special ? 1 : 0))
                break;
            if (!special && (cut == 1 || (cut > 1 && random_below(seed, 5) == 0)))
                break;
        }
        const struct reply_event *events =
            reply_feed(r, text_span(w->text.at + at, end - at), special, &count);
        heard_events(h, events, count);
    }
    const struct reply_event *last = reply_finish(r, &count);
    heard_events(h, last, count);
    reply_close(r);
}

static void finish_into(struct heard *h)
{
    for (uint32_t i = 0; i < h->count; i++)
        json_put_format(&h->line, "%s(%.*s)%d", h->names[i], (int)h->arguments[i].bytes,
                        h->arguments[i].at ? h->arguments[i].at : "", h->complete[i]);
    json_put_format(&h->line, "|%.*s|%.*s", (int)h->text.bytes, h->text.at ? h->text.at : "",
                    (int)h->reasoning.bytes, h->reasoning.at ? h->reasoning.at : "");
}

static void complain(const struct subject *s, const struct written *w, const struct heard *h,
                     const char *what)
{
    fail_msg("%s%s: %s\n%.*s\n%.*s", dialect_name(&s->d), s->tokenizer ? " (special)" : "", what,
             (int)w->text.bytes, w->text.at, (int)h->line.bytes, h->line.at);
}

static void check_calls(const struct subject *s, const struct written *w, struct heard *h,
                        uint32_t most)
{
    if (h->count == 0 || h->count > most)
        complain(s, w, h, "wrong count of calls");
    for (uint32_t i = 0; i < h->count; i++) {
        uint32_t tool = 0;
        struct error err = {0};
        json_t *value = NULL;
        static const char *const names[TOOLS] = {"f", "g", "tree-1"};
        while (tool < TOOLS && strcmp(h->names[i], names[tool]) != 0)
            tool++;
        if (tool == TOOLS || !h->complete[i])
            complain(s, w, h, "a call is not whole");
        if (json_parse(&value, text_span(h->arguments[i].at, h->arguments[i].bytes), &err) !=
            STATUS_OK)
            complain(s, w, h, "arguments are no JSON");
        if (!schema_rig_fits(&schemas[tool], value))
            complain(s, w, h, "arguments do not fit");
        json_decref(value);
    }
}

// The same calls under all cuts; text_ok: there may be text.
static void check_answer(const struct subject *s, const struct written *w, enum dialect_start start,
                         uint32_t most, const char *text, uint64_t *seed)
{
    struct heard first;
    hear(s, w, start, 0, seed, &first);
    finish_into(&first);
    check_calls(s, w, &first, most);
    if (!text_is(text_span(first.text.at ? first.text.at : "", first.text.bytes), text))
        complain(s, w, &first, "other text");
    for (uint32_t cut = 1; cut < 5; cut++) {
        struct heard next;
        hear(s, w, start, cut, seed, &next);
        finish_into(&next);
        if (!text_equal(text_span(first.line.at, first.line.bytes),
                        text_span(next.line.at, next.line.bytes)))
            complain(s, w, &next, "cuts make a difference");
        heard_free(&next);
    }
    heard_free(&first);
}

static struct mask_cache *cache_of(const struct subject *s, const struct dialect_grammar_args *args)
{
    struct grammar_builder *b = grammar_begin(NULL);
    struct error err = {0};
    struct grammar *g;
    uint32_t root;
    if (dialect_grammar(b, args, &root, &err) != STATUS_OK ||
        grammar_finish(b, root, &g, &err) != STATUS_OK)
        fail_msg("%s: %s", dialect_name(&s->d), err.text);
    struct mask_cache *c = mask_cache_create(g, s->v, NULL);
    grammar_give(g);
    return c;
}

// What the first call begins with.
static const char *open_of(const struct subject *s)
{
    const struct dialect_syntax *syntax = dialect_syntax(&s->d);
    return *syntax->begin != 0 ? syntax->begin : syntax->call_open;
}

// A name where "all" would mean text.
static void name_it(const struct subject *s, struct matcher *m, struct written *out)
{
    if (strcmp(dialect_name(&s->d), "functionary-v3.2") == 0)
        assert_true(write_it(s, m, "tree-1\n", out));
}

static uint32_t ended, begun;

static void walk_forced(const struct subject *s, bool parallel, uint64_t *seed)
{
    const struct dialect_syntax *syntax = dialect_syntax(&s->d);
    struct dialect_grammar_args args = {
        .dialect = &s->d, .tools = tools, .must = true, .parallel = parallel, .reasoning = true};
    struct mask_cache *c = cache_of(s, &args);
    uint32_t most = parallel && !syntax->one_call ? DIALECT_CALLS_MAX : 1;
    for (uint32_t i = 0; i < WALKS; i++) {
        struct written w = {0};
        struct matcher m;
        matcher_init(&m, c);
        assert_false(matcher_may_end(&m));
        begun++;
        // Every second one thinks of a call first.
        if (i % 2 == 1) {
            assert_true(write_it(s, &m, dialect_reasoning_syntax(&s->d).open, &w));
            assert_true(write_it(s, &m, "hm ", &w));
            assert_true(write_it(s, &m, syntax->begin, &w));
            assert_true(write_it(s, &m, " hm", &w));
            assert_false(matcher_may_end(&m));
            assert_true(write_it(s, &m, dialect_reasoning_syntax(&s->d).close, &w));
        }
        assert_true(write_it(s, &m, open_of(s), &w));
        if (walk(s, &m, seed, &w)) {
            ended++;
            check_answer(s, &w, DIALECT_START_TEXT, most, "", seed);
        }
        matcher_end(&m);
        json_buffer_free(&w.text);
        json_buffer_free(&w.special);
    }
    mask_cache_destroy(c);
}

static void each_dialect(void (*use)(const struct subject *s, uint64_t *seed))
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

static void forced(const struct subject *s, uint64_t *seed)
{
    walk_forced(s, true, seed);
    walk_forced(s, false, seed);
}

static void test_forced_calls_are_read_back(void **state)
{
    (void)state;
    ended = begun = 0;
    each_dialect(forced);
    if (ended * 100 < begun * 95)
        fail_msg("%u of %u walks ended", ended, begun);
}

static bool is_bare(const struct subject *s)
{
    return *dialect_syntax(&s->d)->trigger == 0;
}

// Text, then the mark of a call: free until it is whole, then the grammar holds.
static void unforced(const struct subject *s, uint64_t *seed)
{
    struct dialect_grammar_args args = {
        .dialect = &s->d, .tools = tools, .parallel = true, .reasoning = true};
    struct mask_cache *c = cache_of(s, &args);
    const char *open = open_of(s);
    for (uint32_t i = 0; i < WALKS; i++) {
        struct written w = {0};
        struct matcher m;
        bool thinks = i % 2 == 1;
        matcher_init(&m, c);
        assert_false(matcher_needs_mask(&m) && !is_bare(s));
        if (thinks) {
            assert_true(write_it(s, &m, dialect_reasoning_syntax(&s->d).open, &w));
            assert_true(write_it(s, &m, "so ", &w));
            assert_true(write_it(s, &m, open, &w));
            assert_true(write_it(s, &m, "x", &w)); // a mark in thoughts is none
            assert_false(matcher_needs_mask(&m));
            assert_true(write_it(s, &m, dialect_reasoning_syntax(&s->d).close, &w));
        }
        if (!is_bare(s))
            assert_true(write_it(s, &m, "I < look", &w));
        assert_true(matcher_may_end(&m));
        assert_true(write_it(s, &m, open, &w));
        name_it(s, &m, &w);
        assert_true(matcher_needs_mask(&m));
        assert_false(matcher_may_end(&m));
        begun++;
        if (walk(s, &m, seed, &w)) {
            ended++;
            check_answer(s, &w, DIALECT_START_TEXT, DIALECT_CALLS_MAX, is_bare(s) ? "" : "I < look",
                         seed);
        }
        matcher_end(&m);
        json_buffer_free(&w.text);
        json_buffer_free(&w.special);
    }
    mask_cache_destroy(c);
}

static void test_calls_in_free_text_are_read_back(void **state)
{
    (void)state;
    ended = begun = 0;
    each_dialect(unforced);
    if (ended * 100 < begun * 95)
        fail_msg("%u of %u walks ended", ended, begun);
}

// Every marker that the reader begins a call by begins one in the grammar, too.
static void openings(const struct subject *s, uint64_t *seed)
{
    struct dialect_grammar_args args = {
        .dialect = &s->d, .tools = tools, .parallel = true, .reasoning = true};
    struct mask_cache *c = cache_of(s, &args);
    begun = 0;
    for (uint32_t i = 0; i < s->d.marker_count; i++) {
        const struct dialect_marker *marker = &s->d.markers[i];
        struct written w = {0};
        struct matcher m;
        char text[DIALECT_MARKER_BYTES + 1] = {0};
        for (uint32_t k = 0; k < marker->count; k++)
            text[k] = (char)marker->symbols[k];
        matcher_init(&m, c);
        // No other marker needs a mask in free text.
        if (write_it(s, &m, text, &w) && matcher_needs_mask(&m)) {
            begun++;
            name_it(s, &m, &w);
            if (walk(s, &m, seed, &w))
                check_answer(s, &w, DIALECT_START_TEXT, DIALECT_CALLS_MAX, "", seed);
        }
        matcher_end(&m);
        json_buffer_free(&w.text);
        json_buffer_free(&w.special);
    }
    assert_true(begun > 0);
    mask_cache_destroy(c);
}

static void test_every_opening_has_its_grammar(void **state)
{
    (void)state;
    each_dialect(openings);
}

static void test_only_allowed_functions_are_called(void **state)
{
    (void)state;
    uint64_t seed = 9;
    struct subject s;
    subject_open(&s, "hermes", false);
    json_t *allowed = json_pack("[s]", "g");
    struct dialect_grammar_args args = {
        .dialect = &s.d, .tools = tools, .allowed = allowed, .must = true, .parallel = true};
    struct mask_cache *c = cache_of(&s, &args);
    for (uint32_t i = 0; i < 20; i++) {
        struct written w = {0};
        struct heard h;
        struct matcher m;
        matcher_init(&m, c);
        assert_true(walk(&s, &m, &seed, &w));
        hear(&s, &w, DIALECT_START_TEXT, 0, &seed, &h);
        for (uint32_t k = 0; k < h.count; k++)
            assert_string_equal(h.names[k], "g");
        assert_true(h.count > 0);
        heard_free(&h);
        matcher_end(&m);
        json_buffer_free(&w.text);
        json_buffer_free(&w.special);
    }
    mask_cache_destroy(c);
    json_decref(allowed);
    subject_close(&s);
}

// The prompt may have begun the call or the thoughts.
static void test_answers_may_begin_inside(void **state)
{
    (void)state;
    static const struct {
        const char *dialect;
        enum dialect_start start;
        bool must;
        const char *text, *want; // what is written before the walk, and the text of the answer
    } cases[] = {
        {"functionary-v3.2", DIALECT_START_CALL, true, "", ""},
        {"functionary-v3.2", DIALECT_START_CALL, false, "all\nHi\n>>>", "Hi"},
        {"functionary-v3.2", DIALECT_START_CALL, false, "tree-1\n", ""},
        {"hermes", DIALECT_START_REASONING, true, "hm <tool_call>{</think>\n\n", ""},
        {"hermes", DIALECT_START_REASONING, false, "hm <tool_call>{</think>\n\nHi <tool_call>",
         "Hi"},
        {"llama-json", DIALECT_START_TEXT, false, "{", ""},
        {"llama-json", DIALECT_START_TEXT, false, "\n[", ""},
        {"harmony", DIALECT_START_TEXT, false, "to=functions.", ""},
    };
    uint64_t seed = 77;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct subject s;
        subject_open(&s, cases[i].dialect, false);
        struct dialect_grammar_args args = {.dialect = &s.d,
                                            .tools = tools,
                                            .must = cases[i].must,
                                            .reasoning = true,
                                            .start = cases[i].start};
        struct mask_cache *c = cache_of(&s, &args);
        struct written w = {0};
        struct matcher m;
        matcher_init(&m, c);
        assert_true(write_it(&s, &m, cases[i].text, &w));
        if (walk(&s, &m, &seed, &w))
            check_answer(&s, &w, cases[i].start, 1, cases[i].want, &seed);
        matcher_end(&m);
        json_buffer_free(&w.text);
        json_buffer_free(&w.special);
        mask_cache_destroy(c);
        subject_close(&s);
    }
}

// Beside a format of the answer: that, or a call.
static void test_content_may_have_a_grammar_of_its_own(void **state)
{
    (void)state;
    struct subject s;
    subject_open(&s, "hermes", false);
    struct grammar_builder *b = grammar_begin(NULL);
    struct dialect_grammar_args args = {.dialect = &s.d,
                                        .tools = tools,
                                        .reasoning = true,
                                        .content = grammar_literal(b, text_of("{\"a\":1}"))};
    struct error err = {0};
    struct grammar *g;
    uint32_t root;
    assert_int_equal(dialect_grammar(b, &args, &root, &err), STATUS_OK);
    assert_int_equal(grammar_finish(b, root, &g, &err), STATUS_OK);
    struct mask_cache *c = mask_cache_create(g, s.v, NULL);
    static const struct {
        const char *text;
        bool begins, ends;
    } cases[] = {{"{\"a\":1}", true, true},
                 {"\n{\"a\":1}", false, false}, // it would be text
                 {"<think>Hi", true, false},    // an answer without its text
                 {"<think>Hi</think>\n\n{\"a\":1}", true, true},
                 {"{\"a\":2", false, false},
                 {"Hi", false, false},
                 {"<think>Hi</think>{\"a\":1}", true, true},
                 {"<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>", true, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct matcher m;
        matcher_init(&m, c);
        assert_int_equal(matcher_accept_bytes(&m, text_of(cases[i].text)), cases[i].begins);
        if (cases[i].begins)
            assert_int_equal(matcher_may_end(&m), cases[i].ends);
        matcher_end(&m);
    }
    mask_cache_destroy(c);
    grammar_give(g);
    subject_close(&s);
}

// What cannot be written or compiled is said, with the name of the tool.
static void test_schemas_that_cannot_be_forced_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *dialect, *parameters;
        enum status status;
        const char *part;
    } cases[] = {
        {"hermes", "{\"properties\": {\"a\": {\"uniqueItems\": true, \"type\": \"array\"}}}",
         STATUS_UNSUPPORTED, "uniqueItems"},
        {"hermes", "{\"type\": \"string\"}", STATUS_INVALID, "no arguments"},
        {"hermes", "false", STATUS_INVALID, "no arguments"},
        {"hermes", "{\"properties\": {\"a\": 5}}", STATUS_INVALID, "properties"},
        {"hermes", "{\"$ref\": \"#/nowhere\"}", STATUS_INVALID, "$ref"},
        {"qwen3-coder", "{\"properties\": {\"a>b\": {}}, \"required\": [\"a>b\"]}",
         STATUS_UNSUPPORTED, "required"},
        {"lfm2", "{\"required\": [\"a b\"]}", STATUS_UNSUPPORTED, "required"},
        {"gemma", "{\"properties\": {\"o\": {\"required\": [\"a:b\"]}}, \"required\": [\"o\"]}",
         STATUS_UNSUPPORTED, "required"},
        {"gemma", "{\"properties\": {\"o\": {\"type\": \"object\", \"required\": [\"a:b\"]}}}",
         STATUS_UNSUPPORTED, "required"},
        {"minimax-m3", "{\"required\": [\"/a\"]}", STATUS_UNSUPPORTED, "required"},
        {"minimax-m3", "{\"properties\": {\"a\": {}}, \"minProperties\": 2}", STATUS_INVALID,
         "no arguments"},
        {"glm", "{\"properties\": {\"a\": {\"type\": \"string\", \"minLength\": 4000}}}", STATUS_OK,
         ""},
        {"glm", "{\"properties\": {\"a\": {\"pattern\": \"(\", \"type\": \"string\"}}}",
         STATUS_INVALID, "pattern"},
        {"seed", "{\"allOf\": [{\"type\": \"array\"}, {\"minItems\": 1}]}", STATUS_INVALID,
         "no arguments"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct subject s;
        subject_open(&s, cases[i].dialect, false);
        json_t *one = json_pack("[{s:{s:s}}]", "function", "name", "weather");
        json_t *function = json_object_get(json_array_get(one, 0), "function");
        json_object_set_new(function, "parameters",
                            json_loads(cases[i].parameters, JSON_DECODE_ANY, NULL));
        struct grammar_builder *b = grammar_begin(NULL);
        struct dialect_grammar_args args = {.dialect = &s.d, .tools = one, .must = true};
        struct error err = {0};
        uint32_t root;
        enum status status = dialect_grammar(b, &args, &root, &err);
        if (status != cases[i].status)
            fail_msg("%s: %d %s", cases[i].parameters, status, err.text);
        if (status != STATUS_OK) {
            assert_non_null(strstr(err.text, "weather"));
            if (!strstr(err.text, cases[i].part))
                fail_msg("%s: %s", cases[i].parameters, err.text);
        }
        grammar_abandon(b);
        json_decref(one);
        subject_close(&s);
    }
}

int main(void)
{
    struct error err = {0};
    if (json_parse(&tools, text_of(tools_source), &err) != STATUS_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    json_t *nothing = json_pack("{s:b}", "additionalProperties", 0);
    for (size_t i = 0; i < TOOLS; i++) {
        json_t *schema =
            json_object_get(json_object_get(json_array_get(tools, i), "function"), "parameters");
        schema_rig_open(&schemas[i], schema ? schema : nothing, SCHEMA_DRAFT_AUTO);
        if (schemas[i].status != STATUS_OK) {
            fprintf(stderr, "%s\n", schemas[i].err.text);
            return 1;
        }
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forced_calls_are_read_back),
        cmocka_unit_test(test_calls_in_free_text_are_read_back),
        cmocka_unit_test(test_every_opening_has_its_grammar),
        cmocka_unit_test(test_only_allowed_functions_are_called),
        cmocka_unit_test(test_answers_may_begin_inside),
        cmocka_unit_test(test_content_may_have_a_grammar_of_its_own),
        cmocka_unit_test(test_schemas_that_cannot_be_forced_are_named),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    for (size_t i = 0; i < TOOLS; i++)
        schema_rig_close(&schemas[i]);
    json_decref(nothing);
    json_decref(tools);
    return failed;
}
