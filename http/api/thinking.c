// SPDX-License-Identifier: Apache-2.0
// Thinking: see prompt.h. The variable that a template reads was found when the model was loaded
// (runtime/text/dialect/switch.h); enable_thinking is set in addition to it.
#include "http/api/prompt.h"

#include "runtime/grammar/token_rules.h"
#include "runtime/text/dialect/budget.h"

static const struct field_rule thinking_rows[] = {
    FIELD_TYPED("type", "s"),
    FIELD_TYPED("budget_tokens", "i"),
    FIELD_NOT_SERVED("*", NULL, NULL),
};
const struct field_rules thinking_chat_members = FIELD_RULES(thinking_rows, NULL);

static const struct field_rule reasoning_rows[] = {
    FIELD_TYPED("effort", "s"),
    FIELD_TYPED("enabled", "b"),
    FIELD_TYPED("max_tokens", "i"),
    FIELD_NOT_SERVED("*", NULL, NULL),
};
const struct field_rules thinking_reasoning_members = FIELD_RULES(reasoning_rows, NULL);

static bool has_marks(const struct served_model *model)
{
    return model->dialect.row && dialect_reasoning_syntax(&model->dialect).open;
}

bool thinking_is_supported(const struct served_model *model)
{
    return model->thinking.by || has_marks(model);
}

static json_t *switch_value(const struct dialect_switch *by, bool on)
{
    return json_loads(on ? by->on : by->off, JSON_DECODE_ANY, NULL);
}

static void switch_put(struct generation *g, bool on)
{
    const struct dialect_switch *by = g->call.model->thinking.by;
    json_object_set_new(g->prompt.variables, "enable_thinking", json_boolean(on));
    if (by)
        json_object_set_new(g->prompt.variables, by->variable, switch_value(by, on));
}

bool thinking_is_on(const struct generation *g)
{
    const struct dialect_switch *by = g->call.model->thinking.by;
    const json_t *value = by ? json_object_get(g->prompt.variables, by->variable) : NULL;
    if (!value)
        return json_is_true(json_object_get(g->prompt.variables, "enable_thinking"));
    json_t *off = switch_value(by, false);
    bool on = !json_equal(value, off);
    json_decref(off);
    return on;
}

bool thinking_is_off(const struct generation *g)
{
    const struct dialect_switch *by = g->call.model->thinking.by;
    bool is_set = json_object_get(g->prompt.variables, "enable_thinking") ||
                  (by && json_object_get(g->prompt.variables, by->variable));
    return is_set && !thinking_is_on(g);
}

// Records that the field at `path` turns thinking on or off. Fails the fields if another field sets
// the opposite. Does nothing if the model cannot think.
static void thinking_record(struct generation *g, bool on, const char *path)
{
    const char *other = g->thinking.switched_by[!on];
    if (!thinking_is_supported(g->call.model))
        return;
    g->thinking.switched_by[on] = path;
    if (other)
        fields_fail(&g->call.fields, HTTP_INVALID_VALUE, path, "contradicts '%s'", other);
}

// Turns thinking on or off for the field at `path`; fails the fields if the model cannot do that.
static void thinking_set(struct generation *g, bool on, const char *path)
{
    const struct served_model *model = g->call.model;
    thinking_record(g, on, path);
    if (on && !thinking_is_supported(model))
        fields_fail(&g->call.fields, HTTP_UNSUPPORTED_VALUE, path,
                    "cannot turn thinking on: this model cannot think");
    else if (!on && !model->thinking.by && has_marks(model))
        fields_fail(&g->call.fields, HTTP_UNSUPPORTED_VALUE, path,
                    "cannot turn thinking off: this model's chat template has no switch for it, "
                    "but thinking_token_budget 0 ends it immediately");
    else
        switch_put(g, on);
}

