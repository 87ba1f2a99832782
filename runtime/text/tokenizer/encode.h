// SPDX-License-Identifier: Apache-2.0
// The state of one tokenizer_encode call: output, scratch memory and texts under construction. All
// memory is in the caller's arena. Only the tokenizer's own files include this.
#pragma once

#include "runtime/text/tokenizer.h"
#include "runtime/text/tokenizer/regex.h"

enum {
    STAGES_MAX = 32,           // normalizers, pre-tokenizers or decoders
    IDS_MAX = 1 << 24,         // token ids
    AFFIX_MAX = 32,            // bytes of a subword prefix or suffix
    TEXT_BYTES_MAX = 1 << 30,  // of one text, also while it is normalized
    TEXT_GROWTH_MAX = 1 << 16, // bytes that one input byte may become: factor in tokenizer_bound
};

// ---- output

// One call of tokenizer_encode. `status` keeps the first failure; later stages then do nothing.
struct encode {
    const struct tokenizer *t;
    struct arena *arena;
    struct slice *slice; // the work is charged to it; NULL: not counted
    int32_t *tokens;     // [token_max]
    uint8_t *type_ids;   // [token_max] or NULL
    uint32_t token_max, token_count;
    uint8_t type_id;
    bool added_tokens;    // false if the complete text is plain
    const uint8_t *plain; // [text bytes] 1: no guarded token may use this byte; NULL: any may
    uint32_t *scratch[2]; // grow and are reused: [1] for merging long words, [0] for all else
    size_t scratch_words[2];
    char *stage_text[STAGES_MAX]; // text rewritten by each pre-tokenizer stage
    size_t stage_bytes[STAGES_MAX];
    struct regex_scratch *regex_scratch; // created when the first regex is used
    enum status status;                  // STATUS_OK until something fails
    bool limit_hit;                      // true if a regex failed with REGEX_LIMIT
};

// Appends a token; sets STATUS_TOO_LARGE if the output is full.
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

// Charges work to the slice; 1 is about the cost of parsing one byte of JSON. Returns false after
// setting e->status.
static inline bool encode_spend(struct encode *e, uint64_t work)
{
    if (slice_spend(e->slice, work))
        return true;
    e->status = STATUS_UNWANTED;
    return false;
}

// Allocates from the arena of the call. Returns NULL after setting e->status.
void *encode_alloc(struct encode *e, size_t bytes);
// Returns scratch buffer `which` (0 or 1) with at least `words` uint32, contents undefined; NULL
// after setting e->status. Invalidates what the buffer held before.
uint32_t *encode_scratch(struct encode *e, int which, size_t words);

// Finds the next match at or after `from`; creates e->regex_scratch on first use. Returns false if
// there is none or after setting e->status.
bool encode_find(struct encode *e, const struct regex *regex, struct text text, size_t from,
                 struct regex_span *out);

// A text between two stages. `plain` marks the bytes in which no guarded token may be found.
struct marked_text {
    const char *at;
    size_t bytes;
    const uint8_t *plain; // [bytes], or NULL: no byte is marked
};

// A text under construction in the arena of e. The functions return false after setting e->status.
struct marked_builder {
    struct encode *e;
    char *at;
    uint8_t *plain; // marks as in struct marked_text; NULL: not tracked
    size_t bytes, bytes_max;
};
// Starts an empty text. bytes: initial capacity. track: true if it gets `plain` marks.
bool marked_builder_init(struct marked_builder *b, struct encode *e, size_t bytes, bool track);
bool marked_builder_put(struct marked_builder *b, const char *at, size_t bytes, uint8_t plain);
bool marked_builder_put_char(struct marked_builder *b, uint32_t c, uint8_t plain);
struct marked_text marked_builder_done(const struct marked_builder *b);
static inline uint8_t plain_at(const struct marked_text *s, size_t i)
{
    return s->plain ? s->plain[i] : 0;
}
