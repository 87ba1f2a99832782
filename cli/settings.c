// SPDX-License-Identifier: Apache-2.0
// The option tables and the parser of model arguments; see settings.h. Options have vLLM's names if
// their meaning is the same. Main thread.
#include "cli/settings.h"

#include "base/file.h"
#include "cli/hub/name.h"
#include "cluster/nodes.h"
#include "scheduler/port.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

// number of rows at the end of model_rows that are only useful for serving
enum { SERVING_ROWS = 18 };

#define AT(type, field) offsetof(struct type, field)

// clang-format off: a row is easier to read in few lines
static const struct option_row model_rows[] = {
    {"device", OPTION_DEVICES, AT(model_settings, device), DEVICE_CUDA, 63,
     {"auto", "cpu", "cuda", "simt"}, "auto",
     "where to compute; auto: a GPU if there is one, else the CPU; simt: the emulator for tests; "
     "numbers: the GPUs that models and copies are spread over (after a folder: "
     "device=cuda:0\\,1)"},
    {"dtype", OPTION_CHOICE, AT(model_settings, dtype), 0, 0,
     {"auto", "float32", "bfloat16", "float16", "int8", "int4", "fp8"}, "auto: the checkpoint's",
     "type of the weights; int8, int4 and fp8: quantized while loading, fp8 on a GPU only"},
    {"kv-cache-dtype", OPTION_CHOICE, AT(model_settings, kv_cache_dtype), 0, 0,
     {"auto", "float32", "bfloat16", "float16", "int8", "fp8", "fp8_e4m3"},
     "auto: that of the weights",
     "type of keys and values; int8 on a CPU only; fp8 (the same as fp8_e4m3) on a GPU only"},
    {"max-model-len", OPTION_COUNT, AT(model_settings, max_model_len), 0, 16777216, {0},
     "0: the checkpoint's", "most tokens of a sequence, prompt and output together"},
    {"max-num-seqs", OPTION_COUNT, AT(model_settings, max_num_seqs), 0, 4096, {0}, "0: 256",
     "most sequences computed at a time"},
    {"max-num-batched-tokens", OPTION_COUNT, AT(model_settings, max_num_batched_tokens), 0,
     1048576, {0},
     "0: 256 on a CPU (512 with 8 threads or more), else 2048; the minimum if that is more",
     "most tokens of a step, at least 4/3 of max-num-seqs; for encoders it is raised to their "
     "longest input"},
    {"block-size", OPTION_COUNT, AT(model_settings, block_size), 0, 64, {0}, "0: 64",
     "tokens per KV block: 16, 32 or 64"},
    {"kv-cache-memory", OPTION_BYTES, AT(model_settings, kv_cache_memory), 0, 0x1p50, {0},
     "0: on a CPU 1G, or one sequence of the maximum length if that is more; on a GPU the memory "
     "that the plan leaves free",
     "bytes for keys and values; the default is limited to a quarter of a CPU's free memory for "
     "all models together; suffixes K, M, G, T"},
    {"tensor-parallel-size", OPTION_COUNT, AT(model_settings, tensor_parallel_size), 1, RANKS_MAX,
     {0}, "1", "ranks that a decoder's weights are split over; on a CPU each has a part of the "
     "threads"},
    {"chat-template", OPTION_TEXT, AT(model_settings, chat_template), 0, 0, {0}, "the model's",
     "file with the chat template"},
    {"rerank-prompt", OPTION_CHOICE, AT(model_settings, rerank_prompt), 0, 0,
     {"auto", "pair", "yes-no", "mxbai", "bge-gemma"}, "auto: by the files of the model",
     "input of a reranker that is a decoder: a text pair, or the prompt of Qwen3-Reranker, "
     "mxbai-rerank-v2 or bge-reranker-v2-gemma"},
    {"special-tokens-in-text", OPTION_SWITCH, AT(model_settings, special_tokens_in_text), 0, 0, {0},
     "on for prompts of completions, off for embedders and rerankers",
     "read markers such as [SEP] in inputs of embedders and prompts of completions as special "
     "tokens"},
    {"matryoshka", OPTION_FLAG, AT(model_settings, matryoshka), 0, 0, {0}, "off",
     "allow requests to set dimensions: the model was trained so that the first values of its "
     "vectors can be used alone"},
    {"default-prompt-name", OPTION_TEXT, AT(model_settings, default_prompt_name), 0, 0, {0},
     "the model's own, if any",
     "name of the prompt in config_sentence_transformers.json to put before texts that name none; "
     "'': none"},
    {"load-format", OPTION_CHOICE, AT(model_settings, load_format), 0, 0, {"auto", "dummy"},
     "auto", "dummy: random weights; only config.json is needed"},
    // SERVING_ROWS: useful if many requests, or several models, share a device.
    {"served-model-name", OPTION_TEXTS, AT(model_settings, served_model_names), 0, 0, {0},
     "NAME, or the name of the folder",
     "name by which clients know the model; may be repeated: answers show the first"},
    {"data-parallel-size", OPTION_COUNT, AT(model_settings, data_parallel_size), 1, COPIES_MAX,
     {0}, "1",
     "copies of the model served under its name, each on its own GPU; on a CPU they share weights "
     "and threads"},
    {"kv-share", OPTION_REAL, AT(model_settings, kv_share), 0.001, 1000, {0}, "1",
     "weight of this model when the memory for keys and values is split"},
    {"step-stretch", OPTION_REAL, AT(model_settings, step_stretch), 0, 1000, {0},
     "2.5 on a CPU, else 0",
     "largest step time with prompts, as a multiple of the median step; up to 1: no limit"},
    {"generation-config", OPTION_TEXT, AT(model_settings, generation_config), 0, 0, {0}, "none",
     "defaults of requests: auto (the model's generation_config.json), or a file in its format: "
     "temperature, top_p, top_k, min_p, repetition_penalty, max_new_tokens (for max_tokens)"},
    {"max-queued-requests", OPTION_COUNT, AT(model_settings, max_queued_requests), 1, 65536, {0},
     "2048", "most requests accepted and not yet finished; further ones get 503 or 529"},
    {"max-queued-tokens", OPTION_COUNT, AT(model_settings, max_queued_tokens), 0, 1073741824, {0},
     "0: 2097152, or two full contexts if that is more",
     "most prompt tokens of the requests accepted and not yet finished"},
    {"max-n", OPTION_COUNT, AT(model_settings, max_n), 1, 128, {0}, "8",
     "most choices per prompt (n)"},
    {"max-prompts", OPTION_COUNT, AT(model_settings, max_prompts), 1, 256, {0}, "128",
     "most choices of all prompts of a completions request together, if that is more than max-n"},
    {"max-client-batch-size", OPTION_COUNT, AT(model_settings, max_client_batch_size), 0, 65536,
     {0},
     "0: 2048 for an embedder, 1000 for a reranker",
     "most inputs or documents of a request"},
    {"penalty-rows", OPTION_COUNT, AT(model_settings, penalty_rows), 0, 4096, {0},
     "0: 64, or all if generation-config has a repetition penalty",
     "most sequences with penalties computed at a time, each with two bytes per token of the "
     "vocabulary; further ones wait"},
    {"max-result-bytes", OPTION_BYTES, AT(model_settings, max_result_bytes), 1024, 0x1p40, {0},
     "256M",
     "most bytes of vectors and scores of the requests accepted and not yet finished; suffixes K, "
     "M, G, T"},
    {"enable-prefix-caching", OPTION_FLAG, AT(model_settings, enable_prefix_caching), 0, 0, {0},
     "on", "reuse keys and values of equal prompt prefixes"},
    {"prefix-cache-scope", OPTION_CHOICE, AT(model_settings, prefix_cache_scope), 0, 0,
     {"all", "key"}, "key",
     "whose prompts a request may reuse: key: those of its own API key, so that no client learns "
     "what others send; all: those of all keys"},
    {"kv-events", OPTION_TEXT, AT(model_settings, kv_events), 0, 0, {0}, "off",
     "[HOST:]PORT on which changes of the prefix cache are published in vLLM's format (ZeroMQ); "
     "they contain prompts; without HOST on 127.0.0.1, *: on all addresses; copies use the "
     "following ports"},
    {"kv-events-replay", OPTION_TEXT, AT(model_settings, kv_events_replay), 0, 0, {0}, "off",
     "[HOST:]PORT at which readers of kv-events request earlier batches again"},
    {"kv-events-topic", OPTION_TEXT, AT(model_settings, kv_events_topic), 0, 0, {0}, "empty",
     "topic of the messages of kv-events"},
    {"tool-call-grammar", OPTION_FLAG, AT(model_settings, tool_call_grammar), 0, 0, {0}, "on",
     "where the model may call tools, hold each call to its form from its marker on; off: only "
     "forced and strict calls, and answers with a form"},
};
// clang-format on
const struct option_table model_options_table = {model_rows,
                                                 sizeof model_rows / sizeof *model_rows};
