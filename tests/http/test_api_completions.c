// SPDX-License-Identifier: Apache-2.0
// /v1/completions against the doubles of exchange and port: all forms of prompts, echo, log
// probabilities in the older format, streams byte for byte.
#include "api_cases.h"

#define TEST(name) API_TEST(name, fake_setup_generator)
#define PATH "/v1/completions"
#define HI "\"model\":\"m\",\"prompt\":\"hi\""

#define HEAD                                                                                       \
    "data: {\"id\":\"ID\",\"object\":\"text_completion\",\"created\":0,\"model\":\"m\","           \
    "\"system_fingerprint\":\"fp_test\",\"choices\":["
#define CHUNK(index, text, finish)                                                                 \
    HEAD "{\"index\":" index ",\"text\":\"" text "\",\"logprobs\":null,\"finish_reason\":" finish  \
         "}]}\n\n"

static void expect_prompt(const char *want)
{
    char *prompt = fake_prompt();
    assert_string_equal(prompt, want);
    free(prompt);
}

TEST(test_whole)
{
    fake_request(PATH, "{" HI "}");
    expect_prompt("^hi$"); // with the fake tokenizer's special tokens
    fake_text("Hello.");
    fake_finish(FINISH_STOP, FAKE_END);
    fake_ready();
    assert_int_equal(fake.status, 200);
    assert_string_equal(
        fake_events(),
        "{\"id\":\"ID\",\"object\":\"text_completion\",\"created\":0,\"model\":\"m\","
        "\"system_fingerprint\":\"fp_test\",\"choices\":[{\"index\":0,\"text\":\"Hello.\","
        "\"logprobs\":null,\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":4,"
        "\"completion_tokens\":7,\"total_tokens\":11,\"prompt_tokens_details\":{\"cached_tokens\":"
        "3},"
        "\"completion_tokens_details\":{\"reasoning_tokens\":0}}}");
}

TEST(test_stream)
{
    fake_request(PATH, "{" HI ",\"stream\":true}");
    fake_text("He\"l");
    fake_ready();
    fake_finish(FINISH_LENGTH, 'o');
    fake_ready();
    assert_string_equal(fake_events(), CHUNK("0", "He\\\"l", "null") CHUNK("0", "o", "null")
                                           CHUNK("0", "", "\"length\"") "data: [DONE]\n\n");
    assert_true(fake.ended);
}

TEST(test_stream_usage)
{
    fake_request(PATH, "{" HI ",\"stream\":true,\"stream_options\":{\"include_usage\":true}}");
    fake_finish(FINISH_STOP, FAKE_END);
    fake_ready();
    sent_has("\"choices\":[],\"usage\":{\"prompt_tokens\":4,"
             "\"completion_tokens\":1,");
    fake_again(); // running totals are sent only in streams that include usage
    fake_request(PATH,
                 "{" HI ",\"stream\":true,\"stream_options\":{\"continuous_usage_stats\":true}}");
    fake_text("a");
    fake_finish(FINISH_STOP, FAKE_END);
    fake_ready();
    sent_lacks("usage");
}

// A queued stream sends keep-alive comments, not an empty choice that clients would show as text.
TEST(test_queue)
{
    fake_request(PATH, "{" HI ",\"stream\":true}");
    fake_second(4);
    assert_int_equal(fake.answers, 0);
    fake_second(5);
    assert_string_equal(fake.sent, ": keep-alive\n\n");
    fake_text("a");
    fake_ready();
    assert_non_null(strstr(fake_events(), CHUNK("0", "a", "null")));
}

