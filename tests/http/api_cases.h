// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of endpoints: definitions of tests, endpoints with minimal bodies, and tables
// of bodies with one additional field and its result. Single-threaded.
#pragma once

#include "api_fake.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

// Begins the definition of a test function and adds it to the program's tests, which run in the
// order of their definition. setup: starts a fake that fake_teardown ends; NULL: neither is called.
// A program with such tests has the main function of api_main.c.
#define API_TEST(name, setup)                                                                      \
    static void name(void);                                                                        \
    __attribute__((constructor)) static void name##_add(void)                                      \
    {                                                                                              \
        api_test_add(#name, name, setup);                                                          \
    }                                                                                              \
    static void name(void)

void api_test_add(const char *name, void (*test)(void), int (*setup)(void **state));

void sent_has(const char *text); // fails unless the fake's response has this text
void sent_lacks(const char *text);

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
    // Accepted types, a letter each: b bool, i integer, n number, s string, a array, o object.
    const char *types;
    const char *good[4];
    const char *bad[5]; // accepted type, but invalid value
};

// Sends each field with null, the good values, the bad values, and a value of each other type.
void cases_check(const struct field_case *cases, size_t count);

// A request, the scripted answer of the model, and the expected response.
struct api_case {
    const char *name;    // shown if the case fails
    void (*begin)(void); // changes the fresh fake before the request, or NULL
    const char *path, *body;
    const char *text;   // the answer, a token per byte; NULL: no event
    enum finish finish; // of the answer; FINISH_NONE: it goes on
    int32_t last;       // token of the finish event; 0: FAKE_END after FINISH_STOP, else none
    int status;         // 0: submitted, not answered yet
    const char *has[5]; // texts in the response
    const char *lacks[2];
};

// Runs each case in a fresh exchange (fake_again). The last one is left open.
void api_cases_run(const struct api_case *cases, size_t count);
#define API_CASES_RUN(cases) api_cases_run(cases, sizeof(cases) / sizeof *(cases))
