// SPDX-License-Identifier: Apache-2.0
// `weft chat --url`: sends one streamed request per message to a server with OpenAI's chat
// completions API, using libcurl; see chat.h. Text is shown as it arrives; Ctrl-C closes the
// connection, which ends the answer. Main thread.
#include "cli/chat.h"

#include "base/clock.h"
#include "base/sse.h"

#include <curl/curl.h>
#include <string.h>

enum { BODY_BYTES_MAX = 16 << 20, ANSWER_BYTES_MAX = 16 << 20, CONNECT_SECONDS = 10 };

struct chat_remote {
    CURLM *multi;
    char *base, *model, *key; // base: URL up to and including /v1; key: header line, or NULL
    char *shown;              // base without the password, for messages
    json_t *sampling;         // sampling parameters that the server recommends, or NULL
    uint32_t silence_s;       // seconds without text that end an answer; 0: no limit
    bool loopback;            // true if the server is on this machine
};

// One request to the server. Events of a stream are parsed as they arrive, other bodies at the end.
struct transfer {
    CURL *easy;
    struct chat_answer *answer; // NULL: the complete body is collected
    struct json_buffer body;    // the collected body
    struct sse sse;             // the incomplete event of a stream
    struct error *err;
    enum status status;
    bool done;          // true if the answer is complete
    bool over;          // true if the transfer can end: nothing more is expected
    size_t shown_bytes; // bytes of text and reasoning received
    uint64_t heard_ns;  // clock_ns of the last text
};

static char *text_join(const char *a, const char *b)
{
    size_t first = strlen(a), second = strlen(b);
    char *both = heap_alloc(first + second + 1);
    memcpy(both, a, first);
    memcpy(both + first, b, second + 1);
    return both;
}

// Returns the base URL. "http://host:8000" and "http://host:8000/" get the path /v1; a URL with
// another path is used unchanged.
static char *base_of(const char *url)
{
    size_t bytes = strlen(url);
    while (bytes > 0 && url[bytes - 1] == '/')
        bytes--;
    char *trimmed = text_join(url, "");
    trimmed[bytes] = '\0';
    const char *host = strstr(trimmed, "://") + 3;
    char *base = text_join(trimmed, strchr(host, '/') ? "" : "/v1");
    heap_free(trimmed);
    return base;
}

// Returns the URL with the part before the host's @ replaced by ***, because it may be a secret.
static char *shown_of(const char *base)
{
    const char *host = strstr(base, "://") + 3;
    const char *at = memrchr(host, '@', strcspn(host, "/?#"));
    char *shown = text_join(base, "***"); // 3 bytes longer, as *** may be longer than the secret
    if (at)
        snprintf(shown + (host - base), strlen(at) + 4, "***%s", at);
    else
        shown[strlen(base)] = '\0';
    return shown;
}

static bool is_loopback(const char *base)
{
    static const char *const own[] = {"localhost", "127.0.0.1", "[::1]"};
    bool is = false;
    char *host = NULL;
    CURLU *parts = curl_url();
    if (parts && curl_url_set(parts, CURLUPART_URL, base, 0) == CURLUE_OK &&
        curl_url_get(parts, CURLUPART_HOST, &host, 0) == CURLUE_OK)
        for (size_t i = 0; i < sizeof own / sizeof *own; i++)
            is |= strcmp(host, own[i]) == 0;
    curl_free(host);
    curl_url_cleanup(parts);
    return is;
}

static const char *error_of(const json_t *body)
{
    const json_t *error = json_object_get(body, "error");
    const char *message = json_string_value(json_object_get(error, "message"));
    message = message ? message : json_string_value(error);
    return message ? message : json_string_value(json_object_get(body, "message"));
}

static void usage_read(struct chat_answer *answer, const json_t *usage)
{
    json_int_t tokens = json_integer_value(json_object_get(usage, "completion_tokens"));
    if (tokens > 0 && tokens <= UINT32_MAX)
        answer->tokens = (uint32_t)tokens;
}

