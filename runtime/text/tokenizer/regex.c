// SPDX-License-Identifier: Apache-2.0
// Regular expressions over PCRE2; see tokenizer/regex.h.
#include "runtime/text/tokenizer/pattern.h"
#include "runtime/text/tokenizer/regex_linear.h"

enum { CHOICES_MAX = 10 * 1000 * 1000 }; // match limit; Oniguruma's retry limit has this value

struct regex {
    pcre2_code *code;
    pcre2_match_context *context;
    struct linear *linear; // NULL: the pattern has constructs that it does not support
};

static enum status regex_compile(pcre2_code **out, struct text pattern, struct text translated,
                                 struct error *err)
{
    int code;
    PCRE2_SIZE offset;
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    check(context, "no memory for a compile context");
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    pcre2_set_bsr(context, PCRE2_BSR_UNICODE);
    // In PCRE2 10.42 the JIT reports wrong matches if it searches for a first character.
    uint32_t options = PCRE2_UTF | PCRE2_MULTILINE | PCRE2_NO_START_OPTIMIZE;
    *out = pcre2_compile((PCRE2_SPTR)translated.at, translated.bytes, options, &code, &offset,
                         context);
    pcre2_compile_context_free(context);
    if (*out)
        return STATUS_OK;
    char why[200];
    pcre2_get_error_message(code, (PCRE2_UCHAR *)why, sizeof why);
    return error_set(err, STATUS_UNSUPPORTED, "the pattern %.*s cannot be read: %s",
                     (int)(pattern.bytes < 300 ? pattern.bytes : 300), pattern.at, why);
}

enum status regex_create(struct regex **out, struct text pattern, struct error *err)
{
    struct arena *arena = arena_create(0, 0);
    struct text translated;
    enum status status = pattern_translate(&translated, pattern, arena, err);
    pcre2_code *compiled = NULL;
    if (status == STATUS_OK)
        status = regex_compile(&compiled, pattern, translated, err);
    struct linear *linear = status == STATUS_OK ? linear_create(translated) : NULL;
    arena_destroy(arena);
    if (status != STATUS_OK)
        return status;
    // If the JIT does not support the pattern, PCRE2 interprets it.
    (void)pcre2_jit_compile(compiled, PCRE2_JIT_COMPLETE);
    struct regex *regex = heap_alloc(sizeof *regex);
    *regex = (struct regex){compiled, pcre2_match_context_create(NULL), linear};
    check(regex->context, "no memory for a match context");
    pcre2_set_match_limit(regex->context, CHOICES_MAX);
    pcre2_set_heap_limit(regex->context, 64 * 1024);
    *out = regex;
    return STATUS_OK;
}

void regex_destroy(struct regex *regex)
{
    if (!regex)
        return;
    pcre2_match_context_free(regex->context);
    pcre2_code_free(regex->code);
    linear_destroy(regex->linear);
    heap_free(regex);
}

static void *scratch_alloc(PCRE2_SIZE bytes, void *arena)
{
    return arena_alloc(arena, bytes);
}

static void scratch_free(void *piece, void *arena)
{
    (void)piece;
    (void)arena;
}

struct regex_scratch *regex_scratch_create(struct arena *arena)
{
    struct regex_scratch *scratch = arena_alloc_zeroed(arena, 1, sizeof *scratch);
    pcre2_general_context *memory =
        scratch ? pcre2_general_context_create(scratch_alloc, scratch_free, arena) : NULL;
    if (!memory)
        return NULL;
    scratch->arena = arena;
    // One pair of offsets, for the entire match. If the pattern has groups, pcre2_match then
    // returns 0, which is no error.
    scratch->data = pcre2_match_data_create(1, memory);
    return scratch->data ? scratch : NULL;
}

uint64_t regex_steps(const struct regex_scratch *scratch)
{
    return scratch->steps;
}

// Matches in linear time. If the program is missing, interprets the pattern with up to 64 MiB.
static enum regex_found find_long(const struct regex *regex, struct regex_scratch *scratch,
                                  struct text text, size_t from, struct regex_span *out)
{
    if (regex->linear)
        return linear_find(regex->linear, scratch, text, from, out);
    int found = pcre2_match(regex->code, (PCRE2_SPTR)text.at, text.bytes, from,
                            PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, scratch->data, regex->context);
    if (found < 0)
        return found == PCRE2_ERROR_NOMATCH ? REGEX_NONE : REGEX_LIMIT;
    const PCRE2_SIZE *at = pcre2_get_ovector_pointer(scratch->data);
    *out = (struct regex_span){at[0], at[1]};
    return REGEX_FOUND;
}

enum regex_found regex_find(const struct regex *regex, struct regex_scratch *scratch,
                            struct text text, size_t from, struct regex_span *out)
{
    if (from > text.bytes)
        return REGEX_NONE;
    int found = pcre2_match(regex->code, (PCRE2_SPTR)text.at, text.bytes, from, PCRE2_NO_UTF_CHECK,
                            scratch->data, regex->context);
    enum regex_found result = REGEX_FOUND;
    if (found == PCRE2_ERROR_JIT_STACKLIMIT || found == PCRE2_ERROR_HEAPLIMIT) {
        result = find_long(regex, scratch, text, from, out);
    } else if (found < 0) {
        result = found == PCRE2_ERROR_NOMATCH ? REGEX_NONE : REGEX_LIMIT;
    } else {
        const PCRE2_SIZE *at = pcre2_get_ovector_pointer(scratch->data);
        *out = (struct regex_span){at[0], at[1]};
    }
    // \K can put the start of a match after its end.
    bool forward = result != REGEX_FOUND || (out->end >= out->start && out->start >= from);
    return forward ? result : REGEX_NONE;
}

bool regex_is_linear(const struct regex *regex)
{
    return regex->linear != NULL;
}

enum regex_found regex_find_linear(const struct regex *regex, struct regex_scratch *scratch,
                                   struct text text, size_t from, struct regex_span *out)
{
    check(regex->linear, "the pattern has no linear program");
    return from > text.bytes ? REGEX_NONE : find_long(regex, scratch, text, from, out);
}
