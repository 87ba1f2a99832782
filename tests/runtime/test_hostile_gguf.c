// SPDX-License-Identifier: Apache-2.0
// Malformed and hostile GGUF files: each is refused with a status and exactly one sentence, without
// a crash or a leak (the sanitizer presets run this test as well). A good file is written and one
// thing in it is broken; at the end the good file must still open. Also every byte of the header
// damaged, and the file cut at every length: it is refused or read.
#include "base/arena.h"
#include "base/json.h"
#include "runtime/model/dequantise.h"
#include "runtime/source/gguf_documents.h"
#include "runtime/source/source.h"
#include "tests/runtime/gguf_rig.h"
#include "tests/runtime/model_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum operation {
    CUT,          // keeps this number of bytes
    CUT_END,      // removes this number of bytes from the end
    AT,           // writes the text at this offset
    RENAME,       // renames the key to the text
    KIND,         // gives the key's value this type
    VALUE,        // gives it these 4 bytes
    TEXT,         // overwrites the beginning of its string
    TEXT_ANY,     // replaces the first such text in the file
    TENSOR_NAME,  // renames the tensor to the text
    TENSOR_DIMS,  // sets the number of dimensions
    TENSOR_SHAPE, // sets the length of rows
    TENSOR_TYPE,
    TENSOR_PLACE,
    ADD_COUNT, // adds a key
    ADD_TEXT,
    ADD_DEEP,  // adds nested arrays
    ADD_ARRAY, // adds an array that claims 2^60 items of this type
    ADD_NUMBER,
    ADD_FLAG,
    ADD_TENSOR, // adds 64 ones
    ADD_FREQS,  // adds a count, and eight rope factors
};

#define FAMILIES                                                                                   \
    "bert, cohere2, command-r, ernie4_5, ernie4_5-moe, exaone4, gemma, gemma3, glm4, glm4moe, "    \
    "gpt-oss, granite, granitemoe, hunyuan-dense, jina-bert-v2, llama, minimax-m2, mistral3, "     \
    "modern-bert, nomic-bert, olmo2, olmoe, phi3, qwen2, qwen2moe, qwen3, qwen3moe, seed_oss and " \
    "smollm3 are served, take a model of one of them"

