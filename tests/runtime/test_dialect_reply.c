// SPDX-License-Identifier: Apache-2.0
// The reader of replies: how much text it holds back, special tokens, hostile input, and that it
// reads calls written by the descriptions from which grammars are built.
#include "runtime/text/dialect/row.h"
#include "runtime/text/dialect/scan.h"
#include "runtime/text/dialect/schema.h"
#include "tests/runtime/dialect_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define NS "]<]minimax[>["

static void test_every_reasoning_has_a_row(void **state)
{
    (void)state;
    for (uint32_t d = 0; dialect_reasoning_row_name(d); d++) {
        struct json_buffer text = {0}, out = {0};
        struct dialect dialect;
        assert_true(dialect_named(&dialect, "none", dialect_reasoning_row_name(d), NULL));
        struct dialect_reasoning_syntax syntax = dialect_reasoning_syntax(&dialect);
        if (syntax.open)
            json_put_format(&text, "\n%s\nwhy\n%s\n\nText", syntax.open, syntax.close);
        else
            json_put_literal(&text, "Text");
        const struct reply_args args = {.dialect = &dialect, .reasoning = true};
        struct text have =
            rig_read(&args, text_span(text.at, text.bytes), (struct cuts){NULL}, &out);
        assert_true(text_is(have, syntax.open ? "think(why)text(Text)over" : "text(Text)over"));
        json_buffer_free(&text);
        json_buffer_free(&out);
    }
    struct dialect d;
    assert_false(dialect_named(&d, "nobody", "none", NULL));
    assert_false(dialect_named(&d, "none", "nobody", NULL));
}

// No marker is a prefix of another one that may be next at the same position, because the shorter
// one would always match.
static void test_no_marker_hides_another(void **state)
{
    (void)state;
    const uint32_t together[] = {
        ROLE_BIT(ROLE_DROP) | ROLE_BIT(ROLE_MESSAGE) | ROLE_BIT(ROLE_SECTION_OPEN) |
            ROLE_BIT(ROLE_CALL_OPEN) | ROLE_BIT(ROLE_CALL_FIRST) | ROLE_BIT(ROLE_REASONING_OPEN),
        ROLE_BIT(ROLE_NAME_CLOSE) | ROLE_BIT(ROLE_ID_OPEN) | ROLE_BIT(ROLE_NAME_OPEN) |
            ROLE_BIT(ROLE_KEY_OPEN) | ROLE_BIT(ROLE_CALL_CLOSE),
        ROLE_BIT(ROLE_KEY_OPEN) | ROLE_BIT(ROLE_CALL_CLOSE) | ROLE_BIT(ROLE_SECTION_CLOSE),
        ROLE_BIT(ROLE_KEY_CLOSE) | ROLE_BIT(ROLE_KEY_STRING) | ROLE_BIT(ROLE_KEY_OTHER),
        ROLE_BIT(ROLE_VALUE_CLOSE) | ROLE_BIT(ROLE_RAW_OPEN),
    };
    for (uint32_t d = 0; d < dialect_row_count; d++) {
        const struct row_marker *markers = dialect_rows[d].markers;
        for (int i = 0; i < ROW_MARKERS && markers[i].text; i++)
            for (int j = 0; j < ROW_MARKERS && markers[j].text; j++)
                for (size_t t = 0; t < sizeof together / sizeof *together; t++)
                    if (i != j && (together[t] & ROLE_BIT(markers[i].role)) != 0 &&
                        (together[t] & ROLE_BIT(markers[j].role)) != 0 &&
                        strncmp(markers[i].text, markers[j].text, strlen(markers[i].text)) == 0)
                        fail_msg("%s: %s hides %s", dialect_rows[d].name, markers[i].text,
                                 markers[j].text);
    }
}

// --- calls of the descriptions for grammars ---

static void literals_check(const struct dialect *d, const char *literal)
{
    struct json_buffer joined = {0};
    int32_t token;
    size_t at = 0;
    for (struct text piece; (piece = dialect_literal_next(d, literal, &at, &token)).bytes > 0;) {
        assert_int_equal(token >= 0, rig_special(piece) == piece.bytes && token >= 0);
        assert_true(token < 0 || text_equal(piece, tokenizer_token_text(d->tokenizer, token)));
        json_put_raw(&joined, piece);
    }
    assert_true(text_is(text_span(joined.at, joined.bytes), literal));
    json_buffer_free(&joined);
}

