// SPDX-License-Identifier: Apache-2.0
// Calls as models really write them, by the fault in them: each is repaired if it is unambiguous,
// else it is not complete. Every row is read under many cuts. Then calls in reasoning that never
// closes, in every dialect.
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
#define QWEN(body) "<tool_call>\n<function=" body "\n</tool_call>"
#define GLM(body) "<tool_call>" body "</tool_call>"
#define M2(body) "<invoke name=\"" body "</invoke>"
#define DS(body) "<" DSML "invoke name=\"" body "</" DSML "invoke>"
#define DS_KEY(key, string) "<" DSML "parameter name=\"" key "\" string=\"" string "\">"
#define DS_END "</" DSML "parameter>\n"
#define GEMMA(body) "<|tool_call>call:run" body "<tool_call|>"
#define LFM2(call) "<|tool_call_start|>" call "<|tool_call_end|>"
#define HY(name) name ":opensource>"

static const char row_tools[] =
    "[{\"function\":{\"name\":\"search\",\"parameters\":{\"type\":\"object\",\"properties\":{"
    "\"query\":{\"type\":\"string\"},\"n\":{\"type\":\"integer\"}}}}}"
    ",{\"function\":{\"name\":\"save_file\",\"parameters\":{\"type\":\"object\",\"properties\":{"
    "\"filename\":{\"type\":\"string\"},\"content\":{\"type\":\"string\"}}}}}"
    ",{\"function\":{\"name\":\"set_flag\",\"parameters\":{\"type\":\"object\",\"properties\":{"
    "\"enabled\":{\"type\":\"boolean\"},\"o\":{\"type\":\"object\"}}}}}"
    ",{\"function\":{\"name\":\"bash\",\"parameters\":{\"type\":\"object\",\"properties\":{"
    "\"command\":{\"type\":\"string\"},\"timeout\":{\"type\":\"integer\"}}}}}"
    ",{\"function\":{\"name\":\"run\",\"parameters\":{\"type\":\"object\",\"properties\":{"
    "\"data_refs\":{\"type\":\"array\",\"items\":{\"type\":\"string\"}},\"n\":{\"type\":"
    "\"integer\"},\"message\":{\"type\":\"string\"},\"opts\":{\"type\":\"object\"},\"code\":{"
    "\"type\":\"string\"}}}}}"
    ",{\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"object\",\"properties\":{\"s\":{"
    "\"type\":\"string\"},\"n\":{\"type\":\"integer\"}}}}}"
    ",{\"function\":{\"name\":\"get_weather\",\"parameters\":{\"type\":\"object\",\"properties\":"
    "{\"city\":{\"type\":\"string\"}}}}}"
    ",{\"function\":{\"name\":\"own\",\"parameters\":{\"type\":\"object\",\"properties\":{"
    "\"arguments\":{\"type\":\"object\"}}}}}"
    ",{\"function\":{\"name\":\"w\",\"parameters\":{\"type\":\"object\",\"properties\":{\"size\":"
    "{\"type\":\"array\"}}}}}"
    ",{\"function\":{\"name\":\"get\",\"parameters\":{\"type\":\"object\",\"properties\":{\"s\":{"
    "\"type\":\"string\"}}}}}"
    ",{\"function\":{\"name\":\"good\",\"parameters\":{\"type\":\"object\",\"properties\":{\"a\":"
    "{\"type\":\"integer\"}}}}}"
    ",{\"function\":{\"name\":\"now\",\"parameters\":{\"type\":\"object\",\"properties\":{}}}}"
    ",{\"function\":{\"name\":\"a\",\"parameters\":{\"type\":\"object\",\"properties\":{\"bc\":{"
    "\"type\":\"string\"}}}}}"
    ",{\"function\":{\"name\":\"ab\",\"parameters\":{\"type\":\"object\",\"properties\":{\"c\":{"
    "\"type\":\"string\"}}}}}]";

