// SPDX-License-Identifier: Apache-2.0
// Prints the tables of architectures, of multimodal checkpoints and of keys as JSON, for
// tools/models_table.py, which writes docs/MODELS.md from them. One thread.
#include "base/json.h"
#include "runtime/model/arch.h"
#include "runtime/model/wrapper.h"
#include "runtime/source/config_keys.h"
#include "runtime/source/gguf_documents.h"

#include <stdio.h>

static json_t *words(const char *text)
{
    return text ? json_string(text) : json_null();
}

int main(void)
{
    static const char *const heads[] = {
        [HEAD_NONE] = "embedder",       [HEAD_VOCABULARY] = "generator",
        [HEAD_SCORE] = "reranker",      [HEAD_POOLER] = "reranker",
        [HEAD_CLASSIFIER] = "reranker", [HEAD_PRE_CLASSIFIER] = "reranker",
        [HEAD_DENSE_NORM] = "reranker"};
    json_t *archs = json_array(), *keys = json_array();
    const struct architecture *arch;
    for (uint32_t i = 0; (arch = architecture_at(i)); i++)
        json_array_append_new(
            archs, json_pack("{s:s, s:b, s:s, s:I, s:I, s:o, s:b, s:o}", "name", arch->name,
                             "decoder", arch->family == ARCH_DECODER, "serves", heads[arch->head],
                             "flags", (json_int_t)arch->flags, "form", (json_int_t)arch->form,
                             "reads", words(arch->reads), "split",
                             arch->names->q.axis != SHARD_NONE &&
                                 !(arch->flags & (ARCH_QK_NORM_ALL | ARCH_BOTH_WAYS)),
                             "gguf", words(gguf_family(arch->name))));
    json_t *wrappers = json_array();
    const struct wrapper *wrapper;
    for (uint32_t i = 0; (wrapper = wrapper_at(i)); i++) {
        json_t *texts = json_array();
        const char *text;
        for (uint32_t t = 0; (text = wrapper_text_at(wrapper, t)); t++)
            json_array_append_new(texts, json_string(text));
        json_array_append_new(wrappers, json_pack("{s:s, s:s, s:o}", "name", wrapper->name, "media",
                                                  wrapper->media, "texts", texts));
    }
    const struct config_key *key;
    for (uint32_t i = 0; (key = config_key_at(i)); i++)
        json_array_append_new(keys, json_pack("{s:s, s:o, s:I, s:I, s:f, s:o, s:s}", "name",
                                              key->name, "gguf", words(key->gguf), "families",
                                              (json_int_t)key->families, "neutral",
                                              (json_int_t)key->neutral, "value", key->value,
                                              "words", words(key->words), "meaning", key->meaning));
    json_t *all =
        json_pack("{s:o, s:o, s:o}", "architectures", archs, "wrappers", wrappers, "keys", keys);
    if (json_dumpf(all, stdout, JSON_INDENT(1)) != 0 || fflush(stdout) != 0)
        return 1;
    json_decref(all);
    return 0;
}