// Removes the id from a line of events. Ids are events if they precede the arguments.
static void without_id(struct text *line, const char *id)
{
    size_t bytes = strlen(id) - 1; // the bracket stays
    char *at = memmem(line->at, line->bytes, id, bytes + 1);
    if (!at)
        return;
    memmove(at, at + bytes, line->bytes - (size_t)(at - line->at) - bytes);
    line->bytes -= bytes;
}

static void test_calls_of_the_syntax_are_read(void **state)
{
    (void)state;
    json_t *tools = json_loads(rig_tools, 0, NULL);
    json_t *some = json_loads("{\"s\":\"x y\",\"n\":3,\"b\":true,\"l\":[1,2],\"o\":{\"k\":\"v\"}}",
                              0, NULL),
           *other = json_loads("{\"u\":\"z\"}", 0, NULL), *none = json_object();
    static const char *const ids[] = {"901", "902", "903"}, *const longer[] = {"abc012345",
                                                                               "abc012346",
                                                                               "abc012347"};
    for (uint32_t i = 0; dialect_row_name(i); i++) {
        struct json_buffer text = {0}, out = {0}, want = {0};
        struct dialect d;
        assert_true(dialect_named(&d, dialect_row_name(i), "none", NULL));
        const struct dialect_syntax *s = dialect_syntax(&d);
        assert_int_equal(!s, strcmp(dialect_row_name(i), "none") == 0);
        if (!s)
            continue;
        const char *const *id =
            s->id == DIALECT_ID_INDEX || s->id == DIALECT_ID_NONE ? ids : longer;
        json_put_literal(&text, s->begin);
        rig_put_call(s, "f", id[0], some, &text);
        json_put_literal(&want, "call(0 f)args({\"s\":\"x "
                                "y\",\"n\":3,\"b\":true,\"l\":[1,2],\"o\":{\"k\":\"v\"}})end(0 1)");
        if (!s->one_call) {
            json_put_literal(&text, s->separator);
            rig_put_call(s, "g", id[1], none, &text);
            json_put_literal(&text, s->separator);
            rig_put_call(s, "f", id[2], other, &text);
            json_put_literal(&want,
                             "call(1 g)args({})end(1 1)call(2 f)args({\"u\":\"z\"})end(2 1)");
        }
        json_put_literal(&text, s->end);
        json_put_literal(&want, "over");
        assert_memory_equal(text.at, s->trigger, *s->begin != '\n' ? strlen(s->trigger) : 0);
        struct reply_args args = {.dialect = &d, .calls = true, .tools = tools};
        struct tokenizer *t = rig_tokenizer(text_span(text.at, text.bytes));
        for (int special = 0; special < 2; special++) {
            assert_true(dialect_named(&d, dialect_row_name(i), "none", special ? t : NULL));
            struct text have =
                rig_read(&args, text_span(text.at, text.bytes), (struct cuts){NULL}, &out);
            for (int c = 0; c < 3; c++) {
                char whole[64];
                snprintf(whole, sizeof whole, " functions.%s:%s)", c == 1 ? "g" : "f", id[c]);
                without_id(&have, whole);
                snprintf(whole, sizeof whole, " %s)", id[c]);
                without_id(&have, whole);
            }
            if (!text_equal(have, text_span(want.at, want.bytes)))
                fail_msg("%s: %.*s\nhave %.*s\nwant %.*s", dialect_row_name(i), (int)text.bytes,
                         text.at, (int)have.bytes, have.at, (int)want.bytes, want.at);
            literals_check(&d, s->begin);
            literals_check(&d, s->call_open);
            literals_check(&d, s->name_close);
        }
        tokenizer_close(t);
        json_buffer_free(&text);
        json_buffer_free(&out);
        json_buffer_free(&want);
    }
    json_decref(tools);
    json_decref(some);
    json_decref(other);
    json_decref(none);
}

