// SPDX-License-Identifier: Apache-2.0
// Structured output: the grammar for each field, refusals, sharing of compiled grammars, and
// clients that leave during a compile. Against the doubles of exchange and port; the grammars
// passed to the engine are checked byte by byte.
#include "api_cases.h"

#include "http/api/grammars.h"

#define TEST(name) API_TEST(name, fake_setup_generator)
#define PLAIN_TEST(name) API_TEST(name, NULL)
#define PATH "/v1/chat/completions"
#define HI "\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]"
#define SCHEMA                                                                                     \
    "{\"type\":\"object\",\"properties\":{\"b\":{\"type\":\"integer\"},"                           \
    "\"a\":{\"enum\":[\"x\",null]}},\"required\":[\"b\",\"a\"],\"additionalProperties\":false}"
#define FORMAT(schema)                                                                             \
    "\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"n\","               \
    "\"strict\":true,\"description\":\"d\",\"schema\":" schema "}}"
#define CONFIG(schema)                                                                             \
    "\"output_config\":{\"format\":{\"type\":\"json_schema\",\"schema\":" schema "}}"
#define UNIQUE "{\"properties\":{\"k\":{\"type\":\"array\",\"uniqueItems\":true}}}"

static struct grammars_stats stats(void)
{
    return grammars_stats(fake.info.served->grammars);
}

struct form {
    const struct endpoint *endpoint;
    const char *more, *has[3], *not[3];
};

static void forms_check(const struct form *forms, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct form *f = &forms[i];
        request(f->endpoint, f->more);
        if (fake.submits != 1 || fake.compiles != 1)
            fail_msg("%s: %s", f->more, fake.sent);
        for (int k = 0; k < 3 && f->has[k]; k++)
            if (!fake_grammar_has(f->has[k]))
                fail_msg("%s: does not have %s", f->more, f->has[k]);
        for (int k = 0; k < 3 && f->not[k]; k++)
            if (fake_grammar_has(f->not[k]))
                fail_msg("%s: has %s", f->more, f->not[k]);
        fake_end();
    }
}

PLAIN_TEST(test_each_form_of_a_schema)
{
    static const char valid[] = "{\"b\":1,\"a\":\"x\"}", other[] = "{\"b\":-20,\"a\":null}";
    static const char order[] = "{\"a\":\"x\",\"b\":1}", lacks[] = "{\"b\":1}";
    static const struct form forms[] = {
        {&chat_endpoint, FORMAT(SCHEMA), {valid, other}, {order, lacks, ""}},
        {&completions_endpoint, FORMAT(SCHEMA), {valid, other}, {order, lacks, "1"}},
        {&chat_endpoint,
         "\"response_format\":{\"type\":\"json_object\",\"schema\":" SCHEMA "}",
         {valid},
         {order}},
        {&chat_endpoint, "\"structured_outputs\":{\"json\":" SCHEMA "}", {valid}, {order}},
        {&chat_endpoint,
         "\"structured_outputs\":{\"json\":\"{\\\"type\\\":\\\"integer\\\"}\"}",
         {"-7"},
         {valid, "\"a\""}},
        {&chat_endpoint, "\"guided_json\":" SCHEMA, {valid}, {order}},
        {&completions_endpoint, "\"guided_json\":\"{\\\"const\\\":[1]}\"", {"[1]"}, {"[1"}},
        {&messages_endpoint, CONFIG(SCHEMA), {valid, other}, {order, lacks}},
        {&messages_endpoint,
         "\"output_format\":{\"type\":\"json_schema\",\"schema\":" SCHEMA "}",
         {valid},
         {order}},
    };
    forms_check(forms, sizeof forms / sizeof *forms);
}

