// SPDX-License-Identifier: Apache-2.0
// /tokenize and /detokenize against the doubles of exchange and tokenizer: both forms, the field
// names of two other servers, refusals.
#include "api_cases.h"

#include <malloc.h>

#define TEST(name) API_TEST(name, fake_setup_generator)
#define EMBEDDER_TEST(name) API_TEST(name, fake_setup_embedder)

static void expect(const char *path, const char *body, const char *want)
{
    fake_again();
    fake_request(path, body);
    if (fake.status != 200 || fake.answers != 1 || strcmp(fake.sent, want) != 0)
        fail_msg("%s %s: %d %s", path, body, fake.status, fake.sent);
}

static void expect_failure(const char *path, const char *body, int status, const char *code,
                           const char *param)
{
    fake_again();
    fake_request(path, body);
    json_t *answer = fake_json();
    const json_t *error = json_object_get(answer, "error");
    const char *says_code = json_string_value(json_object_get(error, "code"));
    const char *says_param = json_string_value(json_object_get(error, "param"));
    if (fake.status != status || !says_code || strcmp(says_code, code) != 0 ||
        strcmp(says_param ? says_param : "", param) != 0)
        fail_msg("%s %s: %d %s", path, body, fake.status, fake.sent);
    json_decref(answer);
}

TEST(test_a_prompt_has_special_tokens_and_a_content_has_none)
{
    expect("/tokenize", "{\"model\":\"m\",\"prompt\":\"hi\"}",
           "{\"count\":4,\"max_model_len\":200,\"tokens\":[257,104,105,258],\"token_strs\":null}");
    expect("/tokenize", "{\"model\":\"m\",\"prompt\":\"hi\",\"add_special_tokens\":false}",
           "{\"count\":2,\"max_model_len\":200,\"tokens\":[104,105],\"token_strs\":null}");
    expect("/tokenize", "{\"model\":\"m\",\"content\":\"hi\"}",
           "{\"count\":2,\"max_model_len\":200,\"tokens\":[104,105],\"token_strs\":null}");
    expect("/tokenize", "{\"model\":\"m\",\"content\":\"h\",\"add_special\":true}",
           "{\"count\":3,\"max_model_len\":200,\"tokens\":[257,104,258],\"token_strs\":null}");
    expect("/tokenize", "{\"model\":\"m\",\"content\":\"h\",\"add_special_tokens\":true}",
           "{\"count\":3,\"max_model_len\":200,\"tokens\":[257,104,258],\"token_strs\":null}");
    expect("/tokenize", "{\"model\":\"m\",\"prompt\":\"h\",\"add_special\":false}",
           "{\"count\":1,\"max_model_len\":200,\"tokens\":[104],\"token_strs\":null}");
    expect("/tokenize", "{\"model\":\"m\",\"prompt\":\"\",\"add_special_tokens\":false}",
           "{\"count\":0,\"max_model_len\":200,\"tokens\":[],\"token_strs\":null}");
}

TEST(test_texts_of_tokens_come_where_they_are_asked_for)
{
    expect(
        "/tokenize",
        "{\"prompt\":\"a\\\"\",\"return_token_strs\":true,\"add_special_tokens\":false}",
        "{\"count\":2,\"max_model_len\":200,\"tokens\":[97,34],\"token_strs\":[\"a\",\"\\\"\"]}");
}

// The prompt equals that of a chat request with the same conversation. Here it is recognized by its
// length and its last token.
TEST(test_a_conversation_is_rendered_by_the_template)
{
    static const struct {
        const char *more;
        uint32_t count;
        int last;
    } cases[] = {
        {"", strlen("[user]hi[assistant]"), 1000 + ']'},
        {",\"add_generation_prompt\":false", strlen("[user]hi"), 'i'},
        {",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]",
         strlen("[user]hi[tools f][assistant]"), 1000 + ']'},
        {",\"chat_template_kwargs\":{\"enable_thinking\":true}",
         strlen("[user]hi[think][assistant]"), 1000 + ']'},
        {",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}],"
         "\"tool_choice\":\"none\",\"parallel_tool_calls\":false",
         strlen("[user]hi[assistant]"), 1000 + ']'},
        {",\"reasoning_effort\":\"none\"", strlen("[user]hi[no-think][assistant]"), 1000 + ']'},
        {",\"thinking\":{\"type\":\"disabled\"},\"reasoning\":{\"effort\":\"minimal\"},"
         "\"thinking_token_budget\":-1",
         strlen("[user]hi[no-think][effort minimal][assistant]"), 1000 + ']'},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char body[512];
        snprintf(body, sizeof body, "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]%s}",
                 cases[i].more);
        fake_again();
        fake_request("/tokenize", body);
        json_t *answer = fake_json();
        const json_t *tokens = json_object_get(answer, "tokens");
        assert_int_equal(fake.status, 200);
        assert_int_equal(fake.ignored_fields, 0); // effective fields are not reported as ignored
        assert_int_equal(json_integer_value(json_object_get(answer, "count")), cases[i].count);
        assert_int_equal(json_array_size(tokens), cases[i].count);
        assert_int_equal(json_integer_value(json_array_get(tokens, cases[i].count - 1)),
                         cases[i].last);
        json_decref(answer);
    }
}

