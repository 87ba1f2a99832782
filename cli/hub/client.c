// SPDX-License-Identifier: Apache-2.0
// Requests to a hub; see client.h and request.h. Redirects are followed here and not by libcurl, so
// that the token goes to the hub's own address only.
#include "cli/hub/request.h"

#include "base/file.h"
#include "base/json.h"
#include "cli/hub/cache.h"
#include "cli/hub/stop.h"
#include "cli/options.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <unistd.h>

enum {
    TOKEN_BYTES_MAX = 4096,
    CONNECT_SECONDS = 15,
    SILENCE_SECONDS = 30, // without a byte, a transfer fails
    REDIRECTS_MAX = 5,
    TRIES_MAX = 5,
    RETRY_AFTER_MAX = 60, // seconds that a start waits for a hub that limits requests
};

// Returns the token of the environment or of the token file, NULL if there is none.
static const char *token_find(struct arena *arena)
{
    struct text text;
    const char *token = options_environment("HF_TOKEN");
    token = token ? token : options_environment("HUGGING_FACE_HUB_TOKEN"); // its former name
    if (token)
        return token;
    if (hub_is_on("HF_HUB_DISABLE_IMPLICIT_TOKEN"))
        return NULL;
    const char *path = options_environment("HF_TOKEN_PATH"), *home = hub_home(arena);
    if (!path && home)
        path = arena_format(arena, "%s/token", home).at;
    if (!path || file_read(&text, arena, path, TOKEN_BYTES_MAX, &(struct error){0}) != STATUS_OK)
        return NULL;
    return text.at;
}

static enum status token_set(struct hub_client *client, struct error *err)
{
    const char *token = token_find(client->arena);
    size_t bytes = token ? strlen(token) : 0, from = 0;
    while (bytes > from && isspace((unsigned char)token[bytes - 1]))
        bytes--;
    while (from < bytes && isspace((unsigned char)token[from]))
        from++;
    for (size_t i = from; i < bytes; i++)
        if (!isgraph((unsigned char)token[i]))
            return error_set(err, STATUS_INVALID,
                             "HF_TOKEN or the token file has characters that no token has: set it "
                             "again");
    if (bytes == from)
        return STATUS_OK;
    size_t size = bytes - from + sizeof "Authorization: Bearer ";
    client->token = heap_alloc(size);
    snprintf(client->token, size, "Authorization: Bearer %.*s", (int)(bytes - from), token + from);
    return STATUS_OK;
}