// Objects without additionalProperties: none but the named members if `strict` is true, up to 16
// more without it.
PLAIN_TEST(test_strict_closes_objects)
{
#define OPEN "{\"type\":\"object\",\"properties\":{\"a\":{}}}"
#define NAMED(strict) "{\"type\":\"json_schema\",\"json_schema\":{" strict "\"schema\":" OPEN "}}"
#define FLAT(strict)                                                                               \
    "\"text\":{\"format\":{\"type\":\"json_schema\"," strict "\"schema\":" OPEN "}}"
#define STRICT "\"strict\":true,"
    static const char own[] = "{\"a\":1}", more[] = "{\"a\":1,\"b\":1}",
                      twice[] = "{\"a\":1,\"a\":1}";
    static const struct form forms[] = {
        {&chat_endpoint, "\"response_format\":" NAMED(STRICT), {own}, {more, twice}},
        {&chat_endpoint, "\"response_format\":" NAMED("\"strict\":false,"), {own, more}, {twice}},
        {&chat_endpoint, "\"response_format\":" NAMED("\"strict\":null,"), {own, more}, {twice}},
        {&completions_endpoint, "\"response_format\":" NAMED(STRICT), {own}, {more}},
        {&responses_endpoint, FLAT(STRICT), {own}, {more, twice}},
        {&responses_endpoint, FLAT(""), {own, more}, {twice}},
        {&chat_endpoint, "\"guided_json\":" OPEN, {own, more}, {twice}},
        {&chat_endpoint, "\"structured_outputs\":{\"json\":" OPEN "}", {own, more}, {twice}},
        {&messages_endpoint, CONFIG(OPEN), {own, more}, {twice}},
    };
    forms_check(forms, sizeof forms / sizeof *forms);
#undef NAMED
#undef STRICT
}

PLAIN_TEST(test_each_other_form)
{
    static const struct form forms[] = {
        {&chat_endpoint,
         "\"response_format\":{\"type\":\"json_object\"}",
         {"{}", "{\"a\":[1,{\"b\":null}]}"},
         {"[]", "{", "1"}},
        {&completions_endpoint,
         "\"structured_outputs\":{\"json_object\":true}",
         {"{\"a\":1}"},
         {"\"a\""}},
        {&chat_endpoint,
         "\"structured_outputs\":{\"regex\":\"[a-c]{2}\\\\.\"}",
         {"ab.", "cc."},
         {"abc", "ab", "ab.."}},
        {&chat_endpoint, "\"guided_regex\":\"a|bc\"", {"a", "bc"}, {"ab", ""}},
        {&chat_endpoint,
         "\"structured_outputs\":{\"choice\":[\"yes\",\"no\",\"not \xC3\xA4\"]}",
         {"yes", "no", "not \xC3\xA4"},
         {"ye", "yesno", "\"yes\""}},
        {&completions_endpoint, "\"guided_choice\":[\"\",\"b\"]", {"", "b"}, {"bb"}},
        {&chat_endpoint,
         "\"structured_outputs\":{\"grammar\":\"root ::= \\\"a\\\" root | \\\"b\\\"\"}",
         {"b", "aab"},
         {"a", "ba"}},
        {&chat_endpoint, "\"guided_grammar\":\"root ::= [0-9]+\"", {"07"}, {"", "a"}},
        {&chat_endpoint,
         "\"structured_outputs\":{\"json_object\":false,\"regex\":\"x\",\"choice\":null,"
         "\"disable_any_whitespace\":true}",
         {"x"},
         {"{}"}},
    };
    forms_check(forms, sizeof forms / sizeof *forms);
}

PLAIN_TEST(test_forms_that_leave_the_answer_free)
{
    static const struct {
        const struct endpoint *endpoint;
        const char *more;
    } free_forms[] = {
        {&chat_endpoint, "\"response_format\":{\"type\":\"text\"}"},
        {&chat_endpoint, "\"response_format\":null,\"guided_regex\":null"},
        {&chat_endpoint, "\"structured_outputs\":{}"},
        {&chat_endpoint, "\"structured_outputs\":{\"json_object\":false,\"json\":null}"},
        {&completions_endpoint, "\"response_format\":{\"type\":\"text\",\"json_schema\":null}"},
        {&messages_endpoint, "\"output_config\":{},\"output_format\":null"},
        {&messages_endpoint, "\"output_config\":{\"format\":null}"},
    };
    for (size_t i = 0; i < sizeof free_forms / sizeof *free_forms; i++) {
        request(free_forms[i].endpoint, free_forms[i].more);
        assert_int_equal(fake.submits, 1);
        assert_null(fake.grammar);
        assert_int_equal(stats().compiled, 0);
        fake_end();
    }
}

