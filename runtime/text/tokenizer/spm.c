// SPDX-License-Identifier: Apache-2.0
// Writes a SentencePiece model (tokenizer.model) as the text of a tokenizer.json. The stages follow
// the settings in the file, so that texts get the ids that SentencePiece gives them. The classes of
// XLM-RoBERTa and CamemBERT have their own ids and stages. Loading thread only.
#include "runtime/source/merges.h"
#include "runtime/text/tokenizer/files.h"

enum { DOCUMENT_BYTES_MAX = TOKENIZER_FILE_BYTES_MAX };

#define MARK "\u2581" // a blank in pieces

// The classes whose SentencePiece files are read. Ids are those of the pieces or, if `fairseq` is
// set, begin with special tokens that replace the first `skipped` pieces.
static const struct spm_class {
    const char *name;
    bool fairseq, begins; // begins: true if texts get BOS unless add_bos_token is false
    uint32_t skipped;     // first pieces of the file that the vocabulary replaces
    const char *head[5];  // names of the first ids; NULL: the special token below
    enum special_token head_specials[5];
    uint32_t head_count;
    bool mask_strips; // true if blanks before <mask> belong to it
} classes[] = {
    {.name = "LlamaTokenizer", .begins = true},
    {.name = "CodeLlamaTokenizer", .begins = true},
    {.name = "GemmaTokenizer", .begins = true},
    {.name = "PreTrainedTokenizer"},
    {.name = "TokenizersBackend"},
    {.name = "XLMRobertaTokenizer",
     .fairseq = true,
     .skipped = 3,
     .head_specials = {SPECIAL_BOS, SPECIAL_PAD, SPECIAL_EOS, SPECIAL_UNK},
     .head_count = 4},
    {.name = "CamembertTokenizer",
     .fairseq = true,
     .skipped = 1,
     .head = {"<s>NOTUSED", NULL, "</s>NOTUSED", NULL, "<unk>NOTUSED"},
     .head_specials = {SPECIAL_BOS, SPECIAL_PAD, SPECIAL_EOS, SPECIAL_UNK},
     .head_count = 5,
     .mask_strips = true},
};

struct spm_write {
    struct json_buffer *out;
    struct tokenizer *t;
    struct spm_file file;
    const char *path;
    struct error *err;
};

static const struct spm_class *spm_class_find(struct text class)
{
    if (text_ends(class, "Fast"))
        class.bytes -= strlen("Fast");
    for (size_t i = 0; class.at && i < sizeof classes / sizeof classes[0]; i++)
        if (text_is(class, classes[i].name))
            return &classes[i];
    return NULL;
}

void special_default(struct tokenizer *t, enum special_token which, struct text text)
{
    if (!t->special_texts[which].at)
        t->special_texts[which] = text;
}

static enum status size_check(const struct spm_write *w)
{
    if (w->out->bytes > DOCUMENT_BYTES_MAX)
        return error_set(
            w->err, STATUS_TOO_LARGE,
            "%s: the pieces need more than %d bytes as a tokenizer.json, the most that "
            "are read; take another file of the model",
            w->path, DOCUMENT_BYTES_MAX);
    return STATUS_OK;
}

// Gives the pieces the names that added_tokens_decoder has for their ids, as the reference library
// does, except for a name that another piece keeps.
static enum status pieces_rename(struct spm_write *w)
{
    const struct jnode *decoder = jtree_get(w->t->config, "added_tokens_decoder");
    struct word_table kept;
    struct arena *arena = w->file.arena;
    if (!jtree_is(decoder, J_OBJECT))
        return STATUS_OK;
    const char **names = arena_alloc_zeroed(arena, w->file.count + 1, sizeof *names);
    size_t *lengths = arena_alloc_zeroed(arena, w->file.count + 1, sizeof *lengths);
    if (!names || !lengths || !word_table_init(&kept, arena, w->file.count))
        return error_set(w->err, STATUS_NO_SPACE, "not enough memory for %u pieces", w->file.count);
    for (uint32_t i = 0; i < decoder->count; i++) {
        int64_t id = token_id_of(jtree_text(&decoder->items[2 * (size_t)i]));
        struct text name = jtree_get_text(&decoder->items[2 * (size_t)i + 1], "content");
        if (id >= 0 && id < w->file.count && name.at && name.bytes > 0) {
            names[id] = name.at;
            lengths[id] = name.bytes;
        }
    }
    for (uint32_t id = 0; id < w->file.count; id++)
        if (!names[id])
            word_table_put(&kept, w->file.pieces[id].name, id);
    for (uint32_t id = 0; id < w->file.count; id++)
        if (names[id] && !word_table_find(&kept, names[id], lengths[id]))
            w->file.pieces[id].name = text_span(names[id], lengths[id]);
    return STATUS_OK;
}