// Returns scheme, host and port of a URL, in the arena; NULL if it is not http or https.
static const char *origin_of(const char *url, struct arena *arena)
{
    char *scheme = NULL, *host = NULL, *port = NULL;
    const char *origin = NULL;
    CURLU *parts = curl_url();
    if (parts && curl_url_set(parts, CURLUPART_URL, url, 0) == CURLUE_OK &&
        curl_url_get(parts, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK &&
        curl_url_get(parts, CURLUPART_HOST, &host, 0) == CURLUE_OK &&
        curl_url_get(parts, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) == CURLUE_OK &&
        (strcmp(scheme, "http") == 0 || strcmp(scheme, "https") == 0))
        origin = arena_format(arena, "%s://%s:%s", scheme, host, port).at;
    curl_free(scheme);
    curl_free(host);
    curl_free(port);
    curl_url_cleanup(parts);
    return origin;
}

// Moves USER:PASSWORD@ from the endpoint to client->login.
static void login_split(struct hub_client *client)
{
    const char *begin = strstr(client->endpoint, "://");
    begin = begin ? begin + 3 : client->endpoint;
    size_t host = strcspn(begin, "/");
    const char *end = memrchr(begin, '@', host);
    if (!end)
        return;
    size_t bytes = (size_t)(end - begin);
    CURL *easy = curl_easy_init();
    char *user = NULL, *password = NULL;
    const char *colon = memchr(begin, ':', bytes);
    size_t user_bytes = colon ? (size_t)(colon - begin) : bytes;
    if (easy && user_bytes > 0)
        user = curl_easy_unescape(easy, begin, (int)user_bytes, NULL);
    if (easy && colon && colon + 1 < end)
        password = curl_easy_unescape(easy, colon + 1, (int)(end - colon - 1), NULL);
    client->login = heap_alloc(bytes + 2);
    snprintf(client->login, bytes + 2, "%s:%s", user ? user : "", password ? password : "");
    if (password)
        explicit_bzero(password, strlen(password));
    curl_free(user);
    curl_free(password);
    curl_easy_cleanup(easy);
    client->endpoint = arena_format(client->arena, "%.*s%s", (int)(begin - client->endpoint),
                                    client->endpoint, end + 1)
                           .at;
}

enum status hub_client_open(struct hub_client *client, struct arena *arena, struct error *err)
{
    static const char *const bundles[] = {"SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"};
    const char *given = options_environment("HF_ENDPOINT");
    struct text endpoint = text_of(given ? given : "https://huggingface.co");
    *client = (struct hub_client){.arena = arena};
    while (endpoint.bytes > 0 && endpoint.at[endpoint.bytes - 1] == '/')
        endpoint.bytes--;
    client->endpoint = arena_copy(arena, endpoint).at;
    login_split(client);
    client->origin = origin_of(client->endpoint, arena);
    if (!client->origin || strpbrk(client->endpoint, " ?#"))
        return error_set(err, STATUS_INVALID,
                         "HF_ENDPOINT must be the http or https address of a hub, such as "
                         "https://huggingface.co");
    for (size_t i = 0; i < sizeof bundles / sizeof *bundles && !client->certificates; i++)
        client->certificates = options_environment(bundles[i]);
    return token_set(client, err);
}

void hub_client_close(struct hub_client *client)
{
    char **const secrets[] = {&client->token, &client->login};
    for (size_t i = 0; i < sizeof secrets / sizeof *secrets; i++) {
        if (*secrets[i])
            explicit_bzero(*secrets[i], strlen(*secrets[i]));
        heap_free(*secrets[i]);
        *secrets[i] = NULL;
    }
}

// Copies the value of a header without spaces, quotes and W/ if the line has this name.
static bool header_copy(char *out, size_t size, struct text line, const char *name)
{
    size_t bytes = strlen(name);
    if (line.bytes <= bytes || line.at[bytes] != ':' || strncasecmp(line.at, name, bytes) != 0)
        return false;
    struct text value = text_trim(text_span(line.at + bytes + 1, line.bytes - bytes - 1));
    if (value.bytes > 2 && memcmp(value.at, "W/", 2) == 0)
        value = text_span(value.at + 2, value.bytes - 2);
    if (value.bytes >= 2 && value.at[0] == '"' && value.at[value.bytes - 1] == '"')
        value = text_span(value.at + 1, value.bytes - 2);
    if (value.bytes >= size)
        value.bytes = 0; // longer than anything that is valid
    memcpy(out, value.at, value.bytes);
    out[value.bytes] = '\0';
    return true;
}

// Reads <URL>; rel="next" of a Link header.
static void next_read(struct hub_answer *answer, const char *links)
{
    for (const char *at = strchr(links, '<'); at; at = strchr(at + 1, '<')) {
        size_t bytes = strcspn(at + 1, ">");
        const char *after = at + 1 + bytes;
        const char *next = strchr(after, '<'), *rel = strstr(after, "rel=\"next\"");
        if (!rel || (next && rel > next) || bytes >= sizeof answer->next)
            continue;
        snprintf(answer->next, sizeof answer->next, "%.*s", (int)bytes, at + 1);
        return;
    }
}

static size_t header_handle(char *at, size_t one, size_t bytes, void *context)
{
    struct hub_answer *answer = context;
    char value[HUB_URL_MAX];
    unsigned long long from, to, size;
    struct text line = text_span(at, bytes);
    (void)one;
    while (line.bytes > 0 && strchr("\r\n", line.at[line.bytes - 1]))
        line.bytes--;
    if (line.bytes > 5 && memcmp(line.at, "HTTP/", 5) == 0) {
        long code = 0;
        snprintf(value, sizeof value, "%.*s", (int)line.bytes, line.at);
        sscanf(value, "%*s %ld", &code);
        *answer = (struct hub_answer){.code = code}; // a proxy's answer may precede
    }
    header_copy(answer->location, sizeof answer->location, line, "location");
    header_copy(answer->error_code, sizeof answer->error_code, line, "x-error-code");
    header_copy(answer->linked_etag, sizeof answer->linked_etag, line, "x-linked-etag");
    header_copy(answer->etag, sizeof answer->etag, line, "etag");
    if (header_copy(value, sizeof value, line, "link"))
        next_read(answer, value);
    if (header_copy(value, sizeof value, line, "retry-after"))
        answer->retry_after = (uint32_t)strtoul(value, NULL, 10);
    if (header_copy(value, sizeof value, line, "content-range") &&
        sscanf(value, "bytes %llu-%llu/%llu", &from, &to, &size) == 3) {
        answer->range_from = from;
        answer->range_size = size;
    }
    return bytes;
}

// Ends the transfer after hub_stop.
static int on_progress(void *context, curl_off_t all, curl_off_t done, curl_off_t all_sent,
                       curl_off_t sent)
{
    (void)context, (void)all, (void)done, (void)all_sent, (void)sent;
    return hub_is_stopped();
}

void hub_request_set(const struct hub_client *client, CURL *easy, const char *url,
                     struct hub_answer *answer, struct curl_slist **headers)
{
    const char *origin = origin_of(url, client->arena);
    bool own = origin && strcmp(origin, client->origin) == 0;
    curl_easy_reset(easy);
    *headers = NULL;
    if (client->token && own)
        *headers = curl_slist_append(*headers, client->token);
    else if (client->login && own)
        curl_easy_setopt(easy, CURLOPT_USERPWD, client->login);
    *answer = (struct hub_answer){0};
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, *headers);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "weft/" WEFT_VERSION);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_SECONDS);
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, (long)SILENCE_SECONDS);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, header_handle);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, answer);
    if (client->certificates)
        curl_easy_setopt(easy, CURLOPT_CAINFO, client->certificates);
}

