// SPDX-License-Identifier: Apache-2.0
// TLS on loopback with a generated certificate: 1.3 is accepted, 1.1 is not, ALPN offers h2 only if
// enabled, streams work, a client that leaves an idle stream is detected, certificates are renewed
// while the server runs, and TLS 1.2 accepts the suites of its list only.
#include "tests/http/fixture.h"

#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static _Atomic long held; // number of OpenSSL's live allocations

static void *piece_take(size_t bytes, const char *file, int line)
{
    (void)file, (void)line;
    held++;
    return malloc(bytes);
}

static void *piece_resize(void *piece, size_t bytes, const char *file, int line)
{
    (void)file, (void)line;
    held += !piece;
    return realloc(piece, bytes);
}

static void piece_give(void *piece, const char *file, int line)
{
    (void)file, (void)line;
    held -= piece != NULL;
    free(piece);
}

static char cert_path[] = "/tmp/weft-cert-XXXXXX", key_path[] = "/tmp/weft-key-XXXXXX";

static EVP_PKEY *key_made(void)
{
    return EVP_EC_gen("P-256");
}

// Returns a certificate for this name and key, signed with issuer_key, or self-signed if that is
// NULL.
static X509 *cert_made(EVP_PKEY *key, const char *name, const X509 *issuer, EVP_PKEY *issuer_key)
{
    static long serial;
    X509 *cert = X509_new();
    ASN1_INTEGER_set(X509_get_serialNumber(cert), ++serial);
    X509_gmtime_adj(X509_getm_notBefore(cert), -60);
    X509_gmtime_adj(X509_getm_notAfter(cert), 3600);
    X509_set_pubkey(cert, key);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN", MBSTRING_ASC,
                               (const unsigned char *)name, -1, -1, 0);
    X509_set_issuer_name(cert, X509_get_subject_name(issuer ? issuer : cert));
    assert_true(X509_sign(cert, issuer_key ? issuer_key : key, EVP_sha256()) > 0);
    return cert;
}

static void cert_write(const char *path, X509 *first, X509 *second, const char *more)
{
    FILE *file = fopen(path, "w");
    assert_int_equal(PEM_write_X509(file, first), 1);
    if (second)
        assert_int_equal(PEM_write_X509(file, second), 1);
    fputs(more, file);
    fclose(file);
}

static void key_write(const char *path, EVP_PKEY *key)
{
    FILE *file = fopen(path, "w");
    assert_int_equal(PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL), 1);
    fclose(file);
}

// Writes a certificate and its key, which it frees.
static void pair_write(const char *name, EVP_PKEY *key)
{
    X509 *cert = cert_made(key, name, NULL, NULL);
    cert_write(cert_path, cert, NULL, "");
    key_write(key_path, key);
    X509_free(cert);
    EVP_PKEY_free(key);
}

static void files_write(const char *name)
{
    pair_write(name, key_made());
}

static void files_make(void)
{
    close(mkstemp(cert_path));
    close(mkstemp(key_path));
    files_write("localhost");
}

struct tls {
    struct http_client client;
    SSL_CTX *context;
    SSL *ssl;
    bool connected;
};

// ciphers: list of the suites of TLS 1.2 that the client offers; NULL: OpenSSL's default.
static void tls_open_ciphers(struct tls *tls, uint32_t port, int version_max, const char *ciphers)
{
    static const unsigned char alpn[] = "\x02h2\x08http/1.1";
    *tls = (struct tls){.context = SSL_CTX_new(TLS_client_method())};
    SSL_CTX_set_security_level(tls->context, 0);
    SSL_CTX_set_min_proto_version(tls->context, 0);
    SSL_CTX_set_max_proto_version(tls->context, version_max);
    SSL_CTX_set_alpn_protos(tls->context, alpn, sizeof alpn - 1);
    if (ciphers)
        assert_int_equal(SSL_CTX_set_cipher_list(tls->context, ciphers), 1);
    tls->ssl = SSL_new(tls->context);
    assert_true(http_client_open(&tls->client, port));
    SSL_set_fd(tls->ssl, tls->client.fd);
    tls->connected = SSL_connect(tls->ssl) == 1;
}

static void tls_open_client(struct tls *tls, uint32_t port, int version_max)
{
    tls_open_ciphers(tls, port, version_max, NULL);
}

static void tls_close_client(struct tls *tls)
{
    SSL_free(tls->ssl);
    SSL_CTX_free(tls->context);
    http_client_close(&tls->client);
}

