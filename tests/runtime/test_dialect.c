// SPDX-License-Identifier: Apache-2.0
// The reader of replies compared with rows written by hand: for each dialect complete calls,
// several, none, broken ones, calls cut off by the end, and values of all types. Every row is read
// under all cuts.
#include "runtime/text/dialect/read.h"
#include "tests/runtime/dialect_rig.h"
#include "tests/runtime/tokenizer_memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define BAR "\xEF\xBD\x9C"
#define GAP "\xE2\x96\x81"
#define DS(name) "<" BAR "tool" GAP name BAR ">"
#define NS "]<]minimax[>["
#define DSML BAR "DSML" BAR

static const struct row {
    const char *dialect, *reasoning;
    enum dialect_start start;
    const char *text, *want;
} rows[] = {
    // Text and reasoning.
    {"none", "none", 0, "Hello <think>x</think> <tool_call>",
     "text(Hello <think>x</think> <tool_call>)over"},
    {"none", "none", 0, "", "over"},
    {"none", "none", 0, " \n ", "text( \n )over"},
    {"hermes", "think", 0, "Plain text.\n", "text(Plain text.\n)over"},
    {"hermes", "think", 0, "<think>\nhm\n</think>\n\nYes", "think(hm)text(Yes)over"},
    {"hermes", "think", 0, "\n<think></think>Yes ", "text(Yes )over"},
    {"hermes", "think", 1, "hm\n </thin </think> Yes", "think(hm\n </thin)text(Yes)over"},
    {"hermes", "think", 1, "<think>\nhm</think>Yes", "think(hm)text(Yes)over"},
    {"hermes", "think", 1, "never closed ", "think(never closed )over"},
    {"hermes", "think", 1, "cut </thi", "think(cut)over"},
    {"hermes", "think", 0, "So <think>x</think>", "text(So <think>x</think>)over"},
    {"hermes", "think", 0, "<think>a</think><think>b</think>c", "think(ab)text(c)over"},
    {"hermes", "think", 0,
     "<think>a</think> <tool_call>{\"name\":\"g\",\"arguments\":{}}</tool_call><think>b</think>c",
     "think(a)call(0 g)args({})end(0 1)think(b)text(c)over"},
    {"hermes", "none", 0, "<think>a</think>", "text(<think>a</think>)over"},
    // A call in reasoning is a call if the reasoning never closes.
    {"hermes", "think", 1,
     "I should call\n<tool_call>\n{\"name\":\"f\",\"arguments\":{\"s\":\"x\"}}\n</tool_call>",
     "think(I should call)call(0 f)args({\"s\":\"x\"})end(0 1)over"},
    {"hermes", "think", 1, "a <tool_call>{\"name\":\"g\"}</tool_call> b \n</think>Yes",
     "think(a <tool_call>{\"name\":\"g\"}</tool_call> b)text(Yes)over"},
    {"hermes", "think", 1, "a <tool_call>{\"name\":\"nobody\"} b",
     "think(a <tool_call>{\"name\":\"nobody\"} b)over"},
    {"hermes", "think", 1, "a <tool_call> b <tool_call>{\"name\":\"g\"}</tool_call>",
     "think(a <tool_call> b)call(0 g)args({})end(0 1)over"},
    {"hermes", "think", 1, "a <tool_call>{\"name\":\"f\",\"arguments\":{\"s\":\"cu",
     "think(a)call(0 f)args({\"s\":\"cu)end(0 0)over"},
    {"qwen3-coder", "think", 1,
     "a\n<tool_call>\n<function=f>\n<parameter=n>\n1\n</parameter>\n</function>\n</tool_call>",
     "think(a)call(0 f)args({\"n\":1})end(0 1)over"},
    {"glm", "think", 1, "a<tool_call>g</tool_call>", "think(a)call(0 g)args({})end(0 1)over"},
    {"harmony", "harmony", 0,
     "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>Yes<|"
     "return|>",
     "think(hm)text(Yes)over"},
    {"harmony", "harmony", 0,
     "<|channel|>commentary<|message|>I look.<|end|><|start|>assistant<|channel|>commentary "
     "to=functions.f"
     " <|constrain|>json<|message|>{\"s\":\"x\"}<|call|>",
     "text(I look.)call(0 f)args({\"s\":\"x\"})end(0 1)over"},
    {"harmony", "harmony", 0, " to=functions.f<|channel|>commentary json<|message|>{}<|call|>",
     "call(0 f)args({})end(0 1)over"},
    {"harmony", "harmony", 0, "tomorrow", "text(tomorrow)over"},
    {"harmony", "harmony", 0,
     "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final "
     "<|constrain|>json<|message|>{\"a\":1}<|return|>",
     "think(hm)text({\"a\":1})over"},
    {"harmony", "harmony", 0, "<|channel|>final json<|message|>{\"a\":1}<|return|>",
     "text({\"a\":1})over"},
    {"harmony", "harmony", 0,
     "<|channel|>commentary json<|message|>{}<|end|><|start|>assistant<|channel|>commentary "
     "<|constrain|>json<|message|>[]<|end|>",
     "text({}[])over"},
    {"harmony", "harmony", 0, "<|channel|>commentary to=functions.nobody<|message|>{}",
     "text(<|channel|>commentary to=functions.nobody<|message|>{})over"},
    {"granite", "think", 0, "<think>a</think> <response>b</response>", "think(a)text(b)over"},
    {"command-r7b", "command", 0,
     "<|START_THINKING|>a<|END_THINKING|><|START_RESPONSE|>b<|END_RESPONSE|>",
     "think(a)text(b)over"},
    {"mistral", "mistral", 0, "[THINK]a[/THINK]b", "think(a)text(b)over"},
    // Objects. Half of a surrogate pair is replaced by U+FFFD.
    {"hermes", "none", 0,
     "<tool_call>{\"name\":\"g\",\"arguments\":{\"a\":\"\\ud800b\\uDC00\\ud83d\\ude00\\\\ud800\","
     "\"\\udbff\\udbff\\n\":[\"\\u00e9\\ud83d\\u0041\"]}}</tool_call>",
     "call(0 "
     "g)args({\"a\":\"\\ufffdb\\ufffd\\ud83d\\ude00\\\\ud800\",\"\\ufffd\\ufffd\\n\":[\"\\u00e9"
     "\\ufffd\\u0041\"]})end(0 1)over"},
    {"hermes", "none", 0, "<tool_call>{\"name\":\"g\",\"arguments\":{\"a\":\"\\ud83d\\u",
     "call(0 g)args({\"a\":\"\\ufffd\\u)end(0 0)over"},
    {"qwen3-coder", "none", 0,
     "<tool_call><function=f><parameter=o>{\"k\":\"\\ud800\"}</parameter><parameter=s>\\ud800</"
     "parameter>"
     "</function></tool_call>",
     "call(0 f)args({\"o\":{\"k\":\"\\ufffd\"},\"s\":\"\\\\ud800\"})end(0 1)over"},
    {"hermes", "none", 0,
     "See: <tool_call>\n{\"name\": \"f\", \"arguments\": {\"s\": \"</tool_call>\"}}\n</tool_call>",
     "text(See:)call(0 f)args({\"s\": \"</tool_call>\"})end(0 1)over"},
    {"hermes", "none", 0,
     "<tool_call>{\"arguments\": {\"n\": 1} , \"name\": \"f\"}</tool_call>\n<tool_call>{\"name\": "
     "\"g\"}</tool_call>\n\nDone",
     "call(0 f)args({\"n\": 1})end(0 1)call(1 g)args({})end(1 1)text(Done)over"},
    {"hermes", "none", 0, "A\n<tool_call>{\"name\": \"g\", \"arguments\": {}}</tool_call>\nB",
     "text(A)call(0 g)args({})end(0 1)text(\nB)over"},
    {"hermes", "none", 0,
     "<tool_call>[{\"name\":\"g\",\"arguments\":{}},{\"name\":\"g\",\"arguments\":{\"a\":1}}]</"
     "tool_call>",
     "call(0 g)args({})end(0 1)call(1 g)args({\"a\":1})end(1 1)over"},
    {"hermes", "none", 0,
     "<tool_call>{\"type\":\"function\",\"function\":{\"name\":\"g\",\"arguments\":\"{\\\"a\\\":"
     "\\\"\\\\u00e9\\\"}\"}}</tool_call>!",
     "call(0 g)args({\"a\":\"\\u00e9\"})end(0 1)text(!)over"},
    {"hermes", "none", 0,
     "<tool_call>{\"name\": \"g\", \"arguments\": "
     "\"{\\\"a\\\":\\\"\\ud83d\\ude00\\ud83d\\\"}\"}</tool_call>",
     "call(0 g)args({\"a\":\"\xF0\x9F\x98\x80\xEF\xBF\xBD\"})end(0 1)over"},
    {"hermes", "none", 0, // blanks around the object in its string
     "<tool_call>{\"arguments\": \" \\n{ } \\t\", \"name\": \"g\"}</tool_call>",
     "call(0 g)args({ })end(0 1)over"},
    {"hermes", "none", 0, "<tool_call>{\"name\": \"g\", \"arguments\": \" {} {}\"}</tool_call>",
     "call(0 g)args({}{}\"})end(0 0)over"},
    {"hermes", "none", 0, // half of a pair after the object
     "<tool_call>{\"name\": \"g\", \"arguments\": \"{}\\ud800\"}</tool_call>",
     "call(0 g)args({}\xEF\xBF\xBD})end(0 0)over"},
    {"hermes", "none", 0, // a character that begins no object is emitted unsplit
     "<tool_call>{\"name\": \"g\", \"arguments\": \"\\u4f60\\u597d\"}</tool_call>",
     "call(0 g)args(\xE4\xBD\xA0\\u597d\"})end(0 0)over"},
    // The byte that breaks the arguments may begin the end mark of the call, but not if it is an
    // escape, nor in a string before the name.
    {"hermes", "none", 0,
     "<tool_call>{\"name\": \"g\", \"arguments\": \"{\\\"a\\\":1</tool_call> later",
     "call(0 g)args({\"a\":1)end(0 0)text(later)over"},
    {"hermes", "none", 0,
     "<tool_call>{\"name\": \"g\", \"arguments\": \"{}</tool_call><tool_call>{\"name\": \"g\"}",
     "call(0 g)args({})end(0 0)call(1 g)args({})end(1 1)over"},
    {"hermes", "none", 0, "<tool_call>{\"name\": \"g\", \"arguments\": \"{\\</tool_call> later",
     "call(0 g)args({)end(0 0)text(later)over"},
    {"hermes", "none", 0, "<tool_call>{\"name\": \"g\", \"arguments\": \"{</tool</tool_call> later",
     "call(0 g)args({</tool)end(0 0)text(later)over"},
    {"hermes", "none", 0,
     "<tool_call>{\"name\": \"g\", \"arguments\": \"{\\u003c/tool_call>\"}</tool_call> later",
     "call(0 g)args({</tool_call>\"})end(0 0)text(later)over"},
    {"hermes", "none", 0,
     "<tool_call>{\"arguments\": \"{</tool_call>x\", \"name\": \"g\"}</tool_call> later",
     "call(0 g)args({</tool_call>x\")end(0 0)text(later)over"},
    {"hermes", "none", 0, "<tool_call>{\"name\": \"g\", \"arguments\": \"{\\u00e9\"}</tool_call>",
     "call(0 g)args({\xC3\xA9\"})end(0 0)over"},
    {"hermes", "none", 0,
     "<tool_call>{\"name\": \"g\", \"arguments\": \"{\\\xC3\xA9\"}</tool_call>",
     "call(0 g)args({\xC3\xA9\"})end(0 0)over"},
    {"hermes", "none", 0, "<tool_call>{\"function\": \"g\", \"parameters\": null}</tool_call>",
     "call(0 g)args({})end(0 1)over"},
    {"hermes", "none", 0, "<tool_call>{\"name\": \"nobody\", \"arguments\": {}}</tool_call>",
     "text(<tool_call>{\"name\": \"nobody\", \"arguments\": {}}</tool_call>)over"},
    {"hermes", "none", 0,
     "a <tool_call> b <tool_call>{\"name\": \"g\", \"arguments\": {}}</tool_call>",
     "text(a <tool_call> b)call(0 g)args({})end(0 1)over"},
    {"hermes", "none", 0, "x <tool_call>\n{\"name\": \"f\", \"argu",
     "text(x <tool_call>\n{\"name\": \"f\", \"argu)over"},
    {"hermes", "none", 0, "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"s\": \"cu",
     "call(0 f)args({\"s\": \"cu)end(0 0)over"},
    {"hermes", "none", 0,
     "<tool_call>{\"name\": \"f\", \"arguments\": {\"s\": oops}}</tool_call> ok",
     "call(0 f)args({\"s\": oops}})end(0 0)text(ok)over"},
    {"hermes", "none", 0, // the byte that breaks it begins the end mark
     "<tool_call>{\"name\": \"f\", \"arguments\": {\"n\": 1</tool_call> ok",
     "call(0 f)args({\"n\": 1)end(0 0)text(ok)over"},
    {"hermes", "none", 0, "<tool_call>{\"name\": \"f\", \"arguments\": {\"n\": 1</tool_cal}",
     "call(0 f)args({\"n\": 1</tool_cal})end(0 0)over"},
    {"hermes", "none", 0, "<tool_call>{\"name\": \"f\", \"arguments\": {\"n\": 1}</tool_call>",
     "call(0 f)args({\"n\": 1})end(0 1)over"},
    {"hermes", "none", 0, "<tool_call>{\"name\": \"f\", \"arguments\": [1]}</tool_call>",
     "text(<tool_call>{\"name\": \"f\", \"arguments\": [1]}</tool_call>)over"},
    {"hermes", "none", 0, "<<tool_call>{\"name\":\"\\u0067\",\"arguments\":{}}</tool_call>",
     "text(<)call(0 g)args({})end(0 1)over"},
    {"hermes", "none", 0, "<tool_call></tool_call>", "text(<tool_call></tool_call>)over"},
    {"llama-json", "none", 0, "{\"name\": \"f\", \"parameters\": {\"n\": 2}}",
     "call(0 f)args({\"n\": 2})end(0 1)over"},
    {"llama-json", "none", 0,
     " {\"type\": \"function\", \"name\": \"g\", \"parameters\": {}}; {\"name\": \"f\", "
     "\"parameters\": {}}",
     "call(0 g)args({})end(0 1)call(1 f)args({})end(1 1)over"},
    {"llama-json", "none", 0, "<|python_tag|>{\"name\": \"g\", \"parameters\": {}}",
     "call(0 g)args({})end(0 1)over"},
    {"llama-json", "none", 0, "<|python_tag|>g.call(q=\"a b\", n=2)",
     "call(0 g)args({\"q\":\"a b\",\"n\":2})end(0 1)over"},
    {"llama-json", "none", 0, "{\"city\": \"Oslo\"}", "text({\"city\": \"Oslo\"})over"},
    {"llama-json", "none", 0, "{\"name\": \"Ann\", \"age\": 3}",
     "text({\"name\": \"Ann\", \"age\": 3})over"},
    {"llama-json", "none", 0, "{\"name\": \"f\"}", "text({\"name\": \"f\"})over"},
    {"llama-json", "none", 0, "Use {\"name\": \"f\", \"parameters\": {}}",
     "text(Use {\"name\": \"f\", \"parameters\": {}})over"},
    {"json", "none", 0, "[{\"name\": \"f\", \"arguments\": {}}]", "call(0 f)args({})end(0 1)over"},
    {"json", "none", 0, "[1, 2]", "text([1, 2])over"},
    {"mistral-list", "none", 0,
     "[TOOL_CALLS][{\"name\": \"g\", \"arguments\": {\"a\": [1]}, \"id\": \"abcdefghi\"}]",
     "call(0 g)args({\"a\": [1]})end(0 1)over"},
    {"mistral-list", "none", 0, "[TOOL_CALLS] nothing", "text([TOOL_CALLS] nothing)over"},
    {"command-r7b", "command", 0,
     "<|START_ACTION|>[\n {\"tool_call_id\": \"0\", \"tool_name\": \"g\", \"parameters\": {}},\n "
     "{\"tool_call_id\": \"1\","
     " \"tool_name\": \"f\", \"parameters\": {}}\n]<|END_ACTION|>",
     "call(0 g 0)args({})end(0 1)call(1 f 1)args({})end(1 1)over"},
    {"command-r", "none", 0, "Action: ```json\n[{\"tool_name\": \"g\", \"parameters\": {}}]\n```",
     "call(0 g)args({})end(0 1)over"},
    {"apertus", "apertus", 0,
     "<|inner_prefix|>a<|inner_suffix|><|tools_prefix|>[{\"f\": {\"n\": 1}}, {\"g\": "
     "{}}]<|tools_suffix|>",
     "think(a)call(0 f)args({\"n\": 1})end(0 1)call(1 g)args({})end(1 1)over"},
    {"apriel", "none", 0, "<tool_calls>[{\"name\": \"f\", \"arguments\": {\"n\": 1</tool_calls>B",
     "call(0 f)args({\"n\": 1)end(0 0)text(B)over"},
    {"apriel", "apriel", 1,
     "why\n[BEGIN FINAL RESPONSE]\nA\n<tool_calls>[{\"name\": \"g\", \"arguments\": "
     "{}}]</tool_calls>",
     "think(why)text(A)call(0 g)args({})end(0 1)over"},
    {"nemotron", "none", 0, "<TOOLCALL>[{\"name\": \"g\", \"arguments\": {}}]</TOOLCALL>",
     "call(0 g)args({})end(0 1)over"},
    {"nemotron", "none", 0, "<TOOLCALL>[{\"name\": \"f\", \"arguments\": {\"n\": 1</TOOLCALL>B",
     "call(0 f)args({\"n\": 1)end(0 0)text(B)over"},
    {"granite", "none", 0, "<|tool_call|>[{\"name\": \"g\", \"arguments\": {}}]",
     "call(0 g)args({})end(0 1)over"},
    {"gigachat", "none", 0,
     "A<|message_sep|>\n\nfunction call<|role_sep|>\n{\"name\": \"g\", \"arguments\": "
     "{}}<|message_sep|>",
     "text(A)call(0 g)args({})end(0 1)over"},
    {"gigachat-3.1", "none", 0, "<|function_call|>{\"name\": \"g\", \"arguments\": {}}",
     "call(0 g)args({})end(0 1)over"},
    // Names, then JSON.
    {"mistral-args", "none", 0, "A[TOOL_CALLS]g[ARGS]{\"a\": 1}[TOOL_CALLS]f[CALL_ID]x1[ARGS]{}",
     "text(A)call(0 g)args({\"a\": 1})end(0 1)call(1 f x1)args({})end(1 1)over"},
    {"mistral", "none", 0, "[TOOL_CALLS]g{\"a\": 1}", "call(0 g)args({\"a\": 1})end(0 1)over"},
    {"mistral", "none", 0, "[TOOL_CALLS] [{\"name\": \"g\", \"arguments\": {}}]",
     "call(0 g)args({})end(0 1)over"},
    {"mistral", "none", 0,
     "[TOOL_CALLS] [{\"name\": \"g\", \"arguments\": {}}, {\"name\": \"f\", \"arguments\": {\"n\": "
     "1}, \"id\": \"abcdefghi\"}, {\"arguments\": {\"n\": 2}, \"name\": \"f\"}] ok",
     "call(0 g)args({})end(0 1)call(1 f)args({\"n\": 1})end(1 1)call(2 f)args({\"n\": 2})end(2 "
     "1)text(ok)over"},
    {"mistral-args", "none", 0,
     "[TOOL_CALLS] [{\"name\": \"g\", \"arguments\": {}}, {\"name\": \"g\", \"arguments\": {}}]",
     "call(0 g)args({})end(0 1)call(1 g)args({})end(1 1)over"},
    {"mistral", "none", 0, "[TOOL_CALLS]f{\"n\": 1[TOOL_CALLS]g{}",
     "call(0 f)args({\"n\": 1)end(0 0)call(1 g)args({})end(1 1)over"},
    {"mistral", "none", 0, "[TOOL_CALLS]g{\"a\": 1", "call(0 g)args({\"a\": 1)end(0 0)over"},
    {"mistral", "none", 0, "[TOOL_CALLS]g, and so on", "text([TOOL_CALLS]g, and so on)over"},
    {"mistral", "none", 0, "[TOOL", "text([TOOL)over"},
    {"kimi", "think", 0,
     "Hm<|tool_calls_section_begin|><|tool_call_begin|>functions.g:0<|tool_call_argument_begin|>{"
     "\"a\": 1}"
     "<|tool_call_end|><|tool_call_begin|>f<|tool_call_argument_begin|> {} "
     "<|tool_call_end|><|tool_calls_section_end|>",
     "text(Hm)call(0 g functions.g:0)args({\"a\": 1})end(0 1)call(1 f f)args({})end(1 1)over"},
    {"kimi", "none", 0,
     "<|tool_calls_section_begin|><|tool_call_begin|>functions.g:0<|tool_call_argument_begin|><|"
     "tool_call_end|>",
     "call(0 g functions.g:0)args({})end(0 1)over"},
    {"kimi", "none", 0, "<|tool_calls_section_begin|>no",
     "text(<|tool_calls_section_begin|>no)over"},
    {"deepseek-v3", "think", 1,
     "a</think>\n" DS("calls" GAP "begin")
         DS("call" GAP "begin") "function" DS("sep") "f\n```json\n{\"s\": \"```\"}\n```" DS(
             "call" GAP
             "end") "\n" DS("call" GAP
                            "begin") "function" DS("sep") "g\n```json\n{}\n```" DS("call" GAP "end")
             DS("calls" GAP "end"),
     "think(a)call(0 f)args({\"s\": \"```\"})end(0 1)call(1 g)args({})end(1 1)over"},
    {"deepseek-v3.1", "none", 0,
     DS("calls" GAP "begin") DS("call" GAP "begin") "g" DS("sep") "{\"a\"",
     "call(0 g)args({\"a\")end(0 0)over"},
    {"functionary-v3.2", "none", 2, "all\nHi >>> x\n>>>g\n{\"a\": 1}>>>all\nBye",
     "text(Hi >>> x)call(0 g)args({\"a\": 1})end(0 1)text(Bye)over"},
    {"functionary-v3.2", "none", 2, "f\n{\"n\": 1>>>g\n{}>>>all\nBye",
     "call(0 f)args({\"n\": 1)end(0 0)call(1 g)args({})end(1 1)text(Bye)over"},
    {"functionary-v3.2", "none", 2, "g\n{}", "call(0 g)args({})end(0 1)over"},
    {"functionary-v3.2", "none", 2, "nobody\n{}", "text(nobody\n{})over"},
    {"functionary-v3.1", "none", 0, "<function=g>{\"a\": 1}</function><function=f>{}</function>",
     "call(0 g)args({\"a\": 1})end(0 1)call(1 f)args({})end(1 1)over"},
    {"functionary-v3.1", "none", 0, "<function=f>{\"n\": 1</function><function=g>{}</function>",
     "call(0 f)args({\"n\": 1)end(0 0)call(1 g)args({})end(1 1)over"},
    {"solar", "solar", 0,
     "<|think|>a<|end|><|begin|>assistant<|tool_calls|><|tool_call:begin|>id1<|tool_call:name|>g<|"
     "tool_call:args|>{}"
     "<|tool_call:end|><|calls|>",
     "think(a)call(0 g id1)args({})end(0 1)over"},
    {"solar", "solar", 0, "<|content|>Hi<|end|>", "text(Hi)over"},
    // Parameters.
    {"qwen3-coder", "none", 0,
     "A\n<tool_call>\n<function=f>\n<parameter=s>\na\n\"b\"\n</parameter>\n<parameter=n>\n5\n</"
     "parameter>\n"
     "<parameter=b>\nTrue\n</parameter>\n<parameter=l>\n[1, "
     "2]\n</parameter>\n</function>\n</tool_call>",
     "text(A)call(0 f)args({\"s\":\"a\\n\\\"b\\\"\",\"n\":5,\"b\":true,\"l\":[1, 2]})end(0 1)over"},
    {"qwen3-coder", "none", 0,
     "<function=g>\n<parameter=a>\n5\n</parameter>\n<parameter=c>\n5x\n</parameter>\n</function>",
     "call(0 g)args({\"a\":5,\"c\":\"5x\"})end(0 1)over"},
    {"qwen3-coder", "none", 0,
     "<tool_call>\n<function=g>\n</function>\n</tool_call>\n<tool_call>\n<function=g>\n</function>",
     "call(0 g)args({})end(0 1)call(1 g)args({})end(1 1)over"},
    {"qwen3-coder", "none", 0,
     "<tool_call>\n<function=f>\n<parameter=s>\n\n\n</parameter>\n</tool_call> B",
     "call(0 f)args({\"s\":\"\\n\"})end(0 1)text(B)over"},
    {"qwen3-coder", "none", 0, "<tool_call>\n<function=f>\n<parameter=s>\nab</para",
     "call(0 f)args({\"s\":\"ab)end(0 0)over"},
    {"qwen3-coder", "none", 0, "<tool_call>\n<function=f", "text(<tool_call>\n<function=f)over"},
    {"qwen3-coder", "none", 0, "<tool_call> {\"name\": 1}", "text(<tool_call> {\"name\": 1})over"},
    {"qwen3-coder", "none", 0,
     "<function=f>\n<parameter=u>\nnull\n</parameter><parameter=u>\n\"q\"\n</parameter>"
     "<parameter=r>\n1\n</parameter><parameter=o>\n{'k': None}\n</parameter><parameter=o>\n{'k': "
     "}\n</parameter></function>",
     "call(0 f)args({\"u\":null,\"u\":\"\\\"q\\\"\",\"r\":\"1\",\"o\":{\"k\":null},\"o\":\"{'k': "
     "}\"})end(0 1)over"},
    {"qwen3-coder", "none", 0, "<function=h>\n<parameter=x>\n1\n</parameter></function>",
     "call(0 h)args({\"x\":\"1\"})end(0 1)over"},
    {"glm", "think", 0,
     "\n<think>a</think>\nA\n<tool_call>f\n<arg_key>s</arg_key>\n<arg_value>\nx\n</arg_value>\n</"
     "tool_call>\n"
     "<tool_call>g</tool_call>",
     "think(a)text(A)call(0 f)args({\"s\":\"\\nx\\n\"})end(0 1)call(1 g)args({})end(1 1)over"},
    {"glm", "none", 0,
     "<tool_call>f<arg_key>n</arg_key><arg_value> 5 "
     "</arg_value><arg_key>zzz</arg_key><arg_value>{\"a\":</arg_value></tool_call>",
     "call(0 f)args({\"n\":5,\"zzz\":\"{\\\"a\\\":\"})end(0 1)over"},
    {"glm", "none", 0, // blanks around Python's words
     "<tool_call>f<arg_key>b</arg_key><arg_value> True "
     "</arg_value><arg_key>u</arg_key><arg_value>\n"
     "None\n</arg_value><arg_key>b</arg_key><arg_value>Tr ue</arg_value></tool_call>",
     "call(0 f)args({\"b\":true,\"u\":null,\"b\":\"Tr ue\"})end(0 1)over"},
    {"glm", "none", 0, "<tool_call>f<arg_key>b</arg_key><arg_value> Tr </arg_value></tool_call>",
     "call(0 f)args({\"b\":\" Tr \"})end(0 1)over"},
    {"glm", "none", 0, "<tool_call>f<arg_key>b</arg_key><arg_value> \n Fal",
     "call(0 f)args({\"b\":fal)end(0 0)over"},
    {"glm", "none", 0, "<tool_call>f<arg_key>b</arg_key><arg_value>Tr ",
     "call(0 f)args({\"b\":\"Tr )end(0 0)over"},
    {"glm", "none", 0, "<tool_call>f<arg_key>b</arg_key><arg_value> True ",
     "call(0 f)args({\"b\":true)end(0 0)over"},
    {"hunyuan", "hunyuan", 0,
     "<tool_calls:opensource>\n<tool_call:opensource>f<tool_sep:opensource>\n<arg_key:opensource>n<"
     "/arg_key:opensource>\n"
     "<arg_value:opensource>1</arg_value:opensource>\n</tool_call:opensource>\n</"
     "tool_calls:opensource>",
     "call(0 f)args({\"n\":1})end(0 1)over"},
    {"minicpm", "none", 0,
     "<function name=\"f\"><param name=\"s\"><![CDATA[a</param>&\n]]></param><param "
     "name=\"n\">3</param></function>",
     "call(0 f)args({\"s\":\"a</param>&\\n\",\"n\":3})end(0 1)over"},
    {"minicpm", "none", 0,
     "<function name=\"f\"><param name=\"o\"><![CDATA[{\"k\":\"a & b\"}]]></param><param "
     "name=\"l\"><![CDATA[[1,\n2]]]></param><param name=\"u\"><![CDATA[null]]></param><param "
     "name=\"zzz\"><![CDATA[5]]></param><param name=\"o\"><![CDATA[a & b]]></param></function>",
     "call(0 f)args({\"o\":{\"k\":\"a & "
     "b\"},\"l\":[1,\n2],\"u\":\"null\",\"zzz\":\"5\",\"o\":\"a & b\"})end(0 1)over"},
    {"minicpm", "none", 0,
     "<function name=\"f\"><param name=\"o\"><![CDATA[{\"k\":\"</param>\",\"l\":[1",
     "call(0 f)args({\"o\":{\"k\":\"</param>\",\"l\":[1)end(0 0)over"},
    {"minimax-m2", "none", 0,
     "<minimax:tool_call>\n<invoke name=\"g\">\n<parameter name=\"a\">x "
     "y</parameter>\n</invoke>\n</minimax:tool_call>",
     "call(0 g)args({\"a\":\"x y\"})end(0 1)over"},
    {"seed", "seed", 0,
     "<seed:think>a</seed:think><seed:tool_call>\n<function=g>\n<parameter=a>1</parameter>\n</"
     "function>\n</seed:tool_call>",
     "think(a)call(0 g)args({\"a\":1})end(0 1)over"},
    {"seed", "none", 0, // blanks around Python's lists
     "<seed:tool_call><function=f><parameter=l>\n[1, None]\n</parameter><parameter=o> {'k': "
     "'v'}</parameter></function></seed:tool_call>",
     "call(0 f)args({\"l\":[1,null],\"o\":{\"k\":\"v\"}})end(0 1)over"},
    {"seed", "none", 0, "<seed:tool_call><function=f><parameter=l>\n[1, None, Tr",
     "call(0 f)args({\"l\":[1,null,)end(0 0)over"},
    {"dsml", "think", 0,
     "A\n\n<" DSML "tool_calls>\n<" DSML "invoke name=\"f\">\n<" DSML
     "parameter name=\"n\" string=\"false\">7</" DSML "parameter>\n"
     "<" DSML "parameter name=\"zip\" string=\"true\">007</" DSML "parameter>\n</" DSML
     "invoke>\n</" DSML "tool_calls>",
     "text(A)call(0 f)args({\"n\":7,\"zip\":\"007\"})end(0 1)over"},
    // Elements.
    {"minimax-m3", "none", 0,
     NS "<invoke name=\"f\">" NS "<l>[1, None]" NS "</l>" NS "<o>" NS "<l>[1, x]" NS "</l>" NS
        "</o>" NS "<s>a" NS "</s>" NS "</invoke>",
     "call(0 f)args({\"l\":[1,null],\"o\":{\"l\":\"[1, x]\"},\"s\":\"a\"})end(0 1)over"},
    {"minimax-m3", "minimax-m3", 0,
     NS "<tool_call>\n" NS "<invoke name=\"f\">" NS "<s>a" NS "</s>" NS "<l>" NS "<item>1" NS
        "</item>" NS "<item>2" NS "</item>" NS "</l>" NS "<o>" NS "<k>5" NS "</k>" NS "</o>" NS
        "</invoke>\n" NS "</tool_call>",
     "call(0 f)args({\"s\":\"a\",\"l\":[1,2],\"o\":{\"k\":\"5\"}})end(0 1)over"},
    {"minimax-m3", "none", 0,
     NS "<tool_call>" NS "<invoke name=\"f\">" NS "<l>" NS "</l>" NS "<o>" NS "</o>" NS "<item>" NS
        "<item>x" NS "</item>" NS "</item>" NS "</invoke>",
     "call(0 f)args({\"l\":[],\"o\":{},\"item\":{\"item\":\"x\"}})end(0 1)over"},
    {"minimax-m3", "none", 0, NS "<tool_call>" NS "<invoke name=\"f\">" NS "<s>a]<",
     "call(0 f)args({\"s\":\"a)end(0 0)over"},
    // Literals.
    {"lfm2", "none", 0,
     "A<|tool_call_start|>[f(s='it\\'s \"x\"', n=-1.5e3, b=True), g()]<|tool_call_end|>B",
     "text(A)call(0 f)args({\"s\":\"it's \\\"x\\\"\",\"n\":-1.5e3,\"b\":true})end(0 1)call(1 "
     "g)args({})end(1 1)text(B)over"},
    {"lfm2", "none", 0,
     "<|tool_call_start|>[g(a='it's, or', l=[1, {'k': None}, [], {}], t='')]<|tool_call_end|>",
     "call(0 g)args({\"a\":\"it's, or\",\"l\":[1,{\"k\":null},[],{}],\"t\":\"\"})end(0 1)over"},
    {"lfm2", "none", 0, "<|tool_call_start|>[g(a=\"\\x41\\u00e9\\n\\q\")]",
     "call(0 g)args({\"a\":\"A\\u00e9\\n\\\\q\"})end(0 1)over"},
    {"lfm2", "none", 0,
     "<|tool_call_start|>[g(a='\\ud800', b='\\ud83d\\ude00\\ud83d\\'', c='\\udc00é')]",
     "call(0 g)args({\"a\":\"\\ufffd\",\"b\":\"\\ud83d\\ude00\\ufffd'\",\"c\":\"\\ufffdé\"})end(0 "
     "1)over"},
    {"lfm2", "none", 0, "<|tool_call_start|>[g(5)]<|tool_call_end|>",
     "call(0 g)args({\"5)])end(0 0)over"},
    {"lfm2", "none", 0, "<|tool_call_start|>[g(a=b)]<|tool_call_end|>ok",
     "call(0 g)args({\"a\":b)])end(0 0)text(ok)over"},
    {"lfm2", "none", 0, "<|tool_call_start|>[g(a=é)]<|tool_call_end|>ok",
     "call(0 g)args({\"a\":é)])end(0 0)text(ok)over"},
    {"llama-pythonic", "none", 0, "[f(n=1), g(a='x')]",
     "call(0 f)args({\"n\":1})end(0 1)call(1 g)args({\"a\":\"x\"})end(1 1)over"},
    {"llama-pythonic", "none", 0, "[see (1)]", "text([see (1)])over"},
    {"llama-pythonic", "none", 0, "[nobody(a=1)]", "text([nobody(a=1)])over"},
    {"gemma", "gemma", 0,
     "<|channel>thought\na<channel|><|tool_call>call:f{l:[1,2],o:{k:<|\"|>v<|\"|>},s:<|\"|>a "
     "\"b\", c<|\"|>,b:true}<tool_call|>"
     "<|tool_call>call:g{}<tool_call|>",
     "think(a)call(0 f)args({\"l\":[1,2],\"o\":{\"k\":\"v\"},\"s\":\"a \\\"b\\\", "
     "c\",\"b\":true})end(0 1)call(1 g)args({})end(1 1)over"},
    {"gemma", "none", 0, "<|tool_call>call:g{a:x}<tool_call|>",
     "call(0 g)args({\"a\":\"x\"})end(0 1)over"},
    {"gemma", "none", 0, "<|tool_call>call:g{a:<|\xC3\xA9}<tool_call|>", // <|"|> would be a quote
     "call(0 g)args({\"a\":<|\xC3\xA9})end(0 0)over"},
};

