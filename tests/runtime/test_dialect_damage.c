// SPDX-License-Identifier: Apache-2.0
// Damaged calls. A complete call accounts for every byte between its marks: damage is repaired if
// the call is unambiguous, else the call is not complete. Usage: test_dialect_damage [cases per
// dialect].
#include "runtime/text/dialect/row.h"
#include "tests/runtime/dialect_rig.h"
#include "tests/runtime/tokenizer_memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define NS "]<]minimax[>["
#define DSML                                                                                       \
    "\xEF\xBD\x9C"                                                                                 \
    "DSML"                                                                                         \
    "\xEF\xBD\x9C"

static uint32_t cases = 200; // per dialect, half of them with special tokens

static uint32_t random_below(uint64_t *seed, uint32_t below)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33) % below;
}

// --- calls that models wrote ---

static const char row_tools[] =
    "[{\"function\":{\"name\":\"search\",\"parameters\":{\"type\":\"object\",\"properties\":{"
    "\"query\":{\"type\":\"string\"},\"n\":{\"type\":\"integer\"}}}}},"
    "{\"function\":{\"name\":\"save_file\",\"parameters\":{\"type\":\"object\",\"properties\":{"
    "\"filename\":{\"type\":\"string\"},\"content\":{\"type\":\"string\"}}}}},"
    "{\"function\":{\"name\":\"set_flag\",\"parameters\":{\"type\":\"object\",\"properties\":{"
    "\"enabled\":{\"type\":\"boolean\"},\"o\":{\"type\":\"object\"}}}}},"
    "{\"function\":{\"name\":\"bash\",\"parameters\":{\"type\":\"object\",\"properties\":{"
    "\"command\":{\"type\":\"string\"},\"timeout\":{\"type\":\"integer\"}}}}},"
    "{\"function\":{\"name\":\"run\",\"parameters\":{\"type\":\"object\",\"properties\":{"
    "\"data_refs\":{\"type\":\"array\",\"items\":{\"type\":\"string\"}},\"n\":{\"type\":"
    "\"integer\"},\"message\":{\"type\":\"string\"},\"opts\":{\"type\":\"object\"},"
    "\"code\":{\"type\":\"string\"},\"size\":{\"type\":\"array\"}}}}}]";

#define QWEN(body) "<tool_call>\n<function=" body "\n</tool_call>"

#define GEMMA(body) "<|tool_call>call:run" body "<tool_call|>"
#define LFM2(call) "<|tool_call_start|>[" call "]<|tool_call_end|>"

