// SPDX-License-Identifier: Apache-2.0
// Inputs of rerankers; see rerank.h. All forms are [head][document][tail], and only the document is
// truncated.
#include "runtime/text/rerank.h"

#include "base/number.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct rerank_prompt {
    struct rerank_args args;
    const struct rerank_form_facts *form;
    struct text head; // prompts: text before the document, encoded together with it
    int32_t *before;  // [before_count] i32, prompts: tokens before `head`
    int32_t *after;   // [tail_count] i32, prompts: tokens after the document
    uint32_t before_count;
    uint32_t tail_count; // number of tokens after the document
    uint32_t head_count; // number of tokens of `head`, or of a pair before the document
};

static enum status encode_alloc_limited(const struct tokenizer *tokenizer,
                                        const struct encode_args *args, uint32_t most,
                                        int32_t **tokens, uint32_t *count, struct error *err)
{
    size_t bytes = args->text.bytes + (args->pair ? args->pair->bytes : 0);
    uint32_t bound = tokenizer_bound(tokenizer, bytes);
    bound = bound < most ? bound : most;
    *tokens = arena_alloc(args->arena, (size_t)bound * sizeof **tokens);
    if (!*tokens)
        return error_set(err, STATUS_NO_SPACE, "not enough memory for %u tokens", bound);
    return tokenizer_encode(tokenizer, args, *tokens, bound, count, err);
}

static enum status encode_alloc_all(const struct tokenizer *tokenizer,
                                    const struct encode_args *args, int32_t **tokens,
                                    uint32_t *count, struct error *err)
{
    return encode_alloc_limited(tokenizer, args, UINT32_MAX, tokens, count, err);
}

// Returns true if the input is too long and encoding stopped; fills `out` then. fixed_count: tokens
// of the prompt that are not part of `count`.
static bool encoding_has_stopped(const struct rerank_prompt *p, enum status status,
                                 uint32_t fixed_count, uint32_t count, struct rerank_input *out)
{
    uint32_t most = p->args.tokens_max;
    out->stopped = p->args.stop_at_limit && encoding_stopped(status, fixed_count + count, most);
    out->truncated = out->stopped;
    out->count_before_truncation = most;
    return out->stopped;
}

static enum status query_check(const struct rerank_args *args, uint32_t query_tokens,
                               struct error *err)
{
    if (query_tokens > args->tokens_max / 2) {
        return error_set(err, STATUS_TOO_LARGE,
                         "the query has %u tokens, more than half of the %u that one input may "
                         "have",
                         query_tokens, args->tokens_max);
    }
    return STATUS_OK;
}

// Checks the size of the query. For pairs also counts the tokens before and after the document.
static enum status query_measure(struct rerank_prompt *p, struct error *err)
{
    const struct rerank_args *args = &p->args;
    struct text nothing = {"", 0};
    int32_t *tokens;
    uint32_t count, pair_start = 0;
    struct encode_args in = {.text = args->query, .arena = args->arena, .slice = args->slice};
    enum status status = encode_alloc_all(args->tokenizer, &in, &tokens, &count, err);
    if (status == STATUS_OK)
        status = query_check(args, count, err);
    if (status != STATUS_OK || args->form != RERANK_PAIR)
        return status;
    in.pair = &nothing;
    in.flags = ENCODE_SPECIAL;
    in.pair_start = &pair_start;
    status = encode_alloc_all(args->tokenizer, &in, &tokens, &count, err);
    if (status != STATUS_OK)
        return status;
    p->head_count = pair_start;
    p->tail_count = count - pair_start;
    return STATUS_OK;
}

// Appends a piece of the form's prompt to `out`, up to its end or to RERANK_PIECE, with query and
// instruction inserted. Returns the rest of the prompt, or NULL if there is no memory. Text of a
// request may contain NUL bytes, so it is not formatted with printf.
static const char *piece_expand(const struct rerank_prompt *p, struct arena_text *out,
                                const char *at)
{
    struct arena *arena = p->args.arena;
    struct text instruction = p->args.instruction;
    if (instruction.bytes == 0 && p->form->instruction)
        instruction = text_of(p->form->instruction);
    bool fits = true;
    while (fits && *at != '\0' && *at != RERANK_PIECE[0]) {
        size_t bytes = strcspn(at, "{" RERANK_PIECE);
        fits = arena_text_add(arena, out, text_span(at, bytes));
        at += bytes;
        if (*at != '{')
            continue;
        bool line = at[1] == 'l' && instruction.bytes > 0;
        if (line)
            fits = fits && arena_text_add(arena, out, text_of("instruction: "));
        if (line || at[1] == 'i')
            fits = fits && arena_text_add(arena, out, instruction);
        if (line)
            fits = fits && arena_text_add(arena, out, text_of("\n"));
        if (at[1] == 'q')
            fits = fits && arena_text_add(arena, out, p->args.query);
        at += 3;
    }
    return !fits ? NULL : *at == '\0' ? at : at + 1;
}

