// SPDX-License-Identifier: Apache-2.0
// Generations: see generation.h. Events of the port go to their choices (choice.c); this file
// decides what is sent to the client next.
#include "http/api/generation.h"

#include "http/ids.h"
#include "http/api/prompt.h"
#include "http/api/decoding.h"
#include "http/api/tools.h"
#include "http/counters.h"
#include "runtime/grammar/token_rules.h"

#include <string.h>
#include <time.h>

enum {
    SEND_SPACE_MIN = 2048,    // send space, in bytes, that must be free to read more events
    DELTA_BYTES_MAX = 512,    // bytes of text gathered for the next chunks of a stream
    INLINE_TOKENS_MAX = 4096, // log probabilities, with alternatives, that the h2o thread may write
    TOKEN_BYTES = 90,         // approximate JSON bytes of one of them
    PART_WORK = 256,          // work of a part of an answer in addition to its bytes (slice.h)
};

static const uint64_t begin_after_ns = 5000000000ull; // a queued request's stream begins after 5 s
static const uint64_t keepalive_after_ns = 10000000000ull; // 10 s without output: keep-alive

// Releases the generation's references; an admitted request holds references of its own.
static void constraints_release(struct generation *g)
{
    grammar_unref(g->submit.grammar);
    token_rules_unref(g->submit.rules);
    grammar_unref(g->structured.grammar); // compiled, but not used
    g->submit.grammar = g->structured.grammar = NULL;
    g->submit.rules = NULL;
}

// Frees what is not in the arena. No more events are read.
static void generation_close(struct generation *g)
{
    for (uint32_t i = 0; g->choices && i < g->choice_count; i++)
        choice_close(&g->choices[i]);
    if (g->options.continued)
        answer_close(g->options.continued);
    json_decref(g->tools.converted);
    json_decref(g->tools.streamed);
    json_decref(g->tools.loaded);
    json_decref(g->tools.custom);
    json_decref(g->tools.spaces);
    json_decref(g->tools.choice.allowed);
    g->tools.converted = g->tools.streamed = g->tools.choice.allowed = NULL;
    g->tools.loaded = g->tools.custom = g->tools.spaces = NULL;
    constraints_release(g);
}

// Submission

static void length_fail(struct generation *g, uint32_t window)
{
    struct fields *f = &g->call.fields;
    fields_fail_length(f, g->prompt.field, g->prompt.field,
                       &(struct field_length){window, g->prompt.token_count, g->prompt.stopped});
    // Messages reports "N > M". One token must be generated, so M is the window minus 1.
    if (f->shape == SHAPE_MESSAGES)
        f->failure.context_tokens = window - 1;
}

static void length_settle(struct generation *g)
{
    uint32_t window = g->call.model->facts->max_model_len;
    if (g->prompt.stopped || g->prompt.token_count >= window) {
        length_fail(g, window);
        return;
    }
    uint32_t left = window - g->prompt.token_count;
    g->options.window_bound = g->submit.max_tokens == 0 || g->submit.max_tokens > left;
    g->submit.max_tokens = g->options.window_bound ? left : g->submit.max_tokens;
}

struct generation *generation_open(struct exchange *x)
{
    return generation_open_in(x, sizeof(struct generation));
}

struct generation *generation_open_in(struct exchange *x, size_t state_bytes)
{
    struct generation *g = call_begin(x, state_bytes);
    conversation_begin(&g->prompt.conversation, g->call.slice);
    g->submit.choice_count = g->submit.sequence_count = 1;
    g->options.call_ids = "call_";
    g->prompt.field = "messages";
    return g;
}

void generation_prepared(struct generation *g)
{
    conversation_end(&g->prompt.conversation);
    json_decref(g->prompt.variables);
    g->prompt.variables = NULL;
    call_body_end(&g->call);
}

void generation_tokenize(struct generation *g)
{
    if (!g->call.fields.failed)
        prompt_make(g);
    if (!g->call.fields.failed && !g->count_only)
        length_settle(g);
    if (!g->call.fields.failed && !g->count_only)
        thinking_limit(g);
    if (!g->call.fields.failed && !g->count_only)
        tools_constrain(g);
    generation_prepared(g);
    if (g->count_only)
        generation_close(g);
}

