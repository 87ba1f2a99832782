// SPDX-License-Identifier: Apache-2.0
// The run: slots that each hold one request in flight, filled by the closed or the open loop, and
// the record of each request; see run.h. In a closed loop slot i belongs to one target for the
// entire run, so that --concurrency 4 with four --send is one client per API.
#include "loadgen/run.h"
#include "loadgen/slot.h"

#include "base/clock.h"

#include <stdio.h>
#include <sys/resource.h>
#include <time.h>

struct bench_runner {
    const struct bench_options *o;
    const struct bench_run_args *args;
    struct bench_run *run;
    struct bench_poll poll;
    struct bench_client client;
    struct bench_routes routes;
    struct bench_slot **slots; // [slot_count]
    uint32_t *idle;            // [idle_count] slots without a request
    uint32_t *turns;           // [turn_count] slots whose conversation has its next turn to send
    uint32_t slot_count, idle_count, turn_count;
    size_t slot_allocated, idle_allocated, turn_allocated; // each has space for all slots
    uint32_t retired;       // slots of a closed loop whose server is unreachable
    uint32_t *target_cycle; // [weight_sum] targets, each repeated by its weight
    uint32_t weight_sum;
    uint64_t sent, sent_max, events;
    uint64_t target_sent[BENCH_TARGETS_MAX]; // closed loop: number of prompts of each target
    struct bench_arrivals arrivals;
    struct bench_arrival arrival;     // open loop: the next arrival
    struct bench_slot *prepared;      // open loop: the slot that will send it
    bool has_arrival, arrival_waited; // arrival_waited: it was due while no slot was free
    uint64_t *reference_hash;         // [target_count][prompts] hash of the answer if sent alone
    bool recording;                   // true in the pass that fills `reference_hash`
    double started, progress_at;
};

double bench_runner_now(const struct bench_runner *r)
{
    return r->poll.read_at;
}

void bench_runner_events(struct bench_runner *r, double now, uint64_t events)
{
    struct bench_run *run = r->run;
    double place = (now - r->started) * BENCH_BINS_PER_S;
    uint32_t bin = place > 0 ? (uint32_t)place : 0;
    if (events == 0 || r->recording)
        return;
    if (bin >= run->bin_count) {
        uint32_t count = bin + 1 > run->bin_count * 2 ? bin + 64 : run->bin_count * 2;
        run->bins = heap_grow(run->bins, count * sizeof *run->bins);
        memset(run->bins + run->bin_count, 0, (count - run->bin_count) * sizeof *run->bins);
        run->bin_count = count;
    }
    run->bins[bin] += (uint32_t)events;
    r->events += events;
}

static struct bench_slot *slot_add(struct bench_runner *r)
{
    r->slots =
        bench_extend(r->slots, r->slot_count, &r->slot_allocated, sizeof(struct bench_slot *));
    r->idle = bench_extend(r->idle, r->slot_count, &r->idle_allocated, sizeof *r->idle);
    r->turns = bench_extend(r->turns, r->slot_count, &r->turn_allocated, sizeof *r->turns);
    struct bench_slot *s = bench_slot_create(r, r->o);
    s->place = r->slot_count;
    r->slots[r->slot_count++] = s;
    return s;
}

// Returns a slot without a request; NULL if --concurrency allows no more.
static struct bench_slot *slot_find(struct bench_runner *r)
{
    if (r->idle_count > 0)
        return r->slots[r->idle[--r->idle_count]];
    return r->o->concurrency == 0 || r->slot_count < r->o->concurrency ? slot_add(r) : NULL;
}

static uint32_t slots_busy(const struct bench_runner *r)
{
    return r->slot_count - r->retired - r->idle_count - (r->prepared != NULL);
}