static const struct row {
    const char *dialect, *text, *want;
} rows[] = {
    // An opening tag of a value, of a key, or of both is missing.
    {"glm",
     GLM("search<arg_key>query</arg_key>how many</arg_value><arg_key>n</arg_key>"
         "<arg_value>3</arg_value>"),
     "call(0 search)args({\"query\":\"how many\",\"n\":3})end(0 1)over"},
    {"glm", GLM("search<arg_key>query</arg_key>how many</arg_value>"),
     "call(0 search)args({\"query\":\"how many\"})end(0 1)over"},
    {"glm", GLM("bashcommand</arg_key><arg_value>ls</arg_value>"),
     "call(0 bash)args({\"command\":\"ls\"})end(0 1)over"},
    {"glm", // both tags
     GLM("bashcommand</arg_key>ls</arg_value>"),
     "call(0 bash)args({\"command\":\"ls\"})end(0 1)over"},
    {"glm", // a(bc) or ab(c)?
     GLM("abc</arg_key><arg_value>x</arg_value>"),
     "text(<tool_call>abc</arg_key><arg_value>x</arg_value></tool_call>)over"},
    {"glm", GLM("bashcolour</arg_key><arg_value>x</arg_value>"),
     "text(<tool_call>bashcolour</arg_key><arg_value>x</arg_value></tool_call>)over"},
    {"glm", GLM("bash</arg_key><arg_value>x</arg_value>"), "call(0 bash)args({})end(0 0)over"},
    {"glm", GLM("now</arg_value>"), "call(0 now)args({})end(0 1)over"},
    {"glm", GLM("search</arg_value>"), "call(0 search)args({})end(0 0)over"},
    {"glm",
     GLM("f\ns</arg_key>\n<arg_value>x</arg_value>\n<arg_key>n</arg_key>\n<arg_value>1"
         "</arg_value>\n"),
     "call(0 f)args({\"s\":\"x\",\"n\":1})end(0 1)over"},
    {"glm", // not a parameter of f
     GLM("f\nz</arg_key>\n<arg_value>x</arg_value>\n<arg_key>n</arg_key>\n<arg_value>1"
         "</arg_value>\n"),
     "call(0 f)args({\"n\":1})end(0 0)over"},
    {"hunyuan",
     HY("<tool_calls") "\n" HY("<tool_call") "f" HY("<tool_sep") "\ns" HY("</arg_key") "\n" HY(
         "<arg_value") "x" HY("</arg_value") "\n" HY("</tool_call") "\n" HY("</tool_calls"),
     "call(0 f)args({\"s\":\"x\"})end(0 1)over"},
    {"minimax-m3",
     NS "<tool_call>\n" NS "<invoke name=\"save_file\">" NS "offerta.docx" NS "</filename>" NS
        "<content>Hello" NS "</content>" NS "</invoke>" NS "</tool_call>",
     "call(0 save_file)args({\"content\":\"Hello\"})end(0 0)over"},
    // Junk in the body.
    {"dsml", DS("set_flag\">\n<parameter name=\"enabled\">true" DS_END),
     "call(0 set_flag)args({})end(0 0)over"},
    {"qwen3-coder", QWEN("set_flag>\n<parameter name=\"enabled\">true</parameter>\n</function>"),
     "call(0 set_flag)args({})end(0 0)over"},
    {"qwen3-coder", QWEN("set_flag>\n{\"enabled\": true}\n</function>"),
     "call(0 set_flag)args({})end(0 0)over"},
    {"seed",
     "<seed:tool_call>\n<function=set_flag>\n{\"enabled\": true}\n</function>\n</seed:tool_call>",
     "call(0 set_flag)args({})end(0 0)over"},
    {"glm", GLM("set_flag\n{\"enabled\": true}"), "call(0 set_flag)args({})end(0 0)over"},
    {"minicpm", "<function name=\"get_weather\"><city>Seoul</city></function>",
     "call(0 get_weather)args({})end(0 0)over"},
    {"minimax-m2", M2("get_weather\">\n<parameter>Seoul</parameter>\n"),
     "call(0 get_weather)args({})end(0 0)over"},
    {"minimax-m2", M2("get_weather\">\n<city>Seoul</city>\n"),
     "call(0 get_weather)args({})end(0 0)over"},
    // All arguments in one parameter.
    {"dsml", DS("get_weather\">\n" DS_KEY("arguments", "false") "{\"city\": \"Seoul\"}" DS_END),
     "call(0 get_weather)args({\"city\": \"Seoul\"})end(0 1)over"},
    {"dsml", DS("get_weather\">\n" DS_KEY("arguments", "true") "{\"city\": \"Seoul\"}" DS_END),
     "call(0 get_weather)args({\"city\": \"Seoul\"})end(0 1)over"},
    {"minimax-m2", M2("now\">\n<parameter name=\"arguments\">{}</parameter>\n"),
     "call(0 now)args({})end(0 1)over"},
    {"qwen3-coder", // and another one
     QWEN("f>\n<parameter=arguments>\n{\"s\": \"x\"}\n</parameter>\n<parameter=n>\n1\n"
          "</parameter>\n</function>"),
     "call(0 f)args({\"s\": \"x\",\"n\":1})end(0 1)over"},
    {"qwen3-coder", // one of its members again
     QWEN("f>\n<parameter=arguments>\n{\"n\": 2}\n</parameter>\n<parameter=n>\n1\n"
          "</parameter>\n</function>"),
     "call(0 f)args({\"n\": 2,\"n\":1})end(0 0)over"},
    {"dsml", // another key
     DS("get_weather\">\n" DS_KEY("arguments", "false") "{\"town\": \"Seoul\"}" DS_END),
     "call(0 get_weather)args({\"arguments\":{\"town\": \"Seoul\"}})end(0 1)over"},
    {"dsml", DS("get_weather\">\n" DS_KEY("arguments", "true") "Seoul" DS_END),
     "call(0 get_weather)args({\"arguments\":\"Seoul\"})end(0 1)over"},
    {"dsml", // its own parameter
     DS("own\">\n" DS_KEY("arguments", "false") "{\"city\": 1}" DS_END),
     "call(0 own)args({\"arguments\":{\"city\": 1}})end(0 1)over"},
    {"dsml",
     "<" DSML "invoke name=\"get_weather\">\n" DS_KEY("arguments", "false") "{\"city\": \"S",
     "call(0 get_weather)args({)end(0 0)over"},
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
    {"gemma", GEMMA("{message:\"hello\",n:5}"),
     "call(0 run)args({\"message\":\"hello\",\"n\":5})end(0 1)over"},
    {"gemma", GEMMA("{code:<|\"|>x<|\"|>,data_refs=[\"ds\"]}"),
     "call(0 run)args({\"code\":\"x\",\"data_refs\":[\"ds\"]})end(0 1)over"},
    {"gemma", GEMMA("{data_refs:[<|\"|>a<|\"|>,\"b\",'c',d]}"),
     "call(0 run)args({\"data_refs\":[\"a\",\"b\",\"c\",\"d\"]})end(0 1)over"},
    // The last parameter has no end tag.
    {"qwen3-coder", QWEN("bash>\n<parameter=command>\nls -la\n</function>"),
     "call(0 bash)args({\"command\":\"ls -la\"})end(0 1)over"},
    {"seed",
     "<seed:tool_call>\n<function=bash>\n<parameter=command>ls -la\n</function>\n"
     "</seed:tool_call>",
     "call(0 bash)args({\"command\":\"ls -la\"})end(0 1)over"},
    {"glm", GLM("bash\n<arg_key>command</arg_key>\n<arg_value>ls -la\n"),
     "call(0 bash)args({\"command\":\"ls -la\"})end(0 1)over"},
    {"minimax-m2", M2("bash\">\n<parameter name=\"command\">ls -la\n"),
     "call(0 bash)args({\"command\":\"ls -la\"})end(0 1)over"},
    {"dsml", DS("bash\">\n" DS_KEY("command", "true") "ls -la\n"),
     "call(0 bash)args({\"command\":\"ls -la\"})end(0 1)over"},
    {"minimax-m3", NS "<invoke name=\"bash\">" NS "<command>ls" NS "</invoke>" NS "</tool_call>",
     "call(0 bash)args({\"command\":\"ls\"})end(0 1)over"},
    // Another one has none: a string may contain the tag of the next.
    {"qwen3-coder",
     QWEN("bash>\n<parameter=command>\nls\n<parameter=timeout>\n5\n</parameter>\n</function>"),
     "call(0 bash)args({\"command\":\"ls\",\"timeout\":5})end(0 0)over"},
    {"qwen3-coder",
     QWEN("bash>\n<parameter=command>\ngrep '<parameter=timeout>' x\n</parameter>\n</function>"),
     "call(0 bash)args({\"command\":\"grep '\",\"timeout\":\"' x\"})end(0 0)over"},
    {"qwen3-coder",
     QWEN("bash>\n<parameter=timeout>\n5\n<parameter=command>\nls\n</parameter>\n</function>"),
     "call(0 bash)args({\"timeout\":5,\"command\":\"ls\"})end(0 1)over"},
    {"minimax-m2",
     M2("set_flag\">\n<parameter name=\"o\">{\"a\": 1}\n<parameter name=\"enabled\">true"
        "</parameter>\n"),
     "call(0 set_flag)args({\"o\":{\"a\": 1},\"enabled\":true})end(0 1)over"},
    {"qwen3-coder", // not a parameter of the tool
     QWEN("bash>\n<parameter=command>\ngrep '<parameter=x>' y\n</parameter>\n</function>"),
     "call(0 bash)args({\"command\":\"grep '<parameter=x>' y\"})end(0 1)over"},
    // An end tag in a value.
    {"qwen3-coder",
     QWEN("bash>\n<parameter=command>\necho '</parameter>' && rm x\n</parameter>\n</function>"),
     "call(0 bash)args({\"command\":\"echo '</parameter>' && rm x\"})end(0 0)over"},
    {"seed",
     "<function=bash>\n<parameter=command>echo '</parameter>' && rm x</parameter>\n"
     "</function>",
     "call(0 bash)args({\"command\":\"echo '</parameter>' && rm x\"})end(0 0)over"},
    {"glm",
     GLM("bash\n<arg_key>command</arg_key>\n<arg_value>echo '</arg_value>' && rm x</arg_value>\n"),
     "call(0 bash)args({\"command\":\"echo '</arg_value>' && rm x\"})end(0 0)over"},
    {"minimax-m2",
     M2("bash\">\n<parameter name=\"command\">echo '</parameter>' && rm x</parameter>\n"),
     "call(0 bash)args({\"command\":\"echo '</parameter>' && rm x\"})end(0 0)over"},
    {"qwen3-coder",
     QWEN("set_flag>\n<parameter=o>\n{\"a\": \"</parameter>\"}\n</parameter>\n</function>"),
     "call(0 set_flag)args({\"o\":{\"a\": \"</parameter>\"}})end(0 1)over"},
    // The recipient follows the content type.
    {"harmony", "<|channel|>commentary json to=functions.f<|message|>{\"q\":\"P\"}<|call|>",
     "call(0 f)args({\"q\":\"P\"})end(0 1)over"},
    {"harmony",
     "<|channel|>commentary <|constrain|>json to=functions.f<|message|>{\"q\":\"P\"}<|call|>",
     "call(0 f)args({\"q\":\"P\"})end(0 1)over"},
    {"harmony", "<|channel|>analysis code to=functions.f<|message|>{\"q\":\"P\"}<|call|>",
     "call(0 f)args({\"q\":\"P\"})end(0 1)over"},
    {"harmony", "<|channel|>commentary json to=f<|message|>{\"q\":\"P\"}<|call|>",
     "call(0 f)args({\"q\":\"P\"})end(0 1)over"},
    {"harmony", "<|channel|>final to=functions.f <|constrain|>json<|message|>{\"q\":\"P\"}<|call|>",
     "call(0 f)args({\"q\":\"P\"})end(0 1)over"},
    // JSON in place of Python.
    {"llama-pythonic",
     "{\"type\": \"function\", \"name\": \"get\", \"parameters\": {\"s\": \"x\"}}",
     "call(0 get)args({\"s\": \"x\"})end(0 1)over"},
    {"llama-pythonic",
     "\n{\"name\": \"get\", \"parameters\": {}}; {\"name\": \"good\", "
     "\"parameters\": {\"a\": 1}}",
     "call(0 get)args({})end(0 1)call(1 good)args({\"a\": 1})end(1 1)over"},
    {"llama-pythonic", "{\"city\": \"Oslo\"}", "text({\"city\": \"Oslo\"})over"},
    {"llama-pythonic", "{\"name\": \"nobody\", \"parameters\": {}}",
     "text({\"name\": \"nobody\", \"parameters\": {}})over"},
    {"llama-pythonic", "Use {\"name\": \"get\", \"parameters\": {}}",
     "text(Use {\"name\": \"get\", \"parameters\": {}})over"},
    {"llama-pythonic", "[{\"name\": \"get\", \"arguments\": {\"s\": \"x\"}}]",
     "call(0 get)args({\"s\": \"x\"})end(0 1)over"},
    {"lfm2", LFM2("[{\"name\": \"get\", \"arguments\": {\"s\": \"x\"}}]"),
     "call(0 get)args({\"s\": \"x\"})end(0 1)over"},
    {"lfm2", LFM2("{\"type\": \"function\", \"name\": \"get\", \"parameters\": {\"s\": \"x\"}}"),
     "call(0 get)args({\"s\": \"x\"})end(0 1)over"},
    // Python's literals.
    {"lfm2", LFM2("[w(size=(800, 600))]"), "call(0 w)args({\"size\":[800,600]})end(0 1)over"},
    {"llama-pythonic", "[w(size=(800, 600))]", "call(0 w)args({\"size\":[800,600]})end(0 1)over"},
    {"lfm2", LFM2("[bash(command=\'\'\'a\n\'b\'\n\'\'\')]"),
     "call(0 bash)args({\"command\":\"a\\n\'b\'\\n\"})end(0 1)over"},
    {"llama-pythonic", "[bash(command=\"\"\"a\n\'b\'\n\"\"\")]",
     "call(0 bash)args({\"command\":\"a\\n\'b\'\\n\"})end(0 1)over"},
    {"lfm2", LFM2("[search(**{'query': 'cats'})]"),
     "call(0 search)args({\"query\":\"cats\"})end(0 1)over"},
    // A list whose first name is unknown.
    {"llama-pythonic", "[nope(a=1), good(a=2)]",
     "text([nope(a=1),)call(0 good)args({\"a\":2})end(0 1)over"},
    {"lfm2", LFM2("[nope(a=1), good(a=2)]"),
     "text(<|tool_call_start|>[nope(a=1),)call(0 good)args({\"a\":2})end(0 1)over"},
    {"llama-pythonic",
     "[nope(a=f(1), b=')],', c=[1, {'k': \"\\\")\"}]) , good(a=2), nope(), good()]",
     "text([nope(a=f(1), b=')],', c=[1, {'k': \"\\\")\"}]) ,)call(0 good)args({\"a\":2})end(0 1)"
     "text( nope(),)call(1 good)args({})end(1 1)over"},
    {"llama-pythonic", "[nope(a=1), nobody(a=2)]", "text([nope(a=1), nobody(a=2)])over"},
    {"llama-pythonic", "[nope(a=1)], good(a=2)", "text([nope(a=1)], good(a=2))over"},
    {"llama-pythonic", "[nope(a=1, good(a=2)]", "text([nope(a=1, good(a=2)])over"},
    {"lfm2", // the brackets are not closed
     LFM2("[nope(a='1)]") LFM2("[good(a=2)]"),
     "text(<|tool_call_start|>[nope(a='1)]<|tool_call_end|>)call(0 good)args({\"a\":2})end(0 1)"
     "over"},
    {"mistral-list",
     "[TOOL_CALLS][{\"name\": \"nope\", \"arguments\": {\"a\": \"}],\"}}, {\"name\": \"good\", "
     "\"arguments\": {\"a\": 2}}]",
     "text([TOOL_CALLS][{\"name\": \"nope\", \"arguments\": {\"a\": \"}],\"}},)call(0 good)args("
     "{\"a\": 2})end(0 1)over"},
    {"nemotron",
     "<TOOLCALL>[{\"arguments\": {}, \"name\": \"nope\"}, {\"name\": \"good\", \"arguments\": {}}]"
     "</TOOLCALL>",
     "text(<TOOLCALL>[{\"arguments\": {}, \"name\": \"nope\"},)call(0 good)args({})end(0 1)over"},
    {"apertus", "<|tools_prefix|>[{\"nope\": {\"a\": 1}}, {\"good\": {\"a\": 2}}]<|tools_suffix|>",
     "text(<|tools_prefix|>[{\"nope\": {\"a\": 1}},)call(0 good)args({\"a\": 2})end(0 1)over"},
};