static bool choices_open(struct generation *g)
{
    if (g->call.fields.failed)
        return false;
    struct arena *arena = exchange_arena(g->call.exchange);
    bool opened = choice_options_open(&g->options, arena, g->call.model->tokenizer);
    g->choice_count = submit_choices(&g->submit);
    g->choices = arena_alloc_zeroed(arena, g->choice_count, sizeof *g->choices);
    opened = opened && g->choices;
    for (uint32_t i = 0; opened && i < g->choice_count; i++) {
        opened = choice_open(&g->choices[i], &g->options);
        g->pending += choice_pending(&g->choices[i]); // a continued call may be pending
    }
    return opened;
}

bool generation_begin(struct generation *g, const char *id_prefix)
{
    if (g->call.fields.failed)
        return false;
    g->created = (int64_t)time(NULL);
    g->id = id_make(exchange_arena(g->call.exchange), id_prefix);
    return g->id.at && choices_open(g);
}

void generation_echo(struct generation *g, uint32_t choice, struct text echo)
{
    answer_echo(&g->choices[choice].answer, echo);
    g->pending += echo.bytes;
}

static void generation_set_failure(struct generation *g, enum generation_failed failed,
                                   const struct http_failure *failure)
{
    g->failed = failed;
    g->failure = *failure;
}

// Sends the failure of the fields as the response, or as the last event if the stream has begun.
static void submission_fail(struct generation *g)
{
    const struct http_failure *failure = &g->call.fields.failure;
    g->work = WORK_OVER;
    if (g->sent == SENT_NOTHING) {
        g->sent = SENT_END;
        generation_close(g);
        exchange_fail(g->call.exchange, failure);
        return;
    }
    generation_set_failure(g, FAILED_REQUEST, failure);
}

static void request_submit(struct generation *g)
{
    struct body_call *call = &g->call;
    uint32_t start[2] = {0, g->prompt.token_count};
    g->submit.kind = REQUEST_GENERATE;
    g->submit.tokens = g->prompt.tokens;
    g->submit.token_count = g->prompt.token_count;
    g->submit.sequence_start = g->prompt.starts ? g->prompt.starts : start;
    g->request = call_try_submit(call, &g->submit, g->prompt.field);
    if (g->request) {
        g->work = WORK_RUNNING;
        counters_params(call->exchange, g->choice_count, g->submit.choice_count,
                        g->submit.max_tokens);
    } else {
        submission_fail(g);
    }
    g->port = call->port;
    g->submit.tokens = g->prompt.tokens = NULL; // they are in the scratch arena, which ends here
    g->submit.sequence_start = g->prompt.starts = NULL;
    constraints_release(g);
}

static void request_submit_or_fail(struct generation *g)
{
    if (g->call.fields.failed)
        submission_fail(g);
    else
        request_submit(g);
}

static void grammar_work(struct exchange *x)
{
    structured_compile(exchange_state(x));
}

static void grammar_done(struct exchange *x);

static void grammar_request(struct generation *g)
{
    struct body_call *call = &g->call;
    g->work = WORK_COMPILING;
    if (exchange_compile(call->exchange, (struct offload){.work = grammar_work,
                                                          .done = grammar_done,
                                                          .share_key = g->structured.hash.low}))
        return;
    if (g->structured.optional) {
        structured_skip(g);
        request_submit(g);
        return;
    }
    fields_fail_plain(&call->fields, HTTP_OVERLOADED, NULL,
                      "too many grammars wait to be compiled; try again later");
    submission_fail(g);
}

// Runs after compiling. If another request's compilation of the same source ended instead, the
// grammar may already be evicted: it is requested again, unless the deadline has passed.
static void grammar_done(struct exchange *x)
{
    struct generation *g = exchange_state(x);
    if (exchange_gone(x)) // on_gone runs next
        return;
    bool known = structured_find(g);
    if (!known && !call_is_late(&g->call)) {
        grammar_request(g);
        return;
    }
    if (!known)
        call_fail_late(&g->call);
    request_submit_or_fail(g);
}

void generation_submit(struct generation *g, bool begun)
{
    struct body_call *call = &g->call;
    g->timer.now_ns = call->info->started_ns;
    if (call_failed(call)) {
        generation_close(g);
    } else if (!begun) {
        generation_close(g);
        call_fail(call, HTTP_TOO_LARGE, "the request exceeds the memory limit of one request");
    } else if (g->structured.source.kind == GRAMMAR_KIND_NONE) {
        request_submit(g);
    } else if (structured_find(g)) {
        request_submit_or_fail(g);
    } else {
        grammar_request(g);
    }
}