// Writes the body of request number `prompt` of a target.
static void slot_prepare(struct bench_runner *r, struct bench_slot *s, uint32_t target,
                         uint64_t prompt, const struct bench_arrival *arrival)
{
    const struct bench_options *o = r->o;
    const struct bench_run_args *args = r->args;
    prompt = o->prompts > 0 ? prompt % o->prompts : prompt;
    uint64_t seed = bench_random(o->seed * 0x1003f + prompt);
    struct bench_request request = {.target = &o->targets[target], .seed = seed};
    uint32_t input = bench_length_draw(&o->input, o->seed, prompt);
    request.max_tokens = bench_length_draw(&o->output, ~o->seed, prompt);
    if (arrival && arrival->input_tokens > 0) {
        input = arrival->input_tokens;
        request.max_tokens = arrival->output_tokens;
        request.hash_count = arrival->hash_count;
        request.hashes = args->trace->hashes + arrival->hash_first;
    }
    request.words = bench_words_for(args->words, input);
    if (args->dataset) {
        request.item = &args->dataset->items[(o->prompt_first + prompt) % args->dataset->count];
        if (request.item->output_tokens > 0)
            request.max_tokens = request.item->output_tokens;
    }
    if (o->multi_turn)
        bench_conversation_begin(&s->conversation, request.item);
    s->max_tokens = request.max_tokens;
    request.messages = s->conversation.messages;
    bench_body_write(&s->body, o, args->words, &request);
    bench_slot_aim(s, o, &r->routes, target);
    s->prompt = o->prompts > 0 ? (uint32_t)prompt : 0;
    s->record.inputs = bench_api_generates(s->reply.api) ? 1 : o->inputs;
    s->reply.gaps = r->run->gaps[target];
    s->reply.gaps_from = r->started + r->run->measured_from;
}

static void slot_send(struct bench_runner *r, struct bench_slot *s)
{
    const struct bench_options *o = r->o;
    bool first = s->record.turn == 0;
    r->sent += first;
    s->leaves = first && !r->recording && o->leave_every > 0 && s->reply.streamed &&
                r->sent % o->leave_every == 0;
    s->record.sent = s->record.due = clock_s();
    CURLMcode code = curl_multi_add_handle(r->poll.multi, s->easy);
    check(code == CURLM_OK, "libcurl: %s", curl_multi_strerror(code));
    bench_poll_kick(&r->poll); // before the next body is written
}

static void record_add(struct bench_run *run, const struct bench_record *record)
{
    run->records = bench_extend(run->records, run->count, &run->allocated, sizeof *run->records);
    run->records[run->count++] = *record;
}

static void check_reference(struct bench_runner *r, struct bench_slot *s)
{
    uint64_t *reference = &r->reference_hash[s->record.target * r->o->prompts + s->prompt];
    if (r->recording)
        *reference = s->reply.hash;
    else
        s->record.differs = *reference != s->reply.hash;
}

// Corrects the time of sending: a connection may have been opened first, with others at the same
// time. In a closed loop the request begins when it is sent, so that the start of many clients is
// not the server's latency.
static void sending_correct(struct bench_runner *r, struct bench_slot *s)
{
    curl_off_t us = 0;
    curl_easy_getinfo(s->easy, CURLINFO_PRETRANSFER_TIME_T, &us);
    double sent = s->record.sent + (double)us * 1e-6;
    if (us <= 0 || (s->reply.events > 0 && sent > s->reply.first_at))
        return;
    s->record.sent = sent;
    if (!bench_is_open(r->o) || r->recording || s->record.turn > 0)
        s->record.due = sent;
}

// Fills the record from the reply; times become relative to the start of the run.
static void record_fill(struct bench_runner *r, struct bench_slot *s, double now)
{
    struct bench_record *record = &s->record;
    const struct bench_reply *reply = &s->reply;
    bool refusal = record->status == 429 || record->status == 503 || record->status == 529;
    record->refused_early = refusal && !s->retry_after;
    record->due -= r->started;
    record->sent -= r->started;
    record->end = now - r->started;
    record->first = reply->events > 0 ? reply->first_at - r->started : 0;
    record->last = reply->events > 0 ? reply->last_at - r->started : 0;
    record->events = (uint32_t)reply->events;
    record->has_usage = reply->has_usage;
    record->input_tokens = (uint32_t)reply->input_tokens;
    record->cached_tokens = (uint32_t)reply->cached_tokens;
    record->output_tokens =
        (uint32_t)(reply->output_tokens > 0 ? reply->output_tokens : reply->events);
    record->reasoning_tokens =
        (uint32_t)(reply->reasoning_tokens > 0 ? reply->reasoning_tokens : reply->reasoning_events);
}