// Reads the effort. An effort level that the template rejects becomes the nearest one that it
// accepts. openai: 'none' and 'minimal' are allowed.
static void effort_read(struct generation *g, struct text name, const char *path, bool openai)
{
    const struct dialect_thinking *thinking = &g->call.model->thinking;
    enum dialect_effort effort;
    if (!name.at || g->call.fields.failed)
        return;
    if (!dialect_effort_named(name, &effort) || (!openai && effort < EFFORT_LOW)) {
        fields_fail(&g->call.fields, HTTP_INVALID_VALUE, path,
                    "must be %s'low', 'medium', 'high', 'xhigh' or 'max'",
                    openai ? "'none', 'minimal', " : "");
    } else if (effort == EFFORT_NONE) {
        thinking_set(g, false, path);
    } else {
        bool is_switch =
            thinking->by && text_is(text_of(thinking->by->variable), "reasoning_effort");
        if (openai && effort >= EFFORT_LOW)
            thinking_record(g, true, path);
        effort = dialect_effort_nearest(thinking, effort);
        // The effort of Messages does not turn thinking on.
        if (!is_switch || openai || thinking_is_on(g))
            json_object_set_new(g->prompt.variables, "reasoning_effort",
                                json_string(dialect_effort_name(effort)));
    }
}

// OpenAI's fields for thinking, and those of other servers

// Reads one field of the budget. Each is checked; the last one that is present takes effect.
static void budget_read(struct generation *g, const json_t *value, const char *path)
{
    struct fields *f = &g->call.fields;
    int64_t tokens;
    if (!value || f->failed)
        return;
    if (g->thinking.budget.limited)
        json_object_del(g->prompt.variables, "thinking_budget");
    g->thinking.budget = (struct thinking_budget){0};
    if (!json_integer_exact(value, &tokens) || tokens < -1)
        fields_fail(f, HTTP_INVALID_VALUE, path, "must be -1, which is no limit, or at least 0");
    else if (tokens == 0 && !has_marks(g->call.model))
        g->thinking.budget.path = path;
    else if (tokens >= 0 && !has_marks(g->call.model))
        fields_fail(f, HTTP_UNSUPPORTED_PARAMETER, path,
                    "is not supported by this model: its dialect has no markers for reasoning");
    else if (tokens >= 0)
        thinking_budget_set(g, tokens < UINT32_MAX ? (uint32_t)tokens : UINT32_MAX, path);
}

// Reads the fields of the budget; in `names`, the first that is present takes effect. If the model
// has no reasoning markers, a budget of 0 turns thinking off.
static void budgets_read(struct generation *g)
{
    static const char *const names[] = {"thinking_token_budget", "thinking_budget_tokens",
                                        "thinking_budget"};
    const struct fields *f = &g->call.fields;
    budget_read(g, json_member(fields_get(f, "reasoning"), "max_tokens"), "reasoning.max_tokens");
    const json_t *type = json_member(fields_get(f, "thinking"), "type");
    // `enabled` and `adaptive` are ignored if the model cannot think, and so is their budget
    if (!type || thinking_is_supported(g->call.model))
        budget_read(g, json_member(fields_get(f, "thinking"), "budget_tokens"),
                    "thinking.budget_tokens");
    for (size_t i = sizeof names / sizeof *names; i-- > 0;)
        budget_read(g, fields_get(f, names[i]), names[i]);
    if (!g->thinking.budget.limited && g->thinking.budget.path)
        switch_put(g, false);
}

static void openai_read(struct generation *g)
{
    struct fields *f = &g->call.fields;
    const json_t *reasoning = fields_get(f, "reasoning");
    const json_t *enabled = json_member(reasoning, "enabled");
    struct text type = json_text(json_member(fields_get(f, "thinking"), "type"));
    // agents send `enabled` to every model
    bool on = text_is(type, "enabled"), supported = thinking_is_supported(g->call.model);
    if (type.at && !on && !text_is(type, "adaptive") && !text_is(type, "disabled"))
        fields_fail(f, HTTP_INVALID_VALUE, "thinking.type",
                    "must be 'enabled', 'adaptive' or 'disabled'");
    else if (text_is(type, "disabled") || (on && supported))
        thinking_set(g, on, "thinking.type");
    else if (type.at && supported) // 'adaptive': the model decides
        switch_put(g, true);
    if (enabled)
        thinking_set(g, json_is_true(enabled), "reasoning.enabled");
    effort_read(g, json_text(json_member(reasoning, "effort")), "reasoning.effort", true);
    effort_read(g, fields_string(f, "reasoning_effort"), "reasoning_effort", true);
    budgets_read(g);
}