// A marker that is a special token is recognised only as this token, not as text.
static void test_special_markers_are_not_text(void **state)
{
    (void)state;
    struct json_buffer out = {0};
    struct dialect d;
    struct tokenizer *t = rig_tokenizer(text_of("[TOOL_CALLS][ARGS]<|im_end|>"));
    assert_true(dialect_named(&d, "mistral-args", "none", t));
    struct reply_args args = {.dialect = &d, .calls = true};
    struct text call = text_of("a[TOOL_CALLS]g[ARGS]{\"x\": \"<|im_end|>\"}");
    struct text have = rig_read(&args, call, (struct cuts){NULL}, &out);
    assert_true(text_is(have, "text(a)call(0 g)args({\"x\": \"\"})end(0 1)over"));
    args.keep_special = true;
    have = rig_read(&args, call, (struct cuts){NULL}, &out);
    assert_true(text_is(have, "text(a)call(0 g)args({\"x\": \"<|im_end|>\"})end(0 1)over"));
    have = rig_read(&args, text_of("a <|im_end|>[TOOL_CALLS], "), (struct cuts){NULL}, &out);
    assert_true(text_is(have, "text(a <|im_end|>[TOOL_CALLS], )over"));
    args.keep_special = false;
    have = rig_read(&args, text_of("a <|im_end|>[TOOL_CALLS], "), (struct cuts){NULL}, &out);
    assert_true(text_is(have, "text(a , )over"));

    uint32_t count; // events; the markers are now spelled as text
    struct reply *r = reply_create(&args);
    const struct reply_event *events =
        reply_feed(r, text_of("[TOOL_CALLS]g[ARGS]{}"), false, &count);
    assert_int_equal(count, 1);
    assert_int_equal(events[0].kind, REPLY_TEXT);
    assert_true(text_is(events[0].text, "[TOOL_CALLS]g[ARGS]{}"));
    reply_destroy(r);
    tokenizer_close(t);
    json_buffer_free(&out);
}

static void test_disabled_parts_are_text(void **state)
{
    (void)state;
    struct json_buffer out = {0};
    struct dialect d;
    assert_true(dialect_named(&d, "hermes", "think", NULL));
    struct text text =
        text_of("<think>a</think><tool_call>{\"name\": \"any\", \"arguments\": {}}</tool_call>");
    struct reply_args args = {.dialect = &d, .reasoning = true};
    struct text have = rig_read(&args, text, (struct cuts){NULL}, &out);
    assert_true(text_is(
        have, "think(a)text(<tool_call>{\"name\": \"any\", \"arguments\": {}}</tool_call>)over"));
    args.reasoning = false;
    args.calls = true;
    have = rig_read(&args, text, (struct cuts){NULL}, &out);
    assert_true(text_is(have, "text(<think>a</think>)call(0 any)args({})end(0 1)over"));
    args.start = DIALECT_START_REASONING;
    have = rig_read(&args, text_of("a"), (struct cuts){NULL}, &out);
    assert_true(text_is(have, "text(a)over"));
    json_t *tools = json_array();
    args.tools = tools; // an empty list of tools
    have = rig_read(&args, text_of("<tool_call>{\"name\": \"any\", \"arguments\": {}}"),
                    (struct cuts){NULL}, &out);
    assert_true(text_is(have, "text(<tool_call>{\"name\": \"any\", \"arguments\": {}})over"));
    json_decref(tools);
    json_buffer_free(&out);
}

// Without a marker, an unknown key makes the object text, except after its arguments were emitted.
static void test_a_bare_object_skips_keys_after_its_arguments(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"{\"name\": \"f\", \"arguments\": {\"a\": 1}, \"extra\": [2, \"}\"]}",
         "call(0 f)args({\"a\": 1})end(0 1)over"},
        {"{\"name\": \"f\", \"arguments\": {}, \"extra\": {}, \"id\": \"7\"}",
         "call(0 f)args({})end(0 1)over"},
        {"{\"name\": \"f\", \"extra\": 1, \"arguments\": {}}",
         "text({\"name\": \"f\", \"extra\": 1, \"arguments\": {}})over"}};
    struct json_buffer out = {0};
    struct dialect d;
    assert_true(dialect_named(&d, "json", "none", NULL));
    const struct reply_args args = {.dialect = &d, .calls = true};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct text have = rig_read(&args, text_of(rows[i][0]), (struct cuts){NULL}, &out);
        if (!text_is(have, rows[i][1]))
            fail_msg("%s: %.*s", rows[i][0], (int)have.bytes, have.at);
    }
    json_buffer_free(&out);
}

static void held_check(const char *dialect, const char *text, size_t held)
{
    struct dialect d;
    uint32_t count;
    assert_true(dialect_named(&d, dialect, "think", NULL));
    const struct reply_args args = {.dialect = &d, .calls = true, .reasoning = true};
    struct reply *r = reply_create(&args);
    reply_feed(r, text_of(text), false, &count);
    if (reply_held(r) != held)
        fail_msg("%s: %s holds %zu", dialect, text, reply_held(r));
    reply_destroy(r);
}

