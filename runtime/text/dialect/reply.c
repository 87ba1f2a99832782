// SPDX-License-Identifier: Apache-2.0
// The reply reader, see reply.h: its lifecycle, the events, and the text and reasoning around
// calls. Symbols are read one by one, so the pieces in which the answer arrives only affect how
// events are joined.
#include "runtime/text/dialect/read.h"

#include "base/arena.h"

enum {
    ROLES_CALL = ROLE_BIT(ROLE_SECTION_OPEN) | ROLE_BIT(ROLE_CALL_OPEN),
    ROLES_CALL_OVER = ROLES_CALL | ROLE_BIT(ROLE_SECTION_CLOSE) | ROLE_BIT(ROLE_CALL_CLOSE),
    ROLES_PART = ROLE_BIT(ROLE_DROP) | ROLE_BIT(ROLE_MESSAGE),
    AGAIN_MAX = READ_BLANKS_MAX + DIALECT_MARKER_BYTES + 8,
};

// --- events ---

static struct reply_event *event_add(struct reply *r, enum reply_event_kind kind)
{
    if (r->event_count == r->event_max) {
        r->event_max = r->event_max == 0 ? 16 : 2 * r->event_max;
        r->events = heap_grow(r->events, r->event_max * sizeof *r->events);
        r->starts = heap_grow(r->starts, r->event_max * sizeof *r->starts);
    }
    struct reply_event *event = &r->events[r->event_count];
    r->starts[r->event_count++] = r->out.bytes;
    *event = (struct reply_event){.kind = kind, .call = r->call};
    return event;
}

static void event_put(struct reply *r, enum reply_event_kind kind, const char *at, size_t bytes)
{
    struct reply_event *last = r->event_count > 0 ? &r->events[r->event_count - 1] : NULL;
    if (!last || last->kind != kind || last->call != r->call)
        last = event_add(r, kind);
    json_put_raw(&r->out, text_span(at, bytes));
    last->text.bytes += bytes;
}

// Emits a byte of text or reasoning; `at` is the offset of its symbol. Bytes of one event are
// contiguous.
static void byte_put(struct reply *r, enum reply_event_kind kind, char byte, uint32_t at)
{
    struct reply_event *last = r->event_count > 0 ? &r->events[r->event_count - 1] : NULL;
    if (!last || last->kind != kind || last->call != r->call || last->from + last->text.bytes != at)
        event_add(r, kind)->from = at;
    read_put(r, kind, &byte, 1);
}

// Most readers reject JSON with an unpaired surrogate, so it is replaced by U+FFFD. An escape is
// held until it is complete, and the first half of a pair until the next escape is known.

static void escape_drop(struct reply *r, size_t count)
{
    r->escape_bytes = (uint8_t)(r->escape_bytes - count);
    memmove(r->escape, r->escape + count, r->escape_bytes);
}

static void escape_out(struct reply *r, size_t count)
{
    event_put(r, REPLY_ARGUMENTS, r->escape, count);
    escape_drop(r, count);
}

static void escape_replace(struct reply *r)
{
    event_put(r, REPLY_ARGUMENTS, "\\ufffd", ESCAPE_BYTES);
    escape_drop(r, ESCAPE_BYTES);
}

// Returns the value of the \uXXXX at offset `at` of the held escape, TRY_PART or TRY_NONE.
static int64_t escape_at(const struct reply *r, size_t at)
{
    static const char begin[] = "\\u";
    size_t i = 0;
    for (; i < ESCAPE_BYTES && at + i < r->escape_bytes; i++)
        if (i < 2 ? r->escape[at + i] != begin[i] : text_hex(r->escape[at + i]) < 0)
            return TRY_NONE;
    return i < ESCAPE_BYTES ? TRY_PART : text_hex_read(text_span(r->escape + at + 2, 4), 4);
}

