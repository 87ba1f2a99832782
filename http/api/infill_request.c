// SPDX-License-Identifier: Apache-2.0
// POST /infill: llama-server's request for the text between a prefix and a suffix, as editors send
// it; fields and answers (docs/API.md). infill.c knows the marks, decoding.c reads the decoding
// fields.
#include "base/number.h"
#include "base/random.h"
#include "http/api/decoding.h"
#include "http/api/endpoints.h"
#include "http/api/inputs.h"
#include "http/api/shapes.h"
#include "http/api/tools.h"

#include <string.h>

enum { FILES_MAX = 1024, RESERVE_TOKENS = 256 };

static const struct field_rule infill_rows[] = {
    FIELD_READ_BY("input_prefix"),
    FIELD_READ_BY("input_suffix"),
    FIELD_TYPED("input_extra", "a"),
    FIELD_READ_BY("prompt"),
    FIELD_READ_BY("n_predict"),

    FIELD_HARMLESS("samplers", "as"), // the order is fixed
    FIELD_HARMLESS("n_indent", "i"),
    FIELD_HARMLESS("n_keep", "i"),
    FIELD_HARMLESS("n_cache_reuse", "i"),
    FIELD_HARMLESS("id_slot", "i"),
    FIELD_HARMLESS("t_max_prompt_ms", "i"),
    FIELD_HARMLESS("t_max_predict_ms", "i"),
    FIELD_HARMLESS("response_fields", "a"),
    FIELD_HARMLESS("repeat_last_n", "i"),

    FIELD_NOT_SERVED("n", "i", "[1]"),
    FIELD_NOT_SERVED("logprobs", "bi", "[false]"),
    FIELD_NOT_SERVED("echo", "b", "[false]"),
    FIELD_NOT_SERVED("add_special_tokens", "b", "[true]"),
    FIELD_NOT_SERVED("enable_thinking", "b", NULL), // there is no chat template
    FIELD_NOT_SERVED_BUT("suffix", "s", NULL, "use input_suffix"),
    FIELD_NOT_SERVED_BUT("messages", "a", NULL, "use /v1/chat/completions"),
};
static const struct field_rules infill_rules = FIELD_RULES(infill_rows, &decoding_rules);

struct infill_request {
    struct generation g; // first member, so that either pointer can be cast to the other
    bool nothing;        // n_predict is 0: the prompt is computed, the token after it is not shown
    bool truncated;      // true if the texts did not fit into the context window
};

// Reading

struct token_span {
    const int32_t *at; // [count]
    uint32_t count;
};

struct infill_texts {
    struct infill_request *r;
    struct arena *arena;
    struct infill_marks marks;
    struct token_span before;               // special tokens before a text (BOS)
    struct token_span prefix, suffix, line; // line: `prompt`, the text directly before the gap
    struct token_span *files;               // [file_count] input_extra, with their names
    uint32_t file_count;
};

// Converts a text to tokens; special tokens in it are text.
static struct token_span text_tokens(struct infill_texts *t, const char *path, struct text text)
{
    struct body_call *call = &t->r->g.call;
    int32_t *tokens = NULL;
    uint32_t count = 0;
    if (call->fields.failed || text.bytes == 0)
        return (struct token_span){NULL, 0};
    if (input_encode(call, text, input_flags(false, false), t->arena, UINT32_MAX, &tokens,
                     &count) != STATUS_OK)
        fields_fail(&call->fields, HTTP_TOO_LARGE, path, "is too large");
    return (struct token_span){tokens, count};
}

// Finds the special tokens that the tokenizer puts before a text.
static void before_read(struct infill_texts *t)
{
    const struct body_call *call = &t->r->g.call;
    struct text text = text_of("a");
    int32_t *tokens;
    uint32_t count;
    struct encode_args args = {.text = text, .flags = input_flags(false, true), .arena = t->arena};
    if (input_encode(call, text, args.flags, t->arena, UINT32_MAX, &tokens, &count) == STATUS_OK)
        t->before = (struct token_span){
            tokens, text_parts_of(call->model->tokenizer, &args, tokens, count).before};
}