static void test_only_possible_markers_are_held(void **state)
{
    (void)state;
    held_check("hermes", "Hello", 0);
    held_check("hermes", "Hello\n ", 2);
    held_check("hermes", "a < b", 0);
    held_check("hermes", "a <", 2);
    held_check("hermes", "a\n<tool_cal", 10);
    held_check("hermes", "a<tool_calx", 0);
    held_check("hermes", "<tool_call>{\"name\": \"f\", \"arguments\": {\"a", 0);
    held_check("hermes", "{\"name\"", 0);
    held_check("json", "{\"name\"", 7);
    held_check("json", "{\"nope\"", 0);
    held_check("hermes", "<think>a </", 3);
    held_check("qwen3-coder", "<function=f><parameter=s>\n[1, 2", 5);
    held_check("qwen3-coder", "<function=f><parameter=s>\n[1, 2x", 0);
    held_check("qwen3-coder", "<function=f><parameter=s>\nabc\n", 1);
}

static void test_held_text_is_bounded(void **state)
{
    (void)state;
    struct dialect d;
    uint32_t count;
    struct json_buffer out = {0};
    const size_t bytes = 3 * REPLY_HELD_MAX;
    static const struct {
        const char *dialect, *head;
        char fill;
    } cases[] = {{"hermes", "<tool_call>{\"arguments\": {\"a\": \"", 'x'},
                 {"hermes", "<tool_call>{\"", 'x'},
                 {"hermes", "<tool_call>", ' '},
                 {"hermes", "", ' '},
                 {"hermes", "<think>a", '\n'},
                 {"hermes", "<tool_call>{\"name\": \"f\", \"arguments\": {}}", '\n'},
                 {"qwen3-coder", "<function=f><parameter=a>\n[", '1'},
                 {"qwen3-coder", "<function=f><parameter=", 'k'},
                 {"lfm2", "<|tool_call_start|>[f(a=", '1'},
                 {"lfm2", "<|tool_call_start|>[f(a='x'", ' '},
                 {"kimi", "<|tool_call_begin|>f<|tool_call_argument_begin|>", ' '},
                 {"minimax-m3", NS "<invoke name=\"f\">" NS "<", 'k'},
                 {"minimax-m3", NS "<invoke name=\"f\">" NS "<a>[", '1'}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_true(dialect_named(&d, cases[i].dialect, "think", NULL));
        const struct reply_args args = {.dialect = &d, .calls = true, .reasoning = true};
        struct reply *r = reply_create(&args);
        reply_feed(r, text_of(cases[i].head), false, &count);
        for (size_t at = 0; at < bytes; at++) {
            reply_feed(r, text_span(&cases[i].fill, 1), false, &count);
            if (reply_held(r) > REPLY_HELD_MAX + 64)
                fail_msg("%s holds %zu bytes", cases[i].head, reply_held(r));
        }
        reply_finish(r, &count);
        reply_destroy(r);
    }
    json_buffer_free(&out);
}

// Reads `head`, `fill` repeated `count` times, and `tail`. Expects the arguments and whether they
// are complete.
static void long_check(const char *dialect, const char *head, const char *fill, size_t count,
                       const char *tail, const char *before, const char *after, bool complete)
{
    struct json_buffer text = {0}, out = {0}, want = {0};
    json_t *tools = json_loads(rig_tools, 0, NULL);
    struct dialect d;
    assert_true(dialect_named(&d, dialect, "none", NULL));
    json_put_literal(&text, head);
    json_put_format(&want, "call(0 f)args(%s", before);
    for (size_t i = 0; i < count; i++) {
        json_put_literal(&text, fill);
        json_put_literal(&want, fill);
    }
    json_put_literal(&text, tail);
    json_put_format(&want, "%s)end(0 %d)over", after, complete);
    const struct reply_args args = {.dialect = &d, .calls = true, .tools = tools};
    struct text have = rig_read(&args, text_span(text.at, text.bytes), (struct cuts){NULL}, &out);
    if (!text_equal(have, text_span(want.at, want.bytes)))
        fail_msg("%s %s, %zu times: %.*s ... %.*s", dialect, head, count, 80, have.at, 80,
                 have.at + (have.bytes > 80 ? have.bytes - 80 : 0));
    json_buffer_free(&text);
    json_buffer_free(&out);
    json_buffer_free(&want);
    json_decref(tools);
}

