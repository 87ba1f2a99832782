// SPDX-License-Identifier: Apache-2.0
// The dialect of every chat template, and a round trip: an assistant message with reasoning, text
// and tool calls is rendered by the template and read as the same message, under any cuts. The
// templates are those of the shared data, if present, and those of recorded/.
#include "base/arena.h"
#include "runtime/text/chat.h"
#include "tests/runtime/dialect_rig.h"
#include "tests/assets.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { NOW = 1752148800, RANDOM_CUTS = 100 };

enum row_flag {
    NO_CALLS = 1,   // the template renders no calls, or cannot under the sandbox's rules
    ONE_CALL = 2,   // at most one call
    AS_STRING = 4,  // it expects the arguments as a string
    FLAT = 8,       // it renders nested values as something other than JSON
    NO_TOOLS = 16,  // it cannot render the list of tools
    HAS_TEXT = 32,  // it renders text next to calls
    HAS_THINK = 64, // it renders reasoning next to calls
    NO_NULL = 128,  // it omits null
    // another message follows, because the last one is rendered as an unfinished reply
    FOLLOWED = 512,
    BEGUN = 256, // the prompt opens the reasoning
};

// head: text before the reply; tail: text after it.
static const struct row {
    const char *file, *dialect, *reasoning, *head, *tail;
    unsigned flags;
} rows[] = {
    {"Apertus-8B-Instruct.jinja", "apertus", "apertus", "<|assistant_start|>", "<|assistant_end|>",
     HAS_TEXT},
    {"Apriel-1.6-15b-Thinker-fixed.jinja", "apriel", "apriel", "<|begin_assistant|>\n", "\n<|end|>",
     HAS_TEXT | HAS_THINK | BEGUN},
    {"ByteDance-Seed-OSS.jinja", "seed", "seed", "<seed:bos>assistant\n", "<seed:eos>",
     HAS_TEXT | HAS_THINK},
    {"Cohere2MoE.jinja", "command-r7b", "command", "<|CHATBOT_TOKEN|>", "<|END_OF_TURN_TOKEN|>",
     HAS_THINK},
    {"CohereForAI-c4ai-command-r7b-12-2024-tool_use.jinja", "command-r7b", "command",
     "<|CHATBOT_TOKEN|>", "<|END_OF_TURN_TOKEN|>", HAS_THINK},
    {"GLM-4.6.jinja", "glm", "think", "<|assistant|>", "", HAS_TEXT | HAS_THINK},
    {"GigaChat3-10B-A1.8B.jinja", "gigachat", "none", "assistant<|role_sep|>\n", "",
     ONE_CALL | HAS_TEXT},
    {"GigaChat3.1-10B-A1.8B.jinja", "gigachat-3.1", "none", "assistant<|role_sep|>\n", "",
     ONE_CALL | HAS_TEXT},
    {"Kimi-K2-Instruct.jinja", "kimi", "none", "", "", NO_CALLS},
    {"Kimi-K2-Thinking.jinja", "kimi", "think", "", "", NO_CALLS},
    {"LFM2.5-8B-A1B.jinja", "lfm2", "think", "<|im_start|>assistant\n", "<|im_end|>",
     HAS_TEXT | HAS_THINK},
    {"LFM2.5-Instruct.jinja", "lfm2", "think", "<|im_start|>assistant\n", "<|im_end|>", NO_CALLS},
    {"MiniMax-M2.jinja", "minimax-m2", "think", "]~b]ai\n", "[e~[", HAS_TEXT | HAS_THINK},
    {"MiniMax-M3.jinja", "minimax-m3", "minimax-m3", "]~b]ai\n", "[e~[",
     HAS_TEXT | HAS_THINK | NO_NULL},
    {"NVIDIA-Nemotron-3-Nano-30B-A3B-BF16.jinja", "qwen3-coder", "think", "<|im_start|>assistant\n",
     "<|im_end|>", HAS_TEXT | HAS_THINK},
    {"NVIDIA-Nemotron-Nano-v2.jinja", "nemotron", "think", "<SPECIAL_11>Assistant\n",
     "\n<SPECIAL_12>", HAS_TEXT | FOLLOWED},
    {"NousResearch-Hermes-3-Llama-3.1-8B-tool_use.jinja", "hermes", "none",
     "<|im_start|>assistant\n", "<|im_end|>", NO_TOOLS},
    {"Qwen-QwQ-32B.jinja", "hermes", "think", "<|im_start|>assistant\n", "<|im_end|>", HAS_TEXT},
    {"Qwen-Qwen3-0.6B.jinja", "hermes", "think", "<|im_start|>assistant\n", "<|im_end|>",
     HAS_TEXT | HAS_THINK},
    {"Qwen3-Coder.jinja", "qwen3-coder", "none", "<|im_start|>assistant\n", "<|im_end|>", HAS_TEXT},
    {"Reka-Edge.jinja", "hermes", "think", "<sep>assistant: ", "\n\n<sep>", HAS_TEXT | HAS_THINK},
    {"StepFun3.5-Flash.jinja", "qwen3-coder", "think", "<|im_start|>assistant\n", "<|im_end|>",
     HAS_TEXT | HAS_THINK},
    {"deepseek-ai-DeepSeek-R1-Distill-Qwen-32B.jinja", "deepseek-v3", "think",
     "<\xEF\xBD\x9C"
     "Assistant\xEF\xBD\x9C>",
     "<\xEF\xBD\x9C"
     "end",
     0},
    {"deepseek-ai-DeepSeek-V3.1.jinja", "deepseek-v3.1", "think",
     "<\xEF\xBD\x9C"
     "Assistant\xEF\xBD\x9C>",
     "<\xEF\xBD\x9C"
     "end",
     HAS_TEXT},
    {"deepseek-ai-DeepSeek-V4-Flash-0731.jinja", "dsml", "think",
     "<\xEF\xBD\x9C"
     "Assistant\xEF\xBD\x9C>",
     "<\xEF\xBD\x9C"
     "end",
     HAS_TEXT | HAS_THINK},
    {"deepseek-ai-DeepSeek-V4.jinja", "dsml", "think",
     "<\xEF\xBD\x9C"
     "Assistant\xEF\xBD\x9C>",
     "<\xEF\xBD\x9C"
     "end",
     HAS_TEXT | HAS_THINK},
    {"google-gemma-2-2b-it.jinja", "none", "none", "", "", NO_CALLS},
    {"google-gemma-4-31B-it-interleaved.jinja", "gemma", "gemma", "<|turn>model\n", "<turn|>",
     HAS_THINK},
    {"ibm-granite-granite-3.3-2B-Instruct.jinja", "granite", "think", "", "", NO_CALLS},
    {"ibm-granite-granite-4.0.jinja", "hermes", "none", "<|start_of_role|>assistant<|end_of_role|>",
     "<|end_of_text|>", HAS_TEXT},
    {"llama-cpp-deepseek-r1.jinja", "deepseek-v3", "think",
     "<\xEF\xBD\x9C"
     "Assistant\xEF\xBD\x9C>",
     "<\xEF\xBD\x9C"
     "end",
     NO_TOOLS},
    {"llama-cpp-rwkv-world.jinja", "none", "think", "", "", NO_CALLS},
    {"meetkai-functionary-medium-v3.2.jinja", "functionary-v3.2", "none",
     "<|start_header_id|>assistant<|end_header_id|>\n\n", "<|eot_id|>", AS_STRING | HAS_TEXT},
    {"meta-llama-Llama-3.1-8B-Instruct.jinja", "llama-json", "none",
     "<|start_header_id|>assistant<|end_header_id|>\n\n", "<|eot_id|>", ONE_CALL},
    {"meta-llama-Llama-3.3-70B-Instruct.jinja", "llama-json", "none",
     "<|start_header_id|>assistant<|end_header_id|>\n\n", "<|eot_id|>", ONE_CALL},
    {"microsoft-Phi-3.5-mini-instruct.jinja", "none", "none", "", "", NO_CALLS},
    {"mistralai-Mistral-Nemo-Instruct-2407.jinja", "mistral-list", "none", "[/INST]", "</s>", 0},
    {"moonshotai-Kimi-K2.jinja", "kimi", "none", "<|im_assistant|>assistant<|im_middle|>",
     "<|im_end|>", HAS_TEXT},
    {"openbmb-MiniCPM5-1B.jinja", "minicpm", "think", "<|im_start|>assistant\n", "<|im_end|>",
     HAS_TEXT | HAS_THINK},
    {"poolside-Laguna-S-2.1.jinja", "glm", "think", "<assistant>", "</assistant>",
     HAS_TEXT | HAS_THINK},
    {"poolside-Laguna-XS.2.jinja", "glm", "think", "<assistant>\n", "\n</assistant>",
     HAS_TEXT | HAS_THINK},
    {"tencent-Hy3.jinja", "hunyuan", "hunyuan", "hy_Assistant:opensource\xEF\xBD\x9C>",
     "<\xEF\xBD\x9C"
     "hy_eos",
     HAS_TEXT | HAS_THINK},
    {"unsloth-mistral-Devstral-Small-2507.jinja", "mistral-args", "none", "[/INST]", "</s>",
     HAS_TEXT},
    {"upstage-Solar-Open-100B.jinja", "solar", "solar", "<|begin|>assistant", "", HAS_THINK},
    // of recorded/
    {"blanks.jinja", "none", "none", "", "", NO_CALLS},
    {"brackets.jinja", "none", "none", "", "", NO_CALLS},
    {"headers.jinja", "json", "none", "", "", NO_CALLS},
    {"thinking.jinja", "json", "think", "", "", NO_CALLS},
    {"turns.jinja", "none", "none", "", "", NO_CALLS},
};

