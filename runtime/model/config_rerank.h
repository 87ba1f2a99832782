// SPDX-License-Identifier: Apache-2.0
// Recognises rerankers that are published as a plain decoder (runtime/source/rerank_forms.h), and
// chooses the prompt of those with a score head. Loading thread only.
#pragma once

#include "runtime/model/config.h"

// Sets kind, rerank, answers, yes_id, no_id and lone_answer of such a reranker, only rerank of one
// with a score head, and nothing of other models. json: config.json. sentence:
// config_sentence_transformers.json, or NULL. UNSUPPORTED if the reranker is not served; else the
// errors of reading the files.
enum status rerank_config_read(struct model_config *config, const struct modules *modules,
                               const json_t *json, const json_t *sentence, const char *folder,
                               struct error *err) MUST_USE;
