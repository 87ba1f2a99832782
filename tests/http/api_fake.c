// SPDX-License-Identifier: Apache-2.0
// Implements the doubles of api_fake.h. Only one exchange exists at a time.
#include "api_fake.h"

#include "http/api/grammars.h"
#include "http/api/pieces.h"
#include "base/clock.h"
#include "runtime/grammar/matcher.h"
#include "runtime/text/dialect/watch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct fake fake;
struct chat_template fake_chat;
struct model_facts fake_facts;
bool fake_plain;
int64_t fake_now;

struct request {
    int unused;
};
struct port {
    int unused;
};

static struct arena *arena, *scratch;
static struct request request;
static struct port port;
static struct tokenizer tokenizer;
static struct served_model model;
static struct served served;
static const struct route *route;
static void *state;
static struct token_top event_tops[8192][TOP_LOGPROBS_MAX];
static uint32_t event_choice, finishes; // choice of the next event; number of finished choices

// Control

void fake_special_in_text(void)
{
    model.special_in_text = true;
}

void fake_dimensions(void)
{
    model.dimensions_free = fake_facts.normalize = true;
}

void fake_prompts(const char *standard)
{
    static const struct sentence_prompt prompts[] = {{{"query", 5}, {"Q: ", 3}},
                                                     {{"document", 8}, {"", 0}}};
    model.prompts = (struct sentence_prompts){.items = prompts, .count = 2};
    if (standard)
        model.prompts.default_prompt = sentence_prompts_find(&model.prompts, text_of(standard));
}

void fake_inputs_max(uint32_t count)
{
    model.inputs_max = count;
}

void fake_dialect(const char *name, const char *reasoning)
{
    fake_dialect_special(name, reasoning, NULL);
}

void fake_infill(bool middle, bool files)
{
    tokenizer.infill = 1 | (unsigned)middle << 1 | (unsigned)files << 2;
}

void fake_decodes_none(void)
{
    tokenizer.decodes_none = true;
}

void fake_generic_calls(void)
{
    check(dialect_named(&model.generic_calls, "json", "none", NULL), "no such dialect");
}

void fake_one_call(void)
{
    model.dialect.one_call = true;
}

void fake_dialect_special(const char *name, const char *reasoning, const char *special)
{
    tokenizer.mark = special;
    check(dialect_named(&model.dialect, name, reasoning, special ? &tokenizer : NULL), "%s, %s",
          name, reasoning);
}

void fake_dialect_of(const struct tokenizer *t, const char *name, const char *reasoning)
{
    model.tokenizer = t;
    check(dialect_named(&model.dialect, name, reasoning, t), "%s, %s", name, reasoning);
}

void fake_model_name(const char *name)
{
    model.id = name;
}

void fake_grammar_bytes(size_t bytes)
{
    grammars_destroy(served.grammars);
    served.grammars = grammars_create(bytes);
}

void fake_vocabulary(struct vocabulary *v)
{
    model.vocabulary = v;
}

void fake_watch(void)
{
    struct vocabulary *v = fake_bytes();
    model.watch = dialect_marks_calls(&model.dialect) ? dialect_watch(&model.dialect, v) : NULL;
    vocabulary_unref(v);
}

void fake_models(uint32_t count)
{
    static struct served_model models[8];
    static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    for (uint32_t i = 0; i < count; i++) {
        models[i] = model;
        models[i].id = names[i];
    }
    served.models = models;
    served.count = count;
}

void fake_arena_limit(size_t bytes)
{
    arena_destroy(arena);
    arena = arena_create(0, bytes);
}

// JSON values not yet freed, and how many of them existed at fake_begin.
static size_t json_live, json_before;
static json_malloc_t json_alloc; // the functions of base/json_wide.c
static json_free_t json_free;

static void *json_take(size_t bytes)
{
    json_live++;
    return json_alloc(bytes);
}

static void json_give(void *memory)
{
    json_live -= memory != NULL;
    json_free(memory);
}