const struct option_table session_options_table = {
    model_rows, sizeof model_rows / sizeof *model_rows - SERVING_ROWS};

// clang-format off: a row is easier to read in few lines
static const struct option_row device_rows[] = {
    {"device-library", OPTION_TEXT, AT(device_settings, device_library), 0, 0, {0},
     "next to the executable, then ../lib/weft from there", "shared library of the device"},
    {"device-cache", OPTION_TEXT, AT(device_settings, device_cache), 0, 0, {0},
     "none: measured at each start",
     "folder that stores the measured choice of a GPU's algorithms"},
    {"exact", OPTION_SWITCH, AT(device_settings, exact), 0, 0, {0},
     "on for cpu and simt, off for cuda", "identical results, independent of other requests"},
    {"overlap-kernels", OPTION_SWITCH, AT(device_settings, overlap_kernels), 0, 0, {0}, "on",
     "start a GPU kernel before the previous one has ended"},
    {"threads", OPTION_COUNT, AT(device_settings, threads), 0, 1024, {0},
     "0: the cores that the process may use", "compute threads of the CPU device"},
    {"log-level", OPTION_CHOICE, AT(device_settings, log_level), 0, 0,
     {"error", "warning", "info", "debug"}, "info for serve, else warning",
     "which lines are written to stderr; -v is debug, which includes the complete memory plan"},
    {"log-format", OPTION_CHOICE, AT(device_settings, log_format), 0, 0, {"text", "json"}, "text",
     "format of the lines on stderr; json: one object per line"},
};
// clang-format on
const struct option_table device_options_table = {device_rows,
                                                  sizeof device_rows / sizeof *device_rows};