// Emits the held escapes as far as they are known. over: nothing follows them.
static void escape_settle(struct reply *r, bool over)
{
    while (r->escape_bytes > 0) {
        int64_t first = escape_at(r, 0), second = TRY_NONE;
        bool high = first >= 0xD800 && first <= 0xDBFF, low = first >= 0xDC00 && first <= 0xDFFF;
        if (high)
            second = escape_at(r, ESCAPE_BYTES);
        if (!over && (first == TRY_PART || second == TRY_PART))
            return;
        if (low || (high && (second < 0xDC00 || second > 0xDFFF)))
            escape_replace(r);
        else if (high)
            escape_out(r, 2 * (size_t)ESCAPE_BYTES);
        else if (first >= 0)
            escape_out(r, ESCAPE_BYTES);
        else // another escape: two bytes, of which the second may be a backslash
            escape_out(r, r->escape_bytes < 2 ? 1 : 2);
    }
}

static void arguments_put(struct reply *r, const char *at, size_t bytes)
{
    for (size_t from = 0, i = 0; i < bytes; from = ++i) {
        while (r->escape_bytes == 0 && i < bytes && at[i] != '\\')
            i++;
        if (i > from)
            event_put(r, REPLY_ARGUMENTS, at + from, i - from);
        if (i == bytes)
            return;
        r->escape[r->escape_bytes++] = at[i];
        escape_settle(r, false);
    }
}

void read_put(struct reply *r, enum reply_event_kind kind, const char *at, size_t bytes)
{
    if (kind == REPLY_ARGUMENTS)
        arguments_put(r, at, bytes);
    else
        event_put(r, kind, at, bytes);
}

void read_argument(struct reply *r, char byte)
{
    arguments_put(r, &byte, 1);
}

void read_argument_escaped(struct reply *r, char byte)
{
    escape_settle(r, true);
    size_t before = r->out.bytes;
    event_put(r, REPLY_ARGUMENTS, "", 0);
    json_put_escaped(&r->out, text_span(&byte, 1));
    r->events[r->event_count - 1].text.bytes += r->out.bytes - before;
}

void read_arguments(struct reply *r, const char *literal)
{
    read_put(r, REPLY_ARGUMENTS, literal, strlen(literal));
}

static const struct reply_event *events_out(struct reply *r, uint32_t *count)
{
    for (uint32_t i = 0; i < r->event_count; i++) {
        struct reply_event *event = &r->events[i];
        event->text.at = r->out.at ? r->out.at + r->starts[i] : "";
        event->id.at = event->text.at + event->text.bytes;
    }
    *count = r->event_count;
    return r->events;
}

static void events_reset(struct reply *r)
{
    r->out.bytes = 0;
    r->event_count = 0;
}

// --- held symbols and markers ---

bool read_hold(struct reply *r, unsigned symbol)
{
    if (r->held_count == r->held_max) {
        r->held_max = r->held_max == 0 ? 256 : 2 * r->held_max;
        r->held = heap_grow(r->held, r->held_max * sizeof *r->held);
        r->held_at = heap_grow(r->held_at, r->held_max * sizeof *r->held_at);
    }
    r->held_at[r->held_count] = r->at;
    r->held[r->held_count++] = (uint16_t)symbol;
    if (r->committed || r->held_count < REPLY_HELD_MAX)
        return true;
    r->from = r->held_count - 1;
    read_head_failed(r);
    return false;
}

void read_drop(struct reply *r, size_t count)
{
    r->held_count -= count;
    memmove(r->held, r->held + count, r->held_count * sizeof *r->held);
    memmove(r->held_at, r->held_at + count, r->held_count * sizeof *r->held_at);
    r->from = 0;
}

void read_skip_blanks(struct reply *r)
{
    while (r->from < r->held_count && read_blank(r->held[r->from]))
        r->from++;
}

enum marker_role read_role(const struct reply *r, int marker)
{
    return (enum marker_role)r->args.dialect->markers[marker].role;
}

