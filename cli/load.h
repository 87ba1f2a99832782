// From options to running models: devices, tokenizers, memory plans, weights, engines. Used by
// every command that computes.
#pragma once

#include "cli/settings.h"
#include "runtime/text/chat.h"
#include "runtime/text/dialect/budget.h"
#include "runtime/text/dialect/switch.h"
#include "runtime/text/sentence.h"
#include "runtime/text/tokenizer.h"
#include "scheduler/engine.h"

struct loaded_device {
    const struct device_api *api;
    struct device *device;
    struct device_facts facts;
};

// Devices of the ranks that share a model; those of all models with as many ranks.
struct loaded_ranks {
    struct device *devices[RANKS_MAX];
    uint32_t count;
};

struct loaded_model {
    struct model_spec spec;
    struct loaded_device *device;
    struct tokenizer *tokenizer;
    struct vocabulary *vocabulary; // generators only, once loaded
    struct chat_template *chat;    // generators only
    struct text chat_source;
    struct sentence_prompts prompts; // embedders only
    struct dialect dialect;          // generators only, as the three below
    struct dialect_thinking thinking;
    struct dialect_closing closing;
    bool chat_is_plain; // the model has no template of its own
    struct model_plan *plan;
    struct model *model;
    struct engine *engine;
    struct engine_options engine_options;
    uint64_t kv_bytes;
    const char *kv_rule; // what set kv_bytes, for the printed plan
};

enum { DEVICES_MAX = 3 }; // cpu, cuda, simt

struct loaded {
    struct loaded_device devices[DEVICES_MAX]; // in the order in which the models name them
    uint32_t device_count;
    struct loaded_device *of_choice[DEVICES_MAX + 1]; // by enum device_choice
    struct loaded_ranks ranks[RANKS_MAX + 1];         // of the cpu, by their number
    struct arena *arena;                              // of the process: ids, texts, lists
    struct loaded_model *models;
    uint32_t model_count;
};

// The devices that the specs name, each opened once; on `auto` without a GPU one line says why and
// the CPU is taken.
enum status devices_load(struct loaded *loaded, const struct device_settings *settings,
                         const struct model_spec *specs, uint32_t count,
                         struct error *err) MUST_USE;

// Opens tokenizers, templates and plans of all specs; allocates no tensor. Splits the KV memory and
// checks the sum of the plans against the free memory of each device. Prints the sum to stderr, the
// whole plan at level debug or where it does not fit. more: a line of the whole plan about other
// memory of the process, or NULL.
enum status models_plan(struct loaded *loaded, const struct model_spec *specs, uint32_t count,
                        uint32_t port_count, const char *more, struct error *err) MUST_USE;

// Loads the weights, with progress on stderr, and opens the engines.
enum status models_load(struct loaded *loaded, struct error *err) MUST_USE;

void loaded_close(struct loaded *loaded);

// For inspect: the plan of one model as text.
void plan_print(FILE *out, const struct loaded_model *model);
