// SPDX-License-Identifier: Apache-2.0
// Content blocks of /v1/messages against the doubles of exchange and port: thinking, text and
// tool_use, combined, as one response and as events; tools and tool_choice as passed to the
// template.
#include "api_cases.h"

#include "http/api/answer.h"

#define TEST(name) API_TEST(name, setup)
#define PATH "/v1/messages"
#define COUNT "/v1/messages/count_tokens"
#define HI "\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]"
#define TOOL(name) "{\"name\":\"" name "\",\"input_schema\":{\"type\":\"object\"}}"
#define TOOLS "\"tools\":[" TOOL("f") "," TOOL("g") "]"
#define EAGER                                                                                      \
    "\"tools\":[{\"name\":\"f\",\"input_schema\":{},\"eager_input_streaming\":true}," TOOL("g") "]"
#define THINK "\"thinking\":{\"type\":\"adaptive\"}"
#define CALL(name, arguments)                                                                      \
    "<tool_call>{\"name\": \"" name "\", \"arguments\": " arguments "}</tool_call>"

static const char *dialect;

static void again(void)
{
    fake_thinker(dialect);
}

static int setup(void **state)
{
    fake_setup_generator(state);
    dialect = "hermes";
    again();
    return 0;
}

// A message assembled from its events; fails if they arrive in the wrong order.
struct stream {
    json_t *message, *block; // block: the open block
    char text[8192];         // text of the open block
    char signature[64];
    int deltas;
    bool over;
};

static void block_begin(struct stream *s, const json_t *event)
{
    assert_null(s->block);
    json_t *content = json_object_get(s->message, "content");
    assert_int_equal(json_integer_value(json_object_get(event, "index")), json_array_size(content));
    s->block = json_deep_copy(json_object_get(event, "content_block"));
    json_array_append_new(content, s->block);
    s->text[0] = s->signature[0] = 0;
    s->deltas = 0;
}

static void block_delta(struct stream *s, const json_t *event)
{
    static const char *const kinds[][3] = {{"text", "text_delta", "text"},
                                           {"thinking", "thinking_delta", "thinking"},
                                           {"tool_use", "input_json_delta", "partial_json"}};
    const json_t *delta = json_object_get(event, "delta");
    const char *type = fake_string(delta, "type");
    assert_non_null(s->block);
    assert_int_equal(s->signature[0], 0); // no delta follows it
    s->deltas++;
    if (strcmp(type, "signature_delta") == 0) {
        strcpy(s->signature, fake_string(delta, "signature"));
        return;
    }
    for (int i = 0; i < 3; i++)
        if (strcmp(kinds[i][0], fake_string(s->block, "type")) == 0) {
            assert_string_equal(type, kinds[i][1]);
            assert_int_not_equal(fake_string(delta, kinds[i][2])[0], 0);
            strcat(s->text, fake_string(delta, kinds[i][2]));
        }
}

static void block_end(struct stream *s)
{
    assert_non_null(s->block);
    const char *type = fake_string(s->block, "type");
    if (strcmp(type, "tool_use") == 0) {
        json_t *input = json_loads(s->text, 0, NULL);
        json_object_set_new(s->block, "input", input ? input : json_string(s->text));
    } else {
        json_object_set_new(s->block, type, json_string(s->text));
    }
    if (strcmp(type, "thinking") == 0)
        json_object_set_new(s->block, "signature", json_string(s->signature));
    s->block = NULL;
}

static void event_take(struct stream *s, const json_t *event)
{
    const char *type = fake_string(event, "type");
    assert_false(s->over);
    if (strcmp(type, "message_start") == 0) {
        assert_null(s->message);
        s->message = json_deep_copy(json_object_get(event, "message"));
    } else if (strcmp(type, "content_block_start") == 0) {
        block_begin(s, event);
    } else if (strcmp(type, "content_block_delta") == 0) {
        block_delta(s, event);
    } else if (strcmp(type, "content_block_stop") == 0) {
        block_end(s);
    } else if (strcmp(type, "message_delta") == 0) {
        assert_null(s->block);
        json_object_update(s->message, (json_t *)json_object_get(event, "delta"));
        json_object_update((json_t *)json_object_get(s->message, "usage"),
                           (json_t *)json_object_get(event, "usage"));
    } else if (strcmp(type, "message_stop") == 0) {
        s->over = true;
    } else {
        assert_string_equal(type, "ping");
    }
}

