// SPDX-License-Identifier: Apache-2.0
// Decoding parameters of chat completions and completions: types, ranges, paths in errors, and the
// values that reach the engine.
#include "api_cases.h"

#define TEST(name) API_TEST(name, NULL)

static const struct field_case cases[] = {
    {&chat_endpoint, "n", "i", {"1", "8.0"}, {"0", "9", "-1"}},
    {&chat_endpoint, "min_p", "in", {"0", "1", "0.3"}, {"-0.1", "1.5"}},
    {&chat_endpoint, "presence_penalty", "in", {"-2", "2", "0.5"}, {"-2.1", "2.1"}},
    {&chat_endpoint, "frequency_penalty", "in", {"-2", "2", "0.5"}, {"-2.1", "2.1"}},
    {&chat_endpoint, "repetition_penalty", "in", {"2", "0.5", "1e-300"}, {"0", "-1", "2.1"}},
    {&chat_endpoint, "repeat_penalty", "in", {"2", "0.5"}, {"0", "-1", "2.1"}},
    {&chat_endpoint, "logit_bias", "o", {"{\"0\":-100,\"1999\":100.0}"}, {NULL}},
    {&chat_endpoint, "stop_token_ids", "a", {"[]", "[0,1999,7.0]"}, {NULL}},
    {&chat_endpoint, "min_tokens", "i", {"0", "5"}, {"-1"}},
    {&chat_endpoint, "include_stop_str_in_output", "b", {"false"}, {NULL}},
    {&chat_endpoint, "skip_special_tokens", "b", {"false"}, {NULL}},
    {&chat_endpoint, "logprobs", "b", {"false"}, {NULL}},
    {&chat_endpoint, "top_logprobs", "i", {"0"}, {"21", "-1"}},
    {&chat_endpoint,
     "reasoning_effort",
     "s",
     {"\"none\"", "\"low\"", "\"max\""},
     {"\"most\"", "\"\""}},
    {&chat_endpoint, "truncate_prompt_tokens", "i", {"-1", "5", "1e9"}, {"0", "-2"}},
    {&chat_endpoint, "cache_salt", "s", {"\"x\""}, {"\"\""}},
    {&chat_endpoint, "include_reasoning", "b", {"false"}, {NULL}},
    {&completions_endpoint, "truncate_prompt_tokens", "i", {"-1", "5"}, {"0", "-2"}},
    {&completions_endpoint, "cache_salt", "s", {"\"x\""}, {"\"\""}},
    {&messages_endpoint, "cache_salt", "s", {"\"x\""}, {"\"\""}},
    {&completions_endpoint, "max_tokens", "i", {"1", "100000"}, {"0"}},
    {&completions_endpoint, "echo", "b", {"false"}, {NULL}},
    {&completions_endpoint, "add_special_tokens", "b", {"false"}, {NULL}},
    {&completions_endpoint, "logprobs", "i", {"0", "20"}, {"-1", "21"}},
    {&completions_endpoint, "temperature", "in", {"0", "2"}, {"2.1"}},
    {&completions_endpoint, "n", "i", {"8"}, {"9"}},
    {&chat_endpoint, "metadata", "o", {"{\"a\":\"b\"}"}, {NULL}},
};

TEST(test_matrix)
{
    cases_check(cases, sizeof cases / sizeof cases[0]);
}

