// SPDX-License-Identifier: Apache-2.0
// Calls: assigns arguments to parameters; calls macros, methods, filters and tests. See
// jinja/internal.h.
#include "runtime/text/jinja/internal.h"

enum { PARAMS_MAX = 8, ARGS_MAX = 4096 };

const struct jinja_row *jinja_row_find(const struct jinja_row *rows, size_t count, struct text name)
{
    for (size_t i = 0; i < count; i++)
        if (text_is(name, rows[i].name))
            return &rows[i];
    return NULL;
}

static bool keyword_add(struct jinja_run *run, struct jinja_call *call, struct text name,
                        struct jinja_value value, uint32_t capacity)
{
    if (!jinja_spend(run, 1 + call->keyword_count / 4))
        return false;
    for (uint32_t i = 0; i < call->keyword_count; i++)
        if (text_equal(call->keywords[i].name, name))
            return jinja_fail(run, STATUS_INVALID, "an argument is given twice");
    if (call->keyword_count == capacity)
        return jinja_fail(run, STATUS_INVALID, "too many arguments");
    ((struct jinja_keyword *)call->keywords)[call->keyword_count++] =
        (struct jinja_keyword){.name = name, .value = value};
    return true;
}

static bool keywords_expand(struct jinja_run *run, struct jinja_value from, struct jinja_call *call,
                            uint32_t capacity)
{
    for (size_t i = 0; i < from.as.dict->count; i++) {
        const struct jinja_pair *pair = &from.as.dict->pairs[i];
        if (pair->key.kind != JINJA_STRING)
            return jinja_fail(run, STATUS_INVALID, "the keys after ** must be strings");
        if (!keyword_add(run, call, jinja_string_text(pair->key.as.string), pair->value, capacity))
            return false;
    }
    return true;
}

bool jinja_eval_args(struct jinja_run *run, struct jinja_frame *frame,
                     const struct jinja_node *args, struct jinja_call *call)
{
    if (!args)
        return true;
    struct jinja_items items = {0};
    struct jinja_value star;
    for (uint32_t i = 0; i < args->count; i++)
        if (!jinja_eval(run, frame, args->items[i], &star) || !jinja_items_add(run, &items, star))
            return false;
    if (args->a) {
        struct jinja_list list;
        if (!jinja_eval(run, frame, args->a, &star) || !jinja_iterate(run, star, &list) ||
            !jinja_items_add_all(run, &items, list.items, list.count))
            return false;
    }
    struct jinja_value extra = {0};
    if (items.count > ARGS_MAX)
        return jinja_fail(run, STATUS_INVALID, "too many arguments");
    if (args->b && !jinja_eval(run, frame, args->b, &extra))
        return false;
    if (args->b && (extra.kind != JINJA_DICT || extra.as.dict->count > ARGS_MAX))
        return jinja_fail(run, STATUS_INVALID,
                          "the argument after ** must be a dict with at most %d entries", ARGS_MAX);
    size_t capacity = args->more_count + (args->b ? extra.as.dict->count : 0);
    call->args = items.items;
    call->count = (uint32_t)items.count;
    // + 1: the caller of a call block
    call->keywords = jinja_alloc(run, capacity + 1, sizeof *call->keywords);
    if (!call->keywords)
        return false;
    for (uint32_t i = 0; i < args->more_count; i++)
        if (!jinja_eval(run, frame, args->more[i]->a, &star) ||
            !keyword_add(run, call, args->more[i]->text, star, (uint32_t)capacity))
            return false;
    return !args->b || keywords_expand(run, extra, call, (uint32_t)capacity);
}

// Returns the index of the parameter with this name; -1: none.
static int param_index(const char *params, struct text name)
{
    for (int index = 0; *params != '\0'; index++) {
        size_t bytes = strcspn(params, " ");
        if (text_equal(text_span(params, bytes), name))
            return index;
        params += bytes + (params[bytes] == ' ');
    }
    return -1;
}

static uint32_t param_count(const char *params)
{
    uint32_t count = *params != '\0';
    for (; *params != '\0'; params++)
        count += *params == ' ';
    return count;
}

