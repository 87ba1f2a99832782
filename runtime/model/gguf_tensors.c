// SPDX-License-Identifier: Apache-2.0
// Translates names, shapes and types of a GGUF file's tensors to those of a folder; see
// gguf_tensors.h.
#include "runtime/model/gguf_tensors.h"

#include "base/safe.h"
#include "runtime/model/dequantise.h"
#include "runtime/source/gguf_family.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYER_END = 10000 };

struct name_pair {
    // Families, separated by spaces; NULL: all decoders. The first pair that applies counts.
    const char *families;
    // Names in the file and in a folder, without ".weight" and ".bias"; %u: the layer.
    const char *file, *model;
};

#define LAYER "model.layers.%u."
#define MIXTURES "granitemoe minimax-m2 olmoe qwen2moe qwen3moe"
#define DENSE_FIRST "ernie4_5-moe glm4moe" // mixtures whose first layers may be dense
#define NORM_BEFORE                                                                                \
    "cohere2 command-r ernie4_5 gemma gemma3 glm4 granite hunyuan-dense llama mistral3 phi3 "      \
    "qwen2 qwen3 seed_oss smollm3 gpt-oss " MIXTURES " " DENSE_FIRST
#define FFN_NORM                                                                                   \
    "ernie4_5 ernie4_5-moe gemma granite hunyuan-dense llama mistral3 phi3 qwen2 qwen3 "           \
    "smollm3 " MIXTURES
#define GATE                                                                                       \
    "cohere2 command-r ernie4_5 exaone4 gemma gemma3 granite hunyuan-dense llama mistral3 olmo2 "  \
    "qwen2 qwen3 seed_oss smollm3 " DENSE_FIRST
#define SPLIT_QKV GATE " glm4 gpt-oss " MIXTURES