static json_t *streamed(void)
{
    struct stream s = {0};
    char *copy = strdup(fake.sent), *rest = copy;
    for (char *line; (line = strsep(&rest, "\n"));) {
        if (strncmp(line, "data: ", 6) != 0)
            continue;
        json_t *event = json_loads(line + 6, JSON_ALLOW_NUL, NULL);
        assert_non_null(event);
        event_take(&s, event);
        json_decref(event);
    }
    free(copy);
    assert_true(s.over && fake.ended);
    return s.message;
}

static void ids_drop(json_t *message)
{
    size_t i;
    json_t *block;
    json_object_del(message, "id");
    json_array_foreach(json_object_get(message, "content"), i, block)
    {
        const char *id = json_string_value(json_object_get(block, "id"));
        if (id && dialect[0] == 'h')
            assert_int_equal(strncmp(id, "toolu_", 6), 0);
        json_object_del(block, "id");
    }
}

// Frees a string that jansson allocated.
static void json_text_free(char *text)
{
    json_malloc_t take;
    json_free_t give;
    json_get_alloc_funcs(&take, &give);
    give(text);
}

// Returns the message as text, to be freed: fake_end counts JSON values. step: tokens between two
// reads of the stream; 0: not streamed.
static char *ask(const char *fields, const char *text, enum finish finish, int step)
{
    char body[2048];
    again();
    snprintf(body, sizeof body, "{%s%s%s,\"stream\":%s}", HI, *fields ? "," : "", fields,
             step > 0 ? "true" : "false");
    fake_request(PATH, body);
    if (fake.status != 0)
        fail_msg("%s: %s", body, fake.sent);
    for (int i = 0; text[i]; i++) {
        fake_token((unsigned char)text[i]);
        if (step > 0 && i % step == 0)
            fake_ready();
    }
    fake_finish(finish == FINISH_NONE ? FINISH_CANCEL : finish,
                finish == FINISH_STOP ? FAKE_END : -1);
    fake_ready();
    assert_int_equal(fake.status, 200);
    json_t *message = step > 0 ? streamed() : fake_json();
    ids_drop(message);
    char *dumped = json_dumps(message, JSON_COMPACT | JSON_SORT_KEYS), *text_of_it = strdup(dumped);
    json_decref(message);
    json_text_free(dumped);
    return text_of_it;
}

static json_t *parsed(char *message)
{
    json_t *value = json_loads(message, 0, NULL);
    assert_non_null(value);
    free(message);
    return value;
}

// Returns content, stop reason, stop sequence and thinking tokens as one line: type(content)...
// reason sequence tokens.
static char *line_of(char *message)
{
    json_t *m = parsed(message), *block;
    struct json_buffer line = {0};
    size_t i;
    json_array_foreach(json_object_get(m, "content"), i, block)
    {
        const char *type = fake_string(block, "type");
        json_put_format(&line, "%s(", type);
        if (strcmp(type, "tool_use") == 0) {
            json_put_format(&line, "%s ", fake_string(block, "name"));
            json_put_value(&line, json_object_get(block, "input"));
            assert_string_equal(fake_string(json_object_get(block, "caller"), "type"), "direct");
        } else {
            json_put_raw(&line, text_of(fake_string(block, type)));
        }
        json_put_literal(&line, ")");
    }
    json_put_format(&line, " %s ", fake_string(m, "stop_reason"));
    json_put_value(&line, json_object_get(m, "stop_sequence"));
    json_put_literal(&line, " ");
    json_put_value(&line, json_object_get(json_object_get(m, "usage"), "output_tokens_details"));
    json_decref(m);
    char *out = strndup(line.at, line.bytes);
    json_buffer_free(&line);
    return out;
}

