// SPDX-License-Identifier: Apache-2.0
// Edge cases of schemas: the last of several, values next to a limit, combinations of two keywords.
// test_schema.c covers the keywords one by one.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/grammar/schema_texts.h"

static void test_numbers(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "{'type':'number','minimum':1e22}",
        "=10000000000000000000000",
        "!9999999999999999999999",
        "{'type':'number','minimum':1e-7}",
        "=0.0000001",
        "!0.00000009",
        "{'type':'number','exclusiveMinimum':-0.0}",
        "=0.1",
        "!0",
        "!-0.1",
        "{'type':'number','maximum':-0.0}",
        "=0",
        "=-1",
        "!0.1",
        "{'type':'number','minimum':1}",
        "=1.0",
        "!1.",
        "{'type':'number','not':{'type':'integer'},'minimum':1,'multipleOf':0.5}",
        "=1.5",
        "!0.5",
        "!1.25",
        "!2",
        "{'$defs':{'m':{'type':'number','multipleOf':0.5}},'type':'object','properties':{"
        "'a':{'$ref':'#/$defs/m'},'b':{'$ref':'#/$defs/m','minimum':1}}}",
        "={'a':0.5,'b':1.5}",
        "={'a':0,'b':2}",
        "!{'a':0.25}",
        "!{'b':1.25}",
        "!{'b':0.5}",
        "{'const':1000000000000000.5}",
        "=1000000000000000.5",
        "!1000000000000000",
        "{'enum':[-2251799813685249.5,9007199254740992.0]}",
        "=-2251799813685249.5",
        "=9007199254740992",
    };
    CHECK_TEXTS(rows);
}

// Integers beyond 2^53, which only some doubles represent, and their neighbours.
static void test_wide_integers(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "{'type':'object','properties':{'id':{'const':9007199254740993},'n':{'type':'integer',"
        "'minimum':9007199254740993,'maximum':18446744073709551615}},'required':['id']}",
        "={'id':9007199254740993}",
        "!{'id':9007199254740992}",
        "={'id':9007199254740993,'n':18446744073709551615}",
        "!{'id':9007199254740993,'n':18446744073709553000}",
        "={'id':9007199254740993,'n':9007199254740993}",
        "!{'id':9007199254740993,'n':9007199254740992}",
        "{'type':'integer','minimum':-9223372036854775808,'exclusiveMaximum':9223372036854775807}",
        "=-9223372036854775808",
        "=9223372036854775806",
        "!-9223372036854775809",
        "!9223372036854775807",
        "{'enum':[1e18,9223372036854775807,-1.2345678901234567e18,9007199254740994.0]}",
        "=1000000000000000000",
        "=9223372036854775807",
        "!9223372036854775808",
        // the double's exact value; its shortest digits denote another integer
        "=-1234567890123456768",
        "!-1234567890123456700",
        "=9007199254740994",
        "{'const':18446744073709551615}",
        "=18446744073709551615",
        "!18446744073709551616",
        "!18446744073709552000",
        "{'enum':[1,-1e20,-9223372036854775809,1000000000000000000000000000000000000000001,1e23]}",
        "=-100000000000000000000",
        "=-9223372036854775809",
        "=1000000000000000000000000000000000000000001",
        "!1000000000000000000000000000000000000000000",
        "=99999999999999991611392",
        "!100000000000000000000000",
        "{'type':'integer','minimum':100000000000000000000001,"
        "'exclusiveMaximum':100000000000000000000004}",
        "!100000000000000000000000",
        "=100000000000000000000001",
        "=100000000000000000000003",
        "!100000000000000000000004",
        "{'not':{'const':18446744073709551615},'type':'integer','minimum':18446744073709551614}",
        "=18446744073709551614",
        "!18446744073709551615",
        "=18446744073709551616",
        "{'oneOf':[{'const':18446744073709551615},{'const':18446744073709551614}]}",
        "=18446744073709551615",
        "=18446744073709551614",
        "!18446744073709551616",
    };
    CHECK_TEXTS(rows);
}

