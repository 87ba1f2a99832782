// SPDX-License-Identifier: Apache-2.0
// TLS 1.2 and 1.3 over OpenSSL; offers HTTP/2 only if it is on. The two files are read before
// OpenSSL parses them: OpenSSL itself would block on a FIFO without a writer, and would prompt for
// a passphrase on the terminal, during a reload even while no thread waits for signals. Main
// thread.
#include "http/internal.h"

#include "base/file.h"

#include <h2o/http2.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <string.h>

enum { TLS_FILE_BYTES_MAX = 1 << 20, CIPHER_BYTES_MAX = 256 };

// Suites of TLS 1.2 with forward secrecy and authenticated encryption. OpenSSL's own list also has
// CBC with SHA-1, and suites whose session key the server's private key decrypts.
static const char ciphers_default[] = "ECDHE+AESGCM:ECDHE+CHACHA20:!aNULL";

static enum status tls_fail(struct error *err, const char *what, const char *path)
{
    char reason[256];
    ERR_error_string_n(ERR_get_error(), reason, sizeof reason);
    ERR_clear_error();
    return error_set(err, STATUS_INVALID, "%s %s cannot be used: %s", what, path, reason);
}

static int no_passphrase(char *at, int size, int writing, void *context)
{
    (void)at, (void)size, (void)writing, (void)context;
    ERR_raise(ERR_LIB_PEM, PEM_R_BAD_PASSWORD_READ); // OpenSSL reports the first error
    return -1;
}

// Reads the server's own certificate, then the chain that leads to its root.
static bool chain_use(SSL_CTX *ssl, BIO *pem)
{
    X509 *own = PEM_read_bio_X509_AUX(pem, NULL, no_passphrase, NULL), *next;
    bool fine = own && SSL_CTX_use_certificate(ssl, own) == 1;
    X509_free(own);
    while (fine && (next = PEM_read_bio_X509(pem, NULL, no_passphrase, NULL)) != NULL) {
        fine = SSL_CTX_add0_chain_cert(ssl, next) == 1;
        if (!fine)
            X509_free(next);
    }
    if (fine &&
        // an error other than the end of the file
        ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE)
        return false;
    if (fine)
        ERR_clear_error();
    return fine;
}

static bool key_use(SSL_CTX *ssl, BIO *pem)
{
    EVP_PKEY *key = PEM_read_bio_PrivateKey(pem, NULL, no_passphrase, NULL);
    bool fine = key && SSL_CTX_use_PrivateKey(ssl, key) == 1;
    EVP_PKEY_free(key);
    return fine && SSL_CTX_check_private_key(ssl) == 1;
}

static enum status file_use(SSL_CTX *ssl, const char *what, const char *path,
                            bool (*use)(SSL_CTX *, BIO *), struct error *err)
{
    struct arena *arena = arena_create(0, 0);
    struct text text;
    enum status status = file_read(&text, arena, path, TLS_FILE_BYTES_MAX, err);
    if (status == STATUS_OK) {
        ERR_clear_error();
        BIO *pem = BIO_new_mem_buf(text.at, (int)text.bytes);
        check(pem, "no buffer for %s", path);
        if (!use(ssl, pem))
            status = tls_fail(err, what, path);
        BIO_free(pem);
        explicit_bzero((char *)text.at, text.bytes); // wipes the private key
    }
    arena_destroy(arena);
    return status;
}

// Sets the suites of TLS 1.2. Those of TLS 1.3 are not in this list and stay on.
static bool ciphers_use(SSL_CTX *ssl, const char *list)
{
    bool fine = SSL_CTX_set_cipher_list(ssl, list) == 1;
    ERR_clear_error();
    return fine;
}

// Checks one element of a list: the name of a suite, a property such as HIGH, or several joined by
// '+'. Elements that remove suites may name what this OpenSSL does not have (!RC4), and commands
// begin with '@'.
static enum status cipher_check(SSL_CTX *ssl, struct text element, struct error *err)
{
    char name[CIPHER_BYTES_MAX];
    bool adds = element.bytes > 0 && !memchr("!-+@", element.at[0], 4);
    if (!adds)
        return STATUS_OK;
    if (element.bytes < sizeof name) {
        memcpy(name, element.at, element.bytes);
        name[element.bytes] = '\0';
        if (ciphers_use(ssl, name))
            return STATUS_OK;
    }
    int shown = element.bytes < 64 ? (int)element.bytes : 64;
    bool newer = text_begins(element, "TLS_");
    return error_set(err, STATUS_INVALID, "--ssl-ciphers: '%.*s' is no cipher suite of TLS 1.2%s",
                     shown, element.at,
                     newer ? " in OpenSSL's names; remove it: those of TLS 1.3 are always on"
                           : ": 'openssl ciphers -tls1_2' lists their names, for example "
                             "ECDHE-RSA-AES128-GCM-SHA256");
}

// Checks the list and sets it. OpenSSL itself ignores unknown names as long as the list has a known
// one.
static enum status ciphers_set(SSL_CTX *ssl, const char *list, struct error *err)
{
    static const char separators[] = ":, ;";
    enum status status = STATUS_OK;
    for (const char *at = list; *at != '\0' && status == STATUS_OK;) {
        size_t bytes = strcspn(at, separators);
        status = cipher_check(ssl, text_span(at, bytes), err);
        at += bytes + (at[bytes] != '\0');
    }
    if (status == STATUS_OK && !ciphers_use(ssl, list))
        status = error_set(err, STATUS_INVALID,
                           "--ssl-ciphers: '%s' leaves no cipher suite for TLS 1.2: name at least "
                           "one, for example ECDHE-RSA-AES128-GCM-SHA256",
                           list);
    return status;
}

enum status server_ciphers_check(const char *list, struct error *err)
{
    SSL_CTX *ssl = SSL_CTX_new(TLS_server_method());
    check(ssl, "no TLS context");
    enum status status = ciphers_set(ssl, list, err);
    SSL_CTX_free(ssl);
    return status;
}

enum status tls_open(SSL_CTX **out, const struct server_options *options, bool http2,
                     struct error *err)
{
    *out = NULL;
    if (!options->ssl_certfile && !options->ssl_keyfile)
        return STATUS_OK;
    if (!options->ssl_certfile || !options->ssl_keyfile)
        return error_set(err, STATUS_INVALID,
                         "TLS needs both files: give --ssl-certfile and --ssl-keyfile");
    SSL_CTX *ssl = SSL_CTX_new(TLS_server_method());
    check(ssl, "no TLS context");
    SSL_CTX_set_min_proto_version(ssl, TLS1_2_VERSION);
    const char *ciphers = options->ssl_ciphers ? options->ssl_ciphers : ciphers_default;
    enum status status = ciphers_set(ssl, ciphers, err);
    if (status == STATUS_OK)
        status = file_use(ssl, "--ssl-certfile", options->ssl_certfile, chain_use, err);
    if (status == STATUS_OK)
        status = file_use(ssl, "--ssl-keyfile", options->ssl_keyfile, key_use, err);
    if (status != STATUS_OK) {
        SSL_CTX_free(ssl);
        return status;
    }
    if (http2)
        h2o_ssl_register_alpn_protocols(ssl, h2o_http2_alpn_protocols);
    *out = ssl;
    return STATUS_OK;
}
