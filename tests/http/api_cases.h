// Table-driven tests of request fields, shared by the endpoint tests: an endpoint with its minimal
// body, and the expected result of a body with one additional field.
#pragma once

#include "api_fake.h"

struct endpoint {
    enum model_kind kind;
    const char *path;
    const char *base; // required members, without the braces
};

extern const struct endpoint chat_endpoint, completions_endpoint, messages_endpoint,
    responses_endpoint, embeddings_endpoint, rerank_endpoint;

// Sends the endpoint's base body with additional members in a fresh fake. The caller calls
// fake_end.
void request(const struct endpoint *e, const char *more);
void request_now(const struct endpoint *e, const char *more); // in the current fake
void expect_ok(const struct endpoint *e, const char *more);
void expect_error(const struct endpoint *e, const char *more, int status, const char *code,
                  const char *param);

struct field_case {
    const struct endpoint *endpoint;
    const char *name;
    const char *types; // accepted types, a letter each: b bool, i integer, n number, s string, a
                       // array, o object
    const char *good[4];
    const char *bad[5]; // accepted type, but invalid value
};

// Sends each field with null, the good values, the bad values, and a value of each other type.
void cases_check(const struct field_case *cases, size_t count);
