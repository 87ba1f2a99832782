// SPDX-License-Identifier: Apache-2.0
// Methods of strings, lists, dicts and loops that templates call. Methods that would change a list
// or dict are missing, as in Jinja's sandbox.
#include "runtime/text/jinja/internal.h"

static bool method_strip(struct jinja_run *run, const struct jinja_call *call,
                         struct jinja_value *out)
{
    enum strip_side side = call->name[0] == 'l'   ? STRIP_LEFT
                           : call->name[0] == 'r' ? STRIP_RIGHT
                                                  : STRIP_BOTH;
    const struct jinja_string *chars = NULL;
    if (jinja_arg_given(call, 0) && !jinja_arg_string(run, call, 0, &chars))
        return false;
    return jinja_strip(run, call->self.as.string, chars, side, out);
}

static bool split_add(struct jinja_run *run, const struct jinja_string *string, size_t from,
                      size_t to, struct jinja_items *items)
{
    struct jinja_value part;
    return jinja_string_slice(run, string, from, to, &part) && jinja_items_add(run, items, part);
}

static bool split_words(struct jinja_run *run, const struct jinja_string *string, int64_t most,
                        struct jinja_items *items)
{
    struct text text = jinja_string_text(string);
    size_t from = 0;
    bool inside = false;
    for (size_t at = 0; at < text.bytes;) {
        uint32_t point;
        size_t bytes = jinja_utf8_next(text, at, &point);
        bool space = jinja_char_is_space(point);
        if (space && inside && !split_add(run, string, from, at, items))
            return false;
        if (!space && !inside)
            from = at;
        if (!space && !inside && most >= 0 && (int64_t)items->count == most)
            return split_add(run, string, from, text.bytes, items);
        inside = !space;
        at += bytes;
    }
    return !inside || split_add(run, string, from, text.bytes, items);
}

static bool split_words_back(struct jinja_run *run, const struct jinja_string *string, int64_t most,
                             struct jinja_items *items)
{
    struct jinja_items all = {0};
    if (!split_words(run, string, -1, &all))
        return false;
    if (most < 0 || (int64_t)all.count <= most) {
        *items = all;
        return true;
    }
    size_t rest = all.count - (size_t)most; // words at the start, not split
    const struct jinja_string *last = all.items[rest - 1].as.string;
    struct jinja_value front;
    size_t end = (size_t)(last->at + last->bytes - string->at);
    return jinja_string_slice(run, string, 0, end, &front) && jinja_items_add(run, items, front) &&
           jinja_items_add_all(run, items, all.items + rest, all.count - rest);
}

static bool split_by(struct jinja_run *run, const struct jinja_string *string,
                     const struct jinja_string *by, int64_t most, struct jinja_items *items)
{
    size_t from = 0;
    while (most < 0 || (int64_t)items->count < most) {
        const char *hit = memmem(string->at + from, string->bytes - from, by->at, by->bytes);
        if (!hit)
            break;
        size_t at = (size_t)(hit - string->at);
        if (!split_add(run, string, from, at, items))
            return false;
        from = at + by->bytes;
    }
    return split_add(run, string, from, string->bytes, items);
}

// Returns the last occurrence that ends at or before `end`; SIZE_MAX: none.
static size_t find_back(const struct jinja_string *string, size_t end,
                        const struct jinja_string *what)
{
    if (what->bytes > end)
        return SIZE_MAX;
    for (size_t at = end - what->bytes + 1; at-- > 0;)
        if (memcmp(string->at + at, what->at, what->bytes) == 0)
            return at;
    return SIZE_MAX;
}

static bool split_back(struct jinja_run *run, const struct jinja_string *string,
                       const struct jinja_string *by, int64_t most, struct jinja_items *items)
{
    struct jinja_items back = {0};
    size_t end = string->bytes;
    while (most < 0 || (int64_t)back.count < most) {
        size_t at = find_back(string, end, by);
        if (at == SIZE_MAX)
            break;
        if (!split_add(run, string, at + by->bytes, end, &back))
            return false;
        end = at;
    }
    if (!split_add(run, string, 0, end, &back))
        return false;
    for (size_t i = back.count; i-- > 0;)
        if (!jinja_items_add(run, items, back.items[i]))
            return false;
    return true;
}