static uint32_t random_below(uint64_t *seed, uint32_t below)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33) % below;
}

// Expects the events under 40 cuts.
static void line_check(const struct reply_args *args, const char *text, const char *want)
{
    struct json_buffer out = {0};
    size_t bytes = strlen(text);
    unsigned char *after = test_calloc(bytes + 1, 1);
    uint64_t seed = 3;
    for (uint32_t i = 0; i < 40; i++) {
        for (size_t at = 0; at < bytes; at++)
            after[at] = i == 1 || (i > 1 && random_below(&seed, 5) == 0);
        struct text have = rig_read(args, text_of(text), (struct cuts){after}, &out);
        if (!text_is(have, want))
            fail_msg("%s: %s\nhave %.*s\nwant %s", dialect_name(args->dialect), text,
                     (int)have.bytes, have.at, want);
    }
    test_free(after);
    json_buffer_free(&out);
}

static void test_calls_of_models(void **state)
{
    (void)state;
    json_t *tools = json_loads(row_tools, 0, NULL);
    assert_non_null(tools);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bool harmony = strcmp(rows[i].dialect, "harmony") == 0; // headers begin with a token
        struct tokenizer *t = harmony ? rig_tokenizer(text_of(rows[i].text)) : NULL;
        struct dialect d;
        assert_true(dialect_named(&d, rows[i].dialect, harmony ? "harmony" : "none", t));
        const struct reply_args args = {
            .dialect = &d, .calls = true, .reasoning = harmony, .free_calls = true, .tools = tools};
        line_check(&args, rows[i].text, rows[i].want);
        tokenizer_close(t);
    }
    json_decref(tools);
}

