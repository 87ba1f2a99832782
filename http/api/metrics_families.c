// SPDX-License-Identifier: Apache-2.0
// The table of metric families: type and # HELP text of every name on /metrics. Model metrics are
// listed without prefix (weft_, vllm:, te_); a name has the same meaning with each prefix.
#include "http/api/metrics.h"

#include <string.h>

struct family {
    const char *name, *type, *help;
};

static const struct family families[] = {
    // HTTP and process metrics, with their full names.
    {"http_requests_total", "counter",
     "Requests by route, method and class of status; 499: the client left before the end."},
    {"http_request_duration_seconds", "histogram",
     "Time from the first byte of a request to the last of its answer."},
    {"http_request_size_bytes", "summary", "Sizes of request bodies."},
    {"http_response_size_bytes", "summary", "Sizes of answers."},
    {"weft_connections", "gauge", "Connections that are open."},
    {"weft_connections_accepted_total", "counter", "Connections accepted."},
    {"weft_clients_gone_total", "counter", "Clients that left before their answer was complete."},
    {"weft_requests_orphaned", "gauge",
     "Requests whose client left and that the engine still holds."},
    {"weft_quiet_connections_closed_total", "counter",
     "Connections closed before they sent a complete request, because the limit was reached."},
    {"weft_readers_stalled_total", "counter",
     "Requests cancelled because their client read nothing for the stall timeout."},
    {"weft_reset_floods_total", "counter",
     "HTTP/2 connections closed because they exceeded the budget of resets."},
    {"weft_body_bytes", "gauge", "Memory of the bodies of requests in progress."},
    {"weft_body_floods_total", "counter",
     "Connections closed because they exceeded the budget of bodies."},
    {"weft_client_retries_total", "counter", "Requests that their client had sent before."},
    {"weft_fields_ignored_total", "counter", "Unknown request fields that were ignored."},
    {"weft_grammars_compiled_total", "counter",
     "Grammars compiled for structured output, refused ones included."},
    {"weft_grammars_compile_seconds_total", "counter", "Time that compiling grammars took."},
    {"weft_grammars_hits_total", "counter", "Requests whose grammar was known."},
    {"weft_grammars_refused_total", "counter", "Requests refused because of their grammar."},
    {"weft_grammars_busy_total", "counter",
     "Grammars compiled but too large for the memory that grammars in use leave."},
    {"weft_grammars_cached", "gauge", "Entries of the grammar cache, refused grammars included."},
    {"weft_grammars_cached_bytes", "gauge", "Bytes of the grammars in the cache."},
    {"weft_grammars_used_bytes", "gauge", "Bytes of the grammars in use."},
    {"weft_log_lines_dropped_total", "counter",
     "Log lines dropped because the reader of stderr was too slow."},
    {"process_resident_memory_bytes", "gauge", "Resident memory of the process."},
    {"process_cpu_seconds_total", "counter", "Processor time of the process, user and system."},
    {"process_open_fds", "gauge", "Open file descriptors of the process."},
    {"process_start_time_seconds", "gauge", "When the process started, in seconds of Unix time."},

    // Engines.
    {"steps_total", "counter", "Steps launched."},
    {"steps_decode_only_total", "counter", "Steps launched without a prompt token."},
    {"rows_total", "counter", "Sequences computed, summed over steps."},
    {"tokens_computed_total", "counter", "Tokens that went through the model."},
    {"prompt_tokens_total", "counter", "Tokens of admitted prompts, cached ones included."},
    {"prompt_tokens_computed_total", "counter",
     "Tokens of prompts that went through the model, again after a preemption."},
    {"generation_tokens_total", "counter", "Tokens generated."},
    {"prefix_cache_queries_total", "counter", "Prompt tokens looked up in the prefix cache."},
    {"prefix_cache_hits_total", "counter", "Prompt tokens found in the prefix cache."},
    {"gpu_prefix_cache_queries_total", "counter",
     "Prompt tokens looked up in the prefix cache (an older name)."},
    {"gpu_prefix_cache_hits_total", "counter",
     "Prompt tokens found in the prefix cache (an older name)."},
    {"preemptions_total", "counter",
     "Running sequences whose KV blocks were freed for others, parked ones included."},
    {"num_preemptions_total", "counter",
     "Running sequences whose KV blocks were freed for others, parked ones included."},
    {"pauses_total", "counter",
     "Times that a sequence was paused because its client reads slowly."},
    {"parked_total", "counter",
     "Sequences that lost their slot because their client reads slowly."},
    {"rows_after_cancel_total", "counter", "Rows computed for requests that were cancelled."},
    {"steps_masked_total", "counter", "Steps with a choice that has a grammar."},
    {"masks_alone_total", "counter",
     "Rounds of masks without a step, because no row could be computed without its mask."},
    {"mask_waits_total", "counter",
     "Steps that waited for masks, and rounds of masks without a step; other steps never wait."},
    {"mask_wait_seconds_total", "counter",
     "Seconds that steps waited for masks after their launch."},
    {"mask_rows_total", "counter", "Rows of steps that have a grammar."},
    {"masks_postponed_total", "counter", "Rows repeated because other masks used up the step."},
    {"masks_computed_total", "counter", "Masks computed, each for one state of a grammar."},
    {"masks_reused_total", "counter", "Masks found in the cache of their grammar."},
    {"masks_forgotten_total", "counter",
     "Times that the memory for the masks of a grammar was full."},
    {"mask_caches", "gauge", "Grammars with a cache of masks."},
    {"mask_cache_bytes", "gauge", "Memory of the caches of masks."},
    {"grammars_stuck_total", "counter",
     "Choices that ended because no token of the model fits their grammar."},
    {"grammars_over_total", "counter",
     "Choices that ended because a mask took too much work or memory."},
    {"grammars_crowded_total", "counter",
     "Choices that ended because other answers used the memory for a mask."},
    {"grammars_given_up_total", "counter",
     "Answers that went on without the grammar of their optional calls, at such a limit."},
    {"requests_submitted_total", "counter", "Requests submitted to the engine."},
    {"requests_refused_total", "counter", "Requests refused because a queue was full."},
    {"finished_total", "counter", "Choices and pooling requests that ended, by reason."},
    {"requests_finished_total", "counter",
     "Requests that a model finished, by route and reason: of several choices' reasons, the last "
     "in the order stop, length, abort, error."},
    {"request_success_total", "counter", "Choices that ended, by reason."},
    {"sequences_running", "gauge", "Sequences that are resident on the device."},
    {"sequences_waiting", "gauge", "Sequences that wait for a slot on the device."},
    {"sequences_parked", "gauge", "Sequences without a slot because their client reads slowly."},
    {"num_requests_running", "gauge", "Sequences that are resident on the device."},
    {"num_requests_waiting", "gauge", "Sequences that wait for a slot on the device."},
    {"kv_blocks", "gauge", "Blocks for keys and values."},
    {"kv_blocks_used", "gauge", "Blocks that sequences hold."},
    {"kv_blocks_cached", "gauge", "Blocks that no sequence holds and the prefix cache keeps."},
    {"kv_cache_usage_perc", "gauge", "Share of the blocks that sequences hold, from 0 to 1."},
    {"gpu_cache_usage_perc", "gauge",
     "Share of the blocks that sequences hold, from 0 to 1 (an older name)."},
    {"cache_config_info", "gauge", "Block size and number of blocks, as labels; always 1."},
    {"model_info", "gauge",
     "Model and device of the engine, as labels; always 1. For encoders, the "
     "labels of the KV cache are empty."},
    {"model_memory_bytes", "gauge",
     "Device memory that the engine's model was planned with, by part; a copy that reads another's "
     "weights has none."},
    {"kv_events_lost_total", "counter",
     "KV events not published, because the engine produced them too fast."},
    {"engine_failed", "gauge", "1 once the engine's device has failed."},
    {"step_rows", "histogram", "Sequences of a step."},
    {"step_tokens", "histogram", "Tokens of a step."},
    {"iteration_tokens_total", "histogram", "Tokens of a step."},

    // Requests.
    {"time_to_first_token_seconds", "histogram", "From the request's arrival to its first token."},
    {"inter_token_latency_seconds", "histogram", "Between two tokens of a choice."},
    {"time_per_output_token_seconds", "histogram",
     "Between two tokens of a choice (an older name)."},
    {"request_time_per_output_token_seconds", "histogram",
     "Mean time between the tokens of a request."},
    {"e2e_request_latency_seconds", "histogram", "From the request's arrival to its last token."},
    {"request_queue_time_seconds", "histogram", "From the submission to the first step."},
    {"request_inference_time_seconds", "histogram", "From the first step to the last token."},
    {"request_prefill_time_seconds", "histogram", "From the first step to the first token."},
    {"request_decode_time_seconds", "histogram", "From the first token to the last."},
    {"request_tokenization_time_seconds", "histogram", "Time for template and tokenizer."},
    {"request_prompt_tokens", "histogram", "Prompt tokens of a request."},
    {"request_generation_tokens", "histogram", "Tokens generated for a choice."},
    {"request_max_num_generation_tokens", "histogram",
     "Most tokens generated for a choice of a request."},
    {"request_params_n", "histogram", "Choices requested."},
    {"request_params_max_tokens", "histogram", "Token limits of requests, cut to the window."},
    {"request_prefill_kv_computed_tokens", "histogram",
     "Prompt tokens that the prefix cache did not have."},
    {"request_num_preemptions", "histogram", "Preemptions of a request."},

    // Names that text-embeddings-inference uses.
    {"request_count", "counter", "Pooling requests that ended."},
    {"request_success", "counter", "Pooling requests that succeeded."},
    {"request_failure", "counter", "Pooling requests that failed or were cancelled."},
    {"queue_size", "gauge", "Sequences that wait for a slot on the device."},
    {"batch_next_size", "histogram", "Sequences of a step."},
    {"batch_next_tokens", "histogram", "Tokens of a step."},
    {"request_duration", "histogram", "Seconds from the request's arrival to its result."},
    {"request_tokenization_duration", "histogram", "Seconds for the tokenizer."},
    {"request_queue_duration", "histogram", "Seconds from the submission to the first step."},
    {"request_inference_duration", "histogram", "Seconds from the first step to the result."},
};

void metrics_end(struct metrics *m)
{
    if (m->filtered)
        m->out->bytes = m->family_at;
    m->filtered = false;
}

static bool family_is_requested(const struct metrics *m, const char *name)
{
    size_t prefix = strlen(m->prefix);
    for (uint32_t i = 0; i < m->name_count; i++) {
        struct text family = m->names[i];
        if (family.bytes >= prefix && memcmp(family.at, m->prefix, prefix) == 0 &&
            text_is(text_span(family.at + prefix, family.bytes - prefix), name))
            return true;
    }
    return m->name_count == 0;
}

void metric_head(struct metrics *m, const char *name)
{
    metrics_end(m); // end the previous family
    m->family_at = m->out->bytes;
    m->filtered = !family_is_requested(m, name);
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        if (strcmp(families[i].name, name) != 0)
            continue;
        json_put_format(m->out, "# HELP %s%s %s\n# TYPE %s%s %s\n", m->prefix, name,
                        families[i].help, m->prefix, name, families[i].type);
        return;
    }
    check(false, "the metric %s has no row in metrics_families.c", name);
}
