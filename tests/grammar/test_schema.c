// SPDX-License-Identifier: Apache-2.0
// Schemas keyword by keyword: texts that can be produced, texts that cannot, and the messages of
// refusals. The schemas and values are ours; test_schema_suite.c runs those of the JSON Schema
// project.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/grammar/schema_texts.h"

static void test_types_and_constants(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "{}",
        "=null",
        "=[1,{'a':-2.5e+10}]",
        "='\xC3\xA4\\n'",
        "![1, 2]",
        "!nul",
        "!",
        "{'type':'integer'}",
        "=0",
        "=-12",
        "!-0",
        "!01",
        "!1.0",
        "!'1'",
        "{'type':['boolean','null']}",
        "=true",
        "=null",
        "!0",
        "{'const':{'b':[1,'x'],'a':null}}",
        "={'b':[1,'x'],'a':null}",
        "!{'b':[1,'x']}",
        "!{'b':[1,'y'],'a':null}",
        "!{'b':[1,'x'],'a':null,'c':1}",
        "{'enum':['one','two','qu\\'ote',2,2.50,false,[],{}]}",
        "='one'",
        "='qu\\'ote'",
        "=2",
        "=2.5",
        "=false",
        "=[]",
        "={}",
        "!true",
        "!'o'",
        "!2.0",
        "![1]",
        "!null",
        "{'type':'string','enum':['a',1,null]}",
        "='a'",
        "!1",
        "!null",
        "true",
        "=1",
        "false",
        "!1",
        "!null",
    };
    CHECK_TEXTS(rows);
}

static void test_strings(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "{'type':'string','minLength':2,'maxLength':3}",
        "='ab'",
        "='\xF0\x9F\x98\x80\xC3\xA4\\n'",
        "!'a'",
        "!'abcd'",
        "!'\\\\'",
        "{'type':'string','pattern':'b+'}",
        "='abba'",
        "!'aca'",
        "{'type':'string','pattern':'^[ab]*$','minLength':2,'maxLength':4}",
        "='ab'",
        "='bbbb'",
        "!'a'",
        "!'aaaaa'",
        "!'abc'",
        "{'type':'string','pattern':'^a','not':{'pattern':'z$'}}",
        "='ab'",
        "!'abz'",
        "!'b'",
        "{'enum':['red','green','blue'],'pattern':'e$'}",
        "='blue'",
        "!'green'",
        "{'type':'string','not':{'enum':['no','nope']}}",
        "='yes'",
        "='n'",
        "!'no'",
        "!'nope'",
    };
    CHECK_TEXTS(rows);
}

static void test_formats(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "{'type':'string','format':'date'}",
        "='2024-02-29'",
        "='1999-12-31'",
        "!'2023-02-29'",
        "!'2100-02-29'",
        "='2000-02-29'",
        "!'2024-04-31'",
        "!'24-01-01'",
        "{'type':'string','format':'time'}",
        "='23:59:60Z'",
        "='10:20:30.5+02:00'",
        "='01:59:60+02:00'",
        "!'01:58:60+02:00'",
        "!'24:00:00Z'",
        "!'10:20:30'",
        "{'type':'string','format':'date-time'}",
        "='2024-02-29T00:00:00Z'",
        "!'2024-02-29'",
        "{'type':'string','format':'duration'}",
        "='P1Y2M3DT4H'",
        "='P3W'",
        "!'P1H'",
        "!'P'",
        "{'type':'string','format':'email'}",
        "='a.b@c-d.org'",
        "='x@[127.0.0.1]'",
        "!'a@b@c'",
        "!'.a@b'",
        "{'type':'string','format':'ipv4'}",
        "='255.0.10.1'",
        "!'256.0.0.1'",
        "!'1.2.3'",
        "!'01.2.3.4'",
        "{'type':'string','format':'ipv6'}",
        "='::1'",
        "='1:2:3:4:5:6:7:8'",
        "='1::8'",
        "='::ffff:1.2.3.4'",
        "!'1:2:3:4:5:6:7'",
        "!'1::2::3'",
        "{'type':'string','format':'hostname'}",
        "='a.b-c.d'",
        "='a--b.com'",
        "!'-a'",
        "!'a-'",
        "!'xn--abc'",
        "!'a..b'",
        "{'type':'string','format':'uuid'}",
        "='2eb8aa08-AA98-11ea-b4aa-73b441d16380'",
        "!'2eb8aa08AA9811eab4aa73b441d16380'",
        "{'type':'string','format':'uri'}",
        "='https://u@h:80/p/a?q#f'",
        "='urn:a:b'",
        "!'//h/p'",
        "!'a b:c'",
        "{'type':'string','format':'uri-reference'}",
        "='../a?b'",
        "=''",
        "!'a b'",
        "{'type':'string','format':'json-pointer'}",
        "='/a~1b/0'",
        "!'a'",
        "!'/~2'",
        "{'type':'string','format':'a-format-of-ours'}",
        "='x'",
        "{'type':'string','not':{'format':'ipv4'}}",
        "='1.2.3'",
        "!'1.2.3.4'",
    };
    CHECK_TEXTS(rows);
}