// Expects the same content, including signatures, from the single response and from streams read at
// several intervals.
static void expect(const char *fields, const char *text, enum finish finish, const char *content,
                   const char *reason)
{
    static const int steps[] = {1, 2, 7, 1000};
    char *whole = ask(fields, text, finish, 0), *line = line_of(strdup(whole)), want[4096];
    snprintf(want, sizeof want, "%s %s ", content, reason);
    if (strncmp(line, want, strlen(want)) != 0)
        fail_msg("%s: %s, not %s", text, line, want);
    const char *blocks = strstr(whole, "\"content\":["), *end = strstr(whole, ",\"diagnostics\"");
    assert_true(blocks && end);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        char *other = ask(fields, text, finish, steps[i]);
        const char *others = strstr(other, "\"content\":[");
        if (!others || strncmp(blocks, others, (size_t)(end - blocks)) != 0)
            fail_msg("step %d: %s\nnot %s", steps[i], other, whole);
        char *other_line = line_of(other);
        assert_string_equal(other_line, line);
        free(other_line);
    }
    free(whole);
    free(line);
}

TEST(test_blocks_in_their_order)
{
    expect(THINK "," TOOLS,
           "<think>hm</think>\n\nSee: " CALL("f", "{\"a\": \"\xC3\xA9\\n\"}") "\n" CALL("g", "{}"),
           FINISH_STOP, "thinking(hm)text(See:)tool_use(f {\"a\":\"\xC3\xA9\\n\"})tool_use(g {})",
           "tool_use");
    expect(TOOLS, CALL("f", "{\"a\": 1}"), FINISH_STOP, "tool_use(f {\"a\":1})", "tool_use");
    expect(TOOLS, "A " CALL("f", "{}") " B " CALL("f", "{}"), FINISH_STOP,
           "text(A)tool_use(f {})text( B)tool_use(f {})", "tool_use");
    expect(TOOLS, "No <tool_call> here", FINISH_STOP, "text(No <tool_call> here)", "end_turn");
    expect(TOOLS, "", FINISH_STOP, "text()", "end_turn");
    expect(TOOLS, CALL("nobody", "{}"), FINISH_STOP, "text(" CALL("nobody", "{}") ")", "end_turn");
    expect(TOOLS ",\"tool_choice\":{\"type\":\"none\"}", CALL("f", "{}"), FINISH_STOP,
           "text(" CALL("f", "{}") ")", "end_turn");
    expect(TOOLS ",\"tool_choice\":{\"type\":\"auto\",\"disable_parallel_tool_use\":true}",
           "A" CALL("f", "{}") CALL("g", "{}"), FINISH_NONE, "text(A)tool_use(f {})", "tool_use");
}

// Thinking that the request did not enable is not shown: the text is the first block.
TEST(test_thinking_is_shown_where_it_was_asked_for)
{
    expect("", "<think>hm</think>Yes", FINISH_STOP, "text(Yes)", "end_turn");
    expect("\"thinking\":{\"type\":\"disabled\"}", "<think>hm</think>Yes", FINISH_STOP, "text(Yes)",
           "end_turn");
    expect("\"thinking\":{\"type\":\"enabled\",\"budget_tokens\":1024}", "<think>hm</think>Yes",
           FINISH_STOP, "thinking(hm)text(Yes)", "end_turn");
    expect("\"chat_template_kwargs\":{\"enable_thinking\":true}", "<think>hm</think>Yes",
           FINISH_STOP, "thinking(hm)text(Yes)", "end_turn");
    expect("\"thinking\":{\"type\":\"adaptive\",\"display\":\"omitted\"}", "<think>hm</think>Yes",
           FINISH_STOP, "thinking()text(Yes)", "end_turn");
    expect(THINK, "<think>hm", FINISH_LENGTH, "thinking(hm)", "max_tokens");
}

TEST(test_thinking_tokens_and_signatures)
{
    char signatures[3][64];
    static const char *const fields[] = {
        THINK, THINK, "\"thinking\":{\"type\":\"adaptive\",\"display\":\"omitted\"}"};
    for (int i = 0; i < 3; i++) {
        json_t *m = parsed(ask(fields[i], i == 1 ? "<think>ho</think>Yes" : "<think>hm</think>Yes",
                               FINISH_STOP, 0));
        const json_t *usage = json_object_get(m, "usage"),
                     *details = json_object_get(usage, "output_tokens_details");
        strcpy(signatures[i],
               fake_string(json_array_get(json_object_get(m, "content"), 0), "signature"));
        assert_int_equal(strlen(signatures[i]), 24);
        assert_int_equal(json_integer_value(json_object_get(details, "thinking_tokens")), 11);
        assert_int_equal(json_integer_value(json_object_get(usage, "output_tokens")), 21);
        assert_int_equal(json_integer_value(json_object_get(usage, "cache_read_input_tokens")), 3);
        json_decref(m);
    }
    assert_string_not_equal(signatures[0], signatures[1]);
    assert_string_equal(signatures[0], signatures[2]);
    json_t *none = parsed(ask("", "<think>hm</think>Yes", FINISH_STOP, 0));
    assert_true(
        json_is_null(json_object_get(json_object_get(none, "usage"), "output_tokens_details")));
    json_decref(none);
}