static void tls_ask(struct tls *tls, const char *request, const char *wanted)
{
    char answer[4096];
    size_t bytes = 0;
    if (request[0] != '\0')
        assert_true(SSL_write(tls->ssl, request, (int)strlen(request)) > 0);
    while (bytes < sizeof answer - 1) {
        int got = SSL_read(tls->ssl, answer + bytes, (int)(sizeof answer - 1 - bytes));
        if (got <= 0)
            break;
        bytes += (size_t)got;
        answer[bytes] = '\0';
        if (strstr(answer, wanted))
            return;
    }
    fail_msg("'%s' did not come", wanted);
}

static void fixture_tls(struct fixture *f, int http2)
{
    struct server_options options = {
        .ssl_certfile = cert_path, .ssl_keyfile = key_path, .http2 = http2};
    fixture_open(f, &options, true);
}

static void test_versions(void **state)
{
    (void)state;
    static const int versions[] = {TLS1_3_VERSION, TLS1_2_VERSION, TLS1_1_VERSION};
    struct fixture f;
    fixture_tls(&f, 0);
    for (int i = 0; i < 3; i++) {
        struct tls tls;
        tls_open_client(&tls, f.port, versions[i]);
        assert_int_equal(tls.connected, i < 2);
        if (tls.connected) {
            assert_int_equal(SSL_version(tls.ssl), versions[i]);
            tls_ask(&tls, "GET /health HTTP/1.1\r\nHost: a\r\n\r\n", "{\"status\":\"ok\"}");
        }
        tls_close_client(&tls);
    }
    fixture_close(&f);
}

static void test_alpn(void **state)
{
    (void)state;
    for (int http2 = 0; http2 < 2; http2++) {
        struct fixture f;
        struct tls tls;
        const unsigned char *name;
        unsigned bytes;
        fixture_tls(&f, http2);
        tls_open_client(&tls, f.port, TLS1_3_VERSION);
        assert_true(tls.connected);
        SSL_get0_alpn_selected(tls.ssl, &name, &bytes);
        assert_int_equal(bytes == 2 && memcmp(name, "h2", 2) == 0, http2);
        tls_close_client(&tls);
        fixture_close(&f);
    }
}

static void test_stream_and_leave(void **state)
{
    (void)state;
    struct fixture f;
    struct tls tls;
    fixture_tls(&f, 0);
    tls_open_client(&tls, f.port, TLS1_3_VERSION);
    assert_true(tls.connected);
    const char *request =
        "POST /v1/test/stream HTTP/1.1\r\nHost: a\r\n" BEARER "Content-Length: 2\r\n\r\n{}";
    assert_true(SSL_write(tls.ssl, request, (int)strlen(request)) > 0);
    assert_true(fixture_wait_live(&f, 1));
    assert_true(port_double_push(f.ports[0], 0, 2, FINISH_NONE));
    tls_ask(&tls, "", "{\"t\":1,");
    tls_close_client(&tls);
    assert_true(fixture_wait_cancelled(&f, 1)); // nothing was sent in the meantime
    port_double_settle(f.ports[0]);
    assert_true(fixture_wait_live(&f, 0));
    fixture_close(&f);
}

static void test_bad_files(void **state)
{
    (void)state;
    static const char *const keys[] = {KEY};
    struct server *server = NULL;
    struct error err;
    struct server_options options = {.api_keys = keys, .api_key_count = 1};
    options.ssl_certfile = options.ssl_keyfile = cert_path; // not a key
    assert_int_equal(server_open(&server, &options, &err), STATUS_INVALID);
    assert_non_null(strstr(err.text, "--ssl-keyfile"));
    options.ssl_keyfile = NULL;
    assert_int_equal(server_open(&server, &options, &err), STATUS_INVALID);
    assert_non_null(strstr(err.text, "both"));
}

// Checks the name of the certificate that a new connection gets, and the length of its chain.
static void shown_is(uint32_t port, const char *wanted, int count)
{
    struct tls tls;
    char name[64] = "";
    tls_open_client(&tls, port, TLS1_3_VERSION);
    assert_true(tls.connected);
    X509 *cert = SSL_get1_peer_certificate(tls.ssl);
    assert_non_null(cert);
    X509_NAME_get_text_by_NID(X509_get_subject_name(cert), NID_commonName, name, sizeof name);
    assert_string_equal(name, wanted);
    assert_int_equal(sk_X509_num(SSL_get_peer_cert_chain(tls.ssl)), count);
    X509_free(cert);
    tls_close_client(&tls);
}

#define VERSION_REQUEST "GET /version HTTP/1.1\r\nHost: a\r\n\r\n"

