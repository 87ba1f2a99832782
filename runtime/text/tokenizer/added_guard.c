// SPDX-License-Identifier: Apache-2.0
// Finds the added tokens that plain text must not contain although the file does not call them
// special: the markers of chat templates and of the dialects of tool calls. All other added tokens
// are words, as in the reference library.
#include "runtime/text/dialect/dialect.h"
#include "runtime/text/tokenizer/internal.h"

enum { MARKER_BYTES_MIN = 3 };

static bool has(struct text source, struct text piece)
{
    return piece.bytes > 0 && source.bytes >= piece.bytes &&
           memmem(source.at, source.bytes, piece.at, piece.bytes);
}

// Returns true if the token has a character with which markers are written. Words and runs of white
// space have none, so a template that contains one does not make it a marker.
static bool has_marker_shape(struct text content)
{
    for (size_t i = 0; i < content.bytes; i++)
        if (strchr("<>[]{}|", content.at[i]) && content.at[i] != '\0')
            return content.bytes >= MARKER_BYTES_MIN;
    return has(content, text_of("\xEF\xBD\x9C")); // the full-width bar of DeepSeek's tokens
}

// Returns true if the template joins a marker from parts, as in '<|' + role + '|>': it contains the
// punctuation with which the token begins, followed by the end of a literal or by an expression.
static bool is_joined(struct text source, struct text content)
{
    static const char *const ends[] = {"'", "\"", "{{"};
    char begin[32];
    size_t bytes = 0;
    while (bytes < content.bytes && bytes < sizeof begin - 2 && strchr("<[{|/", content.at[bytes]))
        bytes++;
    for (size_t i = 0; bytes > 0 && i < sizeof ends / sizeof *ends; i++) {
        size_t end_bytes = strlen(ends[i]);
        memcpy(begin, content.at, bytes);
        memcpy(begin + bytes, ends[i], end_bytes);
        if (has(source, text_span(begin, bytes + end_bytes)))
            return true;
    }
    return false;
}

static bool is_marker_of(struct text source, struct text content)
{
    return has_marker_shape(content) && (has(source, content) || is_joined(source, content));
}

static void guard_update(struct tokenizer *t)
{
    t->raw.any_word = t->normalized.any_word = false;
    for (uint32_t i = 0; i < t->added_count; i++) {
        const struct added_token *token = &t->added[i];
        struct added_matcher *m = token->normalized ? &t->normalized : &t->raw;
        m->any_word |= !token->guarded;
    }
}

void tokenizer_guard_template(struct tokenizer *t, struct text source)
{
    for (uint32_t i = 0; i < t->added_count; i++)
        t->added[i].guarded |= is_marker_of(source, t->added[i].content);
    guard_update(t);
}

void added_guard_markers(struct tokenizer *t)
{
    for (uint32_t i = 0; i < t->added_count; i++)
        t->added[i].guarded |=
            has_marker_shape(t->added[i].content) && dialect_table_has(t->added[i].content);
    for (uint32_t i = 0; i < t->template_count; i++)
        tokenizer_guard_template(t, t->templates[i].source);
    guard_update(t);
}