static const struct row {
    const char *dialect, *text, *want;
} rows[] = {
    // The opening tag of a value is missing.
    {"glm",
     "<tool_call>search<arg_key>query</arg_key>how many</arg_value><arg_key>n</arg_key>"
     "<arg_value>3</arg_value></tool_call>",
     "call(0 search)args({\"query\":\"how many\",\"n\":3})end(0 1)over"},
    {"glm", "<tool_call>search<arg_key>query</arg_key>how many</arg_value></tool_call>",
     "call(0 search)args({\"query\":\"how many\"})end(0 1)over"},
    {"glm",
     "<tool_call>search\nx</arg_key>\n<arg_value>y</arg_value>\n<arg_key>n</arg_key>\n"
     "<arg_value>1</arg_value>\n</tool_call>",
     "call(0 search)args({\"n\":1})end(0 0)over"},
    {"glm",
     "<tool_call>search\n<arg_key><arg_key>query</arg_key>\n<arg_value>y</arg_value></tool_call>",
     "call(0 search)args({\"<arg_key>query\":\"y\"})end(0 0)over"},
    {"hunyuan",
     "<tool_call:opensource>search<tool_sep:opensource>\n<arg_key:opensource>query"
     "</arg_key:opensource>x</arg_value:opensource></tool_call:opensource>",
     "call(0 search)args({\"query\":\"x\"})end(0 1)over"},
    {"minimax-m3",
     NS "<tool_call>\n" NS "<invoke name=\"save_file\">" NS "offerta.docx" NS "</filename>" NS
        "<content>Hello" NS "</content>" NS "</invoke>" NS "</tool_call>",
     "call(0 save_file)args({\"content\":\"Hello\"})end(0 0)over"},
    // Junk in the body.
    {"dsml",
     "<" DSML "invoke name=\"set_flag\">\n<parameter name=\"enabled\">true</" DSML
     "parameter>\n</" DSML "invoke>",
     "call(0 set_flag)args({})end(0 0)over"},
    {"qwen3-coder", QWEN("set_flag>\n<parameter name=\"enabled\">true</parameter>\n</function>"),
     "call(0 set_flag)args({})end(0 0)over"},
    {"qwen3-coder", QWEN("set_flag>\n{\"enabled\": true}\n</function>"),
     "call(0 set_flag)args({})end(0 0)over"},
    {"minimax-m2", "<invoke name=\"search\">\n<parameter>Seoul</parameter>\n</invoke>",
     "call(0 search)args({})end(0 0)over"},
    {"minimax-m2", "<invoke name=\"search\">\n<query>Seoul</query>\n</invoke>",
     "call(0 search)args({})end(0 0)over"},
    {"minicpm", "<function name=\"search\"><query>Seoul</query></function>",
     "call(0 search)args({})end(0 0)over"},
    // The end tag of a value is missing.
    {"qwen3-coder", QWEN("bash>\n<parameter=command>\nls -la\n</function>"),
     "call(0 bash)args({\"command\":\"ls -la\"})end(0 1)over"},
    {"qwen3-coder",
     QWEN("bash>\n<parameter=command>\nls\n<parameter=timeout>\n5\n</parameter>\n</function>"),
     "call(0 bash)args({\"command\":\"ls\",\"timeout\":5})end(0 0)over"},
    {"qwen3-coder", // not a parameter of the tool
     QWEN("bash>\n<parameter=command>\nls\n<parameter=x>\n</parameter>\n</function>"),
     "call(0 bash)args({\"command\":\"ls\\n<parameter=x>\"})end(0 1)over"},
    {"qwen3-coder", // which one is meant?
     QWEN("bash>\n<parameter=command>\nls\n<parameter=timeout>\n5\n</parameter>\n"
          "<parameter=timeout>\n6\n</parameter>\n</function>"),
     "call(0 bash)args({\"command\":\"ls\",\"timeout\":5,\"timeout\":6})end(0 0)over"},
    {"qwen3-coder",
     QWEN("bash>\n<parameter=command>\necho '</function>'\n</parameter>\n</function>"),
     "call(0 bash)args({\"command\":\"echo '</function>'\"})end(0 1)over"},
    {"seed",
     "<seed:tool_call>\n<function=bash>\n<parameter=command>ls -la\n</function>\n"
     "</seed:tool_call>",
     "call(0 bash)args({\"command\":\"ls -la\"})end(0 1)over"},
    {"glm", "<tool_call>bash\n<arg_key>command</arg_key>\n<arg_value>ls -la\n</tool_call>",
     "call(0 bash)args({\"command\":\"ls -la\"})end(0 1)over"},
    {"minimax-m2",
     "<minimax:tool_call>\n<invoke name=\"bash\">\n<parameter name=\"command\">ls -la\n</invoke>\n"
     "</minimax:tool_call>",
     "call(0 bash)args({\"command\":\"ls -la\"})end(0 1)over"},
    {"dsml",
     "<" DSML "tool_calls>\n<" DSML "invoke name=\"bash\">\n<" DSML
     "parameter name=\"command\" string=\"true\">ls -la\n</" DSML "invoke>\n</" DSML "tool_calls>",
     "call(0 bash)args({\"command\":\"ls -la\"})end(0 1)over"},
    {"minimax-m3", NS "<invoke name=\"bash\">" NS "<command>ls" NS "</invoke>" NS "</tool_call>",
     "call(0 bash)args({\"command\":\"ls\"})end(0 1)over"},
    // An end tag in a value.
    {"qwen3-coder",
     QWEN("bash>\n<parameter=command>\necho '</parameter>' && rm x\n</parameter>\n</function>"),
     "call(0 bash)args({\"command\":\"echo '</parameter>' && rm x\"})end(0 0)over"},
    {"qwen3-coder",
     QWEN("set_flag>\n<parameter=o>\n{\"a\": \"</parameter>\"}\n</parameter>\n</function>"),
     "call(0 set_flag)args({\"o\":{\"a\": \"</parameter>\"}})end(0 1)over"},
    {"seed", "<function=bash>\n<parameter=command>echo '</parameter>'</parameter>\n</function>",
     "call(0 bash)args({\"command\":\"echo '</parameter>'\"})end(0 0)over"},
    {"glm",
     "<tool_call>bash\n<arg_key>command</arg_key>\n<arg_value>echo </arg_value>x</arg_value>\n"
     "</tool_call>",
     "call(0 bash)args({\"command\":\"echo </arg_value>x\"})end(0 0)over"},
    {"minimax-m2",
     "<invoke name=\"bash\">\n<parameter name=\"command\">a </parameter> b</parameter>\n</invoke>",
     "call(0 bash)args({\"command\":\"a </parameter> b\"})end(0 0)over"},
    // Strings without their quote marks, and with others.
    {"gemma", GEMMA("{data_refs:[\"ds_1\"],n:5}"),
     "call(0 run)args({\"data_refs\":[\"ds_1\"],\"n\":5})end(0 1)over"},
    {"gemma", GEMMA("{data_refs:['ds_1']}"),
     "call(0 run)args({\"data_refs\":[\"ds_1\"]})end(0 1)over"},
    {"gemma", GEMMA("{opts:{\"mode\": \"fast\"}}"),
     "call(0 run)args({\"opts\":{\"mode\":\"fast\"}})end(0 1)over"},
    {"gemma", GEMMA("{data_refs:[bug,ui]}"),
     "call(0 run)args({\"data_refs\":[\"bug\",\"ui\"]})end(0 1)over"},
    {"gemma", GEMMA("{message:hello world,n:5}"),
     "call(0 run)args({\"message\":\"hello world\",\"n\":5})end(0 1)over"},
    {"gemma", GEMMA("{message:hello there ,n:5}"),
     "call(0 run)args({\"message\":\"hello there\",\"n\":5})end(0 1)over"},
    {"gemma", GEMMA("{message:hello, see:5}"), // is `see` a parameter?
     "call(0 run)args({\"message\":\"hello\",\"see\":5})end(0 0)over"},
    {"gemma", GEMMA("{message:\"hello\",n:5}"),
     "call(0 run)args({\"message\":\"hello\",\"n\":5})end(0 1)over"},
    {"gemma", GEMMA("{code:<|\"|>x<|\"|>,data_refs=[\"ds\",<|\"|>d<|\"|>]}"),
     "call(0 run)args({\"code\":\"x\",\"data_refs\":[\"ds\",\"d\"]})end(0 1)over"},
    // Calls as JSON in place of Python.
    {"lfm2", LFM2("{\"name\": \"search\", \"arguments\": {\"query\": \"x\"}}"),
     "call(0 search)args({\"query\": \"x\"})end(0 1)over"},
    {"llama-pythonic",
     "[{\"name\": \"search\", \"arguments\": {\"n\": 1}}, {\"name\": \"bash\", \"parameters\": "
     "{}}]",
     "call(0 search)args({\"n\": 1})end(0 1)call(1 bash)args({})end(1 1)over"},
    {"llama-pythonic", "[{\"name\": \"nobody\", \"arguments\": {}}]",
     "text([{\"name\": \"nobody\", \"arguments\": {}}])over"},
    // Python's literals.
    {"lfm2", LFM2("run(size=(800, 600))"), "call(0 run)args({\"size\":[800,600]})end(0 1)over"},
    {"lfm2", LFM2("run(size=(800))"), "call(0 run)args({\"size\":[800]})end(0 0)over"},
    {"lfm2", LFM2("run(size=(800,), n=1)"),
     "call(0 run)args({\"size\":[800],\"n\":1})end(0 1)over"},
    {"lfm2", LFM2("bash(command='''a\n'b'\n''')"),
     "call(0 bash)args({\"command\":\"a\\n'b'\\n\"})end(0 1)over"},
    {"llama-pythonic", "[bash(command=\"\"\"a \"\" b\"\"\", timeout=1)]",
     "call(0 bash)args({\"command\":\"a \\\"\\\" b\",\"timeout\":1})end(0 1)over"},
    {"lfm2", LFM2("bash(command='', timeout=1)"),
     "call(0 bash)args({\"command\":\"\",\"timeout\":1})end(0 1)over"},
    {"lfm2", LFM2("search(**{'query': 'cats', 'n': 2})"),
     "call(0 search)args({\"query\":\"cats\",\"n\":2})end(0 1)over"},
};