// Events

struct choice *generation_choice(const struct generation *g)
{
    return &g->choices[g->next_choice];
}

uint32_t generation_output(const struct generation *g)
{
    uint32_t tokens = 0;
    for (uint32_t i = 0; i < g->choice_count; i++)
        tokens += g->choices[i].output_tokens;
    return tokens;
}

uint32_t generation_reasoning(const struct generation *g)
{
    uint32_t tokens = 0;
    for (uint32_t i = 0; i < g->choice_count; i++)
        tokens += g->choices[i].answer.reasoning_tokens;
    return tokens;
}

static struct http_failure memory_failure(void)
{
    return (struct http_failure){.error = HTTP_INTERNAL,
                                 .message =
                                     text_of("the answer exceeds the memory limit of one request")};
}

// Returns the reason why a choice has no answer.
static struct http_failure failure_of(struct generation *g, const struct choice *c)
{
    const struct finish_report *report = finish_report(c->finish);
    if (c->text_full || c->logprobs.arena_full || c->answer.arena_full)
        return memory_failure();
    check(report->failure, "finish %u is no failure", c->finish);
    if (report->error != HTTP_GRAMMAR)
        return (struct http_failure){.error = report->error, .message = text_of(report->failure)};
    fields_fail(&g->call.fields, report->error, g->structured.path, "is refused: %s",
                report->failure);
    return g->call.fields.failure;
}

static void generation_fail(struct generation *g, struct http_failure failure)
{
    if (g->failed)
        return;
    generation_set_failure(g, FAILED_REQUEST, &failure);
    if (g->work == WORK_RUNNING)
        port_cancel(g->port, g->request);
}

static void token_event_handle(struct generation *g, const struct token_event *event,
                               const struct token_top *tops)
{
    struct choice *c = &g->choices[event->choice];
    bool was_over = c->over;
    size_t before = choice_pending(c);
    choice_handle(c, &g->options, event, tops);
    g->pending += choice_pending(c) - before;
    if (event->flags & EVENT_LAST)
        g->work = WORK_OVER;
    // A stop string or the first call ended the choice before the engine did.
    if (c->over && !was_over && event->finish == FINISH_NONE)
        port_cancel_choice(g->port, g->request, event->choice);
    if (!g->failed && choice_failed(c)) // one choice without an answer fails the request
        generation_fail(g, failure_of(g, c));
}

void generation_fail_memory(struct generation *g)
{
    generation_fail(g, memory_failure());
}

static enum counted_finish counted_of(const struct choice *c)
{
    const struct finish_report *report = finish_report(c->finish);
    if (choice_failed(c))
        return report->failure ? report->counted : COUNTED_ERROR;
    return choice_limited(c) ? COUNTED_LENGTH : COUNTED_STOP;
}

// The last event was read: counts the choices and frees the engine's request.
static void request_end(struct generation *g)
{
    struct exchange *x = g->call.exchange;
    struct request_facts facts;
    request_facts_get(g->request, &facts);
    g->cached_tokens = facts.cached_tokens;
    g->request = NULL;
    for (uint32_t i = 0; i < g->choice_count; i++)
        counters_finish(x, counted_of(&g->choices[i]), g->choices[i].output_tokens);
    exchange_detach(x);
}

// Returns true if more events should be read. Before the first token, pending text can only be the
// continued message or the echoed prompt.
static bool wants_event(const struct generation *g)
{
    return !g->stream || g->pending < DELTA_BYTES_MAX || generation_output(g) == 0;
}

// Reads the events that are available; for a stream, only as many as fill the next chunks.
static void events_read(struct generation *g)
{
    struct exchange *x = g->call.exchange;
    struct token_event event;
    struct token_top tops[TOP_LOGPROBS_MAX];
    uint32_t before = generation_output(g);
    bool has_space = g->sent == SENT_NOTHING || exchange_send_space(x) >= SEND_SPACE_MIN;
    while (has_space && g->work == WORK_RUNNING && wants_event(g) &&
           port_next(g->port, g->request, &event, tops))
        token_event_handle(g, &event, tops);
    uint32_t tokens = generation_output(g);
    if (tokens > before)
        counters_tokens(x, tokens - before);
    if (g->work == WORK_OVER)
        request_end(g);
}

