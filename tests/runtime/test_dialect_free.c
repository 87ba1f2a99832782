// SPDX-License-Identifier: Apache-2.0
// Answers that may call, but need not: the reader finds the text, reasoning and calls that the
// grammar allowed, and a function that is not strict may be called the way models call it.
#include "runtime/text/dialect/watch.h"
#include "runtime/text/grammar/source.h"
#include "tests/grammar/schema_rig.h"
#include "tests/runtime/dialect_walk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static json_t *parsed(const char *source)
{
    json_t *value = NULL;
    struct error err = {0};
    if (json_parse(&value, text_of(source), &err) != STATUS_OK)
        fail_msg("%s: %s", source, err.text);
    return value;
}

static void written_free(struct written *w)
{
    json_buffer_free(&w->text);
    json_buffer_free(&w->special);
}

// Checks what the reader returns for an answer, as name(arguments)complete|text|reasoning.
__attribute__((unused)) static void check_heard(const struct subject *s, const json_t *tools,
                                                const struct written *w, const char *want)
{
    uint64_t seed = 5;
    for (uint32_t cut = 0; cut < 2; cut++) {
        struct heard h;
        subject_hear(s, tools, w, DIALECT_START_TEXT, cut, &seed, &h);
        heard_line(&h);
        if (!text_is(text_span(h.line.at, h.line.bytes), want))
            fail_msg("%s%s: %.*s\nwas read as %.*s\nnot as %s", dialect_name(&s->d),
                     s->tokenizer ? " (special)" : "", (int)w->text.bytes, w->text.at,
                     (int)h.line.bytes, h.line.at, want);
        heard_free(&h);
    }
}

// Functions f and g with the same parameters of all kinds. Only g is strict.
#define PROPERTIES                                                                                 \
    "\"properties\":{\"s\":{\"type\":\"string\"},\"n\":{\"type\":\"integer\"},\"u\":{\"anyOf\":["  \
    "{\"type\":\"string\"},{\"type\":\"null\"}]},\"l\":{\"type\":\"array\"},\"o\":{}},"            \
    "\"required\":[\"s\",\"n\"],\"additionalProperties\":false"
#define TWINS                                                                                      \
    "[{\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"object\"," PROPERTIES "}}},"        \
    "{\"function\":{\"name\":\"g\",\"strict\":true,\"parameters\":{\"type\":"                      \
    "\"object\"," PROPERTIES "}}}]"

// Writes one more parameter in the form of the dialect. value: written unchanged. string: true if
// it is a string.
static bool parameter(const struct subject *s, struct matcher *m, const char *key,
                      const char *value, bool string, bool first, struct written *w)
{
    const struct dialect_syntax *x = dialect_syntax(&s->d);
    char text[256];
    switch (x->arguments) {
    case ARGUMENTS_JSON:
        snprintf(text, sizeof text, string ? "%s\"%s\": \"%s\"" : "%s\"%s\": %s", first ? "" : ", ",
                 key, value);
        break;
    case ARGUMENTS_PYTHON:
        snprintf(text, sizeof text, string ? "%s%s='%s'" : "%s%s=%s", first ? "" : ", ", key,
                 value);
        break;
    case ARGUMENTS_BARE_KEYS:
        snprintf(text, sizeof text, "%s%s:%s%s%s", first ? "" : ",", key,
                 string ? x->string_open : "", value, string ? x->value_close : "");
        break;
    case ARGUMENTS_PARAMETERS:
        snprintf(text, sizeof text, "%s%s%s%s%s%s", first ? "" : x->parameter_separator,
                 x->key_open, key, string ? x->string_open : x->other_open, value, x->value_close);
        break;
    case ARGUMENTS_ELEMENTS:
        snprintf(text, sizeof text, "%s%s%s%s%s%s%s", x->key_open, key, x->string_open, value,
                 x->value_close, key, x->value_end);
        break;
    }
    return subject_write(s, m, text, w);
}

