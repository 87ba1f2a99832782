// SPDX-License-Identifier: Apache-2.0
// API keys. Only keyed hashes of the keys are kept in memory. All functions but keys_open,
// keys_renew and keys_close are pure; any thread may call them.
#pragma once

#include "http/exchange.h"

struct keys;

// Creates a key set of at least one key. Each key must pass key_check (key_rules.h). Stores hashes
// under a new random salt; the caller keeps and wipes `plain`. keys_close frees the set.
enum status keys_open(struct keys **out, const char *const *plain, uint32_t count,
                      struct error *err) MUST_USE;
// Creates a key set from the first `kept` keys of `old` and then the `count` keys of `plain`. A key
// that is also in `old` keeps its id. `old` is not changed.
enum status keys_renew(struct keys **out, const struct keys *old, uint32_t kept,
                       const char *const *plain, uint32_t count, struct error *err) MUST_USE;
void keys_close(struct keys *keys);

// A header as the client sent it. count: how many times the header was sent; value: the value of
// the first.
struct credential {
    uint32_t count;
    struct text value;
};

struct verdict {
    bool allowed;
    // id of the accepted key, the same through all reloads that keep the key; meaningless if the
    // request is refused or the route is open
    uint32_t key_id;
    enum http_error error; // HTTP_MISSING_KEY or HTTP_INVALID_KEY; meaningless if allowed
    const char *message;   // a sentence for the client that names the expected header
};

// The headers that may contain a key, on every route.
enum credential_header {
    CREDENTIAL_AUTHORIZATION, // Bearer KEY
    CREDENTIAL_X_API_KEY,
    CREDENTIAL_API_KEY,
    CREDENTIAL_COUNT
};
extern const char *const credential_names[CREDENTIAL_COUNT]; // in lower case

// Returns true if a route would accept the headers. For requests that have not been routed yet.
// sent: [CREDENTIAL_COUNT].
bool keys_any_valid(const struct keys *keys, const struct credential *sent);

// Checks the key of a request. flags: the route's enum route_flag bits, which choose the header
// that decides if several have a key; with ROUTE_OPEN every request is allowed. A header that was
// sent more than once is refused (HTTP_INVALID_KEY). sent: [CREDENTIAL_COUNT].
struct verdict keys_check(const struct keys *keys, uint32_t flags, const struct credential *sent);
