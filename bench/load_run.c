// SPDX-License-Identifier: Apache-2.0
// The run: slots that each hold one request in flight, filled by the closed or the open loop, and
// the outcome of each request. In a closed loop slot i belongs to one target for the entire run, so
// that --concurrency 4 with four --send is one client per endpoint.
#include "bench/load.h"
#include "bench/load_poll.h"
#include "base/clock.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

struct runner;

struct slot {
    struct runner *runner;
    CURL *easy;
    struct json_buffer body;
    struct reply reply;
    struct reply_head {
        long status;
        bool retry_after;
    } head;
    uint32_t target, prompt;
    bool leaves, has_left, too_large;
    uint64_t sent; // number of requests that this slot has sent
};

struct runner {
    const struct load_options *o;
    const struct trace *trace; // NULL: closed loop
    struct load_result *result;
    struct load_poll poll;
    struct slot *slots; // [o->concurrency]
    uint32_t *idle;     // [idle_count] slots without a request
    uint32_t idle_count;
    uint32_t retired; // slots of a closed loop whose server is unreachable
    struct curl_slist *headers[ENDPOINT_COUNT];
    uint32_t *target_cycle; // [weight_sum] targets, each repeated by its weight
    uint32_t weight_sum;
    uint64_t sent, sent_max;
    uint64_t *reference_hash; // [target_count][prompts] hash of the answer if sent alone
    bool recording;           // true in the pass that fills `reference_hash`
    double started;
};

