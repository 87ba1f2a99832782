// SPDX-License-Identifier: Apache-2.0
// The rules for API keys and loopback addresses; see key_rules.h. Pure.
#include "http/key_rules.h"

#include <arpa/inet.h>
#include <string.h>

enum { KEY_BYTES_MAX = 512 };

enum status key_check(const char *key, struct error *err)
{
    size_t bytes = strlen(key);
    bool good = bytes > 0 && bytes <= KEY_BYTES_MAX;
    for (size_t i = 0; i < bytes; i++)
        good = good && key[i] > ' ' && key[i] <= '~';
    return good ? STATUS_OK
                : error_set(err, STATUS_INVALID,
                            "an API key must be 1 to %d printable ASCII characters without spaces",
                            KEY_BYTES_MAX);
}

bool host_is_loopback(const char *host)
{
    struct in_addr v4;
    struct in6_addr v6;
    if (inet_pton(AF_INET, host, &v4) == 1)
        return (ntohl(v4.s_addr) >> 24) == 127;
    if (inet_pton(AF_INET6, host, &v6) == 1)
        return memcmp(&v6, &in6addr_loopback, sizeof v6) == 0;
    return strcmp(host, "localhost") == 0;
}
