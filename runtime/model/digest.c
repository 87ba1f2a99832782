// SPDX-License-Identifier: Apache-2.0
// Digests of a model's files; see digest.h. Loading thread.
#include "runtime/model/digest.h"

#include "base/arena.h"
#include "base/number.h"
#include "runtime/model/internal.h"
#include "runtime/source/source.h"

#include <stdio.h>
#include <string.h>

enum { CONFIG_BYTES_MAX = 64 << 20, START_BYTES = 64 << 10 };

static const uint64_t key[2] = {0};

// Replaces a digest by one of itself and further bytes.
static void digest_add(struct hash *digest, const void *at, size_t bytes)
{
    struct hash pair[2] = {*digest, hash_bytes(key, at, bytes)};
    *digest = hash_bytes(key, pair, sizeof pair);
}

static void tensors_digest(struct model_digest *out, const struct tensors *tensors)
{
    for (uint32_t i = 0; tensors && i < tensors_count(tensors); i++) {
        const struct tensor *t = tensors_at(tensors, i);
        digest_add(&out->headers, t->name.at, t->name.bytes);
        digest_add(&out->headers, t->type, strlen(t->type));
        digest_add(&out->headers, t->shape, t->dims * sizeof *t->shape);
        digest_add(&out->headers, &t->bytes, sizeof t->bytes);
        if (t->map)
            digest_add(&out->starts, t->map, smaller(t->bytes, (uint64_t)START_BYTES));
    }
}

enum status model_plan_digest(struct model_digest *out, const struct model_plan *plan,
                              const char *folder, struct error *err)
{
    struct arena *arena = arena_create(0, 0);
    struct text config, path = arena_format(arena, "%s/config.json", folder);
    const struct model_parts *parts = plan->parts;
    *out = (struct model_digest){0};
    enum status status = model_file_read(&config, arena, path.at, CONFIG_BYTES_MAX, err);
    if (status == STATUS_OK)
        digest_add(&out->config, config.at, config.bytes);
    arena_destroy(arena);
    tensors_digest(out, parts->tensors);
    for (uint32_t i = 0; i < CONFIG_MODULES_MAX; i++)
        tensors_digest(out, parts->module_tensors[i]);
    return status;
}
