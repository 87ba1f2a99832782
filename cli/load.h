// SPDX-License-Identifier: Apache-2.0
// From options to running models: devices, tokenizers, memory plans, weights, engines. Used by all
// commands that run a model. Main thread, or the thread that loads models while a server runs.
#pragma once

#include "cli/devices.h"
#include "runtime/source/source.h"
#include "runtime/text/chat.h"
#include "runtime/text/dialect/budget.h"
#include "runtime/text/dialect/switch.h"
#include "runtime/text/sentence.h"
#include "runtime/text/tokenizer.h"
#include "scheduler/engine.h"

// Device handles of the ranks that share a model. On a CPU, all models with the same number of
// ranks share them.
struct loaded_ranks {
    struct device *devices[RANKS_MAX];
    uint32_t count;
};

// One copy of a model. The copies of a model are adjacent in the array. The first copy owns what is
// loaded before the plan; the others point to it, and copies on the same device share its weights.
struct loaded_model {
    struct model_spec spec;
    uint32_t copy; // index among the copies of the model
    uint32_t slot; // index of its engine's slot, if a server serves it (engines.h)
    // devices that it may use: one per copy, or one per rank
    struct loaded_device *choices[OPTION_DEVICES_MAX];
    uint32_t choice_count;
    struct loaded_device *device;      // set by models_plan; choices[0] if split over GPUs
    struct loaded_ranks ranks;         // used if split over GPUs; rank r is on choices[r]
    const char *rank_names[RANKS_MAX]; // labels of those GPUs
    char label[48];                    // label of its device, or of all its GPUs: "cuda:0,1"
    const struct model_link *link;     // link to nodes with its other ranks (cli/group.h), or NULL
    struct model_source *source; // open until sources_close; set in the first copy, may be NULL
    struct tokenizer *tokenizer;
    struct vocabulary *vocabulary; // generators only; set by models_load
    struct token_watch *watch;     // set in the first copy; NULL: see served.h
    struct chat_template *chat;    // generators only
    struct text chat_source;
    struct sentence_prompts prompts; // embedders only
    struct dialect dialect;          // generators only, like thinking, closing and chat_is_plain
    struct dialect_thinking thinking;
    struct dialect_closing closing;
    bool chat_is_plain; // true if the model has no template of its own
    struct model_plan *plan;
    struct model *model;
    struct engine *engine;
    struct kv_publisher *kv_publisher; // NULL: --kv-events is off
    struct engine_options engine_options;
    uint64_t kv_bytes;
    const char *kv_rule; // the rule that set kv_bytes, for the printed plan
};

struct loaded {
    struct device_list devices;
    struct loaded_ranks ranks[RANKS_MAX + 1]; // ranks on the CPU, indexed by their number
    struct arena *arena;                      // lives as long as the process: ids, texts, lists
    struct loaded_model *models;              // [model_count] each copy is an entry
    uint32_t model_count;
    uint64_t start_ns; // time limit for a start without progress; 0: MODEL_START_NS
    bool follows;      // true if another node schedules: models have no engines here
};

// Opens the devices that the specs name, each once, and stores in each copy of a model the devices
// that it may use.
enum status devices_load(struct loaded *loaded, const struct device_settings *settings,
                         const struct model_spec *specs, uint32_t count,
                         struct error *err) MUST_USE;

// Call after devices_load. Replaces names of the hub by paths of the cache, and downloads models
// that the cache lacks (fetched.c).
enum status models_fetch(struct loaded *loaded, struct error *err) MUST_USE;

// Call after models_fetch. Opens tokenizers, templates and plans of all models; allocates no
// tensor. A copy that may use several devices gets the one with most memory left. Splits the KV
// memory and compares the sum of the plans with the free memory of each device. Prints the sum to
// stderr, and the complete plan at log level debug or if it does not fit: then NO_MEMORY. more: a
// line of the complete plan about other memory of the process, or NULL.
enum status models_plan(struct loaded *loaded, uint32_t port_count, const char *more,
                        struct error *err) MUST_USE;

// Returns the first copy of the model, which may be m.
static inline struct loaded_model *model_first(struct loaded_model *m)
{
    return m - m->copy;
}

// Loads the weights, showing progress on stderr, and opens the engines.
enum status models_load(struct loaded *loaded, struct error *err) MUST_USE;

// Closes the files of the models, which nothing reads after loading.
void sources_close(struct loaded *loaded);

// Closes models, ranks and devices and frees the arena. The engines' threads must have ended.
void loaded_close(struct loaded *loaded);

// For models that are loaded and unloaded at run time. loaded_model_close closes all copies of one
// model, whose engines have ended; the arena keeps its texts. loaded_close and loaded_discard pass
// over models that are closed already.
void loaded_model_close(struct loaded_model *first);
// Closes the models and frees the arena, in which `loaded` itself may be. Leaves the devices open,
// because another struct owns them.
void loaded_discard(struct loaded *loaded);