static const struct name_pair names[] = {
    {NULL, "token_embd", "model.embed_tokens"},
    {NULL, "output_norm", "model.norm"},
    {NULL, "output", "lm_head"},
    {NORM_BEFORE, "blk.%u.attn_norm", LAYER "input_layernorm"},
    {SPLIT_QKV, "blk.%u.attn_q", LAYER "self_attn.q_proj"},
    {SPLIT_QKV, "blk.%u.attn_k", LAYER "self_attn.k_proj"},
    {SPLIT_QKV, "blk.%u.attn_v", LAYER "self_attn.v_proj"},
    {"phi3", "blk.%u.attn_qkv", LAYER "self_attn.qkv_proj"},
    {"hunyuan-dense", "blk.%u.attn_q_norm", LAYER "self_attn.query_layernorm"},
    {"hunyuan-dense", "blk.%u.attn_k_norm", LAYER "self_attn.key_layernorm"},
    {NULL, "blk.%u.attn_q_norm", LAYER "self_attn.q_norm"},
    {NULL, "blk.%u.attn_k_norm", LAYER "self_attn.k_norm"},
    {NULL, "blk.%u.attn_sinks", LAYER "self_attn.sinks"},
    {NULL, "blk.%u.attn_output", LAYER "self_attn.o_proj"},
    {FFN_NORM, "blk.%u.ffn_norm", LAYER "post_attention_layernorm"},
    {"gemma3", "blk.%u.ffn_norm", LAYER "pre_feedforward_layernorm"},
    {"glm4", "blk.%u.ffn_norm", LAYER "post_attention_layernorm"},
    {"exaone4 gemma3 glm4moe gpt-oss olmo2 seed_oss", "blk.%u.post_attention_norm",
     LAYER "post_attention_layernorm"},
    {"glm4", "blk.%u.post_attention_norm", LAYER "post_self_attn_layernorm"},
    {"exaone4 gemma3 olmo2", "blk.%u.post_ffw_norm", LAYER "post_feedforward_layernorm"},
    {"glm4", "blk.%u.post_ffw_norm", LAYER "post_mlp_layernorm"},
    {GATE, "blk.%u.ffn_gate", LAYER "mlp.gate_proj"},
    {GATE, "blk.%u.ffn_up", LAYER "mlp.up_proj"},
    {"glm4 phi3", "blk.%u.ffn_up", LAYER "mlp.gate_up_proj"},
    {NULL, "blk.%u.ffn_down", LAYER "mlp.down_proj"},
    // the names of gguf_experts
    {NULL, "blk.%u.ffn_gate_inp", LAYER "experts.router"},
    {NULL, "blk.%u.exp_probs_b", LAYER "experts.correction"},
    {NULL, "blk.%u.ffn_gate_exps", LAYER "experts.gate"},
    {NULL, "blk.%u.ffn_up_exps", LAYER "experts.up"},
    {NULL, "blk.%u.ffn_down_exps", LAYER "experts.down"},
    {NULL, "blk.%u.ffn_gate_shexp", LAYER "experts.shared_gate"},
    {NULL, "blk.%u.ffn_up_shexp", LAYER "experts.shared_up"},
    {NULL, "blk.%u.ffn_down_shexp", LAYER "experts.shared_down"},
    {NULL, "blk.%u.ffn_gate_inp_shexp", LAYER "experts.shared_factor"},
    // source/gguf_rope.c writes the factors of frequencies to config.json
    {NULL, "rope_freqs", "rope_freqs"},
    {NULL, "rope_factors_long", "rope_factors_long"},
    {NULL, "rope_factors_short", "rope_factors_short"},
    {NULL, "cls.output", "cls.output"}, // rerankers: the two rows of the head

#define BERTS "bert jina-bert-v2"
#define EMBEDDINGS "bert jina-bert-v2 nomic-bert"
#define ENCODER_LAYER "encoder.layer.%u."
#define NOMIC_LAYER "encoder.layers.%u."
    {EMBEDDINGS, "token_embd", "embeddings.word_embeddings"},
    {EMBEDDINGS, "token_types", "embeddings.token_type_embeddings"},
    {"bert", "position_embd", "embeddings.position_embeddings"},
    {BERTS, "token_embd_norm", "embeddings.LayerNorm"},
    {BERTS, "blk.%u.attn_q", ENCODER_LAYER "attention.self.query"},
    {BERTS, "blk.%u.attn_k", ENCODER_LAYER "attention.self.key"},
    {BERTS, "blk.%u.attn_v", ENCODER_LAYER "attention.self.value"},
    {BERTS, "blk.%u.attn_output", ENCODER_LAYER "attention.output.dense"},
    {BERTS, "blk.%u.attn_output_norm", ENCODER_LAYER "attention.output.LayerNorm"},
    {"bert", "blk.%u.ffn_up", ENCODER_LAYER "intermediate.dense"},
    {"bert", "blk.%u.ffn_down", ENCODER_LAYER "output.dense"},
    {"bert", "blk.%u.layer_output_norm", ENCODER_LAYER "output.LayerNorm"},
    {"bert", "cls", "classifier.dense"},
    {"bert", "cls.output", "classifier.out_proj"},
    // older converters divide the rows of gated_layers into those of the gate and those of up
    {"jina-bert-v2", "blk.%u.ffn_gate", ENCODER_LAYER "mlp.gated_layers_w"},
    {"jina-bert-v2", "blk.%u.ffn_up", ENCODER_LAYER "mlp.gated_layers"},
    {"jina-bert-v2", "blk.%u.ffn_down", ENCODER_LAYER "mlp.wo"},
    {"jina-bert-v2", "blk.%u.layer_output_norm", ENCODER_LAYER "mlp.layernorm"},
    {"nomic-bert", "token_embd_norm", "emb_ln"},
    {"nomic-bert", "blk.%u.attn_qkv", NOMIC_LAYER "attn.Wqkv"},
    {"nomic-bert", "blk.%u.attn_output", NOMIC_LAYER "attn.out_proj"},
    {"nomic-bert", "blk.%u.attn_output_norm", NOMIC_LAYER "norm1"},
    {"nomic-bert", "blk.%u.ffn_gate", NOMIC_LAYER "mlp.fc12"},
    {"nomic-bert", "blk.%u.ffn_up", NOMIC_LAYER "mlp.fc11"},
    {"nomic-bert", "blk.%u.ffn_down", NOMIC_LAYER "mlp.fc2"},
    {"nomic-bert", "blk.%u.layer_output_norm", NOMIC_LAYER "norm2"},
    {"modern-bert", "token_embd", "model.embeddings.tok_embeddings"},
    {"modern-bert", "token_embd_norm", "model.embeddings.norm"},
    {"modern-bert", "output_norm", "model.final_norm"},
    {"modern-bert", "blk.%u.attn_norm", LAYER "attn_norm"},
    {"modern-bert", "blk.%u.attn_qkv", LAYER "attn.Wqkv"},
    {"modern-bert", "blk.%u.attn_output", LAYER "attn.Wo"},
    {"modern-bert", "blk.%u.ffn_norm", LAYER "mlp_norm"},
    {"modern-bert", "blk.%u.ffn_up", LAYER "mlp.Wi"},
    {"modern-bert", "blk.%u.ffn_down", LAYER "mlp.Wo"},
    {"modern-bert", "cls", "head.dense"},
    {"modern-bert", "cls.norm", "head.norm"},
    {"modern-bert", "cls.output", "classifier"},
};

enum { NAMES = sizeof names / sizeof names[0] };

#define EXPERTS "layers.%u.experts."
const struct arch_experts gguf_experts = {
    .router = EXPERTS "router",
    .correction = EXPERTS "correction.bias",
    .gate_stack = EXPERTS "gate",
    .up_stack = EXPERTS "up",
    .down_stack = EXPERTS "down",
    .shared_gate = {EXPERTS "shared_gate", SHARD_ROWS},
    .shared_up = {EXPERTS "shared_up", SHARD_ROWS},
    .shared_down = {EXPERTS "shared_down", SHARD_COLUMNS},
    .shared_factor = EXPERTS "shared_factor",
};

