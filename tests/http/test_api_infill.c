// SPDX-License-Identifier: Apache-2.0
// POST /infill against the doubles of exchange and port: the prompt for each kind of vocabulary,
// texts that do not fit, answers and streams, and the fields that editors send.
#include "api_cases.h"

#define TEST(name) API_TEST(name, fake_setup_generator)
#define PATH "/infill"
#define TEXTS "\"input_prefix\":\"ab\",\"input_suffix\":\"cd\""

static void expect_prompt(const char *want)
{
    char *prompt = fake_prompt();
    assert_string_equal(prompt, want);
    free(prompt);
}

// The model may be left out; the id in a stop event is its name.
#define STOP(content, predicted, type, word, truncated)                                            \
    "{\"index\":0,\"content\":\"" content "\",\"tokens\":[],\"id_slot\":-1,\"stop\":true,"         \
    "\"tokens_predicted\":" predicted                                                              \
    ",\"tokens_evaluated\":8,\"model\":\"m\",\"stop_type\":\"" type "\",\"stopping_word\":\"" word \
    "\",\"tokens_cached\":3,\"truncated\":" truncated "}"

TEST(test_whole)
{
    fake_infill(true, false);
    fake_request(PATH, "{" TEXTS "}");
    expect_prompt("^{ab|cd}");
    assert_int_equal(fake.max_tokens, fake_facts.max_model_len - 8);
    fake_text("Hello.");
    fake_finish(FINISH_STOP, FAKE_END);
    fake_ready();
    assert_int_equal(fake.status, 200);
    assert_string_equal(fake_events(), STOP("Hello.", "7", "eos", "", "false"));
}

TEST(test_vocabularies)
{
#define EXTRA                                                                                      \
    TEXTS ",\"prompt\":\" x\",\"input_extra\":[{\"filename\":\"a.c\",\"text\":\"int a;\"},"        \
          "{\"text\":\"int b;\"}]"
    static const struct {
        bool middle, files;
        const char *body, *prompt;
    } cases[] = {
        {true, false, TEXTS ",\"prompt\":\" x\"", "^{ab x|cd}"},
        {false, false, TEXTS ",\"prompt\":\" x\"", "^|cd{ab x"},
        {true, true, TEXTS, "^{ab|cd}"},
        {true, true, EXTRA, "^`repository\n~a.c\nint a;~file\nint b;~current\n{ab x|cd}"},
        {true, false, EXTRA, "^int a;\n\nint b;\n\n{ab x|cd}"},
        {false, true, EXTRA, "^`repository\n~a.c\nint a;~file\nint b;~current\n|cd{ab x"},
        {true, true, "\"input_prefix\":\"\",\"input_suffix\":\"\"", "^{|}"},
        // special tokens in the texts are text
        {true, false, "\"input_prefix\":\"<|fim_suffix|>\",\"input_suffix\":\"\"",
         "^{<|fim_suffix|>|}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char body[512];
        fake_again();
        fake_special_in_text();
        fake_infill(cases[i].middle, cases[i].files);
        snprintf(body, sizeof body, "{\"model\":\"m\",%s}", cases[i].body);
        fake_request(PATH, body);
        assert_int_equal(fake.submits, 1);
        expect_prompt(cases[i].prompt);
    }
}

TEST(test_no_marks)
{
    fake_request(PATH, "{" TEXTS "}");
    assert_int_equal(fake.status, 400);
    sent_has("\"code\":\"unsupported_value\"");
    sent_has("the vocabulary of 'm' has no fill-in-the-middle tokens");
}

// The text ends at every mark and at the ends that the model's files may lack.
TEST(test_ends)
{
    fake_infill(true, true);
    fake_request(PATH, "{" TEXTS ",\"stop_token_ids\":[7]}");
    static const int32_t want[] = {7, FAKE_PREFIX, FAKE_SUFFIX, FAKE_MIDDLE, FAKE_REPO, FAKE_FILE};
    assert_int_equal(fake.stop_id_count, 6);
    assert_memory_equal(fake.stop_ids, want, sizeof want);
    fake_again();
    fake_infill(true, true);
    fake_request("/v1/completions", "{\"model\":\"m\",\"prompt\":\"a\",\"suffix\":\"b\"}");
    assert_int_equal(fake.stop_id_count, 5);
}

TEST(test_stream)
{
#define PIECE(content, predicted)                                                                  \
    "data: {\"index\":0,\"content\":\"" content "\",\"tokens\":[],\"id_slot\":-1,"                 \
    "\"stop\":false,\"tokens_predicted\":" predicted ",\"tokens_evaluated\":8}\n\n"
    fake_infill(true, false);
    fake_request(PATH, "{" TEXTS ",\"stream\":true,\"n_predict\":4,\"stop\":[\"!\"]}");
    assert_int_equal(fake.max_tokens, 4);
    fake_text("He\"l");
    fake_ready();
    fake_finish(FINISH_LENGTH, 'o');
    fake_ready();
    assert_string_equal(fake_events(), PIECE("He\\\"l", "4") PIECE("o", "5") "data: " STOP(
                                           "", "5", "limit", "", "false") "\n\n");
    assert_true(fake.ended);
    fake_again();
    fake_infill(true, false);
    fake_request(PATH, "{" TEXTS ",\"stream\":true,\"stop\":[\"!\"]}");
    fake_text("a!");
    fake_finish(FINISH_CANCEL, -1);
    fake_ready();
    sent_has("\"stop_type\":\"word\",\"stopping_word\":\"!\"");
}

// n_predict 0 computes the prompt and shows nothing.
TEST(test_predict)
{
    fake_infill(true, false);
    fake_request(PATH, "{" TEXTS ",\"n_predict\":0}");
    assert_int_equal(fake.max_tokens, 1);
    fake_finish(FINISH_LENGTH, 'x');
    fake_ready();
    assert_string_equal(fake_events(), STOP("", "0", "limit", "", "false"));
    static const struct {
        const char *more;
        uint32_t max_tokens; // 0: refused
    } cases[] = {
        {"\"n_predict\":-1", 192}, {"\"n_predict\":9000000000", 192}, {"\"max_tokens\":7", 7},
        {"\"n_predict\":12", 12},  {"\"n_predict\":-2", 0},           {"\"n_predict\":\"5\"", 0},
        {"\"max_tokens\":0", 0},
    };
    assert_int_equal(fake_facts.max_model_len, 200);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char body[256];
        fake_again();
        fake_infill(true, false);
        snprintf(body, sizeof body, "{" TEXTS ",%s}", cases[i].more);
        fake_request(PATH, body);
        assert_int_equal(fake.status, cases[i].max_tokens ? 0 : 400);
        assert_int_equal(fake.max_tokens, cases[i].max_tokens);
    }
}