bool jinja_row_call(struct jinja_run *run, const struct jinja_row *row,
                    const struct jinja_call *call, struct jinja_value *out)
{
    struct jinja_call bound = *call;
    static const struct jinja_value nothing = {.kind = JINJA_MISSING};
    bound.name = row->name;
    if (!bound.args)
        bound.args = &nothing; // a valid address even without arguments
    if (!row->params)
        return row->apply(run, &bound, out);
    struct jinja_value values[PARAMS_MAX] = {{0}};
    uint32_t count = param_count(row->params);
    check(count <= PARAMS_MAX, "%s has %u parameters", row->name, count);
    if (call->count > count)
        return jinja_fail(run, STATUS_INVALID, "%s takes at most %u arguments", row->name, count);
    for (uint32_t i = 0; i < call->count; i++)
        values[i] = call->args[i];
    for (uint32_t i = 0; i < call->keyword_count; i++) {
        int index = param_index(row->params, call->keywords[i].name);
        if (index < 0 || values[index].kind != JINJA_MISSING)
            return jinja_fail(run, STATUS_INVALID, "%s has no free parameter '%.*s'", row->name,
                              jinja_name_precision(call->keywords[i].name),
                              call->keywords[i].name.at);
        values[index] = call->keywords[i].value;
    }
    for (uint32_t i = 0; i < row->required; i++)
        if (values[i].kind == JINJA_MISSING)
            return jinja_fail(run, STATUS_INVALID, "%s needs %u arguments", row->name,
                              row->required);
    bound.args = values;
    bound.count = count;
    bound.keyword_count = 0;
    return row->apply(run, &bound, out);
}

static struct jinja_value keyword_pop(struct jinja_call *call, struct text name)
{
    struct jinja_keyword *keywords = (struct jinja_keyword *)call->keywords;
    for (uint32_t i = 0; i < call->keyword_count; i++)
        if (text_equal(keywords[i].name, name)) {
            struct jinja_value value = keywords[i].value;
            call->keyword_count--;
            memmove(&keywords[i], &keywords[i + 1], (call->keyword_count - i) * sizeof *keywords);
            return value;
        }
    return (struct jinja_value){.kind = JINJA_MISSING};
}

bool jinja_args_list(struct jinja_run *run, const struct jinja_call *call, uint32_t from,
                     enum jinja_flavour flavour, struct jinja_value *out)
{
    struct jinja_items items = {0};
    from = from < call->count ? from : call->count;
    return jinja_items_add_all(run, &items, call->args + from, call->count - from) &&
           jinja_items_list(run, &items, flavour, out);
}

bool jinja_keywords_dict(struct jinja_run *run, const struct jinja_call *call,
                         struct jinja_value *out)
{
    struct jinja_pair *pairs = jinja_alloc(run, call->keyword_count, sizeof *pairs);
    if (!pairs)
        return false;
    for (uint32_t i = 0; i < call->keyword_count; i++) {
        pairs[i].value = call->keywords[i].value;
        if (!jinja_string_make(run, call->keywords[i].name, false, &pairs[i].key))
            return false;
    }
    return jinja_dict_make(run, pairs, call->keyword_count, out);
}

// Binds the parameters in order; a default may use the parameters before it.
static bool params_bind(struct jinja_run *run, struct jinja_frame *frame,
                        const struct jinja_node *node, struct jinja_call *call)
{
    const struct text *names = run->program->names;
    for (uint32_t i = 0; i < node->count; i++) {
        uint32_t name = node->items[i]->name;
        struct jinja_value value = i < call->count ? call->args[i] : keyword_pop(call, names[name]);
        if (value.kind == JINJA_MISSING && node->more[i]) {
            if (!jinja_eval(run, frame, node->more[i], &value))
                return false;
        } else if (value.kind == JINJA_MISSING) {
            value = jinja_undefined("a parameter of a macro was not provided");
        }
        if (!jinja_frame_set(run, frame, name, value))
            return false;
    }
    return true;
}

static bool caller_bind(struct jinja_run *run, struct jinja_frame *frame,
                        const struct jinja_node *node, struct jinja_call *call)
{
    for (uint32_t i = 0; i < node->count; i++)
        // A parameter of that name already has the value.
        if (node->items[i]->name == NAME_CALLER)
            return true;
    struct jinja_value caller = keyword_pop(call, text_of("caller"));
    if (caller.kind == JINJA_MISSING || caller.kind == JINJA_NONE)
        caller = jinja_undefined("there is no caller");
    return jinja_frame_set(run, frame, NAME_CALLER, caller);
}

