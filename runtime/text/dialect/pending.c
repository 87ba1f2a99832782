// SPDX-License-Identifier: Apache-2.0
// Reply reader: a call inside of open reasoning; see read.h. It is held: it is reasoning if the
// reasoning closes later, and a call if the answer ends first. A second reader finds out whether it
// names a tool at all.
#include "runtime/text/dialect/read.h"

enum { AGAIN_LAST = 128 }; // maximum number of symbols that are read again

bool read_pending_allowed(const struct reply *r)
{
    return r->args.calls && !r->args.must && !r->args.has_text_grammar;
}

static void inner_end(struct reply *r)
{
    reply_destroy(r->inner);
    r->inner = NULL;
}

static bool has_call(const struct reply_event *events, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (events[i].kind == REPLY_CALL)
            return true;
    return false;
}

// Gives a symbol to the second reader. Returns false if it does not begin a call of a tool.
static bool inner_read(struct reply *r, unsigned symbol)
{
    char byte = (char)symbol;
    uint32_t count;
    const struct reply_event *events =
        reply_feed(r->inner, text_span(&byte, 1), (symbol & READ_SPECIAL) != 0, &count);
    for (uint32_t i = 0; i < count; i++) {
        r->inner_calls |= events[i].kind == REPLY_CALL;
        if (events[i].kind == REPLY_TEXT && !r->inner_calls)
            return false;
    }
    return r->inner_calls || r->inner->mode != READ_TEXT || r->inner->held_count > 0;
}

// No call: emits the held symbols as reasoning, except the last ones, in which a marker may begin.
static void pending_failed(struct reply *r)
{
    size_t count = 0;
    while (read_blank(r->held[count]))
        count++;
    count++; // of the marker, so that it is not found again
    if (r->held_count - count > AGAIN_LAST)
        count = r->held_count - AGAIN_LAST;
    inner_end(r);
    read_put_held(r, count);
    read_again(r, count);
}

void read_pending_begin(struct reply *r)
{
    struct reply_args args = r->args;
    args.start = DIALECT_START_TEXT;
    args.reasoning = false;
    args.keep_special = true; // a special token is text, which shows that there is no call
    r->inner = reply_create(&args);
    r->inner_calls = false;
    for (size_t i = r->from; i < r->held_count; i++)
        inner_read(r, r->held[i]);
}

// Returns the number of symbols of the marker that closes reasoning with which the held ones end.
static size_t close_bytes(const struct reply *r)
{
    const struct dialect *d = r->args.dialect;
    for (uint32_t i = 0; i < d->marker_count; i++) {
        const struct dialect_marker *marker = &d->markers[i];
        if (marker->role == ROLE_REASONING_CLOSE && r->held_count >= marker->count &&
            memcmp(r->held + r->held_count - marker->count, marker->symbols,
                   marker->count * sizeof *r->held) == 0)
            return marker->count;
    }
    return 0;
}

void read_pending(struct reply *r, unsigned symbol)
{
    if (r->held_count + 1 >= REPLY_HELD_MAX) {
        inner_end(r);
        read_put_held(r, r->held_count);
        r->held_count = r->from = 0;
        read_symbol(r, symbol);
        return;
    }
    read_hold(r, symbol);
    size_t close = close_bytes(r);
    if (close == 0) {
        if (!inner_read(r, symbol))
            pending_failed(r);
        return;
    }
    size_t count = r->held_count - close;
    for (int i = 0; i < READ_BLANKS_MAX && count > 0 && read_blank(r->held[count - 1]); i++)
        count--;
    inner_end(r);
    read_put_held(r, count);
    read_reasoning_closed(r);
}

// The answer ends: the held symbols are read again, as calls.
void read_pending_finish(struct reply *r)
{
    size_t count = r->held_count;
    uint16_t *symbols = r->held;
    uint32_t *at = r->held_at;
    uint32_t event_count;
    const struct reply_event *events = reply_finish(r->inner, &event_count);
    bool calls = r->inner_calls || has_call(events, event_count);
    inner_end(r);
    if (!calls) {
        read_put_held(r, count);
        r->held_count = r->from = 0;
        return;
    }
    r->held = NULL;
    r->held_at = NULL;
    r->held_max = 0;
    read_reasoning_closed(r);
    for (size_t i = 0; i < count; i++) {
        r->at = at[i];
        read_symbol(r, symbols[i]);
    }
    heap_free(symbols);
    heap_free(at);
}
