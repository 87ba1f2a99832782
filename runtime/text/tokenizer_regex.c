// PCRE2 behind a narrow door; see tokenizer_regex.h.
#define PCRE2_CODE_UNIT_WIDTH 8
#include "runtime/text/tokenizer_regex.h"

#include "runtime/base/arena.h"

#include <pcre2.h>

struct regex {
    pcre2_code *code;
    pcre2_match_context *context;
};

struct writer {
    char *at;
    size_t bytes;
};

static void put(struct writer *w, const char *text)
{
    size_t bytes = strlen(text);
    memcpy(w->at + w->bytes, text, bytes);
    w->bytes += bytes;
}

// \s and \w mean more in PCRE2 (U+180E) or less (marks) than in the reference engine.
static bool put_class(struct writer *w, char letter, bool inside)
{
    const char *body = letter == 's' || letter == 'S'   ? "\\t-\\r\\x{85}\\p{Z}"
                       : letter == 'w' || letter == 'W' ? "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}"
                       : letter == 'h' || letter == 'H' ? "0-9a-fA-F"
                                                        : NULL;
    bool negated = letter >= 'A' && letter <= 'Z';
    if (body == NULL || (inside && negated))
        return false;
    if (!inside)
        put(w, negated ? "[^" : "[");
    put(w, body);
    if (!inside)
        put(w, "]");
    return true;
}

// Rewrites the classes; the result is at most 16 times as long.
static void translate(struct writer *w, struct text pattern)
{
    bool inside = false;
    for (size_t i = 0; i < pattern.bytes; i++) {
        char c = pattern.at[i];
        if (c == '\\' && i + 1 < pattern.bytes) {
            char letter = pattern.at[++i];
            if (!put_class(w, letter, inside)) {
                w->at[w->bytes++] = '\\';
                w->at[w->bytes++] = letter;
            }
            continue;
        }
        if (c == '[' && !inside) {
            inside = true;
            w->at[w->bytes++] = c;
            while (i + 1 < pattern.bytes && pattern.at[i + 1] == '^')
                w->at[w->bytes++] = pattern.at[++i];
            if (i + 1 < pattern.bytes && pattern.at[i + 1] == ']')
                w->at[w->bytes++] = pattern.at[++i];
            continue;
        }
        if (c == '[' && inside && i + 1 < pattern.bytes && pattern.at[i + 1] == ':') {
            const char *close = memmem(pattern.at + i, pattern.bytes - i, ":]", 2);
            size_t bytes = close != NULL ? (size_t)(close + 2 - (pattern.at + i)) : 1;
            memcpy(w->at + w->bytes, pattern.at + i, bytes);
            w->bytes += bytes;
            i += bytes - 1;
            continue;
        }
        if (c == ']')
            inside = false;
        w->at[w->bytes++] = c;
    }
}

enum status regex_open(struct regex **out, struct text pattern, struct error *err)
{
    struct writer w = {heap_take(pattern.bytes * 32 + 1), 0};
    translate(&w, pattern);
    int code;
    PCRE2_SIZE offset;
    pcre2_code *compiled = pcre2_compile(
        (PCRE2_SPTR)w.at, w.bytes, PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE, &code, &offset, NULL);
    heap_give(w.at);
    if (compiled == NULL) {
        char why[200];
        pcre2_get_error_message(code, (PCRE2_UCHAR *)why, sizeof why);
        return error_set(err, STATUS_UNSUPPORTED, "the pattern %.*s cannot be read: %s",
                         (int)(pattern.bytes < 300 ? pattern.bytes : 300), pattern.at, why);
    }
    // Without JIT (a pattern it cannot do) the interpreter matches.
    (void)pcre2_jit_compile(compiled, PCRE2_JIT_COMPLETE);
    struct regex *regex = heap_take(sizeof *regex);
    *regex = (struct regex){compiled, pcre2_match_context_create(NULL)};
    check(regex->context != NULL, "no memory for a match context");
    pcre2_set_match_limit(regex->context, 5000000);
    pcre2_set_heap_limit(regex->context, 64 * 1024);
    *out = regex;
    return STATUS_OK;
}

void regex_close(struct regex *regex)
{
    if (regex == NULL)
        return;
    pcre2_match_context_free(regex->context);
    pcre2_code_free(regex->code);
    heap_give(regex);
}

static void *room_take(PCRE2_SIZE bytes, void *arena)
{
    return arena_take(arena, bytes);
}

static void room_give(void *piece, void *arena)
{
    (void)piece;
    (void)arena;
}

struct regex_room *regex_room_create(struct arena *arena)
{
    pcre2_general_context *memory = pcre2_general_context_create(room_take, room_give, arena);
    // Room for the whole match only: an answer of 0 says that there were groups as well.
    return memory != NULL ? (struct regex_room *)pcre2_match_data_create(1, memory) : NULL;
}

bool regex_find(const struct regex *regex, struct regex_room *room, struct text text, size_t from,
                struct regex_span *out)
{
    pcre2_match_data *data = (pcre2_match_data *)room;
    if (from > text.bytes)
        return false;
    int found = pcre2_match(regex->code, (PCRE2_SPTR)text.at, text.bytes, from, PCRE2_NO_UTF_CHECK,
                            data, regex->context);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT)
        found = pcre2_match(regex->code, (PCRE2_SPTR)text.at, text.bytes, from,
                            PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, data, regex->context);
    if (found < 0)
        return false;
    const PCRE2_SIZE *at = pcre2_get_ovector_pointer(data);
    *out = (struct regex_span){at[0], at[1]};
    return at[1] >= at[0] && at[0] >= from; // \K can turn a match around
}
