// Generations: see generation.h. Text goes through the detokenizer and the stop strings here;
// events come from the port.
#include "http/api/generation.h"

#include "http/ids.h"
#include "http/api/prompt.h"
#include "http/counters.h"

#include <math.h>
#include <string.h>
#include <time.h>

enum {
    ROOM_MIN = 2048,       // bytes of send buffer that must be free to read more events
    DELTA_BYTES_MAX = 512, // text gathered into one chunk of a stream
    TEXT_BYTES_MIN = 256,
};

static const uint64_t begin_after_ns = 5000000000ull; // the 200 of a request still in the queue
static const uint64_t idle_after_ns = 10000000000ull; // keep-alive

// Reading

void generation_read_sampling(struct generation *g, double temperature_max, int64_t top_k_min)
{
    struct fields *f = &g->call.fields;
    const struct model_facts *facts = g->call.model->facts;
    bool own = g->call.model->sampling_defaults;
    double temperature = own && !isnan(facts->default_temperature) ? facts->default_temperature : 1;
    double top_p = own && !isnan(facts->default_top_p) ? facts->default_top_p : 1;
    int64_t top_k = own && facts->default_top_k > 0 ? facts->default_top_k : 0;

    temperature =
        fields_number(f, "temperature", (struct number_range){0, temperature_max, temperature});
    top_p = fields_number(f, "top_p", (struct number_range){0, 1, top_p});
    top_k = fields_integer(f, "top_k", (struct integer_range){top_k_min, INT64_MAX, top_k});
    g->submit.sampling = (struct sampling){
        .temperature = temperature < 1e-5 ? 0 : (float)temperature,
        .top_p = (float)top_p,
        .top_k = top_k <= 0          ? 0
                 : top_k < INT32_MAX ? (uint32_t)top_k
                                     : INT32_MAX,
        .repetition = 1,
    };
}

static void stop_add(struct generation *g, const json_t *value, const char *path, uint32_t max)
{
    struct fields *f = &g->call.fields;
    struct text string = json_text(value);

    if (!string.at) {
        fields_fail(f, HTTP_INVALID_TYPE, path, "must be a string");
    } else if (string.bytes > STOP_BYTES_MAX) {
        fields_fail(f, HTTP_INVALID_VALUE, path, "must be at most %d bytes long, got %zu",
                    STOP_BYTES_MAX, string.bytes);
    } else if (string.bytes > 0) {
        check(g->stops.count < max, "%u stop strings", max);
        struct text copy = arena_copy(f->arena, string);
        g->stops.strings[g->stops.count++] = copy.at ? copy : (struct text){"\n", 1};
    }
}

void generation_read_stops(struct generation *g, const char *name, bool string_allowed,
                           uint32_t max)
{
    struct fields *f = &g->call.fields;
    const json_t *value = fields_get(f, name);
    size_t n = json_array_size(value);

    if (!value)
        return;
    if (string_allowed && json_is_string(value)) {
        stop_add(g, value, name, max);
        return;
    }
    if (!json_is_array(value)) {
        fields_fail(f, HTTP_INVALID_TYPE, name, "must be %san array of strings",
                    string_allowed ? "a string or " : "");
    } else if (n > max) {
        fields_fail(f, HTTP_INVALID_VALUE, name, "must hold at most %u strings, got %zu", max, n);
    }
    for (size_t i = 0; i < n && !f->failed; i++)
        stop_add(g, json_array_get(value, i), fields_path(f, "%s[%zu]", name, i), max);
}

// Submitting

static void length_settle(struct generation *g)
{
    struct fields *f = &g->call.fields;
    uint32_t window = g->call.model->facts->max_model_len;

    if (!g->prompt_stopped && g->prompt_tokens < window) {
        uint32_t room = window - g->prompt_tokens;
        g->window_bound = g->submit.max_tokens == 0 || g->submit.max_tokens > room;
        g->submit.max_tokens = g->window_bound ? room : g->submit.max_tokens;
        return;
    }
    fields_fail_plain(f, HTTP_CONTEXT_LENGTH, "messages",
                      "This model's maximum context length is %u tokens. However, your messages "
                      "resulted in %s%u tokens. Please reduce the length of the messages.",
                      window, g->prompt_stopped ? "more than " : "", g->prompt_tokens);
    f->failure.prompt_tokens = g->prompt_tokens + g->prompt_stopped;
    f->failure.tokens_more = g->prompt_stopped;
    f->failure.context_tokens = window;
    if (f->shape == SHAPE_MESSAGES && f->failure.prompt_tokens == window) {
        // The message says N > M; one token must be generated, so M is the window less one.
        f->failure.context_tokens = window - 1;
    }
}

struct generation *generation_open(struct exchange *x)
{
    struct generation *g = call_begin(x, sizeof *g);

    conversation_begin(&g->conversation, g->call.slice);
    return g;
}