TEST(test_the_last_message_may_go_on)
{
    fake_again();
    fake_request("/tokenize",
                 "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"},{\"role\":"
                 "\"assistant\",\"content\":\"yo\"}],\"continue_final_message\":true}");
    sent_has(",121,111],"); // "yo"
}

// A prompt larger than any window is counted, too.
TEST(test_the_window_is_no_limit)
{
    char body[600] = "{\"add_special_tokens\":false,\"prompt\":\"";
    size_t head = strlen(body);
    memset(body + head, 'a', 300);
    strcpy(body + head + 300, "\"}");
    fake_again();
    fake_request("/tokenize", body);
    assert_int_equal(fake.status, 200);
    assert_memory_equal(fake.sent, "{\"count\":300,\"max_model_len\":200,", 33);
}

TEST(test_a_large_answer_is_sent_in_pieces)
{
    enum { LETTERS = 40000 };
    static char body[LETTERS + 100];
    strcpy(body, "{\"add_special_tokens\":false,\"prompt\":\"");
    size_t head = strlen(body);
    memset(body + head, 'a', LETTERS);
    strcpy(body + head + LETTERS, "\"}");
    fake_again();
    fake_request("/tokenize", body);
    for (int i = 0; i < 1000 && !fake.ended; i++) {
        fake.send_space = 4096;
        fake_send_space();
    }
    assert_true(fake.ended);
    assert_int_equal(fake.length, fake.sent_bytes);
    json_t *answer = fake_json();
    assert_int_equal(json_array_size(json_object_get(answer, "tokens")), LETTERS);
    json_decref(answer);

    fake_again();
    fake.send_space = 4096;
    fake_request("/tokenize", body);
    fake_gone(); // frees the rest of the response
}

// Ids to text and back: the response has the announced length at any read size. It is generated
// while it is sent, so it is never in memory completely.
TEST(test_a_large_text_is_made_as_it_is_sent)
{
    enum { IDS = 100000, LETTERS = 15 };
    static char body[4 * IDS + 100];
    char *at = body + sprintf(body, "{\"tokens\":[34");
    for (int i = 1; i < IDS; i++)
        at = stpcpy(at, i % 7 == 0 ? ",10" : ",315");
    strcpy(at, "]}");
    for (size_t room = 2048; room <= 65536; room *= 32) {
        fake_again();
        struct mallinfo2 before = mallinfo2();
        fake.send_space = room;
        fake_request("/detokenize", body);
        struct mallinfo2 after = mallinfo2();
        size_t held = after.uordblks + after.hblkhd - before.uordblks - before.hblkhd;
        assert_true(fake.length > 2 * LETTERS * (IDS - IDS / 7 - 2));
        assert_true(held < fake.length / 2); // the ids, and the sent text
        while (!fake.ended) {
            size_t sent = fake.sent_bytes;
            fake_send_space();
            assert_in_range(fake.sent_bytes - sent, 1, 16 * 1024 + 4096); // in one iteration
        }
        assert_int_equal(fake.length, fake.sent_bytes);
        json_t *answer = fake_json();
        const char *text = json_string_value(json_object_get(answer, "prompt"));
        assert_string_equal(text, json_string_value(json_object_get(answer, "content")));
        for (int i = 0; i < IDS; i++) {
            const char *token = i == 0 ? "\"" : i % 7 == 0 ? "\n" : "xxxxxxxxxxxxxxx";
            assert_memory_equal(text, token, strlen(token));
            text += strlen(token);
        }
        assert_string_equal(text, "");
        json_decref(answer);
    }
}