static bool brace(const struct subject *s, struct matcher *m, const char *text, struct written *w)
{
    enum dialect_arguments form = dialect_syntax(&s->d)->arguments;
    return (form != ARGUMENTS_JSON && form != ARGUMENTS_BARE_KEYS) || subject_write(s, m, text, w);
}

// Writes a literal, with an id of the dialect in place of an id placeholder.
static bool write_id(const struct subject *s, struct matcher *m, const char *literal,
                     struct written *w)
{
    enum dialect_id kind = dialect_syntax(&s->d)->id;
    const char *id = kind == DIALECT_ID_INDEX     ? "0"
                     : kind == DIALECT_ID_ALNUM_9 ? "abcdefghi"
                                                  : "abcdefghi0";
    struct json_buffer text = {0};
    for (; *literal; literal++)
        json_put_raw(&text, *literal == DIALECT_ID_PLACE ? text_of(id) : text_span(literal, 1));
    json_put_raw(&text, text_span("", 1));
    bool good = subject_write(s, m, text.at, w);
    json_buffer_free(&text);
    return good;
}

// Writes an answer up to the arguments of a call.
static bool call_begun(const struct subject *s, struct matcher *m, const char *name,
                       struct written *w)
{
    const struct dialect_syntax *x = dialect_syntax(&s->d);
    return subject_write(s, m, x->begin, w) && write_id(s, m, x->call_open, w) &&
           subject_write(s, m, name, w) && write_id(s, m, x->name_close, w);
}

static bool call_ended(const struct subject *s, struct matcher *m, struct written *w)
{
    const struct dialect_syntax *x = dialect_syntax(&s->d);
    return write_id(s, m, x->call_close, w) && subject_write(s, m, x->end, w) && matcher_may_end(m);
}

static void check_arguments(const struct subject *s, const json_t *tools, const struct written *w,
                            const char *want)
{
    uint64_t seed = 3;
    struct heard h;
    json_t *got = NULL, *wanted = parsed(want);
    struct error err;
    subject_hear(s, tools, w, DIALECT_START_TEXT, 0, &seed, &h);
    assert_true(h.count > 0 && h.complete[0]);
    assert_int_equal(json_parse(&got, text_span(h.arguments[0].at, h.arguments[0].bytes), &err),
                     STATUS_OK);
    if (!json_equal(got, wanted))
        fail_msg("%s: %.*s", dialect_name(&s->d), (int)h.arguments[0].bytes, h.arguments[0].at);
    json_decref(got);
    json_decref(wanted);
    heard_free(&h);
}

// Calls f with parameters in another order than the schema's, and with a text for its integer.
static void called_freely(const struct subject *s, uint64_t *seed)
{
    (void)seed;
    json_t *tools = parsed(TWINS);
    struct dialect_grammar_args args = {
        .dialect = &s->d, .tools = tools, .parallel = true, .reasoning = true};
    struct mask_cache *c = subject_cache(s, &args);
    struct written w = {0};
    struct matcher m;
    matcher_init(&m, c);
    bool good = call_begun(s, &m, "f", &w) && brace(s, &m, "{", &w) &&
                parameter(s, &m, "u", "north west", true, true, &w) &&
                parameter(s, &m, "s", "Paris", true, false, &w) &&
                parameter(s, &m, "n", "not many", true, false, &w) && brace(s, &m, "}", &w) &&
                call_ended(s, &m, &w);
    if (!good)
        fail_msg("%s%s: f is not called freely, but %.*s", dialect_name(&s->d),
                 s->tokenizer ? " (special)" : "", (int)w.text.bytes, w.text.at);
    check_arguments(s, tools, &w, "{\"u\":\"north west\",\"s\":\"Paris\",\"n\":\"not many\"}");
    matcher_end(&m);
    written_free(&w);
    mask_cache_destroy(c);
    json_decref(tools);
}

static void test_functions_that_are_not_strict(void **state)
{
    (void)state;
    subject_each(called_freely);
}

// Returns true if a parameter of this name may be next.
static bool may_be_next(const struct subject *s, const struct matcher *m, const char *key,
                        bool first)
{
    struct written w = {0};
    struct matcher next;
    matcher_copy(&next, m);
    bool may = parameter(s, &next, key, "x", true, first, &w);
    matcher_end(&next);
    written_free(&w);
    return may;
}