// New connections get the new certificate, open ones continue; unusable files have no effect.
static void test_renewed(void **state)
{
    (void)state;
    struct fixture f;
    struct tls open_one;
    struct error err;
    fixture_tls(&f, 1);
    shown_is(f.port, "localhost", 1);
    tls_open_client(&open_one, f.port, TLS1_2_VERSION);
    files_write("second");
    shown_is(f.port, "localhost", 1); // before the renewal
    assert_int_equal(server_tls_renew(f.server, &err), STATUS_OK);
    shown_is(f.port, "second", 1);
    EVP_PKEY *other = key_made();
    key_write(key_path, other); // does not match the certificate
    assert_int_equal(server_tls_renew(f.server, &err), STATUS_INVALID);
    assert_non_null(strstr(err.text, "--ssl-keyfile"));
    assert_non_null(strstr(err.text, key_path));
    shown_is(f.port, "second", 1);
    EVP_PKEY_free(other);
    unlink(cert_path);
    assert_int_equal(server_tls_renew(f.server, &err), STATUS_NOT_FOUND);
    shown_is(f.port, "second", 1);
    const unsigned char *name;
    unsigned bytes;
    SSL_get0_alpn_selected(open_one.ssl, &name, &bytes);
    assert_int_equal(bytes, 2);
    tls_close_client(&open_one);
    files_write("third");
    assert_int_equal(server_tls_renew(f.server, &err), STATUS_OK);
    struct tls tls; // HTTP/2 is still offered
    tls_open_client(&tls, f.port, TLS1_3_VERSION);
    SSL_get0_alpn_selected(tls.ssl, &name, &bytes);
    assert_int_equal(bytes, 2);
    tls_close_client(&tls);
    fixture_close(&f);
    files_write("localhost");
}

static void test_requests_go_on(void **state)
{
    (void)state;
    struct fixture f;
    struct tls open_one;
    struct error err;
    fixture_tls(&f, 0);
    tls_open_client(&open_one, f.port, TLS1_3_VERSION);
    tls_ask(&open_one, VERSION_REQUEST, "{\"version\"");
    files_write("second");
    for (int i = 0; i < 3; i++)
        assert_int_equal(server_tls_renew(f.server, &err), STATUS_OK);
    tls_ask(&open_one, VERSION_REQUEST, "{\"version\"");
    tls_close_client(&open_one);
    fixture_close(&f);
    files_write("localhost");
}

// The chain up to the root is sent with the server's certificate; text around the certificates is
// skipped, a malformed certificate is refused.
static void test_chains(void **state)
{
    (void)state;
    struct fixture f;
    struct error err;
    EVP_PKEY *root_key = key_made(), *key = key_made();
    X509 *root = cert_made(root_key, "root", NULL, NULL);
    X509 *own = cert_made(key, "leaf", root, root_key);
    cert_write(cert_path, own, root, "a remark\n");
    key_write(key_path, key);
    fixture_tls(&f, 0);
    shown_is(f.port, "leaf", 2);
    static const char *const broken[] = {
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        "-----BEGIN CERTIFICATE-----\nMIIB\n"};
    for (int i = 0; i < 2; i++) {
        cert_write(cert_path, own, root, broken[i]);
        assert_int_equal(server_tls_renew(f.server, &err), STATUS_INVALID);
        assert_non_null(strstr(err.text, "--ssl-certfile"));
        shown_is(f.port, "leaf", 2);
    }
    cert_write(cert_path, root, own, ""); // the first one is the server's, but the key is not
    assert_int_equal(server_tls_renew(f.server, &err), STATUS_INVALID);
    assert_non_null(strstr(err.text, "--ssl-keyfile"));
    fixture_close(&f);
    X509_free(root);
    X509_free(own);
    EVP_PKEY_free(root_key);
    EVP_PKEY_free(key);
    files_write("localhost");
}

// A replaced certificate is freed, and so are the parts of an unusable one.
static void test_renewals_keep_nothing(void **state)
{
    (void)state;
    enum { ROUNDS = 20 };
    struct fixture f;
    struct error err;
    EVP_PKEY *root_key = key_made(), *key = key_made(), *other = key_made();
    X509 *root = cert_made(root_key, "root", NULL, NULL);
    X509 *own = cert_made(key, "leaf", root, root_key);
    cert_write(cert_path, own, root, "");
    key_write(key_path, key);
    fixture_tls(&f, 1);
    long before = 0;
    for (int i = 0; i < 2 * ROUNDS; i++) {
        key_write(key_path, i % 2 ? key : other);
        enum status status = server_tls_renew(f.server, &err);
        assert_int_equal(status, i % 2 ? STATUS_OK : STATUS_INVALID);
        if (i == ROUNDS / 2 - 1) // one-time allocations are done
            before = held;
    }
    assert_in_range(labs(held - before), 0, ROUNDS / 4);
    fixture_close(&f);
    X509_free(root);
    X509_free(own);
    EVP_PKEY_free(root_key);
    EVP_PKEY_free(key);
    EVP_PKEY_free(other);
    files_write("localhost");
}

