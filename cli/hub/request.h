// SPDX-License-Identifier: Apache-2.0
// Requests to a hub with libcurl, for client.c and transfer.c. One thread per client.
#pragma once

#include "cli/hub/client.h"

#include <curl/curl.h>

enum { HUB_URL_MAX = 8192 };

// The status and the headers of an answer that weft uses.
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

// Prepares a request: resets `easy`, and sets the options of all requests, the URL, and a function
// that stores the headers of the answer in *answer. *headers: the headers of the request, which the
// caller frees after the request.
void hub_request_set(const struct hub_client *client, CURL *easy, const char *url,
                     struct hub_answer *answer, struct curl_slist **headers);
// Returns the target of a redirect of `url`, in the arena; NULL if it is no http or https URL, or
// leaves https.
const char *hub_redirect_target(const struct hub_client *client, const char *url,
                                const struct hub_answer *answer);

// Fills err for an answer that is no success, or for a failed connection (curl != CURLE_OK), and
// returns its status. After CURLE_WRITE_ERROR, err keeps the error of the function that could not
// write.
enum status hub_failed(const struct hub_client *client, const struct hub_name *name,
                       const struct hub_answer *answer, CURLcode curl, struct error *err);
// Returns true if the request should be repeated, because it may succeed after *wait_ms
// milliseconds. tries: number of earlier requests without progress, of which there is a limit.
bool hub_is_passing(const struct hub_answer *answer, CURLcode curl, uint32_t tries,
                    uint32_t *wait_ms);