// In draft 4 these keywords are booleans.
static void test_exclusive_booleans(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "{'$schema':'http://json-schema.org/draft-04/schema#','type':'integer','minimum':0,"
        "'exclusiveMinimum':true,'maximum':3,'exclusiveMaximum':true}",
        "=1",
        "=2",
        "!0",
        "!3",
        "{'type':'integer','minimum':0,'exclusiveMinimum':false,'maximum':3,"
        "'exclusiveMaximum':false}",
        "=0",
        "=3",
        "!-1",
        "!4",
        "{'type':'integer','exclusiveMinimum':true,'exclusiveMaximum':true}",
        "=0",
        "{'type':'integer','not':{'minimum':0,'exclusiveMinimum':true}}",
        "=0",
        "=-1",
        "!1",
        "{'type':'integer','not':{'maximum':3,'exclusiveMaximum':true}}",
        "=3",
        "=4",
        "!2",
        "{'type':'integer','not':{'minimum':0,'exclusiveMinimum':false}}",
        "=-1",
        "!0",
    };
    CHECK_TEXTS(rows);
}

static void test_strings(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "{'allOf':[{'minLength':3,'maxLength':5},{'minLength':1,'maxLength':9}],'type':'string'}",
        "='abc'",
        "='abcde'",
        "!'ab'",
        "!'abcdef'",
        "{'not':{'format':'a-format-of-ours'}}",
        "!1",
        "!'x'",
        "{'type':['string','null'],'minLength':3,'maxLength':2}",
        "=null",
        "!'ab'",
        "!'abc'",
        "{'type':'string','format':'uri-template'}",
        "='http://x/{a}[~]@\xC2\xA0\xEE\x80\x80'",
        "!'\xC2\x80'",
        "!'\xC2\x9F'",
        "!'\xEF\xB7\x90'",
        "!'<'",
        "!'`'",
        "{'enum':['a\\n','b\\n','c']}",
        "='a\\n'",
        "='b\\n'",
        "='c'",
    };
    CHECK_TEXTS(rows);
}

static void test_keys(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "{'type':'object','properties':{'\\n':{'const':1},'\\f':{'const':1},"
        "'\xF4\x8F\xBF\xBE':{'const':1}},'additionalProperties':{'const':2}}",
        "={'\\n':1,'\\f':1,'\xF4\x8F\xBF\xBE':1}",
        "={'\\u000b':2}",
        "={'\xF4\x8F\xBF\xBF':2}",
        "={'\\t':2,'\\r':2}",
        "!{'\\n':2}",
        "!{'\xF4\x8F\xBF\xBE':2}",
        "{'type':'object','patternProperties':{'^a':{'const':1},'^b':{'const':1},'^c':{'const':1},"
        "'^d':{'const':1},'^e':{'const':1},'^f':{'const':6}}}",
        "={'ax':1,'fx':6,'g':null}",
        "!{'fx':1}",
    };
    CHECK_TEXTS(rows);
}

static void test_counts_of_keys(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "{'type':'object','properties':{'a':{},'b':{},'c':{}},'minProperties':3}",
        "={'a':1,'b':2,'c':3}",
        "={'a':1,'x':2,'y':3}",
        "={'a':1,'b':2,'c':3,'d':4}",
        "!{'a':1,'b':2}",
        "!{'x':1,'y':2}",
        "{'type':'object','required':['a','b'],'maxProperties':2}",
        "={'a':1,'b':2}",
        "!{'a':1,'b':2,'c':3}",
        "!{'a':1}",
        "{'type':['object','null'],'required':['a','b'],'maxProperties':1}",
        "=null",
        "!{'a':1}",
        "!{'a':1,'b':2}",
        "{'type':'object','maxProperties':1}",
        "={}",
        "={'a':1}",
        "!{'a':1,'b':2}",
    };
    CHECK_TEXTS(rows);
}