struct refusal {
    const struct endpoint *endpoint;
    const char *more, *code, *param, *says;
};

static void refusals_check(const struct refusal *refusals, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct refusal *r = &refusals[i];
        request(r->endpoint, r->more);
        if (!strstr(fake.sent, r->says))
            fail_msg("%s: does not say %s: %s", r->more, r->says, fake.sent);
        fake_end();
        expect_error(r->endpoint, r->more, 400, r->code, r->param);
    }
}

PLAIN_TEST(test_fields_that_are_malformed)
{
    static const struct refusal refusals[] = {
        {&chat_endpoint, "\"response_format\":\"json_object\"", "invalid_type", "response_format",
         "must be an object"},
        {&chat_endpoint, "\"response_format\":{}", "missing_required_parameter",
         "response_format.type", "is required"},
        {&chat_endpoint, "\"response_format\":{\"type\":5}", "invalid_type", "response_format.type",
         "must be a string"},
        {&chat_endpoint, "\"response_format\":{\"type\":\"grammar\"}", "invalid_value",
         "response_format.type",
         "'response_format.type' must be 'text', 'json_object' or 'json_schema', got 'grammar'"},
        {&chat_endpoint, "\"response_format\":{\"type\":\"json_schema\"}",
         "missing_required_parameter", "response_format.json_schema", "is required"},
        {&chat_endpoint, "\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{}}",
         "missing_required_parameter", "response_format.json_schema.schema", "is required"},
        {&chat_endpoint, FORMAT("true"), "invalid_type", "response_format.json_schema.schema",
         "must be an object"},
        {&chat_endpoint,
         "\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"schema\":{},"
         "\"name\":7}}",
         "invalid_type", "response_format.json_schema.name", "must be a string"},
        {&chat_endpoint,
         "\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"schema\":{},"
         "\"strict\":1}}",
         "invalid_type", "response_format.json_schema.strict", "must be true or false"},
        {&chat_endpoint, "\"response_format\":{\"type\":\"text\",\"json_schema\":{}}",
         "invalid_value", "response_format.json_schema", "needs the type 'json_schema'"},
        {&chat_endpoint, "\"response_format\":{\"type\":\"text\",\"schema\":{}}", "invalid_value",
         "response_format.schema", "needs the type 'json_object'"},
        {&completions_endpoint, "\"guided_choice\":[]", "invalid_value", "guided_choice",
         "must not be empty"},
        {&chat_endpoint, "\"structured_outputs\":{\"choice\":[\"a\",1]}", "invalid_type",
         "structured_outputs.choice[1]", "must be a string"},
        {&chat_endpoint, "\"structured_outputs\":{\"structural_tag\":\"x\"}",
         "unsupported_parameter", "structured_outputs.structural_tag", "is not supported"},
        {&chat_endpoint, "\"structured_outputs\":{\"whitespace_pattern\":\" \"}",
         "unsupported_parameter", "structured_outputs.whitespace_pattern", "is not supported"},
        {&chat_endpoint, "\"output_config\":{\"format\":{}}", "unsupported_parameter",
         "output_config", "use response_format"},
        {&messages_endpoint, "\"response_format\":{\"type\":\"json_object\"}",
         "unsupported_parameter", "response_format", "use output_config"},
        {&messages_endpoint, "\"output_config\":{\"format\":{}}", "missing_required_parameter",
         "output_config.format.type", "is required"},
        {&messages_endpoint, "\"output_config\":{\"format\":{\"type\":\"text\"}}", "invalid_value",
         "output_config.format.type", "must be 'json_schema', got 'text'"},
        {&messages_endpoint, "\"output_format\":{\"type\":\"json_schema\"}",
         "missing_required_parameter", "output_format.schema", "is required"},
    };
    refusals_check(refusals, sizeof refusals / sizeof *refusals);
}