// Under auto, in any order: each name once, and other names unless the schema excludes them. A
// function whose properties are {} has no arguments.
static void names_once(const struct subject *s, uint64_t *seed)
{
    (void)seed;
    json_t *tools =
        parsed("[{\"name\":\"f\",\"parameters\":{\"properties\":{\"a\":{},\"b\":{},\"c\":{}}}},"
               "{\"name\":\"g\",\"parameters\":{\"properties\":{\"a\":{},\"b\":{},\"c\":{}},"
               "\"additionalProperties\":false}},"
               "{\"name\":\"h\",\"parameters\":{\"type\":\"object\",\"properties\":{}}}]");
    struct dialect_grammar_args args = {.dialect = &s->d, .tools = tools, .parallel = true};
    struct mask_cache *c = subject_cache(s, &args);
    // the names of these parameters are repeated in their end tags, so the schema must have them
    bool others = dialect_syntax(&s->d)->arguments != ARGUMENTS_ELEMENTS;
    for (int i = 0; i < 2; i++) {
        struct written w = {0};
        struct matcher m;
        matcher_init(&m, c);
        assert_true(call_begun(s, &m, i == 0 ? "f" : "g", &w) && brace(s, &m, "{", &w) &&
                    parameter(s, &m, "b", "x", true, true, &w));
        bool good = may_be_next(s, &m, "a", false) && !may_be_next(s, &m, "b", false) &&
                    may_be_next(s, &m, "other", false) == (others && i == 0) &&
                    parameter(s, &m, "a", "x", true, false, &w) &&
                    !may_be_next(s, &m, "a", false) && may_be_next(s, &m, "c", false) &&
                    brace(s, &m, "}", &w) && call_ended(s, &m, &w);
        if (!good)
            fail_msg("%s: function %d", dialect_name(&s->d), i);
        matcher_end(&m);
        written_free(&w);
    }
    struct written w = {0};
    struct matcher m;
    matcher_init(&m, c);
    assert_true(call_begun(s, &m, "h", &w) && brace(s, &m, "{", &w));
    assert_false(may_be_next(s, &m, "a", true));
    assert_true(brace(s, &m, "}", &w) && call_ended(s, &m, &w));
    check_arguments(s, tools, &w, "{}");
    matcher_end(&m);
    written_free(&w);
    mask_cache_destroy(c);
    json_decref(tools);
}

static void test_names_occur_once_under_auto(void **state)
{
    (void)state;
    subject_each(names_once);
}

// A key that one alternative of the schema names is read with the type under this name. Under the
// other alternative it therefore cannot be written like an unknown key.
static void named_elsewhere(const struct subject *s, uint64_t *seed)
{
    (void)seed;
    json_t *tools = parsed(
        "[{\"name\":\"f\",\"strict\":true,\"parameters\":{\"anyOf\":[{\"properties\":{\"a\":{"
        "\"type\":\"string\"},\"c\":{\"type\":\"string\"}},\"required\":[\"c\"],"
        "\"additionalProperties\":false},{\"properties\":{\"z\":true},\"additionalProperties\":{"
        "\"type\":\"integer\"}}]}}]");
    struct dialect_grammar_args args = {.dialect = &s->d, .tools = tools, .must = true};
    struct mask_cache *c = subject_cache(s, &args);
    static const char *const keys[] = {"a", "b"};
    for (size_t i = 0; i < 2; i++) {
        struct written w = {0};
        struct matcher m;
        enum dialect_arguments form = dialect_syntax(&s->d)->arguments;
        bool by_name = form == ARGUMENTS_PARAMETERS || form == ARGUMENTS_ELEMENTS;
        matcher_init(&m, c);
        assert_true(call_begun(s, &m, "f", &w) && brace(s, &m, "{", &w));
        if (parameter(s, &m, keys[i], "5", false, true, &w) && brace(s, &m, "}", &w) &&
            call_ended(s, &m, &w))
            check_arguments(s, tools, &w, i == 0 ? "{\"a\":5}" : "{\"b\":5}");
        else
            assert_true(by_name && (i == 0 || form == ARGUMENTS_ELEMENTS));
        matcher_end(&m);
        written_free(&w);
    }
    mask_cache_destroy(c);
    json_decref(tools);
}