static const char *folders_at(size_t i)
{
    return i == 0 ? assets_path("chat/templates")
                  : WEFT_SOURCE_DIR "/tests/runtime/recorded/templates";
}

static const char question[] = "Weather, please?", answer[] = "Let me look.",
                  thought[] = "They ask\nfor weather.";

static struct text file_text(const char *folder, const char *name)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    if (!file)
        return text_span(NULL, 0);
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    rewind(file);
    char *at = test_malloc((size_t)size + 1);
    size_t bytes = fread(at, 1, (size_t)size, file);
    fclose(file);
    return text_span(at, bytes);
}

static struct text template_text(const struct row *row)
{
    struct text source = file_text(folders_at(0), row->file);
    return source.at ? source : file_text(folders_at(1), row->file);
}

static const struct row *row_of(const char *file)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].file, file) == 0)
            return &rows[i];
    return NULL;
}

static void test_dialects_of_all_templates(void **state)
{
    (void)state;
    unsigned wrong = 0, seen = 0;
    for (size_t f = 0; f < 2; f++) {
        DIR *folder = opendir(folders_at(f));
        if (!folder && f == 0)
            printf("%s: not there, so its templates are left out\n", folders_at(f));
        for (struct dirent *entry; folder && (entry = readdir(folder));) {
            if (entry->d_name[0] == '.' || !strstr(entry->d_name, ".jinja"))
                continue;
            struct text source = file_text(folders_at(f), entry->d_name);
            const struct row *row = row_of(entry->d_name);
            struct dialect d;
            struct error err;
            assert_int_equal(dialect_detect(&d, source, NULL, &err), STATUS_OK);
            seen++;
            if (!row || strcmp(row->dialect, dialect_name(&d)) != 0 ||
                strcmp(row->reasoning, dialect_reasoning_name(&d)) != 0) {
                print_error("%s: %s, %s\n", entry->d_name, dialect_name(&d),
                            dialect_reasoning_name(&d));
                wrong++;
            }
            test_free((void *)source.at);
        }
        if (folder)
            closedir(folder);
    }
    assert_int_equal(wrong, 0);
    assert_true(seen >= 5);
}