static void part_handle(struct transfer *t, enum chat_part part, const json_t *value)
{
    struct chat_answer *answer = t->answer;
    struct text piece = text_span(json_string_value(value), json_string_length(value));
    if (piece.bytes == 0 || t->status != STATUS_OK)
        return;
    if (answer->first_ns == 0)
        answer->first_ns = clock_ns();
    t->shown_bytes += piece.bytes;
    if (t->shown_bytes > ANSWER_BYTES_MAX) {
        t->status = error_set(t->err, STATUS_TOO_LARGE, "the server's answer has over %d MiB",
                              ANSWER_BYTES_MAX >> 20);
        return;
    }
    if (part == CHAT_ANSWER)
        json_put_raw(&answer->text, piece);
    t->status = chat_show(part, piece, t->err);
    t->heard_ns = clock_ns(); // showing may have blocked: not the server's silence
}

// Handles the text of one event. Servers send reasoning under either name, or under both.
static void delta_handle(struct transfer *t, const json_t *delta)
{
    const json_t *content = json_object_get(delta, "content");
    const json_t *thought = json_object_get(delta, "reasoning_content");
    if (!json_is_string(thought))
        thought = json_object_get(delta, "reasoning");
    if (json_string_length(content) + json_string_length(thought) > 0)
        t->answer->tokens++; // an estimate until the usage arrives
    part_handle(t, CHAT_REASONING, thought);
    part_handle(t, CHAT_ANSWER, content);
}

// Handles one event. Returns false if no later one is to be handled.
static bool event_handle(void *context, struct text data)
{
    struct transfer *t = context;
    data = text_trim(data);
    if (text_is(data, "[DONE]")) {
        t->done = t->over = true;
        return false;
    }
    json_t *event = NULL;
    if (json_parse(&event, data, NULL) != STATUS_OK) {
        t->status = error_set(t->err, STATUS_INVALID, "the server sent an event that is not JSON");
        return false;
    }
    if (json_object_get(event, "error")) {
        const char *message = error_of(event);
        t->status = error_set(t->err, STATUS_REFUSED, "the server ended the answer: %s",
                              message ? message : "it sent no reason");
    }
    const json_t *choice = json_array_get(json_object_get(event, "choices"), 0);
    const char *finish = json_string_value(json_object_get(choice, "finish_reason"));
    if (t->status == STATUS_OK)
        delta_handle(t, json_object_get(choice, "delta"));
    t->done |= finish != NULL;
    t->answer->cut |= finish && strcmp(finish, "length") == 0;
    usage_read(t->answer, json_object_get(event, "usage"));
    json_decref(event);
    return t->status == STATUS_OK;
}

static long http_status(const struct transfer *t)
{
    long status = 0;
    curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
    return status;
}

// libcurl callback for received bytes. Returning less than `count` ends the transfer.
static size_t body_receive(char *at, size_t size, size_t count, void *context)
{
    struct transfer *t = context;
    (void)size; // always 1
    bool streamed = t->answer && http_status(t) == 200, fits = true;
    if (streamed && !t->over)
        fits = sse_feed(&t->sse, text_span(at, count), event_handle, t) || t->over;
    else if (!streamed)
        fits = t->body.bytes + count <= BODY_BYTES_MAX;
    if (!fits && t->status == STATUS_OK)
        t->status = error_set(t->err, STATUS_TOO_LARGE, "the server's answer has over %d MiB",
                              (streamed ? SSE_EVENT_BYTES_MAX : BODY_BYTES_MAX) >> 20);
    if (!streamed && fits)
        json_put_raw(&t->body, text_span(at, count));
    return t->status == STATUS_OK ? count : 0;
}

// Ends the transfer if no text arrived for silence_s: an error, or the end if the answer is
// complete. Comments and events without text do not count.
static void silence_check(const struct chat_remote *remote, struct transfer *t)
{
    uint64_t limit = (uint64_t)remote->silence_s * 1000000000;
    if (t->status != STATUS_OK || t->over || limit == 0 || clock_ns() - t->heard_ns < limit)
        return;
    t->over = t->done;
    if (!t->done)
        t->status =
            error_set(t->err, STATUS_TIMEOUT,
                      "%s sent no text for %u s: send the message again, or raise --timeout",
                      remote->shown, remote->silence_s);
}