static unsigned random_below(uint64_t *seed, unsigned below)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(*seed >> 33) % below;
}

static void cuts_check(const char *name, const struct reply_args *args, struct text text,
                       const char *want)
{
    struct json_buffer out = {0};
    unsigned char *after = test_calloc(text.bytes + 1, 1);
    uint64_t seed = text.bytes;
    for (size_t i = 0; i <= text.bytes + 1000; i++) {
        for (size_t at = 0; at < text.bytes; at++)
            after[at] =
                i == text.bytes || at == i || (i > text.bytes && random_below(&seed, 6) == 0);
        struct text have = rig_read(args, text, (struct cuts){i == 0 ? NULL : after}, &out);
        if (!text_is(have, want))
            fail_msg("%s, cut %zu: %.*s\nhave %.*s\nwant %s", name, i, (int)text.bytes, text.at,
                     (int)have.bytes, have.at, want);
    }
    test_free(after);
    json_buffer_free(&out);
}

static void test_rows_are_read_the_same_under_all_cuts(void **state)
{
    (void)state;
    json_t *tools = json_loads(rig_tools, 0, NULL);
    assert_non_null(tools);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dialect d;
        assert_true(dialect_named(&d, rows[i].dialect, rows[i].reasoning, NULL));
        const struct reply_args args = {.dialect = &d,
                                        .start = rows[i].start,
                                        .calls = true,
                                        .reasoning = true,
                                        .tools = tools};
        cuts_check(rows[i].dialect, &args, text_of(rows[i].text), rows[i].want);
    }
    json_decref(tools);
}

