// SPDX-License-Identifier: Apache-2.0
// Reads the `decoder` of a tokenizer file into a flat list, and applies each kind to one token.
#include "runtime/text/tokenizer/internal.h"

static const char *const kinds[] = {
    [DECODE_BYTE_LEVEL] = "ByteLevel",
    [DECODE_REPLACE] = "Replace",
    [DECODE_BYTE_FALLBACK] = "ByteFallback",
    [DECODE_FUSE] = "Fuse",
    [DECODE_STRIP] = "Strip",
    [DECODE_METASPACE] = "Metaspace",
    [DECODE_WORDPIECE] = "WordPiece",
    [DECODE_BPE] = "BPEDecoder",
    [DECODE_CTC] = "CTC",
};

static struct text text_or(struct text text, const char *otherwise)
{
    return text.at ? text : text_of(otherwise);
}

static enum status one_open(struct tokenizer *t, uint32_t kind, const struct jnode *node,
                            struct error *err)
{
    struct decoder *d = &t->decoders[t->decoder_count++];
    int64_t start, stop;
    d->kind = (enum decoder_kind)kind;
    switch (d->kind) {
    case DECODE_REPLACE:
        return replace_open(node, &d->from, &d->to, &d->regex, err);
    case DECODE_STRIP:
        d->from = text_or(jtree_get_text(node, "content"), " ");
        start = jtree_integer(jtree_get(node, "start"), 255);
        stop = jtree_integer(jtree_get(node, "stop"), 255);
        d->start = start > 0 ? (uint32_t)start : 0;
        d->stop = stop > 0 ? (uint32_t)stop : 0;
        return STATUS_OK;
    case DECODE_METASPACE:
        d->from = text_or(jtree_get_text(node, "replacement"), "\xE2\x96\x81");
        d->to = text_of(" ");
        d->drop_first =
            !text_is(jtree_get_text(node, "prepend_scheme"), "never") &&
            (jtree_get(node, "prepend_scheme") || jtree_get_bool(node, "add_prefix_space", true));
        return STATUS_OK;
    case DECODE_WORDPIECE:
        d->from = text_or(jtree_get_text(node, "prefix"), "##");
        d->cleanup = jtree_get_bool(node, "cleanup", true);
        return STATUS_OK;
    case DECODE_BPE:
        d->from = text_or(jtree_get_text(node, "suffix"), "</w>");
        return STATUS_OK;
    case DECODE_CTC:
        d->from = text_or(jtree_get_text(node, "pad_token"), "<pad>");
        d->to = text_or(jtree_get_text(node, "word_delimiter_token"), "|");
        d->cleanup = jtree_get_bool(node, "cleanup", true);
        return STATUS_OK;
    default:
        return STATUS_OK;
    }
}

bool decoder_joins(const struct decoder *d)
{
    return d->kind == DECODE_FUSE || d->kind == DECODE_BYTE_LEVEL;
}

// True if applying it to each token, or to the ends of a stream, equals applying it to the joined
// text.
static bool fits_joined(const struct decoder *d)
{
    switch (d->kind) {
    case DECODE_REPLACE:
        return !d->regex && d->from.bytes <= 1;
    case DECODE_STRIP:
        return d->from.bytes <= 1;
    case DECODE_METASPACE:
    case DECODE_WORDPIECE:
    case DECODE_BPE:
    case DECODE_CTC:
        return false;
    default:
        return true;
    }
}

enum status decoders_open(struct tokenizer *t, const struct jnode *node, struct error *err)
{
    const struct stage_list list = {
        "decoder", "decoders", kinds, sizeof kinds / sizeof *kinds, &t->decoder_count, one_open};
    t->has_decoder = jtree_is(node, J_OBJECT);
    enum status status = stages_open(t, node, &list, err);
    bool joined = false;
    for (uint32_t i = 0; i < t->decoder_count && status == STATUS_OK; i++) {
        const struct decoder *d = &t->decoders[i];
        if (joined && !fits_joined(d))
            return error_set(err, STATUS_UNSUPPORTED,
                             "%s reads more than a byte at a time, which a stream cannot do after "
                             "Fuse or ByteLevel: put it before them",
                             kinds[d->kind]);
        joined = joined || decoder_joins(d);
    }
    return status;
}

