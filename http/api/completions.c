// SPDX-License-Identifier: Apache-2.0
// POST /v1/completions: prompts without a chat template; fields and answers (docs/API.md).
// decoding.c reads the decoding fields, inputs.c the prompts.
#include "base/number.h"
#include "http/api/decoding.h"
#include "http/api/endpoints.h"
#include "http/api/inputs.h"
#include "http/api/shapes.h"
#include "http/api/tools.h"

enum {
    TOKENS_DEFAULT = 16,
    ECHO_BYTES_MAX = 4 * 1024 * 1024, // echoed bytes of a non-streamed answer
};

static const struct field_rule completions_rows[] = {
    FIELD_READ_BY("prompt"),
    FIELD_READ_BY("echo"),
    FIELD_READ_BY("logprobs"),
    FIELD_READ_BY("add_special_tokens"),
    FIELD_READ_BY("suffix"),

    FIELD_NOT_SERVED("thinking_token_budget", "i", "[-1]"),
    FIELD_NOT_SERVED("thinking_budget_tokens", "i", "[-1]"),
    FIELD_NOT_SERVED("thinking_budget", "i", "[-1]"),
    FIELD_NOT_SERVED("enable_thinking", "b", NULL), // completions use no chat template
    FIELD_NOT_SERVED("include_reasoning", "b", "[true]"),
    FIELD_NOT_SERVED_BUT("messages", "a", NULL, "use /v1/chat/completions"),
    FIELD_NOT_SERVED_BUT("tools", "a", "[[]]", "use /v1/chat/completions"),
    FIELD_NOT_SERVED_BUT("max_completion_tokens", "i", NULL, "use max_tokens"),
    FIELD_NOT_SERVED_BUT("top_logprobs", "i", "[0]", "use logprobs"),
    FIELD_NOT_SERVED_BUT("stop_sequences", "a", "[[]]", "use stop"),
};
static const struct field_rules completions_rules = FIELD_RULES(completions_rows, &decoding_rules);

// Reading

static void logprobs_read(struct generation *g, bool echo)
{
    struct fields *f = &g->call.fields;
    int64_t top = fields_integer(f, "logprobs", (struct integer_range){0, TOP_LOGPROBS_MAX, -1});
    if (top >= 0 && echo) {
        fields_fail(f, HTTP_UNSUPPORTED_VALUE, "logprobs",
                    "must be absent if echo is true: log probabilities of a prompt are not "
                    "computed");
    }
    g->options.logprobs = g->submit.sampling.logprob = top >= 0;
    g->options.top_logprobs = g->submit.sampling.top_logprobs = top > 0 ? (uint32_t)top : 0;
}

// Returns the text of a prompt that was given as token ids. On failure, fails the fields and
// returns a text whose at is NULL.
static struct text ids_text(struct generation *g, uint32_t prompt)
{
    struct decode_args args = {
        .tokens = g->prompt.tokens + g->prompt.starts[prompt],
        .count = g->prompt.starts[prompt + 1] - g->prompt.starts[prompt],
        .skip_special = !g->options.special_shown,
        .arena = exchange_arena(g->call.exchange),
    };
    struct text text;
    struct error err;
    if (tokenizer_decode(g->call.model->tokenizer, &args, &text, &err) == STATUS_OK)
        return text;
    fields_fail(&g->call.fields, HTTP_TOO_LARGE, "prompt", "cannot be echoed: %s", err.text);
    return (struct text){0};
}

static void echoes_make(struct generation *g, const json_t *prompt)
{
    struct arena *arena = exchange_arena(g->call.exchange);
    uint32_t count = g->submit.sequence_count;
    bool filled =
        (g->prompt.echoes = arena_alloc_zeroed(arena, count, sizeof *g->prompt.echoes)) != NULL;
    for (uint32_t i = 0; filled && i < count; i++) {
        struct text text = json_text(json_is_array(prompt) ? json_array_get(prompt, i) : prompt);
        g->prompt.echoes[i] =
            text.at && g->prompt.keep == 0 ? arena_copy(arena, text) : ids_text(g, i);
        filled = g->prompt.echoes[i].at != NULL;
    }
    if (!filled)
        fields_fail(&g->call.fields, HTTP_TOO_LARGE, "prompt", "is too large to be echoed");
    size_t bytes = 0;
    for (uint32_t i = 0; filled && i < count; i++)
        bytes += g->prompt.echoes[i].bytes * g->submit.choice_count;
    if (bytes > ECHO_BYTES_MAX && !g->stream)
        fields_fail(&g->call.fields, HTTP_INVALID_VALUE, "echo",
                    "must be false if the echoed prompts exceed %d bytes; or use stream",
                    ECHO_BYTES_MAX);
}