PLAIN_TEST(test_two_forms_at_once)
{
    static const struct refusal refusals[] = {
        {&chat_endpoint, FORMAT("{}") ",\"guided_regex\":\"a\"", "invalid_value", "guided_regex",
         "'guided_regex' cannot be combined with 'response_format.json_schema.schema'"},
        {&chat_endpoint, "\"structured_outputs\":{\"regex\":\"a\",\"choice\":[\"a\"]}",
         "invalid_value", "structured_outputs.choice",
         "cannot be combined with 'structured_outputs.regex'"},
        {&completions_endpoint, "\"guided_json\":{},\"guided_grammar\":\"root ::= \\\"a\\\"\"",
         "invalid_value", "guided_grammar", "cannot be combined with 'guided_json'"},
        {&chat_endpoint,
         "\"response_format\":{\"type\":\"json_object\"},"
         "\"structured_outputs\":{\"json_object\":true}",
         "invalid_value", "structured_outputs.json_object",
         "cannot be combined with 'response_format'"},
        {&messages_endpoint,
         CONFIG("{}") ",\"output_format\":{\"type\":\"json_schema\",\"schema\":{}}",
         "invalid_value", "output_format.schema",
         "cannot be combined with 'output_config.format.schema'"},
    };
    refusals_check(refusals, sizeof refusals / sizeof *refusals);
}

PLAIN_TEST(test_what_cannot_be_compiled)
{
    static const struct refusal refusals[] = {
        {&chat_endpoint, FORMAT(UNIQUE), "unsupported_value", "response_format.json_schema.schema",
         "uniqueItems at #/properties/k/uniqueItems is not supported"},
        {&messages_endpoint, CONFIG(UNIQUE), "unsupported_value", "output_config.format.schema",
         "output_config.format.schema: is refused: the schema's uniqueItems at "
         "#/properties/k/uniqueItems"},
        {&chat_endpoint, "\"guided_json\":{\"type\":\"thing\"}", "invalid_value", "guided_json",
         "#/type"},
        {&chat_endpoint, "\"guided_json\":{\"not\":{}}", "invalid_value", "guided_json",
         "no instance of the schema is valid"},
        {&chat_endpoint, "\"guided_json\":\"{\\\"a\\\":\"", "invalid_value", "guided_json",
         "it is not valid JSON"},
        {&chat_endpoint, "\"guided_json\":\"[1]\"", "invalid_value", "guided_json",
         "must be an object or a boolean"},
        {&chat_endpoint, "\"structured_outputs\":{\"regex\":\"(a\"}", "invalid_value",
         "structured_outputs.regex", "the pattern has"},
        {&chat_endpoint, "\"guided_regex\":\"a(?=b)\"", "unsupported_value", "guided_regex",
         "the pattern has"},
        {&completions_endpoint, "\"guided_grammar\":\"root ::= root \\\"a\\\" | \\\"b\\\"\"",
         "invalid_value", "guided_grammar", "left recursion"},
        {&completions_endpoint, "\"guided_grammar\":\"other ::= \\\"a\\\"\"", "invalid_value",
         "guided_grammar", "no rule named root"},
    };
    refusals_check(refusals, sizeof refusals / sizeof *refusals);
}

// The maximum size passes, one byte more does not. A string in a schema counts as its JSON.
TEST(test_a_source_has_a_bound)
{
    enum { MOST = 1 << 20 };
    static char body[MOST + 200];
    for (int more = 0; more < 2; more++) {
        fake_again();
        int head = sprintf(body, "{" HI ",\"guided_json\":{\"description\":\"");
        size_t fill = MOST - strlen("{\"description\":\"\"}") + (size_t)more;
        memset(body + head, 'd', fill);
        strcpy(body + head + fill, "\"}}");
        fake_request(PATH, body);
        assert_int_equal(fake.submits, !more);
        assert_true(!more || strstr(fake.sent, "must have at most 1048576 bytes"));
    }
}

