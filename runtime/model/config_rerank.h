// SPDX-License-Identifier: Apache-2.0
// Recognises rerankers that are published as a plain decoder. Loading thread only.
#pragma once

#include "runtime/model/config.h"

// Sets kind, prompt and answers if the folder is such a reranker (runtime/source/rerank_forms.h).
// sentence: config_sentence_transformers.json, or NULL.
enum status rerank_config_read(struct model_config *config, const struct modules *modules,
                               const json_t *json, const json_t *sentence, const char *folder,
                               struct error *err) MUST_USE;