void generation_tokenize(struct generation *g)
{
    if (!g->call.fields.failed)
        prompt_make(g);
    if (!g->call.fields.failed && !g->count_only)
        length_settle(g);
    conversation_end(&g->conversation);
    call_body_end(&g->call);
}

static bool text_begin(struct generation *g, const char *id_prefix)
{
    struct arena *arena = exchange_arena(g->call.exchange);
    const struct tokenizer *tokenizer = g->call.model->tokenizer;
    uint32_t bound = detok_bound(tokenizer);

    g->created = (int64_t)time(NULL);
    detok_init(&g->detok, tokenizer, true);
    if (g->detok_continues)
        detok_continue(&g->detok);
    g->piece_max = bound < 16 ? 16 : bound;
    g->piece = arena_take(arena, g->piece_max);
    g->text_max = TEXT_BYTES_MIN;
    g->text = arena_take(arena, g->text_max);
    g->id = id_make(arena, id_prefix);
    return g->piece && g->text && g->id.at &&
           stop_scan_init(&g->scan, &g->stops, arena, g->piece_max);
}

void generation_submit(struct generation *g, const char *id_prefix,
                       bool (*begin)(struct generation *g))
{
    struct call *call = &g->call;
    uint32_t start[2] = {0, g->prompt_tokens};

    if (call_failed(call))
        return;
    if (!text_begin(g, id_prefix) || (begin && !begin(g))) {
        call_fail(call, HTTP_TOO_LARGE, "the request needs more memory than one request may take");
        return;
    }
    g->second_ns = call->info->started_ns;
    g->submit.kind = REQUEST_GENERATE;
    g->submit.tokens = g->tokens;
    g->submit.token_count = g->prompt_tokens;
    g->submit.sequence_count = 1;
    g->submit.sequence_start = start;
    g->submit.choice_count = 1;
    g->request = call_submit(call, &g->submit);
    if (g->request)
        counters_params(call->exchange, 1, g->submit.max_tokens);
    g->port = exchange_port(call->exchange, call->model);
    g->submit.tokens = g->tokens = NULL; // they lie in the scratch arena, which is freed
    g->submit.sequence_start = NULL;
}

// Events

static void text_append(struct generation *g, struct text t)
{
    if (t.bytes > g->text_max - g->text_bytes) {
        size_t wanted = 2 * g->text_max + t.bytes;
        char *grown = arena_grow(exchange_arena(g->call.exchange), g->text, g->text_max, wanted);
        if (!grown) {
            g->text_lost = true;
            return;
        }
        g->text = grown;
        g->text_max = wanted;
    }
    if (t.bytes > 0) {
        memcpy(g->text + g->text_bytes, t.at, t.bytes);
        g->text_bytes += t.bytes;
    }
}

static void piece_take(struct generation *g, uint32_t bytes)
{
    text_append(g, stop_scan_push(&g->scan, text_span(g->piece, bytes), g->output_tokens));
    if (g->scan.found)
        g->output_tokens = g->scan.tokens;
}

// At the end of the text incomplete characters and held-back text come out.
static void text_finish(struct generation *g)
{
    if (!g->scan.found)
        piece_take(g, detok_finish(&g->detok, g->piece, g->piece_max));
    if (!g->scan.found)
        text_append(g, stop_scan_finish(&g->scan));
    if (g->scan.found) {
        g->output_tokens = g->scan.tokens;
        g->end = END_STOP_STRING;
    } else if (g->finish == FINISH_STOP) {
        g->end = END_TURN;
    } else {
        g->end = g->window_bound || g->finish == FINISH_CONTEXT ? END_WINDOW : END_LENGTH;
    }
}

static void event_take(struct generation *g, const struct token_event *event)
{
    if ((event->flags & EVENT_TOKEN) && !g->scan.found) {
        g->output_tokens++;
        if (event->finish != FINISH_STOP) // the end token itself is no text
            piece_take(g, detok_push(&g->detok, event->token, g->piece, g->piece_max));
        if (g->scan.found)
            port_cancel(g->port, g->request);
    }
    if (event->flags & EVENT_LAST) {
        g->over = true;
        g->finish = event->finish;
        text_finish(g);
    }
}

// True: the request ended without an answer.
static bool failure_of(const struct generation *g, struct http_failure *out)
{
    static const struct {
        enum http_error error;
        const char *text;
    } failures[] = {
        [FINISH_CANCEL] = {HTTP_UNAVAILABLE, "the server ended the request"},
        [FINISH_TIMEOUT] = {HTTP_TIMEOUT, "the request waited in the queue past its deadline"},
        [FINISH_STALLED] = {HTTP_TIMEOUT, "the client took nothing for too long"},
        [FINISH_ERROR] = {HTTP_INTERNAL, "the model failed on this request"},
        [FINISH_DONE] = {0, NULL},
    };
    if (g->text_lost) {
        *out = (struct http_failure){.error = HTTP_INTERNAL,
                                     .message = text_of("the answer outgrew its memory")};
        return true;
    }
    if (g->scan.found || !failures[g->finish].text)
        return false;
    *out = (struct http_failure){.error = failures[g->finish].error,
                                 .message = text_of(failures[g->finish].text)};
    return true;
}

