// SPDX-License-Identifier: Apache-2.0
// The rules of the template engine one by one, on small templates: values and operators, white
// space, scopes, refusals and their messages, limits, and which spans of the prompt count as text
// of the request. Real templates are in test_chat_assets.c.
#include "base/arena.h"
#include "base/file.h"
#include "base/json.h"
#include "runtime/text/chat.h"
#include "runtime/text/prompt.h"
#include "tests/runtime/tokenizer_memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

struct rig {
    struct arena *arena;
    json_t *variables;
    struct chat_limits limits;
    struct error err;
    struct chat_output out;
};

static const char variables_text[] =
    "{\"bos_token\": \"<s>\", \"user\": \"Hi <|end|> é\", \"n\": 7, \"f\": 2.5, \"no\": null,"
    " \"l\": [3, 1, 2], \"o\": [{\"v\": 2, \"k\": \"b\"}, {\"v\": 1, \"k\": \"a\"}],"
    " \"d\": {\"z\": 1, \"a\": [true, null, 1.0, \"q'\\\"\"]}, \"e\": {}}";

static const char *const trusted[] = {"bos_token"};

static int setup(void **state)
{
    struct rig *rig = test_calloc(1, sizeof *rig);
    rig->arena = arena_create(0, 64u * 1024 * 1024);
    rig->variables = json_loads(variables_text, 0, NULL);
    assert_non_null(rig->variables);
    *state = rig;
    return 0;
}

static int teardown(void **state)
{
    struct rig *rig = *state;
    json_decref(rig->variables);
    arena_destroy(rig->arena);
    test_free(rig);
    return 0;
}

// Creates and renders the template. Returns the status of the step that failed.
static enum status run(struct rig *rig, const char *source)
{
    struct chat_template *chat = NULL;
    const struct chat_input in = {.variables = rig->variables,
                                  .trusted = trusted,
                                  .trusted_count = 1,
                                  .now = 1752148800,
                                  .limits = rig->limits};
    rig->err = (struct error){0};
    arena_reset(rig->arena);
    enum status status = chat_template_create(&chat, text_of(source), &rig->err);
    if (status == STATUS_OK)
        status = chat_render(chat, &in, rig->arena, &rig->out, &rig->err);
    chat_template_destroy(chat);
    return status;
}

struct expected {
    const char *source;
    const char *text; // expected text; NULL: it fails
};

static void check_all(struct rig *rig, const struct expected *rows, size_t count)
{
    size_t wrong = 0;
    for (size_t i = 0; i < count; i++) {
        enum status status = run(rig, rows[i].source);
        bool right = !rows[i].text ? status != STATUS_OK && status != STATUS_REFUSED
                                   : status == STATUS_OK && text_is(rig->out.text, rows[i].text);
        if (right)
            continue;
        wrong++;
        printf("%s\n  want %s\n  have %.*s\n", rows[i].source,
               rows[i].text ? rows[i].text : "a failure",
               status == STATUS_OK ? (int)rig->out.text.bytes : (int)strlen(rig->err.text),
               status == STATUS_OK ? rig->out.text.at : rig->err.text);
    }
    assert_int_equal(wrong, 0);
}

static void test_values(void **state)
{
    static const struct expected rows[] = {
        {"{{ 7 // -2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 10 }} {{ 2 ** -1 }}", "-4 2 3.5 1024 0.5"},
        {"{{ 1e16 }} {{ 0.1 + 0.2 }} {{ 1e-5 }} {{ 100.0 }}",
         "1e+16 0.30000000000000004 1e-05 100.0"},
        {"{{ d }}", "{'z': 1, 'a': [True, None, 1.0, 'q\\'\"']}"},
        {"{{ d | tojson }}", "{\"z\": 1, \"a\": [true, null, 1.0, \"q'\\\"\"]}"},
        {"{{ {'b': [1], 'a': {}} | tojson(indent=2, sort_keys=true) }}",
         "{\n  \"a\": {},\n  \"b\": [\n    1\n  ]\n}"},
        {"{{ (1,) }}{{ () }}{{ [] }}{{ none }}{{ true }}", "(1,)()[]NoneTrue"},
        {"{{ 'é' * 2 ~ 1 ~ none ~ missing }}", "éé1None"},
        {"{{ 1 < 2 < 3 }} {{ 1 in l }} {{ 'x' not in 'abc' }} {{ 1 == 1.0 == true }}",
         "True True True True"},
        {"{{ user[-1] }}{{ user[::-1][0] }}{{ user[3:8] }}{{ l[99] is undefined }}", "éé<|endTrue"},
        {"{{ 'a' 'b' \"\\u00e9\\x41\\n\" }}|", "abéA\n|"},
        {"{{ missing }}|{{ missing is defined }}|{{ missing | length }}", "|False|0"},
        {"{{ missing.x }}", NULL},
        {"{{ 1 + 'a' }}", NULL},
        {"{{ 9223372036854775807 + 1 }}", NULL},
        {"{{ 1 // 0 }}", NULL},
        {"{{ l.append(1) }}", NULL},
        {"{{ d.update({}) }}", NULL},
        {"{{ missing() }}", NULL},
        {"{{ no[:1] }}", NULL},
        {"{{ undefined_filter | nosuch }}", NULL},
    };
    check_all(*state, rows, sizeof rows / sizeof *rows);
}