TEST(test_prompts)
{
    fake_request(PATH, "{\"model\":\"m\",\"prompt\":[\"ab\",\"c\"],\"n\":2,"
                       "\"add_special_tokens\":false}");
    expect_prompt("abc");
    assert_int_equal(fake.sequence_count, 2);
    assert_int_equal(fake.choice_count, 2);
    assert_int_equal(fake.starts[1], 2);
    assert_int_equal(fake.starts[2], 3);
    for (uint32_t i = 0; i < 4; i++) {
        fake_choice(i);
        fake_token('0' + (int32_t)i);
        fake_finish(FINISH_STOP, FAKE_END);
    }
    fake_ready();
    sent_has("{\"index\":0,\"text\":\"0\"");
    sent_has("{\"index\":3,\"text\":\"3\"");
    sent_has("\"prompt_tokens\":3,\"completion_tokens\":8,");

    fake_again();
    fake_request(PATH, "{\"model\":\"m\",\"prompt\":[97,98.0]}");
    expect_prompt("ab"); // ids are passed unchanged
    fake_again();
    fake_request(PATH, "{\"model\":\"m\",\"prompt\":[[97],[98,99]]}");
    expect_prompt("abc");
    assert_int_equal(fake.sequence_count, 2);
}

// Markers in a prompt are plain text unless the model's option enables special tokens.
TEST(test_special_tokens_in_text)
{
    fake_request(PATH, "{" HI ",\"add_special_tokens\":false}");
    assert_int_equal(fake.tokens[0], 'h');
    fake_again();
    fake_special_in_text();
    fake_request(PATH, "{" HI ",\"add_special_tokens\":false}");
    assert_int_equal(fake.tokens[0], 1000 + 'h');
}

TEST(test_echo)
{
    fake_request(PATH, "{\"model\":\"m\",\"prompt\":[\"a\\\"\",\"b\"],\"n\":2,\"echo\":true}");
    for (uint32_t i = 0; i < 4; i++) {
        fake_choice(i);
        fake_token('0' + (int32_t)i);
        fake_finish(FINISH_STOP, FAKE_END);
    }
    fake_ready();
    sent_has("{\"index\":0,\"text\":\"a\\\"0\"");
    sent_has("{\"index\":1,\"text\":\"a\\\"1\"");
    sent_has("{\"index\":2,\"text\":\"b2\"");
    sent_has("{\"index\":3,\"text\":\"b3\"");

    fake_again();
    fake_request(PATH, "{\"model\":\"m\",\"prompt\":[97,98],\"echo\":true,\"stream\":true}");
    fake_text("c");
    fake_finish(FINISH_STOP, FAKE_END);
    fake_ready();
    assert_string_equal(fake_events(), CHUNK("0", "ab", "null") CHUNK("0", "c", "null")
                                           CHUNK("0", "", "\"stop\"") "data: [DONE]\n\n");
}

TEST(test_a_prompt_that_cannot_be_decoded_is_no_echo)
{
    fake_decodes_none();
    fake_request(PATH, "{\"model\":\"m\",\"prompt\":\"ab\",\"echo\":true}");
    assert_int_equal(fake.submits, 1);
    fake_again();
    fake_decodes_none();
    fake_request(PATH, "{\"model\":\"m\",\"prompt\":[97,98],\"echo\":true}");
    assert_int_equal(fake.error, HTTP_TOO_LARGE);
    sent_has("\"message\":\"'prompt' cannot be echoed: a pattern takes too long\"");
    fake_again();
    fake_dialect("hermes", "think");
    fake_decodes_none(); // so it is unknown whether the prompt opens reasoning
    fake_request("/v1/chat/completions",
                 "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}");
    assert_int_equal(fake.error, HTTP_TOO_LARGE);
    sent_has("the prompt is too large: a pattern takes too long");
}

// Stop strings are searched for in the generated text only (edge case 19); usage is sent once, at
// the end.
TEST(test_echo_beside_other_fields)
{
    fake_request(PATH, "{\"model\":\"m\",\"prompt\":\"aENDb\",\"echo\":true,\"stop\":\"END\"}");
    fake_text("cENDd");
    fake_ready();
    fake_finish(FINISH_CANCEL, -1);
    fake_ready();
    sent_has("\"text\":\"aENDbc\"");
    sent_has("\"finish_reason\":\"stop\"");

    fake_again();
    fake_request(PATH, "{\"model\":\"m\",\"prompt\":[97,98],\"echo\":true,\"stream\":true,\"n\":2,"
                       "\"stream_options\":{\"include_usage\":true}}");
    for (uint32_t i = 0; i < 2; i++) {
        fake_choice(i);
        fake_token('0' + (int32_t)i);
        fake_finish(FINISH_STOP, FAKE_END);
    }
    fake_ready();
    const char *first = strstr(fake.sent, "{\"index\":0,\"text\":\"ab\""),
               *second = strstr(fake.sent, "{\"index\":1,\"text\":\"ab\""),
               *usage =
                   strstr(fake.sent, "\"usage\":{\"prompt_tokens\":2,\"completion_tokens\":4,");
    assert_true(first && second && usage && first < second && second < usage);
    assert_null(strstr(usage, "\"text\""));
    assert_null(strstr(second + 24, "\"text\":\"ab\""));
}