static void test_numbers(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "{'type':'integer','minimum':-12,'maximum':105}",
        "!007",
        "!012",
        "=-12",
        "=-7",
        "=0",
        "=99",
        "=100",
        "=105",
        "!-13",
        "!-20",
        "!-112",
        "!106",
        "!110",
        "!1000",
        "!00",
        "!-0",
        "!1.0",
        "{'type':'integer','exclusiveMinimum':9.5,'exclusiveMaximum':20}",
        "=10",
        "=19",
        "!9",
        "!20",
        "{'type':'number','minimum':0.05,'maximum':1.5}",
        "=0.05",
        "=0.051",
        "=1",
        "=1.0",
        "=1.50",
        "=1.4999",
        "=0.9",
        "!0.04",
        "!0.049",
        "!1.51",
        "!1.6",
        "!2",
        "!0",
        "!5e-2",
        "{'type':'number','exclusiveMinimum':-2.5,'exclusiveMaximum':-1}",
        "=-2.4",
        "=-1.001",
        "=-2",
        "=-2.49",
        "!-2.5",
        "!-2.50",
        "!-1",
        "!-1.0",
        "!-0.9",
        "!-3",
        "!1.5",
        "{'minimum':1e2}",
        "=100",
        "=1000000000000000000000",
        "=100.01",
        "!99.9",
        "!-100",
        "='a'",
        "{'type':'number','exclusiveMaximum':1}",
        "=0.999999999999999",
        "=-1000",
        "=0",
        "=-0.5",
        "!0.99999999999999999999",
        "!1",
        "!1.0",
        "{'type':'integer','multipleOf':7}",
        "=0",
        "=7",
        "=-49",
        "=700007",
        "!8",
        "!-48",
        "!07",
        "{'type':'number','multipleOf':0.25,'minimum':1}",
        "=1",
        "=1.25",
        "=17.5",
        "=2.750",
        "!1.2",
        "!0.75",
        "!1.255",
        "{'multipleOf':0.01}",
        "=19.99",
        "=5",
        "!0.001",
        "='x'",
        "{'multipleOf':1.5}",
        "=3",
        "=4.5",
        "=-1.5",
        "!1",
        "!2.5",
        "!0.5",
        "{'not':{'multipleOf':5},'type':'integer'}",
        "=4",
        "!5",
        "!0",
        "!-15",
        "{'type':'number','not':{'minimum':3}}",
        "=2.99",
        "=-7",
        "!3",
        "!3.5",
        "{'enum':[1,2,3.5,10],'minimum':2,'not':{'const':10}}",
        "=2",
        "=3.5",
        "!1",
        "!10",
        "{'type':'number','not':{'type':'integer'}}",
        "=1.5",
        "!1",
        "!0",
    };
    CHECK_TEXTS(rows);
}