static const struct hostile {
    const char *label;
    enum operation operation;
    const char *target;
    int64_t number;
    const char *text;
    size_t text_bytes;
    const char *document; // document of a Hugging Face folder to read; NULL: plan the model
    const char *sentence; // the error after the file's name
} cases[] = {
    {"cut at 0", CUT, "", 0, NULL, 0, NULL,
     " does not begin as a GGUF file: it is cut or something else that was downloaded in its "
     "place, download it again"},
    {"cut at 3", CUT, "", 3, NULL, 0, NULL,
     " does not begin as a GGUF file: it is cut or something else that was downloaded in its "
     "place, download it again"},
    {"cut at 4", CUT, "", 4, NULL, 0, NULL,
     ": byte 4: the version needs 4 bytes, but only 0 are left; the file is cut or "
     "damaged, download it again"},
    {"cut at 7", CUT, "", 7, NULL, 0, NULL,
     ": byte 4: the version needs 4 bytes, but only 3 are left; the file is cut or "
     "damaged, download it again"},
    {"cut at 8", CUT, "", 8, NULL, 0, NULL,
     ": byte 8: the number of tensors needs 8 bytes, but only 0 are left; the file is "
     "cut or damaged, download it again"},
    {"cut at 15", CUT, "", 15, NULL, 0, NULL,
     ": byte 8: the number of tensors needs 8 bytes, but only 7 are left; the file is "
     "cut or damaged, download it again"},
    {"cut at 20", CUT, "", 20, NULL, 0, NULL,
     ": byte 16: the number of keys needs 8 bytes, but only 4 are left; the file is cut "
     "or damaged, download it again"},
    {"cut at 24", CUT, "", 24, NULL, 0, NULL,
     ": byte 24: a key needs 8 bytes, but only 0 are left; the file is cut or damaged, "
     "download it again"},
    {"cut at 31", CUT, "", 31, NULL, 0, NULL,
     ": byte 24: a key needs 8 bytes, but only 7 are left; the file is cut or damaged, "
     "download it again"},
    {"cut at 40", CUT, "", 40, NULL, 0, NULL,
     ": byte 32: a key needs 20 bytes, but only 8 are left; the file is cut or damaged, "
     "download it again"},
    {"cut in the tensors", CUT_END, "", 1, NULL, 0, NULL,
     ": the tensor output_norm.weight has 256 bytes at 295936 after byte 3552, and the file has "
     "299743; the file is cut or damaged, download it again"},
    {"another magic", AT, "", 0, "GGUX", sizeof "GGUX" - 1, NULL,
     " does not begin as a GGUF file: it is cut or something else that was downloaded in its "
     "place, download it again"},
    {"version 1", AT, "", 4, "\1\0\0\0", sizeof "\1\0\0\0" - 1, NULL,
     ": byte 4: version 1 of GGUF is not read, 2 and 3 are; take a newer file of the model"},
    {"version 4", AT, "", 4, "\4\0\0\0", sizeof "\4\0\0\0" - 1, NULL,
     ": byte 4: version 4 of GGUF is not read, 2 and 3 are; take a newer file of the model"},
    {"version 0", AT, "", 4, "\0\0\0\0", sizeof "\0\0\0\0" - 1, NULL,
     ": byte 4: version 0 of GGUF is not read, 2 and 3 are; take a newer file of the model"},
    {"big-endian", AT, "", 4, "\0\0\0\3", sizeof "\0\0\0\3" - 1, NULL,
     ": byte 4: the file is big-endian; take the little-endian one"},
    {"too many tensors", AT, "", 8, "\xff\xff\xff\xff\xff\xff\xff\x7f",
     sizeof "\xff\xff\xff\xff\xff\xff\xff\x7f" - 1, NULL,
     ": byte 8: the number of tensors is 9223372036854775807, at most 524288 are read; the file is "
     "cut or damaged, download it again"},
    {"too many keys", AT, "", 16, "\xff\xff\xff\xff\xff\xff\xff\xff",
     sizeof "\xff\xff\xff\xff\xff\xff\xff\xff" - 1, NULL,
     ": byte 16: the number of keys is 18446744073709551615, at most 65536 are read; the file is "
     "cut or damaged, download it again"},
    {"one key too many", AT, "", 16, "\x20\0\0\0\0\0\0\0", sizeof "\x20\0\0\0\0\0\0\0" - 1, NULL,
     ": byte 2355: a key needs 27021597764222976 bytes, but only 297389 are left; the "
     "file is cut or damaged, download it again"},
    {"a key of huge length", AT, "", 24, "\xff\xff\xff\xff\xff\xff\xff\xff",
     sizeof "\xff\xff\xff\xff\xff\xff\xff\xff" - 1, NULL,
     ": byte 32: a key needs 18446744073709551615 bytes, but only 299712 are left; the "
     "file is cut or damaged, download it again"},
    {"an empty key", AT, "", 24, "\0\0\0\0\0\0\0\0", sizeof "\0\0\0\0\0\0\0\0" - 1, NULL,
     ": byte 24: a key has 0 bytes or a NUL among them, allowed are 1 to 1024; the file is cut or "
     "damaged, download it again"},
    {"a NUL in a key", AT, "", 34, "\0", sizeof "\0" - 1, NULL,
     ": byte 24: a key has 20 bytes or a NUL among them, allowed are 1 to 1024; the file is cut or "
     "damaged, download it again"},
    {"an unknown type of value", KIND, "llama.block_count", 13, NULL, 0, NULL,
     ": byte 132: the key llama.block_count has a value of the unknown type 13; the file is cut or "
     "damaged, download it again"},
    {"a key twice", RENAME, "tokenizer.ggml.bos_token_id", 0, "tokenizer.ggml.eos_token_id",
     sizeof "tokenizer.ggml.eos_token_id" - 1, NULL,
     ": the key tokenizer.ggml.eos_token_id occurs twice; the file is cut or damaged, "
     "download it again"},
    {"no architecture", RENAME, "general.architecture", 0, "general.architecturx",
     sizeof "general.architecturx" - 1, NULL,
     ": the key general.architecture is missing; " FAMILIES},
    {"an architecture that is not served", TEXT, "general.architecture", 0, "lamma",
     sizeof "lamma" - 1, NULL, ": the key general.architecture is lamma; " FAMILIES},
    {"no block count", RENAME, "llama.block_count", 0, "llama.block_counx",
     sizeof "llama.block_counx" - 1, NULL,
     ": the key llama.block_count is missing; take a file that a current converter wrote"},
    {"no width", RENAME, "llama.embedding_length", 0, "llama.embedding_lengtx",
     sizeof "llama.embedding_lengtx" - 1, NULL,
     ": the key llama.embedding_length is missing; take a file that a current converter wrote"},
    {"no heads", RENAME, "llama.attention.head_count", 0, "llama.attention.head_counx",
     sizeof "llama.attention.head_counx" - 1, NULL,
     ": the key llama.attention.head_count is missing; take a file that a current converter wrote"},
    {"no epsilon", RENAME, "llama.attention.layer_norm_rms_epsilon", 0,
     "llama.attention.layer_norm_rms_epsilox", sizeof "llama.attention.layer_norm_rms_epsilox" - 1,
     NULL,
     ": the key llama.attention.layer_norm_rms_epsilon is missing; take a file that a current "
     "converter wrote"},
    {"no layers", VALUE, "llama.block_count", 0, NULL, 0, NULL,
     ": the key llama.block_count is 0, allowed is 1 to 1024; take another file of the model"},
    {"too many layers", VALUE, "llama.block_count", 5000, NULL, 0, NULL,
     ": the key llama.block_count is 5000, allowed is 1 to 1024; take another file of the model"},
    {"one layer too many", VALUE, "llama.block_count", 3, NULL, 0, NULL,
     ": the tensor blk.2.attn_q.weight, which LlamaForCausalLM needs, is not in the checkpoint; "
     "take another file of the model"},
    {"a width of no heads", VALUE, "llama.embedding_length", 65, NULL, 0, NULL,
     ": the keys llama.embedding_length 65, llama.attention.head_count 4, "
     "llama.attention.head_count_kv 2 and heads of 16 columns do not fit each other; take another "
     "file of the model"},
    {"another width", VALUE, "llama.embedding_length", 128, NULL, 0, NULL,
     ": the tensor token_embd.weight has shape [96, 64], the metadata wants [96, 128]; take "
     "another file of the model"},
    {"KV heads that do not divide", VALUE, "llama.attention.head_count_kv", 3, NULL, 0, NULL,
     ": the keys llama.embedding_length 64, llama.attention.head_count 4, "
     "llama.attention.head_count_kv 3 and heads of 16 columns do not fit each other; take another "
     "file of the model"},
    {"heads of two lengths", VALUE, "llama.attention.value_length", 24, NULL, 0, NULL,
     ": the key llama.attention.value_length is 24 and key_length 16: heads of two lengths are not "
     "served, take another model"},
    {"an epsilon that is no number", VALUE, "llama.attention.layer_norm_rms_epsilon", 0x7FC00000,
     NULL, 0, NULL,
     ": the key llama.attention.layer_norm_rms_epsilon is nan, allowed is 0 to 1; take another "
     "file of the model"},
    {"a base below one", VALUE, "llama.rope.freq_base", 0, NULL, 0, NULL,
     ": the key llama.rope.freq_base is 0, allowed is 1.0001 to 1e+12; take another file of the "
     "model"},
    {"a length of zero", VALUE, "llama.context_length", 0, NULL, 0, NULL,
     ": the key llama.context_length is 0, allowed is 1 to 16777216; take another file of the "
     "model"},
    {"a count that is a float", KIND, "llama.feed_forward_length", 6, NULL, 0, NULL,
     ": the key llama.feed_forward_length is 1.3452465e-43, allowed is 8 to 1048576; take "
     "another file of the model"},
    {"an end beyond the vocabulary", VALUE, "tokenizer.ggml.eos_token_id", 4096, NULL, 0, NULL,
     ": the key tokenizer.ggml.eos_token_id is 4096, allowed is 0 to 95; take another file of the "
     "model"},
    {"dimensions", TENSOR_DIMS, "blk.0.attn_q.weight", 5, NULL, 0, NULL,
     ": byte 2868: the tensor blk.0.attn_q.weight has 5 dimensions, allowed are 1 to 4; the file "
     "is cut or damaged, download it again"},
    {"no dimensions", TENSOR_DIMS, "blk.0.attn_q.weight", 0, NULL, 0, NULL,
     ": byte 2868: the tensor blk.0.attn_q.weight has 0 dimensions, allowed are 1 to 4; the file "
     "is cut or damaged, download it again"},
    {"an empty tensor", TENSOR_SHAPE, "blk.0.attn_q.weight", 0, NULL, 0, NULL,
     ": byte 2868: the shape of the tensor blk.0.attn_q.weight is empty or overflows; the file is "
     "cut or damaged, download it again"},
    {"a shape that overflows", TENSOR_SHAPE, "blk.0.attn_q.weight", -2, NULL, 0, NULL,
     ": byte 2868: the shape of the tensor blk.0.attn_q.weight is empty or overflows; the file is "
     "cut or damaged, download it again"},
    {"another shape", TENSOR_SHAPE, "blk.0.attn_q.weight", 32, NULL, 0, NULL,
     ": the tensor blk.0.attn_q.weight has shape [64, 32], the metadata wants [64, 64]; take "
     "another file of the model"},
    {"an unknown type", TENSOR_TYPE, "blk.0.attn_q.weight", 77, NULL, 0, NULL,
     ": byte 2888: the tensor blk.0.attn_q.weight has the unknown type 77; take a file in Q8_0, "
     "Q4_K_M or BF16"},
    {"a type that is not read", TENSOR_TYPE, "blk.0.attn_q.weight", 40, NULL, 0, NULL,
     ": the tensor blk.0.attn_q.weight has the dtype NVFP4; F32, F16, BF16, Q8_0, Q4_0, Q4_1, "
     "Q5_0, Q5_1, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL, IQ4_XS and MXFP4 are supported; take "
     "another file of the model"},
    {"rows that are no blocks", TENSOR_TYPE, "blk.0.attn_q.weight", 12, NULL, 0, NULL,
     ": byte 2888: rows of 64 elements of the tensor blk.0.attn_q.weight are not whole blocks of "
     "Q4_K, which have 256; the file is cut or damaged, download it again"},
    {"a place beyond the file", TENSOR_PLACE, "blk.0.attn_q.weight", 1ll << 40, NULL, 0, NULL,
     ": the tensor blk.0.attn_q.weight has 16384 bytes at 1099511627776 after byte 3552, and the "
     "file has 299744; the file is cut or damaged, download it again"},
    {"a place that overflows", TENSOR_PLACE, "blk.0.attn_q.weight", -32, NULL, 0, NULL,
     ": the tensor blk.0.attn_q.weight has 16384 bytes at 18446744073709551584 after byte 3552, "
     "and the file has 299744; the file is cut or damaged, download it again"},
    {"a place between two", TENSOR_PLACE, "blk.0.attn_q.weight", 8, NULL, 0, NULL,
     ": the tensor blk.0.attn_q.weight lies at 8, not a multiple of the alignment 32; the file is "
     "cut "
     "or damaged, download it again"},
    {"the place of another tensor", TENSOR_PLACE, "blk.0.attn_q.weight", 0, NULL, 0, NULL,
     ": byte 3552: the tensors output.weight and blk.0.attn_q.weight overlap; the file is cut or "
     "damaged, download it again"},
    {"a tensor that is missing", TENSOR_NAME, "blk.0.attn_q.weight", 0, "blk.1.attn_q.weighs",
     sizeof "blk.1.attn_q.weighs" - 1, NULL,
     ": the tensor blk.1.attn_q.weighs does not belong to this architecture: the file is of a "
     "variant that is not served, take the model's Hugging Face folder"},
    {"a tensor twice", TENSOR_NAME, "blk.0.attn_q.weight", 0, "blk.1.attn_q.weight",
     sizeof "blk.1.attn_q.weight" - 1, NULL,
     ": the tensor blk.1.attn_q.weight occurs twice; the file is cut or damaged, download it "
     "again"},
    {"a layer that is missing", TENSOR_NAME, "blk.0.attn_q.weight", 0, "blk.7.attn_q.weight",
     sizeof "blk.7.attn_q.weight" - 1, NULL,
     ": the tensor blk.0.attn_q.weight, which LlamaForCausalLM needs, is not in the checkpoint; "
     "take another file of the model"},
    {"a file of experts", ADD_COUNT, "llama.expert_count", 8, NULL, 0, NULL,
     ": the key llama.expert_used_count is missing; take a file that a current converter wrote"},
    {"rope of another kind", ADD_TEXT, "llama.rope.scaling.type", 0, "dynamic",
     sizeof "dynamic" - 1, NULL,
     ": the key llama.rope.scaling.type is dynamic; none, linear, yarn and longrope are served, "
     "take the model's Hugging Face folder"},
    {"a part of heads is turned", ADD_COUNT, "llama.rope.dimension_count", 8, NULL, 0, NULL,
     ": the key llama.rope.dimension_count is 8 and heads have 16 columns: rotating some of them "
     "is not served with llama, take another model"},
    {"attention in chunks", ADD_COUNT, "llama.attention.chunk_size", 16, NULL, 0, NULL,
     ": the key llama.attention.chunk_size is 16.0: attention in chunks is not served with llama, "
     "take another model"},
    {"a window", ADD_COUNT, "llama.attention.sliding_window", 16, NULL, 0, NULL,
     ": the key llama.attention.sliding_window: which layers have the window is not in the file, "
     "take the model's Hugging Face folder"},
    {"a part of a model", ADD_COUNT, "split.count", 3, NULL, 0, NULL,
     " is the first of 3 files of a model, and its name does not end with -00001-of-00003.gguf: "
     "give the files the names with which they were published"},
    {"too many parts", ADD_COUNT, "split.count", 1001, NULL, 0, NULL,
     ": the model has 1001 files, at most 1000 are read"},
    {"longrope without factors", ADD_TEXT, "llama.rope.scaling.type", 0, "longrope",
     sizeof "longrope" - 1, NULL,
     ": the tensor rope_factors_short.weight is missing or not 8 factors in F32; take another file "
     "of the model"},
    {"layers that have a window, of a family without", ADD_COUNT,
     "llama.attention.sliding_window_pattern", 2, NULL, 0, NULL,
     ": the key llama.attention.sliding_window_pattern may change what the model computes and is "
     "not read, take the model's Hugging Face folder"},
    {"an adapter", ADD_TEXT, "general.type", 0, "adapter", sizeof "adapter" - 1, NULL,
     ": the file is an adapter (general.type), which is not served: merge it into its model and "
     "take that"},
    {"the encoder of images", ADD_TEXT, "general.type", 0, "mmproj", sizeof "mmproj" - 1, NULL,
     ": the file is the image or audio encoder of a model, which is not served: give the file of "
     "the model itself"},
    {"a matrix of importance", ADD_TEXT, "general.type", 0, "imatrix", sizeof "imatrix" - 1, NULL,
     ": the file is not a model (general.type): give the file of one"},
    {"an alignment that is none", ADD_COUNT, "general.alignment", 48, NULL, 0, NULL,
     ": the key general.alignment is 48, not a power of two; the file is cut or damaged, download "
     "it "
     "again"},
    {"an alignment of zero", ADD_COUNT, "general.alignment", 0, NULL, 0, NULL,
     ": the key general.alignment is 0, allowed is 8 to 65536; take another file of the model"},
    {"an alignment that is a text", ADD_TEXT, "general.alignment", 0, "32", sizeof "32" - 1, NULL,
     ": the key general.alignment is not a number; take a file that a current converter wrote"},
    {"an array of 2^60 bytes", ADD_ARRAY, "general.long", 0, NULL, 0, NULL,
     ": byte 2356: an array needs 1152921504606846976 bytes, but only 297420 are left; "
     "the file is cut or damaged, download it again"},
    {"an array of 2^63 bytes", ADD_ARRAY, "general.long", 12, NULL, 0, NULL,
     ": byte 2356: an array needs 9223372036854775808 bytes, but only 297420 are left; "
     "the file is cut or damaged, download it again"},
    {"an array of 2^60 strings", ADD_ARRAY, "general.long", 8, NULL, 0, NULL,
     ": byte 2356: the key general.long has an array of 1152921504606846976 texts or arrays, "
     "allowed "
     "are 16777216; the file is cut or damaged, download it again"},
    {"an array of 2^60 arrays", ADD_ARRAY, "general.long", 9, NULL, 0, NULL,
     ": byte 2356: the key general.long has an array of 1152921504606846976 texts or arrays, "
     "allowed "
     "are 16777216; the file is cut or damaged, download it again"},
    {"a tensor whose name is no text", TENSOR_NAME, "blk.0.attn_q.weight", 0, "\377lk.0.attn_q",
     sizeof "\377lk.0.attn_q" - 1, NULL,
     ": the tensor \\xfflk.0.attn_q.weight does not belong to this architecture: the file is of a "
     "variant that is not served, take the model's Hugging Face folder"},
    {"a layer's number with a zero before it", ADD_TENSOR, "blk.00.attn_norm.weight", 0, NULL, 0,
     NULL,
     ": the tensor blk.00.attn_norm.weight does not belong to this architecture: the file is of a "
     "variant that is not served, take the model's Hugging Face folder"},
    {"a layer's number of 20 digits", ADD_TENSOR, "blk.99999999999999999999.attn_norm.weight", 0,
     NULL, 0, NULL,
     ": the tensor blk.99999999999999999999.attn_norm.weight does not belong to this architecture: "
     "the file is of a variant that is not served, take the model's Hugging Face folder"},
    {"an alignment of one", ADD_COUNT, "general.alignment", 1, NULL, 0, NULL,
     ": the key general.alignment is 1, allowed is 8 to 65536; take another file of the model"},
    {"a pooling of rerankers", ADD_COUNT, "llama.pooling_type", 4, NULL, 0, NULL,
     ": the key llama.pooling_type is 4, a reranker: of GGUF files those of bert, modern-bert and "
     "qwen3 are served, take "
     "its Hugging Face folder"},
    {"a bias of the first layer alone", ADD_TENSOR, "blk.0.attn_output.bias", 0, NULL, 0, NULL,
     ": the tensor blk.1.attn_output.bias, which LlamaForCausalLM needs, is not in the checkpoint; "
     "take another file of the model"},
    {"a norm of another family", ADD_TENSOR, "blk.0.attn_q_norm.weight", 0, NULL, 0, NULL,
     ": the tensor blk.0.attn_q_norm.weight is not used by LlamaForCausalLM of 2 layers: the file "
     "is of a variant that is not served, take the model's Hugging Face folder"},
    {"a layer after the last", ADD_TENSOR, "blk.7.attn_norm.weight", 0, NULL, 0, NULL,
     ": the tensor blk.7.attn_norm.weight is not used by LlamaForCausalLM of 2 layers: the file "
     "is of a variant that is not served, take the model's Hugging Face folder"},
    {"a bias of the head", ADD_TENSOR, "output.bias", 0, NULL, 0, NULL,
     ": the tensor output.bias is not used by LlamaForCausalLM of 2 layers: the file is of a "
     "variant that is not served, take the model's Hugging Face folder"},
    {"the rows of a reranker", ADD_TENSOR, "cls.output.weight", 0, NULL, 0, NULL,
     ": the tensor cls.output.weight is not used by LlamaForCausalLM of 2 layers: the file is of "
     "a variant that is not served, take the model's Hugging Face folder"},
    {"factors of rope beside a scaling", ADD_FREQS, "llama.rope.scaling.factor", 4, NULL, 0, NULL,
     ": the tensor rope_freqs.weight and the keys rope.scaling both scale positions: only one of "
     "them is served, take the model's Hugging Face folder"},
    {"a factor for no scaling", ADD_NUMBER, "llama.rope.scaling.attn_factor", 2, NULL, 0, NULL,
     ": the key llama.rope.scaling.attn_factor is served with yarn and longrope alone, take the "
     "model's Hugging Face folder"},
    {"an unknown key of rope", ADD_NUMBER, "llama.rope.scaling.yarn_ext_factor", 0, NULL, 0, NULL,
     ": the key llama.rope.scaling.yarn_ext_factor may change what the model computes and is not "
     "read, take the model's Hugging Face folder"},
    {"an unknown key of attention", ADD_NUMBER, "llama.attention.clamp_kqv", 8, NULL, 0, NULL,
     ": the key llama.attention.clamp_kqv is 8.0: a limit of q, k and v is not served with llama, "
     "take another model"},
    {"a cap on the logits", ADD_NUMBER, "llama.final_logit_softcapping", 30, NULL, 0, NULL,
     ": the key llama.final_logit_softcapping is 30.0: a cap on the logits is not served with "
     "llama, take another model"},
    {"another unknown key of attention", ADD_NUMBER, "llama.attention.other", 8, NULL, 0, NULL,
     ": the key llama.attention.other may change what the model computes and is not read, take the "
     "model's Hugging Face folder"},
    {"a decoder that looks ahead", ADD_FLAG, "llama.attention.causal", 0, NULL, 0, NULL,
     ": the key llama.attention.causal is false: decoders that look ahead are not served, take "
     "another model"},
    {"arrays in arrays", ADD_DEEP, "general.deep", 0, NULL, 0, NULL,
     ": byte 2392: the key general.deep has arrays in arrays over 4 levels; the file is cut or "
     "damaged, download it again"},
    {"a tokenizer of another kind", TEXT, "tokenizer.ggml.model", 0, "t5xx", sizeof "t5xx" - 1,
     "tokenizer.json",
     ": the key tokenizer.ggml.model is t5xx; gpt2, llama, t5 and bert are read, take the model's "
     "Hugging Face folder"},
    {"no tokenizer", RENAME, "tokenizer.ggml.model", 0, "tokenizer.ggml.modex",
     sizeof "tokenizer.ggml.modex" - 1, "tokenizer.json",
     ": the key tokenizer.ggml.model is missing; take a file with a tokenizer"},
    {"no tokens", RENAME, "tokenizer.ggml.tokens", 0, "tokenizer.ggml.tokenx",
     sizeof "tokenizer.ggml.tokenx" - 1, "tokenizer.json",
     ": the key tokenizer.ggml.tokens is missing or empty; take a file with a tokenizer"},
    {"no merges", RENAME, "tokenizer.ggml.merges", 0, "tokenizer.ggml.mergex",
     sizeof "tokenizer.ggml.mergex" - 1, "tokenizer.json",
     ": the key tokenizer.ggml.merges is missing; take a file that a current converter wrote"},
    {"an unknown pre-tokenizer", TEXT, "tokenizer.ggml.pre", 0, "unknow", sizeof "unknow" - 1,
     "tokenizer.json",
     ": the key tokenizer.ggml.pre is unknow, a pre-tokenizer that is not known; take the model's "
     "Hugging Face folder"},
    {"a token that is no text", TEXT_ANY, "wd3", 0, "w\3773", sizeof "w\3773" - 1, "tokenizer.json",
     ": the key tokenizer.ggml.tokens: item 3 is not UTF-8 at its byte 1; the file is cut or "
     "damaged, download it again"},
    {"a start beyond the vocabulary", VALUE, "tokenizer.ggml.bos_token_id", 96, NULL, 0,
     "tokenizer.json",
     ": the key tokenizer.ggml.bos_token_id is 96, allowed is 0 to 95; take another file of the "
     "model"},
    {"a flag that is a number", ADD_COUNT, "tokenizer.ggml.add_bos_token", 1, NULL, 0,
     "tokenizer.json",
     ": the key tokenizer.ggml.add_bos_token is neither true nor false; take a file that a current "
     "converter wrote"},
    {"a template that is a number", ADD_COUNT, "tokenizer.chat_template", 1, NULL, 0,
     "tokenizer_config.json",
     ": the key tokenizer.chat_template is not a string; take a file that a current converter "
     "wrote"},
};