// --- the tools and the calls of the rendered message ---

static const char tools_source[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"get_weather\", \"description\":"
    " \"Weather of a city\", \"parameters\": {\"type\": \"object\", \"properties\": {\"city\":"
    " {\"type\": \"string\", \"description\": \"Its name\"}, \"days\": {\"type\": \"array\","
    " \"items\": {\"type\": \"object\", \"properties\": {\"d\": {\"type\": \"integer\"}, \"w\":"
    " {\"type\": \"string\"}}}}, \"at\": {\"type\": \"number\"}, \"on\": {\"type\":"
    " \"boolean\"}, \"deep\": {\"type\": \"object\", \"properties\": {\"x\": {\"type\": \"object\","
    " \"properties\": {\"y\": {\"type\": \"string\"}}}}}, \"none\": {\"type\":"
    " \"null\"}, \"zip\": {\"type\": \"string\"}}, \"required\": [\"city\"]}}},"
    " {\"type\": \"function\", \"function\": {\"name\": \"stop\", \"description\": \"Stops\","
    " \"parameters\": {\"type\": \"object\", \"properties\": {\"why\": {\"type\": \"string\"}}}}}]";

static const char arguments_flat[] =
    "{\"city\": \"\\u0141\\u00f3d\\u017a \\ud83d\\ude00 {x} [y]\", \"at\": -1.5, \"on\": true,"
    " \"zip\": \"00123\"}";
static const char arguments_deep[] =
    "{\"city\": \"\\u0141\\u00f3d\\u017a \\ud83d\\ude00 \\\"q\\\" </tool_call> {x} [y], "
    "a=b\\nline\","
    " \"days\": [{\"d\": 1, \"w\": \"rain\"}, {\"d\": 2, \"w\": \"</function>\"}], \"at\": -1.5,"
    " \"on\": true, \"deep\": {\"x\": {\"y\": \"z, w\"}}, \"none\": null, \"zip\": \"00123\"}";

static json_t *call_make(const struct row *row, const char *name, const char *id,
                         const char *arguments)
{
    json_t *value = json_loads(arguments, 0, NULL);
    assert_non_null(value);
    if ((row->flags & NO_NULL) != 0)
        json_object_del(value, "none");
    if ((row->flags & AS_STRING) != 0) {
        char *text = json_dumps(value, JSON_COMPACT);
        json_decref(value);
        value = json_string(text);
        free(text);
    }
    return json_pack("{s:s, s:s, s:{s:s, s:o}}", "id", id, "type", "function", "function", "name",
                     name, "arguments", value);
}

static json_t *variables_make(const struct row *row, bool two)
{
    const char *arguments = (row->flags & FLAT) != 0 ? arguments_flat : arguments_deep;
    json_t *calls = json_pack("[o]", call_make(row, "get_weather", "call00001", arguments));
    if (two)
        json_array_append_new(calls, call_make(row, "stop", "call00002", "{\"why\": \"x\"}"));
    json_t *variables =
        json_pack("{s:s, s:s, s:b, s:b, s:b, s:b, s:[{s:s, s:s}]}", "bos_token", "<s>", "eos_token",
                  "</s>", "add_generation_prompt", 0, "enable_thinking", 1, "thinking", 1,
                  "reasoning", 1, "messages", "role", "user", "content", question);
    json_t *assistant = json_pack("{s:s, s:s, s:s, s:s, s:s, s:o}", "role", "assistant", "content",
                                  answer, "reasoning_content", thought, "reasoning", thought,
                                  "thinking", thought, "tool_calls", calls);
    if ((row->flags & (HAS_TEXT | AS_STRING)) == 0) // some templates accept either content or calls
        json_object_set_new(assistant, "content", json_string(""));
    json_array_append_new(json_object_get(variables, "messages"), assistant);
    if ((row->flags & FOLLOWED) != 0)
        json_array_append_new(json_object_get(variables, "messages"),
                              json_pack("{s:s, s:s, s:s}", "role", "tool", "tool_call_id",
                                        "call00001", "content", "{}"));
    if ((row->flags & NO_TOOLS) == 0)
        json_object_set_new(variables, "tools", json_loads(tools_source, 0, NULL));
    return variables;
}

static struct text render(const struct row *row, const json_t *variables, struct arena *arena)
{
    static const char *const trusted[] = {"bos_token", "eos_token"};
    struct text source = template_text(row);
    struct chat_template *chat;
    struct chat_output out = {0};
    struct error err = {0};
    assert_int_equal(chat_template_create(&chat, source, &err), STATUS_OK);
    test_free((void *)source.at);
    const struct chat_input in = {
        .variables = variables, .trusted = trusted, .trusted_count = 2, .now = NOW};
    if (chat_render(chat, &in, arena, &out, &err) != STATUS_OK)
        fail_msg("%s: %s", row->file, err.text);
    chat_template_destroy(chat);
    return out.text;
}

static const char *find(struct text in, const char *what)
{
    return memmem(in.at, in.bytes, what, strlen(what));
}

// Returns the reply in a rendered conversation, from the head after the question to the tail.
static struct text reply_in(const struct row *row, const struct dialect *d, struct text rendered)
{
    const char *at = find(rendered, question), *end = rendered.at + rendered.bytes;
    assert_non_null(at);
    at = find(text_span(at, (size_t)(end - at)), row->head);
    if (!at)
        fail_msg("%s: %.*s", row->file, (int)rendered.bytes, rendered.at);
    at += strlen(row->head);
    if (*row->tail) {
        const char *tail = find(text_span(at, (size_t)(end - at)), row->tail);
        end = tail ? tail : end; // the last message may have no tail
    }
    // A close without reasoning belongs to the prompt.
    const char *close = dialect_reasoning_syntax(d).close;
    if (close && strncmp(at, close, strlen(close)) == 0)
        at += strlen(close);
    return text_span(at, (size_t)(end - at));
}

// Reads a reply into {"text", "think", "calls": [[name, arguments]]}.
static json_t *message_of(const struct reply_args *args, struct text reply)
{
    json_t *message = json_pack("{s:s, s:s, s:[]}", "text", "", "think", "", "calls");
    json_t *calls = json_object_get(message, "calls");
    struct json_buffer arguments = {0};
    struct reply *r = reply_create(args);
    for (int step = 0; step < 2; step++) {
        uint32_t count;
        const struct reply_event *events =
            step == 0 ? reply_feed(r, reply, false, &count) : reply_finish(r, &count);
        for (uint32_t i = 0; i < count; i++) {
            const struct reply_event *e = &events[i];
            if (e->kind == REPLY_TEXT || e->kind == REPLY_REASONING) {
                const char *key = e->kind == REPLY_TEXT ? "text" : "think";
                char whole[4096];
                snprintf(whole, sizeof whole, "%s%.*s",
                         json_string_value(json_object_get(message, key)), (int)e->text.bytes,
                         e->text.at);
                json_object_set_new(message, key, json_string(whole));
            } else if (e->kind == REPLY_CALL) {
                json_array_append_new(calls, json_pack("[s%]", e->text.at, e->text.bytes));
                arguments.bytes = 0;
            } else if (e->kind == REPLY_ARGUMENTS) {
                json_put_raw(&arguments, e->text);
            } else if (e->kind == REPLY_CALL_END) {
                json_t *value = json_loadb(arguments.at, arguments.bytes, 0, NULL);
                json_array_append_new(json_array_get(calls, e->call), value ? value : json_null());
                if (!e->complete)
                    json_object_set_new(message, "broken", json_true());
            }
        }
    }
    reply_destroy(r);
    json_buffer_free(&arguments);
    return message;
}

static json_t *message_wanted(const struct row *row, const json_t *variables)
{
    json_t *message =
        json_pack("{s:s, s:s, s:[]}", "text", (row->flags & HAS_TEXT) != 0 ? answer : "", "think",
                  (row->flags & HAS_THINK) != 0 ? thought : "", "calls");
    const json_t *assistant = json_array_get(json_object_get(variables, "messages"), 1);
    const json_t *calls = json_object_get(assistant, "tool_calls");
    for (size_t i = 0; i < json_array_size(calls); i++) {
        const json_t *function = json_object_get(json_array_get(calls, i), "function");
        json_t *arguments = json_incref(json_object_get(function, "arguments"));
        if (json_is_string(arguments)) {
            json_t *value = json_loads(json_string_value(arguments), 0, NULL);
            json_decref(arguments);
            arguments = value;
        }
        json_array_append_new(json_object_get(message, "calls"),
                              json_pack("[O, o]", json_object_get(function, "name"), arguments));
    }
    return message;
}

static unsigned random_below(uint64_t *seed, unsigned below)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(*seed >> 33) % below;
}

