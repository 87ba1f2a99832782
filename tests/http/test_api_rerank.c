// SPDX-License-Identifier: Apache-2.0
// /v1/rerank against the doubles: order, ties, scores, returned documents, both input forms,
// truncation.
#include "api_cases.h"

#include <math.h>

#define TEST(name) API_TEST(name, fake_setup_reranker)
#define PATH "/v1/rerank"

static void again(const char *body)
{
    fake_again();
    fake_request(PATH, body);
}

// Sends a request to a model that answers yes or no in the published prompt.
static void yes_no_request(uint32_t window, const char *body)
{
    fake_again();
    fake_facts.rerank = RERANK_YES_NO;
    fake_facts.max_model_len = window;
    fake_request(PATH, body);
}

static void finish(const float *scores, size_t count)
{
    fake.values = malloc(count * sizeof(float));
    memcpy(fake.values, scores, count * sizeof(float));
    fake_finish(FINISH_DONE, -1);
    fake_ready();
}

// Returns the results as "index:score ..." with four digits.
static const char *results(void)
{
    static char out[512];
    char *o = out;
    json_t *answer = fake_json(), *entry;
    size_t i;

    out[0] = 0;
    json_array_foreach(json_object_get(answer, "results"), i, entry)
    {
        json_t *document = json_object_get(entry, "document");
        o += sprintf(o, "%s%d:%.4f", i ? " " : "",
                     (int)json_integer_value(json_object_get(entry, "index")),
                     json_number_value(json_object_get(entry, "relevance_score")));
        if (document)
            o += sprintf(o, "=%s", json_string_value(json_object_get(document, "text")));
    }
    json_decref(answer);
    return out;
}

TEST(test_order)
{
    const float scores[] = {-2, 3, 0, 3, 200};
    fake_request(PATH,
                 "{\"model\":\"m\",\"query\":\"q\",\"documents\":[\"a\",\"b\",\"\",\"b\",\"e\"]}");
    assert_int_equal(fake.kind, REQUEST_SCORE);
    finish(scores, 5);
    assert_string_equal(results(), "4:1.0000 1:0.9526 3:0.9526 2:0.5000 0:0.1192");
    // ^q$a$ is 5 tokens, or 4 with an empty document
    sent_has("],\"usage\":{\"prompt_tokens\":24,\"total_tokens\":24},"
             "\"meta\":{\"billed_units\":{\"search_units\":1},"
             "\"tokens\":{\"input_tokens\":24}}}");
    assert_int_equal(strncmp(fake.sent, "{\"id\":\"rerank-", 14), 0);
    sent_has("\"object\":\"list\",\"model\":\"m\",\"results\":[");
}

TEST(test_top_n)
{
    const float scores[] = {1, 2, 3};
    again("{\"model\":\"m\",\"query\":\"q\",\"documents\":[\"a\",\"b\",\"c\"],\"top_n\":2.0,"
          "\"raw_scores\":true,\"return_documents\":true}");
    finish(scores, 3);
    assert_string_equal(results(), "2:3.0000=c 1:2.0000=b");
    again("{\"model\":\"m\",\"query\":\"q\",\"documents\":[{\"text\":\"a\",\"x\":1},{\"text\":"
          "\"b\"}],"
          "\"top_n\":50,\"return_documents\":true,\"raw_scores\":true}");
    finish(scores, 2);
    assert_string_equal(results(), "1:2.0000=b 0:1.0000=a");
}

TEST(test_extremes)
{
    const float scores[] = {1000, -1000, -80};
    again("{\"model\":\"m\",\"query\":\"q\",\"documents\":[\"a\",\"b\",\"c\"]}");
    finish(scores, 3);
    sent_lacks(":-0");
    sent_lacks(":nan");
    json_t *answer = fake_json();
    json_t *list = json_object_get(answer, "results");
    assert_true(json_number_value(json_object_get(json_array_get(list, 0), "relevance_score")) ==
                1);
    assert_true(json_number_value(json_object_get(json_array_get(list, 2), "relevance_score")) ==
                0);
    json_decref(answer);
}