bool read_has_role(const struct reply *r, enum marker_role role)
{
    for (uint32_t i = 0; i < r->args.dialect->marker_count; i++)
        if (read_role(r, (int)i) == role)
            return true;
    return false;
}

// If the text has a grammar, a marker without special tokens may belong to it.
static bool marker_is_text(const struct reply *r, const struct dialect_marker *marker)
{
    return r->args.has_text_grammar && (ROLE_BIT(marker->role) & ROLES_PART) != 0 &&
           (marker->symbols[0] & READ_SPECIAL) == 0;
}

int read_try(const struct reply *r, uint32_t roles)
{
    const struct dialect *d = r->args.dialect;
    size_t count = r->held_count - r->from;
    int found = TRY_NONE;
    for (uint32_t i = 0; i < d->marker_count; i++) {
        const struct dialect_marker *marker = &d->markers[i];
        if ((roles & ROLE_BIT(marker->role)) == 0 || count > marker->count ||
            marker_is_text(r, marker) ||
            memcmp(marker->symbols, r->held + r->from, count * sizeof *r->held) != 0)
            continue;
        if (count == marker->count)
            return (int)i;
        found = TRY_PART;
    }
    return found;
}

void read_again(struct reply *r, size_t from)
{
    uint16_t symbols[AGAIN_MAX];
    uint32_t at[AGAIN_MAX], now = r->at;
    size_t count = r->held_count - from;
    check(count <= AGAIN_MAX, "%zu symbols are held", count);
    memcpy(symbols, r->held + from, count * sizeof *symbols);
    memcpy(at, r->held_at + from, count * sizeof *at);
    r->held_count = r->from = 0;
    for (size_t i = 0; i < count; i++) {
        r->at = at[i];
        read_symbol(r, symbols[i]);
    }
    r->at = now;
}

// --- text and reasoning ---

static bool symbol_is_shown(const struct reply *r, unsigned symbol)
{
    return r->args.keep_special || (symbol & READ_SPECIAL) == 0;
}

// Drops blanks after reasoning or a call. Text with a grammar may begin with blanks, so only up to
// READ_GAP line ends are dropped before it (see `gap` in dialect/grammar.c).
static bool symbol_is_trimmed(struct reply *r, unsigned symbol)
{
    if (!r->trim || !read_blank(symbol))
        return false;
    if (!r->args.has_text_grammar || r->mode == READ_REASONING)
        return true;
    return symbol == '\n' && r->gap < READ_GAP && ++r->gap > 0;
}

static void put_outside(struct reply *r, unsigned symbol, uint32_t at)
{
    bool reasoning = r->mode == READ_REASONING, blank = read_blank(symbol);
    if (!reasoning && !blank)
        r->head = false; // also for a special token that is not emitted: the grammar counts it
    if (!symbol_is_shown(r, symbol) || symbol_is_trimmed(r, symbol))
        return;
    r->trim = false;
    if (!reasoning && !blank)
        r->any_text = true;
    byte_put(r, reasoning ? REPLY_REASONING : REPLY_TEXT, (char)symbol, at);
}

void read_put_held(struct reply *r, size_t count)
{
    for (size_t i = 0; i < count; i++)
        put_outside(r, r->held[i], r->held_at[i]);
}

void read_text_mode(struct reply *r)
{
    r->mode = READ_TEXT;
    r->held_count = r->from = 0;
    r->head = true;
    r->listed = false;
}

void read_head_failed(struct reply *r)
{
    size_t from = r->from > 0 ? r->from : 1;
    for (int i = 0; i < READ_BLANKS_MAX && from > 1 && read_blank(r->held[from - 1]); i++)
        from--; // another marker may follow the blanks
    r->mode = READ_TEXT;
    r->listed = false;
    read_put_held(r, from);
    read_again(r, from);
}

