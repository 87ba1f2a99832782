// SPDX-License-Identifier: Apache-2.0
// Pooling requests: see inputs.h. Runs on the h2o thread; reading fields and token lists also on a
// text worker.
#include "http/api/inputs.h"

#include "http/counters.h"

#include <string.h>

void pooled_submit(struct pooled *p, struct submit_args *args, const char *field)
{
    p->prompt_tokens = args->token_count;
    args->choice_count = 1;
    p->request = call_submit(&p->call, args, field);
    p->port = p->call.port;
}

void pooled_close(struct pooled *p)
{
    p->request = NULL;
    exchange_detach(p->call.exchange);
}

void pooled_gone(struct pooled *p)
{
    if (p->request && !p->over)
        counters_gone(p->call.exchange, 0);
    p->request = NULL; // the exchange cancels and frees it
}

bool pooled_done(struct pooled *p)
{
    const struct finish_report *report;
    struct token_event event = {0};
    if (!p->request)
        return false;
    do {
        if (!port_next(p->port, p->request, &event, NULL))
            return false;
    } while (!(event.flags & EVENT_LAST));
    p->over = true;
    report = finish_report(event.finish);
    counters_finish(p->call.exchange, report->counted, 0);
    if (!report->failure)
        return true;
    pooled_close(p);
    call_fail(&p->call, report->error, "%s", report->failure);
    return false;
}

bool pooled_alias(struct fields *f, const char *name, const char *other)
{
    bool is_there = fields_get(f, name), other_is_there = fields_get(f, other);
    if (is_there && other_is_there)
        fields_fail(f, HTTP_INVALID_VALUE, other, "cannot be given together with %s", name);
    return is_there || other_is_there;
}

bool pooled_flag(struct fields *f, const char *name, const char *other, bool fallback)
{
    pooled_alias(f, name, other);
    return fields_bool(f, name, fields_bool(f, other, fallback));
}

uint32_t pooled_truncate(struct pooled *p, bool truncate)
{
    static const char most[] = "truncate_prompt_tokens";
    struct fields *f = &p->call.fields;
    uint32_t window = p->call.model->facts->max_model_len;
    int64_t limit = fields_integer(f, most, (struct integer_range){-1, INT64_MAX, -1});
    if (limit == 0)
        fields_fail(f, HTTP_INVALID_VALUE, most, "must be -1 or at least 1");
    if (!truncate && fields_get(f, most))
        fields_fail(f, HTTP_INVALID_VALUE, most, "cannot be given if truncate is false");
    return limit > 0 && limit < window ? (uint32_t)limit : window;
}

bool pooled_cuts_left(struct fields *f)
{
    static const char direction[] = "truncation_direction", side[] = "truncation_side";
    const char *name = fields_get(f, side) ? side : direction;
    pooled_alias(f, direction, side);
    struct text value = fields_string(f, name);
    bool left = text_is(value, "left") || (name == direction && text_is(value, "Left"));
    bool right = text_is(value, "right") || (name == direction && text_is(value, "Right"));
    if (value.at && !left && !right)
        fields_fail(f, HTTP_INVALID_VALUE, name, "must be 'left' or 'right'");
    return left;
}

bool token_list_begin(struct token_list *l, struct arena *arena, uint32_t sequences_max)
{
    *l = (struct token_list){.arena = arena, .max = 1024};
    l->tokens = arena_alloc(arena, l->max * sizeof l->tokens[0]);
    l->starts = arena_alloc_zeroed(arena, sequences_max + 1, sizeof l->starts[0]);
    return l->tokens && l->starts;
}

bool token_list_add(struct token_list *l, const int32_t *tokens, uint32_t count)
{
    if (l->count + count > UINT32_MAX)
        return false;
    if (l->count + count > l->max) {
        size_t max = 2 * l->max + count;
        int32_t *grown = arena_grow(l->arena, l->tokens, l->max * sizeof l->tokens[0],
                                    max * sizeof l->tokens[0]);
        if (!grown)
            return false;
        l->tokens = grown;
        l->max = max;
    }
    memcpy(l->tokens + l->count, tokens, count * sizeof l->tokens[0]);
    l->count += count;
    l->starts[++l->sequence_count] = (uint32_t)l->count;
    return true;
}
