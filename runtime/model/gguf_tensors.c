// SPDX-License-Identifier: Apache-2.0
// Translates names, shapes and types of a GGUF file's tensors to those of a folder; see
// gguf_tensors.h.
#include "runtime/model/gguf_tensors.h"

#include "base/safe.h"
#include "runtime/model/dequantise.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYER_END = 10000 };

struct name_pair {
    // Names in the file and in a folder, without ".weight" and ".bias"; %u: the layer.
    const char *file, *model;
};

static const struct name_pair decoder_names[] = {
    {"token_embd", "model.embed_tokens"},
    {"output_norm", "model.norm"},
    {"output", "lm_head"},
    {"blk.%u.attn_norm", "model.layers.%u.input_layernorm"},
    {"blk.%u.attn_q", "model.layers.%u.self_attn.q_proj"},
    {"blk.%u.attn_k", "model.layers.%u.self_attn.k_proj"},
    {"blk.%u.attn_v", "model.layers.%u.self_attn.v_proj"},
    {"blk.%u.attn_q_norm", "model.layers.%u.self_attn.q_norm"},
    {"blk.%u.attn_k_norm", "model.layers.%u.self_attn.k_norm"},
    {"blk.%u.attn_output", "model.layers.%u.self_attn.o_proj"},
    {"blk.%u.ffn_norm", "model.layers.%u.post_attention_layernorm"},
    {"blk.%u.ffn_gate", "model.layers.%u.mlp.gate_proj"},
    {"blk.%u.ffn_up", "model.layers.%u.mlp.up_proj"},
    {"blk.%u.ffn_down", "model.layers.%u.mlp.down_proj"},
    {"rope_freqs", "rope_freqs"}, // source/gguf_config.c writes it to config.json
    {"cls.output", "cls.output"}, // rerankers: the two rows of the head
    {NULL, NULL},
};

static const struct name_pair encoder_names[] = {
    {"token_embd", "bert.embeddings.word_embeddings"},
    {"position_embd", "bert.embeddings.position_embeddings"},
    {"token_types", "bert.embeddings.token_type_embeddings"},
    {"token_embd_norm", "bert.embeddings.LayerNorm"},
    {"blk.%u.attn_q", "bert.encoder.layer.%u.attention.self.query"},
    {"blk.%u.attn_k", "bert.encoder.layer.%u.attention.self.key"},
    {"blk.%u.attn_v", "bert.encoder.layer.%u.attention.self.value"},
    {"blk.%u.attn_output", "bert.encoder.layer.%u.attention.output.dense"},
    {"blk.%u.attn_output_norm", "bert.encoder.layer.%u.attention.output.LayerNorm"},
    {"blk.%u.ffn_up", "bert.encoder.layer.%u.intermediate.dense"},
    {"blk.%u.ffn_down", "bert.encoder.layer.%u.output.dense"},
    {"blk.%u.layer_output_norm", "bert.encoder.layer.%u.output.LayerNorm"},
    {NULL, NULL},
};

// Rewrites a name from one form to the other; returns false if it does not match `from`. Different
// names stay different: a layer number has only one accepted spelling.
static bool name_rewrite(char out[TENSOR_NAME_MAX], const char *name, const char *from,
                         const char *to)
{
    char *end = NULL;
    unsigned long layer = 0;
    const char *hole = strstr(from, "%u");
    size_t before = hole ? (size_t)(hole - from) : strlen(from);
    if (strncmp(name, from, before) != 0)
        return false;
    const char *rest = name + before;
    if (hole) {
        if (*rest < '0' || *rest > '9')
            return false;
        layer = strtoul(rest, &end, 10);
        size_t after = strlen(hole + 2);
        bool usual = layer < LAYER_END && (*rest != '0' || end == rest + 1);
        if (!usual || strncmp(end, hole + 2, after) != 0)
            return false;
        rest = end + after;
    }
    if (strcmp(rest, ".weight") != 0 && strcmp(rest, ".bias") != 0)
        return false;
    const char *gap = strstr(to, "%u");
    int wrote = gap ? snprintf(out, TENSOR_NAME_MAX, "%.*s%lu%s%s", (int)(gap - to), to, layer,
                               gap + 2, rest)
                    : snprintf(out, TENSOR_NAME_MAX, "%s%s", to, rest);
    return wrote > 0 && wrote < TENSOR_NAME_MAX;
}

bool gguf_tensor_name_back(char out[TENSOR_NAME_MAX], const char *name)
{
    const struct name_pair *const lists[] = {decoder_names, encoder_names};
    for (int i = 0; i < 2; i++)
        for (const struct name_pair *pair = lists[i]; pair->file; pair++)
            if (name_rewrite(out, name, pair->model, pair->file))
                return true;
    return false;
}