// If a grammar holds in calls, a bare object is text where the dialect writes Python.
static void test_a_held_dialect(void **state)
{
    (void)state;
    struct dialect d;
    static const char text[] = "{\"name\": \"get\", \"parameters\": {}}";
    assert_true(dialect_named(&d, "llama-pythonic", "none", NULL));
    struct reply_args args = {.dialect = &d, .calls = true};
    line_check(&args, text, "text({\"name\": \"get\", \"parameters\": {}})over");
}

// --- calls in reasoning ---

static const char strict_tools[] =
    "[{\"function\":{\"name\":\"f\",\"strict\":true,\"parameters\":{\"type\":\"object\","
    "\"properties\":{\"s\":{\"type\":\"string\"},\"n\":{\"type\":\"integer\"}}}}}]";

// Writes a call as the dialect does, after text of reasoning.
static void thought_put(const struct dialect_syntax *s, struct json_buffer *out)
{
    json_t *arguments = json_pack("{s:s,s:i}", "s", "x", "n", 1);
    json_put_literal(out, "I should call\n");
    json_put_literal(out, s->begin);
    rig_put_call(s, "f", "0", arguments, out);
    json_put_literal(out, s->end);
    json_decref(arguments);
}

static void thought_check(const struct reply_args *args, const char *text)
{
    struct json_buffer out = {0}, closed = {0};
    static const char head[] = "think(I should call)call(0 f", end[] = "end(0 1)over";
    struct text have = rig_read(args, text_of(text), (struct cuts){NULL}, &out);
    if (have.bytes < sizeof head + sizeof end || memcmp(have.at, head, sizeof head - 1) != 0 ||
        memcmp(have.at + have.bytes - (sizeof end - 1), end, sizeof end - 1) != 0)
        fail_msg("%s: %s\nhave %.*s", dialect_name(args->dialect), text, (int)have.bytes, have.at);
    char want[1024];
    snprintf(want, sizeof want, "%.*s", (int)have.bytes, have.at);
    line_check(args, text, want);
    json_put_format(&closed, "%s</think>Yes", text);
    have = rig_read(args, text_span(closed.at, closed.bytes), (struct cuts){NULL}, &out);
    if (memmem(have.at, have.bytes, "call(", 5) ||
        !memmem(have.at, have.bytes, ")text(Yes)over", 14))
        fail_msg("%s: %s\nhave %.*s", dialect_name(args->dialect), closed.at, (int)have.bytes,
                 have.at);
    json_buffer_free(&out);
    json_buffer_free(&closed);
}

