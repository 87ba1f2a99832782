// SPDX-License-Identifier: Apache-2.0
// Reply reader: headers that no marker matches, such as "<|channel|>commentary?<|message|>". They
// are dropped and text follows. A header with a recipient ("to=") is the head of a call in any
// order of its words, or text if its recipient is no tool; see read.h.
#include "runtime/text/dialect/read.h"

enum { HEADER_MAX = 128 }; // maximum number of symbols after the mark; a longer header is text

// Returns the number of symbols of the header marker with which the held symbols begin after
// blanks, or 0.
static size_t header_mark(const struct reply *r)
{
    const struct dialect *d = r->args.dialect;
    size_t count = r->held_count - r->from;
    for (uint32_t i = 0; i < d->marker_count; i++) {
        const struct dialect_marker *marker = &d->markers[i];
        if (marker->role == ROLE_HEADER && count >= marker->count &&
            (marker->symbols[0] & READ_SPECIAL) != 0 &&
            memcmp(marker->symbols, r->held + r->from, marker->count * sizeof *r->held) == 0)
            return marker->count;
    }
    return 0;
}

// Returns the number of held symbols up to the recipient, or 0 if there is none.
static size_t recipient_at(const struct reply *r)
{
    static const char to[] = "to=";
    size_t same = 0, i = r->header;
    for (; i < r->held_count && same < sizeof to - 1; i++)
        same = r->held[i] == (unsigned char)to[same] ? same + 1 : r->held[i] == 't';
    return same == sizeof to - 1 ? i : 0;
}

// Begins a call if the recipient is a function. Returns false if it is not.
static bool call_begin(struct reply *r, size_t at)
{
    static const char prefix[] = "functions.";
    const size_t skip = sizeof prefix - 1;
    char name[HEADER_MAX];
    size_t bytes = 0;
    for (; bytes < sizeof name && r->held[at] > ' ' && r->held[at] < READ_SPECIAL; at++)
        name[bytes++] = (char)r->held[at];
    bool function = bytes > skip && memcmp(name, prefix, skip) == 0;
    size_t from = function ? skip : 0;
    struct text called = text_span(name + from, bytes - from);
    const json_t *schema;
    bool known = r->args.tools ? tool_schema(r->args.tools, called, &schema) : function;
    if (!r->args.calls || !known || called.bytes == 0 || called.bytes > REPLY_NAME_MAX)
        return false;
    read_call_open(r);
    memcpy(r->name, called.at, called.bytes);
    r->name_bytes = (uint8_t)called.bytes;
    r->from = r->held_count;
    r->mode = READ_BODY;
    return true;
}

// Compares the newest held symbols with the mark before the content type, which may be anywhere in
// a header.
static int constrain_try(const struct reply *r)
{
    static const char mark[] = "<|constrain|>";
    size_t count = r->held_count - r->from;
    for (size_t i = 0; i < count; i++)
        if (i == sizeof mark - 1 || (r->held[r->from + i] & 0xFF) != (unsigned char)mark[i])
            return TRY_NONE;
    return count == sizeof mark - 1 ? 0 : TRY_PART;
}

// Text follows. It does not begin a part, in agreement with the budget for reasoning.
static void header_over(struct reply *r, bool shown)
{
    size_t count = shown ? r->held_count : 0;
    r->mode = READ_TEXT;
    r->head = false;
    r->trim = !r->any_text;
    read_put_held(r, count);
    r->held_count = r->from = 0;
}

void read_header(struct reply *r, unsigned symbol)
{
    if (!read_hold(r, symbol))
        return;
    if ((symbol & READ_SPECIAL) == 0) {
        r->from = r->held_count;
        if (r->held_count - r->header > HEADER_MAX)
            header_over(r, true);
        return;
    }
    int marker = read_try(r, ROLE_BIT(ROLE_NAME_CLOSE)), constrain = constrain_try(r);
    if (marker >= 0) {
        size_t to = recipient_at(r);
        if (to == 0 || !call_begin(r, to))
            header_over(r, to > 0);
    } else if (constrain >= 0) {
        r->from = r->held_count;
    } else if (marker == TRY_NONE &&
               constrain == TRY_NONE) { // another marker begins; this header is dropped
        size_t from = r->from;
        r->mode = READ_TEXT;
        r->head = false;
        read_again(r, from);
    }
}

// Enters READ_HEADER if the held symbols begin a header. Returns true if they do.
bool read_header_begin(struct reply *r)
{
    size_t mark =
        r->mode == READ_TEXT && r->args.reasoning && !r->args.has_text_grammar ? header_mark(r) : 0;
    if (mark == 0)
        return false;
    size_t blanks = r->from, end = r->held_count;
    uint16_t later[DIALECT_MARKER_BYTES];
    uint32_t at[DIALECT_MARKER_BYTES], now = r->at;
    size_t count = end - blanks - mark;
    check(count <= DIALECT_MARKER_BYTES, "%zu symbols follow a header's mark", count);
    memcpy(later, r->held + blanks + mark, count * sizeof *later);
    memcpy(at, r->held_at + blanks + mark, count * sizeof *at);
    read_put_held(r, blanks);
    read_drop(r, blanks);
    r->held_count = r->from = r->header = mark;
    r->mode = READ_HEADER;
    for (size_t i = 0; i < count; i++) {
        r->at = at[i];
        read_symbol(r, later[i]);
    }
    r->at = now;
    return true;
}
