// SPDX-License-Identifier: Apache-2.0
// The stages from a text to its ids: added tokens in raw text, normalizers, added tokens in
// normalized text, pre-tokenizers, model. Each stage passes piece after piece to the next; no list
// of pieces exists.
#include "runtime/text/tokenizer/internal.h"

enum {
    PASSED_BYTES = 8,   // bytes copied or scanned at the cost of parsing one byte of JSON
    STEPS_PER_BYTE = 2, // instructions of the linear matcher at that cost
};

void *encode_alloc(struct encode *e, size_t bytes)
{
    void *piece = arena_alloc(e->arena, bytes > 0 ? bytes : 1);
    if (!piece && e->status == STATUS_OK)
        e->status = STATUS_NO_SPACE;
    return piece;
}

uint32_t *encode_scratch(struct encode *e, int which, size_t words)
{
    if (words > e->scratch_words[which]) {
        enum { LARGE = 1 << 20 }; // longer words are rare, so they get no extra space
        size_t wanted = words < 1024 ? 1024 : words < LARGE ? words + words / 2 : words;
        e->scratch[which] = encode_alloc(e, wanted * sizeof *e->scratch[which]);
        e->scratch_words[which] = e->scratch[which] ? wanted : 0;
    }
    return e->scratch[which];
}

bool encode_find(struct encode *e, const struct regex *regex, struct text text, size_t from,
                 struct regex_span *out)
{
    if (!e->regex_scratch)
        e->regex_scratch = regex_scratch_create(e->arena);
    if (!e->regex_scratch) {
        e->status = STATUS_NO_SPACE;
        return false;
    }
    uint64_t before = regex_steps(e->regex_scratch);
    enum regex_found found = regex_find(regex, e->regex_scratch, text, from, out);
    uint64_t steps = regex_steps(e->regex_scratch) - before;
    e->limit_hit = e->limit_hit || found == REGEX_LIMIT;
    if (e->limit_hit)
        e->status = STATUS_NO_SPACE;
    else if (steps > 0 && !encode_spend(e, steps / STEPS_PER_BYTE))
        return false;
    return found == REGEX_FOUND;
}

bool marked_builder_init(struct marked_builder *b, struct encode *e, size_t bytes, bool track)
{
    size_t capacity = bytes + bytes / 8 + 64;
    *b = (struct marked_builder){.e = e, .bytes_max = capacity, .at = encode_alloc(e, capacity)};
    if (track && b->at)
        b->plain = encode_alloc(e, capacity);
    return b->at && (!track || b->plain);
}

static bool marked_builder_grow(struct marked_builder *b, size_t bytes)
{
    size_t wanted = (b->bytes + bytes) * 2;
    if (wanted > TEXT_BYTES_MAX) {
        b->e->status = STATUS_TOO_LARGE;
        return false;
    }
    char *at = encode_alloc(b->e, wanted);
    uint8_t *plain = b->plain ? encode_alloc(b->e, wanted) : NULL;
    if (!at || (b->plain && !plain))
        return false;
    memcpy(at, b->at, b->bytes);
    if (plain)
        memcpy(plain, b->plain, b->bytes);
    b->at = at;
    b->plain = plain;
    b->bytes_max = wanted;
    return true;
}

bool marked_builder_put(struct marked_builder *b, const char *at, size_t bytes, uint8_t plain)
{
    if (!encode_spend(b->e, 1 + bytes / PASSED_BYTES) ||
        (b->bytes + bytes > b->bytes_max && !marked_builder_grow(b, bytes)))
        return false;
    if (bytes > 0)
        memcpy(b->at + b->bytes, at, bytes);
    if (b->plain)
        memset(b->plain + b->bytes, plain, bytes);
    b->bytes += bytes;
    return true;
}

bool marked_builder_put_char(struct marked_builder *b, uint32_t c, uint8_t plain)
{
    char utf8[4];
    return marked_builder_put(b, utf8, utf8_write(c, utf8), plain);
}

struct marked_text marked_builder_done(const struct marked_builder *b)
{
    return (struct marked_text){b->at, b->bytes, b->plain};
}

static void normalized_stretch(struct encode *e, struct marked_text piece, bool first)
{
    pretokenize(e, 0, text_span(piece.at, piece.bytes), first);
}