// Variables

// Records what chat_template_kwargs sets. The template's own variable takes precedence over
// enable_thinking.
static void kwargs_record(struct generation *g, const json_t *kwargs)
{
    struct fields *f = &g->call.fields;
    const struct dialect_switch *by = g->call.model->thinking.by;
    const json_t *value = by ? json_member(kwargs, by->variable) : NULL;
    const json_t *own = json_member(kwargs, "enable_thinking");
    for (int on = 0; value && on < 2; on++) {
        json_t *is = switch_value(by, on);
        if (json_equal(value, is))
            thinking_record(g, on, fields_path(f, "chat_template_kwargs.%s", by->variable));
        json_decref(is);
    }
    if (by && !value && json_is_boolean(own))
        thinking_record(g, json_is_true(own), "chat_template_kwargs.enable_thinking");
}

void prompt_variables_read(struct generation *g, enum prompt_thinking thinking)
{
    struct fields *f = &g->call.fields;
    const json_t *kwargs = fields_get(f, "chat_template_kwargs");
    const json_t *own = json_member(kwargs, "enable_thinking");
    struct text type = json_text(json_member(fields_get(f, "thinking"), "type"));
    const char *name;
    size_t bytes;
    json_t *value;
    g->prompt.variables = json_object();
    if (thinking != THINKING_BY_TEMPLATE)
        switch_put(g, thinking == THINKING_ON);
    // For Messages, the only accepted value of reasoning_effort is 'none'.
    bool none = f->shape == SHAPE_MESSAGES && fields_get(f, "reasoning_effort");
    if (f->shape == SHAPE_MESSAGES && type.at && (none || !text_is(type, "adaptive")))
        thinking_record(g, thinking == THINKING_ON, "thinking.type");
    if (none)
        thinking_record(g, false, "reasoning_effort");
    if (f->shape == SHAPE_OPENAI)
        openai_read(g);
    else
        effort_read(g, json_text(json_member(fields_get(f, "output_config"), "effort")),
                    "output_config.effort", false);
    kwargs_record(g, kwargs);
    // enable_thinking also sets the template's own variable. If it is true, an effort that has
    // already turned thinking on stays.
    if (json_is_boolean(own) && !(json_is_true(own) && thinking_is_on(g)))
        switch_put(g, json_is_true(own));
    json_object_keylen_foreach((json_t *)kwargs, name, bytes, value) // only read
    {
        if (!json_is_null(value))
            json_object_setn(g->prompt.variables, name, bytes, value);
    }
}

// The budget

void thinking_budget_set(struct generation *g, uint32_t tokens, const char *path)
{
    if (has_marks(g->call.model))
        g->thinking.budget = (struct thinking_budget){true, tokens, path};
    if (!json_is_false(json_object_get(g->prompt.variables, "enable_thinking")))
        json_object_set_new(g->prompt.variables, "thinking_budget", json_integer(tokens));
}

void thinking_limit(struct generation *g)
{
    struct token_budget budget;
    struct dialect_budget_args args = {.closing = &g->call.model->closing,
                                       .tokens_max = g->thinking.budget.tokens,
                                       .start = g->options.reply.start,
                                       .calls = g->options.reply.calls &&
                                                dialect_has_calls(&g->call.model->dialect),
                                       .before = prompt_continued(g)};
    struct token_rules_args none = {.vocab = g->call.model->facts->vocab};
    if (!g->thinking.budget.limited)
        return;
    if (!dialect_budget(&g->call.model->dialect, &args, &budget)) {
        fields_fail(&g->call.fields, HTTP_UNSUPPORTED_PARAMETER, g->thinking.budget.path,
                    "is not supported by this model: its tokenizer cannot write the end of "
                    "thinking");
        return;
    }
    if (!g->submit.rules)
        g->submit.rules = token_rules_create(&none);
    token_rules_limit(g->submit.rules, &budget);
}
