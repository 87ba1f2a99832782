// SPDX-License-Identifier: Apache-2.0
// The table of forms; see rerank_forms.h. The prompts are those of the models' publishers, divided
// into the pieces that the publishers encode separately.
#include "runtime/source/rerank_forms.h"

#define QWEN_USER(system) "<|im_start|>system\n" system "<|im_end|>\n<|im_start|>user\n"
#define QWEN_ANSWER "<|im_end|>\n<|im_start|>assistant\n"
#define QWEN3_SENTENCE                                                                             \
    "Judge whether the Document meets the requirements based on the Query and the Instruct "       \
    "provided."
#define MXBAI_SENTENCE                                                                             \
    "You are a search relevance expert who evaluates how well documents match search queries."
#define GEMMA_SENTENCE                                                                             \
    "Given a query A and a passage B, determine whether the passage contains an answer to the "    \
    "query"

static const struct rerank_form_facts forms[RERANK_FORMS] = {
    [RERANK_PAIR] = {.option = "pair"},
    [RERANK_YES_NO] =
        {
            .option = "yes-no",
            .owner = "Qwen3-Reranker",
            .architecture = "Qwen3ForCausalLM",
            .folder = "reranker",
            .yes = "yes",
            .no = "no",
            .sentence = QWEN3_SENTENCE,
            .before =
                QWEN_USER(QWEN3_SENTENCE " Note that the answer can only be \"yes\" or \"no\"."),
            .head = "<Instruct>: {i}\n<Query>: {q}\n<Document>: ",
            .after = QWEN_ANSWER "<think>\n\n</think>\n\n",
            .instruction =
                "Given a web search query, retrieve relevant passages that answer the query",
        },
    [RERANK_MXBAI] =
        {
            .option = "mxbai",
            .owner = "mxbai-rerank-v2",
            .architecture = "Qwen2ForCausalLM",
            .folder = "mxbai-rerank",
            .yes = "1",
            .no = "0",
            .sentence = MXBAI_SENTENCE,
            .before = QWEN_USER("You are Qwen, created by Alibaba Cloud. You are a helpful "
                                "assistant.") RERANK_PIECE "{l}query: {q}" RERANK_PIECE "\n",
            .head = "document: ",
            .after = "\n" RERANK_PIECE MXBAI_SENTENCE
                     " For each query-document pair, carefully analyze the semantic relationship "
                     "between them, then provide your binary relevance judgment (0 for not "
                     "relevant, 1 for relevant).\nRelevance:" RERANK_PIECE QWEN_ANSWER,
        },
    [RERANK_BGE_GEMMA] =
        {
            .option = "bge-gemma",
            .owner = "bge-reranker-v2-gemma",
            .architecture = "GemmaForCausalLM",
            .folder = "bge-reranker-v2-gemma",
            .yes = "Yes",
            .sentence = GEMMA_SENTENCE,
            .before = "<bos>" RERANK_PIECE "A: {q}" RERANK_PIECE "\n",
            .head = "B: ",
            .after = "\n" RERANK_PIECE "{i}",
            .instruction = GEMMA_SENTENCE " by providing a prediction of either 'Yes' or 'No'.",
        },
};

const struct rerank_form_facts *rerank_form_facts(enum rerank_form form)
{
    return &forms[form];
}