// The incomplete character at the end is part of both texts.
TEST(test_a_text_ends_within_a_character)
{
    expect("/detokenize", "{\"tokens\":[104,195]}",
           "{\"prompt\":\"h\xEF\xBF\xBD\",\"content\":\"h\xEF\xBF\xBD\"}");
}

TEST(test_tokens_become_a_text_again)
{
    expect("/detokenize", "{\"model\":\"m\",\"tokens\":[104,105.0,34]}",
           "{\"prompt\":\"hi\\\"\",\"content\":\"hi\\\"\"}");
    expect("/detokenize", "{\"tokens\":[317,104]}",
           "{\"prompt\":\"h\",\"content\":\"h\"}"); // FAKE_SPACE
    expect("/detokenize", "{\"tokens\":[]}", "{\"prompt\":\"\",\"content\":\"\"}");
}

TEST(test_what_is_wrong_is_named)
{
    static const struct {
        const char *path, *body;
        int status;
        const char *code, *param;
    } cases[] = {
        {"/tokenize", "{}", 400, "missing_required_parameter", "prompt"},
        {"/tokenize", "{\"model\":\"x\",\"prompt\":\"a\"}", 404, "model_not_found", "model"},
        {"/tokenize", "{\"prompt\":[\"a\"]}", 400, "invalid_type", "prompt"},
        {"/tokenize", "{\"content\":1}", 400, "invalid_type", "content"},
        {"/tokenize", "{\"prompt\":\"a\",\"content\":\"a\"}", 400, "invalid_value", "content"},
        {"/tokenize", "{\"prompt\":\"a\",\"add_special_tokens\":1}", 400, "invalid_type",
         "add_special_tokens"},
        {"/tokenize", "{\"prompt\":\"a\",\"add_special\":\"x\"}", 400, "invalid_type",
         "add_special"},
        {"/tokenize", "{\"content\":\"a\",\"add_special_tokens\":\"x\"}", 400, "invalid_type",
         "add_special_tokens"},
        {"/tokenize", "{\"prompt\":\"a\",\"add_special\":true,\"add_special_tokens\":false}", 400,
         "invalid_value", "add_special"},
        {"/tokenize", "{\"prompt\":\"a\",\"tools\":5}", 400, "invalid_type", "tools"},
        {"/tokenize", "{\"prompt\":\"a\",\"chat_template_kwargs\":{\"a\":1}}", 400,
         "unsupported_parameter", "chat_template_kwargs"},
        {"/tokenize", "{\"prompt\":\"a\",\"with_pieces\":true}", 400, "unsupported_parameter",
         "with_pieces"},
        {"/tokenize", "{\"messages\":[]}", 400, "invalid_value", "messages"},
        {"/tokenize", "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"prompt\":\"a\"}",
         400, "unsupported_parameter", "prompt"},
        {"/tokenize",
         "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"add_special_tokens\":true}", 400,
         "unsupported_parameter", "add_special_tokens"},
        {"/tokenize", "[]", 400, "invalid_type", ""},
        {"/detokenize", "{}", 400, "missing_required_parameter", "tokens"},
        {"/detokenize", "{\"tokens\":\"a\"}", 400, "invalid_type", "tokens"},
        {"/detokenize", "{\"tokens\":[1,\"a\"]}", 400, "invalid_type", "tokens[1]"},
        {"/detokenize", "{\"tokens\":[1,2000]}", 400, "invalid_value", "tokens[1]"},
        {"/detokenize", "{\"tokens\":[-1]}", 400, "invalid_value", "tokens[0]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_failure(cases[i].path, cases[i].body, cases[i].status, cases[i].code,
                       cases[i].param);
}

// 300 + 15 is a token of fifteen letters.
TEST(test_a_text_that_is_too_long_is_not_made)
{
    enum { TOKENS = (16 << 20) / 15 + 1 };
    char *body = malloc(TOKENS * 4 + 64), *at = body + sprintf(body, "{\"tokens\":[315");
    for (int i = 1; i < TOKENS; i++)
        at = stpcpy(at, ",315");
    strcpy(at, "]}");
    expect_failure("/detokenize", body, 413, "request_too_large", "tokens");
    free(body);
}

EMBEDDER_TEST(test_embedders_have_tokens_and_no_conversation)
{
    expect("/tokenize", "{\"prompt\":\"a\"}",
           "{\"count\":3,\"max_model_len\":200,\"tokens\":[257,97,258],\"token_strs\":null}");
    expect_failure("/tokenize", "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}", 400,
                   "unsupported_model", "model");
}
