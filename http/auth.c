// SPDX-License-Identifier: Apache-2.0
// API keys, and the rule which header carries one (docs/API.md). Stored are HMAC-SHA256 hashes
// under a random key of this process; a comparison walks all of them in constant time. The caller
// of keys_open wipes its plain keys (cli/keys.c). Client headers remain as plain text in libh2o's
// buffers until those are reused.
#include "http/auth.h"

#include "base/random.h"
#include "http/key_rules.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>
#include <strings.h>

enum { HASH_BYTES = 32 };

struct key {
    unsigned char hash[HASH_BYTES];
    uint32_t id; // stays the same for a key while reloads keep it; not reused for another key
};

struct keys {
    unsigned char salt[HASH_BYTES];
    uint32_t count, next_id;
    struct key list[]; // [count]
};

const char *const credential_names[CREDENTIAL_COUNT] = {
    [CREDENTIAL_AUTHORIZATION] = "authorization",
    [CREDENTIAL_X_API_KEY] = "x-api-key",
    [CREDENTIAL_API_KEY] = "api-key",
};

static void hash_make(const struct keys *keys, struct text plain, unsigned char *out)
{
    unsigned bytes = 0;
    const unsigned char *at = (const unsigned char *)plain.at;
    const unsigned char *made =
        HMAC(EVP_sha256(), keys->salt, HASH_BYTES, at, plain.bytes, out, &bytes);
    check(made && bytes == HASH_BYTES, "HMAC returned %u bytes", bytes);
}

// Returns the id for a key. A key that was in the old set keeps its id, because the scheduler
// distinguishes waiting requests by these numbers.
static uint32_t id_of(struct keys *keys, const struct keys *old, const unsigned char *hash)
{
    for (uint32_t i = 0; old && i < old->count; i++)
        if (memcmp(old->list[i].hash, hash, HASH_BYTES) == 0)
            return old->list[i].id;
    return keys->next_id++;
}

// Builds a key set. old: its ids and salt are used again; NULL: creates a new salt.
static enum status keys_make(struct keys **out, const struct keys *old, uint32_t kept,
                             const char *const *plain, uint32_t count, struct error *err)
{
    if (kept + count == 0)
        return error_set(err, STATUS_INVALID,
                         "the server has no API key: give one with --api-key or --api-key-file");
    for (uint32_t i = 0; i < count; i++)
        if (key_check(plain[i], err) != STATUS_OK)
            return error_prefix(err, "key %u", i + 1);
    struct keys *keys =
        heap_alloc_zeroed(1, sizeof *keys + (size_t)(kept + count) * sizeof(struct key));
    keys->count = kept + count;
    keys->next_id = old ? old->next_id : 0;
    if (old)
        memcpy(keys->salt, old->salt, HASH_BYTES);
    else
        random_fill(keys->salt, HASH_BYTES);
    for (uint32_t i = 0; i < kept; i++)
        keys->list[i] = old->list[i];
    for (uint32_t i = 0; i < count; i++) {
        struct key *key = &keys->list[kept + i];
        hash_make(keys, text_of(plain[i]), key->hash);
        key->id = id_of(keys, old, key->hash);
    }
    *out = keys;
    return STATUS_OK;
}

enum status keys_open(struct keys **out, const char *const *plain, uint32_t count,
                      struct error *err)
{
    return keys_make(out, NULL, 0, plain, count, err);
}

enum status keys_renew(struct keys **out, const struct keys *old, uint32_t kept,
                       const char *const *plain, uint32_t count, struct error *err)
{
    check(kept <= old->count, "%u keys are kept of %u", kept, old->count);
    return keys_make(out, old, kept, plain, count, err);
}

void keys_close(struct keys *keys)
{
    if (!keys)
        return;
    OPENSSL_cleanse(keys->list, keys->count * sizeof keys->list[0]);
    heap_free(keys);
}