// Runs the transfer until its end, Ctrl-C, a silence or [DONE]; the server may keep the connection
// open after that.
static CURLcode transfer_run(struct chat_remote *remote, struct transfer *t)
{
    int running = 1, left;
    struct curl_waitfd also = {.fd = interrupt_descriptor(), .events = CURL_WAIT_POLLIN};
    CURLMcode failed = curl_multi_add_handle(remote->multi, t->easy);
    t->heard_ns = clock_ns();
    while (failed == CURLM_OK && running > 0 && !(t->answer && t->answer->stopped) && !t->over &&
           t->status == STATUS_OK) {
        failed = curl_multi_perform(remote->multi, &running);
        if (running > 0)
            silence_check(remote, t);
        if (failed == CURLM_OK && running > 0 && !t->over && t->status == STATUS_OK)
            failed = curl_multi_poll(remote->multi, &also, also.fd >= 0, 1000, NULL);
        if (t->answer)
            t->answer->stopped = interrupt_poll();
    }
    if (failed != CURLM_OK && t->status == STATUS_OK)
        t->status = error_set(t->err, STATUS_REFUSED, "no request can be sent to %s: %s",
                              remote->shown, curl_multi_strerror(failed));
    CURLMsg *message = curl_multi_info_read(remote->multi, &left);
    CURLcode code = message ? message->data.result : CURLE_OK;
    curl_multi_remove_handle(remote->multi, t->easy);
    return code;
}

// Advice for a request that gets no answer. reached: there is a server, but its reply is not
// understood.
static const struct cause {
    CURLcode code;
    bool reached;
    const char *advice;
} causes[] = {
    {CURLE_COULDNT_CONNECT, false, "start one with 'weft serve', or set its address with --url"},
    {CURLE_OPERATION_TIMEDOUT, false, "check the address, and that this machine can reach it"},
    {CURLE_COULDNT_RESOLVE_HOST, false, "check the name in --url and the network"},
    {CURLE_COULDNT_RESOLVE_PROXY, false, "the environment names a proxy (http_proxy, https_proxy)"},
    {CURLE_PROXY, false, "the environment names a proxy (http_proxy, https_proxy)"},
    {CURLE_SSL_CONNECT_ERROR, true, "for a server without TLS, --url begins with http://"},
    {CURLE_PEER_FAILED_VERIFICATION, true,
     "--url must have the name that the certificate has, and this machine must trust the issuer of "
     "the certificate (Debian: update-ca-certificates)"},
    // all other codes
    {CURLE_OK, true,
     "check that it is an HTTP server; for one with TLS, --url begins with https://"},
};

static enum status connection_error(const struct chat_remote *remote, struct transfer *t,
                                    CURLcode code, const char *reason)
{
    const struct cause *cause = causes;
    while (cause->code != CURLE_OK && cause->code != code)
        cause++;
    if (http_status(t) != 0)
        return error_set(
            t->err, STATUS_REFUSED,
            "%s closed the connection before its answer was complete (%s): send the message again",
            remote->shown, reason);
    return error_set(t->err, STATUS_REFUSED,
                     cause->reached ? "%s sent no answer (%s): %s"
                                    : "no server answers at %s (%s): %s",
                     remote->shown, reason, cause->advice);
}

static enum status refusal_error(const struct chat_remote *remote, struct transfer *t)
{
    long status = http_status(t);
    json_t *body = NULL;
    const char *message = NULL;
    if (json_parse(&body, json_buffer_text(&t->body), NULL) == STATUS_OK)
        message = error_of(body);
    if (status == 401 || status == 403)
        t->status = error_set(t->err, STATUS_REFUSED,
                              "the server refuses the key (%ld%s%.200s): set its key with "
                              "--api-key or OPENAI_API_KEY",
                              status, message ? ": " : "", message ? message : "");
    else if ((status == 404 || status / 100 == 3) && !message)
        t->status = error_set(t->err, STATUS_REFUSED,
                              "%s answers %ld: set the address of an API such as "
                              "http://127.0.0.1:8000 with --url",
                              remote->shown, status);
    else
        t->status = error_set(t->err, STATUS_REFUSED, "the server answers %ld%s%s", status,
                              message ? ": " : "", message ? message : "");
    json_decref(body);
    return t->status;
}

