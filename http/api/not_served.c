// SPDX-License-Identifier: Apache-2.0
// The table of fields.h: extensions of the OpenAI and Anthropic APIs in vLLM, llama-server,
// SGLang and TGI. The accepted values are those that turn a field off.
#include "http/api/fields.h"

static const struct field_rule every_row[] = {FIELD_NOT_SERVED("*", NULL, NULL)};
static const struct field_rules every_member = FIELD_RULES(every_row, NULL);

static const struct field_rule rows[] = {
    // Form of the text.
    FIELD_NOT_SERVED("guided_whitespace_pattern", "s", NULL),
    FIELD_NOT_SERVED_BUT("grammar", "so", NULL, "use structured_outputs"),
    FIELD_NOT_SERVED("grammar_lazy", "b", "[false]"),
    FIELD_NOT_SERVED("grammar_triggers", "a", "[[]]"),
    FIELD_NOT_SERVED_BUT("json_schema", "so", NULL, "use response_format"),
    FIELD_NOT_SERVED_BUT("regex", "s", NULL, "use structured_outputs"),
    FIELD_NOT_SERVED_BUT("ebnf", "s", NULL, "use structured_outputs"),
    FIELD_NOT_SERVED("structural_tag", "so", NULL),

    // Which tokens can be sampled, and how likely they are.
    FIELD_NOT_SERVED("logits_processors", "a", "[[]]"),
    FIELD_NOT_SERVED("custom_logit_processor", "s", NULL),
    FIELD_NOT_SERVED("length_penalty", "n", "[1]"),
    FIELD_NOT_SERVED("top_a", "n", "[0]"),
    FIELD_NOT_SERVED("typical_p", "n", "[1]"),
    FIELD_NOT_SERVED("top_n_sigma", "n", "[-1,0]"),
    FIELD_NOT_SERVED("xtc_probability", "n", "[0]"),
    FIELD_NOT_SERVED("dry_multiplier", "n", "[0]"),
    FIELD_NOT_SERVED("dynatemp_range", "n", "[0]"),
    FIELD_NOT_SERVED("mirostat", "i", "[0]"),
    FIELD_NOT_SERVED("samplers", "as", NULL),
    FIELD_NOT_SERVED("do_sample", "b", "[true]"),
    FIELD_NOT_SERVED("use_beam_search", "b", "[false]"),
    FIELD_NOT_SERVED("lora", "a", "[[]]"),
    FIELD_NOT_SERVED("lora_path", "sa", NULL),

    // Length and end of the text.
    FIELD_NOT_SERVED_BUT("n_predict", "i", "[-1]", "use max_tokens"),
    FIELD_NOT_SERVED_BUT("max_new_tokens", "i", NULL, "use max_tokens"),
    FIELD_NOT_SERVED_BUT("max_output_tokens", "i", NULL, "use max_tokens"),
    FIELD_NOT_SERVED("min_new_tokens", "i", "[0]"),
    FIELD_NOT_SERVED("stop_regex", "sa", "[[]]"),
    FIELD_NOT_SERVED("no_stop_trim", "b", "[false]"),
    FIELD_NOT_SERVED("spaces_between_special_tokens", "b", "[true]"),

    // Input of the model.
    FIELD_NOT_SERVED_BUT("chat_template", "s", NULL, "the server's own template is used"),
    FIELD_NOT_SERVED("documents", "a", "[[]]"),
    FIELD_NOT_SERVED("truncation_side", "s", NULL),
    FIELD_NOT_SERVED("prompt_embeds", "sa", NULL),

    // Thinking.
    FIELD_NOT_SERVED_BUT("enable_thinking", "b", NULL, "use chat_template_kwargs"),
    FIELD_NOT_SERVED("reasoning_format", "s", "[\"auto\",\"deepseek\"]"),
    FIELD_NOT_SERVED("thinking_forced_open", "b", "[false]"),

    // Further results.
    FIELD_NOT_SERVED("best_of", "i", "[1]"),
    FIELD_NOT_SERVED("n_probs", "i", "[0]"),
    FIELD_NOT_SERVED("prompt_logprobs", "i", NULL),
    FIELD_NOT_SERVED("return_hidden_states", "b", "[false]"),
    FIELD_NOT_SERVED("return_progress", "b", "[false]"),
    FIELD_NOT_SERVED("return_token_ids", "b", "[false]"),
    FIELD_NOT_SERVED("return_tokens", "b", "[false]"),
    FIELD_NOT_SERVED("return_tokens_as_token_ids", "b", "[false]"),
    FIELD_NOT_SERVED("timings_per_token", "b", "[false]"),
    FIELD_NOT_SERVED("priority", "i", "[0]"),

    // Fields of the other API.
    FIELD_NOT_SERVED("functions", "a", "[[]]"),
    FIELD_NOT_SERVED("audio", "o", NULL),
    FIELD_NOT_SERVED("modalities", "a", "[[\"text\"]]"),
    FIELD_NOT_SERVED("web_search_options", "o", NULL),
    FIELD_NOT_SERVED("moderation", NULL, NULL),
    FIELD_NOT_SERVED("container", "so", NULL),
    FIELD_NOT_SERVED("mcp_servers", "a", "[[]]"),
    FIELD_OBJECT("context_management", every_member),
};

const struct field_rules generation_not_served = FIELD_RULES(rows, NULL);