static struct token_span extra_read(struct infill_texts *t, const json_t *file, const char *path)
{
    struct fields *f = &t->r->g.call.fields;
    struct text text = fields_member_string(f, file, path, "text");
    const json_t *given = json_object_get(file, "filename");
    struct text name = json_is_string(given) ? json_text(given) : text_of("file");
    if (given && !json_is_string(given) && !json_is_null(given))
        fields_fail(f, HTTP_INVALID_TYPE, fields_path(f, "%s.filename", path), "must be a string");
    if (f->failed)
        return (struct token_span){NULL, 0};
    bool named = t->marks.file >= 0; // otherwise files are separated by an empty line
    struct text line_end = text_of("\n");
    const struct text parts[] = {named ? name : text, line_end, named ? text : line_end};
    size_t bytes = 0;
    char *joined = arena_alloc(t->arena, name.bytes + text.bytes + 2);
    if (!joined) {
        fields_fail(f, HTTP_TOO_LARGE, path, "is too large");
        return (struct token_span){NULL, 0};
    }
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        memcpy(joined + bytes, parts[i].at, parts[i].bytes);
        bytes += parts[i].bytes;
    }
    return text_tokens(t, path, text_span(joined, bytes));
}

static void extras_read(struct infill_texts *t)
{
    struct fields *f = &t->r->g.call.fields;
    const json_t *list = fields_get(f, "input_extra");
    size_t count = json_array_size(list);
    if (count > FILES_MAX) {
        fields_fail(f, HTTP_INVALID_VALUE, "input_extra", "must hold at most %d files, got %zu",
                    FILES_MAX, count);
        return;
    }
    t->files = arena_alloc(t->arena, (count + 1) * sizeof *t->files);
    for (size_t i = 0; t->files && i < count && !f->failed; i++) {
        const json_t *file = json_array_get(list, i);
        const char *path = fields_path(f, "input_extra[%zu]", i);
        if (json_is_object(file))
            t->files[t->file_count++] = extra_read(t, file, path);
        else
            fields_fail(f, HTTP_INVALID_TYPE, path, "must be an object");
    }
    if (!t->files)
        fields_fail(f, HTTP_TOO_LARGE, "input_extra", "is too large");
}

static struct token_span required_text(struct infill_texts *t, const char *name)
{
    struct fields *f = &t->r->g.call.fields;
    fields_get_required(f, name);
    return text_tokens(t, name, fields_string(f, name));
}

static void texts_read(struct infill_texts *t)
{
    struct fields *f = &t->r->g.call.fields;
    before_read(t);
    t->prefix = required_text(t, "input_prefix");
    t->suffix = required_text(t, "input_suffix");
    t->line = text_tokens(t, "prompt", fields_string(f, "prompt"));
    extras_read(t);
}

static struct token_span span_tail(struct token_span span, uint32_t most)
{
    return span.count <= most ? span : (struct token_span){span.at + span.count - most, most};
}

// Cuts the texts to `most` tokens: the suffix keeps a quarter of them if the prefix needs the rest.
// Returns the number of tokens left.
static uint32_t texts_cut(struct infill_texts *t, uint32_t most)
{
    uint32_t all = t->prefix.count + t->suffix.count + t->line.count;
    t->line = span_tail(t->line, most);
    uint32_t left = most - t->line.count, quarter = left / 4;
    uint32_t after = left - smaller(left, t->prefix.count); // tokens that the prefix leaves
    t->suffix.count = smaller(t->suffix.count, after > quarter ? after : quarter);
    t->prefix = span_tail(t->prefix, left - t->suffix.count);
    uint32_t kept = t->prefix.count + t->suffix.count + t->line.count;
    t->r->truncated = kept < all;
    return most - kept;
}

static uint32_t span_put(int32_t *out, struct token_span span)
{
    for (uint32_t i = 0; i < span.count; i++)
        out[i] = span.at[i];
    return span.count;
}