static bool method_split(struct jinja_run *run, const struct jinja_call *call,
                         struct jinja_value *out)
{
    const struct jinja_string *string = call->self.as.string;
    const struct jinja_string *by = NULL;
    int64_t most = -1;
    bool back = call->name[0] == 'r';
    struct jinja_items items = {0};
    if ((jinja_arg_given(call, 0) && !jinja_arg_string(run, call, 0, &by)) ||
        !jinja_arg_int(run, call, 1, &most))
        return false;
    if (by && by->bytes == 0)
        return jinja_fail(run, STATUS_INVALID, "the separator of split is empty");
    uint64_t work = back && by ? string->bytes / 4 * (1 + by->bytes / 64) : string->bytes / 32;
    bool fine = jinja_spend(run, 1 + work);
    if (fine && !by)
        fine = back ? split_words_back(run, string, most, &items)
                    : split_words(run, string, most, &items);
    else if (fine)
        fine = back ? split_back(run, string, by, most, &items)
                    : split_by(run, string, by, most, &items);
    return fine && jinja_items_list(run, &items, JINJA_IS_LIST, out);
}

static bool method_partition(struct jinja_run *run, const struct jinja_call *call,
                             struct jinja_value *out)
{
    const struct jinja_string *string = call->self.as.string;
    const struct jinja_string *by = NULL;
    struct jinja_items items = {0};
    bool back = call->name[0] == 'r';
    if (!jinja_arg_string(run, call, 0, &by) ||
        !jinja_spend(run, 1 + string->bytes / 4 * (1 + by->bytes / 64)))
        return false;
    if (by->bytes == 0)
        return jinja_fail(run, STATUS_INVALID, "the separator of partition is empty");
    const char *hit = memmem(string->at, string->bytes, by->at, by->bytes);
    size_t at =
        back ? find_back(string, string->bytes, by) : (hit ? (size_t)(hit - string->at) : SIZE_MAX);
    size_t end = at + by->bytes;
    if (at == SIZE_MAX)
        at = end = back ? 0 : string->bytes;
    return split_add(run, string, 0, at, &items) && split_add(run, string, at, end, &items) &&
           split_add(run, string, end, string->bytes, &items) &&
           jinja_items_list(run, &items, JINJA_IS_TUPLE, out);
}

static bool edge_is(const struct jinja_string *string, const struct jinja_string *edge, bool start)
{
    return edge->bytes <= string->bytes &&
           memcmp(start ? string->at : string->at + string->bytes - edge->bytes, edge->at,
                  edge->bytes) == 0;
}

// Converts the arguments 1 and 2 (start, end) to a range of bytes. *from SIZE_MAX: an empty range
// that matches nothing.
static bool search_window(struct jinja_run *run, const struct jinja_call *call, size_t *from,
                          size_t *to)
{
    struct text text = jinja_string_text(call->self.as.string);
    int64_t count = (int64_t)jinja_utf8_count(text);
    int64_t start = 0;
    int64_t end = count;
    if (!jinja_spend(run, 1 + text.bytes / 32) ||
        (jinja_arg_given(call, 1) && !jinja_arg_int(run, call, 1, &start)) ||
        (jinja_arg_given(call, 2) && !jinja_arg_int(run, call, 2, &end)))
        return false;
    start = start < 0 ? (start < -count ? 0 : start + count) : start;
    end = end < 0 ? (end < -count ? 0 : end + count) : end > count ? count : end;
    *from = start > end ? SIZE_MAX : jinja_utf8_offset(text, (size_t)start);
    *to = jinja_utf8_offset(text, (size_t)end);
    return true;
}