// Ends the request, which frees its tools.
static void forget(void)
{
    fake_gone();
    fake.gone = false;
}

// The schemas of tools have a limit, together with all their other text.
TEST(test_schemas_of_tools_have_a_bound)
{
    enum { MOST = 1 << 20 };
    static char body[MOST + 400];
    for (int more = 0; more < 2; more++) {
        fake_again();
        fake_dialect("hermes", "think");
        char *at = stpcpy(body, "{" HI ",\"tool_choice\":\"required\",\"tools\":[{\"type\":"
                                "\"function\",\"function\":{\"name\":\"f\",\"parameters\":{"
                                "\"type\":\"object\",\"description\":\"");
        size_t fill = MOST -
                      strlen("{\"tools\":[{\"name\":\"f\",\"parameters\":{\"type\":\"object\","
                             "\"description\":\"\"}}]") +
                      (size_t)more;
        memset(at, 'd', fill);
        strcpy(at + fill, "\"}}}]}");
        fake_request(PATH, body);
        assert_int_equal(fake.submits, !more);
        assert_true(!more || strstr(fake.sent, "'tools' must have at most 1048576 bytes"));
        forget();
    }
}

TEST(test_a_source_is_compiled_once)
{
    fake_request(PATH, "{" HI ",\"guided_json\":" SCHEMA "}");
    struct grammar *first = grammar_ref(fake.grammar);
    assert_int_equal(fake.compiles, 1);
    assert_int_equal(stats().compiled, 1);
    assert_int_equal(stats().hits, 0);
    fake_request("/v1/messages", "{" HI "," CONFIG(SCHEMA) "}"); // equal to the first source
    assert_int_equal(fake.compiles, 1);                          // found in the cache
    assert_ptr_equal(fake.grammar, first);
    fake_request(PATH, "{" HI ",\"guided_json\": { \"type\" : \"object\" } }");
    assert_ptr_not_equal(fake.grammar, first);
    assert_int_equal(stats().compiled, 2);
    assert_int_equal(stats().hits, 1);
    assert_int_equal(stats().count, 2);
    assert_int_equal(fake.submits, 3);
    grammar_unref(first);
}

// Keys are written in the schema's order, so their order is part of the source; the kind of grammar
// is part of the source, too.
TEST(test_sources_that_differ_little)
{
    fake_request(PATH, "{" HI ",\"guided_json\":{\"required\":[\"a\",\"b\"],\"properties\":{"
                       "\"a\":{\"const\":1},\"b\":{\"const\":2}},"
                       "\"additionalProperties\":false}}");
    assert_true(fake_grammar_has("{\"a\":1,\"b\":2}"));
    fake_request(PATH, "{" HI ",\"guided_json\":{\"required\":[\"a\",\"b\"],\"properties\":{"
                       "\"b\":{\"const\":2},\"a\":{\"const\":1}},"
                       "\"additionalProperties\":false}}");
    assert_true(fake_grammar_has("{\"b\":2,\"a\":1}"));
    assert_false(fake_grammar_has("{\"a\":1,\"b\":2}"));
    fake_request(PATH, "{" HI ",\"guided_regex\":\"[1]\"}");
    assert_true(fake_grammar_has("1"));
    fake_request(PATH, "{" HI ",\"guided_json\":\"{\\\"const\\\":[1]}\"}");
    fake_request(PATH, "{" HI ",\"guided_json\":\"{\\\"const\\\":[2]}\"}");
    assert_true(fake_grammar_has("[2]"));
    assert_int_equal(stats().compiled, 5);
}

static void leave(void)
{
    fake.gone = true;
}