// Writes what precedes the texts: the tokenizer's special tokens, then as many of the last files as
// fit into `most` tokens. Returns the number of tokens.
static uint32_t head_put(struct infill_texts *t, uint32_t most, int32_t *out)
{
    struct token_span repo = {NULL, 0}, name = {NULL, 0};
    uint32_t count = span_put(out, t->before);
    if (t->marks.repo >= 0 && t->file_count > 0)
        repo = text_tokens(t, "input_extra", text_of("repository\n"));
    if (t->marks.file >= 0 && t->file_count > 0)
        name = text_tokens(t, "input_extra", text_of("current\n"));
    uint32_t first = t->file_count, frame = repo.count + name.count + 2;
    while (first > 0 && frame + t->files[first - 1].count + 1 <= most)
        most -= t->files[--first].count + 1;
    t->r->truncated = t->r->truncated || first > 0;
    if (first == t->file_count)
        return count;
    if (t->marks.repo >= 0) {
        out[count++] = t->marks.repo;
        count += span_put(out + count, repo);
    }
    for (; first < t->file_count; first++) {
        if (t->marks.file >= 0)
            out[count++] = t->marks.file;
        count += span_put(out + count, t->files[first]);
    }
    if (t->marks.file >= 0) {
        out[count++] = t->marks.file;
        count += span_put(out + count, name);
    }
    return count;
}

// Writes the prompt into the scratch arena of the exchange. predict: tokens of the answer, 0 if
// they are not limited.
static void prompt_put(struct infill_texts *t, uint32_t predict)
{
    struct generation *g = &t->r->g;
    uint32_t window = g->call.model->facts->max_model_len;
    uint32_t reserve = smaller(predict > 0 ? predict : RESERVE_TOKENS, window / 4) + 1;
    uint32_t fixed = reserve + t->before.count + INFILL_MARKS_MAX;
    if (window <= fixed + 4) {
        fields_fail_plain(&g->call.fields, HTTP_INVALID_VALUE, NULL,
                          "the context window of %u tokens is too small for /infill", window);
        return;
    }
    uint32_t left = texts_cut(t, window - fixed);
    struct arena *scratch = exchange_scratch(g->call.exchange);
    int32_t *head = arena_alloc(t->arena, window * sizeof *head);
    int32_t *out = arena_alloc(scratch, window * sizeof *out);
    if (!head || !out) {
        fields_fail(&g->call.fields, HTTP_TOO_LARGE, "input_prefix", "is too large");
        return;
    }
    uint32_t before = head_put(t, left, head);
    uint32_t count = before + span_put(head + before, t->prefix);
    count += span_put(head + count, t->line);
    const struct infill_text both = {head, t->suffix.at, before, count - before, t->suffix.count};
    g->prompt.tokens = out;
    g->prompt.token_count = infill_join(&t->marks, &both, out);
}

// Reads n_predict, or max_tokens: -1 means all that the context leaves.
static int64_t predict_read(struct infill_request *r)
{
    struct fields *f = &r->g.call.fields;
    if (!fields_get(f, "n_predict"))
        return fields_integer(f, "max_tokens", (struct integer_range){1, INT64_MAX, -1});
    return fields_integer(f, "n_predict", (struct integer_range){-1, INT64_MAX, -1});
}

static void infill_read(struct infill_request *r, struct arena *arena)
{
    struct generation *g = &r->g;
    struct fields *f = &g->call.fields;
    struct infill_texts t = {.r = r, .arena = arena};
    int32_t ends[INFILL_ENDS_MAX];
    if (!call_model(&g->call, MODEL_GENERATOR, &infill_rules))
        return;
    if (!infill_find(&t.marks, g->call.model->tokenizer)) {
        fields_fail_plain(f, HTTP_UNSUPPORTED_VALUE, NULL,
                          "the vocabulary of '%s' has no fill-in-the-middle tokens, so it cannot "
                          "fill in text; use /v1/completions",
                          g->call.model->id);
        return;
    }
    int64_t predict = predict_read(r);
    r->nothing = predict == 0;
    uint32_t most = predict <= 0 ? 0 : (uint32_t)(predict < UINT32_MAX ? predict : UINT32_MAX);
    decoding_read(g, most);
    if (fields_integer(f, "seed", (struct integer_range){INT64_MIN, INT64_MAX, 0}) == -1)
        g->submit.sampling.seed = random_seed(); // llama-server's default
    if (!f->failed)
        texts_read(&t);
    if (!f->failed)
        decoding_add_stops(g, ends, infill_ends(&t.marks, g->call.model->tokenizer, ends));
    if (!f->failed)
        prompt_put(&t, most);
    if (f->failed)
        return;
    uint32_t left = g->call.model->facts->max_model_len - g->prompt.token_count;
    g->options.window_bound = most == 0 || most > left;
    g->submit.max_tokens = r->nothing ? 1 : g->options.window_bound ? left : most;
    g->options.continues = true;
    g->options.reply.has_text_grammar = tools_form_text(g);
}