void fake_begin(enum model_kind kind)
{
    if (!json_alloc)
        json_get_alloc_funcs(&json_alloc, &json_free);
    json_set_alloc_funcs(json_take, json_give);
    json_before = json_live;
    memset(&fake, 0, sizeof fake);
    event_choice = finishes = 0;
    tokenizer = (struct tokenizer){.mark = NULL};
    fake_facts = (struct model_facts){.kind = kind,
                                      .vocab = FAKE_VOCAB,
                                      .max_model_len = 200,
                                      .output_width = kind == MODEL_EMBEDDER ? 4 : 1,
                                      .token_types = true,
                                      .defaults = {NAN, NAN, NAN, NAN, NAN, NAN},
                                      .limits = {.bias_max = 1024}};
    fake_chat = (struct chat_template){.system_inside = true};
    fake_plain = false;
    model = (struct served_model){.id = "m",
                                  .facts = &fake_facts,
                                  .tokenizer = &tokenizer,
                                  .chat = &fake_chat,
                                  .fingerprint = "fp_test",
                                  .max_queued_tokens = 5000,
                                  .choices_max = 24,
                                  .n_max = 8,
                                  .inputs_max = kind == MODEL_EMBEDDER ? 2048 : 1000};
    served = (struct served){.models = &model, .count = 1, .grammars = grammars_create(0)};
    fake.info = (struct exchange_info){.request_id = text_of("req_1"), .served = &served};
    fake.send_space = 4096;
    fake.sent = calloc(1, 1);
    fake.cached = 3;
    fake.ignored_before = 1; // not the process's first ignored field, so that nothing is logged
    arena = arena_create(0, 0);
    state = NULL;
}

void fake_end(void)
{
    check(json_live == json_before, "%zu JSON values are left", json_live - json_before);
    arena_destroy(arena);
    arena_destroy(scratch);
    scratch = NULL;
    free(fake.sent);
    free(fake.tokens);
    free(fake.values);
    grammar_unref(fake.grammar);
    token_rules_unref(fake.rules);
    token_watch_unref(model.watch);
    model.watch = NULL;
    grammars_destroy(served.grammars);
    memset(&fake, 0, sizeof fake);
}

void fake_thinker(const char *dialect)
{
    fake_end();
    fake_begin(MODEL_GENERATOR);
    fake_facts.max_model_len = 4000;
    fake_chat.thinks = true;
    fake_dialect(dialect, "think");
}

void fake_again(void)
{
    struct chat_template chat = fake_chat;
    enum rerank_form form = fake_facts.rerank;
    enum model_kind kind = fake_facts.kind;

    fake_end();
    fake_begin(kind);
    fake_chat = chat;
    fake_facts.rerank = form;
}

static int setup(enum model_kind kind)
{
    fake_begin(kind);
    return 0;
}

int fake_setup_generator(void **unused)
{
    (void)unused;
    return setup(MODEL_GENERATOR);
}

int fake_setup_embedder(void **unused)
{
    (void)unused;
    return setup(MODEL_EMBEDDER);
}

int fake_setup_reranker(void **unused)
{
    (void)unused;
    return setup(MODEL_RERANKER);
}

int fake_teardown(void **unused)
{
    (void)unused;
    fake_end();
    return 0;
}

// If a generated id (prefix and 24 letters) or a time begins at p, returns its end, otherwise NULL.
// Sets *instead to its placeholder.
static const char *changing(const char *p, const char **instead)
{
    static const char *const prefixes[] = {"\"chatcmpl-", "\"msg_",  "\"cmpl-", "\"call_",
                                           "\"toolu_",    "\"resp_", "\"fc_",   "\"rs_"};
    static const char *const times[][2] = {{"\"created\":", "\"created\":0"},
                                           {"\"created_at\":1", "\"created_at\":0"},
                                           {"\"completed_at\":1", "\"completed_at\":0"}};

    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        size_t bytes = strlen(prefixes[i]);
        if (strncmp(p, prefixes[i], bytes) == 0) {
            *instead = "\"ID\"";
            return p + bytes + 24 + 1;
        }
    }
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        size_t bytes = strlen(times[i][0]);
        if (strncmp(p, times[i][0], bytes) != 0)
            continue;
        *instead = times[i][1];
        return p + bytes + strspn(p + bytes, "0123456789");
    }
    return NULL;
}

const char *fake_events(void)
{
    static char out[65536];
    char *o = out;

    for (const char *p = fake.sent; *p && o < out + sizeof out - 64;) {
        const char *instead;
        const char *behind = changing(p, &instead);
        if (behind) {
            o = stpcpy(o, instead);
            p = behind;
        } else {
            *o++ = *p++;
        }
    }
    *o = 0;
    return out;
}

static void scratch_end(void)
{
    arena_destroy(scratch);
    scratch = NULL;
}

static const struct route *route_find(const char *path)
{
    static const struct route *const tables[] = {
        chat_routes,       completions_routes, infill_routes, responses_routes, messages_routes,
        embeddings_routes, rerank_routes,      tokens_routes, models_routes};
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (const struct route *row = tables[t]; row->path; row++)
            if (strcmp(row->path, path) == 0)
                return row;
    abort();
}

