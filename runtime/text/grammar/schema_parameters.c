// SPDX-License-Identifier: Apache-2.0
// Parameters of a call as one element each: strings are written without quotes, so strings that
// would be read as something else, or as the end of the element, are not allowed. See schema.h.
#include "runtime/text/grammar/schema_parts.h"

// The strings that satisfy the list and are read back unchanged.
static uint32_t unambiguous_strings(struct schema *c, struct literals *list,
                                    const struct schema_unquoted_strings *of, uint32_t site)
{
    uint32_t inside = schema_strings(c, list, WRITE_RAW), out;
    struct error err = {0};
    if (inside == GRAMMAR_NOTHING || of->ambiguous == GRAMMAR_NOTHING || schema_failed(c))
        return inside;
    enum status status = grammar_except(c->b, inside, of->ambiguous, &out, &err);
    if (status == STATUS_TOO_LARGE && !grammar_failed(c->b))
        return schema_both(c, inside, of->unambiguous, site, "maxLength");
    if (status != STATUS_OK) {
        *c->err = err;
        return schema_pass_error(c, site, "pattern");
    }
    return out;
}

uint32_t parameter_value(struct schema *c, const struct text *key, struct literals *list,
                         uint32_t site)
{
    const struct schema_parameters *p = c->args->parameters;
    struct schema_unquoted_strings unquoted = {GRAMMAR_NOTHING, GRAMMAR_NOTHING};
    enum schema_reading reading = SCHEMA_READS_VALUE;
    uint32_t strings = GRAMMAR_NOTHING, values = GRAMMAR_NOTHING;
    uint32_t own = list->count > 0 ? list->at[0] / LITERAL_SITE : site;
    if (p->reading)
        reading = p->reading(p->context, c->b, key ? *key : (struct text){NULL, 0}, &unquoted);
    if (reading != SCHEMA_READS_VALUE)
        strings = grammar_join(c->b, p->string_open, unambiguous_strings(c, list, &unquoted, own));
    if (reading == SCHEMA_READS_EITHER) {
        json_t *others =
            json_pack("{s:[s,s,s,s,s]}", "type", "null", "boolean", "number", "array", "object");
        literals_add(c, list, schema_make(c, others, site) * LITERAL_SITE);
    }
    if (reading != SCHEMA_READS_STRING)
        values = grammar_join(c->b, p->other_open, schema_value(c, list));
    return grammar_join(c->b, grammar_either(c->b, strings, values), p->value_close);
}