// Fields that depend on other fields, and paths to members of a field.
TEST(test_members)
{
    static const struct {
        const struct endpoint *endpoint;
        const char *body, *code, *param; // code NULL: accepted
    } members[] = {
        {&chat_endpoint, "\"top_logprobs\":1", "invalid_value", "top_logprobs"}, // without logprobs
        {&chat_endpoint, "\"logprobs\":false,\"top_logprobs\":1", "invalid_value", "top_logprobs"},
        {&chat_endpoint, "\"logprobs\":true,\"top_logprobs\":20", NULL, NULL},
        {&chat_endpoint, "\"max_tokens\":5,\"min_tokens\":6", "invalid_value", "min_tokens"},
        {&chat_endpoint, "\"max_tokens\":5,\"min_tokens\":5", NULL, NULL},
        {&chat_endpoint, "\"repetition_penalty\":1.1,\"repeat_penalty\":\"x\"", "invalid_type",
         "repeat_penalty"},
        {&completions_endpoint, "\"response_format\":{}", "missing_required_parameter",
         "response_format.type"},
        {&chat_endpoint, "\"max_tokens\":5,\"max_completion_tokens\":9,\"min_tokens\":9", NULL,
         NULL},
        {&chat_endpoint, "\"logit_bias\":{\"2000\":1}", "invalid_value", "logit_bias.2000"},
        {&chat_endpoint, "\"logit_bias\":{\"01\":1}", "invalid_value", "logit_bias.01"},
        {&chat_endpoint, "\"logit_bias\":{\"-1\":1}", "invalid_value", "logit_bias.-1"},
        {&chat_endpoint, "\"logit_bias\":{\"\":1}", "invalid_value", "logit_bias."},
        {&chat_endpoint, "\"logit_bias\":{\"4294967297\":1}", "invalid_value",
         "logit_bias.4294967297"},
        {&chat_endpoint, "\"logit_bias\":{\"1\":\"1\"}", "invalid_type", "logit_bias.1"},
        {&chat_endpoint, "\"logit_bias\":{\"1\":null}", "invalid_type", "logit_bias.1"},
        {&chat_endpoint, "\"logit_bias\":{\"1\":100.5}", "invalid_value", "logit_bias.1"},
        {&chat_endpoint, "\"stop_token_ids\":[1,2000]", "invalid_value", "stop_token_ids[1]"},
        {&chat_endpoint, "\"stop_token_ids\":[-1]", "invalid_value", "stop_token_ids[0]"},
        {&chat_endpoint, "\"stop_token_ids\":[1.5]", "invalid_type", "stop_token_ids[0]"},
        {&chat_endpoint, "\"stop_token_ids\":[\"1\"]", "invalid_type", "stop_token_ids[0]"},
        {&chat_endpoint, "\"allowed_token_ids\":[]", "invalid_value", "allowed_token_ids"},
        {&chat_endpoint, "\"allowed_token_ids\":{}", "invalid_type", "allowed_token_ids"},
        {&chat_endpoint, "\"allowed_token_ids\":[1,2000]", "invalid_value", "allowed_token_ids[1]"},
        {&chat_endpoint, "\"allowed_token_ids\":[\"1\"]", "invalid_type", "allowed_token_ids[0]"},
        {&chat_endpoint, "\"allowed_token_ids\":null,\"bad_words\":null", NULL, NULL},
        {&chat_endpoint, "\"bad_words\":\"a\"", "invalid_type", "bad_words"},
        {&chat_endpoint, "\"bad_words\":[\"a\",1]", "invalid_type", "bad_words[1]"},
        {&chat_endpoint, "\"bad_words\":[\"a\",\"\"]", "invalid_value", "bad_words[1]"},
        {&completions_endpoint, "\"allowed_token_ids\":[1097],\"bad_words\":[\"a\"]",
         "invalid_value", "bad_words"},
        {&completions_endpoint, "\"echo\":true,\"logprobs\":0", "unsupported_value", "logprobs"},
        {&completions_endpoint, "\"echo\":true,\"logprobs\":null", NULL, NULL},
        {&completions_endpoint, "\"prompt\":[[1],[2]]", NULL, NULL},
        {&completions_endpoint, "\"prompt\":\"\"", "invalid_value", "prompt"},
        {&completions_endpoint, "\"prompt\":[]", "invalid_value", "prompt"},
        {&completions_endpoint, "\"prompt\":{}", "invalid_type", "prompt"},
        {&completions_endpoint, "\"prompt\":[\"a\",5]", "invalid_type", "prompt[1]"},
        {&completions_endpoint, "\"prompt\":[\"a\",\"\"]", "invalid_value", "prompt[1]"},
        {&completions_endpoint, "\"prompt\":[1,2000]", "invalid_value", "prompt[1]"},
        {&completions_endpoint, "\"prompt\":[[1],[]]", "invalid_value", "prompt[1]"},
        {&completions_endpoint, "\"prompt\":[{}]", "invalid_type", "prompt[0]"},
        {&completions_endpoint, "\"prompt\":[\"a\",\"b\"],\"n\":4", NULL, NULL},
    };
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
        if (members[i].code) {
            expect_error(members[i].endpoint, members[i].body, 400, members[i].code,
                         members[i].param);
        } else {
            expect_ok(members[i].endpoint, members[i].body);
        }
    }
}