struct ground {
    char folder[64], path[128];
    struct device *device;
};

static struct gguf_bytes good_make(const struct hostile *add)
{
    struct gguf_build b = {.key_count = 0};
    json_t *golden = golden_read("llama");
    gguf_of_golden(&b, golden);
    if (add && add->operation == ADD_COUNT)
        gguf_key_count(&b, add->target, (uint32_t)add->number);
    if (add && add->operation == ADD_TEXT)
        gguf_key_text(&b, add->target, add->text);
    if (add && add->operation == ADD_DEEP) {
        gguf_key(&b, add->target, 9);
        for (int i = 0; i < 1000; i++) {
            gguf_put_number(&b.keys, 9, 4);
            gguf_put_number(&b.keys, 1, 8);
        }
    }
    if (add && add->operation == ADD_ARRAY) {
        gguf_key(&b, add->target, 9);
        gguf_put_number(&b.keys, (uint64_t)add->number, 4);
        gguf_put_number(&b.keys, 1ull << 60, 8);
    }
    float ones[64];
    for (int i = 0; i < 64; i++)
        ones[i] = 1;
    if (add && (add->operation == ADD_NUMBER || add->operation == ADD_FREQS))
        gguf_key_number(&b, add->target, (float)add->number);
    if (add && add->operation == ADD_FLAG)
        gguf_key_flag(&b, add->target, add->number != 0);
    if (add && add->operation == ADD_TENSOR)
        gguf_tensor_add(&b, add->target, &(uint64_t){64}, 1, 0, ones, sizeof ones);
    if (add && add->operation == ADD_FREQS)
        gguf_tensor_add(&b, "rope_freqs.weight", &(uint64_t){8}, 1, 0, ones, 8 * sizeof *ones);
    json_decref(golden);
    return gguf_finish(&b);
}