static void test_unterminated_tag(void **state)
{
    (void)state;
    char text[2048], want[2048], name[READ_KEY_MAX];
    struct dialect d;
    memset(name, 'a', sizeof name);
    snprintf(text, sizeof text, NS "<invoke name=\"f\">" NS "<%.*s\xC3\xA9>b" NS "</invoke>",
             READ_KEY_MAX - 1, name);
    snprintf(want, sizeof want, "call(0 f)args({%.*s\xC3\xA9>b)end(0 0)over", READ_KEY_MAX - 1,
             name);
    assert_true(dialect_named(&d, "minimax-m3", "none", NULL));
    const struct reply_args args = {.dialect = &d, .calls = true, .reasoning = true};
    cuts_check("minimax-m3", &args, text_of(text), want);
}

// A tokenizer.json with too many special tokens inside of a marker is refused for a template that
// uses the marker.
static void test_too_many_special_tokens_are_refused(void **state)
{
    (void)state;
    struct error err;
    struct dialect d;
    json_t *added = json_array();
    static const char mark[] = "<|tool_calls_section_begin|><|tool_call_argument_begin|>";
    json_t *seen = json_object();
    for (size_t length = 1; length < 6; length++)
        for (size_t from = 0; from + length <= 28; from++) {
            json_t *content = json_stringn(mark + from, length);
            if (!json_object_get(seen, json_string_value(content))) {
                json_object_set_new(seen, json_string_value(content), json_true());
                json_array_append_new(added, json_pack("{s:i, s:O, s:b, s:b, s:b, s:b, s:b}", "id",
                                                       (int)json_array_size(added) + 1, "content",
                                                       content, "special", 1, "normalized", 0,
                                                       "lstrip", 0, "rstrip", 0, "single_word", 0));
            }
            json_decref(content);
        }
    assert_true(json_array_size(added) > 64);
    json_t *file =
        json_pack("{s:s, s:o, s:n, s:n, s:n, s:n, s:{s:s, s:{s:i}, s:[]}}", "version", "1.0",
                  "added_tokens", added, "normalizer", "pre_tokenizer", "post_processor", "decoder",
                  "model", "type", "BPE", "vocab", "z", 0, "merges");
    char *source = json_dumps(file, JSON_COMPACT);
    struct tokenizer *t;
    assert_int_equal(tokenizer_open_memory(&t, text_of(source), text_span(NULL, 0), &err),
                     STATUS_OK);
    assert_int_equal(dialect_detect(&d, text_of("<|tool_call_argument_begin|>"), t, &err),
                     STATUS_UNSUPPORTED);
    assert_non_null(strstr(err.text, "special tokens of tokenizer.json"));
    assert_int_equal(dialect_detect(&d, text_of("hi"), t, &err), STATUS_OK);
    tokenizer_close(t);
    free(source);
    json_decref(file);
    json_decref(seen);
}

