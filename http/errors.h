// One table from what went wrong to status, type and code in both body shapes.
#pragma once

#include "base/json.h"

enum shape { SHAPE_OPENAI, SHAPE_MESSAGES };

enum http_error {
    HTTP_MISSING_KEY,
    HTTP_INVALID_KEY,
    HTTP_INVALID_JSON,
    HTTP_MISSING_FIELD,
    HTTP_INVALID_TYPE,
    HTTP_INVALID_VALUE,
    HTTP_UNSUPPORTED_VALUE,
    HTTP_UNSUPPORTED_PARAMETER,
    HTTP_UNSUPPORTED_THREAD, // a conversation that the server is to keep
    HTTP_UNSUPPORTED_CONTENT,
    HTTP_GRAMMAR,           // 400, seen while the answer was made: x-should-retry: false
    HTTP_UNSUPPORTED_MODEL, // endpoint does not fit the model's kind
    HTTP_MODEL_NOT_FOUND,
    HTTP_RESPONSE_NOT_FOUND,
    HTTP_CONTEXT_LENGTH,
    HTTP_TOO_LARGE,        // 413
    HTTP_MEDIA_TYPE,       // 415
    HTTP_CONTENT_ENCODING, // 415
    HTTP_METHOD,           // 405
    HTTP_UNKNOWN_URL,      // 404
    HTTP_OVERLOADED,       // 503 / 529
    HTTP_CROWDED,          // 503 / 529, seen while the answer was made: x-should-retry: true
    HTTP_UNAVAILABLE,      // 503 loading or draining
    HTTP_TIMEOUT,          // 504
    HTTP_INTERNAL,         // 500
    HTTP_INTERNAL_SAME,    // 500, the same input fails again: x-should-retry: false
    HTTP_ERROR_COUNT
};

// What a handler says about a failure; texts are borrowed until exchange_fail returns.
struct http_failure {
    enum http_error error;
    const char *param;                      // JSON path, or NULL
    struct text message;                    // one sentence
    uint32_t prompt_tokens, context_tokens; // HTTP_CONTEXT_LENGTH only
    bool tokens_more; // prompt_tokens is a lower bound: counting stopped there
};

int http_error_status(enum http_error error, enum shape shape);
const char *http_error_code(enum http_error error);

// The whole body: {"error":{...}} or {"type":"error",...,"request_id":...}.
void http_error_body(struct json_buffer *out, const struct http_failure *failure, enum shape shape,
                     struct text request_id);

// The inner {"message":...,"type":...,"param":...,"code":...} or {"type":...,"message":...}, for
// error events inside a stream.
void http_error_object(struct json_buffer *out, const struct http_failure *failure,
                       enum shape shape);

// Of it "message":"..." and the value of param. Messages may quote what is no UTF-8: that becomes
// U+FFFD.
void http_error_message(struct json_buffer *out, const struct http_failure *failure,
                        enum shape shape);
void http_error_param(struct json_buffer *out, const struct http_failure *failure);
