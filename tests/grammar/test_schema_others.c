// SPDX-License-Identifier: Apache-2.0
// Other members of objects: how many each kind of schema allows (enum schema_others), in JSON and
// as parameters of a call, and that no object costs more states than it has keys.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/grammar/schema_texts.h"

enum { FEW = SCHEMA_OTHERS_FEW, MAPS = SCHEMA_OTHERS_OF_MAPS, NONE = SCHEMA_OTHERS_NONE, KINDS };
enum { UNLIMITED = 40 }; // number of members in place of any number

// Returns `text` with its %s replaced by the members "k0":1, "k1":1, ... and the comma that is
// needed before them.
static char *with_members(const char *text, int count)
{
    char *members = calloc(1, 16 * (size_t)count + 1), *out = NULL;
    const char *place = strstr(text, "%s");
    bool comma = place > text && place[-1] != '{';
    for (int i = 0, at = 0; i < count; i++)
        at += sprintf(members + at, "%s\"k%d\":1", i > 0 || comma ? "," : "", i);
    assert_true(asprintf(&out, "%.*s%s%s", (int)(place - text), text, members, place + 2) > 0);
    free(members);
    return out;
}

static bool fits(struct schema_rig *rig, const char *text, int count)
{
    char *whole = with_members(text, count);
    bool fit = schema_rig_matches(rig, text_of(whole));
    free(whole);
    return fit;
}

static void rig_of(struct schema_rig *rig, const char *row, int others)
{
    char text[TEXTS_BYTES_MAX];
    struct error err;
    json_t *value;
    texts_read(text, row);
    assert_int_equal(json_parse(&value, text_of(text), &err), STATUS_OK);
    schema_rig_compile(
        rig, &(struct schema_args){.schema = value, .others = (enum schema_others)others});
    json_decref(value);
    if (rig->status != STATUS_OK)
        fail_msg("%s: %s", row, rig->err.text);
}

// A schema, a text of it with the place of other members, and the number of these that FEW, MAPS
// and NONE allow.
static const struct {
    const char *schema, *text;
    int most[KINDS];
} rows[] = {
    {"{'type':'object','properties':{'r':{'type':'integer'}},'required':['r']}",
     "{'r':1%s}",
     {16, 0, 0}},
    {"{'properties':{'r':{}}}", "{%s}", {16, 0, 0}},
    {"{'type':'object','required':['r']}", "{'r':1%s}", {16, 0, 0}}, // not in `properties`
    {"{'type':'object','properties':{'r':{}},'required':['s']}", "{'r':1,'s':[]%s}", {16, 0, 0}},
    {"{'type':'object','properties':{}}", "{%s}", {0, 0, 0}},
    {"{'type':['object','null'],'properties':{}}", "{%s}", {0, 0, 0}},
    {"{'properties':{},'required':['r']}", "{'r':1%s}", {0, 0, 0}},
    {"{'properties':{},'additionalProperties':{'type':'integer'}}",
     "{%s}",
     {UNLIMITED, UNLIMITED, UNLIMITED}},
    {"{'type':'object'}", "{%s}", {16, 16, 0}}, // a map
    {"{'type':['object','null'],'title':'map'}", "{%s}", {16, 16, 0}},
    {"{'type':'object','propertyNames':{'pattern':'^k'}}", "{%s}", {16, 16, 0}},
    {"{}", "{%s}", {UNLIMITED, UNLIMITED, UNLIMITED}}, // any JSON
    {"{'description':'any JSON'}", "{%s}", {UNLIMITED, UNLIMITED, UNLIMITED}},
    {"{'type':'object','additionalProperties':true}", "{%s}", {UNLIMITED, UNLIMITED, UNLIMITED}},
    {"{'properties':{'r':{}},'additionalProperties':{}}",
     "{'r':1%s}",
     {UNLIMITED, UNLIMITED, UNLIMITED}},
    {"{'properties':{'r':{}},'additionalProperties':false}", "{'r':1%s}", {0, 0, 0}},
    {"{'properties':{'r':{}},'unevaluatedProperties':{'type':'integer'}}",
     "{'r':1%s}",
     {UNLIMITED, UNLIMITED, UNLIMITED}},
    {"{'properties':{'r':{}},'maxProperties':21}", "{'r':1%s}", {20, 0, 0}},
    {"{'type':'object','minProperties':1}", "{%s}", {16, 16, 1}},
    {"{'type':'object','minProperties':18}", "{%s}", {18, 18, 18}},
    {"{'properties':{'r':{}},'minProperties':1}", "{'r':1%s}", {16, 0, 0}},
    {"{'patternProperties':{'^k':{'type':'integer'}}}", "{%s}", {UNLIMITED, UNLIMITED, UNLIMITED}},
    {"{'patternProperties':{'^k':{}},'minProperties':2}",
     "{%s}",
     {UNLIMITED, UNLIMITED, UNLIMITED}},
    {"{'patternProperties':{'^S':{'type':'string'}}}", "{'S1':'','S2':''%s}", {16, 0, 0}},
    {"{'patternProperties':{'^S':{'type':'string'}}}", "{%s}", {16, 0, 0}},
    {"{'properties':{'o':{'type':'object','properties':{'r':{}}}}}", "{'o':{'r':1%s}}", {16, 0, 0}},
    {"{'properties':{'o':{'type':'object'}}}", "{'o':{%s}}", {16, 16, 0}},
    {"{'properties':{'o':{}}}", "{'o':{'p':{%s}}}", {UNLIMITED, UNLIMITED, UNLIMITED}},
    {"{'type':'array','items':{'type':'object','properties':{'r':{}}}}",
     "[{},{'r':1%s}]",
     {16, 0, 0}},
    {"{'$ref':'#/$defs/t','$defs':{'t':{'properties':{'t':{'$ref':'#/$defs/t'}}}}}",
     "{'t':{'t':{%s}}}",
     {16, 0, 0}},
    // the members of all parts are named together
    {"{'properties':{'a':{}},'allOf':[{'properties':{'b':{}}},{'required':['c']}]}",
     "{'a':1,'b':1,'c':1%s}",
     {16, 0, 0}},
    {"{'properties':{},'allOf':[{'properties':{'b':{}}}]}", "{'b':1%s}", {16, 0, 0}},
    {"{'allOf':[{'properties':{'a':{}}},{'additionalProperties':true}]}",
     "{'a':1%s}",
     {UNLIMITED, UNLIMITED, UNLIMITED}},
    {"{'properties':{'a':{}},'anyOf':[{'properties':{'b':{}},'required':['b']},"
     "{'properties':{'c':{}},'required':['c']}]}",
     "{'a':1,'c':1%s}",
     {16, 0, 0}},
    {"{'properties':{'a':{}},'if':{'required':['a']},'then':{'required':['b']}}",
     "{'a':1,'b':1%s}",
     {16, 0, 0}},
    {"{'oneOf':[{'type':'string'},{'type':'object','properties':{'a':{}}}]}",
     "{'a':1%s}",
     {16, 0, 0}},
    {"{'not':{'type':'string'}}", "{%s}", {UNLIMITED, UNLIMITED, UNLIMITED}},
    {"{'const':{'a':1}}", "{'a':1%s}", {0, 0, 0}},
};