static void test_long_values_that_are_not_strings(void **state)
{
    (void)state;
    // The fill has two bytes, the rest of the value four.
    static const size_t counts[] = {1, REPLY_HELD_MAX / 2 - 2, REPLY_HELD_MAX / 2 - 1,
                                    REPLY_HELD_MAX / 2, REPLY_HELD_MAX};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        size_t n = counts[i];
        long_check("qwen3-coder", "<function=f><parameter=l>\n[", "1,", n,
                   "10] \n</parameter></function>", "{\"l\":[", "10]}", true);
        long_check("dsml",
                   "<\xEF\xBD\x9C"
                   "DSML\xEF\xBD\x9Cinvoke name=\"f\"><\xEF\xBD\x9C"
                   "DSML\xEF\xBD\x9Cparameter name=\"z\" string=\"false\">[",
                   "1,", n,
                   "10]</\xEF\xBD\x9C"
                   "DSML\xEF\xBD\x9Cparameter></\xEF\xBD\x9C"
                   "DSML\xEF\xBD\x9Cinvoke>",
                   "{\"z\":[", "10]}", true);
        long_check("minimax-m3", NS "<invoke name=\"f\">" NS "<l>[", "1,", n,
                   "10]" NS "</l>" NS "</invoke>", "{\"l\":[", "10]}", true);
        long_check("qwen3-coder", "<function=f><parameter=unknown>\n[", "1,", n,
                   "10] \n</parameter></function>", "{\"unknown\":[", "10]}", true);
        long_check("qwen3-coder", "<function=f><parameter=u>\n[", "1,", n,
                   "10]\n</parameter></function>", "{\"u\":\"[", "10]\"}", true);
        long_check("qwen3-coder", "<function=f><parameter=s>\n[", "1,", n,
                   "\n</parameter></function>", "{\"s\":\"[", "\"}", true);
    }
    static const char *const heads[] = {"[", "[ ", "[  "};
    for (size_t i = 0; i < 3; i++) {
        char head[64], before[64];
        snprintf(head, sizeof head, "<function=f><parameter=l>\n%s", heads[i]);
        snprintf(before, sizeof before, "{\"l\":%s", heads[i]);
        long_check("qwen3-coder", head, "1, ", REPLY_HELD_MAX, "10]\n</parameter></function>",
                   before, "10]}", true);
    }
    // After this many bytes, a value that is not JSON is broken, no longer a string.
    long_check("qwen3-coder", "<function=f><parameter=l>\n[", "1,", REPLY_HELD_MAX,
               "x]</parameter></function>", "{\"l\":[", "x]</parameter>", false);
    long_check("qwen3-coder", "<function=f><parameter=l>\n[", "1,", REPLY_HELD_MAX,
               "1</parameter></function>", "{\"l\":[", "1", false);
    long_check("qwen3-coder", "<function=f><parameter=l>\n[", "1,", REPLY_HELD_MAX, "1</function>",
               "{\"l\":[", "1", false);
    long_check("minimax-m3", NS "<invoke name=\"f\">" NS "<l>[", "1,", REPLY_HELD_MAX,
               "x]" NS "</invoke>", "{\"l\":[", "x]", false);
}

static void test_long_keys(void **state)
{
    (void)state;
    static const size_t counts[] = {1, 127, 128, 129, 1023, 1024};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        long_check("qwen3-coder", "<function=f><parameter=", "k", counts[i],
                   ">\n1\n</parameter></function>", "{\"", "\":1}", true);
    long_check("qwen3-coder", "<function=f><parameter=", "k", 1025, ">\n1\n</parameter></function>",
               "{", ">\n1\n</parameter>", false);
}

static void test_long_numbers_in_literals(void **state)
{
    (void)state;
    long_check("lfm2", "<|tool_call_start|>[f(n=", "1", 100, ", b=-2.50e+3)]",
               "{\"n\":", ",\"b\":-2.50e+3}", true);
    long_check("gemma", "<|tool_call>call:f{n:", "1", 100, ".}", "{\"n\":", ".}", false);
    long_check("lfm2", "<|tool_call_start|>[f(n=", "1", 3, "_0)]", "{\"n\":", "_0)]", false);
}