static void row_check(const struct row *row, const json_t *tools)
{
    struct json_buffer out = {0};
    struct dialect d;
    size_t bytes = strlen(row->text);
    unsigned char *after = test_calloc(bytes + 1, 1);
    uint64_t seed = 3;
    assert_true(dialect_named(&d, row->dialect, "none", NULL));
    const struct reply_args args = {.dialect = &d, .calls = true, .tools = tools};
    for (uint32_t i = 0; i < 40; i++) {
        for (size_t at = 0; at < bytes; at++)
            after[at] = i == 1 || (i > 1 && random_below(&seed, 5) == 0);
        struct text have = rig_read(&args, text_of(row->text), (struct cuts){after}, &out);
        if (!text_is(have, row->want))
            fail_msg("%s: %s\nhave %.*s\nwant %s", row->dialect, row->text, (int)have.bytes,
                     have.at, row->want);
    }
    test_free(after);
    json_buffer_free(&out);
}

static void test_damaged_calls(void **state)
{
    (void)state;
    json_t *tools = json_loads(row_tools, 0, NULL);
    assert_non_null(tools);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        row_check(&rows[i], tools);
    json_decref(tools);
}

// --- one tag dropped or doubled ---

enum { TAGS_MAX = 128 };

struct tag {
    size_t from, to;
};