// A call in reasoning is held back: it is reasoning if the reasoning closes later, else a call.
static void test_calls_in_open_reasoning(void **state)
{
    (void)state;
    json_t *tools = json_loads(strict_tools, 0, NULL);
    uint32_t bare = 0;
    for (uint32_t i = 0; dialect_row_name(i); i++) {
        struct json_buffer text = {0};
        struct dialect d;
        assert_true(dialect_named(&d, dialect_row_name(i), "think", NULL));
        const struct dialect_syntax *s = dialect_syntax(&d);
        if (!s || *s->trigger == 0) { // nothing shows where a call begins
            bare += s != NULL;
            continue;
        }
        thought_put(s, &text);
        json_put_raw(&text, text_span("", 1));
        struct tokenizer *t = rig_tokenizer(text_span(text.at, text.bytes - 1));
        for (int special = 0; special < 2; special++) {
            assert_true(dialect_named(&d, dialect_row_name(i), "think", special ? t : NULL));
            const struct reply_args args = {.dialect = &d,
                                            .start = DIALECT_START_REASONING,
                                            .calls = true,
                                            .reasoning = true,
                                            .tools = tools};
            thought_check(&args, text.at);
        }
        tokenizer_close(t);
        json_buffer_free(&text);
    }
    assert_int_equal(bare, 3);
    json_decref(tools);
}