// Encodes the pieces of a part of the prompt one by one. Special tokens are recognised only in
// pieces without text of the request.
static enum status pieces_encode(const struct rerank_prompt *p, const char *part, int32_t **tokens,
                                 uint32_t *count, struct error *err)
{
    const struct rerank_args *args = &p->args;
    enum status status = STATUS_OK;
    *count = 0;
    while (status == STATUS_OK && *part != '\0') {
        struct arena_text text = {0};
        int32_t *more, *all;
        uint32_t added;
        bool fixed = !memchr(part, '{', strcspn(part, RERANK_PIECE));
        part = piece_expand(p, &text, part);
        struct encode_args in = {.text = text_span(text.at, text.bytes),
                                 .arena = args->arena,
                                 .slice = args->slice,
                                 .flags = fixed ? ENCODE_ADDED_TOKENS : ENCODE_PLAIN};
        if (part)
            status = encode_alloc_all(args->tokenizer, &in, &more, &added, err);
        if (status != STATUS_OK)
            return status;
        all = part ? arena_alloc(args->arena, ((size_t)*count + added) * sizeof *all) : NULL;
        if (!all)
            return error_set(err, STATUS_NO_SPACE, "not enough memory for the prompt");
        if (*count > 0)
            memcpy(all, *tokens, *count * sizeof *all);
        memcpy(all + *count, more, added * sizeof *all);
        *tokens = all;
        *count += added;
    }
    return status;
}

// Encodes the parts of a prompt that do not depend on the document.
static enum status form_make(struct rerank_prompt *p, struct error *err)
{
    const struct rerank_args *args = &p->args;
    int32_t *tokens;
    struct arena_text head = {0};
    if (!piece_expand(p, &head, p->form->head))
        return error_set(err, STATUS_NO_SPACE, "not enough memory for the prompt");
    p->head = text_span(head.at, head.bytes);
    enum status status = pieces_encode(p, p->form->before, &p->before, &p->before_count, err);
    if (status == STATUS_OK)
        status = pieces_encode(p, p->form->after, &p->after, &p->tail_count, err);
    struct encode_args in = {
        .text = p->head, .arena = args->arena, .slice = args->slice, .flags = ENCODE_PLAIN};
    if (status == STATUS_OK)
        status = encode_alloc_all(args->tokenizer, &in, &tokens, &p->head_count, err);
    return status;
}

enum status rerank_prompt_make(struct rerank_prompt **out, const struct rerank_args *args,
                               struct error *err)
{
    struct rerank_prompt *p = arena_alloc_zeroed(args->arena, 1, sizeof *p);
    if (!p)
        return error_set(err, STATUS_NO_SPACE, "not enough memory for the prompt");
    p->args = *args;
    p->form = rerank_form_facts(args->form);
    enum status status = query_measure(p, err);
    if (status == STATUS_OK && args->form != RERANK_PAIR)
        status = form_make(p, err);
    if (status == STATUS_OK &&
        p->before_count + p->head_count + p->tail_count >= args->tokens_max) {
        return error_set(err, STATUS_TOO_LARGE,
                         "the query leaves no space for a document: %u of %u tokens are used",
                         p->before_count + p->head_count + p->tail_count, args->tokens_max);
    }
    *out = p;
    return status;
}

// Truncates a document of `count` tokens, which `tail` more tokens follow, to `keep` tokens.
static void document_truncate(const struct rerank_prompt *p, int32_t *document, uint32_t count,
                              uint32_t keep, uint32_t tail)
{
    if (p->args.truncate_left)
        memmove(document, document + count - keep, (keep + tail) * sizeof *document);
    else
        memmove(document + keep, document + count, tail * sizeof *document);
}

// Number of a document's `count` tokens within document_tokens_max.
static uint32_t document_wanted(const struct rerank_prompt *p, uint32_t count)
{
    return p->args.document_tokens_max > 0 ? smaller(count, p->args.document_tokens_max) : count;
}

// Number of document tokens kept after truncation.
static uint32_t document_keep(const struct rerank_prompt *p, uint32_t fixed_count, uint32_t count)
{
    uint32_t space = p->args.tokens_max > fixed_count ? p->args.tokens_max - fixed_count : 0;
    return smaller(document_wanted(p, count), space);
}