TEST(test_reaches_the_engine)
{
    static const struct endpoint *const both[] = {&chat_endpoint, &completions_endpoint};
    uint64_t before = 0;
    for (size_t i = 0; i < 2; i++) {
        request(both[i], "\"n\":3,\"temperature\":0.5,\"top_p\":0.25,\"top_k\":7,\"min_p\":0.125,"
                         "\"seed\":-1,\"presence_penalty\":0.5,\"frequency_penalty\":-0.25,"
                         "\"repetition_penalty\":1.5,\"repeat_penalty\":2,\"max_tokens\":9,"
                         "\"min_tokens\":4,\"stop_token_ids\":[7,5],\"ignore_eos\":true,"
                         "\"logit_bias\":{\"12\":-100,\"3\":0.5}");
        const struct sampling *s = &fake.sampling;
        assert_int_equal(fake.choice_count, 3);
        assert_int_equal(fake.max_tokens, 9);
        assert_true(s->temperature == 0.5f && s->top_p == 0.25f && s->top_k == 7);
        assert_true(s->min_p == 0.125f && s->seed == UINT64_MAX);
        assert_true(s->presence == 0.5f && s->frequency == -0.25f && s->repetition == 1.5f);
        assert_int_equal(s->output_min, 4);
        assert_true(fake.ignore_end && !s->logprob);
        assert_int_equal(fake.stop_id_count, 2);
        assert_int_equal(fake.stop_ids[0], 7);
        assert_int_equal(fake.stop_ids[1], 5);
        assert_int_equal(fake.bias_count, 2);
        assert_true(fake.bias[0].token == 12 && fake.bias[0].value == -100.0f);
        assert_true(fake.bias[1].token == 3 && fake.bias[1].value == 0.5f);
        fake_end();
    }
    request(&chat_endpoint, "\"repeat_penalty\":0.5,\"logprobs\":true,\"top_logprobs\":3");
    assert_true(fake.sampling.repetition == 0.5f);
    assert_true(fake.sampling.logprob && fake.sampling.top_logprobs == 3);
    fake_end();
    request(&completions_endpoint, "\"logprobs\":0");
    assert_true(fake.sampling.logprob && fake.sampling.top_logprobs == 0);
    assert_int_equal(fake.max_tokens, 16);
    fake_end();
    // the strongest valid penalty keeps logits finite
    request(&chat_endpoint, "\"repetition_penalty\":1e-300");
    assert_true(fake.sampling.repetition > 0 && 1e30f / fake.sampling.repetition < 1e38f);
    fake_end();
    for (size_t i = 0; i < 4; i++) { // 0 is a seed; null means a new random seed each time
        request(both[i % 2], i < 2 ? "\"seed\":0" : "\"seed\":null");
        assert_int_equal(fake.sampling.seed == 0, i < 2);
        assert_true(i < 2 || fake.sampling.seed != before);
        before = fake.sampling.seed;
        fake_end();
    }
}

// Returns whether the last admitted request's token rules allow this id next.
static bool may_come(const int32_t *before, uint32_t count, int32_t id)
{
    uint32_t row[(FAKE_VOCAB + 31) / 32], at = TOKEN_RULES_START;
    for (uint32_t i = 0; i < count; i++)
        at = token_rules_next(fake.rules, at, before[i]);
    memset(row, 0xff, sizeof row);
    token_rules_apply(fake.rules, at, row);
    return row[id / 32] >> id % 32 & 1;
}

// The fake tokenizer turns each byte of such a word into token 1000 + byte.
TEST(test_token_rules_reach_the_engine)
{
    static const struct endpoint *const both[] = {&chat_endpoint, &completions_endpoint};
    static const int32_t a = 1000 + 'a', b = 1000 + 'b', c = 1000 + 'c', space = 1000 + ' ';
    for (size_t i = 0; i < 2; i++) {
        request(both[i], "\"bad_words\":[\"abc\",\"c\"]");
        assert_int_equal(token_rules_owners(fake.rules), 1); // the endpoint released its own
        assert_true(may_come(NULL, 0, a) && may_come((int32_t[]){a}, 1, b));
        assert_false(may_come(NULL, 0, c));
        assert_false(may_come((int32_t[]){b, a, b}, 3, c));
        assert_true(may_come((int32_t[]){space}, 1, a) &&
                    !may_come((int32_t[]){space, a, b}, 3, c));
        fake_end();
        request(both[i], "\"allowed_token_ids\":[7,9],\"bad_words\":[\"a\"]");
        assert_true(may_come(NULL, 0, 7) && may_come(NULL, 0, 9));
        assert_false(may_come(NULL, 0, 8));
        fake_end();
        request(both[i], "\"bad_words\":[]");
        assert_null(fake.rules);
        fake_end();
    }
    // Words of 8,192 tokens in both spellings together pass; one more is refused.
    char *more = malloc(8192);
    for (int over = 0; over <= 1; over++) {
        int n = sprintf(more, "\"bad_words\":[\"");
        memset(more + n, 'x', 4095 + (size_t)over);
        strcpy(more + n + 4095 + over, "\"]");
        if (over)
            expect_error(&chat_endpoint, more, 400, "invalid_value", "bad_words[0]");
        else
            expect_ok(&chat_endpoint, more);
    }
    free(more);
}

