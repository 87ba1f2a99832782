// TLS 1.2 and 1.3 over OpenSSL; HTTP/2 is offered only where it is on.
#include "http/inside.h"

#include <h2o/http2.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

static enum status tls_fail(SSL_CTX *ssl, struct error *err, const char *what, const char *path)
{
    char reason[256];
    ERR_error_string_n(ERR_get_error(), reason, sizeof reason);
    ERR_clear_error();
    SSL_CTX_free(ssl);
    return error_set(err, STATUS_INVALID, "%s %s cannot be used: %s", what, path, reason);
}

enum status tls_open(SSL_CTX **out, const struct server_options *options, bool http2,
                     struct error *err)
{
    *out = NULL;
    if (options->ssl_certfile == NULL && options->ssl_keyfile == NULL)
        return STATUS_OK;
    if (options->ssl_certfile == NULL || options->ssl_keyfile == NULL)
        return error_set(err, STATUS_INVALID,
                         "TLS needs both files: give --ssl-certfile and --ssl-keyfile");
    SSL_CTX *ssl = SSL_CTX_new(TLS_server_method());
    check(ssl != NULL, "no TLS context");
    SSL_CTX_set_min_proto_version(ssl, TLS1_2_VERSION);
    if (SSL_CTX_use_certificate_chain_file(ssl, options->ssl_certfile) != 1)
        return tls_fail(ssl, err, "--ssl-certfile", options->ssl_certfile);
    if (SSL_CTX_use_PrivateKey_file(ssl, options->ssl_keyfile, SSL_FILETYPE_PEM) != 1 ||
        SSL_CTX_check_private_key(ssl) != 1)
        return tls_fail(ssl, err, "--ssl-keyfile", options->ssl_keyfile);
    if (http2)
        h2o_ssl_register_alpn_protocols(ssl, h2o_http2_alpn_protocols);
    *out = ssl;
    return STATUS_OK;
}