static bool method_edge(struct jinja_run *run, const struct jinja_call *call,
                        struct jinja_value *out)
{
    size_t from;
    size_t to;
    bool start = call->name[0] == 's';
    if (!search_window(run, call, &from, &to))
        return false;
    *out = jinja_bool(false);
    struct jinja_value one = call->args[0];
    struct jinja_list list = {.items = &one, .count = 1};
    if (one.kind == JINJA_LIST && one.flavour == JINJA_IS_TUPLE)
        list = *one.as.list;
    struct jinja_string part = *call->self.as.string;
    if (from != SIZE_MAX) {
        part.at += from;
        part.bytes = to - from;
    }
    for (size_t i = 0; i < list.count; i++) {
        const struct jinja_call edge = {.name = call->name, .args = &list.items[i], .count = 1};
        const struct jinja_string *text = NULL;
        if (!jinja_arg_string(run, &edge, 0, &text) || !jinja_spend(run, 1))
            return false;
        if (from != SIZE_MAX && edge_is(&part, text, start))
            *out = jinja_bool(true);
    }
    return true;
}

static bool method_find(struct jinja_run *run, const struct jinja_call *call,
                        struct jinja_value *out)
{
    const struct jinja_string *what = NULL;
    struct jinja_string part = *call->self.as.string;
    size_t from;
    size_t to;
    if (!jinja_arg_string(run, call, 0, &what) || !search_window(run, call, &from, &to))
        return false;
    size_t found = SIZE_MAX;
    if (!jinja_spend(run, 1 + part.bytes / 8 * (1 + what->bytes / 64)))
        return false;
    if (from != SIZE_MAX) {
        part.at += from;
        part.bytes = to - from;
        const char *hit =
            what->bytes == 0 ? part.at : memmem(part.at, part.bytes, what->at, what->bytes);
        if (call->name[0] == 'r')
            found = find_back(&part, part.bytes, what);
        else if (hit)
            found = (size_t)(hit - part.at);
    }
    bool must = strstr(call->name, "index") != NULL;
    if (found == SIZE_MAX && must)
        return jinja_fail(run, STATUS_INVALID, "%s: not found", call->name);
    int64_t points = (int64_t)jinja_utf8_count(
        text_span(call->self.as.string->at, found == SIZE_MAX ? 0 : from + found));
    *out = jinja_int(found == SIZE_MAX ? -1 : points);
    return true;
}

static bool method_count(struct jinja_run *run, const struct jinja_call *call,
                         struct jinja_value *out)
{
    const struct jinja_string *what = NULL;
    size_t at;
    size_t to;
    int64_t count = 0;
    if (!jinja_arg_string(run, call, 0, &what) || !search_window(run, call, &at, &to))
        return false;
    struct text text = jinja_string_text(call->self.as.string);
    if (what->bytes == 0 && at != SIZE_MAX)
        count = (int64_t)jinja_utf8_count(text_span(text.at + at, to - at)) + 1;
    while (what->bytes > 0 && at != SIZE_MAX) {
        const char *hit = memmem(text.at + at, to - at, what->at, what->bytes);
        if (!hit)
            break;
        at = (size_t)(hit - text.at) + what->bytes;
        count++;
    }
    *out = jinja_int(count);
    return jinja_spend(run, 1 + text.bytes / 8);
}

static bool method_replace(struct jinja_run *run, const struct jinja_call *call,
                           struct jinja_value *out)
{
    struct replacement r = {.count = -1};
    return jinja_arg_string(run, call, 0, &r.old) && jinja_arg_string(run, call, 1, &r.with) &&
           jinja_arg_int(run, call, 2, &r.count) &&
           jinja_replace(run, call->self.as.string, &r, out);
}

static bool method_form(struct jinja_run *run, const struct jinja_call *call,
                        struct jinja_value *out)
{
    enum text_form form = call->name[0] == 'u'   ? FORM_UPPER
                          : call->name[0] == 'l' ? FORM_LOWER
                          : call->name[0] == 't' ? FORM_TITLE
                                                 : FORM_CAPITALIZE;
    return jinja_change_case(run, call->self.as.string, form, out);
}