static struct text input_read(struct arena *arena, const char *file)
{
    char path[512];
    struct text out;
    struct error err;
    snprintf(path, sizeof path, WEFT_SOURCE_DIR "/tests/runtime/inputs/json-power-of-ten/%s", file);
    assert_int_equal(file_read(&out, arena, path, 1 << 16, &err), STATUS_OK);
    return out;
}

// Integers beyond int64 keep the digits with which they arrive, as in Python.
static void test_wide_integers(void **state)
{
    struct rig *rig = *state;
    static const struct expected rows[] = {
        {"{{ w }} {{ w | tojson }} {{ t | tojson }}",
         "18446744073709551615 18446744073709551615 {\"minimum\": -99999999999999999999999, "
         "\"enum\": [100000000000000000000000, 1e+23, 1.0]}"},
        {"{{ t }} {{ w ~ '' }} {{ w | string | length }} {{ [w] }}",
         "{'minimum': -99999999999999999999999, 'enum': [100000000000000000000000, 1e+23, 1.0]} "
         "18446744073709551615 20 [18446744073709551615]"},
        {"{{ w is integer }}{{ w is number }}{{ w is float }}{{ w is string }}{{ not w }}",
         "TrueTrueFalseFalseFalse"},
        {"{{ -w }} {{ t.minimum | abs }} {{ -t.minimum }} {{ +w }} {{ -p }} {{ -p - 0 }}",
         "-18446744073709551615 99999999999999999999999 99999999999999999999999 "
         "18446744073709551615 -9223372036854775808 -9223372036854775808"},
        {"{{ w == w }}{{ w == 18446744073709551615.0 }}{{ w < 18446744073709551616.0 }}"
         "{{ w > 7 }}{{ t.minimum < -7 }}{{ w > t.minimum }}{{ t.enum[0] < t.enum[1] }}"
         "{{ t.enum[0] == t.enum[1] }}{{ p == 9223372036854775808.0 }}{{ w == p }}{{ p < w }}",
         "TrueFalseTrueTrueTrueTrueFalseFalseTrueFalseTrue"},
        {"{{ w / 2 }} {{ w * 1.0 }} {{ w | float }} {{ w | int }} {{ w | round | int }}",
         "9.223372036854776e+18 1.8446744073709552e+19 1.8446744073709552e+19 "
         "18446744073709551615 18446744073709551615"},
        {"{{ '%d|%s|%25d' % (w, w, w) }} {{ '{}|{:,}|{:d}'.format(w, w, w) }}",
         "18446744073709551615|18446744073709551615|     18446744073709551615 "
         "18446744073709551615|18,446,744,073,709,551,615|18446744073709551615"},
        {"{{ {w: 1}[w] }}{{ [3, w, t.minimum, 5] | sort | last }}{{ [w, w] | unique | list }}",
         "118446744073709551615[18446744073709551615]"},
        {"{{ w + 1 }}", NULL},
        {"{{ w // w }}", NULL},
        {"{{ 'a' * w }}", NULL},
        {"{{ '%x' % w }}", NULL},
        {"{{ range(w) }}", NULL},
    };
    static const char text[] = "{\"w\": 18446744073709551615, \"p\": 9223372036854775808,"
                               " \"t\": {\"minimum\": -99999999999999999999999,"
                               " \"enum\": [100000000000000000000000, 1e23, 1.0]}}";
    json_t *before = rig->variables;
    assert_int_equal(json_parse(&rig->variables, text_of(text), &rig->err), STATUS_OK);
    check_all(rig, rows, sizeof rows / sizeof *rows);
    json_decref(rig->variables);
    struct arena *arena = arena_create(0, 0);
    assert_int_equal(json_parse(&rig->variables, input_read(arena, "variables.json"), &rig->err),
                     STATUS_OK);
    assert_int_equal(run(rig, input_read(arena, "template.jinja").at), STATUS_OK);
    assert_true(text_is(rig->out.text, "100000000000000000000000 100000000000000000000000"));
    json_decref(rig->variables);
    arena_destroy(arena);
    rig->variables = before;
}

