// SPDX-License-Identifier: Apache-2.0
// The table that maps each failure to HTTP status, error type and error code, for OpenAI-shaped and
// Messages-shaped bodies.
#pragma once

#include "base/json.h"

enum shape { SHAPE_OPENAI, SHAPE_MESSAGES };

enum http_error {
    HTTP_MISSING_KEY,
    HTTP_INVALID_KEY,
    HTTP_ADMIN_KEY, // 403, the key is valid, but the route needs one of --admin-key
    HTTP_INVALID_JSON,
    HTTP_MISSING_FIELD,
    HTTP_INVALID_TYPE,
    HTTP_INVALID_VALUE,
    HTTP_UNSUPPORTED_VALUE,
    HTTP_UNSUPPORTED_PARAMETER,
    HTTP_UNSUPPORTED_THREAD, // a request to continue a conversation stored on the server
    HTTP_UNSUPPORTED_CONTENT,
    HTTP_GRAMMAR, // 400, found while the answer was generated; sends x-should-retry: false
    HTTP_UNSUPPORTED_MODEL, // 400, the endpoint does not support this kind of model
    HTTP_MODEL_NOT_FOUND,
    HTTP_RESPONSE_NOT_FOUND,
    HTTP_CONTEXT_LENGTH,
    HTTP_TOO_LARGE,        // 413
    HTTP_MEDIA_TYPE,       // 415
    HTTP_CONTENT_ENCODING, // 415
    HTTP_METHOD,           // 405
    HTTP_UNKNOWN_URL,      // 404
    HTTP_OVERLOADED,       // 503 / 529, the queue is full
    HTTP_CROWDED,     // 503 / 529, found while the answer was generated; sends x-should-retry: true
    HTTP_UNAVAILABLE, // 503, loading or draining
    HTTP_NO_ROOM,     // 507, a model to be loaded does not fit into the memory
    HTTP_NO_DISK,     // 507, a model to be downloaded does not fit on the disk
    HTTP_TIMEOUT,     // 504
    HTTP_INTERNAL,    // 500
    HTTP_INTERNAL_SAME, // 500, and the same input would fail again; sends x-should-retry: false
    HTTP_ERROR_COUNT
};

// A failure that a handler reports. Texts are borrowed until exchange_fail returns.
struct http_failure {
    enum http_error error;
    const char *param;                      // JSON path of the faulty field, or NULL
    struct text message;                    // one sentence for the client
    uint32_t prompt_tokens, context_tokens; // set for HTTP_CONTEXT_LENGTH only
    bool tokens_more; // true if prompt_tokens is only a lower bound because counting stopped early
};

int http_error_status(enum http_error error, enum shape shape);
const char *http_error_code(enum http_error error);

// Writes the complete body: {"error":{...}} or {"type":"error",...,"request_id":...}.
void http_error_body(struct json_buffer *out, const struct http_failure *failure, enum shape shape,
                     struct text request_id);

// Writes only the error object, for error events inside a stream:
// {"message":...,"type":...,"param":...,"code":...} or {"type":...,"message":...}.
void http_error_object(struct json_buffer *out, const struct http_failure *failure,
                       enum shape shape);

// Write single members of the error object: "message":"...", and the value of "param". Bytes of a
// message that are not UTF-8 become U+FFFD.
void http_error_message(struct json_buffer *out, const struct http_failure *failure,
                        enum shape shape);
void http_error_param(struct json_buffer *out, const struct http_failure *failure);