static bool method_join(struct jinja_run *run, const struct jinja_call *call,
                        struct jinja_value *out)
{
    struct jinja_list list;
    struct jinja_builder *b = jinja_builder_create(run);
    if (!b || !jinja_iterate(run, call->args[0], &list))
        return false;
    for (size_t i = 0; i < list.count; i++) {
        if (list.items[i].kind != JINJA_STRING)
            return jinja_fail(run, STATUS_INVALID, "join needs strings, not type %s",
                              jinja_kind_name(list.items[i]));
        if (!jinja_spend(run, 1) ||
            (i > 0 && !jinja_builder_string(run, b, call->self.as.string)) ||
            !jinja_builder_string(run, b, list.items[i].as.string))
            return false;
    }
    return jinja_builder_done(run, b, out);
}

static bool method_format(struct jinja_run *run, const struct jinja_call *call,
                          struct jinja_value *out)
{
    return jinja_format_braces(run, call->self.as.string, call, out);
}

static bool char_is(const char *method, uint32_t point)
{
    switch (method[2]) {
    case 'd':
        return method[3] == 'i' ? jinja_char_is_digit(point) : jinja_char_is_decimal(point);
    case 'n':
        return jinja_char_is_numeric(point);
    case 's':
        return jinja_char_is_space(point);
    default:
        return jinja_char_is_alpha(point) ||
               (strcmp(method, "isalnum") == 0 && jinja_char_is_numeric(point));
    }
}

// isdigit and similar: true if there is a character and all are of the class.
static bool method_is(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    struct text text = jinja_string_text(call->self.as.string);
    bool all = text.bytes > 0;
    for (size_t at = 0; at < text.bytes && all;) {
        uint32_t point;
        at += jinja_utf8_next(text, at, &point);
        all = char_is(call->name, point);
    }
    *out = jinja_bool(all);
    return jinja_spend(run, 1 + text.bytes / 16);
}

static bool method_is_case(struct jinja_run *run, const struct jinja_call *call,
                           struct jinja_value *out)
{
    struct text text = jinja_string_text(call->self.as.string);
    bool upper = call->name[2] == 'u';
    bool any = false;
    bool all = true;
    for (size_t at = 0; at < text.bytes && all;) {
        uint32_t point;
        at += jinja_utf8_next(text, at, &point);
        any = any || (upper ? jinja_char_is_upper(point) : jinja_char_is_lower(point));
        all = !(upper ? jinja_char_is_lower(point) : jinja_char_is_upper(point));
    }
    *out = jinja_bool(all && any);
    return jinja_spend(run, 1 + text.bytes / 16);
}

static bool method_lines(struct jinja_run *run, const struct jinja_call *call,
                         struct jinja_value *out)
{
    struct jinja_items lines = {0};
    return jinja_lines(run, call->self.as.string, jinja_arg_bool(call, 0, false), &lines) &&
           jinja_items_list(run, &lines, JINJA_IS_LIST, out);
}

static bool method_remove(struct jinja_run *run, const struct jinja_call *call,
                          struct jinja_value *out)
{
    const struct jinja_string *string = call->self.as.string;
    const struct jinja_string *edge = NULL;
    if (!jinja_arg_string(run, call, 0, &edge))
        return false;
    bool start = call->name[6] == 'p';
    size_t cut = edge_is(string, edge, start) ? edge->bytes : 0;
    return jinja_string_slice(run, string, start ? cut : 0, string->bytes - (start ? 0 : cut), out);
}