// Replaces the first `most` occurrences of `from` by `to`. Returns `in` itself if there are none.
static struct text replace_all(struct arena *arena, struct text in, struct text from,
                               struct text to, uint32_t most)
{
    if (from.bytes == 0 || !memmem(in.at, in.bytes, from.at, from.bytes))
        return in;
    size_t capacity = in.bytes + in.bytes / from.bytes * to.bytes + 1;
    char *out = arena_alloc(arena, capacity);
    if (!out)
        return text_span(NULL, 0);
    size_t n = 0, at = 0;
    while (at < in.bytes) {
        bool here =
            most > 0 && in.bytes - at >= from.bytes && memcmp(in.at + at, from.at, from.bytes) == 0;
        if (!here) {
            out[n++] = in.at[at++];
            continue;
        }
        memcpy(out + n, to.at, to.bytes);
        n += to.bytes;
        at += from.bytes;
        most--;
    }
    return text_span(out, n);
}

static struct text replace_regex(const struct decoder *d, struct arena *arena, struct text in,
                                 bool *limit_hit)
{
    struct regex_scratch *scratch = regex_scratch_create(arena);
    enum regex_found found = REGEX_NONE;
    struct regex_span m;
    struct text out = text_span("", 0);
    size_t done = 0, from = 0;
    if (!scratch)
        return text_span(NULL, 0);
    while (in.bytes > 0 && out.at &&
           (found = regex_find(d->regex, scratch, in, from, &m)) == REGEX_FOUND) {
        from = m.end > m.start    ? m.end
               : m.end < in.bytes ? m.end + utf8_length(in.at + m.end)
                                  : m.end + 1;
        if (m.end == m.start && m.start == done && done > 0)
            continue; // an empty match directly after a match does not count
        out = arena_format(arena, "%.*s%.*s%.*s", (int)out.bytes, out.at, (int)(m.start - done),
                           in.at + done, (int)d->to.bytes, d->to.at);
        done = m.end;
    }
    *limit_hit = *limit_hit || found == REGEX_LIMIT;
    if (found == REGEX_LIMIT)
        return text_span(NULL, 0);
    if (out.at && done < in.bytes)
        out = arena_format(arena, "%.*s%.*s", (int)out.bytes, out.at, (int)(in.bytes - done),
                           in.at + done);
    return out;
}

static struct text decoder_strip(const struct decoder *d, struct text in)
{
    size_t bytes = d->from.bytes;
    for (uint32_t i = 0;
         bytes > 0 && i < d->start && in.bytes >= bytes && memcmp(in.at, d->from.at, bytes) == 0;
         i++)
        in = text_span(in.at + bytes, in.bytes - bytes);
    for (uint32_t i = 0; bytes > 0 && i < d->stop && in.bytes >= bytes &&
                         memcmp(in.at + in.bytes - bytes, d->from.at, bytes) == 0;
         i++)
        in.bytes -= bytes;
    return in;
}

// Removes the spaces that tokenization put into English text.
static struct text decoder_cleanup(struct arena *arena, struct text in)
{
    static const char *const pairs[][2] = {
        {" .", "."},   {" ?", "?"},     {" !", "!"},     {" ,", ","},
        {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},   {" do not", " don't"},
        {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs && in.at; i++)
        in = replace_all(arena, in, text_of(pairs[i][0]), text_of(pairs[i][1]), UINT32_MAX);
    return in;
}

static struct text decode_wordpiece(const struct decoder *d, struct arena *arena, struct text token,
                                    bool first)
{
    if (!first) {
        if (token.bytes >= d->from.bytes && memcmp(token.at, d->from.at, d->from.bytes) == 0)
            token = text_span(token.at + d->from.bytes, token.bytes - d->from.bytes);
        else
            token = arena_format(arena, " %.*s", (int)token.bytes, token.at);
    }
    return d->cleanup && token.at ? decoder_cleanup(arena, token) : token;
}

struct text decode_token(const struct decoder *d, struct arena *arena, struct text token,
                         bool first, bool last, bool *limit_hit)
{
    switch (d->kind) {
    case DECODE_REPLACE:
        if (d->regex)
            return replace_regex(d, arena, token, limit_hit);
        return replace_all(arena, token, d->from, d->to, UINT32_MAX);
    case DECODE_STRIP:
        return decoder_strip(d, token);
    case DECODE_METASPACE:
        return replace_all(arena, token, d->from, first && d->drop_first ? text_span("", 0) : d->to,
                           UINT32_MAX);
    case DECODE_WORDPIECE:
        return decode_wordpiece(d, arena, token, first);
    case DECODE_BPE:
        return replace_all(arena, token, d->from, last ? text_span("", 0) : text_of(" "),
                           UINT32_MAX);
    case DECODE_CTC:
        token = replace_all(arena, token, d->from, text_span("", 0), UINT32_MAX);
        if (d->cleanup && token.at) {
            token = decoder_cleanup(arena, token);
            if (token.at)
                token = replace_all(arena, token, d->to, text_of(" "), UINT32_MAX);
        }
        return token;
    default:
        return token;
    }
}