static int setup(void **state)
{
    static struct ground ground;
    struct error err;
    struct device_options options = {.threads = 1, .exact = true};
    folder_make(ground.folder);
    snprintf(ground.path, sizeof ground.path, "%s/m.gguf", ground.folder);
    assert_int_equal(device_cpu()->open(&ground.device, &options, &err), STATUS_OK);
    *state = &ground;
    return 0;
}

static int teardown(void **state)
{
    struct ground *g = *state;
    device_cpu()->close(g->device);
    folder_remove(g->folder);
    return 0;
}

// Returns the offset at which the text begins, after its length.
static size_t place_of(const struct gguf_bytes *file, const char *text)
{
    const char *at = memmem(file->at, file->bytes, text, strlen(text));
    assert_non_null(at);
    return (size_t)(at - file->at);
}

static void damage(struct gguf_bytes *file, const struct hostile *h)
{
    size_t at = 0, bytes = 8;
    bool tensor = h->operation >= TENSOR_NAME && h->operation <= TENSOR_PLACE;
    if (h->target[0] != '\0' && h->operation < ADD_COUNT)
        at = place_of(file, h->target) + strlen(h->target);
    size_t begin = at - strlen(h->target);
    const void *from = &h->number;
    switch (h->operation) {
    case CUT:
        file->bytes = (size_t)h->number;
        return;
    case CUT_END:
        file->bytes -= (size_t)h->number;
        return;
    case AT:
        at = (size_t)h->number;
        break;
    case RENAME:
    case TEXT_ANY:
    case TENSOR_NAME:
        at = begin;
        break;
    case KIND:
    case TENSOR_DIMS:
        bytes = 4;
        break;
    case VALUE:
        at += 4;
        bytes = 4;
        break;
    case TEXT:
        at += 4 + 8;
        break;
    case TENSOR_SHAPE:
        at += 4;
        break;
    case TENSOR_TYPE:
        at += 4 + 2 * 8;
        bytes = 4;
        break;
    case TENSOR_PLACE:
        at += 4 + 2 * 8 + 4;
        break;
    default:
        return;
    }
    if (h->text && !(tensor && h->operation != TENSOR_NAME)) {
        from = h->text;
        bytes = h->text_bytes;
    }
    memcpy(file->at + at, from, bytes);
}