TEST(test_bad)
{
    static const struct {
        const char *rest, *code, *param;
    } bad[] = {
        {"\"query\":\"\",\"documents\":[\"a\"]", "invalid_value", "query"},
        {"\"query\":\"q\",\"documents\":[]", "invalid_value", "documents"},
        {"\"query\":\"q\",\"documents\":null", "missing_required_parameter", "documents"},
        {"\"query\":\"q\",\"documents\":{\"a\":\"b\"}", "invalid_type", "documents"},
        {"\"query\":\"q\",\"documents\":[\"a\",5]", "invalid_type", "documents[1]"},
        {"\"query\":\"q\",\"documents\":[{\"title\":\"a\"}]", "invalid_type", "documents[0].text"},
        {"\"query\":\"q\",\"documents\":[{\"text\":5}]", "invalid_type", "documents[0].text"},
        {"\"query\":\"q\",\"documents\":[null]", "invalid_type", "documents[0]"},
        {"\"query\":[\"q\"],\"documents\":[\"a\"]", "invalid_type", "query"},
        {"\"query\":\"q\",\"documents\":[\"a\"],\"top_n\":1.5", "invalid_type", "top_n"},
        {"\"query\":\"q\",\"documents\":[\"a\"],\"top_n\":0", "invalid_value", "top_n"},
    };
    char body[256], want[96];
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        snprintf(body, sizeof body, "{\"model\":\"m\",%s}", bad[i].rest);
        again(body);
        assert_int_equal(fake.status, 400);
        snprintf(want, sizeof want, "\"param\":\"%s\",\"code\":\"%s\"", bad[i].param, bad[i].code);
        if (!strstr(fake.sent, want))
            fail_msg("%s: %s", body, fake.sent);
    }
}

// If there is one document too many, none is tokenized.
TEST(test_too_many_documents)
{
    char body[8192] = "{\"model\":\"m\",\"query\":\"q\",\"documents\":[5";
    for (int i = 0; i < 1000; i++)
        strcat(body, ",\"a\"");
    strcat(body, "]}");
    again(body);
    assert_int_equal(fake.status, 400);
    sent_has("must hold at most 1000 documents, got 1001");
    sent_has("\"param\":\"documents\",\"code\":\"invalid_value\"");
    assert_int_equal(fake.submits, 0);
}

// Returns the prompt for the query "q" and one document: ^q$document$.
static const char *pair_of(const char *document, const char *more)
{
    static char out[256];
    char body[256];
    snprintf(body, sizeof body, "{\"model\":\"m\",\"query\":\"q\",\"documents\":[\"%s\"]%s}",
             document, more);
    again(body);
    char *prompt = fake.submits > 0 ? fake_prompt() : NULL;
    snprintf(out, sizeof out, "%s", prompt ? prompt : fake.sent);
    free(prompt);
    return out;
}