static uint32_t outside_roles(const struct reply *r)
{
    if (r->mode == READ_REASONING)
        return ROLE_BIT(ROLE_REASONING_CLOSE) | (r->trim ? ROLE_BIT(ROLE_REASONING_OPEN) : 0) |
               (read_pending_allowed(r) ? ROLES_CALL : 0);
    if (r->args.has_text_grammar && !r->head)
        return 0;
    uint32_t roles = ROLES_PART;
    if (r->args.calls)
        roles |= ROLES_CALL | (r->head ? ROLE_BIT(ROLE_CALL_FIRST) : 0);
    if (r->args.reasoning && r->head)
        roles |= ROLE_BIT(ROLE_REASONING_OPEN);
    return roles;
}

void read_reasoning_closed(struct reply *r)
{
    read_text_mode(r);
    r->trim = true;
    r->gap = 0;
}

static void outside_marker(struct reply *r, enum marker_role role)
{
    if (r->mode == READ_REASONING && (ROLE_BIT(role) & ROLES_CALL) != 0) {
        read_pending_begin(r);
        return;
    }
    switch (role) {
    case ROLE_REASONING_OPEN:
    case ROLE_REASONING_CLOSE:
        read_reasoning_closed(r);
        if (role == ROLE_REASONING_OPEN)
            r->mode = READ_REASONING;
        break;
    case ROLE_DROP: // blanks before it are kept
        r->held_count = r->from;
        break;
    case ROLE_MESSAGE:
        read_text_mode(r);
        break;
    case ROLE_SECTION_OPEN:
        r->from = r->held_count;
        r->mode = READ_SECTION;
        break;
    default:
        r->from = r->held_count;
        read_call_open(r);
    }
}

static bool bare_begins(const struct reply *r, unsigned symbol)
{
    if (!r->args.calls || !r->head || r->mode == READ_REASONING)
        return false;
    bool object = symbol == '{', list = symbol == '[';
    if ((r->row->flags & ROW_BARE_OBJECT) != 0)
        return object || list;
    return (r->row->flags & ROW_BARE_LIST) != 0 && (list || (object && r->args.free_calls));
}

// If the text has a grammar, an object or a list is only a call if it begins like call_open.
// Compares the held symbols with it: 0: equal, TRY_PART or TRY_NONE.
static int bare_try(const struct reply *r)
{
    const char *open = r->row->syntax.call_open;
    size_t at = r->from + (r->held[r->from] == '[');
    if (!r->args.has_text_grammar || r->row->form == FORM_PYTHON)
        return 0;
    for (; at < r->held_count && *open && r->held[at] == (unsigned char)*open; at++)
        open++;
    return *open == 0 ? 0 : at == r->held_count ? TRY_PART : TRY_NONE;
}

static void bare_begin(struct reply *r)
{
    uint16_t later[DIALECT_MARKER_BYTES];
    uint32_t at[DIALECT_MARKER_BYTES], now = r->at;
    size_t first = r->from + 1, count = r->held_count - first;
    check(count <= DIALECT_MARKER_BYTES, "%zu symbols begin a call", count);
    memcpy(later, r->held + first, count * sizeof *later);
    memcpy(at, r->held_at + first, count * sizeof *at);
    r->held_count = first;
    read_call_open(r);
    r->object.bare = true;
    if (r->mode == READ_OBJECT)
        read_object_held(r);
    else
        read_name_symbols(r);
    for (size_t i = 0; i < count; i++) {
        r->at = at[i];
        read_symbol(r, later[i]);
    }
    r->at = now;
}