static void test_the_number_of_other_members(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int others = 0; others < KINDS; others++) {
            struct schema_rig rig;
            char text[TEXTS_BYTES_MAX];
            int most = rows[i].most[others];
            rig_of(&rig, rows[i].schema, others);
            texts_read(text, rows[i].text);
            if (!fits(&rig, text, most))
                fail_msg("%d: %s does not have %d members", others, rows[i].schema, most);
            if (most < UNLIMITED && fits(&rig, text, most + 1))
                fail_msg("%d: %s has %d members", others, rows[i].schema, most + 1);
            schema_rig_close(&rig);
        }
}

// The answer that ran without end: after the only member nothing but the end may follow.
static void test_a_strict_object_ends(void **state)
{
    (void)state;
    struct schema_rig rig;
    rig_of(&rig,
           "{'type':'object','properties':{'result':{'type':'integer'}},'required':['result']}",
           NONE);
    struct matcher m;
    matcher_init(&m, rig.cache);
    assert_true(matcher_accept_bytes(&m, text_of("{\"result\":1")));
    assert_false(matcher_accept_bytes(&m, text_of(",")));
    assert_true(matcher_accept_bytes(&m, text_of("}")) && matcher_may_end(&m));
    matcher_end(&m);
    schema_rig_close(&rig);
}

static void test_names_occur_once(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{'properties':{'a':{},'b':{}}}",
        "={'a':1,'b':1,'c':1}",
        "={'b':1,'c':1,'c':1}", // names that the schema does not have are only counted
        "!{'a':1,'a':1}",
        "!{'a':1,'b':1,'a':1}",
        "!{'c':1,'b':1}",
        "{'required':['a']}",
        "!{'a':1,'a':1}",
        "{'properties':{'a':{}},'additionalProperties':true}",
        "!{'a':1,'x':1,'a':1}",
    };
    CHECK_TEXTS(texts);
}

// Keys that match a pattern come before the others, or in any order as far as a minimum needs both.
static void test_patterns_and_other_members(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{'properties':{'a':{}},'patternProperties':{'^S':{'type':'string'}}}",
        "={'a':1,'S1':'','S2':'','x':1}",
        "={'S1':'','x':1}",
        "={'x':1}",
        "={'a':1,'x':1}",
        "!{'a':1,'S1':1}",
        "!{'x':1,'S1':''}",
        "{'patternProperties':{'^S':{'type':'string'}},'minProperties':2}",
        "={'S1':'','S2':'','S3':'','x':1}",
        "={'S1':'','x':1}",
        "={'x':1,'y':1}",
        "!{'x':1}",
        "!{'S1':''}",
        "{'patternProperties':{'^S':{'type':'string'}},'minProperties':1,'maxProperties':2}",
        "={'S1':'','x':1}",
        "!{'S1':'','S2':'','x':1}",
        "!{}",
    };
    CHECK_TEXTS(texts);
}

