// SPDX-License-Identifier: Apache-2.0
// Grammars of calls: random walks through the grammar of each dialect, with and without its special
// tokens. The dialect's reader reads them as complete calls whose arguments fit the schemas, under
// any cuts, and the grammar is inside of a call exactly when the reader is.
#include "runtime/text/grammar/source.h"
#include "tests/grammar/matcher_looks.h"
#include "tests/grammar/schema_rig.h"
#include "tests/runtime/dialect_walk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

// End marks of several dialects, as parts of values.
#define ENDS                                                                                       \
    "\"</parameter>\", \"a\\n</parameter>\\n\", \"</arg_value>\", \"</param>\", "                  \
    "\"</arg_value:opensource>\", \"<![CDATA[x\", \"]<]minimax[>[</t>\", \"<|\\\"|>,\", "          \
    "\"</\xEF\xBD\x9C"                                                                             \
    "DSML\xEF\xBD\x9C"                                                                             \
    "parameter>\""

enum { WALKS = 6 };

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

static json_t *tools;
static struct schema_rig schemas[TOOLS];

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

// Checks the calls and the text of an answer: all cuts give the same, and an answer that ends early
// gives a prefix of the arguments.
static void check_answer(const struct subject *s, const struct written *w, enum dialect_start start,
                         uint32_t most, const char *text, uint64_t *seed)
{
    struct heard first;
    subject_hear(s, tools, w, start, 0, seed, &first);
    heard_line(&first);
    check_calls(s, w, &first, most);
    if (!text_is(text_span(first.text.at ? first.text.at : "", first.text.bytes), text))
        complain(s, w, &first, "other text");
    for (uint32_t cut = 1; cut < 5; cut++) {
        struct heard next;
        subject_hear(s, tools, w, start, cut, seed, &next);
        heard_line(&next);
        if (!text_equal(text_span(first.line.at, first.line.bytes),
                        text_span(next.line.at, next.line.bytes)))
            complain(s, w, &next, "cuts make a difference");
        heard_free(&next);
    }
    size_t cut = subject_cut(s, tools, w, start, &first);
    if (cut != SIZE_MAX) {
        fprintf(stderr, "cut after %zu: %.*s\n", cut, (int)cut, w->text.at);
        complain(s, w, &first, "an answer that ends early has other arguments");
    }
    heard_free(&first);
}

// Writes a function name in the dialect in which the name "all" would mean text.
static void name_it(const struct subject *s, struct matcher *m, struct written *out)
{
    if (strcmp(dialect_name(&s->d), "functionary-v3.2") == 0)
        assert_true(subject_write(s, m, "tree-1\n", out));
}

static uint32_t ended, begun;

static void walk_forced(const struct subject *s, bool parallel, uint64_t *seed)
{
    const struct dialect_syntax *syntax = dialect_syntax(&s->d);
    struct dialect_grammar_args args = {
        .dialect = &s->d, .tools = tools, .must = true, .parallel = parallel, .reasoning = true};
    struct mask_cache *c = subject_cache(s, &args);
    uint32_t most = parallel && !syntax->one_call ? DIALECT_CALLS_MAX : 1;
    for (uint32_t i = 0; i < WALKS; i++) {
        struct written w = {0};
        struct matcher m;
        matcher_init(&m, c);
        assert_false(matcher_may_end(&m));
        begun++;
        // Every second walk mentions a call in its reasoning first.
        if (i % 2 == 1) {
            assert_true(subject_write(s, &m, dialect_reasoning_syntax(&s->d).open, &w));
            assert_true(subject_write(s, &m, "hm ", &w));
            assert_true(subject_write(s, &m, syntax->begin, &w));
            assert_true(subject_write(s, &m, " hm", &w));
            assert_false(matcher_may_end(&m));
            assert_true(subject_write(s, &m, dialect_reasoning_syntax(&s->d).close, &w));
        }
        assert_true(subject_write(s, &m, subject_opening(s), &w));
        if (subject_walk(s, &m, seed, &w)) {
            ended++;
            check_answer(s, &w, DIALECT_START_TEXT, most, "", seed);
        }
        matcher_end(&m);
        json_buffer_free(&w.text);
        json_buffer_free(&w.special);
    }
    mask_cache_destroy(c);
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
    subject_each(forced);
    if (ended * 100 < begun * 95)
        fail_msg("%u of %u walks ended", ended, begun);
}