// Returns the length of the tag at the beginning of the text: a mark of the dialect and, if it is
// the beginning of <...>, the rest of it; or 0.
static size_t tag_bytes(const struct dialect *d, struct text text)
{
    size_t most = 0;
    for (int i = 0; i < ROW_MARKERS && d->row->markers[i].text; i++) {
        const char *mark = d->row->markers[i].text;
        size_t bytes = strlen(mark);
        if (bytes > most && bytes <= text.bytes && memcmp(mark, text.at, bytes) == 0)
            most = bytes;
    }
    const char *open = most > 0 ? memrchr(text.at, '<', most) : NULL;
    if (open && !memchr(open, '>', most - (size_t)(open - text.at))) {
        const char *end = memchr(open, '>', text.bytes - (size_t)(open - text.at));
        most = end ? (size_t)(end - text.at) + 1 : most;
    }
    return most;
}

static uint32_t tags_find(const struct dialect *d, struct text text, struct tag tags[TAGS_MAX])
{
    uint32_t count = 0;
    for (size_t at = 0; at < text.bytes && count < TAGS_MAX;) {
        size_t bytes = tag_bytes(d, text_span(text.at + at, text.bytes - at));
        if (bytes > 0)
            tags[count++] = (struct tag){at, at + bytes};
        at += bytes > 0 ? bytes : 1;
    }
    return count;
}

// Like tags_find, for a dialect whose calls have no marks: finds its literals.
static uint32_t literals_find(const struct dialect_syntax *s, struct text text,
                              struct tag tags[TAGS_MAX])
{
    const char *const literals[] = {s->call_open, s->name_close, s->call_close};
    const size_t begin = strlen(s->begin), end = text.bytes - strlen(s->end);
    uint32_t count = 0;
    if (begin > 0)
        tags[count++] = (struct tag){0, begin};
    if (end < text.bytes)
        tags[count++] = (struct tag){end, text.bytes};
    for (size_t at = begin; at < end && count < TAGS_MAX; at++)
        for (size_t i = 0; i < sizeof literals / sizeof *literals; i++) {
            size_t bytes = strlen(literals[i]);
            if (bytes == 0 || bytes > end - at || memcmp(literals[i], text.at + at, bytes) != 0)
                continue;
            tags[count++] = (struct tag){at, at + bytes};
            break;
        }
    return count;
}

static json_t *random_arguments(uint64_t *seed)
{
    static const char *const strings[] = {"x", "a b", "ls -la /tmp", "5", "true, or not", "[1"};
    json_t *all = json_object();
    if (random_below(seed, 3) > 0)
        json_object_set_new(all, "s", json_string(strings[random_below(seed, 6)]));
    if (random_below(seed, 2) > 0)
        json_object_set_new(all, "n", json_integer(random_below(seed, 1000)));
    if (random_below(seed, 3) == 0)
        json_object_set_new(all, "b", json_boolean(random_below(seed, 2)));
    if (random_below(seed, 3) == 0)
        json_object_set_new(all, "l", json_pack("[i,i]", 1, (int)random_below(seed, 9)));
    if (random_below(seed, 3) == 0)
        json_object_set_new(all, "o", json_pack("{s:s}", "k", strings[random_below(seed, 4)]));
    return all;
}