static void test_filters_and_methods(void **state)
{
    static const struct expected rows[] = {
        {"{{ o | map(attribute='k') | join(',') }} {{ o | sort(attribute='v') | map(attribute='k') "
         "| "
         "list }}",
         "b,a ['a', 'b']"},
        {"{{ o | selectattr('v', 'gt', 1) | list | length }}{{ l | reject('odd') | first }}", "12"},
        {"{% set g = l | select %}{{ g | list }}{{ g | list }}", "[3, 1, 2][]"},
        {"{{ 'a-b c'.title() }} {{ \"they're\" | title }} {{ 'ß'.upper() }}", "A-B C They're SS"},
        {"{{ ' a b '.split() }}{{ 'a,b,c'.rsplit(',', 1) }}{{ 'abc'.split('') }}", NULL},
        {"{{ ' a  b '.split(none, 1) }}{{ 'a,b,c'.rsplit(',', 1) }}", "['a', 'b ']['a,b', 'c']"},
        {"{{ '%5.1f|%-4d|%s' % (f, n, l) }}{{ '{:>4}{x!r}'.format(1, x='y') }}",
         "  2.5|7   |[3, 1, 2]   1'y'"},
        {"{{ '42.9' | int }} {{ 'x' | int(5) }} {{ 2.5 | round }} {{ 2.675 | round(2) }}",
         "42 5 2.0 2.67"},
        {"{{ d.items() | list | length }}{{ d.get('q', 4) }}{{ e.get('x') }}{{ d.keys() }}",
         "24Nonedict_keys(['z', 'a'])"},
        {"{{ 'a\nb' | indent(2, first=true) }}", "  a\n  b"},
        {"{{ '<a>' | e }}{{ ('<' | safe) + '<' }}{{ '<' ~ '>' }}", "&lt;a&gt;<&lt;<>"},
        {"{{ 'x' | default('y') }}{{ '' | default('y', true) }}{{ nope | d('z') }}", "xyz"},
        {"{{ strftime_now('%d %b %Y %H:%M, %A') }}", "10 Jul 2025 12:00, Thursday"},
        {"{{ strftime_now('%-H:%-M, %-m') }}", "12:0, 7"},
        {"{{ [1, 1.0, 'A', 'a', true] | unique | list }}", "[1, 'A']"},
        {"{{ 'banana'.find('na', 3) }}{{ 'banana'.rfind('n', 1, 4) }}{{ 'éa'.index('a', 1) }}",
         "421"},
        {"{{ '\U0001F600é' | tojson(ensure_ascii=true) }}", "\"\\ud83d\\ude00\\u00e9\""},
    };
    check_all(*state, rows, sizeof rows / sizeof *rows);
}