// Numbers next to an exclusive limit may have as many digits as doubles distinguish there.
static void test_digits_next_to_a_limit(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "{'type':'number','exclusiveMaximum':0.4}",
        "=0.3999999999999999",
        "!0.39999999999999999",
        "{'type':'number','exclusiveMinimum':0.9995}",
        "=0.999500000000001",
        "!0.9995000000000001", // equal to the limit as a double
        "{'type':'number','exclusiveMinimum':9.9999}",
        "=9.99990000000001",
        "!9.999900000000001",
        "{'type':'number','exclusiveMaximum':-0.0625}",
        "=-0.0625000000000001",
        "!-0.06250000000000001",
    };
    CHECK_TEXTS(rows);
}

static void test_bounds_of_both_kinds(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "{'type':'integer','minimum':3,'exclusiveMinimum':3,'maximum':9}", "=4", "=9", "!3",
        "{'type':'integer','exclusiveMaximum':5,'maximum':5,'minimum':3}", "=4", "!5",
    };
    CHECK_TEXTS(rows);
}

static void test_arrays(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "{'type':'array','items':{'type':'integer'},'minItems':2,'maxItems':3}",
        "=[1,2]",
        "=[1,2,3]",
        "![1]",
        "![1,2,3,4]",
        "![1,'a']",
        "![1,2,]",
        "![,1,2]",
        "{'type':'array','prefixItems':[{'type':'string'},{'type':'null'}],'items':false}",
        "=[]",
        "=['a']",
        "=['a',null]",
        "!['a',null,1]",
        "![null]",
        "{'$schema':'http://json-schema.org/draft-07/schema#','type':'array',"
        "'items':[{'type':'string'}],'additionalItems':{'type':'boolean'}}",
        "=['a']",
        "=['a',true,false]",
        "!['a',1]",
        "![true]",
        "{'type':'array','items':{'type':'integer'},'contains':{'minimum':5}}",
        "=[5]",
        "=[1,9,2]",
        "![]",
        "![1,2]",
        "{'type':'array','contains':{'const':1},'minContains':2,'maxContains':3}",
        "=[1,'x',1]",
        "=[1,1,1]",
        "![1]",
        "![1,1,1,1]",
        "!['1','1']",
        "{'type':'array','not':{'items':{'type':'string'}}}",
        "=['a',1]",
        "=[null]",
        "![]",
        "!['a']",
        "{'type':'array','uniqueItems':true,'maxItems':1}",
        "=[]",
        "=[1]",
        "![1,2]",
        "{'prefixItems':[true],'unevaluatedItems':{'type':'null'},'type':'array'}",
        "=[1]",
        "=[1,null]",
        "![1,2]",
    };
    CHECK_TEXTS(rows);
}