// zfill, center, ljust and rjust.
static bool method_pad(struct jinja_run *run, const struct jinja_call *call,
                       struct jinja_value *out)
{
    const struct jinja_string *string = call->self.as.string;
    const struct jinja_string zero = {.at = call->name[0] == 'z' ? "0" : " ", .bytes = 1};
    const struct jinja_string *with = &zero;
    int64_t width = 0;
    struct jinja_builder *b = jinja_builder_create(run);
    if (!b || !jinja_arg_int(run, call, 0, &width) ||
        (call->name[0] != 'z' && !jinja_arg_string(run, call, 1, &with)))
        return false;
    int64_t count = (int64_t)jinja_utf8_count(jinja_string_text(string));
    int64_t pad = width > count ? width - count : 0;
    int64_t left = call->name[0] == 'l'   ? 0
                   : call->name[0] == 'c' ? pad / 2 + (pad & width & 1)
                                          : pad;
    bool sign =
        call->name[0] == 'z' && string->bytes > 0 && (string->at[0] == '-' || string->at[0] == '+');
    if (jinja_utf8_count(jinja_string_text(with)) != 1)
        return jinja_fail(run, STATUS_INVALID, "%s pads with one character", call->name);
    const struct padding padding = {with, left, pad - left, sign};
    return jinja_builder_padded(run, b, string, &padding) && jinja_builder_done(run, b, out);
}

static bool method_get(struct jinja_run *run, const struct jinja_call *call,
                       struct jinja_value *out)
{
    const struct jinja_value *found;
    if (!jinja_dict_find(run, call->self.as.dict, call->args[0], &found))
        return false;
    struct jinja_value otherwise =
        call->args[1].kind == JINJA_MISSING ? jinja_none() : call->args[1];
    *out = found ? *found : otherwise;
    return true;
}

static bool method_view(struct jinja_run *run, const struct jinja_call *call,
                        struct jinja_value *out)
{
    const struct jinja_dict *dict = call->self.as.dict;
    struct jinja_items items = {0};
    enum jinja_flavour flavour = call->name[0] == 'k'   ? JINJA_IS_KEYS
                                 : call->name[0] == 'v' ? JINJA_IS_VALUES
                                                        : JINJA_IS_ITEMS;
    for (size_t i = 0; i < dict->count; i++) {
        struct jinja_value item =
            flavour == JINJA_IS_KEYS ? dict->pairs[i].key : dict->pairs[i].value;
        if ((flavour == JINJA_IS_ITEMS && !jinja_pair_list(run, dict->pairs[i], &item)) ||
            !jinja_items_add(run, &items, item))
            return false;
    }
    return jinja_items_list(run, &items, flavour, out);
}

static bool method_copy(struct jinja_run *run, const struct jinja_call *call,
                        struct jinja_value *out)
{
    (void)run;
    *out = call->self; // lists and dicts are immutable
    return true;
}

static bool method_list_find(struct jinja_run *run, const struct jinja_call *call,
                             struct jinja_value *out)
{
    const struct jinja_list *list = call->self.as.list;
    int64_t count = 0;
    for (size_t i = 0; i < list->count; i++) {
        bool equal;
        if (!jinja_spend(run, 1) || !jinja_equal(run, list->items[i], call->args[0], &equal))
            return false;
        if (equal && call->name[0] == 'i') {
            *out = jinja_int((int64_t)i);
            return true;
        }
        count += equal;
    }
    *out = jinja_int(count);
    return call->name[0] == 'c' || jinja_fail(run, STATUS_INVALID, "index: not in the list");
}

static bool method_cycle(struct jinja_run *run, const struct jinja_call *call,
                         struct jinja_value *out)
{
    if (call->count == 0)
        return jinja_fail(run, STATUS_INVALID, "loop.cycle needs at least one item");
    *out = call->args[call->self.as.loop->index0 % call->count];
    return true;
}

static bool method_changed(struct jinja_run *run, const struct jinja_call *call,
                           struct jinja_value *out)
{
    struct jinja_loop *loop = call->self.as.loop;
    struct jinja_value now;
    bool equal = false;
    if (!jinja_args_list(run, call, 0, JINJA_IS_TUPLE, &now) ||
        !jinja_equal(run, loop->changed, now, &equal))
        return false;
    loop->changed = now;
    *out = jinja_bool(!equal);
    return true;
}