// Sends a request to base + path: a POST with this body, or a GET if body is NULL. The caller frees
// t->body.
static enum status transfer_send(struct chat_remote *remote, struct transfer *t, const char *path,
                                 const struct json_buffer *body)
{
    char reason[CURL_ERROR_SIZE] = "";
    char *url = text_join(remote->base, path);
    struct curl_slist *headers = curl_slist_append(NULL, "Content-Type: application/json");
    if (remote->key)
        headers = curl_slist_append(headers, remote->key);
    t->easy = curl_easy_init();
    check(t->easy && headers, "libcurl has no memory");
    curl_easy_setopt(t->easy, CURLOPT_URL, url);
    curl_easy_setopt(t->easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(t->easy, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(t->easy, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_SECONDS);
    curl_easy_setopt(t->easy, CURLOPT_ERRORBUFFER, reason);
    if (remote->loopback)
        // through a proxy the address would be the proxy's machine
        curl_easy_setopt(t->easy, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(t->easy, CURLOPT_WRITEFUNCTION, body_receive);
    curl_easy_setopt(t->easy, CURLOPT_WRITEDATA, t);
    if (body) {
        curl_easy_setopt(t->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body->bytes);
        curl_easy_setopt(t->easy, CURLOPT_POSTFIELDS, body->at);
    }
    CURLcode code = transfer_run(remote, t);
    bool stopped = t->answer && t->answer->stopped;
    if (t->status == STATUS_OK && !stopped && !t->done && code != CURLE_OK)
        t->status =
            connection_error(remote, t, code, *reason != '\0' ? reason : curl_easy_strerror(code));
    else if (t->status == STATUS_OK && !stopped && http_status(t) != 200)
        refusal_error(remote, t);
    curl_easy_cleanup(t->easy);
    curl_slist_free_all(headers);
    heap_free(url);
    return t->status;
}

// Keeps the sampling that the server recommends for the model, if it lists any.
static void sampling_read(struct chat_remote *remote, const json_t *list)
{
    size_t i;
    json_t *model;
    json_array_foreach(json_object_get(list, "data"), i, model)
    {
        const char *id = json_string_value(json_object_get(model, "id"));
        const json_t *sampling = json_object_get(model, "sampling_defaults");
        if (id && strcmp(id, remote->model) == 0 && json_is_object(sampling) && !remote->sampling)
            remote->sampling = json_deep_copy(sampling);
    }
}

// Returns the id of the first model that can chat; models whose kind the server does not list
// count.
static const char *first_model(const json_t *list)
{
    size_t i;
    json_t *model;
    json_array_foreach(json_object_get(list, "data"), i, model)
    {
        const char *kind = json_string_value(json_object_get(model, "kind"));
        if (!kind || strcmp(kind, "generator") == 0)
            return json_string_value(json_object_get(model, "id"));
    }
    return NULL;
}

// Requests the list of models, for the sampling that the model recommends and, if no model is
// named, for the first one that chats.
static enum status model_find(struct chat_remote *remote, struct error *err)
{
    struct transfer t = {.err = err};
    json_t *list = NULL;
    enum status status = transfer_send(remote, &t, "/models", NULL);
    if (status == STATUS_OK && json_parse(&list, json_buffer_text(&t.body), err) != STATUS_OK)
        status = error_set(
            err, STATUS_INVALID,
            "%s is not an API: set the address of one such as http://127.0.0.1:8000 with --url",
            remote->shown);
    const char *id = status == STATUS_OK ? first_model(list) : NULL;
    if (remote->model)
        status = STATUS_OK; // without a list, the first message reports what is wrong
    else if (id)
        remote->model = text_join(id, "");
    else if (status == STATUS_OK)
        status = error_set(err, STATUS_NOT_FOUND,
                           "%s lists no model that chats: name one, weft chat --url %s MODEL",
                           remote->shown, remote->shown);
    if (status == STATUS_OK)
        sampling_read(remote, list);
    json_decref(list);
    json_buffer_free(&t.body);
    return status;
}

enum status chat_remote_open(struct chat_remote **out, const struct chat_remote_args *args,
                             struct error *err)
{
    struct chat_remote *remote = heap_alloc_zeroed(1, sizeof *remote);
    *out = remote;
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return error_set(err, STATUS_IO, "libcurl cannot be used");
    remote->multi = curl_multi_init();
    if (!remote->multi)
        return error_set(err, STATUS_IO,
                         "libcurl cannot be used: check the limit of open files (ulimit -n)");
    remote->base = base_of(args->url);
    remote->shown = shown_of(remote->base);
    remote->loopback = is_loopback(remote->base);
    remote->silence_s = args->silence_s;
    remote->key = args->key ? text_join("Authorization: Bearer ", args->key) : NULL;
    remote->model = args->model ? text_join(args->model, "") : NULL;
    return model_find(remote, err);
}

const char *chat_remote_model(const struct chat_remote *remote)
{
    return remote->model;
}

// Writes a field of the request: the value if the user set it, else what the server recommends.
static void sampling_put(struct json_buffer *out, const struct chat_remote *remote,
                         const char *name, double value, bool given)
{
    const json_t *recommended = json_object_get(remote->sampling, name);
    if (given || json_is_number(recommended))
        json_put_format(out, ",\"%s\":%.6g", name, given ? value : json_number_value(recommended));
}

static void request_write(struct json_buffer *out, const struct chat_remote *remote,
                          const json_t *messages, const struct chat_params *params)
{
    json_put_member(out, "{\"model\":", text_of(remote->model));
    json_put_literal(out, ",\"stream\":true,\"stream_options\":{\"include_usage\":true}");
    sampling_put(out, remote, "temperature", params->temperature, params->temperature >= 0);
    sampling_put(out, remote, "top_p", params->top_p, params->top_p >= 0);
    sampling_put(out, remote, "top_k", params->top_k, params->top_k > 0);
    sampling_put(out, remote, "min_p", 0, false);
    sampling_put(out, remote, "repetition_penalty", 0, false);
    if (params->max_tokens > 0)
        json_put_format(out, ",\"max_tokens\":%u", params->max_tokens);
    if (params->seed != -1)
        json_put_format(out, ",\"seed\":%lld", (long long)params->seed);
    json_put_literal(out, ",\"messages\":");
    json_put_value(out, messages);
    json_put_literal(out, "}");
}

enum status chat_remote_answer(void *state, json_t *messages, const struct chat_params *params,
                               struct chat_answer *out, struct error *err)
{
    struct chat_remote *remote = state;
    struct transfer t = {.answer = out, .err = err};
    struct json_buffer body = {0};
    request_write(&body, remote, messages, params);
    out->begun_ns = clock_ns();
    enum status status = transfer_send(remote, &t, "/chat/completions", &body);
    if (status == STATUS_OK && !out->stopped && !t.done)
        status = error_set(err, STATUS_REFUSED,
                           "%s ended its answer before it was complete: send the message again",
                           remote->shown);
    out->ended_ns = clock_ns();
    json_buffer_free(&body);
    json_buffer_free(&t.body);
    sse_free(&t.sse);
    return status;
}

void chat_remote_close(struct chat_remote *remote)
{
    if (!remote)
        return;
    curl_multi_cleanup(remote->multi);
    curl_global_cleanup();
    heap_free(remote->base);
    heap_free(remote->shown);
    heap_free(remote->model);
    heap_free(remote->key);
    json_decref(remote->sampling);
    heap_free(remote);
}