// The order of the rows of q and k in the file.
struct rope_rows {
    bool encoder;
    bool paired;       // true if rows of a rotary pair are neighbours
    uint32_t heads[2]; // number of heads of q and of k
};

static enum status family_read(struct rope_rows *out, const struct gguf *file, struct error *err)
{
    struct text name;
    *out = (struct rope_rows){.encoder = false};
    enum status status = gguf_text(&name, file, "general.architecture", err);
    out->encoder = name.at && text_is(name, "bert");
    out->paired = name.at && text_is(name, "llama");
    if (status != STATUS_OK || !out->paired)
        return status;
    struct gguf_number heads = {"llama.attention.head_count", 1, 1024, NAN};
    status = gguf_count(&out->heads[0], file, &heads, err);
    struct gguf_number kv = {"llama.attention.head_count_kv", 1, 1024, out->heads[0]};
    return status == STATUS_OK ? gguf_count(&out->heads[1], file, &kv, err) : status;
}

static int dtype_of(const struct gguf_type *type)
{
    switch (type->id) {
    case GGUF_TYPE_F32:
        return DTYPE_F32;
    case GGUF_TYPE_F16:
        return DTYPE_F16;
    case GGUF_TYPE_BF16:
        return DTYPE_BF16;
    default:
        return -1;
    }
}

// Sets the rows per head of a q or k tensor whose rows the file stores in pairs.
static enum status head_set(struct tensor *to, const struct gguf_tensor *from, const char *name,
                            const struct rope_rows *family, const struct gguf *file,
                            struct error *err)
{
    bool q = strstr(name, ".attn_q.") != NULL, k = strstr(name, ".attn_k.") != NULL;
    if (!family->paired || (!q && !k))
        return STATUS_OK;
    uint64_t rows = from->shape[from->dims - 1], heads = family->heads[k];
    if (rows % (2 * heads) != 0 || rows > UINT32_MAX)
        return error_set(
            err, STATUS_INVALID,
            "%s: the tensor %s has %llu rows, not an even number for each of %llu heads; "
            "take another file of the model",
            file->name, name, (unsigned long long)rows, (unsigned long long)heads);
    to->rope_head = (uint32_t)(rows / heads);
    return STATUS_OK;
}

static enum status tensor_make(struct tensor *to, const struct gguf_tensor *from,
                               const struct rope_rows *family, const struct gguf *file,
                               struct arena *arena, struct error *err)
{
    const struct gguf *home = gguf_home(file, from);
    char name[GGUF_NAME_MAX + 1], made[TENSOR_NAME_MAX];
    snprintf(name, sizeof name, "%.*s", (int)from->name.bytes, from->name.at);
    const struct name_pair *pair = family->encoder ? encoder_names : decoder_names;
    while (pair->file && !name_rewrite(made, name, pair->file, pair->model))
        pair++;
    if (!pair->file)
        return error_set(err, STATUS_UNSUPPORTED,
                         "%s: the tensor %s does not belong to this architecture: the file is of a "
                         "variant that is not served, take the model's Hugging Face folder",
                         home->name, safe_of(from->name).at);
    *to = (struct tensor){.name = arena_copy(arena, text_of(made)),
                          .dims = from->dims,
                          .type = from->type->name,
                          .dtype = dtype_of(from->type),
                          .blocks = dequantise_knows(from->type) ? from->type : NULL,
                          .map = home->file.at + from->offset,
                          .bytes = from->bytes,
                          .offset = from->offset,
                          .fd = -1,
                          .file = home->name};
    for (uint32_t i = 0; i < from->dims; i++)
        to->shape[i] = from->shape[from->dims - 1 - i];
    // A table of one row, stored as a vector.
    if (to->dims == 1 && strcmp(name, "token_types.weight") == 0) {
        to->shape[1] = to->shape[0];
        to->shape[0] = 1;
        to->dims = 2;
    }
    return head_set(to, from, name, family, file, err);
}

enum status gguf_tensors_list(struct tensor **out, uint32_t *count, struct arena *arena,
                              const struct gguf *file, struct error *err)
{
    struct rope_rows family;
    *count = 0;
    enum status status = family_read(&family, file, err);
    if (status != STATUS_OK)
        return status;
    *out = arena_alloc_zeroed(arena, file->tensor_count + 1, sizeof **out);
    for (uint32_t i = 0; i < file->tensor_count && status == STATUS_OK; i++, (*count)++)
        status = tensor_make(&(*out)[i], &file->tensors[i], &family, file, arena, err);
    return status;
}
