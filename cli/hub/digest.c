// SPDX-License-Identifier: Apache-2.0
// Digests by OpenSSL; see digest.h.
#include "cli/hub/digest.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

enum status digest_open(struct digest **out, bool sha256, uint64_t file_bytes, struct error *err)
{
    char head[40];
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    *out = (struct digest *)context;
    if (!context || EVP_DigestInit_ex(context, sha256 ? EVP_sha256() : EVP_sha1(), NULL) != 1)
        return error_set(err, STATUS_UNSUPPORTED,
                         "OpenSSL does not offer %s here, which checks downloaded files",
                         sha256 ? "SHA-256" : "SHA-1");
    // git hashes "blob SIZE" and a NUL before the content
    int bytes = snprintf(head, sizeof head, "blob %llu", (unsigned long long)file_bytes);
    if (!sha256)
        digest_add(*out, head, (size_t)bytes + 1);
    return STATUS_OK;
}

void digest_add(struct digest *digest, const void *at, size_t bytes)
{
    EVP_DigestUpdate((EVP_MD_CTX *)digest, at, bytes);
}

void digest_finish(struct digest *digest, char out[DIGEST_TEXT_BYTES])
{
    unsigned char raw[EVP_MAX_MD_SIZE];
    unsigned bytes = 0;
    EVP_DigestFinal_ex((EVP_MD_CTX *)digest, raw, &bytes);
    for (unsigned i = 0; i < bytes && 2 * i + 2 < DIGEST_TEXT_BYTES; i++)
        snprintf(out + 2 * i, 3, "%02x", raw[i]);
}

void digest_close(struct digest *digest)
{
    EVP_MD_CTX_free((EVP_MD_CTX *)digest);
}