static void raw_stretch(struct encode *e, struct marked_text piece, bool first)
{
    if (e->status != STATUS_OK || !normalize(e, &piece) || piece.bytes == 0)
        return;
    struct added_sink sink = {normalized_stretch, first};
    added_split(e, &e->t->normalized, piece, &sink);
}

void encode_text(struct encode *e, struct text text, uint8_t type_id)
{
    text = utf8_lossy(e->arena, text);
    if (!text.at && text.bytes == 0)
        return;
    if (!encode_spend(e, text.bytes / PASSED_BYTES))
        return;
    e->type_id = type_id;
    struct added_sink sink = {raw_stretch, true};
    added_split(e, &e->t->raw, (struct marked_text){text.at, text.bytes, e->plain}, &sink);
}

static enum status encode_finish(struct encode *e, uint32_t *token_count, struct error *err)
{
    *token_count = e->token_count;
    if (e->status == STATUS_UNWANTED)
        return error_set(err, e->status,
                         "encoding was cancelled because its result is no longer needed");
    if (e->status == STATUS_TOO_LARGE)
        return error_set(err, e->status, "the text has more than %u tokens", e->token_max);
    if (e->limit_hit)
        return error_set(err, e->status, PATTERN_LIMIT);
    if (e->status != STATUS_OK)
        return error_set(err, e->status, "encoding the text exceeds its memory limit");
    return STATUS_OK;
}

static struct encode encode_begin(const struct tokenizer *t, const struct encode_args *args,
                                  int32_t *tokens, uint32_t token_max)
{
    return (struct encode){.t = t,
                           .arena = args->arena,
                           .slice = args->slice,
                           .tokens = tokens,
                           .type_ids = args->type_ids,
                           .token_max = token_max,
                           .added_tokens = (args->flags & ENCODE_ADDED_TOKENS) != 0};
}

enum status tokenizer_encode(const struct tokenizer *t, const struct encode_args *args,
                             int32_t *tokens, uint32_t token_max, uint32_t *token_count,
                             struct error *err)
{
    struct encode e = encode_begin(t, args, tokens, token_max);
    if (args->text.bytes > TEXT_BYTES_MAX || (args->pair && args->pair->bytes > TEXT_BYTES_MAX))
        e.status = STATUS_TOO_LARGE;
    else
        encode_post(&e, args);
    if (args->type_ids && !t->gives_types)
        memset(args->type_ids, 0, e.token_count);
    return encode_finish(&e, token_count, err);
}

// Joins the segments and marks the plain bytes. A segment that ends inside a character is repaired
// first, so that the marks stay correct.
static bool segments_join(struct encode *e, const struct encode_args *args, struct text *joined)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < args->segment_count; i++) {
        bytes += args->segments[i].text.bytes;
        if (bytes > TEXT_BYTES_MAX) {
            e->status = STATUS_TOO_LARGE;
            return false;
        }
    }
    struct marked_builder all;
    if (!marked_builder_init(&all, e, bytes, true))
        return false;
    for (uint32_t i = 0; i < args->segment_count; i++) {
        struct text text = args->segments[i].text;
        text = text.bytes > 0 ? utf8_lossy(e->arena, text) : text;
        if ((!text.at && text.bytes > 0) ||
            !marked_builder_put(&all, text.at, text.bytes, args->segments[i].plain))
            return false;
    }
    *joined = text_span(all.at, all.bytes);
    e->plain = all.plain;
    return true;
}

enum status tokenizer_encode_segments(const struct tokenizer *t, const struct encode_args *args,
                                      int32_t *tokens, uint32_t token_max, uint32_t *token_count,
                                      struct error *err)
{
    struct encode e = encode_begin(t, args, tokens, token_max);
    struct encode_args whole = *args;
    e.added_tokens = true;
    whole.pair = NULL;
    if (segments_join(&e, args, &whole.text))
        encode_post(&e, &whole);
    return encode_finish(&e, token_count, err);
}

uint32_t tokenizer_bound(const struct tokenizer *t, size_t text_bytes)
{
    double special = (double)t->post.single_count + (double)t->post.pair_count;
    for (uint32_t i = 0; i < t->post.single_count; i++)
        special += t->post.single[i].id_count;
    for (uint32_t i = 0; i < t->post.pair_count; i++)
        special += t->post.pair[i].id_count;
    double bound = 16 + special + ((double)text_bytes + 2) * t->tokens_per_byte;
    return bound < (double)UINT32_MAX ? (uint32_t)bound : UINT32_MAX;
}
