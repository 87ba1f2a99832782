// SPDX-License-Identifier: Apache-2.0
// The digests by which the hub names contents: SHA-256 of large files, and git's SHA-1, which
// includes the size, of others. One thread per digest.
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DIGEST_TEXT_BYTES = 65 };

struct digest;

// sha256: true for SHA-256, false for git's SHA-1. file_bytes: size of the content, which git's
// digest begins with. UNSUPPORTED if weft was built without libssl, or OpenSSL lacks the digest.
enum status digest_open(struct digest **out, bool sha256, uint64_t file_bytes,
                        struct error *err) MUST_USE;
void digest_add(struct digest *digest, const void *at, size_t bytes);
// Writes the digest as lower-case hexadecimal digits with a NUL. No other call but digest_close may
// follow.
void digest_finish(struct digest *digest, char out[DIGEST_TEXT_BYTES]);
void digest_close(struct digest *digest); // NULL is allowed