static void read_outside(struct reply *r, unsigned symbol)
{
    if (r->inner) {
        read_pending(r, symbol);
        return;
    }
    if (r->held_count == 0 && !read_blank(symbol) && !r->first_of[symbol & 0xFF] &&
        !bare_begins(r, symbol)) {
        put_outside(r, symbol, r->at);
        return;
    }
    if (!read_hold(r, symbol))
        return;
    while (r->held_count > 0) {
        r->from = 0;
        read_skip_blanks(r);
        if (r->from == r->held_count) {
            if (r->held_count > READ_BLANKS_MAX) {
                read_put_held(r, 1);
                read_drop(r, 1);
            }
            return;
        }
        int bare = bare_begins(r, r->held[r->from]) ? bare_try(r) : TRY_NONE;
        if (bare == 0)
            bare_begin(r);
        if (bare != TRY_NONE)
            return;
        int marker = read_try(r, outside_roles(r));
        if (marker >= 0)
            outside_marker(r, read_role(r, marker));
        if (marker != TRY_NONE || read_header_begin(r))
            return;
        size_t count = r->from + 1;
        read_put_held(r, count);
        read_drop(r, count);
    }
}

// --- around calls ---

void read_call_open(struct reply *r)
{
    r->form = r->row->form;
    r->object = (struct read_object){0};
    if (r->form == FORM_OBJECT)
        read_object_begin(r);
    else
        read_name_begin(r);
}

static void read_section(struct reply *r, unsigned symbol)
{
    if (!read_hold(r, symbol))
        return;
    read_skip_blanks(r);
    int marker = r->from < r->held_count ? read_try(r, ROLE_BIT(ROLE_CALL_OPEN)) : TRY_PART;
    if (marker == TRY_NONE) {
        read_head_failed(r);
    } else if (marker >= 0) {
        r->from = r->held_count;
        read_call_open(r);
    }
}

void read_between(struct reply *r)
{
    r->mode = READ_BETWEEN;
    r->held_count = r->from = 0;
}

void read_marker_in_call(struct reply *r, enum marker_role role)
{
    if (role == ROLE_CALL_CLOSE) {
        read_between(r);
    } else if (role == ROLE_SECTION_CLOSE || role == ROLE_DROP || role == ROLE_MESSAGE) {
        read_text_mode(r);
    } else if (role == ROLE_SECTION_OPEN) {
        r->from = r->held_count;
        r->mode = READ_SECTION;
    } else {
        r->from = r->held_count;
        read_call_open(r);
    }
}

// Handles a character between calls that is neither blank nor part of a marker. False: it is text.
static bool between_character(struct reply *r, unsigned symbol)
{
    bool object = r->row->form == FORM_OBJECT || r->object.active;
    if (object && (symbol == '{' || symbol == '[')) {
        r->form = r->row->form;
        read_object_begin(r);
        read_object_held(r);
        return true;
    }
    if ((object && symbol < 0x80 && symbol != 0 && strchr(",;]}", (char)symbol)) ||
        (r->listed && (symbol == ',' || symbol == ']'))) {
        r->listed = r->listed && symbol == ',';
        r->held_count = r->from = 0;
        return true;
    }
    if (!r->listed)
        return false;
    r->form = r->row->form;
    read_name_begin(r);
    read_name_symbols(r);
    return true;
}

static void read_after_call(struct reply *r, unsigned symbol)
{
    bool held = read_hold(r, symbol);
    check(held, "%zu symbols are held", r->held_count);
    read_skip_blanks(r);
    if (r->from == r->held_count) {
        if (r->from <= READ_BLANKS_MAX)
            return;
    } else {
        int marker = read_try(r, ROLES_CALL_OVER | ROLES_PART | ROLE_BIT(ROLE_CALL_FIRST));
        if (marker >= 0)
            read_marker_in_call(r, read_role(r, marker));
        if (marker != TRY_NONE ||
            (r->from + 1 == r->held_count && between_character(r, r->held[r->from])))
            return;
    }
    r->mode = READ_TEXT;
    r->listed = false;
    read_again(r, 0);
}

