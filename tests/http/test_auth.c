// SPDX-License-Identifier: Apache-2.0
// Headers that carry a key (docs/API.md), case by case; opening fails with a key that no header can
// carry.
#include "http/auth.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

struct header_case {
    uint32_t flags;
    uint32_t bearer_count;
    const char *bearer;
    uint32_t x_count;
    const char *x;
    bool allowed;
    enum http_error error;
    const char *hint; // must be in the message
    uint32_t key_id;
};

enum { B = ROUTE_BEARER, X = ROUTE_X_API_KEY };

static const struct header_case cases[] = {
    {B, 1, "Bearer k1", 0, "", true, 0, NULL, 0},
    {B, 1, "bearer k2", 0, "", true, 0, NULL, 1},
    {B, 1, "BEARER    k1  ", 0, "", true, 0, NULL, 0},
    {B, 0, "", 0, "", false, HTTP_MISSING_KEY, "Authorization: Bearer", 0},
    {B, 1, "Bearer", 0, "", false, HTTP_MISSING_KEY, "Authorization: Bearer", 0},
    {B, 1, "Bearer ", 0, "", false, HTTP_MISSING_KEY, "Authorization: Bearer", 0},
    {B, 1, "Bearerk1", 0, "", false, HTTP_MISSING_KEY, "Authorization: Bearer", 0},
    {B, 1, "Basic azE6", 0, "", false, HTTP_MISSING_KEY, "Authorization: Bearer", 0},
    {B, 1, "k1", 0, "", false, HTTP_MISSING_KEY, "Authorization: Bearer", 0},
    {B, 2, "Bearer k1", 0, "", false, HTTP_INVALID_KEY, "more than once", 0},
    {B, 1, "Bearer k3", 0, "", false, HTTP_INVALID_KEY, "not valid", 0},
    {B, 1, "Bearer k", 0, "", false, HTTP_INVALID_KEY, "not valid", 0},
    {B, 1, "Bearer k11", 0, "", false, HTTP_INVALID_KEY, "not valid", 0},
    {B, 0, "", 1, "k1", true, 0, NULL, 0},
    {B, 1, "Basic azE6", 1, "k2", true, 0, NULL, 1}, // no key: the other header decides
    {B, 1, "Bearer wrong", 1, "k1", false, HTTP_INVALID_KEY, "not valid", 0},
    {B, 1, "Bearer k1", 2, "k1", false, HTTP_INVALID_KEY, "'x-api-key' was sent more", 0},
    {B, 1, "Bearer k1", 1, "wrong", true, 0, NULL, 0}, // Bearer alone decides
    {X, 0, "", 1, "k1", true, 0, NULL, 0},
    {X, 1, "Bearer k2", 0, "", true, 0, NULL, 1},
    {X, 1, "Bearer k1", 1, "wrong", false, HTTP_INVALID_KEY, "not valid", 0},
    {X, 1, "Bearer wrong", 1, "k2", true, 0, NULL, 1},
    {X, 1, "Bearer k1", 1, "", true, 0, NULL, 0},
    {X, 0, "", 2, "k1", false, HTTP_INVALID_KEY, "more than once", 0},
    {X, 0, "", 0, "", false, HTTP_MISSING_KEY, "x-api-key: KEY", 0},
    {ROUTE_OPEN, 0, "", 0, "", true, 0, NULL, 0},
};

static struct verdict checked(const struct keys *keys, uint32_t flags, struct credential bearer,
                              struct credential x_api_key)
{
    struct credential sent[CREDENTIAL_COUNT] = {
        [CREDENTIAL_AUTHORIZATION] = bearer, [CREDENTIAL_X_API_KEY] = x_api_key};
    return keys_check(keys, flags, sent);
}

static void test_headers(void **state)
{
    (void)state;
    static const char *const plain[] = {"k1", "k2"};
    struct keys *keys;
    struct error err;
    assert_int_equal(keys_open(&keys, plain, 2, &err), STATUS_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct header_case *c = &cases[i];
        struct verdict v =
            checked(keys, c->flags, (struct credential){c->bearer_count, text_of(c->bearer)},
                    (struct credential){c->x_count, text_of(c->x)});
        if (v.allowed != c->allowed || (!v.allowed && v.error != c->error))
            fail_msg("case %zu: allowed %d, error %d", i, v.allowed, (int)v.error);
        if (v.allowed && !(c->flags & ROUTE_OPEN))
            assert_int_equal(v.key_id, c->key_id);
        if (c->hint && !strstr(v.message, c->hint))
            fail_msg("case %zu: '%s' lacks '%s'", i, v.message, c->hint);
    }
    keys_close(keys);
}