// Plans the model, or reads one document.
static enum status attempt(const struct ground *g, const char *document, struct error *err)
{
    if (!document) {
        struct model_options options = rig_options();
        struct model_plan *plan = NULL;
        enum status status =
            model_plan_open(&plan, g->path, device_cpu(), g->device, &options, err);
        if (status == STATUS_OK)
            model_plan_close(plan);
        return status;
    }
    char path[256];
    struct text text;
    struct arena *arena = arena_create(0, 0);
    snprintf(path, sizeof path, "%s/%s", g->path, document);
    enum status status = model_file_read(&text, arena, path, 1 << 24, err);
    arena_destroy(arena);
    return status;
}

static void good_is_read(const struct ground *g)
{
    static const char *const documents[] = {NULL, "tokenizer.json", "tokenizer_config.json"};
    struct gguf_bytes file = good_make(NULL);
    struct error err;
    file_write(g->folder, "m.gguf", file.at, file.bytes);
    for (int i = 0; i < 3; i++)
        if (attempt(g, documents[i], &err) != STATUS_OK)
            fail_msg("a good file was refused: %s", err.text);
    heap_free(file.at);
}

static void test_hostile_files_are_refused(void **state)
{
    const struct ground *g = *state;
    uint32_t refused = 0, wrong = 0;
    good_is_read(g);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct hostile *h = &cases[i];
        struct error err = {.status = STATUS_OK};
        char want[1024];
        struct gguf_bytes file = good_make(h);
        damage(&file, h);
        file_write(g->folder, "m.gguf", file.at, file.bytes);
        heap_free(file.at);
        enum status status = attempt(g, h->document, &err);
        snprintf(want, sizeof want, "%s%s", g->path, h->sentence);
        refused += status != STATUS_OK;
        if (status != STATUS_OK && status == err.status && strcmp(err.text, want) == 0)
            continue;
        wrong++;
        print_error("%s\t%s\n", h->label,
                    status == STATUS_OK ? "was accepted" : err.text + strlen(g->path));
    }
    printf("%u hostile files refused\n", refused);
    assert_int_equal(wrong, 0);
    assert_true(refused >= 40);
    good_is_read(g);
}