// A signature depends on the text, not on how it was split, even for long text.
TEST(test_signatures_of_long_thoughts)
{
    char text[1200] = "<think>", want[1200];
    memset(text + 7, 'x', 1000);
    strcat(text, "</think>y");
    snprintf(want, sizeof want, "thinking(%.1000s)text(y)", text + 7);
    expect(THINK, text, FINISH_STOP, want, "end_turn");
    char signatures[2][64];
    for (int i = 0; i < 2; i++) { // the two differ in their first letter
        text[7] = (char)('a' + i);
        json_t *m = parsed(ask(THINK, text, FINISH_STOP, 0));
        strcpy(signatures[i],
               fake_string(json_array_get(json_object_get(m, "content"), 0), "signature"));
        json_decref(m);
    }
    assert_string_not_equal(signatures[0], signatures[1]);
}

// Stop reasons follow the table in the documentation; calls have priority.
TEST(test_reasons_beside_calls)
{
    expect(TOOLS ",\"stop_sequences\":[\"END\"]", CALL("f", "{}") " b END", FINISH_NONE,
           "tool_use(f {})text(b )", "tool_use");
    expect(TOOLS ",\"stop_sequences\":[\"END\"]", CALL("f", "{\"a\":\"END\"}"), FINISH_STOP,
           "tool_use(f {\"a\":\"END\"})", "tool_use");
    expect(TOOLS ",\"stop_sequences\":[\"END\"]", "b END", FINISH_NONE, "text(b )",
           "stop_sequence");
    expect(TOOLS ",\"stop_sequences\":[\"x<\"]", "ax" CALL("f", "{}"), FINISH_STOP,
           "text(ax)tool_use(f {})", "tool_use"); // none: nothing continues after a call
    expect(TOOLS ",\"max_tokens\":99", CALL("f", "{}") " b", FINISH_LENGTH, "tool_use(f {})text(b)",
           "max_tokens");
}