static void test_counts_of_items(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "{'allOf':[{'minItems':2,'maxItems':3},{'minItems':1,'maxItems':9}],'type':'array'}",
        "=[1,2]",
        "=[1,2,3]",
        "![1]",
        "![1,2,3,4]",
        "{'type':'array','contains':{'const':1},'minContains':1}",
        "=[1,1,1]",
        "=[2,1,1,2,1]",
        "![2]",
        "{'type':'array','contains':{'const':1},'maxItems':2}",
        "=[2,1]",
        "=[1,2]",
        "![2,2]",
        "![2,2,1]",
        "{'type':'array','allOf':[{'contains':{'const':1},'minContains':1},{'contains':{'const':2},"
        "'maxContains':1},{'contains':{'const':3},'minContains':2}]}",
        "=[1,2,3,3]",
        "=[3,2,3,1,1,3]",
        "![1,2,2,3,3]",
        "![1,2,3]",
        "![2,3,3]",
        "{'type':['array','null'],'contains':{'const':1},'minContains':3,'maxContains':2}",
        "=null",
        "![1,1]",
        "![1,1,1]",
        "{'type':'array','not':{'prefixItems':[{},{}],'items':{'type':'string'}}}",
        "=['a','b',1]",
        "=[1,2,'c',3]",
        "![1,2]",
        "![1,2,'c']",
        "{'type':'array','not':{'not':{'prefixItems':[{},{}],'items':{'type':'string'}}}}",
        "=[1,2,'c']",
        "=[1]",
        "![1,2,3]",
        "{'type':'array','not':{'items':{'type':'string'}},'maxItems':2}",
        "=['a',1]",
        "![]",
    };
    CHECK_TEXTS(rows);
}

static void test_drafts_and_escaped_keywords(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "{'$schema':'http://json-schema.org/draft-04/schema#','definitions':{'m':{'type':"
        "'integer'}},'$ref':'#/definitions/m','maximum':1}",
        "=5",
        "!'a'",
        "{'$schema':'http://json-schema.org/schema#','definitions':{'m':{'type':"
        "'integer'}},'$ref':'#/definitions/m','maximum':1}",
        "=1",
        "!5",
        "{'$schema':'http://json-schema.org/draft-04/schema#','definitions':{"
        "'a':{'type':'integer'}},'$ref':'#/definitions/a','minimum':5}",
        "=1",
        "!'x'",
        "{'$schema':'http://json-schema.org/draft-06/schema#','definitions':{"
        "'a':{'type':'integer'}},'$ref':'#/definitions/a','minimum':5}",
        "=1",
        "{'$schema':'http://json-schema.org/schema#','definitions':{'a':{'type':'integer'}},"
        "'$ref':'#/definitions/a','minimum':5}",
        "=5",
        "!1",
        "{'!types':1,'!enum':[1],'!pattern':'a'}",
        "=1",
        "='a'",
        "{'type':'array','contains':{},'maxContains':2}",
        "=[1,2]",
        "![1,2,3]",
        "![]",
    };
    CHECK_TEXTS(rows);
}

// More alternatives than are compared with each other.
static void test_many_alternatives(void **state)
{
    (void)state;
    enum { MANY = 70 };
    struct schema_rig rig;
    json_t *list = json_array();
    for (int i = 0; i < MANY; i++)
        json_array_append_new(list, json_pack("{s:s,s:{s:i},s:i}", "type", "array", "items",
                                              "const", i, "minItems", 1));
    json_t *schema = json_pack("{s:o}", "anyOf", list);
    schema_rig_open(&rig, schema, SCHEMA_DRAFT_AUTO);
    assert_int_equal(rig.status, STATUS_OK);
    for (int i = 0; i <= MANY; i++) {
        char text[32];
        snprintf(text, sizeof text, "[%d,%d]", i, i);
        assert_int_equal(schema_rig_matches(&rig, text_of(text)), i < MANY);
    }
    schema_rig_close(&rig);
    json_decref(schema);
}