static void test_named_key_keeps_its_type(void **state)
{
    (void)state;
    subject_each(named_elsewhere);
}

// More blanks before a bare call than the reader holds back are blanks for the grammar and the
// reader.
static void test_many_blanks_before_a_call(void **state)
{
    (void)state;
    static const char *const names[] = {"llama-json", "json", "llama-pythonic"};
    json_t *tools = parsed(TWINS);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct subject s;
        subject_open(&s, names[i], false);
        struct dialect_grammar_args args = {.dialect = &s.d, .tools = tools};
        struct mask_cache *c = subject_cache(&s, &args);
        struct written w = {0};
        struct matcher m;
        matcher_init(&m, c);
        for (int k = 0; k < 200; k++)
            assert_true(subject_write(&s, &m, k % 3 == 0 ? "\n" : " ", &w));
        assert_true(call_begun(&s, &m, "f", &w) && brace(&s, &m, "{", &w) &&
                    parameter(&s, &m, "s", "Paris", true, true, &w) && brace(&s, &m, "}", &w) &&
                    call_ended(&s, &m, &w));
        check_arguments(&s, tools, &w, "{\"s\":\"Paris\"}");
        matcher_end(&m);
        written_free(&w);
        mask_cache_destroy(c);
        subject_close(&s);
    }
    json_decref(tools);
}

// Walks of random pieces that the grammar accepts: every call that the reader finds is complete,
// and the arguments of the strict function fit its schema.
enum { PIECES_MAX = 64, STEPS_MAX = 40, WALKS = 200 };

struct pieces {
    char store[PIECES_MAX][256];
    uint32_t count;
};

static void piece_add(struct pieces *p, const char *text)
{
    if (!text || *text == 0)
        return;
    assert_true(p->count < PIECES_MAX);
    snprintf(p->store[p->count++], sizeof p->store[0], "%s", text);
}

static void pieces_of(const struct subject *s, struct pieces *p)
{
    static const char *const words[] = {" ", "\n", "x", "f",  "g",   "s", "{",  "}", "[",
                                        "]", "{}", "<", "\"", "'a'", "7", "s=", ")", ", "};
    const struct dialect_syntax *x = dialect_syntax(&s->d);
    const char *const own[] = {x->begin,       x->call_open,   x->name_close,
                               x->call_close,  x->separator,   x->end,
                               x->key_open,    x->string_open, x->other_open,
                               x->value_close, x->value_end,   x->parameter_separator};
    char call[256];
    p->count = 0;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        piece_add(p, words[i]);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        piece_add(p, own[i]);
    for (uint32_t i = 0; i < s->d.marker_count; i++) {
        const struct dialect_marker *marker = &s->d.markers[i];
        char text[DIALECT_MARKER_BYTES + 1] = {0};
        for (uint32_t k = 0; k < marker->count; k++)
            text[k] = (char)marker->symbols[k];
        piece_add(p, text);
    }
    for (const char *name = "fg"; *name; name++) {
        snprintf(call, sizeof call, "%s%s%c%s", x->begin, x->call_open, *name, x->name_close);
        piece_add(p, call);
        snprintf(call, sizeof call, "%s%s%c%s{\"s\":7}%s%s", x->begin, x->call_open, *name,
                 x->name_close, x->call_close, x->end);
        piece_add(p, call);
        snprintf(call, sizeof call, "{\"name\": \"%c\", \"%s\": {\"s\":\"a\"}}", *name,
                 strstr(x->name_close, "parameters") ? "parameters" : "arguments");
        piece_add(p, call);
    }
    piece_add(p, "{\"s\":\"a\"}");
}