bool read_commit(struct reply *r)
{
    struct text name = text_span(r->name, r->name_bytes);
    r->schema = NULL;
    if (name.bytes == 0 || (r->args.tools && !tool_schema(r->args.tools, name, &r->schema))) {
        if (!read_passed_begin(r)) {
            r->from = r->held_count - 1;
            read_head_failed(r);
        }
        return false;
    }
    r->committed = true;
    r->unread = r->repaired = r->repeated = r->wrapped = false;
    r->given_count = 0;
    struct reply_event *event = event_add(r, REPLY_CALL);
    event->text.bytes = name.bytes;
    event->id.bytes = r->id_bytes;
    json_put_raw(&r->out, name);
    json_put_raw(&r->out, text_span(r->id, r->id_bytes));
    return true;
}

void read_call_end(struct reply *r, bool complete)
{
    escape_settle(r, true);
    complete = complete && !r->unread && !(r->repaired && r->repeated);
    event_add(r, REPLY_CALL_END)->complete = complete;
    r->complete += complete;
    r->call++;
    r->committed = false;
    r->head = true;
    r->trim = !r->any_text;
    read_between(r);
}

void read_broken(struct reply *r, unsigned symbol)
{
    r->mode = READ_BROKEN;
    read_hold(r, symbol);
    for (size_t i = r->held_count - 1; i > 0; i--) { // the symbol precedes the held ones
        r->held[i] = r->held[i - 1];
        r->held_at[i] = r->held_at[i - 1];
    }
    r->held[0] = (uint16_t)symbol;
    read_again(r, 0);
}

void read_broken_symbol(struct reply *r, unsigned symbol)
{
    read_hold(r, symbol);
    while (r->held_count > 0) {
        int marker = read_try(r, ROLES_CALL_OVER);
        if (marker >= 0) {
            read_call_end(r, false);
            read_marker_in_call(r, read_role(r, marker));
        }
        if (marker != TRY_NONE)
            return;
        if (symbol_is_shown(r, r->held[0]))
            read_argument(r, (char)r->held[0]);
        read_drop(r, 1);
    }
}

void read_symbol(struct reply *r, unsigned symbol)
{
    static void (*const readers[])(struct reply *, unsigned) = {
        [READ_TEXT] = read_outside,
        [READ_REASONING] = read_outside,
        [READ_HEADER] = read_header,
        [READ_SECTION] = read_section,
        [READ_BETWEEN] = read_after_call,
        [READ_NAME] = read_name,
        [READ_BODY] = read_body,
        [READ_JSON] = read_json,
        [READ_OBJECT] = read_object,
        [READ_PARAMETERS] = read_parameters,
        [READ_KEY] = read_key,
        [READ_VALUE_OPEN] = read_value_open,
        [READ_VALUE] = read_value,
        [READ_VALUE_END] = read_value_end,
        [READ_ELEMENTS] = read_elements,
        [READ_LITERAL] = read_literal,
        [READ_BROKEN] = read_broken_symbol,
        [READ_PASSED] = read_passed,
    };
    readers[r->mode](r, symbol);
}

// --- lifecycle ---

struct reply *reply_create(const struct reply_args *args)
{
    struct reply *r = heap_alloc_zeroed(1, sizeof *r);
    r->args = *args;
    r->row = args->dialect->row;
    r->args.calls = args->calls && r->row->form != FORM_NONE;
    r->head = true;
    for (uint32_t i = 0; i < args->dialect->marker_count; i++)
        r->first_of[args->dialect->markers[i].symbols[0] & 0xFF] = true;
    if (args->start == DIALECT_START_REASONING && args->reasoning) {
        r->mode = READ_REASONING;
        r->trim = true;
    } else if (args->start == DIALECT_START_CALL && r->args.calls) {
        read_call_open(r);
    }
    return r;
}

