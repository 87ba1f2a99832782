// SPDX-License-Identifier: Apache-2.0
// The complete table of errors, written a second time from the contract, compared with both error
// bodies as parsed JSON.
#include "http/errors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

struct expected {
    enum http_error error;
    int status_openai, status_messages;
    const char *type_openai, *code, *type_messages;
};

#define BAD "invalid_request_error"

static const struct expected table[] = {
    {HTTP_MISSING_KEY, 401, 401, "authentication_error", "missing_api_key", "authentication_error"},
    {HTTP_INVALID_KEY, 401, 401, "authentication_error", "invalid_api_key", "authentication_error"},
    {HTTP_ADMIN_KEY, 403, 403, "permission_error", "admin_key_required", "permission_error"},
    {HTTP_INVALID_JSON, 400, 400, BAD, "invalid_json", BAD},
    {HTTP_MISSING_FIELD, 400, 400, BAD, "missing_required_parameter", BAD},
    {HTTP_INVALID_TYPE, 400, 400, BAD, "invalid_type", BAD},
    {HTTP_INVALID_VALUE, 400, 400, BAD, "invalid_value", BAD},
    {HTTP_UNSUPPORTED_VALUE, 400, 400, BAD, "unsupported_value", BAD},
    {HTTP_UNSUPPORTED_PARAMETER, 400, 400, BAD, "unsupported_parameter", BAD},
    {HTTP_UNSUPPORTED_THREAD, 400, 400, BAD, "unsupported_parameter", BAD},
    {HTTP_UNSUPPORTED_CONTENT, 400, 400, BAD, "unsupported_content_type", BAD},
    {HTTP_GRAMMAR, 400, 400, BAD, "unsupported_value", BAD},
    {HTTP_UNSUPPORTED_MODEL, 400, 400, BAD, "unsupported_model", BAD},
    {HTTP_MODEL_NOT_FOUND, 404, 404, BAD, "model_not_found", "not_found_error"},
    {HTTP_RESPONSE_NOT_FOUND, 404, 404, BAD, "response_not_found", "not_found_error"},
    {HTTP_CONTEXT_LENGTH, 400, 400, BAD, "context_length_exceeded", BAD},
    {HTTP_TOO_LARGE, 413, 413, BAD, "request_too_large", "request_too_large"},
    {HTTP_MEDIA_TYPE, 415, 415, BAD, "unsupported_media_type", BAD},
    {HTTP_CONTENT_ENCODING, 415, 415, BAD, "unsupported_content_encoding", BAD},
    {HTTP_METHOD, 405, 405, BAD, "method_not_allowed", BAD},
    {HTTP_UNKNOWN_URL, 404, 404, BAD, "unknown_url", "not_found_error"},
    {HTTP_OVERLOADED, 503, 529, "server_error", "overloaded", "overloaded_error"},
    {HTTP_CROWDED, 503, 529, "server_error", "overloaded", "overloaded_error"},
    {HTTP_UNAVAILABLE, 503, 503, "server_error", "unavailable", "api_error"},
    {HTTP_NO_ROOM, 507, 507, "server_error", "insufficient_memory", "api_error"},
    {HTTP_NO_DISK, 507, 507, "server_error", "insufficient_storage", "api_error"},
    {HTTP_TIMEOUT, 504, 504, "server_error", "timeout", "timeout_error"},
    {HTTP_INTERNAL, 500, 500, "server_error", "internal_error", "api_error"},
    {HTTP_INTERNAL_SAME, 500, 500, "server_error", "internal_error", "api_error"},
};

static json_t *body_of(const struct http_failure *failure, enum shape shape)
{
    struct json_buffer out = {0};
    http_error_body(&out, failure, shape, text_of("req_1"));
    json_t *parsed = json_loadb(out.at, out.bytes, JSON_REJECT_DUPLICATES, NULL);
    json_buffer_free(&out);
    assert_non_null(parsed);
    return parsed;
}

static const char *string_of(const json_t *object, const char *key)
{
    const char *value = json_string_value(json_object_get(object, key));
    return value ? value : "(none)";
}

