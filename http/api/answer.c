// SPDX-License-Identifier: Apache-2.0
// Reasoning and tool calls of an answer: see answer.h.
#include "http/api/answer.h"

#include "base/number.h"
#include "base/utf8.h"
#include "http/api/fields.h"
#include "http/ids.h"

enum { HEAD_PENDING = 64 }; // a call's id and name count as this many pending bytes

void answer_open(struct answer_parts *a, const struct reply_args *args,
                 const struct answer_parts *continued)
{
    a->dialect = args->dialect;
    a->reply = continued ? reply_copy(continued->reply) : reply_create(args);
    if (!continued)
        return;
    a->continued_bytes = continued->continued_bytes;
    a->arena_full = continued->arena_full;
    if (continued->call_count > continued->closed) { // the answer begins inside a call
        const struct answer_call *open = &continued->calls[continued->call_count - 1];
        struct text so_far = answer_begun(continued);
        answer_handle(a, &(struct reply_event){REPLY_CALL, .text = open->name, .id = open->id});
        answer_handle(a, &(struct reply_event){REPLY_ARGUMENTS, .text = so_far});
    }
}

void answer_continue(struct answer_parts *a, struct text piece)
{
    uint32_t count;
    const struct reply_event *events = reply_feed(a->reply, piece, false, &count);
    for (uint32_t i = 0; i < count; i++)
        if (events[i].kind != REPLY_REASONING)
            answer_handle(a, &events[i]);
    a->continued_bytes += (uint32_t)piece.bytes;
}

struct text answer_begun(const struct answer_parts *a)
{
    const struct arena_text *newest = a->call_count > a->closed
                                          ? &a->calls[a->call_count - 1].arguments
                                          : &(struct arena_text){0};
    return text_span(newest->at, newest->bytes);
}

void answer_close(struct answer_parts *a)
{
    reply_destroy(a->reply);
    a->reply = NULL;
}

static void text_add(struct answer_parts *a, struct arena_text *t, struct text more)
{
    a->arena_full |= !arena_text_add(a->arena, t, more);
}

enum { OWN_LETTERS = 9 };

// Returns true if the model's id has the form that the dialect needs and no other call of the
// answer has it: models tend to copy ids from the prompt.
static bool id_is_sound(const struct answer_parts *a, struct text id)
{
    for (uint32_t i = 0; i < a->call_count; i++)
        if (text_equal(a->calls[i].id, id))
            return false;
    for (size_t i = 0; i < id.bytes; i++) {
        char lower = (char)(id.at[i] | 0x20);
        if (!(id.at[i] >= '0' && id.at[i] <= '9') && !(lower >= 'a' && lower <= 'z'))
            return false;
    }
    return id.bytes == OWN_LETTERS;
}

// Returns the id of a new call. Templates of some dialects accept only ids of nine letters and
// digits.
static struct text id_of(struct answer_parts *a, const struct reply_event *event)
{
    const struct dialect_syntax *syntax = dialect_syntax(a->dialect);
    struct text id = id_make(a->arena, a->id_prefix);
    if (!syntax || syntax->id != DIALECT_ID_ALNUM_9 || !id.at)
        return id;
    return id_is_sound(a, event->id) ? arena_copy(a->arena, event->id)
                                     : text_span(id.at + id.bytes - OWN_LETTERS, OWN_LETTERS);
}

static void call_add(struct answer_parts *a, const struct reply_event *event)
{
    struct answer_call *calls =
        arena_extend(a->arena, a->calls, a->call_count, &a->call_max, sizeof *calls);
    if (!calls) {
        a->arena_full = true;
        return;
    }
    a->calls = calls;
    bool streamed = json_object_getn(a->streamed_tools, event->text.at, event->text.bytes) != NULL;
    bool custom = json_object_getn(a->custom_tools, event->text.at, event->text.bytes) != NULL;
    struct text space = json_text(json_object_getn(a->spaces, event->text.at, event->text.bytes));
    struct answer_call call = {.space = space.at ? arena_copy(a->arena, space) : space,
                               .id = id_of(a, event),
                               .name = arena_copy(a->arena, event->text),
                               .custom = custom,
                               .deferred = custom || (a->defer_calls && !streamed)};
    if (!call.id.at || !call.name.at || (space.at && !call.space.at))
        a->arena_full = true;
    else
        a->calls[a->call_count++] = call;
}

static struct answer_run *run_last(const struct answer_parts *a)
{
    return a->run_count > 0 ? &a->runs[a->run_count - 1] : NULL;
}

// Appends a run, or extends the last one if both are of the same kind and call.
static void run_add(struct answer_parts *a, struct answer_run run)
{
    if (run.kind != RUN_CALL && run.bytes == 0)
        return;
    struct answer_run *last = run_last(a);
    if (last && last->kind == run.kind && last->call == run.call && !last->echo) {
        last->bytes += run.bytes;
        return;
    }
    struct answer_run *runs =
        arena_extend(a->arena, a->runs, a->run_count, &a->run_max, sizeof *runs);
    if (!runs) {
        a->arena_full = true;
        return;
    }
    a->runs = runs;
    a->runs[a->run_count++] = run;
}

void answer_text(struct answer_parts *a, size_t bytes)
{
    if (!a->arena_full)
        run_add(a, (struct answer_run){RUN_TEXT, bytes, 0, NULL});
}

void answer_echo(struct answer_parts *a, struct text echo)
{
    run_add(a, (struct answer_run){RUN_TEXT, echo.bytes, 0, echo.at});
}

