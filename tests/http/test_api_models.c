// SPDX-License-Identifier: Apache-2.0
// /v1/models against the doubles of exchange and models: one body for both client families, models
// that are not served.
#include "api_cases.h"

#define TEST(name) API_TEST(name, NULL)
#define MODEL(kind)                                                                                \
    "{\"id\":\"m\",\"object\":\"model\",\"type\":\"model\",\"created\":0,"                         \
    "\"created_at\":\"1970-01-01T00:00:00Z\",\"owned_by\":\"local\",\"display_name\":\"m\","       \
    "\"kind\":\"" kind "\",\"max_model_len\":200,\"max_input_tokens\":200,\"max_tokens\":200,"     \
    "\"sampling_defaults\":{\"temperature\":0,\"top_p\":0,\"top_k\":0,\"min_p\":0,"                \
    "\"repetition_penalty\":0},"                                                                   \
    "\"lifecycle\":\"active\",\"line\":null,\"capabilities\":null,\"deprecated_at\":null,"         \
    "\"retires_at\":null}"

TEST(test_a_model_has_its_kind_and_window)
{
    static const struct {
        enum model_kind kind;
        const char *want;
    } cases[] = {
        {MODEL_GENERATOR, MODEL("generator")},
        {MODEL_EMBEDDER, MODEL("embedder")},
        {MODEL_RERANKER, MODEL("reranker")},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fake_begin(cases[i].kind);
        fake.info.path_rest = text_of("m");
        fake_request("/v1/models/", "");
        assert_int_equal(fake.status, 200);
        assert_string_equal(fake_events(), cases[i].want);
        fake_end();
    }
}

TEST(test_the_list_has_its_ends)
{
    fake_begin(MODEL_EMBEDDER);
    fake_request("/v1/models", "");
    assert_string_equal(fake_events(),
                        "{\"object\":\"list\",\"data\":[" MODEL(
                            "embedder") "],"
                                        "\"has_more\":false,\"first_id\":\"m\",\"last_id\":\"m\"}");
    fake_end();
}

// Five models in pages, as Anthropic's clients request them.
TEST(test_the_list_comes_in_pages)
{
    static const struct {
        const char *query, *ids, *more, *first, *last;
    } pages[] = {
        {"", "abcde", "false", "\"a\"", "\"e\""},
        {"beta=true&limits=1", "abcde", "false", "\"a\"", "\"e\""},
        {"limit=1000", "abcde", "false", "\"a\"", "\"e\""},
        {"limit=5", "abcde", "false", "\"a\"", "\"e\""},
        {"limit=2", "ab", "true", "\"a\"", "\"b\""},
        {"limit=2&after_id=b", "cd", "true", "\"c\"", "\"d\""},
        {"after_id=%62&limit=2", "cd", "true", "\"c\"", "\"d\""},
        {"limit=2&after_id=c", "de", "false", "\"d\"", "\"e\""},
        {"after_id=d", "e", "false", "\"e\"", "\"e\""},
        {"after_id=e&limit=2", "", "false", "null", "null"},
        {"limit=2&before_id=e", "cd", "true", "\"c\"", "\"d\""},
        {"limit=2&before_id=c", "ab", "false", "\"a\"", "\"b\""},
        {"before_id=a", "", "false", "null", "null"},
    };
    static const char *const bad[][2] = {{"limit=0", "limit"},
                                         {"limit=1001", "limit"},
                                         {"limit=", "limit"},
                                         {"limit=-1", "limit"},
                                         {"limit=4294967297", "limit"},
                                         {"limit", "limit"},
                                         {"after_id=x", "after_id"},
                                         {"before_id=", "before_id"},
                                         {"after_id=a&before_id=c", "before_id"}};
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++) {
        char ids[8] = "", want[96];
        size_t at;
        json_t *entry;
        fake_begin(MODEL_EMBEDDER);
        fake_models(5);
        fake.info.shape = SHAPE_MESSAGES;
        fake.info.query = text_of(pages[i].query);
        fake_request("/v1/models", "");
        json_t *body = fake_json();
        json_array_foreach(json_object_get(body, "data"), at, entry)
            strcat(ids, json_string_value(json_object_get(entry, "id")));
        json_decref(body);
        snprintf(want, sizeof want, "],\"has_more\":%s,\"first_id\":%s,\"last_id\":%s}",
                 pages[i].more, pages[i].first, pages[i].last);
        if (strcmp(ids, pages[i].ids) != 0 || !strstr(fake.sent, want))
            fail_msg("%s: %s %s", pages[i].query, ids, strstr(fake.sent, "],\"has_more"));
        fake_end();
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char want[64];
        fake_begin(MODEL_EMBEDDER); // other clients get the complete list
        fake_models(5);
        fake.info.query = text_of(bad[i][0]);
        fake_request("/v1/models", "");
        assert_int_equal(fake.status, 200);
        fake_end();
        fake_begin(MODEL_EMBEDDER);
        fake_models(5);
        fake.info.shape = SHAPE_MESSAGES;
        fake.info.query = text_of(bad[i][0]);
        fake_request("/v1/models", "");
        snprintf(want, sizeof want, "\"message\":\"%s: ", bad[i][1]);
        assert_int_equal(fake.status, 400);
        if (!strstr(fake.sent, want))
            fail_msg("%s: %s", bad[i][0], fake.sent);
        fake_end();
    }
}

TEST(test_another_id_is_not_found)
{
    fake_begin(MODEL_EMBEDDER);
    fake.info.path_rest = text_of("org/name");
    fake_request("/v1/models/", "");
    assert_int_equal(fake.status, 404);
    sent_has("The model 'org/name' does not exist.");
    fake_end();
    fake_begin(MODEL_EMBEDDER);
    fake.info.shape = SHAPE_MESSAGES;
    fake.info.path_rest = text_of("org/name");
    fake_request("/v1/models/", "");
    assert_int_equal(fake.status, 404);
    sent_has("\"message\":\"model: org/name\"");
    fake_end();
}