// Creates a file of tokens with nothing but scores: "a", "aa" ... and one of `longest` bytes.
static struct gguf_bytes scored_make(uint32_t count, uint32_t longest)
{
    struct gguf_build b = {.key_count = 0};
    const char **tokens = heap_alloc((count + 1) * sizeof *tokens);
    float *scores = heap_alloc_zeroed(count + 1, sizeof *scores);
    char *all = heap_alloc(longest + 1);
    memset(all, 'a', longest);
    all[longest] = '\0';
    for (uint32_t i = 0; i < count; i++)
        tokens[i] = all + longest - 1 - i;
    tokens[count] = all;
    gguf_key_text(&b, "general.architecture", "llama");
    gguf_key_text(&b, "tokenizer.ggml.model", "llama");
    gguf_key_texts(&b, "tokenizer.ggml.tokens", tokens, count + 1);
    gguf_key_array(&b, "tokenizer.ggml.scores", 6, scores, count + 1, 4);
    struct gguf_bytes out = gguf_finish(&b);
    heap_free(all);
    heap_free(scores);
    heap_free(tokens);
    return out;
}

static void test_a_small_file_takes_little_memory(void **state)
{
    (void)state;
    static const struct {
        uint32_t count, longest;
        size_t bytes_max;
        enum status status;
        const char *sentence;
    } scored[] = {
        {60, 1024, 1 << 26, STATUS_OK, ""},
        {60, 1025, 1 << 26, STATUS_TOO_LARGE,
         "m: the key tokenizer.ggml.tokens: item 60 has 1025 bytes, at most 1024 are read where "
         "tokens have scores; take another file of the model"},
        {400, 500, 1 << 26, STATUS_TOO_LARGE,
         "m: the key tokenizer.ggml.scores: 401 tokens have over 7440 merges, more than the "
         "vocabulary of any known model; take another file of the model"},
        {60, 61, 20000, STATUS_TOO_LARGE,
         "m: the tokenizer keys need more than 20000 bytes; at most that much is read; take "
         "another file of the model"},
        {60, 61, 2000, STATUS_TOO_LARGE,
         "m: the tokenizer keys need more than 2000 bytes; at most that much is read; take another "
         "file of the model"},
    };
    for (size_t i = 0; i < sizeof scored / sizeof *scored; i++) {
        struct gguf_bytes bytes = scored_make(scored[i].count, scored[i].longest);
        struct arena *arena = arena_create(0, 0);
        struct json_buffer out = {0};
        const struct gguf_output paper = {&out, scored[i].bytes_max, arena};
        struct gguf file;
        struct error err = {.text = ""};
        assert_int_equal(gguf_parse(&file, arena, text_span(bytes.at, bytes.bytes), "m", &err),
                         STATUS_OK);
        assert_int_equal(gguf_document(&paper, &file, "tokenizer.json", &err), scored[i].status);
        if (scored[i].status != STATUS_OK)
            assert_string_equal(err.text, scored[i].sentence);
        assert_true(out.bytes < scored[i].bytes_max + 1024); // the limit is checked while writing
        json_buffer_free(&out);
        arena_destroy(arena);
        heap_free(bytes.at);
    }
}