// clang-format off: a row is easier to read in few lines
static const struct option_row serve_rows[] = {
    {"config", OPTION_TEXT, AT(serve_settings, config), 0, 0, {0}, "none",
     "JSON file with the names of options as keys, and a list of models under the key models; the "
     "command line has precedence"},
    {"host", OPTION_TEXT, AT(serve_settings, host), 0, 0, {0}, "127.0.0.1", "address to listen on"},
    {"port", OPTION_COUNT, AT(serve_settings, port), 0, 65535, {0}, "8000",
     "TCP port; 0: any free one"},
    {"api-key", OPTION_TEXTS, AT(serve_settings, api_keys), 0, 0, {0},
     "WEFT_API_KEY, else one is generated on loopback", "key that clients send; may be repeated"},
    {"api-key-file", OPTION_TEXT, AT(serve_settings, api_key_file), 0, 0, {0}, "none",
     "file with one key per line; # begins a comment line"},
    {"admin-key", OPTION_TEXTS, AT(serve_settings, admin_keys), 0, 0, {0},
     "none: models are loaded at startup only",
     "key that may also load and unload models (/v1/models/load, /v1/models/unload); may be "
     "repeated"},
    {"allowed-origins", OPTION_TEXTS, AT(serve_settings, allowed_origins), 0, 0, {0}, "none",
     "origin whose web pages may read answers (CORS), such as https://app.example; several "
     "separated by commas; *: all; may be repeated"},
    {"http-threads", OPTION_COUNT, AT(serve_settings, http_threads), 1, 64, {0}, "1",
     "event loops, each on its own thread"},
    {"ssl-certfile", OPTION_TEXT, AT(serve_settings, ssl_certfile), 0, 0, {0}, "no TLS",
     "certificate chain (PEM)"},
    {"ssl-keyfile", OPTION_TEXT, AT(serve_settings, ssl_keyfile), 0, 0, {0}, "no TLS",
     "private key (PEM)"},
    {"ssl-ciphers", OPTION_TEXT, AT(serve_settings, ssl_ciphers), 0, 0, {0},
     "ECDHE with AES-GCM or ChaCha20",
     "cipher suites of TLS 1.2 as OpenSSL's list, for example ECDHE-RSA-AES128-GCM-SHA256; those "
     "of TLS 1.3 are always on"},
    {"http2", OPTION_CHOICE, AT(serve_settings, http2), 0, 0, {"on", "off", "auto"},
     "auto: on loopback only", "serve HTTP/2 in addition to HTTP/1.1"},
    {"ui", OPTION_FLAG, AT(serve_settings, ui), 0, 0, {0}, "on", "serve the web page at /"},
    {"core-dumps", OPTION_SWITCH, AT(serve_settings, core_dumps), 0, 0, {0},
     "off if a key is given", "let the kernel write the memory, with prompts, to a file after a "
     "crash, and let debuggers of the same user attach"},
    {"shutdown-delay", OPTION_REAL, AT(serve_settings, shutdown_delay), 0, 3600, {0}, "0",
     "seconds after SIGTERM during which requests are still accepted while /ready is 503, so that "
     "load balancers send them elsewhere; shutdown-timeout begins afterwards"},
    {"shutdown-timeout", OPTION_REAL, AT(serve_settings, shutdown_timeout), 0, 86400, {0}, "30",
     "seconds that accepted requests may take after SIGTERM"},
    {"max-connections", OPTION_COUNT, AT(serve_settings, connections_max), 1, 1048576, {0}, "16384",
     "most open connections; fewer if ulimit -n allows fewer"},
    {"payload-limit", OPTION_BYTES, AT(serve_settings, payload_limit), 1024, 0x1p30, {0}, "32M",
     "most bytes of a request body; larger ones get 413; suffixes K, M, G"},
    {"max-body-memory", OPTION_BYTES, AT(serve_settings, max_body_memory), 0x1p26, 0x1p50, {0},
     "8 bodies of payload-limit, or 2 % of the free memory if that is more",
     "most bytes of the bodies of all requests in progress; above it the connection that holds "
     "most is closed, those without a valid key first; suffixes K, M, G, T"},
    {"nnodes", OPTION_COUNT, AT(serve_settings, nnodes), 1, NODES_MAX, {0},
     "PET_NNODES, WORLD_SIZE, LWS_GROUP_SIZE, SLURM_STEP_NUM_TASKS, OMPI_COMM_WORLD_SIZE or "
     "PMI_SIZE, else 1",
     "number of processes (nodes) that hold ranks of the models with tensor-parallel-size; all get "
     "the same options except node-rank"},
    {"node-rank", OPTION_COUNT, AT(serve_settings, node_rank), 0, NODE_RANK_MAX, {0},
     "PET_NODE_RANK, RANK, LWS_WORKER_INDEX, SLURM_PROCID, OMPI_COMM_WORLD_RANK or PMI_RANK",
     "number of this process, below nnodes; 0 serves HTTP, the others compute for it"},
    {"master-addr", OPTION_TEXT, AT(serve_settings, master_addr), 0, 0, {0},
     "PET_MASTER_ADDR, MASTER_ADDR, LWS_LEADER_ADDRESS or the first of SLURM_STEP_NODELIST, else "
     "127.0.0.1",
     "address of node 0 to which the other nodes connect"},
    {"master-port", OPTION_COUNT, AT(serve_settings, master_port), 1, 65535, {0},
     "PET_MASTER_PORT or MASTER_PORT, else 29501", "TCP port of node 0 for the other nodes"},
    {"cluster-secret-file", OPTION_TEXT, AT(serve_settings, cluster_secret_file), 0, 0, {0}, "none",
     "file with the secret by which nodes encrypt their connections: 64 hexadecimal digits, equal "
     "on all nodes; required unless master-addr is a loopback address"},
    {"heartbeat-timeout", OPTION_REAL, AT(serve_settings, heartbeat_timeout), 1, 3600, {0}, "10",
     "seconds without a response after which a node is lost"},
};
// clang-format on
const struct option_table serve_options_table = {serve_rows,
                                                 sizeof serve_rows / sizeof *serve_rows};