static bool piece_write(const struct subject *s, struct matcher *m, const char *piece,
                        struct written *w)
{
    struct matcher kept;
    size_t bytes = w->text.bytes;
    matcher_copy(&kept, m);
    bool good = piece ? write_id(s, m, piece, w) : subject_write_other(s, m, w);
    if (!good) {
        matcher_end(m);
        matcher_copy(m, &kept);
        w->text.bytes = w->special.bytes = bytes;
    }
    matcher_end(&kept);
    return good;
}

static uint32_t calls_seen, texts_seen;

static void check_pieces(const struct subject *s, const json_t *tools, struct schema_rig *fits,
                         const struct written *w, enum dialect_start start, uint64_t *seed)
{
    struct heard h;
    struct error err;
    subject_hear(s, tools, w, start, 0, seed, &h);
    calls_seen += h.count;
    for (uint32_t i = 0; i < h.count && !h.reasons; i++) {
        json_t *value = NULL;
        struct text text = text_span(h.arguments[i].at, h.arguments[i].bytes);
        bool good = h.complete[i] && json_parse(&value, text, &err) == STATUS_OK &&
                    json_is_object(value) &&
                    (strcmp(h.names[i], "g") != 0 || schema_rig_fits(fits, value));
        if (!good)
            fail_msg("%s%s: %s(%.*s)%d in\n%.*s", dialect_name(&s->d),
                     s->tokenizer ? " (special)" : "", h.names[i], (int)text.bytes, text.at,
                     h.complete[i], (int)w->text.bytes, w->text.at);
        json_decref(value);
    }
    heard_free(&h);
}

// The grammar of the text: none, any text, a JSON string, or any JSON value, which nests.
enum form { FORM_FREE, FORM_ANY, FORM_STRING, FORM_JSON, FORMS };

static uint32_t form_of(struct grammar_builder *b, enum form form)
{
    uint32_t chars = grammar_repeat(b, grammar_chars_except(b, NULL, 0), 0, GRAMMAR_UNBOUNDED);
    uint32_t quote = grammar_literal(b, text_of("\""));
    uint32_t string[] = {quote, chars, quote};
    if (form == FORM_ANY)
        return chars;
    return form == FORM_STRING
               ? grammar_join_all(b, string, 3)
               : json_grammar_rules(b, (struct json_style){.blank = GRAMMAR_EMPTY}).value;
}

// Creates a mask cache of the text's grammar, or (args not NULL) of answers with such text.
static struct mask_cache *form_cache(const struct subject *s, enum form form,
                                     struct dialect_grammar_args *args)
{
    struct grammar_builder *b = grammar_builder_create(NULL);
    struct error err = {0};
    struct grammar *g;
    uint32_t root = form_of(b, form);
    if (args) {
        args->has_text_grammar = true;
        args->content = root;
        if (dialect_grammar(b, args, &root, &err) != STATUS_OK)
            fail_msg("%s: %s", dialect_name(&s->d), err.text);
    }
    if (grammar_finish(b, root, &g, &err) != STATUS_OK)
        fail_msg("%s: %s", dialect_name(&s->d), err.text);
    struct mask_cache *c = mask_cache_create(g, s->v, NULL);
    grammar_unref(g);
    return c;
}

// Checks that the text matches the grammar if there is no call, and is empty otherwise.
static void check_form(const struct subject *s, const json_t *tools, struct mask_cache *form,
                       const struct written *w, uint64_t *seed)
{
    struct heard h;
    struct matcher m;
    subject_hear(s, tools, w, DIALECT_START_TEXT, 0, seed, &h);
    struct text text = text_span(h.text.at ? h.text.at : "", h.text.bytes);
    matcher_init(&m, form);
    bool good = matcher_accept_bytes(&m, text) && matcher_may_end(&m);
    if (h.count > 0 ? text.bytes > 0 : !good)
        fail_msg("%s%s: the text is %.*s beside %u calls in\n%.*s", dialect_name(&s->d),
                 s->tokenizer ? " (special)" : "", (int)text.bytes, text.at, h.count,
                 (int)w->text.bytes, w->text.at);
    texts_seen += h.count == 0 && text.bytes > 0;
    matcher_end(&m);
    heard_free(&h);
}