static void test_deep_values_are_broken(void **state)
{
    (void)state;
    static const char *const heads[][3] = {
        {"hermes", "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": ", "["},
        {"lfm2", "<|tool_call_start|>[f(a=", "["},
        {"lfm2", "<|tool_call_start|>[f(a=", "{'k': "},
        {"gemma", "<|tool_call>call:f{a:", "{k:"},
        {"minimax-m3", NS "<invoke name=\"f\">", NS "<a>"},
        {"qwen3-coder", "<function=f><parameter=l>\n", "["},
        {"qwen3-coder", "<function=f><parameter=l>\n{'a': ", "["}};
    json_t *tools = json_loads(rig_tools, 0, NULL);
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        struct dialect d;
        uint32_t count;
        assert_true(dialect_named(&d, heads[i][0], "none", NULL));
        const struct reply_args args = {.dialect = &d, .calls = true, .tools = tools};
        struct reply *r = reply_create(&args);
        reply_feed(r, text_of(heads[i][1]), false, &count);
        for (int n = 0; n < 1000; n++)
            reply_feed(r, text_of(heads[i][2]), false, &count);
        const struct reply_event *events = reply_finish(r, &count);
        assert_int_equal(events[count - 1].kind, REPLY_END);
        assert_int_equal(events[count - 2].kind, REPLY_CALL_END);
        assert_false(events[count - 2].complete);
        reply_destroy(r);
    }
    json_decref(tools);
}

// The next request repeats the arguments in its body, in the form of Messages. The body's parser
// accepts the deepest arguments that the reader's scanner accepts.
static void test_arguments_fit_the_body_of_the_next_request(void **state)
{
    (void)state;
    static const char before[] = "{\"messages\":[{\"content\":[{\"input\":";
    struct json_buffer text = {0};
    struct json_scan scan;
    struct error err = {0};
    json_t *value = NULL;
    int depth = 0;
    json_put_literal(&text, before);
    json_scan_begin(&scan);
    for (; json_scan_byte(&scan, '[') == JSON_SCAN_MORE; depth++)
        json_put_literal(&text, "[");
    for (int i = 0; i < depth; i++)
        json_put_literal(&text, "]");
    json_put_literal(&text, "}]}]}");
    if (json_parse(&value, text_span(text.at, text.bytes), &err) != STATUS_OK)
        fail_msg("%d levels: %s", depth, err.text);
    assert_int_equal(depth, JSON_SCAN_DEPTH_MAX);
    json_decref(value);
    json_buffer_free(&text);
}

// Each escape becomes its character, half of a surrogate pair becomes U+FFFD.
static void test_escapes_of_strings(void **state)
{
    (void)state;
    static const char text[] = "\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\\ud83d\\ude80\\udc00x\\ud800y\"";
    static const char want[] = "\"\\/\b\f\n\r\tA\xF0\x9F\x9A\x80\xEF\xBF\xBDx\xEF\xBF\xBDy";
    struct json_unescape u = {0};
    char all[64], out[8];
    uint32_t count = 0, bytes;
    for (size_t i = 0; i + 1 < sizeof text; i++) {
        enum json_unescape_step step = json_unescape_byte(&u, text[i], out, &bytes);
        assert_int_equal(step, i + 2 < sizeof text ? JSON_UNESCAPE_MORE : JSON_UNESCAPE_END);
        memcpy(all + count, out, bytes);
        count += bytes;
    }
    assert_int_equal(count, sizeof want - 1);
    assert_memory_equal(all, want, count);
    for (int byte = 0; byte < 0x20; byte++) { // a string cannot contain these bytes unescaped
        struct json_scan scan;
        json_scan_begin(&scan);
        assert_int_equal(json_scan_byte(&scan, '"'), JSON_SCAN_MORE);
        assert_int_equal(json_scan_byte(&scan, (char)byte), JSON_SCAN_BAD);
    }
}

static void test_start_of_a_reply(void **state)
{
    (void)state;
    static const struct {
        const char *dialect, *reasoning, *end;
        enum dialect_start start;
    } cases[] = {{"hermes", "think", "<|im_start|>assistant\n<think>\n", DIALECT_START_REASONING},
                 {"hermes", "think", "<think>\n\n</think>\n\n", DIALECT_START_TEXT},
                 {"hermes", "none", "<think>\n", DIALECT_START_TEXT},
                 {"hermes", "think", "", DIALECT_START_TEXT},
                 {"gemma", "gemma", "<|channel>thought\n", DIALECT_START_REASONING},
                 {"apriel", "apriel", "Here are my reasoning steps:\n", DIALECT_START_REASONING},
                 {"functionary-v3.2", "none", "assistant\n\n>>>", DIALECT_START_CALL},
                 {"harmony", "harmony", "<|start|>assistant", DIALECT_START_TEXT}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct dialect d;
        assert_true(dialect_named(&d, cases[i].dialect, cases[i].reasoning, NULL));
        assert_int_equal(dialect_start_of(&d, text_of(cases[i].end)), cases[i].start);
    }
}

static void test_counts_and_reasoning_while_reading(void **state)
{
    (void)state;
    struct dialect d;
    uint32_t count;
    assert_true(dialect_named(&d, "hermes", "think", NULL));
    const struct reply_args args = {.dialect = &d, .calls = true, .reasoning = true};
    struct reply *r = reply_create(&args);
    assert_false(reply_in_reasoning(r));
    reply_feed(r, text_of("<think>a"), false, &count);
    assert_true(reply_in_reasoning(r));
    reply_feed(r, text_of("</think>"), false, &count);
    assert_false(reply_in_reasoning(r));
    reply_feed(r, text_of("<tool_call>{\"name\":\"f\",\"arguments\":{"), false, &count);
    assert_int_equal(reply_calls(r), 0);
    reply_feed(r, text_of("}"), false, &count);
    assert_int_equal(reply_calls(r), 1);
    reply_destroy(r);
    reply_destroy(NULL);
}

// A schema with circular references, and one with very many alternatives.
static void test_hostile_schemas_end(void **state)
{
    (void)state;
    static const char *const sources[] = {
        "{\"$ref\": \"#\"}",
        "{\"$ref\": \"#/properties/a\", \"properties\": {\"a\": {\"$ref\": \"#\"}}}",
        "{\"anyOf\": [{\"$ref\": \"#\"}, {\"$ref\": \"#\"}, {\"$ref\": \"#\"}]}",
        "{\"properties\": {\"a\": {\"anyOf\": [{\"allOf\": [{\"$ref\": \"#/properties/a\"},"
        " {\"$ref\": \"#/properties/a\"}]}, {\"$ref\": \"#/properties/a\"}]}}}",
        "{\"properties\": {\"a\": {\"$ref\": \"#/x~1y/~0/7\"}}}",
        "[1]",
        "7"};
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        json_t *parameters = json_loads(sources[i], JSON_DECODE_ANY, NULL);
        json_t *tools =
            json_pack("[{s:{s:s, s:o}}]", "function", "name", "f", "parameters", parameters);
        struct dialect d;
        struct json_buffer out = {0};
        assert_true(dialect_named(&d, "qwen3-coder", "none", NULL));
        const struct reply_args args = {.dialect = &d, .calls = true, .tools = tools};
        struct text text = text_of("<function=f><parameter=a>\n1\n</parameter></function>");
        struct text have = rig_read(&args, text, (struct cuts){NULL}, &out);
        assert_true(text_is(have, "call(0 f)args({\"a\":1})end(0 1)over"));
        json_buffer_free(&out);
        json_decref(tools);
    }
}

