// /v1/models against the doubles of exchange and models: one body for both client families, what
// is not served.
#include "api_fake.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define MODEL(kind)                                                                                \
    "{\"id\":\"m\",\"object\":\"model\",\"type\":\"model\",\"created\":0,"                         \
    "\"created_at\":\"1970-01-01T00:00:00Z\",\"owned_by\":\"local\",\"display_name\":\"m\","       \
    "\"kind\":\"" kind "\",\"max_model_len\":200,\"max_input_tokens\":200,\"max_tokens\":200,"     \
    "\"lifecycle\":\"active\",\"line\":null,\"capabilities\":null,\"deprecated_at\":null,"         \
    "\"retires_at\":null}"

static void test_a_model_has_its_kind_and_window(void **state)
{
    (void)state;
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

static void test_the_list_has_its_ends(void **state)
{
    (void)state;
    fake_begin(MODEL_EMBEDDER);
    fake_request("/v1/models", "");
    assert_string_equal(fake_events(),
                        "{\"object\":\"list\",\"data\":[" MODEL(
                            "embedder") "],"
                                        "\"has_more\":false,\"first_id\":\"m\",\"last_id\":\"m\"}");
    fake_end();
}

static void test_another_id_is_not_found(void **state)
{
    (void)state;
    fake_begin(MODEL_EMBEDDER);
    fake.info.path_rest = text_of("org/name");
    fake_request("/v1/models/", "");
    assert_int_equal(fake.status, 404);
    assert_non_null(strstr(fake.sent, "The model 'org/name' does not exist."));
    fake_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_model_has_its_kind_and_window),
        cmocka_unit_test(test_the_list_has_its_ends),
        cmocka_unit_test(test_another_id_is_not_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