static void test_negated_limits(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "{'type':'array','not':{'maxItems':1}}",
        "=[1,2]",
        "![1]",
        "![]",
        "{'type':'array','not':{'minItems':2}}",
        "=[]",
        "=[1]",
        "![1,2]",
        "{'type':['array','null'],'not':{'type':'array','minItems':0}}",
        "=null",
        "![]",
        "{'type':'object','not':{'maxProperties':1}}",
        "={'a':1,'b':2}",
        "!{'a':1}",
        "{'type':'object','not':{'minProperties':2}}",
        "={}",
        "={'a':1}",
        "!{'a':1,'b':2}",
        "{'type':'integer','not':{'exclusiveMinimum':3}}",
        "=3",
        "=2",
        "!4",
        "{'type':'integer','not':{'exclusiveMaximum':3}}",
        "=3",
        "=4",
        "!2",
        "{'type':'integer','not':{'maximum':3}}",
        "=4",
        "!3",
        "{'type':'object','not':{'const':{'a':1}}}",
        "={}",
        "={'a':2}",
        "!{'a':1}",
    };
    CHECK_TEXTS(rows);
}

static void test_negated_parts(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "{'type':'array','not':{'prefixItems':[{'type':'string'},{'type':'string'}]}}",
        "=[1]",
        "=['a',1]",
        "!['a']",
        "!['a','b']",
        "![]",
        "{'type':'array','not':{'contains':{'const':1}}}",
        "=[]",
        "=[2]",
        "![2,1]",
        "{'type':'array','not':{'contains':{'const':1},'minContains':2}}",
        "=[]",
        "=[2]",
        "=[1]",
        "![1,1]",
        "{'type':['array','null'],'not':{'type':'array','contains':{'const':1},'minContains':0}}",
        "=null",
        "![]",
        "![2]",
        "{'type':'array','not':{'contains':{'const':1},'maxContains':2}}",
        "=[]",
        "=[2]",
        "=[1,1,1]",
        "![1]",
        "![2,1,1]",
        "{'type':'object','not':{'dependentRequired':{'a':['b']}}}",
        "={'a':1}",
        "!{}",
        "!{'b':1}",
        "!{'a':1,'b':2}",
        "{'type':'integer','not':{'if':{'minimum':0},'else':{'const':-5}}}",
        "=-1",
        "!-5",
        "!3",
        "{'type':'object','properties':{'ab':{}},'not':{'propertyNames':{'maxLength':2}}}",
        "={'abc':1}",
        "={'ab':1,'abc':2}",
        "!{'ab':1}",
        "!{}",
        "{'type':'object','properties':{'a':{}},'not':{'properties':{'a':{}},"
        "'additionalProperties':{'type':'string'}}}",
        "={'x':1}",
        "={'a':'q','x':1}",
        "!{'a':1}",
        "!{'x':'s'}",
        "!{}",
    };
    CHECK_TEXTS(rows);
}