// Returns true if the stream begins now. It does not begin before the first token (or 5 s), so that
// an early failure can be sent with its HTTP status.
static bool begins_now(const struct generation *g)
{
    if (!g->stream || g->sent != SENT_NOTHING)
        return false;
    bool tokens = generation_output(g) > 0;
    if (g->work == WORK_OVER)
        return !g->failed || (tokens && g->pending > 0);
    return tokens || g->timer.due == DUE_BEGIN;
}

static void stream_begin(struct generation *g)
{
    struct request_facts facts;
    // The prefix cache is searched before the first token.
    if (g->work == WORK_RUNNING && generation_output(g) > 0) {
        request_facts_get(g->request, &facts);
        g->cached_tokens = facts.cached_tokens;
    }
    g->sent = SENT_BEGINNING;
    exchange_stream_begin(g->call.exchange);
}

static enum stream_step last_step(struct generation *g)
{
    bool begun = g->sent == SENT_BEGINNING;
    g->sent = SENT_END;
    generation_close(g);
    if (g->failed && begun)
        return STEP_FAILURE;
    if (!g->failed)
        return g->stream ? STEP_END : STEP_ANSWER;
    exchange_fail(g->call.exchange, &g->failure);
    return STEP_CALLBACK;
}

// Returns the step of the next choice, round-robin, that has something to write.
static enum stream_step choice_step(struct generation *g)
{
    for (uint32_t i = 0; i < g->choice_count; i++) {
        const struct choice *c = generation_choice(g);
        if (choice_pending(c) > 0)
            return STEP_PIECE;
        if (c->over && !c->end_sent && !choice_failed(c))
            return STEP_CHOICE;
        g->next_choice = (g->next_choice + 1) % g->choice_count;
    }
    return STEP_CALLBACK;
}

enum stream_step generation_next(struct generation *g)
{
    if (!g || g->sent == SENT_END || g->work == WORK_NONE)
        return STEP_CALLBACK;
    if (g->failed == FAILED_BY_SERVER) {
        g->sent = SENT_END;
        return STEP_FAILURE;
    }
    if (g->work == WORK_RUNNING)
        events_read(g);
    if (begins_now(g)) {
        stream_begin(g);
        return STEP_BEGIN;
    }
    bool begun = g->sent == SENT_BEGINNING;
    if (begun && g->pending > 0 && exchange_send_space(g->call.exchange) < SEND_SPACE_MIN)
        return STEP_CALLBACK;
    enum stream_step step = begun ? choice_step(g) : STEP_CALLBACK;
    if (step != STEP_CALLBACK)
        return step;
    if (g->work == WORK_OVER)
        return last_step(g);
    return g->timer.due == DUE_KEEPALIVE ? STEP_KEEPALIVE : STEP_CALLBACK;
}

void generation_send(struct generation *g, enum stream_step step, struct json_buffer *out)
{
    struct exchange *x = g->call.exchange;
    struct text bytes = json_buffer_text(out);
    if (step == STEP_ANSWER && g->failed)
        exchange_fail(x, &g->failure);
    else if (step == STEP_ANSWER)
        exchange_reply(x, 200, bytes);
    else if (bytes.bytes > 0)
        exchange_write(x, bytes);
    if (step == STEP_FAILURE || (step == STEP_END && g->failed))
        exchange_stream_failed(x, g->failure.error);
    if (step == STEP_END || (step == STEP_FAILURE && g->failed != FAILED_BY_SERVER))
        exchange_end(x);
    if (step == STEP_PIECE) {
        g->pending -= choice_pending(generation_choice(g));
        choice_advance(generation_choice(g));
        g->pending += choice_pending(generation_choice(g));
    } else if (step == STEP_CHOICE) {
        generation_choice(g)->end_sent = true;
    }
    if (step == STEP_PIECE || step == STEP_CHOICE)
        g->next_choice = (g->next_choice + 1) % g->choice_count;
    if (bytes.bytes > 0) {
        g->timer.output_ns = g->timer.now_ns;
        g->timer.due = DUE_NOTHING;
    }
    out->bytes = 0;
}

// Non-streamed answers