// Offers each suite that this OpenSSL has for TLS 1.2, one at a time. Returns how many the server
// accepts; all of them must be in `wanted` (joined by colons), or if that is NULL, have forward
// secrecy and authenticated encryption.
static int suites_accepted(uint32_t port, const char *wanted)
{
    int accepted = 0;
    SSL_CTX *all = SSL_CTX_new(TLS_client_method());
    assert_int_equal(SSL_CTX_set_cipher_list(all, "ALL:COMPLEMENTOFALL:@SECLEVEL=0"), 1);
    STACK_OF(SSL_CIPHER) *suites = SSL_CTX_get_ciphers(all);
    for (int i = 0; i < sk_SSL_CIPHER_num(suites); i++) {
        const SSL_CIPHER *suite = sk_SSL_CIPHER_value(suites, i);
        const char *name = SSL_CIPHER_get_name(suite);
        struct tls tls;
        if (strncmp(name, "TLS_", 4) == 0) // a suite of TLS 1.3
            continue;
        tls_open_ciphers(&tls, port, TLS1_2_VERSION, name);
        bool fine = SSL_CIPHER_get_kx_nid(suite) == NID_kx_ecdhe && SSL_CIPHER_is_aead(suite);
        if (tls.connected && !(wanted ? strstr(wanted, name) != NULL : fine))
            fail_msg("%s is accepted", name);
        accepted += tls.connected;
        tls_close_client(&tls);
    }
    SSL_CTX_free(all);
    return accepted;
}

static void version_works(uint32_t port, int version)
{
    struct tls tls;
    tls_open_client(&tls, port, version);
    assert_true(tls.connected);
    assert_int_equal(SSL_version(tls.ssl), version);
    tls_close_client(&tls);
}

// By default TLS 1.2 has only suites with forward secrecy and authenticated encryption, with either
// kind of certificate, also after a renewal; TLS 1.3 and clients without wishes connect.
static void test_suites(void **state)
{
    (void)state;
    struct error err;
    for (int rsa = 0; rsa < 2; rsa++) {
        struct fixture f;
        pair_write("localhost", rsa ? EVP_RSA_gen(2048) : key_made());
        fixture_tls(&f, 0);
        assert_int_equal(suites_accepted(f.port, NULL), 3);
        version_works(f.port, TLS1_2_VERSION);
        version_works(f.port, TLS1_3_VERSION);
        if (rsa) {
            assert_int_equal(server_tls_renew(f.server, &err), STATUS_OK);
            assert_int_equal(suites_accepted(f.port, NULL), 3);
        }
        fixture_close(&f);
    }
    files_write("localhost");
}

// A list replaces the default, with weaker suites or fewer; a renewal keeps it; TLS 1.3 stays on.
static void test_own_suites(void **state)
{
    (void)state;
    static const char *const lists[] = {"AES128-GCM-SHA256:ECDHE-RSA-AES128-SHA",
                                        "ECDHE-RSA-AES256-GCM-SHA384"};
    struct error err;
    pair_write("localhost", EVP_RSA_gen(2048));
    for (int i = 0; i < 2; i++) {
        struct fixture f;
        struct server_options options = {
            .ssl_certfile = cert_path, .ssl_keyfile = key_path, .ssl_ciphers = lists[i]};
        fixture_open(&f, &options, true);
        assert_int_equal(suites_accepted(f.port, lists[i]), 2 - i);
        version_works(f.port, TLS1_3_VERSION);
        assert_int_equal(server_tls_renew(f.server, &err), STATUS_OK);
        assert_int_equal(suites_accepted(f.port, lists[i]), 2 - i);
        fixture_close(&f);
    }
    files_write("localhost");
}

