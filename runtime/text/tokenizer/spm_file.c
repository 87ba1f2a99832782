// SPDX-License-Identifier: Apache-2.0
// Reads a SentencePiece model (tokenizer.model): a protobuf message with pieces and the settings of
// trainer and normalizer. The field numbers are those of sentencepiece_model.proto. Each message
// is a list of fields: a varint with number and wire type, then a varint, 4 or 8 bytes, or a length
// and that many bytes. Unknown fields are skipped. Loading thread only.
#include "runtime/text/tokenizer/files.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { PIECES_MAX = 1 << 22, NUMBER_MAX = (1 << 29) - 1 };
enum wire_type { WIRE_VARINT, WIRE_EIGHT, WIRE_BYTES, WIRE_FOUR = 5 };

// A message, or the part of it that is not read yet.
struct spm_message {
    const char *name;  // name of the file, for errors
    const char *start; // first byte of the file
    struct text rest;
};

struct field {
    uint32_t number;
    enum wire_type type;
    uint64_t value;    // value of a varint
    struct text bytes; // bytes of the other types
};

static enum status damaged(const struct spm_message *m, const char *what, struct error *err)
{
    return error_set(err, STATUS_INVALID, "%s is damaged at byte %zu: %s; download the file again",
                     m->name, (size_t)(m->rest.at - m->start), what);
}

static bool varint_read(struct spm_message *m, uint64_t *value)
{
    *value = 0;
    for (size_t i = 0; i < 10 && i < m->rest.bytes; i++) {
        uint64_t bits = (unsigned char)m->rest.at[i];
        *value |= (bits & 0x7F) << (7 * i);
        if (bits < 0x80) {
            m->rest = text_span(m->rest.at + i + 1, m->rest.bytes - i - 1);
            return true;
        }
    }
    return false;
}

static enum status field_read(struct field *f, struct spm_message *m, struct error *err)
{
    uint64_t key, bytes = 0;
    *f = (struct field){0};
    if (!varint_read(m, &key))
        return damaged(m, "the key of a field does not end", err);
    f->number = (uint32_t)(key >> 3 & NUMBER_MAX);
    f->type = (enum wire_type)(key & 7);
    if (key >> 3 == 0 || key >> 3 > NUMBER_MAX)
        return damaged(m, "a field has no valid number", err);
    if (f->type == WIRE_VARINT)
        return varint_read(m, &f->value) ? STATUS_OK : damaged(m, "a number does not end", err);
    if (f->type == WIRE_BYTES && !varint_read(m, &bytes))
        return damaged(m, "a length does not end", err);
    if (f->type != WIRE_BYTES && f->type != WIRE_FOUR && f->type != WIRE_EIGHT)
        return damaged(m, "a field has an unknown type", err);
    bytes = f->type == WIRE_FOUR ? 4 : f->type == WIRE_EIGHT ? 8 : bytes;
    if (bytes > m->rest.bytes)
        return damaged(m, "a field ends after its message", err);
    f->bytes = text_span(m->rest.at, (size_t)bytes);
    m->rest = text_span(m->rest.at + bytes, m->rest.bytes - (size_t)bytes);
    return STATUS_OK;
}

// Reads a message with `read`, which gets each field.
static enum status message_read(struct spm_file *out, const struct spm_message *outer,
                                struct text bytes,
                                enum status (*read)(struct spm_file *, const struct field *,
                                                    const struct spm_message *, struct error *),
                                struct error *err)
{
    struct spm_message m = {outer->name, outer->start, bytes};
    enum status status = STATUS_OK;
    while (status == STATUS_OK && m.rest.bytes > 0) {
        struct field f;
        const struct spm_message before = m;
        status = field_read(&f, &m, err);
        if (status == STATUS_OK)
            status = read(out, &f, &before, err);
    }
    return status;
}

static enum status piece_field(struct spm_file *out, const struct field *f,
                               const struct spm_message *m, struct error *err)
{
    struct spm_piece *piece = &out->pieces[out->count];
    if (f->number == 1 && f->type == WIRE_BYTES)
        piece->name = f->bytes;
    if (f->number == 2 && f->type == WIRE_FOUR)
        memcpy(&piece->score, f->bytes.at, sizeof piece->score);
    if (f->number == 3 && f->type == WIRE_VARINT) {
        if (f->value < PIECE_NORMAL || f->value > PIECE_BYTE)
            return damaged(m, "a piece has an unknown kind", err);
        piece->kind = (enum spm_kind)f->value;
    }
    return STATUS_OK;
}