// A damaged text and its undamaged calls; the newest call.
struct damage {
    const struct reply_args *args;
    struct text text;
    const json_t *calls;
    const char *what;
    struct json_buffer arguments;
    char name[REPLY_NAME_MAX + 1];
};

// Checks that a complete call is one of the undamaged calls.
static void complete_check(const struct damage *d)
{
    json_t *have = json_loadb(d->arguments.at, d->arguments.bytes, 0, NULL), *want;
    bool same = false;
    size_t k;
    json_array_foreach(d->calls, k, want) same |=
        strcmp(json_string_value(json_array_get(want, 0)), d->name) == 0 &&
        json_equal(json_array_get(want, 1), have);
    if (!same)
        fail_msg("%s%s, %s: %.*s\nis complete: %s(%.*s)", dialect_name(d->args->dialect),
                 d->args->dialect->tokenizer ? " (special)" : "", d->what, (int)d->text.bytes,
                 d->text.at, d->name, (int)d->arguments.bytes, d->arguments.at);
    json_decref(have);
}

static void damage_events(struct damage *d, const struct reply_event *events, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct reply_event *e = &events[i];
        if (e->kind == REPLY_CALL) {
            snprintf(d->name, sizeof d->name, "%.*s", (int)e->text.bytes, e->text.at);
            d->arguments.bytes = 0;
        } else if (e->kind == REPLY_ARGUMENTS) {
            json_put_raw(&d->arguments, e->text);
        } else if (e->kind == REPLY_CALL_END && e->complete) {
            complete_check(d);
        }
    }
}

static void damage_check(const struct reply_args *args, struct text text, const json_t *calls,
                         const char *what)
{
    struct reply *r = reply_create(args);
    struct damage d = {.args = args, .text = text, .calls = calls, .what = what};
    bool tokens = args->dialect->tokenizer != NULL;
    const struct reply_event *events;
    uint32_t count;
    for (size_t at = 0; at < text.bytes;) {
        size_t special = tokens ? rig_special(text_span(text.at + at, text.bytes - at)) : 0;
        size_t end = at + (special > 0 ? special : 1);
        while (special == 0 && end < text.bytes &&
               (!tokens || rig_special(text_span(text.at + end, text.bytes - end)) == 0))
            end++;
        events = reply_feed(r, text_span(text.at + at, end - at), special > 0, &count);
        damage_events(&d, events, count);
        at = end;
    }
    events = reply_finish(r, &count);
    damage_events(&d, events, count);
    json_buffer_free(&d.arguments);
    reply_destroy(r);
}

// Writes one or two valid calls; calls: [name, arguments] of each.
static void calls_put(const struct dialect_syntax *s, uint64_t *seed, json_t *calls,
                      struct json_buffer *out)
{
    uint32_t count = s->one_call ? 1 : 1 + random_below(seed, 2);
    json_put_literal(out, s->begin);
    for (uint32_t i = 0; i < count; i++) {
        const char *name = i > 0 && random_below(seed, 2) ? "g" : "f";
        json_t *arguments = *name == 'g' ? json_object() : random_arguments(seed);
        json_put_literal(out, i > 0 ? s->separator : "");
        rig_put_call(s, name, i > 0 ? "012345678" : "112345678", arguments, out);
        json_array_append_new(calls, json_pack("[s,o]", name, arguments));
    }
    json_put_literal(out, s->end);
}

static void damage_one(const struct dialect *d, const json_t *tools, uint64_t *seed)
{
    const struct dialect_syntax *s = dialect_syntax(d);
    struct json_buffer valid = {0}, text = {0};
    json_t *calls = json_array();
    calls_put(s, seed, calls, &valid);
    struct tag tags[TAGS_MAX];
    uint32_t found = tags_find(d, text_span(valid.at, valid.bytes), tags);
    if (found == 0)
        found = literals_find(s, text_span(valid.at, valid.bytes), tags);
    const struct reply_args args = {.dialect = d, .calls = true, .tools = tools};
    damage_check(&args, text_span(valid.at, valid.bytes), calls, "valid");
    assert_true(found > 0);
    struct tag tag = tags[random_below(seed, found)];
    bool twice = random_below(seed, 2) == 0;
    json_put_raw(&text, text_span(valid.at, twice ? tag.to : tag.from));
    size_t rest = twice ? tag.from : tag.to;
    json_put_raw(&text, text_span(valid.at + rest, valid.bytes - rest));
    damage_check(&args, text_span(text.at, text.bytes), calls, twice ? "doubled" : "dropped");
    json_buffer_free(&valid);
    json_buffer_free(&text);
    json_decref(calls);
}

