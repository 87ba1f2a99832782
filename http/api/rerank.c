// SPDX-License-Identifier: Apache-2.0
// POST /v1/rerank: fields, inputs, sorted answer (docs/API.md). runtime/text/rerank.c makes the
// model's input from a query and a document.
#include "http/api/endpoints.h"
#include "http/ids.h"
#include "http/api/pieces.h"
#include "http/api/inputs.h"

#include "http/counters.h"
#include "runtime/text/rerank.h"

#include <math.h>

enum {
    INLINE_BYTES_MAX = 1024,    // small, because the query is tokenized again with each document
    QUERY_BYTES_PER_TOKEN = 16, // limit per token of the window: text without tokens costs time too
    INLINE_TEXT_MAX = 32 * 1024, // returned bytes; a worker writes longer answers
};

static const struct field_rule rerank_rows[] = {
    FIELD_READ_BY("model"),
    FIELD_READ_BY("query"),
    FIELD_READ_BY("documents"),
    FIELD_READ_BY("texts"),
    FIELD_READ_BY("top_n"),
    FIELD_READ_BY("top_k"),
    FIELD_READ_BY("return_documents"),
    FIELD_READ_BY("return_text"),
    FIELD_READ_BY("instruction"),
    FIELD_READ_BY("instruct"),
    FIELD_READ_BY("max_tokens_per_doc"),
    FIELD_READ_BY("truncate"),
    FIELD_READ_BY("truncation"),
    FIELD_READ_BY("truncate_prompt_tokens"),
    FIELD_READ_BY("truncation_direction"),
    FIELD_READ_BY("truncation_side"),
    FIELD_READ_BY("raw_scores"),
    FIELD_READ_BY("use_activation"),
    FIELD_READ_BY("activation"),

    FIELD_HARMLESS("user", "s"),
    FIELD_HARMLESS("metadata", "o"),
    FIELD_HARMLESS("max_chunks_per_doc", "i"),
    FIELD_HARMLESS("priority", "i"),

    FIELD_NOT_SERVED("rank_fields", "a", "[[\"text\"]]"),
    FIELD_NOT_SERVED_BUT("softmax", "b", "[false]", "use raw_scores"),
};
static const struct field_rules rerank_rules = FIELD_RULES(rerank_rows, NULL);

struct rerank {
    struct pooled pooled;
    bool texts;        // true if body and answer have the form of text-embeddings-inference
    const char *field; // name of the field with the documents
    struct text instruction;
    json_t *documents; // array of their texts if the answer returns them, else NULL
    size_t document_bytes;
    uint32_t count, top_n;
    bool return_documents, raw_scores, truncate, left;
    uint32_t document_tokens_max; // maximum tokens of a document; 0: what fits
    uint32_t tokens_max;          // maximum tokens of query and document together
    struct token_list list;
    uint32_t *type_from;         // [count] first token of type 1
    struct rerank_score *ranked; // [count], sorted by score
    struct pieces answer;
};

// Reading

static struct text document_text(const json_t *document)
{
    return json_text(json_is_object(document) ? json_object_get(document, "text") : document);
}

static void documents_check(struct rerank *r, const json_t *documents)
{
    struct fields *f = &r->pooled.call.fields;
    size_t n = json_array_size(documents), i;
    json_t *document;
    if (!json_is_array(documents)) {
        fields_fail(f, HTTP_INVALID_TYPE, r->field, "must be an array of strings");
    } else if (n == 0) {
        fields_fail(f, HTTP_INVALID_VALUE, r->field, "must not be empty");
    } else if (n > r->pooled.call.model->inputs_max) {
        fields_fail(f, HTTP_INVALID_VALUE, r->field, "must hold at most %u documents, got %zu",
                    r->pooled.call.model->inputs_max, n);
    }
    json_array_foreach(documents, i, document)
    {
        struct text text = document_text(document);
        if (f->failed)
            return;
        if (!text.at) {
            const char *member = json_is_object(document) ? ".text" : "";
            fields_fail(f, HTTP_INVALID_TYPE, fields_path(f, "%s[%zu]%s", r->field, i, member),
                        "must be a string");
        }
        r->document_bytes += text.bytes;
    }
    r->count = (uint32_t)n;
}

static void input_fail(struct rerank *r, enum status status, const char *path,
                       const struct error *err)
{
    struct fields *f = &r->pooled.call.fields;
    if (status == STATUS_TOO_LARGE)
        fields_fail_plain(f, HTTP_INVALID_VALUE, path, "%s", err->text);
    else
        fields_fail(f, HTTP_TOO_LARGE, path, "is too large: %s", err->text);
}