// If texts do not fit, the parts next to the gap are kept, and the last files.
TEST(test_long_texts)
{
    static char body[8192], many[2048], few[64];
    for (size_t i = 0; i < sizeof many - 1; i++)
        many[i] = (char)('a' + i % 26);
    memset(few, 'y', 40);
    // 200 tokens; 1 + 50 of them for the answer, 1 BOS, 3 marks: 145 for the texts
    static const struct {
        const char *prefix, *suffix;
        uint32_t own[2]; // tokens kept
    } cases[] = {{many, many, {109, 36}}, {few, many, {40, 105}}, {many, few, {109, 36}},
                 {many, "", {145, 0}},    {"", many, {0, 145}},   {few, few, {40, 40}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fake_again();
        fake_infill(true, true);
        snprintf(body, sizeof body,
                 "{\"input_prefix\":\"%s\",\"input_suffix\":\"%s\",\"n_predict\":100}",
                 cases[i].prefix, cases[i].suffix);
        fake_request(PATH, body);
        assert_int_equal(fake.submits, 1);
        char want[512];
        snprintf(want, sizeof want, "^{%s|%.*s}",
                 cases[i].prefix + strlen(cases[i].prefix) - cases[i].own[0], (int)cases[i].own[1],
                 cases[i].suffix);
        expect_prompt(want);
        fake_finish(FINISH_STOP, FAKE_END);
        fake_ready();
        sent_has(i < 5 ? "\"truncated\":true" : "\"truncated\":false");
    }
    fake_again();
    fake_infill(true, true);
    snprintf(body, sizeof body,
             "{" TEXTS
             ",\"input_extra\":[{\"text\":\"%.90s\"},{\"text\":\"%s\"},{\"text\":\"z\"}]}",
             many, few);
    fake_request(PATH, body);
    snprintf(body, sizeof body, "^`repository\n~file\n%s~file\nz~current\n{ab|cd}", few);
    expect_prompt(body);
}

TEST(test_fields)
{
    static const struct endpoint infill = {MODEL_GENERATOR, PATH, "\"model\":\"m\"," TEXTS};
    static const struct {
        const char *more;
        int status; // 0: accepted
        const char *code, *param;
    } cases[] = {
        // as editors send them
        {"\"id_slot\":0,\"samplers\":[\"top_k\",\"top_p\",\"infill\"],\"cache_prompt\":true,"
         "\"n_indent\":4,\"top_k\":40,\"top_p\":0.9,\"t_max_prompt_ms\":500,"
         "\"t_max_predict_ms\":1000,\"stop\":[],\"seed\":-1,"
         "\"response_fields\":[\"content\",\"timings/prompt_n\"],\"input_extra\":[]",
         0, NULL, NULL},
        {"\"prompt\":5", 400, "invalid_type", "prompt"},
        {"\"input_extra\":{}", 400, "invalid_type", "input_extra"},
        {"\"input_extra\":[5]", 400, "invalid_type", "input_extra[0]"},
        {"\"input_extra\":[{\"text\":\"a\"},{}]", 400, "missing_required_parameter",
         "input_extra[1].text"},
        {"\"input_extra\":[{\"text\":\"a\",\"filename\":1}]", 400, "invalid_type",
         "input_extra[0].filename"},
        {"\"n\":2", 400, "unsupported_parameter", "n"},
        {"\"suffix\":\"a\"", 400, "unsupported_parameter", "suffix"},
        {"\"logprobs\":1", 400, "unsupported_parameter", "logprobs"},
        {"\"echo\":true", 400, "unsupported_parameter", "echo"},
        {"\"add_special_tokens\":false", 400, "unsupported_parameter", "add_special_tokens"},
        {"\"temperature\":3", 400, "invalid_value", "temperature"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fake_again();
        fake_infill(true, true);
        request_now(&infill, cases[i].more);
        assert_int_equal(fake.status, cases[i].status);
        if (cases[i].status == 0)
            continue;
        char want[128];
        snprintf(want, sizeof want, "\"param\":\"%s\",\"code\":\"%s\"", cases[i].param,
                 cases[i].code);
        sent_has(want);
    }
    fake_again();
    fake_infill(true, true);
    fake_request(PATH, "{\"input_prefix\":\"a\"}");
    sent_has("\"param\":\"input_suffix\",\"code\":\"missing_required_parameter\"");
}
