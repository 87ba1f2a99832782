// SPDX-License-Identifier: Apache-2.0
// /v1/embeddings against the doubles: inputs of all forms, both encodings against bytes computed
// separately, responses in pieces, truncation, errors with their path.
#include "api_cases.h"

#include "http/api/pieces.h"

#include <math.h>

#define TEST(name) API_TEST(name, fake_setup_embedder)
#define PATH "/v1/embeddings"

static void values_fill(uint32_t count)
{
    size_t n = (size_t)count * fake_facts.output_width;
    fake.values = malloc(n * sizeof(float));
    for (size_t i = 0; i < n; i++)
        fake.values[i] = (float)i * 0.25f - 0.5f;
}

static void finish(void)
{
    fake_finish(FINISH_DONE, -1);
    fake_ready();
}

TEST(test_float)
{
    fake_request(PATH, "{\"model\":\"m\",\"input\":\"hi\",\"encoding_format\":\"float\"}");
    assert_int_equal(fake.kind, REQUEST_EMBED);
    assert_int_equal(fake.token_count, 4); // with the tokenizer's two special tokens
    values_fill(1);
    fake.values[0] = -0.0f;
    fake.values[1] = 0.1f;
    finish();
    assert_string_equal(fake.sent,
                        "{\"object\":\"list\",\"data\":[{\"object\":\"embedding\",\"index\":0,"
                        "\"embedding\":[0.0,0.1,0.0,0.25]}],\"model\":\"m\",\"usage\":"
                        "{\"prompt_tokens\":4,\"total_tokens\":4}}");
    assert_int_equal(fake.frees, 1);
    assert_int_equal(fake.counted[COUNTED_POOLED], 1);
}

// (3, 4) of (3, 4, 12, 84), normalized to length 1, is (0.6, 0.8).
TEST(test_fewer_dimensions_have_the_length_1)
{
    static const char body[] = "{\"model\":\"m\",\"input\":[\"a\",\"b\"],\"dimensions\":2}";
    static const float values[] = {3, 4, 12, 84, 0, 0, 1, 0}; // nothing is left of the second
    fake_request(PATH, body);
    assert_int_equal(fake.status, 400);
    sent_has("\"code\":\"unsupported_value\"");
    fake_again();
    fake_dimensions();
    fake_request(PATH, body);
    fake.values = malloc(sizeof values);
    memcpy(fake.values, values, sizeof values);
    finish();
    assert_int_equal(fake.status, 200);
    sent_has("\"embedding\":[0.6,0.8]}");
    sent_has("\"embedding\":[0.0,0.0]}");
}

// Only the dimensions that the model folder declares are accepted; --matryoshka accepts all.
TEST(test_declared_dimensions)
{
    static const struct {
        const char *dimensions;
        bool declared, free;
    } cases[] = {{"4", true, true}, {"2", true, true}, {"3", false, true}, {"1", false, true}};
    char body[96];
    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        bool free = i % 2;
        fake_again();
        fake_facts.dimensions_free = free;
        fake_facts.dimension_count = 1;
        fake_facts.dimensions[0] = 2;
        snprintf(body, sizeof body, "{\"model\":\"m\",\"input\":\"a\",\"dimensions\":%s}",
                 cases[i / 2].dimensions);
        fake_request(PATH, body);
        bool allowed = free ? cases[i / 2].free : cases[i / 2].declared;
        assert_int_equal(fake.submits, allowed);
        if (!allowed)
            sent_has("'dimensions' must be 2, 4 or absent");
    }
}

// Raw vectors can be requested under each server's field name; a shortened raw vector is not
// normalized.
TEST(test_vectors_as_the_pooling_gives_them)
{
    static const struct {
        const char *more;
        bool raw;
    } cases[] = {{"\"normalize\":false", true},   {"\"normalize\":true", false},
                 {"\"normalized\":false", true},  {"\"embd_normalize\":-1", true},
                 {"\"embd_normalize\":2", false}, {"\"user\":\"u\"", false}};
    static const float values[] = {3, 4, 12, 84};
    char body[128];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fake_again();
        fake_dimensions();
        snprintf(body, sizeof body, "{\"model\":\"m\",\"input\":\"a\",\"dimensions\":2,%s}",
                 cases[i].more);
        fake_request(PATH, body);
        assert_true(fake.pool_raw == cases[i].raw);
        fake.values = malloc(sizeof values);
        memcpy(fake.values, values, sizeof values);
        finish();
        sent_has(cases[i].raw ? "[3.0,4.0]" : "[0.6,0.8]");
    }
    static const char *const bad[][2] = {
        {"\"normalize\":false,\"normalized\":false", "normalized"},
        {"\"normalize\":true,\"embd_normalize\":2", "embd_normalize"},
        {"\"embd_normalize\":1", "embd_normalize"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char want[64];
        fake_again();
        snprintf(body, sizeof body, "{\"model\":\"m\",\"input\":\"a\",%s}", bad[i][0]);
        fake_request(PATH, body);
        snprintf(want, sizeof want, "\"param\":\"%s\"", bad[i][1]);
        assert_int_equal(fake.status, 400);
        sent_has(want);
    }
}