// The source and everything else that the grammar thread reads belong to the exchange. If the
// client has left, nothing is submitted and the grammar is freed (checked by fake_end and ASan).
TEST(test_who_leaves_while_it_is_compiled)
{
    fake.worked = leave;
    fake_request(PATH, "{" HI "," FORMAT(SCHEMA) "}");
    assert_int_equal(stats().compiled, 1);
    assert_int_equal(fake.submits, 0);
    assert_int_equal(fake.answers, 0);
    fake_gone();
    assert_int_equal(stats().count, 1); // cached for the next request
}

TEST(test_a_request_that_is_not_admitted)
{
    fake.admission = ADMISSION_BUSY;
    fake_request(PATH, "{" HI "," FORMAT(SCHEMA) "}");
    assert_int_equal(fake.status, 503);
    assert_null(fake.grammar);
    fake_again();
    fake_request(PATH, "{" HI "," FORMAT(SCHEMA) "}");
    fake_gone();
    assert_int_equal(fake.submits, 1);
}

// If a grammar cannot be matched to its end, the error is that of a failed compile: 400 with its
// field before the stream, an event in it. If memory is in use by others or the device fails, the
// error is different.
TEST(test_a_grammar_that_cannot_be_followed)
{
    static const struct {
        enum finish finish;
        int status;
        enum http_error error;
        const char *says;
    } ends[] = {
        {FINISH_STUCK, 400, HTTP_GRAMMAR,
         "\"message\":\"'response_format.json_schema.schema' is refused: no token of the model"},
        {FINISH_OVER, 400, HTTP_GRAMMAR,
         "\"message\":\"'response_format.json_schema.schema' is refused: the grammar is too "
         "ambiguous"},
        {FINISH_CROWDED, 503, HTTP_CROWDED,
         "\"message\":\"other answers use the memory that this grammar needs"},
        {FINISH_ERROR, 500, HTTP_INTERNAL, "\"message\":\"the model failed on this request\""},
    };
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        bool grammar = ends[i].error == HTTP_GRAMMAR;
        for (int stream = 0; stream < 2; stream++) {
            fake_again();
            fake_request(PATH, stream ? "{" HI ",\"stream\":true," FORMAT(SCHEMA) "}"
                                      : "{" HI "," FORMAT(SCHEMA) "}");
            fake_text("{\"b\":");
            fake_ready();
            fake_finish(ends[i].finish, -1);
            fake_ready();
            assert_int_equal(fake.status, stream ? 200 : ends[i].status);
            assert_int_equal(fake.error, ends[i].error);
            assert_int_equal(fake.stream_failures, stream);
            sent_has(ends[i].says);
            assert_int_equal(strstr(fake.sent, "\"param\":\"response_format.json") != NULL,
                             grammar);
            assert_int_equal(strstr(fake.sent, "\"code\":\"unsupported_value\"") != NULL, grammar);
            sent_lacks("[DONE]");
        }
        fake_again();
        fake_request("/v1/messages", "{" HI "," CONFIG(SCHEMA) "}");
        fake_finish(ends[i].finish, -1);
        fake_ready();
        bool crowded = ends[i].error == HTTP_CROWDED;
        assert_int_equal(fake.status, crowded ? 529 : ends[i].status);
        sent_has(grammar   ? "\"type\":\"invalid_request_error\""
                 : crowded ? "\"type\":\"overloaded_error\""
                           : "\"type\":\"api_error\"");
        assert_int_equal(strstr(fake.sent, "output_config.format.schema: is refused") != NULL,
                         grammar);
    }
}

#define CALL(name, arguments)                                                                      \
    "<tool_call>\n{\"name\": \"" name "\", \"arguments\": " arguments "}\n</tool_call>"
#define TOOLS                                                                                      \
    "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{"              \
    "\"type\":\"object\"}}}]"