// api-key is read on every route, after the other two.
static void test_api_key(void **state)
{
    (void)state;
    static const char *const plain[] = {"k1", "k2"};
    struct keys *keys;
    struct error err;
    assert_int_equal(keys_open(&keys, plain, 2, &err), STATUS_OK);
    for (int x = 0; x < 2; x++) {
        struct credential sent[CREDENTIAL_COUNT] = {{0}};
        uint32_t flags = x ? X : B;
        sent[CREDENTIAL_API_KEY] = (struct credential){1, text_of("k2")};
        assert_true(keys_check(keys, flags, sent).allowed);
        assert_true(keys_any_valid(keys, sent));
        sent[x ? CREDENTIAL_AUTHORIZATION : CREDENTIAL_X_API_KEY] =
            (struct credential){1, text_of(x ? "Bearer k1" : "k1")};
        assert_int_equal(keys_check(keys, flags, sent).key_id, 0);
        sent[CREDENTIAL_API_KEY].count = 2;
        assert_false(keys_check(keys, flags, sent).allowed);
    }
    keys_close(keys);
}

static void test_keys_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"", "two words", "line\n", "\xc3\xa4"};
    struct keys *keys = NULL;
    struct error err;
    assert_int_equal(keys_open(&keys, NULL, 0, &err), STATUS_INVALID);
    assert_non_null(strstr(err.text, "--api-key"));
    for (int i = 0; i < 4; i++) {
        assert_int_equal(keys_open(&keys, &bad[i], 1, &err), STATUS_INVALID);
        if (bad[i][0] != '\0')
            assert_null(strstr(err.text, bad[i])); // an error never contains a key
    }
}

// No key is kept in memory: the store holds only salted hashes, so two stores with the same key
// contain different bytes. Here: both accept the key.
static void test_two_stores_agree(void **state)
{
    (void)state;
    static const char *const plain[] = {"same"};
    struct keys *a, *b;
    struct error err;
    assert_int_equal(keys_open(&a, plain, 1, &err), STATUS_OK);
    assert_int_equal(keys_open(&b, plain, 1, &err), STATUS_OK);
    assert_memory_not_equal(a, b, 32); // the salts
    struct credential sent = {1, text_of("Bearer same")}, none = {0, text_of("")};
    assert_true(checked(a, ROUTE_BEARER, sent, none).allowed);
    assert_true(checked(b, ROUTE_BEARER, sent, none).allowed);
    keys_close(a);
    keys_close(b);
}

// The first keys are permanent, the others are replaced.
static void test_renewed(void **state)
{
    (void)state;
    static const char *const plain[] = {"fixed", "old"}, *const fresh[] = {"new", "fixed"};
    static const char *const bad[] = {"good", "b d"};
    struct keys *old, *renewed, *refused;
    struct error err;
    struct credential none = {0, text_of("")};
    assert_int_equal(keys_open(&old, plain, 2, &err), STATUS_OK);
    assert_int_equal(keys_renew(&refused, old, 1, bad, 2, &err), STATUS_INVALID);
    assert_int_equal(keys_renew(&refused, old, 0, NULL, 0, &err), STATUS_INVALID);
    assert_int_equal(keys_renew(&renewed, old, 1, fresh, 2, &err), STATUS_OK);
    keys_close(old);
    struct verdict verdict =
        checked(renewed, ROUTE_BEARER, (struct credential){1, text_of("Bearer fixed")}, none);
    assert_true(verdict.allowed);
    assert_int_equal(verdict.key_id, 0);
    verdict = checked(renewed, ROUTE_BEARER, (struct credential){1, text_of("Bearer new")}, none);
    assert_true(verdict.allowed);
    assert_int_equal(verdict.key_id, 2); // 1 was another key
    assert_false(checked(renewed, ROUTE_BEARER, (struct credential){1, text_of("Bearer old")}, none)
                     .allowed);
    keys_close(renewed);
}

static uint32_t id_of(const struct keys *keys, const char *plain)
{
    struct credential none = {0, text_of("")}, sent = {1, text_of(plain)};
    struct verdict verdict = checked(keys, ROUTE_X_API_KEY, none, sent);
    assert_true(verdict.allowed);
    return verdict.key_id;
}

// A key keeps its id at any position in the new list; a key that is removed and added again gets a
// new id.
static void test_ids_stay(void **state)
{
    (void)state;
    static const char *const first[] = {"fixed", "a", "b", "c"}, *const then[] = {"c", "d", "a"},
                             *const last[] = {"b", "a"};
    struct keys *keys, *renewed;
    struct error err;
    assert_int_equal(keys_open(&keys, first, 4, &err), STATUS_OK);
    assert_int_equal(keys_renew(&renewed, keys, 1, then, 3, &err), STATUS_OK);
    keys_close(keys);
    assert_int_equal(id_of(renewed, "fixed"), 0);
    assert_int_equal(id_of(renewed, "a"), 1);
    assert_int_equal(id_of(renewed, "c"), 3);
    assert_int_equal(id_of(renewed, "d"), 4);
    assert_int_equal(keys_renew(&keys, renewed, 1, last, 2, &err), STATUS_OK);
    keys_close(renewed);
    assert_int_equal(id_of(keys, "a"), 1);
    assert_int_equal(id_of(keys, "b"), 5);
    keys_close(keys);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_headers),      cmocka_unit_test(test_api_key),
        cmocka_unit_test(test_keys_refused), cmocka_unit_test(test_two_stores_agree),
        cmocka_unit_test(test_renewed),      cmocka_unit_test(test_ids_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