const char *hub_redirect_target(const struct hub_client *client, const char *url,
                                const struct hub_answer *answer)
{
    char *target = NULL;
    const char *out = NULL;
    CURLU *parts = curl_url();
    if (parts && curl_url_set(parts, CURLUPART_URL, url, 0) == CURLUE_OK &&
        curl_url_set(parts, CURLUPART_URL, answer->location, CURLU_URLENCODE) == CURLUE_OK &&
        curl_url_get(parts, CURLUPART_URL, &target, 0) == CURLUE_OK)
        out = arena_copy(client->arena, text_of(target)).at;
    curl_free(target);
    curl_url_cleanup(parts);
    bool http = out && origin_of(out, client->arena);
    bool weaker = http && strncmp(url, "https:", 6) == 0 && strncmp(out, "https:", 6) != 0;
    return http && !weaker ? out : NULL;
}

enum status hub_failed(const struct hub_client *client, const struct hub_name *name,
                       const struct hub_answer *answer, CURLcode curl, struct error *err)
{
    const char *hub = client->endpoint;
    if (hub_is_stopped())
        return hub_stopped(name->repo, err);
    if (curl == CURLE_WRITE_ERROR)
        return err->status; // set by the function that could not write
    if (curl != CURLE_OK)
        return error_set(err, STATUS_IO,
                         "%s cannot be fetched from %s: %s; HTTPS_PROXY names a proxy, HF_ENDPOINT "
                         "another hub, and HF_HUB_OFFLINE=1 uses only models that are in the cache",
                         name->repo, hub, curl_easy_strerror(curl));
    if (strcmp(answer->error_code, "GatedRepo") == 0)
        return error_set(err, STATUS_REFUSED,
                         "%s is gated: accept its terms at %s/%s and set HF_TOKEN to a token of "
                         "that account%s",
                         name->repo, hub, name->repo,
                         client->token ? " (the token in use has no access)" : "");
    if (strcmp(answer->error_code, "RevisionNotFound") == 0)
        return error_set(err, STATUS_NOT_FOUND, "%s has no revision '%s': see %s/%s/tree/main",
                         name->repo, name->revision, hub, name->repo);
    if (answer->code == 401 && client->token && answer->error_code[0] == '\0')
        return error_set(err, STATUS_REFUSED,
                         "%s does not accept the token of HF_TOKEN or of the token file: create a "
                         "new one, or unset it for public models",
                         hub);
    if (answer->code == 401 || answer->code == 404)
        return error_set(err, STATUS_NOT_FOUND,
                         "there is no folder %s here and no public model of this name on %s: "
                         "correct the name, or%s set HF_TOKEN to a token that may read it",
                         name->repo, hub, client->token ? ", if it is private," : "");
    if (answer->code == 403)
        return error_set(err, STATUS_REFUSED, "%s may not be read with %s: request access at %s/%s",
                         name->repo, client->token ? "this token" : "no token (HF_TOKEN)", hub,
                         name->repo);
    if (answer->code == 429 && answer->retry_after > 0)
        return error_set(err, STATUS_IO,
                         "%s limits the number of requests: wait %u s, or set HF_TOKEN if it is "
                         "not set",
                         hub, answer->retry_after);
    if (answer->code == 429)
        return error_set(err, STATUS_IO,
                         "%s limits the number of requests: wait a few minutes, or set HF_TOKEN if "
                         "it is not set",
                         hub);
    return error_set(err, STATUS_IO, "%s answered %ld for %s: try again later", hub, answer->code,
                     name->repo);
}

