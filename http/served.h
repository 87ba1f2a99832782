// SPDX-License-Identifier: Apache-2.0
// The models that this process serves: the facts that the http module needs of each. A list is
// read-only while it is served; when models are loaded or unloaded at run time, another list
// replaces it (server_replace in server.h).
#pragma once

#include "runtime/text/chat.h"
#include "runtime/text/dialect/budget.h"
#include "runtime/text/dialect/dialect.h"
#include "runtime/text/dialect/switch.h"
#include "runtime/text/sentence.h"
#include "runtime/text/tokenizer.h"
#include "scheduler/engine.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct served_model;

// Users of a list or of a model, so that its owner knows when it can be freed: not before each h2o
// thread has begun another iteration of its loop and the counts are 0. h2o threads change them.
struct served_use {
    _Atomic uint32_t exchanges; // number of exchanges that use the list, or that chose the model
    _Atomic uint32_t undecided; // lists only: number of exchanges that may still choose a model
};

// One engine of a model. The copies of all models are in one array, those of one model next to each
// other, also in their slots.
struct served_copy {
    uint32_t slot; // index of its ports and counters, and its number in metrics
    const struct served_model *model;
    struct engine *engine;
    const char *device;        // "cpu", "cuda:1"
    struct device_need memory; // device memory of its plan, including KV blocks
};

struct served_model {
    const char *id; // name that answers show; clients may use it or one of other_names
    const char *const *other_names;
    uint32_t other_name_count;
    const struct served_copy *copies;
    uint32_t copy_count;
    const struct model_facts *facts; // facts shared by all its engines
    const struct tokenizer *tokenizer;
    struct vocabulary *vocabulary;    // vocabulary of the engines; NULL for embedders and rerankers
    const struct chat_template *chat; // NULL for embedders and rerankers
    struct dialect dialect;           // how a generator writes tool calls and reasoning
    // How calls are written if the template has no tools: they are then described in the system
    // message. row is NULL: such requests are refused
    struct dialect generic_calls;
    struct dialect_thinking thinking; // how a generator's template switches thinking on and off
    // how a generator's reasoning is ended when its budget is used up
    struct dialect_closing closing;
    // Where optional calls begin, for grammars that hold from there on (--tool-call-grammar). NULL:
    // off, or the dialect's calls have no marker.
    struct token_watch *watch;
    bool chat_is_plain;   // true if the model has no chat template: see `plain` in prompt.h
    bool special_in_text; // true if special tokens in an input or a raw prompt are parsed as tokens
    bool cache_by_key;    // true if only requests of one API key share cached prompts
    bool dimensions_free; // true if vectors may be cut to any number of values (--matryoshka)
    struct sentence_prompts prompts; // prompts of embedders
    uint32_t inputs_max;        // limit per request: inputs of embedders, documents of rerankers
    int64_t created;            // Unix time in seconds
    char fingerprint[16];       // "fp_" + hash of build, weights, config and options
    uint32_t max_queued_tokens; // the engine's queue limit, for error messages
    uint32_t choices_max;       // limit of choices, summed over all prompts of a request
    uint32_t n_max;             // limit of choices of each prompt
    struct served_use *use;     // NULL: served until the process ends
};

struct grammars; // http/api/grammars.h

struct served {
    const struct served_model *models;
    uint32_t count;
    struct grammars *grammars; // compiled grammars of all models
    const struct served_copy *copies;
    uint32_t copy_count;
    uint32_t slot_count;    // slots that models may have later, at least copy_count; 0: copy_count
    struct served_use *use; // NULL: served until the process ends
};

// Returns true if the copy's device failed: it accepts no request until the process ends.
bool served_copy_failed(const struct served_copy *copy);
// Returns true if all copies of the model failed: its requests get 503.
bool served_has_failed(const struct served_model *model);

// Returns the model with this name, or NULL.
const struct served_model *served_find(const struct served *served, struct text id);