static void openai_row(const struct expected *row)
{
    struct http_failure failure = {.error = row->error,
                                   .param = "a.b",
                                   .message = text_of("say \"x\"\n"),
                                   .prompt_tokens = 9,
                                   .context_tokens = 8};
    assert_int_equal(http_error_status(row->error, SHAPE_OPENAI), row->status_openai);
    json_t *body = body_of(&failure, SHAPE_OPENAI);
    const json_t *error = json_object_get(body, "error");
    assert_int_equal(json_object_size(body), 1);
    assert_string_equal(string_of(error, "message"), "say \"x\"\n");
    assert_string_equal(string_of(error, "type"), row->type_openai);
    assert_string_equal(string_of(error, "code"), row->code);
    assert_string_equal(string_of(error, "param"), "a.b");
    bool context = row->error == HTTP_CONTEXT_LENGTH;
    assert_int_equal(json_object_size(error), context ? 6 : 4);
    if (context)
        assert_int_equal(json_integer_value(json_object_get(error, "n_prompt_tokens")), 9);
    json_decref(body);
}

static void messages_row(const struct expected *row)
{
    struct http_failure failure = {
        .error = row->error, .message = text_of("text"), .prompt_tokens = 9, .context_tokens = 8};
    assert_int_equal(http_error_status(row->error, SHAPE_MESSAGES), row->status_messages);
    json_t *body = body_of(&failure, SHAPE_MESSAGES);
    const json_t *error = json_object_get(body, "error");
    assert_string_equal(string_of(body, "type"), "error");
    assert_string_equal(string_of(body, "request_id"), "req_1");
    assert_string_equal(string_of(error, "type"), row->type_messages);
    assert_string_equal(
        string_of(error, "message"),
        row->error == HTTP_CONTEXT_LENGTH ? "prompt is too long: 9 tokens > 8 maximum" : "text");
    const json_t *details = json_object_get(error, "details");
    bool thread = row->error == HTTP_UNSUPPORTED_THREAD;
    assert_int_equal(json_object_size(error), thread ? 3 : 2);
    if (thread)
        assert_string_equal(string_of(details, "error_code"), "thread_unsupported_request");
    json_decref(body);
}

static void test_every_row(void **state)
{
    (void)state;
    assert_int_equal(sizeof table / sizeof *table, HTTP_ERROR_COUNT);
    for (int i = 0; i < HTTP_ERROR_COUNT; i++) {
        assert_int_equal(table[i].error, i); // each error once
        openai_row(&table[i]);
        messages_row(&table[i]);
    }
}

static void test_param_is_null_when_absent(void **state)
{
    (void)state;
    struct http_failure failure = {.error = HTTP_INVALID_JSON, .message = text_of("m")};
    json_t *body = body_of(&failure, SHAPE_OPENAI);
    assert_true(json_is_null(json_object_get(json_object_get(body, "error"), "param")));
    json_decref(body);
}

// If a message quotes arbitrary bytes, the body is still valid UTF-8 (jansson's parser is strict).
static void test_quoted_bytes(void **state)
{
    (void)state;
    static const char *const quoted[][2] = {
        {"a\xff\xfe"
         "b",
         "a\xef\xbf\xbd\xef\xbf\xbd"
         "b"},
        {"\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80", "\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80"},
        {"cut \xe2\x82", "cut \xef\xbf\xbd"}, // one replacement character
        {"\xf0\x9f\x98 b", "\xef\xbf\xbd b"},
        {"\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd"},                 // overlong
        {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}, // a surrogate
        {"\xf4\x90\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
    };
    for (size_t i = 0; i < sizeof quoted / sizeof *quoted; i++) {
        struct http_failure failure = {.error = HTTP_UNKNOWN_URL, .message = text_of(quoted[i][0])};
        json_t *body = body_of(&failure, SHAPE_OPENAI);
        assert_string_equal(string_of(json_object_get(body, "error"), "message"), quoted[i][1]);
        json_decref(body);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_row),
        cmocka_unit_test(test_param_is_null_when_absent),
        cmocka_unit_test(test_quoted_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