void answer_handle(struct answer_parts *a, const struct reply_event *event)
{
    if (a->arena_full)
        return;
    if (event->kind == REPLY_REASONING) {
        text_add(a, &a->reasoning, event->text);
        run_add(a, (struct answer_run){RUN_REASONING, event->text.bytes, 0, NULL});
    } else if (event->kind == REPLY_CALL) {
        call_add(a, event);
        if (!a->arena_full)
            run_add(a, (struct answer_run){RUN_CALL, 0, a->call_count, NULL});
    } else if (event->kind == REPLY_ARGUMENTS) {
        text_add(a, &a->calls[a->call_count - 1].arguments, event->text);
        run_add(a, (struct answer_run){RUN_CALL, event->text.bytes, a->call_count, NULL});
    } else if (event->kind == REPLY_CALL_END) {
        a->calls[a->call_count - 1].closed = true;
        a->calls[a->call_count - 1].complete = event->complete;
        a->complete += event->complete;
        a->closed++;
    }
}

struct answer_call *answer_deferred_call(const struct answer_parts *a)
{
    struct answer_call *call = a->call_count > 0 ? &a->calls[a->call_count - 1] : NULL;
    return call && call->deferred && !call->closed ? call : NULL;
}

bool answer_cut(struct answer_parts *a)
{
    struct answer_call *call = &a->calls[a->call_count - 1];
    struct text text = text_span(call->arguments.at, call->arguments.bytes);
    struct json_buffer object = {0};
    if (!json_begun(text))
        return false;
    json_begun_put(&object, text);
    call->arguments.bytes = 0;
    text_add(a, &call->arguments, text_span(object.at, object.bytes));
    run_last(a)->bytes = call->arguments.bytes;
    json_buffer_free(&object);
    return true;
}

bool answer_unwrap(struct answer_parts *a, bool cut)
{
    struct answer_call *call = answer_deferred_call(a);
    json_t *object = NULL;
    struct error err;
    if (!call || !call->custom || a->arena_full)
        return true;
    struct text arguments = text_span(call->arguments.at, call->arguments.bytes);
    bool parsed = json_parse(&object, arguments, &err) == STATUS_OK;
    const json_t *input = parsed ? json_object_get(object, ANSWER_CUSTOM_INPUT) : NULL;
    bool found = json_is_string(input) || cut;
    if (found) {
        call->arguments.bytes = 0;
        text_add(a, &call->arguments, json_text(input));
        run_last(a)->bytes = call->arguments.bytes;
    }
    json_decref(object);
    return found;
}

size_t answer_break(struct answer_parts *a, struct arena_text *text)
{
    struct answer_call *call = &a->calls[a->call_count - 1];
    size_t before = text->bytes;
    text_add(a, text, call->name);
    text_add(a, text, text_of(" "));
    text_add(a, text, text_span(call->arguments.at, call->arguments.bytes));
    *run_last(a) = (struct answer_run){RUN_TEXT, text->bytes - before, a->call_count, NULL};
    call->arguments.bytes = 0;
    call->broken = true;
    return text->bytes - before;
}

// Returns true if the run belongs to a tool call whose output is deferred until it is complete.
static bool run_is_deferred(const struct answer_parts *a, const struct answer_run *run)
{
    return run->kind == RUN_CALL && answer_deferred_call(a) == &a->calls[run->call - 1];
}

size_t answer_pending(const struct answer_parts *a)
{
    size_t bytes = 0;
    for (uint32_t i = a->run_next; i < a->run_count && !run_is_deferred(a, &a->runs[i]); i++) {
        const struct answer_run *run = &a->runs[i];
        bool head = run->kind == RUN_CALL && !a->calls[run->call - 1].begun;
        bytes += run->bytes + (head ? HEAD_PENDING : 0);
    }
    return bytes;
}

struct answer_piece answer_piece(const struct answer_parts *a, const struct arena_text *text)
{
    if (a->run_next == a->run_count)
        return (struct answer_piece){.kind = RUN_TEXT};
    const struct answer_run *run = &a->runs[a->run_next];
    const struct answer_call *call = run->kind == RUN_CALL ? &a->calls[run->call - 1] : NULL;
    const char *at = run->echo                    ? run->echo
                     : call                       ? call->arguments.at + call->written
                     : run->kind == RUN_REASONING ? a->reasoning.at + a->reasoning_written
                                                  : text->at + a->text_written;
    size_t bytes = smaller(run->bytes, (size_t)ANSWER_PIECE_MAX);
    return (struct answer_piece){.kind = run->kind,
                                 .text = text_span(at, utf8_until(at, bytes, run->bytes)),
                                 .call = run->call};
}

static void runs_reset(struct answer_parts *a)
{
    a->run_count = a->run_next = 0;
    a->text_written = a->reasoning_written = a->reasoning.bytes = 0;
    for (uint32_t i = 0; i < a->call_count; i++)
        a->calls[i].arguments.bytes = a->calls[i].written = 0;
}

bool answer_advance(struct answer_parts *a, const struct answer_piece *piece)
{
    if (a->run_next == a->run_count)
        return true;
    struct answer_run *run = &a->runs[a->run_next];
    size_t bytes = piece->text.bytes;
    run->bytes -= bytes;
    if (run->echo)
        run->echo += bytes;
    else if (run->kind == RUN_TEXT)
        a->text_written += bytes;
    else if (run->kind == RUN_REASONING)
        a->reasoning_written += bytes;
    else
        a->calls[run->call - 1].written += bytes;
    if (run->kind == RUN_CALL)
        a->calls[run->call - 1].begun = true;
    a->run_next += run->bytes == 0;
    if (a->run_next < a->run_count)
        return false;
    runs_reset(a);
    return true;
}
