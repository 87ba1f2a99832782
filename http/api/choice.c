// Choices: see choice.h.
#include "http/api/choice.h"

#include "base/number.h"
#include "base/utf8.h"
#include "http/api/call.h"

#include <string.h>

enum {
    LOGPROB_PENDING = 64,  // an entry counts as so many bytes of text
    PIECE_ENTRIES_MAX = 8, // of a stream's chunk
};

bool choice_options_open(struct choice_options *o, struct arena *arena,
                         const struct tokenizer *tokenizer)
{
    uint32_t bound = detok_bound(tokenizer);
    o->arena = arena;
    o->tokenizer = tokenizer;
    o->piece_max = bound < 16 ? 16 : bound;
    o->piece = arena_take(arena, o->piece_max);
    return o->piece != NULL;
}

bool choice_open(struct choice *c, const struct choice_options *o)
{
    *c = (struct choice){0};
    detok_init(&c->detok, o->tokenizer, !o->special_shown && !o->reads_reply);
    if (o->reply.formed)
        detok_exact(&c->detok);
    else if (o->continues)
        detok_continue(&c->detok);
    c->logprobs = (struct logprobs){.arena = o->arena, .top_max = o->top_logprobs};
    c->answer.arena = o->arena;
    c->answer.id_prefix = o->call_ids;
    c->answer.whole_calls = o->whole_calls;
    c->answer.eager = o->eager;
    if (o->reads_reply)
        answer_open(&c->answer, &o->reply, o->continued);
    c->made = c->answer.from;
    return stop_scan_init(&c->scan, &o->stops, o->arena, o->piece_max);
}

static void text_append(struct choice *c, const struct choice_options *o, struct text t)
{
    c->text_lost = c->text_lost || !arena_text_add(o->arena, &c->text, t);
    c->given += t.bytes;
    answer_text(&c->answer, t.bytes);
}

static uint64_t characters(struct text t)
{
    uint64_t count = 0;
    for (size_t i = 0; i < t.bytes; i++)
        count += ((unsigned char)t.at[i] & 0xC0) != 0x80;
    return count;
}

// A call that does not complete gives up to REPLY_HELD_MAX bytes at once; the scan takes piece_max.
static void text_take(struct choice *c, const struct choice_options *o, struct text text)
{
    if (c->output_tokens <= o->stops_from) {
        text_append(c, o, text);
        return;
    }
    for (size_t at = 0; at < text.bytes && !c->scan.found; at += o->piece_max) {
        struct text piece = text_span(text.at + at, smaller(text.bytes - at, (size_t)o->piece_max));
        text_append(c, o, stop_scan_push(&c->scan, piece, c->output_tokens));
    }
}

// Bytes [from, from + text.bytes) of what was generated are text.
static void text_found(struct choice *c, const struct choice_options *o, uint64_t from,
                       struct text text)
{
    logprobs_text(&c->logprobs, from, text.bytes, c->text_made);
    c->text_made += text.bytes;
    text_take(c, o, text);
}

// A limit came inside of the answer's last call.
static bool call_is_cut(const struct choice *c)
{
    return c->finish == FINISH_LENGTH || c->finish == FINISH_CONTEXT;
}

static void call_end(struct choice *c, const struct reply_event *event)
{
    bool mend = !event->complete && !c->answer.lost && answer_whole_call(&c->answer);
    if (mend && !(call_is_cut(c) && answer_cut(&c->answer)))
        c->given += answer_break(&c->answer, &c->text);
    answer_take(&c->answer, event);
}

static void event_take(struct choice *c, const struct choice_options *o, struct reply_event event)
{
    bool own = event.kind != REPLY_TEXT && event.kind != REPLY_REASONING;
    if (!own && event.from < c->answer.from) { // of the message that is continued
        size_t before = smaller((size_t)(c->answer.from - event.from), event.text.bytes);
        event.text = text_span(event.text.at + before, event.text.bytes - before);
        event.from += (uint32_t)before;
    }
    if (event.kind == REPLY_TEXT)
        text_found(c, o, event.from, event.text);
    else if (event.kind == REPLY_REASONING && o->hides_reasoning)
        return;
    else if (event.kind == REPLY_REASONING || event.kind == REPLY_CALL)
        text_append(c, o, stop_scan_finish(&c->scan)); // no stop string goes on after it
    if (c->scan.found || event.kind == REPLY_TEXT)
        return;
    if (event.kind == REPLY_CALL_END)
        call_end(c, &event);
    else
        answer_take(&c->answer, &event);
}

static void events_take(struct choice *c, const struct choice_options *o,
                        const struct reply_event *events, uint32_t count)
{
    for (uint32_t i = 0; i < count && !c->scan.found && !c->enough; i++) {
        event_take(c, o, events[i]);
        c->enough = o->one_call && c->answer.closed > 0;
    }
}

// Bytes of the detokenizer, of which the last so many are a special token's.
static void piece_take(struct choice *c, const struct choice_options *o, uint32_t bytes,
                       uint32_t special)
{
    struct text piece = text_span(o->piece, bytes);
    const struct reply_event *events;
    uint32_t count;
    c->made += bytes;
    c->chars += characters(piece);
    if (!o->reads_reply) {
        text_found(c, o, c->made - bytes, piece);
        logprobs_show(&c->logprobs, c->given, c->made);
        return;
    }
    events = reply_feed(c->answer.reply, text_span(o->piece, bytes - special), false, &count);
    events_take(c, o, events, count);
    piece = text_span(o->piece + bytes - special, special);
    events = reply_feed(c->answer.reply, piece, true, &count);
    events_take(c, o, events, count);
    logprobs_show(&c->logprobs, c->given, reply_settled(c->answer.reply));
}