static enum status piece_read(struct spm_file *out, const struct field *f,
                              const struct spm_message *m, struct error *err)
{
    if (out->count == PIECES_MAX)
        return error_set(err, STATUS_TOO_LARGE,
                         "%s has over %d pieces, the most that are read; take another file of the "
                         "model",
                         m->name, PIECES_MAX);
    out->pieces =
        arena_extend(out->arena, out->pieces, out->count, &out->allocated, sizeof *out->pieces);
    struct spm_piece *piece = &out->pieces[out->count];
    *piece = (struct spm_piece){.kind = PIECE_NORMAL};
    enum status status = message_read(out, m, f->bytes, piece_field, err);
    if (status != STATUS_OK)
        return status;
    if (piece->name.bytes == 0 || utf8_valid_prefix(piece->name) != piece->name.bytes)
        return damaged(m, "a piece has no text in UTF-8", err);
    if (!isfinite(piece->score))
        return damaged(m, "the score of a piece is not finite", err);
    out->count++;
    return STATUS_OK;
}

static enum status trainer_field(struct spm_file *out, const struct field *f,
                                 const struct spm_message *m, struct error *err)
{
    (void)m;
    (void)err;
    if (f->type != WIRE_VARINT)
        return STATUS_OK;
    // Negative ids, which mean "none", are varints of 64 bits.
    int32_t id = f->value < PIECES_MAX ? (int32_t)f->value : -1;
    switch (f->number) {
    case 3:
        out->model = f->value;
        break;
    case 24:
        out->suffixes = f->value != 0;
        break;
    case 35:
        out->byte_fallback = f->value != 0;
        break;
    case 41:
        out->bos = id;
        break;
    case 42:
        out->eos = id;
        break;
    case 43:
        out->pad = id;
        break;
    default:
        break;
    }
    return STATUS_OK;
}

static enum status normalizer_field(struct spm_file *out, const struct field *f,
                                    const struct spm_message *m, struct error *err)
{
    (void)m;
    (void)err;
    if (f->number == 2 && f->type == WIRE_BYTES)
        out->charsmap = f->bytes;
    if (f->number == 3 && f->type == WIRE_VARINT)
        out->dummy_prefix = f->value != 0;
    if (f->number == 4 && f->type == WIRE_VARINT)
        out->collapses = f->value != 0;
    if (f->number == 5 && f->type == WIRE_VARINT)
        out->escapes = f->value != 0;
    return STATUS_OK;
}

static enum status denormalizer_field(struct spm_file *out, const struct field *f,
                                      const struct spm_message *m, struct error *err)
{
    (void)m;
    (void)err;
    if (f->number == 2 && f->type == WIRE_BYTES)
        out->denormalizes = f->bytes.bytes > 0;
    return STATUS_OK;
}

static enum status model_field(struct spm_file *out, const struct field *f,
                               const struct spm_message *m, struct error *err)
{
    if (f->type != WIRE_BYTES)
        return STATUS_OK;
    switch (f->number) {
    case 1:
        return piece_read(out, f, m, err);
    case 2:
        return message_read(out, m, f->bytes, trainer_field, err);
    case 3:
        return message_read(out, m, f->bytes, normalizer_field, err);
    case 5:
        return message_read(out, m, f->bytes, denormalizer_field, err);
    default:
        return STATUS_OK;
    }
}

// Refuses the settings that spm_document cannot express.
static enum status settings_check(const struct spm_file *s, const char *name, struct error *err)
{
    const char *what = s->model != SPM_UNIGRAM && s->model != SPM_BPE
                           ? "a model that is neither unigram nor BPE"
                       : s->suffixes     ? "treat_whitespace_as_suffix"
                       : !s->escapes     ? "escape_whitespaces false"
                       : s->denormalizes ? "a denormalizer"
                                         : NULL;
    uint32_t unknown = 0;
    for (uint32_t i = 0; i < s->count; i++) {
        unknown += s->pieces[i].kind == PIECE_UNKNOWN;
        if (s->pieces[i].kind == PIECE_UNUSED)
            what = "unused pieces";
    }
    if (what)
        return error_set(err, STATUS_UNSUPPORTED,
                         "%s has %s, which weft does not read: " TOKENIZER_CONVERT, name, what);
    if (unknown != 1)
        return error_set(err, STATUS_INVALID,
                         "%s has %u pieces of the kind `unknown` and must have one; download the "
                         "file again",
                         name, unknown);
    return STATUS_OK;
}

enum status spm_file_parse(struct spm_file *out, struct arena *arena, struct text bytes,
                           const char *name, struct error *err)
{
    *out = (struct spm_file){.arena = arena,
                             .model = SPM_UNIGRAM,
                             .bos = 1,
                             .eos = 2,
                             .pad = -1,
                             .dummy_prefix = true,
                             .collapses = true,
                             .escapes = true};
    const struct spm_message file = {name, bytes.at, bytes};
    enum status status = message_read(out, &file, bytes, model_field, err);
    return status == STATUS_OK ? settings_check(out, name, err) : status;
}
