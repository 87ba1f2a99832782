// The parts of JSON's text. See json.h.
#include "runtime/text/grammar/json.h"

#include "base/arena.h"
#include "base/utf8.h"

#include <stdio.h>
#include <string.h>

// The one way in which a character that must be escaped is written; 0 bytes: as it is.
static size_t escape_of(uint32_t c, char out[8])
{
    static const char letters[] = "btn\0fr"; // from 8 on; 11 has none
    const char letter = c >= 8 && c <= 13 ? letters[c - 8] : '\0';
    if (c == '"' || c == '\\' || letter != '\0')
        return (size_t)snprintf(out, 8, "\\%c", letter != '\0' ? letter : (char)c);
    return c < 0x20 ? (size_t)snprintf(out, 8, "\\u%04x", (unsigned)c) : 0;
}

uint32_t json_grammar_chars(struct grammar_builder *b, const struct grammar_range *ranges,
                            uint32_t count)
{
    static const struct grammar_range plain[] = {
        {0x20, '"' - 1}, {'"' + 1, '\\' - 1}, {'\\' + 1, 0x10FFFF}};
    struct grammar_range *kept = heap_take((3 * (size_t)count + 1) * sizeof *kept);
    struct text escapes[34];
    char store[34][8];
    uint32_t kept_count = 0, escape_count = 0;
    for (uint32_t i = 0; i < count; i++)
        for (int k = 0; k < 3; k++) {
            struct grammar_range r = ranges[i];
            r.first = r.first > plain[k].first ? r.first : plain[k].first;
            r.last = r.last < plain[k].last ? r.last : plain[k].last;
            if (r.first <= r.last)
                kept[kept_count++] = r;
        }
    for (uint32_t c = 0; c <= '\\'; c++) {
        size_t bytes = escape_of(c, store[escape_count]);
        for (uint32_t i = 0; i < count && bytes > 0; i++)
            if (c >= ranges[i].first && c <= ranges[i].last) {
                escapes[escape_count] = text_span(store[escape_count], bytes);
                escape_count++;
                break;
            }
    }
    uint32_t result = grammar_either(b, grammar_chars(b, kept, kept_count),
                                     grammar_choice(b, escapes, escape_count));
    heap_give(kept);
    return result;
}

uint32_t json_grammar_text(struct grammar_builder *b, struct text value)
{
    struct arena *arena = arena_create(0, 0);
    char *text = arena_take(arena, 6 * value.bytes + 8);
    size_t bytes = 0;
    for (size_t i = 0; i < value.bytes; i++) {
        size_t escaped = escape_of((uint8_t)value.at[i], text + bytes);
        if (escaped == 0)
            text[bytes++] = value.at[i];
        bytes += escaped;
    }
    uint32_t result = grammar_literal(b, text_span(text, bytes));
    arena_destroy(arena);
    return result;
}

static uint32_t quoted(struct grammar_builder *b, uint32_t inside)
{
    uint32_t quote = grammar_literal(b, text_of("\""));
    return grammar_join(b, quote, grammar_join(b, inside, quote));
}

uint32_t json_grammar_string(struct grammar_builder *b)
{
    static const struct grammar_range all[] = {{0, 0x10FFFF}};
    return quoted(b, grammar_repeat(b, json_grammar_chars(b, all, 1), 0, GRAMMAR_UNBOUNDED));
}

static uint32_t digits(struct grammar_builder *b, uint32_t min)
{
    return grammar_repeat(b, grammar_byte(b, '0', '9'), min, GRAMMAR_UNBOUNDED);
}

// A digit that is not 0, then any.
static uint32_t positive(struct grammar_builder *b)
{
    return grammar_join(b, grammar_byte(b, '1', '9'), digits(b, 0));
}

uint32_t json_grammar_integer(struct grammar_builder *b)
{
    uint32_t minus = grammar_optional(b, grammar_literal(b, text_of("-")));
    return grammar_either(b, grammar_literal(b, text_of("0")), grammar_join(b, minus, positive(b)));
}

uint32_t json_grammar_number(struct grammar_builder *b)
{
    uint32_t whole = grammar_either(b, grammar_literal(b, text_of("0")), positive(b));
    uint32_t sign =
        grammar_either(b, grammar_literal(b, text_of("+")), grammar_literal(b, text_of("-")));
    uint32_t e =
        grammar_either(b, grammar_literal(b, text_of("e")), grammar_literal(b, text_of("E")));
    uint32_t exponent[] = {e, grammar_optional(b, sign), digits(b, 1)};
    uint32_t parts[] = {
        grammar_optional(b, grammar_literal(b, text_of("-"))),
        whole,
        grammar_optional(b, grammar_join(b, grammar_literal(b, text_of(".")), digits(b, 1))),
        grammar_optional(b, grammar_join_all(b, exponent, 3)),
    };
    return grammar_join_all(b, parts, 4);
}

uint32_t json_grammar_loose_blank(struct grammar_builder *b)
{
    uint32_t line = grammar_join(b, grammar_literal(b, text_of("\n")),
                                 grammar_repeat(b, grammar_literal(b, text_of(" ")), 0, 40));
    return grammar_optional(b, grammar_either(b, line, grammar_literal(b, text_of(" "))));
}

// open (one (, one)*)? close
static uint32_t list_of(struct grammar_builder *b, const char *open, uint32_t one,
                        const char *close, uint32_t blank)
{
    uint32_t comma[] = {blank, grammar_literal(b, text_of(",")), blank, one};
    uint32_t more = grammar_repeat(b, grammar_join_all(b, comma, 4), 0, GRAMMAR_UNBOUNDED);
    uint32_t inside[] = {blank, one, more};
    uint32_t parts[] = {grammar_literal(b, text_of(open)),
                        grammar_optional(b, grammar_join_all(b, inside, 3)), blank,
                        grammar_literal(b, text_of(close))};
    return grammar_join_all(b, parts, 4);
}

struct json_rules json_grammar_rules(struct grammar_builder *b, struct json_style style)
{
    uint32_t value, object, array, string, number;
    struct json_rules r = {
        .value = grammar_rule(b, text_of("value"), &value),
        .object = grammar_rule(b, text_of("object"), &object),
        .array = grammar_rule(b, text_of("array"), &array),
        .string = grammar_rule(b, text_of("string"), &string),
        .number = grammar_rule(b, text_of("number"), &number),
    };
    static const char *const words[] = {"true", "false", "null"};
    struct text names[] = {text_of(words[0]), text_of(words[1]), text_of(words[2])};
    uint32_t values[] = {r.object, r.array, r.string, r.number, grammar_choice(b, names, 3)};
    uint32_t member[] = {r.string, style.blank, grammar_literal(b, text_of(":")), style.blank,
                         r.value};
    grammar_rule_set(b, string, json_grammar_string(b));
    grammar_rule_set(b, number, json_grammar_number(b));
    grammar_rule_set(b, array, list_of(b, "[", r.value, "]", style.blank));
    grammar_rule_set(b, object, list_of(b, "{", grammar_join_all(b, member, 5), "}", style.blank));
    grammar_rule_set(b, value, grammar_either_of(b, values, 5));
    return r;
}