static void test_two_keywords_combined(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "{'type':'object','oneOf':[{'properties':{'k':{'const':1}}},"
        "{'properties':{'k':{'const':2}}}]}",
        "={'k':1}",
        "={'k':2}",
        "!{}",
        "!{'k':3}",
        "{'oneOf':[{'properties':{'k':{'const':1}},'required':['k']},"
        "{'properties':{'k':{'const':2}},'required':['k']}]}",
        "={'k':1}",
        "={'k':2}",
        "!5",
        "!{}",
        "{'type':'object','allOf':[{'minProperties':2,'maxProperties':2},"
        "{'minProperties':1,'maxProperties':3}]}",
        "={'a':1,'b':2}",
        "!{'a':1}",
        "!{'a':1,'b':2,'c':3}",
        "{'type':'object','properties':{'ab':{'type':'integer'}},"
        "'patternProperties':{'^a':{'minimum':3},'b$':{'maximum':5}}}",
        "={'ab':4}",
        "!{'ab':2}",
        "!{'ab':6}",
        "{'type':'object','allOf':[{'properties':{'a':{}}}],'unevaluatedProperties':false}",
        "={'a':1}",
        "={}",
        "!{'b':1}",
        "{'type':['array','null'],'contains':{'const':1},'minContains':3,'maxContains':2}",
        "=null",
        "![1,1,1]",
        "![]",
        "{'enum':[true,false,null],'not':{'const':false}}",
        "=true",
        "=null",
        "!false",
        "{'type':'array','contains':{'const':1},'maxContains':2,"
        "'allOf':[{'contains':{'const':2},'maxContains':1}]}",
        "=[1,2]",
        "=[1,3,1,2]",
        "![1,1,1,2]",
        "![1,2,2]",
        "![2]",
    };
    CHECK_TEXTS(rows);
}

// oneOf combined with unevaluated keywords.
static void test_unevaluated_choices(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "{'type':'object','required':['a'],'oneOf':[{'properties':{'a':{'type':'integer'}}},"
        "{'properties':{'a':{'type':'number'}}}],'unevaluatedProperties':false}",
        "={'a':1.5}",
        "!{'a':1}",
        "!{'a':1.5,'b':1}",
        "{'type':'array','minItems':1,'oneOf':[{'prefixItems':[{'type':'integer'}]},"
        "{'prefixItems':[{'type':'number'}]}],'unevaluatedItems':false}",
        "=[1.5]",
        "![1]",
        "![1.5,1]",
        "{'type':'object','required':['k'],'oneOf':[{'properties':{'k':{'const':'a'},'n':{}}},"
        "{'properties':{'k':{'const':'b'},'m':{}}}],'unevaluatedProperties':false}",
        "={'k':'a','n':1}",
        "={'k':'b','m':1}",
        "!{'k':'a','m':1}",
        "!{'k':'c'}",
        "{'$ref':'#/components/x','components':{'x':{'type':'object','anyOf':[{'properties':"
        "{'a':{}},'required':['a']},{'properties':{'b':{}},'required':['b']}],"
        "'unevaluatedProperties':false}}}",
        "={'a':1,'b':2}",
        "={'a':1}",
        "!{'a':1,'c':2}",
        "{'type':'object','required':['properties'],'properties':{'properties':{'type':'object',"
        "'anyOf':[{'properties':{'a':{}},'required':['a']},{'properties':{'b':{}},'required':"
        "['b']}],'unevaluatedProperties':false}}}",
        "={'properties':{'a':1,'b':2}}",
        "!{'properties':{'a':1,'c':2}}",
        "{'properties':{'unevaluatedItems':{}},'anyOf':[{'const':1},{'const':2},{'const':3},"
        "{'const':4},{'const':5},{'const':6}]}",
        "=6",
        "!7",
        "{'$defs':{'unevaluatedItems':{}},'default':{'unevaluatedProperties':1},'anyOf':["
        "{'const':1},{'const':2},{'const':3},{'const':4},{'const':5},{'const':6}]}",
        "=6",
        "!7",
        "{'$ref':'#/parts/0','parts':[{'type':'array','anyOf':[{'contains':{'const':1}},"
        "{'contains':{'const':2}}],'unevaluatedItems':false}]}",
        "=[1,2]",
        "=[2]",
        "![1,3]",
    };
    CHECK_TEXTS(rows);
}

