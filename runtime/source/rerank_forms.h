// SPDX-License-Identifier: Apache-2.0
// The forms in which rerankers read a query and a document: a text pair of the tokenizer, or the
// prompt of a published model whose score compares the logits of tokens. Constant data.
#pragma once

enum rerank_form {
    RERANK_PAIR,      // a text pair of the tokenizer
    RERANK_YES_NO,    // the prompt of Qwen3-Reranker
    RERANK_MXBAI,     // the prompt of mxbai-rerank-v2
    RERANK_BGE_GEMMA, // the prompt of bge-reranker-v2-gemma
    RERANK_FORMS,
    RERANK_UNKNOWN = RERANK_FORMS, // a reranker with a prompt that its files do not determine
};

// Separates the pieces of a prompt, each of which is encoded on its own.
#define RERANK_PIECE "\x1f"

struct rerank_form_facts {
    const char *option;       // value of --rerank-prompt
    const char *owner;        // published model with this prompt; NULL: none
    const char *architecture; // its architecture
    const char *folder;       // part of the names of its folders, in any case
    // Texts of tokens: the score is logit(yes) - logit(no), or logit(yes) if `no` is NULL.
    const char *yes, *no;
    const char *sentence; // part of the prompt; a chat template that contains it renders the prompt
    // The prompt: pieces, then `head` and the document as one text, then pieces. {q} is the query,
    // {i} the instruction, {l} a line with the instruction, if there is one.
    const char *before, *head, *after;
    const char *instruction; // the published instruction; NULL: none
};

// Returns the facts of a form below RERANK_FORMS.
const struct rerank_form_facts *rerank_form_facts(enum rerank_form form);