void fake_request_bytes(const char *path, struct text body)
{
    route = route_find(path);
    if (!(route->flags & ROUTE_SHAPE_OF_CALLER))
        fake.info.shape = route->shape;
    fake.info.body = body;
    if (fake_plain)
        model.chat_is_plain = true;
    const char *by = fake_chat.by || !fake_chat.thinks ? fake_chat.by : "enable_thinking";
    model.thinking =
        (struct dialect_thinking){by ? dialect_switch_of(by) : NULL, fake_chat.efforts};
    fake.offloaded = fake.offloaded || body.bytes > route->inline_bytes_max;
    scratch_end();
    scratch = arena_create(0, scratch_bytes_max(body.bytes));
    if (model.dialect.row)
        (void)dialect_closing_make(&model.closing, &model.dialect, &tokenizer, fake_facts.vocab,
                                   scratch);
    if (route->on_prepare)
        route->on_prepare((struct exchange *)&fake);
    if (!fake.gone)
        route->on_request((struct exchange *)&fake);
    if (!fake.compiles_wait)
        scratch_end();
}

void fake_request(const char *path, const char *body)
{
    fake_request_bytes(path, text_of(body));
}

static void event_add(struct token_event event)
{
    event.choice = event_choice;
    fake.events[fake.event_count++] = event;
}

void fake_choice(uint32_t choice)
{
    event_choice = choice;
}

void fake_logprob(float logprob, const struct token_top *tops, uint32_t count)
{
    struct token_event *event = &fake.events[fake.event_count - 1];
    event->logprob = logprob;
    event->top_count = (uint16_t)count;
    if (count > 0)
        memcpy(event_tops[fake.event_count - 1], tops, count * sizeof *tops);
}

void fake_token(int32_t token)
{
    event_add((struct token_event){.token = token, .flags = EVENT_TOKEN});
}

void fake_text(const char *text)
{
    for (const char *p = text; *p; p++)
        fake_token((unsigned char)*p);
}

void fake_finish(enum finish finish, int32_t token)
{
    bool generates = fake.kind == REQUEST_GENERATE;
    uint32_t choices = generates ? fake.choice_count * fake.sequence_count : 1;
    bool last = ++finishes >= choices;
    event_add((struct token_event){
        .token = token,
        .finish = (uint8_t)finish,
        .flags = (uint8_t)((last ? EVENT_LAST : 0) | (token >= 0 ? EVENT_TOKEN : 0))});
}

void fake_ready(void)
{
    route->on_ready((struct exchange *)&fake);
}

void fake_send_space(void)
{
    route->on_send_space((struct exchange *)&fake);
}

void fake_second(uint64_t seconds)
{
    route->on_second((struct exchange *)&fake, fake.info.started_ns + seconds * 1000000000ull);
    route->on_ready((struct exchange *)&fake);
}

void fake_gone(void)
{
    fake.gone = true;
    if (route->on_gone)
        route->on_gone((struct exchange *)&fake);
}

void fake_cut(const struct http_failure *failure)
{
    route->on_cut((struct exchange *)&fake, failure);
    route->on_ready((struct exchange *)&fake);
    fake_gone();
}

char *fake_prompt(void)
{
    char *prompt = calloc(1, fake.token_count + 1);
    for (uint32_t i = 0; i < fake.token_count; i++) {
        int32_t token = fake.tokens[i];
        prompt[i] = (char)(token == FAKE_BOS ? '^' : token == FAKE_SEP ? '$' : token % 1000);
    }
    return prompt;
}

json_t *fake_json(void)
{
    json_t *value = json_loadb(fake.sent, fake.sent_bytes, JSON_ALLOW_NUL, NULL);
    check(value, "the answer is not JSON: %s", fake.sent);
    return value;
}

const char *fake_string(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    check(json_is_string(value), "no string '%s'", name);
    return json_string_value(value);
}

// Exchange

// Grows the buffer geometrically: a test may send megabytes in small pieces.
static void sent_add(struct text bytes)
{
    size_t least = fake.sent_bytes + bytes.bytes + 1;
    if (least > fake.sent_room) {
        fake.sent_room = 2 * least;
        fake.sent = realloc(fake.sent, fake.sent_room);
    }
    memcpy(fake.sent + fake.sent_bytes, bytes.at, bytes.bytes);
    fake.sent_bytes += bytes.bytes;
    fake.sent[fake.sent_bytes] = 0;
}

