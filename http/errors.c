// SPDX-License-Identifier: Apache-2.0
// The table of failures (docs/API.md, "Errors") and the bodies that report them in both shapes.
// Pure: no socket, no thread; texts are borrowed for the call.
#include "http/errors.h"

#include "base/status.h"

#include <stdio.h>

struct error_row {
    int status_openai, status_messages;
    const char *type_openai, *code, *type_messages;
};

static const char bad[] = "invalid_request_error";

static const struct error_row rows[HTTP_ERROR_COUNT] = {
    [HTTP_MISSING_KEY] = {401, 401, "authentication_error", "missing_api_key",
                          "authentication_error"},
    [HTTP_INVALID_KEY] = {401, 401, "authentication_error", "invalid_api_key",
                          "authentication_error"},
    [HTTP_ADMIN_KEY] = {403, 403, "permission_error", "admin_key_required", "permission_error"},
    [HTTP_INVALID_JSON] = {400, 400, bad, "invalid_json", bad},
    [HTTP_MISSING_FIELD] = {400, 400, bad, "missing_required_parameter", bad},
    [HTTP_INVALID_TYPE] = {400, 400, bad, "invalid_type", bad},
    [HTTP_INVALID_VALUE] = {400, 400, bad, "invalid_value", bad},
    [HTTP_UNSUPPORTED_VALUE] = {400, 400, bad, "unsupported_value", bad},
    [HTTP_UNSUPPORTED_PARAMETER] = {400, 400, bad, "unsupported_parameter", bad},
    [HTTP_UNSUPPORTED_THREAD] = {400, 400, bad, "unsupported_parameter", bad},
    [HTTP_GRAMMAR] = {400, 400, bad, "unsupported_value", bad},
    [HTTP_UNSUPPORTED_CONTENT] = {400, 400, bad, "unsupported_content_type", bad},
    [HTTP_UNSUPPORTED_MODEL] = {400, 400, bad, "unsupported_model", bad},
    [HTTP_MODEL_NOT_FOUND] = {404, 404, bad, "model_not_found", "not_found_error"},
    [HTTP_RESPONSE_NOT_FOUND] = {404, 404, bad, "response_not_found", "not_found_error"},
    [HTTP_CONTEXT_LENGTH] = {400, 400, bad, "context_length_exceeded", bad},
    [HTTP_TOO_LARGE] = {413, 413, bad, "request_too_large", "request_too_large"},
    [HTTP_MEDIA_TYPE] = {415, 415, bad, "unsupported_media_type", bad},
    [HTTP_CONTENT_ENCODING] = {415, 415, bad, "unsupported_content_encoding", bad},
    [HTTP_METHOD] = {405, 405, bad, "method_not_allowed", bad},
    [HTTP_UNKNOWN_URL] = {404, 404, bad, "unknown_url", "not_found_error"},
    [HTTP_OVERLOADED] = {503, 529, "server_error", "overloaded", "overloaded_error"},
    [HTTP_CROWDED] = {503, 529, "server_error", "overloaded", "overloaded_error"},
    [HTTP_UNAVAILABLE] = {503, 503, "server_error", "unavailable", "api_error"},
    [HTTP_NO_ROOM] = {507, 507, "server_error", "insufficient_memory", "api_error"},
    [HTTP_NO_DISK] = {507, 507, "server_error", "insufficient_storage", "api_error"},
    [HTTP_TIMEOUT] = {504, 504, "server_error", "timeout", "timeout_error"},
    [HTTP_INTERNAL] = {500, 500, "server_error", "internal_error", "api_error"},
    [HTTP_INTERNAL_SAME] = {500, 500, "server_error", "internal_error", "api_error"},
};

static const struct error_row *row_of(enum http_error error)
{
    check((unsigned)error < HTTP_ERROR_COUNT && rows[error].code, "error %d", (int)error);
    return &rows[error];
}

int http_error_status(enum http_error error, enum shape shape)
{
    const struct error_row *row = row_of(error);
    return shape == SHAPE_MESSAGES ? row->status_messages : row->status_openai;
}

const char *http_error_code(enum http_error error)
{
    return row_of(error)->code;
}

void http_error_message(struct json_buffer *out, const struct http_failure *failure,
                        enum shape shape)
{
    json_put_literal(out, "\"message\":\"");
    if (shape == SHAPE_MESSAGES && failure->error == HTTP_CONTEXT_LENGTH) {
        json_put_format(out, "prompt is too long: %u tokens > %u maximum", failure->prompt_tokens,
                        failure->context_tokens);
        if (failure->tokens_more)
            json_put_format(out, "; it has more than %u tokens, the rest was not counted",
                            failure->prompt_tokens - 1);
    } else {
        json_put_lossy(out, failure->message);
    }
    json_put_literal(out, "\"");
}

void http_error_param(struct json_buffer *out, const struct http_failure *failure)
{
    if (failure->param)
        json_put_string(out, text_of(failure->param));
    else
        json_put_literal(out, "null");
}

void http_error_object(struct json_buffer *out, const struct http_failure *failure,
                       enum shape shape)
{
    const struct error_row *row = row_of(failure->error);
    json_put_literal(out, "{");
    if (shape == SHAPE_MESSAGES) {
        json_put_format(out, "\"type\":\"%s\",", row->type_messages);
        http_error_message(out, failure, shape);
        // makes the client resend the complete conversation
        if (failure->error == HTTP_UNSUPPORTED_THREAD)
            json_put_literal(out, ",\"details\":{\"error_code\":\"thread_unsupported_request\","
                                  "\"unsupported\":[\"thread\"]}");
        json_put_literal(out, "}");
        return;
    }
    http_error_message(out, failure, shape);
    json_put_format(out, ",\"type\":\"%s\",\"param\":", row->type_openai);
    http_error_param(out, failure);
    json_put_format(out, ",\"code\":\"%s\"", row->code);
    if (failure->error == HTTP_CONTEXT_LENGTH)
        json_put_format(out, ",\"n_prompt_tokens\":%u,\"n_ctx\":%u", failure->prompt_tokens,
                        failure->context_tokens);
    json_put_literal(out, "}");
}

void http_error_body(struct json_buffer *out, const struct http_failure *failure, enum shape shape,
                     struct text request_id)
{
    json_put_literal(out,
                     shape == SHAPE_MESSAGES ? "{\"type\":\"error\",\"error\":" : "{\"error\":");
    http_error_object(out, failure, shape);
    if (shape == SHAPE_MESSAGES)
        json_put_member(out, ",\"request_id\":", request_id);
    json_put_literal(out, "}");
}
