// SPDX-License-Identifier: Apache-2.0
// GET / and /ui/NAME: the web page, whose files are compiled into the program. The files need no
// key and contain nothing about this server: the page asks the user for the key and calls the API
// like any client. The browser caches the files and revalidates them by ETag. On the h2o thread.
#include "http/ui/page.h"
#include "http/ui/assets.h"

#include <string.h>

// Content security policy: nothing is loaded from other hosts, the page has no inline script or
// style, no other page may show it in a frame, and no text can become markup or script (trusted
// types).
static const char policy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'";

static const char folder[] = "/ui/";

static void headers_put(struct exchange *x, const struct asset *asset)
{
    exchange_header(x, "content-security-policy", text_of(policy));
    exchange_header(x, "x-content-type-options", text_of("nosniff"));
    exchange_header(x, "x-frame-options", text_of("DENY"));
    exchange_header(x, "referrer-policy", text_of("no-referrer"));
    exchange_header(x, "cross-origin-opener-policy", text_of("same-origin"));
    exchange_header(x, "cross-origin-resource-policy", text_of("same-origin"));
    exchange_header(x, "etag", text_of(asset->etag));
    exchange_cache(x, "no-cache");
}

// Returns true if If-None-Match is "*" or its list of tags contains this one, with or without W/.
// The quotes are part of the tag, so a substring search is exact.
static bool is_known(struct text tags, const char *etag)
{
    return text_is(text_trim(tags), "*") ||
           (tags.bytes > 0 && memmem(tags.at, tags.bytes, etag, strlen(etag)));
}

static void asset_send(struct exchange *x, const struct asset *asset)
{
    headers_put(x, asset);
    if (is_known(exchange_info(x)->if_none_match, asset->etag))
        exchange_reply_bare(x, 304, asset->type, asset->count);
    else
        exchange_reply_type(x, 200, asset->type, text_span(asset->bytes, asset->count));
}

static const struct asset *asset_find(struct text name)
{
    for (size_t i = 0; i < asset_count; i++)
        if (strncmp(assets[i].path, folder, strlen(folder)) == 0 &&
            text_is(name, assets[i].path + strlen(folder)))
            return &assets[i];
    return NULL;
}

static void root_request(struct exchange *x)
{
    for (size_t i = 0; i < asset_count; i++)
        if (strcmp(assets[i].path, "/") == 0)
            asset_send(x, &assets[i]);
}

static void file_request(struct exchange *x)
{
    enum { NAME_SHOWN = 128 };
    struct text name = exchange_info(x)->path_rest;
    const struct asset *asset = asset_find(name);
    if (asset) {
        asset_send(x, asset);
        return;
    }
    struct http_failure failure = {.error = HTTP_UNKNOWN_URL};
    failure.message =
        arena_format(exchange_arena(x), "Unknown request URL: the page has no file '%.*s'.",
                     (int)(name.bytes < NAME_SHOWN ? name.bytes : NAME_SHOWN), name.at);
    exchange_fail(x, &failure);
}

const struct route ui_routes[] = {
    {.method = "GET", .path = "/", .flags = ROUTE_OPEN, .on_request = root_request},
    {.method = "GET", .path = "/ui/", .flags = ROUTE_OPEN, .on_request = file_request},
    {.path = NULL},
};