// Looks up a key. Always walks all keys, so that the time does not reveal which one matched.
static bool key_find(const struct keys *keys, struct text plain, uint32_t *id)
{
    unsigned char hash[HASH_BYTES];
    hash_make(keys, plain, hash);
    uint32_t found = 0, at = 0;
    for (uint32_t i = 0; i < keys->count; i++) {
        uint32_t equal = CRYPTO_memcmp(hash, keys->list[i].hash, HASH_BYTES) == 0;
        uint32_t first = equal & (found ^ 1u);
        at |= keys->list[i].id & (0u - first);
        found |= equal;
    }
    *id = at;
    return found != 0;
}

// Returns the key after "Bearer" and one or more spaces; empty for another scheme or none.
static struct text bearer_key(struct text value)
{
    static const char scheme[] = "Bearer";
    enum { SCHEME_BYTES = sizeof scheme - 1 };
    if (value.bytes <= SCHEME_BYTES || strncasecmp(value.at, scheme, SCHEME_BYTES) != 0 ||
        value.at[SCHEME_BYTES] != ' ')
        return (struct text){NULL, 0};
    size_t at = SCHEME_BYTES, end = value.bytes;
    while (at < end && value.at[at] == ' ')
        at++;
    while (end > at && value.at[end - 1] == ' ')
        end--;
    return text_span(value.at + at, end - at);
}

static struct verdict key_verdict(const struct keys *keys, struct text key)
{
    struct verdict verdict = {.error = HTTP_INVALID_KEY, .message = "The API key is not valid."};
    verdict.allowed = key_find(keys, key, &verdict.key_id);
    return verdict;
}

static const char *const sent_twice[CREDENTIAL_COUNT] = {
    [CREDENTIAL_AUTHORIZATION] =
        "The header 'Authorization' was sent more than once: send it exactly once.",
    [CREDENTIAL_X_API_KEY] =
        "The header 'x-api-key' was sent more than once: send it exactly once.",
    [CREDENTIAL_API_KEY] = "The header 'api-key' was sent more than once: send it exactly once.",
};

// Returns the key in a header; empty if it has none.
static struct text key_of(const struct credential *sent, enum credential_header header)
{
    return header == CREDENTIAL_AUTHORIZATION ? bearer_key(sent[header].value) : sent[header].value;
}

struct verdict keys_check(const struct keys *keys, uint32_t flags, const struct credential *sent)
{
    static const enum credential_header orders[2][CREDENTIAL_COUNT] = {
        {CREDENTIAL_AUTHORIZATION, CREDENTIAL_X_API_KEY, CREDENTIAL_API_KEY},
        {CREDENTIAL_X_API_KEY, CREDENTIAL_AUTHORIZATION, CREDENTIAL_API_KEY},
    };
    const enum credential_header *order = orders[(flags & ROUTE_X_API_KEY) != 0];
    if (flags & ROUTE_OPEN)
        return (struct verdict){.allowed = true};
    for (int i = 0; i < CREDENTIAL_COUNT; i++)
        if (sent[i].count > 1)
            return (struct verdict){.error = HTTP_INVALID_KEY, .message = sent_twice[i]};
    for (int i = 0; i < CREDENTIAL_COUNT; i++) {
        struct text key = sent[order[i]].count == 1 ? key_of(sent, order[i]) : (struct text){0};
        if (key.bytes > 0)
            return key_verdict(keys, key);
    }
    return (struct verdict){.error = HTTP_MISSING_KEY,
                            .message = "No API key was sent: send it in the header "
                                       "'Authorization: Bearer KEY', 'x-api-key: KEY' or "
                                       "'api-key: KEY'."};
}

bool keys_any_valid(const struct keys *keys, const struct credential *sent)
{
    return keys_check(keys, ROUTE_BEARER, sent).allowed ||
           keys_check(keys, ROUTE_X_API_KEY, sent).allowed;
}