static void document_add(struct rerank *r, const struct rerank_prompt *prompt, uint32_t i,
                         const json_t *document, struct arena *arena)
{
    struct fields *f = &r->pooled.call.fields;
    struct rerank_input input;
    struct error err;
    const char *path = fields_path(f, "%s[%u]", r->field, i);
    arena_reset(arena);
    enum status status = rerank_prompt_encode(prompt, document_text(document), arena, &input, &err);
    if (status != STATUS_OK) {
        input_fail(r, status, path, &err);
    } else if (input.truncated && !r->truncate) {
        uint32_t window = r->pooled.call.model->facts->max_model_len;
        fields_fail(f, HTTP_CONTEXT_LENGTH, path,
                    "is too long: with the query it has %s%u tokens, %u fit",
                    input.stopped ? "more than " : "", input.count_before_truncation, window);
        f->failure.prompt_tokens = input.count_before_truncation + input.stopped;
        f->failure.tokens_more = input.stopped;
        f->failure.context_tokens = window;
    } else if (input.token_count == 0) {
        fields_fail(f, HTTP_INVALID_VALUE, path, "has no tokens, and neither has the query");
    } else if (!token_list_add(&r->list, input.tokens, input.token_count)) {
        fields_fail(f, HTTP_TOO_LARGE, r->field, "are too large");
    } else if (r->list.count > r->pooled.call.model->max_queued_tokens) {
        fields_fail_plain(f, HTTP_INVALID_VALUE, r->field,
                          "the first %u documents have %zu tokens with the query, more than "
                          "max-queued-tokens (%u) allows",
                          i + 1, r->list.count, r->pooled.call.model->max_queued_tokens);
    } else {
        r->type_from[i] = input.type_from < input.token_count ? input.type_from : TYPE_FROM_NONE;
    }
}

static void inputs_make(struct rerank *r, struct text query, const json_t *documents)
{
    struct body_call *call = &r->pooled.call;
    const struct model_facts *facts = call->model->facts;
    struct rerank_prompt *prompt;
    struct error err;
    size_t i;
    json_t *document;
    struct rerank_args args = {
        .tokenizer = call->model->tokenizer,
        .form = facts->rerank,
        .query = query,
        .instruction = r->instruction,
        .tokens_max = r->tokens_max,
        .truncate_left = r->left,
        .document_tokens_max = r->document_tokens_max,
        .stop_at_limit = !r->truncate &&
                         (r->document_tokens_max == 0 || r->document_tokens_max >= r->tokens_max),
        .arena = exchange_scratch(call->exchange),
        .slice = call->slice,
    };
    enum status status = rerank_prompt_make(&prompt, &args, &err);
    if (status != STATUS_OK) {
        input_fail(r, status, "query", &err);
        return;
    }
    r->type_from = arena_alloc(args.arena, r->count * sizeof r->type_from[0]);
    if (!r->type_from || !token_list_begin(&r->list, args.arena, r->count)) {
        fields_fail(&call->fields, HTTP_TOO_LARGE, r->field, "are too large");
        return;
    }
    struct arena *arena = arena_create(0, scratch_bytes_max(call->info->body.bytes));
    json_array_foreach(documents, i, document)
    {
        if (!call->fields.failed)
            document_add(r, prompt, (uint32_t)i, document, arena);
    }
    arena_destroy(arena);
}

// Keeps only the texts, because other members of a document may have any size.
static void documents_keep(struct rerank *r, const json_t *documents)
{
    size_t i;
    json_t *document;
    r->documents = json_array();
    json_array_foreach(documents, i, document)
    {
        json_t *text = json_is_object(document) ? json_object_get(document, "text") : document;
        json_array_append(r->documents, text);
    }
}

// Limits a text that is tokenized again with each document.
static void bytes_check(struct rerank *r, const char *name, struct text text)
{
    struct fields *f = &r->pooled.call.fields;
    uint64_t most = (uint64_t)r->pooled.call.model->facts->max_model_len * QUERY_BYTES_PER_TOKEN;
    if (!f->failed && text.bytes > most)
        fields_fail(f, HTTP_INVALID_VALUE, name, "must be at most %llu bytes long, got %zu",
                    (unsigned long long)most, text.bytes);
}