static bool is_bare(const struct subject *s)
{
    return *dialect_syntax(&s->d)->trigger == 0;
}

// Text, then the mark of a call: all tokens are free until the mark is complete, then the grammar
// applies.
static void unforced(const struct subject *s, uint64_t *seed)
{
    struct dialect_grammar_args args = {
        .dialect = &s->d, .tools = tools, .parallel = true, .reasoning = true};
    struct mask_cache *c = subject_cache(s, &args);
    const char *open = subject_opening(s);
    for (uint32_t i = 0; i < WALKS; i++) {
        struct written w = {0};
        struct matcher m;
        bool thinks = i % 2 == 1;
        matcher_init(&m, c);
        assert_false(matcher_needs_mask(&m) && !is_bare(s));
        if (thinks) {
            assert_true(subject_write(s, &m, dialect_reasoning_syntax(&s->d).open, &w));
            assert_true(subject_write(s, &m, "so ", &w));
            assert_true(subject_write(s, &m, open, &w));
            assert_true(subject_write(s, &m, "x", &w)); // a mark inside of reasoning is plain text
            assert_false(matcher_needs_mask(&m));
            assert_true(subject_write(s, &m, dialect_reasoning_syntax(&s->d).close, &w));
        }
        if (!is_bare(s))
            assert_true(subject_write(s, &m, "I < look", &w));
        assert_true(matcher_may_end(&m));
        assert_true(subject_write(s, &m, open, &w));
        name_it(s, &m, &w);
        assert_true(matcher_needs_mask(&m));
        assert_false(matcher_may_end(&m));
        begun++;
        if (subject_walk(s, &m, seed, &w)) {
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
    subject_each(unforced);
    if (ended * 100 < begun * 95)
        fail_msg("%u of %u walks ended", ended, begun);
}

// Writes '[' wherever the grammar allows it, otherwise a random token. Ends when '[' is refused
// after at least 10 of them without another token, and returns their number. NEST_MAX: '[' was
// never refused, so the brackets are raw text.
enum { NEST_MAX = 300, NEST_STEPS = 2000 };
static uint32_t brackets_write(const struct subject *s, struct matcher *m, uint64_t *seed,
                               struct written *out)
{
    uint32_t run = 0;
    for (uint32_t step = 0; step < NEST_STEPS && run < NEST_MAX; step++) {
        uint32_t words[(BYTES + SPECIALS) / 32 + 1], all[BYTES + SPECIALS + 1], count = 0;
        assert_int_equal(matcher_mask(m, words), MATCHER_OK);
        for (uint32_t id = 0; id < s->count; id++)
            if (words[id / 32] >> (id % 32) & 1)
                all[count++] = id;
        bool bracket = words['[' / 32] >> ('[' % 32) & 1;
        if (!bracket && run > 9)
            return run;
        run = bracket ? run + 1 : 0;
        uint32_t token = bracket ? '[' : all[walk_random(seed, count)];
        assert_true(matcher_accept(m, (int32_t)token));
        subject_put(s, token, out);
    }
    return run;
}

static uint32_t nested;
static json_t *any_tools;

static void nest(const struct subject *s, uint64_t *seed)
{
    struct dialect_grammar_args args = {.dialect = &s->d, .tools = any_tools, .must = true};
    struct mask_cache *c = subject_cache(s, &args);
    struct written w = {0};
    struct heard h = {0};
    struct matcher m;
    matcher_init(&m, c);
    uint32_t levels = brackets_write(s, &m, seed, &w);
    if (levels < NEST_MAX) {
        nested++;
        for (uint32_t i = 0; i < levels; i++)
            assert_true(subject_write(s, &m, "]", &w));
        assert_true(subject_walk(s, &m, seed, &w));
        subject_hear(s, any_tools, &w, DIALECT_START_TEXT, 0, seed, &h);
        heard_line(&h);
        if (h.count == 0 || !h.complete[0])
            complain(s, &w, &h, "a nested call is not whole");
    }
    heard_free(&h);
    matcher_end(&m);
    json_buffer_free(&w.text);
    json_buffer_free(&w.special);
    mask_cache_destroy(c);
}

// If a model writes brackets without end, the grammar stops it at a depth that the reader still
// reads.
static void test_nesting_of_calls_is_readable(void **state)
{
    (void)state;
    struct error err = {0};
    assert_int_equal(
        json_parse(
            &any_tools,
            text_of("[{\"function\": {\"name\": \"f\", \"parameters\": {\"type\": \"object\","
                    "\"properties\": {\"a\": {\"type\": [\"array\", \"integer\"]}},"
                    "\"required\": [\"a\"], \"additionalProperties\": false}}}]"),
            &err),
        STATUS_OK);
    nested = 0;
    subject_each(nest);
    assert_true(nested > 50); // over all dialects, with and without special tokens
    json_decref(any_tools);
}

// Every marker with which the reader begins a call also begins one in the grammar.
static void openings(const struct subject *s, uint64_t *seed)
{
    struct dialect_grammar_args args = {
        .dialect = &s->d, .tools = tools, .parallel = true, .reasoning = true};
    struct mask_cache *c = subject_cache(s, &args);
    begun = 0;
    for (uint32_t i = 0; i < s->d.marker_count; i++) {
        const struct dialect_marker *marker = &s->d.markers[i];
        struct written w = {0};
        struct matcher m;
        char text[DIALECT_MARKER_BYTES + 1] = {0};
        for (uint32_t k = 0; k < marker->count; k++)
            text[k] = (char)marker->symbols[k];
        matcher_init(&m, c);
        // Other markers need no mask in free text.
        if (subject_write(s, &m, text, &w) && matcher_needs_mask(&m)) {
            begun++;
            name_it(s, &m, &w);
            if (subject_walk(s, &m, seed, &w))
                check_answer(s, &w, DIALECT_START_TEXT, DIALECT_CALLS_MAX, "", seed);
        }
        matcher_end(&m);
        json_buffer_free(&w.text);
        json_buffer_free(&w.special);
    }
    assert_true(begun > 0);
    mask_cache_destroy(c);
}

static void test_every_opening_begins_a_call(void **state)
{
    (void)state;
    subject_each(openings);
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
    struct mask_cache *c = subject_cache(&s, &args);
    for (uint32_t i = 0; i < 20; i++) {
        struct written w = {0};
        struct heard h;
        struct matcher m;
        matcher_init(&m, c);
        assert_true(subject_walk(&s, &m, &seed, &w));
        subject_hear(&s, tools, &w, DIALECT_START_TEXT, 0, &seed, &h);
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

// The prompt may have begun the call or the reasoning.
static void test_answers_begun_by_the_prompt(void **state)
{
    (void)state;
    static const struct {
        const char *dialect;
        enum dialect_start start;
        bool must;
        const char *text, *want; // written before the walk; text of the answer
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
        struct mask_cache *c = subject_cache(&s, &args);
        struct written w = {0};
        struct matcher m;
        matcher_init(&m, c);
        assert_true(subject_write(&s, &m, cases[i].text, &w));
        if (subject_walk(&s, &m, &seed, &w))
            check_answer(&s, &w, cases[i].start, 1, cases[i].want, &seed);
        matcher_end(&m);
        json_buffer_free(&w.text);
        json_buffer_free(&w.special);
        mask_cache_destroy(c);
        subject_close(&s);
    }
}

// If the text of an answer has a grammar, the answer is a text of it or a call.
static void test_text_may_have_a_grammar(void **state)
{
    (void)state;
    struct subject s;
    subject_open(&s, "hermes", false);
    struct grammar_builder *b = grammar_builder_create(NULL);
    struct dialect_grammar_args args = {.dialect = &s.d,
                                        .tools = tools,
                                        .reasoning = true,
                                        .has_text_grammar = true,
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
                 {"\n{\"a\":1}", false, false}, // the line end would be text
                 {"<think>Hi", true, false},    // reasoning without the text
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
    grammar_unref(g);
    subject_close(&s);
}

// With no_reasoning, an answer that must call or whose text has a grammar begins no reasoning.
// Reasoning that the prompt began continues.
static void no_reasoning(const struct subject *s, uint64_t *seed)
{
    struct dialect_reasoning_syntax thoughts = dialect_reasoning_syntax(&s->d);
    (void)seed;
    for (int bits = 0; bits < 8 && thoughts.open; bits++) {
        bool off = bits & 1, inside = bits >> 2 & 1;
        struct written w = {0};
        struct matcher m;
        struct dialect_grammar_args args = {.dialect = &s->d,
                                            .tools = tools,
                                            .must = bits >> 1 & 1,
                                            .has_text_grammar = !(bits >> 1 & 1),
                                            .reasoning = true,
                                            .no_reasoning = off,
                                            .start = inside ? DIALECT_START_REASONING
                                                            : DIALECT_START_TEXT};
        struct mask_cache *c = subject_cache(s, &args);
        matcher_init(&m, c);
        bool thinks = subject_write(s, &m, inside ? "so " : thoughts.open, &w);
        if (thinks != (inside || !off))
            fail_msg("%s: %d", dialect_name(&s->d), bits);
        if (inside) {
            assert_true(subject_write(s, &m, thoughts.close, &w));
            bool again = subject_write(s, &m, thoughts.open, &w);
            assert_false(off && again);
        }
        matcher_end(&m);
        json_buffer_free(&w.text);
        json_buffer_free(&w.special);
        mask_cache_destroy(c);
    }
}

static void test_reasoning_that_is_off_does_not_begin(void **state)
{
    (void)state;
    subject_each(no_reasoning);
}

// A schema that cannot be written or compiled is refused with the name of its tool.
static void test_refused_schemas_name_the_tool(void **state)
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
        {"glm",
         "{\"properties\": {\"a\": {\"pattern\": \"^(x|y)*x(x|y){20}$\", \"type\": \"string\"}}}",
         STATUS_TOO_LARGE,
         "'weather': the schema's value at #/properties/a cannot be compiled: two expressions"},
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
        struct grammar_builder *b = grammar_builder_create(NULL);
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
        grammar_builder_destroy(b);
        json_decref(one);
        subject_close(&s);
    }
}

// Returns as many functions as a request may have, with different parameters, which all allow
// unknown keys.
static json_t *tools_many(void)
{
    enum { MANY = 128 };
    json_t *many = json_array();
    for (int i = 0; i < MANY; i++) {
        char name[16], keys[3][24];
        snprintf(name, sizeof name, "f%d", i);
        for (int k = 0; k < 3; k++)
            snprintf(keys[k], sizeof keys[k], "%c%d_name", 's' + k, i);
        json_array_append_new(
            many,
            json_pack("{s:{s:s, s:{s:s, s:{s:{s:s}, s:{s:s}, s:{s:[s, s], s:i}}, s:[s], s:b}}}",
                      "function", "name", name, "parameters", "type", "object", "properties",
                      keys[0], "type", "string", keys[1], "type", "integer", keys[2], "type",
                      "string", "null", "maxLength", 40, "required", keys[0],
                      "additionalProperties", 1));
    }
    return many;
}

// The common parts of functions are compiled once: 128 functions take a small part of the work
// limit of a grammar.
static void many_functions(const struct subject *s, uint64_t *seed)
{
    (void)seed;
    struct grammar_limits limits = {.work_max = 20 * 1000 * 1000};
    struct grammar_builder *b = grammar_builder_create(&limits);
    json_t *many = tools_many();
    bool must = !s->tokenizer; // else under auto
    struct dialect_grammar_args args = {
        .dialect = &s->d, .tools = many, .must = must, .parallel = true, .reasoning = true};
    struct error err = {0};
    struct grammar *g = NULL;
    uint32_t root;
    enum status status = dialect_grammar(b, &args, &root, &err);
    if (status == STATUS_OK)
        status = grammar_finish(b, root, &g, &err);
    else
        grammar_builder_destroy(b);
    if (status != STATUS_OK)
        fail_msg("%s: %s", dialect_name(&s->d), err.text);
    grammar_unref(g);
    json_decref(many);
}

static void test_many_functions_compile_with_little_work(void **state)
{
    (void)state;
    subject_each(many_functions);
}

// An unknown key is any key that can be written and that the schema does not name.
static void test_unknown_keys_exclude_the_known(void **state)
{
    (void)state;
    char most[129] = {0}, over[130] = {0};
    memset(most, 'k', 128);
    memset(over, 'k', 129);
    const struct {
        const char *key;
        bool allowed;
    } cases[] = {{"s0", false}, {"s", true},         {"s00", true},      {"s1", true},
                 {"", false},   {"\xC3\xA9", false}, {"\xC3\xA8", true}, {"\xC3\xA9s", true},
                 {">", false},  {"a>", false},       {most, true},       {over, false}};
    struct subject s;
    subject_open(&s, "qwen3-coder", false);
    json_t *one = json_pack("[{s:{s:s, s:{s:{s:{}, s:{}, s:{}}, s:[s, s], s:b}}}]", "function",
                            "name", "f", "parameters", "properties", "s0", "\xC3\xA9", "a>",
                            "required", "s0", "\xC3\xA9", "additionalProperties", 1);
    struct dialect_grammar_args args = {.dialect = &s.d, .tools = one, .must = true};
    struct mask_cache *c = subject_cache(&s, &args);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[600];
        struct matcher m;
        snprintf(text, sizeof text,
                 "<tool_call>\n<function=f>\n<parameter=s0>\n1\n</parameter>\n<parameter=\xC3\xA9>"
                 "\n1\n</parameter>\n<parameter=%s>\n1\n</parameter>\n</function>\n</tool_call>",
                 cases[i].key);
        matcher_init(&m, c);
        if (matcher_accept_bytes(&m, text_of(text)) != cases[i].allowed)
            fail_msg("%s", cases[i].key);
        assert_true(!cases[i].allowed || matcher_may_end(&m));
        matcher_end(&m);
    }
    mask_cache_destroy(c);
    json_decref(one);
    subject_close(&s);
}

// If the grammar of all tools exceeds a limit, the error names the function that was being
// compiled.
static void test_a_limit_names_the_function(void **state)
{
    (void)state;
    struct grammar_limits limits = {.work_max = 10 * 1000};
    struct grammar_builder *b = grammar_builder_create(&limits);
    struct subject s;
    struct error err = {0};
    uint32_t root;
    subject_open(&s, "hermes", false);
    json_t *many = tools_many();
    struct dialect_grammar_args args = {.dialect = &s.d, .tools = many, .must = true};
    assert_int_equal(dialect_grammar(b, &args, &root, &err), STATUS_TOO_LARGE);
    assert_non_null(strstr(err.text, "tool 'f"));
    assert_non_null(strstr(err.text, "': the grammar takes too long to compile"));
    grammar_builder_destroy(b);
    json_decref(many);
    subject_close(&s);
}

static struct grammar_hash hash_of_args(const struct dialect_grammar_args *args, const char *regex)
{
    struct grammar_builder *b = grammar_builder_create(NULL);
    struct dialect_grammar_args own = *args;
    struct grammar_source source = {.kind = GRAMMAR_KIND_REGEX,
                                    .text = text_of(regex ? regex : "")};
    struct error err = {0};
    struct grammar *g;
    uint32_t root;
    own.has_text_grammar = regex != NULL;
    if (regex)
        assert_int_equal(grammar_source_build(b, &source, &own.content, &err), STATUS_OK);
    if (dialect_grammar(b, &own, &root, &err) != STATUS_OK ||
        grammar_finish(b, root, &g, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    struct grammar_hash hash = grammar_hash(g);
    grammar_unref(g);
    return hash;
}

static struct grammar_hash hash_of_source(const struct grammar_calls *calls,
                                          const struct dialect *dialect)
{
    struct json_buffer text = {0};
    struct error err = {0};
    struct grammar *g;
    assert_true(grammar_calls_put(&text, calls, 1 << 20));
    struct grammar_source source = {
        .kind = GRAMMAR_KIND_CALLS, .text = text_span(text.at, text.bytes), .dialect = dialect};
    if (grammar_source_compile(&source, &g, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    struct grammar_hash hash = grammar_hash(g);
    grammar_unref(g);
    json_buffer_free(&text);
    return hash;
}

// A source of calls gives the same grammar as its members in dialect_grammar_args.
static void test_source_of_calls_is_complete(void **state)
{
    (void)state;
    struct subject s;
    subject_open(&s, "functionary-v3.2", false);
    json_t *allowed = json_pack("[s]", "g");
    struct grammar_hash seen[64];
    size_t count = 0;
    for (unsigned bits = 0; bits < 256; bits++) {
        bool must = bits & 1, has_text_grammar = bits >> 1 & 1;
        enum dialect_start start = (enum dialect_start)(bits >> 2 & 3);
        if (must && (has_text_grammar || start == DIALECT_START_MIDST))
            continue;
        struct grammar_calls calls = {.tools = tools,
                                      .allowed = bits >> 4 & 1 ? allowed : NULL,
                                      .must = must,
                                      .parallel = bits >> 5 & 1,
                                      .reasoning = bits >> 6 & 1,
                                      .no_reasoning = bits >> 7 & 1,
                                      .start = start};
        if (has_text_grammar)
            calls.content =
                (struct grammar_source){.kind = GRAMMAR_KIND_REGEX, .text = text_of("[0-9]+")};
        struct dialect_grammar_args args = {.dialect = &s.d,
                                            .tools = tools,
                                            .allowed = calls.allowed,
                                            .must = must,
                                            .parallel = calls.parallel,
                                            .reasoning = calls.reasoning,
                                            .no_reasoning = calls.no_reasoning,
                                            .start = start};
        struct grammar_hash want = hash_of_args(&args, has_text_grammar ? "[0-9]+" : NULL);
        struct grammar_hash have = hash_of_source(&calls, &s.d);
        if (memcmp(&have, &want, sizeof have) != 0)
            fail_msg("members %u", bits);
        size_t i = 0;
        while (i < count && memcmp(&seen[i], &have, sizeof have) != 0)
            i++;
        if (i == count && count < 64)
            seen[count++] = have;
    }
    assert_true(count >= 30); // the members have effects on the grammar
    json_decref(allowed);
    subject_close(&s);
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
        cmocka_unit_test(test_nesting_of_calls_is_readable),
        cmocka_unit_test(test_every_opening_begins_a_call),
        cmocka_unit_test(test_only_allowed_functions_are_called),
        cmocka_unit_test(test_answers_begun_by_the_prompt),
        cmocka_unit_test(test_text_may_have_a_grammar),
        cmocka_unit_test(test_reasoning_that_is_off_does_not_begin),
        cmocka_unit_test(test_refused_schemas_name_the_tool),
        cmocka_unit_test(test_unknown_keys_exclude_the_known),
        cmocka_unit_test(test_a_limit_names_the_function),
        cmocka_unit_test(test_many_functions_compile_with_little_work),
        cmocka_unit_test(test_source_of_calls_is_complete),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    for (size_t i = 0; i < TOOLS; i++)
        schema_rig_close(&schemas[i]);
    json_decref(nothing);
    json_decref(tools);
    return failed;
}