const struct exchange_info *exchange_info(const struct exchange *x)
{
    (void)x;
    return &fake.info;
}

struct arena *exchange_arena(struct exchange *x)
{
    (void)x;
    return arena;
}

struct arena *exchange_scratch(struct exchange *x)
{
    (void)x;
    return scratch;
}

void exchange_state_set(struct exchange *x, void *s)
{
    (void)x;
    state = s;
}

void *exchange_state(const struct exchange *x)
{
    (void)x;
    return state;
}

void exchange_model_named(struct exchange *x, struct text id)
{
    (void)x, (void)id;
}

struct port *exchange_port(struct exchange *x, const struct served_model *m,
                           const struct submit_args *args)
{
    (void)x, (void)m, (void)args;
    if (fake.asked++ <= fake.more_copies)
        return &port;
    fake.asked = 0;
    return NULL;
}

void exchange_attach(struct exchange *x, struct port *p, struct request *r)
{
    (void)x, (void)p, (void)r;
    fake.asked = 0;
}

void exchange_detach(struct exchange *x)
{
    (void)x;
    fake.frees++;
}

void exchange_fail(struct exchange *x, const struct http_failure *failure)
{
    struct json_buffer out = {0};
    (void)x;
    fake.asked = 0;
    http_error_body(&out, failure, fake.info.shape, fake.info.request_id);
    fake.error = failure->error;
    exchange_reply(x, http_error_status(failure->error, fake.info.shape),
                   text_span(out.at, out.bytes));
    json_buffer_free(&out);
}

void exchange_reply(struct exchange *x, int status, struct text json)
{
    (void)x;
    fake.status = status;
    fake.answers++;
    fake.ended = true;
    sent_add(json);
}

void exchange_reply_begin(struct exchange *x, int status, uint64_t content_length)
{
    (void)x;
    fake.status = status;
    fake.answers++;
    fake.streaming = true;
    fake.length = content_length;
}

void exchange_stream_begin(struct exchange *x)
{
    (void)x;
    fake.status = 200;
    fake.answers++;
    fake.streaming = true;
}

size_t exchange_send_space(const struct exchange *x)
{
    (void)x;
    return fake.send_space;
}

void exchange_write(struct exchange *x, struct text bytes)
{
    (void)x;
    sent_add(bytes);
    if (fake.rationed)
        fake.send_space -= bytes.bytes < fake.send_space ? bytes.bytes : fake.send_space;
}

void exchange_stream_failed(struct exchange *x, enum http_error error)
{
    (void)x;
    check(fake.streaming && !fake.ended, "a failed stream that is none");
    fake.error = error;
    fake.stream_failures++;
}

void exchange_end(struct exchange *x)
{
    (void)x;
    fake.ended = true;
}

bool exchange_answered(const struct exchange *x)
{
    (void)x;
    return fake.streaming;
}

static void job_run(struct exchange *x, bool works)
{
    struct text body = fake.info.body;
    if (!fake.job.reads_body)
        fake.info.body = (struct text){"", 0};
    bool late = fake.job.compiles && fake.info.deadline_ns != 0 && // as offload.c
                clock_ns() > fake.info.deadline_ns;
    if (works && !late)
        fake.job.work(x);
    fake.info.body = body;
    if (fake.worked)
        fake.worked();
    fake.job.done(x);
}

void exchange_offload(struct exchange *x, struct offload job)
{
    fake.offloaded = true;
    fake.job = job;
    job_run(x, true);
}

bool exchange_compile(struct exchange *x, struct offload job)
{
    if (fake.compiles_full)
        return false;
    fake.compiles++;
    fake.job = job;
    fake.job.compiles = true;
    if (!fake.compiles_wait)
        job_run(x, true);
    return true;
}

void fake_compile(bool works)
{
    job_run((struct exchange *)&fake, works);
    if (fake.streaming && !fake.gone)
        fake_ready();
}

struct slice *exchange_slice(const struct exchange *x)
{
    (void)x;
    return fake.slice.each > 0 ? &fake.slice : NULL;
}

bool exchange_gone(const struct exchange *x)
{
    (void)x;
    return fake.gone;
}

const struct served_model *served_find(const struct served *s, struct text id)
{
    for (uint32_t i = 0; i < s->count; i++)
        if (text_is(id, s->models[i].id))
            return &s->models[i];
    return NULL;
}

// Counters

