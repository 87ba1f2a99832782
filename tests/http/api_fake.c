// The doubles of api_fake.h. One exchange at a time.
#include "api_fake.h"

#include "http/api/vectors.h"
#include "runtime/text/chat.h"
#include "runtime/text/tokenizer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct fake fake;
struct chat_template fake_chat;
struct model_facts fake_facts;
bool fake_plain;

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

// Control

void fake_special_in_text(void)
{
    model.special_in_text = true;
}

void fake_own_sampling(void)
{
    model.sampling_defaults = true;
}

void fake_model_name(const char *name)
{
    model.id = name;
}

void fake_arena_limit(size_t bytes)
{
    arena_destroy(arena);
    arena = arena_create(0, bytes);
}

// JSON values that are not freed yet.
static size_t json_live;

static void *json_take(size_t bytes)
{
    json_live++;
    return malloc(bytes);
}

static void json_give(void *memory)
{
    json_live -= memory != NULL;
    free(memory);
}

void fake_begin(enum model_kind kind)
{
    json_set_alloc_funcs(json_take, json_give);
    memset(&fake, 0, sizeof fake);
    fake_facts = (struct model_facts){.kind = kind,
                                      .vocab = FAKE_VOCAB,
                                      .max_model_len = 200,
                                      .output_width = kind == MODEL_EMBEDDER ? 4 : 1,
                                      .token_types = true,
                                      .default_temperature = NAN,
                                      .default_top_p = NAN,
                                      .default_top_k = -1};
    fake_chat = (struct chat_template){.system_inside = true};
    fake_plain = false;
    model = (struct served_model){.id = "m",
                                  .facts = &fake_facts,
                                  .tokenizer = &tokenizer,
                                  .chat = &fake_chat,
                                  .fingerprint = "fp_test",
                                  .max_queued_tokens = 5000};
    served = (struct served){&model, 1};
    fake.info = (struct exchange_info){.request_id = text_of("req_1"), .served = &served};
    fake.room = 4096;
    fake.sent = calloc(1, 1);
    fake.cached = 3;
    fake.ignored_before = 1; // not the first: no line in the test's output
    arena = arena_create(0, 0);
    state = NULL;
}