static void rig_of_any_order(struct schema_rig *rig, const char *row)
{
    char text[TEXTS_BYTES_MAX];
    struct error err;
    json_t *value;
    texts_read(text, row);
    assert_int_equal(json_parse(&value, text_of(text), &err), STATUS_OK);
    schema_rig_compile(rig, &(struct schema_args){.schema = value, .any_order = true});
    json_decref(value);
    assert_int_equal(rig->status, STATUS_OK);
}

// Members in any order: the arguments of calls that need not match their schema.
static void test_names_occur_once_in_any_order(void **state)
{
    (void)state;
    static const struct {
        const char *schema, *has[4], *lacks[4];
    } cases[] = {
        {"{'type':'object','properties':{'a':{},'b':true}}",
         {"{}", "{'b':1,'a':2}", "{'x':1,'b':{'a':1,'a':2},'x':3,'a':2}", "{'a':1}"},
         {"{'a':1,'a':2}", "{'a':1,'b':1,'a':2}", "{'x':1,'a':1,'x':2,'a':3}", "{,'a':1}"}},
        {"{'properties':{'a':{},'b':true},'additionalProperties':false}",
         {"{'b':1,'a':2}", "{'b':1}"},
         {"{'x':1}", "{'b':1,'b':1}"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct schema_rig rig;
        char text[TEXTS_BYTES_MAX];
        rig_of_any_order(&rig, cases[i].schema);
        for (int k = 0; k < 4 && cases[i].has[k]; k++) {
            texts_read(text, cases[i].has[k]);
            if (!schema_rig_matches(&rig, text_of(text)))
                fail_msg("%s lacks %s", cases[i].schema, text);
        }
        for (int k = 0; k < 4 && cases[i].lacks[k]; k++) {
            texts_read(text, cases[i].lacks[k]);
            if (schema_rig_matches(&rig, text_of(text)))
                fail_msg("%s has %s", cases[i].schema, text);
        }
        schema_rig_close(&rig);
    }
    struct schema_rig rig;
    rig_of_any_order(&rig, "{'properties':{'a':{}}}");
    assert_true(fits(&rig, "{\"a\":1%s}", 16) && !fits(&rig, "{\"a\":1%s}", 17));
    schema_rig_close(&rig);
}

// Above GRAMMAR_ONCE_MAX names only the number of members is limited.
static void test_many_names_occur_once(void **state)
{
    (void)state;
    enum { MANY = 50, TOO_MANY = 70 };
    for (int count = MANY; count <= TOO_MANY; count += TOO_MANY - MANY) {
        struct schema_rig rig;
        json_t *schema = json_pack("{s:{},s:b}", "properties", "additionalProperties", 0);
        for (int i = 0; i < count; i++) {
            char name[16];
            snprintf(name, sizeof name, "k%d", i);
            json_object_set_new(json_object_get(schema, "properties"), name, json_object());
        }
        schema_rig_compile(&rig, &(struct schema_args){.schema = schema, .any_order = true});
        assert_int_equal(rig.status, STATUS_OK);
        assert_true(fits(&rig, "{%s}", count));
        assert_false(fits(&rig, "{\"k0\":1%s}", count == MANY ? 1 : count));
        assert_true(grammar_bytes(rig.grammar) < 200 * 1000);
        schema_rig_close(&rig);
        json_decref(schema);
    }
}

// Returns the memory of the grammar of an object with `count` optional keys.
static size_t bytes_of(int count, int others)
{
    struct schema_rig rig;
    json_t *schema = json_pack("{s:s,s:{}}", "type", "object", "properties");
    for (int i = 0; i < count; i++) {
        char name[16];
        snprintf(name, sizeof name, "key%d", i);
        json_object_set_new(json_object_get(schema, "properties"), name, json_object());
    }
    schema_rig_compile(
        &rig, &(struct schema_args){.schema = schema, .others = (enum schema_others)others});
    assert_int_equal(rig.status, STATUS_OK);
    size_t bytes = grammar_bytes(rig.grammar);
    schema_rig_close(&rig);
    json_decref(schema);
    return bytes;
}

static void test_the_size_is_linear_in_the_keys(void **state)
{
    (void)state;
    for (int others = 0; others < KINDS; others++)
        assert_true(bytes_of(400, others) < 5 * bytes_of(100, others));
    assert_true(bytes_of(100, NONE) < bytes_of(100, FEW));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_number_of_other_members),
        cmocka_unit_test(test_a_strict_object_ends),
        cmocka_unit_test(test_names_occur_once),
        cmocka_unit_test(test_patterns_and_other_members),
        cmocka_unit_test(test_names_occur_once_in_any_order),
        cmocka_unit_test(test_many_names_occur_once),
        cmocka_unit_test(test_the_size_is_linear_in_the_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