// Some converters write the largest number if there is no such token.
static void test_a_model_without_an_end_is_read(void **state)
{
    const struct ground *g = *state;
    static const struct hostile none = {
        .operation = VALUE, .target = "tokenizer.ggml.eos_token_id", .number = 0xFFFFFFFF};
    static const char *const documents[] = {NULL, "tokenizer.json", "tokenizer_config.json"};
    struct gguf_bytes file = good_make(NULL);
    struct error err;
    damage(&file, &none);
    file_write(g->folder, "m.gguf", file.at, file.bytes);
    heap_free(file.at);
    for (int i = 0; i < 3; i++)
        if (attempt(g, documents[i], &err) != STATUS_OK)
            fail_msg("%s", err.text);
}

// Checks the offsets of all tensors and keys of a file in memory, and reads one of its documents.
static void read_all(struct text bytes, size_t turn, struct arena *arena)
{
    static const char *const names[] = {"config.json",           "generation_config.json",
                                        "modules.json",          "1_Pooling/config.json",
                                        "tokenizer_config.json", "tokenizer.json"};
    struct gguf file;
    struct error err;
    if (gguf_parse(&file, arena, bytes, "m", &err) != STATUS_OK)
        return;
    for (uint32_t i = 0; i < file.tensor_count; i++) {
        const struct gguf_tensor *t = &file.tensors[i];
        assert_true(t->offset + t->bytes <= bytes.bytes);
    }
    for (uint32_t i = 0; i < file.value_count; i++) {
        const struct gguf_value *v = &file.values[i];
        assert_true(v->bytes.at >= bytes.at &&
                    v->bytes.at + v->bytes.bytes <= bytes.at + bytes.bytes);
    }
    struct json_buffer out = {0};
    json_t *json = NULL;
    const struct gguf_output paper = {&out, 1 << 24, arena};
    if (gguf_document(&paper, &file, names[turn % 6], &err) == STATUS_OK)
        assert_int_equal(json_parse(&json, json_buffer_text(&out), &err), STATUS_OK);
    json_decref(json);
    json_buffer_free(&out);
}