static void test_objects(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "{'type':'object','properties':{'b':{'type':'integer'},'a':{'type':'string'},'c':true},"
        "'required':['a'],'additionalProperties':false}",
        "={'a':'x'}",
        "={'b':1,'a':''}",
        "={'b':1,'a':'','c':[]}",
        "={'a':'','c':null}",
        "!{}",
        "!{'b':1}",
        "!{'a':'x','b':1}",
        "!{'a':'x','d':1}",
        "!{'a':'x',}",
        "!{'a':1}",
        "{'type':'object','properties':{'a':{'type':'integer'}},"
        "'additionalProperties':{'type':'null'}}",
        "={}",
        "={'a':1}",
        "={'a':1,'ab':null,'':null}",
        "={'\\u0001':null}",
        "!{'a':null}",
        "!{'b':1}",
        "!{'\\u0061':null}",
        "{'type':'object','required':['z','y'],'properties':{'y':{'const':1}}}",
        "={'y':1,'z':0,'x':2}",
        "!{'z':0,'y':1}",
        "!{'y':1}",
        "{'type':'object','patternProperties':{'^s_':{'type':'string'},'_n$':{'maxLength':2}},"
        "'properties':{'s_1':{'minLength':1}},'additionalProperties':{'type':'integer'}}",
        "={'s_1':'x','s_n':'ab','k':7}",
        "={'a_n':1}",
        "!{'s_1':''}",
        "!{'s_x':1}",
        "!{'s_n':'abc'}",
        "!{'k':'x'}",
        "={'a_n':'ab'}",
        "!{'a_n':'abc'}",
        "{'type':'object','propertyNames':{'pattern':'^[a-c]$'},'properties':{'b':{},'d':{}}}",
        "={'b':1,'a':2}",
        "!{'d':1}",
        "!{'e':1}",
        "!{'ab':1}",
        "{'type':'object','minProperties':2,'maxProperties':3,'properties':{'a':{},'b':{}}}",
        "={'a':1,'b':2}",
        "={'a':1,'x':2}",
        "={'x':1,'y':2,'z':3}",
        "!{'a':1}",
        "!{}",
        "!{'a':1,'b':2,'x':3,'y':4}",
        "{'type':'object','not':{'required':['a']}}",
        "={'b':1}",
        "={}",
        "!{'a':1}",
        "!{'b':1,'a':1}",
        "{'type':'object','not':{'additionalProperties':{'type':'string'}}}",
        "={'a':1}",
        "={'a':'x','b':2,'c':''}",
        "!{}",
        "!{'a':'x'}",
    };
    CHECK_TEXTS(rows);
}

static void test_choices(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "{'oneOf':[{'type':'object','properties':{'k':{'const':'a'},'x':{}},'required':['k']},"
        "{'type':'object','properties':{'k':{'const':'a'},'y':{}},'required':['k','y']}]}",
        "={'k':'a'}",
        "={'k':'a','x':1}",
        "!{'k':'a','y':1}",
        "!{'k':'a','x':1,'y':1}",
        "{'anyOf':[{'type':'string','maxLength':1},{'type':'integer','minimum':3}]}",
        "='a'",
        "=3",
        "!'ab'",
        "!2",
        "!null",
        "{'oneOf':[{'type':'integer'},{'type':'number','minimum':2}]}",
        "=1",
        "=2.5",
        "!2",
        "!1.5",
        "{'oneOf':[{'type':'object','properties':{'k':{'const':'a'},'x':{'type':'integer'}},"
        "'required':['k','x'],'additionalProperties':false},{'type':'object','properties':{"
        "'k':{'const':'b'},'y':{'type':'string'}},'required':['k'],'additionalProperties':false}]}",
        "={'k':'a','x':1}",
        "={'k':'b'}",
        "={'k':'b','y':''}",
        "!{'k':'a'}",
        "!{'k':'b','x':1}",
        "{'oneOf':[{'enum':[1,'a']},{'enum':[1.0,'b',null]}]}",
        "='a'",
        "='b'",
        "=null",
        "!1",
        "{'oneOf':[{'const':[1]},{'const':[1.0]},{'const':2}]}",
        "=2",
        "![1]",
        "{'$schema':'http://json-schema.org/draft-07/"
        "schema#','definitions':{'s':{'type':'string'}},"
        "'type':'object','oneOf':[{'properties':{'k':{'$ref':'#/definitions/s','const':'a'}},"
        "'required':['k'],'type':'object'},{'properties':{'k':{'const':'b'}},'required':['k'],"
        "'type':'object'}]}",
        "={'k':'a'}",
        "!{'k':'b'}",
        "{'allOf':[{'properties':{'a':{'minimum':2}},'required':['a']},{'properties':{"
        "'a':{'type':'integer','maximum':4}}}],'type':'object'}",
        "={'a':2}",
        "={'a':4,'b':0}",
        "!{'a':5}",
        "!{'a':1}",
        "!{'a':2.5}",
        "!{}",
        "{'if':{'properties':{'t':{'const':1}},'required':['t']},'then':{'required':['u']},"
        "'else':{'maxProperties':1},'type':'object','properties':{'t':{},'u':{}}}",
        "={'t':1,'u':2}",
        "={'t':2}",
        "={'u':2}",
        "!{'t':1}",
        "!{'t':2,'u':1}",
        "{'type':'object','dependentRequired':{'a':['b']},'properties':{'a':{},'b':{}}}",
        "={'a':1,'b':2}",
        "={'b':2}",
        "={}",
        "!{'a':1}",
        "{'type':'object','dependentSchemas':{'a':{'maxProperties':1}},'properties':{'a':{}}}",
        "={'a':1}",
        "={'x':1,'y':1}",
        "!{'a':1,'x':1}",
        "{'not':{'anyOf':[{'type':'string'},{'type':'object'}]}}",
        "=1",
        "=[]",
        "!'a'",
        "!{}",
        "{'not':{'oneOf':[{'minimum':3},{'maximum':5}]},'type':'integer'}",
        "=3",
        "=5",
        "!2",
        "!6",
        "{'not':{'not':true}}",
        "=1",
        "='a'",
        "{'not':{'const':[1]},'type':'array'}",
        "=[]",
        "=[2]",
        "=[1,1]",
        "![1]",
        "{'not':{'if':{'minimum':0},'then':{'maximum':9}},'type':'integer'}",
        "=10",
        "!9",
        "!-1",
        "{'allOf':[{'properties':{'a':{}}},{'anyOf':[{'properties':{'b':{}},'required':['b']},"
        "{'properties':{'c':{}}}]}],'unevaluatedProperties':false,'type':'object'}",
        "={'a':1,'b':2,'c':3}",
        "={'a':1,'c':3}",
        "={'b':1}",
        "!{'d':1}",
        "!{'a':1,'d':1}",
    };
    CHECK_TEXTS(rows);
}