static void complete_measure(struct exchange *x)
{
    struct generation *g = exchange_state(x);
    struct json_buffer part = {0};
    enum stream_step written = STEP_PART;
    bool wanted = true;
    while (wanted && written == STEP_PART && !g->failed) {
        part.bytes = 0;
        written = g->complete.put(g, STEP_ANSWER, &part);
        g->complete.length += part.bytes;
        wanted = slice_spend(exchange_slice(x), part.bytes + PART_WORK);
    }
    json_buffer_free(&part);
}

static void complete_continue(struct generation *g)
{
    struct exchange *x = g->call.exchange;
    struct json_buffer part = {0};
    enum stream_step written = STEP_PART;
    if (!exchange_answered(x) || g->complete.ended)
        return;
    while (written == STEP_PART && exchange_send_space(x) >= SEND_SPACE_MIN) {
        part.bytes = 0;
        written = g->complete.put(g, STEP_ANSWER, &part);
        exchange_write(x, json_buffer_text(&part));
    }
    json_buffer_free(&part);
    g->complete.ended = written != STEP_PART;
    if (g->complete.ended)
        exchange_end(x);
}

static void complete_begin(struct exchange *x)
{
    struct generation *g = exchange_state(x);
    if (exchange_gone(x)) // on_gone runs next
        return;
    if (g->failed) {
        exchange_fail(x, &g->failure);
        return;
    }
    memset(&g->complete.at, 0, sizeof g->complete.at);
    exchange_reply_begin(x, 200, g->complete.length);
    complete_continue(g);
}

// Moves an answer with many log probabilities to a text worker. Returns true if it did.
static bool complete_offload(struct generation *g, enum stream_step step, generation_write_fn *put)
{
    uint64_t tokens = 0;
    for (uint32_t i = 0; step == STEP_ANSWER && i < g->choice_count; i++)
        tokens += (uint64_t)g->choices[i].logprobs.visible * (1 + g->options.top_logprobs);
    if (tokens <= INLINE_TOKENS_MAX)
        return false;
    g->complete.put = put;
    exchange_offload(g->call.exchange, (struct offload){.work = complete_measure,
                                                        .done = complete_begin,
                                                        .answers = true,
                                                        .bytes = tokens * TOKEN_BYTES});
    return true;
}

void generation_answer(struct generation *g, generation_next_fn *next, generation_write_fn *put)
{
    struct json_buffer out = {0};
    enum stream_step step, written;
    if (!g)
        return;
    if (g->complete.put) {
        complete_continue(g);
        return;
    }
    while ((step = next(g)) != STEP_CALLBACK && !complete_offload(g, step, put)) {
        do
            written = put(g, step, &out);
        while (step == STEP_ANSWER && written == STEP_PART);
        generation_send(g, written, &out);
    }
    json_buffer_free(&out);
}

void generation_clock(struct exchange *x, uint64_t now_ns)
{
    struct generation *g = exchange_state(x);
    if (!g || (g->work != WORK_COMPILING && g->work != WORK_RUNNING) || !g->stream)
        return;
    struct generation_timer *timer = &g->timer;
    timer->now_ns = now_ns;
    timer->due = DUE_NOTHING;
    if (g->sent == SENT_NOTHING && now_ns >= g->call.info->started_ns + begin_after_ns)
        timer->due = DUE_BEGIN;
    else if (g->sent == SENT_BEGINNING && now_ns >= timer->output_ns + keepalive_after_ns &&
             exchange_send_space(g->call.exchange) >= SEND_SPACE_MIN)
        timer->due = DUE_KEEPALIVE;
}

void generation_cut(struct exchange *x, const struct http_failure *failure)
{
    struct generation *g = exchange_state(x);
    generation_set_failure(g, FAILED_BY_SERVER, failure);
}

// Counts finished choices by their finish reason and the others as aborted.
static void choices_gone(struct exchange *x, const struct generation *g)
{
    for (uint32_t i = 0; i < g->choice_count; i++) {
        const struct choice *c = &g->choices[i];
        if (c->over)
            counters_finish(x, counted_of(c), c->output_tokens);
        else
            counters_gone(x, c->output_tokens);
    }
}

void generation_gone(struct exchange *x)
{
    struct generation *g = exchange_state(x);
    if (g && g->request) {
        choices_gone(x, g);
        g->request = NULL; // the exchange cancels and frees it
        g->work = WORK_NONE;
    }
    if (g)
        generation_close(g);
}