void model_settings_init(struct model_settings *s)
{
    *s = (struct model_settings){.tensor_parallel_size = 1,
                                 .data_parallel_size = 1,
                                 .kv_share = 1,
                                 .step_stretch = -1,
                                 .special_tokens_in_text = -1,
                                 .max_queued_requests = 2048,
                                 .max_n = 8,
                                 .max_prompts = 128,
                                 .max_result_bytes = 256u << 20,
                                 .enable_prefix_caching = true,
                                 .tool_call_grammar = true,
                                 .prefix_cache_scope = 1};
}

bool has_sampling_defaults(const struct model_settings *s)
{
    return s->generation_config && strcmp(s->generation_config, "none") != 0;
}

void device_settings_init(struct device_settings *s)
{
    *s = (struct device_settings){.exact = -1, .overlap_kernels = 1, .log_level = 2};
}

void serve_settings_init(struct serve_settings *s)
{
    *s = (struct serve_settings){.host = "127.0.0.1",
                                 .port = 8000,
                                 .http_threads = 1,
                                 .http2 = 2,
                                 .ui = true,
                                 .core_dumps = -1,
                                 .shutdown_timeout = 30,
                                 .connections_max = 16384,
                                 .payload_limit = 32u << 20,
                                 .node_rank = NODE_RANK_UNSET,
                                 .heartbeat_timeout = 10};
}

