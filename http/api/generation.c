// The life of a generation: see generation.h. Text goes through the detokenizer and the stop
// strings here; events come from the port; nothing here knows the shape of an answer.
#include "http/api/generation.h"

#include "http/api/ids.h"
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
    g->sampling = (struct sampling){
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
        g->window_bound = g->max_tokens == 0 || g->max_tokens > room;
        g->max_tokens = g->window_bound ? room : g->max_tokens;
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
        // The text says N > M; one token must have room, so the most is one less.
        f->failure.context_tokens = window - 1;
    }
}

static void generation_prepare(struct call *call)
{
    struct generation *g = (struct generation *)call;

    conversation_begin(&g->conversation, call->slice);
    g->shape->read(g);
    if (!call->fields.failed)
        prompt_make(g);
    conversation_end(&g->conversation);
    if (!call->fields.failed && !g->count_only)
        length_settle(g);
}

static bool text_begin(struct generation *g)
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
    g->id = id_make(arena, g->shape->id_prefix);
    return g->piece && g->text && g->id.at &&
           stop_scan_init(&g->scan, &g->stops, arena, g->piece_max);
}

static void generation_submit(struct call *call)
{
    struct generation *g = (struct generation *)call;
    uint32_t start[2] = {0, g->prompt_tokens};

    if (g->count_only) {
        struct json_buffer out = {0};
        g->shape->whole(g, &out, (struct text){0});
        exchange_reply(call->exchange, 200, text_span(out.at, out.bytes));
        json_buffer_free(&out);
        return;
    }
    if (!text_begin(g)) {
        call_fail(call, HTTP_TOO_LARGE, "the request needs more memory than one request may take");
        return;
    }
    struct submit_args args = {
        .kind = REQUEST_GENERATE,
        .tokens = g->tokens,
        .token_count = g->prompt_tokens,
        .sequence_count = 1,
        .sequence_start = start,
        .choice_count = 1,
        .max_tokens = g->max_tokens,
        .sampling = g->sampling,
        .ignore_end = g->ignore_end,
    };
    g->request = call_submit(call, &args);
    if (g->request)
        counters_params(call->exchange, 1, g->max_tokens);
    g->port = exchange_port(call->exchange, call->model);
    g->tokens = NULL; // the scratch arena goes
}

void generation_start(struct exchange *x, const struct generation_shape *shape, bool count_only)
{
    struct generation *g = arena_take_zeroed(exchange_arena(x), 1, sizeof *g);

    if (!g) {
        exchange_fail(x, &(struct http_failure){.error = HTTP_TOO_LARGE,
                                                .message = text_of("no memory for the request")});
        return;
    }
    g->shape = shape;
    g->count_only = count_only;
    call_start(&g->call, x, generation_prepare, generation_submit);
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

// The end of the text: incomplete characters and held-back text come out.
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

// Reads what is there, as much as one chunk should hold. True: there may be more.
static bool events_read(struct generation *g)
{
    struct token_event event;

    while (!g->over && (!g->stream || g->text_bytes < DELTA_BYTES_MAX)) {
        if (!port_next(g->port, g->request, &event, NULL))
            return false;
        event_take(g, &event);
    }
    return !g->over;
}

// Answering

static void generation_send(struct generation *g, struct json_buffer *out)
{
    if (out->bytes > 0) {
        exchange_write(g->call.exchange, text_span(out->at, out->bytes));
        out->bytes = 0;
        g->wrote = true;
    }
}

static void stream_begin(struct generation *g, struct json_buffer *out)
{
    if (g->begun)
        return;
    g->begun = true;
    exchange_stream_begin(g->call.exchange);
    g->shape->begin(g, out);
}

// Did the request end in a way that leaves no answer?
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

static void answer_whole(struct generation *g, struct json_buffer *out)
{
    struct exchange *x = g->call.exchange;

    g->shape->whole(g, out, text_span(g->text, g->text_bytes));
    exchange_reply(x, 200, text_span(out->at, out->bytes));
}

// The last event was read: the engine's request is given back, then the answer ends.
static void generation_over(struct generation *g, struct json_buffer *out)
{
    struct exchange *x = g->call.exchange;
    struct request_facts facts;
    struct http_failure failure;

    request_facts_get(g->request, &facts);
    g->cached_tokens = facts.cached_tokens;
    g->request = NULL;
    bool failed = failure_of(g, &failure);
    counters_finish(x, counted_of(g, failed), g->output_tokens);
    exchange_detach(x);
    if (failed) {
        if (!g->begun) {
            exchange_fail(x, &failure);
            return;
        }
        g->shape->failure(g, out, &failure);
    } else if (!g->stream) {
        answer_whole(g, out);
        return;
    } else {
        stream_begin(g, out);
        g->shape->end(g, out);
    }
    generation_send(g, out);
    exchange_end(x);
}

static void stream_text(struct generation *g, struct json_buffer *out)
{
    if (!g->stream || (g->over && !g->begun && g->text_bytes == 0))
        return;
    if (g->output_tokens > 0 && !g->begun) {
        struct request_facts facts; // the cache was asked before the first token
        request_facts_get(g->request, &facts);
        g->cached_tokens = facts.cached_tokens;
        stream_begin(g, out);
    }
    if (g->text_bytes > 0) {
        g->shape->text(g, out, text_span(g->text, g->text_bytes));
        g->text_bytes = 0;
    }
    generation_send(g, out);
}

void generation_ready(struct exchange *x)
{
    struct generation *g = exchange_state(x);
    struct json_buffer out = {0};
    bool more = g->request != NULL;

    while (more && (!g->begun || exchange_room(x) >= ROOM_MIN)) {
        uint32_t before = g->output_tokens;
        more = events_read(g);
        if (g->output_tokens > before)
            counters_tokens(x, g->output_tokens - before);
        stream_text(g, &out);
        if (g->over) {
            generation_over(g, &out);
            more = false;
        }
    }
    json_buffer_free(&out);
}

void generation_cut(struct exchange *x, const struct http_failure *failure)
{
    struct generation *g = exchange_state(x);
    struct json_buffer out = {0};

    g->shape->failure(g, &out, failure);
    generation_send(g, &out);
    json_buffer_free(&out);
}

void generation_gone(struct exchange *x)
{
    struct generation *g = exchange_state(x);

    if (g && g->request) {
        counters_finish(x, COUNTED_ABORT, g->output_tokens);
        g->request = NULL; // the exchange cancels and frees it
    }
}

void generation_second(struct exchange *x, uint64_t now_ns)
{
    struct generation *g = exchange_state(x);
    struct json_buffer out = {0};

    if (!g || !g->request || !g->stream || g->over)
        return;
    if (!g->begun && now_ns >= g->call.info->started_ns + begin_after_ns) {
        stream_begin(g, &out);
        generation_send(g, &out);
    }
    if (g->wrote) {
        g->quiet_ns = now_ns;
        g->wrote = false;
    } else if (g->begun && now_ns >= g->quiet_ns + idle_after_ns && exchange_room(x) >= ROOM_MIN) {
        g->shape->idle(g, &out);
        generation_send(g, &out);
    }
    json_buffer_free(&out);
}
