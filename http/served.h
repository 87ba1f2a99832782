// The models a process serves: what the HTTP room needs to know of each, read-only after start.
#pragma once

#include "runtime/text/chat.h"
#include "runtime/text/dialect/budget.h"
#include "runtime/text/dialect/dialect.h"
#include "runtime/text/dialect/switch.h"
#include "runtime/text/sentence.h"
#include "runtime/text/tokenizer.h"
#include "scheduler/engine.h"

#include <stdbool.h>
#include <stdint.h>

struct served_model;

// One of the engines behind a model's name. Those of all models stand in one list, a model's one
// after the other; the place in it is the engine's number in metrics.
struct served_copy {
    const struct served_model *model;
    struct engine *engine;
    const char *device;        // "cpu", "cuda:1"
    struct device_need memory; // what its plan takes of the device, keys and values included
};

struct served_model {
    const char *id; // as clients name it
    const struct served_copy *copies;
    uint32_t copy_count;
    const struct model_facts *facts; // of its engines
    const struct tokenizer *tokenizer;
    struct vocabulary *vocabulary;    // as the engine has it; NULL for embedders and rerankers
    const struct chat_template *chat; // NULL for embedders and rerankers
    struct dialect dialect;           // of generators: how they write calls and reasoning
    struct dialect_thinking thinking; // likewise: how their templates are told to think
    struct dialect_closing closing;   // likewise: how a budget ends their reasoning
    bool chat_is_plain;               // the model brings none: prompt.h's `plain`
    bool special_in_text;             // special tokens in an input or a raw prompt are tokens
    bool dimensions_free;             // vectors may be cut to any first values (--matryoshka)
    struct sentence_prompts prompts;  // of embedders
    uint32_t inputs_max;              // of a request: inputs of embedders, documents of rerankers
    int64_t created;                  // unix seconds
    char fingerprint[16];             // "fp_" + hash of build, weights, config and options
    uint32_t max_queued_tokens;       // as the engine was opened, for messages
    uint32_t choices_max;             // likewise: of all prompts of a request
    uint32_t n_max;                   // of each prompt
};

struct grammars; // http/api/grammars.h

struct served {
    const struct served_model *models;
    uint32_t count;
    struct grammars *grammars; // of all models
    const struct served_copy *copies;
    uint32_t copy_count;
};

// Its device failed: it takes no request until the process ends.
bool served_copy_failed(const struct served_copy *copy);
// All its copies failed: it answers 503.
bool served_has_failed(const struct served_model *model);

// NULL if no model has this id.
const struct served_model *served_find(const struct served *served, struct text id);
