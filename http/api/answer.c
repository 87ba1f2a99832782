// Reasoning and tool calls of an answer: see answer.h.
#include "http/api/answer.h"

#include "http/ids.h"

enum { HEAD_PENDING = 64 }; // a call's head counts as so many bytes

void answer_open(struct answer_parts *a, const struct reply_args *args,
                 const struct answer_parts *continued)
{
    a->dialect = args->dialect;
    a->reply = continued ? reply_copy(continued->reply) : reply_open(args);
    if (!continued)
        return;
    a->from = continued->from;
    a->lost = continued->lost;
    if (continued->call_count > continued->closed) { // the answer goes on inside of a call
        const struct answer_call *open = &continued->calls[continued->call_count - 1];
        struct text so_far = text_span(open->arguments.at, open->arguments.bytes);
        answer_take(a, &(struct reply_event){REPLY_CALL, .text = open->name, .id = open->id});
        answer_take(a, &(struct reply_event){REPLY_ARGUMENTS, .text = so_far});
    }
}

void answer_continue(struct answer_parts *a, struct text piece)
{
    uint32_t count;
    const struct reply_event *events = reply_feed(a->reply, piece, false, &count);
    for (uint32_t i = 0; i < count; i++)
        if (events[i].kind != REPLY_REASONING)
            answer_take(a, &events[i]);
    a->from += (uint32_t)piece.bytes;
}

void answer_close(struct answer_parts *a)
{
    reply_close(a->reply);
    a->reply = NULL;
}

static void text_add(struct answer_parts *a, struct arena_text *t, struct text more)
{
    a->lost = !arena_text_add(a->arena, t, more);
}

enum { OWN_LETTERS = 9 };

// Models copy ids from what they read; those of an answer differ.
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

// Templates of some dialects take no ids but their own kind.
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
        a->lost = true;
        return;
    }
    a->calls = calls;
    struct answer_call call = {.id = id_of(a, event), .name = arena_copy(a->arena, event->text)};
    if (!call.id.at || !call.name.at)
        a->lost = true;
    else
        a->calls[a->call_count++] = call;
}

// Text and reasoning join what came before them; so do the parts of one call.
static void run_add(struct answer_parts *a, struct answer_run run)
{
    if (run.kind != RUN_CALL && run.bytes == 0)
        return;
    struct answer_run *last = a->run_count > 0 ? &a->runs[a->run_count - 1] : NULL;
    if (last && last->kind == run.kind && last->call == run.call) {
        last->bytes += run.bytes;
        return;
    }
    struct answer_run *runs =
        arena_extend(a->arena, a->runs, a->run_count, &a->run_max, sizeof *runs);
    if (!runs) {
        a->lost = true;
        return;
    }
    a->runs = runs;
    a->runs[a->run_count++] = run;
}

void answer_text(struct answer_parts *a, size_t bytes)
{
    if (!a->lost)
        run_add(a, (struct answer_run){RUN_TEXT, bytes, 0});
}

void answer_take(struct answer_parts *a, const struct reply_event *event)
{
    if (a->lost)
        return;
    if (event->kind == REPLY_REASONING) {
        text_add(a, &a->reasoning, event->text);
        run_add(a, (struct answer_run){RUN_REASONING, event->text.bytes, 0});
    } else if (event->kind == REPLY_CALL) {
        call_add(a, event);
        run_add(a, (struct answer_run){RUN_CALL, 0, a->call_count});
    } else if (event->kind == REPLY_ARGUMENTS) {
        text_add(a, &a->calls[a->call_count - 1].arguments, event->text);
        run_add(a, (struct answer_run){RUN_CALL, 0, a->call_count});
    } else if (event->kind == REPLY_CALL_END) {
        a->calls[a->call_count - 1].complete = event->complete;
        a->complete += event->complete;
        a->closed++;
    }
}

size_t answer_pending(const struct answer_parts *a)
{
    size_t bytes = a->reasoning.bytes;
    for (uint32_t i = 0; i < a->call_count; i++)
        bytes += a->calls[i].arguments.bytes + (a->calls[i].begun ? 0 : HEAD_PENDING);
    return bytes;
}

void answer_sent(struct answer_parts *a)
{
    a->reasoning.bytes = 0;
    a->run_count = 0;
    for (uint32_t i = 0; i < a->call_count; i++) {
        a->calls[i].begun = true;
        a->calls[i].arguments.bytes = 0;
    }
}