static void pieces_walk(const struct subject *s, enum form form, bool resumes, uint64_t *seed)
{
    json_t *tools = parsed("[{\"name\":\"f\"},{\"name\":\"g\",\"strict\":true,\"parameters\":{"
                           "\"properties\":{\"s\":{\"type\":\"string\",\"maxLength\":2}},"
                           "\"required\":[\"s\"],\"additionalProperties\":false}}]");
    struct dialect_grammar_args args = {
        .dialect = &s->d, .tools = tools, .parallel = true, .resumes = resumes, .reasoning = true};
    struct mask_cache *c = form == FORM_FREE ? subject_cache(s, &args) : form_cache(s, form, &args);
    struct mask_cache *alone = form == FORM_FREE ? NULL : form_cache(s, form, NULL);
    struct schema_rig fits;
    struct pieces list;
    schema_rig_open(&fits, json_object_get(json_array_get(tools, 1), "parameters"),
                    SCHEMA_DRAFT_AUTO);
    pieces_of(s, &list);
    for (uint32_t i = 0; i < (resumes ? WALKS / 4 : WALKS); i++) {
        struct written w = {0};
        struct matcher m;
        matcher_init(&m, c);
        for (uint32_t step = 0; step < STEPS_MAX; step++) {
            uint32_t one = walk_random(seed, list.count + 1);
            piece_write(s, &m, one < list.count ? list.store[one] : NULL, &w);
            if (!matcher_may_end(&m) || walk_random(seed, 4) != 0)
                continue;
            check_pieces(s, tools, &fits, &w, DIALECT_START_TEXT, seed);
            if (alone)
                check_form(s, tools, alone, &w, seed);
        }
        matcher_end(&m);
        written_free(&w);
    }
    schema_rig_close(&fits);
    mask_cache_destroy(alone);
    mask_cache_destroy(c);
    json_decref(tools);
}

static void pieces(const struct subject *s, uint64_t *seed)
{
    pieces_walk(s, FORM_FREE, false, seed);
    if (dialect_marks_calls(&s->d)) // text and other calls may follow a call
        pieces_walk(s, FORM_FREE, true, seed);
}

static void formed_pieces(const struct subject *s, uint64_t *seed)
{
    struct subject own = *s;
    own.has_text_grammar = true;
    for (int form = FORM_ANY; form < FORMS; form++)
        pieces_walk(&own, (enum form)form, false, seed);
}

static void test_text_with_a_grammar_is_unchanged(void **state)
{
    (void)state;
    calls_seen = texts_seen = 0;
    subject_each(formed_pieces);
    assert_true(calls_seen > 1000 && texts_seen > 1000);
}

static void test_calls_that_are_read_are_complete(void **state)
{
    (void)state;
    calls_seen = 0;
    subject_each(pieces);
    assert_true(calls_seen > 1000);
}

// If the text has a grammar, an object with a name and parameters that begins unlike the dialect's
// calls is text.
static void other_object(const struct subject *s, uint64_t *seed)
{
    static const char *const texts[] = {"{ \"name\" : \"f\", \"parameters\": {}}",
                                        "{ \"name\" : \"f\", \"arguments\": {}}"};
    struct subject own = *s;
    own.has_text_grammar = true;
    json_t *tools = parsed("[{\"name\":\"f\"}]");
    for (size_t i = 0; i < 2; i++) {
        struct written w = {0};
        struct heard h;
        for (const char *at = texts[i]; *at; at++) {
            json_put_raw(&w.text, text_span(at, 1));
            json_put_raw(&w.special, text_span("", 1));
        }
        subject_hear(&own, tools, &w, DIALECT_START_TEXT, (uint32_t)i, seed, &h);
        assert_int_equal(h.count, 0);
        assert_int_equal(h.text.bytes, strlen(texts[i]));
        assert_memory_equal(h.text.at, texts[i], h.text.bytes);
        heard_free(&h);
        written_free(&w);
    }
    json_decref(tools);
}

