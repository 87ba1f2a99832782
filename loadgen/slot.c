// SPDX-License-Identifier: Apache-2.0
// Requests in flight: libcurl's options and callbacks; see slot.h. One thread.
#include "loadgen/slot.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

enum { HEAD_BYTES_MAX = 256 << 10, STATUS_OK_HTTP = 200 };

static size_t head_arrived(char *at, size_t size, size_t count, void *user)
{
    static const char name[] = "retry-after:";
    struct bench_slot *s = user;
    s->head_bytes += size * count;
    if (s->head_bytes > HEAD_BYTES_MAX) {
        s->oversized = true;
        return 0;
    }
    if (size * count > sizeof name && strncasecmp(at, name, sizeof name - 1) == 0)
        s->retry_after = strtol(at + sizeof name - 1, NULL, 10) > 0;
    return size * count;
}

// Keeps the start of the body of a refusal; other bytes than printable ASCII become '?'.
static void refusal_add(struct bench_slot *s, struct text bytes)
{
    size_t length = strlen(s->refusal);
    for (size_t i = 0; i < bytes.bytes && length + 1 < sizeof s->refusal; i++)
        s->refusal[length++] = bytes.at[i] >= ' ' && bytes.at[i] <= '~' ? bytes.at[i] : '?';
    s->refusal[length] = '\0';
}

static size_t body_arrived(char *at, size_t size, size_t count, void *user)
{
    struct bench_slot *s = user;
    struct bench_reply *reply = &s->reply;
    if (s->record.status == 0) {
        long status = 0;
        curl_easy_getinfo(s->easy, CURLINFO_RESPONSE_CODE, &status);
        s->record.status = (uint16_t)status;
    }
    if (s->record.status != STATUS_OK_HTTP) {
        refusal_add(s, text_span(at, size * count));
        return size * count;
    }
    double now = bench_runner_now(s->runner);
    now = now > s->record.sent ? now : s->record.sent;
    uint64_t before = reply->events;
    bool fits = bench_reply_feed(reply, text_span(at, size * count), now);
    bench_runner_events(s->runner, now, reply->events - before);
    if (!fits) {
        s->oversized = true;
        return 0;
    }
    if (s->leaves && reply->events >= s->leave_after && !reply->complete) {
        s->has_left = true;
        return 0;
    }
    return size * count;
}

static int socket_opened(void *user, curl_socket_t socket, curlsocktype purpose)
{
    (void)user;
    (void)purpose;
    bench_poll_stamp(socket);
    return CURL_SOCKOPT_OK;
}

// Returns the address of a target. A URL without a path, or with the path /v1, gets the API's path;
// another path is a prefix, unless it is the API's path itself.
static char *url_make(const struct bench_options *o, enum bench_api api)
{
    const char *path = o->path ? o->path : bench_api_path(api);
    size_t bytes = strlen(o->url), path_bytes = strlen(path);
    while (bytes > 0 && o->url[bytes - 1] == '/')
        bytes--;
    char *url = heap_alloc(bytes + path_bytes + 2);
    memcpy(url, o->url, bytes);
    url[bytes] = '\0';
    if (bytes > path_bytes && strcmp(url + bytes - path_bytes, path) == 0)
        return url;
    bool versioned = bytes > 3 && strcmp(url + bytes - 3, "/v1") == 0;
    if (versioned && !o->path)
        bytes -= 3; // the API's path has the version
    snprintf(url + bytes, path_bytes + 2, "%s%s", path[0] == '/' ? "" : "/", path);
    return url;
}

static struct curl_slist *headers_make(const struct bench_options *o, enum bench_api api)
{
    struct curl_slist *list = curl_slist_append(NULL, "Content-Type: application/json");
    list = curl_slist_append(list, "Expect:");
    if (api == BENCH_MESSAGES)
        list = curl_slist_append(list, "anthropic-version: 2023-06-01");
    if (o->key) {
        static const char *const names[] = {"Authorization: Bearer ", "x-api-key: "};
        const char *name = names[api == BENCH_MESSAGES];
        size_t bytes = strlen(name) + strlen(o->key) + 1;
        char *line = heap_alloc(bytes);
        snprintf(line, bytes, "%s%s", name, o->key);
        list = curl_slist_append(list, line);
        heap_free(line);
    }
    for (uint32_t i = 0; i < o->header_count; i++)
        list = curl_slist_append(list, o->headers[i]);
    check(list, "libcurl has no memory");
    return list;
}

void bench_routes_open(struct bench_routes *out, const struct bench_options *o)
{
    *out = (struct bench_routes){0};
    for (uint32_t i = 0; i < o->target_count; i++) {
        out->url[i] = url_make(o, o->targets[i].api);
        out->headers[i] = headers_make(o, o->targets[i].api);
    }
}