struct reply *reply_copy(const struct reply *r)
{
    struct reply *copy = heap_alloc_zeroed(1, sizeof *copy);
    *copy = *r;
    copy->events = NULL;
    copy->starts = NULL;
    copy->event_count = copy->event_max = 0;
    copy->out = copy->value.held = (struct json_buffer){0};
    json_put_raw(&copy->value.held, text_span(r->value.held.at, r->value.held.bytes));
    copy->inner = r->inner ? reply_copy(r->inner) : NULL;
    copy->held = NULL;
    copy->held_at = NULL;
    if (r->held_max > 0) {
        copy->held = heap_grow(NULL, r->held_max * sizeof *r->held);
        copy->held_at = heap_grow(NULL, r->held_max * sizeof *r->held_at);
        memcpy(copy->held, r->held, r->held_count * sizeof *r->held);
        memcpy(copy->held_at, r->held_at, r->held_count * sizeof *r->held_at);
    }
    return copy;
}

void reply_destroy(struct reply *r)
{
    if (!r)
        return;
    reply_destroy(r->inner);
    heap_free(r->held);
    heap_free(r->held_at);
    heap_free(r->events);
    heap_free(r->starts);
    json_buffer_free(&r->out);
    json_buffer_free(&r->value.held);
    heap_free(r);
}

const struct reply_event *reply_feed(struct reply *r, struct text piece, bool is_special,
                                     uint32_t *count)
{
    events_reset(r);
    for (size_t i = 0; i < piece.bytes; i++, r->fed++) {
        r->at = r->fed;
        read_symbol(r, (unsigned char)piece.at[i] | (is_special ? READ_SPECIAL : 0u));
    }
    return events_out(r, count);
}

const struct reply_event *reply_feed_end(struct reply *r, struct text token, uint32_t *count)
{
    r->args.keep_special = false;
    r->ending = true;
    return reply_feed(r, token, true, count);
}

// Emits the held symbols outside of a call, except: blanks after a call or after reasoning, the
// beginning of the mark that ends reasoning, and the head of a call if a call is required.
static void outside_cut(struct reply *r)
{
    r->from = 0;
    read_skip_blanks(r);
    bool blank = r->from == r->held_count;
    if (blank && (r->call > 0 || (r->trim && !r->args.has_text_grammar)))
        return;
    if (r->mode == READ_REASONING ? blank : !r->args.must)
        read_put_held(r, r->held_count);
}

// Ends a call that the answer cut. The held symbols are the beginning of a mark and are dropped.
static void call_cut(struct reply *r)
{
    if (r->mode == READ_VALUE)
        read_value_cut(r);
    else if (r->mode == READ_ELEMENTS)
        read_elements_cut(r);
    else if (r->mode == READ_LITERAL)
        read_literal_cut(r);
    read_call_end(r, false);
}

const struct reply_event *reply_finish(struct reply *r, uint32_t *count)
{
    events_reset(r);
    if (r->inner)
        read_pending_finish(r);
    if (r->mode == READ_VALUE_END)
        read_value_end_cut(r);
    if (r->committed) {
        call_cut(r);
    } else if (r->mode != READ_OBJECT || !r->object.tail) {
        if (r->mode != READ_REASONING)
            r->mode = READ_TEXT;
        outside_cut(r);
    }
    r->held_count = 0;
    event_add(r, REPLY_END);
    return events_out(r, count);
}

uint32_t reply_calls(const struct reply *r)
{
    return r->complete;
}

bool reply_in_reasoning(const struct reply *r)
{
    return r->mode == READ_REASONING;
}

bool reply_place(const struct reply *r, enum dialect_start *place)
{
    size_t blanks = 0;
    while (blanks < r->held_count && read_blank(r->held[blanks]))
        blanks++;
    if ((r->mode != READ_TEXT && r->mode != READ_REASONING) || blanks < r->held_count)
        return false;
    *place = r->mode == READ_REASONING ? DIALECT_START_REASONING
             : r->head                 ? DIALECT_START_TEXT
                                       : DIALECT_START_MIDST;
    return true;
}

uint32_t reply_settled(const struct reply *r)
{
    return r->held_count > 0 ? r->held_at[0] : r->fed;
}

size_t reply_held(const struct reply *r)
{
    return r->held_count + (r->committed && !r->value.decided ? r->value.held.bytes : 0);
}
