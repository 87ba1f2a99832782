// Cases of fields, shared by the tests of endpoints: an endpoint with the least it needs, and what
// a body with one field more must give.
#pragma once

#include "api_fake.h"

struct endpoint {
    enum model_kind kind;
    const char *path;
    const char *base; // fields without which no request is whole
};

extern const struct endpoint chat_endpoint, completions_endpoint, messages_endpoint,
    responses_endpoint, embeddings_endpoint, rerank_endpoint;

// A request with these members more; the fakes stay for a look until fake_end.
void request(const struct endpoint *e, const char *more);
void request_now(const struct endpoint *e, const char *more); // the same after fake_begin
void expect_ok(const struct endpoint *e, const char *more);
void expect_error(const struct endpoint *e, const char *more, int status, const char *code,
                  const char *param);

struct field_case {
    const struct endpoint *endpoint;
    const char *name;
    const char *types; // that it takes, a letter each: b bool, i integer, n number, s string, a, o
    const char *good[4];
    const char *bad[5]; // right type, wrong value
};

// Null, good values, bad values and values of all other types.
void cases_check(const struct field_case *cases, size_t count);
