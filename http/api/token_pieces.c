// SPDX-License-Identifier: Apache-2.0
// Answers of /tokenize and /detokenize: see pieces.h.
#include "http/api/pieces.h"

// Parts of an answer. FIRST has the text or the ids; SECOND has the text again or the ids as
// strings.
enum tokens_part { PART_HEAD, PART_FIRST, PART_MIDDLE, PART_SECOND, PART_END };

enum { TOKEN_WORK = 4 }; // work of a token without text, in bytes of JSON parsed

bool token_pieces_begin(struct token_pieces *p, struct arena *arena)
{
    p->scratch = arena_alloc(arena, detok_bound(p->tokenizer));
    return p->scratch != NULL;
}

static void part_next(struct token_pieces *p)
{
    p->part++;
    p->at = 0;
    detok_init(&p->detok, p->tokenizer, false);
}

// Writes ids from p->at on, until the piece is full.
static void ids_put(struct token_pieces *p, struct json_buffer *out, bool strings)
{
    while (p->at < p->count && out->bytes < TOKEN_PIECE_BYTES) {
        int32_t id = p->ids[p->at];
        json_put_literal(out, p->at > 0 ? "," : "");
        struct text text =
            strings ? tokenizer_token_text(p->tokenizer, id) : (struct text){NULL, 0};
        if (!strings)
            json_put_unsigned(out, (uint64_t)id);
        else
            json_put_string(out, text.at ? text : text_of(""));
        p->at++;
        p->ids_written++;
    }
}

// Writes text from p->at on, until the piece is full. At the end, also writes an incomplete
// character.
static void text_put(struct token_pieces *p, struct json_buffer *out)
{
    uint32_t most = detok_bound(p->tokenizer);
    while (p->at < p->count && out->bytes < TOKEN_PIECE_BYTES) {
        uint32_t bytes = detok_push(&p->detok, p->ids[p->at], p->scratch, most);
        json_put_escaped(out, text_span(p->scratch, bytes));
        p->at++;
        p->ids_written++;
    }
    if (p->at == p->count) {
        uint32_t bytes = detok_finish(&p->detok, p->scratch, most);
        json_put_escaped(out, text_span(p->scratch, bytes));
    }
}

static void frame_put(const struct token_pieces *p, struct json_buffer *out)
{
    if (p->text)
        json_put_literal(out, p->part == PART_HEAD     ? "{\"prompt\":\""
                              : p->part == PART_MIDDLE ? "\",\"content\":\""
                                                       : "\"}");
    else if (p->part == PART_HEAD)
        json_put_format(out, "{\"count\":%u,\"max_model_len\":%u,\"tokens\":[", p->count,
                        p->window);
    else if (p->part == PART_MIDDLE)
        json_put_literal(out, p->strings ? "],\"token_strs\":[" : "],\"token_strs\":null");
    else
        json_put_literal(out, p->strings ? "]}" : "}");
}

bool token_pieces_put(struct token_pieces *p, struct json_buffer *out)
{
    bool body = p->part == PART_FIRST || p->part == PART_SECOND;
    if (!body)
        frame_put(p, out);
    else if (p->text)
        text_put(p, out);
    else if (p->part == PART_FIRST || p->strings)
        ids_put(p, out, p->part == PART_SECOND);
    else
        p->at = p->count;
    if (!body || p->at == p->count)
        part_next(p);
    return p->part <= PART_END;
}

uint64_t token_pieces_length(const struct token_pieces *p, struct slice *slice)
{
    struct token_pieces copy = *p;
    struct json_buffer piece = {0};
    uint64_t length = 0;
    bool more = true;
    while (more) {
        uint64_t before = copy.ids_written;
        piece.bytes = 0;
        more = token_pieces_put(&copy, &piece);
        length += piece.bytes;
        more = slice_spend(slice, piece.bytes + (copy.ids_written - before) * TOKEN_WORK) && more;
    }
    json_buffer_free(&piece);
    return length;
}