// Writes why the request has no complete reply, if it is known.
static void lost_why_write(char *out, size_t size, const struct bench_slot *s, CURLcode code)
{
    enum bench_outcome outcome = (enum bench_outcome)s->record.outcome;
    const char *wanted = s->reply.streamed ? "text/event-stream" : "application/json", *type = NULL;
    if (outcome >= BENCH_OUTCOME_UNCONNECTED && outcome <= BENCH_OUTCOME_OVERSIZED)
        snprintf(out, size, "%s%s", curl_easy_strerror(code),
                 s->oversized ? " (a reply over its limit)" : "");
    if (outcome != BENCH_OUTCOME_INCOMPLETE && outcome != BENCH_OUTCOME_MALFORMED)
        return;
    curl_easy_getinfo(s->easy, CURLINFO_CONTENT_TYPE, &type);
    if (!type || strncasecmp(type, wanted, strlen(wanted)) == 0)
        return;
    snprintf(out, size, "the reply is %s, not %s", type, wanted);
    for (; *out != '\0'; out++)
        *out = *out >= ' ' && *out <= '~' ? *out : '?';
}

// Records the outcome of the request and frees its slot.
static void slot_settle(struct bench_runner *r, struct bench_slot *s, CURLcode code)
{
    // the last bytes of a complete reply are its end
    double now = code == CURLE_OK && s->reply.now > s->record.sent ? s->reply.now : clock_s();
    enum bench_outcome outcome = bench_slot_outcome(s, code, now);
    s->record.outcome = (uint8_t)outcome;
    if (r->run->lost_why[0] == '\0')
        lost_why_write(r->run->lost_why, sizeof r->run->lost_why, s, code);
    if (outcome == BENCH_OUTCOME_REFUSED && r->run->refused_why[0] == '\0')
        memcpy(r->run->refused_why, s->refusal, sizeof s->refusal);
    sending_correct(r, s);
    record_fill(r, s, now);
    if (outcome == BENCH_OUTCOME_OK && r->reference_hash)
        check_reference(r, s);
    record_add(r->run, &s->record);
    curl_multi_remove_handle(r->poll.multi, s->easy);
    bool retires = !bench_is_open(r->o) && !r->recording && outcome == BENCH_OUTCOME_UNCONNECTED;
    bool continues = outcome == BENCH_OUTCOME_OK &&
                     bench_conversation_next(&s->conversation, json_buffer_text(&s->reply.said));
    r->retired += retires;
    if (continues)
        r->turns[r->turn_count++] = s->place;
    else if (!retires)
        r->idle[r->idle_count++] = s->place;
}

// Sends the next turn of each conversation whose answer has arrived. When the time of the run is
// over, it ends these conversations instead.
static void fill_turns(struct bench_runner *r, double now)
{
    const struct bench_options *o = r->o;
    for (uint32_t i = 0; i < r->turn_count; i++) {
        struct bench_slot *s = r->slots[r->turns[i]];
        uint32_t target = s->record.target;
        struct bench_request request = {.target = &o->targets[target],
                                        .max_tokens = s->max_tokens,
                                        .messages = s->conversation.messages};
        if (now - r->started >= o->seconds_max) {
            r->idle[r->idle_count++] = s->place;
            continue;
        }
        bench_body_write(&s->body, o, r->args->words, &request);
        bench_slot_aim(s, o, &r->routes, target);
        s->record.turn = (uint16_t)s->conversation.turn;
        s->record.inputs = 1;
        slot_send(r, s);
    }
    r->turn_count = 0;
}

static void settle_all(struct bench_runner *r)
{
    int left;
    for (CURLMsg *m; (m = curl_multi_info_read(r->poll.multi, &left)) != NULL;) {
        struct bench_slot *s;
        if (m->msg != CURLMSG_DONE)
            continue;
        CURLcode code = m->data.result;
        curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&s);
        slot_settle(r, s, code);
    }
}

static void fill_recording(struct bench_runner *r)
{
    uint32_t prompts = r->o->prompts;
    if (r->sent >= r->sent_max || slots_busy(r) > 0)
        return;
    struct bench_slot *s = slot_find(r);
    slot_prepare(r, s, (uint32_t)(r->sent / prompts), r->sent % prompts, NULL);
    slot_send(r, s);
}

