// SPDX-License-Identifier: Apache-2.0
// Signatures of thinking blocks: see shapes.h.
#include "http/api/shapes.h"

#include "base/number.h"

#include <string.h>

static struct hash block_hash(const struct signature *s)
{
    return hash_own(&s->block, sizeof s->block.before + s->count);
}

void signature_add(struct signature *s, struct text text)
{
    for (size_t at = 0, more; at < text.bytes; at += more) {
        if (s->count == SIGNATURE_BLOCK) {
            s->block.before = block_hash(s);
            s->count = 0;
        }
        more = smaller(SIGNATURE_BLOCK - s->count, text.bytes - at);
        memcpy(s->block.bytes + s->count, text.at + at, more);
        s->count += more;
    }
}

void signature_put(const struct signature *s, struct json_buffer *out)
{
    struct hash hash = block_hash(s);
    json_put_base64(out, text_span((const char *)&hash, sizeof hash));
}