// Reads the field `suffix`; an empty one is none.
static void suffix_read(struct generation *g, struct inputs *prompts, struct infill_marks *marks)
{
    struct fields *f = &g->call.fields;
    prompts->suffix = fields_get(f, "suffix") ? fields_string(f, "suffix") : (struct text){0};
    if (prompts->suffix.bytes == 0)
        return;
    const struct tokenizer *tokenizer = g->call.model->tokenizer;
    if (!infill_find(marks, tokenizer)) {
        fields_fail(f, HTTP_UNSUPPORTED_VALUE, "suffix",
                    "must be absent: the vocabulary of the model has no fill-in-the-middle tokens");
        return;
    }
    int32_t ends[INFILL_ENDS_MAX];
    prompts->infill = marks;
    decoding_add_stops(g, ends, infill_ends(marks, tokenizer, ends));
}

static void completions_read(struct generation *g)
{
    struct fields *f = &g->call.fields;
    if (!call_model(&g->call, MODEL_GENERATOR, &completions_rules))
        return;
    const struct served_model *model = g->call.model;
    decoding_read(g, fields_count(f, "max_tokens", decoding_tokens_default(g, TOKENS_DEFAULT)));
    bool echo = fields_bool(f, "echo", false);
    logprobs_read(g, echo);
    struct inputs prompts = {
        .call = &g->call,
        .field = "prompt",
        .count_max = model->choices_max / g->submit.choice_count,
        .token_max = model->facts->max_model_len - 1, // leave space for one generated token
        .special = fields_bool(f, "add_special_tokens", true),
        .last = g->prompt.keep,
    };
    struct infill_marks marks;
    suffix_read(g, &prompts, &marks);
    if (!f->failed)
        inputs_read(&prompts);
    if (f->failed)
        return;
    g->prompt.tokens = prompts.list.tokens;
    g->prompt.starts = prompts.list.starts;
    g->prompt.token_count = (uint32_t)prompts.list.count;
    g->submit.sequence_count = prompts.list.sequence_count;
    g->options.continues = true;
    g->options.reply.has_text_grammar = tools_form_text(g);
    g->submit.max_tokens = smaller(g->submit.max_tokens, model->facts->max_model_len);
    if (echo)
        echoes_make(g, prompts.json);
}

// Writing

static struct text echo_of(const struct generation *g, uint32_t choice)
{
    return g->prompt.echoes ? g->prompt.echoes[choice / g->submit.choice_count] : (struct text){0};
}

// Opens a stream. If there is nothing to write yet, sends a keep-alive; an echoed prompt is sent as
// the first pieces.
static void completions_begin(const struct generation *g, struct json_buffer *out)
{
    if (!g->prompt.echoes && generation_output(g) == 0)
        openai_step_put(g, STEP_KEEPALIVE, out);
}

static void completions_piece(const struct generation *g, struct json_buffer *out)
{
    const struct choice *c = generation_choice(g);
    struct answer_piece piece = choice_piece(c);
    openai_chunk_begin(g, g->next_choice, out);
    json_put_member(out, "\"text\":", piece.text);
    openai_logprobs_put(g, c, piece.entries, logprobs_part_legacy, out);
    json_put_literal(out, ",\"finish_reason\":null");
    openai_chunk_end(g, out);
}

static void completions_choice(const struct generation *g, uint32_t choice, struct json_buffer *out)
{
    const struct choice *c = &g->choices[choice];
    json_put_literal(out, "\"text\":\"");
    json_put_escaped(out, echo_of(g, choice));
    json_put_escaped(out, text_span(c->text.at, c->text.bytes));
    json_put_literal(out, "\"");
}

static enum stream_step completions_put(struct generation *g, enum stream_step step,
                                        struct json_buffer *out)
{
    static const struct openai_shape shape = {
        .object = "text_completion",
        .empty = "\"text\":\"\"",
        .entries = logprobs_part_legacy,
        .begin = completions_begin,
        .piece = completions_piece,
        .choice = completions_choice,
    };
    return openai_put(g, &shape, step, out);
}

// Callbacks of the route, in the order in which they run

static void completions_prepare(struct exchange *x)
{
    struct generation *g = generation_open(x);
    g->prompt.field = "prompt";
    completions_read(g);
    generation_prepared(g);
}

static void completions_request(struct exchange *x)
{
    struct generation *g = exchange_state(x);
    bool begun = generation_begin(g, "cmpl-") && openai_chunk_make(g, "text_completion");
    for (uint32_t i = 0; begun && g->stream && i < g->choice_count; i++)
        generation_echo(g, i, echo_of(g, i));
    generation_submit(g, begun);
}

static void completions_answer(struct exchange *x)
{
    generation_answer(exchange_state(x), generation_next, completions_put);
}

const struct route completions_routes[] = {
    JSON_ROUTE("/v1/completions", SHAPE_OPENAI, ROUTE_BEARER, BODY_INLINE_BYTES_MAX,
               .on_prepare = completions_prepare, .on_request = completions_request,
               GENERATION_CALLS(completions_answer)),
    {.path = NULL},
};