static void put_charsmap(struct spm_write *w)
{
    json_put_literal(w->out, "{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"");
    json_put_base64(w->out, w->file.charsmap);
    json_put_literal(w->out, "\"}");
}

// Writes the stages before the model. With `legacy` each text between added tokens gets the blank,
// otherwise only the first.
static void put_stages(struct spm_write *w, bool prefix, bool legacy)
{
    json_put_literal(w->out, "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[");
    if (w->file.charsmap.bytes > 0) {
        put_charsmap(w);
        json_put_literal(w->out, ",");
    }
    if (w->file.collapses)
        json_put_literal(
            w->out,
            "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"\\\\A +| +\\\\z\"},\"content\":\"\"},"
            "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\" {2,}\"},\"content\":\" \"},");
    if (prefix && legacy)
        json_put_literal(w->out, "{\"type\":\"Prepend\",\"prepend\":\"" MARK "\"},");
    json_put_literal(w->out, "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},"
                             "\"content\":\"" MARK "\"}]},");
    if (prefix && !legacy)
        json_put_literal(w->out, "\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"" MARK
                                 "\",\"prepend_scheme\":\"first\",\"split\":false},");
    json_put_literal(w->out, "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":"
                             "\"Replace\",\"pattern\":{\"String\":\"" MARK "\"},\"content\":\" "
                             "\"},{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"}");
    json_put_literal(w->out,
                     prefix ? ",{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}]},"
                            : "]},");
}

static void put_fairseq_stages(struct spm_write *w)
{
    bool prefix = jtree_get_bool(w->t->config, "add_prefix_space", true);
    const char *scheme = prefix ? "always" : "never";
    if (w->file.charsmap.bytes > 0) {
        json_put_literal(w->out, "\"normalizer\":");
        put_charsmap(w);
        json_put_literal(w->out, ",");
    }
    json_put_format(w->out,
                    "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":"
                    "\"WhitespaceSplit\"},{\"type\":\"Metaspace\",\"replacement\":\"" MARK
                    "\",\"prepend_scheme\":\"%s\",\"split\":true}]},\"decoder\":{\"type\":"
                    "\"Metaspace\",\"replacement\":\"" MARK "\",\"prepend_scheme\":\"%s\","
                    "\"split\":true},",
                    scheme, scheme);
}

static void put_unigram_piece(struct spm_write *w, bool first, struct text name, double score,
                              bool matched)
{
    json_put_literal(w->out, first ? "[" : ",[");
    json_put_string(w->out, name);
    json_put_literal(w->out, ",");
    json_put_double(w->out, score);
    json_put_literal(w->out, matched ? "]" : ",false]");
}

static void put_added(struct spm_write *w, bool *any, int64_t id, struct text name,
                      const char *flags)
{
    json_put_format(w->out, "%s{\"id\":%lld,\"content\":", *any ? "," : "", (long long)id);
    json_put_string(w->out, name);
    json_put_literal(w->out, flags);
    *any = true;
}

static const char special_flags[] = ",\"special\":true,\"normalized\":false}";

// Writes the added tokens: control and unknown pieces are special. User-defined pieces are found in
// the normalized text by their own text, which is not normalized.
static enum status put_added_pieces(struct spm_write *w)
{
    bool any = false;
    enum status status = STATUS_OK;
    json_put_literal(w->out, "\"added_tokens\":[");
    for (uint32_t id = 0; id < w->file.count && status == STATUS_OK; id++) {
        const struct spm_piece *piece = &w->file.pieces[id];
        if (piece->kind == PIECE_CONTROL || piece->kind == PIECE_UNKNOWN)
            put_added(w, &any, id, piece->name, special_flags);
        if (piece->kind == PIECE_USER)
            put_added(w, &any, id, piece->name,
                      ",\"special\":false,\"normalized\":true,\"verbatim\":true}");
        status = size_check(w);
    }
    json_put_literal(w->out, "],");
    return status;
}

static enum status put_unigram(struct spm_write *w)
{
    uint32_t unknown = 0;
    enum status status = STATUS_OK;
    json_put_literal(w->out, "\"model\":{\"type\":\"Unigram\",\"vocab\":[");
    for (uint32_t id = 0; id < w->file.count && status == STATUS_OK; id++) {
        const struct spm_piece *piece = &w->file.pieces[id];
        unknown = piece->kind == PIECE_UNKNOWN ? id : unknown;
        put_unigram_piece(w, id == 0, piece->name, (double)piece->score,
                          piece->kind == PIECE_NORMAL || piece->kind == PIECE_USER);
        status = size_check(w);
    }
    json_put_format(w->out, "],\"unk_id\":%u,\"byte_fallback\":%s}", unknown,
                    w->file.byte_fallback ? "true" : "false");
    return status;
}

// Writes the BPE model: only normal pieces are merged, and control pieces are only added tokens.
static enum status put_bpe(struct spm_write *w)
{
    const struct spm_file *s = &w->file;
    struct text *names = arena_alloc_zeroed(s->arena, s->count + 1, sizeof *names);
    double *scores = arena_alloc_zeroed(s->arena, s->count + 1, sizeof *scores);
    struct text unknown = {0};
    enum status status = STATUS_OK;
    bool any = false;
    if (!names || !scores)
        return error_set(w->err, STATUS_NO_SPACE, "not enough memory for %u pieces", s->count);
    json_put_format(w->out,
                    "\"model\":{\"type\":\"BPE\",\"fuse_unk\":true,\"byte_fallback\":%s,"
                    "\"vocab\":{",
                    s->byte_fallback ? "true" : "false");
    for (uint32_t id = 0; id < s->count && status == STATUS_OK; id++) {
        const struct spm_piece *piece = &s->pieces[id];
        scores[id] = (double)piece->score;
        if (piece->kind == PIECE_NORMAL)
            names[id] = piece->name;
        if (piece->kind == PIECE_UNKNOWN)
            unknown = piece->name;
        if (piece->kind == PIECE_CONTROL)
            continue;
        json_put_literal(w->out, any ? "," : "");
        json_put_string(w->out, piece->name);
        json_put_format(w->out, ":%u", id);
        any = true;
        status = size_check(w);
    }
    json_put_literal(w->out, "},\"unk_token\":");
    json_put_string(w->out, unknown);
    json_put_literal(w->out, ",\"merges\":");
    const char *what = arena_format(s->arena, "%s: the pieces", w->path).at;
    const struct scored_tokens scored = {what, what, names, scores, s->count, DOCUMENT_BYTES_MAX};
    if (status == STATUS_OK)
        status = merges_put(w->out, s->arena, &scored, w->err);
    json_put_literal(w->out, "}");
    return status == STATUS_OK ? size_check(w) : status;
}

static enum status put_plain(struct spm_write *w, const struct spm_class *class)
{
    struct tokenizer *t = w->t;
    const struct spm_file *s = &w->file;
    bool prefix = s->dummy_prefix && jtree_get_bool(t->config, "add_prefix_space", true);
    const int32_t ids[SPECIAL_COUNT] = {
        [SPECIAL_BOS] = s->bos, [SPECIAL_EOS] = s->eos, [SPECIAL_UNK] = -1, [SPECIAL_SEP] = -1,
        [SPECIAL_PAD] = s->pad, [SPECIAL_CLS] = -1,     [SPECIAL_MASK] = -1};
    enum status status = pieces_rename(w);
    if (status != STATUS_OK)
        return status;
    for (int i = 0; i < SPECIAL_COUNT; i++)
        if (ids[i] >= 0 && (uint32_t)ids[i] < s->count)
            special_default(t, (enum special_token)i, s->pieces[ids[i]].name);
    for (uint32_t id = 0; id < s->count; id++)
        if (s->pieces[id].kind == PIECE_UNKNOWN)
            special_default(t, SPECIAL_UNK, s->pieces[id].name);
    t->added_raw = prefix;
    t->flags_post = true;
    t->flags_begin = class ? class->begins : s->model == SPM_BPE && s->byte_fallback;
    put_stages(w, prefix, jtree_get_bool(t->config, "legacy", true));
    status = put_added_pieces(w);
    if (status == STATUS_OK)
        status = s->model == SPM_BPE ? put_bpe(w) : put_unigram(w);
    return status;
}

static enum status put_fairseq(struct spm_write *w, const struct spm_class *class)
{
    static const char *const usual[SPECIAL_COUNT] = {"<s>",   "</s>", "<unk>", "</s>",
                                                     "<pad>", "<s>",  "<mask>"};
    static const char mask_flags[] = ",\"special\":true,\"normalized\":false,\"lstrip\":true}";
    struct tokenizer *t = w->t;
    const struct spm_file *s = &w->file;
    bool any = false;
    int64_t shift = (int64_t)class->head_count - class->skipped;
    for (int i = 0; i < SPECIAL_COUNT; i++)
        special_default(t, (enum special_token)i, text_of(usual[i]));
    if (s->model != SPM_UNIGRAM || s->count < 3 || s->pieces[0].kind != PIECE_UNKNOWN ||
        !text_equal(s->pieces[1].name, t->special_texts[SPECIAL_BOS]) ||
        !text_equal(s->pieces[2].name, t->special_texts[SPECIAL_EOS]))
        return error_set(
            w->err, STATUS_UNSUPPORTED,
            "%s is not a unigram model whose first pieces are the unknown one, BOS and "
            "EOS, which the class %s needs: correct tokenizer_class in "
            "tokenizer_config.json",
            w->path, class->name);
    put_fairseq_stages(w);
    json_put_literal(w->out, "\"model\":{\"type\":\"Unigram\",\"unk_id\":3,\"vocab\":[");
    for (uint32_t i = 0; i < class->head_count; i++)
        put_unigram_piece(w, i == 0,
                          class->head[i] ? text_of(class->head[i])
                                         : t->special_texts[class->head_specials[i]],
                          i < 4 ? 0 : -100, false);
    enum status status = STATUS_OK;
    for (uint32_t id = class->skipped; id < s->count && status == STATUS_OK; id++) {
        const struct spm_piece *piece = &s->pieces[id];
        put_unigram_piece(w, false, piece->name, (double)piece->score,
                          piece->kind == PIECE_NORMAL || piece->kind == PIECE_USER);
        status = size_check(w);
    }
    put_unigram_piece(w, false, t->special_texts[SPECIAL_MASK], 0, false);
    json_put_literal(w->out, "]},\"added_tokens\":[");
    for (uint32_t id = 0; id < class->head_count; id++)
        put_added(w, &any, id,
                  class->head[id] ? text_of(class->head[id])
                                  : t->special_texts[class->head_specials[id]],
                  special_flags);
    for (uint32_t id = class->skipped; id < s->count && status == STATUS_OK; id++) {
        if (s->pieces[id].kind == PIECE_CONTROL)
            put_added(w, &any, id + shift, s->pieces[id].name, special_flags);
        if (s->pieces[id].kind == PIECE_USER)
            put_added(w, &any, id + shift, s->pieces[id].name,
                      ",\"special\":false,\"normalized\":false}");
        status = size_check(w);
    }
    put_added(w, &any, s->count + shift, t->special_texts[SPECIAL_MASK],
              class->mask_strips ? mask_flags : special_flags);
    // <s> and </s> are the first and third id of XLM-RoBERTa, and pieces of CamemBERT's file.
    int64_t first = class->skipped == 3 ? 0 : 1 + shift, last = class->skipped == 3 ? 2 : 2 + shift;
    json_put_literal(w->out, "],\"post_processor\":{\"type\":\"RobertaProcessing\",\"sep\":[");
    json_put_string(w->out, t->special_texts[SPECIAL_EOS]);
    json_put_format(w->out, ",%lld],\"cls\":[", (long long)last);
    json_put_string(w->out, t->special_texts[SPECIAL_BOS]);
    json_put_format(w->out, ",%lld]}", (long long)first);
    return status;
}

enum status spm_document(struct json_buffer *out, struct tokenizer *t, struct text bytes,
                         const char *path, struct error *err)
{
    struct spm_write w = {.out = out, .t = t, .path = path, .err = err};
    const struct spm_class *class = spm_class_find(t->class);
    if (t->class.at && !class)
        return error_set(
            err, STATUS_UNSUPPORTED,
            "%s: weft does not know how the class %.*s reads this file: " TOKENIZER_CONVERT, path,
            (int)(t->class.bytes < 60 ? t->class.bytes : 60), t->class.at);
    enum status status = spm_file_parse(&w.file, t->arena, bytes, path, err);
    if (status != STATUS_OK)
        return status;
    json_put_literal(out, "{");
    status = class && class->fairseq ? put_fairseq(&w, class) : put_plain(&w, class);
    json_put_literal(out, "}");
    return status;
}