static void test_every_byte_damaged_and_every_cut(void **state)
{
    (void)state;
    struct gguf_bytes file = good_make(NULL);
    struct gguf whole;
    struct error err;
    struct arena *arena = arena_create(0, 0);
    assert_int_equal(gguf_parse(&whole, arena, text_span(file.at, file.bytes), "m", &err),
                     STATUS_OK);
    size_t head = file.bytes;
    for (uint32_t i = 0; i < whole.tensor_count; i++)
        head = whole.tensors[i].offset < head ? whole.tensors[i].offset : head;
    for (size_t at = 0; at < head; at++) {
        char before = file.at[at];
        for (unsigned bit = 0; bit < 8; bit += 7) {
            file.at[at] = (char)(before ^ 1 << bit);
            for (size_t turn = 0; turn < 6; turn += 5)
                read_all(text_span(file.at, file.bytes), turn, arena);
            arena_reset(arena);
        }
        file.at[at] = before;
        // A copy of exactly these bytes, so that the sanitizers report a read past them.
        char *cut = heap_alloc(at + 1);
        memcpy(cut, file.at, at + 1);
        read_all(text_span(cut, at + 1), at, arena);
        heap_free(cut);
        arena_reset(arena);
    }
    arena_destroy(arena);
    heap_free(file.at);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hostile_files_are_refused),
        cmocka_unit_test(test_a_small_file_takes_little_memory),
        cmocka_unit_test(test_a_model_without_an_end_is_read),
        cmocka_unit_test(test_every_byte_damaged_and_every_cut),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
