// SPDX-License-Identifier: Apache-2.0
// The settings of a process and of one model, with the option tables that fill them.
#pragma once

#include "cli/options.h"
#include "runtime/model/model.h"

enum device_choice { DEVICE_AUTO, DEVICE_CPU, DEVICE_CUDA, DEVICE_SIMT };

struct model_settings {           // given after a folder for one model, or with -- for all
    struct option_devices device; // kind: enum device_choice
    int dtype;                    // index into {auto, float32, bfloat16, float16, int8, int4}
    int kv_cache_dtype; // index into {auto, float32, bfloat16, float16, int8, fp8, fp8_e4m3}
    uint32_t max_model_len, max_num_seqs, max_num_batched_tokens, block_size;
    uint32_t tensor_parallel_size, data_parallel_size;
    uint64_t kv_cache_memory;        // bytes; 0: a share of the free memory
    double kv_share;                 // weight when memory for KV blocks is split among models
    double step_stretch;             // -1: the device's default
    struct texts served_model_names; // names in place of that of the folder
    const char *chat_template;       // file, or NULL
    const char *generation_config;   // "auto", a file, "none" or NULL
    int rerank_prompt;               // 0: auto; else 1 + enum rerank_form
    int special_tokens_in_text;      // -1: on for generators, off for the others
    bool matryoshka;
    const char *default_prompt_name; // "": none; NULL: the model's default
    uint32_t max_queued_requests, max_queued_tokens;
    uint32_t max_n, max_prompts;
    uint32_t penalty_rows;          // 0: depends on the sampling defaults
    uint32_t max_client_batch_size; // 0: depends on the kind of model
    uint64_t max_result_bytes;
    bool enable_prefix_caching;
    bool tool_call_grammar;
    const char *kv_events, *kv_events_replay, *kv_events_topic; // NULL: not given
    int prefix_cache_scope;                                     // index into {all, key}
    int load_format;                                            // index into {auto, dummy}
};

enum { LOAD_FORMAT_DUMMY = 1 };

struct device_settings { // common to all devices
    const char *device_library;
    const char *device_cache; // folder, or NULL
    int exact;                // 1, 0, or -1: the device's default
    int overlap_kernels;      // 1 or 0
    uint32_t threads;         // compute threads of the CPU device; 0: all usable cores
    int log_level;            // enum log_level
    int log_format;           // enum log_format
};

struct serve_settings {
    const char *config; // file, or NULL
    const char *host;
    uint32_t port;
    struct texts api_keys, admin_keys;
    const char *api_key_file;
    struct texts allowed_origins;
    uint32_t http_threads;
    const char *ssl_certfile, *ssl_keyfile, *ssl_ciphers;
    int http2;                               // index into {on, off, auto}
    bool ui;                                 // true: serve the web page at /
    int core_dumps;                          // 1, 0, or -1: off if a key is given
    double shutdown_delay, shutdown_timeout; // seconds
    uint32_t connections_max;
    uint64_t payload_limit;                  // limit of one body in bytes
    uint64_t max_body_memory;                // bytes; 0: derived from the free memory
    uint32_t nnodes, node_rank, master_port; // 0, NODE_RANK_UNSET, 0: not given (cluster/nodes.h)
    const char *master_addr;                 // NULL: not given
    const char *cluster_secret_file;         // file, or NULL
    double heartbeat_timeout;                // seconds
};

void model_settings_init(struct model_settings *s);
// Returns true if generation_config names the model's defaults or a file.
bool has_sampling_defaults(const struct model_settings *s);
void device_settings_init(struct device_settings *s);
void serve_settings_init(struct serve_settings *s);

extern const struct option_table model_options_table;
// The model options without those that are only useful for serving.
extern const struct option_table session_options_table;
extern const struct option_table device_options_table;
extern const struct option_table serve_options_table;

// Returns the folder of an installed built-in model, in the arena, if the name is one and nothing
// has this name in the working directory; otherwise the name itself.
const char *model_folder_find(const char *name, struct arena *arena);

// Parses "[NAME=]FOLDER[,option=value]...". A comma in a path is written "\,"; a path with '=' must
// be preceded by NAME=. If nothing is at FOLDER, it may be the name of a built-in model that is
// installed with the program, or a model of the hub (hub/name.h), which models_fetch turns into a
// path. `all`: the settings for all models, which the options override.
struct model_spec {
    // First of served_model_names, else NAME, else ORG/NAME:QUANT of the hub or the last part of
    // the folder.
    const char *id;
    // All names; the first is id. Empty if model_spec_find found a folder or file.
    struct texts names;
    const char *folder; // path of a folder or GGUF file, or a name of the hub
    struct model_settings settings;
    uint32_t nodes; // processes among which its ranks are divided (cli/group.h); 0: all are here
};
// Returns the number of ranks of a model that are in this process.
uint32_t model_spec_ranks(const struct model_spec *spec);

enum status model_spec_parse(struct model_spec *out, const char *text,
                             const struct model_settings *all, struct arena *arena,
                             struct error *err) MUST_USE;

// Fills a spec whose parts are known. name: NAME, or NULL; folder: as in model_spec_parse.
enum status model_spec_make(struct model_spec *out, const char *name, const char *folder,
                            const struct model_settings *settings, struct arena *arena,
                            struct error *err) MUST_USE;

// Parses the MODEL argument of commands that run one model. If a folder or file with exactly
// this name exists, it is used, even if its name contains commas or equals signs; otherwise the
// argument is parsed like model_spec_parse.
enum status model_spec_find(struct model_spec *out, const char *text,
                            const struct model_settings *all, struct arena *arena,
                            struct error *err) MUST_USE;

// Fills the options of model_plan_open that follow from the settings alone.
void model_settings_to_options(const struct model_settings *s, struct model_options *out);