TEST(test_a_call_that_the_limit_cuts)
{
    static const char begun[] = "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": [1, {\"b\": 2";
    expect(TOOLS ",\"max_tokens\":99", begun, FINISH_LENGTH, "tool_use(f {\"a\":[1,{}]})",
           "max_tokens");
    expect(TOOLS, begun, FINISH_CONTEXT, "tool_use(f {\"a\":[1,{}]})", "max_tokens");
    char *line = line_of(ask(EAGER ",\"max_tokens\":99", begun, FINISH_LENGTH, 1)); // unchanged
    assert_string_equal(line, "tool_use(f \"{\\\"a\\\": [1, {\\\"b\\\": 2\") max_tokens null null");
    free(line);
}

// Arguments may be a JSON string; its content need not be an object.
TEST(test_input_is_an_object)
{
    static const char *const values[] = {"[1, 2", "true", "5", "\\\"a", " [", "\\n1"};
    static const char *const texts[] = {"[1, 2", "true", "5", "\"a", "[", "1"};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        char text[128], want[64];
        snprintf(text, sizeof text, "<tool_call>{\"name\": \"f\", \"arguments\": \"%s", values[i]);
        snprintf(want, sizeof want, "text(f %s)", texts[i]);
        expect(TOOLS ",\"max_tokens\":99", text, FINISH_LENGTH, want, "max_tokens");
        char *line = line_of(ask(EAGER ",\"max_tokens\":99", text, FINISH_LENGTH, 1));
        snprintf(want, sizeof want, "tool_use(f \"\")text(%s)", texts[i]);
        assert_memory_equal(line, want, strlen(want));
        free(line);
        strcat(text, "\"}</tool_call>");
        line = line_of(ask(TOOLS, text, FINISH_STOP, 0));
        assert_memory_equal(line, "text(f ", 7);
        free(line);
    }
    expect(TOOLS, "<tool_call>{\"name\": \"f\", \"arguments\": \"{\\\"a\\\": 1}\"}</tool_call>",
           FINISH_STOP, "tool_use(f {\"a\":1})", "tool_use");
}

// Arguments that are not JSON become text, not tool input: invalid input would make clients abort
// the stream.
TEST(test_a_call_that_breaks_is_text)
{
    static const char broken[] = CALL("f", "{\"a\": 1, \"b\": oops}") " then";
    expect(TOOLS, broken, FINISH_STOP, "text(f {\"a\": 1, \"b\": oops}})text(then)", "end_turn");
    expect(TOOLS, "So " CALL("f", "{\"a\":}") CALL("g", "{}"), FINISH_STOP,
           "text(So)text(f {\"a\":}})tool_use(g {})", "tool_use");
    expect(TOOLS ",\"max_tokens\":99", CALL("f", "{\"a\":}") "b", FINISH_LENGTH,
           "text(f {\"a\":}})text(b)", "max_tokens");
    expect(TOOLS, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1", FINISH_STOP,
           "text(f {\"a\": 1)", "end_turn"); // the model itself ended it
}

// With eager input streaming the input is sent as it is generated; the invalid rest becomes text.
TEST(test_input_as_it_comes)
{
    static const char broken[] = CALL("f", "{\"a\": 1, \"b\": oops}") " then";
    for (int step = 1; step < 100; step *= 3) {
        char *line = line_of(ask(EAGER, broken, FINISH_STOP, step));
        assert_string_equal(line, "tool_use(f \"{\\\"a\\\": 1, \\\"b\\\": \")"
                                  "text(oops}})text(then) end_turn null null");
        free(line);
    }
    static const struct {
        const char *fields;
        const char *function;
        bool whole;
    } cases[] = {
        {TOOLS, "f", true},
        {EAGER, "f", false},
        {EAGER, "g", true},
        {TOOLS ",\"tool_choice\":{\"type\":\"any\"}", "f", false}, // a grammar ensures valid input
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[128];
        snprintf(text, sizeof text,
                 "<tool_call>\n{\"name\": \"%s\", \"arguments\": {\"a\": \"bcdef\"}}\n</tool_call>",
                 cases[i].function);
        char *line = line_of(ask(cases[i].fields, text, FINISH_STOP, 1));
        assert_non_null(strstr(line, "{\"a\":\"bcdef\"}) tool_use"));
        int deltas = 0;
        for (const char *at = fake.sent; (at = strstr(at, "input_json_delta")); at++)
            deltas++;
        if ((deltas == 1) != cases[i].whole)
            fail_msg("%s: %d", cases[i].fields, deltas);
        free(line);
    }
}

TEST(test_what_there_is_of_an_object)
{
    static const char *const rows[][2] = {
        {"", "{}"},
        {"{", "{}"},
        {"{\"a", "{}"},
        {"{\"a\"", "{}"},
        {"{\"a\":", "{}"},
        {"{\"a\": 12", "{}"},
        {"{\"a\": 12,", "{\"a\": 12}"},
        {"{\"a\": \"x\\\"", "{}"},
        {"{\"a\": \"x\\\"y\"", "{\"a\": \"x\\\"y\"}"},
        {"{\"a\": \"x\", \"b\": \"y", "{\"a\": \"x\"}"},
        {"{\"a\": \"x,y", "{}"},
        {"{\"a\": tru", "{}"},
        {"{\"a\": true", "{\"a\": true}"},
        {"{\"a\": [", "{\"a\": []}"},
        {"{\"a\": [1, 2", "{\"a\": [1]}"},
        {"{\"a\": [\"x\", \"y", "{\"a\": [\"x\"]}"},
        {"{\"a\": [{\"b\": {\"c\": null", "{\"a\": [{\"b\": {\"c\": null}}]}"},
        {"{\"a\": [[], {", "{\"a\": [[], {}]}"},
        {"{\"a]\": \"}\", \"b\": {}", "{\"a]\": \"}\", \"b\": {}}"},
        {"{\"a\": {\"b\": 1}, \"c\": -", "{\"a\": {\"b\": 1}}"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct json_buffer out = {0};
        assert_true(json_begun(text_of(rows[i][0])));
        json_begun_put(&out, text_of(rows[i][0]));
        if (!text_is(text_span(out.at, out.bytes), rows[i][1]))
            fail_msg("%s: %.*s", rows[i][0], (int)out.bytes, out.at);
        json_t *value = json_loadb(out.at, out.bytes, 0, NULL);
        assert_true(json_is_object(value));
        json_decref(value);
        json_buffer_free(&out);
    }
    assert_false(json_begun(text_of("{\"a\": oops")));
    assert_false(json_begun(text_of("{\"a\": 1}}")));
    static const char *const others[] = {"[", "[1", "\"", "t", "true", "1", "-", " n", "\n["};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_false(json_begun(text_of(others[i])));
    assert_true(json_begun(text_of(" \n\t")) && json_begun(text_of(" {")));
}

// Each prefix of a complete text gives an object.
TEST(test_every_beginning_is_an_object)
{
    static const char text[] = "{\"a\\\\\": [1.5e3, \"\\u00e9\\\"]\", {\"b\": {}}, [[null]]], "
                               "\"c\": {\"d\": false, \"e\": \"\"}, \"f\": -0}";
    for (size_t bytes = 0; bytes < sizeof text; bytes++) {
        struct json_buffer out = {0};
        assert_true(json_begun(text_span(text, bytes)));
        json_begun_put(&out, text_span(text, bytes));
        json_t *value = json_loadb(out.at, out.bytes, 0, NULL);
        if (!json_is_object(value))
            fail_msg("%.*s", (int)out.bytes, out.at);
        json_decref(value);
        json_buffer_free(&out);
    }
}

static void prompt_is(const char *want)
{
    if (fake.status)
        fail_msg("%s", fake.sent);
    char *prompt = fake_prompt();
    assert_string_equal(prompt, want);
    free(prompt);
    fake_gone();
}

TEST(test_tools_as_the_template_gets_them)
{
    fake_request(PATH, "{" HI "," TOOLS ",\"system\":\"s\"}");
    prompt_is("[system]s[user]hi[tools f g][no-think][assistant]");
    again();
    fake_request(PATH, "{" HI "," TOOLS ",\"tool_choice\":{\"type\":\"none\"}}");
    prompt_is("[user]hi[no-think][assistant]");
    again();
    fake_request(PATH, "{" HI ",\"tools\":[{\"name\":\"f\",\"type\":\"custom\",\"description\":"
                       "\"d\",\"input_schema\":{\"properties\":{}},\"strict\":false,"
                       "\"cache_control\":{\"type\":\"ephemeral\"}}]}");
    prompt_is("[user]hi[tools f][no-think][assistant]");
    again();
    fake_chat.shows = "tools"; // a schema without a type keeps its keys and gets those of an object
    fake_request(PATH, "{" HI ",\"tools\":[{\"name\":\"f\",\"input_schema\":"
                       "{\"required\\u0000\":[]}}]}");
    prompt_is("[user]hi[tools f]{[{\"type\":\"function\",\"function\":{\"name\":\"f\","
              "\"parameters\":{\"required\\u0000\":[],\"type\":\"object\"}}}]}[assistant]");
    fake_chat.shows = NULL;
}

TEST(test_tokens_of_tools_are_counted)
{
    const char *const fields[] = {"", "," TOOLS, ",\"system\":\"s\"," TOOLS "," THINK};
    for (size_t i = 0; i < 3; i++) {
        char body[1024], want[64];
        again();
        snprintf(body, sizeof body, "{" HI "%s}", fields[i]);
        fake_request(PATH, body);
        snprintf(want, sizeof want, "{\"input_tokens\":%u}", fake.token_count);
        fake_gone();
        again();
        fake_request(COUNT, body);
        assert_string_equal(fake.sent, want);
        assert_int_equal(fake.submits, 0);
    }
}

TEST(test_what_tools_may_not_be)
{
    static const struct {
        const char *fields, *says;
    } cases[] = {
        {"\"tools\":5", "tools: "},
        {"\"tools\":[5]", "tools.0: must be an object"},
        {"\"tools\":[{\"input_schema\":{}}]", "tools.0.name: is required"},
        {"\"tools\":[{\"name\":7,\"input_schema\":{}}]", "tools.0.name: must be a string"},
        {"\"tools\":[" TOOL("a b") "]", "tools.0.name: must be 1 to 128 letters"},
        {"\"tools\":[" TOOL("f") "," TOOL("f") "]", "tools.1.name: must be unique"},
        {"\"tools\":[{\"name\":\"f\"}]", "tools.0.input_schema: is required"},
        {"\"tools\":[{\"name\":\"f\",\"input_schema\":[]}]", "tools.0.input_schema: "},
        {"\"tools\":[{\"name\":\"f\",\"input_schema\":{\"type\":\"array\"}}]",
         "tools.0.input_schema.type: must be 'object'"},
        {"\"tools\":[{\"name\":\"f\",\"input_schema\":{},\"strict\":7}]", "tools.0.strict: "},
        {"\"tools\":[{\"type\":\"bash_20250124\",\"name\":\"bash\"}]",
         "tools.0.type: must be 'custom': tools of the type 'bash_20250124' are not supported"},
        {"\"tools\":[{\"type\":7,\"name\":\"bash\"}]", "tools.0.type: must be a string"},
        {TOOLS ",\"tool_choice\":{\"type\":\"tool\"}", "tool_choice.name: is required"},
        {TOOLS ",\"tool_choice\":{\"type\":\"tool\",\"name\":\"h\"}", "tool_choice.name: must be"},
        {TOOLS ",\"tool_choice\":{\"type\":\"maybe\"}", "tool_choice.type: must be 'auto', 'any'"},
        {TOOLS ",\"tool_choice\":{}", "tool_choice.type: is required"},
        {"\"tool_choice\":{\"type\":\"any\"}", "tool_choice: needs tools\""},
        {"\"tools\":[{\"type\":\"web_search_20250305\",\"name\":\"w\"}],"
         "\"tool_choice\":{\"type\":\"any\"}",
         "tool_choice: needs tools other than those that only their provider runs\""},
        {TOOLS ",\"tool_choice\":{\"type\":\"auto\",\"disable_parallel_tool_use\":1}",
         "tool_choice.disable_parallel_tool_use: "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char body[1024];
        snprintf(body, sizeof body, "{" HI ",%s}", cases[i].fields);
        for (int count = 0; count < 2; count++) {
            again();
            fake_request(count ? COUNT : PATH, body);
            if (fake.status != 400 || !strstr(fake.sent, cases[i].says))
                fail_msg("%s: %d %s", cases[i].fields, fake.status, fake.sent);
        }
    }
    dialect = "none";
    again();
    fake_request(PATH, "{" HI "," TOOLS "}");
    sent_has("does not support tools");
}

TEST(test_a_name_may_have_128_letters)
{
    char name[130] = {0}, body[512];
    for (int n = 128; n <= 129; n++) {
        memset(name, 'n', (size_t)n);
        again();
        snprintf(body, sizeof body, "{" HI ",\"tools\":[{\"name\":\"%s\",\"input_schema\":{}}]}",
                 name);
        fake_request(PATH, body);
        assert_int_equal(fake.status, n == 128 ? 0 : 400);
        fake_gone();
    }
}

// The prefill is parsed first; the response contains only the new part.
TEST(test_a_prefill_that_has_begun_a_call)
{
    for (int stream = 0; stream < 2; stream++) {
        char body[1024];
        again();
        snprintf(body, sizeof body,
                 "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"},{\"role\":"
                 "\"assistant\",\"content\":\"So: <tool_call>{\\\"name\\\": \\\"f\\\", "
                 "\\\"arguments\\\": {\"}]," TOOLS ",\"stream\":%s}",
                 stream ? "true" : "false");
        fake_request(PATH, body);
        fake_text("\"a\": 1}}</tool_call>");
        fake_finish(FINISH_STOP, FAKE_END);
        fake_ready();
        json_t *message = stream ? streamed() : fake_json();
        const json_t *content = json_object_get(message, "content"),
                     *block = json_array_get(content, 0);
        assert_int_equal(json_array_size(content), 1);
        assert_int_equal(json_integer_value(json_object_get(json_object_get(block, "input"), "a")),
                         1);
        assert_string_equal(fake_string(message, "stop_reason"), "tool_use");
        json_decref(message);
    }
}

TEST(test_nothing_is_left_when_the_client_goes)
{
    fake_request(PATH, "{" HI "," TOOLS "," THINK ",\"stream\":true}");
    fake_text("<think>a</think><tool_call>{\"name\":\"f\",\"arguments\":{\"a\"");
    fake_ready();
    fake_gone();
}