static const struct token_top tops[] = {{'H', -0.125f}, {0xC3, -2.5f}, {'H', -9.0f}};

TEST(test_logprobs)
{
    fake_request(PATH, "{" HI ",\"logprobs\":3}");
    fake_token('H');
    fake_logprob(-0.125f, tops, 3);
    fake_token(0xC3);
    fake_logprob(-1, tops, 1);
    fake_token(0xA9);
    fake_token('x');
    fake_logprob(-3, tops, 2);
    fake_finish(FINISH_STOP, FAKE_END);
    fake_ready();
    const char *at = strstr(fake.sent, "\"logprobs\":{");
    assert_non_null(at);
    // a partial character is named by its bytes, each name appears once, and the sampled token is
    // included; offsets are in characters
    const char want[] =
        "\"logprobs\":{\"tokens\":[\"H\",\"bytes:\\\\xc3\",\"bytes:\\\\xa9\",\"x\"],"
        "\"token_logprobs\":[-0.125,-1.0,0.0,-3.0],\"top_logprobs\":["
        "{\"H\":-0.125,\"bytes:\\\\xc3\":-2.5},{\"H\":-0.125,\"bytes:\\\\xc3\":-1.0},"
        "{\"bytes:\\\\xa9\":0.0},{\"H\":-0.125,\"bytes:\\\\xc3\":-2.5,\"x\":-3.0}],"
        "\"text_offset\":[0,1,1,2]},";
    if (strncmp(at, want, sizeof want - 1) != 0)
        fail_msg("%s", at);
}

TEST(test_logprobs_of_the_taken_token_alone)
{
    fake_request(PATH, "{" HI ",\"logprobs\":0,\"stream\":true}");
    fake_text("a");
    fake_logprob(-0.5f, NULL, 0);
    fake_finish(FINISH_STOP, FAKE_END);
    fake_ready();
    sent_has("\"text\":\"a\",\"logprobs\":{\"tokens\":[\"a\"],"
             "\"token_logprobs\":[-0.5],\"top_logprobs\":null,"
             "\"text_offset\":[0]}");
}

// Each prompt must leave space for a token; the message names the prompt that does not.
TEST(test_length)
{
    char body[1024], text[300];
    memset(text, 'x', sizeof text);
    for (int n = 197; n <= 201; n++) { // the tokenizer adds two
        fake_again();
        snprintf(body, sizeof body,
                 "{\"model\":\"m\",\"max_tokens\":50,\"prompt\":[\"a\",\"%.*s\"]}", n, text);
        fake_request(PATH, body);
        if (n == 197) {
            assert_int_equal(fake.submits, 1);
            assert_int_equal(fake.max_tokens, 50); // the engine limits it for each prompt
            continue;
        }
        assert_int_equal(fake.status, 400);
        sent_has("\"code\":\"context_length_exceeded\"");
        sent_has("\"param\":\"prompt[1]\"");
        sent_has("your prompt resulted in");
    }
}

// If the engine has no space, the error names the prompt. Output that the window cuts before
// max_tokens also ends by length.
TEST(test_window)
{
    fake.admission = ADMISSION_TOO_MANY_TOKENS;
    fake_request(PATH, "{" HI "}");
    assert_int_equal(fake.status, 400);
    sent_has("\"param\":\"prompt\"");
    fake_again();
    fake_request(PATH, "{" HI ",\"max_tokens\":500}");
    fake_finish(FINISH_CONTEXT, 'a');
    fake_ready();
    sent_has("\"text\":\"a\",\"logprobs\":null,\"finish_reason\":\"length\"");
}