static json_t *list_of(size_t count, const char *each)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, json_loads(each, JSON_DECODE_ANY, NULL));
    return list;
}

static void expect_argument(json_t *of_a, json_t *shared, const char *want)
{
    json_t *tools = json_pack("[{s:{s:s, s:{s:{s:o}, s:o}}}]", "function", "name", "f",
                              "parameters", "properties", "a", of_a, "shared", shared);
    struct dialect d;
    struct json_buffer out = {0};
    char line[64];
    assert_true(dialect_named(&d, "qwen3-coder", "none", NULL));
    const struct reply_args args = {.dialect = &d, .calls = true, .tools = tools};
    struct text text = text_of("<function=f><parameter=a>\n1\n</parameter></function>");
    struct text have = rig_read(&args, text, (struct cuts){NULL}, &out);
    snprintf(line, sizeof line, "call(0 f)args({\"a\":%s})end(0 1)over", want);
    if (!text_is(have, line))
        fail_msg("%.*s, not %s", (int)have.bytes, have.at, line);
    json_buffer_free(&out);
    json_decref(tools);
}

// The client's schema does not decide how long the event loop works on it: a schema that is too
// large is ignored, and then a value that parses as JSON is JSON.
static void test_large_schemas_are_ignored(void **state)
{
    (void)state;
    static const char string[] = "{\"type\": \"string\"}";
    static const char reference[] = "{\"$ref\": \"#/shared\"}";
    json_t *(*none)(void) = json_object;
    expect_argument(json_pack("{s:o}", "enum", list_of(9, "\"x\"")), none(), "\"1\"");
    expect_argument(json_pack("{s:o}", "enum", list_of(100000, "\"x\"")), none(), "1");
    expect_argument(json_pack("{s:o}", "type", list_of(100000, "\"string\"")), none(), "1");
    expect_argument(json_pack("{s:o}", "anyOf", list_of(400, reference)),
                    json_pack("{s:o}", "enum", list_of(9, "\"x\"")), "\"1\"");
    expect_argument(json_pack("{s:o}", "anyOf", list_of(400, reference)),
                    json_pack("{s:o}", "enum", list_of(1000, "\"x\"")), "1");
    expect_argument(json_pack("{s:o}", "allOf", list_of(9, "{}")), none(), "1");
    json_t *last = list_of(100000, "{}");
    json_array_append_new(last, json_loads(string, 0, NULL));
    expect_argument(json_pack("{s:o}", "allOf", last), none(), "1");
    json_t *deep = json_loads(string, 0, NULL);
    char pointer[2048] = "#/shared";
    for (int i = 0; i < 600; i++) {
        deep = json_pack("{s:o}", "k", deep);
        memcpy(pointer + 8 + 2 * i, "/k", 3);
    }
    expect_argument(json_pack("{s:s}", "$ref", pointer), json_incref(deep), "1");
    while (strlen(pointer) > 8 + 2 * 500)
        pointer[strlen(pointer) - 2] = 0;
    json_t *half = deep;
    for (int i = 0; i < 100; i++)
        half = json_object_get(half, "k");
    expect_argument(json_pack("{s:s}", "$ref", pointer), json_incref(half), "\"1\"");
    json_decref(deep);
}