bool hub_is_passing(const struct hub_answer *answer, CURLcode curl, uint32_t tries,
                    uint32_t *wait_ms)
{
    *wait_ms = 125u << (tries < 5 ? tries : 5);
    if (tries + 1 >= TRIES_MAX || curl == CURLE_WRITE_ERROR)
        return false;
    if (curl != CURLE_OK)
        return curl == CURLE_RECV_ERROR || curl == CURLE_SEND_ERROR || curl == CURLE_GOT_NOTHING ||
               curl == CURLE_PARTIAL_FILE || curl == CURLE_OPERATION_TIMEDOUT ||
               curl == CURLE_HTTP2 || curl == CURLE_HTTP2_STREAM;
    if (answer->code == 429 && answer->retry_after > 0)
        *wait_ms = answer->retry_after * 1000;
    return answer->code == 408 || (answer->code >= 500 && answer->code < 600) ||
           (answer->code == 429 && answer->retry_after <= RETRY_AFTER_MAX);
}

static size_t body_add(char *at, size_t one, size_t bytes, void *context)
{
    struct json_buffer *body = context;
    (void)one;
    if (body->bytes + bytes > HUB_JSON_BYTES_MAX)
        return 0;
    json_put_raw(body, text_span(at, bytes));
    return bytes;
}

// Requests the URL and follows redirects. *body receives the body of the last answer.
static CURLcode body_request(const struct hub_client *client, CURL *easy, const char *url,
                             struct hub_answer *answer, struct json_buffer *body)
{
    CURLcode code = CURLE_OK;
    for (int hops = 0; hops <= REDIRECTS_MAX && url; hops++) {
        struct curl_slist *headers;
        hub_request_set(client, easy, url, answer, &headers);
        curl_easy_setopt(easy, CURLOPT_ACCEPT_ENCODING, "");
        curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, body_add);
        curl_easy_setopt(easy, CURLOPT_WRITEDATA, body);
        body->bytes = 0;
        code = curl_easy_perform(easy);
        curl_slist_free_all(headers);
        bool redirect = code == CURLE_OK && answer->code / 100 == 3;
        url = redirect ? hub_redirect_target(client, url, answer) : NULL;
    }
    return code == CURLE_WRITE_ERROR ? CURLE_FILESIZE_EXCEEDED : code;
}

enum status hub_json(const struct hub_client *client, json_t **out, const char *url,
                     const struct hub_name *name, const char **next, struct error *err)
{
    struct json_buffer body = {0};
    struct hub_answer *answer = heap_alloc(sizeof *answer);
    CURL *easy = curl_easy_init();
    CURLcode code = CURLE_FAILED_INIT;
    uint32_t wait_ms;
    *out = NULL;
    for (uint32_t tries = 0; easy; tries++) {
        code = body_request(client, easy, url, answer, &body);
        bool good = code == CURLE_OK && answer->code == 200;
        if (good || !hub_is_passing(answer, code, tries, &wait_ms) || !hub_sleep(wait_ms))
            break;
    }
    enum status status = STATUS_OK;
    if (code != CURLE_OK || answer->code != 200)
        status = hub_failed(client, name, answer, code, err);
    else if (json_parse(out, json_buffer_text(&body), err) != STATUS_OK)
        status =
            error_set(err, STATUS_IO,
                      "%s does not answer as a model hub does: check HF_ENDPOINT and the proxy",
                      client->endpoint);
    if (next)
        *next = status == STATUS_OK && answer->next[0] != '\0'
                    ? arena_copy(client->arena, text_of(answer->next)).at
                    : NULL;
    curl_easy_cleanup(easy);
    json_buffer_free(&body);
    heap_free(answer);
    return status;
}

const char *hub_url_escape(const char *path, struct arena *arena)
{
    char *out = arena_alloc(arena, 3 * strlen(path) + 1);
    size_t bytes = 0;
    for (const char *c = path; *c != '\0'; c++)
        if (isalnum((unsigned char)*c) || strchr("-._~/", *c))
            out[bytes++] = *c;
        else
            bytes += (size_t)snprintf(out + bytes, 4, "%%%02X", (unsigned char)*c);
    out[bytes] = '\0';
    return out;
}