static curl_socket_t socket_open(void *user, curlsocktype purpose, struct curl_sockaddr *address)
{
    const struct sockaddr *a = &address->addr;
    (void)user;
    (void)purpose;
    bool four = a->sa_family == AF_INET &&
                ntohl(((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr) >> 24 == 127;
    bool six = a->sa_family == AF_INET6 &&
               IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr);
    if (!four && !six)
        return CURL_SOCKET_BAD;
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

static size_t head_arrived(char *at, size_t size, size_t count, void *user)
{
    static const char name[] = "retry-after:";
    struct slot *s = user;
    if (size * count > sizeof name && strncasecmp(at, name, sizeof name - 1) == 0)
        s->head.retry_after = strtol(at + sizeof name - 1, NULL, 10) > 0;
    return size * count;
}

static size_t body_arrived(char *at, size_t size, size_t count, void *user)
{
    struct slot *s = user;
    struct load_stats *stats = &s->runner->result->targets[s->target];
    curl_easy_getinfo(s->easy, CURLINFO_RESPONSE_CODE, &s->head.status);
    if (s->head.status != 200)
        return size * count; // a refusal, of which only the status counts
    s->reply.gaps = &stats->gap;
    if (!reply_feed(&s->reply, at, size * count, clock_s())) {
        s->too_large = true;
        return 0;
    }
    if (s->leaves && s->reply.pieces >= s->runner->o->leave_after && !s->reply.complete) {
        s->has_left = true;
        return 0;
    }
    return size * count;
}

static void slot_prepare(struct runner *r, struct slot *s, enum endpoint endpoint)
{
    const struct load_options *o = r->o;
    char url[512];
    snprintf(url, sizeof url, "%s%s", o->url, request_path(endpoint));
    curl_easy_setopt(s->easy, CURLOPT_URL, url);
    curl_easy_setopt(s->easy, CURLOPT_HTTPHEADER, r->headers[endpoint]);
    curl_easy_setopt(s->easy, CURLOPT_POSTFIELDS, s->body.at);
    curl_easy_setopt(s->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)s->body.bytes);
    curl_easy_setopt(s->easy, CURLOPT_WRITEFUNCTION, body_arrived);
    curl_easy_setopt(s->easy, CURLOPT_WRITEDATA, s);
    curl_easy_setopt(s->easy, CURLOPT_HEADERFUNCTION, head_arrived);
    curl_easy_setopt(s->easy, CURLOPT_HEADERDATA, s);
    curl_easy_setopt(s->easy, CURLOPT_PRIVATE, s);
    curl_easy_setopt(s->easy, CURLOPT_OPENSOCKETFUNCTION, socket_open);
    curl_easy_setopt(s->easy, CURLOPT_PROXY, "");
    curl_easy_setopt(s->easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(s->easy, CURLOPT_TIMEOUT_MS, (long)(o->request_timeout_s * 1e3));
    curl_easy_setopt(s->easy, CURLOPT_SSL_VERIFYPEER, o->insecure ? 0L : 1L);
    curl_easy_setopt(s->easy, CURLOPT_SSL_VERIFYHOST, o->insecure ? 0L : 2L);
}

struct want {
    uint32_t target, prompt;
    const struct arrival *arrival; // NULL: a generated prompt
};

static void slot_start(struct runner *r, struct slot *s, struct want want)
{
    const struct load_options *o = r->o;
    const struct load_target *target = &o->targets[want.target];
    struct request_spec spec = {.target = target,
                                .words = o->prompt_words,
                                .seed = load_random(o->seed * 0x1003f + want.prompt),
                                .max_tokens = o->max_tokens};
    if (want.arrival) {
        spec.words = want.arrival->input_tokens;
        spec.max_tokens = want.arrival->output_tokens;
        spec.hash_count = want.arrival->hash_count;
        spec.hashes = r->trace->hashes + want.arrival->hash_first;
    }
    request_body(&s->body, o, &spec);
    s->target = want.target;
    s->prompt = want.prompt;
    s->head = (struct reply_head){0};
    s->has_left = s->too_large = false;
    s->reply.endpoint = target->endpoint;
    s->reply.streamed = request_streams(o, target->endpoint);
    r->sent++;
    s->leaves =
        !r->recording && o->leave_every > 0 && s->reply.streamed && r->sent % o->leave_every == 0;
    s->sent++;
    if (!r->recording)
        r->result->targets[s->target].sent++;
    slot_prepare(r, s, target->endpoint);
    reply_start(&s->reply, clock_s());
    curl_multi_add_handle(r->poll.multi, s->easy);
}

static void check_reference(struct runner *r, const struct slot *s, struct load_stats *stats)
{
    uint64_t *reference = &r->reference_hash[s->target * r->o->prompts + s->prompt];
    if (r->recording)
        *reference = s->reply.hash;
    else if (r->o->check && *reference != s->reply.hash)
        stats->differing++;
}

static void answer_count(struct runner *r, struct slot *s, struct load_stats *stats, double now)
{
    struct reply *reply = &s->reply;
    reply_end(reply, now);
    stats->ok++;
    stats->prompt_tokens += reply->prompt_tokens;
    stats->tokens += reply->tokens;
    stats->pieces += reply->pieces;
    enum endpoint e = reply->endpoint;
    if (e == ENDPOINT_EMBEDDINGS || e == ENDPOINT_RERANK)
        stats->inputs += r->o->inputs;
    stats->event_errors += reply->failed;
    stats->incomplete += !reply->complete && !reply->failed;
    if (!reply->complete || reply->failed)
        return;
    histogram_add(&stats->whole, now - reply->started);
    if (reply->streamed && reply->pieces > 0)
        histogram_add(&stats->first, reply->first_at - reply->started);
    if (reply->streamed && reply->tokens > 1)
        histogram_add(&stats->per_token,
                      (reply->last_at - reply->first_at) / (double)(reply->tokens - 1));
    check_reference(r, s, stats);
}

// Counts the outcome of the request and frees its slot.
static void slot_settle(struct runner *r, struct slot *s, CURLcode code)
{
    struct load_stats *stats = &r->result->targets[s->target];
    double now = clock_s();
    bool closed = !r->trace && !r->recording;
    curl_easy_getinfo(s->easy, CURLINFO_RESPONSE_CODE, &s->head.status);
    long status = s->head.status;
    bool refusal = status == 429 || status == 503 || status == 529;
    if (s->has_left) {
        stats->left++;
        stats->status[200]++;
    } else if (code == CURLE_COULDNT_CONNECT) {
        stats->unconnected++;
        r->retired += closed;
    } else if (code != CURLE_OK) {
        stats->lost++;
        if (r->result->lost_why[0] == '\0')
            snprintf(r->result->lost_why, sizeof r->result->lost_why, "%s%s",
                     curl_easy_strerror(code), s->too_large ? " (a reply over its limit)" : "");
    } else {
        stats->status[status > 0 && status < STATUS_CODES ? status : 0]++;
        stats->no_retry_after += refusal && !s->head.retry_after;
        if (status == 200)
            answer_count(r, s, stats, now);
    }
    curl_multi_remove_handle(r->poll.multi, s->easy);
    if (!closed || code != CURLE_COULDNT_CONNECT)
        r->idle[r->idle_count++] = (uint32_t)(s - r->slots);
}

static void settle_all(struct runner *r)
{
    int left;
    for (CURLMsg *m; (m = curl_multi_info_read(r->poll.multi, &left)) != NULL;) {
        struct slot *s;
        if (m->msg != CURLMSG_DONE)
            continue;
        CURLcode code = m->data.result;
        curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&s);
        slot_settle(r, s, code);
    }
}

static void fill_recording(struct runner *r)
{
    uint32_t prompts = r->o->prompts;
    if (r->sent < r->sent_max && r->idle_count == r->o->concurrency)
        slot_start(r, &r->slots[r->idle[--r->idle_count]],
                   (struct want){.target = (uint32_t)(r->sent / prompts),
                                 .prompt = (uint32_t)(r->sent % prompts)});
}

static void fill_closed(struct runner *r, double now)
{
    while (r->idle_count > 0 && r->sent < r->sent_max && now - r->started < r->o->seconds_max) {
        uint32_t place = r->idle[--r->idle_count];
        struct slot *s = &r->slots[place];
        uint64_t prompt = s->sent * r->o->concurrency + place;
        slot_start(r, s,
                   (struct want){.target = r->target_cycle[place % r->weight_sum],
                                 .prompt = (uint32_t)(prompt % r->o->prompts)});
    }
}

// Starts requests that are due. Returns the time at which to continue: the next arrival if it is
// known to be due later, else a second from now.
static double fill_open(struct runner *r, double now)
{
    while (r->sent < r->sent_max) {
        const struct arrival *a = &r->trace->at[r->sent];
        double due = r->started + a->at_s;
        if (due > now || r->idle_count == 0)
            return due > now ? due : now + 1;
        histogram_add(&r->result->late, now - due);
        struct slot *s = &r->slots[r->idle[--r->idle_count]];
        slot_start(r, s,
                   (struct want){.target = r->target_cycle[r->sent % r->weight_sum],
                                 .prompt = (uint32_t)(r->sent % r->o->prompts),
                                 .arrival = a});
        s->reply.started = due; // the wait for a free slot counts as time of the request
    }
    return now + 1;
}

static void runner_pass(struct runner *r)
{
    const uint32_t slots = r->o->concurrency;
    r->started = clock_s();
    for (;;) {
        double now = clock_s(), until = now + 1;
        if (r->recording)
            fill_recording(r);
        else if (r->trace)
            until = fill_open(r, now);
        else
            fill_closed(r, now);
        uint32_t busy = slots - r->retired - r->idle_count;
        if (busy > r->result->in_flight_max)
            r->result->in_flight_max = busy;
        bool more = r->sent < r->sent_max && r->retired < slots &&
                    (r->recording || r->trace || now - r->started < r->o->seconds_max);
        if (busy == 0 && !more)
            break;
        load_poll_wait(&r->poll, until);
        settle_all(r);
    }
    r->result->seconds = clock_s() - r->started;
}

static enum status runner_open(struct runner *r, struct error *err)
{
    const struct load_options *o = r->o;
    enum status status = load_poll_open(&r->poll, (long)o->concurrency, err);
    if (status != STATUS_OK)
        return status;
    for (int e = 0; e < ENDPOINT_COUNT; e++) {
        char key[1024];
        snprintf(key, sizeof key,
                 e == ENDPOINT_MESSAGES ? "x-api-key: %s" : "Authorization: Bearer %s",
                 o->key ? o->key : "");
        r->headers[e] = curl_slist_append(NULL, "Content-Type: application/json");
        r->headers[e] = curl_slist_append(r->headers[e], "Expect:");
        if (o->key)
            r->headers[e] = curl_slist_append(r->headers[e], key);
    }
    for (uint32_t i = 0; i < o->target_count; i++)
        r->weight_sum += o->targets[i].weight;
    r->target_cycle = heap_alloc_zeroed(r->weight_sum, sizeof *r->target_cycle);
    for (uint32_t i = 0, at = 0; i < o->target_count; i++)
        for (uint32_t w = 0; w < o->targets[i].weight; w++)
            r->target_cycle[at++] = i;
    r->slots = heap_alloc_zeroed(o->concurrency, sizeof *r->slots);
    r->idle = heap_alloc_zeroed(o->concurrency, sizeof *r->idle);
    r->reference_hash =
        heap_alloc_zeroed((size_t)o->target_count * o->prompts, sizeof *r->reference_hash);
    for (uint32_t i = 0; i < o->concurrency; i++) {
        r->slots[i] = (struct slot){.runner = r, .easy = curl_easy_init()};
        r->idle[r->idle_count++] = o->concurrency - 1 - i;
    }
    return STATUS_OK;
}

static void runner_close(struct runner *r)
{
    for (uint32_t i = 0; r->slots && i < r->o->concurrency; i++) {
        curl_easy_cleanup(r->slots[i].easy);
        json_buffer_free(&r->slots[i].body);
        json_buffer_free(&r->slots[i].reply.text);
    }
    load_poll_close(&r->poll);
    for (int e = 0; e < ENDPOINT_COUNT; e++)
        curl_slist_free_all(r->headers[e]);
    heap_free(r->slots);
    heap_free(r->idle);
    heap_free(r->reference_hash);
    heap_free(r->target_cycle);
}

// Records the answers of all prompts, one at a time; the figures of this pass are dropped.
static enum status runner_record(struct runner *r, struct error *err)
{
    r->recording = true;
    r->sent_max = (uint64_t)r->o->target_count * r->o->prompts;
    runner_pass(r);
    uint64_t good = 0;
    for (uint32_t i = 0; i < r->o->target_count; i++)
        good += r->result->targets[i].whole.count;
    if (good != r->sent_max)
        return error_set(err, STATUS_REFUSED,
                         "--check: %llu of %llu prompts that were sent alone got no answer",
                         (unsigned long long)(r->sent_max - good), (unsigned long long)r->sent_max);
    memset(r->result, 0, sizeof *r->result);
    r->recording = false;
    r->sent = 0;
    for (uint32_t i = 0; i < r->o->concurrency; i++)
        r->slots[i].sent = 0;
    return STATUS_OK;
}

enum status load_run(struct load_result *out, const struct load_options *o,
                     const struct trace *trace, struct error *err)
{
    struct runner r = {.o = o, .result = out, .trace = trace};
    enum status status = runner_open(&r, err);
    if (status == STATUS_OK && o->check)
        status = runner_record(&r, err);
    if (status == STATUS_OK) {
        r.sent_max = trace ? trace->count : o->requests_max;
        runner_pass(&r);
    }
    runner_close(&r);
    return status;
}