// Two hundred alternatives that differ in constants stay within the work limit of a compile.
static void test_many_choices_of_constants(void **state)
{
    (void)state;
    static const struct {
        const char *around, *form, *fits, *other;
    } rows[] = {
        {"string", "{\"const\":\"k%d\"}", "\"k7\"", "\"k200\""},
        {"number", "{\"enum\":[%d]}", "7", "200"},
        {"object", "{\"properties\":{\"t\":{\"const\":%d}},\"required\":[\"t\"]}", "{\"t\":7}",
         "{\"t\":200}"},
        {NULL,
         "{\"type\":\"object\",\"properties\":{\"t\":{\"enum\":[\"k%d\"]}},\"required\":[\"t\"]}",
         "{\"t\":\"k7\"}", "{\"t\":\"k200\"}"},
    };
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
        struct schema_rig rig;
        json_t *list = json_array();
        for (int i = 0; i < 200; i++) {
            struct error err;
            json_t *one;
            char text[100];
            snprintf(text, sizeof text, rows[row].form, i);
            assert_int_equal(json_parse(&one, text_of(text), &err), STATUS_OK);
            json_array_append_new(list, one);
        }
        json_t *schema = json_pack("{s:o,s:s*}", "oneOf", list, "type", rows[row].around);
        schema_rig_open(&rig, schema, SCHEMA_DRAFT_AUTO);
        if (rig.status != STATUS_OK)
            fail_msg("%s: %s", rows[row].form, rig.err.text);
        assert_true(schema_rig_matches(&rig, text_of(rows[row].fits)));
        assert_false(schema_rig_matches(&rig, text_of(rows[row].other)));
        schema_rig_close(&rig);
        json_decref(schema);
    }
}