void counters_params(struct exchange *x, uint32_t choice_count, uint32_t n, uint32_t max_tokens)
{
    (void)x, (void)choice_count;
    fake.params_n = n;
    fake.params_max_tokens = max_tokens;
}

void counters_tokens(struct exchange *x, uint32_t tokens)
{
    (void)x;
    fake.counted_tokens += tokens;
}

void counters_finish(struct exchange *x, enum counted_finish finish, uint32_t tokens)
{
    (void)x, (void)tokens;
    fake.counted[finish]++;
}

void counters_gone(struct exchange *x, uint32_t tokens)
{
    counters_finish(x, COUNTED_ABORT, tokens);
}

void counters_tokenized(struct exchange *x, uint64_t ns)
{
    (void)x, (void)ns;
}

void server_view_get(const struct exchange *x, struct server_view *out)
{
    (void)x;
    *out = (struct server_view){.thread_count = 1};
}

const struct thread_counters *server_counters(const struct exchange *x, uint32_t thread)
{
    static struct thread_counters counters;
    (void)x, (void)thread;
    counters.fields_ignored = fake.ignored_before;
    return &counters;
}

void counters_fields_ignored(struct exchange *x, uint32_t count)
{
    (void)x;
    fake.ignored_fields += count;
}

// Port

enum admission port_submit(struct port *p, const struct submit_args *args, struct request **out)
{
    (void)p;
    fake.submits++;
    if (fake.more_copies > 0)
        fake.admission = fake.said[fake.asked - 1];
    fake.kind = args->kind;
    fake.token_count = args->token_count;
    fake.sequence_count = args->sequence_count;
    fake.choice_count = args->choice_count;
    fake.stop_id_count = args->stop_id_count;
    if (args->stop_id_count > 0)
        memcpy(fake.stop_ids, args->stop_ids, args->stop_id_count * sizeof *args->stop_ids);
    fake.bias_count = args->bias_count;
    if (args->bias_count > 0)
        memcpy(fake.bias, args->bias, args->bias_count * sizeof *args->bias);
    fake.max_tokens = args->max_tokens;
    fake.sampling = args->sampling;
    fake.prompts_differ = args->prompts_differ;
    memcpy(fake.cache_salt, args->cache_salt, sizeof fake.cache_salt);
    fake.cache_owner = args->cache_owner;
    fake.ignore_end = args->ignore_end;
    grammar_unref(fake.grammar);
    fake.grammar = args->grammar && fake.admission == ADMITTED ? grammar_ref(args->grammar) : NULL;
    token_rules_unref(fake.rules);
    fake.rules = args->rules && fake.admission == ADMITTED ? token_rules_ref(args->rules) : NULL;
    fake.watch_phase = args->watch ? args->watch_phase : TOKEN_UNWATCHED;
    fake.key_id = args->key_id;
    fake.deadline_ns = args->deadline_ns;
    fake.has_types = args->type_from != NULL;
    fake.pool_from = args->pool_from;
    fake.pool_raw = args->pool_raw;
    fake.tokens = realloc(fake.tokens, args->token_count * sizeof(int32_t) + 1);
    memcpy(fake.tokens, args->tokens, args->token_count * sizeof(int32_t));
    memcpy(fake.starts, args->sequence_start, (args->sequence_count + 1) * sizeof(uint32_t));
    if (args->type_from)
        memcpy(fake.type_from, args->type_from, args->sequence_count * sizeof(uint32_t));
    *out = fake.admission == ADMITTED ? &request : NULL;
    return fake.admission;
}

void port_cancel(struct port *p, struct request *r)
{
    (void)p, (void)r;
    fake.cancels++;
}

void port_cancel_choice(struct port *p, struct request *r, uint32_t choice)
{
    (void)p, (void)r;
    fake.choice_cancels++;
    fake.choice_cancelled = choice;
}

bool port_next(struct port *p, struct request *r, struct token_event *out, struct token_top *tops)
{
    (void)p, (void)r;
    if (fake.event_next == fake.event_count)
        return false;
    if (tops)
        memcpy(tops, event_tops[fake.event_next], sizeof event_tops[0]);
    *out = fake.events[fake.event_next++];
    return true;
}

const float *request_values(const struct request *r, uint32_t sequence)
{
    (void)r;
    return fake.values + (size_t)sequence * fake_facts.output_width;
}

void request_facts_get(const struct request *r, struct request_facts *out)
{
    (void)r;
    *out = (struct request_facts){.prompt_tokens = fake.token_count, .cached_tokens = fake.cached};
}