// Starts the next request of each idle client. Returns the time at which to continue: that of the
// next client of the ramp, else a second from now.
static double fill_closed(struct bench_runner *r, double now)
{
    const struct bench_options *o = r->o;
    double passed = now - r->started, until = now + 1;
    if (r->sent >= r->sent_max || passed >= o->seconds_max)
        return until;
    uint32_t clients = o->concurrency;
    if (passed < o->ramp_s)
        clients = 1 + (uint32_t)(passed / o->ramp_s * o->concurrency);
    clients = clients < o->concurrency ? clients : o->concurrency;
    if (clients < o->concurrency)
        until = r->started + o->ramp_s * clients / o->concurrency;
    while (r->sent < r->sent_max && (r->idle_count > 0 || r->slot_count < clients)) {
        struct bench_slot *s = slot_find(r);
        uint32_t target = r->target_cycle[s->place % r->weight_sum];
        // numbers in the order of sending: a seed gives the same prompts however fast clients are
        slot_prepare(r, s, target, r->target_sent[target]++, NULL);
        slot_send(r, s);
    }
    return until;
}

// Starts requests that are due; the body of the next one is written in advance. Returns the time at
// which to continue.
static double fill_open(struct bench_runner *r)
{
    while (r->has_arrival) {
        double due = r->started + r->arrival.at_s, now = clock_s();
        if (!r->prepared) {
            r->prepared = slot_find(r);
            r->arrival_waited |= !r->prepared && due <= now;
            if (!r->prepared)
                return now + 1;
            slot_prepare(r, r->prepared, r->target_cycle[r->sent % r->weight_sum], r->sent,
                         &r->arrival);
            now = clock_s();
        }
        if (due > now)
            return due;
        if (!r->arrival_waited)
            bench_histogram_add(r->client.late, now - due);
        slot_send(r, r->prepared);
        r->prepared->record.due = due; // a wait for a free slot counts as time of the request
        r->prepared = NULL;
        r->arrival_waited = false;
        r->has_arrival = bench_arrivals_next(&r->arrivals, &r->arrival);
    }
    return clock_s() + 1;
}

static void progress_report(struct bench_runner *r, double now)
{
    if (!r->args->progress || r->recording || now < r->progress_at)
        return;
    r->args->progress(r->args->context, now - r->started, r->run->count, slots_busy(r), r->events);
    r->progress_at = now + 1;
}

static bool more_to_send(const struct bench_runner *r, double now)
{
    if (r->recording)
        return r->sent < r->sent_max;
    if (bench_is_open(r->o))
        return r->has_arrival;
    return r->sent < r->sent_max && r->retired < r->o->concurrency &&
           now - r->started < r->o->seconds_max;
}

static void runner_pass(struct bench_runner *r)
{
    r->started = clock_s();
    r->progress_at = r->started + 1;
    r->poll.ready_at = r->poll.read_at = r->started;
    if (bench_is_open(r->o) && !r->recording)
        r->has_arrival = bench_arrivals_next(&r->arrivals, &r->arrival);
    bench_client_begin(&r->client, r->started, r->poll.idle_s);
    r->poll.lag = r->client.lag;
    r->poll.stamped = r->poll.unstamped = 0;
    for (;;) {
        double now = clock_s(), until = now + 1;
        fill_turns(r, now);
        if (r->recording)
            fill_recording(r);
        else if (bench_is_open(r->o))
            until = fill_open(r);
        else
            until = fill_closed(r, now);
        uint32_t busy = slots_busy(r);
        if (busy > r->run->in_flight_max)
            r->run->in_flight_max = busy;
        if (busy == 0 && !more_to_send(r, now))
            break;
        now = clock_s();
        bench_client_step(&r->client, now, r->poll.idle_s);
        progress_report(r, now);
        bench_poll_wait(&r->poll, until);
        settle_all(r);
    }
    r->run->seconds = clock_s() - r->started;
}

