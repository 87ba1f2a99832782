// SPDX-License-Identifier: Apache-2.0
// See api_cases.h.
#include "api_cases.h"

const struct endpoint chat_endpoint = {
    MODEL_GENERATOR, "/v1/chat/completions",
    "\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]"};
const struct endpoint messages_endpoint = {
    MODEL_GENERATOR, "/v1/messages",
    "\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]"};
const struct endpoint completions_endpoint = {MODEL_GENERATOR, "/v1/completions",
                                              "\"model\":\"m\",\"prompt\":\"hi\""};
const struct endpoint responses_endpoint = {MODEL_GENERATOR, "/v1/responses",
                                            "\"model\":\"m\",\"input\":\"hi\""};
const struct endpoint embeddings_endpoint = {MODEL_EMBEDDER, "/v1/embeddings",
                                             "\"model\":\"m\",\"input\":\"hi\""};
const struct endpoint rerank_endpoint = {MODEL_RERANKER, "/v1/rerank",
                                         "\"model\":\"m\",\"query\":\"q\",\"documents\":[\"d\"]"};

void sent_has(const char *text)
{
    if (!strstr(fake.sent, text))
        fail_msg("'%s' lacks '%s'", fake.sent, text);
}

void sent_lacks(const char *text)
{
    if (strstr(fake.sent, text))
        fail_msg("'%s' has '%s'", fake.sent, text);
}

void request_now(const struct endpoint *e, const char *more)
{
    char body[65536];

    // Duplicate keys: the last one wins, so a case may replace a field of the base.
    snprintf(body, sizeof body, "{%s%s%s}", e->base, *more ? "," : "", more);
    fake_request(e->path, body);
}

void request(const struct endpoint *e, const char *more)
{
    fake_begin(e->kind);
    request_now(e, more);
}

void expect_ok(const struct endpoint *e, const char *more)
{
    request(e, more);
    if (fake.submits != 1)
        fail_msg("%s {%s}: %s", e->path, more, fake.sent);
    fake_end();
}

void expect_error(const struct endpoint *e, const char *more, int status, const char *code,
                  const char *param)
{
    request(e, more);
    if (fake.status != status || fake.submits != 0)
        fail_msg("%s {%s}: status %d, %s", e->path, more, fake.status, fake.sent);
    json_t *body = fake_json();
    const json_t *error = json_object_get(body, "error");
    const char *says_code = json_string_value(json_object_get(error, "code"));
    const char *says_param = json_string_value(json_object_get(error, "param"));
    if (e != &messages_endpoint && (!says_code || strcmp(says_code, code) != 0 || !says_param ||
                                    strcmp(says_param, param) != 0)) {
        fail_msg("%s {%s}: wants %s %s, got %s", e->path, more, code, param, fake.sent);
    }
    // OpenAI: 'field' ...; Messages: field: ...
    const char *message = json_string_value(json_object_get(error, "message"));
    if (e == &messages_endpoint && strncmp(message, param, strlen(param)) != 0)
        fail_msg("%s {%s}: %s", e->path, more, message);
    json_decref(body);
    fake_end();
}

// A sample value of each JSON type.
static const struct {
    char type;
    const char *value;
} values[] = {
    {'b', "true"}, {'i', "1"}, {'n', "0.5"}, {'s', "\"text\""}, {'a', "[]"}, {'o', "{}"},
};

static bool takes(const struct field_case *c, char type)
{
    return strchr(c->types, type) != NULL;
}

void cases_check(const struct field_case *cases, size_t count)
{
    char more[256];
    for (size_t i = 0; i < count; i++) {
        const struct field_case *c = &cases[i];
        snprintf(more, sizeof more, "\"%s\":null", c->name);
        expect_ok(c->endpoint, more);
        for (int k = 0; k < 4 && c->good[k]; k++) {
            snprintf(more, sizeof more, "\"%s\":%s", c->name, c->good[k]);
            expect_ok(c->endpoint, more);
        }
        for (int k = 0; k < 5 && c->bad[k]; k++) {
            snprintf(more, sizeof more, "\"%s\":%s", c->name, c->bad[k]);
            expect_error(c->endpoint, more, 400, "invalid_value", c->name);
        }
        for (size_t k = 0; k < sizeof values / sizeof values[0]; k++) {
            if (!takes(c, values[k].type)) {
                snprintf(more, sizeof more, "\"%s\":%s", c->name, values[k].value);
                expect_error(c->endpoint, more, 400, "invalid_type", c->name);
            }
        }
    }
}

static void case_answer(const struct api_case *c)
{
    fake_text(c->text);
    if (c->finish == FINISH_CANCEL)
        fake_ready(); // finds the stop string for which the engine cancels
    if (c->finish != FINISH_NONE)
        fake_finish(c->finish, c->last != 0 ? c->last : c->finish == FINISH_STOP ? FAKE_END : -1);
    fake_ready();
}

static void case_run(const struct api_case *c)
{
    fake_again();
    if (c->begin)
        c->begin();
    fake_request(c->path, c->body);
    if (c->text)
        case_answer(c);
    if (fake.status != c->status)
        fail_msg("%s: status %d, %s", c->name, fake.status, fake.sent);
    if (c->status == 0)
        assert_int_equal(fake.submits, 1);
    for (size_t i = 0; i < sizeof c->has / sizeof *c->has && c->has[i]; i++)
        if (!strstr(fake.sent, c->has[i]))
            fail_msg("%s: '%s' lacks '%s'", c->name, fake.sent, c->has[i]);
    for (size_t i = 0; i < sizeof c->lacks / sizeof *c->lacks && c->lacks[i]; i++)
        if (strstr(fake.sent, c->lacks[i]))
            fail_msg("%s: '%s' has '%s'", c->name, fake.sent, c->lacks[i]);
}

void api_cases_run(const struct api_case *cases, size_t count)
{
    for (size_t i = 0; i < count; i++)
        case_run(&cases[i]);
}