// How many of the bytes that a token gave are its own, where it is a special one.
static uint32_t special_bytes(const struct choice_options *o, int32_t token, uint32_t bytes)
{
    if (!o->reads_reply || !tokenizer_is_special(o->tokenizer, token))
        return 0;
    struct text own = tokenizer_token_bytes(o->tokenizer, token);
    return own.bytes < bytes ? (uint32_t)own.bytes : bytes;
}

// A token without a text of its own has no entry.
static bool has_entry(const struct choice_options *o, int32_t token)
{
    return o->logprobs && tokenizer_token_bytes(o->tokenizer, token).bytes > 0 &&
           (o->special_shown || !tokenizer_is_special(o->tokenizer, token));
}

static void token_take(struct choice *c, const struct choice_options *o,
                       const struct token_event *event, const struct token_top *tops)
{
    bool reasons = o->reads_reply && reply_in_reasoning(c->answer.reply);
    uint32_t bytes = detok_push(&c->detok, event->token, o->piece, o->piece_max);
    struct logprob entry = {.token = event->token,
                            .logprob = event->logprob,
                            .top_count = event->top_count,
                            .from = c->made,
                            .end = c->made + bytes + (c->detok.held_bytes > 0),
                            .chars = c->chars + c->detok.given_up};
    if (has_entry(o, event->token))
        logprobs_add(&c->logprobs, &entry, tops);
    piece_take(c, o, bytes, special_bytes(o, event->token, bytes));
    reasons = reasons || (o->reads_reply && reply_in_reasoning(c->answer.reply));
    c->answer.reasoning_tokens += reasons;
}

// An incomplete character comes out.
static void character_end(struct choice *c, const struct choice_options *o)
{
    piece_take(c, o, detok_finish(&c->detok, o->piece, o->piece_max), 0);
}

// The token that ends the answer is no text, but it may be what closes a call.
static void end_token_take(struct choice *c, const struct choice_options *o, int32_t token)
{
    const struct reply_event *events;
    uint32_t count;
    if (!o->reads_reply || !tokenizer_is_special(o->tokenizer, token))
        return;
    c->answer.reasoning_tokens += reply_in_reasoning(c->answer.reply);
    character_end(c, o);
    struct text own = tokenizer_token_bytes(o->tokenizer, token);
    events = reply_feed_end(c->answer.reply, own, &count);
    c->made += own.bytes;
    events_take(c, o, events, count);
}

// The end of the text: incomplete characters and held-back text come out.
static void text_end(struct choice *c, const struct choice_options *o)
{
    if (!c->enough)
        character_end(c, o);
    if (o->reads_reply && !c->scan.found && !c->enough) {
        uint32_t count;
        const struct reply_event *events = reply_finish(c->answer.reply, &count);
        events_take(c, o, events, count);
    }
    if (!c->scan.found)
        text_append(c, o, stop_scan_finish(&c->scan));
}

static void choice_end(struct choice *c, const struct choice_options *o, uint8_t finish)
{
    c->over = true;
    c->finish = finish;
    bool enough = c->enough; // a call that the end itself closes is no reason for the end
    if (!c->scan.found)
        text_end(c, o);
    c->enough = enough;
    logprobs_show(&c->logprobs, c->given, UINT64_MAX);
    if (c->scan.found) {
        c->output_tokens = c->scan.tokens;
        c->end = END_STOP_STRING;
    } else if (finish == FINISH_STOP || c->enough) {
        c->end = END_TURN;
    } else {
        c->end = o->window_bound || finish == FINISH_CONTEXT ? END_WINDOW : END_LENGTH;
    }
}

void choice_take(struct choice *c, const struct choice_options *o, const struct token_event *event,
                 const struct token_top *tops)
{
    if (c->over)
        return;
    if (event->flags & EVENT_TOKEN) {
        c->output_tokens++;
        if (event->finish != FINISH_STOP || o->stops.included)
            token_take(c, o, event, tops);
        else
            end_token_take(c, o, event->token);
    }
    if (c->scan.found || c->enough || event->finish != FINISH_NONE)
        choice_end(c, o, event->finish);
}

bool choice_failed(const struct choice *c)
{
    bool answered = c->scan.found || c->enough ||
                    (c->finish != FINISH_NONE && !finish_told(c->finish)->failure);
    return c->text_lost || c->logprobs.lost || c->answer.lost || (c->over && !answered);
}

size_t choice_pending(const struct choice *c)
{
    return answer_pending(&c->answer) + (size_t)LOGPROB_PENDING * c->logprobs.visible;
}

struct answer_piece choice_piece(const struct choice *c)
{
    struct answer_piece piece = answer_piece(&c->answer, &c->text);
    uint64_t written = c->given - (c->text.bytes - c->answer.text_written);
    if (piece.kind != RUN_TEXT)
        return piece;
    piece.entries = smaller(c->logprobs.visible, (uint32_t)PIECE_ENTRIES_MAX);
    if (piece.entries < c->logprobs.visible) { // no more text than their own
        uint64_t until = c->logprobs.entries[piece.entries - 1].text_end;
        size_t bytes = until < written ? 0 : (size_t)(until - written);
        if (bytes < piece.text.bytes)
            piece.text.bytes = utf8_until(piece.text.at, bytes, piece.text.bytes);
    }
    while (piece.entries > 0 &&
           c->logprobs.entries[piece.entries - 1].text_end > written + piece.text.bytes)
        piece.entries--;
    return piece;
}

void choice_sent(struct choice *c)
{
    struct answer_piece piece = choice_piece(c);
    logprobs_sent(&c->logprobs, piece.entries);
    if (answer_sent(&c->answer, &piece))
        c->text.bytes = 0;
}

void choice_close(struct choice *c)
{
    answer_close(&c->answer);
}