static void test_cut_calls_in_open_reasoning(void **state)
{
    (void)state;
    static const struct row thoughts[] = {
        {"hermes", "a <tool_call>{\"name\":\"f\",\"arguments\":{\"s\":\"cu",
         "think(a)call(0 f)args({\"s\":\"cu)end(0 0)over"},
        {"hermes", "a <tool_call>{\"name\":\"f\",\"arguments\":{\"s\":\"cu</think>b",
         "think(a <tool_call>{\"name\":\"f\",\"arguments\":{\"s\":\"cu)text(b)over"},
        {"hermes", "a <tool_call>{\"name\":\"f\",\"arg",
         "think(a <tool_call>{\"name\":\"f\",\"arg)over"},
        {"hermes", "a <tool_call>{\"name\":\"nobody\",\"arguments\":{}}</tool_call> b",
         "think(a <tool_call>{\"name\":\"nobody\",\"arguments\":{}}</tool_call> b)over"},
        {"qwen3-coder", "a\n<tool_call>\n<function=f>\n<parameter=s>\ncu",
         "think(a)call(0 f)args({\"s\":\"cu)end(0 0)over"},
        {"qwen3-coder", "a\n<tool_call>\n<function=f>\nx\n</function>\n</tool_call>",
         "think(a)call(0 f)args({})end(0 0)over"},
    };
    json_t *tools = json_loads(strict_tools, 0, NULL);
    for (size_t i = 0; i < sizeof thoughts / sizeof *thoughts; i++) {
        struct dialect d;
        assert_true(dialect_named(&d, thoughts[i].dialect, "think", NULL));
        const struct reply_args args = {.dialect = &d,
                                        .start = DIALECT_START_REASONING,
                                        .calls = true,
                                        .reasoning = true,
                                        .tools = tools};
        line_check(&args, thoughts[i].text, thoughts[i].want);
    }
    json_decref(tools);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls_of_models),
        cmocka_unit_test(test_a_held_dialect),
        cmocka_unit_test(test_calls_in_open_reasoning),
        cmocka_unit_test(test_cut_calls_in_open_reasoning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
