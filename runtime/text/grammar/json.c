// SPDX-License-Identifier: Apache-2.0
// The parts of JSON's text. See json.h.
#include "runtime/text/grammar/json.h"

uint32_t json_grammar_chars(struct grammar_builder *b, const struct grammar_range *ranges,
                            uint32_t count)
{
    return writer_chars(b, WRITE_JSON, ranges, count);
}

uint32_t json_grammar_text(struct grammar_builder *b, struct text value)
{
    return writer_text(b, WRITE_JSON, value);
}

static uint32_t json_quoted(struct grammar_builder *b, uint32_t inside)
{
    uint32_t quote = grammar_literal(b, text_of("\""));
    return grammar_join(b, quote, grammar_join(b, inside, quote));
}

uint32_t json_grammar_string(struct grammar_builder *b)
{
    static const struct grammar_range all[] = {{0, 0x10FFFF}};
    return json_quoted(b, grammar_repeat(b, json_grammar_chars(b, all, 1), 0, GRAMMAR_UNBOUNDED));
}

static uint32_t json_digits(struct grammar_builder *b, uint32_t min)
{
    return grammar_repeat(b, grammar_byte(b, '0', '9'), min, GRAMMAR_UNBOUNDED);
}

// A digit that is not 0, then any digits.
static uint32_t json_positive(struct grammar_builder *b)
{
    return grammar_join(b, grammar_byte(b, '1', '9'), json_digits(b, 0));
}

uint32_t json_grammar_integer(struct grammar_builder *b)
{
    uint32_t minus = grammar_optional(b, grammar_literal(b, text_of("-")));
    return grammar_either(b, grammar_literal(b, text_of("0")),
                          grammar_join(b, minus, json_positive(b)));
}

uint32_t json_grammar_number(struct grammar_builder *b)
{
    uint32_t whole = grammar_either(b, grammar_literal(b, text_of("0")), json_positive(b));
    uint32_t sign =
        grammar_either(b, grammar_literal(b, text_of("+")), grammar_literal(b, text_of("-")));
    uint32_t e =
        grammar_either(b, grammar_literal(b, text_of("e")), grammar_literal(b, text_of("E")));
    uint32_t exponent[] = {e, grammar_optional(b, sign), json_digits(b, 1)};
    uint32_t parts[] = {
        grammar_optional(b, grammar_literal(b, text_of("-"))),
        whole,
        grammar_optional(b, grammar_join(b, grammar_literal(b, text_of(".")), json_digits(b, 1))),
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

struct json_rules json_grammar_rules(struct grammar_builder *b, struct json_style style)
{
    struct writer w = writer_json(b, style.blank);
    return writer_rules(b, &w);
}