static void test_references(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "{'prefixItems':[1,1,1,1,1,1,1,1,1,1,{'const':7}],'type':'object',"
        "'properties':{'a':{'$ref':'#/prefixItems/10'}}}",
        "={'a':7}",
        "!{'a':1}",
        "{'oneOf':[{'type':'object','properties':{'a':{'$ref':'#m'}}},"
        "{'$anchor':'m','type':'integer'}]}",
        "=1",
        "={'a':2}",
        "!{'a':'x'}",
        "{'type':'object','dependentSchemas':{'b':{'$anchor':'d','properties':{'a':{'type':"
        "'integer'}}}},'properties':{'c':{'$ref':'#d'}}}",
        "={'c':{'a':1}}",
        "!{'c':{'a':'x'}}",
        "{'$id':'http://h/a/b?q','$defs':{'x':{'$id':'../c/.','type':'integer'}},'type':'object',"
        "'properties':{'v':{'$ref':'http://h/c/'}}}",
        "={'v':1}",
        "!{'v':'x'}",
        "{'$id':'http://h/a','$defs':{'x':{'$id':'//g/b','type':'integer'}},'type':'object',"
        "'properties':{'v':{'$ref':'http://g/b'}}}",
        "={'v':1}",
        "!{'v':'x'}",
        "{'$id':'http://h','$defs':{'x':{'$id':'x','type':'integer'}},'type':'object',"
        "'properties':{'v':{'$ref':'http://h/x'}}}",
        "={'v':1}",
        "!{'v':'x'}",
        "{'$schema':'http://json-schema.org/draft-07/schema#','definitions':{'x':{'$id':'#m',"
        "'type':'integer'}},'type':'object','properties':{'v':{'$ref':'#m'}}}",
        "={'v':1}",
        "!{'v':'x'}",
        "{'$id':'http://h/','$defs':{'x':{'$id':'http://g/','own':{'s':{'$ref':'#/own/t'},"
        "'t':{'type':'integer'}}}},'type':'object','properties':{'v':{'$ref':"
        "'#/$defs/x/own/s'}}}",
        "={'v':1}",
        "!{'v':'x'}",
    };
    CHECK_TEXTS(rows);
}

// The messages of schemas that the compiler refuses.
static void test_refusals(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"{'multipleOf':-2}", "must be over 0"},
        {"{'properties':{'a~b':{'type':'text'}}}", "type at #/properties/a~0b/type must"},
        {"{'$schema':'http://h/draft-07/schema#'}", "$schema is not supported"},
        {"{'type':'array','uniqueItems':true,'maxItems':2}", "uniqueItems is not supported"},
        {"{'patternProperties':{'1':{},'2':{},'3':{},'4':{},'5':{},'6':{},'7':{}}}",
         "more than six patterns in one object"},
        {"{'allOf':[{'contains':{'const':1}},{'contains':{'const':2}},{'contains':{'const':3}},"
         "{'contains':{'const':4}}]}",
         "more than three in one array"},
        {"{'not':{'additionalProperties':false},'maxProperties':9}",
         "limits of the number of properties"},
        {"{'$schema':'http://h/draft-07/schema#'}", "$schema at #/$schema is not supported"},
        {"{'properties':{'a~b':{'not':{'uniqueItems':true}}}}",
         "#/properties/a~0b/not/uniqueItems"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct schema_rig rig;
        texts_open(&rig, rows[i][0]);
        if (rig.status == STATUS_OK || !strstr(rig.err.text, rows[i][1]))
            fail_msg("%s: %d %s", rows[i][0], rig.status, rig.err.text);
        schema_rig_close(&rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_wide_integers),
        cmocka_unit_test(test_exclusive_booleans),
        cmocka_unit_test(test_strings),
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_counts_of_keys),
        cmocka_unit_test(test_counts_of_items),
        cmocka_unit_test(test_drafts_and_escaped_keywords),
        cmocka_unit_test(test_many_alternatives),
        cmocka_unit_test(test_negated_limits),
        cmocka_unit_test(test_negated_parts),
        cmocka_unit_test(test_two_keywords_combined),
        cmocka_unit_test(test_unevaluated_choices),
        cmocka_unit_test(test_references),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
