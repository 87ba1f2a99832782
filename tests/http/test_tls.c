// TLS on loopback with a certificate made here: 1.3 is spoken, 1.1 is not, ALPN offers h2 only
// where it is on, streams flow, and a peer that leaves an idle stream is noticed.
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

static char cert_path[] = "/tmp/weft-cert-XXXXXX", key_path[] = "/tmp/weft-key-XXXXXX";

static void files_make(void)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *cert = X509_new();
    ASN1_INTEGER_set(X509_get_serialNumber(cert), 1);
    X509_gmtime_adj(X509_getm_notBefore(cert), -60);
    X509_gmtime_adj(X509_getm_notAfter(cert), 3600);
    X509_set_pubkey(cert, key);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN", MBSTRING_ASC,
                               (const unsigned char *)"localhost", -1, -1, 0);
    X509_set_issuer_name(cert, X509_get_subject_name(cert));
    assert_true(X509_sign(cert, key, EVP_sha256()) > 0);
    FILE *file = fdopen(mkstemp(cert_path), "w");
    assert_int_equal(PEM_write_X509(file, cert), 1);
    fclose(file);
    file = fdopen(mkstemp(key_path), "w");
    assert_int_equal(PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL), 1);
    fclose(file);
    X509_free(cert);
    EVP_PKEY_free(key);
}

struct tls {
    struct http_client client;
    SSL_CTX *context;
    SSL *ssl;
    bool connected;
};

static void tls_open_client(struct tls *tls, uint32_t port, int version_max)
{
    static const unsigned char alpn[] = "\x02h2\x08http/1.1";
    *tls = (struct tls){.context = SSL_CTX_new(TLS_client_method())};
    SSL_CTX_set_security_level(tls->context, 0);
    SSL_CTX_set_min_proto_version(tls->context, 0);
    SSL_CTX_set_max_proto_version(tls->context, version_max);
    SSL_CTX_set_alpn_protos(tls->context, alpn, sizeof alpn - 1);
    tls->ssl = SSL_new(tls->context);
    assert_true(http_client_open(&tls->client, port));
    SSL_set_fd(tls->ssl, tls->client.fd);
    tls->connected = SSL_connect(tls->ssl) == 1;
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
    assert_true(fixture_wait_cancelled(&f, 1)); // nothing was sent since
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
    };
    files_make();
    return cmocka_run_group_tests(tests, NULL, files_remove);
}