// Checks that the events are the same for every cut into two pieces, single bytes, and random_cuts
// random cuts.
static void same_under_cuts(const struct row *row, const struct reply_args *args, struct text reply,
                            size_t random_cuts)
{
    struct json_buffer whole = {0}, cut = {0};
    unsigned char *after = test_calloc(reply.bytes + 1, 1);
    struct text want = rig_read(args, reply, (struct cuts){NULL}, &whole);
    uint64_t seed = 1;
    for (size_t i = 0; i <= reply.bytes + random_cuts; i++) {
        for (size_t at = 0; at < reply.bytes; at++) {
            bool random = i > reply.bytes && random_below(&seed, 8) == 0;
            after[at] = i == reply.bytes || at == i || random;
        }
        struct text have = rig_read(args, reply, (struct cuts){after}, &cut);
        if (!text_equal(have, want))
            fail_msg("%s, cut %zu:\n%.*s\n%.*s", row->file, i, (int)have.bytes, have.at,
                     (int)want.bytes, want.at);
    }
    test_free(after);
    json_buffer_free(&whole);
    json_buffer_free(&cut);
}

static void round_trip(const struct row *row, bool two, bool cuts, struct arena *arena)
{
    struct text source = template_text(row);
    struct dialect plain, special;
    arena_reset(arena);
    json_t *variables = variables_make(row, two);
    struct error err;
    assert_int_equal(dialect_detect(&plain, source, NULL, &err), STATUS_OK);
    struct text reply = reply_in(row, &plain, render(row, variables, arena));
    struct tokenizer *t = rig_tokenizer(reply);
    assert_int_equal(dialect_detect(&special, source, t, &err), STATUS_OK);
    json_t *tools = json_loads(tools_source, 0, NULL), *want = message_wanted(row, variables);
    struct reply_args args = {.dialect = &plain, .calls = true, .reasoning = true, .tools = tools};
    if ((row->flags & BEGUN) != 0)
        args.start = DIALECT_START_REASONING;
    json_t *have = message_of(&args, reply);
    if (!json_equal(have, want))
        fail_msg("%s\n%.*s\n%s\n%s", row->file, (int)reply.bytes, reply.at,
                 json_dumps(have, JSON_SORT_KEYS), json_dumps(want, JSON_SORT_KEYS));
    json_decref(have);
    if (cuts)
        same_under_cuts(row, &args, reply, RANDOM_CUTS);
    args.dialect = &special;
    struct json_buffer one = {0}, other = {0};
    rig_read(&args, reply, (struct cuts){NULL}, &one);
    args.dialect = &plain;
    rig_read(&args, reply, (struct cuts){NULL}, &other);
    if (!text_equal(text_span(one.at, one.bytes), text_span(other.at, other.bytes)))
        fail_msg("%s with special tokens:\n%.*s\n%.*s", row->file, (int)one.bytes, one.at,
                 (int)other.bytes, other.at);
    args.dialect = &special;
    if (cuts)
        same_under_cuts(row, &args, reply, 0);
    json_buffer_free(&one);
    json_buffer_free(&other);
    tokenizer_close(t);
    json_decref(want);
    json_decref(tools);
    json_decref(variables);
    test_free((void *)source.at);
}

static void test_rendered_messages_are_read_back(void **state)
{
    (void)state;
    struct arena *arena = arena_create(0, 256u * 1024 * 1024);
    unsigned count = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct text source = template_text(&rows[i]);
        bool there = source.at;
        test_free((void *)source.at);
        if (!there || (rows[i].flags & NO_CALLS) != 0)
            continue;
        bool one = (rows[i].flags & ONE_CALL) != 0;
        round_trip(&rows[i], false, one, arena);
        if (!one)
            round_trip(&rows[i], true, true, arena);
        count++;
    }
    printf("%u templates\n", count);
    arena_destroy(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dialects_of_all_templates),
        cmocka_unit_test(test_rendered_messages_are_read_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
