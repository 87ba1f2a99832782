// API keys: only keyed hashes are kept. Pure functions over header values; any thread after open.
#pragma once

#include "http/exchange.h"

struct keys;

// At least one key, each as key_check (key_rules.h) wants it.
enum status keys_open(struct keys **out, const char *const *plain, uint32_t count,
                      struct error *err) MUST_USE;
// As keys_open, with the first `kept` keys of `old` before the others.
enum status keys_renew(struct keys **out, const struct keys *old, uint32_t kept,
                       const char *const *plain, uint32_t count, struct error *err) MUST_USE;
void keys_close(struct keys *keys);

// What the client sent. count: how often the header came; value: of the first.
struct credential {
    uint32_t count;
    struct text value;
};

struct verdict {
    bool allowed;
    uint32_t key_id;       // the same for a key through all reloads that keep it
    enum http_error error; // HTTP_MISSING_KEY or HTTP_INVALID_KEY
    const char *message;   // a sentence that names the header expected
};

// Whether either header carries a valid key; for requests that have no route yet.
bool keys_shown(const struct keys *keys, struct credential authorization,
                struct credential x_api_key);

// flags: enum route_flag of the route.
struct verdict keys_check(const struct keys *keys, uint32_t flags, struct credential authorization,
                          struct credential x_api_key);