// A format constrains only the text: a call may replace it, thoughts may precede it.
TEST(test_50_a_form_beside_tools_and_thoughts)
{
    static const char valid[] = "{\"b\":1,\"a\":\"x\"}";
    static const struct {
        const char *more, *has[3], *not[3];
    } forms[] = {
        {TOOLS "," FORMAT(SCHEMA),
         {valid, CALL("f", "{\"a\": \"any\"}"), "<think>hm</think>\n\n{\"b\":1,\"a\":\"x\"}"},
         {"hi", "<think>hm</think>hi", "<think>hm"}},
        {FORMAT(SCHEMA),
         {valid, "<think>{</think>{\"b\":1,\"a\":\"x\"}"},
         {"hi", "", CALL("f", "{}")}},
        {"\"guided_choice\":[\"yes\"]",
         {"yes", "<think></think>yes"},
         {"\nyes", "<think>yes", "<think></think>"}},
    };
    char body[4096];
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        fake_again();
        fake_dialect("hermes", "think");
        snprintf(body, sizeof body, "{" HI ",%s}", forms[i].more);
        fake_request(PATH, body);
        assert_int_equal(fake.submits, 1);
        for (int k = 0; k < 3 && forms[i].has[k]; k++)
            if (!fake_grammar_has(forms[i].has[k]))
                fail_msg("%s: does not have %s", forms[i].more, forms[i].has[k]);
        for (int k = 0; k < 3 && forms[i].not[k]; k++)
            if (fake_grammar_has(forms[i].not[k]))
                fail_msg("%s: has %s", forms[i].more, forms[i].not[k]);
        forget();
    }
}

// Also in a dialect without calls, and if the prompt ends inside thoughts.
TEST(test_a_form_after_thoughts)
{
    fake_dialect("none", "think");
    fake_request(PATH, "{" HI ",\"guided_choice\":[\"yes\"]}");
    assert_true(fake_grammar_has("<think>no?</think>\nyes"));
    assert_true(fake_grammar_has("yes"));
    assert_false(fake_grammar_has("no"));
    forget();
    fake_again();
    fake_dialect("hermes", "think");
    fake_chat.opens = true;
    fake_request(PATH, "{" HI ",\"guided_choice\":[\"yes\"]}");
    assert_true(fake_grammar_has("so yes</think>yes"));
    assert_false(fake_grammar_has("yes"));
    forget();
}

// One call is sufficient, but if a limit or failure ends it, that is the finish reason.
TEST(test_an_end_inside_of_the_only_call)
{
    static const char begun[] = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\":";
    for (int fails = 0; fails < 2; fails++) {
        fake_again();
        fake_dialect("hermes", "think");
        fake_request(PATH, "{" HI "," TOOLS ",\"parallel_tool_calls\":false}");
        fake_text(begun);
        fake_finish(fails ? FINISH_ERROR : FINISH_LENGTH, fails ? -1 : '1');
        fake_ready();
        assert_int_equal(fake.status, fails ? 500 : 200);
        assert_true(fails || strstr(fake.sent, "\"finish_reason\":\"length\""));
    }
}

TEST(test_a_continued_message_has_no_forced_call)
{
    fake_dialect("hermes", "think");
    fake_request(PATH, "{" HI "," TOOLS ",\"tool_choice\":\"required\",\"messages\":["
                       "{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\","
                       "\"content\":\"b\"}],\"continue_final_message\":true,"
                       "\"add_generation_prompt\":false}");
    assert_int_equal(fake.status, 400);
    sent_has("\"param\":\"tool_choice\"");
}

// With n, each choice follows the same grammar; so does each prompt of completions.
PLAIN_TEST(test_choices_share_a_grammar)
{
    request(&chat_endpoint, "\"n\":3,\"guided_regex\":\"a\"");
    assert_int_equal(fake.choice_count, 3);
    assert_true(fake_grammar_has("a"));
    fake_end();
    request(&completions_endpoint, "\"prompt\":[\"x\",\"y\"],\"guided_choice\":[\"q\"]");
    assert_int_equal(fake.sequence_count, 2);
    assert_true(fake_grammar_has("q"));
    fake_end();
}