// Returns true if the pair applies to a family.
static bool pair_applies(const struct name_pair *pair, const struct gguf_family *family)
{
    return pair->families ? text_has_word(pair->families, family->name) : family->generator != NULL;
}

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

static const struct gguf_family *family_of(const struct gguf *file, struct error *err)
{
    struct text name;
    if (gguf_text(&name, file, "general.architecture", err) != STATUS_OK)
        return NULL;
    return gguf_family_find(name);
}

bool gguf_tensor_name_back(char out[TENSOR_NAME_MAX], const char *name, const struct gguf *file)
{
    struct error ignored;
    const struct gguf_family *family = family_of(file, &ignored);
    for (int i = 0; family && i < NAMES; i++)
        if (pair_applies(&names[i], family) &&
            name_rewrite(out, name, names[i].model, names[i].file))
            return true;
    return false;
}

// Values of keys on which the translation of tensors depends.
struct listing {
    const struct gguf_family *family;
    uint32_t heads[2]; // number of heads of q and of k
    uint32_t layers;   // number of layers of the model; those after it predict further tokens
};

static enum status listing_read(struct listing *out, const struct gguf *file, struct error *err)
{
    *out = (struct listing){.layers = LAYER_END};
    out->family = family_of(file, err);
    if (!out->family)
        return error_set(err, STATUS_UNSUPPORTED,
                         "%s: the architecture of the file is not served; take another model",
                         file->name);
    struct config_writer keys = {
        .file = file, .family = out->family, .err = err, .status = STATUS_OK};
    out->heads[0] = config_count_get(&keys, "attention.head_count", 1, 1024, NAN);
    out->heads[1] = config_count_get(&keys, "attention.head_count_kv", 1, 1024, out->heads[0]);
    uint32_t all = config_count_get(&keys, "block_count", 1, LAYER_END, LAYER_END);
    uint32_t after = config_count_get(&keys, "nextn_predict_layers", 0, all, 0);
    if (after > 0)
        out->layers = all - after;
    return keys.status;
}

// Returns true for a tensor of a layer that only predicts further tokens.
static bool is_further(const struct gguf_tensor *tensor, const struct listing *listing)
{
    static const char start[] = "blk.";
    struct text name = tensor->name;
    uint32_t layer = 0;
    size_t first = sizeof start - 1, at = first;
    if (!text_begins(name, start))
        return false;
    for (; at < name.bytes && name.at[at] >= '0' && name.at[at] <= '9' && layer < LAYER_END; at++)
        layer = layer * 10 + (uint32_t)(name.at[at] - '0');
    return at > first && layer >= listing->layers && layer < LAYER_END;
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
                            const struct listing *listing, const struct gguf *file,
                            struct error *err)
{
    bool q = strstr(name, ".attn_q.") != NULL, k = strstr(name, ".attn_k.") != NULL;
    if (!(listing->family->flags & GGUF_PAIRED) || (!q && !k))
        return STATUS_OK;
    uint64_t rows = from->shape[from->dims - 1], heads = listing->heads[k];
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
                               const struct listing *listing, const struct gguf *file,
                               struct arena *arena, struct error *err)
{
    const struct gguf *home = gguf_home(file, from);
    char name[GGUF_NAME_MAX + 1], made[TENSOR_NAME_MAX];
    snprintf(name, sizeof name, "%.*s", (int)from->name.bytes, from->name.at);
    int i = 0;
    while (i < NAMES && !(pair_applies(&names[i], listing->family) &&
                          name_rewrite(made, name, names[i].file, names[i].model)))
        i++;
    if (i == NAMES)
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
    for (uint32_t d = 0; d < from->dims; d++)
        to->shape[d] = from->shape[from->dims - 1 - d];
    // A table of one row, stored as a vector.
    if (to->dims == 1 &&
        (strcmp(name, "token_types.weight") == 0 || strcmp(name, "cls.output.weight") == 0 ||
         strstr(name, ".ffn_gate_inp_shexp."))) {
        to->shape[1] = to->shape[0];
        to->shape[0] = 1;
        to->dims = 2;
    }
    return head_set(to, from, name, listing, file, err);
}

enum status gguf_tensors_list(struct tensor **out, uint32_t *count, struct arena *arena,
                              const struct gguf *file, struct error *err)
{
    struct listing listing;
    *count = 0;
    enum status status = listing_read(&listing, file, err);
    if (status != STATUS_OK)
        return status;
    *out = arena_alloc_zeroed(arena, file->tensor_count + 1, sizeof **out);
    for (uint32_t i = 0; i < file->tensor_count && status == STATUS_OK; i++) {
        if (is_further(&file->tensors[i], &listing))
            continue;
        status = tensor_make(&(*out)[*count], &file->tensors[i], &listing, file, arena, err);
        if (status == STATUS_OK)
            (*out)[(*count)++].part = file->tensors[i].part;
    }
    return status;
}
