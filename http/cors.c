// SPDX-License-Identifier: Apache-2.0
// Parses and compares the origins of --allowed-origins. See cors.h for the contracts.
#include "http/cors.h"

#include "base/arena.h"

#include <string.h>
#include <strings.h>

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_one_of(char c, const char *these)
{
    return c != '\0' && strchr(these, c);
}

// Returns true for scheme://host[:port] as browsers write it: no path, no user, no query.
static bool is_origin(struct text t)
{
    size_t at = 0;
    while (at < t.bytes &&
           (is_letter(t.at[at]) || is_digit(t.at[at]) || is_one_of(t.at[at], "+-.")))
        at++;
    size_t host = at + strlen("://");
    if (at == 0 || !is_letter(t.at[0]) || t.bytes <= host || memcmp(t.at + at, "://", 3) != 0)
        return false;
    for (at = host; at < t.bytes; at++)
        if (!is_letter(t.at[at]) && !is_digit(t.at[at]) && !is_one_of(t.at[at], "-._:[]"))
            return false;
    return true;
}

static void origin_add(struct cors *cors, struct text origin)
{
    char *copy = heap_alloc(origin.bytes + 1);
    for (size_t i = 0; i < origin.bytes; i++) {
        char c = origin.at[i];
        copy[i] = (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    }
    copy[origin.bytes] = '\0';
    cors->any = cors->any || text_is(origin, "*");
    cors->origins = heap_grow(cors->origins, (cors->count + 1) * sizeof *cors->origins);
    cors->origins[cors->count++] = text_span(copy, origin.bytes);
}

enum status cors_open(struct cors *out, const char *const *origins, uint32_t count,
                      struct error *err)
{
    *out = (struct cors){0};
    for (uint32_t i = 0; i < count; i++) {
        const char *at = origins[i];
        for (bool more = true; more;) {
            size_t bytes = strcspn(at, ",");
            struct text origin = text_trim(text_span(at, bytes));
            if (!text_is(origin, "*") && !is_origin(origin)) {
                return error_set(err, STATUS_INVALID,
                                 "--allowed-origins: '%.*s' is not an origin: write "
                                 "scheme://host or scheme://host:port, or * for all",
                                 (int)(origin.bytes < 100 ? origin.bytes : 100), origin.at);
            }
            origin_add(out, origin);
            more = at[bytes] == ',';
            at += bytes + more;
        }
    }
    return STATUS_OK;
}

void cors_close(struct cors *cors)
{
    for (uint32_t i = 0; i < cors->count; i++)
        heap_free((char *)cors->origins[i].at);
    heap_free(cors->origins);
    *cors = (struct cors){0};
}

struct text cors_origin(const struct cors *cors, struct text origin)
{
    if (cors->any && origin.bytes > 0)
        return text_of("*");
    for (uint32_t i = 0; i < cors->count; i++) {
        struct text own = cors->origins[i];
        if (own.bytes == origin.bytes && strncasecmp(own.at, origin.at, own.bytes) == 0)
            return own;
    }
    return (struct text){0};
}

bool cors_names_are_fine(struct text names)
{
    enum { NAMES_BYTES_MAX = 1024 };
    for (size_t i = 0; i < names.bytes; i++) {
        char c = names.at[i];
        if (!is_letter(c) && !is_digit(c) && !is_one_of(c, "-_, "))
            return false;
    }
    return names.bytes > 0 && names.bytes <= NAMES_BYTES_MAX;
}