static void test_every_dialect_has_a_row(void **state)
{
    (void)state;
    for (uint32_t d = 0; dialect_row_name(d); d++) {
        bool seen = false;
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
            seen |= strcmp(rows[i].dialect, dialect_row_name(d)) == 0;
        if (!seen)
            fail_msg("%s has none", dialect_row_name(d));
    }
}

static void test_the_page_names_every_dialect(void **state)
{
    (void)state;
    FILE *file = fopen(WEFT_SOURCE_DIR "/docs/TOOLS.md", "rb");
    char page[32768], name[64];
    assert_non_null(file);
    page[fread(page, 1, sizeof page - 1, file)] = 0;
    fclose(file);
    for (uint32_t i = 0; dialect_row_name(i); i++) {
        snprintf(name, sizeof name, "`%s`", dialect_row_name(i));
        if (!strstr(page, name))
            fail_msg("%s is not there", name);
    }
    for (uint32_t i = 0; dialect_reasoning_row_name(i); i++) {
        snprintf(name, sizeof name, "`%s`", dialect_reasoning_row_name(i));
        if (!strstr(page, name))
            fail_msg("%s is not there", name);
    }
}

// Channel headers of GPT-OSS that match no marker, under every cut into two pieces.
static void test_unknown_channel_headers(void **state)
{
    (void)state;
    static const char *const headers[][2] = {
        {"<|channel|>commentary?<|message|>Yes <|return|>", "text(Yes )over"},
        {"\n<|channel|>!?<|message|> Yes", "text(\nYes)over"},
        {"<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>finalx<|message|>Yes",
         "think(hm)text(Yes)over"},
        {"<|channel|>Well<|end|><|start|>assistant<|channel|>final<|message|>Yes", "text(Yes)over"},
        {"So.<|channel|><|channel|>final<|message|>Yes", "text(So.Yes)over"},
        {"<|channel|>comment<|channel|>commentary to=functions.f<|message|>{}<|call|>",
         "call(0 f)args({})end(0 1)over"},
        {"<|channel|>final to=me<|message|>Yes", "text(final to=meYes)over"},
        {"<|channel|>commentary to=functions.nobody<|message|>{}",
         "text(commentary to=functions.nobody{})over"},
        {"<|channel|>fin", "text(fin)over"},
        // The recipient may follow the content type.
        {"<|channel|>commentary json to=functions.f<|message|>{\"s\":\"P\"}<|call|>",
         "call(0 f)args({\"s\":\"P\"})end(0 1)over"},
        {"<|channel|>commentary <|constrain|>json to=functions.f<|message|>{}<|call|>",
         "call(0 f)args({})end(0 1)over"},
        {"<|channel|>analysis code to=functions.f<|message|>{}<|call|>",
         "call(0 f)args({})end(0 1)over"},
        {"<|channel|>commentary to=f <|constrain|>json<|message|>{}<|call|>",
         "call(0 f)args({})end(0 1)over"},
        {"<|channel|>final to=functions.f <|constrain|>json<|message|>{}<|call|>",
         "call(0 f)args({})end(0 1)over"},
        {"<|channel|>commentary to=f<|message|>no", "text(commentary to=fno)over"},
    };
    json_t *tools = json_loads(rig_tools, 0, NULL);
    struct tokenizer *t = rig_tokenizer(
        text_of("<|channel|><|message|><|end|><|start|><|return|><|call|><|constrain|>"));
    struct dialect d;
    assert_true(dialect_named(&d, "harmony", "harmony", t));
    struct reply_args args = {.dialect = &d, .calls = true, .reasoning = true, .tools = tools};
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++)
        for (size_t cut = 0; cut <= strlen(headers[i][0]); cut++) {
            struct json_buffer out = {0};
            unsigned char after[256] = {0};
            after[cut] = 1;
            struct text have = rig_read(&args, text_of(headers[i][0]), (struct cuts){after}, &out);
            if (!text_is(have, headers[i][1]))
                fail_msg("%s, cut %zu: %.*s", headers[i][0], cut, (int)have.bytes, have.at);
            json_buffer_free(&out);
        }
    char longer[400], want[400];
    for (int more = 0; more < 2; more++) {
        struct json_buffer out = {0};
        snprintf(longer, sizeof longer, "<|channel|>%0*d<|message|>Yes", 128 + more, 7);
        snprintf(want, sizeof want, more ? "text(%0*dYes)over" : "text(Yes)over", 129, 7);
        assert_true(text_is(rig_read(&args, text_of(longer), (struct cuts){NULL}, &out), want));
        json_buffer_free(&out);
    }
    tokenizer_close(t);
    json_decref(tools);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unknown_channel_headers),
        cmocka_unit_test(test_rows_are_read_the_same_under_all_cuts),
        cmocka_unit_test(test_unterminated_tag),
        cmocka_unit_test(test_too_many_special_tokens_are_refused),
        cmocka_unit_test(test_every_dialect_has_a_row),
        cmocka_unit_test(test_the_page_names_every_dialect),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