static enum status encode_pair(const struct rerank_prompt *p, struct text document,
                               struct arena *arena, struct rerank_input *out, struct error *err)
{
    uint32_t pair_start = 0;
    uint32_t bound = tokenizer_bound(p->args.tokenizer, p->args.query.bytes + document.bytes);
    uint8_t *types = arena_alloc(arena, bound);
    if (!types)
        return error_set(err, STATUS_NO_SPACE, "not enough memory for %u tokens", bound);
    struct encode_args in = {.text = p->args.query,
                             .pair = &document,
                             .flags = ENCODE_SPECIAL,
                             .arena = arena,
                             .slice = p->args.slice,
                             .type_ids = types,
                             .pair_start = &pair_start};
    uint32_t most = p->args.stop_at_limit ? p->args.tokens_max : UINT32_MAX;
    enum status status =
        encode_alloc_limited(p->args.tokenizer, &in, most, &out->tokens, &out->token_count, err);
    if (encoding_has_stopped(p, status, 0, out->token_count, out))
        return STATUS_OK;
    if (status != STATUS_OK)
        return status;
    uint32_t type_from = 0;
    while (type_from < out->token_count && types[type_from] == 0)
        type_from++;
    uint32_t count = out->token_count - pair_start - p->tail_count;
    uint32_t keep = document_keep(p, pair_start + p->tail_count, count);
    document_truncate(p, out->tokens + pair_start, count, keep, p->tail_count);
    out->count_before_truncation = out->token_count;
    out->token_count = pair_start + keep + p->tail_count;
    out->type_from = type_from < out->token_count ? type_from : out->token_count;
    out->truncated = keep < document_wanted(p, count);
    return STATUS_OK;
}

static enum status encode_prompt(const struct rerank_prompt *p, struct text document,
                                 struct arena *arena, struct rerank_input *out, struct error *err)
{
    char *joined = arena_alloc(arena, p->head.bytes + document.bytes + 1);
    int32_t *middle;
    uint32_t count;
    if (!joined)
        return error_set(err, STATUS_NO_SPACE, "not enough memory for the document");
    memcpy(joined, p->head.at, p->head.bytes);
    if (document.bytes > 0)
        memcpy(joined + p->head.bytes, document.at, document.bytes);
    struct encode_args in = {.text = text_span(joined, p->head.bytes + document.bytes),
                             .arena = arena,
                             .slice = p->args.slice};
    uint32_t fixed_count = p->before_count + p->tail_count;
    uint32_t most = p->args.stop_at_limit ? p->args.tokens_max - fixed_count : UINT32_MAX;
    enum status status = encode_alloc_limited(p->args.tokenizer, &in, most, &middle, &count, err);
    if (encoding_has_stopped(p, status, fixed_count, count, out))
        return STATUS_OK;
    if (status != STATUS_OK)
        return status;
    // One token may combine the end of the head with the start of the document. The number of
    // tokens of the head alone is used as the boundary.
    uint32_t head = p->head_count < count ? p->head_count : count;
    uint32_t keep = head + document_keep(p, p->before_count + head + p->tail_count, count - head);
    document_truncate(p, middle + head, count - head, keep - head, 0);
    out->token_count = p->before_count + keep + p->tail_count;
    out->tokens = arena_alloc(arena, out->token_count * sizeof *out->tokens);
    if (!out->tokens)
        return error_set(err, STATUS_NO_SPACE, "not enough memory for %u tokens", out->token_count);
    memcpy(out->tokens, p->before, p->before_count * sizeof *out->tokens);
    memcpy(out->tokens + p->before_count, middle, keep * sizeof *out->tokens);
    memcpy(out->tokens + p->before_count + keep, p->after, p->tail_count * sizeof *out->tokens);
    out->type_from = out->token_count;
    out->count_before_truncation = p->before_count + count + p->tail_count;
    out->truncated = keep - head < document_wanted(p, count - head);
    return STATUS_OK;
}

enum status rerank_prompt_encode(const struct rerank_prompt *prompt, struct text document,
                                 struct arena *arena, struct rerank_input *out, struct error *err)
{
    *out = (struct rerank_input){0};
    return prompt->args.form == RERANK_PAIR ? encode_pair(prompt, document, arena, out, err)
                                            : encode_prompt(prompt, document, arena, out, err);
}

struct rerank_score rerank_score_of(uint32_t index, float logit, bool raw)
{
    return (struct rerank_score){index, raw ? logit : (float)(1 / (1 + exp(-(double)logit)))};
}

static int score_order(const void *left, const void *right)
{
    const struct rerank_score *a = left, *b = right;
    if (a->score != b->score)
        return a->score > b->score ? -1 : 1;
    return a->index < b->index ? -1 : 1;
}

void rerank_scores_sort(struct rerank_score *scores, uint32_t count)
{
    qsort(scores, count, sizeof *scores, score_order);
}
