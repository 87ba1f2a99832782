// From options to running models: devices, tokenizers, memory plans, weights, engines. Used by
// every command that computes.
#pragma once

#include "cli/devices.h"
#include "runtime/text/chat.h"
#include "runtime/text/dialect/budget.h"
#include "runtime/text/dialect/switch.h"
#include "runtime/text/sentence.h"
#include "runtime/text/tokenizer.h"
#include "scheduler/engine.h"

// Devices of the ranks that share a model; those of all models with as many ranks.
struct loaded_ranks {
    struct device *devices[RANKS_MAX];
    uint32_t count;
};

// One copy of a model. Copies stand one after the other; what is loaded before the plan belongs to
// the first, whose weights those on the same device read as well.
struct loaded_model {
    struct model_spec spec;
    uint32_t copy;                                     // its number
    struct loaded_device *choices[OPTION_DEVICES_MAX]; // devices of which the copies have one each
    uint32_t choice_count;
    struct loaded_device *device;      // once planned; of several ranks on GPUs: choices[0]
    struct loaded_ranks ranks;         // on GPUs, on choices[0], choices[1] ...
    const char *rank_names[RANKS_MAX]; // likewise: their labels
    char label[48];                    // its device, or those of its ranks: "cuda:0,1"
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

struct loaded {
    struct device_list devices;
    struct loaded_ranks ranks[RANKS_MAX + 1]; // of the cpu, by their number
    struct arena *arena;                      // of the process: ids, texts, lists
    struct loaded_model *models;              // [model_count], copies counted
    uint32_t model_count;
    uint64_t start_ns; // until a start that stands still is given up; 0: the defaults
};

// Opens the devices that the specs name, each once, and gives each copy of a model its own.
enum status devices_load(struct loaded *loaded, const struct device_settings *settings,
                         const struct model_spec *specs, uint32_t count,
                         struct error *err) MUST_USE;

// After devices_load: opens tokenizers, templates and plans of all models; allocates no tensor.
// A copy that may be on several devices comes on the one with most memory left. Splits the KV
// memory and checks the sum of the plans against the free memory of each device. Prints the sum to
// stderr, the whole plan at level debug or where it does not fit. more: a line of the whole plan
// about other memory of the process, or NULL.
enum status models_plan(struct loaded *loaded, uint32_t port_count, const char *more,
                        struct error *err) MUST_USE;

// The first copy of its model, which may be itself.
static inline struct loaded_model *model_first(struct loaded_model *m)
{
    return m - m->copy;
}

// How many GPUs the model is split over; 1 on a CPU, whose ranks share one device.
uint32_t gpu_count(const struct loaded_model *model);
// Once planned: whether the model, or a rank of it, is on the device.
bool is_on(const struct loaded_model *model, const struct loaded_device *device);

// Loads the weights, with progress on stderr, and opens the engines.
enum status models_load(struct loaded *loaded, struct error *err) MUST_USE;

void loaded_close(struct loaded *loaded);

// What the model takes of its device by the plan, keys and values at the end where it has any.
struct device_need memory_planned(const struct loaded_model *model);

// For inspect: the plan of one model as text.
void plan_print(FILE *out, const struct loaded_model *model);