static enum status runner_open(struct bench_runner *r, struct error *err)
{
    const struct bench_options *o = r->o;
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    enum status status =
        bench_poll_open(&r->poll, o->concurrency > 0 ? o->concurrency : 65536, err);
    if (status != STATUS_OK)
        return status;
    bench_routes_open(&r->routes, o);
    bench_arrivals_init(&r->arrivals, o, r->args->trace);
    for (uint32_t i = 0; i < o->target_count; i++) {
        r->weight_sum += o->targets[i].weight;
        r->run->gaps[i] = heap_alloc_zeroed(1, sizeof **r->run->gaps);
    }
    r->target_cycle = heap_alloc_zeroed(r->weight_sum, sizeof *r->target_cycle);
    for (uint32_t i = 0, at = 0; i < o->target_count; i++)
        for (uint32_t w = 0; w < o->targets[i].weight; w++)
            r->target_cycle[at++] = i;
    // clients that start together have their handles before the run begins
    uint32_t clients = bench_is_open(o) || o->ramp_s > 0 ? 0 : o->concurrency;
    for (uint32_t i = 0; i < clients; i++)
        slot_add(r);
    while (clients > 0)
        r->idle[r->idle_count++] = --clients;
    if (o->check)
        r->reference_hash =
            heap_alloc_zeroed((size_t)o->target_count * o->prompts, sizeof *r->reference_hash);
    return STATUS_OK;
}

static void runner_close(struct bench_runner *r)
{
    for (uint32_t i = 0; i < r->slot_count; i++)
        bench_slot_destroy(r->slots[i]);
    bench_poll_close(&r->poll);
    bench_routes_close(&r->routes);
    bench_client_free(&r->client);
    heap_free(r->slots);
    heap_free(r->idle);
    heap_free(r->turns);
    heap_free(r->reference_hash);
    heap_free(r->target_cycle);
}

// Records the answers of all prompts, one at a time; the figures of this pass are dropped.
static enum status runner_record(struct bench_runner *r, struct error *err)
{
    r->recording = true;
    r->sent_max = (uint64_t)r->o->target_count * r->o->prompts;
    runner_pass(r);
    bench_client_free(&r->client);
    uint64_t good = 0;
    for (uint64_t i = 0; i < r->run->count; i++)
        good += r->run->records[i].outcome == BENCH_OUTCOME_OK;
    if (good != r->sent_max)
        return error_set(err, STATUS_REFUSED,
                         "--check: %llu of %llu prompts that were sent alone got no answer",
                         (unsigned long long)(r->sent_max - good), (unsigned long long)r->sent_max);
    for (uint32_t i = 0; i < r->o->target_count; i++)
        memset(r->run->gaps[i], 0, sizeof *r->run->gaps[i]);
    r->run->count = 0;
    r->run->in_flight_max = 0;
    r->recording = false;
    r->sent = 0;
    return STATUS_OK;
}

// Returns the medians with which the client's errors are compared.
static struct bench_client_scale scale_of(const struct bench_runner *r)
{
    const struct bench_run *run = r->run;
    struct bench_client_scale scale = {.stamped = r->poll.stamped > 0 && r->poll.unstamped == 0};
    double least = 0;
    for (uint32_t i = 0; i < BENCH_TARGETS_MAX; i++) {
        double ms = run->gaps[i] ? bench_histogram_at(run->gaps[i], 0.5) * 1e3 : 0;
        least = ms > 0 && (least <= 0 || ms < least) ? ms : least;
    }
    scale.gap_ms = least;
    double *whole = heap_alloc((run->count + 1) * sizeof *whole);
    for (uint64_t i = 0; i < run->count; i++)
        whole[i] = run->records[i].end - run->records[i].due;
    bench_sort(whole, run->count);
    scale.whole_ms = bench_quantile(whole, run->count, 0.5) * 1e3;
    heap_free(whole);
    return scale;
}

enum status bench_run(struct bench_run *out, const struct bench_run_args *args, struct error *err)
{
    const struct bench_options *o = args->options;
    struct bench_runner r = {.o = o, .args = args, .run = out};
    struct timespec day;
    *out = (struct bench_run){.measured_from = o->ramp_s};
    clock_gettime(CLOCK_REALTIME, &day);
    out->unix_ms = (int64_t)day.tv_sec * 1000 + day.tv_nsec / 1000000;
    enum status status = runner_open(&r, err);
    if (status == STATUS_OK && o->check)
        status = runner_record(&r, err);
    if (status == STATUS_OK) {
        r.sent_max = o->requests_max;
        runner_pass(&r);
        struct bench_client_scale scale = scale_of(&r);
        out->client = bench_client_end(&r.client, out->seconds, &scale);
    }
    runner_close(&r);
    return status;
}