// Returns the part up to the next comma without a backslash before it, and removes it from *rest;
// NULL after the last part. Unescapes in place.
static char *part_next(char **rest)
{
    char *start = *rest;
    if (!start)
        return NULL;
    char *to = start;
    for (char *at = start;; at++) {
        if (at[0] == '\\' && at[1] == ',')
            at++;
        else if (*at == ',' || *at == '\0') {
            *rest = *at == ',' ? at + 1 : NULL;
            *to = '\0';
            return start;
        }
        *to++ = *at;
    }
}

// Returns the length of a file's name without -00001-of-00003, the number of a part.
static size_t without_part(const char *name, size_t bytes)
{
    static const size_t tail = sizeof "-00001-of-00003" - 1;
    unsigned part, parts;
    int used = 0;
    bool numbered =
        bytes > tail && sscanf(name + bytes - tail, "-%5u-of-%5u%n", &part, &parts, &used) == 2;
    return numbered && (size_t)used == tail ? bytes - tail : bytes;
}

// Returns the last part of the path, without the ending of a GGUF file; for "." and "..", the name
// of the folder that they refer to.
static const char *last_part(const char *folder, struct arena *arena)
{
    size_t end = strlen(folder);
    while (end > 1 && folder[end - 1] == '/')
        end--;
    size_t start = end;
    while (start > 0 && folder[start - 1] != '/')
        start--;
    static const char gguf[] = ".gguf";
    size_t tail = sizeof gguf - 1;
    if (end - start > tail && memcmp(folder + end - tail, gguf, tail) == 0)
        end = start + without_part(folder + start, end - start - tail);
    const char *part = arena_copy(arena, text_span(folder + start, end - start)).at;
    char resolved[PATH_MAX];
    bool relative = strcmp(part, ".") == 0 || strcmp(part, "..") == 0;
    if (!relative || !realpath(folder, resolved))
        return part;
    return arena_copy(arena, text_of(strrchr(resolved, '/') + 1)).at;
}

const char *model_folder_find(const char *name, struct arena *arena)
{
    char relative[NAME_MAX + 64], path[PATH_MAX];
    struct stat about;
    if (strchr(name, '/') || strlen(name) > NAME_MAX || stat(name, &about) == 0)
        return name;
    snprintf(relative, sizeof relative, "../share/weft/models/%s", name);
    if (!file_of_program(path, sizeof path, relative) || stat(path, &about) != 0 ||
        !S_ISDIR(about.st_mode))
        return name;
    return arena_copy(arena, text_of(path)).at;
}

// Returns the name under which a model is served if none is given.
static const char *name_default(const char *folder, struct arena *arena)
{
    struct hub_name hub;
    if (!hub_name_is(&hub, folder))
        return last_part(folder, arena);
    return arena_format(arena, "%s%s%s", hub.repo, hub.quant[0] != '\0' ? ":" : "", hub.quant).at;
}