static struct text query_read(struct rerank *r)
{
    struct fields *f = &r->pooled.call.fields;
    fields_get_required(f, "query");
    struct text query = fields_string(f, "query");
    if (!f->failed && query.bytes == 0)
        fields_fail(f, HTTP_INVALID_VALUE, "query", "must not be empty");
    bytes_check(r, "query", query);
    return query;
}

static void instruction_read(struct rerank *r)
{
    struct fields *f = &r->pooled.call.fields;
    const char *name = fields_get(f, "instruct") ? "instruct" : "instruction";
    pooled_alias(f, "instruction", "instruct");
    r->instruction = fields_string(f, name);
    bytes_check(r, name, r->instruction);
    if (r->instruction.at && r->pooled.call.model->facts->rerank == RERANK_PAIR)
        fields_fail(f, HTTP_UNSUPPORTED_PARAMETER, name,
                    "must be absent: this model reads only query and document");
}

static void truncate_read(struct rerank *r)
{
    struct fields *f = &r->pooled.call.fields;
    bool cut = !r->texts || fields_get(f, "truncate_prompt_tokens");
    r->truncate = pooled_flag(f, "truncate", "truncation", cut);
    r->tokens_max = pooled_truncate(&r->pooled, r->truncate);
    r->left = pooled_cuts_left(f);
    r->document_tokens_max = fields_count(f, "max_tokens_per_doc", 0);
}

// Reads whether scores are the model's logits: raw_scores, or an activation that is turned off.
static void scores_read(struct rerank *r)
{
    struct fields *f = &r->pooled.call.fields;
    pooled_alias(f, "raw_scores", "use_activation");
    pooled_alias(f, "raw_scores", "activation");
    bool activated = pooled_flag(f, "use_activation", "activation", true);
    r->raw_scores = fields_bool(f, "raw_scores", !activated);
}

// Finds the model and the form of the body: `texts` is that of text-embeddings-inference.
static bool model_read(struct rerank *r)
{
    struct body_call *call = &r->pooled.call;
    r->texts = fields_get(&call->fields, "texts") && !fields_get(&call->fields, "documents");
    r->field = r->texts ? "texts" : "documents";
    bool found = call_model(call, MODEL_RERANKER, &rerank_rules);
    if (found && !r->texts && fields_get(&call->fields, "texts"))
        fields_fail(&call->fields, HTTP_INVALID_VALUE, "texts",
                    "cannot be given together with documents");
    return found;
}

static void rerank_read(struct rerank *r)
{
    struct fields *f = &r->pooled.call.fields;
    if (!model_read(r))
        return;
    struct text query = query_read(r);
    instruction_read(r);
    const json_t *documents = fields_get_required(f, r->field);
    if (!f->failed)
        documents_check(r, documents);
    pooled_alias(f, "top_n", "top_k");
    uint32_t top_n = fields_count(f, "top_n", fields_count(f, "top_k", 0));
    r->return_documents = pooled_flag(f, "return_documents", "return_text", false);
    scores_read(r);
    truncate_read(r);
    r->top_n = top_n == 0 || top_n > r->count ? r->count : top_n;
    if (f->failed)
        return;
    inputs_make(r, query, documents);
    if (r->return_documents && !f->failed)
        documents_keep(r, documents);
}

static void rerank_prepare(struct exchange *x)
{
    struct rerank *r = call_begin(x, sizeof *r);
    rerank_read(r);
    call_body_end(&r->pooled.call);
}

static void rerank_request(struct exchange *x)
{
    struct rerank *r = exchange_state(x);
    struct submit_args args = {
        .kind = REQUEST_SCORE,
        .tokens = r->list.tokens,
        .token_count = (uint32_t)r->list.count,
        .sequence_count = r->count,
        .sequence_start = r->list.starts,
    };
    if (!call_failed(&r->pooled.call)) {
        args.type_from = r->pooled.call.model->facts->token_types ? r->type_from : NULL;
        pooled_submit(&r->pooled, &args, r->field);
    }
    if (!r->pooled.request) { // a failure was sent
        json_decref(r->documents);
        r->documents = NULL;
    }
}

// Writing

// Copies the scores and sorts them. Returns false if one is not finite.
static bool scores_copy(struct rerank *r)
{
    bool finite = true;
    for (uint32_t i = 0; i < r->count; i++) {
        float logit = *request_values(r->pooled.request, i);
        r->ranked[i] = rerank_score_of(i, logit, r->raw_scores);
        finite = finite && isfinite(r->ranked[i].score) && isfinite(logit);
    }
    if (finite)
        rerank_scores_sort(r->ranked, r->count);
    return finite;
}