TEST(test_documents_are_cut_on_the_side_asked_for)
{
    static const char *const cases[][2] = {
        {",\"truncate_prompt_tokens\":7", "^q$abc$"},
        {",\"truncate_prompt_tokens\":7,\"truncation_side\":\"left\"", "^q$def$"},
        {",\"truncate_prompt_tokens\":-1", "^q$abcdef$"},
        {",\"max_tokens_per_doc\":2", "^q$ab$"},
        {",\"max_tokens_per_doc\":2,\"truncate\":false", "^q$ab$"},
        {",\"max_tokens_per_doc\":2,\"truncation_direction\":\"Left\"", "^q$ef$"},
        {",\"truncation_direction\":\"Left\"", "^q$abcdef$"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (strcmp(pair_of("abcdef", cases[i][0]), cases[i][1]) != 0)
            fail_msg("%s: %s", cases[i][0], pair_of("abcdef", cases[i][0]));
    pair_of("abc", ",\"truncate\":false,\"truncate_prompt_tokens\":7");
    sent_has("\"param\":\"truncate_prompt_tokens\"");
    yes_no_request(600, "{\"model\":\"m\",\"query\":\"q\",\"documents\":[\"abcdef\"],"
                        "\"max_tokens_per_doc\":2,\"truncation_side\":\"left\"}");
    char *prompt = fake_prompt();
    assert_non_null(strstr(prompt, "<Document>: ef<|im_end|>"));
    free(prompt);
}

// Other servers' names of the fields are accepted; both names together are an error.
TEST(test_other_names_of_fields)
{
    const float scores[] = {1, 2, 3};
    static const char *const raw[] = {"\"raw_scores\":true", "\"activation\":false",
                                      "\"use_activation\":false"};
    static const char *const twice[][2] = {
        {"\"top_n\":1,\"top_k\":1", "top_k"},
        {"\"truncate\":true,\"truncation\":true", "truncation"},
        {"\"raw_scores\":true,\"activation\":false", "activation"},
        {"\"raw_scores\":true,\"use_activation\":false", "use_activation"},
        {"\"activation\":true,\"use_activation\":true", "activation"},
        {"\"instruction\":\"i\",\"instruct\":\"i\"", "instruct"},
        {"\"truncation_side\":\"left\",\"truncation_direction\":\"Left\"", "truncation_side"}};
    char body[256], want[64];
    for (size_t i = 0; i < sizeof raw / sizeof *raw; i++) {
        snprintf(
            body, sizeof body,
            "{\"model\":\"m\",\"query\":\"q\",\"documents\":[\"a\",\"b\",\"c\"],\"top_k\":2,%s}",
            raw[i]);
        again(body);
        finish(scores, 3);
        assert_string_equal(results(), "2:3.0000 1:2.0000");
    }
    for (size_t i = 0; i < sizeof twice / sizeof *twice; i++) {
        snprintf(body, sizeof body, "{\"model\":\"m\",\"query\":\"q\",\"documents\":[\"a\"],%s}",
                 twice[i][0]);
        yes_no_request(200, body);
        snprintf(want, sizeof want, "\"param\":\"%s\"", twice[i][1]);
        assert_int_equal(fake.status, 400);
        if (!strstr(fake.sent, want))
            fail_msg("%s: %s", body, fake.sent);
    }
    yes_no_request(600,
                   "{\"model\":\"m\",\"query\":\"q\",\"documents\":[\"d\"],\"instruct\":\"Why\"}");
    char *prompt = fake_prompt();
    assert_non_null(strstr(prompt, "<Instruct>: Why\n"));
    free(prompt);
}

// Returns the prompt with '0' for NUL.
static char *prompt_shown(void)
{
    char *prompt = fake_prompt();
    for (uint32_t i = 0; i < fake.token_count; i++)
        prompt[i] = prompt[i] ? prompt[i] : '0';
    return prompt;
}

// Texts may contain NUL bytes; the text that is repeated with each document has a limit.
TEST(test_texts_of_the_published_prompt)
{
    char body[4096];
    yes_no_request(600, "{\"model\":\"m\",\"query\":\"q\\u0000q\",\"documents\":[\"d\\u0000d\"],"
                        "\"instruction\":\"a\\u0000b\"}");
    char *prompt = prompt_shown();
    assert_non_null(strstr(prompt, "<Instruct>: a0b\n<Query>: q0q\n<Document>: d0d<|im_end|>"));
    free(prompt);
    snprintf(body, sizeof body,
             "{\"model\":\"m\",\"query\":\"q\",\"documents\":[\"d\"],\"instruct\":\"%0*d\"}",
             30 * 16 + 1, 0);
    yes_no_request(30, body);
    assert_int_equal(fake.status, 400);
    sent_has("instruct");
    sent_has("must be at most 480 bytes long, got 481");
}

TEST(test_so_many_documents_as_the_server_takes)
{
    fake_inputs_max(2);
    fake_request(PATH, "{\"model\":\"m\",\"query\":\"q\",\"documents\":[\"a\",\"b\",\"c\"]}");
    sent_has("must hold at most 2 documents, got 3");
}

// Without truncation, a document longer than the window is refused even if it is within its own
// limit.
TEST(test_a_bound_beside_the_window)
{
    char text[1001], body[1300];
    memset(text, 'x', 1000);
    text[1000] = 0;
    yes_no_request(600, "{\"model\":\"m\",\"query\":\"q\",\"documents\":[\"\"]}");
    uint32_t room = 600 - fake.token_count;
    for (uint32_t bound = room; bound <= 601; bound++) {
        snprintf(body, sizeof body,
                 "{\"model\":\"m\",\"query\":\"q\",\"documents\":[\"%s\"],\"truncate\":false,"
                 "\"max_tokens_per_doc\":%u}",
                 text, bound);
        yes_no_request(600, body);
        if (fake.submits != (bound == room))
            fail_msg("%u of %u: %u, %s", bound, room, fake.submits, fake.sent);
    }
}

// The window is 200 tokens: ^ query $ document $.
TEST(test_cuts)
{
    char text[301], body[800];
    memset(text, 'x', 300);
    text[300] = 0;
    snprintf(body, sizeof body, "{\"model\":\"m\",\"query\":\"q\",\"documents\":[\"%s\",\"b\"]}",
             text);
    again(body);
    assert_int_equal(fake.token_count, 200 + 5);
    assert_int_equal(fake.tokens[199], FAKE_SEP);
    assert_int_equal(fake.type_from[0], 3);
    snprintf(body, sizeof body,
             "{\"model\":\"m\",\"query\":\"q\",\"documents\":[\"%s\"],\"max_tokens_per_doc\":7}",
             text);
    again(body);
    assert_int_equal(fake.token_count, 3 + 7 + 1);
    snprintf(body, sizeof body,
             "{\"model\":\"m\",\"query\":\"q\",\"documents\":[\"%s\"],\"max_tokens_per_doc\":7,"
             "\"truncate\":false}",
             text);
    again(body);
    assert_int_equal(fake.token_count, 3 + 7 + 1);
    snprintf(body, sizeof body,
             "{\"model\":\"m\",\"query\":\"q\",\"documents\":[\"%s\"],\"max_tokens_per_doc\":1000}",
             text);
    again(body);
    assert_int_equal(fake.token_count, 200); // the window
    snprintf(body, sizeof body,
             "{\"model\":\"m\",\"query\":\"q\",\"documents\":[\"b\",\"%s\"],\"truncate\":false}",
             text);
    again(body);
    assert_int_equal(fake.status, 400);
    sent_has("\"param\":\"documents[1]\",\"code\":\"context_length_exceeded\""
             ",\"n_prompt_tokens\":201,\"n_ctx\":200");
    sent_has("it has more than 200 tokens, 200 fit");
}

// The query must leave space for a document token: in a pair, and in the published prompt.
TEST(test_room_for_a_document)
{
    static const char body[] = "{\"model\":\"m\",\"query\":\"qqq\",\"documents\":[\"ab\"]}";
    for (int form = RERANK_PAIR; form <= RERANK_YES_NO; form++) {
        uint32_t taken = 6; // ^qqq$ and the last $
        if (form == RERANK_YES_NO) {
            yes_no_request(1000, body);
            taken = fake.token_count - 2;
        }
        for (uint32_t left = 0; left <= 2; left++) {
            fake_again();
            fake_facts.max_model_len = taken + left;
            fake_request(PATH, body);
            assert_int_equal(fake.status, left == 0 ? 400 : 0);
            assert_int_equal(fake.token_count, left == 0 ? 0 : taken + left);
            assert_true(left > 0 || strstr(fake.sent, "the query leaves no space for a document"));
        }
    }
}

// A query may use half of the tokens of one input.
TEST(test_half_of_an_input)
{
    char body[200];
    for (int bytes = 100; bytes <= 101; bytes++) {
        snprintf(body, sizeof body, "{\"model\":\"m\",\"query\":\"%0*d\",\"documents\":[\"b\"]}",
                 bytes, 0);
        again(body);
        assert_int_equal(fake.status, bytes == 100 ? 0 : 400);
    }
    sent_has("\"param\":\"query\"");
    sent_has("101 tokens, more than half of the 200");
}

TEST(test_types_only_where_read)
{
    fake_facts.token_types = false;
    fake_request(PATH, "{\"model\":\"m\",\"query\":\"q\",\"documents\":[\"a\"]}");
    assert_false(fake.has_types);
}

// The published prompt: its markers are special tokens, the texts are plain text.
TEST(test_yes_no)
{
    yes_no_request(600, "{\"model\":\"m\",\"query\":\"why?\",\"documents\":[\"since\"]}");
    char *prompt = fake_prompt();
    assert_string_equal(
        prompt,
        "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query "
        "and the Instruct provided. Note that the answer can only be \"yes\" or \"no\"."
        "<|im_end|>\n<|im_start|>user\n"
        "<Instruct>: Given a web search query, retrieve relevant passages that answer the query\n"
        "<Query>: why?\n<Document>: since"
        "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n");
    const char *instruct = strstr(prompt, "<Instruct>");
    assert_int_equal(fake.tokens[0], 1000 + '<');
    assert_int_equal(fake.tokens[instruct - prompt], '<');
    assert_int_equal(fake.tokens[fake.token_count - 1], 1000 + '\n');
    free(prompt);
}

// The other published prompts, with and without an instruction. Markers of the prompt are special
// tokens, those of the request are text.
TEST(test_published_prompts)
{
#define MXBAI_BEFORE                                                                               \
    "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant."     \
    "<|im_end|>\n<|im_start|>user\n"
#define MXBAI_AFTER                                                                                \
    "\nYou are a search relevance expert who evaluates how well documents match search queries. "  \
    "For each query-document pair, carefully analyze the semantic relationship between them, "     \
    "then provide your binary relevance judgment (0 for not relevant, 1 for relevant).\n"          \
    "Relevance:<|im_end|>\n<|im_start|>assistant\n"
    static const struct {
        enum rerank_form form;
        const char *instruction, *prompt;
    } cases[] = {
        {RERANK_MXBAI, NULL, MXBAI_BEFORE "query: why<|im_end|>?\ndocument: since" MXBAI_AFTER},
        {RERANK_MXBAI, "find {q}",
         MXBAI_BEFORE "instruction: find {q}\nquery: why<|im_end|>?\ndocument: since" MXBAI_AFTER},
        {RERANK_BGE_GEMMA, NULL,
         "<bos>A: why<|im_end|>?\nB: since\nGiven a query A and a passage B, determine whether the "
         "passage contains an answer to the query by providing a prediction of either 'Yes' or "
         "'No'."},
        {RERANK_BGE_GEMMA, "Yes or No?", "<bos>A: why<|im_end|>?\nB: since\nYes or No?"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char body[256], more[96] = "";
        if (cases[i].instruction)
            snprintf(more, sizeof more, ",\"instruction\":\"%s\"", cases[i].instruction);
        snprintf(body, sizeof body,
                 "{\"model\":\"m\",\"query\":\"why<|im_end|>?\",\"documents\":[\"since\"]%s}",
                 more);
        fake_again();
        fake_facts.rerank = cases[i].form;
        fake_facts.max_model_len = 1000;
        fake_request(PATH, body);
        char *prompt = fake_prompt();
        assert_string_equal(prompt, cases[i].prompt);
        assert_int_equal(fake.tokens[0], 1000 + '<');
        assert_int_equal(fake.tokens[strstr(prompt, "why") + 3 - prompt], '<');
        assert_int_equal(fake.tokens[strstr(prompt, "since") - prompt], 's');
        free(prompt);
    }
}

TEST(test_the_yes_no_form_takes_an_instruction)
{
    yes_no_request(600, "{\"model\":\"m\",\"query\":\"why?\",\"documents\":[\"since\"],"
                        "\"instruction\":\"Find <|im_end|> reasons\"}");
    char *prompt = fake_prompt();
    const char *given = strstr(prompt, "<Instruct>: Find <|im_end|> reasons\n<Query>: why?\n");
    assert_non_null(given);
    assert_int_equal(fake.tokens[given + 17 - prompt], '<'); // text, not a marker
    free(prompt);
    fake_again();
    fake_facts.rerank = RERANK_PAIR;
    fake_request(PATH, "{\"model\":\"m\",\"query\":\"q\",\"documents\":[\"d\"],"
                       "\"instruction\":\"i\"}");
    assert_int_equal(fake.status, 400);
    sent_has("\"param\":\"instruction\"");
}

TEST(test_documents_are_asked_for_under_one_name)
{
    again("{\"model\":\"m\",\"query\":\"q\",\"documents\":[\"a\"],\"return_documents\":true,"
          "\"return_text\":false}");
    assert_int_equal(fake.status, 400);
    sent_has("\"param\":\"return_text\"");
}

TEST(test_texts_are_answered_by_a_bare_array)
{
    const float scores[] = {-2, 3, 0};
    again("{\"query\":\"q\",\"texts\":[\"a\",\"b\",\"c\"]}");
    finish(scores, 3);
    assert_string_equal(fake.sent,
                        "[{\"index\":1,\"score\":0.95257413},{\"index\":2,\"score\":0.5},"
                        "{\"index\":0,\"score\":0.11920292}]");
    again("{\"model\":\"m\",\"query\":\"q\",\"texts\":[\"a\",\"b\",\"c\"],\"raw_scores\":true,"
          "\"return_text\":true,\"top_n\":2,\"truncation_direction\":\"Right\"}");
    finish(scores, 3);
    assert_string_equal(fake.sent, "[{\"index\":1,\"score\":3.0,\"text\":\"b\"},"
                                   "{\"index\":2,\"score\":0.0,\"text\":\"c\"}]");
}

TEST(test_texts_are_cut_only_if_asked)
{
    char body[700] = "{\"query\":\"q\",\"texts\":[\"a\",\"", *at = body + strlen(body);
    memset(at, 'y', 400);
    strcpy(at + 400, "\"]}");
    again(body);
    assert_int_equal(fake.status, 400);
    sent_has("\"param\":\"texts[1]\"");
    strcpy(at + 400, "\"],\"truncate\":true}");
    again(body);
    assert_int_equal(fake.submits, 1);
    strcpy(at + 400, "\"],\"documents\":[\"a\"],\"model\":\"m\"}");
    again(body);
    sent_has("\"param\":\"texts\"");
    again("{\"query\":\"q\",\"texts\":[1]}");
    sent_has("\"param\":\"texts[0]\"");
    again("{\"query\":\"q\",\"documents\":[\"a\"]}"); // the only model
    assert_int_equal(fake.submits, 1);
}

TEST(test_every_base_address_of_a_client_leads_here)
{
    static const char *const paths[] = {"/v1/rerank",    "/v2/rerank",    "/rerank",
                                        "/v1/v1/rerank", "/v1/v2/rerank", "/v2/v1/rerank",
                                        "/v2/v2/rerank"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        fake_again();
        fake_request(paths[i], "{\"model\":\"m\",\"query\":\"q\",\"documents\":[\"a\"]}");
        assert_int_equal(fake.submits, 1);
    }
}

TEST(test_large_documents)
{
    const float score = 1;
    static char body[60000];
    fake_facts.max_model_len = 100000;
    int n = sprintf(body, "{\"model\":\"m\",\"query\":\"q\",\"return_documents\":true,"
                          "\"max_tokens_per_doc\":9,\"documents\":[\"");
    memset(body + n, 'y', 50000);
    strcpy(body + n + 50000, "\"]}");
    fake_request(PATH, body);
    assert_true(fake.offloaded);
    fake.offloaded = false;
    finish(&score, 1);
    assert_true(fake.offloaded);
    assert_true(fake.sent_bytes > 50000); // in pieces, with the length announced first
    assert_int_equal(fake.sent_bytes, fake.length);
    assert_true(fake.ended);
    assert_int_equal(fake.answers, 1);
    fake_end(); // the reader reads a part, then leaves
    fake_begin(MODEL_RERANKER);
    fake_facts.max_model_len = 100000;
    fake_request(PATH, body);
    fake.send_space = 0;
    finish(&score, 1);
    assert_int_equal(fake.sent_bytes, 0);
    assert_false(fake.ended);
    fake_gone();
    fake_end(); // and if the client leaves before the response
    fake_begin(MODEL_RERANKER);
    fake_facts.max_model_len = 100000;
    fake_request(PATH, body);
    fake_gone();
}

TEST(test_not_finite)
{
    const float score = NAN;
    again("{\"model\":\"m\",\"query\":\"q\",\"documents\":[\"a\"],\"return_documents\":true}");
    finish(&score, 1);
    assert_int_equal(fake.status, 500);
}

// Documents kept for the response are freed however the request ends; fake_end finds leaks.
TEST(test_failures_free_documents)
{
    static const char body[] = "{\"model\":\"m\",\"query\":\"q\",\"documents\":[\"a\",{\"text\":"
                               "\"b\"}],\"return_documents\":true}";
    static const enum finish ends[] = {FINISH_ERROR, FINISH_TIMEOUT, FINISH_CANCEL};
    static const int statuses[] = {500, 504, 503};
    for (int i = 0; i < 3; i++) {
        again(body);
        fake_finish(ends[i], -1);
        fake_ready();
        assert_int_equal(fake.status, statuses[i]);
        assert_int_equal(fake.frees, 1);
    }
    fake_again();
    fake.admission = ADMISSION_BUSY;
    fake_request(PATH, body);
    assert_int_equal(fake.status, 503);
}

// A query that would be tokenized many times, or that could never fit, is refused before it is
// tokenized.
TEST(test_work_is_bounded)
{
    static char body[20000];
    int n = sprintf(body, "{\"model\":\"m\",\"documents\":[\"b\"],\"query\":\"");
    memset(body + n, ' ', 3201); // 16 bytes per token of a window of 200 tokens
    strcpy(body + n + 3201, "\"}");
    again(body);
    assert_int_equal(fake.status, 400);
    sent_has("'query' must be at most 3200 bytes long, got 3201");
    assert_true(fake.offloaded); // a short body may contain a long query and many documents

    n = sprintf(body, "{\"model\":\"m\",\"query\":\"q\",\"documents\":[\"a\"");
    for (int i = 0; i < 40; i++)
        n += sprintf(body + n, ",\"%0200d\"", i);
    strcpy(body + n, "]}");
    again(body);
    assert_int_equal(fake.status, 400);
    assert_int_equal(fake.submits, 0);
    sent_has("the first 26 documents have 5005 tokens with the query, "
             "more than max-queued-tokens (5000) allows");
}

// A client that leaves before the engine ends counts as an abort; a finished request was counted
// before.
TEST(test_client_leaves)
{
    fake_request(PATH, "{\"model\":\"m\",\"query\":\"q\",\"documents\":[\"a\"]}");
    fake_gone();
    assert_int_equal(fake.counted[COUNTED_ABORT], 1);
    fake_again();
    fake_request(PATH, "{\"model\":\"m\",\"query\":\"q\",\"documents\":[\"a\"]}");
    fake_finish(FINISH_TIMEOUT, -1);
    fake_ready();
    fake_gone();
    assert_int_equal(fake.counted[COUNTED_ABORT], 0);
    assert_int_equal(fake.counted[COUNTED_ERROR], 1);
}