void fake_end(void)
{
    check(json_live == 0, "%zu JSON values are left", json_live);
    arena_destroy(arena);
    free(fake.sent);
    free(fake.tokens);
    free(fake.values);
    memset(&fake, 0, sizeof fake);
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

// Returns the end of an id (prefix and 24 letters) or of a time that begins at p.
static const char *changing(const char *p, const char **instead)
{
    static const char *const prefixes[] = {"\"chatcmpl-", "\"msg_"};
    static const char created[] = "\"created\":";

    for (int i = 0; i < 2; i++) {
        size_t bytes = strlen(prefixes[i]);
        if (strncmp(p, prefixes[i], bytes) == 0) {
            *instead = "\"ID\"";
            return p + bytes + 24 + 1;
        }
    }
    if (strncmp(p, created, sizeof created - 1) != 0)
        return NULL;
    *instead = "\"created\":0";
    p += sizeof created - 1;
    return p + strspn(p, "0123456789");
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

static const struct route *route_find(const char *path)
{
    static const struct route *const tables[] = {chat_routes, messages_routes, embeddings_routes,
                                                 rerank_routes};
    for (size_t t = 0; t < 4; t++)
        for (const struct route *row = tables[t]; row->path; row++)
            if (strcmp(row->path, path) == 0)
                return row;
    abort();
}

void fake_request_bytes(const char *path, struct text body)
{
    route = route_find(path);
    fake.info.shape = route->shape;
    fake.info.body = body;
    if (fake_plain)
        model.chat_is_plain = true;
    fake.offloaded = fake.offloaded || body.bytes > route->inline_bytes_max;
    scratch = arena_create(0, scratch_bytes_max(body.bytes));
    route->on_prepare((struct exchange *)&fake);
    if (!fake.gone)
        route->on_request((struct exchange *)&fake);
    arena_destroy(scratch);
}

void fake_request(const char *path, const char *body)
{
    fake_request_bytes(path, text_of(body));
}

static void event_add(struct token_event event)
{
    fake.events[fake.event_count++] = event;
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
    event_add((struct token_event){.token = token,
                                   .finish = (uint8_t)finish,
                                   .flags = EVENT_LAST | (token >= 0 ? EVENT_TOKEN : 0)});
}

void fake_ready(void)
{
    route->on_ready((struct exchange *)&fake);
}

void fake_room(void)
{
    route->on_room((struct exchange *)&fake);
}

void fake_second(uint64_t seconds)
{
    route->on_second((struct exchange *)&fake, fake.info.started_ns + seconds * 1000000000ull);
}

void fake_gone(void)
{
    fake.gone = true;
    route->on_gone((struct exchange *)&fake);
}

void fake_cut(const struct http_failure *failure)
{
    route->on_cut((struct exchange *)&fake, failure);
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

// Exchange

static void sent_add(struct text bytes)
{
    fake.sent = realloc(fake.sent, fake.sent_bytes + bytes.bytes + 1);
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

struct port *exchange_port(struct exchange *x, const struct served_model *m)
{
    (void)x, (void)m;
    return &port;
}

void exchange_attach(struct exchange *x, struct port *p, struct request *r)
{
    (void)x, (void)p, (void)r;
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

size_t exchange_room(const struct exchange *x)
{
    (void)x;
    return fake.room;
}

void exchange_write(struct exchange *x, struct text bytes)
{
    (void)x;
    sent_add(bytes);
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

bool exchange_streaming(const struct exchange *x)
{
    (void)x;
    return fake.streaming;
}

void exchange_offload(struct exchange *x, struct offload job)
{
    struct text body = fake.info.body;
    fake.offloaded = true;
    fake.job = job;
    if (!job.reads_body)
        fake.info.body = (struct text){"", 0};
    job.work(x);
    fake.info.body = body;
    job.done(x);
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
    return text_is(id, s->models[0].id) ? &s->models[0] : NULL;
}

// Counters

void counters_params(struct exchange *x, uint32_t choice_count, uint32_t max_tokens)
{
    (void)x, (void)choice_count, (void)max_tokens;
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
    fake.kind = args->kind;
    fake.token_count = args->token_count;
    fake.sequence_count = args->sequence_count;
    fake.max_tokens = args->max_tokens;
    fake.sampling = args->sampling;
    fake.ignore_end = args->ignore_end;
    fake.key_id = args->key_id;
    fake.deadline_ns = args->deadline_ns;
    fake.has_types = args->type_from != NULL;
    free(fake.tokens);
    fake.tokens = malloc(args->token_count * sizeof(int32_t) + 1);
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

bool port_next(struct port *p, struct request *r, struct token_event *out, struct token_top *tops)
{
    (void)p, (void)r, (void)tops;
    if (fake.event_next == fake.event_count)
        return false;
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

// Chat template

bool chat_template_uses(const struct chat_template *chat, const char *name)
{
    return chat->thinks && strcmp(name, "enable_thinking") == 0;
}

bool chat_template_takes_system_inside(const struct chat_template *chat)
{
    return chat->system_inside;
}

struct rendering {
    struct arena *arena;
    char text[65536 * 4];
    size_t bytes;
    struct text_segment *segments;
    uint32_t count;
};

static struct rendering rendering;

static void render(struct text text, bool plain)
{
    struct text_segment *segment = &rendering.segments[rendering.count++];
    *segment =
        (struct text_segment){text_span(rendering.text + rendering.bytes, text.bytes), plain};
    memcpy(rendering.text + rendering.bytes, text.at, text.bytes);
    rendering.bytes += text.bytes;
}

static enum status render_calls(const struct chat_template *chat, const json_t *calls,
                                struct error *err)
{
    size_t i;
    json_t *call;
    json_array_foreach(calls, i, call)
    {
        json_t *function = json_object_get(call, "function");
        struct json_buffer out = {0};
        if (chat->object_arguments && !json_is_object(json_object_get(function, "arguments")))
            return error_set(err, STATUS_INVALID, "line 3: arguments must be a mapping");
        json_put_format(&out, "(%s ", json_string_value(json_object_get(function, "name")));
        json_put_value(&out, json_object_get(function, "arguments"));
        json_put_literal(&out, ")");
        render(text_span(out.at, out.bytes), true);
        json_buffer_free(&out);
    }
    return STATUS_OK;
}

static void names_put(const struct chat_template *chat, const json_t *message)
{
    static const char *const keys[] = {"name", "tool_call_id"};
    for (int i = 0; i < 2 && chat->names; i++) {
        const json_t *value = json_object_get(message, keys[i]);
        if (!value)
            continue;
        render(text_of(i == 0 ? "<" : "#"), false);
        render(text_span(json_string_value(value), json_string_length(value)), true);
        render(text_of(i == 0 ? ">" : ""), false);
    }
}

enum status chat_render(const struct chat_template *chat, const struct chat_input *in,
                        struct arena *a, struct chat_output *out, struct error *err)
{
    size_t i;
    json_t *message;
    json_t *messages = json_object_get(in->variables, "messages");

    rendering.bytes = rendering.count = 0;
    rendering.segments =
        arena_take(a, (json_array_size(messages) * 12 + 4) * sizeof *rendering.segments);
    if (chat->refuses)
        return error_set(err, STATUS_REFUSED, "Roles must alternate");
    json_array_foreach(messages, i, message)
    {
        const json_t *content = json_object_get(message, "content");
        const json_t *reasoning = json_object_get(message, "reasoning_content");
        if (!fake_plain) {
            render(text_of("["), false);
            render(text_of(json_string_value(json_object_get(message, "role"))), false);
            render(text_of("]"), false);
        } else if (i > 0) {
            render(text_of("\n"), false);
        }
        names_put(chat, message);
        if (reasoning) {
            render(text_span(json_string_value(reasoning), json_string_length(reasoning)), true);
            render(text_of("/"), false);
        }
        render(text_span(json_string_value(content), json_string_length(content)), true);
        enum status status = render_calls(chat, json_object_get(message, "tool_calls"), err);
        if (status != STATUS_OK)
            return status;
    }
    if (json_is_false(json_object_get(in->variables, "enable_thinking")))
        render(text_of("[no-think]"), false);
    if (json_is_true(json_object_get(in->variables, "add_generation_prompt")) && !fake_plain)
        render(text_of("[assistant]"), false);
    *out = (struct chat_output){text_span(rendering.text, rendering.bytes), rendering.segments,
                                rendering.count};
    return STATUS_OK;
}

// Tokenizer

uint32_t tokenizer_bound(const struct tokenizer *t, size_t text_bytes)
{
    (void)t;
    return (uint32_t)text_bytes + 4;
}

struct encoding {
    int32_t *tokens;
    uint32_t count, max;
    bool more; // than max
};

static void token_put(struct encoding *e, int32_t token)
{
    if (e->count < e->max)
        e->tokens[e->count++] = token;
    else
        e->more = true;
}

enum status tokenizer_encode(const struct tokenizer *t, const struct encode_args *args,
                             int32_t *tokens, uint32_t token_max, uint32_t *token_count,
                             struct error *err)
{
    struct encoding e = {.tokens = tokens, .max = token_max};
    (void)t;
    if (args->flags & ENCODE_SPECIAL)
        token_put(&e, FAKE_BOS);
    for (size_t i = 0; i < args->text.bytes; i++) {
        token_put(&e,
                  (unsigned char)args->text.at[i] + (args->flags & ENCODE_ADDED_TOKENS ? 1000 : 0));
    }
    if (args->flags & ENCODE_SPECIAL)
        token_put(&e, FAKE_SEP);
    if (args->pair) {
        *args->pair_start = e.count;
        for (size_t i = 0; i < args->pair->bytes; i++)
            token_put(&e, (unsigned char)args->pair->at[i]);
        token_put(&e, FAKE_SEP);
        for (uint32_t i = 0; args->type_ids && i < e.count; i++)
            args->type_ids[i] = i >= *args->pair_start;
    }
    *token_count = e.count;
    return e.more ? error_set(err, STATUS_TOO_LARGE, "too many") : STATUS_OK;
}

enum status tokenizer_encode_segments(const struct tokenizer *t, const struct encode_args *args,
                                      int32_t *tokens, uint32_t token_max, uint32_t *token_count,
                                      struct error *err)
{
    struct encoding e = {.tokens = tokens, .max = token_max};
    (void)t;
    if (args->flags & ENCODE_SPECIAL)
        token_put(&e, FAKE_BOS);
    for (uint32_t s = 0; s < args->segment_count; s++) {
        const struct text_segment *segment = &args->segments[s];
        for (size_t i = 0; i < segment->text.bytes; i++)
            token_put(&e, (unsigned char)segment->text.at[i] + (segment->plain ? 0 : 1000));
    }
    *token_count = e.count;
    return e.more ? error_set(err, STATUS_TOO_LARGE, "too many") : STATUS_OK;
}

uint32_t tokenizer_vocab(const struct tokenizer *t)
{
    (void)t;
    return FAKE_VOCAB;
}

struct text tokenizer_special_text(const struct tokenizer *t, enum special_token which)
{
    (void)t;
    return which == SPECIAL_BOS ? text_of("<s>") : (struct text){0};
}

const char *tokenizer_special_name(enum special_token which)
{
    return which == SPECIAL_BOS ? "bos_token" : "other";
}

void detok_init(struct detok *d, const struct tokenizer *t, bool skip_special)
{
    *d = (struct detok){.tokenizer = t, .skip_special = skip_special};
}

void detok_continue(struct detok *d)
{
    d->begun = true;
}

uint32_t detok_bound(const struct tokenizer *t)
{
    (void)t;
    return 16;
}

// Bytes of a character are held until it is whole; id 300 + n is n letters "x".
uint32_t detok_push(struct detok *d, int32_t token, char *out, uint32_t out_max)
{
    (void)out_max;
    if (token >= 300 && token < 316) {
        memset(out, 'x', (size_t)token - 300);
        return (uint32_t)token - 300;
    }
    d->held[d->held_bytes++] = (char)token;
    unsigned char first = (unsigned char)d->held[0];
    uint8_t wanted = first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
    if (d->held_bytes < wanted)
        return 0;
    memcpy(out, d->held, wanted);
    d->held_bytes = 0;
    return wanted;
}

uint32_t detok_finish(struct detok *d, char *out, uint32_t out_max)
{
    (void)out_max;
    if (d->held_bytes == 0)
        return 0;
    d->held_bytes = 0;
    memcpy(out, "\xEF\xBF\xBD", 3);
    return 3;
}