static void test_statements(void **state)
{
    static const struct expected rows[] = {
        {"{% for i in l %}{{ loop.index }}{{ i }}{{ ',' if not loop.last }}{% endfor %}",
         "13,21,32"},
        {"{% set x = 1 %}{% for i in l %}{% set x = i %}{% endfor %}{{ x }}", "1"},
        {"{% set ns = namespace(x=1) %}{% for i in l %}{% set ns.x = ns.x + i %}{% endfor %}"
         "{{ ns.x }}",
         "7"},
        {"{% for i in [] %}x{% else %}none{% endfor %}", "none"},
        {"{% for i in l if i > 1 %}{{ loop.length }}{{ i }}{% endfor %}", "2322"},
        {"{% for i in l %}{% if i == 1 %}{% continue %}{% endif %}{{ i }}{% endfor %}", "32"},
        {"{% for k, v in e.items() %}x{% endfor %}{% for a, b in [[1, 2]] %}{{ b }}{% endfor %}",
         "2"},
        {"{% for x in [1, [2, [3]]] recursive %}{{ x if x is number else loop(x) }}{% endfor %}",
         "123"},
        {"{% macro m(a, b=2) %}{{ a }}{{ b }}{{ varargs }}{{ kwargs }}{% endmacro %}"
         "{{ m(1) }}{{ m(1, 3, 4, c=5) }}",
         "12(){}13(4,){'c': 5}"},
        {"{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}", NULL},
        {"{% macro m() %}<{{ caller(1) }}>{% endmacro %}{% call(x) m() %}{{ x }}{% endcall %}",
         "<1>"},
        {"{% set t %}a{{ n }}{% endset %}{{ t }}{% filter upper %}b{% endfilter %}", "a7B"},
        {"{% with a = 1 %}{{ a }}{% endwith %}{{ a }}{% generation %}g{% endgeneration %}", "1g"},
        {"a\n  {% if true %}\n  b\n  {% endif %}\nc\n", "a\n  b\nc"},
        {"a {{- 1 -}} b {%- if true -%} c {%- endif +%}\nd", "a1bc\nd"},
        {"{# x #}{% raw %}{{ y }}{% endraw %}", "{{ y }}"},
        {"{% if x %}", NULL},
        {"{% include 'x' %}", NULL},
        {"{% break %}", NULL},
        {"{{ 1", NULL},
        {"{% for a, b in [[1]] %}{% endfor %}", NULL},
    };
    check_all(*state, rows, sizeof rows / sizeof *rows);
}

static void test_refusals_and_lines(void **state)
{
    struct rig *rig = *state;
    assert_int_equal(run(rig, "{{ raise_exception('No ' ~ n ~ '!') }}"), STATUS_REFUSED);
    assert_string_equal(rig->err.text, "No 7!");
    assert_int_equal(run(rig, "a\nb\n{{ 1 + none }}"), STATUS_INVALID);
    assert_non_null(strstr(rig->err.text, "line 3"));
    assert_int_equal(run(rig, "a\n{% endif %}"), STATUS_UNSUPPORTED);
    assert_non_null(strstr(rig->err.text, "line 2"));
    assert_int_equal(run(rig, "\xff"), STATUS_INVALID);
    char name[101], source[256];
    memset(name, 'n', 100); // a length for which a precision of `bytes % 100` prints nothing
    name[100] = '\0';
    snprintf(source, sizeof source, "{{ 1 | %s }}", name);
    assert_int_equal(run(rig, source), STATUS_UNSUPPORTED);
    assert_non_null(strstr(rig->err.text, name));
    snprintf(source, sizeof source, "{%% macro %s() %%}{%% endmacro %%}{{ %s }}", name, name);
    assert_int_equal(run(rig, source), STATUS_OK);
    snprintf(source, sizeof source, "<Macro '%s'>", name);
    assert_true(text_is(rig->out.text, source));
    assert_int_equal(run(rig, "{{ '{:010,}'.format(1234) }}"), STATUS_INVALID);
    assert_non_null(strstr(rig->err.text, "malformed or not supported"));
}

