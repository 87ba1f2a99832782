// SPDX-License-Identifier: Apache-2.0
// Reply reader: a call in a list whose name no tool has; see read.h. It is text, and so is the
// comma after it; calls of tools may follow.
#include "runtime/text/dialect/read.h"

static bool is_python_list(const struct reply *r)
{
    return r->form == FORM_PYTHON && r->listed && !r->object.active;
}

// Returns true if the symbol ends the call.
static bool passed_scan(struct read_passed *p, unsigned symbol)
{
    char c = symbol < 0x80 ? (char)symbol : 0;
    if (p->escaped) {
        p->escaped = false;
    } else if (p->quote != 0) {
        p->escaped = c == '\\';
        p->quote = c == p->quote ? 0 : p->quote;
    } else if (c == '"' || c == '\'') {
        p->quote = c;
    } else if (c != 0 && strchr("([{", c)) {
        p->depth++;
    } else if (c != 0 && strchr(")]}", c)) {
        return --p->depth == 0;
    }
    return false;
}

bool read_passed_begin(struct reply *r)
{
    bool list = is_python_list(r) || r->object.active;
    if (!list || r->name_bytes == 0 || r->args.has_text_grammar)
        return false;
    size_t at = r->object.active ? r->object.item : r->held_count - 1;
    r->passed = (struct read_passed){.state = PASSED_INSIDE};
    for (; at < r->held_count; at++)
        if (passed_scan(&r->passed, r->held[at]))
            r->passed.state = PASSED_AFTER;
    read_put_held(r, r->held_count);
    r->held_count = r->from = 0;
    r->mode = READ_PASSED;
    return true;
}

// Begins the next call of the list; the newest held symbol is its first.
static void passed_next(struct reply *r)
{
    if (r->object.active) {
        read_object_begin(r);
        read_object_held(r);
    } else {
        r->from = 0;
        read_name_begin(r);
        read_name_symbols(r);
    }
}

// Handles the held symbols, of which the first `from` are blanks and the next is `first`. Returns
// false if they are not part of the list.
static bool passed_symbol(struct reply *r, unsigned first)
{
    struct read_passed *p = &r->passed;
    if (p->state == PASSED_NEXT) {
        if (r->held_count > r->from + 1)
            return false;
        passed_next(r);
        return true;
    }
    if (p->state == PASSED_AFTER && first != ',' && first != ';')
        return false;
    if (p->state == PASSED_AFTER)
        p->state = PASSED_NEXT;
    else if (passed_scan(p, first))
        p->state = PASSED_AFTER;
    size_t count = r->from + 1;
    read_put_held(r, count);
    read_drop(r, count);
    return true;
}

void read_passed(struct reply *r, unsigned symbol)
{
    const uint32_t roles = ROLE_BIT(ROLE_SECTION_OPEN) | ROLE_BIT(ROLE_CALL_OPEN) |
                           ROLE_BIT(ROLE_SECTION_CLOSE) | ROLE_BIT(ROLE_CALL_CLOSE) |
                           ROLE_BIT(ROLE_DROP) | ROLE_BIT(ROLE_MESSAGE);
    if (!read_hold(r, symbol))
        return;
    while (r->mode == READ_PASSED && r->held_count > 0) {
        r->from = 0;
        if (r->passed.state != PASSED_INSIDE)
            read_skip_blanks(r);
        bool blank = r->from == r->held_count;
        int marker = blank ? TRY_PART : read_try(r, roles);
        if (marker == TRY_PART && r->from <= READ_BLANKS_MAX)
            return;
        if (marker != TRY_NONE || !passed_symbol(r, r->held[r->from])) {
            r->mode = READ_TEXT;
            r->listed = false;
            read_again(r, 0);
        }
    }
}
