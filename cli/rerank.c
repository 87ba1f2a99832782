// SPDX-License-Identifier: Apache-2.0
// weft rerank: reads one document per line and writes {"index":i,"relevance_score":x} for each.
// Main thread.
#include "cli/command.h"
#include "runtime/text/rerank.h"

#include <string.h>

struct rerank_settings {
    const char *query;
    uint32_t top_n;
    bool raw_scores;
};

#define AT(field) offsetof(struct rerank_settings, field)
static const struct option_row rows[] = {
    OPTION_ROW("query", OPTION_TEXT, AT(query), "required",
               "text that the documents are compared with"),
    OPTION_NUMBER("top-n", OPTION_COUNT, AT(top_n), 1, 1e9, "all, in input order",
                  "print only the best N documents, sorted by score"),
    OPTION_ROW("raw-scores", OPTION_FLAG, AT(raw_scores), "off",
               "print logits instead of scores from 0 to 1"),
};

struct scores {
    struct rerank_score *at;
    uint32_t count;
};

static enum status score_line(struct session *session, const struct rerank_prompt *prompt,
                              struct text line, struct arena *arena, float *out, struct error *err)
{
    struct rerank_input input;
    enum status status = rerank_prompt_encode(prompt, line, arena, &input, err);
    if (status != STATUS_OK)
        return status;
    uint32_t start[2] = {0, input.token_count};
    struct submit_args submit = {.kind = REQUEST_SCORE,
                                 .tokens = input.tokens,
                                 .token_count = input.token_count,
                                 .sequence_count = 1,
                                 .sequence_start = start,
                                 .type_from = &input.type_from,
                                 .choice_count = 1};
    struct request *request;
    status = session_pool(session, &submit, 1, &request, err);
    if (status != STATUS_OK)
        return status;
    *out = request_values(request, 0)[0];
    port_free(session->port, request);
    return STATUS_OK;
}

static void score_print(struct rerank_score s)
{
    struct json_buffer b = {0};
    json_put_format(&b, "{\"index\":%u,\"relevance_score\":", s.index);
    json_put_float(&b, s.score);
    json_put_literal(&b, "}\n");
    fwrite(b.at, 1, b.bytes, stdout);
    json_buffer_free(&b);
}

static enum status score_all(struct session *session, const struct rerank_settings *s,
                             const struct rerank_prompt *prompt, struct scores *out,
                             struct error *err)
{
    enum status status = STATUS_OK;
    struct line_reader reader = {0};
    struct arena *arena = arena_create(0, 0);
    struct text line;
    for (uint32_t i = 0; status == STATUS_OK && line_next(&reader, &line); i++) {
        arena_reset(arena);
        float logit = 0;
        status = text_check("the document", line, err);
        if (status == STATUS_OK)
            status = score_line(session, prompt, line, arena, &logit, err);
        if (status != STATUS_OK) {
            error_prefix(err, "line %u", i + 1);
            break;
        }
        struct rerank_score scored = rerank_score_of(i, logit, s->raw_scores);
        if (s->top_n == 0) {
            score_print(scored);
            status = output_flush(err);
        }
        out->at = heap_grow(out->at, (out->count + 1) * sizeof *out->at);
        out->at[out->count++] = scored;
    }
    arena_destroy(arena);
    return line_reader_end(&reader, status, err);
}

static enum status documents_rank(struct session *session, void *settings, struct error *err)
{
    const struct rerank_settings *s = settings;
    const struct model_facts *facts = engine_facts(session->model->engine);
    struct rerank_args args = {.tokenizer = session->model->tokenizer,
                               .form = facts->rerank,
                               .query = text_of(s->query),
                               .tokens_max = facts->max_model_len,
                               .arena = session->loaded.arena};
    struct rerank_prompt *prompt;
    enum status status = rerank_prompt_make(&prompt, &args, err);
    struct scores scores = {0};
    if (status == STATUS_OK)
        status = score_all(session, s, prompt, &scores, err);
    if (status == STATUS_OK && s->top_n > 0 && scores.count > 0) {
        rerank_scores_sort(scores.at, scores.count);
        for (uint32_t i = 0; i < scores.count && i < s->top_n; i++)
            score_print(scores.at[i]);
    }
    heap_free(scores.at);
    return status;
}

static enum status query_check(const void *settings, struct error *err)
{
    const struct rerank_settings *s = settings;
    return text_check("--query", text_of(s->query), err);
}

int command_rerank(const struct command *self, int argc, char **argv)
{
    struct rerank_settings s = {0};
    struct session_command command = {.self = self,
                                      .argc = argc,
                                      .argv = argv,
                                      .own = {rows, sizeof rows / sizeof *rows},
                                      .own_title = "Reranking:",
                                      .settings = &s,
                                      .required = &s.query,
                                      .required_name = "query",
                                      .required_filled = true,
                                      .kind = MODEL_RERANKER,
                                      .settings_check = query_check,
                                      .body = documents_rank};
    return session_command_run(&command);
}