// A reference is a percent-encoded pointer or the name of an anchor. One without a target allows no
// type.
static void test_references_of_schemas(void **state)
{
    (void)state;
    static const struct {
        const char *reference;
        unsigned types;
    } rows[] = {{"#", SCHEMA_OBJECT},
                {"#/$defs/a", SCHEMA_STRING},
                {"#/$defs/a%20b", SCHEMA_ARRAY},
                {"#/%24defs%2Fa", SCHEMA_STRING},
                {"#/$defs/c~1%7E0", SCHEMA_NULL},
                {"#/$defs/%zz", SCHEMA_NUMBER},
                {"#/$defs/list/anyOf/1", SCHEMA_NULL},
                {"#/$defs/list/anyOf/0", SCHEMA_NUMBER},
                {"#/$defs/list/anyOf/a", 0},
                {"#/$defs/list/anyOf/0x", 0},
                {"#/$defs/list/anyOf/ ;", 0}, // not digits
                {"#/$defs/list/anyOf/", 0},
                {"#/$defs/list/anyOf/0000000001", 0},
                {"#zip", SCHEMA_BOOLEAN},
                {"#in%6Cist", SCHEMA_NUMBER},
                {"#second", SCHEMA_NULL},
                {"#nowhere", 0},
                {"#/$defs/nowhere", 0},
                {"#/", 0}};
    json_t *root =
        json_loads("{\"type\": \"object\", \"$defs\": {\"a\": {\"type\": \"string\"}, "
                   "\"a b\": {\"type\": \"array\"}, \"c/~\": {\"type\": \"null\"}, "
                   "\"%zz\": {\"type\": \"number\"}, \"list\": {\"anyOf\": [{\"$anchor\": "
                   "\"inlist\", \"type\": \"number\"}, {\"$anchor\": \"second\", \"type\": "
                   "\"null\"}]}, \"z\": "
                   "{\"$anchor\": \"zip\", \"type\": \"boolean\"}}}",
                   0, NULL);
    assert_non_null(root);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        json_t *schema = json_pack("{s:s}", "$ref", rows[i].reference);
        unsigned types = tool_types(root, schema);
        if (types != rows[i].types)
            fail_msg("%s: %u, not %u", rows[i].reference, types, rows[i].types);
        json_decref(schema);
    }
    json_decref(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_reasoning_has_a_row),
        cmocka_unit_test(test_no_marker_hides_another),
        cmocka_unit_test(test_calls_of_the_syntax_are_read),
        cmocka_unit_test(test_special_markers_are_not_text),
        cmocka_unit_test(test_disabled_parts_are_text),
        cmocka_unit_test(test_a_bare_object_skips_keys_after_its_arguments),
        cmocka_unit_test(test_only_possible_markers_are_held),
        cmocka_unit_test(test_held_text_is_bounded),
        cmocka_unit_test(test_long_values_that_are_not_strings),
        cmocka_unit_test(test_long_keys),
        cmocka_unit_test(test_long_numbers_in_literals),
        cmocka_unit_test(test_deep_values_are_broken),
        cmocka_unit_test(test_arguments_fit_the_body_of_the_next_request),
        cmocka_unit_test(test_escapes_of_strings),
        cmocka_unit_test(test_start_of_a_reply),
        cmocka_unit_test(test_counts_and_reasoning_while_reading),
        cmocka_unit_test(test_hostile_schemas_end),
        cmocka_unit_test(test_large_schemas_are_ignored),
        cmocka_unit_test(test_references_of_schemas),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