// Writing

static const char *stop_type(const struct choice *c)
{
    return choice_limited(c) ? "limit" : c->end == END_STOP_STRING ? "word" : "eos";
}

static void event_begin(const struct generation *g, struct text content, bool stop,
                        struct json_buffer *out)
{
    const struct infill_request *r = (const struct infill_request *)g;
    json_put_member(out, "{\"index\":0,\"content\":", content);
    json_put_format(out,
                    ",\"tokens\":[],\"id_slot\":-1,\"stop\":%s,\"tokens_predicted\":%u,"
                    "\"tokens_evaluated\":%u",
                    stop ? "true" : "false", r->nothing ? 0 : generation_output(g),
                    g->prompt.token_count);
}

static void event_end(const struct generation *g, struct json_buffer *out)
{
    const struct infill_request *r = (const struct infill_request *)g;
    const struct choice *c = &g->choices[0];
    const struct stop_strings *stops = &g->options.stops;
    json_put_member(out, ",\"model\":", text_of(g->call.model->id));
    json_put_format(out, ",\"stop_type\":\"%s\"", stop_type(c));
    json_put_member(out, ",\"stopping_word\":",
                    c->end == END_STOP_STRING ? stops->strings[c->scan.which] : text_of(""));
    json_put_format(out, ",\"tokens_cached\":%u,\"truncated\":%s", g->cached_tokens,
                    r->truncated ? "true" : "false");
}

static enum stream_step infill_put(struct generation *g, enum stream_step step,
                                   struct json_buffer *out)
{
    const struct infill_request *r = (const struct infill_request *)g;
    const struct choice *c = &g->choices[0];
    switch (step) {
    case STEP_CALLBACK:
    case STEP_PART:
    case STEP_END:
        break;
    case STEP_BEGIN:
        if (generation_output(g) == 0)
            openai_step_put(g, STEP_KEEPALIVE, out);
        break;
    case STEP_PIECE:
        if (r->nothing)
            break;
        json_put_literal(out, "data: ");
        event_begin(g, choice_piece(c).text, false, out);
        json_put_literal(out, "}\n\n");
        break;
    case STEP_CHOICE:
    case STEP_ANSWER:
        json_put_literal(out, step == STEP_CHOICE ? "data: " : "");
        event_begin(g,
                    r->nothing || step == STEP_CHOICE ? text_of("")
                                                      : text_span(c->text.at, c->text.bytes),
                    true, out);
        event_end(g, out);
        json_put_literal(out, step == STEP_CHOICE ? "}\n\n" : "}");
        break;
    case STEP_KEEPALIVE:
    case STEP_FAILURE:
        openai_step_put(g, step, out);
        break;
    }
    return step;
}

// Callbacks of the route, in the order in which they run

static void infill_prepare(struct exchange *x)
{
    struct generation *g = generation_open_in(x, sizeof(struct infill_request));
    struct arena *arena = arena_create(0, scratch_bytes_max(g->call.info->body.bytes));
    g->prompt.field = "input_prefix";
    infill_read((struct infill_request *)g, arena);
    arena_destroy(arena);
    generation_prepared(g);
}

static void infill_submit(struct exchange *x)
{
    struct generation *g = exchange_state(x);
    generation_submit(g, generation_begin(g, "infill-"));
}

static void infill_answer(struct exchange *x)
{
    generation_answer(exchange_state(x), generation_next, infill_put);
}

const struct route infill_routes[] = {
    JSON_ROUTE("/infill", SHAPE_OPENAI, ROUTE_BEARER, BODY_INLINE_BYTES_MAX,
               .on_prepare = infill_prepare, .on_request = infill_submit,
               GENERATION_CALLS(infill_answer)),
    {.path = NULL},
};