// Each name of a list must be known; the error names the one that is not.
static void test_cipher_lists(void **state)
{
    (void)state;
    static const char *const good[] = {"HIGH",
                                       "ECDHE+AESGCM:!aNULL",
                                       "HIGH:!aNULL:!RC4:!MD5:!NOTHING",
                                       "DEFAULT:@SECLEVEL=1",
                                       "DEFAULT@SECLEVEL=1",
                                       "ECDHE-RSA-AES128-GCM-SHA256, AES128-SHA",
                                       "TLSv1.2",
                                       "ALL:-kRSA:+AES256"};
    static const struct {
        const char *list, *named;
    } bad[] = {
        {"", "leaves no cipher suite"},
        {":,: ", "leaves no cipher suite"},
        {"HIGH:!HIGH", "leaves no cipher suite"},
        {"!aNULL", "leaves no cipher suite"},
        {"HIGH:@NOTHING", "leaves no cipher suite"},
        {"NOTHING", "'NOTHING' is no cipher suite"},
        {"ECDHE-RSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA265",
         "'ECDHE-RSA-AES128-GCM-SHA265'"},
        {"ecdhe-rsa-aes128-gcm-sha256", "'ecdhe-rsa-aes128-gcm-sha256'"},
        {"HIGH:ECDHE+NOTHING", "'ECDHE+NOTHING'"},
        {"HIGH:TLS_AES_128_GCM_SHA256", "those of TLS 1.3 are always on"},
    };
    struct error err;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        if (server_ciphers_check(good[i], &err) != STATUS_OK)
            fail_msg("'%s' is refused: %s", good[i], err.text);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(server_ciphers_check(bad[i].list, &err), STATUS_INVALID);
        if (!strstr(err.text, bad[i].named) || !strstr(err.text, "--ssl-ciphers"))
            fail_msg("'%s' gives '%s', without '%s'", bad[i].list, err.text, bad[i].named);
    }
    char longer[4096];
    memset(longer, 'A', sizeof longer);
    longer[sizeof longer - 1] = '\0';
    assert_int_equal(server_ciphers_check(longer, &err), STATUS_INVALID);
    static const char *const keys[] = {KEY};
    struct server *server = NULL;
    struct server_options options = {.api_keys = keys,
                                     .api_key_count = 1,
                                     .ssl_certfile = cert_path,
                                     .ssl_keyfile = key_path,
                                     .ssl_ciphers = "HIGH:NOTHING"};
    assert_int_equal(server_open(&server, &options, &err), STATUS_INVALID);
    assert_non_null(strstr(err.text, "'NOTHING'"));
}

static void file_fill(const char *path, size_t bytes)
{
    FILE *file = fopen(path, "w");
    for (size_t i = 0; i < bytes; i++)
        putc('x', file);
    fclose(file);
}

// Files over 1 MiB are not read, and an empty file is not a certificate.
static void test_files_that_are_none(void **state)
{
    (void)state;
    static const char *const keys[] = {KEY};
    struct server *server = NULL;
    struct error err;
    struct server_options options = {
        .api_keys = keys, .api_key_count = 1, .ssl_certfile = cert_path, .ssl_keyfile = key_path};
    for (int i = 0; i < 3; i++) {
        file_fill(cert_path, i == 0 ? (1 << 20) + 1 : i == 1 ? 1 << 20 : 0);
        enum status status = server_open(&server, &options, &err);
        assert_int_equal(status, i == 0 ? STATUS_TOO_LARGE : STATUS_INVALID);
        assert_non_null(strstr(err.text, cert_path));
    }
    files_write("localhost");
    file_fill(key_path, 0);
    assert_int_equal(server_open(&server, &options, &err), STATUS_INVALID);
    assert_non_null(strstr(err.text, "--ssl-keyfile"));
    files_write("localhost");
    options.ssl_certfile = NULL;
    assert_int_equal(server_open(&server, &options, &err), STATUS_INVALID);
    assert_non_null(strstr(err.text, "both"));
}

static int files_remove(void **state)
{
    (void)state;
    unlink(cert_path);
    unlink(key_path);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_alpn),
        cmocka_unit_test(test_stream_and_leave),
        cmocka_unit_test(test_bad_files),
        cmocka_unit_test(test_renewed),
        cmocka_unit_test(test_requests_go_on),
        cmocka_unit_test(test_chains),
        cmocka_unit_test(test_files_that_are_none),
        cmocka_unit_test(test_renewals_keep_nothing),
        cmocka_unit_test(test_suites),
        cmocka_unit_test(test_own_suites),
        cmocka_unit_test(test_cipher_lists),
    };
    if (CRYPTO_set_mem_functions(piece_take, piece_resize, piece_give) != 1)
        return 1;
    files_make();
    return cmocka_run_group_tests(tests, NULL, files_remove);
}