TEST(test_nothing_is_on_by_itself)
{
    request(&chat_endpoint, "");
    const struct sampling *s = &fake.sampling;
    assert_true(s->presence == 0 && s->frequency == 0 && s->repetition == 1 && s->min_p == 0);
    assert_true(!s->logprob && s->top_logprobs == 0 && s->output_min == 0);
    assert_int_equal(fake.choice_count, 1);
    assert_int_equal(fake.stop_id_count + fake.bias_count, 0);
    fake_end();
}

// The longest valid list, and one entry more.
TEST(test_long_lists)
{
    char *more = malloc(32768);
    for (int over = 0; over <= 1; over++) {
        int n = sprintf(more, "\"logit_bias\":{");
        for (int i = 0; i < 1024 + over; i++)
            n += sprintf(more + n, "%s\"%d\":1", i ? "," : "", i);
        strcpy(more + n, "}");
        if (over)
            expect_error(&chat_endpoint, more, 400, "invalid_value", "logit_bias");
        else
            expect_ok(&chat_endpoint, more);
        n = sprintf(more, "\"stop_token_ids\":[");
        for (int i = 0; i < 64 + over; i++)
            n += sprintf(more + n, "%s%d", i ? "," : "", i);
        strcpy(more + n, "]");
        if (over)
            expect_error(&chat_endpoint, more, 400, "invalid_value", "stop_token_ids");
        else
            expect_ok(&chat_endpoint, more);
        n = sprintf(more, "\"bad_words\":[");
        for (int i = 0; i < 1000 + over; i++)
            n += sprintf(more + n, "%s\"x\"", i ? "," : "");
        strcpy(more + n, "]");
        if (over)
            expect_error(&chat_endpoint, more, 400, "invalid_value", "bad_words");
        else
            expect_ok(&chat_endpoint, more);
        sprintf(more, "\"cache_salt\":\"%0*d\"", 128 + over, 0);
        if (over)
            expect_error(&chat_endpoint, more, 400, "invalid_value", "cache_salt");
        else
            expect_ok(&chat_endpoint, more);
    }
    free(more);
}

TEST(test_template_variables)
{
    static const struct {
        const char *more, *prompt;
    } bodies[] = {
        {"\"chat_template_kwargs\":{\"enable_thinking\":true}", "[user]hi[think][assistant]"},
        {"\"chat_template_kwargs\":{\"enable_thinking\":null}", "[user]hi[assistant]"},
        {"\"reasoning_effort\":\"none\"", "[user]hi[no-think][assistant]"},
        {"\"reasoning_effort\":\"high\"", "[user]hi[effort high][assistant]"},
        {"\"reasoning_effort\":\"high\",\"chat_template_kwargs\":{\"reasoning_effort\":\"low\"}",
         "[user]hi[effort low][assistant]"},
        {"\"reasoning_effort\":\"minimal\",\"chat_template_kwargs\":{\"enable_thinking\":false}",
         "[user]hi[no-think][effort minimal][assistant]"},
        {"\"chat_template_kwargs\":{\"bos_token\":\"x\"}", "[user]hi[assistant]"},
        {"\"chat_template_kwargs\":{\"enable_thinking\\u0000\":true}", "[user]hi[assistant]"},
    };
    for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++) {
        request(&chat_endpoint, bodies[i].more);
        char *prompt = fake_prompt();
        assert_string_equal(prompt, bodies[i].prompt);
        free(prompt);
        fake_end();
    }
    // request text never becomes a control token, even if passed as a template variable
    request(&chat_endpoint, "\"chat_template_kwargs\":{\"reasoning_effort\":\"[user]\"}");
    assert_int_equal(fake.tokens[8], 1000 + '[');
    assert_int_equal(fake.tokens[16], '[');
    fake_end();
    request(&messages_endpoint, "\"chat_template_kwargs\":{\"enable_thinking\":true}");
    char *prompt = fake_prompt();
    assert_string_equal(prompt, "[user]hi[think][assistant]");
    free(prompt);
    fake_end();
}