static enum counted_finish counted_of(const struct generation *g, bool failed)
{
    if (failed) {
        return g->finish == FINISH_CANCEL || g->finish == FINISH_STALLED ? COUNTED_ABORT
                                                                         : COUNTED_ERROR;
    }
    return g->end == END_LENGTH || g->end == END_WINDOW ? COUNTED_LENGTH : COUNTED_STOP;
}

// The last event was read: the engine's request is given back.
static void request_end(struct generation *g)
{
    struct exchange *x = g->call.exchange;
    struct request_facts facts;

    request_facts_get(g->request, &facts);
    g->cached_tokens = facts.cached_tokens;
    g->request = NULL;
    g->failed = failure_of(g, &g->failure);
    counters_finish(x, counted_of(g, g->failed), g->output_tokens);
    exchange_detach(x);
}

// Reads the events that are there; for a stream only as many as one chunk should hold.
static void events_read(struct generation *g)
{
    struct exchange *x = g->call.exchange;
    struct token_event event;
    uint32_t before = g->output_tokens;
    bool room = !g->begun || exchange_room(x) >= ROOM_MIN;

    while (room && !g->over && (!g->stream || g->text_bytes < DELTA_BYTES_MAX) &&
           port_next(g->port, g->request, &event, NULL))
        event_take(g, &event);
    if (g->output_tokens > before)
        counters_tokens(x, g->output_tokens - before);
    if (g->over)
        request_end(g);
}

// A failure before any text is answered with its status instead of a stream.
static bool begins_now(const struct generation *g)
{
    if (!g->stream || g->begun)
        return false;
    return g->over ? !g->failed || g->text_bytes > 0 : g->output_tokens > 0 || g->begin_due;
}

static void stream_begin(struct generation *g)
{
    struct request_facts facts;

    if (g->request && g->output_tokens > 0) { // the cache was asked before the first token
        request_facts_get(g->request, &facts);
        g->cached_tokens = facts.cached_tokens;
    }
    g->begun = true;
    exchange_stream_begin(g->call.exchange);
}

static enum generation_step last_step(struct generation *g)
{
    g->told = true;
    if (g->failed && g->begun)
        return STEP_FAILURE;
    if (!g->failed)
        return g->stream ? STEP_END : STEP_WHOLE;
    exchange_fail(g->call.exchange, &g->failure);
    return STEP_WAIT;
}

enum generation_step generation_next(struct generation *g)
{
    if (!g || g->told || (!g->request && !g->over))
        return STEP_WAIT;
    if (g->cut) {
        g->told = true;
        return STEP_FAILURE;
    }
    if (g->request)
        events_read(g);
    if (begins_now(g)) {
        stream_begin(g);
        return STEP_BEGIN;
    }
    if (g->begun && g->text_bytes > 0)
        return STEP_TEXT;
    if (g->over)
        return last_step(g);
    return g->idle_due ? STEP_IDLE : STEP_WAIT;
}

struct text generation_text(const struct generation *g)
{
    return text_span(g->text, g->text_bytes);
}

void generation_send(struct generation *g, enum generation_step step, struct json_buffer *out)
{
    struct exchange *x = g->call.exchange;
    struct text bytes = text_span(out->at, out->bytes);

    if (step == STEP_WHOLE)
        exchange_reply(x, 200, bytes);
    else
        exchange_write(x, bytes);
    if (step == STEP_FAILURE)
        exchange_stream_failed(x, g->failure.error);
    if (step == STEP_END || (step == STEP_FAILURE && !g->cut))
        exchange_end(x);
    if (step == STEP_TEXT)
        g->text_bytes = 0;
    g->quiet_ns = g->second_ns;
    g->idle_due = false;
    out->bytes = 0;
}

void generation_clock(struct generation *g, uint64_t now_ns)
{
    if (!g || !g->request || !g->stream)
        return;
    g->second_ns = now_ns;
    g->begin_due = !g->begun && now_ns >= g->call.info->started_ns + begin_after_ns;
    g->idle_due = g->begun && now_ns >= g->quiet_ns + idle_after_ns &&
                  exchange_room(g->call.exchange) >= ROOM_MIN;
}

void generation_cut(struct generation *g, const struct http_failure *failure)
{
    g->cut = true;
    g->failure = *failure;
}

void generation_gone(struct exchange *x)
{
    struct generation *g = exchange_state(x);

    if (g && g->request) {
        counters_gone(x, g->output_tokens);
        g->request = NULL; // the exchange cancels and frees it
    }
}