static bool macro_call(struct jinja_run *run, const struct jinja_macro *macro,
                       const struct jinja_call *given, struct jinja_value *out)
{
    const struct jinja_node *node = macro->node;
    struct jinja_call call = *given;
    struct jinja_value rest;
    struct jinja_frame *frame = jinja_alloc(run, 1, sizeof *frame);
    if (!frame)
        return false;
    *frame = (struct jinja_frame){.parent = macro->frame};
    if (!params_bind(run, frame, node, &call))
        return false;
    if ((node->flag & MACRO_CALLER) != 0 && !caller_bind(run, frame, node, &call))
        return false;
    if ((node->flag & MACRO_KWARGS) != 0 && (!jinja_keywords_dict(run, &call, &rest) ||
                                             !jinja_frame_set(run, frame, NAME_KWARGS, rest)))
        return false;
    if ((node->flag & MACRO_KWARGS) == 0 && call.keyword_count > 0)
        return jinja_fail(run, STATUS_INVALID, "the macro has no parameter '%.*s'",
                          jinja_name_precision(call.keywords[0].name), call.keywords[0].name.at);
    if ((node->flag & MACRO_VARARGS) != 0 &&
        (!jinja_args_list(run, &call, node->count, JINJA_IS_TUPLE, &rest) ||
         !jinja_frame_set(run, frame, NAME_VARARGS, rest)))
        return false;
    if ((node->flag & MACRO_VARARGS) == 0 && call.count > node->count)
        return jinja_fail(run, STATUS_INVALID, "the macro takes at most %u arguments", node->count);
    struct jinja_builder *outer = run->out;
    run->out = jinja_builder_create(run);
    bool fine = run->out && jinja_enter(run) && jinja_exec(run, frame, node->c) &&
                jinja_builder_done(run, run->out, out);
    run->out = outer;
    run->depth--;
    return fine;
}

static bool loop_call(struct jinja_run *run, const struct jinja_loop *loop,
                      const struct jinja_call *call, struct jinja_value *out)
{
    if (!loop->node)
        return jinja_fail(run, STATUS_INVALID, "only a loop marked recursive can be called");
    if (call->count != 1 || call->keyword_count > 0)
        return jinja_fail(run, STATUS_INVALID, "loop() takes one argument");
    struct jinja_builder *outer = run->out;
    run->out = jinja_builder_create(run);
    bool fine = run->out && jinja_enter(run) &&
                jinja_for(run, loop->frame, loop->node, call->args[0], loop->depth0 + 1) &&
                jinja_builder_done(run, run->out, out);
    run->out = outer;
    run->depth--;
    return fine;
}

static bool cycler_call(struct jinja_run *run, struct jinja_cycler *cycler, struct jinja_value *out)
{
    if (!cycler->joiner)
        return jinja_fail(run, STATUS_INVALID, "a cycler is not called; write .next()");
    *out = cycler->items;
    return cycler->at++ > 0 || jinja_string_make(run, text_of(""), false, out);
}

bool jinja_call(struct jinja_run *run, struct jinja_value callee, const struct jinja_call *call,
                struct jinja_value *out)
{
    struct jinja_call with_self = *call;
    switch (callee.kind) {
    case JINJA_MACRO:
        return macro_call(run, callee.as.macro, call, out);
    case JINJA_FUNCTION:
        with_self.self = callee.as.function->self;
        return jinja_row_call(run, callee.as.function->row, &with_self, out);
    case JINJA_LOOP:
        return loop_call(run, callee.as.loop, call, out);
    case JINJA_CYCLER:
        return cycler_call(run, callee.as.cycler, out);
    case JINJA_UNDEFINED:
        return jinja_fail_undefined(run, callee);
    default:
        return jinja_fail(run, STATUS_INVALID, "a value of type %s cannot be called",
                          jinja_kind_name(callee));
    }
}

bool jinja_filter(struct jinja_run *run, struct text name, const struct jinja_call *call,
                  struct jinja_value *out)
{
    const struct jinja_row *row = jinja_text_filter(name);
    if (!row)
        row = jinja_sequence_filter(name);
    if (!row)
        row = jinja_map_filter(name);
    if (!row)
        return jinja_fail(run, STATUS_UNSUPPORTED, "there is no filter '%.*s'",
                          jinja_name_precision(name), name.at);
    return jinja_row_call(run, row, call, out);
}

bool jinja_test(struct jinja_run *run, struct text name, const struct jinja_call *call, bool *out)
{
    const struct jinja_row *row = jinja_test_find(name);
    if (!row)
        return jinja_fail(run, STATUS_UNSUPPORTED, "there is no test '%.*s'",
                          jinja_name_precision(name), name.at);
    struct jinja_value value;
    if (!jinja_row_call(run, row, call, &value))
        return false;
    *out = jinja_truth(value);
    return true;
}