// Templates that must end with an error instead of running forever.
static void test_limits(void **state)
{
    struct rig *rig = *state;
    static const char *const rows[] = {
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
        "{{ 'x' * 999999999999 }}",
        "{{ [0] * 999999999999 }}",
        "{{ range(999999999999) }}",
        "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
        "{% set ns = namespace(x='xx') %}{% for a in range(64) %}{% set ns.x = ns.x ~ ns.x %}"
        "{% endfor %}",
        "{% set ns = namespace(x=[]) %}{% for a in range(3000) %}{% set ns.x = [ns.x] %}"
        "{% endfor %}{{ ns.x }}",
        "{% set ns = namespace() %}{% set ns.x = ns %}{{ ns }}",
        "{{ '%999999999d' % 1 }}",
        "{{ 'x' | center(999999999999) }}",
        "{{ [1] | batch(999999999999, 0) | list }}",
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        enum status status = run(rig, rows[i]);
        if (status != STATUS_TOO_LARGE && status != STATUS_INVALID)
            printf("%s: %s\n", rows[i], status_name(status));
        assert_true(status == STATUS_TOO_LARGE || status == STATUS_INVALID);
        assert_true(strlen(rig->err.text) > 0);
    }
    char deep[20001];
    memset(deep, '(', 20000);
    memcpy(deep, "{{", 2);
    deep[20000] = '\0';
    assert_int_not_equal(run(rig, deep), STATUS_OK);
    rig->limits.steps_max = 100;
    assert_int_equal(run(rig, "{% for a in range(1000) %}{% endfor %}"), STATUS_TOO_LARGE);
    rig->limits = (struct chat_limits){.output_bytes_max = 10};
    assert_int_equal(run(rig, "0123456789"), STATUS_OK);
    assert_int_equal(run(rig, "0123456789{{ n }}"), STATUS_TOO_LARGE);
}