static void test_references(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "{'$defs':{'n':{'type':'object','properties':{'v':{'type':'integer'},'c':{'type':'array',"
        "'items':{'$ref':'#/$defs/n'}}},'required':['v'],'additionalProperties':false}},"
        "'$ref':'#/$defs/n'}",
        "={'v':1,'c':[{'v':2},{'v':3,'c':[{'v':4}]}]}",
        "!{'v':1,'c':[{'c':[]}]}",
        "{'$ref':'#/$defs/a~1b%25','$defs':{'a/b%':{'$anchor':'x','const':1}}}",
        "=1",
        "!2",
        "{'$defs':{'a':{'$anchor':'x','const':1}},'$ref':'#x','minimum':0}",
        "=1",
        "!0",
        "{'$id':'http://h/a/r','$defs':{'q':{'$id':'../b','$defs':{'z':{'const':2}}}},"
        "'$ref':'/b#/$defs/z'}",
        "=2",
        "!1",
        "{'$schema':'http://json-schema.org/draft-07/schema#','definitions':{"
        "'a':{'type':'integer'}},'$ref':'#/definitions/a','minimum':5}",
        "=1",
        "!'x'",
        "{'allOf':[{'$ref':'#'}],'type':'integer'}",
        "=1",
        "!'a'",
        "{'type':'array','items':{'$ref':'#'}}",
        "=[[],[[]]]",
        "![1]",
        "{'properties':{'a':{'$ref':'#'}},'required':['a'],'type':'object'}",
        "!{}",
        "!{'a':{}}",
        "{'$dynamicAnchor':'t','type':'array','items':{'$dynamicRef':'#t'}}",
        "=[[]]",
        "![1]",
    };
    CHECK_TEXTS(rows);
}

static void test_refusals_name_the_keyword(void **state)
{
    (void)state;
    static const struct {
        const char *schema, *sentence;
        enum status status;
    } rows[] = {
        {"{'properties':{'a/b':{'type':'array','uniqueItems':true}}}",
         "the schema's uniqueItems at #/properties/a~1b/uniqueItems is not supported",
         STATUS_UNSUPPORTED},
        {"{'items':{'$ref':'http://h/x'}}", "$ref at #/items/$ref is not supported",
         STATUS_UNSUPPORTED},
        {"{'$ref':'#/$defs/x'}", "$ref at #/$ref has no target", STATUS_INVALID},
        {"{'pattern':'(a)\\\\1'}", "pattern at #/pattern is not supported: the pattern has a back",
         STATUS_UNSUPPORTED},
        {"{'pattern':'('}", "pattern at #/pattern cannot be compiled: the pattern has a (",
         STATUS_INVALID},
        {"{'patternProperties':{'(a|b)*a(a|b){20}$':{'type':'null'}}}",
         "the schema's patternProperties at #/patternProperties cannot be compiled: two "
         "expressions",
         STATUS_TOO_LARGE},
        {"{'format':'idn-hostname'}", "format at #/format is not supported", STATUS_UNSUPPORTED},
        {"{'type':'text'}", "type at #/type must name types", STATUS_INVALID},
        {"{'minLength':-1}", "minLength at #/minLength must be an integer", STATUS_INVALID},
        {"{'multipleOf':0}", "multipleOf at #/multipleOf must be over 0", STATUS_INVALID},
        {"{'multipleOf':0.1234567}", "multipleOf at #/multipleOf is not supported",
         STATUS_UNSUPPORTED},
        {"{'anyOf':[1]}", "anyOf at #/anyOf must be a schema", STATUS_INVALID},
        {"{'anyOf':[]}", "the schema's anyOf at #/anyOf must not be empty", STATUS_INVALID},
        {"{'oneOf':{}}", "oneOf at #/oneOf must be a list of schemas", STATUS_INVALID},
        {"{'allOf':{}}", "allOf at #/allOf must be a list", STATUS_INVALID},
        {"{'properties':[]}", "properties at #/properties must be an object", STATUS_INVALID},
        {"{'required':[1]}", "required at #/required must be a list", STATUS_INVALID},
        {"{'enum':1}", "enum at #/enum must be a list", STATUS_INVALID},
        {"{'$schema':'http://h/s'}", "$schema at #/$schema is not supported", STATUS_UNSUPPORTED},
        {"[]", "the schema's value at # must be an object or a boolean", STATUS_INVALID},
        {"{'not':{'unevaluatedItems':false}}", "unevaluatedItems at #/not/unevaluatedItems",
         STATUS_UNSUPPORTED},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct schema_rig rig;
        texts_open(&rig, rows[i].schema);
        if (rig.status != rows[i].status || !strstr(rig.err.text, rows[i].sentence))
            fail_msg("%s: %s", rows[i].schema, rig.err.text);
        schema_rig_close(&rig);
    }
}

