// SPDX-License-Identifier: Apache-2.0
// Digests of a weft that was built without libssl: models can be found in the cache, but none is
// downloaded. See digest.h.
#include "cli/hub/digest.h"

enum status digest_open(struct digest **out, bool sha256, uint64_t file_bytes, struct error *err)
{
    (void)sha256, (void)file_bytes;
    *out = NULL;
    return error_set(err, STATUS_UNSUPPORTED,
                     "this weft was built without libssl, which checks downloaded files: install "
                     "the Debian package libssl-dev and build again, or give the path of a folder");
}

void digest_add(struct digest *digest, const void *at, size_t bytes)
{
    (void)digest, (void)at, (void)bytes;
}

void digest_finish(struct digest *digest, char out[DIGEST_TEXT_BYTES])
{
    (void)digest;
    out[0] = '\0';
}

void digest_close(struct digest *digest)
{
    (void)digest;
}