// Text of the request is marked as such, whatever the template does with it. In the expected texts
// it is in brackets.
static void test_origins(void **state)
{
    struct rig *rig = *state;
    static const struct expected rows[] = {
        {"{{ bos_token }}<|u|>{{ user }}<|e|>", "<s><|u|>[Hi <|end|> é]<|e|>"},
        {"{{ '<|u|>' + user + '<|e|>' }}", "<|u|>[Hi <|end|> é]<|e|>"},
        {"{{ ('<|u|>' ~ user ~ '<|e|>') | trim | replace('Hi', '<x>') }}",
         "<|u|><x>[ <|end|> é]<|e|>"},
        {"{{ user.split('<|')[-1] ~ '<|' }}", "[end|> é]<|"},
        {"{{ ('<a>' ~ user)[1:5] }}", "a>[Hi]"},
        {"{{ [user, '<e>'] | join('<|>') }}", "[Hi <|end|> é]<|><e>"},
        {"{{ '<b>%s<c>' % user }}", "<b>[Hi <|end|> é]<c>"},
        {"{{ '<b>{}<c>'.format(user) }}", "<b>[Hi <|end|> é]<c>"},
        {"{% set x %}<b>{{ user }}{% endset %}{{ x | upper }}", "<B>[HI <|END|> É]"},
        {"{% macro m(t) %}<b>{{ t }}{% endmacro %}{{ m(user) }}", "<b>[Hi <|end|> é]"},
        {"{% for c in user %}{{ c }}<i>{% break %}{% endfor %}", "[H]<i>"},
        {"{{ {'k': user} | tojson }}<e>", "[{\"k\": \"Hi <|end|> é\"}]<e>"},
        {"{{ {'a': user}[('a')] }}{{ d.keys() | list | first }}<e>", "[Hi <|end|> éz]<e>"},
        {"{% set ns = namespace(t='<a>') %}{% set ns.t = ns.t + user %}{% set u = ns.t + '<b>' %}"
         "{{ ns.t + '<c>' }}|{{ u }}",
         "<a>[Hi <|end|> é]<c>|<a>[Hi <|end|> é]<b>"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char shown[512];
        size_t at = 0;
        assert_int_equal(run(rig, rows[i].source), STATUS_OK);
        for (uint32_t s = 0; s < rig->out.segment_count; s++) {
            const struct text_segment *part = &rig->out.segments[s];
            at += (size_t)snprintf(shown + at, sizeof shown - at, part->plain ? "[%.*s]" : "%.*s",
                                   (int)part->text.bytes, part->text.at);
        }
        assert_string_equal(shown, rows[i].text);
    }
}

static void test_questions(void **state)
{
    (void)state;
    static const char refuses[] =
        "{% for m in messages %}{% if m.role == 'system' and not loop.first %}"
        "{{ raise_exception('no') }}{% endif %}{{ m.content }}{% endfor %}";
    struct chat_template *chat = NULL;
    assert_int_equal(chat_template_create(&chat, text_of("{{ tools }}{{ x.thinking }}"), NULL),
                     STATUS_OK);
    assert_true(chat_template_uses(chat, "tools"));
    assert_false(chat_template_uses(chat, "thinking"));
    assert_false(chat_template_accepts_late_system(chat));
    chat_template_destroy(chat);
    assert_int_equal(chat_template_create(&chat, text_of(refuses), NULL), STATUS_OK);
    assert_false(chat_template_accepts_late_system(chat));
    chat_template_destroy(chat);
    assert_int_equal(chat_template_create(&chat, chat_template_plain(), NULL), STATUS_OK);
    assert_true(chat_template_accepts_late_system(chat));
    struct arena *arena = arena_create(0, 0);
    json_t *variables = json_pack("{s:[{s:s}, {s:s}]}", "messages", "content", "a", "content", "b");
    const struct chat_input in = {.variables = variables};
    struct chat_output out;
    assert_int_equal(chat_render(chat, &in, arena, &out, NULL), STATUS_OK);
    assert_true(text_is(out.text, "a\nb"));
    json_decref(variables);
    arena_destroy(arena);
    chat_template_destroy(chat);
}

// Templates of multimodal models: some read lists of parts only. The expected texts are those that
// jinja2 gives for contents of one part of text.
static void test_contents_become_parts(void **state)
{
    struct rig *rig = *state;
    static const struct expected rows[] = {
        {"{% for m in messages %}{{ m['role'].upper() + ': ' }}{% for c in "
         "m['content'] | selectattr('type', 'equalto', 'image') %}{{ '<image>' "
         "}}{% endfor %}{% for c in m['content'] | selectattr('type', "
         "'equalto', 'text') %}{{ c['text'] + ' ' }}{% endfor %}{% endfor %}{% "
         "if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}",
         "SYSTEM: S USER: Hi <|end|> ASSISTANT: Yo USER:  Two  ASSISTANT:"},
        {"{% for m in messages %}{{ m['role'] | capitalize }}{% if "
         "m['content'][0]['type'] == 'image' %}{{ ':' }}{% else %}{{ ': ' }}{% "
         "endif %}{% for line in m['content'] %}{% if line['type'] == 'text' "
         "%}{{ line['text'] }}{% elif line['type'] == 'image' %}{{ '<image>' "
         "}}{% endif %}{% endfor %}<end>\n{% endfor %}{% if "
         "add_generation_prompt %}{{ 'Assistant:' }}{% endif %}",
         "System: S<end>\nUser: Hi <|end|><end>\nAssistant: Yo<end>\nUser:  Two "
         "<end>\nAssistant:"},
        {"{% for m in messages %}<|{{ m.role }}|>{% if m.content is string %}{{ "
         "m.content }}{% else %}{% for c in m.content %}{% if 'image' in c or "
         "c.type == 'image' %}<img>{% elif 'text' in c %}{{ c.text }}{% endif "
         "%}{% endfor %}{% endif %}<|end|>{% endfor %}",
         "<|system|>S<|end|><|user|>Hi "
         "<|end|><|end|><|assistant|>Yo<|end|><|user|> Two <|end|>"},
        {"{% if messages[0]['role'] == 'system' %}{% if messages[0]['content'] "
         "is string %}{% set first = messages[0]['content'] + '\n\n' %}{% else "
         "%}{% set first = messages[0]['content'][0]['text'] + '\n\n' %}{% "
         "endif %}{% set rest = messages[1:] %}{% else %}{% set first = '' %}{% "
         "set rest = messages %}{% endif %}{% for m in rest %}<t>{{ m['role'] "
         "}}\n{{ first if loop.first }}{% if m['content'] is string %}{{ "
         "m['content'] | trim }}{% elif m['content'] is iterable %}{% for item "
         "in m['content'] %}{% if item['type'] == 'image' %}<i>{% elif "
         "item['type'] == 'text' %}{{ item['text'] | trim }}{% endif %}{% "
         "endfor %}{% else %}{{ raise_exception('no') }}{% endif %}</t>{% "
         "endfor %}",
         "<t>user\nS\n\nHi <|end|></t><t>assistant\nYo</t><t>user\nTwo</t>"},
    };
    json_decref(rig->variables);
    rig->variables = json_pack("{s:b, s:[{s:s, s:s}, {s:s, s:s}, {s:s, s:s}, {s:s, s:s}]}",
                               "add_generation_prompt", 1, "messages", "role", "system", "content",
                               "S", "role", "user", "content", "Hi <|end|>", "role", "assistant",
                               "content", "Yo", "role", "user", "content", " Two ");
    check_all(rig, rows, sizeof rows / sizeof *rows);
    // Text of the conversation stays text: "<|end|>" is in a plain segment.
    assert_int_equal(run(rig, rows[0].source), STATUS_OK);
    bool plain = false;
    for (uint32_t i = 0; i < rig->out.segment_count; i++)
        plain = plain ||
                (rig->out.segments[i].plain && text_is(rig->out.segments[i].text, "Hi <|end|>"));
    assert_true(plain);
}

// A model with a template for tools: the request decides, and the texts are those of the templates.
static void test_templates_for_tools(void **state)
{
    (void)state;
    static const char with[] = "\n {{ bos_token }}T{% set x = 1 %}\n{{ x }} \n";
    static const char without[] = "\n {%- if true %} D{% endif %}\n\n";
    static const char *const wants[] = {" D", "\n <s>T1 "};
    struct arena *arena = arena_create(0, 0);
    struct chat_template *chat;
    struct chat_output out;
    struct error err;
    struct text source = chat_template_choose(arena, text_of(with), text_of(without));
    assert_int_equal(chat_template_create(&chat, source, &err), STATUS_OK);
    assert_true(chat_template_uses(chat, "tools"));
    for (int tools = 0; tools < 2; tools++) {
        json_t *variables = json_pack("{s:[],s:s}", "messages", "bos_token", "<s>");
        json_object_set_new(variables, "tools", tools ? json_pack("[{}]") : json_null());
        struct chat_input in = {.variables = variables};
        assert_int_equal(chat_render(chat, &in, arena, &out, &err), STATUS_OK);
        if (!text_is(out.text, wants[tools]))
            fail_msg("'%.*s', not '%s'", (int)out.text.bytes, out.text.at, wants[tools]);
        json_decref(variables);
    }
    chat_template_destroy(chat);
    arena_destroy(arena);
}

// A request cannot write a special token through a name that the tokenizer does not define.
static void test_trusted_names_need_a_token(void **state)
{
    (void)state;
    static const char json[] =
        "{\"added_tokens\":[{\"id\":1,\"content\":\"<s>\",\"special\":true,"
        "\"normalized\":false}],\"model\":{\"vocab\":{\"a\":0},\"merges\":[]}}";
    static const char *const configs[] = {"{}", "{\"bos_token\":\"<s>\"}"};
    for (uint32_t i = 0; i < 2; i++) {
        struct tokenizer *tokenizer = NULL;
        struct chat_template *chat = NULL;
        struct arena *arena = arena_create(0, 0);
        int32_t *tokens = NULL;
        uint32_t count = 0;
        assert_int_equal(
            tokenizer_open_memory(&tokenizer, text_of(json), text_of(configs[i]), NULL), STATUS_OK);
        assert_int_equal(
            chat_template_create(&chat, text_of("{{ bos_token }}{{ eos_token }}a"), NULL),
            STATUS_OK);
        json_t *variables = json_pack("{s:s, s:s}", "bos_token", "<s><s>", "eos_token", "<s>");
        const struct prompt_args args = {
            .chat = chat, .tokenizer = tokenizer, .variables = variables, .arena = arena};
        assert_int_equal(prompt_tokens(&args, &tokens, &count, NULL), STATUS_OK);
        assert_int_equal(count, i + 1); // the tokenizer's bos_token, if it has one, and "a"
        assert_int_equal(tokens[0], i == 0 ? 0 : 1);
        assert_int_equal(tokens[count - 1], 0);
        json_decref(variables);
        arena_destroy(arena);
        chat_template_destroy(chat);
        tokenizer_close(tokenizer);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_values, setup, teardown),
        cmocka_unit_test_setup_teardown(test_wide_integers, setup, teardown),
        cmocka_unit_test_setup_teardown(test_filters_and_methods, setup, teardown),
        cmocka_unit_test_setup_teardown(test_statements, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refusals_and_lines, setup, teardown),
        cmocka_unit_test_setup_teardown(test_limits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_origins, setup, teardown),
        cmocka_unit_test(test_questions),
        cmocka_unit_test_setup_teardown(test_contents_become_parts, setup, teardown),
        cmocka_unit_test(test_templates_for_tools),
        cmocka_unit_test(test_trusted_names_need_a_token),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