static bool method_next(struct jinja_run *run, const struct jinja_call *call,
                        struct jinja_value *out)
{
    struct jinja_cycler *cycler = call->self.as.cycler;
    if (cycler->joiner)
        return jinja_fail(run, STATUS_INVALID, "a joiner has no next");
    if (call->name[0] == 'r')
        cycler->at = 0;
    *out = cycler->items.as.list->items[cycler->at];
    if (call->name[0] == 'r')
        *out = jinja_none();
    else
        cycler->at = (cycler->at + 1) % cycler->items.as.list->count;
    return true;
}

static const struct jinja_row string_rows[] = {
    {"strip", "chars", 0, method_strip},
    {"lstrip", "chars", 0, method_strip},
    {"rstrip", "chars", 0, method_strip},
    {"split", "sep maxsplit", 0, method_split},
    {"rsplit", "sep maxsplit", 0, method_split},
    {"partition", "sep", 1, method_partition},
    {"rpartition", "sep", 1, method_partition},
    {"startswith", "prefix start end", 1, method_edge},
    {"endswith", "suffix start end", 1, method_edge},
    {"find", "sub start end", 1, method_find},
    {"rfind", "sub start end", 1, method_find},
    {"index", "sub start end", 1, method_find},
    {"rindex", "sub start end", 1, method_find},
    {"count", "sub start end", 1, method_count},
    {"replace", "old new count", 2, method_replace},
    {"upper", "", 0, method_form},
    {"lower", "", 0, method_form},
    {"title", "", 0, method_form},
    {"capitalize", "", 0, method_form},
    {"join", "iterable", 1, method_join},
    {"format", NULL, 0, method_format},
    {"isdigit", "", 0, method_is},
    {"isdecimal", "", 0, method_is},
    {"isnumeric", "", 0, method_is},
    {"isspace", "", 0, method_is},
    {"isalpha", "", 0, method_is},
    {"isalnum", "", 0, method_is},
    {"isupper", "", 0, method_is_case},
    {"islower", "", 0, method_is_case},
    {"splitlines", "keepends", 0, method_lines},
    {"removeprefix", "prefix", 1, method_remove},
    {"removesuffix", "suffix", 1, method_remove},
    {"zfill", "width", 1, method_pad},
    {"center", "width fillchar", 1, method_pad},
    {"ljust", "width fillchar", 1, method_pad},
    {"rjust", "width fillchar", 1, method_pad},
};

static const struct jinja_row dict_rows[] = {
    {"get", "key default", 1, method_get}, {"items", "", 0, method_view},
    {"keys", "", 0, method_view},          {"values", "", 0, method_view},
    {"copy", "", 0, method_copy},
};

static const struct jinja_row list_rows[] = {
    {"index", "value", 1, method_list_find},
    {"count", "value", 1, method_list_find},
    {"copy", "", 0, method_copy},
};

static const struct jinja_row loop_rows[] = {
    {"cycle", NULL, 0, method_cycle},
    {"changed", NULL, 0, method_changed},
};

static const struct jinja_row cycler_rows[] = {
    {"next", "", 0, method_next},
    {"reset", "", 0, method_next},
};

const struct jinja_row *jinja_method_find(struct jinja_value of, struct text name)
{
    switch (of.kind) {
    case JINJA_STRING:
        return jinja_row_find(string_rows, sizeof string_rows / sizeof *string_rows, name);
    case JINJA_DICT:
        return jinja_row_find(dict_rows, sizeof dict_rows / sizeof *dict_rows, name);
    case JINJA_LIST:
        if (of.flavour > JINJA_IS_RANGE)
            return NULL;
        return jinja_row_find(list_rows, of.flavour == JINJA_IS_LIST ? 3 : 2, name);
    case JINJA_LOOP:
        return jinja_row_find(loop_rows, sizeof loop_rows / sizeof *loop_rows, name);
    case JINJA_CYCLER:
        return jinja_row_find(cycler_rows, sizeof cycler_rows / sizeof *cycler_rows, name);
    default:
        return NULL;
    }
}
