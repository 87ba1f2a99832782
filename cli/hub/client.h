// SPDX-License-Identifier: Apache-2.0
// Requests to a hub with libcurl: address, token, answers, and errors as sentences. A client is
// used by one thread. The token, and a user with a password in HF_ENDPOINT, are sent to the hub's
// own address only and are never part of a message.
#pragma once

#include "base/arena.h"
#include "base/status.h"
#include "cli/hub/name.h"

#include <curl/curl.h>
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

enum { HUB_URL_MAX = 8192 };

// Fields of the head of an answer that weft uses.
struct hub_answer {
    long code;                       // HTTP status; 0: no answer
    char location[HUB_URL_MAX];      // target of a redirect
    char next[HUB_URL_MAX];          // next page of a listing
    char error_code[64];             // X-Error-Code
    char linked_etag[128];           // X-Linked-Etag, without quotes
    char etag[128];                  // ETag, without quotes
    uint64_t range_from, range_size; // Content-Range: first byte; size of the complete file
    uint32_t retry_after;            // Retry-After in seconds; 0: none
};

// Returns true if HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE is set to 1, on, yes or true.
bool hub_is_offline(void);

// Fills the client from the environment and the token file. INVALID if HF_ENDPOINT or the token is
// malformed; the caller closes the client also then.
enum status hub_client_open(struct hub_client *client, struct arena *arena,
                            struct error *err) MUST_USE;
void hub_client_close(struct hub_client *client);

// Prepares a request: resets `easy`, sets the options of all requests and the URL, and lets headers
// of the answer be read into *answer. *headers: list that the caller frees after the request.
void hub_request_set(const struct hub_client *client, CURL *easy, const char *url,
                     struct hub_answer *answer, struct curl_slist **headers);
// Returns the target of a redirect of `url`, in the arena; NULL if it is no http or https URL, or
// leaves https.
const char *hub_redirect_target(const struct hub_client *client, const char *url,
                                const struct hub_answer *answer);

// Requests a JSON document of the hub; sleeps and repeats the request after temporary failures
// (hub_is_passing). *out: new reference. next (may be NULL): receives the URL of the next page, or
// NULL. NOT_FOUND, REFUSED or IO with a sentence about the model.
enum status hub_json(const struct hub_client *client, json_t **out, const char *url,
                     const struct hub_name *name, const char **next, struct error *err) MUST_USE;

// Fills err for an answer that is no success, or for a failed connection (curl != CURLE_OK), and
// returns its status. After CURLE_WRITE_ERROR err keeps what the function that could not write set.
enum status hub_failed(const struct hub_client *client, const struct hub_name *name,
                       const struct hub_answer *answer, CURLcode curl, struct error *err);
// Returns true if the request should be repeated, because it may succeed after *wait_ms
// milliseconds. tries: number of earlier requests without progress, of which there is a limit.
bool hub_is_passing(const struct hub_answer *answer, CURLcode curl, uint32_t tries,
                    uint32_t *wait_ms);

// Returns the text with characters that have a meaning in URLs escaped; slashes stay.
const char *hub_url_escape(const char *path, struct arena *arena);