// The end of the prompt is kept; an echo repeats exactly the prompt that the model reads.
TEST(test_prompts_that_are_cut)
{
    static const struct {
        const struct endpoint *endpoint;
        const char *more, *prompt;
    } cuts[] = {
        {&chat_endpoint, "\"truncate_prompt_tokens\":13", "hi[assistant]"},
        {&chat_endpoint, "\"truncate_prompt_tokens\":1", "]"},
        {&chat_endpoint, "\"truncate_prompt_tokens\":19", "[user]hi[assistant]"},
        {&chat_endpoint, "\"truncate_prompt_tokens\":-1", "[user]hi[assistant]"},
        {&completions_endpoint,
         "\"prompt\":[\"abcd\",[101,102,103]],\"add_special_tokens\":false,"
         "\"truncate_prompt_tokens\":2",
         NULL},
        {&completions_endpoint, "\"prompt\":[[97,98,99,100],[101]],\"truncate_prompt_tokens\":2",
         "cde"},
        {&completions_endpoint,
         "\"prompt\":[\"abcd\",\"e\"],\"add_special_tokens\":false,\"truncate_prompt_tokens\":3",
         "bcde"},
    };
    for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
        request(cuts[i].endpoint, cuts[i].more);
        char *prompt = fake_prompt();
        assert_int_equal(fake.status, cuts[i].prompt ? 0 : 400);
        if (cuts[i].prompt)
            assert_string_equal(prompt, cuts[i].prompt);
        free(prompt);
        fake_end();
    }
    char body[1024], text[400] = {0};
    memset(text, 'x', 399);
    for (int last = -1; last <= 200; last += 201) { // the window is 200 tokens
        snprintf(body, sizeof body,
                 "\"messages\":[{\"role\":\"user\",\"content\":\"%s\"}],"
                 "\"truncate_prompt_tokens\":%d",
                 text, last);
        request(&chat_endpoint, body);
        assert_int_equal(fake.token_count, 199);
        assert_int_equal(fake.max_tokens, 1);
        fake_end();
    }
    request(&completions_endpoint, "\"prompt\":\"abcd\",\"add_special_tokens\":false,\"echo\":true,"
                                   "\"truncate_prompt_tokens\":2");
    fake_text("!");
    fake_finish(FINISH_LENGTH, -1);
    fake_ready();
    sent_has("\"text\":\"cd!\"");
    sent_has("\"prompt_tokens\":2,");
    fake_end();
}

TEST(test_salts_keep_caches_apart)
{
    static const struct {
        const struct endpoint *endpoint;
        const char *more;
    } sent[] = {{&chat_endpoint, ""},
                {&chat_endpoint, "\"cache_salt\":\"a\""},
                {&chat_endpoint, "\"cache_salt\":\"b\""},
                {&completions_endpoint, "\"cache_salt\":\"a\""},
                {&messages_endpoint, "\"cache_salt\":\"a\""},
                {&responses_endpoint, "\"cache_salt\":\"a\""}};
    enum { SENT = sizeof sent / sizeof *sent };
    uint64_t salts[SENT][2];
    for (size_t i = 0; i < SENT; i++) {
        request(sent[i].endpoint, sent[i].more);
        memcpy(salts[i], fake.cache_salt, sizeof salts[i]);
        fake_end();
    }
    assert_true(salts[0][0] == 0 && salts[0][1] == 0);
    assert_memory_not_equal(salts[1], salts[0], sizeof salts[0]);
    assert_memory_not_equal(salts[1], salts[2], sizeof salts[0]);
    for (size_t i = 3; i < SENT; i++)
        assert_memory_equal(salts[1], salts[i], sizeof salts[0]);
}

// With a seed, equal prompts are sampled alike; n prompts are independent of n choices.
TEST(test_several_prompts)
{
    char more[256];
    request(&completions_endpoint, "\"prompt\":[\"a\",\"a\"],\"max_tokens\":100000");
    assert_true(fake.prompts_differ);
    assert_int_equal(fake.params_n, 1);
    assert_int_equal(fake.params_max_tokens, 200);
    fake_end();
    request(&completions_endpoint, "\"prompt\":[\"a\",\"a\"],\"seed\":1,\"n\":3");
    assert_false(fake.prompts_differ);
    assert_int_equal(fake.params_n, 3);
    fake_end();
    for (int count = 24; count <= 25; count++) { // at most 24 choices in all, and n at most 8
        int n = snprintf(more, sizeof more, "\"prompt\":[");
        for (int i = 0; i < count; i++)
            n += snprintf(more + n, sizeof more - (size_t)n, "%s\"a\"", i > 0 ? "," : "");
        strcpy(more + n, "]");
        if (count == 24)
            expect_ok(&completions_endpoint, more);
        else
            expect_error(&completions_endpoint, more, 400, "invalid_value", "prompt");
    }
    expect_ok(&completions_endpoint, "\"prompt\":[\"a\",\"a\",\"a\"],\"n\":8");
    expect_error(&completions_endpoint, "\"prompt\":[\"a\",\"a\",\"a\",\"a\"],\"n\":8", 400,
                 "invalid_value", "prompt");
}
