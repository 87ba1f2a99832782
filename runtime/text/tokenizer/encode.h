// The state of one call of tokenizer_encode: output, scratch memory, and texts that are being made.
// Only the tokenizer's own files include this.
#pragma once

#include "runtime/text/tokenizer.h"
#include "runtime/text/tokenizer/regex.h"

enum {
    STAGES_MAX = 32,
    IDS_MAX = 1 << 24,
    AFFIX_MAX = 32,
    TEXT_BYTES_MAX = 1 << 30,
    TEXT_GROWTH_MAX = 1 << 16, // bytes made of one at most: it multiplies every text's bound
};

// ---- where ids go

// One call of tokenizer_encode: the output, the scratch memory and the first thing that failed.
struct encode {
    const struct tokenizer *t;
    struct arena *arena;
    struct slice *slice; // that the work is counted in, or NULL
    int32_t *tokens;     // [token_max]
    uint8_t *type_ids;   // [token_max] or NULL
    uint32_t token_max, token_count;
    uint8_t type_id;
    bool added_tokens;    // recognise them
    const uint8_t *plain; // [text bytes] 1: no added token here; NULL: everywhere
    uint32_t *scratch[2]; // grow, reused from word to word: symbols, work of long words
    size_t scratch_words[2];
    char *stage_text[STAGES_MAX]; // texts that pre-tokenizers made, one per stage
    size_t stage_bytes[STAGES_MAX];
    struct regex_room *room; // made when the first regex is used
    enum status status;      // STATUS_OK as long as nothing failed
    bool over;               // ... and that was a regex: REGEX_OVER
};

static inline void encode_push(struct encode *e, uint32_t id)
{
    if (e->token_count == e->token_max) {
        e->status = STATUS_TOO_LARGE;
        return;
    }
    if (e->type_ids)
        e->type_ids[e->token_count] = e->type_id;
    e->tokens[e->token_count++] = (int32_t)id;
}

// Counts work, of which parsing a byte of JSON takes 1; false after setting e->status.
static inline bool encode_spend(struct encode *e, uint64_t work)
{
    if (slice_spend(e->slice, work))
        return true;
    e->status = STATUS_UNWANTED;
    return false;
}

// Memory of one call; NULL after setting e->status.
void *encode_take(struct encode *e, size_t bytes);
// At least `words` uint32 of scratch, contents undefined; NULL after setting e->status.
uint32_t *encode_scratch(struct encode *e, int which, size_t words);

// Makes e->room if there is none; false after setting e->status.
bool encode_find(struct encode *e, const struct regex *regex, struct text text, size_t from,
                 struct regex_span *out);

// A text between stages: plain marks bytes in which no added token may be found (NULL: none).
struct nstr {
    const char *at;
    size_t bytes;
    const uint8_t *plain; // [bytes] or NULL
};

// A text being made: room is reserved with nbuf_room, then written.
struct nbuf {
    struct encode *e;
    char *at;
    uint8_t *plain; // NULL: not tracked
    size_t bytes, bytes_max;
};
bool nbuf_init(struct nbuf *b, struct encode *e, size_t bytes, bool track);
bool nbuf_put(struct nbuf *b, const char *at, size_t bytes, uint8_t plain);
bool nbuf_put_char(struct nbuf *b, uint32_t c, uint8_t plain);
struct nstr nbuf_done(const struct nbuf *b);
static inline uint8_t plain_at(const struct nstr *s, size_t i)
{
    return s->plain ? s->plain[i] : 0;
}
