// SPDX-License-Identifier: Apache-2.0
// Requests to a hub with libcurl: address, token, answers, and errors as sentences. A client is
// used by one thread. The token, and a user with a password in HF_ENDPOINT, are sent to the hub's
// own address only and are never part of a message.
#pragma once

#include "base/arena.h"
#include "base/status.h"
#include "cli/hub/name.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct hub_client {
    const char *endpoint;     // HF_ENDPOINT without userinfo and without a slash at its end
    const char *origin;       // scheme, host and port of the endpoint
    char *token;              // header line with the token, or NULL; wiped by hub_client_close
    char *login;              // USER:PASSWORD of HF_ENDPOINT, or NULL; wiped by hub_client_close
    const char *certificates; // file with the CA certificates; NULL: libcurl's default
    struct arena *arena;      // memory of texts and results, owned by the caller
};

// Fills the client from the environment and the token file. INVALID if HF_ENDPOINT or the token is
// malformed, IO in a build without libcurl. The caller closes the client after an error too.
enum status hub_client_open(struct hub_client *client, struct arena *arena,
                            struct error *err) MUST_USE;
void hub_client_close(struct hub_client *client);

// Requests a JSON document of the hub; sleeps and repeats the request after temporary failures
// (hub_is_passing). *out: new reference. next (may be NULL): receives the URL of the next page, or
// NULL. NOT_FOUND, REFUSED or IO with a sentence about the model.
enum status hub_json(const struct hub_client *client, json_t **out, const char *url,
                     const struct hub_name *name, const char **next, struct error *err) MUST_USE;

// Returns the text with characters that have a meaning in URLs escaped; slashes stay.
const char *hub_url_escape(const char *path, struct arena *arena);