// Returns the prompt of an input as the fake tokenizer shows it: ^ and $ are special tokens.
static const char *prompt_of(const char *standard, const char *more)
{
    static char out[64];
    char body[160];
    fake_again();
    fake_prompts(standard);
    snprintf(body, sizeof body, "{\"model\":\"m\",\"input\":%s}", more);
    fake_request(PATH, body);
    char *prompt = fake.submits > 0 ? fake_prompt() : NULL;
    snprintf(out, sizeof out, "%s", prompt ? prompt : fake.sent);
    free(prompt);
    return out;
}

TEST(test_prompts_stand_in_front_of_texts)
{
    assert_string_equal(prompt_of(NULL, "\"a\""), "^a$");
    assert_string_equal(prompt_of(NULL, "[\"a\",\"b\"],\"prompt_name\":\"query\""), "^Q: a$^Q: b$");
    assert_string_equal(prompt_of(NULL, "\"a\",\"prompt_name\":\"document\""), "^a$");
    assert_string_equal(prompt_of(NULL, "\"a\",\"prompt\":\"x \""), "^x a$");
    assert_string_equal(prompt_of("query", "\"a\""), "^Q: a$"); // the folder's default
    assert_string_equal(prompt_of("query", "\"a\",\"prompt\":\"\""), "^a$");
    assert_string_equal(prompt_of("query", "\"a\",\"prompt_name\":\"document\""), "^a$");
    assert_string_equal(prompt_of("query", "\"a\",\"prompt_name\":null"), "^Q: a$");
    prompt_of("query", "[[65]]"); // ids are used unchanged
    assert_int_equal(fake.token_count, 1);
    assert_int_equal(fake.pool_from, 0); // the prompt's tokens are pooled with the text's
    static const char *const bad[][2] = {
        {"\"a\",\"prompt_name\":\"q\"",
         "must be the name of a prompt of this model ('query', 'document')"},
        {"\"a\",\"prompt_name\":\"query\",\"prompt\":\"x\"", "cannot be given together"},
        {"[1],\"prompt\":\"x\"", "cannot be combined with token ids"},
        {"[[1]],\"prompt_name\":\"query\"", "cannot be combined with token ids"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        prompt_of(NULL, bad[i][0]);
        assert_int_equal(fake.status, 400);
        if (!strstr(fake.sent, bad[i][1]))
            fail_msg("%s: %s", bad[i][0], fake.sent);
    }
    static char body[8192] = "{\"model\":\"m\",\"input\":\"a\",\"prompt\":\"";
    size_t at = strlen(body);
    memset(body + at, 'p', 3201); // the window is 200 tokens
    strcpy(body + at + 3201, "\"}");
    fake_again();
    fake_request(PATH, body);
    sent_has("'prompt' must be at most 3200 bytes long, got 3201");
}

// Pooling by the mean may skip the prompt: neither its tokens nor those before it count.
TEST(test_prompts_may_be_left_out_of_the_mean)
{
    static const char base[] = "{\"model\":\"m\",\"input\":\"abc\",\"prompt\":\"Q: \"%s}";
    static const struct {
        const char *more;
        uint32_t from;
    } cases[] = {{"", 4}, {",\"add_special_tokens\":false", 3}};
    char body[160];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fake_again();
        fake_facts.prompt_unpooled = true;
        snprintf(body, sizeof body, base, cases[i].more);
        fake_request(PATH, body);
        assert_int_equal(fake.pool_from, cases[i].from);
    }
    fake_again();
    fake_facts.prompt_unpooled = true;
    fake_request(PATH, "{\"model\":\"m\",\"input\":\"abc\"}");
    assert_int_equal(fake.pool_from, 0);
    fake_again();
    fake_prompts("query");
    fake_facts.prompt_unpooled = true;
    fake_request(PATH, "{\"model\":\"m\",\"input\":[65,66,67,68,69]}");
    assert_int_equal(fake.pool_from, 0); // ids have no prompt before them
    static const char *const bad[][2] = {
        {",\"truncate_prompt_tokens\":4",
         "must have tokens besides the prompt: 4 in total, 4 of them the prompt's"},
        {",\"truncate\":true,\"truncation_side\":\"left\"", "truncation_side"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        fake_again();
        fake_facts.prompt_unpooled = true;
        snprintf(body, sizeof body, base, bad[i][0]);
        fake_request(PATH, body);
        assert_int_equal(fake.status, 400);
        if (!strstr(fake.sent, bad[i][1]))
            fail_msg("%s", fake.sent);
    }
}

TEST(test_the_left_may_be_cut)
{
    static const char *const cases[][2] = {
        {"\"abcdef\",\"truncate_prompt_tokens\":5", "^abc$"},
        {"\"abcdef\",\"truncate_prompt_tokens\":5,\"truncation_direction\":\"Left\"", "^def$"},
        {"\"abcdef\",\"truncate_prompt_tokens\":5,\"truncation_side\":\"left\"", "^def$"},
        {"\"abcdef\",\"truncate_prompt_tokens\":5,\"truncation_side\":\"right\"", "^abc$"},
        {"\"abcdef\",\"truncate_prompt_tokens\":2,\"truncation_side\":\"left\"", "f$"},
        {"\"ab\",\"truncate_prompt_tokens\":5,\"truncation_side\":\"left\"", "^ab$"},
        {"\"abcdef\",\"truncation_side\":\"left\"", "^abcdef$"},
        {"\"abc\",\"truncate_prompt_tokens\":2,\"truncation_side\":\"left\",\"add_special_tokens\":"
         "false",
         "bc"},
        {"[97,98,99],\"truncate_prompt_tokens\":2,\"truncation_side\":\"left\"", "bc"},
        {"[97,98,99],\"truncate_prompt_tokens\":2", "ab"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (strcmp(prompt_of(NULL, cases[i][0]), cases[i][1]) != 0)
            fail_msg("%s: %s", cases[i][0], prompt_of(NULL, cases[i][0]));
    prompt_of(NULL, "\"a\",\"truncation_side\":\"left\",\"truncation_direction\":\"Left\"");
    sent_has("\"param\":\"truncation_side\"");
}

static void two_inputs(void)
{
    fake_inputs_max(2);
}

static void too_many_bytes(void)
{
    fake.admission = ADMISSION_TOO_MANY_BYTES;
}

#define BODY(input) PATH, "{\"model\":\"m\",\"input\":" input "}"

TEST(test_limits_and_failures)
{
    static const struct api_case cases[] = {
        {"a model without prompts", NULL, BODY("\"a\",\"prompt_name\":\"query\""), .status = 400,
         .has = {"'prompt_name' must be absent: this model has no prompts"}},
        {"one input too many", two_inputs, BODY("[\"a\",\"b\",\"c\"]"), .status = 400,
         .has = {"must hold at most 2 inputs, got 3"}},
        {"as many inputs as the server accepts", two_inputs, BODY("[\"a\",\"b\"]"), .status = 0},
        {"deadline", NULL, BODY("\"a\""), .text = "", .finish = FINISH_TIMEOUT, .status = 504},
        {"result too large", too_many_bytes, BODY("\"a\""), .status = 400,
         .has = {"max-result-bytes", "\"param\":\"input\""}},
        {"two forms of truncation", NULL,
         BODY("\"a\",\"truncate\":false,\"truncate_prompt_tokens\":4"), .status = 400,
         .has = {"\"param\":\"truncate_prompt_tokens\""}},
    };
    API_CASES_RUN(cases);
}

TEST(test_base64)
{
    fake_request(PATH, "{\"model\":\"m\",\"input\":[\"hi\"],\"encoding_format\":\"base64\"}");
    values_fill(1);
    finish();
    // -0.5 -0.25 0 0.25 as little-endian float32: 000000bf 000080be 00000000 0000803e
    sent_has("\"embedding\":\"AAAAvwAAgL4AAAAAAACAPg==\"}");
}

// The fake tokenizer returns other ids if special tokens in a text are accepted.
TEST(test_special_tokens_in_text)
{
    fake_request(PATH, "{\"model\":\"m\",\"input\":\"a\"}");
    assert_int_equal(fake.tokens[1], 'a');
    fake_end();
    fake_begin(MODEL_EMBEDDER);
    fake_special_in_text();
    fake_request(PATH, "{\"model\":\"m\",\"input\":\"a\"}");
    assert_int_equal(fake.token_count, 3); // the model's special tokens are still added
    assert_int_equal(fake.tokens[1], 1000 + 'a');
    fake_end();
    fake_begin(MODEL_EMBEDDER);
    fake_special_in_text();
    fake_request(PATH, "{\"model\":\"m\",\"input\":\"abcd\",\"truncate_prompt_tokens\":3}");
    assert_int_equal(fake.token_count, 3); // truncated before the closing special tokens
    assert_int_equal(fake.tokens[1], 1000 + 'a');
    assert_int_equal(fake.tokens[2], FAKE_SEP);
}

TEST(test_inputs)
{
    static const struct {
        const char *input;
        uint32_t sequences, tokens;
    } good[] = {
        {"\"abc\"", 1, 5},       {"[\"abc\"]", 1, 5},
        {"[\"a\",\"b\"]", 2, 6}, {"[1,2,3]", 1, 3}, // unchanged: nothing is added
        {"[[1],[2,3]]", 2, 3},   {"[1.0,2e0]", 1, 2},
    };
    static const struct {
        const char *input, *code, *param;
    } bad[] = {
        {"[]", "invalid_value", "\"input\""},
        {"\"\"", "invalid_value", "\"input\""},
        {"[\"\"]", "invalid_value", "\"input[0]\""},
        {"[[]]", "invalid_value", "\"input[0]\""},
        {"[1,\"a\"]", "invalid_type", "\"input[1]\""},
        {"[\"a\",1]", "invalid_type", "\"input[1]\""},
        {"[\"a\",[1]]", "invalid_type", "\"input[1]\""},
        {"[[1],2]", "invalid_type", "\"input[1]\""},
        {"[[1],\"a\"]", "invalid_type", "\"input[1]\""},
        {"[[1],[\"a\"]]", "invalid_type", "\"input[1][0]\""},
        {"[[1],[2000]]", "invalid_value", "\"input[1][0]\""},
        {"[-1]", "invalid_value", "\"input[0]\""},
        {"[1.5]", "invalid_type", "\"input[0]\""},
        {"[null]", "invalid_type", "\"input[0]\""},
        {"{\"a\":1}", "invalid_type", "\"input\""},
        {"true", "invalid_type", "\"input\""},
        {"null", "missing_required_parameter", "\"input\""},
        {"[[1],{}]", "invalid_type", "\"input[1]\""},
        {"[{}]", "invalid_type", "\"input"},
        {"[[1],[1.5]]", "invalid_type", "\"input[1][0]\""},
        {"[9223372036854775808]", "invalid", "\"input[0]\""},
    };
    char body[256];
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        fake_end();
        fake_begin(MODEL_EMBEDDER);
        snprintf(body, sizeof body, "{\"model\":\"m\",\"input\":%s}", good[i].input);
        fake_request(PATH, body);
        assert_int_equal(fake.sequence_count, good[i].sequences);
        assert_int_equal(fake.token_count, good[i].tokens);
        assert_int_equal(fake.starts[good[i].sequences], good[i].tokens);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        fake_end();
        fake_begin(MODEL_EMBEDDER);
        snprintf(body, sizeof body, "{\"model\":\"m\",\"input\":%s}", bad[i].input);
        fake_request(PATH, body);
        assert_int_equal(fake.status, 400);
        if (!strstr(fake.sent, bad[i].code) || !strstr(fake.sent, bad[i].param))
            fail_msg("%s: %s", bad[i].input, fake.sent);
    }
}

static void too_long(const char *more, char *body, size_t body_bytes)
{
    char text[300];
    memset(text, 'x', sizeof text);
    fake_end();
    fake_begin(MODEL_EMBEDDER);
    snprintf(body, body_bytes, "{\"model\":\"m\",\"input\":[\"a\",\"%.250s\"]%s}", text, more);
    fake_request(PATH, body);
}

TEST(test_too_long)
{
    char body[512];
    too_long("", body, sizeof body);
    assert_int_equal(fake.status, 400);
    sent_has("\"param\":\"input[1]\",\"code\":\"context_length_exceeded\","
             "\"n_prompt_tokens\":201,\"n_ctx\":200");
    sent_has("resulted in more than 200 tokens");
    too_long(",\"truncate\":true", body, sizeof body);
    assert_int_equal(fake.submits, 1);
    assert_int_equal(fake.token_count, 3 + 200);
    assert_int_equal(fake.tokens[202], FAKE_SEP); // the closing special token remains
    assert_int_equal(fake.tokens[201], 'x');
    too_long(",\"truncate_prompt_tokens\":-1", body, sizeof body);
    assert_int_equal(fake.token_count, 3 + 200);
    too_long(",\"truncate_prompt_tokens\":10", body, sizeof body);
    assert_int_equal(fake.token_count, 3 + 10);
    assert_int_equal(fake.tokens[3], FAKE_BOS);
    assert_int_equal(fake.tokens[12], FAKE_SEP);
    too_long(",\"truncate\":true,\"add_special_tokens\":false", body, sizeof body);
    assert_int_equal(fake.token_count, 1 + 200);
    assert_int_equal(fake.tokens[200], 'x');
}

TEST(test_many_inputs)
{
    static char body[64 * 1024];
    for (int n = 2048; n <= 2049; n++) {
        fake_end();
        fake_begin(MODEL_EMBEDDER);
        fake_facts.output_width = 384;
        char *p = body + sprintf(body, "{\"model\":\"m\",\"input\":[\"a\"");
        for (int i = 1; i < n; i++)
            p += sprintf(p, ",\"b\"");
        sprintf(p, "],\"encoding_format\":\"%s\"}", n % 2 ? "float" : "base64");
        fake_request(PATH, body);
        if (n == 2049) {
            assert_int_equal(fake.status, 400);
            continue;
        }
        assert_int_equal(fake.sequence_count, 2048);
        values_fill(2048);
        fake.send_space = 64 * 1024;
        finish();
        assert_true(fake.streaming && fake.ended);
        assert_int_equal(fake.length, fake.sent_bytes);
        json_t *answer = fake_json();
        json_t *data = json_object_get(answer, "data");
        assert_int_equal(json_array_size(data), 2048);
        const char *text =
            json_string_value(json_object_get(json_array_get(data, 2047), "embedding"));
        assert_int_equal(strlen(text), 2048);
        json_decref(answer);
    }
}

// The reader pauses, then continues: no byte is lost or repeated, and the announced length is
// correct.
TEST(test_pieces)
{
    fake_facts.output_width = 3000;
    fake_request(PATH, "{\"model\":\"m\",\"input\":[\"a\",\"b\"]}");
    values_fill(2);
    fake.send_space = 0;
    finish();
    assert_int_equal(fake.sent_bytes, 0);
    assert_int_equal(fake.frees, 1); // the engine request is already freed
    fake.send_space = VECTORS_PIECE_MAX;
    fake_send_space();
    assert_true(fake.ended);
    assert_int_equal(fake.sent_bytes, fake.length);
    json_t *answer = fake_json();
    json_t *row = json_object_get(json_array_get(json_object_get(answer, "data"), 1), "embedding");
    assert_int_equal(json_array_size(row), 3000);
    for (size_t i = 0; i < 3000; i++)
        assert_true((float)json_number_value(json_array_get(row, i)) == fake.values[3000 + i]);
    json_decref(answer);
}

TEST(test_not_finite)
{
    fake_request(PATH, "{\"model\":\"m\",\"input\":\"a\"}");
    values_fill(1);
    fake.values[2] = NAN;
    finish();
    assert_int_equal(fake.status, 500);
    assert_int_equal(fake.error, HTTP_INTERNAL_SAME);
    fake_end();
    fake_begin(MODEL_EMBEDDER);
    fake_request(PATH, "{\"model\":\"m\",\"input\":[\"a\",\"b\"]}"); // the last of several values
    values_fill(2);
    fake.values[2 * fake_facts.output_width - 1] = INFINITY;
    finish();
    assert_int_equal(fake.status, 500);
}

// A client that leaves before the engine ends counts as an abort; a finished request was counted
// before.
TEST(test_client_leaves)
{
    fake_request(PATH, "{\"model\":\"m\",\"input\":\"a\"}");
    fake_gone();
    assert_int_equal(fake.counted[COUNTED_ABORT], 1);
    fake_again();
    fake_request(PATH, "{\"model\":\"m\",\"input\":\"a\"}");
    fake_finish(FINISH_TIMEOUT, -1);
    fake_ready();
    fake_gone();
    assert_int_equal(fake.counted[COUNTED_ABORT], 0);
    assert_int_equal(fake.counted[COUNTED_ERROR], 1);
}