static void test_other_objects_are_text(void **state)
{
    (void)state;
    subject_each(other_object);
}

// Returns the status of a grammar of answers whose text matches `pattern`. Of the tools f and g
// only f may be called.
static enum status form_refused(const char *dialect, const char *pattern, struct error *err)
{
    struct subject s;
    subject_open(&s, dialect, false);
    json_t *tools = parsed("[{\"name\":\"f\"},{\"name\":\"g\"}]"), *allowed = parsed("[\"f\"]");
    struct grammar_builder *b = grammar_builder_create(NULL);
    struct grammar_source source = {.kind = GRAMMAR_KIND_REGEX, .text = text_of(pattern)};
    struct dialect_grammar_args args = {.dialect = &s.d,
                                        .tools = tools,
                                        .allowed = allowed,
                                        .reasoning = true,
                                        .has_text_grammar = true};
    uint32_t root;
    assert_int_equal(grammar_source_build(b, &source, &args.content, err), STATUS_OK);
    enum status status = dialect_grammar(b, &args, &root, err);
    grammar_builder_destroy(b);
    json_decref(allowed);
    json_decref(tools);
    subject_close(&s);
    return status;
}

// A text grammar is refused if a text of it would be read as a call, also of a function that may
// not be called, or begins with a line end that the reader drops after reasoning.
static void test_ambiguous_text_grammars_are_refused(void **state)
{
    (void)state;
    struct error err = {0};
    assert_int_equal(form_refused("llama-pythonic", "\\[g\\(x=1\\)\\]", &err), STATUS_INVALID);
    assert_non_null(strstr(err.text, "begins like a call"));
    assert_int_equal(form_refused("llama-pythonic", "\\[h\\(x=1\\)\\]", &err), STATUS_OK);
    assert_int_equal(form_refused("hermes", "\n\nx", &err), STATUS_INVALID);
    assert_non_null(strstr(err.text, "begins with a line end"));
    assert_int_equal(form_refused("hermes", "\n?x", &err), STATUS_OK);
}

// After reasoning that occurs once, only the text or calls may follow; without the flag reasoning
// may begin again.
static void reasoned_once(const struct subject *s, uint64_t *seed)
{
    struct dialect_reasoning_syntax marks = dialect_reasoning_syntax(&s->d);
    json_t *tools = parsed("[{\"name\":\"f\"}]");
    (void)seed;
    for (int once = 0; once < 2; once++) {
        struct dialect_grammar_args args = {.dialect = &s->d,
                                            .tools = tools,
                                            .parallel = true,
                                            .reasoning = true,
                                            .reasoning_once = once != 0,
                                            .has_text_grammar = true,
                                            .start = DIALECT_START_REASONING};
        struct mask_cache *c = subject_cache(s, &args);
        struct matcher m;
        for (int what = 0; what < 3; what++) {
            const char *const texts[] = {"12", subject_opening(s), marks.open};
            struct written w = {0};
            matcher_init(&m, c);
            assert_true(subject_write(s, &m, marks.close, &w));
            bool good = subject_write(s, &m, texts[what], &w);
            if (good != (what < 2 || !once))
                fail_msg("%s, once %d: %s is %d", dialect_name(&s->d), once, texts[what], good);
            matcher_end(&m);
            written_free(&w);
        }
        mask_cache_destroy(c);
    }
    json_decref(tools);
}

static void test_reasoning_that_occurs_once(void **state)
{
    (void)state;
    subject_each(reasoned_once);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_functions_that_are_not_strict),
        cmocka_unit_test(test_names_occur_once_under_auto),
        cmocka_unit_test(test_named_key_keeps_its_type),
        cmocka_unit_test(test_many_blanks_before_a_call),
        cmocka_unit_test(test_calls_that_are_read_are_complete),
        cmocka_unit_test(test_text_with_a_grammar_is_unchanged),
        cmocka_unit_test(test_other_objects_are_text),
        cmocka_unit_test(test_ambiguous_text_grammars_are_refused),
        cmocka_unit_test(test_reasoning_that_occurs_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