// Writes one result. Returns false if the client has left.
static bool result_put(struct rerank *r, struct exchange *x, uint32_t place)
{
    struct json_buffer *out = &r->answer.out;
    const struct rerank_score *ranked = &r->ranked[place];
    size_t before = out->bytes;
    json_put_format(out, "%s{\"index\":%u,\"%s\":", place > 0 ? "," : "", ranked->index,
                    r->texts ? "score" : "relevance_score");
    json_put_float(out, ranked->score);
    if (r->documents) {
        json_put_member(out, r->texts ? ",\"text\":" : ",\"document\":{\"text\":",
                        json_text(json_array_get(r->documents, ranked->index)));
        json_put_literal(out, r->texts ? "" : "}");
    }
    json_put_literal(out, "}");
    return !r->documents || slice_spend(exchange_slice(x), out->bytes - before);
}

static void answer_write(struct exchange *x)
{
    struct rerank *r = exchange_state(x);
    struct json_buffer *out = &r->answer.out;
    uint32_t tokens = r->pooled.prompt_tokens;
    if (!r->texts) {
        json_put_member(out, "{\"id\":", id_make(exchange_arena(x), "rerank-"));
        json_put_member(out, ",\"object\":\"list\",\"model\":", text_of(r->pooled.call.model->id));
        json_put_literal(out, ",\"results\":");
    }
    json_put_literal(out, "[");
    for (uint32_t i = 0; i < r->top_n; i++)
        if (!result_put(r, x, i))
            return;
    json_put_literal(out, "]");
    if (!r->texts)
        json_put_format(out,
                        ",\"usage\":{\"prompt_tokens\":%u,\"total_tokens\":%u},"
                        "\"meta\":{\"billed_units\":{\"search_units\":1},"
                        "\"tokens\":{\"input_tokens\":%u}}}",
                        tokens, tokens, tokens);
}

static void rerank_close(struct rerank *r)
{
    json_decref(r->documents);
    r->documents = NULL;
    pieces_free(&r->answer);
}

static void answer_begin(struct exchange *x)
{
    struct rerank *r = exchange_state(x);
    if (!exchange_gone(x)) {
        pieces_send(x, &r->answer);
        json_decref(r->documents); // there may be no further callback
        r->documents = NULL;
    }
}

static void rerank_ready(struct exchange *x)
{
    struct rerank *r = exchange_state(x);
    if (!pooled_done(&r->pooled)) {
        if (!r->pooled.request) // a failure was sent: there is no further callback
            rerank_close(r);
        return;
    }
    r->ranked = arena_alloc(exchange_arena(x), r->count * sizeof r->ranked[0]);
    bool copied = r->ranked && scores_copy(r);
    pooled_close(&r->pooled);
    if (!copied) {
        call_fail(&r->pooled.call, HTTP_INTERNAL_SAME,
                  "the model computed a score that is not finite");
        rerank_close(r);
    } else if (r->documents && r->document_bytes > INLINE_TEXT_MAX) {
        exchange_offload(x, (struct offload){.work = answer_write,
                                             .done = answer_begin,
                                             .answers = true,
                                             .bytes = r->document_bytes});
    } else {
        answer_write(x);
        answer_begin(x);
    }
}

static void rerank_send_space(struct exchange *x)
{
    struct rerank *r = exchange_state(x);
    if (r)
        pieces_continue(x, &r->answer);
}

static void rerank_gone(struct exchange *x)
{
    struct rerank *r = exchange_state(x);
    if (r) {
        pooled_gone(&r->pooled);
        rerank_close(r);
    }
}

#define RERANK_ROUTE(route_path)                                                                   \
    JSON_ROUTE(route_path, SHAPE_OPENAI, ROUTE_BEARER, INLINE_BYTES_MAX,                           \
               .on_prepare = rerank_prepare, .on_request = rerank_request,                         \
               .on_ready = rerank_ready, .on_send_space = rerank_send_space,                       \
               .on_gone = rerank_gone)

// Cohere clients whose base URL ends in /v1 or /v2 append one of the two again.
const struct route rerank_routes[] = {
    RERANK_ROUTE("/v1/rerank"),    RERANK_ROUTE("/v2/rerank"),
    RERANK_ROUTE("/rerank"),       RERANK_ROUTE("/v1/v1/rerank"),
    RERANK_ROUTE("/v1/v2/rerank"), RERANK_ROUTE("/v2/v1/rerank"),
    RERANK_ROUTE("/v2/v2/rerank"), {.path = NULL},
};