// Sets the names of the model. named: the NAME before its folder, or NULL.
static enum status names_settle(struct model_spec *spec, const char *named, struct arena *arena,
                                struct error *err)
{
    const struct texts *given = &spec->settings.served_model_names;
    spec->names.at = arena_alloc(arena, (given->count + 1) * sizeof *spec->names.at);
    for (uint32_t i = 0; i < given->count; i++) {
        if (given->at[i][0] == '\0')
            return error_set(err, STATUS_INVALID, "model '%s': served-model-name must not be empty",
                             spec->id);
        spec->names.at[spec->names.count++] = given->at[i];
    }
    if (named || given->count == 0)
        spec->names.at[spec->names.count++] = spec->id;
    spec->id = spec->names.at[0];
    return STATUS_OK;
}

uint32_t model_spec_ranks(const struct model_spec *spec)
{
    return spec->settings.tensor_parallel_size / (spec->nodes > 1 ? spec->nodes : 1);
}

enum status model_spec_parse(struct model_spec *out, const char *text,
                             const struct model_settings *all, struct arena *arena,
                             struct error *err)
{
    *out = (struct model_spec){.settings = *all};
    char *rest = arena_alloc(arena, strlen(text) + 1);
    memcpy(rest, text, strlen(text) + 1);
    char *folder = part_next(&rest);
    char *equals = strchr(folder, '=');
    if (equals) {
        *equals = '\0';
        out->id = folder;
        folder = equals + 1;
    }
    const char *named = out->id;
    if (!out->id)
        out->id = name_default(folder, arena);
    if (*folder == '\0' || *out->id == '\0')
        return error_set(err, STATUS_INVALID,
                         "'%s' is not [NAME=]MODEL[,option=value]...: it names no folder", text);
    out->folder = model_folder_find(folder, arena);
    for (char *part = part_next(&rest); part; part = part_next(&rest)) {
        char *value = strchr(part, '=');
        if (value)
            *value++ = '\0';
        enum status status =
            option_assign(&model_options_table, &out->settings, part, value, arena, err);
        if (status != STATUS_OK) {
            error_prefix(err, "model '%s'", out->id);
            return status;
        }
    }
    return names_settle(out, named, arena, err);
}

enum status model_spec_make(struct model_spec *out, const char *name, const char *folder,
                            const struct model_settings *settings, struct arena *arena,
                            struct error *err)
{
    *out = (struct model_spec){.settings = *settings, .id = name};
    if (!name)
        out->id = name_default(folder, arena);
    if (*folder == '\0' || *out->id == '\0')
        return error_set(err, STATUS_INVALID, "a model has an empty name or path");
    out->folder = model_folder_find(folder, arena);
    return names_settle(out, name, arena, err);
}

enum status model_spec_find(struct model_spec *out, const char *text,
                            const struct model_settings *all, struct arena *arena,
                            struct error *err)
{
    struct stat about;
    if (*text == '\0' || stat(text, &about) != 0 ||
        (!S_ISDIR(about.st_mode) && !S_ISREG(about.st_mode)))
        return model_spec_parse(out, text, all, arena, err);
    *out = (struct model_spec){.settings = *all, .folder = text, .id = last_part(text, arena)};
    return STATUS_OK;
}

void model_settings_to_options(const struct model_settings *s, struct model_options *out)
{
    *out = (struct model_options){.dtype = s->dtype - 1, // auto is 0 in the option, -1 in the model
                                  .kv_dtype = s->kv_cache_dtype > DTYPE_KV_COUNT // fp8_e4m3
                                                  ? DTYPE_E4M3
                                                  : s->kv_cache_dtype - 1,
                                  .max_model_len = s->max_model_len,
                                  .max_num_seqs = s->max_num_seqs,
                                  .max_num_batched_tokens = s->max_num_batched_tokens,
                                  .block_size = s->block_size,
                                  .load_dummy = s->load_format != 0,
                                  .penalty_rows = s->penalty_rows > 0 ? (int)s->penalty_rows : -1,
                                  .rerank = s->rerank_prompt};
}