static void test_long_keys_and_constants(void **state)
{
    (void)state;
    char *text = malloc(70000);
    memset(text, 'k', 70000);
    for (int i = 0; i < 3; i++) {
        struct schema_rig rig;
        json_t *object = json_object(), *value = json_stringn(text, 20000);
        json_object_setn_new(object, text, i == 0 ? 1025 : 1024, json_true());
        json_t *schema =
            i < 2 ? json_pack("{s:O}", "properties", object) : json_pack("{s:O}", "const", value);
        schema_rig_open(&rig, schema, SCHEMA_DRAFT_AUTO);
        assert_int_equal(rig.status, i == 0 ? STATUS_TOO_LARGE : STATUS_OK);
        if (i > 0)
            assert_true(schema_rig_fits(&rig, i == 1 ? object : value));
        schema_rig_close(&rig);
        json_decref(schema);
        json_decref(object);
        json_decref(value);
    }
    free(text);
}

// Many alternatives, long counts and deep nesting end with an error, within bounded memory and
// work.
static void test_hostile_schemas_are_refused(void **state)
{
    (void)state;
    json_t *many = json_array(), *deep = json_object();
    for (int i = 0; i < 24; i++)
        json_array_append_new(many, json_pack("{s:[{s:[s]},{s:[s]},{s:[s]}]}", "anyOf", "required",
                                              "a", "required", "b", "required", "c"));
    json_t *bounds = json_array(); // 2^18 equivalent alternatives
    for (int i = 0; i < 18; i++)
        json_array_append_new(bounds,
                              json_pack("{s:[{s:i},{s:i}]}", "anyOf", "minimum", i, "minimum", i));
    for (int i = 0; i < 2000; i++)
        deep = json_pack("{s:o,s:s}", "items", deep, "type", "array");
    json_t *schemas[] = {json_pack("{s:o,s:s}", "allOf", many, "type", "object"), deep,
                         json_pack("{s:o}", "allOf", bounds)};
    for (int i = 0; i < 3; i++) {
        struct schema_rig rig;
        schema_rig_open(&rig, schemas[i], SCHEMA_DRAFT_AUTO);
        assert_int_equal(rig.status, STATUS_TOO_LARGE);
        assert_true(rig.err.text[0] != '\0');
        schema_rig_close(&rig);
        json_decref(schemas[i]);
    }
}

static void test_loose_blanks(void **state)
{
    (void)state;
    struct error err;
    struct grammar_builder *b = grammar_builder_create(NULL);
    struct schema_args args = {.style = {json_grammar_loose_blank(b)}};
    uint32_t root;
    bool fits;
    json_t *object = json_pack("{s:s,s:b}", "type", "object", "additionalProperties", 0);
    args.schema = object;
    assert_int_equal(schema_compile(b, &args, &root, &err), STATUS_OK);
    assert_int_equal(grammar_matches(b, root, text_of("{\n  }"), &fits, &err), STATUS_OK);
    assert_true(fits);
    json_decref(object);
    grammar_builder_destroy(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types_and_constants),
        cmocka_unit_test(test_strings),
        cmocka_unit_test(test_formats),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_digits_next_to_a_limit),
        cmocka_unit_test(test_bounds_of_both_kinds),
        cmocka_unit_test(test_arrays),
        cmocka_unit_test(test_objects),
        cmocka_unit_test(test_choices),
        cmocka_unit_test(test_many_choices_of_constants),
        cmocka_unit_test(test_references),
        cmocka_unit_test(test_refusals_name_the_keyword),
        cmocka_unit_test(test_long_keys_and_constants),
        cmocka_unit_test(test_hostile_schemas_are_refused),
        cmocka_unit_test(test_loose_blanks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