// Creates a tokenizer with the special tokens of the row's marks.
static struct tokenizer *row_tokenizer(const struct dialect_row *row)
{
    struct json_buffer marks = {0};
    for (int i = 0; i < ROW_MARKERS && row->markers[i].text; i++)
        json_put_literal(&marks, row->markers[i].text);
    struct tokenizer *t = rig_tokenizer(text_span(marks.at, marks.bytes));
    json_buffer_free(&marks);
    return t;
}

static void test_a_tag_dropped_or_doubled(void **state)
{
    (void)state;
    json_t *tools = json_loads(rig_tools, 0, NULL);
    const char *only = getenv("WEFT_DIALECT");
    for (uint32_t i = 0; dialect_row_name(i); i++) {
        struct dialect d;
        uint64_t seed = i;
        assert_true(dialect_named(&d, dialect_row_name(i), "none", NULL));
        if (only && strcmp(only, dialect_row_name(i)) != 0)
            continue;
        struct tokenizer *t = row_tokenizer(d.row);
        for (uint32_t k = 0; dialect_has_calls(&d) && k < cases; k++) {
            assert_true(dialect_named(&d, dialect_row_name(i), "none", k % 2 ? t : NULL));
            damage_one(&d, tools, &seed);
        }
        tokenizer_close(t);
    }
    json_decref(tools);
}

// --- valid calls with tags in strings ---

// Returns a string (new reference) of words and opening tags of the dialect.
static json_t *string_with_tags(const struct dialect_syntax *s, uint64_t *seed)
{
    struct json_buffer text = {0};
    const char *const pieces[] = {"x", " ", "\n", "5", s->call_open, s->begin};
    for (uint32_t i = random_below(seed, 6); i > 0; i--)
        if (random_below(seed, 2) == 0)
            json_put_literal(&text, pieces[random_below(seed, sizeof pieces / sizeof *pieces)]);
        else
            json_put_format(&text, "%s%s%s", s->key_open, random_below(seed, 2) ? "n" : "b",
                            s->other_open);
    json_put_literal(&text, "y");
    json_t *string = json_stringn(text.at, text.bytes);
    json_buffer_free(&text);
    return string;
}

// A complete call has the string as it was written.
static void test_tags_in_strings(void **state)
{
    (void)state;
    json_t *tools = json_loads(rig_tools, 0, NULL);
    uint64_t seed = 11;
    for (uint32_t i = 0; dialect_row_name(i); i++) {
        struct dialect d;
        assert_true(dialect_named(&d, dialect_row_name(i), "none", NULL));
        const struct dialect_syntax *s = dialect_syntax(&d);
        if (!s || s->arguments != ARGUMENTS_PARAMETERS)
            continue;
        for (uint32_t k = 0; k < cases; k++) {
            struct json_buffer text = {0};
            json_t *arguments = random_arguments(&seed);
            json_object_set_new(arguments, "s", string_with_tags(s, &seed));
            json_t *calls = json_pack("[[s,O]]", "f", arguments);
            json_put_literal(&text, s->begin);
            rig_put_call(s, "f", "", arguments, &text);
            json_put_literal(&text, s->end);
            const struct reply_args args = {.dialect = &d, .calls = true, .tools = tools};
            damage_check(&args, text_span(text.at, text.bytes), calls, "tags in a string");
            json_buffer_free(&text);
            json_decref(arguments);
            json_decref(calls);
        }
    }
    json_decref(tools);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_damaged_calls),
        cmocka_unit_test(test_a_tag_dropped_or_doubled),
        cmocka_unit_test(test_tags_in_strings),
    };
    if (argc > 1)
        cases = (uint32_t)strtoul(argv[1], NULL, 10);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