void bench_routes_close(struct bench_routes *routes)
{
    for (uint32_t i = 0; i < BENCH_TARGETS_MAX; i++) {
        heap_free(routes->url[i]);
        curl_slist_free_all(routes->headers[i]);
    }
}

struct bench_slot *bench_slot_create(struct bench_runner *runner, const struct bench_options *o)
{
    struct bench_slot *s = heap_alloc_zeroed(1, sizeof *s);
    s->runner = runner;
    s->leave_after = o->leave_after;
    s->easy = curl_easy_init();
    check(s->easy, "libcurl has no memory");
    curl_easy_setopt(s->easy, CURLOPT_PROTOCOLS_STR, "http,https");
    // one connection per request in flight, as independent clients have
    curl_easy_setopt(s->easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(s->easy, CURLOPT_WRITEFUNCTION, body_arrived);
    curl_easy_setopt(s->easy, CURLOPT_WRITEDATA, s);
    curl_easy_setopt(s->easy, CURLOPT_HEADERFUNCTION, head_arrived);
    curl_easy_setopt(s->easy, CURLOPT_HEADERDATA, s);
    curl_easy_setopt(s->easy, CURLOPT_SOCKOPTFUNCTION, socket_opened);
    curl_easy_setopt(s->easy, CURLOPT_PRIVATE, s);
    curl_easy_setopt(s->easy, CURLOPT_PROXY, "");
    curl_easy_setopt(s->easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(s->easy, CURLOPT_TCP_NODELAY, 1L);
    curl_easy_setopt(s->easy, CURLOPT_TIMEOUT_MS, (long)(o->request_timeout_s * 1e3));
    curl_easy_setopt(s->easy, CURLOPT_SSL_VERIFYPEER, o->insecure ? 0L : 1L);
    curl_easy_setopt(s->easy, CURLOPT_SSL_VERIFYHOST, o->insecure ? 0L : 2L);
    if (o->ca_file)
        curl_easy_setopt(s->easy, CURLOPT_CAINFO, o->ca_file);
    return s;
}

void bench_slot_destroy(struct bench_slot *s)
{
    curl_easy_cleanup(s->easy);
    json_buffer_free(&s->body);
    bench_conversation_end(&s->conversation);
    bench_reply_free(&s->reply);
    heap_free(s);
}

void bench_slot_aim(struct bench_slot *s, const struct bench_options *o,
                    const struct bench_routes *routes, uint32_t target)
{
    s->head_bytes = 0;
    memset(s->refusal, 0, sizeof s->refusal);
    s->leaves = s->has_left = s->oversized = s->retry_after = false;
    s->record = (struct bench_record){.target = (uint8_t)target};
    s->reply.api = o->targets[target].api;
    s->reply.keeps = o->multi_turn;
    s->reply.streamed = s->record.streamed = bench_body_streams(o, s->reply.api);
    bench_reply_start(&s->reply);
    curl_easy_setopt(s->easy, CURLOPT_URL, routes->url[target]);
    curl_easy_setopt(s->easy, CURLOPT_HTTPHEADER, routes->headers[target]);
    curl_easy_setopt(s->easy, CURLOPT_POSTFIELDS, s->body.at);
    curl_easy_setopt(s->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)s->body.bytes);
}

enum bench_outcome bench_slot_outcome(struct bench_slot *s, CURLcode code, double now)
{
    long status = 0;
    curl_easy_getinfo(s->easy, CURLINFO_RESPONSE_CODE, &status);
    s->record.status = status > 0 && status < 1000 ? (uint16_t)status : 0;
    if (s->has_left)
        return BENCH_OUTCOME_LEFT;
    if (s->oversized)
        return BENCH_OUTCOME_OVERSIZED;
    if (code == CURLE_COULDNT_CONNECT || code == CURLE_COULDNT_RESOLVE_HOST ||
        code == CURLE_SSL_CONNECT_ERROR || code == CURLE_PEER_FAILED_VERIFICATION)
        return BENCH_OUTCOME_UNCONNECTED;
    if (code == CURLE_OPERATION_TIMEDOUT)
        return BENCH_OUTCOME_TIMED_OUT;
    if (code != CURLE_OK)
        return BENCH_OUTCOME_LOST;
    if (status != STATUS_OK_HTTP)
        return BENCH_OUTCOME_REFUSED;
    bench_reply_end(&s->reply, now);
    return s->reply.failed      ? BENCH_OUTCOME_EVENT_ERROR
           : s->reply.malformed ? BENCH_OUTCOME_MALFORMED
           : s->reply.complete  ? BENCH_OUTCOME_OK
                                : BENCH_OUTCOME_INCOMPLETE;
}
